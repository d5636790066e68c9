/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/ec.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "base/alloc.h"
#include "crypto/key_int.h"
#include "crypto/tls_identity_int.h"
#include "tls_pair.h"

#define NOT_BEFORE 1000
#define NOT_AFTER  2000
#define NOW        1500

/* "local" is the side under test: good, and set in what it trusts. "remote" plays all the
 * others. */
struct fixture {
    struct sn_key *authority, *stranger, *local_key, *remote_key, *third_key;
    struct sn_key_id authority_id, remote_id;
    struct sn_trust trust;
    struct sn_tls_identity *local;
    struct sn_cert remote_cert;
    uint8_t remote_bytes[SN_CERT_BYTES_MAX]; /* a good one */
    size_t remote_size;
};

static struct fixture fixture;

static int64_t clock_now(void *arg)
{
    return arg == NULL ? NOW : *(int64_t *)arg;
}

static struct sn_key *key_of(uint8_t fill)
{
    uint8_t seed[32];
    memset(seed, fill, sizeof seed);
    struct sn_key *key;
    assert_int_equal(sn_key_from_seed(seed, &key), SN_OK);
    return key;
}

static struct sn_cert cert_of(const struct sn_key *node, const char *agent)
{
    struct sn_cert cert = {.mesh = "demo",
                           .roles = {"storage"},
                           .role_count = 1,
                           .node = sn_key_id(node),
                           .serial = 1,
                           .not_before_s = NOT_BEFORE,
                           .not_after_s = NOT_AFTER};
    snprintf(cert.agent, sizeof cert.agent, "%s", agent);
    return cert;
}

static int set_up(void **state)
{
    (void)state;
    if (sn_crypto_init() != SN_OK) return -1;
    struct fixture *f = &fixture;
    f->authority = key_of(1);
    f->stranger = key_of(2);
    f->local_key = key_of(3);
    f->remote_key = key_of(4);
    f->third_key = key_of(5);
    f->authority_id = sn_key_id(f->authority);
    f->remote_id = sn_key_id(f->remote_key);
    f->trust =
        (struct sn_trust){.mesh = "demo", .authorities = &f->authority_id, .authority_count = 1};
    f->remote_cert = cert_of(f->remote_key, "paris/hub");
    assert_int_equal(sn_cert_sign(&f->remote_cert, f->authority, f->remote_bytes,
                                  sizeof f->remote_bytes, &f->remote_size),
                     SN_OK);
    struct sn_cert own = cert_of(f->local_key, "amsterdam/edge");
    uint8_t bytes[SN_CERT_BYTES_MAX];
    size_t size;
    assert_int_equal(sn_cert_sign(&own, f->authority, bytes, sizeof bytes, &size), SN_OK);
    assert_int_equal(sn_tls_identity_new(f->local_key, bytes, size, &f->local), SN_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    struct fixture *f = &fixture;
    sn_tls_identity_free(f->local);
    sn_key_free(f->authority);
    sn_key_free(f->stranger);
    sn_key_free(f->local_key);
    sn_key_free(f->remote_key);
    sn_key_free(f->third_key);
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

static struct sn_tls_check new_check(void)
{
    return (struct sn_tls_check){.trust = &fixture.trust, .wall_s = clock_now};
}

/* What local found of a remote, once in each role. */
struct verdict {
    struct sn_tls_check check; /* of the role that ran last */
    int local_up, remote_up;
};

static struct verdict meet(SSL_CTX *remote, int remote_is_client, const struct sn_tls_check *check)
{
    struct verdict verdict = {.check = *check};
    /* The remote trusts everybody that local could be. */
    struct sn_tls_check remote_check = new_check();
    SSL_CTX *client = remote_is_client ? remote : sn_tls_identity_client_ctx(fixture.local);
    SSL_CTX *server = remote_is_client ? sn_tls_identity_server_ctx(fixture.local) : remote;
    struct tls_pair pair;
    tls_pair_init(&pair, client, remote_is_client ? &remote_check : &verdict.check, server,
                  remote_is_client ? &verdict.check : &remote_check);
    tls_pair_run(&pair);
    verdict.local_up = remote_is_client ? pair.server_up : pair.client_up;
    verdict.remote_up = remote_is_client ? pair.client_up : pair.server_up;
    tls_pair_fini(&pair);
    return verdict;
}

/* Both roles must come to the same verdict. */
static struct verdict judge_ctx(SSL_CTX *client, SSL_CTX *server, const struct sn_tls_check *check,
                                enum sn_err expected)
{
    struct verdict verdict = {.check = *check};
    for (int remote_is_client = 0; remote_is_client < 2; remote_is_client++) {
        verdict = meet(remote_is_client ? client : server, remote_is_client, check);
        if (verdict.check.result != expected) {
            fail_msg("remote is %s: %s, not %s", remote_is_client ? "client" : "server",
                     sn_err_name(verdict.check.result), sn_err_name(expected));
        }
        assert_int_equal(verdict.local_up, expected == SN_OK);
        assert_int_equal(verdict.remote_up, expected == SN_OK);
    }
    return verdict;
}

static struct verdict judge(const struct sn_key *key, const uint8_t *bytes, size_t size,
                            const struct sn_tls_check *check, enum sn_err expected)
{
    struct sn_tls_identity *remote;
    assert_int_equal(sn_tls_identity_new(key, bytes, size, &remote), SN_OK);
    struct verdict verdict = judge_ctx(sn_tls_identity_client_ctx(remote),
                                       sn_tls_identity_server_ctx(remote), check, expected);
    sn_tls_identity_free(remote);
    return verdict;
}

static struct verdict judge_good(const struct sn_tls_check *check, enum sn_err expected)
{
    return judge(fixture.remote_key, fixture.remote_bytes, fixture.remote_size, check, expected);
}

/* Signs a variation of the remote's certificate by `authority`. */
static struct verdict judge_cert(const struct sn_cert *cert, const struct sn_key *authority,
                                 enum sn_err expected)
{
    uint8_t bytes[SN_CERT_BYTES_MAX];
    size_t size;
    assert_int_equal(sn_cert_sign(cert, authority, bytes, sizeof bytes, &size), SN_OK);
    struct sn_tls_check check = new_check();
    return judge(fixture.remote_key, bytes, size, &check, expected);
}

static void test_good_identities_meet(void **state)
{
    (void)state;
    struct sn_tls_check check = new_check();
    check.expect_key = &fixture.remote_id;
    check.expect_agent = "paris/hub";
    struct verdict verdict = judge_good(&check, SN_OK);
    assert_true(verdict.check.has_key);
    assert_true(sn_key_id_is_equal(&verdict.check.key, &fixture.remote_id));
    assert_true(verdict.check.has_cert);
    assert_string_equal(verdict.check.cert.agent, "paris/hub");
    assert_string_equal(verdict.check.cert.mesh, "demo");
    assert_int_equal(verdict.check.cert.role_count, 1);
}

static void test_each_bad_certificate_has_its_error(void **state)
{
    (void)state;
    struct sn_cert cert = fixture.remote_cert;
    snprintf(cert.mesh, sizeof cert.mesh, "other");
    struct verdict verdict = judge_cert(&cert, fixture.authority, SN_EMISMATCH);
    assert_true(verdict.check.has_cert); /* the refusal can name it */
    assert_string_equal(verdict.check.cert.agent, "paris/hub");
    cert = fixture.remote_cert;
    cert.not_after_s = NOW - 1;
    judge_cert(&cert, fixture.authority, SN_EEXPIRED);
    cert = fixture.remote_cert;
    cert.not_before_s = NOW + 1;
    judge_cert(&cert, fixture.authority, SN_ENOTYET);
    judge_cert(&fixture.remote_cert, fixture.stranger, SN_EUNTRUSTED);

    struct sn_tls_check check = new_check();
    uint8_t altered[SN_CERT_BYTES_MAX];
    memcpy(altered, fixture.remote_bytes, fixture.remote_size);
    altered[fixture.remote_size - 1] ^= 1;
    judge(fixture.remote_key, altered, fixture.remote_size, &check, SN_EAUTH);
    judge(fixture.remote_key, NULL, 0, &check, SN_EUNTRUSTED);
}

static void test_the_clock_is_asked(void **state)
{
    (void)state;
    struct sn_tls_check check = new_check();
    int64_t now = NOT_AFTER + 1;
    check.arg = &now;
    judge_good(&check, SN_EEXPIRED);
    now = NOT_AFTER;
    judge_good(&check, SN_OK);
}

static void test_expectations(void **state)
{
    (void)state;
    struct sn_tls_check check = new_check();
    struct sn_key_id other = sn_key_id(fixture.third_key);
    check.expect_key = &other;
    struct verdict verdict = judge_good(&check, SN_EMISMATCH);
    assert_true(verdict.check.has_key && verdict.check.has_cert);
    check = new_check();
    check.expect_agent = "paris/other";
    judge_good(&check, SN_EMISMATCH);
}

static void test_pins(void **state)
{
    (void)state;
    struct sn_pin pins[3] = {{"paris/third", sn_key_id(fixture.third_key)},
                             {"paris/pinned", fixture.remote_id},
                             {"paris/twin", fixture.remote_id}};
    struct sn_trust trust = {.mesh = "demo", .pins = pins, .pin_count = 3};
    struct sn_trust own_trust = fixture.trust;
    struct sn_tls_check check = new_check();
    check.trust = &trust;
    /* Without a certificate the name is the pin's. */
    struct verdict verdict = judge(fixture.remote_key, NULL, 0, &check, SN_OK);
    assert_true(verdict.check.has_cert);
    assert_string_equal(verdict.check.cert.agent, "paris/pinned");
    assert_string_equal(verdict.check.cert.mesh, "demo");
    assert_true(sn_key_id_is_equal(&verdict.check.cert.node, &fixture.remote_id));
    assert_int_equal(verdict.check.cert.role_count, 0);
    /* With one that nobody vouches for, too: it adds nothing. */
    verdict = judge_good(&check, SN_OK);
    assert_string_equal(verdict.check.cert.agent, "paris/pinned");
    assert_int_equal(verdict.check.cert.role_count, 0);
    /* Several pins of one key: the expected agent's. */
    check.expect_agent = "paris/twin";
    verdict = judge(fixture.remote_key, NULL, 0, &check, SN_OK);
    assert_string_equal(verdict.check.cert.agent, "paris/twin");
    check.expect_agent = "paris/third";
    judge(fixture.remote_key, NULL, 0, &check, SN_EMISMATCH);
    check.expect_agent = NULL;
    /* The wrong pin. */
    trust.pin_count = 1;
    judge(fixture.remote_key, NULL, 0, &check, SN_EUNTRUSTED);
    /* A pin and a good certificate of that name: its roles count; of another name: they do not. */
    trust = own_trust;
    trust.pins = pins;
    trust.pin_count = 2;
    verdict = judge_good(&check, SN_OK);
    assert_string_equal(verdict.check.cert.agent, "paris/pinned");
    assert_int_equal(verdict.check.cert.role_count, 0);
    snprintf(pins[1].agent, sizeof pins[1].agent, "paris/hub");
    verdict = judge_good(&check, SN_OK);
    assert_int_equal(verdict.check.cert.role_count, 1);
}

/* ---- peers that are not made by this module ---- */

static struct verdict judge_raw(const struct raw_cert *raw, enum sn_err expected)
{
    X509 *x509 = raw_cert_new(raw);
    SSL_CTX *client = raw_ctx_new(TLS_client_method(), x509, raw->key);
    SSL_CTX *server = raw_ctx_new(TLS_server_method(), x509, raw->key);
    struct sn_tls_check check = new_check();
    struct verdict verdict = {.check = check};
    for (int remote_is_client = 0; remote_is_client < 2; remote_is_client++) {
        verdict = meet(remote_is_client ? client : server, remote_is_client, &check);
        assert_int_equal(verdict.check.result, expected);
        assert_int_equal(verdict.local_up, expected == SN_OK);
    }
    SSL_CTX_free(client);
    SSL_CTX_free(server);
    X509_free(x509);
    return verdict;
}

#define WRAP_HEADER 3u

/* The extension's value around an agent certificate. */
static size_t wrap(const uint8_t *cert, size_t size, uint8_t *out)
{
    assert_true(size >= 0x80 && size < 0x100);
    out[0] = 0x04;
    out[1] = 0x81;
    out[2] = (uint8_t)size;
    memcpy(out + WRAP_HEADER, cert, size);
    return size + WRAP_HEADER;
}

/* All of these verify nothing themselves, and are let in only if they are right. */
static void test_foreign_made_peers(void **state)
{
    (void)state;
    EVP_PKEY *remote = sni_key_to_evp(fixture.remote_key);
    EVP_PKEY *third = sni_key_to_evp(fixture.third_key);
    uint8_t value[256];
    size_t size = wrap(fixture.remote_bytes, fixture.remote_size, value);
    struct raw_cert good = {.key = remote, .extension = value, .extension_size = size, .copies = 1};
    judge_raw(&good, SN_OK);
    /* The certificate of another node: not proven by this key. */
    struct raw_cert raw = good;
    raw.key = third;
    struct verdict verdict = judge_raw(&raw, SN_EAUTH);
    assert_string_equal(verdict.check.cert.agent, "paris/hub");
    raw = good;
    raw.signer = third; /* not self-signed */
    judge_raw(&raw, SN_EAUTH);
    raw = good;
    raw.copies = 2;
    judge_raw(&raw, SN_EINVAL);
    raw = good;
    raw.copies = 0;
    judge_raw(&raw, SN_EUNTRUSTED);
    raw = good;
    raw.extension_size = size - 1;
    judge_raw(&raw, SN_EINVAL);
    raw.extension_size = 0;
    judge_raw(&raw, SN_EINVAL);
    raw = good;
    value[WRAP_HEADER + 3] = '2';
    judge_raw(&raw, SN_EVERSION);
    EVP_PKEY_free(remote);
    EVP_PKEY_free(third);
}

static void test_a_chain_is_refused(void **state)
{
    (void)state;
    EVP_PKEY *remote = sni_key_to_evp(fixture.remote_key);
    uint8_t value[256];
    size_t size = wrap(fixture.remote_bytes, fixture.remote_size, value);
    struct raw_cert good = {.key = remote, .extension = value, .extension_size = size, .copies = 1};
    X509 *x509 = raw_cert_new(&good);
    SSL_CTX *client = raw_ctx_new(TLS_client_method(), x509, remote);
    SSL_CTX *server = raw_ctx_new(TLS_server_method(), x509, remote);
    assert_int_equal(SSL_CTX_add1_chain_cert(client, x509), 1);
    assert_int_equal(SSL_CTX_add1_chain_cert(server, x509), 1);
    struct sn_tls_check check = new_check();
    assert_int_equal(meet(client, 1, &check).check.result, SN_EINVAL);
    assert_int_equal(meet(server, 0, &check).check.result, SN_EINVAL);
    SSL_CTX_free(client);
    SSL_CTX_free(server);
    X509_free(x509);
    EVP_PKEY_free(remote);
}

static void test_other_kinds_of_keys_are_refused(void **state)
{
    (void)state;
    EVP_PKEY *keys[2] = {EVP_RSA_gen(2048), EVP_EC_gen("P-256")};
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(keys[i]);
        struct raw_cert raw = {.key = keys[i]};
        X509 *x509 = raw_cert_new(&raw);
        SSL_CTX *client = raw_ctx_new(TLS_client_method(), x509, keys[i]);
        SSL_CTX *server = raw_ctx_new(TLS_server_method(), x509, keys[i]);
        struct sn_tls_check check = new_check();
        /* TLS finds no common signature algorithm before the verifier is asked. */
        assert_int_equal(meet(client, 1, &check).local_up, 0);
        assert_int_equal(meet(server, 0, &check).local_up, 0);
        /* A peer that goes on all the same meets the verifier. */
        assert_int_equal(sni_tls_judge(x509, &check), SN_EAUTH);
        assert_false(check.has_key);
        SSL_CTX_free(client);
        SSL_CTX_free(server);
        X509_free(x509);
        EVP_PKEY_free(keys[i]);
    }
}

/* Anybody signs for the neutral point with R = 1, s = 0, and OpenSSL says yes. */
static void test_small_order_key_is_refused(void **state)
{
    (void)state;
    static const uint8_t neutral[32] = {1};
    EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, neutral, 32);
    EVP_PKEY *signer = sni_key_to_evp(fixture.remote_key);
    struct raw_cert raw = {.key = key, .signer = signer};
    X509 *made = raw_cert_new(&raw);
    unsigned char *der = NULL;
    int size = i2d_X509(made, &der);
    assert_true(size > 64);
    memset(der + size - 64, 0, 64);
    der[size - 64] = 1;
    const unsigned char *at = der;
    X509 *forged = d2i_X509(NULL, &at, size);
    assert_non_null(forged);
    assert_int_equal(X509_verify(forged, key), 1);
    struct sn_pin pin = {.agent = "paris/hub"}; /* even a pin does not help it */
    memcpy(pin.key.bytes, neutral, 32);
    struct sn_trust trust = {.mesh = "demo", .pins = &pin, .pin_count = 1};
    struct sn_tls_check check = new_check();
    check.trust = &trust;
    assert_int_equal(sni_tls_judge(forged, &check), SN_EAUTH);
    X509_free(forged);
    OPENSSL_free(der);
    X509_free(made);
    EVP_PKEY_free(key);
    EVP_PKEY_free(signer);
}

static void test_no_certificate_is_refused(void **state)
{
    (void)state;
    SSL_CTX *client = raw_ctx_new(TLS_client_method(), NULL, NULL);
    struct sn_tls_check check = new_check();
    struct verdict verdict = meet(client, 1, &check);
    assert_int_equal(verdict.local_up, 0);
    assert_int_equal(verdict.check.result, SN_ESTATE);
    assert_false(verdict.check.has_key);
    SSL_CTX_free(client);
}

static void test_alpn_is_required(void **state)
{
    (void)state;
    EVP_PKEY *remote = sni_key_to_evp(fixture.remote_key);
    uint8_t value[256];
    size_t size = wrap(fixture.remote_bytes, fixture.remote_size, value);
    struct raw_cert good = {.key = remote, .extension = value, .extension_size = size, .copies = 1};
    X509 *x509 = raw_cert_new(&good);
    SSL_CTX *client = raw_ctx_new(TLS_client_method(), x509, remote);
    SSL_CTX *server = raw_ctx_new(TLS_server_method(), x509, remote);
    struct sn_tls_check check = new_check();
    static const unsigned char two[] = "\x02h2\x08sennit/1";
    assert_int_equal(SSL_CTX_set_alpn_protos(client, two, sizeof two - 1), 0);
    assert_int_equal(meet(client, 1, &check).local_up, 1);
    assert_int_equal(SSL_CTX_set_alpn_protos(client, two, 3), 0);
    assert_int_equal(meet(client, 1, &check).local_up, 0);
    assert_int_equal(SSL_CTX_set_alpn_protos(client, NULL, 0), 0);
    struct verdict verdict = meet(client, 1, &check);
    assert_int_equal(verdict.local_up, 0);
    assert_int_equal(verdict.check.result, SN_EPROTO);
    SSL_CTX_set_alpn_select_cb(server, NULL, NULL);
    verdict = meet(server, 0, &check);
    assert_int_equal(verdict.local_up, 0);
    assert_int_equal(verdict.check.result, SN_EPROTO);
    SSL_CTX_free(client);
    SSL_CTX_free(server);
    X509_free(x509);
    EVP_PKEY_free(remote);
}

static void test_older_tls_is_refused(void **state)
{
    (void)state;
    EVP_PKEY *remote = sni_key_to_evp(fixture.remote_key);
    uint8_t value[256];
    size_t size = wrap(fixture.remote_bytes, fixture.remote_size, value);
    struct raw_cert good = {.key = remote, .extension = value, .extension_size = size, .copies = 1};
    X509 *x509 = raw_cert_new(&good);
    SSL_CTX *client = raw_ctx_new(TLS_client_method(), x509, remote);
    SSL_CTX *server = raw_ctx_new(TLS_server_method(), x509, remote);
    SSL_CTX_set_max_proto_version(client, TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(server, TLS1_2_VERSION);
    struct sn_tls_check check = new_check();
    assert_int_equal(meet(client, 1, &check).local_up, 0);
    assert_int_equal(meet(server, 0, &check).local_up, 0);
    SSL_CTX_free(client);
    SSL_CTX_free(server);
    X509_free(x509);
    EVP_PKEY_free(remote);
}

static void test_without_a_check_everybody_is_refused(void **state)
{
    (void)state;
    struct sn_tls_check check = new_check();
    for (int client_has = 0; client_has < 2; client_has++) {
        struct tls_pair pair;
        tls_pair_init(&pair, sn_tls_identity_client_ctx(fixture.local), client_has ? &check : NULL,
                      sn_tls_identity_server_ctx(fixture.local), client_has ? NULL : &check);
        tls_pair_run(&pair);
        assert_false(pair.client_up);
        assert_false(pair.server_up);
        tls_pair_fini(&pair);
    }
}

/* ---- what a good connection is like ---- */

static void exporters(uint8_t client_out[32], uint8_t server_out[32])
{
    struct sn_tls_check client = new_check();
    struct sn_tls_check server = new_check();
    struct tls_pair pair;
    tls_pair_init(&pair, sn_tls_identity_client_ctx(fixture.local), &client,
                  sn_tls_identity_server_ctx(fixture.local), &server);
    assert_int_equal(client.result, SN_ESTATE);
    assert_int_equal(sn_tls_exporter(pair.client, client_out), SN_ESTATE);
    tls_pair_run(&pair);
    assert_true(pair.client_up && pair.server_up);
    assert_int_equal(sn_tls_exporter(pair.client, client_out), SN_OK);
    assert_int_equal(sn_tls_exporter(pair.server, server_out), SN_OK);
    assert_string_equal(SSL_get_version(pair.client), "TLSv1.3");
    assert_false(SSL_session_reused(pair.client));
    assert_false(SSL_SESSION_has_ticket(SSL_get_session(pair.client)));
    tls_pair_fini(&pair);
}

static void test_exporter(void **state)
{
    (void)state;
    uint8_t a[2][32], b[2][32];
    for (int i = 0; i < 2; i++) {
        exporters(a[i], b[i]);
        assert_memory_equal(a[i], b[i], 32);
    }
    assert_memory_not_equal(a[0], a[1], 32);
}

static void test_x509_form(void **state)
{
    (void)state;
    X509 *x509 = SSL_CTX_get0_certificate(sn_tls_identity_server_ctx(fixture.local));
    assert_int_equal(X509_get_version(x509), X509_VERSION_3);
    assert_int_equal(X509_verify(x509, X509_get0_pubkey(x509)), 1);
    assert_int_equal(X509_get_ext_count(x509), 1);
    assert_int_equal(X509_EXTENSION_get_critical(X509_get_ext(x509, 0)), 0);
    char name[80];
    X509_NAME_get_text_by_NID(X509_get_subject_name(x509), NID_commonName, name, sizeof name);
    assert_string_equal(name, "amsterdam/edge");
    assert_int_equal(X509_cmp_current_time(X509_get0_notBefore(x509)), -1);
    assert_int_equal(X509_cmp_current_time(X509_get0_notAfter(x509)), 1);
    assert_int_equal(X509_NAME_cmp(X509_get_subject_name(x509), X509_get_issuer_name(x509)), 0);

    struct sn_tls_identity *bare;
    assert_int_equal(sn_tls_identity_new(fixture.remote_key, NULL, 0, &bare), SN_OK);
    X509 *other = SSL_CTX_get0_certificate(sn_tls_identity_client_ctx(bare));
    assert_int_not_equal(
        ASN1_INTEGER_cmp(X509_get0_serialNumber(x509), X509_get0_serialNumber(other)), 0);
    char text[SN_KEY_TEXT_BYTES + 1];
    sn_key_id_format(&fixture.remote_id, text);
    X509_NAME_get_text_by_NID(X509_get_subject_name(other), NID_commonName, name, sizeof name);
    assert_string_equal(name, text + strlen("ed25519:"));
    assert_int_equal(X509_get_ext_count(other), 0);
    sn_tls_identity_free(bare);
}

static void test_long_names_and_big_certificates(void **state)
{
    (void)state;
    struct sn_cert cert = fixture.remote_cert;
    memset(cert.agent, 's', SN_AGENT_NAME_BYTES_MAX);
    cert.agent[SN_LABEL_BYTES_MAX] = '/';
    cert.role_count = SN_ROLES_MAX;
    for (uint32_t i = 0; i < SN_ROLES_MAX; i++) {
        memset(cert.roles[i], 'r', SN_LABEL_BYTES_MAX);
        cert.roles[i][0] = (char)('a' + i);
    }
    struct verdict verdict = judge_cert(&cert, fixture.authority, SN_OK);
    assert_string_equal(verdict.check.cert.agent, cert.agent);
    assert_int_equal(verdict.check.cert.role_count, SN_ROLES_MAX);
}

static void test_identity_refuses_what_is_not_its_own(void **state)
{
    (void)state;
    struct sn_tls_identity *identity = NULL;
    assert_int_equal(sn_tls_identity_new(fixture.third_key, fixture.remote_bytes,
                                         fixture.remote_size, &identity),
                     SN_EINVAL);
    assert_int_equal(sn_tls_identity_new(fixture.remote_key, fixture.remote_bytes,
                                         fixture.remote_size - 1, &identity),
                     SN_EINVAL);
    assert_null(identity);
    sn_tls_identity_free(NULL);
}

static void test_extension_reader(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        enum sn_err err;
        size_t content;
    } cases[] = {
        {"\x04\x00", 2, SN_OK, 0},
        {"\x04\x02"
         "ab",
         4, SN_OK, 2},
        {"", 0, SN_EINVAL, 0},
        {"\x04", 1, SN_EINVAL, 0},
        {"\x03\x02"
         "ab",
         4, SN_EINVAL, 0},
        {"\x04\x03"
         "ab",
         4, SN_EINVAL, 0},
        {"\x04\x01"
         "ab",
         4, SN_EINVAL, 0},
        {"\x04\x80\x00\x00", 4, SN_EINVAL, 0},
        {"\x04\x81\x01"
         "a",
         4, SN_EINVAL, 0},
        {"\x04\x81", 2, SN_EINVAL, 0},
        {"\x04\x82\x00", 3, SN_EINVAL, 0},
        {"\x04\x82\x00\x01"
         "a",
         5, SN_EINVAL, 0},
        {"\x04\x83\x00\x00\x01"
         "a",
         6, SN_EINVAL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t *cert;
        size_t size = 0;
        enum sn_err err =
            sni_tls_extension_read((const uint8_t *)cases[i].bytes, cases[i].size, &cert, &size);
        if (err != cases[i].err || size != cases[i].content) fail_msg("case %zu", i);
    }
    uint8_t value[4 + 0xffff] = {0x04, 0x82, 0xff, 0xff}; /* 64 KiB, a test's own stack */
    const uint8_t *cert;
    size_t size;
    assert_int_equal(sni_tls_extension_read(value, sizeof value, &cert, &size), SN_OK);
    assert_int_equal(size, 0xffff);
    assert_ptr_equal(cert, value + 4);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_tls_identity *identity = NULL;
    enum sn_err err = SN_ENOMEM;
    for (uint64_t nth = 1; err != SN_OK; nth++) {
        assert_true(nth < 10);
        sn_alloc_fail_nth(nth);
        err = sn_tls_identity_new(fixture.remote_key, fixture.remote_bytes, fixture.remote_size,
                                  &identity);
        if (err == SN_OK) break;
        assert_int_equal(err, SN_ENOMEM);
        assert_null(identity);
        assert_int_equal(sn_alloc_in_use(), before);
    }
    sn_alloc_fail_nth(0);
    sn_tls_identity_free(identity);
    assert_int_equal(sn_alloc_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_identities_meet),
        cmocka_unit_test(test_each_bad_certificate_has_its_error),
        cmocka_unit_test(test_the_clock_is_asked),
        cmocka_unit_test(test_expectations),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_foreign_made_peers),
        cmocka_unit_test(test_a_chain_is_refused),
        cmocka_unit_test(test_other_kinds_of_keys_are_refused),
        cmocka_unit_test(test_small_order_key_is_refused),
        cmocka_unit_test(test_no_certificate_is_refused),
        cmocka_unit_test(test_alpn_is_required),
        cmocka_unit_test(test_older_tls_is_refused),
        cmocka_unit_test(test_without_a_check_everybody_is_refused),
        cmocka_unit_test(test_exporter),
        cmocka_unit_test(test_x509_form),
        cmocka_unit_test(test_long_names_and_big_certificates),
        cmocka_unit_test(test_identity_refuses_what_is_not_its_own),
        cmocka_unit_test(test_extension_reader),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
