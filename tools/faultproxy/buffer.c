/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/buffer.h"

#include <assert.h>
#include <stdlib.h>

#include "tools/faultproxy/clock.h"
#include "tools/faultproxy/text.h"

void fp_buffer_init(struct fp_buffer *buffer, size_t capacity)
{
    *buffer = (struct fp_buffer){.capacity = capacity};
    buffer->bytes = fp_alloc(capacity);
}

void fp_buffer_fini(struct fp_buffer *buffer)
{
    free(buffer->bytes);
    buffer->bytes = NULL;
}

size_t fp_buffer_space(const struct fp_buffer *buffer)
{
    return buffer->capacity - buffer->size;
}

static int parts_of(struct fp_buffer *buffer, size_t begin, size_t size, struct iovec out_parts[2])
{
    size_t first = buffer->capacity - begin;
    if (first > size) first = size;
    out_parts[0] = (struct iovec){.iov_base = buffer->bytes + begin, .iov_len = first};
    out_parts[1] = (struct iovec){.iov_base = buffer->bytes, .iov_len = size - first};
    return first == size ? 1 : 2;
}

int fp_buffer_free_parts(struct fp_buffer *buffer, size_t size, struct iovec out_parts[2])
{
    size_t space = fp_buffer_space(buffer);
    size_t begin = (buffer->head + buffer->size) % buffer->capacity;
    return parts_of(buffer, begin, size < space ? size : space, out_parts);
}

void fp_buffer_commit(struct fp_buffer *buffer, size_t size, int64_t due_us)
{
    assert(size <= fp_buffer_space(buffer));
    buffer->size += size;
    if (buffer->mark_count == 0 && due_us == 0) {
        buffer->ready += size;
        return;
    }
    /* Whole milliseconds bound the number of marks; beyond that the last one takes the rest, later than it asked. */
    due_us = (due_us + FP_US_PER_MS - 1) / FP_US_PER_MS * FP_US_PER_MS;
    if (buffer->mark_count > 0) {
        struct fp_buffer_mark *last =
            &buffer->marks[(buffer->mark_head + buffer->mark_count - 1) % FP_BUFFER_MARKS];
        if (due_us < last->due_us) due_us = last->due_us;
        if (due_us == last->due_us || buffer->mark_count == FP_BUFFER_MARKS) {
            last->bytes += size;
            last->due_us = due_us;
            return;
        }
    }
    buffer->marks[(buffer->mark_head + buffer->mark_count) % FP_BUFFER_MARKS] =
        (struct fp_buffer_mark){.bytes = size, .due_us = due_us};
    buffer->mark_count++;
}

static void pop_mark(struct fp_buffer *buffer)
{
    buffer->ready += buffer->marks[buffer->mark_head].bytes;
    buffer->mark_head = (buffer->mark_head + 1) % FP_BUFFER_MARKS;
    buffer->mark_count--;
}

int64_t fp_buffer_advance(struct fp_buffer *buffer, int64_t now_us)
{
    while (buffer->mark_count > 0 && buffer->marks[buffer->mark_head].due_us <= now_us) {
        pop_mark(buffer);
    }
    return buffer->mark_count > 0 ? buffer->marks[buffer->mark_head].due_us : FP_NEVER;
}

void fp_buffer_release(struct fp_buffer *buffer)
{
    while (buffer->mark_count > 0) {
        pop_mark(buffer);
    }
    assert(buffer->ready == buffer->size);
}

int fp_buffer_parts(struct fp_buffer *buffer, size_t size, struct iovec out_parts[2])
{
    assert(size <= buffer->ready);
    return parts_of(buffer, buffer->head, size, out_parts);
}

void fp_buffer_take(struct fp_buffer *buffer, size_t size)
{
    assert(size <= buffer->ready);
    buffer->head = (buffer->head + size) % buffer->capacity;
    buffer->size -= size;
    buffer->ready -= size;
}

void fp_buffer_clear(struct fp_buffer *buffer)
{
    buffer->head = buffer->size = buffer->ready = 0;
    buffer->mark_head = buffer->mark_count = 0;
}

uint8_t *fp_buffer_at(struct fp_buffer *buffer, size_t offset)
{
    assert(offset < buffer->size);
    return &buffer->bytes[(buffer->head + offset) % buffer->capacity];
}
