/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of a peer whose connection was lost.
 *
 * Guarantees: each is resumed by the next session with the same boot of the peer, or closed: after resume_ms, at once
 * when the peer comes back as another boot, has said goodbye, or this agent shuts down.
 */
#include "peer/peer_int.h"

static void on_late(struct sn_timer *timer, struct sn_worker *worker)
{
    (void)worker; /* the peer's */
    sni_orphans_close(SN_CONTAINER_OF(timer, struct sn_peer, orphan_timer), SN_ETIMEDOUT);
}

void sni_orphans_init(struct sn_peer *peer)
{
    sn_timer_init(&peer->orphan_timer, on_late);
}

void sni_orphans_wait(struct sn_peer *peer)
{
    const struct sni_assoc *assoc = peer->assoc;
    uint32_t count = assoc == NULL ? 0 : sn_mux_orphans(assoc->mux);
    /* Not anew while they wait: a session that comes and goes without a bulk lane does not prolong it. */
    if (count == 0 || sn_timer_is_started(&peer->orphan_timer)) return;
    sn_logger_write(sni_hub_logger(peer->hub), SN_INFO, "STREAMS-ORPHANED", "net",
                    "peer=%s count=%u resume_ms=%u", peer->name, count,
                    peer->net->config.resume_ms);
    sn_timer_start(peer->worker, &peer->orphan_timer,
                   sn_worker_now(peer->worker) + peer->net->config.resume_ms * SN_MS);
}

void sni_orphans_resume(struct sn_peer *peer)
{
    sn_timer_stop(peer->worker, &peer->orphan_timer);
    uint32_t count = sn_mux_resume(peer->assoc->mux);
    if (count == 0) return;
    sn_metrics_add(peer->net->metrics, peer->hub->index,
                   peer->net->metric_base + SNI_NET_STREAMS_RESUMED, count);
    sn_logger_write(sni_hub_logger(peer->hub), SN_INFO, "STREAMS-RESUMED", "net",
                    "peer=%s count=%u", peer->name, count);
}

void sni_orphans_close(struct sn_peer *peer, enum sn_err reason)
{
    sn_timer_stop(peer->worker, &peer->orphan_timer);
    uint32_t count = peer->assoc == NULL ? 0 : sn_mux_orphans(peer->assoc->mux);
    if (count == 0) return;
    sn_logger_write(sni_hub_logger(peer->hub), SN_WARN, "STREAMS-LOST", "net",
                    "peer=%s count=%u reason=%s", peer->name, count, sn_err_name(reason));
    struct sni_assoc *assoc = sni_assoc_ref(peer->assoc); /* its streams let go of it */
    sn_mux_orphans_close(assoc->mux, reason);
    sni_assoc_unref(assoc);
}
