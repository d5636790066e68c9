/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and timers of an actor. Guarantee: each question ends in exactly one REPLY event, unless its actor
 * failed meanwhile. */
#include <string.h>

#include "actor/actor_int.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

#define ASKS_PER_ACTOR_MAX 1024u
#define COUNTER_MASK       ((1ull << 48) - 1)

uint64_t sni_after_ms(uint64_t now_ns, uint64_t ms)
{
    return ms > (UINT64_MAX - now_ns) / SN_MS ? UINT64_MAX : now_ns + ms * SN_MS;
}

static void handle_from_timer(struct sn_actor *actor, const struct sn_event *event)
{
    uint64_t begin = sn_worker_refresh_now(actor->worker);
    enum sn_err err = sni_handle(actor, event);
    sni_check_pace(actor, begin);
    if (err != SN_OK) sni_supervisor_failed(actor, err);
}

static void free_ask(struct sn_actor *actor, struct sni_ask *ask)
{
    sn_list_remove(&ask->node);
    sn_timer_stop(actor->worker, &ask->timer);
    SN_ASSERT(actor->ask_count > 0);
    actor->ask_count--;
    atomic_store_explicit(&actor->asks_outstanding, actor->ask_count, memory_order_relaxed);
    sn_free(ask, sizeof *ask);
}

void sni_ask_finish(struct sn_actor *actor, struct sni_ask *ask)
{
    free_ask(actor, ask);
}

struct sni_ask *sni_ask_find(struct sn_actor *actor, uint64_t correlation)
{
    SN_LIST_EACH (node, &actor->asks) {
        struct sni_ask *ask = SN_CONTAINER_OF(node, struct sni_ask, node);
        if (ask->correlation == correlation) return ask;
    }
    return NULL;
}

static void time_out(struct sn_timer *timer, struct sn_worker *worker)
{
    (void)worker; /* the actor knows it */
    struct sni_ask *ask = SN_CONTAINER_OF(timer, struct sni_ask, timer);
    struct sn_actor *actor = ask->actor;
    struct sn_event event = {.size = sizeof event,
                             .kind = SN_EVENT_REPLY,
                             .token = ask->token,
                             .agent = "",
                             .actor = "",
                             .type = "",
                             .text = "",
                             .err = SN_ETIMEDOUT};
    free_ask(actor, ask);
    handle_from_timer(actor, &event);
}

enum sn_err sni_ask_new(struct sn_actor *actor, const char *agent, uint64_t timeout_ms,
                        uint64_t token, struct sni_ask **out_ask)
{
    if (actor->ask_count >= ASKS_PER_ACTOR_MAX) return SN_EFULL;
    if (strlen(agent) >= sizeof((struct sni_ask *)0)->agent) return SN_EINVAL;
    enum sn_err err = sn_worker_reserve_timer(actor->worker);
    if (err != SN_OK) return err;
    struct sni_ask *ask = sn_alloc(sizeof *ask);
    if (ask == NULL) return SN_ENOMEM;
    ask->actor = actor;
    ask->token = token;
    /* The slot finds the actor again; the counter starts at a random place, so that answers to a former boot of
     * this agent do not fit. */
    if ((++actor->ask_counter & COUNTER_MASK) == 0) actor->ask_counter++; /* 0 = no question */
    ask->correlation = ((actor->ref.id - 1) << 48) | (actor->ask_counter & COUNTER_MASK);
    memcpy(ask->agent, agent, strlen(agent) + 1);
    sn_timer_init(&ask->timer, time_out);
    sn_timer_start(actor->worker, &ask->timer,
                   sni_after_ms(sn_worker_refresh_now(actor->worker), timeout_ms));
    sn_list_push(&actor->asks, &ask->node);
    actor->ask_count++;
    atomic_store_explicit(&actor->asks_outstanding, actor->ask_count, memory_order_relaxed);
    *out_ask = ask;
    return SN_OK;
}

void sni_ask_cancel_all(struct sn_actor *actor)
{
    struct sn_list *node;
    while ((node = sn_list_first(&actor->asks)) != NULL) {
        free_ask(actor, SN_CONTAINER_OF(node, struct sni_ask, node));
    }
    SN_ASSERT(actor->ask_count == 0);
}

/* --- Timers ---------------------------------------------------------------------------------------- */

static void free_timer(struct sn_actor *actor, struct sni_actor_timer *timer)
{
    sn_list_remove(&timer->node);
    sn_timer_stop(actor->worker, &timer->timer);
    SN_ASSERT(actor->timer_count > 0);
    actor->timer_count--;
    sn_free(timer, sizeof *timer);
}

static void expire(struct sn_timer *base, struct sn_worker *worker)
{
    (void)worker; /* the actor knows it */
    struct sni_actor_timer *timer = SN_CONTAINER_OF(base, struct sni_actor_timer, timer);
    struct sn_actor *actor = timer->actor;
    struct sn_event event = {.size = sizeof event,
                             .kind = SN_EVENT_TIMER,
                             .token = timer->token,
                             .agent = "",
                             .actor = "",
                             .type = "",
                             .text = ""};
    free_timer(actor, timer);
    handle_from_timer(actor, &event);
}

static struct sni_actor_timer *find_timer(struct sn_actor *actor, uint64_t token)
{
    SN_LIST_EACH (node, &actor->timers) {
        struct sni_actor_timer *timer = SN_CONTAINER_OF(node, struct sni_actor_timer, node);
        if (timer->token == token) return timer;
    }
    return NULL;
}

enum sn_err sn_ctx_timer(struct sn_ctx *ctx, uint64_t token, uint64_t after_ms)
{
    struct sn_actor *actor = ((struct sni_ctx *)ctx)->actor;
    uint64_t at_ns = sni_after_ms(sn_worker_refresh_now(actor->worker), after_ms);
    struct sni_actor_timer *timer = find_timer(actor, token);
    if (timer == NULL) {
        if (actor->timer_count >= SN_TIMERS_PER_ACTOR_MAX) return SN_EFULL;
        enum sn_err err = sn_worker_reserve_timer(actor->worker);
        if (err != SN_OK) return err;
        timer = sn_alloc(sizeof *timer);
        if (timer == NULL) return SN_ENOMEM;
        timer->actor = actor;
        timer->token = token;
        sn_timer_init(&timer->timer, expire);
        sn_list_push(&actor->timers, &timer->node);
        actor->timer_count++;
    }
    sn_timer_start(actor->worker, &timer->timer, at_ns);
    return SN_OK;
}

void sn_ctx_timer_cancel(struct sn_ctx *ctx, uint64_t token)
{
    struct sn_actor *actor = ((struct sni_ctx *)ctx)->actor;
    struct sni_actor_timer *timer = find_timer(actor, token);
    if (timer != NULL) free_timer(actor, timer);
}

void sni_timers_cancel_all(struct sn_actor *actor)
{
    struct sn_list *node;
    while ((node = sn_list_first(&actor->timers)) != NULL) {
        free_timer(actor, SN_CONTAINER_OF(node, struct sni_actor_timer, node));
    }
    SN_ASSERT(actor->timer_count == 0);
}
