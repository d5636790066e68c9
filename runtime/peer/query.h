/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Name service queries of the net: asked on a pool thread, answered on the worker of a hub, given up safely at the end.
 * Threads: as said. Blocking: no.
 */
#ifndef SN_PEER_QUERY_H
#define SN_PEER_QUERY_H

#include "peer/peer_int.h"

#define SNI_QUERY_ADDRS_MAX 8u

struct sni_answer {
    enum sn_err err; /* SN_OK: count > 0 */
    struct sn_netaddr addrs[SNI_QUERY_ADDRS_MAX];
    uint32_t count;
};

/* done(arg, id, answer) comes on the hub's worker, once, unless the query is abandoned. Errors: EFULL, ENOMEM. */
SN_MUST_CHECK enum sn_err sni_query_start(struct sni_hub *hub, const struct sn_endpoint *endpoint,
                                          void (*done)(void *arg, uint64_t id,
                                                       const struct sni_answer *answer),
                                          void *arg, uint64_t id);
/* Gives up all queries of the hub, whose worker has stopped but not been freed. */
void sni_queries_abandon(struct sni_hub *hub);

#endif
