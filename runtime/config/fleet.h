/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fleet: one file that describes a whole mesh, as a model that has been checked for sense.
 *
 * All texts and nodes are borrowed from the tree that the fleet owns. Lists are nodes: read them
 * with sn_config_count and sn_config_at; a value that stood without brackets is a list of one, an
 * absent list is NULL and counts 0.
 * Thread-safe: read-only after parsing. Blocking: no; no I/O.
 */
#ifndef SN_CONFIG_FLEET_H
#define SN_CONFIG_FLEET_H

#include <stddef.h>
#include <stdint.h>

#include "config/finding.h"
#include "config/settings.h"
#include "sennit/config.h"
#include "sennit/limits.h"

#define SN_FLEET_NONE       UINT32_MAX /* index of an agent or target that does not exist */
#define SN_FLEET_AGENTS_MAX SN_PEERS_MAX
/* As the tunnel plugin has them. */
#define SN_FLEET_CONNECTIONS_MAX 65536
#define SN_FLEET_IDLE_MS_MAX     604800000 /* a week */
#define SN_FLEET_TUNNELS_MAX     4096u     /* targets; also forwards, and access rules */
#define SN_FLEET_PATTERNS_MAX    256u      /* in one allow:, from: or at: */

struct sn_fleet_link {
    uint32_t to;                          /* agent */
    const struct sn_config_node *address; /* host:port list; NULL: as the peer says */
    const struct sn_config_node *node;
    const struct sn_config_node *to_node;
};

struct sn_fleet_agent {
    char name[SN_AGENT_NAME_BYTES_MAX + 1]; /* site/agent */
    const char *key;                        /* public key, or NULL: rendering makes one */
    const struct sn_config_node *listen;    /* tls://host:port list */
    const struct sn_config_node *address;   /* host:port list: what others dial */
    const struct sn_config_node *roles;     /* labels */
    const struct sn_config_node *node;
    struct sn_fleet_link *links;
    uint32_t link_count;
    struct sn_settings settings; /* the fleet's, overridden by the agent's */
};

struct sn_fleet_target {
    const char *name;
    uint32_t at; /* agent */
    const char *address;
    const struct sn_config_node *allow; /* agent patterns */
    uint32_t connect_wait_ms;
    const struct sn_config_node *node;
};

struct sn_fleet_forward {
    const char *name;
    uint32_t at; /* agent */
    uint32_t target;
    uint32_t open_wait_ms;
    const char *listen;
    const struct sn_config_node *node;
};

struct sn_fleet_access {
    uint32_t at;       /* agent */
    const char *actor; /* label */
    const struct sn_config_node *types;
    const struct sn_config_node *from;
    const struct sn_config_node *node;
};

struct sn_fleet_plugin {
    const char *name;
    const char *path;                    /* on the agents' machines; see agent_file.h */
    const struct sn_config_node *sha256; /* as there */
    const struct sn_config_node *at;     /* agent patterns */
    const struct sn_config_node *config; /* unchecked: the plugin's schema; may be NULL */
    const struct sn_config_node *node;
};

struct sn_fleet {
    struct sn_config_tree *tree; /* owned */
    const char *mesh;
    const char *authority; /* file name, relative to the fleet's folder */
    struct sn_settings settings;
    struct sn_fleet_agent *agents; /* in file order */
    uint32_t agent_count;
    struct sn_fleet_link *links; /* of all agents */
    uint32_t link_count;
    struct sn_fleet_target *targets;
    uint32_t target_count;
    struct sn_fleet_forward *forwards;
    uint32_t forward_count;
    struct sn_fleet_access *access;
    uint32_t access_count;
    struct sn_fleet_plugin *plugins;
    uint32_t plugin_count;
    uint32_t *agents_sorted; /* indices by name */
};

extern const struct sn_config_field sn_fleet_fields[];

/* Parses and checks. Errors: EINVAL (findings were added), ENOMEM. The caller frees with
 * sn_fleet_free. */
SN_MUST_CHECK enum sn_err sn_fleet_parse(const void *bytes, size_t size, const char *file,
                                         struct sn_findings *findings, struct sn_fleet **out_fleet);
void sn_fleet_free(struct sn_fleet *fleet);

/* What may be meant but is more likely an omission: adds findings that begin with "warning: ". */
void sn_fleet_warn(const struct sn_fleet *fleet, struct sn_findings *warnings);

/* Index of the agent called `name`, or SN_FLEET_NONE. */
uint32_t sn_fleet_find_agent(const struct sn_fleet *fleet, const char *name);

/* The index-th host:port at which others dial the agent: its `address` list, else its `listen`
 * entries that name a host and a port. NULL past the end. */
const char *sn_fleet_agent_address(const struct sn_fleet_agent *agent, uint32_t index);

/* Index of the entry that says which file the tunnel plugin is at that agent, or SN_FLEET_NONE. */
uint32_t sn_fleet_tunnel_entry(const struct sn_fleet *fleet, uint32_t agent);
/* Nonzero when the agent has targets or forwards. */
int sn_fleet_has_tunnels(const struct sn_fleet *fleet, uint32_t agent);

/* Nonzero when one of the patterns (site/agent, site/star, star) matches the name. */
int sn_config_patterns_match(const struct sn_config_node *patterns, const char *name);
/* The same for an agent of the fleet, whose roles count too (role:NAME). */
int sn_fleet_patterns_match(const struct sn_config_node *patterns,
                            const struct sn_fleet_agent *agent);

#endif
