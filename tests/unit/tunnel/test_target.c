/* SPDX-License-Identifier: Apache-2.0 */
/* The side of the service. */
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

static const char targets[] = "targets:\n"
                              "  web:\n"
                              "    address: \"127.0.0.1:8000\"\n"
                              "    allow: [\"amsterdam/*\"]\n"
                              "  slow:\n"
                              "    address: \"192.0.2.1:80\"\n"
                              "    allow: \"role:reader\"\n"
                              "  once:\n"
                              "    address: \"127.0.0.1:9\"\n"
                              "    allow: [\"paris/one\", \"*\"]\n"
                              "    connect_wait_ms: 0\n";

static struct counts *counts(struct fake *f, uint32_t index)
{
    struct target *target = sni_tunnel_pool_at(&f->state->targets, index);
    return &target->counts;
}

static struct fake *started(void)
{
    struct fake *f = fake_new(targets);
    fake_start(f);
    fake_expect(f, "");
    return f;
}

static void finish(struct fake *f)
{
    fake_settle(f);
    fake_stop(f);
    fake_free(f);
}

static void an_allowed_agent_reaches_the_service(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_ask(f, "amsterdam/edge", "web");
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d1\n");
    fake_dialed(f, 1);
    fake_expect(f, "accept s1\nsplice s1 c1\n");
    assert_int_equal(counts(f, 0)->opened, 1);
    assert_int_equal(counts(f, 0)->open, 1);
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 1);
    fake_down(f, 1, SN_OK, 7, 8);
    assert_int_equal(counts(f, 0)->open, 0);
    assert_int_equal(fake_sent(counts(f, 0)), 7);
    assert_int_equal(fake_received(counts(f, 0)), 8);
    assert_int_equal(counts(f, 0)->failed, 0);
    fake_expect(f, "");
    finish(f);
}

static void others_are_denied(void **state)
{
    (void)state;
    struct fake *f = started();
    f->logs_too = 1;
    fake_ask(f, "berlin/edge", "web");
    fake_expect(f, "TUNNEL-DENIED agent=berlin/edge target=web\nreset s1 denied\n");
    fake_ask(f, "amsterdamX/edge", "web");
    fake_expect(f, "TUNNEL-DENIED agent=amsterdamX/edge target=web\nreset s2 denied\n");
    assert_int_equal(counts(f, 0)->denied, 2);
    assert_int_equal(counts(f, 0)->failed, 0);
    assert_int_equal(f->metrics[METRIC_DENIED], 2);
    fake_ask(f, "amsterdam/desk", "slow"); /* it does not have the role */
    fake_expect(f, "TUNNEL-DENIED agent=amsterdam/desk target=slow\nreset s3 denied\n");
    fake_ask(f, "amsterdam/edge", "slow");
    fake_expect(f, "dial 192.0.2.1:80 3000 = d1\n");
    fake_ask(f, "berlin/edge", "once"); /* the second pattern of the list */
    fake_expect(f, "dial 127.0.0.1:9 3000 = d2\n");
    f->logs_too = 0;
    fake_settle(f);
    fake_down(f, 4, SN_ERESET, 0, 0);
    fake_down(f, 5, SN_ERESET, 0, 0);
    fake_dial_failed(f, 1, SN_ETIMEDOUT);
    fake_dial_failed(f, 2, SN_ETIMEDOUT);
    fake_expect(f, "");
    finish(f);
}

static void unknown_targets_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"wed", "WEB", "web2", "we", "127.0.0.1:8000"};
    struct fake *f = started();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fake_ask(f, "amsterdam/edge", names[i]);
        char wanted[64];
        (void)snprintf(wanted, sizeof wanted, "reset s%zu not-found\n", i + 1); /* fits */
        fake_expect(f, wanted);
    }
    assert_int_equal(f->metrics[METRIC_DENIED], 5);
    f->logs_too = 1;
    fake_ask(f, "amsterdam/edge", "web2");
    fake_expect(f, "TUNNEL-TARGET-UNKNOWN agent=amsterdam/edge target=web2\nreset s6 not-found\n");
    /* What a peer sends goes into the log only when it is harmless there. */
    static const char *const bad[] = {
        "",
        "web x=y",
        "a\nb",
        "a\"b",
        "\x1b[31m",
        "\xff",
        "a-name-that-is-longer-than-any-label-could-ever-be-and-then-some-more",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fake_ask(f, "amsterdam/edge", bad[i]);
        assert_non_null(strstr(f->trace, "agent=amsterdam/edge target=?\n"));
        f->trace_size = 0;
    }
    uint8_t big[SN_STREAM_META_BYTES_MAX];
    memset(big, 'w', sizeof big);
    fake_ask_bytes(f, "amsterdam/edge", big, sizeof big);
    fake_ask_bytes(f, "amsterdam/edge", "web", 4); /* with its NUL: not the name */
    assert_non_null(strstr(f->trace, "reset s15 not-found\n"));
    f->trace_size = 0;
    f->logs_too = 0;
    finish(f);
}

static void a_late_service_is_waited_for(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_ask(f, "amsterdam/edge", "web");
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d1\n");
    fake_dial_failed(f, 1, SN_EUNREACHABLE);
    fake_expect(f, "");
    fake_wait(f, 99);
    fake_expect(f, "");
    fake_wait(f, 1);
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d2\n");
    fake_dial_failed(f, 2, SN_EUNREACHABLE);
    fake_wait(f, 200);
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d3\n");
    assert_int_equal(f->metrics[METRIC_DIAL_RETRIES], 2);
    assert_int_equal(counts(f, 0)->failed, 0);
    assert_int_equal(counts(f, 0)->last_err, SN_EUNREACHABLE);
    fake_dialed(f, 3);
    fake_expect(f, "accept s1\nsplice s1 c1\n");
    assert_int_equal(counts(f, 0)->last_err, SN_OK);
    fake_down(f, 1, SN_OK, 0, 0);
    fake_wait(f, 60000);
    fake_expect(f, "");
    finish(f);
}

/* T31, never: dials end as soon as they are made, until the time is over. */
static void a_dead_service_is_given_up_in_time(void **state)
{
    (void)state;
    struct fake *f = started();
    uint64_t start = f->now_ms;
    fake_ask(f, "amsterdam/edge", "web");
    uint64_t last = 0;
    while (!f->streams[1].is_reset) {
        assert_true(f->now_ms - start <= 10100);
        if (last == f->dial_count) {
            fake_wait(f, 10);
            continue;
        }
        assert_int_equal(f->dial_count, last + 1); /* one at a time */
        last = f->dial_count;
        assert_true(f->dials[last].timeout_ms <= 3000);
        fake_dial_failed(f, last, SN_EUNREACHABLE);
    }
    assert_true(f->now_ms - start >= 10000);
    assert_true(last >= 12 && last <= 15); /* 100, 200, 400, 800, then every 1000 ms */
    assert_non_null(strstr(f->trace, "reset s1 unreachable\n"));
    assert_int_equal(counts(f, 0)->failed, 1);
    assert_int_equal(f->metrics[METRIC_FAILED], 1);
    f->trace_size = 0;
    finish(f);
}

/* A service that swallows: each dial times out, the last one in what is left. */
static void a_silent_service_is_given_up_in_time(void **state)
{
    (void)state;
    struct fake *f = started();
    uint64_t start = f->now_ms;
    fake_ask(f, "amsterdam/edge", "slow");
    while (!f->streams[1].is_reset) {
        uint64_t dial = f->dial_count;
        fake_wait(f, f->dials[dial].timeout_ms);
        fake_dial_failed(f, dial, SN_ETIMEDOUT);
        if (f->streams[1].is_reset) break;
        while (f->dial_count == dial) fake_wait(f, 10);
    }
    assert_in_range(f->now_ms - start, 10000, 10300);
    assert_int_equal(counts(f, 1)->last_err, SN_ETIMEDOUT);
    f->trace_size = 0;
    finish(f);
}

static void zero_wait_means_one_dial(void **state)
{
    (void)state;
    struct fake *f = started();
    f->logs_too = 1;
    fake_ask(f, "berlin/edge", "once");
    fake_expect(f, "dial 127.0.0.1:9 3000 = d1\n");
    fake_dial_failed(f, 1, SN_EUNREACHABLE);
    fake_expect(f, "reset s1 unreachable\n"
                   "TUNNEL-TARGET-FAILED target=once address=127.0.0.1:9 err=unreachable "
                   "text=\"no way to the address\"\n");
    f->logs_too = 0;
    /* A call that fails at once is a failed dial like any other. */
    f->next[FAKE_DIAL] = SN_ENOSPC;
    fake_ask(f, "berlin/edge", "once");
    fake_expect(f, "dial 127.0.0.1:9: no-space\nreset s2 unreachable\n");
    f->next[FAKE_DIAL] = SN_ENOSPC;
    fake_ask(f, "amsterdam/edge", "web");
    fake_expect(f, "dial 127.0.0.1:8000: no-space\n");
    fake_wait(f, 100);
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d2\n");
    fake_dialed(f, 2);
    fake_down(f, 3, SN_OK, 0, 0);
    f->trace_size = 0;
    finish(f);
}

/* T32: the second client does not wait for the first one's dial. */
static void a_slow_dial_holds_up_nobody(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_ask(f, "amsterdam/edge", "slow");
    fake_ask(f, "amsterdam/edge", "web");
    fake_ask(f, "amsterdam/desk", "web");
    fake_expect(f, "dial 192.0.2.1:80 3000 = d1\n"
                   "dial 127.0.0.1:8000 3000 = d2\n"
                   "dial 127.0.0.1:8000 3000 = d3\n");
    fake_dialed(f, 3);
    fake_dialed(f, 2);
    fake_expect(f, "accept s3\nsplice s3 c1\naccept s2\nsplice s2 c2\n");
    assert_int_equal(counts(f, 0)->open, 2);
    fake_dialed(f, 1);
    fake_expect(f, "accept s1\nsplice s1 c3\n");
    for (uint64_t i = 1; i <= 3; i++) fake_down(f, i, SN_OK, 0, 0);
    finish(f);
}

static void a_client_that_left_leaves_nothing(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_ask(f, "amsterdam/edge", "web");
    fake_down(f, 1, SN_ERESET, 0, 0); /* while dialing */
    assert_int_equal(counts(f, 0)->failed, 1);
    fake_ask(f, "amsterdam/edge", "web"); /* takes the flow's place */
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d1\ndial 127.0.0.1:8000 3000 = d2\n");
    fake_dialed(f, 1);
    fake_expect(f, "reset c1\n");
    fake_dial_failed(f, 2, SN_EUNREACHABLE);
    fake_down(f, 2, SN_ERESET, 0, 0); /* while waiting */
    fake_wait(f, 60000);
    fake_expect(f, "");
    fake_ask(f, "amsterdam/edge", "web");
    fake_down(f, 3, SN_ERESET, 0, 0);
    fake_dial_failed(f, 3, SN_ETIMEDOUT); /* for nobody */
    assert_int_equal(f->state->flows.count, 1);
    f->trace_size = 0;
    finish(f);
}

/* The stream went down before it was accepted, but the actor hears of that later. */
static void a_down_that_crosses_the_accept_is_understood(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_ask(f, "amsterdam/edge", "web");
    f->streams[1].is_down = 1;
    fake_dialed(f, 1);
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d1\naccept s1\nsplice s1 c1\n");
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 1);
    f->streams[1].is_down = 0;
    assert_int_equal(f->streams[1].token, 0);
    fake_down(f, 1, SN_ERESET, 0, 0);
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 0);
    finish(f);
}

static void a_stream_that_cannot_be_joined_is_reset(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_ask(f, "amsterdam/edge", "web");
    f->next[FAKE_ACCEPT] = SN_ENOMEM;
    fake_dialed(f, 1);
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d1\nreset c1\nreset s1 no-memory\n");
    fake_ask(f, "amsterdam/edge", "web");
    f->next[FAKE_SPLICE] = SN_ENOMEM;
    fake_dialed(f, 2);
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d2\naccept s2\nreset c2\nreset s2 no-memory\n");
    assert_int_equal(counts(f, 0)->failed, 2);
    assert_int_equal(counts(f, 0)->opened, 0);
    finish(f);
}

static void a_stopping_agent_gives_up_what_waits(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_ask(f, "amsterdam/edge", "web");  /* will be dialing */
    fake_ask(f, "amsterdam/edge", "web");  /* waiting */
    fake_ask(f, "amsterdam/edge", "slow"); /* dialing, to fail */
    fake_ask(f, "amsterdam/edge", "web");  /* waiting */
    fake_dial_failed(f, 2, SN_EUNREACHABLE);
    fake_dial_failed(f, 4, SN_EUNREACHABLE);
    f->trace_size = 0;
    fake_stop(f);
    fake_expect(f, "reset s2 cancelled\nreset s4 cancelled\n");
    fake_dialed(f, 1);
    fake_expect(f, "accept s1\nsplice s1 c1\n");
    fake_dial_failed(f, 3, SN_EUNREACHABLE);
    fake_expect(f, "reset s3 cancelled\n");
    fake_ask(f, "amsterdam/edge", "web");
    fake_expect(f, "reset s5 cancelled\n");
    fake_down(f, 1, SN_OK, 0, 0);
    fake_settle(f);
    fake_wait(f, 60000);
    fake_expect(f, "");
    fake_free(f);
}

static void lack_of_memory_refuses_streams(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct fake *f = started();
    sn_alloc_fail_nth(1);
    fake_ask(f, "amsterdam/edge", "web");
    sn_alloc_fail_nth(0);
    fake_expect(f, "reset s1 no-memory\n");
    assert_int_equal(counts(f, 0)->failed, 1);
    fake_ask(f, "amsterdam/edge", "web");
    f->next[FAKE_TIMER] = SN_ENOMEM;
    fake_dial_failed(f, 1, SN_EUNREACHABLE); /* no timer for the next dial */
    assert_int_equal(f->result, SN_OK);
    fake_wait(f, 5000);
    fake_expect(f, "dial 127.0.0.1:8000 3000 = d1\n");
    fake_ask(f, "berlin/edge", "web"); /* any event sets it */
    fake_wait(f, 50);
    fake_expect(f, "reset s3 denied\ndial 127.0.0.1:8000 3000 = d2\n");
    fake_dialed(f, 2);
    fake_down(f, 2, SN_OK, 0, 0);
    finish(f);
    assert_int_equal(sn_alloc_in_use(), before);
}

/* More wait than one tick may dial; all get their turn, oldest first. */
static void many_waiting_clients_all_get_their_turn(void **state)
{
    (void)state;
    struct fake *f = fake_new("targets:\n"
                              "  web: {address: \"127.0.0.1:8000\", allow: \"*\",\n"
                              "    max_connections: 2400, max_per_agent: 600}\n");
    fake_start(f);
    f->is_quiet = 1;
    const uint64_t count = 600;
    for (uint64_t i = 1; i <= count; i++) fake_ask(f, "amsterdam/edge", "web");
    for (uint64_t i = 1; i <= count; i++) fake_dial_failed(f, i, SN_EUNREACHABLE);
    fake_wait(f, 100);
    assert_int_equal(f->dial_count, count + 256);
    fake_wait(f, 50);
    assert_int_equal(f->dial_count, count + 512);
    fake_wait(f, 50);
    assert_int_equal(f->dial_count, count + 600);
    for (uint64_t i = 1; i <= count; i++) fake_dialed(f, count + i);
    assert_int_equal(counts(f, 0)->open, count);
    for (uint64_t i = 1; i <= count; i++) {
        assert_int_equal(f->streams[i].conn, i); /* each with its own connection */
        fake_down(f, i, SN_OK, 1, 1);
    }
    finish(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allowed_agent_reaches_the_service),
        cmocka_unit_test(others_are_denied),
        cmocka_unit_test(unknown_targets_are_refused),
        cmocka_unit_test(a_late_service_is_waited_for),
        cmocka_unit_test(a_dead_service_is_given_up_in_time),
        cmocka_unit_test(a_silent_service_is_given_up_in_time),
        cmocka_unit_test(zero_wait_means_one_dial),
        cmocka_unit_test(a_slow_dial_holds_up_nobody),
        cmocka_unit_test(a_client_that_left_leaves_nothing),
        cmocka_unit_test(a_down_that_crosses_the_accept_is_understood),
        cmocka_unit_test(a_stream_that_cannot_be_joined_is_reset),
        cmocka_unit_test(a_stopping_agent_gives_up_what_waits),
        cmocka_unit_test(lack_of_memory_refuses_streams),
        cmocka_unit_test(many_waiting_clients_all_get_their_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
