/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offloaded jobs. Guarantees: a job that was taken runs exactly once, in order of arrival within
 * its kind; a pool that was never used has no thread, an idle thread waits in the kernel and ends
 * after IDLE_S seconds, so that the number of threads goes back after a burst.
 */
#include <string.h>
#include <time.h>

#include "env/env_posix_int.h"

#define IDLE_S 5

/* Waits for a job with the mutex held; returns when there is one, or when the thread shall end. */
static void wait_for_job(struct sni_pool *pool)
{
    uint64_t until_ns = sni_now_ns() + IDLE_S * (uint64_t)SNI_NS_PER_S;
    struct timespec until = {(time_t)(until_ns / SNI_NS_PER_S), (long)(until_ns % SNI_NS_PER_S)};
    int rc = 0;
    while (pool->job_count == 0 && !pool->is_stopping && rc == 0) {
        pool->idle_count++;
        rc = pthread_cond_timedwait(&pool->arrived, &pool->mutex, &until);
        pool->idle_count--;
    }
}

static void *run_jobs(void *arg)
{
    struct sni_pool *pool = arg;
    sni_thread_begin(pool->name);
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        wait_for_job(pool);
        if (pool->job_count == 0) break;
        struct sni_job job = pool->jobs[pool->head];
        pool->head = (pool->head + 1) % SNI_POOL_JOBS_MAX;
        pool->job_count--;
        pthread_mutex_unlock(&pool->mutex);
        job.run(job.arg);
        pthread_mutex_lock(&pool->mutex);
    }
    pool->thread_count--;
    pthread_cond_signal(&pool->ended);
    /* The last touch: sni_pool_fini may free the pool as soon as it has the mutex. */
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

void sni_pool_init(struct sni_pool *pool, const char *name, uint32_t thread_max)
{
    SN_ASSERT(thread_max > 0 && thread_max <= SNI_POOL_THREADS_MAX);
    SN_ASSERT(strlen(name) < sizeof pool->name);
    memset(pool, 0, sizeof *pool);
    memcpy(pool->name, name, strlen(name) + 1);
    pool->thread_max = thread_max;
    int rc = pthread_mutex_init(&pool->mutex, NULL);
    SN_ASSERT(rc == 0);
    pthread_condattr_t attr;
    rc = pthread_condattr_init(&attr);
    SN_ASSERT(rc == 0);
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* the clock of sni_now_ns */
    SN_ASSERT(rc == 0);
    rc = pthread_cond_init(&pool->arrived, &attr);
    SN_ASSERT(rc == 0);
    rc = pthread_cond_init(&pool->ended, NULL);
    SN_ASSERT(rc == 0);
    pthread_condattr_destroy(&attr);
}

void sni_pool_stop(struct sni_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->is_stopping = 1;
    pthread_cond_broadcast(&pool->arrived);
    pthread_mutex_unlock(&pool->mutex);
}

void sni_pool_fini(struct sni_pool *pool)
{
    SN_ASSERT(pool->is_stopping);
    pthread_mutex_lock(&pool->mutex);
    while (pool->thread_count > 0) pthread_cond_wait(&pool->ended, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    SN_ASSERT(pool->job_count == 0);
    pthread_cond_destroy(&pool->arrived);
    pthread_cond_destroy(&pool->ended);
    pthread_mutex_destroy(&pool->mutex);
}

/* Called with the mutex held. Errors: ENOMEM (the system has no thread to give). */
static enum sn_err add_thread(struct sni_pool *pool)
{
    SN_ASSERT(pool->thread_count < pool->thread_max);
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run_jobs, pool);
    if (rc != 0) return SN_ENOMEM;
    rc = pthread_detach(thread); /* it tells its end through thread_count */
    SN_ASSERT(rc == 0);
    pool->thread_count++;
    return SN_OK;
}

enum sn_err sni_posix_offload(struct sn_env *env, enum sn_offload_kind kind, void (*run)(void *arg),
                              void *arg)
{
    struct sni_pool *pool = &sni_posix_of(env)->pools[kind];
    enum sn_err err = SN_OK;
    pthread_mutex_lock(&pool->mutex);
    if (pool->is_stopping)
        err = SN_ECLOSED;
    else if (pool->job_count == SNI_POOL_JOBS_MAX)
        err = SN_EFULL;
    if (err != SN_OK) goto out;
    /* Each queued job has claimed one idle thread already. */
    if (pool->job_count >= pool->idle_count && pool->thread_count < pool->thread_max) {
        err = add_thread(pool);
        if (err != SN_OK && pool->thread_count == 0) goto out;
        err = SN_OK; /* the threads there are will get to it */
    }
    pool->jobs[(pool->head + pool->job_count) % SNI_POOL_JOBS_MAX] = (struct sni_job){run, arg};
    pool->job_count++;
    pthread_cond_signal(&pool->arrived);
out:
    pthread_mutex_unlock(&pool->mutex);
    return err;
}
