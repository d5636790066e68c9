/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a scan that returns SN_OK has seen only bytes that a libnng PAIR v1 pipe takes as they are, so that
 * nng's count of messages and this one agree; a queue never holds more views than it has places for.
 */
#include "link/pump.h"

#include <string.h>

#include "base/assert.h"

static const uint8_t HELLO[SN_SP_HELLO_BYTES] = {0, 'S', 'P', 0, 0, 0x11, 0, 0}; /* 0x11: PAIR v1 */

#define MESSAGE_TYPE 1u
#define LENGTH_AT    1u
#define HOPS_AT      9u
#define HOPS         1u /* nng counts a message's sender as one hop, and there is no device between us */

_Static_assert(SN_PARCEL_BYTES_MAX <= UINT32_MAX - SN_SP_HEAD_BYTES, "lengths fit 32 bits");
_Static_assert(HOPS_AT + SN_SP_HOPS_BYTES == SN_SP_HEAD_BYTES, "the hop count ends the head");

static uint64_t load_big_endian(const uint8_t *at, unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < count; i++) value = value << 8 | at[i];
    return value;
}

static enum sn_err take_hello_byte(struct sn_sp_scan *scan, uint8_t byte)
{
    if (byte != HELLO[scan->have]) return SN_EPROTO;
    if (++scan->have < SN_SP_HELLO_BYTES) return SN_OK;
    scan->has_hello = 1;
    scan->have = 0;
    return SN_OK;
}

/* Judges each field as soon as its last byte is there: a peer that lies is found out at once. */
static enum sn_err take_head_byte(struct sn_sp_scan *scan, uint8_t byte)
{
    scan->head[scan->have++] = byte;
    if (scan->have == LENGTH_AT && byte != MESSAGE_TYPE) return SN_EPROTO;
    if (scan->have == HOPS_AT) {
        uint64_t length = load_big_endian(scan->head + LENGTH_AT, HOPS_AT - LENGTH_AT);
        if (length <= SN_SP_HOPS_BYTES) return SN_EPROTO;
        if (length > SN_PARCEL_BYTES_MAX + SN_SP_HOPS_BYTES) return SN_EPROTO;
        scan->body_size = (uint32_t)length - SN_SP_HOPS_BYTES;
    }
    if (scan->have < SN_SP_HEAD_BYTES) return SN_OK;
    if (load_big_endian(scan->head + HOPS_AT, SN_SP_HOPS_BYTES) != HOPS) return SN_EPROTO;
    scan->body_left = scan->body_size;
    return SN_OK;
}

enum sn_err sn_sp_scan(struct sn_sp_scan *scan, const uint8_t *bytes, uint32_t size,
                       uint32_t *out_boundary)
{
    uint32_t at = 0;
    uint32_t boundary = 0;
    while (at < size) {
        if (!scan->has_hello) {
            enum sn_err err = take_hello_byte(scan, bytes[at++]);
            if (err != SN_OK) return err;
            if (scan->has_hello) boundary = at;
            continue;
        }
        if (scan->have < SN_SP_HEAD_BYTES) {
            enum sn_err err = take_head_byte(scan, bytes[at++]);
            if (err != SN_OK) return err;
            continue;
        }
        uint32_t step = size - at < scan->body_left ? size - at : scan->body_left;
        SN_ASSERT(step > 0);
        at += step;
        scan->body_left -= step;
        if (scan->body_left > 0) continue;
        scan->messages++;
        scan->message_bytes += SN_SP_HEAD_BYTES + scan->body_size;
        scan->have = 0;
        boundary = at;
    }
    *out_boundary = boundary;
    return SN_OK;
}

int sn_sp_is_boundary(const struct sn_sp_scan *scan)
{
    return scan->have == 0;
}

static struct sn_buf *view_at(struct sn_pump_queue *queue, uint32_t index)
{
    return &queue->views[(queue->head + index) % SN_PUMP_VIEWS_MAX];
}

const struct sn_buf *sn_pump_at(const struct sn_pump_queue *queue, uint32_t index)
{
    SN_ASSERT(index < queue->count);
    return &queue->views[(queue->head + index) % SN_PUMP_VIEWS_MAX];
}

/* Copies the piece behind the last view, or into a new slab of copies. */
static enum sn_err push_copy(struct sn_pump_queue *queue, struct sn_buf *piece)
{
    struct sn_buf *tail = queue->count > 0 ? view_at(queue, queue->count - 1) : NULL;
    if (tail == NULL || !queue->tail_is_copy || sn_buf_tailroom(tail) < piece->size) {
        struct sn_buf fresh;
        enum sn_err err = sn_buf_new(SN_PUMP_COPY_SLAB_BYTES, 0, &fresh);
        if (err != SN_OK) return err;
        SN_ASSERT(queue->count < SN_PUMP_VIEWS_MAX);
        tail = view_at(queue, queue->count++);
        *tail = fresh;
        queue->tail_is_copy = 1;
    }
    memcpy(tail->data + tail->size, piece->data, piece->size);
    tail->size += piece->size;
    sn_buf_unref(piece);
    return SN_OK;
}

enum sn_err sn_pump_push(struct sn_pump_queue *queue, struct sn_buf *piece, uint32_t boundary)
{
    uint32_t size = piece->size;
    SN_ASSERT(size > 0 && boundary <= size);
    SN_ASSERT(size <= SN_PUMP_BYTES_MAX - queue->bytes);
    if (size <= SN_PUMP_COPY_BYTES_MAX) {
        enum sn_err err = push_copy(queue, piece);
        if (err != SN_OK) return err;
    } else {
        SN_ASSERT(queue->count < SN_PUMP_VIEWS_MAX);
        *view_at(queue, queue->count++) = *piece;
        *piece = (struct sn_buf){0};
        queue->tail_is_copy = 0;
    }
    if (boundary > 0) queue->whole = queue->bytes + boundary;
    queue->bytes += size;
    return SN_OK;
}

void sn_pump_advance(struct sn_pump_queue *queue, uint32_t size)
{
    SN_ASSERT(size <= queue->whole);
    queue->bytes -= size;
    queue->whole -= size;
    while (size > 0) {
        struct sn_buf *view = view_at(queue, 0);
        if (size < view->size) {
            view->data += size;
            view->size -= size;
            return;
        }
        size -= view->size;
        sn_buf_unref(view);
        queue->head = (queue->head + 1) % SN_PUMP_VIEWS_MAX;
        queue->count--;
    }
    if (queue->count == 0) queue->tail_is_copy = 0;
}

void sn_pump_drop_rest(struct sn_pump_queue *queue)
{
    while (queue->bytes > queue->whole) {
        struct sn_buf *view = view_at(queue, queue->count - 1);
        uint32_t excess = queue->bytes - queue->whole;
        if (excess < view->size) {
            view->size -= excess;
            queue->bytes -= excess;
            break;
        }
        queue->bytes -= view->size;
        sn_buf_unref(view);
        queue->count--;
    }
    queue->tail_is_copy = 0;
}

void sn_pump_clear(struct sn_pump_queue *queue)
{
    queue->whole = 0;
    sn_pump_drop_rest(queue);
    SN_ASSERT(queue->count == 0 && queue->bytes == 0);
}
