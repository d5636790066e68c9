/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the host table that concern messages, time and jobs: what a handler may call. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "actor/actor_int.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "log/log.h"

static struct sn_actor *self(struct sn_ctx *ctx)
{
    struct sn_actor *actor = ((struct sni_ctx *)ctx)->actor;
    SN_ASSERT(actor->magic == SNI_ACTOR_MAGIC);
    return actor;
}

struct sn_system *sn_ctx_system(struct sn_ctx *ctx)
{
    return self(ctx)->system;
}

struct sn_worker *sn_ctx_worker(struct sn_ctx *ctx)
{
    return self(ctx)->worker;
}

struct sn_actor_ref sn_ctx_self(struct sn_ctx *ctx)
{
    return self(ctx)->ref;
}

uint32_t sn_ctx_incarnation(struct sn_ctx *ctx)
{
    return self(ctx)->incarnation;
}

uint64_t sn_ctx_now_ms(struct sn_ctx *ctx)
{
    return sn_worker_refresh_now(self(ctx)->worker) / SN_MS;
}

void sn_ctx_random(struct sn_ctx *ctx, void *out, size_t size)
{
    sn_env_random(self(ctx)->system->config.env, out, size);
}

void sn_ctx_log(struct sn_ctx *ctx, uint32_t level, const char *id, const char *text)
{
    if (level > SN_ERROR) level = SN_ERROR;
    sn_logger_write(sn_worker_logger(self(ctx)->worker), (enum sn_log_level)level, id,
                    self(ctx)->kind->name, "%s", text);
}

void sn_log(struct sn_ctx *ctx, enum sn_log_level level, const char *id, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* cut lines are fine */
    va_end(args);
    ctx->host->log(ctx, level, id, text);
}

void sn_ctx_metric_add(struct sn_ctx *ctx, uint32_t index, int64_t delta)
{
    struct sn_actor *actor = self(ctx);
    if (index >= actor->metric_count) {
        sni_metric_add(actor, SNI_METRIC_WRONG_METRICS, 1);
        sn_logger_write(sn_worker_logger(actor->worker), SN_WARN, "METRIC-UNKNOWN",
                        actor->kind->name, "index=%u metrics=%u", index, actor->metric_count);
        return;
    }
    sn_metrics_add(actor->system->config.metrics, sn_worker_index(actor->worker),
                   actor->metric_base + index, delta);
}

const char *sn_ctx_agent_name(struct sn_ctx *ctx)
{
    return self(ctx)->system->config.agent_name;
}

/* --- Sending ---------------------------------------------------------------------------------------- */

/* A checked destination. */
struct destination {
    char agent[SN_AGENT_NAME_BYTES_MAX + 1]; /* "" = here */
    char actor[SN_LABEL_BYTES_MAX + 1];
};

static enum sn_err parse_destination(struct sn_actor *actor, const char *to,
                                     struct destination *out_to)
{
    struct sn_addr_parts parts;
    enum sn_err err = sn_addr_split(to, strlen(to), &parts);
    if (err != SN_OK) return err;
    const char *own = actor->system->config.agent_name;
    if (parts.agent_size == strlen(own) && memcmp(parts.agent, own, parts.agent_size) == 0) {
        parts.agent_size = 0;
    }
    err = sn_text_copy(out_to->agent, sizeof out_to->agent, parts.agent, parts.agent_size);
    if (err != SN_OK) return err;
    return sn_text_copy(out_to->actor, sizeof out_to->actor, parts.actor, parts.actor_size);
}

static enum sn_err new_letter(struct sn_actor *actor, const struct destination *to,
                              const char *type, const void *payload, uint32_t size,
                              struct sn_letter **out_letter)
{
    if (!sn_type_is_valid(type, strlen(type))) return SN_EINVAL;
    if (payload == NULL && size > 0) return SN_EINVAL;
    struct sn_letter_fields fields = {.from_agent = "",
                                      .from_actor = actor->kind->name,
                                      .to_agent = to->agent,
                                      .to_actor = to->actor,
                                      .type = type,
                                      .payload = payload,
                                      .payload_size = size};
    enum sn_err err = sn_letter_new(&fields, out_letter);
    if (err != SN_OK) return err;
    (*out_letter)->from_ref = actor->ref;
    (*out_letter)->incarnation = actor->incarnation;
    return SN_OK;
}

static enum sn_err err_of_reason(enum sn_reason reason)
{
    switch (reason) {
    case SN_REASON_NO_ACTOR:
    case SN_REASON_NO_ASK: return SN_ENOENT;
    case SN_REASON_ACTOR_FAILED: return SN_ESTATE;
    default: return SN_EFULL;
    }
}

/* Hands the letter to a mailbox here. The outcome is certain at once, but is told like any other. */
static enum sn_err send_here(struct sn_actor *actor, struct sn_letter *letter)
{
    struct sn_notice *notice = NULL;
    if (letter->wants_outcome && letter->kind == SN_LETTER_SEND) {
        if (atomic_load(&actor->sends_outstanding) >= actor->sends_max) return SN_EFULL;
        enum sn_err err =
            sn_notice_new(actor->ref, actor->incarnation, NULL, NULL, NULL, 0, &notice);
        if (err != SN_OK) return err;
        notice->event.kind = SN_EVENT_OUTCOME;
        notice->event.token = letter->token;
        notice->event.outcome = SN_DELIVERED;
    }
    letter->wants_outcome = 0; /* it does not come back itself */
    letter->to_ref = sn_system_find(actor->system, letter->to_actor);
    enum sn_reason reason = sn_system_place(actor->system, letter);
    if (reason != SN_REASON_NONE) {
        if (reason == SN_REASON_MAILBOX_FULL) sni_metric_add(actor, SNI_METRIC_MAILBOX_FULL, 1);
        sn_notice_free(notice);
        return err_of_reason(reason);
    }
    atomic_fetch_add_explicit(&actor->system->local_accepted, 1, memory_order_relaxed);
    if (notice == NULL) return SN_OK;
    atomic_fetch_add(&actor->sends_outstanding, 1);
    notice->holds_slot = 1;
    sn_notice_post(actor->system, notice);
    return SN_OK;
}

static enum sn_err send_away(struct sn_actor *actor, struct sn_letter *letter)
{
    if (actor->system->config.remote == NULL) return SN_ENOENT;
    if (!letter->wants_outcome)
        return actor->system->config.remote(actor->system->config.arg, letter);
    if (atomic_load(&actor->sends_outstanding) >= actor->sends_max) return SN_EFULL;
    /* Counted before it leaves: the outcome may come back before this call returns. */
    atomic_fetch_add(&actor->sends_outstanding, 1);
    enum sn_err err = actor->system->config.remote(actor->system->config.arg, letter);
    if (err != SN_OK) atomic_fetch_sub(&actor->sends_outstanding, 1);
    return err;
}

/* Takes the letter in every case. */
static enum sn_err dispatch(struct sn_actor *actor, struct sn_letter *letter)
{
    enum sn_err err =
        letter->to_agent[0] == '\0' ? send_here(actor, letter) : send_away(actor, letter);
    if (err != SN_OK) sn_letter_free(letter);
    return err;
}

enum sn_err sn_ctx_send(struct sn_ctx *ctx, const char *to, const char *type, const void *payload,
                        uint32_t size, const struct sn_send_options *options)
{
    static const struct sn_send_options defaults = {.size = sizeof defaults};
    struct sn_actor *actor = self(ctx);
    struct destination where;
    struct sn_letter *letter = NULL;
    if (options == NULL) options = &defaults;
    if (options->size < sizeof *options) return SN_EINVAL; /* there was never a smaller one */
    enum sn_err err = parse_destination(actor, to, &where);
    if (err != SN_OK) return err;
    err = new_letter(actor, &where, type, payload, size, &letter);
    if (err != SN_OK) return err;
    uint64_t deadline_ms = options->deadline_ms == 0 ? SN_SEND_DEADLINE_MS : options->deadline_ms;
    letter->kind = SN_LETTER_SEND;
    letter->class_id = options->is_control ? 0 : 1;
    letter->token = options->token;
    letter->wants_outcome = !options->is_silent;
    letter->deadline_ns = sni_after_ms(sn_worker_now(actor->worker), deadline_ms);
    return dispatch(actor, letter);
}

enum sn_err sn_ctx_ask(struct sn_ctx *ctx, const char *to, const char *type, const void *payload,
                       uint32_t size, uint64_t timeout_ms, uint64_t token)
{
    struct sn_actor *actor = self(ctx);
    struct destination where;
    struct sn_letter *letter = NULL;
    struct sni_ask *ask = NULL;
    enum sn_err err = parse_destination(actor, to, &where);
    if (err != SN_OK) return err;
    err = new_letter(actor, &where, type, payload, size, &letter);
    if (err != SN_OK) return err;
    err = sni_ask_new(actor, where.agent, timeout_ms, token, &ask);
    if (err != SN_OK) {
        sn_letter_free(letter);
        return err;
    }
    letter->kind = SN_LETTER_ASK;
    letter->class_id = 0;
    letter->correlation = ask->correlation;
    letter->wants_outcome = 1;
    letter->deadline_ns = sni_after_ms(sn_worker_now(actor->worker), timeout_ms);
    err = dispatch(actor, letter);
    if (err != SN_OK) sni_ask_finish(actor, ask);
    return err;
}

enum sn_err sn_ctx_reply(struct sn_ctx *ctx, const struct sn_event *to, const char *type,
                         const void *payload, uint32_t size)
{
    struct sn_actor *actor = self(ctx);
    struct destination where;
    struct sn_letter *letter = NULL;
    if (to->correlation == 0 || to->agent == NULL || to->actor == NULL) return SN_EINVAL;
    enum sn_err err = sn_text_copy(where.agent, sizeof where.agent, to->agent, strlen(to->agent));
    if (err != SN_OK) return err;
    err = sn_text_copy(where.actor, sizeof where.actor, to->actor, strlen(to->actor));
    if (err != SN_OK) return err;
    err = new_letter(actor, &where, type, payload, size, &letter);
    if (err != SN_OK) return err;
    letter->kind = SN_LETTER_REPLY;
    letter->class_id = 0;
    letter->correlation = to->correlation;
    letter->deadline_ns = sni_after_ms(sn_worker_now(actor->worker), SN_SEND_DEADLINE_MS);
    return dispatch(actor, letter);
}

/* --- Jobs -------------------------------------------------------------------------------------------- */

struct job {
    struct sn_system *system; /* gone once the port is closed */
    struct sni_port *port;
    struct sn_notice *notice;
    void (*run)(void *pointer);
    void *pointer;
};

static void run_job(void *arg)
{
    struct job *job = arg;
    job->run(job->pointer);
    uint32_t before = atomic_fetch_add(&job->port->posting, 1);
    if ((before & SNI_PORT_CLOSED) == 0) {
        sn_notice_post(job->system, job->notice);
    } else {
        sn_notice_free(job->notice);
    }
    atomic_fetch_sub(&job->port->posting, 1);
    sni_port_unref(job->port);
    sn_free(job, sizeof *job);
}

enum sn_err sn_ctx_offload(struct sn_ctx *ctx, uint32_t kind, void (*run)(void *pointer),
                           void *pointer, uint64_t token)
{
    struct sn_actor *actor = self(ctx);
    if (kind > SN_OFFLOAD_SLOW) return SN_EINVAL;
    struct job *job = sn_alloc(sizeof *job);
    if (job == NULL) return SN_ENOMEM;
    /* For any incarnation: only a handler can release what `pointer` holds. */
    enum sn_err err =
        sn_notice_new(actor->ref, SN_INCARNATION_ANY, NULL, NULL, NULL, 0, &job->notice);
    if (err != SN_OK) goto out;
    job->notice->event.kind = SN_EVENT_JOB;
    job->notice->event.token = token;
    job->notice->event.pointer = pointer;
    job->system = actor->system;
    job->run = run;
    job->pointer = pointer;
    job->port = actor->system->port;
    atomic_fetch_add(&job->port->users, 1);
    err = sn_env_offload(actor->system->config.env, (enum sn_offload_kind)kind, run_job, job);
    if (err != SN_OK) goto out;
    return SN_OK;
out:
    sni_port_unref(job->port);
    sn_notice_free(job->notice);
    sn_free(job, sizeof *job);
    return err;
}
