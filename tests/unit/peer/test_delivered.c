/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivered streams: bytes between two actors on different workers, complete, in order, bounded, and a clear end
 * whatever happens. "near" lives on the worker of the flows, "far" on another.
 */
#include "flow_rig.h"

#include <stdio.h>

#define MIB           (1024u * 1024u)
#define PATTERN_BYTES 65537u /* a prime: no shift of the bytes looks right */
#define PIECE_BYTES   (64u * 1024u)
#define UNTOLD_MAX    32u /* READABLE events on their way, as delivered.c says */
#define PINNED_MAX    4u

/* Checks on the actors' threads, where cmocka's do not work: the first line that failed is kept. */
#define CHECK(side, condition) note_check(side, condition, __LINE__)

#define WAIT(condition)                                                                            \
    do {                                                                                           \
        for (int wait_rounds = 0; wait_rounds < 200000 && !(condition); wait_rounds++) rig_nap();  \
        assert_true(condition);                                                                    \
    } while (0)

enum consuming { BY_TEST, AT_ONCE, LATE };

/* One actor's end of the stream. */
struct side {
    unsigned actor;
    uint64_t stream;
    /* What it does. */
    _Atomic uint64_t size; /* to send */
    uint32_t piece_max;
    uint32_t piece_min;
    uint8_t ends;          /* after `size` bytes */
    uint8_t waits_for_end; /* sends nothing before the other side has ended */
    uint8_t is_passive;    /* does nothing by itself */
    _Atomic uint8_t consuming;
    _Atomic uint8_t is_held; /* stays in its handler */
    /* What it did and saw. */
    uint64_t random;
    struct sn_buf held; /* a piece that was refused */
    uint8_t has_ended;
    uint8_t is_blocked;
    uint8_t is_timed;
    uint64_t sent_at_again;
    _Atomic uint64_t sent, received, consumed, least_room;
    _Atomic uint32_t agains, writables, downs, down_err;
    _Atomic uint8_t got_end;
    _Atomic int bad_line;
};

static struct side sides[2];
static uint8_t pattern[PATTERN_BYTES];

static void note_check(struct side *side, int is_good, int line)
{
    int none = 0;
    if (!is_good) (void)atomic_compare_exchange_strong(&side->bad_line, &none, line); /* first */
}

static uint64_t next_random(struct side *side)
{
    return joint_random(&side->random);
}

/* --- What the actors do ------------------------------------------------------------------------------------------ */

static struct sn_stream_ref ref_of(const struct side *side)
{
    return (struct sn_stream_ref){side->stream};
}

/* Bytes [at, at + size) of what an actor sends. */
static int is_pattern(unsigned sender, uint64_t at, const uint8_t *bytes, uint32_t size)
{
    while (size > 0) {
        uint32_t from = (uint32_t)((at + sender * 1000u) % PATTERN_BYTES);
        uint32_t part = size < PATTERN_BYTES - from ? size : PATTERN_BYTES - from;
        if (memcmp(bytes, pattern + from, part) != 0) return 0;
        bytes += part;
        at += part;
        size -= part;
    }
    return 1;
}

static enum sn_err make_piece(struct side *side, uint64_t at, uint32_t size,
                              struct sn_buf *out_piece)
{
    uint32_t headroom = next_random(side) % 2 == 0 ? 0 : SN_FRAME_HEADER_BYTES;
    enum sn_err err = sn_buf_new(size, headroom, out_piece);
    if (err != SN_OK) return err;
    for (uint32_t i = 0; i < size;) {
        uint32_t from = (uint32_t)((at + i + side->actor * 1000u) % PATTERN_BYTES);
        uint32_t part = size - i < PATTERN_BYTES - from ? size - i : PATTERN_BYTES - from;
        memcpy(out_piece->data + i, pattern + from, part);
        i += part;
    }
    out_piece->size = size;
    return SN_OK;
}

/* A piece that goes on from what was sent. */
static enum sn_err next_piece(struct side *side)
{
    uint64_t left = atomic_load(&side->size) - atomic_load(&side->sent);
    uint32_t size = side->piece_min;
    size += (uint32_t)(next_random(side) % (side->piece_max - side->piece_min + 1));
    if (size > left) size = (uint32_t)left;
    return make_piece(side, atomic_load(&side->sent), size, &side->held);
}

/* Writes until it is done or refused. */
static void send_more(struct sn_ctx *ctx, struct side *side)
{
    if (side->has_ended || (side->waits_for_end && !atomic_load(&side->got_end))) return;
    while (atomic_load(&side->sent) < atomic_load(&side->size)) {
        if (side->held.slab == NULL) CHECK(side, next_piece(side) == SN_OK);
        uint32_t size = side->held.size;
        enum sn_err err = sn_net_ctx_stream_write(ctx, ref_of(side), &side->held);
        if (err == SN_EAGAIN) {
            CHECK(side, side->held.slab != NULL);
            if (!side->is_blocked) {
                uint64_t room = atomic_load(&side->sent) - side->sent_at_again;
                if (atomic_load(&side->writables) > 0 && room < atomic_load(&side->least_room)) {
                    atomic_store(&side->least_room, room);
                }
                atomic_fetch_add(&side->agains, 1);
            }
            side->sent_at_again = atomic_load(&side->sent);
            side->is_blocked = 1;
            return;
        }
        CHECK(side, err == SN_OK);
        CHECK(side, !side->is_blocked);
        CHECK(side, side->held.slab == NULL);
        if (err != SN_OK) return;
        atomic_fetch_add(&side->sent, size);
    }
    if (!side->ends) return;
    side->has_ended = 1;
    CHECK(side, sn_net_ctx_stream_end(ctx, ref_of(side)) == SN_OK);
    CHECK(side, sn_net_ctx_stream_end(ctx, ref_of(side)) == SN_OK);
    struct sn_buf piece = {0};
    CHECK(side, sn_net_ctx_stream_write(ctx, ref_of(side), &piece) == SN_ESTATE);
}

static uint64_t open_bytes(struct side *side)
{
    return atomic_load(&side->received) - atomic_load(&side->consumed);
}

static void consume(struct sn_ctx *ctx, struct side *side, uint64_t bytes)
{
    CHECK(side, sn_net_ctx_stream_consume(ctx, ref_of(side), open_bytes(side) + 1) == SN_EINVAL);
    CHECK(side, sn_net_ctx_stream_consume(ctx, ref_of(side), UINT64_MAX) == SN_EINVAL);
    CHECK(side, sn_net_ctx_stream_consume(ctx, ref_of(side), bytes) == SN_OK);
    atomic_fetch_add(&side->consumed, bytes);
}

static void consume_late(struct sn_ctx *ctx, struct side *side)
{
    if (side->is_timed) return;
    side->is_timed = 1;
    CHECK(side, sn_ctx_timer(ctx, 1, next_random(side) % 3) == SN_OK);
}

static void on_timer(struct sn_ctx *ctx, struct side *side)
{
    uint64_t open = open_bytes(side);
    side->is_timed = 0;
    if (atomic_load(&side->downs) > 0 || open == 0) return;
    consume(ctx, side, next_random(side) % 2 == 0 ? open : next_random(side) % (open + 1));
    if (open_bytes(side) > 0) consume_late(ctx, side);
}

static void on_readable(struct sn_ctx *ctx, struct side *side, const struct sn_event *event)
{
    const struct sn_buf *buf = &event->buf;
    uint32_t slab_bytes = sn_buf_headroom(buf) + buf->size + sn_buf_tailroom(buf);
    CHECK(side, event->size == sizeof *event);
    CHECK(side, event->stream.id == side->stream);
    CHECK(side, event->token == side->actor + 1);
    CHECK(side, !atomic_load(&side->got_end) && atomic_load(&side->downs) == 0);
    CHECK(side, event->offset == atomic_load(&side->received));
    CHECK(side, event->payload_size == buf->size && event->payload != NULL);
    CHECK(side, event->is_end == (buf->size == 0));
    CHECK(side, buf->size == 0 || event->payload == buf->data);
    CHECK(side, buf->size == 0 || buf->size >= slab_bytes / PINNED_MAX);
    CHECK(side, is_pattern(!side->actor, event->offset, event->payload, event->payload_size));
    atomic_fetch_add(&side->received, event->payload_size);
    CHECK(side, open_bytes(side) <= SN_STREAM_WINDOW_BYTES);
    if (event->is_end) atomic_store(&side->got_end, 1);
    while (atomic_load(&side->is_held)) rig_nap();
    if (atomic_load(&side->consuming) == AT_ONCE) consume(ctx, side, open_bytes(side));
    if (atomic_load(&side->consuming) == LATE) consume_late(ctx, side);
    if (event->is_end) send_more(ctx, side);
}

/* The stream means nothing any more. */
static void on_down(struct sn_ctx *ctx, struct side *side, const struct sn_event *event)
{
    struct sn_buf piece = {0};
    CHECK(side, event->stream.id == side->stream);
    CHECK(side, sn_net_ctx_stream_write(ctx, event->stream, &piece) == SN_ENOENT);
    CHECK(side, sn_net_ctx_stream_consume(ctx, event->stream, 0) == SN_ENOENT);
    CHECK(side, sn_net_ctx_stream_end(ctx, event->stream) == SN_ENOENT);
    CHECK(side, sn_net_ctx_stream_deliver(ctx, event->stream) == SN_OK); /* nobody notices */
    atomic_store(&side->down_err, event->err);
    atomic_fetch_add(&side->downs, 1);
}

static int on_event(struct rig *rig, struct sn_ctx *ctx, unsigned actor,
                    const struct sn_event *event)
{
    struct side *side = &sides[actor];
    (void)rig;
    switch (event->kind) {
    case SN_EVENT_STREAM_ASKED:
        side->stream = event->stream.id;
        if (side->is_passive) return 0;
        CHECK(side, sn_net_ctx_stream_accept(ctx, event->stream, actor + 1) == SN_OK);
        CHECK(side, sn_net_ctx_stream_deliver(ctx, event->stream) == SN_OK);
        send_more(ctx, side);
        return 0;
    case SN_EVENT_STREAM_READABLE: on_readable(ctx, side, event); return 1;
    case SN_EVENT_STREAM_WRITABLE:
        CHECK(side, event->stream.id == side->stream && event->token == actor + 1);
        CHECK(side, side->is_blocked);
        side->is_blocked = 0;
        atomic_fetch_add(&side->writables, 1);
        send_more(ctx, side);
        return 1;
    case SN_EVENT_TIMER: on_timer(ctx, side); return 1;
    case SN_EVENT_STREAM_DOWN: on_down(ctx, side, event); return 0;
    default: return 0;
    }
}

/* --- What the test makes them do -------------------------------------------------------------- */

static enum sn_err do_open(struct sn_ctx *ctx, void *arg)
{
    struct side *side = arg;
    struct sn_stream_ref stream;
    enum sn_err err =
        sn_net_ctx_stream_open(ctx, NEAR_PEER, SERVICE, "meta", 4, 5000, side->actor + 1, &stream);
    if (err != SN_OK) return err;
    side->stream = stream.id;
    if (side->is_passive) return SN_OK;
    err = sn_net_ctx_stream_deliver(ctx, stream);
    if (err == SN_OK) send_more(ctx, side);
    return err;
}

static void open_stream(struct rig *rig)
{
    assert_ok(rig_call(rig, NEAR, do_open, &sides[NEAR]));
}

static enum sn_err do_send(struct sn_ctx *ctx, void *arg)
{
    send_more(ctx, arg);
    return SN_OK;
}

static enum sn_err do_consume_all(struct sn_ctx *ctx, void *arg)
{
    consume(ctx, arg, open_bytes(arg));
    return SN_OK;
}

static enum sn_err do_deliver(struct sn_ctx *ctx, void *arg)
{
    return sn_net_ctx_stream_deliver(ctx, (struct sn_stream_ref){*(uint64_t *)arg});
}

static enum sn_err deliver(struct rig *rig, unsigned actor, uint64_t stream)
{
    return rig_call(rig, actor, do_deliver, &stream);
}

static enum sn_err do_end(struct sn_ctx *ctx, void *arg)
{
    return sn_net_ctx_stream_end(ctx, (struct sn_stream_ref){*(uint64_t *)arg});
}

struct write {
    uint64_t stream;
    struct sn_buf piece;
};

static enum sn_err do_write(struct sn_ctx *ctx, void *arg)
{
    struct write *write = arg;
    return sn_net_ctx_stream_write(ctx, (struct sn_stream_ref){write->stream}, &write->piece);
}

static enum sn_err write_text(struct rig *rig, unsigned actor, uint64_t stream, const char *text)
{
    struct write write = {.stream = stream};
    assert_ok(sn_buf_copy(text, (uint32_t)strlen(text), &write.piece));
    enum sn_err err = rig_call(rig, actor, do_write, &write);
    assert_int_equal(write.piece.slab == NULL, err == SN_OK);
    sn_buf_unref(&write.piece);
    return err;
}

static void check_sides(void)
{
    for (unsigned i = 0; i < 2; i++) {
        if (atomic_load(&sides[i].bad_line) != 0) {
            fail_msg("actor %u: check of line %d", i, atomic_load(&sides[i].bad_line));
        }
    }
}

/* Both directions came through whole; every EAGAIN had its WRITABLE. */
static void expect_good_end(struct rig *rig)
{
    for (unsigned i = 0; i < 2; i++) {
        WAIT(atomic_load(&sides[i].downs) == 1);
        struct rig_event down = rig_wait(rig, i, SN_EVENT_STREAM_DOWN);
        check_sides();
        assert_int_equal(down.event.err, SN_OK);
        assert_int_equal(down.event.token, i + 1);
        assert_int_equal(down.event.sent_bytes, atomic_load(&sides[i].size));
        assert_int_equal(down.event.received_bytes, atomic_load(&sides[!i].size));
        assert_int_equal(atomic_load(&sides[i].received), atomic_load(&sides[!i].size));
        assert_int_equal(atomic_load(&sides[i].got_end), 1);
        assert_int_equal(atomic_load(&sides[i].agains), atomic_load(&sides[i].writables));
    }
    rig_quiet(rig);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_DOWN), 0);
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_DOWN), 0);
}

static void expect_down(struct rig *rig, unsigned actor, enum sn_err err)
{
    struct rig_event down = rig_wait(rig, actor, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.err, err);
    assert_int_equal(down.event.stream.id, sides[actor].stream);
}

/* --- Transfers -------------------------------------------------------------------------------- */

static void test_both_ways(void **state)
{
    struct rig *rig = *state;
    sides[NEAR].size = 12 * MIB + 1;
    sides[FAR].size = 9 * MIB + 4711;
    sides[NEAR].consuming = LATE;
    sides[FAR].consuming = AT_ONCE;
    open_stream(rig);
    expect_good_end(rig);
    struct rig_event up = rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    assert_int_equal(up.event.token, NEAR + 1);
}

/* Two passive ends that are up, each with a meter; idle_ms at the far one. */
static void open_metered(struct rig *rig, struct sn_meter *meters[2], uint64_t idle_ms)
{
    sides[NEAR].is_passive = sides[FAR].is_passive = 1;
    sides[NEAR].consuming = sides[FAR].consuming = AT_ONCE;
    open_stream(rig);
    (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_accept(rig, sides[FAR].stream, FAR + 1);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(sn_meter_new(&meters[i]));
        assert_ok(rig_tune(rig, i, sides[i].stream, i == FAR ? idle_ms : 0, meters[i]));
        assert_ok(deliver(rig, i, sides[i].stream));
    }
}

static void test_metered(void **state)
{
    struct rig *rig = *state;
    struct sn_meter *meters[2];
    open_metered(rig, meters, 0);
    for (unsigned i = 0; i < 2; i++) {
        sides[i].size = 3 * MIB + i;
        assert_ok(rig_call(rig, i, do_send, &sides[i]));
    }
    expect_good_end(rig);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t sent = 0, received = 0;
        sn_meter_read(meters[i], &sent, &received);
        assert_int_equal(sent, sides[i].size);
        assert_int_equal(received, sides[!i].size);
        sn_meter_free(meters[i]);
    }
}

/* The owner failed, and its meter goes with it, before or after the stream: no matter. */
static void test_metered_fails(void **state)
{
    struct rig *rig = *state;
    struct sn_meter *meters[2];
    open_metered(rig, meters, 0);
    assert_ok(write_text(rig, NEAR, sides[NEAR].stream, "x"));
    sn_meter_free(meters[NEAR]);
    rig_fail(rig, NEAR);
    rig_quiet(rig);
    sn_meter_free(meters[FAR]);
}

static void test_idle(void **state)
{
    struct rig *rig = *state;
    struct sn_meter *meters[2];
    open_metered(rig, meters, 300);
    for (int i = 0; i < 30; i++) {
        assert_ok(write_text(rig, NEAR, sides[NEAR].stream, "x"));
        for (int naps = 0; naps < 60; naps++) rig_nap();
    }
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_DOWN), 0); /* it moved all the time */
    expect_down(rig, FAR, SN_ETIMEDOUT);
    expect_down(rig, NEAR, SN_ETIMEDOUT);
    rig_quiet(rig);
    sn_meter_free(meters[NEAR]);
    sn_meter_free(meters[FAR]);
}

static void test_small_pieces(void **state)
{
    struct rig *rig = *state;
    for (unsigned i = 0; i < 2; i++) {
        sides[i].size = 30000;
        sides[i].piece_max = 3;
        sides[i].consuming = LATE;
    }
    open_stream(rig);
    expect_good_end(rig);
}

static void test_largest_pieces(void **state)
{
    struct rig *rig = *state;
    for (unsigned i = 0; i < 2; i++) {
        sides[i].size = 8 * MIB;
        sides[i].piece_min = SN_SLAB_BYTES_MAX;
        sides[i].piece_max = SN_SLAB_BYTES_MAX;
        sides[i].consuming = LATE;
    }
    open_stream(rig);
    expect_good_end(rig);
}

static void test_nothing(void **state)
{
    struct rig *rig = *state;
    open_stream(rig);
    expect_good_end(rig);
}

/* 64 MiB to a reader that stops, each way in turn. What stands between the two is bounded: what the reader was told,
 * what the stream retains, what is queued, each and one piece. */
static void slow_reader(struct rig *rig, unsigned writer)
{
    struct side *from = &sides[writer];
    struct side *to = &sides[!writer];
    /* The stream asks for more when a quarter of what it retains is gone. */
    uint64_t least =
        2u * SN_STREAM_WINDOW_BYTES - SN_STREAM_WINDOW_BYTES / 4u + SN_STREAM_QUEUED_BYTES / 2u;
    uint64_t most = 2u * SN_STREAM_WINDOW_BYTES + SN_STREAM_QUEUED_BYTES + 2u * PIECE_BYTES;
    from->size = 64 * MIB;
    to->size = 0;
    open_stream(rig);
    for (unsigned round = 0; round < 4; round++) {
        WAIT(open_bytes(to) == SN_STREAM_WINDOW_BYTES);
        WAIT(atomic_load(&from->sent) - atomic_load(&to->consumed) >= least);
        for (unsigned i = 0; i < 50; i++) rig_nap();
        assert_int_equal(open_bytes(to), SN_STREAM_WINDOW_BYTES);
        assert_in_range(atomic_load(&from->sent) - atomic_load(&to->consumed), least, most);
        /* What was told is not kept here; the rest is, once. */
        assert_in_range(sn_alloc_in_use() - rig->alloc_before, 0,
                        most - SN_STREAM_WINDOW_BYTES + MIB);
        if (round < 3) assert_ok(rig_call(rig, !writer, do_consume_all, to));
    }
    atomic_store(&to->consuming, LATE);
    assert_ok(rig_call(rig, !writer, do_consume_all, to));
    expect_good_end(rig);
    assert_in_range(atomic_load(&from->writables), 4, 1000);
    /* WRITABLE came when half was free, and writes were refused until then. */
    assert_in_range(atomic_load(&from->least_room), SN_STREAM_QUEUED_BYTES / 2, UINT64_MAX);
}

static void test_slow_reader_far(void **state)
{
    slow_reader(*state, NEAR);
}

static void test_slow_reader_near(void **state)
{
    slow_reader(*state, FAR);
}

static void test_half_closes(void **state)
{
    struct rig *rig = *state;
    for (unsigned first = 0; first < 2; first++) {
        for (unsigned i = 0; i < 2; i++) {
            sides[i] = (struct side){.actor = i,
                                     .size = 3 * MIB,
                                     .piece_max = PIECE_BYTES,
                                     .piece_min = 1,
                                     .consuming = LATE,
                                     .ends = 1,
                                     .random = first * 2 + i,
                                     .waits_for_end = i != first};
        }
        open_stream(rig);
        expect_good_end(rig);
    }
}

/* Every connection is lost again and again. */
static void test_cuts(void **state)
{
    struct rig *rig = *state;
    for (unsigned i = 0; i < 2; i++) {
        sides[i].size = 24 * MIB;
        sides[i].consuming = i == NEAR ? LATE : AT_ONCE;
    }
    open_stream(rig);
    unsigned cuts = 0;
    while (atomic_load(&sides[NEAR].downs) == 0 && cuts < 100000) {
        rig_lane_cut(rig);
        rig_nap();
        rig_nap();
        cuts++;
    }
    expect_good_end(rig);
    assert_in_range(cuts, 10, 100000);
}

/* Bytes written before there is a session, and before acceptance, wait and arrive. */
static void test_early_writes(void **state)
{
    struct rig *rig = *state;
    rig_lane_down(rig);
    sides[NEAR].size = 2 * MIB;
    sides[FAR].is_passive = 1;
    sides[FAR].size = 5;
    sides[FAR].consuming = AT_ONCE;
    open_stream(rig);
    rig_lane_up(rig);
    (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    assert_ok(deliver(rig, FAR, sides[FAR].stream));
    assert_ok(rig_call(rig, FAR, do_send, &sides[FAR])); /* writes and ends */
    for (unsigned i = 0; i < 100; i++) rig_nap();
    assert_int_equal(atomic_load(&sides[FAR].received), 0);
    assert_int_equal(atomic_load(&sides[NEAR].received), 0);
    rig_accept(rig, sides[FAR].stream, FAR + 1);
    expect_good_end(rig);
}

/* Its bytes go to a connection at the other end. */
static void test_spliced_there(void **state)
{
    struct rig *rig = *state;
    uint16_t port = 0;
    char address[32];
    sides[FAR].is_passive = 1;
    sides[NEAR].size = 40;
    open_stream(rig);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    struct sn_sock listener = rig_server(rig, &port);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_ok(rig_dial(rig, FAR, address, 5000, 9));
    struct rig_event dialed = rig_wait(rig, FAR, SN_EVENT_CONN_DIALED);
    struct sn_sock server = rig_accept_sock(rig, listener);
    rig_accept(rig, asked.event.stream.id, 3);
    assert_ok(rig_splice(rig, FAR, asked.event.stream.id, dialed.event.conn.id));
    rig_expect(rig, server, pattern, 40);
    assert_int_equal(rig_next(rig, server), SN_ECLOSED);
    rig_write(rig, server, pattern + 1000, 17); /* as "far" would write */
    WAIT(atomic_load(&sides[NEAR].received) == 17);
    sn_env_close(rig->env, server);
    sn_env_close(rig->env, listener);
    expect_down(rig, NEAR, SN_OK);
    expect_down(rig, FAR, SN_OK);
    assert_int_equal(atomic_load(&sides[NEAR].got_end), 1);
    rig_quiet(rig);
}

/* --- Bounds ----------------------------------------------------------------------------------- */

struct figures {
    uint64_t told, received;
};

static void look(struct rig *rig, void *arg)
{
    struct figures *figures = arg;
    struct sn_actor_ref owner = rig->actors[FAR];
    struct sni_flow *flow = sni_flow_find(&rig->net.hubs[0], sides[FAR].stream, owner, 0);
    struct sn_stream_info info;
    *figures = (struct figures){UINT64_MAX, UINT64_MAX}; /* all was told, and it is over */
    if (flow == NULL) return;
    sn_stream_info(flow->stream, &info);
    figures->told = flow->told_bytes;
    figures->received = info.received;
}

/* An actor that stays in its handler has few pieces waiting for it, whatever comes. */
static void test_busy_reader(void **state)
{
    struct rig *rig = *state;
    struct figures figures = {0};
    uint64_t before = 0;
    sides[NEAR].size = 3 * MIB;
    sides[NEAR].piece_min = 4096;
    sides[NEAR].piece_max = 4096;
    sides[FAR].consuming = LATE;
    atomic_store(&sides[FAR].is_held, 1);
    open_stream(rig);
    WAIT(atomic_load(&sides[FAR].received) > 0);
    for (unsigned i = 0; i < 100000; i++) {
        rig_on_worker(rig, 0, look, &figures);
        if (figures.received >= 3 * MIB) break;
        rig_nap();
    }
    before = figures.told;
    for (unsigned i = 0; i < 50; i++) rig_nap();
    rig_on_worker(rig, 0, look, &figures);
    atomic_store(&sides[FAR].is_held, 0);
    assert_int_equal(figures.received, 3 * MIB);
    assert_int_equal(figures.told, before);
    assert_in_range(figures.told, UNTOLD_MAX * 4096u, (UNTOLD_MAX + 1) * 4096u);
    expect_good_end(rig);
}

struct flood {
    struct side *side;
    uint32_t count;
};

/* One byte after the other until refused; stays refused. */
static enum sn_err do_flood(struct sn_ctx *ctx, void *arg)
{
    struct flood *flood = arg;
    struct side *side = flood->side;
    enum sn_err err = SN_OK;
    struct sn_buf piece = {0};
    while (flood->count < 5000) {
        err = make_piece(side, flood->count, 1, &piece);
        if (err == SN_OK) err = sn_net_ctx_stream_write(ctx, ref_of(side), &piece);
        if (err != SN_OK) break;
        flood->count++;
    }
    for (unsigned i = 0; i < 10; i++) {
        CHECK(side, err == SN_EAGAIN);
        err = sn_net_ctx_stream_write(ctx, ref_of(side), &piece);
    }
    sn_buf_unref(&piece);
    side->is_blocked = 1;
    return err;
}

/* Tiny pieces count for more than their bytes; one WRITABLE follows, however often a write was refused. */
static void test_again(void **state)
{
    struct rig *rig = *state;
    struct flood floods[2] = {{&sides[NEAR], 0}, {&sides[FAR], 0}};
    uint32_t most = SN_STREAM_QUEUED_BYTES / 1024u;
    sides[FAR].is_passive = 1;
    sides[NEAR].ends = 0;
    sides[FAR].ends = 0;
    open_stream(rig);
    (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_pause(rig, 1);
    assert_ok(deliver(rig, FAR, sides[FAR].stream));
    assert_int_equal(rig_call(rig, FAR, do_flood, &floods[FAR]), SN_EAGAIN);
    assert_int_equal(floods[FAR].count, most); /* not accepted: the stream takes nothing */
    assert_int_equal(rig_call(rig, NEAR, do_flood, &floods[NEAR]), SN_EAGAIN);
    check_sides();
    rig_accept(rig, sides[FAR].stream, FAR + 1);
    rig_pause(rig, 0);
    for (unsigned i = 0; i < 2; i++) {
        WAIT(atomic_load(&sides[!i].received) == floods[i].count);
        WAIT(atomic_load(&sides[i].writables) == 1);
    }
    for (unsigned i = 0; i < 50; i++) rig_nap();
    assert_int_equal(atomic_load(&sides[NEAR].writables), 1);
    assert_int_equal(atomic_load(&sides[FAR].writables), 1);
    check_sides();
}

/* --- Other ends ------------------------------------------------------------------------------- */

static void start_transfer(struct rig *rig)
{
    for (unsigned i = 0; i < 2; i++) {
        sides[i].size = 1024 * MIB; /* never done */
        sides[i].consuming = i == NEAR ? LATE : AT_ONCE;
    }
    open_stream(rig);
    WAIT(atomic_load(&sides[NEAR].received) > MIB && atomic_load(&sides[FAR].received) > MIB);
}

static void test_resets(void **state)
{
    struct rig *rig = *state;
    for (unsigned i = 0; i < 6; i++) {
        unsigned who = i % 2;
        start_transfer(rig);
        rig_reset(rig, who, sides[who].stream, SN_EDENIED);
        expect_down(rig, NEAR, SN_EDENIED);
        expect_down(rig, FAR, SN_EDENIED);
        rig_quiet(rig);
        check_sides();
        for (unsigned k = 0; k < 2; k++) {
            sn_buf_unref(&sides[k].held);
            sides[k] = (struct side){
                .actor = k, .piece_min = 1, .piece_max = PIECE_BYTES, .ends = 1, .random = i};
        }
    }
}

static void test_session_goes(void **state)
{
    struct rig *rig = *state;
    start_transfer(rig);
    rig_lane_down(rig);
    expect_down(rig, NEAR, SN_ERESET);
    expect_down(rig, FAR, SN_ERESET);
    rig_quiet(rig);
    check_sides();
}

/* A reader that does not read hears of a reset nevertheless. */
static void test_reset_of_full(void **state)
{
    struct rig *rig = *state;
    sides[NEAR].size = 64 * MIB;
    open_stream(rig);
    WAIT(open_bytes(&sides[FAR]) == SN_STREAM_WINDOW_BYTES);
    WAIT(atomic_load(&sides[NEAR].agains) == atomic_load(&sides[NEAR].writables) + 1);
    rig_reset(rig, FAR, sides[FAR].stream, SN_EIO);
    expect_down(rig, NEAR, SN_EIO);
    expect_down(rig, FAR, SN_EIO);
    rig_quiet(rig);
    check_sides();
}

/* The incarnation ends with all that it had, and the next one begins anew. */
static void actor_fails(struct rig *rig, unsigned who)
{
    uint64_t old = 0;
    start_transfer(rig);
    old = sides[who].stream;
    rig_break(rig, who);
    expect_down(rig, !who, SN_ECANCELLED);
    (void)rig_wait(rig, who, SN_EVENT_START);
    rig_quiet(rig);
    check_sides();
    assert_int_equal(rig_count(rig, who, SN_EVENT_STREAM_DOWN), 0);
    assert_int_equal(rig_call(rig, who, do_end, &old), SN_ENOENT);
    assert_ok(deliver(rig, who, old)); /* of the former life: refused, later */
    for (unsigned i = 0; i < 2; i++) {
        sn_buf_unref(&sides[i].held);
        sides[i] = (struct side){.actor = i,
                                 .size = MIB,
                                 .piece_min = 1,
                                 .piece_max = PIECE_BYTES,
                                 .ends = 1,
                                 .consuming = LATE,
                                 .random = i};
    }
    open_stream(rig);
    expect_good_end(rig);
}

static void test_near_fails(void **state)
{
    actor_fails(*state, NEAR);
}

static void test_far_fails(void **state)
{
    actor_fails(*state, FAR);
}

/* READABLE events wait for an actor that fails before it sees them. */
static void test_fails_unread(void **state)
{
    struct rig *rig = *state;
    sides[NEAR].size = 64 * MIB;
    atomic_store(&sides[FAR].is_held, 1);
    open_stream(rig);
    WAIT(atomic_load(&sides[FAR].received) > 0);
    WAIT(atomic_load(&sides[NEAR].agains) == atomic_load(&sides[NEAR].writables) + 1);
    atomic_store(&sides[FAR].is_held, 0);
    rig_fail(rig, FAR);
    expect_down(rig, NEAR, SN_ECANCELLED);
    rig_quiet(rig);
    check_sides();
}

/* Everything is still under way when the system ends. */
static void test_system_stops(void **state)
{
    struct rig *rig = *state;
    start_transfer(rig);
    check_sides();
}

/* --- Misuse ----------------------------------------------------------------------------------- */

static enum sn_err do_bad_calls(struct sn_ctx *ctx, void *arg)
{
    struct side *side = arg;
    struct sn_stream_ref stream = {side->stream};
    struct sn_stream_ref none = {0};
    struct sn_stream_ref nowhere = {~UINT64_C(0)};
    struct sn_buf empty = {0};
    struct sn_buf forged = {.size = 5};
    CHECK(side, sn_net_ctx_stream_deliver(ctx, none) == SN_EINVAL);
    CHECK(side, sn_net_ctx_stream_deliver(ctx, nowhere) == SN_EINVAL);
    CHECK(side, sn_net_ctx_stream_write(ctx, none, &empty) == SN_ENOENT);
    /* Not delivered yet. */
    CHECK(side, sn_net_ctx_stream_write(ctx, stream, &empty) == SN_ENOENT);
    CHECK(side, sn_net_ctx_stream_consume(ctx, stream, 0) == SN_ENOENT);
    CHECK(side, sn_net_ctx_stream_end(ctx, stream) == SN_ENOENT);
    CHECK(side, sn_net_ctx_stream_deliver(ctx, stream) == SN_OK);
    CHECK(side, sn_net_ctx_stream_deliver(ctx, stream) == SN_ESTATE);
    CHECK(side, sn_net_ctx_stream_consume(ctx, stream, 1) == SN_EINVAL);
    CHECK(side, sn_net_ctx_stream_consume(ctx, stream, 0) == SN_OK);
    CHECK(side, sn_net_ctx_stream_write(ctx, stream, NULL) == SN_EINVAL);
    CHECK(side, sn_net_ctx_stream_write(ctx, stream, &forged) == SN_EINVAL);
    CHECK(side, sn_net_ctx_stream_write(ctx, stream, &empty) == SN_OK);
    return SN_OK;
}

static void test_bad_calls(void **state)
{
    struct rig *rig = *state;
    for (unsigned i = 0; i < 2; i++) {
        sides[i].is_passive = 1;
        sides[i].consuming = AT_ONCE;
        sides[i].size = 100;
    }
    open_stream(rig);
    (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_accept(rig, sides[FAR].stream, FAR + 1);
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(rig_call(rig, i, do_bad_calls, &sides[i]));
        assert_ok(rig_call(rig, i, do_send, &sides[i]));
    }
    expect_good_end(rig); /* nothing of it did any harm */
}

/* Streams belong to the actor that opened or was asked. */
static void test_foreign(void **state)
{
    struct rig *rig = *state;
    sides[NEAR].size = MIB;
    sides[FAR].consuming = AT_ONCE;
    sides[FAR].ends = 0;
    open_stream(rig);
    (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t other = sides[!i].stream;
        assert_ok(deliver(rig, i, other)); /* as if it were gone */
        WAIT(write_text(rig, i, other, "x") == SN_ENOENT);
    }
    sides[FAR].ends = 1;
    assert_ok(rig_call(rig, FAR, do_send, &sides[FAR]));
    expect_good_end(rig);
}

static uint64_t make_conn(struct rig *rig, unsigned actor, struct sn_sock *out_client)
{
    *out_client = rig_client(rig, rig_listen(rig, actor));
    return rig_wait(rig, actor, SN_EVENT_CONN_ACCEPTED).event.conn.id;
}

static void test_both_kinds(void **state)
{
    struct rig *rig = *state;
    struct sn_sock client = SN_SOCK_NONE;
    for (unsigned who = 0; who < 2; who++) {
        sides[NEAR].is_passive = sides[FAR].is_passive = 1;
        open_stream(rig);
        (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
        rig_accept(rig, sides[FAR].stream, FAR + 1);
        (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
        /* Delivered, then spliced: an error, and the caller still has both. */
        uint64_t conn = make_conn(rig, who, &client);
        assert_ok(deliver(rig, who, sides[who].stream));
        assert_int_equal(rig_splice(rig, who, sides[who].stream, conn), SN_ESTATE);
        assert_ok(write_text(rig, who, sides[who].stream, "x"));
        rig_close(rig, who, conn, 0);
        assert_int_equal(rig_next(rig, client), SN_ECLOSED);
        sn_env_close(rig->env, client);
        /* Spliced, then delivered: both end. */
        conn = make_conn(rig, !who, &client);
        assert_ok(rig_splice(rig, !who, sides[!who].stream, conn));
        assert_ok(deliver(rig, !who, sides[!who].stream));
        expect_down(rig, !who, SN_ESTATE);
        expect_down(rig, who, SN_ESTATE);
        enum sn_err end = rig_next(rig, client);
        if (end == SN_OK) end = rig_next(rig, client); /* the byte came through first */
        assert_int_equal(end, SN_ERESET);
        sn_env_close(rig->env, client);
        rig_quiet(rig);
        check_sides();
    }
}

/* --- Without memory --------------------------------------------------------------------------- */

struct attempt {
    struct side *side;
    uint64_t nth;
    struct sn_buf piece;
};

static enum sn_err try_deliver(struct sn_ctx *ctx, void *arg)
{
    struct attempt *attempt = arg;
    sn_alloc_fail_nth(attempt->nth);
    enum sn_err err = sn_net_ctx_stream_deliver(ctx, ref_of(attempt->side));
    sn_alloc_fail_nth(0);
    return err;
}

static enum sn_err try_write(struct sn_ctx *ctx, void *arg)
{
    struct attempt *attempt = arg;
    if (attempt->piece.slab == NULL) {
        enum sn_err made = make_piece(attempt->side, 0, SN_SLAB_BYTES_MAX, &attempt->piece);
        if (made != SN_OK) return made;
    }
    sn_alloc_fail_nth(attempt->nth);
    enum sn_err err = sn_net_ctx_stream_write(ctx, ref_of(attempt->side), &attempt->piece);
    sn_alloc_fail_nth(0);
    return err;
}

/* Calls that fail change nothing. */
static void test_calls_without_memory(void **state)
{
    struct rig *rig = *state;
    sides[NEAR].is_passive = sides[FAR].is_passive = 1;
    open_stream(rig);
    (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_pause(rig, 1);
    struct attempt attempt = {.side = &sides[FAR], .nth = 1};
    while (rig_call(rig, FAR, try_deliver, &attempt) == SN_ENOMEM) {
        assert_int_equal(write_text(rig, FAR, sides[FAR].stream, "x"), SN_ENOENT);
        attempt.nth++;
    }
    assert_in_range(attempt.nth, 3, 10);
    /* The stream, not accepted, takes nothing: four of the largest pieces fill the queue. */
    for (unsigned i = 0; i < 4; i++) {
        attempt.nth = 1;
        assert_int_equal(rig_call(rig, FAR, try_write, &attempt), SN_ENOMEM);
        assert_non_null(attempt.piece.slab);
        attempt.nth = 0;
        assert_ok(rig_call(rig, FAR, try_write, &attempt));
    }
    attempt.nth = 1;
    assert_int_equal(rig_call(rig, FAR, try_write, &attempt), SN_ENOMEM); /* of the event */
    attempt.nth = 0;
    assert_int_equal(rig_call(rig, FAR, try_write, &attempt), SN_EAGAIN);
    attempt.nth = 1;
    assert_int_equal(rig_call(rig, FAR, try_write, &attempt), SN_EAGAIN); /* needs no other */
    sn_buf_unref(&attempt.piece);
    rig_reset(rig, FAR, sides[FAR].stream, SN_EIO);
    expect_down(rig, FAR, SN_EIO);
    rig_pause(rig, 0);
    expect_down(rig, NEAR, SN_EIO);
    rig_quiet(rig);
    check_sides();
}

/* Delivers, and moves what is there with an allocation that fails. */
static enum sn_err try_move(struct sn_ctx *ctx, void *arg)
{
    struct attempt *attempt = arg;
    struct side *side = attempt->side;
    enum sn_err err = sn_net_ctx_stream_deliver(ctx, ref_of(side));
    if (err == SN_OK) err = sn_net_ctx_stream_write(ctx, ref_of(side), &attempt->piece);
    if (err != SN_OK) return err;
    struct sni_hub *hub = sni_net_hub(sn_net_of(sn_ctx_system(ctx)), sn_ctx_worker(ctx));
    struct sni_flow *flow =
        sni_flow_find(hub, side->stream, sn_ctx_self(ctx), sn_ctx_incarnation(ctx));
    if (flow == NULL) return SN_ENOENT;
    sn_alloc_fail_nth(attempt->nth);
    flow->io.run(&flow->io, 0);
    sn_alloc_fail_nth(0);
    flow = sni_flow_find(hub, side->stream, sn_ctx_self(ctx), sn_ctx_incarnation(ctx));
    return flow == NULL ? SN_ENOMEM : SN_OK;
}

static void count_received(struct rig *rig, void *arg)
{
    struct sn_stream_info info = {0};
    struct sni_flow *flow =
        sni_flow_find(&rig->net.hubs[0], sides[NEAR].stream, rig->actors[NEAR], 0);
    if (flow != NULL) sn_stream_info(flow->stream, &info);
    *(uint64_t *)arg = info.received;
}

/* The stream ends with a reason rather than with bytes missing. */
static void test_moves_without_memory(void **state)
{
    struct rig *rig = *state;
    uint32_t ended = 0;
    for (uint64_t nth = 1;; nth++) {
        uint64_t received = 0;
        assert_in_range(nth, 1, 50);
        sides[NEAR] = (struct side){.actor = NEAR, .is_passive = 1};
        sides[FAR] = (struct side){
            .actor = FAR, .size = 10000, .piece_min = 5000, .piece_max = 5000, .random = nth};
        open_stream(rig);
        while (received < 10000) rig_on_worker(rig, 0, count_received, &received);
        struct attempt attempt = {.side = &sides[NEAR], .nth = nth};
        assert_ok(make_piece(&sides[NEAR], 0, 3000, &attempt.piece));
        enum sn_err err = rig_call(rig, NEAR, try_move, &attempt);
        sn_buf_unref(&attempt.piece);
        if (err == SN_OK) break;
        assert_int_equal(err, SN_ENOMEM);
        expect_down(rig, NEAR, SN_ENOMEM);
        expect_down(rig, FAR, SN_ENOMEM);
        rig_quiet(rig);
        check_sides();
        ended++;
    }
    assert_in_range(ended, 3, 20);
    WAIT(atomic_load(&sides[NEAR].received) == 10000);
    WAIT(atomic_load(&sides[FAR].received) == 3000);
    check_sides();
}

/* --- Fixture ---------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    uint64_t seed = 7;
    for (uint32_t i = 0; i < PATTERN_BYTES; i++) pattern[i] = (uint8_t)joint_random(&seed);
    for (unsigned i = 0; i < 2; i++) {
        sides[i] = (struct side){.actor = i,
                                 .piece_min = 1,
                                 .piece_max = PIECE_BYTES,
                                 .ends = 1,
                                 .least_room = UINT64_MAX,
                                 .random = i + 1};
    }
    int err = rig_set_up(state);
    struct rig *rig = *state;
    rig->on_event = on_event;
    return err;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    sn_system_stop(rig->system); /* nobody writes any more */
    sn_buf_unref(&sides[NEAR].held);
    sn_buf_unref(&sides[FAR].held);
    return rig_tear_down(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_metered),
        TEST(test_metered_fails),
        TEST(test_idle),
        TEST(test_both_ways),
        TEST(test_small_pieces),
        TEST(test_largest_pieces),
        TEST(test_nothing),
        TEST(test_slow_reader_far),
        TEST(test_slow_reader_near),
        TEST(test_half_closes),
        TEST(test_cuts),
        TEST(test_early_writes),
        TEST(test_spliced_there),
        TEST(test_busy_reader),
        TEST(test_again),
        TEST(test_resets),
        TEST(test_session_goes),
        TEST(test_reset_of_full),
        TEST(test_near_fails),
        TEST(test_far_fails),
        TEST(test_fails_unread),
        TEST(test_system_stops),
        TEST(test_bad_calls),
        TEST(test_foreign),
        TEST(test_both_kinds),
        TEST(test_calls_without_memory),
        TEST(test_moves_without_memory),
    };
    return cmocka_run_group_tests_name("peer/delivered", tests, NULL, NULL);
}
