/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/netaddr.h"
#include "unit/rng.h"

#define LABEL_63 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg"
#define NAME_253                                                                                   \
    LABEL_63 "." LABEL_63 "." LABEL_63 "."                                                         \
             "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffg"

static struct sn_endpoint parse(const char *text)
{
    struct sn_endpoint endpoint;
    enum sn_err err = sn_endpoint_parse(text, strlen(text), 1, &endpoint);
    if (err != SN_OK) fail_msg("%s: %s", text, sn_err_name(err));
    return endpoint;
}

static void literals_are_recognized(void **state)
{
    (void)state;
    struct sn_endpoint endpoint = parse("127.0.0.1:80");
    assert_string_equal(endpoint.host, "127.0.0.1");
    assert_int_equal(endpoint.port, 80);
    assert_true(endpoint.is_literal);
    assert_int_equal(endpoint.addr.family, SN_NETADDR_IP4);
    assert_int_equal(endpoint.addr.port, 80);
    assert_memory_equal(endpoint.addr.ip, "\x7f\0\0\1", 4);
    endpoint = parse("[2001:DB8::1]:65535");
    assert_string_equal(endpoint.host, "2001:DB8::1");
    assert_int_equal(endpoint.port, 65535);
    assert_true(endpoint.is_literal);
    assert_int_equal(endpoint.addr.family, SN_NETADDR_IP6);
    assert_int_equal(endpoint.addr.port, 65535);
    assert_memory_equal(endpoint.addr.ip, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
}

static void names_are_left_to_the_resolver(void **state)
{
    (void)state;
    static const char *const names[] = {
        "localhost",
        "example.org",
        "EXAMPLE.Org",
        "example.org.",
        "a",
        "my_service",
        "xn--bcher-kva.example",
        "1password.com",
        "4.example",
        "0x1g",
        "1.2.3.4a",
        LABEL_63,
        NAME_253,
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(names); i++) {
        char text[300];
        snprintf(text, sizeof text, "%s:7400", names[i]);
        struct sn_endpoint endpoint = parse(text);
        assert_string_equal(endpoint.host, names[i]);
        assert_int_equal(endpoint.port, 7400);
        assert_false(endpoint.is_literal);
        assert_int_equal(endpoint.addr.family, SN_NETADDR_NONE);
    }
}

static void port_zero_needs_leave(void **state)
{
    (void)state;
    struct sn_endpoint endpoint = {.port = 99};
    assert_int_equal(sn_endpoint_parse("127.0.0.1:0", 11, 0, &endpoint), SN_EINVAL);
    assert_int_equal(endpoint.port, 99);
    assert_int_equal(sn_endpoint_parse("127.0.0.1:0", 11, 1, &endpoint), SN_OK);
    assert_int_equal(endpoint.port, 0);
    assert_int_equal(sn_endpoint_parse("127.0.0.1:8080", 11, 0, &endpoint), SN_OK);
    assert_int_equal(endpoint.port, 8); /* no byte behind the size counts */
}

static const char label_64[] = LABEL_63 "a:80";
static const char name_254[] = "a" NAME_253 ":80";

static const char *const bad_endpoints[] = {
    "",
    ":",
    ":80",
    "80",
    "host",
    "host:",
    "host:-1",
    "host:+1",
    "host:080",
    "host:00",
    "host:65536",
    "host:99999999999999999999",
    "host:8a",
    "host: 80",
    " host:80",
    "host :80",
    "ho st:80",
    "-host:80",
    "host-:80",
    ".:80",
    ".host:80",
    "a..b:80",
    "host..:80",
    label_64,
    name_254,
    "host/path:80",
    "user@host:80",
    "h\xc3\xa9:80",
    /* numbers that are no address in the plain form */
    "1:80",
    "127.1:80",
    "1.2.3:80",
    "256.0.0.1:80",
    "1.2.3.4.5:80",
    "01.2.3.4:80",
    "1.2.3.04:80",
    "0x7f.0.0.1:80",
    "0x7f000001:80",
    "host.0x1:80",
    "host.1:80",
    "1.2.3.4.:80",
    "0x:80",
    "1..2.3:80",
    "1.2.3.:80",
    ".1.2.3:80",
    /* IPv6 without brackets, IPv4 within */
    "::1:80",
    "2001:db8::1:80",
    "[127.0.0.1]:80",
    "[host]:80",
    "[]:80",
    "[:80",
    "]:80",
    "[::1:80",
    "::1]:80",
    "[::1]",
    "[::1]80",
    "[::1]:",
    "[[::1]]:80",
    "x[::1]:80",
    "[:]:80",
    "[:::]:80",
    "[::1::]:80",
    "[1::2::3]:80",
    "[1:2:3:4:5:6:7]:80",
    "[1:2:3:4:5:6:7:8:9]:80",
    "[1:2:3:4:5:6:7:8::]:80",
    "[::1:2:3:4:5:6:7:8]:80",
    "[1:2:3:4::5:6:7:8]:80",
    "[:1:2:3:4:5:6:7:8]:80",
    "[1:2:3:4:5:6:7:8:]:80",
    "[1:]:80",
    "[:1]:80",
    "[::1:]:80",
    "[:1::]:80",
    "[::g]:80",
    "[::12345]:80",
    "[::1%eth0]:80",
    "[::1/64]:80",
    "[1.2.3.4::]:80",
    "[::1.2.3]:80",
    "[::1.2.3.256]:80",
    "[::1.2.3.4:5]:80",
    "[1:2:3:4:5:6:7:1.2.3.4]:80",
    "[1:2:3:4:5:1.2.3.4]:80",
    "[::1.2.3.4.5]:80",
    "[ ::1]:80",
};

static void anything_else_is_refused(void **state)
{
    (void)state;
    struct sn_endpoint endpoint = {.port = 99};
    for (size_t i = 0; i < SN_ARRAY_COUNT(bad_endpoints); i++) {
        if (sn_endpoint_parse(bad_endpoints[i], strlen(bad_endpoints[i]), 1, &endpoint) !=
            SN_EINVAL)
            fail_msg("%s", bad_endpoints[i]);
    }
    assert_int_equal(sn_endpoint_parse("ho\0st:80", 8, 1, &endpoint), SN_EINVAL);
    assert_int_equal(sn_endpoint_parse(NULL, 0, 1, &endpoint), SN_EINVAL);
    assert_int_equal(endpoint.port, 99);
}

static void text_forms_are_canonical(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *canonical;
    } cases[] = {
        {"0.0.0.0:0", "0.0.0.0:0"},
        {"255.255.255.255:65535", "255.255.255.255:65535"},
        {"[::]:80", "[::]:80"},
        {"[0:0:0:0:0:0:0:0]:80", "[::]:80"},
        {"[::1]:80", "[::1]:80"},
        {"[1::]:80", "[1::]:80"},
        {"[0001:0:0:2:0:0:0:3]:1", "[1:0:0:2::3]:1"},
        {"[1:0:0:2:3:0:0:4]:1", "[1::2:3:0:0:4]:1"},    /* the first of equal runs */
        {"[1:0:2:3:4:5:6:7]:1", "[1:0:2:3:4:5:6:7]:1"}, /* one group is not compressed */
        {"[1:2:3:4:5:6::8]:1", "[1:2:3:4:5:6:0:8]:1"},
        {"[1:2:3:4:5:6:7::]:1", "[1:2:3:4:5:6:7:0]:1"},
        {"[::2:3:4:5:6:7:8]:1", "[0:2:3:4:5:6:7:8]:1"},
        {"[2001:DB8:A::F00]:1", "[2001:db8:a::f00]:1"},
        {"[::ffff:1.2.3.4]:1", "[::ffff:1.2.3.4]:1"},
        {"[::FFFF:0102:0304]:1", "[::ffff:1.2.3.4]:1"},
        {"[0:0:0:0:0:ffff:1.2.3.4]:1", "[::ffff:1.2.3.4]:1"},
        {"[64:ff9b::1.2.3.4]:1", "[64:ff9b::102:304]:1"},
        {"[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
         "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        char out[SN_NETADDR_TEXT_MAX];
        struct sn_endpoint endpoint = parse(cases[i].text);
        sn_netaddr_format(&endpoint.addr, out);
        assert_string_equal(out, cases[i].canonical);
    }
    char out[SN_NETADDR_TEXT_MAX];
    sn_netaddr_format(&(struct sn_netaddr){0}, out);
    assert_string_equal(out, "-");
}

static void random_addresses_survive_their_text(void **state)
{
    (void)state;
    uint64_t rng = 6;
    for (int round = 0; round < 20000; round++) {
        struct sn_netaddr addr = {.port = (uint16_t)rng_next(&rng)};
        addr.family = rng_below(&rng, 4) == 0 ? SN_NETADDR_IP4 : SN_NETADDR_IP6;
        size_t size = addr.family == SN_NETADDR_IP4 ? 4 : 16;
        /* Mostly zeros, so that runs of them come in all shapes. */
        for (size_t i = 0; i < size; i++) {
            addr.ip[i] = rng_below(&rng, 3) == 0 ? (uint8_t)rng_next(&rng) : 0;
        }
        char text[SN_NETADDR_TEXT_MAX];
        sn_netaddr_format(&addr, text);
        struct sn_endpoint endpoint = parse(text);
        assert_true(endpoint.is_literal);
        assert_int_equal(endpoint.addr.family, addr.family);
        assert_memory_equal(endpoint.addr.ip, addr.ip, 16);
        assert_true(sn_netaddr_is_equal(&endpoint.addr, &addr));
    }
}

static void equality_looks_through_mapped_addresses(void **state)
{
    (void)state;
    struct sn_netaddr ip4 = parse("10.0.0.1:80").addr;
    struct sn_netaddr other_port = parse("10.0.0.1:81").addr;
    struct sn_netaddr other_host = parse("10.0.0.2:80").addr;
    struct sn_netaddr mapped = parse("[::ffff:10.0.0.1]:80").addr;
    struct sn_netaddr ip6 = parse("[::a00:1]:80").addr;
    struct sn_netaddr none = {0};
    assert_true(sn_netaddr_is_equal(&ip4, &ip4));
    assert_false(sn_netaddr_is_equal(&ip4, &other_port));
    assert_true(sn_netaddr_is_same_host(&ip4, &other_port));
    assert_false(sn_netaddr_is_equal(&ip4, &other_host));
    assert_false(sn_netaddr_is_same_host(&ip4, &other_host));
    assert_true(sn_netaddr_is_equal(&ip4, &mapped));
    assert_false(sn_netaddr_is_same_host(&ip4, &ip6));
    assert_false(sn_netaddr_is_same_host(&ip4, &none));
    assert_true(sn_netaddr_is_equal(&none, &none));
    ip4.ip[9] = 1; /* beyond an IPv4 address */
    assert_true(sn_netaddr_is_equal(&ip4, &mapped));
}

static void origins_are_hosts_or_networks(void **state)
{
    (void)state;
    struct sn_netaddr ip4 = parse("10.0.0.1:80").addr;
    struct sn_netaddr other_host = parse("10.0.0.2:80").addr;
    struct sn_netaddr mapped = parse("[::ffff:10.0.0.1]:81").addr;
    struct sn_netaddr other_mapped = parse("[::ffff:10.0.0.2]:81").addr;
    struct sn_netaddr ip6 = parse("[2001:db8:0:1::1]:80").addr;
    struct sn_netaddr neighbour = parse("[2001:db8:0:1:ffff:ffff:ffff:ffff]:81").addr;
    struct sn_netaddr other_net = parse("[2001:db8:0:2::1]:80").addr;
    struct sn_netaddr loopback = parse("[::1]:80").addr; /* its first half is that of mapped ones */
    struct sn_netaddr none = {0};
    assert_true(sn_netaddr_is_same_origin(&ip4, &mapped));
    assert_false(sn_netaddr_is_same_origin(&ip4, &other_host));
    assert_false(sn_netaddr_is_same_origin(&mapped, &other_mapped));
    assert_true(sn_netaddr_is_same_origin(&ip6, &neighbour));
    assert_false(sn_netaddr_is_same_origin(&ip6, &other_net));
    assert_false(sn_netaddr_is_same_origin(&ip6, &ip4));
    assert_false(sn_netaddr_is_same_origin(&loopback, &mapped));
    assert_false(sn_netaddr_is_same_origin(&none, &ip4));
    assert_true(sn_netaddr_is_same_origin(&none, &none));
}

static void loopback_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int is_loopback;
    } cases[] = {
        {"127.0.0.1:1", 1}, {"127.255.0.3:1", 1},        {"128.0.0.1:1", 0},     {"0.0.0.0:1", 0},
        {"[::1]:1", 1},     {"[::ffff:127.0.0.1]:1", 1}, {"[::]:1", 0},          {"[::2]:1", 0},
        {"[1::1]:1", 0},    {"[7f00::1]:1", 0},          {"[::127.0.0.1]:1", 0},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        struct sn_netaddr addr = parse(cases[i].text).addr;
        assert_int_equal(sn_netaddr_is_loopback(&addr), cases[i].is_loopback);
    }
    assert_false(sn_netaddr_is_loopback(&(struct sn_netaddr){0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_are_recognized),
        cmocka_unit_test(names_are_left_to_the_resolver),
        cmocka_unit_test(port_zero_needs_leave),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(text_forms_are_canonical),
        cmocka_unit_test(random_addresses_survive_their_text),
        cmocka_unit_test(equality_looks_through_mapped_addresses),
        cmocka_unit_test(origins_are_hosts_or_networks),
        cmocka_unit_test(loopback_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
