/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purpose: serves the control socket: answers views of the agent, and passes questions on to actors.
 * In: connections on the control socket; replies to what it asked. Out: questions (verb `ask`) to any actor. Messages
 * are refused: those of other agents by the access rules, which cannot open it, those of this agent with
 * `control.refused`.
 * States of a client: reading --request complete--> working --reply ready--> writing --all written--> reading.
 * Invariants: 1. at most SN_CONTROL_CLIENTS_MAX clients; 2. one request of a client at a time; 3. a client of another
 * user never has a byte read, and is told why; 4. a slot that is reused has another generation, so that late answers
 * miss it; 5. those who wait for an actor's answer, which may take minutes, never have all places: at most ASKS_MAX of
 * them, and ASKS_AWAY_MAX while the question is for another agent; 6. whoever has any other place had to say or take
 * something whole within IDLE_NS, or makes room for the next one. So a view finds a place, whatever the others do.
 */
#include <string.h>

#include "agents/agent.h"
#include "agents/control.h"
#include "agents/reload.h"
#include "agents/views.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "log/log.h"
#include "metrics/metrics.h"

#define PREFIX_BYTES 4u
/* A client keeps its place for so long between two requests, or for one reply, when others wait for a place. */
#define IDLE_NS (2000 * SN_MS)
/* From the first byte of a request to its last: it comes from this machine, and is whole when it is sent. */
#define REQUEST_NS (2000 * SN_MS)
#define RETRY_NS   (250 * SN_MS)
/* Nobody makes room for so long: newcomers are told so rather than kept waiting. */
#define FULL_NS (3000 * SN_MS)

#define ASKS_AWAY_MAX (SN_CONTROL_CLIENTS_MAX / 2)
/* Actors of this agent answer at once, and some of these questions are the operator's views (`forwards`). */
#define ASKS_MAX (ASKS_AWAY_MAX + SN_CONTROL_CLIENTS_MAX / 4)

enum client_state { CLIENT_FREE, CLIENT_READING, CLIENT_WORKING, CLIENT_WRITING };

struct client {
    struct sn_io io;
    struct control *control;
    struct sn_sock sock;
    enum client_state state;
    uint32_t index;
    uint32_t generation;
    uint8_t prefix[PREFIX_BYTES];
    uint8_t *in; /* the request's bytes */
    uint32_t in_size;
    uint32_t got;       /* of prefix and request together */
    struct sn_body out; /* reply with its prefix */
    size_t sent;
    struct sn_control_request request; /* of an `ask`; its payload is borrowed from `in` */
    uint64_t asked_ns;
    /* Since when it has been doing what it does: waits to say something, says it, takes its reply. A byte now and then
     * does not make it younger. */
    uint64_t since_ns;
    uint8_t is_asking;
};

struct control {
    struct sn_agent *agent;
    struct sn_worker *worker;
    struct sn_actor_ref self;
    uint32_t incarnation;
    struct sn_io listener;
    struct sn_sock listen_sock;
    uint32_t metric_base;
    uint64_t reload_token; /* of the client that asked for the reload under way */
    int is_listening;
    int has_waiting;        /* the system's queue was not seen empty since somebody came */
    uint64_t full_since_ns; /* since when nobody found a place; 0 = not full */
    struct sn_timer
        retry; /* started while full, or while a request is incomplete: looks for those who are late */
    struct client clients[SN_CONTROL_CLIENTS_MAX];
};

enum metric { METRIC_DENIED };

static const struct sn_metric_desc metric_table[] = {
    [METRIC_DENIED] = {"control.denied", SN_METRIC_COUNTER,
                       "clients of the control socket, and messages to it, that were refused"},
    {NULL, 0, NULL},
};

enum sn_err sn_control_register(struct sn_metrics *metrics, uint32_t *out_base)
{
    return sn_metrics_register(metrics, metric_table, out_base);
}

static void on_client(struct sn_io *io, unsigned ready);

static uint64_t token_of(const struct client *client)
{
    return ((uint64_t)client->generation << 32) | client->index;
}

static struct client *client_of(struct control *control, uint64_t token)
{
    uint32_t index = (uint32_t)token;
    if (index >= SN_CONTROL_CLIENTS_MAX) return NULL;
    struct client *client = &control->clients[index];
    return client->state == CLIENT_WORKING && client->generation == token >> 32 ? client : NULL;
}

static void drop_client(struct client *client)
{
    if (client->state == CLIENT_FREE) return;
    sn_io_close(&client->io);
    sn_env_close(client->control->agent->env, client->sock);
    sn_free(client->in, client->in_size);
    client->in = NULL;
    sn_body_fini(&client->out);
    client->state = CLIENT_FREE;
    client->is_asking = 0;
    client->generation++;
    if (client->control->full_since_ns != 0) sn_io_kick(&client->control->listener);
}

/* --- Replies --------------------------------------------------------------------------------------------- */

/* A reply with its prefix. Failure is in out->err. */
static void make_reply(struct sn_body *out, enum sn_err err, const char *text,
                       const struct sn_body *body)
{
    static const uint8_t room[PREFIX_BYTES];
    sn_body_fini(out);
    sn_body_need(out, PREFIX_BYTES);
    if (out->err == SN_OK) sn_pack_raw(&out->pack, room, sizeof room);
    sn_body_map(out, body == NULL ? 2 : 3);
    sn_body_uint(out, "err", (uint64_t)err);
    sn_body_text(out, "text", text);
    if (body != NULL) {
        sn_body_key(out, "body");
        sn_body_append(out, body);
    }
    if (out->err != SN_OK) return;
    uint32_t size = (uint32_t)out->pack.size - PREFIX_BYTES;
    uint8_t *prefix = out->pack.data;
    prefix[0] = (uint8_t)(size >> 24);
    prefix[1] = (uint8_t)(size >> 16);
    prefix[2] = (uint8_t)(size >> 8);
    prefix[3] = (uint8_t)size;
}

static void reply(struct client *client, enum sn_err err, const char *text,
                  const struct sn_body *body)
{
    make_reply(&client->out, err, text, body);
    if (client->out.err != SN_OK) {
        drop_client(client);
        return;
    }
    client->sent = 0;
    client->state = CLIENT_WRITING;
    client->is_asking = 0;
    client->since_ns = sn_worker_now(client->control->worker);
    sn_io_kick(&client->io);
}

/* A view is complete. */
static void on_view(void *arg, uint64_t token, const struct sn_body *body)
{
    struct control *control = arg;
    struct client *client = client_of(control, token);
    if (client == NULL) return;
    if (body->err != SN_OK) {
        reply(client, body->err, sn_err_text(body->err), NULL);
    } else {
        reply(client, SN_OK, "", body);
    }
}

/* --- Asking ------------------------------------------------------------------------------------------------ */

/* An ask needs a handler call: the actor writes to itself. */
static enum sn_err defer_ask(struct client *client)
{
    struct control *control = client->control;
    struct sn_notice *notice = NULL;
    enum sn_err err =
        sn_notice_new(control->self, control->incarnation, NULL, NULL, NULL, 0, &notice);
    if (err != SN_OK) return err;
    notice->event.kind = SN_EVENT_JOB;
    notice->event.token = token_of(client);
    sn_notice_post(control->agent->system, notice);
    return SN_OK;
}

static void ask(struct sn_ctx *ctx, struct control *control, uint64_t token)
{
    struct client *client = client_of(control, token);
    if (client == NULL) return;
    const struct sn_control_request *request = &client->request;
    client->asked_ns = sn_worker_refresh_now(control->worker);
    enum sn_err err = sn_ask(ctx, request->to, request->type, request->payload,
                             (uint32_t)request->payload_size, request->timeout_ms, token);
    if (err != SN_OK) {
        reply(client, err, err == SN_ENOENT ? "no such agent or actor" : sn_err_text(err), NULL);
    }
}

static void take_answer(struct control *control, const struct sn_event *event)
{
    struct client *client = client_of(control, event->token);
    if (client == NULL) return;
    if (event->err != SN_OK) {
        const char *text = event->reason != SN_REASON_NONE
                               ? sn_reason_name((enum sn_reason)event->reason)
                               : sn_err_text((enum sn_err)event->err);
        reply(client, (enum sn_err)event->err, text, NULL);
        return;
    }
    struct sn_body body;
    uint64_t took_ns = sn_worker_refresh_now(control->worker) - client->asked_ns;
    sn_body_init(&body);
    sn_body_map(&body, 3);
    sn_body_text(&body, "type", event->type);
    sn_body_uint(&body, "us", took_ns / 1000);
    sn_body_key(&body, "payload");
    sn_body_need(&body, event->payload_size + 16);
    if (body.err == SN_OK) sn_pack_bin(&body.pack, event->payload, event->payload_size);
    reply(client, body.err, "", &body);
    sn_body_fini(&body);
}

/* Whether the question stays in this agent. */
static int is_local(const struct control *control, const char *to)
{
    const char *name = control->agent->file->agent;
    const char *colon = strchr(to, ':');
    size_t size = colon == NULL ? strlen(to) : (size_t)(colon - to);
    return size == 0 || (size == strlen(name) && memcmp(to, name, size) == 0);
}

static int may_ask(const struct client *client)
{
    const struct control *control = client->control;
    uint32_t max = is_local(control, client->request.to) ? ASKS_MAX : ASKS_AWAY_MAX;
    uint32_t count = 0;
    for (uint32_t i = 0; i < SN_CONTROL_CLIENTS_MAX; i++) count += control->clients[i].is_asking;
    return count < max;
}

static enum sn_err take_ask(struct client *client)
{
    if (!may_ask(client)) {
        reply(client, SN_EFULL, SN_CONTROL_TOO_MANY_ASKS, NULL);
        return SN_OK;
    }
    client->is_asking = 1;
    return defer_ask(client);
}

/* --- Reloading ---------------------------------------------------------------------------------------------- */

static void on_reloaded(void *arg, const struct sn_reload_result *result)
{
    struct control *control = arg;
    struct sn_body body;
    char line[SN_FINDING_PATH_MAX + SN_FINDING_MESSAGE_MAX];
    sn_body_init(&body);
    sn_body_map(&body, 3);
    sn_body_uint(&body, "status", (uint64_t)result->status);
    sn_body_text(&body, "text", result->text);
    sn_body_key(&body, "findings");
    sn_body_array(&body, result->findings->count);
    for (uint32_t i = 0; i < result->findings->count; i++) {
        sn_finding_format(result->findings->items[i], line, sizeof line);
        sn_body_key(&body, line); /* a text by itself */
    }
    on_view(control, control->reload_token, &body);
    sn_body_fini(&body);
}

static enum sn_err start_reload(struct client *client)
{
    struct control *control = client->control;
    SN_ASSERT(control->worker == control->agent->home); /* it is the first actor of all */
    enum sn_err err = sn_agent_reload(control->agent, on_reloaded, control);
    if (err == SN_OK) control->reload_token = token_of(client); /* `done` comes later, always */
    if (err != SN_ESTATE) return err;
    reply(client, err, "another reload is under way, or the agent is about to end", NULL);
    return SN_OK;
}

/* --- Requests ----------------------------------------------------------------------------------------------- */

static void take_request(struct client *client)
{
    struct control *control = client->control;
    client->state = CLIENT_WORKING;
    enum sn_err err = sn_control_request_parse(client->in, client->in_size, &client->request);
    if (err != SN_OK) {
        reply(client, SN_EINVAL, "malformed request", NULL);
        return;
    }
    if (strcmp(client->request.verb, "ask") == 0) {
        err = take_ask(client);
    } else if (strcmp(client->request.verb, "reload") == 0) {
        err = start_reload(client);
    } else {
        err = sn_view_make(control->agent, control->worker, client->request.verb, on_view, control,
                           token_of(client));
    }
    if (err == SN_ENOENT) {
        reply(client, err, "this agent does not know that verb; is the client newer?", NULL);
    } else if (err != SN_OK) {
        reply(client, err, sn_err_text(err), NULL);
    }
}

/* The first byte of a request has come. */
static void begin_time(struct client *client)
{
    struct control *control = client->control;
    client->since_ns = sn_worker_now(control->worker);
    if (sn_timer_is_started(&control->retry)) return;
    sn_timer_start(control->worker, &control->retry, client->since_ns + REQUEST_NS);
}

static enum sn_err read_some(struct client *client, uint8_t *out, uint32_t size)
{
    size_t got = 0;
    enum sn_err err = sn_env_read(client->control->agent->env, client->sock, out, size, &got);
    if (err != SN_OK) return err;
    if (client->got == 0) begin_time(client);
    client->got += (uint32_t)got;
    return SN_OK;
}

static enum sn_err begin_request(struct client *client)
{
    const uint8_t *p = client->prefix;
    uint32_t size = ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | p[3];
    if (size == 0 || size > SN_CONTROL_REQUEST_BYTES_MAX) return SN_ETOOBIG;
    client->in = sn_alloc_raw(size);
    if (client->in == NULL) return SN_ENOMEM;
    client->in_size = size;
    return SN_OK;
}

static enum sn_err advance_reading(struct client *client)
{
    if (client->got < PREFIX_BYTES) {
        enum sn_err err =
            read_some(client, client->prefix + client->got, PREFIX_BYTES - client->got);
        if (err != SN_OK || client->got < PREFIX_BYTES) return err;
        return begin_request(client);
    }
    uint32_t have = client->got - PREFIX_BYTES;
    enum sn_err err = read_some(client, client->in + have, client->in_size - have);
    if (err != SN_OK) return err;
    if (client->got - PREFIX_BYTES == client->in_size) take_request(client);
    return SN_OK;
}

static enum sn_err advance_writing(struct client *client)
{
    size_t sent = 0;
    enum sn_err err = sn_env_write(client->control->agent->env, client->sock,
                                   client->out.pack.data + client->sent,
                                   client->out.pack.size - client->sent, &sent);
    if (err != SN_OK) return err;
    client->sent += sent;
    if (client->sent < client->out.pack.size) return SN_OK;
    sn_body_fini(&client->out);
    sn_free(client->in, client->in_size);
    client->in = NULL;
    client->in_size = client->got = 0;
    client->state = CLIENT_READING;
    client->since_ns = sn_worker_now(client->control->worker);
    return SN_OK;
}

static void on_client(struct sn_io *io, unsigned ready)
{
    struct client *client = SN_CONTAINER_OF(io, struct client, io);
    enum sn_err err = SN_OK;
    if ((ready & SN_READY_HANGUP) != 0 && client->state == CLIENT_WORKING) {
        drop_client(client); /* nobody waits for the answer */
        return;
    }
    while (err == SN_OK && client->state != CLIENT_WORKING && client->state != CLIENT_FREE) {
        err = client->state == CLIENT_READING ? advance_reading(client) : advance_writing(client);
    }
    if (err != SN_OK && err != SN_EAGAIN) drop_client(client);
}

/* --- Connections ---------------------------------------------------------------------------------------------- */

static struct client *find_place(struct control *control)
{
    for (uint32_t i = 0; i < SN_CONTROL_CLIENTS_MAX; i++) {
        if (control->clients[i].state == CLIENT_FREE) return &control->clients[i];
    }
    return NULL;
}

/* Drops the client that has kept its place for longest, if it had its time: clients that hang, or dawdle, must not lock
 * the operator out. Returns 0 when there is none. */
static int evict_idle(struct control *control)
{
    struct client *idle = NULL;
    for (uint32_t i = 0; i < SN_CONTROL_CLIENTS_MAX; i++) {
        struct client *client = &control->clients[i];
        if (client->state != CLIENT_READING && client->state != CLIENT_WRITING) continue;
        if (idle == NULL || client->since_ns < idle->since_ns) idle = client;
    }
    if (idle == NULL || sn_worker_now(control->worker) - idle->since_ns < IDLE_NS) return 0;
    sn_logger_write(sn_system_logger(control->worker), SN_WARN, "CONTROL-FULL", "control",
                    "clients=%u hint=\"a silent one is dropped\"", SN_CONTROL_CLIENTS_MAX);
    drop_client(idle);
    return 1;
}

/* Drops those whose request is not complete in time. Returns when the next one is late; UINT64_MAX for none. */
static uint64_t drop_late(struct control *control)
{
    uint64_t now = sn_worker_now(control->worker);
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < SN_CONTROL_CLIENTS_MAX; i++) {
        struct client *client = &control->clients[i];
        if (client->state != CLIENT_READING || client->got == 0) continue;
        uint64_t late_ns = client->since_ns + REQUEST_NS;
        if (now >= late_ns) {
            drop_client(client);
        } else if (late_ns < next) {
            next = late_ns;
        }
    }
    return next;
}

static void count_denied(const struct control *control)
{
    sn_metrics_add(control->agent->metrics, sn_worker_index(control->worker),
                   control->metric_base + METRIC_DENIED, 1);
}

/* Whether the other end may ask at all. */
static int is_allowed(struct control *control, struct sn_sock sock)
{
    struct sn_env *env = control->agent->env;
    uint32_t uid = 0;
    enum sn_err err = sn_env_peer_uid(env, sock, &uid);
    if (err == SN_OK && (uid == sn_env_own_uid(env) || uid == 0)) return 1;
    count_denied(control);
    sn_logger_write(sn_system_logger(control->worker), SN_WARN, "CONTROL-DENIED", "control",
                    "uid=%u", uid);
    return 0;
}

/* One reply without a request, best effort: it is small, and nothing else was written. */
static void say_no(struct control *control, struct sn_sock sock, enum sn_err why, const char *text)
{
    struct sn_body out;
    size_t size = 0;
    sn_body_init(&out);
    make_reply(&out, why, text, NULL);
    if (out.err == SN_OK) {
        enum sn_err err =
            sn_env_write(control->agent->env, sock, out.pack.data, out.pack.size, &size);
        (void)err; /* best effort, as said */
    }
    sn_body_fini(&out);
}

static void admit(struct control *control, struct sn_sock sock)
{
    struct sn_env *env = control->agent->env;
    if (!is_allowed(control, sock)) {
        say_no(control, sock, SN_EDENIED, "this agent answers its own user only");
        sn_env_close(env, sock);
        return;
    }
    struct client *client = find_place(control);
    SN_ASSERT(client != NULL); /* on_listener made sure */
    client->sock = sock;
    client->got = client->in_size = 0;
    client->state = CLIENT_READING;
    client->since_ns = sn_worker_now(control->worker);
    sn_io_init(&client->io, SN_IO_URGENT, on_client);
    enum sn_err err = sn_io_open(&client->io, control->worker, sock);
    if (err != SN_OK) {
        client->state = CLIENT_FREE;
        sn_env_close(env, sock);
    }
}

/* Takes the next one out of the system's queue, tells it and hangs up. Its request is read only because closing with
 * something unread would lose the reply. */
static void turn_away(struct control *control)
{
    struct sn_env *env = control->agent->env;
    struct sn_sock sock;
    uint8_t request[1024];
    size_t size = 0;
    enum sn_err err = sn_env_accept(env, control->listen_sock, &sock, NULL);
    if (err == SN_EAGAIN) control->has_waiting = 0;
    if (err != SN_OK) return;
    if (is_allowed(control, sock)) {
        err = sn_env_read(env, sock, request, sizeof request, &size);
        if (err == SN_OK) {
            say_no(control, sock, SN_EFULL,
                   "all places for clients of this agent are taken; try again");
        }
    }
    sn_env_close(env, sock);
}

static void on_listener(struct sn_io *io, unsigned ready)
{
    struct control *control = SN_CONTAINER_OF(io, struct control, listener);
    uint64_t now = sn_worker_now(control->worker);
    if ((ready & SN_READY_READ) != 0) control->has_waiting = 1;
    while (control->has_waiting) {
        struct sn_sock sock;
        if (find_place(control) == NULL && !evict_idle(control)) break;
        enum sn_err err = sn_env_accept(control->agent->env, control->listen_sock, &sock, NULL);
        if (err == SN_EAGAIN) control->has_waiting = 0;
        if (err != SN_OK) break;
        control->full_since_ns = 0;
        admit(control, sock);
    }
    if (!control->has_waiting) {
        control->full_since_ns = 0;
        return;
    }
    /* Whoever comes now waits in the system's queue until a client goes, or is late. */
    if (control->full_since_ns == 0) control->full_since_ns = now;
    if (now - control->full_since_ns >= FULL_NS) turn_away(control);
    sn_timer_start(control->worker, &control->retry, now + RETRY_NS);
}

static void on_retry(struct sn_timer *timer, struct sn_worker *worker)
{
    struct control *control = SN_CONTAINER_OF(timer, struct control, retry);
    uint64_t next = drop_late(control);
    if (next != UINT64_MAX) sn_timer_start(worker, timer, next);
    if (control->full_since_ns != 0) sn_io_kick(&control->listener);
}

/* Only this agent's own actors get so far: mesh/access.c opens it to nobody else. */
static void refuse_message(struct sn_ctx *ctx, struct control *control,
                           const struct sn_event *event)
{
    count_denied(control);
    if (event->correlation == 0) return; /* nobody waits for an answer */
    enum sn_err err = sn_reply(ctx, event, "control.refused", NULL, 0);
    if (err != SN_OK) sn_log(ctx, SN_DEBUG, "CONTROL-UNANSWERED", "err=%s", sn_err_name(err));
}

static enum sn_err start(struct sn_ctx *ctx, struct control *control)
{
    control->agent = sn_agent_of(ctx);
    control->worker = sn_ctx_worker(ctx);
    control->self = sn_ctx_self(ctx);
    control->incarnation = sn_ctx_incarnation(ctx);
    control->listen_sock = control->agent->control_sock;
    control->metric_base = control->agent->control_metrics;
    for (uint32_t i = 0; i < SN_CONTROL_CLIENTS_MAX; i++) {
        control->clients[i].control = control;
        control->clients[i].index = i;
    }
    sn_timer_init(&control->retry, on_retry);
    sn_io_init(&control->listener, SN_IO_URGENT, on_listener);
    enum sn_err err = sn_io_open(&control->listener, control->worker, control->listen_sock);
    control->is_listening = err == SN_OK;
    return err;
}

static void fini(void *state)
{
    struct control *control = state;
    if (control->agent == NULL) return;
    control->full_since_ns = 0; /* nobody is let in any more */
    for (uint32_t i = 0; i < SN_CONTROL_CLIENTS_MAX; i++) drop_client(&control->clients[i]);
    sn_timer_stop(control->worker, &control->retry);
    if (control->is_listening) sn_io_close(&control->listener);
}

static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct control *control = state;
    switch (event->kind) {
    case SN_EVENT_START: return start(ctx, control);
    case SN_EVENT_JOB: ask(ctx, control, event->token); return SN_OK;
    case SN_EVENT_REPLY: take_answer(control, event); return SN_OK;
    case SN_EVENT_MESSAGE: refuse_message(ctx, control, event); return SN_OK;
    default: return SN_OK; /* nobody else has business with it */
    }
}

const struct sn_actor_kind sn_control_actor = {.size = sizeof(struct sn_actor_kind),
                                               .state_bytes = sizeof(struct control),
                                               .name = "control",
                                               .handle = handle,
                                               .fini = fini};
