/* SPDX-License-Identifier: Apache-2.0 */
/* The `sennit` program: finds the command and runs it. */
#include <string.h>
#include <unistd.h> /* tidy: allow unistd.h: _exit, see below */

#include "agents/cli.h"
#include "agents/leak_check.h"
#include "base/assert.h"
#include "crypto/key.h"
#include "env/env_posix.h"

static const struct sn_command commands[] = {
    {"init", "DIR --mesh NAME", "make a folder with an authority key and a starter fleet file",
     NULL, sn_cmd_init},
    {"keygen", "FILE", "make a node key (0600) and print its public key", NULL, sn_cmd_keygen},
    {"render", "FLEET.yaml --out DIR [--valid DAYS]",
     "write each agent's agent.yaml and certificate to DIR/SITE/AGENT",
     "Where the fleet gives `key:` the certificate is signed for it; else a node key is made (for "
     "demos).\n"
     "Existing keys are kept. Certificates are valid for 365 days unless --valid says otherwise.\n",
     sn_cmd_render},
    {"check", "FILE...", "check fleet and agent files; prints file:line:col: path: message", NULL,
     sn_cmd_check},
    {"agent", "-c agent.yaml", "run an agent in the foreground; SIGTERM drains and ends it", NULL,
     sn_cmd_agent},
    {"status", "[-c agent.yaml] [--json]", "show the agent itself", NULL, sn_cmd_view},
    {"peers", "[-c agent.yaml] [--json]", "show the peers, and who was refused", NULL, sn_cmd_view},
    {"forwards", "[-c agent.yaml] [--json]", "show forwards and targets of the tunnel plugin", NULL,
     sn_cmd_forwards},
    {"streams", "[-c agent.yaml] [--json]", "show open streams", NULL, sn_cmd_view},
    {"actors", "[-c agent.yaml] [--json]", "show actors and their mailboxes", NULL, sn_cmd_view},
    {"ledger", "[-c agent.yaml] [--json]", "show how every accepted message ended", NULL,
     sn_cmd_view},
    {"metrics", "[-c agent.yaml] [--json]", "show all counters", NULL, sn_cmd_view},
    {"ping", "SITE/AGENT [-c agent.yaml] [--count N] [--interval MS] [--timeout MS] [--json]",
     "measure round trips to another agent",
     "Exit status 0 when every ping was answered, 1 otherwise.\n", sn_cmd_ping},
    {"soak", "SCENARIO.yaml --out DIR [--seed N] [--keep]",
     "run real agents under a scenario; the verdict is DIR/verdict.json",
     "DIR must be new or empty. Folders of starts that passed are removed unless --keep is given.\n"
     "Exit status 0 when all passed, 1 otherwise.\n",
     sn_cmd_soak},
    {"version", "", "print the version", NULL, sn_cmd_version},
};

/* Not freed: that would wait for pool threads, and one may sit in a name service that does not answer. Static, so that
 * the leak check finds what it holds. */
static struct sn_env *env;

static int print_help(struct sn_cli *cli, int status)
{
    sn_cli_print(cli, "usage: sennit COMMAND ...\n\n");
    for (unsigned i = 0; i < SN_ARRAY_COUNT(commands); i++) {
        sn_cli_print(cli, "  %-9s %s\n", commands[i].name, commands[i].help);
    }
    sn_cli_print(cli, "\n`sennit COMMAND --help` says more.\n");
    return status;
}

static const struct sn_command *find_command(const char *name)
{
    for (unsigned i = 0; i < SN_ARRAY_COUNT(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    }
    return NULL;
}

static int run(int argc, char **argv)
{
    struct sn_cli cli = {.env = env, .argc = argc - 2, .argv = argv + 2};
    if (argc < 2) return print_help(&cli, SN_EXIT_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return print_help(&cli, SN_EXIT_OK);
    }
    cli.command = find_command(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
    if (cli.command == NULL) {
        struct sn_suggest suggest;
        char hint[SN_HINT_MAX];
        sn_suggest_init(&suggest, argv[1]);
        for (unsigned i = 0; i < SN_ARRAY_COUNT(commands); i++) {
            sn_suggest_offer(&suggest, commands[i].name);
        }
        sn_cli_error(&cli, "there is no command %.40s%s", argv[1], sn_suggest_text(&suggest, hint));
        return SN_EXIT_USAGE;
    }
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        sn_cli_print(&cli, "usage: sennit %s %s\n%s\n%s", cli.command->name, cli.command->usage,
                     cli.command->help, cli.command->more == NULL ? "" : cli.command->more);
        return SN_EXIT_OK;
    }
    return cli.command->run(&cli);
}

int main(int argc, char **argv)
{
    int status = SN_EXIT_FAILED;
    if (sn_env_posix_new(&env) == SN_OK && sn_crypto_init() == SN_OK) status = run(argc, argv);
    if (status == SN_EXIT_CUT) {
        status = SN_EXIT_OK; /* memory is still in use: there is nothing to check */
    } else {
        sn_leak_check(&status);
    }
    /* Without the exit handlers of libraries: nng's wait for its own threads, which may be closing pipes. */
    _exit(status); /* tidy: allow _exit: the only way out that does not run nng's exit handlers */
}
