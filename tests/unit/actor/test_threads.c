/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and actors on real threads: what virtual time in one thread cannot show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "actor/system.h"
#include "actor/worker_int.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "env/env_posix.h"
#include "world.h"

#define PATIENCE_MS 20000u /* only a failure takes that long */
#define POSTERS     4u
#define POSTS       4000u

static struct sn_env *env;

static int set_up(void **state)
{
    (void)state; /* one environment */
    return sn_env_posix_new(&env) == SN_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state; /* one environment */
    sn_env_posix_free(env);
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

/* --- Tasks --------------------------------------------------------------------------------------------- */

struct numbered {
    struct sn_task task;
    uint32_t poster, number;
};

static struct sn_worker *receiver;
static struct numbered posts[POSTERS][POSTS];
static uint32_t next_number[POSTERS]; /* the receiver's */
static uint32_t received, out_of_order;

static void receive(struct sn_task *task, struct sn_worker *worker)
{
    struct numbered *post = SN_CONTAINER_OF(task, struct numbered, task);
    (void)worker; /* the receiver */
    out_of_order += post->number != next_number[post->poster];
    next_number[post->poster] = post->number + 1;
    if (++received == POSTERS * POSTS) sn_env_unpark(env);
}

static void post_all(struct sn_task *task, struct sn_worker *worker)
{
    uint32_t poster = sn_worker_index(worker);
    (void)task; /* started by it */
    for (uint32_t i = 0; i < POSTS; i++) {
        posts[poster][i] = (struct numbered){{.run = receive}, poster, i};
        sn_worker_post(receiver, &posts[poster][i].task);
    }
}

static void test_tasks_of_each_poster_stay_in_order(void **state)
{
    (void)state;
    static struct sn_task begin[POSTERS];
    struct sn_worker *posters[POSTERS];
    received = out_of_order = 0;
    memset(next_number, 0, sizeof next_number);
    assert_int_equal(sn_worker_new(env, POSTERS, "receiver", NULL, &receiver), SN_OK);
    assert_int_equal(sn_worker_start(receiver), SN_OK);
    for (uint32_t i = 0; i < POSTERS; i++) {
        assert_int_equal(sn_worker_new(env, i, "poster", NULL, &posters[i]), SN_OK);
        begin[i].run = post_all;
        sn_worker_post(posters[i], &begin[i]);
        assert_int_equal(sn_worker_start(posters[i]), SN_OK);
    }
    assert_int_equal(sn_env_park(env, PATIENCE_MS), SN_OK);
    for (uint32_t i = 0; i < POSTERS; i++) {
        sn_worker_stop(posters[i]);
        sn_worker_free(posters[i]);
    }
    sn_worker_stop(receiver);
    sn_worker_free(receiver);
    assert_int_equal(received, POSTERS * POSTS);
    assert_int_equal(out_of_order, 0);
}

struct ball {
    struct sn_task task;
    struct sn_worker *sides[2];
    uint32_t hits;
};

static void hit(struct sn_task *task, struct sn_worker *worker)
{
    struct ball *ball = SN_CONTAINER_OF(task, struct ball, task);
    if (++ball->hits == 5000) {
        sn_env_unpark(env);
        return;
    }
    sn_worker_post(ball->sides[1 - sn_worker_index(worker)], task);
}

/* Each post finds the other side asleep, or on its way to sleep. */
static void test_post_wakes_a_sleeping_worker(void **state)
{
    (void)state;
    struct ball ball = {.task.run = hit};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(sn_worker_new(env, i, "side", NULL, &ball.sides[i]), SN_OK);
        assert_int_equal(sn_worker_start(ball.sides[i]), SN_OK);
    }
    sn_worker_post(ball.sides[0], &ball.task);
    assert_int_equal(sn_env_park(env, PATIENCE_MS), SN_OK);
    for (uint32_t i = 0; i < 2; i++) {
        sn_worker_stop(ball.sides[i]);
        sn_worker_free(ball.sides[i]);
    }
    assert_int_equal(ball.hits, 5000);
}

struct real_alarm {
    struct sn_timer timer;
    uint64_t at_ns;
    int is_early;
};

static void ring(struct sn_timer *timer, struct sn_worker *worker)
{
    struct real_alarm *alarm = SN_CONTAINER_OF(timer, struct real_alarm, timer);
    alarm->is_early = sn_worker_refresh_now(worker) < alarm->at_ns;
    sn_env_unpark(env);
}

static void test_real_timer(void **state)
{
    (void)state;
    struct sn_worker *worker;
    struct real_alarm alarm = {.is_early = 1};
    assert_int_equal(sn_worker_new(env, 0, "timer", NULL, &worker), SN_OK);
    sn_timer_init(&alarm.timer, ring);
    alarm.at_ns = sn_env_now_ns(env) + 20 * SN_MS;
    sn_timer_start(worker, &alarm.timer, alarm.at_ns);
    assert_int_equal(sn_worker_start(worker), SN_OK);
    assert_int_equal(sn_env_park(env, PATIENCE_MS), SN_OK);
    sn_worker_stop(worker);
    sn_worker_free(worker);
    assert_false(alarm.is_early);
}

/* --- Actors -------------------------------------------------------------------------------------------- */

#define SENDERS  4u
#define MESSAGES 3000u

struct sender {
    uint32_t sent, outcomes;
};

struct sink {
    uint32_t next[SENDERS];
    uint32_t count;
};

static struct sink sink_result; /* written by the sink's worker, read when all workers are joined */
static uint32_t sender_results[SENDERS];
static _Atomic uint32_t finished; /* partner: the last of senders and sink unparks */

static void finish(void)
{
    if (atomic_fetch_add(&finished, 1) == SENDERS) sn_env_unpark(env);
}

static enum sn_err go_on(struct sn_ctx *ctx, struct sender *sender)
{
    while (sender->sent < MESSAGES) {
        enum sn_err err = sn_send(ctx, ":sink", "n", &sender->sent, sizeof sender->sent, NULL);
        if (err == SN_EFULL) return sn_timer(ctx, 1, 1);
        if (err != SN_OK) return err;
        sender->sent++;
    }
    return SN_OK;
}

static enum sn_err sender_handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct sender *sender = state;
    switch (event->kind) {
    case SN_EVENT_START:
    case SN_EVENT_TIMER: return go_on(ctx, sender);
    case SN_EVENT_OUTCOME:
        if (event->outcome != SN_DELIVERED) return SN_EPROTO;
        sender->outcomes++;
        sender_results[sn_ctx_self(ctx).id - 1] = sender->outcomes;
        if (sender->outcomes == MESSAGES) finish();
        return SN_OK;
    default: return SN_OK;
    }
}

static enum sn_err sink_handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct sink *sink = state;
    uint32_t number;
    (void)ctx; /* it only listens */
    if (event->kind != SN_EVENT_MESSAGE) return SN_OK;
    unsigned from = (unsigned)(event->actor[1] - '0'); /* s0, s1... */
    if (from >= SENDERS || event->payload_size != sizeof number) return SN_EPROTO;
    memcpy(&number, event->payload, sizeof number);
    if (number != sink->next[from]++) return SN_EPROTO; /* out of order, lost or repeated */
    if (++sink->count == SENDERS * MESSAGES) {
        sink_result = *sink;
        finish();
    }
    return SN_OK;
}

static const struct sn_actor_kind kinds[SENDERS + 1] = {
    {sizeof kinds[0], sizeof(struct sender), "s0", 0, 0, sender_handle, NULL, NULL},
    {sizeof kinds[0], sizeof(struct sender), "s1", 0, 0, sender_handle, NULL, NULL},
    {sizeof kinds[0], sizeof(struct sender), "s2", 0, 7, sender_handle, NULL, NULL},
    {sizeof kinds[0], sizeof(struct sender), "s3", 0, 0, sender_handle, NULL, NULL},
    {sizeof kinds[0], sizeof(struct sink), "sink", 50, 0, sink_handle, NULL, NULL}};

static struct sn_metrics *metrics;

static struct sn_system *new_system(const struct sn_actor_kind *list, uint32_t count)
{
    struct sn_system *system;
    struct sn_actor_ref ref;
    assert_int_equal(sn_metrics_new(4, &metrics), SN_OK);
    struct sn_system_config config = {.env = env,
                                      .host = &world_host,
                                      .metrics = metrics,
                                      .agent_name = WORLD_AGENT,
                                      .worker_count = 3,
                                      .log_level = SN_ERROR};
    assert_int_equal(sn_system_new(&config, &system), SN_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(sn_system_spawn(system, &list[i], NULL, 0, &ref), SN_OK);
    }
    assert_int_equal(sn_system_start(system), SN_OK);
    return system;
}

/* Four senders on three workers press one small mailbox. */
static void test_order_of_each_pair_across_workers(void **state)
{
    (void)state;
    atomic_store(&finished, 0);
    memset(&sink_result, 0, sizeof sink_result);
    struct sn_system *system = new_system(kinds, SN_ARRAY_COUNT(kinds));
    assert_int_equal(sn_env_park(env, PATIENCE_MS), SN_OK);
    sn_system_stop(system);
    for (uint32_t i = 0; i < SENDERS; i++) {
        assert_int_equal(sink_result.next[i], MESSAGES);
        assert_int_equal(sender_results[i], MESSAGES);
    }
    for (uint32_t i = 0; i <= SENDERS; i++) {
        struct sn_actor_info info;
        assert_int_equal(sn_system_actor_info(system, i, &info), SN_OK);
        assert_int_equal(info.restarts, 0);
        assert_int_equal(info.mailbox_used, 0);
        assert_int_equal(info.sends_outstanding, 0);
    }
    assert_int_equal(sn_system_local_accepted(system), SENDERS * MESSAGES);
    sn_system_free(system);
    sn_metrics_free(metrics);
}

/* Stopped in the middle of traffic: nothing leaks, nothing is touched after it was freed. */
static void test_stop_in_the_middle(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        atomic_store(&finished, 0);
        struct sn_system *system = new_system(kinds, SN_ARRAY_COUNT(kinds));
        if (i % 2 == 0) sn_system_drain(system);
        enum sn_err err = sn_env_park(env, i % 5);
        assert_true(err == SN_ETIMEDOUT || err == SN_OK);
        sn_system_free(system);
        sn_metrics_free(metrics);
    }
}

static _Atomic uint32_t jobs_run; /* partner: itself, a count looked at when all is over */

static void run_job(void *pointer)
{
    (void)pointer; /* nothing to do */
    atomic_fetch_add(&jobs_run, 1);
}

static enum sn_err worker_handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    uint32_t *ended = state;
    if (event->kind == SN_EVENT_JOB && ++*ended == 400) sn_env_unpark(env);
    if (event->kind != SN_EVENT_START && event->kind != SN_EVENT_JOB) return SN_OK;
    for (uint32_t i = 0; i < 2; i++) {
        enum sn_err err = sn_offload(ctx, i, run_job, state, 1);
        if (err != SN_OK && err != SN_EFULL) return err;
    }
    return SN_OK;
}

static const struct sn_actor_kind job_kinds[] = {
    {sizeof job_kinds[0], sizeof(uint32_t), "j0", 0, 0, worker_handle, NULL, NULL},
    {sizeof job_kinds[0], sizeof(uint32_t), "j1", 0, 0, worker_handle, NULL, NULL}};

/* Jobs are always under way when the system ends, and some end after it is gone. */
static void test_jobs_outlive_the_system(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct sn_system *system = new_system(job_kinds, SN_ARRAY_COUNT(job_kinds));
        enum sn_err err = sn_env_park(env, i == 0 ? PATIENCE_MS : i);
        assert_true(err == SN_OK || i > 0);
        sn_system_free(system);
        sn_metrics_free(metrics);
    }
    assert_true(atomic_load(&jobs_run) >= 400);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tasks_of_each_poster_stay_in_order),
        TEST(test_post_wakes_a_sleeping_worker),
        TEST(test_real_timer),
        TEST(test_order_of_each_pair_across_workers),
        TEST(test_stop_in_the_middle),
        TEST(test_jobs_outlive_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
