/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "config/finding.h"
#include "sennit/limits.h"
#include "unit/config/support.h"

static void a_finding_reads_as_one_line(void **state)
{
    (void)state;
    struct sn_findings findings;
    sn_findings_init(&findings);
    sn_findings_add(&findings, "dir/f.yaml", (struct sn_config_pos){3, 14}, "a.b[0]", "no %s", "x");
    sn_findings_add(&findings, "dir/f.yaml", (struct sn_config_pos){1, 1}, "", "empty");
    char *found = findings_text(&findings);
    assert_string_equal(found, "dir/f.yaml:3:14: a.b[0]: no x\ndir/f.yaml:1:1: .: empty\n");
    free(found);
    char cut[10];
    sn_finding_format(findings.items[0], cut, sizeof cut);
    assert_string_equal(cut, "dir/f.yam");
    sn_findings_fini(&findings);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void beyond_the_limit_they_are_only_counted(void **state)
{
    (void)state;
    struct sn_findings findings;
    sn_findings_init(&findings);
    for (uint32_t i = 0; i < SN_CONFIG_FINDINGS_MAX + 50; i++) {
        assert_int_equal(sn_findings_is_full(&findings), i >= SN_CONFIG_FINDINGS_MAX);
        sn_findings_add(&findings, "f", (struct sn_config_pos){1, 1}, "p", "m");
    }
    assert_int_equal(findings.count, SN_CONFIG_FINDINGS_MAX);
    assert_int_equal(findings.total, SN_CONFIG_FINDINGS_MAX + 50);
    assert_int_equal(sn_findings_result(&findings, findings.total), SN_OK);
    assert_int_equal(sn_findings_result(&findings, findings.total - 1), SN_EINVAL);
    sn_findings_fini(&findings);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void sorting_keeps_files_apart_and_order_among_equals(void **state)
{
    (void)state;
    struct sn_findings findings;
    sn_findings_init(&findings);
    sn_findings_add(&findings, "b", (struct sn_config_pos){2, 5}, "p", "third");
    sn_findings_add(&findings, "b", (struct sn_config_pos){2, 1}, "p", "second");
    sn_findings_add(&findings, "b", (struct sn_config_pos){1, 9}, "p", "first");
    sn_findings_add(&findings, "b", (struct sn_config_pos){2, 5}, "p", "fourth");
    sn_findings_add(&findings, "a", (struct sn_config_pos){1, 1}, "p", "fifth");
    sn_findings_sort(&findings);
    char *found = findings_text(&findings);
    assert_string_equal(found, "b:1:9: p: first\nb:2:1: p: second\nb:2:5: p: third\n"
                               "b:2:5: p: fourth\na:1:1: p: fifth\n");
    free(found);
    sn_findings_fini(&findings);
}

static void lack_of_memory_is_remembered(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        struct sn_findings findings;
        sn_findings_init(&findings);
        sn_alloc_fail_nth(nth);
        sn_findings_add(&findings, "f", (struct sn_config_pos){1, 1}, "p", "m");
        sn_alloc_fail_nth(0);
        assert_int_equal(findings.count, 0);
        assert_int_equal(sn_findings_result(&findings, 0), SN_ENOMEM);
        assert_true(sn_findings_is_full(&findings));
        sn_findings_fini(&findings);
        assert_int_equal(sn_alloc_in_use(), 0);
    }
}

static void quoting_is_safe_for_terminals(void **state)
{
    (void)state;
    char quoted[SN_QUOTE_MAX];
    assert_string_equal(sn_quote("plain", quoted), "`plain`");
    assert_string_equal(sn_quote("", quoted), "``");
    assert_string_equal(sn_quote("a\x1b[2J\n\x7f", quoted), "`a\\x1b[2J\\x0a\\x7f`");
    char text[300];
    /* Whatever the length, the result is bounded and still UTF-8. */
    static const char *const letters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                          "\x01"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(letters); i++) {
        size_t size = strlen(letters[i]);
        for (size_t count = 0; count * size + size < sizeof text; count++) {
            memcpy(text + count * size, letters[i], size + 1);
            (void)sn_quote(text, quoted); /* returns its own argument */
            assert_true(strlen(quoted) < SN_QUOTE_MAX);
            assert_true(sn_utf8_is_valid(quoted, strlen(quoted)));
            assert_int_equal(quoted[strlen(quoted) - 1], '`');
        }
        assert_string_equal(quoted + strlen(quoted) - 4, "...`");
    }
}

static void suggestions_are_close_ones(void **state)
{
    (void)state;
    static const struct {
        const char *wanted;
        const char *best; /* of the names below, or NULL */
    } cases[] = {
        {"listne", "listen"},  {"lisen", "listen"},
        {"listenn", "listen"}, {"lnks", "links"},
        {"likns", "links"},    {"at", "at"},
        {"ta", "at"},          {"xy", NULL},
        {"zebra", NULL},       {"connectwaitms", NULL},
        {"to", NULL},
    };
    static const char *const names[] = {"at", "listen", "links", "address"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        struct sn_suggest suggest;
        char hint[SN_HINT_MAX];
        sn_suggest_init(&suggest, cases[i].wanted);
        for (size_t j = 0; j < SN_ARRAY_COUNT(names); j++) sn_suggest_offer(&suggest, names[j]);
        (void)sn_suggest_text(&suggest, hint); /* returns its own argument */
        if (cases[i].best == NULL) {
            assert_null(suggest.best);
            assert_string_equal(hint, "");
        } else {
            assert_non_null(suggest.best);
            assert_string_equal(suggest.best, cases[i].best);
            assert_non_null(strstr(hint, cases[i].best));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finding_reads_as_one_line),
        cmocka_unit_test(beyond_the_limit_they_are_only_counted),
        cmocka_unit_test(sorting_keeps_files_apart_and_order_among_equals),
        cmocka_unit_test(lack_of_memory_is_remembered),
        cmocka_unit_test(quoting_is_safe_for_terminals),
        cmocka_unit_test(suggestions_are_close_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
