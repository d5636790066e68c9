/* SPDX-License-Identifier: Apache-2.0 */
/* A mux is held by its peer, by sessions and by each flow with a stream in it: none of them outlives it. */
#include "peer/peer_int.h"

struct sni_assoc *sni_assoc_ref(struct sni_assoc *assoc)
{
    SN_ASSERT(assoc->refs > 0);
    assoc->refs++;
    return assoc;
}

void sni_assoc_unref(struct sni_assoc *assoc)
{
    if (assoc == NULL) return;
    SN_ASSERT(assoc->refs > 0);
    if (--assoc->refs > 0) return;
    sn_mux_free(assoc->mux);
    sn_free(assoc, sizeof *assoc);
}
