/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: what is loaded by the name of an image is what was read from it, or the sealed bytes. */
#include "env/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "env/env_posix_int.h"

#define MODE_BITS 07777u
#define SEALS     (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

enum sn_err sn_image_open(struct sn_env *env, const char *path, struct sn_image *out_image)
{
    struct stat info;
    (void)env; /* the kernel's files */
    /* NONBLOCK keeps a FIFO from hanging the open; whoever reads finds that it is none. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return sni_err_from_errno(errno);
    int rc = fstat(fd, &info);
    if (rc != 0) {
        enum sn_err err = sni_err_from_errno(errno);
        (void)close(fd); /* nothing was written */
        return err;
    }
    out_image->id = fd;
    out_image->info = (struct sn_file_info){.size = (uint64_t)info.st_size,
                                            .mode = info.st_mode & MODE_BITS,
                                            .uid = info.st_uid,
                                            .is_file = S_ISREG(info.st_mode),
                                            .is_folder = S_ISDIR(info.st_mode)};
    return SN_OK;
}

/* What is there at most; less when the file was cut meanwhile. */
static enum sn_err read_all(int fd, char *out, size_t size, size_t *out_size)
{
    size_t have = 0;
    while (have < size) {
        ssize_t got = pread(fd, out + have, size - have, (off_t)have);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return sni_err_from_errno(errno);
        if (got == 0) break;
        have += (size_t)got;
    }
    *out_size = have;
    return SN_OK;
}

enum sn_err sn_image_read(struct sn_env *env, const struct sn_image *image, size_t max,
                          char **out_data, size_t *out_size)
{
    (void)env; /* as above */
    if (!image->info.is_file) return SN_EINVAL;
    if (image->info.size > max) return SN_ETOOBIG;
    size_t capacity = (size_t)image->info.size;
    size_t size = 0;
    char *data = sn_alloc(capacity + 1);
    if (data == NULL) return SN_ENOMEM;
    enum sn_err err = read_all(image->id, data, capacity, &size);
    if (err == SN_OK && size < capacity) {
        char *fresh = sn_realloc(data, capacity + 1, size + 1);
        if (fresh == NULL) err = SN_ENOMEM;
        if (fresh != NULL) data = fresh;
        if (fresh != NULL) capacity = size;
    }
    if (err != SN_OK) {
        sn_free(data, capacity + 1);
        return err;
    }
    data[size] = '\0';
    *out_data = data;
    *out_size = size;
    return SN_OK;
}

static enum sn_err write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = write(fd, bytes, size);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return sni_err_from_errno(errno);
        bytes += sent;
        size -= (size_t)sent;
    }
    return SN_OK;
}

enum sn_err sn_image_seal(struct sn_env *env, struct sn_image *image, const char *name,
                          const void *bytes, size_t size)
{
    (void)env; /* as above */
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return sni_err_from_errno(errno);
    enum sn_err err = write_all(fd, bytes, size);
    if (err == SN_OK && fcntl(fd, F_ADD_SEALS, SEALS) != 0) err = sni_err_from_errno(errno);
    if (err != SN_OK) {
        (void)close(fd); /* it was never used */
        return err;
    }
    (void)close(image->id); /* nothing was written */
    image->id = fd;
    image->info.size = size;
    return SN_OK;
}

static int is_same_file(const char *path, int fd)
{
    struct stat by_name;
    struct stat by_descriptor;
    if (stat(path, &by_name) != 0 || fstat(fd, &by_descriptor) != 0) return 0;
    return by_name.st_dev == by_descriptor.st_dev && by_name.st_ino == by_descriptor.st_ino;
}

void sn_image_path(struct sn_env *env, const struct sn_image *image, char out[SN_IMAGE_PATH_BYTES])
{
    (void)env; /* as above */
    SN_ASSERT(image->id >= 0);
    /* With the number of the process, so that a debugger finds the same file; unless /proc is that of another space
     * of numbers, where it would be somebody else's. */
    (void)snprintf(out, SN_IMAGE_PATH_BYTES, "/proc/%ld/fd/%d", (long)getpid(),
                   image->id); /* fits */
    if (is_same_file(out, image->id)) return;
    (void)snprintf(out, SN_IMAGE_PATH_BYTES, "/proc/self/fd/%d", image->id); /* fits */
}

void sn_image_close(struct sn_env *env, struct sn_image *image)
{
    (void)env;                                  /* as above */
    if (image->id >= 0) (void)close(image->id); /* nothing was written */
    image->id = -1;
}
