/* SPDX-License-Identifier: Apache-2.0 */
#include "carrier/carrier_tls.h"
#include "conformance/carrier_suite.h"

static const struct carrier_provider provider = {"tls", sn_carrier_tls_new, 1};

SN_CARRIER_SUITE(provider)
