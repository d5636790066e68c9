/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: how they grow and shrink, and what they cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "joint.h"
#include "stream/mux_int.h"

#define BASE    SN_STREAM_INITIAL_CREDIT
#define WINDOW  (16u * BASE)
#define STREAMS 64u

struct scene {
    struct joint joint;
    struct sn_budget *budget[2]; /* of each end */
    struct sn_stream *stream[STREAMS][2];
    uint32_t opened;
    uint64_t wrote, got;
    size_t before;
};

static void on_opened(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                      uint32_t meta_size)
{
    struct scene *scene = arg;
    assert_true(service[0] != 0 && meta != NULL && meta_size == 0);
    scene->stream[scene->opened++][1] = stream;
    sn_stream_accept(stream);
}

static const struct sn_mux_ops mux_ops = {.opened = on_opened};

static void init(struct scene *scene, uint64_t budget)
{
    memset(scene, 0, sizeof *scene);
    scene->before = sn_alloc_in_use();
    struct sn_mux_config config = {
        .window_bytes = WINDOW, .window_base_bytes = BASE, .streams_max = STREAMS};
    joint_init(&scene->joint, &config, &mux_ops, &mux_ops, scene);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(sn_budget_new(budget, &scene->budget[i]), SN_OK);
        scene->joint.mux[i]->config.budget = scene->budget[i];
    }
    joint_up(&scene->joint, 0);
    joint_up(&scene->joint, 1);
}

static void fini(struct scene *scene)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        for (unsigned side = 0; side < 2; side++) {
            if (scene->stream[i][side] != NULL) sn_stream_free(scene->stream[i][side]);
        }
    }
    for (unsigned i = 0; i < 2; i++) assert_int_equal(sn_budget_used(scene->budget[i]), 0);
    joint_fini(&scene->joint);
    for (unsigned i = 0; i < 2; i++) sn_budget_free(scene->budget[i]);
    assert_int_equal(sn_alloc_in_use(), scene->before);
}

static enum sn_err open_one(struct scene *scene, uint32_t index)
{
    return sn_stream_open(scene->joint.mux[0], 1, 1, 0, "s", NULL, 0, &scene->stream[index][0]);
}

/* Writes until the stream takes no more; returns how much. */
static uint64_t fill(struct scene *scene, uint32_t index)
{
    uint64_t before = scene->wrote;
    for (;;) {
        struct sn_buf piece = joint_piece(3, scene->wrote, 16384, SN_FRAME_HEADER_BYTES);
        enum sn_err err = sn_stream_write(scene->stream[index][0], &piece, 0);
        if (err == SN_OK) {
            scene->wrote += 16384;
            continue;
        }
        assert_int_equal(err, SN_EAGAIN);
        sn_buf_unref(&piece);
        return scene->wrote - before;
    }
}

static void drain(struct scene *scene, uint32_t index)
{
    struct sn_buf piece;
    while (sn_stream_read(scene->stream[index][1], &piece) == SN_OK) {
        for (uint32_t i = 0; i < piece.size; i += 997) {
            assert_int_equal(piece.data[i], joint_byte(3, scene->got + i));
        }
        scene->got += piece.size;
        sn_stream_consume(scene->stream[index][1], piece.size);
        sn_buf_unref(&piece);
    }
}

static void test_idle_streams_cost_the_base(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 16 * BASE);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(open_one(&scene, i), SN_OK);
    assert_int_equal(open_one(&scene, 8), SN_ENOMEM);
    joint_settle(&scene.joint);
    assert_int_equal(scene.opened, 8);
    for (unsigned i = 0; i < 2; i++) assert_int_equal(sn_budget_used(scene.budget[i]), 16 * BASE);
    sn_stream_free(scene.stream[0][0]);
    scene.stream[0][0] = NULL;
    assert_int_equal(open_one(&scene, 8), SN_OK);
    fini(&scene);
}

/* A bulk transfer whose reader keeps pace gets the largest windows, in few rounds. */
static void test_bulk_grows(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 64 * WINDOW);
    assert_int_equal(open_one(&scene, 0), SN_OK);
    joint_settle(&scene.joint);
    unsigned rounds = 0;
    while (scene.stream[0][1]->rx_window < WINDOW || scene.stream[0][0]->tx_window < WINDOW) {
        assert_true(rounds++ < 12);
        (void)fill(&scene, 0); /* how much is the window's affair */
        joint_settle(&scene.joint);
        drain(&scene, 0);
        joint_settle(&scene.joint);
    }
    assert_true(rounds >= 4); /* doubling */
    /* Only the directions that are used. */
    assert_int_equal(scene.stream[0][0]->rx_window, BASE);
    assert_int_equal(scene.stream[0][1]->tx_window, BASE);
    fini(&scene);
}

/* Nobody reads: what both ends hold stays at the first windows, however long it is tried. */
static void test_stalled_reader_stays_small(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 64 * WINDOW);
    assert_int_equal(open_one(&scene, 0), SN_OK);
    joint_settle(&scene.joint);
    for (int i = 0; i < 20; i++) {
        (void)fill(&scene, 0); /* how much is the window's affair */
        joint_settle(&scene.joint);
    }
    assert_int_equal(scene.stream[0][1]->rx_window, BASE);
    assert_int_equal(scene.stream[0][0]->tx_window, BASE);
    assert_true(scene.wrote <= 2 * BASE + 2 * 16384);
    /* One that reads a little at a time is not the reason to hold more either. */
    for (int i = 0; i < 50; i++) {
        struct sn_buf piece;
        assert_int_equal(sn_stream_read(scene.stream[0][1], &piece), SN_OK);
        sn_stream_consume(scene.stream[0][1], piece.size);
        scene.got += piece.size;
        sn_buf_unref(&piece);
        joint_settle(&scene.joint);
        (void)fill(&scene, 0); /* as above */
        joint_settle(&scene.joint);
    }
    assert_int_equal(scene.stream[0][1]->rx_window, BASE);
    fini(&scene);
}

/* A stream with few bytes at a time needs no more, for ever. */
static void test_trickle_stays_small(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 64 * WINDOW);
    assert_int_equal(open_one(&scene, 0), SN_OK);
    joint_settle(&scene.joint);
    for (int i = 0; i < 100; i++) {
        struct sn_buf piece = joint_piece(3, scene.wrote, 8192, 0);
        assert_int_equal(sn_stream_write(scene.stream[0][0], &piece, 0), SN_OK);
        scene.wrote += 8192;
        joint_settle(&scene.joint);
        drain(&scene, 0);
        joint_settle(&scene.joint);
    }
    assert_int_equal(scene.stream[0][1]->rx_window, BASE);
    assert_int_equal(scene.stream[0][0]->tx_window, BASE);
    fini(&scene);
}

/* Growth leaves room for new streams, and when these take it the large windows shrink as they are used. */
static void test_growth_makes_room(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 2 * WINDOW);
    assert_int_equal(open_one(&scene, 0), SN_OK);
    joint_settle(&scene.joint);
    for (int i = 0; i < 12; i++) {
        (void)fill(&scene, 0); /* how much is the window's affair */
        joint_settle(&scene.joint);
        drain(&scene, 0);
        joint_settle(&scene.joint);
    }
    uint32_t grown = scene.stream[0][1]->rx_window;
    assert_true(grown >= WINDOW / 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(sn_budget_used(scene.budget[i]) <= 2 * WINDOW * 3 / 4);
    }
    uint32_t more = 1;
    while (open_one(&scene, more) == SN_OK) more++;
    assert_true(more > 4);
    joint_settle(&scene.joint);
    for (int i = 0; i < 12; i++) {
        (void)fill(&scene, 0); /* as above */
        joint_settle(&scene.joint);
        drain(&scene, 0);
        joint_settle(&scene.joint);
    }
    assert_true(scene.stream[0][1]->rx_window < grown);
    assert_true(scene.stream[0][0]->tx_window < WINDOW);
    uint32_t last = more;
    while (last < STREAMS && open_one(&scene, last) == SN_OK) last++;
    assert_true(last > more);
    assert_int_equal(scene.got, scene.wrote); /* slower, not stuck */
    fini(&scene);
}

/* Who waits for room says so, and is answered before any tick. */
static void test_awaited_ack(void **state)
{
    (void)state;
    struct scene scene;
    init(&scene, 64 * WINDOW);
    scene.joint.mux[0]->config.window_bytes = BASE; /* of the sending end */
    assert_int_equal(open_one(&scene, 0), SN_OK);
    joint_settle(&scene.joint);
    scene.stream[0][1]->rx_window =
        WINDOW; /* so large that what comes is not worth an ack by itself */
    scene.stream[0][1]->pending |= SNI_ACK;
    sni_stream_schedule(scene.stream[0][1]);
    joint_settle(&scene.joint);
    assert_true(fill(&scene, 0) <= BASE + 16384);
    struct sn_stream_info info;
    while (joint_send(&scene.joint, 0, 1)) {
        assert_true(joint_deliver(&scene.joint, 0, 1, UINT32_MAX, UINT32_MAX));
    }
    assert_int_equal(scene.joint.last[0].flags, SN_FRAME_AWAITED);
    while (joint_send(&scene.joint, 1, 1)) {
        assert_true(joint_deliver(&scene.joint, 1, 1, UINT32_MAX, UINT32_MAX));
    }
    sn_stream_info(scene.stream[0][0], &info);
    assert_int_equal(info.acked, scene.wrote);
    scene.stream[0][1]->rx_window = BASE; /* what the budget knows */
    drain(&scene, 0);
    fini(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_streams_cost_the_base),
        cmocka_unit_test(test_bulk_grows),
        cmocka_unit_test(test_stalled_reader_stays_small),
        cmocka_unit_test(test_trickle_stays_small),
        cmocka_unit_test(test_growth_makes_room),
        cmocka_unit_test(test_awaited_ack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
