/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a flap: which time counts as a gap, what is a peak, and which limits make a failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agents/soak/track.h"

static void a_gap_ends_with_progress(void **state)
{
    (void)state;
    struct sn_gap gap = {0};
    sn_gap_start(&gap, 5, 1000);
    sn_gap_note(&gap, 5, 1300, 1);
    assert_int_equal(gap.longest_ns, 300); /* one that has not ended counts, too */
    sn_gap_note(&gap, 6, 1400, 1);
    assert_int_equal(gap.longest_ns, 400);
    sn_gap_note(&gap, 7, 1500, 1);
    sn_gap_note(&gap, 7, 1900, 1);
    assert_int_equal(gap.longest_ns, 400);
    sn_gap_note(&gap, 7, 1901, 1);
    assert_int_equal(gap.longest_ns, 401);
}

static void only_time_with_a_good_link_counts(void **state)
{
    (void)state;
    struct sn_gap gap = {0};
    sn_gap_start(&gap, 0, 1000);
    sn_gap_note(&gap, 0, 1100, 1);
    sn_gap_note(&gap, 0, 5000, 0); /* down */
    assert_int_equal(gap.longest_ns, 100);
    sn_gap_note(&gap, 0, 6000, 5900); /* good again */
    assert_int_equal(gap.longest_ns, 100);
    sn_gap_note(&gap, 1, 6050, 5900);
    assert_int_equal(gap.longest_ns, 150);
    sn_gap_note(&gap, 1, 6060, 7000); /* a time to come is none */
    assert_int_equal(gap.longest_ns, 150);
}

static void each_half_has_its_peak(void **state)
{
    (void)state;
    struct sn_soak_usage usage = {.descriptors_before = 4};
    const struct sn_soak_sample samples[] = {{10, 5, 1}, {30, 6, 2}, {20, 7, 3}, {25, 8, 4}};
    for (unsigned i = 0; i < 4; i++) sn_track_sample(&usage, &samples[i], i >= 2);
    for (unsigned i = 0; i < 4; i++) sn_track_rest(&usage, &samples[i], i >= 2);
    const struct sn_soak_usage wanted = {30, 25, 30, 25, 4, 8, 4, 0};
    assert_memory_equal(&usage, &wanted, sizeof wanted);
    assert_int_equal(sn_track_per_hour(1000, 1800000), 2000);
    assert_int_equal(sn_track_per_hour(1000, 0), 0);
}

/* Judges figures that lie at all limits, with one of them above by `more`. */
static uint32_t failures(const struct sn_soak_flap *limits, unsigned which, uint64_t more)
{
    const struct sn_scenario scenario = {.kind = SN_SOAK_FLAP, .starts = 1, .flap = *limits};
    struct sn_soak_figures figures = {.message_gap_ms = 100, .stream_gap_ms = 100};
    struct sn_soak_verdict verdict;
    for (unsigned i = 0; i < 2; i++) {
        figures.usage[i] = (struct sn_soak_usage){1,  1u << 30, 5000, 5000 + 2 * 1024,
                                                  20, 20,       1,    (uint64_t)3 * 1024};
    }
    uint64_t *const places[] = {&figures.message_gap_ms,
                                &figures.stream_gap_ms,
                                &figures.usage[0].resident_rest_second,
                                &figures.usage[1].resident_rest_second,
                                &figures.usage[0].log_bytes_per_hour,
                                &figures.usage[1].log_bytes_per_hour,
                                &figures.usage[0].descriptors_after,
                                &figures.usage[1].descriptors_after};
    *places[which] += more;
    assert_int_equal(sn_verdict_init(&verdict, &scenario, 1), SN_OK);
    sn_track_judge(&verdict, &figures);
    uint32_t count = verdict.failure_count;
    sn_verdict_fini(&verdict);
    return count;
}

static void limits_are_judged_and_none_is_no_limit(void **state)
{
    (void)state;
    const struct sn_soak_flap limits = {.gap_max_ms = 100, .growth_max_kib = 2, .log_max_kib = 3};
    const struct sn_soak_flap none = {0};
    for (unsigned which = 0; which < 8; which++) {
        assert_int_equal(failures(&limits, which, 0), 0);
        assert_int_equal(failures(&limits, which, 1), 1);
        /* Descriptors are flat in any case. */
        assert_int_equal(failures(&none, which, 1u << 30), which < 6 ? 0 : 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_ends_with_progress),
        cmocka_unit_test(only_time_with_a_good_link_counts),
        cmocka_unit_test(each_half_has_its_peak),
        cmocka_unit_test(limits_are_judged_and_none_is_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
