/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several proven channels with one peer becomes the session.
 *
 * Rules, in order, for a newcomer N while an incumbent I (a session, or a channel accepted before it) is there:
 *  1. N's epoch is lower than one seen before: refused, told which epoch it needs. So is another boot of the same
 *     epoch, once no I is left that it would be a duplicate of.
 *  2. Same boot, both dialed by the peer: the peer has given I up; N replaces it.
 *  3. Same boot, dialed from both ends at once: the one dialed by the smaller key stays, on both ends alike. If that is
 *     I, it is probed as well, in case it is dead.
 *  4. Another boot: I is challenged. If it answers within a second N is a duplicate (a cloned key, a copied folder) and
 *     refused; if it is silent it was a ghost, and N replaces it.
 * Surplus connections of one boot are cancelled, which is no refusal: nobody has done wrong.
 * So at most one session exists, and two live holders of one key cannot push each other out in turns.
 */
#include <string.h>

#include "base/text.h"
#include "peer/peer_int.h"

#define CHALLENGE_NS (1000 * SN_MS)

static int is_same_boot(const struct sn_hello *a, const struct sn_hello *b)
{
    return a->epoch == b->epoch && memcmp(a->boot_public, b->boot_public, 32) == 0;
}

static void refuse(struct sn_channel *channel, enum sn_err reason, uint64_t need_epoch,
                   const char *why)
{
    struct sn_refusal refusal = {.reason = reason, .need_epoch = need_epoch};
    struct sn_text text;
    sn_text_init(&text, refusal.text, sizeof refusal.text);
    sn_text_add(&text, "%s", why);
    sn_channel_refuse(channel, &refusal);
}

static void refuse_duplicate(struct sn_peer *peer, struct sn_channel *channel)
{
    char incumbent[SN_NETADDR_TEXT_MAX];
    char newcomer[SN_NETADDR_TEXT_MAX];
    char why[128];
    struct sn_text text;
    sn_netaddr_format(sn_channel_remote(peer->session->control), incumbent);
    sn_netaddr_format(sn_channel_remote(channel), newcomer);
    sn_text_init(&text, why, sizeof why);
    sn_text_add(&text, "%s is alive at %s; newcomer at %s", peer->name, incumbent, newcomer);
    refuse(channel, SN_EDUPLICATE, 0, why);
}

/* Epochs count the boots of one key. */
static int is_known_key(const struct sn_peer *peer, const struct sn_hello *hello)
{
    return peer->has_id && sn_key_id_is_equal(&peer->id, &hello->id);
}

/* An epoch belongs to one boot: what another one with the same epoch has sealed and numbered does not fit. Refuses it
 * before anything is given up for it. */
static int refuse_taken_epoch(struct sn_peer *peer, struct sn_channel *channel)
{
    const struct sn_hello *hello = sn_channel_hello(channel);
    const struct sni_assoc *assoc = peer->assoc;
    if (!is_known_key(peer, hello) || assoc == NULL || assoc->epoch != hello->epoch) return 0;
    if (memcmp(assoc->boot_public, hello->boot_public, sizeof assoc->boot_public) == 0) return 0;
    refuse(channel, SN_EREPLAY, peer->highest_epoch, "another boot of this agent had this epoch");
    return 1;
}

/* Makes the channel the one that becomes the session when both sides are ready. */
static void choose(struct sn_peer *peer, struct sn_channel *channel)
{
    if (refuse_taken_epoch(peer, channel)) return;
    if (peer->chosen != NULL && peer->chosen != channel) {
        int is_surplus = is_same_boot(sn_channel_hello(peer->chosen), sn_channel_hello(channel));
        refuse(peer->chosen, is_surplus ? SN_ECANCELLED : SN_EDUPLICATE, 0,
               "a newer connection of the same agent took over");
    }
    peer->chosen = channel;
    sn_channel_accept(channel);
}

static void replace(struct sn_peer *peer, struct sn_channel *channel, const char *why)
{
    if (refuse_taken_epoch(peer, channel)) return;
    if (peer->session != NULL) sni_session_close(peer->session, SN_ECLOSED, why);
    if (peer->session != NULL) { /* a challenger that waited was faster */
        refuse(channel, SN_EDUPLICATE, 0, "another newcomer took over");
        return;
    }
    choose(peer, channel);
}

static void challenge(struct sn_peer *peer, struct sn_channel *channel)
{
    if (peer->challenger != NULL) {
        refuse(channel, SN_EDUPLICATE, 0, "another newcomer is being examined");
        return;
    }
    peer->challenger = channel;
    sn_channel_probe(peer->session->control);
    sn_timer_start(peer->worker, &peer->challenge_timer,
                   sn_worker_now(peer->worker) + CHALLENGE_NS);
}

static void on_silence(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sn_peer *peer = SN_CONTAINER_OF(timer, struct sn_peer, challenge_timer);
    struct sn_channel *newcomer = peer->challenger;
    (void)worker; /* the peer's */
    peer->challenger = NULL;
    if (newcomer != NULL)
        replace(peer, newcomer, "a ghost: it did not answer, its successor is here");
}

void sni_choice_init(struct sn_peer *peer)
{
    sn_timer_init(&peer->challenge_timer, on_silence);
}

void sni_choice_answered(struct sn_peer *peer)
{
    struct sn_channel *newcomer = peer->challenger;
    if (newcomer == NULL) return;
    peer->challenger = NULL;
    sn_timer_stop(peer->worker, &peer->challenge_timer);
    refuse_duplicate(peer, newcomer);
}

void sni_choice_incumbent_gone(struct sn_peer *peer)
{
    struct sn_channel *newcomer = peer->challenger;
    if (newcomer == NULL || peer->is_closing) return;
    peer->challenger = NULL;
    sn_timer_stop(peer->worker, &peer->challenge_timer);
    choose(peer, newcomer);
}

void sni_choice_forget(struct sn_peer *peer, struct sn_channel *channel)
{
    if (peer->chosen == channel) peer->chosen = NULL;
    if (peer->challenger != channel) return;
    peer->challenger = NULL;
    sn_timer_stop(peer->worker, &peer->challenge_timer);
}

/* The key decides which of two crossing connections stays; both ends come to the same answer. */
static int wins_crossing(const struct sn_peer *peer, const struct sn_channel *channel)
{
    struct sn_key_id own = sn_key_id(peer->net->config.self.key);
    int peer_is_smaller =
        memcmp(sn_channel_hello(channel)->id.bytes, own.bytes, sizeof own.bytes) < 0;
    return sn_channel_is_dialer(channel) ? !peer_is_smaller : peer_is_smaller;
}

static void meet_incumbent(struct sn_peer *peer, struct sn_channel *incumbent,
                           struct sn_channel *channel)
{
    const struct sn_hello *theirs = sn_channel_hello(channel);
    int is_up = peer->session != NULL && peer->session->control == incumbent;
    if (!is_same_boot(sn_channel_hello(incumbent), theirs)) {
        if (is_up) {
            challenge(peer, channel);
        } else {
            choose(peer, channel);
        }
        return;
    }
    if (sn_channel_is_dialer(incumbent) == sn_channel_is_dialer(channel)) {
        replace(peer, channel, "the peer connected anew");
    } else if (wins_crossing(peer, channel)) {
        replace(peer, channel, "crossed connections: the other one stays");
    } else {
        if (is_up) sn_channel_probe(incumbent);
        refuse(channel, SN_ECANCELLED, 0, "crossed connections: the other one stays");
    }
}

static void join_session(struct sn_peer *peer, struct sn_channel *channel)
{
    struct sni_session *session = peer->session;
    int fits = session != NULL && session->id == sn_channel_session(channel) &&
               sn_channel_lane_index(channel) == SNI_BULK_LANE && session->bulk == NULL &&
               (session->bulk_candidate == NULL || session->bulk_candidate == channel) &&
               is_same_boot(sn_channel_hello(session->control), sn_channel_hello(channel));
    if (!fits) {
        refuse(channel, SN_ESTATE, 0, "there is no such session");
        return;
    }
    session->bulk_candidate = channel;
    sn_channel_accept(channel);
}

void sni_choice_proven(struct sn_peer *peer, struct sn_channel *channel)
{
    const struct sn_hello *hello = sn_channel_hello(channel);
    const struct sn_net_link *link = peer->link;
    if (peer->is_closing) {
        refuse(channel, SN_ECANCELLED, 0, "shutting down");
    } else if (link != NULL && link->has_key && !sn_key_id_is_equal(&link->key, &hello->id)) {
        refuse(channel, SN_EMISMATCH, 0, "another key is pinned for this agent");
    } else if (is_known_key(peer, hello) && hello->epoch < peer->highest_epoch) {
        refuse(channel, SN_EREPLAY, peer->highest_epoch, "an older boot of this agent");
    } else if (sn_channel_lane_index(channel) != 0) {
        join_session(peer, channel);
    } else if (peer->session != NULL) {
        meet_incumbent(peer, peer->session->control, channel);
    } else if (peer->chosen != NULL) {
        meet_incumbent(peer, peer->chosen, channel);
    } else {
        choose(peer, channel);
    }
}
