/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: a verdict is a pass only when every start was made and no failure was noted. */
#include "agents/soak/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agents/body.h"
#include "base/alloc.h"
#include "base/text.h"
#include "wire/json.h"

enum sn_err sn_verdict_init(struct sn_soak_verdict *verdict, const struct sn_scenario *scenario,
                            uint64_t seed)
{
    *verdict = (struct sn_soak_verdict){.scenario = scenario, .seed = seed};
    verdict->runs = sn_alloc(scenario->starts * sizeof *verdict->runs);
    verdict->failures = sn_alloc(SN_SOAK_FAILURES_MAX * sizeof *verdict->failures);
    if (verdict->runs != NULL && verdict->failures != NULL) return SN_OK;
    sn_verdict_fini(verdict);
    return SN_ENOMEM;
}

void sn_verdict_fini(struct sn_soak_verdict *verdict)
{
    if (verdict->scenario == NULL) return;
    sn_free(verdict->runs, verdict->scenario->starts * sizeof *verdict->runs);
    sn_free(verdict->failures, SN_SOAK_FAILURES_MAX * sizeof *verdict->failures);
    *verdict = (struct sn_soak_verdict){0};
}

void sn_verdict_fail(struct sn_soak_verdict *verdict, const char *format, ...)
{
    va_list args;
    if (verdict->is_interrupted) return;
    if (verdict->failure_count++ >= SN_SOAK_FAILURES_MAX) return;
    char *out = verdict->failures[verdict->failure_count - 1];
    int size = snprintf(out, SN_SOAK_FAILURE_BYTES_MAX, "start %u: ", verdict->run_count + 1);
    va_start(args, format);
    (void)vsnprintf(out + size, SN_SOAK_FAILURE_BYTES_MAX - (size_t)size, format,
                    args); /* cut is fine */
    va_end(args);
}

void sn_verdict_interrupt(struct sn_soak_verdict *verdict)
{
    sn_verdict_fail(verdict, "interrupted");
    verdict->is_interrupted = 1;
}

int sn_verdict_is_pass(const struct sn_soak_verdict *verdict)
{
    return verdict->failure_count == 0 && verdict->run_count == verdict->scenario->starts;
}

static void add_bool(struct sn_body *body, const char *key, int value)
{
    sn_body_key(body, key);
    sn_body_need(body, 16);
    if (body->err == SN_OK) sn_pack_bool(&body->pack, value);
}

static void add_counts(struct sn_body *body, const struct sn_soak_counts *counts)
{
    sn_body_uint(body, "sent", counts->sent);
    sn_body_uint(body, "delivered", counts->delivered);
    sn_body_uint(body, "lost", counts->lost);
    sn_body_uint(body, "doubled", counts->doubled);
    sn_body_uint(body, "reordered", counts->reordered);
    sn_body_uint(body, "altered", counts->altered);
}

static void add_nng(struct sn_body *body, const struct sn_soak_run *run)
{
    sn_body_key(body, "nng");
    sn_body_map(body, 6);
    add_bool(body, "equal", run->is_nng_equal);
    sn_body_uint(body, "parcels_sent", run->parcels_sent);
    sn_body_uint(body, "nng_sent", run->nng_sent);
    sn_body_uint(body, "parcels_received", run->parcels_received);
    sn_body_uint(body, "nng_received", run->nng_received);
    sn_body_uint(body, "parcels_resent", run->parcels_resent);
}

static void add_ledger(struct sn_body *body, const struct sn_soak_run *run)
{
    sn_body_key(body, "ledger");
    sn_body_map(body, 2);
    add_bool(body, "balanced", run->is_balanced);
    add_bool(body, "agree", run->is_agreed);
}

static void add_sessions(struct sn_body *body, const struct sn_soak_run *run)
{
    sn_body_key(body, "sessions");
    sn_body_map(body, 2);
    sn_body_uint(body, "hub", run->sessions[0]);
    sn_body_uint(body, "edge", run->sessions[1]);
}

static void add_deaths(struct sn_body *body, const struct sn_soak_figures *figures)
{
    static const char *const names[SN_SOAK_DEATHS] = {[SN_SOAK_KILLED] = "killed",
                                                      [SN_SOAK_STOPPED] = "stopped",
                                                      [SN_SOAK_STOPPED_KILLED] =
                                                          "stopped_then_killed",
                                                      [SN_SOAK_CUT_EDGE] = "cut_from_edge",
                                                      [SN_SOAK_CUT_HUB] = "cut_from_hub"};
    sn_body_key(body, "deaths");
    sn_body_map(body, SN_SOAK_DEATHS);
    for (unsigned i = 0; i < SN_SOAK_DEATHS; i++) sn_body_uint(body, names[i], figures->deaths[i]);
}

static void add_usage(struct sn_body *body, const char *agent, const struct sn_soak_usage *usage)
{
    sn_body_key(body, agent);
    sn_body_map(body, 8);
    sn_body_uint(body, "resident_peak_first_half", usage->resident_peak_first);
    sn_body_uint(body, "resident_peak_second_half", usage->resident_peak_second);
    sn_body_uint(body, "resident_rest_first_half", usage->resident_rest_first);
    sn_body_uint(body, "resident_rest_second_half", usage->resident_rest_second);
    sn_body_uint(body, "descriptors_before", usage->descriptors_before);
    sn_body_uint(body, "descriptors_after", usage->descriptors_after);
    sn_body_uint(body, "log_bytes", usage->log_bytes);
    sn_body_uint(body, "log_bytes_per_hour", usage->log_bytes_per_hour);
}

static void add_figures(struct sn_body *body, const struct sn_soak_figures *figures)
{
    sn_body_key(body, "flap");
    sn_body_map(body, 10);
    add_deaths(body, figures);
    sn_body_uint(body, "transfers", figures->transfers);
    sn_body_uint(body, "transfers_failed", figures->transfers_failed);
    sn_body_uint(body, "transferred_bytes", figures->transferred_bytes);
    sn_body_uint(body, "undelivered", figures->undelivered);
    sn_body_uint(body, "unknown", figures->unknown);
    sn_body_uint(body, "message_gap_ms", figures->message_gap_ms);
    sn_body_uint(body, "stream_gap_ms", figures->stream_gap_ms);
    add_usage(body, "hub", &figures->usage[0]);
    add_usage(body, "edge", &figures->usage[1]);
}

static void add_run(struct sn_body *body, const struct sn_soak_verdict *verdict, uint32_t index)
{
    const struct sn_soak_run *run = &verdict->runs[index];
    int has_streams = verdict->scenario->kind != SN_SOAK_DELIVERY;
    int is_flap = verdict->scenario->kind == SN_SOAK_FLAP;
    sn_body_map(body, 14 + (uint32_t)has_streams + (uint32_t)is_flap);
    sn_body_uint(body, "start", index + 1);
    add_bool(body, "pass", run->pass);
    sn_body_text(body, "first", run->is_edge_first ? "edge" : "hub");
    sn_body_uint(body, "ready_ms", run->ready_ms);
    sn_body_uint(body, "duration_ms", run->duration_ms);
    if (has_streams) add_bool(body, "sha256_equal", run->is_digest_equal);
    add_counts(body, &run->counts);
    add_ledger(body, run);
    add_nng(body, run);
    add_sessions(body, run);
    if (is_flap) add_figures(body, &run->figures);
}

/* All starts as one. */
static struct sn_soak_run sum_up(const struct sn_soak_verdict *verdict)
{
    int is_any = verdict->run_count > 0;
    struct sn_soak_run sum = {.is_balanced = (uint8_t)is_any,
                              .is_agreed = (uint8_t)is_any,
                              .is_nng_equal = (uint8_t)is_any};
    for (uint32_t i = 0; i < verdict->run_count; i++) {
        const struct sn_soak_run *run = &verdict->runs[i];
        sum.is_balanced &= run->is_balanced;
        sum.is_agreed &= run->is_agreed;
        sum.is_nng_equal &= run->is_nng_equal;
        sum.parcels_sent += run->parcels_sent;
        sum.nng_sent += run->nng_sent;
        sum.parcels_received += run->parcels_received;
        sum.nng_received += run->nng_received;
        sum.parcels_resent += run->parcels_resent;
        sum.counts.sent += run->counts.sent;
        sum.counts.delivered += run->counts.delivered;
        sum.counts.lost += run->counts.lost;
        sum.counts.doubled += run->counts.doubled;
        sum.counts.reordered += run->counts.reordered;
        sum.counts.altered += run->counts.altered;
    }
    return sum;
}

static void add_failures(struct sn_body *body, const struct sn_soak_verdict *verdict)
{
    uint32_t kept = verdict->failure_count < SN_SOAK_FAILURES_MAX ? verdict->failure_count
                                                                  : SN_SOAK_FAILURES_MAX;
    sn_body_uint(body, "failure_count", verdict->failure_count);
    sn_body_key(body, "failures");
    sn_body_array(body, kept);
    for (uint32_t i = 0; i < kept; i++) sn_body_key(body, verdict->failures[i]);
}

static void add_verdict(struct sn_body *body, const struct sn_soak_verdict *verdict)
{
    struct sn_soak_run sum = sum_up(verdict);
    sn_body_map(body, 18);
    add_bool(body, "pass", sn_verdict_is_pass(verdict));
    add_bool(body, "interrupted", verdict->is_interrupted);
    sn_body_uint(body, "seed", verdict->seed);
    sn_body_text(body, "scenario", sn_soak_kind_name(verdict->scenario->kind));
    sn_body_text(body, "unit", verdict->scenario->kind == SN_SOAK_TUNNEL ? "bytes" : "messages");
    sn_body_uint(body, "starts", verdict->run_count);
    add_counts(body, &sum.counts);
    add_ledger(body, &sum);
    add_nng(body, &sum);
    sn_body_uint(body, "duration_ms", verdict->duration_ms);
    sn_body_key(body, "runs");
    sn_body_array(body, verdict->run_count);
    for (uint32_t i = 0; i < verdict->run_count; i++) add_run(body, verdict, i);
}

enum sn_err sn_verdict_json(const struct sn_soak_verdict *verdict, char **out_text,
                            size_t *out_size, size_t *out_capacity)
{
    struct sn_body body;
    struct sn_text text;
    sn_body_init(&body);
    add_verdict(&body, verdict);
    add_failures(&body, verdict);
    /* A number of 9 bytes becomes 20 digits, a character of a text at most 6. */
    size_t capacity = body.pack.size * 6 + 64;
    char *data = body.err == SN_OK ? sn_alloc_raw(capacity) : NULL;
    enum sn_err err = body.err != SN_OK ? body.err : data == NULL ? SN_ENOMEM : SN_OK;
    if (err == SN_OK) {
        sn_text_init(&text, data, capacity);
        err = sn_json_from_msgpack(body.pack.data, body.pack.size, &text);
        sn_text_add(&text, "\n");
        if (err == SN_OK && text.truncated) err = SN_ETOOBIG;
    }
    sn_body_fini(&body);
    if (err != SN_OK) {
        sn_free(data, capacity);
        return err;
    }
    *out_text = data;
    *out_size = text.size;
    *out_capacity = capacity;
    return SN_OK;
}
