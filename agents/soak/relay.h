/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link of a soak that can die: a process of its own between two agents, so that it can be killed and stopped like
 * one. Connections that it accepts are dialed on to the target, and bytes pass both ways, each way no faster than told.
 * SIGHUP closes one side of every connection and keeps the other one open, in which whatever comes is thrown away; the
 * next SIGHUP takes the other side.
 * Thread-safe: no; the work is done on a loop of its own. Blocking: as said.
 */
#ifndef SN_AGENTS_SOAK_RELAY_H
#define SN_AGENTS_SOAK_RELAY_H

#include "env/env.h"

#define SN_RELAY_PAIRS_MAX 32u /* connections; whoever comes beyond that is turned away */
#define SN_RELAY_NEAR      0u  /* who dials the relay */
#define SN_RELAY_FAR       1u  /* whom the relay dials */

struct sn_relay;

struct sn_relay_config {
    uint16_t port;      /* of 127.0.0.1, where it listens */
    uint16_t to_port;   /* of the target there */
    uint8_t first_side; /* that SIGHUP closes first */
    uint32_t kib;       /* a second, of each connection and direction; 0: no limit */
};

/* It listens when this returns. One relay in a process; SIGTERM unparks the main thread. Errors: as sn_env_listen;
 * ENOMEM, ESTATE. */
SN_MUST_CHECK enum sn_err sn_relay_new(struct sn_env *env, const struct sn_relay_config *config,
                                       struct sn_relay **out_relay);
void sn_relay_free(struct sn_relay *relay);

#endif
