/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a forward that cannot be bound keeps trying and never hinders the others; a client
 * whose tunnel cannot be opened is reset at once or, at the latest, when open_wait_ms is over.
 */
#include <stddef.h>
#include <string.h>

#include "tunnel.h"

#define LISTEN_RETRY_MIN_MS 250u
#define LISTEN_RETRY_MAX_MS 10000u

static struct forward *forward_at(struct tunnel *t, uint32_t index)
{
    return sni_tunnel_pool_at(&t->forwards, index);
}

static void listen_failed(struct sn_ctx *ctx, struct forward *forward, enum sn_err err)
{
    /* One line a cause: the list shows that it still fails. */
    if (forward->listen_err != (uint32_t)err) {
        sn_log(ctx, SN_ERROR, "FORWARD-LISTEN-FAILED", "forward=%s address=%s err=%s text=\"%s\"",
               forward->name, forward->listen, sn_err_name(err), sn_err_text(err));
    }
    forward->listen_err = (uint32_t)err;
    sn_metric_add(ctx, METRIC_LISTEN_FAILURES, 1);
    uint32_t delay = forward->retry_ms * 2;
    if (delay < LISTEN_RETRY_MIN_MS) delay = LISTEN_RETRY_MIN_MS;
    if (delay > LISTEN_RETRY_MAX_MS) delay = LISTEN_RETRY_MAX_MS;
    forward->retry_ms = delay;
    forward->retry_at_ms = sn_now_ms(ctx) + delay;
}

static void listen_now(struct sn_ctx *ctx, struct forward *forward)
{
    struct sn_listener_ref listener = {0};
    uint64_t token = sni_tunnel_token(TOKEN_FORWARD, 0, forward->index);
    char bound[TUNNEL_BOUND_MAX] = "";
    enum sn_err err = sn_listen(ctx, forward->listen, token, &listener, bound, sizeof bound);
    if (err != SN_OK) {
        listen_failed(ctx, forward, err);
        return;
    }
    memcpy(forward->bound, bound, sizeof bound);
    forward->bound[sizeof bound - 1] = '\0';
    forward->listener = listener;
    forward->state = FORWARD_LISTENING;
    forward->listen_err = SN_OK;
    forward->retry_ms = 0;
    sn_log(ctx, SN_INFO, "FORWARD-LISTENING", "forward=%s address=%s to=%s target=%s",
           forward->name, forward->bound, forward->to, forward->target);
}

enum sn_err sni_tunnel_forwards_start(struct sn_ctx *ctx, struct tunnel *t,
                                      const struct sn_config_node *config)
{
    const struct sn_config_node *forwards = sn_config_get(config, "forwards");
    for (uint32_t i = 0; i < sn_config_count(forwards); i++) {
        const struct sn_config_node *node = sn_config_at(forwards, i);
        const struct sn_config_field *fields = sni_tunnel_forward_fields;
        void *entry = NULL;
        enum sn_err err = sni_tunnel_pool_add(&t->forwards, &entry);
        if (err != SN_OK) return err;
        struct forward *forward = entry;
        forward->index = i;
        forward->name = sn_config_key_at(forwards, i);
        forward->listen = sn_config_get_text(node, fields, "listen");
        forward->to = sn_config_get_text(node, fields, "to");
        forward->target = sn_config_get_text(node, fields, "target");
        forward->open_wait_ms = (uint64_t)sn_config_get_int(node, fields, "open_wait_ms");
    }
    for (uint32_t i = 0; i < t->forwards.count; i++) listen_now(ctx, forward_at(t, i));
    return SN_OK;
}

void sni_tunnel_forwards_tick(struct sn_ctx *ctx, struct tunnel *t)
{
    uint64_t now = sn_now_ms(ctx);
    for (uint32_t i = 0; i < t->forwards.count; i++) {
        struct forward *forward = forward_at(t, i);
        if (forward->state == FORWARD_FAILED && forward->retry_at_ms <= now) {
            listen_now(ctx, forward);
        }
    }
}

uint64_t sni_tunnel_forwards_due(struct tunnel *t)
{
    uint64_t due = UINT64_MAX;
    for (uint32_t i = 0; i < t->forwards.count; i++) {
        const struct forward *forward = forward_at(t, i);
        if (forward->state == FORWARD_FAILED && forward->retry_at_ms < due) {
            due = forward->retry_at_ms;
        }
    }
    return due;
}

void sni_tunnel_forwards_stop(struct sn_ctx *ctx, struct tunnel *t)
{
    for (uint32_t i = 0; i < t->forwards.count; i++) {
        struct forward *forward = forward_at(t, i);
        if (forward->state == FORWARD_LISTENING) sn_listener_close(ctx, forward->listener);
        forward->state = FORWARD_STOPPED;
        forward->bound[0] = '\0';
    }
}

/* On failure the connection is still the caller's. */
static enum sn_err open_flow(struct sn_ctx *ctx, struct tunnel *t, struct forward *forward,
                             struct sn_conn_ref conn)
{
    struct flow *flow = NULL;
    struct sn_stream_ref stream = {0};
    enum sn_err err = sni_tunnel_flow_new(t, &flow);
    if (err != SN_OK) return err;
    flow->state = FLOW_OPENING;
    flow->forward = forward;
    forward->waiting++;
    err = sn_stream_open(ctx, forward->to, TUNNEL_SERVICE, forward->target,
                         (uint32_t)strlen(forward->target), forward->open_wait_ms,
                         sni_tunnel_flow_token(flow), &stream);
    if (err != SN_OK) goto out;
    flow->stream = stream;
    /* What the client says meanwhile waits in the stream's window. */
    err = sn_stream_splice(ctx, stream, conn);
    if (err != SN_OK) sn_stream_reset(ctx, stream, err);
out:
    if (err != SN_OK) sni_tunnel_flow_free(t, flow);
    return err;
}

void sni_tunnel_accepted(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    uint32_t index = (uint32_t)(event->token & 0xffffu);
    if (sni_tunnel_token_kind(event->token) != TOKEN_FORWARD || index >= t->forwards.count ||
        t->is_stopping) {
        sn_conn_close(ctx, event->conn, 1);
        return;
    }
    struct forward *forward = forward_at(t, index);
    enum sn_err err = open_flow(ctx, t, forward, event->conn);
    if (err == SN_OK) return;
    sn_conn_close(ctx, event->conn, 1);
    sni_tunnel_count_failed(ctx, &forward->counts, err);
    sn_log(ctx, SN_WARN, "TUNNEL-OPEN-FAILED", "forward=%s to=%s target=%s err=%s", forward->name,
           forward->to, forward->target, sn_err_name(err));
}
