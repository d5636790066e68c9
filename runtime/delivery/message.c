/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: what the writer writes, the parser takes; what the parser took can be walked again without an
 * error; the parser reads nothing outside the body and keeps nothing of it but names, which are bounded.
 */
#include "delivery/message.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"

enum body_key { KEY_ACKED = 1, KEY_EXCEPTIONS = 2, KEY_BASE = 3, KEY_MESSAGES = 4 };

enum message_key {
    KEY_KIND = 1,
    KEY_TO = 2,
    KEY_FROM = 3,
    KEY_TYPE = 4,
    KEY_CORRELATION = 5,
    KEY_REMAINING = 6,
    KEY_PAYLOAD = 7
};

/* Bytes of a message besides its payload: three names with a handle each (72), numbers and heads. */
#define MESSAGE_OVERHEAD_MAX 280u
#define COUNT_BYTES                                                                                \
    3u /* an array head of fixed width, so that the count can be filled in at the end */
#define ARRAY16_LEAD 0xdcu

_Static_assert(SNI_PARCEL_LETTERS_MAX <= UINT16_MAX, "the count has two bytes");
_Static_assert(SN_LABEL_BYTES_MAX <= SN_TYPE_BYTES_MAX, "one bound serves all names");

/* --- Writing -------------------------------------------------------------------------------------- */

static void write_exceptions(struct sn_pack *pack, const struct sni_ack *ack)
{
    const struct sni_exception *list = ack->exceptions;
    uint32_t groups = 0;
    for (uint32_t i = 0; i < ack->exception_count; i++)
        groups += i == 0 || list[i].sequence != list[i - 1].sequence;
    sn_pack_uint(pack, KEY_EXCEPTIONS);
    sn_pack_array(pack, groups);
    for (uint32_t i = 0, end; i < ack->exception_count; i = end) {
        for (end = i + 1; end < ack->exception_count; end++)
            if (list[end].sequence != list[i].sequence) break;
        sn_pack_array(pack, 2);
        sn_pack_uint(pack, list[i].sequence);
        sn_pack_array(pack, 2 * (end - i));
        for (uint32_t j = i; j < end; j++) {
            sn_pack_uint(pack, list[j].index);
            sn_pack_uint(pack, list[j].reason);
        }
    }
}

void sni_writer_begin(struct sni_writer *writer, uint8_t *data, size_t capacity,
                      const struct sni_ack *ack, uint64_t base, struct sni_names *names,
                      uint64_t now_ns)
{
    *writer = (struct sni_writer){.names = names, .now_ns = now_ns};
    struct sn_pack *pack = &writer->pack;
    sn_pack_init(pack, data, capacity);
    uint32_t keys = 1;
    if (ack != NULL) keys += ack->exception_count > 0 ? 2 : 1;
    if (names != NULL) keys++;
    sn_pack_map(pack, keys);
    if (ack != NULL) {
        sn_pack_key_uint(pack, KEY_ACKED, ack->acked);
        if (ack->exception_count > 0) write_exceptions(pack, ack);
    }
    sn_pack_key_uint(pack, KEY_BASE, base);
    if (names != NULL) {
        static const uint8_t head[COUNT_BYTES] = {ARRAY16_LEAD, 0, 0};
        sn_pack_uint(pack, KEY_MESSAGES);
        writer->count_at = pack->size + 1;
        sn_pack_raw(pack, head, sizeof head);
    }
}

int sni_writer_has_room(const struct sni_writer *writer, const struct sn_letter *letter)
{
    size_t left = writer->pack.capacity - writer->pack.size;
    return letter->payload_size + MESSAGE_OVERHEAD_MAX <= left &&
           writer->message_count < SNI_PARCEL_LETTERS_MAX;
}

static void write_name(struct sni_writer *writer, enum message_key key, const char *text)
{
    struct sn_pack *pack = &writer->pack;
    const struct sni_name **recent = &writer->names->recent[key - KEY_TO];
    sn_pack_uint(pack, key);
    if (*recent != NULL && strcmp((*recent)->text, text) == 0) {
        sn_pack_uint(pack, (*recent)->handle);
        return;
    }
    uint32_t size = (uint32_t)strlen(text);
    const struct sni_name *name = sni_names_find(writer->names, text, size);
    if (name != NULL) {
        sn_pack_uint(pack, name->handle);
    } else if (sni_names_add(writer->names, text, size, &name) == SN_OK) {
        sn_pack_array(pack, 2);
        sn_pack_uint(pack, name->handle);
        sn_pack_text(pack, text, size);
    } else { /* the table, or memory, is full: it still can travel in full */
        sn_pack_text(pack, text, size);
        return;
    }
    *recent = name;
}

static uint64_t remaining_ms(uint64_t deadline_ns, uint64_t now_ns)
{
    if (deadline_ns <= now_ns) return 1;
    uint64_t left_ms = (deadline_ns - now_ns - 1) / 1000000u + 1;
    return left_ms < SNI_REMAINING_MS_MAX ? left_ms : SNI_REMAINING_MS_MAX;
}

void sni_writer_add(struct sni_writer *writer, const struct sn_letter *letter)
{
    struct sn_pack *pack = &writer->pack;
    SN_DEBUG_ASSERT(sni_writer_has_room(writer, letter));
    uint32_t keys = 3;
    keys += letter->kind != SN_LETTER_SEND;
    keys += letter->correlation != 0;
    keys += letter->deadline_ns != 0;
    keys += letter->payload_size != 0;
    sn_pack_map(pack, keys);
    if (letter->kind != SN_LETTER_SEND) sn_pack_key_uint(pack, KEY_KIND, letter->kind);
    write_name(writer, KEY_TO, letter->to_actor);
    write_name(writer, KEY_FROM, letter->from_actor);
    write_name(writer, KEY_TYPE, letter->type);
    if (letter->correlation != 0) sn_pack_key_uint(pack, KEY_CORRELATION, letter->correlation);
    if (letter->deadline_ns != 0)
        sn_pack_key_uint(pack, KEY_REMAINING, remaining_ms(letter->deadline_ns, writer->now_ns));
    if (letter->payload_size != 0)
        sn_pack_key_bin(pack, KEY_PAYLOAD, letter->payload, letter->payload_size);
    writer->message_count++;
}

size_t sni_writer_end(struct sni_writer *writer)
{
    size_t size;
    enum sn_err err = sn_pack_finish(&writer->pack, &size);
    SN_ASSERT(err == SN_OK); /* the limits above leave room for everything */
    if (writer->names != NULL) {
        writer->pack.data[writer->count_at] = (uint8_t)(writer->message_count >> 8);
        writer->pack.data[writer->count_at + 1] = (uint8_t)writer->message_count;
    }
    return size;
}

/* --- Reading -------------------------------------------------------------------------------------- */

static void fail(struct sn_cursor *cursor, enum sn_err err)
{
    if (cursor->err == SN_OK) cursor->err = err;
}

/* As sn_cursor_uint. Nearly all keys and handles are one byte, and these are most of what a small message is: the
 * short way is worth a third of the time of parsing. */
static uint64_t read_uint(struct sn_cursor *cursor, uint64_t max)
{
    int is_short = cursor->err == SN_OK && cursor->at < cursor->end && *cursor->at < 0x80;
    if (is_short && *cursor->at <= max) return *cursor->at++;
    return sn_cursor_uint(cursor, max);
}

/* Which keys of a map were there; a second time is an error. */
static void note_key(struct sn_cursor *cursor, uint32_t *seen, uint64_t key)
{
    if (key >= 32) return;
    if (*seen >> key & 1u) fail(cursor, SN_EPROTO);
    *seen |= UINT32_C(1) << key;
}

static const char *read_handle(struct sn_cursor *cursor, const struct sni_names *names)
{
    uint64_t handle = read_uint(cursor, SN_DELIVERY_HANDLES_MAX);
    if (cursor->err == SN_OK && handle < names->count) return names->at[handle]->text;
    fail(cursor, SN_EPROTO);
    return "";
}

/* `defines`: the first reading, which fills the table; in later ones the handle says it all. */
static const char *read_first_use(struct sn_cursor *cursor, struct sni_names *names, int defines)
{
    size_t size;
    if (sn_cursor_array(cursor) != 2) fail(cursor, SN_EPROTO);
    if (!defines) {
        const char *known = read_handle(cursor, names);
        sn_cursor_skip(cursor);
        return known;
    }
    uint64_t handle = sn_cursor_uint(cursor, SN_DELIVERY_HANDLES_MAX);
    const char *text = sn_cursor_text(cursor, SN_TYPE_BYTES_MAX, &size);
    if (handle != names->count) fail(cursor, SN_EPROTO);
    if (cursor->err != SN_OK) return "";
    if (!sn_type_is_valid(text, size)) {
        fail(cursor, SN_EPROTO);
        return "";
    }
    const struct sni_name *name;
    enum sn_err err = sni_names_add(names, text, (uint32_t)size, &name);
    if (err == SN_OK) return name->text;
    fail(cursor, err == SN_ENOMEM ? SN_ENOMEM : SN_EPROTO);
    return "";
}

static const char *read_name(struct sn_cursor *cursor, struct sni_names *names, int defines,
                             char *text)
{
    int is_short = cursor->at < cursor->end && *cursor->at < 0x80; /* most handles: see read_uint */
    switch (is_short ? SN_WIRE_UINT : sn_cursor_kind(cursor)) {
    case SN_WIRE_UINT: return read_handle(cursor, names);
    case SN_WIRE_ARRAY: return read_first_use(cursor, names, defines);
    default:
        sn_cursor_text_copy(cursor, text, SN_TYPE_BYTES_MAX + 1);
        if (cursor->err == SN_OK && !sn_type_is_valid(text, strlen(text))) fail(cursor, SN_EPROTO);
        return text;
    }
}

static void read_message(struct sn_cursor *cursor, struct sni_names *names, int defines,
                         struct sni_message *message)
{
    const uint32_t needed = 1u << KEY_TO | 1u << KEY_FROM | 1u << KEY_TYPE;
    uint32_t seen = 0;
    size_t size;
    message->kind = SN_LETTER_SEND;
    message->correlation = message->remaining_ms = 0;
    message->payload = NULL;
    message->payload_size = 0;
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        uint64_t key = read_uint(cursor, UINT64_MAX);
        note_key(cursor, &seen, key);
        switch (key) {
        case KEY_KIND: message->kind = (uint8_t)sn_cursor_uint(cursor, SN_LETTER_REPLY); break;
        case KEY_TO: message->to = read_name(cursor, names, defines, message->text[0]); break;
        case KEY_FROM: message->from = read_name(cursor, names, defines, message->text[1]); break;
        case KEY_TYPE: message->type = read_name(cursor, names, defines, message->text[2]); break;
        case KEY_CORRELATION: message->correlation = sn_cursor_uint(cursor, UINT64_MAX); break;
        case KEY_REMAINING:
            message->remaining_ms = sn_cursor_uint(cursor, SNI_REMAINING_MS_MAX);
            break;
        case KEY_PAYLOAD:
            message->payload = sn_cursor_bin(cursor, SN_MESSAGE_BYTES_MAX, &size);
            message->payload_size = (uint32_t)size;
            break;
        default: sn_cursor_skip(cursor); break;
        }
    }
    if ((seen & needed) != needed) fail(cursor, SN_EPROTO);
}

static void parse_messages(struct sn_cursor *cursor, struct sni_names *names, struct sni_body *body)
{
    struct sni_message message;
    uint32_t count = sn_cursor_array(cursor);
    if (count > SNI_PARCEL_LETTERS_MAX) fail(cursor, SN_EPROTO);
    body->messages = *cursor;
    body->message_count = count;
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++)
        read_message(cursor, names, 1, &message);
}

static void parse_group(struct sn_cursor *cursor, struct sni_body *body, uint64_t *last)
{
    if (sn_cursor_array(cursor) != 2) fail(cursor, SN_EPROTO);
    uint64_t sequence = sn_cursor_uint(cursor, UINT64_MAX);
    if (sequence <= *last) fail(cursor, SN_EPROTO);
    *last = sequence;
    uint32_t count = sn_cursor_array(cursor);
    if (count == 0 || count % 2 != 0) fail(cursor, SN_EPROTO);
    uint64_t least = 0;
    for (uint32_t i = 0; i < count / 2 && cursor->err == SN_OK; i++) {
        uint64_t index = sn_cursor_uint(cursor, SNI_PARCEL_LETTERS_MAX - 1);
        uint64_t reason = sn_cursor_uint(cursor, SN_REASON_COUNT - 1);
        if (index < least || reason == SN_REASON_NONE) fail(cursor, SN_EPROTO);
        least = index + 1;
    }
    body->exception_count += count / 2;
    if (body->exception_count > SNI_FLIGHT_LETTERS_MAX) fail(cursor, SN_EPROTO);
}

static void parse_exceptions(struct sn_cursor *cursor, struct sni_body *body, uint64_t *last)
{
    uint32_t count = sn_cursor_array(cursor);
    body->exceptions = *cursor;
    body->group_count = count;
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) parse_group(cursor, body, last);
}

enum sn_err sni_body_parse(const uint8_t *bytes, size_t size, struct sni_names *names,
                           struct sni_body *out_body)
{
    struct sni_body body = {0};
    struct sn_cursor cursor;
    uint32_t seen = 0;
    uint64_t last_exception = 0;
    sn_cursor_init(&cursor, bytes, size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        uint64_t key = sn_cursor_uint(&cursor, UINT64_MAX);
        note_key(&cursor, &seen, key);
        switch (key) {
        case KEY_ACKED: body.acked = sn_cursor_uint(&cursor, UINT64_MAX); break;
        case KEY_EXCEPTIONS: parse_exceptions(&cursor, &body, &last_exception); break;
        case KEY_BASE: body.base = sn_cursor_uint(&cursor, UINT64_MAX); break;
        case KEY_MESSAGES: parse_messages(&cursor, names, &body); break;
        default: sn_cursor_skip(&cursor); break;
        }
    }
    body.has_ack = (seen >> KEY_ACKED & 1u) != 0;
    enum sn_err err = sn_cursor_finish(&cursor);
    if (err != SN_OK) return err == SN_ENOMEM ? SN_ENOMEM : SN_EPROTO;
    /* Without an acknowledgement `acked` is 0, so that exceptions are refused here too. */
    if (last_exception > body.acked || body.base == 0) return SN_EPROTO;
    *out_body = body;
    return SN_OK;
}

void sni_body_next_message(struct sni_body *body, struct sni_names *names,
                           struct sni_message *message)
{
    read_message(&body->messages, names, 0, message);
    SN_ASSERT(body->messages.err == SN_OK); /* it was read before */
}

void sni_exception_walk_init(struct sni_exception_walk *walk, const struct sni_body *body)
{
    *walk = (struct sni_exception_walk){.cursor = body->exceptions, .groups = body->group_count};
}

int sni_exception_walk_next(struct sni_exception_walk *walk)
{
    if (walk->pairs == 0) {
        if (walk->groups == 0) return 0;
        walk->groups--;
        (void)sn_cursor_array(&walk->cursor); /* 2, as checked in the first reading */
        walk->at.sequence = sn_cursor_uint(&walk->cursor, UINT64_MAX);
        walk->pairs = sn_cursor_array(&walk->cursor) / 2;
    }
    walk->pairs--;
    walk->at.index = (uint16_t)sn_cursor_uint(&walk->cursor, SNI_PARCEL_LETTERS_MAX - 1);
    walk->at.reason = (uint8_t)sn_cursor_uint(&walk->cursor, SN_REASON_COUNT - 1);
    SN_ASSERT(walk->cursor.err == SN_OK); /* it was read before */
    return 1;
}
