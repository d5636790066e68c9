/* SPDX-License-Identifier: Apache-2.0 */
/* A script: commands that are read and checked as a whole before the proxy serves, then done one after the other. */
#ifndef SN_TOOLS_FAULTPROXY_SCRIPT_H
#define SN_TOOLS_FAULTPROXY_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/faultproxy/command.h"

struct fp_proxy;

#define FP_SCRIPT_COMMANDS_MAX 10000u

struct fp_script_entry {
    struct fp_command command;
    unsigned line;
};

struct fp_script {
    const char *path;                /* borrowed */
    struct fp_script_entry *entries; /* owned */
    size_t count;
    size_t next;
    int64_t since_us;
};

/* Prints every error as file:line: message to stderr; false when there was one. */
bool fp_script_read(struct fp_script *script, const char *path, bool is_udp);
void fp_script_fini(struct fp_script *script);
void fp_script_start(struct fp_script *script, int64_t now_us);
/* Goes on as far as it can; answers of `stats` and `list` go to stdout. False when a command
 * failed, which it prints. */
bool fp_script_run(struct fp_script *script, struct fp_proxy *proxy, int64_t now_us,
                   int64_t *out_wake_us);

#endif
