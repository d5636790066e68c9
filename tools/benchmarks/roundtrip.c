/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The actors bench-asker and bench-echo. The asker asks, waits for the answer, pauses and asks again; a sample is the
 * time from before sn_ask until the answer is in its handler. The first BENCH_WARM_UP answers are not counted.
 * Guarantee: an answer counts only when it has the bytes of its question.
 */
#include "bench.h"
#include "samples.h"

#define TIMEOUT_MS 2000u

struct asker {
    char to[SN_ADDR_BYTES_MAX + 1];
    uint32_t count;
    uint32_t size;
    uint64_t interval_ms;
    uint64_t number;
    uint64_t begin_ns;
    uint64_t wrong;
    uint32_t warm; /* answers before the first sample */
    uint32_t sample_count;
    uint64_t samples[BENCH_SAMPLES_MAX];
    uint8_t message[BENCH_SIZE_MAX];
};

static enum sn_err ask(struct sn_ctx *ctx, struct asker *asker)
{
    bench_number(asker->message, ++asker->number);
    asker->begin_ns = bench_now_ns();
    enum sn_err err =
        sn_ask(ctx, asker->to, BENCH_ASK, asker->message, asker->size, TIMEOUT_MS, asker->number);
    /* The peer is not up yet. */
    return err == SN_OK ? SN_OK : sn_timer(ctx, 0, BENCH_RETRY_MS);
}

static enum sn_err start(struct sn_ctx *ctx, struct asker *asker,
                         const struct sn_config_node *config)
{
    if (!sni_bench_is_mode(config, "roundtrip")) return SN_OK;
    sni_bench_address(config, "bench-echo", asker->to);
    asker->count = (uint32_t)sni_bench_get(config, "count");
    asker->size = (uint32_t)sni_bench_get(config, "size");
    asker->interval_ms = sni_bench_get(config, "interval_ms");
    bench_fill(asker->message, asker->size);
    return ask(ctx, asker);
}

static void tell(struct sn_ctx *ctx, struct asker *asker)
{
    uint32_t count = asker->sample_count;
    bench_sort(asker->samples, count);
    sn_log(ctx, SN_INFO, "BENCH-DONE",
           "samples=%u wrong=%llu min_ns=%llu p50_ns=%llu p99_ns=%llu max_ns=%llu", count,
           (unsigned long long)asker->wrong,
           (unsigned long long)bench_percentile(asker->samples, count, 0),
           (unsigned long long)bench_percentile(asker->samples, count, 50),
           (unsigned long long)bench_percentile(asker->samples, count, 99),
           (unsigned long long)bench_percentile(asker->samples, count, 100));
}

static enum sn_err take_answer(struct sn_ctx *ctx, struct asker *asker,
                               const struct sn_event *event)
{
    uint64_t took_ns = bench_now_ns() - asker->begin_ns;
    int is_warm = asker->warm == BENCH_WARM_UP;
    int is_good = event->err == SN_OK && bench_is(event->payload, event->payload_size,
                                                  asker->number, asker->message, asker->size);
    if (!is_good && is_warm) asker->wrong++;
    if (is_good && is_warm) asker->samples[asker->sample_count++] = took_ns;
    if (is_good && !is_warm) asker->warm++;
    if (asker->sample_count + asker->wrong >= asker->count) {
        tell(ctx, asker);
        return SN_OK;
    }
    return sn_timer(ctx, 0, is_good ? asker->interval_ms : BENCH_RETRY_MS);
}

static enum sn_err handle_asker(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    switch (event->kind) {
    case SN_EVENT_START: return start(ctx, state, event->config);
    case SN_EVENT_TIMER: return ask(ctx, state);
    case SN_EVENT_REPLY: return take_answer(ctx, state, event);
    default: return SN_OK; /* nothing else was asked for */
    }
}

const struct sn_actor_kind sni_bench_asker_kind = {
    .size = (uint32_t)sizeof(struct sn_actor_kind),
    .state_bytes = (uint32_t)sizeof(struct asker),
    .name = "bench-asker",
    .handle = handle_asker,
};

static enum sn_err handle_echo(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    (void)state;
    if (event->kind != SN_EVENT_MESSAGE || event->correlation == 0) return SN_OK;
    enum sn_err err = sn_reply(ctx, event, BENCH_ANSWER, event->payload, event->payload_size);
    if (err != SN_OK) sn_log(ctx, SN_WARN, "BENCH-UNANSWERED", "err=%s", sn_err_name(err));
    return SN_OK; /* the asker's time-out counts it */
}

const struct sn_actor_kind sni_bench_echo_kind = {
    .size = (uint32_t)sizeof(struct sn_actor_kind),
    .name = "bench-echo",
    .handle = handle_echo,
};
