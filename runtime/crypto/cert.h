/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agent certificates: the authority's signed statement that a node key is a given agent of a mesh.
 *
 * Binary form: msgpack map with integer keys (fields), wrapped as
 *   magic "SNC1" | u16 body size (big endian) | body | Ed25519 signature over magic..body
 * The signature covers the exact bytes; unknown fields are skipped. File form: PEM with the label
 * "SENNIT AGENT CERTIFICATE". Times are Unix seconds.
 * Thread-safe: yes (values). Blocking: no.
 */
#ifndef SN_CRYPTO_CERT_H
#define SN_CRYPTO_CERT_H

#include "crypto/key.h"
#include "sennit/limits.h"

struct sn_cert {
    char mesh[SN_MESH_BYTES_MAX + 1];
    char agent[SN_AGENT_NAME_BYTES_MAX + 1]; /* site/agent */
    char roles[SN_ROLES_MAX][SN_LABEL_BYTES_MAX + 1];
    uint32_t role_count;
    struct sn_key_id node;
    struct sn_key_id authority; /* the key that signed it */
    uint64_t serial;
    int64_t not_before_s;
    int64_t not_after_s;
};

/* Signs `cert` (its authority field is taken from the key). Times are not negative, both seconds
 * are part of the validity. Errors: EINVAL (names, repeated roles, times), ETOOBIG. */
SN_MUST_CHECK enum sn_err sn_cert_sign(const struct sn_cert *cert, const struct sn_key *authority,
                                       uint8_t *out, size_t capacity, size_t *out_size);

/* Parses without trusting: checks form and names only. Errors: EINVAL, EVERSION. */
SN_MUST_CHECK enum sn_err sn_cert_parse(const uint8_t *bytes, size_t size,
                                        struct sn_cert *out_cert);

/* What a verifier trusts. */
struct sn_trust {
    const char *mesh;
    const struct sn_key_id *authorities; /* borrowed */
    uint32_t authority_count;
    const struct sn_pin {
        char agent[SN_AGENT_NAME_BYTES_MAX + 1];
        struct sn_key_id key;
    } * pins; /* borrowed; trusted without an authority */
    uint32_t pin_count;
};

/* Parses and verifies: signed by one of the authorities, for this mesh, within its times at
 * `wall_s`. out_cert is written whenever parsing succeeded, so that a refusal can name the agent;
 * its content is trusted only on SN_OK. Order of checks: EINVAL/EVERSION, EUNTRUSTED (unknown
 * authority), EAUTH (bad signature), EMISMATCH (mesh), ENOTYET, EEXPIRED. */
SN_MUST_CHECK enum sn_err sn_cert_verify(const uint8_t *bytes, size_t size,
                                         const struct sn_trust *trust, int64_t wall_s,
                                         struct sn_cert *out_cert);

/* PEM of the binary form, NUL-terminated. Errors: ETOOBIG. */
SN_MUST_CHECK enum sn_err sn_cert_to_pem(const uint8_t *bytes, size_t size, char *out,
                                         size_t capacity, size_t *out_size);
/* Errors: EINVAL, ETOOBIG. The bytes are not looked at. */
SN_MUST_CHECK enum sn_err sn_cert_from_pem(const char *pem, size_t pem_size, uint8_t *out,
                                           size_t capacity, size_t *out_size);

#endif
