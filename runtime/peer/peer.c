/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One peer: its place in the tables, letters to and from it, channels that are not a session yet.
 *
 * Guarantees: a letter that arrives is checked against the access rules before a mailbox sees it.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "peer/peer_int.h"

#define ACK_DELAY_NS (1 * SN_MS)
#define RESEND_NS    (2000 * SN_MS)

static void on_flush(struct sn_io *io, unsigned ready);
static void on_delivery_timer(struct sn_timer *timer, struct sn_worker *worker);

/* --- Construction ------------------------------------------------------------------------------------- */

static enum sn_reason on_deliver(void *arg, const struct sn_incoming *incoming);
static void on_outcome(void *arg, struct sn_letter *letter, enum sn_outcome outcome,
                       enum sn_reason reason);
static const struct sn_delivery_ops delivery_ops = {on_deliver, on_outcome};

static void fill_random(void *arg, void *out, size_t size)
{
    struct sn_peer *peer = arg;
    sn_env_random(peer->net->config.env, out, size);
}

static enum sn_err new_delivery(struct sn_peer *peer)
{
    const struct sn_self *self = &peer->net->config.self;
    struct sn_delivery_config config = {
        .ops = &delivery_ops,
        .arg = peer,
        .key = self->key,
        .boot_key = self->boot_key,
        .self = {.id = sn_key_id(self->key), .epoch = self->epoch},
        .random = fill_random,
        /* Senders reserved within the real bounds before a letter came here (net.c). */
        .queue_bytes_max = UINT32_MAX,
        .queue_letters_max = UINT32_MAX,
        .window_bytes = SN_DELIVERY_WINDOW_BYTES,
        .ack_delay_ns = ACK_DELAY_NS,
        .resend_ns = RESEND_NS,
    };
    sn_boot_key_public(self->boot_key, config.self.boot_public);
    return sn_delivery_new(&config, &peer->delivery);
}

enum sn_err sni_peer_set_link(struct sn_peer *peer, const struct sn_net_link *link)
{
    peer->link = sn_alloc(sizeof *peer->link);
    if (peer->link == NULL) return SN_ENOMEM;
    *peer->link = *link;
    return SN_OK;
}

enum sn_err sni_peer_new(struct sn_net *net, const char *name, struct sn_peer **out_peer)
{
    struct sn_peer *peer = sn_alloc(sizeof *peer);
    if (peer == NULL) return SN_ENOMEM;
    peer->magic = SNI_PEER_MAGIC;
    peer->net = net;
    peer->index = net->peer_count;
    peer->hub = &net->hubs[peer->index % net->hub_count];
    peer->worker = peer->hub->worker;
    peer->since_ns = sn_env_now_ns(net->config.env);
    sn_list_init(&peer->arrivals);
    sn_list_init(&peer->flows);
    sn_io_init(&peer->flusher, SN_IO_URGENT, on_flush);
    sn_timer_init(&peer->delivery_timer, on_delivery_timer);
    sn_timer_init(&peer->redial_timer, sni_dial_timer);
    sni_orphans_init(peer);
    sni_choice_init(peer);
    enum sn_err err = sn_text_copy(peer->name, sizeof peer->name, name, strlen(name));
    if (err == SN_OK) {
        peer->entries = sn_alloc(net->hub_count * sizeof *peer->entries);
        err = peer->entries == NULL ? SN_ENOMEM : new_delivery(peer);
    }
    if (err == SN_OK) err = sn_io_open(&peer->flusher, peer->worker, SN_SOCK_NONE);
    if (err != SN_OK) {
        sni_peer_free(peer);
        return err;
    }
    for (uint32_t i = 0; i < net->hub_count; i++) peer->entries[i].peer = peer;
    *out_peer = peer;
    return SN_OK;
}

void sni_peer_free(struct sn_peer *peer)
{
    if (peer == NULL) return;
    SN_ASSERT(peer->magic == SNI_PEER_MAGIC);
    sni_peer_close(peer, 0);
    sn_timer_stop(peer->worker, &peer->delivery_timer);
    sn_timer_stop(peer->worker, &peer->redial_timer);
    sn_timer_stop(peer->worker, &peer->orphan_timer);
    sn_timer_stop(peer->worker, &peer->challenge_timer);
    sn_io_close(&peer->flusher);
    sn_delivery_free(peer->delivery);
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) sn_buf_unref(&peer->pending[i]);
    sni_assoc_unref(peer->assoc);
    sn_free(peer->link, sizeof *peer->link);
    sn_free(peer->entries, peer->net->hub_count * sizeof *peer->entries);
    peer->magic = 0;
    sn_free(peer, sizeof *peer);
}

void sni_peer_set_state(struct sn_peer *peer, enum sn_peer_state state, const char *reason)
{
    if (peer->state != state) peer->since_ns = sn_worker_now(peer->worker);
    peer->state = state;
    (void)snprintf(peer->reason, sizeof peer->reason, "%s", reason); /* cut is fine */
}

enum sn_err sni_peer_identify(struct sn_peer *peer, const struct sn_channel *channel)
{
    const struct sn_hello *hello = sn_channel_hello(channel);
    if (peer->has_id && !sn_key_id_is_equal(&peer->id, &hello->id)) {
        /* A new key for the same name, vouched for by the authority: what was in flight to the old one is lost. */
        struct sn_delivery *old = peer->delivery;
        enum sn_err err = new_delivery(peer);
        if (err != SN_OK) {
            peer->delivery = old;
            return err;
        }
        sn_delivery_free(old);
    }
    peer->has_id = 1;
    peer->id = hello->id;
    peer->cert = sn_channel_peer(channel)->cert;
    peer->highest_epoch = hello->epoch;
    return SN_OK;
}

/* --- Letters out -------------------------------------------------------------------------------------- */

/* An answer of the peer that it did not take the message; those that never left say nothing about it. */
static void note_undelivered(struct sn_peer *peer, const struct sn_letter *letter,
                             enum sn_reason reason)
{
    struct sn_peer_undelivered *last = &peer->undelivered;
    if (reason != SN_REASON_DENIED && reason != SN_REASON_NO_ACTOR &&
        reason != SN_REASON_MAILBOX_FULL && reason != SN_REASON_ACTOR_FAILED) {
        return;
    }
    last->reason = reason;
    last->at_ns = sn_worker_now(peer->worker);
    (void)snprintf(last->actor, sizeof last->actor, "%s", letter->to_actor); /* a label: fits */
    (void)snprintf(last->type, sizeof last->type, "%s", letter->type);       /* likewise */
}

static void forget_undelivered(struct sn_peer *peer, const struct sn_letter *letter)
{
    struct sn_peer_undelivered *last = &peer->undelivered;
    if (last->reason == SN_REASON_NONE || strcmp(last->actor, letter->to_actor) != 0) return;
    if (strcmp(last->type, letter->type) == 0) last->reason = SN_REASON_NONE;
}

static void on_outcome(void *arg, struct sn_letter *letter, enum sn_outcome outcome,
                       enum sn_reason reason)
{
    struct sn_peer *peer = arg;
    unsigned class_id = letter->class_id;
    switch (outcome) {
    case SN_DELIVERED:
        peer->outcomes.delivered++;
        forget_undelivered(peer, letter);
        break;
    case SN_UNDELIVERED:
        peer->outcomes.undelivered[reason]++;
        note_undelivered(peer, letter, reason);
        break;
    case SN_UNKNOWN: peer->outcomes.unknown[reason]++; break;
    }
    atomic_fetch_sub_explicit(&peer->queued_bytes[class_id], letter->cost, memory_order_relaxed);
    atomic_fetch_sub_explicit(&peer->queued_letters[class_id], 1, memory_order_relaxed);
    sn_system_settle(peer->net->system, letter, outcome, reason);
}

void sni_peer_enqueue(struct sn_peer *peer, struct sn_letter *letter)
{
    peer->arrived++;
    letter->queued_ns = sn_worker_now(peer->worker);
    enum sn_err err = sn_delivery_enqueue(peer->delivery, letter);
    if (err != SN_OK) {
        /* It was accepted, so it must be accounted: delivery had no memory for it. */
        on_outcome(peer, letter, SN_UNDELIVERED, SN_REASON_NO_MEMORY);
    }
    sni_peer_flush(peer);
}

void sni_peer_flush(struct sn_peer *peer)
{
    if (peer->flusher.is_open) sn_io_kick(&peer->flusher);
}

/* Gives one parcel to the link; keeps it when the link is full. */
static enum sn_err send_parcel(struct sn_peer *peer, unsigned class_id, const uint8_t *bytes,
                               uint32_t size)
{
    enum sn_err err = sn_link_send(peer->session->link, (enum sn_class)class_id, bytes, size);
    if (err != SN_EAGAIN) return err;
    peer->is_blocked[class_id] = 1;
    return sn_buf_copy(bytes, size, &peer->pending[class_id]);
}

static enum sn_err flush_class(struct sn_peer *peer, unsigned class_id)
{
    uint64_t now = sn_worker_now(peer->worker);
    struct sn_buf *pending = &peer->pending[class_id];
    if (pending->size > 0) {
        struct sn_buf parcel = *pending;
        *pending = (struct sn_buf){0};
        enum sn_err err = send_parcel(peer, class_id, parcel.data, parcel.size);
        sn_buf_unref(&parcel);
        if (err != SN_OK) return err;
    }
    while (!peer->is_blocked[class_id] &&
           sn_delivery_has_output(peer->delivery, (enum sn_class)class_id, now)) {
        uint32_t size = 0;
        enum sn_err err = sn_delivery_output(peer->delivery, (enum sn_class)class_id, now,
                                             peer->hub->parcel, &size);
        if (err == SN_ENOENT) return SN_OK;
        if (err == SN_OK) err = send_parcel(peer, class_id, peer->hub->parcel, size);
        if (err != SN_OK) return err;
    }
    return SN_OK;
}

static void set_delivery_timer(struct sn_peer *peer)
{
    uint64_t at_ns = sn_delivery_tick(peer->delivery, sn_worker_refresh_now(peer->worker));
    if (peer->session != NULL) {
        uint64_t mux_ns = sn_mux_tick(peer->session->assoc->mux, sn_worker_now(peer->worker));
        if (mux_ns < at_ns) at_ns = mux_ns;
    }
    if (at_ns == UINT64_MAX) {
        sn_timer_stop(peer->worker, &peer->delivery_timer);
    } else {
        sn_timer_start(peer->worker, &peer->delivery_timer, at_ns);
    }
}

static void on_flush(struct sn_io *io, unsigned ready)
{
    struct sn_peer *peer = SN_CONTAINER_OF(io, struct sn_peer, flusher);
    (void)ready; /* no socket */
    enum sn_err err = SN_OK;
    set_delivery_timer(peer);
    if (peer->session == NULL || peer->session->link == NULL) return;
    for (unsigned i = 0; i < SN_CLASS_COUNT && err == SN_OK; i++) {
        if (!peer->is_blocked[i]) err = flush_class(peer, i);
    }
    /* ECLOSED: the link says `down` by itself. What was taken from delivery is sent again on the next session. */
    if (err != SN_OK && err != SN_ECLOSED) {
        sn_logger_write(sni_hub_logger(peer->hub), SN_WARN, "PARCEL-NOT-SENT", "net",
                        "peer=%s err=%s", peer->name, sn_err_name(err));
        sni_session_close(peer->session, err, "a parcel could not be sent");
        return;
    }
    set_delivery_timer(peer);
}

static void on_delivery_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    (void)worker; /* the peer's */
    sni_peer_flush(SN_CONTAINER_OF(timer, struct sn_peer, delivery_timer));
}

/* --- Letters in ------------------------------------------------------------------------------------------ */

static enum sn_reason check_access(struct sn_peer *peer, const struct sn_incoming *incoming)
{
    /* An answer is matched with its question by the actor that asked. */
    if (incoming->kind == SN_LETTER_REPLY) return SN_REASON_NONE;
    struct sn_origin origin = {.agent = peer->name,
                               .roles = (const char(*)[SN_LABEL_BYTES_MAX + 1]) peer->cert.roles,
                               .role_count = peer->cert.role_count};
    enum sn_err err =
        sn_access_check(peer->hub->access, &origin, incoming->to_actor, incoming->type);
    if (err == SN_OK) return SN_REASON_NONE;
    sni_net_metric(peer->hub, SNI_NET_DENIED);
    sn_logger_write(sni_hub_logger(peer->hub), SN_WARN, "MESSAGE-DENIED", "net",
                    "from=%s to=%s type=%s hint=\"add an access rule\"", peer->name,
                    incoming->to_actor, incoming->type);
    return SN_REASON_DENIED;
}

static enum sn_reason on_deliver(void *arg, const struct sn_incoming *incoming)
{
    struct sn_peer *peer = arg;
    struct sn_system *system = peer->net->system;
    struct sn_letter *letter = NULL;
    enum sn_reason reason = check_access(peer, incoming);
    if (reason != SN_REASON_NONE) return reason;
    struct sn_letter_fields fields = {.from_agent = peer->name,
                                      .from_actor = incoming->from_actor,
                                      .to_agent = "",
                                      .to_actor = incoming->to_actor,
                                      .type = incoming->type,
                                      .payload = incoming->payload,
                                      .payload_size = incoming->payload_size};
    if (sn_letter_new(&fields, &letter) != SN_OK) return SN_REASON_NO_MEMORY;
    letter->kind = (uint8_t)incoming->kind;
    letter->class_id = (uint8_t)incoming->class_id;
    letter->correlation = incoming->correlation;
    letter->deadline_ns = incoming->deadline_ns;
    if (incoming->kind != SN_LETTER_REPLY) {
        letter->to_ref = sn_system_find(system, incoming->to_actor);
    }
    reason = sn_system_place(system, letter);
    if (reason != SN_REASON_NONE) sn_letter_free(letter);
    return reason;
}

/* --- Channels that are not a session yet ----------------------------------------------------------------------- */

static struct sn_channel **slot_of(struct sn_peer *peer, const struct sn_channel *channel)
{
    for (unsigned i = 0; i < SNI_CANDIDATES_MAX; i++) {
        if (peer->candidates[i] == channel) return &peer->candidates[i];
    }
    return NULL;
}

static int is_older(const struct sn_channel *a, const struct sn_channel *b)
{
    int is_gone = sn_channel_is_closing(a);
    if (is_gone != sn_channel_is_closing(b)) return is_gone;
    return sn_channel_since_ns(a) < sn_channel_since_ns(b);
}

/* A free place. When all are taken the oldest attempt makes room, those that were refused first: a clone that leaves
 * one handshake after the other must not keep the agent itself out. */
static struct sn_channel **make_place(struct sn_peer *peer)
{
    struct sn_channel *oldest = NULL;
    struct sn_channel **slot = slot_of(peer, NULL);
    if (slot != NULL) return slot;
    for (unsigned i = 0; i < SNI_CANDIDATES_MAX; i++) {
        struct sn_channel *channel = peer->candidates[i];
        if (sni_session_awaits(peer->session, channel)) continue;
        if (oldest == NULL || is_older(channel, oldest)) oldest = channel;
    }
    SN_ASSERT(oldest != NULL); /* a session awaits one at most */
    sni_net_metric(peer->hub, SNI_NET_SHED);
    sn_channel_abort(oldest, SN_EFULL, "made room for a later connection"); /* on_down frees it */
    return slot_of(peer, NULL);
}

void sni_peer_arrive(struct sn_peer *peer, struct sn_lane *lane)
{
    const struct sn_net_config *net = &peer->net->config;
    struct sn_channel **slot = peer->is_closing ? NULL : make_place(peer);
    struct sn_channel_config config = {
        .self = &net->self, .worker = peer->worker, .ops = &sni_candidate_ops, .user = peer};
    if (slot == NULL || sn_channel_adopt(&config, lane, slot) != SN_OK) {
        sn_lane_free(lane);
    }
}

/* Takes the channel out of wherever it waits. */
static void release(struct sn_peer *peer, struct sn_channel *channel)
{
    struct sn_channel **slot = slot_of(peer, channel);
    sni_choice_forget(peer, channel);
    if (slot != NULL) *slot = NULL;
    slot = sni_dial_slot(peer, channel);
    if (slot != NULL) *slot = NULL;
}

static void on_proven(void *user, struct sn_channel *channel)
{
    struct sn_peer *peer = user;
    if (sni_dial_slot(peer, channel) != NULL) sni_dials_drop(peer, channel); /* it won the race */
    sni_choice_proven(peer, channel);
}

static void on_up(void *user, struct sn_channel *channel)
{
    struct sn_peer *peer = user;
    release(peer, channel);
    if (sn_channel_lane_index(channel) != 0) {
        if (!sni_session_awaits(peer->session, channel)) {
            sn_channel_free(channel);
            return;
        }
        sni_session_bulk_up(peer->session, channel);
        return;
    }
    sn_timer_stop(peer->worker, &peer->redial_timer);
    sni_dials_drop(peer, NULL);
    peer->was_told = 0;
    peer->is_suspect = peer->is_moving = 0;
    enum sn_err err = peer->session != NULL ? SN_ESTATE : sni_session_begin(peer, channel);
    if (err == SN_OK) return;
    const struct sn_peer_fault fault = {.err = err};
    sn_channel_free(channel);
    sni_dial_failed(peer, &fault, sn_err_text(err));
}

static void tell_failure(struct sn_peer *peer, const struct sn_lane_failure *failure,
                         int was_dialing)
{
    char reason[sizeof peer->reason];
    struct sn_peer_fault fault = {.err = failure->err,
                                  .is_refusal = failure->is_refusal,
                                  .was_refused = failure->refused_err != SN_OK,
                                  .has_key = failure->has_key,
                                  .key = failure->key};
    if (fault.was_refused) fault.err = failure->refused_err;
    if (failure->has_key) memcpy(fault.agent, failure->agent, sizeof fault.agent);
    (void)snprintf(reason, sizeof reason, "%s%s%s", sn_err_name(failure->err),
                   failure->detail[0] == '\0' ? "" : ": ", failure->detail); /* cut is fine */
    if (failure->is_refusal) sni_net_refuse(peer->hub, failure);
    if (was_dialing) {
        sni_dial_failed(peer, &fault, reason);
    } else if (fault.was_refused && peer->link == NULL && peer->session == NULL) {
        peer->fault = fault; /* it dials, and then does not want us: nobody else here would tell */
        sni_peer_set_state(peer, SN_PEER_DOWN, reason);
    }
}

static void on_down(void *user, struct sn_channel *channel, const struct sn_lane_failure *failure)
{
    struct sn_peer *peer = user;
    int was_dialing = sni_dial_slot(peer, channel) != NULL;
    struct sni_session *session = peer->session;
    release(peer, channel);
    if (session != NULL && session->bulk_candidate == channel) {
        sn_channel_free(channel);
        sni_session_bulk_failed(session, failure);
        return;
    }
    tell_failure(peer, failure, was_dialing);
    sn_channel_free(channel);
}

static void on_answered(void *user, struct sn_channel *channel, uint64_t rtt_ns)
{
    (void)user;
    (void)channel;
    (void)rtt_ns; /* kept by the channel; becomes interesting with the session */
}

static void on_input_done(void *user, struct sn_channel *channel)
{
    (void)user;
    (void)channel; /* nothing is served yet */
}

static void on_silent(void *user, struct sn_channel *channel)
{
    (void)user;
    (void)channel; /* it becomes a session at once, or goes */
}

const struct sn_channel_ops sni_candidate_ops = {.proven = on_proven,
                                                 .up = on_up,
                                                 .answered = on_answered,
                                                 .silent = on_silent,
                                                 .down = on_down,
                                                 .input_done = on_input_done};

/* --- End -------------------------------------------------------------------------------------- */

void sni_peer_close(struct sn_peer *peer, int is_polite)
{
    peer->is_closing = 1;
    sn_timer_stop(peer->worker, &peer->redial_timer);
    for (unsigned i = 0; i < SNI_CANDIDATES_MAX; i++) {
        struct sn_channel *channel = peer->candidates[i];
        if (channel == NULL) continue;
        release(peer, channel);
        if (peer->session != NULL && peer->session->bulk_candidate == channel) {
            peer->session->bulk_candidate = NULL;
        }
        sn_channel_free(channel);
    }
    sni_dials_drop(peer, NULL);
    sni_orphans_close(peer, SN_ECANCELLED);
    if (peer->session == NULL) return;
    if (is_polite) {
        sn_channel_goodbye(peer->session->control);
    } else {
        sni_session_close(peer->session, SN_ECANCELLED, "shutting down");
    }
}
