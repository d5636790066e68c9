/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/way.h"

void fp_way_init(struct fp_way *way, enum fp_direction direction, const struct fp_fault *fault,
                 size_t buffer_bytes, uint64_t seed, uint64_t number, int64_t now_us)
{
    *way = (struct fp_way){.direction = direction, .fault = *fault};
    fp_buffer_init(&way->buffer, buffer_bytes);
    fp_pace_init(&way->pace, now_us);
    fp_random_init(&way->random, seed, number, direction);
}

void fp_way_fini(struct fp_way *way)
{
    fp_buffer_fini(&way->buffer);
}

bool fp_way_wants_bytes(const struct fp_way *way)
{
    return !way->is_source_done && way->fault.hold != FP_HOLE && fp_buffer_space(&way->buffer) > 0;
}

static void drop_held(struct fp_way *way, struct fp_stats *stats)
{
    stats->drops[way->direction] += way->buffer.size;
    fp_buffer_clear(&way->buffer);
}

/* Flips the byte once it is in the buffer. True when it has passed already. */
static bool flip(struct fp_way *way)
{
    uint64_t begin = way->read_bytes - way->buffer.size;
    uint64_t at = way->fault.flip_at;
    if (!way->fault.has_flip || at >= way->read_bytes) return false;
    way->fault.has_flip = false;
    if (at < begin) return true;
    *fp_buffer_at(&way->buffer, (size_t)(at - begin)) ^= 1u;
    return false;
}

void fp_way_add(struct fp_way *way, size_t size, struct fp_stats *stats, int64_t now_us)
{
    way->read_bytes += size;
    stats->read[way->direction] += size;
    if (way->is_discarding || way->fault.hold == FP_DISCARD) {
        stats->drops[way->direction] += size;
        return;
    }
    fp_buffer_commit(&way->buffer, size, fp_fault_due(&way->fault, &way->random, now_us));
    (void)flip(way); /* the byte that was just read has not passed */
}

void fp_way_end(struct fp_way *way, enum fp_end end, int64_t now_us)
{
    way->is_source_done = true;
    if (way->end == FP_OPEN || end == FP_ABORT) {
        way->end = end;
        way->end_due_us = fp_fault_due(&way->fault, &way->random, now_us);
    }
}

size_t fp_way_allow(struct fp_way *way, int64_t now_us, int64_t *wake_us)
{
    if (way->is_end_sent || way->fault.hold != FP_FLOW) return 0;
    int64_t due_us = fp_buffer_advance(&way->buffer, now_us);
    size_t size = way->buffer.ready;
    if (way->fault.has_cut && size > way->fault.cut_left) size = (size_t)way->fault.cut_left;
    if (size == 0) {
        fp_wake_at(wake_us, due_us);
        return 0;
    }
    size = fp_pace_allow(&way->pace, &way->fault, size, now_us, wake_us);
    if (way->fault.split_bytes > 0 && size > way->fault.split_bytes) {
        size = (size_t)way->fault.split_bytes;
    }
    return size;
}

void fp_way_passed(struct fp_way *way, size_t size, struct fp_stats *stats, int64_t now_us)
{
    fp_buffer_take(&way->buffer, size);
    fp_pace_use(&way->pace, &way->fault, size, now_us);
    if (way->fault.has_cut) way->fault.cut_left -= size;
    way->passed_bytes += size;
    stats->bytes[way->direction] += size;
    stats->writes[way->direction]++;
}

bool fp_way_is_cut(const struct fp_way *way)
{
    return way->fault.hold == FP_FLOW && way->fault.has_cut && way->fault.cut_left == 0;
}

enum fp_end fp_way_due_end(const struct fp_way *way, int64_t now_us, int64_t *wake_us)
{
    bool is_passed_on = way->is_end_sent && way->end != FP_ABORT;
    if (way->end == FP_OPEN || is_passed_on || way->fault.hold != FP_FLOW || way->buffer.size > 0) {
        return FP_OPEN;
    }
    if (way->end_due_us <= now_us) return way->end;
    fp_wake_at(wake_us, way->end_due_us);
    return FP_OPEN;
}

bool fp_way_apply(struct fp_way *way, const struct fp_command *command, struct fp_stats *stats,
                  int64_t now_us)
{
    fp_fault_apply(&way->fault, command);
    fp_pace_init(&way->pace, now_us);
    if (command->verb == FP_PASS) {
        fp_buffer_release(&way->buffer);
        way->end_due_us = 0;
        way->cut_until_us = 0;
    }
    if (command->verb == FP_SWALLOW) drop_held(way, stats);
    return command->verb == FP_FLIP && flip(way);
}

void fp_way_half_close(struct fp_way *way, struct fp_stats *stats)
{
    if (way->fault.hold != FP_FLOW) drop_held(way, stats);
    way->fault.hold = FP_FLOW;
    way->is_discarding = true;
    if (way->end == FP_OPEN) way->end = FP_EOF;
}

void fp_way_lose_receiver(struct fp_way *way, struct fp_stats *stats)
{
    drop_held(way, stats);
    way->is_discarding = true;
    way->is_end_sent = true;
}
