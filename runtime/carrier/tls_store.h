/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ciphertext on its way between OpenSSL and a socket: a ring toward the socket, a plain span from it. Both
 * hold no memory until they are used. Not thread-safe.
 */
#ifndef SN_CARRIER_TLS_STORE_H
#define SN_CARRIER_TLS_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "env/env.h"

struct sni_ring {
    uint8_t *data; /* owned; NULL while capacity is 0 */
    uint32_t capacity;
    uint32_t begin;
    uint32_t used;
};

static inline uint32_t sni_ring_room(const struct sni_ring *ring)
{
    return ring->capacity - ring->used;
}

/* Makes the capacity at least this, keeping the content. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sni_ring_reserve(struct sni_ring *ring, uint32_t capacity);
void sni_ring_put(struct sni_ring *ring, const void *bytes, uint32_t size); /* there is room */
/* The content as one or two pieces; returns how many. */
uint32_t sni_ring_pieces(const struct sni_ring *ring, struct sn_iovec out[2]);
void sni_ring_drop(struct sni_ring *ring, uint32_t size); /* from the front */
void sni_ring_fini(struct sni_ring *ring);

struct sni_span {
    uint8_t *data; /* owned */
    uint32_t capacity;
    uint32_t begin;
    uint32_t end;
};

static inline int sni_span_is_empty(const struct sni_span *span)
{
    return span->begin == span->end;
}

/* An empty span gets memory, or other memory, of this size. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sni_span_reserve(struct sni_span *span, uint32_t capacity);
/* Copies up to size bytes out; returns how many. */
uint32_t sni_span_take(struct sni_span *span, void *out, uint32_t size);
void sni_span_fini(struct sni_span *span);

#endif
