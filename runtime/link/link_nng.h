/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SN_LINK_LINK_NNG_H
#define SN_LINK_LINK_NNG_H

#include "link/link.h"

extern const struct sn_link_provider sn_link_nng;

#endif
