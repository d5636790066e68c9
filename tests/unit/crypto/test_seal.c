/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <sodium.h>

#include "base/alloc.h"
#include "crypto/seal.h"
#include "vectors.h"

#define VECTORS         "seal_v1.txt"
#define SIZE_MAX_TESTED 65536u

void *__real_sodium_malloc(size_t size);
void *__wrap_sodium_malloc(size_t size);

static int guarded_memory_fails;

void *__wrap_sodium_malloc(size_t size)
{
    return guarded_memory_fails ? NULL : __real_sodium_malloc(size);
}

/* Two boots, and the sealer of each; made from the golden vector. */
struct fixture {
    struct sn_boot_key *a_boot, *b_boot;
    struct sn_seal_end a, b;
    struct sn_seal *a_seal, *b_seal;
    uint8_t key[32]; /* from a to b */
    uint8_t nonce[SN_SEAL_NONCE_BYTES];
};

static void read_end(const char *prefix, struct sn_boot_key **out_boot, struct sn_seal_end *out_end)
{
    char name[32];
    uint8_t bytes[32];
    snprintf(name, sizeof name, "%s_secret", prefix);
    vector_read(VECTORS, name, bytes, sizeof bytes);
    assert_int_equal(sn_boot_key_from_seed(bytes, out_boot), SN_OK);
    sn_boot_key_public(*out_boot, out_end->boot_public);
    snprintf(name, sizeof name, "%s_public", prefix);
    vector_read(VECTORS, name, bytes, sizeof bytes);
    assert_memory_equal(out_end->boot_public, bytes, 32);
    snprintf(name, sizeof name, "%s_id", prefix);
    vector_read(VECTORS, name, out_end->id.bytes, SN_KEY_BYTES);
    snprintf(name, sizeof name, "%s_epoch", prefix);
    vector_read(VECTORS, name, bytes, 8);
    out_end->epoch = 0;
    for (size_t i = 0; i < 8; i++) out_end->epoch = out_end->epoch << 8 | bytes[i];
}

static int set_up(void **state)
{
    static struct fixture fixture;
    memset(&fixture, 0, sizeof fixture);
    read_end("a", &fixture.a_boot, &fixture.a);
    read_end("b", &fixture.b_boot, &fixture.b);
    assert_int_equal(sn_seal_new(fixture.a_boot, &fixture.a, &fixture.b, &fixture.a_seal), SN_OK);
    assert_int_equal(sn_seal_new(fixture.b_boot, &fixture.b, &fixture.a, &fixture.b_seal), SN_OK);
    vector_read(VECTORS, "key", fixture.key, sizeof fixture.key);
    vector_read(VECTORS, "nonce", fixture.nonce, sizeof fixture.nonce);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    sn_seal_free(fixture->a_seal);
    sn_seal_free(fixture->b_seal);
    sn_boot_key_free(fixture->a_boot);
    sn_boot_key_free(fixture->b_boot);
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

static void test_golden_vector(void **state)
{
    struct fixture *fixture = *state;
    uint8_t ad[64], plain[64], expected[128], out[128];
    size_t ad_size = vector_read(VECTORS, "ad", ad, sizeof ad);
    size_t size = vector_read(VECTORS, "plain", plain, sizeof plain);
    size_t sealed_size = vector_read(VECTORS, "sealed", expected, sizeof expected);
    assert_int_equal(sealed_size, size + SN_SEAL_OVERHEAD);
    assert_int_equal(sn_seal_seal(fixture->a_seal, fixture->nonce, ad, ad_size, plain, size, out),
                     SN_OK);
    assert_memory_equal(out, expected, sealed_size);
    uint8_t back[64];
    assert_int_equal(sn_seal_open(fixture->b_seal, ad, ad_size, expected, sealed_size, back),
                     SN_OK);
    assert_memory_equal(back, plain, size);
}

static void test_bytes_equal_those_of_libsodium(void **state)
{
    struct fixture *fixture = *state;
    static const size_t sizes[] = {0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 4096, 65536};
    static uint8_t plain[SIZE_MAX_TESTED];
    static uint8_t ours[SIZE_MAX_TESTED + SN_SEAL_OVERHEAD];
    static uint8_t theirs[SIZE_MAX_TESTED + SN_SEAL_OVERHEAD];
    uint8_t ad[200];
    for (size_t i = 0; i < sizeof plain; i++) plain[i] = (uint8_t)(i * 31 >> 3);
    memset(ad, 0x5a, sizeof ad);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        size_t ad_size = i * 13 % sizeof ad;
        fixture->nonce[i % sizeof fixture->nonce] ^= (uint8_t)(i + 1);
        memcpy(theirs, fixture->nonce, SN_SEAL_NONCE_BYTES);
        unsigned long long written;
        crypto_aead_xchacha20poly1305_ietf_encrypt(theirs + SN_SEAL_NONCE_BYTES, &written, plain,
                                                   size, ad, ad_size, NULL, fixture->nonce,
                                                   fixture->key);
        assert_int_equal(written, size + SN_SEAL_TAG_BYTES);
        assert_int_equal(
            sn_seal_seal(fixture->a_seal, fixture->nonce, ad, ad_size, plain, size, ours), SN_OK);
        assert_memory_equal(ours, theirs, size + SN_SEAL_OVERHEAD);
        memset(ours, 0, sizeof ours);
        assert_int_equal(
            sn_seal_open(fixture->b_seal, ad, ad_size, theirs, size + SN_SEAL_OVERHEAD, ours),
            SN_OK);
        assert_memory_equal(ours, plain, size);
    }
}

static void test_in_place(void **state)
{
    struct fixture *fixture = *state;
    uint8_t bytes[100 + SN_SEAL_OVERHEAD], apart[sizeof bytes], plain[100];
    memset(plain, 7, sizeof plain);
    memcpy(bytes + SN_SEAL_NONCE_BYTES, plain, sizeof plain);
    assert_int_equal(
        sn_seal_seal(fixture->a_seal, fixture->nonce, "ad", 2, plain, sizeof plain, apart), SN_OK);
    assert_int_equal(sn_seal_seal(fixture->a_seal, fixture->nonce, "ad", 2,
                                  bytes + SN_SEAL_NONCE_BYTES, sizeof plain, bytes),
                     SN_OK);
    assert_memory_equal(bytes, apart, sizeof bytes);
    assert_int_equal(
        sn_seal_open(fixture->b_seal, "ad", 2, bytes, sizeof bytes, bytes + SN_SEAL_NONCE_BYTES),
        SN_OK);
    assert_memory_equal(bytes + SN_SEAL_NONCE_BYTES, plain, sizeof plain);
}

static void test_every_changed_bit_is_refused(void **state)
{
    struct fixture *fixture = *state;
    uint8_t ad[5] = "four";
    uint8_t sealed[20 + SN_SEAL_OVERHEAD];
    uint8_t out[20];
    static const uint8_t zeros[20];
    assert_int_equal(sn_seal_seal(fixture->a_seal, fixture->nonce, ad, sizeof ad,
                                  (const uint8_t *)"twenty bytes of text", 20, sealed),
                     SN_OK);
    for (size_t bit = 0; bit < 8 * sizeof sealed; bit++) { /* nonce, body and tag */
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        memset(out, 0xff, sizeof out);
        assert_int_equal(sn_seal_open(fixture->b_seal, ad, sizeof ad, sealed, sizeof sealed, out),
                         SN_EAUTH);
        assert_memory_equal(out, zeros, sizeof out); /* no unproven text is left behind */
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof ad; bit++) {
        ad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(sn_seal_open(fixture->b_seal, ad, sizeof ad, sealed, sizeof sealed, out),
                         SN_EAUTH);
        ad[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(sn_seal_open(fixture->b_seal, ad, sizeof ad - 1, sealed, sizeof sealed, out),
                     SN_EAUTH);
    /* A refusal leaves nothing behind in the context. */
    assert_int_equal(sn_seal_open(fixture->b_seal, ad, sizeof ad, sealed, sizeof sealed, out),
                     SN_OK);
    assert_memory_equal(out, "twenty bytes of text", 20);
}

static void test_every_truncation_is_refused(void **state)
{
    struct fixture *fixture = *state;
    uint8_t sealed[20 + SN_SEAL_OVERHEAD];
    uint8_t out[20];
    assert_int_equal(sn_seal_seal(fixture->a_seal, fixture->nonce, NULL, 0,
                                  (const uint8_t *)"twenty bytes of text", 20, sealed),
                     SN_OK);
    for (size_t keep = 0; keep < sizeof sealed; keep++) {
        enum sn_err expected = keep < SN_SEAL_OVERHEAD ? SN_EINVAL : SN_EAUTH;
        assert_int_equal(sn_seal_open(fixture->b_seal, NULL, 0, sealed, keep, out), expected);
    }
}

static void test_oversize_is_refused(void **state)
{
    struct fixture *fixture = *state;
    uint8_t out[SN_SEAL_OVERHEAD] = {0};
    size_t huge = (size_t)1 << 31;
    assert_int_equal(sn_seal_seal(fixture->a_seal, fixture->nonce, NULL, 0, out, huge, out),
                     SN_ETOOBIG);
    assert_int_equal(sn_seal_seal(fixture->a_seal, fixture->nonce, out, huge, out, 0, out),
                     SN_ETOOBIG);
    assert_int_equal(sn_seal_open(fixture->b_seal, NULL, 0, out, huge + SN_SEAL_OVERHEAD, out),
                     SN_ETOOBIG);
}

static void test_directions_do_not_mix(void **state)
{
    struct fixture *fixture = *state;
    uint8_t sealed[4 + SN_SEAL_OVERHEAD], out[4];
    assert_int_equal(
        sn_seal_seal(fixture->a_seal, fixture->nonce, NULL, 0, (const uint8_t *)"body", 4, sealed),
        SN_OK);
    /* Reflected to its sender. */
    assert_int_equal(sn_seal_open(fixture->a_seal, NULL, 0, sealed, sizeof sealed, out), SN_EAUTH);
    uint8_t other[4 + SN_SEAL_OVERHEAD];
    assert_int_equal(
        sn_seal_seal(fixture->b_seal, fixture->nonce, NULL, 0, (const uint8_t *)"body", 4, other),
        SN_OK);
    assert_memory_not_equal(sealed, other, sizeof sealed);
    assert_int_equal(sn_seal_open(fixture->a_seal, NULL, 0, other, sizeof other, out), SN_OK);
}

/* What a sealed can b open when its idea of one of the ends differs? Nothing. */
static void test_ends_are_bound(void **state)
{
    struct fixture *fixture = *state;
    uint8_t sealed[4 + SN_SEAL_OVERHEAD], out[4];
    assert_int_equal(
        sn_seal_seal(fixture->a_seal, fixture->nonce, NULL, 0, (const uint8_t *)"body", 4, sealed),
        SN_OK);
    for (int change = 0; change < 5; change++) {
        struct sn_seal_end a = fixture->a;
        struct sn_seal_end b = fixture->b;
        if (change == 1) a.epoch++;
        if (change == 2) b.epoch++;
        if (change == 3) a.id.bytes[31] ^= 1;
        if (change == 4) b.id.bytes[0] ^= 1;
        struct sn_seal *seal;
        assert_int_equal(sn_seal_new(fixture->b_boot, &b, &a, &seal), SN_OK);
        enum sn_err err = sn_seal_open(seal, NULL, 0, sealed, sizeof sealed, out);
        assert_int_equal(err, change == 0 ? SN_OK : SN_EAUTH);
        sn_seal_free(seal);
    }
}

static void test_another_boot_has_another_key(void **state)
{
    struct fixture *fixture = *state;
    struct sn_boot_key *boot;
    struct sn_seal *seal;
    assert_int_equal(sn_boot_key_new(&boot), SN_OK);
    struct sn_seal_end b = fixture->b;
    sn_boot_key_public(boot, b.boot_public);
    assert_memory_not_equal(b.boot_public, fixture->b.boot_public, 32);
    assert_int_equal(sn_seal_new(boot, &b, &fixture->a, &seal), SN_OK);
    uint8_t sealed[4 + SN_SEAL_OVERHEAD], out[4];
    assert_int_equal(
        sn_seal_seal(fixture->a_seal, fixture->nonce, NULL, 0, (const uint8_t *)"body", 4, sealed),
        SN_OK);
    assert_int_equal(sn_seal_open(seal, NULL, 0, sealed, sizeof sealed, out), SN_EAUTH);
    sn_seal_free(seal);
    sn_boot_key_free(boot);
}

static void test_points_of_small_order_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const uint8_t points[][32] = {
        {0},
        {1},
        {0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3,
         0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32,
         0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00},
        {0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1,
         0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c,
         0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57},
        {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
        {0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    };
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        struct sn_seal_end peer = fixture->b;
        struct sn_seal *seal = NULL;
        memcpy(peer.boot_public, points[i], 32);
        assert_int_equal(sn_seal_new(fixture->a_boot, &fixture->a, &peer, &seal), SN_EAUTH);
        assert_null(seal);
    }
}

static void test_sealing_to_oneself_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct sn_seal *seal = NULL;
    assert_int_equal(sn_seal_new(fixture->a_boot, &fixture->a, &fixture->a, &seal), SN_EAUTH);
    assert_null(seal);
}

static void test_allocation_failures(void **state)
{
    struct fixture *fixture = *state;
    size_t before = sn_alloc_in_use();
    struct sn_boot_key *boot = NULL;
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_boot_key_new(&boot), SN_ENOMEM);
    guarded_memory_fails = 1;
    assert_int_equal(sn_boot_key_new(&boot), SN_ENOMEM);
    guarded_memory_fails = 0;
    assert_null(boot);
    assert_int_equal(sn_alloc_in_use(), before);
    struct sn_seal *seal = NULL;
    enum sn_err err = SN_ENOMEM;
    for (uint64_t nth = 1; err != SN_OK; nth++) {
        assert_true(nth < 10);
        sn_alloc_fail_nth(nth);
        err = sn_seal_new(fixture->a_boot, &fixture->a, &fixture->b, &seal);
        if (err == SN_OK) break;
        assert_int_equal(err, SN_ENOMEM);
        assert_null(seal);
        assert_int_equal(sn_alloc_in_use(), before);
    }
    sn_alloc_fail_nth(0);
    sn_seal_free(seal);
    sn_seal_free(NULL);
    sn_boot_key_free(NULL);
    assert_int_equal(sn_alloc_in_use(), before);
}

static int start(void **state)
{
    (void)state;
    return sn_crypto_init() == SN_OK ? 0 : -1;
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_golden_vector),
        WITH_FIXTURE(test_bytes_equal_those_of_libsodium),
        WITH_FIXTURE(test_in_place),
        WITH_FIXTURE(test_every_changed_bit_is_refused),
        WITH_FIXTURE(test_every_truncation_is_refused),
        WITH_FIXTURE(test_oversize_is_refused),
        WITH_FIXTURE(test_directions_do_not_mix),
        WITH_FIXTURE(test_ends_are_bound),
        WITH_FIXTURE(test_another_boot_has_another_key),
        WITH_FIXTURE(test_points_of_small_order_are_refused),
        WITH_FIXTURE(test_sealing_to_oneself_is_refused),
        WITH_FIXTURE(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
