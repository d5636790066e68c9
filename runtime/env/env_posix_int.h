/* SPDX-License-Identifier: Apache-2.0 */
/* What the env_posix files share. */
#ifndef SN_ENV_ENV_POSIX_INT_H
#define SN_ENV_ENV_POSIX_INT_H

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "env/env_ops.h"
#include "env/env_posix.h"

#define SNI_NS_PER_MS         1000000u
#define SNI_NS_PER_S          1000000000u
#define SNI_THREAD_NAME_BYTES 16 /* with the NUL; the kernel's limit */

/* --- Offload pools (pool_posix.c) ------------------------------------------------------------ */

#define SNI_POOL_KINDS 4
#define SNI_POOL_JOBS_MAX                                                                          \
    1024u /* a burst of every peer's verification; beyond it is back-pressure */
#define SNI_POOL_THREADS_MAX 64u /* bounds the table; a larger machine uses this many */

struct sni_job {
    void (*run)(void *arg);
    void *arg;
};

struct sni_pool {
    pthread_mutex_t mutex;                  /* guards all below; held for a few instructions only */
    pthread_cond_t arrived;                 /* on the monotonic clock */
    pthread_cond_t ended;                   /* a thread left */
    struct sni_job jobs[SNI_POOL_JOBS_MAX]; /* ring */
    uint32_t head;
    uint32_t job_count;
    uint32_t idle_count; /* threads waiting for `arrived` */
    uint32_t thread_count;
    uint32_t thread_max;
    int is_stopping;
    char name[SNI_THREAD_NAME_BYTES];
};

void sni_pool_init(struct sni_pool *pool, const char *name, uint32_t thread_max);
/* No more jobs from now on; the queued ones still run. */
void sni_pool_stop(struct sni_pool *pool);
/* Waits for the threads, after sni_pool_stop. */
void sni_pool_fini(struct sni_pool *pool);

/* --- Environment (env_posix.c) --------------------------------------------------------------- */

struct sni_posix {
    struct sn_env base;
    uint32_t cpu_count;
    sigset_t old_mask; /* of the creating thread, given back when the environment is freed */
    struct sigaction old_sigpipe;
    struct rlimit old_nofile; /* given back, too */
    int has_old_nofile;
    _Atomic uint32_t loop_count; /* partner: itself, a sum checked when the environment is freed */
    /* Set once by on_request, cleared when its loop is freed. Partner: sni_posix_wait_mask; it
     * orders nothing, the flag is all there is. */
    _Atomic int has_request_handler;
    struct sni_pool pools[SNI_POOL_KINDS];
    pthread_mutex_t park_mutex; /* guards is_unparked */
    pthread_cond_t unparked;    /* on the monotonic clock */
    int is_unparked;
    _Atomic uint32_t output_err; /* enum sn_err; partner: itself, the first failure stays */
};

struct sni_posix *sni_posix_of(struct sn_env *env);
/* errno to error code: the only such table. Never SN_OK. */
enum sn_err sni_err_from_errno(int code);
uint64_t sni_now_ns(void);
/* SIGTERM, SIGINT and SIGHUP: they arrive through a descriptor, never as signals. */
void sni_request_signals(sigset_t *out_set);
/* Names the calling thread and blocks the request signals in it, whoever started it. */
void sni_thread_begin(const char *name);
/* For calls that wait on the command line's behalf: the mask that lets the operator's Ctrl-C
 * through, or NULL (leave blocked) when a handler waits for such requests. */
const sigset_t *sni_posix_wait_mask(struct sni_posix *posix);
/* Waits for `events` on fd (-1 = only for time) until deadline_ns (UINT64_MAX = for ever).
 * Errors: ETIMEDOUT, EIO. */
SN_MUST_CHECK enum sn_err sni_posix_poll(struct sni_posix *posix, int fd, short events,
                                         uint64_t deadline_ns);
/* now + timeout without overflow. */
uint64_t sni_deadline_ns(uint64_t timeout_ms);

/* Splits a path into its folder (owned by the caller, sn_strfree) and its last part (borrowed from
 * path). Errors: EINVAL (no last part), ETOOBIG, ENOMEM. */
SN_MUST_CHECK enum sn_err sni_path_split(const char *path, char **out_folder,
                                         const char **out_name);

/* Socket addresses; errors: EINVAL (no or unknown family). */
SN_MUST_CHECK enum sn_err sni_addr_to_system(const struct sn_netaddr *addr,
                                             struct sockaddr_storage *out_system,
                                             socklen_t *out_size);
SN_MUST_CHECK enum sn_err sni_addr_from_system(const struct sockaddr *system,
                                               struct sn_netaddr *out_addr);

#define SNI_BACKLOG 512 /* above SN_HANDSHAKES_MAX times the bursts a restart of all peers makes */

/* --- Operations, by file ---------------------------------------------------------------------- */

/* loop_posix.c */
enum sn_err sni_posix_loop_new(struct sn_env *env, const char *name, sn_step_fn step, void *arg,
                               struct sn_loop **out_loop);
enum sn_err sni_posix_loop_start(struct sn_env *env, struct sn_loop *loop);
void sni_posix_loop_wake(struct sn_env *env, struct sn_loop *loop);
void sni_posix_loop_stop(struct sn_env *env, struct sn_loop *loop);
void sni_posix_loop_free(struct sn_env *env, struct sn_loop *loop);
enum sn_err sni_posix_watch(struct sn_env *env, struct sn_loop *loop, struct sn_watch *watch,
                            struct sn_sock sock);
void sni_posix_unwatch(struct sn_env *env, struct sn_loop *loop, struct sn_watch *watch);
enum sn_err sni_posix_on_request(struct sn_env *env, struct sn_loop *loop,
                                 void (*fn)(void *arg, enum sn_env_request request), void *arg);

/* pool_posix.c */
enum sn_err sni_posix_offload(struct sn_env *env, enum sn_offload_kind kind, void (*run)(void *arg),
                              void *arg);

/* sock_posix.c */
enum sn_err sni_posix_listen(struct sn_env *env, const struct sn_netaddr *addr,
                             struct sn_sock *out_sock, struct sn_netaddr *out_bound);
enum sn_err sni_posix_accept(struct sn_env *env, struct sn_sock listener, struct sn_sock *out_sock,
                             struct sn_netaddr *out_peer);
enum sn_err sni_posix_connect(struct sn_env *env, const struct sn_netaddr *addr,
                              struct sn_sock *out_sock);
enum sn_err sni_posix_connect_result(struct sn_env *env, struct sn_sock sock);
enum sn_err sni_posix_read(struct sn_env *env, struct sn_sock sock, void *out, size_t capacity,
                           size_t *out_size);
enum sn_err sni_posix_write(struct sn_env *env, struct sn_sock sock, const void *bytes, size_t size,
                            size_t *out_size);
enum sn_err sni_posix_writev(struct sn_env *env, struct sn_sock sock, const struct sn_iovec *iov,
                             uint32_t count, size_t *out_size);
void sni_posix_shutdown_write(struct sn_env *env, struct sn_sock sock);
void sni_posix_close(struct sn_env *env, struct sn_sock sock);
void sni_posix_set_abortive(struct sn_env *env, struct sn_sock sock, int is_abortive);
void sni_posix_close_reset(struct sn_env *env, struct sn_sock sock);
enum sn_err sni_posix_resolve(struct sn_env *env, const char *host, uint16_t port,
                              struct sn_netaddr *out_addrs, uint32_t capacity, uint32_t *out_count);
enum sn_err sni_posix_wait(struct sn_env *env, struct sn_sock sock, unsigned interest,
                           uint64_t timeout_ms);

/* unix_posix.c */
enum sn_err sni_posix_listen_unix(struct sn_env *env, const char *path, unsigned mode,
                                  struct sn_sock *out_sock);
enum sn_err sni_posix_connect_unix(struct sn_env *env, const char *path, struct sn_sock *out_sock);
enum sn_err sni_posix_unix_folder(struct sn_env *env, const char *folder,
                                  char out[SN_UNIX_FOLDER_BYTES], struct sn_sock *out_hold);
enum sn_err sni_posix_peer_uid(struct sn_env *env, struct sn_sock sock, uint32_t *out_uid);
uint32_t sni_posix_own_uid(struct sn_env *env);

/* file_posix.c */
enum sn_err sni_posix_file_info(struct sn_env *env, const char *path,
                                struct sn_file_info *out_info);
enum sn_err sni_posix_file_read(struct sn_env *env, const char *path, size_t max, char **out_data,
                                size_t *out_size);
enum sn_err sni_posix_file_create(struct sn_env *env, const char *path, unsigned mode,
                                  const void *data, size_t size);
enum sn_err sni_posix_file_replace(struct sn_env *env, const char *path, unsigned mode,
                                   const void *data, size_t size);
enum sn_err sni_posix_file_remove(struct sn_env *env, const char *path);
enum sn_err sni_posix_folder_make(struct sn_env *env, const char *path, unsigned mode);
enum sn_err sni_posix_folder_list(struct sn_env *env, const char *path,
                                  int (*fn)(void *arg, const char *name), void *arg);
enum sn_err sni_posix_file_lock(struct sn_env *env, const char *path,
                                struct sn_file_lock *out_lock);
void sni_posix_file_unlock(struct sn_env *env, struct sn_file_lock lock);

/* process_posix.c */
void sni_posix_print(struct sn_env *env, int to_stderr, const char *text, size_t size);
void sni_posix_process_info(struct sn_env *env, struct sn_process_info *out_info);

#endif
