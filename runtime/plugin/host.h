/* SPDX-License-Identifier: Apache-2.0 */
/* The host table: what actors see of the agent, assembled from the modules that do the work. */
#ifndef SN_PLUGIN_HOST_H
#define SN_PLUGIN_HOST_H

#include "sennit/actor.h"

/* For sn_system_config.host. Handlers may use its stream and connection calls once the net is
 * attached (sn_net_attach). */
extern const struct sn_host sn_host_table;

#endif
