/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SN_CONFIG_ARRAY_H
#define SN_CONFIG_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

/* Writes a zeroed array of count elements to the pointer at out_array; NULL when count is 0. The
 * caller frees it with sn_free(array, count * size). Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sni_array_new(uint32_t count, size_t size, void *out_array);

#endif
