/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a message of a benchmark holds, the same for every program that is measured: its number, then bytes that are
 * always the same. So a receiver notices a message that is missing, doubled, out of order or altered.
 */
#ifndef SN_TOOLS_BENCHMARKS_PAYLOAD_H
#define SN_TOOLS_BENCHMARKS_PAYLOAD_H

#include <stdint.h>
#include <string.h>
#include <time.h>

#define BENCH_SIZE_MIN 16u
#define BENCH_SIZE_MAX 65536u

static inline void bench_fill(uint8_t *message, uint32_t size)
{
    memset(message, 0, sizeof(uint64_t));
    for (uint32_t i = sizeof(uint64_t); i < size; i++) message[i] = (uint8_t)(i * 131u + 7u);
}

static inline void bench_number(uint8_t *message, uint64_t number)
{
    memcpy(message, &number, sizeof number);
}

/* Nonzero when it is exactly the number-th message; `filled` comes from bench_fill with the size that is expected. */
static inline int bench_is(const uint8_t *message, size_t size, uint64_t number,
                           const uint8_t *filled, size_t filled_size)
{
    return size == filled_size && memcmp(message, &number, sizeof number) == 0 &&
           memcmp(message + sizeof number, filled + sizeof number, size - sizeof number) == 0;
}

static inline uint64_t bench_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* this clock is always there */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
