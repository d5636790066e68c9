/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: what travels inside a lane (an ordered, authenticated byte pipe; carrier/carrier.h).
 * Header, 24 bytes, big endian:
 *   u8 type | u8 flags | u8 qos | u8 zero | u32 payload size | u64 stream | u64 offset
 * Thread-safe: yes (pure functions). Blocking: no.
 */
#ifndef SN_STREAM_FRAME_H
#define SN_STREAM_FRAME_H

#include <stdint.h>

#include "sennit/err.h"
#include "sennit/limits.h"

#define SN_FRAME_HEADER_BYTES      24u
#define SN_FRAME_DATA_BYTES_MAX    SN_SLAB_BYTES_MAX
#define SN_FRAME_CONTROL_BYTES_MAX SN_HELLO_BYTES_MAX /* payload of every type but DATA */

enum sn_frame_type {
    /* Session frames: stream and offset are zero. Handled by peer/session.c. */
    SN_FRAME_HELLO = 1,   /* payload: msgpack, carrier/hello.h */
    SN_FRAME_AUTH = 2,    /* payload: signature over the handshake transcript */
    SN_FRAME_READY = 3,   /* the sender considers the session up */
    SN_FRAME_REFUSE = 4,  /* payload: msgpack reason; the sender closes */
    SN_FRAME_PING = 5,    /* payload: 8 bytes chosen by the sender */
    SN_FRAME_PONG = 6,    /* payload: the 8 bytes of the ping */
    SN_FRAME_GOODBYE = 7, /* orderly end: nothing follows */
    /* Stream frames: handled by stream/mux.c. */
    SN_FRAME_OPEN = 16, /* payload: msgpack {0: service, 1: meta, 2: credit limit of the opener} */
    SN_FRAME_ACCEPT = 17, /* offset: credit limit of the acceptor */
    SN_FRAME_DATA = 18,   /* offset of the first byte; payload: the bytes */
    SN_FRAME_ACK = 19,    /* offset: cumulative ack; payload: u64 credit limit (absolute offset) */
    SN_FRAME_END = 20,    /* offset: total length; payload: u64 XXH3-64 of all bytes */
    SN_FRAME_RESET = 21   /* payload: u32 reason (enum sn_err): both directions end */
};

/* Flags of stream frames; bits not listed for a type are zero. */
#define SN_FRAME_SESSION 0x01u /* OPEN: the stream ends with its lane and is never resumed */
#define SN_FRAME_AWAITED 0x04u /* DATA: the sender can go on only when it is acknowledged */
#define SN_FRAME_ENDED   0x02u /* ACK: END was received too, length and checksum matched */
/* OPEN, ACK: first frame after the stream moved to another lane; must be answered with RESET when
 * the stream is not known (any more). */
#define SN_FRAME_RESUME 0x80u

/* Four classes of service, in order of urgency. */
enum sn_qos { SN_QOS_CONTROL = 0, SN_QOS_INTERACTIVE = 1, SN_QOS_BULK = 2, SN_QOS_BACKGROUND = 3 };

struct sn_frame {
    uint8_t type;
    uint8_t flags;
    uint8_t qos;
    uint32_t size; /* payload bytes */
    uint64_t stream;
    uint64_t offset;
};

void sn_frame_encode(const struct sn_frame *frame, uint8_t out[SN_FRAME_HEADER_BYTES]);
/* Checks type, flags, zero byte, qos and the payload limit of the type. Errors: EPROTO, ETOOBIG. */
SN_MUST_CHECK enum sn_err sn_frame_decode(const uint8_t bytes[SN_FRAME_HEADER_BYTES],
                                          struct sn_frame *out_frame);

#endif
