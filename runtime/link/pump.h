/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the pump between nng and a stream knows about bytes: SP framing as libnng speaks it over ipc, and a
 * queue of views that are whole messages up to a mark. Pure functions of memory: no I/O, no clock, no nng.
 *
 * A connection carries, in each direction, a hello of 8 bytes (00 'S' 'P' 00, protocol, 00 00) and then
 * messages: 01, u64 length, body; PAIR v1 puts a hop count of 4 bytes before the body. All big endian.
 * Thread-safe: no. Blocking: no.
 */
#ifndef SN_LINK_PUMP_H
#define SN_LINK_PUMP_H

#include <stdint.h>

#include "sennit/buf.h"
#include "sennit/limits.h"

#define SN_SP_HELLO_BYTES 8u
#define SN_SP_HEAD_BYTES  13u /* type, length, hop count */
#define SN_SP_HOPS_BYTES  4u

/* Follows one direction of one connection. Zeroed = before the hello. */
struct sn_sp_scan {
    uint64_t messages;      /* complete ones */
    uint64_t message_bytes; /* of complete ones, heads included, without the hello */
    uint32_t body_size;     /* of the message under way */
    uint32_t body_left;
    uint8_t has_hello;
    uint8_t have; /* bytes of the hello, or of the head under way */
    uint8_t head[SN_SP_HEAD_BYTES];
};

/* Takes the next bytes. *out_boundary is the place just after the last unit (hello or message) that ends in
 * them, 0 when none does. Refuses everything that nng would refuse, drop or stumble over, and parcels that are
 * empty or too long. Errors: EPROTO, and the scan is of no more use. */
SN_MUST_CHECK enum sn_err sn_sp_scan(struct sn_sp_scan *scan, const uint8_t *bytes, uint32_t size,
                                     uint32_t *out_boundary);
/* Nonzero between two units. */
int sn_sp_is_boundary(const struct sn_sp_scan *scan);

/* Views in stream order. Small pieces are copied together, so that neither their number nor the slabs they pin
 * can grow beyond what their bytes are worth. */
#define SN_PUMP_COPY_BYTES_MAX  8192u
#define SN_PUMP_COPY_SLAB_BYTES 16384u
/* One message that is not complete, and the piece that completes it. */
#define SN_PUMP_BYTES_MAX                                                                          \
    (2u * (SN_SLAB_BYTES_MAX + SN_HEADROOM_MAX) + SN_SP_HEAD_BYTES + SN_SP_HELLO_BYTES)
/* Two neighbours are always longer than SN_PUMP_COPY_BYTES_MAX together: a view is a longer piece, or a slab of
 * copies that is followed by a longer piece, or that had no room for a small one any more. */
#define SN_PUMP_VIEWS_MAX (2u * (SN_PUMP_BYTES_MAX / SN_PUMP_COPY_BYTES_MAX) + 4u)

struct sn_pump_queue {
    struct sn_buf views[SN_PUMP_VIEWS_MAX];
    uint32_t head; /* ring */
    uint32_t count;
    uint32_t bytes;
    uint32_t whole;       /* of them, from the start, those that are whole units */
    uint8_t tail_is_copy; /* the last view is a slab of ours that may be appended to */
};

/* Appends a piece (not empty), of which the first `boundary` bytes end a unit; 0 = none ends in it. Room is the
 * caller's duty: bytes + piece->size <= SN_PUMP_BYTES_MAX. The piece is taken on SN_OK. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sn_pump_push(struct sn_pump_queue *queue, struct sn_buf *piece,
                                       uint32_t boundary);
/* The index-th view from the start (index < count). */
const struct sn_buf *sn_pump_at(const struct sn_pump_queue *queue, uint32_t index);
/* Removes the first `size` bytes (<= whole). */
void sn_pump_advance(struct sn_pump_queue *queue, uint32_t size);
/* Drops what follows the whole units. */
void sn_pump_drop_rest(struct sn_pump_queue *queue);
/* Drops everything. */
void sn_pump_clear(struct sn_pump_queue *queue);

#endif
