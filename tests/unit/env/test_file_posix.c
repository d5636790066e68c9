/* SPDX-License-Identifier: Apache-2.0 */
/* Files: exact modes, atomic replacement, no leftovers, limits, locks. */
#include "env_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int count_entry(void *arg, const char *name)
{
    assert_true(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
    ++*(int *)arg;
    return 0;
}

static int stop_at_first(void *arg, const char *name)
{
    (void)name;
    ++*(int *)arg;
    return 1;
}

static int entries(struct fixture *fixture)
{
    int count = 0;
    assert_ok(sn_env_folder_list(fixture->env, fixture->folder, count_entry, &count));
    return count;
}

static void assert_content(struct fixture *fixture, const char *path, const char *expected)
{
    char *data;
    size_t size;
    assert_ok(sn_env_file_read(fixture->env, path, 1000000, &data, &size));
    assert_int_equal(size, strlen(expected));
    assert_string_equal(data, expected);
    sn_free(data, size + 1);
}

static unsigned mode_of(struct fixture *fixture, const char *path)
{
    struct sn_file_info info;
    assert_ok(sn_env_file_info(fixture->env, path, &info));
    return info.mode;
}

static void create_never_overwrites(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    char path[PATH_BYTES], bad[PATH_BYTES];
    path_in(fixture, path, "file");
    mode_t old = umask(077);
    assert_ok(sn_env_file_create(env, path, 0664, "one", 3));
    umask(old);
    assert_int_equal(mode_of(fixture, path), 0664);
    assert_int_equal(sn_env_file_create(env, path, 0600, "two", 3), SN_EEXIST);
    assert_content(fixture, path, "one");
    assert_int_equal(sn_env_file_create(env, path_in(fixture, bad, "no/file"), 0600, "x", 1),
                     SN_ENOENT);
    assert_int_equal(sn_env_file_create(env, path_in(fixture, bad, ""), 0600, "x", 1), SN_EINVAL);
    assert_int_equal(sn_env_file_create(env, path_in(fixture, bad, ".."), 0600, "x", 1), SN_EINVAL);
    assert_ok(sn_env_file_create(env, path_in(fixture, bad, "empty"), 0600, NULL, 0));
    assert_content(fixture, bad, "");
    assert_ok(sn_env_file_remove(env, path));
    assert_int_equal(sn_env_file_remove(env, path), SN_ENOENT);
}

static void replace_is_whole_and_clean(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    char path[PATH_BYTES], folder[PATH_BYTES];
    path_in(fixture, path, "file");
    assert_ok(sn_env_file_replace(env, path, 0600, "one", 3));
    assert_ok(sn_env_file_replace(env, path, 0640, "second", 6));
    assert_content(fixture, path, "second");
    assert_int_equal(mode_of(fixture, path), 0640);
    assert_int_equal(entries(fixture), 1);
    path_in(fixture, folder, "folder");
    assert_ok(sn_env_folder_make(env, folder, 0700));
    assert_int_equal(sn_env_file_replace(env, folder, 0600, "x", 1), SN_EEXIST);
    assert_int_equal(entries(fixture), 2);
}

/* File systems differ in what they can do; these here can be made to lack it. */
static int lacks_unnamed;
static int lacks_noreplace;

int __real_openat(int folder_fd, const char *path, int flags, mode_t mode);
int __wrap_openat(int folder_fd, const char *path, int flags, mode_t mode);

int __wrap_openat(int folder_fd, const char *path, int flags, mode_t mode)
{
    if (lacks_unnamed && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_openat(folder_fd, path, flags, mode);
}

int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    if (lacks_noreplace) {
        errno = EINVAL;
        return -1;
    }
    return __real_renameat2(from_fd, from, to_fd, to, flags);
}

static void creation_on_other_file_systems(void **state)
{
    for (int i = 0; i < 2; i++) {
        lacks_unnamed = 1;
        lacks_noreplace = i;
        struct fixture *fixture = *state;
        struct sn_env *env = fixture->env;
        char path[PATH_BYTES];
        path_in(fixture, path, i == 0 ? "renamed" : "linked");
        assert_ok(sn_env_file_create(env, path, 0640, "one", 3));
        assert_int_equal(sn_env_file_create(env, path, 0600, "two", 3), SN_EEXIST);
        assert_content(fixture, path, "one");
        assert_int_equal(mode_of(fixture, path), 0640);
        assert_int_equal(entries(fixture), i + 1); /* no temporary file */
        lacks_unnamed = lacks_noreplace = 0;
    }
}

#define BIG_BYTES (16u << 20)

/* Somebody who looks while a file is being made, or after its maker was killed, finds all of it or nothing. */
static void created_file_appears_whole(void **state)
{
    struct fixture *fixture = *state;
    char path[PATH_BYTES];
    path_in(fixture, path, "big");
    for (int i = 0; i < 3; i++) {
        lacks_unnamed = i > 0;
        lacks_noreplace = i > 1;
        char *big = calloc(1, BIG_BYTES);
        assert_non_null(big);
        pid_t pid = fork();
        if (pid == 0) {
            int is_made = sn_env_file_create(fixture->env, path, 0600, big, BIG_BYTES) == SN_OK;
            _exit(is_made ? 0 : 1);
        }
        assert_true(pid > 0);
        struct stat info = {0};
        int status = 0;
        pid_t ended = 0;
        while (stat(path, &info) != 0 && ended == 0) ended = waitpid(pid, &status, WNOHANG);
        kill(pid, SIGKILL);
        if (ended == 0) waitpid(pid, NULL, 0);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_size, BIG_BYTES);
        assert_int_equal(unlink(path), 0);
        free(big);
    }
    lacks_unnamed = lacks_noreplace = 0;
}

static void errors_name_their_cause(void **state)
{
    struct fixture *fixture = *state;
    char path[PATH_BYTES], deep[PATH_BYTES], *data = NULL;
    size_t size = 0;
    assert_int_equal(symlink("loop", path_in(fixture, path, "loop")), 0);
    assert_int_equal(sn_env_file_read(fixture->env, path, 10, &data, &size), SN_ELOOP);
    path_in(fixture, deep, "loop/file");
    assert_int_equal(sn_env_file_create(fixture->env, deep, 0600, "x", 1), SN_ELOOP);
    assert_null(data);
}

/* The limit on file sizes stands in for a full disk: the write fails half-way. */
static void failed_write_leaves_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    static char big[100000];
    char path[PATH_BYTES], fresh[PATH_BYTES];
    struct rlimit old, small;
    path_in(fixture, path, "file");
    assert_ok(sn_env_file_replace(env, path, 0600, "one", 3));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){4096, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    enum sn_err replaced = sn_env_file_replace(env, path, 0600, big, sizeof big);
    enum sn_err created =
        sn_env_file_create(env, path_in(fixture, fresh, "new"), 0600, big, sizeof big);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(replaced, SN_ETOOBIG);
    assert_int_equal(created, SN_ETOOBIG);
    assert_int_equal(entries(fixture), 1);
    assert_content(fixture, path, "one");
}

static void read_limits_and_kinds(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    char path[PATH_BYTES], other[PATH_BYTES], *data = NULL;
    size_t size = 99;
    path_in(fixture, path, "file");
    assert_ok(sn_env_file_create(env, path, 0600, "12345", 5));
    assert_ok(sn_env_file_read(env, path, 5, &data, &size));
    assert_int_equal(size, 5);
    sn_free(data, size + 1);
    data = NULL;
    assert_int_equal(sn_env_file_read(env, path, 4, &data, &size), SN_ETOOBIG);
    assert_int_equal(sn_env_file_read(env, fixture->folder, 4, &data, &size), SN_EINVAL);
    assert_int_equal(sn_env_file_read(env, "/dev/zero", 4, &data, &size), SN_EINVAL);
    path_in(fixture, other, "fifo");
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(sn_env_file_read(env, other, 4, &data, &size), SN_EINVAL); /* does not hang */
    path_in(fixture, other, "none");
    assert_int_equal(sn_env_file_read(env, other, 4, &data, &size), SN_ENOENT);
    assert_null(data);
    path_in(fixture, other, "link");
    assert_int_equal(symlink(path, other), 0);
    assert_content(fixture, other, "12345");
    /* A file that claims size 0. */
    assert_ok(sn_env_file_read(env, "/proc/self/smaps", 10000000, &data, &size));
    assert_true(size > 4096);
    assert_int_equal(strlen(data), size);
    sn_free(data, size + 1);
    assert_int_equal(sn_env_file_read(env, "/proc/self/smaps", 100, &data, &size), SN_ETOOBIG);
}

static void info_tells_kinds(void **state)
{
    struct fixture *fixture = *state;
    struct sn_file_info info;
    char path[PATH_BYTES];
    path_in(fixture, path, "file");
    assert_int_equal(sn_env_file_info(fixture->env, path, &info), SN_ENOENT);
    assert_ok(sn_env_file_create(fixture->env, path, 0600, "abc", 3));
    assert_ok(sn_env_file_info(fixture->env, path, &info));
    assert_true(info.size == 3 && info.is_file && !info.is_folder);
    assert_int_equal(info.uid, geteuid());
    assert_ok(sn_env_file_info(fixture->env, fixture->folder, &info));
    assert_true(!info.is_file && info.is_folder);
    assert_int_equal(info.mode, 0700);
}

static void folders(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    char path[PATH_BYTES];
    int count = 0;
    mode_t old = umask(077);
    assert_ok(sn_env_folder_make(env, path_in(fixture, path, "a//b/c/"), 0755));
    umask(old);
    assert_int_equal(mode_of(fixture, path), 0755);
    assert_int_equal(mode_of(fixture, path_in(fixture, path, "a")), 0755);
    assert_ok(sn_env_folder_make(env, path, 0700)); /* exists: fine, and left as it is */
    assert_int_equal(mode_of(fixture, path), 0755);
    assert_ok(sn_env_folder_make(env, "/", 0700));
    assert_int_equal(sn_env_folder_make(env, "", 0700), SN_EINVAL);
    assert_ok(sn_env_file_create(env, path_in(fixture, path, "file"), 0600, "x", 1));
    assert_int_equal(sn_env_folder_make(env, path, 0700), SN_EEXIST);
    assert_int_equal(sn_env_folder_make(env, path_in(fixture, path, "file/sub"), 0700), SN_ENOENT);
    assert_int_equal(entries(fixture), 2);
    assert_ok(sn_env_folder_list(env, fixture->folder, stop_at_first, &count));
    assert_int_equal(count, 1);
    path_in(fixture, path, "none");
    assert_int_equal(sn_env_folder_list(env, path, stop_at_first, &count), SN_ENOENT);
}

static void lock_excludes(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct sn_file_lock lock, second = {-1};
    char path[PATH_BYTES];
    int status;
    path_in(fixture, path, "lock");
    assert_ok(sn_env_file_lock(env, path, &lock));
    assert_int_equal(sn_env_file_lock(env, path, &second), SN_EINUSE);
    assert_int_equal(second.id, -1);
    pid_t pid = fork();
    if (pid == 0) _exit(sn_env_file_lock(env, path, &second) == SN_EINUSE ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    sn_env_file_unlock(env, lock);
    /* Ends with the process that holds it. */
    pid = fork();
    if (pid == 0) {
        if (sn_env_file_lock(env, path, &second) != SN_OK) _exit(1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_ok(sn_env_file_lock(env, path, &lock));
    sn_env_file_unlock(env, lock);
    assert_int_equal(sn_env_file_lock(env, path_in(fixture, path, "no/lock"), &lock), SN_ENOENT);
}

static void expect_holder(struct fixture *fixture, const char *path, long pid)
{
    char wanted[32], *text = NULL;
    size_t size = 0;
    (void)snprintf(wanted, sizeof wanted, "%ld\n", pid); /* fits */
    assert_ok(sn_env_file_read(fixture->env, path, 100, &text, &size));
    assert_string_equal(text, wanted);
    sn_free(text, size + 1);
}

/* The file says who has it: also behind a longer number, and under another name. */
static void lock_names_its_holder(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct sn_file_lock lock, second;
    char path[PATH_BYTES], link[PATH_BYTES];
    path_in(fixture, path, "lock");
    path_in(fixture, link, "link");
    assert_ok(sn_env_file_replace(env, path, 0600, "123456789012\n", 13));
    assert_int_equal(symlink(path, link), 0);
    assert_ok(sn_env_file_lock(env, link, &lock));
    expect_holder(fixture, path, (long)getpid());
    assert_int_equal(sn_env_file_lock(env, path, &second), SN_EINUSE);
    expect_holder(fixture, path, (long)getpid());
    /* Its holder removes it: the name is free, and those who hold the file itself have nothing. */
    assert_ok(sn_env_file_remove(env, path));
    assert_ok(sn_env_file_lock(env, path, &second));
    sn_env_file_unlock(env, lock);
    assert_int_equal(sn_env_file_lock(env, path, &lock), SN_EINUSE);
    sn_env_file_unlock(env, second);
}

/* Removed and made anew all the time: two never have it together. */
static void lock_survives_removal(void **state)
{
    enum { PROCESSES = 4, ROUNDS = 200 };
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    char path[PATH_BYTES], held[PATH_BYTES];
    path_in(fixture, path, "lock");
    path_in(fixture, held, "held");
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid > 0) continue;
        struct sn_file_lock lock;
        for (int done = 0; done < ROUNDS;) {
            if (sn_env_file_lock(env, path, &lock) != SN_OK) continue;
            int fd = open(held, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
            if (fd < 0) _exit(1); /* somebody else is in here */
            (void)close(fd);
            (void)unlink(held);
            if (sn_env_file_remove(env, path) != SN_OK) _exit(2);
            sn_env_file_unlock(env, lock);
            done++;
        }
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
}

static enum sn_err use_all(struct fixture *fixture, const char *path, const char *folder)
{
    char *data;
    size_t size;
    enum sn_err err = sn_env_file_replace(fixture->env, path, 0600, "abc", 3);
    if (err == SN_OK) err = sn_env_file_read(fixture->env, path, 100, &data, &size);
    if (err != SN_OK) return err;
    sn_free(data, size + 1);
    err = sn_env_folder_make(fixture->env, folder, 0700);
    if (err != SN_OK) return err;
    err = sn_env_file_read(fixture->env, "/proc/self/maps", 10000000, &data, &size);
    if (err == SN_OK) sn_free(data, size + 1);
    return err;
}

static void failed_allocations_leave_nothing(void **state)
{
    struct fixture *fixture = *state;
    char path[PATH_BYTES], folder[PATH_BYTES];
    size_t in_use = sn_alloc_in_use();
    uint64_t nth = 0;
    enum sn_err err;
    path_in(fixture, path, "file");
    path_in(fixture, folder, "x/y");
    do {
        sn_alloc_fail_nth(++nth);
        err = use_all(fixture, path, folder);
        assert_int_equal(sn_alloc_in_use(), in_use);
    } while (err == SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_ok(err);
    assert_true(nth > 4);
    assert_int_equal(entries(fixture), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(create_never_overwrites, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replace_is_whole_and_clean, set_up, tear_down),
        cmocka_unit_test_setup_teardown(creation_on_other_file_systems, set_up, tear_down),
        cmocka_unit_test_setup_teardown(created_file_appears_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errors_name_their_cause, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_write_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_limits_and_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(info_tells_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lock_excludes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lock_names_its_holder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lock_survives_removal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_allocations_leave_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
