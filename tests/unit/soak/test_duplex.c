/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer in both directions over real sockets: what counts as complete, and as equal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agents/soak/duplex.h"
#include "base/alloc.h"
#include "env/env_posix.h"

#define SIZE 300000u

struct fixture {
    struct sn_env *env;
    struct sn_sock target;  /* where the service is accepted */
    struct sn_sock forward; /* another one, for tests that are the forward themselves */
    uint16_t target_port;
    uint16_t forward_port;
    struct sn_duplex duplex;
};

static struct sn_sock listen_here(struct sn_env *env, uint16_t *out_port)
{
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .ip = {127, 0, 0, 1}};
    struct sn_netaddr bound;
    struct sn_sock sock;
    assert_int_equal(sn_env_listen(env, &addr, &sock, &bound), SN_OK);
    *out_port = bound.port;
    return sock;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_int_equal(sn_env_posix_new(&f->env), SN_OK);
    f->target = listen_here(f->env, &f->target_port);
    f->forward = listen_here(f->env, &f->forward_port);
    assert_int_equal(sn_duplex_init(f->env, f->target, SIZE, &f->duplex), SN_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    sn_duplex_fini(&f->duplex);
    sn_env_close(f->env, f->target);
    sn_env_close(f->env, f->forward);
    sn_env_posix_free(f->env);
    assert_int_equal(sn_alloc_in_use(), 0);
    free(f);
    return 0;
}

static enum sn_err run(struct fixture *f)
{
    uint64_t end_ns = sn_env_now_ns(f->env) + 10000000000u;
    enum sn_err err = SN_EAGAIN;
    while (err == SN_EAGAIN && sn_env_now_ns(f->env) < end_ns) {
        err = sn_duplex_step(&f->duplex);
        if (err != SN_EAGAIN) break;
        enum sn_err waited = sn_env_wait(f->env, f->duplex.client, SN_READY_READ, 1);
        assert_true(waited == SN_OK || waited == SN_ETIMEDOUT);
    }
    return err;
}

static void everything_comes_both_ways_and_again(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 1; seed < 4; seed++) {
        assert_int_equal(sn_duplex_begin(&f->duplex, f->target_port, seed), SN_OK);
        assert_int_equal(run(f), SN_OK);
        sn_duplex_end(&f->duplex);
        assert_int_equal(f->duplex.up.got_bytes, SIZE);
        assert_int_equal(f->duplex.down.got_bytes, SIZE);
        assert_true(sn_duplex_is_equal(&f->duplex));
        assert_memory_not_equal(f->duplex.up.sent, f->duplex.down.sent, 16);
    }
}

static void any_difference_is_seen(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(sn_duplex_begin(&f->duplex, f->target_port, 9), SN_OK);
    assert_int_equal(run(f), SN_OK);
    struct sn_duplex_way *const ways[] = {&f->duplex.up, &f->duplex.down};
    for (unsigned i = 0; i < 2; i++) {
        ways[i]->got[SIZE - 1] ^= 1;
        assert_false(sn_duplex_is_equal(&f->duplex));
        ways[i]->got[SIZE - 1] ^= 1;
        ways[i]->got_bytes--;
        assert_false(sn_duplex_is_equal(&f->duplex));
        ways[i]->got_bytes += 2;
        assert_false(sn_duplex_is_equal(&f->duplex));
        ways[i]->got_bytes--;
        assert_true(sn_duplex_is_equal(&f->duplex));
    }
}

/* The client's connection as the forward sees it. */
static struct sn_sock accept_client(struct fixture *f)
{
    struct sn_sock sock;
    assert_int_equal(sn_duplex_begin(&f->duplex, f->forward_port, 1), SN_OK);
    assert_int_equal(sn_env_wait(f->env, f->forward, SN_READY_READ, 5000), SN_OK);
    assert_int_equal(sn_env_accept(f->env, f->forward, &sock, NULL), SN_OK);
    return sock;
}

static void a_reset_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct sn_sock sock = accept_client(f);
    assert_int_equal(sn_duplex_step(&f->duplex), SN_EAGAIN);
    sn_env_close_reset(f->env, sock);
    assert_int_equal(run(f), SN_ERESET);
}

static void an_end_in_one_direction_is_not_all(void **state)
{
    struct fixture *f = *state;
    struct sn_sock sock = accept_client(f);
    sn_env_shutdown_write(f->env, sock);
    for (unsigned i = 0; i < 100 && !f->duplex.down.is_ended; i++) {
        assert_int_equal(sn_env_wait(f->env, f->duplex.client, SN_READY_READ, 5000), SN_OK);
        assert_int_equal(sn_duplex_step(&f->duplex), SN_EAGAIN);
    }
    assert_true(f->duplex.down.is_ended);
    assert_false(sn_duplex_is_equal(&f->duplex)); /* nothing came */
    sn_env_close(f->env, sock);
}

static void more_than_was_sent_is_an_error(void **state)
{
    struct fixture *f = *state;
    static const uint8_t zeros[65536];
    struct sn_sock sock = accept_client(f);
    enum sn_err err = SN_EAGAIN;
    for (unsigned i = 0; i < 1000 && err == SN_EAGAIN; i++) {
        size_t put = 0;
        enum sn_err written = sn_env_write(f->env, sock, zeros, sizeof zeros, &put);
        assert_true(written == SN_OK || written == SN_EAGAIN); /* as much as it takes */
        err = sn_duplex_step(&f->duplex);
    }
    assert_int_equal(err, SN_ETOOBIG);
    sn_env_close(f->env, sock);
}

static void memory_may_run_out(void **state)
{
    struct fixture *f = *state;
    size_t before = sn_alloc_in_use();
    for (uint64_t nth = 1; nth <= 4; nth++) {
        struct sn_duplex duplex;
        sn_alloc_fail_nth(nth);
        assert_int_equal(sn_duplex_init(f->env, f->target, 100, &duplex), SN_ENOMEM);
        sn_alloc_fail_nth(0);
        assert_int_equal(sn_alloc_in_use(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everything_comes_both_ways_and_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_difference_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reset_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_in_one_direction_is_not_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_was_sent_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_may_run_out, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
