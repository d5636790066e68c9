/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render: from a fleet to the files of its agents. Guarantees: a node key that exists is kept; all
 * keys are known before the first agent.yaml is written, so that links pin them; every file is
 * replaced whole; an error tells which files are new and which are as they were.
 */
#include <string.h>

#include "agents/cli.h"
#include "agents/cli_key.h"
#include "agents/identity.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "config/render.h"
#include "crypto/cert.h"
#include "env/process.h"

#define VALID_DAYS_DEFAULT 365u
#define VALID_DAYS_MAX     36500u
#define BACKDATE_S         300 /* clocks of agents may be behind by so much */
#define DAY_S              86400

enum key_origin { KEY_GIVEN, KEY_KEPT, KEY_MADE };

struct node {
    struct sn_key_id id;
    char text[SN_KEY_TEXT_BYTES + 1];
    enum key_origin origin;
};

struct work {
    struct sn_cli *cli;
    const char *out; /* folder */
    uint64_t valid_days;
    struct sn_fleet *fleet;
    struct sn_key *authority;
    char authority_text[SN_KEY_TEXT_BYTES + 1];
    struct node *nodes; /* one an agent of the fleet */
    const char **keys;  /* the nodes' texts */
};

/* --- What is read first ----------------------------------------------------------------------- */

static int load_fleet(struct work *work, const char *file)
{
    struct sn_findings findings;
    char *data = NULL;
    size_t size = 0;
    if (!sn_cli_read(work->cli, file, &data, &size)) return SN_EXIT_USAGE;
    sn_findings_init(&findings);
    enum sn_err err = sn_fleet_parse(data, size, file, &findings, &work->fleet);
    if (err == SN_OK) err = sn_cli_check_plugins(work->cli, work->fleet, &findings);
    if (err == SN_EINVAL) sn_cli_findings(work->cli, &findings);
    if (err == SN_ENOMEM) sn_cli_error(work->cli, "%s", sn_err_text(err));
    sn_findings_fini(&findings);
    sn_free(data, size + 1);
    return err == SN_OK ? SN_EXIT_OK : err == SN_ENOMEM ? SN_EXIT_FAILED : SN_EXIT_USAGE;
}

static enum sn_err read_authority(struct work *work, const char *path)
{
    char text[512] = "";
    struct sn_key_id id;
    int is_private = 0;
    enum sn_err err =
        sn_cli_authority_id(work->cli->env, path, &id, &is_private, text, sizeof text);
    if (err == SN_OK && !is_private) {
        sn_cli_error(work->cli,
                     "%.300s is the public half of the authority key and cannot sign; render where "
                     "the private one is, and name that in `authority:`",
                     path);
        return SN_EINVAL;
    }
    if (err == SN_OK) {
        err = sn_identity_read_key(work->cli->env, path, &work->authority, text, sizeof text);
    }
    if (err == SN_OK) {
        sn_key_id_format(&id, work->authority_text);
    } else {
        sn_cli_error(work->cli, "%s", text[0] != '\0' ? text : sn_err_text(err));
    }
    return err;
}

static int load_authority(struct work *work, const char *file)
{
    enum sn_err err = SN_ENOMEM;
    char *folder = sn_path_folder(file);
    char *path = folder == NULL ? NULL : sn_path_in(folder, work->fleet->authority);
    if (path == NULL) {
        sn_cli_error(work->cli, "%s", sn_err_text(err));
    } else {
        err = read_authority(work, path);
    }
    sn_strfree(path);
    sn_strfree(folder);
    return err == SN_OK ? SN_EXIT_OK : err == SN_ENOMEM ? SN_EXIT_FAILED : SN_EXIT_USAGE;
}

/* --- Keys ------------------------------------------------------------------------------------- */

static enum sn_err read_kept(struct work *work, const char *path, struct node *node, char *out_text,
                             size_t capacity)
{
    struct sn_key *key = NULL;
    enum sn_err err = sn_identity_read_key(work->cli->env, path, &key, out_text, capacity);
    if (err != SN_OK) return err;
    node->id = sn_key_id(key);
    node->origin = KEY_KEPT;
    sn_key_free(key);
    return SN_OK;
}

static int keep_key(struct work *work, const char *path, struct node *node)
{
    char text[512] = "";
    if (read_kept(work, path, node, text, sizeof text) == SN_OK) return SN_EXIT_OK;
    sn_cli_error(work->cli, "%s", text);
    return SN_EXIT_USAGE;
}

/* Reads the key that a former rendering made, or that was put there; makes one where there is none.
 * */
static int keep_or_make_key(struct work *work, const char *path, struct node *node)
{
    char text[512] = "";
    enum sn_err err = read_kept(work, path, node, text, sizeof text);
    if (err == SN_OK) return SN_EXIT_OK;
    if (err == SN_ENOENT) {
        node->origin = KEY_MADE;
        err = sn_cli_key_create(work->cli->env, path, &node->id);
        if (err == SN_OK) return SN_EXIT_OK;
        if (err == SN_EEXIST) { /* by another render at the same time: its key is as good */
            return keep_key(work, path, node);
        }
        sn_cli_error(work->cli, "%.500s: %s", path, sn_file_err_text(err));
        return SN_EXIT_FAILED;
    }
    sn_cli_error(work->cli, "%s", text);
    return SN_EXIT_USAGE;
}

/* A key that was given wins. Another one in the folder would be refused by its agent at the start. */
static void warn_of_other_key(struct work *work, const char *path, const struct node *node)
{
    char text[512] = "";
    struct sn_key *key = NULL;
    enum sn_err err = sn_identity_read_key(work->cli->env, path, &key, text, sizeof text);
    if (err == SN_ENOENT) return; /* it is where it was made */
    if (err != SN_OK) {
        sn_cli_error(work->cli, "warning: %s", text[0] != '\0' ? text : sn_err_text(err));
        return;
    }
    struct sn_key_id id = sn_key_id(key);
    sn_key_free(key);
    if (sn_key_id_is_equal(&id, &node->id)) return;
    sn_cli_error(work->cli,
                 "warning: %.400s is another key than the `key:` that the fleet gives this agent, "
                 "which will not start with it; it was left alone",
                 path);
}

static int prepare_agent(struct work *work, const struct sn_fleet_agent *agent, struct node *node)
{
    int status = SN_EXIT_FAILED;
    char *folder = sn_path_in(work->out, agent->name);
    char *path = folder == NULL ? NULL : sn_path_in(folder, "node.key");
    enum sn_err err = path == NULL ? SN_ENOMEM : sn_env_folder_make(work->cli->env, folder, 0700);
    if (err != SN_OK) {
        sn_cli_error(work->cli, "%.500s: %s", folder == NULL ? agent->name : folder,
                     err == SN_EEXIST || err == SN_ENOENT ? "a file stands where a folder should be"
                                                          : sn_file_err_text(err));
    } else if (agent->key != NULL) {
        node->origin = KEY_GIVEN;
        err = sn_key_id_parse(agent->key, strlen(agent->key), &node->id);
        SN_ASSERT(err == SN_OK); /* the schema saw to it */
        warn_of_other_key(work, path, node);
        status = SN_EXIT_OK;
    } else {
        status = keep_or_make_key(work, path, node);
    }
    if (status == SN_EXIT_OK) sn_key_id_format(&node->id, node->text);
    sn_strfree(path);
    sn_strfree(folder);
    return status;
}

static int prepare_keys(struct work *work)
{
    uint32_t count = work->fleet->agent_count;
    int status = SN_EXIT_OK;
    if (count == 0) {
        sn_cli_error(work->cli, "the fleet has no agents");
        return SN_EXIT_USAGE;
    }
    work->nodes = sn_alloc(count * sizeof *work->nodes);
    work->keys = sn_alloc(count * sizeof *work->keys);
    if (work->nodes == NULL || work->keys == NULL) {
        sn_cli_error(work->cli, "%s", sn_err_text(SN_ENOMEM));
        return SN_EXIT_FAILED;
    }
    for (uint32_t i = 0; i < count && status == SN_EXIT_OK; i++) {
        sn_process_sleep_ms(work->cli->env, 0); /* an interrupt comes between two agents */
        status = prepare_agent(work, &work->fleet->agents[i], &work->nodes[i]);
        work->keys[i] = work->nodes[i].text;
    }
    if (status != SN_EXIT_OK) {
        sn_cli_error(work->cli, "no agent.yaml and no certificate was written; keys made are kept");
    }
    return status;
}

/* --- Files ------------------------------------------------------------------------------------ */

/* A certificate in both of its forms. */
struct cert_files {
    uint8_t bytes[SN_CERT_BYTES_MAX];
    size_t size;
    char pem[SN_KEY_FILE_BYTES_MAX];
    size_t pem_size;
};

static enum sn_err sign(struct work *work, const struct sn_fleet_agent *agent,
                        const struct node *node, struct cert_files *files)
{
    struct sn_cert cert = {.node = node->id};
    int64_t now_s = sn_env_wall_ms(work->cli->env) / 1000;
    uint32_t roles = sn_config_count(agent->roles);
    if (roles > SN_ROLES_MAX) return SN_ETOOBIG;
    enum sn_err err =
        sn_text_copy(cert.mesh, sizeof cert.mesh, work->fleet->mesh, strlen(work->fleet->mesh));
    if (err == SN_OK) {
        err = sn_text_copy(cert.agent, sizeof cert.agent, agent->name, strlen(agent->name));
    }
    for (uint32_t i = 0; i < roles && err == SN_OK; i++) {
        const char *role = sn_config_text(sn_config_at(agent->roles, i), "");
        err = sn_text_copy(cert.roles[i], sizeof cert.roles[i], role, strlen(role));
    }
    cert.role_count = roles;
    sn_env_random(work->cli->env, &cert.serial, sizeof cert.serial);
    cert.not_before_s = now_s > BACKDATE_S ? now_s - BACKDATE_S : 0;
    cert.not_after_s = now_s + (int64_t)work->valid_days * DAY_S;
    if (err == SN_OK) {
        err = sn_cert_sign(&cert, work->authority, files->bytes, sizeof files->bytes, &files->size);
    }
    if (err == SN_OK) {
        err = sn_cert_to_pem(files->bytes, files->size, files->pem, sizeof files->pem,
                             &files->pem_size);
    }
    return err;
}

static enum sn_err replace(struct work *work, const char *folder, const char *name,
                           const char *data, size_t size)
{
    char *path = sn_path_in(folder, name);
    if (path == NULL) return SN_ENOMEM;
    enum sn_err err = sn_env_file_replace(work->cli->env, path, 0644, data, size);
    sn_strfree(path);
    return err;
}

/* Everything of one agent is made in memory before its first file is touched. */
static enum sn_err write_agent(struct work *work, uint32_t index)
{
    const struct sn_fleet_agent *agent = &work->fleet->agents[index];
    const char *authority = work->authority_text;
    const struct sn_render render = {.fleet = work->fleet,
                                     .agent = index,
                                     .authorities = &authority,
                                     .authority_count = 1,
                                     .keys = work->keys};
    char *text = NULL;
    struct cert_files *files = sn_alloc(sizeof *files);
    char *folder = sn_path_in(work->out, agent->name);
    enum sn_err err = files == NULL || folder == NULL ? SN_ENOMEM : SN_OK;
    if (err == SN_OK) err = sign(work, agent, &work->nodes[index], files);
    if (err == SN_OK) err = sn_fleet_render(&render, &text);
    if (err == SN_OK) err = replace(work, folder, "agent.cert", files->pem, files->pem_size);
    if (err == SN_OK) err = replace(work, folder, "agent.yaml", text, strlen(text));
    sn_strfree(text);
    sn_strfree(folder);
    sn_free(files, sizeof *files);
    return err;
}

static int write_agents(struct work *work)
{
    static const char *const origins[] = {
        [KEY_GIVEN] = "key given", [KEY_KEPT] = "key kept", [KEY_MADE] = "key made"};
    uint32_t count = work->fleet->agent_count;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = work->fleet->agents[i].name;
        sn_process_sleep_ms(work->cli->env, 0); /* as above */
        enum sn_err err = write_agent(work, i);
        if (err != SN_OK) {
            sn_cli_error(work->cli,
                         "%.300s/%s: %s; %u of %u agents are new, the others as they were",
                         work->out, name, sn_file_err_text(err), i, count);
            return SN_EXIT_FAILED;
        }
        sn_cli_print(work->cli, "%s/%s  %s  %s\n", work->out, name, work->nodes[i].text,
                     origins[work->nodes[i].origin]);
    }
    return SN_EXIT_OK;
}

/* --- What is left from before ------------------------------------------------------------------ */

struct leftover {
    struct work *work;
    const char *site;
    char *folder; /* of the site */
    enum sn_err err;
};

static int visit_agent(void *arg, const char *name)
{
    struct leftover *left = arg;
    struct sn_file_info info;
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];
    struct sn_text text;
    sn_text_init(&text, agent, sizeof agent);
    sn_text_add(&text, "%s/%s", left->site, name);
    if (text.truncated || !sn_agent_name_is_valid(agent, text.size)) return 0; /* not of render */
    if (sn_fleet_find_agent(left->work->fleet, agent) != SN_FLEET_NONE) return 0;
    char *folder = sn_path_in(left->work->out, agent);
    char *file = folder == NULL ? NULL : sn_path_in(folder, "agent.yaml");
    left->err = file == NULL ? SN_ENOMEM : SN_OK;
    if (file != NULL && sn_env_file_info(left->work->cli->env, file, &info) == SN_OK) {
        sn_cli_error(left->work->cli,
                     "warning: %.400s is left from an agent that is not in the fleet any more; it "
                     "was left alone, and its certificate stays good until it expires",
                     folder);
    }
    sn_strfree(file);
    sn_strfree(folder);
    return left->err != SN_OK;
}

static int visit_site(void *arg, const char *name)
{
    struct leftover *left = arg;
    struct sn_env *env = left->work->cli->env;
    struct sn_file_info info;
    if (!sn_label_is_valid(name, strlen(name))) return 0;
    left->site = name;
    left->folder = sn_path_in(left->work->out, name);
    left->err = left->folder == NULL ? SN_ENOMEM : SN_OK;
    if (left->folder != NULL && sn_env_file_info(env, left->folder, &info) == SN_OK &&
        info.is_folder) {
        enum sn_err err = sn_env_folder_list(env, left->folder, visit_agent, left);
        if (left->err == SN_OK) left->err = err;
    }
    sn_strfree(left->folder);
    return left->err != SN_OK;
}

/* Names agents whose files are there but which the fleet no longer has. */
static void warn_of_leftovers(struct work *work)
{
    struct leftover left = {.work = work};
    enum sn_err err = sn_env_folder_list(work->cli->env, work->out, visit_site, &left);
    if (left.err != SN_OK) err = left.err;
    if (err == SN_OK) return;
    sn_cli_error(work->cli, "warning: %.400s was not searched for former agents: %s", work->out,
                 sn_file_err_text(err));
}

int sn_cmd_render(struct sn_cli *cli)
{
    struct sn_option options[] = {{.name = "--out", .takes_value = 1},
                                  {.name = "--valid", .takes_value = 1}};
    struct work work = {.cli = cli};
    const char *file = NULL;
    int count = sn_cli_parse(cli, options, SN_ARRAY_COUNT(options), &file, 1);
    if (count < 0) return SN_EXIT_USAGE;
    if (count != 1 || !options[0].is_given) return sn_cli_usage(cli);
    if (!sn_cli_number(cli, &options[1], 1, VALID_DAYS_MAX, VALID_DAYS_DEFAULT, &work.valid_days)) {
        return SN_EXIT_USAGE;
    }
    work.out = options[0].value;
    int status = load_fleet(&work, file);
    if (status == SN_EXIT_OK) status = load_authority(&work, file);
    if (status == SN_EXIT_OK) status = prepare_keys(&work);
    if (status == SN_EXIT_OK) status = write_agents(&work);
    if (status == SN_EXIT_OK) warn_of_leftovers(&work);
    if (work.fleet != NULL) {
        sn_free(work.nodes, work.fleet->agent_count * sizeof *work.nodes);
        sn_free(work.keys, work.fleet->agent_count * sizeof *work.keys);
    }
    sn_key_free(work.authority);
    sn_fleet_free(work.fleet);
    return status;
}
