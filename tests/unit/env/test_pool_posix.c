/* SPDX-License-Identifier: Apache-2.0 */
/* Offloaded jobs: all of them run, threads are lazy, a full queue refuses, freeing finishes the
 * rest. */
#include "env_test.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic int done_count; /* partner: the jobs, which add to it */

static void count_job(void *arg)
{
    (void)arg;
    atomic_fetch_add(&done_count, 1);
}

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t opened;
    int is_open;
    _Atomic int waiting; /* partner: the test, which waits for it to rise */
};

static void wait_at_gate(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->mutex);
    atomic_fetch_add(&gate->waiting, 1);
    while (!gate->is_open) pthread_cond_wait(&gate->opened, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
    atomic_fetch_add(&done_count, 1);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->is_open = 1;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->mutex);
}

/* Late, so that freeing has begun while the queue is full. */
static void *open_gate_late(void *arg)
{
    usleep(50000);
    open_gate(arg);
    return NULL;
}

static void a_thousand_jobs_run(void **state)
{
    struct fixture *fixture = *state;
    struct sn_process_info before, after;
    atomic_store(&done_count, 0);
    sn_env_process_info(fixture->env, &before);
    for (int i = 0; i < 1000; i++) {
        enum sn_offload_kind kind = (enum sn_offload_kind)(i % 3);
        assert_ok(sn_env_offload(fixture->env, kind, count_job, NULL));
    }
    for (int i = 0; i < 5000 && atomic_load(&done_count) < 1000; i++) usleep(1000);
    assert_int_equal(atomic_load(&done_count), 1000);
    sn_env_process_info(fixture->env, &after);
    uint32_t most = sn_env_cpu_count(fixture->env) + 4 + 8;
    assert_in_range(after.threads - before.threads, 1, most);
}

static void full_queue_refuses_and_free_finishes(void **state)
{
    (void)state;
    struct sn_env *env;
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    atomic_store(&done_count, 0);
    assert_ok(sn_env_posix_new(&env));
    for (int i = 0; i < 8; i++)
        assert_ok(sn_env_offload(env, SN_OFFLOAD_SLOW, wait_at_gate, &gate));
    while (atomic_load(&gate.waiting) < 8) usleep(1000);
    for (int i = 0; i < 1024; i++) assert_ok(sn_env_offload(env, SN_OFFLOAD_SLOW, count_job, NULL));
    assert_int_equal(sn_env_offload(env, SN_OFFLOAD_SLOW, count_job, NULL), SN_EFULL);
    /* The kinds share nothing. */
    assert_ok(sn_env_offload(env, SN_OFFLOAD_DISK, count_job, NULL));
    for (int i = 0; i < 5000 && atomic_load(&done_count) < 1; i++) usleep(1000);
    assert_int_equal(atomic_load(&done_count), 1);
    pthread_t opener;
    assert_int_equal(pthread_create(&opener, NULL, open_gate_late, &gate), 0);
    sn_env_posix_free(env);
    pthread_join(opener, NULL);
    assert_int_equal(atomic_load(&done_count), 1 + 8 + 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_thousand_jobs_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_queue_refuses_and_free_finishes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
