/* SPDX-License-Identifier: Apache-2.0 */
/* What every provider of carriers has to pass. A provider's whole test file is an include and SN_CARRIER_SUITE. */
#ifndef SN_TESTS_CONFORMANCE_CARRIER_SUITE_H
#define SN_TESTS_CONFORMANCE_CARRIER_SUITE_H

#include "carrier/carrier.h"

struct carrier_provider {
    const char *name;
    enum sn_err (*carrier_new)(const struct sn_carrier_config *config,
                               struct sn_carrier **out_carrier);
    int is_tls_over_tcp; /* hostile sockets and TLS peers can be pointed at it */
};

/* Runs all tests; the number that failed. */
int carrier_suite_run(const struct carrier_provider *provider);

#define SN_CARRIER_SUITE(provider)                                                                 \
    int main(void)                                                                                 \
    {                                                                                              \
        return carrier_suite_run(&(provider));                                                     \
    }

#endif
