/* SPDX-License-Identifier: Apache-2.0 */
/* Children: start, wait, time-out, signals, what they inherit and what not. */
#include "env/process.h"
#include "env_test.h"

#include <sys/wait.h>

static struct sn_process start(struct fixture *fixture, const char *script)
{
    struct sn_process process = {0};
    char log[PATH_BYTES];
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    assert_ok(sn_process_start(fixture->env, argv, path_in(fixture, log, "log"), &process));
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
    assert_int_equal(sn_process_start(fixture->env, missing, log, &process), SN_ENOENT);
    path_in(fixture, log, "no/such/log");
    assert_int_equal(sn_process_start(fixture->env, argv, log, &process), SN_ENOENT);
    assert_int_equal(process.pid, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie either */
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
        cmocka_unit_test_setup_teardown(self_and_sleep, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
