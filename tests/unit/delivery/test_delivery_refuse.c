/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is refused: altered, repeated, readdressed, forged and malformed parcels. After each of them the genuine
 * parcel is still taken, and nothing was recorded or answered meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "delivery/parcel.h"
#include "unit/delivery/pair.h"

#define APP   SN_CLASS_APPLICATION
#define NOW   (1000 * MS)
#define SMALL 512u

static struct pair pair;
static uint8_t genuine[SN_PARCEL_BYTES_MAX]; /* too large for the stack */
static uint8_t altered[SN_PARCEL_BYTES_MAX];
static uint32_t genuine_size;

static int setup(void **state)
{
    (void)state;
    pair_init(&pair, 11, NULL);
    pair_up(&pair, NOW);
    assert_int_equal(node_send(&pair.a, APP, 20, 0), SN_OK);
    assert_int_equal(sn_delivery_output(pair.a.delivery, APP, NOW, genuine, &genuine_size), SN_OK);
    assert_true(genuine_size < SMALL);
    memcpy(altered, genuine, genuine_size);
    return 0;
}

static enum sn_err input(struct node *node, enum sn_class class_id, const uint8_t *bytes,
                         uint32_t size)
{
    static uint8_t copy[SN_PARCEL_BYTES_MAX + 1]; /* input modifies its bytes */
    memcpy(copy, bytes, size);
    return sn_delivery_input(node->delivery, class_id, copy, size, NOW);
}

static int teardown(void **state)
{
    (void)state;
    /* Whatever a test tried, the genuine parcel is new and goes through, once. */
    assert_int_equal(pair.b.placed, 0);
    assert_true(sn_delivery_is_idle(pair.b.delivery));
    assert_int_equal(input(&pair.b, APP, genuine, genuine_size), SN_OK);
    assert_int_equal(pair.b.placed, 1);
    assert_false(sn_delivery_is_idle(pair.b.delivery));
    (void)pair_settle(&pair, NOW); /* the time does not matter */
    assert_int_equal(pair.a.records[0].outcome, SN_DELIVERED);
    pair_fini(&pair);
    assert_int_equal(sn_alloc_in_use(), 0);
    return 0;
}

static uint64_t refused(const struct sn_delivery_stats *stats)
{
    return stats->refused_form + stats->refused_address + stats->refused_auth +
           stats->refused_replay + stats->refused_gap + stats->refused_body;
}

static struct sn_delivery_stats stats_of(const struct node *node)
{
    struct sn_delivery_stats stats;
    sn_delivery_stats(node->delivery, &stats);
    return stats;
}

static void every_altered_byte(void **state)
{
    (void)state;
    uint64_t tried = 0;
    for (uint32_t i = 0; i < genuine_size; i++) {
        if (i == SN_PARCEL_HOPS_AT) continue;
        for (unsigned bit = 0; bit < 8; bit += 7) {
            altered[i] ^= (uint8_t)(1u << bit);
            enum sn_err err = input(&pair.b, APP, altered, genuine_size);
            assert_true(err == SN_EINVAL || err == SN_EMISMATCH || err == SN_EAUTH ||
                        err == SN_EAGAIN || err == SN_EREPLAY);
            altered[i] ^= (uint8_t)(1u << bit);
            tried++;
            assert_true(sn_delivery_is_idle(pair.b.delivery));
        }
    }
    struct sn_delivery_stats stats = stats_of(&pair.b);
    assert_int_equal(refused(&stats), tried);
    assert_int_equal(stats.refused_replay, 0);
}

static void other_sizes(void **state)
{
    (void)state;
    for (uint32_t size = 0; size < genuine_size; size++)
        assert_int_equal(input(&pair.b, APP, genuine, size), SN_EINVAL);
    assert_int_equal(input(&pair.b, APP, genuine, genuine_size + 1), SN_EINVAL);
    assert_int_equal(input(&pair.b, APP, genuine, SN_PARCEL_BYTES_MAX), SN_EINVAL);
    assert_int_equal(stats_of(&pair.b).refused_form, genuine_size + 2);
}

static void readdressed(void **state)
{
    (void)state;
    assert_int_equal(input(&pair.b, SN_CLASS_CONTROL, genuine, genuine_size), SN_EMISMATCH);
    assert_int_equal(input(&pair.a, APP, genuine, genuine_size), SN_EMISMATCH); /* reflected */
    struct pair others;
    pair_init(&others, 99, NULL);
    pair_up(&others, NOW);
    assert_int_equal(input(&others.b, APP, genuine, genuine_size), SN_EMISMATCH);
    pair_fini(&others);
    assert_int_equal(stats_of(&pair.b).refused_address, 1);
    assert_int_equal(stats_of(&pair.a).refused_address, 1);
    assert_int_equal(pair.b.placed, 0);
}

/* A parcel that `from` signs and seals, whatever it says. */
static uint32_t forge(struct node *from, const struct node *to, int is_ack_only, uint64_t sequence,
                      const void *body, uint32_t body_size)
{
    struct sn_seal *seal;
    uint32_t size;
    struct sn_parcel_header header = {
        .class_id = APP,
        .is_ack_only = (uint8_t)is_ack_only,
        .source = from->end.id,
        .destination = to->end.id,
        .source_epoch = from->end.epoch,
        .destination_epoch = to->end.epoch,
        .sequence = sequence,
    };
    static const uint8_t nonce[SN_SEAL_NONCE_BYTES] = {9};
    assert_int_equal(sn_seal_new(from->boot_key, &from->end, &to->end, &seal), SN_OK);
    memcpy(altered + SN_PARCEL_BODY_AT, body, body_size);
    assert_int_equal(sn_parcel_make(&header, seal, from->key, nonce, altered, body_size, &size),
                     SN_OK);
    sn_seal_free(seal);
    return size;
}

static void by_a_stranger_with_a_future_or_past_sequence(void **state)
{
    (void)state;
    static const uint64_t sequences[] = {1, 2, 1000, UINT64_MAX};
    struct node stranger = pair.a;
    uint8_t seed[32] = {77};
    assert_int_equal(sn_key_from_seed(seed, &stranger.key), SN_OK); /* but not a's key */
    for (unsigned i = 0; i < SN_ARRAY_COUNT(sequences); i++) {
        for (int is_ack_only = 0; is_ack_only < 2; is_ack_only++) {
            uint32_t size = forge(&stranger, &pair.b, is_ack_only, sequences[i], "\x81\x03\x01", 3);
            enum sn_err err = input(&pair.b, APP, altered, size);
            assert_int_equal(err, !is_ack_only && sequences[i] > 1 ? SN_EAGAIN : SN_EAUTH);
            assert_true(sn_delivery_is_idle(pair.b.delivery));
        }
    }
    sn_key_free(stranger.key);
    assert_int_equal(stats_of(&pair.b).refused_auth, 5);
}

static void from_another_boot(void **state)
{
    (void)state;
    struct node former = pair.a;
    former.end.epoch--;
    uint32_t size = forge(&former, &pair.b, 0, 1, "\x81\x03\x01", 3);
    assert_int_equal(input(&pair.b, APP, altered, size), SN_EMISMATCH);
    struct node target = pair.b;
    target.end.epoch++;
    size = forge(&pair.a, &target, 0, 1, "\x81\x03\x01", 3);
    assert_int_equal(input(&pair.b, APP, altered, size), SN_EMISMATCH);
    assert_int_equal(stats_of(&pair.b).refused_address, 2);
}

#define NAMES                                                                                      \
    "\x02\xa4"                                                                                     \
    "echo\x03\xa1"                                                                                 \
    "m\x04\xa1"                                                                                    \
    "t"
#define BYTES(text) text, sizeof text - 1

static void authentic_but_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        uint32_t size;
        int is_ack_only;
    } cases[] = {
        {BYTES(""), 0},
        {BYTES("\x81\x03\x01"), 0},                           /* no messages */
        {BYTES("\x82\x03\x01\x04\x92\x83" NAMES "\x83"), 0},  /* the second is cut off */
        {BYTES("\x82\x03\x02\x04\x91\x83" NAMES), 0},         /* base beyond the sequence */
        {BYTES("\x83\x01\x01\x03\x01\x04\x91\x83" NAMES), 0}, /* acknowledges what is not sent */
        {BYTES("\x82\x03\x01\x04\x92\x83" NAMES "\x83\x02\x92\x00" /* same name twice */
               "\xa1"
               "a\x03\x92\x01\xa1"
               "a\x04\x00"),
         0},
        {BYTES("\x81\x03\x01"), 1},                           /* acknowledges nothing */
        {BYTES("\x83\x01\x00\x03\x01\x04\x91\x83" NAMES), 1}, /* must not carry messages */
        {BYTES("\x82\x01\x01\x03\x01"), 1},                   /* acknowledges what is not sent */
        {BYTES("\x82\x01\x00\x03\x02"), 1},                   /* base */
    };
    for (unsigned i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        uint32_t size =
            forge(&pair.a, &pair.b, cases[i].is_ack_only, 1, cases[i].body, cases[i].size);
        assert_int_equal(input(&pair.b, APP, altered, size), SN_EPROTO);
        assert_int_equal(pair.b.placed, 0);
        assert_int_equal(stats_of(&pair.b).refused_body, i + 1);
    }
}

static void an_acknowledgement_that_names_no_letter(void **state)
{
    (void)state;
    /* The parcel in flight has one letter, and b says that its second was refused. */
    static const char body[] = "\x83\x01\x01\x03\x01\x02\x91\x92\x01\x92\x01\x01";
    uint32_t size = forge(&pair.b, &pair.a, 1, 1, body, sizeof body - 1);
    assert_int_equal(input(&pair.a, APP, altered, size), SN_EPROTO);
    assert_int_equal(pair.a.outcomes, 0);
}

static void a_peer_that_never_moves_its_base(void **state)
{
    (void)state;
    struct pair other;
    pair_init(&other, 5, NULL);
    pair_up(&other, NOW);
    uint64_t sequence = 1;
    enum sn_err err = SN_OK;
    for (; err == SN_OK; sequence++) {
        static char body[] = "\x82\x03\x01\x04\x91\x84" NAMES "\x07\xc4\x04\0\0\0";
        other.b.last_placed[APP] = 0; /* the oracle of pair.c is not for this */
        memset(other.a.records, 0, sizeof other.a.records[0]);
        uint32_t size = forge(&other.a, &other.b, 0, sequence, body, sizeof body);
        err = input(&other.b, APP, altered, size);
        assert_true(sequence <= 4097);
    }
    assert_int_equal(err, SN_EPROTO);
    assert_int_equal(sequence - 1, 4097);
    memset(other.a.records, 0, sizeof other.a.records[0]);
    pair_fini(&other);
}

static void repeated(void **state)
{
    (void)state;
    static uint8_t ack[SMALL];
    uint32_t ack_size;
    assert_int_equal(input(&pair.b, APP, genuine, genuine_size), SN_OK);
    assert_int_equal(sn_delivery_output(pair.b.delivery, APP, NOW + MS, ack, &ack_size), SN_OK);
    assert_true(sn_delivery_is_idle(pair.b.delivery));
    /* Repeated and altered: no answer. */
    altered[100] ^= 1;
    assert_int_equal(input(&pair.b, APP, altered, genuine_size), SN_EAUTH);
    assert_true(sn_delivery_is_idle(pair.b.delivery));
    /* Repeated as it was: answered again, not placed again. */
    assert_int_equal(input(&pair.b, APP, genuine, genuine_size), SN_EREPLAY);
    assert_false(sn_delivery_is_idle(pair.b.delivery));
    assert_int_equal(pair.b.placed, 1);
    assert_int_equal(input(&pair.a, APP, ack, ack_size), SN_OK);
    assert_int_equal(input(&pair.a, APP, ack, ack_size), SN_EREPLAY);
    assert_int_equal(pair.a.outcomes, 1);
    assert_int_equal(stats_of(&pair.a).refused_replay, 1);
    assert_int_equal(stats_of(&pair.b).refused_replay, 1);
    /* After a restart of either side it is for another boot. */
    pair_down(&pair);
    node_restart(&pair.b);
    pair_up(&pair, NOW);
    assert_int_equal(input(&pair.b, APP, genuine, genuine_size), SN_EMISMATCH);
    node_restart(&pair.a);
    pair_up(&pair, NOW);
    assert_int_equal(input(&pair.b, APP, genuine, genuine_size), SN_EMISMATCH);
    assert_int_equal(pair.b.placed, 1);
    pair_fini(&pair);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void before_anybody_is_known(void **state)
{
    (void)state;
    struct sn_delivery *fresh;
    static uint8_t copy[SMALL];
    memcpy(copy, genuine, genuine_size);
    assert_int_equal(sn_delivery_new(&pair.b.config, &fresh), SN_OK);
    assert_int_equal(sn_delivery_input(fresh, APP, copy, genuine_size, NOW), SN_EMISMATCH);
    sn_delivery_free(fresh);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_altered_byte),
        TEST(other_sizes),
        TEST(readdressed),
        TEST(by_a_stranger_with_a_future_or_past_sequence),
        TEST(from_another_boot),
        TEST(authentic_but_malformed),
        TEST(an_acknowledgement_that_names_no_letter),
        TEST(a_peer_that_never_moves_its_base),
        cmocka_unit_test_setup(repeated, setup),
        TEST(before_anybody_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
