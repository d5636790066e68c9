/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: names, services and slots are written before the first worker runs and only read afterwards. */
#include "actor/system.h"

#include <stdio.h>
#include <string.h>

#include "actor/actor_int.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "log/log.h"

#define SYSTEM_MAGIC SN_MAGIC('S', 'Y', 'S', 'T')
#define WORKERS_MAX  64u
/* Rounds of left-over tasks that are run at the end: more than any chain of tasks has, and bounded, because a task
 * may post itself for ever. */
#define FINISH_ROUNDS_MAX 1000u

static const struct sn_metric_desc metric_table[] = {
    [SNI_METRIC_HANDLED] = {"actor.handled", SN_METRIC_COUNTER, "events handled by actors"},
    [SNI_METRIC_FAILED] = {"actor.failures", SN_METRIC_COUNTER, "handlers that ended in an error"},
    [SNI_METRIC_SLOW] = {"actor.slow_turns", SN_METRIC_COUNTER, "turns longer than 100 ms"},
    [SNI_METRIC_LATE_REPLIES] = {"actor.late_replies", SN_METRIC_COUNTER,
                                 "answers nobody waited for any more, or from the wrong agent"},
    [SNI_METRIC_MAILBOX_FULL] = {"actor.mailbox_full", SN_METRIC_COUNTER,
                                 "local sends refused because the mailbox was full"},
    [SNI_METRIC_WRONG_METRICS] = {"actor.wrong_metrics", SN_METRIC_COUNTER,
                                  "additions to metrics that an actor does not have"},
    {NULL, 0, NULL}};

void sni_metric_add(struct sn_actor *actor, enum sni_actor_metric metric, int64_t delta)
{
    sn_metrics_add(actor->system->config.metrics, sn_worker_index(actor->worker),
                   actor->system->metric_base + (uint32_t)metric, delta);
}

struct sn_actor *sni_actor_of(const struct sn_system *system, struct sn_actor_ref ref)
{
    if (ref.id == 0 || ref.id > system->actor_count) return NULL;
    return system->actors[ref.id - 1];
}

/* --- Construction ------------------------------------------------------------------------------------- */

static enum sn_err make_workers(struct sn_system *system)
{
    uint32_t count = system->worker_count;
    system->workers = sn_alloc(count * sizeof *system->workers);
    system->loggers = sn_alloc(count * sizeof *system->loggers);
    system->pulses = sn_alloc(count * sizeof *system->pulses);
    system->watchdogs = sn_alloc(count * sizeof *system->watchdogs);
    system->boot_tasks = sn_alloc(count * sizeof *system->boot_tasks);
    system->drain_tasks = sn_alloc(count * sizeof *system->drain_tasks);
    if (system->workers == NULL || system->loggers == NULL || system->pulses == NULL ||
        system->watchdogs == NULL || system->boot_tasks == NULL || system->drain_tasks == NULL) {
        return SN_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        char name[24]; /* longer than what the kernel shows, for an index that never is that long */
        (void)snprintf(name, sizeof name, "worker-%u", i);
        enum sn_err err = sn_worker_new(system->config.env, i, name, system, &system->workers[i]);
        if (err != SN_OK) return err;
        err = sn_logger_new(system->config.env, system->config.log_level, system->config.log_json,
                            system->config.agent_name, &system->loggers[i]);
        if (err != SN_OK) return err;
        sn_worker_set_logger(system->workers[i], system->loggers[i]);
    }
    return SN_OK;
}

enum sn_err sn_system_new(const struct sn_system_config *config, struct sn_system **out_system)
{
    uint8_t seed[16];
    struct sn_system *system = sn_alloc(sizeof *system);
    if (system == NULL) return SN_ENOMEM;
    system->magic = SYSTEM_MAGIC;
    system->config = *config;
    system->worker_count = config->worker_count;
    if (system->worker_count == 0) system->worker_count = sn_env_cpu_count(config->env);
    if (system->worker_count > WORKERS_MAX) system->worker_count = WORKERS_MAX;
    sn_env_random(config->env, seed, sizeof seed); /* one for both: it only has to be unknown */
    sn_map_init(&system->names, seed);
    sn_map_init(&system->services, seed);
    system->port = sn_alloc(sizeof *system->port);
    if (system->port != NULL) atomic_store(&system->port->users, 1);
    enum sn_err err = system->port == NULL ? SN_ENOMEM : make_workers(system);
    /* Last: a table cannot be taken back. */
    if (err == SN_OK) {
        err = sn_metrics_register(config->metrics, metric_table, &system->metric_base);
    }
    if (err != SN_OK) {
        sn_system_free(system);
        return err;
    }
    *out_system = system;
    return SN_OK;
}

void sni_port_unref(struct sni_port *port)
{
    if (port == NULL) return;
    if (atomic_fetch_sub(&port->users, 1) == 1) sn_free(port, sizeof *port);
}

static void free_actor(struct sn_actor *actor)
{
    sni_ask_cancel_all(actor);
    sni_timers_cancel_all(actor);
    sn_timer_stop(actor->worker, &actor->restart_timer);
    sn_worker_unschedule(&actor->runnable);
    sni_actor_discard(actor);
    /* A state that is zero because no START came, or none since it failed, holds nothing. */
    if (actor->was_started && !actor->is_down && actor->kind->fini != NULL) {
        actor->kind->fini(actor->state);
    }
    sn_free(actor->state, actor->kind->state_bytes > 0 ? actor->kind->state_bytes : 1);
    actor->magic = 0;
    sn_free(actor, sizeof *actor);
}

/* Runs what is left in the inboxes of stopped workers, so that letters and notices on their way are given back. */
static void finish_tasks(struct sn_system *system)
{
    int has_run = 1;
    for (uint32_t round = 0; has_run && round < FINISH_ROUNDS_MAX; round++) {
        has_run = 0;
        for (uint32_t i = 0; i < system->worker_count; i++) {
            if (system->workers[i] == NULL) continue;
            has_run |= sni_worker_finish_tasks(system->workers[i]);
        }
    }
    for (uint32_t i = 0; i < system->actor_count; i++) sni_actor_discard(system->actors[i]);
}

void sn_system_free(struct sn_system *system)
{
    if (system == NULL) return;
    SN_ASSERT(system->magic == SYSTEM_MAGIC);
    uint32_t count = system->worker_count;
    if (!system->is_stopped) sn_system_stop(system);
    if (system->workers != NULL) finish_tasks(system); /* what the net's end gave back */
    sni_port_unref(system->port);
    for (uint32_t i = 0; i < system->actor_count; i++) free_actor(system->actors[i]);
    while (system->name_entries != NULL) {
        struct sni_name *entry = system->name_entries;
        system->name_entries = entry->next;
        sn_free(entry, sizeof *entry);
    }
    sn_map_fini(&system->names);
    sn_map_fini(&system->services);
    for (uint32_t i = 0; i < count && system->workers != NULL; i++) {
        sn_worker_free(system->workers[i]);
        if (system->loggers != NULL) sn_logger_free(system->loggers[i]);
    }
    sn_free(system->workers, count * sizeof *system->workers);
    sn_free(system->loggers, count * sizeof *system->loggers);
    sn_free(system->pulses, count * sizeof *system->pulses);
    sn_free(system->watchdogs, count * sizeof *system->watchdogs);
    sn_free(system->boot_tasks, count * sizeof *system->boot_tasks);
    sn_free(system->drain_tasks, count * sizeof *system->drain_tasks);
    system->magic = 0;
    sn_free(system, sizeof *system);
}

/* --- Spawning --------------------------------------------------------------------------------------------- */

static enum sn_err check_kind(const struct sn_actor_kind *kind)
{
    if (kind->size < sizeof *kind || kind->handle == NULL || kind->name == NULL) return SN_EINVAL;
    if (!sn_label_is_valid(kind->name, strlen(kind->name))) return SN_EINVAL;
    if (kind->mailbox_messages > SN_MAILBOX_MAX) return SN_EINVAL;
    if (kind->service == NULL) return SN_OK;
    size_t service_size = strlen(kind->service);
    if (service_size > SN_SERVICE_BYTES_MAX) return SN_EINVAL;
    if (!sn_label_is_valid(kind->service, service_size)) return SN_EINVAL;
    return SN_OK;
}

static enum sn_err add_name(struct sn_system *system, struct sn_actor *actor)
{
    const struct sn_actor_kind *kind = actor->kind;
    struct sni_name *entry = sn_alloc(sizeof *entry);
    if (entry == NULL) return SN_ENOMEM;
    entry->actor = actor;
    enum sn_err err =
        sn_map_insert(&system->names, &entry->by_name, kind->name, (uint32_t)strlen(kind->name));
    if (err == SN_OK && kind->service != NULL) {
        err = sn_map_insert(&system->services, &entry->by_service, kind->service,
                            (uint32_t)strlen(kind->service));
        if (err != SN_OK) sn_map_remove(&system->names, &entry->by_name);
    }
    if (err != SN_OK) {
        sn_free(entry, sizeof *entry);
        return err;
    }
    entry->next = system->name_entries;
    system->name_entries = entry;
    return SN_OK;
}

enum sn_err sn_system_spawn(struct sn_system *system, const struct sn_actor_kind *kind,
                            const struct sn_config_node *node, uint32_t metric_base,
                            struct sn_actor_ref *out_actor)
{
    SN_ASSERT(system->magic == SYSTEM_MAGIC);
    enum sn_err err = check_kind(kind);
    if (err != SN_OK) return err;
    if (system->actor_count == SN_ACTORS_MAX) return SN_EFULL;
    struct sn_actor *actor = sn_alloc(sizeof *actor);
    if (actor == NULL) return SN_ENOMEM;
    actor->system = system;
    actor->kind = kind;
    actor->config = node;
    actor->metric_base = metric_base;
    actor->metric_count = sn_metrics_table_rest(system->config.metrics, metric_base);
    actor->worker = system->workers[system->actor_count % system->worker_count];
    actor->mailbox_max = kind->mailbox_messages > 0 ? kind->mailbox_messages : SN_MAILBOX_DEFAULT;
    actor->sends_max =
        kind->outstanding_sends > 0 ? kind->outstanding_sends : SN_OUTSTANDING_SENDS_DEFAULT;
    sn_env_random(system->config.env, &actor->ask_counter, sizeof actor->ask_counter);
    sni_actor_init(actor);
    actor->state = sn_alloc(kind->state_bytes > 0 ? kind->state_bytes : 1);
    err = actor->state == NULL ? SN_ENOMEM : add_name(system, actor);
    if (err != SN_OK) {
        if (actor->state != NULL)
            sn_free(actor->state, kind->state_bytes > 0 ? kind->state_bytes : 1);
        sn_free(actor, sizeof *actor);
        return err;
    }
    system->actors[system->actor_count++] = actor;
    actor->ref.id = system->actor_count;
    *out_actor = actor->ref;
    return SN_OK;
}

/* --- Life ---------------------------------------------------------------------------------------------------- */

static void boot(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_system *system = sn_worker_owner(worker);
    (void)task; /* one per worker; the worker says which */
    sni_watchdog_start(system, sn_worker_index(worker));
    int is_first = sn_worker_index(worker) == 0;
    if (is_first && system->actor_count == 0 && system->config.ready != NULL) {
        system->config.ready(system->config.arg); /* nobody else will */
    }
    for (uint32_t i = 0; i < system->actor_count; i++) {
        struct sn_actor *actor = system->actors[i];
        if (actor->worker != worker) continue;
        actor->needs_start = 1;
        sni_actor_schedule(actor);
    }
}

enum sn_err sn_system_start(struct sn_system *system)
{
    SN_ASSERT(system->magic == SYSTEM_MAGIC);
    atomic_store(&system->starting, system->actor_count);
    for (uint32_t i = 0; i < system->worker_count; i++) {
        system->boot_tasks[i].run = boot;
        sn_worker_post(system->workers[i], &system->boot_tasks[i]);
    }
    for (uint32_t i = 0; i < system->worker_count; i++) {
        enum sn_err err = sn_worker_start(system->workers[i]);
        if (err != SN_OK) return err;
    }
    return SN_OK;
}

static void drain(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_system *system = sn_worker_owner(worker);
    (void)task; /* one per worker; the worker says which */
    for (uint32_t i = 0; i < system->actor_count; i++) {
        struct sn_actor *actor = system->actors[i];
        if (actor->worker != worker) continue;
        actor->is_draining = actor->needs_stop = 1;
        sni_actor_schedule(actor);
    }
}

void sn_system_drain(struct sn_system *system)
{
    for (uint32_t i = 0; i < system->worker_count; i++) {
        system->drain_tasks[i].run = drain;
        sn_worker_post(system->workers[i], &system->drain_tasks[i]);
    }
}

void sn_system_stop(struct sn_system *system)
{
    SN_ASSERT(system->magic == SYSTEM_MAGIC);
    system->is_stopped = 1;
    if (system->workers == NULL) return; /* half built */
    for (uint32_t i = 0; i < system->worker_count; i++) {
        if (system->workers[i] != NULL) sn_worker_stop(system->workers[i]);
    }
    /* From here on this thread is alone, but for jobs on their way home. */
    atomic_fetch_or(&system->port->posting, SNI_PORT_CLOSED);
    while (atomic_load(&system->port->posting) != SNI_PORT_CLOSED) {
    }
    finish_tasks(system);
}

/* --- Look-ups -------------------------------------------------------------------------------------------------- */

struct sn_worker *sn_system_worker(const struct sn_system *system, uint32_t index)
{
    SN_ASSERT(index < system->worker_count);
    return system->workers[index];
}

uint32_t sn_system_worker_count(const struct sn_system *system)
{
    return system->worker_count;
}

struct sn_env *sn_system_env(const struct sn_system *system)
{
    return system->config.env;
}

void *sn_system_arg(const struct sn_system *system)
{
    return system->config.arg;
}

struct sn_loop *sn_system_loop(const struct sn_system *system, uint32_t index)
{
    return sn_worker_loop(sn_system_worker(system, index));
}

const char *sn_system_agent_name(const struct sn_system *system)
{
    return system->config.agent_name;
}

struct sn_metrics *sn_system_metrics(const struct sn_system *system)
{
    return system->config.metrics;
}

struct sn_logger *sn_system_logger(struct sn_worker *worker)
{
    return sn_worker_logger(worker);
}

struct sn_actor_ref sn_system_find(const struct sn_system *system, const char *actor)
{
    struct sn_map_entry *entry = sn_map_find(&system->names, actor, (uint32_t)strlen(actor));
    if (entry == NULL) return (struct sn_actor_ref){0};
    return SN_CONTAINER_OF(entry, struct sni_name, by_name)->actor->ref;
}

struct sn_actor_ref sn_system_find_service(const struct sn_system *system, const char *service)
{
    struct sn_map_entry *entry = sn_map_find(&system->services, service, (uint32_t)strlen(service));
    if (entry == NULL) return (struct sn_actor_ref){0};
    return SN_CONTAINER_OF(entry, struct sni_name, by_service)->actor->ref;
}

struct sn_worker *sn_system_actor_worker(const struct sn_system *system, struct sn_actor_ref actor)
{
    SN_ASSERT(sni_actor_of(system, actor) != NULL);
    return sni_actor_of(system, actor)->worker;
}

const char *sn_system_actor_name(const struct sn_system *system, struct sn_actor_ref actor)
{
    const struct sn_actor *found = sni_actor_of(system, actor);
    return found == NULL ? "" : found->kind->name;
}

enum sn_err sn_system_actor_info(const struct sn_system *system, uint32_t index,
                                 struct sn_actor_info *out_info)
{
    if (index >= system->actor_count) return SN_ENOENT;
    struct sn_actor *actor = system->actors[index];
    *out_info = (struct sn_actor_info){
        .name = actor->kind->name,
        .worker = sn_worker_index(actor->worker),
        .mailbox_used = atomic_load_explicit(&actor->mailbox_used, memory_order_relaxed),
        .mailbox_max = actor->mailbox_max,
        .sends_outstanding = atomic_load_explicit(&actor->sends_outstanding, memory_order_relaxed),
        .asks_outstanding = atomic_load_explicit(&actor->asks_outstanding, memory_order_relaxed),
        .handled = atomic_load_explicit(&actor->handled, memory_order_relaxed),
        .restarts = atomic_load_explicit(&actor->restarts, memory_order_relaxed),
        .is_failed = atomic_load_explicit(&actor->is_failed, memory_order_relaxed),
    };
    return SN_OK;
}

uint64_t sn_system_local_accepted(const struct sn_system *system)
{
    return atomic_load_explicit(&system->local_accepted, memory_order_relaxed);
}
