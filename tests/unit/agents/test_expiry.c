/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agents/expiry.h"

#define DAY 86400

static struct sn_expiry_view look(int64_t lifetime_s, int64_t left_s)
{
    const int64_t now_s = 1000000000;
    struct sn_cert cert = {.not_before_s = now_s + left_s - lifetime_s,
                           .not_after_s = now_s + left_s};
    return sn_expiry_look(&cert, now_s);
}

static void the_last_quarter_is_near(void **state)
{
    (void)state;
    assert_false(look(100, 26).is_near);
    assert_true(look(100, 25).is_near);
    assert_false(look(365 * DAY, 31 * DAY).is_near); /* but never more than 30 days */
    assert_true(look(365 * DAY, 30 * DAY).is_near);
    assert_true(look(100, 0).is_near);
    assert_false(look(100, 0).is_over); /* good until the end of its last second */
    assert_true(look(100, -1).is_over);
    assert_true(look(100, -1).is_near);
}

static void it_is_looked_at_when_that_changes(void **state)
{
    (void)state;
    assert_int_equal(look(100, 60).next_s, 35);
    assert_true(look(100, 60 - 35).is_near);
    assert_int_equal(look(100, 20).next_s, 21);
    assert_true(look(100, 20 - 21).is_over);
    assert_int_equal(look(365 * DAY, 300 * DAY).next_s, 3600); /* the clock may be set */
    assert_int_equal(look(365 * DAY, 20 * DAY).next_s, 3600);
    assert_int_equal(look(365 * DAY, -DAY).next_s, 3600);
    for (int64_t left_s = -5; left_s < 105; left_s++) assert_true(look(100, left_s).next_s >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_quarter_is_near),
        cmocka_unit_test(it_is_looked_at_when_that_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
