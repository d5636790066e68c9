/* SPDX-License-Identifier: Apache-2.0 */
/* One mux and the frames of a peer, by hand: golden ones, broken ones, leftovers and floods. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "joint.h"
#include "stream/bytes_int.h"
#include "vectors/stream_frames.h"

#define WINDOW (256u * 1024u)

struct seen {
    uint32_t opened, closed;
    enum sn_err reason;
    struct sn_stream *stream; /* the last one opened by the peer */
};

static void on_closed(void *user, struct sn_stream *stream, enum sn_err reason)
{
    struct seen *seen = user;
    assert_non_null(stream);
    seen->closed++;
    seen->reason = reason;
}

static const struct sn_stream_ops stream_ops = {.closed = on_closed};

static void on_opened(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                      uint32_t meta_size)
{
    struct seen *seen = arg;
    assert_true(service[0] != 0 && (meta != NULL || meta_size == 0));
    seen->opened++;
    seen->stream = stream;
    sn_stream_set_user(stream, &stream_ops, seen);
    sn_stream_accept(stream);
}

static const struct sn_mux_ops mux_ops = {.opened = on_opened};

static enum sn_err write_bytes(struct sn_stream *stream, uint64_t at, uint32_t size)
{
    struct sn_buf piece = joint_piece(7, at, size, 0);
    enum sn_err err = sn_stream_write(stream, &piece, 0);
    sn_buf_unref(&piece);
    return err;
}

static enum sn_err read_error(struct sn_stream *stream)
{
    struct sn_buf piece;
    enum sn_err err = sn_stream_read(stream, &piece);
    if (err == SN_OK) sn_buf_unref(&piece);
    return err;
}

static void expect_output(struct sn_mux *mux, const char *vector)
{
    uint8_t bytes[128];
    char hex[257];
    struct sn_frame frame;
    struct sn_buf payload;
    int headroom;
    assert_int_equal(sn_mux_output(mux, 1, 1000, &frame, &payload, &headroom), SN_OK);
    sn_frame_encode(&frame, bytes);
    assert_true(payload.size <= sizeof bytes - SN_FRAME_HEADER_BYTES);
    if (payload.size > 0) memcpy(bytes + SN_FRAME_HEADER_BYTES, payload.data, payload.size);
    sn_hex_encode(bytes, SN_FRAME_HEADER_BYTES + payload.size, hex);
    assert_string_equal(hex, vector);
    sn_buf_unref(&payload);
}

static enum sn_err input_hex(struct sn_mux *mux, const char *vector)
{
    uint8_t bytes[128];
    struct sn_frame frame;
    size_t size = strlen(vector) / 2;
    assert_int_equal(sn_hex_decode(vector, strlen(vector), bytes, size), SN_OK);
    assert_int_equal(sn_frame_decode(bytes, &frame), SN_OK);
    assert_int_equal(size, SN_FRAME_HEADER_BYTES + frame.size);
    if (frame.type != SN_FRAME_DATA) {
        return sn_mux_input(mux, 1, &frame, bytes + SN_FRAME_HEADER_BYTES);
    }
    struct sn_buf piece;
    assert_int_equal(sn_buf_copy(bytes + SN_FRAME_HEADER_BYTES, frame.size, &piece), SN_OK);
    return sn_mux_input_data(mux, 1, &frame, 0, &piece);
}

static void test_golden_frames(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct sn_mux_config config = {
        .ops = &mux_ops, .arg = &seen, .window_bytes = 1u << 20, .streams_max = 4};
    struct sn_mux *opener, *acceptor;
    assert_int_equal(sn_mux_new(&config, &opener), SN_OK);
    config.window_bytes = 256u << 10;
    config.even_ids = 1;
    assert_int_equal(sn_mux_new(&config, &acceptor), SN_OK);
    sn_mux_lane_up(opener, 1);
    sn_mux_lane_up(acceptor, 1);
    struct sn_stream *stream;
    assert_int_equal(sn_stream_open(opener, 1, SN_QOS_INTERACTIVE, 0, "echo", "abc", 3, &stream),
                     SN_OK);
    struct sn_buf piece;
    assert_int_equal(sn_buf_copy("hello", 5, &piece), SN_OK);
    assert_int_equal(sn_stream_write(stream, &piece, 0), SN_OK);
    sn_stream_end(stream);
    expect_output(opener, VECTOR_OPEN);
    expect_output(opener, VECTOR_DATA);
    expect_output(opener, VECTOR_END);
    assert_int_equal(input_hex(acceptor, VECTOR_OPEN), SN_OK);
    assert_int_equal(seen.opened, 1);
    expect_output(acceptor, VECTOR_ACCEPT);
    assert_int_equal(input_hex(acceptor, VECTOR_DATA), SN_OK);
    assert_int_equal(input_hex(acceptor, VECTOR_END), SN_OK);
    expect_output(acceptor, VECTOR_ACK);
    assert_int_equal(input_hex(opener, VECTOR_ACCEPT), SN_OK);
    assert_int_equal(input_hex(opener, VECTOR_ACK), SN_OK);
    sn_stream_reset(seen.stream, SN_ECANCELLED);
    expect_output(acceptor, VECTOR_RESET);
    assert_int_equal(input_hex(opener, VECTOR_RESET), SN_OK);
    assert_int_equal(read_error(stream), SN_ECANCELLED);
    sn_mux_free(opener);
    sn_mux_free(acceptor);
}

/* A mux (even ids) with a stream from the peer (id 1; 10 bytes received), one of its own (id 2;
 * accepted, 10 bytes sent) and one of its own that is not accepted (id 4). */
struct victim {
    struct seen seen;
    struct sn_mux *mux;
    struct sn_stream *own, *waiting;
};

static enum sn_err inject(struct sn_mux *mux, struct sn_frame frame, const void *payload)
{
    if (frame.type != SN_FRAME_DATA) return sn_mux_input(mux, 1, &frame, payload);
    struct sn_buf piece;
    assert_int_equal(sn_buf_new(frame.size, 0, &piece), SN_OK);
    memset(piece.data, 'x', frame.size);
    piece.size = frame.size;
    enum sn_err err = sn_mux_input_data(mux, 1, &frame, 0, &piece);
    assert_null(piece.slab);
    return err;
}

static void drain_output(struct sn_mux *mux)
{
    struct sn_frame frame;
    struct sn_buf payload;
    int headroom;
    while (sn_mux_output(mux, 1, 1000, &frame, &payload, &headroom) == SN_OK)
        sn_buf_unref(&payload);
}

static const uint8_t offer_bytes[] = {0x82, 0x00, 0xa1, 's', 0x02, 0xce, 0x00, 0x04, 0x00, 0x00};

static enum sn_err inject_open(struct sn_mux *mux, uint64_t id)
{
    struct sn_frame frame = {.type = SN_FRAME_OPEN, .stream = id, .size = sizeof offer_bytes};
    return inject(mux, frame, offer_bytes);
}

static void victim_init(struct victim *victim)
{
    *victim = (struct victim){0};
    struct sn_mux_config config = {.ops = &mux_ops,
                                   .arg = &victim->seen,
                                   .window_bytes = WINDOW,
                                   .streams_max = 8,
                                   .even_ids = 1};
    assert_int_equal(sn_mux_new(&config, &victim->mux), SN_OK);
    sn_mux_lane_up(victim->mux, 1);
    assert_int_equal(inject_open(victim->mux, 1), SN_OK);
    struct sn_frame data = {.type = SN_FRAME_DATA, .stream = 1, .size = 10};
    assert_int_equal(inject(victim->mux, data, NULL), SN_OK);
    assert_int_equal(sn_stream_open(victim->mux, 1, 0, 0, "a", NULL, 0, &victim->own), SN_OK);
    assert_int_equal(sn_stream_open(victim->mux, 1, 0, 0, "b", NULL, 0, &victim->waiting), SN_OK);
    assert_int_equal(write_bytes(victim->own, 0, 10), SN_OK);
    drain_output(victim->mux);
    struct sn_frame accept = {.type = SN_FRAME_ACCEPT, .stream = 2, .offset = WINDOW};
    assert_int_equal(inject(victim->mux, accept, NULL), SN_OK);
}

struct violation {
    const char *name;
    struct sn_frame frame;
    uint8_t payload[16];
    enum sn_err expected;
    const char *before; /* frame to be let through first, by its initial: E = END of stream 1 */
};

#define U64(a)                                                                                     \
    {                                                                                              \
        0, 0, 0, 0, (uint8_t)((a) >> 24), (uint8_t)((a) >> 16), (uint8_t)((a) >> 8), (uint8_t)(a)  \
    }
#define OFFER                                                                                      \
    {                                                                                              \
        0x82, 0x00, 0xa1, 's', 0x02, 0xce, 0x00, 0x04, 0x00, 0x00                                  \
    }

static const struct violation violations[] = {
    {"data for an id never opened", {SN_FRAME_DATA, .size = 1, .stream = 3}, {0}, SN_EPROTO, NULL},
    {"data for our id never opened", {SN_FRAME_DATA, .size = 1, .stream = 6}, {0}, SN_EPROTO, NULL},
    {"ack for an id never opened", {SN_FRAME_ACK, .size = 8, .stream = 99}, {0}, SN_EPROTO, NULL},
    {"stream zero", {SN_FRAME_RESET, .size = 4, .stream = 0}, {0}, SN_EPROTO, NULL},
    {"id too large", {SN_FRAME_OPEN, .size = 10, .stream = UINT64_MAX}, OFFER, SN_EPROTO, NULL},
    {"gap", {SN_FRAME_DATA, .size = 1, .stream = 1, .offset = 11}, {0}, SN_EPROTO, NULL},
    {"overlap", {SN_FRAME_DATA, .size = 5, .stream = 1, .offset = 9}, {0}, SN_EPROTO, NULL},
    {"repetition", {SN_FRAME_DATA, .size = 10, .stream = 1}, {0}, SN_EPROTO, NULL},
    {"offset overflow",
     {SN_FRAME_DATA, .size = 9, .stream = 1, .offset = UINT64_MAX - 2},
     {0},
     SN_EPROTO,
     NULL},
    {"beyond credit",
     {SN_FRAME_DATA, .size = WINDOW - 9, .stream = 1, .offset = 10},
     {0},
     SN_EPROTO,
     NULL},
    {"up to credit is fine",
     {SN_FRAME_DATA, .size = WINDOW - 10, .stream = 1, .offset = 10},
     {0},
     SN_OK,
     NULL},
    {"data before accept", {SN_FRAME_DATA, .size = 1, .stream = 4}, {0}, SN_EPROTO, NULL},
    {"end before accept", {SN_FRAME_END, .size = 8, .stream = 4}, {0}, SN_EPROTO, NULL},
    {"data after end", {SN_FRAME_DATA, .size = 1, .stream = 1, .offset = 10}, {0}, SN_EPROTO, "E"},
    {"second end", {SN_FRAME_END, .size = 8, .stream = 1, .offset = 10}, {0}, SN_EPROTO, "E"},
    {"end too short", {SN_FRAME_END, .size = 8, .stream = 1, .offset = 9}, {0}, SN_EPROTO, NULL},
    {"end too long", {SN_FRAME_END, .size = 8, .stream = 1, .offset = 11}, {0}, SN_EPROTO, NULL},
    {"end without checksum",
     {SN_FRAME_END, .size = 0, .stream = 1, .offset = 10},
     {0},
     SN_EPROTO,
     NULL},
    {"ack beyond what was sent",
     {SN_FRAME_ACK, .size = 8, .stream = 2, .offset = 11},
     U64(WINDOW),
     SN_EPROTO,
     NULL},
    {"ack", {SN_FRAME_ACK, .size = 8, .stream = 2, .offset = 10}, U64(WINDOW), SN_OK, NULL},
    {"credit taken back",
     {SN_FRAME_ACK, .size = 8, .stream = 2, .offset = 10},
     U64(WINDOW - 1),
     SN_EPROTO,
     NULL},
    {"credit below ack",
     {SN_FRAME_ACK, .size = 8, .stream = 2, .offset = 10},
     U64(9),
     SN_EPROTO,
     NULL},
    {"credit overflow",
     {SN_FRAME_ACK, .size = 8, .stream = 2, .offset = 10},
     U64(0x7fffffff),
     SN_EPROTO,
     NULL},
    {"credit huge",
     {SN_FRAME_ACK, .size = 8, .stream = 2},
     {0xff, 0xff, 0xff, 0xff, 0xff},
     SN_EPROTO,
     NULL},
    {"ack short", {SN_FRAME_ACK, .size = 7, .stream = 2}, {0}, SN_EPROTO, NULL},
    {"ack of an end not sent",
     {SN_FRAME_ACK, .flags = SN_FRAME_ENDED, .size = 8, .stream = 2, .offset = 10},
     U64(WINDOW),
     SN_EPROTO,
     NULL},
    {"accept of the peer's own",
     {SN_FRAME_ACCEPT, .stream = 1, .offset = WINDOW},
     {0},
     SN_EPROTO,
     NULL},
    {"second accept", {SN_FRAME_ACCEPT, .stream = 2, .offset = WINDOW}, {0}, SN_EPROTO, NULL},
    {"accept with less than known",
     {SN_FRAME_ACCEPT, .stream = 4, .offset = 1},
     {0},
     SN_EPROTO,
     NULL},
    {"accept with too much",
     {SN_FRAME_ACCEPT, .stream = 4, .offset = UINT64_MAX},
     {0},
     SN_EPROTO,
     NULL},
    {"accept with payload",
     {SN_FRAME_ACCEPT, .size = 1, .stream = 4, .offset = WINDOW},
     {0},
     SN_EPROTO,
     NULL},
    {"reset without reason", {SN_FRAME_RESET, .size = 0, .stream = 1}, {0}, SN_EPROTO, NULL},
    {"open with our parity", {SN_FRAME_OPEN, .size = 10, .stream = 8}, OFFER, SN_EPROTO, NULL},
    {"open of an open id", {SN_FRAME_OPEN, .size = 10, .stream = 1}, OFFER, SN_EPROTO, NULL},
    {"open without content", {SN_FRAME_OPEN, .size = 0, .stream = 3}, {0}, SN_EPROTO, NULL},
    {"open without service",
     {SN_FRAME_OPEN, .size = 7, .stream = 3},
     {0x81, 0x02, 0xce, 0, 4, 0, 0},
     SN_EPROTO,
     NULL},
    {"open without credit",
     {SN_FRAME_OPEN, .size = 4, .stream = 3},
     {0x81, 0x00, 0xa1, 's'},
     SN_EPROTO,
     NULL},
    {"open with little credit",
     {SN_FRAME_OPEN, .size = 6, .stream = 3},
     {0x82, 0x00, 0xa1, 's', 0x02, 0x05},
     SN_EPROTO,
     NULL},
    {"open with a tail", {SN_FRAME_OPEN, .size = 11, .stream = 3}, OFFER, SN_EPROTO, NULL},
    {"open with an offset",
     {SN_FRAME_OPEN, .size = 10, .stream = 3, .offset = 1},
     OFFER,
     SN_EPROTO,
     NULL},
    {"open", {SN_FRAME_OPEN, .size = 10, .stream = 3}, OFFER, SN_OK, NULL},
};

static void expect_same(const struct sn_stream_info *a, const struct sn_stream_info *b)
{
    assert_true(a->id == b->id && a->lane == b->lane && a->is_accepted == b->is_accepted);
    assert_true(a->sent_end == b->sent_end && a->got_end == b->got_end);
    assert_true(a->sent == b->sent && a->acked == b->acked && a->retained == b->retained);
    assert_true(a->received == b->received && a->consumed == b->consumed);
}

static void test_violations(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    for (size_t i = 0; i < SN_ARRAY_COUNT(violations); i++) {
        const struct violation *row = &violations[i];
        struct victim victim;
        struct sn_stream_info info[2][3];
        struct sn_mux_stats stats[2];
        victim_init(&victim);
        if (row->before != NULL) {
            uint8_t sum[8];
            sni_put_u64(sum, XXH3_64bits("xxxxxxxxxx", 10));
            struct sn_frame end = {.type = SN_FRAME_END, .size = 8, .stream = 1, .offset = 10};
            assert_int_equal(inject(victim.mux, end, sum), SN_OK);
        }
        struct sn_stream *streams[3] = {victim.seen.stream, victim.own, victim.waiting};
        for (int k = 0; k < 3; k++) sn_stream_info(streams[k], &info[0][k]);
        sn_mux_stats(victim.mux, &stats[0]);
        enum sn_err err = inject(victim.mux, row->frame, row->payload);
        if (err != row->expected) fail_msg("%s: %s", row->name, sn_err_name(err));
        for (int k = 0; k < 3; k++) sn_stream_info(streams[k], &info[1][k]);
        sn_mux_stats(victim.mux, &stats[1]);
        if (err != SN_OK) {
            for (int k = 0; k < 3; k++) expect_same(&info[0][k], &info[1][k]);
            assert_memory_equal(&stats[0], &stats[1], sizeof stats[0]);
        }
        sn_mux_free(victim.mux);
    }
    assert_int_equal(sn_alloc_in_use(), before);
}

/* Frames that cross our RESET, or come for streams that are gone, are no violation. */
static void test_leftovers(void **state)
{
    (void)state;
    struct victim victim;
    victim_init(&victim);
    sn_stream_reset(victim.seen.stream, SN_ETIMEDOUT);
    struct sn_frame data = {.type = SN_FRAME_DATA, .stream = 1, .offset = 10, .size = 100};
    struct sn_frame reset = {.type = SN_FRAME_RESET, .stream = 1, .size = 4};
    const uint8_t reason[4] = {0xff, 0xff, 0xff, 0xff};
    assert_int_equal(inject(victim.mux, data, NULL), SN_OK);
    assert_int_equal(inject(victim.mux, reset, reason), SN_OK); /* crossing */
    assert_int_equal(victim.seen.closed, 0);                    /* ours came first */
    sn_stream_free(victim.seen.stream);
    drain_output(victim.mux);
    assert_int_equal(inject(victim.mux, data, NULL), SN_OK);
    assert_int_equal(inject(victim.mux, reset, reason), SN_OK);
    assert_int_equal(inject_open(victim.mux, 1), SN_EPROTO); /* used is used */
    reset.stream = 2;
    sn_stream_set_user(victim.own, &stream_ops, &victim.seen);
    assert_int_equal(inject(victim.mux, reset, reason), SN_OK);
    assert_int_equal(victim.seen.closed, 1);
    assert_int_equal(victim.seen.reason, SN_ERESET); /* a reason we do not know */
    assert_int_equal(inject(victim.mux, reset, reason), SN_OK);
    sn_mux_free(victim.mux);
}

/* OPENs may overtake each other on different lanes. */
static void test_ids_out_of_order(void **state)
{
    (void)state;
    struct victim victim;
    victim_init(&victim);
    assert_int_equal(inject_open(victim.mux, 7), SN_OK);
    assert_int_equal(inject_open(victim.mux, 3), SN_OK);
    assert_int_equal(victim.seen.opened, 3);
    assert_int_equal(inject_open(victim.mux, 7), SN_EPROTO);
    assert_int_equal(inject_open(victim.mux, 100003), SN_OK);
    assert_int_equal(inject_open(victim.mux, 5), SN_OK); /* too old to know: refused */
    assert_int_equal(victim.seen.opened, 4);
    struct sn_mux_stats stats;
    sn_mux_stats(victim.mux, &stats);
    assert_int_equal(stats.refused, 1);
    sn_mux_free(victim.mux);
}

static void test_many_opens(void **state)
{
    (void)state;
    struct victim victim;
    victim_init(&victim);
    size_t base = sn_alloc_in_use();
    size_t peak = 0;
    for (uint64_t i = 1; i <= 100000; i++) {
        assert_int_equal(inject_open(victim.mux, i * 2 + 1), SN_OK);
        if (i % 100 == 0) drain_output(victim.mux);
        if (sn_alloc_in_use() > peak) peak = sn_alloc_in_use();
    }
    struct sn_mux_stats stats;
    sn_mux_stats(victim.mux, &stats);
    assert_int_equal(stats.refused, 100000 - 5);
    assert_int_equal(stats.open_now, 8);
    assert_true(peak - base < 32 * 1024);
    /* A peer that does not even read the answers is cut off, at a bound. */
    enum sn_err err = SN_OK;
    uint64_t id = 300001, waiting = 0;
    for (; err == SN_OK && waiting < 100000; waiting++, id += 2) err = inject_open(victim.mux, id);
    assert_int_equal(err, SN_EPROTO);
    assert_int_equal(waiting, SN_STREAMS_MAX + 1);
    assert_true(sn_alloc_in_use() - base < 2u << 20);
    sn_mux_free(victim.mux);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_frames), cmocka_unit_test(test_violations),
        cmocka_unit_test(test_leftovers),     cmocka_unit_test(test_ids_out_of_order),
        cmocka_unit_test(test_many_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
