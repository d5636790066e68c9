/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The actor system of one agent: its workers and its actors.
 *
 * Actors are spawned before sn_system_start and live until sn_system_free; an actor that fails is restarted by its
 * supervisor (supervisor.c) with fresh state and the mailbox it had. So an actor's slot and name never change and
 * may be read from every thread without locks.
 * Threads: as said at each call; "any worker" means: from code that runs on one of this system's workers.
 */
#ifndef SN_ACTOR_SYSTEM_H
#define SN_ACTOR_SYSTEM_H

#include "actor/letter.h"
#include "actor/worker.h"
#include "metrics/metrics.h"
#include "sennit/actor.h"

struct sn_system;
struct sn_logger;

struct sn_system_config {
    struct sn_env *env;
    const struct sn_host *host; /* what actors see; borrowed */
    struct sn_metrics *metrics; /* shard_count = worker_count + 1; borrowed */
    const char *agent_name;     /* borrowed */
    uint32_t worker_count;      /* 0 = one per processor */
    enum sn_log_level log_level;
    int log_json;
    void *arg; /* for the functions below */
    /* Takes a letter for another agent on SN_OK. Any worker. */
    enum sn_err (*remote)(void *arg, struct sn_letter *letter);
    /* An actor failed: everything it opened through the host must go. On its worker. */
    void (*actor_failed)(void *arg, struct sn_actor_ref actor);
    /* Every actor has handled its first START, or failed in it. Once, on some worker. */
    void (*ready)(void *arg);
    /* An actor failed too often and stays down. On its worker. */
    void (*escalate)(void *arg, struct sn_actor_ref actor, enum sn_err last);
};

SN_MUST_CHECK enum sn_err sn_system_new(const struct sn_system_config *config,
                                        struct sn_system **out_system);
/* Spawns an actor. `kind` and `node` (its configuration, may be NULL) are borrowed for the system's life
 * (node: until sn_system_configure gives another); metric_base is added to the indexes of sn_metric_add,
 * SN_METRICS_NONE for an actor without metrics; what lies beyond the table that it is in, is counted as
 * actor.wrong_metrics and told, and changes nothing. Before start only. Errors: EEXIST (name or service taken),
 * EINVAL, EFULL, ENOMEM. */
SN_MUST_CHECK enum sn_err sn_system_spawn(struct sn_system *system,
                                          const struct sn_actor_kind *kind,
                                          const struct sn_config_node *node, uint32_t metric_base,
                                          struct sn_actor_ref *out_actor);
/* Gives an actor another configuration: SN_EVENT_CONFIG, or its next START when it is down. `done` comes on its worker
 * when it uses the new one: the former may be freed then. Cannot fail; one at a time an actor. Any thread. */
void sn_system_configure(struct sn_system *system, struct sn_actor_ref actor,
                         const struct sn_config_node *node, void (*done)(void *arg), void *arg);
/* Starts the workers; every actor's first event is START. */
SN_MUST_CHECK enum sn_err sn_system_start(struct sn_system *system);
/* Sends every actor SN_EVENT_STOP, after its START; one that is down gets it when it was restarted. Any thread,
 * once. */
void sn_system_drain(struct sn_system *system);
/* Ends and joins all workers, runs the tasks they had left and throws away what waits in mailboxes (so that nothing
 * refers to other modules any more). A job that still runs ends without its event. Not from a worker. */
void sn_system_stop(struct sn_system *system);
/* Frees the actors (kind->fini) and workers; stops them first if need be. */
void sn_system_free(struct sn_system *system);

struct sn_worker *sn_system_worker(const struct sn_system *system, uint32_t index);
uint32_t sn_system_worker_count(const struct sn_system *system);
struct sn_env *sn_system_env(const struct sn_system *system);
/* `arg` of the configuration. */
void *sn_system_arg(const struct sn_system *system);
/* The environment's loop behind a worker, for sn_env_on_request. */
struct sn_loop *sn_system_loop(const struct sn_system *system, uint32_t index);
const char *sn_system_agent_name(const struct sn_system *system);
struct sn_metrics *sn_system_metrics(const struct sn_system *system);
struct sn_logger *sn_system_logger(struct sn_worker *worker);

/* Any thread: names and services do not change after start. id 0 when there is none. */
struct sn_actor_ref sn_system_find(const struct sn_system *system, const char *actor);
struct sn_actor_ref sn_system_find_service(const struct sn_system *system, const char *service);
struct sn_worker *sn_system_actor_worker(const struct sn_system *system, struct sn_actor_ref actor);
const char *sn_system_actor_name(const struct sn_system *system, struct sn_actor_ref actor);

/* Places a letter in the mailbox of letter->to_ref, or for a REPLY with the actor whose question its correlation
 * names. Takes the letter when SN_REASON_NONE is returned. Any worker. */
enum sn_reason sn_system_place(struct sn_system *system, struct sn_letter *letter);
/* Tells the sender how its letter ended; takes the letter. Any worker. */
void sn_system_settle(struct sn_system *system, struct sn_letter *letter, enum sn_outcome outcome,
                      enum sn_reason reason);

/* --- Notices: events other than letters ---------------------------------------------------------- */

/* An event on its way to an actor. `event.agent` and `event.text`, `event.payload` point into the allocation, unless
 * `event.buf` holds the payload: that is released with the notice. */
struct sn_notice {
    struct sn_task task;
    struct sn_list node;
    struct sn_actor_ref to;
    uint32_t incarnation; /* the actor's, at the time of the request; others are dropped */
    uint32_t alloc_size;
    uint8_t holds_slot; /* a completion slot of the actor, given back with the event */
    /* Called instead of the handler when the actor has failed meanwhile; releases what the event carries. May be
     * NULL. */
    void (*dropped)(struct sn_notice *notice, void *arg);
    /* Called just before the handler gets the event, on its worker. May be NULL. */
    void (*told)(struct sn_notice *notice, void *arg);
    void *arg;
    struct sn_event event;
};

/* As incarnation: for whoever the actor is by then. It waits out a restart. */
#define SN_INCARNATION_ANY UINT32_MAX

/* text, agent and payload are copied; NULL and 0 are fine. Errors: ETOOBIG, ENOMEM. */
SN_MUST_CHECK enum sn_err sn_notice_new(struct sn_actor_ref to, uint32_t incarnation,
                                        const char *agent, const char *text, const void *payload,
                                        uint32_t payload_size, struct sn_notice **out_notice);
void sn_notice_free(struct sn_notice *notice);
/* Sends it; taken. Bounded by whoever makes notices: each answers a request of the actor, or holds a counted
 * resource (a connection, a stream). Any worker, or a pool thread. */
void sn_notice_post(struct sn_system *system, struct sn_notice *notice);

/* --- Inside a handler call -------------------------------------------------------------------------- */

struct sn_system *sn_ctx_system(struct sn_ctx *ctx);
struct sn_worker *sn_ctx_worker(struct sn_ctx *ctx);
struct sn_actor_ref sn_ctx_self(struct sn_ctx *ctx);
uint32_t sn_ctx_incarnation(struct sn_ctx *ctx);

/* The parts of the host table that live here. */
uint64_t sn_ctx_now_ms(struct sn_ctx *ctx);
void sn_ctx_random(struct sn_ctx *ctx, void *out, size_t size);
void sn_ctx_log(struct sn_ctx *ctx, uint32_t level, const char *id, const char *text);
void sn_ctx_metric_add(struct sn_ctx *ctx, uint32_t index, int64_t delta);
const char *sn_ctx_agent_name(struct sn_ctx *ctx);
enum sn_err sn_ctx_send(struct sn_ctx *ctx, const char *to, const char *type, const void *payload,
                        uint32_t size, const struct sn_send_options *options);
enum sn_err sn_ctx_ask(struct sn_ctx *ctx, const char *to, const char *type, const void *payload,
                       uint32_t size, uint64_t timeout_ms, uint64_t token);
enum sn_err sn_ctx_reply(struct sn_ctx *ctx, const struct sn_event *to, const char *type,
                         const void *payload, uint32_t size);
enum sn_err sn_ctx_timer(struct sn_ctx *ctx, uint64_t token, uint64_t after_ms);
void sn_ctx_timer_cancel(struct sn_ctx *ctx, uint64_t token);
enum sn_err sn_ctx_offload(struct sn_ctx *ctx, uint32_t kind, void (*run)(void *pointer),
                           void *pointer, uint64_t token);

/* --- For `sennit actors` and `sennit ledger` ---------------------------------------------------- */

struct sn_actor_info {
    const char *name;
    uint32_t worker;
    uint32_t mailbox_used, mailbox_max;
    uint32_t sends_outstanding, asks_outstanding;
    uint64_t handled;
    uint64_t restarts;
    uint8_t is_failed; /* given up */
};
/* Figures may be a moment old. Any thread. ENOENT past the last actor. */
SN_MUST_CHECK enum sn_err sn_system_actor_info(const struct sn_system *system, uint32_t index,
                                               struct sn_actor_info *out_info);

/* Messages between actors of this agent: they are delivered or refused at once. Any thread. */
uint64_t sn_system_local_accepted(const struct sn_system *system);

#endif
