/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call. Guarantees: nothing is sent that is no JSON; what is printed is one JSON value, whatever the actor answered,
 * and nothing in it can move the cursor of a terminal; a question without an answer says why, and what to do about
 * it.
 */
#include <stdio.h>
#include <string.h>

#include "agents/cli.h"
#include "agents/identity.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "sennit/actor.h"
#include "wire/json.h"

#define EXPANSION 8u /* a byte of an answer is at most so many of JSON, as in cli_print.c */
#define ROOM      512u

enum { OPT_CONFIG, OPT_TIMEOUT, OPT_JSON, OPT_COUNT };

struct call {
    struct sn_cli *cli;
    const char *to;
    struct sn_addr_parts parts; /* of `to` */
    char *file;                 /* what @FILE had in it; freed with file_size + 1 */
    size_t file_size;
    int as_json;
    struct sn_control_client client;
    struct sn_control_request request;
};

/* --- The answer ------------------------------------------------------------------------------------- */

/* SN_OK when the bytes are one JSON value that is nested no deeper than messages are. */
static enum sn_err check_json(const char *bytes, size_t size)
{
    struct sn_pack pack;
    size_t capacity = 3 * size + 64; /* as for `forwards`, in cmd_view.c */
    uint8_t *room = sn_alloc_raw(capacity);
    if (room == NULL) return SN_ENOMEM;
    sn_pack_init(&pack, room, capacity);
    enum sn_err err = sn_json_to_msgpack(bytes, size, &pack);
    sn_free(room, capacity);
    return err;
}

static int is_control(uint8_t byte)
{
    return byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r';
}

static int is_plain_text(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (is_control((uint8_t)bytes[i])) return 0;
    }
    return sn_utf8_is_valid(bytes, size);
}

/* The value as it stands, but DEL and the second set of control characters, which JSON allows in strings and terminals
 * obey, as escapes that mean the same. */
static void add_value(struct sn_text *text, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        uint8_t next = i + 1 < size ? (uint8_t)bytes[i + 1] : 0;
        if (byte == 0x7f) {
            sn_text_add(text, "\\u007f");
        } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
            sn_text_add(text, "\\u%04x", next);
            i++;
        } else {
            sn_text_add_bytes(text, bytes + i, 1);
        }
    }
}

static void add_base64(struct sn_text *text, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t have = size - i < 3 ? size - i : 3;
        uint32_t group = (uint32_t)bytes[i] << 16;
        if (have > 1) group |= (uint32_t)bytes[i + 1] << 8;
        if (have > 2) group |= bytes[i + 2];
        char out[4] = {digits[group >> 18], digits[group >> 12 & 63], '=', '='};
        if (have > 1) out[2] = digits[group >> 6 & 63];
        if (have > 2) out[3] = digits[group & 63];
        sn_text_add_bytes(text, out, sizeof out);
    }
}

/* A payload as one JSON value. Few texts are also msgpack, and msgpack is hardly ever a text of printable characters,
 * so that such a text is taken for what it looks like. Errors: ENOMEM. */
static enum sn_err add_payload(struct sn_text *text, const uint8_t *payload, size_t size)
{
    struct sn_text inner;
    const char *bytes = (const char *)payload;
    size_t capacity = size * EXPANSION + ROOM;
    if (size == 0) {
        sn_text_add(text, "null");
        return SN_OK;
    }
    char *data = sn_alloc_raw(capacity);
    if (data == NULL) return SN_ENOMEM;
    sn_text_init(&inner, data, capacity);
    enum sn_err err = check_json(bytes, size);
    if (err == SN_OK) {
        sn_text_add_bytes(&inner, bytes, size);
    } else if (err != SN_ENOMEM && !is_plain_text(bytes, size) &&
               sn_json_from_msgpack(payload, size, &inner) == SN_OK) {
        err = SN_OK;
    } else if (err != SN_ENOMEM && sn_utf8_is_valid(bytes, size)) {
        sn_text_add(&inner, "{\"text\":");
        sn_text_add_json(&inner, bytes, size);
        sn_text_add(&inner, "}");
    } else if (err != SN_ENOMEM) {
        sn_text_add(&inner, "{\"base64\":\"");
        add_base64(&inner, payload, size);
        sn_text_add(&inner, "\"}");
    }
    while (inner.size > 0 && strchr(" \t\r\n", inner.data[inner.size - 1]) != NULL) inner.size--;
    if (err != SN_ENOMEM) add_value(text, inner.data, inner.size);
    sn_free(data, capacity);
    return err == SN_ENOMEM ? err : SN_OK;
}

/* The type of the answer in the body of an `ask`; "" when there is none. */
static void read_type(const struct sn_control_reply *reply, char out[SN_TYPE_BYTES_MAX + 1])
{
    struct sn_cursor cursor;
    out[0] = '\0';
    sn_cursor_init(&cursor, reply->body, reply->body_size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(&cursor, SN_LABEL_BYTES_MAX, &size);
        if (size == 4 && memcmp(key, "type", 4) == 0) {
            sn_cursor_text_copy(&cursor, out, SN_TYPE_BYTES_MAX + 1);
        } else {
            sn_cursor_skip(&cursor);
        }
    }
}

static enum sn_err print_answer(const struct call *call, const struct sn_control_reply *reply)
{
    const uint8_t *payload = NULL;
    size_t size = 0;
    uint64_t us = 0;
    char type[SN_TYPE_BYTES_MAX + 1];
    struct sn_text text;
    enum sn_err err = sn_cli_read_answer(reply, &payload, &size, &us);
    if (err != SN_OK) return err;
    read_type(reply, type);
    size_t capacity = size * EXPANSION + 2 * ROOM;
    char *data = sn_alloc_raw(capacity);
    if (data == NULL) return SN_ENOMEM;
    sn_text_init(&text, data, capacity);
    if (call->as_json) {
        sn_text_add(&text, "{\"from\":\"%s\",\"type\":\"%s\",\"us\":%llu,\"payload\":", call->to,
                    type, (unsigned long long)us);
    }
    err = add_payload(&text, payload, size);
    if (err == SN_OK) {
        sn_text_add(&text, "%s\n", call->as_json ? "}" : "");
        SN_ASSERT(!text.truncated);
        sn_env_print(call->cli->env, 0, text.data, text.size);
    }
    sn_free(data, capacity);
    return err;
}

/* --- No answer -------------------------------------------------------------------------------------- */

/* Name of the agent that was asked to ask; "this agent" when it does not say. */
static void own_name(struct call *call, char out[SN_AGENT_NAME_BYTES_MAX + 1])
{
    const struct sn_control_request request = {.verb = "status"};
    struct sn_control_reply reply;
    struct sn_cursor cursor;
    (void)snprintf(out, SN_AGENT_NAME_BYTES_MAX + 1, "this agent"); /* fits */
    if (sn_control_call(&call->client, &request, &reply) != SN_OK || reply.err != SN_OK) return;
    sn_cursor_init(&cursor, reply.body, reply.body_size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(&cursor, SN_LABEL_BYTES_MAX, &size);
        if (size == 5 && memcmp(key, "agent", 5) == 0) {
            sn_cursor_text_copy(&cursor, out, SN_AGENT_NAME_BYTES_MAX + 1);
            return;
        }
        sn_cursor_skip(&cursor);
    }
}

static enum sn_reason reason_of(const struct sn_control_reply *reply)
{
    for (unsigned i = 1; i < SN_REASON_COUNT; i++) {
        if (strcmp(sn_reason_name((enum sn_reason)i), reply->text) == 0) return (enum sn_reason)i;
    }
    switch (reply->err) {
    case SN_ETIMEDOUT: return SN_REASON_DEADLINE;
    case SN_EDENIED: return SN_REASON_DENIED;
    default: return SN_REASON_NONE;
    }
}

static void explain_denied(struct call *call)
{
    char own[SN_AGENT_NAME_BYTES_MAX + 1];
    own_name(call, own);
    sn_cli_error(call->cli, "denied: no access rule there lets %s send %s to %s", own,
                 call->request.type, call->to);
    sn_cli_error(call->cli,
                 "add one to `access:` of the fleet, render it and `sennit reload` that agent: "
                 "{to: \"%s\", types: [%s], from: [%s]}",
                 call->to, call->request.type, own);
}

static void explain_nobody(const struct call *call)
{
    int agent_size = (int)call->parts.agent_size;
    int actor_size = (int)call->parts.actor_size;
    if (agent_size == 0) {
        sn_cli_error(call->cli,
                     "there is no actor %.*s here; `sennit actors` shows those there are",
                     actor_size, call->parts.actor);
    } else {
        sn_cli_error(call->cli,
                     "this agent knows no agent %.*s, or it is itself that one and has no actor "
                     "%.*s; see `sennit peers` and `sennit actors`",
                     agent_size, call->parts.agent, actor_size, call->parts.actor);
    }
}

static void explain(struct call *call, const struct sn_control_reply *reply)
{
    struct sn_cli *cli = call->cli;
    if (reply->err == SN_ENOENT && reason_of(reply) == SN_REASON_NONE) {
        explain_nobody(call);
        return;
    }
    switch (reason_of(reply)) {
    case SN_REASON_DENIED: explain_denied(call); return;
    case SN_REASON_NO_AGENT: explain_nobody(call); return;
    case SN_REASON_NO_ACTOR:
        sn_cli_error(cli, "no such actor: %.*s has none called %.*s; see `sennit actors` there",
                     (int)call->parts.agent_size, call->parts.agent, (int)call->parts.actor_size,
                     call->parts.actor);
        return;
    case SN_REASON_DEADLINE:
        sn_cli_error(cli,
                     "timed out: no answer within %llu ms; is the agent up (`sennit peers`), and "
                     "does the actor answer %s?",
                     (unsigned long long)call->request.timeout_ms, call->request.type);
        return;
    case SN_REASON_PEER_RESTARTED:
        sn_cli_error(cli, "the agent there was started again meanwhile; nobody knows whether the "
                          "message was handled");
        return;
    case SN_REASON_MAILBOX_FULL:
        sn_cli_error(cli, "the actor has more to do than it takes; try again");
        return;
    default:
        sn_cli_error(cli, "no answer: %s",
                     reply->text[0] != '\0' ? reply->text : sn_err_text(reply->err));
    }
}

/* --- The question ----------------------------------------------------------------------------------- */

/* Returns an exit status. */
static int take_payload(struct call *call, const char *word)
{
    struct sn_cli *cli = call->cli;
    const char *bytes = word;
    size_t size = strlen(word);
    if (word[0] == '@') {
        if (!sn_cli_read(cli, word + 1, &call->file, &call->file_size)) return SN_EXIT_USAGE;
        bytes = call->file;
        size = call->file_size;
    }
    if (size > SN_MESSAGE_BYTES_MAX) {
        sn_cli_error(cli, "the payload has %zu bytes; a message takes at most %u", size,
                     SN_MESSAGE_BYTES_MAX);
        return SN_EXIT_USAGE;
    }
    enum sn_err err = check_json(bytes, size);
    call->request.payload = (const uint8_t *)bytes;
    call->request.payload_size = size;
    if (err == SN_OK) return SN_EXIT_OK;
    if (err == SN_ENOMEM) {
        sn_cli_error(cli, "%s", sn_err_text(err));
        return SN_EXIT_FAILED;
    }
    if (err == SN_ETOOBIG) {
        sn_cli_error(cli, "the payload has a number that is too large, or more than %d levels",
                     SN_MSGPACK_DEPTH_MAX);
    } else {
        sn_cli_error(cli, "the payload is no JSON: %.200s%s", bytes,
                     word[0] == '@' ? "" : "; a text needs quotes of its own: '\"text\"'");
    }
    return SN_EXIT_USAGE;
}

static int take_address(struct call *call, const char *type)
{
    struct sn_cli *cli = call->cli;
    if (sn_addr_split(call->to, strlen(call->to), &call->parts) != SN_OK) {
        sn_cli_error(cli, "an actor is named SITE/AGENT:ACTOR, or :ACTOR on this agent, not %.200s",
                     call->to);
        return SN_EXIT_USAGE;
    }
    if (!sn_type_is_valid(type, strlen(type)) ||
        sn_cli_make_ask(&call->request, call->to, strlen(call->to), type) != SN_OK) {
        sn_cli_error(cli, "a type of message is labels with dots, such as echo.say, not %.100s",
                     type);
        return SN_EXIT_USAGE;
    }
    return SN_EXIT_OK;
}

static int run_call(struct call *call, const char *agent_file)
{
    struct sn_control_reply reply;
    int status = sn_cli_connect(call->cli, agent_file, &call->client);
    if (status != SN_EXIT_OK) return status;
    enum sn_err err = sn_control_call(&call->client, &call->request, &reply);
    if (err != SN_OK) {
        status = sn_cli_report(call->cli, err, &reply);
    } else if (reply.err != SN_OK) {
        explain(call, &reply);
        status = SN_EXIT_FAILED;
    } else {
        err = print_answer(call, &reply);
        if (err != SN_OK) {
            sn_cli_error(call->cli, "the answer cannot be shown: %s", sn_err_text(err));
            status = SN_EXIT_FAILED;
        }
    }
    sn_control_disconnect(&call->client);
    return status;
}

int sn_cmd_call(struct sn_cli *cli)
{
    struct sn_option options[OPT_COUNT] = {
        [OPT_CONFIG] = {.name = "-c", .takes_value = 1},
        [OPT_TIMEOUT] = {.name = "--timeout", .takes_value = 1},
        [OPT_JSON] = {.name = "--json"},
    };
    const char *words[3] = {NULL, NULL, NULL};
    struct call call = {.cli = cli};
    uint64_t timeout_ms = 0;
    int count = sn_cli_parse(cli, options, OPT_COUNT, words, 3);
    if (count < 0) return SN_EXIT_USAGE;
    if (count < 2) return sn_cli_usage(cli);
    if (!sn_cli_number(cli, &options[OPT_TIMEOUT], 1, SN_CONTROL_ASK_TIMEOUT_MAX_MS,
                       SN_CONTROL_ASK_TIMEOUT_MS, &timeout_ms)) {
        return SN_EXIT_USAGE;
    }
    call.to = words[0];
    call.as_json = options[OPT_JSON].is_given;
    int status = take_address(&call, words[1]);
    call.request.timeout_ms = timeout_ms;
    if (status == SN_EXIT_OK && words[2] != NULL) status = take_payload(&call, words[2]);
    if (status == SN_EXIT_OK) status = run_call(&call, options[OPT_CONFIG].value);
    if (call.file != NULL) sn_free(call.file, call.file_size + 1);
    return status;
}
