/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of the verifier that need no connection, for tls_identity.c and its tests. */
#ifndef SN_CRYPTO_TLS_IDENTITY_INT_H
#define SN_CRYPTO_TLS_IDENTITY_INT_H

#include <openssl/types.h>
#include <stddef.h>
#include <stdint.h>

#include "crypto/tls_identity.h"

/* Under the arc for UUIDs (ITU-T X.667), which needs no registration:
 * d8d12431-68ab-46db-a586-e798aebd7fc5, drawn at random once for "Sennit agent certificate". */
#define SNI_TLS_EXTENSION_OID "2.25.288199171214294804134665219997960077253"

/* The extension's value is a DER OCTET STRING that holds the agent certificate. Yields its content,
 * borrowed. Errors: EINVAL (not exactly that, or not the shortest form). */
SN_MUST_CHECK enum sn_err sni_tls_extension_read(const uint8_t *value, size_t size,
                                                 const uint8_t **out_cert, size_t *out_cert_size);

/* The verdict about a peer that holds the key of this certificate; fills the check's results except
 * `result`. Errors: those of struct sn_tls_check. */
SN_MUST_CHECK enum sn_err sni_tls_judge(X509 *x509, struct sn_tls_check *check);

#endif
