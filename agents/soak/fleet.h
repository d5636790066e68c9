/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet file of one start. Thread-safe: yes. Blocking: no; no I/O. */
#ifndef SN_AGENTS_SOAK_FLEET_H
#define SN_AGENTS_SOAK_FLEET_H

#include "agents/soak/soak.h"
#include "base/text.h"

/* Appends the fleet of the number-th start, with the rig's ports. The authority's key lies above its folder. */
void sn_soak_fleet(struct sn_text *text, const struct sn_rig *rig, uint32_t number);

#endif
