/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/fault.h"

#include <inttypes.h>
#include <stddef.h>

#include "tools/faultproxy/command.h"
#include "tools/faultproxy/text.h"

void fp_fault_apply(struct fp_fault *fault, const struct fp_command *command)
{
    uint64_t first = command->values[0];
    uint64_t second = command->values[1];
    switch (command->verb) {
    case FP_PASS: *fault = (struct fp_fault){0}; break;
    case FP_BLACKHOLE: fault->hold = FP_HOLE; break;
    case FP_SWALLOW: fault->hold = FP_DISCARD; break;
    case FP_DELAY:
        fault->delay_us = first * FP_US_PER_MS;
        fault->jitter_us = second * FP_US_PER_MS;
        break;
    case FP_CUT:
        fault->has_cut = true;
        fault->cut_left = first;
        break;
    case FP_DRIP:
        fault->drip_bytes = first;
        fault->drip_us = second * FP_US_PER_MS;
        break;
    case FP_FLIP:
        fault->has_flip = true;
        fault->flip_at = first;
        break;
    case FP_SPLIT: fault->split_bytes = first; break;
    case FP_MERGE: fault->merge_us = first * FP_US_PER_MS; break;
    case FP_RATE: fault->rate = first; break;
    case FP_LOSS: fault->loss = first; break;
    case FP_DUP: fault->dup = first; break;
    case FP_REORDER:
        fault->reorder = first;
        fault->reorder_us = second * FP_US_PER_MS;
        break;
    default: break;
    }
}

int64_t fp_fault_due(const struct fp_fault *fault, struct fp_random *random, int64_t now_us)
{
    uint64_t jitter_us = fp_random_below(random, fault->jitter_us + 1);
    if (fault->delay_us == 0 && fault->jitter_us == 0) return 0;
    return now_us + (int64_t)(fault->delay_us + jitter_us);
}

static void print_percent(struct fp_text *out, const char *name, uint64_t millionths)
{
    if (millionths == 0) return;
    fp_text_add(out, "%s:%" PRIu64 ".%04" PRIu64 ",", name, millionths / 10000, millionths % 10000);
}

static void print_value(struct fp_text *out, const char *name, uint64_t value)
{
    if (value > 0) fp_text_add(out, "%s:%" PRIu64 ",", name, value);
}

void fp_fault_print(const struct fp_fault *fault, struct fp_text *out)
{
    size_t before = out->size;
    if (fault->hold == FP_HOLE) fp_text_add(out, "blackhole,");
    if (fault->hold == FP_DISCARD) fp_text_add(out, "swallow,");
    print_value(out, "delay", fault->delay_us / FP_US_PER_MS);
    print_value(out, "jitter", fault->jitter_us / FP_US_PER_MS);
    print_value(out, "rate", fault->rate);
    if (fault->drip_bytes > 0) {
        fp_text_add(out, "drip:%" PRIu64 ":%" PRIu64 ",", fault->drip_bytes,
                    fault->drip_us / FP_US_PER_MS);
    }
    print_value(out, "split", fault->split_bytes);
    print_value(out, "merge", fault->merge_us / FP_US_PER_MS);
    if (fault->has_cut) fp_text_add(out, "cut:%" PRIu64 ",", fault->cut_left);
    if (fault->has_flip) fp_text_add(out, "flip:%" PRIu64 ",", fault->flip_at);
    print_percent(out, "loss", fault->loss);
    print_percent(out, "dup", fault->dup);
    print_percent(out, "reorder", fault->reorder);
    if (out->size == before) {
        fp_text_add(out, "pass");
    } else {
        out->data[--out->size] = '\0'; /* the last comma */
    }
}
