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

#define ASKS_PER_ACTOR_MAX 1024u /* as in ask.c */
#define FAR                "amsterdam/edge:oracle"

struct asking {
    const char *to;
    uint64_t timeout_ms;
    uint64_t token; /* counts up */
    uint32_t count;
    enum sn_err last;
    uint32_t accepted;
    uint64_t fail_nth; /* allocation to fail */
};

static void do_ask(struct sn_ctx *ctx, void *arg)
{
    struct asking *asking = arg;
    if (asking->fail_nth != 0) sn_alloc_fail_nth(asking->fail_nth);
    for (uint32_t i = 0; i < asking->count; i++) {
        asking->last =
            sn_ask(ctx, asking->to, "a.question", "why", 3, asking->timeout_ms, asking->token++);
        asking->accepted += asking->last == SN_OK;
    }
    sn_alloc_fail_nth(0);
}

static struct probe *asker, *oracle;

static int set_up(void **state)
{
    (void)state; /* one world */
    world_new();
    asker = world_spawn("asker", 0, 2 * ASKS_PER_ACTOR_MAX);
    oracle = world_spawn("oracle", 2, 0);
    world_start();
    return 0;
}

static enum sn_err ask(const char *to, uint64_t timeout_ms, uint64_t token)
{
    struct asking asking = {.to = to, .timeout_ms = timeout_ms, .token = token, .count = 1};
    world_act(asker, do_ask, &asking);
    return asking.last;
}

static enum sn_err answer(struct sn_ctx *ctx, struct probe *probe, const struct sn_event *event)
{
    (void)probe; /* the oracle */
    if (event->kind != SN_EVENT_MESSAGE) return SN_OK;
    return sn_reply(ctx, event, "an.answer", "because", 7);
}

static enum sn_err answer_twice(struct sn_ctx *ctx, struct probe *probe,
                                const struct sn_event *event)
{
    enum sn_err err = answer(ctx, probe, event);
    return err == SN_OK ? answer(ctx, probe, event) : err;
}

static const struct record *expect_reply(uint64_t token, enum sn_err err)
{
    assert_int_equal(world_count(asker, SN_EVENT_REPLY), 1);
    const struct record *reply = world_record(asker, SN_EVENT_REPLY, 0);
    assert_int_equal(reply->token, token);
    if (reply->err != err) fail_msg("%s, not %s", sn_err_name(reply->err), sn_err_name(err));
    assert_int_equal(world_info(asker).asks_outstanding, 0);
    return reply;
}

static void test_local_answer(void **state)
{
    (void)state;
    oracle->on_event = answer;
    assert_int_equal(ask(":oracle", 1000, 5), SN_OK);
    const struct record *question = world_record(oracle, SN_EVENT_MESSAGE, 0);
    assert_true(question->correlation != 0);
    const struct record *reply = expect_reply(5, SN_OK);
    assert_string_equal(reply->payload, "because");
    assert_string_equal(reply->type, "an.answer");
    assert_string_equal(reply->actor, "oracle");
    assert_string_equal(reply->agent, "");
    world_run_ms(5000); /* no time-out after the answer */
    assert_int_equal(asker->record_count, 1);
    assert_int_equal(oracle->record_count, 1); /* a reply has no outcome */
}

static void test_second_answer_is_late(void **state)
{
    (void)state;
    oracle->on_event = answer_twice;
    assert_int_equal(ask(":oracle", 1000, 5), SN_OK);
    (void)expect_reply(5, SN_OK);
    assert_int_equal(world_metric("actor.late_replies"), 1);
}

static void test_time_out_and_late_reply(void **state)
{
    (void)state;
    uint64_t begin = sn_env_now_ns(world_get()->env);
    assert_int_equal(ask(":oracle", 250, 9), SN_OK);
    world_run_ms(249);
    assert_int_equal(asker->record_count, 0);
    assert_int_equal(world_info(asker).asks_outstanding, 1);
    world_run_ms(1);
    const struct record *reply = expect_reply(9, SN_ETIMEDOUT);
    assert_true(reply->at_ns == begin + 250 * FAKE_MS);
    uint64_t correlation = world_record(oracle, SN_EVENT_MESSAGE, 0)->correlation;
    assert_int_equal(world_reply("", correlation, "too late"), SN_REASON_NONE);
    world_run();
    assert_int_equal(asker->record_count, 1);
    assert_int_equal(world_metric("actor.late_replies"), 1);
}

static void test_endless_patience(void **state)
{
    (void)state;
    assert_int_equal(ask(":oracle", UINT64_MAX, 1), SN_OK);
    world_run_ms(1000000);
    assert_int_equal(asker->record_count, 0); /* the time did not overflow into the past */
    assert_int_equal(ask(":oracle", 0, 2), SN_OK);
    world_run_ms(1);
    assert_int_equal(world_record(asker, SN_EVENT_REPLY, 0)->token, 2);
}

static void test_outcomes_become_errors(void **state)
{
    (void)state;
    static const struct {
        enum sn_outcome outcome;
        enum sn_reason reason;
        enum sn_err err;
    } cases[] = {{SN_UNDELIVERED, SN_REASON_DENIED, SN_EDENIED},
                 {SN_UNDELIVERED, SN_REASON_NO_ACTOR, SN_ENOENT},
                 {SN_UNDELIVERED, SN_REASON_NO_AGENT, SN_ENOENT},
                 {SN_UNDELIVERED, SN_REASON_MAILBOX_FULL, SN_EFULL},
                 {SN_UNDELIVERED, SN_REASON_DEADLINE, SN_ETIMEDOUT},
                 {SN_UNKNOWN, SN_REASON_DEADLINE, SN_ETIMEDOUT},
                 {SN_UNKNOWN, SN_REASON_PEER_RESTARTED, SN_ERESET},
                 {SN_UNDELIVERED, SN_REASON_SHUTDOWN, SN_ECANCELLED},
                 {SN_UNDELIVERED, SN_REASON_NO_MEMORY, SN_ENOMEM},
                 {SN_UNDELIVERED, SN_REASON_ACTOR_FAILED, SN_ESTATE},
                 {SN_UNKNOWN, SN_REASON_NONE, SN_EIO}};
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        world_forget(asker);
        assert_int_equal(ask(FAR, 1000, i), SN_OK);
        assert_int_equal(world_info(asker).sends_outstanding, 1);
        world_settle(cases[i].outcome, cases[i].reason);
        assert_int_equal(expect_reply(i, cases[i].err)->reason, cases[i].reason);
        assert_int_equal(world_info(asker).sends_outstanding, 0);
    }
    world_forget(asker);
    world_run_ms(5000);
    assert_int_equal(asker->record_count, 0); /* one answer each */
}

static void test_delivered_question_waits_on(void **state)
{
    (void)state;
    assert_int_equal(ask(FAR, 1000, 1), SN_OK);
    assert_int_equal(world_last_away()->kind, SN_LETTER_ASK);
    uint64_t correlation = world_last_away()->correlation;
    world_settle(SN_DELIVERED, SN_REASON_NONE);
    assert_int_equal(asker->record_count, 0);
    assert_int_equal(world_reply("amsterdam/edge", correlation, "yes"), SN_REASON_NONE);
    world_run();
    assert_string_equal(expect_reply(1, SN_OK)->payload, "yes");
}

static void test_answer_before_the_acknowledgement(void **state)
{
    (void)state;
    assert_int_equal(ask(FAR, 1000, 1), SN_OK);
    uint64_t correlation = world_last_away()->correlation;
    assert_int_equal(world_reply("amsterdam/edge", correlation, "yes"), SN_REASON_NONE);
    world_run();
    (void)expect_reply(1, SN_OK);
    world_settle(SN_UNKNOWN, SN_REASON_PEER_RESTARTED);
    assert_int_equal(asker->record_count, 1);
    assert_int_equal(world_info(asker).sends_outstanding, 0);
}

static void test_only_the_agent_that_was_asked_may_answer(void **state)
{
    (void)state;
    assert_int_equal(ask(FAR, 1000, 1), SN_OK);
    uint64_t correlation = world_last_away()->correlation;
    static const char *const others[] = {"", "amsterdam/edge2", "amsterdam/edg", "paris/hub"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(others); i++) {
        assert_int_equal(world_reply(others[i], correlation, "lie"), SN_REASON_NONE);
    }
    world_run();
    assert_int_equal(asker->record_count, 0);
    assert_int_equal(world_metric("actor.late_replies"), SN_ARRAY_COUNT(others));
    assert_int_equal(world_reply("amsterdam/edge", correlation, "truth"), SN_REASON_NONE);
    world_run();
    assert_string_equal(expect_reply(1, SN_OK)->payload, "truth");
}

static void test_forged_correlations(void **state)
{
    (void)state;
    assert_int_equal(ask(FAR, 1000, 1), SN_OK);
    uint64_t correlation = world_last_away()->correlation;
    for (unsigned bit = 0; bit < 64; bit++) {
        enum sn_reason reason =
            world_reply("amsterdam/edge", correlation ^ (1ull << bit), "forged");
        /* Of an actor that does not exist, or of one that asked nothing like it. */
        assert_true(reason == SN_REASON_NO_ASK || reason == SN_REASON_NONE);
        assert_int_equal(reason == SN_REASON_NONE, bit < 49);
    }
    assert_int_equal(world_reply("amsterdam/edge", UINT64_MAX, "forged"), SN_REASON_NO_ASK);
    assert_int_equal(world_reply("amsterdam/edge", 0, "forged"), SN_REASON_NONE);
    world_run();
    assert_int_equal(asker->record_count, 0);
    assert_int_equal(oracle->record_count, 0);
    assert_int_equal(world_metric("actor.late_replies"), 50);
}

#define REPLIES_MAX 1024 /* as actor.c has it: what one actor may ask at once */

static void test_reply_flood_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(ask(FAR, 1000, 1), SN_OK);
    uint64_t correlation = world_last_away()->correlation;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < REPLIES_MAX + 100; i++) {
        taken += world_reply("amsterdam/edge", correlation + 1 + i, "flood") == SN_REASON_NONE;
    }
    assert_int_equal(taken, REPLIES_MAX);
    assert_int_equal(world_info(asker).mailbox_used, 0); /* messages have room as before */
    assert_int_equal(world_bring(asker->ref, "x", ""), SN_REASON_NONE);
    world_run();
    assert_int_equal(world_count(asker, SN_EVENT_MESSAGE), 1);
    assert_int_equal(world_metric("actor.late_replies"), REPLIES_MAX);
    assert_int_equal(world_reply("amsterdam/edge", correlation, "yes"), SN_REASON_NONE);
    world_run();
    (void)expect_reply(1, SN_OK);
}

static void test_bound_on_questions(void **state)
{
    (void)state;
    struct asking asking = {.to = FAR, .timeout_ms = 1000, .count = ASKS_PER_ACTOR_MAX + 1};
    world_act(asker, do_ask, &asking);
    assert_int_equal(asking.accepted, ASKS_PER_ACTOR_MAX);
    assert_int_equal(asking.last, SN_EFULL);
    world_run_ms(1000);
    assert_int_equal(world_count(asker, SN_EVENT_REPLY), ASKS_PER_ACTOR_MAX);
    assert_int_equal(world_info(asker).asks_outstanding, 0);
    /* The letters are under way still, and hold their completion slots. */
    assert_int_equal(world_info(asker).sends_outstanding, ASKS_PER_ACTOR_MAX);
    asking.accepted = 0;
    world_act(asker, do_ask, &asking);
    assert_int_equal(asking.accepted, ASKS_PER_ACTOR_MAX);
    world_run_ms(1000);
    asking.accepted = 0;
    world_act(asker, do_ask, &asking);
    assert_int_equal(asking.accepted, 0);
    assert_int_equal(asking.last, SN_EFULL);
    assert_int_equal(world_info(asker).asks_outstanding, 0);
}

static void test_refused_at_once(void **state)
{
    (void)state;
    assert_int_equal(ask("oracle", 1000, 1), SN_EINVAL);
    assert_int_equal(ask(":nobody", 1000, 1), SN_ENOENT);
    struct asking asking = {.to = ":oracle", .timeout_ms = 1000, .count = 3};
    world_act(asker, do_ask, &asking); /* its mailbox takes 2 */
    assert_int_equal(asking.accepted, 2);
    assert_int_equal(asking.last, SN_EFULL);
    assert_int_equal(world_info(asker).asks_outstanding, 2);
    world_get()->remote_err = SN_ENOENT;
    assert_int_equal(ask(FAR, 1000, 1), SN_ENOENT);
    assert_int_equal(world_info(asker).asks_outstanding, 2);
    assert_int_equal(world_info(asker).sends_outstanding, 0);
    world_run_ms(2000);
    assert_int_equal(world_count(asker, SN_EVENT_REPLY), 2); /* none for what was refused */
}

static struct sn_event kept;
static char kept_actor[16];

static void do_reply(struct sn_ctx *ctx, void *arg)
{
    *(enum sn_err *)arg = sn_reply(ctx, &kept, "an.answer", "later", 5);
}

static enum sn_err keep(struct sn_ctx *ctx, struct probe *probe, const struct sn_event *event)
{
    (void)ctx, (void)probe; /* answered later */
    (void)snprintf(kept_actor, sizeof kept_actor, "%s", event->actor);
    kept = (struct sn_event){.agent = "", .actor = kept_actor, .correlation = event->correlation};
    return SN_OK;
}

static void test_answer_later(void **state)
{
    (void)state;
    enum sn_err err;
    oracle->on_event = keep;
    assert_int_equal(ask(":oracle", 1000, 3), SN_OK);
    world_run_ms(500);
    world_act(oracle, do_reply, &err);
    assert_int_equal(err, SN_OK);
    assert_string_equal(expect_reply(3, SN_OK)->payload, "later");
}

static void test_answers_that_cannot_be_sent(void **state)
{
    (void)state;
    enum sn_err err;
    kept = (struct sn_event){.agent = "", .actor = "asker", .correlation = 0};
    world_act(oracle, do_reply, &err);
    assert_int_equal(err, SN_EINVAL);
    kept = (struct sn_event){.correlation = 1};
    world_act(oracle, do_reply, &err);
    assert_int_equal(err, SN_EINVAL);
    kept = (struct sn_event){.agent = "", .actor = "asker", .correlation = 77ull << 48};
    world_act(oracle, do_reply, &err);
    assert_int_equal(err, SN_ENOENT);
    kept = (struct sn_event){.agent = "a/b", .actor = "asker", .correlation = 1};
    world_act(oracle, do_reply, &err);
    assert_int_equal(err, SN_OK);
    const struct sn_letter *letter = world_last_away();
    assert_int_equal(letter->kind, SN_LETTER_REPLY);
    assert_int_equal(letter->correlation, 1);
    assert_string_equal(letter->to_agent, "a/b");
    world_settle(SN_UNDELIVERED, SN_REASON_NO_ASK);
    assert_int_equal(oracle->record_count, 0); /* replies have no outcome */
}

static void test_correlations_differ(void **state)
{
    (void)state;
    struct asking asking = {.to = FAR, .timeout_ms = 1000, .count = 100};
    world_act(asker, do_ask, &asking);
    uint64_t last = 0;
    SN_LIST_EACH (node, &world_get()->away) {
        const struct sn_letter *letter = SN_CONTAINER_OF(node, struct sn_letter, node);
        assert_true(letter->correlation != 0 && letter->correlation != last);
        assert_int_equal(letter->correlation >> 48, 0); /* slot of the asker */
        last = letter->correlation;
    }
    assert_true((last & 0xffffffff) > 1000); /* it does not count from 1 in every boot */
}

static void test_allocation_failures(void **state)
{
    (void)state;
    oracle->on_event = answer;
    assert_int_equal(ask(":oracle", 1000, 0), SN_OK);
    size_t before = sn_alloc_in_use();
    struct asking asking = {.to = ":oracle", .timeout_ms = 1000, .count = 1};
    for (asking.fail_nth = 1;; asking.fail_nth++) {
        world_act(asker, do_ask, &asking);
        if (asking.last == SN_OK) break;
        assert_int_equal(asking.last, SN_ENOMEM);
        assert_int_equal(world_info(asker).asks_outstanding, 0);
        assert_int_equal(sn_alloc_in_use(), before);
    }
    assert_true(asking.fail_nth > 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_local_answer),
        TEST(test_second_answer_is_late),
        TEST(test_time_out_and_late_reply),
        TEST(test_endless_patience),
        TEST(test_outcomes_become_errors),
        TEST(test_delivered_question_waits_on),
        TEST(test_answer_before_the_acknowledgement),
        TEST(test_only_the_agent_that_was_asked_may_answer),
        TEST(test_forged_correlations),
        TEST(test_reply_flood_is_bounded),
        TEST(test_bound_on_questions),
        TEST(test_refused_at_once),
        TEST(test_answer_later),
        TEST(test_answers_that_cannot_be_sent),
        TEST(test_correlations_differ),
        TEST(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
