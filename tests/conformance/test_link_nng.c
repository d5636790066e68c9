/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/link_suite.h"
#include "link/link_nng.h"

SN_LINK_SUITE(sn_link_nng)
