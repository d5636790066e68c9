/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "joint.h"

#define WINDOW (256u * 1024u)

/* What the user of a stream was told. */
struct seen {
    uint32_t opened, accepted, readable, writable, finished, closed;
    enum sn_err reason;
    struct sn_stream *stream; /* the last one opened by the peer */
    uint8_t do_accept, do_refuse, do_open;
    struct sn_mux *mux;
    int free_in; /* callback that frees the stream: 'a' 'r' 'w' 'f' 'c' 'o' */
};

static void note(struct seen *seen, uint32_t *counter, struct sn_stream *stream, int which)
{
    (*counter)++;
    if (seen->free_in == which) sn_stream_free(stream);
}

static void on_accepted(void *user, struct sn_stream *stream)
{
    struct seen *seen = user;
    note(seen, &seen->accepted, stream, 'a');
}

static void on_readable(void *user, struct sn_stream *stream)
{
    struct seen *seen = user;
    note(seen, &seen->readable, stream, 'r');
}

static void on_writable(void *user, struct sn_stream *stream)
{
    struct seen *seen = user;
    note(seen, &seen->writable, stream, 'w');
}

static void on_finished(void *user, struct sn_stream *stream)
{
    struct seen *seen = user;
    note(seen, &seen->finished, stream, 'f');
}

static void on_closed(void *user, struct sn_stream *stream, enum sn_err reason)
{
    struct seen *seen = user;
    seen->reason = reason;
    if (seen->do_open) {
        struct sn_stream *fresh;
        enum sn_err err = sn_stream_open(seen->mux, 1, SN_QOS_BULK, 0, "again", NULL, 0, &fresh);
        assert_true(err == SN_OK || err == SN_EUNREACHABLE);
    }
    note(seen, &seen->closed, stream, 'c');
}

static const struct sn_stream_ops stream_ops = {.accepted = on_accepted,
                                                .readable = on_readable,
                                                .writable = on_writable,
                                                .finished = on_finished,
                                                .closed = on_closed};

static void on_opened(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                      uint32_t meta_size)
{
    struct seen *seen = arg;
    assert_true(service[0] != 0 && (meta != NULL || meta_size == 0));
    seen->opened++;
    seen->stream = stream;
    sn_stream_set_user(stream, &stream_ops, seen);
    if (seen->do_accept) sn_stream_accept(stream);
    if (seen->do_refuse) sn_stream_reset(stream, SN_EDENIED);
    if (seen->do_refuse || seen->free_in == 'o') sn_stream_free(stream);
}

static const struct sn_mux_ops mux_ops = {.opened = on_opened};

/* --- A pair of muxes with one stream ---------------------------------------------------------- */

struct pair {
    struct joint joint;
    struct seen seen[2];
    struct sn_stream *stream[2];
    size_t before;
};

static void pair_init(struct pair *pair, uint32_t window, uint32_t streams_max)
{
    memset(pair, 0, sizeof *pair);
    pair->before = sn_alloc_in_use();
    struct sn_mux_config config = {.window_bytes = window, .streams_max = streams_max};
    joint_init(&pair->joint, &config, &mux_ops, &mux_ops, &pair->seen[1]);
    pair->seen[1].do_accept = 1;
    joint_up(&pair->joint, 1);
}

static void pair_open(struct pair *pair, enum sn_qos qos)
{
    assert_int_equal(
        sn_stream_open(pair->joint.mux[0], 1, qos, 0, "echo", "abc", 3, &pair->stream[0]), SN_OK);
    sn_stream_set_user(pair->stream[0], &stream_ops, &pair->seen[0]);
    joint_settle(&pair->joint);
    pair->stream[1] = pair->seen[1].stream;
}

static void pair_fini(struct pair *pair)
{
    joint_fini(&pair->joint);
    assert_int_equal(sn_alloc_in_use(), pair->before);
}

static enum sn_err write_bytes(struct sn_stream *stream, uint64_t at, uint32_t size)
{
    struct sn_buf piece = joint_piece(7, at, size, 0);
    enum sn_err err = sn_stream_write(stream, &piece, 0);
    sn_buf_unref(&piece);
    return err;
}

/* Reads all there is; checks it against what write_bytes wrote from `at` on. */
static uint64_t read_bytes(struct sn_stream *stream, uint64_t at)
{
    struct sn_buf piece;
    while (sn_stream_read(stream, &piece) == SN_OK) {
        for (uint32_t i = 0; i < piece.size; i++) {
            assert_int_equal(piece.data[i], joint_byte(7, at + i));
        }
        at += piece.size;
        sn_stream_consume(stream, piece.size);
        sn_buf_unref(&piece);
    }
    return at;
}

static enum sn_err read_error(struct sn_stream *stream)
{
    struct sn_buf piece;
    enum sn_err err = sn_stream_read(stream, &piece);
    if (err == SN_OK) sn_buf_unref(&piece);
    return err;
}

/* --- Resources -------------------------------------------------------------------------------- */

static void test_open_errors(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct seen seen = {0};
    struct sn_budget *budget;
    assert_int_equal(sn_budget_new(6 * WINDOW, &budget), SN_OK);
    struct sn_mux_config config = {
        .ops = &mux_ops, .arg = &seen, .budget = budget, .window_bytes = WINDOW, .streams_max = 2};
    struct sn_mux *mux, *other;
    struct sn_stream *streams[4];
    assert_int_equal(sn_mux_new(&config, &mux), SN_OK);
    assert_int_equal(sn_mux_new(&config, &other), SN_OK);
    assert_int_equal(sn_stream_open(mux, 1, 0, 0, "s", NULL, 0, &streams[0]), SN_EUNREACHABLE);
    sn_mux_lane_up(mux, 1);
    sn_mux_lane_up(other, 1);
    char name[64] = {0};
    memset(name, 'n', SN_SERVICE_BYTES_MAX + 1);
    uint8_t meta[SN_STREAM_META_BYTES_MAX] = {0};
    assert_int_equal(sn_stream_open(mux, 1, 0, 0, name, NULL, 0, &streams[0]), SN_ETOOBIG);
    name[SN_SERVICE_BYTES_MAX] = 0;
    assert_int_equal(sn_stream_open(mux, 1, 0, 0, name, meta, sizeof meta + 1, &streams[0]),
                     SN_ETOOBIG);
    assert_int_equal(sn_stream_open(mux, 1, 0, 0, name, meta, sizeof meta, &streams[0]), SN_OK);
    assert_int_equal(sn_stream_open(mux, 1, 0, 0, "s", NULL, 0, &streams[1]), SN_OK);
    assert_int_equal(sn_stream_open(mux, 1, 0, 0, "s", NULL, 0, &streams[2]), SN_EFULL);
    assert_int_equal(sn_stream_open(other, 1, 0, 0, "s", NULL, 0, &streams[2]), SN_OK);
    assert_int_equal(sn_stream_open(other, 1, 0, 0, "s", NULL, 0, &streams[3]), SN_ENOMEM);
    sn_stream_free(streams[1]); /* OPEN was not sent: nobody needs to know */
    assert_int_equal(sn_budget_used(budget), 4 * WINDOW); /* two windows each */
    assert_int_equal(sn_stream_open(other, 1, 0, 0, "s", NULL, 0, &streams[3]), SN_OK);
    config.window_base_bytes = SN_STREAM_INITIAL_CREDIT - 1;
    assert_int_equal(sn_mux_new(&config, &mux), SN_EINVAL);
    config.window_base_bytes = config.window_bytes + 1;
    assert_int_equal(sn_mux_new(&config, &mux), SN_EINVAL);
    config.window_base_bytes = 0;
    config.window_bytes = SN_STREAM_INITIAL_CREDIT - 1;
    struct sn_mux *none = NULL;
    assert_int_equal(sn_mux_new(&config, &none), SN_EINVAL);
    config.window_bytes = WINDOW;
    config.streams_max = SN_STREAMS_MAX + 1;
    assert_int_equal(sn_mux_new(&config, &none), SN_EINVAL);
    sn_mux_free(mux);
    sn_mux_free(other);
    assert_int_equal(sn_budget_used(budget), 0);
    sn_budget_free(budget);
    assert_int_equal(sn_alloc_in_use(), before);
}

/* A reader that stops costs its windows and nothing else; the others go on. */
static void test_stalled_reader(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, WINDOW, 8);
    pair_open(&pair, SN_QOS_BULK);
    struct sn_stream *stalled = pair.stream[0], *stalled_end = pair.stream[1];
    pair_open(&pair, SN_QOS_BULK);
    uint64_t wrote = 0, read = 0, stuck = 0;
    size_t base = sn_alloc_in_use();
    for (int i = 0; i < 300; i++) {
        if (write_bytes(stalled, stuck, 20000) == SN_OK) stuck += 20000;
        if (write_bytes(pair.stream[0], wrote, 20000) == SN_OK) wrote += 20000;
        joint_settle(&pair.joint);
        read = read_bytes(pair.stream[1], read);
        joint_settle(&pair.joint);
    }
    struct sn_stream_info info;
    assert_int_equal(wrote, 300 * 20000);
    assert_int_equal(read, wrote);
    assert_true(stuck >= 2 * WINDOW && stuck <= 2 * WINDOW + 2 * 20000);
    sn_stream_info(stalled_end, &info);
    assert_int_equal(info.received, WINDOW);
    sn_stream_info(stalled, &info);
    assert_true(info.retained >= WINDOW && info.retained < WINDOW + 20000);
    assert_true(sn_alloc_in_use() - base < 2 * WINDOW + 128 * 1024);
    assert_int_equal(write_bytes(stalled, stuck, 1), SN_EAGAIN);
    assert_int_equal(pair.seen[0].writable, 0);
    /* It wakes up, and so does the writer. */
    uint64_t late = read_bytes(stalled_end, 0);
    joint_settle(&pair.joint);
    assert_true(pair.seen[0].writable > 0);
    late = read_bytes(stalled_end, late);
    joint_settle(&pair.joint);
    assert_int_equal(read_bytes(stalled_end, late), stuck);
    pair_fini(&pair);
}

/* --- Scheduling ------------------------------------------------------------------------------- */

static void test_fairness(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, 8u << 20, 16);
    struct sn_stream *streams[8];
    /* Two streams a class; one of each writes pieces a hundred times larger than the other's. */
    for (unsigned i = 0; i < 8; i++) {
        pair_open(&pair, (enum sn_qos)(i / 2));
        streams[i] = pair.stream[0];
    }
    for (unsigned i = 0; i < 8; i++) {
        uint32_t size = i % 2 ? 2000 : 200000;
        for (uint64_t at = 0; at < 8u << 20; at += size) {
            if (write_bytes(streams[i], at, size) != SN_OK) break;
        }
    }
    uint64_t sent[4] = {0}, of_stream[8] = {0}, total = 0;
    while (total < 6u << 20) {
        struct sn_frame frame;
        struct sn_buf payload;
        int headroom;
        assert_int_equal(
            sn_mux_output(pair.joint.mux[0], 1, 64 * 1024, &frame, &payload, &headroom), SN_OK);
        sn_buf_unref(&payload);
        sent[frame.qos] += frame.size;
        of_stream[(frame.stream - 1) / 2] += frame.size;
        total += frame.size;
    }
    assert_true(sent[3] > total / 40); /* nobody starves */
    assert_true(sent[0] > sent[1] + sent[1] / 2 && sent[1] > sent[2] + sent[2] / 2);
    assert_true(sent[2] > sent[3] * 2);
    for (unsigned i = 0; i < 8; i += 2) {
        uint64_t a = of_stream[i], b = of_stream[i + 1], most = a > b ? a : b;
        assert_true(most - (a < b ? a : b) <= 3 * SN_STREAM_QUANTUM_BYTES);
    }
    pair_fini(&pair);
}

/* What is urgent does not wait for what is under way, but for one frame. */
static void test_urgent_first(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, 4u << 20, 16);
    pair_open(&pair, SN_QOS_BULK);
    for (uint64_t at = 0; at < 4u << 20; at += 100000)
        (void)write_bytes(pair.stream[0], at, 100000);
    pair.joint.max_data = 16384;
    for (int i = 0; i < 30; i++) assert_true(joint_send(&pair.joint, 0, 1));
    struct sn_stream *urgent;
    assert_int_equal(sn_stream_open(pair.joint.mux[0], 1, SN_QOS_CONTROL, 0, "c", NULL, 0, &urgent),
                     SN_OK);
    assert_int_equal(write_bytes(urgent, 0, 100), SN_OK);
    assert_true(joint_send(&pair.joint, 0, 1));
    assert_int_equal(pair.joint.last[0].type, SN_FRAME_OPEN);
    assert_true(joint_send(&pair.joint, 0, 1));
    assert_int_equal(pair.joint.last[0].type, SN_FRAME_DATA);
    assert_int_equal(pair.joint.last[0].qos, SN_QOS_CONTROL);
    pair_fini(&pair);
}

static void count_hook(void *arg, unsigned lane)
{
    uint32_t *counts = arg;
    counts[lane]++;
}

static void test_output_hook(void **state)
{
    (void)state;
    struct pair pair;
    uint32_t counts[SN_LANES_MAX] = {0};
    pair_init(&pair, WINDOW, 16);
    sn_mux_set_output_hook(pair.joint.mux[0], count_hook, counts);
    pair_open(&pair, SN_QOS_BULK);
    assert_int_equal(counts[1], 1);
    assert_int_equal(write_bytes(pair.stream[0], 0, 10), SN_OK);
    assert_int_equal(write_bytes(pair.stream[0], 10, 10), SN_OK);
    assert_int_equal(counts[1], 2); /* there was output already */
    assert_true(sn_mux_has_output(pair.joint.mux[0], 1));
    assert_false(sn_mux_has_output(pair.joint.mux[0], 2));
    pair_fini(&pair);
}

/* --- Life ------------------------------------------------------------------------------------- */

/* T30: one side ends, the other answers at length; each end is seen without waiting for the tick.
 * */
static void test_half_close(void **state)
{
    (void)state;
    for (int mirror = 0; mirror < 2; mirror++) {
        struct pair pair;
        pair_init(&pair, WINDOW, 8);
        pair_open(&pair, SN_QOS_BULK);
        struct sn_stream *first = pair.stream[mirror], *second = pair.stream[1 - mirror];
        for (int turn = 0; turn < 2; turn++) {
            struct sn_stream *from = turn == 0 ? first : second, *to = turn == 0 ? second : first;
            uint64_t wrote = 0, read = 0;
            while (wrote < 3000000) {
                if (write_bytes(from, wrote, 50000) == SN_OK) wrote += 50000;
                joint_settle(&pair.joint);
                read = read_bytes(to, read);
            }
            sn_stream_end(from);
            sn_stream_end(from);
            assert_int_equal(write_bytes(from, 0, 1), SN_ESTATE);
            joint_settle(&pair.joint);
            assert_int_equal(read_bytes(to, read), 3000000);
            assert_int_equal(read_error(to), SN_ECLOSED);
        }
        assert_int_equal(pair.seen[0].finished, 1);
        assert_int_equal(pair.seen[1].finished, 1);
        assert_int_equal(pair.seen[0].closed + pair.seen[1].closed, 0);
        uint64_t frames = pair.joint.frames[0] + pair.joint.frames[1];
        sn_stream_free(pair.stream[0]);
        sn_stream_free(pair.stream[1]);
        joint_settle(&pair.joint);
        assert_int_equal(pair.joint.frames[0] + pair.joint.frames[1], frames); /* no RESET */
        struct sn_mux_stats stats;
        sn_mux_stats(pair.joint.mux[0], &stats);
        assert_int_equal(stats.open_now, 0);
        assert_int_equal(stats.finished, 1);
        pair_fini(&pair);
    }
}

/* END is acknowledged at once: `finished` does not need the tick. */
static void test_prompt_end(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, WINDOW, 8);
    pair_open(&pair, SN_QOS_BULK);
    assert_int_equal(write_bytes(pair.stream[0], 0, 100), SN_OK);
    while (joint_send(&pair.joint, 0, 1)) assert_true(joint_deliver(&pair.joint, 0, 1, 1, 1000));
    assert_false(sn_mux_has_output(pair.joint.mux[1], 1)); /* this ack may wait */
    assert_int_equal(sn_mux_tick(pair.joint.mux[1], 1000), 1000 + SN_STREAM_ACK_DELAY_NS);
    assert_int_equal(sn_mux_tick(pair.joint.mux[1], 1001), 1000 + SN_STREAM_ACK_DELAY_NS);
    assert_false(sn_mux_has_output(pair.joint.mux[1], 1));
    assert_true(sn_mux_tick(pair.joint.mux[1], 1000 + SN_STREAM_ACK_DELAY_NS) == UINT64_MAX);
    assert_true(joint_send(&pair.joint, 1, 1));
    assert_int_equal(pair.joint.last[1].type, SN_FRAME_ACK);
    assert_int_equal(pair.joint.last[1].offset, 100);
    assert_true(joint_deliver(&pair.joint, 1, 1, 1, 1));
    struct sn_stream_info info;
    sn_stream_info(pair.stream[0], &info);
    assert_int_equal(info.retained, 0);
    sn_stream_end(pair.stream[0]);
    assert_true(joint_send(&pair.joint, 0, 1));
    assert_true(joint_deliver(&pair.joint, 0, 1, 1, 1));
    assert_true(joint_send(&pair.joint, 1, 1));
    assert_true(joint_deliver(&pair.joint, 1, 1, 1, 1));
    assert_int_equal(pair.seen[0].finished, 1);
    pair_fini(&pair);
}

static void test_ack_traffic(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, SN_STREAM_INITIAL_CREDIT, 8); /* the smallest window acknowledges most often */
    pair_open(&pair, SN_QOS_BULK);
    pair.joint.max_data = 4096;
    uint64_t wrote = 0, read = 0;
    while (read < 8000000) {
        if (write_bytes(pair.stream[0], wrote, 4000) == SN_OK) wrote += 4000;
        (void)joint_send(&pair.joint, 0, 1); /* nothing to send is fine */
        (void)joint_deliver(&pair.joint, 0, 1, UINT32_MAX, 1);
        read = read_bytes(pair.stream[1], read);
        (void)joint_send(&pair.joint, 1, 1);
        (void)joint_deliver(&pair.joint, 1, 1, 1, 1);
    }
    assert_true(pair.joint.ack_bytes[1] * 200 <= read);
    pair_fini(&pair);
}

/* Early bytes: 64 KiB may travel before the stream is accepted, and not one more. */
static void test_initial_credit(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, WINDOW, 8);
    pair.seen[1].do_accept = 0;
    pair_open(&pair, SN_QOS_BULK);
    assert_int_equal(write_bytes(pair.stream[0], 0, 200000), SN_OK);
    joint_settle(&pair.joint);
    struct sn_stream_info info;
    sn_stream_info(pair.stream[1], &info);
    assert_int_equal(info.received, SN_STREAM_INITIAL_CREDIT);
    assert_false(info.is_accepted);
    /* What the acceptor writes waits, too. */
    assert_int_equal(write_bytes(pair.stream[1], 0, 100), SN_OK);
    uint64_t read = read_bytes(pair.stream[1], 0);
    joint_settle(&pair.joint);
    assert_int_equal(read_error(pair.stream[0]), SN_EAGAIN);
    assert_int_equal(read_error(pair.stream[1]), SN_EAGAIN);
    sn_stream_accept(pair.stream[1]);
    joint_settle(&pair.joint);
    assert_int_equal(pair.seen[0].accepted, 1);
    assert_int_equal(read_bytes(pair.stream[1], read), 200000);
    assert_int_equal(read_bytes(pair.stream[0], 0), 100);
    pair_fini(&pair);
}

static void test_refused(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, WINDOW, 1);
    pair.seen[1].do_refuse = 1;
    pair_open(&pair, SN_QOS_BULK);
    assert_int_equal(pair.seen[0].closed, 1);
    assert_int_equal(pair.seen[0].reason, SN_EDENIED);
    assert_int_equal(read_error(pair.stream[0]), SN_EDENIED);
    assert_int_equal(write_bytes(pair.stream[0], 0, 1), SN_ECLOSED);
    sn_stream_free(pair.stream[0]);
    /* No room at the peer. */
    pair.seen[1].do_refuse = 0;
    struct sn_stream *theirs;
    assert_int_equal(sn_stream_open(pair.joint.mux[1], 1, 0, 0, "s", NULL, 0, &theirs), SN_OK);
    pair_open(&pair, SN_QOS_BULK);
    assert_int_equal(pair.seen[0].closed, 2);
    assert_int_equal(pair.seen[0].reason, SN_EFULL);
    pair_fini(&pair);
}

/* One bit altered on the way: the reader gets an error instead of the end. */
static void test_checksum(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, WINDOW, 8);
    pair_open(&pair, SN_QOS_BULK);
    assert_int_equal(write_bytes(pair.stream[0], 0, 5000), SN_OK);
    sn_stream_end(pair.stream[0]);
    assert_true(joint_send(&pair.joint, 0, 1));
    pair.joint.queue[0][1].first->payload.data[4000] ^= 4;
    joint_settle(&pair.joint);
    assert_int_equal(pair.seen[1].closed, 1);
    assert_int_equal(pair.seen[1].reason, SN_EIO);
    assert_int_equal(read_error(pair.stream[1]), SN_EIO);
    assert_int_equal(pair.seen[0].closed, 1);
    assert_int_equal(pair.seen[0].reason, SN_EIO);
    assert_int_equal(pair.seen[0].finished, 0);
    pair_fini(&pair);
}

static void test_empty_stream(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, WINDOW, 8);
    pair_open(&pair, SN_QOS_BULK);
    struct sn_buf empty = {0};
    assert_int_equal(sn_stream_write(pair.stream[0], &empty, 0), SN_OK);
    sn_stream_end(pair.stream[0]);
    sn_stream_end(pair.stream[1]);
    joint_settle(&pair.joint);
    assert_int_equal(read_error(pair.stream[0]), SN_ECLOSED);
    assert_int_equal(read_error(pair.stream[1]), SN_ECLOSED);
    assert_int_equal(pair.seen[0].finished + pair.seen[1].finished, 2);
    pair_fini(&pair);
}

static void test_headroom(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, WINDOW, 8);
    pair_open(&pair, SN_QOS_BULK);
    static const struct {
        uint32_t headroom;
        unsigned flags;
        uint32_t size;
        int first;
    } rows[] = {{24, SN_STREAM_OWN_HEADROOM, 5000, 1},
                {23, SN_STREAM_OWN_HEADROOM, 5000, 0},
                {24, 0, 5000, 0}};
    for (size_t i = 0; i < SN_ARRAY_COUNT(rows); i++) {
        struct sn_buf piece = joint_piece(7, i * 5000, rows[i].size, rows[i].headroom);
        assert_int_equal(sn_stream_write(pair.stream[0], &piece, rows[i].flags), SN_OK);
        for (int k = 0; k < 2; k++) {
            struct sn_frame frame;
            struct sn_buf payload;
            int headroom;
            assert_int_equal(sn_mux_output(pair.joint.mux[0], 1, 3000, &frame, &payload, &headroom),
                             SN_OK);
            assert_int_equal(frame.size, k == 0 ? 3000 : 2000);
            assert_int_equal(headroom, k == 0 ? rows[i].first : 0);
            sn_buf_unref(&payload);
        }
    }
    pair_fini(&pair);
}

/* The user frees the stream inside each callback; the addresses checked by the sanitizer. */
static void test_free_in_callbacks(void **state)
{
    (void)state;
    static const char callbacks[] = "arwfco";
    for (const char *at = callbacks; *at != 0; at++) {
        for (unsigned side = 0; side < 2; side++) {
            struct pair pair;
            pair_init(&pair, SN_STREAM_INITIAL_CREDIT, 8);
            pair.seen[side].free_in = *at;
            struct sn_stream *stream;
            assert_int_equal(sn_stream_open(pair.joint.mux[0], 1, 1, 0, "s", NULL, 0, &stream),
                             SN_OK);
            sn_stream_set_user(stream, &stream_ops, &pair.seen[0]);
            for (uint64_t i = 0; i < 30; i++) (void)write_bytes(stream, i * 3000, 3000);
            sn_stream_end(stream);
            joint_settle(&pair.joint);
            struct sn_stream *theirs = sn_mux_next_stream(pair.joint.mux[1], NULL);
            if (theirs != NULL) {
                (void)read_bytes(theirs, 0); /* as far as it came */
                for (uint64_t i = 0; i < 30; i++) (void)write_bytes(theirs, i * 3000, 3000);
                sn_stream_end(theirs);
            }
            joint_settle(&pair.joint);
            pair.seen[0].mux = pair.joint.mux[0];
            pair.seen[0].do_open = 1;
            joint_down(&pair.joint, 1, 0, SN_EUNREACHABLE);
            pair_fini(&pair);
        }
    }
}

static void test_reset_and_free_leave_nothing(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, WINDOW, 4);
    for (int i = 0; i < 1000; i++) {
        pair_open(&pair, (enum sn_qos)(i % 4));
        assert_int_equal(write_bytes(pair.stream[0], 0, 3000), SN_OK);
        if (i % 3 == 0) joint_settle(&pair.joint);
        if (i % 2 == 0) sn_stream_reset(pair.stream[0], SN_ETIMEDOUT);
        if (i % 5 == 0) sn_stream_reset(pair.stream[1], SN_EDENIED);
        sn_stream_free(pair.stream[0]);
        joint_settle(&pair.joint);
        sn_stream_free(pair.stream[1]);
        joint_settle(&pair.joint);
        struct sn_mux_stats stats;
        for (int k = 0; k < 2; k++) {
            sn_mux_stats(pair.joint.mux[k], &stats);
            assert_int_equal(stats.open_now, 0);
        }
    }
    pair_fini(&pair);
}

/* Every allocation of a whole exchange fails once; each time either a clean error or the whole
 * result. */
static int exchange(uint64_t nth)
{
    struct seen seen[2] = {{0}, {.do_accept = 1}};
    struct sn_mux *mux[2] = {NULL, NULL};
    struct sn_stream *stream = NULL;
    int ended = 0, failed = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct sn_mux_config config = {.ops = &mux_ops,
                                       .arg = &seen[i],
                                       .window_bytes = WINDOW,
                                       .streams_max = 4,
                                       .even_ids = (uint8_t)i};
        assert_int_equal(sn_mux_new(&config, &mux[i]), SN_OK);
        sn_mux_lane_up(mux[i], 1);
    }
    struct sn_buf pieces[3];
    for (uint32_t i = 0; i < 3; i++)
        pieces[i] = joint_piece(7, i * 2000, 2000 - (i == 1) * 1990, 0);
    sn_alloc_fail_nth(nth);
    enum sn_err err = sn_stream_open(mux[0], 1, 0, 0, "s", "m", 1, &stream);
    if (err == SN_OK) sn_stream_set_user(stream, &stream_ops, &seen[0]);
    for (uint32_t i = 0; i < 3 && err == SN_OK; i++) err = sn_stream_write(stream, &pieces[i], 0);
    if (err == SN_OK) sn_stream_end(stream);
    for (int round = 0; round < 20 && err == SN_OK; round++) {
        struct sn_mux *from = mux[round % 2], *to = mux[1 - round % 2];
        struct sn_frame frame;
        struct sn_buf payload;
        int headroom;
        while ((err = sn_mux_output(from, 1, 5000, &frame, &payload, &headroom)) == SN_OK) {
            if (frame.type == SN_FRAME_DATA) {
                err = sn_mux_input_data(to, 1, &frame, 0, &payload);
            } else {
                err = sn_mux_input(to, 1, &frame, payload.data);
                sn_buf_unref(&payload);
            }
            if (err != SN_OK) break;
        }
        if (err == SN_ENOENT) err = SN_OK;
        if (seen[1].stream != NULL && seen[1].closed == 0) {
            struct sn_buf piece;
            enum sn_err got;
            while ((got = sn_stream_read(seen[1].stream, &piece)) == SN_OK) sn_buf_unref(&piece);
            ended |= got == SN_ECLOSED;
        }
    }
    sn_alloc_fail_nth(0);
    failed = err != SN_OK || seen[0].closed || seen[1].closed;
    if (err != SN_OK) assert_int_equal(err, SN_ENOMEM);
    if (seen[0].closed) assert_int_equal(seen[0].reason, SN_ENOMEM);
    assert_true(failed || (ended && seen[0].finished));
    for (uint32_t i = 0; i < 3; i++) sn_buf_unref(&pieces[i]);
    sn_mux_free(mux[0]);
    sn_mux_free(mux[1]);
    return failed;
}

static void test_allocation_failure(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    uint64_t nth = 1;
    for (; exchange(nth); nth++) {
        assert_int_equal(sn_alloc_in_use(), before);
        assert_true(nth < 200);
    }
    assert_true(nth > 8);
    struct sn_mux *mux = NULL;
    struct seen seen = {0};
    struct sn_mux_config config = {
        .ops = &mux_ops, .arg = &seen, .window_bytes = WINDOW, .streams_max = 1};
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_mux_new(&config, &mux), SN_ENOMEM);
    assert_null(mux);
    assert_int_equal(sn_alloc_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_errors),
        cmocka_unit_test(test_stalled_reader),
        cmocka_unit_test(test_fairness),
        cmocka_unit_test(test_urgent_first),
        cmocka_unit_test(test_output_hook),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_prompt_end),
        cmocka_unit_test(test_ack_traffic),
        cmocka_unit_test(test_initial_credit),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_empty_stream),
        cmocka_unit_test(test_headroom),
        cmocka_unit_test(test_free_in_callbacks),
        cmocka_unit_test(test_reset_and_free_leave_nothing),
        cmocka_unit_test(test_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
