/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading msgpack from untrusted bytes: a cursor over the caller's memory, no allocation, nesting
 * at most SN_MSGPACK_DEPTH_MAX, every length checked against what is left before it is believed.
 * (msgpack-c's unpacker maps 2 GiB on five hostile bytes, so it is not used for reading.)
 *
 * Errors stick: after the first one every read returns it and yields zeros, so that callers may
 * read a whole structure and check once with sn_cursor_finish.
 * Thread-safe: one cursor per thread. Blocking: no.
 */
#ifndef SN_WIRE_CURSOR_H
#define SN_WIRE_CURSOR_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

struct sn_cursor {
    const uint8_t *at;
    const uint8_t *end;
    enum sn_err err;
};

enum sn_wire_kind {
    SN_WIRE_END, /* no bytes left, or an error */
    SN_WIRE_NIL,
    SN_WIRE_BOOL,
    SN_WIRE_UINT,
    SN_WIRE_INT /* negative */,
    SN_WIRE_DOUBLE,
    SN_WIRE_TEXT,
    SN_WIRE_BIN,
    SN_WIRE_ARRAY,
    SN_WIRE_MAP,
    SN_WIRE_EXT
};

void sn_cursor_init(struct sn_cursor *cursor, const void *bytes, size_t size);
/* Kind of the next item, which stays unread. */
enum sn_wire_kind sn_cursor_kind(const struct sn_cursor *cursor);

/* Each reads one item of its kind; another kind is EINVAL. Counts are those of entries, and are
 * refused when more are announced than bytes are left. */
uint32_t sn_cursor_map(struct sn_cursor *cursor);
uint32_t sn_cursor_array(struct sn_cursor *cursor);
uint64_t sn_cursor_uint(struct sn_cursor *cursor, uint64_t max); /* ETOOBIG above max */
int64_t sn_cursor_int(struct sn_cursor *cursor);
int sn_cursor_bool(struct sn_cursor *cursor);
double sn_cursor_double(struct sn_cursor *cursor);
void sn_cursor_nil(struct sn_cursor *cursor);
/* Borrowed from the input; valid UTF-8; ETOOBIG when longer than max. Never NULL. */
const char *sn_cursor_text(struct sn_cursor *cursor, size_t max, size_t *out_size);
/* Copies with a NUL into out, whose capacity counts the NUL. */
void sn_cursor_text_copy(struct sn_cursor *cursor, char *out, size_t capacity);
const uint8_t *sn_cursor_bin(struct sn_cursor *cursor, size_t max, size_t *out_size);
/* A binary of exactly `size` bytes. */
void sn_cursor_bin_copy(struct sn_cursor *cursor, void *out, size_t size);
/* Skips one whole item, nested ones too (iteratively). ETOOBIG beyond SN_MSGPACK_DEPTH_MAX. */
void sn_cursor_skip(struct sn_cursor *cursor);
/* Skips one item and yields its bytes, borrowed. */
const uint8_t *sn_cursor_raw(struct sn_cursor *cursor, size_t *out_size);

/* The first error, or EINVAL when bytes are left over. */
SN_MUST_CHECK enum sn_err sn_cursor_finish(const struct sn_cursor *cursor);

#endif
