/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: what the user does never waits and never calls the user back; what is written is
 * either refused as a whole or kept until the peer acknowledged it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "stream/mux_int.h"
#include "wire/pack.h"

#define OFFER_OVERHEAD 32u /* msgpack around service and meta */

/* Views a stream may retain besides the window: bounds the memory of many tiny writes. */
#define PIECES_FREE        64u
#define PIECE_BYTES_LIKELY 1024u

static enum sn_err pack_offer(uint32_t credit, const char *service, const void *meta,
                              uint32_t meta_size, struct sn_buf *out_offer)
{
    size_t service_size = strlen(service);
    if (service_size > SN_SERVICE_BYTES_MAX) return SN_ETOOBIG;
    if (meta_size > SN_STREAM_META_BYTES_MAX) return SN_ETOOBIG;
    struct sn_buf offer;
    uint32_t capacity = (uint32_t)service_size + meta_size + OFFER_OVERHEAD;
    enum sn_err err = sn_buf_new(capacity, 0, &offer);
    if (err != SN_OK) return err;
    struct sn_pack pack;
    size_t size = 0;
    sn_pack_init(&pack, offer.data, capacity);
    sn_pack_map(&pack, 3);
    sn_pack_key_text(&pack, 0, service);
    sn_pack_key_bin(&pack, 1, meta, meta_size);
    sn_pack_key_uint(&pack, 2, credit);
    err = sn_pack_finish(&pack, &size);
    SN_ASSERT(err == SN_OK); /* the overhead is a constant of the format */
    offer.size = (uint32_t)size;
    *out_offer = offer;
    return SN_OK;
}

enum sn_err sn_stream_open(struct sn_mux *mux, unsigned lane, enum sn_qos qos, unsigned flags,
                           const char *service, const void *meta, uint32_t meta_size,
                           struct sn_stream **out_stream)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    SN_ASSERT(lane < SN_LANES_MAX && qos <= SN_QOS_BACKGROUND);
    SN_ASSERT((flags & ~SN_STREAM_SESSION) == 0);
    SN_ASSERT(service[0] != 0);
    if (!mux->lanes[lane].is_up) return SN_EUNREACHABLE;
    uint64_t ordinal = mux->last_ordinal + 1;
    struct sn_stream *stream;
    enum sn_err err = sni_mux_add(mux, mux->config.even_ids ? ordinal * 2 : ordinal * 2 - 1, lane,
                                  flags, &stream);
    if (err != SN_OK) return err;
    err = pack_offer(stream->rx_window, service, meta, meta_size, &stream->offer);
    if (err != SN_OK) {
        sni_mux_remove(stream);
        return err;
    }
    mux->last_ordinal = ordinal;
    stream->qos = (uint8_t)qos;
    stream->flags = (uint8_t)flags;
    stream->credit = SN_STREAM_INITIAL_CREDIT;
    stream->granted = stream->rx_window;
    memcpy(stream->service, service, strlen(service));
    stream->pending = SNI_OPEN;
    sni_stream_schedule(stream);
    *out_stream = stream;
    return SN_OK;
}

void sn_stream_accept(struct sn_stream *stream)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC);
    SN_ASSERT(!stream->is_local && !stream->is_freed);
    if (stream->is_dead || stream->is_accepted) return;
    stream->is_accepted = 1;
    stream->mux->stats.accepted++;
    stream->pending |= SNI_ACCEPT;
    sni_stream_schedule(stream);
}

void sn_stream_set_user(struct sn_stream *stream, const struct sn_stream_ops *ops, void *user)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    stream->ops = ops;
    stream->user = user;
}

static int has_piece_room(const struct sn_stream *stream)
{
    uint32_t pieces_max = PIECES_FREE + stream->tx_window / PIECE_BYTES_LIKELY;
    return stream->tx.count < pieces_max;
}

uint32_t sn_stream_writable_bytes(const struct sn_stream *stream)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC);
    uint64_t window = stream->tx_window;
    if (stream->is_dead || stream->end_wanted || !has_piece_room(stream)) return 0;
    return stream->tx.bytes >= window ? 0 : (uint32_t)(window - stream->tx.bytes);
}

enum sn_err sn_stream_write(struct sn_stream *stream, struct sn_buf *piece, unsigned flags)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    if (stream->is_dead) return SN_ECLOSED;
    if (stream->end_wanted) return SN_ESTATE;
    if (sn_stream_writable_bytes(stream) == 0) {
        stream->want_write = 1;
        return SN_EAGAIN;
    }
    if (piece->size == 0) {
        sn_buf_unref(piece);
        return SN_OK;
    }
    enum sn_err err = sni_hash_prepare(&stream->tx_hash);
    if (err != SN_OK) return err;
    uint8_t headroom =
        (flags & SN_STREAM_OWN_HEADROOM) != 0 && sn_buf_headroom(piece) >= SN_FRAME_HEADER_BYTES;
    const uint8_t *bytes = piece->data;
    uint32_t size = piece->size;
    struct sn_buf rest;
    err = sni_pieces_push(&stream->tx, piece, headroom, &rest);
    if (err != SN_OK) return err;
    sni_hash_update(&stream->tx_hash, bytes, size);
    sn_buf_unref(&rest);
    stream->written += size;
    sni_window_written(stream);
    sni_stream_schedule(stream);
    return SN_OK;
}

void sn_stream_end(struct sn_stream *stream)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    if (stream->is_dead || stream->end_wanted) return;
    stream->end_wanted = 1;
    stream->want_write = 0;
    sni_stream_schedule(stream);
}

enum sn_err sn_stream_read(struct sn_stream *stream, struct sn_buf *out_piece)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    if (stream->is_dead) return stream->reason;
    if (stream->rx.count == 0) return stream->got_end ? SN_ECLOSED : SN_EAGAIN;
    *out_piece = sni_pieces_pop(&stream->rx);
    stream->read += out_piece->size;
    return SN_OK;
}

enum sn_err sn_stream_look(const struct sn_stream *stream, uint32_t index, const uint8_t **out_data,
                           uint32_t *out_size)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    if (stream->is_dead) return stream->reason;
    if (index >= stream->rx.count) {
        return stream->got_end && stream->rx.count == 0 ? SN_ECLOSED : SN_EAGAIN;
    }
    const struct sn_buf *buf = &sni_pieces_at(&stream->rx, index)->buf;
    *out_data = buf->data;
    *out_size = buf->size;
    return SN_OK;
}

void sn_stream_skip(struct sn_stream *stream, uint32_t bytes)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    SN_ASSERT(bytes <= stream->rx.bytes);
    sni_pieces_skip(&stream->rx, bytes);
    stream->read += bytes;
    sn_stream_consume(stream, bytes);
}

void sn_stream_consume(struct sn_stream *stream, uint32_t bytes)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    SN_ASSERT(bytes <= stream->read - stream->consumed);
    stream->consumed += bytes;
    if (stream->is_dead || stream->got_end) return;
    if (!stream->is_local && !stream->is_accepted) return;
    if (!sni_window_consumed(stream)) return;
    stream->pending |= SNI_ACK;
    sni_stream_schedule(stream);
}

/* RESET, unless the peer does not know the stream, or may not. */
static uint8_t reset_owed(const struct sn_stream *stream)
{
    if (!stream->is_local) return SNI_RESET;
    return stream->is_open_sent && (stream->pending & SNI_OPEN) == 0 ? SNI_RESET : 0;
}

void sn_stream_reset(struct sn_stream *stream, enum sn_err reason)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    if (stream->is_dead || stream->is_complete) return;
    sni_stream_kill(stream, reason == SN_OK ? SN_ERESET : reason, reset_owed(stream));
}

void sn_stream_free(struct sn_stream *stream)
{
    if (stream == NULL) return;
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    struct sn_mux *mux = stream->mux;
    sn_stream_reset(stream, SN_ECANCELLED);
    if (stream->is_complete) {
        sni_mux_note_final(mux, stream);
        sni_pieces_fini(&stream->rx);
    }
    stream->is_freed = 1;
    stream->ops = NULL;
    stream->user = NULL;
    sn_list_remove(&stream->closing);
    sn_list_remove(&stream->delayed);
    sni_mux_give_back(stream);
    sni_stream_reap(stream);
}

void sn_stream_info(const struct sn_stream *stream, struct sn_stream_info *out_info)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC && !stream->is_freed);
    *out_info = (struct sn_stream_info){
        .id = stream->id,
        .qos = stream->qos,
        .lane = stream->lane,
        .is_accepted = stream->is_accepted,
        .is_local = stream->is_local,
        .sent_end = stream->end_sent_once,
        .got_end = stream->got_end,
        .is_orphan = (uint8_t)sni_stream_is_orphan(stream),
        .sent = stream->sent_max,
        .acked = stream->acked,
        .received = stream->received,
        .consumed = stream->consumed,
        .retained = (uint32_t)stream->tx.bytes,
        .service = stream->service,
    };
}
