/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins of one agent file: found beside the program, loaded, their configuration checked. Blocking: yes. */
#ifndef SN_AGENTS_PLUGINS_H
#define SN_AGENTS_PLUGINS_H

#include "actor/system.h"
#include "config/agent_file.h"
#include "env/env.h"
#include "plugin/loader.h"

#define SN_PLUGINS_MAX 32u

struct sn_plugin_set {
    const struct sn_plugin *plugins[SN_PLUGINS_MAX]; /* in the order of the file; loaded for ever */
    uint32_t count;
};

/* Errors: EINVAL (findings were added), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_plugins_load(struct sn_env *env, const struct sn_agent_file *file,
                                          struct sn_findings *findings,
                                          struct sn_plugin_set *out_set);
/* Registers the metrics and spawns the actors. Before the system starts. */
SN_MUST_CHECK enum sn_err sn_plugins_spawn(const struct sn_plugin_set *set,
                                           const struct sn_agent_file *file,
                                           struct sn_metrics *metrics, struct sn_system *system);

#endif
