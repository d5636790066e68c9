/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "config/scalar.h"

static void plain_scalars_are_classed(void **state)
{
    (void)state;
    static const struct {
        enum sni_scalar_class class;
        const char *words[24];
    } cases[] = {
        {SNI_SCALAR_NULL, {"", "~", "null", "Null", "NULL"}},
        {SNI_SCALAR_BOOL, {"true", "false"}},
        {SNI_SCALAR_BOOL_LIKE,
         {"yes", "no", "on", "off", "Yes", "NO", "On", "OFF", "True", "FALSE", "tRue"}},
        {SNI_SCALAR_INT, {"0", "1", "-1", "10000", "99999999999999999999"}},
        {SNI_SCALAR_NUMBER,
         {"0777", "00", "-01",   "+1",   "0x1F",  "0o17", "0b11", "1e3",       "1E-3", "1.5",
          ".5",   "1.", "1_000", ".inf", "-.Inf", ".NaN", "1:30", "190:20:30", "-0x1", "1.5e+3"}},
        {SNI_SCALAR_TEXT, {"demo",      "1e",   "1.2.3", "127.0.0.1", "127.0.0.1:8000",
                           "a1",        "1a",   "0xg",   "0x",        "-",
                           "--1",       "+",    ".",     "_",         "yess",
                           "nope",      "1-2",  "e3",    "1:",        ":1",
                           "paris/hub", "12:ab"}},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        for (size_t j = 0; j < SN_ARRAY_COUNT(cases[i].words); j++) {
            const char *word = cases[i].words[j];
            if (word == NULL) break;
            if (sni_scalar_classify(word, 1) != cases[i].class) print_error("%s\n", word);
            assert_int_equal(sni_scalar_classify(word, 1), cases[i].class);
            assert_int_equal(sni_scalar_classify(word, 0), SNI_SCALAR_TEXT); /* quoted */
        }
    }
    assert_true(sni_scalar_is_truth("Yes"));
    assert_false(sni_scalar_is_truth("no"));
}

static void integers_keep_their_whole_range(void **state)
{
    (void)state;
    int64_t value = 0;
    assert_int_equal(sni_scalar_int("0", &value), SN_OK);
    assert_true(value == 0);
    assert_int_equal(sni_scalar_int("9223372036854775807", &value), SN_OK);
    assert_true(value == INT64_MAX);
    assert_int_equal(sni_scalar_int("-9223372036854775808", &value), SN_OK);
    assert_true(value == INT64_MIN);
    assert_int_equal(sni_scalar_int("-0", &value), SN_OK);
    assert_true(value == 0);
    value = 7;
    static const char *const too_big[] = {"9223372036854775808", "-9223372036854775809",
                                          "18446744073709551616", "99999999999999999999"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(too_big); i++) {
        assert_int_equal(sni_scalar_int(too_big[i], &value), SN_ETOOBIG);
    }
    static const char *const bad[] = {"", "-", "+1", "01", "1 ", " 1", "1.0", "0x1", "1e3", "x"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(bad); i++) {
        assert_int_equal(sni_scalar_int(bad[i], &value), SN_EINVAL);
    }
    assert_true(value == 7); /* written only on success */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scalars_are_classed),
        cmocka_unit_test(integers_keep_their_whole_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
