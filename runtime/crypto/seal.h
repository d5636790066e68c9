/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealing between two boots of two agents: XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha) under keys
 * derived from X25519 of the boots' ephemeral keys, one key a direction. Nonces are random 192
 * bits. Implemented as OpenSSL's ChaCha20-Poly1305 under an HChaCha20 subkey (three times faster
 * than libsodium's one-shot AEAD at 64 KiB); tests show that both give the same bytes.
 * Thread-safe: one sealer per thread (it owns EVP contexts). Blocking: no.
 */
#ifndef SN_CRYPTO_SEAL_H
#define SN_CRYPTO_SEAL_H

#include "crypto/key.h"

#define SN_SEAL_NONCE_BYTES 24
#define SN_SEAL_TAG_BYTES   16
#define SN_SEAL_OVERHEAD    (SN_SEAL_NONCE_BYTES + SN_SEAL_TAG_BYTES)

/* Ephemeral X25519 pair of one boot; the private half is in guarded memory. */
struct sn_boot_key;
/* Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sn_boot_key_new(struct sn_boot_key **out_key);
/* From a 32-byte secret (simulation and golden vectors). Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sn_boot_key_from_seed(const uint8_t seed[32],
                                                struct sn_boot_key **out_key);
void sn_boot_key_free(struct sn_boot_key *key);
void sn_boot_key_public(const struct sn_boot_key *key, uint8_t out[32]);

/* Names both ends of a direction; goes into key derivation, so that a sealed body cannot be moved
 * to another pair of agents or boots, nor be reflected. */
struct sn_seal_end {
    struct sn_key_id id;
    uint64_t epoch;
    uint8_t boot_public[32];
};

/* The pair of keys for one peer: `tx` seals self -> peer, `rx` opens peer -> self. */
struct sn_seal;
/* self->boot_public must be that of `own`, which is borrowed until return. Errors: EAUTH (the
 * peer's point is of small order, or both ends are the same one), ENOMEM, EIO. */
SN_MUST_CHECK enum sn_err sn_seal_new(const struct sn_boot_key *own, const struct sn_seal_end *self,
                                      const struct sn_seal_end *peer, struct sn_seal **out_seal);
void sn_seal_free(struct sn_seal *seal); /* wipes */

/* Seals size bytes of `plain` to out (size + SN_SEAL_OVERHEAD bytes: nonce | ciphertext | tag),
 * with additional data `ad`. `nonce` is 24 fresh random bytes. `out + SN_SEAL_NONCE_BYTES == plain`
 * (in place) is allowed. Errors: ETOOBIG (above INT_MAX), EIO. */
SN_MUST_CHECK enum sn_err sn_seal_seal(struct sn_seal *seal,
                                       const uint8_t nonce[SN_SEAL_NONCE_BYTES], const void *ad,
                                       size_t ad_size, const uint8_t *plain, size_t size,
                                       uint8_t *out);
/* Opens; size counts the overhead; out receives size - SN_SEAL_OVERHEAD bytes; in place
 * (out == sealed + SN_SEAL_NONCE_BYTES) is allowed. On EAUTH out is zeroed. Errors: EINVAL (short),
 * ETOOBIG (above INT_MAX), EAUTH. */
SN_MUST_CHECK enum sn_err sn_seal_open(struct sn_seal *seal, const void *ad, size_t ad_size,
                                       const uint8_t *sealed, size_t size, uint8_t *out);

#endif
