/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of plugins, as both files have them under `sha256`. */
#ifndef SN_CONFIG_SHA256_H
#define SN_CONFIG_SHA256_H

#include "config/finding.h"
#include "sennit/config.h"

/* One digest; that its characters are digits is checked by the function below. */
extern const struct sn_config_field sni_sha256_item;

/* Adds findings at those of the list (may be NULL) that are no digests. */
void sni_sha256_check(const struct sn_config_node *list, struct sn_findings *findings);

#endif
