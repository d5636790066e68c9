/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/clock.h"

#include <time.h>

int64_t fp_now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
    return (int64_t)now.tv_sec * FP_US_PER_S + now.tv_nsec / 1000;
}

void fp_wake_at(int64_t *wake_us, int64_t at_us)
{
    if (at_us < *wake_us) *wake_us = at_us;
}

/* splitmix64 */
static uint64_t next(struct fp_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t value = random->state;
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

void fp_random_init(struct fp_random *random, uint64_t seed, uint64_t number, unsigned direction)
{
    random->state = seed;
    random->state = next(random) ^ (number * 2 + direction);
    random->state = next(random);
}

uint64_t fp_random_below(struct fp_random *random, uint64_t limit)
{
    uint64_t value = next(random);
    return limit == 0 ? 0 : value % limit;
}
