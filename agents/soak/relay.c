/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each step moves what can be moved until sockets say EAGAIN, so that edge-triggered readiness is never lost; what a
 * step leaves for later has a time. Guarantees: bounded connections and memory; bytes pass once, in order; an end in
 * one direction is passed on behind the last byte, a reset at once.
 */
#include "agents/soak/relay.h"

#include "base/alloc.h"
#include "base/assert.h"

#define CHUNK_BYTES 16384u
#define STEP_CHUNKS 64u /* of one direction, then it is another's turn */
#define NS_PER_S    1000000000u
#define PACE_NS     5000000u  /* between two portions of a limited direction */
#define BURST_NS    50000000u /* what a direction that was quiet may catch up with */

/* One side of a connection, and the bytes that come from there. */
struct side {
    struct sn_watch watch; /* its sock: the side's, SN_SOCK_NONE when closed */
    uint64_t paced_ns;     /* up to when bytes were granted */
    uint32_t begin, end;   /* of what waits in `bytes` */
    uint8_t is_ended;      /* nothing more comes from here */
    uint8_t is_told;       /* and the other side knows */
    uint8_t bytes[CHUNK_BYTES];
};

struct pair {
    struct side sides[2]; /* near, far */
    uint8_t is_used;
    uint8_t is_connecting; /* the far side */
    uint8_t is_half;       /* one side was closed by us: the other leads nowhere */
};

struct sn_relay {
    struct sn_env *env;
    struct sn_loop *loop;
    struct sn_watch listener;
    struct sn_relay_config config;
    uint8_t next_side;
    uint8_t is_cut_asked;
    uint64_t again_ns; /* when this step's rest is due */
    struct pair pairs[SN_RELAY_PAIRS_MAX];
};

static void note_ready(struct sn_watch *watch, unsigned ready)
{
    (void)watch; /* the step looks at all */
    (void)ready;
}

static void close_side(struct sn_relay *relay, struct side *side, int is_reset)
{
    struct sn_sock sock = side->watch.sock;
    if (!sn_sock_is_open(sock)) return;
    sn_env_unwatch(relay->env, relay->loop, &side->watch);
    if (is_reset) {
        sn_env_close_reset(relay->env, sock);
    } else {
        sn_env_close(relay->env, sock);
    }
}

static void close_pair(struct sn_relay *relay, struct pair *pair, int is_reset)
{
    for (unsigned i = 0; i < 2; i++) close_side(relay, &pair->sides[i], is_reset);
    pair->is_used = 0;
}

/* --- Accepting ------------------------------------------------------------------------------------------------ */

static struct pair *find_free(struct sn_relay *relay)
{
    for (unsigned i = 0; i < SN_RELAY_PAIRS_MAX; i++) {
        if (!relay->pairs[i].is_used) return &relay->pairs[i];
    }
    return NULL;
}

static enum sn_err watch_side(struct sn_relay *relay, struct side *side, struct sn_sock sock)
{
    *side =
        (struct side){.watch = {note_ready, SN_SOCK_NONE}, .paced_ns = sn_env_now_ns(relay->env)};
    enum sn_err err = sn_env_watch(relay->env, relay->loop, &side->watch, sock);
    if (err != SN_OK) sn_env_close_reset(relay->env, sock);
    return err;
}

static void begin_pair(struct sn_relay *relay, struct pair *pair, struct sn_sock near)
{
    struct sn_netaddr target = {
        .family = SN_NETADDR_IP4, .port = relay->config.to_port, .ip = {127, 0, 0, 1}};
    struct sn_sock far = SN_SOCK_NONE;
    pair->is_used = 1;
    pair->is_connecting = 1;
    pair->is_half = 0;
    pair->sides[SN_RELAY_FAR].watch.sock = SN_SOCK_NONE;
    enum sn_err err = watch_side(relay, &pair->sides[SN_RELAY_NEAR], near);
    if (err == SN_OK) err = sn_env_connect(relay->env, &target, &far);
    if (err == SN_OK) err = watch_side(relay, &pair->sides[SN_RELAY_FAR], far);
    if (err != SN_OK) close_pair(relay, pair, 1);
}

static void accept_all(struct sn_relay *relay)
{
    struct sn_sock sock;
    while (sn_env_accept(relay->env, relay->listener.sock, &sock, NULL) == SN_OK) {
        struct pair *pair = find_free(relay);
        if (pair == NULL) {
            sn_env_close_reset(relay->env, sock);
        } else {
            begin_pair(relay, pair, sock);
        }
    }
}

/* --- Moving --------------------------------------------------------------------------------------------------- */

static void come_back(struct sn_relay *relay, uint64_t at_ns)
{
    if (at_ns < relay->again_ns) relay->again_ns = at_ns;
}

/* How much may be read now; 0 = later. */
static uint32_t grant(struct sn_relay *relay, struct side *side, uint64_t now_ns)
{
    if (relay->config.kib == 0) return CHUNK_BYTES;
    if (side->paced_ns + BURST_NS < now_ns) side->paced_ns = now_ns - BURST_NS;
    if (side->paced_ns >= now_ns) {
        come_back(relay, now_ns + PACE_NS);
        return 0;
    }
    return CHUNK_BYTES;
}

static void charge(const struct sn_relay *relay, struct side *side, uint32_t bytes)
{
    if (relay->config.kib == 0) return;
    side->paced_ns += (uint64_t)bytes * NS_PER_S / ((uint64_t)relay->config.kib * 1024);
}

/* Takes the next bytes from a side whose last ones are gone. Errors: EAGAIN (nothing now), as sn_env_read. */
static enum sn_err take(struct sn_relay *relay, struct side *from, uint64_t now_ns)
{
    size_t size = 0;
    uint32_t room = grant(relay, from, now_ns);
    if (room == 0) return SN_EAGAIN;
    enum sn_err err = sn_env_read(relay->env, from->watch.sock, from->bytes, room, &size);
    if (err == SN_ECLOSED) from->is_ended = 1;
    if (err != SN_OK) return err == SN_ECLOSED ? SN_OK : err;
    from->begin = 0;
    from->end = (uint32_t)size;
    charge(relay, from, from->end);
    return SN_OK;
}

static enum sn_err give(struct sn_relay *relay, struct side *from, struct side *to)
{
    size_t size = 0;
    enum sn_err err = sn_env_write(relay->env, to->watch.sock, from->bytes + from->begin,
                                   from->end - from->begin, &size);
    if (err == SN_OK) from->begin += (uint32_t)size;
    return err;
}

/* One direction. Errors: the pair is broken. */
static enum sn_err move(struct sn_relay *relay, struct side *from, struct side *to, uint64_t now_ns)
{
    for (unsigned i = 0; i < STEP_CHUNKS && !from->is_told; i++) {
        enum sn_err err = SN_OK;
        if (from->begin < from->end) {
            err = give(relay, from, to);
        } else if (!from->is_ended) {
            err = take(relay, from, now_ns);
        } else {
            sn_env_shutdown_write(relay->env, to->watch.sock);
            from->is_told = 1;
        }
        if (err != SN_OK) return err == SN_EAGAIN ? SN_OK : err;
    }
    if (!from->is_told) come_back(relay, now_ns);
    return SN_OK;
}

/* What is left of a connection of which we closed one side: takes everything, until it is closed, too. */
static void drain(struct sn_relay *relay, struct pair *pair, uint64_t now_ns)
{
    struct side *side = &pair->sides[sn_sock_is_open(pair->sides[0].watch.sock) ? 0 : 1];
    for (unsigned i = 0; i < STEP_CHUNKS; i++) {
        size_t size = 0;
        enum sn_err err =
            sn_env_read(relay->env, side->watch.sock, side->bytes, CHUNK_BYTES, &size);
        if (err == SN_EAGAIN) return;
        if (err != SN_OK) {
            close_pair(relay, pair, 0);
            return;
        }
    }
    come_back(relay, now_ns);
}

static void move_pair(struct sn_relay *relay, struct pair *pair, uint64_t now_ns)
{
    struct side *near = &pair->sides[SN_RELAY_NEAR];
    struct side *far = &pair->sides[SN_RELAY_FAR];
    enum sn_err err = SN_OK;
    if (pair->is_half) {
        drain(relay, pair, now_ns);
        return;
    }
    if (pair->is_connecting) {
        err = sn_env_connect_result(relay->env, far->watch.sock);
        if (err == SN_EAGAIN) return;
        pair->is_connecting = 0;
    }
    if (err == SN_OK) err = move(relay, near, far, now_ns);
    if (err == SN_OK) err = move(relay, far, near, now_ns);
    if (err != SN_OK || (near->is_told && far->is_told)) close_pair(relay, pair, err != SN_OK);
}

/* --- Cutting --------------------------------------------------------------------------------------------------- */

static void cut(struct sn_relay *relay)
{
    unsigned side = relay->next_side;
    relay->next_side = (uint8_t)!side;
    for (unsigned i = 0; i < SN_RELAY_PAIRS_MAX; i++) {
        struct pair *pair = &relay->pairs[i];
        if (!pair->is_used || pair->is_half) continue;
        if (pair->is_connecting) {
            close_pair(relay, pair, 1); /* it has no other side yet */
        } else {
            close_side(relay, &pair->sides[side], 0);
            pair->is_half = 1;
        }
    }
}

static void on_request(void *arg, enum sn_env_request request)
{
    struct sn_relay *relay = arg;
    if (request == SN_REQUEST_TERMINATE) {
        sn_env_unpark(relay->env);
    } else {
        relay->is_cut_asked = 1;
    }
}

static uint64_t step(void *arg, uint64_t now_ns)
{
    struct sn_relay *relay = arg;
    relay->again_ns = UINT64_MAX;
    accept_all(relay);
    if (relay->is_cut_asked) cut(relay);
    relay->is_cut_asked = 0;
    for (unsigned i = 0; i < SN_RELAY_PAIRS_MAX; i++) {
        if (relay->pairs[i].is_used) move_pair(relay, &relay->pairs[i], now_ns);
    }
    return relay->again_ns;
}

/* --- Life ------------------------------------------------------------------------------------------------------- */

static enum sn_err listen_here(struct sn_relay *relay)
{
    struct sn_netaddr addr = {
        .family = SN_NETADDR_IP4, .port = relay->config.port, .ip = {127, 0, 0, 1}};
    struct sn_netaddr bound;
    struct sn_sock sock;
    enum sn_err err = sn_env_listen(relay->env, &addr, &sock, &bound);
    if (err != SN_OK) return err;
    err = sn_env_watch(relay->env, relay->loop, &relay->listener, sock);
    if (err != SN_OK) sn_env_close(relay->env, sock);
    return err;
}

enum sn_err sn_relay_new(struct sn_env *env, const struct sn_relay_config *config,
                         struct sn_relay **out_relay)
{
    SN_ASSERT(config->first_side <= SN_RELAY_FAR);
    struct sn_relay *relay = sn_alloc(sizeof *relay);
    if (relay == NULL) return SN_ENOMEM;
    relay->env = env;
    relay->config = *config;
    relay->next_side = config->first_side;
    relay->listener = (struct sn_watch){note_ready, SN_SOCK_NONE};
    enum sn_err err = sn_env_loop_new(env, "relay", step, relay, &relay->loop);
    if (err == SN_OK) err = sn_env_on_request(env, relay->loop, on_request, relay);
    if (err == SN_OK) err = listen_here(relay);
    if (err == SN_OK) err = sn_env_loop_start(env, relay->loop);
    if (err != SN_OK) {
        sn_relay_free(relay);
        return err;
    }
    *out_relay = relay;
    return SN_OK;
}

void sn_relay_free(struct sn_relay *relay)
{
    if (relay == NULL) return;
    if (relay->loop != NULL) sn_env_loop_stop(relay->env, relay->loop);
    for (unsigned i = 0; i < SN_RELAY_PAIRS_MAX; i++) {
        if (relay->pairs[i].is_used) close_pair(relay, &relay->pairs[i], 1);
    }
    struct sn_sock sock = relay->listener.sock;
    if (sn_sock_is_open(sock)) {
        sn_env_unwatch(relay->env, relay->loop, &relay->listener);
        sn_env_close(relay->env, sock);
    }
    sn_env_loop_free(relay->env, relay->loop);
    sn_free(relay, sizeof *relay);
}
