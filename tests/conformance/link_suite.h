/* SPDX-License-Identifier: Apache-2.0 */
/* What every provider of links has to pass. A provider's whole test file is an include and SN_LINK_SUITE. */
#ifndef SN_TESTS_CONFORMANCE_LINK_SUITE_H
#define SN_TESTS_CONFORMANCE_LINK_SUITE_H

#include "link/link.h"

/* Runs all tests; the number that failed. */
int sn_link_suite_run(const struct sn_link_provider *provider);

#define SN_LINK_SUITE(provider)                                                                    \
    int main(void)                                                                                 \
    {                                                                                              \
        return sn_link_suite_run(&provider);                                                       \
    }

#endif
