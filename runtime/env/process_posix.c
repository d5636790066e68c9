/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process and its children. Guarantees: a child starts with default signals, none blocked,
 * and with no descriptor of ours but its standard ones; a process number is signalled only while
 * it is ours.
 */
#include "env/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/env_posix_int.h"

#define PRINT_STALL_MS 1000 /* how long a full, non-blocking terminal or pipe may hold us up */
#define STATM_BYTES    128  /* seven numbers */

static void note_output_error(struct sn_env *env, int code)
{
    uint32_t none = SN_OK;
    uint32_t err = (uint32_t)sni_err_from_errno(code);
    (void)atomic_compare_exchange_strong(&sni_posix_of(env)->output_err, &none, err);
}

void sni_posix_print(struct sn_env *env, int to_stderr, const char *text, size_t size)
{
    int fd = to_stderr ? STDERR_FILENO : STDOUT_FILENO;
    while (size > 0) {
        ssize_t put = write(fd, text, size);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && errno == EAGAIN) {
            struct pollfd item = {.fd = fd, .events = POLLOUT};
            int rc = poll(&item, 1, PRINT_STALL_MS);
            if (rc > 0 && (item.revents & POLLOUT)) continue;
        }
        if (put <= 0) {
            /* Best effort; whoever must know that a result arrived asks sn_process_output_err. */
            if (!to_stderr) note_output_error(env, put < 0 ? errno : EIO);
            return;
        }
        text += put;
        size -= (size_t)put;
    }
}

static uint32_t count_entries(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) return 0;
    uint32_t count = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] != '.') count++;
    }
    (void)closedir(folder); /* nothing was written */
    return count;
}

static uint64_t resident_bytes(void)
{
    char text[STATM_BYTES];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd); /* nothing was written */
    if (got <= 0) return 0;
    text[got] = '\0';
    char *at = text;
    (void)strtoull(at, &at, 10); /* the first number is the address space */
    return strtoull(at, &at, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void sni_posix_process_info(struct sn_env *env, struct sn_process_info *out_info)
{
    (void)env; /* the kernel's */
    uint32_t descriptors = count_entries("/proc/self/fd");
    *out_info = (struct sn_process_info){
        .descriptors = descriptors > 0 ? descriptors - 1 : 0, /* without the one that counted */
        .threads = count_entries("/proc/self/task"),
        .resident_bytes = resident_bytes(),
        .pid = (uint32_t)getpid(),
    };
}

/* --- Children --------------------------------------------------------------------------------- */

/* Returns an errno value. */
static int set_up_descriptors(posix_spawn_file_actions_t *actions, const char *log_path)
{
    int rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (rc == 0) {
        rc = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, log_path,
                                              O_WRONLY | O_CREAT | O_APPEND, 0644);
    }
    if (rc == 0) rc = posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
    return rc;
}

/* Our blocked and ignored signals would otherwise be the child's as well. Returns an errno value.
 * */
static int set_up_signals(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    int rc = posix_spawnattr_setsigmask(attributes, &none);
    if (rc == 0) rc = posix_spawnattr_setsigdefault(attributes, &all);
    if (rc == 0) {
        rc = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    return rc;
}

enum sn_err sn_process_start(struct sn_env *env, const char *const argv[], const char *log_path,
                             struct sn_process *out_process)
{
    SN_ASSERT(env != NULL && env->magic == SN_ENV_MAGIC);
    SN_ASSERT(argv != NULL && argv[0] != NULL);
    SN_ASSERT(log_path != NULL);
    SN_ASSERT(out_process != NULL);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0) return sni_err_from_errno(rc);
    rc = posix_spawnattr_init(&attributes);
    if (rc != 0) goto out_actions;
    rc = set_up_descriptors(&actions, log_path);
    if (rc != 0) goto out;
    rc = set_up_signals(&attributes);
    if (rc != 0) goto out;
    pid_t pid;
    /* posix_spawn does not write to the arguments; its type is older than const. */
    rc = posix_spawn(&pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, environ);
    if (rc == 0) out_process->pid = pid;
out:
    posix_spawnattr_destroy(&attributes);
out_actions:
    posix_spawn_file_actions_destroy(&actions);
    return rc == 0 ? SN_OK : sni_err_from_errno(rc);
}

void sn_process_signal(const struct sn_process *process, int signal)
{
    SN_ASSERT(process != NULL);
    SN_ASSERT(signal > 0);
    if (process->pid <= 0) return;    /* gone; 0 and -1 would mean many processes */
    (void)kill(process->pid, signal); /* until it is waited for, the number is its own */
}

enum sn_err sn_process_wait(struct sn_env *env, struct sn_process *process, uint64_t timeout_ms,
                            int *out_status)
{
    SN_ASSERT(env != NULL && env->magic == SN_ENV_MAGIC);
    SN_ASSERT(process != NULL);
    SN_ASSERT(out_status != NULL);
    if (process->pid <= 0) return SN_ESTATE;
    uint64_t deadline_ns = sni_deadline_ns(timeout_ms);
    int fd = pidfd_open(process->pid, 0); /* close-on-exec by itself */
    if (fd < 0) return sni_err_from_errno(errno);
    enum sn_err err = sni_posix_poll(sni_posix_of(env), fd, POLLIN, deadline_ns);
    (void)close(fd); /* nothing was written */
    if (err != SN_OK) return err;
    int status;
    pid_t pid;
    do {
        pid = waitpid(process->pid, &status, 0);
    } while (pid < 0 && errno == EINTR);
    if (pid != process->pid) return SN_EIO;
    *out_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    process->pid = 0;
    return SN_OK;
}

enum sn_err sn_process_remove_folder(struct sn_env *env, const char *path)
{
    (void)env; /* the kernel's files */
    SN_ASSERT(path != NULL);
    return rmdir(path) == 0 ? SN_OK : sni_err_from_errno(errno);
}

enum sn_err sn_process_self(struct sn_env *env, char *out, size_t capacity)
{
    (void)env; /* the kernel's */
    SN_ASSERT(out != NULL);
    SN_ASSERT(capacity > 0);
    ssize_t size = readlink("/proc/self/exe", out, capacity);
    if (size < 0) return sni_err_from_errno(errno);
    if ((size_t)size >= capacity) return SN_ETOOBIG;
    out[size] = '\0';
    return SN_OK;
}

void sn_process_sleep_ms(struct sn_env *env, uint64_t ms)
{
    SN_ASSERT(env != NULL && env->magic == SN_ENV_MAGIC);
    SN_ASSERT(ms < UINT64_MAX);
    enum sn_err err = sni_posix_poll(sni_posix_of(env), -1, 0, sni_deadline_ns(ms));
    SN_ASSERT(err == SN_ETIMEDOUT); /* there is nothing else to wait for */
}

enum sn_err sn_process_output_err(struct sn_env *env)
{
    SN_ASSERT(env != NULL && env->magic == SN_ENV_MAGIC);
    return (enum sn_err)atomic_load(&sni_posix_of(env)->output_err);
}

void sn_process_end_on_signals(struct sn_env *env)
{
    SN_ASSERT(env != NULL && env->magic == SN_ENV_MAGIC);
    int rc = pthread_sigmask(SIG_SETMASK, &sni_posix_of(env)->old_mask, NULL);
    SN_ASSERT(rc == 0);
}
