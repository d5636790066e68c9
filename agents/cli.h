/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of the `sennit` program share: options, messages, exit status.
 * Exit status: 0 done, 1 failed, 2 usage or configuration, 3 cannot reach the agent.
 */
#ifndef SN_AGENTS_CLI_H
#define SN_AGENTS_CLI_H

#include "agents/control.h"
#include "config/finding.h"
#include "env/env.h"

struct sn_fleet;

enum sn_exit { SN_EXIT_OK = 0, SN_EXIT_FAILED = 1, SN_EXIT_USAGE = 2, SN_EXIT_UNREACHABLE = 3 };

/* Inside the program only: failed (1), and workers still run and hold memory; leave at once. */
#define SN_EXIT_CUT 256

struct sn_option {
    const char *name; /* "--out", "-c" */
    int takes_value;
    const char *value; /* as given; NULL when absent */
    int is_given;
};

struct sn_cli {
    struct sn_env *env;
    const struct sn_command *command;
    int argc; /* behind the command's name */
    char **argv;
};

struct sn_command {
    const char *name;
    const char *usage; /* "FLEET.yaml --out DIR [--valid DAYS]" */
    const char *help;  /* one line */
    const char *more;  /* further lines for --help, or NULL */
    int (*run)(struct sn_cli *cli);
    int keeps_signals; /* hears of SIGTERM by itself, or must not end between two files */
};

/* Parses options in any place among the arguments; up to `capacity` others go to out_words. Returns
 * their number, or -1 after a message (exit 2). */
int sn_cli_parse(struct sn_cli *cli, struct sn_option *options, size_t option_count,
                 const char **out_words, int capacity);
/* Unsigned number of an option; `absent` when it was not given. 0 after a message, 1 when fine. */
int sn_cli_number(struct sn_cli *cli, const struct sn_option *option, uint64_t min, uint64_t max,
                  uint64_t absent, uint64_t *out_value);

void sn_cli_error(struct sn_cli *cli, const char *format, ...) SN_PRINTF(2, 3);
void sn_cli_print(struct sn_cli *cli, const char *format, ...) SN_PRINTF(2, 3);
/* Prints usage to standard error; returns SN_EXIT_USAGE. */
int sn_cli_usage(struct sn_cli *cli);
void sn_cli_findings(struct sn_cli *cli, struct sn_findings *findings);

/* Checks the configuration of the fleet's plugins; prints warnings about those that are not installed here, and about
 * what else in the fleet may be an omission.
 * Errors: EINVAL (findings were added), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_cli_check_plugins(struct sn_cli *cli, const struct sn_fleet *fleet,
                                               struct sn_findings *findings);

/* Reads a configuration file whole; freed with sn_free(data, size + 1). 0 after a message. */
int sn_cli_read(struct sn_cli *cli, const char *path, char **out_data, size_t *out_size);
/* Connects to the agent of the file (NULL: agent.yaml). Returns an exit status, after a message
 * unless 0. */
int sn_cli_connect(struct sn_cli *cli, const char *agent_file,
                   struct sn_control_client *out_client);
/* Calls and reports failures. Returns an exit status. */
int sn_cli_call(struct sn_cli *cli, struct sn_control_client *client,
                const struct sn_control_request *request, struct sn_control_reply *out_reply);
/* Says what went wrong with a call that was made without sn_cli_call, if anything did. Returns an
 * exit status. */
int sn_cli_report(struct sn_cli *cli, enum sn_err err, const struct sn_control_reply *reply);
/* A question to an actor, without its payload. Errors: ETOOBIG (an address or type that is too long). */
SN_MUST_CHECK enum sn_err sn_cli_make_ask(struct sn_control_request *request, const char *to,
                                          size_t to_size, const char *type);
/* The answer in the body of an `ask`; the payload is borrowed from it. Errors: EPROTO. */
SN_MUST_CHECK enum sn_err sn_cli_read_answer(const struct sn_control_reply *reply,
                                             const uint8_t **out_payload, size_t *out_size,
                                             uint64_t *out_us);
/* Prints a msgpack body as one JSON document, or for people. Returns an exit status. */
int sn_cli_print_body(struct sn_cli *cli, const uint8_t *body, size_t size, int as_json);

/* Prints the body of the view `ledger` for people, in lines that fit a terminal. Returns an exit
 * status. */
int sn_cli_print_ledger(struct sn_cli *cli, const uint8_t *body, size_t size);

int sn_cmd_init(struct sn_cli *cli);
int sn_cmd_keygen(struct sn_cli *cli);
int sn_cmd_render(struct sn_cli *cli);
int sn_cmd_check(struct sn_cli *cli);
int sn_cmd_agent(struct sn_cli *cli);
int sn_cmd_view(struct sn_cli *cli);
int sn_cmd_forwards(struct sn_cli *cli);
int sn_cmd_plugins(struct sn_cli *cli);
int sn_cmd_call(struct sn_cli *cli);
int sn_cmd_ping(struct sn_cli *cli);
int sn_cmd_reload(struct sn_cli *cli);
int sn_cmd_soak(struct sn_cli *cli);
int sn_cmd_version(struct sn_cli *cli);
int sn_cmd_why(struct sn_cli *cli);

#endif
