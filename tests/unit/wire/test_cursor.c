/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "sennit/limits.h"
#include "wire/cursor.h"

#define HEX_BYTES_MAX 128u

/* The bytes stand at the end of an allocation, so that the sanitizer sees a read behind them. */
struct input {
    uint8_t *bytes;
    size_t size;
    struct sn_cursor cursor;
};

static struct input open_bytes(const void *bytes, size_t size)
{
    struct input input = {.bytes = sn_alloc(size + 1), .size = size};
    /* One byte more than used and placed in front keeps empty inputs allocatable. */
    if (size > 0) memcpy(input.bytes + 1, bytes, size);
    sn_cursor_init(&input.cursor, input.bytes + 1, size);
    return input;
}

static struct input open_hex(const char *hex)
{
    uint8_t bytes[HEX_BYTES_MAX];
    size_t size = strlen(hex) / 2;
    assert_true(size <= sizeof bytes);
    assert_int_equal(sn_hex_decode(hex, strlen(hex), bytes, size), SN_OK);
    return open_bytes(bytes, size);
}

static void close_input(struct input *input)
{
    sn_free(input->bytes, input->size + 1);
}

static void expect_kind(const char *hex, enum sn_wire_kind kind)
{
    struct input input = open_hex(hex);
    if (sn_cursor_kind(&input.cursor) != kind) fail_msg("%s", hex);
    assert_ptr_equal(input.cursor.at, input.bytes + 1); /* still unread */
    assert_int_equal(input.cursor.err, SN_OK);
    close_input(&input);
}

static void kinds_are_told(void **state)
{
    (void)state;
    expect_kind("", SN_WIRE_END);
    expect_kind("c0", SN_WIRE_NIL);
    expect_kind("c1", SN_WIRE_END); /* never used */
    expect_kind("c2", SN_WIRE_BOOL);
    expect_kind("c3", SN_WIRE_BOOL);
    expect_kind("00", SN_WIRE_UINT);
    expect_kind("7f", SN_WIRE_UINT);
    expect_kind("cc00", SN_WIRE_UINT);
    expect_kind("cd0000", SN_WIRE_UINT);
    expect_kind("ce00000000", SN_WIRE_UINT);
    expect_kind("cf0000000000000000", SN_WIRE_UINT);
    expect_kind("d07f", SN_WIRE_UINT); /* a signed format with a value that is not negative */
    expect_kind("d37fffffffffffffff", SN_WIRE_UINT);
    expect_kind("ff", SN_WIRE_INT);
    expect_kind("e0", SN_WIRE_INT);
    expect_kind("d080", SN_WIRE_INT);
    expect_kind("d18000", SN_WIRE_INT);
    expect_kind("d280000000", SN_WIRE_INT);
    expect_kind("d3ffffffffffffffff", SN_WIRE_INT);
    expect_kind("ca00000000", SN_WIRE_DOUBLE);
    expect_kind("cb0000000000000000", SN_WIRE_DOUBLE);
    expect_kind("a0", SN_WIRE_TEXT);
    expect_kind("a161", SN_WIRE_TEXT);
    expect_kind("d900", SN_WIRE_TEXT);
    expect_kind("da0000", SN_WIRE_TEXT);
    expect_kind("db00000000", SN_WIRE_TEXT);
    expect_kind("c400", SN_WIRE_BIN);
    expect_kind("c50000", SN_WIRE_BIN);
    expect_kind("c600000000", SN_WIRE_BIN);
    expect_kind("90", SN_WIRE_ARRAY);
    expect_kind("dc0000", SN_WIRE_ARRAY);
    expect_kind("dd00000000", SN_WIRE_ARRAY);
    expect_kind("80", SN_WIRE_MAP);
    expect_kind("de0000", SN_WIRE_MAP);
    expect_kind("df00000000", SN_WIRE_MAP);
    expect_kind("d40100", SN_WIRE_EXT);
    expect_kind("d5010000", SN_WIRE_EXT);
    expect_kind("d60100000000", SN_WIRE_EXT);
    expect_kind("c70001", SN_WIRE_EXT);
    expect_kind("c8000001", SN_WIRE_EXT);
    expect_kind("c90000000001", SN_WIRE_EXT);
}

static void expect_uint(const char *hex, uint64_t value)
{
    struct input input = open_hex(hex);
    assert_int_equal(sn_cursor_uint(&input.cursor, UINT64_MAX), value);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_OK);
    close_input(&input);
}

static void expect_int(const char *hex, int64_t value)
{
    struct input input = open_hex(hex);
    assert_true(sn_cursor_int(&input.cursor) == value);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_OK);
    close_input(&input);
}

static void integers_are_read_in_every_form(void **state)
{
    (void)state;
    expect_uint("00", 0);
    expect_uint("7f", 127);
    expect_uint("ccff", 255);
    expect_uint("cd0102", 258);
    expect_uint("ce01020304", 0x01020304);
    expect_uint("cf0102030405060708", 0x0102030405060708);
    expect_uint("cfffffffffffffffff", UINT64_MAX);
    expect_uint("cf0000000000000001", 1); /* longer than needed */
    expect_uint("d07f", 127);
    expect_uint("d17fff", 32767);
    expect_uint("d27fffffff", INT32_MAX);
    expect_uint("d37fffffffffffffff", INT64_MAX);
    expect_int("05", 5);
    expect_int("cf7fffffffffffffff", INT64_MAX);
    expect_int("ff", -1);
    expect_int("e0", -32);
    expect_int("d080", -128);
    expect_int("d0ff", -1);
    expect_int("d18000", -32768);
    expect_int("d280000000", INT32_MIN);
    expect_int("d2fffffffe", -2);
    expect_int("d38000000000000000", INT64_MIN);
    expect_int("d3ffffffffffffffff", -1);
}

static void integers_above_the_limit_are_too_big(void **state)
{
    (void)state;
    struct input input = open_hex("cd0100");
    assert_int_equal(sn_cursor_uint(&input.cursor, 256), 256);
    sn_cursor_init(&input.cursor, input.bytes + 1, 3);
    assert_int_equal(sn_cursor_uint(&input.cursor, 255), 0);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_ETOOBIG);
    close_input(&input);
    input = open_hex("cf8000000000000000");
    assert_int_equal(sn_cursor_int(&input.cursor), 0);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_ETOOBIG);
    close_input(&input);
    input = open_hex("ff");
    assert_int_equal(sn_cursor_uint(&input.cursor, UINT64_MAX), 0);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_EINVAL);
    close_input(&input);
}

static void simple_values_are_read(void **state)
{
    (void)state;
    struct input input = open_hex("c0c3c2cb3ff8000000000000cac0200000cb7ff0000000000000");
    struct sn_cursor *cursor = &input.cursor;
    sn_cursor_nil(cursor);
    assert_int_equal(sn_cursor_bool(cursor), 1);
    assert_int_equal(sn_cursor_bool(cursor), 0);
    assert_true(sn_cursor_double(cursor) == 1.5);
    assert_true(sn_cursor_double(cursor) == -2.5); /* a float */
    assert_true(sn_cursor_double(cursor) > 1e308);
    assert_int_equal(sn_cursor_finish(cursor), SN_OK);
    close_input(&input);
}

static void texts_and_binaries_are_borrowed(void **state)
{
    (void)state;
    struct input input = open_hex("a3616263d9026465da00016600c402feffc50001aac600000001bba0c400");
    struct sn_cursor *cursor = &input.cursor;
    size_t size;
    const char *text = sn_cursor_text(cursor, 3, &size);
    assert_ptr_equal(text, input.bytes + 2);
    assert_int_equal(size, 3);
    assert_memory_equal(text, "abc", 3);
    text = sn_cursor_text(cursor, 2, &size);
    assert_int_equal(size, 2);
    assert_memory_equal(text, "de", 2);
    char copy[2] = "x";
    sn_cursor_text_copy(cursor, copy, sizeof copy);
    assert_string_equal(copy, "f");
    assert_int_equal(sn_cursor_uint(cursor, 0), 0);
    const uint8_t *bytes = sn_cursor_bin(cursor, 2, &size);
    assert_int_equal(size, 2);
    assert_memory_equal(bytes, "\xfe\xff", 2);
    uint8_t byte = 0;
    sn_cursor_bin_copy(cursor, &byte, 1);
    assert_int_equal(byte, 0xaa);
    bytes = sn_cursor_bin(cursor, 100, &size);
    assert_int_equal(bytes[0], 0xbb);
    assert_non_null(sn_cursor_text(cursor, 0, &size));
    assert_int_equal(size, 0);
    sn_cursor_bin_copy(cursor, NULL, 0);
    assert_int_equal(sn_cursor_finish(cursor), SN_OK);
    close_input(&input);
}

static void bodies_are_checked(void **state)
{
    (void)state;
    size_t size = 1;
    char text[3] = "zz";
    uint8_t bytes[2] = {9, 9};
    struct input input = open_hex("a3616263");
    assert_string_equal(sn_cursor_text(&input.cursor, 2, &size), "");
    assert_int_equal(size, 0);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_ETOOBIG);
    sn_cursor_init(&input.cursor, input.bytes + 1, 4);
    sn_cursor_text_copy(&input.cursor, text, 3);
    assert_string_equal(text, "");
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_ETOOBIG);
    close_input(&input);
    static const char *const bad_texts[] = {"a1ff", "a3610062", "a2c080", "a1c3"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(bad_texts); i++) {
        input = open_hex(bad_texts[i]);
        assert_string_equal(sn_cursor_text(&input.cursor, 9, &size), "");
        assert_int_equal(size, 0);
        assert_int_equal(sn_cursor_finish(&input.cursor), SN_EINVAL);
        close_input(&input);
    }
    input = open_hex("c403010203");
    assert_non_null(sn_cursor_bin(&input.cursor, 2, &size));
    assert_int_equal(size, 0);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_ETOOBIG);
    sn_cursor_init(&input.cursor, input.bytes + 1, 5);
    sn_cursor_bin_copy(&input.cursor, bytes, 2);
    assert_memory_equal(bytes, "\0\0", 2);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_EINVAL);
    close_input(&input);
}

static void counts_larger_than_the_rest_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        uint32_t count; /* 0 = refused */
    } arrays[] =
        {
            {"9100", 1},           {"91", 0},         {"920000", 2},
            {"9200", 0},           {"dc00020000", 2}, {"dc000300c0", 0},
            {"dcffff", 0},         {"ddffffffff", 0}, {"dd00000001c0", 1},
            {"dd80000000c0c0", 0},
        },
      maps[] = {
          {"810000", 1},         {"8100", 0},       {"8200000000", 2}, {"82000000", 0},
          {"de00010000", 1},     {"de00020000", 0}, {"dfffffffff", 0}, {"df8000000000000000", 0},
          {"df000000010000", 1},
      };
    for (size_t i = 0; i < SN_ARRAY_COUNT(arrays); i++) {
        struct input input = open_hex(arrays[i].hex);
        assert_int_equal(sn_cursor_array(&input.cursor), arrays[i].count);
        assert_int_equal(input.cursor.err, arrays[i].count > 0 ? SN_OK : SN_EINVAL);
        close_input(&input);
    }
    for (size_t i = 0; i < SN_ARRAY_COUNT(maps); i++) {
        struct input input = open_hex(maps[i].hex);
        assert_int_equal(sn_cursor_map(&input.cursor), maps[i].count);
        assert_int_equal(input.cursor.err, maps[i].count > 0 ? SN_OK : SN_EINVAL);
        close_input(&input);
    }
}

/* Such bytes made other readers reserve gigabytes. */
static void five_hostile_bytes_do_nothing(void **state)
{
    (void)state;
    static const char *const hostile[] = {"ddffffffff", "dfffffffff", "dbffffffff", "c6ffffffff",
                                          "c9ffffffff", "dd7fffffff", "df7fffffff", "db7fffffff",
                                          "c9fffffffe", "c8ffff00",   "c1",         "c7ff01"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(hostile); i++) {
        struct input input = open_hex(hostile[i]);
        size_t size, before = sn_alloc_in_use();
        assert_int_equal(sn_cursor_kind(&input.cursor), SN_WIRE_END);
        sn_cursor_skip(&input.cursor);
        assert_int_equal(sn_cursor_finish(&input.cursor), SN_EINVAL);
        sn_cursor_init(&input.cursor, input.bytes + 1, input.size);
        assert_int_equal(sn_cursor_array(&input.cursor), 0);
        sn_cursor_init(&input.cursor, input.bytes + 1, input.size);
        assert_int_equal(sn_cursor_map(&input.cursor), 0);
        sn_cursor_init(&input.cursor, input.bytes + 1, input.size);
        (void)sn_cursor_text(&input.cursor, SIZE_MAX, &size); /* only the error matters here */
        assert_int_equal(input.cursor.err, SN_EINVAL);
        sn_cursor_init(&input.cursor, input.bytes + 1, input.size);
        (void)sn_cursor_bin(&input.cursor, SIZE_MAX, &size); /* only the error matters here */
        assert_int_equal(input.cursor.err, SN_EINVAL);
        assert_int_equal(sn_alloc_in_use(), before);
        close_input(&input);
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    for (size_t depth = 0; depth <= 40; depth++) {
        uint8_t bytes[2 * 40 + 1];
        size_t used = 0;
        /* Arrays of one and maps of one in turn, and nil in the middle. */
        for (size_t i = 0; i < depth; i++) {
            bytes[used++] = i % 2 == 0 ? 0x91 : 0x81;
            if (i % 2 == 1) bytes[used++] = 0x05;
        }
        bytes[used++] = 0xc0;
        struct input input = open_bytes(bytes, used);
        sn_cursor_skip(&input.cursor);
        enum sn_err expected = depth <= SN_MSGPACK_DEPTH_MAX ? SN_OK : SN_ETOOBIG;
        assert_int_equal(sn_cursor_finish(&input.cursor), expected);
        close_input(&input);
    }
    /* An empty container counts too; what has been closed does not. */
    struct input input = open_hex("9191919191919190");
    sn_cursor_skip(&input.cursor);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_OK);
    close_input(&input);
    input = open_hex("919191919191919190");
    sn_cursor_skip(&input.cursor);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_ETOOBIG);
    close_input(&input);
    input = open_hex("9a90919080909190909090909090");
    sn_cursor_skip(&input.cursor);
    assert_int_equal(input.cursor.err, SN_OK);
    close_input(&input);
}

/* Each way to encode one item, in hex. */
static const char *const single_items[] = {
    "c0",
    "c3",
    "05",
    "ff",
    "ccff",
    "cd0000",
    "ce00000000",
    "cf0000000000000000",
    "d000",
    "d10000",
    "d200000000",
    "d30000000000000000",
    "ca00000000",
    "cb0000000000000000",
    "a0",
    "a161",
    "d90161",
    "da000161",
    "db0000000161",
    "c401ff",
    "c50001ff",
    "c600000001ff",
    "90",
    "9105",
    "92c0c0",
    "dc0001c0",
    "dd00000001c0",
    "80",
    "810102",
    "de00010102",
    "df000000010102",
    "d401ff",
    "d501ffff",
    "d601ffffffff",
    "d701ffffffffffffffff",
    "d801ffffffffffffffffffffffffffffffff",
    "c70001",
    "c70101ff",
    "c8000101ff",
    "c90000000101ff",
    "93a161810290c401ff",
    "82019302030405c0",
    "a1ff", /* not UTF-8, but nobody looks */
};

static void skip_takes_exactly_one_item(void **state)
{
    (void)state;
    for (size_t i = 0; i < SN_ARRAY_COUNT(single_items); i++) {
        char hex[80];
        size_t item_size = strlen(single_items[i]) / 2, size;
        snprintf(hex, sizeof hex, "%s2a", single_items[i]);
        struct input input = open_hex(hex);
        const uint8_t *raw = sn_cursor_raw(&input.cursor, &size);
        assert_ptr_equal(raw, input.bytes + 1);
        assert_int_equal(size, item_size);
        assert_int_equal(sn_cursor_uint(&input.cursor, 42), 42);
        assert_int_equal(sn_cursor_finish(&input.cursor), SN_OK);
        close_input(&input);
        for (size_t cut = 0; cut < item_size; cut++) {
            hex[2 * cut] = '\0';
            input = open_hex(hex);
            raw = sn_cursor_raw(&input.cursor, &size);
            assert_non_null(raw);
            assert_int_equal(size, 0);
            assert_int_equal(sn_cursor_finish(&input.cursor), SN_EINVAL);
            close_input(&input);
            hex[2 * cut] = single_items[i][2 * cut];
        }
    }
}

static void read_message(struct sn_cursor *cursor)
{
    char text[9];
    uint8_t bytes[2];
    size_t size;
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count; i++) {
        switch (sn_cursor_uint(cursor, UINT32_MAX)) {
        case 1: (void)sn_cursor_uint(cursor, 300); break; /* errors stick */
        case 2: sn_cursor_text_copy(cursor, text, sizeof text); break;
        case 3: sn_cursor_bin_copy(cursor, bytes, sizeof bytes); break;
        case 4: (void)sn_cursor_raw(cursor, &size); break;
        default: sn_cursor_skip(cursor); break;
        }
    }
}

static void every_truncation_of_a_message_is_an_error(void **state)
{
    (void)state;
    static const char message[] =
        "8501cd012c02a86563686f2e73617903c40200ff"
        "0495c0c3c2cb3ff8000000000000930102036381d9036f6c64d7016162636465666768";
    size_t size = (sizeof message - 1) / 2;
    struct input input = open_hex(message);
    read_message(&input.cursor);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_OK);
    for (size_t cut = 0; cut < size; cut++) {
        struct input part = open_bytes(input.bytes + 1, cut);
        read_message(&part.cursor);
        assert_int_equal(sn_cursor_finish(&part.cursor), SN_EINVAL);
        close_input(&part);
    }
    close_input(&input);
}

static void bytes_left_over_are_an_error(void **state)
{
    (void)state;
    struct input input = open_hex("c0c0");
    sn_cursor_nil(&input.cursor);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_EINVAL);
    sn_cursor_nil(&input.cursor);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_OK);
    sn_cursor_nil(&input.cursor);
    assert_int_equal(sn_cursor_finish(&input.cursor), SN_EINVAL);
    close_input(&input);
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, NULL, 0);
    assert_int_equal(sn_cursor_kind(&cursor), SN_WIRE_END);
    assert_int_equal(sn_cursor_finish(&cursor), SN_OK);
}

static void the_first_error_sticks(void **state)
{
    (void)state;
    struct input input = open_hex("cd010005a161c401ff9105810102c3c0cb3ff0000000000000ff");
    struct sn_cursor *cursor = &input.cursor;
    size_t size = 7;
    char text[4] = "zzz";
    uint8_t bytes[2] = {9, 9};
    assert_int_equal(sn_cursor_uint(cursor, 10), 0);
    const uint8_t *at = cursor->at;
    assert_int_equal(sn_cursor_kind(cursor), SN_WIRE_END);
    assert_int_equal(sn_cursor_uint(cursor, 10), 0);
    assert_int_equal(sn_cursor_int(cursor), 0);
    assert_string_equal(sn_cursor_text(cursor, 10, &size), "");
    assert_int_equal(size, 0);
    size = 7;
    assert_non_null(sn_cursor_bin(cursor, 10, &size));
    assert_int_equal(size, 0);
    size = 7;
    assert_non_null(sn_cursor_raw(cursor, &size));
    assert_int_equal(size, 0);
    sn_cursor_text_copy(cursor, text, sizeof text);
    assert_string_equal(text, "");
    sn_cursor_bin_copy(cursor, bytes, 2);
    assert_memory_equal(bytes, "\0\0", 2);
    assert_int_equal(sn_cursor_array(cursor), 0);
    assert_int_equal(sn_cursor_map(cursor), 0);
    assert_int_equal(sn_cursor_bool(cursor), 0);
    assert_true(sn_cursor_double(cursor) == 0);
    sn_cursor_nil(cursor);
    sn_cursor_skip(cursor);
    assert_ptr_equal(cursor->at, at);
    assert_int_equal(sn_cursor_finish(cursor), SN_ETOOBIG);
    close_input(&input);
}

static void another_kind_is_an_error(void **state)
{
    (void)state;
    static const char *const items[] = {"c0", "c3",   "05", "ff", "cb3ff8000000000000",
                                        "a0", "c400", "90", "80", "d40100"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(items); i++) {
        for (int reader = 0; reader < 9; reader++) {
            struct input input = open_hex(items[i]);
            struct sn_cursor *cursor = &input.cursor;
            enum sn_wire_kind kind = sn_cursor_kind(cursor);
            size_t size;
            int fits = 0;
            switch (reader) { /* the values do not matter, only whether the kind is accepted */
            case 0: sn_cursor_nil(cursor), fits = kind == SN_WIRE_NIL; break;
            case 1: (void)sn_cursor_bool(cursor), fits = kind == SN_WIRE_BOOL; break;
            case 2: (void)sn_cursor_uint(cursor, 9), fits = kind == SN_WIRE_UINT; break;
            case 3:
                (void)sn_cursor_int(cursor);
                fits = kind == SN_WIRE_UINT || kind == SN_WIRE_INT;
                break;
            case 4: (void)sn_cursor_double(cursor), fits = kind == SN_WIRE_DOUBLE; break;
            case 5: (void)sn_cursor_text(cursor, 9, &size), fits = kind == SN_WIRE_TEXT; break;
            case 6: (void)sn_cursor_bin(cursor, 9, &size), fits = kind == SN_WIRE_BIN; break;
            case 7: (void)sn_cursor_array(cursor), fits = kind == SN_WIRE_ARRAY; break;
            default: (void)sn_cursor_map(cursor), fits = kind == SN_WIRE_MAP; break;
            }
            assert_int_equal(sn_cursor_finish(cursor), fits ? SN_OK : SN_EINVAL);
            close_input(&input);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_told),
        cmocka_unit_test(integers_are_read_in_every_form),
        cmocka_unit_test(integers_above_the_limit_are_too_big),
        cmocka_unit_test(simple_values_are_read),
        cmocka_unit_test(texts_and_binaries_are_borrowed),
        cmocka_unit_test(bodies_are_checked),
        cmocka_unit_test(counts_larger_than_the_rest_are_refused),
        cmocka_unit_test(five_hostile_bytes_do_nothing),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(skip_takes_exactly_one_item),
        cmocka_unit_test(every_truncation_of_a_message_is_an_error),
        cmocka_unit_test(bytes_left_over_are_an_error),
        cmocka_unit_test(the_first_error_sticks),
        cmocka_unit_test(another_kind_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
