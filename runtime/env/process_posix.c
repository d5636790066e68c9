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
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
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

/* --- What the system would give ------------------------------------------------------------------ */

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t opened;
    int is_open;
};

static void *wait_at_gate(void *arg)
{
    struct gate *gate = arg;
    sni_thread_begin("sn-probe");
    pthread_mutex_lock(&gate->mutex);
    while (!gate->is_open) pthread_cond_wait(&gate->opened, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
    return NULL;
}

/* How many threads there can be at the same time, `wanted` at most. */
static uint32_t count_threads(pthread_t *threads, uint32_t wanted)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    uint32_t count = 0;
    while (count < wanted && pthread_create(&threads[count], NULL, wait_at_gate, &gate) == 0) {
        count++;
    }
    pthread_mutex_lock(&gate.mutex);
    gate.is_open = 1;
    pthread_cond_broadcast(&gate.opened);
    pthread_mutex_unlock(&gate.mutex);
    for (uint32_t i = 0; i < count; i++) {
        int rc = pthread_join(threads[i], NULL);
        SN_ASSERT(rc == 0);
    }
    pthread_cond_destroy(&gate.opened);
    pthread_mutex_destroy(&gate.mutex);
    return count;
}

static enum sn_err probe_descriptors(uint32_t wanted)
{
    int *fds = sn_alloc(wanted * sizeof *fds);
    if (fds == NULL) return SN_ENOMEM;
    enum sn_err err = SN_OK;
    uint32_t count = 0;
    while (count < wanted && err == SN_OK) {
        fds[count] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fds[count] < 0) {
            err = sni_err_from_errno(errno);
        } else {
            count++;
        }
    }
    while (count > 0) (void)close(fds[--count]); /* nothing was written */
    sn_free(fds, wanted * sizeof *fds);
    return err;
}

enum sn_err sn_process_probe(struct sn_env *env, uint32_t threads, uint32_t descriptors,
                             struct sn_process_room *out_room)
{
    SN_ASSERT(env != NULL && env->magic == SN_ENV_MAGIC);
    SN_ASSERT(out_room != NULL);
    SN_ASSERT(threads > 0 && descriptors > 0);
    *out_room = (struct sn_process_room){.threads_wanted = threads};
    pthread_t *made = sn_alloc(threads * sizeof *made);
    if (made == NULL) return SN_ENOMEM;
    out_room->threads = count_threads(made, threads);
    sn_free(made, threads * sizeof *made);
    return out_room->threads < threads ? SN_ENOMEM : probe_descriptors(descriptors);
}

uint32_t sn_process_pool_threads(struct sn_env *env)
{
    SN_ASSERT(env != NULL && env->magic == SN_ENV_MAGIC);
    uint32_t count = 0;
    for (unsigned i = 0; i < SNI_POOL_KINDS; i++) count += sni_posix_of(env)->pools[i].thread_max;
    return count;
}

void sn_process_exit(struct sn_env *env, int status)
{
    SN_ASSERT(env != NULL && env->magic == SN_ENV_MAGIC);
    _exit(status);
}

/* --- Children --------------------------------------------------------------------------------- */

/* What a child needs, prepared before there is one: between fork and exec it may only make system calls. */
struct birth {
    const char *const *argv;
    const char *log_path;
    unsigned options;
    pid_t parent;
    int report_fd; /* takes an errno value when there is no program to run */
};

/* Returns 0 or an errno value. */
static int set_up_child(const struct birth *birth)
{
    if ((birth->options & SN_PROCESS_WITH_PARENT) != 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
        if (getppid() != birth->parent) return ESRCH; /* it ended before it could be watched */
    }
    if ((birth->options & SN_PROCESS_OWN_GROUP) != 0 && setpgid(0, 0) != 0) return errno;
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = in < 0 ? -1 : open(birth->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (out < 0) return errno;
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) return errno;
    if (dup2(out, STDERR_FILENO) < 0) return errno;
    /* Our blocked and ignored signals would otherwise be the child's as well. */
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &standard, NULL); /* refused for those that cannot be changed */
    }
    sigset_t none;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) == 0 ? 0 : errno;
}

static void be_child(const struct birth *birth) __attribute__((noreturn));

static void be_child(const struct birth *birth)
{
    int code = set_up_child(birth);
    if (code == 0) {
        /* exec does not write to the arguments; its type is older than const. */
        (void)execve(birth->argv[0], (char *const *)(uintptr_t)birth->argv, environ);
        code = errno;
    }
    ssize_t put = write(birth->report_fd, &code, sizeof code);
    _exit(put == (ssize_t)sizeof code ? 127 : 126);
}

/* The pipe ends without a word when the program runs. Returns 0 or an errno value. */
static int read_report(int fd)
{
    int code = 0;
    ssize_t got;
    do {
        got = read(fd, &code, sizeof code);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof code ? code : 0;
}

/* Returns 0 or an errno value. */
static int give_birth(struct birth *birth, pid_t *out_pid)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    birth->report_fd = ends[1];
    /* Not posix_spawn, which cannot tie a child to its parent. */
    pid_t pid = fork();
    int code = pid < 0 ? errno : 0;
    if (pid == 0) be_child(birth);
    (void)close(ends[1]); /* the child's, and ours is of no use */
    if (pid > 0) code = read_report(ends[0]);
    (void)close(ends[0]); /* nothing was written */
    if (pid > 0 && code != 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue; /* it ends by itself */
    }
    if (code == 0) *out_pid = pid;
    return code;
}

enum sn_err sn_process_start(struct sn_env *env, const char *const argv[], const char *log_path,
                             unsigned options, struct sn_process *out_process)
{
    SN_ASSERT(env != NULL && env->magic == SN_ENV_MAGIC);
    SN_ASSERT(argv != NULL && argv[0] != NULL);
    SN_ASSERT(log_path != NULL);
    SN_ASSERT(out_process != NULL);
    struct birth birth = {
        .argv = argv, .log_path = log_path, .options = options, .parent = getpid()};
    pid_t pid = 0;
    int code = give_birth(&birth, &pid);
    if (code != 0) return sni_err_from_errno(code);
    out_process->pid = pid;
    return SN_OK;
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
