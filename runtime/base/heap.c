/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: nodes[i]->index == i, and no node's key is below its parent's. */
#include "base/heap.h"

#include <stddef.h>

#include "base/alloc.h"
#include "base/assert.h"

#define CAPACITY_MAX (1u << 30) /* so that doubling and child indexes do not wrap */

void sn_heap_init(struct sn_heap *heap)
{
    *heap = (struct sn_heap){0};
}

void sn_heap_fini(struct sn_heap *heap)
{
    sn_free(heap->nodes, heap->capacity * sizeof(struct sn_heap_node *));
    sn_heap_init(heap);
}

enum sn_err sn_heap_reserve(struct sn_heap *heap, uint32_t count)
{
    if (count <= heap->capacity) return SN_OK;
    if (count > CAPACITY_MAX) return SN_ENOMEM;
    uint32_t capacity = heap->capacity == 0 ? 16 : heap->capacity;
    while (capacity < count) capacity *= 2;
    void *nodes = sn_realloc(heap->nodes, heap->capacity * sizeof(struct sn_heap_node *),
                             capacity * sizeof(struct sn_heap_node *));
    if (nodes == NULL) return SN_ENOMEM;
    heap->nodes = nodes;
    heap->capacity = capacity;
    return SN_OK;
}

static int is_in(const struct sn_heap *heap, const struct sn_heap_node *node)
{
    return node->index < heap->count && heap->nodes[node->index] == node;
}

static void place(struct sn_heap *heap, uint32_t index, struct sn_heap_node *node)
{
    heap->nodes[index] = node;
    node->index = index;
}

static void sift_up(struct sn_heap *heap, uint32_t index, struct sn_heap_node *node)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / 2;
        if (heap->nodes[parent]->key <= node->key) break;
        place(heap, index, heap->nodes[parent]);
        index = parent;
    }
    place(heap, index, node);
}

static void sift_down(struct sn_heap *heap, uint32_t index, struct sn_heap_node *node)
{
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && heap->nodes[child + 1]->key < heap->nodes[child]->key)
            child++;
        if (node->key <= heap->nodes[child]->key) break;
        place(heap, index, heap->nodes[child]);
        index = child;
    }
    place(heap, index, node);
}

enum sn_err sn_heap_insert(struct sn_heap *heap, struct sn_heap_node *node, uint64_t key)
{
    SN_ASSERT(!is_in(heap, node));
    enum sn_err err = sn_heap_reserve(heap, heap->count + 1);
    if (err != SN_OK) return err;
    node->key = key;
    sift_up(heap, heap->count++, node);
    return SN_OK;
}

void sn_heap_update(struct sn_heap *heap, struct sn_heap_node *node, uint64_t key)
{
    SN_ASSERT(is_in(heap, node));
    uint64_t before = node->key;
    node->key = key;
    if (key < before) {
        sift_up(heap, node->index, node);
    } else {
        sift_down(heap, node->index, node);
    }
}

void sn_heap_remove(struct sn_heap *heap, struct sn_heap_node *node)
{
    if (!is_in(heap, node)) return;
    uint32_t index = node->index;
    struct sn_heap_node *last = heap->nodes[--heap->count];
    node->index = SN_HEAP_NONE;
    if (last == node) return;
    last->index = index;
    heap->nodes[index] = last;
    sift_down(heap, index, last);
    sift_up(heap, last->index, last);
}

struct sn_heap_node *sn_heap_first(const struct sn_heap *heap)
{
    return heap->count == 0 ? NULL : heap->nodes[0];
}
