/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One running agent: configuration, identity, actor system, net, plugins and control socket, from boot to drain.
 * Threads: created, run and freed by the main thread; what workers may use is said at each member.
 */
#ifndef SN_AGENTS_AGENT_H
#define SN_AGENTS_AGENT_H

#include "agents/identity.h"
#include "agents/plugins.h"
#include "config/agent_file.h"
#include "peer/net.h"

struct sn_agent {
    struct sn_env *env;
    char *folder; /* of agent.yaml */
    struct sn_agent_file *file;
    struct sn_identity identity;
    struct sn_trust trust;
    struct sn_access *access;
    struct sn_net_link *links;
    char *run_folder;
    char *data_folder;
    char *control_path;
    struct sn_file_lock lock;
    int has_lock;
    struct sn_metrics *metrics;
    struct sn_net *net;
    struct sn_system *system;
    struct sn_plugin_set plugins;
    struct sn_sock control_sock;        /* bound at boot, taken by the control actor */
    char bound[8][SN_NETADDR_TEXT_MAX]; /* where the agent listens */
    uint32_t bound_count;
    uint64_t started_ns;
    uint32_t drain_requests; /* home only, like the next two */
    uint8_t is_finishing;
    uint8_t was_cut;
    struct sn_timer drain_timer;
    struct sn_worker *home;
};

/* Runs the agent of the file until it is told to end. Returns the exit status: 0, 1 (failed), 2 (configuration). */
int sn_agent_run(struct sn_env *env, const char *path);

/* The access rules of the file. Errors: EFULL (more of them than are allowed), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_agent_access(const struct sn_agent_file *file,
                                          struct sn_access **out_access);

/* The agent that an actor of this binary runs in. */
struct sn_agent *sn_agent_of(struct sn_ctx *ctx);

/* Actors of every agent. */
extern const struct sn_actor_kind sn_ping_actor;
extern const struct sn_actor_kind sn_control_actor;

#endif
