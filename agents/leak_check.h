/* SPDX-License-Identifier: Apache-2.0 */
/* What sanitizer and coverage builds do at exit, since the program leaves by _exit. */
#ifndef SN_AGENTS_LEAK_CHECK_H
#define SN_AGENTS_LEAK_CHECK_H

/* Looks for leaks where the build can (then *status becomes 23 and a report is on standard error), and writes out
 * coverage counters. Does nothing in other builds. */
void sn_leak_check(int *status);

#endif
