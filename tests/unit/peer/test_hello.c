/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "peer/hello.h"
#include "unit/crypto/vectors.h"
#include "wire/pack.h"

#define VECTORS "hello_v1.txt"

struct fixture {
    struct sn_key *dialer, *listener;
    struct sn_key_id dialer_id, listener_id;
    uint8_t bytes[SN_HELLO_BYTES_MAX]; /* hello_dialer */
    size_t size;
    struct sn_hello hello; /* what it says */
    struct sn_auth_input of_dialer, of_listener;
};

static struct fixture fixture;

static int set_up(void **state)
{
    uint8_t seed[32], other[SN_HELLO_BYTES_MAX], exporter[32];
    (void)state; /* one fixture */
    memset(&fixture, 0, sizeof fixture);
    if (sn_crypto_init() != SN_OK) return -1;
    vector_read(VECTORS, "dialer_seed", seed, sizeof seed);
    if (sn_key_from_seed(seed, &fixture.dialer) != SN_OK) return -1;
    vector_read(VECTORS, "listener_seed", seed, sizeof seed);
    if (sn_key_from_seed(seed, &fixture.listener) != SN_OK) return -1;
    fixture.dialer_id = sn_key_id(fixture.dialer);
    fixture.listener_id = sn_key_id(fixture.listener);
    fixture.size = vector_read(VECTORS, "hello_dialer", fixture.bytes, sizeof fixture.bytes);
    fixture.hello = (struct sn_hello){.version = 1,
                                      .mesh = "demo",
                                      .agent = "amsterdam/edge",
                                      .id = fixture.dialer_id,
                                      .epoch = 1700000000000,
                                      .session = 0x0102030405060708,
                                      .wall_ms = 1700000000123};
    for (unsigned i = 0; i < 32; i++) {
        fixture.hello.nonce[i] = (uint8_t)(0x20 + i);
        fixture.hello.boot_public[i] = (uint8_t)(0x60 + i);
    }
    size_t other_size = vector_read(VECTORS, "hello_listener", other, sizeof other);
    vector_read(VECTORS, "exporter", exporter, sizeof exporter);
    fixture.of_dialer.is_dialer = 1;
    sn_sha256(fixture.bytes, fixture.size, fixture.of_dialer.signer_hello);
    sn_sha256(other, other_size, fixture.of_dialer.other_hello);
    memcpy(fixture.of_dialer.exporter, exporter, sizeof exporter);
    memcpy(fixture.of_listener.signer_hello, fixture.of_dialer.other_hello, SN_DIGEST_BYTES);
    memcpy(fixture.of_listener.other_hello, fixture.of_dialer.signer_hello, SN_DIGEST_BYTES);
    memcpy(fixture.of_listener.exporter, exporter, sizeof exporter);
    return 0;
}

static int tear_down(void **state)
{
    (void)state; /* one fixture */
    sn_key_free(fixture.dialer);
    sn_key_free(fixture.listener);
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

static void assert_hello_equal(const struct sn_hello *a, const struct sn_hello *b)
{
    assert_int_equal(a->version, b->version);
    assert_string_equal(a->mesh, b->mesh);
    assert_string_equal(a->agent, b->agent);
    assert_true(sn_key_id_is_equal(&a->id, &b->id));
    assert_true(a->epoch == b->epoch);
    assert_memory_equal(a->nonce, b->nonce, 32);
    assert_memory_equal(a->boot_public, b->boot_public, 32);
    assert_int_equal(a->lane, b->lane);
    assert_true(a->session == b->session);
    assert_true(a->wall_ms == b->wall_ms);
}

/* Decodes; a refused input must leave the output alone. */
static enum sn_err decode(const uint8_t *bytes, size_t size, struct sn_hello *out_hello)
{
    struct sn_hello untouched;
    memset(out_hello, 0xee, sizeof *out_hello);
    memset(&untouched, 0xee, sizeof untouched);
    enum sn_err err = sn_hello_decode(bytes, size, out_hello);
    if (err != SN_OK && err != SN_EVERSION) {
        assert_memory_equal(out_hello, &untouched, sizeof untouched);
    }
    return err;
}

/* --- HELLO --------------------------------------------------------------------------------------------- */

static void test_golden_hellos(void **state)
{
    (void)state;
    uint8_t golden[SN_HELLO_BYTES_MAX], made[SN_HELLO_BYTES_MAX];
    struct sn_hello hello;
    size_t size;
    assert_int_equal(sn_hello_encode(&fixture.hello, made, sizeof made, &size), SN_OK);
    assert_int_equal(size, fixture.size);
    assert_memory_equal(made, fixture.bytes, size);
    assert_int_equal(decode(fixture.bytes, fixture.size, &hello), SN_OK);
    assert_hello_equal(&hello, &fixture.hello);

    size_t golden_size = vector_read(VECTORS, "hello_listener", golden, sizeof golden);
    assert_int_equal(decode(golden, golden_size, &hello), SN_OK);
    assert_string_equal(hello.agent, "paris/hub");
    assert_true(sn_key_id_is_equal(&hello.id, &fixture.listener_id));
    assert_true(hello.epoch == 7);
    assert_true(hello.session == 0);
    assert_true(hello.wall_ms == -1); /* a clock before 1970 is only a wrong clock */
    assert_int_equal(sn_hello_encode(&hello, made, sizeof made, &size), SN_OK);
    assert_int_equal(size, golden_size);
    assert_memory_equal(made, golden, size);
}

static void test_unknown_fields_and_order_do_not_matter(void **state)
{
    (void)state;
    uint8_t bytes[SN_HELLO_BYTES_MAX];
    struct sn_hello hello;
    size_t size = vector_read(VECTORS, "hello_extended", bytes, sizeof bytes);
    assert_int_equal(decode(bytes, size, &hello), SN_OK);
    assert_hello_equal(&hello, &fixture.hello);
}

static void test_other_version(void **state)
{
    (void)state;
    uint8_t bytes[SN_HELLO_BYTES_MAX];
    struct sn_hello hello;
    size_t size = vector_read(VECTORS, "hello_version_2", bytes, sizeof bytes);
    assert_int_equal(decode(bytes, size, &hello), SN_EVERSION);
    assert_int_equal(hello.version, 2);
    assert_string_equal(hello.agent, "amsterdam/edge"); /* so that a log line can name it */
    static const uint8_t bare[] = {0x81, 0x00, 0x07};   /* only a version */
    assert_int_equal(decode(bare, sizeof bare, &hello), SN_EVERSION);
    assert_int_equal(hello.version, 7);
    static const uint8_t zero[] = {0x81, 0x00, 0x00};
    assert_int_equal(decode(zero, sizeof zero, &hello), SN_EVERSION);
    static const uint8_t current[] = {0x81, 0x00, 0x01};
    assert_int_equal(decode(current, sizeof current, &hello), SN_EINVAL);
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    struct sn_hello hello;
    uint8_t small[SN_HELLO_BYTES_MAX];
    size_t size;
    for (size_t keep = 0; keep < fixture.size; keep++) {
        assert_int_equal(decode(fixture.bytes, keep, &hello), SN_EINVAL);
        size = 99;
        assert_int_equal(sn_hello_encode(&fixture.hello, small, keep, &size), SN_ETOOBIG);
        assert_int_equal(size, 99);
    }
    fixture.bytes[fixture.size] = 0xc0;
    assert_int_equal(decode(fixture.bytes, fixture.size + 1, &hello), SN_EINVAL);
    assert_int_equal(decode(fixture.bytes, SN_HELLO_BYTES_MAX + 1, &hello), SN_ETOOBIG);
}

/* The fields of the golden hello, with a hole, a repetition or another value in one place. */
struct variation {
    int skip, twice; /* keys; -1 = none */
    const struct sn_hello *hello;
};

static void pack_field(struct sn_pack *pack, int key, const struct sn_hello *hello)
{
    switch (key) {
    case 0: sn_pack_key_uint(pack, 0, hello->version); break;
    case 1: sn_pack_key_text(pack, 1, hello->mesh); break;
    case 2: sn_pack_key_text(pack, 2, hello->agent); break;
    case 3: sn_pack_key_bin(pack, 3, hello->id.bytes, 32); break;
    case 4: sn_pack_key_uint(pack, 4, hello->epoch); break;
    case 5: sn_pack_key_bin(pack, 5, hello->nonce, 32); break;
    case 6: sn_pack_key_bin(pack, 6, hello->boot_public, 32); break;
    case 7: sn_pack_key_uint(pack, 7, hello->lane); break;
    case 8: sn_pack_key_uint(pack, 8, hello->session); break;
    default:
        sn_pack_uint(pack, 9);
        sn_pack_int(pack, hello->wall_ms);
        break;
    }
}

static enum sn_err decode_variation(const struct variation *variation)
{
    uint8_t bytes[SN_HELLO_BYTES_MAX];
    struct sn_hello hello;
    struct sn_pack pack;
    size_t size;
    sn_pack_init(&pack, bytes, sizeof bytes);
    sn_pack_map(&pack, 10u - (variation->skip >= 0) + (variation->twice >= 0));
    for (int key = 0; key < 10; key++) {
        if (key == variation->skip) continue;
        pack_field(&pack, key, variation->hello);
        if (key == variation->twice) pack_field(&pack, key, variation->hello);
    }
    assert_int_equal(sn_pack_finish(&pack, &size), SN_OK);
    return decode(bytes, size, &hello);
}

static void test_missing_and_repeated_fields(void **state)
{
    (void)state;
    struct variation variation = {-1, -1, &fixture.hello};
    assert_int_equal(decode_variation(&variation), SN_OK);
    for (int key = 0; key < 10; key++) {
        variation = (struct variation){key, -1, &fixture.hello};
        assert_int_equal(decode_variation(&variation), SN_EINVAL);
        variation = (struct variation){-1, key, &fixture.hello};
        assert_int_equal(decode_variation(&variation), SN_EINVAL);
    }
}

static void test_bad_values(void **state)
{
    (void)state;
    static const char *const meshes[] = {"", "Demo", "a/b", "a b", "-", "a\x1b"};
    static const char *const agents[] = {"", "edge", "a/b/c", "A/b", "a/", "/b", "a/*", "*"};
    struct sn_hello hello = fixture.hello;
    struct variation variation = {-1, -1, &hello};
    for (size_t i = 0; i < SN_ARRAY_COUNT(meshes); i++) {
        (void)snprintf(hello.mesh, sizeof hello.mesh, "%s", meshes[i]);
        assert_int_equal(decode_variation(&variation), SN_EINVAL);
    }
    hello = fixture.hello;
    for (size_t i = 0; i < SN_ARRAY_COUNT(agents); i++) {
        (void)snprintf(hello.agent, sizeof hello.agent, "%s", agents[i]);
        assert_int_equal(decode_variation(&variation), SN_EINVAL);
    }
    hello = fixture.hello;
    hello.epoch = 0;
    assert_int_equal(decode_variation(&variation), SN_EINVAL);
    hello.epoch = (uint64_t)INT64_MAX + 1;
    assert_int_equal(decode_variation(&variation), SN_EINVAL);
    hello.epoch = INT64_MAX;
    assert_int_equal(decode_variation(&variation), SN_OK);
    hello.lane = 8;
    assert_int_equal(decode_variation(&variation), SN_OK);
    hello.lane = 9;
    assert_int_equal(decode_variation(&variation), SN_EINVAL);
    hello = fixture.hello;
    hello.session = UINT64_MAX;
    hello.wall_ms = INT64_MIN;
    assert_int_equal(decode_variation(&variation), SN_OK);
    /* The longest names that there are. */
    memset(hello.mesh, 'm', SN_MESH_BYTES_MAX);
    memset(hello.agent, 'a', SN_AGENT_NAME_BYTES_MAX);
    hello.agent[SN_LABEL_BYTES_MAX] = '/';
    assert_int_equal(decode_variation(&variation), SN_OK);
}

static void test_hostile_shapes(void **state)
{
    (void)state;
    static const uint8_t shapes[][8] = {{0xdf, 0xff, 0xff, 0xff, 0xff}, /* a map of 4 G entries */
                                        {0x90},                         /* an array */
                                        {0x80},                         /* nothing */
                                        {0x81, 0xa1, '0', 0x01},        /* a text as key */
                                        {0x81, 0xff, 0x01},             /* a negative key */
                                        {0x81, 0x00, 0xa1, '1'},        /* a text as version */
                                        {0xc0}};
    static const size_t sizes[] = {5, 1, 1, 4, 3, 4, 1};
    struct sn_hello hello;
    for (size_t i = 0; i < SN_ARRAY_COUNT(shapes); i++) {
        assert_int_equal(decode(shapes[i], sizes[i], &hello), SN_EINVAL);
    }
}

/* --- REFUSE -------------------------------------------------------------------------------------------- */

/* A peer's clock may say anything; the difference must not wrap. */
static void test_clock_offset(void **state)
{
    const struct {
        int64_t theirs, ours, offset;
    } cases[] = {{1500, 1000, 500},
                 {-5, 10, -15},
                 {INT64_MIN, 1, INT64_MIN},
                 {INT64_MIN, 0, INT64_MIN},
                 {INT64_MIN, INT64_MAX, INT64_MIN},
                 {INT64_MIN + 7, 7, INT64_MIN},
                 {INT64_MIN + 8, 7, INT64_MIN + 1},
                 {INT64_MIN, -1, INT64_MIN + 1},
                 {INT64_MAX, 0, INT64_MAX},
                 {INT64_MAX, 1, INT64_MAX - 1},
                 {INT64_MAX, -1, INT64_MAX},
                 {INT64_MAX - 7, -7, INT64_MAX},
                 {INT64_MAX, INT64_MIN, INT64_MAX}};
    (void)state; /* pure */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sn_hello hello = {.wall_ms = cases[i].theirs};
        assert_true(sn_hello_clock_offset_ms(&hello, cases[i].ours) == cases[i].offset);
    }
}

static void test_golden_refusal(void **state)
{
    (void)state;
    uint8_t golden[512], made[512];
    size_t golden_size = vector_read(VECTORS, "refusal", golden, sizeof golden), size;
    struct sn_refusal refusal = {
        .reason = SN_EREPLAY, .need_epoch = 1700000000001, .text = "need a higher epoch"};
    assert_int_equal(sn_refusal_encode(&refusal, made, sizeof made, &size), SN_OK);
    assert_int_equal(size, golden_size);
    assert_memory_equal(made, golden, size);
    struct sn_refusal read;
    assert_int_equal(sn_refusal_decode(golden, golden_size, &read), SN_OK);
    assert_int_equal(read.reason, SN_EREPLAY);
    assert_true(read.need_epoch == 1700000000001);
    assert_string_equal(read.text, "need a higher epoch");
    for (size_t keep = 0; keep < golden_size; keep++) {
        assert_int_equal(sn_refusal_decode(golden, keep, &read), SN_EINVAL);
        assert_int_equal(sn_refusal_encode(&refusal, made, keep, &size), SN_ETOOBIG);
    }
    static uint8_t big[SN_HELLO_BYTES_MAX + 1];
    assert_int_equal(sn_refusal_decode(big, sizeof big, &read), SN_ETOOBIG);
}

static void test_refusals_of_other_versions(void **state)
{
    (void)state;
    struct sn_refusal refusal;
    static const uint8_t nothing[] = {0x80};
    assert_int_equal(sn_refusal_decode(nothing, sizeof nothing, &refusal), SN_OK);
    assert_int_equal(refusal.reason, SN_EDENIED); /* never SN_OK: it is a refusal */
    assert_string_equal(refusal.text, "");
    static const uint8_t unknown[] = {0x83, 0x00, 0xcc, 200,  0x09, 0x81,
                                      0xa1, 'x',  0x01, 0x02, 0xa1, 't'};
    assert_int_equal(sn_refusal_decode(unknown, sizeof unknown, &refusal), SN_OK);
    assert_int_equal(refusal.reason, SN_EDENIED);
    assert_string_equal(refusal.text, "t");
    static const uint8_t fine[] = {0x81, 0x00, 0x00};
    assert_int_equal(sn_refusal_decode(fine, sizeof fine, &refusal), SN_OK);
    assert_int_equal(refusal.reason, SN_EDENIED);
    static const uint8_t twice[] = {0x82, 0x00, 0x07, 0x00, 0x08};
    assert_int_equal(sn_refusal_decode(twice, sizeof twice, &refusal), SN_EINVAL);
    static const uint8_t huge[] = {0x81, 0x00, 0xcd, 1, 0};
    assert_int_equal(sn_refusal_decode(huge, sizeof huge, &refusal), SN_EINVAL);
}

static void test_length_of_the_reason(void **state)
{
    (void)state;
    uint8_t bytes[512];
    char text[200];
    struct sn_refusal refusal;
    memset(text, 'x', sizeof text);
    for (size_t length = 120; length < 140; length++) {
        struct sn_pack pack;
        size_t size;
        sn_pack_init(&pack, bytes, sizeof bytes);
        sn_pack_map(&pack, 1);
        sn_pack_uint(&pack, 2);
        sn_pack_text(&pack, text, length);
        assert_int_equal(sn_pack_finish(&pack, &size), SN_OK);
        enum sn_err err = sn_refusal_decode(bytes, size, &refusal);
        assert_int_equal(err, length < sizeof refusal.text ? SN_OK : SN_EINVAL);
    }
}

/* --- AUTH ------------------------------------------------------------------------------------------------ */

static void test_golden_signatures(void **state)
{
    (void)state;
    uint8_t golden[SN_SIGNATURE_BYTES], made[SN_SIGNATURE_BYTES];
    vector_read(VECTORS, "auth_dialer", golden, sizeof golden);
    assert_int_equal(sn_auth_sign(fixture.dialer, &fixture.of_dialer, made), SN_OK);
    assert_memory_equal(made, golden, sizeof golden);
    assert_int_equal(sn_auth_verify(&fixture.dialer_id, &fixture.of_dialer, golden), SN_OK);
    vector_read(VECTORS, "auth_listener", golden, sizeof golden);
    assert_int_equal(sn_auth_sign(fixture.listener, &fixture.of_listener, made), SN_OK);
    assert_memory_equal(made, golden, sizeof golden);
    assert_int_equal(sn_auth_verify(&fixture.listener_id, &fixture.of_listener, golden), SN_OK);
}

static void test_reflected_signature_is_refused(void **state)
{
    (void)state;
    uint8_t signature[SN_SIGNATURE_BYTES];
    struct sn_auth_input input = fixture.of_dialer;
    assert_int_equal(sn_auth_sign(fixture.dialer, &input, signature), SN_OK);
    /* The other side sends it back as its own: role, order of the hellos, and key differ. */
    assert_int_equal(sn_auth_verify(&fixture.listener_id, &fixture.of_listener, signature),
                     SN_EAUTH);
    assert_int_equal(sn_auth_verify(&fixture.dialer_id, &fixture.of_listener, signature), SN_EAUTH);
    input.is_dialer = 0; /* the role alone is enough */
    assert_int_equal(sn_auth_verify(&fixture.dialer_id, &input, signature), SN_EAUTH);
    /* A hello that answers itself: the roles keep the two signatures apart. */
    memcpy(input.other_hello, input.signer_hello, SN_DIGEST_BYTES);
    input.is_dialer = 1;
    assert_int_equal(sn_auth_sign(fixture.dialer, &input, signature), SN_OK);
    input.is_dialer = 0;
    assert_int_equal(sn_auth_verify(&fixture.dialer_id, &input, signature), SN_EAUTH);
}

static void test_every_changed_byte_is_refused(void **state)
{
    (void)state;
    uint8_t signature[SN_SIGNATURE_BYTES];
    assert_int_equal(sn_auth_sign(fixture.dialer, &fixture.of_dialer, signature), SN_OK);
    struct sn_auth_input input = fixture.of_dialer;
    struct sn_key_id id = fixture.dialer_id;
    struct {
        uint8_t *bytes;
        size_t size;
    } parts[] = {{input.signer_hello, SN_DIGEST_BYTES},
                 {input.other_hello, SN_DIGEST_BYTES},
                 {input.exporter, sizeof input.exporter},
                 {id.bytes, SN_KEY_BYTES},
                 {signature, SN_SIGNATURE_BYTES}};
    static const uint8_t changes[] = {0x01, 0x80, 0xff};
    for (size_t i = 0; i < SN_ARRAY_COUNT(parts); i++) {
        for (size_t at = 0; at < parts[i].size; at++) {
            for (size_t j = 0; j < sizeof changes; j++) {
                parts[i].bytes[at] ^= changes[j];
                assert_int_equal(sn_auth_verify(&id, &input, signature), SN_EAUTH);
                parts[i].bytes[at] ^= changes[j];
            }
        }
    }
    assert_int_equal(sn_auth_verify(&id, &input, signature), SN_OK);
}

/* Every byte of a HELLO is covered through its digest. */
static void test_changed_hello_is_refused(void **state)
{
    (void)state;
    uint8_t signature[SN_SIGNATURE_BYTES];
    assert_int_equal(sn_auth_sign(fixture.dialer, &fixture.of_dialer, signature), SN_OK);
    struct sn_auth_input input = fixture.of_dialer;
    for (size_t at = 0; at < fixture.size; at++) {
        fixture.bytes[at] ^= 0x01;
        sn_sha256(fixture.bytes, fixture.size, input.signer_hello);
        assert_int_equal(sn_auth_verify(&fixture.dialer_id, &input, signature), SN_EAUTH);
        fixture.bytes[at] ^= 0x01;
    }
    for (size_t keep = 0; keep < fixture.size; keep++) {
        sn_sha256(fixture.bytes, keep, input.signer_hello);
        assert_int_equal(sn_auth_verify(&fixture.dialer_id, &input, signature), SN_EAUTH);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_golden_hellos),
        TEST(test_unknown_fields_and_order_do_not_matter),
        TEST(test_other_version),
        TEST(test_every_truncation_is_refused),
        TEST(test_missing_and_repeated_fields),
        TEST(test_bad_values),
        TEST(test_hostile_shapes),
        TEST(test_clock_offset),
        TEST(test_golden_refusal),
        TEST(test_refusals_of_other_versions),
        TEST(test_length_of_the_reason),
        TEST(test_golden_signatures),
        TEST(test_reflected_signature_is_refused),
        TEST(test_every_changed_byte_is_refused),
        TEST(test_changed_hello_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
