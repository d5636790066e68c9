/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between sockets and streams: complete, in order, bounded, and a clear end whatever happens. */
#include "flow_rig.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define BIG_BYTES   (32u * 1024u * 1024u)
#define CHUNK_BYTES (256u * 1024u)

/* --- Transfers ------------------------------------------------------------------------------------------------ */

static uint64_t word(uint64_t seed, uint64_t at)
{
    return (at + seed) * UINT64_C(0x9e3779b97f4a7c15) ^ seed;
}

/* One direction of a connection: what `from` sends arrives at `to`. Sizes are multiples of 8. */
struct transfer {
    struct sn_sock from, to;
    uint64_t seed;
    uint64_t size;
    uint64_t sent, received;
    uint8_t has_ended; /* sending */
    uint8_t got_end;
    uint8_t *out; /* chunk that holds the byte at `sent` */
    uint8_t *in;
    uint64_t out_at; /* of the chunk */
    uint32_t in_size;
};

static struct transfer transfer_new(struct sn_sock from, struct sn_sock to, uint64_t size,
                                    uint64_t seed)
{
    return (struct transfer){.from = from,
                             .to = to,
                             .size = size,
                             .seed = seed,
                             .out = test_malloc(CHUNK_BYTES),
                             .out_at = UINT64_MAX,
                             .in = test_malloc(CHUNK_BYTES)};
}

static void transfer_free(struct transfer *transfer)
{
    test_free(transfer->out);
    test_free(transfer->in);
}

/* Sends once; ends the direction after the last byte. Nonzero when something happened. */
static int send_some(struct rig *rig, struct transfer *transfer)
{
    if (transfer->has_ended) return 0;
    if (transfer->sent == transfer->size) {
        sn_env_shutdown_write(rig->env, transfer->from);
        transfer->has_ended = 1;
        return 1;
    }
    uint64_t chunk = transfer->sent - transfer->sent % CHUNK_BYTES;
    if (chunk != transfer->out_at) {
        uint64_t *words = (uint64_t *)(void *)transfer->out;
        for (uint64_t i = 0; i < CHUNK_BYTES / 8; i++) {
            words[i] = word(transfer->seed, chunk / 8 + i);
        }
        transfer->out_at = chunk;
    }
    uint64_t size = CHUNK_BYTES - (transfer->sent - chunk);
    size_t put = 0;
    if (size > transfer->size - transfer->sent) size = transfer->size - transfer->sent;
    enum sn_err err = sn_env_write(rig->env, transfer->from,
                                   transfer->out + (transfer->sent - chunk), (size_t)size, &put);
    if (err == SN_EAGAIN) return 0;
    assert_ok(err);
    transfer->sent += put;
    return 1;
}

/* Reads once and compares. */
static int receive_some(struct rig *rig, struct transfer *transfer)
{
    size_t got = 0;
    if (transfer->got_end) return 0;
    enum sn_err err = sn_env_read(rig->env, transfer->to, transfer->in + transfer->in_size,
                                  CHUNK_BYTES - transfer->in_size, &got);
    if (err == SN_EAGAIN) return 0;
    if (err == SN_ECLOSED) {
        assert_int_equal(transfer->received + transfer->in_size, transfer->size);
        assert_int_equal(transfer->in_size, 0);
        transfer->got_end = 1;
        return 1;
    }
    assert_ok(err);
    transfer->in_size += (uint32_t)got;
    uint32_t whole = transfer->in_size / 8;
    const uint64_t *words = (const uint64_t *)(void *)transfer->in;
    uint64_t bad = 0;
    for (uint32_t i = 0; i < whole; i++) {
        bad |= words[i] ^ word(transfer->seed, transfer->received / 8 + i);
    }
    assert_int_equal(bad, 0);
    transfer->received += whole * 8u;
    transfer->in_size -= whole * 8;
    memmove(transfer->in, transfer->in + whole * 8, transfer->in_size);
    return 1;
}

static void run_transfers(struct rig *rig, struct transfer *transfers, unsigned count)
{
    for (int idle = 0; idle < 25000;) {
        int moved = 0;
        int is_done = 1;
        for (unsigned i = 0; i < count; i++) {
            moved |= send_some(rig, &transfers[i]);
            moved |= receive_some(rig, &transfers[i]);
            is_done &= transfers[i].got_end;
        }
        if (is_done) return;
        if (moved) {
            idle = 0;
        } else {
            idle++;
            rig_nap();
        }
    }
    fail_msg("the transfer stands still");
}

/* Both actors hear the same good end, with the right counts. */
static void expect_good_end(struct rig *rig, uint64_t forth, uint64_t back)
{
    struct rig_event down = rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.err, SN_OK);
    assert_int_equal(down.event.sent_bytes, forth);
    assert_int_equal(down.event.received_bytes, back);
    down = rig_wait(rig, FAR, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.err, SN_OK);
    assert_int_equal(down.event.sent_bytes, back);
    assert_int_equal(down.event.received_bytes, forth);
    rig_quiet(rig);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_DOWN), 0);
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_DOWN), 0);
}

static void close_tunnel(struct rig *rig, struct rig_tunnel *tunnel)
{
    sn_env_close(rig->env, tunnel->client);
    sn_env_close(rig->env, tunnel->server);
}

/* One side sends all and ends; then the other one does. */
static void run_in_order(struct rig *rig, int client_first)
{
    struct rig_tunnel tunnel = rig_tunnel(rig);
    struct transfer forth = transfer_new(tunnel.client, tunnel.server, BIG_BYTES, 1);
    struct transfer back = transfer_new(tunnel.server, tunnel.client, BIG_BYTES, 2);
    run_transfers(rig, client_first ? &forth : &back, 1);
    run_transfers(rig, client_first ? &back : &forth, 1);
    expect_good_end(rig, BIG_BYTES, BIG_BYTES);
    transfer_free(&forth);
    transfer_free(&back);
    close_tunnel(rig, &tunnel);
}

static void test_client_ends_first(void **state)
{
    run_in_order(*state, 1);
}

static void test_server_ends_first(void **state)
{
    run_in_order(*state, 0);
}

static void test_both_at_once(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    struct transfer transfers[2] = {transfer_new(tunnel.client, tunnel.server, BIG_BYTES / 2, 3),
                                    transfer_new(tunnel.server, tunnel.client, BIG_BYTES / 2, 4)};
    run_transfers(rig, transfers, 2);
    expect_good_end(rig, BIG_BYTES / 2, BIG_BYTES / 2);
    transfer_free(&transfers[0]);
    transfer_free(&transfers[1]);
    close_tunnel(rig, &tunnel);
}

/* The server closes everything first; the client hears it at once and then ends. */
static void test_server_closes(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    rig_write(rig, tunnel.server, "bye", 3);
    sn_env_close(rig->env, tunnel.server);
    rig_expect(rig, tunnel.client, "bye", 3);
    assert_int_equal(rig_next(rig, tunnel.client), SN_ECLOSED);
    sn_env_close(rig->env, tunnel.client);
    expect_good_end(rig, 0, 3);
}

static void test_nothing_sent(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    sn_env_close(rig->env, tunnel.client);
    assert_int_equal(rig_next(rig, tunnel.server), SN_ECLOSED);
    sn_env_close(rig->env, tunnel.server);
    expect_good_end(rig, 0, 0);
}

/* --- Bounds ------------------------------------------------------------------------------------------------------- */

/* Sends until nothing moves any more. */
static void send_until_stalled(struct rig *rig, struct transfer *transfer)
{
    for (int idle = 0; idle < 150;) {
        if (send_some(rig, transfer)) {
            idle = 0;
        } else {
            idle++;
            rig_nap();
        }
    }
    assert_in_range(transfer->sent, 1, transfer->size - 8);
}

/* A server that does not read holds the client up, after the first window at the soonest and within two of the largest;
 * then everything arrives. How far they grow is a matter of how fast the kernel took the first bytes. */
static void test_stalled_reader(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    size_t before = sn_alloc_in_use();
    struct transfer forth = transfer_new(tunnel.client, tunnel.server, 2 * BIG_BYTES, 5);
    struct transfer back = transfer_new(tunnel.server, tunnel.client, 4096, 6);
    send_until_stalled(rig, &forth);
    assert_in_range(sn_alloc_in_use() - before, SN_STREAM_INITIAL_CREDIT,
                    2 * SN_STREAM_WINDOW_BYTES + 8 * SN_SLAB_BYTES_MAX);
    run_transfers(rig, &back, 1); /* the other direction is not held up */
    run_transfers(rig, &forth, 1);
    expect_good_end(rig, forth.size, 4096);
    transfer_free(&forth);
    transfer_free(&back);
    close_tunnel(rig, &tunnel);
}

/* The connection between the agents stalls until the window is full, then goes on: only its acks tell. */
static void test_stalled_lane(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    struct transfer forth = transfer_new(tunnel.client, tunnel.server, BIG_BYTES, 5);
    rig_pause(rig, 1);
    size_t before = sn_alloc_in_use();
    send_until_stalled(rig, &forth);
    assert_in_range(sn_alloc_in_use() - before, SN_STREAM_WINDOW_BYTES / 2,
                    SN_STREAM_WINDOW_BYTES + 8 * SN_SLAB_BYTES_MAX);
    rig_pause(rig, 0);
    run_transfers(rig, &forth, 1);
    sn_env_close(rig->env, tunnel.server);
    expect_good_end(rig, BIG_BYTES, 0);
    transfer_free(&forth);
    sn_env_close(rig->env, tunnel.client);
}

#define WAITING_TUNNELS 64u

/* A few bytes that wait for their ack do not pin the slab into which they were read. */
static void test_little_pins_little(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnels[WAITING_TUNNELS];
    for (unsigned i = 0; i < WAITING_TUNNELS; i++) {
        tunnels[i] = rig_tunnel(rig);
        (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    }
    rig_pause(rig, 1);
    size_t before = sn_alloc_in_use();
    for (unsigned i = 0; i < WAITING_TUNNELS; i++) rig_write(rig, tunnels[i].client, "hello", 5);
    for (unsigned i = 0; i < 100; i++) rig_nap();
    assert_in_range(sn_alloc_in_use() - before, WAITING_TUNNELS,
                    2 * SN_SLAB_BYTES_MAX + WAITING_TUNNELS * 1024);
    rig_pause(rig, 0);
    for (unsigned i = 0; i < WAITING_TUNNELS; i++) {
        rig_expect(rig, tunnels[i].server, "hello", 5);
        close_tunnel(rig, &tunnels[i]);
    }
    rig_quiet(rig);
}

#define IDLE_TUNNELS 1000u
#define SPARE_FILES  64u

/* Connections that moved a little and now rest hold a little memory and no slab. */
static void test_idle_pins_nothing(void **state)
{
    struct rig *rig = *state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    unsigned count = IDLE_TUNNELS;
    limit.rlim_cur = limit.rlim_max; /* of this test program only */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 4 * count + SPARE_FILES) {
        count = (unsigned)(limit.rlim_cur - SPARE_FILES) / 4;
    }
    uint16_t port = 0;
    struct sn_sock listener = rig_server(rig, &port);
    atomic_store(&rig->tunnel_port, port);
    uint16_t entrance = rig_listen(rig, NEAR);
    struct rig_tunnel *tunnels = test_calloc(count, sizeof *tunnels);
    size_t before = sn_alloc_in_use();
    for (unsigned i = 0; i < count; i++) {
        tunnels[i].client = rig_client(rig, entrance);
        tunnels[i].server = rig_accept_sock(rig, listener);
        rig_write(rig, tunnels[i].client, "hello", 5);
        rig_write(rig, tunnels[i].server, "goodbye", 7);
    }
    for (unsigned i = 0; i < count; i++) {
        rig_expect(rig, tunnels[i].server, "hello", 5);
        rig_expect(rig, tunnels[i].client, "goodbye", 7);
    }
    for (unsigned i = 0; i < 100; i++) rig_nap(); /* for the last acks */
    size_t each = (sn_alloc_in_use() - before) / count;
    assert_in_range(each, 1, 8192); /* two ends of a stream */
    for (unsigned i = 0; i < count; i++) close_tunnel(rig, &tunnels[i]);
    rig_quiet(rig);
    test_free(tunnels);
    sn_env_close(rig->env, listener);
}

/* --- Broken connections ----------------------------------------------------------------------- */

static void expect_bad_end(struct rig *rig, enum sn_err err)
{
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN).event.err, err);
    assert_int_equal(rig_wait(rig, FAR, SN_EVENT_STREAM_DOWN).event.err, err);
    rig_quiet(rig);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_DOWN), 0);
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_DOWN), 0);
}

static void test_client_resets(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    rig_write(rig, tunnel.client, "x", 1);
    rig_expect(rig, tunnel.server, "x", 1);
    sn_env_close_reset(rig->env, tunnel.client);
    assert_int_equal(rig_next(rig, tunnel.server), SN_ERESET);
    expect_bad_end(rig, SN_ERESET);
    sn_env_close(rig->env, tunnel.server);
}

static void test_server_resets(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    rig_write(rig, tunnel.client, "x", 1);
    rig_expect(rig, tunnel.server, "x", 1);
    sn_env_close_reset(rig->env, tunnel.server);
    assert_int_equal(rig_next(rig, tunnel.client), SN_ERESET);
    expect_bad_end(rig, SN_ERESET);
    sn_env_close(rig->env, tunnel.client);
}

/* The client has ended its direction and goes away altogether: only the socket's state tells. */
static void test_reset_after_end(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    sn_env_shutdown_write(rig->env, tunnel.client);
    assert_int_equal(rig_next(rig, tunnel.server), SN_ECLOSED);
    sn_env_close_reset(rig->env, tunnel.client);
    expect_bad_end(rig, SN_ERESET);
    /* To a reader the end stays an end, the writer learns it. */
    size_t put = 0;
    assert_int_equal(sn_env_write(rig->env, tunnel.server, "x", 1, &put), SN_ERESET);
    sn_env_close(rig->env, tunnel.server);
}

/* While the server does not read, the client's socket is not read either; its reset is noticed all the same. */
static void test_reset_while_stalled(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    struct transfer forth = transfer_new(tunnel.client, tunnel.server, 2 * BIG_BYTES, 5);
    send_until_stalled(rig, &forth);
    sn_env_close_reset(rig->env, tunnel.client);
    expect_bad_end(rig, SN_ERESET);
    transfer_free(&forth);
    sn_env_close(rig->env, tunnel.server);
}

/* Whatever the flow is busy with when the client resets: before, while and after the stream becomes full. */
static void test_reset_at_any_time(void **state)
{
    struct rig *rig = *state;
    for (uint64_t i = 0; i < 24; i++) {
        struct rig_tunnel tunnel = rig_tunnel(rig);
        struct transfer forth = transfer_new(tunnel.client, tunnel.server, 2 * BIG_BYTES, i);
        for (int naps = 0; naps < 50 && forth.sent < i * 3 * CHUNK_BYTES;) {
            if (send_some(rig, &forth)) continue;
            rig_nap();
            naps++;
        }
        sn_env_close_reset(rig->env, tunnel.client);
        expect_bad_end(rig, SN_ERESET);
        transfer_free(&forth);
        sn_env_close(rig->env, tunnel.server);
    }
}

static void test_actor_resets(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    uint64_t stream = rig_wait(rig, NEAR, SN_EVENT_STREAM_UP).event.stream.id;
    rig_reset(rig, NEAR, stream, SN_EDENIED);
    assert_int_equal(rig_next(rig, tunnel.client), SN_ERESET);
    assert_int_equal(rig_next(rig, tunnel.server), SN_ERESET);
    expect_bad_end(rig, SN_EDENIED);
    close_tunnel(rig, &tunnel);
}

static void test_lane_lost(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    rig_lane_down(rig);
    assert_int_equal(rig_next(rig, tunnel.client), SN_ERESET);
    assert_int_equal(rig_next(rig, tunnel.server), SN_ERESET);
    expect_bad_end(rig, SN_ERESET);
    close_tunnel(rig, &tunnel);
}

static void test_actor_fails(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    rig_break(rig, FAR);
    assert_int_equal(rig_next(rig, tunnel.client), SN_ERESET);
    assert_int_equal(rig_next(rig, tunnel.server), SN_ERESET);
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN).event.err, SN_ECANCELLED);
    rig_quiet(rig);
    close_tunnel(rig, &tunnel);
}

/* --- When this process dies ------------------------------------------------------------------- */

/* Of the flow's socket: what the kernel does with it when nobody is left to close it. */
struct left_behind {
    struct sn_sock sock;
    unsigned flow; /* 0 or 1: the peer's that has it */
    int is_reset;
};

static void look_at_socket(struct rig *rig, void *arg)
{
    struct left_behind *left = arg;
    struct linger linger = {0};
    socklen_t size = sizeof linger;
    struct sn_list *node = sn_list_first(&rig->peers[left->flow].flows);
    if (node == NULL) return;
    left->sock = SN_CONTAINER_OF(node, struct sni_flow, node)->sock;
    if (getsockopt(left->sock.id, SOL_SOCKET, SO_LINGER, &linger, &size) != 0) return;
    left->is_reset = linger.l_onoff != 0 && linger.l_linger == 0;
}

static int is_reset_when_left(struct rig *rig, unsigned flow)
{
    struct left_behind left = {.flow = flow, .is_reset = -1};
    rig_on_worker(rig, 0, look_at_socket, &left);
    return left.is_reset;
}

/* A connection left behind by a process that was killed must not look as if it had ended, unless it has. */
static void test_left_behind(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    rig_write(rig, tunnel.client, "x", 1);
    rig_expect(rig, tunnel.server, "x", 1);
    assert_int_equal(is_reset_when_left(rig, NEAR), 1);
    assert_int_equal(is_reset_when_left(rig, FAR), 1);
    sn_env_shutdown_write(rig->env, tunnel.client);
    assert_int_equal(rig_next(rig, tunnel.server), SN_ECLOSED);
    assert_int_equal(is_reset_when_left(rig, NEAR), 1); /* the client still waits for its answer */
    assert_int_equal(is_reset_when_left(rig, FAR), 0);  /* the server has everything */
    rig_write(rig, tunnel.server, "answer", 6);
    sn_env_close(rig->env, tunnel.server);
    rig_expect(rig, tunnel.client, "answer", 6);
    assert_int_equal(rig_next(rig, tunnel.client), SN_ECLOSED);
    expect_good_end(rig, 1, 6);
    sn_env_close(rig->env, tunnel.client);
}

/* --- Meters, idleness ------------------------------------------------------------------------- */

static void expect_meter(const struct sn_meter *meter, uint64_t sent, uint64_t received)
{
    uint64_t got[2] = {0};
    for (int i = 0; i < 25000; i++) {
        sn_meter_read(meter, &got[0], &got[1]);
        if (got[0] == sent && got[1] == received) break;
        rig_nap();
    }
    assert_int_equal(got[0], sent);
    assert_int_equal(got[1], received);
}

/* Bytes are counted while the stream is open, on both sides, whichever worker the owner is on. */
static void test_meter(void **state)
{
    struct rig *rig = *state;
    struct sn_meter *near = NULL, *far = NULL;
    assert_ok(sn_meter_new(&near));
    assert_ok(sn_meter_new(&far));
    struct rig_tunnel tunnel = rig_tunnel(rig);
    uint64_t stream = rig_wait(rig, NEAR, SN_EVENT_STREAM_UP).event.stream.id;
    assert_ok(rig_tune(rig, NEAR, stream, 0, near));
    stream = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED).event.stream.id;
    assert_ok(rig_tune(rig, FAR, stream, 0, near)); /* another takes its place */
    assert_ok(rig_tune(rig, FAR, stream, 0, far));
    rig_write(rig, tunnel.client, "hello", 5);
    rig_expect(rig, tunnel.server, "hello", 5);
    rig_write(rig, tunnel.server, "goodbye", 7);
    rig_expect(rig, tunnel.client, "goodbye", 7);
    expect_meter(near, 5, 7);
    expect_meter(far, 7, 5);
    struct transfer forth = transfer_new(tunnel.client, tunnel.server, BIG_BYTES / 4, 1);
    run_transfers(rig, &forth, 1);
    expect_meter(near, 5 + forth.size, 7);
    expect_meter(far, 7, 5 + forth.size);
    transfer_free(&forth);
    sn_meter_free(near); /* while a stream still holds it */
    close_tunnel(rig, &tunnel);
    expect_good_end(rig, 5 + BIG_BYTES / 4, 7);
    expect_meter(far, 7, 5 + BIG_BYTES / 4);
    sn_meter_free(far);
}

/* The stream is gone, or nobody's: no hold on the meter stays. */
static void test_meter_of_gone(void **state)
{
    struct rig *rig = *state;
    struct sn_meter *meter = NULL;
    size_t before = sn_alloc_in_use();
    assert_ok(sn_meter_new(&meter));
    assert_int_equal(rig_tune(rig, NEAR, 0, 1, meter), SN_EINVAL);
    assert_int_equal(rig_tune(rig, NEAR, UINT64_MAX, 1, meter), SN_EINVAL);
    assert_ok(rig_tune(rig, NEAR, 12345, 1, meter)); /* never was */
    assert_ok(rig_tune(rig, FAR, 12345, 1, meter));
    sn_meter_free(meter);
    for (int i = 0; i < 25000 && sn_alloc_in_use() > before; i++) rig_nap();
    assert_int_equal(sn_alloc_in_use(), before);
}

static uint64_t now_ms(struct rig *rig)
{
    return sn_env_now_ns(rig->env) / SN_MS;
}

static void expect_idle_end(struct rig *rig, struct rig_tunnel *tunnel)
{
    assert_int_equal(rig_next(rig, tunnel->client), SN_ERESET);
    assert_int_equal(rig_next(rig, tunnel->server), SN_ERESET);
    expect_bad_end(rig, SN_ETIMEDOUT);
    close_tunnel(rig, tunnel);
}

/* Bytes either way keep it alive; then silence ends it, and not before its time. */
static void test_idle_ends(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    uint64_t stream = rig_wait(rig, NEAR, SN_EVENT_STREAM_UP).event.stream.id;
    assert_ok(rig_tune(rig, NEAR, stream, 300, NULL));
    uint64_t begin = now_ms(rig);
    uint64_t last = begin;
    while (last - begin < 600) {
        struct sn_sock from = (last - begin) % 100 < 50 ? tunnel.client : tunnel.server;
        struct sn_sock to = from.id == tunnel.client.id ? tunnel.server : tunnel.client;
        last = now_ms(rig);
        rig_write(rig, from, "x", 1);
        rig_expect(rig, to, "x", 1);
        for (int i = 0; i < 50; i++) rig_nap();
    }
    expect_idle_end(rig, &tunnel);
    assert_in_range(now_ms(rig) - last, 299, 4000);
}

static void test_idle_there(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    uint64_t stream = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED).event.stream.id;
    assert_ok(rig_tune(rig, FAR, stream, 3600000, NULL));
    assert_ok(rig_tune(rig, FAR, stream, 0, NULL)); /* never, after all */
    for (int i = 0; i < 300; i++) rig_nap();
    rig_write(rig, tunnel.client, "x", 1);
    rig_expect(rig, tunnel.server, "x", 1);
    assert_ok(rig_tune(rig, FAR, stream, 30, NULL));
    expect_idle_end(rig, &tunnel);
}

/* Waiting for the acceptance is not idleness: that has a time of its own. */
static void test_idle_counts_from_acceptance(void **state)
{
    struct rig *rig = *state;
    uint64_t near = rig_open(rig, 5000, 1);
    uint64_t far = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED).event.stream.id;
    assert_ok(rig_tune(rig, NEAR, near, 20, NULL));
    assert_ok(rig_tune(rig, FAR, far, 20, NULL));
    for (int i = 0; i < 300; i++) rig_nap();
    assert_int_equal(rig_flows(rig), 2);
    rig_accept(rig, far, 2);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    expect_bad_end(rig, SN_ETIMEDOUT);
}

/* --- Early and late sockets ------------------------------------------------------------------- */

/* Spliced before there is a session: what the client sent in the meantime arrives, so does its end. */
static void test_spliced_early(void **state)
{
    struct rig *rig = *state;
    uint16_t port = 0;
    rig_lane_down(rig);
    struct sn_sock listener = rig_server(rig, &port);
    uint16_t entrance = rig_listen(rig, NEAR);
    struct sn_sock client = rig_client(rig, entrance);
    uint64_t conn = rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED).event.conn.id;
    uint64_t stream = rig_open(rig, 5000, 1);
    assert_ok(rig_splice(rig, NEAR, stream, conn));
    assert_int_equal(rig_splice(rig, NEAR, stream, conn), SN_ENOENT); /* it is taken */
    rig_write(rig, client, "early", 5);
    sn_env_shutdown_write(rig->env, client);
    atomic_store(&rig->tunnel_port, port);
    rig_lane_up(rig);
    struct sn_sock server = rig_accept_sock(rig, listener);
    rig_expect(rig, server, "early", 5);
    assert_int_equal(rig_next(rig, server), SN_ECLOSED);
    rig_write(rig, server, "answer", 6);
    sn_env_close(rig->env, server);
    rig_expect(rig, client, "answer", 6);
    assert_int_equal(rig_next(rig, client), SN_ECLOSED);
    expect_good_end(rig, 5, 6);
    sn_env_close(rig->env, client);
    sn_env_close(rig->env, listener);
}

/* A target that is accepted late: its client is held up within a window, nothing is lost. */
static void test_accepted_late(void **state)
{
    struct rig *rig = *state;
    uint16_t port = 0;
    struct sn_sock listener = rig_server(rig, &port);
    struct sn_sock client = rig_client(rig, rig_listen(rig, NEAR));
    uint64_t conn = rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED).event.conn.id;
    uint64_t stream = rig_open(rig, 5000, 1);
    size_t before = sn_alloc_in_use();
    assert_ok(rig_splice(rig, NEAR, stream, conn));
    uint64_t asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED).event.stream.id;
    struct transfer forth = transfer_new(client, SN_SOCK_NONE, BIG_BYTES, 9);
    send_until_stalled(rig, &forth);
    assert_in_range(sn_alloc_in_use() - before, 0, SN_STREAM_WINDOW_BYTES + 8 * SN_SLAB_BYTES_MAX);
    char address[32];
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_ok(rig_dial(rig, FAR, address, 5000, 1));
    conn = rig_wait(rig, FAR, SN_EVENT_CONN_DIALED).event.conn.id;
    assert_ok(rig_splice(rig, FAR, asked, conn)); /* before the acceptance: it waits for it */
    struct sn_sock server = rig_accept_sock(rig, listener);
    assert_int_equal(sn_env_wait(rig->env, server, SN_READY_READ, 20), SN_ETIMEDOUT);
    rig_accept(rig, asked, 2);
    forth.to = server;
    run_transfers(rig, &forth, 1);
    sn_env_close(rig->env, server);
    assert_int_equal(rig_next(rig, client), SN_ECLOSED);
    expect_good_end(rig, BIG_BYTES, 0);
    transfer_free(&forth);
    sn_env_close(rig->env, client);
    sn_env_close(rig->env, listener);
}

/* The stream is gone before the socket comes: its client is not left hanging. */
static void late_socket(struct rig *rig, unsigned actor)
{
    struct sn_sock client = rig_client(rig, rig_listen(rig, actor));
    uint64_t conn = rig_wait(rig, actor, SN_EVENT_CONN_ACCEPTED).event.conn.id;
    uint64_t near = rig_open(rig, 5000, 1);
    uint64_t far = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED).event.stream.id;
    rig_reset(rig, actor == NEAR ? FAR : NEAR, actor == NEAR ? far : near, SN_EUNREACHABLE);
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN).event.err, SN_EUNREACHABLE);
    assert_int_equal(rig_wait(rig, FAR, SN_EVENT_STREAM_DOWN).event.err, SN_EUNREACHABLE);
    assert_int_equal(rig_flows(rig), 0);
    assert_ok(rig_splice(rig, actor, actor == NEAR ? near : far, conn));
    assert_int_equal(rig_next(rig, client), SN_ERESET);
    rig_quiet(rig);
    sn_env_close(rig->env, client);
}

static void test_late_socket(void **state)
{
    late_socket(*state, NEAR);
    late_socket(*state, FAR);
}

/* The peer refuses a stream whose client is spliced already. */
static void test_refused_with_socket(void **state)
{
    struct rig *rig = *state;
    struct sn_sock client = rig_client(rig, rig_listen(rig, NEAR));
    uint64_t conn = rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED).event.conn.id;
    uint64_t near = rig_open(rig, 5000, 1);
    assert_ok(rig_splice(rig, NEAR, near, conn));
    uint64_t far = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED).event.stream.id;
    rig_write(rig, client, "request", 7);
    rig_reset(rig, FAR, far, SN_EUNREACHABLE);
    assert_int_equal(rig_next(rig, client), SN_ERESET);
    expect_bad_end(rig, SN_EUNREACHABLE);
    sn_env_close(rig->env, client);
}

/* No session comes: the client is told by a reset when the time is over. */
static void test_timeout_with_socket(void **state)
{
    struct rig *rig = *state;
    rig_lane_down(rig);
    struct sn_sock client = rig_client(rig, rig_listen(rig, NEAR));
    uint64_t conn = rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED).event.conn.id;
    uint64_t near = rig_open(rig, 50, 1);
    assert_ok(rig_splice(rig, NEAR, near, conn));
    assert_int_equal(rig_next(rig, client), SN_ERESET);
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN).event.err, SN_ETIMEDOUT);
    rig_quiet(rig);
    sn_env_close(rig->env, client);
}

/* A second socket for one stream is refused, the first one goes on. */
static void test_spliced_twice(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    uint64_t near = rig_wait(rig, NEAR, SN_EVENT_STREAM_UP).event.stream.id;
    atomic_store(&rig->tunnel_port, 0);
    (void)rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED);
    struct sn_sock client = rig_client(rig, rig_listen(rig, NEAR));
    uint64_t conn = rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED).event.conn.id;
    assert_ok(rig_splice(rig, NEAR, near, conn));
    assert_int_equal(rig_next(rig, client), SN_ERESET);
    rig_write(rig, tunnel.client, "x", 1);
    rig_expect(rig, tunnel.server, "x", 1);
    sn_env_close(rig->env, client);
    close_tunnel(rig, &tunnel);
    rig_quiet(rig);
}

/* Whatever is open when the net is freed goes with it. */
static void test_freed_while_open(void **state)
{
    struct rig *rig = *state;
    struct rig_tunnel tunnel = rig_tunnel(rig);
    struct transfer forth = transfer_new(tunnel.client, tunnel.server, BIG_BYTES, 5);
    for (int i = 0; i < 200; i++) {
        if (!send_some(rig, &forth)) rig_nap();
    }
    transfer_free(&forth);
    close_tunnel(rig, &tunnel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_client_ends_first),
        TEST(test_server_ends_first),
        TEST(test_both_at_once),
        TEST(test_server_closes),
        TEST(test_nothing_sent),
        TEST(test_stalled_reader),
        TEST(test_stalled_lane),
        TEST(test_little_pins_little),
        TEST(test_idle_pins_nothing),
        TEST(test_client_resets),
        TEST(test_server_resets),
        TEST(test_reset_after_end),
        TEST(test_reset_while_stalled),
        TEST(test_actor_resets),
        TEST(test_lane_lost),
        TEST(test_actor_fails),
        TEST(test_spliced_early),
        TEST(test_accepted_late),
        TEST(test_late_socket),
        TEST(test_refused_with_socket),
        TEST(test_timeout_with_socket),
        TEST(test_spliced_twice),
        TEST(test_freed_while_open),
        TEST(test_left_behind),
        TEST(test_meter),
        TEST(test_meter_of_gone),
        TEST(test_idle_ends),
        TEST(test_idle_there),
        TEST(test_idle_counts_from_acceptance),
        TEST(test_reset_at_any_time),
    };
    return cmocka_run_group_tests_name("peer/splice", tests, NULL, NULL);
}
