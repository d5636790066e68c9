/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UNIX stream sockets. Guarantees:
 *  1. A path may be as long as the system's paths. The kernel's address has room for 107 bytes;
 *     for a longer path the folder is opened (O_PATH) and the address goes through /proc/self/fd,
 *     so that only the last part must fit.
 *  2. A socket file never exists with more permissions than asked for. bind() applies the umask,
 *     which belongs to the whole process and must not be changed under other threads. But the
 *     kernel starts from the mode of the *unbound* socket, so fchmod() before bind() sets what
 *     bind() creates; the umask can only take away from it. What it took is given back by chmod
 *     before listen(), and until listen() nobody can connect whatever the mode: that also covers a
 *     file system that ignores the first step.
 *  3. A failed listen leaves no file behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "env/env_posix_int.h"

#define PROC_PATH_BYTES 40 /* "/proc/self/fd/" and a number */
#define MODE_BITS       07777u

struct unix_address {
    struct sockaddr_un system;
    int folder_fd; /* -1 when the path fits by itself; keeps /proc/self/fd/N alive */
};

static void address_fini(struct unix_address *address)
{
    if (address->folder_fd >= 0) (void)close(address->folder_fd); /* nothing was written */
}

/* Errors: ETOOBIG, EINVAL, ENOENT, EPERM, ENOFILES, ENOMEM. */
static enum sn_err address_init(struct unix_address *address, const char *path)
{
    *address = (struct unix_address){.system = {.sun_family = AF_UNIX}, .folder_fd = -1};
    size_t size = strlen(path);
    if (size == 0) return SN_EINVAL; /* would be an abstract or unnamed address */
    if (size < sizeof address->system.sun_path) {
        memcpy(address->system.sun_path, path, size + 1);
        return SN_OK;
    }
    char *folder;
    const char *name;
    enum sn_err err = sni_path_split(path, &folder, &name);
    if (err != SN_OK) return err;
    address->folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (address->folder_fd < 0) err = sni_err_from_errno(errno);
    sn_strfree(folder);
    if (err != SN_OK) return err;
    int used = snprintf(address->system.sun_path, sizeof address->system.sun_path,
                        "/proc/self/fd/%d/%s", address->folder_fd, name);
    if (used < 0 || (size_t)used >= sizeof address->system.sun_path) {
        address_fini(address);
        return SN_ETOOBIG;
    }
    return SN_OK;
}

/* Makes the mode of the bound file exactly `mode`, by a descriptor of the file itself so that
 * nothing put in its place meanwhile is touched. */
static enum sn_err fix_mode(const char *path, unsigned mode)
{
    enum sn_err err = SN_OK;
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return sni_err_from_errno(errno);
    struct stat info;
    int rc = fstat(fd, &info);
    if (rc != 0) {
        err = SN_EIO;
        goto out;
    }
    if (!S_ISSOCK(info.st_mode)) {
        err = SN_EPERM; /* somebody replaced it */
        goto out;
    }
    if ((info.st_mode & MODE_BITS) == mode) goto out;
    char self[PROC_PATH_BYTES];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd); /* fits */
    rc = chmod(self, mode); /* fchmod refuses O_PATH descriptors */
    if (rc != 0) err = sni_err_from_errno(errno);
out:
    (void)close(fd); /* nothing was written */
    return err;
}

enum sn_err sni_posix_listen_unix(struct sn_env *env, const char *path, unsigned mode,
                                  struct sn_sock *out_sock)
{
    (void)env; /* the kernel's */
    struct unix_address address;
    int is_bound = 0;
    enum sn_err err = address_init(&address, path);
    if (err != SN_OK) return err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        err = sni_err_from_errno(errno);
        goto out;
    }
    (void)fchmod(fd, mode); /* see the top; where it has no effect, fix_mode has */
    int rc = bind(fd, (const struct sockaddr *)&address.system, sizeof address.system);
    if (rc != 0) {
        err = sni_err_from_errno(errno);
        goto out;
    }
    is_bound = 1;
    err = fix_mode(address.system.sun_path, mode);
    if (err != SN_OK) goto out;
    rc = listen(fd, SNI_BACKLOG);
    if (rc != 0) {
        err = sni_err_from_errno(errno);
        goto out;
    }
    *out_sock = (struct sn_sock){fd};
out:
    if (err != SN_OK && is_bound) (void)unlink(address.system.sun_path); /* best effort */
    if (err != SN_OK && fd >= 0) (void)close(fd);                        /* never used */
    address_fini(&address);
    return err;
}

enum sn_err sni_posix_connect_unix(struct sn_env *env, const char *path, struct sn_sock *out_sock)
{
    (void)env; /* the kernel's */
    struct unix_address address;
    enum sn_err err = address_init(&address, path);
    if (err != SN_OK) return err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        err = sni_err_from_errno(errno);
        goto out;
    }
    int rc;
    do {
        rc = connect(fd, (const struct sockaddr *)&address.system, sizeof address.system);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0) {
        err = sni_err_from_errno(errno);
        (void)close(fd); /* never used */
        goto out;
    }
    *out_sock = (struct sn_sock){fd};
out:
    address_fini(&address);
    return err;
}

enum sn_err sni_posix_unix_folder(struct sn_env *env, const char *folder,
                                  char out[SN_UNIX_FOLDER_BYTES], struct sn_sock *out_hold)
{
    (void)env; /* the kernel's */
    size_t size = strlen(folder);
    if (size < SN_UNIX_FOLDER_BYTES) {
        memcpy(out, folder, size + 1);
        *out_hold = SN_SOCK_NONE;
        return SN_OK;
    }
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return sni_err_from_errno(errno);
    (void)snprintf(out, SN_UNIX_FOLDER_BYTES, "/proc/self/fd/%d", fd); /* fits */
    *out_hold = (struct sn_sock){fd};
    return SN_OK;
}

enum sn_err sni_posix_peer_uid(struct sn_env *env, struct sn_sock sock, uint32_t *out_uid)
{
    (void)env; /* the kernel's */
    int domain = 0;
    socklen_t size = sizeof domain;
    int rc = getsockopt(sock.id, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    if (rc != 0) return sni_err_from_errno(errno);
    /* Other families answer with a made-up user instead of an error. */
    if (domain != AF_UNIX) return SN_EINVAL;
    struct ucred peer;
    size = sizeof peer;
    rc = getsockopt(sock.id, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    if (rc != 0) return sni_err_from_errno(errno);
    *out_uid = peer.uid;
    return SN_OK;
}

uint32_t sni_posix_own_uid(struct sn_env *env)
{
    (void)env; /* the kernel's */
    return geteuid();
}
