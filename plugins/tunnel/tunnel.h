/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tunnel actor: local ports of one agent (forwards) lead to services that another agent reaches
 * (targets).
 *
 * Messages in: tunnel.list (ask, from this agent only). Messages out: its answer.
 * Streams: service `tunnel`; meta = the target's name, UTF-8, nothing else. The address behind a
 * name is known to the target's agent only and never comes from a client.
 *
 * Another configuration is applied as a difference, by name. A forward that is gone closes its port;
 * what came through it goes on to its end, and only then is it forgotten. A target that is gone, or
 * whose allow: list does not name an agent any more, ends that agent's flows at once. Whatever else is
 * changed holds for connections that come from then on.
 *
 * A flow is one tunnelled connection as one of its two agents sees it:
 *
 *   client side   accepted -> OPENING -- STREAM_UP --> UP -- STREAM_DOWN --> gone
 *                             OPENING -- STREAM_DOWN (refused, timed out) -> gone
 *   target side   asked -> DIALING -- dialed --> UP -- STREAM_DOWN --> gone
 *                          DIALING -- failed --> WAITING -- tick --> DIALING
 *                          DIALING, WAITING -- STREAM_DOWN, deadline, target removed --> gone
 *
 * Invariants
 *  1. A connection is closed here, or was taken by a stream: nothing else keeps one.
 *  2. A stream that was asked is accepted or reset, unless it went down by itself.
 *  3. Tokens name a flow and its generation, so events of a flow that is gone match nothing.
 *  4. WAITING flows are in t->waiting, and only they.
 *  5. The gauge tunnel.open_now is the number of flows in state UP, as is t->up; `waiting` of a
 *     forward is that of its flows in state OPENING, `pending` of a target that of its flows in state
 *     DIALING or WAITING, `flows` of a guest that of its flows in any state.
 *  6. waiting + open of a forward never grows beyond max_connections, nor does pending + open of a
 *     target, nor flows of a guest beyond max_per_agent. At most a quarter of a target's places is
 *     pending while the target does not answer.
 *  7. Texts are copies or point into the present configuration. A forward or target that is not in it
 *     is REMOVED and has flows, or FREE.
 */
#ifndef SN_PLUGINS_TUNNEL_TUNNEL_H
#define SN_PLUGINS_TUNNEL_TUNNEL_H

#include "pool.h"
#include "sennit/actor.h"
#include "sennit/io.h"
#include "sennit/meter.h"
#include "sennit/stream.h"

#define TUNNEL_SERVICE      "tunnel"
#define TUNNEL_LIST         "tunnel.list"
#define TUNNEL_LIST_REFUSED "tunnel.refused"
#define TUNNEL_ENTRIES_MAX  4096u     /* targets, and forwards: as many as a fleet may have */
#define TUNNEL_PATTERNS_MAX 256       /* in one allow: list */
#define TUNNEL_FLOWS_MAX    65536u    /* as many as a peer may open; tokens hold 16 bits of index */
#define TUNNEL_IDLE_MS_MAX  604800000 /* a week */
#define TUNNEL_BUCKETS      1024u
#define TUNNEL_RATE_SAMPLES 4u /* a second apart: what `rate` means */
#define TUNNEL_BOUND_MAX    SN_BOUND_BYTES_MAX

enum tunnel_metric {
    METRIC_OPENED,
    METRIC_DENIED,
    METRIC_FAILED,
    METRIC_REFUSED,
    METRIC_DIAL_RETRIES,
    METRIC_LISTEN_FAILURES,
    METRIC_SENT_BYTES,
    METRIC_RECEIVED_BYTES,
    METRIC_OPEN_NOW
};

/* What the meter said at the last ticks; the oldest one is overwritten. */
struct rate {
    struct {
        uint64_t at_ms;
        uint64_t sent;
        uint64_t received;
    } samples[TUNNEL_RATE_SAMPLES];
    uint32_t count; /* all that were taken */
};

/* Why a client got no place; bits of counts.refusing. */
enum refusal { REFUSAL_CONNECTIONS = 0, REFUSAL_PER_AGENT = 1, REFUSAL_WAITING = 2 };

/* Of one forward or target. */
struct counts {
    uint64_t opened;
    uint64_t denied;               /* targets only */
    uint64_t failed;               /* could not be opened, or broke */
    uint64_t refused;              /* beyond a limit */
    uint32_t errors[SN_ERR_COUNT]; /* of denied and failed; [0]: errors that are not known here */
    struct sn_meter *meter;        /* owned: the bytes, as they move */
    struct rate rate;
    uint32_t open;
    uint32_t last_err; /* enum sn_err; SN_OK after a flow was opened */
    uint32_t refusing; /* causes that were logged, and no client got a place since */
};

enum target_state { TARGET_FREE = 0, TARGET_LISTED = 1, TARGET_REMOVED = 2 };

struct target {
    char name[SN_LABEL_BYTES_MAX + 1];
    const char *address;                /* of the configuration; "" when it is not in it */
    const struct sn_config_node *allow; /* likewise; NULL */
    uint64_t connect_wait_ms;
    uint64_t idle_ms;
    uint32_t max_connections;
    uint32_t max_per_agent;
    struct guest *guests;
    uint32_t pending;   /* its flows in state DIALING or WAITING */
    uint32_t state;     /* enum target_state */
    uint8_t is_silent;  /* the last dial failed */
    uint8_t is_present; /* in the configuration that is being applied */
    struct counts counts;
};

/* An agent that has flows to a target. */
struct guest {
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];
    struct target *target;
    struct guest *next; /* of the target, or in the free list */
    uint32_t flows;
    uint32_t barred; /* enum sn_err: its flows are to end with this; SN_OK = they may stay */
};

enum forward_state {
    FORWARD_FREE = 0,
    FORWARD_FAILED = 1,
    FORWARD_LISTENING = 2,
    FORWARD_STOPPED = 3,
    FORWARD_REMOVED = 4
};

struct forward {
    char name[SN_LABEL_BYTES_MAX + 1];
    char to[SN_AGENT_NAME_BYTES_MAX + 1];
    char target[SN_LABEL_BYTES_MAX + 1];
    const char *listen; /* of the configuration; "" when it is not in it */
    uint64_t open_wait_ms;
    uint64_t idle_ms;
    uint32_t max_connections;
    uint32_t generation; /* grows when it is freed */
    struct sn_listener_ref listener;
    uint64_t retry_at_ms; /* FAILED */
    uint32_t retry_ms;    /* the delay before that */
    uint32_t state;       /* enum forward_state */
    uint32_t index;
    uint32_t listen_err; /* FAILED: enum sn_err */
    uint32_t waiting;    /* its flows in state OPENING */
    uint8_t is_present;  /* in the configuration that is being applied */
    uint8_t must_listen; /* it is new, or its address is */
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
    struct guest *guest;     /* target side, else NULL */
    struct flow *next;       /* in the free list, or in t->waiting */
    struct flow *previous;   /* in t->waiting */
    struct flow *in_bucket;  /* the next one in its bucket of by_stream */
    uint8_t is_ending;       /* UP: it was reset here, STREAM_DOWN is on its way */
};

struct tunnel {
    struct pool targets;
    struct pool forwards;
    struct pool flows;
    struct pool guests;
    struct flow *free;
    struct guest *free_guests;
    struct flow *waiting; /* the one that waits longest; first->previous is the last */
    struct flow *by_stream[TUNNEL_BUCKETS]; /* target side */
    uint32_t up;                            /* flows in state UP */
    uint32_t free_forwards;                 /* entries of the pool that are FREE */
    uint32_t free_targets;
    uint8_t is_dial_tick_set;
    uint8_t is_listen_tick_set;
    uint8_t is_rate_tick_set;
    uint8_t is_flowing; /* something is open, or was within the last samples */
    uint8_t is_stopping;
};

/* Kinds of token, in its highest byte. */
#define TOKEN_FLOW        1u
#define TOKEN_FORWARD     2u
#define TOKEN_DIAL_TICK   3u
#define TOKEN_LISTEN_TICK 4u
#define TOKEN_RATE_TICK   5u

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

/* counts.c */
/* Errors: ENOMEM (no meter). */
SN_MUST_CHECK enum sn_err sni_tunnel_counts_init(struct counts *counts);
void sni_tunnel_counts_fini(struct counts *counts);
/* Counts a flow that never came up, or one that its caller has to give up. */
void sni_tunnel_count_failed(struct sn_ctx *ctx, struct counts *counts, enum sn_err err);
void sni_tunnel_count_denied(struct sn_ctx *ctx, struct counts *counts);
/* Nonzero when this is the first one of its cause, so that it is worth a line. */
int sni_tunnel_count_refused(struct sn_ctx *ctx, struct counts *counts, enum refusal cause);
/* Bytes per second, over the last samples. */
void sni_tunnel_rate(const struct counts *counts, uint64_t now_ms, uint64_t *out_sent,
                     uint64_t *out_received);
/* A new series of samples begins. */
void sni_tunnel_rates_begin(struct sn_ctx *ctx, struct tunnel *t);
void sni_tunnel_rates_tick(struct sn_ctx *ctx, struct tunnel *t);

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
/* Gives the stream what the forward or target says about its flows. */
SN_MUST_CHECK enum sn_err sni_tunnel_flow_tune(struct sn_ctx *ctx, struct flow *flow);
/* The flow is UP: counts it. */
void sni_tunnel_flow_up(struct sn_ctx *ctx, struct tunnel *t, struct flow *flow);
void sni_tunnel_flow_down(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);

/* forward.c */
/* Makes the forwards those of `config`. Errors: EFULL, ENOMEM (some could not be added; listens, and
 * goes on, only when must_go_on). */
SN_MUST_CHECK enum sn_err sni_tunnel_forwards_set(struct sn_ctx *ctx, struct tunnel *t,
                                                  const struct sn_config_node *config,
                                                  int must_go_on);
void sni_tunnel_forwards_tick(struct sn_ctx *ctx, struct tunnel *t);
/* When the next one that failed is to be tried again; UINT64_MAX when there is none. */
uint64_t sni_tunnel_forwards_due(struct tunnel *t);
void sni_tunnel_forwards_stop(struct sn_ctx *ctx, struct tunnel *t);
/* One of its flows is gone: it may be forgotten now. */
void sni_tunnel_forward_left(struct tunnel *t, struct forward *forward);
void sni_tunnel_accepted(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);

/* target.c */
/* Makes the targets those of `config`. Errors: EFULL, ENOMEM (some could not be added). */
SN_MUST_CHECK enum sn_err sni_tunnel_targets_set(struct sn_ctx *ctx, struct tunnel *t,
                                                 const struct sn_config_node *config);
/* One of the guest's flows is gone: it and its target may be forgotten now. */
void sni_tunnel_guest_left(struct tunnel *t, struct guest *guest);
void sni_tunnel_asked(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);
void sni_tunnel_dialed(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);
void sni_tunnel_dial_tick(struct sn_ctx *ctx, struct tunnel *t);
void sni_tunnel_targets_stop(struct sn_ctx *ctx, struct tunnel *t);

/* list.c */
void sni_tunnel_list(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event);

#endif
