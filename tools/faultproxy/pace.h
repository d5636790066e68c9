/* SPDX-License-Identifier: Apache-2.0 */
/* When, and how much at a time: the state behind rate, drip and merge. */
#ifndef SN_TOOLS_FAULTPROXY_PACE_H
#define SN_TOOLS_FAULTPROXY_PACE_H

#include <stddef.h>
#include <stdint.h>

struct fp_fault;

struct fp_pace {
    int64_t tokens; /* millionths of bytes; below 0 = in debt */
    int64_t tokens_at_us;
    uint64_t drip_left;
    int64_t drip_at_us;  /* when there is a new portion */
    int64_t merge_at_us; /* 0 = nothing is being collected */
    size_t merge_left;   /* of what is written now */
};

/* The bucket is empty, a portion is due, nothing is being collected. */
void fp_pace_init(struct fp_pace *pace, int64_t now_us);
/* How many of the ready bytes may be written now. When fewer than all, *wake_us is made earlier if waiting helps. */
size_t fp_pace_allow(struct fp_pace *pace, const struct fp_fault *fault, size_t ready,
                     int64_t now_us, int64_t *wake_us);
/* That many of the allowed bytes were written, at the same time. */
void fp_pace_use(struct fp_pace *pace, const struct fp_fault *fault, size_t size, int64_t now_us);
/* Whether a datagram may be sent now, whatever its size: the bucket goes into debt. */
int fp_pace_allows_datagram(struct fp_pace *pace, const struct fp_fault *fault, int64_t now_us,
                            int64_t *wake_us);

#endif
