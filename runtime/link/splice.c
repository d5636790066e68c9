/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: the socket gets whole messages only, each of them once it is complete here, so a session that dies
 * never leaves nng with a part of one; memory is bounded by one incomplete message, one slab in each direction and
 * IN_FLIGHT_BYTES_MAX inside nng; each direction stops reading when the other side does not take.
 */
#include "link/splice.h"

#include <string.h>

#include "base/assert.h"

#define TURN_BYTES 262144u /* in each direction, then the others have their turn */
/* Parcels written toward nng that its user has not taken. A few of the largest keep nng's threads busy. */
#define IN_FLIGHT_BYTES_MAX (2u * 1024u * 1024u)
/* A read of this size is worth its slab; after a smaller one the rest of the slab is used for the next. */
#define OWN_SLAB_BYTES 32768u
#define READ_BYTES_MIN 65536u /* less room than that is not worth a call */
#define IOV_COUNT      32u

static void kick(struct sn_splice *splice)
{
    if (splice->io.is_open) sn_io_kick(&splice->io);
}

/* --- From the stream to the socket ------------------------------------------------------------------- */

/* Takes pieces until a whole unit is there, or until a good load is. Credit goes back as soon as a piece is read:
 * were it held back until the message is complete, a window smaller than a message would never open again. */
static enum sn_err read_stream(struct sn_splice *splice)
{
    struct sn_pump_queue *queue = &splice->inward;
    while (queue->whole == 0 || queue->bytes < TURN_BYTES) {
        struct sn_buf piece;
        enum sn_err err = sn_stream_read(splice->stream, &piece);
        if (err == SN_EAGAIN) return SN_OK;
        if (err == SN_ECLOSED) {
            if (queue->bytes > queue->whole) return SN_EPROTO; /* a message was cut */
            splice->is_ended = 1;
            return SN_OK;
        }
        if (err != SN_OK) return err;
        uint32_t size = piece.size;
        uint32_t boundary = 0;
        err = sn_sp_scan(&splice->from_stream, piece.data, size, &boundary);
        if (err == SN_OK) err = sn_pump_push(queue, &piece, boundary);
        if (err != SN_OK) {
            sn_buf_unref(&piece);
            return err;
        }
        sn_stream_consume(splice->stream, size);
    }
    return SN_OK;
}

/* The bytes went through the same check when they came in; here they are counted. */
static void account_written(struct sn_splice *splice, uint32_t size)
{
    uint32_t index = 0;
    if (splice->to_socket.has_hello) splice->written_bytes += size;
    for (uint32_t left = size; left > 0; index++) {
        const struct sn_buf *view = sn_pump_at(&splice->inward, index);
        uint32_t part = left < view->size ? left : view->size;
        uint32_t boundary = 0;
        enum sn_err err = sn_sp_scan(&splice->to_socket, view->data, part, &boundary);
        SN_ASSERT(err == SN_OK);
        left -= part;
    }
    sn_pump_advance(&splice->inward, size);
}

static uint32_t gather(const struct sn_pump_queue *queue, struct sn_iovec iov[IOV_COUNT])
{
    uint32_t left = queue->whole;
    uint32_t count = 0;
    while (left > 0 && count < IOV_COUNT) {
        const struct sn_buf *view = sn_pump_at(queue, count);
        uint32_t part = left < view->size ? left : view->size;
        iov[count++] = (struct sn_iovec){.data = view->data, .size = part};
        left -= part;
    }
    return count;
}

static int has_room_inside(const struct sn_splice *splice)
{
    /* While draining everything is taken out at once. */
    if (splice->is_draining) return 1;
    return splice->written_bytes < splice->taken_bytes + IN_FLIGHT_BYTES_MAX;
}

static enum sn_err write_socket(struct sn_splice *splice, uint32_t *moved)
{
    while (splice->inward.whole > 0 && has_room_inside(splice)) {
        struct sn_iovec iov[IOV_COUNT];
        uint32_t count = gather(&splice->inward, iov);
        size_t written = 0;
        enum sn_err err =
            sn_env_writev(sn_worker_env(splice->worker), splice->sock, iov, count, &written);
        if (err == SN_EAGAIN) return SN_EAGAIN;
        if (err != SN_OK) {
            splice->is_broken = 1;
            return SN_EIO;
        }
        account_written(splice, (uint32_t)written);
        *moved += (uint32_t)written;
        if (*moved >= TURN_BYTES) return SN_OK;
    }
    return SN_EAGAIN;
}

/* SN_OK also means: waiting for the socket, the stream or the receiver, each of which will kick us. */
static enum sn_err move_in(struct sn_splice *splice)
{
    uint32_t moved = 0;
    for (;;) {
        if (splice->stream != NULL && !splice->is_ended) {
            enum sn_err err = read_stream(splice);
            if (err != SN_OK) return err;
        }
        if (splice->inward.whole == 0) return SN_OK;
        enum sn_err err = write_socket(splice, &moved);
        if (err == SN_EAGAIN && splice->inward.whole > 0) return SN_OK;
        if (err != SN_OK && err != SN_EAGAIN) return err;
        if (moved >= TURN_BYTES) {
            kick(splice);
            return SN_OK;
        }
    }
}

/* --- From the socket to the stream --------------------------------------------------------------------- */

static enum sn_err ensure_spare(struct sn_splice *splice)
{
    if (sn_buf_tailroom(&splice->spare) >= READ_BYTES_MIN) return SN_OK;
    sn_buf_unref(&splice->spare);
    return sn_buf_new(SN_SLAB_BYTES_MAX, SN_FRAME_HEADER_BYTES, &splice->spare);
}

/* The view on what was just read, with SN_FRAME_HEADER_BYTES before it that belong to it alone. */
static struct sn_buf cut_piece(struct sn_splice *splice, uint32_t size)
{
    struct sn_buf piece;
    splice->spare.size = size;
    if (size >= OWN_SLAB_BYTES) {
        piece = splice->spare;
        splice->spare = (struct sn_buf){0};
        return piece;
    }
    piece = sn_buf_slice(&splice->spare, 0, size);
    if (sn_buf_tailroom(&splice->spare) < READ_BYTES_MIN + SN_FRAME_HEADER_BYTES) {
        sn_buf_unref(&splice->spare);
        return piece;
    }
    splice->spare.data += size + SN_FRAME_HEADER_BYTES;
    splice->spare.size = 0;
    return piece;
}

/* If the stream kept a copy instead of the view, the bytes before `spare` are free again: start over there. */
static void rewind_spare(struct sn_splice *splice)
{
    if (!sn_buf_is_sole(&splice->spare)) return;
    uint32_t headroom = sn_buf_headroom(&splice->spare);
    SN_ASSERT(headroom >= SN_FRAME_HEADER_BYTES);
    splice->spare.data -= headroom - SN_FRAME_HEADER_BYTES;
}

static enum sn_err write_stream(struct sn_splice *splice, struct sn_buf *piece)
{
    enum sn_err err = sn_stream_write(splice->stream, piece, SN_STREAM_OWN_HEADROOM);
    if (err == SN_OK) rewind_spare(splice);
    return err;
}

static enum sn_err read_socket(struct sn_splice *splice, uint32_t *out_size)
{
    enum sn_err err = ensure_spare(splice);
    if (err != SN_OK) return err;
    size_t size = 0;
    err = sn_env_read(sn_worker_env(splice->worker), splice->sock, splice->spare.data,
                      sn_buf_tailroom(&splice->spare), &size);
    if (err == SN_EAGAIN) return err;
    if (err != SN_OK) {
        splice->is_eof = 1;
        return SN_EIO;
    }
    uint32_t boundary = 0;
    err = sn_sp_scan(&splice->from_socket, splice->spare.data, (uint32_t)size, &boundary);
    if (err != SN_OK) return SN_EIO; /* our own nng: nothing a peer did */
    *out_size = (uint32_t)size;
    return SN_OK;
}

static enum sn_err move_out(struct sn_splice *splice)
{
    for (uint32_t moved = 0; moved < TURN_BYTES;) {
        if (splice->stuck.size > 0) {
            enum sn_err err = write_stream(splice, &splice->stuck);
            if (err == SN_EAGAIN) return SN_OK;
            if (err != SN_OK) return err;
        }
        if (splice->is_eof) return SN_OK;
        uint32_t size = 0;
        enum sn_err err = read_socket(splice, &size);
        if (err == SN_EAGAIN) return SN_OK;
        if (err != SN_OK) return err;
        moved += size;
        if (splice->stream != NULL) splice->stuck = cut_piece(splice, size);
    }
    kick(splice);
    return SN_OK;
}

static void run(struct sn_io *io, unsigned ready)
{
    struct sn_splice *splice = SN_CONTAINER_OF(io, struct sn_splice, io);
    (void)
        ready; /* both directions are tried: one of them may wait for something that is not the socket */
    SN_ASSERT(sn_sock_is_open(splice->sock));
    enum sn_err err = splice->is_broken || splice->is_shut ? SN_OK : move_in(splice);
    if (err == SN_OK) err = move_out(splice);
    if (err != SN_OK && !splice->is_draining) splice->ops->failed(splice->owner, err);
    splice->ops->moved(splice->owner);
}

/* --- The stream's callbacks ------------------------------------------------------------------------------ */

static void on_stream_ready(void *user, struct sn_stream *stream)
{
    (void)stream; /* it is splice->stream */
    kick(user);
}

static void on_stream_closed(void *user, struct sn_stream *stream, enum sn_err reason)
{
    struct sn_splice *splice = user;
    SN_ASSERT(splice->stream == stream);
    splice->ops->failed(splice->owner, reason);
}

static const struct sn_stream_ops STREAM_OPS = {
    .readable = on_stream_ready,
    .writable = on_stream_ready,
    .closed = on_stream_closed,
};

/* --- Life ------------------------------------------------------------------------------------------------- */

void sn_splice_init(struct sn_splice *splice, struct sn_worker *worker, struct sn_stream *stream,
                    enum sn_io_priority priority, const struct sn_splice_ops *ops, void *owner)
{
    memset(splice, 0, sizeof *splice);
    splice->worker = worker;
    splice->stream = stream;
    splice->ops = ops;
    splice->owner = owner;
    splice->sock = SN_SOCK_NONE;
    sn_io_init(&splice->io, priority, run);
}

void sn_splice_attach(struct sn_splice *splice)
{
    sn_stream_set_user(splice->stream, &STREAM_OPS, splice);
}

enum sn_err sn_splice_start(struct sn_splice *splice, struct sn_sock sock)
{
    SN_ASSERT(!sn_sock_is_open(splice->sock));
    enum sn_err err = sn_io_open(&splice->io, splice->worker, sock);
    if (err != SN_OK) return err;
    splice->sock = sock;
    sn_io_kick(&splice->io); /* the stream may have had something for a long time */
    return SN_OK;
}

void sn_splice_taken(struct sn_splice *splice, uint32_t parcel_bytes)
{
    int was_full = !has_room_inside(splice);
    splice->taken_bytes += SN_SP_HEAD_BYTES + parcel_bytes;
    if (was_full && has_room_inside(splice)) kick(splice);
}

void sn_splice_drain(struct sn_splice *splice)
{
    if (splice->is_draining) return;
    splice->is_draining = 1;
    struct sn_stream *stream = splice->stream;
    splice->stream = NULL;
    if (stream != NULL) {
        sn_stream_reset(stream, SN_ECLOSED);
        sn_stream_free(stream);
    }
    sn_buf_unref(&splice->stuck);
    sn_pump_drop_rest(&splice->inward);
    kick(splice);
}

int sn_splice_is_flushed(const struct sn_splice *splice)
{
    SN_ASSERT(splice->is_draining);
    return splice->inward.bytes == 0 || splice->is_broken;
}

void sn_splice_shut(struct sn_splice *splice)
{
    if (splice->is_shut) return;
    splice->is_shut = 1;
    /* A message cut short would keep nng waiting for the rest of it. */
    SN_ASSERT(splice->is_broken || splice->is_eof || sn_sp_is_boundary(&splice->to_socket));
    sn_env_shutdown_write(sn_worker_env(splice->worker), splice->sock);
    kick(splice);
}

void sn_splice_fini(struct sn_splice *splice)
{
    SN_ASSERT(splice->stream == NULL);
    sn_io_close(&splice->io);
    if (sn_sock_is_open(splice->sock)) sn_env_close(sn_worker_env(splice->worker), splice->sock);
    splice->sock = SN_SOCK_NONE;
    sn_buf_unref(&splice->spare);
    sn_buf_unref(&splice->stuck);
    sn_pump_clear(&splice->inward);
}
