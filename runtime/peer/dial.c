/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dialing a peer, with growing jittered delays.
 *
 * Guarantees: a peer that is dialed is dialed again after every loss, for ever, unless the net drains. Usually one
 * attempt runs at a time. While streams wait for the peer it is urgent: the delay stays below URGENT_DELAY_MS, and
 * another attempt begins every HEDGE_NS beside the older ones, because one whose packets were lost may wait for
 * seconds before TCP sends them again. For the same reason a session that has gone silent is given a rival long
 * before it is judged dead; whoever answers first stays.
 */
#include <stdio.h>
#include <string.h>

#include "peer/query.h"

#define HEDGE_NS        (1250 * SN_MS)
#define URGENT_DELAY_MS 1000u

static void dial(struct sn_peer *peer);

static int is_urgent(const struct sn_peer *peer)
{
    return !sn_list_is_empty(&peer->flows);
}

static unsigned count_dials(const struct sn_peer *peer)
{
    unsigned count = 0;
    for (unsigned i = 0; i < SNI_DIALS_MAX; i++) count += peer->dials[i] != NULL;
    return count;
}

struct sn_channel **sni_dial_slot(struct sn_peer *peer, const struct sn_channel *channel)
{
    for (unsigned i = 0; i < SNI_DIALS_MAX; i++) {
        if (peer->dials[i] == channel) return &peer->dials[i];
    }
    return NULL;
}

static void dial_no_later_than(struct sn_peer *peer, uint64_t at_ns)
{
    struct sn_timer *timer = &peer->redial_timer;
    if (sn_timer_is_started(timer) && timer->node.key <= at_ns) return;
    sn_timer_start(peer->worker, timer, at_ns);
}

/* Half of the delay is fixed, half random, so that many agents do not come back at once. */
void sni_peer_redial(struct sn_peer *peer)
{
    const struct sn_net_config *net = &peer->net->config;
    if (peer->link == NULL || peer->is_closing) return;
    uint64_t delay_ms = net->reconnect_min_ms;
    for (uint32_t i = 1; i < peer->attempts && delay_ms < net->reconnect_max_ms; i++) delay_ms *= 2;
    if (delay_ms > net->reconnect_max_ms) delay_ms = net->reconnect_max_ms;
    if (delay_ms > URGENT_DELAY_MS && is_urgent(peer)) delay_ms = URGENT_DELAY_MS;
    uint64_t delay_ns = delay_ms * SN_MS;
    uint64_t random = 0;
    sn_env_random(net->env, &random, sizeof random);
    dial_no_later_than(peer,
                       sn_worker_now(peer->worker) + delay_ns / 2 + random % (delay_ns / 2 + 1));
}

void sni_dial_failed(struct sn_peer *peer, const struct sn_peer_fault *fault, const char *reason)
{
    if (peer->session == NULL) peer->fault = *fault; /* else a rival's */
    sni_net_metric(peer->hub, SNI_NET_DIAL_FAILURES);
    if (!peer->was_told || strcmp(peer->reason, reason) != 0) {
        sn_logger_write(sni_hub_logger(peer->hub), SN_WARN, "DIAL-FAILED", "net",
                        "peer=%s detail=\"%s\"", peer->name, reason);
    }
    peer->was_told = 1;
    if (peer->session == NULL) sni_peer_set_state(peer, SN_PEER_CONNECTING, reason);
    sni_peer_redial(peer);
}

/* This side could not even begin. */
static void fail_locally(struct sn_peer *peer, enum sn_err err, const char *reason)
{
    const struct sn_peer_fault fault = {.err = err};
    sni_dial_failed(peer, &fault, reason);
}

/* Also while a session is there, when that is silent or at a former address. */
static int may_dial(const struct sn_peer *peer)
{
    if (peer->link == NULL || peer->is_closing || peer->is_resolving) return 0;
    return peer->session == NULL || peer->is_suspect || peer->is_moving;
}

static void dial_addr(struct sn_peer *peer, const struct sn_netaddr *addr)
{
    const struct sn_net_config *net = &peer->net->config;
    struct sn_channel **slot = sni_dial_slot(peer, NULL);
    struct sn_channel_config config = {
        .self = &net->self, .worker = peer->worker, .ops = &sni_candidate_ops, .user = peer};
    struct sn_dial dial = {.addr = *addr,
                           .expect_key = peer->link->has_key ? &peer->link->key : NULL,
                           .expect_agent = peer->name,
                           .timeout_ms = net->self.handshake_timeout_ms};
    if (slot == NULL) return; /* one of those under way will end */
    do {
        sn_env_random(net->env, &config.session, sizeof config.session);
    } while (config.session == 0);
    enum sn_err err = sn_channel_dial(&config, peer->net->carrier, &dial, slot);
    if (err != SN_OK) fail_locally(peer, err, sn_err_text(err));
}

static void on_answer(void *arg, uint64_t id, const struct sni_answer *answer)
{
    struct sn_peer *peer = arg;
    (void)id; /* a peer asks one at a time */
    peer->is_resolving = 0;
    if (!may_dial(peer)) return;
    if (answer->err != SN_OK) {
        fail_locally(peer, SN_ENOENT, "the name of its address cannot be resolved");
    } else {
        dial_addr(peer, &answer->addrs[peer->attempts % answer->count]);
        if (is_urgent(peer)) dial_no_later_than(peer, sn_worker_now(peer->worker) + HEDGE_NS);
    }
}

static void dial_name(struct sn_peer *peer, const struct sn_endpoint *endpoint)
{
    enum sn_err err = sni_query_start(peer->hub, endpoint, on_answer, peer, 0);
    if (err == SN_OK) {
        peer->is_resolving = 1;
    } else {
        fail_locally(peer, err, sn_err_text(err));
    }
}

static void dial(struct sn_peer *peer)
{
    unsigned running = count_dials(peer);
    if (!may_dial(peer)) return;
    if (is_urgent(peer)) dial_no_later_than(peer, sn_worker_now(peer->worker) + HEDGE_NS);
    if (running == SNI_DIALS_MAX || (running > 0 && !is_urgent(peer))) return;
    const struct sn_endpoint *endpoint =
        &peer->link->addresses[peer->attempts % peer->link->address_count];
    peer->attempts++;
    peer->tries++;
    (void)snprintf(peer->dialed, sizeof peer->dialed,
                   strchr(endpoint->host, ':') != NULL ? "[%s]:%u" : "%s:%u", endpoint->host,
                   endpoint->port); /* fits */
    if (peer->state == SN_PEER_DOWN) sni_peer_set_state(peer, SN_PEER_CONNECTING, peer->reason);
    if (endpoint->is_literal) {
        dial_addr(peer, &endpoint->addr);
    } else {
        dial_name(peer, endpoint);
    }
}

void sni_dial_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    (void)worker; /* the peer's */
    dial(SN_CONTAINER_OF(timer, struct sn_peer, redial_timer));
}

void sni_peer_start(struct sn_peer *peer)
{
    dial(peer);
}

void sni_peer_urge(struct sn_peer *peer)
{
    if (peer->link == NULL || peer->is_closing) return;
    if (peer->session != NULL) {
        /* Nothing was urgent when the silence began. */
        if (peer->is_suspect && count_dials(peer) == 0) dial(peer);
        return;
    }
    dial_no_later_than(peer, sn_worker_now(peer->worker) + URGENT_DELAY_MS * SN_MS);
}

void sni_peer_suspect(struct sn_peer *peer)
{
    if (peer->session == NULL || peer->is_suspect) return;
    peer->is_suspect = 1;
    if (is_urgent(peer)) dial(peer);
}

void sni_peer_trust(struct sn_peer *peer)
{
    if (!peer->is_suspect) return;
    peer->is_suspect = 0;
    if (peer->is_moving) return;
    sn_timer_stop(peer->worker, &peer->redial_timer);
    sni_dials_drop(peer, NULL);
}

void sni_peer_stay(struct sn_peer *peer)
{
    peer->is_moving = 0;
    sn_timer_stop(peer->worker, &peer->redial_timer);
    sni_dials_drop(peer, NULL);
    if (peer->is_suspect && is_urgent(peer)) dial(peer);
}

void sni_peer_move(struct sn_peer *peer)
{
    peer->is_moving = 1;
    dial(peer);
}

void sni_dials_drop(struct sn_peer *peer, const struct sn_channel *except)
{
    for (unsigned i = 0; i < SNI_DIALS_MAX; i++) {
        struct sn_channel *channel = peer->dials[i];
        if (channel == NULL || channel == except) continue;
        peer->dials[i] = NULL;
        sni_choice_forget(peer, channel);
        sn_channel_free(channel);
    }
}
