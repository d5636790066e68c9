/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of streams and connections of actors: conn.c, flow.c (life of a flow), splice.c (its bytes).
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
 *  3. `down` is there until the flow is gone, so that telling its end cannot fail.
 */
#ifndef SN_PEER_FLOW_INT_H
#define SN_PEER_FLOW_INT_H

#include "peer/peer_int.h"

#define SNI_FLOW_MAGIC    SN_MAGIC('F', 'L', 'O', 'W')
#define SNI_SPLICE_PIECES 16u /* pieces given to one writev */

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
    struct sn_timer timer;    /* waiting and opening */
    uint64_t deadline_ns;
    uint64_t since_ns;
    struct sn_notice *up; /* local, until the peer accepted */
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
    struct sn_buf pieces[SNI_SPLICE_PIECES]; /* read from the stream, not written yet */
    uint32_t piece_count;
    uint8_t can_read, can_write; /* the socket did not say EAGAIN since it was last ready */
    uint8_t local_ended;         /* the socket's end was read and passed on */
    uint8_t remote_ended;        /* the peer's end was passed on to the socket */
    uint8_t is_sent;             /* the peer acknowledged all bytes and the end */
};

/* flow.c: ends the flow: tells peer, socket and owner; frees it. SN_OK: both sides had ended. Own worker, also from
 * inside callbacks of its stream. */
void sni_flow_end(struct sni_flow *flow, enum sn_err err);

/* splice.c: own worker. */
void sni_splice_init(struct sni_flow *flow);
/* Takes the socket; the flow may end in it. */
void sni_splice_attach(struct sni_flow *flow, struct sn_sock sock);
/* Something happened to the stream: moves bytes soon. */
void sni_splice_kick(struct sni_flow *flow);
/* Releases the socket and the bytes under way. */
void sni_splice_close(struct sni_flow *flow, int is_reset);

#endif
