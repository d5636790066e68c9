/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: a provider's functions are called with arguments that hold what link.h asks for. */
#include "link/link.h"

#include <stddef.h>

#include "base/assert.h"

enum sn_err sn_link_open(const struct sn_link_provider *provider,
                         const struct sn_link_config *config, struct sn_link **out_link)
{
    SN_ASSERT(config->env != NULL && config->worker != NULL && config->run_folder != NULL);
    SN_ASSERT(config->ops->parcel != NULL && config->ops->writable != NULL);
    SN_ASSERT(config->ops->down != NULL && config->ops->closed != NULL);
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) SN_ASSERT(config->streams[i] != NULL);
    struct sn_link *link = NULL;
    enum sn_err err = provider->open(config, &link);
    if (err != SN_OK) return err;
    SN_ASSERT(link != NULL && link->provider == provider);
    *out_link = link;
    return SN_OK;
}

enum sn_err sn_link_send(struct sn_link *link, enum sn_class class_id, const void *bytes,
                         uint32_t size)
{
    SN_ASSERT((unsigned)class_id < SN_CLASS_COUNT);
    SN_ASSERT(bytes != NULL && size > 0);
    if (size > SN_PARCEL_BYTES_MAX) return SN_ETOOBIG;
    return link->provider->send(link, class_id, bytes, size);
}

void sn_link_pause(struct sn_link *link, int is_paused)
{
    link->provider->pause(link, is_paused);
}

void sn_link_close(struct sn_link *link)
{
    link->provider->close(link);
}

void sn_link_stats(struct sn_link *link, int with_nng, struct sn_link_stats *out_stats)
{
    link->provider->stats(link, with_nng, out_stats);
}
