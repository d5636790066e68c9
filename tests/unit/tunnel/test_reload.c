/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another configuration while clients are there: what it does not change does not notice. The former
 * one is freed as soon as the handler returned, so the address sanitizer sees who still looks at it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "unit/rng.h"
#include "unit/tunnel/fake.h"

#define FORWARD_ONE  "  one: {listen: \"127.0.0.1:8080\", to: p/h, target: a}\n"
#define FORWARD_TWO  "  two: {listen: \"127.0.0.1:8081\", to: p/h, target: b, open_wait_ms: 700}\n"
#define TARGET_WEB   "  web: {address: \"127.0.0.1:80\", allow: [\"a/*\", \"b/*\"]}\n"
#define TARGET_DB    "  db: {address: \"127.0.0.1:81\", allow: \"*\"}\n"
#define BOTH         "forwards:\n" FORWARD_ONE FORWARD_TWO
#define BOTH_TARGETS "targets:\n" TARGET_WEB TARGET_DB

static struct fake *started(const char *yaml)
{
    struct fake *f = fake_new(yaml);
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

static void expect_in_list(struct fake *f, const char *part)
{
    fake_message(f, "", "tunnel.list", 9);
    if (strstr(f->reply, part) == NULL) fail_msg("no %s in %s", part, f->reply);
}

static void the_same_changes_nothing(void **state)
{
    (void)state;
    struct fake *f = started(BOTH BOTH_TARGETS);
    fake_client(f, 1);
    fake_up(f, 1);
    fake_ask(f, "a/x", "web");
    fake_dialed(f, 1);
    fake_ask(f, "b/x", "db");
    fake_dial_failed(f, 2, SN_EUNREACHABLE);
    f->trace_size = 0;
    f->logs_too = 1;
    for (int i = 0; i < 3; i++) fake_configure(f, BOTH BOTH_TARGETS);
    fake_configure(f, BOTH_TARGETS "forwards:\n" FORWARD_TWO FORWARD_ONE); /* another order */
    fake_configure(f, BOTH BOTH_TARGETS);
    fake_expect(f, "");
    f->logs_too = 0;
    fake_wait(f, 100); /* the retry goes to an address of the new tree */
    fake_client(f, 2);
    fake_expect(f, "dial 127.0.0.1:81 3000 = d3\nopen p/h tunnel b 700 = s4\nsplice s4 c3\n");
    expect_in_list(f,
                   "\"name\":\"one\",\"listen\":\"127.0.0.1:8080\",\"to\":\"p/h\",\"target\":\"a\","
                   "\"state\":\"listening\",\"bound\":\"127.0.0.1:8080\"");
    expect_in_list(f, "\"name\":\"db\",\"address\":\"127.0.0.1:81\",\"waiting\":1");
    fake_dialed(f, 3);
    for (uint64_t i = 1; i <= 4; i++) fake_down(f, i, SN_OK, 0, 0);
    finish(f);
}

static void a_forward_is_added(void **state)
{
    (void)state;
    struct fake *f = started("forwards:\n" FORWARD_TWO);
    fake_client(f, 1);
    f->trace_size = 0;
    fake_configure(f, BOTH);
    fake_expect(f, "listen 127.0.0.1:8080 = l2\n");
    fake_client(f, 2);
    fake_expect(f, "open p/h tunnel a 15000 = s2\nsplice s2 c2\n");
    f->busy_address = "127.0.0.1:8082"; /* one that cannot be bound keeps trying, as ever */
    fake_configure(f, BOTH "  three: {listen: \"127.0.0.1:8082\", to: p/h, target: c}\n");
    fake_expect(f, "listen 127.0.0.1:8082: in-use\n");
    f->busy_address = NULL;
    fake_wait(f, 250);
    fake_expect(f, "listen 127.0.0.1:8082 = l3\n");
    fake_down(f, 1, SN_OK, 0, 0);
    fake_down(f, 2, SN_OK, 0, 0);
    finish(f);
}

/* Its port is closed, its clients stay until they end. */
static void a_forward_is_removed(void **state)
{
    (void)state;
    struct fake *f = started(BOTH);
    fake_client(f, 1);
    fake_client(f, 1);
    fake_up(f, 1);
    f->trace_size = 0;
    f->logs_too = 1;
    fake_configure(f, "forwards:\n" FORWARD_TWO);
    fake_expect(f, "FORWARD-REMOVED forward=one open=1\nunlisten l1\n");
    f->logs_too = 0;
    assert_int_equal(fake_forward(f, "one")->state, FORWARD_REMOVED);
    expect_in_list(f, "\"name\":\"one\",\"listen\":\"\",\"to\":\"p/h\",\"target\":\"a\",\"state\":"
                      "\"removed\",\"bound\":\"\",\"waiting\":1,\"open\":1");
    fake_client(f, 1); /* it was accepted before the port was closed */
    fake_expect(f, "reset c3\n");
    fake_up(f, 2); /* the tunnel that was being opened opens */
    fake_move(f, 2, 5, 5);
    fake_down(f, 1, SN_OK, 1, 2);
    f->logs_too = 1;
    fake_down(f, 2, SN_ERESET, 5, 5); /* the names that it is told with are still good */
    fake_expect(f, "TUNNEL-BROKEN forward=one to=p/h target=a err=reset\n");
    f->logs_too = 0;
    fake_client(f, 1); /* whoever comes through the port of an entry that is used anew */
    fake_configure(f, "forwards:\n" FORWARD_TWO
                      "  new: {listen: \"127.0.0.1:9\", to: p/h, target: n}\n");
    fake_client(f, 1);
    fake_expect(f, "reset c4\nlisten 127.0.0.1:9 = l3\nreset c5\n");
    assert_int_equal(f->state->forwards.count, 2);
    expect_in_list(f, "\"name\":\"new\",\"listen\":\"127.0.0.1:9\",\"to\":\"p/h\",\"target\":\"n\","
                      "\"state\":\"listening\",\"bound\":\"127.0.0.1:9\",\"waiting\":0,\"open\":0,"
                      "\"opened\":0,\"failed\":0");
    fake_configure(f, NULL);
    fake_expect(f, "unlisten l3\nunlisten l2\n");
    expect_in_list(f, "{\"forwards\":[],\"targets\":[]}");
    finish(f);
}

/* It comes back before its last client went: its counts are still there. */
static void a_forward_comes_back(void **state)
{
    (void)state;
    struct fake *f = started(BOTH);
    fake_client(f, 1);
    fake_up(f, 1);
    fake_configure(f, "forwards:\n" FORWARD_TWO);
    f->trace_size = 0;
    fake_configure(f, BOTH);
    fake_expect(f, "listen 127.0.0.1:8080 = l3\n");
    fake_down(f, 1, SN_OK, 3, 4);
    assert_int_equal(fake_forward(f, "one")->counts.opened, 1);
    assert_int_equal(fake_sent(&fake_forward(f, "one")->counts), 3);
    fake_client(f, 3);
    fake_expect(f, "open p/h tunnel a 15000 = s2\nsplice s2 c2\n");
    fake_down(f, 2, SN_EDENIED, 0, 0);
    finish(f);
}

static void a_forward_moves(void **state)
{
    (void)state;
    struct fake *f = started(BOTH);
    fake_client(f, 1);
    fake_up(f, 1);
    f->trace_size = 0;
    fake_configure(
        f, "forwards:\n  one: {listen: \"127.0.0.1:9090\", to: p/h, target: a}\n" FORWARD_TWO);
    fake_expect(f, "listen 127.0.0.1:9090 = l3\nunlisten l1\n"); /* never without a port */
    expect_in_list(f, "\"bound\":\"127.0.0.1:9090\",\"waiting\":0,\"open\":1");
    fake_client(f, 1); /* accepted before: it is a client of the same forward */
    fake_expect(f, "open p/h tunnel a 15000 = s2\nsplice s2 c2\n");
    fake_down(f, 1, SN_OK, 0, 0);
    fake_down(f, 2, SN_OK, 0, 0);
    /* The new address cannot be had as long as the old one is kept. */
    f->next[FAKE_LISTEN] = SN_EINUSE;
    fake_configure(
        f, "forwards:\n  one: {listen: \"0.0.0.0:9090\", to: p/h, target: a}\n" FORWARD_TWO);
    fake_expect(f, "listen 0.0.0.0:9090: in-use\nunlisten l3\nlisten 0.0.0.0:9090 = l4\n");
    /* It cannot be had at all: what the configuration does not name is closed all the same. */
    f->busy_address = "127.0.0.1:7";
    fake_configure(f,
                   "forwards:\n  one: {listen: \"127.0.0.1:7\", to: p/h, target: a}\n" FORWARD_TWO);
    fake_expect(f, "listen 127.0.0.1:7: in-use\nunlisten l4\nlisten 127.0.0.1:7: in-use\n");
    expect_in_list(f, "\"name\":\"one\",\"listen\":\"127.0.0.1:7\",\"to\":\"p/h\",\"target\":\"a\","
                      "\"state\":\"failed\",\"bound\":\"\"");
    f->busy_address = NULL;
    fake_wait(f, 250);
    fake_expect(f, "listen 127.0.0.1:7 = l5\n");
    finish(f);
}

static void forwards_swap_their_addresses(void **state)
{
    (void)state;
    struct fake *f = started(BOTH);
    fake_configure(f, "forwards:\n  one: {listen: \"127.0.0.1:8081\", to: p/h, target: a}\n"
                      "  two: {listen: \"127.0.0.1:8080\", to: p/h, target: b}\n");
    fake_wait(f, 0);
    assert_int_equal(fake_forward(f, "one")->state, FORWARD_LISTENING);
    assert_int_equal(fake_forward(f, "two")->state, FORWARD_LISTENING);
    assert_string_equal(fake_forward(f, "one")->bound, "127.0.0.1:8081");
    assert_string_equal(fake_forward(f, "two")->bound, "127.0.0.1:8080");
    f->trace_size = 0;
    finish(f);
}

static void a_forward_leads_elsewhere(void **state)
{
    (void)state;
    struct fake *f = started(BOTH);
    fake_client(f, 1);
    fake_up(f, 1);
    f->trace_size = 0;
    fake_configure(f, "forwards:\n  one: {listen: \"127.0.0.1:8080\", to: p/spare, target: c,\n"
                      "    open_wait_ms: 5, idle_ms: 6, max_connections: 2}\n" FORWARD_TWO);
    fake_expect(f, "");
    fake_client(f, 1);
    fake_client(f, 1);
    fake_expect(f, "open p/spare tunnel c 5 = s2\nsplice s2 c2\nreset c3\n");
    assert_int_equal(f->streams[1].idle_ms, 0);
    assert_int_equal(f->streams[2].idle_ms, 6);
    fake_down(f, 1, SN_OK, 0, 0);
    fake_down(f, 2, SN_OK, 0, 0);
    finish(f);
}

static void a_target_is_added(void **state)
{
    (void)state;
    struct fake *f = started("targets:\n" TARGET_DB);
    fake_ask(f, "a/x", "web");
    fake_expect(f, "reset s1 not-found\n");
    fake_configure(f, BOTH_TARGETS);
    fake_ask(f, "a/x", "web");
    fake_expect(f, "dial 127.0.0.1:80 3000 = d1\n");
    fake_dialed(f, 1);
    fake_down(f, 2, SN_OK, 0, 0);
    finish(f);
}

/* Whatever its flows are doing, they end at once; those of others do not. */
static void a_target_is_removed(void **state)
{
    (void)state;
    struct fake *f = started(BOTH_TARGETS);
    fake_ask(f, "a/x", "web"); /* up */
    fake_ask(f, "a/x", "web"); /* dialing */
    fake_ask(f, "b/x", "web"); /* waiting */
    fake_ask(f, "b/x", "db");
    fake_dialed(f, 1);
    fake_dial_failed(f, 3, SN_EUNREACHABLE);
    fake_dialed(f, 4);
    f->trace_size = 0;
    f->logs_too = 1;
    fake_configure(f, "targets:\n" TARGET_DB);
    fake_expect(f, "TARGET-REMOVED target=web open=1\n"
                   "reset s1 not-found\nreset s2 not-found\nreset s3 not-found\n");
    f->logs_too = 0;
    expect_in_list(f, "\"targets\":[{\"name\":\"db\"");
    fake_configure(f, "targets:\n" TARGET_DB); /* once is enough */
    fake_dialed(f, 2);                         /* for nobody */
    fake_expect(f, "reset c3\n");
    fake_ask(f, "a/x", "web");
    fake_expect(f, "reset s5 not-found\n");
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 2); /* the end of one is on its way */
    fake_down(f, 1, SN_ENOENT, 11, 12);
    assert_int_equal(f->metrics[METRIC_SENT_BYTES], 11);
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 1);
    fake_move(f, 4, 1, 1);
    fake_configure(f, BOTH_TARGETS); /* a new one of that name */
    assert_int_equal(fake_target(f, "web")->counts.opened, 0);
    assert_int_equal(f->state->targets.count, 2);
    fake_settle(f);
    fake_down(f, 4, SN_OK, 1, 1);
    fake_wait(f, 20000);
    fake_expect(f, "");
    finish(f);
}

static void a_target_comes_back(void **state)
{
    (void)state;
    struct fake *f = started(BOTH_TARGETS);
    fake_ask(f, "a/x", "web");
    fake_dialed(f, 1);
    fake_configure(f, "targets:\n" TARGET_DB);
    fake_configure(f, BOTH_TARGETS); /* before STREAM_DOWN came */
    fake_ask(f, "a/x", "web");
    fake_dialed(f, 2);
    fake_settle(f);
    assert_int_equal(fake_target(f, "web")->counts.opened, 2);
    assert_int_equal(fake_target(f, "web")->counts.open, 1);
    fake_down(f, 2, SN_OK, 0, 0);
    f->trace_size = 0;
    finish(f);
}

/* Who may not use it any more is out; who may stays. */
static void an_agent_loses_its_permission(void **state)
{
    (void)state;
    struct fake *f = started(BOTH_TARGETS);
    fake_ask(f, "a/x", "web");
    fake_ask(f, "b/x", "web");
    fake_ask(f, "b/y", "web");
    fake_dialed(f, 1);
    fake_dialed(f, 2);
    f->trace_size = 0;
    f->logs_too = 1;
    fake_configure(
        f, "targets:\n  web: {address: \"127.0.0.1:80\", allow: [\"a/*\", \"c/*\"]}\n" TARGET_DB);
    fake_expect(f, "TARGET-CLOSED-TO target=web agent=b/y tunnels=1\n"
                   "TARGET-CLOSED-TO target=web agent=b/x tunnels=1\n"
                   "reset s2 denied\nreset s3 denied\n");
    f->logs_too = 0;
    fake_settle(f);
    fake_dialed(f, 3);
    fake_ask(f, "b/x", "web");
    fake_ask(f, "c/x", "web");
    fake_expect(f, "reset c3\nreset s4 denied\ndial 127.0.0.1:80 3000 = d4\n");
    assert_int_equal(fake_target(f, "web")->counts.open, 1);
    fake_down(f, 1, SN_OK, 0, 0);
    fake_dialed(f, 4);
    fake_down(f, 5, SN_OK, 0, 0);
    finish(f);
}

static void a_target_gets_another_address(void **state)
{
    (void)state;
    struct fake *f = started(BOTH_TARGETS);
    fake_ask(f, "a/x", "web");
    fake_dialed(f, 1);
    fake_ask(f, "a/x", "web");
    fake_dial_failed(f, 2, SN_EUNREACHABLE);
    f->trace_size = 0;
    fake_configure(f,
                   "targets:\n  web: {address: \"10.0.0.1:80\", allow: \"*\", max_per_agent: 2,\n"
                   "    idle_ms: 5, connect_wait_ms: 0}\n" TARGET_DB);
    fake_expect(f, "");
    fake_wait(f, 100);
    fake_expect(f, "dial 10.0.0.1:80 3000 = d3\n");
    fake_ask(f, "a/x", "web");
    fake_expect(f, "reset s3 full\n");
    fake_dialed(f, 3);
    assert_int_equal(f->streams[1].idle_ms, 0);
    assert_int_equal(f->streams[2].idle_ms, 5);
    assert_int_equal(fake_target(f, "web")->counts.opened, 2);
    fake_down(f, 1, SN_OK, 0, 0);
    fake_down(f, 2, SN_OK, 0, 0);
    finish(f);
}

static void a_stopping_agent_opens_nothing(void **state)
{
    (void)state;
    struct fake *f = started("forwards:\n" FORWARD_ONE);
    fake_client(f, 1);
    fake_up(f, 1);
    fake_stop(f);
    f->trace_size = 0;
    fake_configure(f, BOTH BOTH_TARGETS);
    fake_configure(f, BOTH_TARGETS);
    fake_wait(f, 60000);
    fake_expect(f, "");
    fake_down(f, 1, SN_OK, 0, 0);
    fake_free(f);
}

/* What there is no memory for is left out and named, and nobody suffers; the next configuration adds it. */
static void lack_of_memory_ends_no_tunnel(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    int is_whole = 0;
    for (uint64_t nth = 1; !is_whole; nth++) {
        assert_true(nth < 20);
        struct fake *f = started("forwards:\n" FORWARD_ONE);
        fake_client(f, 1);
        fake_up(f, 1);
        f->trace_size = 0;
        f->logs_too = 1;
        struct sn_config_tree *former = f->tree;
        struct fake *other = fake_new(BOTH BOTH_TARGETS);
        f->tree = other->tree;
        other->tree = NULL;
        struct sn_event event = {.kind = SN_EVENT_CONFIG, .config = sn_config_root(f->tree)};
        sn_alloc_fail_nth(nth);
        fake_handle(f, &event);
        sn_alloc_fail_nth(0);
        sn_config_tree_free(former);
        fake_drop(other);
        assert_int_equal(f->result, SN_OK);
        is_whole = strstr(f->trace, "-NOT-ADDED") == NULL;
        f->logs_too = 0;
        assert_int_equal(fake_forward(f, "one")->counts.open, 1);
        fake_configure(f, BOTH BOTH_TARGETS);
        assert_int_equal(fake_forward(f, "two")->state, FORWARD_LISTENING);
        (void)fake_target(f, "web");
        (void)fake_target(f, "db");
        fake_down(f, 1, SN_OK, 0, 0);
        f->trace_size = 0;
        finish(f);
        assert_int_equal(sn_alloc_in_use(), before);
    }
}

/* --- Any change at any time -----------------------------------------------------------------------
 */

static char *random_config(uint64_t *rng)
{
    const size_t capacity = 4096;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t size = (size_t)snprintf(
        text, capacity, "forwards:\n  f0: {listen: \"127.0.0.1:1\", to: p/h, target: a}\n");
    for (unsigned i = 1; i < 6; i++) {
        if (rng_below(rng, 3) == 0) continue;
        size += (size_t)snprintf(
            text + size, capacity - size,
            "  f%u: {listen: \"127.0.0.%u:%u\", to: p/h, target: a, max_connections: %u}\n", i,
            1 + (unsigned)rng_below(rng, 2), 100 + i, 1 + (unsigned)rng_below(rng, 20));
    }
    size += (size_t)snprintf(text + size, capacity - size,
                             "targets:\n  t0: {address: \"h:1\", allow: \"*\"}\n");
    for (unsigned i = 1; i < 6; i++) {
        if (rng_below(rng, 3) == 0) continue;
        size += (size_t)snprintf(
            text + size, capacity - size,
            "  t%u: {address: \"h:%u\", allow: [\"%s\", \"c/x\"], max_connections: %u}\n", i,
            1 + (unsigned)rng_below(rng, 2), rng_below(rng, 2) == 0 ? "a/*" : "*",
            1 + (unsigned)rng_below(rng, 20));
    }
    return text;
}

static void check_sums(struct fake *f)
{
    uint32_t up = 0, pending = 0, waiting = 0;
    for (uint32_t i = 0; i < f->state->flows.count; i++) {
        const struct flow *flow = sni_tunnel_pool_at(&f->state->flows, i);
        up += flow->state == FLOW_UP;
        waiting += flow->state == FLOW_OPENING;
        pending += flow->state == FLOW_DIALING || flow->state == FLOW_WAITING;
    }
    assert_int_equal(up, f->metrics[METRIC_OPEN_NOW]);
    assert_int_equal(up, f->state->up);
    uint32_t opened = 0;
    for (uint32_t i = 0; i < f->state->targets.count; i++) {
        const struct target *target = sni_tunnel_pool_at(&f->state->targets, i);
        uint32_t own = 0;
        for (const struct guest *guest = target->guests; guest != NULL; guest = guest->next) {
            assert_true(guest->flows > 0);
            own += guest->flows;
        }
        assert_int_equal(own, target->pending + target->counts.open);
        assert_true(target->state != TARGET_REMOVED ||
                    (target->guests != NULL && target->pending == 0));
        pending -= target->pending;
        opened += target->counts.open;
    }
    for (uint32_t i = 0; i < f->state->forwards.count; i++) {
        const struct forward *forward = sni_tunnel_pool_at(&f->state->forwards, i);
        waiting -= forward->waiting;
        opened += forward->counts.open;
        uint32_t own = forward->waiting + forward->counts.open;
        assert_true(forward->state != FORWARD_REMOVED || own > 0);
        assert_true(forward->state != FORWARD_FREE || own == 0);
    }
    assert_int_equal(pending, 0);
    assert_int_equal(waiting, 0);
    assert_int_equal(opened, up);
}

static void step(struct fake *f, uint64_t *rng)
{
    static const char *const agents[] = {"a/x", "b/x", "c/x"};
    char name[3] = "t0";
    uint64_t any = f->stream_count == 0 ? 0 : 1 + rng_below(rng, (uint32_t)f->stream_count);
    uint64_t dial = f->dial_count == 0 ? 0 : 1 + rng_below(rng, (uint32_t)f->dial_count);
    name[1] = (char)('0' + rng_below(rng, 6));
    switch (rng_below(rng, 6)) {
    case 0: fake_client(f, 1 + rng_below(rng, (uint32_t)f->listener_count)); break;
    case 1: fake_ask(f, agents[rng_below(rng, 3)], name); break;
    case 2:
        if (any == 0 || f->streams[any].is_down) break;
        fake_down(f, any, SN_ERESET, 0, 0);
        break;
    case 3:
        if (any == 0 || f->streams[any].is_down || !f->streams[any].is_local) break;
        fake_up(f, any);
        break;
    case 4:
        if (dial == 0 || f->dials[dial].is_answered) break;
        if (rng_below(rng, 3) == 0) {
            fake_dial_failed(f, dial, SN_EUNREACHABLE);
        } else {
            fake_dialed(f, dial);
        }
        break;
    default: fake_wait(f, rng_below(rng, 150)); break;
    }
}

static void any_change_at_any_time(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t rng = seed;
        char *text = random_config(&rng);
        struct fake *f = fake_new(text);
        free(text);
        f->is_quiet = 1;
        fake_start(f);
        for (int i = 0; i < 1200; i++) {
            step(f, &rng);
            if (rng_below(&rng, 30) == 0) {
                text = random_config(&rng);
                fake_configure(f, text);
                free(text);
            }
            if (i % 10 == 0) check_sums(f);
            if (rng_below(&rng, 10) == 0) fake_settle(f);
        }
        fake_stop(f);
        for (uint64_t i = 1; i <= f->dial_count; i++) {
            if (!f->dials[i].is_answered) fake_dial_failed(f, i, SN_ETIMEDOUT);
        }
        fake_settle(f);
        for (uint64_t i = 1; i <= f->stream_count; i++) {
            if (!f->streams[i].is_down) fake_down(f, i, SN_ECLOSED, 0, 0);
        }
        if (f->state->forwards.count > 12 || sn_alloc_in_use() < before)
            print_error("seed %d\n", (int)seed);
        assert_true(f->state->forwards.count <=
                    12); /* six that stay, and those that are not over yet */
        fake_free(f);
        assert_int_equal(sn_alloc_in_use(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_changes_nothing),
        cmocka_unit_test(a_forward_is_added),
        cmocka_unit_test(a_forward_is_removed),
        cmocka_unit_test(a_forward_comes_back),
        cmocka_unit_test(a_forward_moves),
        cmocka_unit_test(forwards_swap_their_addresses),
        cmocka_unit_test(a_forward_leads_elsewhere),
        cmocka_unit_test(a_target_is_added),
        cmocka_unit_test(a_target_is_removed),
        cmocka_unit_test(a_target_comes_back),
        cmocka_unit_test(an_agent_loses_its_permission),
        cmocka_unit_test(a_target_gets_another_address),
        cmocka_unit_test(a_stopping_agent_opens_nothing),
        cmocka_unit_test(lack_of_memory_ends_no_tunnel),
        cmocka_unit_test(any_change_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
