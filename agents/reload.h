/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A changed agent file for an agent that runs: forwards, targets and whatever else plugins are configured with, access
 * rules and links. Everything else needs a restart, and refuses the reload.
 *
 * Guarantee: a file that is refused changes nothing.
 * Threads: home; the file is read and checked on a pool. Blocking: no.
 */
#ifndef SN_AGENTS_RELOAD_H
#define SN_AGENTS_RELOAD_H

#include "agents/agent.h"

struct sn_reload;

/* What became of it. Borrowed until `done` returns. */
struct sn_reload_result {
    int status; /* an exit status: 0 applied, 1 failed, 2 refused */
    const struct sn_findings *findings;
    const char *text; /* of a failure */
};

/* Starts; done(arg, ...) comes on home. Errors: ESTATE (one is under way, or the agent drains), ENOMEM, EFULL. */
SN_MUST_CHECK enum sn_err sn_agent_reload(struct sn_agent *agent,
                                          void (*done)(void *arg,
                                                       const struct sn_reload_result *result),
                                          void *arg);
/* For SIGHUP: as sn_agent_reload, the outcome is logged. */
void sn_agent_reload_logged(struct sn_agent *agent);
/* Main thread, at the end: before the system is stopped, waits until no pool works on one any more; then gives up one
 * that is under way. */
void sn_agent_reload_wait(struct sn_agent *agent);
void sn_agent_reload_abandon(struct sn_agent *agent);

#endif
