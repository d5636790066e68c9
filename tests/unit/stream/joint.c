/* SPDX-License-Identifier: Apache-2.0 */
#include "joint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

void joint_init(struct joint *joint, const struct sn_mux_config *config,
                const struct sn_mux_ops *ops0, const struct sn_mux_ops *ops1, void *arg)
{
    memset(joint, 0, sizeof *joint);
    joint->max_data = SN_FRAME_DATA_BYTES_MAX;
    for (unsigned i = 0; i < 2; i++) {
        struct sn_mux_config own = *config;
        own.ops = i == 0 ? ops0 : ops1;
        own.arg = arg;
        own.even_ids = (uint8_t)i;
        assert_int_equal(sn_mux_new(&own, &joint->mux[i]), SN_OK);
        for (unsigned lane = 0; lane < SN_LANES_MAX; lane++) {
            joint->queue[i][lane].last = &joint->queue[i][lane].first;
        }
    }
}

static struct joint_frame *take(struct joint_queue *queue)
{
    struct joint_frame *frame = queue->first;
    if (frame == NULL) return NULL;
    queue->first = frame->next;
    if (queue->first == NULL) queue->last = &queue->first;
    queue->count--;
    return frame;
}

static void drop(struct joint_frame *frame)
{
    sn_buf_unref(&frame->payload);
    sn_free(frame, sizeof *frame);
}

void joint_lose(struct joint *joint, unsigned lane)
{
    for (unsigned i = 0; i < 2; i++) {
        struct joint_frame *frame;
        while ((frame = take(&joint->queue[i][lane])) != NULL) drop(frame);
    }
}

void joint_fini(struct joint *joint)
{
    for (unsigned lane = 0; lane < SN_LANES_MAX; lane++) joint_lose(joint, lane);
    sn_mux_free(joint->mux[0]);
    sn_mux_free(joint->mux[1]);
}

void joint_up(struct joint *joint, unsigned lane)
{
    sn_mux_lane_up(joint->mux[0], lane);
    sn_mux_lane_up(joint->mux[1], lane);
}

void joint_down(struct joint *joint, unsigned lane, int resume, enum sn_err reason)
{
    joint_lose(joint, lane);
    sn_mux_lane_down(joint->mux[0], lane, resume, reason);
    sn_mux_lane_down(joint->mux[1], lane, resume, reason);
}

int joint_send(struct joint *joint, unsigned sender, unsigned lane)
{
    struct sn_frame header;
    struct sn_buf payload;
    int headroom = 0;
    struct sn_mux *mux = joint->mux[sender];
    int has = sn_mux_has_output(mux, lane);
    enum sn_err err = sn_mux_output(mux, lane, joint->max_data, &header, &payload, &headroom);
    if (err == SN_ENOENT) {
        assert_false(has);
        return 0;
    }
    assert_int_equal(err, SN_OK);
    assert_true(has);
    assert_int_equal(header.size, payload.size);
    struct joint_frame *frame = sn_alloc(sizeof *frame);
    assert_non_null(frame);
    sn_frame_encode(&header, frame->header);
    /* The promise of headroom is used, so that a false one shows as altered bytes. */
    if (headroom)
        memcpy(payload.data - SN_FRAME_HEADER_BYTES, frame->header, SN_FRAME_HEADER_BYTES);
    frame->payload = payload;
    struct joint_queue *queue = &joint->queue[sender][lane];
    *queue->last = frame;
    queue->last = &frame->next;
    queue->count++;
    joint->frames[sender]++;
    joint->wire_bytes[sender] += SN_FRAME_HEADER_BYTES + payload.size;
    if (header.type == SN_FRAME_ACK)
        joint->ack_bytes[sender] += SN_FRAME_HEADER_BYTES + payload.size;
    joint->last[sender] = header;
    return 1;
}

int joint_deliver(struct joint *joint, unsigned sender, unsigned lane, uint32_t cut,
                  uint32_t pieces)
{
    struct joint_frame *frame = take(&joint->queue[sender][lane]);
    if (frame == NULL) return 0;
    struct sn_mux *mux = joint->mux[1 - sender];
    struct sn_frame header;
    assert_int_equal(sn_frame_decode(frame->header, &header), SN_OK);
    if (header.type != SN_FRAME_DATA) {
        assert_int_equal(sn_mux_input(mux, lane, &header, frame->payload.data), SN_OK);
    }
    for (uint32_t at = 0; header.type == SN_FRAME_DATA && at < header.size && pieces > 0;
         pieces--) {
        uint32_t size = header.size - at < cut ? header.size - at : cut;
        /* A copy in a slab of its own, as the receiving end has one. */
        struct sn_buf piece;
        assert_int_equal(sn_buf_copy(frame->payload.data + at, size, &piece), SN_OK);
        assert_int_equal(sn_mux_input_data(mux, lane, &header, at, &piece), SN_OK);
        assert_null(piece.slab);
        at += size;
    }
    drop(frame);
    return 1;
}

void joint_settle(struct joint *joint)
{
    uint64_t now_ns = 1;
    for (int quiet = 0; quiet < 3;) {
        int moved = 0;
        for (unsigned i = 0; i < 2; i++) {
            for (unsigned lane = 0; lane < SN_LANES_MAX; lane++) {
                while (joint_send(joint, i, lane)) moved = 1;
                while (joint_deliver(joint, i, lane, UINT32_MAX, UINT32_MAX)) moved = 1;
            }
        }
        now_ns += SN_STREAM_ACK_DELAY_NS;
        (void)sn_mux_tick(joint->mux[0], now_ns); /* time passes anyway */
        (void)sn_mux_tick(joint->mux[1], now_ns);
        quiet = moved ? 0 : quiet + 1;
    }
}

uint8_t joint_byte(uint32_t seed, uint64_t at)
{
    uint64_t mixed = (at + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)seed << 17;
    return (uint8_t)(mixed >> 29);
}

struct sn_buf joint_piece(uint32_t seed, uint64_t at, uint32_t size, uint32_t headroom)
{
    struct sn_buf piece;
    assert_int_equal(sn_buf_new(size, headroom, &piece), SN_OK);
    for (uint32_t i = 0; i < size; i++) piece.data[i] = joint_byte(seed, at + i);
    piece.size = size;
    return piece;
}

uint64_t joint_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
