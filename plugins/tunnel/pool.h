/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of equal entries that grows by pages and never moves them, so pointers to entries stay
 * good. Entries are zeroed when they are made and are released all together.
 */
#ifndef SN_PLUGINS_TUNNEL_POOL_H
#define SN_PLUGINS_TUNNEL_POOL_H

#include <stdint.h>

#include "sennit/buf.h"
#include "sennit/err.h"

#define POOL_PAGE_BYTES (64u * 1024u)
#define POOL_PAGES_MAX  128u /* 8 MiB */

struct pool {
    struct sn_buf pages[POOL_PAGES_MAX];
    uint32_t entry_bytes;
    uint32_t per_page;
    uint32_t count;
    uint32_t count_max;
};

/* At most count_max entries of entry_bytes (a multiple of 8); all of them fit into POOL_PAGES_MAX
 * pages. */
void sni_tunnel_pool_init(struct pool *pool, uint32_t entry_bytes, uint32_t count_max);
void sni_tunnel_pool_fini(struct pool *pool);
/* Errors: EFULL, ENOMEM. */
SN_MUST_CHECK enum sn_err sni_tunnel_pool_add(struct pool *pool, void **out_entry);
void *sni_tunnel_pool_at(struct pool *pool, uint32_t index); /* index < count */

#endif
