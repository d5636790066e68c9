/* SPDX-License-Identifier: Apache-2.0 */
/* What the proxy counts. Plain data; the totals never go back. */
#ifndef SN_TOOLS_FAULTPROXY_STATS_H
#define SN_TOOLS_FAULTPROXY_STATS_H

#include <stdint.h>

#include "tools/faultproxy/command.h"

struct fp_text;

struct fp_stats {
    uint64_t connections_now;
    uint64_t connections_total;
    uint64_t refused;
    uint64_t unreachable; /* the server could not be reached */
    uint64_t resets;      /* by the commands reset and cut */
    uint64_t read[FP_DIRECTIONS];
    uint64_t bytes[FP_DIRECTIONS];
    uint64_t writes[FP_DIRECTIONS];
    uint64_t drops[FP_DIRECTIONS];
    uint64_t dups[FP_DIRECTIONS];
};

/* As key=value, joined by blanks. */
void fp_stats_print(const struct fp_stats *stats, struct fp_text *out);
/* For --help. */
void fp_stats_print_help(struct fp_text *out);

#endif
