/* SPDX-License-Identifier: Apache-2.0 */
/* Random structures: what sn_pack writes, the cursor reads back; damaged, it only ever fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sennit/limits.h"
#include "unit/rng.h"
#include "wire/cursor.h"
#include "wire/pack.h"

#define TOKENS_MAX     400u
#define BODY_BYTES_MAX 300u
#define PACK_BYTES_MAX (TOKENS_MAX * (BODY_BYTES_MAX + 8))

/* One item in the order in which it is written; a container is followed by its entries. */
struct token {
    enum sn_wire_kind kind;
    uint64_t number; /* value, count, or bits */
    size_t size;     /* of the body */
};

struct structure {
    struct token tokens[TOKENS_MAX];
    size_t count;
};

static char body[BODY_BYTES_MAX]; /* of all texts and binaries; each takes a prefix */

static struct token random_token(uint64_t *rng, unsigned depth)
{
    static const enum sn_wire_kind kinds[] = {
        SN_WIRE_NIL,  SN_WIRE_BOOL, SN_WIRE_UINT,  SN_WIRE_INT, SN_WIRE_DOUBLE,
        SN_WIRE_TEXT, SN_WIRE_BIN,  SN_WIRE_ARRAY, SN_WIRE_MAP,
    };
    uint32_t pick = rng_below(rng, depth < SN_MSGPACK_DEPTH_MAX ? 9 : 7);
    if (depth == 0) pick = 7 + pick % 2; /* a container outside, for something to be in it */
    struct token token = {.kind = kinds[pick]};
    switch (token.kind) {
    case SN_WIRE_BOOL: token.number = rng_below(rng, 2); break;
    case SN_WIRE_UINT: token.number = rng_next(rng) >> rng_below(rng, 64); break;
    case SN_WIRE_INT: token.number = ~(rng_next(rng) >> (1 + rng_below(rng, 63))); break;
    case SN_WIRE_DOUBLE: token.number = rng_next(rng) >> 2; break; /* no NaN: they never compare */
    case SN_WIRE_TEXT:
    case SN_WIRE_BIN:
        token.size = rng_below(rng, rng_below(rng, 2) ? 8 : BODY_BYTES_MAX + 1);
        break;
    case SN_WIRE_ARRAY:
    case SN_WIRE_MAP: token.number = rng_below(rng, rng_below(rng, 4) ? 5 : 40); break;
    default: break;
    }
    return token;
}

/* One item with all that is in it. Fails when it would take too many tokens. */
static int make_structure(uint64_t *rng, struct structure *out)
{
    uint64_t open[SN_MSGPACK_DEPTH_MAX];
    unsigned depth = 0;
    out->count = 0;
    do {
        if (out->count == TOKENS_MAX) return 0;
        struct token token = random_token(rng, depth);
        out->tokens[out->count++] = token;
        if (depth > 0) open[depth - 1]--;
        if (token.kind == SN_WIRE_ARRAY) open[depth++] = token.number;
        if (token.kind == SN_WIRE_MAP) open[depth++] = 2 * token.number;
        while (depth > 0 && open[depth - 1] == 0) depth--;
    } while (depth > 0);
    return 1;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static size_t pack_structure(const struct structure *structure, uint8_t *data, size_t capacity)
{
    struct sn_pack pack;
    size_t size;
    sn_pack_init(&pack, data, capacity);
    for (size_t i = 0; i < structure->count; i++) {
        const struct token *token = &structure->tokens[i];
        switch (token->kind) {
        case SN_WIRE_BOOL: sn_pack_bool(&pack, (int)token->number); break;
        case SN_WIRE_UINT: sn_pack_uint(&pack, token->number); break;
        case SN_WIRE_INT: sn_pack_int(&pack, -(int64_t)(~token->number) - 1); break;
        case SN_WIRE_DOUBLE: sn_pack_double(&pack, double_of(token->number)); break;
        case SN_WIRE_TEXT: sn_pack_text(&pack, body, token->size); break;
        case SN_WIRE_BIN: sn_pack_bin(&pack, body, token->size); break;
        case SN_WIRE_ARRAY: sn_pack_array(&pack, (uint32_t)token->number); break;
        case SN_WIRE_MAP: sn_pack_map(&pack, (uint32_t)token->number); break;
        default: sn_pack_nil(&pack); break;
        }
    }
    assert_int_equal(sn_pack_finish(&pack, &size), SN_OK);
    return size;
}

static void expect_structure(const struct structure *structure, struct sn_cursor *cursor)
{
    for (size_t i = 0; i < structure->count; i++) {
        const struct token *token = &structure->tokens[i];
        const void *bytes = "";
        size_t size = 0;
        assert_int_equal(sn_cursor_kind(cursor), token->kind);
        switch (token->kind) {
        case SN_WIRE_BOOL: assert_int_equal(sn_cursor_bool(cursor), token->number); break;
        case SN_WIRE_UINT:
            assert_int_equal(sn_cursor_uint(cursor, token->number), token->number);
            break;
        case SN_WIRE_INT: assert_int_equal((uint64_t)sn_cursor_int(cursor), token->number); break;
        case SN_WIRE_DOUBLE:
            assert_true(sn_cursor_double(cursor) == double_of(token->number));
            break;
        case SN_WIRE_TEXT: bytes = sn_cursor_text(cursor, token->size, &size); break;
        case SN_WIRE_BIN: bytes = sn_cursor_bin(cursor, token->size, &size); break;
        case SN_WIRE_ARRAY: assert_int_equal(sn_cursor_array(cursor), token->number); break;
        case SN_WIRE_MAP: assert_int_equal(sn_cursor_map(cursor), token->number); break;
        default: sn_cursor_nil(cursor); break;
        }
        assert_int_equal(size, token->size);
        assert_memory_equal(bytes, body, size);
    }
    assert_int_equal(sn_cursor_finish(cursor), SN_OK);
}

/* On a copy that ends where its allocation ends, so that the sanitizer sees a read behind it. */
static enum sn_err skip_copy(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = sn_alloc(size);
    memcpy(copy, bytes, size);
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, copy, size);
    sn_cursor_skip(&cursor);
    enum sn_err err = sn_cursor_finish(&cursor);
    sn_free(copy, size);
    return err;
}

static void random_structures_come_back(void **state)
{
    (void)state;
    static struct structure structure; /* static: larger than a stack buffer may be */
    static uint8_t data[PACK_BYTES_MAX];
    uint64_t rng = 7;
    int done = 0;
    for (size_t i = 0; i < sizeof body; i++) body[i] = (char)(1 + i % 127);
    while (done < 2000) {
        if (!make_structure(&rng, &structure)) continue;
        size_t size = pack_structure(&structure, data, sizeof data), raw_size;
        struct sn_cursor cursor;
        sn_cursor_init(&cursor, data, size);
        expect_structure(&structure, &cursor);
        sn_cursor_init(&cursor, data, size);
        assert_ptr_equal(sn_cursor_raw(&cursor, &raw_size), data);
        assert_int_equal(raw_size, size);
        assert_int_equal(skip_copy(data, size), SN_OK);
        for (int cut = 0; cut < 5 && size > 1; cut++) {
            size_t part = 1 + rng_below(&rng, (uint32_t)(size - 1));
            assert_int_equal(skip_copy(data, part), SN_EINVAL);
        }
        done++;
    }
}

static void damaged_structures_only_fail(void **state)
{
    (void)state;
    static struct structure structure;
    static uint8_t data[PACK_BYTES_MAX];
    size_t before = sn_alloc_in_use();
    uint64_t rng = 8;
    for (int round = 0; round < 5000; round++) {
        if (!make_structure(&rng, &structure)) continue;
        size_t size = pack_structure(&structure, data, sizeof data);
        for (uint32_t i = 0; i < 3; i++) {
            data[rng_below(&rng, (uint32_t)size)] = (uint8_t)rng_next(&rng);
        }
        enum sn_err err = skip_copy(data, size);
        assert_true(err == SN_OK || err == SN_EINVAL || err == SN_ETOOBIG);
    }
    assert_int_equal(sn_alloc_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_structures_come_back),
        cmocka_unit_test(damaged_structures_only_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
