/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: no handshake of these contexts completes on our side before the peer showed exactly
 * one X.509 certificate over an Ed25519 key that signed it, our protocol was agreed on, and the
 * attached check trusts that key; without a check everybody is refused. TLS itself proves that the
 * peer holds the key (CertificateVerify).
 */
#include "crypto/tls_identity.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sodium.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "crypto/key_int.h"
#include "crypto/tls_identity_int.h"

#define IDENTITY_MAGIC SN_MAGIC('T', 'L', 'S', 'I')
#define SERIAL_BYTES   16u
#define CN_BYTES_MAX   64u /* ub-common-name of RFC 5280 */
#define EXPORTER_LABEL "EXPORTER-sennit-hello"
#define EXPORTER_BYTES 32u
/* A stranger's certificates before he is refused: one of ours is below 3 KiB. */
#define CERT_LIST_BYTES_MAX 8192

#define DER_OCTET_STRING 0x04u

static const uint8_t alpn[] = {8, 's', 'e', 'n', 'n', 'i', 't', '/', '1'};

static const char ciphers_aes_first[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char ciphers_chacha_first[] =
    "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";

struct sn_tls_identity {
    uint32_t magic;
    SSL_CTX *server; /* owned */
    SSL_CTX *client; /* owned */
};

/* ---- the extension ---- */

enum sn_err sni_tls_extension_read(const uint8_t *value, size_t size, const uint8_t **out_cert,
                                   size_t *out_cert_size)
{
    SN_ASSERT(value != NULL || size == 0);
    SN_ASSERT(out_cert != NULL && out_cert_size != NULL);
    if (size < 2 || value[0] != DER_OCTET_STRING) return SN_EINVAL;
    size_t header = 2;
    size_t content = value[1];
    if (content == 0x81) {
        header = 3;
        if (size < header || value[2] < 0x80) return SN_EINVAL;
        content = value[2];
    } else if (content == 0x82) {
        header = 4;
        if (size < header || value[2] == 0) return SN_EINVAL;
        content = ((size_t)value[2] << 8) | value[3];
    } else if (content >= 0x80) {
        return SN_EINVAL;
    }
    if (content != size - header) return SN_EINVAL;
    *out_cert = value + header;
    *out_cert_size = content;
    return SN_OK;
}

/* ---- making the X.509 certificate ---- */

static int add_extension(X509 *x509, const uint8_t *cert_bytes, size_t cert_size)
{
    SN_ASSERT(cert_size <= SN_CERT_BYTES_MAX);
    int done = 0;
    unsigned char *value = NULL;
    X509_EXTENSION *extension = NULL;
    ASN1_OCTET_STRING *data = ASN1_OCTET_STRING_new();
    ASN1_OBJECT *oid = OBJ_txt2obj(SNI_TLS_EXTENSION_OID, 1);
    if (data == NULL || oid == NULL) goto out;
    /* The octet string that holds the certificate, then the one that holds that one's DER. */
    if (ASN1_OCTET_STRING_set(data, cert_bytes, (int)cert_size) != 1) goto out;
    int value_size = i2d_ASN1_OCTET_STRING(data, &value);
    if (value_size < 0) goto out;
    if (ASN1_OCTET_STRING_set(data, value, value_size) != 1) goto out;
    extension = X509_EXTENSION_create_by_OBJ(NULL, oid, 0, data);
    if (extension == NULL) goto out;
    done = X509_add_ext(x509, extension, -1) == 1; /* copies */
out:
    X509_EXTENSION_free(extension);
    OPENSSL_free(value);
    ASN1_OBJECT_free(oid);
    ASN1_OCTET_STRING_free(data);
    return done;
}

/* The common name is for people who look at a capture; nothing reads it. */
static int set_names(X509 *x509, const char *common_name)
{
    X509_NAME *name = X509_get_subject_name(x509);
    if (X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common_name, -1,
                                   -1, 0) != 1) {
        return 0;
    }
    return X509_set_issuer_name(x509, name) == 1;
}

static int set_serial(X509 *x509)
{
    uint8_t serial[SERIAL_BYTES];
    randombytes_buf(serial, sizeof serial);
    serial[0] = (uint8_t)((serial[0] & 0x3fu) | 0x40u); /* positive, never shorter */
    return ASN1_STRING_set(X509_get_serialNumber(x509), serial, sizeof serial) == 1;
}

static X509 *make_x509(EVP_PKEY *pkey, const char *common_name, const uint8_t *cert_bytes,
                       size_t cert_size)
{
    X509 *x509 = X509_new();
    if (x509 == NULL) return NULL;
    if (X509_set_version(x509, X509_VERSION_3) != 1 || !set_serial(x509) ||
        !set_names(x509, common_name) || X509_set_pubkey(x509, pkey) != 1 ||
        ASN1_TIME_set_string_X509(X509_getm_notBefore(x509), "19700101000000Z") != 1 ||
        ASN1_TIME_set_string_X509(X509_getm_notAfter(x509), "99991231235959Z") != 1 ||
        (cert_size > 0 && !add_extension(x509, cert_bytes, cert_size)) ||
        X509_sign(x509, pkey, NULL) == 0) {
        X509_free(x509);
        return NULL;
    }
    return x509;
}

/* ---- verifying the peer's ---- */

static int alpn_is_agreed(SSL *ssl)
{
    const unsigned char *name;
    unsigned size;
    SSL_get0_alpn_selected(ssl, &name, &size);
    return size == sizeof alpn - 1 && memcmp(name, alpn + 1, size) == 0;
}

/* The key of the certificate, which must have signed it. */
static enum sn_err read_key(X509 *x509, struct sn_tls_check *check)
{
    EVP_PKEY *pkey = X509_get0_pubkey(x509);
    if (pkey == NULL || EVP_PKEY_get_id(pkey) != EVP_PKEY_ED25519) return SN_EAUTH;
    struct sn_key_id key;
    size_t size = sizeof key.bytes;
    if (EVP_PKEY_get_raw_public_key(pkey, key.bytes, &size) != 1) return SN_EAUTH;
    if (size != sizeof key.bytes) return SN_EAUTH;
    check->key = key;
    check->has_key = 1;
    /* OpenSSL verifies under points of small order too, for which anybody can sign. */
    if (crypto_core_ed25519_is_valid_point(key.bytes) != 1) return SN_EAUTH;
    return X509_verify(x509, pkey) == 1 ? SN_OK : SN_EAUTH;
}

/* The agent certificate inside, borrowed from x509; size 0 when there is none. */
static enum sn_err find_cert(X509 *x509, const uint8_t **out_bytes, size_t *out_size)
{
    ASN1_OBJECT *oid = OBJ_txt2obj(SNI_TLS_EXTENSION_OID, 1);
    if (oid == NULL) return SN_ENOMEM;
    enum sn_err err = SN_OK;
    *out_bytes = NULL;
    *out_size = 0;
    int index = X509_get_ext_by_OBJ(x509, oid, -1);
    if (index < 0) goto out;
    err = SN_EINVAL;
    if (X509_get_ext_by_OBJ(x509, oid, index) >= 0) goto out; /* two could be read two ways */
    const ASN1_OCTET_STRING *data = X509_EXTENSION_get_data(X509_get_ext(x509, index));
    if (data == NULL || ASN1_STRING_length(data) <= 0) goto out;
    err = sni_tls_extension_read(ASN1_STRING_get0_data(data), (size_t)ASN1_STRING_length(data),
                                 out_bytes, out_size);
out:
    ASN1_OBJECT_free(oid);
    return err;
}

/* The pin for the key, the expected agent's if several agents share it; NULL when there is none. */
static const struct sn_pin *find_pin(const struct sn_tls_check *check)
{
    const struct sn_pin *found = NULL;
    for (uint32_t i = 0; i < check->trust->pin_count; i++) {
        const struct sn_pin *pin = &check->trust->pins[i];
        if (!sn_key_id_is_equal(&pin->key, &check->key)) continue;
        if (found == NULL) found = pin;
        if (check->expect_agent != NULL && strcmp(pin->agent, check->expect_agent) == 0) return pin;
    }
    return found;
}

/* Trusted by its certificate: the authority vouches for the very key that the peer holds. */
static enum sn_err judge_cert(struct sn_tls_check *check, const uint8_t *bytes, size_t size)
{
    if (size == 0) return SN_EUNTRUSTED;
    enum sn_err err =
        sn_cert_verify(bytes, size, check->trust, check->wall_s(check->arg), &check->cert);
    if (err != SN_OK) return err;
    return sn_key_id_is_equal(&check->cert.node, &check->key) ? SN_OK : SN_EAUTH;
}

/* Trusted by its pin, which also names it. Only a certificate that would do alone may add roles. */
static void take_pin(struct sn_tls_check *check, const struct sn_pin *pin, const uint8_t *bytes,
                     size_t size)
{
    enum sn_err err = judge_cert(check, bytes, size);
    if (err == SN_OK && strcmp(check->cert.agent, pin->agent) == 0) return;
    memset(&check->cert, 0, sizeof check->cert);
    enum sn_err copied = sn_text_copy(check->cert.mesh, sizeof check->cert.mesh, check->trust->mesh,
                                      strlen(check->trust->mesh));
    SN_ASSERT(copied == SN_OK); /* our own mesh name, which configuration checked */
    memcpy(check->cert.agent, pin->agent, sizeof check->cert.agent);
    check->cert.node = check->key;
    check->has_cert = 1;
}

enum sn_err sni_tls_judge(X509 *x509, struct sn_tls_check *check)
{
    SN_ASSERT(x509 != NULL && check != NULL);
    check->has_key = check->has_cert = 0;
    enum sn_err err = read_key(x509, check);
    if (err != SN_OK) return err;
    const uint8_t *bytes;
    size_t size;
    err = find_cert(x509, &bytes, &size);
    if (err != SN_OK) return err;
    /* So that a refusal can name the agent, whatever its reason. */
    check->has_cert = size > 0 && sn_cert_parse(bytes, size, &check->cert) == SN_OK;
    if (check->expect_key != NULL && !sn_key_id_is_equal(check->expect_key, &check->key)) {
        return SN_EMISMATCH;
    }
    const struct sn_pin *pin = find_pin(check);
    if (pin != NULL) {
        take_pin(check, pin, bytes, size);
    } else {
        err = judge_cert(check, bytes, size);
        if (err != SN_OK) return err;
    }
    SN_ASSERT(check->has_cert && sn_key_id_is_equal(&check->cert.node, &check->key));
    if (check->expect_agent != NULL && strcmp(check->expect_agent, check->cert.agent) != 0) {
        return SN_EMISMATCH;
    }
    return SN_OK;
}

static enum sn_err judge_chain(SSL *ssl, X509_STORE_CTX *store, struct sn_tls_check *check)
{
    if (!alpn_is_agreed(ssl)) return SN_EPROTO;
    STACK_OF(X509) *chain = X509_STORE_CTX_get0_untrusted(store);
    if (chain == NULL || sk_X509_num(chain) != 1) return SN_EINVAL;
    return sni_tls_judge(sk_X509_value(chain, 0), check);
}

/* Chooses the alert that the peer sees; the reason in full stays here. */
static int x509_error(enum sn_err err)
{
    switch (err) {
    case SN_OK: return X509_V_OK;
    case SN_EEXPIRED: return X509_V_ERR_CERT_HAS_EXPIRED;
    case SN_ENOTYET: return X509_V_ERR_CERT_NOT_YET_VALID;
    case SN_EUNTRUSTED: return X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT;
    case SN_EAUTH: return X509_V_ERR_CERT_SIGNATURE_FAILURE;
    case SN_EMISMATCH: return X509_V_ERR_HOSTNAME_MISMATCH;
    case SN_EINVAL:
    case SN_EVERSION: return X509_V_ERR_INVALID_EXTENSION;
    case SN_ENOMEM: return X509_V_ERR_OUT_OF_MEM;
    default: return X509_V_ERR_APPLICATION_VERIFICATION;
    }
}

static int verify_peer(X509_STORE_CTX *store, void *arg)
{
    (void)arg; /* the check belongs to the connection, not to the context */
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct sn_tls_check *check = ssl == NULL ? NULL : SSL_get_app_data(ssl);
    if (check == NULL) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
        return 0;
    }
    check->result = judge_chain(ssl, store, check);
    X509_STORE_CTX_set_error(store, x509_error(check->result));
    return check->result == SN_OK;
}

/* ---- contexts ---- */

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_size,
                       const unsigned char *in, unsigned in_size, void *arg)
{
    (void)ssl;
    (void)arg;
    for (unsigned at = 0; at < in_size; at += 1u + in[at]) {
        if (in_size - at < sizeof alpn || memcmp(in + at, alpn, sizeof alpn) != 0) continue;
        *out = in + at + 1;
        *out_size = sizeof alpn - 1;
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int set_algorithms(SSL_CTX *ctx)
{
    /* Not const, because OpenSSL's macros cast that away. */
    char groups[] = "X25519";
    char sigalgs[] = "ed25519";
    const char *ciphers = sodium_runtime_has_aesni() ? ciphers_aes_first : ciphers_chacha_first;
    return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, ciphers) == 1 &&
           SSL_CTX_set1_groups_list(ctx, groups) == 1 &&
           SSL_CTX_set1_sigalgs_list(ctx, sigalgs) == 1 &&
           SSL_CTX_set1_client_sigalgs_list(ctx, sigalgs) == 1;
}

static SSL_CTX *make_ctx(const SSL_METHOD *method, X509 *x509, EVP_PKEY *pkey)
{
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (ctx == NULL) return NULL;
    /* A peer without AES instructions puts ChaCha20 first, and gets it. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_max_cert_list(ctx, CERT_LIST_BYTES_MAX);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(ctx, verify_peer, NULL);
    SSL_CTX_set_alpn_select_cb(ctx, select_alpn, NULL);
    if (!set_algorithms(ctx) || SSL_CTX_set_num_tickets(ctx, 0) != 1 ||
        SSL_CTX_set_max_early_data(ctx, 0) != 1 || SSL_CTX_use_certificate(ctx, x509) != 1 ||
        SSL_CTX_use_PrivateKey(ctx, pkey) != 1 ||
        SSL_CTX_set_alpn_protos(ctx, alpn, sizeof alpn) != 0 /* 0 is success here */) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

/* What stands in the common name: the agent's name if it fits, else its key. */
static void choose_name(const struct sn_key_id *id, const struct sn_cert *cert,
                        char out[CN_BYTES_MAX + 1])
{
    static_assert(CN_BYTES_MAX == 2 * SN_KEY_BYTES, "a key in hexadecimal fits exactly");
    if (cert != NULL && strlen(cert->agent) <= CN_BYTES_MAX) {
        memcpy(out, cert->agent, strlen(cert->agent) + 1);
    } else {
        sn_hex_encode(id->bytes, sizeof id->bytes, out);
    }
}

static enum sn_err prepare_name(const struct sn_key_id *id, const uint8_t *cert_bytes,
                                size_t cert_size, char out[CN_BYTES_MAX + 1])
{
    if (cert_size == 0) {
        choose_name(id, NULL, out);
        return SN_OK;
    }
    struct sn_cert cert; /* 1.4 KiB, once at start */
    enum sn_err err = sn_cert_parse(cert_bytes, cert_size, &cert);
    if (err != SN_OK) return err;
    if (!sn_key_id_is_equal(&cert.node, id)) return SN_EINVAL;
    choose_name(id, &cert, out);
    return SN_OK;
}

enum sn_err sn_tls_identity_new(const struct sn_key *key, const uint8_t *cert_bytes,
                                size_t cert_size, struct sn_tls_identity **out_identity)
{
    SN_ASSERT(key != NULL && out_identity != NULL);
    SN_ASSERT(cert_bytes != NULL || cert_size == 0);
    struct sn_key_id id = sn_key_id(key);
    char common_name[CN_BYTES_MAX + 1];
    enum sn_err err = prepare_name(&id, cert_bytes, cert_size, common_name);
    if (err != SN_OK) return err;
    struct sn_tls_identity *identity = sn_alloc(sizeof *identity);
    if (identity == NULL) return SN_ENOMEM;
    identity->magic = IDENTITY_MAGIC;
    err = SN_EIO;
    X509 *x509 = NULL;
    EVP_PKEY *pkey = sni_key_to_evp(key);
    if (pkey == NULL) goto out;
    x509 = make_x509(pkey, common_name, cert_bytes, cert_size);
    if (x509 == NULL) goto out;
    identity->server = make_ctx(TLS_server_method(), x509, pkey);
    identity->client = make_ctx(TLS_client_method(), x509, pkey);
    if (identity->server == NULL || identity->client == NULL) goto out;
    *out_identity = identity;
    identity = NULL;
    err = SN_OK;
out:
    if (err != SN_OK) ERR_clear_error();
    X509_free(x509); /* the contexts hold their own references */
    EVP_PKEY_free(pkey);
    sn_tls_identity_free(identity);
    return err;
}

void sn_tls_identity_free(struct sn_tls_identity *identity)
{
    if (identity == NULL) return;
    SN_ASSERT(identity->magic == IDENTITY_MAGIC);
    SSL_CTX_free(identity->server);
    SSL_CTX_free(identity->client);
    identity->magic = 0;
    sn_free(identity, sizeof *identity);
}

SSL_CTX *sn_tls_identity_server_ctx(const struct sn_tls_identity *identity)
{
    SN_ASSERT(identity != NULL && identity->magic == IDENTITY_MAGIC);
    return identity->server;
}

SSL_CTX *sn_tls_identity_client_ctx(const struct sn_tls_identity *identity)
{
    SN_ASSERT(identity != NULL && identity->magic == IDENTITY_MAGIC);
    return identity->client;
}

enum sn_err sn_tls_attach_check(SSL *ssl, struct sn_tls_check *check)
{
    SN_ASSERT(ssl != NULL && check != NULL);
    SN_ASSERT(check->trust != NULL && check->wall_s != NULL);
    check->result = SN_ESTATE;
    check->has_key = check->has_cert = 0;
    if (SSL_set_app_data(ssl, check) != 1) return SN_EIO;
    return SN_OK;
}

enum sn_err sn_tls_exporter(SSL *ssl, uint8_t out[32])
{
    SN_ASSERT(ssl != NULL && out != NULL);
    if (!SSL_is_init_finished(ssl)) return SN_ESTATE;
    if (SSL_export_keying_material(ssl, out, EXPORTER_BYTES, EXPORTER_LABEL, strlen(EXPORTER_LABEL),
                                   NULL, 0, 0) != 1) {
        ERR_clear_error();
        return SN_EIO;
    }
    return SN_OK;
}
