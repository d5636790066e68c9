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

static struct probe *victim, *other; /* on different workers */

static enum sn_err break_on_command(struct sn_ctx *ctx, struct probe *probe,
                                    const struct sn_event *event)
{
    (void)ctx, (void)probe; /* the event says it all */
    return event->kind == SN_EVENT_MESSAGE && strcmp(event->type, "break") == 0 ? SN_EIO : SN_OK;
}

static int set_up(void **state)
{
    (void)state; /* one world */
    world_new();
    victim = world_spawn("victim", 8, 0);
    other = world_spawn("other", 0, 0);
    victim->on_event = break_on_command;
    world_start();
    return 0;
}

static void bring(const char *type)
{
    assert_int_equal(world_bring(victim->ref, type, ""), SN_REASON_NONE);
}

static void break_victim(void)
{
    bring("break");
    world_run();
}

static void test_restart_with_fresh_state(void **state)
{
    (void)state;
    bring("one");
    bring("break");
    bring("two");
    bring("three");
    world_run();
    assert_int_equal(victim->fini_count, 1);
    assert_int_equal(victim->fini_nth, 3); /* START, one, break */
    assert_int_equal(world_get()->failed_count, 1);
    assert_int_equal(world_count(victim, SN_EVENT_MESSAGE), 2);
    assert_int_equal(world_info(victim).mailbox_used, 2); /* kept, and still counted */
    bring("four"); /* a mailbox is open while its actor is down */
    world_run_ms(99);
    assert_int_equal(world_count(victim, SN_EVENT_START), 0);
    world_run_ms(1);
    const struct record *start = world_record(victim, SN_EVENT_START, 0);
    assert_int_equal(start->nth, 0); /* zero again */
    static const char *const types[] = {"one", "break", "two", "three", "four"};
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(world_record(victim, SN_EVENT_MESSAGE, i)->type, types[i]);
    }
    assert_int_equal(world_record(victim, SN_EVENT_MESSAGE, 2)->nth, 1); /* after START */
    assert_int_equal(world_info(victim).restarts, 1);
    assert_int_equal(world_info(victim).mailbox_used, 0);
    assert_false(world_info(victim).is_failed);
    assert_int_equal(world_metric("actor.failures"), 1);
    assert_non_null(strstr(fake_env_output(world_get()->env),
                           "warn  ACTOR-FAILED agent=" WORLD_AGENT
                           " from=victim err=io restart_ms=100\n"));
}

/* --- Another configuration ---------------------------------------------------------------------------- */

static void count_configured(void *arg)
{
    uint32_t *count = arg;
    (*count)++;
}

static void test_configure(void **state)
{
    (void)state;
    uint32_t count = 0;
    const struct sn_config_node *first = (const void *)"first"; /* never looked into */
    const struct sn_config_node *second = (const void *)"second";
    sn_system_configure(world_get()->system, victim->ref, first, count_configured, &count);
    world_run();
    assert_int_equal(count, 1);
    assert_int_equal(world_count(victim, SN_EVENT_CONFIG), 1);
    assert_ptr_equal(world_record(victim, SN_EVENT_CONFIG, 0)->config, first);
    /* Broken before it is told: it is done all the same, and START brings the new one. */
    bring("break");
    world_run();
    sn_system_configure(world_get()->system, victim->ref, second, count_configured, &count);
    world_run();
    assert_int_equal(count, 2);
    assert_int_equal(world_count(victim, SN_EVENT_CONFIG), 1);
    world_run_ms(100);
    assert_ptr_equal(world_record(victim, SN_EVENT_START, 0)->config, second);
}

static void test_mailbox_bound_holds_while_down(void **state)
{
    (void)state;
    break_victim();
    for (int i = 0; i < 8; i++) bring("x");
    assert_int_equal(world_bring(victim->ref, "x", ""), SN_REASON_MAILBOX_FULL);
    world_run_ms(100);
    assert_int_equal(world_count(victim, SN_EVENT_MESSAGE), 9);
}

static void test_back_off_grows(void **state)
{
    (void)state;
    static const uint64_t delays_ms[] = {100, 200, 400, 800};
    for (uint32_t i = 0; i < SN_ARRAY_COUNT(delays_ms); i++) {
        uint64_t begin = sn_env_now_ns(world_get()->env);
        break_victim();
        world_run_ms(1000);
        const struct record *start = world_record(victim, SN_EVENT_START, i);
        assert_true(start->at_ns == begin + delays_ms[i] * FAKE_MS);
    }
    assert_int_equal(world_get()->escalated_count, 0);
}

static void test_failures_far_apart_are_forgiven(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        break_victim();
        world_run_ms(15001); /* four in any minute */
    }
    assert_int_equal(world_info(victim).restarts, 20);
    assert_int_equal(world_get()->escalated_count, 0);
    world_run_ms(60000);
    uint64_t begin = sn_env_now_ns(world_get()->env);
    world_forget(victim);
    break_victim();
    world_run_ms(1000);
    assert_true(world_record(victim, SN_EVENT_START, 0)->at_ns == begin + 100 * FAKE_MS);
}

static uint32_t dropped_count;

static void on_dropped(struct sn_notice *notice, void *arg)
{
    (void)notice, (void)arg; /* counted only */
    dropped_count++;
}

static void post_notice(uint32_t incarnation, enum sn_event_kind kind)
{
    struct sn_notice *notice;
    assert_int_equal(sn_notice_new(victim->ref, incarnation, NULL, NULL, NULL, 0, &notice), SN_OK);
    notice->event.kind = kind;
    notice->dropped = on_dropped;
    sn_notice_post(world_get()->system, notice);
}

static void give_up(void)
{
    for (uint32_t i = 0; i < 5; i++) {
        world_run_ms(1000);
        break_victim();
    }
}

struct attempt {
    int is_ask;
    enum sn_err err;
};

static void do_attempt(struct sn_ctx *ctx, void *arg)
{
    struct attempt *attempt = arg;
    attempt->err = attempt->is_ask ? sn_ask(ctx, ":victim", "x", NULL, 0, 1000, 1)
                                   : sn_send(ctx, ":victim", "x", NULL, 0, NULL);
}

static void test_five_failures_in_a_minute_are_the_end(void **state)
{
    (void)state;
    dropped_count = 0;
    for (uint32_t i = 0; i < 4; i++) {
        break_victim();
        world_run_ms(1000);
    }
    world_forget(victim);
    bring("break");
    bring("waits");
    world_run();
    struct world *world = world_get();
    assert_int_equal(world->escalated_count, 1);
    assert_int_equal(world->escalated.id, victim->ref.id);
    assert_int_equal(world->escalated_err, SN_EIO);
    assert_int_equal(world->failed_count, 5);
    assert_int_equal(victim->fini_count, 5);
    assert_true(world_info(victim).is_failed);
    assert_int_equal(world_info(victim).mailbox_used, 0); /* thrown away */
    assert_int_equal(world_info(victim).restarts, 4);
    assert_non_null(strstr(fake_env_output(world->env), "ACTOR-GIVEN-UP"));

    assert_int_equal(world_bring(victim->ref, "x", ""), SN_REASON_ACTOR_FAILED);
    assert_int_equal(world_reply("a/b", 1, "x"), SN_REASON_ACTOR_FAILED);
    struct attempt attempt = {0};
    world_act(other, do_attempt, &attempt);
    assert_int_equal(attempt.err, SN_ESTATE);
    attempt.is_ask = 1;
    world_act(other, do_attempt, &attempt);
    assert_int_equal(attempt.err, SN_ESTATE);
    post_notice(5, SN_EVENT_STREAM_UP);
    post_notice(SN_INCARNATION_ANY, SN_EVENT_JOB);
    world_run_ms(120000);
    assert_int_equal(dropped_count, 2);
    assert_int_equal(victim->record_count, 1); /* nothing more, for ever */
    assert_int_equal(other->record_count, 0);
    world_free();
    assert_int_equal(victim->fini_count, 5); /* not once more for a state that is zero */
}

static void test_letters_on_their_way_when_it_ends(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        break_victim();
        world_run_ms(1000);
    }
    bring("break");
    /* Accepted, but not in the mailbox yet when the actor fails. */
    for (uint32_t i = 0; i < 3; i++) {
        (void)fake_env_step(world_get()->env); /* may be the other's */
        if (world_info(victim).is_failed) break;
        bring("behind");
    }
    world_run();
    assert_true(world_info(victim).is_failed);
    assert_int_equal(world_info(victim).mailbox_used, 0);
}

static void test_notices_of_the_failed_one_are_dropped(void **state)
{
    (void)state;
    dropped_count = 0;
    bring("break"); /* in the mailbox first, but notices go before letters */
    post_notice(0, SN_EVENT_STREAM_UP);
    post_notice(7, SN_EVENT_STREAM_UP); /* for an incarnation that is not */
    world_run();
    assert_int_equal(dropped_count, 1);
    assert_int_equal(world_count(victim, SN_EVENT_STREAM_UP), 1);
    post_notice(0, SN_EVENT_STREAM_UP); /* it is down */
    post_notice(1, SN_EVENT_STREAM_UP); /* for the next one, which has not started */
    world_run();
    assert_int_equal(dropped_count, 3);
    world_run_ms(100);
    post_notice(0, SN_EVENT_STREAM_DOWN); /* of the first one */
    post_notice(1, SN_EVENT_STREAM_DOWN);
    world_run();
    assert_int_equal(dropped_count, 4);
    assert_int_equal(world_count(victim, SN_EVENT_STREAM_UP), 1);
    assert_int_equal(world_count(victim, SN_EVENT_STREAM_DOWN), 1);
}

static enum sn_err break_on_stream(struct sn_ctx *ctx, struct probe *probe,
                                   const struct sn_event *event)
{
    (void)ctx, (void)probe; /* the event says it all */
    return event->kind == SN_EVENT_STREAM_UP ? SN_EPROTO : SN_OK;
}

static void test_notices_queued_behind_the_failure_are_dropped(void **state)
{
    (void)state;
    dropped_count = 0;
    victim->on_event = break_on_stream;
    post_notice(0, SN_EVENT_STREAM_UP);
    post_notice(0, SN_EVENT_STREAM_DOWN); /* both are queued when the first is handled */
    post_notice(SN_INCARNATION_ANY, SN_EVENT_JOB);
    world_run();
    assert_int_equal(dropped_count, 1);
    world_run_ms(1000);
    assert_int_equal(world_count(victim, SN_EVENT_STREAM_DOWN), 0);
    assert_int_equal(world_count(victim, SN_EVENT_JOB), 1); /* for whoever it is, after START */
    assert_int_equal(world_record(victim, SN_EVENT_JOB, 0)->nth, 1);
}

struct doing {
    enum sn_err err;
};

static void open_everything(struct sn_ctx *ctx, void *arg)
{
    struct doing *doing = arg;
    doing->err = sn_timer(ctx, 1, 150);
    if (doing->err == SN_OK) doing->err = sn_ask(ctx, "a/b:c", "x", NULL, 0, 150, 2);
    if (doing->err == SN_OK) doing->err = sn_send(ctx, "a/b:c", "x", NULL, 0, NULL);
    if (doing->err == SN_OK) doing->err = sn_send(ctx, "a/b:c", "x", NULL, 0, NULL);
}

/* Timers, questions and outcomes belong to the incarnation that made them. */
static void test_nothing_old_reaches_the_fresh_one(void **state)
{
    (void)state;
    struct doing doing = {SN_EIO};
    world_act(victim, open_everything, &doing);
    assert_int_equal(doing.err, SN_OK);
    uint64_t correlation =
        SN_CONTAINER_OF(world_get()->away.next, struct sn_letter, node)->correlation;
    break_victim();
    assert_int_equal(world_info(victim).asks_outstanding, 0);
    world_settle(SN_DELIVERED, SN_REASON_NONE); /* while it is down: the question */
    world_settle(SN_UNDELIVERED, SN_REASON_DENIED);
    world_run_ms(100);
    assert_int_equal(world_count(victim, SN_EVENT_START), 1);
    world_settle(SN_UNDELIVERED, SN_REASON_DENIED); /* of the first one, to the second */
    assert_int_equal(world_reply("a/b", correlation, "late"), SN_REASON_NONE);
    world_run_ms(1000);
    assert_int_equal(victim->record_count, 2);                 /* break, START */
    assert_int_equal(world_info(victim).sends_outstanding, 0); /* all slots came back */
    assert_int_equal(world_metric("actor.late_replies"), 1);
}

static enum sn_err break_on_outcome(struct sn_ctx *ctx, struct probe *probe,
                                    const struct sn_event *event)
{
    (void)ctx, (void)probe; /* the event says it all */
    return event->kind == SN_EVENT_OUTCOME ? SN_EIO : SN_OK;
}

/* Outcomes that wait behind the failure go with it. */
static void test_outcomes_queued_behind_the_failure_are_dropped(void **state)
{
    (void)state;
    struct world *world = world_get();
    struct doing doing = {SN_EIO};
    victim->on_event = break_on_outcome;
    world_act(victim, open_everything, &doing);
    struct sn_list *node;
    while ((node = sn_list_pop(&world->away)) != NULL) {
        sn_system_settle(world->system, SN_CONTAINER_OF(node, struct sn_letter, node),
                         SN_UNDELIVERED, SN_REASON_DENIED);
    }
    world_run_ms(1000);
    assert_int_equal(world_count(victim, SN_EVENT_OUTCOME), 1);
    assert_int_equal(world->failed_count, 1);
    assert_int_equal(world_info(victim).sends_outstanding, 0);
}

static enum sn_err break_on_timer(struct sn_ctx *ctx, struct probe *probe,
                                  const struct sn_event *event)
{
    (void)ctx, (void)probe; /* the event says it all */
    int is_bad = event->kind == SN_EVENT_TIMER || event->kind == SN_EVENT_REPLY;
    return is_bad ? SN_EIO : SN_OK;
}

static void test_failure_in_a_timer_or_time_out(void **state)
{
    (void)state;
    struct doing doing = {SN_EIO};
    victim->on_event = break_on_timer;
    world_act(victim, open_everything, &doing);
    bring("waits");
    world_run_ms(150);
    assert_int_equal(world_get()->failed_count, 1); /* the other of the two went with it */
    world_run_ms(1000);
    assert_int_equal(world_get()->failed_count, 1);
    assert_int_equal(world_count(victim, SN_EVENT_START), 1);
}

/* --- Pace ------------------------------------------------------------------------------------------------ */

static void spin_250_ms(struct sn_ctx *ctx, void *arg)
{
    (void)ctx, (void)arg; /* long and idle */
    fake_env_advance(world_get()->env, 250 * FAKE_MS);
}

static void test_slow_turn_is_named(void **state)
{
    (void)state;
    world_act(victim, spin_250_ms, NULL);
    assert_non_null(strstr(fake_env_output(world_get()->env),
                           "ACTOR-SLOW agent=" WORLD_AGENT " from=victim took_ms=250\n"));
    assert_int_equal(world_metric("actor.slow_turns"), 1);
    fake_env_clear_output(world_get()->env);
    break_victim();
    assert_null(strstr(fake_env_output(world_get()->env), "ACTOR-SLOW"));
}

static enum sn_err spin_in_timer(struct sn_ctx *ctx, struct probe *probe,
                                 const struct sn_event *event)
{
    (void)probe; /* it is the clock that matters */
    if (event->kind == SN_EVENT_MESSAGE) return sn_timer(ctx, 1, 10);
    if (event->kind == SN_EVENT_TIMER) spin_250_ms(ctx, NULL);
    return SN_OK;
}

static void test_slow_timer_is_named(void **state)
{
    (void)state;
    victim->on_event = spin_in_timer;
    bring("x");
    world_run_ms(100);
    assert_non_null(strstr(fake_env_output(world_get()->env), "from=victim took_ms=250\n"));
}

/* A handler that does not come back: while it spins the neighbour's loop goes on. */
static void spin_for(struct sn_ctx *ctx, void *arg)
{
    (void)ctx; /* nothing is sent */
    struct sn_env *env = world_get()->env;
    for (uint64_t i = 0; i < *(const uint64_t *)arg; i++) fake_env_run_for(env, 10 * FAKE_MS);
}

static uint32_t count_stuck(void)
{
    uint32_t count = 0;
    const char *at = fake_env_output(world_get()->env);
    while ((at = strstr(at, "ACTOR-STUCK")) != NULL) {
        count++;
        at++;
    }
    return count;
}

static void test_watchdog_names_a_stuck_handler(void **state)
{
    (void)state;
    uint64_t tens_of_ms = 100;
    world_run_ms(1000);
    world_act(victim, spin_for, &tens_of_ms);
    assert_int_equal(count_stuck(), 0); /* a second at most is only slow */
    tens_of_ms = 500;
    world_act(victim, spin_for, &tens_of_ms);
    assert_int_equal(count_stuck(), 1); /* once for each call */
    assert_non_null(strstr(fake_env_output(world_get()->env),
                           "error ACTOR-STUCK agent=" WORLD_AGENT " from=victim for_ms=1000 "
                           "worker=0\n"));
    world_act(other, spin_for, &tens_of_ms);
    assert_int_equal(count_stuck(), 2);
    assert_non_null(strstr(fake_env_output(world_get()->env), "from=other for_ms=1000 worker=1\n"));
}

static enum sn_err spin_50_ms(struct sn_ctx *ctx, struct probe *probe, const struct sn_event *event)
{
    uint64_t tens_of_ms = 5;
    (void)probe; /* it is the clock that matters */
    if (event->kind == SN_EVENT_MESSAGE) spin_for(ctx, &tens_of_ms);
    return SN_OK;
}

/* Many short handlers in one turn are not one long one. */
static void test_watchdog_is_not_fooled_by_a_long_turn(void **state)
{
    (void)state;
    struct probe *busy = other;
    busy->on_event = spin_50_ms;
    for (uint32_t i = 0; i < 60; i++) {
        assert_int_equal(world_bring(busy->ref, "x", ""), SN_REASON_NONE);
    }
    world_run();
    assert_int_equal(world_count(busy, SN_EVENT_MESSAGE), 60); /* 3 seconds */
    assert_int_equal(count_stuck(), 0);
    assert_non_null(strstr(fake_env_output(world_get()->env), "ACTOR-SLOW"));
}

static uint32_t seen_of_first;

static enum sn_err look_at_first(struct sn_ctx *ctx, struct probe *probe,
                                 const struct sn_event *event)
{
    (void)ctx, (void)probe, (void)event; /* that it runs is enough */
    seen_of_first = world_count(&world_get()->probes[0], SN_EVENT_MESSAGE);
    return SN_OK;
}

static void test_turns_are_bounded(void **state)
{
    (void)state;
    world_free(); /* it takes another world: two actors on one worker */
    world_new();
    struct probe *a = world_spawn("a", 500, 0);
    world_spawn("b", 0, 0);
    struct probe *c = world_spawn("c", 0, 0); /* on a's worker */
    world_start();
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(world_bring(a->ref, "x", ""), SN_REASON_NONE);
    }
    assert_int_equal(world_bring(c->ref, "x", ""), SN_REASON_NONE);
    c->on_event = look_at_first;
    seen_of_first = 0;
    world_run();
    assert_int_equal(seen_of_first, 64); /* the first one's turn, then it was c's */
    assert_int_equal(world_count(a, SN_EVENT_MESSAGE), 200);
}

static void test_given_up_then_drained(void **state)
{
    (void)state;
    give_up();
    assert_true(world_info(victim).is_failed);
    world_forget(victim);
    sn_system_drain(world_get()->system);
    world_run_ms(1000);
    assert_int_equal(victim->record_count, 0);
    assert_int_equal(world_count(other, SN_EVENT_STOP), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_restart_with_fresh_state),
        TEST(test_configure),
        TEST(test_mailbox_bound_holds_while_down),
        TEST(test_back_off_grows),
        TEST(test_failures_far_apart_are_forgiven),
        TEST(test_five_failures_in_a_minute_are_the_end),
        TEST(test_letters_on_their_way_when_it_ends),
        TEST(test_notices_of_the_failed_one_are_dropped),
        TEST(test_notices_queued_behind_the_failure_are_dropped),
        TEST(test_nothing_old_reaches_the_fresh_one),
        TEST(test_outcomes_queued_behind_the_failure_are_dropped),
        TEST(test_failure_in_a_timer_or_time_out),
        TEST(test_slow_turn_is_named),
        TEST(test_slow_timer_is_named),
        TEST(test_watchdog_names_a_stuck_handler),
        TEST(test_watchdog_is_not_fooled_by_a_long_turn),
        TEST(test_turns_are_bounded),
        TEST(test_given_up_then_drained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
