/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak: runs a scenario with real agents and writes the verdict.
 * Guarantees: everything is written below the folder that was given, which was empty; no process that was started is
 * left, whatever happened; the verdict is written whenever a start was tried.
 */
#include <string.h>

#include "agents/cli_key.h"
#include "agents/identity.h"
#include "agents/soak/relay.h"
#include "agents/soak/soak.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

#define NS_PER_MS   1000000u
#define KILL_MS     5000u
#define BUSY_MAX_MS 86400000u

#define SIGNAL_KILL  9
#define SIGNAL_GO_ON 18
#define SIGNAL_STOP  19

/* --- Time and children --------------------------------------------------------------------------------------- */

/* An interrupt unparks, whoever waits next takes note. */
void sn_soak_pause(struct sn_soak *soak, uint64_t ms)
{
    if (soak->is_cancelled || sn_env_park(soak->env, ms) != SN_OK) return;
    soak->is_cancelled = 1;
    sn_verdict_interrupt(&soak->verdict);
}

uint64_t sn_soak_deadline(struct sn_soak *soak, uint64_t ms)
{
    return sn_env_now_ns(soak->env) + ms * NS_PER_MS;
}

int sn_soak_is_over(struct sn_soak *soak, uint64_t deadline_ns)
{
    sn_soak_pause(soak, 0);
    return soak->is_cancelled || sn_env_now_ns(soak->env) >= deadline_ns;
}

uint64_t sn_soak_elapsed_ms(struct sn_soak *soak, uint64_t since_ns)
{
    return (sn_env_now_ns(soak->env) - since_ns) / NS_PER_MS;
}

void sn_soak_kill(struct sn_soak *soak, struct sn_process *process)
{
    int status = 0;
    if (process->pid == 0) return;
    sn_process_signal(process, SIGNAL_GO_ON); /* a stopped process would not end */
    sn_process_signal(process, SIGNAL_KILL);
    enum sn_err err = sn_process_wait(soak->env, process, KILL_MS, &status);
    if (err != SN_OK) {
        sn_cli_error(soak->cli, "process %d is left behind: %s", (int)process->pid,
                     sn_err_text(err));
    }
}

/* splitmix64, eight bytes a step. */
void sn_soak_fill(uint64_t seed, uint8_t *out, size_t size)
{
    uint64_t state = seed;
    while (size > 0) {
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        size_t step = size < sizeof z ? size : sizeof z;
        memcpy(out, &z, step);
        out += step;
        size -= step;
    }
}

static void on_request(void *arg, enum sn_env_request request)
{
    struct sn_soak *soak = arg;
    (void)request; /* a terminal that is gone is a reason to end, too */
    sn_env_unpark(soak->env);
}

static uint64_t idle(void *arg, uint64_t now_ns)
{
    (void)arg;
    (void)now_ns; /* the loop is there for signals only */
    return UINT64_MAX;
}

static enum sn_err hear_signals(struct sn_soak *soak)
{
    enum sn_err err = sn_env_loop_new(soak->env, "soak", idle, NULL, &soak->loop);
    if (err == SN_OK) err = sn_env_on_request(soak->env, soak->loop, on_request, soak);
    if (err == SN_OK) err = sn_env_loop_start(soak->env, soak->loop);
    return err;
}

/* `sennit soak --busy MS`: what a busy process is. It ends by itself if its runner cannot end it. */
static int be_busy(struct sn_cli *cli, uint64_t ms)
{
    sn_process_end_on_signals(cli->env); /* it waits for nothing that would let them through */
    uint64_t until_ns = sn_env_now_ns(cli->env) + ms * NS_PER_MS;
    while (sn_env_now_ns(cli->env) < until_ns) continue;
    return SN_EXIT_OK;
}

/* `sennit soak --relay PORT --to PORT`: what a link that can die is. Says when it listens. */
static int be_relay(struct sn_cli *cli, const struct sn_relay_config *config)
{
    struct sn_relay *relay = NULL;
    enum sn_err err = sn_relay_new(cli->env, config, &relay);
    if (err != SN_OK) {
        sn_cli_error(cli, "relay: %s", sn_err_text(err));
        return SN_EXIT_FAILED;
    }
    sn_cli_print(cli, "relay on port %u\n", config->port);
    while (sn_env_park(cli->env, BUSY_MAX_MS) != SN_OK) continue; /* until it is told to end */
    sn_relay_free(relay);
    return SN_EXIT_OK;
}

static enum sn_err start_busy(struct sn_soak *soak)
{
    char ms[24];
    struct sn_text text;
    uint64_t busy_ms = (uint64_t)soak->scenario.timeout_ms * (soak->scenario.starts + 1u);
    char *log = sn_path_in(soak->out, "busy.log");
    if (log == NULL) return SN_ENOMEM;
    sn_text_init(&text, ms, sizeof ms);
    sn_text_add(&text, "%llu", (unsigned long long)(busy_ms > BUSY_MAX_MS ? BUSY_MAX_MS : busy_ms));
    const char *const argv[] = {soak->self, "soak", "--busy", ms, NULL};
    enum sn_err err = SN_OK;
    for (uint32_t i = 0; i < soak->scenario.busy && err == SN_OK; i++) {
        err = sn_process_start(soak->env, argv, log, SN_SOAK_CHILD, &soak->busy[i]);
        if (err == SN_OK) sn_process_signal(&soak->busy[i], SIGNAL_STOP); /* until all are there */
    }
    for (uint32_t i = 0; i < soak->scenario.busy && err == SN_OK; i++) {
        sn_process_signal(&soak->busy[i], SIGNAL_GO_ON);
    }
    sn_strfree(log);
    return err;
}

/* All at once: each needs a processor for its end, too. */
static void end_busy(struct sn_soak *soak)
{
    for (uint32_t i = 0; i < SN_SOAK_BUSY_MAX; i++) {
        if (soak->busy[i].pid != 0) sn_process_signal(&soak->busy[i], SIGNAL_KILL);
    }
    for (uint32_t i = 0; i < SN_SOAK_BUSY_MAX; i++) sn_soak_kill(soak, &soak->busy[i]);
}

/* --- Starts --------------------------------------------------------------------------------------------------- */

static void tell(struct sn_soak *soak, const struct sn_soak_run *run)
{
    char line[256];
    struct sn_text text;
    sn_text_init(&text, line, sizeof line);
    sn_text_add(&text,
                "start %u/%u  %s  ready %llu ms, done %llu ms  sent %llu delivered %llu lost %llu "
                "doubled %llu reordered %llu altered %llu\n",
                soak->verdict.run_count, soak->scenario.starts, run->pass ? "pass" : "FAIL",
                (unsigned long long)run->ready_ms, (unsigned long long)run->duration_ms,
                (unsigned long long)run->counts.sent, (unsigned long long)run->counts.delivered,
                (unsigned long long)run->counts.lost, (unsigned long long)run->counts.doubled,
                (unsigned long long)run->counts.reordered, (unsigned long long)run->counts.altered);
    sn_env_print(soak->env, 1, text.data, text.size);
}

static void run_once(struct sn_soak *soak, struct sn_soak_tunnel *tunnel)
{
    struct sn_soak_verdict *verdict = &soak->verdict;
    struct sn_soak_run *run = &verdict->runs[verdict->run_count];
    struct sn_rig rig;
    uint64_t begin_ns = sn_env_now_ns(soak->env);
    uint32_t failures_before = verdict->failure_count;
    run->is_edge_first = verdict->run_count % 2 == 1;
    int is_fine = sn_rig_open(soak, verdict->run_count + 1, tunnel->port, &rig);
    if (is_fine) is_fine = sn_rig_start(&rig, run->is_edge_first);
    run->ready_ms = sn_soak_elapsed_ms(soak, begin_ns);
    if (is_fine) {
        switch (soak->scenario.kind) {
        case SN_SOAK_DELIVERY: is_fine = sn_soak_delivery_run(&rig, run); break;
        case SN_SOAK_TUNNEL: is_fine = sn_soak_tunnel_run(&rig, tunnel, run); break;
        case SN_SOAK_FLAP: is_fine = sn_soak_flap_run(&rig, tunnel, run); break;
        }
        is_fine &= sn_rig_stop(&rig);
    }
    if (soak->is_cancelled) {
        run->counts.lost = 0; /* what was under way was given up by us */
        is_fine = 0;
    }
    if (verdict->failure_count > failures_before) is_fine = 0;
    SN_ASSERT(is_fine || verdict->failure_count > failures_before);
    sn_rig_close(&rig, is_fine && !soak->is_kept);
    run->pass = (uint8_t)is_fine;
    run->duration_ms = sn_soak_elapsed_ms(soak, begin_ns);
    verdict->run_count++;
    tell(soak, run);
}

static int run_all(struct sn_soak *soak)
{
    struct sn_soak_tunnel tunnel = {.listener = SN_SOCK_NONE};
    enum sn_err err = hear_signals(soak);
    if (err == SN_OK && soak->scenario.kind != SN_SOAK_DELIVERY) {
        err = sn_soak_tunnel_open(soak, &tunnel);
    }
    if (err == SN_OK) err = start_busy(soak);
    if (err != SN_OK) sn_verdict_fail(&soak->verdict, "cannot set up: %s", sn_err_text(err));
    while (err == SN_OK && !soak->is_cancelled && soak->verdict.run_count < soak->scenario.starts) {
        run_once(soak, &tunnel);
    }
    end_busy(soak);
    sn_soak_tunnel_close(soak, &tunnel);
    sn_env_loop_free(soak->env, soak->loop);
    return sn_verdict_is_pass(&soak->verdict);
}

/* --- The command ------------------------------------------------------------------------------------------------ */

static int load_scenario(struct sn_soak *soak, const char *file)
{
    struct sn_findings findings;
    char *data = NULL;
    size_t size = 0;
    if (!sn_cli_read(soak->cli, file, &data, &size)) return SN_EXIT_USAGE;
    sn_findings_init(&findings);
    enum sn_err err = sn_scenario_parse(data, size, file, &findings, &soak->scenario);
    if (err == SN_EINVAL) sn_cli_findings(soak->cli, &findings);
    if (err == SN_ENOMEM) sn_cli_error(soak->cli, "%s", sn_err_text(err));
    sn_findings_fini(&findings);
    sn_free(data, size + 1);
    return err == SN_OK ? SN_EXIT_OK : err == SN_ENOMEM ? SN_EXIT_FAILED : SN_EXIT_USAGE;
}

static int note_entry(void *arg, const char *name)
{
    int *is_used = arg;
    (void)name; /* any */
    *is_used = 1;
    return 1;
}

static int prepare_folder(struct sn_soak *soak)
{
    struct sn_key_id id;
    int is_used = 0;
    enum sn_err err = sn_env_folder_list(soak->env, soak->out, note_entry, &is_used);
    if (err == SN_OK && is_used) {
        sn_cli_error(soak->cli, "%.300s is not empty; name a new folder", soak->out);
        return SN_EXIT_USAGE;
    }
    if (err == SN_ENOENT) err = sn_env_folder_make(soak->env, soak->out, 0700);
    if (err != SN_OK) {
        sn_cli_error(soak->cli, "%.300s: %s", soak->out, sn_err_text(err));
        return SN_EXIT_USAGE;
    }
    char *path = sn_path_in(soak->out, "authority.key");
    err = path == NULL ? SN_ENOMEM : sn_cli_key_create(soak->env, path, &id);
    if (err == SN_OK) err = sn_process_self(soak->env, soak->self, sizeof soak->self);
    if (err != SN_OK) sn_cli_error(soak->cli, "%.300s: %s", soak->out, sn_err_text(err));
    sn_strfree(path);
    return err == SN_OK ? SN_EXIT_OK : SN_EXIT_FAILED;
}

static enum sn_err write_verdict(struct sn_soak *soak)
{
    char *text = NULL;
    size_t size = 0, capacity = 0;
    char *path = sn_path_in(soak->out, "verdict.json");
    enum sn_err err = path == NULL ? SN_ENOMEM : SN_OK;
    if (err == SN_OK) err = sn_verdict_json(&soak->verdict, &text, &size, &capacity);
    if (err == SN_OK) err = sn_env_file_create(soak->env, path, 0644, text, size);
    sn_free(text, capacity);
    sn_strfree(path);
    return err;
}

static void tell_verdict(struct sn_soak *soak)
{
    const struct sn_soak_verdict *verdict = &soak->verdict;
    for (uint32_t i = 0; i < verdict->failure_count && i < SN_SOAK_FAILURES_MAX; i++) {
        sn_cli_error(soak->cli, "%s", verdict->failures[i]);
    }
    sn_cli_print(soak->cli, "%s: %u of %u starts, seed %llu, %llu ms; see %s/verdict.json\n",
                 sn_verdict_is_pass(verdict) ? "pass" : "FAIL", verdict->run_count,
                 soak->scenario.starts, (unsigned long long)soak->seed,
                 (unsigned long long)verdict->duration_ms, soak->out);
}

static int run_scenario(struct sn_soak *soak)
{
    uint64_t begin_ns = sn_env_now_ns(soak->env);
    enum sn_err err = sn_verdict_init(&soak->verdict, &soak->scenario, soak->seed);
    if (err != SN_OK) {
        sn_cli_error(soak->cli, "%s", sn_err_text(err));
        return SN_EXIT_FAILED;
    }
    int is_pass = run_all(soak);
    soak->verdict.duration_ms = sn_soak_elapsed_ms(soak, begin_ns);
    err = write_verdict(soak);
    if (err != SN_OK) {
        sn_cli_error(soak->cli, "%.300s/verdict.json: %s", soak->out, sn_err_text(err));
        is_pass = 0;
    }
    tell_verdict(soak);
    sn_verdict_fini(&soak->verdict);
    return is_pass ? SN_EXIT_OK : SN_EXIT_FAILED;
}

enum option_index {
    OPT_OUT,
    OPT_SEED,
    OPT_KEEP,
    OPT_BUSY, /* the following are for what the command starts itself */
    OPT_RELAY,
    OPT_TO,
    OPT_SIDE,
    OPT_KIB,
    OPT_COUNT
};

static int is_helper(const struct sn_option *options)
{
    for (int i = OPT_BUSY; i < OPT_COUNT; i++) {
        if (options[i].is_given) return 1;
    }
    return 0;
}

/* What a soak starts besides agents. Returns an exit status. */
static int run_helper(struct sn_cli *cli, const struct sn_option *options)
{
    uint64_t busy_ms = 0, port = 0, to = 0, side = 0, kib = 0;
    if (!sn_cli_number(cli, &options[OPT_BUSY], 1, BUSY_MAX_MS, 0, &busy_ms) ||
        !sn_cli_number(cli, &options[OPT_RELAY], 1, UINT16_MAX, 0, &port) ||
        !sn_cli_number(cli, &options[OPT_TO], 1, UINT16_MAX, 0, &to) ||
        !sn_cli_number(cli, &options[OPT_SIDE], 0, SN_RELAY_FAR, 0, &side) ||
        !sn_cli_number(cli, &options[OPT_KIB], 0, UINT32_MAX, 0, &kib)) {
        return SN_EXIT_USAGE;
    }
    if ((busy_ms == 0) != (port != 0) || (port == 0) != (to == 0)) return sn_cli_usage(cli);
    if (busy_ms != 0) return be_busy(cli, busy_ms);
    const struct sn_relay_config config = {.port = (uint16_t)port,
                                           .to_port = (uint16_t)to,
                                           .first_side = (uint8_t)side,
                                           .kib = (uint32_t)kib};
    return be_relay(cli, &config);
}

static int soak_with(struct sn_cli *cli, const struct sn_option *options, const char *file,
                     uint64_t seed)
{
    struct sn_soak *soak = sn_alloc(sizeof *soak);
    if (soak == NULL) {
        sn_cli_error(cli, "%s", sn_err_text(SN_ENOMEM));
        return SN_EXIT_FAILED;
    }
    soak->cli = cli;
    soak->env = cli->env;
    soak->out = options[OPT_OUT].value;
    soak->seed = seed;
    soak->is_kept = options[OPT_KEEP].is_given;
    int status = load_scenario(soak, file);
    if (status == SN_EXIT_OK) status = prepare_folder(soak);
    if (status == SN_EXIT_OK) status = run_scenario(soak);
    sn_free(soak, sizeof *soak);
    return status;
}

int sn_cmd_soak(struct sn_cli *cli)
{
    struct sn_option options[OPT_COUNT] = {[OPT_OUT] = {.name = "--out", .takes_value = 1},
                                           [OPT_SEED] = {.name = "--seed", .takes_value = 1},
                                           [OPT_KEEP] = {.name = "--keep"},
                                           [OPT_BUSY] = {.name = "--busy", .takes_value = 1},
                                           [OPT_RELAY] = {.name = "--relay", .takes_value = 1},
                                           [OPT_TO] = {.name = "--to", .takes_value = 1},
                                           [OPT_SIDE] = {.name = "--side", .takes_value = 1},
                                           [OPT_KIB] = {.name = "--kib", .takes_value = 1}};
    const char *file = NULL;
    uint64_t seed = 0;
    uint32_t random = 0;
    int count = sn_cli_parse(cli, options, SN_ARRAY_COUNT(options), &file, 1);
    if (count < 0) return SN_EXIT_USAGE;
    sn_env_random(cli->env, &random, sizeof random);
    if (!sn_cli_number(cli, &options[OPT_SEED], 0, INT64_MAX, random, &seed)) return SN_EXIT_USAGE;
    if (is_helper(options)) return count == 0 ? run_helper(cli, options) : sn_cli_usage(cli);
    if (count != 1 || !options[OPT_OUT].is_given) return sn_cli_usage(cli);
    return soak_with(cli, options, file, seed);
}
