/* SPDX-License-Identifier: Apache-2.0 */
/* Children: start, wait, time-out, signals, what they inherit and what not. */
#include "env/process.h"
#include "env_test.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct sn_process start(struct fixture *fixture, const char *script)
{
    struct sn_process process = {0};
    char log[PATH_BYTES];
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    assert_ok(sn_process_start(fixture->env, argv, path_in(fixture, log, "log"), 0, &process));
    assert_true(process.pid > 0);
    return process;
}

static void status_and_output(void **state)
{
    struct fixture *fixture = *state;
    char log[PATH_BYTES], *data;
    size_t size;
    int status = -1;
    for (int i = 0; i < 2; i++) {
        struct sn_process process = start(fixture, "echo out; echo err >&2; exit 7");
        assert_ok(sn_process_wait(fixture->env, &process, UINT64_MAX, &status));
        assert_int_equal(status, 7);
        assert_int_equal(process.pid, 0);
        assert_int_equal(sn_process_wait(fixture->env, &process, 0, &status), SN_ESTATE);
        sn_process_signal(&process, 9); /* nobody there: must hit nobody */
    }
    assert_ok(sn_env_file_read(fixture->env, path_in(fixture, log, "log"), 1000, &data, &size));
    assert_string_equal(data, "out\nerr\nout\nerr\n"); /* appended */
    sn_free(data, size + 1);
}

static void timeout_then_kill(void **state)
{
    struct fixture *fixture = *state;
    int status = -1;
    struct sn_process process = start(fixture, "exec sleep 60");
    uint64_t before = sn_env_now_ns(fixture->env);
    assert_int_equal(sn_process_wait(fixture->env, &process, 20, &status), SN_ETIMEDOUT);
    assert_true(sn_env_now_ns(fixture->env) >= before + 20000000);
    assert_true(process.pid > 0);
    assert_int_equal(status, -1);
    sn_process_signal(&process, 19);
    sn_process_signal(&process, 18);
    sn_process_signal(&process, 9);
    assert_ok(sn_process_wait(fixture->env, &process, 10000, &status));
    assert_int_equal(status, 128 + 9);
}

/* TERM is blocked and PIPE ignored here; in the child both must act, and no descriptor of ours be
 * open. */
static void child_starts_clean(void **state)
{
    struct fixture *fixture = *state;
    struct sn_netaddr bound, addr = loopback(0);
    struct sn_sock sock;
    int status = -1;
    assert_ok(sn_env_listen(fixture->env, &addr, &sock, &bound));
    struct sn_process process = start(fixture, "exec sleep 60");
    sn_process_signal(&process, 15);
    assert_ok(sn_process_wait(fixture->env, &process, 10000, &status));
    assert_int_equal(status, 128 + 15);
    process = start(fixture, "kill -PIPE $$; exit 0");
    assert_ok(sn_process_wait(fixture->env, &process, 10000, &status));
    assert_int_equal(status, 128 + 13);
    char script[64];
    snprintf(script, sizeof script, "test ! -e /proc/self/fd/%d", sock.id);
    process = start(fixture, script);
    assert_ok(sn_process_wait(fixture->env, &process, 10000, &status));
    assert_int_equal(status, 0);
    sn_env_close(fixture->env, sock);
}

static void start_errors(void **state)
{
    struct fixture *fixture = *state;
    struct sn_process process = {0};
    char log[PATH_BYTES];
    const char *missing[] = {"/nonexistent/program", NULL};
    const char *argv[] = {"/bin/true", NULL};
    path_in(fixture, log, "log");
    assert_int_equal(sn_process_start(fixture->env, missing, log, 0, &process), SN_ENOENT);
    path_in(fixture, log, "no/such/log");
    assert_int_equal(sn_process_start(fixture->env, argv, log, 0, &process), SN_ENOENT);
    assert_int_equal(process.pid, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie either */
}

/* A parent that starts a child with these options, tells its number and is killed. Returns the number. */
static pid_t orphan(struct fixture *fixture, unsigned options)
{
    int pair[2];
    pid_t child = 0;
    char log[PATH_BYTES];
    const char *argv[] = {"/bin/sleep", "60", NULL};
    assert_int_equal(pipe(pair), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct sn_process process = {0};
        enum sn_err err =
            sn_process_start(fixture->env, argv, path_in(fixture, log, "log"), options, &process);
        if (err != SN_OK || write(pair[1], &process.pid, sizeof process.pid) < 0) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(pair[0], &child, sizeof child), sizeof child);
    kill(parent, SIGKILL);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    close(pair[0]);
    close(pair[1]);
    return child;
}

static void child_ends_with_its_parent(void **state)
{
    int status = 0;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* orphans become ours */
    pid_t child = orphan(*state, 0);
    usleep(20000);
    assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* nobody asked for it */
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    child = orphan(*state, SN_PROCESS_WITH_PARENT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void child_has_a_group_of_its_own(void **state)
{
    struct fixture *fixture = *state;
    char log[PATH_BYTES];
    const char *argv[] = {"/bin/sleep", "60", NULL};
    for (unsigned options = 0; options <= SN_PROCESS_OWN_GROUP; options += SN_PROCESS_OWN_GROUP) {
        struct sn_process process = {0};
        int status;
        assert_ok(
            sn_process_start(fixture->env, argv, path_in(fixture, log, "log"), options, &process));
        pid_t group = options == 0 ? getpgid(0) : process.pid;
        assert_int_equal(getpgid(process.pid), group);
        sn_process_signal(&process, 9);
        assert_ok(sn_process_wait(fixture->env, &process, 10000, &status));
    }
}

static uint32_t threads_now(struct fixture *fixture)
{
    struct sn_process_info info;
    sn_env_process_info(fixture->env, &info);
    return info.threads;
}

static void probe_takes_and_gives_back(void **state)
{
    struct fixture *fixture = *state;
    struct sn_process_room room = {0};
    struct sn_process_info before, after;
    assert_ok(sn_process_probe(fixture->env, 1, 1,
                               &room)); /* a sanitizer's own thread comes with the first */
    sn_env_process_info(fixture->env, &before);
    assert_ok(sn_process_probe(fixture->env, 20, 20, &room));
    assert_int_equal(room.threads_wanted, 20);
    assert_int_equal(room.threads, 20);
    for (int i = 0; i < 500 && threads_now(fixture) > before.threads; i++) usleep(1000);
    sn_env_process_info(fixture->env, &after);
    assert_int_equal(after.threads, before.threads);
    assert_int_equal(after.descriptors, before.descriptors);
    assert_in_range(sn_process_pool_threads(fixture->env), 4, 1000);
}

static void probe_finds_limits(void **state)
{
    struct fixture *fixture = *state;
    struct sn_process_room room;
    struct rlimit old, small;
    getrlimit(RLIMIT_NOFILE, &old);
    small = (struct rlimit){16, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &small);
    enum sn_err err = sn_process_probe(fixture->env, 1, 20, &room);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(err, SN_ENOFILES);
    struct sn_process_info info;
    sn_env_process_info(fixture->env, &info);
    assert_true(info.descriptors < 16);
#ifndef __SANITIZE_ADDRESS__ /* which lives in an address space that no limit fits */
    /* Address space for a few stacks only, which are 8 MiB each by default. */
    getrlimit(RLIMIT_AS, &old);
    small = (struct rlimit){(rlim_t)1 << 27, old.rlim_max};
    setrlimit(RLIMIT_AS, &small);
    err = sn_process_probe(fixture->env, 200, 1, &room);
    setrlimit(RLIMIT_AS, &old);
    assert_int_equal(err, SN_ENOMEM);
    assert_true(room.threads < 200);
    assert_int_equal(room.threads_wanted, 200);
#endif
    assert_ok(sn_process_probe(fixture->env, 20, 20, &room));
}

static void self_and_sleep(void **state)
{
    struct fixture *fixture = *state;
    char path[PATH_BYTES], tiny[4];
    assert_ok(sn_process_self(fixture->env, path, sizeof path));
    assert_non_null(strstr(path, "test_process_posix"));
    assert_int_equal(sn_process_self(fixture->env, tiny, sizeof tiny), SN_ETOOBIG);
    uint64_t before = sn_env_now_ns(fixture->env);
    sn_process_sleep_ms(fixture->env, 15);
    assert_true(sn_env_now_ns(fixture->env) >= before + 15000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(status_and_output, set_up, tear_down),
        cmocka_unit_test_setup_teardown(timeout_then_kill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(child_starts_clean, set_up, tear_down),
        cmocka_unit_test_setup_teardown(start_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(child_ends_with_its_parent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(child_has_a_group_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(probe_takes_and_gives_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(probe_finds_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(self_and_sleep, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
