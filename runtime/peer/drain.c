/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orderly end of a net.
 *
 * States:  waiting --nothing queued, in flight or open; or sn_net_finish--> leaving --no session is left--> done
 * Guarantees: in `waiting` nothing new comes in from outside; in `leaving` every peer is told goodbye, and a peer that
 * does not listen is cut off after LEAVE_NS.
 */
#include "peer/peer_int.h"

#define LOOK_EVERY_NS (5 * SN_MS)
#define LEAVE_NS      (500 * SN_MS)

enum phase { PHASE_WAITING, PHASE_LEAVING, PHASE_CUTTING };

struct sni_drain {
    struct sn_task start_task;
    struct sn_task finish_task;
    struct sn_task walk_task; /* goes from worker to worker and back home */
    struct sn_timer timer;    /* on home */
    struct sn_net *net;
    void (*done)(void *arg);
    void *arg;
    enum phase phase;
    uint8_t is_walking;
    uint8_t must_leave; /* finish was asked for */
    uint32_t next;      /* hub to visit */
    uint64_t busy;      /* what this walk found */
    uint64_t leaving_since_ns;
};

static int is_peer_busy(const struct sn_peer *peer)
{
    if (!sn_list_is_empty(&peer->flows)) return 1;
    if (atomic_load(&peer->accepted) != peer->arrived) return 1;
    /* Nobody to send to: waiting for a peer that is not there would only use up the time. */
    return peer->session != NULL && !sn_delivery_is_idle(peer->delivery);
}

static void visit_hub(struct sni_drain *drain, struct sni_hub *hub)
{
    if (drain->phase != PHASE_WAITING) drain->busy += hub->session_count;
    SN_LIST_EACH (node, &hub->peers) {
        struct sn_peer *peer = SN_CONTAINER_OF(node, struct sn_peer, node);
        switch (drain->phase) {
        case PHASE_WAITING:
            sn_timer_stop(peer->worker, &peer->redial_timer);
            if (peer->session == NULL) sni_flows_give_up(peer); /* nobody will come for them */
            drain->busy += (uint64_t)is_peer_busy(peer);
            break;
        case PHASE_LEAVING:
            if (!peer->is_closing) sni_peer_close(peer, 1);
            break;
        case PHASE_CUTTING: sni_peer_close(peer, 0); break;
        }
    }
}

static void walk(struct sni_drain *drain)
{
    drain->is_walking = 1;
    drain->next = 0;
    drain->busy = 0;
    sn_worker_post(drain->net->hubs[0].worker, &drain->walk_task);
}

/* Home again: what comes next. */
static void decide(struct sni_drain *drain)
{
    struct sn_net *net = drain->net;
    struct sn_worker *home = net->hubs[0].worker;
    uint64_t now = sn_worker_refresh_now(home);
    drain->is_walking = 0;
    if (drain->phase == PHASE_WAITING && (drain->busy == 0 || drain->must_leave)) {
        drain->phase = PHASE_LEAVING;
        drain->leaving_since_ns = now;
        atomic_store(&net->is_draining, 2);
        walk(drain);
        return;
    }
    if (drain->phase != PHASE_WAITING && drain->busy == 0) {
        drain->done(drain->arg);
        return;
    }
    if (drain->phase == PHASE_LEAVING && now - drain->leaving_since_ns > LEAVE_NS) {
        drain->phase = PHASE_CUTTING;
    }
    sn_timer_start(home, &drain->timer, now + LOOK_EVERY_NS);
}

static void on_walk(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_drain *drain = SN_CONTAINER_OF(task, struct sni_drain, walk_task);
    struct sn_net *net = drain->net;
    if (drain->next == net->hub_count) {
        decide(drain);
        return;
    }
    SN_ASSERT(net->hubs[drain->next].worker == worker);
    visit_hub(drain, &net->hubs[drain->next]);
    drain->next++;
    sn_worker_post(net->hubs[drain->next % net->hub_count].worker, task);
}

static void on_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sni_drain *drain = SN_CONTAINER_OF(timer, struct sni_drain, timer);
    (void)worker; /* home */
    if (!drain->is_walking) walk(drain);
}

static void close_hub_listeners(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_hub *hub = SN_CONTAINER_OF(task, struct sni_hub, drain_task);
    (void)worker; /* the hub's */
    sni_listeners_close(hub);
}

static void on_start(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_drain *drain = SN_CONTAINER_OF(task, struct sni_drain, start_task);
    struct sn_net *net = drain->net;
    (void)worker; /* home */
    for (uint32_t i = 0; i < net->listener_count; i++) sn_listener_close(net->listeners[i]);
    net->listener_count = 0;
    for (uint32_t i = 0; i < net->hub_count; i++) {
        net->hubs[i].drain_task.run = close_hub_listeners;
        sn_worker_post(net->hubs[i].worker, &net->hubs[i].drain_task);
    }
    walk(drain);
}

static void on_finish(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_drain *drain = SN_CONTAINER_OF(task, struct sni_drain, finish_task);
    (void)worker; /* home */
    drain->must_leave = 1;
}

void sn_net_drain(struct sn_net *net, void (*done)(void *arg), void *arg)
{
    SN_ASSERT(net->drain != NULL);
    net->drain->done = done;
    net->drain->arg = arg;
    atomic_store(&net->is_draining, 1);
    sn_worker_post(net->hubs[0].worker, &net->drain->start_task);
}

void sn_net_finish(struct sn_net *net)
{
    sn_worker_post(net->hubs[0].worker, &net->drain->finish_task);
}

enum sn_err sni_drain_new(struct sn_net *net)
{
    struct sni_drain *drain = sn_alloc(sizeof *drain);
    if (drain == NULL) return SN_ENOMEM;
    drain->net = net;
    drain->start_task.run = on_start;
    drain->finish_task.run = on_finish;
    drain->walk_task.run = on_walk;
    sn_timer_init(&drain->timer, on_timer);
    net->drain = drain;
    return SN_OK;
}

void sni_drain_free(struct sn_net *net)
{
    if (net->drain == NULL) return;
    sn_timer_stop(net->hubs[0].worker, &net->drain->timer);
    sn_free(net->drain, sizeof *net->drain);
    net->drain = NULL;
}
