/* SPDX-License-Identifier: Apache-2.0 */
/* Binary min-heap of 64-bit keys, intrusive nodes; used for timers. Not thread-safe. */
#ifndef SN_BASE_HEAP_H
#define SN_BASE_HEAP_H

#include <stdint.h>

#include "sennit/err.h"

#define SN_HEAP_NONE UINT32_MAX

struct sn_heap_node {
    uint64_t key;
    uint32_t index; /* position in the heap; SN_HEAP_NONE after removal, zero before first use */
};

struct sn_heap {
    struct sn_heap_node **nodes;
    uint32_t count;
    uint32_t capacity;
};

void sn_heap_init(struct sn_heap *heap);
void sn_heap_fini(struct sn_heap *heap);

/* Makes room for `count` nodes in all; later inserts up to that many cannot fail. */
SN_MUST_CHECK enum sn_err sn_heap_reserve(struct sn_heap *heap, uint32_t count);

/* The node must be in no heap. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sn_heap_insert(struct sn_heap *heap, struct sn_heap_node *node,
                                         uint64_t key);
/* Changes the key of a node that is in the heap. */
void sn_heap_update(struct sn_heap *heap, struct sn_heap_node *node, uint64_t key);
void sn_heap_remove(struct sn_heap *heap, struct sn_heap_node *node); /* harmless when out */
struct sn_heap_node *sn_heap_first(const struct sn_heap *heap);       /* NULL when empty */

#endif
