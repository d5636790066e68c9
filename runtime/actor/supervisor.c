/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervision: an actor whose handler fails is restarted with fresh state after a growing delay; one that fails
 * FAILURES_MAX times within WINDOW_NS stays down and its failure is escalated to the owner of the system.
 * And the watchdog: each worker looks at its neighbour and names a handler that has not come back.
 */
#include <assert.h>
#include <string.h>

#include "actor/actor_int.h"
#include "base/assert.h"
#include "log/log.h"

#define DELAY_MIN_NS       (100 * SN_MS)
#define WINDOW_NS          (60000 * SN_MS)
#define FAILURES_MAX       5u
#define WATCHDOG_PERIOD_NS (250 * SN_MS)
#define STUCK_NS           (1000 * SN_MS)

static_assert(sizeof((struct sn_actor *)0)->failure_times_ns / sizeof(uint64_t) == FAILURES_MAX,
              "one entry for each failure that is remembered");

static void restart(struct sn_timer *timer, struct sn_worker *worker)
{
    (void)worker; /* the actor knows it */
    struct sn_actor *actor = SN_CONTAINER_OF(timer, struct sn_actor, restart_timer);
    actor->needs_start = 1;
    actor->needs_stop = actor->is_draining;
    atomic_fetch_add(&actor->restarts, 1);
    sni_actor_schedule(actor);
}

void sni_supervisor_init(struct sn_actor *actor)
{
    sn_timer_init(&actor->restart_timer, restart);
}

/* Number of failures in the window, this one included. */
static uint32_t count_failure(struct sn_actor *actor, uint64_t now_ns)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < actor->failure_count; i++) {
        uint64_t at = actor->failure_times_ns[i];
        if (now_ns - at < WINDOW_NS) actor->failure_times_ns[kept++] = at;
    }
    if (kept < FAILURES_MAX) actor->failure_times_ns[kept++] = now_ns;
    actor->failure_count = kept;
    return kept;
}

void sni_supervisor_failed(struct sn_actor *actor, enum sn_err err)
{
    struct sn_system *system = actor->system;
    uint32_t failures = count_failure(actor, sn_worker_refresh_now(actor->worker));
    sni_metric_add(actor, SNI_METRIC_FAILED, 1);
    actor->is_down = 1;
    actor->needs_start = 0;
    actor->incarnation++;
    sn_worker_unschedule(&actor->runnable);
    sni_ask_cancel_all(actor);
    sni_timers_cancel_all(actor);
    sni_actor_discard_old(actor);
    if (actor->kind->fini != NULL) actor->kind->fini(actor->state);
    memset(actor->state, 0, actor->kind->state_bytes);
    sni_actor_forget_config(actor); /* its next START brings it */
    if (system->config.actor_failed != NULL) {
        system->config.actor_failed(system->config.arg, actor->ref);
    }
    if (failures >= FAILURES_MAX) {
        atomic_store(&actor->is_failed, 1);
        sni_actor_discard(actor);
        sn_logger_write(sn_worker_logger(actor->worker), SN_ERROR, "ACTOR-GIVEN-UP",
                        actor->kind->name, "err=%s failures=%u", sn_err_name(err), failures);
        if (system->config.escalate != NULL) {
            system->config.escalate(system->config.arg, actor->ref, err);
        }
        return;
    }
    uint64_t delay_ns = DELAY_MIN_NS << (failures - 1);
    sn_logger_write(sn_worker_logger(actor->worker), SN_WARN, "ACTOR-FAILED", actor->kind->name,
                    "err=%s restart_ms=%llu", sn_err_name(err),
                    (unsigned long long)(delay_ns / SN_MS));
    sn_timer_start(actor->worker, &actor->restart_timer, sn_worker_now(actor->worker) + delay_ns);
}

/* --- Watchdog ---------------------------------------------------------------------------------------- */

static void look(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sni_watchdog *dog = SN_CONTAINER_OF(timer, struct sni_watchdog, timer);
    struct sni_pulse *pulse = &dog->system->pulses[sn_worker_index(dog->watched)];
    uint64_t now = sn_worker_now(worker);
    uint64_t run_id = atomic_load_explicit(&pulse->run, memory_order_acquire);
    if (run_id != dog->seen_run) {
        dog->seen_run = run_id;
        dog->seen_ns = now;
        dog->is_told = 0;
    } else if (run_id % 2 == 1 && !dog->is_told && now - dog->seen_ns >= STUCK_NS) {
        struct sn_actor_ref ref = {atomic_load_explicit(&pulse->actor_id, memory_order_relaxed)};
        dog->is_told = 1;
        sn_logger_write(sn_worker_logger(worker), SN_ERROR, "ACTOR-STUCK",
                        sn_system_actor_name(dog->system, ref), "for_ms=%llu worker=%u",
                        (unsigned long long)((now - dog->seen_ns) / SN_MS),
                        sn_worker_index(dog->watched));
    }
    sn_timer_start(worker, timer, now + WATCHDOG_PERIOD_NS);
}

void sni_watchdog_start(struct sn_system *system, uint32_t index)
{
    struct sni_watchdog *dog = &system->watchdogs[index];
    struct sn_worker *worker = system->workers[index];
    dog->system = system;
    dog->worker = worker;
    dog->watched = system->workers[(index + 1) % system->worker_count];
    sn_timer_init(&dog->timer, look);
    /* Alone on one processor there is nobody to look while a handler runs; actor.c names it afterwards. */
    if (dog->watched == worker) return;
    sn_timer_start(worker, &dog->timer, sn_worker_now(worker) + WATCHDOG_PERIOD_NS);
}
