/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The msgpack cursor. Whatever the bytes are, every read stays inside them; what can be read can be
 * written again in its shortest form, and that form reads as the same.
 */
#include <stdlib.h>
#include <string.h>

#include "sennit/limits.h"
#include "wire/cursor.h"
#include "wire/pack.h"

static void require(int truth)
{
    if (!truth) abort();
}

/* Reads one item, or the head of a container, and packs it. */
static void copy_item(struct sn_cursor *cursor, struct sn_pack *pack)
{
    size_t size;
    const void *bytes;
    switch (sn_cursor_kind(cursor)) {
    case SN_WIRE_END: cursor->err = cursor->err != SN_OK ? cursor->err : SN_EINVAL; break;
    case SN_WIRE_NIL:
        sn_cursor_nil(cursor);
        sn_pack_nil(pack);
        break;
    case SN_WIRE_BOOL: sn_pack_bool(pack, sn_cursor_bool(cursor)); break;
    case SN_WIRE_UINT: sn_pack_uint(pack, sn_cursor_uint(cursor, UINT64_MAX)); break;
    case SN_WIRE_INT: sn_pack_int(pack, sn_cursor_int(cursor)); break;
    case SN_WIRE_DOUBLE: sn_pack_double(pack, sn_cursor_double(cursor)); break;
    case SN_WIRE_TEXT:
        bytes = sn_cursor_text(cursor, SIZE_MAX, &size);
        sn_pack_text(pack, bytes, size);
        break;
    case SN_WIRE_BIN:
        bytes = sn_cursor_bin(cursor, SIZE_MAX, &size);
        sn_pack_bin(pack, bytes, size);
        break;
    case SN_WIRE_ARRAY: sn_pack_array(pack, sn_cursor_array(cursor)); break;
    case SN_WIRE_MAP: sn_pack_map(pack, sn_cursor_map(cursor)); break;
    case SN_WIRE_EXT:
        bytes = sn_cursor_raw(cursor, &size);
        sn_pack_raw(pack, bytes, size);
        break;
    default: abort();
    }
}

/* Copies until the end or the first error; every step advances, so size bounds the loop. */
static enum sn_err copy_items(const uint8_t *data, size_t size, struct sn_pack *pack)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, data, size);
    while (cursor.err == SN_OK && cursor.at != cursor.end) {
        const uint8_t *before = cursor.at;
        copy_item(&cursor, pack);
        require(cursor.err != SN_OK || cursor.at > before);
        require(cursor.at <= cursor.end);
    }
    return sn_cursor_finish(&cursor);
}

/* Whole items only, none nested too deeply. */
static int is_complete(const uint8_t *data, size_t size)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, data, size);
    while (cursor.err == SN_OK && cursor.at != cursor.end) sn_cursor_skip(&cursor);
    return sn_cursor_finish(&cursor) == SN_OK;
}

static void check_copies(const uint8_t *data, size_t size)
{
    /* Only a float grows, from 5 bytes to the 9 of a double. */
    size_t capacity = 2 * size + 16, first_size, second_size;
    uint8_t *first = malloc(capacity), *second = malloc(capacity);
    require(first != NULL && second != NULL);
    struct sn_pack pack;
    sn_pack_init(&pack, first, capacity);
    enum sn_err err = copy_items(data, size, &pack);
    require(sn_pack_finish(&pack, &first_size) == SN_OK);
    /* In an unfinished container the shorter form may have too few bytes for the count. */
    if (err == SN_OK && is_complete(data, size)) {
        sn_pack_init(&pack, second, capacity);
        require(copy_items(first, first_size, &pack) == SN_OK);
        require(sn_pack_finish(&pack, &second_size) == SN_OK);
        require(first_size == second_size && memcmp(first, second, first_size) == 0);
    }
    free(first);
    free(second);
}

/* skip and raw agree with each other, and with reading the items one by one. */
static void check_skip(const uint8_t *data, size_t size)
{
    struct sn_cursor skipped, raw;
    size_t raw_size;
    sn_cursor_init(&skipped, data, size);
    sn_cursor_init(&raw, data, size);
    sn_cursor_skip(&skipped);
    const uint8_t *bytes = sn_cursor_raw(&raw, &raw_size);
    require(bytes != NULL && raw.err == skipped.err && raw.at == skipped.at);
    if (raw.err != SN_OK) {
        require(raw_size == 0);
        return;
    }
    require(raw_size > 0 && raw_size <= size && raw.at == bytes + raw_size);
    /* The bytes of one item are that item: no shorter start of them is one. */
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, bytes, raw_size);
    sn_cursor_skip(&cursor);
    require(sn_cursor_finish(&cursor) == SN_OK);
    sn_cursor_init(&cursor, bytes, raw_size - 1);
    sn_cursor_skip(&cursor);
    require(sn_cursor_finish(&cursor) != SN_OK);
}

/* Every reader on the first item, whatever it is. The values do not matter here. */
static void check_readers(const uint8_t *data, size_t size)
{
    for (int reader = 0; reader < 11; reader++) {
        struct sn_cursor cursor;
        size_t out_size = 0;
        char text[32];
        uint8_t bytes[16];
        sn_cursor_init(&cursor, data, size);
        switch (reader) {
        case 0: require(sn_cursor_map(&cursor) <= size / 2); break;
        case 1: require(sn_cursor_array(&cursor) <= size); break;
        case 2: require(sn_cursor_uint(&cursor, 1000) <= 1000); break;
        case 3: (void)sn_cursor_int(&cursor); break;
        case 4: require(sn_cursor_bool(&cursor) <= 1); break;
        case 5: (void)sn_cursor_double(&cursor); break;
        case 6: sn_cursor_nil(&cursor); break;
        case 7: require(sn_cursor_text(&cursor, 32, &out_size) != NULL && out_size <= 32); break;
        case 8: require(sn_cursor_bin(&cursor, 32, &out_size) != NULL && out_size <= 32); break;
        case 9:
            sn_cursor_text_copy(&cursor, text, sizeof text);
            require(strnlen(text, sizeof text) < sizeof text);
            break;
        default: sn_cursor_bin_copy(&cursor, bytes, sizeof bytes); break;
        }
        require(cursor.err != SN_OK || cursor.at > data);
        require(cursor.at <= cursor.end);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_copies(data, size);
    check_skip(data, size);
    check_readers(data, size);
    return 0;
}
