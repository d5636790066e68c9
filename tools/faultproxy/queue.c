/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/queue.h"

#include <stdlib.h>
#include <string.h>

#include "tools/faultproxy/text.h"

#define MILLION 1000000u

void fp_queue_init(struct fp_queue *queue, enum fp_direction direction,
                   const struct fp_fault *fault, size_t bytes_max, uint64_t seed, uint64_t number,
                   int64_t now_us)
{
    *queue = (struct fp_queue){.direction = direction, .fault = *fault, .bytes_max = bytes_max};
    fp_pace_init(&queue->pace, now_us);
    fp_random_init(&queue->random, seed, number, direction);
}

static void drop_first(struct fp_queue *queue)
{
    struct fp_datagram *datagram = queue->first;
    queue->first = datagram->next;
    queue->held_bytes -= sizeof *datagram + datagram->size;
    free(datagram);
}

void fp_queue_fini(struct fp_queue *queue)
{
    while (queue->first != NULL) {
        drop_first(queue);
    }
}

/* Behind all that leave no later. */
static void insert(struct fp_queue *queue, const uint8_t *data, size_t size, int64_t due_us,
                   struct fp_stats *stats)
{
    size_t cost = sizeof(struct fp_datagram) + size;
    if (queue->held_bytes + cost > queue->bytes_max) {
        stats->drops[queue->direction]++;
        return;
    }
    struct fp_datagram *datagram = fp_alloc(cost);
    datagram->due_us = due_us;
    datagram->size = size;
    if (size > 0) memcpy(datagram->data, data, size);
    struct fp_datagram **link = &queue->first;
    while (*link != NULL && (*link)->due_us <= due_us) {
        link = &(*link)->next;
    }
    datagram->next = *link;
    *link = datagram;
    queue->held_bytes += cost;
}

static void flip(struct fp_queue *queue, uint8_t *data, size_t size)
{
    struct fp_fault *fault = &queue->fault;
    if (!fault->has_flip || fault->flip_at >= queue->read_bytes + size) return;
    data[fault->flip_at - queue->read_bytes] ^= 1u;
    fault->has_flip = false;
}

void fp_queue_add(struct fp_queue *queue, uint8_t *data, size_t size, struct fp_stats *stats,
                  int64_t now_us)
{
    const struct fp_fault *fault = &queue->fault;
    /* All numbers are drawn for each datagram: what happens to one does not change what happens to the next. */
    bool is_lost = fp_random_below(&queue->random, MILLION) < fault->loss;
    bool is_doubled = fp_random_below(&queue->random, MILLION) < fault->dup;
    bool is_late = fp_random_below(&queue->random, MILLION) < fault->reorder;
    int64_t due_us = fp_fault_due(fault, &queue->random, now_us);
    if (due_us == 0) due_us = now_us;
    if (is_late) due_us += (int64_t)fault->reorder_us;
    flip(queue, data, size);
    queue->read_bytes += size;
    stats->read[queue->direction] += size;
    if (is_lost || fault->hold != FP_FLOW) {
        stats->drops[queue->direction]++;
        return;
    }
    insert(queue, data, size, due_us, stats);
    if (is_doubled) {
        stats->dups[queue->direction]++;
        insert(queue, data, size, due_us, stats);
    }
}

const struct fp_datagram *fp_queue_due(struct fp_queue *queue, int64_t now_us, int64_t *wake_us)
{
    if (queue->first == NULL) return NULL;
    if (queue->first->due_us > now_us) {
        fp_wake_at(wake_us, queue->first->due_us);
        return NULL;
    }
    if (!fp_pace_allows_datagram(&queue->pace, &queue->fault, now_us, wake_us)) return NULL;
    return queue->first;
}

void fp_queue_pop(struct fp_queue *queue, bool is_sent, struct fp_stats *stats)
{
    size_t size = queue->first->size;
    if (is_sent) {
        if (queue->fault.rate > 0) queue->pace.tokens -= (int64_t)size * FP_US_PER_S;
        queue->passed_bytes += size;
        stats->bytes[queue->direction] += size;
        stats->writes[queue->direction]++;
    } else {
        stats->drops[queue->direction]++;
    }
    drop_first(queue);
}

bool fp_queue_apply(struct fp_queue *queue, const struct fp_command *command,
                    struct fp_stats *stats, int64_t now_us)
{
    struct fp_fault *fault = &queue->fault;
    fp_fault_apply(fault, command);
    fp_pace_init(&queue->pace, now_us);
    if (command->verb == FP_PASS) {
        for (struct fp_datagram *datagram = queue->first; datagram != NULL;
             datagram = datagram->next) {
            datagram->due_us = now_us;
        }
    }
    if (fault->hold != FP_FLOW) {
        while (queue->first != NULL) {
            fp_queue_pop(queue, false, stats);
        }
    }
    if (command->verb != FP_FLIP || fault->flip_at >= queue->read_bytes) return false;
    fault->has_flip = false;
    return true;
}
