/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "unit/panic.h"

static void memory_is_zeroed_and_counted(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    uint8_t *bytes = sn_alloc(1000);
    assert_non_null(bytes);
    for (size_t i = 0; i < 1000; i++) assert_int_equal(bytes[i], 0);
    void *raw = sn_alloc_raw(24);
    assert_non_null(raw);
    assert_int_equal(sn_alloc_in_use(), before + 1024);
    sn_free(raw, 24);
    sn_free(bytes, 1000);
    sn_free(NULL, 0);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void only_the_nth_allocation_fails(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    for (uint64_t nth = 1; nth <= 4; nth++) {
        sn_alloc_fail_nth(nth);
        for (uint64_t i = 1; i <= 6; i++) {
            void *ptr = i % 2 == 0 ? sn_alloc(8) : sn_alloc_raw(8);
            assert_int_equal(ptr == NULL, i == nth);
            sn_free(ptr, 8);
        }
    }
    sn_alloc_fail_nth(1);
    sn_alloc_fail_nth(0);
    void *ptr = sn_alloc(8);
    assert_non_null(ptr);
    sn_free(ptr, 8);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void realloc_keeps_content(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    uint8_t *bytes = sn_realloc(NULL, 0, 4);
    assert_non_null(bytes);
    memcpy(bytes, "abcd", 4);
    bytes = sn_realloc(bytes, 4, 8);
    assert_non_null(bytes);
    assert_memory_equal(bytes, "abcd\0\0\0\0", 8);
    bytes = sn_realloc(bytes, 8, 2);
    assert_non_null(bytes);
    assert_memory_equal(bytes, "ab", 2);
    assert_int_equal(sn_alloc_in_use(), before + 2);
    sn_alloc_fail_nth(1);
    assert_null(sn_realloc(bytes, 2, 100));
    assert_memory_equal(bytes, "ab", 2); /* untouched */
    sn_free(bytes, 2);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void text_is_copied(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    char *whole = sn_strdup("paris/hub");
    char *part = sn_strndup("paris/hub", 5);
    char *empty = sn_strdup("");
    assert_string_equal(whole, "paris/hub");
    assert_string_equal(part, "paris");
    assert_string_equal(empty, "");
    sn_strfree(whole);
    sn_strfree(part);
    sn_strfree(empty);
    sn_strfree(NULL);
    sn_alloc_fail_nth(1);
    assert_null(sn_strdup("x"));
    assert_int_equal(sn_alloc_in_use(), before);
}

static void misuse_panics(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    char bytes[1];
    expect_assert_failure(sn_strfree(sn_alloc(0)));
    expect_assert_failure(sn_free(bytes, 0));
    assert_int_equal(sn_alloc_in_use(), before);
}

static void a_budget_is_never_exceeded(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_budget *budget = NULL;
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_budget_new(100, &budget), SN_ENOMEM);
    assert_null(budget);
    assert_int_equal(sn_budget_new(100, &budget), SN_OK);
    assert_int_equal(sn_budget_take(budget, 101), SN_ENOMEM);
    assert_int_equal(sn_budget_take(budget, UINT64_MAX), SN_ENOMEM);
    assert_int_equal(sn_budget_used(budget), 0);
    assert_int_equal(sn_budget_take(budget, 60), SN_OK);
    assert_int_equal(sn_budget_take(budget, 41), SN_ENOMEM);
    assert_int_equal(sn_budget_take(budget, UINT64_MAX - 30), SN_ENOMEM);
    assert_int_equal(sn_budget_used(budget), 60);
    assert_int_equal(sn_budget_take(budget, 40), SN_OK);
    assert_int_equal(sn_budget_take(budget, 0), SN_OK);
    assert_int_equal(sn_budget_take(budget, 1), SN_ENOMEM);
    sn_budget_give(budget, 100);
    assert_int_equal(sn_budget_used(budget), 0);
    assert_int_equal(sn_budget_take(budget, 100), SN_OK);
    sn_budget_give(budget, 100);
    expect_assert_failure(sn_budget_give(budget, 1));
    sn_budget_free(budget);
    sn_budget_free(NULL);
    assert_int_equal(sn_budget_new(UINT64_MAX, &budget), SN_OK);
    assert_int_equal(sn_budget_take(budget, 10), SN_OK);
    assert_int_equal(sn_budget_take(budget, UINT64_MAX - 5), SN_ENOMEM); /* the sum would wrap */
    sn_budget_give(budget, 10);
    sn_budget_free(budget);
    assert_int_equal(sn_alloc_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_counted),
        cmocka_unit_test(only_the_nth_allocation_fails),
        cmocka_unit_test(realloc_keeps_content),
        cmocka_unit_test(text_is_copied),
        cmocka_unit_test(misuse_panics),
        cmocka_unit_test(a_budget_is_never_exceeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
