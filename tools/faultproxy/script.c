/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/faultproxy/clock.h"
#include "tools/faultproxy/proxy.h"
#include "tools/faultproxy/text.h"

static bool report(const char *path, unsigned line, const char *what)
{
    (void)fprintf(stderr, "%s:%u: %s\n", path, line, what); /* nothing to do about a failure */
    return false;
}

static bool add_line(struct fp_script *script, const char *text, unsigned line, bool is_udp)
{
    struct fp_text error = {0};
    bool is_good = true;
    if (fp_command_is_blank(text)) return true;
    if (script->count == FP_SCRIPT_COMMANDS_MAX) {
        return report(script->path, line, "too many commands; 10000 at most");
    }
    struct fp_script_entry *entry = &script->entries[script->count];
    if (fp_command_parse(text, is_udp, &entry->command, &error)) {
        entry->line = line;
        script->count++;
    } else {
        is_good = report(script->path, line, error.data);
    }
    fp_text_fini(&error);
    return is_good;
}

bool fp_script_read(struct fp_script *script, const char *path, bool is_udp)
{
    char text[FP_LINE_BYTES_MAX + 1];
    bool is_good = true;
    unsigned line = 0;
    *script = (struct fp_script){.path = path};
    if (path == NULL) return true;
    FILE *file = fopen(path, "r");
    if (file == NULL) return report(path, 0, strerror(errno));
    script->entries = fp_alloc(FP_SCRIPT_COMMANDS_MAX * sizeof *script->entries);
    while (fgets(text, sizeof text, file) != NULL) {
        line++;
        size_t size = strcspn(text, "\n");
        if (text[size] == '\0' && size == sizeof text - 1) {
            is_good = report(path, line, "the line is too long; 255 bytes at most");
            break;
        }
        text[size] = '\0';
        if (!add_line(script, text, line, is_udp)) is_good = false;
    }
    if (ferror(file)) is_good = report(path, line, strerror(errno));
    (void)fclose(file); /* it was only read */
    return is_good;
}

void fp_script_fini(struct fp_script *script)
{
    free(script->entries);
    script->entries = NULL;
}

void fp_script_start(struct fp_script *script, int64_t now_us)
{
    script->since_us = now_us;
}

static bool do_entry(const struct fp_script *script, const struct fp_script_entry *entry,
                     struct fp_proxy *proxy, int64_t now_us)
{
    struct fp_text answer = {0};
    bool is_good = fp_proxy_do(proxy, &entry->command, &answer, now_us);
    if (!is_good) {
        (void)fprintf(stderr, "%s:%u: %s", script->path, entry->line,
                      answer.data); /* nothing to do about a failure */
    } else if (entry->command.verb == FP_STATS || entry->command.verb == FP_LIST) {
        (void)fputs(answer.data, stdout); /* nothing to do about a failure */
        (void)fflush(stdout);
    }
    fp_text_fini(&answer);
    return is_good;
}

bool fp_script_run(struct fp_script *script, struct fp_proxy *proxy, int64_t now_us,
                   int64_t *out_wake_us)
{
    int64_t wake_us = FP_NEVER;
    while (script->next < script->count && !proxy->is_quitting) {
        const struct fp_script_entry *entry = &script->entries[script->next];
        if (fp_command_waits(&entry->command)) {
            if (!fp_proxy_has_come(proxy, &entry->command, script->since_us, now_us, &wake_us)) {
                break;
            }
        } else if (!do_entry(script, entry, proxy, now_us)) {
            return false;
        }
        script->since_us = now_us;
        script->next++;
    }
    *out_wake_us = wake_us;
    return true;
}
