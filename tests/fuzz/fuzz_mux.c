/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mux with a few streams meets frames of a hostile peer. The input is a program: each step
 * begins with a byte that tells whether the local user does something, or a frame follows; its
 * stream ids and offsets are small, or taken from the state of a stream, so that many are nearly
 * right. Memory stays bounded.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "stream/mux.h"

#define WINDOW      SN_STREAM_INITIAL_CREDIT
#define STREAMS_MAX 6u
#define LANES       3u
#define MEMORY_MAX  (STREAMS_MAX * 4u * (WINDOW + SN_SLAB_BYTES_MAX) + (4u << 20))

struct source {
    const uint8_t *at;
    size_t left;
};

static uint8_t take(struct source *source)
{
    if (source->left == 0) return 0;
    source->left--;
    return *source->at++;
}

static void on_readable(void *user, struct sn_stream *stream)
{
    struct sn_buf piece;
    if (user == NULL) return; /* a slow reader */
    while (sn_stream_read(stream, &piece) == SN_OK) {
        sn_stream_consume(stream, piece.size);
        sn_buf_unref(&piece);
    }
}

static void on_closed(void *user, struct sn_stream *stream, enum sn_err reason)
{
    (void)user; /* both kinds of reader are done */
    SN_ASSERT(reason != SN_OK);
    sn_stream_free(stream);
}

static void on_writable(void *user, struct sn_stream *stream)
{
    (void)user; /* both kinds of reader write */
    sn_stream_end(stream);
}

static const struct sn_stream_ops stream_ops = {
    .readable = on_readable, .writable = on_writable, .closed = on_closed};

static void on_opened(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                      uint32_t meta_size)
{
    uint32_t *count = arg;
    uint8_t sum = 0;
    for (uint32_t i = 0; i < meta_size; i++) sum ^= meta[i]; /* all of it is readable */
    sn_stream_set_user(stream, &stream_ops, (*count)++ % 2 ? arg : NULL);
    if (service[0] == 'x') {
        sn_stream_free(stream);
    } else if (sum % 3 != 1) {
        sn_stream_accept(stream);
    }
}

static const struct sn_mux_ops mux_ops = {.opened = on_opened};

static struct sn_stream *pick(struct sn_mux *mux, uint8_t index)
{
    struct sn_stream *stream = sn_mux_next_stream(mux, NULL);
    for (uint8_t i = index % 8; i > 0 && stream != NULL; i--)
        stream = sn_mux_next_stream(mux, stream);
    return stream;
}

static void act(struct sn_mux *mux, struct source *source, uint32_t *count)
{
    uint8_t what = take(source), which = take(source);
    struct sn_stream *stream = pick(mux, which);
    struct sn_buf piece;
    int headroom;
    struct sn_frame frame;
    if (what % 8 == 0) {
        if (sn_stream_open(mux, which % LANES, (enum sn_qos)(what / 8 % 4), what & 128 ? 1 : 0, "f",
                           "m", 1, &stream) == SN_OK) {
            sn_stream_set_user(stream, &stream_ops, what & 64 ? count : NULL);
        }
    } else if (what % 8 == 1) {
        for (unsigned i = 0; i < which; i++) {
            if (sn_mux_output(mux, what / 8 % LANES, 1 + what * 50u, &frame, &piece, &headroom) !=
                SN_OK) {
                break;
            }
            sn_buf_unref(&piece);
        }
    } else if (what % 8 == 2) {
        sn_mux_lane_down(mux, which % LANES, what & 8, SN_EUNREACHABLE);
        sn_mux_lane_up(mux, which % LANES);
    } else if (what % 8 == 3) {
        (void)sn_mux_tick(mux, (uint64_t)which << 22); /* no clock to obey */
    } else if (stream == NULL) {
        return;
    } else if (what % 8 == 4) {
        static const uint8_t bytes[6000] = {0};
        if (sn_buf_copy(bytes, which * 23u, &piece) != SN_OK) return;
        if (sn_stream_write(stream, &piece, 0) != SN_OK) sn_buf_unref(&piece);
    } else if (what % 8 == 5) {
        sn_stream_end(stream);
    } else if (what % 8 == 6) {
        on_readable(stream, stream);
    } else if (which & 1) {
        sn_stream_free(stream);
    } else {
        sn_stream_reset(stream, SN_ECANCELLED);
    }
}

/* Raw values, or ones that fit the state of a stream. */
static uint64_t offset_for(struct sn_mux *mux, struct source *source, const struct sn_frame *frame)
{
    uint8_t kind = take(source);
    struct sn_stream_info info;
    if (kind & 128) return UINT64_MAX - kind % 16 * 0x1000u;
    for (struct sn_stream *s = sn_mux_next_stream(mux, NULL); s != NULL;
         s = sn_mux_next_stream(mux, s)) {
        sn_stream_info(s, &info);
        if (info.id != frame->stream) continue;
        if (frame->type == SN_FRAME_ACCEPT) return WINDOW + kind;
        if (frame->type == SN_FRAME_ACK) return (kind & 1 ? info.sent : info.acked) + kind / 32;
        return info.received + kind / 32;
    }
    return kind;
}

static enum sn_err feed(struct sn_mux *mux, struct source *source, uint8_t step)
{
    struct sn_frame frame = {.type = (uint8_t)(SN_FRAME_OPEN + step % 6), .qos = step / 8 % 4};
    unsigned lane = take(source) % LANES;
    uint8_t payload[64] = {0};
    frame.stream = take(source) % 20 + 1u;
    frame.flags = take(source);
    frame.offset = offset_for(mux, source, &frame);
    frame.size = take(source);
    uint8_t header[SN_FRAME_HEADER_BYTES];
    sn_frame_encode(&frame, header);
    if (sn_frame_decode(header, &frame) != SN_OK) return SN_OK; /* the lane would have closed */
    if (frame.type == SN_FRAME_DATA) {
        struct sn_buf piece;
        frame.size *= 100;
        if (sn_buf_new(frame.size, 0, &piece) != SN_OK) return SN_OK;
        memset(piece.data, 0, frame.size);
        piece.size = frame.size;
        return sn_mux_input_data(mux, lane, &frame, 0, &piece);
    }
    if (frame.size > sizeof payload) frame.size = sizeof payload;
    for (uint32_t i = 0; i < frame.size; i++) payload[i] = take(source);
    return sn_mux_input(mux, lane, &frame, payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t before = sn_alloc_in_use();
    uint32_t count = 0;
    struct source source = {data, size};
    struct sn_mux *mux;
    struct sn_mux_config config = {.ops = &mux_ops,
                                   .arg = &count,
                                   .window_bytes = WINDOW,
                                   .streams_max = STREAMS_MAX,
                                   .even_ids = 1};
    if (sn_mux_new(&config, &mux) != SN_OK) return 0;
    for (unsigned lane = 0; lane < LANES; lane++) sn_mux_lane_up(mux, lane);
    while (source.left > 0) {
        uint8_t step = take(&source);
        if (step & 128) {
            act(mux, &source, &count);
        } else if (feed(mux, &source, step) != SN_OK && step & 64) {
            break; /* the session would close; going on is harder */
        }
        SN_ASSERT(sn_alloc_in_use() - before < MEMORY_MAX);
    }
    sn_mux_free(mux);
    SN_ASSERT(sn_alloc_in_use() == before);
    return 0;
}
