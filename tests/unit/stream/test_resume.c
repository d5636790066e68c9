/* SPDX-License-Identifier: Apache-2.0 */
/* Loss of a lane, case by case; test_random.c mixes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "joint.h"

#define WINDOW (256u * 1024u)

struct scene {
    struct joint joint;
    struct sn_stream *stream[2];
    uint32_t opened, finished[2], closed[2];
    enum sn_err reason[2];
    size_t before;
};

static unsigned side_of(const struct scene *scene, const struct sn_stream *stream)
{
    return stream == scene->stream[0] ? 0 : 1;
}

static void on_finished(void *user, struct sn_stream *stream)
{
    struct scene *scene = user;
    scene->finished[side_of(scene, stream)]++;
}

static void on_closed(void *user, struct sn_stream *stream, enum sn_err reason)
{
    struct scene *scene = user;
    scene->closed[side_of(scene, stream)]++;
    scene->reason[side_of(scene, stream)] = reason;
}

static const struct sn_stream_ops stream_ops = {.finished = on_finished, .closed = on_closed};

static void on_opened(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                      uint32_t meta_size)
{
    struct scene *scene = arg;
    assert_true(service[0] != 0 && meta != NULL && meta_size == 0);
    scene->opened++;
    scene->stream[1] = stream;
    sn_stream_set_user(stream, &stream_ops, scene);
    sn_stream_accept(stream);
}

static const struct sn_mux_ops mux_ops = {.opened = on_opened};

static void init(struct scene *scene, unsigned flags)
{
    memset(scene, 0, sizeof *scene);
    scene->before = sn_alloc_in_use();
    struct sn_mux_config config = {.window_bytes = WINDOW, .streams_max = 4};
    joint_init(&scene->joint, &config, &mux_ops, &mux_ops, scene);
    joint_up(&scene->joint, 0);
    joint_up(&scene->joint, 1);
    joint_up(&scene->joint, 2);
    assert_int_equal(
        sn_stream_open(scene->joint.mux[0], 1, 1, flags, "s", NULL, 0, &scene->stream[0]), SN_OK);
    sn_stream_set_user(scene->stream[0], &stream_ops, scene);
}

static void fini(struct scene *scene)
{
    joint_fini(&scene->joint);
    assert_int_equal(sn_alloc_in_use(), scene->before);
}

static void write_bytes(struct sn_stream *stream, uint64_t at, uint32_t size)
{
    struct sn_buf piece = joint_piece(3, at, size, SN_FRAME_HEADER_BYTES);
    assert_int_equal(sn_stream_write(stream, &piece, SN_STREAM_OWN_HEADROOM), SN_OK);
}

static uint64_t read_bytes(struct sn_stream *stream, enum sn_err *out_last)
{
    struct sn_buf piece;
    uint64_t at = 0;
    while ((*out_last = sn_stream_read(stream, &piece)) == SN_OK) {
        for (uint32_t i = 0; i < piece.size; i++) {
            assert_int_equal(piece.data[i], joint_byte(3, at + i));
        }
        at += piece.size;
        sn_stream_consume(stream, piece.size);
        sn_buf_unref(&piece);
    }
    return at;
}

static void exchange_ends(struct scene *scene)
{
    sn_stream_end(scene->stream[0]);
    sn_stream_end(scene->stream[1]);
    joint_settle(&scene->joint);
    assert_int_equal(scene->finished[0], 1);
    assert_int_equal(scene->finished[1], 1);
    assert_int_equal(scene->closed[0] + scene->closed[1], 0);
}

static void test_resends_from_the_ack(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    write_bytes(scene.stream[0], 0, 40000);
    joint_settle(&scene.joint); /* all of this is acknowledged */
    for (uint32_t i = 0; i < 5; i++) write_bytes(scene.stream[0], 40000 + i * 10000, 10000);
    for (int i = 0; i < 3; i++) assert_true(joint_send(&scene.joint, 0, 1));
    assert_true(joint_deliver(&scene.joint, 0, 1, 4000, 2)); /* 8000 arrive, 22000 are lost */
    joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
    struct sn_stream_info info;
    sn_stream_info(scene.stream[0], &info);
    assert_int_equal(info.lane, 2);
    assert_int_equal(info.acked, 40000);
    exchange_ends(&scene);
    enum sn_err last;
    assert_int_equal(read_bytes(scene.stream[1], &last), 90000);
    assert_int_equal(last, SN_ECLOSED);
    struct sn_mux_stats stats[2];
    sn_mux_stats(scene.joint.mux[0], &stats[0]);
    sn_mux_stats(scene.joint.mux[1], &stats[1]);
    assert_int_equal(stats[0].sent_bytes, 90000);
    assert_true(stats[0].resent_bytes <= 30000); /* what was unacknowledged at that moment */
    assert_true(stats[1].duplicate_bytes <= 8000);
    assert_int_equal(stats[1].received_bytes, 90000);
    fini(&scene);
}

static void test_open_lost(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    write_bytes(scene.stream[0], 0, 40000);
    assert_true(joint_send(&scene.joint, 0, 1));
    assert_true(joint_send(&scene.joint, 0, 1));
    joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
    assert_int_equal(scene.opened, 0);
    joint_settle(&scene.joint);
    assert_int_equal(scene.opened, 1);
    exchange_ends(&scene);
    enum sn_err last;
    assert_int_equal(read_bytes(scene.stream[1], &last), 40000);
    fini(&scene);
}

/* OPEN arrived, the answer is lost: it is not opened twice. */
static void test_accept_lost(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    write_bytes(scene.stream[0], 0, 40000);
    while (joint_send(&scene.joint, 0, 1)) {
        assert_true(joint_deliver(&scene.joint, 0, 1, UINT32_MAX, UINT32_MAX));
    }
    assert_true(joint_send(&scene.joint, 1, 1)); /* ACCEPT */
    joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
    joint_settle(&scene.joint);
    assert_int_equal(scene.opened, 1);
    struct sn_stream_info info;
    sn_stream_info(scene.stream[0], &info);
    assert_true(info.is_accepted);
    exchange_ends(&scene);
    enum sn_err last;
    assert_int_equal(read_bytes(scene.stream[1], &last), 40000);
    fini(&scene);
}

/* The same, but the acceptor is gone already: the opener hears of it, and it is not opened again.
 * */
static void test_refusal_lost(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    assert_true(joint_send(&scene.joint, 0, 1));
    assert_true(joint_deliver(&scene.joint, 0, 1, 1, 1));
    sn_stream_reset(scene.stream[1], SN_EDENIED);
    sn_stream_free(scene.stream[1]);
    while (joint_send(&scene.joint, 1, 1)) continue;
    joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
    joint_settle(&scene.joint);
    assert_int_equal(scene.opened, 1);
    assert_int_equal(scene.closed[0], 1);
    assert_int_equal(scene.reason[0], SN_ECLOSED);
    fini(&scene);
}

static void test_reset_lost(void **state)
{
    (void)state;
    for (unsigned side = 0; side < 2; side++) {
        for (int is_freed = 0; is_freed < 2; is_freed++) {
            struct scene scene;
            init(&scene, 0);
            joint_settle(&scene.joint);
            sn_stream_reset(scene.stream[side], SN_ETIMEDOUT);
            if (is_freed) sn_stream_free(scene.stream[side]);
            assert_true(joint_send(&scene.joint, side, 1));
            joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
            joint_settle(&scene.joint);
            assert_int_equal(scene.closed[1 - side], 1);
            assert_int_equal(scene.reason[1 - side], is_freed ? SN_ECLOSED : SN_ETIMEDOUT);
            fini(&scene);
        }
    }
}

/* OPEN was lost, then the opener gave up: the other side must not see a RESET for what it never
 * knew. */
static void test_reset_before_open_is_resent(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    assert_true(joint_send(&scene.joint, 0, 1));
    joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
    sn_stream_free(scene.stream[0]);
    joint_settle(&scene.joint);
    assert_int_equal(scene.opened, 0);
    assert_int_equal(scene.joint.frames[0], 1);
    fini(&scene);
}

/* Everything was exchanged but for the last ack, and one side has forgotten the stream. */
static void test_last_ack_lost(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        unsigned side = round % 2;
        int is_freed = round < 2; /* or it is kept, on a lane that this side does not resume */
        struct scene scene;
        init(&scene, 0);
        joint_settle(&scene.joint);
        write_bytes(scene.stream[1 - side], 0, 5000);
        sn_stream_end(scene.stream[side]);
        joint_settle(&scene.joint);
        sn_stream_end(scene.stream[1 - side]);
        while (joint_send(&scene.joint, 1 - side, 1)) {
            assert_true(joint_deliver(&scene.joint, 1 - side, 1, 999, UINT32_MAX));
        }
        assert_int_equal(scene.finished[side], 1);
        enum sn_err last;
        assert_int_equal(read_bytes(scene.stream[side], &last), 5000);
        assert_int_equal(last, SN_ECLOSED);
        if (is_freed) sn_stream_free(scene.stream[side]);
        assert_true(joint_send(&scene.joint, side, 1)); /* the ack, which nobody will get */
        joint_lose(&scene.joint, 1);
        sn_mux_lane_down(scene.joint.mux[side], 1, is_freed, SN_EUNREACHABLE);
        sn_mux_lane_down(scene.joint.mux[1 - side], 1, 1, SN_EUNREACHABLE);
        assert_int_equal(scene.finished[1 - side], 0);
        joint_settle(&scene.joint);
        assert_int_equal(scene.finished[1 - side], 1);
        assert_int_equal(scene.closed[1 - side], 0);
        fini(&scene);
    }
}

static void test_session_streams_close(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, SN_STREAM_SESSION);
    joint_settle(&scene.joint);
    write_bytes(scene.stream[0], 0, 5000);
    joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
    for (int i = 0; i < 2; i++) {
        enum sn_err last;
        assert_int_equal(scene.closed[i], 1);
        assert_int_equal(scene.reason[i], SN_EUNREACHABLE);
        assert_int_equal(read_bytes(scene.stream[i], &last), 0);
        assert_int_equal(last, SN_EUNREACHABLE);
        sn_stream_free(scene.stream[i]);
    }
    joint_settle(&scene.joint);
    fini(&scene);
}

static void lose_all(struct scene *scene)
{
    for (unsigned lane = 0; lane < 3; lane++) {
        joint_down(&scene->joint, lane, 1, SN_EUNREACHABLE);
    }
}

static void resume_all(struct scene *scene)
{
    joint_up(&scene->joint, 0);
    joint_up(&scene->joint, 1);
    (void)sn_mux_resume(scene->joint.mux[0]); /* the tests look at what follows */
    (void)sn_mux_resume(scene->joint.mux[1]);
    joint_settle(&scene->joint);
}

static void test_nowhere_to_go(void **state)
{
    (void)state;
    for (int is_orphaned = 0; is_orphaned < 2; is_orphaned++) {
        struct scene scene;
        init(&scene, 0);
        joint_settle(&scene.joint);
        if (is_orphaned) {
            lose_all(&scene);
            assert_int_equal(scene.closed[0] + scene.closed[1], 0);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(sn_mux_orphans(scene.joint.mux[i]), 1);
                sn_mux_orphans_close(scene.joint.mux[i], SN_ETIMEDOUT);
            }
        } else {
            joint_down(&scene.joint, 1, 0, SN_ETIMEDOUT);
        }
        assert_int_equal(scene.closed[0], 1);
        assert_int_equal(scene.closed[1], 1);
        assert_int_equal(scene.reason[0], SN_ETIMEDOUT);
        joint_down(&scene.joint, 1, 1, SN_ETIMEDOUT); /* harmless */
        sn_mux_orphans_close(scene.joint.mux[0], SN_ETIMEDOUT);
        assert_int_equal(sn_mux_resume(scene.joint.mux[0]), 0);
        assert_int_equal(scene.closed[0], 1);
        fini(&scene);
    }
}

/* All lanes are gone for a while: what was written before and meanwhile arrives, within the window. */
static void test_orphans_resume(void **state)
{
    (void)state;
    struct scene scene;
    struct sn_stream_info info;
    init(&scene, 0);
    write_bytes(scene.stream[0], 0, 40000);
    joint_settle(&scene.joint);
    write_bytes(scene.stream[0], 40000, 10000);
    while (joint_send(&scene.joint, 0, 1)) continue; /* lost */
    lose_all(&scene);
    sn_stream_info(scene.stream[0], &info);
    assert_true(info.is_orphan);
    write_bytes(scene.stream[0], 50000, 10000);
    uint64_t wrote = 60000;
    while (sn_stream_writable_bytes(scene.stream[0]) > 0) {
        write_bytes(scene.stream[0], wrote, 10000);
        wrote += 10000;
    }
    assert_true(wrote - 40000 <= WINDOW + 10000);
    assert_false(sn_mux_has_output(scene.joint.mux[0], 1));
    assert_int_equal(sn_mux_resume(scene.joint.mux[0]), 0); /* no lane yet */
    resume_all(&scene);
    sn_stream_info(scene.stream[0], &info);
    assert_int_equal(info.lane, 1);
    assert_false(info.is_orphan);
    enum sn_err last;
    uint64_t got = read_bytes(scene.stream[1], &last);
    joint_settle(&scene.joint);
    sn_stream_info(scene.stream[1], &info);
    assert_int_equal(info.received, wrote);
    assert_true(got > 40000);
    exchange_ends(&scene);
    fini(&scene);
}

/* What ends while there is no lane: the other end hears of it when it asks, and nothing lingers. */
static void test_orphans_end(void **state)
{
    (void)state;
    enum { ENDS, RESETS, FREES, OPENS, CASES };
    for (unsigned what = 0; what < CASES; what++) {
        struct scene scene;
        struct sn_mux_stats stats;
        init(&scene, 0);
        if (what != OPENS) joint_settle(&scene.joint);
        lose_all(&scene);
        assert_int_equal(sn_mux_orphans(scene.joint.mux[0]), 1);
        if (what == ENDS) sn_stream_end(scene.stream[0]);
        if (what == RESETS) sn_stream_reset(scene.stream[0], SN_EDENIED);
        if (what == FREES) {
            sn_stream_free(scene.stream[0]);
            sn_mux_stats(scene.joint.mux[0], &stats);
            assert_int_equal(stats.open_now, 0);
        }
        resume_all(&scene);
        assert_int_equal(scene.opened, 1);
        assert_int_equal(scene.closed[1], what == RESETS || what == FREES);
        if (what == ENDS || what == OPENS) exchange_ends(&scene);
        fini(&scene);
    }
}

/* Both ended and all was acknowledged, but one reader is slow: it has lost nothing, and waits for nobody. */
static void test_complete_is_no_orphan(void **state)
{
    (void)state;
    struct scene scene;
    struct sn_stream_info info;
    enum sn_err last;
    init(&scene, 0);
    write_bytes(scene.stream[0], 0, 5000);
    joint_settle(&scene.joint);
    exchange_ends(&scene);
    lose_all(&scene);
    for (int i = 0; i < 2; i++) assert_int_equal(sn_mux_orphans(scene.joint.mux[i]), 0);
    sn_stream_info(scene.stream[1], &info);
    assert_false(info.is_orphan);
    sn_mux_orphans_close(scene.joint.mux[1], SN_ETIMEDOUT);
    assert_int_equal(scene.closed[1], 0);
    joint_up(&scene.joint, 1);
    assert_int_equal(sn_mux_resume(scene.joint.mux[0]), 0);
    assert_int_equal(read_bytes(scene.stream[1], &last), 5000);
    assert_int_equal(last, SN_ECLOSED);
    fini(&scene);
}

/* What was shown is what would be read, and what was skipped gives credit as if it had been. */
static void test_look_and_skip(void **state)
{
    (void)state;
    struct scene scene;
    struct sn_stream_info info;
    const uint8_t *data;
    uint32_t size;
    init(&scene, 0);
    assert_int_equal(sn_stream_look(scene.stream[0], 0, &data, &size), SN_EAGAIN);
    for (uint32_t i = 0; i < 3; i++) write_bytes(scene.stream[0], 10000 * i, 10000);
    joint_settle(&scene.joint);
    uint64_t at = 0;
    while (at < 30000) {
        enum sn_err err = SN_OK;
        uint64_t seen = at;
        for (uint32_t i = 0; (err = sn_stream_look(scene.stream[1], i, &data, &size)) == SN_OK;
             i++) {
            for (uint32_t k = 0; k < size; k++) assert_int_equal(data[k], joint_byte(3, seen + k));
            seen += size;
        }
        assert_int_equal(err, SN_EAGAIN);
        assert_int_equal(seen, 30000);
        uint32_t skip = seen - at < 7001 ? (uint32_t)(seen - at)
                                         : 7001; /* within pieces, and over their ends */
        sn_stream_skip(scene.stream[1], skip);
        at += skip;
        sn_stream_info(scene.stream[1], &info);
        assert_int_equal(info.consumed, at);
    }
    exchange_ends(&scene);
    assert_int_equal(sn_stream_look(scene.stream[1], 0, &data, &size), SN_ECLOSED);
    fini(&scene);
}

/* The last ack was lost with all lanes and its sender has forgotten the stream meanwhile. */
static void test_orphan_last_ack(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    joint_settle(&scene.joint);
    sn_stream_end(scene.stream[1]);
    joint_settle(&scene.joint);
    sn_stream_end(scene.stream[0]);
    assert_true(joint_send(&scene.joint, 0, 1));
    assert_true(joint_deliver(&scene.joint, 0, 1, 1, 1));
    lose_all(&scene); /* side 1 is done and owes the ack */
    sn_stream_free(scene.stream[1]);
    struct sn_mux_stats stats;
    sn_mux_stats(scene.joint.mux[1], &stats);
    assert_int_equal(stats.open_now, 0);
    resume_all(&scene);
    assert_int_equal(scene.finished[0], 1);
    assert_int_equal(scene.closed[0], 0);
    fini(&scene);
}

/* All arrived but END, or END and its ack are under way when the lane goes. */
static void test_end_lost(void **state)
{
    (void)state;
    for (int arrives = 0; arrives < 2; arrives++) {
        struct scene scene;
        init(&scene, 0);
        joint_settle(&scene.joint);
        write_bytes(scene.stream[0], 0, 5000);
        joint_settle(&scene.joint);
        sn_stream_end(scene.stream[0]);
        assert_true(joint_send(&scene.joint, 0, 1));
        assert_int_equal(scene.joint.last[0].type, SN_FRAME_END);
        if (arrives) {
            assert_true(joint_deliver(&scene.joint, 0, 1, 1, 1));
            assert_true(joint_send(&scene.joint, 1, 1));
            assert_true(scene.joint.last[1].flags & SN_FRAME_ENDED);
        }
        joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
        joint_settle(&scene.joint);
        assert_int_equal(scene.finished[0], 1);
        enum sn_err last;
        assert_int_equal(read_bytes(scene.stream[1], &last), 5000);
        assert_int_equal(last, SN_ECLOSED);
        exchange_ends(&scene);
        fini(&scene);
    }
}

/* The acceptor is the first to speak on the new lane: the opener need not send OPEN again, but
 * must still tell that it repeats. */
static void test_acceptor_speaks_first(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    write_bytes(scene.stream[0], 0, 5000);
    while (joint_send(&scene.joint, 0, 1)) {
        assert_true(joint_deliver(&scene.joint, 0, 1, 3000, 1));
    }
    joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
    while (joint_send(&scene.joint, 1, 2)) {
        assert_true(joint_deliver(&scene.joint, 1, 2, 1, 1));
    }
    assert_true(joint_send(&scene.joint, 0, 2));
    assert_int_equal(scene.joint.last[0].type, SN_FRAME_ACK);
    assert_int_equal(scene.joint.last[0].flags, SN_FRAME_RESUME);
    exchange_ends(&scene);
    enum sn_err last;
    assert_int_equal(read_bytes(scene.stream[1], &last), 5000);
    assert_int_equal(scene.opened, 1);
    fini(&scene);
}

/* The lane that died may still hold the header it wrote before the bytes. */
static void test_headroom_is_not_lent_twice(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    joint_settle(&scene.joint);
    write_bytes(scene.stream[0], 0, 5000);
    for (unsigned lane = 1; lane <= 2; lane++) {
        struct sn_frame frame = {0};
        struct sn_buf payload;
        int headroom = 0;
        while (frame.type != SN_FRAME_DATA) {
            assert_int_equal(
                sn_mux_output(scene.joint.mux[0], lane, 9999, &frame, &payload, &headroom), SN_OK);
            sn_buf_unref(&payload);
        }
        assert_int_equal(frame.offset, 0);
        assert_int_equal(headroom, lane == 1);
        joint_down(&scene.joint, lane, 1, SN_EUNREACHABLE);
    }
    fini(&scene);
}

/* A stream that the user freed does not wait for a lane that is gone. */
static void test_freed_streams_do_not_linger(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    joint_settle(&scene.joint);
    sn_stream_free(scene.stream[0]); /* owes a RESET */
    struct sn_mux_stats stats;
    sn_mux_stats(scene.joint.mux[0], &stats);
    assert_int_equal(stats.open_now, 1);
    joint_down(&scene.joint, 1, 1, SN_EUNREACHABLE);
    sn_mux_stats(scene.joint.mux[0], &stats);
    assert_int_equal(stats.open_now, 0);
    joint_settle(&scene.joint);
    assert_int_equal(scene.closed[1], 1); /* it asked */
    fini(&scene);
}

/* What ended well cannot be lost any more, not even unread. */
static void test_complete_streams_are_not_closed(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    write_bytes(scene.stream[0], 0, 5000);
    joint_settle(&scene.joint);
    exchange_ends(&scene);
    joint_down(&scene.joint, 1, 0, SN_EUNREACHABLE);
    enum sn_err last;
    assert_int_equal(read_bytes(scene.stream[1], &last), 5000);
    assert_int_equal(last, SN_ECLOSED);
    assert_int_equal(scene.closed[0] + scene.closed[1], 0);
    sn_stream_free(scene.stream[1]);
    fini(&scene);
}

/* One side resumes, the other had to give up: no stream is left hanging. */
static void test_only_one_side_resumes(void **state)
{
    (void)state;
    for (unsigned side = 0; side < 2; side++) {
        struct scene scene;
        init(&scene, 0);
        joint_settle(&scene.joint);
        joint_lose(&scene.joint, 1);
        sn_mux_lane_down(scene.joint.mux[side], 1, 1, SN_EUNREACHABLE);
        sn_mux_lane_down(scene.joint.mux[1 - side], 1, 0, SN_EUNREACHABLE);
        sn_stream_free(scene.stream[1 - side]);
        joint_settle(&scene.joint);
        assert_int_equal(scene.closed[side], 1);
        assert_int_equal(scene.reason[side], SN_ECLOSED);
        fini(&scene);
    }
}

/* Twenty losses in one transfer, each in the middle of a frame: nothing starts from zero. */
static void test_many_losses(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 0);
    joint_settle(&scene.joint);
    scene.joint.max_data = 50000;
    uint64_t wrote = 0, got = 0, unacked = 0;
    struct sn_stream_info info;
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 4; i++, wrote += 30000) write_bytes(scene.stream[0], wrote, 30000);
        sn_stream_info(scene.stream[0], &info);
        unsigned lane = info.lane;
        for (unsigned i = 0; i < 3; i++)
            (void)joint_send(&scene.joint, 0, lane); /* some, or none */
        (void)joint_deliver(&scene.joint, 0, lane, 7000, UINT32_MAX);
        (void)joint_deliver(&scene.joint, 0, lane, 7000, 3);
        sn_stream_info(scene.stream[0], &info);
        unacked += info.sent - info.acked;
        joint_down(&scene.joint, lane, 1, SN_EUNREACHABLE);
        joint_up(&scene.joint, lane);
        joint_settle(&scene.joint);
        struct sn_buf piece;
        while (sn_stream_read(scene.stream[1], &piece) == SN_OK) {
            for (uint32_t i = 0; i < piece.size; i++) {
                assert_int_equal(piece.data[i], joint_byte(3, got + i));
            }
            got += piece.size;
            sn_stream_consume(scene.stream[1], piece.size);
            sn_buf_unref(&piece);
        }
        joint_settle(&scene.joint);
        assert_int_equal(got, wrote);
    }
    exchange_ends(&scene);
    struct sn_mux_stats stats;
    sn_mux_stats(scene.joint.mux[0], &stats);
    assert_true(stats.resent_bytes > 0 && stats.resent_bytes <= unacked);
    fini(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resends_from_the_ack),
        cmocka_unit_test(test_open_lost),
        cmocka_unit_test(test_accept_lost),
        cmocka_unit_test(test_refusal_lost),
        cmocka_unit_test(test_reset_lost),
        cmocka_unit_test(test_reset_before_open_is_resent),
        cmocka_unit_test(test_last_ack_lost),
        cmocka_unit_test(test_end_lost),
        cmocka_unit_test(test_acceptor_speaks_first),
        cmocka_unit_test(test_headroom_is_not_lent_twice),
        cmocka_unit_test(test_freed_streams_do_not_linger),
        cmocka_unit_test(test_complete_streams_are_not_closed),
        cmocka_unit_test(test_session_streams_close),
        cmocka_unit_test(test_nowhere_to_go),
        cmocka_unit_test(test_orphans_resume),
        cmocka_unit_test(test_orphans_end),
        cmocka_unit_test(test_complete_is_no_orphan),
        cmocka_unit_test(test_look_and_skip),
        cmocka_unit_test(test_orphan_last_ack),
        cmocka_unit_test(test_only_one_side_resumes),
        cmocka_unit_test(test_many_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
