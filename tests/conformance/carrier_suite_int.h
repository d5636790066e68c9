/* SPDX-License-Identifier: Apache-2.0 */
/* The two groups of carrier tests: any provider, and TLS over TCP only. */
#ifndef SN_TESTS_CONFORMANCE_CARRIER_SUITE_INT_H
#define SN_TESTS_CONFORMANCE_CARRIER_SUITE_INT_H

#include "conformance/carrier_world.h"

int carrier_strangers_run(const struct carrier_provider *provider);

#endif
