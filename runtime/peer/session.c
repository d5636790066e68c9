/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One session with a peer: a control channel, a bulk channel, and the link whose sockets ride on the control lane.
 *
 * States:  begun --link open--> carrying --any part fails, or replaced--> closing --link closed--> freed
 * Guarantees: a session that lost a part is closed as a whole; its streams become orphans, or end at once when the
 * peer has left or this agent does; its link closes in its own order; nothing that its end calls back into is freed
 * before the end.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "link/link.h"
#include "peer/peer_int.h"

static void on_link_parcel(void *user, enum sn_class class_id, uint8_t *bytes, uint32_t size);
static void on_link_writable(void *user, enum sn_class class_id);
static void on_link_down(void *user, enum sn_err reason);
static void on_link_closed(void *user);

static const struct sn_link_ops_user link_ops = {on_link_parcel, on_link_writable, on_link_down,
                                                 on_link_closed};

#define TRIM_NS         (5000 * SN_MS)
#define GOOD_SESSION_NS (5000 * SN_MS) /* one that lasted so long resets the delay between dials */

/* --- Assoc ------------------------------------------------------------------------------------------ */

static void on_stream_opened(void *arg, struct sn_stream *stream, const char *service,
                             const uint8_t *meta, uint32_t meta_size);
static const struct sn_mux_ops mux_ops = {on_stream_opened};

static void on_mux_output(void *arg, unsigned lane)
{
    struct sn_peer *peer = arg;
    struct sni_session *session = peer->session;
    if (session == NULL || session->is_closing) return;
    struct sn_channel *channel = lane == 0 ? session->control : session->bulk;
    if (channel != NULL) sn_channel_kick(channel);
}

static int has_smaller_id(const struct sn_peer *peer)
{
    struct sn_key_id own = sn_key_id(peer->net->config.self.key);
    return memcmp(own.bytes, peer->id.bytes, sizeof own.bytes) < 0;
}

/* The mux for the peer's present boot: the one there is, or a fresh one. */
static enum sn_err assoc_for(struct sn_peer *peer, const struct sn_hello *hello)
{
    struct sni_assoc *assoc = peer->assoc;
    if (assoc != NULL && assoc->epoch == hello->epoch &&
        memcmp(assoc->boot_public, hello->boot_public, sizeof assoc->boot_public) == 0) {
        return SN_OK;
    }
    assoc = sn_alloc(sizeof *assoc);
    if (assoc == NULL) return SN_ENOMEM;
    struct sn_mux_config config = {.ops = &mux_ops,
                                   .arg = peer,
                                   .budget = peer->net->budget,
                                   .window_bytes = SN_STREAM_WINDOW_BYTES,
                                   .window_base_bytes = SN_STREAM_INITIAL_CREDIT,
                                   .streams_max = SN_STREAMS_MAX,
                                   .even_ids = (uint8_t)has_smaller_id(peer)};
    sn_env_random(peer->net->config.env, config.seed, sizeof config.seed);
    enum sn_err err = sn_mux_new(&config, &assoc->mux);
    if (err != SN_OK) {
        sn_free(assoc, sizeof *assoc);
        return err;
    }
    assoc->refs = 1;
    assoc->epoch = hello->epoch;
    memcpy(assoc->boot_public, hello->boot_public, sizeof assoc->boot_public);
    sn_mux_set_output_hook(assoc->mux, on_mux_output, peer);
    sni_orphans_close(peer, SN_ERESET); /* their other ends are gone with the former boot */
    sni_assoc_unref(peer->assoc);
    peer->assoc = assoc;
    return SN_OK;
}

/* --- Link --------------------------------------------------------------------------------------------- */

static void doom(struct sni_session *session, enum sn_err err);

/* The session is gone at once, and will come and go: that alone tells nobody what to mend. Once for each cause. */
static void warn_of_link(struct sn_peer *peer, enum sn_err err)
{
    if (peer->link_err == err) return;
    peer->link_err = err;
    if (err == SN_OK) return;
    const char *hint = "see the detail of PEER-DOWN";
    switch (err) {
    case SN_ENOFILES: hint = "raise the limit: ulimit -n, or LimitNOFILE= of the service"; break;
    case SN_ENOMEM: hint = "raise the limit of memory or of threads"; break;
    case SN_ENOENT: hint = "the folder of `run:` is gone; restart the agent"; break;
    case SN_EPERM: hint = "the folder of `run:` must belong to this user, with mode 0700"; break;
    case SN_EREADONLY: hint = "the folder of `run:` must be writable"; break;
    case SN_ENOSPC: hint = "the disk that holds the folder of `run:` is full"; break;
    default: break;
    }
    sn_logger_write(sni_hub_logger(peer->hub), SN_WARN, "LINK-FAILED", "net",
                    "peer=%s err=%s hint=\"%s\"", peer->name, sn_err_name(err), hint);
}

static void open_link(struct sni_session *session)
{
    struct sn_net *net = session->peer->net;
    struct sn_link_config config = {.env = net->config.env,
                                    .worker = session->peer->worker,
                                    .run_folder = net->config.run_folder,
                                    .ops = &link_ops,
                                    .user = session};
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) config.streams[i] = session->link_streams[i];
    enum sn_err err = sn_link_open(net->config.link_provider, &config, &session->link);
    warn_of_link(session->peer, err);
    if (err != SN_OK) {
        doom(session, err);
        return;
    }
    memset(session->link_streams, 0, sizeof session->link_streams);
    sni_peer_flush(session->peer);
}

static enum sn_err open_link_streams(struct sni_session *session)
{
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        uint8_t meta = (uint8_t)i;
        enum sn_err err = sn_stream_open(session->assoc->mux, 0, SN_QOS_CONTROL, SN_STREAM_SESSION,
                                         SNI_LINK_SERVICE, &meta, 1, &session->link_streams[i]);
        if (err != SN_OK) return err;
    }
    open_link(session);
    return SN_OK;
}

/* The peer opened one of the link's streams. */
static void take_link_stream(struct sni_session *session, struct sn_stream *stream,
                             const uint8_t *meta, uint32_t meta_size)
{
    int fits = session != NULL && session->link == NULL && !session->is_doomed && meta_size == 1 &&
               meta[0] < SN_CLASS_COUNT && session->link_streams[meta[0]] == NULL;
    if (!fits) {
        sn_stream_reset(stream, SN_ESTATE);
        sn_stream_free(stream);
        return;
    }
    session->link_streams[meta[0]] = stream;
    sn_stream_accept(stream);
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        if (session->link_streams[i] == NULL) return;
    }
    open_link(session);
}

static void on_stream_opened(void *arg, struct sn_stream *stream, const char *service,
                             const uint8_t *meta, uint32_t meta_size)
{
    struct sn_peer *peer = arg;
    if (strcmp(service, SNI_LINK_SERVICE) == 0) {
        take_link_stream(peer->session, stream, meta, meta_size);
    } else {
        sni_flow_opened(peer, stream, service, meta, meta_size);
    }
}

static void on_link_parcel(void *user, enum sn_class class_id, uint8_t *bytes, uint32_t size)
{
    struct sni_session *session = user;
    struct sn_peer *peer = session->peer;
    if (session->is_closing) return;
    enum sn_err err = sn_delivery_input(peer->delivery, class_id, bytes, size,
                                        sn_worker_refresh_now(peer->worker));
    sni_peer_flush(peer); /* acks, and what the window let go */
    if (err == SN_OK || err == SN_EREPLAY) return;
    sni_net_metric(peer->hub, SNI_NET_PARCELS_REFUSED);
    sn_logger_write(sni_hub_logger(peer->hub), SN_WARN, "PARCEL-REFUSED", "net", "peer=%s err=%s",
                    peer->name, sn_err_name(err));
    if (err == SN_EPROTO || err == SN_ENOMEM) doom(session, err);
}

static void on_link_writable(void *user, enum sn_class class_id)
{
    struct sni_session *session = user;
    if (session->is_closing) return;
    session->peer->is_blocked[class_id] = 0;
    sni_peer_flush(session->peer);
}

static void on_link_down(void *user, enum sn_err reason)
{
    doom(user, reason);
}

/* --- End -------------------------------------------------------------------------------------------------- */

void sni_link_stats_add(struct sn_link_stats *sum, const struct sn_link_stats *more)
{
    sum->sent += more->sent;
    sum->received += more->received;
    sum->nng_sent += more->nng_sent;
    sum->nng_received += more->nng_received;
    sum->pump_out += more->pump_out;
    sum->pump_in += more->pump_in;
}

static void trim(void *env)
{
    sn_env_trim(env);
}

static void on_trim_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sn_env *env = SN_CONTAINER_OF(timer, struct sni_hub, trim_timer)->net->config.env;
    (void)worker; /* the hub's */
    enum sn_err err = sn_env_offload(env, SN_OFFLOAD_CPU, trim, env);
    (void)err; /* when the pool is full, the end of another session will ask again */
}

void sni_hub_trim_init(struct sni_hub *hub)
{
    sn_timer_init(&hub->trim_timer, on_trim_timer);
}

/* What queues and windows had grown to lies in the allocator's arenas, which shrink only when told to. */
static void trim_soon(struct sni_hub *hub)
{
    sn_timer_start(hub->worker, &hub->trim_timer, sn_worker_now(hub->worker) + TRIM_NS);
}

static void free_session(struct sni_session *session)
{
    trim_soon(session->peer->hub);
    sn_list_remove(&session->node);
    SN_ASSERT(session->peer->hub->session_count > 0);
    session->peer->hub->session_count--;
    sni_assoc_unref(session->assoc);
    sn_free(session, sizeof *session);
}

static void on_link_closed(void *user)
{
    struct sni_session *session = user;
    struct sn_link_stats stats;
    sn_link_stats(session->link, 0, &stats); /* closed: nng's figures were taken */
    sni_link_stats_add(&session->peer->past_links, &stats);
    session->link = NULL;
    free_session(session);
}

/* Runs outside of every callback of the session's parts. */
static void run_doom(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_session *session = SN_CONTAINER_OF(task, struct sni_session, doom_task);
    (void)worker; /* the peer's */
    session->is_doomed = 2;
    if (!session->is_closing) {
        sni_session_close(session, session->doom_err, "the message link broke");
    } else if (session->link == NULL) {
        free_session(session);
    }
}

static void doom(struct sni_session *session, enum sn_err err)
{
    if (session->is_doomed || session->is_closing) return;
    session->is_doomed = 1;
    session->doom_err = err;
    session->doom_task.run = run_doom;
    sn_worker_post(session->peer->worker, &session->doom_task);
}

static void drop_channel(struct sn_channel **channel)
{
    struct sn_channel *gone = *channel;
    *channel = NULL;
    sn_channel_free(gone);
}

static void forget_bulk_candidate(struct sni_session *session)
{
    struct sn_peer *peer = session->peer;
    struct sn_channel *candidate = session->bulk_candidate;
    session->bulk_candidate = NULL;
    if (candidate == NULL) return;
    for (unsigned i = 0; i < SNI_CANDIDATES_MAX; i++) {
        if (peer->candidates[i] == candidate) peer->candidates[i] = NULL;
    }
    sn_channel_free(candidate);
}

void sni_session_close(struct sni_session *session, enum sn_err err, const char *detail)
{
    struct sn_peer *peer = session->peer;
    if (session->is_closing) return;
    SN_ASSERT(peer->session == session);
    session->is_closing = 1;
    peer->session = NULL;
    if (sn_worker_now(peer->worker) - session->up_since_ns > GOOD_SESSION_NS) peer->attempts = 1;
    sn_delivery_peer_down(peer->delivery);
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        sn_buf_unref(&peer->pending[i]); /* delivery resends it */
        peer->is_blocked[i] = 0;
    }
    int resume = !session->is_final && !peer->is_closing &&
                 atomic_load(&peer->net->is_draining) == 0 && peer->net->config.resume_ms > 0;
    /* Control first, so that no stream moves there from the bulk lane. */
    sn_mux_lane_down(session->assoc->mux, 0, resume, SN_ERESET);
    sn_mux_lane_down(session->assoc->mux, SNI_BULK_LANE, resume, SN_ERESET);
    sni_orphans_wait(peer);
    drop_channel(&session->bulk);
    forget_bulk_candidate(session);
    drop_channel(&session->control);
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        if (session->link_streams[i] != NULL) sn_stream_free(session->link_streams[i]);
        session->link_streams[i] = NULL;
    }
    sn_logger_write(sni_hub_logger(peer->hub), SN_INFO, "PEER-DOWN", "net",
                    "peer=%s reason=%s detail=\"%s\"", peer->name, sn_err_name(err), detail);
    char reason[sizeof peer->reason];
    (void)snprintf(reason, sizeof reason, "%s: %s", sn_err_name(err), detail); /* cut is fine */
    sni_peer_set_state(peer, SN_PEER_DOWN, reason);
    peer->end = (struct sn_peer_end){
        .err = err, .is_goodbye = session->is_final, .at_ns = sn_worker_now(peer->worker)};
    (void)snprintf(peer->end.detail, sizeof peer->end.detail, "%s", detail); /* cut is fine */
    if (session->link != NULL) {
        sn_link_close(session->link);
    } else if (session->is_doomed != 1) { /* else its task is under way and frees it */
        free_session(session);
    }
    peer->is_suspect = peer->is_moving = 0;
    sni_choice_incumbent_gone(peer);
    sni_peer_redial(peer);
}

/* --- Channels of the session ---------------------------------------------------------------------------------- */

static struct sni_session *session_of(struct sn_peer *peer, struct sn_channel *channel)
{
    struct sni_session *session = peer->session;
    SN_ASSERT(session != NULL);
    SN_ASSERT(channel == session->control || channel == session->bulk);
    return session;
}

static void on_answered(void *user, struct sn_channel *channel, uint64_t rtt_ns)
{
    struct sn_peer *peer = user;
    (void)rtt_ns; /* kept by the channel */
    if (peer->session == NULL || channel != peer->session->control) return;
    peer->heard_ns = sn_worker_now(peer->worker);
    sni_peer_trust(peer);
    sni_choice_answered(peer);
}

static void on_silent(void *user, struct sn_channel *channel)
{
    struct sn_peer *peer = user;
    struct sni_session *session = peer->session;
    if (session == NULL || channel != session->control) return;
    if (session->bulk != NULL && !sn_channel_is_silent(session->bulk)) return; /* it lives */
    sni_peer_suspect(peer);
}

static void on_channel_down(void *user, struct sn_channel *channel,
                            const struct sn_lane_failure *failure)
{
    struct sn_peer *peer = user;
    struct sni_session *session = session_of(peer, channel);
    if (failure->is_goodbye) session->is_final = 1;
    sni_session_close(session, failure->err, failure->detail);
}

static void on_input_done(void *user, struct sn_channel *channel)
{
    struct sn_peer *peer = user;
    (void)channel; /* one of this session */
    if (peer->session != NULL) {
        (void)sn_mux_tick(peer->session->assoc->mux, sn_worker_now(peer->worker)); /* see flusher */
        sni_peer_flush(peer);
    }
}

const struct sn_channel_ops sni_session_ops = {.answered = on_answered,
                                               .silent = on_silent,
                                               .down = on_channel_down,
                                               .input_done = on_input_done};

/* --- Beginning --------------------------------------------------------------------------------------------------- */

static void dial_bulk(struct sni_session *session)
{
    struct sn_peer *peer = session->peer;
    const struct sn_net_config *net = &peer->net->config;
    struct sn_channel_config config = {.self = &net->self,
                                       .worker = peer->worker,
                                       .ops = &sni_candidate_ops,
                                       .user = peer,
                                       .lane_index = SNI_BULK_LANE,
                                       .session = session->id};
    struct sn_dial dial = {.addr = *sn_channel_remote(session->control),
                           .expect_key = &peer->id,
                           .expect_agent = peer->name,
                           .timeout_ms = net->self.handshake_timeout_ms};
    enum sn_err err = sn_channel_dial(&config, peer->net->carrier, &dial, &session->bulk_candidate);
    if (err != SN_OK) doom(session, err);
}

static enum sn_err bring_up(struct sni_session *session, const struct sn_hello *hello)
{
    struct sn_peer *peer = session->peer;
    struct sn_seal_end end = {.id = hello->id, .epoch = hello->epoch};
    memcpy(end.boot_public, hello->boot_public, sizeof end.boot_public);
    enum sn_err err = sni_peer_identify(peer, session->control);
    if (err == SN_OK) err = assoc_for(peer, hello);
    if (err == SN_OK) {
        err = sn_delivery_peer_up(peer->delivery, &end, sn_worker_now(peer->worker));
    }
    return err;
}

enum sn_err sni_session_begin(struct sn_peer *peer, struct sn_channel *control)
{
    const struct sn_hello *hello = sn_channel_hello(control);
    char remote[SN_NETADDR_TEXT_MAX];
    SN_ASSERT(peer->session == NULL);
    struct sni_session *session = sn_alloc(sizeof *session);
    if (session == NULL) return SN_ENOMEM;
    session->peer = peer;
    session->control = control;
    session->id = sn_channel_session(control);
    session->up_since_ns = sn_worker_now(peer->worker);
    enum sn_err err = bring_up(session, hello);
    if (err != SN_OK) {
        sn_free(session, sizeof *session);
        return err;
    }
    session->assoc = sni_assoc_ref(peer->assoc);
    sn_list_push(&peer->hub->sessions, &session->node);
    peer->hub->session_count++;
    peer->session = session;
    peer->sessions++;
    peer->tries = 0;
    peer->fault = (struct sn_peer_fault){0};
    peer->heard_ns = session->up_since_ns;
    peer->clock_offset_ms = sn_hello_clock_offset_ms(hello, sn_env_wall_ms(peer->net->config.env));
    sn_channel_set_user(control, &sni_session_ops, peer);
    sn_channel_serve(control, session->assoc->mux);
    sni_net_metric(peer->hub, SNI_NET_SESSIONS);
    sn_netaddr_format(sn_channel_remote(control), remote);
    sn_logger_write(sni_hub_logger(peer->hub), SN_INFO, "PEER-UP", "net",
                    "peer=%s remote=%s dialed=%s epoch=%llu", peer->name, remote,
                    sn_channel_is_dialer(control) ? "yes" : "no", (unsigned long long)hello->epoch);
    sni_peer_set_state(peer, SN_PEER_UP, "");
    if (sn_channel_is_dialer(control)) dial_bulk(session);
    if (has_smaller_id(peer) && !session->is_doomed) {
        err = open_link_streams(session);
        if (err != SN_OK) doom(session, err);
    }
    return SN_OK;
}

int sni_session_awaits(const struct sni_session *session, const struct sn_channel *channel)
{
    return session != NULL && session->bulk == NULL && session->bulk_candidate == channel;
}

void sni_session_bulk_up(struct sni_session *session, struct sn_channel *bulk)
{
    SN_ASSERT(sni_session_awaits(session, bulk));
    session->bulk_candidate = NULL;
    session->bulk = bulk;
    sn_channel_set_user(bulk, &sni_session_ops, session->peer);
    sn_channel_serve(bulk, session->assoc->mux);
    sni_orphans_resume(session->peer);
    sni_flows_session_up(session->peer);
}

void sni_session_bulk_failed(struct sni_session *session, const struct sn_lane_failure *failure)
{
    session->bulk_candidate = NULL;
    sni_session_close(session, failure->err, failure->detail);
}
