/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: no byte at or behind `end` is read; every read either advances by at least one byte
 * or leaves an error, so that a loop over announced counts is bounded by the size of the input.
 */
#include "wire/cursor.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "sennit/limits.h"

#define FIRST_TABLED   0xc0u
#define FIRST_NEGATIVE 0xe0u
#define FIRST_FIXEXT   0xd4u
#define TRUE_BYTE      0xc3u

/* The head of one item. */
struct item {
    enum sn_wire_kind kind;
    uint8_t head_size;  /* lead byte and the number behind it */
    uint8_t is_float32; /* number holds the bits of a float */
    uint64_t number;    /* value, count of entries, or two's complement of a negative value */
    size_t body_size;   /* of text, binary and extension */
};

struct format {
    uint8_t kind;
    uint8_t width; /* bytes of the number behind the lead byte */
};

/* Lead bytes 0xc0 to 0xdf of the msgpack specification; 0xc1 is not used by it. */
static const struct format formats[32] = {
    {SN_WIRE_NIL, 0},   {SN_WIRE_END, 0},   {SN_WIRE_BOOL, 0},   {SN_WIRE_BOOL, 0},
    {SN_WIRE_BIN, 1},   {SN_WIRE_BIN, 2},   {SN_WIRE_BIN, 4},    {SN_WIRE_EXT, 1},
    {SN_WIRE_EXT, 2},   {SN_WIRE_EXT, 4},   {SN_WIRE_DOUBLE, 4}, {SN_WIRE_DOUBLE, 8},
    {SN_WIRE_UINT, 1},  {SN_WIRE_UINT, 2},  {SN_WIRE_UINT, 4},   {SN_WIRE_UINT, 8},
    {SN_WIRE_INT, 1},   {SN_WIRE_INT, 2},   {SN_WIRE_INT, 4},    {SN_WIRE_INT, 8},
    {SN_WIRE_EXT, 0},   {SN_WIRE_EXT, 0},   {SN_WIRE_EXT, 0},    {SN_WIRE_EXT, 0},
    {SN_WIRE_EXT, 0},   {SN_WIRE_TEXT, 1},  {SN_WIRE_TEXT, 2},   {SN_WIRE_TEXT, 4},
    {SN_WIRE_ARRAY, 2}, {SN_WIRE_ARRAY, 4}, {SN_WIRE_MAP, 2},    {SN_WIRE_MAP, 4},
};

static uint64_t load_big_endian(const uint8_t *at, unsigned width)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < width; i++) number = number << 8 | at[i];
    return number;
}

/* Items whose lead byte holds the number too. */
static struct item decode_short(uint8_t lead)
{
    struct item item = {.head_size = 1};
    if (lead < 0x80) {
        item.kind = SN_WIRE_UINT;
        item.number = lead;
    } else if (lead < 0xa0) {
        item.kind = lead < 0x90 ? SN_WIRE_MAP : SN_WIRE_ARRAY;
        item.number = lead & 0x0f;
    } else if (lead < FIRST_TABLED) {
        item.kind = SN_WIRE_TEXT;
        item.body_size = lead & 0x1f;
    } else {
        SN_DEBUG_ASSERT(lead >= FIRST_NEGATIVE);
        item.kind = SN_WIRE_INT;
        item.number = lead | ~(uint64_t)0xff;
    }
    return item;
}

static enum sn_err decode_tabled(const uint8_t *at, size_t left, struct item *out_item)
{
    uint8_t lead = at[0];
    const struct format *format = &formats[lead - FIRST_TABLED];
    struct item item = {.kind = (enum sn_wire_kind)format->kind};
    item.head_size = (uint8_t)(1 + format->width);
    if (item.head_size > left) return SN_EINVAL;
    item.number = load_big_endian(at + 1, format->width);
    switch (item.kind) {
    case SN_WIRE_END: return SN_EINVAL;
    case SN_WIRE_BOOL: item.number = lead == TRUE_BYTE; break;
    case SN_WIRE_DOUBLE: item.is_float32 = format->width == 4; break;
    case SN_WIRE_INT:
        if (item.number >> (8 * format->width - 1) == 0) {
            item.kind = SN_WIRE_UINT; /* "negative" formats may hold positive values */
        } else if (format->width < 8) {
            item.number |= UINT64_MAX << (8 * format->width);
        }
        break;
    case SN_WIRE_TEXT:
    case SN_WIRE_BIN: item.body_size = (size_t)item.number; break;
    case SN_WIRE_EXT: /* the type is one more byte */
        item.body_size =
            1 + (format->width > 0 ? (size_t)item.number : (size_t)1 << (lead - FIRST_FIXEXT));
        break;
    default: break;
    }
    *out_item = item;
    return SN_OK;
}

static enum sn_err decode(const uint8_t *at, const uint8_t *end, struct item *out_item)
{
    SN_ASSERT(at <= end);
    size_t left = (size_t)(end - at);
    if (left == 0) return SN_EINVAL;
    struct item item;
    if (at[0] < FIRST_TABLED || at[0] >= FIRST_NEGATIVE) {
        item = decode_short(at[0]);
    } else {
        enum sn_err err = decode_tabled(at, left, &item);
        if (err != SN_OK) return err;
    }
    size_t rest = left - item.head_size;
    if (item.body_size > rest) return SN_EINVAL;
    /* An entry of an array is a byte or more, one of a map two or more. */
    if (item.kind == SN_WIRE_ARRAY && item.number > rest) return SN_EINVAL;
    if (item.kind == SN_WIRE_MAP && item.number > rest / 2) return SN_EINVAL;
    *out_item = item;
    return SN_OK;
}

void sn_cursor_init(struct sn_cursor *cursor, const void *bytes, size_t size)
{
    SN_ASSERT(bytes != NULL || size == 0);
    /* One address for "no bytes", so that at and end may always be compared. */
    const uint8_t *at = bytes != NULL ? bytes : (const uint8_t *)"";
    *cursor = (struct sn_cursor){.at = at, .end = at + size};
}

enum sn_wire_kind sn_cursor_kind(const struct sn_cursor *cursor)
{
    struct item item;
    if (cursor->err != SN_OK) return SN_WIRE_END;
    if (decode(cursor->at, cursor->end, &item) != SN_OK) return SN_WIRE_END;
    return item.kind;
}

/* Reads the head of the next item, which must be of `kind`. Any failure sticks to the cursor. */
static int take_head(struct sn_cursor *cursor, enum sn_wire_kind kind, struct item *out_item)
{
    struct item item;
    if (cursor->err != SN_OK) return 0;
    cursor->err = decode(cursor->at, cursor->end, &item);
    if (cursor->err == SN_OK && item.kind != kind) cursor->err = SN_EINVAL;
    if (cursor->err != SN_OK) return 0;
    cursor->at += item.head_size;
    *out_item = item;
    return 1;
}

uint32_t sn_cursor_map(struct sn_cursor *cursor)
{
    struct item item;
    return take_head(cursor, SN_WIRE_MAP, &item) ? (uint32_t)item.number : 0;
}

uint32_t sn_cursor_array(struct sn_cursor *cursor)
{
    struct item item;
    return take_head(cursor, SN_WIRE_ARRAY, &item) ? (uint32_t)item.number : 0;
}

uint64_t sn_cursor_uint(struct sn_cursor *cursor, uint64_t max)
{
    struct item item;
    if (!take_head(cursor, SN_WIRE_UINT, &item)) return 0;
    if (item.number > max) {
        cursor->err = SN_ETOOBIG;
        return 0;
    }
    return item.number;
}

int64_t sn_cursor_int(struct sn_cursor *cursor)
{
    struct item item;
    if (sn_cursor_kind(cursor) == SN_WIRE_UINT) return (int64_t)sn_cursor_uint(cursor, INT64_MAX);
    if (!take_head(cursor, SN_WIRE_INT, &item)) return 0;
    SN_ASSERT(item.number > INT64_MAX);
    return -(int64_t)(~item.number) - 1; /* two's complement without an overflowing cast */
}

int sn_cursor_bool(struct sn_cursor *cursor)
{
    struct item item;
    return take_head(cursor, SN_WIRE_BOOL, &item) && item.number != 0;
}

double sn_cursor_double(struct sn_cursor *cursor)
{
    struct item item;
    if (!take_head(cursor, SN_WIRE_DOUBLE, &item)) return 0;
    double value;
    if (item.is_float32) {
        float single;
        uint32_t bits = (uint32_t)item.number;
        memcpy(&single, &bits, sizeof single);
        value = (double)single;
    } else {
        memcpy(&value, &item.number, sizeof value);
    }
    return value;
}

void sn_cursor_nil(struct sn_cursor *cursor)
{
    struct item item;
    (void)take_head(cursor, SN_WIRE_NIL, &item); /* a failure sticks to the cursor */
}

/* The body of a text or binary of at most `max` bytes; NULL after an error. */
static const uint8_t *take_body(struct sn_cursor *cursor, enum sn_wire_kind kind, size_t max,
                                size_t *out_size)
{
    struct item item;
    *out_size = 0;
    if (!take_head(cursor, kind, &item)) return NULL;
    if (item.body_size > max) {
        cursor->err = SN_ETOOBIG;
        return NULL;
    }
    const uint8_t *body = cursor->at;
    cursor->at += item.body_size;
    *out_size = item.body_size;
    return body;
}

const char *sn_cursor_text(struct sn_cursor *cursor, size_t max, size_t *out_size)
{
    const char *text = (const char *)take_body(cursor, SN_WIRE_TEXT, max, out_size);
    if (text == NULL) return "";
    if (!sn_utf8_is_valid(text, *out_size)) {
        cursor->err = SN_EINVAL;
        *out_size = 0;
        return "";
    }
    return text;
}

void sn_cursor_text_copy(struct sn_cursor *cursor, char *out, size_t capacity)
{
    SN_ASSERT(capacity > 0);
    size_t size;
    const char *text = sn_cursor_text(cursor, capacity - 1, &size);
    SN_ASSERT(size < capacity);
    memcpy(out, text, size);
    out[size] = '\0';
}

const uint8_t *sn_cursor_bin(struct sn_cursor *cursor, size_t max, size_t *out_size)
{
    const uint8_t *bytes = take_body(cursor, SN_WIRE_BIN, max, out_size);
    return bytes != NULL ? bytes : (const uint8_t *)"";
}

void sn_cursor_bin_copy(struct sn_cursor *cursor, void *out, size_t size)
{
    size_t found;
    const uint8_t *bytes = take_body(cursor, SN_WIRE_BIN, SIZE_MAX, &found);
    if (bytes != NULL && found != size) cursor->err = SN_EINVAL;
    if (cursor->err != SN_OK) {
        if (size > 0) memset(out, 0, size);
        return;
    }
    SN_ASSERT(bytes != NULL);
    if (size > 0) memcpy(out, bytes, size);
}

/* Finds the end of the item at `at`; `open` holds what each container still lacks. */
static enum sn_err find_item_end(const uint8_t *at, const uint8_t *end, const uint8_t **out_at)
{
    uint64_t open[SN_MSGPACK_DEPTH_MAX];
    unsigned depth = 0;
    do {
        struct item item;
        enum sn_err err = decode(at, end, &item);
        if (err != SN_OK) return err;
        at += item.head_size + item.body_size;
        if (depth > 0) open[depth - 1]--;
        if (item.kind == SN_WIRE_ARRAY || item.kind == SN_WIRE_MAP) {
            if (depth == SN_MSGPACK_DEPTH_MAX) return SN_ETOOBIG;
            open[depth++] = item.kind == SN_WIRE_MAP ? 2 * item.number : item.number;
        }
        while (depth > 0 && open[depth - 1] == 0) depth--;
    } while (depth > 0);
    *out_at = at;
    return SN_OK;
}

const uint8_t *sn_cursor_raw(struct sn_cursor *cursor, size_t *out_size)
{
    const uint8_t *start = cursor->at;
    *out_size = 0;
    if (cursor->err == SN_OK) cursor->err = find_item_end(start, cursor->end, &cursor->at);
    if (cursor->err != SN_OK) return (const uint8_t *)"";
    *out_size = (size_t)(cursor->at - start);
    return start;
}

void sn_cursor_skip(struct sn_cursor *cursor)
{
    size_t size;
    (void)sn_cursor_raw(cursor, &size); /* a failure sticks to the cursor */
}

enum sn_err sn_cursor_finish(const struct sn_cursor *cursor)
{
    if (cursor->err != SN_OK) return cursor->err;
    return cursor->at == cursor->end ? SN_OK : SN_EINVAL;
}
