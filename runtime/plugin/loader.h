/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads plugins and checks their configuration.
 *
 * Loading runs code of the file (its constructors), so who may write it is checked before that; the
 * descriptor and all its tables are checked before anything in them is called or used. A plugin
 * stays loaded until the process ends: its tables are borrowed by the registry of metrics, by
 * actors and by findings, and sanitizers need its symbols at exit. The program that loads plugins
 * must export the public functions: see sn_link_host in tools/cmake/SennitPlugin.cmake. Threads:
 * one at a time. Blocking: yes (reads files); for start-up and command lines.
 */
#ifndef SN_PLUGIN_LOADER_H
#define SN_PLUGIN_LOADER_H

#include "config/finding.h"
#include "sennit/plugin.h"

struct sn_env;

#define SN_PLUGIN_ERROR_MAX 512

/* Loads folder/name.so. On failure out_error tells people what is wrong, with the file's name.
 * Errors: EINVAL (name, damaged file or descriptor), ENOENT (no such file), EPERM (file or folder
 * may be written by others, or cannot be read), EVERSION (another ABI), EIO (the system could not
 * load it), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_plugin_load(struct sn_env *env, const char *folder, const char *name,
                                         char out_error[SN_PLUGIN_ERROR_MAX],
                                         const struct sn_plugin **out_plugin);

/* Checks a descriptor and everything that it points to, as sn_plugin_load does. `name` is the one
 * that it has to have. Errors: EINVAL, EVERSION. */
SN_MUST_CHECK enum sn_err sn_plugin_verify(const struct sn_plugin *plugin, const char *name,
                                           char out_error[SN_PLUGIN_ERROR_MAX]);

/* Checks `config` (NULL = absent) against the plugin's schema, then lets the plugin check it.
 * `entry` is the entry that names the plugin: where a finding about a missing configuration points
 * to. Errors: EINVAL (findings were added), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_plugin_check_config(const struct sn_plugin *plugin,
                                                 const struct sn_config_node *config,
                                                 const struct sn_config_node *entry,
                                                 struct sn_findings *findings);

#endif
