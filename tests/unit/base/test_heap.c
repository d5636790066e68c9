/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/heap.h"
#include "unit/panic.h"
#include "unit/rng.h"

#define NODES 200u

static void check_invariants(const struct sn_heap *heap)
{
    for (uint32_t i = 0; i < heap->count; i++) {
        assert_int_equal(heap->nodes[i]->index, i);
        if (i > 0) assert_true(heap->nodes[(i - 1) / 2]->key <= heap->nodes[i]->key);
    }
}

/* The model: an array of flags; the smallest key by looking at all of them. */
static void check_against_model(const struct sn_heap *heap, const struct sn_heap_node *nodes,
                                const uint8_t *is_in)
{
    uint32_t count = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < NODES; i++) {
        if (!is_in[i]) continue;
        count++;
        if (nodes[i].key < least) least = nodes[i].key;
    }
    assert_int_equal(heap->count, count);
    if (count == 0) {
        assert_null(sn_heap_first(heap));
    } else {
        assert_int_equal(sn_heap_first(heap)->key, least);
    }
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_heap heap;
    static struct sn_heap_node nodes[NODES]; /* static: larger than a stack buffer may be */
    uint8_t is_in[NODES] = {0};
    uint64_t rng = 1;
    sn_heap_init(&heap);
    for (int step = 0; step < 20000; step++) {
        uint32_t i = rng_below(&rng, NODES);
        /* Few distinct keys, so that equal ones are common. */
        uint64_t key = rng_below(&rng, 4) == 0 ? rng_next(&rng) : rng_below(&rng, 20);
        if (!is_in[i]) {
            assert_int_equal(sn_heap_insert(&heap, &nodes[i], key), SN_OK);
            is_in[i] = 1;
        } else if (rng_below(&rng, 3) > 0) {
            sn_heap_update(&heap, &nodes[i], key);
            assert_int_equal(nodes[i].key, key);
        } else {
            sn_heap_remove(&heap, &nodes[i]);
            assert_int_equal(nodes[i].index, SN_HEAP_NONE);
            is_in[i] = 0;
        }
        check_invariants(&heap);
        check_against_model(&heap, nodes, is_in);
    }
    sn_heap_fini(&heap);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void it_sorts(void **state)
{
    (void)state;
    struct sn_heap heap;
    static struct sn_heap_node nodes[NODES];
    uint64_t rng = 2, last = 0;
    memset(nodes, 0, sizeof nodes);
    sn_heap_init(&heap);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(sn_heap_insert(&heap, &nodes[i], rng_next(&rng)), SN_OK);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        struct sn_heap_node *node = sn_heap_first(&heap);
        assert_true(node->key >= last);
        last = node->key;
        sn_heap_remove(&heap, node);
    }
    assert_null(sn_heap_first(&heap));
    sn_heap_fini(&heap);
}

static void removing_what_is_out_is_harmless(void **state)
{
    (void)state;
    struct sn_heap heap;
    struct sn_heap_node in = {0}, fresh = {0}, out = {.index = SN_HEAP_NONE};
    sn_heap_init(&heap);
    sn_heap_remove(&heap, &fresh);
    assert_int_equal(sn_heap_insert(&heap, &in, 5), SN_OK);
    sn_heap_remove(&heap, &fresh);
    sn_heap_remove(&heap, &out);
    assert_ptr_equal(sn_heap_first(&heap), &in);
    sn_heap_remove(&heap, &in);
    sn_heap_remove(&heap, &in);
    assert_int_equal(heap.count, 0);
    sn_heap_fini(&heap);
}

static void memory_failures_change_nothing(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_heap heap;
    static struct sn_heap_node nodes[NODES];
    memset(nodes, 0, sizeof nodes);
    sn_heap_init(&heap);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_heap_insert(&heap, &nodes[0], 1), SN_ENOMEM);
    assert_int_equal(heap.count, 0);
    assert_int_equal(sn_heap_reserve(&heap, 16), SN_OK);
    for (uint32_t i = 0; i < 16; i++) {
        sn_alloc_fail_nth(1); /* reserved: no allocation happens */
        assert_int_equal(sn_heap_insert(&heap, &nodes[i], 100 - i), SN_OK);
    }
    assert_int_equal(sn_heap_insert(&heap, &nodes[16], 1), SN_ENOMEM);
    assert_int_equal(heap.count, 16);
    check_invariants(&heap);
    assert_int_equal(sn_heap_insert(&heap, &nodes[16], 1), SN_OK);
    assert_ptr_equal(sn_heap_first(&heap), &nodes[16]);
    assert_int_equal(sn_heap_reserve(&heap, UINT32_MAX), SN_ENOMEM);
    assert_int_equal(heap.count, 17);
    sn_heap_fini(&heap);
    sn_heap_fini(&heap);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void misuse_panics(void **state)
{
    (void)state;
    struct sn_heap heap;
    struct sn_heap_node node = {0}, other = {0};
    sn_heap_init(&heap);
    assert_int_equal(sn_heap_insert(&heap, &node, 1), SN_OK);
    expect_assert_failure((void)(sn_heap_insert(&heap, &node, 2) == SN_OK));
    expect_assert_failure(sn_heap_update(&heap, &other, 2));
    sn_heap_fini(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_a_model),
        cmocka_unit_test(it_sorts),
        cmocka_unit_test(removing_what_is_out_is_harmless),
        cmocka_unit_test(memory_failures_change_nothing),
        cmocka_unit_test(misuse_panics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
