/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two sides of the environment seam: what an implementation (env_posix, tests/sim) provides.
 *
 * An implementation puts struct sn_env first in its own structure, and struct sn_loop first in its
 * loops, fills in both and casts back. Every operation is set. Contracts are those of env.h; the
 * dispatchers in env.c have checked the arguments (pointers, handles, sizes) before an operation
 * runs.
 */
#ifndef SN_ENV_ENV_OPS_H
#define SN_ENV_ENV_OPS_H

#include "base/assert.h"
#include "env/env.h"

#define SN_ENV_MAGIC  SN_MAGIC('s', 'e', 'n', 'v')
#define SN_LOOP_MAGIC SN_MAGIC('l', 'o', 'o', 'p')

struct sn_env_ops;

struct sn_env {
    const struct sn_env_ops *ops;
    uint32_t magic; /* SN_ENV_MAGIC; cleared when the environment is freed */
};

struct sn_loop {
    uint32_t magic;     /* SN_LOOP_MAGIC; cleared when the loop is freed */
    struct sn_env *env; /* the environment that made it */
};

struct sn_env_ops {
    uint64_t (*now_ns)(struct sn_env *env);
    int64_t (*wall_ms)(struct sn_env *env);
    void (*random)(struct sn_env *env, void *out, size_t size);
    uint32_t (*cpu_count)(struct sn_env *env);
    void (*trim)(struct sn_env *env);

    enum sn_err (*loop_new)(struct sn_env *env, const char *name, sn_step_fn step, void *arg,
                            struct sn_loop **out_loop);
    enum sn_err (*loop_start)(struct sn_env *env, struct sn_loop *loop);
    void (*loop_wake)(struct sn_env *env, struct sn_loop *loop);
    void (*loop_stop)(struct sn_env *env, struct sn_loop *loop); /* harmless when not running */
    void (*loop_free)(struct sn_env *env, struct sn_loop *loop); /* after loop_stop */
    enum sn_err (*watch)(struct sn_env *env, struct sn_loop *loop, struct sn_watch *watch,
                         struct sn_sock sock);
    void (*unwatch)(struct sn_env *env, struct sn_loop *loop, struct sn_watch *watch);
    enum sn_err (*offload)(struct sn_env *env, enum sn_offload_kind kind, void (*run)(void *arg),
                           void *arg);
    enum sn_err (*on_request)(struct sn_env *env, struct sn_loop *loop,
                              void (*fn)(void *arg, enum sn_env_request request), void *arg);
    enum sn_err (*park)(struct sn_env *env, uint64_t timeout_ms);
    void (*unpark)(struct sn_env *env);

    enum sn_err (*listen)(struct sn_env *env, const struct sn_netaddr *addr,
                          struct sn_sock *out_sock, struct sn_netaddr *out_bound);
    enum sn_err (*accept)(struct sn_env *env, struct sn_sock listener, struct sn_sock *out_sock,
                          struct sn_netaddr *out_peer);
    enum sn_err (*connect)(struct sn_env *env, const struct sn_netaddr *addr,
                           struct sn_sock *out_sock);
    enum sn_err (*connect_result)(struct sn_env *env, struct sn_sock sock);
    enum sn_err (*read)(struct sn_env *env, struct sn_sock sock, void *out, size_t capacity,
                        size_t *out_size);
    enum sn_err (*write)(struct sn_env *env, struct sn_sock sock, const void *bytes, size_t size,
                         size_t *out_size);
    enum sn_err (*writev)(struct sn_env *env, struct sn_sock sock, const struct sn_iovec *iov,
                          uint32_t count, size_t *out_size);
    void (*shutdown_write)(struct sn_env *env, struct sn_sock sock);
    void (*close)(struct sn_env *env, struct sn_sock sock);
    void (*close_reset)(struct sn_env *env, struct sn_sock sock);
    void (*set_abortive)(struct sn_env *env, struct sn_sock sock, int is_abortive);
    int (*is_reserve)(struct sn_env *env, struct sn_sock sock);
    uint64_t (*descriptors_max)(struct sn_env *env);
    enum sn_err (*listen_unix)(struct sn_env *env, const char *path, unsigned mode,
                               struct sn_sock *out_sock);
    enum sn_err (*connect_unix)(struct sn_env *env, const char *path, struct sn_sock *out_sock);
    enum sn_err (*unix_folder)(struct sn_env *env, const char *folder,
                               char out[SN_UNIX_FOLDER_BYTES], struct sn_sock *out_hold);
    enum sn_err (*peer_uid)(struct sn_env *env, struct sn_sock sock, uint32_t *out_uid);
    uint32_t (*own_uid)(struct sn_env *env);
    enum sn_err (*resolve)(struct sn_env *env, const char *host, uint16_t port,
                           struct sn_netaddr *out_addrs, uint32_t capacity, uint32_t *out_count);
    enum sn_err (*wait)(struct sn_env *env, struct sn_sock sock, unsigned interest,
                        uint64_t timeout_ms);

    enum sn_err (*file_info)(struct sn_env *env, const char *path, struct sn_file_info *out_info);
    enum sn_err (*file_read)(struct sn_env *env, const char *path, size_t max, char **out_data,
                             size_t *out_size);
    enum sn_err (*file_create)(struct sn_env *env, const char *path, unsigned mode,
                               const void *data, size_t size);
    enum sn_err (*file_replace)(struct sn_env *env, const char *path, unsigned mode,
                                const void *data, size_t size);
    enum sn_err (*file_remove)(struct sn_env *env, const char *path);
    enum sn_err (*folder_make)(struct sn_env *env, const char *path, unsigned mode);
    enum sn_err (*folder_list)(struct sn_env *env, const char *path,
                               int (*fn)(void *arg, const char *name), void *arg);
    enum sn_err (*file_lock)(struct sn_env *env, const char *path, struct sn_file_lock *out_lock);
    void (*file_unlock)(struct sn_env *env, struct sn_file_lock lock);

    void (*print)(struct sn_env *env, int to_stderr, const char *text, size_t size);
    void (*process_info)(struct sn_env *env, struct sn_process_info *out_info);
};

#endif
