/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: entries are aligned for any type and never move. */
#include "pool.h"

#include <stddef.h>
#include <string.h>

#define ALIGNMENT 16u

void sni_tunnel_pool_init(struct pool *pool, uint32_t entry_bytes, uint32_t count_max)
{
    memset(pool, 0, sizeof *pool);
    pool->entry_bytes = entry_bytes;
    pool->per_page = POOL_PAGE_BYTES / entry_bytes;
    uint32_t room = pool->per_page * POOL_PAGES_MAX;
    pool->count_max = count_max < room ? count_max : room;
}

void sni_tunnel_pool_fini(struct pool *pool)
{
    for (uint32_t i = 0; i < POOL_PAGES_MAX; i++) sn_buf_unref(&pool->pages[i]);
    pool->count = 0;
}

/* A slab's data starts anywhere; its first aligned byte is the page. */
static uint8_t *page_start(const struct sn_buf *page)
{
    uintptr_t at = (uintptr_t)page->data;
    return page->data + (ALIGNMENT - at % ALIGNMENT) % ALIGNMENT;
}

enum sn_err sni_tunnel_pool_add(struct pool *pool, void **out_entry)
{
    if (pool->count == pool->count_max) return SN_EFULL;
    struct sn_buf *page = &pool->pages[pool->count / pool->per_page];
    if (page->slab == NULL) {
        enum sn_err err = sn_buf_new(POOL_PAGE_BYTES + ALIGNMENT, 0, page);
        if (err != SN_OK) return err;
        memset(page->data, 0, POOL_PAGE_BYTES + ALIGNMENT);
    }
    pool->count++;
    *out_entry = sni_tunnel_pool_at(pool, pool->count - 1);
    return SN_OK;
}

void *sni_tunnel_pool_at(struct pool *pool, uint32_t index)
{
    uint8_t *start = page_start(&pool->pages[index / pool->per_page]);
    return start + (size_t)(index % pool->per_page) * pool->entry_bytes;
}
