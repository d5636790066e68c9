/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: one round runs every urgent handler, due timer and posted task that was there when it began, actors
 * for about ACTOR_SLICE_NS, and bulk handlers in turn for about BULK_SLICE_NS; so urgent work never waits for more
 * than these slices. Tasks run in the order in which they were posted. A task posted while the loop sleeps wakes it.
 */
#include "actor/worker.h"

#include <stdatomic.h>

#include "actor/worker_int.h"
#include "base/alloc.h"
#include "base/assert.h"

#define WORKER_MAGIC      SN_MAGIC('W', 'O', 'R', 'K')
#define BULK_SLICE_NS     500000ull /* several handlers of 256 KiB, then urgent work gets its turn */
#define ACTOR_SLICE_NS    200000ull
#define ACTOR_CLOCK_EVERY 16u /* for runnables that do not look at the clock themselves */

struct sn_worker {
    uint32_t magic;
    uint32_t index;
    struct sn_env *env;
    struct sn_loop *loop;
    struct sn_logger *logger;
    void *owner;
    uint64_t now_ns;
    uint64_t firing_ns; /* timers up to this time fire now; 0 = none do */
    struct sn_heap timers;
    struct sn_list urgent;
    struct sn_list bulk;
    struct sn_list runnables;
    /* Stack of posted tasks, newest first. Partners: post() pushes with release, take_tasks() takes all with
     * acquire. Only the push that finds it empty wakes the loop. */
    _Atomic(struct sn_task *) inbox;
    /* Posters between their push and the end of their wake: the task may have run by then, and its effect may lead to
     * the end of this worker. Partner: sn_worker_free, which waits for none. */
    _Atomic uint32_t posters;
};

struct sn_env *sn_worker_env(const struct sn_worker *worker)
{
    return worker->env;
}

uint32_t sn_worker_index(const struct sn_worker *worker)
{
    return worker->index;
}

uint64_t sn_worker_now(const struct sn_worker *worker)
{
    return worker->now_ns;
}

uint64_t sn_worker_refresh_now(struct sn_worker *worker)
{
    worker->now_ns = sn_env_now_ns(worker->env);
    return worker->now_ns;
}

void *sn_worker_owner(const struct sn_worker *worker)
{
    return worker->owner;
}

struct sn_logger *sn_worker_logger(const struct sn_worker *worker)
{
    return worker->logger;
}

void sn_worker_set_logger(struct sn_worker *worker, struct sn_logger *logger)
{
    worker->logger = logger;
}

/* --- Timers --------------------------------------------------------------------------------------- */

void sn_timer_init(struct sn_timer *timer,
                   void (*fire)(struct sn_timer *timer, struct sn_worker *worker))
{
    *timer = (struct sn_timer){.node = {.index = SN_HEAP_NONE}, .fire = fire};
}

void sn_timer_start(struct sn_worker *worker, struct sn_timer *timer, uint64_t at_ns)
{
    SN_ASSERT(worker->magic == WORKER_MAGIC);
    SN_ASSERT(timer->fire != NULL);
    if (at_ns <= worker->firing_ns) at_ns = worker->firing_ns + 1; /* the next round's */
    if (timer->node.index != SN_HEAP_NONE) {
        sn_heap_update(&worker->timers, &timer->node, at_ns);
        return;
    }
    enum sn_err err = sn_heap_insert(&worker->timers, &timer->node, at_ns);
    /* The heap grows by doubling: a few bytes that a process without them could not go on without. */
    SN_ASSERT(err == SN_OK);
}

enum sn_err sn_worker_reserve_timer(struct sn_worker *worker)
{
    SN_ASSERT(worker->magic == WORKER_MAGIC);
    return sn_heap_reserve(&worker->timers, worker->timers.count + 1);
}

void sn_timer_stop(struct sn_worker *worker, struct sn_timer *timer)
{
    sn_heap_remove(&worker->timers, &timer->node);
}

int sn_timer_is_started(const struct sn_timer *timer)
{
    return timer->node.index != SN_HEAP_NONE;
}

static void fire_timers(struct sn_worker *worker)
{
    worker->firing_ns = worker->now_ns;
    for (;;) {
        struct sn_heap_node *node = sn_heap_first(&worker->timers);
        if (node == NULL || node->key > worker->firing_ns) break;
        struct sn_timer *timer = SN_CONTAINER_OF(node, struct sn_timer, node);
        sn_heap_remove(&worker->timers, node);
        timer->fire(timer, worker);
    }
    worker->firing_ns = 0;
}

/* --- Tasks ------------------------------------------------------------------------------------------ */

void sn_worker_post(struct sn_worker *worker, struct sn_task *task)
{
    SN_ASSERT(worker->magic == WORKER_MAGIC);
    SN_ASSERT(task->run != NULL);
    atomic_fetch_add_explicit(&worker->posters, 1, memory_order_relaxed);
    struct sn_task *head = atomic_load_explicit(&worker->inbox, memory_order_relaxed);
    do {
        task->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&worker->inbox, &head, task,
                                                    memory_order_release, memory_order_relaxed));
    if (head == NULL) sn_env_loop_wake(worker->env, worker->loop);
    atomic_fetch_sub_explicit(&worker->posters, 1, memory_order_release);
}

static int has_tasks(struct sn_worker *worker)
{
    return atomic_load_explicit(&worker->inbox, memory_order_relaxed) != NULL;
}

static void run_tasks(struct sn_worker *worker)
{
    struct sn_task *newest = atomic_exchange_explicit(&worker->inbox, NULL, memory_order_acquire);
    struct sn_task *oldest = NULL;
    while (newest != NULL) {
        struct sn_task *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct sn_task *next = oldest->next; /* run() may free or post the task again */
        oldest->next = NULL;
        oldest->run(oldest, worker);
        oldest = next;
    }
}

int sni_worker_finish_tasks(struct sn_worker *worker)
{
    SN_ASSERT(worker->magic == WORKER_MAGIC);
    if (!has_tasks(worker)) return 0;
    run_tasks(worker);
    return 1;
}

/* --- I/O handlers ------------------------------------------------------------------------------------ */

static void on_ready(struct sn_watch *watch, unsigned ready)
{
    struct sn_io *io = SN_CONTAINER_OF(watch, struct sn_io, watch);
    io->ready |= (uint8_t)ready;
    sn_io_kick(io);
}

void sn_io_init(struct sn_io *io, enum sn_io_priority priority,
                void (*run)(struct sn_io *io, unsigned ready))
{
    *io = (struct sn_io){.run = run, .priority = (uint8_t)priority};
    io->watch.ready = on_ready;
    io->watch.sock = SN_SOCK_NONE;
}

enum sn_err sn_io_open(struct sn_io *io, struct sn_worker *worker, struct sn_sock sock)
{
    SN_ASSERT(worker->magic == WORKER_MAGIC);
    SN_ASSERT(!io->is_open);
    io->worker = worker;
    io->ready = 0;
    io->watch.sock = sock;
    if (sn_sock_is_open(sock)) {
        enum sn_err err = sn_env_watch(worker->env, worker->loop, &io->watch, sock);
        if (err != SN_OK) {
            io->watch.sock = SN_SOCK_NONE;
            return err;
        }
    }
    io->is_open = 1;
    return SN_OK;
}

void sn_io_close(struct sn_io *io)
{
    if (!io->is_open) return;
    io->is_open = 0;
    sn_list_remove(&io->node);
    if (sn_sock_is_open(io->watch.sock)) {
        sn_env_unwatch(io->worker->env, io->worker->loop, &io->watch);
    }
    io->watch.sock = SN_SOCK_NONE;
}

void sn_io_kick(struct sn_io *io)
{
    SN_ASSERT(io->is_open);
    if (sn_list_is_linked(&io->node)) return;
    sn_list_push(io->priority == SN_IO_URGENT ? &io->worker->urgent : &io->worker->bulk, &io->node);
}

/* Runs each handler that is in the list now, once; those kicked meanwhile wait for the next round. */
static void run_handlers(struct sn_worker *worker, struct sn_list *list, uint64_t slice_ns)
{
    uint64_t until = slice_ns == 0 ? UINT64_MAX : sn_worker_refresh_now(worker) + slice_ns;
    struct sn_list now;
    sn_list_init(&now);
    sn_list_splice(&now, list);
    struct sn_list *node;
    while ((node = sn_list_pop(&now)) != NULL) {
        struct sn_io *io = SN_CONTAINER_OF(node, struct sn_io, node);
        unsigned ready = io->ready;
        io->ready = 0;
        io->run(io, ready);
        if (until != UINT64_MAX && sn_worker_refresh_now(worker) >= until) break;
    }
    /* Those that got no turn go first in the next round. */
    sn_list_splice(&now, list);
    sn_list_splice(list, &now);
}

/* --- Actors --------------------------------------------------------------------------------------------- */

void sn_worker_schedule(struct sn_worker *worker, struct sn_runnable *runnable)
{
    if (sn_list_is_linked(&runnable->node)) return;
    sn_list_push(&worker->runnables, &runnable->node);
}

void sn_worker_unschedule(struct sn_runnable *runnable)
{
    sn_list_remove(&runnable->node);
}

static void run_actors(struct sn_worker *worker)
{
    if (sn_list_is_empty(&worker->runnables)) return;
    /* Read again: the first actor must not be charged for the timers and tasks of this round. */
    uint64_t until = sn_worker_refresh_now(worker) + ACTOR_SLICE_NS;
    for (unsigned i = 1;; i++) {
        struct sn_list *node = sn_list_pop(&worker->runnables);
        if (node == NULL) return;
        struct sn_runnable *runnable = SN_CONTAINER_OF(node, struct sn_runnable, node);
        runnable->run(runnable, worker);
        if (i % ACTOR_CLOCK_EVERY == 0)
            (void)sn_worker_refresh_now(worker); /* kept by the worker */
        if (worker->now_ns >= until) return;
    }
}

/* --- The round ------------------------------------------------------------------------------------------- */

static uint64_t step(void *arg, uint64_t now_ns)
{
    struct sn_worker *worker = arg;
    SN_ASSERT(worker->magic == WORKER_MAGIC);
    worker->now_ns = now_ns;
    run_handlers(worker, &worker->urgent, 0);
    fire_timers(worker);
    run_tasks(worker);
    run_actors(worker);
    run_handlers(worker, &worker->bulk, BULK_SLICE_NS);
    int is_busy = !sn_list_is_empty(&worker->urgent) || !sn_list_is_empty(&worker->bulk) ||
                  !sn_list_is_empty(&worker->runnables) || has_tasks(worker);
    if (is_busy) return 0;
    struct sn_heap_node *first = sn_heap_first(&worker->timers);
    return first == NULL ? UINT64_MAX : first->key;
}

enum sn_err sn_worker_new(struct sn_env *env, uint32_t index, const char *name, void *owner,
                          struct sn_worker **out_worker)
{
    struct sn_worker *worker = sn_alloc(sizeof *worker);
    if (worker == NULL) return SN_ENOMEM;
    worker->magic = WORKER_MAGIC;
    worker->index = index;
    worker->env = env;
    worker->owner = owner;
    worker->now_ns = sn_env_now_ns(env);
    sn_heap_init(&worker->timers);
    sn_list_init(&worker->urgent);
    sn_list_init(&worker->bulk);
    sn_list_init(&worker->runnables);
    enum sn_err err = sn_env_loop_new(env, name, step, worker, &worker->loop);
    if (err != SN_OK) {
        sn_worker_free(worker);
        return err;
    }
    *out_worker = worker;
    return SN_OK;
}

enum sn_err sn_worker_start(struct sn_worker *worker)
{
    return sn_env_loop_start(worker->env, worker->loop);
}

void sn_worker_stop(struct sn_worker *worker)
{
    sn_env_loop_stop(worker->env, worker->loop);
}

struct sn_loop *sn_worker_loop(const struct sn_worker *worker)
{
    return worker->loop;
}

void sn_worker_free(struct sn_worker *worker)
{
    if (worker == NULL) return;
    SN_ASSERT(worker->magic == WORKER_MAGIC);
    while (atomic_load_explicit(&worker->posters, memory_order_acquire) != 0)
        continue; /* a few instructions */
    if (worker->loop != NULL) sn_env_loop_free(worker->env, worker->loop);
    sn_heap_fini(&worker->timers);
    worker->magic = 0;
    sn_free(worker, sizeof *worker);
}
