/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about a running agent, those that only ask and the one that is it. */
#include <stdlib.h>
#include <string.h>

#include "agents/agent.h"
#include "agents/cli.h"
#include "agents/version.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "env/process.h"
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
    if (status == SN_EXIT_OK) {
        status = sn_cli_print_body(cli, reply.body, reply.body_size, options[OPT_JSON].is_given);
    }
    sn_control_disconnect(&client);
    return status;
}

/* --- Questions to actors ---------------------------------------------------------------------- */

static enum sn_err make_ask(struct sn_control_request *request, const char *to, size_t to_size,
                            const char *type)
{
    *request = (struct sn_control_request){.verb = "ask", .timeout_ms = SN_CONTROL_ASK_TIMEOUT_MS};
    enum sn_err err = sn_text_copy(request->to, sizeof request->to, to, to_size);
    if (err == SN_OK) {
        err = sn_text_copy(request->type, sizeof request->type, type, strlen(type));
    }
    return err;
}

/* The answer in the body of an `ask`; the payload is borrowed from it. */
static enum sn_err read_answer(const struct sn_control_reply *reply, const uint8_t **out_payload,
                               size_t *out_size, uint64_t *out_us)
{
    struct sn_cursor cursor;
    const uint8_t *payload = NULL;
    size_t payload_size = 0;
    uint64_t us = 0;
    sn_cursor_init(&cursor, reply->body, reply->body_size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(&cursor, SN_LABEL_BYTES_MAX, &size);
        if (size == 2 && memcmp(key, "us", 2) == 0) {
            us = sn_cursor_uint(&cursor, UINT64_MAX);
        } else if (size == 7 && memcmp(key, "payload", 7) == 0) {
            payload = sn_cursor_bin(&cursor, SN_CONTROL_REPLY_BYTES_MAX, &payload_size);
        } else {
            sn_cursor_skip(&cursor);
        }
    }
    enum sn_err err = sn_cursor_finish(&cursor);
    if (err == SN_OK && payload == NULL) err = SN_EPROTO;
    if (err != SN_OK) return err;
    *out_payload = payload;
    *out_size = payload_size;
    *out_us = us;
    return SN_OK;
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
    enum sn_err err = make_ask(&request, to, sizeof to - 1, "tunnel.list");
    SN_ASSERT(err == SN_OK); /* constants that fit */
    err = sn_control_call(client, &request, &reply);
    int is_missing = err == SN_OK && reply.err == SN_ENOENT; /* an agent without the plugin */
    if (!is_missing) {
        int status = sn_cli_report(cli, err, &reply);
        if (status != SN_EXIT_OK) return status;
        err = read_answer(&reply, &payload, &size, &us);
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

/* --- ping ------------------------------------------------------------------------------------- */

#define PING_COUNT_MAX       100000u
#define PING_COUNT           5u
#define PING_INTERVAL_MS     200u
#define PING_INTERVAL_MAX_MS 60000u
#define PING_PAYLOAD_BYTES   16u

enum { PING_CONFIG, PING_JSON, PING_COUNT_OPT, PING_INTERVAL, PING_TIMEOUT, PING_OPTIONS };

struct ping {
    struct sn_cli *cli;
    const char *agent;
    int as_json;
    uint64_t count;
    uint64_t interval_ms;
    uint64_t timeout_ms;
    struct sn_control_client client;
    struct sn_control_request request;
    uint64_t *times_us; /* of those answered */
    uint64_t sent;
    uint64_t received;
};

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The smallest time that `percent` of them do not exceed (nearest rank); they are sorted. */
static unsigned long long percentile(const struct ping *ping, uint64_t percent)
{
    if (ping->received == 0) return 0;
    uint64_t rank = (ping->received * percent + 99) / 100;
    return ping->times_us[rank == 0 ? 0 : rank - 1];
}

static void print_summary(struct ping *ping)
{
    if (ping->received > 0) {
        qsort(ping->times_us, ping->received, sizeof *ping->times_us, compare_times);
    }
    unsigned long long sent = (unsigned long long)ping->sent;
    unsigned long long received = (unsigned long long)ping->received;
    unsigned long long min = percentile(ping, 0);
    unsigned long long p50 = percentile(ping, 50);
    unsigned long long p99 = percentile(ping, 99);
    unsigned long long max = percentile(ping, 100);
    if (ping->as_json) {
        sn_cli_print(ping->cli,
                     "{\"agent\":\"%s\",\"sent\":%llu,\"received\":%llu,\"min_us\":%llu,"
                     "\"p50_us\":%llu,\"p99_us\":%llu,\"max_us\":%llu}\n",
                     ping->agent, sent, received, min, p50, p99, max);
    } else {
        sn_cli_print(ping->cli,
                     "%s: sent %llu, received %llu, min %llu us, p50 %llu us, p99 %llu us, "
                     "max %llu us\n",
                     ping->agent, sent, received, min, p50, p99, max);
    }
}

/* Takes what came back for one ping. */
static void take_pong(struct ping *ping, const struct sn_control_reply *reply, const char *why)
{
    const uint8_t *payload = NULL;
    size_t size = 0;
    uint64_t us = 0;
    unsigned long long number = (unsigned long long)ping->sent;
    if (why == NULL && read_answer(reply, &payload, &size, &us) != SN_OK) why = "malformed answer";
    if (why == NULL && (size != PING_PAYLOAD_BYTES ||
                        memcmp(payload, ping->request.payload, PING_PAYLOAD_BYTES) != 0)) {
        why = "the answer is not what was sent";
    }
    if (why == NULL) {
        ping->times_us[ping->received++] = us;
        if (!ping->as_json) {
            sn_cli_print(ping->cli, "%s: ping %llu: %llu us\n", ping->agent, number,
                         (unsigned long long)us);
        }
    } else if (!ping->as_json) {
        sn_cli_print(ping->cli, "%s: ping %llu: no answer (%s)\n", ping->agent, number, why);
    }
}

/* Sends one. Returns an exit status; anything but 0 ends the series. */
static int ping_once(struct ping *ping)
{
    struct sn_control_reply reply;
    uint8_t payload[PING_PAYLOAD_BYTES];
    sn_env_random(ping->cli->env, payload, sizeof payload);
    ping->request.payload = payload;
    ping->request.payload_size = sizeof payload;
    enum sn_err err = sn_control_call(&ping->client, &ping->request, &reply);
    if (err != SN_OK) return sn_cli_report(ping->cli, err, &reply);
    if (reply.err == SN_ENOENT) {
        sn_cli_error(ping->cli, "this agent knows no agent %s; `sennit peers` shows those it knows",
                     ping->agent);
        return SN_EXIT_FAILED;
    }
    ping->sent++;
    const char *text = reply.text[0] != '\0' ? reply.text : sn_err_text(reply.err);
    take_pong(ping, &reply, reply.err == SN_OK ? NULL : text);
    return SN_EXIT_OK;
}

static int run_ping(struct ping *ping, const char *agent_file)
{
    size_t bytes = ping->count * sizeof *ping->times_us;
    int status = sn_cli_connect(ping->cli, agent_file, &ping->client);
    if (status != SN_EXIT_OK) return status;
    ping->times_us = sn_alloc(bytes);
    if (ping->times_us == NULL) {
        sn_cli_error(ping->cli, "%s", sn_err_text(SN_ENOMEM));
        status = SN_EXIT_FAILED;
    }
    for (uint64_t i = 0; i < ping->count && status == SN_EXIT_OK; i++) {
        if (i > 0) sn_process_sleep_ms(ping->cli->env, ping->interval_ms);
        status = ping_once(ping);
    }
    if (ping->sent > 0) print_summary(ping);
    if (status == SN_EXIT_OK && ping->received < ping->count) status = SN_EXIT_FAILED;
    sn_free(ping->times_us, bytes);
    sn_control_disconnect(&ping->client);
    return status;
}

int sn_cmd_ping(struct sn_cli *cli)
{
    struct sn_option options[PING_OPTIONS] = {
        [PING_CONFIG] = {.name = "-c", .takes_value = 1},
        [PING_JSON] = {.name = "--json"},
        [PING_COUNT_OPT] = {.name = "--count", .takes_value = 1},
        [PING_INTERVAL] = {.name = "--interval", .takes_value = 1},
        [PING_TIMEOUT] = {.name = "--timeout", .takes_value = 1},
    };
    struct ping ping = {.cli = cli};
    int count = sn_cli_parse(cli, options, PING_OPTIONS, &ping.agent, 1);
    if (count < 0) return SN_EXIT_USAGE;
    if (count != 1) return sn_cli_usage(cli);
    if (!sn_cli_number(cli, &options[PING_COUNT_OPT], 1, PING_COUNT_MAX, PING_COUNT, &ping.count) ||
        !sn_cli_number(cli, &options[PING_INTERVAL], 0, PING_INTERVAL_MAX_MS, PING_INTERVAL_MS,
                       &ping.interval_ms) ||
        !sn_cli_number(cli, &options[PING_TIMEOUT], 1, SN_CONTROL_ASK_TIMEOUT_MAX_MS,
                       SN_CONTROL_ASK_TIMEOUT_MS, &ping.timeout_ms)) {
        return SN_EXIT_USAGE;
    }
    if (!sn_agent_name_is_valid(ping.agent, strlen(ping.agent))) {
        sn_cli_error(cli, "an agent is named site/agent, for example paris/hub, not %.150s",
                     ping.agent);
        return SN_EXIT_USAGE;
    }
    struct sn_text to;
    char address[SN_ADDR_BYTES_MAX + 1];
    sn_text_init(&to, address, sizeof address);
    sn_text_add(&to, "%s:ping", ping.agent);
    enum sn_err err = make_ask(&ping.request, to.data, to.size, "ping.echo");
    SN_ASSERT(err == SN_OK && !to.truncated); /* the name was checked */
    ping.request.timeout_ms = ping.timeout_ms;
    ping.as_json = options[PING_JSON].is_given;
    return run_ping(&ping, options[PING_CONFIG].value);
}
