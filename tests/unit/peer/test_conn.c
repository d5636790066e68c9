/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners and connections of actors. */
#include "flow_rig.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- Listening ---------------------------------------------------------------------------------------------- */

struct listen_call {
    const char *address;
    uint32_t capacity;
    uint32_t nth;
    struct sn_listener_ref listener;
    char bound[SN_NETADDR_TEXT_MAX];
};

static enum sn_err do_listen(struct sn_ctx *ctx, void *arg)
{
    struct listen_call *call = arg;
    sn_alloc_fail_nth(call->nth);
    enum sn_err err =
        sn_net_ctx_listen(ctx, call->address, 42, &call->listener, call->bound, call->capacity);
    sn_alloc_fail_nth(0);
    return err;
}

static enum sn_err do_unlisten(struct sn_ctx *ctx, void *arg)
{
    sn_net_ctx_listener_close(ctx, *(struct sn_listener_ref *)arg);
    return SN_OK;
}

static enum sn_err listen_at(struct rig *rig, unsigned actor, const char *address,
                             struct listen_call *out_call)
{
    *out_call = (struct listen_call){.address = address, .capacity = sizeof out_call->bound};
    return rig_call(rig, actor, do_listen, out_call);
}

static uint16_t port_of(const char *bound)
{
    struct sn_endpoint endpoint;
    assert_ok(sn_endpoint_parse(bound, strlen(bound), 0, &endpoint));
    return endpoint.port;
}

static void test_accept(void **state)
{
    struct rig *rig = *state;
    for (unsigned actor = NEAR; actor <= FAR; actor++) {
        struct listen_call call;
        assert_ok(listen_at(rig, actor, "127.0.0.1:0", &call));
        assert_memory_equal(call.bound, "127.0.0.1:", 10);
        struct sn_sock client = rig_client(rig, port_of(call.bound));
        struct rig_event event = rig_wait(rig, actor, SN_EVENT_CONN_ACCEPTED);
        assert_int_equal(event.event.token, 42);
        assert_int_equal(event.event.listener.id, call.listener.id);
        assert_int_not_equal(event.event.conn.id, 0);
        assert_memory_equal(event.text, "127.0.0.1:", 10);
        rig_close(rig, 1 - actor, event.event.conn.id, 1); /* not its own: nothing happens */
        rig_close(rig, actor, event.event.conn.id, 0);
        assert_int_equal(rig_next(rig, client), SN_ECLOSED);
        rig_close(rig, actor, event.event.conn.id, 0); /* gone */
        sn_env_close(rig->env, client);
        client = rig_client(rig, port_of(call.bound));
        event = rig_wait(rig, actor, SN_EVENT_CONN_ACCEPTED);
        rig_close(rig, actor, event.event.conn.id, 1);
        assert_int_equal(rig_next(rig, client), SN_ERESET);
        sn_env_close(rig->env, client);
    }
    rig_quiet(rig);
}

static void test_listen_errors(void **state)
{
    struct rig *rig = *state;
    struct listen_call first;
    struct listen_call call;
    assert_int_equal(listen_at(rig, NEAR, "127.0.0.1", &call), SN_EINVAL);
    assert_int_equal(listen_at(rig, NEAR, "", &call), SN_EINVAL);
    assert_int_equal(listen_at(rig, NEAR, "example.org:80", &call), SN_EINVAL);
    assert_int_equal(listen_at(rig, NEAR, "192.0.2.1:0", &call), SN_EUNREACHABLE);
    assert_int_equal(call.listener.id, 0);
    assert_ok(listen_at(rig, NEAR, "localhost:0", &first));
    assert_int_equal(listen_at(rig, NEAR, first.bound, &call), SN_EINUSE);
    call = (struct listen_call){.address = "127.0.0.1:0", .capacity = 5};
    assert_int_equal(rig_call(rig, NEAR, do_listen, &call), SN_ETOOBIG);
    call.capacity = 0;
    assert_ok(rig_call(rig, NEAR, do_listen, &call));
    atomic_store(&rig->net.is_draining, 1);
    assert_int_equal(listen_at(rig, NEAR, "127.0.0.1:0", &call), SN_ECANCELLED);
}

static enum sn_err try_connect(struct rig *rig, uint16_t port)
{
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .port = port, .ip = {127, 0, 0, 1}};
    struct sn_sock sock;
    enum sn_err err = sn_env_connect(rig->env, &addr, &sock);
    if (err != SN_OK) return err;
    assert_ok(sn_env_wait(rig->env, sock, SN_READY_WRITE, 5000));
    err = sn_env_connect_result(rig->env, sock);
    sn_env_close(rig->env, sock);
    return err;
}

static void close_listeners(struct rig *rig, void *arg)
{
    (void)arg;
    sni_listeners_close(&rig->net.hubs[0]);
}

static void test_listener_close(void **state)
{
    struct rig *rig = *state;
    struct listen_call first;
    struct listen_call second;
    assert_ok(listen_at(rig, NEAR, "127.0.0.1:0", &first));
    assert_ok(listen_at(rig, NEAR, "127.0.0.1:0", &second));
    assert_ok(rig_call(rig, FAR, do_unlisten, &first.listener)); /* not its own */
    assert_ok(try_connect(rig, port_of(first.bound)));
    assert_ok(rig_call(rig, NEAR, do_unlisten, &first.listener));
    assert_int_equal(try_connect(rig, port_of(first.bound)), SN_EREFUSED);
    assert_ok(try_connect(rig, port_of(second.bound)));
    rig_on_worker(rig, 0, close_listeners, NULL);
    assert_int_equal(try_connect(rig, port_of(second.bound)), SN_EREFUSED);
    assert_ok(rig_call(rig, NEAR, do_unlisten, &second.listener)); /* gone, harmless */
    for (unsigned i = 0; i < 2; i++) {
        rig_close(rig, NEAR, rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED).event.conn.id, 0);
    }
    rig_quiet(rig);
}

#define CROWD 150u

struct crowd {
    struct sn_sock clients[CROWD];
    struct sn_netaddr addr;
    unsigned failures;
};

static void connect_crowd(struct rig *rig, void *arg)
{
    struct crowd *crowd = arg;
    for (unsigned i = 0; i < CROWD; i++) {
        enum sn_err err = sn_env_connect(rig->env, &crowd->addr, &crowd->clients[i]);
        crowd->failures += err != SN_OK;
    }
}

/* More at once than one round accepts: they come while the worker is busy, so one event tells of all. */
static void test_crowd(void **state)
{
    struct rig *rig = *state;
    struct crowd crowd = {.addr = {.family = SN_NETADDR_IP4, .ip = {127, 0, 0, 1}}};
    crowd.addr.port = rig_listen(rig, NEAR);
    rig_on_worker(rig, 0, connect_crowd, &crowd);
    assert_int_equal(crowd.failures, 0);
    for (unsigned i = 0; i < CROWD; i++) {
        rig_close(rig, NEAR, rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED).event.conn.id, 0);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        assert_int_equal(rig_next(rig, crowd.clients[i]), SN_ECLOSED);
        sn_env_close(rig->env, crowd.clients[i]);
    }
    rig_quiet(rig);
}

/* The descriptor table is full for a while: accepting goes on when it is not. */
static void test_no_descriptors(void **state)
{
    struct rig *rig = *state;
    struct rlimit limit;
    uint16_t port = rig_listen(rig, NEAR);
    int next = dup(0);
    assert_in_range(next, 3, 1000);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)next + 1; /* room for the client only */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct sn_sock client = rig_client(rig, port);
    for (unsigned i = 0; i < 100; i++) rig_nap();
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_CONN_ACCEPTED), 0);
    limit.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    rig_close(rig, NEAR, rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED).event.conn.id, 0);
    assert_int_equal(rig_next(rig, client), SN_ECLOSED);
    sn_env_close(rig->env, client);
}

/* The last descriptors are not for tunnels: whoever would get one is turned away at once, and nothing is dialed. */
static void test_reserve(void **state)
{
    struct rig *rig = *state;
    struct rlimit limit;
    char address[64];
    uint16_t port = rig_listen(rig, NEAR);
    uint16_t served = 0;
    struct sn_sock server = rig_server(rig, &served);
    int next = dup(0);
    assert_in_range(next, 8, 1000);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)next + 4; /* four are left, so a quarter of all begins before */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .port = port, .ip = {127, 0, 0, 1}};
    struct sn_sock client;
    assert_ok(sn_env_connect(rig->env, &addr, &client));
    /* Not rig_client: the reset may come before it has looked at the connection. */
    enum sn_err ended = rig_next(rig, client);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", served);
    enum sn_err asked = rig_dial(rig, NEAR, address, 5000, 7);
    struct rig_event event = rig_wait(rig, NEAR, SN_EVENT_CONN_DIALED);
    limit.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(ended, SN_ERESET);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_CONN_ACCEPTED), 0);
    assert_ok(asked);
    assert_int_equal(event.event.err, SN_ENOFILES);
    sn_env_close(rig->env, client);
    sn_env_close(rig->env, server);
    client = rig_client(rig, port);
    rig_close(rig, NEAR, rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED).event.conn.id, 0);
    assert_int_equal(rig_next(rig, client), SN_ECLOSED);
    sn_env_close(rig->env, client);
}

/* --- Dialing ---------------------------------------------------------------------------------------------------- */

static const char *address_of(uint16_t port, const char *host, char out[64])
{
    (void)snprintf(out, 64, "%s:%u", host, port);
    return out;
}

/* A port on which nobody listens. */
static uint16_t dead_port(struct rig *rig)
{
    uint16_t port = 0;
    sn_env_close(rig->env, rig_server(rig, &port));
    return port;
}

static void test_dial(void **state)
{
    struct rig *rig = *state;
    uint16_t port = 0;
    char address[64];
    struct sn_sock listener = rig_server(rig, &port);
    /* The last one goes through the name service, and may have to try ::1 first. */
    const char *hosts[] = {"127.0.0.1", "localhost", "LOCALHOST"};
    for (unsigned i = 0; i < SN_ARRAY_COUNT(hosts); i++) {
        assert_ok(rig_dial(rig, FAR, address_of(port, hosts[i], address), 5000, 7 + i));
        struct rig_event event = rig_wait(rig, FAR, SN_EVENT_CONN_DIALED);
        assert_int_equal(event.event.err, SN_OK);
        assert_int_equal(event.event.token, 7 + i);
        struct sn_sock server = rig_accept_sock(rig, listener);
        rig_close(rig, FAR, event.event.conn.id, 1);
        assert_int_equal(rig_next(rig, server), SN_ERESET);
        sn_env_close(rig->env, server);
    }
    sn_env_close(rig->env, listener);
    rig_quiet(rig);
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_CONN_DIALED), 0);
}

static void test_dial_errors(void **state)
{
    struct rig *rig = *state;
    char address[64];
    assert_int_equal(rig_dial(rig, NEAR, "127.0.0.1", 1000, 1), SN_EINVAL);
    assert_int_equal(rig_dial(rig, NEAR, "127.0.0.1:0", 1000, 1), SN_EINVAL);
    assert_int_equal(rig_dial(rig, NEAR, "", 1000, 1), SN_EINVAL);
    address_of(dead_port(rig), "127.0.0.1", address);
    assert_ok(rig_dial(rig, NEAR, address, 5000, 2));
    struct rig_event event = rig_wait(rig, NEAR, SN_EVENT_CONN_DIALED);
    assert_int_equal(event.event.err, SN_EREFUSED);
    assert_int_equal(event.event.token, 2);
    assert_int_equal(event.event.conn.id, 0);
    assert_ok(rig_dial(rig, NEAR, address, 0, 3)); /* no time at all */
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_CONN_DIALED).event.err, SN_ETIMEDOUT);
    /* Whatever the name service here says of a name that cannot exist, the answer comes once. */
    assert_ok(rig_dial(rig, NEAR, "no-such-host.invalid:80", 2000, 4));
    event = rig_wait(rig, NEAR, SN_EVENT_CONN_DIALED);
    assert_int_not_equal(event.event.err, SN_OK);
    assert_int_equal(event.event.token, 4);
    rig_quiet(rig);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_CONN_DIALED), 0);
}

#define HANGING_MAX 600u

/* A target that does not answer: its queue is full, so the kernel drops further requests. */
struct silent {
    struct sn_sock listener;
    struct sn_sock fillers[HANGING_MAX];
    unsigned count;
    uint16_t port;
};

static void silent_new(struct rig *rig, struct silent *silent)
{
    silent->listener = rig_server(rig, &silent->port);
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .port = silent->port, .ip = {127, 0, 0, 1}};
    for (silent->count = 0; silent->count < HANGING_MAX; silent->count++) {
        struct sn_sock *filler = &silent->fillers[silent->count];
        assert_ok(sn_env_connect(rig->env, &addr, filler));
        if (sn_env_connect_result(rig->env, *filler) == SN_EAGAIN) {
            silent->count++;
            return;
        }
    }
    fail_msg("the queue of the listener does not get full");
}

static void silent_free(struct rig *rig, struct silent *silent)
{
    for (unsigned i = 0; i < silent->count; i++) sn_env_close(rig->env, silent->fillers[i]);
    sn_env_close(rig->env, silent->listener);
}

/* A slow dial ends when its time is over and holds up no other. */
static void test_slow_dial(void **state)
{
    struct rig *rig = *state;
    uint16_t port = 0;
    char address[64];
    static struct silent silent; /* 2.4 KiB */
    silent_new(rig, &silent);
    assert_ok(rig_dial(rig, NEAR, address_of(silent.port, "127.0.0.1", address), 250, 1));
    struct sn_sock listener = rig_server(rig, &port);
    uint64_t start = sn_env_now_ns(rig->env);
    assert_ok(rig_dial(rig, NEAR, address_of(port, "127.0.0.1", address), 5000, 2));
    struct rig_event event = rig_wait(rig, NEAR, SN_EVENT_CONN_DIALED);
    assert_in_range(sn_env_now_ns(rig->env) - start, 0, 100 * SN_MS);
    assert_int_equal(event.event.token, 2);
    assert_int_equal(event.event.err, SN_OK);
    rig_close(rig, NEAR, event.event.conn.id, 0);
    event = rig_wait(rig, NEAR, SN_EVENT_CONN_DIALED);
    assert_int_equal(event.event.token, 1);
    assert_int_equal(event.event.err, SN_ETIMEDOUT);
    assert_in_range(sn_env_now_ns(rig->env) - start, 150 * SN_MS, 4000 * SN_MS);
    sn_env_close(rig->env, listener);
    silent_free(rig, &silent);
    rig_quiet(rig);
}

/* --- Failing actors, memory ------------------------------------------------------------------- */

static void test_actor_fails(void **state)
{
    struct rig *rig = *state;
    char address[64];
    uint16_t port = 0;
    static struct silent silent; /* 2.4 KiB */
    silent_new(rig, &silent);
    struct sn_sock listener = rig_server(rig, &port);
    uint16_t entrance = rig_listen(rig, NEAR);
    struct sn_sock client = rig_client(rig, entrance);
    (void)rig_wait(rig, NEAR, SN_EVENT_CONN_ACCEPTED);
    assert_ok(rig_dial(rig, NEAR, address_of(port, "127.0.0.1", address), 5000, 1));
    (void)rig_wait(rig, NEAR, SN_EVENT_CONN_DIALED);
    struct sn_sock server = rig_accept_sock(rig, listener);
    assert_ok(rig_dial(rig, NEAR, address_of(silent.port, "127.0.0.1", address), 30, 2));
    assert_ok(rig_dial(rig, NEAR, address_of(port, "LOCALHOST", address), 5000, 3));
    rig_fail(rig, NEAR);
    assert_int_equal(rig_next(rig, client), SN_ERESET);
    assert_int_equal(rig_next(rig, server), SN_ERESET);
    assert_int_equal(try_connect(rig, entrance), SN_EREFUSED);
    rig_quiet(rig);
    while (rig_count(rig, NEAR, SN_EVENT_CONN_DIALED) > 0) {
        /* Only the third, if its name was resolved before the actor failed. */
        assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_CONN_DIALED).event.token, 3);
    }
    sn_env_close(rig->env, client);
    sn_env_close(rig->env, server);
    sn_env_close(rig->env, listener);
    silent_free(rig, &silent);
}

static void test_listen_without_memory(void **state)
{
    struct rig *rig = *state;
    struct listen_call call = {.address = "127.0.0.1:0", .capacity = sizeof call.bound};
    size_t before = sn_alloc_in_use();
    for (call.nth = 1;; call.nth++) {
        assert_in_range(call.nth, 1, 20);
        enum sn_err err = rig_call(rig, NEAR, do_listen, &call);
        if (err == SN_OK) break;
        assert_int_equal(err, SN_ENOMEM);
        assert_int_equal(sn_alloc_in_use(), before);
    }
    assert_in_range(call.nth, 2, 20);
}

struct dial_call {
    const char *address;
    uint32_t nth;
};

static enum sn_err do_dial(struct sn_ctx *ctx, void *arg)
{
    struct dial_call *call = arg;
    sn_alloc_fail_nth(call->nth);
    enum sn_err err = sn_net_ctx_dial(ctx, call->address, 5000, 1);
    sn_alloc_fail_nth(0);
    return err;
}

/* Each dial is refused, or ends in one event; and nothing stays behind. */
static void test_dial_without_memory(void **state)
{
    struct rig *rig = *state;
    uint16_t port = 0;
    char address[64];
    struct sn_sock listener = rig_server(rig, &port);
    const char *hosts[] = {"127.0.0.1", "LOCALHOST"};
    for (unsigned i = 0; i < SN_ARRAY_COUNT(hosts); i++) {
        struct dial_call call = {.address = address_of(port, hosts[i], address)};
        enum sn_err end = SN_ENOMEM;
        for (call.nth = 1; end != SN_OK; call.nth++) {
            assert_in_range(call.nth, 1, 20);
            end = rig_call(rig, NEAR, do_dial, &call);
            if (end != SN_OK) continue;
            struct rig_event event = rig_wait(rig, NEAR, SN_EVENT_CONN_DIALED);
            end = (enum sn_err)event.event.err;
            if (end == SN_OK) rig_close(rig, NEAR, event.event.conn.id, 0);
        }
        assert_in_range(call.nth, 4, 20);
        rig_quiet(rig);
    }
    sn_env_close(rig->env, listener);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_CONN_DIALED), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_accept),      TEST(test_listen_errors),         TEST(test_listener_close),
        TEST(test_crowd),       TEST(test_no_descriptors),        TEST(test_reserve),
        TEST(test_dial),        TEST(test_dial_errors),           TEST(test_slow_dial),
        TEST(test_actor_fails), TEST(test_listen_without_memory), TEST(test_dial_without_memory),
    };
    return cmocka_run_group_tests_name("peer/conn", tests, NULL, NULL);
}
