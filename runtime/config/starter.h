/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SN_CONFIG_STARTER_H
#define SN_CONFIG_STARTER_H

#include "sennit/err.h"

/* The fleet that `sennit init` writes: two sites on one machine, ready to run and to be changed.
 * The caller frees it with sn_strfree. Errors: EINVAL (mesh is not a label), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_fleet_starter(const char *mesh, char **out_text);

#endif
