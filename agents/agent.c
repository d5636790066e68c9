/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boot, run and drain of one agent.
 *
 * Order of the boot: signals, file, plugins' configuration, identity, folders and lock, threads and nng, epoch, actor
 * system and net, listeners, control socket, workers, `ready`. Everything that can be refused is refused before the
 * first worker runs.
 * Order of the end: actors are told to stop, the net waits for what is open or in flight (at most drain_ms), says
 * goodbye, the workers end, memory is given back, the process leaves by _exit. When that takes longer than drain_ms and
 * CUT_MS the main thread gives up; when it hangs itself, the thread that hears the signals does. Status 0 means that
 * the end was orderly.
 */
#include "agents/agent.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agents/cli.h"
#include "agents/reload.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "env/process.h"
#include "link/link_nng.h"
#include "log/log.h"
#include "plugin/host.h"

#define CUT_MS  1500u /* after drain_ms: what goodbye and closing links may take */
#define LAST_MS 3000u /* after that: what giving back memory may take, also under a sanitizer */

/* For what is open besides at any time: files, name service, the sockets of a first session. */
#define SPARE_DESCRIPTORS 8u

#define THREADS_HINT                                                                               \
    "raise the limit of threads (ulimit -u, TasksMax= of the service, the container's limit of "   \
    "pids), or that of memory (ulimit -v)"

static void complain(struct sn_env *env, const char *format, ...) SN_PRINTF(2, 3);

static void complain(struct sn_env *env, const char *format, ...)
{
    static const char prefix[] = "sennit agent: ";
    char data[1024];
    size_t used = sizeof prefix - 1;
    va_list args;
    memcpy(data, prefix, sizeof prefix);
    va_start(args, format);
    int size = vsnprintf(data + used, sizeof data - used, format, args);
    va_end(args);
    if (size > 0) used += (size_t)size;
    if (used > sizeof data - 2) used = sizeof data - 2; /* cut */
    data[used] = '\n';
    sn_env_print(env, 1, data, used + 1);
}

static int out_of_memory(struct sn_env *env)
{
    complain(env, "%s", sn_err_text(SN_ENOMEM));
    return SN_EXIT_FAILED;
}

/* As `sennit check` prints them: editors find the place. */
static void print_findings(struct sn_env *env, struct sn_findings *findings)
{
    char line[1024];
    sn_findings_sort(findings);
    for (uint32_t i = 0; i < findings->count; i++) {
        sn_finding_format(findings->items[i], line, sizeof line - 1);
        size_t size = strlen(line);
        line[size] = '\n';
        sn_env_print(env, 1, line, size + 1);
    }
    if (findings->total > findings->count) {
        complain(env, "... and %u more", findings->total - findings->count);
    }
    if (findings->no_memory) (void)out_of_memory(env); /* the caller knows the status */
}

/* --- Configuration -------------------------------------------------------------------------------------- */

static int load_file(struct sn_agent *agent, const char *path)
{
    struct sn_findings findings;
    char *text = NULL;
    size_t size = 0;
    int status = SN_EXIT_USAGE;
    enum sn_err err = sn_env_file_read(agent->env, path, SN_CONFIG_BYTES_MAX, &text, &size);
    sn_findings_init(&findings);
    if (err == SN_ETOOBIG) {
        sn_findings_add_too_large(&findings, path);
        print_findings(agent->env, &findings);
    } else if (err != SN_OK) {
        complain(agent->env, "%s: %s", path, sn_file_err_text(err));
    }
    if (err != SN_OK) {
        sn_findings_fini(&findings);
        return SN_EXIT_USAGE;
    }
    err = sn_agent_file_parse(text, size, path, &findings, &agent->file);
    if (err == SN_OK) {
        agent->path = path;
        agent->current = agent->file;
        agent->folder = sn_path_folder(path);
        if (agent->folder != NULL)
            agent->data_folder = sn_path_in(agent->folder, agent->file->data);
        if (agent->folder != NULL) agent->run_folder = sn_path_in(agent->folder, agent->file->run);
        if (agent->run_folder != NULL) {
            agent->control_path = sn_path_in(agent->run_folder, "control.sock");
        }
        int is_made = agent->data_folder != NULL && agent->control_path != NULL;
        atomic_store(&agent->drain_ms, agent->file->settings.drain_ms);
        status = is_made ? SN_EXIT_OK : out_of_memory(agent->env);
    } else {
        print_findings(agent->env, &findings);
        if (err == SN_ENOMEM) {
            status = findings.no_memory ? SN_EXIT_FAILED : out_of_memory(agent->env);
        }
    }
    sn_findings_fini(&findings);
    sn_free(text, size + 1);
    return status;
}

static int load_plugins(struct sn_agent *agent)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    enum sn_err err =
        sn_plugins_load(agent->env, agent->file, agent->folder, &findings, &agent->plugins);
    if (err != SN_OK) print_findings(agent->env, &findings);
    if (err != SN_OK && findings.total == 0 && !findings.no_memory) {
        complain(agent->env, "plugins: %s", sn_err_text(err));
    }
    sn_findings_fini(&findings);
    return err == SN_OK ? 0 : err == SN_EINVAL ? 2 : 1;
}

/* --- Folders, identity ---------------------------------------------------------------------------------- */

static int take_folders(struct sn_agent *agent)
{
    struct sn_folders_fault fault;
    int status =
        sn_folders_take(agent->env, agent->data_folder, agent->run_folder, &agent->folders, &fault);
    if (status != SN_EXIT_OK) complain(agent->env, "%s", fault.text);
    return status;
}

/* --- What the system must give -------------------------------------------------------------------------- */

static uint32_t worker_count_of(const struct sn_agent *agent)
{
    uint32_t count = agent->file->settings.workers;
    return count != 0 ? count : sn_env_cpu_count(agent->env);
}

static int lack(struct sn_agent *agent, enum sn_err err, const struct sn_process_room *room)
{
    if (err == SN_ENOFILES) {
        complain(agent->env,
                 "too few descriptors for an agent; raise the limit: ulimit -n, or LimitNOFILE= of "
                 "the service");
    } else if (err == SN_ENOMEM) {
        complain(agent->env, "only %u of %u threads can be made that an agent may need at once; %s",
                 room->threads, room->threads_wanted, THREADS_HINT);
    } else {
        complain(agent->env, "the agent cannot be set up: %s", sn_err_text(err));
    }
    return SN_EXIT_FAILED;
}

/* nng is started here because it crashes or hangs where it is refused a thread, and would otherwise start on a worker
 * with the first peer. What the pools and workers may need is looked for when nng has what it needs. */
static int start_nng(struct sn_agent *agent)
{
    struct sn_process_room room = {0};
    uint32_t workers = worker_count_of(agent);
    enum sn_err err = sn_process_probe(agent->env, SN_LINK_NNG_THREADS_MAX,
                                       SN_LINK_NNG_DESCRIPTORS_MAX + SPARE_DESCRIPTORS, &room);
    if (err == SN_OK) err = sn_link_nng_start();
    if (err == SN_OK) {
        uint32_t pools = sn_process_pool_threads(agent->env);
        err = sn_process_probe(agent->env, workers + pools, SPARE_DESCRIPTORS, &room);
    }
    return err == SN_OK ? SN_EXIT_OK : lack(agent, err, &room);
}

static int load_identity(struct sn_agent *agent)
{
    struct sn_identity_fault fault;
    enum sn_err err =
        sn_identity_load(agent->env, agent->file, agent->folder, &agent->identity, &fault);
    if (fault.text[0] != '\0') complain(agent->env, "%s", fault.text);
    if (err != SN_OK) return err == SN_ENOMEM ? SN_EXIT_FAILED : SN_EXIT_USAGE;
    agent->trust = (struct sn_trust){.mesh = agent->file->mesh,
                                     .authorities = agent->identity.authorities,
                                     .authority_count = agent->identity.authority_count,
                                     .pins = agent->identity.pins,
                                     .pin_count = agent->identity.pin_count};
    return 0;
}

enum sn_err sn_agent_access(const struct sn_agent_file *file, struct sn_access **out_access)
{
    struct sn_access *access = NULL;
    enum sn_err err = sn_access_new(&access);
    for (uint32_t i = 0; i < file->access_count && err == SN_OK; i++) {
        const struct sn_agent_access *rule = &file->access[i];
        for (uint32_t j = 0; j < sn_config_count(rule->types); j++) {
            for (uint32_t k = 0; k < sn_config_count(rule->from) && err == SN_OK; k++) {
                err = sn_access_allow(access, rule->actor,
                                      sn_config_text(sn_config_at(rule->types, j), ""),
                                      sn_config_text(sn_config_at(rule->from, k), ""));
            }
        }
    }
    if (err == SN_OK) {
        *out_access = access;
    } else {
        sn_access_free(access);
    }
    return err;
}

static int load_access(struct sn_agent *agent)
{
    enum sn_err err = sn_agent_access(agent->file, &agent->access);
    if (err == SN_OK) return SN_EXIT_OK;
    complain(agent->env, "access rules: %s", sn_err_text(err));
    return err == SN_ENOMEM ? SN_EXIT_FAILED : SN_EXIT_USAGE;
}

enum sn_err sn_agent_link(const struct sn_agent_link *from, struct sn_net_link *out_link)
{
    struct sn_net_link *link = out_link;
    *link = (struct sn_net_link){0};
    enum sn_err err = sn_text_copy(link->agent, sizeof link->agent, from->to, strlen(from->to));
    if (err == SN_OK && from->key != NULL) {
        link->has_key = 1;
        err = sn_key_id_parse(from->key, strlen(from->key), &link->key);
    }
    for (uint32_t i = 0; i < sn_config_count(from->address) && err == SN_OK; i++) {
        const char *text = sn_config_text(sn_config_at(from->address, i), "");
        if (link->address_count == SN_LINK_ADDRESSES_MAX) return SN_EFULL;
        err = sn_endpoint_parse(text, strlen(text), 0, &link->addresses[link->address_count++]);
    }
    return err;
}

static int load_links(struct sn_agent *agent)
{
    uint32_t count = agent->file->link_count;
    if (count == 0) return 0;
    agent->links = sn_alloc(count * sizeof *agent->links);
    if (agent->links == NULL) return out_of_memory(agent->env);
    for (uint32_t i = 0; i < count; i++) {
        enum sn_err err = sn_agent_link(&agent->file->links[i], &agent->links[i]);
        if (err == SN_OK) continue;
        complain(agent->env, "link to %s: %s", agent->file->links[i].to, sn_err_text(err));
        return 2;
    }
    return 0;
}

/* --- The system ---------------------------------------------------------------------------------------------- */

struct sn_agent *sn_agent_of(struct sn_ctx *ctx)
{
    return sn_net_owner(sn_net_of(sn_ctx_system(ctx)));
}

static void on_ready(void *arg)
{
    struct sn_agent *agent = sn_net_owner(arg);
    atomic_store(&agent->is_ready, 1);
    sn_env_print(agent->env, 1, "ready\n", 6);
}

static enum sn_err make_net(struct sn_agent *agent)
{
    const struct sn_settings *settings = &agent->file->settings;
    struct sn_net_config config = {
        .env = agent->env,
        .owner = agent,
        .self = {.env = agent->env,
                 .mesh = agent->file->mesh,
                 .agent = agent->file->agent,
                 .key = agent->identity.key,
                 .boot_key = agent->identity.boot_key,
                 .epoch = agent->identity.epoch,
                 .handshake_timeout_ms = settings->accept_timeout_ms,
                 .heartbeat_interval_ms = settings->heartbeat_interval_ms,
                 .heartbeat_deadline_ms = settings->heartbeat_deadline_ms},
        .trust = &agent->trust,
        .identity = agent->identity.tls,
        .access = agent->access,
        .link_provider = &sn_link_nng,
        .run_folder = agent->run_folder,
        .links = agent->links,
        .link_count = agent->file->link_count,
        .handshakes_max = settings->accept_handshakes,
        .handshakes_per_address_max = settings->accept_per_address,
        .reconnect_min_ms = settings->reconnect_min_ms,
        .reconnect_max_ms = settings->reconnect_max_ms,
        .resume_ms = settings->resume_ms,
        .memory_bytes = (uint64_t)settings->memory_mib << 20,
    };
    return sn_net_new(&config, agent->metrics, &agent->net);
}

static void on_actor_given_up(void *arg, struct sn_actor_ref actor, enum sn_err last)
{
    struct sn_agent *agent = sn_net_owner(arg);
    sn_plugins_actor_failed(&agent->plugins, agent->system, actor, last);
}

static enum sn_err make_system(struct sn_agent *agent)
{
    const struct sn_settings *settings = &agent->file->settings;
    uint32_t workers = worker_count_of(agent);
    enum sn_log_level level = SN_INFO;
    enum sn_err err = sn_log_level_parse(settings->log_level, &level);
    if (err == SN_OK) err = sn_metrics_new(workers + 1, &agent->metrics);
    if (err == SN_OK) err = make_net(agent);
    if (err != SN_OK) return err;
    struct sn_system_config config = {.env = agent->env,
                                      .host = &sn_host_table,
                                      .metrics = agent->metrics,
                                      .agent_name = agent->file->agent,
                                      .worker_count = workers,
                                      .log_level = level,
                                      .log_json = strcmp(settings->log_format, "json") == 0,
                                      .arg = agent->net,
                                      .remote = sn_net_remote,
                                      .actor_failed = sn_net_actor_failed,
                                      .ready = on_ready,
                                      .escalate = on_actor_given_up};
    err = sn_system_new(&config, &agent->system);
    if (err == SN_OK) err = sn_net_attach(agent->net, agent->system);
    if (err == SN_OK) agent->home = sn_system_worker(agent->system, 0);
    return err;
}

static enum sn_err spawn_actors(struct sn_agent *agent)
{
    struct sn_actor_ref ref;
    enum sn_err err = sn_control_register(agent->metrics, &agent->control_metrics);
    if (err == SN_OK) {
        err = sn_system_spawn(agent->system, &sn_control_actor, NULL, SN_METRICS_NONE, &ref);
    }
    if (err == SN_OK) {
        err = sn_system_spawn(agent->system, &sn_ping_actor, NULL, SN_METRICS_NONE, &ref);
    }
    if (err == SN_OK) {
        err = sn_plugins_spawn(&agent->plugins, agent->file, agent->metrics, agent->system);
    }
    if (err == SN_OK) sn_plugins_log(&agent->plugins, sn_system_logger(agent->home));
    return err;
}

static void complain_of_port(struct sn_agent *agent, const char *url, uint16_t port)
{
    char name[32];
    uint32_t pid = 0;
    if (sn_process_port_owner(agent->env, port, &pid, name, sizeof name) == SN_OK) {
        complain(agent->env, "listen %s: the port is taken by %s (pid %u)", url, name, pid);
    } else {
        complain(agent->env,
                 "listen %s: the port is taken by another program (as root, ss -ltnp shows which)",
                 url);
    }
}

static enum sn_err listen_one(struct sn_agent *agent, const char *url)
{
    static const char scheme[] = "tls://";
    struct sn_endpoint endpoint;
    struct sn_netaddr bound;
    SN_ASSERT(strncmp(url, scheme, sizeof scheme - 1) == 0); /* the schema saw to it */
    const char *text = url + sizeof scheme - 1;
    enum sn_err err = sn_endpoint_parse(text, strlen(text), 1, &endpoint);
    if (err == SN_OK && !endpoint.is_literal) {
        uint32_t count = 0;
        err = sn_env_resolve(agent->env, endpoint.host, endpoint.port, &endpoint.addr, 1, &count);
        if (err == SN_OK && count == 0) err = SN_ENOENT;
    }
    if (err == SN_OK) err = sn_net_listen(agent->net, &endpoint.addr, &bound);
    if (err == SN_EINUSE) {
        complain_of_port(agent, url, endpoint.addr.port);
    } else if (err != SN_OK) {
        complain(agent->env, "listen %s: %s", url,
                 err == SN_ENOENT         ? "there is no such host"
                 : err == SN_EPERM        ? "permission denied"
                 : err == SN_EUNREACHABLE ? "not an address of this machine"
                                          : sn_err_text(err));
    } else if (agent->bound_count < SN_ARRAY_COUNT(agent->bound)) {
        sn_netaddr_format(&bound, agent->bound[agent->bound_count++]);
    }
    return err;
}

static enum sn_err open_doors(struct sn_agent *agent)
{
    enum sn_err err = SN_OK;
    for (uint32_t i = 0; i < sn_config_count(agent->file->listen) && err == SN_OK; i++) {
        err = listen_one(agent, sn_config_text(sn_config_at(agent->file->listen, i), ""));
    }
    if (err != SN_OK) return err;
    err = sn_env_listen_unix(agent->env, agent->control_path, 0600, &agent->control_sock);
    if (err != SN_OK) {
        complain(agent->env, "%s: %s", agent->control_path,
                 err == SN_EINUSE ? "something stands there; remove it" : sn_file_err_text(err));
    }
    return err;
}

/* --- The end --------------------------------------------------------------------------------------------------- */

static void on_drained(void *arg)
{
    struct sn_agent *agent = arg;
    atomic_store(&agent->is_drained, 1);
    sn_env_unpark(agent->env);
}

/* Waits no longer for what is open; sessions still get CUT_MS to say goodbye and close their links. */
static void finish(struct sn_agent *agent)
{
    if (agent->is_finishing) return;
    agent->is_finishing = 1;
    sn_timer_stop(agent->home, &agent->drain_timer);
    sn_net_finish(agent->net);
}

static void on_drain_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sn_agent *agent = SN_CONTAINER_OF(timer, struct sn_agent, drain_timer);
    sn_logger_write(sn_system_logger(worker), SN_WARN, "DRAIN-CUT", "agent",
                    "hint=\"drain_ms is over; what is still open is cut off\"");
    finish(agent);
}

static void drain(struct sn_agent *agent)
{
    if (agent->is_draining) return;
    agent->is_draining = 1;
    sn_logger_write(sn_system_logger(agent->home), SN_INFO, "DRAINING", "agent", "drain_ms=%u",
                    agent->file->settings.drain_ms);
    sn_timer_start(agent->home, &agent->drain_timer,
                   sn_worker_refresh_now(agent->home) + agent->file->settings.drain_ms * SN_MS);
    sn_system_drain(agent->system);
    sn_net_drain(agent->net, on_drained, agent);
}

/* On home, at the start and for each request. The first one to end drains, the second one does not wait any longer. */
static void run_requests(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_agent *agent = SN_CONTAINER_OF(task, struct sn_agent, request_task);
    atomic_store(&agent->is_told,
                 0); /* before the requests are looked at: a later one posts again */
    (void)worker;    /* home */
    if (!sn_timer_is_started(&agent->expiry.timer)) sn_expiry_check(&agent->expiry);
    if (atomic_exchange(&agent->wants_reload, 0)) sn_agent_reload_logged(agent);
    if (atomic_load(&agent->stop_ns) != 0) drain(agent);
    if (atomic_load(&agent->hurry_ns) != 0) finish(agent);
}

/* --- Signals ------------------------------------------------------------------------------------------------- */

static void tell_home(struct sn_agent *agent)
{
    atomic_fetch_add(&agent->tellers, 1); /* before it is known whether home is there */
    if (atomic_load(&agent->is_running) && !atomic_exchange(&agent->is_told, 1)) {
        sn_worker_post(agent->home, &agent->request_task);
    } /* else start() looks again, or it is the end */
    atomic_fetch_sub(&agent->tellers, 1);
}

/* From here on home is told nothing: its workers are about to go. */
static void stop_telling(struct sn_agent *agent)
{
    atomic_store(&agent->is_running, 0);
    while (atomic_load(&agent->tellers) != 0) {
        enum sn_err err = sn_env_park(agent->env, UINT64_MAX); /* on_request unparks */
        (void)err; /* whatever it was, it is looked at again */
    }
}

/* On the loop `signals`. */
static void on_request(void *arg, enum sn_env_request request)
{
    struct sn_agent *agent = arg;
    if (request == SN_REQUEST_RELOAD) {
        if (!atomic_load(&agent->is_ready)) return; /* the file is being read, or just was */
        atomic_store(&agent->wants_reload, 1);
    } else if (atomic_load(&agent->stop_ns) == 0) {
        atomic_store(&agent->stop_ns, sn_env_now_ns(agent->env));
    } else if (atomic_load(&agent->hurry_ns) == 0) {
        atomic_store(&agent->hurry_ns, sn_env_now_ns(agent->env));
    }
    tell_home(agent);
    sn_env_unpark(agent->env);
}

/* When the end, once asked for, has taken long enough; UINT64_MAX while nobody asked. */
static uint64_t give_up_ns(struct sn_agent *agent)
{
    uint64_t stop_ns = atomic_load(&agent->stop_ns);
    uint64_t hurry_ns = atomic_load(&agent->hurry_ns);
    if (stop_ns == 0) return UINT64_MAX;
    uint64_t patient_ns = stop_ns + ((uint64_t)atomic_load(&agent->drain_ms) + CUT_MS) * SN_MS;
    uint64_t hasty_ns = hurry_ns == 0 ? UINT64_MAX : hurry_ns + CUT_MS * SN_MS;
    return patient_ns < hasty_ns ? patient_ns : hasty_ns;
}

/* The last resort, when the main thread cannot give up because it waits for something itself. */
static uint64_t watch_end(void *arg, uint64_t now_ns)
{
    struct sn_agent *agent = arg;
    uint64_t until_ns = give_up_ns(agent);
    if (until_ns == UINT64_MAX) return UINT64_MAX;
    until_ns += LAST_MS * SN_MS;
    if (now_ns < until_ns) return until_ns;
    complain(agent->env, "the end does not come to its end; the process leaves as it is");
    sn_process_exit(agent->env, SN_EXIT_FAILED);
}

static int hear_signals(struct sn_agent *agent)
{
    enum sn_err err = sn_env_loop_new(agent->env, "sn-signals", watch_end, agent, &agent->signals);
    if (err == SN_OK) err = sn_env_on_request(agent->env, agent->signals, on_request, agent);
    if (err == SN_OK) err = sn_env_loop_start(agent->env, agent->signals);
    struct sn_process_room room = {.threads_wanted = 1};
    return err == SN_OK ? SN_EXIT_OK : lack(agent, err, &room);
}

static int is_stopped(struct sn_agent *agent)
{
    return atomic_load(&agent->stop_ns) != 0;
}

/* Nonzero when everything ended as it should. */
static int wait_for_end(struct sn_agent *agent)
{
    for (;;) {
        uint64_t until_ns = give_up_ns(agent);
        uint64_t now_ns = sn_env_now_ns(agent->env);
        uint64_t left_ms = UINT64_MAX;
        if (atomic_load(&agent->is_drained)) return 1;
        if (now_ns >= until_ns) return 0;
        if (until_ns != UINT64_MAX) left_ms = (until_ns - now_ns) / SN_MS + 1;
        enum sn_err err = sn_env_park(agent->env, left_ms);
        (void)err; /* whatever it was, all is looked at again */
    }
}

static void remove_control_socket(struct sn_agent *agent)
{
    if (!agent->folders.has_run || agent->control_path == NULL) return;
    enum sn_err err = sn_env_file_remove(agent->env, agent->control_path);
    if (err != SN_OK && err != SN_ENOENT) {
        complain(agent->env, "%s: %s", agent->control_path, sn_file_err_text(err));
    }
}

static void free_agent(struct sn_agent *agent)
{
    stop_telling(agent);
    sn_agent_reload_wait(agent);
    if (agent->system != NULL) sn_system_stop(agent->system);
    sn_agent_reload_abandon(agent);
    if (agent->is_draining) sn_timer_stop(agent->home, &agent->drain_timer);
    sn_expiry_stop(&agent->expiry);
    sn_net_free(agent->net);
    sn_system_free(agent->system);
    sn_metrics_free(agent->metrics);
    sn_plugins_free(&agent->plugins);
    sn_access_free(agent->access);
    if (agent->file != NULL) sn_free(agent->links, agent->file->link_count * sizeof *agent->links);
    if (sn_sock_is_open(agent->control_sock)) sn_env_close(agent->env, agent->control_sock);
    remove_control_socket(agent);
    sn_folders_leave(agent->env, &agent->folders);
    sn_identity_free(&agent->identity);
    if (agent->current != agent->file) sn_agent_file_free(agent->current);
    while (agent->kept != NULL) {
        struct sn_agent_file *kept = agent->kept;
        agent->kept = kept->former;
        sn_agent_file_free(kept);
    }
    sn_agent_file_free(agent->file);
    sn_strfree(agent->folder);
    sn_strfree(agent->data_folder);
    sn_strfree(agent->run_folder);
    sn_strfree(agent->control_path);
    sn_env_loop_free(agent->env, agent->signals); /* last: until here it watches over the end */
}

static int boot(struct sn_agent *agent, const char *path)
{
    char text[SN_IDENTITY_TEXT_MAX] = "";
    int status = hear_signals(agent);
    if (status == 0) status = load_file(agent, path);
    if (status == 0) status = load_plugins(agent);
    if (status == 0) status = load_identity(agent);
    if (status == 0) status = load_access(agent);
    if (status == 0) status = load_links(agent);
    if (status == 0) status = take_folders(agent);
    if (status == 0) status = start_nng(agent);
    if (status != 0 || is_stopped(agent)) return status;
    enum sn_err err = sn_identity_next_epoch(agent->env, agent->data_folder, &agent->identity.epoch,
                                             text, sizeof text);
    if (err != SN_OK) {
        complain(agent->env, "%s", text[0] != '\0' ? text : sn_err_text(err));
        return 1;
    }
    err = make_system(agent);
    if (err == SN_OK) err = spawn_actors(agent);
    if (err != SN_OK) {
        complain(agent->env, "the agent cannot be set up: %s", sn_err_text(err));
        return 1;
    }
    return open_doors(agent) == SN_OK ? 0 : 1;
}

static int start(struct sn_agent *agent)
{
    sn_timer_init(&agent->drain_timer, on_drain_timer);
    sn_expiry_init(&agent->expiry, agent);
    agent->request_task.run = run_requests;
    enum sn_err err = sn_system_start(agent->system);
    if (err != SN_OK) {
        complain(agent->env, "the agent cannot start: %s; %s", sn_err_text(err), THREADS_HINT);
        return 1;
    }
    sn_net_start(agent->net);
    atomic_store(&agent->is_running, 1);
    tell_home(agent); /* of what came before it could be told, too */
    return 0;
}

int sn_agent_run(struct sn_env *env, const char *path)
{
    struct sn_agent *agent = sn_alloc(sizeof *agent);
    if (agent == NULL) return out_of_memory(env);
    agent->env = env;
    agent->control_sock = SN_SOCK_NONE;
    agent->started_ns = sn_env_now_ns(env);
    int status = boot(agent, path);
    if (status == 0 && !is_stopped(agent)) {
        status = start(agent);
        if (status == 0 && !wait_for_end(agent)) {
            /* A worker hangs, or holds links in the middle of their closing order: the process leaves as it is. */
            complain(env,
                     "not everything has ended in drain_ms and %u ms; the process leaves as it "
                     "is, with status 1",
                     CUT_MS);
            remove_control_socket(
                agent); /* the locks end with the process, not before its workers */
            return SN_EXIT_CUT;
        }
    }
    free_agent(agent);
    sn_free(agent, sizeof *agent);
    return status;
}
