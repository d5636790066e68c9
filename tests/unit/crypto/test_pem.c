/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "crypto/pem_int.h"

#define BEGIN "-----BEGIN TEST-----\n"
#define END   "-----END TEST-----\n"

static enum sn_err decode(const char *text, size_t text_size, uint8_t *out, size_t capacity,
                          size_t *out_size)
{
    return sni_pem_decode("TEST", text, text_size, out, capacity, out_size);
}

static enum sn_err decode_text(const char *text)
{
    uint8_t out[64];
    size_t size;
    return decode(text, strlen(text), out, sizeof out, &size);
}

static void test_round_trip_of_every_size(void **state)
{
    (void)state;
    uint8_t bytes[200];
    uint8_t back[200];
    char text[512];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        size_t text_size;
        size_t back_size;
        assert_int_equal(sni_pem_encode("TEST", bytes, size, text, sizeof text, &text_size), SN_OK);
        assert_int_equal(text_size, strlen(text));
        enum sn_err err = decode(text, text_size, back, sizeof back, &back_size);
        if (size == 0) { /* an empty block has no line, which is no block that anybody writes */
            assert_int_equal(err, SN_EINVAL);
            continue;
        }
        assert_int_equal(err, SN_OK);
        assert_int_equal(back_size, size);
        assert_memory_equal(back, bytes, size);
    }
}

static void test_encode_needs_exactly_its_room(void **state)
{
    (void)state;
    char text[256];
    size_t size;
    size_t again;
    assert_int_equal(sni_pem_encode("TEST", (const uint8_t *)"abc", 3, text, sizeof text, &size),
                     SN_OK);
    assert_string_equal(text, BEGIN "YWJj\n" END);
    assert_int_equal(sni_pem_encode("TEST", (const uint8_t *)"abc", 3, text, size, &again),
                     SN_ETOOBIG);
    assert_int_equal(sni_pem_encode("TEST", (const uint8_t *)"abc", 3, text, size + 1, &again),
                     SN_OK);
}

static void test_white_space_is_tolerated(void **state)
{
    (void)state;
    assert_int_equal(decode_text(BEGIN "YWJj\n" END), SN_OK);
    assert_int_equal(decode_text("\r\n " BEGIN "YW\r\n Jj\t\r\n" END "\n\n"), SN_OK);
    assert_int_equal(decode_text(BEGIN "YWJj\n-----END TEST-----"), SN_OK);
}

static void test_anything_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "-----BEGIN TEST-----",
        BEGIN END,
        BEGIN "YWJj" END,                 /* no line end */
        "-----BEGIN TEST-----YWJj\n" END, /* no line end */
        BEGIN "YWJ\n" END,                /* padding lacks */
        BEGIN "YWJj=\n" END,              /* padding too much */
        BEGIN "YW==YWJj\n" END,           /* bytes behind the padding */
        BEGIN "YX==\n" END,               /* bits that no encoder sets */
        BEGIN "YW-_\n" END,               /* the other alphabet */
        BEGIN "Proc-Type: 4,ENCRYPTED\n\nYWJj\n" END,
        "note\n" BEGIN "YWJj\n" END,
        BEGIN "YWJj\n" END "note",
        BEGIN "YWJj\n" END BEGIN "YWJj\n" END,
        "-----BEGIN OTHER-----\nYWJj\n-----END OTHER-----\n",
        BEGIN "YWJj\n-----END OTHE-----\n",
        "-----BEGIN TEST2----\nYWJj\n" END,
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (decode_text(bad[i]) != SN_EINVAL) fail_msg("accepted: %s", bad[i]);
    }
    static const char nul[] = BEGIN "YW\0Jj\n" END;
    uint8_t out[64];
    size_t size;
    assert_int_equal(decode(nul, sizeof nul - 1, out, sizeof out, &size), SN_EINVAL);
}

static void test_capacity_is_kept(void **state)
{
    (void)state;
    uint8_t out[4] = {0, 0, 0, 0xee};
    size_t size = 77;
    const char *text = BEGIN "YWJj\n" END;
    assert_int_equal(decode(text, strlen(text), out, 2, &size), SN_ETOOBIG);
    assert_int_equal(size, 77);
    assert_int_equal(decode(text, strlen(text), out, 3, &size), SN_OK);
    assert_int_equal(size, 3);
    assert_int_equal(out[3], 0xee);
}

static void test_refused_bytes_are_wiped(void **state)
{
    (void)state;
    uint8_t out[8] = {0};
    size_t size;
    const char *text = BEGIN "YWJjYWJ*\n" END;
    assert_int_equal(decode(text, strlen(text), out, sizeof out, &size), SN_EINVAL);
    for (size_t i = 0; i < sizeof out; i++) assert_int_equal(out[i], 0);
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    const char *text = BEGIN "YWJj\n-----END TEST-----";
    uint8_t out[64];
    size_t size;
    for (size_t keep = 0; keep < strlen(text); keep++) {
        assert_int_equal(decode(text, keep, out, sizeof out, &size), SN_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_of_every_size),
        cmocka_unit_test(test_encode_needs_exactly_its_room),
        cmocka_unit_test(test_white_space_is_tolerated),
        cmocka_unit_test(test_anything_else_is_refused),
        cmocka_unit_test(test_capacity_is_kept),
        cmocka_unit_test(test_refused_bytes_are_wiped),
        cmocka_unit_test(test_every_truncation_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
