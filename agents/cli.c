/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: whatever an operator got wrong is said in one line that tells how to mend it. */
#include "agents/cli.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agents/identity.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "config/agent_file.h"

#define LINE_BYTES 1024u

/* --- Output ----------------------------------------------------------------------------------- */

static void print_line(struct sn_cli *cli, const char *before, const char *format, va_list args,
                       const char *after) SN_PRINTF(3, 0);

/* `before` and `after` stand around the formatted text. A line that does not fit is cut. */
static void print_line(struct sn_cli *cli, const char *before, const char *format, va_list args,
                       const char *after)
{
    char line[LINE_BYTES];
    char body[LINE_BYTES / 2 + LINE_BYTES / 4];
    struct sn_text text;
    int wanted = vsnprintf(body, sizeof body, format, args);
    sn_text_init(&text, line, sizeof line);
    sn_text_add(&text, "%s%s%s%s", before, wanted < 0 ? "" : body,
                wanted >= (int)sizeof body ? "..." : "", after);
    sn_env_print(cli->env, 1, text.data, text.size);
}

void sn_cli_error(struct sn_cli *cli, const char *format, ...)
{
    char before[48] = "sennit: ";
    va_list args;
    if (cli->command != NULL) {
        (void)snprintf(before, sizeof before, "sennit %.24s: ", cli->command->name); /* fits */
    }
    va_start(args, format);
    print_line(cli, before, format, args, "\n");
    va_end(args);
}

void sn_cli_print(struct sn_cli *cli, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (wanted < 0) return;
    if ((size_t)wanted < sizeof line) {
        sn_env_print(cli->env, 0, line, (size_t)wanted);
        return;
    }
    size_t capacity = (size_t)wanted + 1;
    char *text = sn_alloc_raw(capacity);
    if (text == NULL) {
        sn_cli_error(cli, "%s", sn_err_text(SN_ENOMEM));
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, capacity, format, args); /* fits: it was measured */
    va_end(args);
    sn_env_print(cli->env, 0, text, (size_t)wanted);
    sn_free(text, capacity);
}

int sn_cli_usage(struct sn_cli *cli)
{
    char line[LINE_BYTES];
    struct sn_text text;
    sn_text_init(&text, line, sizeof line);
    sn_text_add(&text, "usage: sennit %s %s\n", cli->command->name, cli->command->usage);
    sn_env_print(cli->env, 1, text.data, text.size);
    return SN_EXIT_USAGE;
}

void sn_cli_findings(struct sn_cli *cli, struct sn_findings *findings)
{
    char line[LINE_BYTES];
    sn_findings_sort(findings);
    for (uint32_t i = 0; i < findings->count; i++) {
        sn_finding_format(findings->items[i], line, sizeof line - 1);
        size_t size = strlen(line);
        line[size] = '\n';
        sn_env_print(cli->env, 1, line, size + 1);
    }
    if (findings->total > findings->count) {
        sn_cli_error(cli, "... and %u more", findings->total - findings->count);
    }
    if (findings->no_memory) sn_cli_error(cli, "%s", sn_err_text(SN_ENOMEM));
}

/* --- Options ---------------------------------------------------------------------------------- */

static struct sn_option *find_option(struct sn_cli *cli, struct sn_option *options, size_t count,
                                     const char *name, size_t name_size)
{
    struct sn_suggest suggest;
    char hint[SN_HINT_MAX];
    char wanted[64];
    for (size_t i = 0; i < count; i++) {
        if (strlen(options[i].name) != name_size) continue;
        if (memcmp(options[i].name, name, name_size) == 0) return &options[i];
    }
    (void)snprintf(wanted, sizeof wanted, "%.*s", (int)(name_size < 60 ? name_size : 60), name);
    sn_suggest_init(&suggest, wanted);
    for (size_t i = 0; i < count; i++) {
        /* Nobody mistypes one letter for another and means it: -x is not "a close -c". */
        if (name_size > 2) sn_suggest_offer(&suggest, options[i].name);
    }
    sn_cli_error(cli, "there is no option %s%s", wanted, sn_suggest_text(&suggest, hint));
    return NULL;
}

/* Takes the option at argv[*index] and its value. Returns 0 after a message. */
static int take_option(struct sn_cli *cli, struct sn_option *options, size_t count, int *index)
{
    const char *arg = cli->argv[*index];
    const char *equals = strchr(arg, '=');
    size_t name_size = equals == NULL ? strlen(arg) : (size_t)(equals - arg);
    struct sn_option *option = find_option(cli, options, count, arg, name_size);
    if (option == NULL) return 0;
    if (option->is_given) {
        sn_cli_error(cli, "%s is given twice", option->name);
        return 0;
    }
    option->is_given = 1;
    if (!option->takes_value) {
        if (equals != NULL) sn_cli_error(cli, "%s takes no value", option->name);
        return equals == NULL;
    }
    if (equals != NULL) {
        option->value = equals + 1;
    } else if (*index + 1 < cli->argc && strncmp(cli->argv[*index + 1], "--", 2) != 0) {
        option->value = cli->argv[++*index];
    }
    if (option->value != NULL && option->value[0] != '\0') return 1;
    sn_cli_error(cli, "%s needs a value", option->name);
    return 0;
}

int sn_cli_parse(struct sn_cli *cli, struct sn_option *options, size_t option_count,
                 const char **out_words, int capacity)
{
    int count = 0;
    int is_options = 1;
    for (int i = 0; i < cli->argc; i++) {
        const char *arg = cli->argv[i];
        if (is_options && strcmp(arg, "--") == 0) {
            is_options = 0;
        } else if (is_options && arg[0] == '-' && arg[1] != '\0' &&
                   !isdigit((unsigned char)arg[1])) {
            if (!take_option(cli, options, option_count, &i)) return -1;
        } else if (count < capacity) {
            out_words[count++] = arg;
        } else {
            sn_cli_error(cli, "one argument too many: %.200s", arg);
            (void)sn_cli_usage(cli); /* the caller returns the status */
            return -1;
        }
    }
    return count;
}

int sn_cli_number(struct sn_cli *cli, const struct sn_option *option, uint64_t min, uint64_t max,
                  uint64_t absent, uint64_t *out_value)
{
    uint64_t value = absent;
    enum sn_err err = SN_OK;
    if (option->is_given) {
        err = sn_text_to_u64(option->value, strlen(option->value), max, &value);
        if (err == SN_OK && value < min) err = SN_EINVAL;
    }
    if (err != SN_OK) {
        sn_cli_error(cli, "%s takes a number from %llu to %llu, not %.100s", option->name,
                     (unsigned long long)min, (unsigned long long)max, option->value);
        return 0;
    }
    *out_value = value;
    return 1;
}

/* --- Files and the agent ---------------------------------------------------------------------- */

int sn_cli_read(struct sn_cli *cli, const char *path, char **out_data, size_t *out_size)
{
    enum sn_err err = sn_env_file_read(cli->env, path, SN_CONFIG_BYTES_MAX, out_data, out_size);
    struct sn_findings findings;
    if (err == SN_OK) return 1;
    if (err != SN_ETOOBIG) {
        sn_cli_error(cli, "%.500s: %s", path, sn_file_err_text(err));
        return 0;
    }
    sn_findings_init(&findings);
    sn_findings_add_too_large(&findings, path);
    sn_cli_findings(cli, &findings);
    sn_findings_fini(&findings);
    return 0;
}

static enum sn_err control_path(const char *agent_file, const struct sn_agent_file *file,
                                char **out_path)
{
    char *folder = sn_path_folder(agent_file);
    char *run = folder == NULL ? NULL : sn_path_in(folder, file->run);
    char *path = run == NULL ? NULL : sn_path_in(run, "control.sock");
    sn_strfree(run);
    sn_strfree(folder);
    if (path == NULL) return SN_ENOMEM;
    *out_path = path;
    return SN_OK;
}

/* Finds the control socket of the agent that the file describes. Returns an exit status. */
static int find_control(struct sn_cli *cli, const char *agent_file, char **out_path)
{
    struct sn_findings findings;
    struct sn_agent_file *file = NULL;
    char *data = NULL;
    size_t size = 0;
    if (!sn_cli_read(cli, agent_file, &data, &size)) return SN_EXIT_USAGE;
    sn_findings_init(&findings);
    enum sn_err err = sn_agent_file_parse(data, size, agent_file, &findings, &file);
    if (err == SN_OK) {
        err = control_path(agent_file, file, out_path);
        sn_agent_file_free(file);
    } else {
        sn_cli_findings(cli, &findings);
    }
    sn_findings_fini(&findings);
    sn_free(data, size + 1);
    if (err == SN_ENOMEM) sn_cli_error(cli, "%s", sn_err_text(err));
    return err == SN_OK ? SN_EXIT_OK : err == SN_ENOMEM ? SN_EXIT_FAILED : SN_EXIT_USAGE;
}

int sn_cli_connect(struct sn_cli *cli, const char *agent_file, struct sn_control_client *out_client)
{
    char *path = NULL;
    const char *name = agent_file != NULL ? agent_file : "agent.yaml";
    int status = find_control(cli, name, &path);
    if (status != SN_EXIT_OK) return status;
    enum sn_err err = sn_control_connect(cli->env, path, out_client);
    if (err == SN_ENOENT || err == SN_EREFUSED) {
        sn_cli_error(cli, "no agent answers at %.300s; start it with: sennit agent -c %.300s", path,
                     name);
    } else if (err == SN_EAGAIN) {
        sn_cli_error(cli, "the agent at %.300s has too many clients; try again", path);
    } else if (err == SN_EPERM) {
        sn_cli_error(cli, "the agent at %.300s runs as another user; ask as that one", path);
    } else if (err != SN_OK) {
        sn_cli_error(cli, "the agent at %.300s cannot be reached: %s", path, sn_err_text(err));
    }
    sn_strfree(path);
    return err == SN_OK ? SN_EXIT_OK : SN_EXIT_UNREACHABLE;
}

int sn_cli_report(struct sn_cli *cli, enum sn_err err, const struct sn_control_reply *reply)
{
    if (err == SN_ECLOSED || err == SN_ERESET) {
        sn_cli_error(cli, "the agent hung up; it may be ending, or full of clients (see its log)");
        return SN_EXIT_UNREACHABLE;
    }
    if (err == SN_ETIMEDOUT) {
        sn_cli_error(
            cli,
            "the agent does not answer in time; it may hang, or be full of clients (see its log)");
        return SN_EXIT_UNREACHABLE;
    }
    if (err != SN_OK) {
        sn_cli_error(cli, "the agent's answer cannot be used: %s", sn_err_text(err));
        return SN_EXIT_FAILED;
    }
    if (reply->err == SN_OK) return SN_EXIT_OK;
    sn_cli_error(cli, "%s", reply->text[0] != '\0' ? reply->text : sn_err_text(reply->err));
    return SN_EXIT_FAILED;
}

int sn_cli_call(struct sn_cli *cli, struct sn_control_client *client,
                const struct sn_control_request *request, struct sn_control_reply *out_reply)
{
    enum sn_err err = sn_control_call(client, request, out_reply);
    return sn_cli_report(cli, err, out_reply);
}

/* --- Questions to actors ---------------------------------------------------------------------- */

enum sn_err sn_cli_make_ask(struct sn_control_request *request, const char *to, size_t to_size,
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
enum sn_err sn_cli_read_answer(const struct sn_control_reply *reply, const uint8_t **out_payload,
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
