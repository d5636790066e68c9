/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A soak scenario: which kind, how often, how much. Read from YAML, strictly.
 * Thread-safe: yes (values). Blocking: no; no I/O.
 */
#ifndef SN_AGENTS_SOAK_SCENARIO_H
#define SN_AGENTS_SOAK_SCENARIO_H

#include "config/finding.h"

#define SN_SOAK_BUSY_MAX 200u
#define SN_SOAK_REST_MS                                                                            \
    12000u /* sessions end within 5 s, and 5 s later their memory is given back */
#define SN_SOAK_BYTES_MAX (256 * 1024 * 1024) /* the runner holds what it sends and what it gets */

enum sn_soak_kind { SN_SOAK_DELIVERY = 1, SN_SOAK_TUNNEL = 2, SN_SOAK_FLAP = 3 };

/* How a link dies again and again, and what is asked of the agents meanwhile. A limit of 0 is none: the figure is
 * reported only. */
struct sn_soak_flap {
    uint32_t duration_ms; /* of deaths, rests included */
    uint32_t up_min_ms;   /* between two deaths the link is good for so long */
    uint32_t up_max_ms;
    uint32_t stop_min_ms; /* how long a link is a black hole */
    uint32_t stop_max_ms;
    uint32_t per_second; /* messages, in each direction */
    uint32_t link_kib;   /* a second, of each connection and direction; 0: as fast as it can */
    uint32_t gap_max_ms;
    uint32_t growth_max_kib; /* a rest to measure it at comes at the end of each half */
    uint32_t log_max_kib;    /* an hour */
};

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
    uint8_t is_steady;       /* the agents' one session must last */
    struct sn_soak_flap flap;
};

extern const struct sn_config_field sn_soak_delivery_fields[];
extern const struct sn_config_field sn_soak_tunnel_fields[];
extern const struct sn_config_field sn_soak_flap_fields[];

/* Errors: EINVAL (findings were added), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_scenario_parse(const void *bytes, size_t size, const char *file,
                                            struct sn_findings *findings,
                                            struct sn_scenario *out_scenario);
const char *sn_soak_kind_name(enum sn_soak_kind kind);

#endif
