/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One running agent: configuration, identity, actor system, net, plugins and control socket, from boot to drain.
 * Threads: created, run and freed by the main thread; what workers may use is said at each member. A thread of its own
 * hears the operator's signals (`signals` below), so that the agent ends even when a worker hangs.
 */
#ifndef SN_AGENTS_AGENT_H
#define SN_AGENTS_AGENT_H

#include <stdatomic.h>

#include "agents/expiry.h"
#include "agents/folders.h"
#include "agents/identity.h"
#include "agents/plugins.h"
#include "config/agent_file.h"
#include "peer/net.h"

struct sn_agent {
    struct sn_env *env;
    const char *path;              /* of agent.yaml, borrowed */
    char *folder;                  /* it stands in */
    struct sn_agent_file *file;    /* of the boot; names in it are borrowed by net and system */
    struct sn_agent_file *current; /* the one that was applied last; home only, like the next */
    struct sn_agent_file *kept;    /* former ones that plugins of ABI 0.0 may still look at */
    struct sn_reload *reload;      /* under way */
    _Atomic int is_reading;        /* its file, on a pool. Written by home and that, read by main */
    struct sn_identity identity;
    struct sn_trust trust;
    struct sn_access *access;
    struct sn_net_link *links;
    char *run_folder;
    char *data_folder;
    char *control_path;
    struct sn_folders folders;
    struct sn_metrics *metrics;
    uint32_t control_metrics; /* index of the control actor's first one */
    struct sn_net *net;
    struct sn_system *system;
    struct sn_plugin_set plugins;
    struct sn_sock control_sock;        /* bound at boot, taken by the control actor */
    char bound[8][SN_NETADDR_TEXT_MAX]; /* where the agent listens */
    uint32_t bound_count;
    uint64_t started_ns;
    struct sn_loop *signals;
    /* Written by `signals`, read by main and home; each partner of itself. */
    _Atomic uint64_t stop_ns;  /* when the first request to end came; 0 = none */
    _Atomic uint64_t hurry_ns; /* when the second one came */
    _Atomic int wants_reload;
    /* Written by main, read by `signals`. */
    _Atomic uint32_t drain_ms; /* 0 before the file is known */
    _Atomic int is_running;    /* home can be told */
    _Atomic int tellers;       /* who is telling it. Written by `signals` and main, read by main */
    _Atomic int is_ready;      /* written by home */
    _Atomic int is_drained;    /* written by home, read by main after an unpark */
    _Atomic int is_told; /* request_task is on its way; `signals` and main set it, home clears it */
    struct sn_task request_task;
    uint8_t is_draining; /* home only, like the next two */
    uint8_t is_finishing;
    struct sn_timer drain_timer;
    struct sn_expiry expiry;
    struct sn_worker *home;
};

/* Runs the agent of the file until it is told to end. Returns the exit status: 0, 1 (failed), 2 (configuration). */
int sn_agent_run(struct sn_env *env, const char *path);

/* A link of the file, for the net. Errors: ETOOBIG, EINVAL, EFULL (addresses). */
SN_MUST_CHECK enum sn_err sn_agent_link(const struct sn_agent_link *from,
                                        struct sn_net_link *out_link);
/* The access rules of the file. Errors: EFULL (more of them than are allowed), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_agent_access(const struct sn_agent_file *file,
                                          struct sn_access **out_access);

/* The agent that an actor of this binary runs in. */
struct sn_agent *sn_agent_of(struct sn_ctx *ctx);

/* Actors of every agent. */
extern const struct sn_actor_kind sn_ping_actor;
extern const struct sn_actor_kind sn_control_actor;

/* The control actor's metrics, before any thread exists. Errors: EFULL, EEXIST. */
SN_MUST_CHECK enum sn_err sn_control_register(struct sn_metrics *metrics, uint32_t *out_base);

#endif
