/* SPDX-License-Identifier: Apache-2.0 */
/* Codec of the control protocol. Guarantees: unknown keys are skipped; every text is bounded and valid UTF-8. */
#include <string.h>

#include "agents/control.h"
#include "base/assert.h"
#include "sennit/limits.h"

static int is_key(const char *key, size_t size, const char *wanted)
{
    return size == strlen(wanted) && memcmp(key, wanted, size) == 0;
}

static void read_request_field(struct sn_cursor *cursor, struct sn_control_request *request)
{
    size_t size = 0;
    const char *key = sn_cursor_text(cursor, 32, &size);
    if (is_key(key, size, "verb")) {
        sn_cursor_text_copy(cursor, request->verb, sizeof request->verb);
    } else if (is_key(key, size, "to")) {
        sn_cursor_text_copy(cursor, request->to, sizeof request->to);
    } else if (is_key(key, size, "type")) {
        sn_cursor_text_copy(cursor, request->type, sizeof request->type);
    } else if (is_key(key, size, "payload")) {
        request->payload = sn_cursor_bin(cursor, SN_MESSAGE_BYTES_MAX, &request->payload_size);
    } else if (is_key(key, size, "timeout_ms")) {
        request->timeout_ms = sn_cursor_uint(cursor, SN_CONTROL_ASK_TIMEOUT_MAX_MS);
    } else {
        sn_cursor_skip(cursor);
    }
}

enum sn_err sn_control_request_parse(const uint8_t *bytes, size_t size,
                                     struct sn_control_request *out_request)
{
    struct sn_cursor cursor;
    struct sn_control_request request = {.timeout_ms = SN_CONTROL_ASK_TIMEOUT_MS};
    sn_cursor_init(&cursor, bytes, size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        read_request_field(&cursor, &request);
    }
    enum sn_err err = sn_cursor_finish(&cursor);
    if (err != SN_OK) return err;
    if (request.verb[0] == '\0') return SN_EINVAL;
    *out_request = request;
    return SN_OK;
}

enum sn_err sn_control_request_pack(const struct sn_control_request *request,
                                    struct sn_body *out_body)
{
    int is_ask = request->to[0] != '\0';
    sn_body_init(out_body);
    sn_body_map(out_body, is_ask ? 5 : 1);
    sn_body_text(out_body, "verb", request->verb);
    if (is_ask) {
        sn_body_text(out_body, "to", request->to);
        sn_body_text(out_body, "type", request->type);
        sn_body_uint(out_body, "timeout_ms", request->timeout_ms);
        sn_body_key(out_body, "payload");
        sn_body_need(out_body, request->payload_size + 16);
        if (out_body->err == SN_OK) {
            sn_pack_bin(&out_body->pack, request->payload, request->payload_size);
        }
    }
    enum sn_err err = out_body->err;
    if (err != SN_OK) sn_body_fini(out_body);
    return err;
}

enum sn_err sn_control_reply_parse(const uint8_t *bytes, size_t size,
                                   struct sn_control_reply *out_reply)
{
    struct sn_cursor cursor;
    struct sn_control_reply reply = {0};
    sn_cursor_init(&cursor, bytes, size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t key_size = 0;
        const char *key = sn_cursor_text(&cursor, 32, &key_size);
        if (is_key(key, key_size, "err")) {
            uint64_t err = sn_cursor_uint(&cursor, UINT32_MAX);
            reply.err =
                err < SN_ERR_COUNT ? (enum sn_err)err : SN_EIO; /* it is newer than we are */
        } else if (is_key(key, key_size, "text")) {
            sn_cursor_text_copy(&cursor, reply.text, sizeof reply.text);
        } else if (is_key(key, key_size, "body")) {
            reply.body = sn_cursor_raw(&cursor, &reply.body_size);
        } else {
            sn_cursor_skip(&cursor);
        }
    }
    enum sn_err err = sn_cursor_finish(&cursor);
    if (err == SN_OK) *out_reply = reply;
    return err;
}
