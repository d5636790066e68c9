/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/plugins.h"

#include <stdio.h>
#include <string.h>

#include "agents/identity.h"
#include "agents/version.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "env/process.h"

#define PATH_BYTES 4096u

static const char *const folders[] = {SN_PLUGIN_FOLDER_BUILD, SN_PLUGIN_FOLDER_INSTALLED};

/* Folder names are taken from the program's own place, so nothing depends on the working directory. */
static enum sn_err folder_at(struct sn_env *env, unsigned index, char **out_folder)
{
    char *self = sn_alloc(PATH_BYTES);
    if (self == NULL) return SN_ENOMEM;
    enum sn_err err = sn_process_self(env, self, PATH_BYTES);
    char *own = err == SN_OK ? sn_path_folder(self) : NULL;
    char *folder = own == NULL ? NULL : sn_path_in(own, folders[index]);
    if (err == SN_OK && folder == NULL) err = SN_ENOMEM;
    sn_strfree(own);
    sn_free(self, PATH_BYTES);
    if (err == SN_OK) *out_folder = folder;
    return err;
}

/* The folder that holds NAME.so: that of the build tree when there is one, else that of the installation. `name` is a
 * label, from a checked file. */
static enum sn_err find_folder(struct sn_env *env, const char *name, char **out_folder)
{
    char file[SN_LABEL_BYTES_MAX + sizeof ".so"];
    (void)snprintf(file, sizeof file, "%.63s.so", name); /* fits */
    for (unsigned i = 0; i < SN_ARRAY_COUNT(folders); i++) {
        struct sn_file_info info;
        char *folder = NULL;
        enum sn_err err = folder_at(env, i, &folder);
        if (err != SN_OK) return err;
        char *path = sn_path_in(folder, file);
        err = path == NULL ? SN_ENOMEM : sn_env_file_info(env, path, &info);
        sn_strfree(path);
        if (err == SN_OK) *out_folder = folder;
        if (err == SN_OK) return SN_OK;
        sn_strfree(folder);
        if (err == SN_ENOMEM) return err;
    }
    return SN_ENOENT;
}

struct hunt {
    struct sn_suggest suggest;
    char name[SN_LABEL_BYTES_MAX + 1];
    char best[SN_LABEL_BYTES_MAX + 1];
};

static int offer_file(void *arg, const char *file)
{
    struct hunt *hunt = arg;
    size_t size = strlen(file);
    if (size <= 3 || size - 3 >= sizeof hunt->name || strcmp(file + size - 3, ".so") != 0) return 0;
    memcpy(hunt->name, file, size - 3);
    hunt->name[size - 3] = '\0';
    sn_suggest_offer(&hunt->suggest, hunt->name);
    if (hunt->suggest.best != hunt->name) return 0;
    memcpy(hunt->best, hunt->name, sizeof hunt->best);
    hunt->suggest.best = hunt->best;
    return 0;
}

/* At the entry that names a plugin which is not installed: the closest one that is. */
static void report_missing(struct sn_env *env, const char *name, const struct sn_config_node *entry,
                           const char *before, struct sn_findings *findings)
{
    struct hunt hunt;
    char hint[SN_HINT_MAX];
    sn_suggest_init(&hunt.suggest, name);
    for (unsigned i = 0; i < SN_ARRAY_COUNT(folders); i++) {
        char *folder = NULL;
        enum sn_err err = folder_at(env, i, &folder);
        if (err == SN_OK) err = sn_env_folder_list(env, folder, offer_file, &hunt);
        sn_strfree(folder);
        if (err == SN_ENOMEM) break; /* then without a hint */
    }
    const struct sn_config_node *node = sn_config_get(entry, "name");
    sn_findings_add_node(findings, node, "%sthere is no plugin called %s on this machine%s", before,
                         name, sn_suggest_text(&hunt.suggest, hint));
}

/* Errors: ENOENT (not installed here; no finding was added), EINVAL (findings were), ENOMEM. */
static enum sn_err load_one(struct sn_env *env, const char *name,
                            const struct sn_config_node *config, const struct sn_config_node *entry,
                            struct sn_findings *findings, const struct sn_plugin **out_plugin)
{
    char text[SN_PLUGIN_ERROR_MAX];
    char *folder = NULL;
    enum sn_err err = find_folder(env, name, &folder);
    if (err != SN_OK) return err;
    err = sn_plugin_load(env, folder, name, text, out_plugin);
    sn_strfree(folder);
    if (err == SN_OK) return sn_plugin_check_config(*out_plugin, config, entry, findings);
    if (err == SN_ENOMEM) return err;
    sn_findings_add_node(findings, entry, "%s", text);
    return SN_EINVAL;
}

enum sn_err sn_plugins_find(struct sn_env *env, const char *name, char *out_text, size_t capacity,
                            const struct sn_plugin **out_plugin)
{
    char text[SN_PLUGIN_ERROR_MAX] = "there is no such plugin on this machine";
    char *folder = NULL;
    enum sn_err err = find_folder(env, name, &folder);
    if (err == SN_OK) err = sn_plugin_load(env, folder, name, text, out_plugin);
    sn_strfree(folder);
    if (err != SN_OK) (void)snprintf(out_text, capacity, "%s: %s", name, text); /* cut is fine */
    return err;
}

enum sn_err sn_plugins_check_fleet(struct sn_env *env, const struct sn_fleet *fleet,
                                   struct sn_findings *findings, struct sn_findings *warnings)
{
    enum sn_err result = SN_OK;
    for (uint32_t i = 0; i < fleet->plugin_count; i++) {
        const struct sn_fleet_plugin *wanted = &fleet->plugins[i];
        const struct sn_plugin *plugin = NULL;
        enum sn_err err =
            load_one(env, wanted->name, wanted->config, wanted->node, findings, &plugin);
        if (err == SN_ENOMEM) return err;
        if (err == SN_ENOENT) {
            report_missing(env, wanted->name, wanted->node, "warning: ", warnings);
        } else if (err != SN_OK) {
            result = err;
        }
    }
    return result;
}

enum sn_err sn_plugins_load(struct sn_env *env, const struct sn_agent_file *file,
                            struct sn_findings *findings, struct sn_plugin_set *out_set)
{
    struct sn_plugin_set set = {0};
    enum sn_err result = SN_OK;
    for (uint32_t i = 0; i < file->plugin_count; i++) {
        const struct sn_agent_plugin *wanted = &file->plugins[i];
        if (set.count == SN_PLUGINS_MAX) {
            sn_findings_add_node(findings, wanted->node, "more than %u plugins", SN_PLUGINS_MAX);
            return SN_EINVAL;
        }
        enum sn_err err = load_one(env, wanted->name, wanted->config, wanted->node, findings,
                                   &set.plugins[set.count++]);
        if (err == SN_ENOMEM) return err;
        if (err == SN_ENOENT) {
            report_missing(env, wanted->name, wanted->node, "", findings);
            err = SN_EINVAL;
        }
        if (err != SN_OK) result = err;
    }
    if (result == SN_OK) *out_set = set;
    return result;
}

enum sn_err sn_plugins_spawn(const struct sn_plugin_set *set, const struct sn_agent_file *file,
                             struct sn_metrics *metrics, struct sn_system *system)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct sn_plugin *plugin = set->plugins[i];
        struct sn_actor_ref ref;
        uint32_t base = 0;
        enum sn_err err = SN_OK;
        if (plugin->metrics != NULL) err = sn_metrics_register(metrics, plugin->metrics, &base);
        for (uint32_t j = 0; j < plugin->actor_count && err == SN_OK; j++) {
            err = sn_system_spawn(system, plugin->actors[j], file->plugins[i].config, base, &ref);
        }
        if (err != SN_OK) return err;
    }
    return SN_OK;
}
