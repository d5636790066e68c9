/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: 1. An agent that runs has locked both of its folders, so that no other one uses its epoch or removes its
 * sockets; the locks are on the files themselves, and no name of a folder leads around them. 2. They end with the
 * process however that ends. 3. Nobody else can put a socket into `run`, or change what `data` says. 4. Nothing is
 * removed from a folder whose lock another agent has.
 */
#include "agents/folders.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agents/cli.h"
#include "agents/identity.h"
#include "base/alloc.h"
#include "base/text.h"

/* Not the same name: both may be one folder. */
#define DATA_LOCK "lock"
#define RUN_LOCK  "agent.lock"

/* In `run` there are sockets, which nobody else may even use; data others may read, if the operator lets them. */
#define RUN_FORBIDDEN  077u
#define DATA_FORBIDDEN 022u

static int fault(struct sn_folders_fault *out, int status, const char *field, const char *format,
                 ...) SN_PRINTF(4, 5);

/* Fills it in and gives the status back. */
static int fault(struct sn_folders_fault *out, int status, const char *field, const char *format,
                 ...)
{
    va_list args;
    out->field = field;
    va_start(args, format);
    (void)vsnprintf(out->text, sizeof out->text, format, args); /* cut is fine */
    va_end(args);
    return status;
}

static int no_memory(struct sn_folders_fault *out, const char *field)
{
    return fault(out, SN_EXIT_FAILED, field, "%s", sn_err_text(SN_ENOMEM));
}

static int make_one(struct sn_env *env, const char *field, const char *path,
                    struct sn_folders_fault *out)
{
    struct sn_file_info info;
    enum sn_err err = sn_env_folder_make(env, path, 0700);
    if (err == SN_OK) return SN_EXIT_OK;
    if (sn_env_file_info(env, path, &info) == SN_OK && !info.is_folder) {
        return fault(out, SN_EXIT_FAILED, field, "%s is a file; `%s:` must name a folder", path,
                     field);
    }
    return fault(out, SN_EXIT_FAILED, field, "%s, `%s:`: %s", path, field,
                 err == SN_EEXIST || err == SN_ENOENT ? "a file stands where a folder should be"
                                                      : sn_file_err_text(err));
}

static int check_one(struct sn_env *env, const char *field, const char *path, unsigned forbidden,
                     struct sn_folders_fault *out)
{
    struct sn_file_info info;
    enum sn_err err = sn_env_file_info(env, path, &info);
    if (err == SN_ENOENT) return SN_EXIT_OK; /* it will be made */
    if (err != SN_OK) {
        return fault(out, SN_EXIT_USAGE, field, "%s: %s", path, sn_file_err_text(err));
    }
    if (!info.is_folder) {
        return fault(out, SN_EXIT_FAILED, field, "%s is a file; `%s:` must name a folder", path,
                     field);
    }
    if (info.uid != sn_env_own_uid(env)) {
        return fault(out, SN_EXIT_USAGE, field,
                     "%s belongs to another user (uid %u); remove it, run the agent as that user, "
                     "or make it this one's: chown %u %s",
                     path, info.uid, sn_env_own_uid(env), path);
    }
    if ((info.mode & forbidden) == 0) return SN_EXIT_OK;
    if (forbidden == RUN_FORBIDDEN) {
        return fault(out, SN_EXIT_USAGE, field, "%s must be private; mend it with: chmod 700 %s",
                     path, path);
    }
    return fault(out, SN_EXIT_USAGE, field,
                 "%s may be written by others; mend it with: chmod go-w %s", path, path);
}

int sn_folders_check(struct sn_env *env, const char *data, const char *run,
                     struct sn_folders_fault *out_fault)
{
    int status = check_one(env, "data", data, DATA_FORBIDDEN, out_fault);
    return status != SN_EXIT_OK ? status : check_one(env, "run", run, RUN_FORBIDDEN, out_fault);
}

/* The process that holds a lock, as the lock's file says; 0 when it does not. */
static uint64_t holder_of(struct sn_env *env, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    uint64_t pid = 0;
    enum sn_err err = sn_env_file_read(env, path, 32, &text, &size);
    if (err != SN_OK) return 0;
    size_t digits = size > 0 && text[size - 1] == '\n' ? size - 1 : size;
    err = sn_text_to_u64(text, digits, INT32_MAX, &pid);
    sn_free(text, size + 1);
    return err == SN_OK ? pid : 0;
}

static int lock_one(struct sn_env *env, const char *field, const char *folder, const char *path,
                    struct sn_file_lock *out_lock, struct sn_folders_fault *out)
{
    char who[48] = "";
    enum sn_err err = sn_env_file_lock(env, path, out_lock);
    if (err == SN_OK) return SN_EXIT_OK;
    if (err != SN_EINUSE) {
        return fault(out, SN_EXIT_FAILED, field, "%s: %s", path, sn_file_err_text(err));
    }
    uint64_t pid = holder_of(env, path);
    if (pid != 0)
        (void)snprintf(who, sizeof who, " (pid %llu)", (unsigned long long)pid); /* fits */
    return fault(out, SN_EXIT_FAILED, field,
                 "another agent%s is running on %s; stop it first, or give this one its own `%s:`",
                 who, folder, field);
}

/* --- What a former life left ----------------------------------------------------------------------------- */

struct sweep {
    struct sn_env *env;
    const char *folder;
    struct sn_folders_fault *fault;
    int status;
};

static int remove_socket(void *arg, const char *name)
{
    struct sweep *sweep = arg;
    size_t size = strlen(name);
    int is_socket = size > 5 && strcmp(name + size - 5, ".sock") == 0;
    if (!is_socket && strncmp(name, "link-", 5) != 0) return 0; /* link_nng.c makes the latter */
    char *path = sn_path_in(sweep->folder, name);
    if (path == NULL) {
        sweep->status = no_memory(sweep->fault, "run");
        return 1;
    }
    enum sn_err err = sn_env_file_remove(sweep->env, path);
    struct sn_file_info info = {0};
    if (err == SN_ENOENT) err = SN_OK;
    if (err != SN_OK && sn_env_file_info(sweep->env, path, &info) == SN_OK && info.is_folder) {
        sweep->status =
            fault(sweep->fault, SN_EXIT_FAILED, "run",
                  "%s is a folder, and stands where a socket should be; remove it", path);
    } else if (err != SN_OK) {
        sweep->status =
            fault(sweep->fault, SN_EXIT_FAILED, "run", "%s: %s", path, sn_file_err_text(err));
    }
    sn_strfree(path);
    return err != SN_OK;
}

static int sweep_run(struct sn_env *env, const char *folder, struct sn_folders_fault *out)
{
    struct sweep sweep = {env, folder, out, SN_EXIT_OK};
    enum sn_err err = sn_env_folder_list(env, folder, remove_socket, &sweep);
    if (err == SN_OK) return sweep.status;
    return fault(out, SN_EXIT_FAILED, "run", "%s: %s", folder, sn_file_err_text(err));
}

/* --- Both ------------------------------------------------------------------------------------------------ */

static int lock_both(struct sn_env *env, struct sn_folders *folders, struct sn_folders_fault *out)
{
    char *data_lock = sn_path_in(folders->data, DATA_LOCK);
    folders->run_lock = sn_path_in(folders->run, RUN_LOCK);
    int status = SN_EXIT_OK;
    if (data_lock == NULL || folders->run_lock == NULL) status = no_memory(out, "data");
    if (status == SN_EXIT_OK) {
        status = lock_one(env, "data", folders->data, data_lock, &folders->locks[0], out);
        folders->has_data = status == SN_EXIT_OK;
    }
    if (status == SN_EXIT_OK) {
        status = lock_one(env, "run", folders->run, folders->run_lock, &folders->locks[1], out);
        folders->has_run = status == SN_EXIT_OK;
    }
    sn_strfree(data_lock);
    return status;
}

int sn_folders_take(struct sn_env *env, const char *data, const char *run,
                    struct sn_folders *out_folders, struct sn_folders_fault *out_fault)
{
    *out_folders = (struct sn_folders){.data = data, .run = run};
    int status = make_one(env, "data", data, out_fault);
    if (status == SN_EXIT_OK) status = make_one(env, "run", run, out_fault);
    if (status == SN_EXIT_OK) status = sn_folders_check(env, data, run, out_fault);
    if (status == SN_EXIT_OK) status = lock_both(env, out_folders, out_fault);
    if (status == SN_EXIT_OK) status = sweep_run(env, run, out_fault);
    return status;
}

void sn_folders_leave(struct sn_env *env, struct sn_folders *folders)
{
    if (folders->has_run) {
        enum sn_err err = sn_env_file_remove(env, folders->run_lock);
        (void)err; /* it means nothing once nobody has it locked */
        sn_env_file_unlock(env, folders->locks[1]);
    }
    if (folders->has_data) sn_env_file_unlock(env, folders->locks[0]);
    sn_strfree(folders->run_lock);
    *folders = (struct sn_folders){0};
}
