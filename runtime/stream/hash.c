/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: the value is XXH3-64 (seed 0) of all bytes given so far, however they were cut. */
#include "stream/hash_int.h"

#define XXH_STATIC_LINKING_ONLY /* size and alignment of the state */
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"

#define STATE_ALIGN  64u /* XXH3 keeps its accumulators in vector registers */
#define MEMORY_BYTES (sizeof(XXH3_state_t) + STATE_ALIGN)

static XXH3_state_t *state_of(const struct sni_hash *hash)
{
    uintptr_t misfit = (uintptr_t)hash->memory % STATE_ALIGN;
    return (XXH3_state_t *)(void *)(hash->memory + (STATE_ALIGN - misfit));
}

enum sn_err sni_hash_prepare(struct sni_hash *hash)
{
    if (hash->memory != NULL) return SN_OK;
    hash->memory = sn_alloc(MEMORY_BYTES);
    if (hash->memory == NULL) return SN_ENOMEM;
    XXH_errorcode code = XXH3_64bits_reset(state_of(hash));
    SN_ASSERT(code == XXH_OK); /* fails for NULL only */
    return SN_OK;
}

void sni_hash_update(struct sni_hash *hash, const void *bytes, size_t size)
{
    SN_ASSERT(hash->memory != NULL);
    XXH_errorcode code = XXH3_64bits_update(state_of(hash), bytes, size);
    SN_ASSERT(code == XXH_OK); /* fails for NULL only */
}

uint64_t sni_hash_value(const struct sni_hash *hash)
{
    if (hash->memory == NULL) return XXH3_64bits("", 0);
    return XXH3_64bits_digest(state_of(hash));
}

void sni_hash_fini(struct sni_hash *hash)
{
    sn_free(hash->memory, MEMORY_BYTES);
    hash->memory = NULL;
}
