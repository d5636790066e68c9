/* SPDX-License-Identifier: Apache-2.0 */
/* Construction, clocks, randomness, and that every call goes through the operations table. */
#include "env_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "env/env_ops.h"
#include "env/process.h"

static void clocks_run(void **state)
{
    struct fixture *fixture = *state;
    uint64_t before = sn_env_now_ns(fixture->env);
    usleep(2000);
    uint64_t after = sn_env_now_ns(fixture->env);
    assert_true(before > 0);
    assert_true(after >= before + 2000000);
    assert_true(sn_env_wall_ms(fixture->env) > 1600000000000);
    assert_true(sn_env_cpu_count(fixture->env) >= 1);
}

static void random_fills_all(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t bytes[100000]; /* more than one getrandom() gives for sure */
    memset(bytes, 0, sizeof bytes);
    sn_env_random(fixture->env, bytes, sizeof bytes - 1);
    size_t zeros = 0;
    for (size_t i = 0; i < sizeof bytes - 1; i++) zeros += bytes[i] == 0;
    assert_in_range(zeros, 200, 600); /* about 391 expected */
    assert_int_equal(bytes[sizeof bytes - 1], 0);
}

static void signals_are_given_back(void **state)
{
    (void)state;
    struct sn_env *env;
    sigset_t mask;
    struct sigaction action;
    assert_ok(sn_env_posix_new(&env));
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_true(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT));
    assert_true(sigismember(&mask, SIGHUP));
    sigaction(SIGPIPE, NULL, &action);
    assert_true(action.sa_handler == SIG_IGN);
    sn_env_posix_free(env);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM));
    sigaction(SIGPIPE, NULL, &action);
    assert_true(action.sa_handler == SIG_DFL);
    sn_env_posix_free(NULL);
}

static void descriptor_limit_is_raised_and_given_back(void **state)
{
    (void)state;
    struct sn_env *env;
    struct rlimit old, limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit low = {64, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_ok(sn_env_posix_new(&env));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_cur == old.rlim_max);
    sn_env_posix_free(env);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, 64);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void construction_survives_failed_allocations(void **state)
{
    (void)state;
    struct sn_env *env = NULL;
    uint64_t nth = 0;
    enum sn_err err;
    do {
        sn_alloc_fail_nth(++nth);
        err = sn_env_posix_new(&env);
    } while (err == SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_ok(err);
    assert_true(nth > 1);
    sn_env_posix_free(env);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void standard_descriptors_are_never_ours(void **state)
{
    (void)state;
    struct sn_env *env;
    struct sn_sock sock;
    struct sn_netaddr bound, addr = loopback(0);
    int saved = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    assert_ok(sn_env_posix_new(&env));
    assert_ok(sn_env_listen(env, &addr, &sock, &bound));
    assert_true(sock.id > 2);
    sn_env_close(env, sock);
    sn_env_posix_free(env);
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void process_info_tells_the_truth(void **state)
{
    struct fixture *fixture = *state;
    struct sn_process_info before, after;
    int pair[2];
    sn_env_process_info(fixture->env, &before);
    assert_int_equal(pipe(pair), 0);
    sn_env_process_info(fixture->env, &after);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(after.descriptors, before.descriptors + 2);
    assert_true(before.threads >= 1);
    assert_true(before.resident_bytes > 100000);
    assert_int_equal(before.pid, getpid());
}

/* Every second block is freed, so that the allocator cannot give memory back from the heap's end by itself. */
static void trim_gives_freed_memory_back(void **state)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    (void)state;
    print_message("skipped: a sanitizer's allocator keeps what was freed\n");
    skip();
#else
    enum { BLOCKS = 512, BYTES = 65536 };
    struct fixture *fixture = *state;
    struct sn_process_info full, trimmed;
    char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BYTES);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, BYTES);
    }
    for (unsigned i = 0; i < BLOCKS; i += 2) free(blocks[i]);
    sn_env_process_info(fixture->env, &full);
    sn_env_trim(fixture->env);
    sn_env_process_info(fixture->env, &trimmed);
    for (unsigned i = 1; i < BLOCKS; i += 2) free(blocks[i]);
    assert_true(trimmed.resident_bytes + BLOCKS / 4 * BYTES < full.resident_bytes);
#endif
}

static void print_writes_all(void **state)
{
    struct fixture *fixture = *state;
    int pair[2];
    char got[16];
    assert_int_equal(pipe(pair), 0);
    int saved = dup(STDERR_FILENO);
    dup2(pair[1], STDERR_FILENO);
    sn_env_print(fixture->env, 1, "hello", 5);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(read(pair[0], got, sizeof got), 5);
    assert_memory_equal(got, "hello", 5);
    close(pair[0]);
    close(pair[1]);
}

/* Printing is best effort, but a result that was lost is known of. */
static void lost_output_is_noted(void **state)
{
    struct fixture *fixture = *state;
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) skip();
    int saved[] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    (void)fflush(stdout);
    dup2(full, STDOUT_FILENO);
    dup2(full, STDERR_FILENO);
    sn_env_print(fixture->env, 1, "message", 7);
    enum sn_err after_message = sn_process_output_err(fixture->env);
    sn_env_print(fixture->env, 0, "result", 6);
    dup2(saved[0], STDOUT_FILENO);
    dup2(saved[1], STDERR_FILENO);
    close(saved[0]);
    close(saved[1]);
    close(full);
    assert_int_equal(after_message, SN_OK);
    assert_int_equal(sn_process_output_err(fixture->env), SN_ENOSPC);
}

/* What the environment blocked ends the process again, when a program asks for that. */
static void signals_can_be_let_through(void **state)
{
    struct fixture *fixture = *state;
    sigset_t mask;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    assert_true(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT));
    sn_process_end_on_signals(fixture->env);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    assert_false(sigismember(&mask, SIGTERM) || sigismember(&mask, SIGINT));
}

/* --- Another environment behind the same calls ------------------------------------------------ */

struct fake {
    struct sn_env base;
    int calls;
};

static uint64_t fake_now(struct sn_env *env)
{
    ((struct fake *)(void *)env)->calls++;
    return 42;
}

static enum sn_err fake_remove(struct sn_env *env, const char *path)
{
    ((struct fake *)(void *)env)->calls++;
    return strcmp(path, "gone") == 0 ? SN_ENOENT : SN_OK;
}

static void calls_reach_the_operations_table(void **state)
{
    (void)state;
    static const struct sn_env_ops ops = {.now_ns = fake_now, .file_remove = fake_remove};
    struct fake fake = {.base = {.ops = &ops, .magic = SN_ENV_MAGIC}};
    assert_int_equal(sn_env_now_ns(&fake.base), 42);
    assert_int_equal(sn_env_file_remove(&fake.base, "gone"), SN_ENOENT);
    assert_int_equal(fake.calls, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clocks_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_fills_all, set_up, tear_down),
        cmocka_unit_test(signals_are_given_back),
        cmocka_unit_test(descriptor_limit_is_raised_and_given_back),
        cmocka_unit_test(construction_survives_failed_allocations),
        cmocka_unit_test(standard_descriptors_are_never_ours),
        cmocka_unit_test_setup_teardown(process_info_tells_the_truth, set_up, tear_down),
        cmocka_unit_test_setup_teardown(trim_gives_freed_memory_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(print_writes_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lost_output_is_noted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(signals_can_be_let_through, set_up, tear_down),
        cmocka_unit_test(calls_reach_the_operations_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
