/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS side of an identity: a self-signed X.509 certificate over the node key that carries the
 * agent certificate in a non-critical extension, and the verifier that reads it back on the other
 * side. Opaque about OpenSSL except for the two pointers that carrier_tls.c needs.
 * Thread-safe: an identity is immutable; SSL_CTX may be used by several threads. Blocking: no.
 */
#ifndef SN_CRYPTO_TLS_IDENTITY_H
#define SN_CRYPTO_TLS_IDENTITY_H

#include <openssl/types.h>

#include "crypto/cert.h"

struct sn_tls_identity;

/* Makes the certificate in memory (valid over the whole range of X.509 times: the agent certificate
 * inside carries the times that count). cert_bytes may be NULL with size 0: a pinned node without
 * an agent certificate. Errors: ENOMEM, EIO, EINVAL (not a certificate, or one of another key),
 * EVERSION. `key` is borrowed until return: OpenSSL keeps its own copy, outside guarded memory. */
SN_MUST_CHECK enum sn_err sn_tls_identity_new(const struct sn_key *key, const uint8_t *cert_bytes,
                                              size_t cert_size,
                                              struct sn_tls_identity **out_identity);
void sn_tls_identity_free(struct sn_tls_identity *identity);

/* TLS 1.3 only, this identity's certificate, no session tickets, no resumption, no renegotiation,
 * no early data, peers must present a certificate; AES-GCM preferred when the CPU has AES; ALPN
 * "sennit/1" required. The verifier set here asks the check that sn_tls_attach_check put on the
 * connection, so that a stranger is refused inside the handshake; without one it refuses everybody.
 * In TLS 1.3 a client finishes before the server judged it: its first read tells. Owned by the
 * identity. */
SSL_CTX *sn_tls_identity_server_ctx(const struct sn_tls_identity *identity);
SSL_CTX *sn_tls_identity_client_ctx(const struct sn_tls_identity *identity);

/* What a connection expects of its peer, and what the verifier found. Lives as long as the SSL.
 * Results: EPROTO (ALPN), EINVAL (form), EAUTH (not an Ed25519 key, a signature is wrong, or the
 * certificate is for another key), EMISMATCH (mesh, expected key or agent), EUNTRUSTED (neither
 * certificate nor pin, or an unknown authority), EVERSION, ENOTYET, EEXPIRED, ENOMEM. A pinned key
 * is trusted without a certificate and gets its name from the pin; roles only come from a valid
 * one. */
struct sn_tls_check {
    const struct sn_trust *trust; /* borrowed */
    int64_t (*wall_s)(void *arg); /* the clock, from the environment */
    void *arg;
    const struct sn_key_id *expect_key; /* NULL = any trusted key */
    const char *expect_agent;           /* NULL = any agent */
    /* Results; `result` is SN_ESTATE until the verifier ran. */
    enum sn_err result;
    int has_key; /* the peer presented an Ed25519 key: `key` is its (maybe unproven) id */
    struct sn_key_id key;
    /* `cert` holds the peer's, or what its pin says; trusted only when result is SN_OK. */
    int has_cert;
    struct sn_cert cert;
};

/* Attaches the check (borrowed) to an SSL before its handshake, in SSL_set_app_data, which is
 * therefore taken; resets the results. Errors: EIO. */
SN_MUST_CHECK enum sn_err sn_tls_attach_check(SSL *ssl, struct sn_tls_check *check);

/* The 32-byte exporter (RFC 8446 section 7.5, label "EXPORTER-sennit-hello") of a finished
 * handshake. Errors: ESTATE (not finished), EIO. */
SN_MUST_CHECK enum sn_err sn_tls_exporter(SSL *ssl, uint8_t out[32]);

#endif
