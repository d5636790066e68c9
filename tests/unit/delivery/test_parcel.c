/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a parcel: golden vector, and everything that is refused before any cryptography. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/text.h"
#include "delivery/parcel.h"

#define BODY         "the body of a parcel"
#define BODY_BYTES   (sizeof BODY - 1)
#define PARCEL_BYTES (SN_PARCEL_HEADER_BYTES + SN_SEAL_OVERHEAD + BODY_BYTES)

struct ends {
    struct sn_key *key_a, *key_b;
    struct sn_boot_key *boot_a, *boot_b;
    struct sn_seal_end a, b;
    struct sn_seal *seal_a, *seal_b;
    uint8_t parcel[PARCEL_BYTES];
    struct sn_parcel_header header;
};

static void end_init(struct sn_seal_end *end, uint8_t first, uint64_t epoch, struct sn_key **key,
                     struct sn_boot_key **boot)
{
    uint8_t seed[32];
    for (unsigned i = 0; i < sizeof seed; i++) seed[i] = (uint8_t)(first + i);
    assert_int_equal(sn_key_from_seed(seed, key), SN_OK);
    for (unsigned i = 0; i < sizeof seed; i++) seed[i] = (uint8_t)(first + 0x40 + i);
    assert_int_equal(sn_boot_key_from_seed(seed, boot), SN_OK);
    end->id = sn_key_id(*key);
    end->epoch = epoch;
    sn_boot_key_public(*boot, end->boot_public);
}

static int setup(void **state)
{
    static struct ends ends;
    assert_int_equal(sn_crypto_init(), SN_OK);
    memset(&ends, 0, sizeof ends);
    end_init(&ends.a, 0x01, 0x0000018bcfe56800u, &ends.key_a, &ends.boot_a);
    end_init(&ends.b, 0x81, 7, &ends.key_b, &ends.boot_b);
    assert_int_equal(sn_seal_new(ends.boot_a, &ends.a, &ends.b, &ends.seal_a), SN_OK);
    assert_int_equal(sn_seal_new(ends.boot_b, &ends.b, &ends.a, &ends.seal_b), SN_OK);
    ends.header = (struct sn_parcel_header){
        .class_id = 1,
        .hops = 2,
        .source = ends.a.id,
        .destination = ends.b.id,
        .source_epoch = ends.a.epoch,
        .destination_epoch = ends.b.epoch,
        .sequence = 0x0102030405060708u,
    };
    uint8_t nonce[SN_SEAL_NONCE_BYTES];
    uint32_t size;
    for (unsigned i = 0; i < sizeof nonce; i++) nonce[i] = (uint8_t)(0x40 + i);
    memcpy(ends.parcel + SN_PARCEL_BODY_AT, BODY, BODY_BYTES);
    assert_int_equal(sn_parcel_make(&ends.header, ends.seal_a, ends.key_a, nonce, ends.parcel,
                                    BODY_BYTES, &size),
                     SN_OK);
    assert_int_equal(size, PARCEL_BYTES);
    *state = &ends;
    return 0;
}

static int teardown(void **state)
{
    struct ends *ends = *state;
    sn_seal_free(ends->seal_a);
    sn_seal_free(ends->seal_b);
    sn_boot_key_free(ends->boot_a);
    sn_boot_key_free(ends->boot_b);
    sn_key_free(ends->key_a);
    sn_key_free(ends->key_b);
    return 0;
}

static void it_equals_the_golden_vector(void **state)
{
    const struct ends *ends = *state;
    char line[2 * PARCEL_BYTES + 16];
    char text[2 * PARCEL_BYTES + 1];
    for (size_t i = 0; i < PARCEL_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", ends->parcel[i]);
    FILE *file = fopen(SN_VECTORS_DIR "/parcel_v1.txt", "r");
    assert_non_null(file);
    int found = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "parcel ", 7) != 0) continue;
        line[strcspn(line, "\n")] = '\0';
        found = 1;
        assert_string_equal(line + 7, text);
    }
    fclose(file);
    assert_true(found);
}

static void it_is_read_and_opened(void **state)
{
    struct ends *ends = *state;
    struct sn_parcel_header header;
    uint32_t size;
    assert_int_equal(sn_parcel_read(ends->parcel, PARCEL_BYTES, &header), SN_OK);
    assert_int_equal(header.class_id, 1);
    assert_int_equal(header.is_ack_only, 0);
    assert_int_equal(header.hops, 2);
    assert_memory_equal(&header.source, &ends->a.id, SN_KEY_BYTES);
    assert_memory_equal(&header.destination, &ends->b.id, SN_KEY_BYTES);
    assert_int_equal(header.source_epoch, ends->a.epoch);
    assert_int_equal(header.destination_epoch, 7);
    assert_int_equal(header.sequence, 0x0102030405060708u);
    assert_int_equal(sn_parcel_verify(ends->parcel, &ends->a.id), SN_OK);
    assert_int_equal(sn_parcel_verify(ends->parcel, &ends->b.id), SN_EAUTH);
    assert_int_equal(sn_parcel_open(ends->parcel, &header, ends->seal_b, &size), SN_OK);
    assert_int_equal(size, BODY_BYTES);
    assert_memory_equal(ends->parcel + SN_PARCEL_BODY_AT, BODY, BODY_BYTES);
}

static void the_hop_count_is_free_and_nothing_else(void **state)
{
    struct ends *ends = *state;
    struct sn_parcel_header header;
    uint32_t size;
    for (size_t i = 0; i < PARCEL_BYTES; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            uint8_t copy[PARCEL_BYTES];
            memcpy(copy, ends->parcel, sizeof copy);
            copy[i] ^= (uint8_t)(1u << bit);
            enum sn_err err = sn_parcel_read(copy, sizeof copy, &header);
            if (err == SN_OK) {
                header.source = ends->a.id; /* even for one who does not look at the address */
                err = sn_parcel_open(copy, &header, ends->seal_b, &size);
            }
            assert_int_equal(err == SN_OK, i == SN_PARCEL_HOPS_AT);
        }
    }
}

static void the_seal_covers_the_header_too(void **state)
{
    /* One who signs again what another sealed cannot change what the header says. */
    struct ends *ends = *state;
    struct sn_parcel_header header;
    uint32_t size;
    ends->parcel[93] ^= 1; /* the sequence */
    assert_int_equal(sn_key_sign(ends->key_a, ends->parcel, 130, ends->parcel + 130), SN_OK);
    assert_int_equal(sn_parcel_read(ends->parcel, PARCEL_BYTES, &header), SN_OK);
    assert_int_equal(sn_parcel_verify(ends->parcel, &ends->a.id), SN_OK);
    assert_int_equal(sn_parcel_open(ends->parcel, &header, ends->seal_b, &size), SN_EAUTH);
}

static void bad_form_is_refused(void **state)
{
    struct ends *ends = *state;
    static const struct {
        size_t at;
        uint8_t value;
        enum sn_err err;
    } cases[] = {
        {0, 'X', SN_EINVAL},  {2, 'p', SN_EINVAL},   {3, 2, SN_EVERSION},
        {3, 0, SN_EVERSION},  {4, 2, SN_EINVAL},     {5, 2, SN_EINVAL},
        {5, 0x81, SN_EINVAL}, {94, 0xff, SN_EINVAL}, {97, 0, SN_EINVAL},
    };
    struct sn_parcel_header header;
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        uint8_t copy[PARCEL_BYTES];
        memcpy(copy, ends->parcel, sizeof copy);
        copy[cases[i].at] = cases[i].value;
        assert_int_equal(sn_parcel_read(copy, sizeof copy, &header), cases[i].err);
    }
    memset(ends->parcel + 86, 0, 8); /* there is no sequence 0 */
    assert_int_equal(sn_parcel_read(ends->parcel, PARCEL_BYTES, &header), SN_EINVAL);
}

static void every_other_size_is_refused(void **state)
{
    struct ends *ends = *state;
    static uint8_t large[SN_PARCEL_BYTES_MAX + 1]; /* too large for the stack */
    struct sn_parcel_header header;
    for (uint32_t size = 0; size < PARCEL_BYTES; size++)
        assert_int_equal(sn_parcel_read(ends->parcel, size, &header), SN_EINVAL);
    memcpy(large, ends->parcel, PARCEL_BYTES);
    assert_int_equal(sn_parcel_read(large, PARCEL_BYTES + 1, &header), SN_EINVAL);
    uint32_t sealed = SN_PARCEL_BYTES_MAX + 1 - SN_PARCEL_HEADER_BYTES;
    for (unsigned i = 0; i < 4; i++) large[94 + i] = (uint8_t)(sealed >> (24 - 8 * i));
    assert_int_equal(sn_parcel_read(large, SN_PARCEL_BYTES_MAX + 1, &header), SN_EINVAL);
    large[97]--;
    assert_int_equal(sn_parcel_read(large, SN_PARCEL_BYTES_MAX, &header), SN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_equals_the_golden_vector, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_read_and_opened, setup, teardown),
        cmocka_unit_test_setup_teardown(the_hop_count_is_free_and_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(the_seal_covers_the_header_too, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_form_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(every_other_size_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
