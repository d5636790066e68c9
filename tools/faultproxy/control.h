/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: each client sends commands, one per line, and gets the answers in the same order. A command that
 * waits holds up its own client only.
 */
#ifndef SN_TOOLS_FAULTPROXY_CONTROL_H
#define SN_TOOLS_FAULTPROXY_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/faultproxy/command.h"
#include "tools/faultproxy/pollset.h"
#include "tools/faultproxy/text.h"

struct fp_proxy;

#define FP_CONTROLLERS_MAX 32u

struct fp_controller {
    int fd; /* -1 = free */
    size_t polled_at;
    char line[FP_LINE_BYTES_MAX + 1];
    size_t line_size; /* bytes that have come, of one line or several */
    struct fp_text answers;
    bool has_ended;   /* sends no more */
    bool is_skipping; /* the rest of a line that was too long */
    bool is_waiting;
    struct fp_command command;
    int64_t since_us;
};

struct fp_control {
    const char *path; /* borrowed; NULL = there is none */
    int listener;
    size_t listener_at;
    struct fp_controller controllers[FP_CONTROLLERS_MAX];
};

/* Makes the socket, 0600; a socket that nobody listens at any more is replaced. Returns NULL, or what is wrong. */
const char *fp_control_open(struct fp_control *control, const char *path);
/* Sends what is left to be said, as far as that does not block, and removes the socket. */
void fp_control_close(struct fp_control *control);
void fp_control_prepare(struct fp_control *control, const struct fp_proxy *proxy,
                        struct fp_pollset *set, int64_t *wake_us, int64_t now_us);
void fp_control_run(struct fp_control *control, struct fp_proxy *proxy,
                    const struct fp_pollset *set, int64_t now_us);

#endif
