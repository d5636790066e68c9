/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between a stream socket that nng has at its other end and a stream of the mux, as whole SP
 * messages in the direction of nng. Knows nothing of nng but its framing (pump.h).
 *
 * Life: init (before there is a socket), start, ..., drain, shut, then fini once is_eof or without a start.
 * Draining lets go of the stream, writes out the whole messages that were on their way to the socket, and
 * discards what comes from it.
 * Threads: one worker. Blocking: no. Callbacks come from the worker's rounds and, for `failed`, also from
 * inside the mux; they may call drain and shut.
 */
#ifndef SN_LINK_SPLICE_H
#define SN_LINK_SPLICE_H

#include "actor/worker.h"
#include "link/pump.h"
#include "sennit/buf.h"
#include "stream/mux.h"

struct sn_splice_ops {
    /* At the end of a turn: counters and flags below may have changed. */
    void (*moved)(void *owner);
    /* The stream ended badly or in the middle of a message (its reason, EPROTO), the socket broke (EIO), or
     * memory ran out. At most once, never while draining. */
    void (*failed)(void *owner, enum sn_err reason);
};

struct sn_splice {
    struct sn_worker *worker;
    const struct sn_splice_ops *ops;
    void *owner;
    struct sn_io io;
    struct sn_sock sock;
    struct sn_stream *stream; /* NULL once draining */
    struct sn_sp_scan from_socket;
    struct sn_sp_scan from_stream;
    struct sn_sp_scan to_socket; /* what was written: a prefix of from_stream */
    struct sn_pump_queue inward; /* on the way to the socket */
    struct sn_buf spare;         /* slab to read into, empty */
    struct sn_buf stuck;         /* read from the socket, not taken by the stream yet */
    uint64_t written_bytes;      /* to the socket, without the hello */
    uint64_t taken_bytes;        /* of them those that nng's user has taken out */
    uint8_t is_draining;
    uint8_t is_shut;   /* we send no more */
    uint8_t is_eof;    /* the other end closed */
    uint8_t is_broken; /* writing failed */
    uint8_t is_ended;  /* the stream ended at a message boundary */
};

/* The stream is borrowed until start of draining, which frees it. */
void sn_splice_init(struct sn_splice *splice, struct sn_worker *worker, struct sn_stream *stream,
                    enum sn_io_priority priority, const struct sn_splice_ops *ops, void *owner);
/* Routes the stream's callbacks here. */
void sn_splice_attach(struct sn_splice *splice);
/* Takes the socket on SN_OK. Errors: ENOMEM, EIO. */
SN_MUST_CHECK enum sn_err sn_splice_start(struct sn_splice *splice, struct sn_sock sock);
/* nng's user took a parcel of this size out of its socket: room for more. */
void sn_splice_taken(struct sn_splice *splice, uint32_t parcel_bytes);
/* Idempotent. */
void sn_splice_drain(struct sn_splice *splice);
/* Nonzero when, while draining, nothing is left to be written toward the socket. */
int sn_splice_is_flushed(const struct sn_splice *splice);
/* Half-closes: no more bytes from us. Idempotent. */
void sn_splice_shut(struct sn_splice *splice);
/* Closes the socket and releases all buffers. */
void sn_splice_fini(struct sn_splice *splice);

#endif
