/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins of one agent file: found, loaded, their configuration checked, their actors spawned.
 *
 * A plugin that cannot run never keeps the agent from running: it is marked as failed, with the cause and what to do
 * about it. Only what is wrong in the agent file itself is refused. Blocking: yes.
 */
#ifndef SN_AGENTS_PLUGINS_H
#define SN_AGENTS_PLUGINS_H

#include <stdatomic.h>

#include "actor/system.h"
#include "config/agent_file.h"
#include "config/fleet.h"
#include "env/env.h"
#include "plugin/loader.h"

#define SN_PLUGINS_MAX 32u

struct sn_plugin_slot {
    char name[SN_LABEL_BYTES_MAX + 1];
    char *path;                     /* of its file; NULL when there is none */
    const struct sn_plugin *plugin; /* NULL when it could not be loaded; else loaded for ever */
    char sha256[SN_PLUGIN_SHA256_BYTES]; /* of the file; "" when it could not be read */
    struct sn_plugin_fault fault;        /* why it did not start; cause "" = it did */
    enum sn_err load_err; /* of loading it; ENOENT: there is no such file on this machine */
    /* enum sn_err of its actor that failed too often, SN_OK while none did. Written on the actor's worker, read by
     * views. */
    _Atomic uint32_t actor_err;
};

struct sn_plugin_set {
    struct sn_plugin_slot *slots; /* in the order of the file */
    uint32_t count;
};

/* `folder` is that of the agent file. Plugins that fail are part of the set. Errors: EINVAL (findings were added),
 * ENOMEM. The caller frees with sn_plugins_free. */
SN_MUST_CHECK enum sn_err sn_plugins_load(struct sn_env *env, const struct sn_agent_file *file,
                                          const char *folder, struct sn_findings *findings,
                                          struct sn_plugin_set *out_set);
void sn_plugins_free(struct sn_plugin_set *set);
/* The index-th, or NULL when it did not start. */
const struct sn_plugin *sn_plugins_at(const struct sn_plugin_set *set, uint32_t index);
/* Checks the configuration that another file has for the plugins of the set, which it names in the same order. One that
 * did not start is not asked. Errors: EINVAL (findings were added), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_plugins_check(const struct sn_plugin_set *set,
                                           const struct sn_agent_file *file,
                                           struct sn_findings *findings);
/* Adds a finding for each one that failed, at its entry. Errors: EINVAL (there was one). */
SN_MUST_CHECK enum sn_err sn_plugins_report(const struct sn_plugin_set *set,
                                            const struct sn_agent_file *file,
                                            struct sn_findings *findings);
/* One by its name. On failure out_text tells people why. Errors: as sn_plugin_load. */
SN_MUST_CHECK enum sn_err sn_plugins_find(struct sn_env *env, const char *name, char *out_text,
                                          size_t capacity, const struct sn_plugin **out_plugin);
/* Checks the files and the configuration of the plugins that the fleet names. One that is not installed on this machine
 * is only a warning: it may be on those of its agents. Errors: EINVAL (findings were added), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_plugins_check_fleet(struct sn_env *env, const struct sn_fleet *fleet,
                                                 struct sn_findings *findings,
                                                 struct sn_findings *warnings);
/* Registers the metrics and spawns the actors of those that were loaded; one whose names are taken fails. Before the
 * system starts. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sn_plugins_spawn(struct sn_plugin_set *set,
                                           const struct sn_agent_file *file,
                                           struct sn_metrics *metrics, struct sn_system *system);
/* PLUGIN-FAILED for each one that did not start. */
void sn_plugins_log(const struct sn_plugin_set *set, struct sn_logger *logger);
/* The actor failed too often and stays down: so its plugin has failed. On the actor's worker. */
void sn_plugins_actor_failed(struct sn_plugin_set *set, struct sn_system *system,
                             struct sn_actor_ref actor, enum sn_err err);

#endif
