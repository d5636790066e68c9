/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agents/control.h"
#include "base/alloc.h"
#include "base/text.h"

static void make_ask(struct sn_control_request *request)
{
    *request = (struct sn_control_request){.verb = "ask",
                                           .to = "paris/hub:ping",
                                           .type = "ping.echo",
                                           .payload = (const uint8_t *)"\0\1\2",
                                           .payload_size = 3,
                                           .timeout_ms = 250};
}

static void requests_come_back(void **state)
{
    struct sn_control_request request;
    struct sn_control_request parsed;
    struct sn_body body;
    (void)state;
    make_ask(&request);
    assert_int_equal(sn_control_request_pack(&request, &body), SN_OK);
    assert_int_equal(sn_control_request_parse(body.pack.data, body.pack.size, &parsed), SN_OK);
    assert_string_equal(parsed.verb, "ask");
    assert_string_equal(parsed.to, "paris/hub:ping");
    assert_string_equal(parsed.type, "ping.echo");
    assert_int_equal(parsed.payload_size, 3);
    assert_memory_equal(parsed.payload, "\0\1\2", 3);
    assert_int_equal(parsed.timeout_ms, 250);
    sn_body_fini(&body);

    request = (struct sn_control_request){.verb = "status"};
    assert_int_equal(sn_control_request_pack(&request, &body), SN_OK);
    static const uint8_t golden[] = "\x81\xa4verb\xa6status";
    assert_int_equal(body.pack.size, sizeof golden - 1);
    assert_memory_equal(body.pack.data, golden, sizeof golden - 1);
    assert_int_equal(sn_control_request_parse(body.pack.data, body.pack.size, &parsed), SN_OK);
    assert_string_equal(parsed.verb, "status");
    assert_string_equal(parsed.to, "");
    assert_int_equal(parsed.timeout_ms, SN_CONTROL_ASK_TIMEOUT_MS);
    sn_body_fini(&body);
    assert_int_equal(sn_alloc_in_use(), 0);
}

/* The bytes stand alone on the heap, so that the sanitizer sees a read behind them. */
static enum sn_err parse_copy(const uint8_t *bytes, size_t size)
{
    struct sn_control_request request;
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    if (size > 0) memcpy(copy, bytes, size);
    enum sn_err err = sn_control_request_parse(copy, size, &request);
    free(copy);
    return err;
}

static void truncated_requests_are_refused(void **state)
{
    struct sn_control_request request;
    struct sn_body body;
    (void)state;
    make_ask(&request);
    assert_int_equal(sn_control_request_pack(&request, &body), SN_OK);
    for (size_t size = 0; size < body.pack.size; size++) {
        assert_int_equal(parse_copy(body.pack.data, size), SN_EINVAL);
    }
    assert_int_equal(parse_copy(body.pack.data, body.pack.size), SN_OK);
    sn_body_fini(&body);
}

static enum sn_err parse_hex(const char *hex)
{
    uint8_t bytes[512];
    size_t size = strlen(hex) / 2;
    assert_int_equal(sn_hex_decode(hex, strlen(hex), bytes, size), SN_OK);
    return parse_copy(bytes, size);
}

static void odd_requests(void **state)
{
    (void)state;
    assert_int_equal(parse_hex("80"), SN_EINVAL);                       /* no verb */
    assert_int_equal(parse_hex("81a476657262a0"), SN_EINVAL);           /* an empty one */
    assert_int_equal(parse_hex("81a4766572627b"), SN_EINVAL);           /* a number */
    assert_int_equal(parse_hex("91a161"), SN_EINVAL);                   /* no map */
    assert_int_equal(parse_hex("8101a161"), SN_EINVAL);                 /* a key that is no text */
    assert_int_equal(parse_hex("81a476657262a16100"), SN_EINVAL);       /* more behind it */
    assert_int_equal(parse_hex("82a476657262a161a36e657790"), SN_OK);   /* a key of the future */
    assert_int_equal(parse_hex("81a476657262a3ff6161"), SN_EINVAL);     /* not UTF-8 */
    assert_int_equal(parse_hex("dfffffffff"), SN_EINVAL);               /* hostile counts */
    assert_int_equal(parse_hex("82a476657262a161aa74696d656f75745f6d73" /* more than ten minutes */
                               "ce000927c1"),
                     SN_ETOOBIG);
    assert_int_equal(parse_hex("82a476657262a161aa74696d656f75745f6d73ce000927c0"), SN_OK);
}

static void texts_are_bounded(void **state)
{
    struct sn_control_request request = {.verb = "ask"};
    struct sn_control_request parsed;
    struct sn_body body;
    (void)state;
    memset(request.verb, 'v', sizeof request.verb - 1);
    memset(request.to, 't', sizeof request.to - 1);
    memset(request.type, 'y', sizeof request.type - 1);
    assert_int_equal(sn_control_request_pack(&request, &body), SN_OK);
    assert_int_equal(sn_control_request_parse(body.pack.data, body.pack.size, &parsed), SN_OK);
    assert_memory_equal(parsed.to, request.to, sizeof request.to);
    assert_memory_equal(parsed.type, request.type, sizeof request.type);
    sn_body_fini(&body);
    char name[SN_ADDR_BYTES_MAX + 2];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    sn_body_init(&body);
    sn_body_map(&body, 2);
    sn_body_text(&body, "verb", "ask");
    sn_body_text(&body, "to", name);
    assert_int_equal(sn_control_request_parse(body.pack.data, body.pack.size, &parsed), SN_ETOOBIG);
    sn_body_fini(&body);
}

static void make_reply(struct sn_body *body)
{
    sn_body_init(body);
    sn_body_map(body, 4);
    sn_body_uint(body, "err", SN_ETIMEDOUT);
    sn_body_text(body, "text", "no answer");
    sn_body_uint(body, "extra", 1);
    sn_body_key(body, "body");
    sn_body_map(body, 1);
    sn_body_uint(body, "us", 17);
}

static void replies_come_back(void **state)
{
    struct sn_control_reply reply;
    struct sn_body body;
    (void)state;
    make_reply(&body);
    assert_int_equal(sn_control_reply_parse(body.pack.data, body.pack.size, &reply), SN_OK);
    assert_int_equal(reply.err, SN_ETIMEDOUT);
    assert_string_equal(reply.text, "no answer");
    assert_int_equal(reply.body_size, 5);
    assert_memory_equal(reply.body, "\x81\xa2us\x11", 5);
    for (size_t size = 0; size < body.pack.size; size++) {
        uint8_t *copy = malloc(size == 0 ? 1 : size);
        assert_non_null(copy);
        if (size > 0) memcpy(copy, body.pack.data, size);
        assert_int_not_equal(sn_control_reply_parse(copy, size, &reply), SN_OK);
        free(copy);
    }
    sn_body_fini(&body);
    sn_body_init(&body);
    sn_body_map(&body, 1);
    sn_body_uint(&body, "err", SN_ERR_COUNT); /* an agent that knows more errors than we do */
    assert_int_equal(sn_control_reply_parse(body.pack.data, body.pack.size, &reply), SN_OK);
    assert_int_equal(reply.err, SN_EIO);
    sn_body_fini(&body);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void packing_survives_lack_of_memory(void **state)
{
    struct sn_control_request request;
    struct sn_body body;
    (void)state;
    make_ask(&request);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_control_request_pack(&request, &body), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_int_equal(sn_alloc_in_use(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_back), cmocka_unit_test(truncated_requests_are_refused),
        cmocka_unit_test(odd_requests),       cmocka_unit_test(texts_are_bounded),
        cmocka_unit_test(replies_come_back),  cmocka_unit_test(packing_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
