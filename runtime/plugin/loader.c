/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: no code of a file runs before it is known that not everybody could write it, and
 * nothing of its descriptor is called or used before all of it was verified.
 */
#include "plugin/loader.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "env/env.h"
#include "plugin/elf.h"
#include "plugin/plugin_int.h"

#define MODE_WRITABLE_BY_OTHERS 0002u
#define FILE_BYTES_MAX          ((size_t)256 * 1024 * 1024)

struct load {
    char *path;  /* owned */
    char *error; /* the caller's */
    size_t path_size;
};

static enum sn_err SN_PRINTF(3, 4)
    fail(const struct load *load, enum sn_err err, const char *format, ...)
{
    struct sn_text text;
    char reason[384];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof reason, format, args); /* a cut reason is fine */
    va_end(args);
    sn_text_init(&text, load->error, SN_PLUGIN_ERROR_MAX);
    sn_text_add(&text, "plugin %s: %s", load->path, reason);
    return err;
}

/* Whoever may replace the file may run code in the agent. */
static enum sn_err check_file(struct sn_env *env, const char *folder, const struct load *load)
{
    struct sn_file_info info;
    enum sn_err err = sn_env_file_info(env, folder, &info);
    if (err != SN_OK) return fail(load, err, "folder %s: %s", folder, sn_err_text(err));
    if (!info.is_folder) return fail(load, SN_EINVAL, "%s is not a folder", folder);
    if (info.mode & MODE_WRITABLE_BY_OTHERS) {
        return fail(load, SN_EPERM, "folder %s can be written by everybody", folder);
    }
    err = sn_env_file_info(env, load->path, &info);
    if (err != SN_OK) return fail(load, err, "%s", sn_err_text(err));
    if (!info.is_file) return fail(load, SN_EINVAL, "not a regular file");
    if (info.mode & MODE_WRITABLE_BY_OTHERS) {
        return fail(load, SN_EPERM, "the file can be written by everybody");
    }
    return SN_OK;
}

static enum sn_err check_content(struct sn_env *env, const struct load *load)
{
    char *bytes = NULL;
    size_t size = 0;
    enum sn_err err = sn_env_file_read(env, load->path, FILE_BYTES_MAX, &bytes, &size);
    if (err != SN_OK) return fail(load, err, "%s", sn_err_text(err));
    err = sni_elf_check(bytes, size);
    sn_free(bytes, size + 1);
    if (err == SN_OK) return SN_OK;
    return fail(load, SN_EINVAL,
                err == SN_ETOOBIG ? "the file is cut short"
                                  : "not a shared object for this machine");
}

/* What dlerror says names the file, as does our own prefix. */
static const char *system_reason(const struct load *load)
{
    const char *reason = dlerror();
    if (reason == NULL) return "the system gives no reason";
    size_t size = strlen(load->path);
    if (strncmp(reason, load->path, size) != 0 || strncmp(reason + size, ": ", 2) != 0) {
        return reason;
    }
    return reason + size + 2;
}

static enum sn_err open_library(const struct load *load, const char *name,
                                const struct sn_plugin **out_plugin)
{
    void *library = dlopen(load->path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return fail(load, SN_EIO, "%s", system_reason(load));
    /* Stays open also when it is refused: unloading would run its code once more, for nothing. */
    const struct sn_plugin *plugin = dlsym(library, SN_PLUGIN_SYMBOL);
    if (plugin == NULL) {
        return fail(load, SN_EINVAL, "it does not export `" SN_PLUGIN_SYMBOL "`");
    }
    char reason[SN_PLUGIN_ERROR_MAX];
    enum sn_err err = sn_plugin_verify(plugin, name, reason);
    if (err != SN_OK) return fail(load, err, "%s", reason);
    *out_plugin = plugin;
    return SN_OK;
}

enum sn_err sn_plugin_load(struct sn_env *env, const char *folder, const char *name,
                           char out_error[SN_PLUGIN_ERROR_MAX], const struct sn_plugin **out_plugin)
{
    SN_ASSERT(sni_exports[0] != NULL);
    /* The name comes from a configuration: it must not lead out of the folder. */
    if (!sn_label_is_valid(name, strlen(name)) || folder[0] == '\0') {
        char quoted[SN_QUOTE_MAX];
        (void)snprintf(out_error, SN_PLUGIN_ERROR_MAX,
                       "plugin: %s in folder `%.300s` names no file", sn_quote(name, quoted),
                       folder); /* a cut text is fine */
        return SN_EINVAL;
    }
    struct load load = {.error = out_error, .path_size = strlen(folder) + strlen(name) + 5};
    load.path = sn_alloc(load.path_size);
    if (load.path == NULL) {
        (void)snprintf(out_error, SN_PLUGIN_ERROR_MAX, "plugin %s: %s", name,
                       sn_err_text(SN_ENOMEM)); /* as above */
        return SN_ENOMEM;
    }
    (void)snprintf(load.path, load.path_size, "%s/%s.so", folder, name); /* fits */
    enum sn_err err = check_file(env, folder, &load);
    if (err == SN_OK) err = check_content(env, &load);
    if (err == SN_OK) err = open_library(&load, name, out_plugin);
    sn_free(load.path, load.path_size);
    return err;
}
