/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive, circular, doubly linked list. Not thread-safe. Nothing here allocates or fails. */
#ifndef SN_BASE_LIST_H
#define SN_BASE_LIST_H

#include <stddef.h>

#include "base/assert.h"

struct sn_list {
    struct sn_list *next; /* NULL when the node is in no list */
    struct sn_list *prev;
};

static inline void sn_list_init(struct sn_list *head)
{
    head->next = head->prev = head;
}

static inline int sn_list_is_empty(const struct sn_list *head)
{
    return head->next == head;
}

static inline int sn_list_is_linked(const struct sn_list *node)
{
    return node->next != NULL;
}

static inline void sn_list_push(struct sn_list *head, struct sn_list *node) /* at the tail */
{
    SN_ASSERT(node->next == NULL);
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void sn_list_push_front(struct sn_list *head, struct sn_list *node)
{
    SN_ASSERT(node->next == NULL);
    node->next = head->next;
    node->prev = head;
    head->next->prev = node;
    head->next = node;
}

static inline void sn_list_remove(struct sn_list *node) /* harmless when not linked */
{
    if (node->next == NULL) return;
    node->next->prev = node->prev;
    node->prev->next = node->next;
    node->next = node->prev = NULL;
}

static inline struct sn_list *sn_list_first(const struct sn_list *head)
{
    return head->next == head ? NULL : head->next;
}

static inline struct sn_list *sn_list_pop(struct sn_list *head)
{
    struct sn_list *node = sn_list_first(head);
    if (node != NULL) sn_list_remove(node);
    return node;
}

/* Moves everything in `from` to the tail of `to`. */
static inline void sn_list_splice(struct sn_list *to, struct sn_list *from)
{
    if (sn_list_is_empty(from)) return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    sn_list_init(from);
}

#define SN_LIST_EACH(it, head) for (struct sn_list *it = (head)->next; it != (head); it = it->next)

/* The body may remove `it`. */
#define SN_LIST_EACH_SAFE(it, head)                                                                \
    for (struct sn_list *it = (head)->next, *it##_next = it->next; it != (head);                   \
         it = it##_next, it##_next = it->next)

#endif
