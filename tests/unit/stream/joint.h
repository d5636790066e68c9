/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two muxes joined by lanes in memory: FIFO queues of encoded frames, delivered one at a time,
 * whole or in fragments, or lost with their lane.
 */
#ifndef SN_TESTS_UNIT_STREAM_JOINT_H
#define SN_TESTS_UNIT_STREAM_JOINT_H

#include "stream/mux.h"

struct joint_frame {
    struct joint_frame *next;
    uint8_t header[SN_FRAME_HEADER_BYTES];
    struct sn_buf payload;
};

struct joint_queue {
    struct joint_frame *first;
    struct joint_frame **last;
    uint32_t count;
};

struct joint {
    struct sn_mux *mux[2];                     /* 0 has odd ids, 1 even */
    struct joint_queue queue[2][SN_LANES_MAX]; /* [sender][lane] */
    uint32_t max_data;
    uint64_t frames[2];      /* sent by each */
    uint64_t wire_bytes[2];  /* with headers */
    uint64_t ack_bytes[2];   /* of them in ACK frames */
    struct sn_frame last[2]; /* last frame sent by each */
};

/* config.ops and arg of each side are given; the rest is common. */
void joint_init(struct joint *joint, const struct sn_mux_config *config,
                const struct sn_mux_ops *ops0, const struct sn_mux_ops *ops1, void *arg);
void joint_fini(struct joint *joint);
void joint_up(struct joint *joint, unsigned lane);
/* Both ends lose the lane, and whatever is under way on it. */
void joint_down(struct joint *joint, unsigned lane, int resume, enum sn_err reason);
/* Loses what is under way on the lane; neither end knows yet. */
void joint_lose(struct joint *joint, unsigned lane);
/* One frame from the sender's mux to the queue; 0 when there is none. */
int joint_send(struct joint *joint, unsigned sender, unsigned lane);
/* One frame from the queue to the other mux, DATA cut into pieces of at most `cut` bytes, of which
 * at most `pieces` are delivered; 0 when there was none. Fails the test when the mux refuses. */
int joint_deliver(struct joint *joint, unsigned sender, unsigned lane, uint32_t cut,
                  uint32_t pieces);
/* Sends, delivers and ticks until nothing moves. */
void joint_settle(struct joint *joint);

/* Bytes of test streams: position and seed decide. */
uint8_t joint_byte(uint32_t seed, uint64_t at);
struct sn_buf joint_piece(uint32_t seed, uint64_t at, uint32_t size, uint32_t headroom);

uint64_t joint_random(uint64_t *state); /* splitmix64 */

#endif
