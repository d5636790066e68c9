/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of struct sn_meter (sennit/meter.h). Thread-safe: every call. */
#ifndef SN_BASE_METER_H
#define SN_BASE_METER_H

#include <stdint.h>

#include "sennit/meter.h"

/* One holder more; each lets go with sn_meter_free. NULL yields NULL. */
struct sn_meter *sn_meter_ref(struct sn_meter *meter);
/* NULL is fine. */
void sn_meter_add(struct sn_meter *meter, uint64_t sent, uint64_t received);

#endif
