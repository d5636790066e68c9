/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"

struct probe_state {
    uint64_t handled;
};

/* Something that a test wants done inside a handler. */
struct deed {
    void (*fn)(struct sn_ctx *ctx, void *arg);
    void *arg;
};

static struct world world;

const struct sn_host world_host = {.size = sizeof world_host,
                                   .now_ms = sn_ctx_now_ms,
                                   .random = sn_ctx_random,
                                   .log = sn_ctx_log,
                                   .metric_add = sn_ctx_metric_add,
                                   .agent_name = sn_ctx_agent_name,
                                   .send = sn_ctx_send,
                                   .ask = sn_ctx_ask,
                                   .reply = sn_ctx_reply,
                                   .timer = sn_ctx_timer,
                                   .timer_cancel = sn_ctx_timer_cancel,
                                   .offload = sn_ctx_offload};

struct world *world_get(void)
{
    return &world;
}

static void copy_text(char out[32], const char *text)
{
    (void)snprintf(out, 32, "%s", text == NULL ? "" : text); /* cut is fine */
}

static void write_down(struct probe *probe, const struct sn_event *event, uint64_t nth)
{
    assert_true(probe->record_count < RECORDS_MAX);
    struct record *record = &probe->records[probe->record_count++];
    *record = (struct record){.kind = event->kind,
                              .err = event->err,
                              .outcome = event->outcome,
                              .reason = event->reason,
                              .token = event->token,
                              .correlation = event->correlation,
                              .pointer = event->pointer,
                              .config = event->config,
                              .at_ns = sn_env_now_ns(world.env),
                              .nth = nth,
                              .payload_size = event->payload_size};
    copy_text(record->agent, event->agent);
    copy_text(record->actor, event->actor);
    copy_text(record->type, event->type);
    uint32_t kept = event->payload_size < 31 ? event->payload_size : 31;
    if (kept > 0) memcpy(record->payload, event->payload, kept);
}

static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct probe_state *own = state;
    struct probe *probe = &world.probes[sn_ctx_self(ctx).id - 1];
    assert_int_equal(event->size, sizeof *event);
    if (event->kind == SN_EVENT_CONN_DIALED) { /* world_act's; actors here have no connections */
        struct deed *deed = event->pointer;
        deed->fn(ctx, deed->arg);
        return SN_OK;
    }
    write_down(probe, event, own->handled++);
    return probe->on_event == NULL ? SN_OK : probe->on_event(ctx, probe, event);
}

/* One for each probe, because a state does not know its actor. */
static void end_of(uint32_t index, void *state)
{
    world.probes[index].fini_count++;
    world.probes[index].fini_nth = ((struct probe_state *)state)->handled;
}

#define END_OF(n)                                                                                  \
    static void end_of_##n(void *state)                                                            \
    {                                                                                              \
        end_of(n, state);                                                                          \
    }
END_OF(0)
END_OF(1)
END_OF(2)
END_OF(3)
END_OF(4)
END_OF(5)
END_OF(6)
END_OF(7)
static void (*const ends[PROBES_MAX])(void *state) = {end_of_0, end_of_1, end_of_2, end_of_3,
                                                      end_of_4, end_of_5, end_of_6, end_of_7};

static enum sn_err remote(void *arg, struct sn_letter *letter)
{
    assert_ptr_equal(arg, &world);
    if (world.remote_err != SN_OK) return world.remote_err;
    sn_list_push(&world.away, &letter->node);
    world.away_count++;
    return SN_OK;
}

static void actor_failed(void *arg, struct sn_actor_ref actor)
{
    (void)arg, (void)actor; /* counted only */
    world.failed_count++;
}

static void ready(void *arg)
{
    (void)arg; /* there is one world */
    world.ready_count++;
}

static void escalate(void *arg, struct sn_actor_ref actor, enum sn_err last)
{
    (void)arg; /* there is one world */
    world.escalated_count++;
    world.escalated = actor;
    world.escalated_err = last;
}

struct world *world_new(void)
{
    memset(&world, 0, sizeof world);
    sn_list_init(&world.away);
    world.env = fake_env_new();
    assert_int_equal(sn_metrics_new(3, &world.metrics), SN_OK);
    struct sn_system_config config = {.env = world.env,
                                      .host = &world_host,
                                      .metrics = world.metrics,
                                      .agent_name = WORLD_AGENT,
                                      .worker_count = 2,
                                      .log_level = SN_DEBUG,
                                      .arg = &world,
                                      .remote = remote,
                                      .actor_failed = actor_failed,
                                      .ready = ready,
                                      .escalate = escalate};
    assert_int_equal(sn_system_new(&config, &world.system), SN_OK);
    return &world;
}

struct probe *world_spawn(const char *name, uint32_t mailbox, uint32_t sends)
{
    assert_true(world.probe_count < PROBES_MAX);
    struct probe *probe = &world.probes[world.probe_count];
    probe->kind = (struct sn_actor_kind){.size = sizeof probe->kind,
                                         .state_bytes = sizeof(struct probe_state),
                                         .name = name,
                                         .mailbox_messages = mailbox,
                                         .outstanding_sends = sends,
                                         .handle = handle,
                                         .fini = ends[world.probe_count]};
    world.probe_count++;
    assert_int_equal(sn_system_spawn(world.system, &probe->kind, NULL, 0, &probe->ref), SN_OK);
    return probe;
}

void world_start(void)
{
    assert_int_equal(sn_system_start(world.system), SN_OK);
    world_run();
    for (uint32_t i = 0; i < world.probe_count; i++) world_forget(&world.probes[i]);
}

void world_free(void)
{
    sn_system_stop(world.system);
    struct sn_list *node;
    while ((node = sn_list_pop(&world.away)) != NULL) {
        sn_letter_free(SN_CONTAINER_OF(node, struct sn_letter, node));
    }
    sn_system_free(world.system);
    sn_metrics_free(world.metrics);
    fake_env_free(world.env);
    world.system = NULL;
    assert_int_equal(sn_alloc_in_use(), 0);
}

int world_tear_down(void **state)
{
    (void)state; /* there is one world */
    if (world.system != NULL) world_free();
    return 0;
}

void world_act(struct probe *probe, void (*fn)(struct sn_ctx *ctx, void *arg), void *arg)
{
    struct deed deed = {fn, arg};
    struct sn_notice *notice;
    assert_int_equal(sn_notice_new(probe->ref, SN_INCARNATION_ANY, NULL, NULL, NULL, 0, &notice),
                     SN_OK);
    notice->event.kind = SN_EVENT_CONN_DIALED;
    notice->event.pointer = &deed;
    sn_notice_post(world.system, notice);
    world_run();
}

void world_run(void)
{
    fake_env_run(world.env);
}

void world_run_ms(uint64_t ms)
{
    fake_env_run_for(world.env, ms * FAKE_MS);
}

struct sn_letter *world_last_away(void)
{
    assert_false(sn_list_is_empty(&world.away));
    return SN_CONTAINER_OF(world.away.prev, struct sn_letter, node);
}

struct settling {
    struct sn_task task;
    struct sn_letter *letter;
    enum sn_outcome outcome;
    enum sn_reason reason;
};

static void settle(struct sn_task *task, struct sn_worker *worker)
{
    struct settling *settling = SN_CONTAINER_OF(task, struct settling, task);
    (void)worker; /* another one than the sender's, see world_settle */
    sn_system_settle(world.system, settling->letter, settling->outcome, settling->reason);
}

void world_settle(enum sn_outcome outcome, enum sn_reason reason)
{
    struct sn_list *node = sn_list_pop(&world.away);
    assert_non_null(node);
    struct sn_letter *letter = SN_CONTAINER_OF(node, struct sn_letter, node);
    uint32_t index = sn_worker_index(sn_system_actor_worker(world.system, letter->from_ref));
    struct settling settling = {{.run = settle}, letter, outcome, reason};
    sn_worker_post(sn_system_worker(world.system, 1 - index), &settling.task);
    world_run();
}

static enum sn_reason place(struct sn_letter *letter)
{
    enum sn_reason reason = sn_system_place(world.system, letter);
    if (reason != SN_REASON_NONE) sn_letter_free(letter);
    return reason;
}

enum sn_reason world_reply(const char *from_agent, uint64_t correlation, const char *payload)
{
    struct sn_letter *letter;
    struct sn_letter_fields fields = {.from_agent = from_agent,
                                      .from_actor = "oracle",
                                      .to_agent = "",
                                      .to_actor = "asker",
                                      .type = "an.answer",
                                      .payload = payload,
                                      .payload_size = (uint32_t)strlen(payload)};
    assert_int_equal(sn_letter_new(&fields, &letter), SN_OK);
    letter->kind = SN_LETTER_REPLY;
    letter->correlation = correlation;
    return place(letter);
}

enum sn_reason world_bring(struct sn_actor_ref to, const char *type, const char *payload)
{
    struct sn_letter *letter;
    struct sn_letter_fields fields = {.from_agent = "amsterdam/edge",
                                      .from_actor = "x",
                                      .to_agent = "",
                                      .to_actor = "y",
                                      .type = type,
                                      .payload = payload,
                                      .payload_size = (uint32_t)strlen(payload)};
    assert_int_equal(sn_letter_new(&fields, &letter), SN_OK);
    letter->to_ref = to;
    return place(letter);
}

uint32_t world_count(const struct probe *probe, enum sn_event_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < probe->record_count; i++) count += probe->records[i].kind == kind;
    return count;
}

const struct record *world_record(const struct probe *probe, enum sn_event_kind kind,
                                  uint32_t index)
{
    for (uint32_t i = 0; i < probe->record_count; i++) {
        if (probe->records[i].kind != kind) continue;
        if (index-- == 0) return &probe->records[i];
    }
    fail_msg("%s: too few events of kind %d", probe->kind.name, kind);
    return NULL;
}

void world_forget(struct probe *probe)
{
    probe->record_count = 0;
}

struct sn_actor_info world_info(const struct probe *probe)
{
    struct sn_actor_info info;
    assert_int_equal(sn_system_actor_info(world.system, (uint32_t)probe->ref.id - 1, &info), SN_OK);
    return info;
}

int64_t world_metric(const char *name)
{
    for (uint32_t i = 0; i < sn_metrics_count(world.metrics); i++) {
        if (strcmp(sn_metrics_desc(world.metrics, i)->name, name) == 0) {
            return sn_metrics_read(world.metrics, i);
        }
    }
    fail_msg("no metric %s", name);
    return 0;
}
