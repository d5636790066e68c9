/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tunables of an agent. They stand at the top of an agent file and under `settings:` in a
 * fleet, where those of an agent override those of the fleet.
 * Thread-safe: yes. Blocking: no.
 */
#ifndef SN_CONFIG_SETTINGS_H
#define SN_CONFIG_SETTINGS_H

#include <stdint.h>

#include "config/finding.h"
#include "sennit/config.h"

struct sn_settings {
    const char *log_level;  /* debug, info, warn, error; borrowed from the tree, or static */
    const char *log_format; /* text, json */
    /* Which plugins may be loaded: own, listed, any. */
    const char *plugins_allow;
    uint32_t drain_ms;
    uint32_t workers; /* 0 = one a core */
    uint32_t memory_mib;
    uint32_t resume_ms;
    uint32_t heartbeat_interval_ms;
    uint32_t heartbeat_deadline_ms;
    uint32_t reconnect_min_ms;
    uint32_t reconnect_max_ms;
    uint32_t accept_handshakes;
    uint32_t accept_per_address;
    uint32_t accept_timeout_ms;
};

/* Table of all settings, for `settings:`. */
extern const struct sn_config_field sn_settings_fields[];

struct sn_settings sn_settings_default(void);

/* Overrides what `node`, validated, says; NULL changes nothing. */
void sn_settings_apply(struct sn_settings *settings, const struct sn_config_node *node);

/* Relations between values that a table cannot express; findings stand at `node`, or at the value
 * in it that is concerned. */
void sn_settings_check(const struct sn_settings *settings, const struct sn_config_node *node,
                       struct sn_findings *findings);

#endif
