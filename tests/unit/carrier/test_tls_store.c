/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "carrier/tls_store.h"
#include "unit/rng.h"

#define ROUNDS 20000

/* Takes up to `size` bytes out of the ring as a socket would, and checks that they count up from `next`. */
static uint32_t drain(struct sni_ring *ring, uint32_t size, uint8_t next)
{
    struct sn_iovec pieces[2];
    uint32_t count = sni_ring_pieces(ring, pieces);
    uint32_t taken = 0;
    size_t all = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *bytes = pieces[i].data;
        assert_true(pieces[i].size > 0);
        all += pieces[i].size;
        for (size_t j = 0; j < pieces[i].size && taken < size; j++, taken++) {
            assert_int_equal(bytes[j], (uint8_t)(next + taken));
        }
    }
    assert_int_equal(all, ring->used);
    sni_ring_drop(ring, taken);
    return taken;
}

/* Random puts, drops and growth: what comes out is what went in, in order. */
static void test_ring_keeps_order(void **state)
{
    (void)state;
    struct sni_ring ring = {0};
    uint64_t rng = 1;
    uint8_t in = 0;
    uint8_t out = 0;
    size_t before = sn_alloc_in_use();
    assert_int_equal(sni_ring_reserve(&ring, 64), SN_OK);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint8_t bytes[200];
        uint32_t size = 1 + rng_below(&rng, sizeof bytes);
        if (size > sni_ring_room(&ring)) size = sni_ring_room(&ring);
        for (uint32_t j = 0; j < size; j++) bytes[j] = in++;
        if (size > 0) sni_ring_put(&ring, bytes, size);
        if (i % 1000 == 0) {
            assert_int_equal(sni_ring_reserve(&ring, ring.capacity + 33), SN_OK);
        }
        out = (uint8_t)(out + drain(&ring, rng_below(&rng, 200), out));
        assert_true(ring.used <= ring.capacity);
        assert_true(ring.begin < ring.capacity);
    }
    out = (uint8_t)(out + drain(&ring, UINT32_MAX, out));
    assert_int_equal(in, out);
    assert_int_equal(ring.begin, 0); /* an empty ring starts anew */
    sni_ring_fini(&ring);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void test_ring_survives_a_failed_growth(void **state)
{
    (void)state;
    struct sni_ring ring = {0};
    static const uint8_t bytes[] = {0, 1, 2, 3};
    sn_alloc_fail_nth(1);
    assert_int_equal(sni_ring_reserve(&ring, 8), SN_ENOMEM);
    assert_int_equal(sni_ring_room(&ring), 0);
    assert_int_equal(sni_ring_reserve(&ring, 8), SN_OK);
    sni_ring_put(&ring, bytes, sizeof bytes);
    sn_alloc_fail_nth(1);
    assert_int_equal(sni_ring_reserve(&ring, 16), SN_ENOMEM);
    assert_int_equal(sni_ring_reserve(&ring, 4), SN_OK); /* it has that */
    sn_alloc_fail_nth(0);
    assert_int_equal(drain(&ring, 4, 0), 4);
    sni_ring_fini(&ring);
    sni_ring_fini(&ring);
}

static void test_span_gives_what_it_has(void **state)
{
    (void)state;
    struct sni_span span = {0};
    uint8_t out[8];
    size_t before = sn_alloc_in_use();
    assert_int_equal(sni_span_take(&span, out, 8), 0);
    assert_int_equal(sni_span_reserve(&span, 16), SN_OK);
    memcpy(span.data, "abcdef", 6);
    span.end = 6;
    assert_int_equal(sni_span_take(&span, out, 4), 4);
    assert_memory_equal(out, "abcd", 4);
    assert_int_equal(sni_span_take(&span, out, 8), 2);
    assert_memory_equal(out, "ef", 2);
    assert_true(sni_span_is_empty(&span));
    sn_alloc_fail_nth(1);
    assert_int_equal(sni_span_reserve(&span, 16), SN_OK); /* the memory it has */
    assert_int_equal(sni_span_reserve(&span, 32), SN_ENOMEM);
    assert_int_equal(span.capacity, 16);
    sn_alloc_fail_nth(0);
    assert_int_equal(sni_span_reserve(&span, 32), SN_OK);
    sni_span_fini(&span);
    assert_int_equal(sn_alloc_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_keeps_order),
        cmocka_unit_test(test_ring_survives_a_failed_growth),
        cmocka_unit_test(test_span_gives_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
