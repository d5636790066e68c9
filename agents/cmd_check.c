/* SPDX-License-Identifier: Apache-2.0 */
/* check. Guarantees: what an agent would refuse at its start is found here, by the same code; nothing is written. */
#include <stdio.h>
#include <string.h>

#include "agents/cli.h"
#include "agents/cli_key.h"
#include "agents/folders.h"
#include "agents/identity.h"
#include "agents/plugins.h"
#include "base/alloc.h"
#include "base/text.h"
#include "config/schema.h"
#include "config/tree.h"
#include "crypto/key.h"

/* --- Parts of a fleet --------------------------------------------------------------------------- */

enum sn_err sn_cli_check_plugins(struct sn_cli *cli, const struct sn_fleet *fleet,
                                 struct sn_findings *findings)
{
    struct sn_findings warnings;
    sn_findings_init(&warnings);
    sn_fleet_warn(fleet, &warnings);
    enum sn_err err = sn_plugins_check_fleet(cli->env, fleet, findings, &warnings);
    sn_cli_findings(cli, &warnings);
    sn_findings_fini(&warnings);
    return err;
}

static enum sn_err check_authority(struct sn_cli *cli, const char *file,
                                   const struct sn_fleet *fleet, struct sn_findings *findings)
{
    char text[512] = "";
    struct sn_key_id id;
    int is_private = 0;
    enum sn_err err = SN_ENOMEM;
    char *folder = sn_path_folder(file);
    char *path = folder == NULL ? NULL : sn_path_in(folder, fleet->authority);
    if (path != NULL) {
        err = sn_cli_authority_id(cli->env, path, &id, &is_private, text, sizeof text);
    }
    sn_strfree(path);
    sn_strfree(folder);
    if (err == SN_OK || err == SN_ENOMEM) return err;
    if (err == SN_ENOENT) {
        /* The private key is kept offline: a fleet may be checked where it is not. */
        sn_cli_error(cli, "note: %s; the fleet can be checked, not rendered, here", text);
        return SN_OK;
    }
    sn_findings_add_node(findings, sn_config_get(sn_config_root(fleet->tree), "authority"), "%s",
                         text);
    return SN_EINVAL;
}

/* --- check ------------------------------------------------------------------------------------ */

static uint32_t count_known(const struct sn_config_node *root, const struct sn_config_field *fields)
{
    uint32_t known = 0;
    for (; fields->key != NULL; fields++) known += sn_config_get(root, fields->key) != NULL;
    return known;
}

enum file_kind { FILE_UNKNOWN, FILE_FLEET, FILE_AGENT };

/* `sites` makes a fleet and `agent` an agent file; where both are missing, the other keys tell what
 * was meant. */
static enum file_kind kind_of(const struct sn_config_node *root)
{
    if (sn_config_shape(root) != SN_CONFIG_MAPPING) return FILE_UNKNOWN;
    if (sn_config_get(root, "sites") != NULL) return FILE_FLEET;
    if (sn_config_get(root, "agent") != NULL) return FILE_AGENT;
    uint32_t as_fleet = count_known(root, sn_fleet_fields);
    uint32_t as_agent = count_known(root, sn_agent_file_fields);
    if (as_fleet == 0 && as_agent == 0) return FILE_UNKNOWN;
    return as_agent > as_fleet ? FILE_AGENT : FILE_FLEET;
}

struct check {
    struct sn_cli *cli;
    struct sn_findings findings;
    const char *file;
    const char *data;
    size_t size;
};

static enum sn_err check_fleet(struct check *check)
{
    struct sn_fleet *fleet = NULL;
    enum sn_err err =
        sn_fleet_parse(check->data, check->size, check->file, &check->findings, &fleet);
    if (err != SN_OK) return err;
    err = check_authority(check->cli, check->file, fleet, &check->findings);
    if (err != SN_ENOMEM) {
        enum sn_err plugins_err = sn_cli_check_plugins(check->cli, fleet, &check->findings);
        if (plugins_err != SN_OK) err = plugins_err;
    }
    if (err == SN_OK) {
        sn_cli_print(check->cli, "%s: good (fleet of mesh %s, agents: %u)\n", check->file,
                     fleet->mesh, fleet->agent_count);
    }
    sn_fleet_free(fleet);
    return err;
}

/* What the agent would refuse at its start, and what its peers would refuse of it. */
static enum sn_err check_identity(struct check *check, const struct sn_agent_file *agent)
{
    struct sn_identity identity = {0};
    struct sn_identity_fault fault;
    char *folder = sn_path_folder(check->file);
    if (folder == NULL) return SN_ENOMEM;
    enum sn_err err = sn_identity_load(check->cli->env, agent, folder, &identity, &fault);
    sn_strfree(folder);
    if (err == SN_OK) sn_identity_free(&identity);
    if (err == SN_ENOMEM) return err;
    if (fault.text[0] == '\0') return SN_OK;
    const struct sn_config_node *root = sn_config_root(agent->tree);
    const struct sn_config_node *node =
        fault.field == NULL ? root : sn_config_get(root, fault.field);
    sn_findings_add_node(&check->findings, node, "%s", fault.text);
    return SN_EINVAL;
}

/* Their configuration, which the agent would refuse, and what would keep them from running. */
static enum sn_err check_plugins(struct check *check, const struct sn_agent_file *agent)
{
    struct sn_plugin_set plugins = {NULL, 0};
    char *folder = sn_path_folder(check->file);
    if (folder == NULL) return SN_ENOMEM;
    enum sn_err err = sn_plugins_load(check->cli->env, agent, folder, &check->findings, &plugins);
    sn_strfree(folder);
    if (err != SN_OK) return err;
    err = sn_plugins_report(&plugins, agent, &check->findings);
    sn_plugins_free(&plugins);
    return err;
}

/* Folders that it could not take, whoever has them now. */
static enum sn_err check_folders(struct check *check, const struct sn_agent_file *agent)
{
    struct sn_folders_fault fault;
    enum sn_err err = SN_ENOMEM;
    char *folder = sn_path_folder(check->file);
    char *data = folder == NULL ? NULL : sn_path_in(folder, agent->data);
    char *run = folder == NULL ? NULL : sn_path_in(folder, agent->run);
    if (data == NULL || run == NULL) goto out;
    err = SN_OK;
    if (sn_folders_check(check->cli->env, data, run, &fault) != SN_EXIT_OK) {
        const struct sn_config_node *root = sn_config_root(agent->tree);
        const struct sn_config_node *node = sn_config_get(root, fault.field);
        sn_findings_add_node(&check->findings, node != NULL ? node : root, "%s", fault.text);
        err = SN_EINVAL;
    }
out:
    sn_strfree(run);
    sn_strfree(data);
    sn_strfree(folder);
    return err;
}

static enum sn_err check_agent(struct check *check)
{
    struct sn_agent_file *agent = NULL;
    enum sn_err err =
        sn_agent_file_parse(check->data, check->size, check->file, &check->findings, &agent);
    if (err != SN_OK) return err;
    err = check_plugins(check, agent);
    if (err != SN_ENOMEM) {
        enum sn_err identity_err = check_identity(check, agent);
        if (identity_err != SN_OK) err = identity_err;
    }
    if (err != SN_ENOMEM) {
        enum sn_err folders_err = check_folders(check, agent);
        if (folders_err != SN_OK) err = folders_err;
    }
    if (err == SN_OK) {
        sn_cli_print(check->cli, "%s: good (agent %s of mesh %s)\n", check->file, agent->agent,
                     agent->mesh);
    }
    sn_agent_file_free(agent);
    return err;
}

/* Findings go to the list. */
static enum sn_err check_content(struct check *check)
{
    struct sn_config_tree *tree = NULL;
    enum sn_err err =
        sn_config_parse(check->data, check->size, check->file, &check->findings, &tree);
    if (err != SN_OK) return err;
    enum file_kind kind = kind_of(sn_config_root(tree));
    if (kind == FILE_UNKNOWN) {
        sn_findings_add_node(&check->findings, sn_config_root(tree), "%s",
                             "neither a fleet, which has `sites`, nor an agent file, which has "
                             "`agent`");
    }
    sn_config_tree_free(tree);
    return kind == FILE_FLEET   ? check_fleet(check)
           : kind == FILE_AGENT ? check_agent(check)
                                : SN_EINVAL;
}

/* One file. Returns an exit status. */
static int check_file(struct sn_cli *cli, const char *file)
{
    struct check check = {.cli = cli, .file = file};
    char *data = NULL;
    if (!sn_cli_read(cli, file, &data, &check.size)) return SN_EXIT_USAGE;
    check.data = data;
    sn_findings_init(&check.findings);
    enum sn_err err = check_content(&check);
    sn_cli_findings(cli, &check.findings);
    if (err != SN_OK && check.findings.total == 0) {
        sn_cli_error(cli, "%.500s: %s", file, sn_err_text(err));
    }
    sn_findings_fini(&check.findings);
    sn_free(data, check.size + 1);
    return err == SN_OK       ? SN_EXIT_OK
           : err == SN_EINVAL ? SN_EXIT_USAGE
                              : SN_EXIT_FAILED; /* no memory: nobody's file is to blame */
}

/* --- Reference --------------------------------------------------------------------------------- */

/* Prints all keys of a file of that kind, or those of a plugin's `config`. Returns an exit status. */
static int print_reference(struct sn_cli *cli, const char *name)
{
    char text[SN_PLUGIN_ERROR_MAX + SN_LABEL_BYTES_MAX + 8];
    const struct sn_plugin *plugin = NULL;
    const struct sn_config_field *fields = NULL;
    const char *title = text;
    enum sn_err err = SN_OK;
    if (strcmp(name, "fleet") == 0) {
        fields = sn_fleet_fields;
        title = "The fleet file";
    } else if (strcmp(name, "agent") == 0) {
        fields = sn_agent_file_fields;
        title = "The agent file";
    } else if (!sn_label_is_valid(name, strlen(name))) {
        sn_cli_error(cli, "--reference takes fleet, agent or the name of a plugin, not %.100s",
                     name);
        return SN_EXIT_USAGE;
    } else {
        err = sn_plugins_find(cli->env, name, text, sizeof text, &plugin);
    }
    if (err != SN_OK) {
        sn_cli_error(cli, "--reference takes fleet, agent or the name of a plugin; %.600s", text);
        return SN_EXIT_USAGE;
    }
    if (plugin != NULL) {
        fields = plugin->config;
        (void)snprintf(text, sizeof text, "The plugin %.63s", name); /* fits */
    }
    char *reference = NULL;
    static const struct sn_config_field none[] = {{0}};
    err = sn_schema_reference(title, fields == NULL ? none : fields, &reference);
    if (err == SN_OK) {
        sn_env_print(cli->env, 0, reference, strlen(reference));
        sn_strfree(reference);
        return SN_EXIT_OK;
    }
    sn_cli_error(cli, "%s", sn_err_text(err));
    return SN_EXIT_FAILED;
}

/* --- The command ------------------------------------------------------------------------------- */

int sn_cmd_check(struct sn_cli *cli)
{
    struct sn_option reference = {.name = "--reference", .takes_value = 1};
    if (cli->argc == 0) return sn_cli_usage(cli);
    size_t bytes = (size_t)cli->argc * sizeof(const char *);
    const char **files = sn_alloc(bytes);
    if (files == NULL) {
        sn_cli_error(cli, "%s", sn_err_text(SN_ENOMEM));
        return SN_EXIT_FAILED;
    }
    int count = sn_cli_parse(cli, &reference, 1, files, cli->argc);
    int is_usage = (count > 0) == reference.is_given; /* one of both */
    int status = count < 0 ? SN_EXIT_USAGE : is_usage ? sn_cli_usage(cli) : SN_EXIT_OK;
    if (status == SN_EXIT_OK && reference.is_given) status = print_reference(cli, reference.value);
    for (int i = 0; i < count && !reference.is_given; i++) {
        int file_status = check_file(cli, files[i]);
        if (status != SN_EXIT_USAGE && file_status != SN_EXIT_OK) status = file_status;
    }
    sn_free(files, bytes);
    return status;
}
