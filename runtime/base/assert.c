/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

static sn_panic_hook panic_hook;

void sn_panic_set_hook(sn_panic_hook hook)
{
    panic_hook = hook;
}

void sn_panic(const char *file, int line, const char *expr)
{
    static volatile int panicking;
    /* stdio rather than the environment: nothing may be trusted any more. */
    fprintf(stderr, "sennit: assertion failed: %s (%s:%d)\n", expr, file, line);
    if (!panicking && panic_hook != NULL) {
        panicking = 1;
        panic_hook(file, line, expr);
    }
    abort();
}
