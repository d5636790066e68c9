/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a parcel: what is written is read back; what nobody writes is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "delivery/message.h"
#include "delivery/parcel.h"

static const uint8_t seed[16] = {1};
static uint8_t body_bytes[SN_PARCEL_BODY_BYTES_MAX]; /* too large for the stack */

struct tables {
    struct sni_names tx, rx;
};

static int setup(void **state)
{
    static struct tables tables;
    sni_names_init(&tables.tx, seed);
    sni_names_init(&tables.rx, seed);
    *state = &tables;
    return 0;
}

static int teardown(void **state)
{
    struct tables *tables = *state;
    sni_names_fini(&tables->tx);
    sni_names_fini(&tables->rx);
    assert_int_equal(sn_alloc_in_use(), 0);
    return 0;
}

static struct sn_letter *letter_new(const char *to, const char *from, const char *type,
                                    const char *payload)
{
    struct sn_letter_fields fields = {.from_agent = "",
                                      .from_actor = from,
                                      .to_agent = "",
                                      .to_actor = to,
                                      .type = type,
                                      .payload = payload,
                                      .payload_size = (uint32_t)strlen(payload)};
    struct sn_letter *letter;
    assert_int_equal(sn_letter_new(&fields, &letter), SN_OK);
    return letter;
}

static void add(struct sni_writer *writer, const char *to, const char *type, const char *payload)
{
    struct sn_letter *letter = letter_new(to, "me", type, payload);
    assert_true(sni_writer_has_room(writer, letter));
    sni_writer_add(writer, letter);
    sn_letter_free(letter);
}

static void begin(struct sni_writer *writer, struct sni_names *names)
{
    sni_writer_begin(writer, body_bytes, sizeof body_bytes, NULL, 1, names, 0);
}

static void messages_come_back(void **state)
{
    struct tables *tables = *state;
    struct sni_writer writer;
    struct sni_body body;
    struct sni_message message;
    struct sn_letter *letter = letter_new("echo", "asker", "echo.say", "hello");
    letter->kind = SN_LETTER_ASK;
    letter->correlation = UINT64_MAX;
    letter->deadline_ns = 5000001;
    sni_writer_begin(&writer, body_bytes, sizeof body_bytes, NULL, 3, &tables->tx, 1000000);
    sni_writer_add(&writer, letter);
    sn_letter_free(letter);
    add(&writer, "echo", "echo.say", "");
    size_t size = sni_writer_end(&writer);
    assert_int_equal(sni_body_parse(body_bytes, size, &tables->rx, &body), SN_OK);
    assert_int_equal(body.message_count, 2);
    assert_int_equal(body.base, 3);
    assert_false(body.has_ack);
    sni_body_next_message(&body, &tables->rx, &message);
    assert_int_equal(message.kind, SN_LETTER_ASK);
    assert_true(message.correlation == UINT64_MAX);
    assert_int_equal(message.remaining_ms, 5); /* 4.000001 rounded up */
    assert_string_equal(message.to, "echo");
    assert_string_equal(message.from, "asker");
    assert_string_equal(message.type, "echo.say");
    assert_int_equal(message.payload_size, 5);
    assert_memory_equal(message.payload, "hello", 5);
    sni_body_next_message(&body, &tables->rx, &message);
    assert_int_equal(message.kind, SN_LETTER_SEND);
    assert_int_equal(message.correlation, 0);
    assert_int_equal(message.remaining_ms, 0);
    assert_string_equal(message.from, "me");
    assert_int_equal(message.payload_size, 0);
}

static void the_second_use_of_a_name_is_short(void **state)
{
    struct tables *tables = *state;
    struct sni_writer writer;
    struct sni_body body;
    size_t sizes[3];
    for (int i = 0; i < 3; i++) {
        begin(&writer, &tables->tx);
        add(&writer, "a-rather-long-name", "a.long.type", "x");
        sizes[i] = sni_writer_end(&writer);
        assert_int_equal(sni_body_parse(body_bytes, sizes[i], &tables->rx, &body), SN_OK);
    }
    assert_true(sizes[1] < sizes[0] - 30);
    assert_int_equal(sizes[1], sizes[2]);
    /* {3: base, 4: [16-bit count, {2: h, 3: h, 4: h, 7: bin 1}]} */
    static const uint8_t golden[] = {0x82, 3, 1, 4, 0xdc, 0, 1,    0x84, 2,
                                     0,    3, 1, 4, 2,    7, 0xc4, 1,    'x'};
    assert_int_equal(sizes[2], sizeof golden);
    assert_memory_equal(body_bytes, golden, sizeof golden);
}

static void a_full_table_sends_names_in_full(void **state)
{
    struct tables *tables = *state;
    struct sni_writer writer;
    struct sni_body body;
    struct sni_message message;
    char name[16];
    for (unsigned done = 0; done < SN_DELIVERY_HANDLES_MAX + 500;) {
        begin(&writer, &tables->tx);
        for (unsigned i = 0; i < 500; i++, done++) {
            snprintf(name, sizeof name, "actor-%u", done);
            add(&writer, name, "t", "x");
        }
        size_t size = sni_writer_end(&writer);
        assert_int_equal(sni_body_parse(body_bytes, size, &tables->rx, &body), SN_OK);
        assert_int_equal(tables->rx.count, tables->tx.count);
        for (unsigned i = done - 500; i < done; i++) {
            snprintf(name, sizeof name, "actor-%u", i);
            sni_body_next_message(&body, &tables->rx, &message);
            assert_string_equal(message.to, name);
            assert_string_equal(message.type, "t");
        }
    }
    assert_int_equal(tables->rx.count, SN_DELIVERY_HANDLES_MAX);
}

static void without_memory_for_a_name_it_travels_in_full(void **state)
{
    struct tables *tables = *state;
    struct sni_writer writer;
    struct sni_body body;
    struct sni_message message;
    struct sn_letter *letter = letter_new("echo", "me", "t", "x");
    for (uint64_t nth = 1; nth < 10; nth++) {
        begin(&writer, &tables->tx);
        sn_alloc_fail_nth(nth);
        sni_writer_add(&writer, letter);
        sn_alloc_fail_nth(0);
        size_t size = sni_writer_end(&writer);
        assert_int_equal(sni_body_parse(body_bytes, size, &tables->rx, &body), SN_OK);
        sni_body_next_message(&body, &tables->rx, &message);
        assert_string_equal(message.to, "echo");
        assert_string_equal(message.from, "me");
        assert_string_equal(message.type, "t");
        sni_names_cut(&tables->tx, 0);
        sni_names_cut(&tables->rx, 0);
    }
    sn_letter_free(letter);
}

static void a_parser_without_memory_takes_nothing(void **state)
{
    struct tables *tables = *state;
    struct sni_writer writer;
    struct sni_body body;
    begin(&writer, &tables->tx);
    add(&writer, "echo", "t", "x");
    size_t size = sni_writer_end(&writer);
    enum sn_err err = SN_ENOMEM;
    uint64_t nth = 0;
    while (err == SN_ENOMEM) {
        sni_names_fini(&tables->rx);
        sni_names_init(&tables->rx, seed);
        sn_alloc_fail_nth(++nth);
        err = sni_body_parse(body_bytes, size, &tables->rx, &body);
        sn_alloc_fail_nth(0);
        if (err != SN_OK) assert_int_equal(err, SN_ENOMEM);
    }
    assert_true(nth > 4);
    assert_int_equal(tables->rx.count, 3);
}

static void acknowledgements_come_back(void **state)
{
    struct tables *tables = *state;
    static const struct sni_exception list[] = {
        {3, 0, SN_REASON_DENIED}, {3, 4095, SN_REASON_MAILBOX_FULL}, {9, 7, SN_REASON_NO_ACTOR}};
    struct sni_ack ack = {.acked = 9, .exceptions = list, .exception_count = 3};
    struct sni_writer writer;
    struct sni_body body;
    struct sni_exception_walk walk;
    sni_writer_begin(&writer, body_bytes, sizeof body_bytes, &ack, 77, NULL, 0);
    size_t size = sni_writer_end(&writer);
    assert_int_equal(sni_body_parse(body_bytes, size, &tables->rx, &body), SN_OK);
    assert_true(body.has_ack);
    assert_int_equal(body.acked, 9);
    assert_int_equal(body.base, 77);
    assert_int_equal(body.message_count, 0);
    assert_int_equal(body.exception_count, 3);
    sni_exception_walk_init(&walk, &body);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(sni_exception_walk_next(&walk));
        assert_int_equal(walk.at.sequence, list[i].sequence);
        assert_int_equal(walk.at.index, list[i].index);
        assert_int_equal(walk.at.reason, list[i].reason);
    }
    assert_false(sni_exception_walk_next(&walk));
}

static void the_largest_acknowledgement_fits(void **state)
{
    struct tables *tables = *state;
    static struct sni_exception list[SNI_FLIGHT_LETTERS_MAX]; /* too large for the stack */
    uint32_t each = SNI_FLIGHT_LETTERS_MAX / SNI_FLIGHT_PARCELS_MAX;
    for (uint32_t i = 0; i < SNI_FLIGHT_LETTERS_MAX; i++)
        list[i] = (struct sni_exception){UINT64_MAX - SNI_FLIGHT_PARCELS_MAX + i / each,
                                         (uint16_t)(4000 + i % each), SN_REASON_DENIED};
    struct sni_ack ack = {UINT64_MAX, list, SNI_FLIGHT_LETTERS_MAX};
    struct sni_writer writer;
    struct sni_body body;
    sni_writer_begin(&writer, body_bytes, sizeof body_bytes, &ack, UINT64_MAX, NULL, 0);
    size_t size = sni_writer_end(&writer); /* asserts that it fits */
    assert_int_equal(sni_body_parse(body_bytes, size, &tables->rx, &body), SN_OK);
    assert_int_equal(body.exception_count, SNI_FLIGHT_LETTERS_MAX);
}

static void a_parcel_is_filled_to_the_brim_and_no_further(void **state)
{
    struct tables *tables = *state;
    struct sni_writer writer;
    char *payload = malloc(SN_MESSAGE_BYTES_MAX + 1);
    assert_non_null(payload);
    memset(payload, 'x', SN_MESSAGE_BYTES_MAX);
    payload[SN_MESSAGE_BYTES_MAX] = '\0';
    struct sn_letter *large = letter_new("a", "b", "c", payload);
    struct sn_letter *small = letter_new("a", "b", "c", "");
    begin(&writer, &tables->tx);
    assert_true(sni_writer_has_room(&writer, large));
    sni_writer_add(&writer, large);
    assert_false(sni_writer_has_room(&writer, large));
    uint32_t count = 1;
    for (; sni_writer_has_room(&writer, small); count++) sni_writer_add(&writer, small);
    assert_int_equal(count, SNI_PARCEL_LETTERS_MAX);
    assert_true(sni_writer_end(&writer) <= sizeof body_bytes);
    sn_letter_free(large);
    sn_letter_free(small);
    free(payload);
}

struct malformed {
    const char *why;
    const char *bytes;
    size_t size;
};
#define BYTES(text) text, sizeof text - 1

static void check_refused(struct tables *tables, const struct malformed *cases, size_t count)
{
    struct sni_body body;
    for (size_t i = 0; i < count; i++) {
        enum sn_err err =
            sni_body_parse((const uint8_t *)cases[i].bytes, cases[i].size, &tables->rx, &body);
        if (err != SN_EPROTO) fail_msg("taken: %s (%d)", cases[i].why, (int)err);
        sni_names_cut(&tables->rx, 0);
    }
}

static void malformed_bodies_are_refused(void **state)
{
    struct tables *tables = *state;
    static const struct malformed cases[] = {
        {"empty", BYTES("")},
        {"no map", BYTES("\x01")},
        {"no base", BYTES("\x80")},
        {"base 0", BYTES("\x81\x03\x00")},
        {"trailing byte", BYTES("\x81\x03\x01\x00")},
        {"base twice", BYTES("\x82\x03\x01\x03\x01")},
        {"negative base", BYTES("\x81\x03\xff")},
        {"more messages announced than bytes", BYTES("\x82\x03\x01\x04\xdd\xff\xff\xff\xff")},
        {"message is no map", BYTES("\x82\x03\x01\x04\x91\x01")},
        {"message without names", BYTES("\x82\x03\x01\x04\x91\x80")},
        {"handle that was never given", BYTES("\x82\x03\x01\x04\x91\x83\x02\x00\x03\x00\x04\x00")},
        {"first handle is not 0", BYTES("\x82\x03\x01\x04\x91\x83\x02\x92\x01\xa1"
                                        "a\x03\xa1"
                                        "b\x04\xa1"
                                        "c")},
        {"same name given twice", BYTES("\x82\x03\x01\x04\x91\x83\x02\x92\x00\xa1"
                                        "a\x03\x92\x01\xa1"
                                        "a\x04\xa1"
                                        "c")},
        {"NUL in a name", BYTES("\x82\x03\x01\x04\x91\x83\x02\xa1\x00\x03\xa1"
                                "b\x04\xa1"
                                "c")},
        {"not UTF-8", BYTES("\x82\x03\x01\x04\x91\x83\x02\xa1\xff\x03\xa1"
                            "b\x04\xa1"
                            "c")},
        {"kind 3", BYTES("\x82\x03\x01\x04\x91\x84\x01\x03\x02\xa1"
                         "a\x03\xa1"
                         "b\x04\xa1"
                         "c")},
        {"payload as text", BYTES("\x82\x03\x01\x04\x91\x84\x02\xa1"
                                  "a\x03\xa1"
                                  "b\x04\xa1"
                                  "c\x07\xa1x")},
        {"payload longer than the body", BYTES("\x82\x03\x01\x04\x91\x84\x02\xa1"
                                               "a\x03\xa1"
                                               "b\x04\xa1"
                                               "c\x07\xc6\xff\xff\xff\xff")},
        {"remaining time too long", BYTES("\x82\x03\x01\x04\x91\x84\x02\xa1"
                                          "a\x03\xa1"
                                          "b\x04\xa1"
                                          "c\x06\xcf\xff\xff\xff\xff\xff\xff\xff\xff")},
        {"exceptions without acked", BYTES("\x82\x03\x01\x02\x91\x92\x01\x92\x00\x01")},
        {"exception beyond acked", BYTES("\x83\x01\x01\x03\x01\x02\x91\x92\x02\x92\x00\x01")},
        {"exception for sequence 0", BYTES("\x83\x01\x01\x03\x01\x02\x91\x92\x00\x92\x00\x01")},
        {"exception without a reason", BYTES("\x83\x01\x01\x03\x01\x02\x91\x92\x01\x92\x00\x00")},
        {"unknown reason", BYTES("\x83\x01\x01\x03\x01\x02\x91\x92\x01\x92\x00\x0b")},
        {"odd list", BYTES("\x83\x01\x01\x03\x01\x02\x91\x92\x01\x91\x00")},
        {"empty list", BYTES("\x83\x01\x01\x03\x01\x02\x91\x92\x01\x90")},
        {"indexes not ascending",
         BYTES("\x83\x01\x01\x03\x01\x02\x91\x92\x01\x94\x01\x01\x01\x01")},
        {"sequences not ascending",
         BYTES("\x83\x01\x02\x03\x01\x02\x92\x92\x01\x92\x01\x01\x92\x01\x92\x02\x01")},
    };
    check_refused(tables, cases, SN_ARRAY_COUNT(cases));
}

/* Handlers and logs see names of actors and types only, whatever a peer signs. */
static void names_that_are_none_are_refused(void **state)
{
    struct tables *tables = *state;
    static const struct malformed cases[] = {
        {"a space in a name", BYTES("\x82\x03\x01\x04\x91\x83\x02\xa3"
                                    "a b\x03\xa1"
                                    "b\x04\xa1"
                                    "c")},
        {"a quote in a name that gets a handle", BYTES("\x82\x03\x01\x04\x91\x83\x02\x92\x00\xa3"
                                                       "a\"b\x03\xa1"
                                                       "b\x04\xa1"
                                                       "c")},
        {"a line end in a type", BYTES("\x82\x03\x01\x04\x91\x83\x02\xa1"
                                       "a\x03\xa1"
                                       "b\x04\xa3"
                                       "c\nd")},
        {"an empty name", BYTES("\x82\x03\x01\x04\x91\x83\x02\xa1"
                                "a\x03\xa0\x04\xa1"
                                "c")},
    };
    check_refused(tables, cases, SN_ARRAY_COUNT(cases));
}

static void unknown_keys_are_skipped(void **state)
{
    struct tables *tables = *state;
    static const char bytes[] = "\x84\x03\x01\x09\x92\x01\x81\x02\x03\xcd\x01\x00\xa1z\x04\x91"
                                "\x84\x02\xa1"
                                "a\x03\xa1"
                                "b\x1f\x93\x01\x02\x03\x04\xa1"
                                "c";
    struct sni_body body;
    struct sni_message message;
    assert_int_equal(sni_body_parse((const uint8_t *)bytes, sizeof bytes - 1, &tables->rx, &body),
                     SN_OK);
    assert_int_equal(body.message_count, 1);
    sni_body_next_message(&body, &tables->rx, &message);
    assert_string_equal(message.to, "a");
    assert_string_equal(message.from, "b");
    assert_string_equal(message.type, "c");
}

static void too_many_messages_are_refused(void **state)
{
    struct tables *tables = *state;
    struct sni_body body;
    uint8_t *at = body_bytes;
    static const uint8_t head[] = {0x82, 3, 1, 4, 0xdc, 0x10, 0x01}; /* 4,097 */
    static const uint8_t first[] = {0x83, 2, 0x92, 0, 0xa1, 'a', 3, 0, 4, 0};
    static const uint8_t other[] = {0x83, 2, 0, 3, 0, 4, 0};
    memcpy(at, head, sizeof head);
    at += sizeof head;
    memcpy(at, first, sizeof first);
    at += sizeof first;
    for (unsigned i = 0; i < SNI_PARCEL_LETTERS_MAX; i++, at += sizeof other)
        memcpy(at, other, sizeof other);
    size_t size = (size_t)(at - body_bytes);
    assert_int_equal(sni_body_parse(body_bytes, size, &tables->rx, &body), SN_EPROTO);
    sni_names_cut(&tables->rx, 0);
    body_bytes[6] = 0; /* 4,096 */
    assert_int_equal(sni_body_parse(body_bytes, size - sizeof other, &tables->rx, &body), SN_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_come_back),
        TEST(the_second_use_of_a_name_is_short),
        TEST(a_full_table_sends_names_in_full),
        TEST(without_memory_for_a_name_it_travels_in_full),
        TEST(a_parser_without_memory_takes_nothing),
        TEST(acknowledgements_come_back),
        TEST(the_largest_acknowledgement_fits),
        TEST(a_parcel_is_filled_to_the_brim_and_no_further),
        TEST(malformed_bodies_are_refused),
        TEST(names_that_are_none_are_refused),
        TEST(unknown_keys_are_skipped),
        TEST(too_many_messages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
