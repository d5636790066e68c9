/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: every event reaches exactly one place, and whatever waits for a time has a timer. */
#include "tunnel.h"

#include <stddef.h>
#include <string.h>

#define DIAL_TICK_MS 50u
#define RATE_TICK_MS 1000u

/* Timers are set here alone, after each event: one that could not be set is tried again by the
 * next. */
static enum sn_err set_ticks(struct sn_ctx *ctx, struct tunnel *t)
{
    enum sn_err err = SN_OK;
    if (t->waiting != NULL && !t->is_dial_tick_set) {
        err = sn_timer(ctx, sni_tunnel_token(TOKEN_DIAL_TICK, 0, 0), DIAL_TICK_MS);
        t->is_dial_tick_set = err == SN_OK;
    }
    uint64_t due = t->is_listen_tick_set ? UINT64_MAX : sni_tunnel_forwards_due(t);
    if (err == SN_OK && due != UINT64_MAX) {
        uint64_t now = sn_now_ms(ctx);
        err = sn_timer(ctx, sni_tunnel_token(TOKEN_LISTEN_TICK, 0, 0), due > now ? due - now : 0);
        t->is_listen_tick_set = err == SN_OK;
    }
    if (err == SN_OK && t->is_flowing && !t->is_rate_tick_set) {
        err = sn_timer(ctx, sni_tunnel_token(TOKEN_RATE_TICK, 0, 0), RATE_TICK_MS);
        t->is_rate_tick_set = err == SN_OK;
    }
    return err;
}

static enum sn_err start(struct sn_ctx *ctx, struct tunnel *t, const struct sn_config_node *config)
{
    sni_tunnel_pool_init(&t->targets, sizeof(struct target), TUNNEL_ENTRIES_MAX);
    sni_tunnel_pool_init(&t->forwards, sizeof(struct forward), TUNNEL_ENTRIES_MAX);
    sni_tunnel_pool_init(&t->flows, sizeof(struct flow), TUNNEL_FLOWS_MAX);
    sni_tunnel_pool_init(&t->guests, sizeof(struct guest), TUNNEL_FLOWS_MAX);
    enum sn_err err = sni_tunnel_targets_set(ctx, t, config);
    if (err == SN_OK) err = sni_tunnel_forwards_set(ctx, t, config, 0);
    return err;
}

/* A restart would end every tunnel, so that what could not be added is left out instead: the log
 * names it, and the next configuration tries again. */
static void reconfigure(struct sn_ctx *ctx, struct tunnel *t, const struct sn_config_node *config)
{
    enum sn_err targets = sni_tunnel_targets_set(ctx, t, config);
    enum sn_err forwards = sni_tunnel_forwards_set(ctx, t, config, 1);
    (void)targets;  /* logged, entry by entry */
    (void)forwards; /* likewise */
}

static void stop(struct sn_ctx *ctx, struct tunnel *t)
{
    t->is_stopping = 1;
    sni_tunnel_forwards_stop(ctx, t);
    sni_tunnel_targets_stop(ctx, t);
}

static void tick(struct sn_ctx *ctx, struct tunnel *t, uint64_t token)
{
    switch (sni_tunnel_token_kind(token)) {
    case TOKEN_DIAL_TICK:
        t->is_dial_tick_set = 0;
        sni_tunnel_dial_tick(ctx, t);
        break;
    case TOKEN_LISTEN_TICK:
        t->is_listen_tick_set = 0;
        sni_tunnel_forwards_tick(ctx, t);
        break;
    case TOKEN_RATE_TICK:
        t->is_rate_tick_set = 0;
        sni_tunnel_rates_tick(ctx, t);
        break;
    default: break;
    }
}

static void stream_up(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    struct flow *flow = sni_tunnel_flow_find(t, event->token);
    if (flow != NULL && flow->state == FLOW_OPENING) sni_tunnel_flow_up(ctx, t, flow);
}

static void message(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    if (strcmp(event->type, TUNNEL_LIST) == 0) sni_tunnel_list(ctx, t, event);
}

static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct tunnel *t = state;
    enum sn_err err = SN_OK;
    switch (event->kind) {
    case SN_EVENT_START: err = start(ctx, t, event->config); break;
    case SN_EVENT_CONFIG: reconfigure(ctx, t, event->config); break;
    case SN_EVENT_STOP: stop(ctx, t); break;
    case SN_EVENT_MESSAGE: message(ctx, t, event); break;
    case SN_EVENT_TIMER: tick(ctx, t, event->token); break;
    case SN_EVENT_STREAM_ASKED: sni_tunnel_asked(ctx, t, event); break;
    case SN_EVENT_STREAM_UP: stream_up(ctx, t, event); break;
    case SN_EVENT_STREAM_DOWN: sni_tunnel_flow_down(ctx, t, event); break;
    case SN_EVENT_CONN_ACCEPTED: sni_tunnel_accepted(ctx, t, event); break;
    case SN_EVENT_CONN_DIALED: sni_tunnel_dialed(ctx, t, event); break;
    default: break; /* nothing else was asked for */
    }
    if (err != SN_OK) return err;
    err = set_ticks(ctx, t);
    /* Later there are flows that a restart would break, and events that try again. */
    return event->kind == SN_EVENT_START ? err : SN_OK;
}

static void fini(void *state)
{
    struct tunnel *t = state;
    for (uint32_t i = 0; i < t->targets.count; i++) {
        struct target *target = sni_tunnel_pool_at(&t->targets, i);
        sni_tunnel_counts_fini(&target->counts);
    }
    for (uint32_t i = 0; i < t->forwards.count; i++) {
        struct forward *forward = sni_tunnel_pool_at(&t->forwards, i);
        sni_tunnel_counts_fini(&forward->counts);
    }
    sni_tunnel_pool_fini(&t->guests);
    sni_tunnel_pool_fini(&t->targets);
    sni_tunnel_pool_fini(&t->forwards);
    sni_tunnel_pool_fini(&t->flows);
}

const struct sn_actor_kind sni_tunnel_kind = {
    .size = (uint32_t)sizeof(struct sn_actor_kind),
    .state_bytes = (uint32_t)sizeof(struct tunnel),
    .name = "tunnel",
    .handle = handle,
    .fini = fini,
    .service = TUNNEL_SERVICE,
};
