/* SPDX-License-Identifier: Apache-2.0 */
/* Two TLS connections joined in memory, and certificates that our own code would not make. */
#ifndef SN_TESTS_UNIT_CRYPTO_TLS_PAIR_H
#define SN_TESTS_UNIT_CRYPTO_TLS_PAIR_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <stdint.h>

#include "crypto/tls_identity.h"

struct tls_pair {
    SSL *client;
    SSL *server;
    int client_up; /* finished its handshake and read a byte from the other side */
    int server_up;
};

/* Checks may be NULL: nothing is attached then. */
void tls_pair_init(struct tls_pair *pair, SSL_CTX *client, struct sn_tls_check *client_check,
                   SSL_CTX *server, struct sn_tls_check *server_check);
/* Runs both until neither moves; then a byte goes each way. */
void tls_pair_run(struct tls_pair *pair);
void tls_pair_fini(struct tls_pair *pair);

/* A certificate over `key`, signed by `signer`, with up to two copies of the extension. */
struct raw_cert {
    EVP_PKEY *key;
    EVP_PKEY *signer;         /* NULL = key */
    const uint8_t *extension; /* the extension's value, or NULL */
    size_t extension_size;
    int copies; /* of the extension */
};
X509 *raw_cert_new(const struct raw_cert *raw);

/* A context that verifies nobody and may present anything. x509 may be NULL: nothing is
 * presented. */
SSL_CTX *raw_ctx_new(const SSL_METHOD *method, X509 *x509, EVP_PKEY *key);

#endif
