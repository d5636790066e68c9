/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures that are followed while a soak runs. Thread-safe: no. Blocking: no; no I/O.
 */
#ifndef SN_AGENTS_SOAK_TRACK_H
#define SN_AGENTS_SOAK_TRACK_H

#include "agents/soak/verdict.h"

/* The longest time without progress while there could have been some. */
struct sn_gap {
    uint64_t value;
    uint64_t since_ns; /* of the last progress */
    uint64_t longest_ns;
};

/* Waits from now on. */
void sn_gap_start(struct sn_gap *gap, uint64_t value, uint64_t now_ns);
/* Looks at the value. Only time since good_since_ns counts; 0 = there is none, for the link is down. */
void sn_gap_note(struct sn_gap *gap, uint64_t value, uint64_t now_ns, uint64_t good_since_ns);

/* What an agent has now. */
struct sn_soak_sample {
    uint64_t resident_bytes;
    uint64_t descriptors;
    uint64_t log_bytes;
};

void sn_track_sample(struct sn_soak_usage *usage, const struct sn_soak_sample *sample,
                     int is_second_half);
/* The agent has rested for as long as it takes to give memory back. */
void sn_track_rest(struct sn_soak_usage *usage, const struct sn_soak_sample *sample,
                   int is_second_half);
uint64_t sn_track_per_hour(uint64_t bytes, uint64_t ms);
/* Notes a failure for each limit of the scenario that the figures exceed. */
void sn_track_judge(struct sn_soak_verdict *verdict, const struct sn_soak_figures *figures);

#endif
