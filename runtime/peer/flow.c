/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of actors: from the request to the one STREAM_DOWN that ends each.
 *
 * Guarantees: a stream that an actor has heard of ends in exactly one STREAM_DOWN, whatever fails, unless the actor
 * itself failed; a connection given to a stream that is gone is closed with a reset, so that no client hangs; streams
 * of a failed actor end even when there is no memory.
 * Requests of actors travel as tasks to the worker of the peer. Where that is the actor's own worker they are carried
 * out at once; either way those of one actor for one stream stay in order.
 * Roles of a peer (its certificate) are known to the peer's worker only. They are sent to the worker of the actor
 * ahead of each STREAM_ASKED, so sn_net_ctx_agent_matches knows them as of the last stream that the agent opened to
 * an actor of this worker, and knows none of an agent that never did.
 */
#include <string.h>

#include "base/text.h"
#include "peer/flow_int.h"

#define TIMEOUT_MS_MAX (24u * 3600u * 1000u)
#define IDLE_MS_MAX    (365ull * 24u * 3600u * 1000u) /* as good as never; in nanoseconds it fits */

static void on_accepted(void *user, struct sn_stream *stream);
static void on_readable(void *user, struct sn_stream *stream);
static void on_finished(void *user, struct sn_stream *stream);
static void on_closed(void *user, struct sn_stream *stream, enum sn_err reason);

static const struct sn_stream_ops stream_ops = {.accepted = on_accepted,
                                                .readable = on_readable,
                                                .writable = on_readable,
                                                .finished = on_finished,
                                                .closed = on_closed};

/* --- Incarnations ------------------------------------------------------------------------------------------ */

static _Atomic uint32_t *incarnation_of(struct sn_net *net, struct sn_actor_ref actor)
{
    struct sni_hub *hub = sni_net_hub(net, sn_system_actor_worker(net->system, actor));
    SN_ASSERT(actor.id > 0 && actor.id <= SN_ACTORS_MAX);
    return &hub->incarnations[actor.id - 1];
}

static int is_orphan(const struct sni_flow *flow)
{
    return atomic_load(incarnation_of(flow->hub->net, flow->owner)) != flow->incarnation;
}

/* --- Life of a flow ------------------------------------------------------------------------------------------- */

static void on_timer(struct sn_timer *timer, struct sn_worker *worker);

static void free_flow(struct sni_flow *flow)
{
    sni_splice_close(flow, 1);
    sni_delivered_close(flow);
    sn_notice_free(flow->up);
    sn_notice_free(flow->down);
    sn_buf_unref(&flow->meta);
    sn_meter_free(flow->meter);
    flow->magic = 0;
    sn_free(flow, sizeof *flow);
}

enum sn_err sni_flow_notice(const struct sni_flow *flow, uint32_t kind,
                            struct sn_notice **out_notice)
{
    enum sn_err err =
        sn_notice_new(flow->owner, flow->incarnation, NULL, NULL, NULL, 0, out_notice);
    if (err != SN_OK) return err;
    (*out_notice)->event.kind = kind;
    (*out_notice)->event.stream.id = flow->id;
    return SN_OK;
}

static enum sn_err new_flow(struct sn_peer *peer, uint64_t id, struct sn_actor_ref owner,
                            uint32_t incarnation, const char *service, struct sni_flow **out_flow)
{
    struct sni_flow *flow = sn_alloc(sizeof *flow);
    if (flow == NULL) return SN_ENOMEM;
    flow->magic = SNI_FLOW_MAGIC;
    flow->id = id;
    flow->hub = peer->hub;
    flow->peer = peer;
    flow->owner = owner;
    flow->incarnation = incarnation;
    sn_timer_init(&flow->timer, on_timer);
    sni_splice_init(flow);
    sni_delivered_init(flow);
    enum sn_err err = sn_text_copy(flow->service, sizeof flow->service, service, strlen(service));
    if (err == SN_OK) err = sni_flow_notice(flow, SN_EVENT_STREAM_DOWN, &flow->down);
    if (err != SN_OK) {
        free_flow(flow);
        return err;
    }
    *out_flow = flow;
    return SN_OK;
}

static enum sn_err link_flow(struct sni_flow *flow)
{
    struct sni_hub *hub = flow->hub;
    if (hub->flows.count >= SN_STREAMS_MAX) return SN_EFULL;
    enum sn_err err = sn_map_insert(&hub->flows, &flow->by_id, &flow->id, sizeof flow->id);
    if (err != SN_OK) return err;
    sn_list_push(&flow->peer->flows, &flow->node);
    hub->flow_count++;
    flow->is_linked = 1;
    flow->since_ns = sn_worker_now(hub->worker);
    sni_net_metric(hub, SNI_NET_STREAMS_OPENED);
    return SN_OK;
}

static void unlink_flow(struct sni_flow *flow)
{
    if (!flow->is_linked) return;
    flow->is_linked = 0;
    sn_map_remove(&flow->hub->flows, &flow->by_id);
    sn_list_remove(&flow->node);
    flow->hub->flow_count--;
}

/* Never the last holder of the mux while that calls back: its session holds it too. */
static void release_stream(struct sni_flow *flow)
{
    sn_stream_free(flow->stream);
    flow->stream = NULL;
    sni_assoc_unref(flow->assoc);
    flow->assoc = NULL;
}

void sni_flow_end(struct sni_flow *flow, enum sn_err err)
{
    struct sni_hub *hub = flow->hub;
    struct sn_notice *down = flow->down;
    struct sn_stream_info info = {0};
    SN_ASSERT(flow->magic == SNI_FLOW_MAGIC);
    SN_ASSERT(down != NULL);
    if (err != SN_OK) sni_net_metric(hub, SNI_NET_STREAMS_FAILED);
    sn_timer_stop(hub->worker, &flow->timer);
    unlink_flow(flow);
    sni_splice_close(flow, err != SN_OK);
    if (flow->stream != NULL) {
        sn_stream_info(flow->stream, &info);
        if (err != SN_OK) sn_stream_reset(flow->stream, err);
        release_stream(flow);
    }
    flow->down = NULL;
    down->event.token = flow->token;
    down->event.err = (uint32_t)err;
    down->event.sent_bytes = info.sent;
    down->event.received_bytes = info.received;
    down->told = sni_delivered_told_down;
    down->arg = hub->net;
    if (flow->is_heard) {
        sn_notice_post(hub->net->system, down);
    } else {
        sn_notice_free(down);
    }
    free_flow(flow);
}

/* Up: the end when it rested for too long, else the time at which it will have. No byte touches the timer. */
static void on_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sni_flow *flow = SN_CONTAINER_OF(timer, struct sni_flow, timer);
    uint64_t due_ns = flow->moved_ns + flow->idle_ns;
    if (!flow->is_accepted || due_ns <= sn_worker_now(worker)) {
        sni_flow_end(flow, SN_ETIMEDOUT);
        return;
    }
    sn_timer_start(worker, timer, due_ns); /* there is room: it just left */
}

/* After the acceptance, or when idle_ns was set. The flow may end in it. */
static void watch_idleness(struct sni_flow *flow)
{
    struct sn_worker *worker = flow->hub->worker;
    if (!flow->is_accepted) return;
    sn_timer_stop(worker, &flow->timer);
    if (flow->idle_ns == 0) return;
    enum sn_err err = sn_worker_reserve_timer(worker);
    if (err != SN_OK) {
        sni_flow_end(flow, err);
        return;
    }
    sn_timer_start(worker, &flow->timer, flow->moved_ns + flow->idle_ns);
}

/* --- What the stream tells ------------------------------------------------------------------------------------- */

static void on_accepted(void *user, struct sn_stream *stream)
{
    struct sni_flow *flow = user;
    (void)stream; /* the flow's */
    SN_ASSERT(flow->is_local && flow->up != NULL);
    flow->is_accepted = 1;
    flow->moved_ns = sn_worker_now(flow->hub->worker);
    struct sn_notice *up = flow->up;
    flow->up = NULL;
    up->event.token = flow->token;
    sn_notice_post(flow->hub->net->system, up);
    sni_flow_kick(flow);
    watch_idleness(flow); /* last: it may end here */
}

static void on_readable(void *user, struct sn_stream *stream)
{
    (void)stream; /* the flow's */
    sni_flow_kick(user);
}

static void on_finished(void *user, struct sn_stream *stream)
{
    struct sni_flow *flow = user;
    (void)stream; /* the flow's */
    flow->is_sent = 1;
    sni_flow_kick(flow);
}

static void on_closed(void *user, struct sn_stream *stream, enum sn_err reason)
{
    (void)stream; /* the flow's */
    sni_flow_end(user, reason == SN_OK ? SN_ERESET : reason);
}

/* --- Opening ------------------------------------------------------------------------------------------------------ */

/* Opens the stream if the bulk lane is up; the flow may end in it. */
static void try_open(struct sni_flow *flow)
{
    struct sni_session *session = flow->peer->session;
    if (flow->stream != NULL || session == NULL || session->bulk == NULL) return;
    enum sn_err err =
        sn_stream_open(session->assoc->mux, SNI_BULK_LANE, SN_QOS_BULK, 0, flow->service,
                       flow->meta.data, flow->meta.size, &flow->stream);
    if (err == SN_EUNREACHABLE) return; /* the lane is about to go */
    if (err != SN_OK) {
        sni_flow_end(flow, err);
        return;
    }
    flow->assoc = sni_assoc_ref(session->assoc);
    sn_stream_set_user(flow->stream, &stream_ops, flow);
    sn_buf_unref(&flow->meta);
    sni_flow_kick(flow);
}

/* On the peer's worker. */
static void begin(struct sni_flow *flow)
{
    if (is_orphan(flow)) {
        free_flow(flow);
        return;
    }
    enum sn_err err = link_flow(flow);
    if (err != SN_OK) {
        sni_flow_end(flow, err);
        return;
    }
    sn_timer_start(flow->hub->worker, &flow->timer, flow->deadline_ns);
    sni_peer_urge(flow->peer);
    try_open(flow);
}

static void begin_task(struct sn_task *task, struct sn_worker *worker)
{
    (void)worker; /* the peer's */
    begin(SN_CONTAINER_OF(task, struct sni_flow, open_task));
}

static enum sn_err check_service(const char *service, uint32_t meta_size)
{
    size_t size = strlen(service);
    if (size == 0 || strcmp(service, SNI_LINK_SERVICE) == 0) return SN_EINVAL;
    if (size > SN_SERVICE_BYTES_MAX || meta_size > SN_STREAM_META_BYTES_MAX) return SN_ETOOBIG;
    return SN_OK;
}

/* Ids made here are unique among all workers: the second byte tells which counter made them. */
static uint64_t next_id(struct sni_hub *hub, const struct sn_peer *peer)
{
    hub->flow_counter++;
    return sni_id(peer->hub->index, (uint64_t)hub->index << 48 | hub->flow_counter);
}

enum sn_err sn_net_ctx_stream_open(struct sn_ctx *ctx, const char *agent, const char *service,
                                   const void *meta, uint32_t meta_size, uint64_t timeout_ms,
                                   uint64_t token, struct sn_stream_ref *out_stream)
{
    struct sn_net *net = sn_net_of(sn_ctx_system(ctx));
    struct sni_hub *hub = sni_net_hub(net, sn_ctx_worker(ctx));
    struct sni_flow *flow = NULL;
    enum sn_err err = check_service(service, meta_size);
    if (err != SN_OK) return err;
    if (atomic_load(&net->is_draining) == 2) return SN_ECANCELLED;
    struct sn_peer *peer = sni_hub_find(hub, agent);
    if (peer == NULL) return SN_ENOENT;
    err = new_flow(peer, next_id(hub, peer), sn_ctx_self(ctx), sn_ctx_incarnation(ctx), service,
                   &flow);
    if (err != SN_OK) return err;
    SN_DEBUG_ASSERT(!is_orphan(flow)); /* sn_net_actor_failed is told of every failure */
    err = sni_flow_notice(flow, SN_EVENT_STREAM_UP, &flow->up);
    if (err == SN_OK && meta_size > 0) err = sn_buf_copy(meta, meta_size, &flow->meta);
    if (err != SN_OK) {
        free_flow(flow);
        return err;
    }
    if (timeout_ms > TIMEOUT_MS_MAX) timeout_ms = TIMEOUT_MS_MAX;
    flow->is_local = 1;
    flow->is_heard = 1;
    flow->token = token;
    flow->deadline_ns = sn_worker_now(hub->worker) + timeout_ms * SN_MS;
    *out_stream = (struct sn_stream_ref){flow->id};
    if (peer->worker == hub->worker) {
        begin(flow);
    } else {
        flow->open_task.run = begin_task;
        sn_worker_post(peer->worker, &flow->open_task);
    }
    return SN_OK;
}

void sni_flows_session_up(struct sn_peer *peer)
{
    SN_LIST_EACH_SAFE (node, &peer->flows) {
        try_open(SN_CONTAINER_OF(node, struct sni_flow, node));
    }
}

void sni_flows_give_up(struct sn_peer *peer)
{
    sni_orphans_close(peer, SN_ECANCELLED);
    SN_LIST_EACH_SAFE (node, &peer->flows) {
        struct sni_flow *flow = SN_CONTAINER_OF(node, struct sni_flow, node);
        if (flow->stream == NULL) sni_flow_end(flow, SN_ECANCELLED);
    }
}

/* --- Requests of actors ----------------------------------------------------------------------- */

enum request_kind { REQUEST_ACCEPT, REQUEST_SPLICE, REQUEST_TUNE, REQUEST_RESET, REQUEST_FORGET };

struct request {
    struct sn_task task;
    struct sni_hub *hub; /* the flow's */
    enum request_kind kind;
    uint64_t id;
    struct sn_actor_ref owner;
    uint32_t incarnation;
    uint64_t token;
    struct sn_sock sock;    /* SPLICE */
    uint64_t idle_ns;       /* TUNE */
    struct sn_meter *meter; /* TUNE: held */
    enum sn_err err;
};

struct sni_flow *sni_flow_find(struct sni_hub *hub, uint64_t id, struct sn_actor_ref owner,
                               uint32_t incarnation)
{
    struct sn_map_entry *entry = sn_map_find(&hub->flows, &id, sizeof id);
    if (entry == NULL) return NULL;
    struct sni_flow *flow = SN_CONTAINER_OF(entry, struct sni_flow, by_id);
    return flow->owner.id == owner.id && flow->incarnation == incarnation ? flow : NULL;
}

static void accept_flow(struct sni_flow *flow, uint64_t token)
{
    if (flow->is_local || flow->is_accepted) return;
    flow->is_accepted = 1;
    flow->token = token;
    flow->moved_ns = sn_worker_now(flow->hub->worker);
    sn_stream_accept(flow->stream);
    sni_flow_kick(flow);
    watch_idleness(flow); /* last: it may end here */
}

static void tune_flow(struct sni_flow *flow, uint64_t idle_ns, struct sn_meter *meter)
{
    sn_meter_free(flow->meter);
    flow->meter = meter;
    flow->idle_ns = idle_ns;
    watch_idleness(flow); /* last: it may end here */
}

/* On the flow's worker. */
static void carry_out(const struct request *request)
{
    struct sni_flow *flow =
        sni_flow_find(request->hub, request->id, request->owner, request->incarnation);
    if (flow == NULL) { /* somebody else's, or gone: its STREAM_DOWN is under way */
        if (request->kind == REQUEST_SPLICE) {
            sn_env_close_reset(request->hub->net->config.env, request->sock);
        }
        sn_meter_free(request->meter);
        return;
    }
    switch (request->kind) {
    case REQUEST_ACCEPT: accept_flow(flow, request->token); break;
    case REQUEST_SPLICE: sni_splice_attach(flow, request->sock); break;
    case REQUEST_TUNE: tune_flow(flow, request->idle_ns, request->meter); break;
    case REQUEST_RESET: sni_flow_end(flow, request->err); break;
    case REQUEST_FORGET:
        flow->is_heard = 0;
        sni_flow_end(flow, request->err);
        break;
    }
}

static void carry_out_task(struct sn_task *task, struct sn_worker *worker)
{
    struct request *request = SN_CONTAINER_OF(task, struct request, task);
    (void)worker; /* the flow's */
    carry_out(request);
    sn_free(request, sizeof *request);
}

/* What is needed to send a request: *out_sent stays NULL when none is, because the flow lives on `from`.
 * Errors: EINVAL (no such stream can be), ENOMEM. */
static enum sn_err prepare(const struct sni_hub *from, uint64_t id, struct request **out_sent)
{
    uint32_t worker = sni_id_worker(id);
    if (id == 0 || worker >= from->net->hub_count) return SN_EINVAL;
    if (worker == from->index) return SN_OK;
    *out_sent = sn_alloc(sizeof **out_sent);
    return *out_sent == NULL ? SN_ENOMEM : SN_OK;
}

/* `sent` is from prepare, taken. */
static void submit(struct sni_hub *from, const struct request *request, struct request *sent)
{
    struct sni_hub *hub = &from->net->hubs[sni_id_worker(request->id)];
    struct request own = *request;
    own.hub = hub;
    if (sent == NULL) {
        carry_out(&own);
        return;
    }
    *sent = own;
    sent->task.run = carry_out_task;
    sn_worker_post(hub->worker, &sent->task);
}

static struct sni_hub *hub_of(struct sn_ctx *ctx)
{
    return sni_net_hub(sn_net_of(sn_ctx_system(ctx)), sn_ctx_worker(ctx));
}

static struct request request_of(struct sn_ctx *ctx, enum request_kind kind, uint64_t id)
{
    return (struct request){.kind = kind,
                            .id = id,
                            .owner = sn_ctx_self(ctx),
                            .incarnation = sn_ctx_incarnation(ctx),
                            .sock = SN_SOCK_NONE};
}

enum sn_err sn_net_ctx_stream_accept(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                     uint64_t token)
{
    struct sni_hub *hub = hub_of(ctx);
    struct request request = request_of(ctx, REQUEST_ACCEPT, stream.id);
    struct request *sent = NULL;
    enum sn_err err = prepare(hub, stream.id, &sent);
    if (err != SN_OK) return err;
    request.token = token;
    submit(hub, &request, sent);
    return SN_OK;
}

enum sn_err sn_net_ctx_stream_splice(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                     struct sn_conn_ref conn)
{
    struct sni_hub *hub = hub_of(ctx);
    struct request request = request_of(ctx, REQUEST_SPLICE, stream.id);
    struct request *sent = NULL;
    if (sni_delivered_has(hub, stream.id, request.owner)) return SN_ESTATE;
    enum sn_err err = prepare(hub, stream.id, &sent);
    if (err != SN_OK) return err;
    err = sni_conn_take(hub, conn, request.owner, &request.sock);
    if (err != SN_OK) {
        sn_free(sent, sizeof *sent);
        return err;
    }
    submit(hub, &request, sent);
    return SN_OK;
}

enum sn_err sn_net_ctx_stream_tune(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                   const struct sn_stream_options *options)
{
    struct sni_hub *hub = hub_of(ctx);
    struct request request = request_of(ctx, REQUEST_TUNE, stream.id);
    struct request *sent = NULL;
    if (options->size < sizeof *options) return SN_EINVAL; /* there was never a smaller one */
    uint64_t idle_ms = options->idle_ms < IDLE_MS_MAX ? options->idle_ms : IDLE_MS_MAX;
    enum sn_err err = prepare(hub, stream.id, &sent);
    if (err != SN_OK) return err;
    request.idle_ns = idle_ms * SN_MS;
    request.meter = sn_meter_ref(options->meter);
    submit(hub, &request, sent);
    return SN_OK;
}

void sn_net_ctx_stream_reset(struct sn_ctx *ctx, struct sn_stream_ref stream, uint32_t err)
{
    struct sni_hub *hub = hub_of(ctx);
    struct request request = request_of(ctx, REQUEST_RESET, stream.id);
    struct request *sent = NULL;
    request.err = err == SN_OK || err >= SN_ERR_COUNT ? SN_ERESET : (enum sn_err)err;
    enum sn_err failure = prepare(hub, stream.id, &sent);
    if (failure == SN_ENOMEM) {
        sn_logger_write(sni_hub_logger(hub), SN_ERROR, "STREAM-RESET-LOST", "net",
                        "actor=%s err=no-memory",
                        sn_system_actor_name(hub->net->system, request.owner));
    }
    if (failure == SN_OK) submit(hub, &request, sent);
}

/* --- Streams opened by the peer --------------------------------------------------------------- */

/* What a worker knows of the roles of an agent. */
struct origin {
    struct sn_task task; /* brings it to the worker */
    struct sn_map_entry by_name;
    struct sni_hub *hub;
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];
    uint32_t role_count;
    char roles[][SN_LABEL_BYTES_MAX + 1];
};

static void free_origin(struct origin *origin)
{
    sn_free(origin, sizeof *origin + origin->role_count * sizeof origin->roles[0]);
}

static struct origin *find_origin(const struct sni_hub *hub, const char *agent)
{
    struct sn_map_entry *entry = sn_map_find(&hub->origins, agent, (uint32_t)strlen(agent));
    return entry == NULL ? NULL : SN_CONTAINER_OF(entry, struct origin, by_name);
}

static void learn_origin(struct sn_task *task, struct sn_worker *worker)
{
    struct origin *origin = SN_CONTAINER_OF(task, struct origin, task);
    struct sni_hub *hub = origin->hub;
    struct origin *old = find_origin(hub, origin->agent);
    (void)worker; /* the hub's */
    if (old != NULL) {
        sn_map_remove(&hub->origins, &old->by_name);
        free_origin(old);
    }
    if (origin->role_count == 0) { /* as good as unknown */
        free_origin(origin);
        return;
    }
    memcpy(hub->origins.seed, hub->names.seed, sizeof hub->origins.seed);
    enum sn_err err = sn_map_insert(&hub->origins, &origin->by_name, origin->agent,
                                    (uint32_t)strlen(origin->agent));
    if (err != SN_OK) free_origin(origin); /* then it has none: denies more, never less */
}

/* Sends the peer's roles ahead of what the actor is told. */
static enum sn_err tell_origin(struct sn_peer *peer, struct sn_worker *worker)
{
    uint32_t count = peer->cert.role_count;
    struct origin *origin = sn_alloc(sizeof *origin + count * sizeof origin->roles[0]);
    if (origin == NULL) return SN_ENOMEM;
    origin->hub = sni_net_hub(peer->net, worker);
    origin->role_count = count;
    memcpy(origin->agent, peer->name, sizeof origin->agent);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(origin->roles[i], peer->cert.roles[i], sizeof origin->roles[i]);
    }
    origin->task.run = learn_origin;
    sn_worker_post(worker, &origin->task);
    return SN_OK;
}

/* The owner is down, or was restarted, and has not heard of the stream. On the owner's worker. */
static void asked_dropped(struct sn_notice *notice, void *arg)
{
    struct sn_net *net = arg;
    struct sni_hub *hub = sni_net_hub(net, sn_system_actor_worker(net->system, notice->to));
    struct request *sent = NULL;
    struct request request = {.kind = REQUEST_FORGET,
                              .id = notice->event.stream.id,
                              .owner = notice->to,
                              .incarnation = notice->incarnation,
                              .sock = SN_SOCK_NONE,
                              .err = SN_ENOENT};
    /* Without memory it stays until the opener's own timeout resets it. */
    if (prepare(hub, request.id, &sent) == SN_OK) submit(hub, &request, sent);
}

static enum sn_err ask(struct sn_peer *peer, struct sn_stream *stream, struct sn_actor_ref owner,
                       const char *service, const uint8_t *meta, uint32_t meta_size)
{
    struct sn_net *net = peer->net;
    struct sni_flow *flow = NULL;
    struct sn_notice *asked = NULL;
    uint32_t incarnation = atomic_load(incarnation_of(net, owner));
    enum sn_err err = new_flow(peer, next_id(peer->hub, peer), owner, incarnation, service, &flow);
    if (err != SN_OK) return err;
    err = sn_notice_new(owner, incarnation, peer->name, NULL, meta, meta_size, &asked);
    if (err == SN_OK) err = tell_origin(peer, sn_system_actor_worker(net->system, owner));
    if (err == SN_OK) err = link_flow(flow);
    if (err != SN_OK) {
        sn_notice_free(asked);
        free_flow(flow);
        return err;
    }
    flow->stream = stream;
    flow->assoc = sni_assoc_ref(peer->session->assoc);
    flow->is_heard = 1;
    sn_stream_set_user(stream, &stream_ops, flow);
    asked->event.kind = SN_EVENT_STREAM_ASKED;
    asked->event.stream.id = flow->id;
    asked->dropped = asked_dropped;
    asked->arg = net;
    sn_notice_post(net->system, asked);
    return SN_OK;
}

void sni_flow_opened(struct sn_peer *peer, struct sn_stream *stream, const char *service,
                     const uint8_t *meta, uint32_t meta_size)
{
    struct sn_actor_ref owner = sn_system_find_service(peer->net->system, service);
    enum sn_err err = SN_ENOENT;
    if (atomic_load(&peer->net->is_draining) != 0) {
        err = SN_ECANCELLED; /* nothing new comes in any more */
    } else if (owner.id != 0) {
        err = ask(peer, stream, owner, service, meta, meta_size);
    }
    if (err == SN_OK) return;
    sn_stream_reset(stream, err);
    sn_stream_free(stream);
}

int sn_net_ctx_agent_matches(struct sn_ctx *ctx, const char *agent, const char *pattern)
{
    struct sni_hub *hub = hub_of(ctx);
    struct sn_origin who = {.agent = agent};
    if (agent[0] == '\0') who.agent = hub->net->config.self.agent;
    const struct origin *origin = find_origin(hub, agent);
    if (origin != NULL) {
        who.roles = origin->roles;
        who.role_count = origin->role_count;
    }
    return sn_origin_matches(&who, pattern);
}

/* --- Failed actors ---------------------------------------------------------------------------- */

static void sweep(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_hub *hub = SN_CONTAINER_OF(task, struct sni_hub, sweep_task);
    (void)worker;                       /* the hub's */
    atomic_store(&hub->is_sweeping, 0); /* first: who fails from now on posts again */
    SN_LIST_EACH (at, &hub->peers) {
        struct sn_peer *peer = SN_CONTAINER_OF(at, struct sn_peer, node);
        SN_LIST_EACH_SAFE (node, &peer->flows) {
            struct sni_flow *flow = SN_CONTAINER_OF(node, struct sni_flow, node);
            if (is_orphan(flow)) sni_flow_end(flow, SN_ECANCELLED);
        }
    }
}

/* Allocates nothing: a flow knows the incarnation it belongs to, and every worker looks for those that are past. */
void sni_flows_actor_failed(struct sni_hub *hub, struct sn_actor_ref actor)
{
    struct sn_net *net = hub->net;
    atomic_fetch_add(incarnation_of(net, actor), 1);
    sni_delivered_actor_failed(hub, actor);
    for (uint32_t i = 0; i < net->hub_count; i++) {
        struct sni_hub *each = &net->hubs[i];
        if (atomic_exchange(&each->is_sweeping, 1)) continue;
        each->sweep_task.run = sweep;
        sn_worker_post(each->worker, &each->sweep_task);
    }
}

/* --- Views, end ------------------------------------------------------------------------------- */

static void describe(const struct sni_flow *flow, struct sn_flow_info *info)
{
    struct sn_stream_info stream = {0};
    if (flow->stream != NULL) sn_stream_info(flow->stream, &stream);
    *info = (struct sn_flow_info){
        .id = flow->id,
        .agent = flow->peer->name,
        .service = flow->service,
        .owner = sn_system_actor_name(flow->hub->net->system, flow->owner),
        .is_local = flow->is_local,
        .is_accepted = flow->is_accepted,
        .is_orphan = stream.is_orphan,
        .sent_bytes = stream.sent,
        .received_bytes = stream.received,
        .age_ms = (sn_worker_now(flow->hub->worker) - flow->since_ns) / SN_MS,
        .retained_bytes = stream.retained,
    };
}

void sni_flows_visit(struct sni_hub *hub, void (*visit)(void *arg, const struct sn_flow_info *info),
                     void *arg)
{
    struct sn_map_entry *entry = sn_map_next(&hub->flows, NULL);
    for (; entry != NULL; entry = sn_map_next(&hub->flows, entry)) {
        struct sn_flow_info info;
        describe(SN_CONTAINER_OF(entry, struct sni_flow, by_id), &info);
        visit(arg, &info);
    }
}

void sni_flows_free(struct sni_hub *hub)
{
    struct sn_map_entry *entry;
    while ((entry = sn_map_next(&hub->flows, NULL)) != NULL) {
        struct sni_flow *flow = SN_CONTAINER_OF(entry, struct sni_flow, by_id);
        sn_timer_stop(hub->worker, &flow->timer);
        unlink_flow(flow);
        if (flow->stream != NULL) release_stream(flow);
        free_flow(flow);
    }
    while ((entry = sn_map_next(&hub->origins, NULL)) != NULL) {
        sn_map_remove(&hub->origins, entry);
        free_origin(SN_CONTAINER_OF(entry, struct origin, by_name));
    }
    sn_map_fini(&hub->origins);
    sni_delivered_free(hub);
}
