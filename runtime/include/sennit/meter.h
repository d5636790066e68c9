/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meters: a pair of counters of bytes, to which any number of streams add while they move them
 * (sn_stream_tune), so that an actor sees what flows through spliced streams without being in the way.
 *
 * "Sent" is toward the peer. Between a stream and its connection a byte counts when one took it from
 * the other; of a delivered stream when the stream took what the actor wrote, and when the actor is
 * told it. Whoever made a meter frees it; streams hold it for as long as they need it, so neither their
 * end nor that of the actor has to come first.
 *
 * Threads: any. Blocking: no.
 */
#ifndef SN_METER_H
#define SN_METER_H

#include <stdint.h>

#include "sennit/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sn_meter;

/* Errors: ENOMEM. */
SN_API SN_MUST_CHECK enum sn_err sn_meter_new(struct sn_meter **out_meter);
/* The maker's hold ends; NULL is fine. */
SN_API void sn_meter_free(struct sn_meter *meter);
/* Since it was made. */
SN_API void sn_meter_read(const struct sn_meter *meter, uint64_t *out_sent, uint64_t *out_received);

#ifdef __cplusplus
}
#endif
#endif
