/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about a running agent, those that only ask and the one that is it. */
#include <string.h>

#include "agents/agent.h"
#include "agents/cli.h"
#include "agents/version.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "wire/json.h"

#define NO_TUNNELS "{\"forwards\":[],\"targets\":[]}"

enum { OPT_CONFIG, OPT_JSON, OPT_COUNT };

#define VIEW_OPTIONS                                                                               \
    {                                                                                              \
        [OPT_CONFIG] = {.name = "-c", .takes_value = 1}, [OPT_JSON] = {.name = "--json" }          \
    }

int sn_cmd_version(struct sn_cli *cli)
{
    if (sn_cli_parse(cli, NULL, 0, NULL, 0) < 0) return SN_EXIT_USAGE;
    sn_cli_print(cli, "sennit %s\n", SN_VERSION);
    return SN_EXIT_OK;
}

int sn_cmd_agent(struct sn_cli *cli)
{
    struct sn_option config = {.name = "-c", .takes_value = 1};
    if (sn_cli_parse(cli, &config, 1, NULL, 0) < 0) return SN_EXIT_USAGE;
    return sn_agent_run(cli->env, config.is_given ? config.value : "agent.yaml");
}

/* --- peers -------------------------------------------------------------------------------------- */

/* What a table of all peers has no room for; JSON has it, and `sennit why` tells it of one. */
static const char *const peer_details[] = {
    "linked",       "dialed",       "attempts",        "next_attempt_ms",
    "error",        "refused_by",   "presented_agent", "answered_ms",
    "presented_id", "ended_ms",     "ended_error",     "ended_detail",
    "queued",       "queued_bytes", "queued_ms",       "last_undelivered"};

static int is_detail(const char *key, size_t size)
{
    for (unsigned i = 0; i < SN_ARRAY_COUNT(peer_details); i++) {
        if (strlen(peer_details[i]) == size && memcmp(peer_details[i], key, size) == 0) return 1;
    }
    return 0;
}

/* Appends the row's entries that are no details; returns their number. */
static uint32_t add_plain(struct sn_cursor *cursor, struct sn_body *out)
{
    uint32_t count = sn_cursor_map(cursor);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        struct sn_cursor key = *cursor;
        size_t key_size = 0, name_size = 0, value_size = 0;
        const char *name = sn_cursor_text(&key, SIZE_MAX, &name_size);
        const uint8_t *entry = sn_cursor_raw(cursor, &key_size);
        (void)sn_cursor_raw(cursor, &value_size); /* it lies behind its key */
        if (cursor->err != SN_OK || is_detail(name, name_size)) continue;
        sn_body_need(out, key_size + value_size);
        if (out->err != SN_OK) return kept;
        sn_pack_raw(&out->pack, entry, key_size + value_size);
        kept++;
    }
    return kept;
}

static int print_peers(struct sn_cli *cli, const struct sn_control_reply *reply)
{
    struct sn_cursor cursor;
    struct sn_body table;
    int status = SN_EXIT_FAILED;
    sn_cursor_init(&cursor, reply->body, reply->body_size);
    if (sn_cursor_kind(&cursor) != SN_WIRE_ARRAY) {
        return sn_cli_print_body(cli, reply->body, reply->body_size, 0);
    }
    uint32_t count = sn_cursor_array(&cursor);
    sn_body_init(&table);
    sn_body_array(&table, count);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        struct sn_body row;
        sn_body_init(&row);
        sn_body_map(&table, add_plain(&cursor, &row));
        sn_body_append(&table, &row);
        sn_body_fini(&row);
    }
    enum sn_err err = cursor.err != SN_OK ? cursor.err : table.err;
    if (err == SN_OK) {
        status = sn_cli_print_body(cli, table.pack.data, table.pack.size, 0);
    } else {
        sn_cli_error(cli, "the agent's answer cannot be shown: %s", sn_err_text(err));
    }
    sn_body_fini(&table);
    return status;
}

/* --- Views -------------------------------------------------------------------------------------- */

static int print_view(struct sn_cli *cli, const struct sn_control_reply *reply, int as_json)
{
    const char *verb = cli->command->name;
    if (as_json) return sn_cli_print_body(cli, reply->body, reply->body_size, 1);
    if (strcmp(verb, "ledger") == 0) {
        return sn_cli_print_ledger(cli, reply->body, reply->body_size);
    }
    if (strcmp(verb, "peers") == 0) return print_peers(cli, reply);
    return sn_cli_print_body(cli, reply->body, reply->body_size, 0);
}

/* The command's name is the verb. */
int sn_cmd_view(struct sn_cli *cli)
{
    struct sn_option options[OPT_COUNT] = VIEW_OPTIONS;
    struct sn_control_client client;
    struct sn_control_request request = {0};
    struct sn_control_reply reply;
    if (sn_cli_parse(cli, options, OPT_COUNT, NULL, 0) < 0) return SN_EXIT_USAGE;
    const char *verb = cli->command->name;
    enum sn_err err = sn_text_copy(request.verb, sizeof request.verb, verb, strlen(verb));
    SN_ASSERT(err == SN_OK); /* names of commands are short */
    int status = sn_cli_connect(cli, options[OPT_CONFIG].value, &client);
    if (status != SN_EXIT_OK) return status;
    status = sn_cli_call(cli, &client, &request, &reply);
    if (status == SN_EXIT_OK) status = print_view(cli, &reply, options[OPT_JSON].is_given);
    sn_control_disconnect(&client);
    return status;
}

/* --- plugins ---------------------------------------------------------------------------------- */

static int print_hash(struct sn_cli *cli, const char *path)
{
    char sha256[SN_PLUGIN_SHA256_BYTES];
    enum sn_err err = sn_plugin_hash(cli->env, path, sha256);
    if (err == SN_OK) {
        sn_cli_print(cli, "%s\n", sha256);
        return SN_EXIT_OK;
    }
    sn_cli_error(cli, "%.500s: %s", path, sn_file_err_text(err));
    return SN_EXIT_USAGE;
}

/* For people: one after the other, each with its own tables. None, or whatever else an agent answers, as it is. */
static int print_plugins(struct sn_cli *cli, const struct sn_control_reply *reply)
{
    struct sn_cursor cursor;
    int status = SN_EXIT_OK;
    sn_cursor_init(&cursor, reply->body, reply->body_size);
    uint32_t count = sn_cursor_array(&cursor);
    if (count == 0) return sn_cli_print_body(cli, reply->body, reply->body_size, 0);
    for (uint32_t i = 0; i < count && status == SN_EXIT_OK; i++) {
        size_t size = 0;
        const uint8_t *row = sn_cursor_raw(&cursor, &size);
        if (cursor.err != SN_OK) break;
        if (i > 0) sn_cli_print(cli, "\n\n");
        status = sn_cli_print_body(cli, row, size, 0);
    }
    return cursor.err == SN_OK ? status : SN_EXIT_FAILED;
}

int sn_cmd_plugins(struct sn_cli *cli)
{
    struct sn_option options[OPT_COUNT + 1] = {[OPT_CONFIG] = {.name = "-c", .takes_value = 1},
                                               [OPT_JSON] = {.name = "--json"},
                                               [OPT_COUNT] = {.name = "--hash", .takes_value = 1}};
    const struct sn_option *hash = &options[OPT_COUNT];
    const struct sn_control_request request = {.verb = "plugins"};
    struct sn_control_client client;
    struct sn_control_reply reply;
    if (sn_cli_parse(cli, options, OPT_COUNT + 1, NULL, 0) < 0) return SN_EXIT_USAGE;
    int is_view = options[OPT_CONFIG].is_given || options[OPT_JSON].is_given;
    if (hash->is_given) return is_view ? sn_cli_usage(cli) : print_hash(cli, hash->value);
    int status = sn_cli_connect(cli, options[OPT_CONFIG].value, &client);
    if (status != SN_EXIT_OK) return status;
    status = sn_cli_call(cli, &client, &request, &reply);
    if (status == SN_EXIT_OK) {
        status = options[OPT_JSON].is_given ? sn_cli_print_body(cli, reply.body, reply.body_size, 1)
                                            : print_plugins(cli, &reply);
    }
    sn_control_disconnect(&client);
    return status;
}

/* --- forwards --------------------------------------------------------------------------------- */

/* A document of the tunnel plugin, for people: the tables under its keys. */
static int print_tunnels(struct sn_cli *cli, const char *json, size_t size)
{
    struct sn_pack pack;
    size_t capacity = 3 * size + 64; /* 9 bytes for `1e1,` is the most that 4 of JSON become */
    uint8_t *bytes = sn_alloc_raw(capacity);
    if (bytes == NULL) {
        sn_cli_error(cli, "%s", sn_err_text(SN_ENOMEM));
        return SN_EXIT_FAILED;
    }
    sn_pack_init(&pack, bytes, capacity);
    int status = SN_EXIT_FAILED;
    enum sn_err err = sn_json_to_msgpack(json, size, &pack);
    if (err == SN_OK) {
        status = sn_cli_print_body(cli, bytes, pack.size, 0);
    } else {
        sn_cli_error(cli, "the tunnel plugin's answer cannot be shown: %s", sn_err_text(err));
    }
    sn_free(bytes, capacity);
    return status;
}

static int show_tunnels(struct sn_cli *cli, struct sn_control_client *client, int as_json)
{
    struct sn_control_request request;
    struct sn_control_reply reply;
    const uint8_t *payload = (const uint8_t *)NO_TUNNELS;
    size_t size = sizeof NO_TUNNELS - 1;
    uint64_t us = 0;
    static const char to[] = ":tunnel";
    enum sn_err err = sn_cli_make_ask(&request, to, sizeof to - 1, "tunnel.list");
    SN_ASSERT(err == SN_OK); /* constants that fit */
    err = sn_control_call(client, &request, &reply);
    int is_missing = err == SN_OK && reply.err == SN_ENOENT; /* an agent without the plugin */
    if (!is_missing) {
        int status = sn_cli_report(cli, err, &reply);
        if (status != SN_EXIT_OK) return status;
        err = sn_cli_read_answer(&reply, &payload, &size, &us);
        if (err != SN_OK) {
            sn_cli_error(cli, "the tunnel plugin's answer cannot be read: %s", sn_err_text(err));
            return SN_EXIT_FAILED;
        }
    }
    if (!as_json) return print_tunnels(cli, (const char *)payload, size);
    sn_env_print(cli->env, 0, (const char *)payload, size);
    if (size == 0 || payload[size - 1] != '\n') sn_env_print(cli->env, 0, "\n", 1);
    return SN_EXIT_OK;
}

int sn_cmd_forwards(struct sn_cli *cli)
{
    struct sn_option options[OPT_COUNT] = VIEW_OPTIONS;
    struct sn_control_client client;
    if (sn_cli_parse(cli, options, OPT_COUNT, NULL, 0) < 0) return SN_EXIT_USAGE;
    int status = sn_cli_connect(cli, options[OPT_CONFIG].value, &client);
    if (status != SN_EXIT_OK) return status;
    status = show_tunnels(cli, &client, options[OPT_JSON].is_given);
    sn_control_disconnect(&client);
    return status;
}
