/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plugin/host.h"
#include "sennit/plugin.h"

static void table_says_what_it_is(void **state)
{
    (void)state;
    assert_int_equal(sn_host_table.size, sizeof(struct sn_host));
    assert_int_equal(sn_host_table.abi_major, SN_PLUGIN_ABI_MAJOR);
    assert_int_equal(sn_host_table.abi_minor, SN_PLUGIN_ABI_MINOR);
    assert_int_equal(sn_host_table.reserved, 0);
}

/* Whatever is added at the end of the table later must be filled in, too. */
static void every_function_is_there(void **state)
{
    (void)state;
    const char *bytes = (const char *)&sn_host_table;
    size_t first = offsetof(struct sn_host, now_ms);
    for (size_t at = first; at < sizeof sn_host_table; at += sizeof(void *)) {
        uintptr_t function = 0;
        memcpy(&function, bytes + at, sizeof function);
        assert_int_not_equal(function, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_says_what_it_is),
        cmocka_unit_test(every_function_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
