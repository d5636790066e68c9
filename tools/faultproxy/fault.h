/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults of one direction: plain data. They add up (a delay and a rate, say); `pass` clears them.
 */
#ifndef SN_TOOLS_FAULTPROXY_FAULT_H
#define SN_TOOLS_FAULTPROXY_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/faultproxy/clock.h"

struct fp_command;
struct fp_text;

enum fp_hold { FP_FLOW, FP_HOLE, FP_DISCARD };

struct fp_fault {
    enum fp_hold hold;
    uint64_t delay_us;
    uint64_t jitter_us;
    uint64_t rate; /* bytes per second; 0 = no limit, as below */
    uint64_t drip_bytes;
    uint64_t drip_us;
    uint64_t split_bytes;
    uint64_t merge_us;
    bool has_cut;
    uint64_t cut_left;
    bool has_flip;
    uint64_t flip_at;
    uint64_t loss; /* millionths */
    uint64_t dup;
    uint64_t reorder;
    uint64_t reorder_us;
};

/* Takes over what a command says; commands that are no faults change nothing. */
void fp_fault_apply(struct fp_fault *fault, const struct fp_command *command);
/* Random; when a byte that is read now is due. 0 without a delay. */
int64_t fp_fault_due(const struct fp_fault *fault, struct fp_random *random, int64_t now_us);
/* As the commands that would make it, joined by commas; "pass" when there are none. */
void fp_fault_print(const struct fp_fault *fault, struct fp_text *out);

#endif
