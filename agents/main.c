/* SPDX-License-Identifier: Apache-2.0 */
/* The `sennit` program: finds the command and runs it. */
#include <string.h>
#include <unistd.h> /* tidy: allow unistd.h: _exit, see below */

#include "agents/cli.h"
#include "agents/leak_check.h"
#include "base/assert.h"
#include "crypto/key.h"
#include "env/env_posix.h"
#include "env/process.h"

static const char help_render[] =
    "Where the fleet gives `key:` the certificate is signed for it; else a node key is made (for "
    "demos).\n"
    "Existing keys are kept. Certificates are valid for 365 days unless --valid says otherwise.\n"
    "What is left in DIR from agents that the fleet no longer has is named, never deleted.\n";

static const char help_check[] =
    "An agent file is checked with its key, its certificate and the configuration of its\n"
    "plugins: what the agent would refuse at its start, and what its peers would refuse of it.\n"
    "Findings go to standard error as file:line:col: path: message; the exit status is 2.\n"
    "--reference prints all keys of the fleet file, of the agent file, or of a plugin's `config`,\n"
    "as Markdown.\n";

static const char help_agent[] =
    "It writes `ready` to standard error once others can reach it. SIGTERM or SIGINT: nothing new\n"
    "is taken, what is open is finished for at most `drain_ms`; a second one does not wait.\n";

static const char help_status[] =
    "peers_up, peers_known  agents with a session now, and all that are known\n"
    "streams_open           streams of all peers, tunnels among them\n"
    "actors_failed          actors that failed too often and stay down\n"
    "certificate_valid      time until this agent's certificate expires\n"
    "epoch                  number of this boot; it grows with each\n"
    "descriptors, threads, resident\n"
    "                       what the process uses\n";

static const char help_peers[] =
    "state         up, connecting, down; refused: somebody who was turned away, not a peer\n"
    "since         how long it has been so\n"
    "rtt           round trip of the last heartbeat\n"
    "reason        why it is down, or was refused\n"
    "remote        address of the other end\n"
    "sessions      how many there have been since the agent started\n"
    "clock_offset  its clock minus this one's, as of the last handshake\n"
    "count         how often it was refused\n"
    "--json has more of each; `sennit why` tells it, and what it means, of one.\n";

static const char help_forwards[] =
    "forwards: local ports of this agent, and where they lead\n"
    "  listen, bound    as configured; as the system gave it\n"
    "  to, target       the agent at the other end, and what it is asked for\n"
    "  state            listening; failed: tried again by itself; stopped; removed by a reload\n"
    "  waiting          clients whose tunnel is not open yet (at most `open_wait_ms`)\n"
    "  error            why it fails, or whom clients wait for\n"
    "targets: services that others reach through this agent, at `address`\n"
    "  denied           asked for by an agent that is not in the target's `allow`\n"
    "open, opened       tunnels now, and ever; failed: not opened, or broken; errors: by kind\n"
    "refused            beyond `max_connections` or `max_per_agent`\n"
    "sent, received     to and from the peer so far; rates in bytes a second, lately\n";

static const char help_streams[] =
    "service, actor   what the stream is for, and the actor of this agent that has it\n"
    "direction        out: opened from here; in: opened by the peer\n"
    "state            opening until the other side accepted, then open; orphaned: its connection\n"
    "                 was lost, and it waits for the next one\n"
    "sent, received   bytes so far\n";

static const char help_actors[] =
    "state              running, or failed: it failed too often and stays down\n"
    "worker             the thread it belongs to\n"
    "mailbox            messages that wait; beyond mailbox_max they are refused\n"
    "sends_outstanding  sends without an outcome so far\n"
    "asks_outstanding   questions without an answer so far\n"
    "handled, restarts  events so far; starts after failures\n"
    "The names are what `access:` rules of a fleet name behind the colon.\n";

static const char help_ledger[] =
    "accepted        messages taken for sending = delivered + queued + undelivered + unknown\n"
    "delivered       placed in the destination's mailbox\n"
    "undelivered     certainly not run; `reasons` tells why\n"
    "unknown         sent, but no answer came; `reasons` tells why\n"
    "local_accepted  messages between actors of this agent, which are in no row\n"
    "parcels         what carried them: as counted here, and by nng; resent: sent again\n"
    "incoming        messages from the peer and those refused; parcels that were not genuine:\n"
    "                bad signature or seal, replayed, other\n";

static const char help_metrics[] =
    "kind   counter: only grows, since the start; gauge: as it is now\n";

static const char help_reload[] =
    "Forwards, targets, the configuration of plugins, access rules and links change under "
    "traffic:\n"
    "what is not touched loses no byte. Other keys need a restart. SIGHUP does the same.\n"
    "Exit status: 0 applied; 2 refused, nothing has changed.\n";
static const char help_ping[] =
    "A ping without an answer is counted under its reason, as in `sennit ledger`: deadline, "
    "no-agent, ...\n"
    "Exit status 0 when every ping was answered, 1 otherwise.\n";

static const char help_why[] =
    "One line says what it is and what to do; beneath it the facts. Nothing is sent but one ping.\n"
    "Causes, as they stand under `cause`:\n"
    "  up                  it is up and well\n"
    "  no-such-agent, self nobody here knows it; it is this agent itself\n"
    "  not-linked          nobody dials: no link here, and no address here for it to dial\n"
    "  never-seen          it has to dial this agent, and never has\n"
    "  dialing             the first attempt is under way\n"
    "  unresolved, connection-refused, timed-out, unreachable, not-sennit, hung-up,\n"
    "  no-descriptors, dial-failed\n"
    "                      this agent dials it and cannot connect\n"
    "  refused-X           this agent refuses it; X is mesh, key (another one is pinned), name\n"
    "                      (another agent answers), untrusted, expired, not-yet-valid,\n"
    "                      bad-signature, duplicate, replay, version, full; or no X: otherwise\n"
    "  refused-by-peer-X   it refuses this agent, as far as it says because of X\n"
    "  left, lost, certificate-ended\n"
    "                      it was up: it stopped in good order; the connection broke; its\n"
    "                      certificate ran out\n"
    "  clock-offset        it is up, and its clock is more than a minute off\n"
    "  queue-full          it is up and takes nothing: what is sent to it is refused\n"
    "  no-answer           it is up and did not answer the ping (--timeout, 2000 ms)\n"
    "  denied, no-actor, mailbox-full, actor-failed\n"
    "                      with :ACTOR: it did not take the last message of this agent to it\n"
    "  target-failed, target-denied\n"
    "                      it is up; the last client of a forward did not reach its target\n"
    "Exit status: 0 up and well, 1 a cause was found, 2 usage or no such agent, 3 the agent of\n"
    "agent.yaml cannot be reached.\n";

static const char help_plugins[] =
    "file, sha256  what was loaded, and its digest as it stands under `sha256:` of its entry\n"
    "abi           of the interface it was built for\n"
    "state         running, or failed: the agent runs without it; cause and hint say why\n"
    "actors        whom `sennit call` and `access:` rules name behind the colon\n"
    "messages      what they understand\n"
    "--hash prints the digest of a file, for `sha256:`.\n";

static const char help_call[] =
    "The message goes through the agent of agent.yaml, and counts as its own: the `access:` rules "
    "at\n"
    "the destination decide. `:ACTOR` is one of that agent itself, which may always be asked.\n"
    "Without JSON the message has no payload; @FILE: what is in the file.\n"
    "The answer's payload is printed as it is when it is JSON, else as the JSON of its msgpack,\n"
    "{\"text\":...} or {\"base64\":...}; null when it is empty. With --json it stands under "
    "`payload`,\n"
    "beside `from`, `type` and `us`, the round trip.\n"
    "Exit status 0 with an answer, 1 without.\n";

static const char help_soak[] =
    "DIR must be new or empty. Folders of starts that passed are removed unless --keep is given.\n"
    "An interrupt ends the agents and writes the verdict.\n"
    "Exit status 0 when all passed, 1 otherwise.\n";

#define VIEW_USAGE "[-c agent.yaml] [--json]"

static const struct sn_command commands[] = {
    {"init", "DIR --mesh NAME", "make a folder with an authority key and a starter fleet file",
     NULL, sn_cmd_init, 1},
    {"keygen", "FILE", "make a node key (0600) and print its public key", NULL, sn_cmd_keygen, 1},
    {"render", "FLEET.yaml --out DIR [--valid DAYS]",
     "write each agent's agent.yaml and certificate to DIR/SITE/AGENT", help_render, sn_cmd_render,
     1},
    {"check", "FILE... | --reference fleet|agent|PLUGIN",
     "check fleet and agent files; prints file:line:col: path: message", help_check, sn_cmd_check,
     0},
    {"agent", "-c agent.yaml", "run an agent in the foreground; SIGTERM drains and ends it",
     help_agent, sn_cmd_agent, 1},
    {"status", VIEW_USAGE, "show the agent itself", help_status, sn_cmd_view, 0},
    {"peers", VIEW_USAGE, "show the peers, and who was refused", help_peers, sn_cmd_view, 0},
    {"forwards", VIEW_USAGE, "show forwards and targets of the tunnel plugin", help_forwards,
     sn_cmd_forwards, 0},
    {"streams", VIEW_USAGE, "show open streams", help_streams, sn_cmd_view, 0},
    {"plugins", VIEW_USAGE " | --hash FILE.so", "show plugins, and why those that failed did",
     help_plugins, sn_cmd_plugins, 0},
    {"actors", VIEW_USAGE, "show actors and their mailboxes", help_actors, sn_cmd_view, 0},
    {"ledger", VIEW_USAGE, "show how every accepted message ended", help_ledger, sn_cmd_view, 0},
    {"metrics", VIEW_USAGE, "show all counters", help_metrics, sn_cmd_view, 0},
    {"call", "[SITE/AGENT]:ACTOR TYPE [JSON|@FILE] [-c agent.yaml] [--timeout MS] [--json]",
     "ask an actor, and print its answer", help_call, sn_cmd_call, 0},
    {"reload", "[-c agent.yaml] [--json]", "apply a changed agent file", help_reload, sn_cmd_reload,
     0},
    {"ping", "SITE/AGENT [-c agent.yaml] [--count N] [--interval MS] [--timeout MS] [--json]",
     "measure round trips to another agent", help_ping, sn_cmd_ping, 0},
    {"why", "SITE/AGENT[:ACTOR] [-c agent.yaml] [--timeout MS] [--json]",
     "say why another agent cannot be reached", help_why, sn_cmd_why, 0},
    {"soak", "SCENARIO.yaml --out DIR [--seed N] [--keep]",
     "run real agents under a scenario; the verdict is DIR/verdict.json", help_soak, sn_cmd_soak,
     1},
    {"version", "", "print the version", NULL, sn_cmd_version, 0},
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

static int no_such_command(struct sn_cli *cli, const char *name)
{
    struct sn_suggest suggest;
    char hint[SN_HINT_MAX];
    sn_suggest_init(&suggest, name);
    for (unsigned i = 0; i < SN_ARRAY_COUNT(commands); i++) {
        sn_suggest_offer(&suggest, commands[i].name);
    }
    sn_cli_error(cli, "there is no command %.40s%s", name, sn_suggest_text(&suggest, hint));
    return SN_EXIT_USAGE;
}

static int run(struct sn_cli *cli, int argc, char **argv)
{
    if (argc < 2) return print_help(cli, SN_EXIT_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return print_help(cli, SN_EXIT_OK);
    }
    cli->command = find_command(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
    if (cli->command == NULL) return no_such_command(cli, argv[1]);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        const char *more = cli->command->more == NULL ? "" : cli->command->more;
        sn_cli_print(cli, "usage: sennit %s %s\n%s\n%s%s", cli->command->name, cli->command->usage,
                     cli->command->help, more[0] == '\0' ? "" : "\n", more);
        return SN_EXIT_OK;
    }
    if (!cli->command->keeps_signals) sn_process_end_on_signals(cli->env);
    return cli->command->run(cli);
}

/* A result that did not arrive is no success, whatever the command. A reader that went away knows that it did. */
static int check_output(struct sn_cli *cli, int status)
{
    enum sn_err err = sn_process_output_err(cli->env);
    if (err == SN_OK) return status;
    if (err != SN_ERESET) {
        sn_cli_error(cli, "the output cannot be written: %s", sn_err_text(err));
    }
    return status == SN_EXIT_OK ? SN_EXIT_FAILED : status;
}

int main(int argc, char **argv)
{
    int status = SN_EXIT_FAILED;
    if (sn_env_posix_new(&env) == SN_OK && sn_crypto_init() == SN_OK) {
        struct sn_cli cli = {.env = env, .argc = argc - 2, .argv = argv + 2};
        status = check_output(&cli, run(&cli, argc, argv));
    }
    if (status == SN_EXIT_CUT) {
        status = SN_EXIT_FAILED; /* memory is still in use: there is nothing to check */
    } else {
        sn_leak_check(&status);
    }
    /* Without the exit handlers of libraries: nng's wait for its own threads, which may be closing pipes. */
    _exit(status); /* tidy: allow _exit: the only way out that does not run nng's exit handlers */
}
