/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes on their way: a ring of fixed size. Bytes become ready at their time, in order; only ready bytes leave.
 */
#ifndef SN_TOOLS_FAULTPROXY_BUFFER_H
#define SN_TOOLS_FAULTPROXY_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define FP_BUFFER_MARKS 1024u

struct fp_buffer_mark {
    size_t bytes;
    int64_t due_us;
};

struct fp_buffer {
    uint8_t *bytes; /* owned */
    size_t capacity;
    size_t head; /* where the oldest byte is */
    size_t size;
    size_t ready; /* the oldest of them may leave */
    /* When the others may, oldest first. */
    struct fp_buffer_mark marks[FP_BUFFER_MARKS];
    unsigned mark_head;
    unsigned mark_count;
};

void fp_buffer_init(struct fp_buffer *buffer, size_t capacity);
void fp_buffer_fini(struct fp_buffer *buffer);

size_t fp_buffer_space(const struct fp_buffer *buffer);
/* Where to read to; up to `size` bytes. Returns the number of parts, at most 2. */
int fp_buffer_free_parts(struct fp_buffer *buffer, size_t size, struct iovec out_parts[2]);
/* Bytes that were read to the free parts, ready at due_us or when those before them are. */
void fp_buffer_commit(struct fp_buffer *buffer, size_t size, int64_t due_us);

/* Makes ready what is due; returns when the next bytes will be. */
int64_t fp_buffer_advance(struct fp_buffer *buffer, int64_t now_us);
/* Makes everything ready. */
void fp_buffer_release(struct fp_buffer *buffer);
/* The oldest bytes; `size` is at most what is ready. Returns the number of parts. */
int fp_buffer_parts(struct fp_buffer *buffer, size_t size, struct iovec out_parts[2]);
/* Removes the oldest bytes, at most what is ready. */
void fp_buffer_take(struct fp_buffer *buffer, size_t size);
void fp_buffer_clear(struct fp_buffer *buffer);
/* The byte at an offset from the oldest one. */
uint8_t *fp_buffer_at(struct fp_buffer *buffer, size_t offset);

#endif
