/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to tunnel.list, byte for byte: other programs read it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "unit/tunnel/fake.h"

static const char config[] = "targets:\n"
                             "  db:\n"
                             "    address: \"10.0.0.5:5432\"\n"
                             "    allow: \"*\"\n"
                             "forwards:\n"
                             "  web:\n"
                             "    listen: \"127.0.0.1:8080\"\n"
                             "    to: paris/hub\n"
                             "    target: web\n"
                             "  shell:\n"
                             "    listen: \"127.0.0.1:22\"\n"
                             "    to: paris/hub\n"
                             "    target: ssh\n";

static void answers_with_everything(void **state)
{
    (void)state;
    struct fake *f = fake_new(config);
    f->busy_address = "127.0.0.1:22";
    fake_start(f);
    fake_client(f, 1); /* s1 */
    fake_client(f, 1); /* s2 */
    fake_up(f, 1);
    fake_up(f, 2);
    fake_down(f, 2, SN_OK, 12, 3456);
    fake_ask(f, "berlin/edge", "db"); /* s3 */
    fake_dialed(f, 1);
    fake_ask(f, "berlin/edge", "db"); /* s4 */
    fake_dial_failed(f, 2, SN_EUNREACHABLE);
    fake_message(f, "", "tunnel.list", 9);
    assert_string_equal(f->reply_type, "tunnel.list");
    assert_string_equal(
        f->reply,
        "{\"forwards\":["
        "{\"name\":\"web\",\"listen\":\"127.0.0.1:8080\",\"to\":\"paris/hub\",\"target\":\"web\","
        "\"state\":\"listening\",\"bound\":\"127.0.0.1:8080\",\"waiting\":0,\"open\":1,\"opened\":"
        "2,\"failed\":0,\"refused\":0,"
        "\"sent_bytes\":12,\"received_bytes\":3456,\"sent_rate\":0,\"received_rate\":0,"
        "\"errors\":{},\"error\":\"\"},"
        "{\"name\":\"shell\",\"listen\":\"127.0.0.1:22\",\"to\":\"paris/hub\",\"target\":\"ssh\","
        "\"state\":\"failed\",\"bound\":\"\",\"waiting\":0,\"open\":0,\"opened\":0,\"failed\":0,"
        "\"refused\":0,\"sent_bytes\":0,\"received_bytes\":0,\"sent_rate\":0,"
        "\"received_rate\":0,\"errors\":{},\"error\":\"somebody else holds it\"}],"
        "\"targets\":["
        "{\"name\":\"db\",\"address\":\"10.0.0.5:5432\",\"waiting\":1,\"open\":1,\"opened\":1,"
        "\"denied\":0,\"failed\":0,\"refused\":0,\"sent_bytes\":0,\"received_bytes\":0,"
        "\"sent_rate\":0,\"received_rate\":0,\"errors\":{},"
        "\"last_error\":\"no way to the address\"}]}");
    fake_stop(f);
    fake_message(f, "", "tunnel.list", 9);
    assert_non_null(
        strstr(f->reply, "\"state\":\"stopped\",\"bound\":\"\",\"waiting\":0,\"open\":1"));
    fake_settle(f);
    fake_down(f, 1, SN_OK, 0, 0);
    fake_down(f, 3, SN_OK, 0, 0);
    fake_free(f);
}

static void expect_in_list(struct fake *f, const char *part)
{
    fake_message(f, "", "tunnel.list", 9);
    if (strstr(f->reply, part) == NULL) fail_msg("no %s in %s", part, f->reply);
}

/* Clients whose tunnel is not open yet are seen, with whom they wait for, however their wait ends. */
static void waiting_clients_are_told(void **state)
{
    (void)state;
    struct fake *f = fake_new(config);
    fake_start(f);
    expect_in_list(f, "\"waiting\":0,\"open\":0");
    fake_client(f, 1); /* s1 */
    fake_client(f, 1); /* s2 */
    fake_client(f, 1); /* s3 */
    expect_in_list(f, "\"waiting\":3,\"open\":0");
    expect_in_list(f, "\"error\":\"waiting for paris/hub\"");
    fake_up(f, 1);
    expect_in_list(f, "\"waiting\":2,\"open\":1");
    fake_down(f, 2, SN_ETIMEDOUT, 0, 0);
    expect_in_list(f, "\"error\":\"waiting for paris/hub\"");
    fake_down(f, 3, SN_ETIMEDOUT, 0, 0);
    expect_in_list(f, "\"waiting\":0,\"open\":1,\"opened\":1,\"failed\":2");
    expect_in_list(f, "\"error\":\"the deadline passed\"");
    f->next[FAKE_OPEN] = SN_EFULL;
    fake_client(f, 1); /* refused at once */
    expect_in_list(f, "\"waiting\":0");
    fake_down(f, 1, SN_OK, 0, 0);
    fake_stop(f);
    fake_free(f);
}

/* Bytes are there while they move, with their rate over the last seconds; afterwards it falls to zero, and then no
 * timer runs any more. */
static void bytes_and_rates_are_live(void **state)
{
    (void)state;
    struct fake *f = fake_new(config);
    fake_start(f);
    assert_false(f->timers[TOKEN_RATE_TICK].is_set);
    fake_client(f, 1);
    assert_false(f->timers[TOKEN_RATE_TICK].is_set);
    fake_up(f, 1);
    fake_move(f, 1, 1000, 50);
    expect_in_list(f, "\"sent_bytes\":1000,\"received_bytes\":50,\"sent_rate\":0,");
    fake_wait(f, 500);
    expect_in_list(f, "\"sent_rate\":2000,\"received_rate\":100,");
    for (int i = 0; i < 10; i++) {
        fake_wait(f, 1000);
        fake_move(f, 1, 3000, 0);
    }
    expect_in_list(f, "\"sent_bytes\":31000,\"received_bytes\":50,");
    /* Samples at 7, 8, 9 and 10 s; this is 10.5 s: 12,000 bytes in 3.5 s. */
    expect_in_list(f, "\"sent_rate\":3428,\"received_rate\":0,");
    fake_down(f, 1, SN_OK, 31000, 50);
    fake_wait(f, 5000);
    expect_in_list(f, "\"sent_bytes\":31000,\"received_bytes\":50,\"sent_rate\":0,");
    assert_false(f->timers[TOKEN_RATE_TICK].is_set);
    /* A pause is no part of the next rate. */
    fake_wait(f, 1000000);
    fake_client(f, 1);
    fake_up(f, 2);
    fake_move(f, 2, 0, 500);
    fake_wait(f, 1000);
    expect_in_list(f, "\"sent_rate\":0,\"received_rate\":500,");
    fake_down(f, 2, SN_OK, 0, 500);
    fake_stop(f);
    fake_free(f);
}

static void errors_are_told_by_kind(void **state)
{
    (void)state;
    struct fake *f =
        fake_new("targets:\n"
                 "  db: {address: \"10.0.0.5:5432\", allow: \"a/*\", connect_wait_ms: 0}\n"
                 "forwards:\n"
                 "  web: {listen: \"127.0.0.1:8080\", to: p/h, target: web}\n");
    static const enum sn_err ends[] = {SN_EDENIED, SN_EUNREACHABLE, SN_EDENIED, SN_ERR_COUNT + 5};
    fake_start(f);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        uint64_t stream = f->stream_count + 1;
        fake_client(f, 1);
        fake_down(f, stream, ends[i], 0, 0);
    }
    expect_in_list(f, "\"errors\":{\"denied\":2,\"unreachable\":1,\"unknown-error\":1},\"error\"");
    fake_ask(f, "b/x", "db");
    fake_ask(f, "a/x", "db");
    fake_dial_failed(f, 1, SN_ETIMEDOUT);
    expect_in_list(f, "\"errors\":{\"denied\":1,\"timed-out\":1},\"last_error\"");
    fake_settle(f);
    fake_stop(f);
    fake_free(f);
}

static void nothing_is_an_answer_too(void **state)
{
    (void)state;
    struct fake *f = fake_new(NULL);
    fake_start(f);
    fake_message(f, "", "tunnel.list", 1);
    assert_string_equal(f->reply, "{\"forwards\":[],\"targets\":[]}");
    fake_free(f);
}

static void only_this_agent_is_answered(void **state)
{
    (void)state;
    struct fake *f = fake_new(config);
    fake_start(f);
    f->trace_size = 0;
    f->logs_too = 1;
    fake_message(f, "amsterdam/edge", "tunnel.list", 1);
    /* Told at once, and counted. */
    fake_expect(f, "TUNNEL-LIST-DENIED agent=amsterdam/edge\n");
    assert_int_equal(f->metrics[METRIC_DENIED], 1);
    assert_string_equal(f->reply_type, "tunnel.refused");
    assert_string_equal(f->reply, "");
    free(f->reply);
    f->reply = NULL;
    fake_message(f, "amsterdam/edge", "tunnel.list", 0); /* not a question */
    f->trace_size = 0;
    fake_message(f, "", "tunnel.list", 0);
    fake_message(f, "", "tunnel.lists", 1);
    assert_null(f->reply);
    f->next[FAKE_REPLY] = SN_EFULL;
    fake_message(f, "", "tunnel.list", 1);
    fake_expect(f, "TUNNEL-LIST-FAILED err=full\n");
    size_t before = sn_alloc_in_use();
    sn_alloc_fail_nth(1);
    fake_message(f, "", "tunnel.list", 1);
    sn_alloc_fail_nth(0);
    fake_expect(f, "TUNNEL-LIST-FAILED err=no-memory\n");
    assert_int_equal(sn_alloc_in_use(), before);
    f->logs_too = 0;
    fake_stop(f);
    fake_free(f);
}

/* As many forwards as a fleet may have are more than a message holds. */
static void what_does_not_fit_is_counted(void **state)
{
    (void)state;
    const size_t capacity = (size_t)1 << 20;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t size = (size_t)snprintf(text, capacity, "forwards:\n");
    for (unsigned i = 0; i < 1200; i++) {
        size += (size_t)snprintf(text + size, capacity - size,
                                 "  f%u: {listen: \"127.0.0.1:%u\", to: paris/hub, target: web}\n",
                                 i, 10000 + i);
    }
    (void)snprintf(text + size, capacity - size, /* fits */
                   "targets: {t: {address: \"127.0.0.1:1\", allow: \"*\"}}\n");
    struct fake *f = fake_new(text);
    free(text);
    f->is_quiet = 1;
    fake_start(f);
    assert_int_equal(f->listener_count, 1200);
    fake_message(f, "", "tunnel.list", 1);
    size_t got = strlen(f->reply);
    assert_true(got <= SN_MESSAGE_BYTES_MAX && got > SN_MESSAGE_BYTES_MAX - 1000);
    unsigned listed = 0;
    for (const char *at = f->reply; (at = strstr(at, "{\"name\":")) != NULL; at++) listed++;
    char tail[64];
    (void)snprintf(tail, sizeof tail, "],\"omitted\":%u}", 1201 - listed); /* fits */
    assert_string_equal(f->reply + got - strlen(tail), tail);
    fake_stop(f);
    fake_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_with_everything),
        cmocka_unit_test(waiting_clients_are_told),
        cmocka_unit_test(bytes_and_rates_are_live),
        cmocka_unit_test(errors_are_told_by_kind),
        cmocka_unit_test(nothing_is_an_answer_too),
        cmocka_unit_test(only_this_agent_is_answered),
        cmocka_unit_test(what_does_not_fit_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
