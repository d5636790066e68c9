/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agents/body.h"
#include "base/alloc.h"
#include "base/text.h"
#include "sennit/limits.h"
#include "wire/cursor.h"
#include "wire/json.h"

static void expect_json(const struct sn_body *body, const char *json)
{
    char data[1024];
    struct sn_text text;
    sn_text_init(&text, data, sizeof data);
    assert_int_equal(body->err, SN_OK);
    assert_int_equal(sn_json_from_msgpack(body->pack.data, body->pack.size, &text), SN_OK);
    assert_string_equal(data, json);
}

static void make_sample(struct sn_body *body)
{
    struct sn_body inner;
    sn_body_init(&inner);
    sn_body_map(&inner, 1);
    sn_body_int(&inner, "offset", -3);
    sn_body_init(body);
    sn_body_map(body, 4);
    sn_body_text(body, "agent", "paris/hub");
    sn_body_uint(body, "big", UINT64_MAX);
    sn_body_key(body, "list");
    sn_body_array(body, 2);
    sn_body_key(body, "a");
    sn_body_key(body, "");
    sn_body_key(body, "inner");
    sn_body_append(body, &inner);
    sn_body_fini(&inner);
}

static void bodies_are_maps_with_text_keys(void **state)
{
    struct sn_body body;
    (void)state;
    make_sample(&body);
    expect_json(&body, "{\"agent\":\"paris/hub\",\"big\":18446744073709551615,"
                       "\"list\":[\"a\",\"\"],\"inner\":{\"offset\":-3}}");
    sn_body_fini(&body);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void bodies_grow(void **state)
{
    struct sn_body body;
    struct sn_cursor cursor;
    const uint32_t count = 20000;
    (void)state;
    sn_body_init(&body);
    sn_body_array(&body, count);
    for (uint32_t i = 0; i < count; i++) {
        sn_body_map(&body, 1);
        sn_body_uint(&body, "number", i);
    }
    assert_int_equal(body.err, SN_OK);
    sn_cursor_init(&cursor, body.pack.data, body.pack.size);
    assert_int_equal(sn_cursor_array(&cursor), count);
    for (uint32_t i = 0; i < count; i++) {
        size_t size = 0;
        assert_int_equal(sn_cursor_map(&cursor), 1);
        assert_memory_equal(sn_cursor_text(&cursor, 6, &size), "number", 6);
        assert_int_equal(sn_cursor_uint(&cursor, count), i);
    }
    assert_int_equal(sn_cursor_finish(&cursor), SN_OK);
    sn_body_fini(&body);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void bodies_have_a_limit(void **state)
{
    struct sn_body body;
    (void)state;
    sn_body_init(&body);
    sn_body_need(&body, SN_CONTROL_REPLY_BYTES_MAX);
    assert_int_equal(body.err, SN_OK);
    sn_body_need(&body, SN_CONTROL_REPLY_BYTES_MAX + 1);
    assert_int_equal(body.err, SN_ETOOBIG);
    sn_body_text(&body, "key", "value"); /* the first error stays, nothing is written */
    sn_body_map(&body, 1);
    assert_int_equal(body.err, SN_ETOOBIG);
    assert_int_equal(body.pack.size, 0);
    sn_body_fini(&body);
    assert_int_equal(body.err, SN_OK);
}

static void appending_takes_the_error_over(void **state)
{
    struct sn_body body;
    struct sn_body broken;
    (void)state;
    sn_body_init(&body);
    sn_body_init(&broken);
    broken.err = SN_ENOMEM;
    sn_body_append(&body, &broken);
    assert_int_equal(body.err, SN_ENOMEM);
    sn_body_fini(&body);
}

static void lack_of_memory_sticks(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        struct sn_body body;
        sn_alloc_fail_nth(nth);
        make_sample(&body);
        sn_alloc_fail_nth(0);
        enum sn_err err = body.err;
        sn_body_fini(&body);
        assert_int_equal(sn_alloc_in_use(), 0);
        if (err == SN_OK) {
            assert_true(nth > 2);
            return;
        }
        assert_int_equal(err, SN_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_maps_with_text_keys),
        cmocka_unit_test(bodies_grow),
        cmocka_unit_test(bodies_have_a_limit),
        cmocka_unit_test(appending_takes_the_error_over),
        cmocka_unit_test(lack_of_memory_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
