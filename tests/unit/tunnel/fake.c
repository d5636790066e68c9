/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/tunnel/fake.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/meter.h"
#include "plugin/loader.h"

static struct fake *of(struct sn_ctx *ctx)
{
    return (struct fake *)(void *)ctx;
}

static void SN_PRINTF(2, 3) note(struct fake *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = sizeof f->trace - f->trace_size;
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is just above */
    int size = vsnprintf(f->trace + f->trace_size, room, format, args);
    va_end(args);
    assert_true(size > 0 && (size_t)size < room);
    if (!f->is_quiet) f->trace_size += (size_t)size;
}

static enum sn_err answer(struct fake *f, enum fake_call call)
{
    enum sn_err err = f->next[call];
    f->next[call] = SN_OK;
    return err != SN_OK ? err : f->always[call];
}

/* --- What the actor calls ------------------------------------------------------------------------
 */

static uint64_t host_now(struct sn_ctx *ctx)
{
    return of(ctx)->now_ms;
}

static void host_log(struct sn_ctx *ctx, uint32_t level, const char *id, const char *text)
{
    assert_true(level <= SN_ERROR);
    if (of(ctx)->logs_too) note(of(ctx), "%s %s\n", id, text);
}

static void host_metric(struct sn_ctx *ctx, uint32_t index, int64_t delta)
{
    assert_true(index <= METRIC_OPEN_NOW);
    of(ctx)->metrics[index] += delta;
    assert_true(of(ctx)->metrics[index] >= 0);
    assert_true(delta > 0 || index == METRIC_OPEN_NOW || delta == 0);
}

static const char *host_name(struct sn_ctx *ctx)
{
    (void)ctx; /* there is but one */
    return "paris/hub";
}

static enum sn_err host_reply(struct sn_ctx *ctx, const struct sn_event *to, const char *type,
                              const void *payload, uint32_t size)
{
    struct fake *f = of(ctx);
    enum sn_err err = answer(f, FAKE_REPLY);
    if (err != SN_OK) return err;
    assert_true(to->correlation != 0);
    assert_true(size <= SN_MESSAGE_BYTES_MAX);
    free(f->reply);
    f->reply = calloc(1, (size_t)size + 1);
    assert_non_null(f->reply);
    if (size > 0) memcpy(f->reply, payload, size);
    (void)snprintf(f->reply_type, sizeof f->reply_type, "%s", type); /* types are short */
    return SN_OK;
}

static enum sn_err host_timer(struct sn_ctx *ctx, uint64_t token, uint64_t after_ms)
{
    struct fake *f = of(ctx);
    enum sn_err err = answer(f, FAKE_TIMER);
    if (err != SN_OK) return err;
    size_t slot = (size_t)(token >> 56);
    assert_true(slot < sizeof f->timers / sizeof f->timers[0]);
    f->timers[slot].token = token;
    f->timers[slot].at_ms = f->now_ms + after_ms;
    f->timers[slot].is_set = 1;
    return SN_OK;
}

static enum sn_err host_listen(struct sn_ctx *ctx, const char *address, uint64_t token,
                               struct sn_listener_ref *out_listener, char *out_bound,
                               uint32_t bound_capacity)
{
    struct fake *f = of(ctx);
    enum sn_err err = answer(f, FAKE_LISTEN);
    if (f->busy_address != NULL && strcmp(f->busy_address, address) == 0) err = SN_EINUSE;
    for (uint64_t i = 1; i <= f->listener_count; i++) {
        int is_same = strcmp(f->listener_addresses[i], address) == 0;
        if (f->is_listener_open[i] && is_same) err = SN_EINUSE;
    }
    if (err != SN_OK) {
        note(f, "listen %s: %s\n", address, sn_err_name(err));
        return err;
    }
    uint64_t id = ++f->listener_count;
    assert_true(id < FAKE_THINGS_MAX);
    f->listener_tokens[id] = token;
    (void)snprintf(f->listener_addresses[id], sizeof f->listener_addresses[id], "%s",
                   address); /* fits, in these tests */
    f->is_listener_open[id] = 1;
    out_listener->id = id;
    (void)snprintf(out_bound, bound_capacity, "%s", address); /* fits */
    note(f, "listen %s = l%" PRIu64 "\n", address, id);
    return SN_OK;
}

static void host_listener_close(struct sn_ctx *ctx, struct sn_listener_ref listener)
{
    assert_true(of(ctx)->is_listener_open[listener.id]);
    of(ctx)->is_listener_open[listener.id] = 0;
    note(of(ctx), "unlisten l%" PRIu64 "\n", listener.id);
}

static enum sn_err host_dial(struct sn_ctx *ctx, const char *address, uint64_t timeout_ms,
                             uint64_t token)
{
    struct fake *f = of(ctx);
    enum sn_err err = answer(f, FAKE_DIAL);
    assert_true(timeout_ms > 0);
    if (err != SN_OK) {
        note(f, "dial %s: %s\n", address, sn_err_name(err));
        return err;
    }
    uint64_t id = ++f->dial_count;
    assert_true(id < FAKE_THINGS_MAX);
    f->dials[id] = (struct fake_dial){.token = token, .timeout_ms = timeout_ms};
    note(f, "dial %s %" PRIu64 " = d%" PRIu64 "\n", address, timeout_ms, id);
    return SN_OK;
}

static void host_conn_close(struct sn_ctx *ctx, struct sn_conn_ref conn, uint32_t is_reset)
{
    struct fake *f = of(ctx);
    assert_true(conn.id > 0 && conn.id <= f->conn_count);
    assert_false(f->conns[conn.id].is_closed);
    assert_false(f->conns[conn.id].is_taken);
    f->conns[conn.id].is_closed = 1;
    note(f, "%s c%" PRIu64 "\n", is_reset ? "reset" : "close", conn.id);
}

static enum sn_err host_open(struct sn_ctx *ctx, const char *agent, const char *service,
                             const void *meta, uint32_t meta_size, uint64_t timeout_ms,
                             uint64_t token, struct sn_stream_ref *out_stream)
{
    struct fake *f = of(ctx);
    enum sn_err err = answer(f, FAKE_OPEN);
    if (err != SN_OK) {
        note(f, "open %s: %s\n", agent, sn_err_name(err));
        return err;
    }
    uint64_t id = ++f->stream_count;
    assert_true(id < FAKE_THINGS_MAX);
    f->streams[id] = (struct fake_stream){.token = token, .is_local = 1};
    out_stream->id = id;
    note(f, "open %s %s %.*s %" PRIu64 " = s%" PRIu64 "\n", agent, service, (int)meta_size,
         (const char *)meta, timeout_ms, id);
    return SN_OK;
}

static enum sn_err host_accept(struct sn_ctx *ctx, struct sn_stream_ref stream, uint64_t token)
{
    struct fake *f = of(ctx);
    enum sn_err err = answer(f, FAKE_ACCEPT);
    if (err != SN_OK) return err;
    struct fake_stream *s = &f->streams[stream.id];
    assert_false(s->is_local || s->is_accepted || s->is_reset);
    note(f, "accept s%" PRIu64 "\n", stream.id);
    if (s->is_down) return SN_OK; /* as the real host: its STREAM_DOWN is under way */
    s->is_accepted = 1;
    s->token = token;
    return SN_OK;
}

static enum sn_err host_splice(struct sn_ctx *ctx, struct sn_stream_ref stream,
                               struct sn_conn_ref conn)
{
    struct fake *f = of(ctx);
    enum sn_err err = answer(f, FAKE_SPLICE);
    if (err != SN_OK) return err;
    struct fake_stream *s = &f->streams[stream.id];
    assert_true(s->is_local || s->is_accepted || s->is_down);
    assert_false(s->is_reset || s->conn != 0);
    assert_false(f->conns[conn.id].is_closed || f->conns[conn.id].is_taken);
    f->conns[conn.id].is_taken = 1;
    s->conn = conn.id;
    note(f, "splice s%" PRIu64 " c%" PRIu64 "\n", stream.id, conn.id);
    return SN_OK;
}

static enum sn_err host_tune(struct sn_ctx *ctx, struct sn_stream_ref stream,
                             const struct sn_stream_options *options)
{
    struct fake *f = of(ctx);
    enum sn_err err = answer(f, FAKE_TUNE);
    if (err != SN_OK) return err;
    struct fake_stream *s = &f->streams[stream.id];
    assert_int_equal(options->size, sizeof *options);
    if (s->is_down) return SN_OK; /* as the real host: it is gone */
    sn_meter_free(s->meter);
    s->meter = sn_meter_ref(options->meter);
    s->idle_ms = options->idle_ms;
    return SN_OK;
}

static void host_reset(struct sn_ctx *ctx, struct sn_stream_ref stream, uint32_t err)
{
    struct fake *f = of(ctx);
    struct fake_stream *s = &f->streams[stream.id];
    assert_int_not_equal(err, SN_OK);
    assert_false(s->is_reset); /* once is enough */
    note(f, "reset s%" PRIu64 " %s\n", stream.id, sn_err_name((enum sn_err)err));
    if (!s->is_down) s->is_reset = 1;
}

/* As the real one, with one role: amsterdam/edge is a "reader". */
static int host_matches(struct sn_ctx *ctx, const char *agent, const char *pattern)
{
    (void)ctx; /* the same for all */
    size_t size = strlen(pattern);
    if (strcmp(pattern, "*") == 0) return 1;
    if (strcmp(pattern, "role:reader") == 0) return strcmp(agent, "amsterdam/edge") == 0;
    if (size > 2 && strcmp(pattern + size - 2, "/*") == 0) {
        return strncmp(agent, pattern, size - 1) == 0;
    }
    return strcmp(agent, pattern) == 0;
}

static const struct sn_host host_template = {
    .size = (uint32_t)sizeof(struct sn_host),
    .now_ms = host_now,
    .log = host_log,
    .metric_add = host_metric,
    .agent_name = host_name,
    .reply = host_reply,
    .timer = host_timer,
    .listen = host_listen,
    .listener_close = host_listener_close,
    .dial = host_dial,
    .conn_close = host_conn_close,
    .stream_open = host_open,
    .stream_accept = host_accept,
    .stream_splice = host_splice,
    .stream_reset = host_reset,
    .stream_tune = host_tune,
    .agent_matches = host_matches,
};

/* --- Life
 * ------------------------------------------------------------------------------------------ */

static struct sn_config_tree *parse(const char *yaml)
{
    struct sn_config_tree *tree = NULL;
    struct sn_findings findings;
    sn_findings_init(&findings);
    enum sn_err err = sn_config_parse(yaml, strlen(yaml), "tunnel.yaml", &findings, &tree);
    if (err == SN_OK) {
        const struct sn_config_node *root = sn_config_root(tree);
        err = sn_plugin_check_config(&sn_plugin, root, root, &findings);
    }
    for (uint32_t i = 0; i < findings.count; i++) {
        char line[1024];
        sn_finding_format(findings.items[i], line, sizeof line);
        print_error("%s\n", line);
    }
    sn_findings_fini(&findings);
    assert_int_equal(err, SN_OK);
    return tree;
}

struct fake *fake_new(const char *yaml)
{
    struct fake *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->host = host_template;
    f->ctx.host = &f->host;
    f->now_ms = 1000000;
    f->state = calloc(1, sni_tunnel_kind.state_bytes);
    assert_non_null(f->state);
    if (yaml != NULL) f->tree = parse(yaml);
    return f;
}

void fake_configure(struct fake *f, const char *yaml)
{
    struct sn_config_tree *former = f->tree;
    struct sn_event event = {.kind = SN_EVENT_CONFIG};
    f->tree = yaml == NULL ? NULL : parse(yaml);
    if (f->tree != NULL) event.config = sn_config_root(f->tree);
    fake_handle(f, &event);
    assert_int_equal(f->result, SN_OK);
    sn_config_tree_free(former);
}

void fake_drop(struct fake *f)
{
    for (uint64_t i = 1; i <= f->stream_count; i++) sn_meter_free(f->streams[i].meter);
    sni_tunnel_kind.fini(f->state);
    sn_config_tree_free(f->tree);
    free(f->state);
    free(f->reply);
    free(f);
}

void fake_free(struct fake *f)
{
    for (uint64_t i = 1; i <= f->conn_count; i++) {
        assert_true(f->conns[i].is_taken || f->conns[i].is_closed);
    }
    for (uint64_t i = 1; i <= f->stream_count; i++) assert_true(f->streams[i].is_down);
    for (uint64_t i = 1; i <= f->listener_count; i++) assert_false(f->is_listener_open[i]);
    for (uint64_t i = 1; i <= f->dial_count; i++) assert_true(f->dials[i].is_answered);
    assert_int_equal(f->metrics[METRIC_OPEN_NOW], 0);
    assert_null(f->state->waiting);
    for (size_t i = 0; i < TUNNEL_BUCKETS; i++) assert_null(f->state->by_stream[i]);
    uint32_t free_count = 0;
    for (struct flow *flow = f->state->free; flow != NULL; flow = flow->next) free_count++;
    assert_int_equal(free_count, f->state->flows.count);
    assert_int_equal(f->state->up, 0);
    for (uint32_t i = 0; i < f->state->targets.count; i++) {
        struct target *target = sni_tunnel_pool_at(&f->state->targets, i);
        assert_null(target->guests);
        assert_int_equal(target->pending + target->counts.open, 0);
        assert_int_not_equal(target->state, TARGET_REMOVED);
    }
    for (uint32_t i = 0; i < f->state->forwards.count; i++) {
        struct forward *forward = sni_tunnel_pool_at(&f->state->forwards, i);
        assert_int_equal(forward->waiting + forward->counts.open, 0);
        assert_int_not_equal(forward->state, FORWARD_REMOVED);
    }
    fake_drop(f);
}

void fake_handle(struct fake *f, struct sn_event *event)
{
    event->size = (uint32_t)sizeof *event;
    if (event->agent == NULL) event->agent = "";
    f->result = sni_tunnel_kind.handle(&f->ctx, f->state, event);
}

void fake_start(struct fake *f)
{
    struct sn_event event = {.kind = SN_EVENT_START};
    if (f->tree != NULL) event.config = sn_config_root(f->tree);
    fake_handle(f, &event);
    assert_int_equal(f->result, SN_OK);
}

void fake_stop(struct fake *f)
{
    struct sn_event event = {.kind = SN_EVENT_STOP};
    fake_handle(f, &event);
    assert_int_equal(f->result, SN_OK);
}

void fake_expect(struct fake *f, const char *trace)
{
    f->trace[f->trace_size] = '\0';
    assert_string_equal(f->trace, trace);
    f->trace_size = 0;
}

/* --- Events
 * ------------------------------------------------------------------------------------------ */

static uint64_t new_conn(struct fake *f)
{
    uint64_t id = ++f->conn_count;
    assert_true(id < FAKE_THINGS_MAX);
    return id;
}

uint64_t fake_client(struct fake *f, uint64_t listener)
{
    struct sn_event event = {.kind = SN_EVENT_CONN_ACCEPTED, .text = "127.0.0.1:50000"};
    event.conn.id = new_conn(f);
    event.listener.id = listener;
    event.token = f->listener_tokens[listener];
    fake_handle(f, &event);
    return event.conn.id;
}

uint64_t fake_ask_bytes(struct fake *f, const char *agent, const void *meta, uint32_t size)
{
    struct sn_event event = {.kind = SN_EVENT_STREAM_ASKED, .agent = agent};
    event.stream.id = ++f->stream_count;
    assert_true(event.stream.id < FAKE_THINGS_MAX);
    /* A copy of its own, so that reading beyond it is seen. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    if (size > 0) memcpy(copy, meta, size);
    event.payload = copy;
    event.payload_size = size;
    fake_handle(f, &event);
    free(copy);
    return event.stream.id;
}

uint64_t fake_ask(struct fake *f, const char *agent, const char *target)
{
    return fake_ask_bytes(f, agent, target, (uint32_t)strlen(target));
}

uint64_t fake_dialed(struct fake *f, uint64_t dial)
{
    struct sn_event event = {.kind = SN_EVENT_CONN_DIALED, .token = f->dials[dial].token};
    assert_true(dial > 0 && dial <= f->dial_count && !f->dials[dial].is_answered);
    f->dials[dial].is_answered = 1;
    event.conn.id = new_conn(f);
    fake_handle(f, &event);
    return event.conn.id;
}

void fake_dial_failed(struct fake *f, uint64_t dial, enum sn_err err)
{
    struct sn_event event = {
        .kind = SN_EVENT_CONN_DIALED, .token = f->dials[dial].token, .err = (uint32_t)err};
    assert_true(dial > 0 && dial <= f->dial_count && !f->dials[dial].is_answered);
    f->dials[dial].is_answered = 1;
    fake_handle(f, &event);
}

void fake_up(struct fake *f, uint64_t stream)
{
    struct sn_event event = {.kind = SN_EVENT_STREAM_UP, .token = f->streams[stream].token};
    assert_true(f->streams[stream].is_local && !f->streams[stream].is_down);
    event.stream.id = stream;
    fake_handle(f, &event);
}

void fake_move(struct fake *f, uint64_t stream, uint64_t sent, uint64_t received)
{
    struct fake_stream *s = &f->streams[stream];
    assert_false(s->is_down);
    sn_meter_add(s->meter, sent, received);
    s->sent += sent;
    s->received += received;
}

void fake_down(struct fake *f, uint64_t stream, enum sn_err err, uint64_t sent, uint64_t received)
{
    struct fake_stream *s = &f->streams[stream];
    struct sn_event event = {.kind = SN_EVENT_STREAM_DOWN,
                             .token = s->token,
                             .err = (uint32_t)err,
                             .sent_bytes = sent,
                             .received_bytes = received};
    assert_false(s->is_down);
    assert_true(sent >= s->sent && received >= s->received);
    sn_meter_add(s->meter, sent - s->sent, received - s->received);
    sn_meter_free(s->meter);
    s->meter = NULL;
    s->is_down = 1;
    s->is_reset = 0;
    event.stream.id = stream;
    fake_handle(f, &event);
}

void fake_settle(struct fake *f)
{
    for (uint64_t i = 1; i <= f->stream_count; i++) {
        struct fake_stream *s = &f->streams[i];
        if (s->is_reset) fake_down(f, i, SN_ERESET, s->sent, s->received);
    }
}

void fake_wait(struct fake *f, uint64_t ms)
{
    uint64_t end = f->now_ms + ms;
    for (;;) {
        size_t first = 0;
        size_t count = sizeof f->timers / sizeof f->timers[0];
        for (size_t i = 1; i < count; i++) {
            if (!f->timers[i].is_set) continue;
            int is_first = !f->timers[first].is_set || f->timers[i].at_ms < f->timers[first].at_ms;
            if (is_first) first = i;
        }
        if (!f->timers[first].is_set || f->timers[first].at_ms > end) break;
        struct sn_event event = {.kind = SN_EVENT_TIMER, .token = f->timers[first].token};
        if (f->timers[first].at_ms > f->now_ms) f->now_ms = f->timers[first].at_ms;
        f->timers[first].is_set = 0;
        fake_handle(f, &event);
    }
    f->now_ms = end;
}

void fake_message(struct fake *f, const char *agent, const char *type, uint64_t correlation)
{
    struct sn_event event = {.kind = SN_EVENT_MESSAGE,
                             .agent = agent,
                             .actor = "control",
                             .type = type,
                             .correlation = correlation};
    fake_handle(f, &event);
    assert_int_equal(f->result, SN_OK);
}

struct forward *fake_forward(struct fake *f, const char *name)
{
    for (uint32_t i = 0; i < f->state->forwards.count; i++) {
        struct forward *forward = sni_tunnel_pool_at(&f->state->forwards, i);
        if (forward->state != FORWARD_FREE && strcmp(forward->name, name) == 0) return forward;
    }
    fail_msg("no forward %s", name);
    return NULL;
}

struct target *fake_target(struct fake *f, const char *name)
{
    for (uint32_t i = 0; i < f->state->targets.count; i++) {
        struct target *target = sni_tunnel_pool_at(&f->state->targets, i);
        if (target->state != TARGET_FREE && strcmp(target->name, name) == 0) return target;
    }
    fail_msg("no target %s", name);
    return NULL;
}

uint64_t fake_sent(const struct counts *counts)
{
    uint64_t sent = 0, received = 0;
    sn_meter_read(counts->meter, &sent, &received);
    return sent;
}

uint64_t fake_received(const struct counts *counts)
{
    uint64_t sent = 0, received = 0;
    sn_meter_read(counts->meter, &sent, &received);
    return received;
}
