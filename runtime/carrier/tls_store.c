/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: bytes come out of a ring in the order in which they went in; nothing is moved within it. */
#include "carrier/tls_store.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum sn_err sni_ring_reserve(struct sni_ring *ring, uint32_t capacity)
{
    if (ring->capacity >= capacity) return SN_OK;
    uint8_t *data = sn_alloc_raw(capacity);
    if (data == NULL) return SN_ENOMEM;
    struct sn_iovec pieces[2];
    uint32_t count = sni_ring_pieces(ring, pieces);
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(data + used, pieces[i].data, pieces[i].size);
        used += (uint32_t)pieces[i].size;
    }
    SN_ASSERT(used == ring->used);
    sni_ring_fini(ring);
    *ring = (struct sni_ring){.data = data, .capacity = capacity, .used = used};
    return SN_OK;
}

void sni_ring_put(struct sni_ring *ring, const void *bytes, uint32_t size)
{
    SN_ASSERT(size > 0 && size <= sni_ring_room(ring));
    uint32_t end = ring->begin + ring->used;
    if (end >= ring->capacity) end -= ring->capacity;
    uint32_t first = ring->capacity - end;
    if (first > size) first = size;
    memcpy(ring->data + end, bytes, first);
    if (size > first) memcpy(ring->data, (const uint8_t *)bytes + first, size - first);
    ring->used += size;
}

uint32_t sni_ring_pieces(const struct sni_ring *ring, struct sn_iovec out[2])
{
    if (ring->used == 0) return 0;
    uint32_t first = ring->capacity - ring->begin;
    if (first > ring->used) first = ring->used;
    out[0] = (struct sn_iovec){ring->data + ring->begin, first};
    if (first == ring->used) return 1;
    out[1] = (struct sn_iovec){ring->data, ring->used - first};
    return 2;
}

void sni_ring_drop(struct sni_ring *ring, uint32_t size)
{
    SN_ASSERT(size <= ring->used);
    ring->used -= size;
    ring->begin += size;
    if (ring->begin >= ring->capacity) ring->begin -= ring->capacity;
    /* A ring that is emptied often stays within a few pages of its memory. */
    if (ring->used == 0) ring->begin = 0;
}

void sni_ring_fini(struct sni_ring *ring)
{
    sn_free(ring->data, ring->capacity);
    *ring = (struct sni_ring){0};
}

enum sn_err sni_span_reserve(struct sni_span *span, uint32_t capacity)
{
    SN_ASSERT(sni_span_is_empty(span));
    span->begin = span->end = 0;
    if (span->capacity == capacity) return SN_OK;
    uint8_t *data = sn_alloc_raw(capacity);
    if (data == NULL) return SN_ENOMEM;
    sni_span_fini(span);
    span->data = data;
    span->capacity = capacity;
    return SN_OK;
}

uint32_t sni_span_take(struct sni_span *span, void *out, uint32_t size)
{
    uint32_t there = span->end - span->begin;
    uint32_t taken = size < there ? size : there;
    if (taken > 0) memcpy(out, span->data + span->begin, taken);
    span->begin += taken;
    return taken;
}

void sni_span_fini(struct sni_span *span)
{
    sn_free(span->data, span->capacity);
    *span = (struct sni_span){0};
}
