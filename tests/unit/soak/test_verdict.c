/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.json: its exact form, and when it is a pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agents/soak/verdict.h"
#include "base/alloc.h"

static const struct sn_scenario tunnel = {.kind = SN_SOAK_TUNNEL, .starts = 2};
static const struct sn_scenario delivery = {.kind = SN_SOAK_DELIVERY, .starts = 2};

static const struct sn_soak_run run = {
    .pass = 1,
    .is_balanced = 1,
    .is_agreed = 1,
    .is_nng_equal = 1,
    .is_digest_equal = 1,
    .sessions = {1, 2},
    .ready_ms = 5,
    .duration_ms = 6,
    .parcels_sent = 7,
    .nng_sent = 7,
    .parcels_received = 8,
    .nng_received = 8,
    .parcels_resent = 1,
    .counts = {.sent = 10, .delivered = 9, .lost = 1, .doubled = 2, .reordered = 3, .altered = 4}};

#define COUNTS(sent, delivered, lost, doubled, reordered, altered)                                 \
    "\"sent\":" sent ",\"delivered\":" delivered ",\"lost\":" lost ",\"doubled\":" doubled         \
    ",\"reordered\":" reordered ",\"altered\":" altered
#define LEDGER(balanced, agree) ",\"ledger\":{\"balanced\":" balanced ",\"agree\":" agree "}"
#define NNG(equal, sent, received, resent)                                                         \
    ",\"nng\":{\"equal\":" equal ",\"parcels_sent\":" sent ",\"nng_sent\":" sent                   \
    ",\"parcels_received\":" received ",\"nng_received\":" received ",\"parcels_resent\":" resent  \
    "}"

#define SESSIONS(hub, edge) ",\"sessions\":{\"hub\":" hub ",\"edge\":" edge "}"

static void expect_json(const struct sn_soak_verdict *verdict, const char *wanted)
{
    char *text = NULL;
    size_t size = 0, capacity = 0;
    assert_int_equal(sn_verdict_json(verdict, &text, &size, &capacity), SN_OK);
    assert_int_equal(strlen(text), size);
    assert_string_equal(text, wanted);
    sn_free(text, capacity);
}

static void a_pass_has_this_form(void **state)
{
    (void)state;
    struct sn_soak_verdict verdict;
    assert_int_equal(sn_verdict_init(&verdict, &tunnel, 42), SN_OK);
    assert_false(sn_verdict_is_pass(&verdict)); /* nothing was run */
    verdict.runs[0] = verdict.runs[1] = run;
    verdict.runs[1].is_edge_first = 1;
    verdict.run_count = 1;
    assert_false(sn_verdict_is_pass(&verdict)); /* not all */
    verdict.run_count = 2;
    verdict.duration_ms = 99;
    assert_true(sn_verdict_is_pass(&verdict));
#define ONE(number, first)                                                                         \
    "{\"start\":" number ",\"pass\":true,\"first\":\"" first "\",\"ready_ms\":5,"                  \
    "\"duration_ms\":6,\"sha256_equal\":true," COUNTS("10", "9", "1", "2", "3", "4")               \
        LEDGER("true", "true") NNG("true", "7", "8", "1") SESSIONS("1", "2") "}"
    expect_json(
        &verdict,
        "{\"pass\":true,\"interrupted\":false,\"seed\":42,\"scenario\":\"tunnel\",\"unit\":"
        "\"bytes\","
        "\"starts\":2," COUNTS("20", "18", "2", "4", "6", "8") LEDGER("true", "true")
            NNG("true", "14", "16", "2") ",\"duration_ms\":99,\"runs\":[" ONE("1", "hub") "," ONE(
                "2", "edge") "],\"failure_count\":0,\"failures\":[]}\n");
    sn_verdict_fini(&verdict);
}

static void one_bad_start_is_a_bad_sum(void **state)
{
    (void)state;
    struct sn_soak_verdict verdict;
    assert_int_equal(sn_verdict_init(&verdict, &delivery, 1), SN_OK);
    verdict.runs[0] = run;
    verdict.run_count = 1;
    sn_verdict_fail(&verdict, "a \"%s\"", "quote");
    verdict.run_count = 2; /* all that it says is no */
    assert_false(sn_verdict_is_pass(&verdict));
    expect_json(
        &verdict,
        "{\"pass\":false,\"interrupted\":false,\"seed\":1,\"scenario\":\"delivery\",\"unit\":"
        "\"messages\","
        "\"starts\":2," COUNTS("10", "9", "1", "2", "3", "4") LEDGER("false", "false") NNG(
            "false", "7", "8",
            "1") ",\"duration_ms\":0,\"runs\":[{\"start\":1,\"pass\":true,"
                 "\"first\":\"hub\",\"ready_ms\":5,\"duration_ms\":6," COUNTS("10", "9", "1", "2",
                                                                              "3", "4")
                     LEDGER("true", "true") NNG("true", "7", "8", "1") SESSIONS(
                         "1", "2") "},{\"start\":2,\"pass\":false,\"first\":\"hub\",\"ready_ms\":0,"
                                   "\"duration_ms\":0," COUNTS("0", "0", "0", "0", "0", "0")
                                       LEDGER("false", "false") NNG("false", "0", "0", "0")
                                           SESSIONS("0", "0") "}],\"failure_count\":1,\"failures\":"
                                                              "[\"start 2: a \\\"quote\\\"\"]}\n");
    sn_verdict_fini(&verdict);
}

static void a_flap_says_more(void **state)
{
    (void)state;
    static const struct sn_scenario flap = {.kind = SN_SOAK_FLAP, .starts = 1};
    struct sn_soak_verdict verdict;
    char *text = NULL;
    size_t size = 0, capacity = 0;
    assert_int_equal(sn_verdict_init(&verdict, &flap, 1), SN_OK);
    verdict.runs[0] = run;
    verdict.runs[0].figures = (struct sn_soak_figures){
        {1, 2, 3, 4, 5},
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        {{11, 12, 13, 14, 15, 16, 17, 18}, {21, 22, 23, 24, 25, 26, 27, 28}}};
    verdict.run_count = 1;
    assert_int_equal(sn_verdict_json(&verdict, &text, &size, &capacity), SN_OK);
    assert_non_null(strstr(text, "\"scenario\":\"flap\",\"unit\":\"messages\","));
    assert_non_null(strstr(text, "\"duration_ms\":6,\"sha256_equal\":true,\"sent\":10,"));
#define USAGE(tens)                                                                                \
    "{\"resident_peak_first_half\":" tens "1,\"resident_peak_second_half\":" tens                  \
    "2,\"resident_rest_first_half\":" tens "3,\"resident_rest_second_half\":" tens                 \
    "4,\"descriptors_before\":" tens "5,\"descriptors_after\":" tens "6,\"log_bytes\":" tens       \
    "7,\"log_bytes_per_hour\":" tens "8}"
    assert_non_null(strstr(
        text, SESSIONS("1", "2") ",\"flap\":{\"deaths\":{\"killed\":1,\"stopped\":2,"
                                 "\"stopped_then_killed\":3,\"cut_from_edge\":4,"
                                 "\"cut_from_hub\":5},\"transfers\":6,\"transfers_failed\":7,"
                                 "\"transferred_bytes\":8,\"undelivered\":9,\"unknown\":10,"
                                 "\"message_gap_ms\":11,\"stream_gap_ms\":12,\"hub\":" USAGE(
                                     "1") ",\"edge\":" USAGE("2") "}}],\"failure_count\":0,"));
    sn_free(text, capacity);
    sn_verdict_fini(&verdict);
}

static void nothing_run_is_no_pass(void **state)
{
    (void)state;
    struct sn_soak_verdict verdict;
    assert_int_equal(sn_verdict_init(&verdict, &delivery, 1), SN_OK);
    expect_json(&verdict,
                "{\"pass\":false,\"interrupted\":false,\"seed\":1,\"scenario\":\"delivery\","
                "\"unit\":\"messages\","
                "\"starts\":0," COUNTS("0", "0", "0", "0", "0", "0") LEDGER("false", "false") NNG(
                    "false", "0", "0",
                    "0") ",\"duration_ms\":0,\"runs\":[],\"failure_count\":0,\"failures\":[]}\n");
    sn_verdict_fini(&verdict);
}

/* Failures are bounded in number and length, and the count goes on. */
static void failures_are_bounded(void **state)
{
    (void)state;
    struct sn_soak_verdict verdict;
    char *text = NULL;
    size_t size = 0, capacity = 0;
    char tall[1000];
    memset(tall, 'x', sizeof tall);
    tall[sizeof tall - 1] = '\0';
    assert_int_equal(sn_verdict_init(&verdict, &delivery, 1), SN_OK);
    for (unsigned i = 0; i < SN_SOAK_FAILURES_MAX + 5; i++) sn_verdict_fail(&verdict, "%s", tall);
    assert_int_equal(verdict.failure_count, SN_SOAK_FAILURES_MAX + 5);
    assert_int_equal(sn_verdict_json(&verdict, &text, &size, &capacity), SN_OK);
    assert_non_null(strstr(text, "\"failure_count\":105,"));
    assert_in_range(size, SN_SOAK_FAILURES_MAX * 200, SN_SOAK_FAILURES_MAX * 300);
    sn_free(text, capacity);
    sn_verdict_fini(&verdict);
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    for (uint64_t nth = 1;; nth++) {
        struct sn_soak_verdict verdict = {0};
        char *text = NULL;
        size_t size = 0, capacity = 0;
        sn_alloc_fail_nth(nth);
        enum sn_err err = sn_verdict_init(&verdict, &delivery, 1);
        if (err == SN_OK) err = sn_verdict_json(&verdict, &text, &size, &capacity);
        sn_alloc_fail_nth(0);
        sn_verdict_fini(&verdict);
        sn_free(text, capacity);
        assert_int_equal(sn_alloc_in_use(), before);
        if (err == SN_OK) return;
        assert_int_equal(err, SN_ENOMEM);
        assert_in_range(nth, 1, 50);
    }
}

/* An interrupt is one line, and what follows from it is no failure of its own. */
static void an_interrupt_is_said_once(void **state)
{
    (void)state;
    struct sn_soak_verdict verdict;
    char *text = NULL;
    size_t size = 0, capacity = 0;
    assert_int_equal(sn_verdict_init(&verdict, &delivery, 1), SN_OK);
    sn_verdict_fail(&verdict, "before");
    sn_verdict_interrupt(&verdict);
    sn_verdict_fail(&verdict, "not done after 5 ms");
    sn_verdict_interrupt(&verdict);
    assert_int_equal(verdict.failure_count, 2);
    assert_false(sn_verdict_is_pass(&verdict));
    assert_int_equal(sn_verdict_json(&verdict, &text, &size, &capacity), SN_OK);
    assert_non_null(strstr(text, "\"interrupted\":true,"));
    assert_non_null(strstr(text, "[\"start 1: before\",\"start 1: interrupted\"]"));
    sn_free(text, capacity);
    sn_verdict_fini(&verdict);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_has_this_form),      cmocka_unit_test(one_bad_start_is_a_bad_sum),
        cmocka_unit_test(a_flap_says_more),          cmocka_unit_test(nothing_run_is_no_pass),
        cmocka_unit_test(failures_are_bounded),      cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(an_interrupt_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
