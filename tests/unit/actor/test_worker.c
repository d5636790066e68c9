/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "actor/worker_int.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "unit/fake_env.h"
#include "unit/rng.h"

#define LOG_MAX 512u

struct fixture {
    struct sn_env *env;
    struct sn_worker *worker;
    int log[LOG_MAX]; /* numbers of what ran, in order */
    uint32_t log_count;
};

static struct fixture fixture;

static void note(int number)
{
    assert_true(fixture.log_count < LOG_MAX);
    fixture.log[fixture.log_count++] = number;
}

static void expect_log(const int *numbers, uint32_t count)
{
    assert_int_equal(fixture.log_count, count);
    assert_memory_equal(fixture.log, numbers, count * sizeof *numbers);
    fixture.log_count = 0;
}
#define EXPECT_LOG(...)                                                                            \
    expect_log((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static int set_up(void **state)
{
    (void)state; /* one fixture */
    memset(&fixture, 0, sizeof fixture);
    fixture.env = fake_env_new();
    assert_int_equal(sn_worker_new(fixture.env, 3, "worker-3", &fixture, &fixture.worker), SN_OK);
    assert_int_equal(sn_worker_start(fixture.worker), SN_OK);
    fake_env_run(fixture.env);
    return 0;
}

static int tear_down(void **state)
{
    (void)state; /* one fixture */
    sn_worker_stop(fixture.worker);
    sn_worker_free(fixture.worker);
    fake_env_free(fixture.env);
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

/* --- Timers ----------------------------------------------------------------------------------------- */

struct alarm {
    struct sn_timer timer;
    int number;
    uint64_t at_ns;
};

static void ring(struct sn_timer *timer, struct sn_worker *worker)
{
    struct alarm *alarm = SN_CONTAINER_OF(timer, struct alarm, timer);
    assert_ptr_equal(worker, fixture.worker);
    assert_false(sn_timer_is_started(timer));
    assert_true(sn_worker_now(worker) >= alarm->at_ns); /* never early */
    note(alarm->number);
}

static void start(struct alarm *alarm, uint64_t after_ns)
{
    alarm->at_ns = sn_worker_refresh_now(fixture.worker) + after_ns;
    sn_timer_start(fixture.worker, &alarm->timer, alarm->at_ns);
}

/* As code on the worker: the tests below touch it between its steps, then it must look at its timers again. */
static void nothing(struct sn_task *task, struct sn_worker *worker)
{
    (void)task, (void)worker; /* being woken is all */
}

static void wake(void)
{
    static struct sn_task task;
    task.run = nothing;
    sn_worker_post(fixture.worker, &task);
    fake_env_run(fixture.env);
}

static void test_timers_fire_in_order(void **state)
{
    (void)state;
    static struct alarm alarms[200];
    uint64_t rng = 7;
    for (int i = 0; i < 200; i++) {
        sn_timer_init(&alarms[i].timer, ring);
        alarms[i].number = i;
        start(&alarms[i], rng_below(&rng, 1000) * FAKE_MS);
    }
    wake();
    fake_env_run_for(fixture.env, 2000 * FAKE_MS);
    assert_int_equal(fixture.log_count, 200);
    for (uint32_t i = 1; i < 200; i++) {
        assert_true(alarms[fixture.log[i - 1]].at_ns <= alarms[fixture.log[i]].at_ns);
    }
}

static void test_timer_is_not_early_and_not_late(void **state)
{
    (void)state;
    struct alarm alarm = {.number = 1};
    sn_timer_init(&alarm.timer, ring);
    start(&alarm, 10 * FAKE_MS);
    wake();
    fake_env_run_for(fixture.env, 10 * FAKE_MS - 1);
    assert_int_equal(fixture.log_count, 0);
    assert_true(sn_timer_is_started(&alarm.timer));
    fake_env_run_for(fixture.env, 1);
    EXPECT_LOG(1);
    fake_env_run_for(fixture.env, 1000 * FAKE_MS);
    assert_int_equal(fixture.log_count, 0); /* one-shot */
}

static void test_timers_move_and_stop(void **state)
{
    (void)state;
    static struct alarm alarms[4];
    for (int i = 0; i < 4; i++) {
        sn_timer_init(&alarms[i].timer, ring);
        alarms[i].number = i;
        start(&alarms[i], (10 + (uint64_t)i) * FAKE_MS);
    }
    start(&alarms[0], 50 * FAKE_MS); /* later */
    start(&alarms[3], 1 * FAKE_MS);  /* sooner */
    sn_timer_stop(fixture.worker, &alarms[1].timer);
    assert_false(sn_timer_is_started(&alarms[1].timer));
    sn_timer_stop(fixture.worker, &alarms[1].timer); /* harmless */
    wake();
    fake_env_run_for(fixture.env, 100 * FAKE_MS);
    EXPECT_LOG(3, 2, 0);
}

static struct alarm again[2];

static void ring_again(struct sn_timer *timer, struct sn_worker *worker)
{
    ring(timer, worker);
    sn_timer_start(worker, timer, 0); /* long over, and the clock stands still */
}

static void test_timer_that_restarts_at_once_does_not_hold_the_round(void **state)
{
    (void)state;
    sn_timer_init(&again[0].timer, ring_again);
    sn_timer_init(&again[1].timer, ring);
    again[0].number = 1;
    again[1].number = 2;
    start(&again[0], 0);
    start(&again[1], 0);
    static struct sn_task task = {.run = nothing};
    sn_worker_post(fixture.worker, &task);
    assert_true(fake_env_step(fixture.env));
    assert_int_equal(fixture.log_count, 2); /* each once in that round */
    fixture.log_count = 0;
    fake_env_advance(fixture.env, 1);
    assert_true(fake_env_step(fixture.env));
    EXPECT_LOG(1);
    sn_timer_stop(fixture.worker, &again[0].timer);
}

static void stop_other(struct sn_timer *timer, struct sn_worker *worker)
{
    ring(timer, worker);
    sn_timer_stop(worker, &again[1].timer);
}

static void test_due_timer_can_be_stopped_by_another(void **state)
{
    (void)state;
    sn_timer_init(&again[0].timer, stop_other);
    sn_timer_init(&again[1].timer, ring);
    start(&again[0], 1);
    start(&again[1], 2);
    wake();
    fake_env_run_for(fixture.env, FAKE_MS);
    EXPECT_LOG(1);
}

static void test_room_for_a_timer(void **state)
{
    (void)state;
    struct alarm alarm = {.number = 1};
    sn_timer_init(&alarm.timer, ring);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_worker_reserve_timer(fixture.worker), SN_ENOMEM);
    assert_int_equal(sn_worker_reserve_timer(fixture.worker), SN_OK);
    sn_alloc_fail_nth(1);
    start(&alarm, 0); /* needs no memory now */
    sn_alloc_fail_nth(0);
    wake();
    EXPECT_LOG(1);
}

/* --- Tasks -------------------------------------------------------------------------------------------- */

struct numbered {
    struct sn_task task;
    int number;
    struct numbered *then; /* posted by this one */
};

static void run_numbered(struct sn_task *task, struct sn_worker *worker)
{
    struct numbered *numbered = SN_CONTAINER_OF(task, struct numbered, task);
    note(numbered->number);
    if (numbered->then != NULL) sn_worker_post(worker, &numbered->then->task);
}

static void test_tasks_run_in_order(void **state)
{
    (void)state;
    static struct numbered tasks[5];
    for (int i = 0; i < 5; i++) {
        tasks[i] = (struct numbered){{.run = run_numbered}, i, NULL};
        if (i < 4) sn_worker_post(fixture.worker, &tasks[i].task);
    }
    tasks[1].then = &tasks[4];
    assert_true(fake_env_step(fixture.env));
    EXPECT_LOG(0, 1, 2, 3); /* what a task posts is for the next round */
    assert_true(fake_env_step(fixture.env));
    EXPECT_LOG(4);
    assert_false(fake_env_step(fixture.env));
}

static struct numbered self_poster;

static void post_again(struct sn_task *task, struct sn_worker *worker)
{
    note(9);
    if (fixture.log_count < 3) sn_worker_post(worker, task);
}

static void test_a_task_may_post_itself(void **state)
{
    (void)state;
    self_poster.task.run = post_again;
    sn_worker_post(fixture.worker, &self_poster.task);
    fake_env_run(fixture.env);
    EXPECT_LOG(9, 9, 9);
}

static void test_left_over_tasks_are_finished(void **state)
{
    (void)state;
    static struct numbered last = {{.run = run_numbered}, 5, NULL};
    static struct numbered first = {{.run = run_numbered}, 4, &last};
    sn_worker_stop(fixture.worker);
    sn_worker_post(fixture.worker, &first.task);
    fake_env_run(fixture.env);
    assert_int_equal(fixture.log_count, 0);
    assert_true(sni_worker_finish_tasks(fixture.worker));
    assert_true(sni_worker_finish_tasks(fixture.worker));
    assert_false(sni_worker_finish_tasks(fixture.worker));
    EXPECT_LOG(4, 5);
}

/* --- I/O handlers -------------------------------------------------------------------------------------- */

struct handler {
    struct sn_io io;
    int number;
    unsigned ready;
    int kicks;             /* times it goes on */
    struct handler *close; /* one that it closes */
};

static void run_io(struct sn_io *io, unsigned ready)
{
    struct handler *handler = SN_CONTAINER_OF(io, struct handler, io);
    note(handler->number);
    handler->ready = ready;
    if (handler->kicks > 0) {
        handler->kicks--;
        sn_io_kick(io);
    }
    if (handler->close != NULL) sn_io_close(&handler->close->io);
}

static void open_handler(struct handler *handler, enum sn_io_priority priority, int number,
                         int sock)
{
    memset(handler, 0, sizeof *handler);
    handler->number = number;
    sn_io_init(&handler->io, priority, run_io);
    assert_int_equal(sn_io_open(&handler->io, fixture.worker, (struct sn_sock){sock}), SN_OK);
}

static void test_kicks_are_fair(void **state)
{
    (void)state;
    static struct handler a, b, c;
    open_handler(&a, SN_IO_BULK, 1, -1);
    open_handler(&b, SN_IO_BULK, 2, -1);
    open_handler(&c, SN_IO_BULK, 3, -1);
    a.kicks = 3;
    b.kicks = 1;
    sn_io_kick(&a.io);
    sn_io_kick(&b.io);
    sn_io_kick(&a.io); /* once is enough */
    sn_io_kick(&c.io);
    wake();
    EXPECT_LOG(1, 2, 3, 1, 2, 1, 1);
    assert_int_equal(a.ready, 0);
    sn_io_close(&a.io);
    sn_io_close(&b.io);
    sn_io_close(&c.io);
    sn_io_close(&c.io); /* harmless */
}

static void run_actor(struct sn_runnable *runnable, struct sn_worker *worker)
{
    (void)runnable, (void)worker; /* noted only */
    note(50);
}

static void test_order_in_a_round(void **state)
{
    (void)state;
    static struct handler urgent, bulk;
    static struct alarm alarm;
    static struct numbered task = {{.run = run_numbered}, 40, NULL};
    static struct sn_runnable runnable = {.run = run_actor};
    open_handler(&bulk, SN_IO_BULK, 60, -1);
    open_handler(&urgent, SN_IO_URGENT, 20, -1);
    urgent.kicks = bulk.kicks = 2;
    sn_io_kick(&bulk.io);
    sn_worker_schedule(fixture.worker, &runnable);
    sn_worker_schedule(fixture.worker, &runnable); /* once is enough */
    sn_worker_post(fixture.worker, &task.task);
    sn_timer_init(&alarm.timer, ring);
    alarm.number = 30;
    start(&alarm, 0);
    sn_io_kick(&urgent.io);
    fake_env_run(fixture.env);
    EXPECT_LOG(20, 30, 40, 50, 60, 20, 60, 20, 60);
    sn_io_close(&urgent.io);
    sn_io_close(&bulk.io);
}

static void test_readiness_is_collected(void **state)
{
    (void)state;
    static struct handler handler;
    open_handler(&handler, SN_IO_BULK, 1, 7);
    fake_env_report(fixture.env, (struct sn_sock){7}, SN_READY_READ);
    fake_env_report(fixture.env, (struct sn_sock){7}, SN_READY_WRITE | SN_READY_HANGUP);
    fake_env_run(fixture.env);
    EXPECT_LOG(1);
    assert_int_equal(handler.ready, SN_READY_READ | SN_READY_WRITE | SN_READY_HANGUP);
    fake_env_report(fixture.env, (struct sn_sock){7}, SN_READY_WRITE);
    fake_env_run(fixture.env);
    assert_int_equal(handler.ready, SN_READY_WRITE);
    fixture.log_count = 0;
    fake_env_report(fixture.env, (struct sn_sock){7}, SN_READY_WRITE);
    sn_io_close(&handler.io); /* with readiness that was not told yet */
    fake_env_run(fixture.env);
    assert_int_equal(fixture.log_count, 0);
    assert_false(sn_sock_is_open(handler.io.watch.sock));
}

static void test_handler_closed_by_another_does_not_run(void **state)
{
    (void)state;
    static struct handler a, b;
    open_handler(&a, SN_IO_URGENT, 1, 5);
    open_handler(&b, SN_IO_URGENT, 2, 6);
    a.close = &b;
    sn_io_kick(&a.io);
    sn_io_kick(&b.io);
    wake();
    EXPECT_LOG(1);
    sn_io_close(&a.io);
}

static void test_socket_that_cannot_be_watched(void **state)
{
    (void)state;
    static struct handler handler;
    sn_io_init(&handler.io, SN_IO_BULK, run_io);
    fake_env_fail_watch(fixture.env, SN_ENOSPC);
    assert_int_equal(sn_io_open(&handler.io, fixture.worker, (struct sn_sock){7}), SN_ENOSPC);
    assert_false(sn_sock_is_open(handler.io.watch.sock));
    sn_io_close(&handler.io); /* harmless */
    fake_env_fail_watch(fixture.env, SN_OK);
    assert_int_equal(sn_io_open(&handler.io, fixture.worker, (struct sn_sock){7}), SN_OK);
    sn_io_close(&handler.io);
}

/* --- Actors' share ----------------------------------------------------------------------------------------- */

static void run_long(struct sn_runnable *runnable, struct sn_worker *worker)
{
    note(70);
    fake_env_advance(fixture.env, 150000); /* three quarters of a slice */
    sn_worker_refresh_now(worker);
    sn_worker_schedule(worker, runnable);
}

static void test_actors_get_a_slice(void **state)
{
    (void)state;
    static struct handler bulk;
    static struct sn_runnable busy = {.run = run_long};
    open_handler(&bulk, SN_IO_BULK, 60, -1);
    bulk.kicks = 1;
    sn_io_kick(&bulk.io);
    sn_worker_schedule(fixture.worker, &busy);
    static struct sn_task task = {.run = nothing};
    sn_worker_post(fixture.worker, &task);
    assert_true(fake_env_step(fixture.env));
    EXPECT_LOG(70, 70, 60);
    assert_true(fake_env_step(fixture.env));
    EXPECT_LOG(70, 70, 60);
    sn_worker_unschedule(&busy);
    fake_env_run(fixture.env);
    assert_int_equal(fixture.log_count, 0);
    sn_io_close(&bulk.io);
}

static void test_accessors(void **state)
{
    (void)state;
    assert_int_equal(sn_worker_index(fixture.worker), 3);
    assert_ptr_equal(sn_worker_owner(fixture.worker), &fixture);
    assert_ptr_equal(sn_worker_env(fixture.worker), fixture.env);
    assert_non_null(sn_worker_loop(fixture.worker));
    uint64_t before = sn_worker_now(fixture.worker);
    fake_env_advance(fixture.env, 5);
    assert_true(sn_worker_now(fixture.worker) == before);
    assert_true(sn_worker_refresh_now(fixture.worker) == before + 5);
}

static void test_creation_failures(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_worker *worker = NULL;
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_worker_new(fixture.env, 0, "w", NULL, &worker), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    fake_env_fail_loops(fixture.env, SN_ENOSPC);
    assert_int_equal(sn_worker_new(fixture.env, 0, "w", NULL, &worker), SN_ENOSPC);
    fake_env_fail_loops(fixture.env, SN_OK);
    assert_null(worker);
    assert_int_equal(sn_alloc_in_use(), before);
    sn_worker_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_timers_fire_in_order),
        TEST(test_timer_is_not_early_and_not_late),
        TEST(test_timers_move_and_stop),
        TEST(test_timer_that_restarts_at_once_does_not_hold_the_round),
        TEST(test_due_timer_can_be_stopped_by_another),
        TEST(test_room_for_a_timer),
        TEST(test_tasks_run_in_order),
        TEST(test_a_task_may_post_itself),
        TEST(test_left_over_tasks_are_finished),
        TEST(test_kicks_are_fair),
        TEST(test_order_in_a_round),
        TEST(test_readiness_is_collected),
        TEST(test_handler_closed_by_another_does_not_run),
        TEST(test_socket_that_cannot_be_watched),
        TEST(test_actors_get_a_slice),
        TEST(test_accessors),
        TEST(test_creation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
