/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a forward that cannot be bound keeps trying and never hinders the others; a client
 * whose tunnel cannot be opened is reset at once or, at the latest, when open_wait_ms is over; another
 * configuration touches no connection that is there.
 */
#include <stddef.h>
#include <stdio.h>
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

static void close_listener(struct sn_ctx *ctx, struct forward *forward)
{
    if (forward->state == FORWARD_LISTENING) sn_listener_close(ctx, forward->listener);
    forward->state = FORWARD_FAILED;
    forward->bound[0] = '\0';
}

/* A port that is open already stays so until the new one is. */
static void listen_now(struct sn_ctx *ctx, struct forward *forward)
{
    struct sn_listener_ref listener = {0};
    uint64_t token = sni_tunnel_token(TOKEN_FORWARD, forward->generation, forward->index);
    char bound[TUNNEL_BOUND_MAX] = "";
    enum sn_err err = sn_listen(ctx, forward->listen, token, &listener, bound, sizeof bound);
    if (err != SN_OK && forward->state == FORWARD_LISTENING) {
        /* Its own port may be in the way: 0.0.0.0 holds 127.0.0.1, too. What the configuration does
         * not name any more is given up in any case. */
        close_listener(ctx, forward);
        err = sn_listen(ctx, forward->listen, token, &listener, bound, sizeof bound);
    }
    if (err != SN_OK) {
        listen_failed(ctx, forward, err);
        return;
    }
    if (forward->state == FORWARD_LISTENING) close_listener(ctx, forward);
    memcpy(forward->bound, bound, sizeof bound);
    forward->bound[sizeof bound - 1] = '\0';
    forward->listener = listener;
    forward->state = FORWARD_LISTENING;
    forward->listen_err = SN_OK;
    forward->retry_ms = 0;
    sn_log(ctx, SN_INFO, "FORWARD-LISTENING", "forward=%s address=%s to=%s target=%s",
           forward->name, forward->bound, forward->to, forward->target);
}

/* --- Configuration --------------------------------------------------------------------------------
 */

/* Of the `known` first entries, most likely the one at `index`: few files are sorted anew. */
static struct forward *find_forward(struct tunnel *t, const char *name, uint32_t index,
                                    uint32_t known)
{
    for (uint32_t i = 0; i <= known; i++) {
        uint32_t at = i == 0 ? index : i - 1;
        if (at >= known) continue;
        struct forward *forward = forward_at(t, at);
        if (forward->state != FORWARD_FREE && strcmp(forward->name, name) == 0) return forward;
    }
    return NULL;
}

/* An entry that is FREE; the pool grows when there is none. */
static enum sn_err new_forward(struct tunnel *t, struct forward **out_forward)
{
    void *entry = NULL;
    struct forward *forward = NULL;
    for (uint32_t i = 0; t->free_forwards > 0 && i < t->forwards.count; i++) {
        forward = forward_at(t, i);
        if (forward->state == FORWARD_FREE) break;
    }
    if (t->free_forwards == 0) {
        enum sn_err err = sni_tunnel_pool_add(&t->forwards, &entry);
        if (err != SN_OK) return err;
        forward = entry;
        forward->index = t->forwards.count - 1;
        t->free_forwards++;
    }
    enum sn_err err = sni_tunnel_counts_init(&forward->counts);
    if (err != SN_OK) return err;
    t->free_forwards--;
    *out_forward = forward;
    return SN_OK;
}

void sni_tunnel_forward_left(struct tunnel *t, struct forward *forward)
{
    if (forward->state != FORWARD_REMOVED || forward->waiting + forward->counts.open > 0) return;
    sni_tunnel_counts_fini(&forward->counts);
    *forward = (struct forward){.index = forward->index, .generation = forward->generation + 1};
    t->free_forwards++;
}

static void read_forward(struct forward *forward, const struct sn_config_node *node)
{
    const struct sn_config_field *fields = sni_tunnel_forward_fields;
    const char *listen = sn_config_get_text(node, fields, "listen");
    /* The schema bounds both to what fits. */
    (void)snprintf(forward->to, sizeof forward->to, "%s", sn_config_get_text(node, fields, "to"));
    (void)snprintf(forward->target, sizeof forward->target, "%s",
                   sn_config_get_text(node, fields, "target"));
    forward->open_wait_ms = (uint64_t)sn_config_get_int(node, fields, "open_wait_ms");
    forward->idle_ms = (uint64_t)sn_config_get_int(node, fields, "idle_ms");
    forward->max_connections = (uint32_t)sn_config_get_int(node, fields, "max_connections");
    forward->must_listen = forward->listen == NULL || strcmp(forward->listen, listen) != 0;
    forward->listen = listen;
    forward->is_present = 1;
}

static enum sn_err set_forward(struct tunnel *t, const struct sn_config_node *forwards,
                               uint32_t index, uint32_t known)
{
    const char *name = sn_config_key_at(forwards, index);
    struct forward *forward = find_forward(t, name, index, known);
    if (forward == NULL) {
        enum sn_err err = new_forward(t, &forward);
        if (err != SN_OK) return err;
        (void)snprintf(forward->name, sizeof forward->name, "%s", name); /* a label fits */
    }
    if (forward->state == FORWARD_FREE || forward->state == FORWARD_REMOVED) {
        forward->state = t->is_stopping ? FORWARD_STOPPED : FORWARD_FAILED;
        forward->listen = NULL;
    }
    read_forward(forward, sn_config_at(forwards, index));
    return SN_OK;
}

static void remove_forward(struct sn_ctx *ctx, struct tunnel *t, struct forward *forward)
{
    sn_log(ctx, SN_INFO, "FORWARD-REMOVED", "forward=%s open=%u", forward->name,
           forward->counts.open);
    close_listener(ctx, forward);
    forward->state = FORWARD_REMOVED;
    forward->listen = "";
    forward->listen_err = SN_OK;
    sni_tunnel_forward_left(t, forward);
}

static void remove_absent(struct sn_ctx *ctx, struct tunnel *t)
{
    for (uint32_t i = 0; i < t->forwards.count; i++) {
        struct forward *forward = forward_at(t, i);
        int is_present = forward->is_present;
        forward->is_present = 0;
        if (is_present || forward->state == FORWARD_FREE || forward->state == FORWARD_REMOVED) {
            continue;
        }
        remove_forward(ctx, t, forward);
    }
}

static void listen_where_due(struct sn_ctx *ctx, struct tunnel *t)
{
    for (uint32_t i = 0; i < t->forwards.count; i++) {
        struct forward *forward = forward_at(t, i);
        int is_due = forward->must_listen && !t->is_stopping;
        forward->must_listen = 0;
        if (!is_due) continue;
        forward->retry_ms = 0;
        forward->listen_err = SN_OK; /* another address, another line */
        listen_now(ctx, forward);
    }
}

enum sn_err sni_tunnel_forwards_set(struct sn_ctx *ctx, struct tunnel *t,
                                    const struct sn_config_node *config, int must_go_on)
{
    const struct sn_config_node *forwards = sn_config_get(config, "forwards");
    uint32_t known = t->forwards.count;
    enum sn_err first = SN_OK;
    for (uint32_t i = 0; i < sn_config_count(forwards); i++) {
        enum sn_err err = set_forward(t, forwards, i, known);
        if (err == SN_OK) continue;
        first = err;
        if (!must_go_on) return err;
        sn_log(ctx, SN_ERROR, "FORWARD-NOT-ADDED", "forward=%s err=%s",
               sn_config_key_at(forwards, i), sn_err_name(err));
    }
    remove_absent(ctx, t);
    listen_where_due(ctx, t);
    /* Forwards that swapped their addresses have made room for each other by now. */
    for (uint32_t i = 0; i < known; i++) {
        struct forward *forward = forward_at(t, i);
        if (forward->state == FORWARD_FAILED) forward->retry_at_ms = sn_now_ms(ctx);
    }
    return first;
}

/* --- Ports ----------------------------------------------------------------------------------------
 */

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
        if (forward->state == FORWARD_FREE || forward->state == FORWARD_REMOVED) continue;
        close_listener(ctx, forward);
        forward->state = FORWARD_STOPPED;
    }
}

/* --- Clients --------------------------------------------------------------------------------------
 */

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
    err = sni_tunnel_flow_tune(ctx, flow);
    /* What the client says meanwhile waits in the stream's window. */
    if (err == SN_OK) err = sn_stream_splice(ctx, stream, conn);
    if (err != SN_OK) sn_stream_reset(ctx, stream, err);
out:
    if (err != SN_OK) sni_tunnel_flow_free(t, flow);
    return err;
}

/* NULL: the connection came through a port that is closed by now. */
static struct forward *find_listening(struct tunnel *t, uint64_t token)
{
    uint32_t index = (uint32_t)(token & 0xffffu);
    if (sni_tunnel_token_kind(token) != TOKEN_FORWARD || index >= t->forwards.count) return NULL;
    struct forward *forward = forward_at(t, index);
    if (token != sni_tunnel_token(TOKEN_FORWARD, forward->generation, index)) return NULL;
    if (forward->state == FORWARD_FREE || forward->state == FORWARD_REMOVED) return NULL;
    return forward;
}

static void refuse_client(struct sn_ctx *ctx, struct forward *forward, struct sn_conn_ref conn)
{
    sn_conn_close(ctx, conn, 1);
    if (!sni_tunnel_count_refused(ctx, &forward->counts, REFUSAL_CONNECTIONS)) return;
    sn_log(ctx, SN_WARN, "FORWARD-FULL", "forward=%s max_connections=%u", forward->name,
           forward->max_connections);
}

void sni_tunnel_accepted(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    struct forward *forward = find_listening(t, event->token);
    if (forward == NULL || t->is_stopping) {
        sn_conn_close(ctx, event->conn, 1);
        return;
    }
    if (forward->waiting + forward->counts.open >= forward->max_connections) {
        refuse_client(ctx, forward, event->conn);
        return;
    }
    forward->counts.refusing = 0;
    enum sn_err err = open_flow(ctx, t, forward, event->conn);
    if (err == SN_OK) return;
    sn_conn_close(ctx, event->conn, 1);
    sni_tunnel_count_failed(ctx, &forward->counts, err);
    sn_log(ctx, SN_WARN, "TUNNEL-OPEN-FAILED", "forward=%s to=%s target=%s err=%s", forward->name,
           forward->to, forward->target, sn_err_name(err));
}
