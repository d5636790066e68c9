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

/* The folder that holds NAME.so: that of the build tree when there is one, else that of the installation. Names come
 * from a checked file, folders from the program's own place, so nothing is taken from the working directory. */
static enum sn_err find_folder(struct sn_env *env, const char *name, char **out_folder)
{
    static const char *const folders[] = {SN_PLUGIN_FOLDER_BUILD, SN_PLUGIN_FOLDER_INSTALLED};
    enum sn_err err = SN_ENOENT;
    char *self = sn_alloc(PATH_BYTES);
    char *path = sn_alloc(PATH_BYTES);
    char *program_folder = NULL;
    if (self == NULL || path == NULL) {
        err = SN_ENOMEM;
        goto out;
    }
    err = sn_process_self(env, self, PATH_BYTES);
    if (err != SN_OK) goto out;
    program_folder = sn_path_folder(self);
    err = program_folder == NULL ? SN_ENOMEM : SN_ENOENT;
    for (unsigned i = 0; i < SN_ARRAY_COUNT(folders) && err == SN_ENOENT; i++) {
        struct sn_file_info info;
        int size = snprintf(path, PATH_BYTES, "%s/%s/%s.so", program_folder, folders[i], name);
        if (size < 0 || (size_t)size >= PATH_BYTES) continue;
        if (sn_env_file_info(env, path, &info) != SN_OK) continue;
        *out_folder = sn_path_folder(path);
        err = *out_folder == NULL ? SN_ENOMEM : SN_OK;
    }
out:
    sn_strfree(program_folder);
    sn_free(self, PATH_BYTES);
    sn_free(path, PATH_BYTES);
    return err;
}

static enum sn_err load_one(struct sn_env *env, const struct sn_agent_plugin *wanted,
                            struct sn_findings *findings, const struct sn_plugin **out_plugin)
{
    char text[SN_PLUGIN_ERROR_MAX];
    char *folder = NULL;
    enum sn_err err = find_folder(env, wanted->name, &folder);
    if (err == SN_ENOENT) {
        sn_findings_add_node(findings, wanted->node, "there is no plugin called %s", wanted->name);
        return SN_EINVAL;
    }
    if (err != SN_OK) return err;
    err = sn_plugin_load(env, folder, wanted->name, text, out_plugin);
    sn_strfree(folder);
    if (err == SN_OK) {
        return sn_plugin_check_config(*out_plugin, wanted->config, wanted->node, findings);
    }
    sn_findings_add_node(findings, wanted->node, "%s", text);
    return SN_EINVAL;
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
        enum sn_err err = load_one(env, wanted, findings, &set.plugins[set.count++]);
        if (err == SN_ENOMEM) return err;
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
