/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parcel from the link, before anything about it is known. The receiver has the keys of the corpus's parcels,
 * so that these go all the way; anything else must change nothing.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "delivery/delivery.h"

struct ends {
    struct sn_key *key_a, *key_b;
    struct sn_boot_key *boot_a, *boot_b;
    struct sn_seal_end a, b;
};

static void must(enum sn_err err)
{
    if (err != SN_OK) abort();
}

static void end_init(struct sn_seal_end *end, uint8_t first, struct sn_key **key,
                     struct sn_boot_key **boot)
{
    uint8_t seed[32];
    for (unsigned i = 0; i < sizeof seed; i++) seed[i] = (uint8_t)(first + i);
    must(sn_key_from_seed(seed, key));
    for (unsigned i = 0; i < sizeof seed; i++) seed[i] = (uint8_t)(first + 0x40 + i);
    must(sn_boot_key_from_seed(seed, boot));
    end->id = sn_key_id(*key);
    end->epoch = 7;
    sn_boot_key_public(*boot, end->boot_public);
}

static void fill(void *arg, void *out, size_t size)
{
    (void)arg;
    memset(out, 7, size);
}

static enum sn_reason deliver(void *arg, const struct sn_incoming *incoming)
{
    *(unsigned *)arg += 1;
    return incoming->payload_size > 8 ? SN_REASON_MAILBOX_FULL : SN_REASON_NONE;
}

static void outcome(void *arg, struct sn_letter *letter, enum sn_outcome how, enum sn_reason why)
{
    (void)arg;
    (void)letter;
    (void)how;
    (void)why;
    abort(); /* nothing was sent */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ends ends; /* made once: half of the time otherwise */
    static const struct sn_delivery_ops ops = {.deliver = deliver, .outcome = outcome};
    if (ends.key_a == NULL) {
        must(sn_crypto_init());
        end_init(&ends.a, 0x01, &ends.key_a, &ends.boot_a);
        end_init(&ends.b, 0x81, &ends.key_b, &ends.boot_b);
    }
    if (size == 0 || size > SN_PARCEL_BYTES_MAX + 1) return 0;
    unsigned placed = 0;
    struct sn_delivery *delivery;
    struct sn_delivery_config config = {
        .ops = &ops,
        .arg = &placed,
        .key = ends.key_b,
        .boot_key = ends.boot_b,
        .self = ends.b,
        .peer_id = ends.a.id,
        .random = fill,
        .window_bytes = 1,
        .resend_ns = 1,
    };
    must(sn_delivery_new(&config, &delivery));
    must(sn_delivery_peer_up(delivery, &ends.a, 1));
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        uint8_t *copy = malloc(size); /* exactly, for the sanitizer */
        if (copy == NULL) abort();
        memcpy(copy, data, size);
        enum sn_err err = sn_delivery_input(delivery, (enum sn_class)i, copy, (uint32_t)size, 1);
        if (err != SN_OK && (placed > 0 || !sn_delivery_is_idle(delivery))) {
            if (err != SN_EMISMATCH) abort(); /* the other class was its own */
        }
        free(copy);
    }
    sn_delivery_free(delivery);
    return 0;
}
