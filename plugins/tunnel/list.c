/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: the answer is well-formed JSON that fits into a message; what does not fit is
 * counted. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "tunnel.h"

#define TAIL_BYTES 32u /* kept free for what closes each of the two lists */

static const char *const state_names[] = {
    [FORWARD_FAILED] = "failed", [FORWARD_LISTENING] = "listening", [FORWARD_STOPPED] = "stopped"};

static const char *err_text(uint32_t err)
{
    return err == SN_OK ? "" : sn_err_text((enum sn_err)err);
}

static void add_counts(struct json *json, const struct counts *counts, int is_target)
{
    sni_tunnel_json_number(json, "open", counts->open);
    sni_tunnel_json_number(json, "opened", counts->opened);
    if (is_target) sni_tunnel_json_number(json, "denied", counts->denied);
    sni_tunnel_json_number(json, "failed", counts->failed);
    sni_tunnel_json_number(json, "sent_bytes", counts->sent_bytes);
    sni_tunnel_json_number(json, "received_bytes", counts->received_bytes);
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

static void add_forward(struct json *json, const void *entry)
{
    const struct forward *forward = entry;
    sni_tunnel_json_text(json, "name", forward->name);
    sni_tunnel_json_text(json, "listen", forward->listen);
    sni_tunnel_json_text(json, "to", forward->to);
    sni_tunnel_json_text(json, "target", forward->target);
    sni_tunnel_json_text(json, "state", state_names[forward->state]);
    sni_tunnel_json_text(json, "bound", forward->bound);
    sni_tunnel_json_number(json, "waiting", forward->waiting);
    add_counts(json, &forward->counts, 0);
    add_forward_error(json, forward);
}

static void add_target(struct json *json, const void *entry)
{
    const struct target *target = entry;
    sni_tunnel_json_text(json, "name", target->name);
    sni_tunnel_json_text(json, "address", target->address);
    add_counts(json, &target->counts, 1);
    sni_tunnel_json_text(json, "last_error", err_text(target->counts.last_err));
}

/* Adds the entries that fit; returns how many did not. */
static uint32_t add_entries(struct json *json, struct pool *pool,
                            void (*add)(struct json *json, const void *entry))
{
    for (uint32_t i = 0; i < pool->count; i++) {
        uint32_t before = json->size;
        sni_tunnel_json_raw(json, i == 0 ? "{" : ",{");
        add(json, sni_tunnel_pool_at(pool, i));
        sni_tunnel_json_raw(json, "}");
        if (!json->is_full) continue;
        json->size = before;
        json->is_full = 0;
        return pool->count - i;
    }
    return 0;
}

static void build(struct json *json, struct tunnel *t)
{
    uint32_t capacity = json->capacity;
    json->capacity = capacity - 2 * TAIL_BYTES;
    sni_tunnel_json_raw(json, "{\"forwards\":[");
    uint32_t omitted = add_entries(json, &t->forwards, add_forward);
    json->capacity = capacity - TAIL_BYTES;
    sni_tunnel_json_raw(json, "],\"targets\":[");
    omitted += add_entries(json, &t->targets, add_target);
    json->capacity = capacity;
    sni_tunnel_json_raw(json, "]");
    if (omitted > 0) sni_tunnel_json_number(json, "omitted", omitted);
    sni_tunnel_json_raw(json, "}");
}

void sni_tunnel_list(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    /* Addresses behind targets are nobody else's business. */
    if (event->agent[0] != '\0') {
        sn_log(ctx, SN_WARN, "TUNNEL-LIST-DENIED", "agent=%s", event->agent);
        return;
    }
    if (event->correlation == 0) return; /* nobody waits for an answer */
    struct sn_buf buf = {0};
    enum sn_err err = sn_buf_new(SN_MESSAGE_BYTES_MAX, 0, &buf);
    if (err == SN_OK) {
        struct json json = {.data = (char *)buf.data, .capacity = SN_MESSAGE_BYTES_MAX};
        build(&json, t);
        err = sn_reply(ctx, event, TUNNEL_LIST, json.data, json.size);
    }
    sn_buf_unref(&buf);
    if (err != SN_OK) sn_log(ctx, SN_WARN, "TUNNEL-LIST-FAILED", "err=%s", sn_err_name(err));
}
