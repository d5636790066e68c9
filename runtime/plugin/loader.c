/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: no code of a file runs before it is known that only its user and root could write it, and that it is
 * allowed; nothing of its descriptor is called or used before all of it was verified.
 */
#include "plugin/loader.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "crypto/key.h"
#include "env/env.h"
#include "env/image.h"
#include "plugin/elf.h"
#include "plugin/plugin_int.h"

#define MODE_WRITABLE_BY_OTHERS 0002u
#define MODE_WRITABLE_BY_GROUP  0020u
#define ROOT_UID                0u
#define FILE_BYTES_MAX          ((size_t)256 * 1024 * 1024)

struct load {
    struct sn_env *env;
    const struct sn_plugin_source *source;
    struct sn_plugin_fault *fault; /* the caller's */
    char *sha256;                  /* the caller's */
    struct sn_image image;
};

static void SN_PRINTF(2, 3) hint(const struct load *load, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(load->fault->hint, SN_PLUGIN_HINT_MAX, format, args); /* cut is fine */
    va_end(args);
}

static enum sn_err SN_PRINTF(3, 4)
    fail(const struct load *load, enum sn_err err, const char *format, ...)
{
    struct sn_text text;
    char reason[384];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof reason, format, args); /* a cut reason is fine */
    va_end(args);
    sn_text_init(&text, load->fault->cause, SN_PLUGIN_ERROR_MAX);
    sn_text_add(&text, "plugin %s: %s", load->source->path, reason);
    for (char *at = text.data; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ') *at = '?'; /* one line, whatever the file is called */
    }
    return err;
}

/* --- Who may write it ----------------------------------------------------------------------------- */

/* Whoever may write to the folder could put an older file of the owner's there. */
static enum sn_err check_folder(const struct load *load)
{
    struct sn_file_info info;
    const char *path = load->source->path;
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = sn_alloc(size + 1);
    if (folder == NULL) return fail(load, SN_ENOMEM, "%s", sn_err_text(SN_ENOMEM));
    memcpy(folder, slash == NULL ? "." : path, size);
    enum sn_err err = sn_env_file_info(load->env, folder, &info);
    if (err != SN_OK) {
        err = fail(load, err, "folder %s: %s", folder, sn_err_text(err));
    } else if (!info.is_folder) {
        err = fail(load, SN_EINVAL, "%s is not a folder", folder);
    } else if (info.uid != ROOT_UID && info.uid != sn_env_own_uid(load->env) &&
               info.uid != load->source->owner_uid) {
        err = fail(load, SN_EPERM, "folder %s belongs to another user (uid %u)", folder, info.uid);
        hint(load, "mend it with: chown %u %s", sn_env_own_uid(load->env), folder);
    } else if (info.mode & (MODE_WRITABLE_BY_GROUP | MODE_WRITABLE_BY_OTHERS)) {
        int is_open = (info.mode & MODE_WRITABLE_BY_OTHERS) != 0;
        err = fail(load, SN_EPERM, "folder %s can be written by %s", folder,
                   is_open ? "everybody" : "its group");
        hint(load, "mend it with: chmod go-w %s", folder);
    }
    sn_free(folder, size + 1);
    return err;
}

/* Whoever may write to the file may run code in the agent. */
static enum sn_err check_file(struct load *load)
{
    const char *path = load->source->path;
    enum sn_err err = check_folder(load);
    if (err != SN_OK) return err;
    err = sn_image_open(load->env, path, &load->image);
    if (err != SN_OK) return fail(load, err, "%s", sn_err_text(err));
    const struct sn_file_info *info = &load->image.info;
    uint32_t own = sn_env_own_uid(load->env);
    if (!info->is_file) {
        if (info->is_folder)
            hint(load, "`path` names the file in it: %s/%s.so", path, load->source->name);
        return fail(load, SN_EINVAL, "not a regular file");
    }
    if (info->uid != ROOT_UID && info->uid != own && info->uid != load->source->owner_uid) {
        hint(load, "mend it with: chown %u %s", own, path);
        return fail(load, SN_EPERM, "the file belongs to another user (uid %u)", info->uid);
    }
    if (info->mode & (MODE_WRITABLE_BY_GROUP | MODE_WRITABLE_BY_OTHERS)) {
        int is_open = (info->mode & MODE_WRITABLE_BY_OTHERS) != 0;
        hint(load, "mend it with: chmod go-w %s", path);
        return fail(load, SN_EPERM, "the file can be written by %s",
                    is_open ? "everybody" : "its group");
    }
    return SN_OK;
}

/* --- What is in it -------------------------------------------------------------------------------- */

static void digest_of(const char *bytes, size_t size, char out[SN_PLUGIN_SHA256_BYTES])
{
    uint8_t digest[SN_DIGEST_BYTES];
    static_assert(2 * SN_DIGEST_BYTES + 1 == SN_PLUGIN_SHA256_BYTES, "two digits a byte");
    sn_sha256(bytes, size, digest);
    sn_hex_encode(digest, sizeof digest, out);
}

static enum sn_err check_digest(const struct load *load)
{
    const struct sn_config_node *allowed = load->source->sha256;
    uint32_t count = sn_config_count(allowed);
    for (uint32_t i = 0; i < count; i++) {
        const char *wanted = sn_config_text(sn_config_at(allowed, i), "");
        if (strcasecmp(wanted, load->sha256) == 0) return SN_OK; /* digits in either case */
    }
    if (count > 0) {
        hint(load, "if that file is the right one, make the entry: sha256: \"%s\"", load->sha256);
        return fail(load, SN_EMISMATCH, "it is not the file that `sha256` allows");
    }
    if (!load->source->needs_sha256) return SN_OK;
    hint(load,
         "if you trust it, add to its entry: sha256: \"%s\"; or set `plugins_allow: any`, as "
         "while developing",
         load->sha256);
    return fail(load, SN_EMISMATCH, "nothing allows it: its entry has no `sha256`");
}

static enum sn_err check_bytes(struct load *load, const char *bytes, size_t size)
{
    digest_of(bytes, size, load->sha256);
    enum sn_err err = sni_elf_check(bytes, size);
    if (err != SN_OK) {
        hint(load, "copy, or build, it again");
        return fail(load, SN_EINVAL,
                    err == SN_ETOOBIG ? "the file is cut short"
                                      : "not a shared object for this machine");
    }
    err = check_digest(load);
    /* Without a digest the file itself is loaded: nothing is promised about its bytes, and profilers and
     * sanitizers find it by its name. */
    if (err != SN_OK || sn_config_count(load->source->sha256) == 0) return err;
    err = sn_image_seal(load->env, &load->image, load->source->name, bytes, size);
    return err == SN_OK ? SN_OK : fail(load, err, "it cannot be copied: %s", sn_err_text(err));
}

static enum sn_err check_content(struct load *load)
{
    char *bytes = NULL;
    size_t size = 0;
    enum sn_err err = sn_image_read(load->env, &load->image, FILE_BYTES_MAX, &bytes, &size);
    if (err != SN_OK) return fail(load, err, "%s", sn_err_text(err));
    err = check_bytes(load, bytes, size);
    sn_free(bytes, size + 1);
    return err;
}

/* --- Loading -------------------------------------------------------------------------------------- */

/* What dlerror says names the file by the descriptor's name, which tells nobody anything. */
static const char *system_reason(const char *path)
{
    const char *reason = dlerror();
    if (reason == NULL) return "the system gives no reason";
    size_t size = strlen(path);
    if (strncmp(reason, path, size) != 0 || strncmp(reason + size, ": ", 2) != 0) return reason;
    return reason + size + 2;
}

/* From here on the image stays open: see sn_image_path. */
static enum sn_err open_library(struct load *load, const struct sn_plugin **out_plugin)
{
    char path[SN_IMAGE_PATH_BYTES];
    char reason[SN_PLUGIN_ERROR_MAX];
    sn_image_path(load->env, &load->image, path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        hint(load, "build it against the headers of this agent, linking nothing that is not here");
        return fail(load, SN_EIO, "%s", system_reason(path));
    }
    load->image.id = -1;
    /* Stays open also when it is refused: unloading would run its code once more, for nothing. */
    const struct sn_plugin *plugin = dlsym(library, SN_PLUGIN_SYMBOL);
    if (plugin == NULL) {
        hint(load, "define it with SN_PLUGIN_EXPORT; see sennit/plugin.h");
        return fail(load, SN_EINVAL, "it does not export `" SN_PLUGIN_SYMBOL "`");
    }
    enum sn_err err = sn_plugin_verify(plugin, load->source->name, reason);
    if (err == SN_EVERSION) hint(load, "build it again with the headers of this agent");
    if (err != SN_OK) return fail(load, err, "%s", reason);
    *out_plugin = plugin;
    return SN_OK;
}

enum sn_err sn_plugin_load(struct sn_env *env, const struct sn_plugin_source *source,
                           char out_sha256[SN_PLUGIN_SHA256_BYTES],
                           struct sn_plugin_fault *out_fault, const struct sn_plugin **out_plugin)
{
    SN_ASSERT(sni_exports[0] != NULL);
    struct load load = {.env = env,
                        .source = source,
                        .fault = out_fault,
                        .sha256 = out_sha256,
                        .image = {.id = -1}};
    out_sha256[0] = '\0';
    *out_fault = (struct sn_plugin_fault){{0}, {0}};
    if (!sn_label_is_valid(source->name, strlen(source->name)) || source->path[0] == '\0') {
        char quoted[SN_QUOTE_MAX];
        return fail(&load, SN_EINVAL, "%s names no plugin", sn_quote(source->name, quoted));
    }
    enum sn_err err = check_file(&load);
    if (err == SN_OK) err = check_content(&load);
    if (err == SN_OK) err = open_library(&load, out_plugin);
    sn_image_close(env, &load.image);
    return err;
}

enum sn_err sn_plugin_hash(struct sn_env *env, const char *path,
                           char out_sha256[SN_PLUGIN_SHA256_BYTES])
{
    struct sn_image image;
    char *bytes = NULL;
    size_t size = 0;
    enum sn_err err = sn_image_open(env, path, &image);
    if (err != SN_OK) return err;
    err = sn_image_read(env, &image, FILE_BYTES_MAX, &bytes, &size);
    sn_image_close(env, &image);
    if (err != SN_OK) return err;
    digest_of(bytes, size, out_sha256);
    sn_free(bytes, size + 1);
    return SN_OK;
}
