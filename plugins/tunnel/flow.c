/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: a flow is counted in the same places when it comes up and when it goes. */
#include <stddef.h>

#include "tunnel.h"

enum sn_err sni_tunnel_flow_new(struct tunnel *t, struct flow **out_flow)
{
    struct flow *flow = t->free;
    if (flow != NULL) {
        t->free = flow->next;
        flow->next = NULL;
        *out_flow = flow;
        return SN_OK;
    }
    void *entry = NULL;
    uint32_t index = t->flows.count;
    enum sn_err err = sni_tunnel_pool_add(&t->flows, &entry);
    if (err != SN_OK) return err;
    flow = entry;
    flow->index = index;
    *out_flow = flow;
    return SN_OK;
}

static struct flow **bucket_of(struct tunnel *t, struct sn_stream_ref stream)
{
    /* Fibonacci hashing: the host counts ids upward. */
    return &t->by_stream[(stream.id * 0x9e3779b97f4a7c15u) >> 54];
}

static void forget_stream(struct tunnel *t, struct flow *flow)
{
    struct flow **at = bucket_of(t, flow->stream);
    while (*at != NULL && *at != flow) at = &(*at)->in_bucket;
    if (*at == flow) *at = flow->in_bucket;
    flow->in_bucket = NULL;
}

void sni_tunnel_flow_free(struct tunnel *t, struct flow *flow)
{
    struct forward *forward = flow->forward;
    struct guest *guest = flow->guest;
    if (flow->state == FLOW_WAITING) sni_tunnel_flow_wake(t, flow);
    if (flow->state == FLOW_DIALING) flow->target->pending--;
    if (flow->state == FLOW_OPENING) forward->waiting--;
    if (flow->target != NULL) forget_stream(t, flow);
    *flow = (struct flow){.index = flow->index, .generation = flow->generation + 1};
    flow->next = t->free;
    t->free = flow;
    if (forward != NULL) sni_tunnel_forward_left(t, forward);
    if (guest != NULL) sni_tunnel_guest_left(t, guest);
}

uint64_t sni_tunnel_flow_token(const struct flow *flow)
{
    return sni_tunnel_token(TOKEN_FLOW, flow->generation, flow->index);
}

struct flow *sni_tunnel_flow_find(struct tunnel *t, uint64_t token)
{
    uint32_t index = (uint32_t)(token & 0xffffu);
    if (sni_tunnel_token_kind(token) != TOKEN_FLOW || index >= t->flows.count) return NULL;
    struct flow *flow = sni_tunnel_pool_at(&t->flows, index);
    if (flow->state == FLOW_FREE || sni_tunnel_flow_token(flow) != token) return NULL;
    return flow;
}

void sni_tunnel_flow_name(struct tunnel *t, struct flow *flow, struct sn_stream_ref stream)
{
    struct flow **bucket = bucket_of(t, stream);
    flow->stream = stream;
    flow->in_bucket = *bucket;
    *bucket = flow;
}

struct flow *sni_tunnel_flow_of_stream(struct tunnel *t, struct sn_stream_ref stream)
{
    struct flow *flow = *bucket_of(t, stream);
    while (flow != NULL && flow->stream.id != stream.id) flow = flow->in_bucket;
    return flow;
}

void sni_tunnel_flow_wait(struct tunnel *t, struct flow *flow)
{
    flow->state = FLOW_WAITING;
    if (t->waiting == NULL) {
        flow->next = flow->previous = flow;
        t->waiting = flow;
        return;
    }
    flow->next = t->waiting;
    flow->previous = t->waiting->previous;
    flow->previous->next = flow;
    flow->next->previous = flow;
}

void sni_tunnel_flow_wake(struct tunnel *t, struct flow *flow)
{
    flow->state = FLOW_DIALING;
    if (t->waiting == flow) t->waiting = flow->next == flow ? NULL : flow->next;
    flow->next->previous = flow->previous;
    flow->previous->next = flow->next;
    flow->next = flow->previous = NULL;
}

struct counts *sni_tunnel_flow_counts(struct flow *flow)
{
    return flow->forward != NULL ? &flow->forward->counts : &flow->target->counts;
}

enum sn_err sni_tunnel_flow_tune(struct sn_ctx *ctx, struct flow *flow)
{
    struct sn_stream_options options = {
        .size = (uint32_t)sizeof options,
        .idle_ms = flow->forward != NULL ? flow->forward->idle_ms : flow->target->idle_ms,
        .meter = sni_tunnel_flow_counts(flow)->meter,
    };
    return sn_stream_tune(ctx, flow->stream, &options);
}

void sni_tunnel_flow_up(struct sn_ctx *ctx, struct tunnel *t, struct flow *flow)
{
    struct counts *counts = sni_tunnel_flow_counts(flow);
    if (flow->state == FLOW_OPENING) flow->forward->waiting--;
    if (flow->state == FLOW_DIALING) flow->target->pending--;
    flow->state = FLOW_UP;
    t->up++;
    counts->opened++;
    counts->open++;
    counts->last_err = SN_OK;
    sn_metric_add(ctx, METRIC_OPENED, 1);
    sn_metric_add(ctx, METRIC_OPEN_NOW, 1);
    sni_tunnel_rates_begin(ctx, t);
}

static void log_down(struct sn_ctx *ctx, const struct flow *flow, enum sn_err err)
{
    if (flow->forward == NULL) {
        /* The client has the same error, and a reason to care. */
        sn_log(ctx, SN_DEBUG, "TUNNEL-ENDED", "target=%s err=%s", flow->target->name,
               sn_err_name(err));
        return;
    }
    const struct forward *forward = flow->forward;
    int is_up = flow->state == FLOW_UP;
    sn_log(ctx, is_up ? SN_INFO : SN_WARN, is_up ? "TUNNEL-BROKEN" : "TUNNEL-OPEN-FAILED",
           "forward=%s to=%s target=%s err=%s", forward->name, forward->to, forward->target,
           sn_err_name(err));
}

/* STREAM_DOWN is final, whatever the state: the host closed the connection if it had one. */
void sni_tunnel_flow_down(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    struct flow *flow = sni_tunnel_flow_find(t, event->token);
    /* A stream that was not accepted yet has no token. */
    if (flow == NULL && event->token == 0) flow = sni_tunnel_flow_of_stream(t, event->stream);
    if (flow == NULL) return; /* it was reset here */
    struct counts *counts = sni_tunnel_flow_counts(flow);
    enum sn_err err = (enum sn_err)event->err;
    sn_metric_add(ctx, METRIC_SENT_BYTES, (int64_t)event->sent_bytes);
    sn_metric_add(ctx, METRIC_RECEIVED_BYTES, (int64_t)event->received_bytes);
    if (flow->state == FLOW_UP) {
        counts->open--;
        t->up--;
        sn_metric_add(ctx, METRIC_OPEN_NOW, -1);
    } else if (err == SN_OK) {
        err = SN_ECLOSED; /* an end without a beginning */
    }
    if (err != SN_OK) {
        sni_tunnel_count_failed(ctx, counts, err);
        log_down(ctx, flow, err);
    }
    sni_tunnel_flow_free(t, flow);
}
