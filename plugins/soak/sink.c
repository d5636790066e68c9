/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: every message is counted in exactly one of received, doubled and altered; a reordered one also there. */
#include "soak.h"

void sni_soak_sink_take(struct soak_sink *sink, const uint8_t *bytes, uint32_t size)
{
    uint64_t number = sni_soak_number(&sink->plan, bytes, size);
    if (number >= sink->plan.messages || !sni_soak_matches(&sink->plan, number, bytes, size)) {
        sink->altered++;
        return;
    }
    uint8_t *byte = &sink->seen[number / 8];
    uint8_t bit = (uint8_t)(1u << (number % 8));
    if ((*byte & bit) != 0) {
        sink->doubled++;
        return;
    }
    *byte |= bit;
    sink->received++;
    /* A gap is no disorder: what is missing shows in `received`, or comes later and is counted then. */
    if (number < sink->next) {
        sink->reordered++;
    } else {
        sink->next = (uint32_t)number + 1;
    }
}
