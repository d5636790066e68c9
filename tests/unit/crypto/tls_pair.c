/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_pair.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "crypto/tls_identity_int.h"

#define ROUNDS_MAX 20

void tls_pair_init(struct tls_pair *pair, SSL_CTX *client, struct sn_tls_check *client_check,
                   SSL_CTX *server, struct sn_tls_check *server_check)
{
    memset(pair, 0, sizeof *pair);
    BIO *client_bio;
    BIO *server_bio;
    assert_int_equal(BIO_new_bio_pair(&client_bio, 65536, &server_bio, 65536), 1);
    pair->client = SSL_new(client);
    pair->server = SSL_new(server);
    assert_non_null(pair->client);
    assert_non_null(pair->server);
    SSL_set_bio(pair->client, client_bio, client_bio);
    SSL_set_bio(pair->server, server_bio, server_bio);
    SSL_set_connect_state(pair->client);
    SSL_set_accept_state(pair->server);
    if (client_check != NULL) {
        assert_int_equal(sn_tls_attach_check(pair->client, client_check), SN_OK);
    }
    if (server_check != NULL) {
        assert_int_equal(sn_tls_attach_check(pair->server, server_check), SN_OK);
    }
}

/* One step: handshake, then a byte out, then a byte in. Returns 1 when it is finished or has
 * failed. */
static int step(SSL *ssl, int *wrote, int *up)
{
    char byte = 'x';
    ERR_clear_error(); /* the other side's errors are on this thread's queue too */
    int rc = SSL_do_handshake(ssl);
    if (rc == 1 && !*wrote) {
        rc = SSL_write(ssl, &byte, 1);
        *wrote = rc == 1;
    }
    if (rc == 1 && !*up) {
        rc = SSL_read(ssl, &byte, 1);
        *up = rc == 1;
    }
    if (*up) return 1;
    int error = SSL_get_error(ssl, rc);
    return error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE;
}

void tls_pair_run(struct tls_pair *pair)
{
    int client_wrote = 0;
    int server_wrote = 0;
    int client_done = 0;
    int server_done = 0;
    for (int round = 0; round < ROUNDS_MAX && !(client_done && server_done); round++) {
        if (!client_done) client_done = step(pair->client, &client_wrote, &pair->client_up);
        if (!server_done) server_done = step(pair->server, &server_wrote, &pair->server_up);
    }
}

void tls_pair_fini(struct tls_pair *pair)
{
    SSL_free(pair->client);
    SSL_free(pair->server);
    memset(pair, 0, sizeof *pair);
}

X509 *raw_cert_new(const struct raw_cert *raw)
{
    EVP_PKEY *signer = raw->signer != NULL ? raw->signer : raw->key;
    X509 *x509 = X509_new();
    assert_non_null(x509);
    assert_int_equal(X509_set_version(x509, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x509), 7), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x509), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x509), 3600));
    assert_int_equal(X509_set_pubkey(x509, raw->key), 1);
    ASN1_OBJECT *oid = OBJ_txt2obj(SNI_TLS_EXTENSION_OID, 1);
    ASN1_OCTET_STRING *data = ASN1_OCTET_STRING_new();
    assert_int_equal(ASN1_OCTET_STRING_set(data, raw->extension, (int)raw->extension_size), 1);
    for (int i = 0; i < raw->copies; i++) {
        X509_EXTENSION *extension = X509_EXTENSION_create_by_OBJ(NULL, oid, 0, data);
        assert_int_equal(X509_add_ext(x509, extension, -1), 1);
        X509_EXTENSION_free(extension);
    }
    ASN1_OCTET_STRING_free(data);
    ASN1_OBJECT_free(oid);
    int is_edwards = EVP_PKEY_get_id(signer) == EVP_PKEY_ED25519;
    assert_int_not_equal(X509_sign(x509, signer, is_edwards ? NULL : EVP_sha256()), 0);
    return x509;
}

static int select_any(SSL *ssl, const unsigned char **out, unsigned char *out_size,
                      const unsigned char *in, unsigned in_size, void *arg)
{
    (void)ssl;
    (void)arg;
    if (in_size == 0) return SSL_TLSEXT_ERR_NOACK;
    *out = in + 1;
    *out_size = in[0];
    return SSL_TLSEXT_ERR_OK;
}

SSL_CTX *raw_ctx_new(const SSL_METHOD *method, X509 *x509, EVP_PKEY *key)
{
    static const unsigned char protocol[] = "\x08sennit/1";
    SSL_CTX *ctx = SSL_CTX_new(method);
    assert_non_null(ctx);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_alpn_select_cb(ctx, select_any, NULL);
    assert_int_equal(SSL_CTX_set_alpn_protos(ctx, protocol, sizeof protocol - 1), 0);
    if (x509 != NULL) {
        assert_int_equal(SSL_CTX_use_certificate(ctx, x509), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    }
    return ctx;
}
