/* SPDX-License-Identifier: Apache-2.0 */
/* The side of the client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "unit/tunnel/fake.h"

static const char two_forwards[] = "forwards:\n"
                                   "  web:\n"
                                   "    listen: \"127.0.0.1:8080\"\n"
                                   "    to: paris/hub\n"
                                   "    target: web\n"
                                   "  shell:\n"
                                   "    listen: \"127.0.0.1:2222\"\n"
                                   "    to: paris/spare\n"
                                   "    target: ssh\n"
                                   "    open_wait_ms: 700\n";

static struct forward *forward(struct fake *f, uint32_t index)
{
    return sni_tunnel_pool_at(&f->state->forwards, index);
}

static struct fake *started(void)
{
    struct fake *f = fake_new(two_forwards);
    fake_start(f);
    fake_expect(f, "listen 127.0.0.1:8080 = l1\nlisten 127.0.0.1:2222 = l2\n");
    return f;
}

static void finish(struct fake *f)
{
    fake_settle(f);
    fake_stop(f);
    fake_free(f);
}

static void without_configuration_nothing_happens(void **state)
{
    (void)state;
    struct fake *f = fake_new(NULL);
    fake_start(f);
    fake_stop(f);
    fake_expect(f, "");
    fake_free(f);
    f = fake_new("{}");
    fake_start(f);
    fake_wait(f, 60000);
    fake_expect(f, "");
    finish(f);
}

static void a_client_gets_its_tunnel(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_client(f, 1);
    fake_expect(f, "open paris/hub tunnel web 15000 = s1\nsplice s1 c1\n");
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 0);
    fake_up(f, 1);
    fake_up(f, 1); /* once is all that counts */
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 1);
    assert_int_equal(forward(f, 0)->counts.open, 1);
    fake_client(f, 2);
    fake_expect(f, "open paris/spare tunnel ssh 700 = s2\nsplice s2 c2\n");
    fake_up(f, 2);
    fake_down(f, 1, SN_OK, 100, 2000);
    assert_int_equal(forward(f, 0)->counts.open, 0);
    assert_int_equal(fake_sent(&forward(f, 0)->counts), 100);
    assert_int_equal(fake_received(&forward(f, 0)->counts), 2000);
    assert_int_equal(forward(f, 0)->counts.failed, 0);
    assert_int_equal(forward(f, 1)->counts.open, 1);
    fake_down(f, 2, SN_ERESET, 1, 2);
    assert_int_equal(forward(f, 1)->counts.failed, 1);
    assert_int_equal(forward(f, 1)->counts.last_err, SN_ERESET);
    assert_int_equal(f->metrics[METRIC_OPENED], 2);
    assert_int_equal(f->metrics[METRIC_FAILED], 1);
    assert_int_equal(f->metrics[METRIC_SENT_BYTES], 101);
    assert_int_equal(f->metrics[METRIC_RECEIVED_BYTES], 2002);
    fake_expect(f, "");
    finish(f);
}

static void a_refused_tunnel_ends_with_its_stream(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_client(f, 1);
    fake_expect(f, "open paris/hub tunnel web 15000 = s1\nsplice s1 c1\n");
    f->logs_too = 1;
    fake_down(f, 1, SN_EDENIED, 0, 0);
    fake_expect(f, "TUNNEL-OPEN-FAILED forward=web to=paris/hub target=web err=denied\n");
    f->logs_too = 0;
    assert_int_equal(forward(f, 0)->counts.opened, 0);
    assert_int_equal(forward(f, 0)->counts.failed, 1);
    assert_int_equal(forward(f, 0)->counts.last_err, SN_EDENIED);
    /* An end that nothing came before is no success either. */
    fake_client(f, 1);
    fake_down(f, 2, SN_OK, 0, 0);
    assert_int_equal(forward(f, 0)->counts.failed, 2);
    assert_int_equal(forward(f, 0)->counts.last_err, SN_ECLOSED);
    /* The next success clears the error. */
    fake_client(f, 1);
    fake_up(f, 3);
    assert_int_equal(forward(f, 0)->counts.last_err, SN_OK);
    fake_down(f, 3, SN_OK, 0, 0);
    assert_int_equal(f->metrics[METRIC_FAILED], 2);
    f->trace_size = 0;
    finish(f);
}

static void a_stream_that_cannot_be_opened_resets_its_client(void **state)
{
    (void)state;
    struct fake *f = started();
    f->next[FAKE_OPEN] = SN_ENOENT;
    fake_client(f, 1);
    fake_expect(f, "open paris/hub: not-found\nreset c1\n");
    assert_int_equal(forward(f, 0)->counts.failed, 1);
    assert_int_equal(forward(f, 0)->counts.last_err, SN_ENOENT);
    f->next[FAKE_SPLICE] = SN_ENOMEM;
    fake_client(f, 1);
    fake_expect(f, "open paris/hub tunnel web 15000 = s1\nreset s1 no-memory\nreset c2\n");
    assert_int_equal(forward(f, 0)->counts.failed, 2);
    fake_settle(f); /* its STREAM_DOWN must not count a second time, nor hit another flow */
    assert_int_equal(forward(f, 0)->counts.failed, 2);
    fake_client(f, 1);
    fake_expect(f, "open paris/hub tunnel web 15000 = s2\nsplice s2 c3\n");
    fake_up(f, 2);
    assert_int_equal(f->state->flows.count, 1); /* the same one each time */
    fake_down(f, 2, SN_OK, 0, 0);
    finish(f);
}

static void a_late_down_hits_nobody_else(void **state)
{
    (void)state;
    struct fake *f = started();
    f->next[FAKE_SPLICE] = SN_ENOMEM;
    fake_client(f, 1); /* s1: reset, its STREAM_DOWN still to come */
    fake_client(f, 1); /* s2 takes its place */
    fake_up(f, 2);
    fake_settle(f);
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 1);
    assert_int_equal(forward(f, 0)->counts.open, 1);
    fake_down(f, 2, SN_OK, 5, 5);
    assert_int_equal(f->metrics[METRIC_SENT_BYTES], 5);
    f->trace_size = 0;
    finish(f);
}

static void a_busy_address_is_tried_again(void **state)
{
    (void)state;
    struct fake *f = fake_new(two_forwards);
    f->busy_address = "127.0.0.1:8080";
    f->logs_too = 1;
    fake_start(f);
    fake_expect(f, "listen 127.0.0.1:8080: in-use\n"
                   "FORWARD-LISTEN-FAILED forward=web address=127.0.0.1:8080 err=in-use "
                   "text=\"somebody else holds it\"\n"
                   "listen 127.0.0.1:2222 = l1\n"
                   "FORWARD-LISTENING forward=shell address=127.0.0.1:2222 to=paris/spare "
                   "target=ssh\n");
    assert_int_equal(forward(f, 0)->state, FORWARD_FAILED);
    /* The other one works meanwhile. */
    fake_client(f, 1);
    fake_expect(f, "open paris/spare tunnel ssh 700 = s1\nsplice s1 c1\n");
    /* 250 + 500 + 1000 + 2000 + 4000 + 8000 + 10000 ms, with one line for all. */
    fake_wait(f, 249);
    fake_expect(f, "");
    fake_wait(f, 1);
    fake_expect(f, "listen 127.0.0.1:8080: in-use\n");
    fake_wait(f, 500);
    fake_expect(f, "listen 127.0.0.1:8080: in-use\n");
    fake_wait(f, 15000);
    fake_expect(f, "listen 127.0.0.1:8080: in-use\nlisten 127.0.0.1:8080: in-use\n"
                   "listen 127.0.0.1:8080: in-use\nlisten 127.0.0.1:8080: in-use\n");
    fake_wait(f, 10000);
    fake_expect(f, "listen 127.0.0.1:8080: in-use\n");
    fake_wait(f, 10000);
    fake_expect(f, "listen 127.0.0.1:8080: in-use\n");
    assert_int_equal(f->metrics[METRIC_LISTEN_FAILURES], 9);
    f->busy_address = NULL;
    fake_wait(f, 10000);
    fake_expect(f, "listen 127.0.0.1:8080 = l2\n"
                   "FORWARD-LISTENING forward=web address=127.0.0.1:8080 to=paris/hub "
                   "target=web\n");
    fake_wait(f, 100000);
    fake_expect(f, "");
    fake_client(f, 2);
    fake_expect(f, "open paris/hub tunnel web 15000 = s2\nsplice s2 c2\n");
    f->logs_too = 0;
    fake_down(f, 1, SN_OK, 0, 0);
    fake_down(f, 2, SN_OK, 0, 0);
    finish(f);
}

static void another_cause_gets_another_line(void **state)
{
    (void)state;
    struct fake *f = fake_new(two_forwards);
    f->always[FAKE_LISTEN] = SN_EPERM;
    f->logs_too = 1;
    fake_start(f);
    f->trace_size = 0;
    f->next[FAKE_LISTEN] = SN_EUNREACHABLE;
    fake_wait(f, 250);
    fake_expect(f, "listen 127.0.0.1:8080: unreachable\n"
                   "FORWARD-LISTEN-FAILED forward=web address=127.0.0.1:8080 err=unreachable "
                   "text=\"no way to the address\"\n"
                   "listen 127.0.0.1:2222: bad-permissions\n");
    fake_stop(f);
    fake_wait(f, 60000); /* stopped ones are not tried any more */
    fake_expect(f, "");
    fake_free(f);
}

static void a_timer_that_failed_is_set_by_the_next_event(void **state)
{
    (void)state;
    struct fake *f = fake_new(two_forwards);
    f->busy_address = "127.0.0.1:8080";
    struct sn_event event = {.kind = SN_EVENT_START, .config = sn_config_root(f->tree)};
    f->next[FAKE_TIMER] = SN_ENOMEM;
    fake_handle(f, &event);
    assert_int_equal(f->result, SN_ENOMEM); /* nothing is lost by a restart here */
    fake_drop(f);

    f = fake_new(two_forwards);
    f->busy_address = "127.0.0.1:8080";
    fake_start(f);
    f->next[FAKE_TIMER] = SN_ENOMEM;
    fake_wait(f, 250);
    assert_int_equal(f->result, SN_OK); /* here streams would be */
    f->busy_address = NULL;
    fake_wait(f, 60000);
    assert_int_equal(forward(f, 0)->state, FORWARD_FAILED);
    fake_message(f, "", "other.type", 0);
    fake_wait(f, 0);
    assert_int_equal(forward(f, 0)->state, FORWARD_LISTENING);
    fake_stop(f);
    fake_free(f);
}

static void a_stopping_agent_takes_no_clients(void **state)
{
    (void)state;
    struct fake *f = started();
    fake_client(f, 1);
    fake_up(f, 1);
    f->trace_size = 0;
    fake_stop(f);
    fake_expect(f, "unlisten l1\nunlisten l2\n");
    fake_client(f, 1); /* it was accepted before */
    fake_expect(f, "reset c2\n");
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 1); /* what is open may end by itself */
    fake_down(f, 1, SN_OK, 1, 1);
    fake_free(f);
}

static void strange_events_do_no_harm(void **state)
{
    (void)state;
    struct fake *f = started();
    struct sn_event event = {.kind = SN_EVENT_CONN_ACCEPTED, .token = ~(uint64_t)0};
    event.conn.id = ++f->conn_count;
    fake_handle(f, &event);
    fake_expect(f, "reset c1\n");
    event = (struct sn_event){.kind = SN_EVENT_CONN_ACCEPTED,
                              .token = sni_tunnel_token(TOKEN_FORWARD, 0, 2)};
    event.conn.id = ++f->conn_count;
    fake_handle(f, &event);
    fake_expect(f, "reset c2\n");
    for (uint32_t kind = SN_EVENT_MESSAGE; kind < SN_EVENT_KIND_COUNT + 3; kind++) {
        event = (struct sn_event){.kind = kind, .token = sni_tunnel_token(TOKEN_FLOW, 0, 0)};
        event.type = "other.type";
        event.payload = (const uint8_t *)"";
        if (kind == SN_EVENT_STREAM_ASKED || kind == SN_EVENT_CONN_ACCEPTED ||
            kind == SN_EVENT_CONFIG) {
            continue;
        }
        fake_handle(f, &event);
        event.token = 0;
        fake_handle(f, &event);
        assert_int_equal(f->result, SN_OK);
    }
    fake_expect(f, "");
    finish(f);
}

static void lack_of_memory_refuses_clients(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct fake *f = started();
    sn_alloc_fail_nth(1);
    fake_client(f, 1); /* needs the first page of flows */
    sn_alloc_fail_nth(0);
    fake_expect(f, "reset c1\n");
    assert_int_equal(forward(f, 0)->counts.last_err, SN_ENOMEM);
    fake_client(f, 1);
    fake_expect(f, "open paris/hub tunnel web 15000 = s1\nsplice s1 c2\n");
    fake_down(f, 1, SN_OK, 0, 0);
    finish(f);
    assert_int_equal(sn_alloc_in_use(), before);
    enum sn_err err = SN_ENOMEM;
    for (uint64_t nth = 1; err != SN_OK; nth++) {
        assert_true(nth < 10);
        f = fake_new(two_forwards);
        struct sn_event event = {.kind = SN_EVENT_START, .config = sn_config_root(f->tree)};
        sn_alloc_fail_nth(nth);
        fake_handle(f, &event);
        sn_alloc_fail_nth(0);
        err = f->result;
        assert_true(err == SN_OK || err == SN_ENOMEM);
        if (err == SN_OK) fake_stop(f);
        fake_free(f);
        assert_int_equal(sn_alloc_in_use(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_configuration_nothing_happens),
        cmocka_unit_test(a_client_gets_its_tunnel),
        cmocka_unit_test(a_refused_tunnel_ends_with_its_stream),
        cmocka_unit_test(a_stream_that_cannot_be_opened_resets_its_client),
        cmocka_unit_test(a_late_down_hits_nobody_else),
        cmocka_unit_test(a_busy_address_is_tried_again),
        cmocka_unit_test(another_cause_gets_another_line),
        cmocka_unit_test(a_timer_that_failed_is_set_by_the_next_event),
        cmocka_unit_test(a_stopping_agent_takes_no_clients),
        cmocka_unit_test(strange_events_do_no_harm),
        cmocka_unit_test(lack_of_memory_refuses_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
