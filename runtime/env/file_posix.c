/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and folders. Guarantees: what create and replace acknowledged survives a power failure (the
 * file and its folder are fsynced); whoever finds a file finds its content whole, the old or the
 * new one, whenever the writer was killed; a failed call leaves no file behind. Modes are exact,
 * whatever the umask. A kill may leave a temporary file (.sn-*.tmp), which nobody reads.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "env/env_posix_int.h"

#define READ_GROWTH_MIN      4096u
#define MODE_BITS            07777u
#define TEMPORARY_NAME_BYTES 32
#define PROC_PATH_BYTES      40 /* "/proc/self/fd/" and a number */
#define LOCK_TRIES           16u
#define OPEN_FOLDER          (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

enum sn_err sni_posix_file_info(struct sn_env *env, const char *path, struct sn_file_info *out_info)
{
    (void)env; /* the kernel's files */
    struct stat info;
    int rc = stat(path, &info);
    if (rc != 0) return sni_err_from_errno(errno);
    *out_info = (struct sn_file_info){.size = (uint64_t)info.st_size,
                                      .mode = info.st_mode & MODE_BITS,
                                      .uid = info.st_uid,
                                      .is_file = S_ISREG(info.st_mode),
                                      .is_folder = S_ISDIR(info.st_mode)};
    return SN_OK;
}

/* --- Reading ---------------------------------------------------------------------------------- */

struct content {
    char *data; /* capacity + 1 bytes */
    size_t size;
    size_t capacity;
};

static enum sn_err content_resize(struct content *content, size_t capacity)
{
    char *fresh = sn_realloc(content->data, content->capacity + 1, capacity + 1);
    if (fresh == NULL) return SN_ENOMEM;
    content->data = fresh;
    content->capacity = capacity;
    return SN_OK;
}

/* Reads to the end. The size that the file claimed is only a hint: it may change meanwhile, and
 * files of /proc claim 0. */
static enum sn_err content_fill(struct content *content, int fd, size_t max)
{
    for (;;) {
        /* There is room for one byte more, so that the end is seen without growing. */
        ssize_t got =
            read(fd, content->data + content->size, content->capacity + 1 - content->size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return sni_err_from_errno(errno);
        if (got == 0) return SN_OK;
        content->size += (size_t)got;
        if (content->size <= content->capacity) continue;
        if (content->capacity >= max) return SN_ETOOBIG;
        size_t more = content->capacity < READ_GROWTH_MIN ? READ_GROWTH_MIN : content->capacity;
        more = more > max - content->capacity ? max - content->capacity : more;
        enum sn_err err = content_resize(content, content->capacity + more);
        if (err != SN_OK) return err;
    }
}

static enum sn_err content_read(struct content *content, int fd, size_t max)
{
    struct stat info;
    int rc = fstat(fd, &info);
    if (rc != 0) return sni_err_from_errno(errno);
    if (!S_ISREG(info.st_mode)) return SN_EINVAL;
    if ((uint64_t)info.st_size > max) return SN_ETOOBIG;
    content->capacity = (size_t)info.st_size;
    content->data = sn_alloc(content->capacity + 1);
    if (content->data == NULL) return SN_ENOMEM;
    enum sn_err err = content_fill(content, fd, max);
    if (err != SN_OK) return err;
    if (content->size < content->capacity) err = content_resize(content, content->size);
    return err;
}

enum sn_err sni_posix_file_read(struct sn_env *env, const char *path, size_t max, char **out_data,
                                size_t *out_size)
{
    (void)env; /* the kernel's files */
    struct content content = {0};
    /* Links are followed: keys mounted into containers are links. NONBLOCK keeps a FIFO from
     * hanging the open; it is refused after. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return sni_err_from_errno(errno);
    enum sn_err err = content_read(&content, fd, max);
    (void)close(fd); /* nothing was written */
    if (err != SN_OK) {
        sn_free(content.data, content.capacity + 1);
        return err;
    }
    SN_ASSERT(content.data != NULL);
    content.data[content.size] = '\0';
    *out_data = content.data;
    *out_size = content.size;
    return SN_OK;
}

/* --- Writing ---------------------------------------------------------------------------------- */

static enum sn_err write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, data, size);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return sni_err_from_errno(errno);
        if (put == 0) return SN_EIO;
        data += put;
        size -= (size_t)put;
    }
    return SN_OK;
}

/* The content of a new file, on disk but for its name. */
static enum sn_err fill_new(int fd, unsigned mode, const void *data, size_t size)
{
    if (fchmod(fd, mode) != 0) return sni_err_from_errno(errno);
    enum sn_err err = write_all(fd, data, size);
    if (err == SN_OK && fsync(fd) != 0) err = sni_err_from_errno(errno);
    return err;
}

/* A new file under a name that nobody knows. On failure there is no file. */
static enum sn_err write_temporary(struct sn_env *env, int folder_fd,
                                   char out_name[TEMPORARY_NAME_BYTES], unsigned mode,
                                   const void *data, size_t size)
{
    uint64_t number; /* random, so that two writers do not meet */
    env->ops->random(env, &number, sizeof number);
    (void)snprintf(out_name, TEMPORARY_NAME_BYTES, ".sn-%016llx.tmp", (unsigned long long)number);
    /* O_CREAT can only narrow the mode (umask), so the file is never more open than asked. */
    int fd =
        openat(folder_fd, out_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0) return sni_err_from_errno(errno);
    enum sn_err err = fill_new(fd, mode, data, size);
    int rc = close(fd);
    if (err == SN_OK && rc != 0) err = sni_err_from_errno(errno); /* network file systems */
    if (err != SN_OK) (void)unlinkat(folder_fd, out_name, 0);     /* best effort */
    return err;
}

/* By way of a file that has no name until it is complete, so that a kill leaves nothing at all. ESTATE: this system
 * cannot do so here. */
static enum sn_err create_unnamed(int folder_fd, const char *name, unsigned mode, const void *data,
                                  size_t size)
{
    char self[PROC_PATH_BYTES];
    int fd = openat(folder_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    if (fd < 0) {
        int is_unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
        return is_unknown ? SN_ESTATE : sni_err_from_errno(errno);
    }
    enum sn_err err = fill_new(fd, mode, data, size);
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd); /* fits */
    if (err == SN_OK && linkat(AT_FDCWD, self, folder_fd, name, AT_SYMLINK_FOLLOW) != 0) {
        err = errno == ENOENT ? SN_ESTATE : sni_err_from_errno(errno); /* there is no /proc */
    }
    (void)close(fd); /* fsynced */
    return err;
}

/* The same where every file has a name. */
static enum sn_err create_named(struct sn_env *env, int folder_fd, const char *name, unsigned mode,
                                const void *data, size_t size)
{
    char temporary[TEMPORARY_NAME_BYTES];
    enum sn_err err = write_temporary(env, folder_fd, temporary, mode, data, size);
    if (err != SN_OK) return err;
    int rc = renameat2(folder_fd, temporary, folder_fd, name, RENAME_NOREPLACE);
    /* Some file systems have the one, some the other. */
    if (rc != 0 && errno == EINVAL) rc = linkat(folder_fd, temporary, folder_fd, name, 0);
    if (rc != 0) err = sni_err_from_errno(errno);
    (void)unlinkat(folder_fd, temporary, 0); /* renamed, linked or of no use */
    return err;
}

static enum sn_err open_folder_of(const char *path, int *out_fd, const char **out_name)
{
    char *folder;
    enum sn_err err = sni_path_split(path, &folder, out_name);
    if (err != SN_OK) return err;
    int fd = open(folder, OPEN_FOLDER);
    if (fd < 0) err = sni_err_from_errno(errno);
    sn_strfree(folder);
    if (err == SN_OK) *out_fd = fd;
    return err;
}

enum sn_err sni_posix_file_create(struct sn_env *env, const char *path, unsigned mode,
                                  const void *data, size_t size)
{
    int folder_fd;
    const char *name;
    enum sn_err err = open_folder_of(path, &folder_fd, &name);
    if (err != SN_OK) return err;
    err = create_unnamed(folder_fd, name, mode, data, size);
    if (err == SN_ESTATE) err = create_named(env, folder_fd, name, mode, data, size);
    if (err == SN_OK && fsync(folder_fd) != 0) {
        err = sni_err_from_errno(errno);
        (void)unlinkat(folder_fd, name, 0); /* not acknowledged, so it must not be there */
    }
    (void)close(folder_fd); /* fsynced */
    return err;
}

enum sn_err sni_posix_file_replace(struct sn_env *env, const char *path, unsigned mode,
                                   const void *data, size_t size)
{
    int folder_fd;
    const char *name;
    enum sn_err err = open_folder_of(path, &folder_fd, &name);
    if (err != SN_OK) return err;
    char temporary[TEMPORARY_NAME_BYTES]; /* in the same folder, or rename could not be atomic */
    err = write_temporary(env, folder_fd, temporary, mode, data, size);
    if (err != SN_OK) goto out;
    int rc = renameat(folder_fd, temporary, folder_fd, name);
    if (rc != 0) {
        err = errno == EISDIR ? SN_EEXIST : sni_err_from_errno(errno);
        (void)unlinkat(folder_fd, temporary, 0); /* best effort */
        goto out;
    }
    rc = fsync(folder_fd);
    if (rc != 0) err = sni_err_from_errno(errno); /* replaced, but perhaps not for good */
out:
    (void)close(folder_fd); /* fsynced */
    return err;
}

enum sn_err sni_posix_file_remove(struct sn_env *env, const char *path)
{
    (void)env; /* the kernel's files */
    int rc = unlink(path);
    return rc == 0 ? SN_OK : sni_err_from_errno(errno);
}

/* --- Folders ---------------------------------------------------------------------------------- */

/* One level. Its name is made durable in the parent: files acknowledged later would otherwise
 * vanish with their folder. */
static enum sn_err make_one(const char *path, unsigned mode)
{
    int rc = mkdir(path, mode);
    if (rc != 0) return sni_err_from_errno(errno);
    int fd = open(path, OPEN_FOLDER | O_NOFOLLOW);
    if (fd < 0) return sni_err_from_errno(errno);
    enum sn_err err = SN_OK;
    rc = fchmod(fd, mode);
    if (rc != 0) err = sni_err_from_errno(errno);
    int parent_fd = openat(fd, "..", OPEN_FOLDER);
    if (parent_fd >= 0) { /* a parent that may be written but not read cannot be fsynced */
        if (err == SN_OK && fsync(parent_fd) != 0) err = sni_err_from_errno(errno);
        (void)close(parent_fd); /* fsynced */
    }
    (void)close(fd); /* nothing was written */
    return err;
}

enum sn_err sni_posix_folder_make(struct sn_env *env, const char *path, unsigned mode)
{
    size_t size = strlen(path);
    if (size == 0) return SN_EINVAL;
    if (size >= PATH_MAX) return SN_ETOOBIG;
    char *prefix = sn_strdup(path);
    if (prefix == NULL) return SN_ENOMEM;
    enum sn_err err = SN_OK;
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        if (path[i - 1] == '/') continue; /* "a//b", "a/" */
        prefix[i] = '\0';
        err = make_one(prefix, mode);
        prefix[i] = path[i];
        /* Somebody else may make it at the same time; and what is there may be a link to a folder.
         * */
        if (err == SN_EEXIST) err = SN_OK;
        if (err != SN_OK) break;
    }
    sn_strfree(prefix);
    if (err != SN_OK) return err;
    struct sn_file_info info;
    err = sni_posix_file_info(env, path, &info);
    if (err != SN_OK) return err;
    return info.is_folder ? SN_OK : SN_EEXIST;
}

enum sn_err sni_posix_folder_list(struct sn_env *env, const char *path,
                                  int (*fn)(void *arg, const char *name), void *arg)
{
    (void)env;                   /* the kernel's files */
    DIR *folder = opendir(path); /* close-on-exec by itself */
    if (folder == NULL) return sni_err_from_errno(errno);
    enum sn_err err = SN_OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry == NULL) {
            if (errno != 0) err = sni_err_from_errno(errno);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (fn(arg, entry->d_name) != 0) break;
    }
    (void)closedir(folder); /* nothing was written */
    return err;
}

/* --- Locks ------------------------------------------------------------------------------------ */

/* Whether `path` still names the open file. Its holder may have removed it before we got the lock: two
 * processes would then have locked two files of one name. */
static int is_named(int fd, const char *path)
{
    struct stat held;
    struct stat named;
    if (fstat(fd, &held) != 0 || stat(path, &named) != 0) return 0;
    return held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

/* flock belongs to the open file: it ends with the process however that ends, and unlike fcntl's
 * locks it is not lost when some other code closes the same file. */
static enum sn_err lock_once(const char *path, int *out_fd)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd < 0) return sni_err_from_errno(errno);
    int rc;
    do {
        rc = flock(fd, LOCK_EX | LOCK_NB);
    } while (rc != 0 && errno == EINTR);
    enum sn_err err = SN_OK;
    if (rc != 0) err = errno == EWOULDBLOCK ? SN_EINUSE : sni_err_from_errno(errno);
    if (err == SN_OK && !is_named(fd, path)) err = SN_EAGAIN;
    if (err != SN_OK) {
        (void)close(fd); /* nothing was written */
        return err;
    }
    *out_fd = fd;
    return SN_OK;
}

/* For people and messages only: who cannot write it still holds the lock. */
static void write_holder(int fd)
{
    char text[16];
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid()); /* fits */
    int rc = ftruncate(fd, 0);
    if (rc == 0 && pwrite(fd, text, (size_t)size, 0) != size) rc = ftruncate(fd, 0);
    (void)rc; /* best effort, as said */
}

enum sn_err sni_posix_file_lock(struct sn_env *env, const char *path, struct sn_file_lock *out_lock)
{
    (void)env; /* the kernel's files */
    int fd = -1;
    enum sn_err err = SN_EAGAIN;
    for (unsigned i = 0; i < LOCK_TRIES && err == SN_EAGAIN; i++) err = lock_once(path, &fd);
    if (err != SN_OK) return err == SN_EAGAIN ? SN_EINUSE : err; /* somebody comes and goes */
    write_holder(fd);
    *out_lock = (struct sn_file_lock){fd};
    return SN_OK;
}

void sni_posix_file_unlock(struct sn_env *env, struct sn_file_lock lock)
{
    (void)env; /* the kernel's files */
    /* Explicitly, not by close alone: a child that is being started may hold a copy for an
     * instant. */
    (void)flock(lock.id, LOCK_UN);
    (void)close(lock.id); /* nothing was written */
}
