/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Actors: private state, a bounded mailbox, and a handler that runs to completion and never blocks.
 *
 * The same calls serve actors built into the agent and actors of plugins: each goes through the host table that
 * `ctx` points to, which only ever grows at its end (sennit/plugin.h keeps the change log).
 *
 * Threads: an actor runs on one worker; its handler is never entered twice at once. `ctx` is valid during the
 * handler call only. Blocking: no call here blocks.
 */
#ifndef SN_ACTOR_H
#define SN_ACTOR_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/buf.h"
#include "sennit/config.h"
#include "sennit/err.h"
#include "sennit/limits.h"
#include "sennit/log.h"
#include "sennit/metrics.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sn_host;

struct sn_ctx {
    const struct sn_host *host; /* the rest is the runtime's */
};

struct sn_actor_ref {
    uint64_t id; /* 0 = nobody */
};
/* A byte stream to another agent. */
struct sn_stream_ref {
    uint64_t id; /* 0 = none */
};
/* A local network connection: accepted from a listener, or dialed. */
struct sn_conn_ref {
    uint64_t id; /* 0 = none */
};
struct sn_listener_ref {
    uint64_t id; /* 0 = none */
};

/* How an accepted message ended (promise G1). */
enum sn_outcome { SN_DELIVERED = 1, SN_UNDELIVERED = 2, SN_UNKNOWN = 3 };

/* Why it was not delivered, or why nobody knows. Numbers are part of the wire format and the ABI. */
enum sn_reason {
    SN_REASON_NONE = 0,
    SN_REASON_DENIED = 1,   /* no access rule allows it */
    SN_REASON_NO_ACTOR = 2, /* no actor of that name there */
    SN_REASON_MAILBOX_FULL = 3,
    SN_REASON_DEADLINE = 4, /* undelivered: before it was sent; unknown: after */
    SN_REASON_PEER_RESTARTED = 5,
    SN_REASON_SHUTDOWN = 6,
    SN_REASON_NO_MEMORY = 7,
    SN_REASON_ACTOR_FAILED = 8, /* the mailbox was thrown away with its failed actor */
    SN_REASON_NO_ASK = 9,       /* a reply that nobody waits for any more */
    SN_REASON_NO_AGENT = 10,    /* no such agent is known */
    SN_REASON_COUNT = 11
};
SN_API const char *sn_reason_name(enum sn_reason reason); /* "mailbox-full"; static */

/* --- Events -------------------------------------------------------------------------------------- */

enum sn_event_kind {
    SN_EVENT_START = 1,   /* first event: text unused; the state is zeroed memory */
    SN_EVENT_STOP = 2,    /* the agent drains: finish what is open; the actor is freed later */
    SN_EVENT_MESSAGE = 3, /* agent, actor, type, payload; reply with sn_reply if `correlation` */
    SN_EVENT_OUTCOME = 4, /* token, outcome, reason: of an sn_send */
    SN_EVENT_REPLY = 5,   /* token, err (SN_OK, or why there is no answer), type, payload */
    SN_EVENT_TIMER = 6,   /* token */
    SN_EVENT_JOB = 7,     /* token, pointer: an offloaded job ended */
    SN_EVENT_STREAM_ASKED =
        8, /* stream, agent, payload = meta: a peer opened a stream to our service */
    SN_EVENT_STREAM_UP = 9, /* stream, token: the peer accepted the stream we opened */
    SN_EVENT_STREAM_DOWN =
        10, /* stream, token, err (SN_OK = both sides ended), counts; it is gone */
    SN_EVENT_CONN_ACCEPTED = 11, /* conn, listener, token of the listener, text = remote address */
    SN_EVENT_CONN_DIALED = 12,   /* conn (on SN_OK), token, err */
    SN_EVENT_STREAM_READABLE =
        13, /* stream, token, buf (also as payload), offset, is_end: bytes of a delivered stream */
    SN_EVENT_STREAM_WRITABLE = 14, /* stream, token: after sn_stream_write said EAGAIN */
    /* config: another configuration, which passed the same checks as the first. What is not changed goes on. The
     * former one is valid until the handler returns: nothing may point into it after that. */
    SN_EVENT_CONFIG = 15,
    SN_EVENT_KIND_COUNT = 16
};

/* Pointers are borrowed until the handler returns. Members that a kind does not name are zero. */
struct sn_event {
    uint32_t size; /* of this structure, as the host knows it */
    uint32_t kind; /* enum sn_event_kind */
    uint64_t token;
    const char *agent; /* who sent it: "" = this agent */
    const char *actor;
    const char *type;
    const uint8_t *payload;
    uint32_t payload_size;
    uint32_t err;     /* enum sn_err */
    uint32_t outcome; /* enum sn_outcome */
    uint32_t reason;  /* enum sn_reason */
    uint64_t correlation;
    struct sn_stream_ref stream;
    struct sn_conn_ref conn;
    struct sn_listener_ref listener;
    const char *text;
    void *pointer;
    uint64_t sent_bytes; /* STREAM_DOWN: toward the peer */
    uint64_t received_bytes;
    const struct sn_config_node *config; /* START, CONFIG: the actor's, NULL if it has none */
    /* STREAM_READABLE: a view of the bytes, borrowed as all else; sn_buf_ref makes one to keep, or to write. */
    struct sn_buf buf;
    uint64_t offset; /* of its first byte in the stream */
    uint32_t is_end; /* 1 = no more bytes come */
    uint32_t reserved;
};

/* --- Declaring an actor --------------------------------------------------------------------------- */

struct sn_actor_kind {
    uint32_t size; /* sizeof(struct sn_actor_kind) */
    uint32_t state_bytes;
    const char *name;           /* the actor's name on its agent: a label */
    uint32_t mailbox_messages;  /* 0 = SN_MAILBOX_DEFAULT */
    uint32_t outstanding_sends; /* 0 = SN_OUTSTANDING_SENDS_DEFAULT */
    /* SN_OK = handled. Anything else = the actor failed: its supervisor restarts it with fresh state after a
     * growing delay, at most 5 times a minute, then gives up. */
    enum sn_err (*handle)(struct sn_ctx *ctx, void *state, const struct sn_event *event);
    /* Releases what the state holds; no events come after. May be NULL. */
    void (*fini)(void *state);
    const char *service; /* streams to this service are announced to it; NULL = none */
};

/* --- The host table -------------------------------------------------------------------------------- */

struct sn_send_options {
    uint32_t size;        /* sizeof(struct sn_send_options); less is EINVAL */
    uint32_t is_control;  /* 1 = control class: small and urgent */
    uint64_t deadline_ms; /* 0 = SN_SEND_DEADLINE_MS */
    uint64_t token;       /* comes back in the OUTCOME event */
    uint32_t is_silent;   /* 1 = no OUTCOME event, only the ledger */
    uint32_t reserved;
};

struct sn_meter; /* sennit/meter.h */

/* Of a stream: sn_stream_tune. */
struct sn_stream_options {
    uint32_t size; /* sizeof(struct sn_stream_options); less is EINVAL */
    uint32_t reserved;
    /* The stream ends with ETIMEDOUT, and resets its connection, when it moved no byte in either direction for so long;
     * counted from its acceptance. 0 = never. */
    uint64_t idle_ms;
    struct sn_meter *meter; /* counts its bytes from now on; NULL = none */
};

struct sn_host {
    uint32_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t reserved;
    uint64_t (*now_ms)(struct sn_ctx *ctx);
    void (*random)(struct sn_ctx *ctx, void *out, size_t size);
    void (*log)(struct sn_ctx *ctx, uint32_t level, const char *id, const char *text);
    void (*metric_add)(struct sn_ctx *ctx, uint32_t index, int64_t delta);
    const char *(*agent_name)(struct sn_ctx *ctx);
    enum sn_err (*send)(struct sn_ctx *ctx, const char *to, const char *type, const void *payload,
                        uint32_t size, const struct sn_send_options *options);
    enum sn_err (*ask)(struct sn_ctx *ctx, const char *to, const char *type, const void *payload,
                       uint32_t size, uint64_t timeout_ms, uint64_t token);
    enum sn_err (*reply)(struct sn_ctx *ctx, const struct sn_event *to, const char *type,
                         const void *payload, uint32_t size);
    enum sn_err (*timer)(struct sn_ctx *ctx, uint64_t token, uint64_t after_ms);
    void (*timer_cancel)(struct sn_ctx *ctx, uint64_t token);
    enum sn_err (*offload)(struct sn_ctx *ctx, uint32_t kind, void (*run)(void *pointer),
                           void *pointer, uint64_t token);
    enum sn_err (*listen)(struct sn_ctx *ctx, const char *address, uint64_t token,
                          struct sn_listener_ref *out_listener, char *out_bound,
                          uint32_t bound_capacity);
    void (*listener_close)(struct sn_ctx *ctx, struct sn_listener_ref listener);
    enum sn_err (*dial)(struct sn_ctx *ctx, const char *address, uint64_t timeout_ms,
                        uint64_t token);
    void (*conn_close)(struct sn_ctx *ctx, struct sn_conn_ref conn, uint32_t is_reset);
    enum sn_err (*stream_open)(struct sn_ctx *ctx, const char *agent, const char *service,
                               const void *meta, uint32_t meta_size, uint64_t timeout_ms,
                               uint64_t token, struct sn_stream_ref *out_stream);
    enum sn_err (*stream_accept)(struct sn_ctx *ctx, struct sn_stream_ref stream, uint64_t token);
    enum sn_err (*stream_splice)(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                 struct sn_conn_ref conn);
    void (*stream_reset)(struct sn_ctx *ctx, struct sn_stream_ref stream, uint32_t err);
    int (*agent_matches)(struct sn_ctx *ctx, const char *agent, const char *pattern);
    /* Since 0.1. */
    enum sn_err (*stream_deliver)(struct sn_ctx *ctx, struct sn_stream_ref stream);
    enum sn_err (*stream_consume)(struct sn_ctx *ctx, struct sn_stream_ref stream, uint64_t bytes);
    enum sn_err (*stream_write)(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                struct sn_buf *piece);
    enum sn_err (*stream_end)(struct sn_ctx *ctx, struct sn_stream_ref stream);
    enum sn_err (*stream_tune)(struct sn_ctx *ctx, struct sn_stream_ref stream,
                               const struct sn_stream_options *options);
};

/* Milliseconds on the monotonic clock. */
static inline uint64_t sn_now_ms(struct sn_ctx *ctx)
{
    return ctx->host->now_ms(ctx);
}

static inline void sn_random(struct sn_ctx *ctx, void *out, size_t size)
{
    ctx->host->random(ctx, out, size);
}

/* Name of this agent, site/agent. Lives as long as the agent. */
static inline const char *sn_own_name(struct sn_ctx *ctx)
{
    return ctx->host->agent_name(ctx);
}

/* Adds to the index-th metric of the actor's plugin table (a gauge may fall). */
static inline void sn_metric_add(struct sn_ctx *ctx, uint32_t index, int64_t delta)
{
    ctx->host->metric_add(ctx, index, delta);
}

/* Structured log line: a stable id in capitals, then key=value text. Rate-limited per id. */
SN_API void sn_log(struct sn_ctx *ctx, enum sn_log_level level, const char *id, const char *format,
                   ...) SN_PRINTF(4, 5);

/* Accepts a message for `to` (site/agent:actor, or :actor here), or refuses it at once. An accepted one ends in
 * exactly one outcome, which comes back as SN_EVENT_OUTCOME. payload is copied, at most SN_MESSAGE_BYTES_MAX.
 * Errors: EINVAL (address, type), ETOOBIG, EFULL (mailbox, queue, or completion slots), ENOENT (no such agent or
 * local actor), ENOMEM. options may be NULL. */
static inline SN_MUST_CHECK enum sn_err sn_send(struct sn_ctx *ctx, const char *to,
                                                const char *type, const void *payload,
                                                uint32_t size,
                                                const struct sn_send_options *options)
{
    return ctx->host->send(ctx, to, type, payload, size, options);
}

/* A question: exactly one SN_EVENT_REPLY comes back, with SN_ETIMEDOUT at the latest after timeout_ms. Later
 * answers are dropped and counted. Errors as sn_send. */
static inline SN_MUST_CHECK enum sn_err sn_ask(struct sn_ctx *ctx, const char *to, const char *type,
                                               const void *payload, uint32_t size,
                                               uint64_t timeout_ms, uint64_t token)
{
    return ctx->host->ask(ctx, to, type, payload, size, timeout_ms, token);
}

/* Answers the MESSAGE event at hand (its correlation is not 0). Errors as sn_send. To answer later keep the
 * event's agent, actor and correlation and fill an event with them. */
static inline SN_MUST_CHECK enum sn_err sn_reply(struct sn_ctx *ctx, const struct sn_event *to,
                                                 const char *type, const void *payload,
                                                 uint32_t size)
{
    return ctx->host->reply(ctx, to, type, payload, size);
}

/* One-shot timer; a second call with the same token moves it. At most 4,096 per actor. Errors: EFULL, ENOMEM. */
static inline SN_MUST_CHECK enum sn_err sn_timer(struct sn_ctx *ctx, uint64_t token,
                                                 uint64_t after_ms)
{
    return ctx->host->timer(ctx, token, after_ms);
}

static inline void sn_timer_cancel(struct sn_ctx *ctx, uint64_t token)
{
    ctx->host->timer_cancel(ctx, token);
}

/* Runs `run(pointer)` on a pool thread, where it may block; then SN_EVENT_JOB. `pointer` is the job's until then;
 * the event also comes when the actor was restarted meanwhile, because only its handler can release the pointer.
 * kind: 0 = processor, 1 = disk, 2 = slow (name service, external programs). Errors: EFULL, ENOMEM. */
static inline SN_MUST_CHECK enum sn_err sn_offload(struct sn_ctx *ctx, uint32_t kind,
                                                   void (*run)(void *pointer), void *pointer,
                                                   uint64_t token)
{
    return ctx->host->offload(ctx, kind, run, pointer, token);
}

#ifdef __cplusplus
}
#endif
#endif
