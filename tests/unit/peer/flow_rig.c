/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WAIT_ROUNDS 25000 /* of 200 us: 5 s */

static const struct sn_metric_desc metric_table[] = {
    {"net.m0", SN_METRIC_COUNTER, ""},  {"net.m1", SN_METRIC_COUNTER, ""},
    {"net.m2", SN_METRIC_COUNTER, ""},  {"net.m3", SN_METRIC_COUNTER, ""},
    {"net.m4", SN_METRIC_COUNTER, ""},  {"net.m5", SN_METRIC_COUNTER, ""},
    {"net.m6", SN_METRIC_COUNTER, ""},  {"net.m7", SN_METRIC_COUNTER, ""},
    {"net.m8", SN_METRIC_COUNTER, ""},  {"net.m9", SN_METRIC_COUNTER, ""},
    {"net.m10", SN_METRIC_COUNTER, ""}, {NULL, 0, NULL}};

void rig_nap(void)
{
    usleep(200);
}

/* --- What net.c would do ----------------------------------------------------------------------------------- */

static struct rig *the_rig; /* the functions below get no argument that leads to it */

struct sn_net *sn_net_of(struct sn_system *system)
{
    (void)system;
    return &the_rig->net;
}

struct sni_hub *sni_net_hub(struct sn_net *net, const struct sn_worker *worker)
{
    return &net->hubs[sn_worker_index(worker)];
}

void sni_net_metric(struct sni_hub *hub, enum sni_net_metric metric)
{
    sn_metrics_add(hub->net->metrics, hub->index, hub->net->metric_base + (uint32_t)metric, 1);
}

struct sn_logger *sni_hub_logger(struct sni_hub *hub)
{
    return sn_system_logger(hub->worker);
}

struct sn_peer *sni_hub_find(struct sni_hub *hub, const char *agent)
{
    struct sn_map_entry *entry = sn_map_find(&hub->names, agent, (uint32_t)strlen(agent));
    return entry == NULL ? NULL : SN_CONTAINER_OF(entry, struct sni_peer_entry, by_name)->peer;
}

static void actor_failed(void *arg, struct sn_actor_ref actor)
{
    struct rig *rig = arg;
    struct sni_hub *hub = sni_net_hub(&rig->net, sn_system_actor_worker(rig->system, actor));
    sni_conns_actor_failed(hub, actor);
    sni_flows_actor_failed(hub, actor);
}

void sni_peer_urge(struct sn_peer *peer)
{
    (void)peer; /* the rig's sessions are made by hand */
}

/* --- Actors --------------------------------------------------------------------------------------------------- */

struct command {
    enum sn_err (*fn)(struct sn_ctx *ctx, void *arg);
    void *arg;
    enum sn_err err;
    uint8_t must_fail;
    _Atomic uint8_t is_done;
};

/* What a tunnel does: a connection here becomes a stream, a stream there becomes a connection. The stream is the
 * token of the dial. */
static void tunnel(struct sn_ctx *ctx, const struct sn_event *event)
{
    struct sn_stream_ref stream;
    char address[32];
    enum sn_err err = SN_OK;
    switch (event->kind) {
    case SN_EVENT_CONN_ACCEPTED:
        err = sn_net_ctx_stream_open(ctx, NEAR_PEER, SERVICE, NULL, 0, 5000, 1, &stream);
        if (err == SN_OK) err = sn_net_ctx_stream_splice(ctx, stream, event->conn);
        break;
    case SN_EVENT_STREAM_ASKED:
        (void)snprintf(address, sizeof address, "127.0.0.1:%u", atomic_load(&the_rig->tunnel_port));
        err = sn_net_ctx_dial(ctx, address, 5000, event->stream.id);
        break;
    case SN_EVENT_CONN_DIALED:
        stream.id = event->token;
        err = sn_net_ctx_stream_accept(ctx, stream, 2);
        if (err == SN_OK) err = sn_net_ctx_stream_splice(ctx, stream, event->conn);
        break;
    default: break;
    }
    if (err != SN_OK) abort(); /* cmocka's checks work on the test's thread only */
}

static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct rig *rig = the_rig;
    (void)state;
    if (event->kind == SN_EVENT_JOB) {
        struct command *command = event->pointer;
        int must_fail = command->must_fail;
        if (!must_fail) command->err = command->fn(ctx, command->arg);
        atomic_store(&command->is_done, 1);
        return must_fail ? SN_EIO : SN_OK;
    }
    if (atomic_load(&rig->tunnel_port) != 0) tunnel(ctx, event);
    unsigned actor = sn_ctx_self(ctx).id == rig->actors[NEAR].id ? NEAR : FAR;
    if (rig->on_event != NULL && rig->on_event(rig, ctx, actor, event)) return SN_OK;
    struct rig_log *log = &rig->logs[actor];
    uint32_t at = atomic_load(&log->written);
    if (at == RIG_EVENTS_MAX) return SN_OK;
    struct rig_event *copy = &log->events[at];
    copy->event = *event;
    (void)snprintf(copy->agent, sizeof copy->agent, "%s", event->agent);
    (void)snprintf(copy->text, sizeof copy->text, "%s", event->text);
    if (event->payload_size > 0 && event->payload_size <= RIG_PAYLOAD_MAX) {
        memcpy(copy->payload, event->payload, event->payload_size);
    }
    atomic_store(&log->written, at + 1);
    return SN_OK;
}

static const struct sn_actor_kind kinds[2] = {
    {.size = sizeof kinds[0], .name = "near", .handle = handle},
    {.size = sizeof kinds[0], .name = "far", .handle = handle, .service = SERVICE}};

static const struct sn_host host = {.size = sizeof host};

static void post_command(struct rig *rig, unsigned actor, struct command *command)
{
    struct sn_notice *notice = NULL;
    struct sni_hub *hub = &rig->net.hubs[actor];
    uint32_t incarnation = atomic_load(&hub->incarnations[rig->actors[actor].id - 1]);
    assert_ok(sn_notice_new(rig->actors[actor], incarnation, NULL, NULL, NULL, 0, &notice));
    notice->event.kind = SN_EVENT_JOB;
    notice->event.pointer = command;
    sn_notice_post(rig->system, notice);
    for (int i = 0; i < WAIT_ROUNDS && !atomic_load(&command->is_done); i++) rig_nap();
    assert_int_equal(atomic_load(&command->is_done), 1);
}

enum sn_err rig_call(struct rig *rig, unsigned actor, enum sn_err (*fn)(struct sn_ctx *, void *),
                     void *arg)
{
    struct command command = {.fn = fn, .arg = arg};
    post_command(rig, actor, &command);
    return command.err;
}

static void wait_until_down(struct rig *rig, unsigned actor, uint32_t before)
{
    _Atomic uint32_t *incarnation = &rig->net.hubs[actor].incarnations[rig->actors[actor].id - 1];
    for (int i = 0; i < WAIT_ROUNDS && atomic_load(incarnation) == before; i++) rig_nap();
    assert_int_equal(atomic_load(incarnation), before + 1);
}

void rig_break(struct rig *rig, unsigned actor)
{
    struct command command = {.must_fail = 1};
    uint32_t before = atomic_load(&rig->net.hubs[actor].incarnations[rig->actors[actor].id - 1]);
    post_command(rig, actor, &command);
    wait_until_down(rig, actor, before);
}

void rig_fail(struct rig *rig, unsigned actor)
{
    rig_break(rig, actor);
    (void)rig_wait(rig, actor, SN_EVENT_START);
}

static struct rig_event *find_event(struct rig *rig, unsigned actor, enum sn_event_kind kind)
{
    struct rig_log *log = &rig->logs[actor];
    uint32_t written = atomic_load(&log->written);
    for (uint32_t i = 0; i < written; i++) {
        if (log->is_taken[i] || log->events[i].event.kind != (uint32_t)kind) continue;
        log->is_taken[i] = 1;
        return &log->events[i];
    }
    return NULL;
}

struct rig_event rig_wait(struct rig *rig, unsigned actor, enum sn_event_kind kind)
{
    struct rig_event *event = find_event(rig, actor, kind);
    for (int i = 0; i < WAIT_ROUNDS && event == NULL; i++) {
        rig_nap();
        event = find_event(rig, actor, kind);
    }
    if (event == NULL) fail_msg("actor %u heard no event of kind %d", actor, (int)kind);
    return *event;
}

uint32_t rig_count(struct rig *rig, unsigned actor, enum sn_event_kind kind)
{
    struct rig_log *log = &rig->logs[actor];
    uint32_t count = 0;
    for (uint32_t i = 0; i < atomic_load(&log->written); i++) {
        count += !log->is_taken[i] && log->events[i].event.kind == (uint32_t)kind;
    }
    return count;
}

/* --- Workers ------------------------------------------------------------------------------------------------------ */

struct errand {
    struct sn_task task;
    struct rig *rig;
    void (*fn)(struct rig *rig, void *arg);
    void *arg;
    _Atomic uint8_t is_done;
};

static void run_errand(struct sn_task *task, struct sn_worker *worker)
{
    struct errand *errand = SN_CONTAINER_OF(task, struct errand, task);
    (void)worker;
    errand->fn(errand->rig, errand->arg);
    atomic_store(&errand->is_done, 1);
}

void rig_on_worker(struct rig *rig, uint32_t worker, void (*fn)(struct rig *rig, void *arg),
                   void *arg)
{
    struct errand errand = {.task.run = run_errand, .rig = rig, .fn = fn, .arg = arg};
    sn_worker_post(sn_system_worker(rig->system, worker), &errand.task);
    for (int i = 0; i < WAIT_ROUNDS && !atomic_load(&errand.is_done); i++) rig_nap();
    assert_int_equal(atomic_load(&errand.is_done), 1);
}

static void count_flows(struct rig *rig, void *arg)
{
    *(uint32_t *)arg = rig->net.hubs[0].flows.count;
}

uint32_t rig_flows(struct rig *rig)
{
    uint32_t count = 0;
    rig_on_worker(rig, 0, count_flows, &count);
    return count;
}

static void count_conns(struct rig *rig, void *arg)
{
    struct sni_hub *hub = &rig->net.hubs[*(uint32_t *)arg];
    *(uint32_t *)arg = hub->conn_ids.count;
}

static uint32_t conns(struct rig *rig)
{
    uint32_t near = 0;
    uint32_t far = 1;
    rig_on_worker(rig, 0, count_conns, &near);
    rig_on_worker(rig, 1, count_conns, &far);
    return near + far;
}

void rig_quiet(struct rig *rig)
{
    for (int i = 0; i < WAIT_ROUNDS && rig_flows(rig) + conns(rig) > 0; i++) rig_nap();
    assert_int_equal(rig_flows(rig), 0);
    assert_int_equal(conns(rig), 0);
}

/* --- The two muxes ---------------------------------------------------------------------------- */

static void opened_at_near(void *arg, struct sn_stream *stream, const char *service,
                           const uint8_t *meta, uint32_t meta_size)
{
    struct rig *rig = arg;
    sni_flow_opened(&rig->peers[0], stream, service, meta, meta_size);
}

static void opened_at_far(void *arg, struct sn_stream *stream, const char *service,
                          const uint8_t *meta, uint32_t meta_size)
{
    struct rig *rig = arg;
    sn_alloc_fail_nth(rig->fail_asked_nth);
    sni_flow_opened(&rig->peers[1], stream, service, meta, meta_size);
    sn_alloc_fail_nth(0);
}

static const struct sn_mux_ops near_ops = {opened_at_near};
static const struct sn_mux_ops far_ops = {opened_at_far};

static void on_output(void *arg, unsigned lane)
{
    struct rig *rig = arg;
    (void)lane; /* the bulk lane is the only one */
    sn_io_kick(&rig->pump);
}

static void on_pump_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    (void)worker;
    sn_io_kick(&SN_CONTAINER_OF(timer, struct rig, pump_timer)->pump);
}

static void pump(struct sn_io *io, unsigned ready)
{
    struct rig *rig = SN_CONTAINER_OF(io, struct rig, pump);
    struct sn_worker *worker = rig->net.hubs[0].worker;
    uint64_t now = sn_worker_refresh_now(worker);
    uint64_t next = UINT64_MAX;
    int moved = 0;
    (void)ready;
    if (rig->session[0].bulk == NULL || atomic_load(&rig->is_paused)) return;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned n = 0; n < 4 && joint_send(&rig->joint, i, SNI_BULK_LANE); n++) moved = 1;
        while (joint_deliver(&rig->joint, i, SNI_BULK_LANE, UINT32_MAX, UINT32_MAX)) moved = 1;
    }
    for (unsigned i = 0; i < 2; i++) {
        uint64_t at = sn_mux_tick(rig->joint.mux[i], now);
        if (at < next) next = at;
    }
    if (moved) {
        sn_io_kick(io);
    } else if (next != UINT64_MAX) {
        sn_timer_start(worker, &rig->pump_timer, next);
    }
}

static void lane_up(struct rig *rig, void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 2; i++) {
        rig->session[i].assoc = &rig->assoc[i];
        rig->session[i].bulk = (struct sn_channel *)(void *)rig; /* there is one, never touched */
        rig->peers[i].session = &rig->session[i];
    }
    joint_up(&rig->joint, SNI_BULK_LANE);
    sni_flows_session_up(&rig->peers[0]);
    sni_flows_session_up(&rig->peers[1]);
}

static void lane_down(struct rig *rig, void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 2; i++) {
        rig->peers[i].session = NULL;
        rig->session[i].bulk = NULL;
    }
    joint_down(&rig->joint, SNI_BULK_LANE, 0, SN_ERESET);
}

static void lane_cut(struct rig *rig, void *arg)
{
    (void)arg;
    joint_down(&rig->joint, SNI_BULK_LANE, 1, SN_ERESET);
    joint_up(&rig->joint, SNI_BULK_LANE);
    for (unsigned i = 0; i < 2; i++) (void)sn_mux_resume(rig->joint.mux[i]); /* how many: any */
    sn_io_kick(&rig->pump);
}

static void kick_pump(struct rig *rig, void *arg)
{
    (void)arg;
    sn_io_kick(&rig->pump);
}

void rig_pause(struct rig *rig, int is_paused)
{
    atomic_store(&rig->is_paused, (uint8_t)is_paused);
    rig_on_worker(rig, 0, kick_pump, NULL); /* it has stopped, or goes on */
}

void rig_lane_up(struct rig *rig)
{
    rig_on_worker(rig, 0, lane_up, NULL);
}

void rig_lane_down(struct rig *rig)
{
    rig_on_worker(rig, 0, lane_down, NULL);
}

void rig_lane_cut(struct rig *rig)
{
    rig_on_worker(rig, 0, lane_cut, NULL);
}

/* --- Fixture ---------------------------------------------------------------------------------- */

static void init_hub(struct rig *rig, uint32_t index)
{
    struct sni_hub *hub = &rig->net.hubs[index];
    uint8_t seed[16];
    sn_env_random(rig->env, seed, sizeof seed);
    hub->net = &rig->net;
    hub->index = index;
    hub->worker = sn_system_worker(rig->system, index);
    sn_map_init(&hub->names, seed);
    sn_map_init(&hub->flows, seed);
    sn_list_init(&hub->peers);
    sn_list_init(&hub->sessions);
    sn_list_init(&hub->conns);
    sn_list_init(&hub->listeners);
}

static void init_peer(struct rig *rig, unsigned index, const char *name)
{
    struct sn_peer *peer = &rig->peers[index];
    struct sni_hub *hub = &rig->net.hubs[0];
    peer->magic = SNI_PEER_MAGIC;
    (void)snprintf(peer->name, sizeof peer->name, "%s", name);
    peer->net = &rig->net;
    peer->hub = hub;
    peer->worker = hub->worker;
    sn_list_init(&peer->flows);
    sn_list_push(&hub->peers, &peer->node);
    rig->assoc[index].mux = rig->joint.mux[index];
    rig->assoc[index].refs = 1; /* the rig's own, never given back: the joint frees the mux */
    for (unsigned i = 0; i < 2; i++) {
        struct sni_peer_entry *entry = &rig->entries[index][i];
        entry->peer = peer;
        assert_ok(sn_map_insert(&rig->net.hubs[i].names, &entry->by_name, peer->name,
                                (uint32_t)strlen(peer->name)));
    }
}

static void init_muxes(struct rig *rig)
{
    struct sn_mux_config config = {.window_bytes = SN_STREAM_WINDOW_BYTES,
                                   .streams_max = SN_STREAMS_MAX};
    joint_init(&rig->joint, &config, &near_ops, &far_ops, rig);
    sn_mux_set_output_hook(rig->joint.mux[0], on_output, rig);
    sn_mux_set_output_hook(rig->joint.mux[1], on_output, rig);
    sn_io_init(&rig->pump, SN_IO_URGENT, pump);
    assert_ok(sn_io_open(&rig->pump, rig->net.hubs[0].worker, SN_SOCK_NONE));
    sn_timer_init(&rig->pump_timer, on_pump_timer);
}

static void init_system(struct rig *rig)
{
    assert_ok(sn_metrics_new(3, &rig->metrics));
    struct sn_system_config config = {.env = rig->env,
                                      .host = &host,
                                      .metrics = rig->metrics,
                                      .agent_name = "site/self",
                                      .worker_count = 2,
                                      .log_level = SN_ERROR,
                                      .arg = rig,
                                      .actor_failed = actor_failed};
    assert_ok(sn_system_new(&config, &rig->system));
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(sn_system_spawn(rig->system, &kinds[i], NULL, 0, &rig->actors[i]));
        assert_ptr_equal(sn_system_actor_worker(rig->system, rig->actors[i]),
                         sn_system_worker(rig->system, i));
    }
}

int rig_set_up(void **state)
{
    size_t before = sn_alloc_in_use();
    struct rig *rig = test_calloc(1, sizeof *rig);
    the_rig = rig;
    rig->alloc_before = before;
    assert_ok(sn_env_posix_new(&rig->env));
    init_system(rig);
    rig->net.config.env = rig->env;
    rig->net.config.self.agent = "site/self";
    rig->net.system = rig->system;
    rig->net.metrics = rig->metrics;
    assert_ok(sn_metrics_register(rig->metrics, metric_table, &rig->net.metric_base));
    rig->net.hub_count = 2;
    rig->net.hubs = test_calloc(2, sizeof *rig->net.hubs);
    init_hub(rig, 0);
    init_hub(rig, 1);
    init_muxes(rig);
    init_peer(rig, 0, NEAR_PEER);
    init_peer(rig, 1, FAR_PEER);
    assert_ok(sn_system_start(rig->system));
    (void)rig_wait(rig, NEAR, SN_EVENT_START);
    (void)rig_wait(rig, FAR, SN_EVENT_START);
    rig_lane_up(rig);
    *state = rig;
    return 0;
}

int rig_tear_down(void **state)
{
    struct rig *rig = *state;
    sn_system_stop(rig->system);
    for (unsigned i = 0; i < 2; i++) {
        struct sni_hub *hub = &rig->net.hubs[i];
        sni_flows_free(hub);
        sni_conns_free(hub);
        sn_map_fini(&hub->names);
        sn_map_fini(&hub->flows);
        sn_buf_unref(&hub->scratch);
    }
    sn_timer_stop(rig->net.hubs[0].worker, &rig->pump_timer);
    sn_io_close(&rig->pump);
    sn_mux_set_output_hook(rig->joint.mux[0], NULL, NULL);
    sn_mux_set_output_hook(rig->joint.mux[1], NULL, NULL);
    joint_fini(&rig->joint);
    sn_system_free(rig->system);
    sn_metrics_free(rig->metrics);
    sn_env_posix_free(rig->env);
    size_t before = rig->alloc_before;
    test_free(rig->net.hubs);
    test_free(rig);
    assert_int_equal(sn_alloc_in_use(), before);
    return 0;
}

/* --- Calls of actors -------------------------------------------------------------------------- */

struct call {
    const char *text;
    uint64_t stream, conn, timeout_ms, token;
    uint32_t number;
    uint64_t out_id;
    char out_text[SN_NETADDR_TEXT_MAX];
    struct sn_meter *meter;
};

static enum sn_err do_listen(struct sn_ctx *ctx, void *arg)
{
    struct call *call = arg;
    struct sn_listener_ref listener;
    return sn_net_ctx_listen(ctx, "localhost:0", 1, &listener, call->out_text,
                             sizeof call->out_text);
}

uint16_t rig_listen(struct rig *rig, unsigned actor)
{
    struct call call = {0};
    struct sn_endpoint endpoint;
    assert_ok(rig_call(rig, actor, do_listen, &call));
    assert_ok(sn_endpoint_parse(call.out_text, strlen(call.out_text), 0, &endpoint));
    assert_int_equal(endpoint.is_literal, 1);
    return endpoint.port;
}

static enum sn_err do_open(struct sn_ctx *ctx, void *arg)
{
    struct call *call = arg;
    struct sn_stream_ref stream;
    enum sn_err err = sn_net_ctx_stream_open(ctx, NEAR_PEER, SERVICE, "meta", 4, call->timeout_ms,
                                             call->token, &stream);
    if (err == SN_OK) call->out_id = stream.id;
    return err;
}

uint64_t rig_open(struct rig *rig, uint64_t timeout_ms, uint64_t token)
{
    struct call call = {.timeout_ms = timeout_ms, .token = token};
    assert_ok(rig_call(rig, NEAR, do_open, &call));
    assert_int_not_equal(call.out_id, 0);
    return call.out_id;
}

static enum sn_err do_accept(struct sn_ctx *ctx, void *arg)
{
    struct call *call = arg;
    return sn_net_ctx_stream_accept(ctx, (struct sn_stream_ref){call->stream}, call->token);
}

void rig_accept(struct rig *rig, uint64_t stream, uint64_t token)
{
    struct call call = {.stream = stream, .token = token};
    assert_ok(rig_call(rig, FAR, do_accept, &call));
}

static enum sn_err do_splice(struct sn_ctx *ctx, void *arg)
{
    struct call *call = arg;
    return sn_net_ctx_stream_splice(ctx, (struct sn_stream_ref){call->stream},
                                    (struct sn_conn_ref){call->conn});
}

enum sn_err rig_splice(struct rig *rig, unsigned actor, uint64_t stream, uint64_t conn)
{
    struct call call = {.stream = stream, .conn = conn};
    return rig_call(rig, actor, do_splice, &call);
}

static enum sn_err do_reset(struct sn_ctx *ctx, void *arg)
{
    struct call *call = arg;
    sn_net_ctx_stream_reset(ctx, (struct sn_stream_ref){call->stream}, call->number);
    return SN_OK;
}

void rig_reset(struct rig *rig, unsigned actor, uint64_t stream, enum sn_err err)
{
    struct call call = {.stream = stream, .number = (uint32_t)err};
    assert_ok(rig_call(rig, actor, do_reset, &call));
}

static enum sn_err do_tune(struct sn_ctx *ctx, void *arg)
{
    struct call *call = arg;
    struct sn_stream_options options = {
        .size = sizeof options, .idle_ms = call->timeout_ms, .meter = call->meter};
    return sn_net_ctx_stream_tune(ctx, (struct sn_stream_ref){call->stream}, &options);
}

enum sn_err rig_tune(struct rig *rig, unsigned actor, uint64_t stream, uint64_t idle_ms,
                     struct sn_meter *meter)
{
    struct call call = {.stream = stream, .timeout_ms = idle_ms, .meter = meter};
    return rig_call(rig, actor, do_tune, &call);
}

static enum sn_err do_dial(struct sn_ctx *ctx, void *arg)
{
    struct call *call = arg;
    return sn_net_ctx_dial(ctx, call->text, call->timeout_ms, call->token);
}

enum sn_err rig_dial(struct rig *rig, unsigned actor, const char *address, uint64_t timeout_ms,
                     uint64_t token)
{
    struct call call = {.text = address, .timeout_ms = timeout_ms, .token = token};
    return rig_call(rig, actor, do_dial, &call);
}

static enum sn_err do_close(struct sn_ctx *ctx, void *arg)
{
    struct call *call = arg;
    sn_net_ctx_conn_close(ctx, (struct sn_conn_ref){call->conn}, call->number);
    return SN_OK;
}

void rig_close(struct rig *rig, unsigned actor, uint64_t conn, int is_reset)
{
    struct call call = {.conn = conn, .number = (uint32_t)is_reset};
    assert_ok(rig_call(rig, actor, do_close, &call));
}

/* --- Sockets of the test ---------------------------------------------------------------------- */

static struct sn_netaddr loopback(uint16_t port)
{
    return (struct sn_netaddr){.family = SN_NETADDR_IP4, .port = port, .ip = {127, 0, 0, 1}};
}

struct sn_sock rig_client(struct rig *rig, uint16_t port)
{
    struct sn_netaddr addr = loopback(port);
    struct sn_sock sock;
    assert_ok(sn_env_connect(rig->env, &addr, &sock));
    assert_ok(sn_env_wait(rig->env, sock, SN_READY_WRITE, 5000));
    assert_ok(sn_env_connect_result(rig->env, sock));
    return sock;
}

struct sn_sock rig_server(struct rig *rig, uint16_t *out_port)
{
    struct sn_netaddr addr = loopback(0);
    struct sn_netaddr bound;
    struct sn_sock sock;
    assert_ok(sn_env_listen(rig->env, &addr, &sock, &bound));
    *out_port = bound.port;
    return sock;
}

struct sn_sock rig_accept_sock(struct rig *rig, struct sn_sock listener)
{
    struct sn_sock sock;
    assert_ok(sn_env_wait(rig->env, listener, SN_READY_READ, 5000));
    assert_ok(sn_env_accept(rig->env, listener, &sock, NULL));
    return sock;
}

enum sn_err rig_next(struct rig *rig, struct sn_sock sock)
{
    uint8_t byte;
    size_t got;
    for (;;) {
        enum sn_err err = sn_env_read(rig->env, sock, &byte, 1, &got);
        if (err != SN_EAGAIN) return err;
        err = sn_env_wait(rig->env, sock, SN_READY_READ, 5000);
        if (err != SN_OK) return err;
    }
}

void rig_write(struct rig *rig, struct sn_sock sock, const void *bytes, size_t size)
{
    size_t put;
    assert_ok(sn_env_write(rig->env, sock, bytes, size, &put));
    assert_int_equal(put, size);
}

void rig_expect(struct rig *rig, struct sn_sock sock, const void *bytes, size_t size)
{
    uint8_t got[64];
    size_t have = 0;
    assert_in_range(size, 1, sizeof got);
    while (have < size) {
        size_t more = 0;
        enum sn_err err = sn_env_read(rig->env, sock, got + have, size - have, &more);
        if (err == SN_EAGAIN) {
            assert_ok(sn_env_wait(rig->env, sock, SN_READY_READ, 5000));
            continue;
        }
        assert_ok(err);
        have += more;
    }
    assert_memory_equal(got, bytes, size);
}

struct rig_tunnel rig_tunnel(struct rig *rig)
{
    uint16_t port = 0;
    struct rig_tunnel tunnel;
    struct sn_sock listener = rig_server(rig, &port);
    atomic_store(&rig->tunnel_port, port);
    uint16_t entrance = rig_listen(rig, NEAR);
    tunnel.client = rig_client(rig, entrance);
    tunnel.server = rig_accept_sock(rig, listener);
    sn_env_close(rig->env, listener);
    return tunnel;
}
