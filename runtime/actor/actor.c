/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One actor: its mailbox, and its turns.
 *
 * States:   starting --START ok--> running --handler error--> down --delay--> starting
 *           down --too many failures--> failed (for ever)
 * Guarantees: a letter is taken only after its place in the mailbox was reserved, so that a mailbox never grows
 * past its bound; letters of one sender are handled in the order in which they were placed; notices come first, but
 * not without end.
 */
#include <string.h>

#include "actor/actor_int.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "log/log.h"

#define TURN_EVENTS     64u /* handled in one turn, then others get theirs */
#define SLOW_HANDLER_NS (100 * SN_MS)
#define NOTICES_IN_ROW  16u   /* then a letter that waits gets its turn */
#define REPLIES_MAX     1024u /* as many as one actor may wait for */

static void run(struct sn_runnable *runnable, struct sn_worker *worker);

void sni_actor_init(struct sn_actor *actor)
{
    actor->magic = SNI_ACTOR_MAGIC;
    actor->runnable.run = run;
    sn_list_init(&actor->letters);
    sn_list_init(&actor->settled);
    sn_list_init(&actor->notices);
    sn_list_init(&actor->asks);
    sn_list_init(&actor->timers);
    sni_supervisor_init(actor);
}

void sni_actor_schedule(struct sn_actor *actor)
{
    SN_ASSERT(actor->magic == SNI_ACTOR_MAGIC);
    if (actor->is_down && !actor->needs_start) return;
    sn_worker_schedule(actor->worker, &actor->runnable);
}

static void discard_settled(struct sn_actor *actor)
{
    struct sn_list *node;
    while ((node = sn_list_pop(&actor->settled)) != NULL) {
        atomic_fetch_sub(&actor->sends_outstanding, 1);
        sn_letter_free(SN_CONTAINER_OF(node, struct sn_letter, node));
    }
}

void sni_actor_discard_old(struct sn_actor *actor)
{
    discard_settled(actor);
    SN_LIST_EACH_SAFE (node, &actor->notices) {
        struct sn_notice *notice = SN_CONTAINER_OF(node, struct sn_notice, node);
        if (notice->incarnation == SN_INCARNATION_ANY) continue;
        sn_list_remove(node);
        sni_notice_drop(actor, notice);
    }
}

void sni_actor_discard(struct sn_actor *actor)
{
    struct sn_list *node;
    discard_settled(actor);
    while ((node = sn_list_pop(&actor->notices)) != NULL) {
        sni_notice_drop(actor, SN_CONTAINER_OF(node, struct sn_notice, node));
    }
    while ((node = sn_list_pop(&actor->letters)) != NULL) {
        struct sn_letter *letter = SN_CONTAINER_OF(node, struct sn_letter, node);
        atomic_fetch_sub(
            letter->kind == SN_LETTER_REPLY ? &actor->replies_used : &actor->mailbox_used, 1);
        sn_letter_free(letter);
    }
}

/* --- Placing ------------------------------------------------------------------------------------- */

static void arrive(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_letter *letter = SN_CONTAINER_OF(task, struct sn_letter, task);
    struct sn_actor *actor = sni_actor_of(sn_worker_owner(worker), letter->to_ref);
    sn_list_push(&actor->letters, &letter->node);
    if (atomic_load(&actor->is_failed)) {
        sni_actor_discard(actor);
    } else {
        sni_actor_schedule(actor);
    }
}

static int reserve(_Atomic uint32_t *used, uint32_t max)
{
    if (atomic_fetch_add_explicit(used, 1, memory_order_relaxed) < max) return 1;
    atomic_fetch_sub_explicit(used, 1, memory_order_relaxed);
    return 0;
}

enum sn_reason sn_system_place(struct sn_system *system, struct sn_letter *letter)
{
    if (letter->kind == SN_LETTER_REPLY) {
        letter->to_ref.id = (letter->correlation >> 48) + 1; /* see sni_ask_new */
    }
    struct sn_actor *actor = sni_actor_of(system, letter->to_ref);
    if (actor == NULL) {
        return letter->kind == SN_LETTER_REPLY ? SN_REASON_NO_ASK : SN_REASON_NO_ACTOR;
    }
    if (atomic_load_explicit(&actor->is_failed, memory_order_relaxed)) {
        return SN_REASON_ACTOR_FAILED;
    }
    int has_room = letter->kind == SN_LETTER_REPLY
                       ? reserve(&actor->replies_used, REPLIES_MAX)
                       : reserve(&actor->mailbox_used, actor->mailbox_max);
    if (!has_room) return SN_REASON_MAILBOX_FULL;
    letter->task.run = arrive;
    sn_worker_post(actor->worker, &letter->task);
    return SN_REASON_NONE;
}

static void come_back(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_letter *letter = SN_CONTAINER_OF(task, struct sn_letter, task);
    struct sn_actor *actor = sni_actor_of(sn_worker_owner(worker), letter->from_ref);
    if (actor->is_down || letter->incarnation != actor->incarnation) {
        atomic_fetch_sub(&actor->sends_outstanding, 1);
        sn_letter_free(letter);
        return;
    }
    sn_list_push(&actor->settled, &letter->node);
    sni_actor_schedule(actor);
}

void sn_system_settle(struct sn_system *system, struct sn_letter *letter, enum sn_outcome outcome,
                      enum sn_reason reason)
{
    SN_ASSERT((unsigned)reason < SN_REASON_COUNT);
    struct sn_actor *actor = sni_actor_of(system, letter->from_ref);
    if (actor == NULL || !letter->wants_outcome) {
        sn_letter_free(letter);
        return;
    }
    letter->outcome = (uint8_t)outcome;
    letter->reason = (uint8_t)reason;
    letter->task.run = come_back;
    sn_worker_post(actor->worker, &letter->task);
}

/* --- Handling ------------------------------------------------------------------------------------- */

enum sn_err sni_handle(struct sn_actor *actor, const struct sn_event *event)
{
    struct sn_worker *worker = actor->worker;
    struct sni_pulse *pulse = &actor->system->pulses[sn_worker_index(worker)];
    struct sni_ctx ctx = {.base = {.host = actor->system->config.host}, .actor = actor};
    uint64_t run_id = atomic_load_explicit(&pulse->run, memory_order_relaxed) + 1;
    SN_ASSERT(run_id % 2 == 1); /* handlers do not nest */
    atomic_store_explicit(&pulse->actor_id, actor->ref.id, memory_order_relaxed);
    atomic_store_explicit(&pulse->run, run_id, memory_order_release);
    enum sn_err err = actor->kind->handle(&ctx.base, actor->state, event);
    atomic_store_explicit(&pulse->run, run_id + 1, memory_order_release);
    atomic_store_explicit(&actor->handled,
                          atomic_load_explicit(&actor->handled, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    sni_metric_add(actor, SNI_METRIC_HANDLED, 1);
    return err;
}

void sni_check_pace(struct sn_actor *actor, uint64_t begin_ns)
{
    uint64_t took = sn_worker_refresh_now(actor->worker) - begin_ns;
    if (took < SLOW_HANDLER_NS) return;
    sni_metric_add(actor, SNI_METRIC_SLOW, 1);
    sn_logger_write(sn_worker_logger(actor->worker), SN_WARN, "ACTOR-SLOW", actor->kind->name,
                    "took_ms=%llu", (unsigned long long)(took / SN_MS));
}

static enum sn_err handle_settled(struct sn_actor *actor, struct sn_letter *letter)
{
    static const enum sn_err errs[SN_REASON_COUNT] = {
        [SN_REASON_NONE] = SN_EIO,
        [SN_REASON_DENIED] = SN_EDENIED,
        [SN_REASON_NO_ACTOR] = SN_ENOENT,
        [SN_REASON_MAILBOX_FULL] = SN_EFULL,
        [SN_REASON_DEADLINE] = SN_ETIMEDOUT,
        [SN_REASON_PEER_RESTARTED] = SN_ERESET,
        [SN_REASON_SHUTDOWN] = SN_ECANCELLED,
        [SN_REASON_NO_MEMORY] = SN_ENOMEM,
        [SN_REASON_ACTOR_FAILED] = SN_ESTATE,
        [SN_REASON_NO_ASK] = SN_ENOENT,
        [SN_REASON_NO_AGENT] = SN_ENOENT,
    };
    atomic_fetch_sub(&actor->sends_outstanding, 1);
    struct sn_event event = {.size = sizeof event,
                             .token = letter->token,
                             .agent = letter->to_agent,
                             .actor = letter->to_actor,
                             .type = letter->type,
                             .text = ""};
    if (letter->kind == SN_LETTER_SEND) {
        event.kind = SN_EVENT_OUTCOME;
        event.outcome = letter->outcome;
        event.reason = letter->reason;
        return sni_handle(actor, &event);
    }
    /* A question that did not arrive is answered at once with the cause; one that did waits on. */
    if (letter->outcome == SN_DELIVERED) return SN_OK;
    struct sni_ask *ask = sni_ask_find(actor, letter->correlation);
    if (ask == NULL) return SN_OK;
    event.kind = SN_EVENT_REPLY;
    event.token = ask->token;
    event.err = errs[letter->reason];
    event.reason = letter->reason;
    sni_ask_finish(actor, ask);
    return sni_handle(actor, &event);
}

static enum sn_err handle_reply(struct sn_actor *actor, const struct sn_letter *letter)
{
    struct sni_ask *ask = sni_ask_find(actor, letter->correlation);
    if (ask == NULL || strcmp(ask->agent, letter->from_agent) != 0) {
        sni_metric_add(actor, SNI_METRIC_LATE_REPLIES, 1);
        return SN_OK;
    }
    struct sn_event event = {.size = sizeof event,
                             .kind = SN_EVENT_REPLY,
                             .token = ask->token,
                             .agent = letter->from_agent,
                             .actor = letter->from_actor,
                             .type = letter->type,
                             .text = "",
                             .payload = letter->payload,
                             .payload_size = letter->payload_size};
    sni_ask_finish(actor, ask);
    return sni_handle(actor, &event);
}

static enum sn_err handle_letter(struct sn_actor *actor, const struct sn_letter *letter)
{
    if (letter->kind == SN_LETTER_REPLY) {
        atomic_fetch_sub_explicit(&actor->replies_used, 1, memory_order_relaxed);
        return handle_reply(actor, letter);
    }
    atomic_fetch_sub_explicit(&actor->mailbox_used, 1, memory_order_relaxed);
    struct sn_event event = {.size = sizeof event,
                             .kind = SN_EVENT_MESSAGE,
                             .agent = letter->from_agent,
                             .actor = letter->from_actor,
                             .type = letter->type,
                             .text = "",
                             .payload = letter->payload,
                             .payload_size = letter->payload_size,
                             .correlation = letter->correlation};
    return sni_handle(actor, &event);
}

static enum sn_err handle_start(struct sn_actor *actor)
{
    actor->needs_start = 0;
    actor->is_down = 0;
    struct sn_event event = {.size = sizeof event,
                             .kind = SN_EVENT_START,
                             .agent = "",
                             .actor = "",
                             .type = "",
                             .text = "",
                             .config = actor->config};
    enum sn_err err = sni_handle(actor, &event);
    if (!actor->was_started) {
        actor->was_started = 1;
        struct sn_system *system = actor->system;
        if (atomic_fetch_sub(&system->starting, 1) == 1 && system->config.ready != NULL) {
            system->config.ready(system->config.arg);
        }
    }
    return err;
}

static void tell_configured(struct sn_actor *actor)
{
    actor->needs_config = 0;
    actor->configured(actor->configured_arg);
}

static enum sn_err handle_config(struct sn_actor *actor)
{
    struct sn_event event = {.size = sizeof event,
                             .kind = SN_EVENT_CONFIG,
                             .agent = "",
                             .actor = "",
                             .type = "",
                             .text = "",
                             .config = actor->config};
    enum sn_err err = sni_handle(actor, &event);
    tell_configured(actor);
    return err;
}

static void configure(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_actor *actor = SN_CONTAINER_OF(task, struct sn_actor, config_task);
    (void)worker; /* the actor's */
    actor->config = actor->next_config;
    if (actor->is_down || actor->needs_start) { /* START will bring it, if it ever comes */
        tell_configured(actor);
        return;
    }
    actor->needs_config = 1;
    sni_actor_schedule(actor);
}

void sn_system_configure(struct sn_system *system, struct sn_actor_ref ref,
                         const struct sn_config_node *node, void (*done)(void *arg), void *arg)
{
    struct sn_actor *actor = sni_actor_of(system, ref);
    SN_ASSERT(actor != NULL);
    actor->next_config = node;
    actor->configured = done;
    actor->configured_arg = arg;
    actor->config_task.run = configure;
    sn_worker_post(actor->worker, &actor->config_task);
}

void sni_actor_forget_config(struct sn_actor *actor)
{
    if (actor->needs_config) tell_configured(actor);
}

static enum sn_err handle_stop(struct sn_actor *actor)
{
    actor->needs_stop = 0;
    struct sn_event event = {.size = sizeof event,
                             .kind = SN_EVENT_STOP,
                             .agent = "",
                             .actor = "",
                             .type = "",
                             .text = ""};
    return sni_handle(actor, &event);
}

static enum sn_err handle_notice(struct sn_actor *actor, struct sn_notice *notice)
{
    if (notice->holds_slot) atomic_fetch_sub(&actor->sends_outstanding, 1);
    if (notice->told != NULL) notice->told(notice, notice->arg);
    return sni_handle(actor, &notice->event);
}

/* A stream that is delivered to the actor may bring notices as fast as it handles them. */
static struct sn_list *next_notice(struct sn_actor *actor)
{
    int is_letters_turn = actor->notices_in_row >= NOTICES_IN_ROW;
    if (is_letters_turn && !sn_list_is_empty(&actor->letters)) return NULL;
    struct sn_list *node = sn_list_pop(&actor->notices);
    actor->notices_in_row = node == NULL ? 0 : actor->notices_in_row + 1;
    return node;
}

/* Handles one event; ENOENT when there is none. */
static enum sn_err handle_next(struct sn_actor *actor, enum sn_err *out_result)
{
    struct sn_list *node;
    if (actor->needs_start) {
        *out_result = handle_start(actor);
    } else if (actor->needs_config) {
        *out_result = handle_config(actor);
    } else if (actor->needs_stop) {
        *out_result = handle_stop(actor);
    } else if ((node = sn_list_pop(&actor->settled)) != NULL) {
        struct sn_letter *letter = SN_CONTAINER_OF(node, struct sn_letter, node);
        *out_result = handle_settled(actor, letter);
        sn_letter_free(letter);
    } else if ((node = next_notice(actor)) != NULL) {
        struct sn_notice *notice = SN_CONTAINER_OF(node, struct sn_notice, node);
        *out_result = handle_notice(actor, notice);
        sn_notice_free(notice);
    } else if ((node = sn_list_pop(&actor->letters)) != NULL) {
        struct sn_letter *letter = SN_CONTAINER_OF(node, struct sn_letter, node);
        actor->notices_in_row = 0;
        *out_result = handle_letter(actor, letter);
        sn_letter_free(letter);
    } else {
        return SN_ENOENT;
    }
    return SN_OK;
}

static void run(struct sn_runnable *runnable, struct sn_worker *worker)
{
    struct sn_actor *actor = SN_CONTAINER_OF(runnable, struct sn_actor, runnable);
    SN_ASSERT(actor->magic == SNI_ACTOR_MAGIC);
    uint64_t begin = sn_worker_now(worker);
    for (unsigned i = 0; i < TURN_EVENTS; i++) {
        enum sn_err result = SN_OK;
        if (handle_next(actor, &result) != SN_OK) {
            sni_check_pace(actor, begin);
            return;
        }
        if (result != SN_OK) {
            sni_supervisor_failed(actor, result);
            return;
        }
    }
    sni_check_pace(actor, begin);
    sni_actor_schedule(actor);
}
