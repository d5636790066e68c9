/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The actors bench-source and bench-sink. The source says hello until the sink answers, then sends as fast as it may:
 * never more than `window` messages that the sink has not handled. The clock runs from before the first message until
 * the sink's word that it handled the last one.
 * Guarantee: BENCH-DONE is logged only after every message was counted at the sink, and with `outcomes: events` only
 * after every outcome came back.
 */
#include "bench.h"

#define TOKEN_HELLO UINT64_MAX
#define TOKEN_GO_ON (UINT64_MAX - 1)
#define TURN_SENDS  4096u /* messages of one turn, so that credit is taken meanwhile */
#define HELLO_MS    500u

struct source {
    char to[SN_ADDR_BYTES_MAX + 1];
    uint64_t count;
    uint64_t window;
    uint64_t sent;
    uint64_t handled; /* at the sink */
    uint64_t delivered;
    uint64_t lost;
    uint64_t begin_ns;
    uint64_t end_ns; /* 0 = the sink has not said that it is done */
    uint64_t turns_full;
    struct bench_counts counts; /* the sink's last word */
    uint32_t size;
    uint8_t wants_outcomes;
    uint8_t is_started;
    uint8_t is_timer_set;
    uint8_t is_told;
    uint8_t message[BENCH_SIZE_MAX];
};

struct sink {
    struct bench_counts counts;
    uint64_t expected;
    uint64_t step; /* handled messages between two credits */
    uint32_t size;
    uint32_t reserved;
    uint8_t filled[BENCH_SIZE_MAX];
};

/* --- Source ----------------------------------------------------------------------------------- */

static enum sn_err say_hello(struct sn_ctx *ctx, struct source *source)
{
    struct bench_counts hello = {
        .messages = source->count, .bytes = source->count * source->size, .window = source->window};
    enum sn_err err =
        sn_ask(ctx, source->to, BENCH_HELLO, &hello, sizeof hello, HELLO_MS, TOKEN_HELLO);
    /* The peer is not up yet. */
    return err == SN_OK ? SN_OK : sn_timer(ctx, TOKEN_HELLO, BENCH_RETRY_MS);
}

static enum sn_err start_source(struct sn_ctx *ctx, struct source *source,
                                const struct sn_config_node *config)
{
    if (!sni_bench_is_mode(config, "messages")) return SN_OK;
    sni_bench_address(config, "bench-sink", source->to);
    source->count = sni_bench_get(config, "count");
    source->window = sni_bench_get(config, "window");
    source->size = (uint32_t)sni_bench_get(config, "size");
    const char *outcomes = sn_config_get_text(config, sni_bench_fields, "outcomes");
    source->wants_outcomes = strcmp(outcomes, "events") == 0;
    bench_fill(source->message, source->size);
    return say_hello(ctx, source);
}

static enum sn_err go_on_later(struct sn_ctx *ctx, struct source *source, uint64_t after_ms)
{
    if (source->is_timer_set) return SN_OK;
    enum sn_err err = sn_timer(ctx, TOKEN_GO_ON, after_ms);
    source->is_timer_set = err == SN_OK;
    return err;
}

static enum sn_err send_more(struct sn_ctx *ctx, struct source *source)
{
    struct sn_send_options options = {.size = (uint32_t)sizeof options,
                                      .is_silent = !source->wants_outcomes};
    if (!source->is_started) return SN_OK;
    for (uint32_t turn = 0; source->sent < source->count; turn++) {
        if (source->sent - source->handled >= source->window) return SN_OK; /* credit will come */
        if (turn == TURN_SENDS) return go_on_later(ctx, source, 0);
        bench_number(source->message, source->sent);
        enum sn_err err =
            sn_send(ctx, source->to, BENCH_DATA, source->message, source->size, &options);
        if (err == SN_EFULL) {
            source->turns_full++;
            return go_on_later(ctx, source, 1);
        }
        if (err != SN_OK) return err;
        source->sent++;
    }
    return SN_OK;
}

static void tell(struct sn_ctx *ctx, struct source *source)
{
    const struct bench_counts *counts = &source->counts;
    uint64_t settled = source->delivered + source->lost;
    if (source->is_told || source->end_ns == 0) return;
    if (source->wants_outcomes && settled < source->sent) return;
    source->is_told = 1;
    sn_log(
        ctx, SN_INFO, "BENCH-DONE",
        "sent=%llu received=%llu bytes=%llu wrong=%llu delivered=%llu lost=%llu full=%llu us=%llu",
        (unsigned long long)source->sent, (unsigned long long)counts->messages,
        (unsigned long long)counts->bytes, (unsigned long long)counts->wrong,
        (unsigned long long)source->delivered, (unsigned long long)source->lost,
        (unsigned long long)source->turns_full,
        (unsigned long long)((source->end_ns - source->begin_ns) / 1000));
}

static enum sn_err take_counts(struct sn_ctx *ctx, struct source *source,
                               const struct sn_event *event)
{
    if (event->payload_size != sizeof source->counts) return SN_EINVAL;
    memcpy(&source->counts, event->payload, sizeof source->counts);
    source->handled = source->counts.messages + source->counts.wrong;
    if (strcmp(event->type, BENCH_DONE) == 0) {
        source->end_ns = bench_now_ns();
        tell(ctx, source);
    }
    return send_more(ctx, source);
}

static enum sn_err take_hello(struct sn_ctx *ctx, struct source *source,
                              const struct sn_event *event)
{
    if (event->err != SN_OK) return sn_timer(ctx, TOKEN_HELLO, BENCH_RETRY_MS);
    source->is_started = 1;
    source->begin_ns = bench_now_ns();
    return send_more(ctx, source);
}

static enum sn_err handle_source(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct source *source = state;
    switch (event->kind) {
    case SN_EVENT_START: return start_source(ctx, source, event->config);
    case SN_EVENT_REPLY: return take_hello(ctx, source, event);
    case SN_EVENT_MESSAGE: return take_counts(ctx, source, event);
    case SN_EVENT_OUTCOME:
        if (event->outcome == SN_DELIVERED) source->delivered++;
        if (event->outcome != SN_DELIVERED) source->lost++;
        tell(ctx, source);
        return SN_OK;
    case SN_EVENT_TIMER:
        if (event->token == TOKEN_HELLO) return say_hello(ctx, source);
        source->is_timer_set = 0;
        return send_more(ctx, source);
    default: return SN_OK; /* nothing else was asked for */
    }
}

const struct sn_actor_kind sni_bench_source_kind = {
    .size = (uint32_t)sizeof(struct sn_actor_kind),
    .state_bytes = (uint32_t)sizeof(struct source),
    .name = "bench-source",
    .outstanding_sends = BENCH_WINDOW_MAX * 2, /* the window counts what is not handled */
    .handle = handle_source,
};

/* --- Sink ------------------------------------------------------------------------------------- */

static enum sn_err begin(struct sn_ctx *ctx, struct sink *sink, const struct sn_event *event)
{
    struct bench_counts hello;
    if (event->payload_size != sizeof hello || event->correlation == 0) return SN_EINVAL;
    memcpy(&hello, event->payload, sizeof hello);
    if (hello.messages == 0 || hello.bytes / hello.messages > BENCH_SIZE_MAX) return SN_EINVAL;
    memset(&sink->counts, 0, sizeof sink->counts);
    sink->expected = hello.messages;
    sink->size = (uint32_t)(hello.bytes / hello.messages);
    sink->step = hello.window / 4 > 0 ? hello.window / 4 : 1;
    bench_fill(sink->filled, sink->size);
    enum sn_err err = sn_reply(ctx, event, BENCH_HELLO, NULL, 0);
    if (err != SN_OK) sn_log(ctx, SN_WARN, "BENCH-UNANSWERED", "err=%s", sn_err_name(err));
    return SN_OK; /* who asked asks again */
}

static enum sn_err take_data(struct sn_ctx *ctx, struct sink *sink, const struct sn_event *event)
{
    struct sn_send_options options = {.size = (uint32_t)sizeof options, .is_silent = 1};
    struct bench_counts *counts = &sink->counts;
    char to[SN_ADDR_BYTES_MAX + 1];
    uint64_t number = counts->messages + counts->wrong;
    if (bench_is(event->payload, event->payload_size, number, sink->filled, sink->size)) {
        counts->messages++;
    } else {
        counts->wrong++;
    }
    counts->bytes += event->payload_size;
    int is_done = number + 1 == sink->expected;
    if (!is_done && (number + 1) % sink->step != 0) return SN_OK;
    size_t agent_size = strlen(event->agent);
    memcpy(to, event->agent, agent_size);
    memcpy(to + agent_size, ":bench-source", sizeof ":bench-source"); /* fits: an agent's name */
    return sn_send(ctx, to, is_done ? BENCH_DONE : BENCH_CREDIT, counts, sizeof *counts, &options);
}

static enum sn_err handle_sink(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    if (event->kind != SN_EVENT_MESSAGE) return SN_OK;
    if (strcmp(event->type, BENCH_DATA) == 0) return take_data(ctx, state, event);
    if (strcmp(event->type, BENCH_HELLO) == 0) return begin(ctx, state, event);
    return SN_OK;
}

const struct sn_actor_kind sni_bench_sink_kind = {
    .size = (uint32_t)sizeof(struct sn_actor_kind),
    .state_bytes = (uint32_t)sizeof(struct sink),
    .name = "bench-sink",
    .mailbox_messages = SN_MAILBOX_MAX,
    .handle = handle_sink,
};
