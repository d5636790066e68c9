/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: an operation of an environment runs only with arguments that keep env.h's contract,
 * so that no implementation needs to check them again.
 */
#include "env/env.h"

#include "base/assert.h"
#include "env/env_ops.h"

#define MODE_MAX 07777u
/* A file read whole; far above any limit in limits.h, far below what overflows a size. */
#define FILE_READ_MAX ((size_t)1 << 40)

static const struct sn_env_ops *ops_of(const struct sn_env *env)
{
    SN_ASSERT(env != NULL);
    SN_ASSERT(env->magic == SN_ENV_MAGIC);
    return env->ops;
}

static void check_loop(const struct sn_env *env, const struct sn_loop *loop)
{
    SN_ASSERT(loop != NULL);
    SN_ASSERT(loop->magic == SN_LOOP_MAGIC);
    SN_ASSERT(loop->env == env);
}

uint64_t sn_env_now_ns(struct sn_env *env)
{
    uint64_t now = ops_of(env)->now_ns(env);
    SN_DEBUG_ASSERT(now > 0);
    return now;
}

int64_t sn_env_wall_ms(struct sn_env *env)
{
    return ops_of(env)->wall_ms(env);
}

void sn_env_random(struct sn_env *env, void *out, size_t size)
{
    SN_ASSERT(out != NULL);
    ops_of(env)->random(env, out, size);
}

uint32_t sn_env_cpu_count(struct sn_env *env)
{
    uint32_t count = ops_of(env)->cpu_count(env);
    SN_ASSERT(count > 0);
    return count;
}

void sn_env_trim(struct sn_env *env)
{
    ops_of(env)->trim(env);
}

enum sn_err sn_env_loop_new(struct sn_env *env, const char *name, sn_step_fn step, void *arg,
                            struct sn_loop **out_loop)
{
    SN_ASSERT(name != NULL);
    SN_ASSERT(step != NULL);
    SN_ASSERT(out_loop != NULL);
    return ops_of(env)->loop_new(env, name, step, arg, out_loop);
}

enum sn_err sn_env_loop_start(struct sn_env *env, struct sn_loop *loop)
{
    check_loop(env, loop);
    return ops_of(env)->loop_start(env, loop);
}

void sn_env_loop_wake(struct sn_env *env, struct sn_loop *loop)
{
    check_loop(env, loop);
    ops_of(env)->loop_wake(env, loop);
}

void sn_env_loop_stop(struct sn_env *env, struct sn_loop *loop)
{
    check_loop(env, loop);
    ops_of(env)->loop_stop(env, loop);
}

void sn_env_loop_free(struct sn_env *env, struct sn_loop *loop)
{
    if (loop == NULL) return;
    check_loop(env, loop);
    ops_of(env)->loop_stop(env, loop);
    ops_of(env)->loop_free(env, loop);
}

enum sn_err sn_env_watch(struct sn_env *env, struct sn_loop *loop, struct sn_watch *watch,
                         struct sn_sock sock)
{
    check_loop(env, loop);
    SN_ASSERT(watch != NULL);
    SN_ASSERT(watch->ready != NULL);
    SN_ASSERT(sn_sock_is_open(sock));
    return ops_of(env)->watch(env, loop, watch, sock);
}

void sn_env_unwatch(struct sn_env *env, struct sn_loop *loop, struct sn_watch *watch)
{
    check_loop(env, loop);
    SN_ASSERT(watch != NULL);
    if (!sn_sock_is_open(watch->sock)) return;
    ops_of(env)->unwatch(env, loop, watch);
    SN_ASSERT(!sn_sock_is_open(watch->sock));
}

enum sn_err sn_env_offload(struct sn_env *env, enum sn_offload_kind kind, void (*run)(void *arg),
                           void *arg)
{
    SN_ASSERT(kind == SN_OFFLOAD_CPU || kind == SN_OFFLOAD_DISK || kind == SN_OFFLOAD_SLOW ||
              kind == SN_OFFLOAD_CLOSE);
    SN_ASSERT(run != NULL);
    return ops_of(env)->offload(env, kind, run, arg);
}

enum sn_err sn_env_on_request(struct sn_env *env, struct sn_loop *loop,
                              void (*fn)(void *arg, enum sn_env_request request), void *arg)
{
    check_loop(env, loop);
    SN_ASSERT(fn != NULL);
    return ops_of(env)->on_request(env, loop, fn, arg);
}

enum sn_err sn_env_park(struct sn_env *env, uint64_t timeout_ms)
{
    return ops_of(env)->park(env, timeout_ms);
}

void sn_env_unpark(struct sn_env *env)
{
    ops_of(env)->unpark(env);
}

enum sn_err sn_env_listen(struct sn_env *env, const struct sn_netaddr *addr,
                          struct sn_sock *out_sock, struct sn_netaddr *out_bound)
{
    SN_ASSERT(addr != NULL);
    SN_ASSERT(out_sock != NULL);
    SN_ASSERT(out_bound != NULL);
    return ops_of(env)->listen(env, addr, out_sock, out_bound);
}

enum sn_err sn_env_accept(struct sn_env *env, struct sn_sock listener, struct sn_sock *out_sock,
                          struct sn_netaddr *out_peer)
{
    SN_ASSERT(sn_sock_is_open(listener));
    SN_ASSERT(out_sock != NULL);
    return ops_of(env)->accept(env, listener, out_sock, out_peer);
}

enum sn_err sn_env_connect(struct sn_env *env, const struct sn_netaddr *addr,
                           struct sn_sock *out_sock)
{
    SN_ASSERT(addr != NULL);
    SN_ASSERT(out_sock != NULL);
    return ops_of(env)->connect(env, addr, out_sock);
}

enum sn_err sn_env_connect_result(struct sn_env *env, struct sn_sock sock)
{
    SN_ASSERT(sn_sock_is_open(sock));
    return ops_of(env)->connect_result(env, sock);
}

enum sn_err sn_env_read(struct sn_env *env, struct sn_sock sock, void *out, size_t capacity,
                        size_t *out_size)
{
    SN_ASSERT(sn_sock_is_open(sock));
    SN_ASSERT(out != NULL);
    SN_ASSERT(capacity > 0);
    SN_ASSERT(out_size != NULL);
    return ops_of(env)->read(env, sock, out, capacity, out_size);
}

enum sn_err sn_env_write(struct sn_env *env, struct sn_sock sock, const void *bytes, size_t size,
                         size_t *out_size)
{
    SN_ASSERT(sn_sock_is_open(sock));
    SN_ASSERT(bytes != NULL);
    SN_ASSERT(size > 0);
    SN_ASSERT(out_size != NULL);
    return ops_of(env)->write(env, sock, bytes, size, out_size);
}

enum sn_err sn_env_writev(struct sn_env *env, struct sn_sock sock, const struct sn_iovec *iov,
                          uint32_t count, size_t *out_size)
{
    SN_ASSERT(sn_sock_is_open(sock));
    SN_ASSERT(iov != NULL);
    SN_ASSERT(count > 0 && count <= SN_IOV_MAX);
    SN_ASSERT(out_size != NULL);
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += iov[i].size;
    SN_ASSERT(total > 0); /* "wrote nothing" must mean EAGAIN */
    return ops_of(env)->writev(env, sock, iov, count, out_size);
}

void sn_env_shutdown_write(struct sn_env *env, struct sn_sock sock)
{
    SN_ASSERT(sn_sock_is_open(sock));
    ops_of(env)->shutdown_write(env, sock);
}

void sn_env_close(struct sn_env *env, struct sn_sock sock)
{
    SN_ASSERT(sn_sock_is_open(sock));
    ops_of(env)->close(env, sock);
}

void sn_env_close_reset(struct sn_env *env, struct sn_sock sock)
{
    SN_ASSERT(sn_sock_is_open(sock));
    ops_of(env)->close_reset(env, sock);
}

void sn_env_set_abortive(struct sn_env *env, struct sn_sock sock, int is_abortive)
{
    SN_ASSERT(sn_sock_is_open(sock));
    ops_of(env)->set_abortive(env, sock, is_abortive);
}

int sn_env_is_reserve(struct sn_env *env, struct sn_sock sock)
{
    SN_ASSERT(sn_sock_is_open(sock));
    return ops_of(env)->is_reserve(env, sock);
}

uint64_t sn_env_descriptors_max(struct sn_env *env)
{
    return ops_of(env)->descriptors_max(env);
}

enum sn_err sn_env_listen_unix(struct sn_env *env, const char *path, unsigned mode,
                               struct sn_sock *out_sock)
{
    SN_ASSERT(path != NULL);
    SN_ASSERT(mode <= MODE_MAX);
    SN_ASSERT(out_sock != NULL);
    return ops_of(env)->listen_unix(env, path, mode, out_sock);
}

enum sn_err sn_env_connect_unix(struct sn_env *env, const char *path, struct sn_sock *out_sock)
{
    SN_ASSERT(path != NULL);
    SN_ASSERT(out_sock != NULL);
    return ops_of(env)->connect_unix(env, path, out_sock);
}

enum sn_err sn_env_unix_folder(struct sn_env *env, const char *folder,
                               char out[SN_UNIX_FOLDER_BYTES], struct sn_sock *out_hold)
{
    SN_ASSERT(folder != NULL);
    SN_ASSERT(out != NULL && out_hold != NULL);
    return ops_of(env)->unix_folder(env, folder, out, out_hold);
}

enum sn_err sn_env_peer_uid(struct sn_env *env, struct sn_sock sock, uint32_t *out_uid)
{
    SN_ASSERT(sn_sock_is_open(sock));
    SN_ASSERT(out_uid != NULL);
    return ops_of(env)->peer_uid(env, sock, out_uid);
}

uint32_t sn_env_own_uid(struct sn_env *env)
{
    return ops_of(env)->own_uid(env);
}

enum sn_err sn_env_resolve(struct sn_env *env, const char *host, uint16_t port,
                           struct sn_netaddr *out_addrs, uint32_t capacity, uint32_t *out_count)
{
    SN_ASSERT(host != NULL);
    SN_ASSERT(out_addrs != NULL);
    SN_ASSERT(capacity > 0);
    SN_ASSERT(out_count != NULL);
    return ops_of(env)->resolve(env, host, port, out_addrs, capacity, out_count);
}

enum sn_err sn_env_wait(struct sn_env *env, struct sn_sock sock, unsigned interest,
                        uint64_t timeout_ms)
{
    SN_ASSERT(sn_sock_is_open(sock));
    SN_ASSERT(interest == SN_READY_READ || interest == SN_READY_WRITE);
    return ops_of(env)->wait(env, sock, interest, timeout_ms);
}

enum sn_err sn_env_file_info(struct sn_env *env, const char *path, struct sn_file_info *out_info)
{
    SN_ASSERT(path != NULL);
    SN_ASSERT(out_info != NULL);
    return ops_of(env)->file_info(env, path, out_info);
}

enum sn_err sn_env_file_read(struct sn_env *env, const char *path, size_t max, char **out_data,
                             size_t *out_size)
{
    SN_ASSERT(path != NULL);
    SN_ASSERT(max < FILE_READ_MAX);
    SN_ASSERT(out_data != NULL);
    SN_ASSERT(out_size != NULL);
    return ops_of(env)->file_read(env, path, max, out_data, out_size);
}

enum sn_err sn_env_file_create(struct sn_env *env, const char *path, unsigned mode,
                               const void *data, size_t size)
{
    SN_ASSERT(path != NULL);
    SN_ASSERT(mode <= MODE_MAX);
    SN_ASSERT(data != NULL || size == 0);
    return ops_of(env)->file_create(env, path, mode, data, size);
}

enum sn_err sn_env_file_replace(struct sn_env *env, const char *path, unsigned mode,
                                const void *data, size_t size)
{
    SN_ASSERT(path != NULL);
    SN_ASSERT(mode <= MODE_MAX);
    SN_ASSERT(data != NULL || size == 0);
    return ops_of(env)->file_replace(env, path, mode, data, size);
}

enum sn_err sn_env_file_remove(struct sn_env *env, const char *path)
{
    SN_ASSERT(path != NULL);
    return ops_of(env)->file_remove(env, path);
}

enum sn_err sn_env_folder_make(struct sn_env *env, const char *path, unsigned mode)
{
    SN_ASSERT(path != NULL);
    SN_ASSERT(mode <= MODE_MAX);
    return ops_of(env)->folder_make(env, path, mode);
}

enum sn_err sn_env_folder_list(struct sn_env *env, const char *path,
                               int (*fn)(void *arg, const char *name), void *arg)
{
    SN_ASSERT(path != NULL);
    SN_ASSERT(fn != NULL);
    return ops_of(env)->folder_list(env, path, fn, arg);
}

enum sn_err sn_env_file_lock(struct sn_env *env, const char *path, struct sn_file_lock *out_lock)
{
    SN_ASSERT(path != NULL);
    SN_ASSERT(out_lock != NULL);
    return ops_of(env)->file_lock(env, path, out_lock);
}

void sn_env_file_unlock(struct sn_env *env, struct sn_file_lock lock)
{
    SN_ASSERT(lock.id >= 0);
    ops_of(env)->file_unlock(env, lock);
}

void sn_env_print(struct sn_env *env, int to_stderr, const char *text, size_t size)
{
    SN_ASSERT(text != NULL || size == 0);
    ops_of(env)->print(env, to_stderr, text, size);
}

void sn_env_process_info(struct sn_env *env, struct sn_process_info *out_info)
{
    SN_ASSERT(out_info != NULL);
    ops_of(env)->process_info(env, out_info);
}
