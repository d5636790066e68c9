/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/plugins.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agents/identity.h"
#include "agents/version.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "env/process.h"
#include "log/log.h"

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

/* --- Finding ------------------------------------------------------------------------------------------------- */

/* NAME.so in the folder of the build tree when it is there, else in that of the installation. `name` is a label, from a
 * checked file. Errors: ENOENT, ENOMEM. */
static enum sn_err find_own(struct sn_env *env, const char *name, char **out_path)
{
    char file[SN_LABEL_BYTES_MAX + sizeof ".so"];
    (void)snprintf(file, sizeof file, "%.63s.so", name); /* fits */
    for (unsigned i = 0; i < SN_ARRAY_COUNT(folders); i++) {
        struct sn_file_info info;
        char *folder = NULL;
        enum sn_err err = folder_at(env, i, &folder);
        if (err != SN_OK) return err;
        char *path = sn_path_in(folder, file);
        sn_strfree(folder);
        err = path == NULL ? SN_ENOMEM : sn_env_file_info(env, path, &info);
        if (err == SN_OK) *out_path = path;
        if (err == SN_OK) return SN_OK;
        sn_strfree(path);
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

/* The closest name of those that are installed here, as a hint. */
static void suggest(struct sn_env *env, const char *name, char out_hint[SN_HINT_MAX])
{
    struct hunt hunt;
    sn_suggest_init(&hunt.suggest, name);
    for (unsigned i = 0; i < SN_ARRAY_COUNT(folders); i++) {
        char *folder = NULL;
        enum sn_err err = folder_at(env, i, &folder);
        if (err == SN_OK) err = sn_env_folder_list(env, folder, offer_file, &hunt);
        sn_strfree(folder);
        if (err == SN_ENOMEM) break; /* then without a hint */
    }
    (void)sn_suggest_text(&hunt.suggest, out_hint); /* it is the argument */
}

/* --- Loading ------------------------------------------------------------------------------------------------- */

/* What an entry of either file says about one plugin. */
struct wanted {
    const char *name;
    const char *path;
    const struct sn_config_node *sha256;
    const char *allow; /* `plugins_allow` */
};

/* Whoever owns the program could as well change that: its own plugins may be his too, as in a build tree that root
 * tries out. 0 when nobody knows. */
static uint32_t program_owner(struct sn_env *env)
{
    struct sn_file_info info = {0};
    char *self = sn_alloc(PATH_BYTES);
    enum sn_err err = self == NULL ? SN_ENOMEM : sn_process_self(env, self, PATH_BYTES);
    if (err == SN_OK) err = sn_env_file_info(env, self, &info);
    if (self != NULL) sn_free(self, PATH_BYTES);
    return err == SN_OK ? info.uid : 0;
}

static enum sn_err find_file(struct sn_env *env, const struct wanted *wanted, const char *folder,
                             char **out_path)
{
    if (wanted->path == NULL) return find_own(env, wanted->name, out_path);
    char *path = sn_path_in(folder, wanted->path);
    if (path == NULL) return SN_ENOMEM;
    *out_path = path;
    return SN_OK;
}

/* Whatever is wrong with the file ends in the slot. Errors: ENOMEM. */
static enum sn_err load_one(struct sn_env *env, const struct wanted *wanted, const char *folder,
                            struct sn_plugin_slot *slot)
{
    (void)snprintf(slot->name, sizeof slot->name, "%s", wanted->name); /* a label fits */
    enum sn_err err = find_file(env, wanted, folder, &slot->path);
    if (err == SN_ENOENT) {
        char hint[SN_HINT_MAX];
        suggest(env, slot->name, hint);
        slot->load_err = err;
        (void)snprintf(slot->fault.cause, sizeof slot->fault.cause,
                       "there is no plugin called %s on this machine%s", slot->name,
                       hint); /* fits */
        (void)snprintf(slot->fault.hint, sizeof slot->fault.hint, "%s",
                       "install it, or name its file: `path: FILE.so`"); /* fits */
        return SN_OK;
    }
    if (err == SN_ENOMEM) return err;
    slot->load_err = err;
    if (err != SN_OK) {
        (void)snprintf(slot->fault.cause, sizeof slot->fault.cause, "it cannot be looked for: %s",
                       sn_err_text(err)); /* fits */
        return SN_OK;
    }
    int is_listed = strcmp(wanted->allow, "listed") == 0;
    int is_any = strcmp(wanted->allow, "any") == 0;
    const struct sn_plugin_source source = {
        .path = slot->path,
        .name = slot->name,
        .sha256 = wanted->sha256,
        .needs_sha256 = is_listed || (wanted->path != NULL && !is_any),
        .owner_uid = wanted->path == NULL ? program_owner(env) : 0,
    };
    slot->load_err = sn_plugin_load(env, &source, slot->sha256, &slot->fault, &slot->plugin);
    return slot->load_err == SN_ENOMEM ? SN_ENOMEM : SN_OK;
}

/* Findings are what is wrong in the file; that the plugin's own check fails is its own fault.
 * Errors: EINVAL, ENOMEM. */
static enum sn_err check_config(struct sn_plugin_slot *slot, const struct sn_config_node *config,
                                const struct sn_config_node *entry, struct sn_findings *findings)
{
    if (slot->plugin == NULL) return SN_OK;
    enum sn_err err = sn_plugin_check_config(slot->plugin, config, entry, findings);
    if (err != SN_ESTATE) return err;
    (void)snprintf(slot->fault.cause, sizeof slot->fault.cause, "%s",
                   "its own check of its `config` failed"); /* fits */
    return SN_OK;
}

enum sn_err sn_plugins_find(struct sn_env *env, const char *name, char *out_text, size_t capacity,
                            const struct sn_plugin **out_plugin)
{
    struct sn_plugin_fault fault = {.cause = "there is no such plugin on this machine"};
    char sha256[SN_PLUGIN_SHA256_BYTES];
    char *path = NULL;
    enum sn_err err = find_own(env, name, &path);
    if (err == SN_OK) {
        const struct sn_plugin_source source = {
            .path = path, .name = name, .owner_uid = program_owner(env)};
        err = sn_plugin_load(env, &source, sha256, &fault, out_plugin);
    }
    sn_strfree(path);
    if (err != SN_OK) {
        (void)snprintf(out_text, capacity, "%s: %s", name, fault.cause); /* cut is fine */
    }
    return err;
}

/* --- Whole files --------------------------------------------------------------------------------------------- */

static void add_fault(const struct sn_plugin_slot *slot, const struct sn_config_node *entry,
                      const char *before, struct sn_findings *findings)
{
    const struct sn_config_node *path = sn_config_get(entry, "path");
    const struct sn_config_node *name = sn_config_get(entry, "name");
    const struct sn_config_node *file = path != NULL ? path : name;
    const struct sn_config_node *node = slot->load_err == SN_ENOENT ? file : entry;
    int has_hint = slot->fault.hint[0] != '\0';
    sn_findings_add_node(findings, node, "%s%s%s%s", before, slot->fault.cause,
                         has_hint ? "; " : "", slot->fault.hint);
}

void sn_plugins_free(struct sn_plugin_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) sn_strfree(set->slots[i].path);
    if (set->slots != NULL) sn_free(set->slots, set->count * sizeof *set->slots);
    *set = (struct sn_plugin_set){NULL, 0};
}

static enum sn_err load_all(struct sn_env *env, const struct sn_agent_file *file,
                            const char *folder, struct sn_findings *findings,
                            struct sn_plugin_set *set)
{
    uint32_t before = findings->total;
    for (uint32_t i = 0; i < set->count; i++) {
        const struct sn_agent_plugin *entry = &file->plugins[i];
        const struct wanted wanted = {entry->name, entry->path, entry->sha256,
                                      file->settings.plugins_allow};
        enum sn_err err = load_one(env, &wanted, folder, &set->slots[i]);
        if (err == SN_OK) {
            err = check_config(&set->slots[i], entry->config, entry->node, findings);
        }
        if (err == SN_ENOMEM) return err;
    }
    return sn_findings_result(findings, before);
}

enum sn_err sn_plugins_load(struct sn_env *env, const struct sn_agent_file *file,
                            const char *folder, struct sn_findings *findings,
                            struct sn_plugin_set *out_set)
{
    struct sn_plugin_set set = {0};
    if (file->plugin_count > SN_PLUGINS_MAX) {
        sn_findings_add_node(findings, file->plugins[SN_PLUGINS_MAX].node, "more than %u plugins",
                             SN_PLUGINS_MAX);
        return SN_EINVAL;
    }
    if (file->plugin_count > 0) {
        set.slots = sn_alloc(file->plugin_count * sizeof *set.slots);
        if (set.slots == NULL) return SN_ENOMEM;
        set.count = file->plugin_count;
    }
    enum sn_err err = load_all(env, file, folder, findings, &set);
    if (err == SN_OK) {
        *out_set = set;
    } else {
        sn_plugins_free(&set);
    }
    return err;
}

const struct sn_plugin *sn_plugins_at(const struct sn_plugin_set *set, uint32_t index)
{
    SN_ASSERT(index < set->count);
    return set->slots[index].fault.cause[0] == '\0' ? set->slots[index].plugin : NULL;
}

enum sn_err sn_plugins_check(const struct sn_plugin_set *set, const struct sn_agent_file *file,
                             struct sn_findings *findings)
{
    enum sn_err result = SN_OK;
    for (uint32_t i = 0; i < set->count && i < file->plugin_count; i++) {
        const struct sn_agent_plugin *entry = &file->plugins[i];
        const struct sn_plugin *plugin = sn_plugins_at(set, i);
        if (plugin == NULL || strcmp(plugin->name, entry->name) != 0) continue;
        enum sn_err err = sn_plugin_check_config(plugin, entry->config, entry->node, findings);
        if (err == SN_ENOMEM) return err;
        if (err == SN_ESTATE) {
            sn_findings_add_node(findings, entry->config, "%s", "the plugin's own check failed");
        }
        if (err != SN_OK) result = SN_EINVAL;
    }
    return result;
}

enum sn_err sn_plugins_report(const struct sn_plugin_set *set, const struct sn_agent_file *file,
                              struct sn_findings *findings)
{
    uint32_t before = findings->total;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->slots[i].fault.cause[0] == '\0') continue;
        add_fault(&set->slots[i], file->plugins[i].node, "", findings);
    }
    return sn_findings_result(findings, before);
}

/* Whether all agents that run it find the file under the same name, wherever their own files are. */
static int is_checked_here(const struct sn_fleet_plugin *plugin)
{
    return plugin->path == NULL || plugin->path[0] == '/';
}

static enum sn_err check_fleet_entry(struct sn_env *env, const struct sn_fleet_plugin *entry,
                                     struct sn_findings *findings, struct sn_findings *warnings)
{
    struct sn_plugin_slot slot = {.path = NULL};
    /* That something allows it was checked with the fleet. */
    const struct wanted wanted = {entry->name, entry->path, entry->sha256, "any"};
    enum sn_err err = load_one(env, &wanted, "/", &slot);
    sn_strfree(slot.path);
    if (err != SN_OK) return err;
    err = check_config(&slot, entry->config, entry->node, findings);
    if (err != SN_OK || slot.fault.cause[0] == '\0') return err;
    /* Nothing is wrong with the fleet when this machine has another file, or none. */
    if (slot.load_err == SN_ENOENT || slot.load_err == SN_EMISMATCH) {
        add_fault(&slot, entry->node, "warning: ", warnings);
        return SN_OK;
    }
    add_fault(&slot, entry->node, "", findings);
    return SN_EINVAL;
}

enum sn_err sn_plugins_check_fleet(struct sn_env *env, const struct sn_fleet *fleet,
                                   struct sn_findings *findings, struct sn_findings *warnings)
{
    enum sn_err result = SN_OK;
    for (uint32_t i = 0; i < fleet->plugin_count; i++) {
        const struct sn_fleet_plugin *entry = &fleet->plugins[i];
        if (!is_checked_here(entry)) {
            sn_findings_add_node(warnings, sn_config_get(entry->node, "path"), "%s",
                                 "warning: not checked here, because it is relative to the folder "
                                 "of each agent's file; check those on their machines");
            continue;
        }
        enum sn_err err = check_fleet_entry(env, entry, findings, warnings);
        if (err == SN_ENOMEM) return err;
        if (err != SN_OK) result = err;
    }
    return result;
}

/* --- Running ------------------------------------------------------------------------------------------------- */

static void SN_PRINTF(2, 3) fail(struct sn_plugin_slot *slot, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(slot->fault.cause, sizeof slot->fault.cause, format, args); /* cut is fine */
    va_end(args);
    (void)snprintf(slot->fault.hint, sizeof slot->fault.hint, "%s",
                   "two plugins that do not go together, or an error in this one"); /* fits */
}

/* Whether its actors find their names free; all of them are looked at before the first one is spawned. */
static int check_names(struct sn_plugin_slot *slot, const struct sn_system *system)
{
    const struct sn_plugin *plugin = slot->plugin;
    for (uint32_t i = 0; i < plugin->actor_count; i++) {
        const struct sn_actor_kind *kind = plugin->actors[i];
        const char *service = kind->service;
        int is_taken = service != NULL && sn_system_find_service(system, service).id != 0;
        for (uint32_t j = 0; j < i && service != NULL; j++) {
            const char *other = plugin->actors[j]->service;
            is_taken = is_taken || (other != NULL && strcmp(other, service) == 0);
        }
        if (is_taken) fail(slot, "there are two actors with the service `%s`", service);
        if (sn_system_find(system, kind->name).id != 0) {
            fail(slot, "there is another actor called `%s`", kind->name);
        }
    }
    return slot->fault.cause[0] == '\0';
}

static enum sn_err spawn_one(struct sn_plugin_slot *slot, const struct sn_config_node *config,
                             struct sn_metrics *metrics, struct sn_system *system)
{
    const struct sn_plugin *plugin = slot->plugin;
    struct sn_actor_ref ref;
    uint32_t base = SN_METRICS_NONE;
    enum sn_err err = SN_OK;
    if (!check_names(slot, system)) return SN_OK;
    if (plugin->metrics != NULL && plugin->metrics[0].name != NULL) {
        err = sn_metrics_register(metrics, plugin->metrics, &base);
    }
    if (err != SN_OK) {
        fail(slot, "its metrics cannot be registered: %s", sn_err_text(err));
        return SN_OK;
    }
    for (uint32_t i = 0; i < plugin->actor_count && err == SN_OK; i++) {
        err = sn_system_spawn(system, plugin->actors[i], config, base, &ref);
    }
    return err;
}

enum sn_err sn_plugins_spawn(struct sn_plugin_set *set, const struct sn_agent_file *file,
                             struct sn_metrics *metrics, struct sn_system *system)
{
    for (uint32_t i = 0; i < set->count; i++) {
        struct sn_plugin_slot *slot = &set->slots[i];
        if (slot->fault.cause[0] != '\0') continue;
        enum sn_err err = spawn_one(slot, file->plugins[i].config, metrics, system);
        if (err != SN_OK) return err;
    }
    return SN_OK;
}

/* Values of log lines stand in quotes, which they therefore cannot hold. */
static void unquote(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"') *text = '\'';
    }
}

void sn_plugins_log(const struct sn_plugin_set *set, struct sn_logger *logger)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct sn_plugin_slot *slot = &set->slots[i];
        struct sn_plugin_fault fault = slot->fault;
        if (fault.cause[0] == '\0') continue;
        unquote(fault.cause);
        unquote(fault.hint);
        sn_logger_write(logger, SN_ERROR, "PLUGIN-FAILED", slot->name, "cause=\"%s\" hint=\"%s\"",
                        fault.cause, fault.hint);
    }
}

static int has_actor(const struct sn_plugin_slot *slot, const char *name)
{
    if (slot->plugin == NULL || slot->fault.cause[0] != '\0') return 0;
    for (uint32_t i = 0; i < slot->plugin->actor_count; i++) {
        if (strcmp(slot->plugin->actors[i]->name, name) == 0) return 1;
    }
    return 0;
}

void sn_plugins_actor_failed(struct sn_plugin_set *set, struct sn_system *system,
                             struct sn_actor_ref actor, enum sn_err err)
{
    const char *name = sn_system_actor_name(system, actor);
    struct sn_logger *logger = sn_system_logger(sn_system_actor_worker(system, actor));
    for (uint32_t i = 0; i < set->count; i++) {
        struct sn_plugin_slot *slot = &set->slots[i];
        if (!has_actor(slot, name)) continue;
        atomic_store(&slot->actor_err, (uint32_t)err);
        sn_logger_write(logger, SN_ERROR, "PLUGIN-FAILED", slot->name,
                        "cause=\"its actor %s failed too often: %s\" hint=\"see what it logged; "
                        "the agent runs on without it until it is started again\"",
                        name, sn_err_text(err));
    }
}
