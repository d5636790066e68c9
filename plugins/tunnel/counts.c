/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: whatever ends otherwise than well is counted once, by kind; rates cost one tick a second
 * while something flows, and nothing otherwise. */
#include <stddef.h>

#include "tunnel.h"

enum sn_err sni_tunnel_counts_init(struct counts *counts)
{
    *counts = (struct counts){0};
    return sn_meter_new(&counts->meter);
}

void sni_tunnel_counts_fini(struct counts *counts)
{
    sn_meter_free(counts->meter);
    *counts = (struct counts){0};
}

static void note_error(struct counts *counts, enum sn_err err)
{
    /* A host that is newer knows more of them. */
    counts->errors[(uint32_t)err < SN_ERR_COUNT ? err : 0]++;
    counts->last_err = (uint32_t)err;
}

void sni_tunnel_count_failed(struct sn_ctx *ctx, struct counts *counts, enum sn_err err)
{
    counts->failed++;
    note_error(counts, err);
    sn_metric_add(ctx, METRIC_FAILED, 1);
}

void sni_tunnel_count_denied(struct sn_ctx *ctx, struct counts *counts)
{
    counts->denied++;
    note_error(counts, SN_EDENIED);
    sn_metric_add(ctx, METRIC_DENIED, 1);
}

int sni_tunnel_count_refused(struct sn_ctx *ctx, struct counts *counts, enum refusal cause)
{
    uint32_t bit = 1u << cause;
    int is_first = (counts->refusing & bit) == 0;
    counts->refused++;
    counts->refusing |= bit;
    sn_metric_add(ctx, METRIC_REFUSED, 1);
    return is_first;
}

/* --- Rates ----------------------------------------------------------------------------------------
 */

static uint32_t oldest(const struct rate *rate)
{
    return rate->count <= TUNNEL_RATE_SAMPLES ? 0 : rate->count % TUNNEL_RATE_SAMPLES;
}

static uint64_t per_second(uint64_t from, uint64_t to, uint64_t ms)
{
    return (to - from) * 1000 / ms;
}

void sni_tunnel_rate(const struct counts *counts, uint64_t now_ms, uint64_t *out_sent,
                     uint64_t *out_received)
{
    const struct rate *rate = &counts->rate;
    uint32_t first = oldest(rate);
    uint64_t sent = 0;
    uint64_t received = 0;
    *out_sent = *out_received = 0;
    if (rate->count == 0 || now_ms <= rate->samples[first].at_ms) return;
    uint64_t ms = now_ms - rate->samples[first].at_ms;
    sn_meter_read(counts->meter, &sent, &received);
    *out_sent = per_second(rate->samples[first].sent, sent, ms);
    *out_received = per_second(rate->samples[first].received, received, ms);
}

/* Nonzero when nothing moved since the oldest sample. */
static int sample(struct counts *counts, uint64_t now_ms)
{
    struct rate *rate = &counts->rate;
    if (counts->meter == NULL) return 1; /* the entry is free */
    uint32_t at = rate->count % TUNNEL_RATE_SAMPLES;
    rate->count++;
    rate->samples[at].at_ms = now_ms;
    sn_meter_read(counts->meter, &rate->samples[at].sent, &rate->samples[at].received);
    uint32_t first = oldest(rate);
    return rate->samples[first].sent == rate->samples[at].sent &&
           rate->samples[first].received == rate->samples[at].received;
}

static int sample_all(struct sn_ctx *ctx, struct tunnel *t, int is_new)
{
    uint64_t now_ms = sn_now_ms(ctx);
    int is_quiet = 1;
    for (uint32_t i = 0; i < t->forwards.count; i++) {
        struct forward *forward = sni_tunnel_pool_at(&t->forwards, i);
        if (is_new) forward->counts.rate.count = 0;
        is_quiet &= sample(&forward->counts, now_ms);
    }
    for (uint32_t i = 0; i < t->targets.count; i++) {
        struct target *target = sni_tunnel_pool_at(&t->targets, i);
        if (is_new) target->counts.rate.count = 0;
        is_quiet &= sample(&target->counts, now_ms);
    }
    return is_quiet;
}

void sni_tunnel_rates_begin(struct sn_ctx *ctx, struct tunnel *t)
{
    if (t->is_flowing) return;
    t->is_flowing = 1;
    (void)sample_all(ctx, t, 1); /* there is nothing to compare with */
}

void sni_tunnel_rates_tick(struct sn_ctx *ctx, struct tunnel *t)
{
    int is_quiet = sample_all(ctx, t, 0);
    if (t->up == 0 && is_quiet) t->is_flowing = 0;
}
