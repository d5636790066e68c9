/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: sn_mux_output takes constant time and allocates nothing but a slab for some 500
 * control payloads; when it fails nothing has changed. OPEN leaves before anything else of its
 * stream, RESET is the last.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "stream/bytes_int.h"
#include "stream/mux_int.h"

#define REPLIES_MIN 64u
#define CELLS_BYTES 4096u

/* Shares of the classes, in quanta. */
static const int64_t weights[SNI_CLASSES] = {16, 8, 4, 1};

/* --- Answers about streams that are not here -------------------------------------------------- */

static enum sn_err grow(struct sni_replies *replies)
{
    uint32_t capacity = replies->capacity == 0 ? REPLIES_MIN : replies->capacity * 2;
    if (capacity > SN_STREAMS_MAX) return SN_EPROTO;
    struct sni_reply *ring = sn_alloc(capacity * sizeof *ring);
    if (ring == NULL) return SN_ENOMEM;
    for (uint32_t i = 0; i < replies->count; i++) {
        ring[i] = replies->ring[(replies->head + i) & (replies->capacity - 1)];
    }
    sn_free(replies->ring, replies->capacity * sizeof *ring);
    replies->ring = ring;
    replies->capacity = capacity;
    replies->head = 0;
    return SN_OK;
}

enum sn_err sni_reply_push(struct sn_mux *mux, unsigned lane, const struct sni_reply *reply)
{
    struct sni_replies *replies = &mux->lanes[lane].replies;
    if (replies->count == replies->capacity) {
        enum sn_err err = grow(replies);
        if (err != SN_OK) return err;
    }
    int had_output = sni_lane_has_output(&mux->lanes[lane]);
    uint32_t index = (replies->head + replies->count) & (replies->capacity - 1);
    replies->ring[index] = *reply;
    replies->count++;
    if (!had_output && mux->hook != NULL) mux->hook(mux->hook_arg, lane);
    return SN_OK;
}

void sni_replies_fini(struct sni_replies *replies)
{
    sn_free(replies->ring, replies->capacity * sizeof *replies->ring);
    *replies = (struct sni_replies){0};
}

/* --- Control frames --------------------------------------------------------------------------- */

/* A small payload, cut from a slab that many share. */
static enum sn_err make_cell(struct sn_mux *mux, const void *bytes, uint32_t size,
                             struct sn_buf *out_payload)
{
    struct sn_buf *cells = &mux->cells;
    if (sn_buf_tailroom(cells) < size && sn_buf_is_sole(cells)) cells->size = 0;
    if (sn_buf_tailroom(cells) < size) {
        struct sn_buf fresh;
        enum sn_err err = sn_buf_new(CELLS_BYTES, 0, &fresh);
        if (err != SN_OK) return err;
        sn_buf_unref(cells);
        *cells = fresh;
    }
    uint32_t at = cells->size;
    memcpy(cells->data + at, bytes, size);
    cells->size += size;
    *out_payload = sn_buf_slice(cells, at, size);
    return SN_OK;
}

static enum sn_err make_u64(struct sn_mux *mux, uint64_t value, struct sn_buf *out_payload)
{
    uint8_t bytes[8];
    sni_put_u64(bytes, value);
    return make_cell(mux, bytes, sizeof bytes, out_payload);
}

static enum sn_err make_reset(struct sn_mux *mux, uint64_t reason, struct sn_frame *frame,
                              struct sn_buf *out_payload)
{
    uint8_t bytes[4];
    sni_put_u32(bytes, (uint32_t)reason);
    frame->type = SN_FRAME_RESET;
    return make_cell(mux, bytes, sizeof bytes, out_payload);
}

static enum sn_err output_reply(struct sn_mux *mux, struct sni_replies *replies,
                                struct sn_frame *frame, struct sn_buf *out_payload)
{
    const struct sni_reply *reply = &replies->ring[replies->head];
    enum sn_err err;
    *frame = (struct sn_frame){.stream = reply->id};
    if (reply->is_final) {
        frame->type = SN_FRAME_ACK;
        frame->flags = SN_FRAME_ENDED;
        frame->offset = reply->value;
        err = make_u64(mux, reply->value, out_payload);
    } else {
        err = make_reset(mux, reply->value, frame, out_payload);
    }
    if (err != SN_OK) return err;
    replies->head = (replies->head + 1) & (replies->capacity - 1);
    replies->count--;
    if (replies->count == 0) sni_replies_fini(replies);
    return SN_OK;
}

/* What the peer may send up to. Before acceptance it knows the initial credit without being told.
 * */
static uint64_t credit_limit(const struct sn_stream *stream)
{
    if (!stream->is_local && !stream->is_accepted) return stream->granted;
    return stream->consumed + stream->rx_window;
}

static enum sn_err make_ack(struct sn_stream *stream, struct sn_frame *frame,
                            struct sn_buf *out_payload)
{
    uint64_t limit = credit_limit(stream);
    if (limit < stream->received) limit = stream->received;
    if (limit < stream->granted) limit = stream->granted;
    enum sn_err err = make_u64(stream->mux, limit, out_payload);
    if (err != SN_OK) return err;
    frame->type = SN_FRAME_ACK;
    frame->offset = stream->received;
    if (stream->got_end) frame->flags = SN_FRAME_ENDED;
    if (stream->must_resume) frame->flags |= SN_FRAME_RESUME;
    stream->must_resume = 0;
    stream->granted = limit;
    stream->ack_sent = stream->received;
    sn_list_remove(&stream->delayed);
    return SN_OK;
}

static void make_open(struct sn_stream *stream, struct sn_frame *frame, struct sn_buf *out_payload)
{
    SN_ASSERT(stream->offer.size > 0);
    frame->type = SN_FRAME_OPEN;
    frame->flags = stream->flags;
    if (stream->must_resume) frame->flags |= SN_FRAME_RESUME;
    stream->must_resume = 0;
    stream->is_open_sent = 1;
    *out_payload = sn_buf_ref(&stream->offer);
}

static void make_accept(struct sn_stream *stream, struct sn_frame *frame,
                        struct sn_buf *out_payload)
{
    frame->type = SN_FRAME_ACCEPT;
    frame->offset = credit_limit(stream);
    if (stream->granted < frame->offset) stream->granted = frame->offset;
    *out_payload = (struct sn_buf){0};
}

/* The most urgent of what the stream owes. After a move the flagged ACK leaves before ACCEPT, so
 * that the peer expects repetitions. */
static uint8_t pick_pending(const struct sn_stream *stream)
{
    static const uint8_t order[] = {SNI_RESET, SNI_OPEN, SNI_ACCEPT};
    if (stream->must_resume && stream->pending & SNI_ACK) return SNI_ACK;
    for (unsigned i = 0; i < SN_ARRAY_COUNT(order); i++) {
        if (stream->pending & order[i]) return order[i];
    }
    SN_ASSERT(stream->pending == SNI_ACK);
    return SNI_ACK;
}

static enum sn_err output_control(struct sn_stream *stream, struct sn_frame *frame,
                                  struct sn_buf *out_payload)
{
    enum sn_err err = SN_OK;
    uint8_t what = pick_pending(stream);
    *frame = (struct sn_frame){.stream = stream->id, .qos = stream->qos};
    if (what == SNI_RESET) {
        err = make_reset(stream->mux, stream->reason, frame, out_payload);
    } else if (what == SNI_OPEN) {
        make_open(stream, frame, out_payload);
    } else if (what == SNI_ACCEPT) {
        make_accept(stream, frame, out_payload);
    } else {
        err = make_ack(stream, frame, out_payload);
    }
    if (err != SN_OK) return err;
    stream->pending &= (uint8_t)~what;
    sn_list_remove(&stream->control);
    sni_stream_schedule(stream);
    sni_stream_reap(stream);
    return SN_OK;
}

/* --- Data ------------------------------------------------------------------------------------- */

int sni_stream_can_send(const struct sn_stream *stream)
{
    if (stream->is_dead || stream->is_freed || stream->end_acked) return 0;
    if (!stream->is_local && !stream->is_accepted) return 0;
    if (stream->next < stream->written) return stream->next < stream->credit;
    return stream->end_wanted && !stream->end_sent;
}

/* The most urgent class with data that has some of its share left. */
static int pick_class(struct sni_lane *lane)
{
    for (;;) {
        int is_empty = 1;
        for (unsigned qos = 0; qos < SNI_CLASSES; qos++) {
            if (sn_list_is_empty(&lane->run[qos])) continue;
            if (lane->deficit[qos] > 0) return (int)qos;
            is_empty = 0;
        }
        if (is_empty) return -1;
        for (unsigned qos = 0; qos < SNI_CLASSES; qos++) {
            int64_t share = weights[qos] * SN_STREAM_QUANTUM_BYTES;
            lane->deficit[qos] += share;
            if (lane->deficit[qos] > share)
                lane->deficit[qos] = share; /* shares are not saved up */
        }
    }
}

/* Streams that overdrew their turn wait for as many rounds as they took too much. */
static struct sn_stream *pick_stream(struct sni_lane *lane, int qos)
{
    for (;;) {
        struct sn_list *node = sn_list_first(&lane->run[qos]);
        struct sn_stream *stream = SN_CONTAINER_OF(node, struct sn_stream, run);
        if (stream->turn > 0) return stream;
        stream->turn += (int32_t)SN_STREAM_QUANTUM_BYTES;
        sn_list_remove(node);
        sn_list_push(&lane->run[qos], node);
    }
}

static enum sn_err output_end(struct sn_stream *stream, struct sn_frame *frame,
                              struct sn_buf *out_payload)
{
    enum sn_err err = make_u64(stream->mux, sni_hash_value(&stream->tx_hash), out_payload);
    if (err != SN_OK) return err;
    frame->type = SN_FRAME_END;
    frame->offset = stream->written;
    stream->end_sent = stream->end_sent_once = 1;
    return SN_OK;
}

static void count_sent(struct sn_stream *stream, uint32_t size)
{
    uint64_t end = stream->next + size;
    uint64_t fresh = end > stream->sent_max ? end - stream->sent_max : 0;
    if (fresh > size) fresh = size;
    stream->mux->stats.sent_bytes += fresh;
    stream->mux->stats.resent_bytes += size - fresh;
    if (end > stream->sent_max) stream->sent_max = end;
    stream->next = end;
}

static void output_data(struct sn_stream *stream, uint32_t max_data, struct sn_frame *frame,
                        struct sn_buf *out_payload, int *out_headroom)
{
    struct sni_piece *piece = sni_pieces_at(&stream->tx, stream->next_piece);
    if (stream->next_at == piece->buf.size) {
        piece = sni_pieces_at(&stream->tx, ++stream->next_piece);
        stream->next_at = 0;
    }
    uint64_t size = piece->buf.size - stream->next_at;
    uint64_t credit = stream->credit - stream->next;
    SN_ASSERT(size > 0 && credit > 0);
    if (size > max_data) size = max_data;
    if (size > credit) size = credit;
    frame->type = SN_FRAME_DATA;
    frame->offset = stream->next;
    *out_payload = sn_buf_slice(&piece->buf, stream->next_at, (uint32_t)size);
    /* Not when sent again: a lane that died may still hold the header it put there. */
    *out_headroom = piece->headroom && stream->next_at == 0 && stream->next >= stream->sent_max;
    stream->next_at += (uint32_t)size;
    count_sent(stream, (uint32_t)size);
    if (stream->want_write && stream->next == stream->written) frame->flags = SN_FRAME_AWAITED;
}

static enum sn_err output_run(struct sni_lane *lane, uint32_t max_data, struct sn_frame *frame,
                              struct sn_buf *out_payload, int *out_headroom)
{
    int qos = pick_class(lane);
    if (qos < 0) return SN_ENOENT;
    struct sn_stream *stream = pick_stream(lane, qos);
    *frame = (struct sn_frame){.stream = stream->id, .qos = stream->qos};
    if (stream->next < stream->written) {
        output_data(stream, max_data, frame, out_payload, out_headroom);
    } else {
        enum sn_err err = output_end(stream, frame, out_payload);
        if (err != SN_OK) return err;
    }
    uint32_t cost = out_payload->size + SN_FRAME_HEADER_BYTES;
    lane->deficit[qos] -= cost;
    stream->turn -= (int32_t)cost;
    if (!sni_stream_can_send(stream)) sn_list_remove(&stream->run);
    return SN_OK;
}

enum sn_err sn_mux_output(struct sn_mux *mux, unsigned lane, uint32_t max_data,
                          struct sn_frame *out_frame, struct sn_buf *out_payload, int *out_headroom)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    SN_ASSERT(lane < SN_LANES_MAX);
    SN_ASSERT(max_data > 0);
    struct sni_lane *from = &mux->lanes[lane];
    if (!from->is_up) return SN_ENOENT;
    struct sn_frame frame;
    struct sn_buf payload;
    int headroom = 0;
    enum sn_err err;
    struct sn_list *node = sn_list_first(&from->control);
    if (from->replies.count > 0) {
        err = output_reply(mux, &from->replies, &frame, &payload);
    } else if (node != NULL) {
        err = output_control(SN_CONTAINER_OF(node, struct sn_stream, control), &frame, &payload);
    } else {
        err = output_run(from, max_data, &frame, &payload, &headroom);
    }
    if (err != SN_OK) return err;
    frame.size = payload.size;
    *out_frame = frame;
    *out_payload = payload;
    *out_headroom = headroom;
    return SN_OK;
}
