/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scenario `flap`: messages at a pace in both directions, and transfers one after another, over a link that dies
 * again and again.
 * Steps: one transfer with the link left alone, after which the agents' descriptors count; then two halves, in each of
 * which the link dies again and again until a last transfer, and rests; then everything has to come to its end.
 * Guarantees: one thread, which never waits for one part while another is due; a transfer that fails is noted, and the
 * next one begins.
 */
#include "agents/soak/chaos.h"
#include "agents/soak/duplex.h"
#include "base/alloc.h"

#define NS_PER_MS 1000000u
#define LOOK_MS   100u  /* between two looks at messages */
#define SAMPLE_MS 1000u /* at what agents have */
#define TELL_MS   5000u
#define SETTLE_MS 15000u /* what ended sessions hold is given back by then */
#define PROMPT_MS 2u

enum { GAP_TO_HUB, GAP_TO_EDGE, GAP_UP, GAP_DOWN, GAP_COUNT };

struct flap {
    struct sn_rig *rig;
    struct sn_soak *soak;
    struct sn_soak_run *run;
    struct sn_soak_figures *figures;
    struct sn_chaos chaos;
    struct sn_duplex duplex;
    struct sn_gap gaps[GAP_COUNT];
    uint64_t begin_ns;
    uint64_t look_ns, sample_ns, tell_ns; /* when each is due */
    uint64_t transfer_deadline_ns;
    uint64_t transfers_begun;
    uint64_t received[2]; /* by hub, edge, at the last look */
    int is_transferring;
    int is_second_half;
    int is_more_wanted; /* the next transfer begins when one ends */
};

static int is_due(uint64_t *at_ns, uint64_t now_ns, uint64_t every_ms)
{
    if (now_ns < *at_ns) return 0;
    *at_ns = now_ns + every_ms * NS_PER_MS;
    return 1;
}

/* --- Transfers ------------------------------------------------------------------------------------------------ */

static void fail_transfer(struct flap *flap, const char *why)
{
    const struct sn_duplex *duplex = &flap->duplex;
    flap->figures->transfers_failed++;
    flap->run->is_digest_equal = 0;
    sn_verdict_fail(&flap->soak->verdict,
                    "transfer %llu: %s; %zu bytes came up and %zu down, of %zu each",
                    (unsigned long long)flap->transfers_begun, why, duplex->up.got_bytes,
                    duplex->down.got_bytes, duplex->size);
}

static void end_transfer(struct flap *flap)
{
    sn_duplex_end(&flap->duplex);
    flap->is_transferring = 0;
}

static void begin_transfer(struct flap *flap, uint64_t now_ns)
{
    uint64_t seed = flap->soak->seed ^ (++flap->transfers_begun << 32);
    sn_gap_start(&flap->gaps[GAP_UP], 0, now_ns);
    sn_gap_start(&flap->gaps[GAP_DOWN], 0, now_ns);
    flap->transfer_deadline_ns = now_ns + (uint64_t)flap->soak->scenario.timeout_ms * NS_PER_MS;
    flap->is_transferring = 1;
    enum sn_err err = sn_duplex_begin(&flap->duplex, flap->rig->forward_port, seed);
    if (err == SN_OK) return;
    fail_transfer(flap, sn_err_text(err));
    end_transfer(flap);
}

static void finish_transfer(struct flap *flap)
{
    if (sn_duplex_is_equal(&flap->duplex)) {
        flap->figures->transfers++;
        flap->figures->transferred_bytes += 2 * (uint64_t)flap->duplex.size;
    } else {
        fail_transfer(flap, "what came is not what was sent");
    }
    end_transfer(flap);
}

static void note_way(struct flap *flap, int gap, const struct sn_duplex_way *way, uint64_t now_ns)
{
    uint64_t value = way->got_bytes + way->is_ended;
    if (way->is_ended && flap->gaps[gap].value == value) return; /* nothing is waited for */
    sn_gap_note(&flap->gaps[gap], value, now_ns, sn_chaos_good_since(&flap->chaos));
}

static void step_transfer(struct flap *flap, uint64_t now_ns)
{
    if (!flap->is_transferring) {
        if (flap->is_more_wanted) begin_transfer(flap, now_ns);
        return;
    }
    enum sn_err err = sn_duplex_step(&flap->duplex);
    note_way(flap, GAP_UP, &flap->duplex.up, now_ns);
    note_way(flap, GAP_DOWN, &flap->duplex.down, now_ns);
    if (err == SN_OK) {
        finish_transfer(flap);
    } else if (err != SN_EAGAIN) {
        fail_transfer(flap, sn_err_text(err));
        end_transfer(flap);
    } else if (now_ns >= flap->transfer_deadline_ns) {
        fail_transfer(flap, "not done in time");
        end_transfer(flap);
    }
}

/* --- Looking -------------------------------------------------------------------------------------------------- */

static int look_at_messages(struct flap *flap, struct sn_soak_agent *agent, int gap)
{
    struct sn_soak_report report;
    if (!sn_rig_report(flap->rig, agent, &report)) return 0;
    flap->received[gap] = report.received;
    if (report.received >= flap->soak->scenario.messages &&
        report.received == flap->gaps[gap].value) {
        return 1; /* all are here */
    }
    sn_gap_note(&flap->gaps[gap], report.received, sn_env_now_ns(flap->soak->env),
                sn_chaos_good_since(&flap->chaos));
    return 1;
}

static int sample(struct flap *flap, struct sn_soak_agent *agent, struct sn_soak_usage *usage)
{
    struct sn_soak_sample now;
    if (!sn_rig_sample(flap->rig, agent, &now)) return 0;
    sn_track_sample(usage, &now, flap->is_second_half);
    return 1;
}

static int sample_both(struct flap *flap)
{
    return sample(flap, &flap->rig->hub, &flap->figures->usage[0]) &&
           sample(flap, &flap->rig->edge, &flap->figures->usage[1]);
}

static uint64_t longest_ms(const struct sn_gap *one, const struct sn_gap *other)
{
    uint64_t ns = one->longest_ns > other->longest_ns ? one->longest_ns : other->longest_ns;
    return ns / NS_PER_MS;
}

static void sum_up(struct flap *flap)
{
    struct sn_soak_figures *figures = flap->figures;
    uint64_t ms = sn_soak_elapsed_ms(flap->soak, flap->begin_ns);
    for (unsigned i = 0; i < SN_SOAK_DEATHS; i++) figures->deaths[i] = flap->chaos.deaths[i];
    figures->message_gap_ms = longest_ms(&flap->gaps[GAP_TO_HUB], &flap->gaps[GAP_TO_EDGE]);
    figures->stream_gap_ms = longest_ms(&flap->gaps[GAP_UP], &flap->gaps[GAP_DOWN]);
    for (unsigned i = 0; i < 2; i++) {
        struct sn_soak_usage *usage = &figures->usage[i];
        usage->log_bytes_per_hour = sn_track_per_hour(usage->log_bytes, ms);
    }
}

/* Of the half that runs. */
static unsigned long long peak_kib(const struct sn_soak_usage *usage)
{
    int is_first = usage->resident_peak_second == 0;
    return (is_first ? usage->resident_peak_first : usage->resident_peak_second) / 1024;
}

static void tell(struct flap *flap)
{
    const struct sn_soak_figures *figures = flap->figures;
    unsigned deaths = 0;
    sum_up(flap);
    for (unsigned i = 0; i < SN_SOAK_DEATHS; i++) deaths += figures->deaths[i];
    sn_cli_print(
        flap->soak->cli,
        "%4llu s  deaths %u  transfers %llu, failed %llu  received %llu at the hub, %llu "
        "at the edge  longest gap %llu ms of messages, %llu ms of streams  resident %llu "
        "KiB, %llu KiB\n",
        (unsigned long long)(sn_soak_elapsed_ms(flap->soak, flap->begin_ns) / 1000), deaths,
        (unsigned long long)figures->transfers, (unsigned long long)figures->transfers_failed,
        (unsigned long long)flap->received[GAP_TO_HUB],
        (unsigned long long)flap->received[GAP_TO_EDGE],
        (unsigned long long)figures->message_gap_ms, (unsigned long long)figures->stream_gap_ms,
        peak_kib(&figures->usage[0]), peak_kib(&figures->usage[1]));
}

/* --- Steps ---------------------------------------------------------------------------------------------------- */

static int tick(struct flap *flap)
{
    uint64_t now_ns = sn_env_now_ns(flap->soak->env);
    if (!sn_chaos_step(&flap->chaos, now_ns)) return 0;
    step_transfer(flap, now_ns);
    if (is_due(&flap->look_ns, now_ns, LOOK_MS) &&
        !(look_at_messages(flap, &flap->rig->hub, GAP_TO_HUB) &&
          look_at_messages(flap, &flap->rig->edge, GAP_TO_EDGE))) {
        return 0;
    }
    if (is_due(&flap->sample_ns, now_ns, SAMPLE_MS) && !sample_both(flap)) return 0;
    if (is_due(&flap->tell_ns, now_ns, TELL_MS)) tell(flap);
    sn_soak_pause(flap->soak, PROMPT_MS);
    return !flap->soak->is_cancelled;
}

static int finish_last_transfer(struct flap *flap)
{
    flap->is_more_wanted = 0;
    while (flap->is_transferring || sn_chaos_good_since(&flap->chaos) == 0) {
        if (!tick(flap)) return 0;
    }
    return 1;
}

static int note_descriptors(struct flap *flap)
{
    if (!sample_both(flap)) return 0;
    for (unsigned i = 0; i < 2; i++) {
        struct sn_soak_usage *usage = &flap->figures->usage[i];
        usage->descriptors_before = usage->descriptors_after;
    }
    return 1;
}

static int warm_up(struct flap *flap)
{
    uint64_t now_ns = sn_env_now_ns(flap->soak->env);
    sn_gap_start(&flap->gaps[GAP_TO_HUB], 0, now_ns);
    sn_gap_start(&flap->gaps[GAP_TO_EDGE], 0, now_ns);
    begin_transfer(flap, now_ns);
    return finish_last_transfer(flap) && sn_rig_await_no_streams(flap->rig) &&
           note_descriptors(flap);
}

/* Messages go on; what sessions and streams took is given back. */
static int rest(struct flap *flap, uint32_t rest_ms)
{
    struct sn_soak_figures *figures = flap->figures;
    struct sn_soak_sample hub, edge;
    uint64_t end_ns = sn_soak_deadline(flap->soak, rest_ms);
    while (sn_env_now_ns(flap->soak->env) < end_ns) {
        if (!tick(flap)) return 0;
    }
    if (!sn_rig_sample(flap->rig, &flap->rig->hub, &hub)) return 0;
    if (!sn_rig_sample(flap->rig, &flap->rig->edge, &edge)) return 0;
    sn_track_rest(&figures->usage[0], &hub, flap->is_second_half);
    sn_track_rest(&figures->usage[1], &edge, flap->is_second_half);
    return 1;
}

static int run_half(struct flap *flap, int is_second)
{
    const struct sn_soak_flap *scenario = &flap->soak->scenario.flap;
    uint32_t rest_ms = scenario->growth_max_kib == 0 ? 0 : SN_SOAK_REST_MS;
    uint64_t end_ns = sn_soak_deadline(flap->soak, scenario->duration_ms / 2 - rest_ms);
    flap->is_second_half = is_second;
    flap->is_more_wanted = 1;
    sn_chaos_begin(&flap->chaos);
    while (sn_env_now_ns(flap->soak->env) < end_ns) {
        if (!tick(flap)) return 0;
    }
    sn_chaos_calm(&flap->chaos);
    return finish_last_transfer(flap) && (rest_ms == 0 || rest(flap, rest_ms));
}

/* Ended sessions close some of theirs a little later. */
static int await_descriptors(struct flap *flap)
{
    const struct sn_soak_usage *usage = flap->figures->usage;
    uint64_t deadline_ns = sn_soak_deadline(flap->soak, SETTLE_MS);
    for (;;) {
        if (!sample_both(flap)) return 0;
        int is_flat = usage[0].descriptors_after <= usage[0].descriptors_before &&
                      usage[1].descriptors_after <= usage[1].descriptors_before;
        if (is_flat || sn_soak_is_over(flap->soak, deadline_ns)) return 1; /* judged later */
        sn_soak_pause(flap->soak, LOOK_MS);
    }
}

static int count_outcomes(struct flap *flap)
{
    struct sn_soak_report hub, edge;
    if (!sn_rig_report(flap->rig, &flap->rig->hub, &hub)) return 0;
    if (!sn_rig_report(flap->rig, &flap->rig->edge, &edge)) return 0;
    flap->figures->undelivered = hub.undelivered + edge.undelivered;
    flap->figures->unknown = hub.unknown + edge.unknown;
    return 1;
}

static int run_all(struct flap *flap)
{
    if (!sn_chaos_open(flap->rig, &flap->chaos)) return 0;
    if (!warm_up(flap) || !run_half(flap, 0) || !run_half(flap, 1)) return 0;
    int is_fine = sn_soak_delivery_run(flap->rig, flap->run);
    is_fine &= count_outcomes(flap) && sn_rig_await_no_streams(flap->rig);
    return is_fine && await_descriptors(flap);
}

static enum sn_err make(struct sn_rig *rig, const struct sn_soak_tunnel *tunnel,
                        struct sn_soak_run *run, struct flap **out_flap)
{
    struct sn_soak *soak = rig->soak;
    struct flap *flap = sn_alloc(sizeof *flap);
    if (flap == NULL) return SN_ENOMEM;
    flap->rig = rig;
    flap->soak = soak;
    flap->run = run;
    flap->figures = &run->figures;
    flap->begin_ns = sn_env_now_ns(soak->env);
    enum sn_err err =
        sn_duplex_init(soak->env, tunnel->listener, soak->scenario.bytes, &flap->duplex);
    if (err != SN_OK) {
        sn_free(flap, sizeof *flap);
        return err;
    }
    *out_flap = flap;
    return SN_OK;
}

int sn_soak_flap_run(struct sn_rig *rig, struct sn_soak_tunnel *tunnel, struct sn_soak_run *run)
{
    struct sn_soak_verdict *verdict = &rig->soak->verdict;
    uint32_t failures_before = verdict->failure_count;
    struct flap *flap = NULL;
    enum sn_err err = make(rig, tunnel, run, &flap);
    if (err != SN_OK) {
        sn_verdict_fail(verdict, "flap: %s", sn_err_text(err));
        return 0;
    }
    run->is_digest_equal = 1;
    int is_fine = run_all(flap);
    if (!is_fine) run->is_digest_equal = 0; /* nobody knows what would have come */
    sum_up(flap);
    if (is_fine) sn_track_judge(verdict, flap->figures);
    sn_duplex_fini(&flap->duplex);
    sn_chaos_close(&flap->chaos);
    sn_free(flap, sizeof *flap);
    return is_fine && verdict->failure_count == failures_before;
}
