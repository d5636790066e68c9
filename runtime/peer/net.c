/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registry of peers and arrivals of lanes. Guarantees: a peer is known to every worker before its first session is
 * handed to its own worker, so that an answer to it can be sent from anywhere; a lane whose identity is refused never
 * leaves this file.
 */
#include "peer/net.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "carrier/carrier_tls.h"
#include "peer/peer_int.h"

#define NET_MAGIC SN_MAGIC('N', 'E', 'T', '1')

static const struct sn_metric_desc metric_table[] = {
    [SNI_NET_SESSIONS] = {"net.sessions", SN_METRIC_COUNTER, "sessions that came up"},
    [SNI_NET_REFUSED] = {"net.refused", SN_METRIC_COUNTER, "identities that this agent refused"},
    [SNI_NET_SHED] = {"net.shed", SN_METRIC_COUNTER,
                      "inbound connections dropped because a limit was hit"},
    [SNI_NET_DIAL_FAILURES] = {"net.dial_failures", SN_METRIC_COUNTER,
                               "attempts to reach a peer that failed"},
    [SNI_NET_DENIED] = {"net.messages_denied", SN_METRIC_COUNTER,
                        "messages for which no access rule was found"},
    [SNI_NET_PARCELS_REFUSED] = {"net.parcels_refused", SN_METRIC_COUNTER,
                                 "parcels that were altered, replayed or addressed to others"},
    [SNI_NET_STREAMS_OPENED] = {"net.streams_opened", SN_METRIC_COUNTER,
                                "streams of actors, either side opening"},
    [SNI_NET_STREAMS_FAILED] = {"net.streams_failed", SN_METRIC_COUNTER,
                                "streams of actors that ended in an error"},
    [SNI_NET_STREAMS_RESUMED] = {"net.streams_resumed", SN_METRIC_COUNTER,
                                 "times that a stream went on after its connection was lost"},
    [SNI_NET_CONNS_ACCEPTED] = {"net.conns_accepted", SN_METRIC_COUNTER,
                                "local connections accepted for actors"},
    [SNI_NET_CONNS_DIALED] = {"net.conns_dialed", SN_METRIC_COUNTER,
                              "local connections made for actors"},
    [SNI_NET_HANDSHAKES] = {"net.handshakes", SN_METRIC_GAUGE,
                            "inbound connections now that have not proved who they are"},
    [SNI_NET_HANDSHAKES_FAILED] = {"net.handshakes_failed", SN_METRIC_COUNTER,
                                   "inbound connections that ended before they had proved it"},
    {NULL, 0, NULL}};

/* A lane between its acceptance and the worker of its peer. */
struct arrival {
    struct sn_list node; /* in net->arrivals, or in peer->arrivals */
    struct sn_task task;
    struct sn_net *net;
    struct sn_lane *lane;
    struct sn_peer *peer;
};

struct sni_hub *sni_net_hub(struct sn_net *net, const struct sn_worker *worker)
{
    uint32_t index = sn_worker_index(worker);
    SN_ASSERT(index < net->hub_count);
    return &net->hubs[index];
}

void sni_net_metric(struct sni_hub *hub, enum sni_net_metric metric)
{
    sn_metrics_add(hub->net->metrics, hub->index, hub->net->metric_base + (uint32_t)metric, 1);
}

struct sn_logger *sni_hub_logger(struct sni_hub *hub)
{
    return sn_system_logger(hub->worker);
}

struct sn_peer *sni_hub_find(struct sni_hub *hub, const char *agent)
{
    struct sn_map_entry *entry = sn_map_find(&hub->names, agent, (uint32_t)strlen(agent));
    if (entry == NULL) return NULL;
    return SN_CONTAINER_OF(entry, struct sni_peer_entry, by_name)->peer;
}

/* --- Peers ----------------------------------------------------------------------------------------- */

struct sn_peer *sni_net_find_peer(struct sn_net *net, const char *name)
{
    struct sn_map_entry *entry = sn_map_find(&net->peers, name, (uint32_t)strlen(name));
    return entry == NULL ? NULL : SN_CONTAINER_OF(entry, struct sn_peer, by_name);
}

enum sn_err sni_net_add_peer(struct sn_net *net, const char *name, struct sn_peer **out_peer)
{
    struct sn_peer *peer = NULL;
    if (net->peer_count == SN_PEERS_MAX) return SN_EFULL;
    enum sn_err err = sni_peer_new(net, name, &peer);
    if (err != SN_OK) return err;
    err = sn_map_insert(&net->peers, &peer->by_name, peer->name, (uint32_t)strlen(peer->name));
    if (err != SN_OK) {
        sni_peer_free(peer);
        return err;
    }
    net->peer_count++;
    *out_peer = peer;
    return SN_OK;
}

/* Enters the peer into one worker's table. Memory for it was made before; a table that cannot grow keeps working. */
static void enter(struct sni_peer_entry *entry, struct sni_hub *hub)
{
    struct sn_peer *peer = entry->peer;
    enum sn_err err =
        sn_map_insert(&hub->names, &entry->by_name, peer->name, (uint32_t)strlen(peer->name));
    SN_ASSERT(err != SN_EEXIST); /* unique by net->peers */
    /* Without memory for the first buckets the peer stays unknown to this worker: its actors get ENOENT. */
    if (peer->worker == hub->worker) sn_list_push(&hub->peers, &peer->node);
}

static void hand_over(struct arrival *arrival);

/* On home: every worker knows the peer now. */
static void peer_is_known(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_peer *peer = SN_CONTAINER_OF(task, struct sn_peer, known_task);
    struct sn_list *node;
    SN_ASSERT(sn_worker_index(worker) == 0);
    peer->is_known = 1;
    while ((node = sn_list_pop(&peer->arrivals)) != NULL) {
        hand_over(SN_CONTAINER_OF(node, struct arrival, node));
    }
}

static void learn(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_peer_entry *entry = SN_CONTAINER_OF(task, struct sni_peer_entry, task);
    struct sn_peer *peer = entry->peer;
    enter(entry, sni_net_hub(peer->net, worker));
    if (atomic_fetch_sub(&peer->unknown_to, 1) != 1) return;
    peer->known_task.run = peer_is_known;
    sn_worker_post(peer->net->hubs[0].worker, &peer->known_task);
}

void sni_net_announce(struct sn_peer *peer)
{
    struct sn_net *net = peer->net;
    atomic_store(&peer->unknown_to, net->hub_count);
    for (uint32_t i = 0; i < net->hub_count; i++) {
        peer->entries[i].task.run = learn;
        sn_worker_post(net->hubs[i].worker, &peer->entries[i].task);
    }
}

/* --- Refusals --------------------------------------------------------------------------------------- */

struct refusal {
    struct sn_task task;
    struct sn_net *net;
    struct sn_refused_info info;
};

static int is_same_refusal(const struct sn_refused_info *a, const struct sn_refused_info *b)
{
    return a->err == b->err && a->has_key == b->has_key &&
           (!a->has_key || sn_key_id_is_equal(&a->key, &b->key)) && strcmp(a->agent, b->agent) == 0;
}

static void note_refusal(struct sn_task *task, struct sn_worker *worker)
{
    struct refusal *refusal = SN_CONTAINER_OF(task, struct refusal, task);
    struct sn_net *net = refusal->net;
    (void)worker; /* home */
    struct sn_refused_info *slot = NULL;
    for (uint32_t i = 0; i < net->refused_count && slot == NULL; i++) {
        if (is_same_refusal(&net->refused[i], &refusal->info)) slot = &net->refused[i];
    }
    uint64_t count = slot == NULL ? 0 : slot->count;
    if (slot == NULL) {
        slot = &net->refused[net->refused_next];
        net->refused_next = (net->refused_next + 1) % SN_REFUSED_MAX;
        if (net->refused_count < SN_REFUSED_MAX) net->refused_count++;
    }
    *slot = refusal->info;
    slot->count = count + 1;
    sn_free(refusal, sizeof *refusal);
}

void sni_net_refuse(struct sni_hub *hub, const struct sn_lane_failure *failure)
{
    char id[SN_KEY_TEXT_BYTES + 1] = "none";
    char remote[SN_NETADDR_TEXT_MAX];
    if (failure->has_key) sn_key_id_format(&failure->key, id);
    sn_netaddr_format(&failure->remote, remote);
    sni_net_metric(hub, SNI_NET_REFUSED);
    sn_logger_write(sni_hub_logger(hub), SN_WARN, "PEER-REFUSED", "net",
                    "reason=%s key=%s claims=%s remote=%s detail=\"%s\"", sn_err_name(failure->err),
                    id, failure->agent[0] == '\0' ? "unknown" : failure->agent, remote,
                    failure->detail);
    struct refusal *refusal = sn_alloc(sizeof *refusal);
    if (refusal == NULL) return; /* it is logged and counted */
    refusal->net = hub->net;
    refusal->task.run = note_refusal;
    struct sn_refused_info *info = &refusal->info;
    memcpy(info->agent, failure->agent, sizeof info->agent);
    info->has_key = failure->has_key;
    info->key = failure->key;
    info->err = failure->err;
    info->at_ns = sn_worker_now(hub->worker);
    memcpy(info->remote, remote, sizeof info->remote);
    (void)snprintf(info->reason, sizeof info->reason, "%s%s%s", sn_err_name(failure->err),
                   failure->detail[0] == '\0' ? "" : ": ", failure->detail); /* cut is fine */
    sn_worker_post(hub->net->hubs[0].worker, &refusal->task);
}

/* --- Arrivals ------------------------------------------------------------------------------------------- */

static void lane_opened(void *user, struct sn_lane *lane);
static void lane_failed(void *user, struct sn_lane *lane, const struct sn_lane_failure *failure);

static const struct sn_lane_ops arrival_ops = {.opened = lane_opened, .failed = lane_failed};

static void count_handshake(struct sn_net *net, int64_t delta)
{
    sn_metrics_add(net->metrics, net->hubs[0].index, net->metric_base + SNI_NET_HANDSHAKES, delta);
}

static void on_accepted(void *arg, struct sn_lane *lane)
{
    struct sn_net *net = arg;
    struct arrival *arrival = sn_alloc(sizeof *arrival);
    if (arrival == NULL) {
        sn_lane_free(lane);
        return;
    }
    arrival->net = net;
    arrival->lane = lane;
    sn_list_push(&net->arrivals, &arrival->node);
    count_handshake(net, 1);
    sn_lane_set_user(lane, &arrival_ops, arrival);
}

/* An inbound connection went because a limit was hit: before its handshake began, or to make room for another one. */
static void on_shed(void *arg, enum sn_err why, const struct sn_netaddr *remote)
{
    struct sn_net *net = arg;
    char text[SN_NETADDR_TEXT_MAX];
    sn_netaddr_format(remote, text);
    sni_net_metric(&net->hubs[0], SNI_NET_SHED);
    sn_logger_write(
        sni_hub_logger(&net->hubs[0]), SN_WARN, "ACCEPT-LIMIT", "net",
        "reason=%s remote=%s hint=\"%s\"", sn_err_name(why), text,
        why == SN_ENOFILES
            ? "raise the limit of descriptors: ulimit -n, or LimitNOFILE= of the service"
            : "the limits are those of `accept:` in the settings");
}

static void free_arrival(struct arrival *arrival)
{
    sn_list_remove(&arrival->node);
    if (arrival->lane != NULL) sn_lane_free(arrival->lane);
    sn_free(arrival, sizeof *arrival);
}

static void lane_failed(void *user, struct sn_lane *lane, const struct sn_lane_failure *failure)
{
    struct arrival *arrival = user;
    struct sni_hub *hub = &arrival->net->hubs[0];
    SN_ASSERT(lane == arrival->lane);
    count_handshake(arrival->net, -1);
    sni_net_metric(hub, SNI_NET_HANDSHAKES_FAILED);
    if (failure->is_refusal) {
        sni_net_refuse(hub, failure);
    } else if (failure->err == SN_EFULL || failure->err == SN_ENOFILES) {
        on_shed(arrival->net, failure->err, &failure->remote);
    } else {
        char remote[SN_NETADDR_TEXT_MAX];
        sn_netaddr_format(&failure->remote, remote);
        sn_logger_write(sni_hub_logger(hub), SN_INFO, "HANDSHAKE-FAILED", "net",
                        "err=%s remote=%s detail=\"%s\"", sn_err_name(failure->err), remote,
                        failure->detail);
    }
    free_arrival(arrival);
}

/* On the peer's worker. */
static void settle_in(struct sn_task *task, struct sn_worker *worker)
{
    struct arrival *arrival = SN_CONTAINER_OF(task, struct arrival, task);
    struct sn_lane *lane = arrival->lane;
    if (sn_lane_attach(lane, worker) == SN_OK) {
        arrival->lane = NULL;
        sni_peer_arrive(arrival->peer, lane);
    }
    free_arrival(arrival);
}

static void hand_over(struct arrival *arrival)
{
    sn_lane_detach(arrival->lane);
    arrival->task.run = settle_in;
    sn_worker_post(arrival->peer->worker, &arrival->task);
}

static void turn_away(struct arrival *arrival, enum sn_err err, const char *detail)
{
    struct sn_lane_failure failure = {.err = err, .is_refusal = 1, .has_key = 1};
    failure.key = arrival->lane->peer.id;
    failure.remote = arrival->lane->remote;
    memcpy(failure.agent, arrival->lane->peer.agent, sizeof failure.agent);
    (void)snprintf(failure.detail, sizeof failure.detail, "%s", detail); /* cut is fine */
    sni_net_refuse(&arrival->net->hubs[0], &failure);
    free_arrival(arrival);
}

static void lane_opened(void *user, struct sn_lane *lane)
{
    struct arrival *arrival = user;
    struct sn_net *net = arrival->net;
    count_handshake(net, -1);
    if (strcmp(lane->peer.agent, net->config.self.agent) == 0) {
        turn_away(arrival, SN_EDUPLICATE, "it has this agent's own name");
        return;
    }
    struct sn_peer *peer = sni_net_find_peer(net, lane->peer.agent);
    if (peer == NULL) {
        enum sn_err err = sni_net_add_peer(net, lane->peer.agent, &peer);
        if (err != SN_OK) {
            turn_away(arrival, err, "the table of peers is full");
            return;
        }
        sni_net_announce(peer);
    }
    arrival->peer = peer;
    sn_list_remove(&arrival->node);
    if (peer->is_known) {
        hand_over(arrival);
    } else {
        sn_list_push(&peer->arrivals, &arrival->node);
    }
}

/* --- Construction -------------------------------------------------------------------------------------------- */

enum sn_err sn_net_new(const struct sn_net_config *config, struct sn_metrics *metrics,
                       struct sn_net **out_net)
{
    uint8_t seed[16];
    struct sn_net *net = sn_alloc(sizeof *net);
    if (net == NULL) return SN_ENOMEM;
    net->magic = NET_MAGIC;
    net->config = *config;
    net->metrics = metrics;
    sn_list_init(&net->arrivals);
    sn_env_random(config->env, seed, sizeof seed);
    sn_map_init(&net->peers, seed);
    enum sn_err err = sn_metrics_register(metrics, metric_table, &net->metric_base);
    if (err == SN_OK) err = sn_budget_new(config->memory_bytes, &net->budget);
    struct sn_carrier_config carrier = {.env = config->env,
                                        .identity = config->identity,
                                        .trust = config->trust,
                                        .handshakes_max = config->handshakes_max,
                                        .handshakes_per_address_max =
                                            config->handshakes_per_address_max,
                                        .handshake_timeout_ms = config->self.handshake_timeout_ms,
                                        .accepted = on_accepted,
                                        .shed = on_shed,
                                        .arg = net};
    if (err == SN_OK) err = sn_carrier_tls_new(&carrier, &net->carrier);
    if (err != SN_OK) {
        sn_net_free(net);
        return err;
    }
    *out_net = net;
    return SN_OK;
}

static enum sn_err init_hub(struct sn_net *net, uint32_t index)
{
    struct sni_hub *hub = &net->hubs[index];
    uint8_t seed[16];
    sn_env_random(net->config.env, seed, sizeof seed);
    hub->net = net;
    hub->index = index;
    hub->worker = sn_system_worker(net->system, index);
    hub->access = net->config.access;
    sn_map_init(&hub->names, seed);
    sn_map_init(&hub->flows, seed);
    sni_hub_trim_init(hub);
    sn_list_init(&hub->peers);
    sn_list_init(&hub->sessions);
    sn_list_init(&hub->conns);
    sn_list_init(&hub->listeners);
    hub->parcel = sn_alloc_raw(SN_PARCEL_BYTES_MAX);
    return hub->parcel == NULL ? SN_ENOMEM : SN_OK;
}

enum sn_err sn_net_attach(struct sn_net *net, struct sn_system *system)
{
    net->system = system;
    uint32_t count = sn_system_worker_count(system);
    net->hubs = sn_alloc(count * sizeof *net->hubs);
    if (net->hubs == NULL) return SN_ENOMEM;
    net->hub_count = count;
    enum sn_err err = sni_drain_new(net);
    for (uint32_t i = 0; i < count && err == SN_OK; i++) err = init_hub(net, i);
    for (uint32_t i = 0; i < net->config.link_count && err == SN_OK; i++) {
        struct sn_peer *peer = NULL;
        err = sni_net_add_peer(net, net->config.links[i].agent, &peer);
        if (err == SN_OK) err = sni_peer_set_link(peer, &net->config.links[i]);
        if (err != SN_OK) break;
        /* No worker runs yet: tables may be filled from here. */
        for (uint32_t j = 0; j < count; j++) enter(&peer->entries[j], &net->hubs[j]);
        peer->is_known = 1;
    }
    return err;
}

enum sn_err sn_net_listen(struct sn_net *net, const struct sn_netaddr *addr,
                          struct sn_netaddr *out_bound)
{
    if (net->listener_count == SN_ARRAY_COUNT(net->listeners)) return SN_EFULL;
    enum sn_err err = sn_carrier_listen(net->carrier, net->hubs[0].worker, addr,
                                        &net->listeners[net->listener_count], out_bound);
    if (err == SN_OK) net->listener_count++;
    return err;
}

static void start_hub(struct sn_task *task, struct sn_worker *worker)
{
    struct sni_hub *hub = SN_CONTAINER_OF(task, struct sni_hub, start_task);
    (void)worker; /* the hub's */
    SN_LIST_EACH (node, &hub->peers) {
        sni_peer_start(SN_CONTAINER_OF(node, struct sn_peer, node));
    }
}

void sn_net_start(struct sn_net *net)
{
    SN_ASSERT(net->magic == NET_MAGIC);
    for (uint32_t i = 0; i < net->hub_count; i++) {
        net->hubs[i].start_task.run = start_hub;
        sn_worker_post(net->hubs[i].worker, &net->hubs[i].start_task);
    }
}

/* What may call back into peers, or posts to workers. */
static void quiet_hub(struct sni_hub *hub)
{
    sni_flows_free(hub);
    sni_conns_free(hub);
}

static void free_hub(struct sni_hub *hub)
{
    sn_timer_stop(hub->worker, &hub->trim_timer);
    sn_map_fini(&hub->names);
    sn_map_fini(&hub->flows);
    sn_buf_unref(&hub->scratch);
    sn_free(hub->parcel, SN_PARCEL_BYTES_MAX);
}

void sn_net_free(struct sn_net *net)
{
    if (net == NULL) return;
    SN_ASSERT(net->magic == NET_MAGIC);
    struct sn_list *node;
    for (uint32_t i = 0; i < net->listener_count; i++) sn_listener_close(net->listeners[i]);
    while ((node = sn_list_first(&net->arrivals)) != NULL) {
        free_arrival(SN_CONTAINER_OF(node, struct arrival, node));
    }
    if (net->hubs != NULL) sni_drain_free(net);
    sni_reload_free(net);
    for (uint32_t i = 0; i < net->hub_count && net->hubs != NULL; i++) quiet_hub(&net->hubs[i]);
    struct sn_map_entry *entry = sn_map_next(&net->peers, NULL);
    while (entry != NULL) {
        struct sn_peer *peer = SN_CONTAINER_OF(entry, struct sn_peer, by_name);
        while ((node = sn_list_first(&peer->arrivals)) != NULL) {
            free_arrival(SN_CONTAINER_OF(node, struct arrival, node));
        }
        sn_map_remove(&net->peers, entry);
        sni_peer_free(peer);
        entry = sn_map_next(&net->peers, NULL);
    }
    sn_map_fini(&net->peers);
    for (uint32_t i = 0; i < net->hub_count && net->hubs != NULL; i++) free_hub(&net->hubs[i]);
    if (net->carrier != NULL) sn_carrier_free(net->carrier);
    sn_budget_free(net->budget);
    sn_free(net->hubs, net->hub_count * sizeof *net->hubs);
    net->magic = 0;
    sn_free(net, sizeof *net);
}

struct sn_net *sn_net_of(struct sn_system *system)
{
    struct sn_net *net = sn_system_arg(system);
    SN_ASSERT(net->magic == NET_MAGIC);
    return net;
}

void *sn_net_owner(struct sn_net *net)
{
    return net->config.owner;
}

struct sn_system *sn_net_system(struct sn_net *net)
{
    return net->system;
}

/* --- Letters from actors ------------------------------------------------------------------------------------------ */

static int reserve(struct sn_peer *peer, struct sn_letter *letter)
{
    unsigned class_id = letter->class_id;
    letter->cost = sn_letter_cost(letter);
    uint64_t bytes = atomic_fetch_add_explicit(&peer->queued_bytes[class_id], letter->cost,
                                               memory_order_relaxed);
    uint32_t letters =
        atomic_fetch_add_explicit(&peer->queued_letters[class_id], 1, memory_order_relaxed);
    if (bytes + letter->cost <= SN_DELIVERY_QUEUE_BYTES && letters < SN_DELIVERY_QUEUE_MESSAGES) {
        return 1;
    }
    atomic_fetch_sub_explicit(&peer->queued_bytes[class_id], letter->cost, memory_order_relaxed);
    atomic_fetch_sub_explicit(&peer->queued_letters[class_id], 1, memory_order_relaxed);
    return 0;
}

static void letter_arrives(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_letter *letter = SN_CONTAINER_OF(task, struct sn_letter, task);
    struct sn_peer *peer = letter->carrier;
    SN_ASSERT(peer->worker == worker);
    letter->carrier = NULL;
    sni_peer_enqueue(peer, letter);
}

enum sn_err sn_net_remote(void *arg, struct sn_letter *letter)
{
    struct sn_net *net = arg;
    struct sn_worker *worker = sn_system_actor_worker(net->system, letter->from_ref);
    struct sn_peer *peer = sni_hub_find(sni_net_hub(net, worker), letter->to_agent);
    if (peer == NULL) return SN_ENOENT;
    if (atomic_load_explicit(&net->is_draining, memory_order_relaxed) == 2) return SN_ECANCELLED;
    if (!reserve(peer, letter)) return SN_EFULL;
    atomic_fetch_add_explicit(&peer->accepted, 1, memory_order_relaxed);
    if (peer->worker == worker) {
        sni_peer_enqueue(peer, letter);
    } else {
        letter->carrier = peer;
        letter->task.run = letter_arrives;
        sn_worker_post(peer->worker, &letter->task);
    }
    return SN_OK;
}

void sn_net_actor_failed(void *arg, struct sn_actor_ref actor)
{
    struct sn_net *net = arg;
    struct sni_hub *hub = sni_net_hub(net, sn_system_actor_worker(net->system, actor));
    sni_conns_actor_failed(hub, actor);
    sni_flows_actor_failed(hub, actor);
}
