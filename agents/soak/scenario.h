/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A soak scenario: which kind, how often, how much. Read from YAML, strictly.
 * Thread-safe: yes (values). Blocking: no; no I/O.
 */
#ifndef SN_AGENTS_SOAK_SCENARIO_H
#define SN_AGENTS_SOAK_SCENARIO_H

#include "config/finding.h"

#define SN_SOAK_BUSY_MAX  64u
#define SN_SOAK_BYTES_MAX (256 * 1024 * 1024) /* the runner holds what it sends and what it gets */

enum sn_soak_kind { SN_SOAK_DELIVERY = 1, SN_SOAK_TUNNEL = 2 };

struct sn_scenario {
    enum sn_soak_kind kind;
    uint32_t starts; /* cold starts; in a tunnel scenario each is one transfer */
    uint32_t messages;
    uint32_t size_min;
    uint32_t size_max;
    uint8_t is_control;      /* class of the messages */
    uint8_t is_dialed_both;  /* the hub dials the edge, too */
    uint32_t bytes;          /* each way */
    uint32_t target_late_ms; /* the target listens only so long after the client connected */
    uint32_t busy;           /* processes that keep a processor busy */
    uint32_t timeout_ms;     /* of one start, from its processes to its last message */
};

extern const struct sn_config_field sn_soak_delivery_fields[];
extern const struct sn_config_field sn_soak_tunnel_fields[];

/* Errors: EINVAL (findings were added), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_scenario_parse(const void *bytes, size_t size, const char *file,
                                            struct sn_findings *findings,
                                            struct sn_scenario *out_scenario);
const char *sn_soak_kind_name(enum sn_soak_kind kind);

#endif
