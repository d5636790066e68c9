/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of streams and connections of actors: conn.c, flow.c (life of a flow), splice.c and delivered.c (its
 * bytes: between a connection and the stream, or between its owner and the stream).
 *
 * A flow is an actor's stream. It lives on the worker of its peer; its owner, which may run on another worker, knows
 * it by id only.
 *
 * States:  waiting --bulk lane up--> opening --ACCEPT--> up         (opened here)
 *          asked --sn_net_ctx_stream_accept--> up                   (opened by the peer)
 *          any --ended, reset, timeout, owner failed--> gone: STREAM_DOWN is posted, everything is freed
 * Invariants:
 *  1. a flow is in hub->flows and peer->flows of its peer, or on its way there (open_task), or being freed;
 *  2. `stream` is NULL exactly while waiting;
 *  3. `down` is there until the flow is gone, so that telling its end cannot fail;
 *  4. it has a socket or a tap, or neither yet: never both.
 */
#ifndef SN_PEER_FLOW_INT_H
#define SN_PEER_FLOW_INT_H

#include "base/meter.h"
#include "peer/peer_int.h"

#define SNI_FLOW_MAGIC SN_MAGIC('F', 'L', 'O', 'W')

/* Who made an id, and a counter. Ids of things that live on one worker carry its index in the top 8 bits. */
#define SNI_ID_WORKER_SHIFT 56

static inline uint64_t sni_id(uint32_t worker_index, uint64_t rest)
{
    return (uint64_t)worker_index << SNI_ID_WORKER_SHIFT | rest;
}

static inline uint32_t sni_id_worker(uint64_t id)
{
    return (uint32_t)(id >> SNI_ID_WORKER_SHIFT);
}

struct sni_flow {
    uint32_t magic;
    struct sn_list node; /* in peer->flows */
    struct sn_map_entry by_id;
    uint64_t id;
    struct sni_hub *hub; /* the peer's */
    struct sn_peer *peer;
    struct sn_stream *stream;
    struct sni_assoc *assoc; /* whose mux the stream is in; held while there is a stream */
    struct sn_actor_ref owner;
    uint32_t incarnation;
    uint64_t token;
    struct sn_task open_task; /* brings it from its opener's worker */
    struct sn_timer timer;    /* waiting and opening: the deadline; up: idle_ns */
    uint64_t deadline_ns;
    uint64_t since_ns;
    uint64_t idle_ns;       /* 0: it may rest for ever */
    uint64_t moved_ns;      /* when it moved a byte, or was accepted */
    struct sn_meter *meter; /* held; NULL when nobody counts */
    struct sn_notice *up;   /* local, until the peer accepted */
    struct sn_notice *down;
    struct sn_buf meta; /* while waiting */
    uint8_t is_local;
    uint8_t is_accepted;
    uint8_t is_linked; /* in the hub's table */
    uint8_t is_heard;  /* the owner knows of it */
    char service[SN_SERVICE_BYTES_MAX + 1];

    /* splice.c */
    struct sn_io io;
    struct sn_sock sock;
    uint8_t can_read, can_write; /* the socket did not say EAGAIN since it was last ready */
    uint8_t is_hung;             /* HANGUP was reported, and what it means not looked at yet */

    /* delivered.c */
    struct sni_tap *tap;   /* what it shares with its owner's worker */
    struct sn_list chunks; /* written by the owner, not taken by the stream yet */
    uint64_t told_bytes;   /* to the owner */
    uint64_t taken_bytes;  /* of the owner's, by the stream */

    /* Both. */
    uint8_t local_ended;  /* the end of the socket, or of the owner, was passed on to the peer */
    uint8_t remote_ended; /* the peer's end was passed on to the socket, or told to the owner */
    uint8_t is_sent;      /* the peer acknowledged all bytes and the end */
};

/* An asked stream carries nothing before its acceptance. */
static inline int sni_flow_can_move(const struct sni_flow *flow)
{
    return flow->stream != NULL && (flow->is_local || flow->is_accepted);
}

/* Bytes went from the owner or its connection into the stream, or the other way. */
static inline void sni_flow_moved(struct sni_flow *flow, uint64_t sent, uint64_t received)
{
    flow->moved_ns = sn_worker_now(flow->hub->worker);
    sn_meter_add(flow->meter, sent, received);
}

/* Something happened to the stream: moves bytes soon. */
static inline void sni_flow_kick(struct sni_flow *flow)
{
    if (flow->io.is_open) sn_io_kick(&flow->io);
}

/* flow.c: ends the flow: tells peer, socket and owner; frees it. SN_OK: both sides had ended. Own worker, also from
 * inside callbacks of its stream. */
void sni_flow_end(struct sni_flow *flow, enum sn_err err);
/* The flow of that owner, or NULL. Own worker. */
struct sni_flow *sni_flow_find(struct sni_hub *hub, uint64_t id, struct sn_actor_ref owner,
                               uint32_t incarnation);
/* An event about the flow for its owner. Errors: ENOMEM. */
enum sn_err sni_flow_notice(const struct sni_flow *flow, uint32_t kind,
                            struct sn_notice **out_notice);

/* splice.c: own worker. */
void sni_splice_init(struct sni_flow *flow);
/* Takes the socket; the flow may end in it. */
void sni_splice_attach(struct sni_flow *flow, struct sn_sock sock);
/* Releases the socket and the bytes under way. */
void sni_splice_close(struct sni_flow *flow, int is_reset);

/* delivered.c: the flow's worker. */
void sni_delivered_init(struct sni_flow *flow);
/* Releases the bytes under way and parts from the owner. */
void sni_delivered_close(struct sni_flow *flow);
/* delivered.c: the owner's worker. */
/* Nonzero when the owner asked for delivery of the stream and was not told its end. */
int sni_delivered_has(const struct sni_hub *hub, uint64_t stream, struct sn_actor_ref owner);
/* `told` of STREAM_DOWN; arg is the net. */
void sni_delivered_told_down(struct sn_notice *notice, void *arg);
void sni_delivered_actor_failed(struct sni_hub *hub, struct sn_actor_ref actor);
void sni_delivered_free(struct sni_hub *hub);

#endif
