/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sennit/limits.h"
#include "stream/pieces_int.h"

static void push(struct sni_pieces *pieces, struct sn_buf view)
{
    struct sn_buf rest;
    assert_int_equal(sni_pieces_push(pieces, &view, 0, &rest), SN_OK);
    assert_null(view.slab);
    sn_buf_unref(&rest);
}

static struct sn_buf numbered(uint32_t from, uint32_t size)
{
    struct sn_buf buf;
    assert_int_equal(sn_buf_new(size, 0, &buf), SN_OK);
    for (uint32_t i = 0; i < size; i++) buf.data[i] = (uint8_t)((from + i) * 7);
    buf.size = size;
    return buf;
}

/* Pops everything and checks that the bytes go on from `from`. */
static uint32_t drain(struct sni_pieces *pieces, uint32_t from)
{
    while (pieces->count > 0) {
        struct sn_buf buf = sni_pieces_pop(pieces);
        for (uint32_t i = 0; i < buf.size; i++) {
            assert_int_equal(buf.data[i], (uint8_t)((from + i) * 7));
        }
        from += buf.size;
        sn_buf_unref(&buf);
    }
    assert_true(pieces->bytes == 0 && pieces->pinned == 0);
    return from;
}

static void test_large_views_are_kept(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sni_pieces pieces;
    sni_pieces_init(&pieces, 1u << 20);
    struct sn_buf view = numbered(0, 100000);
    const uint8_t *data = view.data;
    push(&pieces, view);
    assert_ptr_equal(sni_pieces_at(&pieces, 0)->buf.data, data);
    assert_int_equal(drain(&pieces, 0), 100000);
    sni_pieces_fini(&pieces);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void test_neighbours_join(void **state)
{
    (void)state;
    struct sni_pieces pieces;
    sni_pieces_init(&pieces, 1u << 20);
    struct sn_buf slab = numbered(0, 60000);
    for (uint32_t at = 0; at < 60000; at += 1500) push(&pieces, sn_buf_slice(&slab, at, 1500));
    assert_int_equal(pieces.count, 1);
    assert_int_equal(pieces.pinned, 60000);
    sn_buf_unref(&slab);
    assert_int_equal(drain(&pieces, 0), 60000);
    sni_pieces_fini(&pieces);
}

/* One slab, views with holes between them: charged once, until its last view is gone. */
static void test_slab_is_charged_once(void **state)
{
    (void)state;
    struct sni_pieces pieces;
    sni_pieces_init(&pieces, 1u << 20);
    struct sn_buf slab = numbered(0, 60000);
    for (uint32_t at = 0; at < 60000; at += 6000) push(&pieces, sn_buf_slice(&slab, at, 2000));
    assert_int_equal(pieces.count, 10);
    assert_int_equal(pieces.pinned, 60000);
    for (uint32_t i = 0; i < 9; i++) {
        struct sn_buf buf = sni_pieces_pop(&pieces);
        sn_buf_unref(&buf);
        assert_int_equal(pieces.pinned, 60000);
    }
    sn_buf_unref(&slab);
    sni_pieces_fini(&pieces);
    assert_int_equal(pieces.pinned, 0);
}

/* A peer that sends single bytes, each in a slab of its own, pins next to nothing. */
static void test_small_pieces_are_copied(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sni_pieces pieces;
    sni_pieces_init(&pieces, 1u << 20);
    for (uint32_t i = 0; i < 1500; i++) {
        struct sn_buf slab;
        assert_int_equal(sn_buf_new(SN_SLAB_BYTES_MAX, 0, &slab), SN_OK);
        slab.data[0] = (uint8_t)(i * 7);
        slab.size = 1;
        push(&pieces, slab);
    }
    assert_int_equal(pieces.bytes, 1500);
    assert_true(sn_alloc_in_use() - before < SN_SLAB_BYTES_MAX + 2 * 1500 + 4096);
    assert_int_equal(drain(&pieces, 0), 1500);
    sni_pieces_fini(&pieces);
    assert_int_equal(sn_alloc_in_use(), before);
}

/* The same with pieces too large to be called small: the limit on pinned memory stops it. */
static void test_pinned_limit(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    const uint32_t limit = 4 * SN_SLAB_BYTES_MAX;
    struct sni_pieces pieces;
    sni_pieces_init(&pieces, limit);
    for (uint32_t i = 0; i < 200; i++) {
        struct sn_buf slab;
        assert_int_equal(sn_buf_new(SN_SLAB_BYTES_MAX, 0, &slab), SN_OK);
        for (uint32_t k = 0; k < 1200; k++) slab.data[k] = (uint8_t)((i * 1200 + k) * 7);
        slab.size = 1200;
        push(&pieces, slab);
    }
    assert_true(sn_alloc_in_use() - before < limit + 2u * 200u * 1200u);
    assert_int_equal(drain(&pieces, 0), 200 * 1200);
    sni_pieces_fini(&pieces);
    assert_int_equal(sn_alloc_in_use(), before);
}

/* Bytes that somebody else looks at are never appended to. */
static void test_copy_in_use_is_left_alone(void **state)
{
    (void)state;
    struct sni_pieces pieces;
    sni_pieces_init(&pieces, 0);
    push(&pieces, numbered(0, 10));
    struct sn_buf seen = sn_buf_ref(&sni_pieces_at(&pieces, 0)->buf);
    push(&pieces, numbered(10, 10));
    assert_int_equal(pieces.count, 2);
    sn_buf_unref(&seen);
    push(&pieces, numbered(20, 5000));
    assert_int_equal(pieces.count, 3);
    assert_int_equal(drain(&pieces, 0), 5020);
    sni_pieces_fini(&pieces);
}

static void test_allocation_failure(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    for (uint32_t target = 0; target < 12; target++) {
        int failed = 1;
        for (uint64_t nth = 1; failed; nth++) {
            struct sni_pieces pieces;
            sni_pieces_init(&pieces, 20000);
            uint32_t pushed = 0;
            for (uint32_t i = 0; i <= target; i++) {
                uint32_t size = i % 3 == 0 ? 5000 : 1000;
                struct sn_buf view = numbered(pushed, size), rest = {0};
                if (i == target) sn_alloc_fail_nth(nth);
                enum sn_err err = sni_pieces_push(&pieces, &view, 0, &rest);
                sn_alloc_fail_nth(0);
                failed = err != SN_OK;
                if (failed) {
                    assert_int_equal(err, SN_ENOMEM);
                    assert_int_equal(pieces.bytes, pushed);
                    assert_non_null(view.slab);
                    assert_int_equal(sni_pieces_push(&pieces, &view, 0, &rest), SN_OK);
                }
                sn_buf_unref(&rest);
                pushed += size;
            }
            assert_int_equal(drain(&pieces, 0), pushed);
            sni_pieces_fini(&pieces);
            assert_int_equal(sn_alloc_in_use(), before);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_views_are_kept),
        cmocka_unit_test(test_neighbours_join),
        cmocka_unit_test(test_slab_is_charged_once),
        cmocka_unit_test(test_small_pieces_are_copied),
        cmocka_unit_test(test_pinned_limit),
        cmocka_unit_test(test_copy_in_use_is_left_alone),
        cmocka_unit_test(test_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
