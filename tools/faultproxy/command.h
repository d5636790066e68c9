/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the control socket and of scripts, as text and as data. */
#ifndef SN_TOOLS_FAULTPROXY_COMMAND_H
#define SN_TOOLS_FAULTPROXY_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_text;

#define FP_LINE_BYTES_MAX 256u

/* Up = from the client to the server. Indexes of arrays; a set of them has the bits 1 << direction. */
enum fp_direction { FP_UP, FP_DOWN, FP_DIRECTIONS };

enum fp_scope { FP_EXISTING = 1, FP_NEW = 2, FP_ALL = 3 };

enum fp_verb {
    FP_PASS,
    FP_DELAY,
    FP_BLACKHOLE,
    FP_SWALLOW,
    FP_HALF_CLOSE,
    FP_RESET,
    FP_CLOSE,
    FP_CUT,
    FP_DRIP,
    FP_FLIP,
    FP_SPLIT,
    FP_MERGE,
    FP_RATE,
    FP_REFUSE,
    FP_UNLISTEN,
    FP_LISTEN,
    FP_LOSS,
    FP_DUP,
    FP_REORDER,
    FP_STATS,
    FP_LIST,
    FP_WAIT,
    FP_AT,
    FP_AFTER,
    FP_QUIT
};

enum fp_event { FP_EVENT_CONNECTIONS, FP_EVENT_OPEN, FP_EVENT_BYTES, FP_EVENT_READ };

struct fp_command {
    enum fp_verb verb;
    uint64_t values[2]; /* as given; percentages in millionths */
    unsigned directions;
    unsigned scope;
    enum fp_event event; /* wait, at */
};

/* Reads a line, which is not changed. False: *error has what is wrong and what to do. */
bool fp_command_parse(const char *line, bool is_udp, struct fp_command *out_command,
                      struct fp_text *error);
/* Nothing but blanks, or a comment. */
bool fp_command_is_blank(const char *line);
/* Whether it waits for something instead of doing something. */
bool fp_command_waits(const struct fp_command *command);
void fp_command_print_help(struct fp_text *out);

#endif
