/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams between this boot of this agent and one boot of one peer: ordered bytes with offsets,
 * credit, cumulative acks, half-close, reset and four QoS classes, multiplexed over lanes. No I/O,
 * no clock.
 *
 * A stream belongs to the pair of boots, not to a connection: what was sent stays retained until
 * it is acknowledged, so that it can be sent again on another connection. Streams opened with
 * SN_STREAM_SESSION end with the session instead. Each stream is pinned to a lane while the lane
 * is up.
 *
 * Guarantees (checked by tests/unit/stream): bytes come out once, in order, complete, or the
 * reader sees an error; a frame that breaks the protocol changes nothing except that sn_mux_input
 * returns an error, upon which the caller closes the session.
 * Memory of a stream: it retains at most its window (plus the rest of the one piece that crossed
 * that line) and buffers at most its window for its reader. Slabs pinned by small views are
 * counted, and small pieces copied together, so that a peer cannot make one byte hold a slab: what
 * is pinned for a direction stays below 2 * its window + 3 * SN_SLAB_BYTES_MAX.
 * Thread-safe: no; one mux is used by one worker. Blocking: no. Callbacks are made from inside
 * sn_mux_input, sn_mux_input_data, sn_mux_lane_down and sn_mux_orphans_close only, may call any sn_stream_* function,
 * and may not free the mux. The output hook may come from any function; it only takes note.
 */
#ifndef SN_STREAM_MUX_H
#define SN_STREAM_MUX_H

#include <stdint.h>

#include "sennit/buf.h"
#include "stream/frame.h"

struct sn_mux;
struct sn_stream; /* one end of one stream */
struct sn_budget;

#define SN_LANES_MAX 9u /* lane 0 = control, 1..8 = bulk */

/* Flags of sn_stream_open. */
#define SN_STREAM_SESSION SN_FRAME_SESSION /* ends when its lane goes down, is never resumed */

/* Flags of sn_stream_write. */
#define SN_STREAM_OWN_HEADROOM                                                                     \
    1u /* the SN_FRAME_HEADER_BYTES before the piece belong to it alone */

/* What may be sent before the acceptor answered; known to both sides, so part of the protocol. */
#define SN_STREAM_INITIAL_CREDIT   (64u * 1024u)
#define SN_STREAM_WINDOW_BYTES_MAX (1u << 30)
/* A turn within a class. Small enough for latency, large enough to fill several TLS records. */
#define SN_STREAM_QUANTUM_BYTES (64u * 1024u)
/* An ack that nothing else hurries waits this long, so that request and response streams share it.
 * */
#define SN_STREAM_ACK_DELAY_NS 5000000u

struct sn_mux_ops {
    /* The peer opened a stream. Keep it (sn_stream_accept now or later) or sn_stream_reset it.
     * service and meta are borrowed until return. */
    void (*opened)(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                   uint32_t meta_size);
};

/* What a stream tells its user. Set with sn_stream_set_user; NULL entries are skipped. */
struct sn_stream_ops {
    void (*accepted)(void *user, struct sn_stream *stream);
    /* Something arrived since the last call: bytes, or the end. */
    void (*readable)(void *user, struct sn_stream *stream);
    void (*writable)(void *user, struct sn_stream *stream); /* after sn_stream_write said EAGAIN */
    void (*finished)(void *user, struct sn_stream *stream); /* our END and all bytes are acked */
    /* Reset by the peer, by a failure here (ENOMEM), by lane loss, or EIO: the peer's END told
     * another checksum than the bytes have. The last callback; the stream must still be freed. */
    void (*closed)(void *user, struct sn_stream *stream, enum sn_err reason);
};

struct sn_mux_config {
    const struct sn_mux_ops *ops;
    void *arg;
    /* Borrowed; NULL = no limit. Each stream takes two windows, one a direction. */
    struct sn_budget *budget;
    uint32_t window_bytes; /* largest window of a direction; >= INITIAL_CREDIT */
    /* First window of a direction, from where it grows as needed; >= INITIAL_CREDIT; 0 = window_bytes. */
    uint32_t window_base_bytes;
    uint32_t streams_max; /* opened by either side, together; at most SN_STREAMS_MAX */
    uint8_t even_ids;     /* 1 on exactly one of the two ends */
    uint8_t seed[16];     /* random: keys the table of streams, whose ids the peer chooses */
};

/* Errors: EINVAL (window or streams_max out of range), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_mux_new(const struct sn_mux_config *config, struct sn_mux **out_mux);
/* Frees streams that are left without calling back. */
void sn_mux_free(struct sn_mux *mux);

/* --- Lanes ------------------------------------------------------------------------------------ */

void sn_mux_lane_up(struct sn_mux *mux, unsigned lane);
/* The lane is gone. SESSION streams on it, and without `resume` all, are closed with `reason`;
 * others move to another lane that is up and resend from the cumulative ack, or wait as orphans
 * when none is. Harmless for a lane that is not up. */
void sn_mux_lane_down(struct sn_mux *mux, unsigned lane, int resume, enum sn_err reason);
/* How many wait; complete ones, of which nothing can be lost, do not. Orphans can be written, read, ended, reset and
 * freed as ever, within the same window. How long they may wait is the caller's affair. */
uint32_t sn_mux_orphans(const struct sn_mux *mux);
/* Moves the orphans to a lane that is up, if there is one; returns how many. */
uint32_t sn_mux_resume(struct sn_mux *mux);
/* Closes the orphans with `reason`. */
void sn_mux_orphans_close(struct sn_mux *mux, enum sn_err reason);

/* Next frame to be sent on the lane: answers and acks, then data, most urgent class first but none
 * starved (weights 16, 8, 4, 1), fair within a class. ENOENT when there is nothing; ENOMEM changes
 * nothing. The payload (payload->size == frame->size, empty view for 0) is a view that the caller
 * releases when written. max_data > 0 bounds the payload of DATA frames. The frame counts as sent.
 * *out_headroom: nonzero when the SN_FRAME_HEADER_BYTES before the payload may be overwritten with
 * the header although the mux keeps a view of the bytes. */
SN_MUST_CHECK enum sn_err sn_mux_output(struct sn_mux *mux, unsigned lane, uint32_t max_data,
                                        struct sn_frame *out_frame, struct sn_buf *out_payload,
                                        int *out_headroom);
/* Nonzero when sn_mux_output would yield a frame. */
int sn_mux_has_output(const struct sn_mux *mux, unsigned lane);
/* Called whenever a lane gets output after having had none, so that the owner can schedule
 * writing. */
void sn_mux_set_output_hook(struct sn_mux *mux, void (*hook)(void *arg, unsigned lane), void *arg);
/* Releases delayed acks whose time has come. To be called after a round of input and at the time
 * returned (UINT64_MAX: no need). now_ns: any monotonic clock. */
uint64_t sn_mux_tick(struct sn_mux *mux, uint64_t now_ns);

/* A stream frame (type >= SN_FRAME_OPEN) other than DATA arrived, complete. Errors: EPROTO: the
 * peer broke the protocol; ENOMEM: an answer could not be noted. Close the session upon both.
 * Frames for streams that are gone are ignored when they can be leftovers. */
SN_MUST_CHECK enum sn_err sn_mux_input(struct sn_mux *mux, unsigned lane,
                                       const struct sn_frame *frame, const uint8_t *payload);
/* A piece of a DATA frame arrived: `frame` is its header, `at` the piece's place in the payload.
 * The view is taken (released by the mux) in every case. */
SN_MUST_CHECK enum sn_err sn_mux_input_data(struct sn_mux *mux, unsigned lane,
                                            const struct sn_frame *frame, uint32_t at,
                                            struct sn_buf *piece);

/* --- Streams ---------------------------------------------------------------------------------- */

/* Opens a stream on `lane`. Writing may begin at once; SN_STREAM_INITIAL_CREDIT of it needs no
 * answer. Errors: EFULL (too many), ENOMEM (budget),
 * ETOOBIG (service, meta), EUNREACHABLE (the lane is down). */
SN_MUST_CHECK enum sn_err sn_stream_open(struct sn_mux *mux, unsigned lane, enum sn_qos qos,
                                         unsigned flags, const char *service, const void *meta,
                                         uint32_t meta_size, struct sn_stream **out_stream);
/* Accepts a stream the peer opened; gives it the first window. */
void sn_stream_accept(struct sn_stream *stream);
void sn_stream_set_user(struct sn_stream *stream, const struct sn_stream_ops *ops, void *user);

/* Hands a piece over to be sent; takes *piece (nulls it) on SN_OK. The view's bytes must not
 * change any more. flags: SN_STREAM_OWN_HEADROOM. Errors: EAGAIN (the retention window is full;
 * `writable` follows), ESTATE (after end), ECLOSED (reset), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_stream_write(struct sn_stream *stream, struct sn_buf *piece,
                                          unsigned flags);
/* Bytes that sn_stream_write would take now without EAGAIN (a single piece may exceed it). */
uint32_t sn_stream_writable_bytes(const struct sn_stream *stream);
/* No more bytes from us: half-close. Idempotent. */
void sn_stream_end(struct sn_stream *stream);

/* Next piece that arrived, in order. The view is the caller's. Errors: EAGAIN, ECLOSED (the peer
 * ended and everything was read: length and checksum matched), the reset reason: what was not read
 * by then is dropped. */
SN_MUST_CHECK enum sn_err sn_stream_read(struct sn_stream *stream, struct sn_buf *out_piece);
/* The index-th piece that arrived and was not read, lent until the next call for this stream. With it
 * and sn_stream_skip what a slow reader leaves stays in the stream, where it is bounded: slabs, too.
 * Errors: EAGAIN (there are no more), ECLOSED and the reset reason as for sn_stream_read. */
SN_MUST_CHECK enum sn_err sn_stream_look(const struct sn_stream *stream, uint32_t index,
                                         const uint8_t **out_data, uint32_t *out_size);
/* Drops the first `bytes` of what sn_stream_look showed and gives credit back for them. */
void sn_stream_skip(struct sn_stream *stream, uint32_t bytes);
/* Gives credit back for `bytes` that were read: the peer may send as many more. */
void sn_stream_consume(struct sn_stream *stream, uint32_t bytes);

/* Ends both directions now, tells the peer `reason`; `closed` is not called for it. */
void sn_stream_reset(struct sn_stream *stream, enum sn_err reason);
/* Forgets the stream: the user is done with it. A stream that is not finished in both directions
 * (`finished` was called and the peer's END has arrived) is reset with ECANCELLED. The pointer is
 * invalid afterwards. May be called from its own callbacks. */
void sn_stream_free(struct sn_stream *stream);

struct sn_stream_info {
    uint64_t id;
    uint8_t qos;
    uint8_t lane;
    uint8_t is_accepted;
    uint8_t is_local;  /* opened here */
    uint8_t sent_end;  /* END sent */
    uint8_t got_end;   /* END received */
    uint8_t is_orphan; /* waits for a lane, and is not complete */
    uint64_t sent;     /* bytes handed to lanes at least once */
    uint64_t acked;    /* bytes acknowledged by the peer */
    uint64_t received; /* bytes received in order */
    uint64_t consumed; /* bytes given credit for */
    uint32_t retained; /* bytes kept for resending or not sent yet */
    const char *service;
};
void sn_stream_info(const struct sn_stream *stream, struct sn_stream_info *out_info);
/* Iterates over all streams; NULL starts; NULL at the end. */
struct sn_stream *sn_mux_next_stream(const struct sn_mux *mux, const struct sn_stream *stream);

struct sn_mux_stats {
    uint64_t opened, accepted, refused, reset, finished; /* streams, both directions */
    uint64_t resumed; /* times that an orphan found a lane again */
    /* sent: without those sent again; received: without duplicates. */
    uint64_t sent_bytes, received_bytes, resent_bytes, duplicate_bytes;
    uint32_t open_now;
};
void sn_mux_stats(const struct sn_mux *mux, struct sn_mux_stats *out_stats);

#endif
