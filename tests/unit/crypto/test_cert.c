/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "crypto/cert.h"
#include "vectors.h"
#include "wire/pack.h"

#define VECTORS    "cert_v1.txt"
#define NOT_BEFORE 1700000000
#define NOT_AFTER  1800000000
#define NOW        1750000000

struct fixture {
    struct sn_key *authority;
    struct sn_key *other;
    struct sn_key_id authority_id;
    struct sn_trust trust;
    struct sn_cert cert; /* what the golden vector says */
};

static int set_up(void **state)
{
    static struct fixture fixture;
    uint8_t seed[32];
    memset(&fixture, 0, sizeof fixture);
    if (sn_crypto_init() != SN_OK) return -1;
    vector_read(VECTORS, "authority_seed", seed, sizeof seed);
    if (sn_key_from_seed(seed, &fixture.authority) != SN_OK) return -1;
    memset(seed, 0x55, sizeof seed);
    if (sn_key_from_seed(seed, &fixture.other) != SN_OK) return -1;
    fixture.authority_id = sn_key_id(fixture.authority);
    fixture.trust = (struct sn_trust){
        .mesh = "demo", .authorities = &fixture.authority_id, .authority_count = 1};
    fixture.cert = (struct sn_cert){.mesh = "demo",
                                    .agent = "amsterdam/edge",
                                    .roles = {"storage", "operator"},
                                    .role_count = 2,
                                    .authority = fixture.authority_id,
                                    .serial = 0x0102030405060708u,
                                    .not_before_s = NOT_BEFORE,
                                    .not_after_s = NOT_AFTER};
    vector_read(VECTORS, "node", fixture.cert.node.bytes, SN_KEY_BYTES);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    sn_key_free(fixture->authority);
    sn_key_free(fixture->other);
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

static void assert_cert_equal(const struct sn_cert *a, const struct sn_cert *b)
{
    assert_string_equal(a->mesh, b->mesh);
    assert_string_equal(a->agent, b->agent);
    assert_int_equal(a->role_count, b->role_count);
    for (uint32_t i = 0; i < a->role_count; i++) assert_string_equal(a->roles[i], b->roles[i]);
    assert_true(sn_key_id_is_equal(&a->node, &b->node));
    assert_true(sn_key_id_is_equal(&a->authority, &b->authority));
    assert_true(a->serial == b->serial);
    assert_true(a->not_before_s == b->not_before_s);
    assert_true(a->not_after_s == b->not_after_s);
}

static size_t sign(const struct sn_cert *cert, const struct sn_key *key, uint8_t *out)
{
    size_t size;
    assert_int_equal(sn_cert_sign(cert, key, out, SN_CERT_BYTES_MAX, &size), SN_OK);
    return size;
}

static void test_golden_vector(void **state)
{
    struct fixture *fixture = *state;
    uint8_t golden[SN_CERT_BYTES_MAX], made[SN_CERT_BYTES_MAX];
    struct sn_cert cert;
    size_t golden_size = vector_read(VECTORS, "cert", golden, sizeof golden);
    size_t made_size = sign(&fixture->cert, fixture->authority, made);
    assert_int_equal(made_size, golden_size);
    assert_memory_equal(made, golden, golden_size);
    assert_int_equal(sn_cert_verify(golden, golden_size, &fixture->trust, NOW, &cert), SN_OK);
    assert_cert_equal(&cert, &fixture->cert);
}

static void test_unknown_fields_and_order_do_not_matter(void **state)
{
    struct fixture *fixture = *state;
    uint8_t bytes[SN_CERT_BYTES_MAX];
    struct sn_cert cert;
    size_t size = vector_read(VECTORS, "cert_extended", bytes, sizeof bytes);
    assert_int_equal(sn_cert_verify(bytes, size, &fixture->trust, NOW, &cert), SN_OK);
    assert_cert_equal(&cert, &fixture->cert);
}

static void test_pem_vector(void **state)
{
    (void)state;
    char golden[4096], made[4096];
    uint8_t expected[SN_CERT_BYTES_MAX], bytes[SN_CERT_BYTES_MAX];
    size_t golden_size = vector_text("cert_v1.pem", golden, sizeof golden);
    size_t expected_size = vector_read(VECTORS, "cert", expected, sizeof expected);
    size_t size;
    assert_int_equal(sn_cert_from_pem(golden, golden_size, bytes, sizeof bytes, &size), SN_OK);
    assert_int_equal(size, expected_size);
    assert_memory_equal(bytes, expected, size);
    size_t made_size;
    assert_int_equal(sn_cert_to_pem(bytes, size, made, sizeof made, &made_size), SN_OK);
    assert_string_equal(made, golden);
    assert_int_equal(sn_cert_to_pem(bytes, size, made, made_size, &made_size), SN_ETOOBIG);
    assert_int_equal(sn_cert_from_pem(golden, golden_size, bytes, size - 1, &size), SN_ETOOBIG);
}

static void test_every_truncation_is_refused(void **state)
{
    struct fixture *fixture = *state;
    uint8_t bytes[SN_CERT_BYTES_MAX];
    struct sn_cert cert;
    size_t size = sign(&fixture->cert, fixture->authority, bytes);
    for (size_t keep = 0; keep < size; keep++) {
        assert_int_equal(sn_cert_parse(bytes, keep, &cert), SN_EINVAL);
    }
    bytes[size] = 0;
    assert_int_equal(sn_cert_parse(bytes, size + 1, &cert), SN_EINVAL);
}

static void test_every_changed_byte_is_refused(void **state)
{
    struct fixture *fixture = *state;
    uint8_t bytes[SN_CERT_BYTES_MAX];
    struct sn_cert cert;
    size_t size = sign(&fixture->cert, fixture->authority, bytes);
    static const uint8_t changes[] = {0x01, 0x80, 0xff, 0x20};
    for (size_t at = 0; at < size; at++) {
        for (size_t i = 0; i < sizeof changes; i++) {
            bytes[at] ^= changes[i];
            enum sn_err err = sn_cert_verify(bytes, size, &fixture->trust, NOW, &cert);
            int is_refusal = err == SN_EINVAL || err == SN_EAUTH || err == SN_EUNTRUSTED ||
                             (err == SN_EVERSION && at == 3);
            if (!is_refusal) fail_msg("byte %zu: %s", at, sn_err_name(err));
            bytes[at] ^= changes[i];
        }
    }
    assert_int_equal(sn_cert_verify(bytes, size, &fixture->trust, NOW, &cert), SN_OK);
}

static void test_each_refusal_has_its_error(void **state)
{
    struct fixture *fixture = *state;
    struct sn_trust *trust = &fixture->trust;
    uint8_t bytes[SN_CERT_BYTES_MAX];
    struct sn_cert cert;
    size_t size = sign(&fixture->cert, fixture->authority, bytes);
    assert_int_equal(sn_cert_verify(bytes, size, trust, NOT_BEFORE - 1, &cert), SN_ENOTYET);
    assert_string_equal(cert.agent, "amsterdam/edge"); /* a refusal can name it */
    assert_int_equal(sn_cert_verify(bytes, size, trust, NOT_BEFORE, &cert), SN_OK);
    assert_int_equal(sn_cert_verify(bytes, size, trust, NOT_AFTER, &cert), SN_OK);
    assert_int_equal(sn_cert_verify(bytes, size, trust, NOT_AFTER + 1, &cert), SN_EEXPIRED);
    assert_int_equal(sn_cert_verify(bytes, size, trust, INT64_MIN, &cert), SN_ENOTYET);
    assert_int_equal(sn_cert_verify(bytes, size, trust, INT64_MAX, &cert), SN_EEXPIRED);

    struct sn_trust elsewhere = *trust;
    elsewhere.mesh = "demo2";
    assert_int_equal(sn_cert_verify(bytes, size, &elsewhere, NOW, &cert), SN_EMISMATCH);

    bytes[size - 1] ^= 1;
    assert_int_equal(sn_cert_verify(bytes, size, trust, NOW, &cert), SN_EAUTH);
    bytes[3] = '2';
    assert_int_equal(sn_cert_verify(bytes, size, trust, NOW, &cert), SN_EVERSION);
    bytes[3] = '1';
    bytes[0] = 'X';
    assert_int_equal(sn_cert_verify(bytes, size, trust, NOW, &cert), SN_EINVAL);

    size = sign(&fixture->cert, fixture->other, bytes);
    assert_int_equal(sn_cert_verify(bytes, size, trust, NOW, &cert), SN_EUNTRUSTED);
    struct sn_trust nobody = {.mesh = "demo"};
    assert_int_equal(sn_cert_verify(bytes, size, &nobody, NOW, &cert), SN_EUNTRUSTED);
}

/* The earlier reason wins, so that nothing about an unauthentic certificate is reported as a
 * fact. */
static void test_order_of_checks(void **state)
{
    struct fixture *fixture = *state;
    struct sn_trust elsewhere = fixture->trust;
    elsewhere.mesh = "other";
    uint8_t bytes[SN_CERT_BYTES_MAX];
    struct sn_cert cert;
    size_t size = sign(&fixture->cert, fixture->authority, bytes);
    assert_int_equal(sn_cert_verify(bytes, size, &elsewhere, NOT_AFTER + 1, &cert), SN_EMISMATCH);
    bytes[size - 1] ^= 1;
    assert_int_equal(sn_cert_verify(bytes, size, &elsewhere, NOT_AFTER + 1, &cert), SN_EAUTH);
    size = sign(&fixture->cert, fixture->other, bytes);
    bytes[size - 1] ^= 1;
    assert_int_equal(sn_cert_verify(bytes, size, &elsewhere, NOW, &cert), SN_EUNTRUSTED);
}

static void test_several_authorities(void **state)
{
    struct fixture *fixture = *state;
    struct sn_key_id both[2] = {sn_key_id(fixture->other), fixture->authority_id};
    struct sn_trust trust = {.mesh = "demo", .authorities = both, .authority_count = 2};
    uint8_t bytes[SN_CERT_BYTES_MAX];
    struct sn_cert cert;
    size_t size = sign(&fixture->cert, fixture->authority, bytes);
    assert_int_equal(sn_cert_verify(bytes, size, &trust, NOW, &cert), SN_OK);
    size = sign(&fixture->cert, fixture->other, bytes);
    assert_int_equal(sn_cert_verify(bytes, size, &trust, NOW, &cert), SN_OK);
    assert_true(sn_key_id_is_equal(&cert.authority, &both[0]));
}

static void test_bad_content_is_not_signed(void **state)
{
    struct fixture *fixture = *state;
    uint8_t bytes[SN_CERT_BYTES_MAX];
    size_t size;
    struct sn_cert bad[10];
    for (size_t i = 0; i < 10; i++) bad[i] = fixture->cert;
    snprintf(bad[0].mesh, sizeof bad[0].mesh, "Demo");
    bad[1].mesh[0] = '\0';
    snprintf(bad[2].agent, sizeof bad[2].agent, "edge");
    snprintf(bad[3].roles[1], sizeof bad[3].roles[1], "a b");
    memcpy(bad[4].roles[1], bad[4].roles[0], sizeof bad[4].roles[1]);
    bad[5].role_count = SN_ROLES_MAX + 1;
    bad[6].not_after_s = bad[6].not_before_s;
    bad[7].not_before_s = -1;
    memset(bad[8].mesh, 'a', sizeof bad[8].mesh);
    memset(bad[9].roles[0], 'a', sizeof bad[9].roles[0]);
    for (size_t i = 0; i < 10; i++) {
        enum sn_err err = sn_cert_sign(&bad[i], fixture->authority, bytes, sizeof bytes, &size);
        if (err != SN_EINVAL) fail_msg("case %zu: %s", i, sn_err_name(err));
    }
}

static void test_largest_certificate_fits(void **state)
{
    struct fixture *fixture = *state;
    struct sn_cert big = fixture->cert;
    uint8_t bytes[SN_CERT_BYTES_MAX];
    memset(big.mesh, 'm', SN_MESH_BYTES_MAX);
    memset(big.agent, 's', SN_AGENT_NAME_BYTES_MAX);
    big.agent[SN_LABEL_BYTES_MAX] = '/';
    big.role_count = SN_ROLES_MAX;
    for (uint32_t i = 0; i < SN_ROLES_MAX; i++) {
        memset(big.roles[i], 'r', SN_LABEL_BYTES_MAX);
        big.roles[i][0] = (char)('a' + i);
    }
    big.serial = UINT64_MAX;
    big.not_before_s = INT64_MAX - 1;
    big.not_after_s = INT64_MAX;
    size_t size = sign(&big, fixture->authority, bytes);
    struct sn_cert back;
    assert_int_equal(sn_cert_parse(bytes, size, &back), SN_OK);
    assert_cert_equal(&back, &big);
    for (size_t room = 0; room < size; room++) {
        size_t unused;
        assert_int_equal(sn_cert_sign(&big, fixture->authority, bytes, room, &unused), SN_ETOOBIG);
    }
}

/* ---- bodies that sign would not make ---- */

enum { DROP_NONE = 0, TWICE = 100 };

/* Packs the fixture's fields, without `drop`, or with `drop - TWICE` repeated; then `extra`. */
static size_t frame(struct fixture *fixture, uint32_t drop, const struct sn_cert *cert,
                    const uint8_t *extra, size_t extra_size, uint8_t *out)
{
    struct sn_pack pack;
    sn_pack_init(&pack, out + 6, SN_CERT_BYTES_MAX - 70);
    uint32_t count = drop == DROP_NONE ? 8 : drop < TWICE ? 7 : 9;
    sn_pack_map(&pack, count + (extra != NULL));
    for (uint32_t i = 1; i <= 9; i++) {
        uint32_t field = i;
        if (field == drop) continue;
        if (i == 9) {
            if (drop < TWICE) break;
            field = drop - TWICE;
        }
        switch (field) {
        case 1: sn_pack_key_text(&pack, 1, cert->mesh); break;
        case 2: sn_pack_key_text(&pack, 2, cert->agent); break;
        case 3:
            sn_pack_uint(&pack, 3);
            sn_pack_array(&pack, cert->role_count);
            for (uint32_t r = 0; r < cert->role_count; r++) {
                const char *role = r < SN_ROLES_MAX ? cert->roles[r] : "one-too-many";
                sn_pack_text(&pack, role, strlen(role));
            }
            break;
        case 4: sn_pack_key_bin(&pack, 4, cert->node.bytes, 32); break;
        case 5: sn_pack_key_bin(&pack, 5, fixture->authority_id.bytes, 32); break;
        case 6: sn_pack_key_uint(&pack, 6, cert->serial); break;
        default:
            sn_pack_uint(&pack, field);
            sn_pack_int(&pack, field == 7 ? cert->not_before_s : cert->not_after_s);
            break;
        }
    }
    if (extra != NULL) sn_pack_raw(&pack, extra, extra_size);
    size_t size;
    assert_int_equal(sn_pack_finish(&pack, &size), SN_OK);
    memcpy(out, "SNC1", 4);
    out[4] = (uint8_t)(size >> 8);
    out[5] = (uint8_t)size;
    assert_int_equal(sn_key_sign(fixture->authority, out, size + 6, out + size + 6), SN_OK);
    return size + 70;
}

static enum sn_err verify_framed(struct fixture *fixture, uint32_t drop, const struct sn_cert *cert,
                                 const uint8_t *extra, size_t extra_size)
{
    uint8_t bytes[SN_CERT_BYTES_MAX];
    struct sn_cert out;
    size_t size = frame(fixture, drop, cert, extra, extra_size, bytes);
    return sn_cert_verify(bytes, size, &fixture->trust, NOW, &out);
}

static void test_missing_and_duplicate_fields_are_refused(void **state)
{
    struct fixture *fixture = *state;
    const struct sn_cert *cert = &fixture->cert;
    assert_int_equal(verify_framed(fixture, DROP_NONE, cert, NULL, 0), SN_OK);
    for (uint32_t field = 1; field <= 8; field++) {
        assert_int_equal(verify_framed(fixture, field, cert, NULL, 0), SN_EINVAL);
        assert_int_equal(verify_framed(fixture, TWICE + field, cert, NULL, 0), SN_EINVAL);
    }
    /* Unknown fields pass whatever they hold, keys of another kind do not. */
    assert_int_equal(verify_framed(fixture, DROP_NONE, cert, (const uint8_t *)"\x09\xc0", 2),
                     SN_OK);
    assert_int_equal(verify_framed(fixture, DROP_NONE, cert, (const uint8_t *)"\x00\x90", 2),
                     SN_OK);
    assert_int_equal(verify_framed(fixture, DROP_NONE, cert, (const uint8_t *)"\xa1x\xc0", 3),
                     SN_EINVAL);
    assert_int_equal(verify_framed(fixture, DROP_NONE, cert, (const uint8_t *)"\x09\xc0\xc0", 3),
                     SN_EINVAL);
}

static void test_bad_content_is_refused_though_signed(void **state)
{
    struct fixture *fixture = *state;
    struct sn_cert bad[8];
    for (size_t i = 0; i < 8; i++) bad[i] = fixture->cert;
    snprintf(bad[0].mesh, sizeof bad[0].mesh, "de mo");
    snprintf(bad[1].agent, sizeof bad[1].agent, "a/b/c");
    snprintf(bad[2].roles[0], sizeof bad[2].roles[0], "-x");
    memcpy(bad[3].roles[0], bad[3].roles[1], sizeof bad[3].roles[0]);
    bad[4].role_count = SN_ROLES_MAX + 1;
    bad[5].not_before_s = -5;
    bad[6].not_after_s = bad[6].not_before_s;
    bad[7].agent[0] = '\0';
    for (uint32_t i = 0; i < SN_ROLES_MAX; i++) snprintf(bad[4].roles[i], 8, "r%u", i);
    for (size_t i = 0; i < 8; i++) {
        enum sn_err err = verify_framed(fixture, DROP_NONE, &bad[i], NULL, 0);
        if (err != SN_EINVAL) fail_msg("case %zu: %s", i, sn_err_name(err));
    }
}

static void test_refused_parse_writes_nothing(void **state)
{
    struct fixture *fixture = *state;
    uint8_t bytes[SN_CERT_BYTES_MAX];
    struct sn_cert cert, untouched;
    memset(&cert, 0xaa, sizeof cert);
    memset(&untouched, 0xaa, sizeof untouched);
    size_t size = frame(fixture, 8, &fixture->cert, NULL, 0, bytes);
    assert_int_equal(sn_cert_parse(bytes, size, &cert), SN_EINVAL);
    assert_memory_equal(&cert, &untouched, sizeof cert);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_vector),
        cmocka_unit_test(test_unknown_fields_and_order_do_not_matter),
        cmocka_unit_test(test_pem_vector),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_changed_byte_is_refused),
        cmocka_unit_test(test_each_refusal_has_its_error),
        cmocka_unit_test(test_order_of_checks),
        cmocka_unit_test(test_several_authorities),
        cmocka_unit_test(test_bad_content_is_not_signed),
        cmocka_unit_test(test_largest_certificate_fits),
        cmocka_unit_test(test_missing_and_duplicate_fields_are_refused),
        cmocka_unit_test(test_bad_content_is_refused_though_signed),
        cmocka_unit_test(test_refused_parse_writes_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
