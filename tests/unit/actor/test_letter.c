/* SPDX-License-Identifier: Apache-2.0 */
/* Letters, notices, names of reasons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "actor/system.h"
#include "base/alloc.h"
#include "base/assert.h"

static int tear_down(void **state)
{
    (void)state; /* none */
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

static const struct sn_letter_fields plain = {.from_agent = "amsterdam/edge",
                                              .from_actor = "a",
                                              .to_agent = "",
                                              .to_actor = "store",
                                              .type = "put.now",
                                              .payload = "data",
                                              .payload_size = 4};

static void test_names_and_payload_are_copied(void **state)
{
    (void)state;
    char type[] = "put.now", payload[] = "data";
    struct sn_letter_fields fields = plain;
    struct sn_letter *letter;
    fields.type = type;
    fields.payload = payload;
    assert_int_equal(sn_letter_new(&fields, &letter), SN_OK);
    memset(type, 'x', sizeof type - 1);
    memset(payload, 'x', sizeof payload - 1);
    assert_string_equal(letter->from_agent, "amsterdam/edge");
    assert_string_equal(letter->from_actor, "a");
    assert_string_equal(letter->to_agent, "");
    assert_string_equal(letter->to_actor, "store");
    assert_string_equal(letter->type, "put.now");
    assert_memory_equal(letter->payload, "data", 4);
    assert_int_equal(letter->payload_size, 4);
    assert_int_equal(letter->from_ref.id, 0);
    assert_int_equal(letter->wants_outcome, 0);
    assert_int_equal(letter->deadline_ns, 0);
    assert_true(sn_letter_cost(letter) >= sizeof *letter + 4);
    sn_letter_free(letter);
    sn_letter_free(NULL);
}

static void test_slab_is_kept_only_for_large_payloads(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, SN_MESSAGE_COPY_BYTES_MAX, SN_MESSAGE_COPY_BYTES_MAX + 1,
                                     SN_MESSAGE_BYTES_MAX};
    for (size_t i = 0; i < SN_ARRAY_COUNT(sizes); i++) {
        struct sn_buf buf;
        struct sn_letter *letter;
        assert_int_equal(sn_buf_new(SN_MESSAGE_BYTES_MAX, 0, &buf), SN_OK);
        buf.size = sizes[i];
        memset(buf.data, 0x5a, SN_MESSAGE_BYTES_MAX);
        struct sn_letter_fields fields = plain;
        fields.payload = buf.data;
        fields.payload_size = sizes[i];
        fields.slab = &buf;
        assert_int_equal(sn_letter_new(&fields, &letter), SN_OK);
        int is_shared = sizes[i] > SN_MESSAGE_COPY_BYTES_MAX;
        assert_int_equal(sn_buf_is_sole(&buf), !is_shared);
        assert_int_equal(letter->payload == buf.data, is_shared);
        assert_true(sn_letter_cost(letter) >= sizes[i]);
        sn_buf_unref(&buf);
        for (uint32_t at = 0; at < sizes[i]; at++) assert_int_equal(letter->payload[at], 0x5a);
        sn_letter_free(letter);
    }
}

static void test_limits(void **state)
{
    (void)state;
    static char name[SN_ADDR_BYTES_MAX + 2];
    static uint8_t big[SN_MESSAGE_BYTES_MAX + 1];
    struct sn_letter *letter = NULL;
    memset(name, 'n', SN_ADDR_BYTES_MAX + 1);
    struct sn_letter_fields fields = plain;
    struct sn_letter_fields bad[5] = {plain, plain, plain, plain, plain};
    bad[0].from_agent = bad[1].from_actor = bad[2].to_agent = bad[3].to_actor = bad[4].type = name;
    for (size_t i = 0; i < SN_ARRAY_COUNT(bad); i++) {
        assert_int_equal(sn_letter_new(&bad[i], &letter), SN_ETOOBIG);
    }
    fields.payload = big;
    fields.payload_size = sizeof big;
    assert_int_equal(sn_letter_new(&fields, &letter), SN_ETOOBIG);
    assert_null(letter);
    name[SN_ADDR_BYTES_MAX] = '\0';
    fields.payload_size = sizeof big - 1; /* without a slab it is copied whatever its size */
    fields.type = name;
    assert_int_equal(sn_letter_new(&fields, &letter), SN_OK);
    assert_string_equal(letter->type, name);
    sn_letter_free(letter);
}

static void test_letters_without_memory(void **state)
{
    (void)state;
    struct sn_letter *letter = NULL;
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_letter_new(&plain, &letter), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_null(letter);
    struct sn_buf buf;
    assert_int_equal(sn_buf_new(8192, 0, &buf), SN_OK);
    buf.size = 8192;
    memset(buf.data, 0, 8192);
    struct sn_letter_fields fields = plain;
    fields.payload = buf.data;
    fields.payload_size = 8192;
    fields.slab = &buf;
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_letter_new(&fields, &letter), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_true(sn_buf_is_sole(&buf)); /* no reference was kept */
    sn_buf_unref(&buf);
}

static void test_notices(void **state)
{
    (void)state;
    static char text[5000];
    static uint8_t big[SN_MESSAGE_BYTES_MAX + 1];
    struct sn_notice *notice = NULL;
    struct sn_actor_ref to = {3};
    assert_int_equal(sn_notice_new(to, 4, NULL, NULL, NULL, 0, &notice), SN_OK);
    assert_string_equal(notice->event.agent, "");
    assert_string_equal(notice->event.text, "");
    assert_string_equal(notice->event.actor, "");
    assert_string_equal(notice->event.type, "");
    assert_int_equal(notice->event.payload_size, 0);
    assert_int_equal(notice->event.size, sizeof notice->event);
    sn_notice_free(notice);
    assert_int_equal(sn_notice_new(to, 4, "a/b", "text", "abc", 3, &notice), SN_OK);
    assert_int_equal(notice->to.id, 3);
    assert_int_equal(notice->incarnation, 4);
    assert_string_equal(notice->event.agent, "a/b");
    assert_string_equal(notice->event.text, "text");
    assert_memory_equal(notice->event.payload, "abc", 3);
    sn_notice_free(notice);
    notice = NULL;
    memset(text, 't', sizeof text - 1);
    assert_int_equal(sn_notice_new(to, 0, NULL, text, NULL, 0, &notice), SN_ETOOBIG);
    assert_int_equal(sn_notice_new(to, 0, NULL, NULL, big, sizeof big, &notice), SN_ETOOBIG);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_notice_new(to, 0, NULL, NULL, NULL, 0, &notice), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_null(notice);
    sn_notice_free(NULL);
}

static void test_names_of_reasons(void **state)
{
    (void)state;
    assert_string_equal(sn_reason_name(SN_REASON_NONE), "none");
    assert_string_equal(sn_reason_name(SN_REASON_MAILBOX_FULL), "mailbox-full");
    assert_string_equal(sn_reason_name(SN_REASON_NO_AGENT), "no-agent");
    assert_string_equal(sn_reason_name(SN_REASON_COUNT), "unknown-reason");
    assert_string_equal(sn_reason_name((enum sn_reason)255), "unknown-reason");
    for (int i = 0; i < SN_REASON_COUNT; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(sn_reason_name((enum sn_reason)i),
                                    sn_reason_name((enum sn_reason)j));
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, NULL, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_names_and_payload_are_copied),
        TEST(test_slab_is_kept_only_for_large_payloads),
        TEST(test_limits),
        TEST(test_letters_without_memory),
        TEST(test_notices),
        TEST(test_names_of_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
