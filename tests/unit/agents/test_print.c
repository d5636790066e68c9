/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "commands.h"
#include "wire/json.h"

/* Prints what the JSON says. Returns the exit status. */
static int print(const char *json, int as_json)
{
    static uint8_t bytes[16384];
    struct sn_pack pack;
    struct sn_cli cli = make_cli("show", "");
    sn_pack_init(&pack, bytes, sizeof bytes);
    assert_int_equal(sn_json_to_msgpack(json, strlen(json), &pack), SN_OK);
    return sn_cli_print_body(&cli, pack.data, pack.size, as_json);
}

static void expect_text(const char *json, const char *text)
{
    assert_int_equal(print(json, 0), SN_EXIT_OK);
    assert_string_equal(caught_out, text);
    assert_string_equal(caught_err, "");
}

static void json_is_one_document(void **state)
{
    (void)state;
    static const char json[] =
        "[{\"agent\":\"a/b\",\"since_ms\":1500,\"x\":{}},{\"rtt_us\":3,\"n\":null}]";
    assert_int_equal(print(json, 1), SN_EXIT_OK);
    assert_memory_equal(caught_out, json, sizeof json - 1);
    assert_string_equal(caught_out + sizeof json - 1, "\n");
}

static void arrays_of_maps_are_tables(void **state)
{
    (void)state;
    expect_text("[{\"agent\":\"paris/hub\",\"state\":\"up\",\"rtt_us\":950,\"sent_bytes\":100},"
                "{\"agent\":\"a/b\",\"state\":\"refused\",\"rtt_us\":12345,\"reason\":\"expired\","
                "\"sent_bytes\":1536}]",
                "agent      state       rtt    sent  reason\n"
                "paris/hub  up        950us    100B  -\n"
                "a/b        refused  12.3ms  1.5KiB  expired\n");
    /* A column with a text in it is not one of numbers. */
    expect_text("[{\"v\":1},{\"v\":\"longer\"}]", "v\n1\nlonger\n");
    expect_text("[{\"value\":1},{\"value\":-20}]", "value\n    1\n  -20\n");
    expect_text("[{\"a\":\"h\xc3\xa9\",\"b\":\"x\"},{\"a\":\"hello\",\"b\":\"y\"}]",
                "a      b\nh\xc3\xa9     x\nhello  y\n");
}

static void nested_values_are_compact_in_tables(void **state)
{
    (void)state;
    expect_text("[{\"agent\":\"a/b\",\"lost\":{\"expired\":2,\"age_ms\":1500},\"list\":[1,\"x\"]},"
                "{\"agent\":\"c/d\",\"lost\":{},\"list\":[]},"
                "{\"agent\":\"e/f\",\"lost\":{\"deep\":{\"x\":1}},\"list\":[[1],{}]}]",
                "agent  lost                list\n"
                "a/b    expired=2 age=1.5s  1, x\n"
                "c/d    -                   none\n"
                "e/f    deep=...            ..., ...\n");
}

static void maps_are_aligned_lines(void **state)
{
    (void)state;
    expect_text("{\"agent\":\"paris/hub\",\"uptime_ms\":2050,\"listen\":[\"a:1\",\"b:2\"],"
                "\"none\":[],\"total\":{\"sent\":1,\"lost\":{},\"by\":{\"x_bytes\":2048}},"
                "\"is_up\":true,\"nothing\":null,\"rate\":1.5}",
                "agent:      paris/hub\n"
                "uptime:     2.0s\n"
                "listen:     a:1, b:2\n"
                "none:       none\n"
                "total.sent: 1\n"
                "total.lost: -\n"
                "total.by.x: 2.0KiB\n"
                "is_up:      yes\n"
                "nothing:    -\n"
                "rate:       1.5\n");
}

static void tables_in_maps_stand_under_their_keys(void **state)
{
    (void)state;
    expect_text("{\"peers\":[{\"agent\":\"a/b\",\"n\":1}],\"total\":{\"n\":1},\"t\":[{\"x\":0}]}",
                "total.n: 1\n\npeers:\nagent  n\na/b    1\n\nt:\nx\n0\n");
    expect_text("{\"peers\":[{\"n\":1}]}", "peers:\nn\n1\n");
}

static void other_bodies_are_shown_too(void **state)
{
    (void)state;
    expect_text("[]", "none\n");
    expect_text("{}", "");
    expect_text("[1,\"two\",null]", "1\ntwo\n-\n");
    expect_text("\"word\"", "word\n");
    expect_text("7", "7\n");
    /* A list that begins with a map and goes on with something else is no table. */
    assert_int_equal(print("[{\"a\":1},2]", 0), SN_EXIT_FAILED);
}

static void times_and_sizes_are_readable(void **state)
{
    static const struct {
        const char *pair;
        const char *line;
    } cases[] = {
        {"\"x_us\":0", "x: 0us\n"},
        {"\"x_us\":999", "x: 999us\n"},
        {"\"x_us\":1000", "x: 1ms\n"},
        {"\"x_us\":1250", "x: 1.25ms\n"},
        {"\"x_us\":99900", "x: 99.9ms\n"},
        {"\"x_us\":999499", "x: 999ms\n"},
        {"\"x_us\":1000000", "x: 1.0s\n"},
        {"\"x_ms\":5", "x: 5ms\n"},
        {"\"x_ms\":-1", "x: -1ms\n"},
        {"\"x_ms\":59999", "x: 59s\n"},
        {"\"x_ms\":60000", "x: 1m00s\n"},
        {"\"x_ms\":3599000", "x: 59m59s\n"},
        {"\"x_ms\":3600000", "x: 1h00m\n"},
        {"\"x_ms\":90000000", "x: 1d01h\n"},
        {"\"x_s\":31536000", "x: 365d00h\n"},
        {"\"x_s\":-3600", "x: -1h00m\n"},
        {"\"x_s\":9223372036854775807", "x: unlimited\n"},
        {"\"x_bytes\":0", "x: 0B\n"},
        {"\"x_bytes\":1023", "x: 1023B\n"},
        {"\"x_bytes\":1024", "x: 1.0KiB\n"},
        {"\"x_bytes\":1048575", "x: 1.0MiB\n"},
        {"\"x_bytes\":67108864", "x: 64.0MiB\n"},
        {"\"x_bytes\":9223372036854775806", "x: 8.0EiB\n"},
        {"\"x\":18446744073709551615", "x: 18446744073709551615\n"},
        {"\"_ms\":5", "_ms: 5\n"}, /* nothing would be left of the name */
        {"\"x_ms\":\"text\"", "x: text\n"},
    };
    char json[128];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sn_text text;
        sn_text_init(&text, json, sizeof json);
        sn_text_add(&text, "{%s}", cases[i].pair);
        expect_text(json, cases[i].line);
    }
}

/* Names and reasons come from peers: they must not reach the terminal as they are. */
static void control_characters_are_not_printed(void **state)
{
    (void)state;
    expect_text("[{\"reason\":\"\\u001b[2J\\n\\u007fx\\u009b1m\\u00e9\"}]",
                "reason\n?[2J??x?1m\xc3\xa9\n");
    expect_text("{\"a\\u001b\":\"\\r\"}", "a?: ?\n");
    assert_int_equal(print("[\"\\u001b\\u007f\"]", 1), SN_EXIT_OK);
    assert_string_equal(caught_out, "[\"\\u001b\\u007f\"]\n");
}

static void long_values_are_cut_between_characters(void **state)
{
    static char json[8192];
    (void)state;
    json[0] = '"';
    for (unsigned i = 0; i < 2000; i++) memcpy(json + 1 + 2 * (size_t)i, "\xc3\xa9", 2);
    memcpy(json + 4001, "\"", 2);
    assert_int_equal(print(json, 0), SN_EXIT_OK);
    size_t size = strlen(caught_out);
    assert_true(size > 1000 && size < 1040);
    assert_string_equal(caught_out + size - 6, "\xc3\xa9...\n");
    assert_true(sn_utf8_is_valid(caught_out, size));
}

static void damaged_bodies_are_told(void **state)
{
    static const uint8_t bodies[][4] = {
        {0x92, 0x01}, {0x81, 0xa1, 'a'}, {0xc1}, {0x91, 0x81, 0xa1}};
    struct sn_cli cli = make_cli("show", "");
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (int as_json = 0; as_json < 2; as_json++) {
            forget_caught();
            assert_int_equal(sn_cli_print_body(&cli, bodies[i],
                                               i == 0   ? 2
                                               : i == 2 ? 1
                                                        : 3,
                                               as_json),
                             SN_EXIT_FAILED);
            expect_part(caught_err, "the agent's answer cannot be shown");
        }
    }
    assert_int_equal(sn_cli_print_body(&cli, NULL, 0, 1), SN_EXIT_FAILED);
}

/* Wide tables lose columns and deep maps their structure, nothing else. */
static void limits_hold(void **state)
{
    static char json[4096];
    struct sn_text text;
    (void)state;
    sn_text_init(&text, json, sizeof json);
    sn_text_add(&text, "[{");
    for (unsigned i = 0; i < 100; i++) sn_text_add(&text, "%s\"k%u\":%u", i > 0 ? "," : "", i, i);
    sn_text_add(&text, "}]");
    assert_int_equal(print(json, 0), SN_EXIT_OK);
    expect_part(caught_out, "k31\n");
    expect_text("{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":{\"g\":{\"h\":1}}}}}}}}",
                "a.b.c.d.e.f.g.h: 1\n");
}

/* Prints what the JSON says as a ledger. Returns the exit status. */
static int print_ledger(const char *json)
{
    static uint8_t bytes[16384];
    struct sn_pack pack;
    struct sn_cli cli = make_cli("ledger", "");
    sn_pack_init(&pack, bytes, sizeof bytes);
    assert_int_equal(sn_json_to_msgpack(json, strlen(json), &pack), SN_OK);
    return sn_cli_print_ledger(&cli, pack.data, pack.size);
}

#define PARCELS                                                                                    \
    "\"parcels\":{\"sent\":123456789,\"nng_sent\":123456789,\"received\":223456789,"               \
    "\"nng_received\":223456789,\"resent\":7,\"messages_received\":323456789,"                     \
    "\"messages_refused\":5,\"refused_auth\":1,\"refused_replay\":2,\"refused_other\":3}"

static const char ledger[] =
    "{\"peers\":["
    "{\"agent\":\"amsterdam-west/storage-gate-1\",\"accepted\":423456789,\"delivered\":423456770,"
    "\"queued\":3,\"undelivered\":{\"mailbox-full\":4,\"no-actor\":5},"
    "\"unknown\":{\"peer-restarted\":7}," PARCELS "},"
    "{\"agent\":\"paris/hub\",\"accepted\":0,\"delivered\":0,\"queued\":0,\"undelivered\":{},"
    "\"unknown\":{}," PARCELS "}],"
    "\"total\":{\"accepted\":423456789,\"delivered\":423456770,\"queued\":3,"
    "\"undelivered\":{\"mailbox-full\":4,\"no-actor\":5},\"unknown\":{\"peer-restarted\":7},"
    "\"local_accepted\":12}}";

/* No line is longer than a terminal is wide, and no figure is missing. */
static void a_ledger_fits_a_terminal(void **state)
{
    (void)state;
    assert_int_equal(print_ledger(ledger), SN_EXIT_OK);
    assert_string_equal(
        caught_out,
        "accepted:       423456789\n"
        "delivered:      423456770\n"
        "queued:         3\n"
        "undelivered:    9\n"
        "unknown:        7\n"
        "local_accepted: 12\n"
        "\n"
        "peers:\n"
        "agent                           accepted  delivered  queued  undelivered  unknown\n"
        "amsterdam-west/storage-gate-1  423456789  423456770       3            9        7\n"
        "paris/hub                              0          0       0            0        0\n"
        "\n"
        "reasons:\n"
        "agent                          outcome      reason          count\n"
        "amsterdam-west/storage-gate-1  undelivered  mailbox-full        4\n"
        "amsterdam-west/storage-gate-1  undelivered  no-actor            5\n"
        "amsterdam-west/storage-gate-1  unknown      peer-restarted      7\n"
        "\n"
        "parcels:\n"
        "agent                               sent   nng_sent   received  nng_received  resent\n"
        "amsterdam-west/storage-gate-1  123456789  123456789  223456789     223456789       7\n"
        "paris/hub                      123456789  123456789  223456789     223456789       7\n"
        "\n"
        "incoming:\n"
        "agent                           messages  refused  parcels_bad_auth  replayed  other\n"
        "amsterdam-west/storage-gate-1  323456789        5                 1         2      3\n"
        "paris/hub                      323456789        5                 1         2      3\n");
    for (const char *line = caught_out; *line != '\0';) {
        size_t size = strcspn(line, "\n");
        assert_true(size <= 100);
        line += size + 1;
    }
}

static void odd_ledgers_are_shown_too(void **state)
{
    (void)state;
    assert_int_equal(print_ledger("{\"peers\":[],\"total\":{}}"), SN_EXIT_OK);
    expect_part(caught_out, "peers:          none\n");
    assert_int_equal(print_ledger("{\"total\":3}"), SN_EXIT_OK); /* of another version */
    assert_string_equal(caught_out, "total: 3\n");
    assert_int_equal(print_ledger("[1]"), SN_EXIT_OK);
    assert_int_equal(print_ledger("{\"peers\":[{\"agent\":3,\"undelivered\":{\"x\":\"y\"}}],"
                                  "\"total\":{}}"),
                     SN_EXIT_FAILED);
    size_t in_use = sn_alloc_in_use();
    sn_alloc_fail_nth(1);
    assert_int_equal(print_ledger(ledger), SN_EXIT_FAILED);
    sn_alloc_fail_nth(0);
    assert_int_equal(sn_alloc_in_use(), in_use);
}

static void printing_survives_lack_of_memory(void **state)
{
    size_t in_use = sn_alloc_in_use();
    (void)state;
    for (int as_json = 0; as_json < 2; as_json++) {
        sn_alloc_fail_nth(1);
        assert_int_equal(print("[{\"a\":1}]", as_json), SN_EXIT_FAILED);
        sn_alloc_fail_nth(0);
        assert_int_equal(sn_alloc_in_use(), in_use);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_one_document),
        cmocka_unit_test(arrays_of_maps_are_tables),
        cmocka_unit_test(nested_values_are_compact_in_tables),
        cmocka_unit_test(maps_are_aligned_lines),
        cmocka_unit_test(tables_in_maps_stand_under_their_keys),
        cmocka_unit_test(other_bodies_are_shown_too),
        cmocka_unit_test(times_and_sizes_are_readable),
        cmocka_unit_test(control_characters_are_not_printed),
        cmocka_unit_test(long_values_are_cut_between_characters),
        cmocka_unit_test(damaged_bodies_are_told),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(a_ledger_fits_a_terminal),
        cmocka_unit_test(odd_ledgers_are_shown_too),
        cmocka_unit_test(printing_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, commands_begin, commands_end);
}
