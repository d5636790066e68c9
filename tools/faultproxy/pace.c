/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/pace.h"

#include "tools/faultproxy/clock.h"
#include "tools/faultproxy/fault.h"

#define UNIT FP_US_PER_S /* a byte in the bucket: one second of 1 byte per second */

void fp_pace_init(struct fp_pace *pace, int64_t now_us)
{
    *pace = (struct fp_pace){.tokens_at_us = now_us};
}

static void refill(struct fp_pace *pace, const struct fp_fault *fault, int64_t now_us)
{
    int64_t rate = (int64_t)fault->rate;
    int64_t passed_us = now_us - pace->tokens_at_us;
    if (passed_us > FP_US_PER_S) passed_us = FP_US_PER_S; /* fills it, and bounds the product */
    int64_t most = rate / 10 * UNIT;
    if (most < UNIT) most = UNIT;
    pace->tokens += rate * passed_us;
    if (pace->tokens > most) pace->tokens = most;
    pace->tokens_at_us = now_us;
}

static size_t smaller(size_t a, uint64_t b)
{
    return a < b ? a : (size_t)b;
}

static size_t allow_merge(struct fp_pace *pace, const struct fp_fault *fault, size_t ready,
                          int64_t now_us, int64_t *wake_us)
{
    if (pace->merge_left == 0) {
        if (pace->merge_at_us == 0) pace->merge_at_us = now_us + (int64_t)fault->merge_us;
        if (now_us < pace->merge_at_us) {
            fp_wake_at(wake_us, pace->merge_at_us);
            return 0;
        }
        pace->merge_left = ready;
    }
    return smaller(ready, pace->merge_left);
}

static size_t allow_rate(struct fp_pace *pace, const struct fp_fault *fault, size_t size,
                         int64_t now_us, int64_t *wake_us)
{
    refill(pace, fault, now_us);
    /* Not byte by byte: a hundredth of a second at least, unless there is less. */
    int64_t rate = (int64_t)fault->rate;
    int64_t wanted = (int64_t)smaller(size, rate < 100 ? 1 : fault->rate / 100) * UNIT;
    if (pace->tokens < wanted) {
        fp_wake_at(wake_us, now_us + (wanted - pace->tokens) / rate + 1);
        return 0;
    }
    return smaller(size, (uint64_t)(pace->tokens / UNIT));
}

size_t fp_pace_allow(struct fp_pace *pace, const struct fp_fault *fault, size_t ready,
                     int64_t now_us, int64_t *wake_us)
{
    size_t size = ready;
    if (size > 0 && fault->merge_us > 0) size = allow_merge(pace, fault, size, now_us, wake_us);
    if (size > 0 && fault->drip_bytes > 0) {
        if (now_us >= pace->drip_at_us) pace->drip_left = fault->drip_bytes;
        if (pace->drip_left == 0) fp_wake_at(wake_us, pace->drip_at_us);
        size = smaller(size, pace->drip_left);
    }
    if (size > 0 && fault->rate > 0) size = allow_rate(pace, fault, size, now_us, wake_us);
    return size;
}

void fp_pace_use(struct fp_pace *pace, const struct fp_fault *fault, size_t size, int64_t now_us)
{
    if (fault->merge_us > 0) {
        pace->merge_left -= size;
        if (pace->merge_left == 0) pace->merge_at_us = 0;
    }
    if (fault->drip_bytes > 0) {
        if (now_us >= pace->drip_at_us) pace->drip_at_us = now_us + (int64_t)fault->drip_us;
        pace->drip_left -= size;
    }
    if (fault->rate > 0) pace->tokens -= (int64_t)size * UNIT;
}

int fp_pace_allows_datagram(struct fp_pace *pace, const struct fp_fault *fault, int64_t now_us,
                            int64_t *wake_us)
{
    if (fault->rate == 0) return 1;
    refill(pace, fault, now_us);
    if (pace->tokens > 0) return 1;
    fp_wake_at(wake_us, now_us + -pace->tokens / (int64_t)fault->rate + 1);
    return 0;
}
