/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/leak_check.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_LEAK_CHECK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_LEAK_CHECK 1
#endif
#endif

#ifdef HAS_LEAK_CHECK
#include <sanitizer/lsan_interface.h>
#endif
#ifdef SN_COVERAGE
void __gcov_dump(void);
#endif

#define LEAK_STATUS 23 /* LeakSanitizer's own exit status */

void sn_leak_check(int *status)
{
#ifdef HAS_LEAK_CHECK
    if (__lsan_do_recoverable_leak_check() != 0) *status = LEAK_STATUS;
#endif
#ifdef SN_COVERAGE
    __gcov_dump();
#endif
    (void)status; /* unused in plain builds */
}
