/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams on their way in one direction, ordered by the time when they leave. Bounded by their bytes. Does no I/O. */
#ifndef SN_TOOLS_FAULTPROXY_QUEUE_H
#define SN_TOOLS_FAULTPROXY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/faultproxy/command.h"
#include "tools/faultproxy/fault.h"
#include "tools/faultproxy/pace.h"
#include "tools/faultproxy/stats.h"

struct fp_datagram {
    struct fp_datagram *next;
    int64_t due_us;
    size_t size;
    uint8_t data[];
};

struct fp_queue {
    enum fp_direction direction;
    struct fp_fault fault;
    struct fp_pace pace;
    struct fp_random random;
    struct fp_datagram *first; /* owned */
    size_t held_bytes;         /* with what each datagram costs */
    size_t bytes_max;
    uint64_t read_bytes;
    uint64_t passed_bytes;
};

void fp_queue_init(struct fp_queue *queue, enum fp_direction direction,
                   const struct fp_fault *fault, size_t bytes_max, uint64_t seed, uint64_t number,
                   int64_t now_us);
void fp_queue_fini(struct fp_queue *queue);

/* A datagram came; decides what becomes of it. May change the bytes. */
void fp_queue_add(struct fp_queue *queue, uint8_t *data, size_t size, struct fp_stats *stats,
                  int64_t now_us);
/* The datagram that leaves now, borrowed until the next call; NULL: none, and *wake_us is made earlier. */
const struct fp_datagram *fp_queue_due(struct fp_queue *queue, int64_t now_us, int64_t *wake_us);
/* It was sent, or (not is_sent) could not be. */
void fp_queue_pop(struct fp_queue *queue, bool is_sent, struct fp_stats *stats);

/* True for a flip that came too late. */
bool fp_queue_apply(struct fp_queue *queue, const struct fp_command *command,
                    struct fp_stats *stats, int64_t now_us);

#endif
