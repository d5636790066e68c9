/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a fleet to the file of one of its agents.
 * Thread-safe: yes. Blocking: no; no I/O.
 */
#ifndef SN_CONFIG_RENDER_H
#define SN_CONFIG_RENDER_H

#include <stdint.h>

#include "config/fleet.h"

struct sn_render {
    const struct sn_fleet *fleet;   /* all borrowed until return */
    uint32_t agent;                 /* index in fleet->agents */
    const char *const *authorities; /* public keys as text, at least one */
    uint32_t authority_count;
    /* Public key as text for each agent of the fleet, NULL where the caller knows none; where the
     * fleet itself gives a key, that one is taken. NULL: none is known. */
    const char *const *keys;
};

/* The text of agent.yaml: names agent.cert, node.key, data and run beside it. It parses with
 * sn_agent_file_parse without findings. The caller frees it with sn_strfree. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sn_fleet_render(const struct sn_render *render, char **out_text);

#endif
