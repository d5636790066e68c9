/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: nothing but HELLO, AUTH, READY and REFUSE is taken before both sides are ready, each once and in that
 * order; a channel that gets no answer to its heartbeats within the deadline goes down, but only after everything
 * that had arrived was read and only when this worker itself was not late.
 */
#include "peer/channel.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "peer/framer.h"

#define CHANNEL_MAGIC SN_MAGIC('C', 'H', 'A', 'N')
#define CONTROL_SLAB  (64u * 1024u)
#define DRAIN_ROUNDS_MAX                                                                           \
    16u /* before a peer is judged; one that floods is judged at the next tick */
#define ROUND_BYTES (256u * 1024u)

enum state { OPENING, GREETING, PROVING, PROVEN, UP, CLOSING, DOWN };

struct sn_channel {
    uint32_t magic;
    enum state state;
    const struct sn_self *self;
    struct sn_worker *worker;
    const struct sn_channel_ops *ops;
    void *user;
    struct sn_lane *lane;
    struct sn_framer framer;
    struct sn_io writer; /* no socket: runs when there is something to write */
    struct sn_timer timer;
    struct sn_hello hello; /* the other side's */
    uint8_t own_digest[SN_DIGEST_BYTES];
    uint8_t other_digest[SN_DIGEST_BYTES];
    uint32_t lane_index;
    uint64_t session;
    uint8_t is_dialer;
    uint8_t was_accepted; /* READY sent */
    uint8_t got_ready;
    uint8_t is_refusing;
    uint8_t got_goodbye;
    enum sn_err got_refusal; /* its reason; SN_OK = none */
    uint8_t in_input;        /* inside the framer: freeing waits */
    uint8_t is_freed;
    uint64_t since_ns;
    uint64_t ping_ns; /* when the unanswered ping was sent; 0 = none */
    uint64_t ping_nonce;
    uint64_t heard_bytes;  /* what had been received at the last heartbeat */
    uint64_t heard_ns;     /* when more was seen to have arrived */
    uint64_t timer_due_ns; /* when the heartbeat timer ought to fire, to notice that we were late */
    uint64_t rtt_ns;
    struct sn_lane_failure failure;
};

static enum sn_err on_frame(void *user, const struct sn_frame *frame, const uint8_t *payload);
static void on_timer(struct sn_timer *timer, struct sn_worker *worker);
static void on_write(struct sn_io *io, unsigned ready);
static void on_opened(void *user, struct sn_lane *lane);
static void on_readable(void *user, struct sn_lane *lane);
static void on_writable(void *user, struct sn_lane *lane);
static void on_failed(void *user, struct sn_lane *lane, const struct sn_lane_failure *failure);

static const struct sn_lane_ops lane_ops = {on_opened, on_readable, on_writable, on_failed};

/* --- Construction --------------------------------------------------------------------------------- */

static enum sn_err new_channel(const struct sn_channel_config *config, struct sn_channel **out)
{
    struct sn_channel *channel = sn_alloc(sizeof *channel);
    if (channel == NULL) return SN_ENOMEM;
    channel->magic = CHANNEL_MAGIC;
    channel->self = config->self;
    channel->worker = config->worker;
    channel->ops = config->ops;
    channel->user = config->user;
    channel->lane_index = config->lane_index;
    channel->session = config->session;
    channel->since_ns = sn_worker_now(config->worker);
    sn_timer_init(&channel->timer, on_timer);
    *out = channel;
    return SN_OK;
}

static void destroy(struct sn_channel *channel)
{
    sn_timer_stop(channel->worker, &channel->timer);
    sn_io_close(&channel->writer);
    sn_framer_fini(&channel->framer);
    if (channel->lane != NULL) sn_lane_free(channel->lane);
    channel->magic = 0;
    sn_free(channel, sizeof *channel);
}

/* The lane is there, open or not: gives it a framer and a writer. */
static enum sn_err equip(struct sn_channel *channel, struct sn_lane *lane)
{
    uint32_t slab_bytes = channel->lane_index == 0 ? CONTROL_SLAB : SN_SLAB_BYTES_MAX;
    enum sn_io_priority priority = channel->lane_index == 0 ? SN_IO_URGENT : SN_IO_BULK;
    enum sn_err err = sn_framer_init(&channel->framer, lane, slab_bytes, on_frame, channel);
    if (err != SN_OK) return err;
    sn_io_init(&channel->writer, priority, on_write);
    return sn_io_open(&channel->writer, channel->worker, SN_SOCK_NONE);
}

static void start_clock(struct sn_channel *channel)
{
    sn_timer_start(channel->worker, &channel->timer,
                   sn_worker_now(channel->worker) + channel->self->handshake_timeout_ms * SN_MS);
}

enum sn_err sn_channel_adopt(const struct sn_channel_config *config, struct sn_lane *lane,
                             struct sn_channel **out_channel)
{
    struct sn_channel *channel = NULL;
    SN_ASSERT(lane->is_open);
    enum sn_err err = new_channel(config, &channel);
    if (err != SN_OK) return err;
    err = equip(channel, lane);
    if (err != SN_OK) {
        destroy(channel);
        return err;
    }
    channel->lane = lane;
    start_clock(channel);
    sn_lane_set_user(lane, &lane_ops, channel);
    *out_channel = channel;
    on_opened(channel, lane);
    return SN_OK;
}

enum sn_err sn_channel_dial(const struct sn_channel_config *config, struct sn_carrier *carrier,
                            const struct sn_dial *dial, struct sn_channel **out_channel)
{
    struct sn_channel *channel = NULL;
    enum sn_err err = new_channel(config, &channel);
    if (err != SN_OK) return err;
    channel->is_dialer = 1;
    err = sn_carrier_dial(carrier, channel->worker, dial, &lane_ops, channel, &channel->lane);
    if (err == SN_OK) err = equip(channel, channel->lane);
    if (err != SN_OK) {
        destroy(channel);
        return err;
    }
    if (channel->lane_index > 0) sn_lane_set_priority(channel->lane, SN_IO_BULK);
    start_clock(channel);
    *out_channel = channel;
    return SN_OK;
}

void sn_channel_free(struct sn_channel *channel)
{
    if (channel == NULL) return;
    SN_ASSERT(channel->magic == CHANNEL_MAGIC);
    channel->state = DOWN;
    channel->framer.mux = NULL;
    channel->is_freed = 1;
    if (!channel->in_input) destroy(channel);
}

/* --- Going down ------------------------------------------------------------------------------------- */

static void go_down(struct sn_channel *channel, const struct sn_lane_failure *failure)
{
    if (channel->state == DOWN) return;
    channel->state = DOWN;
    channel->framer.mux = NULL; /* the owner may free it in `down` */
    sn_timer_stop(channel->worker, &channel->timer);
    channel->ops->down(channel->user, channel, failure);
}

static void fail(struct sn_channel *channel, enum sn_err err, const char *detail)
{
    struct sn_lane_failure failure = {.err = err, .was_open = 1, .has_key = 1};
    failure.refused_err = channel->got_refusal;
    failure.key = channel->lane->peer.id;
    failure.remote = channel->lane->remote;
    failure.is_refusal = channel->is_refusing;
    failure.is_goodbye = channel->got_goodbye;
    memcpy(failure.agent, channel->lane->peer.agent, sizeof failure.agent);
    (void)snprintf(failure.detail, sizeof failure.detail, "%s", detail); /* cut is fine */
    if (channel->failure.err != SN_OK) failure = channel->failure;       /* the first cause */
    go_down(channel, &failure);
}

static void on_failed(void *user, struct sn_lane *lane, const struct sn_lane_failure *failure)
{
    struct sn_channel *channel = user;
    (void)lane; /* the channel's own */
    struct sn_lane_failure told = *failure;
    if (channel->failure.err != SN_OK) told = channel->failure; /* we know better why */
    go_down(channel, &told);
}

/* --- Writing ------------------------------------------------------------------------------------------ */

void sn_channel_kick(struct sn_channel *channel)
{
    if (channel->writer.is_open) sn_io_kick(&channel->writer);
}

static void on_write(struct sn_io *io, unsigned ready)
{
    struct sn_channel *channel = SN_CONTAINER_OF(io, struct sn_channel, writer);
    (void)ready; /* no socket */
    if (channel->state == DOWN || channel->state == OPENING) return;
    enum sn_err err = sn_framer_write(&channel->framer, ROUND_BYTES);
    if (err == SN_EAGAIN) return; /* `writable` comes */
    if (err != SN_OK) {
        fail(channel, err, "writing failed");
        return;
    }
    if (sn_framer_has_output(&channel->framer)) {
        sn_io_kick(io);
    } else if (channel->state == CLOSING) {
        sn_lane_close(channel->lane);
    }
}

static void on_writable(void *user, struct sn_lane *lane)
{
    (void)lane; /* the channel's own */
    sn_channel_kick(user);
}

static void send(struct sn_channel *channel, enum sn_frame_type type, const void *payload,
                 uint32_t size)
{
    if (channel->state == DOWN) return;
    /* The room for session frames is far above what a handshake and one ping need: a peer that makes it full asks
     * for more pongs than it reads, and loses some. */
    if (sn_framer_send(&channel->framer, type, payload, size) == SN_OK) sn_channel_kick(channel);
}

/* --- Handshake ------------------------------------------------------------------------------------------ */

static void on_opened(void *user, struct sn_lane *lane)
{
    struct sn_channel *channel = user;
    uint8_t bytes[640];
    size_t size = 0;
    struct sn_hello hello = {.version = SN_PROTOCOL_VERSION,
                             .id = sn_key_id(channel->self->key),
                             .epoch = channel->self->epoch,
                             .lane = channel->lane_index,
                             .session = channel->is_dialer ? channel->session : 0,
                             .wall_ms = sn_env_wall_ms(channel->self->env)};
    SN_ASSERT(lane == channel->lane);
    channel->state = GREETING;
    sn_env_random(channel->self->env, hello.nonce, sizeof hello.nonce);
    sn_boot_key_public(channel->self->boot_key, hello.boot_public);
    enum sn_err err = sn_text_copy(hello.mesh, sizeof hello.mesh, channel->self->mesh,
                                   strlen(channel->self->mesh));
    if (err == SN_OK) {
        err = sn_text_copy(hello.agent, sizeof hello.agent, channel->self->agent,
                           strlen(channel->self->agent));
    }
    if (err == SN_OK) err = sn_hello_encode(&hello, bytes, sizeof bytes, &size);
    SN_ASSERT(err == SN_OK); /* names were checked with the configuration */
    sn_sha256(bytes, size, channel->own_digest);
    send(channel, SN_FRAME_HELLO, bytes, (uint32_t)size);
}

static enum sn_err refuse(struct sn_channel *channel, enum sn_err reason, const char *text)
{
    struct sn_refusal refusal = {.reason = reason};
    (void)snprintf(refusal.text, sizeof refusal.text, "%s", text); /* cut is fine */
    sn_channel_refuse(channel, &refusal);
    return SN_OK;
}

static enum sn_err take_hello(struct sn_channel *channel, const uint8_t *payload, uint32_t size)
{
    const struct sn_lane_peer *peer = &channel->lane->peer;
    struct sn_hello hello = {0};
    uint8_t signature[SN_SIGNATURE_BYTES];
    struct sn_auth_input input = {.is_dialer = channel->is_dialer};
    if (channel->state != GREETING) return SN_EPROTO;
    enum sn_err err = sn_hello_decode(payload, size, &hello);
    if (err == SN_EVERSION) return refuse(channel, err, "this agent speaks protocol version 1");
    if (err != SN_OK) return SN_EPROTO;
    if (strcmp(hello.mesh, channel->self->mesh) != 0) {
        return refuse(channel, SN_EMISMATCH, "another mesh");
    }
    if (!sn_key_id_is_equal(&hello.id, &peer->id) || strcmp(hello.agent, peer->agent) != 0) {
        return refuse(channel, SN_EMISMATCH, "HELLO and certificate name different agents");
    }
    if (channel->is_dialer) {
        if (hello.lane != 0 || hello.session != 0) return SN_EPROTO;
    } else {
        if (hello.lane >= SN_LANES_MAX || hello.session == 0) return SN_EPROTO;
        channel->lane_index = hello.lane;
        channel->session = hello.session;
        if (hello.lane > 0) {
            channel->framer.slab_bytes = SN_SLAB_BYTES_MAX;
            channel->writer.priority = SN_IO_BULK;
            sn_lane_set_priority(channel->lane, SN_IO_BULK);
        }
    }
    channel->hello = hello;
    sn_sha256(payload, size, channel->other_digest);
    memcpy(input.signer_hello, channel->own_digest, SN_DIGEST_BYTES);
    memcpy(input.other_hello, channel->other_digest, SN_DIGEST_BYTES);
    err = sn_lane_exporter(channel->lane, input.exporter);
    if (err == SN_OK) err = sn_auth_sign(channel->self->key, &input, signature);
    if (err != SN_OK) return err;
    channel->state = PROVING;
    send(channel, SN_FRAME_AUTH, signature, sizeof signature);
    return SN_OK;
}

static enum sn_err take_auth(struct sn_channel *channel, const uint8_t *payload, uint32_t size)
{
    struct sn_auth_input input = {.is_dialer = !channel->is_dialer};
    if (channel->state != PROVING || size != SN_SIGNATURE_BYTES) return SN_EPROTO;
    memcpy(input.signer_hello, channel->other_digest, SN_DIGEST_BYTES);
    memcpy(input.other_hello, channel->own_digest, SN_DIGEST_BYTES);
    enum sn_err err = sn_lane_exporter(channel->lane, input.exporter);
    if (err != SN_OK) return err;
    err = sn_auth_verify(&channel->lane->peer.id, &input, payload);
    if (err != SN_OK) return refuse(channel, SN_EAUTH, "the handshake signature does not verify");
    channel->state = PROVEN;
    channel->ops->proven(channel->user, channel);
    return SN_OK;
}

static void become_up(struct sn_channel *channel)
{
    if (!channel->was_accepted || !channel->got_ready || channel->state != PROVEN) return;
    channel->state = UP;
    uint64_t now = sn_worker_now(channel->worker);
    channel->timer_due_ns = now + channel->self->heartbeat_interval_ms * SN_MS;
    sn_timer_start(channel->worker, &channel->timer, channel->timer_due_ns);
    sn_channel_probe(channel);
    channel->ops->up(channel->user, channel);
}

void sn_channel_accept(struct sn_channel *channel)
{
    if (channel->state != PROVEN || channel->was_accepted) return;
    channel->was_accepted = 1;
    send(channel, SN_FRAME_READY, NULL, 0);
    become_up(channel);
}

void sn_channel_refuse(struct sn_channel *channel, const struct sn_refusal *refusal)
{
    uint8_t bytes[256];
    size_t size = 0;
    if (channel->state == DOWN || channel->state == CLOSING) return;
    uint8_t is_refusal = refusal->reason != SN_ECANCELLED;
    channel->is_refusing = is_refusal;
    channel->failure = (struct sn_lane_failure){.err = refusal->reason,
                                                .is_refusal = is_refusal,
                                                .was_open = 1,
                                                .has_key = 1,
                                                .key = channel->lane->peer.id,
                                                .remote = channel->lane->remote};
    memcpy(channel->failure.agent, channel->lane->peer.agent, sizeof channel->failure.agent);
    memcpy(channel->failure.detail, refusal->text, sizeof channel->failure.detail);
    if (sn_refusal_encode(refusal, bytes, sizeof bytes, &size) == SN_OK) {
        send(channel, SN_FRAME_REFUSE, bytes, (uint32_t)size);
    }
    channel->state = CLOSING;
    sn_channel_kick(channel);
}

void sn_channel_goodbye(struct sn_channel *channel)
{
    if (channel->state == DOWN || channel->state == CLOSING || channel->state == OPENING) return;
    send(channel, SN_FRAME_GOODBYE, NULL, 0);
    channel->state = CLOSING;
    sn_channel_kick(channel);
}

void sn_channel_abort(struct sn_channel *channel, enum sn_err err, const char *detail)
{
    SN_ASSERT(channel->magic == CHANNEL_MAGIC);
    SN_ASSERT(channel->state != UP && channel->state != OPENING);
    fail(channel, err, detail);
}

static enum sn_err take_refusal(struct sn_channel *channel, const uint8_t *payload, uint32_t size)
{
    struct sn_refusal refusal;
    enum sn_err err = sn_refusal_decode(payload, size, &refusal);
    if (err != SN_OK) return SN_EPROTO;
    char text[sizeof channel->failure.detail];
    if (refusal.need_epoch > 0) {
        (void)snprintf(text, sizeof text, "refused by the peer: need epoch > %llu",
                       (unsigned long long)refusal.need_epoch);
    } else {
        (void)snprintf(text, sizeof text, "refused by the peer: %.90s", refusal.text);
    }
    for (char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20) *at = '?';
    }
    if (refusal.reason != SN_ECANCELLED)
        channel->got_refusal = refusal.reason; /* else nobody did wrong */
    fail(channel, refusal.reason, text);
    return SN_OK;
}

/* --- Frames -------------------------------------------------------------------------------------------------- */

static enum sn_err take_pong(struct sn_channel *channel, const uint8_t *payload, uint32_t size)
{
    if (size != sizeof channel->ping_nonce) return SN_EPROTO;
    if (channel->ping_ns == 0 || memcmp(payload, &channel->ping_nonce, size) != 0) return SN_OK;
    channel->rtt_ns = sn_worker_refresh_now(channel->worker) - channel->ping_ns;
    channel->ping_ns = 0;
    channel->ops->answered(channel->user, channel, channel->rtt_ns);
    return SN_OK;
}

static enum sn_err on_frame(void *user, const struct sn_frame *frame, const uint8_t *payload)
{
    struct sn_channel *channel = user;
    if (channel->state == DOWN || channel->state == CLOSING) return SN_OK;
    switch (frame->type) {
    case SN_FRAME_HELLO: return take_hello(channel, payload, frame->size);
    case SN_FRAME_AUTH: return take_auth(channel, payload, frame->size);
    case SN_FRAME_REFUSE: return take_refusal(channel, payload, frame->size);
    case SN_FRAME_READY:
        /* The other side may be ready before we have decided, but not before it saw our AUTH. */
        if (channel->state != PROVEN || channel->got_ready || frame->size != 0) return SN_EPROTO;
        channel->got_ready = 1;
        become_up(channel);
        return SN_OK;
    case SN_FRAME_PING:
        if (channel->state != UP || frame->size != 8) return SN_EPROTO;
        send(channel, SN_FRAME_PONG, payload, frame->size);
        return SN_OK;
    case SN_FRAME_PONG:
        return channel->state == UP ? take_pong(channel, payload, frame->size) : SN_EPROTO;
    case SN_FRAME_GOODBYE:
        channel->got_goodbye = 1;
        fail(channel, SN_ECLOSED, "the peer said goodbye");
        return SN_OK;
    default: return SN_EPROTO;
    }
}

/* Reads a round; returns what the framer said. *out_gone: the channel went down, or was freed by a callback, and must
 * not be touched any more. */
static enum sn_err read_round(struct sn_channel *channel, int *out_gone)
{
    channel->in_input = 1;
    enum sn_err err = sn_framer_read(&channel->framer, ROUND_BYTES);
    channel->in_input = 0;
    *out_gone = channel->state == DOWN;
    if (channel->is_freed) destroy(channel);
    return err;
}

static void on_readable(void *user, struct sn_lane *lane)
{
    struct sn_channel *channel = user;
    if (channel->state == DOWN) return;
    int is_gone = 0;
    enum sn_err err = read_round(channel, &is_gone);
    if (is_gone) return;
    if (err == SN_OK) sn_lane_resume_read(lane);
    if (err != SN_OK && err != SN_EAGAIN) {
        fail(channel, err, "the peer broke the protocol");
        return;
    }
    if (channel->state == UP) channel->ops->input_done(channel->user, channel);
}

/* --- Heartbeats ------------------------------------------------------------------------------------------------ */

void sn_channel_probe(struct sn_channel *channel)
{
    if (channel->state != UP || channel->ping_ns != 0) return;
    sn_env_random(channel->self->env, &channel->ping_nonce, sizeof channel->ping_nonce);
    channel->ping_ns = sn_worker_refresh_now(channel->worker);
    send(channel, SN_FRAME_PING, &channel->ping_nonce, sizeof channel->ping_nonce);
}

/* A slow peer, or one behind a full queue, is not silent: something arrives. */
static void listen_for(struct sn_channel *channel, uint64_t now)
{
    if (channel->lane->received_bytes == channel->heard_bytes) return;
    channel->heard_bytes = channel->lane->received_bytes;
    channel->heard_ns = now;
}

int sn_channel_is_silent(const struct sn_channel *channel)
{
    uint64_t now = sn_worker_now(channel->worker);
    if (channel->ping_ns == 0 || now - channel->ping_ns < SN_CHANNEL_SILENT_NS) return 0;
    return now - channel->heard_ns >= SN_CHANNEL_SILENT_NS;
}

static void on_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sn_channel *channel = SN_CONTAINER_OF(timer, struct sn_channel, timer);
    uint64_t interval_ns = channel->self->heartbeat_interval_ms * SN_MS;
    uint64_t deadline_ns = channel->self->heartbeat_deadline_ms * SN_MS;
    uint64_t now = sn_worker_refresh_now(worker);
    if (channel->state != UP) {
        if (channel->state == CLOSING) {
            fail(channel, SN_ECLOSED, "closed");
        } else {
            fail(channel, SN_ETIMEDOUT, "the handshake took too long");
        }
        return;
    }
    int64_t not_after_s = channel->lane->peer.cert.not_after_s; /* 0: a pin vouches */
    if (not_after_s != 0 && sn_env_wall_ms(channel->self->env) / 1000 > not_after_s) {
        fail(channel, SN_EEXPIRED, "the peer's certificate has expired during the session");
        return;
    }
    int was_late = now - channel->timer_due_ns > interval_ns / 2;
    channel->timer_due_ns = now + interval_ns;
    sn_timer_start(worker, timer, channel->timer_due_ns);
    listen_for(channel, now);
    if (channel->ping_ns == 0) {
        sn_channel_probe(channel);
        return;
    }
    if (now - channel->ping_ns < deadline_ns || was_late) {
        if (!was_late && sn_channel_is_silent(channel))
            channel->ops->silent(channel->user, channel);
        return;
    }
    /* Before judging the peer, read everything that has arrived: the answer may be there. */
    enum sn_err err = SN_OK;
    for (unsigned i = 0; i < DRAIN_ROUNDS_MAX && err == SN_OK; i++) {
        int is_gone = 0;
        err = read_round(channel, &is_gone);
        if (is_gone) return;
    }
    if (err == SN_EAGAIN || err == SN_OK) channel->ops->input_done(channel->user, channel);
    if (err == SN_OK) sn_lane_resume_read(channel->lane);
    if (err != SN_OK && channel->ping_ns != 0)
        fail(channel, SN_ETIMEDOUT, "no answer to heartbeats");
}

/* --- Accessors --------------------------------------------------------------------------------------------------- */

void sn_channel_serve(struct sn_channel *channel, struct sn_mux *mux)
{
    SN_ASSERT(channel->state == UP);
    channel->framer.mux = mux;
    channel->framer.lane_index = channel->lane_index;
    sn_mux_lane_up(mux, channel->lane_index);
    sn_channel_kick(channel);
}

void sn_channel_set_user(struct sn_channel *channel, const struct sn_channel_ops *ops, void *user)
{
    channel->ops = ops;
    channel->user = user;
}

const struct sn_hello *sn_channel_hello(const struct sn_channel *channel)
{
    return &channel->hello;
}

const struct sn_lane_peer *sn_channel_peer(const struct sn_channel *channel)
{
    return &channel->lane->peer;
}

int sn_channel_is_closing(const struct sn_channel *channel)
{
    return channel->state == CLOSING;
}

uint64_t sn_channel_since_ns(const struct sn_channel *channel)
{
    return channel->since_ns;
}

uint32_t sn_channel_lane_index(const struct sn_channel *channel)
{
    return channel->lane_index;
}

uint64_t sn_channel_session(const struct sn_channel *channel)
{
    return channel->session;
}

int sn_channel_is_dialer(const struct sn_channel *channel)
{
    return channel->is_dialer;
}

int sn_channel_is_up(const struct sn_channel *channel)
{
    return channel->state == UP;
}

const struct sn_netaddr *sn_channel_remote(const struct sn_channel *channel)
{
    return &channel->lane->remote;
}

uint64_t sn_channel_rtt_ns(const struct sn_channel *channel)
{
    return channel->rtt_ns;
}
