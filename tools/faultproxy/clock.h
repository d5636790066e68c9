/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time in microseconds, and numbers that repeat with their seed. */
#ifndef SN_TOOLS_FAULTPROXY_CLOCK_H
#define SN_TOOLS_FAULTPROXY_CLOCK_H

#include <stdint.h>

#define FP_NEVER     INT64_MAX
#define FP_US_PER_MS 1000
#define FP_US_PER_S  1000000

int64_t fp_now_us(void);

/* Makes *wake_us earlier. */
void fp_wake_at(int64_t *wake_us, int64_t at_us);

struct fp_random {
    uint64_t state;
};

/* Each direction of each connection has numbers of its own: whatever else goes on, the Nth datagram of a direction
 * meets the same fate. */
void fp_random_init(struct fp_random *random, uint64_t seed, uint64_t number, unsigned direction);
/* 0 .. limit - 1; 0 when the limit is 0. */
uint64_t fp_random_below(struct fp_random *random, uint64_t limit);

#endif
