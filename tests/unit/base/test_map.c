/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/map.h"
#include "unit/panic.h"
#include "unit/rng.h"

#define THINGS 500u

struct thing {
    struct sn_map_entry entry;
    char key[12];
    uint8_t is_in;
};

static const uint8_t seed[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* From the reference implementation (vectors.h): key 00..0f, input a prefix of 00 01 02 ... */
static void siphash_gives_the_reference_values(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint64_t hash;
    } vectors[] = {
        {0, 0x726fdb47dd0e0e31},  {1, 0x74f839c593dc67fd},  {2, 0x0d6c8009d9a94f5a},
        {3, 0x85676696d7fb7e2d},  {8, 0x93f5f5799a932462},  {15, 0xa129ca6149be45e5},
        {16, 0x3f2acc7f57c29bdb}, {63, 0x958a324ceb064572},
    };
    const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    uint8_t input[64];
    for (size_t i = 0; i < sizeof input; i++) input[i] = (uint8_t)i;
    for (size_t i = 0; i < SN_ARRAY_COUNT(vectors); i++) {
        assert_int_equal(sn_siphash(key, input, vectors[i].size), vectors[i].hash);
    }
    uint8_t shifted[65];
    memcpy(shifted + 1, input, 64);
    assert_int_equal(sn_siphash(key, shifted + 1, 63), 0x958a324ceb064572); /* not aligned */
    assert_int_equal(sn_siphash(key, NULL, 0), 0x726fdb47dd0e0e31);
}

static void the_seed_is_read_as_the_siphash_key(void **state)
{
    (void)state;
    struct sn_map map;
    sn_map_init(&map, seed);
    assert_int_equal(map.seed[0], 0x0807060504030201);
    assert_int_equal(map.seed[1], 0x100f0e0d0c0b0a09);
    sn_map_fini(&map);
}

static uint32_t walk(const struct sn_map *map)
{
    uint32_t count = 0;
    for (struct sn_map_entry *it = sn_map_next(map, NULL); it != NULL; it = sn_map_next(map, it)) {
        const struct thing *thing = (const struct thing *)(const void *)it;
        assert_true(thing->is_in);
        count++;
    }
    return count;
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_map map;
    static struct thing things[THINGS]; /* static: larger than a stack buffer may be */
    uint64_t rng = 3;
    uint32_t count = 0;
    sn_map_init(&map, seed);
    for (uint32_t i = 0; i < THINGS; i++) snprintf(things[i].key, sizeof things[i].key, "k%u", i);
    for (int step = 0; step < 50000; step++) {
        struct thing *thing = &things[rng_below(&rng, THINGS)];
        char key[sizeof thing->key];
        memcpy(key, thing->key, sizeof key); /* equal bytes at another address */
        uint32_t size = (uint32_t)strlen(key);
        struct sn_map_entry *found = sn_map_find(&map, key, size);
        assert_ptr_equal(found, thing->is_in ? &thing->entry : NULL);
        if (thing->is_in) {
            struct sn_map_entry other;
            assert_int_equal(sn_map_insert(&map, &other, key, size), SN_EEXIST);
            sn_map_remove(&map, &thing->entry);
            count--;
        } else {
            assert_int_equal(sn_map_insert(&map, &thing->entry, thing->key, size), SN_OK);
            count++;
        }
        thing->is_in = !thing->is_in;
        assert_int_equal(map.count, count);
        if (step % 500 == 0) assert_int_equal(walk(&map), count);
    }
    assert_true(map.bucket_count >= map.count);
    sn_map_fini(&map);
    sn_map_fini(&map);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void keys_are_bytes_of_any_length(void **state)
{
    (void)state;
    struct sn_map map;
    struct thing empty = {.is_in = 1}, zero = {.is_in = 1}, zeros = {.is_in = 1};
    sn_map_init(&map, seed);
    assert_null(sn_map_find(&map, "", 0));
    assert_null(sn_map_next(&map, NULL));
    assert_int_equal(sn_map_insert(&map, &empty.entry, NULL, 0), SN_OK);
    assert_int_equal(sn_map_insert(&map, &zero.entry, "\0", 1), SN_OK);
    assert_int_equal(sn_map_insert(&map, &zeros.entry, "\0\0", 2), SN_OK);
    assert_ptr_equal(sn_map_find(&map, "", 0), &empty.entry);
    assert_ptr_equal(sn_map_find(&map, "\0\0\0", 1), &zero.entry);
    assert_ptr_equal(sn_map_find(&map, "\0\0\0", 2), &zeros.entry);
    assert_null(sn_map_find(&map, "\0\0\0", 3));
    assert_int_equal(walk(&map), 3);
    sn_map_fini(&map);
}

static void memory_failures_leave_a_usable_map(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_map map;
    static struct thing things[THINGS];
    memset(things, 0, sizeof things);
    sn_map_init(&map, seed);
    for (uint32_t i = 0; i < THINGS; i++) snprintf(things[i].key, sizeof things[i].key, "k%u", i);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_map_insert(&map, &things[0].entry, "k0", 2), SN_ENOMEM);
    assert_null(sn_map_find(&map, "k0", 2));
    for (uint32_t i = 0; i < THINGS; i++) {
        uint32_t size = (uint32_t)strlen(things[i].key);
        if (i > 0) sn_alloc_fail_nth(1); /* growth fails, the insert does not */
        assert_int_equal(sn_map_insert(&map, &things[i].entry, things[i].key, size), SN_OK);
        things[i].is_in = 1;
    }
    assert_int_equal(map.bucket_count, 8);
    assert_int_equal(walk(&map), THINGS);
    sn_alloc_fail_nth(0);
    for (uint32_t i = 0; i < THINGS; i++) {
        uint32_t size = (uint32_t)strlen(things[i].key);
        assert_ptr_equal(sn_map_find(&map, things[i].key, size), &things[i].entry);
    }
    sn_map_fini(&map);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void removing_what_is_out_panics(void **state)
{
    (void)state;
    struct sn_map map;
    struct thing in = {.is_in = 1}, out = {0};
    sn_map_init(&map, seed);
    expect_assert_failure(sn_map_remove(&map, &out.entry));
    assert_int_equal(sn_map_insert(&map, &in.entry, "a", 1), SN_OK);
    expect_assert_failure(sn_map_remove(&map, &out.entry));
    assert_int_equal(map.count, 1);
    sn_map_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash_gives_the_reference_values),
        cmocka_unit_test(the_seed_is_read_as_the_siphash_key),
        cmocka_unit_test(random_operations_agree_with_a_model),
        cmocka_unit_test(keys_are_bytes_of_any_length),
        cmocka_unit_test(memory_failures_leave_a_usable_map),
        cmocka_unit_test(removing_what_is_out_panics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
