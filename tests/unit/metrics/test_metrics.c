/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "metrics/metrics.h"

#define SHARDS 3u

static const struct sn_metric_desc first[] = {{"a.sent_bytes", SN_METRIC_COUNTER, "bytes"},
                                              {"a.open", SN_METRIC_GAUGE, "open ones"},
                                              {NULL, 0, NULL}};
static const struct sn_metric_desc second[] = {{"b.x", SN_METRIC_COUNTER, "x"}, {NULL, 0, NULL}};

static int set_up(void **state)
{
    struct sn_metrics *metrics;
    if (sn_metrics_new(SHARDS, &metrics) != SN_OK) return -1;
    *state = metrics;
    return 0;
}

static int tear_down(void **state)
{
    sn_metrics_free(*state);
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

static void test_shards_are_summed(void **state)
{
    struct sn_metrics *metrics = *state;
    uint32_t a, b;
    assert_int_equal(sn_metrics_register(metrics, first, &a), SN_OK);
    assert_int_equal(sn_metrics_register(metrics, second, &b), SN_OK);
    assert_int_equal(a, 0);
    assert_int_equal(b, 2);
    assert_int_equal(sn_metrics_count(metrics), 3);
    assert_string_equal(sn_metrics_desc(metrics, b)->name, "b.x");
    assert_int_equal(sn_metrics_table_rest(metrics, a), 2);
    assert_int_equal(sn_metrics_table_rest(metrics, a + 1), 1); /* not those of the next table */
    assert_int_equal(sn_metrics_table_rest(metrics, b), 1);
    assert_int_equal(sn_metrics_table_rest(metrics, b + 1), 0);
    assert_int_equal(sn_metrics_table_rest(metrics, SN_METRICS_NONE), 0);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        sn_metrics_add(metrics, shard, a, 10 + shard);
        sn_metrics_add(metrics, shard, a, 100);
        sn_metrics_add(metrics, shard, b, 1);
    }
    sn_metrics_add(metrics, 0, a + 1, 5);
    sn_metrics_add(metrics, 2, a + 1, -7); /* a gauge may fall, on another shard too */
    assert_int_equal(sn_metrics_read(metrics, a), 333);
    assert_int_equal(sn_metrics_read(metrics, a + 1), -2);
    assert_int_equal(sn_metrics_read(metrics, b), 3);
}

static void test_numbers_wrap(void **state)
{
    struct sn_metrics *metrics = *state;
    uint32_t base;
    assert_int_equal(sn_metrics_register(metrics, first, &base), SN_OK);
    sn_metrics_add(metrics, 0, base, INT64_MAX);
    sn_metrics_add(metrics, 0, base, INT64_MAX);
    sn_metrics_add(metrics, 1, base, INT64_MIN);
    assert_true(sn_metrics_read(metrics, base) == INT64_MAX - 1);
}

static void expect_refused(struct sn_metrics *metrics, const struct sn_metric_desc *table,
                           enum sn_err expected)
{
    uint32_t base = 77;
    uint32_t count = sn_metrics_count(metrics);
    assert_int_equal(sn_metrics_register(metrics, table, &base), expected);
    assert_int_equal(base, 77);
    assert_int_equal(sn_metrics_count(metrics), count);
}

static void test_names_are_unique(void **state)
{
    struct sn_metrics *metrics = *state;
    uint32_t base;
    assert_int_equal(sn_metrics_register(metrics, first, &base), SN_OK);
    expect_refused(metrics, first, SN_EEXIST);
    const struct sn_metric_desc late[] = {
        {"c.x", SN_METRIC_COUNTER, ""}, {"a.open", SN_METRIC_COUNTER, ""}, {NULL, 0, NULL}};
    expect_refused(metrics, late, SN_EEXIST);
    const struct sn_metric_desc twice[] = {
        {"c.x", SN_METRIC_COUNTER, ""}, {"c.x", SN_METRIC_COUNTER, ""}, {NULL, 0, NULL}};
    expect_refused(metrics, twice, SN_EEXIST);
}

static void test_bad_names(void **state)
{
    struct sn_metrics *metrics = *state;
    char longest[65];
    memset(longest, 'x', sizeof longest - 1);
    longest[64] = '\0';
    const char *const names[] = {"", "A.b", "a b", "a-b", "a\n", "a\"", "\xc3\xa9", longest};
    for (size_t i = 0; i < SN_ARRAY_COUNT(names); i++) {
        const struct sn_metric_desc table[] = {
            {"ok.x", SN_METRIC_COUNTER, ""}, {names[i], SN_METRIC_COUNTER, ""}, {NULL, 0, NULL}};
        expect_refused(metrics, table, SN_EINVAL);
    }
    longest[63] = '\0';
    const struct sn_metric_desc fits[] = {{longest, SN_METRIC_COUNTER, ""}, {NULL, 0, NULL}};
    uint32_t base;
    assert_int_equal(sn_metrics_register(metrics, fits, &base), SN_OK);
}

static void test_full_table(void **state)
{
    struct sn_metrics *metrics = *state;
    static char names[SN_METRICS_MAX + 1][16];
    static struct sn_metric_desc table[SN_METRICS_MAX + 2];
    for (uint32_t i = 0; i <= SN_METRICS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "m.n%u", i);
        table[i] = (struct sn_metric_desc){names[i], SN_METRIC_COUNTER, ""};
    }
    expect_refused(metrics, table, SN_EFULL); /* one too many */
    table[SN_METRICS_MAX] = (struct sn_metric_desc){NULL, 0, NULL};
    assert_int_equal(sn_metrics_table_count(table), SN_METRICS_MAX);
    uint32_t base;
    assert_int_equal(sn_metrics_register(metrics, table, &base), SN_OK);
    expect_refused(metrics, second, SN_EFULL);
    sn_metrics_add(metrics, SHARDS - 1, SN_METRICS_MAX - 1, 9);
    assert_int_equal(sn_metrics_read(metrics, SN_METRICS_MAX - 1), 9);
    assert_int_equal(sn_metrics_read(metrics, 0), 0);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sn_metrics *metrics = NULL;
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_metrics_new(1, &metrics), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_null(metrics);
    sn_metrics_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shards_are_summed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers_wrap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_are_unique, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_table, set_up, tear_down),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
