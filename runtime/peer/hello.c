/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: nothing longer than the limits is taken; unknown fields are skipped; a missing or repeated one
 * is an error (a refusal may leave out what it does not say). */
#include "peer/hello.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "wire/cursor.h"
#include "wire/pack.h"

enum hello_key {
    HELLO_VERSION = 0,
    HELLO_MESH = 1,
    HELLO_AGENT = 2,
    HELLO_ID = 3,
    HELLO_EPOCH = 4,
    HELLO_NONCE = 5,
    HELLO_BOOT = 6,
    HELLO_LANE = 7,
    HELLO_SESSION = 8,
    HELLO_WALL = 9,
    HELLO_KEYS = 10
};

enum refusal_key { REFUSAL_REASON = 0, REFUSAL_EPOCH = 1, REFUSAL_TEXT = 2, REFUSAL_KEYS = 3 };

static const char auth_label[] = "sennit hello 1";

enum sn_err sn_hello_encode(const struct sn_hello *hello, uint8_t *out, size_t capacity,
                            size_t *out_size)
{
    struct sn_pack pack;
    sn_pack_init(&pack, out, capacity);
    sn_pack_map(&pack, HELLO_KEYS);
    sn_pack_key_uint(&pack, HELLO_VERSION, hello->version);
    sn_pack_key_text(&pack, HELLO_MESH, hello->mesh);
    sn_pack_key_text(&pack, HELLO_AGENT, hello->agent);
    sn_pack_key_bin(&pack, HELLO_ID, hello->id.bytes, sizeof hello->id.bytes);
    sn_pack_key_uint(&pack, HELLO_EPOCH, hello->epoch);
    sn_pack_key_bin(&pack, HELLO_NONCE, hello->nonce, sizeof hello->nonce);
    sn_pack_key_bin(&pack, HELLO_BOOT, hello->boot_public, sizeof hello->boot_public);
    sn_pack_key_uint(&pack, HELLO_LANE, hello->lane);
    sn_pack_key_uint(&pack, HELLO_SESSION, hello->session);
    sn_pack_uint(&pack, HELLO_WALL);
    sn_pack_int(&pack, hello->wall_ms);
    return sn_pack_finish(&pack, out_size);
}

/* Reads the value of `key`; returns the bit of the field, 0 for unknown ones. */
static uint32_t read_hello_field(struct sn_cursor *cursor, uint64_t key, struct sn_hello *hello)
{
    switch (key) {
    case HELLO_VERSION: hello->version = (uint32_t)sn_cursor_uint(cursor, UINT32_MAX); break;
    case HELLO_MESH: sn_cursor_text_copy(cursor, hello->mesh, sizeof hello->mesh); break;
    case HELLO_AGENT: sn_cursor_text_copy(cursor, hello->agent, sizeof hello->agent); break;
    case HELLO_ID: sn_cursor_bin_copy(cursor, hello->id.bytes, sizeof hello->id.bytes); break;
    case HELLO_EPOCH: hello->epoch = sn_cursor_uint(cursor, INT64_MAX); break;
    case HELLO_NONCE: sn_cursor_bin_copy(cursor, hello->nonce, sizeof hello->nonce); break;
    case HELLO_BOOT:
        sn_cursor_bin_copy(cursor, hello->boot_public, sizeof hello->boot_public);
        break;
    case HELLO_LANE: hello->lane = (uint32_t)sn_cursor_uint(cursor, 8); break;
    case HELLO_SESSION: hello->session = sn_cursor_uint(cursor, UINT64_MAX); break;
    case HELLO_WALL: hello->wall_ms = sn_cursor_int(cursor); break;
    default: sn_cursor_skip(cursor); return 0;
    }
    return 1u << key;
}

enum sn_err sn_hello_decode(const uint8_t *bytes, size_t size, struct sn_hello *out_hello)
{
    struct sn_cursor cursor;
    struct sn_hello hello = {0};
    uint32_t seen = 0;
    if (size > SN_HELLO_BYTES_MAX) return SN_ETOOBIG;
    sn_cursor_init(&cursor, bytes, size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        uint32_t bit = read_hello_field(&cursor, sn_cursor_uint(&cursor, UINT32_MAX), &hello);
        if ((seen & bit) != 0) return SN_EINVAL;
        seen |= bit;
    }
    enum sn_err err = sn_cursor_finish(&cursor);
    if (err != SN_OK) return SN_EINVAL;
    if ((seen & 1u) != 0 && hello.version != SN_PROTOCOL_VERSION) {
        *out_hello = hello;
        return SN_EVERSION;
    }
    if (seen != (1u << HELLO_KEYS) - 1) return SN_EINVAL;
    if (!sn_label_is_valid(hello.mesh, strlen(hello.mesh))) return SN_EINVAL;
    if (!sn_agent_name_is_valid(hello.agent, strlen(hello.agent))) return SN_EINVAL;
    if (hello.epoch == 0) return SN_EINVAL;
    *out_hello = hello;
    return SN_OK;
}

int64_t sn_hello_clock_offset_ms(const struct sn_hello *hello, int64_t wall_ms)
{
    if (wall_ms > 0 && hello->wall_ms < INT64_MIN + wall_ms) return INT64_MIN;
    if (wall_ms < 0 && hello->wall_ms > INT64_MAX + wall_ms) return INT64_MAX;
    return hello->wall_ms - wall_ms;
}

enum sn_err sn_refusal_encode(const struct sn_refusal *refusal, uint8_t *out, size_t capacity,
                              size_t *out_size)
{
    struct sn_pack pack;
    sn_pack_init(&pack, out, capacity);
    sn_pack_map(&pack, REFUSAL_KEYS);
    sn_pack_key_uint(&pack, REFUSAL_REASON, (uint64_t)refusal->reason);
    sn_pack_key_uint(&pack, REFUSAL_EPOCH, refusal->need_epoch);
    sn_pack_key_text(&pack, REFUSAL_TEXT, refusal->text);
    return sn_pack_finish(&pack, out_size);
}

/* As read_hello_field. */
static uint32_t read_refusal_field(struct sn_cursor *cursor, uint64_t key,
                                   struct sn_refusal *refusal)
{
    switch (key) {
    case REFUSAL_REASON: refusal->reason = (enum sn_err)sn_cursor_uint(cursor, 255); break;
    case REFUSAL_EPOCH: refusal->need_epoch = sn_cursor_uint(cursor, INT64_MAX); break;
    case REFUSAL_TEXT: sn_cursor_text_copy(cursor, refusal->text, sizeof refusal->text); break;
    default: sn_cursor_skip(cursor); return 0;
    }
    return 1u << key;
}

enum sn_err sn_refusal_decode(const uint8_t *bytes, size_t size, struct sn_refusal *out_refusal)
{
    struct sn_cursor cursor;
    struct sn_refusal refusal = {.reason = SN_EDENIED};
    uint32_t seen = 0;
    if (size > SN_HELLO_BYTES_MAX) return SN_ETOOBIG;
    sn_cursor_init(&cursor, bytes, size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        uint32_t bit = read_refusal_field(&cursor, sn_cursor_uint(&cursor, UINT32_MAX), &refusal);
        if ((seen & bit) != 0) return SN_EINVAL;
        seen |= bit;
    }
    if (sn_cursor_finish(&cursor) != SN_OK) return SN_EINVAL;
    if (refusal.reason == SN_OK || refusal.reason >= SN_ERR_COUNT) refusal.reason = SN_EDENIED;
    *out_refusal = refusal;
    return SN_OK;
}

#define AUTH_BYTES (sizeof auth_label + 1 + 2 * SN_DIGEST_BYTES + 32)

static void auth_message(const struct sn_auth_input *input, uint8_t out[AUTH_BYTES])
{
    uint8_t *at = out;
    memcpy(at, auth_label, sizeof auth_label);
    at += sizeof auth_label;
    *at++ = input->is_dialer ? 'd' : 'l';
    memcpy(at, input->signer_hello, SN_DIGEST_BYTES);
    at += SN_DIGEST_BYTES;
    memcpy(at, input->other_hello, SN_DIGEST_BYTES);
    at += SN_DIGEST_BYTES;
    memcpy(at, input->exporter, 32);
    SN_ASSERT(at + 32 == out + AUTH_BYTES);
}

enum sn_err sn_auth_sign(const struct sn_key *key, const struct sn_auth_input *input,
                         uint8_t out_signature[SN_SIGNATURE_BYTES])
{
    uint8_t message[AUTH_BYTES];
    auth_message(input, message);
    return sn_key_sign(key, message, sizeof message, out_signature);
}

enum sn_err sn_auth_verify(const struct sn_key_id *id, const struct sn_auth_input *input,
                           const uint8_t signature[SN_SIGNATURE_BYTES])
{
    uint8_t message[AUTH_BYTES];
    auth_message(input, message);
    return sn_key_verify(id, message, sizeof message, signature);
}
