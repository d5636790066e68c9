/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: nothing but its pace and a refused sn_send slows the source down, and a refusal never loses a number:
 * what was held up is made good as soon as it is taken. */
#include "soak.h"

#include <stdio.h>
#include <string.h>

#define TOKEN_RETRY UINT64_MAX /* timer; outcomes carry the number */
#define RETRY_MS    5u         /* a full queue, or a peer that is not known before it came */
#define TURN_BYTES  1048576u   /* what one turn sends, so that questions are answered meanwhile */

static uint64_t get(const struct sn_config_node *config, const char *key)
{
    return (uint64_t)sn_config_get_int(config, sni_soak_fields, key); /* never negative */
}

static enum sn_err start(struct sn_ctx *ctx, struct soak *soak, const struct sn_config_node *config)
{
    const char *peer = sn_config_get_text(config, sni_soak_fields, "peer");
    const char *class = sn_config_get_text(config, sni_soak_fields, "class");
    if (peer == NULL || strlen(peer) >= sizeof soak->peer) return SN_EINVAL;
    memcpy(soak->peer, peer, strlen(peer) + 1);
    (void)snprintf(soak->source.to, sizeof soak->source.to, "%s:soak", peer); /* fits: an address */
    soak->source.is_control = strcmp(class, "control") == 0;
    soak->source.per_second = (uint32_t)get(config, "per_second");
    soak->source.started_ms = sn_now_ms(ctx);
    uint64_t seed = get(config, "seed");
    struct soak_plan plan = {.run = get(config, "run"),
                             .messages = (uint32_t)get(config, "messages"),
                             .size_min = (uint32_t)get(config, "size_min"),
                             .size_max = (uint32_t)get(config, "size_max")};
    soak->source.plan = plan;
    soak->source.plan.key = sni_soak_key(seed, plan.run, sn_own_name(ctx));
    soak->sink.plan = plan;
    soak->sink.plan.key = sni_soak_key(seed, plan.run, peer);
    return SN_OK;
}

static enum sn_err send_one(struct sn_ctx *ctx, struct soak_source *source, uint32_t size)
{
    struct sn_send_options options = {
        .size = (uint32_t)sizeof options, .is_control = source->is_control, .token = source->sent};
    sni_soak_write(&source->plan, source->sent, source->scratch);
    enum sn_err err = sn_send(ctx, source->to, SOAK_DATA, source->scratch, size, &options);
    if (err == SN_OK) source->sent++;
    return err;
}

/* Goes on with the next outcome, or with the timer at the latest. */
static enum sn_err go_on_later(struct sn_ctx *ctx, struct soak_source *source, uint64_t after_ms)
{
    if (source->is_retry_set) return SN_OK;
    enum sn_err err = sn_timer(ctx, TOKEN_RETRY, after_ms);
    source->is_retry_set = err == SN_OK;
    return err;
}

/* How long until the next number is due; 0 = now. */
static uint64_t due_in_ms(struct sn_ctx *ctx, const struct soak_source *source)
{
    if (source->per_second == 0) return 0;
    uint64_t due_ms = source->started_ms + (uint64_t)source->sent * 1000 / source->per_second;
    uint64_t now_ms = sn_now_ms(ctx);
    return due_ms > now_ms ? due_ms - now_ms : 0;
}

/* Sends what is due, as much of it as is taken. */
static enum sn_err send_more(struct sn_ctx *ctx, struct soak_source *source)
{
    uint32_t turn = 0;
    while (source->sent < source->plan.messages && !source->is_stopping) {
        uint64_t wait_ms = due_in_ms(ctx, source);
        if (wait_ms > 0 || turn >= TURN_BYTES) return go_on_later(ctx, source, wait_ms);
        uint32_t size = sni_soak_size(&source->plan, source->sent);
        enum sn_err err = send_one(ctx, source, size);
        if (err == SN_EFULL || err == SN_ENOENT) return go_on_later(ctx, source, RETRY_MS);
        if (err != SN_OK) return err;
        turn += size;
    }
    return SN_OK;
}

static void settle(struct soak_source *source, const struct sn_event *event)
{
    uint32_t reason = event->reason < SN_REASON_COUNT ? event->reason : SN_REASON_NONE;
    source->settled++;
    switch (event->outcome) {
    case SN_DELIVERED: source->delivered++; break;
    case SN_UNDELIVERED: source->undelivered[reason]++; break;
    default: source->unknown[reason]++; break;
    }
}

static enum sn_err take_message(struct sn_ctx *ctx, struct soak *soak, const struct sn_event *event)
{
    if (strcmp(event->type, SOAK_REPORT) == 0 && event->agent[0] == '\0') {
        if (event->correlation == 0) return SN_OK;
        uint32_t size = sni_soak_report(soak, soak->report);
        enum sn_err err = sn_reply(ctx, event, SOAK_REPORTED, soak->report, size);
        /* Who asked has a time-out, and asks again. */
        if (err != SN_OK) sn_log(ctx, SN_WARN, "SOAK-UNANSWERED", "err=%s", sn_err_name(err));
        return SN_OK;
    }
    if (strcmp(event->type, SOAK_DATA) == 0 && strcmp(event->agent, soak->peer) == 0) {
        sni_soak_sink_take(&soak->sink, event->payload, event->payload_size);
        return SN_OK;
    }
    soak->sink.altered++; /* type or sender is not what was sent */
    sn_log(ctx, SN_WARN, "SOAK-STRANGER", "agent=%s type=%s", event->agent, event->type);
    return SN_OK;
}

int sni_soak_is_done(const struct soak *soak)
{
    const struct soak_source *source = &soak->source;
    const struct soak_sink *sink = &soak->sink;
    return source->sent == source->plan.messages && source->settled == source->sent &&
           sink->received >= sink->plan.messages;
}

static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct soak *soak = state;
    enum sn_err err;
    switch (event->kind) {
    case SN_EVENT_START:
        err = start(ctx, soak, event->config);
        return err == SN_OK ? send_more(ctx, &soak->source) : err;
    case SN_EVENT_STOP: soak->source.is_stopping = 1; return SN_OK;
    case SN_EVENT_MESSAGE: return take_message(ctx, soak, event);
    case SN_EVENT_OUTCOME: settle(&soak->source, event); return send_more(ctx, &soak->source);
    case SN_EVENT_TIMER: soak->source.is_retry_set = 0; return send_more(ctx, &soak->source);
    default: return SN_OK; /* nothing else was asked for */
    }
}

const struct sn_actor_kind sni_soak_kind = {
    .size = (uint32_t)sizeof(struct sn_actor_kind),
    .state_bytes = (uint32_t)sizeof(struct soak),
    .name = "soak",
    .mailbox_messages = SOAK_MESSAGES_MAX + 1024u, /* all that a peer can send, and questions */
    .handle = handle,
};
