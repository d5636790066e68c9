/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: stream data is handed on as views of the slab it was read into; a header or session frame that is not
 * complete is carried over to the next slab (at most SN_FRAME_CONTROL_BYTES_MAX bytes); a frame begun is finished
 * before the next.
 */
#include "peer/framer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define SMALL_PAYLOAD 4096u /* copied behind its header, so that both go in one record */

enum sn_err sn_framer_init(struct sn_framer *framer, struct sn_lane *lane, uint32_t slab_bytes,
                           enum sn_err (*session_frame)(void *user, const struct sn_frame *frame,
                                                        const uint8_t *payload),
                           void *user)
{
    SN_ASSERT(slab_bytes <= SN_SLAB_BYTES_MAX);
    SN_ASSERT(slab_bytes >= 2 * (SN_FRAME_CONTROL_BYTES_MAX + SN_FRAME_HEADER_BYTES));
    *framer = (struct sn_framer){
        .lane = lane, .slab_bytes = slab_bytes, .session_frame = session_frame, .user = user};
    framer->control = sn_alloc_raw(SN_FRAMER_CONTROL_BYTES);
    return framer->control == NULL ? SN_ENOMEM : SN_OK;
}

void sn_framer_fini(struct sn_framer *framer)
{
    sn_buf_unref(&framer->input);
    sn_buf_unref(&framer->payload);
    sn_free(framer->control, SN_FRAMER_CONTROL_BYTES);
    framer->control = NULL;
}

/* --- Reading ------------------------------------------------------------------------------------- */

/* Makes room for reading: starts the slab anew when nobody else holds it, else carries the unparsed rest over to a
 * fresh one. */
static enum sn_err make_room(struct sn_framer *framer)
{
    uint32_t left = framer->input.size - framer->parsed;
    uint32_t tail = sn_buf_tailroom(&framer->input);
    if (left == 0 && framer->parsed > 0 && sn_buf_is_sole(&framer->input)) {
        framer->input.size = framer->parsed = 0;
        return SN_OK;
    }
    if (tail >= SN_FRAME_CONTROL_BYTES_MAX + SN_FRAME_HEADER_BYTES) return SN_OK;
    struct sn_buf fresh;
    enum sn_err err = sn_buf_new(framer->slab_bytes, 0, &fresh);
    if (err != SN_OK) return err;
    if (left > 0) memcpy(fresh.data, framer->input.data + framer->parsed, left);
    fresh.size = left;
    sn_buf_unref(&framer->input);
    framer->input = fresh;
    framer->parsed = 0;
    return SN_OK;
}

/* Hands on the part of a DATA frame that is there. */
static enum sn_err take_data(struct sn_framer *framer)
{
    uint32_t wanted = framer->frame.size - framer->frame_got;
    uint32_t there = framer->input.size - framer->parsed;
    uint32_t size = wanted < there ? wanted : there;
    if (size > 0) {
        struct sn_buf piece = sn_buf_slice(&framer->input, framer->parsed, size);
        enum sn_err err = sn_mux_input_data(framer->mux, framer->lane_index, &framer->frame,
                                            framer->frame_got, &piece);
        if (err != SN_OK) return err;
    }
    framer->parsed += size;
    framer->frame_got += size;
    framer->in_data = framer->frame_got < framer->frame.size;
    return SN_OK;
}

/* Handles the next frame, or the part of it that is there. EAGAIN: more bytes are needed. */
static enum sn_err take_frame(struct sn_framer *framer)
{
    uint32_t there = framer->input.size - framer->parsed;
    if (framer->in_data) return there == 0 ? SN_EAGAIN : take_data(framer);
    if (there < SN_FRAME_HEADER_BYTES) return SN_EAGAIN;
    const uint8_t *at = framer->input.data + framer->parsed;
    enum sn_err err = sn_frame_decode(at, &framer->frame);
    if (err != SN_OK) return err;
    int is_stream = framer->frame.type >= SN_FRAME_OPEN;
    if (is_stream && framer->mux == NULL) return SN_EPROTO;
    if (framer->frame.type == SN_FRAME_DATA) {
        framer->parsed += SN_FRAME_HEADER_BYTES;
        framer->frame_got = 0;
        framer->in_data = 1;
        return framer->frame.size == 0 ? SN_EPROTO : SN_OK;
    }
    if (there < SN_FRAME_HEADER_BYTES + framer->frame.size) return SN_EAGAIN;
    framer->parsed += SN_FRAME_HEADER_BYTES + framer->frame.size;
    const uint8_t *payload = at + SN_FRAME_HEADER_BYTES;
    if (is_stream) return sn_mux_input(framer->mux, framer->lane_index, &framer->frame, payload);
    return framer->session_frame(framer->user, &framer->frame, payload);
}

static enum sn_err take_frames(struct sn_framer *framer)
{
    for (;;) {
        enum sn_err err = take_frame(framer);
        if (err == SN_EAGAIN) return SN_OK;
        if (err != SN_OK) return err;
    }
}

enum sn_err sn_framer_read(struct sn_framer *framer, uint32_t budget)
{
    uint32_t done = 0;
    while (done < budget) {
        size_t got = 0;
        enum sn_err err = make_room(framer);
        if (err != SN_OK) return err;
        err = sn_lane_read(framer->lane, framer->input.data + framer->input.size,
                           sn_buf_tailroom(&framer->input), &got);
        if (err != SN_OK) return err;
        SN_ASSERT(got > 0);
        framer->input.size += (uint32_t)got;
        done += (uint32_t)got;
        err = take_frames(framer);
        if (err != SN_OK) return err == SN_EAGAIN ? SN_EPROTO : err;
    }
    return SN_OK;
}

/* --- Writing --------------------------------------------------------------------------------------- */

enum sn_err sn_framer_send(struct sn_framer *framer, enum sn_frame_type type, const void *payload,
                           uint32_t size)
{
    struct sn_frame frame = {.type = (uint8_t)type, .size = size};
    if (framer->control_at == framer->control_size) framer->control_at = framer->control_size = 0;
    if (size > SN_FRAMER_CONTROL_BYTES - SN_FRAME_HEADER_BYTES ||
        framer->control_size > SN_FRAMER_CONTROL_BYTES - SN_FRAME_HEADER_BYTES - size) {
        return SN_EFULL;
    }
    sn_frame_encode(&frame, framer->control + framer->control_size);
    framer->control_size += SN_FRAME_HEADER_BYTES;
    if (size > 0) memcpy(framer->control + framer->control_size, payload, size);
    framer->control_size += size;
    return SN_OK;
}

static int is_in_frame(const struct sn_framer *framer)
{
    return framer->header_left > 0 || framer->payload.size > 0;
}

int sn_framer_has_output(const struct sn_framer *framer)
{
    if (is_in_frame(framer) || framer->control_at < framer->control_size) return 1;
    return framer->mux != NULL && sn_mux_has_output(framer->mux, framer->lane_index);
}

static enum sn_err write_control(struct sn_framer *framer)
{
    size_t sent = 0;
    enum sn_err err = sn_lane_write(framer->lane, framer->control + framer->control_at,
                                    framer->control_size - framer->control_at, &sent);
    if (err != SN_OK) return err;
    framer->control_at += (uint32_t)sent;
    return SN_OK;
}

static void drop_front(struct sn_buf *buf, uint32_t size)
{
    buf->data += size;
    buf->size -= size;
    if (buf->size == 0) sn_buf_unref(buf);
}

/* Writes header and payload of the frame at hand, together when the payload is small. */
static enum sn_err write_frame(struct sn_framer *framer)
{
    size_t sent = 0;
    enum sn_err err;
    if (framer->header_left > 0) {
        const uint8_t *header = framer->header + SN_FRAME_HEADER_BYTES - framer->header_left;
        err = sn_lane_write(framer->lane, header, framer->header_left, &sent);
        if (err != SN_OK) return err;
        framer->header_left -= (uint32_t)sent;
        return SN_OK;
    }
    err = sn_lane_write(framer->lane, framer->payload.data, framer->payload.size, &sent);
    if (err != SN_OK) return err;
    drop_front(&framer->payload, (uint32_t)sent);
    return SN_OK;
}

/* Joins a small payload and its header in one fresh view; keeps both apart when memory is short. */
static void join_small(struct sn_framer *framer)
{
    struct sn_buf joined;
    if (sn_buf_new(framer->payload.size + SN_FRAME_HEADER_BYTES, 0, &joined) != SN_OK) return;
    memcpy(joined.data, framer->header, SN_FRAME_HEADER_BYTES);
    memcpy(joined.data + SN_FRAME_HEADER_BYTES, framer->payload.data, framer->payload.size);
    joined.size = framer->payload.size + SN_FRAME_HEADER_BYTES;
    sn_buf_unref(&framer->payload);
    framer->payload = joined;
    framer->header_left = 0;
}

static enum sn_err next_frame(struct sn_framer *framer)
{
    struct sn_frame frame;
    int has_headroom = 0;
    enum sn_err err = sn_mux_output(framer->mux, framer->lane_index, SN_FRAME_DATA_BYTES_MAX,
                                    &frame, &framer->payload, &has_headroom);
    if (err != SN_OK) return err;
    if (has_headroom) {
        framer->payload.data -= SN_FRAME_HEADER_BYTES;
        framer->payload.size += SN_FRAME_HEADER_BYTES;
        sn_frame_encode(&frame, framer->payload.data);
        return SN_OK;
    }
    sn_frame_encode(&frame, framer->header);
    framer->header_left = SN_FRAME_HEADER_BYTES;
    if (frame.size > 0 && frame.size <= SMALL_PAYLOAD) join_small(framer);
    return SN_OK;
}

enum sn_err sn_framer_write(struct sn_framer *framer, uint32_t budget)
{
    uint64_t begin = framer->lane->sent_bytes;
    enum sn_err err = SN_OK;
    while (err == SN_OK && framer->lane->sent_bytes - begin < budget) {
        if (is_in_frame(framer)) {
            err = write_frame(framer);
        } else if (framer->control_at < framer->control_size) {
            err = write_control(framer);
        } else if (framer->mux != NULL) {
            err = next_frame(framer);
        } else {
            err = SN_ENOENT;
        }
    }
    sn_lane_flush(framer->lane);
    return err == SN_ENOENT ? SN_OK : err;
}
