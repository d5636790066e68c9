/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/meter.h"

static void expect(const struct sn_meter *meter, uint64_t sent, uint64_t received)
{
    uint64_t got_sent = 99, got_received = 99;
    sn_meter_read(meter, &got_sent, &got_received);
    assert_int_equal(got_sent, sent);
    assert_int_equal(got_received, received);
}

static void test_adds_up(void **state)
{
    struct sn_meter *meter = NULL;
    (void)state;
    assert_int_equal(sn_meter_new(&meter), SN_OK);
    expect(meter, 0, 0);
    sn_meter_add(meter, 5, 0);
    sn_meter_add(meter, 0, UINT64_C(1) << 40);
    sn_meter_add(meter, 2, 3);
    expect(meter, 7, (UINT64_C(1) << 40) + 3);
    sn_meter_free(meter);
}

/* The maker may go first, and so may whoever adds. */
static void test_lives_as_long_as_it_is_held(void **state)
{
    struct sn_meter *meter = NULL;
    size_t before = sn_alloc_in_use();
    (void)state;
    assert_int_equal(sn_meter_new(&meter), SN_OK);
    struct sn_meter *held = sn_meter_ref(meter);
    assert_ptr_equal(held, meter);
    sn_meter_free(meter);
    sn_meter_add(held, 1, 1);
    expect(held, 1, 1);
    sn_meter_free(held);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void test_none(void **state)
{
    struct sn_meter *meter = NULL;
    (void)state;
    assert_null(sn_meter_ref(NULL));
    sn_meter_add(NULL, 1, 1);
    sn_meter_free(NULL);
    sn_alloc_fail_nth(1);
    enum sn_err err = sn_meter_new(&meter);
    sn_alloc_fail_nth(0);
    assert_int_equal(err, SN_ENOMEM);
    assert_null(meter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adds_up),
        cmocka_unit_test(test_lives_as_long_as_it_is_held),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests_name("base/meter", tests, NULL, NULL);
}
