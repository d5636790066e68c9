/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/text.h"
#include "wire/pack.h"

static void expect_bytes(const struct sn_pack *pack, const char *expected)
{
    char hex[129];
    size_t size;
    assert_int_equal(sn_pack_finish(pack, &size), SN_OK);
    assert_true(size <= 64);
    sn_hex_encode(pack->data, size, hex);
    assert_string_equal(hex, expected);
}

/* The shortest form of each, as the msgpack specification gives it. */
static void unsigned_integers_are_shortest(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        const char *bytes;
    } cases[] = {
        {0, "00"},
        {127, "7f"},
        {128, "cc80"},
        {255, "ccff"},
        {256, "cd0100"},
        {65535, "cdffff"},
        {65536, "ce00010000"},
        {UINT32_MAX, "ceffffffff"},
        {(uint64_t)UINT32_MAX + 1, "cf0000000100000000"},
        {UINT64_MAX, "cfffffffffffffffff"},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        uint8_t data[16];
        struct sn_pack pack;
        sn_pack_init(&pack, data, sizeof data);
        sn_pack_uint(&pack, cases[i].value);
        expect_bytes(&pack, cases[i].bytes);
    }
}

static void signed_integers_are_shortest(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        const char *bytes;
    } cases[] = {
        {0, "00"},
        {127, "7f"},
        {128, "cc80"},
        {INT64_MAX, "cf7fffffffffffffff"},
        {-1, "ff"},
        {-32, "e0"},
        {-33, "d0df"},
        {-128, "d080"},
        {-129, "d1ff7f"},
        {-32768, "d18000"},
        {-32769, "d2ffff7fff"},
        {INT32_MIN, "d280000000"},
        {(int64_t)INT32_MIN - 1, "d3ffffffff7fffffff"},
        {INT64_MIN, "d38000000000000000"},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        uint8_t data[16];
        struct sn_pack pack;
        sn_pack_init(&pack, data, sizeof data);
        sn_pack_int(&pack, cases[i].value);
        expect_bytes(&pack, cases[i].bytes);
    }
}

static void a_message_has_these_bytes(void **state)
{
    (void)state;
    uint8_t data[64];
    struct sn_pack pack;
    sn_pack_init(&pack, data, sizeof data);
    sn_pack_map(&pack, 3);
    sn_pack_key_uint(&pack, 1, 300);
    sn_pack_key_text(&pack, 2, "echo.say");
    sn_pack_key_bin(&pack, 3, "\0\xff", 2);
    sn_pack_array(&pack, 5);
    sn_pack_nil(&pack);
    sn_pack_bool(&pack, 2);
    sn_pack_bool(&pack, 0);
    sn_pack_double(&pack, 1.5);
    sn_pack_raw(&pack, "\x93\x01\x02\x03", 4);
    sn_pack_text(&pack, NULL, 0);
    sn_pack_bin(&pack, NULL, 0);
    sn_pack_raw(&pack, NULL, 0);
    expect_bytes(&pack, "83"
                        "01cd012c"
                        "02a86563686f2e736179"
                        "03c40200ff"
                        "95c0c3c2cb3ff800000000000093010203"
                        "a0c400");
}

static void expect_head(const struct sn_pack *pack, size_t body_size, const char *expected)
{
    char hex[21];
    size_t size, head_size = strlen(expected) / 2;
    assert_int_equal(sn_pack_finish(pack, &size), SN_OK);
    assert_int_equal(size, head_size + body_size);
    sn_hex_encode(pack->data, head_size, hex);
    assert_string_equal(hex, expected);
}

static void lengths_are_shortest(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        const char *text, *bin, *array, *map;
    } cases[] = {
        {0, "a0", "c400", "90", "80"},
        {15, "af", "c40f", "9f", "8f"},
        {16, "b0", "c410", "dc0010", "de0010"},
        {31, "bf", "c41f", "dc001f", "de001f"},
        {32, "d920", "c420", "dc0020", "de0020"},
        {255, "d9ff", "c4ff", "dc00ff", "de00ff"},
        {256, "da0100", "c50100", "dc0100", "de0100"},
        {65535, "daffff", "c5ffff", "dcffff", "deffff"},
        {65536, "db00010000", "c600010000", "dd00010000", "df00010000"},
    };
    static uint8_t data[70000]; /* static: larger than a stack buffer may be */
    static char body[65536];
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        struct sn_pack pack;
        sn_pack_init(&pack, data, sizeof data);
        sn_pack_text(&pack, body, cases[i].size);
        expect_head(&pack, cases[i].size, cases[i].text);
        sn_pack_init(&pack, data, sizeof data);
        sn_pack_bin(&pack, body, cases[i].size);
        expect_head(&pack, cases[i].size, cases[i].bin);
        sn_pack_init(&pack, data, sizeof data);
        sn_pack_array(&pack, cases[i].size);
        expect_head(&pack, 0, cases[i].array);
        sn_pack_init(&pack, data, sizeof data);
        sn_pack_map(&pack, cases[i].size);
        expect_head(&pack, 0, cases[i].map);
    }
}

static void pack_all_kinds(struct sn_pack *pack)
{
    sn_pack_map(pack, 20);
    sn_pack_array(pack, 70000);
    sn_pack_key_uint(pack, 1000, UINT64_MAX);
    sn_pack_int(pack, INT64_MIN);
    sn_pack_key_text(pack, 1, "some text");
    sn_pack_key_bin(pack, 2, "some bytes", 10);
    sn_pack_double(pack, 0.1);
    sn_pack_raw(pack, "\xc0\xc0", 2);
    sn_pack_bool(pack, 1);
    sn_pack_nil(pack);
}

static void nothing_is_written_past_the_capacity(void **state)
{
    (void)state;
    uint8_t whole[128], data[128];
    struct sn_pack pack;
    size_t whole_size, size;
    sn_pack_init(&pack, whole, sizeof whole);
    pack_all_kinds(&pack);
    assert_int_equal(sn_pack_finish(&pack, &whole_size), SN_OK);
    for (size_t capacity = 0; capacity < whole_size; capacity++) {
        memset(data, 0xee, sizeof data);
        size = 4711;
        sn_pack_init(&pack, data, capacity);
        pack_all_kinds(&pack);
        assert_int_equal(sn_pack_finish(&pack, &size), SN_ETOOBIG);
        assert_int_equal(size, 4711);
        assert_memory_equal(data, whole, pack.size); /* the start of it, without gaps */
        for (size_t i = capacity; i < sizeof data; i++) assert_int_equal(data[i], 0xee);
    }
    sn_pack_init(&pack, data, whole_size);
    pack_all_kinds(&pack);
    assert_int_equal(sn_pack_finish(&pack, &size), SN_OK);
    assert_int_equal(size, whole_size);
    assert_memory_equal(data, whole, size);
}

static void impossible_lengths_overflow(void **state)
{
    (void)state;
    uint8_t data[16];
    struct sn_pack pack;
    size_t size;
    sn_pack_init(&pack, NULL, 0);
    assert_int_equal(sn_pack_finish(&pack, &size), SN_OK);
    assert_int_equal(size, 0);
    sn_pack_nil(&pack);
    assert_int_equal(sn_pack_finish(&pack, &size), SN_ETOOBIG);
    sn_pack_init(&pack, data, sizeof data);
    sn_pack_text(&pack, "", (size_t)UINT32_MAX + 1);
    assert_int_equal(sn_pack_finish(&pack, &size), SN_ETOOBIG);
    sn_pack_init(&pack, data, sizeof data);
    sn_pack_bin(&pack, "", SIZE_MAX);
    assert_int_equal(sn_pack_finish(&pack, &size), SN_ETOOBIG);
    assert_int_equal(pack.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsigned_integers_are_shortest),
        cmocka_unit_test(signed_integers_are_shortest),
        cmocka_unit_test(a_message_has_these_bytes),
        cmocka_unit_test(lengths_are_shortest),
        cmocka_unit_test(nothing_is_written_past_the_capacity),
        cmocka_unit_test(impossible_lengths_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
