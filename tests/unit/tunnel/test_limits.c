/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets a place, who is refused, and what the refused ones cost: nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/tunnel/fake.h"

static const char config[] =
    "targets:\n"
    "  web: {address: \"127.0.0.1:80\", allow: \"*\", max_connections: 8, max_per_agent: 5,\n"
    "    idle_ms: 7000}\n"
    "  tiny: {address: \"127.0.0.1:81\", allow: \"*\", max_connections: 2}\n"
    "forwards:\n"
    "  one: {listen: \"127.0.0.1:8080\", to: p/h, target: a, max_connections: 2, idle_ms: 9000}\n"
    "  two: {listen: \"127.0.0.1:8081\", to: p/h, target: b}\n";

static struct fake *started(void)
{
    struct fake *f = fake_new(config);
    fake_start(f);
    f->trace_size = 0;
    return f;
}

static void finish(struct fake *f)
{
    fake_settle(f);
    fake_stop(f);
    fake_free(f);
}

static void a_full_forward_resets_clients(void **state)
{
    (void)state;
    struct fake *f = started();
    struct counts *counts = &fake_forward(f, "one")->counts;
    f->logs_too = 1;
    fake_client(f, 1);
    fake_client(f, 1);
    fake_up(f, 1); /* one is up, one waits: both have a place */
    f->trace_size = 0;
    fake_client(f, 1);
    fake_client(f, 1);
    fake_expect(f, "reset c3\nFORWARD-FULL forward=one max_connections=2\nreset c4\n");
    assert_int_equal(counts->refused, 2);
    assert_int_equal(counts->failed, 0);
    assert_int_equal(f->metrics[METRIC_REFUSED], 2);
    fake_client(f, 2); /* the other one has places of its own */
    fake_expect(f, "open p/h tunnel b 15000 = s3\nsplice s3 c5\n");
    fake_down(f, 2, SN_ETIMEDOUT, 0, 0);
    f->trace_size = 0;
    fake_client(f, 1);
    fake_expect(f, "open p/h tunnel a 15000 = s4\nsplice s4 c6\n");
    fake_client(f, 1); /* full again: another line */
    fake_expect(f, "reset c7\nFORWARD-FULL forward=one max_connections=2\n");
    f->logs_too = 0;
    assert_int_equal(f->streams[1].idle_ms, 9000);
    assert_int_equal(f->streams[3].idle_ms, 0);
    fake_down(f, 1, SN_OK, 0, 0);
    fake_down(f, 3, SN_OK, 0, 0);
    fake_down(f, 4, SN_OK, 0, 0);
    finish(f);
}

static void a_full_target_refuses(void **state)
{
    (void)state;
    struct fake *f = started();
    struct counts *counts = &fake_target(f, "web")->counts;
    for (uint64_t i = 1; i <= 5; i++) fake_ask(f, "a/greedy", "web");
    for (uint64_t i = 1; i <= 5; i++) fake_dialed(f, i);
    assert_int_equal(f->streams[1].idle_ms, 7000);
    f->trace_size = 0;
    f->logs_too = 1;
    fake_ask(f, "a/greedy", "web");
    fake_ask(f, "a/greedy", "web");
    fake_expect(f, "reset s6 full\n"
                   "TARGET-FULL target=web agent=a/greedy limit=max_per_agent value=5\n"
                   "reset s7 full\n");
    f->logs_too = 0;
    for (uint64_t i = 1; i <= 3; i++) fake_ask(f, "a/modest", "web"); /* s8 to s10 */
    f->trace_size = 0;
    f->logs_too = 1;
    fake_ask(f, "a/third", "web");
    fake_expect(f, "reset s11 full\n"
                   "TARGET-FULL target=web agent=a/third limit=max_connections value=8\n");
    assert_int_equal(counts->refused, 3);
    assert_int_equal(counts->failed + counts->denied, 0);
    assert_int_equal(f->metrics[METRIC_REFUSED], 3);
    fake_ask(f, "a/greedy", "tiny"); /* places are a target's own */
    fake_expect(f, "dial 127.0.0.1:81 3000 = d9\n");
    fake_down(f, 1, SN_OK, 0, 0);
    fake_ask(f, "a/greedy", "web");
    fake_expect(f, "dial 127.0.0.1:80 3000 = d10\n");
    f->logs_too = 0;
    f->is_quiet = 1;
    for (uint64_t i = 6; i <= 10; i++) fake_dial_failed(f, i, SN_EUNREACHABLE);
    fake_wait(f, 20000);
    for (uint64_t i = 11; i <= f->dial_count; i++) {
        if (!f->dials[i].is_answered) fake_dial_failed(f, i, SN_EUNREACHABLE);
    }
    fake_settle(f);
    for (uint64_t i = 1; i <= f->stream_count; i++) {
        if (!f->streams[i].is_down) fake_down(f, i, SN_OK, 0, 0);
    }
    finish(f);
}

/* A burst to a service that answers is no reason to refuse anybody. */
static void a_burst_may_dial_all_at_once(void **state)
{
    (void)state;
    struct fake *f = started();
    static const char *const agents[] = {"a/one", "a/two"};
    for (uint64_t i = 1; i <= 8; i++) fake_ask(f, agents[i % 2], "web");
    assert_int_equal(f->dial_count, 8);
    assert_int_equal(fake_target(f, "web")->counts.refused, 0);
    for (uint64_t i = 1; i <= 8; i++) fake_dialed(f, i);
    assert_int_equal(fake_target(f, "web")->counts.open, 8);
    for (uint64_t i = 1; i <= 8; i++) fake_down(f, i, SN_OK, 0, 0);
    finish(f);
}

/* A dead service: a quarter of its places waits, all others are told at once. */
static void a_dead_service_keeps_a_quarter(void **state)
{
    (void)state;
    struct fake *f = started();
    struct target *web = fake_target(f, "web");
    for (uint64_t i = 1; i <= 5; i++) fake_ask(f, "a/one", "web");
    f->trace_size = 0;
    f->logs_too = 1;
    fake_dial_failed(f, 1, SN_EUNREACHABLE);
    fake_expect(f, "reset s1 unreachable\n"
                   "TARGET-FULL target=web agent=a/one limit=waiting value=2\n");
    fake_dial_failed(f, 2, SN_EUNREACHABLE);
    fake_dial_failed(f, 3, SN_EUNREACHABLE);
    fake_expect(f, "reset s2 unreachable\nreset s3 unreachable\n");
    fake_dial_failed(f, 4, SN_EUNREACHABLE);
    fake_dial_failed(f, 5, SN_EUNREACHABLE);
    fake_ask(f, "a/two", "web");
    fake_expect(f, "reset s6 unreachable\n");
    assert_int_equal(web->pending, 2);
    assert_int_equal(web->counts.refused, 4);
    assert_int_equal(web->counts.failed, 0);
    fake_wait(f, 100);
    fake_expect(f, "dial 127.0.0.1:80 3000 = d6\ndial 127.0.0.1:80 3000 = d7\n");
    fake_dialed(f, 6); /* it is back: everybody is welcome */
    fake_ask(f, "a/two", "web");
    fake_ask(f, "a/two", "web");
    fake_expect(f, "accept s4\nsplice s4 c1\ndial 127.0.0.1:80 3000 = d8\n"
                   "dial 127.0.0.1:80 3000 = d9\n");
    f->logs_too = 0;
    for (uint64_t i = 7; i <= 9; i++) fake_dialed(f, i);
    assert_int_equal(web->counts.open, 4);
    assert_int_equal(web->pending, 0);
    fake_settle(f);
    for (uint64_t i = 1; i <= f->stream_count; i++) {
        if (!f->streams[i].is_down) fake_down(f, i, SN_OK, 0, 0);
    }
    finish(f);
}

/* Of few places one may always wait. */
static void the_smallest_quarter_is_one(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_ask(f, "a/one", "tiny");
    fake_dial_failed(f, 1, SN_EUNREACHABLE);
    assert_int_equal(fake_target(f, "tiny")->pending, 1);
    fake_ask(f, "a/one", "tiny");
    fake_expect(f, "dial 127.0.0.1:81 3000 = d1\nreset s2 unreachable\n");
    fake_down(f, 1, SN_ERESET, 0, 0);
    finish(f);
}

static void a_stream_that_cannot_be_tuned_is_reset(void **state)
{
    (void)state;
    struct fake *f = started();
    f->next[FAKE_TUNE] = SN_ENOMEM;
    fake_client(f, 1);
    fake_expect(f, "open p/h tunnel a 15000 = s1\nreset s1 no-memory\nreset c1\n");
    fake_ask(f, "a/one", "web");
    f->next[FAKE_TUNE] = SN_ENOMEM;
    fake_dialed(f, 1);
    fake_expect(f, "dial 127.0.0.1:80 3000 = d1\naccept s2\nreset c2\nreset s2 no-memory\n");
    finish(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_forward_resets_clients),
        cmocka_unit_test(a_full_target_refuses),
        cmocka_unit_test(a_burst_may_dial_all_at_once),
        cmocka_unit_test(a_dead_service_keeps_a_quarter),
        cmocka_unit_test(the_smallest_quarter_is_one),
        cmocka_unit_test(a_stream_that_cannot_be_tuned_is_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
