/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: the answer is well-formed JSON that fits into a message; what does not fit is
 * counted. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "tunnel.h"

#define TAIL_BYTES 32u /* kept free for what closes each of the two lists */

static const char *const state_names[] = {[FORWARD_FREE] = "free",
                                          [FORWARD_FAILED] = "failed",
                                          [FORWARD_LISTENING] = "listening",
                                          [FORWARD_STOPPED] = "stopped",
                                          [FORWARD_REMOVED] = "removed"};

static const char *err_text(uint32_t err)
{
    return err == SN_OK ? "" : sn_err_text((enum sn_err)err);
}

static void add_counts(struct json *json, const struct counts *counts, uint64_t now_ms,
                       int is_target)
{
    uint64_t sent = 0, received = 0, sent_rate = 0, received_rate = 0;
    sn_meter_read(counts->meter, &sent, &received);
    sni_tunnel_rate(counts, now_ms, &sent_rate, &received_rate);
    sni_tunnel_json_number(json, "open", counts->open);
    sni_tunnel_json_number(json, "opened", counts->opened);
    if (is_target) sni_tunnel_json_number(json, "denied", counts->denied);
    sni_tunnel_json_number(json, "failed", counts->failed);
    sni_tunnel_json_number(json, "refused", counts->refused);
    sni_tunnel_json_number(json, "sent_bytes", sent);
    sni_tunnel_json_number(json, "received_bytes", received);
    sni_tunnel_json_number(json, "sent_rate", sent_rate);
    sni_tunnel_json_number(json, "received_rate", received_rate);
}

static void add_errors(struct json *json, const struct counts *counts)
{
    sni_tunnel_json_key(json, "errors");
    sni_tunnel_json_raw(json, "{");
    for (uint32_t i = 1; i < SN_ERR_COUNT; i++) {
        if (counts->errors[i] == 0) continue;
        sni_tunnel_json_number(json, sn_err_name((enum sn_err)i), counts->errors[i]);
    }
    if (counts->errors[0] > 0) sni_tunnel_json_number(json, "unknown-error", counts->errors[0]);
    sni_tunnel_json_raw(json, "}");
}

/* What an operator wants to know first: that nobody can come, whom clients wait for, how the last one ended. */
static void add_forward_error(struct json *json, const struct forward *forward)
{
    char text[sizeof "waiting for " + SN_AGENT_NAME_BYTES_MAX];
    const char *error = err_text(forward->counts.last_err);
    if (forward->listen_err != SN_OK) {
        error = err_text(forward->listen_err);
    } else if (forward->waiting > 0) {
        (void)snprintf(text, sizeof text, "waiting for %s", forward->to); /* fits: it was checked */
        error = text;
    }
    sni_tunnel_json_text(json, "error", error);
}

static void add_forward(struct json *json, const void *entry, uint64_t now_ms)
{
    const struct forward *forward = entry;
    if (forward->state == FORWARD_FREE) return;
    sni_tunnel_json_raw(json, json->data[json->size - 1] == '[' ? "{" : ",{");
    sni_tunnel_json_text(json, "name", forward->name);
    sni_tunnel_json_text(json, "listen", forward->listen);
    sni_tunnel_json_text(json, "to", forward->to);
    sni_tunnel_json_text(json, "target", forward->target);
    sni_tunnel_json_text(json, "state", state_names[forward->state]);
    sni_tunnel_json_text(json, "bound", forward->bound);
    sni_tunnel_json_number(json, "waiting", forward->waiting);
    add_counts(json, &forward->counts, now_ms, 0);
    add_errors(json, &forward->counts);
    add_forward_error(json, forward);
    sni_tunnel_json_raw(json, "}");
}

static void add_target(struct json *json, const void *entry, uint64_t now_ms)
{
    const struct target *target = entry;
    if (target->state != TARGET_LISTED) return; /* what is removed ends at once */
    sni_tunnel_json_raw(json, json->data[json->size - 1] == '[' ? "{" : ",{");
    sni_tunnel_json_text(json, "name", target->name);
    sni_tunnel_json_text(json, "address", target->address);
    sni_tunnel_json_number(json, "waiting", target->pending);
    add_counts(json, &target->counts, now_ms, 1);
    add_errors(json, &target->counts);
    sni_tunnel_json_text(json, "last_error", err_text(target->counts.last_err));
    sni_tunnel_json_raw(json, "}");
}

/* Adds the entries that fit; returns how many did not. */
static uint32_t add_entries(struct json *json, struct pool *pool, uint64_t now_ms,
                            void (*add)(struct json *json, const void *entry, uint64_t now_ms))
{
    for (uint32_t i = 0; i < pool->count; i++) {
        uint32_t before = json->size;
        add(json, sni_tunnel_pool_at(pool, i), now_ms);
        if (!json->is_full) continue;
        json->size = before;
        json->is_full = 0;
        return pool->count - i;
    }
    return 0;
}

static void build(struct json *json, struct tunnel *t, uint64_t now_ms)
{
    uint32_t capacity = json->capacity;
    json->capacity = capacity - 2 * TAIL_BYTES;
    sni_tunnel_json_raw(json, "{\"forwards\":[");
    uint32_t omitted = add_entries(json, &t->forwards, now_ms, add_forward);
    json->capacity = capacity - TAIL_BYTES;
    sni_tunnel_json_raw(json, "],\"targets\":[");
    omitted += add_entries(json, &t->targets, now_ms, add_target);
    json->capacity = capacity;
    sni_tunnel_json_raw(json, "]");
    if (omitted > 0) sni_tunnel_json_number(json, "omitted", omitted);
    sni_tunnel_json_raw(json, "}");
}

/* An access rule let the question in: whoever asked is told at once that it does not help. */
static void refuse(struct sn_ctx *ctx, const struct sn_event *event)
{
    sn_metric_add(ctx, METRIC_DENIED, 1);
    sn_log(ctx, SN_WARN, "TUNNEL-LIST-DENIED", "agent=%s", event->agent);
    if (event->correlation == 0) return; /* nobody waits for an answer */
    enum sn_err err = sn_reply(ctx, event, TUNNEL_LIST_REFUSED, NULL, 0);
    if (err != SN_OK) sn_log(ctx, SN_DEBUG, "TUNNEL-LIST-FAILED", "err=%s", sn_err_name(err));
}

void sni_tunnel_list(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    /* Addresses behind targets are nobody else's business. */
    if (event->agent[0] != '\0') {
        refuse(ctx, event);
        return;
    }
    if (event->correlation == 0) return; /* nobody waits for an answer */
    struct sn_buf buf = {0};
    enum sn_err err = sn_buf_new(SN_MESSAGE_BYTES_MAX, 0, &buf);
    if (err == SN_OK) {
        struct json json = {.data = (char *)buf.data, .capacity = SN_MESSAGE_BYTES_MAX};
        build(&json, t, sn_now_ms(ctx));
        err = sn_reply(ctx, event, TUNNEL_LIST, json.data, json.size);
    }
    sn_buf_unref(&buf);
    if (err != SN_OK) sn_log(ctx, SN_WARN, "TUNNEL-LIST-FAILED", "err=%s", sn_err_name(err));
}
