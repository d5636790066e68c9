/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads plugins and checks their configuration.
 *
 * Loading runs code of the file (its constructors), so who may write it, and whether it is the one that was
 * allowed, is checked before that; the descriptor and all its tables are checked before anything in them is
 * called or used. All of it happens through one descriptor of the file, so that it cannot be exchanged in
 * between. A plugin stays loaded until the process ends: its tables are borrowed by the registry of metrics, by
 * actors and by findings, and sanitizers need its symbols at exit. The program that loads plugins
 * must export the public functions: see sn_link_host in tools/cmake/SennitPlugin.cmake. Threads:
 * one at a time. Blocking: yes (reads files); for start-up and command lines.
 */
#ifndef SN_PLUGIN_LOADER_H
#define SN_PLUGIN_LOADER_H

#include "config/finding.h"
#include "sennit/plugin.h"

struct sn_env;

#define SN_PLUGIN_ERROR_MAX    512
#define SN_PLUGIN_HINT_MAX     256
#define SN_PLUGIN_SHA256_BYTES 65 /* digits, and a NUL */

/* Why a plugin does not run, for people: what is wrong, and what to do about it ("" when nobody knows). */
struct sn_plugin_fault {
    char cause[SN_PLUGIN_ERROR_MAX];
    char hint[SN_PLUGIN_HINT_MAX];
};

struct sn_plugin_source {
    const char *path; /* of the file */
    const char *name; /* what it has to call itself */
    /* SHA-256 digests as text, one or a list: the file has to have one of them. What is loaded then is a copy of
     * the bytes that were hashed, which nobody can change. NULL: any content will do. */
    const struct sn_config_node *sha256;
    int needs_sha256; /* without one it is refused */
    uint32_t
        owner_uid; /* the file may belong to that user, besides root (0) and this process's own */
};

/* Loads the file. out_sha256 is the file's digest as soon as it could be read, also on failure, else "".
 * Errors, with out_fault: EINVAL (name, damaged file or descriptor), ENOENT (no such file), EPERM (file or
 * folder may be written by others, belongs to somebody else, or cannot be read), EMISMATCH (its digest is not among
 * those, or none was given), EVERSION (another ABI), ETOOBIG, EIO (the system could not load it), ENOFILES,
 * ENOMEM. */
SN_MUST_CHECK enum sn_err sn_plugin_load(struct sn_env *env, const struct sn_plugin_source *source,
                                         char out_sha256[SN_PLUGIN_SHA256_BYTES],
                                         struct sn_plugin_fault *out_fault,
                                         const struct sn_plugin **out_plugin);

/* The digest of a file as it stands under `sha256:`. Errors: as of reading it. */
SN_MUST_CHECK enum sn_err sn_plugin_hash(struct sn_env *env, const char *path,
                                         char out_sha256[SN_PLUGIN_SHA256_BYTES]);

/* Checks a descriptor and everything that it points to, as sn_plugin_load does. `name` is the one
 * that it has to have. Errors: EINVAL, EVERSION. */
SN_MUST_CHECK enum sn_err sn_plugin_verify(const struct sn_plugin *plugin, const char *name,
                                           char out_error[SN_PLUGIN_ERROR_MAX]);

/* Checks `config` (NULL = absent) against the plugin's schema, then lets the plugin check it.
 * `entry` is the entry that names the plugin: where a finding about a missing configuration points
 * to. Errors: EINVAL (findings were added), ENOMEM, ESTATE (the plugin's own check failed, which is not the
 * configuration's fault; no finding tells of it). */
SN_MUST_CHECK enum sn_err sn_plugin_check_config(const struct sn_plugin *plugin,
                                                 const struct sn_config_node *config,
                                                 const struct sn_config_node *entry,
                                                 struct sn_findings *findings);

#endif
