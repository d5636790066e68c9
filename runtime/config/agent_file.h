/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent file: what one agent needs to know, written by `sennit render` or by hand.
 *
 * All texts and nodes are borrowed from the tree that the model owns; lists are nodes, absent ones
 * NULL (see fleet.h). File names are relative to the folder of the agent file.
 * Thread-safe: read-only after parsing. Blocking: no; no I/O.
 */
#ifndef SN_CONFIG_AGENT_FILE_H
#define SN_CONFIG_AGENT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "config/finding.h"
#include "config/settings.h"
#include "sennit/config.h"

struct sn_agent_link {
    const char *to;                       /* site/agent */
    const char *key;                      /* key expected of it (given here or in pins), or NULL */
    const struct sn_config_node *address; /* host:port list, at least one */
    const struct sn_config_node *node;
};

struct sn_agent_pin {
    const char *agent; /* site/agent */
    const char *key;
};

struct sn_agent_access {
    const char *actor; /* label */
    const struct sn_config_node *types;
    const struct sn_config_node *from;
};

struct sn_agent_plugin {
    const char *name;
    const char *path;                    /* its file, or NULL: where the program's own are */
    const struct sn_config_node *sha256; /* digests of which its file has one; NULL when absent */
    const struct sn_config_node *config; /* check it with the plugin's schema; NULL when absent */
    const struct sn_config_node *node;
};

struct sn_agent_file {
    struct sn_config_tree *tree; /* owned */
    const char *mesh;
    const char *agent;                      /* site/agent */
    const struct sn_config_node *authority; /* public keys as text */
    const char *certificate;                /* file name, or NULL (pins only) */
    const char *key;                        /* file names */
    const char *data;
    const char *run;
    const struct sn_config_node *listen; /* tls://host:port list */
    struct sn_settings settings;
    struct sn_agent_link *links;
    uint32_t link_count;
    struct sn_agent_pin *pins;
    uint32_t pin_count;
    struct sn_agent_access *access;
    uint32_t access_count;
    struct sn_agent_plugin *plugins;
    uint32_t plugin_count;
    struct sn_agent_file *former; /* for the owner's use: one that is still borrowed */
};

extern const struct sn_config_field sn_agent_file_fields[];

/* Parses and checks. Errors: EINVAL (findings were added), ENOMEM. The caller frees with
 * sn_agent_file_free. */
SN_MUST_CHECK enum sn_err sn_agent_file_parse(const void *bytes, size_t size, const char *file,
                                              struct sn_findings *findings,
                                              struct sn_agent_file **out_agent);
void sn_agent_file_free(struct sn_agent_file *agent);

#endif
