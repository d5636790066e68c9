/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivered streams: bytes between a stream and the actor that owns it, as events and calls.
 *
 * Guarantees:
 *  1. the owner is told every byte that arrived once, in order, then the end, all before STREAM_DOWN; what it wrote
 *     goes out in the order of its calls, and its end behind the last byte;
 *  2. what the owner was told and has not consumed is bounded by the stream's window, because only what it consumed
 *     gives the peer credit; of that at most UNTOLD_MAX pieces have left the mux, which merges small ones, and wait
 *     for the owner's handler; none pins a slab much larger than itself;
 *  3. what the owner wrote and the stream did not take yet is below SN_STREAM_QUEUED_BYTES when a piece is taken;
 *  4. each write that says EAGAIN first is followed by exactly one WRITABLE, or by STREAM_DOWN; until it is told, all
 *     writes say EAGAIN;
 *  5. consuming and ending allocate nothing, so they cannot be lost; whatever an actor does, also with streams that
 *     are gone, foreign or spliced, ends in an error here and never in an assertion.
 *
 * The flow lives on its peer's worker, the owner maybe on another. Both hold a tap, made by the owner's worker, which
 * finds it by stream and owner until STREAM_DOWN was told or the owner failed. What is to reach the flow travels as
 * tasks (pieces), or is noted in the tap and announced by its one kick task.
 */
#include <assert.h>
#include <string.h>

#include "peer/flow_int.h"

#define TAP_MAGIC        SN_MAGIC('T', 'A', 'P', ' ')
#define ROUND_BYTES      (256u * 1024u) /* each way and round */
#define UNTOLD_MAX       32u   /* pieces on their way to the handler; half of it and more follow */
#define CHARGE_BYTES_MIN 1024u /* of a piece that is queued, however small */
#define PINNED_PARTS_MAX 4u    /* a piece smaller than this part of its slab is copied */
#define PIECE_BYTES_MAX  (SN_SLAB_BYTES_MAX + SN_HEADROOM_MAX)
#define NO_END           UINT64_MAX

static_assert(SN_STREAM_QUEUED_BYTES / 2 >= CHARGE_BYTES_MIN, "half of the queue holds a piece");

struct key {
    uint64_t stream;
    uint64_t owner;
};

struct sni_tap {
    uint32_t magic;
    _Atomic uint32_t refs; /* the owner's table, the flow, tasks on their way. Partner: itself */
    struct key key;
    uint32_t incarnation;
    struct sni_hub *hub;      /* the owner's */
    struct sni_hub *flow_hub; /* the flow's */
    struct sn_task join_task; /* to the flow, and back when there is none to join */
    struct sn_task kick_task; /* to the flow: look at what is noted here */
    _Atomic uint8_t
        is_kicked; /* kick_task is posted. Partner: whoever sets it first posts; kicked clears it */

    /* Owner's worker. */
    struct sn_map_entry by_key;
    struct sni_tap *next_failed;
    uint8_t is_linked;  /* in the table */
    uint8_t is_waiting; /* a write said EAGAIN and WRITABLE was not told yet */
    uint8_t has_ended;
    uint64_t written_bytes;
    uint64_t open_bytes; /* told to the owner, not consumed */

    /* Flow's worker. */
    struct sni_flow *flow; /* NULL before it has joined and after it is gone */

    /* Notes of the owner for the flow; partner: run. */
    _Atomic uint64_t credit_bytes; /* consumed, and not given to the stream yet */
    _Atomic uint64_t end_at;       /* how much was written when the owner ended; NO_END */
    /* Raised by the owner with each piece, lowered by the flow when the stream took it. A write that finds it full
     * sets `room` and looks again, the flow lowers it and then looks at `room`: one of them sees the other. */
    _Atomic uint32_t queued;
    _Atomic(struct sn_notice *)
        room; /* the WRITABLE that is due; the flow takes it out and posts it */
    /* READABLE events posted by the flow and not told yet; lowered by the owner's worker. */
    _Atomic uint32_t untold;
};

/* A piece that the owner wrote, on its way to the stream. */
struct chunk {
    struct sn_task task;
    struct sn_list node; /* in flow->chunks */
    struct sni_tap *tap; /* held */
    struct sn_buf piece;
};

static void run(struct sn_io *io, unsigned ready);

/* --- Taps --------------------------------------------------------------------------------------------------- */

static struct sni_tap *ref(struct sni_tap *tap)
{
    SN_ASSERT(tap->magic == TAP_MAGIC);
    atomic_fetch_add(&tap->refs, 1);
    return tap;
}

static void unref(struct sni_tap *tap)
{
    if (tap == NULL) return;
    SN_ASSERT(tap->magic == TAP_MAGIC);
    if (atomic_fetch_sub(&tap->refs, 1) != 1) return;
    SN_ASSERT(!tap->is_linked);
    SN_ASSERT(tap->flow == NULL);
    sn_notice_free(atomic_load(&tap->room));
    tap->magic = 0;
    sn_free(tap, sizeof *tap);
}

/* On the owner's worker. */
static struct sni_tap *find_tap(const struct sni_hub *hub, uint64_t stream,
                                struct sn_actor_ref owner)
{
    struct key key = {stream, owner.id};
    struct sn_map_entry *entry = sn_map_find(&hub->taps, &key, sizeof key);
    return entry == NULL ? NULL : SN_CONTAINER_OF(entry, struct sni_tap, by_key);
}

/* The tap that a call is about, or NULL. */
static struct sni_tap *tap_of(struct sn_ctx *ctx, struct sn_stream_ref stream)
{
    struct sni_hub *hub = sni_net_hub(sn_net_of(sn_ctx_system(ctx)), sn_ctx_worker(ctx));
    struct sni_tap *tap = find_tap(hub, stream.id, sn_ctx_self(ctx));
    SN_ASSERT(tap == NULL || tap->incarnation == sn_ctx_incarnation(ctx)); /* see actor_failed */
    return tap;
}

static enum sn_err link_tap(struct sni_tap *tap)
{
    struct sn_map *taps = &tap->hub->taps;
    memcpy(taps->seed, tap->hub->names.seed, sizeof taps->seed);
    enum sn_err err = sn_map_insert(taps, &tap->by_key, &tap->key, sizeof tap->key);
    if (err != SN_OK) return err;
    tap->is_linked = 1;
    ref(tap);
    return SN_OK;
}

static void unlink_tap(struct sni_tap *tap)
{
    if (tap == NULL || !tap->is_linked) return;
    tap->is_linked = 0;
    sn_map_remove(&tap->hub->taps, &tap->by_key);
    unref(tap);
}

int sni_delivered_has(const struct sni_hub *hub, uint64_t stream, struct sn_actor_ref owner)
{
    return find_tap(hub, stream, owner) != NULL;
}

/* Allocates nothing. A tap that has not joined its flow yet will find that it belongs to somebody else. */
void sni_delivered_actor_failed(struct sni_hub *hub, struct sn_actor_ref actor)
{
    struct sni_tap *failed = NULL;
    struct sn_map_entry *entry = NULL;
    while ((entry = sn_map_next(&hub->taps, entry)) != NULL) {
        struct sni_tap *tap = SN_CONTAINER_OF(entry, struct sni_tap, by_key);
        if (tap->key.owner != actor.id) continue;
        tap->next_failed = failed;
        failed = tap;
    }
    while (failed != NULL) {
        struct sni_tap *next = failed->next_failed;
        unlink_tap(failed);
        failed = next;
    }
}

void sni_delivered_free(struct sni_hub *hub)
{
    struct sn_map_entry *entry;
    while ((entry = sn_map_next(&hub->taps, NULL)) != NULL) {
        unlink_tap(SN_CONTAINER_OF(entry, struct sni_tap, by_key));
    }
    sn_map_fini(&hub->taps);
}

/* --- From the owner to the flow ----------------------------------------------------------------------------- */

static void kicked(struct sni_tap *tap)
{
    if (tap->flow != NULL) sni_flow_kick(tap->flow);
}

static void kick_task(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_tap *tap = SN_CONTAINER_OF(task, struct sni_tap, kick_task);
    (void)worker;                     /* the flow's */
    atomic_store(&tap->is_kicked, 0); /* first: what is noted from now on kicks again */
    kicked(tap);
    unref(tap);
}

/* The flow shall look at what is noted in the tap. Owner's worker. */
static void kick(struct sni_tap *tap)
{
    if (tap->flow_hub == tap->hub) {
        kicked(tap);
        return;
    }
    if (atomic_exchange(&tap->is_kicked, 1)) return;
    ref(tap);
    tap->kick_task.run = kick_task;
    sn_worker_post(tap->flow_hub->worker, &tap->kick_task);
}

/* --- What the owner is told: on its worker, just before its handler --------------------------------------------- */

static struct sni_tap *tap_of_notice(const struct sn_notice *notice, struct sn_net *net)
{
    struct sni_hub *hub = sni_net_hub(net, sn_system_actor_worker(net->system, notice->to));
    return find_tap(hub, notice->event.stream.id, notice->to);
}

static void told_readable(struct sn_notice *notice, void *arg)
{
    struct sni_tap *tap = tap_of_notice(notice, arg);
    SN_ASSERT(tap != NULL); /* it stays until STREAM_DOWN was told */
    tap->open_bytes += notice->event.payload_size;
    if (atomic_fetch_sub(&tap->untold, 1) == UNTOLD_MAX / 2 + 1) kick(tap);
}

static void told_writable(struct sn_notice *notice, void *arg)
{
    struct sni_tap *tap = tap_of_notice(notice, arg);
    SN_ASSERT(tap != NULL); /* as above */
    tap->is_waiting = 0;
}

void sni_delivered_told_down(struct sn_notice *notice, void *arg)
{
    unlink_tap(tap_of_notice(notice, arg));
}

/* --- Calls of the owner ------------------------------------------------------------------------------------------- */

static void refused_task(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_tap *tap = SN_CONTAINER_OF(task, struct sni_tap, join_task);
    (void)worker; /* the owner's */
    unlink_tap(tap);
    unref(tap);
}

/* There is nothing to join: calls that come from now on say so. */
static void refuse(struct sni_tap *tap)
{
    tap->join_task.run = refused_task;
    if (tap->flow_hub == tap->hub) {
        refused_task(&tap->join_task, tap->hub->worker);
    } else {
        sn_worker_post(tap->hub->worker, &tap->join_task);
    }
}

/* Joins tap and flow; the caller's hold on the tap becomes the flow's. On the flow's worker. */
static void join(struct sni_tap *tap)
{
    struct sn_actor_ref owner = {tap->key.owner};
    struct sni_flow *flow = sni_flow_find(tap->flow_hub, tap->key.stream, owner, tap->incarnation);
    enum sn_err err = SN_OK;
    if (flow == NULL) { /* gone, or somebody else's */
        refuse(tap);
        return;
    }
    SN_ASSERT(flow->tap == NULL); /* the owner's table has one only */
    if (sn_sock_is_open(flow->sock)) {
        err = SN_ESTATE; /* spliced */
    } else {
        sn_io_init(&flow->io, SN_IO_BULK, run);
        err = sn_io_open(&flow->io, flow->hub->worker, SN_SOCK_NONE);
    }
    if (err != SN_OK) {
        refuse(tap);
        sni_flow_end(flow, err);
        return;
    }
    flow->tap = tap;
    tap->flow = flow;
    sni_flow_kick(flow);
}

static void join_task(struct sn_task *task, struct sn_worker *worker)
{
    (void)worker; /* the flow's */
    join(SN_CONTAINER_OF(task, struct sni_tap, join_task));
}

enum sn_err sn_net_ctx_stream_deliver(struct sn_ctx *ctx, struct sn_stream_ref stream)
{
    struct sn_net *net = sn_net_of(sn_ctx_system(ctx));
    uint32_t worker = sni_id_worker(stream.id);
    if (stream.id == 0 || worker >= net->hub_count) return SN_EINVAL;
    if (tap_of(ctx, stream) != NULL) return SN_ESTATE;
    struct sni_tap *tap = sn_alloc(sizeof *tap);
    if (tap == NULL) return SN_ENOMEM;
    tap->magic = TAP_MAGIC;
    atomic_init(&tap->refs, 1);
    atomic_init(&tap->end_at, NO_END);
    tap->key = (struct key){stream.id, sn_ctx_self(ctx).id};
    tap->incarnation = sn_ctx_incarnation(ctx);
    tap->hub = sni_net_hub(net, sn_ctx_worker(ctx));
    tap->flow_hub = &net->hubs[worker];
    enum sn_err err = link_tap(tap);
    if (err != SN_OK) {
        unref(tap);
        return err;
    }
    if (tap->flow_hub == tap->hub) {
        join(tap);
    } else {
        tap->join_task.run = join_task;
        sn_worker_post(tap->flow_hub->worker, &tap->join_task);
    }
    return SN_OK;
}

enum sn_err sn_net_ctx_stream_consume(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                      uint64_t bytes)
{
    struct sni_tap *tap = tap_of(ctx, stream);
    if (tap == NULL) return SN_ENOENT;
    if (bytes > tap->open_bytes) return SN_EINVAL;
    tap->open_bytes -= bytes;
    atomic_fetch_add(&tap->credit_bytes, bytes);
    if (bytes > 0) kick(tap);
    return SN_OK;
}

enum sn_err sn_net_ctx_stream_end(struct sn_ctx *ctx, struct sn_stream_ref stream)
{
    struct sni_tap *tap = tap_of(ctx, stream);
    if (tap == NULL) return SN_ENOENT;
    if (tap->has_ended) return SN_OK;
    tap->has_ended = 1;
    atomic_store(&tap->end_at, tap->written_bytes);
    kick(tap);
    return SN_OK;
}

static uint32_t charge_of(uint32_t size)
{
    return size < CHARGE_BYTES_MIN ? CHARGE_BYTES_MIN : size;
}

static void free_chunk(struct chunk *chunk)
{
    sn_buf_unref(&chunk->piece);
    unref(chunk->tap);
    sn_free(chunk, sizeof *chunk);
}

/* On the flow's worker. */
static void arrive(struct chunk *chunk)
{
    struct sni_flow *flow = chunk->tap->flow;
    if (flow == NULL) { /* gone: STREAM_DOWN is on its way */
        free_chunk(chunk);
        return;
    }
    sn_list_push(&flow->chunks, &chunk->node);
    sni_flow_kick(flow);
}

static void arrive_task(struct sn_task *task, struct sn_worker *worker)
{
    (void)worker; /* the flow's */
    arrive(SN_CONTAINER_OF(task, struct chunk, task));
}

/* EAGAIN, and WRITABLE will follow; or ENOMEM. */
static enum sn_err await_room(struct sni_tap *tap)
{
    struct sn_actor_ref owner = {tap->key.owner};
    struct sn_notice *room = NULL;
    enum sn_err err = sn_notice_new(owner, tap->incarnation, NULL, NULL, NULL, 0, &room);
    if (err != SN_OK) return err;
    room->event.kind = SN_EVENT_STREAM_WRITABLE;
    room->event.stream.id = tap->key.stream;
    room->told = told_writable;
    room->arg = tap->hub->net;
    tap->is_waiting = 1;
    SN_ASSERT(atomic_load(&tap->room) == NULL); /* the last one was told */
    atomic_store(&tap->room, room);
    if (atomic_load(&tap->queued) <= SN_STREAM_QUEUED_BYTES / 2) kick(tap); /* drained meanwhile */
    return SN_EAGAIN;
}

static int is_piece(const struct sn_buf *piece)
{
    if (piece == NULL) return 0;
    return piece->size == 0 || (piece->slab != NULL && piece->size <= PIECE_BYTES_MAX);
}

enum sn_err sn_net_ctx_stream_write(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                    struct sn_buf *piece)
{
    struct sni_tap *tap = tap_of(ctx, stream);
    if (!is_piece(piece)) return SN_EINVAL;
    if (tap == NULL) return SN_ENOENT;
    if (tap->has_ended) return SN_ESTATE;
    if (tap->is_waiting) return SN_EAGAIN;
    if (piece->size == 0) {
        sn_buf_unref(piece);
        return SN_OK;
    }
    if (atomic_load(&tap->queued) >= SN_STREAM_QUEUED_BYTES) return await_room(tap);
    struct chunk *chunk = sn_alloc(sizeof *chunk);
    if (chunk == NULL) return SN_ENOMEM;
    chunk->tap = ref(tap);
    chunk->piece = *piece;
    *piece = (struct sn_buf){0};
    tap->written_bytes += chunk->piece.size;
    atomic_fetch_add(&tap->queued, charge_of(chunk->piece.size));
    if (tap->flow_hub == tap->hub) {
        arrive(chunk);
    } else {
        chunk->task.run = arrive_task;
        sn_worker_post(tap->flow_hub->worker, &chunk->task);
    }
    return SN_OK;
}

/* --- Owner to stream: on the flow's worker, from here on -------------------------------------- */

static void give_credit(struct sni_flow *flow)
{
    uint64_t bytes = atomic_exchange(&flow->tap->credit_bytes, 0);
    SN_ASSERT(bytes <= UINT32_MAX); /* a window at most */
    if (bytes > 0) sn_stream_consume(flow->stream, (uint32_t)bytes);
}

static void tell_room(struct sni_flow *flow)
{
    struct sni_tap *tap = flow->tap;
    if (atomic_load(&tap->queued) > SN_STREAM_QUEUED_BYTES / 2) return;
    struct sn_notice *room = atomic_exchange(&tap->room, NULL);
    if (room == NULL) return;
    room->event.token = flow->token;
    sn_notice_post(flow->hub->net->system, room);
}

static enum sn_err pump_out(struct sni_flow *flow, int *out_more)
{
    struct sni_tap *tap = flow->tap;
    uint32_t budget = ROUND_BYTES;
    struct sn_list *node;
    while ((node = sn_list_first(&flow->chunks)) != NULL) {
        struct chunk *chunk = SN_CONTAINER_OF(node, struct chunk, node);
        uint32_t size = chunk->piece.size;
        if (budget == 0) {
            *out_more = 1;
            return SN_OK;
        }
        unsigned flags = sn_buf_is_sole(&chunk->piece) ? SN_STREAM_OWN_HEADROOM : 0;
        enum sn_err err = sn_stream_write(flow->stream, &chunk->piece, flags);
        if (err == SN_EAGAIN) return SN_OK; /* the stream tells when it takes bytes again */
        if (err != SN_OK) return err;
        sn_list_remove(node);
        free_chunk(chunk);
        flow->taken_bytes += size;
        sni_flow_moved(flow, size, 0);
        atomic_fetch_sub(&tap->queued, charge_of(size));
        budget -= size < budget ? size : budget;
    }
    if (!flow->local_ended && flow->taken_bytes == atomic_load(&tap->end_at)) {
        flow->local_ended = 1;
        sn_stream_end(flow->stream);
    }
    return SN_OK;
}

/* --- Stream to owner -------------------------------------------------------------------------- */

/* The owner may keep the piece: it shall not pin much more than it is. */
static void slim(struct sn_buf *piece)
{
    struct sn_buf copy = {0};
    uint32_t slab_bytes = sn_buf_headroom(piece) + piece->size + sn_buf_tailroom(piece);
    if (piece->size >= slab_bytes / PINNED_PARTS_MAX) return;
    if (sn_buf_copy(piece->data, piece->size, &copy) != SN_OK) return; /* it stays as it is */
    sn_buf_unref(piece);
    *piece = copy;
}

/* Takes the piece on SN_OK. */
static enum sn_err tell(struct sni_flow *flow, struct sn_buf *piece, int is_end)
{
    struct sn_notice *notice = NULL;
    enum sn_err err = sni_flow_notice(flow, SN_EVENT_STREAM_READABLE, &notice);
    if (err != SN_OK) return err;
    struct sn_event *event = &notice->event;
    event->token = flow->token;
    event->offset = flow->told_bytes;
    event->is_end = (uint32_t)is_end;
    if (piece->size > 0) {
        event->payload = piece->data;
        event->payload_size = piece->size;
    }
    flow->told_bytes += piece->size;
    sni_flow_moved(flow, 0, piece->size);
    event->buf = *piece;
    *piece = (struct sn_buf){0};
    notice->told = told_readable;
    notice->arg = flow->hub->net;
    atomic_fetch_add(&flow->tap->untold, 1);
    sn_notice_post(flow->hub->net->system, notice);
    return SN_OK;
}

static enum sn_err pump_in(struct sni_flow *flow, int *out_more)
{
    uint32_t budget = ROUND_BYTES;
    while (!flow->remote_ended) {
        struct sn_buf piece = {0};
        if (atomic_load(&flow->tap->untold) >= UNTOLD_MAX) return SN_OK; /* told_readable kicks */
        if (budget == 0) {
            *out_more = 1;
            return SN_OK;
        }
        enum sn_err err = sn_stream_read(flow->stream, &piece);
        if (err == SN_EAGAIN) return SN_OK;
        if (err != SN_OK && err != SN_ECLOSED) return err;
        budget -= piece.size < budget ? piece.size : budget;
        int is_end = err == SN_ECLOSED;
        if (!is_end) slim(&piece);
        err = tell(flow, &piece, is_end);
        if (err != SN_OK) {
            sn_buf_unref(&piece);
            return err;
        }
        if (is_end) flow->remote_ended = 1;
    }
    return SN_OK;
}

/* --- Life ------------------------------------------------------------------------------------- */

static void run(struct sn_io *io, unsigned ready)
{
    struct sni_flow *flow = SN_CONTAINER_OF(io, struct sni_flow, io);
    int more = 0;
    (void)ready; /* there is no socket */
    SN_ASSERT(flow->magic == SNI_FLOW_MAGIC);
    SN_ASSERT(flow->tap != NULL);
    if (!sni_flow_can_move(flow)) return;
    give_credit(flow);
    enum sn_err err = pump_out(flow, &more);
    tell_room(flow);
    if (err == SN_OK) err = pump_in(flow, &more);
    if (err != SN_OK) {
        sni_flow_end(flow, err == SN_ENOMEM ? err : SN_ERESET);
        return;
    }
    if (flow->is_sent && flow->remote_ended) {
        sni_flow_end(flow, SN_OK);
        return;
    }
    if (more) sn_io_kick(io);
}

void sni_delivered_init(struct sni_flow *flow)
{
    sn_list_init(&flow->chunks);
}

void sni_delivered_close(struct sni_flow *flow)
{
    struct sn_list *node;
    while ((node = sn_list_pop(&flow->chunks)) != NULL) {
        free_chunk(SN_CONTAINER_OF(node, struct chunk, node));
    }
    if (flow->tap == NULL) return;
    flow->tap->flow = NULL;
    unref(flow->tap);
    flow->tap = NULL;
}
