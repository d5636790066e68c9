/* SPDX-License-Identifier: Apache-2.0 */
/* Timers and offloaded jobs of an actor. */
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

static struct probe *actor;

static enum sn_err break_on_message(struct sn_ctx *ctx, struct probe *probe,
                                    const struct sn_event *event)
{
    (void)ctx, (void)probe; /* the event says it all */
    return event->kind == SN_EVENT_MESSAGE ? SN_EIO : SN_OK;
}

static int set_up(void **state)
{
    (void)state; /* one world */
    world_new();
    actor = world_spawn("a", 0, 0);
    actor->on_event = break_on_message;
    world_start();
    return 0;
}

/* --- Timers ----------------------------------------------------------------------------------------- */

struct timing {
    uint64_t token, after_ms;
    int is_cancel;
    uint64_t fail_nth;
    enum sn_err err;
};

static void do_timer(struct sn_ctx *ctx, void *arg)
{
    struct timing *timing = arg;
    if (timing->is_cancel) {
        sn_timer_cancel(ctx, timing->token);
        return;
    }
    if (timing->fail_nth != 0) sn_alloc_fail_nth(timing->fail_nth);
    timing->err = sn_timer(ctx, timing->token, timing->after_ms);
    sn_alloc_fail_nth(0);
}

static void set_timer(uint64_t token, uint64_t after_ms)
{
    struct timing timing = {.token = token, .after_ms = after_ms, .err = SN_EIO};
    world_act(actor, do_timer, &timing);
    assert_int_equal(timing.err, SN_OK);
}

static void expect_tokens(const uint64_t *tokens, uint32_t count)
{
    assert_int_equal(world_count(actor, SN_EVENT_TIMER), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(world_record(actor, SN_EVENT_TIMER, i)->token, tokens[i]);
    }
    world_forget(actor);
}
#define EXPECT_TOKENS(...)                                                                         \
    expect_tokens((const uint64_t[]){__VA_ARGS__},                                                 \
                  sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void test_timers_by_token(void **state)
{
    (void)state;
    uint64_t begin = sn_env_now_ns(world_get()->env);
    set_timer(1, 30);
    set_timer(2, 10);
    set_timer(UINT64_MAX, 20);
    set_timer(0, 40);
    world_run_ms(9);
    assert_int_equal(actor->record_count, 0);
    world_run_ms(1);
    assert_true(world_record(actor, SN_EVENT_TIMER, 0)->at_ns == begin + 10 * FAKE_MS);
    world_run_ms(1000);
    EXPECT_TOKENS(2, UINT64_MAX, 1, 0);
}

static void test_timer_is_moved(void **state)
{
    (void)state;
    set_timer(1, 10);
    set_timer(2, 20);
    set_timer(1, 30);
    set_timer(2, 5);
    world_run_ms(1000);
    EXPECT_TOKENS(2, 1);
    set_timer(1, 10); /* a fired one can be used again */
    world_run_ms(1000);
    EXPECT_TOKENS(1);
}

static void test_timer_is_cancelled(void **state)
{
    (void)state;
    set_timer(1, 10);
    set_timer(2, 10);
    struct timing cancel = {.token = 1, .is_cancel = 1};
    world_act(actor, do_timer, &cancel);
    world_act(actor, do_timer, &cancel); /* harmless */
    world_run_ms(1000);
    EXPECT_TOKENS(2);
}

static void test_extreme_times(void **state)
{
    (void)state;
    set_timer(1, UINT64_MAX);
    set_timer(2, UINT64_MAX / 1000000);
    set_timer(3, 0);
    world_run_ms(0);
    fake_env_advance(world_get()->env, 1);
    world_run_ms(100000);
    EXPECT_TOKENS(3);
}

static void test_bound_on_timers(void **state)
{
    (void)state;
    struct timing timing = {.after_ms = 10};
    for (uint64_t i = 0; i < SN_TIMERS_PER_ACTOR_MAX; i++) set_timer(i, 1000);
    timing.token = SN_TIMERS_PER_ACTOR_MAX;
    world_act(actor, do_timer, &timing);
    assert_int_equal(timing.err, SN_EFULL);
    set_timer(17, 5); /* moving one needs no room */
    world_run_ms(5);
    EXPECT_TOKENS(17);
    world_act(actor, do_timer, &timing);
    assert_int_equal(timing.err, SN_OK);
    world_run_ms(10);
    EXPECT_TOKENS(SN_TIMERS_PER_ACTOR_MAX);
}

static void test_timers_without_memory(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct timing timing = {.token = 1, .after_ms = 10, .fail_nth = 1};
    world_act(actor, do_timer, &timing);
    assert_int_equal(timing.err, SN_ENOMEM);
    assert_int_equal(sn_alloc_in_use(), before);
    for (uint64_t i = 0; i < 40; i++) set_timer(100 + i, 1000); /* the heap grows on the way */
    for (timing.fail_nth = 1;; timing.fail_nth++) {
        world_act(actor, do_timer, &timing);
        if (timing.err == SN_OK) break;
        assert_int_equal(timing.err, SN_ENOMEM);
    }
    world_run_ms(10);
    EXPECT_TOKENS(1);
}

static void test_growing_heap_without_memory(void **state)
{
    (void)state;
    struct timing timing = {.after_ms = 10};
    uint32_t refused = 0;
    /* Where the second allocation of a call is made, it is the heap's. */
    for (uint64_t i = 0; i < 100; i++) {
        timing.token = i;
        timing.fail_nth = 2;
        world_act(actor, do_timer, &timing);
        refused += timing.err == SN_ENOMEM;
        assert_true(timing.err == SN_OK || timing.err == SN_ENOMEM);
    }
    assert_in_range(refused, 1, 5);
    world_run_ms(10);
    assert_int_equal(world_count(actor, SN_EVENT_TIMER), 100 - refused);
}

/* --- Jobs -------------------------------------------------------------------------------------------- */

struct job {
    int run_count;
    uint32_t kind;
    enum sn_err err;
    uint64_t fail_nth;
};

static void run(void *pointer)
{
    ((struct job *)pointer)->run_count++;
}

static void do_offload(struct sn_ctx *ctx, void *arg)
{
    struct job *job = arg;
    if (job->fail_nth != 0) sn_alloc_fail_nth(job->fail_nth);
    job->err = sn_offload(ctx, job->kind, run, job, 77);
    sn_alloc_fail_nth(0);
}

static void test_job_comes_back(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 3; kind++) {
        struct job job = {.kind = kind};
        world_forget(actor);
        world_act(actor, do_offload, &job);
        assert_int_equal(job.err, SN_OK);
        assert_int_equal(job.run_count, 0);
        assert_int_equal(actor->record_count, 0);
        assert_int_equal(fake_env_run_jobs(world_get()->env), 1);
        world_run();
        assert_int_equal(job.run_count, 1);
        assert_int_equal(actor->record_count, 1);
        assert_int_equal(world_record(actor, SN_EVENT_JOB, 0)->token, 77);
        assert_ptr_equal(world_record(actor, SN_EVENT_JOB, 0)->pointer, &job);
    }
}

static void test_job_is_refused(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct job job = {.kind = 3};
    world_act(actor, do_offload, &job);
    assert_int_equal(job.err, SN_EINVAL);
    fake_env_fail_offload(world_get()->env, SN_EFULL);
    job.kind = 1;
    world_act(actor, do_offload, &job);
    assert_int_equal(job.err, SN_EFULL);
    fake_env_fail_offload(world_get()->env, SN_OK);
    for (job.fail_nth = 1;; job.fail_nth++) {
        world_act(actor, do_offload, &job);
        if (job.err == SN_OK) break;
        assert_int_equal(job.err, SN_ENOMEM);
        assert_int_equal(sn_alloc_in_use(), before);
    }
    assert_int_equal(job.fail_nth, 3);
    assert_int_equal(fake_env_run_jobs(world_get()->env), 1);
    world_run();
    assert_int_equal(actor->record_count, 1); /* for the one that was accepted */
    assert_int_equal(sn_alloc_in_use(), before);
}

static void fail_actor(void)
{
    assert_int_equal(world_bring(actor->ref, "break", ""), SN_REASON_NONE);
    world_run();
}

/* Only its handler can release what the pointer holds. */
static void test_job_comes_back_after_a_failure(void **state)
{
    (void)state;
    struct job job = {0}, late = {0};
    world_act(actor, do_offload, &job);
    world_act(actor, do_offload, &late);
    fail_actor();
    assert_int_equal(fake_env_run_jobs(world_get()->env), 2);
    world_run();
    assert_int_equal(world_count(actor, SN_EVENT_JOB), 0); /* it is down */
    world_run_ms(100);
    assert_int_equal(world_count(actor, SN_EVENT_JOB), 2);
    assert_ptr_equal(world_record(actor, SN_EVENT_JOB, 0)->pointer, &job);
    assert_int_equal(world_record(actor, SN_EVENT_JOB, 0)->nth, 1); /* after START */
}

static void test_job_that_is_back_when_the_actor_fails(void **state)
{
    (void)state;
    struct job job = {0};
    world_act(actor, do_offload, &job);
    /* The failing message is handled first, the event waits behind it. */
    fail_actor();
    assert_int_equal(fake_env_run_jobs(world_get()->env), 1);
    world_run();
    fail_actor();
    world_run_ms(1000);
    assert_int_equal(world_count(actor, SN_EVENT_JOB), 1);
}

static void test_job_of_an_actor_that_was_given_up(void **state)
{
    (void)state;
    struct job job = {0};
    world_act(actor, do_offload, &job);
    for (int i = 0; i < 5; i++) {
        fail_actor();
        world_run_ms(1000);
    }
    assert_true(world_info(actor).is_failed);
    assert_int_equal(fake_env_run_jobs(world_get()->env), 1);
    world_run();
    assert_int_equal(job.run_count, 1);
    assert_int_equal(world_count(actor, SN_EVENT_JOB), 0);
}

static void test_job_that_ends_when_the_system_has_stopped(void **state)
{
    (void)state;
    struct job job = {0};
    world_act(actor, do_offload, &job);
    sn_system_stop(world_get()->system);
    assert_int_equal(fake_env_run_jobs(world_get()->env), 1);
    assert_int_equal(job.run_count, 1);
    world_free();
    assert_int_equal(actor->record_count, 0);
}

static void test_job_that_outlives_the_system(void **state)
{
    (void)state;
    struct job job = {0};
    struct world *world = world_get();
    world_act(actor, do_offload, &job);
    sn_system_free(world->system);
    world->system = NULL;
    assert_int_equal(fake_env_run_jobs(world->env), 1); /* touches nothing of the system */
    assert_int_equal(job.run_count, 1);
    sn_metrics_free(world->metrics);
    fake_env_free(world->env);
    assert_int_equal(sn_alloc_in_use(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_timers_by_token),
        TEST(test_timer_is_moved),
        TEST(test_timer_is_cancelled),
        TEST(test_extreme_times),
        TEST(test_bound_on_timers),
        TEST(test_timers_without_memory),
        TEST(test_growing_heap_without_memory),
        TEST(test_job_comes_back),
        TEST(test_job_is_refused),
        TEST(test_job_comes_back_after_a_failure),
        TEST(test_job_that_is_back_when_the_actor_fails),
        TEST(test_job_of_an_actor_that_was_given_up),
        TEST(test_job_that_ends_when_the_system_has_stopped),
        TEST(test_job_that_outlives_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
