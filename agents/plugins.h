/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins of one agent file: found beside the program, loaded, their configuration checked. Blocking: yes. */
#ifndef SN_AGENTS_PLUGINS_H
#define SN_AGENTS_PLUGINS_H

#include "actor/system.h"
#include "config/agent_file.h"
#include "config/fleet.h"
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
/* One by its name. On failure out_text tells people why. Errors: as sn_plugin_load. */
SN_MUST_CHECK enum sn_err sn_plugins_find(struct sn_env *env, const char *name, char *out_text,
                                          size_t capacity, const struct sn_plugin **out_plugin);
/* Checks the configuration of the plugins that the fleet names. One that is not installed on this machine is only a
 * warning: it may be on those of its agents. Errors: EINVAL (findings were added), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_plugins_check_fleet(struct sn_env *env, const struct sn_fleet *fleet,
                                                 struct sn_findings *findings,
                                                 struct sn_findings *warnings);
/* Registers the metrics and spawns the actors. Before the system starts. */
SN_MUST_CHECK enum sn_err sn_plugins_spawn(const struct sn_plugin_set *set,
                                           const struct sn_agent_file *file,
                                           struct sn_metrics *metrics, struct sn_system *system);

#endif
