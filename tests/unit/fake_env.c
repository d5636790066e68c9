/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/fake_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/env_ops.h"
#include "unit/rng.h"

#define LOOPS_MAX    16u
#define WATCHES_MAX  64u
#define JOBS_MAX     64u
#define OUTPUT_BYTES (256u * 1024u)
#define STEPS_MAX    1000000u /* of one run: more than that is a loop that never rests */

struct fake_loop {
    struct sn_loop base;
    sn_step_fn step;
    void *arg;
    uint64_t next_ns;
    uint64_t step_count;
    int is_started;
    int is_stopped;
    int is_woken;
    int is_stepping;
};

struct fake_watch {
    struct sn_watch *watch;
    struct fake_loop *loop;
};

struct fake_job {
    void (*run)(void *arg);
    void *arg;
};

struct fake_env {
    struct sn_env base;
    uint64_t now_ns;
    int64_t wall_ms;
    uint64_t wall_rest_ns;
    uint64_t rng;
    struct fake_loop *loops[LOOPS_MAX]; /* NULL once freed */
    uint64_t past_steps[LOOPS_MAX];
    uint32_t loop_count;
    uint32_t next_loop;
    struct fake_watch watches[WATCHES_MAX];
    struct fake_job jobs[JOBS_MAX];
    uint32_t job_count;
    enum sn_err offload_err, loop_err, watch_err;
    uint32_t trims;
    int is_unparked;
    size_t output_size;
    char output[OUTPUT_BYTES];
};

static struct fake_env *fake_of(struct sn_env *env)
{
    return SN_CONTAINER_OF(env, struct fake_env, base);
}

static struct fake_loop *loop_of(struct sn_loop *loop)
{
    return SN_CONTAINER_OF(loop, struct fake_loop, base);
}

static void give_up(const char *why)
{
    fprintf(stderr, "fake_env: %s\n", why);
    abort();
}

/* --- Operations ------------------------------------------------------------------------------------ */

static uint64_t now_ns(struct sn_env *env)
{
    return fake_of(env)->now_ns;
}

static int64_t wall_ms(struct sn_env *env)
{
    return fake_of(env)->wall_ms;
}

static void fill_random(struct sn_env *env, void *out, size_t size)
{
    uint8_t *at = out;
    for (size_t i = 0; i < size; i++) at[i] = (uint8_t)rng_next(&fake_of(env)->rng);
}

static uint32_t cpu_count(struct sn_env *env)
{
    (void)env; /* the same everywhere */
    return 2;
}

static void trim(struct sn_env *env)
{
    fake_of(env)->trims++;
}

static enum sn_err loop_new(struct sn_env *env, const char *name, sn_step_fn step, void *arg,
                            struct sn_loop **out_loop)
{
    struct fake_env *fake = fake_of(env);
    (void)name; /* there is no thread to name */
    if (fake->loop_err != SN_OK) return fake->loop_err;
    if (fake->loop_count == LOOPS_MAX) give_up("too many loops");
    struct fake_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL) give_up("no memory");
    loop->base = (struct sn_loop){.magic = SN_LOOP_MAGIC, .env = env};
    loop->step = step;
    loop->arg = arg;
    fake->loops[fake->loop_count++] = loop;
    *out_loop = &loop->base;
    return SN_OK;
}

static enum sn_err loop_start(struct sn_env *env, struct sn_loop *loop)
{
    if (fake_of(env)->loop_err != SN_OK) return fake_of(env)->loop_err;
    SN_ASSERT(!loop_of(loop)->is_started);
    loop_of(loop)->is_started = 1;
    loop_of(loop)->is_woken = 1; /* a loop steps once when it starts */
    return SN_OK;
}

static void loop_wake(struct sn_env *env, struct sn_loop *loop)
{
    (void)env; /* the loop is enough */
    loop_of(loop)->is_woken = 1;
}

static void loop_stop(struct sn_env *env, struct sn_loop *loop)
{
    (void)env; /* the loop is enough */
    SN_ASSERT(!loop_of(loop)->is_stepping);
    loop_of(loop)->is_stopped = 1;
}

static void loop_free(struct sn_env *env, struct sn_loop *loop)
{
    struct fake_env *fake = fake_of(env);
    for (uint32_t i = 0; i < fake->loop_count; i++) {
        if (fake->loops[i] != loop_of(loop)) continue;
        fake->past_steps[i] = fake->loops[i]->step_count;
        fake->loops[i] = NULL;
    }
    loop->magic = 0;
    free(loop_of(loop));
    while (fake->loop_count > 0 && fake->loops[fake->loop_count - 1] == NULL) fake->loop_count--;
}

static enum sn_err watch(struct sn_env *env, struct sn_loop *loop, struct sn_watch *watch,
                         struct sn_sock sock)
{
    struct fake_env *fake = fake_of(env);
    if (fake->watch_err != SN_OK) return fake->watch_err;
    for (uint32_t i = 0; i < WATCHES_MAX; i++) {
        if (fake->watches[i].watch != NULL) continue;
        fake->watches[i] = (struct fake_watch){watch, loop_of(loop)};
        watch->sock = sock;
        return SN_OK;
    }
    give_up("too many watches");
    return SN_ENOSPC;
}

static void unwatch(struct sn_env *env, struct sn_loop *loop, struct sn_watch *watch)
{
    struct fake_env *fake = fake_of(env);
    for (uint32_t i = 0; i < WATCHES_MAX; i++) {
        if (fake->watches[i].watch != watch) continue;
        SN_ASSERT(fake->watches[i].loop == loop_of(loop));
        fake->watches[i].watch = NULL;
        watch->sock = SN_SOCK_NONE;
        return;
    }
    give_up("unwatch of what is not watched");
}

static enum sn_err offload(struct sn_env *env, enum sn_offload_kind kind, void (*run)(void *arg),
                           void *arg)
{
    struct fake_env *fake = fake_of(env);
    (void)kind; /* one queue for all */
    if (fake->offload_err != SN_OK) return fake->offload_err;
    if (fake->job_count == JOBS_MAX) return SN_EFULL;
    fake->jobs[fake->job_count++] = (struct fake_job){run, arg};
    return SN_OK;
}

static enum sn_err on_request(struct sn_env *env, struct sn_loop *loop,
                              void (*fn)(void *arg, enum sn_env_request request), void *arg)
{
    (void)env, (void)loop, (void)fn, (void)arg; /* nobody makes requests here */
    return SN_OK;
}

static enum sn_err park(struct sn_env *env, uint64_t timeout_ms)
{
    struct fake_env *fake = fake_of(env);
    for (uint64_t i = 0; i < timeout_ms && !fake->is_unparked; i++) {
        fake_env_run_for(env, FAKE_MS);
        (void)fake_env_run_jobs(env); /* how many does not matter */
    }
    if (!fake->is_unparked) return SN_ETIMEDOUT;
    fake->is_unparked = 0;
    return SN_OK;
}

static void unpark(struct sn_env *env)
{
    fake_of(env)->is_unparked = 1;
}

static void print(struct sn_env *env, int to_stderr, const char *text, size_t size)
{
    struct fake_env *fake = fake_of(env);
    if (!to_stderr) return;
    if (size >= OUTPUT_BYTES - fake->output_size) give_up("too much output");
    memcpy(fake->output + fake->output_size, text, size);
    fake->output_size += size;
    fake->output[fake->output_size] = '\0';
}

static const struct sn_env_ops ops = {.now_ns = now_ns,
                                      .wall_ms = wall_ms,
                                      .random = fill_random,
                                      .cpu_count = cpu_count,
                                      .trim = trim,
                                      .loop_new = loop_new,
                                      .loop_start = loop_start,
                                      .loop_wake = loop_wake,
                                      .loop_stop = loop_stop,
                                      .loop_free = loop_free,
                                      .watch = watch,
                                      .unwatch = unwatch,
                                      .offload = offload,
                                      .on_request = on_request,
                                      .park = park,
                                      .unpark = unpark,
                                      .print = print};

/* --- For the test ------------------------------------------------------------------------------------ */

struct sn_env *fake_env_new(void)
{
    struct fake_env *fake = calloc(1, sizeof *fake);
    if (fake == NULL) give_up("no memory");
    fake->base = (struct sn_env){.ops = &ops, .magic = SN_ENV_MAGIC};
    fake->now_ns = 1000 * FAKE_MS;
    fake->wall_ms = FAKE_WALL_MS;
    fake->rng = 1;
    return &fake->base;
}

void fake_env_free(struct sn_env *env)
{
    struct fake_env *fake = fake_of(env);
    if (fake->loop_count > 0) give_up("a loop was not freed");
    for (uint32_t i = 0; i < WATCHES_MAX; i++) {
        if (fake->watches[i].watch != NULL) give_up("a socket is still watched");
    }
    (void)fake_env_run_jobs(env); /* as a real one does: queued jobs still run */
    env->magic = 0;
    free(fake);
}

void fake_env_advance(struct sn_env *env, uint64_t ns)
{
    struct fake_env *fake = fake_of(env);
    fake->now_ns += ns;
    fake->wall_rest_ns += ns;
    fake->wall_ms += (int64_t)(fake->wall_rest_ns / FAKE_MS);
    fake->wall_rest_ns %= FAKE_MS;
}

void fake_env_set_wall_ms(struct sn_env *env, int64_t value)
{
    fake_of(env)->wall_ms = value;
}

static int is_due(const struct fake_env *fake, const struct fake_loop *loop)
{
    if (loop == NULL || !loop->is_started || loop->is_stopped || loop->is_stepping) return 0;
    return loop->is_woken || loop->next_ns <= fake->now_ns;
}

int fake_env_step(struct sn_env *env)
{
    struct fake_env *fake = fake_of(env);
    for (uint32_t i = 0; i < fake->loop_count; i++) {
        struct fake_loop *loop = fake->loops[fake->next_loop++ % fake->loop_count];
        if (!is_due(fake, loop)) continue;
        loop->is_woken = 0;
        loop->is_stepping = 1;
        loop->next_ns = loop->step(loop->arg, fake->now_ns);
        loop->is_stepping = 0;
        loop->step_count++;
        return 1;
    }
    return 0;
}

void fake_env_run(struct sn_env *env)
{
    for (uint32_t i = 0; i < STEPS_MAX; i++) {
        if (!fake_env_step(env)) return;
    }
    give_up("the loops do not come to rest");
}

void fake_env_run_for(struct sn_env *env, uint64_t ns)
{
    struct fake_env *fake = fake_of(env);
    uint64_t until = fake->now_ns + ns;
    for (;;) {
        fake_env_run(env);
        uint64_t next = until;
        for (uint32_t i = 0; i < fake->loop_count; i++) {
            const struct fake_loop *loop = fake->loops[i];
            if (loop == NULL || !loop->is_started || loop->is_stopped || loop->is_stepping)
                continue;
            if (loop->next_ns < next) next = loop->next_ns;
        }
        if (next > fake->now_ns) fake_env_advance(env, next - fake->now_ns);
        if (fake->now_ns >= until) break;
    }
    fake_env_run(env);
}

uint64_t fake_env_steps(struct sn_env *env, uint32_t index)
{
    const struct fake_env *fake = fake_of(env);
    const struct fake_loop *loop = index < fake->loop_count ? fake->loops[index] : NULL;
    return loop == NULL ? fake->past_steps[index] : loop->step_count;
}

uint32_t fake_env_run_jobs(struct sn_env *env)
{
    struct fake_env *fake = fake_of(env);
    uint32_t count = 0;
    while (fake->job_count > 0) {
        struct fake_job job = fake->jobs[0];
        fake->job_count--;
        memmove(fake->jobs, fake->jobs + 1, fake->job_count * sizeof job);
        job.run(job.arg);
        count++;
    }
    return count;
}

void fake_env_fail_offload(struct sn_env *env, enum sn_err err)
{
    fake_of(env)->offload_err = err;
}

void fake_env_fail_loops(struct sn_env *env, enum sn_err err)
{
    fake_of(env)->loop_err = err;
}

void fake_env_fail_watch(struct sn_env *env, enum sn_err err)
{
    fake_of(env)->watch_err = err;
}

void fake_env_report(struct sn_env *env, struct sn_sock sock, unsigned ready)
{
    struct fake_env *fake = fake_of(env);
    for (uint32_t i = 0; i < WATCHES_MAX; i++) {
        struct fake_watch *entry = &fake->watches[i];
        if (entry->watch == NULL || entry->watch->sock.id != sock.id) continue;
        entry->watch->ready(entry->watch, ready);
        entry->loop->is_woken = 1;
        return;
    }
    give_up("readiness of a socket that is not watched");
}

const char *fake_env_output(struct sn_env *env)
{
    return fake_of(env)->output;
}

void fake_env_clear_output(struct sn_env *env)
{
    fake_of(env)->output_size = 0;
    fake_of(env)->output[0] = '\0';
}
