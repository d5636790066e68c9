/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: only agents that a target's allow: list names reach its address; a service that is
 * late is waited for as long as connect_wait_ms says, and no client waits for the dial of another
 * one.
 */
#include <stddef.h>
#include <string.h>

#include "tunnel.h"

#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 1000u
/* A packet that was lost is sent again sooner by a new dial than by the system. */
#define DIAL_MAX_MS  3000u
#define DIALS_A_TICK 256u /* bounds the time of one handler call */

static struct target *target_at(struct tunnel *t, uint32_t index)
{
    return sni_tunnel_pool_at(&t->targets, index);
}

enum sn_err sni_tunnel_targets_start(struct tunnel *t, const struct sn_config_node *config)
{
    const struct sn_config_node *targets = sn_config_get(config, "targets");
    for (uint32_t i = 0; i < sn_config_count(targets); i++) {
        const struct sn_config_node *node = sn_config_at(targets, i);
        const struct sn_config_field *fields = sni_tunnel_target_fields;
        void *entry = NULL;
        enum sn_err err = sni_tunnel_pool_add(&t->targets, &entry);
        if (err != SN_OK) return err;
        struct target *target = entry;
        target->name = sn_config_key_at(targets, i);
        target->address = sn_config_get_text(node, fields, "address");
        target->allow = sn_config_get(node, "allow");
        target->connect_wait_ms = (uint64_t)sn_config_get_int(node, fields, "connect_wait_ms");
    }
    return SN_OK;
}

/* An agent has few targets, so looking through them costs less than what a stream costs anyway. */
static struct target *find_target(struct tunnel *t, const uint8_t *name, uint32_t size)
{
    for (uint32_t i = 0; i < t->targets.count; i++) {
        struct target *target = target_at(t, i);
        if (strlen(target->name) == size && memcmp(target->name, name, size) == 0) return target;
    }
    return NULL;
}

static int is_allowed(struct sn_ctx *ctx, const struct target *target, const char *agent)
{
    for (uint32_t i = 0; i < sn_config_count(target->allow); i++) {
        const char *pattern = sn_config_text(sn_config_at(target->allow, i), "");
        if (sn_agent_matches(ctx, agent, pattern)) return 1;
    }
    return 0;
}

static void give_up(struct sn_ctx *ctx, struct tunnel *t, struct flow *flow, enum sn_err to_client,
                    enum sn_err cause)
{
    struct target *target = flow->target;
    sn_stream_reset(ctx, flow->stream, to_client);
    sni_tunnel_count_failed(ctx, &target->counts, cause);
    sn_log(ctx, SN_WARN, "TUNNEL-TARGET-FAILED", "target=%s address=%s err=%s text=\"%s\"",
           target->name, target->address, sn_err_name(cause), sn_err_text(cause));
    sni_tunnel_flow_free(t, flow);
}

static void retry_later(struct sn_ctx *ctx, struct tunnel *t, struct flow *flow, enum sn_err err)
{
    uint64_t now = sn_now_ms(ctx);
    if (t->is_stopping || now >= flow->deadline_ms) {
        give_up(ctx, t, flow, t->is_stopping ? SN_ECANCELLED : SN_EUNREACHABLE, err);
        return;
    }
    uint64_t left = flow->deadline_ms - now;
    uint32_t delay = flow->delay_ms * 2;
    if (delay < RETRY_MIN_MS) delay = RETRY_MIN_MS;
    if (delay > RETRY_MAX_MS) delay = RETRY_MAX_MS;
    flow->delay_ms = delay;
    /* The last dial is made when the time is over, however long the delay has become. */
    flow->retry_at_ms = now + (delay < left ? delay : left);
    flow->target->counts.last_err = (uint32_t)err;
    sni_tunnel_flow_wait(t, flow);
}

/* Starts a dial, or lets the flow wait for the next one, or gives it up. */
static void dial(struct sn_ctx *ctx, struct tunnel *t, struct flow *flow)
{
    uint64_t now = sn_now_ms(ctx);
    uint64_t left = flow->deadline_ms > now ? flow->deadline_ms - now : 0;
    /* The first dial gets its time also where nothing may be waited for; the last one is short. */
    uint64_t timeout = flow->delay_ms > 0 && left < DIAL_MAX_MS ? left : DIAL_MAX_MS;
    if (timeout < RETRY_MIN_MS) timeout = RETRY_MIN_MS;
    flow->state = FLOW_DIALING;
    enum sn_err err = sn_dial(ctx, flow->target->address, timeout, sni_tunnel_flow_token(flow));
    if (err != SN_OK) retry_later(ctx, t, flow, err);
}

/* Bytes of a peer: only what can be a name is worth a place in the log. */
static int is_printable_name(const uint8_t *name, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        if (name[i] <= 0x20 || name[i] >= 0x7f || name[i] == '"') return 0;
    }
    return size > 0 && size <= SN_LABEL_BYTES_MAX;
}

static void refuse_unknown(struct sn_ctx *ctx, const struct sn_event *event)
{
    int is_printable = is_printable_name(event->payload, event->payload_size);
    sn_metric_add(ctx, METRIC_DENIED, 1);
    sn_log(ctx, SN_WARN, "TUNNEL-TARGET-UNKNOWN", "agent=%s target=%.*s", event->agent,
           is_printable ? (int)event->payload_size : 1,
           is_printable ? (const char *)event->payload : "?");
    sn_stream_reset(ctx, event->stream, SN_ENOENT);
}

void sni_tunnel_asked(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    struct target *target = find_target(t, event->payload, event->payload_size);
    if (target == NULL) {
        refuse_unknown(ctx, event);
        return;
    }
    if (!is_allowed(ctx, target, event->agent)) {
        target->counts.denied++;
        target->counts.last_err = SN_EDENIED;
        sn_metric_add(ctx, METRIC_DENIED, 1);
        sn_log(ctx, SN_WARN, "TUNNEL-DENIED", "agent=%s target=%s", event->agent, target->name);
        sn_stream_reset(ctx, event->stream, SN_EDENIED);
        return;
    }
    struct flow *flow = NULL;
    enum sn_err err = t->is_stopping ? SN_ECANCELLED : sni_tunnel_flow_new(t, &flow);
    if (err != SN_OK) {
        sni_tunnel_count_failed(ctx, &target->counts, err);
        sn_log(ctx, SN_WARN, "TUNNEL-REFUSED", "agent=%s target=%s err=%s", event->agent,
               target->name, sn_err_name(err));
        sn_stream_reset(ctx, event->stream, err);
        return;
    }
    flow->target = target;
    flow->deadline_ms = sn_now_ms(ctx) + target->connect_wait_ms;
    sni_tunnel_flow_name(t, flow, event->stream);
    dial(ctx, t, flow);
}

/* On failure the connection is still the caller's. */
static enum sn_err join(struct sn_ctx *ctx, struct flow *flow, struct sn_conn_ref conn)
{
    enum sn_err err = sn_stream_accept(ctx, flow->stream, sni_tunnel_flow_token(flow));
    if (err != SN_OK) return err;
    return sn_stream_splice(ctx, flow->stream, conn);
}

void sni_tunnel_dialed(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    struct flow *flow = sni_tunnel_flow_find(t, event->token);
    if (flow == NULL || flow->state != FLOW_DIALING) {
        /* The client went away meanwhile. */
        if (event->conn.id != 0) sn_conn_close(ctx, event->conn, 1);
        return;
    }
    if (event->err != SN_OK) {
        retry_later(ctx, t, flow, (enum sn_err)event->err);
        return;
    }
    enum sn_err err = join(ctx, flow, event->conn);
    if (err == SN_OK) {
        sni_tunnel_flow_up(ctx, flow);
        return;
    }
    sn_conn_close(ctx, event->conn, 1);
    give_up(ctx, t, flow, err, err);
}

void sni_tunnel_dial_tick(struct sn_ctx *ctx, struct tunnel *t)
{
    uint64_t now = sn_now_ms(ctx);
    struct flow *flow = t->waiting;
    struct flow *last = flow == NULL ? NULL : flow->previous;
    uint32_t dials = 0;
    int is_last = flow == NULL;
    while (!is_last && dials < DIALS_A_TICK) {
        struct flow *next = flow->next;
        is_last = flow == last;
        if (flow->retry_at_ms <= now) {
            sni_tunnel_flow_wake(t, flow);
            sn_metric_add(ctx, METRIC_DIAL_RETRIES, 1);
            dials++;
            dial(ctx, t, flow); /* may put it behind `last` */
        }
        flow = next;
    }
}

void sni_tunnel_targets_stop(struct sn_ctx *ctx, struct tunnel *t)
{
    /* Dials under way may still succeed: those clients were asked for before. */
    while (t->waiting != NULL) {
        give_up(ctx, t, t->waiting, SN_ECANCELLED, SN_ECANCELLED);
    }
}
