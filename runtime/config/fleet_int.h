/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SN_CONFIG_FLEET_INT_H
#define SN_CONFIG_FLEET_INT_H

#include "config/fleet.h"

/* Values of `targets:` entries that the model needs defaults of. */
extern const struct sn_config_field sni_fleet_target_fields[];

/* A name in the fleet, for the node that mentions it: reports an unknown one with a suggestion and
 * returns SN_FLEET_NONE. */
uint32_t sni_fleet_resolve_agent(const struct sn_fleet *fleet, const struct sn_config_node *node,
                                 const char *name, struct sn_findings *findings);

/* Checks that need the whole model, after all references in it were resolved. */
void sni_fleet_check(const struct sn_fleet *fleet, struct sn_findings *findings);

#endif
