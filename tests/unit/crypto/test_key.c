/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/alloc.h"
#include "base/text.h"
#include "crypto/key.h"

void *__real_sodium_malloc(size_t size);
void *__wrap_sodium_malloc(size_t size);

static int guarded_memory_fails;

void *__wrap_sodium_malloc(size_t size)
{
    return guarded_memory_fails ? NULL : __real_sodium_malloc(size);
}

/* RFC 8032, section 7.1. */
static const struct rfc8032 {
    const char *seed, *id, *message, *signature;
} rfc8032[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
     "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
     "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
     "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
    {"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
     "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
     "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
     "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
     "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
     "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"},
};

static size_t from_hex(const char *hex, uint8_t *out)
{
    size_t size = strlen(hex) / 2;
    assert_int_equal(sn_hex_decode(hex, 2 * size, out, size), SN_OK);
    return size;
}

static struct sn_key *key_of(uint8_t fill)
{
    uint8_t seed[32];
    memset(seed, fill, sizeof seed);
    struct sn_key *key;
    assert_int_equal(sn_key_from_seed(seed, &key), SN_OK);
    return key;
}

static void test_rfc8032_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rfc8032 / sizeof rfc8032[0]; i++) {
        uint8_t seed[32], expected_id[32], message[64], expected[64], signature[64];
        from_hex(rfc8032[i].seed, seed);
        from_hex(rfc8032[i].id, expected_id);
        from_hex(rfc8032[i].signature, expected);
        size_t size = from_hex(rfc8032[i].message, message);
        struct sn_key *key;
        assert_int_equal(sn_key_from_seed(seed, &key), SN_OK);
        struct sn_key_id id = sn_key_id(key);
        assert_memory_equal(id.bytes, expected_id, 32);
        assert_int_equal(sn_key_sign(key, message, size, signature), SN_OK);
        assert_memory_equal(signature, expected, 64);
        assert_int_equal(sn_key_verify(&id, message, size, signature), SN_OK);
        sn_key_free(key);
    }
}

static void test_any_changed_bit_is_refused(void **state)
{
    (void)state;
    struct sn_key *key = key_of(1);
    struct sn_key_id id = sn_key_id(key);
    uint8_t message[8] = "message";
    uint8_t signature[SN_SIGNATURE_BYTES];
    assert_int_equal(sn_key_sign(key, message, sizeof message, signature), SN_OK);
    for (size_t bit = 0; bit < 8 * sizeof signature; bit++) {
        signature[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(sn_key_verify(&id, message, sizeof message, signature), SN_EAUTH);
        signature[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof message; bit++) {
        message[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(sn_key_verify(&id, message, sizeof message, signature), SN_EAUTH);
        message[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof id.bytes; bit++) {
        id.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(sn_key_verify(&id, message, sizeof message, signature), SN_EAUTH);
        id.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(sn_key_verify(&id, message, sizeof message - 1, signature), SN_EAUTH);
    assert_int_equal(sn_key_verify(&id, message, sizeof message, signature), SN_OK);
    sn_key_free(key);
}

/* Under the neutral point R = 0, s = 0 signs every message; OpenSSL accepts that. */
static void test_small_order_keys_are_refused(void **state)
{
    (void)state;
    struct sn_key_id id = {.bytes = {1}};
    uint8_t signature[SN_SIGNATURE_BYTES] = {1};
    EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, id.bytes, 32);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey), 1);
    assert_int_equal(EVP_DigestVerify(ctx, signature, 64, (const uint8_t *)"any", 3), 1);
    assert_int_equal(sn_key_verify(&id, "any", 3, signature), SN_EAUTH);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pkey);
}

static void test_signature_plus_order_is_refused(void **state)
{
    (void)state;
    static const uint8_t order[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58,       0xd6,
                                      0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10};
    struct sn_key *key = key_of(2);
    struct sn_key_id id = sn_key_id(key);
    uint8_t signature[SN_SIGNATURE_BYTES];
    assert_int_equal(sn_key_sign(key, "m", 1, signature), SN_OK);
    unsigned carry = 0;
    for (size_t i = 0; i < 32; i++) {
        carry += (unsigned)signature[32 + i] + order[i];
        signature[32 + i] = (uint8_t)carry;
        carry >>= 8;
    }
    assert_int_equal(sn_key_verify(&id, "m", 1, signature), SN_EAUTH);
    sn_key_free(key);
}

static void test_new_keys_differ(void **state)
{
    (void)state;
    struct sn_key *a;
    struct sn_key *b;
    assert_int_equal(sn_key_new(&a), SN_OK);
    assert_int_equal(sn_key_new(&b), SN_OK);
    struct sn_key_id a_id = sn_key_id(a);
    struct sn_key_id b_id = sn_key_id(b);
    assert_false(sn_key_id_is_equal(&a_id, &b_id));
    assert_true(sn_key_id_is_equal(&a_id, &a_id));
    sn_key_free(a);
    sn_key_free(b);
    sn_key_free(NULL);
}

static void test_pem_is_what_openssl_writes(void **state)
{
    (void)state;
    struct sn_key *key = key_of(3);
    char pem[SN_KEY_PEM_MAX];
    size_t size;
    assert_int_equal(sn_key_to_pem(key, pem, sizeof pem, &size), SN_OK);
    assert_int_equal(size, strlen(pem));

    BIO *in = BIO_new_mem_buf(pem, (int)size);
    EVP_PKEY *pkey = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);
    assert_non_null(pkey);
    uint8_t raw[32];
    size_t raw_size = sizeof raw;
    assert_int_equal(EVP_PKEY_get_raw_public_key(pkey, raw, &raw_size), 1);
    struct sn_key_id id = sn_key_id(key);
    assert_memory_equal(raw, id.bytes, 32);

    BIO *out = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_PKCS8PrivateKey(out, pkey, NULL, NULL, 0, NULL, NULL), 1);
    char *text;
    long text_size = BIO_get_mem_data(out, &text);
    assert_int_equal((size_t)text_size, size);
    assert_memory_equal(text, pem, size);
    struct sn_key *again;
    assert_int_equal(sn_key_from_pem(text, (size_t)text_size, &again), SN_OK);
    struct sn_key_id again_id = sn_key_id(again);
    assert_true(sn_key_id_is_equal(&id, &again_id));

    /* The other way round: a signature of one verifies with the other. */
    uint8_t signature[SN_SIGNATURE_BYTES];
    assert_int_equal(sn_key_sign(again, "m", 1, signature), SN_OK);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey), 1);
    assert_int_equal(EVP_DigestVerify(ctx, signature, 64, (const uint8_t *)"m", 1), 1);
    EVP_MD_CTX_free(ctx);
    sn_key_free(again);
    sn_key_free(key);
    EVP_PKEY_free(pkey);
    BIO_free(in);
    BIO_free(out);
}

static void test_pem_refusals(void **state)
{
    (void)state;
    struct sn_key *key = key_of(4);
    char pem[SN_KEY_PEM_MAX];
    size_t size;
    assert_int_equal(sn_key_to_pem(key, pem, sizeof pem, &size), SN_OK);
    char small[SN_KEY_PEM_MAX];
    size_t small_size;
    assert_int_equal(sn_key_to_pem(key, small, size, &small_size), SN_ETOOBIG);
    struct sn_key *out = NULL;
    for (size_t keep = 0; keep + 1 < size; keep++) { /* the last byte is a newline */
        assert_int_equal(sn_key_from_pem(pem, keep, &out), SN_EINVAL);
    }
    static const char *const bad[] = {
        /* X25519 instead of Ed25519: one byte of the OID differs. */
        "-----BEGIN PRIVATE KEY-----\n"
        "MC4CAQAwBQYDK2VuBCIEIAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\n"
        "-----END PRIVATE KEY-----\n",
        /* A byte short, a byte long. */
        "-----BEGIN PRIVATE KEY-----\n"
        "MC4CAQAwBQYDK2VwBCIEIAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ=\n"
        "-----END PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\n"
        "MC4CAQAwBQYDK2VwBCIEIAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\nBA==\n"
        "-----END PRIVATE KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(sn_key_from_pem(bad[i], strlen(bad[i]), &out), SN_EINVAL);
    }
    assert_null(out);
    sn_key_free(key);
}

static void test_id_text(void **state)
{
    (void)state;
    struct sn_key_id id;
    for (size_t i = 0; i < sizeof id.bytes; i++) id.bytes[i] = (uint8_t)(0xf0 + i);
    char text[SN_KEY_TEXT_BYTES + 1];
    sn_key_id_format(&id, text);
    assert_int_equal(strlen(text), SN_KEY_TEXT_BYTES);
    assert_memory_equal(text, "ed25519:f0f1", 12);
    struct sn_key_id back;
    assert_int_equal(sn_key_id_parse(text, strlen(text), &back), SN_OK);
    assert_true(sn_key_id_is_equal(&id, &back));
    for (size_t keep = 0; keep < strlen(text); keep++) {
        assert_int_equal(sn_key_id_parse(text, keep, &back), SN_EINVAL);
    }
    char line[SN_KEY_TEXT_BYTES + 2];
    memcpy(line, text, SN_KEY_TEXT_BYTES);
    memcpy(line + SN_KEY_TEXT_BYTES, "\n", 2);
    assert_int_equal(sn_key_id_parse(line, strlen(line), &back), SN_EINVAL);
    text[0] = 'E';
    assert_int_equal(sn_key_id_parse(text, strlen(text), &back), SN_EINVAL);
    text[0] = 'e';
    text[20] = 'g';
    assert_int_equal(sn_key_id_parse(text, strlen(text), &back), SN_EINVAL);
}

static void test_sha256(void **state)
{
    (void)state;
    uint8_t digest[SN_DIGEST_BYTES], expected[SN_DIGEST_BYTES];
    sn_sha256("abc", 3, digest);
    from_hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", expected);
    assert_memory_equal(digest, expected, sizeof digest);
    sn_sha256(NULL, 0, digest);
    from_hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", expected);
    assert_memory_equal(digest, expected, sizeof digest);
    uint8_t bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
    for (size_t size = 0; size <= sizeof bytes; size++) { /* both implementations */
        assert_int_equal(EVP_Digest(bytes, size, expected, NULL, EVP_sha256(), NULL), 1);
        sn_sha256(bytes, size, digest);
        assert_memory_equal(digest, expected, sizeof digest);
    }
}

static void test_secrets(void **state)
{
    (void)state;
    uint8_t a[4] = {1, 2, 3, 4};
    uint8_t b[4] = {1, 2, 3, 5};
    assert_false(sn_secret_is_equal(a, b, 4));
    assert_true(sn_secret_is_equal(a, b, 3));
    sn_secret_wipe(a, 3);
    assert_memory_equal(a, "\0\0\0\4", 4);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_key *key = NULL;
    enum sn_err err = SN_ENOMEM;
    for (uint64_t nth = 1; err != SN_OK; nth++) {
        assert_true(nth < 10);
        sn_alloc_fail_nth(nth);
        err = sn_key_new(&key);
        if (err == SN_OK) break;
        assert_int_equal(err, SN_ENOMEM);
        assert_null(key);
        assert_int_equal(sn_alloc_in_use(), before);
    }
    sn_alloc_fail_nth(0);
    sn_key_free(key);
    key = NULL;
    guarded_memory_fails = 1;
    err = sn_key_new(&key);
    guarded_memory_fails = 0;
    assert_int_equal(err, SN_ENOMEM);
    assert_null(key);
    assert_int_equal(sn_alloc_in_use(), before);
}

static int start(void **state)
{
    (void)state;
    return sn_crypto_init() == SN_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc8032_vectors),
        cmocka_unit_test(test_any_changed_bit_is_refused),
        cmocka_unit_test(test_small_order_keys_are_refused),
        cmocka_unit_test(test_signature_plus_order_is_refused),
        cmocka_unit_test(test_new_keys_differ),
        cmocka_unit_test(test_pem_is_what_openssl_writes),
        cmocka_unit_test(test_pem_refusals),
        cmocka_unit_test(test_id_text),
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
