/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeded scenarios with an oracle: many streams in both directions, pieces of all sizes,
 * half-close in either order, resets, slow readers, frees from callbacks, DATA in fragments, lanes
 * lost in the middle of a frame with either end noticing first, all lanes lost for a while. Bytes must come out once,
 * in order and complete, or as an error that the scenario caused. `test_stream_random SEED` replays one seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "joint.h"
#include "stream/mux_int.h"

#define BASE       (64u * 1024u)
#define WINDOW     (256u * 1024u)
#define PIECE_MAX  40000u
#define PAIRS      40u
#define LANES      3u /* 0, 1, 2 */
#define STEPS      4000u
#define SEED_COUNT 12u

struct scene;

struct leg {
    struct scene *scene;
    struct sn_stream *stream;
    uint32_t pair, side, seed;
    uint64_t wrote, read;
    uint8_t was_used, accepted, ended, got_end, finished, closed, slow, gone;
    uint8_t free_when_closed;
};

struct pair {
    struct leg leg[2]; /* by side */
    unsigned opener;
    uint8_t is_session, is_broken;
};

struct scene {
    struct joint joint;
    struct sn_budget *budget;
    struct pair pairs[PAIRS];
    uint32_t pair_count;
    uint64_t random;
    /* One lane at a time is in trouble: `first` has noticed, the other end has not. */
    int trouble_lane; /* -1 = none */
    unsigned trouble_first;
    uint32_t lane_losses;
    /* Sometimes all lanes go: `dark` counts the steps of it, see step_dark. */
    unsigned dark;
    unsigned dark_first;
    uint32_t blackouts, resumed;
};

static uint32_t below(struct scene *scene, uint32_t limit)
{
    return (uint32_t)(joint_random(&scene->random) % limit);
}

static void forget(struct leg *leg)
{
    sn_stream_free(leg->stream);
    leg->stream = NULL;
    leg->gone = 1;
}

static void on_accepted(void *user, struct sn_stream *stream)
{
    struct leg *leg = user;
    assert_ptr_equal(leg->stream, stream);
    assert_false(leg->accepted);
    leg->accepted = 1;
}

static void on_finished(void *user, struct sn_stream *stream)
{
    struct leg *leg = user;
    struct sn_stream_info info;
    assert_ptr_equal(leg->stream, stream);
    assert_true(leg->ended && !leg->finished && !leg->closed);
    leg->finished = 1;
    sn_stream_info(stream, &info);
    assert_true(info.acked == leg->wrote && info.retained == 0);
    /* The peer has indeed received all of it. */
    struct leg *other = &leg->scene->pairs[leg->pair].leg[1 - leg->side];
    if (other->stream == NULL) return;
    sn_stream_info(other->stream, &info);
    assert_true(info.received == leg->wrote && info.got_end);
}

static void on_closed(void *user, struct sn_stream *stream, enum sn_err reason)
{
    struct leg *leg = user;
    struct pair *pair = &leg->scene->pairs[leg->pair];
    assert_ptr_equal(leg->stream, stream);
    assert_false(leg->closed);
    leg->closed = 1;
    if (reason == SN_EUNREACHABLE) {
        assert_true(pair->is_session);
        pair->is_broken = 1;
    }
    assert_true(pair->is_broken); /* nothing ends in an error that nobody caused */
    if (leg->free_when_closed) forget(leg);
}

static const struct sn_stream_ops stream_ops = {
    .accepted = on_accepted, .finished = on_finished, .closed = on_closed};

static void start_leg(struct scene *scene, uint32_t index, unsigned side, struct sn_stream *stream)
{
    struct leg *leg = &scene->pairs[index].leg[side];
    assert_false(leg->was_used); /* opened once */
    *leg = (struct leg){.scene = scene,
                        .stream = stream,
                        .pair = index,
                        .side = side,
                        .seed = index * 2 + side,
                        .was_used = 1,
                        .slow = below(scene, 4) == 0,
                        .free_when_closed = (uint8_t)below(scene, 2)};
    sn_stream_set_user(stream, &stream_ops, leg);
}

static void opened(struct scene *scene, unsigned side, struct sn_stream *stream,
                   const char *service, const uint8_t *meta, uint32_t meta_size)
{
    uint32_t index;
    assert_string_equal(service, "random");
    assert_int_equal(meta_size, sizeof index);
    memcpy(&index, meta, sizeof index);
    assert_true(index < scene->pair_count && scene->pairs[index].opener == 1 - side);
    start_leg(scene, index, side, stream);
    struct leg *leg = &scene->pairs[index].leg[side];
    uint32_t dice = below(scene, 10);
    if (dice < 6) {
        sn_stream_accept(stream);
        leg->accepted = 1;
    } else if (dice == 6) {
        scene->pairs[index].is_broken = 1;
        sn_stream_reset(stream, SN_EDENIED);
        forget(leg);
    }
}

static void opened0(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                    uint32_t meta_size)
{
    opened(arg, 0, stream, service, meta, meta_size);
}

static void opened1(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                    uint32_t meta_size)
{
    opened(arg, 1, stream, service, meta, meta_size);
}

static const struct sn_mux_ops ops0 = {.opened = opened0};
static const struct sn_mux_ops ops1 = {.opened = opened1};

static int is_up(const struct scene *scene, unsigned side, unsigned lane)
{
    if (scene->dark == 1 && side == scene->dark_first) return 0;
    if (scene->dark == 2) return 0;
    return (int)lane != scene->trouble_lane || side != scene->trouble_first;
}

static void step_open(struct scene *scene)
{
    if (scene->pair_count == PAIRS) return;
    uint32_t index = scene->pair_count;
    unsigned side = below(scene, 2), lane = below(scene, LANES);
    if (!is_up(scene, side, lane)) return;
    struct pair *pair = &scene->pairs[index];
    struct sn_stream *stream;
    pair->opener = side;
    pair->is_session = below(scene, 8) == 0;
    enum sn_err err = sn_stream_open(scene->joint.mux[side], lane, (enum sn_qos)below(scene, 4),
                                     pair->is_session ? SN_STREAM_SESSION : 0, "random", &index,
                                     sizeof index, &stream);
    assert_int_equal(err, SN_OK);
    scene->pair_count++;
    start_leg(scene, index, side, stream);
}

static void step_write(struct scene *scene, struct leg *leg)
{
    uint32_t size = below(scene, 3) == 0 ? 1 + below(scene, PIECE_MAX) : 1 + below(scene, 2000);
    uint32_t headroom = below(scene, 2) * SN_FRAME_HEADER_BYTES;
    struct sn_buf piece = joint_piece(leg->seed, leg->wrote, size, headroom);
    enum sn_err err = sn_stream_write(leg->stream, &piece, headroom ? SN_STREAM_OWN_HEADROOM : 0);
    if (leg->closed) {
        assert_int_equal(err, SN_ECLOSED);
    } else if (leg->ended) {
        assert_int_equal(err, SN_ESTATE);
    } else if (err == SN_OK) {
        leg->wrote += size;
    } else {
        assert_int_equal(err, SN_EAGAIN);
    }
    sn_buf_unref(&piece);
}

static void step_read(struct scene *scene, struct leg *leg, uint32_t pieces)
{
    struct leg *other = &scene->pairs[leg->pair].leg[1 - leg->side];
    for (; pieces > 0; pieces--) {
        struct sn_buf piece;
        enum sn_err err = sn_stream_read(leg->stream, &piece);
        if (err == SN_ECLOSED && !leg->closed) {
            assert_true(other->ended && other->wrote == leg->read); /* a clean end is a whole one */
            leg->got_end = 1;
            return;
        }
        if (err != SN_OK) {
            assert_true(leg->closed ? err != SN_EAGAIN : err == SN_EAGAIN);
            return;
        }
        assert_false(leg->got_end);
        for (uint32_t i = 0; i < piece.size; i++) {
            if (piece.data[i] != joint_byte(other->seed, leg->read + i)) {
                fail_msg("pair %u side %u: wrong byte at %llu", leg->pair, leg->side,
                         (unsigned long long)(leg->read + i));
            }
        }
        leg->read += piece.size;
        assert_true(leg->read <= other->wrote);
        sn_stream_consume(leg->stream, piece.size);
        sn_buf_unref(&piece);
    }
}

static void check_bounds(struct scene *scene, struct leg *leg)
{
    struct sn_stream_info info;
    (void)scene; /* keeps the signature of the other steps */
    sn_stream_info(leg->stream, &info);
    assert_true(info.retained <= WINDOW + PIECE_MAX);
    assert_true(info.received - info.consumed <= WINDOW);
    assert_true(info.acked <= info.sent && info.sent <= leg->wrote);
}

static void step_leg(struct scene *scene, struct leg *leg)
{
    uint32_t dice = below(scene, 100);
    struct pair *pair = &scene->pairs[leg->pair];
    check_bounds(scene, leg);
    if (leg->closed || (leg->finished && leg->got_end)) {
        if (dice < 50) forget(leg);
    } else if (leg->side != pair->opener && !leg->accepted && dice < 20) {
        sn_stream_accept(leg->stream);
        leg->accepted = 1;
    } else if (dice < 50) {
        step_write(scene, leg);
    } else if (dice < 54) {
        sn_stream_end(leg->stream);
        leg->ended = 1;
    } else if (dice == 54 && below(scene, 4) == 0) {
        pair->is_broken = 1;
        sn_stream_reset(leg->stream, SN_ECANCELLED);
        forget(leg);
    } else if (dice == 55 && below(scene, 4) == 0) {
        pair->is_broken = 1;
        forget(leg);
    } else if (!leg->slow || dice < 60) {
        step_read(scene, leg, 1 + below(scene, 20));
    }
}

static void step_lanes(struct scene *scene)
{
    struct joint *joint = &scene->joint;
    for (uint32_t n = below(scene, 12); n > 0; n--) {
        unsigned side = below(scene, 2), lane = below(scene, LANES);
        joint->max_data = 1 + below(scene, 4) * below(scene, 20000);
        if (is_up(scene, side, lane))
            (void)joint_send(joint, side, lane); /* nothing to send is fine */
        side = below(scene, 2);
        if (!is_up(scene, 1 - side, lane)) continue; /* what goes to the end that gave up is lost */
        (void)joint_deliver(joint, side, lane, 1 + below(scene, 30000),
                            UINT32_MAX); /* none: fine */
    }
}

static void step_trouble(struct scene *scene)
{
    struct joint *joint = &scene->joint;
    if (scene->trouble_lane < 0) {
        scene->trouble_lane = (int)below(scene, LANES);
        scene->trouble_first = below(scene, 2);
        scene->lane_losses++;
        unsigned lane = (unsigned)scene->trouble_lane;
        /* The end that notices may have got a part of the frame that was under way. */
        (void)joint_deliver(joint, 1 - scene->trouble_first, lane, 1 + below(scene, 5000),
                            below(scene, 3)); /* none: fine */
        sn_mux_lane_down(joint->mux[scene->trouble_first], lane, 1, SN_EUNREACHABLE);
    } else if (below(scene, 3) == 0) {
        unsigned lane = (unsigned)scene->trouble_lane;
        (void)joint_deliver(joint, scene->trouble_first, lane, 1 + below(scene, 5000),
                            below(scene, 3)); /* none: fine */
        sn_mux_lane_down(joint->mux[1 - scene->trouble_first], lane, 1, SN_EUNREACHABLE);
        joint_lose(joint, lane);
        scene->trouble_lane = -1;
        joint_up(joint, lane);
    }
}

static void all_down(struct scene *scene, unsigned side)
{
    for (unsigned lane = 0; lane < LANES; lane++) {
        (void)joint_deliver(&scene->joint, 1 - side, lane, 1 + below(scene, 5000),
                            below(scene, 3)); /* none: fine */
        sn_mux_lane_down(scene->joint.mux[side], lane, 1, SN_EUNREACHABLE);
    }
}

/* 0 -> 1: one end notices; -> 2: the other, too; -> 3: all lanes are up again and one end resumes; -> 0: both do. */
static void step_dark(struct scene *scene)
{
    struct joint *joint = &scene->joint;
    switch (scene->dark) {
    case 0:
        if (scene->trouble_lane >= 0) return;
        scene->dark_first = below(scene, 2);
        all_down(scene, scene->dark_first);
        scene->blackouts++;
        break;
    case 1:
        all_down(scene, 1 - scene->dark_first);
        for (unsigned lane = 0; lane < LANES; lane++) joint_lose(joint, lane);
        break;
    case 2:
        for (unsigned lane = 0; lane < LANES; lane++) joint_up(joint, lane);
        scene->resumed += sn_mux_resume(joint->mux[scene->dark_first]);
        break;
    default: scene->resumed += sn_mux_resume(joint->mux[1 - scene->dark_first]); break;
    }
    scene->dark = (scene->dark + 1) % 4;
}

/* Of all streams that somebody uses. */
static uint64_t windows_of(struct scene *scene)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < scene->pair_count * 2; i++) {
        const struct sn_stream *stream = scene->pairs[i / 2].leg[i % 2].stream;
        if (stream == NULL || !stream->is_budgeted) continue;
        assert_true(stream->rx_window >= BASE && stream->rx_window <= WINDOW);
        assert_true(stream->tx_window >= BASE && stream->tx_window <= WINDOW);
        sum += (uint64_t)stream->rx_window + stream->tx_window;
    }
    return sum;
}

static void step(struct scene *scene, uint64_t now_ns)
{
    uint32_t dice = below(scene, 100);
    if (dice < 4) step_open(scene);
    if (scene->dark > 0 ? dice > 94 : dice == 6 && below(scene, 6) == 0) step_dark(scene);
    if (scene->dark == 0 && dice == 5 && below(scene, 4) == 0) step_trouble(scene);
    if (scene->trouble_lane >= 0 && dice > 90) step_trouble(scene);
    if (scene->pair_count > 0) {
        struct leg *leg = &scene->pairs[below(scene, scene->pair_count)].leg[below(scene, 2)];
        if (leg->stream != NULL) step_leg(scene, leg);
    }
    step_lanes(scene);
    (void)sn_mux_tick(scene->joint.mux[0], now_ns); /* time passes anyway */
    (void)sn_mux_tick(scene->joint.mux[1], now_ns);
    assert_true(sn_budget_used(scene->budget) == windows_of(scene));
    uint64_t limit = sn_budget_limit(scene->budget);
    assert_true(sn_budget_used(scene->budget) <= limit);
}

/* Everybody ends and reads to the end; then everything must have come out. */
static void finish(struct scene *scene)
{
    while (scene->dark > 0) step_dark(scene);
    if (scene->trouble_lane >= 0) {
        unsigned lane = (unsigned)scene->trouble_lane;
        sn_mux_lane_down(scene->joint.mux[1 - scene->trouble_first], lane, 1, SN_EUNREACHABLE);
        joint_lose(&scene->joint, lane);
        scene->trouble_lane = -1;
        joint_up(&scene->joint, lane);
    }
    for (unsigned round = 0; round < 200; round++) {
        uint32_t busy = 0;
        for (uint32_t i = 0; i < scene->pair_count * 2; i++) {
            struct leg *leg = &scene->pairs[i / 2].leg[i % 2];
            if (leg->stream == NULL || leg->closed) continue;
            if (leg->side != scene->pairs[i / 2].opener && !leg->accepted) {
                sn_stream_accept(leg->stream);
                leg->accepted = 1;
            }
            sn_stream_end(leg->stream);
            leg->ended = 1;
            step_read(scene, leg, UINT32_MAX);
            busy += !leg->finished || !leg->got_end;
        }
        joint_settle(&scene->joint);
        if (busy == 0) break;
    }
    for (uint32_t i = 0; i < scene->pair_count * 2; i++) {
        const struct leg *leg = &scene->pairs[i / 2].leg[i % 2];
        const struct leg *other = &scene->pairs[i / 2].leg[1 - i % 2];
        if (scene->pairs[i / 2].is_broken) continue;
        if (!leg->was_used || !leg->finished || !leg->got_end || leg->read != other->wrote) {
            fail_msg("pair %u side %u: used %d accepted %d finished %d end %d wrote %llu read %llu "
                     "of %llu",
                     i / 2, i % 2, leg->was_used, leg->accepted, leg->finished, leg->got_end,
                     (unsigned long long)leg->wrote, (unsigned long long)leg->read,
                     (unsigned long long)other->wrote);
        }
    }
}

static void run(uint64_t seed, struct sn_mux_stats *totals, uint32_t *lane_losses)
{
    size_t before = sn_alloc_in_use();
    struct scene *scene = sn_alloc(sizeof *scene);
    assert_non_null(scene);
    scene->random = seed;
    scene->trouble_lane = -1;
    assert_int_equal(sn_budget_new((uint64_t)PAIRS * 2 * BASE * 3, &scene->budget), SN_OK);
    struct sn_mux_config config = {.budget = scene->budget,
                                   .window_bytes = WINDOW,
                                   .window_base_bytes = BASE,
                                   .streams_max = PAIRS * 2};
    joint_init(&scene->joint, &config, &ops0, &ops1, scene);
    for (unsigned lane = 0; lane < LANES; lane++) joint_up(&scene->joint, lane);
    for (uint32_t i = 0; i < STEPS; i++) step(scene, (uint64_t)i * 100000);
    finish(scene);
    for (unsigned i = 0; i < 2; i++) {
        struct sn_mux_stats stats;
        sn_mux_stats(scene->joint.mux[i], &stats);
        totals->sent_bytes += stats.sent_bytes;
        totals->resent_bytes += stats.resent_bytes;
        totals->duplicate_bytes += stats.duplicate_bytes;
        totals->finished += stats.finished;
        totals->reset += stats.reset;
    }
    *lane_losses += scene->lane_losses;
    totals->resumed += scene->resumed;
    totals->opened += scene->blackouts;
    for (uint32_t i = 0; i < scene->pair_count * 2; i++) {
        struct leg *leg = &scene->pairs[i / 2].leg[i % 2];
        if (leg->stream != NULL && below(scene, 2) == 0) forget(leg);
    }
    joint_fini(&scene->joint);
    assert_int_equal(sn_budget_used(scene->budget), 0);
    sn_budget_free(scene->budget);
    sn_free(scene, sizeof *scene);
    assert_int_equal(sn_alloc_in_use(), before);
}

static uint64_t only_seed;

static void test_scenarios(void **state)
{
    (void)state;
    struct sn_mux_stats totals = {0};
    uint32_t lane_losses = 0;
    uint64_t first = only_seed != 0 ? only_seed : 1;
    uint64_t last = only_seed != 0 ? only_seed : SEED_COUNT;
    for (uint64_t seed = first; seed <= last; seed++) {
        print_message("replay: test_stream_random %llu\n", (unsigned long long)seed);
        run(seed, &totals, &lane_losses);
    }
    if (only_seed != 0) return;
    /* The scenarios do what they are for. */
    assert_true(totals.sent_bytes > (UINT64_C(10) << 20));
    assert_true(totals.resent_bytes > 0 && totals.duplicate_bytes > 0);
    assert_true(totals.finished > 100 && totals.reset > 20 && lane_losses > 50);
    assert_true(totals.resumed > 100 && totals.opened > 20); /* orphans, blackouts */
    print_message("sent %llu resent %llu duplicate %llu finished %llu reset %llu lanes lost %u\n",
                  (unsigned long long)totals.sent_bytes, (unsigned long long)totals.resent_bytes,
                  (unsigned long long)totals.duplicate_bytes, (unsigned long long)totals.finished,
                  (unsigned long long)totals.reset, lane_losses);
}

int main(int argc, char **argv)
{
    if (argc > 1) only_seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scenarios)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
