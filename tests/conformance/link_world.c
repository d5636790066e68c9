/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/link_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LANE         0u
#define FRAMES_TURN  64u
#define POLL_NS      (SN_MS / 2)
#define WAIT_NS      (30000 * SN_MS)
#define SMALL_WINDOW (64u * 1024u)

void world_fail(struct world *world, const char *what, uint64_t a, uint64_t b)
{
    if (world->problem[0] != 0) return; /* the first one tells */
    (void)snprintf(world->problem, sizeof world->problem, "%s (%llu, %llu)", what,
                   (unsigned long long)a, (unsigned long long)b);
}

/* --- Parcels ------------------------------------------------------------------------------------------- */

static uint8_t pattern_of(uint64_t sequence, unsigned class_id)
{
    return (uint8_t)(sequence * 31 + class_id * 101 + 7);
}

void world_fill(uint8_t *out, uint32_t size, uint64_t sequence, unsigned class_id)
{
    memset(out, pattern_of(sequence, class_id), size);
    for (uint32_t i = 0; i < 8 && i < size; i++) out[i] = (uint8_t)(sequence >> (8 * i));
    if (size > 8) out[size - 1] = (uint8_t)class_id;
}

int world_matches(const uint8_t *bytes, uint32_t size, uint64_t sequence, unsigned class_id)
{
    for (uint32_t i = 0; i < 8 && i < size; i++) {
        if (bytes[i] != (uint8_t)(sequence >> (8 * i))) return 0;
    }
    if (size <= 8) return 1;
    if (bytes[size - 1] != (uint8_t)class_id) return 0;
    uint8_t pattern = pattern_of(sequence, class_id);
    /* All bytes between are equal to the first and shifted by one: memcmp compares each with its neighbour. */
    if (size > 9 && bytes[8] != pattern) return 0;
    return size <= 10 || memcmp(bytes + 8, bytes + 9, size - 10) == 0;
}

void world_send(struct side *side)
{
    struct world *world = side->world;
    for (unsigned c = 0; c < SN_CLASS_COUNT; c++) {
        while (side->sent[c] < side->to_send[c] && !side->is_closing) {
            uint32_t size = world->size_of(side->sent[c]);
            world_fill(world->scratch, size, side->sent[c], c);
            enum sn_err err = sn_link_send(side->link, (enum sn_class)c, world->scratch, size);
            if (err == SN_EAGAIN) side->refusals++;
            if (err == SN_EAGAIN || (err == SN_ECLOSED && side->down_count > 0)) break;
            if (err == SN_ECLOSED && !world->is_lane_up) break;
            if (err != SN_OK) {
                world_fail(world, "send", (uint64_t)err, side->sent[c]);
                return;
            }
            side->sent[c]++;
        }
    }
}

/* --- The links' callbacks ------------------------------------------------------------------------------- */

static void on_parcel(void *user, enum sn_class class_id, uint8_t *bytes, uint32_t size)
{
    struct side *side = user;
    struct world *world = side->world;
    uint64_t sequence = side->received[class_id]++;
    if (side->is_closing) world_fail(world, "parcel after close", side->index, sequence);
    if (side->is_paused) world_fail(world, "parcel while paused", side->index, sequence);
    if (side->down_count > 0) world_fail(world, "parcel after down", side->index, sequence);
    if (size != world->size_of(sequence) || !world_matches(bytes, size, sequence, class_id)) {
        world_fail(world, "parcel differs", sequence, size);
    }
    bytes[0] ^= 1; /* the callee may do that */
    if (side->pause_in_parcel) {
        side->pause_in_parcel = 0;
        world_pause(side, 1);
    }
    if (side->close_in_parcel) world_close_link(world, side->index);
}

static void on_writable(void *user, enum sn_class class_id)
{
    struct side *side = user;
    (void)class_id; /* both are tried */
    if (side->is_closing) world_fail(side->world, "writable after close", side->index, 0);
    world_send(side);
}

static void on_down(void *user, enum sn_err reason)
{
    struct side *side = user;
    if (side->is_closing)
        world_fail(side->world, "down after close", side->index, (uint64_t)reason);
    if (++side->down_count > 1) world_fail(side->world, "down twice", side->index, 0);
    side->down_reason = reason;
    if (side->close_in_down) world_close_link(side->world, side->index);
}

static void on_closed(void *user)
{
    struct side *side = user;
    if (!side->is_closing) world_fail(side->world, "closed without close", side->index, 0);
    sn_link_stats(side->link, 1, &side->last);
    side->closed_count++;
    side->link = NULL;
}

static const struct sn_link_ops_user LINK_OPS = {
    .parcel = on_parcel, .writable = on_writable, .down = on_down, .closed = on_closed};

enum sn_err world_open_link(struct world *world, unsigned index)
{
    struct side *side = &world->sides[index];
    struct sn_link_config config = {.env = world->env,
                                    .worker = world->worker,
                                    .run_folder = world->folder,
                                    .ops = &LINK_OPS,
                                    .user = side};
    memcpy(config.streams, side->streams, sizeof config.streams);
    enum sn_err err = sn_link_open(world->provider, &config, &side->link);
    if (err != SN_OK) return err;
    memset(side->streams, 0, sizeof side->streams);
    return SN_OK;
}

void world_close_link(struct world *world, unsigned index)
{
    struct side *side = &world->sides[index];
    if (side->link == NULL || side->is_closing) return;
    side->is_closing = 1;
    sn_link_close(side->link);
}

void world_pause(struct side *side, int is_paused)
{
    side->is_paused = (uint8_t)is_paused;
    sn_link_pause(side->link, is_paused);
}

int world_both_closed(struct world *world)
{
    return world->sides[0].link == NULL && world->sides[1].link == NULL;
}

/* --- The lane ---------------------------------------------------------------------------------------------- */

static void on_opened(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                      uint32_t meta_size)
{
    struct side *side = arg;
    (void)service; /* only one */
    if (meta_size != 1 || meta[0] >= SN_CLASS_COUNT) {
        world_fail(side->world, "meta", meta_size, 0);
        return;
    }
    side->streams[meta[0]] = stream;
    sn_stream_accept(stream);
}

static void on_output(void *arg, unsigned lane)
{
    struct side *side = arg;
    (void)lane; /* only one */
    sn_io_kick(&side->world->lane);
}

void world_kill_lane(struct world *world)
{
    if (!world->is_lane_up) return;
    world->is_lane_up = 0;
    for (unsigned i = 0; i < 2; i++) sn_mux_lane_down(world->sides[i].mux, LANE, 0, SN_ERESET);
}

/* Nonzero when the lane died here: the receiver got a part of the frame at most. */
static int cut_here(struct world *world, struct side *from, const struct sn_frame *frame,
                    struct sn_buf *payload)
{
    if (frame->type != SN_FRAME_DATA || from->index != 1) return 0;
    if (frame->qos != SN_QOS_INTERACTIVE) return 0;
    if (world->seen + frame->size < world->cut_after) {
        world->seen += frame->size;
        return 0;
    }
    uint32_t part = (uint32_t)(world->cut_after - world->seen);
    if (part > 0) {
        struct sn_buf piece = sn_buf_slice(payload, 0, part);
        enum sn_err err = sn_mux_input_data(world->sides[0].mux, LANE, frame, 0, &piece);
        if (err != SN_OK) world_fail(world, "input of a part", (uint64_t)err, part);
    }
    sn_buf_unref(payload);
    /* The receiver looks at what it has before the loss: on the next turns of the worker. */
    world_kill_lane(world);
    return 1;
}

static void move_frame(struct world *world, struct side *from, int *out_moved)
{
    struct sn_frame frame;
    struct sn_buf payload = {0};
    int has_headroom = 0;
    enum sn_err err =
        sn_mux_output(from->mux, LANE, SN_FRAME_DATA_BYTES_MAX, &frame, &payload, &has_headroom);
    if (err == SN_ENOENT) return;
    if (err != SN_OK) {
        world_fail(world, "mux output", (uint64_t)err, from->index);
        return;
    }
    *out_moved = 1;
    if (cut_here(world, from, &frame, &payload)) return;
    struct side *to = &world->sides[1 - from->index];
    if (frame.type == SN_FRAME_DATA) {
        err = sn_mux_input_data(to->mux, LANE, &frame, 0, &payload);
    } else {
        err = sn_mux_input(to->mux, LANE, &frame, payload.data);
        sn_buf_unref(&payload);
    }
    if (err != SN_OK) world_fail(world, "mux input", (uint64_t)err, frame.type);
}

static void run_tick(struct sn_timer *timer, struct sn_worker *worker)
{
    struct world *world = SN_CONTAINER_OF(timer, struct world, tick);
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < 2; i++) {
        if (world->sides[i].mux == NULL) continue;
        uint64_t at = sn_mux_tick(world->sides[i].mux, sn_worker_now(worker));
        if (at < next) next = at;
    }
    if (next != UINT64_MAX) sn_timer_start(worker, timer, next);
}

static void run_lane(struct sn_io *io, unsigned ready)
{
    struct world *world = SN_CONTAINER_OF(io, struct world, lane);
    (void)ready; /* there is no socket */
    int moved = 0;
    for (unsigned n = 0; n < FRAMES_TURN && world->is_lane_up; n++) {
        moved = 0;
        for (unsigned i = 0; i < 2 && world->is_lane_up; i++) {
            move_frame(world, &world->sides[i], &moved);
        }
        if (!moved) break;
    }
    run_tick(&world->tick, world->worker);
    if (moved && world->is_lane_up) sn_io_kick(io);
}

static const struct sn_mux_ops MUX_OPS = {.opened = on_opened};

static void open_mux(struct world *world, unsigned index)
{
    struct side *side = &world->sides[index];
    memset(side, 0, sizeof *side);
    side->world = world;
    side->index = index;
    struct sn_mux_config config = {.ops = &MUX_OPS,
                                   .arg = side,
                                   .window_bytes =
                                       world->window_small ? SMALL_WINDOW : WORLD_WINDOW,
                                   .streams_max = 16,
                                   .even_ids = index == 0};
    enum sn_err err = sn_mux_new(&config, &side->mux);
    if (err != SN_OK) {
        world_fail(world, "mux", (uint64_t)err, index);
        return;
    }
    sn_mux_set_output_hook(side->mux, on_output, side);
    sn_mux_lane_up(side->mux, LANE);
}

void world_connect(struct world *world)
{
    world->is_lane_up = 1;
    world->seen = 0;
    for (unsigned i = 0; i < 2; i++) open_mux(world, i);
    for (uint8_t c = 0; c < SN_CLASS_COUNT && world->problem[0] == 0; c++) {
        enum sn_qos qos = c == SN_CLASS_CONTROL ? SN_QOS_CONTROL : SN_QOS_INTERACTIVE;
        enum sn_err err = sn_stream_open(world->sides[0].mux, LANE, qos, SN_STREAM_SESSION, "link",
                                         &c, 1, &world->sides[0].streams[c]);
        if (err != SN_OK) world_fail(world, "stream", (uint64_t)err, c);
    }
    while (sn_mux_has_output(world->sides[0].mux, LANE)) {
        int moved = 0;
        move_frame(world, &world->sides[0], &moved);
        if (!moved) break;
    }
    for (unsigned c = 0; c < SN_CLASS_COUNT; c++) {
        if (world->sides[1].streams[c] == NULL) world_fail(world, "stream did not arrive", c, 0);
    }
}

void world_disconnect(struct world *world)
{
    sn_timer_stop(world->worker, &world->tick);
    for (unsigned i = 0; i < 2; i++) {
        struct side *side = &world->sides[i];
        if (side->link != NULL) world_fail(world, "link left", i, 0);
        for (unsigned c = 0; c < SN_CLASS_COUNT; c++) {
            if (side->streams[c] != NULL) sn_stream_free(side->streams[c]);
            side->streams[c] = NULL;
        }
        if (side->mux != NULL) sn_mux_free(side->mux);
        side->mux = NULL;
    }
    world->is_lane_up = 0;
}

/* --- Orders and conditions ------------------------------------------------------------------------------------ */

static void run_order(struct sn_task *task, struct sn_worker *worker)
{
    struct world *world = SN_CONTAINER_OF(task, struct world, order_task);
    (void)worker; /* the world's */
    world->order(world);
    sem_post(&world->done);
}

void world_do(struct world *world, void (*order)(struct world *world))
{
    world->order = order;
    sn_worker_post(world->worker, &world->order_task);
    sem_wait(&world->done);
}

static void run_poll(struct sn_timer *timer, struct sn_worker *worker)
{
    struct world *world = SN_CONTAINER_OF(timer, struct world, poll);
    uint64_t now = sn_worker_now(worker);
    world->condition_result = world->problem[0] == 0 && world->condition(world);
    if (world->condition_result || world->problem[0] != 0 || now > world->condition_deadline) {
        sem_post(&world->reached);
        return;
    }
    sn_timer_start(worker, timer, now + POLL_NS);
}

static void start_poll(struct world *world)
{
    world->condition_deadline = sn_worker_refresh_now(world->worker) + WAIT_NS;
    run_poll(&world->poll, world->worker);
}

int world_wait(struct world *world, int (*condition)(struct world *world))
{
    world->condition = condition;
    world_do(world, start_poll);
    sem_wait(&world->reached);
    return world->condition_result;
}

static void open_lane(struct world *world)
{
    enum sn_err err = sn_io_open(&world->lane, world->worker, SN_SOCK_NONE);
    if (err != SN_OK) world_fail(world, "lane", (uint64_t)err, 0);
}

static void close_lane(struct world *world)
{
    sn_io_close(&world->lane);
    sn_timer_stop(world->worker, &world->tick);
}

struct world *world_new(const struct sn_link_provider *provider, struct sn_env *env,
                        const char *folder)
{
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL) abort();
    world->scratch = malloc(SN_PARCEL_BYTES_MAX + 1);
    if (world->scratch == NULL) abort();
    world->provider = provider;
    world->env = env;
    world->cut_after = UINT64_MAX;
    (void)snprintf(world->folder, sizeof world->folder, "%s", folder);
    world->order_task.run = run_order;
    sem_init(&world->reached, 0, 0);
    sem_init(&world->done, 0, 0);
    sn_timer_init(&world->tick, run_tick);
    sn_timer_init(&world->poll, run_poll);
    sn_io_init(&world->lane, SN_IO_BULK, run_lane);
    if (sn_worker_new(env, 0, "test", world, &world->worker) != SN_OK) abort();
    if (sn_worker_start(world->worker) != SN_OK) abort();
    world_do(world, open_lane);
    return world;
}

void world_free(struct world *world)
{
    world_do(world, close_lane);
    sn_worker_stop(world->worker);
    sn_worker_free(world->worker);
    sem_destroy(&world->reached);
    sem_destroy(&world->done);
    free(world->scratch);
    free(world);
}
