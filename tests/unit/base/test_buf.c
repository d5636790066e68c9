/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sennit/buf.h"
#include "sennit/limits.h"
#include "unit/panic.h"

static void a_new_view_is_empty_and_has_its_room(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_buf buf;
    assert_int_equal(sn_buf_new(100, 20, &buf), SN_OK);
    assert_int_equal(buf.size, 0);
    assert_int_equal(buf.reserved, 0);
    assert_int_equal(sn_buf_headroom(&buf), 20);
    assert_int_equal(sn_buf_tailroom(&buf), 100);
    assert_true(sn_buf_is_sole(&buf));
    memset(buf.data - 20, 1, 120); /* the sanitizer checks that the room exists */
    buf.size = 30;
    assert_int_equal(sn_buf_tailroom(&buf), 70);
    buf.data -= 5;
    buf.size += 5;
    assert_int_equal(sn_buf_headroom(&buf), 15);
    assert_int_equal(sn_buf_tailroom(&buf), 70);
    sn_buf_unref(&buf);
    assert_null(buf.slab);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void limits_and_failures_leave_the_output_alone(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_buf buf = {.size = 7};
    assert_int_equal(sn_buf_new(SN_SLAB_BYTES_MAX + 1, 0, &buf), SN_ETOOBIG);
    assert_int_equal(sn_buf_new(0, SN_HEADROOM_MAX + 1, &buf), SN_ETOOBIG);
    assert_int_equal(sn_buf_new(UINT32_MAX, UINT32_MAX, &buf), SN_ETOOBIG);
    assert_int_equal(sn_buf_copy("", SN_SLAB_BYTES_MAX + 1, &buf), SN_ETOOBIG);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_buf_new(1, 1, &buf), SN_ENOMEM);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_buf_copy("a", 1, &buf), SN_ENOMEM);
    assert_int_equal(buf.size, 7);
    assert_int_equal(sn_buf_new(SN_SLAB_BYTES_MAX, SN_HEADROOM_MAX, &buf), SN_OK);
    assert_int_equal(sn_buf_tailroom(&buf), SN_SLAB_BYTES_MAX);
    sn_buf_unref(&buf);
    assert_int_equal(sn_buf_new(0, 0, &buf), SN_OK);
    assert_int_equal(sn_buf_tailroom(&buf), 0);
    sn_buf_unref(&buf);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void the_slab_lives_until_the_last_view_goes(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_buf first, second, part, part_of_part;
    assert_int_equal(sn_buf_copy("abcdefgh", 8, &first), SN_OK);
    second = sn_buf_ref(&first);
    part = sn_buf_slice(&second, 2, 5);
    part_of_part = sn_buf_slice(&part, 1, 3);
    assert_false(sn_buf_is_sole(&first));
    assert_ptr_equal(second.data, first.data);
    sn_buf_unref(&first);
    sn_buf_unref(&first); /* empty by now */
    sn_buf_unref(&second);
    assert_memory_equal(part.data, "cdefg", 5);
    assert_int_equal(sn_buf_headroom(&part), 2);
    assert_int_equal(sn_buf_tailroom(&part), 1);
    sn_buf_unref(&part);
    assert_true(sn_buf_is_sole(&part_of_part));
    assert_int_equal(part_of_part.size, 3);
    assert_memory_equal(part_of_part.data, "def", 3);
    assert_true(sn_alloc_in_use() > before);
    sn_buf_unref(&part_of_part);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void the_empty_view_is_harmless(void **state)
{
    (void)state;
    struct sn_buf empty = {0};
    struct sn_buf other = sn_buf_ref(&empty);
    assert_null(other.slab);
    assert_int_equal(sn_buf_tailroom(&empty), 0);
    assert_int_equal(sn_buf_headroom(&empty), 0);
    assert_false(sn_buf_is_sole(&empty));
    sn_buf_unref(&empty);
    sn_buf_unref(&other);
    size_t before = sn_alloc_in_use();
    assert_int_equal(sn_buf_copy(NULL, 0, &empty), SN_OK);
    sn_buf_unref(&empty);
    assert_int_equal(sn_alloc_in_use(), before);
}

static void a_slice_outside_panics(void **state)
{
    (void)state;
    struct sn_buf buf;
    assert_int_equal(sn_buf_copy("abcd", 4, &buf), SN_OK);
    struct sn_buf none = sn_buf_slice(&buf, 4, 0);
    assert_int_equal(none.size, 0);
    sn_buf_unref(&none);
    expect_assert_failure((void)sn_buf_slice(&buf, 5, 0));
    expect_assert_failure((void)sn_buf_slice(&buf, 1, 4));
    expect_assert_failure((void)sn_buf_slice(&buf, 2, UINT32_MAX));
    assert_true(sn_buf_is_sole(&buf));
    sn_buf_unref(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_view_is_empty_and_has_its_room),
        cmocka_unit_test(limits_and_failures_leave_the_output_alone),
        cmocka_unit_test(the_slab_lives_until_the_last_view_goes),
        cmocka_unit_test(the_empty_view_is_harmless),
        cmocka_unit_test(a_slice_outside_panics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
