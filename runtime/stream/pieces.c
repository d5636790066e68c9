/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: bytes come out in the order in which they went in; `pinned` counts every slab held
 * once, as long as views of one slab stand together; a failed push changes nothing.
 */
#include "stream/pieces_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "stream/frame.h"

#define RING_MIN       4u
#define SMALL_BYTES    1024u /* below this a piece that has to wait is copied to the one before */
#define COPY_BYTES_MIN 4096u /* slab that small pieces share */
#define COPY_HEADROOM  SN_FRAME_HEADER_BYTES
#define RING_KEPT      64u /* an empty ring larger than this is given back */

void sni_pieces_init(struct sni_pieces *pieces, uint64_t pinned_max)
{
    *pieces = (struct sni_pieces){.pinned_max = pinned_max};
}

void sni_pieces_fini(struct sni_pieces *pieces)
{
    while (pieces->count > 0) {
        struct sn_buf buf = sni_pieces_pop(pieces);
        sn_buf_unref(&buf);
    }
    SN_ASSERT(pieces->bytes == 0);
    SN_ASSERT(pieces->pinned == 0);
    sn_free(pieces->ring, pieces->capacity * sizeof *pieces->ring);
    sni_pieces_init(pieces, pieces->pinned_max);
}

struct sni_piece *sni_pieces_at(const struct sni_pieces *pieces, uint32_t index)
{
    SN_ASSERT(index < pieces->count);
    return &pieces->ring[(pieces->head + index) & (pieces->capacity - 1)];
}

static struct sni_piece *last(const struct sni_pieces *pieces)
{
    return pieces->count == 0 ? NULL : sni_pieces_at(pieces, pieces->count - 1);
}

static enum sn_err reserve(struct sni_pieces *pieces)
{
    if (pieces->count < pieces->capacity) return SN_OK;
    uint32_t capacity = pieces->capacity == 0 ? RING_MIN : pieces->capacity * 2;
    struct sni_piece *ring = sn_alloc(capacity * sizeof *ring);
    if (ring == NULL) return SN_ENOMEM;
    for (uint32_t i = 0; i < pieces->count; i++) ring[i] = *sni_pieces_at(pieces, i);
    sn_free(pieces->ring, pieces->capacity * sizeof *ring);
    pieces->ring = ring;
    pieces->capacity = capacity;
    pieces->head = 0;
    return SN_OK;
}

static uint32_t slab_bytes(const struct sn_buf *buf)
{
    return sn_buf_headroom(buf) + buf->size + sn_buf_tailroom(buf);
}

/* Room was reserved. */
static void append(struct sni_pieces *pieces, const struct sni_piece *piece)
{
    struct sni_piece *tail = last(pieces);
    pieces->count++;
    struct sni_piece *place = last(pieces);
    *place = *piece;
    place->pinned = tail != NULL && tail->buf.slab == piece->buf.slab ? 0 : slab_bytes(&piece->buf);
    pieces->pinned += place->pinned;
    pieces->bytes += piece->buf.size;
}

static enum sn_err push_copy(struct sni_pieces *pieces, const struct sn_buf *buf)
{
    struct sni_piece *tail = last(pieces);
    uint32_t fits = 0;
    if (tail != NULL && tail->is_copy && sn_buf_is_sole(&tail->buf)) {
        fits = sn_buf_tailroom(&tail->buf);
    }
    if (fits > buf->size) fits = buf->size;
    uint32_t rest = buf->size - fits;
    struct sni_piece piece = {.is_copy = 1, .headroom = 1};
    if (rest > 0) {
        enum sn_err err = reserve(pieces);
        if (err != SN_OK) return err;
        tail = last(pieces); /* the ring may have moved */
        uint32_t capacity = rest < COPY_BYTES_MIN ? COPY_BYTES_MIN : rest;
        err = sn_buf_new(capacity, COPY_HEADROOM, &piece.buf);
        if (err != SN_OK) return err;
    }
    if (fits > 0) {
        memcpy(tail->buf.data + tail->buf.size, buf->data, fits);
        tail->buf.size += fits;
        pieces->bytes += fits;
    }
    if (rest > 0) {
        memcpy(piece.buf.data, buf->data + fits, rest);
        piece.buf.size = rest;
        append(pieces, &piece);
    }
    return SN_OK;
}

/* Lanes cut what they read into pieces that are neighbours on one slab. */
static int extends_tail(const struct sni_piece *tail, const struct sn_buf *buf)
{
    return tail != NULL && !tail->is_copy && tail->buf.slab == buf->slab &&
           tail->buf.data + tail->buf.size == buf->data;
}

enum sn_err sni_pieces_push(struct sni_pieces *pieces, struct sn_buf *buf, uint8_t headroom,
                            struct sn_buf *out_rest)
{
    SN_ASSERT(buf->size > 0);
    struct sni_piece *tail = last(pieces);
    struct sn_buf rest = *buf;
    if (extends_tail(tail, buf)) {
        tail->buf.size += buf->size;
        pieces->bytes += buf->size;
    } else if ((tail != NULL && buf->size < SMALL_BYTES) ||
               pieces->pinned + slab_bytes(buf) > pieces->pinned_max) {
        enum sn_err err = push_copy(pieces, buf);
        if (err != SN_OK) return err;
    } else {
        enum sn_err err = reserve(pieces);
        if (err != SN_OK) return err;
        struct sni_piece piece = {.buf = *buf, .headroom = headroom};
        append(pieces, &piece);
        rest = (struct sn_buf){0};
    }
    *buf = (struct sn_buf){0};
    *out_rest = rest;
    return SN_OK;
}

struct sn_buf sni_pieces_pop(struct sni_pieces *pieces)
{
    struct sni_piece *piece = sni_pieces_at(pieces, 0);
    struct sn_buf buf = piece->buf;
    uint32_t pinned = piece->pinned;
    *piece = (struct sni_piece){0};
    pieces->head = (pieces->head + 1) & (pieces->capacity - 1);
    pieces->count--;
    pieces->bytes -= buf.size;
    struct sni_piece *next = pieces->count == 0 ? NULL : sni_pieces_at(pieces, 0);
    if (next != NULL && next->buf.slab == buf.slab) {
        SN_ASSERT(next->pinned == 0);
        next->pinned = pinned; /* the slab stays, for the sake of the next piece */
    } else {
        pieces->pinned -= pinned;
    }
    if (pieces->count == 0 && pieces->capacity > RING_KEPT) {
        sn_free(pieces->ring, pieces->capacity * sizeof *pieces->ring);
        pieces->ring = NULL;
        pieces->capacity = pieces->head = 0;
    }
    return buf;
}

void sni_pieces_skip(struct sni_pieces *pieces, uint32_t bytes)
{
    while (bytes > 0) {
        struct sn_buf *head = &sni_pieces_at(pieces, 0)->buf;
        if (bytes < head->size) {
            head->data += bytes;
            head->size -= bytes;
            pieces->bytes -= bytes;
            return;
        }
        bytes -= head->size;
        struct sn_buf buf = sni_pieces_pop(pieces);
        sn_buf_unref(&buf);
    }
}
