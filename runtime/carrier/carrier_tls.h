/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes over TLS 1.3 over TCP. Limits before authentication: at most handshakes_max at once,
 * handshakes_per_address_max from one address, handshake_timeout_ms each; when full the oldest unfinished
 * one is evicted (its `failed` says EFULL). At an address's own limit the newcomer is shed, or, when the oldest
 * one of that address has had a fifth of its time, that one is evicted. All listeners of a carrier belong to one
 * worker, on which `accepted` and `shed` are called; dialing works on any. */
#ifndef SN_CARRIER_CARRIER_TLS_H
#define SN_CARRIER_CARRIER_TLS_H

#include "carrier/carrier.h"

SN_MUST_CHECK enum sn_err sn_carrier_tls_new(const struct sn_carrier_config *config,
                                             struct sn_carrier **out_carrier);

#endif
