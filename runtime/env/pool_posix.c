/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offloaded jobs. Guarantees: a job that was taken runs exactly once, in order of arrival within
 * its kind; a pool that was never used has no thread, an idle thread waits in the kernel.
 */
#include <string.h>

#include "env/env_posix_int.h"

static void *run_jobs(void *arg)
{
    struct sni_pool *pool = arg;
    sni_thread_begin(pool->name);
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (pool->job_count == 0 && !pool->is_stopping) {
            pool->idle_count++;
            pthread_cond_wait(&pool->arrived, &pool->mutex);
            pool->idle_count--;
        }
        if (pool->job_count == 0) break;
        struct sni_job job = pool->jobs[pool->head];
        pool->head = (pool->head + 1) % SNI_POOL_JOBS_MAX;
        pool->job_count--;
        pthread_mutex_unlock(&pool->mutex);
        job.run(job.arg);
        pthread_mutex_lock(&pool->mutex);
    }
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
    rc = pthread_cond_init(&pool->arrived, NULL);
    SN_ASSERT(rc == 0);
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
    for (uint32_t i = 0; i < pool->thread_count; i++) {
        int rc = pthread_join(pool->threads[i], NULL);
        SN_ASSERT(rc == 0);
    }
    SN_ASSERT(pool->job_count == 0);
    pthread_cond_destroy(&pool->arrived);
    pthread_mutex_destroy(&pool->mutex);
}

/* Called with the mutex held. Errors: ENOMEM (the system has no thread to give). */
static enum sn_err add_thread(struct sni_pool *pool)
{
    SN_ASSERT(pool->thread_count < pool->thread_max);
    int rc = pthread_create(&pool->threads[pool->thread_count], NULL, run_jobs, pool);
    if (rc != 0) return SN_ENOMEM;
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
