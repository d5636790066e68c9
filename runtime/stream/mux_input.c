/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a frame is judged completely before it changes anything; a piece of DATA is appended
 * only at the offset where the stream stands; nothing a peer sends takes more than the credit it
 * was given.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "stream/bytes_int.h"
#include "stream/mux_int.h"
#include "wire/cursor.h"

/* --- Which ids were used ---------------------------------------------------------------------- */

enum seen { SEEN_NEVER, SEEN_USED, SEEN_TOO_OLD };

static enum seen seen_check(const struct sni_seen *seen, uint64_t ordinal)
{
    if (ordinal > seen->high) return SEEN_NEVER;
    if (seen->high - ordinal >= SNI_SEEN_IDS) return SEEN_TOO_OLD;
    uint64_t bit = ordinal % SNI_SEEN_IDS;
    return seen->bits[bit / 64] >> (bit % 64) & 1 ? SEEN_USED : SEEN_NEVER;
}

static void seen_mark(struct sni_seen *seen, uint64_t ordinal)
{
    if (ordinal > seen->high && ordinal - seen->high >= SNI_SEEN_IDS) {
        memset(seen->bits, 0, sizeof seen->bits);
        seen->high = ordinal;
    }
    while (seen->high < ordinal) {
        uint64_t bit = ++seen->high % SNI_SEEN_IDS;
        seen->bits[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
    }
    uint64_t bit = ordinal % SNI_SEEN_IDS;
    seen->bits[bit / 64] |= UINT64_C(1) << (bit % 64);
}

/* --- Frames for streams that are not here ----------------------------------------------------- */

static enum sn_err refuse(struct sn_mux *mux, unsigned lane, uint64_t id, enum sn_err reason)
{
    struct sni_reply reply = {.id = id, .value = (uint64_t)reason};
    return sni_reply_push(mux, lane, &reply);
}

/* The peer resumes a stream that is gone: it ended well, or it did not. */
static enum sn_err answer_resume(struct sn_mux *mux, unsigned lane, uint64_t id)
{
    for (unsigned i = 0; i < SNI_FINALS; i++) {
        if (mux->finals[i].id == id) return sni_reply_push(mux, lane, &mux->finals[i]);
    }
    return refuse(mux, lane, id, SN_ECLOSED);
}

static enum sn_err input_unknown(struct sn_mux *mux, unsigned lane, const struct sn_frame *frame)
{
    uint64_t known = sni_id_is_local(mux, frame->stream) ? mux->last_ordinal : mux->seen.high;
    if (sni_id_ordinal(frame->stream) > known) return SN_EPROTO;
    if ((frame->flags & SN_FRAME_RESUME) == 0) return SN_OK; /* a leftover */
    mux->has_resumed = 1;
    return answer_resume(mux, lane, frame->stream);
}

static enum sn_err answer_final(struct sn_mux *mux, unsigned lane, const struct sn_stream *stream)
{
    struct sni_reply reply = {.id = stream->id, .value = stream->received, .is_final = 1};
    return sni_reply_push(mux, lane, &reply);
}

/* The peer moved the stream to another lane and tells so. */
static enum sn_err input_resume(struct sn_mux *mux, unsigned lane, struct sn_stream *stream)
{
    mux->has_resumed = 1;
    stream->has_resumed = 1;
    if (stream->is_dead) return refuse(mux, lane, stream->id, stream->reason);
    if (stream->is_complete) return answer_final(mux, lane, stream);
    /* No other answer: what we send is lost only with our own lane, and then we resume, too. */
    return SN_OK;
}

/* --- OPEN, ACCEPT, RESET ---------------------------------------------------------------------- */

struct offer {
    char service[SN_SERVICE_BYTES_MAX + 1];
    const uint8_t *meta;
    uint32_t meta_size;
    uint64_t credit;
};

static enum sn_err parse_offer(const uint8_t *payload, uint32_t size, struct offer *out_offer)
{
    struct offer offer = {.meta = (const uint8_t *)""};
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, payload, size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        uint64_t key = sn_cursor_uint(&cursor, UINT32_MAX);
        size_t meta_size = 0;
        switch (key) {
        case 0: sn_cursor_text_copy(&cursor, offer.service, sizeof offer.service); break;
        case 1:
            offer.meta = sn_cursor_bin(&cursor, SN_STREAM_META_BYTES_MAX, &meta_size);
            offer.meta_size = (uint32_t)meta_size;
            break;
        case 2: offer.credit = sn_cursor_uint(&cursor, SN_STREAM_WINDOW_BYTES_MAX); break;
        default: sn_cursor_skip(&cursor); break;
        }
    }
    enum sn_err err = sn_cursor_finish(&cursor);
    if (err != SN_OK || offer.service[0] == 0) return SN_EPROTO;
    if (offer.credit < SN_STREAM_INITIAL_CREDIT) return SN_EPROTO;
    *out_offer = offer;
    return SN_OK;
}

static enum sn_err open_new(struct sn_mux *mux, unsigned lane, const struct sn_frame *frame,
                            const struct offer *offer)
{
    struct sn_stream *stream = NULL;
    enum sn_err err = SN_EDENIED;
    seen_mark(&mux->seen, sni_id_ordinal(frame->stream));
    if (mux->config.ops->opened != NULL)
        err = sni_mux_add(mux, frame->stream, lane, frame->flags, &stream);
    if (err != SN_OK) {
        mux->stats.refused++;
        return refuse(mux, lane, frame->stream, err);
    }
    stream->qos = frame->qos;
    stream->flags = frame->flags & SN_STREAM_SESSION;
    stream->has_resumed = (frame->flags & SN_FRAME_RESUME) != 0;
    stream->is_confirmed = 1;
    stream->credit = offer->credit;
    stream->granted = SN_STREAM_INITIAL_CREDIT;
    memcpy(stream->service, offer->service, sizeof stream->service);
    sni_stream_hold(stream);
    mux->config.ops->opened(mux->config.arg, stream, offer->service, offer->meta, offer->meta_size);
    sni_stream_release(stream);
    return SN_OK;
}

static enum sn_err input_open(struct sn_mux *mux, unsigned lane, const struct sn_frame *frame,
                              const uint8_t *payload)
{
    struct offer offer;
    if (sni_id_is_local(mux, frame->stream) || frame->offset != 0) return SN_EPROTO;
    enum sn_err err = parse_offer(payload, frame->size, &offer);
    if (err != SN_OK) return err;
    int is_resumed = (frame->flags & SN_FRAME_RESUME) != 0;
    if (is_resumed) mux->has_resumed = 1;
    struct sn_stream *stream = sni_mux_find(mux, frame->stream);
    if (stream != NULL && is_resumed) return input_resume(mux, lane, stream);
    enum seen seen = seen_check(&mux->seen, sni_id_ordinal(frame->stream));
    if (seen == SEEN_NEVER) return open_new(mux, lane, frame, &offer);
    if (is_resumed) return answer_resume(mux, lane, frame->stream);
    if (seen == SEEN_USED) return mux->has_resumed ? SN_OK : SN_EPROTO;
    mux->stats.refused++; /* overtaken by too many: it cannot be told from a repetition */
    return refuse(mux, lane, frame->stream, SN_ECANCELLED);
}

/* Anything at all came from the peer for this stream: OPEN has arrived. */
static void confirm(struct sn_stream *stream)
{
    if (stream->is_confirmed) return;
    stream->is_confirmed = 1;
    if (stream->pending &
        SNI_OPEN) { /* about to be sent again; what it would have told, ACK tells */
        stream->pending = (uint8_t)((stream->pending & ~SNI_OPEN) | SNI_ACK);
    }
    sn_buf_unref(&stream->offer);
}

static enum sn_err input_accept(struct sn_stream *stream, const struct sn_frame *frame)
{
    if (!stream->is_local || frame->size != 0) return SN_EPROTO;
    if (stream->is_accepted && !stream->has_resumed) return SN_EPROTO;
    if (frame->offset < stream->credit && !stream->has_resumed) return SN_EPROTO;
    if (frame->offset > stream->acked + SN_STREAM_WINDOW_BYTES_MAX) return SN_EPROTO;
    confirm(stream);
    if (frame->offset > stream->credit) stream->credit = frame->offset;
    if (!stream->is_accepted) {
        stream->is_accepted = 1;
        stream->mux->stats.accepted++;
        sni_stream_schedule(stream);
        if (stream->ops != NULL && stream->ops->accepted != NULL) {
            stream->ops->accepted(stream->user, stream);
        }
        return SN_OK;
    }
    sni_stream_schedule(stream);
    return SN_OK;
}

static enum sn_err input_reset(struct sn_stream *stream, const struct sn_frame *frame,
                               const uint8_t *payload)
{
    if (frame->size != 4 || frame->offset != 0) return SN_EPROTO;
    if (stream->is_complete) return SN_OK; /* nothing is left that could be lost */
    uint32_t reason = sni_get_u32(payload);
    if (reason == SN_OK || reason >= SN_ERR_COUNT) reason = SN_ERESET;
    sni_stream_kill(stream, (enum sn_err)reason, 0);
    sni_stream_tell_closed(stream);
    return SN_OK;
}

/* --- ACK, END --------------------------------------------------------------------------------- */

static void check_complete(struct sn_stream *stream)
{
    if (stream->is_complete || !stream->end_acked || !stream->got_end) return;
    stream->is_complete = 1;
    stream->mux->stats.finished++;
}

static void release_acked(struct sn_stream *stream)
{
    uint32_t popped = 0;
    int is_behind = stream->next < stream->acked; /* rewound, and then the peer had it after all */
    if (is_behind) stream->next = stream->acked;
    while (stream->tx.count > 0) {
        uint32_t size = sni_pieces_at(&stream->tx, 0)->buf.size;
        if (stream->tx_base + size > stream->acked) break;
        stream->tx_base += size;
        struct sn_buf buf = sni_pieces_pop(&stream->tx);
        sn_buf_unref(&buf);
        popped++;
    }
    if (is_behind || popped > stream->next_piece) {
        stream->next_piece = 0;
        stream->next_at = (uint32_t)(stream->next - stream->tx_base);
    } else {
        stream->next_piece -= popped;
    }
}

static enum sn_err judge_ack(const struct sn_stream *stream, const struct sn_frame *frame,
                             uint64_t limit)
{
    uint64_t ack = frame->offset;
    int may_lag = stream->has_resumed || (frame->flags & SN_FRAME_RESUME) != 0;
    if (ack > stream->sent_max) return SN_EPROTO;
    if (limit < ack || limit - ack > SN_STREAM_WINDOW_BYTES_MAX) return SN_EPROTO;
    if (frame->flags & SN_FRAME_ENDED) { /* credit means nothing any more */
        return stream->end_sent_once && ack == stream->written ? SN_OK : SN_EPROTO;
    }
    if (!may_lag && (ack < stream->acked || limit < stream->credit)) return SN_EPROTO;
    return SN_OK;
}

static int has_room(const struct sn_stream *stream)
{
    return sn_stream_writable_bytes(stream) >= stream->tx_window / 4;
}

static enum sn_err input_ack(struct sn_mux *mux, unsigned lane, struct sn_stream *stream,
                             const struct sn_frame *frame, const uint8_t *payload)
{
    if (frame->size != 8) return SN_EPROTO;
    uint64_t limit = sni_get_u64(payload);
    enum sn_err err = judge_ack(stream, frame, limit);
    if (err != SN_OK) return err;
    if (frame->flags & SN_FRAME_RESUME) {
        err = input_resume(mux, lane, stream);
        if (err != SN_OK) return err;
    }
    confirm(stream);
    int had_ended = stream->end_acked;
    if (frame->offset > stream->acked) stream->acked = frame->offset;
    if (limit > stream->credit) stream->credit = limit;
    if (frame->flags & SN_FRAME_ENDED) {
        stream->end_acked = 1;
        sni_hash_fini(&stream->tx_hash);
    }
    release_acked(stream);
    sni_window_acked(stream);
    check_complete(stream);
    sni_stream_schedule(stream);
    if (stream->want_write && has_room(stream)) {
        stream->want_write = 0;
        if (stream->ops != NULL && stream->ops->writable != NULL) {
            stream->ops->writable(stream->user, stream);
        }
    }
    if (!had_ended && stream->end_acked && !stream->is_dead && stream->ops != NULL &&
        stream->ops->finished != NULL) {
        stream->ops->finished(stream->user, stream);
    }
    return SN_OK;
}

static void tell_readable(struct sn_stream *stream)
{
    if (stream->ops == NULL || stream->ops->readable == NULL) return;
    stream->ops->readable(stream->user, stream);
}

/* An end here that the peer did not ask for. */
static void fail(struct sn_stream *stream, enum sn_err reason)
{
    sni_stream_kill(stream, reason, SNI_RESET);
    sni_stream_tell_closed(stream);
}

static enum sn_err input_end(struct sn_stream *stream, const struct sn_frame *frame,
                             const uint8_t *payload)
{
    if (frame->size != 8) return SN_EPROTO;
    if (stream->is_local && !stream->is_accepted) return SN_EPROTO;
    if (frame->offset != stream->received) return SN_EPROTO;
    if (stream->got_end) {
        return stream->has_resumed ? SN_OK : SN_EPROTO; /* it was acknowledged */
    }
    if (sni_get_u64(payload) != sni_hash_value(&stream->rx_hash)) {
        fail(stream, SN_EIO);
        return SN_OK;
    }
    stream->got_end = 1;
    sni_hash_fini(&stream->rx_hash);
    check_complete(stream);
    stream->pending |= SNI_ACK;
    sni_stream_schedule(stream);
    tell_readable(stream);
    return SN_OK;
}

enum sn_err sn_mux_input(struct sn_mux *mux, unsigned lane, const struct sn_frame *frame,
                         const uint8_t *payload)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    SN_ASSERT(lane < SN_LANES_MAX && mux->lanes[lane].is_up);
    SN_ASSERT(frame->type != SN_FRAME_DATA);
    if (frame->stream == 0 || frame->stream > SNI_ID_MAX) return SN_EPROTO;
    if (frame->type == SN_FRAME_OPEN) return input_open(mux, lane, frame, payload);
    struct sn_stream *stream = sni_mux_find(mux, frame->stream);
    if (stream == NULL) return input_unknown(mux, lane, frame);
    if (stream->is_local && !stream->is_open_sent) return SN_EPROTO;
    if (stream->is_dead) {
        int asks = frame->type == SN_FRAME_ACK && (frame->flags & SN_FRAME_RESUME) != 0;
        return asks ? input_resume(mux, lane, stream) : SN_OK;
    }
    enum sn_err err = SN_EPROTO;
    sni_stream_hold(stream);
    switch (frame->type) {
    case SN_FRAME_ACCEPT: err = input_accept(stream, frame); break;
    case SN_FRAME_ACK: err = input_ack(mux, lane, stream, frame, payload); break;
    case SN_FRAME_END: err = input_end(stream, frame, payload); break;
    case SN_FRAME_RESET: err = input_reset(stream, frame, payload); break;
    default: break;
    }
    sni_stream_release(stream);
    return err;
}

/* --- DATA ------------------------------------------------------------------------------------- */

static enum sn_err judge_data(const struct sn_stream *stream, const struct sn_frame *frame,
                              uint64_t start)
{
    if (stream->is_local && (!stream->is_open_sent || !stream->is_accepted)) return SN_EPROTO;
    if (frame->offset > SNI_OFFSET_MAX) return SN_EPROTO;
    uint64_t end = frame->offset + frame->size;
    if (end > stream->granted) return SN_EPROTO;
    if (stream->got_end && end > stream->received) return SN_EPROTO;
    if (start > stream->received) return SN_EPROTO;
    if (start < stream->received && !stream->has_resumed) return SN_EPROTO;
    return SN_OK;
}

static void note_received(struct sn_stream *stream)
{
    struct sn_mux *mux = stream->mux;
    if (stream->received - stream->ack_sent >= stream->rx_window / 8) {
        stream->pending |= SNI_ACK;
        sni_stream_schedule(stream);
    } else if ((stream->pending & SNI_ACK) == 0 && !sn_list_is_linked(&stream->delayed)) {
        sn_list_push(&mux->delayed, &stream->delayed);
    }
}

static void take_bytes(struct sn_stream *stream, struct sn_buf *view)
{
    struct sn_buf rest = {0};
    uint32_t size = view->size;
    const uint8_t *bytes = view->data;
    enum sn_err err = sni_hash_prepare(&stream->rx_hash);
    if (err == SN_OK) err = sni_pieces_push(&stream->rx, view, 0, &rest);
    if (err != SN_OK) {
        fail(stream, err);
        return;
    }
    sni_hash_update(&stream->rx_hash, bytes, size);
    sn_buf_unref(&rest);
    stream->received += size;
    stream->mux->stats.received_bytes += size;
    sni_window_received(stream);
    note_received(stream);
    tell_readable(stream);
}

static enum sn_err input_data(struct sn_mux *mux, unsigned lane, const struct sn_frame *frame,
                              uint32_t at, struct sn_buf *view)
{
    if (frame->stream == 0 || frame->stream > SNI_ID_MAX) return SN_EPROTO;
    struct sn_stream *stream = sni_mux_find(mux, frame->stream);
    if (stream == NULL) return input_unknown(mux, lane, frame);
    if (stream->is_dead) return SN_OK;
    uint64_t start = frame->offset + at;
    uint32_t size = view->size;
    enum sn_err err = judge_data(stream, frame, start);
    if (err != SN_OK) return err;
    if (start < stream->received) {
        uint64_t known = stream->received - start;
        uint32_t skip = known < view->size ? (uint32_t)known : view->size;
        mux->stats.duplicate_bytes += skip;
        view->data += skip;
        view->size -= skip;
    }
    if (view->size == 0) return SN_OK;
    uint8_t is_awaited =
        frame->flags & SN_FRAME_AWAITED && start + size == frame->offset + frame->size;
    sni_stream_hold(stream);
    take_bytes(stream, view);
    if (is_awaited && !stream->is_dead) {
        stream->pending |= SNI_ACK;
        sni_stream_schedule(stream);
    }
    sni_stream_release(stream);
    return SN_OK;
}

enum sn_err sn_mux_input_data(struct sn_mux *mux, unsigned lane, const struct sn_frame *frame,
                              uint32_t at, struct sn_buf *piece)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    SN_ASSERT(lane < SN_LANES_MAX && mux->lanes[lane].is_up);
    SN_ASSERT(frame->type == SN_FRAME_DATA);
    SN_ASSERT(at <= frame->size && piece->size <= frame->size - at);
    struct sn_buf view = *piece;
    *piece = (struct sn_buf){0};
    enum sn_err err = input_data(mux, lane, frame, at, &view);
    sn_buf_unref(&view);
    return err;
}
