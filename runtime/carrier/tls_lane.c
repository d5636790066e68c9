/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moving half of TLS lanes. Guarantees:
 *  1. Callbacks come from the lane's handler or timers only, never from inside a call of the user; after
 *     `failed` there is none; the user may free or detach the lane in any of them.
 *  2. No wake-up is lost: reading answers EAGAIN only when neither OpenSSL, nor the span, nor the socket has
 *     more, and each of them is looked at again after the next readiness of the socket.
 *  3. A lane that cannot write any more still hands out what had arrived: the peer's reason may be in it.
 *  4. A lane holds at most OUT_BYTES + IN_BYTES_OPEN of ciphertext, and none after a second without use.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "carrier/carrier_tls_int.h"
#include "sennit/limits.h"

#define LANE_MAGIC SN_MAGIC('T', 'L', 'A', 'N')

#define OUT_MARK     SN_SLAB_BYTES_MAX /* plain bytes that a user may count on */
#define OUT_OVERHEAD 8192u             /* what many small records add to that */
#define OUT_BYTES    (OUT_MARK + OUT_OVERHEAD + SNI_RECORD_BYTES + SNI_RECORD_SLACK)
/* Written without waiting for a flush: what is larger has left the cache by then. */
#define OUT_BATCH         (128u * 1024u)
#define OUT_BYTES_SHAKING 16384u
#define IN_BYTES_OPEN     (256u * 1024u)
#define IN_BYTES_SHAKING  4096u
#define SHAKE_FILLS_MAX   16u /* reads of one handshake in one round */
#define DISCARD_BYTES_MAX (256u * 1024u)
#define IDLE_MS           1000u

static void on_run(struct sn_io *io, unsigned ready);
static void on_deadline(struct sn_timer *timer, struct sn_worker *worker);
static void on_idle(struct sn_timer *timer, struct sn_worker *worker);

static struct sni_tls_lane *checked(struct sn_lane *base)
{
    struct sni_tls_lane *lane = sni_tls_lane_of(base);
    SN_ASSERT(lane->magic == LANE_MAGIC);
    return lane;
}

static void kick(struct sni_tls_lane *lane)
{
    if (lane->io.is_open) sn_io_kick(&lane->io); /* else it is detached or dead */
}

/* --- Construction and end ------------------------------------------------------------------------------------ */

static enum sn_err copy_expectations(struct sni_tls_lane *lane, const struct sn_dial *dial)
{
    if (dial->expect_key != NULL) {
        lane->expect_key = *dial->expect_key;
        lane->check.expect_key = &lane->expect_key;
    }
    if (dial->expect_agent == NULL) return SN_OK;
    lane->check.expect_agent = lane->expect_agent;
    return sn_text_copy(lane->expect_agent, sizeof lane->expect_agent, dial->expect_agent,
                        strlen(dial->expect_agent));
}

enum sn_err sni_tls_lane_new(struct sni_tls_carrier *carrier, struct sn_worker *worker,
                             struct sn_sock sock, const struct sn_netaddr *remote,
                             const struct sn_dial *dial, struct sni_tls_lane **out_lane)
{
    struct sni_tls_lane *lane = sn_alloc(sizeof *lane);
    if (lane == NULL) return SN_ENOMEM;
    lane->base.ops = carrier->base.ops;
    lane->base.carrier = &carrier->base;
    lane->base.worker = worker;
    lane->base.remote = *remote;
    lane->base.is_dialer = dial != NULL;
    lane->magic = LANE_MAGIC;
    lane->state = dial == NULL ? SNI_TLS_SHAKING : SNI_TLS_CONNECTING;
    lane->sock = SN_SOCK_NONE;
    lane->is_armed = 1;
    sn_io_init(&lane->io, SN_IO_URGENT, on_run);
    sn_timer_init(&lane->deadline, on_deadline);
    sn_timer_init(&lane->idle, on_idle);
    enum sn_err err = dial == NULL ? SN_OK : copy_expectations(lane, dial);
    if (err == SN_OK) err = sni_tls_begin(lane);
    if (err == SN_OK) err = sn_io_open(&lane->io, worker, sock);
    if (err != SN_OK) {
        sni_tls_lane_free(&lane->base);
        return err;
    }
    lane->sock = sock;
    *out_lane = lane;
    return SN_OK;
}

/* Leaves worker, listener and network. */
static void disconnect(struct sni_tls_lane *lane)
{
    if (lane->base.worker != NULL) {
        sn_timer_stop(lane->base.worker, &lane->deadline);
        sn_timer_stop(lane->base.worker, &lane->idle);
    }
    sni_tls_listener_forget(lane);
    sn_io_close(&lane->io);
    if (sn_sock_is_open(lane->sock)) sn_env_close(lane->base.carrier->config.env, lane->sock);
    lane->sock = SN_SOCK_NONE;
    sni_tls_end(lane);
    sni_ring_fini(&lane->out);
    sni_span_fini(&lane->in);
}

void sni_tls_lane_free(struct sn_lane *base)
{
    struct sni_tls_lane *lane = checked(base);
    if (lane->out_gone != NULL) *lane->out_gone = 1;
    disconnect(lane);
    lane->magic = 0;
    sn_free(lane, sizeof *lane);
}

void sni_tls_start_deadline(struct sni_tls_lane *lane, uint32_t after_ms)
{
    lane->deadline_ns = sn_worker_refresh_now(lane->base.worker) + after_ms * SN_MS;
    sn_timer_start(lane->base.worker, &lane->deadline, lane->deadline_ns);
}

static void stop_deadline(struct sni_tls_lane *lane)
{
    lane->deadline_ns = 0;
    sn_timer_stop(lane->base.worker, &lane->deadline);
}

enum sn_err sni_tls_dial(struct sn_carrier *base, struct sn_worker *worker,
                         const struct sn_dial *dial, const struct sn_lane_ops *ops, void *user,
                         struct sn_lane **out_lane)
{
    struct sni_tls_carrier *carrier = sni_tls_carrier_of(base);
    struct sn_sock sock;
    struct sni_tls_lane *lane;
    enum sn_err err = sn_env_connect(base->config.env, &dial->addr, &sock);
    if (err != SN_OK) return err;
    err = sni_tls_lane_new(carrier, worker, sock, &dial->addr, dial, &lane);
    if (err != SN_OK) {
        sn_env_close(base->config.env, sock);
        return err;
    }
    lane->base.user_ops = ops;
    lane->base.user = user;
    uint32_t limit_ms = dial->timeout_ms;
    sni_tls_start_deadline(lane, limit_ms > 0 ? limit_ms : base->config.handshake_timeout_ms);
    *out_lane = &lane->base;
    return SN_OK;
}

/* --- Telling the user ---------------------------------------------------------------------------------------- */

void sni_tls_note(struct sni_tls_lane *lane, enum sn_err err, const char *detail)
{
    SN_ASSERT(err != SN_OK && err != SN_EAGAIN);
    if (lane->state >= SNI_TLS_FAILING) return; /* the first cause counts */
    struct sn_lane_failure *failure = &lane->failure;
    failure->err = err;
    failure->was_open = lane->base.is_open;
    failure->has_key = lane->base.is_open;
    failure->key = lane->base.peer.id;
    failure->remote = lane->base.remote;
    memcpy(failure->agent, lane->base.is_open ? lane->base.peer.agent : lane->expect_agent,
           sizeof failure->agent);
    (void)snprintf(failure->detail, sizeof failure->detail, "%s", detail); /* cut is fine */
    lane->state = SNI_TLS_FAILING;
    kick(lane);
}

/* Calls back; 1 when the lane was freed or detached meanwhile and must not be touched. */
static int tell(struct sni_tls_lane *lane, void (*callback)(void *user, struct sn_lane *lane))
{
    int is_gone = 0;
    SN_ASSERT(lane->out_gone == NULL); /* callbacks do not nest */
    lane->out_gone = &is_gone;
    callback(lane->base.user, &lane->base);
    if (!is_gone) lane->out_gone = NULL;
    return is_gone;
}

static void push(struct sni_tls_lane *lane);

/* Leaves a peer in the handshake: an alert is sent, and what has arrived is taken, because closing a socket with
 * unread bytes resets the connection, which may take our last words with it. */
static void part(struct sni_tls_lane *lane)
{
    struct sn_env *env = lane->base.carrier->config.env;
    uint8_t scratch[1024];
    size_t got = 0;
    push(lane);
    sn_env_shutdown_write(env, lane->sock);
    for (unsigned i = 0; i < 64; i++) {
        if (sn_env_read(env, lane->sock, scratch, sizeof scratch, &got) != SN_OK) return;
    }
}

/* The end: `failed` is the last that the user hears. */
static void finish(struct sni_tls_lane *lane)
{
    SN_ASSERT(lane->state == SNI_TLS_FAILING);
    struct sn_lane_failure failure = lane->failure; /* the user may free the lane and read on */
    const struct sn_lane_ops *ops = lane->base.user_ops;
    if (failure.was_open) {
        push(lane);
    } else {
        part(lane);
    }
    disconnect(lane);
    lane->state = SNI_TLS_DEAD;
    lane->base.is_open = 0;
    if (ops != NULL && ops->failed != NULL) ops->failed(lane->base.user, &lane->base, &failure);
}

/* --- Between memory and socket --------------------------------------------------------------------------------- */

static void touch(struct sni_tls_lane *lane)
{
    lane->was_used = 1;
    if (sn_timer_is_started(&lane->idle)) return;
    sn_timer_start(lane->base.worker, &lane->idle,
                   sn_worker_now(lane->base.worker) + IDLE_MS * SN_MS);
}

/* Writing is over. What has arrived can still be read, for as long as a handshake may take. */
static void stop_writing(struct sni_tls_lane *lane, enum sn_err err)
{
    lane->write_err = err;
    sni_ring_drop(&lane->out, lane->out.used);
    lane->may_read = 1;
    if (lane->state == SNI_TLS_OPEN) {
        sni_tls_start_deadline(lane, lane->base.carrier->config.handshake_timeout_ms);
    }
    kick(lane);
}

/* Gives the ring's content to the socket until that is full. */
static void push(struct sni_tls_lane *lane)
{
    struct sn_env *env = lane->base.carrier->config.env;
    struct sn_iovec pieces[2];
    while (lane->out.used > 0 && lane->may_write) {
        size_t sent = 0;
        uint32_t count = sni_ring_pieces(&lane->out, pieces);
        enum sn_err err = sn_env_writev(env, lane->sock, pieces, count, &sent);
        if (err == SN_EAGAIN) {
            lane->may_write = 0;
        } else if (err != SN_OK) {
            stop_writing(lane, err);
        } else {
            sni_ring_drop(&lane->out, (uint32_t)sent);
        }
    }
}

/* Reads ciphertext into the empty span. Errors: EAGAIN, ECLOSED, ERESET, EIO, ENOMEM. */
static enum sn_err fill(struct sni_tls_lane *lane)
{
    size_t got = 0;
    if (!lane->may_read) return SN_EAGAIN;
    enum sn_err err =
        sni_span_reserve(&lane->in, lane->base.is_open ? IN_BYTES_OPEN : IN_BYTES_SHAKING);
    if (err != SN_OK) return err;
    touch(lane);
    err = sn_env_read(lane->base.carrier->config.env, lane->sock, lane->in.data, lane->in.capacity,
                      &got);
    if (err == SN_EAGAIN) lane->may_read = 0;
    if (err == SN_OK) lane->in.end = (uint32_t)got;
    return err;
}

/* The connection is over, other than by a TLS message. */
static void note_end(struct sni_tls_lane *lane, enum sn_err err)
{
    const char *detail = "the connection broke";
    if (err == SN_ECLOSED) {
        detail =
            lane->base.is_open ? "the connection ended" : "the connection ended in the handshake";
    } else if (err == SN_ERESET) {
        detail = "the connection was reset";
    } else if (err == SN_ENOMEM) {
        detail = "no memory for a buffer";
    }
    sni_tls_note(lane, err, detail);
}

/* --- The handler ----------------------------------------------------------------------------------------------- */

static void connect_step(struct sni_tls_lane *lane)
{
    if (!lane->may_write) return;
    enum sn_err err = sn_env_connect_result(lane->base.carrier->config.env, lane->sock);
    if (err == SN_EAGAIN) {
        lane->may_write = 0;
    } else if (err != SN_OK) {
        sni_tls_note(lane, err, "could not connect");
    } else {
        lane->state = SNI_TLS_SHAKING;
        lane->may_read = 1;
    }
}

/* The peer has proved itself. 1: the lane is gone. */
static int become_open(struct sni_tls_lane *lane)
{
    sni_tls_listener_forget(lane);
    stop_deadline(lane);
    lane->state = SNI_TLS_OPEN;
    lane->base.is_open = 1;
    const struct sn_lane_ops *ops = lane->base.user_ops;
    if (lane->write_err != SN_OK) stop_writing(lane, lane->write_err);
    return ops->opened == NULL ? 0 : tell(lane, ops->opened);
}

/* Goes on with the handshake. 1: the lane is gone. */
static int shake_step(struct sni_tls_lane *lane)
{
    enum sn_err err = sni_ring_reserve(&lane->out, OUT_BYTES_SHAKING);
    unsigned fills = 0;
    while (err == SN_OK) {
        err = sni_tls_handshake(lane);
        push(lane);
        if (err != SN_EAGAIN) break;
        if (fills++ == SHAKE_FILLS_MAX) {
            kick(lane);
            return 0;
        }
        err = fill(lane);
    }
    if (err == SN_OK) return become_open(lane);
    if (err != SN_EAGAIN) {
        note_end(lane, err); /* unless more is known already */
    } else if (lane->write_err != SN_OK) {
        note_end(lane, lane->write_err);
    } else {
        sni_span_fini(&lane->in); /* many may be silent at this stage */
    }
    return 0;
}

static int has_input(const struct sni_tls_lane *lane)
{
    return lane->may_read || !sni_span_is_empty(&lane->in) || sni_tls_has_pending(lane);
}

/* An open lane's turn. 1: the lane is gone. */
static int serve(struct sni_tls_lane *lane)
{
    const struct sn_lane_ops *ops = lane->base.user_ops;
    push(lane);
    if (lane->is_armed && ops->readable != NULL && has_input(lane)) {
        lane->is_armed = 0;
        if (tell(lane, ops->readable)) return 1;
    }
    ops = lane->base.user_ops;
    int is_drained = lane->out.used == 0 && lane->write_err == SN_OK;
    if (lane->state == SNI_TLS_OPEN && lane->wants_writable && is_drained &&
        ops->writable != NULL) {
        lane->wants_writable = 0;
        if (tell(lane, ops->writable)) return 1;
    }
    if (lane->state == SNI_TLS_OPEN && lane->write_err != SN_OK && !has_input(lane)) {
        note_end(lane, lane->write_err);
    }
    return 0;
}

/* Our last bytes go out, the peer's are thrown away until it closes as well. */
static void close_step(struct sni_tls_lane *lane)
{
    struct sn_env *env = lane->base.carrier->config.env;
    uint32_t discarded = 0;
    push(lane);
    if (lane->out.used == 0 && !lane->is_shut && lane->write_err == SN_OK) {
        sn_env_shutdown_write(env, lane->sock);
        lane->is_shut = 1;
    }
    while (lane->may_read && discarded < DISCARD_BYTES_MAX) {
        lane->in.begin = lane->in.end;
        enum sn_err err = fill(lane);
        if (err == SN_EAGAIN) break;
        if (err != SN_OK) {
            lane->is_over = 1; /* the peer's direction */
            lane->may_read = 0;
            break;
        }
        discarded += lane->in.end;
    }
    if (lane->write_err != SN_OK || (lane->is_over && lane->out.used == 0)) {
        sni_tls_note(lane, SN_ECLOSED, "closed");
    } else if (lane->may_read) {
        kick(lane);
    }
}

static void on_run(struct sn_io *io, unsigned ready)
{
    struct sni_tls_lane *lane = SN_CONTAINER_OF(io, struct sni_tls_lane, io);
    SN_ASSERT(lane->magic == LANE_MAGIC);
    if ((ready & SN_READY_READ) && !lane->is_over) lane->may_read = 1;
    if (ready & SN_READY_WRITE) lane->may_write = 1;
    if (lane->state == SNI_TLS_CONNECTING) connect_step(lane);
    if (lane->state == SNI_TLS_SHAKING && shake_step(lane)) return;
    if (lane->state == SNI_TLS_OPEN && serve(lane)) return;
    if (lane->state == SNI_TLS_CLOSING) close_step(lane);
    if (lane->state == SNI_TLS_FAILING) finish(lane);
}

static void on_deadline(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sni_tls_lane *lane = SN_CONTAINER_OF(timer, struct sni_tls_lane, deadline);
    SN_ASSERT(lane->base.worker == worker);
    lane->deadline_ns = 0;
    switch (lane->state) {
    case SNI_TLS_CONNECTING: sni_tls_note(lane, SN_ETIMEDOUT, "no answer to connecting"); break;
    case SNI_TLS_SHAKING:
        sni_tls_note(lane, SN_ETIMEDOUT,
                     lane->base.is_dialer
                         ? "the handshake did not end in time, though connecting did: silence, "
                           "or a path that loses large packets"
                         : "the handshake did not end in time");
        break;
    case SNI_TLS_OPEN: note_end(lane, lane->write_err); break;
    default: sni_tls_note(lane, SN_ECLOSED, "closed; the peer did not close in time"); break;
    }
    finish(lane);
}

static void on_idle(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sni_tls_lane *lane = SN_CONTAINER_OF(timer, struct sni_tls_lane, idle);
    SN_ASSERT(lane->base.worker == worker);
    int is_empty = lane->out.used == 0 && sni_span_is_empty(&lane->in);
    if (lane->was_used || !is_empty) {
        lane->was_used = 0;
        sn_timer_start(worker, timer, sn_worker_now(worker) + IDLE_MS * SN_MS);
        return;
    }
    sni_ring_fini(&lane->out);
    sni_span_fini(&lane->in);
    if (lane->base.is_open) sni_tls_trim(lane);
}

/* --- The user's calls -------------------------------------------------------------------------------------------- */

/* OpenSSL wants to answer the peer and lacks room. 1: try again. Version 3.0 answers a key update with the next
 * write only; others may do it while reading. */
static int make_answer_room(struct sni_tls_lane *lane)
{
    if (sni_ring_reserve(&lane->out, OUT_BYTES) != SN_OK) return 0;
    push(lane);
    return sni_ring_room(&lane->out) >= SNI_RECORD_SLACK;
}

/* Decrypts until `out` is full or the input ends. Errors: EAGAIN, or why the lane is over. */
static enum sn_err read_all(struct sni_tls_lane *lane, uint8_t *out, size_t capacity,
                            size_t *out_total)
{
    enum sn_err err = SN_OK;
    size_t total = 0;
    while (total < capacity && err == SN_OK) {
        size_t got = 0;
        err = sni_tls_decrypt(lane, out + total, capacity - total, &got);
        total += got;
        if (err == SN_EAGAIN) {
            err = fill(lane);
            if (err != SN_OK && err != SN_EAGAIN) note_end(lane, err);
        } else if (err == SN_EFULL) {
            /* Without room it waits for the socket to take some: its readiness comes back here. */
            err = make_answer_room(lane) ? SN_OK : SN_EAGAIN;
        } else if (err == SN_ECLOSED) {
            sni_tls_note(lane, SN_ECLOSED, "closed by the peer");
        }
    }
    *out_total = total;
    return err;
}

enum sn_err sni_tls_lane_read(struct sn_lane *base, void *out, size_t capacity, size_t *out_size)
{
    struct sni_tls_lane *lane = checked(base);
    if (lane->state != SNI_TLS_OPEN) return SN_EAGAIN;
    size_t total = 0;
    uint32_t kept = lane->out.used;
    enum sn_err err = read_all(lane, out, capacity, &total);
    if (lane->out.used > kept) kick(lane); /* answers of OpenSSL itself are to be sent */
    if (total > 0) {
        base->received_bytes += total;
        *out_size = total;
        return SN_OK;
    }
    lane->is_armed = 1;
    if (err == SN_EAGAIN && lane->write_err != SN_OK) note_end(lane, lane->write_err);
    return SN_EAGAIN;
}

enum sn_err sni_tls_lane_write(struct sn_lane *base, const void *bytes, size_t size,
                               size_t *out_size)
{
    struct sni_tls_lane *lane = checked(base);
    const uint8_t *from = bytes;
    size_t done = 0;
    if (lane->state < SNI_TLS_OPEN) {
        lane->wants_writable = 1;
        return SN_EAGAIN;
    }
    if (lane->state != SNI_TLS_OPEN || lane->write_err != SN_OK) return SN_ECLOSED;
    enum sn_err err = sni_ring_reserve(&lane->out, OUT_BYTES);
    if (err != SN_OK) return err;
    touch(lane);
    while (done < size) {
        if (lane->out.used >= OUT_BATCH) push(lane);
        if (lane->write_err != SN_OK || lane->out.used >= OUT_MARK + OUT_OVERHEAD) break;
        size_t piece = size - done < SNI_RECORD_BYTES ? size - done : SNI_RECORD_BYTES;
        err = sni_tls_encrypt(lane, from + done, piece);
        if (err != SN_OK)
            return SN_ECLOSED; /* noted; nothing more goes out, so nothing was taken */
        done += piece;
    }
    if (done == 0) {
        if (lane->write_err != SN_OK) return SN_ECLOSED;
        lane->wants_writable = 1;
        return SN_EAGAIN;
    }
    base->sent_bytes += done;
    *out_size = done;
    return SN_OK;
}

void sni_tls_lane_flush(struct sn_lane *base)
{
    struct sni_tls_lane *lane = checked(base);
    /* A writer that was refused waits for readiness, with which the handler goes on: nothing to tell here. */
    if (lane->state == SNI_TLS_OPEN) push(lane);
}

size_t sni_tls_lane_write_room(const struct sn_lane *base)
{
    static_assert(offsetof(struct sni_tls_lane, base) == 0, "a lane begins with what all have");
    const struct sni_tls_lane *lane = (const void *)base;
    SN_ASSERT(lane->magic == LANE_MAGIC);
    if (lane->state != SNI_TLS_OPEN || lane->write_err != SN_OK) return 0;
    return lane->out.used < OUT_MARK ? OUT_MARK - lane->out.used : 0;
}

void sni_tls_lane_resume_read(struct sn_lane *base)
{
    struct sni_tls_lane *lane = checked(base);
    lane->is_armed = 1;
    kick(lane);
}

void sni_tls_lane_close(struct sn_lane *base)
{
    struct sni_tls_lane *lane = checked(base);
    if (lane->state >= SNI_TLS_CLOSING) return; /* `failed` comes anyway */
    int is_plain = lane->state == SNI_TLS_OPEN && lane->write_err == SN_OK;
    if (!is_plain || sni_ring_reserve(&lane->out, OUT_BYTES_SHAKING) != SN_OK) {
        sni_tls_note(lane, SN_ECLOSED, "closed");
        return;
    }
    sni_tls_say_goodbye(lane); /* behind what is kept */
    lane->state = SNI_TLS_CLOSING;
    sni_tls_start_deadline(lane, base->carrier->config.handshake_timeout_ms);
    lane->may_read = 1;
    kick(lane);
}

void sni_tls_lane_set_priority(struct sn_lane *base, enum sn_io_priority priority)
{
    struct sni_tls_lane *lane = checked(base);
    lane->io.priority = (uint8_t)priority; /* counts from the next kick on */
}

void sni_tls_lane_detach(struct sn_lane *base)
{
    struct sni_tls_lane *lane = checked(base);
    if (lane->out_gone != NULL) *lane->out_gone = 1;
    lane->out_gone = NULL;
    sn_timer_stop(base->worker, &lane->deadline);
    sn_timer_stop(base->worker, &lane->idle);
    sn_io_close(&lane->io);
    base->worker = NULL;
}

enum sn_err sni_tls_lane_attach(struct sn_lane *base, struct sn_worker *worker)
{
    struct sni_tls_lane *lane = checked(base);
    SN_ASSERT(lane->state != SNI_TLS_DEAD);
    enum sn_err err = sn_io_open(&lane->io, worker, lane->sock);
    if (err != SN_OK) return err;
    base->worker = worker;
    /* Readiness that came in between was seen by nobody. */
    lane->may_read = !lane->is_over;
    lane->may_write = 1;
    lane->is_armed = 1;
    if (lane->deadline_ns != 0) sn_timer_start(worker, &lane->deadline, lane->deadline_ns);
    touch(lane);
    kick(lane);
    return SN_OK;
}
