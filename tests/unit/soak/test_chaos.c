/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of deaths: it follows from the seed, keeps its bounds and leaves out no kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agents/soak/chaos.h"

static const struct sn_soak_flap flap = {
    .up_min_ms = 10, .up_max_ms = 14, .stop_min_ms = 3, .stop_max_ms = 3};

static void the_seed_decides(void **state)
{
    (void)state;
    struct sn_plan one, same, other;
    unsigned equal = 0;
    sn_plan_init(&one, &flap, 5);
    sn_plan_init(&same, &flap, 5);
    sn_plan_init(&other, &flap, 6);
    for (unsigned i = 0; i < 100; i++) {
        struct sn_death a, b, c;
        sn_plan_next(&one, &a);
        sn_plan_next(&same, &b);
        sn_plan_next(&other, &c);
        assert_memory_equal(&a, &b, sizeof a);
        equal += memcmp(&a, &c, sizeof a) == 0;
    }
    assert_in_range(equal, 0, 20);
}

static void every_five_have_each_kind(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct sn_plan plan;
        sn_plan_init(&plan, &flap, seed);
        for (unsigned round = 0; round < 4; round++) {
            unsigned counts[4] = {0};
            for (unsigned i = 0; i < SN_DEATH_DECK; i++) {
                struct sn_death death;
                sn_plan_next(&plan, &death);
                counts[death.order]++;
            }
            assert_int_equal(counts[SN_ORDER_KILL], 1);
            assert_int_equal(counts[SN_ORDER_STOP], 1);
            assert_int_equal(counts[SN_ORDER_STOP_KILL], 1);
            assert_int_equal(counts[SN_ORDER_CUT], 2);
        }
    }
}

static void times_lie_between_their_bounds_and_reach_them(void **state)
{
    (void)state;
    struct sn_plan plan;
    unsigned at[5] = {0};
    sn_plan_init(&plan, &flap, 1);
    for (unsigned i = 0; i < 500; i++) {
        struct sn_death death;
        sn_plan_next(&plan, &death);
        assert_in_range(death.after_ms, 10, 14);
        assert_int_equal(death.stop_ms, 3);
        assert_in_range(death.down_ms, 100, 1000);
        at[death.after_ms - 10]++;
    }
    for (unsigned i = 0; i < 5; i++) assert_in_range(at[i], 50, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(every_five_have_each_kind),
        cmocka_unit_test(times_lie_between_their_bounds_and_reach_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
