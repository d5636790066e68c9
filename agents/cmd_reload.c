/* SPDX-License-Identifier: Apache-2.0 */
/* reload: asks the agent to apply its file. What the agent found wrong is printed as `check` would. */
#include <string.h>

#include "agents/cli.h"
#include "base/assert.h"
#include "base/text.h"
#include "config/finding.h"

#define TEXT_BYTES 256u
#define LINE_BYTES (SN_FINDING_PATH_MAX + SN_FINDING_MESSAGE_MAX)

enum { OPT_CONFIG, OPT_JSON, OPT_COUNT };

struct outcome {
    uint64_t status;
    char text[TEXT_BYTES];
    struct sn_cursor findings; /* stands before the first of them */
    uint32_t finding_count;
};

static enum sn_err read_outcome(const struct sn_control_reply *reply, struct outcome *out)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, reply->body, reply->body_size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        char key[32];
        sn_cursor_text_copy(&cursor, key, sizeof key);
        if (strcmp(key, "status") == 0) {
            out->status = sn_cursor_uint(&cursor, SN_EXIT_UNREACHABLE);
        } else if (strcmp(key, "text") == 0) {
            sn_cursor_text_copy(&cursor, out->text, sizeof out->text);
        } else if (strcmp(key, "findings") == 0) {
            out->findings = cursor;
            out->finding_count = sn_cursor_array(&out->findings);
            sn_cursor_skip(&cursor);
        } else {
            sn_cursor_skip(&cursor);
        }
    }
    return sn_cursor_finish(&cursor);
}

static int print_outcome(struct sn_cli *cli, struct outcome *outcome)
{
    for (uint32_t i = 0; i < outcome->finding_count; i++) {
        char line[LINE_BYTES];
        sn_cursor_text_copy(&outcome->findings, line, sizeof line);
        if (outcome->findings.err != SN_OK) break; /* the status says enough */
        sn_cli_error(cli, "%s", line);
    }
    if (outcome->status == SN_EXIT_OK) {
        sn_cli_print(cli, "reloaded\n");
    } else {
        sn_cli_error(cli, "%s", outcome->text);
    }
    return (int)outcome->status;
}

int sn_cmd_reload(struct sn_cli *cli)
{
    struct sn_option options[OPT_COUNT] = {{"-c", 1, NULL, 0}, {"--json", 0, NULL, 0}};
    struct sn_control_client client;
    struct sn_control_request request = {.verb = "reload"};
    struct sn_control_reply reply;
    struct outcome outcome = {.status = SN_EXIT_FAILED};
    if (sn_cli_parse(cli, options, OPT_COUNT, NULL, 0) < 0) return SN_EXIT_USAGE;
    int status = sn_cli_connect(cli, options[OPT_CONFIG].value, &client);
    if (status != SN_EXIT_OK) return status;
    status = sn_cli_call(cli, &client, &request, &reply);
    if (status == SN_EXIT_OK) {
        if (read_outcome(&reply, &outcome) != SN_OK) {
            sn_cli_error(cli, "the agent's answer cannot be read; is it of another version?");
            status = SN_EXIT_FAILED;
        } else if (options[OPT_JSON].is_given) {
            status = sn_cli_print_body(cli, reply.body, reply.body_size, 1);
            if (status == SN_EXIT_OK) status = (int)outcome.status;
        } else {
            status = print_outcome(cli, &outcome);
        }
    }
    sn_control_disconnect(&client);
    return status;
}
