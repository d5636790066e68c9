/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links over nng PAIR v1 sockets, one *port* per class. A port's socket dials a UNIX socket of ours in the run
 * folder; what it connects to is spliced (splice.h) onto the port's stream.
 *
 * Guarantees: nng's threads only store into their port and post tasks; everything else happens on the link's worker,
 * except the blocking end (state CLOSING), which a pool thread does while nobody else touches the port. A port's
 * memory outlives every callback and task that knows it: CLOSED is reached by the task that the closing job posts
 * last, and tasks run in the order of their posting.
 *
 * States of a port:
 *   DIALING  nng dials, the listener waits. -> SPLICED: accepted; the path and the listener are gone then.
 *            -> CLOSING: nobody came within DIAL_TIMEOUT_NS, or dialing failed at once (link down).
 *   SPLICED  bytes and parcels flow. -> DRAIN: the link is down or closed.
 *   DRAIN    nobody sends any more, the stream is gone. Whole messages on their way to nng are written out, what
 *            comes from nng is discarded, until nng is at a message boundary and has written every message that
 *            it accepted. -> WAIT: that is so, with our direction shut down then; or nng closed by itself; or nng
 *            never got a hello, so that it has no pipe and writes nothing.
 *   WAIT     a receive stays armed, what comes is discarded. -> CLOSING: nng's end is closed and its pipe, if it
 *            ever had one, is removed.
 *   CLOSING  a pool thread takes the counters, calls nng_close and frees the aio. -> CLOSED: its task ran.
 *   CLOSED   nothing is left. When all ports are and the user asked for it, `closed` is called.
 * Any other order hangs nng's reaper or loses descriptors (DESIGN section 7). No state but DIALING has a time-out:
 * cutting one short is exactly what hangs nng, and each waits for local progress only, never for the peer.
 */
#include "link/link_nng.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/protocol/pair1/pair.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "link/splice.h"

#define LINK_MAGIC      SN_MAGIC('L', 'I', 'N', 'K')
#define DIAL_TIMEOUT_NS (5000 * SN_MS)
#define RETRY_NS        (20 * SN_MS) /* the pool had no room */

#define QUEUE_MESSAGES 64
/* Parcels accepted by sn_link_send that the pump has not moved out. Below QUEUE_MESSAGES, so that nng always has a
 * place for the next one and sending never waits. */
#define SEND_MESSAGES_MAX  60u
#define SEND_BYTES_MAX     (2u * 1024u * 1024u)
#define DELIVER_BYTES_TURN 262144u /* parcels handed over before the others have their turn */

#define NAME_BYTES 32
#define PATH_BYTES (SN_UNIX_FOLDER_BYTES + NAME_BYTES)
#define URL_PREFIX "ipc://"

/* The path was unlinked after the accept: dialing again is of no use. */
#define REDIAL_MS 60000

enum port_state { DIALING, SPLICED, DRAIN, WAIT, CLOSING, CLOSED };
enum link_state { OPEN, DOWN, CLOSE_WANTED };

struct nng_link;

struct port {
    struct nng_link *link;
    uint8_t class_id;
    uint8_t state;
    uint8_t has_socket;
    uint8_t wants_writable;
    uint8_t is_armed; /* the aio is receiving, or recv_task is on its way */
    uint8_t is_job_due;
    char path[PATH_BYTES];
    struct sn_sock listener;
    struct sn_io accept_io;
    struct sn_splice splice;
    nng_socket socket;
    nng_aio *aio;
    /* For sending and receiving what can be done at once: without a callback and with no time to wait. nng_sendmsg
     * and nng_recvmsg do the same with an aio made for each call, which costs two system calls. */
    nng_aio *now_aio;
    struct sn_task recv_task; /* posted by on_received */
    struct sn_task pipe_task; /* posted by on_pipe, once */
    struct sn_task done_task; /* posted by close_job, once */
    /* Written by on_received before it posts, read by recv_task. */
    nng_msg *recv_msg;
    int recv_error;
    nng_msg *held; /* arrived while paused */
    /* Partners: on_pipe stores (release), step_wait loads (acquire). nng announces a pipe before it can close it,
     * so whoever has seen the end of file sees has_pipe. */
    atomic_int has_pipe;
    atomic_int is_pipe_gone;
    uint64_t sent, sent_bytes;
    uint64_t received;
    uint64_t nng_sent, nng_received; /* valid from CLOSED on */
};

struct nng_link {
    struct sn_link base;
    uint32_t magic;
    struct sn_env *env;
    struct sn_worker *worker;
    const struct sn_link_ops_user *ops;
    void *user;
    uint8_t state;
    uint8_t is_paused;
    uint8_t is_kick_posted;
    enum sn_err failure; /* found where no callback may come: kick() reports it */
    uint64_t dial_deadline;
    struct sn_sock folder_hold; /* keeps a short name of the folder valid while somebody dials */
    struct sn_task kick_task;
    struct sn_timer timer;
    struct port ports[SN_CLASS_COUNT];
};

static void step(struct port *port);

static struct nng_link *link_of(struct sn_link *base)
{
    struct nng_link *link = SN_CONTAINER_OF(base, struct nng_link, base);
    SN_ASSERT(link->magic == LINK_MAGIC);
    return link;
}

/* Asks for a call of kick(), for what must not happen inside the present call. */
static void post_kick(struct nng_link *link)
{
    if (link->is_kick_posted) return;
    link->is_kick_posted = 1;
    sn_worker_post(link->worker, &link->kick_task);
}

/* Reports the first failure and starts the closing order of all ports. */
static void fail(struct nng_link *link, enum sn_err reason)
{
    if (link->state != OPEN) return;
    link->state = DOWN;
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) step(&link->ports[i]);
    link->ops->down(link->user, reason);
}

/* --- Called by nng's threads ---------------------------------------------------------------------------- */

static void on_received(void *arg)
{
    struct port *port = arg;
    port->recv_error = nng_aio_result(port->aio);
    port->recv_msg = port->recv_error == 0 ? nng_aio_get_msg(port->aio) : NULL;
    sn_worker_post(port->link->worker, &port->recv_task);
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    (void)pipe; /* a port has one at most: its path is gone after the accept */
    struct port *port = arg;
    if (event == NNG_PIPE_EV_ADD_PRE) {
        atomic_store_explicit(&port->has_pipe, 1, memory_order_release);
        return;
    }
    if (atomic_exchange_explicit(&port->is_pipe_gone, 1, memory_order_acq_rel)) return;
    sn_worker_post(port->link->worker, &port->pipe_task);
}

/* --- Receiving ------------------------------------------------------------------------------------------- */

static void arm(struct port *port)
{
    SN_ASSERT(!port->is_armed);
    port->is_armed = 1;
    nng_recv_aio(port->socket, port->aio);
}

/* A message left nng's queue. */
static void account_received(struct port *port, const nng_msg *msg)
{
    port->received++;
    sn_splice_taken(&port->splice, (uint32_t)nng_msg_len(msg));
}

static int may_deliver(const struct nng_link *link)
{
    return link->state == OPEN && !link->is_paused;
}

static void deliver(struct port *port, nng_msg *msg)
{
    struct nng_link *link = port->link;
    uint32_t size = (uint32_t)nng_msg_len(msg); /* bounded by NNG_OPT_RECVMAXSZ */
    link->ops->parcel(link->user, (enum sn_class)port->class_id, nng_msg_body(msg), size);
    nng_msg_free(msg);
}

static nng_msg *receive_now(struct port *port)
{
    nng_recv_aio(port->socket, port->now_aio);
    nng_aio_wait(port->now_aio); /* it is finished already */
    if (nng_aio_result(port->now_aio) != 0) return NULL;
    nng_msg *msg = nng_aio_get_msg(port->now_aio);
    nng_aio_set_msg(port->now_aio, NULL);
    return msg;
}

/* Nonzero when there is nothing left in nng's queue. */
static int take_queued(struct port *port)
{
    for (size_t taken = 0; taken < DELIVER_BYTES_TURN;) {
        /* A user's callback may have changed everything. */
        if (port->state >= CLOSING) return 1;
        if (port->link->state == OPEN && port->link->is_paused) return 0;
        nng_msg *msg = receive_now(port);
        if (msg == NULL) return 1; /* empty; a real error comes to the other aio again */
        taken += nng_msg_len(msg) + SN_SP_HEAD_BYTES;
        account_received(port, msg);
        if (may_deliver(port->link)) {
            deliver(port, msg);
        } else {
            nng_msg_free(msg);
        }
    }
    return 0;
}

/* After the peer's orderly end the link is down once everything that came before it was handed over. */
static void check_end(struct port *port)
{
    const struct sn_splice *splice = &port->splice;
    if (port->state != SPLICED || !splice->is_ended || splice->inward.bytes > 0) return;
    int is_all_here = port->received == splice->to_socket.messages && port->held == NULL;
    if (is_all_here || port->link->is_paused) fail(port->link, SN_ECLOSED);
}

/* Hands over what has come. Zero when the link is paused with something in hand. */
static int take_all(struct port *port)
{
    struct nng_link *link = port->link;
    if (port->held != NULL) {
        if (link->state == OPEN && link->is_paused) return 0;
        nng_msg *msg = port->held;
        port->held = NULL;
        if (may_deliver(link)) {
            deliver(port, msg);
        } else {
            nng_msg_free(msg);
        }
    }
    /* What is left completes the aio at once, after the others had their turn. */
    (void)take_queued(port);
    return 1;
}

static void wait_for_more(struct port *port)
{
    const struct nng_link *link = port->link;
    if (port->state >= CLOSING || port->is_armed) return;
    if (link->state == OPEN && link->is_paused) return;
    arm(port);
}

/* Goes on receiving, unless paused with something in hand. */
static void receive(struct port *port)
{
    if (port->state >= CLOSING || port->is_armed) return;
    if (!take_all(port)) return;
    check_end(port);
    wait_for_more(port);
}

/* The same once the link is not OPEN any more: its end is known. */
static void receive_rest(struct port *port)
{
    SN_ASSERT(port->link->state != OPEN);
    if (port->state >= CLOSING || port->is_armed) return;
    (void)take_all(port); /* cannot be paused */
    wait_for_more(port);
}

static void run_received(struct sn_task *task, struct sn_worker *worker)
{
    (void)worker; /* the link's */
    struct port *port = SN_CONTAINER_OF(task, struct port, recv_task);
    struct nng_link *link = port->link;
    SN_ASSERT(link->magic == LINK_MAGIC && port->is_armed);
    port->is_armed = 0;
    nng_msg *msg = port->recv_msg;
    port->recv_msg = NULL;
    if (msg == NULL) {
        if (port->state < CLOSING) fail(link, SN_EIO); /* nng closed the socket by itself */
        return;
    }
    account_received(port, msg);
    SN_ASSERT(port->held == NULL);
    port->held = msg;
    if (port->state >= CLOSING) {
        nng_msg_free(port->held);
        port->held = NULL;
        return;
    }
    receive(port);
}

/* --- The closing order ------------------------------------------------------------------------------------ */

static void close_listener(struct port *port)
{
    if (!sn_sock_is_open(port->listener)) return;
    sn_io_close(&port->accept_io);
    /* Gone already if somebody swept the folder. */
    enum sn_err err = sn_env_file_remove(port->link->env, port->path);
    (void)err;
    sn_env_close(port->link->env, port->listener);
    port->listener = SN_SOCK_NONE;
}

static void release_folder(struct nng_link *link)
{
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        if (sn_sock_is_open(link->ports[i].listener)) return;
    }
    if (sn_sock_is_open(link->folder_hold)) sn_env_close(link->env, link->folder_hold);
    link->folder_hold = SN_SOCK_NONE;
}

static uint64_t counter_of(nng_stat *scope, const char *name)
{
    for (nng_stat *stat = nng_stat_child(scope); stat != NULL; stat = nng_stat_next(stat)) {
        if (strcmp(nng_stat_name(stat), name) == 0) return nng_stat_value(stat);
    }
    return 0;
}

/* The socket's own counters; a pipe's vanish with the pipe. (nng_stat_find_socket of 1.5.2 finds the first socket,
 * whichever was asked for.) */
static void read_counters(nng_socket socket, uint64_t *out_sent, uint64_t *out_received)
{
    nng_stat *all = NULL;
    *out_sent = *out_received = 0;
    if (nng_stats_get(&all) != 0) return; /* out of memory: the figures are for people */
    uint64_t id = (uint64_t)nng_socket_id(socket);
    for (nng_stat *scope = nng_stat_child(all); scope != NULL; scope = nng_stat_next(scope)) {
        if (strcmp(nng_stat_name(scope), "socket") != 0) continue;
        if (counter_of(scope, "id") != id) continue;
        *out_sent = counter_of(scope, "tx_msgs");
        *out_received = counter_of(scope, "rx_msgs");
    }
    nng_stats_free(all);
}

/* On a pool thread. A receive that is armed ends with an error now, and its task is posted before ours. */
static void close_job(void *arg)
{
    struct port *port = arg;
    read_counters(port->socket, &port->nng_sent, &port->nng_received);
    (void)nng_close(port->socket); /* fails only for sockets that are closed */
    nng_aio_stop(port->aio);
    nng_aio_free(port->aio);
    nng_aio_free(port->now_aio);
    sn_worker_post(port->link->worker, &port->done_task);
}

static void start_closing(struct port *port)
{
    struct nng_link *link = port->link;
    enum sn_err err = sn_env_offload(link->env, SN_OFFLOAD_CLOSE, close_job, port);
    port->is_job_due = err != SN_OK;
    if (err == SN_OK) {
        port->state = CLOSING;
        return;
    }
    sn_timer_start(link->worker, &link->timer, sn_worker_now(link->worker) + RETRY_NS);
}

static void step_drain(struct port *port)
{
    struct sn_splice *splice = &port->splice;
    int is_over = splice->is_eof;
    if (!is_over && sn_splice_is_flushed(splice)) {
        int is_nng_idle =
            sn_sp_is_boundary(&splice->from_socket) && splice->from_socket.messages == port->sent;
        is_over = is_nng_idle || splice->is_broken || !splice->to_socket.has_hello;
    }
    if (!is_over) return;
    port->state = WAIT;
    sn_splice_shut(splice);
}

static void step_wait(struct port *port)
{
    if (!port->splice.is_eof) return;
    int has_pipe = atomic_load_explicit(&port->has_pipe, memory_order_acquire);
    int is_gone = atomic_load_explicit(&port->is_pipe_gone, memory_order_acquire);
    if (has_pipe && !is_gone) return;    /* pipe_task comes */
    while (!take_queued(port)) continue; /* at most QUEUE_MESSAGES: nothing comes any more */
    start_closing(port);
}

/* Moves a port on as far as it can go now, once its link is not OPEN any more. */
static void step(struct port *port)
{
    if (port->link->state == OPEN) return;
    if (!port->splice.is_draining) {
        sn_splice_drain(&port->splice);
        receive_rest(port); /* if it was paused */
    }
    if (port->state == DIALING) {
        if (port->is_job_due) start_closing(port);
        return; /* the accept or the timer comes */
    }
    if (port->state == SPLICED) port->state = DRAIN;
    if (port->state == DRAIN) step_drain(port);
    if (port->state == WAIT) step_wait(port);
}

static void maybe_finish(struct nng_link *link)
{
    if (link->state != CLOSE_WANTED || link->is_kick_posted) return;
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        if (link->ports[i].state != CLOSED) return;
    }
    SN_ASSERT(!sn_sock_is_open(link->folder_hold));
    sn_timer_stop(link->worker, &link->timer);
    link->ops->closed(link->user);
    link->magic = 0;
    sn_free(link, sizeof *link);
}

static void run_done(struct sn_task *task, struct sn_worker *worker)
{
    (void)worker; /* the link's */
    struct port *port = SN_CONTAINER_OF(task, struct port, done_task);
    SN_ASSERT(port->state == CLOSING);
    SN_ASSERT(!port->is_armed && port->held == NULL);
    sn_splice_fini(&port->splice);
    port->state = CLOSED;
    maybe_finish(port->link);
}

static void run_pipe_gone(struct sn_task *task, struct sn_worker *worker)
{
    (void)worker; /* the link's */
    struct port *port = SN_CONTAINER_OF(task, struct port, pipe_task);
    if (port->state == SPLICED) fail(port->link, SN_EIO);
    step(port);
}

/* Everything that had to wait for a call of our own. */
static void kick(struct sn_task *task, struct sn_worker *worker)
{
    (void)worker; /* the link's */
    struct nng_link *link = SN_CONTAINER_OF(task, struct nng_link, kick_task);
    SN_ASSERT(link->magic == LINK_MAGIC);
    link->is_kick_posted = 0;
    if (link->failure != SN_OK) fail(link, link->failure);
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        step(&link->ports[i]);
        receive(&link->ports[i]);
    }
    maybe_finish(link);
}

/* --- The splice's callbacks -------------------------------------------------------------------------------- */

static int has_send_room(const struct port *port, uint32_t size)
{
    uint64_t messages = port->sent - port->splice.from_socket.messages;
    uint64_t bytes = port->sent_bytes - port->splice.from_socket.message_bytes;
    if (messages == 0) return 1;
    return messages < SEND_MESSAGES_MAX && bytes + size <= SEND_BYTES_MAX;
}

/* Half of the room, so that the user does not come back for every single parcel. */
static int is_half_empty(const struct port *port)
{
    uint64_t messages = port->sent - port->splice.from_socket.messages;
    uint64_t bytes = port->sent_bytes - port->splice.from_socket.message_bytes;
    return messages <= SEND_MESSAGES_MAX / 2 && bytes <= SEND_BYTES_MAX / 2;
}

static void on_moved(void *owner)
{
    struct port *port = owner;
    struct nng_link *link = port->link;
    if (link->state != OPEN) {
        step(port);
        return;
    }
    check_end(port);
    if (port->wants_writable && link->state == OPEN && is_half_empty(port)) {
        port->wants_writable = 0;
        link->ops->writable(link->user, (enum sn_class)port->class_id);
    }
}

static void on_failed(void *owner, enum sn_err reason)
{
    struct port *port = owner;
    fail(port->link, reason);
}

static const struct sn_splice_ops SPLICE_OPS = {.moved = on_moved, .failed = on_failed};

/* --- Dialing -------------------------------------------------------------------------------------------------- */

/* Nobody will come: the socket has no pipe, so it may be closed as it is. */
static void abandon(struct port *port, enum sn_err reason)
{
    SN_ASSERT(port->state == DIALING);
    close_listener(port);
    release_folder(port->link);
    port->is_job_due = 1;
    fail(port->link, reason);
    step(port);
}

static void on_acceptable(struct sn_io *io, unsigned ready)
{
    (void)ready; /* only one kind */
    struct port *port = SN_CONTAINER_OF(io, struct port, accept_io);
    struct nng_link *link = port->link;
    struct sn_sock sock;
    enum sn_err err = sn_env_accept(link->env, port->listener, &sock, NULL);
    if (err == SN_EAGAIN) return;
    if (err != SN_OK) {
        abandon(port, err);
        return;
    }
    err = sn_splice_start(&port->splice, sock);
    if (err != SN_OK) {
        sn_env_close(link->env, sock);
        abandon(port, err);
        return;
    }
    close_listener(port);
    release_folder(link);
    port->state = SPLICED;
    step(port);
}

static void on_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    struct nng_link *link = SN_CONTAINER_OF(timer, struct nng_link, timer);
    uint64_t now = sn_worker_now(worker);
    int is_dialing = 0;
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        struct port *port = &link->ports[i];
        if (port->state == DIALING && !port->is_job_due && now >= link->dial_deadline) {
            abandon(port, SN_ETIMEDOUT);
        }
        step(port);
        if (port->state == DIALING && !port->is_job_due) is_dialing = 1;
    }
    /* A retry of a closing job may have moved the timer before the deadline of the other port. */
    if (is_dialing && !sn_timer_is_started(timer)) {
        sn_timer_start(worker, timer, link->dial_deadline);
    }
}

/* --- Opening -------------------------------------------------------------------------------------------------- */

static enum sn_err err_of(int rv)
{
    switch (rv) {
    case 0: return SN_OK;
    case NNG_ENOMEM: return SN_ENOMEM;
    case NNG_ENOFILES: return SN_ENOFILES;
    case NNG_ENOSPC: return SN_ENOSPC;
    default: return SN_EIO;
    }
}

static enum sn_err make_listener(struct port *port, const char *folder)
{
    struct nng_link *link = port->link;
    uint8_t random[8];
    char digits[2 * sizeof random + 1];
    sn_env_random(link->env, random, sizeof random);
    sn_hex_encode(random, sizeof random, digits);
    int size = snprintf(port->path, sizeof port->path, "%s/link-%s", folder, digits);
    if (size < 0 || (size_t)size >= sizeof port->path) return SN_ETOOBIG;
    struct sn_sock sock;
    enum sn_err err = sn_env_listen_unix(link->env, port->path, 0600, &sock);
    if (err != SN_OK) return err;
    port->listener = sock;
    return sn_io_open(&port->accept_io, link->worker, sock);
}

static enum sn_err make_socket(struct port *port)
{
    int rv = nng_pair1_open(&port->socket);
    if (rv != 0) return err_of(rv);
    port->has_socket = 1;
    nng_socket socket = port->socket;
    size_t max = SN_PARCEL_BYTES_MAX + SN_SP_HOPS_BYTES;
    rv = nng_socket_set_int(socket, NNG_OPT_SENDBUF, QUEUE_MESSAGES);
    if (rv == 0) rv = nng_socket_set_int(socket, NNG_OPT_RECVBUF, QUEUE_MESSAGES);
    if (rv == 0) rv = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, max);
    if (rv == 0) rv = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, REDIAL_MS);
    if (rv == 0) rv = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, REDIAL_MS);
    if (rv == 0) rv = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, on_pipe, port);
    if (rv == 0) rv = nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_pipe, port);
    if (rv == 0) rv = nng_aio_alloc(&port->aio, on_received, port);
    if (rv == 0) rv = nng_aio_alloc(&port->now_aio, NULL, NULL);
    if (rv == 0) nng_aio_set_timeout(port->now_aio, NNG_DURATION_ZERO);
    return err_of(rv);
}

static void init_port(struct nng_link *link, unsigned class_id, struct sn_stream *stream)
{
    struct port *port = &link->ports[class_id];
    port->link = link;
    port->class_id = (uint8_t)class_id;
    port->state = DIALING;
    port->listener = SN_SOCK_NONE;
    port->recv_task.run = run_received;
    port->pipe_task.run = run_pipe_gone;
    port->done_task.run = run_done;
    atomic_init(&port->has_pipe, 0);
    atomic_init(&port->is_pipe_gone, 0);
    sn_io_init(&port->accept_io, SN_IO_URGENT, on_acceptable);
    enum sn_io_priority priority = class_id == SN_CLASS_CONTROL ? SN_IO_URGENT : SN_IO_BULK;
    sn_splice_init(&port->splice, link->worker, stream, priority, &SPLICE_OPS, port);
}

/* Undoes an open that failed before anything was dialed: sockets without pipes close at once. */
static void undo(struct nng_link *link)
{
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        struct port *port = &link->ports[i];
        close_listener(port);
        if (port->has_socket) (void)nng_close(port->socket);
        if (port->aio != NULL) nng_aio_free(port->aio);
        if (port->now_aio != NULL) nng_aio_free(port->now_aio);
    }
    release_folder(link);
    link->magic = 0;
    sn_free(link, sizeof *link);
}

/* From here on nothing can fail but asynchronously. */
static void start(struct nng_link *link)
{
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        struct port *port = &link->ports[i];
        char url[sizeof URL_PREFIX + PATH_BYTES];
        (void)snprintf(url, sizeof url, "%s%s", URL_PREFIX, port->path); /* fits */
        sn_splice_attach(&port->splice);
        int rv = nng_dial(port->socket, url, NULL, NNG_FLAG_NONBLOCK);
        if (rv != 0) {
            close_listener(port);
            port->is_job_due = 1;
            link->failure = err_of(rv);
            post_kick(link);
        }
        arm(port);
    }
    release_folder(link);
    link->dial_deadline = sn_worker_refresh_now(link->worker) + DIAL_TIMEOUT_NS;
    sn_timer_start(link->worker, &link->timer, link->dial_deadline);
}

static enum sn_err open_link(const struct sn_link_config *config, struct sn_link **out_link)
{
    struct nng_link *link = sn_alloc(sizeof *link);
    if (link == NULL) return SN_ENOMEM;
    link->base.provider = &sn_link_nng;
    link->magic = LINK_MAGIC;
    link->env = config->env;
    link->worker = config->worker;
    link->ops = config->ops;
    link->user = config->user;
    link->folder_hold = SN_SOCK_NONE;
    link->kick_task.run = kick;
    sn_timer_init(&link->timer, on_timer);
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) init_port(link, i, config->streams[i]);
    char folder[SN_UNIX_FOLDER_BYTES];
    enum sn_err err = sn_env_unix_folder(link->env, config->run_folder, folder, &link->folder_hold);
    for (unsigned i = 0; i < SN_CLASS_COUNT && err == SN_OK; i++) {
        err = make_listener(&link->ports[i], folder);
        if (err == SN_OK) err = make_socket(&link->ports[i]);
    }
    if (err != SN_OK) {
        undo(link);
        return err;
    }
    start(link);
    *out_link = &link->base;
    return SN_OK;
}

enum sn_err sn_link_nng_start(void)
{
    nng_socket socket;
    int rv = nng_pair1_open(&socket);
    if (rv != 0) return err_of(rv);
    (void)nng_close(socket); /* it never had a pipe */
    return SN_OK;
}

/* --- The rest of the vtable ------------------------------------------------------------------------------------ */

static enum sn_err send_parcel(struct sn_link *base, enum sn_class class_id, const void *bytes,
                               uint32_t size)
{
    struct nng_link *link = link_of(base);
    struct port *port = &link->ports[class_id];
    if (link->state != OPEN || link->failure != SN_OK) return SN_ECLOSED;
    if (!has_send_room(port, size)) {
        port->wants_writable = 1;
        return SN_EAGAIN;
    }
    nng_msg *msg = NULL;
    if (nng_msg_alloc(&msg, size) != 0) return SN_ENOMEM;
    memcpy(nng_msg_body(msg), bytes, size);
    nng_aio_set_msg(port->now_aio, msg);
    nng_send_aio(port->socket, port->now_aio);
    nng_aio_wait(port->now_aio); /* it is finished already */
    int rv = nng_aio_result(port->now_aio);
    if (rv != 0) {
        nng_aio_set_msg(port->now_aio, NULL);
        /* There was room: something is wrong with the socket. */
        nng_msg_free(msg);
        link->failure = err_of(rv);
        post_kick(link);
        return SN_ECLOSED;
    }
    port->sent++;
    port->sent_bytes += SN_SP_HEAD_BYTES + size;
    return SN_OK;
}

static void pause_link(struct sn_link *base, int is_paused)
{
    struct nng_link *link = link_of(base);
    if (link->is_paused == (is_paused != 0)) return;
    link->is_paused = is_paused != 0;
    if (!link->is_paused) post_kick(link);
}

static void close_link(struct sn_link *base)
{
    struct nng_link *link = link_of(base);
    SN_ASSERT(link->state != CLOSE_WANTED);
    link->state = CLOSE_WANTED;
    post_kick(link);
}

static void get_stats(struct sn_link *base, int with_nng, struct sn_link_stats *out_stats)
{
    struct nng_link *link = link_of(base);
    struct sn_link_stats stats = {0};
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        const struct port *port = &link->ports[i];
        uint64_t nng_sent = 0;
        uint64_t nng_received = 0;
        if (with_nng && port->state < CLOSING) {
            read_counters(port->socket, &nng_sent, &nng_received);
        } else if (port->state == CLOSED) {
            nng_sent = port->nng_sent;
            nng_received = port->nng_received;
        }
        stats.sent += port->sent;
        stats.received += port->received;
        stats.nng_sent += nng_sent;
        stats.nng_received += nng_received;
        stats.pump_out += port->splice.from_socket.messages;
        stats.pump_in += port->splice.to_socket.messages;
        stats.states[i] = port->state;
    }
    *out_stats = stats;
}

const struct sn_link_provider sn_link_nng = {
    .name = "nng",
    .open = open_link,
    .send = send_parcel,
    .pause = pause_link,
    .close = close_link,
    .stats = get_stats,
};
