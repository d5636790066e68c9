/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between a socket and a stream, on the worker, without an actor in between.
 *
 * Guarantees: never reads from the socket more than the stream takes, and gives the peer credit only for what the
 * socket took, so that back-pressure reaches from end to end; each direction ends by itself (half-close); a
 * connection that moves little pins no large slab: reads land in the hub's scratch slab, which goes to the stream
 * only when it is well filled; a local connection sees an end only when the peer has sent its end: whatever else
 * ends the flow, be it the death of this process, is a reset.
 */
#include <string.h>

#include "peer/flow_int.h"

#define ROUND_BYTES   (256u * 1024u) /* each way and round */
#define COPY_BYTES    (16u * 1024u)  /* up to here a read is copied to a slab of its own size */
#define WRITE_PIECES  16u            /* given to one writev */
#define SCRATCH_BYTES SN_SLAB_BYTES_MAX

static void run(struct sn_io *io, unsigned ready);

void sni_splice_init(struct sni_flow *flow)
{
    flow->sock = SN_SOCK_NONE;
    sn_io_init(&flow->io, SN_IO_BULK, run);
}

static struct sn_env *env_of(const struct sni_flow *flow)
{
    return flow->hub->net->config.env;
}

/* --- Socket to stream ------------------------------------------------------------------------------------- */

/* Reads into the scratch slab until it holds `capacity` bytes or the socket has no more: the result of the last
 * read. */
static enum sn_err fill(struct sni_flow *flow, uint32_t capacity, uint32_t *out_size)
{
    struct sn_buf *scratch = &flow->hub->scratch;
    uint32_t size = 0;
    if (scratch->slab == NULL) {
        enum sn_err err = sn_buf_new(SCRATCH_BYTES, SN_FRAME_HEADER_BYTES, scratch);
        if (err != SN_OK) return err;
    }
    enum sn_err err = SN_OK;
    while (size < capacity) {
        size_t got = 0;
        err = sn_env_read(env_of(flow), flow->sock, scratch->data + size, capacity - size, &got);
        if (err != SN_OK) break;
        size += (uint32_t)got;
    }
    *out_size = size;
    return err;
}

/* Gives the first `size` bytes of the scratch slab to the stream. */
static enum sn_err hand_over(struct sni_flow *flow, uint32_t size)
{
    struct sn_buf *scratch = &flow->hub->scratch;
    struct sn_buf piece = {0};
    if (size <= COPY_BYTES && sn_buf_new(size, SN_FRAME_HEADER_BYTES, &piece) == SN_OK) {
        memcpy(piece.data, scratch->data, size);
    } else {
        piece = *scratch;
        *scratch = (struct sn_buf){0};
    }
    piece.size = size;
    enum sn_err err = sn_stream_write(flow->stream, &piece, SN_STREAM_OWN_HEADROOM);
    SN_ASSERT(err != SN_EAGAIN); /* there was room */
    if (err != SN_OK) {
        sn_buf_unref(&piece);
        return err;
    }
    sni_flow_moved(flow, size, 0);
    return SN_OK;
}

/* Asks the stream to say when it takes bytes again. */
static enum sn_err await_room(struct sni_flow *flow)
{
    struct sn_buf nothing = {0};
    enum sn_err err = sn_stream_write(flow->stream, &nothing, 0);
    return err == SN_EAGAIN ? SN_OK : err;
}

static enum sn_err pump_out(struct sni_flow *flow, int *out_more)
{
    uint32_t budget = ROUND_BYTES;
    while (flow->can_read && !flow->local_ended) {
        uint32_t capacity = sn_stream_writable_bytes(flow->stream);
        uint32_t size = 0;
        if (capacity == 0) return await_room(flow);
        if (budget == 0) {
            *out_more = 1;
            return SN_OK;
        }
        if (capacity > budget) capacity = budget;
        enum sn_err end = fill(flow, capacity, &size);
        if (end != SN_OK) flow->can_read = 0;
        if (end != SN_OK && end != SN_EAGAIN && end != SN_ECLOSED) return end;
        enum sn_err err = size > 0 ? hand_over(flow, size) : SN_OK;
        if (err != SN_OK) return err;
        budget -= size;
        if (end == SN_ECLOSED) {
            flow->local_ended = 1;
            sn_stream_end(flow->stream);
        }
    }
    return SN_OK;
}

/* --- Stream to socket -------------------------------------------------------------------------------------- */

/* What the stream has, up to one writev; ECLOSED when there is nothing any more and nothing will come. The pieces stay
 * in the stream until the socket took them: it knows what it may pin. */
static enum sn_err look(const struct sni_flow *flow, struct sn_iovec *iov, uint32_t *out_count)
{
    uint32_t count = 0;
    while (count < WRITE_PIECES) {
        const uint8_t *data;
        uint32_t size;
        enum sn_err err = sn_stream_look(flow->stream, count, &data, &size);
        if (err == SN_EAGAIN) break;
        if (err != SN_OK) return err;
        iov[count++] = (struct sn_iovec){(void *)(uintptr_t)data, size}; /* it is only read */
    }
    *out_count = count;
    return SN_OK;
}

static enum sn_err pump_in(struct sni_flow *flow, int *out_more)
{
    size_t budget = ROUND_BYTES;
    while (flow->can_write && !flow->remote_ended) {
        struct sn_iovec iov[WRITE_PIECES];
        uint32_t count = 0;
        size_t size = 0;
        enum sn_err err = look(flow, iov, &count);
        if (err == SN_ECLOSED) {
            flow->remote_ended = 1;
            /* From here on it is complete: what the kernel still holds must arrive, even without us. */
            sn_env_set_abortive(env_of(flow), flow->sock, 0);
            sn_env_shutdown_write(env_of(flow), flow->sock);
            return SN_OK;
        }
        if (err != SN_OK || count == 0) return err;
        if (budget == 0) {
            *out_more = 1;
            return SN_OK;
        }
        err = sn_env_writev(env_of(flow), flow->sock, iov, count, &size);
        if (err == SN_EAGAIN) {
            flow->can_write = 0;
            return SN_OK;
        }
        if (err != SN_OK) return err;
        sni_flow_moved(flow, 0, size);
        sn_stream_skip(flow->stream, (uint32_t)size);
        budget -= size < budget ? size : budget;
    }
    return SN_OK;
}

/* --- Life ------------------------------------------------------------------------------------------------------ */

/* The socket broke while nothing is read from it or written to it, so that nothing else would notice. A mere end of
 * the other side breaks nothing. */
static int is_broken(struct sni_flow *flow)
{
    if (!flow->is_hung) return 0;
    flow->is_hung = 0;
    if (flow->local_ended && flow->remote_ended) return 0; /* it has served */
    enum sn_err err = sn_env_connect_result(env_of(flow), flow->sock);
    if (err == SN_ERESET || err == SN_ETIMEDOUT) return 1;
    /* Not connected any more, though this side never ended: however that came about. */
    return err == SN_EUNREACHABLE && !flow->remote_ended;
}

static void run(struct sn_io *io, unsigned ready)
{
    struct sni_flow *flow = SN_CONTAINER_OF(io, struct sni_flow, io);
    enum sn_err err = SN_OK;
    int more = 0;
    SN_ASSERT(flow->magic == SNI_FLOW_MAGIC);
    if (ready & (SN_READY_READ | SN_READY_HANGUP)) flow->can_read = 1;
    if (ready & (SN_READY_WRITE | SN_READY_HANGUP)) flow->can_write = 1;
    if (ready & SN_READY_HANGUP) flow->is_hung = 1; /* it is told once, maybe at a busy time */
    if (sni_flow_can_move(flow)) {
        err = pump_in(flow, &more);
        if (err == SN_OK) err = pump_out(flow, &more);
    }
    if (err == SN_OK && !more && is_broken(flow)) err = SN_ERESET;
    if (err != SN_OK) {
        /* To the peer a local connection that broke is a reset, however it broke. */
        sni_flow_end(flow, err == SN_ENOMEM ? err : SN_ERESET);
        return;
    }
    if (flow->is_sent && flow->remote_ended) {
        sni_flow_end(flow, SN_OK);
        return;
    }
    if (more) sn_io_kick(io);
}

void sni_splice_attach(struct sni_flow *flow, struct sn_sock sock)
{
    SN_ASSERT(flow->tap == NULL);      /* its owner's worker knew */
    if (sn_sock_is_open(flow->sock)) { /* it has one */
        sn_env_close_reset(env_of(flow), sock);
        return;
    }
    enum sn_err err = sn_io_open(&flow->io, flow->hub->worker, sock);
    if (err != SN_OK) {
        sn_env_close_reset(env_of(flow), sock);
        sni_flow_end(flow, err);
        return;
    }
    flow->sock = sock;
    sn_env_set_abortive(env_of(flow), sock, 1);
    flow->can_read = flow->can_write = 1;
    sn_io_kick(&flow->io);
}

void sni_splice_close(struct sni_flow *flow, int is_reset)
{
    sn_io_close(&flow->io);
    if (!sn_sock_is_open(flow->sock)) return;
    if (is_reset) {
        sn_env_close_reset(env_of(flow), flow->sock);
    } else {
        sn_env_close(env_of(flow), flow->sock);
    }
    flow->sock = SN_SOCK_NONE;
}
