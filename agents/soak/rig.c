/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two real agents in a folder of their own. Guarantees: no agent outlives its rig; nothing is waited for without an
 * end; a failure names the log that tells more.
 */
#include <stdio.h>
#include <string.h>

#include "agents/identity.h"
#include "agents/soak/fleet.h"
#include "base/alloc.h"
#include "base/assert.h"

#define FLEET_BYTES   4096u
#define LOG_BYTES_MAX (4u * 1024u * 1024u)
#define RENDER_MS     30000u
#define READY_MS      60000u /* on a machine that is wanted by a hundred others */
#define EXIT_MS       10000u /* the agents drain for 5 s at most */
#define SETTLE_MS     5000u
#define ASK_MS        2000u
/* Below the range from which the system chooses ports by itself, so that no other connection takes one between our
 * choice and the agent's bind. */
#define PORT_MIN      20000u
#define PORTS         2500u
#define PORT_ATTEMPTS 100u

/* --- Making -------------------------------------------------------------------------------------------------- */

enum sn_err sn_soak_choose_port(struct sn_env *env, enum sn_soak_ports range, uint16_t *out_port)
{
    for (unsigned i = 0; i < PORT_ATTEMPTS; i++) {
        uint16_t random = 0;
        struct sn_sock sock;
        struct sn_netaddr bound;
        sn_env_random(env, &random, sizeof random);
        struct sn_netaddr addr = {
            .family = SN_NETADDR_IP4,
            .port = (uint16_t)(PORT_MIN + (unsigned)range * PORTS + random % PORTS),
            .ip = {127, 0, 0, 1}};
        if (sn_env_listen(env, &addr, &sock, &bound) != SN_OK) continue;
        sn_env_close(env, sock);
        *out_port = bound.port;
        return SN_OK;
    }
    return SN_EINUSE;
}

static enum sn_err make_agent(const struct sn_rig *rig, const char *name, const char *log,
                              struct sn_soak_agent *agent)
{
    *agent = (struct sn_soak_agent){.name = name};
    char *agents = sn_path_in(rig->folder, "agents");
    char *folder = agents == NULL ? NULL : sn_path_in(agents, name);
    if (folder != NULL) {
        agent->config = sn_path_in(folder, "agent.yaml");
        agent->run = sn_path_in(folder, "run");
        agent->log = sn_path_in(rig->folder, log);
    }
    if (agent->run != NULL) agent->control = sn_path_in(agent->run, "control.sock");
    sn_strfree(folder);
    sn_strfree(agents);
    int is_made = agent->config != NULL && agent->log != NULL && agent->control != NULL;
    return is_made ? SN_OK : SN_ENOMEM;
}

static enum sn_err write_fleet(const struct sn_rig *rig, const char *path, uint32_t number)
{
    struct sn_text text;
    char *data = sn_alloc(FLEET_BYTES);
    if (data == NULL) return SN_ENOMEM;
    sn_text_init(&text, data, FLEET_BYTES);
    sn_soak_fleet(&text, rig, number);
    SN_ASSERT(!text.truncated); /* its parts are all bounded */
    enum sn_err err = sn_env_file_create(rig->soak->env, path, 0644, text.data, text.size);
    sn_free(data, FLEET_BYTES);
    return err;
}

/* By the command that operators use. */
static int render(struct sn_rig *rig, const char *fleet, const char *agents, const char *log)
{
    struct sn_soak *soak = rig->soak;
    const char *const argv[] = {soak->self, "render", fleet, "--out", agents, NULL};
    struct sn_process process = {0};
    int status = 0;
    enum sn_err err = sn_process_start(soak->env, argv, log, SN_SOAK_CHILD, &process);
    if (err == SN_OK) err = sn_process_wait(soak->env, &process, RENDER_MS, &status);
    sn_soak_kill(soak, &process);
    if (err == SN_OK && status == 0) return 1;
    if (err != SN_OK) {
        sn_verdict_fail(&soak->verdict, "render: %s", sn_err_text(err));
    } else {
        sn_verdict_fail(&soak->verdict, "render ended with status %d; see %s", status, log);
    }
    return 0;
}

static int write_and_render(struct sn_rig *rig, uint32_t number)
{
    int is_fine = 0;
    char *fleet = sn_path_in(rig->folder, "fleet.yaml");
    char *agents = sn_path_in(rig->folder, "agents");
    char *log = sn_path_in(rig->folder, "render.log");
    enum sn_err err = SN_ENOMEM;
    if (fleet != NULL && agents != NULL && log != NULL) err = write_fleet(rig, fleet, number);
    if (err == SN_OK) {
        is_fine = render(rig, fleet, agents, log);
    } else {
        sn_verdict_fail(&rig->soak->verdict, "fleet.yaml: %s", sn_err_text(err));
    }
    sn_strfree(log);
    sn_strfree(agents);
    sn_strfree(fleet);
    return is_fine;
}

int sn_rig_open(struct sn_soak *soak, uint32_t number, uint16_t target_port, struct sn_rig *out_rig)
{
    char name[32];
    (void)snprintf(name, sizeof name, "start-%03u", number); /* fits */
    struct sn_rig *rig = out_rig;
    *rig = (struct sn_rig){.soak = soak, .target_port = target_port};
    rig->folder = sn_path_in(soak->out, name);
    enum sn_err err = rig->folder == NULL ? SN_ENOMEM : SN_OK;
    if (err == SN_OK) err = make_agent(rig, SN_SOAK_HUB, "hub.log", &rig->hub);
    if (err == SN_OK) err = make_agent(rig, SN_SOAK_EDGE, "edge.log", &rig->edge);
    if (err == SN_OK) err = sn_soak_choose_port(soak->env, SN_SOAK_PORTS_HUB, &rig->hub_port);
    if (err == SN_OK) err = sn_soak_choose_port(soak->env, SN_SOAK_PORTS_EDGE, &rig->edge_port);
    if (err == SN_OK)
        err = sn_soak_choose_port(soak->env, SN_SOAK_PORTS_FORWARD, &rig->forward_port);
    if (err == SN_OK) err = sn_soak_choose_port(soak->env, SN_SOAK_PORTS_RELAY, &rig->relay_port);
    if (err == SN_OK) err = sn_env_folder_make(soak->env, rig->folder, 0700);
    if (err == SN_OK) return write_and_render(rig, number);
    sn_verdict_fail(&soak->verdict, "folder %s: %s", name, sn_err_text(err));
    return 0;
}

/* --- Starting ------------------------------------------------------------------------------------------------- */

/* A line that says exactly `ready`. */
static int has_ready_line(struct sn_soak *soak, const char *log)
{
    char *data = NULL;
    size_t size = 0;
    if (sn_env_file_read(soak->env, log, LOG_BYTES_MAX, &data, &size) != SN_OK) return 0;
    int is_ready = strncmp(data, "ready\n", 6) == 0 || strstr(data, "\nready\n") != NULL;
    sn_free(data, size + 1);
    return is_ready;
}

/* Notes a failure when the agent's process is gone. */
static int is_alive(struct sn_rig *rig, struct sn_soak_agent *agent)
{
    int status = 0;
    if (sn_process_wait(rig->soak->env, &agent->process, 0, &status) == SN_ETIMEDOUT) return 1;
    sn_verdict_fail(&rig->soak->verdict, "%s ended with status %d; see %s", agent->name, status,
                    agent->log);
    return 0;
}

static int connect_control(struct sn_rig *rig, struct sn_soak_agent *agent)
{
    enum sn_err err = sn_control_connect(rig->soak->env, agent->control, &agent->client);
    agent->is_connected = err == SN_OK;
    if (err == SN_OK) return 1;
    sn_verdict_fail(&rig->soak->verdict, "%s: control socket: %s", agent->name, sn_err_text(err));
    return 0;
}

static int start_agent(struct sn_rig *rig, struct sn_soak_agent *agent)
{
    struct sn_soak *soak = rig->soak;
    const char *const argv[] = {soak->self, "agent", "-c", agent->config, NULL};
    uint64_t deadline_ns = sn_soak_deadline(soak, READY_MS);
    enum sn_err err = sn_process_start(soak->env, argv, agent->log, SN_SOAK_CHILD, &agent->process);
    if (err != SN_OK) {
        sn_verdict_fail(&soak->verdict, "%s: %s", agent->name, sn_err_text(err));
        return 0;
    }
    while (!has_ready_line(soak, agent->log)) {
        if (!is_alive(rig, agent)) return 0;
        if (sn_soak_is_over(soak, deadline_ns)) {
            sn_verdict_fail(&soak->verdict, "%s: not ready in time; see %s", agent->name,
                            agent->log);
            return 0;
        }
        sn_soak_pause(soak, SN_SOAK_POLL_MS);
    }
    return connect_control(rig, agent);
}

int sn_rig_start(struct sn_rig *rig, int is_edge_first)
{
    struct sn_soak_agent *first = is_edge_first ? &rig->edge : &rig->hub;
    struct sn_soak_agent *second = is_edge_first ? &rig->hub : &rig->edge;
    return start_agent(rig, first) && start_agent(rig, second);
}

/* --- Asking --------------------------------------------------------------------------------------------------- */

static int call(struct sn_rig *rig, struct sn_soak_agent *agent,
                const struct sn_control_request *request, struct sn_control_reply *out_reply)
{
    enum sn_err err = sn_control_call(&agent->client, request, out_reply);
    if (err == SN_OK && out_reply->err == SN_OK) return 1;
    if (err != SN_OK && !is_alive(rig, agent)) return 0;
    /* Its own actor is not there when its plugin is not, or was refused. */
    int is_missing = err == SN_OK && out_reply->err == SN_ENOENT && request->to[0] != '\0';
    sn_verdict_fail(&rig->soak->verdict, "%s: %s: %s%s", agent->name, request->verb,
                    err != SN_OK ? sn_err_text(err) : out_reply->text,
                    is_missing ? "; is the plugin `soak` there? --keep keeps the log that says"
                               : "");
    return 0;
}

/* The `payload` of the answer to an `ask`. */
static const uint8_t *payload_of(const struct sn_control_reply *reply, size_t *out_size)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, reply->body, reply->body_size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(&cursor, SN_LABEL_BYTES_MAX, &size);
        if (size == 7 && memcmp(key, "payload", 7) == 0) {
            return sn_cursor_bin(&cursor, reply->body_size, out_size);
        }
        sn_cursor_skip(&cursor);
    }
    *out_size = 0;
    return reply->body;
}

int sn_rig_report(struct sn_rig *rig, struct sn_soak_agent *agent,
                  struct sn_soak_report *out_report)
{
    struct sn_control_request request = {
        .verb = "ask", .to = ":soak", .type = "soak.report", .timeout_ms = ASK_MS};
    struct sn_control_reply reply;
    size_t size = 0;
    if (!call(rig, agent, &request, &reply)) return 0;
    const uint8_t *payload = payload_of(&reply, &size);
    enum sn_err err = sn_soak_report_parse(payload, size, out_report);
    if (err == SN_OK) return 1;
    sn_verdict_fail(&rig->soak->verdict, "%s: its report cannot be read: %s", agent->name,
                    sn_err_text(err));
    return 0;
}

int sn_rig_ledger(struct sn_rig *rig, struct sn_soak_agent *agent,
                  struct sn_soak_ledger *out_ledger)
{
    struct sn_control_request request = {.verb = "ledger"};
    struct sn_control_reply reply;
    const char *peer = agent == &rig->hub ? rig->edge.name : rig->hub.name;
    if (!call(rig, agent, &request, &reply)) return 0;
    enum sn_err err = sn_soak_ledger_parse(reply.body, reply.body_size, peer, out_ledger);
    if (err == SN_OK) return 1;
    sn_verdict_fail(&rig->soak->verdict, "%s: its ledger about %s cannot be read: %s", agent->name,
                    peer, sn_err_text(err));
    return 0;
}

static int fail_view(struct sn_rig *rig, const struct sn_soak_agent *agent, const char *verb,
                     enum sn_err err)
{
    sn_verdict_fail(&rig->soak->verdict, "%s: its %s cannot be read: %s", agent->name, verb,
                    sn_err_text(err));
    return 0;
}

int sn_rig_sample(struct sn_rig *rig, struct sn_soak_agent *agent,
                  struct sn_soak_sample *out_sample)
{
    struct sn_control_request request = {.verb = "status"};
    struct sn_control_reply reply;
    struct sn_soak_sample sample = {0};
    struct sn_file_info log;
    if (!call(rig, agent, &request, &reply)) return 0;
    enum sn_err err =
        sn_soak_number(reply.body, reply.body_size, "resident_bytes", &sample.resident_bytes);
    if (err == SN_OK) {
        err = sn_soak_number(reply.body, reply.body_size, "descriptors", &sample.descriptors);
    }
    if (err == SN_OK) err = sn_env_file_info(rig->soak->env, agent->log, &log);
    if (err != SN_OK) return fail_view(rig, agent, "status", err);
    sample.log_bytes = log.size;
    *out_sample = sample;
    return 1;
}

static int read_peer(struct sn_rig *rig, struct sn_soak_agent *agent, const char *peer,
                     struct sn_soak_peer *out_peer)
{
    struct sn_control_request request = {.verb = "peers"};
    struct sn_control_reply reply;
    if (!call(rig, agent, &request, &reply)) return 0;
    enum sn_err err = sn_soak_peer_parse(reply.body, reply.body_size, peer, out_peer);
    return err == SN_OK ? 1 : fail_view(rig, agent, "peers", err);
}

int sn_rig_check_sessions(struct sn_rig *rig, struct sn_soak_run *run)
{
    struct sn_soak_peer hub, edge;
    if (!read_peer(rig, &rig->hub, rig->edge.name, &hub)) return 0;
    if (!read_peer(rig, &rig->edge, rig->hub.name, &edge)) return 0;
    run->sessions[0] = hub.sessions;
    run->sessions[1] = edge.sessions;
    int is_one = hub.sessions == 1 && hub.is_up && edge.sessions == 1 && edge.is_up;
    if (is_one || !rig->soak->scenario.is_steady) return 1;
    sn_verdict_fail(&rig->soak->verdict,
                    "the session did not last: %llu came up at the hub, which is %s, and %llu at "
                    "the edge, which is %s",
                    (unsigned long long)hub.sessions, hub.is_up ? "up" : "down",
                    (unsigned long long)edge.sessions, edge.is_up ? "up" : "down");
    return 0;
}

static int count_streams(struct sn_rig *rig, struct sn_soak_agent *agent, uint64_t *out_count)
{
    struct sn_control_request request = {.verb = "status"};
    struct sn_control_reply reply;
    if (!call(rig, agent, &request, &reply)) return 0;
    enum sn_err err = sn_soak_number(reply.body, reply.body_size, "streams_open", out_count);
    return err == SN_OK ? 1 : fail_view(rig, agent, "status", err);
}

int sn_rig_await_no_streams(struct sn_rig *rig)
{
    uint64_t deadline_ns = sn_soak_deadline(rig->soak, SETTLE_MS);
    for (;;) {
        uint64_t hub = 0, edge = 0;
        if (!count_streams(rig, &rig->hub, &hub) || !count_streams(rig, &rig->edge, &edge)) {
            return 0;
        }
        if (hub == 0 && edge == 0) return 1;
        if (sn_soak_is_over(rig->soak, deadline_ns)) {
            sn_verdict_fail(&rig->soak->verdict,
                            "streams are left open: %llu at the hub, %llu at "
                            "the edge",
                            (unsigned long long)hub, (unsigned long long)edge);
            return 0;
        }
        sn_soak_pause(rig->soak, SN_SOAK_POLL_MS);
    }
}

/* --- Ledgers -------------------------------------------------------------------------------------------------- */

struct pair {
    struct sn_soak_ledger hub, edge;
};

static void judge(const struct pair *pair, uint64_t messages, struct sn_soak_run *run)
{
    run->is_balanced =
        sn_soak_ledger_is_balanced(&pair->hub) && sn_soak_ledger_is_balanced(&pair->edge);
    run->is_agreed = sn_soak_ledger_is_agreed(&pair->hub, &pair->edge, messages) &&
                     sn_soak_ledger_is_agreed(&pair->edge, &pair->hub, messages);
    run->is_nng_equal =
        sn_soak_ledger_is_nng_equal(&pair->hub) && sn_soak_ledger_is_nng_equal(&pair->edge);
    run->parcels_sent = pair->hub.parcels_sent + pair->edge.parcels_sent;
    run->nng_sent = pair->hub.nng_sent + pair->edge.nng_sent;
    run->parcels_received = pair->hub.parcels_received + pair->edge.parcels_received;
    run->nng_received = pair->hub.nng_received + pair->edge.nng_received;
    run->parcels_resent = pair->hub.parcels_resent + pair->edge.parcels_resent;
}

static void fail_ledger(struct sn_rig *rig, const struct sn_soak_agent *agent,
                        const struct sn_soak_ledger *ledger)
{
    sn_verdict_fail(
        &rig->soak->verdict,
        "ledger of %s: accepted %llu, delivered %llu, queued %llu, undelivered %llu, "
        "unknown %llu; received %llu, refused %llu; parcels resent %llu, refused: "
        "%llu replayed, %llu others",
        agent->name, (unsigned long long)ledger->accepted, (unsigned long long)ledger->delivered,
        (unsigned long long)ledger->queued, (unsigned long long)ledger->undelivered,
        (unsigned long long)ledger->unknown, (unsigned long long)ledger->messages_received,
        (unsigned long long)ledger->messages_refused, (unsigned long long)ledger->parcels_resent,
        (unsigned long long)ledger->refused_replay, (unsigned long long)ledger->refused_bad);
}

int sn_rig_check_ledgers(struct sn_rig *rig, uint64_t messages, struct sn_soak_run *run)
{
    struct pair pair;
    uint64_t deadline_ns = sn_soak_deadline(rig->soak, SETTLE_MS);
    for (;;) {
        if (!sn_rig_ledger(rig, &rig->hub, &pair.hub)) return 0;
        if (!sn_rig_ledger(rig, &rig->edge, &pair.edge)) return 0;
        judge(&pair, messages, run);
        if (run->is_balanced && run->is_agreed && run->is_nng_equal) return 1;
        /* The last acknowledgements may still be under way, and a sum may be read in the middle of a change. */
        if (sn_soak_is_over(rig->soak, deadline_ns)) break;
        sn_soak_pause(rig->soak, SN_SOAK_POLL_MS);
    }
    if (!run->is_balanced || !run->is_agreed) {
        fail_ledger(rig, &rig->hub, &pair.hub);
        fail_ledger(rig, &rig->edge, &pair.edge);
    }
    if (!run->is_nng_equal) {
        sn_verdict_fail(
            &rig->soak->verdict, "parcels sent %llu and by nng %llu, received %llu and by nng %llu",
            (unsigned long long)run->parcels_sent, (unsigned long long)run->nng_sent,
            (unsigned long long)run->parcels_received, (unsigned long long)run->nng_received);
    }
    return 0;
}

/* --- The end --------------------------------------------------------------------------------------------------- */

struct leftover {
    struct sn_rig *rig;
    const struct sn_soak_agent *agent;
    int is_any;
};

static int note_leftover(void *arg, const char *name)
{
    struct leftover *leftover = arg;
    leftover->is_any = 1;
    sn_verdict_fail(&leftover->rig->soak->verdict, "%s left %s in its run folder",
                    leftover->agent->name, name);
    return 0;
}

static int check_exit(struct sn_rig *rig, struct sn_soak_agent *agent, uint64_t deadline_ns)
{
    struct sn_soak *soak = rig->soak;
    int status = 0;
    uint64_t now_ns = sn_env_now_ns(soak->env);
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000000 : 0;
    enum sn_err err = sn_process_wait(soak->env, &agent->process, left_ms, &status);
    if (err != SN_OK || status != 0) {
        if (err != SN_OK) {
            sn_verdict_fail(&soak->verdict, "%s does not end on SIGTERM: %s; see %s", agent->name,
                            sn_err_text(err), agent->log);
        } else {
            sn_verdict_fail(&soak->verdict, "%s ended with status %d; see %s", agent->name, status,
                            agent->log);
        }
        return 0;
    }
    struct leftover leftover = {.rig = rig, .agent = agent};
    err = sn_env_folder_list(soak->env, agent->run, note_leftover, &leftover);
    if (err == SN_OK) return !leftover.is_any;
    sn_verdict_fail(&soak->verdict, "%s: %s", agent->run, sn_err_text(err));
    return 0;
}

static void disconnect(struct sn_soak_agent *agent)
{
    if (agent->is_connected) sn_control_disconnect(&agent->client);
    agent->is_connected = 0;
}

int sn_rig_stop(struct sn_rig *rig)
{
    uint64_t deadline_ns = sn_soak_deadline(rig->soak, EXIT_MS);
    disconnect(&rig->hub);
    disconnect(&rig->edge);
    sn_process_signal(&rig->hub.process, 15);
    sn_process_signal(&rig->edge.process, 15);
    int hub = check_exit(rig, &rig->hub, deadline_ns);
    int edge = check_exit(rig, &rig->edge, deadline_ns);
    return hub && edge;
}

static void free_agent(struct sn_rig *rig, struct sn_soak_agent *agent)
{
    disconnect(agent);
    sn_soak_kill(rig->soak, &agent->process);
    sn_strfree(agent->control);
    sn_strfree(agent->log);
    sn_strfree(agent->run);
    sn_strfree(agent->config);
}

struct sweep {
    struct sn_env *env;
    const char *folder;
};

static int remove_file(void *arg, const char *name)
{
    struct sweep *sweep = arg;
    char *path = sn_path_in(sweep->folder, name);
    enum sn_err err = path == NULL ? SN_ENOMEM : sn_env_file_remove(sweep->env, path);
    sn_strfree(path);
    return err != SN_OK; /* then the folder is not empty, and its removal fails */
}

static enum sn_err remove_folder(struct sn_rig *rig, const char *name)
{
    char *path = name == NULL ? sn_strdup(rig->folder) : sn_path_in(rig->folder, name);
    if (path == NULL) return SN_ENOMEM;
    struct sweep sweep = {.env = rig->soak->env, .folder = path};
    enum sn_err err = sn_env_folder_list(sweep.env, path, remove_file, &sweep);
    if (err == SN_OK) err = sn_process_remove_folder(sweep.env, path);
    sn_strfree(path);
    return err == SN_ENOENT ? SN_OK : err;
}

/* What agents leave behind is known, so that a path which went astray can do no harm. */
static void remove_folders(struct sn_rig *rig)
{
    static const char *const names[] = {"agents/north/hub/run",
                                        "agents/north/hub/data",
                                        "agents/north/hub",
                                        "agents/north",
                                        "agents/south/edge/run",
                                        "agents/south/edge/data",
                                        "agents/south/edge",
                                        "agents/south",
                                        "agents",
                                        NULL};
    for (unsigned i = 0; i < SN_ARRAY_COUNT(names); i++) {
        enum sn_err err = remove_folder(rig, names[i]);
        if (err == SN_OK) continue;
        sn_cli_error(rig->soak->cli, "%.300s/%s is left behind: %s", rig->folder,
                     names[i] == NULL ? "" : names[i], sn_err_text(err));
        return;
    }
}

void sn_rig_close(struct sn_rig *rig, int is_removed)
{
    free_agent(rig, &rig->hub);
    free_agent(rig, &rig->edge);
    if (is_removed && rig->folder != NULL) remove_folders(rig);
    sn_strfree(rig->folder);
    *rig = (struct sn_rig){0};
}
