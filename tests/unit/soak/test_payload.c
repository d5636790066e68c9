/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and contents of a soak's messages: what a checker can rely on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "payload.h"

#define MESSAGES 4000u

static struct soak_plan plan_of(uint64_t seed, uint64_t run, const char *sender)
{
    struct soak_plan plan = {.run = run, .messages = MESSAGES, .size_min = 64, .size_max = 65536};
    plan.key = sni_soak_key(seed, run, sender);
    return plan;
}

static void sizes_are_log_uniform(void **state)
{
    (void)state;
    struct soak_plan plan = plan_of(7, 1, "north/hub");
    unsigned octaves[10] = {0};
    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint32_t size = sni_soak_size(&plan, i);
        assert_in_range(size, 64, 65536);
        unsigned octave = 0;
        while (octave < 9 && size >= 128u << octave) octave++;
        octaves[octave]++;
    }
    for (unsigned i = 0; i < 10; i++) assert_in_range(octaves[i], MESSAGES / 14, MESSAGES / 7);
}

static void sizes_keep_to_odd_ranges(void **state)
{
    (void)state;
    static const uint32_t ranges[][2] = {{16, 16},   {16, 17},         {100, 199},
                                         {100, 201}, {196608, 196608}, {16, 196608}};
    for (unsigned r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
        struct soak_plan plan = plan_of(r, 1, "a/b");
        uint32_t low = UINT32_MAX, high = 0;
        plan.size_min = ranges[r][0];
        plan.size_max = ranges[r][1];
        for (uint64_t i = 0; i < MESSAGES; i++) {
            uint32_t size = sni_soak_size(&plan, i);
            low = size < low ? size : low;
            high = size > high ? size : high;
        }
        assert_in_range(low, ranges[r][0], ranges[r][0] + ranges[r][0] / 20);
        assert_in_range(high, ranges[r][1] - ranges[r][1] / 20, ranges[r][1]);
    }
}

static void any_altered_byte_is_noticed(void **state)
{
    (void)state;
    struct soak_plan plan = plan_of(1, 2, "north/hub");
    static uint8_t bytes[65536 + 1];
    plan.size_max = 300;
    for (uint64_t number = 0; number < 20; number++) {
        uint32_t size = sni_soak_size(&plan, number);
        sni_soak_write(&plan, number, bytes);
        assert_true(sni_soak_matches(&plan, number, bytes, size));
        assert_int_equal(sni_soak_number(&plan, bytes, size), number);
        assert_false(sni_soak_matches(&plan, number, bytes, size - 1));
        assert_false(sni_soak_matches(&plan, number, bytes, size + 1));
        assert_false(sni_soak_matches(&plan, number + 1, bytes, size));
        for (uint32_t i = 0; i < size; i++) {
            bytes[i] ^= 1u;
            assert_false(sni_soak_matches(&plan, number, bytes, size));
            bytes[i] ^= 1u;
        }
    }
}

static void short_bytes_have_no_number(void **state)
{
    (void)state;
    struct soak_plan plan = plan_of(1, 0, "north/hub");
    uint8_t bytes[SOAK_HEAD_BYTES] = {0};
    for (uint32_t size = 0; size < sizeof bytes; size++) {
        assert_true(sni_soak_number(&plan, bytes, size) >= plan.messages);
    }
}

/* Whoever mixes up seed, run or sender sees other bytes. */
static void contents_belong_to_one_direction(void **state)
{
    (void)state;
    struct soak_plan plan = plan_of(1, 2, "north/hub");
    struct soak_plan others[] = {plan_of(2, 2, "north/hub"), plan_of(1, 3, "north/hub"),
                                 plan_of(1, 2, "south/edge")};
    static uint8_t bytes[65536];
    for (unsigned i = 0; i < 3; i++) {
        assert_true(others[i].key != plan.key);
        others[i].run = plan.run; /* the head alone must not give it away */
        unsigned matches = 0;
        for (uint64_t number = 0; number < 50; number++) {
            sni_soak_write(&plan, number, bytes);
            matches +=
                sni_soak_matches(&others[i], number, bytes, sni_soak_size(&plan, number)) != 0;
        }
        assert_int_equal(matches, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_log_uniform),
        cmocka_unit_test(sizes_keep_to_odd_ranges),
        cmocka_unit_test(any_altered_byte_is_noticed),
        cmocka_unit_test(short_bytes_have_no_number),
        cmocka_unit_test(contents_belong_to_one_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
