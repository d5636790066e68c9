/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: neither direction recurses nor allocates, so hostile nesting costs no stack; on
 * failure the text is as long as before and the pack holds what it held. What was made from msgpack
 * parses as JSON again; values come back equal but for binaries (text or hexadecimal by then), keys
 * that were numbers, and doubles that are not finite (null).
 */
#include "wire/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sennit/limits.h"
#include "wire/cursor.h"

#define NUMBER_BYTES_MAX 63u /* longer ones say nothing that a double could hold */
#define HEX_CHUNK_BYTES  64u

/* An open container. */
struct level {
    uint64_t left;  /* writing: entries that are still to come; a map counts keys and values */
    uint64_t count; /* reading: entries so far, counted likewise */
    size_t start;   /* reading: where its content begins in the pack */
    int is_map;
};

/* --- From msgpack ----------------------------------------------------------------------------- */

static void add_double(struct sn_text *text, double value)
{
    char digits[40];
    if (!isfinite(value)) {
        sn_text_add(text, "null"); /* JSON has no word for it */
        return;
    }
    /* The shortest form that reads back as the same number. */
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value); /* 40 are enough */
        if (strtod(digits, NULL) == value) break;
    }
    const char *tail = strpbrk(digits, ".e") == NULL ? ".0" : "";
    sn_text_add(text, "%s%s", digits, tail);
}

static void add_bin(struct sn_text *text, const uint8_t *bytes, size_t size)
{
    char digits[2 * HEX_CHUNK_BYTES + 1];
    if (sn_utf8_is_valid((const char *)bytes, size)) {
        sn_text_add_json(text, (const char *)bytes, size);
        return;
    }
    sn_text_add_bytes(text, "\"", 1);
    for (size_t i = 0; i < size; i += HEX_CHUNK_BYTES) {
        size_t chunk = size - i < HEX_CHUNK_BYTES ? size - i : HEX_CHUNK_BYTES;
        sn_hex_encode(bytes + i, chunk, digits);
        sn_text_add_bytes(text, digits, 2 * chunk);
    }
    sn_text_add_bytes(text, "\"", 1);
}

static enum sn_err write_scalar(struct sn_cursor *cursor, struct sn_text *text)
{
    size_t size = 0;
    switch (sn_cursor_kind(cursor)) {
    case SN_WIRE_NIL:
        sn_cursor_nil(cursor);
        sn_text_add(text, "null");
        break;
    case SN_WIRE_BOOL: sn_text_add(text, "%s", sn_cursor_bool(cursor) ? "true" : "false"); break;
    case SN_WIRE_UINT:
        sn_text_add(text, "%llu", (unsigned long long)sn_cursor_uint(cursor, UINT64_MAX));
        break;
    case SN_WIRE_INT: sn_text_add(text, "%lld", (long long)sn_cursor_int(cursor)); break;
    case SN_WIRE_DOUBLE: add_double(text, sn_cursor_double(cursor)); break;
    case SN_WIRE_TEXT: {
        const char *bytes = sn_cursor_text(cursor, SIZE_MAX, &size);
        sn_text_add_json(text, bytes, size);
        break;
    }
    case SN_WIRE_BIN: {
        const uint8_t *bytes = sn_cursor_bin(cursor, SIZE_MAX, &size);
        add_bin(text, bytes, size);
        break;
    }
    default: return cursor->err != SN_OK ? cursor->err : SN_EINVAL; /* nothing left, extensions */
    }
    return cursor->err;
}

/* JSON's keys are texts; ours are texts or numbers. */
static enum sn_err write_key(struct sn_cursor *cursor, struct sn_text *text)
{
    enum sn_wire_kind kind = sn_cursor_kind(cursor);
    int needs_quotes = kind == SN_WIRE_UINT || kind == SN_WIRE_INT;
    if (kind != SN_WIRE_TEXT && !needs_quotes) return SN_EINVAL;
    if (needs_quotes) sn_text_add_bytes(text, "\"", 1);
    enum sn_err err = write_scalar(cursor, text);
    if (needs_quotes) sn_text_add_bytes(text, "\"", 1);
    sn_text_add_bytes(text, ":", 1);
    return err;
}

static enum sn_err write_item(struct sn_cursor *cursor, struct sn_text *text,
                              struct level levels[SN_MSGPACK_DEPTH_MAX], uint32_t *depth)
{
    enum sn_wire_kind kind = sn_cursor_kind(cursor);
    int is_map = kind == SN_WIRE_MAP;
    if (!is_map && kind != SN_WIRE_ARRAY) return write_scalar(cursor, text);
    if (*depth == SN_MSGPACK_DEPTH_MAX) return SN_ETOOBIG;
    uint32_t count = is_map ? sn_cursor_map(cursor) : sn_cursor_array(cursor);
    if (cursor->err != SN_OK) return cursor->err;
    sn_text_add_bytes(text, is_map ? "{" : "[", 1);
    levels[(*depth)++] =
        (struct level){.left = is_map ? 2 * (uint64_t)count : count, .is_map = is_map};
    return SN_OK;
}

enum sn_err sn_json_from_msgpack(const void *bytes, size_t size, struct sn_text *text)
{
    struct level levels[SN_MSGPACK_DEPTH_MAX];
    struct sn_cursor cursor;
    uint32_t depth = 0;
    size_t start = text->size;
    if (text->truncated) return SN_ETOOBIG;
    sn_cursor_init(&cursor, bytes, size);
    enum sn_err err = write_item(&cursor, text, levels, &depth);
    while (err == SN_OK && depth > 0 && !text->truncated) {
        struct level *level = &levels[depth - 1];
        int is_key = level->is_map && level->left % 2 == 0;
        if (level->left == 0) {
            sn_text_add_bytes(text, level->is_map ? "}" : "]", 1);
            if (--depth > 0 && levels[depth - 1].left > 0) sn_text_add_bytes(text, ",", 1);
            continue;
        }
        level->left--;
        uint32_t depth_before = depth;
        err = is_key ? write_key(&cursor, text) : write_item(&cursor, text, levels, &depth);
        int is_complete = !is_key && depth == depth_before;
        if (is_complete && level->left > 0) sn_text_add_bytes(text, ",", 1);
    }
    if (err == SN_OK) err = text->truncated ? SN_ETOOBIG : sn_cursor_finish(&cursor);
    if (err != SN_OK) {
        text->size = start;
        text->data[start] = '\0';
        text->truncated = 0;
    }
    return err;
}

/* --- To msgpack ------------------------------------------------------------------------------- */

struct reader {
    const char *at;
    const char *end;
    struct sn_pack *pack;
    struct level levels[SN_MSGPACK_DEPTH_MAX];
    uint32_t depth;
};

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && memchr(" \t\r\n", *reader->at, 4) != NULL) reader->at++;
}

static int next_is(const struct reader *reader, char byte)
{
    return reader->at < reader->end && *reader->at == byte;
}

/* Counts and sizes come before content in msgpack and are known behind it in JSON: puts `head` in
 * front of what was packed since `start`. */
static void insert_head(struct sn_pack *pack, size_t start, const uint8_t *head, size_t size)
{
    SN_ASSERT(start <= pack->size);
    size_t content = pack->size - start;
    sn_pack_raw(pack, head, size); /* makes room, or notes the overflow */
    if (pack->overflow) return;
    memmove(pack->data + start + size, pack->data + start, content);
    memcpy(pack->data + start, head, size);
}

static void close_container(struct sn_pack *pack, const struct level *level)
{
    uint8_t head[8];
    struct sn_pack head_pack;
    SN_ASSERT(level->count <= UINT32_MAX); /* the text is shorter */
    sn_pack_init(&head_pack, head, sizeof head);
    if (level->is_map) {
        sn_pack_map(&head_pack, (uint32_t)level->count / 2);
    } else {
        sn_pack_array(&head_pack, (uint32_t)level->count);
    }
    insert_head(pack, level->start, head, head_pack.size);
}

static enum sn_err read_hex4(struct reader *reader, uint32_t *out_unit)
{
    uint8_t bytes[2];
    if (reader->end - reader->at < 4) return SN_EINVAL;
    enum sn_err err = sn_hex_decode(reader->at, 4, bytes, sizeof bytes);
    if (err != SN_OK) return err;
    reader->at += 4;
    *out_unit = (uint32_t)bytes[0] << 8 | bytes[1];
    return SN_OK;
}

static void pack_utf8(struct sn_pack *pack, uint32_t point)
{
    uint8_t bytes[4];
    size_t size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--) {
        bytes[i] = (uint8_t)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    bytes[0] = (uint8_t)(leads[size] | point);
    sn_pack_raw(pack, bytes, size);
}

/* \uXXXX, or two of them that are a surrogate pair. NUL is refused: our texts hold none. */
static enum sn_err read_unicode(struct reader *reader)
{
    uint32_t point = 0;
    uint32_t low = 0;
    enum sn_err err = read_hex4(reader, &point);
    if (err != SN_OK) return err;
    if (point == 0 || (point >= 0xdc00 && point <= 0xdfff)) return SN_EINVAL;
    if (point >= 0xd800 && point <= 0xdbff) {
        if (reader->end - reader->at < 2 || memcmp(reader->at, "\\u", 2) != 0) return SN_EINVAL;
        reader->at += 2;
        err = read_hex4(reader, &low);
        if (err != SN_OK) return err;
        if (low < 0xdc00 || low > 0xdfff) return SN_EINVAL;
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    pack_utf8(reader->pack, point);
    return SN_OK;
}

static enum sn_err read_escape(struct reader *reader)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end) return SN_EINVAL;
    char letter = *reader->at++;
    if (letter == 'u') return read_unicode(reader);
    const char *found = memchr(from, letter, sizeof from - 1);
    if (found == NULL) return SN_EINVAL;
    sn_pack_raw(reader->pack, &to[found - from], 1);
    return SN_OK;
}

static enum sn_err read_string(struct reader *reader)
{
    struct sn_pack *pack = reader->pack;
    size_t start = pack->size;
    uint8_t head[8];
    struct sn_pack head_pack;
    if (!next_is(reader, '"')) return SN_EINVAL;
    reader->at++;
    while (!next_is(reader, '"')) {
        const char *plain = reader->at;
        while (reader->at < reader->end && (uint8_t)*reader->at >= 0x20 && *reader->at != '"' &&
               *reader->at != '\\') {
            reader->at++;
        }
        size_t size = (size_t)(reader->at - plain);
        if (!sn_utf8_is_valid(plain, size)) return SN_EINVAL;
        sn_pack_raw(pack, plain, size);
        if (next_is(reader, '"')) break;
        if (!next_is(reader, '\\')) return SN_EINVAL; /* the end, or a bare control character */
        reader->at++;
        enum sn_err err = read_escape(reader);
        if (err != SN_OK) return err;
    }
    reader->at++;
    if (pack->overflow) return SN_ETOOBIG;
    /* The head of a text is what packing one of that size writes before running out of room. */
    sn_pack_init(&head_pack, head, sizeof head);
    size_t size = pack->size - start;
    sn_pack_text(&head_pack, (const char *)pack->data + start, size);
    size_t head_size = size < 32 ? 1 : size < 256 ? 2 : size < 65536 ? 3 : 5;
    insert_head(pack, start, head, head_size);
    return SN_OK;
}

static size_t count_digits(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && *at >= '0' && *at <= '9') at++;
    return (size_t)(at - start);
}

/* Size of the number at `at` (RFC 8259, section 6); 0 when there is none. */
static size_t number_size(const char *at, const char *end, int *out_is_double)
{
    const char *start = at;
    *out_is_double = 0;
    if (at < end && *at == '-') at++;
    size_t digits = count_digits(at, end);
    if (digits == 0 || (digits > 1 && *at == '0')) return 0;
    at += digits;
    if (at < end && *at == '.') {
        digits = count_digits(++at, end);
        if (digits == 0) return 0;
        at += digits;
        *out_is_double = 1;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        digits = count_digits(at, end);
        if (digits == 0) return 0;
        at += digits;
        *out_is_double = 1;
    }
    return (size_t)(at - start);
}

static enum sn_err pack_integer(struct sn_pack *pack, const char *at, size_t size)
{
    int is_negative = *at == '-';
    uint64_t value = 0;
    uint64_t max = is_negative ? (uint64_t)INT64_MAX + 1 : UINT64_MAX;
    enum sn_err err = sn_text_to_u64(at + is_negative, size - (size_t)is_negative, max, &value);
    if (err != SN_OK) return err;
    if (is_negative) {
        sn_pack_int(pack, value == max ? INT64_MIN : -(int64_t)value);
    } else {
        sn_pack_uint(pack, value);
    }
    return SN_OK;
}

static enum sn_err read_number(struct reader *reader)
{
    char digits[NUMBER_BYTES_MAX + 1];
    int is_double = 0;
    size_t size = number_size(reader->at, reader->end, &is_double);
    if (size == 0) return SN_EINVAL;
    const char *at = reader->at;
    reader->at += size;
    if (!is_double) return pack_integer(reader->pack, at, size);
    enum sn_err err = sn_text_copy(digits, sizeof digits, at, size);
    if (err != SN_OK) return err;
    double value = strtod(digits, NULL);
    if (!isfinite(value)) return SN_ETOOBIG;
    sn_pack_double(reader->pack, value);
    return SN_OK;
}

static int read_word(struct reader *reader, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(reader->end - reader->at) < size) return 0;
    if (memcmp(reader->at, word, size) != 0) return 0;
    reader->at += size;
    return 1;
}

static enum sn_err read_scalar(struct reader *reader)
{
    if (next_is(reader, '"')) return read_string(reader);
    if (read_word(reader, "null")) {
        sn_pack_nil(reader->pack);
    } else if (read_word(reader, "true")) {
        sn_pack_bool(reader->pack, 1);
    } else if (read_word(reader, "false")) {
        sn_pack_bool(reader->pack, 0);
    } else {
        return read_number(reader);
    }
    return SN_OK;
}

/* Reads a scalar whole, or the opening of a container. */
static enum sn_err read_item(struct reader *reader)
{
    skip_space(reader);
    int is_map = next_is(reader, '{');
    if (!is_map && !next_is(reader, '[')) return read_scalar(reader);
    if (reader->depth == SN_MSGPACK_DEPTH_MAX) return SN_ETOOBIG;
    reader->at++;
    reader->levels[reader->depth++] = (struct level){.start = reader->pack->size, .is_map = is_map};
    return SN_OK;
}

static enum sn_err read_key(struct reader *reader)
{
    skip_space(reader);
    enum sn_err err = read_string(reader);
    if (err != SN_OK) return err;
    skip_space(reader);
    if (!next_is(reader, ':')) return SN_EINVAL;
    reader->at++;
    return SN_OK;
}

/* The next thing inside of the innermost container: its end, or an entry. */
static enum sn_err read_entry(struct reader *reader)
{
    struct level *level = &reader->levels[reader->depth - 1];
    skip_space(reader);
    if (next_is(reader, level->is_map ? '}' : ']')) {
        reader->at++;
        close_container(reader->pack, level);
        reader->depth--;
        return SN_OK;
    }
    if (level->count > 0) {
        if (!next_is(reader, ',')) return SN_EINVAL;
        reader->at++;
    }
    if (level->is_map) {
        enum sn_err err = read_key(reader);
        if (err != SN_OK) return err;
        level->count++;
    }
    level->count++;
    return read_item(reader);
}

enum sn_err sn_json_to_msgpack(const char *text, size_t size, struct sn_pack *pack)
{
    struct reader reader = {.at = text, .end = text + size, .pack = pack};
    size_t start = pack->size;
    if (pack->overflow || size > UINT32_MAX) return SN_ETOOBIG;
    enum sn_err err = read_item(&reader);
    while (err == SN_OK && reader.depth > 0 && !pack->overflow) err = read_entry(&reader);
    if (err == SN_OK && pack->overflow) err = SN_ETOOBIG;
    if (err == SN_OK) {
        skip_space(&reader);
        if (reader.at != reader.end) err = SN_EINVAL;
    }
    if (err != SN_OK) {
        pack->size = start;
        pack->overflow = 0;
    }
    return err;
}
