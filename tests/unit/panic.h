/* SPDX-License-Identifier: Apache-2.0 */
/* Lets expect_assert_failure() see SN_ASSERT; the test's CMake line has WRAP sn_panic. */
#ifndef SN_TESTS_UNIT_PANIC_H
#define SN_TESTS_UNIT_PANIC_H

#include <stdlib.h>

#include "base/assert.h"

__attribute__((noreturn)) void __wrap_sn_panic(const char *file, int line, const char *expr);

void __wrap_sn_panic(const char *file, int line, const char *expr)
{
    mock_assert(0, expr, file, line);
    abort(); /* mock_assert does not come back */
}

#endif
