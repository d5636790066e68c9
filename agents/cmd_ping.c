/* SPDX-License-Identifier: Apache-2.0 */
/* ping. Guarantees: every ping that was not answered is counted under one reason; reasons are those of the ledger where
 * the ledger has one. */
#include <stdlib.h>
#include <string.h>

#include "agents/cli.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "env/process.h"
#include "sennit/actor.h"

#define COUNT_MAX       100000u
#define COUNT           5u
#define RETRIES         20u
#define RETRY_MS        50u
#define INTERVAL_MS     200u
#define INTERVAL_MAX_MS 60000u
#define PAYLOAD_BYTES   16u
#define REASONS_MAX     48u /* more than there are reasons and errors */
#define NUMBER_BYTES    24u

enum { OPT_CONFIG, OPT_JSON, OPT_COUNT_OPT, OPT_INTERVAL, OPT_TIMEOUT, OPT_COUNT };

struct lost {
    const char *reason; /* static */
    uint64_t count;
};

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
    struct lost lost[REASONS_MAX];
    uint32_t lost_count;
};

/* --- Figures ---------------------------------------------------------------------------------- */

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The smallest time that `percent` of them do not exceed (nearest rank); they are sorted. Without any there is none:
 * `absent` is written. Returns `out`. */
static const char *percentile(const struct ping *ping, uint64_t percent, const char *absent,
                              const char *unit, char out[NUMBER_BYTES])
{
    struct sn_text text;
    sn_text_init(&text, out, NUMBER_BYTES);
    if (ping->received == 0) {
        sn_text_add(&text, "%s", absent);
        return out;
    }
    uint64_t rank = (ping->received * percent + 99) / 100;
    uint64_t us = ping->times_us[rank == 0 ? 0 : rank - 1];
    sn_text_add(&text, "%llu%s", (unsigned long long)us, unit);
    return out;
}

static void print_json(const struct ping *ping)
{
    static const struct {
        const char *name;
        uint64_t percent;
    } figures[] = {{"min_us", 0}, {"p50_us", 50}, {"p99_us", 99}, {"max_us", 100}};
    char number[NUMBER_BYTES];
    struct sn_cli *cli = ping->cli;
    sn_cli_print(cli, "{\"agent\":\"%s\",\"sent\":%llu,\"received\":%llu", ping->agent,
                 (unsigned long long)ping->sent, (unsigned long long)ping->received);
    for (unsigned i = 0; i < SN_ARRAY_COUNT(figures); i++) {
        sn_cli_print(cli, ",\"%s\":%s", figures[i].name,
                     percentile(ping, figures[i].percent, "null", "", number));
    }
    sn_cli_print(cli, ",\"lost\":{");
    for (uint32_t i = 0; i < ping->lost_count; i++) {
        sn_cli_print(cli, "%s\"%s\":%llu", i == 0 ? "" : ",", ping->lost[i].reason,
                     (unsigned long long)ping->lost[i].count);
    }
    sn_cli_print(cli, "}}\n");
}

static void print_text(const struct ping *ping)
{
    char numbers[4][NUMBER_BYTES];
    struct sn_cli *cli = ping->cli;
    sn_cli_print(cli, "%s: sent %llu, received %llu", ping->agent, (unsigned long long)ping->sent,
                 (unsigned long long)ping->received);
    for (uint32_t i = 0; i < ping->lost_count; i++) {
        sn_cli_print(cli, ", %s %llu", ping->lost[i].reason,
                     (unsigned long long)ping->lost[i].count);
    }
    sn_cli_print(
        cli, ", min %s, p50 %s, p99 %s, max %s\n", percentile(ping, 0, "-", " us", numbers[0]),
        percentile(ping, 50, "-", " us", numbers[1]), percentile(ping, 99, "-", " us", numbers[2]),
        percentile(ping, 100, "-", " us", numbers[3]));
}

static void print_summary(struct ping *ping)
{
    if (ping->received > 0) {
        qsort(ping->times_us, ping->received, sizeof *ping->times_us, compare_times);
    }
    if (ping->as_json) {
        print_json(ping);
    } else {
        print_text(ping);
    }
}

/* --- Reasons ---------------------------------------------------------------------------------- */

static void count_lost(struct ping *ping, const char *reason)
{
    for (uint32_t i = 0; i < ping->lost_count; i++) {
        if (strcmp(ping->lost[i].reason, reason) != 0) continue;
        ping->lost[i].count++;
        return;
    }
    SN_ASSERT(ping->lost_count < REASONS_MAX);
    ping->lost[ping->lost_count++] = (struct lost){reason, 1};
}

/* The agent tells the ledger's reason where there is one, else an error's text. */
static const char *reason_of(const struct sn_control_reply *reply)
{
    for (unsigned i = 0; i < SN_REASON_COUNT; i++) {
        const char *name = sn_reason_name((enum sn_reason)i);
        if (strcmp(name, reply->text) == 0) return name;
    }
    switch (reply->err) {
    case SN_ETIMEDOUT: return sn_reason_name(SN_REASON_DEADLINE);
    case SN_ENOENT: return sn_reason_name(SN_REASON_NO_AGENT);
    case SN_EDENIED: return sn_reason_name(SN_REASON_DENIED);
    default: return sn_err_name(reply->err);
    }
}

/* Prints what the row of the agent says, when that is not "up". */
static void explain_row(struct ping *ping, struct sn_cursor *row)
{
    char state[32] = "";
    char reason[128] = "";
    char agent[SN_AGENT_NAME_BYTES_MAX + 1] = "";
    const struct {
        const char *key;
        char *out;
        size_t capacity;
    } wanted[] = {{"agent", agent, sizeof agent},
                  {"state", state, sizeof state},
                  {"reason", reason, sizeof reason}};
    uint32_t count = sn_cursor_map(row);
    for (uint32_t i = 0; i < count && row->err == SN_OK; i++) {
        size_t key_size = 0, size = 0;
        const char *key = sn_cursor_text(row, SN_LABEL_BYTES_MAX, &key_size);
        unsigned at = 0;
        while (at < SN_ARRAY_COUNT(wanted) &&
               (strlen(wanted[at].key) != key_size || memcmp(wanted[at].key, key, key_size) != 0)) {
            at++;
        }
        if (at == SN_ARRAY_COUNT(wanted)) {
            sn_cursor_skip(row);
            continue;
        }
        const char *text = sn_cursor_text(row, SIZE_MAX, &size);
        if (row->err != SN_OK) return;
        enum sn_err err = sn_text_copy(wanted[at].out, wanted[at].capacity, text, size);
        if (err != SN_OK) return; /* longer than any of them is */
    }
    if (row->err != SN_OK || strcmp(agent, ping->agent) != 0 || strcmp(state, "up") == 0) return;
    sn_cli_error(ping->cli, "%s is %s%s%s", agent, state, reason[0] == '\0' ? "" : ": ", reason);
}

/* Why nothing came back: what the agent knows about that peer. No answer, no explanation. */
static void explain(struct ping *ping)
{
    struct sn_control_request request = {.verb = "peers"};
    struct sn_control_reply reply;
    struct sn_cursor cursor;
    if (sn_control_call(&ping->client, &request, &reply) != SN_OK || reply.err != SN_OK) return;
    sn_cursor_init(&cursor, reply.body, reply.body_size);
    uint32_t count = sn_cursor_array(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t size = 0;
        struct sn_cursor row;
        const uint8_t *bytes = sn_cursor_raw(&cursor, &size);
        if (cursor.err != SN_OK) return;
        sn_cursor_init(&row, bytes, size);
        explain_row(ping, &row);
    }
}

/* --- The series ------------------------------------------------------------------------------- */

/* Takes what came back for one ping. */
static void take_pong(struct ping *ping, const struct sn_control_reply *reply)
{
    const uint8_t *payload = NULL;
    size_t size = 0;
    uint64_t us = 0;
    const char *why = reply->err == SN_OK ? NULL : reason_of(reply);
    unsigned long long number = (unsigned long long)ping->sent;
    if (why == NULL && sn_cli_read_answer(reply, &payload, &size, &us) != SN_OK) why = "malformed";
    if (why == NULL &&
        (size != PAYLOAD_BYTES || memcmp(payload, ping->request.payload, PAYLOAD_BYTES) != 0)) {
        why = "altered";
    }
    if (why != NULL) count_lost(ping, why);
    if (why == NULL) ping->times_us[ping->received++] = us;
    if (ping->as_json) return;
    if (why == NULL) {
        sn_cli_print(ping->cli, "%s: ping %llu: %llu us\n", ping->agent, number,
                     (unsigned long long)us);
    } else {
        sn_cli_print(ping->cli, "%s: ping %llu: no answer: %s\n", ping->agent, number, why);
    }
}

static int is_turned_away(const struct sn_control_reply *reply)
{
    return reply->err == SN_EFULL && strcmp(reply->text, SN_CONTROL_TOO_MANY_ASKS) == 0;
}

/* Others may be asking at this very moment; those that take long stay for longer than we try. */
static enum sn_err call_patiently(struct ping *ping, struct sn_control_reply *out_reply)
{
    enum sn_err err = sn_control_call(&ping->client, &ping->request, out_reply);
    for (unsigned i = 0; i < RETRIES && err == SN_OK && is_turned_away(out_reply); i++) {
        sn_process_sleep_ms(ping->cli->env, RETRY_MS);
        err = sn_control_call(&ping->client, &ping->request, out_reply);
    }
    return err;
}

/* Sends one. Returns an exit status; anything but 0 ends the series. */
static int ping_once(struct ping *ping)
{
    struct sn_control_reply reply;
    uint8_t payload[PAYLOAD_BYTES];
    sn_env_random(ping->cli->env, payload, sizeof payload);
    ping->request.payload = payload;
    ping->request.payload_size = sizeof payload;
    enum sn_err err = call_patiently(ping, &reply);
    if (err != SN_OK || is_turned_away(&reply)) return sn_cli_report(ping->cli, err, &reply);
    ping->sent++;
    take_pong(ping, &reply);
    ping->request.payload = NULL; /* of this call only */
    if (reply.err != SN_ENOENT) return SN_EXIT_OK;
    sn_cli_error(ping->cli, "this agent knows no agent %s; `sennit peers` shows those it knows",
                 ping->agent);
    return SN_EXIT_FAILED;
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
    if (status == SN_EXIT_OK && ping->received < ping->count) {
        status = SN_EXIT_FAILED;
        explain(ping);
    }
    sn_free(ping->times_us, bytes);
    sn_control_disconnect(&ping->client);
    return status;
}

int sn_cmd_ping(struct sn_cli *cli)
{
    struct sn_option options[OPT_COUNT] = {
        [OPT_CONFIG] = {.name = "-c", .takes_value = 1},
        [OPT_JSON] = {.name = "--json"},
        [OPT_COUNT_OPT] = {.name = "--count", .takes_value = 1},
        [OPT_INTERVAL] = {.name = "--interval", .takes_value = 1},
        [OPT_TIMEOUT] = {.name = "--timeout", .takes_value = 1},
    };
    struct ping ping = {.cli = cli};
    int count = sn_cli_parse(cli, options, OPT_COUNT, &ping.agent, 1);
    if (count < 0) return SN_EXIT_USAGE;
    if (count != 1) return sn_cli_usage(cli);
    if (!sn_cli_number(cli, &options[OPT_COUNT_OPT], 1, COUNT_MAX, COUNT, &ping.count) ||
        !sn_cli_number(cli, &options[OPT_INTERVAL], 0, INTERVAL_MAX_MS, INTERVAL_MS,
                       &ping.interval_ms) ||
        !sn_cli_number(cli, &options[OPT_TIMEOUT], 1, SN_CONTROL_ASK_TIMEOUT_MAX_MS,
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
    enum sn_err err = sn_cli_make_ask(&ping.request, to.data, to.size, "ping.echo");
    SN_ASSERT(err == SN_OK && !to.truncated); /* the name was checked */
    ping.request.timeout_ms = ping.timeout_ms;
    ping.as_json = options[OPT_JSON].is_given;
    return run_ping(&ping, options[OPT_CONFIG].value);
}
