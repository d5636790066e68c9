/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "json.h"

static void strings_are_escaped(void **state)
{
    (void)state;
    char data[128] = {0};
    struct json json = {.data = data, .capacity = sizeof data - 1};
    sni_tunnel_json_string(&json, "a\"b\\c/\n\x01\x1f\x7f \xc3\xa9");
    assert_string_equal(data, "\"a\\\"b\\\\c/\\u000a\\u0001\\u001f\x7f \xc3\xa9\"");
}

static void members_are_separated(void **state)
{
    (void)state;
    char data[128] = {0};
    struct json json = {.data = data, .capacity = sizeof data - 1};
    sni_tunnel_json_raw(&json, "{");
    sni_tunnel_json_text(&json, "a", "{");
    sni_tunnel_json_number(&json, "b", UINT64_MAX);
    sni_tunnel_json_number(&json, "c", 0);
    sni_tunnel_json_raw(&json, "}");
    assert_string_equal(data, "{\"a\":\"{\",\"b\":18446744073709551615,\"c\":0}");
}

/* Whatever the capacity, nothing is written behind it, and what was cut is told. */
static void nothing_is_written_beyond_the_end(void **state)
{
    (void)state;
    static const char whole[] = "{\"key\":\"a\\u0002\",\"n\":12}";
    for (uint32_t capacity = 0; capacity <= sizeof whole; capacity++) {
        char data[sizeof whole + 8];
        memset(data, '#', sizeof data);
        struct json json = {.data = data, .capacity = capacity};
        sni_tunnel_json_raw(&json, "{");
        sni_tunnel_json_text(&json, "key", "a\x02");
        sni_tunnel_json_number(&json, "n", 12);
        sni_tunnel_json_raw(&json, "}");
        assert_true(json.size <= capacity);
        assert_int_equal(json.is_full, capacity < sizeof whole - 1);
        assert_memory_equal(data, whole, json.size);
        for (size_t i = json.size; i < sizeof data; i++) assert_int_equal(data[i], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(members_are_separated),
        cmocka_unit_test(nothing_is_written_beyond_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
