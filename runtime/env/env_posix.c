/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: descriptors 0 to 2 are never a socket or file of ours, signals that end or reload
 * the agent are blocked before the first thread exists, and freeing gives back what construction
 * changed (except the allocator's settings, which belong to the process).
 */
#include "env/env_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "env/env_posix_int.h"

#define DISK_THREADS  4u /* enough to keep a disk's queue busy; fsyncs of more only interleave */
#define CLOSE_THREADS 4u /* each close takes well below a millisecond */
#define SLOW_THREADS  8u /* name service and the like: they wait, each for seconds at worst */

/* What sn_env_is_reserve keeps: room for every unfinished handshake, every control client, and the links of new
 * sessions; of a small table a part. */
#define RESERVE_DESCRIPTORS 128u
#define RESERVE_DIVISOR     4u

enum sn_err sni_err_from_errno(int code)
{
    static const struct {
        int code;
        enum sn_err err;
    } table[] = {
        {EAGAIN, SN_EAGAIN},
        {EINPROGRESS, SN_EAGAIN},
        {EALREADY, SN_EAGAIN},
        {ENOMEM, SN_ENOMEM},
        {ENOBUFS, SN_ENOMEM},
        {EINVAL, SN_EINVAL},
        {ENOENT, SN_ENOENT},
        {ENOTDIR, SN_ENOENT},
        {ESRCH, SN_ENOENT},
        {EEXIST, SN_EEXIST},
        {EADDRINUSE, SN_EINUSE},
        {EPERM, SN_EPERM},
        {EACCES, SN_EPERM},
        {EROFS, SN_EREADONLY},
        {ELOOP, SN_ELOOP},
        {ENOSPC, SN_ENOSPC},
        {EDQUOT, SN_ENOSPC},
        {EMFILE, SN_ENOFILES},
        {ENFILE, SN_ENOFILES},
        {ENAMETOOLONG, SN_ETOOBIG},
        {EFBIG, SN_ETOOBIG},
        {E2BIG, SN_ETOOBIG},
        {ECONNRESET, SN_ERESET},
        {EPIPE, SN_ERESET},
        {ECONNABORTED, SN_ERESET},
        {ENOTCONN, SN_ERESET},
        {ETIMEDOUT, SN_ETIMEDOUT},
        {ECONNREFUSED, SN_EREFUSED},
        {ENETUNREACH, SN_EUNREACHABLE},
        {EHOSTUNREACH, SN_EUNREACHABLE},
        {ENETDOWN, SN_EUNREACHABLE},
        {EHOSTDOWN, SN_EUNREACHABLE},
        {EADDRNOTAVAIL, SN_EUNREACHABLE},
        {EAFNOSUPPORT, SN_EUNREACHABLE}, /* no IPv6 in this kernel */
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(table); i++) {
        if (table[i].code == code) return table[i].err;
    }
    return SN_EIO;
}

struct sni_posix *sni_posix_of(struct sn_env *env)
{
    return SN_CONTAINER_OF(env, struct sni_posix, base);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    int rc = clock_gettime(clock, &now);
    SN_ASSERT(rc == 0);
    return (uint64_t)now.tv_sec * SNI_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t sni_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t sni_deadline_ns(uint64_t timeout_ms)
{
    uint64_t now = sni_now_ns();
    if (timeout_ms > (UINT64_MAX - now) / SNI_NS_PER_MS) return UINT64_MAX;
    return now + timeout_ms * SNI_NS_PER_MS;
}

static uint64_t posix_now_ns(struct sn_env *env)
{
    (void)env; /* one clock for all */
    return sni_now_ns();
}

static int64_t posix_wall_ms(struct sn_env *env)
{
    (void)env; /* one clock for all */
    return (int64_t)(clock_ns(CLOCK_REALTIME) / SNI_NS_PER_MS);
}

static void posix_random(struct sn_env *env, void *out, size_t size)
{
    (void)env; /* the kernel's generator */
    uint8_t *at = out;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        SN_ASSERT(got > 0); /* going on with predictable keys would be worse than ending */
        at += got;
        size -= (size_t)got;
    }
}

static uint32_t posix_cpu_count(struct sn_env *env)
{
    return sni_posix_of(env)->cpu_count;
}

static void posix_trim(struct sn_env *env)
{
    (void)env;
    (void)malloc_trim(0); /* whether there was anything to give does not matter */
}

/* The processors this process may run on, which a container or taskset may have restricted. */
static uint32_t count_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int rc = sched_getaffinity(0, sizeof set, &set);
    if (rc == 0 && CPU_COUNT(&set) > 0) return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* machines with more than CPU_SETSIZE */
    return online > 0 ? (uint32_t)online : 1;
}

enum sn_err sni_posix_poll(struct sni_posix *posix, int fd, short events, uint64_t deadline_ns)
{
    struct pollfd item = {.fd = fd, .events = events};
    for (;;) {
        uint64_t now = sni_now_ns();
        uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
        struct timespec timeout = {(time_t)(left / SNI_NS_PER_S), (long)(left % SNI_NS_PER_S)};
        int rc = ppoll(&item, 1, deadline_ns == UINT64_MAX ? NULL : &timeout,
                       sni_posix_wait_mask(posix));
        if (rc > 0) return SN_OK;
        if (rc < 0 && errno != EINTR) return SN_EIO;
        if (rc == 0 && sni_now_ns() >= deadline_ns) return SN_ETIMEDOUT;
    }
}

void sni_request_signals(sigset_t *out_set)
{
    sigemptyset(out_set);
    sigaddset(out_set, SIGTERM);
    sigaddset(out_set, SIGINT);
    sigaddset(out_set, SIGHUP);
}

void sni_thread_begin(const char *name)
{
    sigset_t requests;
    sni_request_signals(&requests);
    int rc = pthread_sigmask(SIG_BLOCK, &requests, NULL);
    SN_ASSERT(rc == 0);
    (void)pthread_setname_np(pthread_self(), name); /* only a help for people */
}

const sigset_t *sni_posix_wait_mask(struct sni_posix *posix)
{
    if (atomic_load_explicit(&posix->has_request_handler, memory_order_relaxed)) return NULL;
    return &posix->old_mask;
}

enum sn_err sni_path_split(const char *path, char **out_folder, const char **out_name)
{
    size_t size = strlen(path);
    if (size >= PATH_MAX) return SN_ETOOBIG;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return SN_EINVAL;
    char *folder = NULL;
    if (slash == NULL) {
        folder = sn_strdup(".");
    } else {
        size_t folder_size = slash == path ? 1 : (size_t)(slash - path); /* "/x" is in "/" */
        folder = sn_strndup(path, folder_size);
    }
    if (folder == NULL) return SN_ENOMEM;
    *out_folder = folder;
    *out_name = name;
    return SN_OK;
}

/* A program started with a closed standard descriptor would otherwise give its number to a socket,
 * and a log line would go to a peer. Errors: EIO. */
static enum sn_err occupy_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0) return SN_EIO;
    } while (fd <= STDERR_FILENO);
    (void)close(fd); /* nothing was written */
    return SN_OK;
}

/*
 * Slabs of 256 KiB come and go all the time. glibc's mmap threshold starts at 128 KiB, where each of
 * them would be an mmap, a munmap and 64 page faults; 1 MiB keeps them in the heap and, being set,
 * no longer moves by itself (it otherwise follows the largest block freed, up to 32 MiB).
 * Trimming at 16 MiB: with a fixed mmap threshold it would stay at 128 KiB, which gives a slab back
 * to the kernel and asks for it again at each message of an idle agent.
 * Arenas: by default there may be eight a core, and slabs, which one thread allocates and another
 * frees, spread over memory that stays with each arena. Two a core bound that; contention matters
 * little, since the data path does not allocate.
 */
static void tune_allocator(uint32_t cpu_count)
{
    uint32_t arenas = cpu_count < SNI_POOL_THREADS_MAX ? 2 * cpu_count : 2 * SNI_POOL_THREADS_MAX;
    /* A sanitizer's allocator has no such knobs; nothing depends on them but speed. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 16 << 20);
    (void)mallopt(M_ARENA_MAX, (int)arenas);
}

/* --- Descriptors ---------------------------------------------------------------------------------- */

/* Distributions start programs with a soft limit of 1,024 for the sake of select(), which nothing here uses. */
static void raise_descriptor_limit(struct sni_posix *posix)
{
    if (getrlimit(RLIMIT_NOFILE, &posix->old_nofile) != 0) return;
    struct rlimit raised = {posix->old_nofile.rlim_max, posix->old_nofile.rlim_max};
    posix->has_old_nofile = setrlimit(RLIMIT_NOFILE, &raised) == 0; /* else it stays as it was */
}

static uint64_t posix_descriptors_max(struct sn_env *env)
{
    (void)env; /* the limit is the process's, and may be changed from outside */
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

/* The kernel gives the lowest free number, so a number is an upper bound of how many are free below it: whoever got
 * one of the last has been told that the table is nearly full, without anybody having to count. */
static int posix_is_reserve(struct sn_env *env, struct sn_sock sock)
{
    uint64_t max = posix_descriptors_max(env);
    uint64_t reserve = max / RESERVE_DIVISOR;
    if (reserve > RESERVE_DESCRIPTORS) reserve = RESERVE_DESCRIPTORS;
    return (uint64_t)sock.id >= max - reserve;
}

/* --- The main thread's waiting place ------------------------------------------------------------- */

static void init_park(struct sni_posix *posix)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    SN_ASSERT(rc == 0);
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    SN_ASSERT(rc == 0);
    rc = pthread_cond_init(&posix->unparked, &attr);
    SN_ASSERT(rc == 0);
    (void)pthread_condattr_destroy(&attr); /* cannot fail for one that was initialised */
    rc = pthread_mutex_init(&posix->park_mutex, NULL);
    SN_ASSERT(rc == 0);
}

static enum sn_err posix_park(struct sn_env *env, uint64_t timeout_ms)
{
    struct sni_posix *posix = sni_posix_of(env);
    uint64_t until = sni_now_ns() / SNI_NS_PER_MS;
    until = timeout_ms > UINT32_MAX ? UINT64_MAX : until + timeout_ms;
    struct timespec at = {(time_t)(until / 1000), (long)(until % 1000 * SNI_NS_PER_MS)};
    int rc = 0;
    pthread_mutex_lock(&posix->park_mutex);
    while (!posix->is_unparked && rc == 0) {
        rc = until == UINT64_MAX
                 ? pthread_cond_wait(&posix->unparked, &posix->park_mutex)
                 : pthread_cond_timedwait(&posix->unparked, &posix->park_mutex, &at);
    }
    int is_unparked = posix->is_unparked;
    posix->is_unparked = 0;
    pthread_mutex_unlock(&posix->park_mutex);
    return is_unparked ? SN_OK : SN_ETIMEDOUT;
}

static void posix_unpark(struct sn_env *env)
{
    struct sni_posix *posix = sni_posix_of(env);
    pthread_mutex_lock(&posix->park_mutex);
    posix->is_unparked = 1;
    pthread_cond_signal(&posix->unparked);
    pthread_mutex_unlock(&posix->park_mutex);
}

static const struct sn_env_ops posix_ops = {
    .now_ns = posix_now_ns,
    .wall_ms = posix_wall_ms,
    .random = posix_random,
    .cpu_count = posix_cpu_count,
    .trim = posix_trim,
    .loop_new = sni_posix_loop_new,
    .loop_start = sni_posix_loop_start,
    .loop_wake = sni_posix_loop_wake,
    .loop_stop = sni_posix_loop_stop,
    .loop_free = sni_posix_loop_free,
    .watch = sni_posix_watch,
    .unwatch = sni_posix_unwatch,
    .offload = sni_posix_offload,
    .on_request = sni_posix_on_request,
    .park = posix_park,
    .unpark = posix_unpark,
    .listen = sni_posix_listen,
    .accept = sni_posix_accept,
    .connect = sni_posix_connect,
    .connect_result = sni_posix_connect_result,
    .read = sni_posix_read,
    .write = sni_posix_write,
    .writev = sni_posix_writev,
    .shutdown_write = sni_posix_shutdown_write,
    .close = sni_posix_close,
    .close_reset = sni_posix_close_reset,
    .set_abortive = sni_posix_set_abortive,
    .is_reserve = posix_is_reserve,
    .descriptors_max = posix_descriptors_max,
    .listen_unix = sni_posix_listen_unix,
    .connect_unix = sni_posix_connect_unix,
    .unix_folder = sni_posix_unix_folder,
    .peer_uid = sni_posix_peer_uid,
    .own_uid = sni_posix_own_uid,
    .resolve = sni_posix_resolve,
    .wait = sni_posix_wait,
    .file_info = sni_posix_file_info,
    .file_read = sni_posix_file_read,
    .file_create = sni_posix_file_create,
    .file_replace = sni_posix_file_replace,
    .file_remove = sni_posix_file_remove,
    .folder_make = sni_posix_folder_make,
    .folder_list = sni_posix_folder_list,
    .file_lock = sni_posix_file_lock,
    .file_unlock = sni_posix_file_unlock,
    .print = sni_posix_print,
    .process_info = sni_posix_process_info,
};

enum sn_err sn_env_posix_new(struct sn_env **out_env)
{
    SN_ASSERT(out_env != NULL);
    /* First of all: a request that comes while a program starts waits until somebody hears it. */
    sigset_t requests, old_mask;
    sni_request_signals(&requests);
    int rc = pthread_sigmask(SIG_BLOCK, &requests, &old_mask);
    SN_ASSERT(rc == 0);
    struct sni_posix *posix = NULL;
    enum sn_err err = occupy_standard_descriptors();
    if (err == SN_OK) posix = sn_alloc(sizeof *posix);
    if (posix == NULL) {
        (void)pthread_sigmask(SIG_SETMASK, &old_mask, NULL); /* as it was */
        return err != SN_OK ? err : SN_ENOMEM;
    }
    posix->base = (struct sn_env){.ops = &posix_ops, .magic = SN_ENV_MAGIC};
    posix->old_mask = old_mask;
    posix->cpu_count = count_cpus();
    tune_allocator(posix->cpu_count);
    raise_descriptor_limit(posix);
    init_park(posix);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    rc = sigaction(SIGPIPE, &ignore, &posix->old_sigpipe);
    SN_ASSERT(rc == 0);

    uint32_t cpu_threads =
        posix->cpu_count < SNI_POOL_THREADS_MAX ? posix->cpu_count : SNI_POOL_THREADS_MAX;
    sni_pool_init(&posix->pools[SN_OFFLOAD_CPU], "sn-cpu", cpu_threads);
    sni_pool_init(&posix->pools[SN_OFFLOAD_DISK], "sn-disk", DISK_THREADS);
    sni_pool_init(&posix->pools[SN_OFFLOAD_SLOW], "sn-slow", SLOW_THREADS);
    sni_pool_init(&posix->pools[SN_OFFLOAD_CLOSE], "sn-close", CLOSE_THREADS);
    *out_env = &posix->base;
    return SN_OK;
}

void sn_env_posix_free(struct sn_env *env)
{
    if (env == NULL) return;
    SN_ASSERT(env->magic == SN_ENV_MAGIC);
    SN_ASSERT(env->ops == &posix_ops);
    struct sni_posix *posix = sni_posix_of(env);
    SN_ASSERT(atomic_load(&posix->loop_count) == 0);
    /* All are closed before the first is waited for: a job of one may offload to another. */
    for (int i = 0; i < SNI_POOL_KINDS; i++) sni_pool_stop(&posix->pools[i]);
    for (int i = 0; i < SNI_POOL_KINDS; i++) sni_pool_fini(&posix->pools[i]);
    (void)pthread_cond_destroy(&posix->unparked); /* nobody waits any more */
    (void)pthread_mutex_destroy(&posix->park_mutex);
    if (posix->has_old_nofile)
        (void)setrlimit(RLIMIT_NOFILE, &posix->old_nofile); /* lower is allowed */
    (void)sigaction(SIGPIPE, &posix->old_sigpipe, NULL);    /* it was this process's own setting */
    (void)pthread_sigmask(SIG_SETMASK, &posix->old_mask, NULL);
    posix->base.magic = 0;
    sn_free(posix, sizeof *posix);
}
