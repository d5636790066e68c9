/* SPDX-License-Identifier: Apache-2.0 */
/* Views for the control socket: a task that goes from worker to worker and lets a visitor see what each holds. */
#include <stdio.h>
#include <string.h>

#include "peer/peer_int.h"

struct tour {
    struct sn_task task;
    struct sn_net *net;
    struct sn_worker *from;
    const struct sn_tour_ops *ops;
    void *arg;
    uint32_t next; /* hub to visit */
};

static void describe_session(struct sn_peer *peer, int with_nng, struct sn_peer_info *info)
{
    const struct sni_session *session = peer->session;
    if (session == NULL) return;
    struct sn_link_stats now;
    sn_netaddr_format(sn_channel_remote(session->control), info->remote);
    info->rtt_us = sn_channel_rtt_ns(session->control) / 1000;
    if (session->link == NULL) return;
    sn_link_stats(session->link, with_nng, &now);
    sni_link_stats_add(&info->link, &now);
}

static void describe_waiting(struct sn_peer *peer, struct sn_peer_info *info)
{
    const struct sn_letter *oldest = sn_delivery_oldest(peer->delivery);
    if (oldest != NULL) info->oldest_ns = oldest->queued_ns;
    if (sn_timer_is_started(&peer->redial_timer)) info->next_at_ns = peer->redial_timer.node.key;
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        info->queued_bytes +=
            atomic_load_explicit(&peer->queued_bytes[i], memory_order_relaxed); /* a figure only */
    }
}

static void describe(struct sn_peer *peer, int with_nng, struct sn_peer_info *info)
{
    struct sn_ledger now = {0};
    uint64_t now_ns = sn_worker_refresh_now(peer->worker);
    *info = (struct sn_peer_info){
        .agent = peer->name,
        .now_ns = now_ns,
        .is_linked = peer->link != NULL,
        .dialed = peer->dialed,
        .fault = &peer->fault,
        .end = &peer->end,
        .undelivered = &peer->undelivered,
        .attempts = peer->tries,
        .heard_ns = peer->heard_ns,
        .has_id = peer->has_id,
        .id = peer->id,
        .state = peer->state,
        .since_ms = (now_ns - peer->since_ns) / SN_MS,
        .clock_offset_ms = peer->clock_offset_ms,
        .sessions = peer->sessions,
        .link = peer->past_links,
    };
    if (!peer->has_id && peer->link != NULL && peer->link->has_key) {
        info->has_id = 1;
        info->id = peer->link->key;
    }
    memcpy(info->reason, peer->reason, sizeof info->reason);
    describe_waiting(peer, info);
    describe_session(peer, with_nng, info);
    sn_delivery_ledger(peer->delivery, &now);
    info->ledger = peer->outcomes;
    info->ledger.queued = now.queued;
    sn_delivery_stats(peer->delivery, &info->delivery);
    /* Letters between a sender's worker and this one are accepted and queued. Read `accepted` last of all, so that
     * none is missed. */
    uint64_t accepted = atomic_load(&peer->accepted);
    info->ledger.queued += accepted - peer->arrived;
    info->ledger.accepted = accepted;
    if (peer->assoc != NULL) sn_mux_stats(peer->assoc->mux, &info->streams);
}

static void go(struct sn_task *task, struct sn_worker *worker)
{
    struct tour *tour = SN_CONTAINER_OF(task, struct tour, task);
    struct sn_net *net = tour->net;
    if (tour->next == net->hub_count) {
        SN_ASSERT(worker == tour->from);
        tour->ops->done(tour->arg);
        sn_free(tour, sizeof *tour);
        return;
    }
    struct sni_hub *hub = &net->hubs[tour->next];
    SN_ASSERT(hub->worker == worker);
    SN_LIST_EACH (node, &hub->peers) {
        struct sn_peer_info info;
        if (tour->ops->peer == NULL) break;
        describe(SN_CONTAINER_OF(node, struct sn_peer, node), tour->ops->with_nng, &info);
        tour->ops->peer(tour->arg, &info);
    }
    if (tour->ops->flow != NULL) sni_flows_visit(hub, tour->ops->flow, tour->arg);
    tour->next++;
    sn_worker_post(tour->next < net->hub_count ? net->hubs[tour->next].worker : tour->from,
                   &tour->task);
}

enum sn_err sn_net_tour(struct sn_net *net, struct sn_worker *from, const struct sn_tour_ops *ops,
                        void *arg)
{
    struct tour *tour = sn_alloc(sizeof *tour);
    if (tour == NULL) return SN_ENOMEM;
    tour->task.run = go;
    tour->net = net;
    tour->from = from;
    tour->ops = ops;
    tour->arg = arg;
    sn_worker_post(net->hubs[0].worker, &tour->task);
    return SN_OK;
}

/* --- Refusals ------------------------------------------------------------------------------------------ */

struct refused_view {
    struct sn_task task;
    struct sn_net *net;
    void (*visit)(void *arg, const struct sn_refused_info *info);
    void (*done)(void *arg);
    void *arg;
};

static void show_refused(struct sn_task *task, struct sn_worker *worker)
{
    struct refused_view *view = SN_CONTAINER_OF(task, struct refused_view, task);
    struct sn_net *net = view->net;
    (void)worker; /* home */
    for (uint32_t i = 0; i < net->refused_count; i++) {
        uint32_t index = (net->refused_next + SN_REFUSED_MAX - 1 - i) % SN_REFUSED_MAX;
        view->visit(view->arg, &net->refused[index]);
    }
    view->done(view->arg);
    sn_free(view, sizeof *view);
}

enum sn_err sn_net_refused(struct sn_net *net,
                           void (*visit)(void *arg, const struct sn_refused_info *info),
                           void (*done)(void *arg), void *arg)
{
    struct refused_view *view = sn_alloc(sizeof *view);
    if (view == NULL) return SN_ENOMEM;
    view->task.run = show_refused;
    view->net = net;
    view->visit = visit;
    view->done = done;
    view->arg = arg;
    sn_worker_post(net->hubs[0].worker, &view->task);
    return SN_OK;
}
