/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ed25519 keys (RFC 8032): the authority's, which signs agent certificates, and the node's, which
 * signs everything else. A private key lives in guarded memory (sodium_malloc) and never leaves
 * this module. Files: private keys are PKCS#8 PEM (RFC 8410), as `openssl pkey` reads them; public
 * keys are one line `ed25519:<64 hexadecimal digits>`. No I/O here: callers read and write files
 * through the environment.
 * Thread-safe: a key is immutable, signing from several threads is allowed. Blocking: no.
 */
#ifndef SN_CRYPTO_KEY_H
#define SN_CRYPTO_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

#define SN_KEY_BYTES       32
#define SN_SIGNATURE_BYTES 64
#define SN_DIGEST_BYTES    32
#define SN_KEY_TEXT_BYTES  72 /* "ed25519:" + 64 digits */
#define SN_KEY_PEM_MAX     512

/* A public key; the agent id is its node key. */
struct sn_key_id {
    uint8_t bytes[SN_KEY_BYTES];
};

struct sn_key; /* a key pair */

/* Initialises libsodium and checks that the algorithms are there; call once, before threads.
 * Errors: EIO. */
SN_MUST_CHECK enum sn_err sn_crypto_init(void);

/* A new key pair from the system's random generator. Errors: ENOMEM, EIO. */
SN_MUST_CHECK enum sn_err sn_key_new(struct sn_key **out_key);
/* From a 32-byte seed (tests and golden vectors). */
SN_MUST_CHECK enum sn_err sn_key_from_seed(const uint8_t seed[32], struct sn_key **out_key);
/* From PKCS#8 PEM. Errors: EINVAL (not an Ed25519 private key), ENOMEM. The caller wipes `pem`. */
SN_MUST_CHECK enum sn_err sn_key_from_pem(const char *pem, size_t size, struct sn_key **out_key);
/* PKCS#8 PEM, NUL-terminated; the caller wipes it with sn_secret_wipe. Errors: ETOOBIG. */
SN_MUST_CHECK enum sn_err sn_key_to_pem(const struct sn_key *key, char *out, size_t capacity,
                                        size_t *out_size);
void sn_key_free(struct sn_key *key); /* wipes */

struct sn_key_id sn_key_id(const struct sn_key *key);
int sn_key_id_is_equal(const struct sn_key_id *a, const struct sn_key_id *b);
/* out has SN_KEY_TEXT_BYTES + 1 bytes. */
void sn_key_id_format(const struct sn_key_id *id, char *out);
/* Errors: EINVAL; surrounding white space is not accepted. */
SN_MUST_CHECK enum sn_err sn_key_id_parse(const char *text, size_t size, struct sn_key_id *out_id);

SN_MUST_CHECK enum sn_err sn_key_sign(const struct sn_key *key, const void *bytes, size_t size,
                                      uint8_t out_signature[SN_SIGNATURE_BYTES]);
/* Errors: EAUTH. Rejects keys of small order and non-canonical signatures (libsodium does). */
SN_MUST_CHECK enum sn_err sn_key_verify(const struct sn_key_id *id, const void *bytes, size_t size,
                                        const uint8_t signature[SN_SIGNATURE_BYTES]);

void sn_sha256(const void *bytes, size_t size, uint8_t out_digest[SN_DIGEST_BYTES]);

/* Clears memory in a way that the compiler keeps. */
void sn_secret_wipe(void *bytes, size_t size);
/* Constant-time comparison: 1 when equal. */
int sn_secret_is_equal(const void *a, const void *b, size_t size);

#endif
