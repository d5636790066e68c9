/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics are declared in one table per module or plugin; the table generates the registry and the
 * reference page. Names are lower case with dots, the unit is the last word: tunnel.sent_bytes.
 */
#ifndef SN_METRICS_H
#define SN_METRICS_H

#include <stdint.h>

#define SN_METRIC_COUNTER 1u /* only grows */
#define SN_METRIC_GAUGE   2u /* goes up and down */

struct sn_metric_desc {
    const char *name; /* NULL ends a table */
    uint32_t kind;
    const char *help;
};

#endif
