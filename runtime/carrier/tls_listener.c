/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting. Guarantees:
 *  1. At most handshakes_max inbound lanes are unfinished at once, with no more than an eighth of the descriptors, and
 *     at most handshakes_per_address_max of one origin.
 *  2. Among all a newcomer always finds a place: the oldest lane of the origin that has most of them goes. So whoever
 *     has fewer unfinished lanes than some other origin is not evicted, however many and fast the newcomers are.
 *  3. Among those of its own origin it finds one as soon as the oldest had its fair time: silence keeps nobody out.
 *  4. Unfinished lanes give their descriptors back for newcomers when there are none; only when they have none either a
 *     lack of descriptors costs a pause. It is never a spin.
 *
 * All listeners of a carrier accept on one worker, whose alone the list of unfinished lanes is.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "carrier/carrier_tls_int.h"

#define LISTENER_MAGIC  SN_MAGIC('T', 'L', 'I', 'S')
#define ACCEPTS_PER_RUN 64u
/* Those evicted give their descriptors back in the next round; until then there are so many more at most, and where
 * descriptors are short, one. */
#define EVICTIONS_PER_RUN 8u
/* Half of what the clients of tunnels leave (sn_env_is_reserve): the rest is for the operator and for new members. */
#define UNFINISHED_DIVISOR 8u
#define RETRY_MS           100u
/* A handshake that is younger is not evicted for another one of its address: a burst must not undo itself. */
#define GRACE_DIVISOR 5u

struct tls_listener {
    struct sn_listener base;
    uint32_t magic;
    struct sn_worker *worker;
    struct sn_sock sock;
    struct sn_io io;
    struct sn_timer retry; /* started while descriptors are used up */
    int *out_gone;         /* set while a callback runs */
};

static struct sni_tls_carrier *carrier_of(const struct tls_listener *listener)
{
    return sni_tls_carrier_of(listener->base.carrier);
}

static struct sni_tls_lane *lane_at(struct sn_list *node)
{
    return SN_CONTAINER_OF(node, struct sni_tls_lane, node);
}

void sni_tls_listener_forget(struct sni_tls_lane *lane)
{
    struct sni_tls_carrier *carrier = sni_tls_carrier_of(lane->base.carrier);
    if (!sn_list_is_linked(&lane->node)) return;
    SN_ASSERT(carrier->unfinished_count > 0);
    carrier->unfinished_count--;
    sn_list_remove(&lane->node);
    SN_LIST_EACH (node, &carrier->unfinished) {
        struct sni_tls_lane *other = lane_at(node);
        if (sn_netaddr_is_same_origin(&other->base.remote, &lane->base.remote)) {
            SN_ASSERT(other->origin_count > 1);
            other->origin_count--;
        }
    }
}

static void enter(struct sni_tls_carrier *carrier, struct sni_tls_lane *lane)
{
    sn_list_push(&carrier->unfinished, &lane->node);
    carrier->unfinished_count++;
    lane->origin_count = 0;
    SN_LIST_EACH (node, &carrier->unfinished) {
        struct sni_tls_lane *other = lane_at(node);
        if (!sn_netaddr_is_same_origin(&other->base.remote, &lane->base.remote)) continue;
        lane->origin_count++;
        if (other != lane) other->origin_count++;
    }
}

/* It is told from its own handler. */
static void evict(struct sni_tls_lane *lane, enum sn_err why)
{
    sni_tls_carrier_of(lane->base.carrier)->evicted_in_run +=
        why == SN_ENOFILES ? EVICTIONS_PER_RUN : 1;
    sni_tls_listener_forget(lane);
    sni_tls_note(lane, why,
                 why == SN_ENOFILES ? "evicted: too few descriptors"
                                    : "evicted: too many unfinished handshakes");
}

/* There is one at least. */
static void evict_most_crowded(struct sni_tls_carrier *carrier, enum sn_err why)
{
    struct sni_tls_lane *victim = NULL;
    SN_LIST_EACH (node, &carrier->unfinished) {
        struct sni_tls_lane *lane = lane_at(node);
        if (victim == NULL || lane->origin_count > victim->origin_count) victim = lane;
    }
    SN_ASSERT(victim != NULL);
    evict(victim, why);
}

/* The newcomer is the last of its origin and in the list, so it is not the one that goes. */
static void make_room(struct sni_tls_carrier *carrier)
{
    const struct sn_carrier_config *config = &carrier->base.config;
    uint64_t part = sn_env_descriptors_max(config->env) / UNFINISHED_DIVISOR;
    if (carrier->unfinished_count > config->handshakes_max) {
        evict_most_crowded(carrier, SN_EFULL);
    } else if (carrier->unfinished_count > part && carrier->unfinished_count > 1) {
        evict_most_crowded(carrier, SN_ENOFILES);
    }
}

/* Room among those of the newcomer's origin, by evicting the oldest of them if it had its time. */
static int has_room_for_origin(struct sni_tls_carrier *carrier, const struct sn_netaddr *remote,
                               uint64_t now_ns)
{
    const struct sn_carrier_config *config = &carrier->base.config;
    struct sni_tls_lane *oldest = NULL;
    SN_LIST_EACH (node, &carrier->unfinished) {
        oldest = lane_at(node);
        if (sn_netaddr_is_same_origin(&oldest->base.remote, remote)) break;
        oldest = NULL;
    }
    if (oldest == NULL || oldest->origin_count < config->handshakes_per_address_max) return 1;
    uint64_t left_ns = oldest->deadline_ns > now_ns ? oldest->deadline_ns - now_ns : 0;
    uint64_t whole_ns = config->handshake_timeout_ms * SN_MS;
    if (whole_ns - left_ns < whole_ns / GRACE_DIVISOR) return 0;
    evict(oldest, SN_EFULL);
    return 1;
}

/* Calls back; 1 when the listener was closed meanwhile. */
static int shed(struct tls_listener *listener, enum sn_err why, const struct sn_netaddr *remote)
{
    const struct sn_carrier_config *config = &listener->base.carrier->config;
    int is_gone = 0;
    if (config->shed == NULL) return 0;
    listener->out_gone = &is_gone;
    config->shed(config->arg, why, remote);
    if (!is_gone) listener->out_gone = NULL;
    return is_gone;
}

/* Hands the lane to the user. 1: the listener was closed meanwhile. */
static int present(struct tls_listener *listener, struct sni_tls_lane *lane)
{
    const struct sn_carrier_config *config = &listener->base.carrier->config;
    int is_closed = 0;
    int is_freed = 0;
    listener->out_gone = &is_closed;
    lane->out_gone = &is_freed;
    config->accepted(config->arg, &lane->base);
    if (!is_closed) listener->out_gone = NULL;
    if (is_freed) return is_closed;
    lane->out_gone = NULL;
    if (lane->base.user_ops == NULL) sni_tls_lane_free(&lane->base); /* nobody wanted it */
    return is_closed;
}

/* Makes a lane of the socket or closes it. 1: the listener was closed by a callback. */
static int admit(struct tls_listener *listener, struct sn_sock sock,
                 const struct sn_netaddr *remote)
{
    struct sni_tls_carrier *carrier = carrier_of(listener);
    const struct sn_carrier_config *config = &carrier->base.config;
    struct sni_tls_lane *lane = NULL;
    enum sn_err err = SN_EFULL;
    if (has_room_for_origin(carrier, remote, sn_worker_now(listener->worker))) {
        err = sni_tls_lane_new(carrier, listener->worker, sock, remote, NULL, &lane);
    }
    if (err != SN_OK) {
        sn_env_close(config->env, sock);
        return shed(listener, err, remote);
    }
    enter(carrier, lane);
    make_room(carrier);
    sni_tls_start_deadline(lane, config->handshake_timeout_ms);
    return present(listener, lane);
}

/* Nobody could be accepted. */
static void back_off(struct tls_listener *listener, enum sn_err err)
{
    static const struct sn_netaddr nobody = {0};
    struct sni_tls_carrier *carrier = carrier_of(listener);
    if (err == SN_ENOFILES && carrier->unfinished_count > 0) {
        evict_most_crowded(carrier, err);
        sn_io_kick(&listener->io);
        return;
    }
    /* No event tells when it is better. */
    sn_timer_start(listener->worker, &listener->retry,
                   sn_worker_refresh_now(listener->worker) + RETRY_MS * SN_MS);
    (void)shed(listener, err, &nobody); /* nothing is touched after it */
}

static void on_accept(struct sn_io *io, unsigned ready)
{
    struct tls_listener *listener = SN_CONTAINER_OF(io, struct tls_listener, io);
    struct sni_tls_carrier *carrier = carrier_of(listener);
    struct sn_env *env = carrier->base.config.env;
    (void)ready; /* the only readiness of a listener */
    SN_ASSERT(listener->magic == LISTENER_MAGIC);
    if (sn_timer_is_started(&listener->retry)) return;
    carrier->evicted_in_run = 0;
    for (unsigned i = 0; i < ACCEPTS_PER_RUN && carrier->evicted_in_run < EVICTIONS_PER_RUN; i++) {
        struct sn_sock sock = SN_SOCK_NONE;
        struct sn_netaddr remote = {0};
        enum sn_err err = sn_env_accept(env, listener->sock, &sock, &remote);
        if (err == SN_EAGAIN) return;
        if (err != SN_OK) {
            back_off(listener, err);
            return;
        }
        if (admit(listener, sock, &remote)) return;
    }
    sn_io_kick(io);
}

static void on_retry(struct sn_timer *timer, struct sn_worker *worker)
{
    struct tls_listener *listener = SN_CONTAINER_OF(timer, struct tls_listener, retry);
    SN_ASSERT(listener->worker == worker);
    sn_io_kick(&listener->io);
}

enum sn_err sni_tls_listen(struct sn_carrier *base, struct sn_worker *worker,
                           const struct sn_netaddr *addr, struct sn_listener **out_listener,
                           struct sn_netaddr *out_bound)
{
    struct sni_tls_carrier *carrier = sni_tls_carrier_of(base);
    SN_ASSERT(base->config.accepted != NULL);
    SN_ASSERT(carrier->worker == NULL || carrier->worker == worker);
    struct sn_netaddr bound;
    struct tls_listener *listener = sn_alloc(sizeof *listener);
    if (listener == NULL) return SN_ENOMEM;
    listener->base.carrier = base;
    listener->magic = LISTENER_MAGIC;
    listener->worker = worker;
    sn_io_init(&listener->io, SN_IO_URGENT, on_accept);
    sn_timer_init(&listener->retry, on_retry);
    enum sn_err err = sn_env_listen(base->config.env, addr, &listener->sock, &bound);
    if (err != SN_OK) goto out;
    err = sn_io_open(&listener->io, worker, listener->sock);
    if (err != SN_OK) {
        sn_env_close(base->config.env, listener->sock);
        goto out;
    }
    carrier->worker = worker;
    carrier->listener_count++;
    *out_listener = &listener->base;
    *out_bound = bound;
    return SN_OK;
out:
    listener->magic = 0;
    sn_free(listener, sizeof *listener);
    return err;
}

void sni_tls_listener_close(struct sn_listener *base)
{
    struct tls_listener *listener = SN_CONTAINER_OF(base, struct tls_listener, base);
    SN_ASSERT(listener->magic == LISTENER_MAGIC);
    struct sni_tls_carrier *carrier = carrier_of(listener);
    if (listener->out_gone != NULL) *listener->out_gone = 1;
    sn_timer_stop(listener->worker, &listener->retry);
    sn_io_close(&listener->io);
    sn_env_close(carrier->base.config.env, listener->sock);
    SN_ASSERT(carrier->listener_count > 0);
    carrier->listener_count--;
    listener->magic = 0;
    sn_free(listener, sizeof *listener);
}
