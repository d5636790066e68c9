/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: length and every byte follow from the plan and the number, so one altered bit is noticed. */
#include "payload.h"

#include <string.h>

#define FRACTION_BITS 20u

/* splitmix64: enough to tell bytes apart; nobody attacks a soak. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void put_u64(uint8_t *out, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (unsigned i = 8; i > 0; i--) value = value << 8 | bytes[i - 1];
    return value;
}

uint64_t sni_soak_key(uint64_t seed, uint64_t run, const char *sender)
{
    uint64_t state = seed;
    uint64_t key = draw(&state) ^ run;
    key = draw(&key);
    for (; *sender != '\0'; sender++) key = (key ^ (uint8_t)*sender) * 0x100000001b3u;
    return key;
}

static uint64_t start_of(const struct soak_plan *plan, uint64_t number)
{
    uint64_t state = plan->key ^ number * 0xd1342543de82ef95u;
    return draw(&state);
}

/* A place on the scale where size_min is 0, size_max + 1 the end, and each octave one unit; inside an octave it is
 * linear. */
uint32_t sni_soak_size(const struct soak_plan *plan, uint64_t number)
{
    uint64_t state = start_of(plan, number);
    uint64_t min = plan->size_min;
    uint64_t end = (uint64_t)plan->size_max + 1;
    uint64_t octaves = 0;
    while (min << (octaves + 1) <= end) octaves++;
    uint64_t base = min << octaves;
    uint64_t scale = (octaves << FRACTION_BITS) + ((end - base) << FRACTION_BITS) / base;
    uint64_t at = draw(&state) % scale; /* not 0: a size is far below 1 << FRACTION_BITS */
    uint64_t octave = at >> FRACTION_BITS;
    uint64_t fraction = at & ((1u << FRACTION_BITS) - 1);
    return (uint32_t)((min << octave) + (((min << octave) * fraction) >> FRACTION_BITS));
}

/* Writes to `out`, or compares with `bytes` when that is given; nonzero when equal. */
static int run_body(uint64_t state, const uint8_t *bytes, uint8_t *out, uint32_t size)
{
    while (size > 0) {
        uint8_t chunk[8];
        uint32_t step = size < sizeof chunk ? size : (uint32_t)sizeof chunk;
        put_u64(chunk, draw(&state));
        if (bytes != NULL) {
            if (memcmp(bytes, chunk, step) != 0) return 0;
            bytes += step;
        } else {
            memcpy(out, chunk, step);
            out += step;
        }
        size -= step;
    }
    return 1;
}

void sni_soak_write(const struct soak_plan *plan, uint64_t number, uint8_t *out)
{
    uint32_t size = sni_soak_size(plan, number);
    put_u64(out, number);
    put_u64(out + 8, plan->run);
    (void)run_body(~start_of(plan, number), NULL, out + SOAK_HEAD_BYTES,
                   size - SOAK_HEAD_BYTES); /* writing is always equal */
}

uint64_t sni_soak_number(const struct soak_plan *plan, const uint8_t *bytes, uint32_t size)
{
    if (size < SOAK_HEAD_BYTES || get_u64(bytes + 8) != plan->run) return UINT64_MAX;
    return get_u64(bytes);
}

int sni_soak_matches(const struct soak_plan *plan, uint64_t number, const uint8_t *bytes,
                     uint32_t size)
{
    if (size != sni_soak_size(plan, number) || sni_soak_number(plan, bytes, size) != number) {
        return 0;
    }
    return run_body(~start_of(plan, number), bytes + SOAK_HEAD_BYTES, NULL, size - SOAK_HEAD_BYTES);
}
