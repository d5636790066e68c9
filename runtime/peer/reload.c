/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New access rules, links and TLS identity for a net that runs.
 *
 * Guarantees: everything that can fail is done before anything changes; each worker changes over by itself, and when
 * `done` is called all have; a session whose link stays is not touched; one that this agent dialed and whose address is
 * gone moves to the new one, and its streams with it; one whose link is gone ends with a goodbye.
 */
#include <string.h>

#include "peer/peer_int.h"

/* One step on one worker: the rules of a hub, or the link of a peer. */
struct step {
    struct sn_task task;
    struct sni_reload *reload;
    struct sni_hub *hub;      /* its rules, or */
    struct sn_peer *peer;     /* its link */
    struct sn_net_link *link; /* the new one; after the step the old one; NULL: none */
};

struct sni_reload {
    struct sn_net *net;
    const struct sn_access *access;
    void (*done)(void *arg);
    void *arg;
    struct sn_task done_task;
    _Atomic uint32_t pending; /* steps. Partner: whoever ends the last one tells home */
    uint32_t step_count;
    uint32_t step_room;
    struct step steps[];
};

static void free_reload(struct sni_reload *reload)
{
    for (uint32_t i = 0; i < reload->step_count; i++) {
        sn_free(reload->steps[i].link, sizeof *reload->steps[i].link);
    }
    sn_free(reload, sizeof *reload + reload->step_room * sizeof reload->steps[0]);
}

/* --- The peer's worker ----------------------------------------------------------------------------------- */

/* A name may lead to any address: it is not worth moving a session. */
static int may_lead_to(const struct sn_net_link *link, const struct sn_netaddr *addr)
{
    for (uint32_t i = 0; i < link->address_count; i++) {
        const struct sn_endpoint *endpoint = &link->addresses[i];
        if (!endpoint->is_literal || sn_netaddr_is_equal(&endpoint->addr, addr)) return 1;
    }
    return 0;
}

static int is_same_endpoint(const struct sn_endpoint *a, const struct sn_endpoint *b)
{
    return a->is_literal == b->is_literal && a->port == b->port && strcmp(a->host, b->host) == 0;
}

static int has_same_addresses(const struct sn_net_link *a, const struct sn_net_link *b)
{
    if (a->address_count != b->address_count) return 0;
    for (uint32_t i = 0; i < a->address_count; i++) {
        if (!is_same_endpoint(&a->addresses[i], &b->addresses[i])) return 0;
    }
    return 1;
}

static void drop_link(struct sn_peer *peer)
{
    struct sni_session *session = peer->session;
    sni_peer_stay(peer);
    if (session != NULL && sn_channel_is_dialer(session->control)) {
        session->is_final = 1;
        sn_channel_goodbye(session->control);
    } else if (session == NULL) {
        sni_orphans_close(peer, SN_ECANCELLED);
        peer->fault = (struct sn_peer_fault){0}; /* nobody dials any more */
        sni_peer_set_state(peer, SN_PEER_DOWN, "its link was removed");
    }
}

static void change_link(struct sn_peer *peer, const struct sn_net_link *old)
{
    struct sni_session *session = peer->session;
    const struct sn_net_link *link = peer->link;
    int is_ours = session != NULL && sn_channel_is_dialer(session->control);
    if (session != NULL && link->has_key && !sn_key_id_is_equal(&link->key, &peer->id)) {
        sni_session_close(session, SN_EMISMATCH, "another key is pinned now");
        return;
    }
    if (has_same_addresses(old, link)) return;
    peer->attempts = 0;
    sni_peer_stay(peer);
    if (session == NULL) {
        sni_peer_redial(peer);
    } else if (is_ours && !may_lead_to(link, sn_channel_remote(session->control))) {
        sni_peer_move(peer);
    }
}

static void relink(struct sn_peer *peer, struct step *step)
{
    struct sn_net_link *old = peer->link;
    peer->link = step->link;
    step->link = old;
    if (peer->is_closing) return;
    if (peer->link == NULL) {
        if (old != NULL) drop_link(peer);
    } else if (old == NULL) {
        sni_peer_start(peer);
    } else {
        change_link(peer, old);
    }
}

static void finish(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_reload *reload = SN_CONTAINER_OF(task, struct sni_reload, done_task);
    struct sn_net *net = reload->net;
    void (*done)(void *arg) = reload->done;
    void *arg = reload->arg;
    (void)worker; /* home */
    net->config.access = reload->access;
    net->reload = NULL;
    free_reload(reload);
    done(arg);
}

static void run_step(struct sn_task *task, struct sn_worker *worker)
{
    struct step *step = SN_CONTAINER_OF(task, struct step, task);
    struct sni_reload *reload = step->reload;
    (void)worker; /* the hub's, or the peer's */
    if (step->hub != NULL) step->hub->access = reload->access;
    if (step->peer != NULL) relink(step->peer, step);
    if (atomic_fetch_sub(&reload->pending, 1) != 1) return;
    reload->done_task.run = finish;
    sn_worker_post(reload->net->hubs[0].worker, &reload->done_task);
}

/* --- Home --------------------------------------------------------------------------------------------------- */

static const struct sn_net_link *find_link(const struct sn_net_changes *changes, const char *agent)
{
    for (uint32_t i = 0; i < changes->link_count; i++) {
        if (strcmp(changes->links[i].agent, agent) == 0) return &changes->links[i];
    }
    return NULL;
}

static enum sn_err add_step(struct sni_reload *reload, struct sn_peer *peer,
                            const struct sn_net_link *link)
{
    SN_ASSERT(reload->step_count < reload->step_room);
    struct step *step = &reload->steps[reload->step_count];
    *step = (struct step){.reload = reload, .peer = peer};
    if (link != NULL) {
        step->link = sn_alloc(sizeof *step->link);
        if (step->link == NULL) return SN_ENOMEM;
        *step->link = *link;
    }
    reload->step_count++;
    return SN_OK;
}

/* Peers that are there: with their new link, or none. */
static enum sn_err add_known(struct sni_reload *reload, const struct sn_net_changes *changes)
{
    struct sn_map_entry *entry = sn_map_next(&reload->net->peers, NULL);
    for (; entry != NULL; entry = sn_map_next(&reload->net->peers, entry)) {
        struct sn_peer *peer = SN_CONTAINER_OF(entry, struct sn_peer, by_name);
        enum sn_err err = add_step(reload, peer, find_link(changes, peer->name));
        if (err != SN_OK) return err;
    }
    return SN_OK;
}

/* Peers that are not there yet. When this fails those made so far stay known, without a link: to know a name does
 * nothing. */
static enum sn_err add_unknown(struct sni_reload *reload, const struct sn_net_changes *changes)
{
    for (uint32_t i = 0; i < changes->link_count; i++) {
        struct sn_peer *peer = NULL;
        if (sni_net_find_peer(reload->net, changes->links[i].agent) != NULL) continue;
        enum sn_err err = sni_net_add_peer(reload->net, changes->links[i].agent, &peer);
        if (err != SN_OK) return err;
        sni_net_announce(peer); /* at once: the next reload takes it for known */
        err = add_step(reload, peer, &changes->links[i]);
        if (err != SN_OK) return err;
    }
    return SN_OK;
}

enum sn_err sn_net_reload(struct sn_net *net, const struct sn_net_changes *changes,
                          void (*done)(void *arg), void *arg)
{
    SN_ASSERT(changes->access != NULL);
    if (net->reload != NULL || atomic_load(&net->is_draining) != 0) return SN_ESTATE;
    uint32_t room = net->hub_count + net->peer_count + changes->link_count;
    struct sni_reload *reload = sn_alloc(sizeof *reload + room * sizeof reload->steps[0]);
    if (reload == NULL) return SN_ENOMEM;
    reload->net = net;
    reload->access = changes->access;
    reload->done = done;
    reload->arg = arg;
    reload->step_room = room;
    enum sn_err err = add_known(reload, changes);
    if (err == SN_OK) err = add_unknown(reload, changes);
    if (err != SN_OK) {
        free_reload(reload);
        return err;
    }
    for (uint32_t i = 0; i < net->hub_count; i++) {
        reload->steps[reload->step_count++] = (struct step){.reload = reload, .hub = &net->hubs[i]};
    }
    net->reload = reload;
    /* Ahead of the steps: when all have run, nobody holds the former one. */
    if (changes->identity != NULL) sn_carrier_set_identity(net->carrier, changes->identity);
    atomic_store(&reload->pending, reload->step_count);
    uint32_t count =
        reload->step_count; /* the last step may free it, but not before its task ran here */
    for (uint32_t i = 0; i < count; i++) {
        struct step *step = &reload->steps[i];
        step->task.run = run_step;
        sn_worker_post(step->hub != NULL ? step->hub->worker : step->peer->worker, &step->task);
    }
    return SN_OK;
}

void sni_reload_free(struct sn_net *net)
{
    if (net->reload != NULL) free_reload(net->reload);
    net->reload = NULL;
}
