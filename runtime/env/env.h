/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment seam: the only door to clocks, randomness, threads, sockets, files and processes.
 *
 * Everything in Sennit gets a `struct sn_env *` and asks it; env_posix.h is the real one, and a
 * simulated one runs the same code in one thread under virtual time. That is why threads appear
 * here as *loops* (the environment owns the waiting, the caller owns a step) and as *offloaded
 * jobs*.
 *
 * Sockets and connections are small integer handles. All socket calls are non-blocking: EAGAIN
 * means "wait for the watch to report readiness". Readiness is edge-triggered: after a report, go
 * on until EAGAIN. Thread-safe: every call, except that one loop, socket or file belongs to one
 * thread at a time. Errors: errno stops here; callers see enum sn_err.
 */
#ifndef SN_ENV_ENV_H
#define SN_ENV_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "base/netaddr.h"
#include "sennit/err.h"

struct sn_env;
struct sn_loop;

struct sn_sock {
    int32_t id; /* -1 = none */
};

#define SN_SOCK_NONE ((struct sn_sock){-1})

static inline int sn_sock_is_open(struct sn_sock sock)
{
    return sock.id >= 0;
}

/* --- Clock and randomness ------------------------------------------------------------------- */

/* Monotonic nanoseconds since some fixed point; never 0. */
uint64_t sn_env_now_ns(struct sn_env *env);
/* Wall clock, Unix milliseconds; may jump. For certificates, epochs and log lines only. */
int64_t sn_env_wall_ms(struct sn_env *env);
/* Cryptographic randomness; cannot fail (aborts if the system has none). */
void sn_env_random(struct sn_env *env, void *out, size_t size);
/* Number of processors to use. */
uint32_t sn_env_cpu_count(struct sn_env *env);
/* Gives memory that was freed back to the system. May take milliseconds, so call it from an offloaded job. Does
 * nothing where the allocator cannot. */
void sn_env_trim(struct sn_env *env);

/* --- Loops ------------------------------------------------------------------------------------ */

/* HANGUP is an error or a hang-up of both directions, never reported alone: the next read or write
 * tells which. The peer's half-close is READ, and the read returns ECLOSED. */
#define SN_READY_READ   1u
#define SN_READY_WRITE  2u
#define SN_READY_HANGUP 4u

struct sn_watch {
    /* Called on the loop's thread, between steps; must only take note and return. */
    void (*ready)(struct sn_watch *watch, unsigned ready);
    struct sn_sock sock;
};

/* One iteration of the loop's owner; returns the monotonic time at which it wants to run again at
 * the latest (anything <= now = at once, UINT64_MAX = only for an event). */
typedef uint64_t (*sn_step_fn)(void *arg, uint64_t now_ns);

SN_MUST_CHECK enum sn_err sn_env_loop_new(struct sn_env *env, const char *name, sn_step_fn step,
                                          void *arg, struct sn_loop **out_loop);
/* Starts the loop's thread. */
SN_MUST_CHECK enum sn_err sn_env_loop_start(struct sn_env *env, struct sn_loop *loop);
/* Makes the loop step soon. Any thread. Cheap when a wake is pending already. */
void sn_env_loop_wake(struct sn_env *env, struct sn_loop *loop);
/* Asks the loop to end after its present step; then waits for the thread. Not from the loop
 * itself. */
void sn_env_loop_stop(struct sn_env *env, struct sn_loop *loop);
void sn_env_loop_free(struct sn_env *env, struct sn_loop *loop); /* stops it first; NULL is fine */

/* Reports read and write readiness of the socket to `watch` (borrowed until unwatch). Loop thread
 * only, or before the loop was started or after it was stopped. Sets watch->sock. Errors: ENOSPC
 * (the user's watches are used up), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_env_watch(struct sn_env *env, struct sn_loop *loop,
                                       struct sn_watch *watch, struct sn_sock sock);
/* Reports nothing after it returned, and sets watch->sock to SN_SOCK_NONE; harmless for a watch
 * whose sock is that. Before the socket is closed: unwatching a closed one is an assertion. */
void sn_env_unwatch(struct sn_env *env, struct sn_loop *loop, struct sn_watch *watch);

/* Runs `run(arg)` on a pool thread, where it may block. Kinds share nothing, so that slow calls
 * never delay disk work. Errors: EFULL, ENOMEM (no thread), ECLOSED (the environment is
 * being freed). The job hands its result over by itself (sn_worker_post). */
enum sn_offload_kind {
    SN_OFFLOAD_CPU = 0,
    SN_OFFLOAD_DISK = 1,
    SN_OFFLOAD_SLOW = 2, /* waits for others: name service, programs */
    SN_OFFLOAD_CLOSE = 3 /* library calls that end connections: must not wait behind SLOW ones */
};
SN_MUST_CHECK enum sn_err sn_env_offload(struct sn_env *env, enum sn_offload_kind kind,
                                         void (*run)(void *arg), void *arg);

/* Termination and reload requests of the operator (SIGTERM and SIGINT = TERMINATE, SIGHUP =
 * RELOAD), called on the loop's thread; it must only take note and return. One handler per
 * environment, until its loop is freed. Before the loop is started or on its thread. Errors:
 * ESTATE (there is one), ENOFILES. */
enum sn_env_request { SN_REQUEST_TERMINATE = 1, SN_REQUEST_RELOAD = 2 };
SN_MUST_CHECK enum sn_err sn_env_on_request(struct sn_env *env, struct sn_loop *loop,
                                            void (*fn)(void *arg, enum sn_env_request request),
                                            void *arg);

/* The main thread waits here while loops do the work: sn_env_park returns when sn_env_unpark was called (also
 * before), or with ETIMEDOUT. One waiting thread; unpark from any thread. */
SN_MUST_CHECK enum sn_err sn_env_park(struct sn_env *env, uint64_t timeout_ms);
void sn_env_unpark(struct sn_env *env);

/* --- Sockets ---------------------------------------------------------------------------------- */

struct sn_iovec {
    void *data;
    size_t size;
};

#define SN_IOV_MAX 64

/* out_bound tells the address in use, also when port 0 was asked for. Errors: EINUSE, EPERM,
 * EUNREACHABLE (not an address of this machine), ENOFILES. */
SN_MUST_CHECK enum sn_err sn_env_listen(struct sn_env *env, const struct sn_netaddr *addr,
                                        struct sn_sock *out_sock, struct sn_netaddr *out_bound);
/* Errors: EAGAIN, ENOFILES (or memory is short: try again later, no event will tell), ECLOSED, EIO.
 * out_peer may be NULL; its family is NONE for a UNIX peer. */
SN_MUST_CHECK enum sn_err sn_env_accept(struct sn_env *env, struct sn_sock listener,
                                        struct sn_sock *out_sock, struct sn_netaddr *out_peer);
/* Starts connecting; write readiness tells that sn_env_connect_result has the outcome.
 * Errors: EUNREACHABLE (known at once), EPERM, ENOFILES, EINVAL (no address). */
SN_MUST_CHECK enum sn_err sn_env_connect(struct sn_env *env, const struct sn_netaddr *addr,
                                         struct sn_sock *out_sock);
/* SN_OK, EAGAIN (still under way), EREFUSED, EUNREACHABLE, ETIMEDOUT, ERESET. Asked again after a
 * failure: EUNREACHABLE. */
SN_MUST_CHECK enum sn_err sn_env_connect_result(struct sn_env *env, struct sn_sock sock);

/* Errors: EAGAIN, ECLOSED (end of stream; read only), ERESET, EIO. On SN_OK *out_size > 0. */
SN_MUST_CHECK enum sn_err sn_env_read(struct sn_env *env, struct sn_sock sock, void *out,
                                      size_t capacity, size_t *out_size);
SN_MUST_CHECK enum sn_err sn_env_write(struct sn_env *env, struct sn_sock sock, const void *bytes,
                                       size_t size, size_t *out_size);
SN_MUST_CHECK enum sn_err sn_env_writev(struct sn_env *env, struct sn_sock sock,
                                        const struct sn_iovec *iov, uint32_t count,
                                        size_t *out_size);
/* Half-close of the sending direction. */
void sn_env_shutdown_write(struct sn_env *env, struct sn_sock sock);
void sn_env_close(struct sn_env *env, struct sn_sock sock);
/* Closes so that the other side sees a reset rather than an end of stream. */
void sn_env_close_reset(struct sn_env *env, struct sn_sock sock);
/* While it is abortive, whatever closes the socket (a process that is killed, above all) does it as
 * sn_env_close_reset: what nobody brought to an end must not look like one. Bytes that were not sent
 * yet are lost with it, so take it back before an orderly end. TCP only. */
void sn_env_set_abortive(struct sn_env *env, struct sn_sock sock, int is_abortive);
/* Nonzero when this descriptor is one of the last that the process may have. They are kept for the operator and for
 * the mesh itself: whoever serves the many (clients of tunnels) gives such a one back at once. */
int sn_env_is_reserve(struct sn_env *env, struct sn_sock sock);
/* How many descriptors the process may have; it may be changed from outside. */
uint64_t sn_env_descriptors_max(struct sn_env *env);

/* UNIX stream sockets. Paths of any length work (short ones directly, long ones through a
 * descriptor of the folder). mode is the socket file's, whatever the umask. The last part of a
 * long path must fit by itself (82 bytes always do). Errors: EINUSE when the file exists, ETOOBIG,
 * ENOENT (no such folder), EPERM. */
SN_MUST_CHECK enum sn_err sn_env_listen_unix(struct sn_env *env, const char *path, unsigned mode,
                                             struct sn_sock *out_sock);
/* Connects at once or fails. Errors: ENOENT, EREFUSED (nobody listens), EAGAIN (its queue
 * is full), EPERM, ETOOBIG. */
SN_MUST_CHECK enum sn_err sn_env_connect_unix(struct sn_env *env, const char *path,
                                              struct sn_sock *out_sock);
/* A name for `folder` of less than SN_UNIX_FOLDER_BYTES, so that a socket in it fits a UNIX address: for
 * libraries that connect to a path by themselves. Good in this process until *out_hold is closed
 * (sn_env_close; SN_SOCK_NONE when the name is short by itself). Errors: ENOENT, EPERM, ENOFILES, ENOMEM. */
#define SN_UNIX_FOLDER_BYTES 64
SN_MUST_CHECK enum sn_err sn_env_unix_folder(struct sn_env *env, const char *folder,
                                             char out[SN_UNIX_FOLDER_BYTES],
                                             struct sn_sock *out_hold);
/* User id of the process at the other end of a UNIX socket (SO_PEERCRED). Errors: EINVAL (not
 * one). */
SN_MUST_CHECK enum sn_err sn_env_peer_uid(struct sn_env *env, struct sn_sock sock,
                                          uint32_t *out_uid);
uint32_t sn_env_own_uid(struct sn_env *env);

/* Blocks (name service): call it from an offloaded job. Errors: ENOENT (no such name), EIO. */
SN_MUST_CHECK enum sn_err sn_env_resolve(struct sn_env *env, const char *host, uint16_t port,
                                         struct sn_netaddr *out_addrs, uint32_t capacity,
                                         uint32_t *out_count);

/* Waits for readiness of one socket outside of any loop (command line clients only). `interest` is
 * SN_READY_READ or SN_READY_WRITE. Errors: ETIMEDOUT. */
SN_MUST_CHECK enum sn_err sn_env_wait(struct sn_env *env, struct sn_sock sock, unsigned interest,
                                      uint64_t timeout_ms);

/* --- Files ------------------------------------------------------------------------------------ */

struct sn_file_info {
    uint64_t size;
    uint32_t mode; /* permission bits */
    uint32_t uid;
    uint8_t is_file;
    uint8_t is_folder;
};

SN_MUST_CHECK enum sn_err sn_env_file_info(struct sn_env *env, const char *path,
                                           struct sn_file_info *out_info);
/* Whole file into memory from sn_alloc(*out_size + 1), NUL-terminated; freed by the caller with
 * sn_free(data, size + 1). Links are followed. Errors: ENOENT, EPERM, ETOOBIG (more than max),
 * EINVAL (not a regular file), EIO. */
SN_MUST_CHECK enum sn_err sn_env_file_read(struct sn_env *env, const char *path, size_t max,
                                           char **out_data, size_t *out_size);
/* Creates the file; never overwrites. It appears whole: whoever finds the name finds all of the
 * content, also after a kill or a power failure in the middle. Errors: EEXIST, ENOENT (no such
 * folder), EINVAL (not a file name), EPERM, EREADONLY, ENOSPC. fsynced, as is the folder; no file is
 * left on failure. Modes are exact, whatever the umask, here and below. */
SN_MUST_CHECK enum sn_err sn_env_file_create(struct sn_env *env, const char *path, unsigned mode,
                                             const void *data, size_t size);
/* Replaces the file atomically and durably (temporary file .sn-*.tmp, fsync, rename, fsync of the
 * folder). A link is replaced, not followed. Errors as above, and EEXIST when path is a folder. */
SN_MUST_CHECK enum sn_err sn_env_file_replace(struct sn_env *env, const char *path, unsigned mode,
                                              const void *data, size_t size);
SN_MUST_CHECK enum sn_err sn_env_file_remove(struct sn_env *env, const char *path);
/* Creates the folder and its parents, all with this mode; fine when it exists. Errors: EEXIST
 * (something else is there), ENOENT (a parent is a file), EPERM. */
SN_MUST_CHECK enum sn_err sn_env_folder_make(struct sn_env *env, const char *path, unsigned mode);
/* Calls fn with the name of each entry; stops when fn returns nonzero. */
SN_MUST_CHECK enum sn_err sn_env_folder_list(struct sn_env *env, const char *path,
                                             int (*fn)(void *arg, const char *name), void *arg);
/* Exclusive lock on a file (created if missing), held until the process ends or it is unlocked. The
 * file then says who holds it: a process id and a newline. Only its holder may remove it, and only
 * before it unlocks it. Errors: EINUSE. */
struct sn_file_lock {
    int32_t id;
};
SN_MUST_CHECK enum sn_err sn_env_file_lock(struct sn_env *env, const char *path,
                                           struct sn_file_lock *out_lock);
void sn_env_file_unlock(struct sn_env *env, struct sn_file_lock lock);

/* --- Output and process ----------------------------------------------------------------------- */

/* Writes to standard error or output, all of it, best effort. */
void sn_env_print(struct sn_env *env, int to_stderr, const char *text, size_t size);

/* Descriptors and threads this process has, and its resident memory: what `sennit status` shows. */
struct sn_process_info {
    uint32_t descriptors;
    uint32_t threads;
    uint64_t resident_bytes;
    uint32_t pid;
};
void sn_env_process_info(struct sn_env *env, struct sn_process_info *out_info);

#endif
