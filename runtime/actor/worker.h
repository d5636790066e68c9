/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: one loop of the environment with its timers, I/O handlers, posted tasks and actors.
 * Everything that belongs to a worker is touched on that worker only. One round of a worker is: urgent I/O
 * handlers, timers, tasks, actors (about 200 us), bulk I/O handlers (each does about 256 KiB), repeat.
 *
 * Thread-safe: only sn_worker_post, as said there. Blocking: no.
 */
#ifndef SN_ACTOR_WORKER_H
#define SN_ACTOR_WORKER_H

#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "env/env.h"

struct sn_worker;

struct sn_env *sn_worker_env(const struct sn_worker *worker);
uint32_t sn_worker_index(const struct sn_worker *worker);
/* Time at the start of this round, or later: sn_worker_refresh_now reads the clock again. */
uint64_t sn_worker_now(const struct sn_worker *worker);
uint64_t sn_worker_refresh_now(struct sn_worker *worker);

/* --- Timers ------------------------------------------------------------------------------------- */

struct sn_timer {
    struct sn_heap_node node;
    void (*fire)(struct sn_timer *timer, struct sn_worker *worker);
};

#define SN_MS 1000000ull /* nanoseconds */

void sn_timer_init(struct sn_timer *timer,
                   void (*fire)(struct sn_timer *timer, struct sn_worker *worker));
/* Starts or moves the timer. Each timer is one-shot and never fires early; one that is started while timers fire
 * waits for the next round, however small its time. Cannot fail: whoever makes timers on behalf of others makes
 * room first (sn_worker_reserve_timer); without that, memory exhaustion here aborts. */
void sn_timer_start(struct sn_worker *worker, struct sn_timer *timer, uint64_t at_ns);
void sn_timer_stop(struct sn_worker *worker,
                   struct sn_timer *timer); /* harmless when not started */
int sn_timer_is_started(const struct sn_timer *timer);
/* Room for one timer more than are started now. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sn_worker_reserve_timer(struct sn_worker *worker);

/* --- Tasks ---------------------------------------------------------------------------------------- */

/* A piece of work handed to a worker from any thread. The task is embedded in an object of its poster and
 * is queued at most once at a time, which is what bounds the inbox. */
struct sn_task {
    struct sn_task *next;
    void (*run)(struct sn_task *task, struct sn_worker *worker);
};

/* Any thread (also threads that are not ours, such as nng's). Never blocks, never fails. The memory order
 * makes everything written before the post visible to `run`. Tasks of one poster run in order. */
void sn_worker_post(struct sn_worker *worker, struct sn_task *task);

/* --- I/O handlers -------------------------------------------------------------------------------- */

enum sn_io_priority { SN_IO_URGENT = 0, SN_IO_BULK = 1 };

struct sn_io {
    struct sn_watch watch;
    struct sn_list node; /* in the worker's list of handlers to run */
    struct sn_worker *worker;
    /* `ready`: SN_READY_* that came in since the last run, possibly none after sn_io_kick. Readiness is
     * edge-triggered: go on until EAGAIN, or do a fair share and sn_io_kick to go on next round. */
    void (*run)(struct sn_io *io, unsigned ready);
    uint8_t ready;
    uint8_t priority;
    uint8_t is_open;
};

void sn_io_init(struct sn_io *io, enum sn_io_priority priority,
                void (*run)(struct sn_io *io, unsigned ready));
/* Watches `sock` on this worker. Errors: ENOMEM, EIO. */
SN_MUST_CHECK enum sn_err sn_io_open(struct sn_io *io, struct sn_worker *worker,
                                     struct sn_sock sock);
/* Stops watching; the handler does not run any more. The socket stays open and is the caller's. */
void sn_io_close(struct sn_io *io);
/* Runs the handler in this round or the next. Also works for a handler without a socket. */
void sn_io_kick(struct sn_io *io);

#endif
