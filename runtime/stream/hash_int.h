/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running XXH3-64 of one direction of a stream. The state (576 bytes) is allocated with the first
 * byte, so that an idle stream does not pay for it. Thread-safe: no.
 */
#ifndef SN_STREAM_HASH_INT_H
#define SN_STREAM_HASH_INT_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

struct sni_hash {
    uint8_t *memory; /* NULL before the first byte */
};

/* Makes the state exist, so that sni_hash_update cannot fail. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sni_hash_prepare(struct sni_hash *hash);
void sni_hash_update(struct sni_hash *hash, const void *bytes, size_t size);
uint64_t sni_hash_value(const struct sni_hash *hash);
void sni_hash_fini(struct sni_hash *hash);

#endif
