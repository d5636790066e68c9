/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How it works, and what it guarantees:
 *
 * Ids. Each side counts its own up (even or odd). Of the peer's a high-water mark and a window of
 *   bits are kept, so an id is opened at most once however OPENs overtake each other on several
 *   lanes, and memory for dead ids is constant. An id below the window counts as used.
 * Frames. A stream owes control frames as bits in `pending`, not as queue entries, so they cannot
 *   pile up. Answers about streams that do not exist here (refusals) stand in a ring per lane of
 *   at most SN_STREAMS_MAX: a peer that keeps its own limit cannot have more questions open.
 * Scheduling. Per lane one list of streams that owe control frames and one per class of streams
 *   with data, all O(1). Classes have byte allowances (weights 16:8:4:1 quanta) that are renewed
 *   when no class with data has any left: the most urgent goes first, the least urgent still gets
 *   1/29. Within a class streams take turns of a quantum of bytes.
 * Acks. One ACK frame tells received bytes and credit. It is sent when a quarter of the window was
 *   consumed, when an eighth of it is unacknowledged, when DATA says that its sender waits for it,
 *   at END, or by sn_mux_tick after SN_STREAM_ACK_DELAY_NS. 32 bytes per eighth of a window are
 *   0.4 % at the smallest window. See window.c for how windows change.
 * END carries length and XXH3-64. A wrong length breaks the protocol; a wrong checksum resets the
 *   stream with EIO, so that a reader never sees a clean end of altered bytes. ACK with
 *   SN_FRAME_ENDED says that both matched.
 * Resume. A stream that moves to another lane sends OPEN again (as long as the peer has not
 *   answered) or ACK, flagged SN_FRAME_RESUME, then what it retains from the cumulative ack on.
 *   The flag demands an answer: RESET when the stream is gone, or the final ACK when it had ended
 *   well (a ring of SNI_FINALS remembers). Hence neither RESET nor the last ACK needs to be kept
 *   for resending. After the flag was seen, overlapping bytes are dropped and counted, whichever
 *   lane they come from; without it they break the protocol, as a gap always does.
 *   While no lane is up, streams wait on SNI_LANE_NONE in the state in which they would start on a
 *   fresh lane. What dies there owes the peer nothing: the peer will ask.
 *   RESET is not sent for a stream whose OPEN may be unknown to the peer on the new lane: the peer
 *   would take it for an id never opened. Its own flagged ACK will be answered.
 * Callbacks. A stream is held while its user is called, so that it may be freed from inside.
 */
#include "stream/mux_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define EXEMPT_MAX 4u /* two sockets of a session, while those of the former one still close */

enum sn_err sn_mux_new(const struct sn_mux_config *config, struct sn_mux **out_mux)
{
    SN_ASSERT(config->ops != NULL);
    if (config->window_bytes < SN_STREAM_INITIAL_CREDIT) return SN_EINVAL;
    if (config->window_bytes > SN_STREAM_WINDOW_BYTES_MAX) return SN_EINVAL;
    uint32_t base = config->window_base_bytes;
    if (base > config->window_bytes) return SN_EINVAL;
    if (base > 0 && base < SN_STREAM_INITIAL_CREDIT) return SN_EINVAL;
    if (config->streams_max == 0 || config->streams_max > SN_STREAMS_MAX) return SN_EINVAL;
    struct sn_mux *mux = sn_alloc(sizeof *mux);
    if (mux == NULL) return SN_ENOMEM;
    mux->magic = SNI_MUX_MAGIC;
    mux->config = *config;
    sn_map_init(&mux->table, config->seed);
    sn_list_init(&mux->streams);
    sn_list_init(&mux->delayed);
    sn_list_init(&mux->closing);
    for (unsigned i = 0; i <= SNI_LANE_NONE; i++) {
        sn_list_init(&mux->lanes[i].control);
        for (unsigned qos = 0; qos < SNI_CLASSES; qos++) sn_list_init(&mux->lanes[i].run[qos]);
    }
    *out_mux = mux;
    return SN_OK;
}

/* Out of every list that makes frames or acks. */
static void detach(struct sn_stream *stream)
{
    sn_list_remove(&stream->run);
    sn_list_remove(&stream->control);
    sn_list_remove(&stream->delayed);
}

static void drop_content(struct sn_stream *stream)
{
    sni_pieces_fini(&stream->tx);
    sni_pieces_fini(&stream->rx);
    sni_hash_fini(&stream->tx_hash);
    sni_hash_fini(&stream->rx_hash);
    sn_buf_unref(&stream->offer);
}

void sni_mux_give_back(struct sn_stream *stream)
{
    struct sn_mux *mux = stream->mux;
    sni_window_fini(stream);
    mux->exempt -= stream->is_exempt;
    stream->is_exempt = 0;
}

static void destroy(struct sn_stream *stream)
{
    struct sn_mux *mux = stream->mux;
    SN_ASSERT(stream->holds == 0);
    detach(stream);
    sn_list_remove(&stream->closing);
    sn_list_remove(&stream->all);
    sn_map_remove(&mux->table, &stream->entry);
    drop_content(stream);
    SN_ASSERT(sni_lane_of(stream)->streams > 0);
    sni_lane_of(stream)->streams--;
    mux->stats.open_now--;
    if (!stream->is_freed) sni_mux_give_back(stream);
    stream->magic = 0;
    sn_free(stream, sizeof *stream);
}

void sni_mux_remove(struct sn_stream *stream)
{
    stream->mux->stats.opened--;
    destroy(stream);
}

void sn_mux_free(struct sn_mux *mux)
{
    if (mux == NULL) return;
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    SN_LIST_EACH_SAFE (it, &mux->streams) destroy(SN_CONTAINER_OF(it, struct sn_stream, all));
    SN_ASSERT(mux->table.count == 0);
    for (unsigned i = 0; i < SN_LANES_MAX; i++) sni_replies_fini(&mux->lanes[i].replies);
    sn_map_fini(&mux->table);
    sn_buf_unref(&mux->cells);
    mux->magic = 0;
    sn_free(mux, sizeof *mux);
}

uint64_t sni_id_ordinal(uint64_t id)
{
    return (id + 1) / 2;
}

int sni_id_is_local(const struct sn_mux *mux, uint64_t id)
{
    return (id % 2 == 0) == (mux->config.even_ids != 0);
}

struct sn_stream *sni_mux_find(const struct sn_mux *mux, uint64_t id)
{
    struct sn_map_entry *entry = sn_map_find(&mux->table, &id, sizeof id);
    return entry == NULL ? NULL : SN_CONTAINER_OF(entry, struct sn_stream, entry);
}

enum sn_err sni_mux_add(struct sn_mux *mux, uint64_t id, unsigned lane, unsigned flags,
                        struct sn_stream **out_stream)
{
    if (mux->stats.open_now >= mux->config.streams_max) return SN_EFULL;
    /* The control lane's own streams are few and must not starve when tunnels have used up the budget. */
    int is_exempt = lane == 0 && (flags & SN_STREAM_SESSION) != 0 && mux->exempt < EXEMPT_MAX;
    struct sn_stream *stream = sn_alloc(sizeof *stream);
    if (stream == NULL) return SN_ENOMEM;
    stream->id = id;
    stream->mux = mux;
    enum sn_err err = sni_window_init(stream, is_exempt);
    if (err != SN_OK) goto fail;
    err = sn_map_insert(&mux->table, &stream->entry, &stream->id, sizeof stream->id);
    SN_ASSERT(err != SN_EEXIST);
    if (err != SN_OK) goto fail_window;
    stream->magic = SNI_STREAM_MAGIC;
    stream->lane = (uint8_t)lane;
    stream->is_local = (uint8_t)sni_id_is_local(mux, id);
    stream->is_exempt = (uint8_t)is_exempt;
    mux->exempt += (uint32_t)is_exempt;
    sn_list_push(&mux->streams, &stream->all);
    mux->lanes[lane].streams++;
    mux->stats.open_now++;
    mux->stats.opened++;
    *out_stream = stream;
    return SN_OK;
fail_window:
    sni_window_fini(stream);
fail:
    sn_free(stream, sizeof *stream);
    return SN_ENOMEM;
}

void sni_mux_note_final(struct sn_mux *mux, const struct sn_stream *stream)
{
    SN_ASSERT(stream->got_end);
    mux->finals[mux->finals_next++ % SNI_FINALS] =
        (struct sni_reply){.id = stream->id, .value = stream->received, .is_final = 1};
}

int sni_lane_has_output(const struct sni_lane *lane)
{
    if (!lane->is_up) return 0;
    if (lane->replies.count > 0 || !sn_list_is_empty(&lane->control)) return 1;
    for (unsigned qos = 0; qos < SNI_CLASSES; qos++) {
        if (!sn_list_is_empty(&lane->run[qos])) return 1;
    }
    return 0;
}

int sn_mux_has_output(const struct sn_mux *mux, unsigned lane)
{
    SN_ASSERT(lane < SN_LANES_MAX);
    return sni_lane_has_output(&mux->lanes[lane]);
}

void sn_mux_set_output_hook(struct sn_mux *mux, void (*hook)(void *arg, unsigned lane), void *arg)
{
    mux->hook = hook;
    mux->hook_arg = arg;
}

void sni_stream_schedule(struct sn_stream *stream)
{
    struct sni_lane *lane = sni_lane_of(stream);
    struct sn_mux *mux = stream->mux;
    int had_output = sni_lane_has_output(lane);
    if (stream->pending == 0) {
        sn_list_remove(&stream->control);
    } else if (!sn_list_is_linked(&stream->control)) {
        sn_list_push(&lane->control, &stream->control);
    }
    if (!sni_stream_can_send(stream)) {
        sn_list_remove(&stream->run);
    } else if (!sn_list_is_linked(&stream->run)) {
        stream->turn = SN_STREAM_QUANTUM_BYTES;
        sn_list_push(&lane->run[stream->qos], &stream->run);
    }
    if (!had_output && mux->hook != NULL && sni_lane_has_output(lane)) {
        mux->hook(mux->hook_arg, stream->lane);
    }
}

void sni_stream_kill(struct sn_stream *stream, enum sn_err reason, uint8_t pending)
{
    SN_ASSERT(!stream->is_dead);
    SN_ASSERT(reason != SN_OK);
    detach(stream);
    drop_content(stream);
    stream->is_dead = 1;
    stream->reason = reason;
    stream->pending = pending;
    stream->mux->stats.reset++;
    sni_stream_schedule(stream);
}

void sni_stream_hold(struct sn_stream *stream)
{
    SN_ASSERT(stream->magic == SNI_STREAM_MAGIC);
    stream->holds++;
}

void sni_stream_reap(struct sn_stream *stream)
{
    if (stream->is_freed && stream->lane == SNI_LANE_NONE) stream->pending = 0;
    if (stream->is_freed && stream->holds == 0 && stream->pending == 0) destroy(stream);
}

void sni_stream_release(struct sn_stream *stream)
{
    SN_ASSERT(stream->holds > 0);
    stream->holds--;
    sni_stream_reap(stream);
}

void sni_stream_tell_closed(struct sn_stream *stream)
{
    if (stream->ops == NULL || stream->ops->closed == NULL) return;
    sni_stream_hold(stream);
    stream->ops->closed(stream->user, stream, stream->reason);
    sni_stream_release(stream);
}

/* --- Lanes ------------------------------------------------------------------------------------ */

void sn_mux_lane_up(struct sn_mux *mux, unsigned lane)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    SN_ASSERT(lane < SN_LANES_MAX);
    SN_ASSERT(!mux->lanes[lane].is_up);
    mux->lanes[lane].is_up = 1;
    memset(mux->lanes[lane].deficit, 0, sizeof mux->lanes[lane].deficit);
}

/* The lane with the fewest streams; lane 0 only when there is no other, so that bulk never stands
 * before control. SNI_LANE_NONE when none is up. */
static unsigned pick_lane(const struct sn_mux *mux)
{
    unsigned best = SNI_LANE_NONE;
    for (unsigned i = 1; i < SN_LANES_MAX; i++) {
        if (!mux->lanes[i].is_up) continue;
        if (best == SNI_LANE_NONE || mux->lanes[i].streams < mux->lanes[best].streams) best = i;
    }
    return best == SNI_LANE_NONE && mux->lanes[0].is_up ? 0 : best;
}

/* The peer has everything below `acked` for certain; the rest may be lost. */
static void rewind_output(struct sn_stream *stream)
{
    stream->next = stream->acked;
    stream->next_piece = 0;
    stream->next_at = (uint32_t)(stream->acked - stream->tx_base);
    stream->end_sent = 0;
}

static void move(struct sn_stream *stream, unsigned lane)
{
    sni_lane_of(stream)->streams--;
    stream->lane = (uint8_t)lane;
    sni_lane_of(stream)->streams++;
    if (stream->is_local && !stream->is_confirmed) {
        stream->must_resume = stream->is_open_sent;
        stream->pending = SNI_OPEN;
    } else {
        stream->must_resume = 1;
        stream->pending = SNI_ACK;
        if (!stream->is_local && stream->is_accepted) stream->pending |= SNI_ACCEPT;
    }
    rewind_output(stream);
    sni_stream_schedule(stream);
}

/* `closed` is called later, see tell_all_closed. */
static void give_up(struct sn_stream *stream, enum sn_err reason)
{
    stream->pending = 0;
    if (stream->is_complete) return; /* nothing is left to lose, and `closed` would be a lie */
    sni_stream_kill(stream, reason, 0);
    sn_list_push(&stream->mux->closing, &stream->closing);
}

static void leave_lane(struct sn_stream *stream, int resume, enum sn_err reason)
{
    struct sn_mux *mux = stream->mux;
    detach(stream);
    if (stream->is_dead || stream->is_freed) {
        stream->pending = 0; /* the peer will ask if it still wants to know */
        sni_stream_reap(stream);
        return;
    }
    if (resume && (stream->flags & SN_STREAM_SESSION) == 0) {
        move(stream, pick_lane(mux));
        return;
    }
    give_up(stream, reason);
}

/* Users are called only when every stream has its place, for they may open and free others. */
static void tell_all_closed(struct sn_mux *mux)
{
    for (;;) {
        struct sn_list *node = sn_list_pop(&mux->closing);
        if (node == NULL) break;
        sni_stream_tell_closed(SN_CONTAINER_OF(node, struct sn_stream, closing));
    }
}

void sn_mux_lane_down(struct sn_mux *mux, unsigned lane, int resume, enum sn_err reason)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    SN_ASSERT(lane < SN_LANES_MAX);
    SN_ASSERT(reason != SN_OK);
    if (!mux->lanes[lane].is_up) return;
    mux->lanes[lane].is_up = 0;
    sni_replies_fini(&mux->lanes[lane].replies);
    SN_LIST_EACH_SAFE (it, &mux->streams) {
        struct sn_stream *stream = SN_CONTAINER_OF(it, struct sn_stream, all);
        if (stream->lane == lane) leave_lane(stream, resume, reason);
    }
    tell_all_closed(mux);
}

/* A complete one waits for its reader only. */
uint32_t sni_stream_is_orphan(const struct sn_stream *stream)
{
    return stream->lane == SNI_LANE_NONE && !stream->is_dead && !stream->is_complete;
}

uint32_t sn_mux_orphans(const struct sn_mux *mux)
{
    uint32_t count = 0;
    SN_LIST_EACH (it, &mux->streams) {
        count += sni_stream_is_orphan(SN_CONTAINER_OF(it, struct sn_stream, all));
    }
    return count;
}

uint32_t sn_mux_resume(struct sn_mux *mux)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    uint32_t resumed = 0;
    SN_LIST_EACH (it, &mux->streams) {
        struct sn_stream *stream = SN_CONTAINER_OF(it, struct sn_stream, all);
        unsigned lane = pick_lane(mux);
        if (stream->lane != SNI_LANE_NONE || stream->is_dead || lane == SNI_LANE_NONE) continue;
        resumed += sni_stream_is_orphan(stream);
        detach(stream);
        move(stream, lane);
    }
    mux->stats.resumed += resumed;
    return resumed;
}

void sn_mux_orphans_close(struct sn_mux *mux, enum sn_err reason)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    SN_ASSERT(reason != SN_OK);
    SN_LIST_EACH_SAFE (it, &mux->streams) {
        struct sn_stream *stream = SN_CONTAINER_OF(it, struct sn_stream, all);
        if (stream->lane != SNI_LANE_NONE || stream->is_dead) continue;
        detach(stream);
        give_up(stream, reason);
    }
    tell_all_closed(mux);
}

uint64_t sn_mux_tick(struct sn_mux *mux, uint64_t now_ns)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    if (sn_list_is_empty(&mux->delayed)) {
        mux->delayed_until = 0;
        return UINT64_MAX;
    }
    if (mux->delayed_until == 0) mux->delayed_until = now_ns + SN_STREAM_ACK_DELAY_NS;
    if (now_ns < mux->delayed_until) return mux->delayed_until;
    mux->delayed_until = 0;
    for (;;) {
        struct sn_list *node = sn_list_pop(&mux->delayed);
        if (node == NULL) break;
        struct sn_stream *stream = SN_CONTAINER_OF(node, struct sn_stream, delayed);
        stream->pending |= SNI_ACK;
        sni_stream_schedule(stream);
    }
    return UINT64_MAX;
}

/* --- Looking ---------------------------------------------------------------------------------- */

struct sn_stream *sn_mux_next_stream(const struct sn_mux *mux, const struct sn_stream *stream)
{
    SN_ASSERT(mux->magic == SNI_MUX_MAGIC);
    const struct sn_list *at = stream == NULL ? &mux->streams : &stream->all;
    for (struct sn_list *it = at->next; it != &mux->streams; it = it->next) {
        struct sn_stream *found = SN_CONTAINER_OF(it, struct sn_stream, all);
        if (!found->is_freed) return found;
    }
    return NULL;
}

void sn_mux_stats(const struct sn_mux *mux, struct sn_mux_stats *out_stats)
{
    *out_stats = mux->stats;
}
