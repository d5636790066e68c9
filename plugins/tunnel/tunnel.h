/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tunnel actor: local ports of one agent (forwards) lead to services that another agent reaches
 * (targets).
 *
 * Messages in: tunnel.list (ask, from this agent only). Messages out: its answer.
 * Streams: service `tunnel`; meta = the target's name, UTF-8, nothing else. The address behind a
 * name is known to the target's agent only and never comes from a client.
 *
 * A flow is one tunnelled connection as one of its two agents sees it:
 *
 *   client side   accepted -> OPENING -- STREAM_UP --> UP -- STREAM_DOWN --> gone
 *                             OPENING -- STREAM_DOWN (refused, timed out) -> gone
 *   target side   asked -> DIALING -- dialed --> UP -- STREAM_DOWN --> gone
 *                          DIALING -- failed --> WAITING -- tick --> DIALING
 *                          DIALING, WAITING -- STREAM_DOWN, deadline --> gone
 *
 * Invariants
 *  1. A connection is closed here, or was taken by a stream: nothing else keeps one.
 *  2. A stream that was asked is accepted or reset, unless it went down by itself.
 *  3. Tokens name a flow and its generation, so events of a flow that is gone match nothing.
 *  4. WAITING flows are in t->waiting, and only they.
 *  5. The gauge tunnel.open_now is the number of flows in state UP; `waiting` of a forward is that
 *     of its flows in state OPENING.
 */
#ifndef SN_PLUGINS_TUNNEL_TUNNEL_H
#define SN_PLUGINS_TUNNEL_TUNNEL_H

#include "pool.h"
#include "sennit/actor.h"
#include "sennit/io.h"
#include "sennit/stream.h"

#define TUNNEL_SERVICE      "tunnel"
#define TUNNEL_LIST         "tunnel.list"
#define TUNNEL_ENTRIES_MAX  4096u  /* targets, and forwards: as many as a fleet may have */
#define TUNNEL_PATTERNS_MAX 256    /* in one allow: list */
#define TUNNEL_FLOWS_MAX    65536u /* as many as a peer may open; tokens hold 16 bits of index */
#define TUNNEL_BUCKETS      1024u
#define TUNNEL_BOUND_MAX    SN_BOUND_BYTES_MAX

enum tunnel_metric {
    METRIC_OPENED,
    METRIC_DENIED,
    METRIC_FAILED,
    METRIC_DIAL_RETRIES,
    METRIC_LISTEN_FAILURES,
    METRIC_SENT_BYTES,
    METRIC_RECEIVED_BYTES,
    METRIC_OPEN_NOW
};

/* Of one forward or target. Bytes are counted when a flow ends. */
struct counts {
    uint64_t opened;
    uint64_t denied; /* targets only */
    uint64_t failed; /* could not be opened, or broke */
    uint64_t sent_bytes;
    uint64_t received_bytes;
    uint32_t open;
    uint32_t last_err; /* enum sn_err; SN_OK after a flow was opened */
};

/* Texts are borrowed from the configuration, which lives as long as the actor. */
struct target {
    const char *name;
    const char *address;
    const struct sn_config_node *allow;
    uint64_t connect_wait_ms;
    struct counts counts;
};

enum forward_state { FORWARD_FAILED = 0, FORWARD_LISTENING = 1, FORWARD_STOPPED = 2 };

struct forward {
    const char *name;
    const char *listen;
    const char *to;
    const char *target;
    uint64_t open_wait_ms;
    struct sn_listener_ref listener;
    uint64_t retry_at_ms; /* FAILED */
    uint32_t retry_ms;    /* the delay before that */
    uint32_t state;       /* enum forward_state */
    uint32_t index;
    uint32_t listen_err; /* FAILED: enum sn_err */
    uint32_t waiting;    /* its flows in state OPENING */
    char bound[TUNNEL_BOUND_MAX];
    struct counts counts;
};

enum flow_state { FLOW_FREE = 0, FLOW_OPENING, FLOW_DIALING, FLOW_WAITING, FLOW_UP };

struct flow {
    uint32_t index;
    uint32_t generation; /* grows when the flow is freed */
    uint32_t state;      /* enum flow_state */
    uint32_t delay_ms;   /* before the next dial */
    uint64_t deadline_ms;
    uint64_t retry_at_ms;
    struct sn_stream_ref stream;
    struct forward *forward; /* client side, else NULL */
    struct target *target;   /* target side, else NULL */
    struct flow *next;       /* in the free list, or in t->waiting */
    struct flow *previous;   /* in t->waiting */
    struct flow *in_bucket;  /* the next one in its bucket of by_stream */
};

struct tunnel {
    struct pool targets;
    struct pool forwards;
    struct pool flows;
    struct flow *free;
    struct flow *waiting; /* the one that waits longest; first->previous is the last */
    struct flow *by_stream[TUNNEL_BUCKETS]; /* target side */
    uint8_t is_dial_tick_set;
    uint8_t is_listen_tick_set;
    uint8_t is_stopping;
};

/* Kinds of token, in its highest byte. */
#define TOKEN_FLOW        1u
#define TOKEN_FORWARD     2u
#define TOKEN_DIAL_TICK   3u
#define TOKEN_LISTEN_TICK 4u

static inline uint64_t sni_tunnel_token(unsigned kind, uint32_t generation, uint32_t index)
{
    return (uint64_t)kind << 56 | (uint64_t)generation << 16 | index;
}

static inline unsigned sni_tunnel_token_kind(uint64_t token)
{
    return (unsigned)(token >> 56);
}

/* plugin.c: the schema, which also gives the defaults. */
extern const struct sn_config_field sni_tunnel_target_fields[];
extern const struct sn_config_field sni_tunnel_forward_fields[];
extern const struct sn_config_field sni_tunnel_fields[];
extern const struct sn_actor_kind sni_tunnel_kind;

/* flow.c */
SN_MUST_CHECK enum sn_err sni_tunnel_flow_new(struct tunnel *t, struct flow **out_flow);
/* Takes the flow out of all lists; its stream and connection are somebody else's. */
void sni_tunnel_flow_free(struct tunnel *t, struct flow *flow);
uint64_t sni_tunnel_flow_token(const struct flow *flow);
struct flow *sni_tunnel_flow_find(struct tunnel *t, uint64_t token); /* NULL: it is gone */
/* Target side: known by its stream until it is freed. */
void sni_tunnel_flow_name(struct tunnel *t, struct flow *flow, struct sn_stream_ref stream);
struct flow *sni_tunnel_flow_of_stream(struct tunnel *t, struct sn_stream_ref stream);
void sni_tunnel_flow_wait(struct tunnel *t, struct flow *flow);
void sni_tunnel_flow_wake(struct tunnel *t, struct flow *flow);
struct counts *sni_tunnel_flow_counts(struct flow *flow);
/* The flow is UP: counts it. */
void sni_tunnel_flow_up(struct sn_ctx *ctx, struct flow *flow);
/* Counts a flow that never came up, or one that its caller has to give up. */
void sni_tunnel_count_failed(struct sn_ctx *ctx, struct counts *counts, enum sn_err err);
void sni_tunnel_flow_down(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);

/* forward.c */
SN_MUST_CHECK enum sn_err sni_tunnel_forwards_start(struct sn_ctx *ctx, struct tunnel *t,
                                                    const struct sn_config_node *config);
void sni_tunnel_forwards_tick(struct sn_ctx *ctx, struct tunnel *t);
/* When the next one that failed is to be tried again; UINT64_MAX when there is none. */
uint64_t sni_tunnel_forwards_due(struct tunnel *t);
void sni_tunnel_forwards_stop(struct sn_ctx *ctx, struct tunnel *t);
void sni_tunnel_accepted(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);

/* target.c */
SN_MUST_CHECK enum sn_err sni_tunnel_targets_start(struct tunnel *t,
                                                   const struct sn_config_node *config);
void sni_tunnel_asked(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);
void sni_tunnel_dialed(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);
void sni_tunnel_dial_tick(struct sn_ctx *ctx, struct tunnel *t);
void sni_tunnel_targets_stop(struct sn_ctx *ctx, struct tunnel *t);

/* list.c */
void sni_tunnel_list(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);

#endif
