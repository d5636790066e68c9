/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sennit/err.h"

static void every_code_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < SN_ERR_COUNT; i++) {
        const char *name = sn_err_name((enum sn_err)i);
        assert_non_null(name);
        assert_true(strlen(name) > 0);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz-"), strlen(name));
        assert_string_not_equal(name, "unknown-error");
        assert_true(strlen(sn_err_text((enum sn_err)i)) > 0);
        assert_string_not_equal(sn_err_text((enum sn_err)i), "unknown error");
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(name, sn_err_name((enum sn_err)j));
            assert_string_not_equal(sn_err_text((enum sn_err)i), sn_err_text((enum sn_err)j));
        }
    }
}

static void values_out_of_range_are_unknown(void **state)
{
    (void)state;
    const int values[] = {-1, SN_ERR_COUNT, 1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        enum sn_err err;
        memcpy(&err, &values[i], sizeof err); /* a plugin could return anything */
        assert_string_equal(sn_err_name(err), "unknown-error");
        assert_string_equal(sn_err_text(err), "unknown error");
    }
}

/* Values and names are part of the ABI and of what operators search for. */
static void values_never_move(void **state)
{
    (void)state;
    assert_int_equal(SN_OK, 0);
    assert_int_equal(SN_EINVAL, 1);
    assert_int_equal(SN_EDENIED, 7);
    assert_int_equal(SN_ETOOBIG, 11);
    assert_int_equal(SN_EAUTH, 15);
    assert_int_equal(SN_EMISMATCH, 27);
    assert_int_equal(SN_EREFUSED, 28);
    assert_int_equal(SN_ELOOP, 31);
    assert_string_equal(sn_err_name(SN_ETIMEDOUT), "timed-out");
    assert_string_equal(sn_err_name(SN_EEXPIRED), "expired");
    assert_string_equal(sn_err_name(SN_ENOTYET), "not-yet-valid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_of_its_own),
        cmocka_unit_test(values_out_of_range_are_unknown),
        cmocka_unit_test(values_never_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
