/* SPDX-License-Identifier: Apache-2.0 */
/* The relay between real sockets: bytes and ends pass, one side can be cut off, and everything is bounded. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agents/soak/relay.h"
#include "agents/soak/soak.h"
#include "base/alloc.h"
#include "env/env_posix.h"

#define WAIT_MS 10000u

struct fixture {
    struct sn_env *env;
    struct sn_sock target;
    uint16_t target_port;
    struct sn_relay *relay;
    uint16_t port;
};

/* One connection through the relay. */
struct through {
    struct sn_sock near, far;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .ip = {127, 0, 0, 1}};
    struct sn_netaddr bound;
    assert_int_equal(sn_env_posix_new(&f->env), SN_OK);
    assert_int_equal(sn_env_listen(f->env, &addr, &f->target, &bound), SN_OK);
    f->target_port = bound.port;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    sn_relay_free(f->relay);
    sn_env_close(f->env, f->target);
    sn_env_posix_free(f->env);
    assert_int_equal(sn_alloc_in_use(), 0);
    free(f);
    return 0;
}

/* The port may be taken between the choice and its use. */
static void start(struct fixture *f, uint8_t first_side, uint32_t kib)
{
    enum sn_err err = SN_EINUSE;
    while (err == SN_EINUSE) {
        assert_int_equal(sn_soak_choose_port(f->env, SN_SOAK_PORTS_RELAY, &f->port), SN_OK);
        const struct sn_relay_config config = {f->port, f->target_port, first_side, kib};
        err = sn_relay_new(f->env, &config, &f->relay);
    }
    assert_int_equal(err, SN_OK);
}

static struct sn_sock dial(struct fixture *f)
{
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .port = f->port, .ip = {127, 0, 0, 1}};
    struct sn_sock sock;
    assert_int_equal(sn_env_connect(f->env, &addr, &sock), SN_OK);
    assert_int_equal(sn_env_wait(f->env, sock, SN_READY_WRITE, WAIT_MS), SN_OK);
    return sock;
}

static struct through go_through(struct fixture *f)
{
    struct through t = {.near = dial(f)};
    assert_int_equal(sn_env_wait(f->env, f->target, SN_READY_READ, WAIT_MS), SN_OK);
    assert_int_equal(sn_env_accept(f->env, f->target, &t.far, NULL), SN_OK);
    return t;
}

static void end(struct fixture *f, struct through *t)
{
    sn_env_close(f->env, t->near);
    sn_env_close(f->env, t->far);
}

static void put(struct fixture *f, struct sn_sock sock, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        size_t step = 0;
        enum sn_err err = sn_env_write(f->env, sock, at, size, &step);
        if (err == SN_EAGAIN) err = sn_env_wait(f->env, sock, SN_READY_WRITE, WAIT_MS);
        assert_int_equal(err, SN_OK);
        at += step;
        size -= step;
    }
}

static enum sn_err read_some(struct fixture *f, struct sn_sock sock, uint8_t *out, size_t capacity,
                             size_t *out_size)
{
    *out_size = 0;
    enum sn_err err = sn_env_wait(f->env, sock, SN_READY_READ, WAIT_MS);
    return err == SN_OK ? sn_env_read(f->env, sock, out, capacity, out_size) : err;
}

static void expect(struct fixture *f, struct sn_sock sock, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        uint8_t got[4096];
        size_t step = 0;
        size_t room = size < sizeof got ? size : sizeof got;
        assert_int_equal(read_some(f, sock, got, room, &step), SN_OK);
        assert_memory_equal(got, bytes, step);
        bytes += step;
        size -= step;
    }
}

static void expect_end(struct fixture *f, struct sn_sock sock, enum sn_err wanted)
{
    uint8_t byte;
    size_t size = 0;
    assert_int_equal(read_some(f, sock, &byte, 1, &size), wanted);
}

static void expect_passes(struct fixture *f, const struct through *t)
{
    put(f, t->near, "to", 2);
    expect(f, t->far, (const uint8_t *)"to", 2);
    put(f, t->far, "fro", 3);
    expect(f, t->near, (const uint8_t *)"fro", 3);
}

/* Both ways at once, and more than its buffers and those of the sockets hold. */
static void bytes_pass_in_order(void **state)
{
    struct fixture *f = *state;
    static uint8_t bytes[300000];
    start(f, SN_RELAY_NEAR, 0);
    sn_soak_fill(3, bytes, sizeof bytes);
    struct through t = go_through(f);
    for (unsigned i = 0; i < 40; i++) {
        put(f, t.near, bytes, sizeof bytes);
        put(f, t.far, bytes, sizeof bytes);
        expect(f, t.far, bytes, sizeof bytes);
        expect(f, t.near, bytes, sizeof bytes);
    }
    end(f, &t);
}

static void an_end_comes_behind_the_last_byte(void **state)
{
    struct fixture *f = *state;
    start(f, SN_RELAY_NEAR, 0);
    struct through t = go_through(f);
    put(f, t.near, "last", 4);
    sn_env_shutdown_write(f->env, t.near);
    expect(f, t.far, (const uint8_t *)"last", 4);
    expect_end(f, t.far, SN_ECLOSED);
    put(f, t.far, "answer", 6); /* the other direction goes on */
    expect(f, t.near, (const uint8_t *)"answer", 6);
    sn_env_shutdown_write(f->env, t.far);
    expect_end(f, t.near, SN_ECLOSED);
    end(f, &t);
}

static void a_reset_is_passed_on(void **state)
{
    struct fixture *f = *state;
    start(f, SN_RELAY_NEAR, 0);
    struct through t = go_through(f);
    expect_passes(f, &t);
    sn_env_close_reset(f->env, t.near);
    expect_end(f, t.far, SN_ERESET);
    sn_env_close(f->env, t.far);
}

static void nobody_at_the_target_is_a_reset(void **state)
{
    struct fixture *f = *state;
    start(f, SN_RELAY_NEAR, 0);
    sn_env_close(f->env, f->target);
    struct sn_sock near = dial(f);
    expect_end(f, near, SN_ERESET);
    sn_env_close(f->env, near);
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .ip = {127, 0, 0, 1}};
    struct sn_netaddr bound;
    assert_int_equal(sn_env_listen(f->env, &addr, &f->target, &bound), SN_OK);
}

/* The side that is cut sees an end; the other one stays, and what it sends leads nowhere. */
static void a_cut_takes_one_side_and_then_the_other(void **state)
{
    struct fixture *f = *state;
    uint8_t byte;
    size_t size = 0;
    start(f, SN_RELAY_FAR, 0);
    for (unsigned i = 0; i < 4; i++) {
        struct through t = go_through(f);
        struct sn_sock cut = i % 2 == 0 ? t.far : t.near;
        struct sn_sock left = i % 2 == 0 ? t.near : t.far;
        expect_passes(f, &t);
        assert_int_equal(kill(getpid(), SIGHUP), 0);
        expect_end(f, cut, SN_ECLOSED);
        put(f, left, "unheard", 7);
        struct through next = go_through(f); /* by then the bytes were taken */
        expect_passes(f, &next);
        end(f, &next);
        assert_int_equal(sn_env_read(f->env, left, &byte, 1, &size), SN_EAGAIN);
        end(f, &t);
    }
}

static void whoever_is_too_many_is_turned_away(void **state)
{
    struct fixture *f = *state;
    struct through all[SN_RELAY_PAIRS_MAX];
    start(f, SN_RELAY_NEAR, 0);
    for (unsigned i = 0; i < SN_RELAY_PAIRS_MAX; i++) all[i] = go_through(f);
    struct sn_sock more = dial(f);
    expect_end(f, more, SN_ERESET);
    sn_env_close(f->env, more);
    expect_passes(f, &all[0]);
    end(f, &all[7]); /* its place is free again, sooner or later */
    for (;;) {
        more = dial(f);
        if (sn_env_wait(f->env, f->target, SN_READY_READ, 20) == SN_OK) break;
        sn_env_close(f->env, more);
    }
    assert_int_equal(sn_env_accept(f->env, f->target, &all[7].far, NULL), SN_OK);
    all[7].near = more;
    for (unsigned i = 0; i < SN_RELAY_PAIRS_MAX; i++) end(f, &all[i]);
}

static void a_limited_link_is_no_faster(void **state)
{
    struct fixture *f = *state;
    static uint8_t bytes[65536];
    start(f, SN_RELAY_NEAR, 256);
    struct through t = go_through(f);
    uint64_t begin_ns = sn_env_now_ns(f->env);
    put(f, t.near, bytes, sizeof bytes);
    expect(f, t.far, bytes, sizeof bytes);
    /* 64 KiB take 250 ms, less what may be caught up with and one chunk. */
    assert_true(sn_env_now_ns(f->env) - begin_ns >= 130000000u);
    end(f, &t);
}

static void memory_may_run_out_anywhere(void **state)
{
    struct fixture *f = *state;
    size_t before = sn_alloc_in_use();
    for (uint64_t nth = 1;; nth++) {
        assert_int_equal(sn_soak_choose_port(f->env, SN_SOAK_PORTS_RELAY, &f->port), SN_OK);
        const struct sn_relay_config config = {f->port, f->target_port, 0, 0};
        sn_alloc_fail_nth(nth);
        enum sn_err err = sn_relay_new(f->env, &config, &f->relay);
        sn_alloc_fail_nth(0);
        if (err == SN_OK) return;
        assert_true(err == SN_ENOMEM || err == SN_EINUSE);
        if (err == SN_EINUSE) nth--; /* somebody else was faster: again */
        assert_int_equal(sn_alloc_in_use(), before);
        assert_in_range(nth, 1, 20);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_pass_in_order),
        TEST(an_end_comes_behind_the_last_byte),
        TEST(a_reset_is_passed_on),
        TEST(nobody_at_the_target_is_a_reset),
        TEST(a_cut_takes_one_side_and_then_the_other),
        TEST(whoever_is_too_many_is_turned_away),
        TEST(a_limited_link_is_no_faster),
        TEST(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
