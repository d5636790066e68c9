/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over one lane: cuts what arrives into frames without copying stream data, and writes frames with their
 * headers in front. Before a mux is joined only session frames are allowed.
 * Threads: the lane's worker. Blocking: no.
 */
#ifndef SN_PEER_FRAMER_H
#define SN_PEER_FRAMER_H

#include "carrier/carrier.h"
#include "stream/mux.h"

#define SN_FRAMER_CONTROL_BYTES                                                                    \
    16384u /* session frames waiting to be written; a handshake needs 1 KiB */

struct sn_framer {
    struct sn_lane *lane;
    struct sn_mux *mux; /* NULL until the session is up */
    unsigned lane_index;
    /* A whole session frame arrived; an error ends the lane. */
    enum sn_err (*session_frame)(void *user, const struct sn_frame *frame, const uint8_t *payload);
    void *user;

    struct sn_buf input; /* bytes read; [parsed, size) are still to be parsed */
    uint32_t parsed;
    uint32_t slab_bytes;   /* size of input slabs: small ones on the control lane */
    struct sn_frame frame; /* the one being read */
    uint32_t frame_got;    /* payload bytes of a DATA frame handed on so far */
    uint8_t in_data;

    struct sn_buf payload; /* rest of the frame being written */
    uint8_t header[SN_FRAME_HEADER_BYTES];
    uint32_t header_left; /* bytes of `header` still to be written, from its end */
    uint32_t control_size;
    uint32_t control_at;
    uint8_t *control; /* SN_FRAMER_CONTROL_BYTES */
};

SN_MUST_CHECK enum sn_err sn_framer_init(
    struct sn_framer *framer, struct sn_lane *lane, uint32_t slab_bytes,
    enum sn_err (*session_frame)(void *user, const struct sn_frame *frame, const uint8_t *payload),
    void *user);
void sn_framer_fini(struct sn_framer *framer);

/* Reads and handles up to about `budget` bytes. SN_OK: there may be more (call again); EAGAIN: the lane is empty;
 * anything else: end the lane. */
SN_MUST_CHECK enum sn_err sn_framer_read(struct sn_framer *framer, uint32_t budget);

/* Queues a session frame. Errors: EFULL. */
SN_MUST_CHECK enum sn_err sn_framer_send(struct sn_framer *framer, enum sn_frame_type type,
                                         const void *payload, uint32_t size);

/* Writes what is queued and what the mux has, up to about `budget` bytes. SN_OK: everything was written or the
 * budget is used up (see sn_framer_has_output); EAGAIN: the lane is full; anything else: end the lane. */
SN_MUST_CHECK enum sn_err sn_framer_write(struct sn_framer *framer, uint32_t budget);
int sn_framer_has_output(const struct sn_framer *framer);

#endif
