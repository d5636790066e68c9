/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict PEM (RFC 7468) of one block: nothing but white space may stand around it. Constant time in
 * the bytes (libsodium's base64), so that private keys may pass through.
 * Thread-safe: yes (pure functions). Blocking: no.
 */
#ifndef SN_CRYPTO_PEM_INT_H
#define SN_CRYPTO_PEM_INT_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

/* NUL-terminated; out_size does not count the NUL. Errors: ETOOBIG. */
SN_MUST_CHECK enum sn_err sni_pem_encode(const char *label, const uint8_t *bytes, size_t size,
                                         char *out, size_t capacity, size_t *out_size);
/* Errors: EINVAL, ETOOBIG (more bytes than capacity). `out` is wiped on failure. */
SN_MUST_CHECK enum sn_err sni_pem_decode(const char *label, const char *pem, size_t pem_size,
                                         uint8_t *out, size_t capacity, size_t *out_size);

#endif
