/* SPDX-License-Identifier: Apache-2.0 */
/* What mux.c, mux_input.c, mux_output.c and stream.c share. See the top of mux.c for how it works.
 * */
#ifndef SN_STREAM_MUX_INT_H
#define SN_STREAM_MUX_INT_H

#include "base/list.h"
#include "base/map.h"
#include "stream/hash_int.h"
#include "stream/mux.h"
#include "stream/pieces_int.h"

#define SNI_MUX_MAGIC    SN_MAGIC('M', 'U', 'X', '1')
#define SNI_STREAM_MAGIC SN_MAGIC('S', 'T', 'R', 'M')

#define SNI_CLASSES    4u
#define SNI_ID_MAX     (UINT64_C(1) << 62)
#define SNI_OFFSET_MAX (UINT64_C(1) << 62)

/* Ids of the peer that may still arrive out of order, because OPENs travel on several lanes. */
#define SNI_SEEN_IDS 8192u

/* Streams that ended well and were freed, remembered for a peer whose last ack was lost with a
 * lane. */
#define SNI_FINALS 256u

/* Where streams wait while no lane is up that could carry them: an entry of `lanes` that never is. */
#define SNI_LANE_NONE SN_LANES_MAX

/* Control frames a stream owes. */
#define SNI_OPEN   1u
#define SNI_ACCEPT 2u
#define SNI_ACK    4u
#define SNI_RESET  8u

/* An answer about a stream that does not exist here. */
struct sni_reply {
    uint64_t id;
    uint64_t value; /* reset reason, or total length of a stream that ended well */
    uint8_t is_final;
};

struct sni_replies {
    struct sni_reply *ring; /* allocated while there are any */
    uint32_t capacity;
    uint32_t head;
    uint32_t count;
};

struct sni_lane {
    struct sn_list control;          /* streams that owe control frames, first come first served */
    struct sn_list run[SNI_CLASSES]; /* streams with data or END to send */
    int64_t deficit[SNI_CLASSES];    /* bytes a class may send before the others had their share */
    struct sni_replies replies;
    uint32_t streams;
    uint8_t is_up;
};

/* Which ids of the peer were opened: a high-water mark with a window of bits below it. */
struct sni_seen {
    uint64_t high; /* ordinal, 0 = none */
    uint64_t bits[SNI_SEEN_IDS / 64];
};

struct sn_mux {
    uint32_t magic;
    uint32_t exempt; /* streams outside the budget; at most EXEMPT_MAX */
    struct sn_mux_config config;
    struct sni_lane lanes[SN_LANES_MAX + 1];
    struct sn_map table;    /* id -> stream */
    struct sn_list streams; /* all, in order of creation */
    struct sn_list delayed; /* streams whose ack may wait for the tick */
    struct sn_list closing; /* streams whose `closed` is about to be called */
    uint64_t delayed_until; /* 0: the next tick decides */
    uint64_t last_ordinal;  /* of ids opened here */
    struct sni_seen seen;
    uint8_t
        has_resumed; /* the peer flagged a frame with RESUME: leftovers of dead lanes may follow */
    struct sni_reply finals[SNI_FINALS];
    uint32_t finals_next;
    struct sn_buf cells; /* slab whose rest serves the next control payloads */
    void (*hook)(void *arg, unsigned lane);
    void *hook_arg;
    struct sn_mux_stats stats;
};

struct sn_stream {
    uint32_t magic;
    struct sn_mux *mux;
    struct sn_map_entry entry;
    struct sn_list all, run, control, delayed, closing;
    const struct sn_stream_ops *ops;
    void *user;
    uint64_t id;
    uint8_t lane, qos, flags; /* flags: SN_STREAM_SESSION */
    uint8_t pending;          /* SNI_OPEN ... */
    uint8_t is_local, is_accepted, is_budgeted, is_exempt;
    uint8_t is_open_sent; /* local: the peer may know the stream */
    uint8_t is_confirmed; /* local: the peer knows it */
    uint8_t is_dead;      /* reset; `reason` says why */
    uint8_t is_freed;     /* the user is gone; lives on until `pending` is sent */
    uint8_t must_resume;  /* the next ACK or OPEN carries SN_FRAME_RESUME */
    uint8_t has_resumed;  /* the peer moved: what it sends may overlap what we have */
    uint8_t end_wanted, end_sent, end_sent_once, end_acked, got_end;
    uint8_t is_complete; /* both directions ended well */
    uint8_t want_write;
    enum sn_err reason;
    uint32_t holds;      /* callbacks running */
    int32_t turn;        /* bytes left of this turn in its class */
    struct sn_buf offer; /* OPEN payload, kept until confirmed */
    char service[SN_SERVICE_BYTES_MAX + 1];

    /* What we send. tx holds [tx_base, written); pieces are released when wholly acked. */
    struct sni_pieces tx;
    struct sni_hash tx_hash;
    uint64_t tx_base, written, next, sent_max, acked, credit;
    uint32_t next_piece, next_at; /* `next` as a piece of tx and an offset in it */

    /* What we receive: consumed <= read <= received <= granted. */
    struct sni_pieces rx;
    struct sni_hash rx_hash;
    uint64_t received, read, consumed, granted, ack_sent;
    uint8_t rx_is_pressed; /* the peer came near the end of its credit */

    uint32_t rx_window, tx_window; /* see window.c */
};

static inline struct sni_lane *sni_lane_of(const struct sn_stream *stream)
{
    return &stream->mux->lanes[stream->lane];
}

/* --- window.c --------------------------------------------------------------------------------- */
/* Takes the first windows from the budget, unless it is exempt. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sni_window_init(struct sn_stream *stream, int is_exempt);
void sni_window_fini(struct sn_stream *stream);
/* The user consumed bytes; nonzero when the peer should be told of new credit. */
int sni_window_consumed(struct sn_stream *stream);
/* The user wrote bytes; the peer sent some; it acknowledged some. */
void sni_window_written(struct sn_stream *stream);
void sni_window_received(struct sn_stream *stream);
void sni_window_acked(struct sn_stream *stream);

/* --- mux.c ------------------------------------------------------------------------------------ */
struct sn_stream *sni_mux_find(const struct sn_mux *mux, uint64_t id);
/* A new stream in the table, on the lane; takes its window from the budget. Errors: EFULL, ENOMEM.
 * */
SN_MUST_CHECK enum sn_err sni_mux_add(struct sn_mux *mux, uint64_t id, unsigned lane,
                                      unsigned flags, struct sn_stream **out_stream);
/* Takes back sni_mux_add: nobody has heard of the stream. */
void sni_mux_remove(struct sn_stream *stream);
/* What the stream took from the budget, once. */
void sni_mux_give_back(struct sn_stream *stream);
int sni_lane_has_output(const struct sni_lane *lane);
/* Puts the stream into the lists where it belongs now, and tells the hook. */
void sni_stream_schedule(struct sn_stream *stream);
/* Both directions die, everything queued is dropped; `pending` is what is still owed to the peer.
 * */
void sni_stream_kill(struct sn_stream *stream, enum sn_err reason, uint8_t pending);
/* Around everything that calls the user: the stream stays in memory until the release. */
void sni_stream_hold(struct sn_stream *stream);
void sni_stream_release(struct sn_stream *stream);
void sni_stream_tell_closed(struct sn_stream *stream);
/* 1 when it waits for a lane. */
uint32_t sni_stream_is_orphan(const struct sn_stream *stream);
/* Frees the stream if nobody needs it any more. */
void sni_stream_reap(struct sn_stream *stream);
uint64_t sni_id_ordinal(uint64_t id);
int sni_id_is_local(const struct sn_mux *mux, uint64_t id);
/* Remembers that the stream ended well. */
void sni_mux_note_final(struct sn_mux *mux, const struct sn_stream *stream);

/* --- mux_output.c ----------------------------------------------------------------------------- */
/* Errors: ENOMEM; EPROTO: more answers wait than a peer can have asked for. */
SN_MUST_CHECK enum sn_err sni_reply_push(struct sn_mux *mux, unsigned lane,
                                         const struct sni_reply *reply);
void sni_replies_fini(struct sni_replies *replies);
/* Nonzero when sn_mux_output would find data or END. */
int sni_stream_can_send(const struct sn_stream *stream);

#endif
