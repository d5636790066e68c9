/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps: read and judged (pool) -> net has rules and links (home) -> every actor has its configuration (home)
 * -> the former file is freed.
 *
 * The file of the boot stays for ever: names in it are borrowed by the net and the system. So do all while there is a
 * plugin that does not know that configurations change. Plugins' actors all get the
 * configuration anew, changed or not, because they refer to the file that it stands in.
 */
#include "agents/reload.h"

#include <stdio.h>
#include <string.h>

#include "agents/cli.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "config/equal.h"
#include "config/tree.h"
#include "log/log.h"

struct sn_reload {
    struct sn_agent *agent;
    struct sn_task task; /* from step to step, always to home */
    struct sn_agent_file *file;
    struct sn_access *access;
    struct sn_net_link *links;
    struct sn_identity *identity; /* NULL: the certificate is the one of before */
    struct sn_findings findings;
    enum sn_err err;          /* of reading */
    _Atomic uint32_t pending; /* actors. Partner: whoever ends the last tells home */
    void (*done)(void *arg, const struct sn_reload_result *result);
    void *arg;
};

static void free_links(struct sn_reload *reload)
{
    uint32_t count = reload->file == NULL ? 0 : reload->file->link_count;
    sn_free(reload->links, count * sizeof *reload->links);
    reload->links = NULL;
}

static void free_identity(struct sn_reload *reload)
{
    if (reload->identity == NULL) return;
    sn_identity_free(reload->identity);
    sn_free(reload->identity, sizeof *reload->identity);
    reload->identity = NULL;
}

static void free_reload(struct sn_reload *reload)
{
    free_links(reload);
    free_identity(reload);
    sn_access_free(reload->access);
    sn_agent_file_free(reload->file);
    sn_findings_fini(&reload->findings);
    sn_free(reload, sizeof *reload);
}

static void log_result(struct sn_agent *agent, const struct sn_reload_result *result)
{
    struct sn_logger *logger = sn_system_logger(agent->home);
    char line[SN_FINDING_MESSAGE_MAX];
    if (result->status == SN_EXIT_OK) {
        sn_logger_write(logger, SN_INFO, "RELOADED", "agent", "file=%s", agent->path);
        return;
    }
    sn_logger_write(logger, SN_ERROR, "RELOAD-REFUSED", "agent", "file=%s findings=%u text=\"%s\"",
                    agent->path, result->findings->total, result->text);
    for (uint32_t i = 0; i < result->findings->count; i++) {
        sn_finding_format(result->findings->items[i], line, sizeof line);
        sn_logger_write(logger, SN_ERROR, "RELOAD-FINDING", "agent", "text=\"%s\"", line);
    }
}

static void finish(struct sn_reload *reload, int status, const char *text)
{
    struct sn_reload_result result = {
        .status = status, .findings = &reload->findings, .text = text};
    sn_findings_sort(&reload->findings);
    log_result(reload->agent, &result);
    reload->agent->reload = NULL;
    reload->done(reload->arg, &result);
    free_reload(reload);
}

/* --- Comparing, on a pool: `current` does not change while a reload is under way ---------------------------- */

static void need_restart(struct sn_reload *reload, const struct sn_config_node *node)
{
    sn_findings_add_key(&reload->findings, node, "changed: this needs a restart of the agent");
}

/* A plugin may change its configuration only. */
static void compare_plugins(struct sn_reload *reload, const struct sn_agent_file *now)
{
    const struct sn_agent_file *next = reload->file;
    if (next->plugin_count != now->plugin_count) {
        const struct sn_config_node *node = sn_config_get(sn_config_root(next->tree), "plugins");
        if (node != NULL) {
            need_restart(reload, node);
        } else {
            sn_findings_add(&reload->findings, reload->agent->path, (struct sn_config_pos){1, 1},
                            "plugins", "removed: this needs a restart of the agent");
        }
        return;
    }
    for (uint32_t i = 0; i < next->plugin_count; i++) {
        static const char *const skipped[] = {"config", NULL};
        const struct sn_config_node *differing =
            sn_config_difference(now->plugins[i].node, next->plugins[i].node, skipped);
        if (differing != NULL) need_restart(reload, differing);
    }
}

/* What a running agent cannot change. */
static void compare(struct sn_reload *reload)
{
    static const char *const skipped[] = {"access", "links", "plugins", NULL};
    const struct sn_agent_file *now = reload->agent->current;
    const struct sn_config_node *root = sn_config_root(reload->file->tree);
    const struct sn_config_node *differing =
        sn_config_difference(sn_config_root(now->tree), root, skipped);
    if (differing != NULL) need_restart(reload, differing);
    compare_plugins(reload, now);
}

/* --- Reading: on a pool --------------------------------------------------------------------------------- */

static void blame_identity(struct sn_reload *reload, const struct sn_identity_fault *fault)
{
    const struct sn_config_node *root = sn_config_root(reload->file->tree);
    const struct sn_config_node *node =
        fault->field == NULL ? NULL : sn_config_get(root, fault->field);
    sn_findings_add_node(&reload->findings, node != NULL ? node : root, "%s", fault->text);
}

/* Peers would refuse one that does not verify, which is no progress; another key is another boot. */
static void judge_identity(struct sn_reload *reload, const struct sn_identity *identity,
                           struct sn_identity_fault *fault)
{
    const struct sn_identity *now = &reload->agent->identity;
    if (!sn_key_id_is_equal(&identity->id, &now->id)) {
        *fault = (struct sn_identity_fault){
            "key", "the file holds another key: this needs a restart of the agent"};
        blame_identity(reload, fault);
    } else if (identity->cert_size == now->cert_size &&
               memcmp(identity->cert_bytes, now->cert_bytes, now->cert_size) == 0) {
        free_identity(reload);
    } else if (fault->text[0] != '\0') {
        blame_identity(reload, fault);
    }
}

/* The certificate may be a new one. */
static enum sn_err read_identity(struct sn_reload *reload)
{
    struct sn_agent *agent = reload->agent;
    struct sn_identity_fault fault;
    struct sn_identity *identity = sn_alloc(sizeof *identity);
    if (identity == NULL) return SN_ENOMEM;
    enum sn_err err = sn_identity_load(agent->env, reload->file, agent->folder, identity, &fault);
    if (err != SN_OK) {
        sn_free(identity, sizeof *identity);
        if (err == SN_ENOMEM) return err;
        blame_identity(reload, &fault);
        return SN_EINVAL;
    }
    reload->identity = identity;
    judge_identity(reload, identity, &fault);
    return SN_OK;
}

static enum sn_err read_file(struct sn_reload *reload)
{
    struct sn_agent *agent = reload->agent;
    char *text = NULL;
    size_t size = 0;
    enum sn_err err = sn_env_file_read(agent->env, agent->path, SN_CONFIG_BYTES_MAX, &text, &size);
    if (err == SN_ETOOBIG) {
        sn_findings_add_too_large(&reload->findings, agent->path);
        return SN_EINVAL;
    }
    if (err != SN_OK) {
        sn_findings_add(&reload->findings, agent->path, (struct sn_config_pos){1, 1}, ".", "%s",
                        sn_file_err_text(err));
        return err == SN_ENOMEM ? err : SN_EINVAL;
    }
    err = sn_agent_file_parse(text, size, agent->path, &reload->findings, &reload->file);
    sn_free(text, size + 1);
    if (err != SN_OK) return err;
    /* First: of another plugin's file, what this one thinks of its configuration would mislead. */
    compare(reload);
    if (reload->findings.total == 0) err = read_identity(reload);
    if (err == SN_OK && reload->findings.total == 0) {
        err = sn_plugins_check(&agent->plugins, reload->file, &reload->findings);
    }
    return err;
}

static enum sn_err prepare(struct sn_reload *reload)
{
    uint32_t count = reload->file->link_count;
    enum sn_err err = sn_agent_access(reload->file, &reload->access);
    if (err != SN_OK || count == 0) return err;
    reload->links = sn_alloc(count * sizeof *reload->links);
    if (reload->links == NULL) return SN_ENOMEM;
    for (uint32_t i = 0; i < count && err == SN_OK; i++) {
        err = sn_agent_link(&reload->file->links[i], &reload->links[i]);
    }
    return err;
}

static void judge(struct sn_task *task, struct sn_worker *worker);

static void read_job(void *arg)
{
    struct sn_reload *reload = arg;
    reload->err = read_file(reload);
    if (reload->err == SN_OK) reload->err = prepare(reload);
    reload->task.run = judge;
    struct sn_agent *agent = reload->agent;
    struct sn_env *env = agent->env;
    sn_worker_post(agent->home, &reload->task); /* the reload may be gone now */
    atomic_store(&agent->is_reading, 0);        /* and the agent, which waits for this */
    sn_env_unpark(env);
}

/* --- Applying --------------------------------------------------------------------------------------------------- */

static void on_net(void *arg);

static void judge(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_reload *reload = SN_CONTAINER_OF(task, struct sn_reload, task);
    (void)worker; /* home */
    if (reload->err == SN_EINVAL || reload->findings.total > 0) {
        finish(reload, SN_EXIT_USAGE, "the file is refused, and nothing has changed");
        return;
    }
    enum sn_err err = reload->err;
    struct sn_net_changes changes = {.access = reload->access,
                                     .links = reload->links,
                                     .link_count = reload->file->link_count,
                                     .identity =
                                         reload->identity == NULL ? NULL : reload->identity->tls};
    if (err == SN_OK) err = sn_net_reload(reload->agent->net, &changes, on_net, reload);
    if (err != SN_OK) finish(reload, SN_EXIT_FAILED, sn_err_text(err));
}

/* One of ABI 0.0 does not know SN_EVENT_CONFIG: it keeps what it was given. */
static int has_deaf_plugin(const struct sn_agent *agent)
{
    for (uint32_t i = 0; i < agent->plugins.count; i++) {
        const struct sn_plugin *plugin = sn_plugins_at(&agent->plugins, i);
        if (plugin != NULL && plugin->abi_minor == 0) return 1;
    }
    return 0;
}

static void complete(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_reload *reload = SN_CONTAINER_OF(task, struct sn_reload, task);
    struct sn_agent *agent = reload->agent;
    (void)worker; /* home */
    struct sn_agent_file *former = agent->current;
    free_links(reload);
    agent->current = reload->file;
    reload->file = NULL;
    if (former != agent->file) {
        if (has_deaf_plugin(agent)) {
            former->former = agent->kept;
            agent->kept = former;
        } else {
            reload->file = former; /* freed with the reload */
        }
    }
    finish(reload, SN_EXIT_OK, "");
}

static void actor_done(void *arg)
{
    struct sn_reload *reload = arg;
    if (atomic_fetch_sub(&reload->pending, 1) != 1) return;
    reload->task.run = complete;
    sn_worker_post(reload->agent->home, &reload->task);
}

static void on_net(void *arg)
{
    struct sn_reload *reload = arg;
    struct sn_agent *agent = reload->agent;
    struct sn_access *former = agent->access;
    agent->access = reload->access;
    reload->access = former; /* freed with the reload */
    if (reload->identity != NULL) {
        sn_identity_renew(&agent->identity, reload->identity);
        free_identity(reload);
        sn_expiry_check(&agent->expiry);
    }
    atomic_store(&reload->pending, 1); /* this function, until all were sent */
    for (uint32_t i = 0; i < agent->plugins.count; i++) {
        const struct sn_plugin *plugin = sn_plugins_at(&agent->plugins, i);
        if (plugin == NULL) continue; /* it did not start */
        for (uint32_t j = 0; j < plugin->actor_count; j++) {
            struct sn_actor_ref ref = sn_system_find(agent->system, plugin->actors[j]->name);
            SN_ASSERT(ref.id != 0); /* it was spawned at boot */
            atomic_fetch_add(&reload->pending, 1);
            sn_system_configure(agent->system, ref, reload->file->plugins[i].config, actor_done,
                                reload);
        }
    }
    actor_done(reload);
}

/* --- Use -------------------------------------------------------------------------------------- */

enum sn_err sn_agent_reload(struct sn_agent *agent,
                            void (*done)(void *arg, const struct sn_reload_result *result),
                            void *arg)
{
    if (agent->reload != NULL || agent->is_draining) return SN_ESTATE;
    struct sn_reload *reload = sn_alloc(sizeof *reload);
    if (reload == NULL) return SN_ENOMEM;
    reload->agent = agent;
    reload->done = done;
    reload->arg = arg;
    sn_findings_init(&reload->findings);
    atomic_store(&agent->is_reading, 1);
    enum sn_err err = sn_env_offload(agent->env, SN_OFFLOAD_DISK, read_job, reload);
    if (err != SN_OK) {
        atomic_store(&agent->is_reading, 0);
        free_reload(reload);
        return err;
    }
    agent->reload = reload;
    return SN_OK;
}

static void ignore(void *arg, const struct sn_reload_result *result)
{
    (void)arg;
    (void)result; /* it is logged in any case */
}

void sn_agent_reload_logged(struct sn_agent *agent)
{
    enum sn_err err = sn_agent_reload(agent, ignore, NULL);
    if (err == SN_OK) return;
    sn_logger_write(sn_system_logger(agent->home), SN_WARN, "RELOAD-REFUSED", "agent",
                    "text=\"%s\"",
                    err == SN_ESTATE ? "one is under way, or the agent drains" : sn_err_text(err));
}

void sn_agent_reload_wait(struct sn_agent *agent)
{
    while (atomic_load(&agent->is_reading)) {
        enum sn_err err = sn_env_park(agent->env, UINT64_MAX);
        (void)err; /* whatever it was, it is looked at again */
    }
}

void sn_agent_reload_abandon(struct sn_agent *agent)
{
    if (agent->reload == NULL) return;
    free_reload(agent->reload);
    agent->reload = NULL;
}
