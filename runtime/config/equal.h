/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two versions of a file. Thread-safe: yes (pure functions). Blocking: no. */
#ifndef SN_CONFIG_EQUAL_H
#define SN_CONFIG_EQUAL_H

#include "sennit/config.h"

/* Nonzero when both say the same; layout, comments and the order of keys do not count. NULL is equal to NULL only. */
int sn_config_is_equal(const struct sn_config_node *a, const struct sn_config_node *b);

/* Two mappings: a key that `to` changed or added, or `to` itself when one is missing there; NULL when there is none.
 * Keys in `skipped` (ends with NULL) do not count. */
const struct sn_config_node *sn_config_difference(const struct sn_config_node *from,
                                                  const struct sn_config_node *to,
                                                  const char *const *skipped);

#endif
