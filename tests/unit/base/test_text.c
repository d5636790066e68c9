/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/text.h"
#include "unit/rng.h"

#define A63 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg"

static void text_is_built_and_cut_at_the_end(void **state)
{
    (void)state;
    char data[12];
    struct sn_text text;
    memset(data, 'x', sizeof data);
    sn_text_init(&text, data, 11);
    assert_string_equal(data, "");
    sn_text_add(&text, "%s=%d", "abc", 12);
    sn_text_add_bytes(&text, NULL, 0);
    sn_text_add_bytes(&text, "12", 2);
    assert_string_equal(data, "abc=1212");
    assert_int_equal(text.size, 8);
    sn_text_add(&text, "%s", "34");
    assert_false(text.truncated);
    assert_string_equal(data, "abc=121234");
    sn_text_add(&text, "%s", "");
    assert_false(text.truncated);
    sn_text_add(&text, "5");
    assert_true(text.truncated);
    assert_string_equal(data, "abc=121234");
    assert_int_equal(data[11], 'x');
}

static void nothing_follows_a_gap(void **state)
{
    (void)state;
    char data[8];
    struct sn_text text;
    sn_text_init(&text, data, sizeof data);
    sn_text_add_bytes(&text, "abcd", 4);
    sn_text_add(&text, "%s", "efghij");
    assert_true(text.truncated);
    assert_string_equal(data, "abcdefg");
    assert_int_equal(text.size, 7);
    sn_text_add_bytes(&text, "z", 1);
    sn_text_add(&text, "z");
    sn_text_add(&text, "%s", ""); /* fits, but what was lost stays lost */
    assert_true(text.truncated);
    assert_string_equal(data, "abcdefg");
    char one[1];
    sn_text_init(&text, one, 1);
    sn_text_add_bytes(&text, "", 0);
    assert_false(text.truncated);
    sn_text_add_bytes(&text, "a", 1);
    assert_true(text.truncated);
    assert_string_equal(one, "");
}

static void expect_json(const char *bytes, size_t size, const char *expected)
{
    char data[256];
    struct sn_text text;
    sn_text_init(&text, data, sizeof data);
    sn_text_add_json(&text, bytes, size);
    assert_false(text.truncated);
    assert_string_equal(data, expected);
    assert_true(sn_utf8_is_valid(data, text.size));
}

static void json_strings_are_quoted(void **state)
{
    (void)state;
    expect_json("", 0, "\"\"");
    expect_json(NULL, 0, "\"\"");
    expect_json("plain text", 10, "\"plain text\"");
    expect_json("a\"b\\c", 5, "\"a\\\"b\\\\c\"");
    expect_json("\n\r\t\b\0\x1f\x7f", 7, "\"\\n\\r\\t\\u0008\\u0000\\u001f\\u007f\"");
    expect_json("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
                "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    expect_json("a\xff"
                "b\x80",
                4,
                "\"a\xef\xbf\xbd"
                "b\xef\xbf\xbd\"");
    expect_json("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");   /* cut short */
    expect_json("\xc0\xaf!", 3, "\"\xef\xbf\xbd\xef\xbf\xbd!\""); /* overlong */
    expect_json("\xe2\"\\", 3, "\"\xef\xbf\xbd\\\"\\\\\"");       /* the quote is not swallowed */
}

static void json_of_anything_is_utf8(void **state)
{
    (void)state;
    uint64_t rng = 4;
    for (int round = 0; round < 2000; round++) {
        char bytes[24], data[24 * 6 + 3];
        size_t size = rng_below(&rng, sizeof bytes + 1);
        for (size_t i = 0; i < size; i++) bytes[i] = (char)rng_next(&rng);
        struct sn_text text;
        sn_text_init(&text, data, sizeof data);
        sn_text_add_json(&text, bytes, size);
        assert_false(text.truncated);
        assert_true(sn_utf8_is_valid(data, text.size));
        assert_int_equal(data[0], '"');
        assert_int_equal(data[text.size - 1], '"');
        for (size_t i = 1; i + 1 < text.size; i++) {
            assert_true((uint8_t)data[i] >= 0x20);
            if (data[i] == '\\') {
                i++;
            } else {
                assert_int_not_equal(data[i], '"');
            }
        }
    }
}

static void copies_fit_or_are_refused(void **state)
{
    (void)state;
    char out[4] = "xyz";
    assert_int_equal(sn_text_copy(out, 4, "abcd", 4), SN_ETOOBIG);
    assert_int_equal(sn_text_copy(out, 0, "", 0), SN_ETOOBIG);
    assert_int_equal(sn_text_copy(out, 4, "abc", SIZE_MAX), SN_ETOOBIG);
    assert_string_equal(out, "xyz");
    assert_int_equal(sn_text_copy(out, 4, "abcd", 3), SN_OK);
    assert_string_equal(out, "abc");
    assert_int_equal(sn_text_copy(out, 1, NULL, 0), SN_OK);
    assert_string_equal(out, "");
}

static void hexadecimal_goes_both_ways(void **state)
{
    (void)state;
    uint8_t bytes[256], back[256];
    char text[513];
    for (size_t i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
    sn_hex_encode(bytes, 256, text);
    assert_int_equal(strlen(text), 512);
    assert_memory_equal(text, "000102030405060708090a0b", 24);
    assert_string_equal(text + 508, "feff");
    assert_int_equal(sn_hex_decode(text, 512, back, 256), SN_OK);
    assert_memory_equal(bytes, back, 256);
    assert_int_equal(sn_hex_decode("aBcDEF", 6, back, 3), SN_OK);
    assert_memory_equal(back, "\xab\xcd\xef", 3);
    sn_hex_encode(bytes, 0, text);
    assert_string_equal(text, "");
    assert_int_equal(sn_hex_decode("", 0, back, 0), SN_OK);
}

static void bad_hexadecimal_is_refused(void **state)
{
    (void)state;
    uint8_t out[3] = {1, 2, 3};
    assert_int_equal(sn_hex_decode("00000", 5, out, 2), SN_EINVAL);
    assert_int_equal(sn_hex_decode("00000", 5, out, 3), SN_EINVAL);
    assert_int_equal(sn_hex_decode("0000", 4, out, 3), SN_EINVAL);
    assert_int_equal(sn_hex_decode("00000000", 8, out, 3), SN_EINVAL);
    static const char bad[] = "gG/:@`\0 x-";
    for (size_t i = 0; i + 1 < sizeof bad; i++) {
        char text[6] = {'0', '0', '0', '0', '0', '0'};
        text[i % 6] = bad[i];
        assert_int_equal(sn_hex_decode(text, 6, out, 3), SN_EINVAL);
    }
    assert_memory_equal(out, "\1\2\3", 3);
}

static void decimals_are_strict(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t max;
        enum sn_err err;
        uint64_t value;
    } cases[] = {
        {"0", 0, SN_OK, 0},
        {"7", 7, SN_OK, 7},
        {"8", 7, SN_ETOOBIG, 0},
        {"65535", 65535, SN_OK, 65535},
        {"65536", 65535, SN_ETOOBIG, 0},
        {"18446744073709551615", UINT64_MAX, SN_OK, UINT64_MAX},
        {"18446744073709551616", UINT64_MAX, SN_ETOOBIG, 0},
        {"18446744073709551625", UINT64_MAX, SN_ETOOBIG, 0},
        {"99999999999999999999999", UINT64_MAX, SN_ETOOBIG, 0},
        {"99999999999999999999999x", UINT64_MAX, SN_EINVAL, 0},
        {"", 9, SN_EINVAL, 0},
        {"00", 9, SN_EINVAL, 0},
        {"01", 9, SN_EINVAL, 0},
        {"-1", 9, SN_EINVAL, 0},
        {"+1", 9, SN_EINVAL, 0},
        {" 1", 9, SN_EINVAL, 0},
        {"1 ", 9, SN_EINVAL, 0},
        {"0x1", 9, SN_EINVAL, 0},
        {"1/", 99, SN_EINVAL, 0},
        {"1:", 99, SN_EINVAL, 0},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        uint64_t value = 4711;
        enum sn_err err =
            sn_text_to_u64(cases[i].text, strlen(cases[i].text), cases[i].max, &value);
        assert_int_equal(err, cases[i].err);
        assert_int_equal(value, err == SN_OK ? cases[i].value : 4711);
    }
}

#define VALID(check, text)   assert_true(check(text, sizeof(text) - 1))
#define INVALID(check, text) assert_false(check(text, sizeof(text) - 1))

static void labels_follow_dns(void **state)
{
    (void)state;
    VALID(sn_label_is_valid, "a");
    VALID(sn_label_is_valid, "0");
    VALID(sn_label_is_valid, "a-1--b");
    VALID(sn_label_is_valid, A63);
    INVALID(sn_label_is_valid, A63 "a");
    INVALID(sn_label_is_valid, "");
    INVALID(sn_label_is_valid, "-");
    INVALID(sn_label_is_valid, "-a");
    INVALID(sn_label_is_valid, "a-");
    INVALID(sn_label_is_valid, "A");
    INVALID(sn_label_is_valid, "a\0");
    INVALID(sn_label_is_valid, "a/b");
    INVALID(sn_label_is_valid, "..");
    for (int c = 0; c < 256; c++) {
        char text[3] = {'a', (char)c, 'a'};
        int expected = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
        assert_int_equal(sn_label_is_valid(text, 3), expected);
    }
}

static void agent_names_are_two_labels(void **state)
{
    (void)state;
    VALID(sn_agent_name_is_valid, "paris/hub");
    VALID(sn_agent_name_is_valid, "a/b");
    VALID(sn_agent_name_is_valid, A63 "/" A63);
    INVALID(sn_agent_name_is_valid, A63 "/" A63 "a");
    INVALID(sn_agent_name_is_valid, A63 "a/a");
    INVALID(sn_agent_name_is_valid, "");
    INVALID(sn_agent_name_is_valid, "/");
    INVALID(sn_agent_name_is_valid, "a/");
    INVALID(sn_agent_name_is_valid, "/a");
    INVALID(sn_agent_name_is_valid, "paris");
    INVALID(sn_agent_name_is_valid, "a/b/c");
    INVALID(sn_agent_name_is_valid, "a//b");
    INVALID(sn_agent_name_is_valid, "a/*");
    INVALID(sn_agent_name_is_valid, "../b");
    assert_true(sn_agent_name_is_valid("paris/hubX", 9)); /* no byte behind the size counts */
}

static void types_are_labels_with_dots(void **state)
{
    (void)state;
    VALID(sn_type_is_valid, "echo.say");
    VALID(sn_type_is_valid, "ping");
    VALID(sn_type_is_valid, "a.b.c.d");
    VALID(sn_type_is_valid, A63);
    INVALID(sn_type_is_valid, A63 ".a");
    INVALID(sn_type_is_valid, "");
    INVALID(sn_type_is_valid, ".");
    INVALID(sn_type_is_valid, "a.");
    INVALID(sn_type_is_valid, ".a");
    INVALID(sn_type_is_valid, "a..b");
    INVALID(sn_type_is_valid, "a.-b");
    INVALID(sn_type_is_valid, "a.*");
    INVALID(sn_type_is_valid, "a b");
}

static void agent_patterns_grant_what_they_say(void **state)
{
    (void)state;
    VALID(sn_agent_pattern_is_valid, "*");
    VALID(sn_agent_pattern_is_valid, "paris/*");
    VALID(sn_agent_pattern_is_valid, "paris/hub");
    INVALID(sn_agent_pattern_is_valid, "");
    INVALID(sn_agent_pattern_is_valid, "/*");
    INVALID(sn_agent_pattern_is_valid, "**");
    INVALID(sn_agent_pattern_is_valid, "*/hub");
    INVALID(sn_agent_pattern_is_valid, "*/*");
    INVALID(sn_agent_pattern_is_valid, "paris/h*");
    INVALID(sn_agent_pattern_is_valid, "par*");
    INVALID(sn_agent_pattern_is_valid, "paris/hub/*");
    INVALID(sn_agent_pattern_is_valid, "paris");
    assert_true(sn_agent_pattern_matches("*", "paris/hub"));
    assert_true(sn_agent_pattern_matches("paris/*", "paris/hub"));
    assert_true(sn_agent_pattern_matches("paris/hub", "paris/hub"));
    assert_false(sn_agent_pattern_matches("paris/hub", "paris/hub2"));
    assert_false(sn_agent_pattern_matches("paris/hub2", "paris/hub"));
    assert_false(sn_agent_pattern_matches("paris/*", "paris2/hub"));
    assert_false(sn_agent_pattern_matches("paris/*", "pari/hub"));
    assert_false(sn_agent_pattern_matches("paris/*", "paris/"));
    assert_false(sn_agent_pattern_matches("paris/*", "paris"));
    assert_false(sn_agent_pattern_matches("paris/*", ""));
    assert_false(sn_agent_pattern_matches("", "paris/hub"));
    assert_false(sn_agent_pattern_matches("/*", "paris/hub"));
    assert_false(sn_agent_pattern_matches("paris*", "paris/hub"));
    assert_false(sn_agent_pattern_matches("paris/h*", "paris/hub"));
}

static void type_patterns_grant_what_they_say(void **state)
{
    (void)state;
    VALID(sn_type_pattern_is_valid, "*");
    VALID(sn_type_pattern_is_valid, "echo.*");
    VALID(sn_type_pattern_is_valid, "a.b.*");
    VALID(sn_type_pattern_is_valid, "echo.say");
    INVALID(sn_type_pattern_is_valid, "");
    INVALID(sn_type_pattern_is_valid, ".*");
    INVALID(sn_type_pattern_is_valid, "*.say");
    INVALID(sn_type_pattern_is_valid, "echo*");
    INVALID(sn_type_pattern_is_valid, "echo.*.*");
    INVALID(sn_type_pattern_is_valid, A63 ".*");
    assert_true(sn_type_pattern_matches("*", "echo.say"));
    assert_true(sn_type_pattern_matches("echo.*", "echo.say"));
    assert_true(sn_type_pattern_matches("echo.*", "echo.say.loud"));
    assert_true(sn_type_pattern_matches("echo.say", "echo.say"));
    assert_false(sn_type_pattern_matches("echo.*", "echo"));
    assert_false(sn_type_pattern_matches("echo.*", "echo."));
    assert_false(sn_type_pattern_matches("echo.*", "echoes.say"));
    assert_false(sn_type_pattern_matches("echo.say", "echo.says"));
    assert_false(sn_type_pattern_matches("echo.say.*", "echo.say"));
}

static void addresses_are_split(void **state)
{
    (void)state;
    struct sn_addr_parts parts;
    assert_int_equal(sn_addr_split("paris/hub:echoX", 14, &parts), SN_OK);
    assert_int_equal(parts.agent_size, 9);
    assert_memory_equal(parts.agent, "paris/hub", 9);
    assert_int_equal(parts.actor_size, 4);
    assert_memory_equal(parts.actor, "echo", 4);
    assert_int_equal(sn_addr_split(":echo", 5, &parts), SN_OK);
    assert_int_equal(parts.agent_size, 0);
    assert_memory_equal(parts.actor, "echo", 4);
    static const char longest[] = A63 "/" A63 ":" A63;
    assert_int_equal(sizeof longest - 1, SN_ADDR_BYTES_MAX);
    assert_int_equal(sn_addr_split(longest, SN_ADDR_BYTES_MAX, &parts), SN_OK);
    static const char actor_64[] = ":" A63 "a";
    static const char site_64[] = A63 "a/b:c";
    static const char *const bad[] = {
        "",      ":",      "a/b:",    "a/b",   "a:b", "a/b:c:d", "a/b/c:d", "/b:c",   "a/:c",
        "a/b:C", "a/b: c", "a/b:c/d", "a/*:c", "::c", actor_64,  site_64,   "a/b:-c", "a/b:c.d",
    };
    parts = (struct sn_addr_parts){.agent_size = 77};
    for (size_t i = 0; i < SN_ARRAY_COUNT(bad); i++) {
        assert_int_equal(sn_addr_split(bad[i], strlen(bad[i]), &parts), SN_EINVAL);
    }
    assert_int_equal(parts.agent_size, 77);
}

static void distance_finds_typing_errors(void **state)
{
    (void)state;
    assert_int_equal(sn_text_distance("listen", "listen", 3), 0);
    assert_int_equal(sn_text_distance("listen", "lisen", 3), 1);
    assert_int_equal(sn_text_distance("lisen", "listen", 3), 1);
    assert_int_equal(sn_text_distance("listen", "lister", 3), 1);
    assert_int_equal(sn_text_distance("listen", "litsen", 3), 1); /* swapped */
    assert_int_equal(sn_text_distance("ab", "ba", 3), 1);
    assert_int_equal(sn_text_distance("kitten", "sitting", 3), 3);
    assert_int_equal(sn_text_distance("kitten", "sitting", 2), 3);
    assert_int_equal(sn_text_distance("kitten", "sitting", 1), 2);
    assert_int_equal(sn_text_distance("", "", 0), 0);
    assert_int_equal(sn_text_distance("", "abc", 5), 3);
    assert_int_equal(sn_text_distance("abc", "", 5), 3);
    assert_int_equal(sn_text_distance("ca", "abc", 5), 3); /* no edit inside a swapped pair */
    assert_int_equal(sn_text_distance(A63, "", UINT32_MAX), 63);
    assert_int_equal(sn_text_distance(A63, A63, 0), 0);
    assert_int_equal(sn_text_distance(A63 "a", A63 "a", 2), 3);
    assert_int_equal(sn_text_distance("a", A63 "a", 2), 3);
}

static void distance_is_symmetric(void **state)
{
    (void)state;
    uint64_t rng = 5;
    for (int round = 0; round < 2000; round++) {
        char a[9] = {0}, b[9] = {0};
        size_t a_size = rng_below(&rng, 9), b_size = rng_below(&rng, 9);
        for (size_t i = 0; i < a_size; i++) a[i] = (char)('a' + rng_below(&rng, 3));
        for (size_t i = 0; i < b_size; i++) b[i] = (char)('a' + rng_below(&rng, 3));
        unsigned distance = sn_text_distance(a, b, 20);
        assert_int_equal(distance, sn_text_distance(b, a, 20));
        assert_int_equal(distance == 0, strcmp(a, b) == 0);
        assert_true(distance >= (a_size > b_size ? a_size - b_size : b_size - a_size));
        assert_true(distance <= (a_size > b_size ? a_size : b_size));
    }
}

/* All code points, from the encoder's side: what it makes is valid, surrogates are not. */
static void every_code_point_is_judged(void **state)
{
    (void)state;
    for (uint32_t point = 1; point <= 0x110000; point++) {
        char bytes[4];
        size_t size;
        if (point < 0x80) {
            bytes[0] = (char)point;
            size = 1;
        } else if (point < 0x800) {
            bytes[0] = (char)(0xc0 | point >> 6);
            size = 2;
        } else if (point < 0x10000) {
            bytes[0] = (char)(0xe0 | point >> 12);
            size = 3;
        } else {
            bytes[0] = (char)(0xf0 | point >> 18);
            size = 4;
        }
        for (size_t i = 1; i < size; i++) {
            bytes[i] = (char)(0x80 | (point >> (6 * (size - 1 - i)) & 0x3f));
        }
        int expected = point < 0x110000 && (point < 0xd800 || point > 0xdfff);
        if (sn_utf8_is_valid(bytes, size) != expected) fail_msg("U+%04X", point);
        if (sn_utf8_is_valid(bytes, size - 1) != (size == 1)) fail_msg("U+%04X cut", point);
    }
}

static void bad_utf8_is_refused(void **state)
{
    (void)state;
    VALID(sn_utf8_is_valid, "");
    VALID(sn_utf8_is_valid, "a\xc3\xa9z");
    INVALID(sn_utf8_is_valid, "a\0b");
    INVALID(sn_utf8_is_valid, "\x80");
    INVALID(sn_utf8_is_valid, "\xc0\x80");
    INVALID(sn_utf8_is_valid, "\xc1\xbf");
    INVALID(sn_utf8_is_valid, "\xe0\x9f\xbf");
    INVALID(sn_utf8_is_valid, "\xf0\x8f\xbf\xbf");
    INVALID(sn_utf8_is_valid, "\xf4\x90\x80\x80");
    INVALID(sn_utf8_is_valid, "\xf5\x80\x80\x80");
    INVALID(sn_utf8_is_valid, "\xff");
    INVALID(sn_utf8_is_valid, "\xe2\x82z");
    INVALID(sn_utf8_is_valid, "\xf0\x9f\x98z");
    INVALID(sn_utf8_is_valid, "\xc3z");
}

static void times_are_those_of_the_calendar(void **state)
{
    static const struct {
        int64_t unix_s;
        const char *text;
    } times[] = {{0, "1970-01-01 00:00:00 UTC"},
                 {951782399, "2000-02-28 23:59:59 UTC"},
                 {951782400, "2000-02-29 00:00:00 UTC"},
                 {951868800, "2000-03-01 00:00:00 UTC"},
                 {4107542400, "2100-03-01 00:00:00 UTC"},
                 {1767225599, "2025-12-31 23:59:59 UTC"},
                 {253402300799, "9999-12-31 23:59:59 UTC"},
                 {253402300800, "never"},
                 {INT64_MAX, "never"},
                 {-1, "before 1970"}};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        char data[32];
        struct sn_text text;
        sn_text_init(&text, data, sizeof data);
        sn_text_add_utc(&text, times[i].unix_s);
        assert_string_equal(data, times[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_built_and_cut_at_the_end),
        cmocka_unit_test(nothing_follows_a_gap),
        cmocka_unit_test(json_strings_are_quoted),
        cmocka_unit_test(json_of_anything_is_utf8),
        cmocka_unit_test(copies_fit_or_are_refused),
        cmocka_unit_test(hexadecimal_goes_both_ways),
        cmocka_unit_test(bad_hexadecimal_is_refused),
        cmocka_unit_test(decimals_are_strict),
        cmocka_unit_test(labels_follow_dns),
        cmocka_unit_test(agent_names_are_two_labels),
        cmocka_unit_test(types_are_labels_with_dots),
        cmocka_unit_test(agent_patterns_grant_what_they_say),
        cmocka_unit_test(type_patterns_grant_what_they_say),
        cmocka_unit_test(addresses_are_split),
        cmocka_unit_test(distance_finds_typing_errors),
        cmocka_unit_test(distance_is_symmetric),
        cmocka_unit_test(every_code_point_is_judged),
        cmocka_unit_test(bad_utf8_is_refused),
        cmocka_unit_test(times_are_those_of_the_calendar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
