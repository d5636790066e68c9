/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: counts come from a bounded tree, so the product cannot overflow. */
#include "config/array.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sennit/limits.h"

enum sn_err sni_array_new(uint32_t count, size_t size, void *out_array)
{
    SN_ASSERT(count <= SN_CONFIG_NODES_MAX);
    void *array = NULL;
    if (count > 0) {
        array = sn_alloc(count * size);
        if (array == NULL) return SN_ENOMEM;
    }
    memcpy(out_array, &array, sizeof array); /* through bytes: the pointer's type is the caller's */
    return SN_OK;
}
