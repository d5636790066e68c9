/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "world.h"

/* Sends made in one handler call; each answer is kept. */
struct sending {
    const char *to, *type;
    const void *payload;
    uint32_t size;
    struct sn_send_options options;
    uint32_t short_by; /* as if the plugin knew fewer options than there ever were */
    uint32_t count;    /* tokens count up */
    enum sn_err first, last;
    uint32_t accepted;
};

static void do_send(struct sn_ctx *ctx, void *arg)
{
    struct sending *sending = arg;
    sending->options.size = sizeof sending->options - sending->short_by;
    for (uint32_t i = 0; i < sending->count; i++) {
        sending->last = sn_send(ctx, sending->to, sending->type, sending->payload, sending->size,
                                &sending->options);
        if (i == 0) sending->first = sending->last;
        sending->accepted += sending->last == SN_OK;
        sending->options.token++;
    }
}

static enum sn_err send_one(struct probe *from, const char *to, const char *type,
                            const void *payload, uint32_t size)
{
    struct sending sending = {.to = to, .type = type, .payload = payload, .size = size, .count = 1};
    world_act(from, do_send, &sending);
    return sending.last;
}

static struct probe *a, *b, *c; /* c lives on the worker of a */

static int set_up(void **state)
{
    (void)state; /* one world */
    world_new();
    a = world_spawn("a", 0, 4);
    b = world_spawn("b", 3, 0);
    c = world_spawn("c", 0, 0);
    world_start();
    return 0;
}

static void test_delivered(void **state)
{
    (void)state;
    struct sending sending = {.to = ":b",
                              .type = "echo.say",
                              .payload = "hello",
                              .size = 5,
                              .options = {.token = 42},
                              .count = 1};
    world_act(a, do_send, &sending);
    assert_int_equal(sending.last, SN_OK);
    const struct record *message = world_record(b, SN_EVENT_MESSAGE, 0);
    assert_string_equal(message->agent, "");
    assert_string_equal(message->actor, "a");
    assert_string_equal(message->type, "echo.say");
    assert_string_equal(message->payload, "hello");
    assert_int_equal(message->payload_size, 5);
    assert_int_equal(message->correlation, 0);
    const struct record *outcome = world_record(a, SN_EVENT_OUTCOME, 0);
    assert_int_equal(outcome->token, 42);
    assert_int_equal(outcome->outcome, SN_DELIVERED);
    assert_int_equal(outcome->reason, SN_REASON_NONE);
    assert_int_equal(a->record_count, 1);
    assert_int_equal(world_info(a).sends_outstanding, 0);
    assert_int_equal(sn_system_local_accepted(world_get()->system), 1);
}

static void test_own_name_is_here(void **state)
{
    (void)state;
    assert_int_equal(send_one(a, WORLD_AGENT ":b", "x", NULL, 0), SN_OK);
    assert_int_equal(send_one(a, WORLD_AGENT ":a", "x", NULL, 0), SN_OK); /* to itself */
    assert_int_equal(world_count(b, SN_EVENT_MESSAGE), 1);
    assert_int_equal(world_count(a, SN_EVENT_MESSAGE), 1);
    assert_int_equal(world_get()->away_count, 0);
    assert_int_equal(send_one(a, "paris/hub2:b", "x", NULL, 0), SN_OK);
    assert_int_equal(send_one(a, "paris/hu:b", "x", NULL, 0), SN_OK);
    assert_int_equal(world_get()->away_count, 2);
}

static void test_silent(void **state)
{
    (void)state;
    struct sending sending = {.to = ":b", .type = "x", .count = 2, .options = {.is_silent = 1}};
    world_act(a, do_send, &sending);
    sending.to = "other/agent:b";
    sending.count = 10; /* more than its slots: it holds none */
    world_act(a, do_send, &sending);
    assert_int_equal(sending.accepted, 12);
    while (!sn_list_is_empty(&world_get()->away)) {
        world_settle(SN_UNDELIVERED, SN_REASON_NO_ACTOR);
    }
    assert_int_equal(world_count(b, SN_EVENT_MESSAGE), 2);
    assert_int_equal(a->record_count, 0);
    assert_int_equal(world_info(a).sends_outstanding, 0);
}

static void test_refused_arguments(void **state)
{
    (void)state;
    static const char *const addresses[] = {
        "",       "b",        "b:",  ":",         ":B",  "site:b",    "a/b/c:d", "paris/hub:b:c",
        "/hub:b", "paris/:b", "*:b", "paris/*:b", " :b", "paris/hub:"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(addresses); i++) {
        assert_int_equal(send_one(a, addresses[i], "x", NULL, 0), SN_EINVAL);
    }
    static const char *const types[] = {"", "X", "a..b", ".a", "a.", "a b", "*", "a.*"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(types); i++) {
        assert_int_equal(send_one(a, ":b", types[i], NULL, 0), SN_EINVAL);
    }
    assert_int_equal(send_one(a, ":b", "x", NULL, 1), SN_EINVAL); /* no payload of that size */
    assert_int_equal(send_one(a, ":nobody", "x", NULL, 0), SN_ENOENT);
    assert_int_equal(b->record_count, 0);
    assert_int_equal(a->record_count, 0); /* what was not accepted has no outcome */
    assert_int_equal(world_info(a).sends_outstanding, 0);
    assert_int_equal(world_info(b).mailbox_used, 0);
}

static void test_size_limit(void **state)
{
    (void)state;
    static uint8_t big[SN_MESSAGE_BYTES_MAX + 1];
    assert_int_equal(send_one(a, ":b", "x", big, sizeof big), SN_ETOOBIG);
    assert_int_equal(send_one(a, "other/agent:b", "x", big, sizeof big), SN_ETOOBIG);
    assert_int_equal(send_one(a, ":b", "x", big, sizeof big - 1), SN_OK);
    assert_int_equal(world_record(b, SN_EVENT_MESSAGE, 0)->payload_size, SN_MESSAGE_BYTES_MAX);
    assert_int_equal(world_get()->away_count, 0);
}

static void test_mailbox_bound_is_exact(void **state)
{
    (void)state;
    struct sending sending = {.to = ":b", .type = "x", .count = 4};
    world_act(c, do_send, &sending); /* in one handler call: b does not run between */
    assert_int_equal(sending.accepted, 3);
    assert_int_equal(sending.last, SN_EFULL);
    assert_int_equal(world_metric("actor.mailbox_full"), 1);
    assert_int_equal(world_count(b, SN_EVENT_MESSAGE), 3);
    assert_int_equal(world_count(c, SN_EVENT_OUTCOME), 3);
    assert_int_equal(world_info(b).mailbox_used, 0);
    assert_int_equal(world_info(b).mailbox_max, 3);
    sending.accepted = 0;
    world_act(c, do_send, &sending); /* all places came back */
    assert_int_equal(sending.accepted, 3);
    assert_int_equal(world_info(c).mailbox_max, SN_MAILBOX_DEFAULT);
}

static void test_mailbox_bound_from_elsewhere(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) assert_int_equal(world_bring(b->ref, "x", ""), SN_REASON_NONE);
    assert_int_equal(world_bring(b->ref, "x", ""), SN_REASON_MAILBOX_FULL);
    assert_int_equal(world_info(b).mailbox_used, 3);
    assert_int_equal(world_bring((struct sn_actor_ref){0}, "x", ""), SN_REASON_NO_ACTOR);
    assert_int_equal(world_bring((struct sn_actor_ref){4}, "x", ""), SN_REASON_NO_ACTOR);
    world_run();
    assert_int_equal(world_count(b, SN_EVENT_MESSAGE), 3);
    assert_string_equal(world_record(b, SN_EVENT_MESSAGE, 0)->agent, "amsterdam/edge");
}

static void test_completion_slots_of_local_sends(void **state)
{
    (void)state;
    struct sending sending = {.to = ":c", .type = "x", .count = 6};
    world_act(a, do_send, &sending); /* a has 4 slots */
    assert_int_equal(sending.accepted, 4);
    assert_int_equal(sending.last, SN_EFULL);
    assert_int_equal(world_count(a, SN_EVENT_OUTCOME), 4);
    assert_int_equal(world_info(a).sends_outstanding, 0);
    assert_int_equal(world_count(c, SN_EVENT_MESSAGE), 4);
    world_act(a, do_send, &sending);
    assert_int_equal(sending.accepted, 8);
}

static void test_completion_slots_of_remote_sends(void **state)
{
    (void)state;
    struct sending sending = {.to = "other/agent:x", .type = "x", .count = 5};
    world_act(a, do_send, &sending);
    assert_int_equal(sending.accepted, 4);
    assert_int_equal(sending.last, SN_EFULL);
    assert_int_equal(world_info(a).sends_outstanding, 4);
    assert_int_equal(a->record_count, 0); /* not decided yet */
    world_settle(SN_DELIVERED, SN_REASON_NONE);
    sending.count = 2;
    world_act(a, do_send, &sending); /* one slot came back */
    assert_int_equal(sending.accepted, 5);
    assert_int_equal(sending.last, SN_EFULL);
    world_settle(SN_UNDELIVERED, SN_REASON_DENIED);
    world_settle(SN_UNKNOWN, SN_REASON_PEER_RESTARTED);
    world_settle(SN_UNKNOWN, SN_REASON_DEADLINE);
    world_settle(SN_UNDELIVERED, SN_REASON_NO_MEMORY);
    static const struct record expected[] = {
        {.token = 0, .outcome = SN_DELIVERED, .reason = SN_REASON_NONE},
        {.token = 1, .outcome = SN_UNDELIVERED, .reason = SN_REASON_DENIED},
        {.token = 2, .outcome = SN_UNKNOWN, .reason = SN_REASON_PEER_RESTARTED},
        {.token = 3, .outcome = SN_UNKNOWN, .reason = SN_REASON_DEADLINE},
        {.token = 5, .outcome = SN_UNDELIVERED, .reason = SN_REASON_NO_MEMORY}};
    assert_int_equal(world_count(a, SN_EVENT_OUTCOME), SN_ARRAY_COUNT(expected));
    for (uint32_t i = 0; i < SN_ARRAY_COUNT(expected); i++) {
        const struct record *record = world_record(a, SN_EVENT_OUTCOME, i);
        assert_int_equal(record->token, expected[i].token);
        assert_int_equal(record->outcome, expected[i].outcome);
        assert_int_equal(record->reason, expected[i].reason);
    }
    assert_int_equal(world_info(a).sends_outstanding, 0);
}

static void test_letter_for_another_agent(void **state)
{
    (void)state;
    struct sending sending = {.to = "amsterdam/edge:store",
                              .type = "put.now",
                              .payload = "data",
                              .size = 4,
                              .options = {.is_control = 1, .deadline_ms = 250},
                              .count = 1};
    world_act(a, do_send, &sending);
    const struct sn_letter *letter = world_last_away();
    uint64_t now = sn_env_now_ns(world_get()->env);
    assert_string_equal(letter->from_agent, "");
    assert_string_equal(letter->from_actor, "a");
    assert_string_equal(letter->to_agent, "amsterdam/edge");
    assert_string_equal(letter->to_actor, "store");
    assert_string_equal(letter->type, "put.now");
    assert_memory_equal(letter->payload, "data", 4);
    assert_int_equal(letter->class_id, 0);
    assert_true(letter->deadline_ns == now + 250 * FAKE_MS);
    sending.options = (struct sn_send_options){0};
    world_act(a, do_send, &sending);
    assert_int_equal(world_last_away()->class_id, 1);
    assert_true(world_last_away()->deadline_ns == now + SN_SEND_DEADLINE_MS * FAKE_MS);
    sending.options = (struct sn_send_options){.deadline_ms = UINT64_MAX};
    world_act(a, do_send, &sending);
    assert_true(world_last_away()->deadline_ns == UINT64_MAX); /* no overflow */
    assert_int_equal(sn_system_local_accepted(world_get()->system), 0);
}

static void test_options_without_their_size(void **state)
{
    (void)state;
    struct sending sending = {
        .to = ":b", .type = "x", .short_by = sizeof sending.options, .count = 1};
    world_act(a, do_send, &sending);
    assert_int_equal(sending.last, SN_EINVAL);
    sending.short_by = 1;
    world_act(a, do_send, &sending);
    assert_int_equal(sending.last, SN_EINVAL);
    assert_int_equal(sn_system_local_accepted(world_get()->system), 0);
}

static void test_the_way_out_refuses(void **state)
{
    (void)state;
    static const enum sn_err errs[] = {SN_EFULL, SN_ENOENT, SN_ENOMEM};
    for (size_t i = 0; i < SN_ARRAY_COUNT(errs); i++) {
        world_get()->remote_err = errs[i];
        assert_int_equal(send_one(a, "other/agent:x", "x", "y", 1), errs[i]);
    }
    assert_int_equal(a->record_count, 0);
    assert_int_equal(world_info(a).sends_outstanding, 0);
}

static void check_texts(struct sn_ctx *ctx, void *arg)
{
    (void)arg; /* nothing to bring */
    assert_string_equal(sn_own_name(ctx), WORLD_AGENT);
    assert_int_equal(sn_now_ms(ctx), sn_env_now_ns(world_get()->env) / FAKE_MS);
    uint64_t bytes[2] = {0, 0};
    sn_random(ctx, bytes, sizeof bytes);
    assert_true(bytes[0] != 0 && bytes[0] != bytes[1]);
    sn_log(ctx, SN_WARN, "ACTOR-SAYS", "n=%d", 7);
    ctx->host->log(ctx, 99, "ACTOR-SHOUTS", "level above all");
    sn_metric_add(ctx, 0, 3);   /* metric_base 0: the system's first */
    sn_metric_add(ctx, 500, 1); /* beyond its table */
    sn_metric_add(ctx, UINT32_MAX, 1);
    assert_ptr_equal(sn_ctx_system(ctx), world_get()->system);
    assert_int_equal(sn_ctx_self(ctx).id, 1);
    assert_int_equal(sn_ctx_incarnation(ctx), 0);
}

static void test_what_a_handler_may_ask(void **state)
{
    (void)state;
    int64_t before = world_metric("actor.handled");
    world_act(a, check_texts, NULL);
    const char *output = fake_env_output(world_get()->env);
    assert_non_null(strstr(output, "warn  ACTOR-SAYS agent=" WORLD_AGENT " from=a n=7\n"));
    assert_non_null(strstr(output, "error ACTOR-SHOUTS agent=" WORLD_AGENT " from=a level above"));
    assert_int_equal(world_metric("actor.handled"), before + 3 + 1);
    assert_int_equal(world_metric("actor.wrong_metrics"), 2);
}

/* Order between one sender and one receiver, whatever comes between. */
static void test_order_of_a_pair(void **state)
{
    (void)state;
    struct sending sending = {.type = "x", .count = 1};
    for (uint32_t i = 0; i < 600; i++) {
        char payload[8];
        (void)snprintf(payload, sizeof payload, "%u", i);
        sending.to = i % 3 == 2 ? ":a" : ":c";
        sending.payload = payload;
        sending.size = 4;
        world_act(i % 2 == 0 ? b : a, do_send, &sending);
        assert_int_equal(sending.last, SN_OK);
    }
    int last_of_a = -1, last_of_b = -1;
    for (uint32_t i = 0; i < world_count(c, SN_EVENT_MESSAGE); i++) {
        const struct record *record = world_record(c, SN_EVENT_MESSAGE, i);
        int *last = strcmp(record->actor, "a") == 0 ? &last_of_a : &last_of_b;
        int number = 0;
        assert_int_equal(sscanf(record->payload, "%d", &number), 1);
        assert_true(number > *last);
        *last = number;
    }
    assert_int_equal(world_count(c, SN_EVENT_MESSAGE), 400);
}

static enum sn_err try_send(struct sending *sending)
{
    world_act(a, do_send, sending);
    return sending->last;
}

static void do_failing_send(struct sn_ctx *ctx, void *arg)
{
    struct sending *sending = arg;
    sn_alloc_fail_nth(sending->options.token);
    sending->last = sn_send(ctx, sending->to, "x", "y", 1, NULL);
    sn_alloc_fail_nth(0);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct sending sending = {.to = ":b", .type = "x", .count = 1};
    assert_int_equal(try_send(&sending), SN_OK);
    size_t before = sn_alloc_in_use();
    static const char *const ways[] = {":b", "other/agent:b"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(ways); i++) {
        sending.to = ways[i];
        for (uint64_t nth = 1;; nth++) {
            sending.options.token = nth;
            world_act(a, do_failing_send, &sending);
            if (sending.last == SN_OK) break;
            assert_int_equal(sending.last, SN_ENOMEM);
            assert_int_equal(sn_alloc_in_use(), before);
            assert_int_equal(world_info(a).sends_outstanding, 0);
        }
    }
    world_settle(SN_DELIVERED, SN_REASON_NONE);
    assert_int_equal(sn_alloc_in_use(), before);
}

#define NOTICES 60u

static uint32_t told_count;

static void on_told(struct sn_notice *notice, void *arg)
{
    assert_ptr_equal(arg, &told_count);
    assert_int_equal(notice->event.token, told_count);
    /* Before its handler, and not earlier. */
    assert_int_equal(world_count(c, SN_EVENT_TIMER), told_count);
    told_count++;
}

static void flood_c(struct sn_ctx *ctx, void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < NOTICES; i++) {
        struct sn_notice *notice = NULL;
        assert_int_equal(sn_notice_new(c->ref, 0, NULL, NULL, NULL, 0, &notice), SN_OK);
        notice->event.kind = SN_EVENT_TIMER;
        notice->event.token = i;
        notice->told = on_told;
        notice->arg = &told_count;
        sn_notice_post(sn_ctx_system(ctx), notice);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(sn_send(ctx, ":c", "echo.say", "hello", 5, NULL), SN_OK);
    }
}

/* Notices come first, but letters get their turn; both stay in order. */
static void test_notices_let_letters_in(void **state)
{
    (void)state;
    told_count = 0;
    world_act(a, flood_c, NULL);
    assert_int_equal(told_count, NOTICES);
    assert_int_equal(world_count(c, SN_EVENT_TIMER), NOTICES);
    uint64_t first = world_record(c, SN_EVENT_TIMER, 0)->nth;
    for (uint32_t i = 0; i < NOTICES; i++) {
        assert_int_equal(world_record(c, SN_EVENT_TIMER, i)->token, i);
    }
    assert_int_equal(world_record(c, SN_EVENT_MESSAGE, 0)->nth, first + 16);
    assert_int_equal(world_record(c, SN_EVENT_MESSAGE, 1)->nth, first + 16 + 1 + 16);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_delivered),
        TEST(test_own_name_is_here),
        TEST(test_silent),
        TEST(test_refused_arguments),
        TEST(test_size_limit),
        TEST(test_mailbox_bound_is_exact),
        TEST(test_mailbox_bound_from_elsewhere),
        TEST(test_completion_slots_of_local_sends),
        TEST(test_completion_slots_of_remote_sends),
        TEST(test_letter_for_another_agent),
        TEST(test_options_without_their_size),
        TEST(test_the_way_out_refuses),
        TEST(test_what_a_handler_may_ask),
        TEST(test_order_of_a_pair),
        TEST(test_allocation_failures),
        TEST(test_notices_let_letters_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
