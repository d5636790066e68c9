/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: what a figure was is reported in any case; only a limit that the scenario sets makes a failure of it. */
#include "agents/soak/track.h"

#define MS_PER_HOUR 3600000u
#define KIB         1024u

void sn_gap_start(struct sn_gap *gap, uint64_t value, uint64_t now_ns)
{
    gap->value = value;
    gap->since_ns = now_ns;
}

void sn_gap_note(struct sn_gap *gap, uint64_t value, uint64_t now_ns, uint64_t good_since_ns)
{
    if (good_since_ns != 0) {
        uint64_t from_ns = gap->since_ns > good_since_ns ? gap->since_ns : good_since_ns;
        uint64_t length_ns = now_ns > from_ns ? now_ns - from_ns : 0;
        if (length_ns > gap->longest_ns) gap->longest_ns = length_ns;
    }
    if (value != gap->value) sn_gap_start(gap, value, now_ns);
}

void sn_track_sample(struct sn_soak_usage *usage, const struct sn_soak_sample *sample,
                     int is_second_half)
{
    uint64_t *peak = is_second_half ? &usage->resident_peak_second : &usage->resident_peak_first;
    if (sample->resident_bytes > *peak) *peak = sample->resident_bytes;
    usage->descriptors_after = sample->descriptors;
    usage->log_bytes = sample->log_bytes;
}

void sn_track_rest(struct sn_soak_usage *usage, const struct sn_soak_sample *sample,
                   int is_second_half)
{
    uint64_t *rest = is_second_half ? &usage->resident_rest_second : &usage->resident_rest_first;
    *rest = sample->resident_bytes;
}

uint64_t sn_track_per_hour(uint64_t bytes, uint64_t ms)
{
    return ms == 0 ? 0 : bytes * MS_PER_HOUR / ms; /* a log has far less than 2^40 bytes */
}

static void judge_gap(struct sn_soak_verdict *verdict, const char *what, uint64_t gap_ms)
{
    uint32_t max_ms = verdict->scenario->flap.gap_max_ms;
    if (max_ms == 0 || gap_ms <= max_ms) return;
    sn_verdict_fail(verdict, "%s did not go on for %llu ms while the link was good", what,
                    (unsigned long long)gap_ms);
}

static void judge_usage(struct sn_soak_verdict *verdict, const char *agent,
                        const struct sn_soak_usage *usage)
{
    const struct sn_soak_flap *flap = &verdict->scenario->flap;
    uint64_t growth_max = (uint64_t)flap->growth_max_kib * KIB;
    if (growth_max != 0 && usage->resident_rest_second > usage->resident_rest_first + growth_max) {
        sn_verdict_fail(verdict,
                        "%s grew: %llu bytes at rest after the first half, %llu after the second",
                        agent, (unsigned long long)usage->resident_rest_first,
                        (unsigned long long)usage->resident_rest_second);
    }
    if (flap->log_max_kib != 0 && usage->log_bytes_per_hour > (uint64_t)flap->log_max_kib * KIB) {
        sn_verdict_fail(verdict, "%s logs %llu bytes an hour", agent,
                        (unsigned long long)usage->log_bytes_per_hour);
    }
    if (usage->descriptors_after > usage->descriptors_before) {
        sn_verdict_fail(verdict, "%s had %llu descriptors and has %llu", agent,
                        (unsigned long long)usage->descriptors_before,
                        (unsigned long long)usage->descriptors_after);
    }
}

void sn_track_judge(struct sn_soak_verdict *verdict, const struct sn_soak_figures *figures)
{
    judge_gap(verdict, "messages", figures->message_gap_ms);
    judge_gap(verdict, "streams", figures->stream_gap_ms);
    judge_usage(verdict, "the hub", &figures->usage[0]);
    judge_usage(verdict, "the edge", &figures->usage[1]);
}
