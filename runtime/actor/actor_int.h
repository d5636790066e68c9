/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the actor system, shared by system.c, actor.c, ask.c, ctx.c, notice.c and supervisor.c.
 *
 * An actor, unless said otherwise, is touched by its own worker only. Invariants:
 *  1. mailbox_used = letters in `letters` that are not replies + those on their way to it;
 *  2. an actor that is down (failed, waiting for its restart) has no asks, timers or settled letters, and no
 *     notices but those for any incarnation;
 *  3. sends_outstanding = letters sent whose outcome has not come back, and OUTCOME notices of local sends.
 */
#ifndef SN_ACTOR_ACTOR_INT_H
#define SN_ACTOR_ACTOR_INT_H

#include <stdatomic.h>

#include "actor/system.h"
#include "actor/worker_int.h"
#include "base/map.h"

#define SNI_ACTOR_MAGIC SN_MAGIC('A', 'C', 'T', 'R')

struct sn_actor;

/* A question waiting for its answer. */
struct sni_ask {
    struct sn_list node;
    struct sn_timer timer;
    struct sn_actor *actor;
    uint64_t correlation;
    uint64_t token;
    char agent[SN_AGENT_NAME_BYTES_MAX + 1]; /* only this agent may answer; "" = here */
};

struct sni_actor_timer {
    struct sn_list node;
    struct sn_timer timer;
    struct sn_actor *actor;
    uint64_t token;
};

struct sn_actor {
    uint32_t magic;
    uint32_t metric_base;
    uint32_t metric_count;   /* from there to the end of the table */
    struct sn_actor_ref ref; /* id = slot + 1 */
    struct sn_system *system;
    struct sn_worker *worker;
    const struct sn_actor_kind *kind;
    const struct sn_config_node *config;
    void *state;
    struct sn_runnable runnable;
    struct sn_list letters; /* messages and replies, in order */
    struct sn_list settled; /* letters of ours that came back with their outcome */
    struct sn_list notices;
    struct sn_list asks;
    struct sn_list timers;
    uint32_t mailbox_max;
    uint32_t sends_max;
    uint32_t ask_count;
    uint32_t timer_count;
    uint32_t incarnation;
    uint32_t notices_in_row; /* handled since the last letter */
    uint8_t needs_start;
    uint8_t needs_config; /* the new one was not told yet */
    uint8_t needs_stop;   /* the agent drains and this incarnation was not told yet */
    uint8_t is_draining;
    uint8_t is_down;
    uint8_t was_started; /* its first START was handled */
    /* A change of the configuration; one at a time. */
    struct sn_task config_task;
    const struct sn_config_node *next_config;
    void (*configured)(void *arg);
    void *configured_arg;
    uint64_t ask_counter;
    /* Reserved by senders on any worker before they hand a letter over, given back here when the letter is
     * taken out for its handler. */
    _Atomic uint32_t mailbox_used;
    _Atomic uint32_t replies_used;
    /* Written here, read by sn_system_actor_info. */
    _Atomic uint32_t sends_outstanding;
    _Atomic uint32_t asks_outstanding;
    _Atomic uint64_t handled;
    _Atomic uint64_t restarts;
    _Atomic uint8_t is_failed; /* given up; partner: sn_system_place */
    /* Supervisor. */
    struct sn_timer restart_timer;
    uint64_t failure_times_ns[5];
    uint32_t failure_count;
};

/* What the watchdog of another worker may see of this one. */
struct sni_pulse {
    _Atomic uint64_t run; /* counts handler calls twice: odd = one runs now. Partner: watchdog */
    _Atomic uint64_t actor_id;
};

struct sni_watchdog {
    struct sn_timer timer;
    struct sn_system *system;
    struct sn_worker *watched;
    struct sn_worker *worker;
    uint64_t seen_run; /* the handler call seen last, when first, and whether it was named */
    uint64_t seen_ns;
    int is_told;
};

/* The way home of offloaded jobs, which may outlive the system. Freed by its last user. */
struct sni_port {
    _Atomic uint32_t users; /* the system, and each job; partner: itself */
    /* Jobs that are posting their notice, and SNI_PORT_CLOSED. Partner: sn_system_stop sets the flag, then waits
     * for the few instructions until nobody posts any more. */
    _Atomic uint32_t posting;
};
#define SNI_PORT_CLOSED 0x80000000u

struct sn_system {
    uint32_t magic;
    uint32_t worker_count;
    struct sn_system_config config;
    struct sn_worker **workers;
    struct sn_logger **loggers;
    struct sni_pulse *pulses;
    struct sni_watchdog *watchdogs;
    struct sn_task *boot_tasks;
    struct sn_task *drain_tasks;
    struct sn_actor *actors[SN_ACTORS_MAX];
    uint32_t actor_count;
    uint32_t metric_base; /* of this module's own table */
    struct sni_port *port;
    int is_stopped;
    struct sn_map names;
    struct sn_map services;
    struct sni_name *name_entries;
    _Atomic uint32_t starting; /* actors whose first START is still to be handled */
    _Atomic uint64_t local_accepted;
};

struct sni_name {
    struct sn_map_entry by_name;
    struct sn_map_entry by_service;
    struct sn_actor *actor;
    struct sni_name *next;
};

/* Index of each metric in this module's table (system.c). */
enum sni_actor_metric {
    SNI_METRIC_HANDLED,
    SNI_METRIC_FAILED,
    SNI_METRIC_SLOW,
    SNI_METRIC_LATE_REPLIES,
    SNI_METRIC_MAILBOX_FULL,
    SNI_METRIC_WRONG_METRICS
};

/* A handler call: the public part first. */
struct sni_ctx {
    struct sn_ctx base;
    struct sn_actor *actor;
};

void sni_metric_add(struct sn_actor *actor, enum sni_actor_metric metric, int64_t delta);
struct sn_actor *sni_actor_of(const struct sn_system *system, struct sn_actor_ref ref);
void sni_actor_init(struct sn_actor *actor);
/* Throws away what waits for the actor: letters are gone, notices told to their owners. */
void sni_actor_discard(struct sn_actor *actor);
/* The actor went down before it was told of its new configuration, and its state is gone. */
void sni_actor_forget_config(struct sn_actor *actor);
/* Throws away what belonged to the incarnation that has just ended: outcomes, and its notices. */
void sni_actor_discard_old(struct sn_actor *actor);
void sni_actor_schedule(struct sn_actor *actor);
/* Looks at the clock after handlers ran: names an actor that took too long. */
void sni_check_pace(struct sn_actor *actor, uint64_t begin_ns);
/* Frees a notice that no handler will see. */
void sni_notice_drop(struct sn_actor *actor, struct sn_notice *notice);
/* now + ms, at most UINT64_MAX. */
uint64_t sni_after_ms(uint64_t now_ns, uint64_t ms);
void sni_port_unref(struct sni_port *port);
/* Answers the question with an error, or an answer, and forgets it. */
void sni_ask_finish(struct sn_actor *actor, struct sni_ask *ask);
struct sni_ask *sni_ask_find(struct sn_actor *actor, uint64_t correlation);
enum sn_err sni_ask_new(struct sn_actor *actor, const char *agent, uint64_t timeout_ms,
                        uint64_t token, struct sni_ask **out_ask);
void sni_ask_cancel_all(struct sn_actor *actor);
void sni_timers_cancel_all(struct sn_actor *actor);
enum sn_err sni_handle(struct sn_actor *actor, const struct sn_event *event);
void sni_supervisor_failed(struct sn_actor *actor, enum sn_err err);
void sni_supervisor_init(struct sn_actor *actor);
void sni_watchdog_start(struct sn_system *system, uint32_t index);

#endif
