/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sennit/limits.h"
#include "wire/cursor.h"
#include "wire/json.h"

#define TEXT_BYTES 512u

static enum sn_err to_json(const char *hex, char *out, size_t capacity)
{
    uint8_t bytes[TEXT_BYTES / 2];
    struct sn_text text;
    size_t size = strlen(hex) / 2;
    assert_true(size <= sizeof bytes);
    assert_int_equal(sn_hex_decode(hex, strlen(hex), bytes, size), SN_OK);
    sn_text_init(&text, out, capacity);
    return sn_json_from_msgpack(bytes, size, &text);
}

static enum sn_err to_hex(const char *json, char out[TEXT_BYTES])
{
    uint8_t bytes[TEXT_BYTES / 2 - 1];
    struct sn_pack pack;
    sn_pack_init(&pack, bytes, sizeof bytes);
    enum sn_err err = sn_json_to_msgpack(json, strlen(json), &pack);
    sn_hex_encode(bytes, pack.size, out);
    return err;
}

/* Values that are the same on both sides. */
static const struct {
    const char *hex;
    const char *json;
} same[] = {
    {"c0", "null"},
    {"c2", "false"},
    {"c3", "true"},
    {"00", "0"},
    {"7f", "127"},
    {"cc80", "128"},
    {"cd0100", "256"},
    {"cfffffffffffffffff", "18446744073709551615"},
    {"ff", "-1"},
    {"d38000000000000000", "-9223372036854775808"},
    {"cb3ff8000000000000", "1.5"},
    {"cb4059000000000000", "100.0"},
    {"cb3fb999999999999a", "0.1"},
    {"cb7fefffffffffffff", "1.7976931348623157e+308"},
    {"cb8000000000000000", "-0.0"},
    {"a0", "\"\""},
    {"a568c3a96c6f", "\"h\xc3\xa9lo\""},
    {"a3220a5c", "\"\\\"\\n\\\\\""},
    {"90", "[]"},
    {"80", "{}"},
    {"9301a1619180", "[1,\"a\",[{}]]"},
    {"82a161930102c0a16281a163c3", "{\"a\":[1,2,null],\"b\":{\"c\":true}}"},
    {"9190", "[[]]"},
    {"928080", "[{},{}]"},
    {"929190c0", "[[[]],null]"},
    {"919191919191919101", "[[[[[[[[1]]]]]]]]"},
};

static void values_go_both_ways(void **state)
{
    char json[TEXT_BYTES];
    char hex[TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_int_equal(to_json(same[i].hex, json, sizeof json), SN_OK);
        assert_string_equal(json, same[i].json);
        if (to_hex(same[i].json, hex) != SN_OK) fail_msg("%s", same[i].json);
        assert_string_equal(hex, same[i].hex);
    }
}

/* What only one side can say. */
static void msgpack_has_more_kinds(void **state)
{
    static const struct {
        const char *hex;
        const char *json;
    } cases[] = {
        {"c403616263", "\"abc\""},            /* binary that is text */
        {"c403ff0041", "\"ff0041\""},         /* binary that is none */
        {"ca3fc00000", "1.5"},                /* float */
        {"cb7ff0000000000000", "null"},       /* infinite */
        {"cb7ff8000000000000", "null"},       /* not a number */
        {"820102ff03", "{\"1\":2,\"-1\":3}"}, /* keys that are numbers */
        {"cd0005", "5"},                      /* longer than needed */
        {"a17f", "\"\\u007f\""},
    };
    char json[TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(to_json(cases[i].hex, json, sizeof json), SN_OK);
        assert_string_equal(json, cases[i].json);
    }
}

static void long_binaries_are_hexadecimal(void **state)
{
    uint8_t bytes[2 + 200] = {0xc4, 200};
    char data[TEXT_BYTES];
    char expected[2 * 200 + 1];
    struct sn_text text;
    (void)state;
    for (unsigned i = 0; i < 200; i++) bytes[2 + i] = (uint8_t)(i + 100);
    sn_hex_encode(bytes + 2, 200, expected);
    sn_text_init(&text, data, sizeof data);
    assert_int_equal(sn_json_from_msgpack(bytes, sizeof bytes, &text), SN_OK);
    assert_int_equal(text.size, 402);
    assert_memory_equal(text.data + 1, expected, 400);
}

static void bad_msgpack_is_refused(void **state)
{
    static const struct {
        const char *hex;
        enum sn_err err;
    } cases[] = {
        {"", SN_EINVAL},           {"c1", SN_EINVAL},
        {"92", SN_EINVAL},         {"9201", SN_EINVAL},
        {"81a161", SN_EINVAL},     {"0101", SN_EINVAL},
        {"d40100", SN_EINVAL},     {"91d40100", SN_EINVAL},
        {"a2c328", SN_EINVAL},     {"81c0c0", SN_EINVAL},
        {"819001", SN_EINVAL},     {"dfffffffff", SN_EINVAL},
        {"ddffffffff", SN_EINVAL}, {"91919191919191919101", SN_ETOOBIG},
    };
    char json[TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum sn_err err = to_json(cases[i].hex, json, sizeof json);
        if (err != cases[i].err) fail_msg("%s: %s", cases[i].hex, sn_err_name(err));
        assert_string_equal(json, ""); /* nothing is left of it */
    }
}

static void bad_json_is_refused(void **state)
{
    static const char *const cases[] = {
        "",
        " ",
        "[",
        "]",
        "{",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{1:2}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "[1}",
        "{\"a\":1]",
        "nul",
        "True",
        "+1",
        "01",
        "-",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x10",
        "1 2",
        "[]]",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"a\nb\"",
        "\"\xff\"",
        "\"\xc3\"",
        "NaN",
        "Infinity",
        "'a'",
        "[1]/**/",
    };
    char hex[TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum sn_err err = to_hex(cases[i], hex);
        if (err != SN_EINVAL) fail_msg("%s: %s", cases[i], sn_err_name(err));
        assert_string_equal(hex, "");
    }
}

static void numbers_have_limits(void **state)
{
    static const char *const cases[] = {
        "18446744073709551616",
        "-9223372036854775809",
        "1e999",
        "-1e999",
        "0.1000000000000000000000000000000000000000000000000000000000000000000001",
        "[[[[[[[[[1]]]]]]]]]",
    };
    char hex[TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum sn_err err = to_hex(cases[i], hex);
        if (err != SN_ETOOBIG) fail_msg("%s: %s", cases[i], sn_err_name(err));
        assert_string_equal(hex, "");
    }
}

static void json_spells_things_in_several_ways(void **state)
{
    static const struct {
        const char *json;
        const char *hex;
    } cases[] = {
        {" [ 1 ,\t2\r\n] ", "920102"},
        {"{ \"a\" : 1 , \"b\" : [ ] }", "82a16101a16290"},
        {"1E2", "cb4059000000000000"},
        {"-0", "00"},
        {"\"\\u00e9\\u20ac\\ud83d\\ude00\"", "a9c3a9e282acf09f9880"},
        {"\"\\/\\b\\f\\n\\r\\t\"", "a62f080c0a0d09"},
        {"{\"a\":1,\"a\":2}",
         "82a16101a16102"}, /* told as it stands; which one counts is the reader's */
    };
    char hex[TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(to_hex(cases[i].json, hex), SN_OK);
        assert_string_equal(hex, cases[i].hex);
    }
}

/* Sizes at which heads of msgpack get longer: the head goes in front of content that is there
 * already. */
static void long_texts_and_arrays_keep_their_heads(void **state)
{
    static const uint32_t sizes[] = {15, 16, 31, 32, 255, 256, 65535, 65536};
    static char json[2 * 65536 + 8];
    static uint8_t bytes[65536 * 2 + 16];
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct sn_pack pack;
        struct sn_cursor cursor;
        size_t text_size = 0;
        uint32_t n = sizes[i];
        memset(json, 'x', n + 2);
        json[0] = json[n + 1] = '"';
        sn_pack_init(&pack, bytes, sizeof bytes);
        assert_int_equal(sn_json_to_msgpack(json, n + 2, &pack), SN_OK);
        sn_cursor_init(&cursor, pack.data, pack.size);
        const char *text = sn_cursor_text(&cursor, n, &text_size);
        assert_int_equal(text_size, n);
        assert_memory_equal(text, json + 1, n);
        assert_int_equal(sn_cursor_finish(&cursor), SN_OK);

        json[0] = '[';
        for (uint32_t j = 0; j < n; j++) memcpy(json + 1 + 2 * (size_t)j, "7,", 2);
        json[2 * (size_t)n] = ']';
        sn_pack_init(&pack, bytes, sizeof bytes);
        assert_int_equal(sn_json_to_msgpack(json, 2 * (size_t)n + 1, &pack), SN_OK);
        sn_cursor_init(&cursor, pack.data, pack.size);
        assert_int_equal(sn_cursor_array(&cursor), n);
        for (uint32_t j = 0; j < n; j++) assert_int_equal(sn_cursor_uint(&cursor, 9), 7);
        assert_int_equal(sn_cursor_finish(&cursor), SN_OK);
    }
}

/* Every capacity that is too small is told, writes nothing behind it, and leaves what was there. */
static void room_is_respected(void **state)
{
    static const char json[] = "{\"a\":[1,\"\\u00e9x\",-5],\"b\":{\"c\":1.5}}";
    uint8_t bytes[64];
    uint8_t whole[64];
    char data[64];
    struct sn_pack pack;
    struct sn_text text;
    (void)state;
    sn_pack_init(&pack, whole, sizeof whole);
    assert_int_equal(sn_json_to_msgpack(json, strlen(json), &pack), SN_OK);
    size_t needed = pack.size;
    for (size_t capacity = 1; capacity <= needed + 1; capacity++) {
        memset(bytes, 0xee, sizeof bytes);
        sn_pack_init(&pack, bytes, capacity);
        sn_pack_uint(&pack, 3);
        enum sn_err err = sn_json_to_msgpack(json, strlen(json), &pack);
        assert_int_equal(err, capacity > needed ? SN_OK : SN_ETOOBIG);
        assert_int_equal(bytes[0], 3);
        assert_int_equal(pack.size, err == SN_OK ? needed + 1 : 1);
        assert_int_equal(bytes[capacity], 0xee);
    }
    for (size_t capacity = 4; capacity < 60; capacity++) {
        memset(data, 'e', sizeof data);
        sn_text_init(&text, data, capacity);
        sn_text_add(&text, "in:");
        enum sn_err err = sn_json_from_msgpack(whole, needed, &text);
        int fits = capacity > 3 + strlen("{\"a\":[1,\"\xc3\xa9x\",-5],\"b\":{\"c\":1.5}}");
        assert_int_equal(err, fits ? SN_OK : SN_ETOOBIG);
        if (!fits) assert_string_equal(data, "in:");
        assert_int_equal(data[capacity], 'e');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_both_ways),
        cmocka_unit_test(msgpack_has_more_kinds),
        cmocka_unit_test(long_binaries_are_hexadecimal),
        cmocka_unit_test(bad_msgpack_is_refused),
        cmocka_unit_test(bad_json_is_refused),
        cmocka_unit_test(numbers_have_limits),
        cmocka_unit_test(json_spells_things_in_several_ways),
        cmocka_unit_test(long_texts_and_arrays_keep_their_heads),
        cmocka_unit_test(room_is_respected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
