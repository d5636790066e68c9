/* SPDX-License-Identifier: Apache-2.0 */
/* What the other files of runtime/crypto may know of a key pair. */
#ifndef SN_CRYPTO_KEY_INT_H
#define SN_CRYPTO_KEY_INT_H

#include <openssl/types.h>

#include "crypto/key.h"

/* The key pair for OpenSSL, which keeps a copy of the private key on its own heap (cleared when
 * freed with EVP_PKEY_free); NULL when it refuses. */
SN_MUST_CHECK EVP_PKEY *sni_key_to_evp(const struct sn_key *key);

#endif
