/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/carrier_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "conformance/carrier_suite_int.h"

#define MIB            (1024u * 1024u)
#define BUFFERS_BYTES  (768u * 1024u) /* of one lane, generously */
#define KILLED_LANES   300u
#define CALLBACK_LANES 60u

static const struct carrier_provider *tested;

static struct world *started(void)
{
    struct world *world = world_new(tested);
    world_start(world);
    return world;
}

static void dial_ok(struct world *world, struct end *end, struct sn_worker *worker)
{
    assert_int_equal(world_dial(world, &world->client, end, worker, NULL), SN_OK);
}

struct amount {
    struct end *end;
    uint64_t bytes;
};

static int has_received(void *arg)
{
    struct amount *amount = arg;
    return amount->end->received >= amount->bytes;
}

static void wait_received(struct end *end, uint64_t bytes)
{
    struct amount amount = {end, bytes};
    world_until(end->world, end->worker, has_received, &amount);
}

/* --- Opening ------------------------------------------------------------------------------------------------- */

struct export_call {
    struct end *end;
    uint8_t value[32];
    enum sn_err err;
};

static void do_export(void *arg)
{
    struct export_call *call = arg;
    call->err = sn_lane_exporter(call->end->lane, call->value);
}

static void test_opens_and_names_both(void **state)
{
    (void)state;
    struct world *world = started();
    struct end *out = &world->outbound[0];
    struct sn_dial dial = {.expect_key = &world->server.id, .expect_agent = "paris/hub"};
    assert_int_equal(world_dial(world, &world->client, out, world->workers[1], &dial), SN_OK);
    end_wait_open(out);
    struct end *in = world_inbound(world, 0);
    end_wait_open(in);
    assert_true(sn_key_id_is_equal(&out->peer.id, &world->server.id));
    assert_true(sn_key_id_is_equal(&in->peer.id, &world->client.id));
    assert_string_equal(out->peer.agent, "paris/hub");
    assert_string_equal(in->peer.agent, "rome/edge");
    assert_string_equal(out->peer.cert.mesh, "demo");
    assert_string_equal(in->peer.cert.agent, "rome/edge");
    struct export_call a = {.end = out};
    struct export_call b = {.end = in};
    world_call(world, out->worker, do_export, &a);
    world_call(world, in->worker, do_export, &b);
    assert_int_equal(a.err, SN_OK);
    assert_int_equal(b.err, SN_OK);
    assert_memory_equal(a.value, b.value, sizeof a.value);
    /* Another connection has another one. */
    dial_ok(world, &world->outbound[1], world->workers[1]);
    end_wait_open(&world->outbound[1]);
    struct export_call c = {.end = &world->outbound[1]};
    world_call(world, out->worker, do_export, &c);
    assert_memory_not_equal(a.value, c.value, sizeof a.value);
    world_free(world);
}

static void test_pins_stand_in_for_certificates(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    member_fini(&world->client);
    member_init(world, &world->client, "rome/edge", 4, NO_CERTIFICATE);
    world->server.pin.key = world->client.id;
    memcpy(world->server.pin.agent, "rome/edge", sizeof "rome/edge");
    world->server.trust.pins = &world->server.pin;
    world->server.trust.pin_count = 1;
    world_start(world);
    dial_ok(world, &world->outbound[0], world->workers[0]);
    struct end *in = world_inbound(world, 0);
    end_wait_open(in);
    assert_string_equal(in->peer.agent, "rome/edge");
    assert_int_equal(in->peer.cert.serial, 0);
    world_free(world);
}

/* --- Refusals --------------------------------------------------------------------------------- */

/* `refuser` ended it and says why; `refused` was told so by the other side. */
static void check_refusal(const struct end *refuser, const struct end *refused, enum sn_err err,
                          const struct member *stranger)
{
    assert_int_equal(refuser->failure.err, err);
    assert_int_equal(refuser->failure.is_refusal, 1);
    assert_int_equal(refuser->opened, 0);
    assert_int_equal(refuser->failure.has_key, 1);
    assert_true(sn_key_id_is_equal(&refuser->failure.key, &stranger->id));
    assert_true(strlen(refuser->failure.detail) > 0);
    assert_int_equal(refused->failure.err, SN_EUNTRUSTED);
    assert_int_equal(refused->failure.is_refusal, 0);
    assert_non_null(strstr(refused->failure.detail, "the peer refused our certificate"));
}

static void check_both_clocks(const struct end *end)
{
    const char *first = strstr(end->failure.detail, "UTC");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "UTC"));
}

static const struct {
    enum flaw flaw;
    enum sn_err err;
} flaws[] = {{OTHER_MESH, SN_EMISMATCH},
             {EXPIRED, SN_EEXPIRED},
             {NOT_YET, SN_ENOTYET},
             {ALTERED, SN_EAUTH},
             {STRANGE_AUTHORITY, SN_EUNTRUSTED},
             {NO_CERTIFICATE, SN_EUNTRUSTED}};

static void try_flaw(unsigned index, int is_servers)
{
    struct world *world = world_new(tested);
    struct member *bad = is_servers ? &world->server : &world->client;
    enum flaw flaw = flaws[index].flaw;
    member_fini(bad);
    member_init(world, bad, "oslo/bad", 9, flaw);
    world_start(world);
    struct end *out = &world->outbound[0];
    out->to_send = MIB; /* a dialer may begin before it is refused */
    dial_ok(world, out, world->workers[1]);
    end_wait_failed(out);
    struct end *in = world_inbound(world, 0);
    end_wait_failed(in);
    struct end *refuser = is_servers ? out : in;
    check_refusal(refuser, is_servers ? in : out, flaws[index].err, bad);
    if (flaw != NO_CERTIFICATE) assert_string_equal(refuser->failure.agent, "oslo/bad");
    if (flaw == EXPIRED || flaw == NOT_YET) check_both_clocks(refuser);
    world_free(world);
}

static void test_bad_dialers_are_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SN_ARRAY_COUNT(flaws); i++) try_flaw(i, 0);
}

static void test_bad_listeners_are_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SN_ARRAY_COUNT(flaws); i++) try_flaw(i, 1);
}

static void test_expectations_of_a_dialer(void **state)
{
    (void)state;
    struct world *world = started();
    struct sn_dial dials[] = {{.expect_key = &world->client.id},
                              {.expect_agent = "paris/other"},
                              {.expect_key = &world->server.id, .expect_agent = "paris/hubs"}};
    for (uint32_t i = 0; i < SN_ARRAY_COUNT(dials); i++) {
        struct end *out = &world->outbound[i];
        assert_int_equal(world_dial(world, &world->client, out, world->workers[1], &dials[i]),
                         SN_OK);
        end_wait_failed(out);
        struct end *in = world_inbound(world, i);
        end_wait_failed(in);
        check_refusal(out, in, SN_EMISMATCH, &world->server);
        assert_string_equal(out->failure.agent, "paris/hub");
    }
    world_free(world);
}

/* --- Traffic ---------------------------------------------------------------------------------- */

static void test_both_directions_at_once(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->model.to_send = 32 * MIB;
    world_start(world);
    struct end *out = &world->outbound[0];
    out->to_send = 32 * MIB;
    dial_ok(world, out, world->workers[1]);
    struct end *in = world_inbound(world, 0);
    wait_received(out, 32 * MIB);
    wait_received(in, 32 * MIB);
    assert_int_equal(out->received, 32 * MIB);
    assert_int_equal(in->received, 32 * MIB);
    world_free(world);
}

static void test_bytes_are_counted(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->model.keep_failed = 1;
    world_start(world);
    struct end *out = &world->outbound[0];
    out->to_send = 100001;
    out->close_when_sent = 1;
    out->keep_failed = 1;
    dial_ok(world, out, world->workers[1]);
    struct end *in = world_inbound(world, 0);
    end_wait_failed(in);
    end_wait_failed(out);
    assert_int_equal(in->lane->received_bytes, 100001);
    assert_int_equal(in->lane->sent_bytes, 0);
    assert_int_equal(out->lane->sent_bytes, 100001);
    assert_int_equal(out->lane->received_bytes, 0);
    world_free(world);
}

struct pause {
    struct end *end;
    uint64_t more;
};

static void read_more(void *arg)
{
    struct pause *pause = arg;
    pause->end->read_max += pause->more;
    end_resume(pause->end);
}

static int was_refused(void *arg)
{
    return ((struct end *)arg)->refusals > 0;
}

static void test_slow_reader_holds_the_writer_back(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->model.read_max = 1;
    world_start(world);
    size_t before = sn_alloc_in_use();
    struct end *out = &world->outbound[0];
    out->to_send = 48 * MIB;
    dial_ok(world, out, world->workers[1]);
    struct end *in = world_inbound(world, 0);
    wait_received(in, 1);
    world_until(world, out->worker, was_refused, out);
    world_sleep_ms(50); /* more would come in now if anything leaked */
    assert_int_equal(in->received, 1);
    assert_true(sn_alloc_in_use() - before < 2 * BUFFERS_BYTES);
    struct pause pause = {in, 1};
    for (pause.more = 1; pause.more < 8 * MIB; pause.more *= 4) {
        uint64_t until = in->read_max + pause.more;
        world_call(world, in->worker, read_more, &pause);
        wait_received(in, until);
        assert_int_equal(in->received, until);
        assert_true(sn_alloc_in_use() - before < 2 * BUFFERS_BYTES);
    }
    pause.more = UINT32_MAX;
    world_call(world, in->worker, read_more, &pause);
    wait_received(in, 48 * MIB);
    world_free(world);
}

static void test_moves_between_workers_under_traffic(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->model.to_send = 24 * MIB;
    world->model.moves = 40;
    world_start(world);
    struct end *out = &world->outbound[0];
    out->to_send = 24 * MIB;
    dial_ok(world, out, world->workers[1]);
    struct end *in = world_inbound(world, 0);
    wait_received(out, 24 * MIB);
    for (uint32_t i = 0; i < WAIT_MS && atomic_load(&in->received_shown) < 24 * MIB; i++) {
        world_sleep_ms(1);
    }
    assert_int_equal(atomic_load(&in->received_shown), 24 * MIB);
    for (uint32_t i = 0; i < WORKERS; i++) sn_worker_stop(world->workers[i]);
    assert_true(in->moves < 40);
    world_free(world);
}

static int has_memory_of(void *arg)
{
    return sn_alloc_in_use() <= *(size_t *)arg;
}

static void test_idle_lanes_hold_no_buffers(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->model.to_send = MIB;
    world_start(world);
    size_t before = sn_alloc_in_use();
    dial_ok(world, &world->outbound[0], world->workers[1]);
    wait_received(&world->outbound[0], MIB);
    size_t allowed = before + 2 * 8192;
    world_until(world, world->workers[0], has_memory_of, &allowed);
    /* It takes them again when there is something to do. */
    struct end *in = &world->inbound[0];
    in->to_send += MIB;
    world_call(world, in->worker, end_send, in);
    wait_received(&world->outbound[0], 2 * MIB);
    world_free(world);
}

/* --- Ends ------------------------------------------------------------------------------------- */

static void test_close_delivers_what_was_written(void **state)
{
    (void)state;
    struct world *world = started();
    struct end *out = &world->outbound[0];
    out->to_send = 8 * MIB;
    out->close_when_sent = 1;
    dial_ok(world, out, world->workers[1]);
    struct end *in = world_inbound(world, 0);
    end_wait_failed(in);
    assert_int_equal(in->received, 8 * MIB);
    assert_int_equal(in->failure.err, SN_ECLOSED);
    assert_int_equal(in->failure.was_open, 1);
    assert_non_null(strstr(in->failure.detail, "by the peer"));
    end_wait_failed(out);
    assert_int_equal(out->failure.err, SN_ECLOSED);
    world_free(world);
}

static void close_lane(void *arg)
{
    struct end *end = arg;
    if (end->lane != NULL) sn_lane_close(end->lane);
}

static void test_close_at_both_ends(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->model.to_send = world->model.close_when_sent = 1;
    world_start(world);
    for (uint32_t i = 0; i < 20; i++) {
        struct end *out = &world->outbound[i];
        out->to_send = out->close_when_sent = 1;
        dial_ok(world, out, world->workers[1]);
        end_wait_failed(out);
        end_wait_failed(world_inbound(world, i));
        assert_int_equal(out->failure.err, SN_ECLOSED);
        assert_int_equal(world->inbound[i].failure.err, SN_ECLOSED);
    }
    world_free(world);
}

static void test_close_before_open(void **state)
{
    (void)state;
    struct world *world = started();
    struct end *out = &world->outbound[0];
    out->worker = world->workers[0];
    dial_ok(world, out, world->workers[1]);
    world_call(world, out->worker, close_lane, out);
    end_wait_failed(out);
    assert_int_equal(out->failure.err, SN_ECLOSED);
    world_free(world);
}

/* A peer that neither reads nor closes does not hold a closing lane for ever. */
static void test_close_is_bounded(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->handshake_timeout_ms = 300;
    world->model.read_max = 1;
    world_start(world);
    struct end *out = &world->outbound[0];
    out->to_send = 64 * MIB;
    dial_ok(world, out, world->workers[1]);
    struct end *in = world_inbound(world, 0);
    wait_received(in, 1);
    world_until(world, out->worker, was_refused, out);
    uint64_t begin = sn_env_now_ns(world->env);
    world_call(world, out->worker, close_lane, out);
    end_wait_failed(out);
    assert_int_equal(out->failure.err, SN_ECLOSED);
    assert_true(sn_env_now_ns(world->env) - begin < 3000 * SN_MS);
    world_free(world);
}

static void test_free_is_immediate(void **state)
{
    (void)state;
    struct world *world = started();
    struct end *out = &world->outbound[0];
    dial_ok(world, out, world->workers[1]);
    struct end *in = world_inbound(world, 0);
    end_wait_open(in);
    world_call(world, out->worker, end_free, out);
    end_wait_failed(in);
    assert_int_equal(in->failure.err, SN_ECLOSED);
    assert_non_null(strstr(in->failure.detail, "the connection ended"));
    assert_int_equal(in->failure.was_open, 1);
    assert_true(sn_key_id_is_equal(&in->failure.key, &world->client.id));
    world_free(world);
}

static int is_over(void *arg)
{
    struct end *end = arg;
    return end->lane == NULL;
}

static void test_lanes_freed_in_callbacks(void **state)
{
    (void)state;
    static const enum moment moments[] = {AT_OPENED, AT_READABLE, AT_WRITABLE};
    struct world *world = world_new(tested);
    world->model.to_send = 4 * MIB;
    world_start(world);
    for (uint32_t i = 0; i < CALLBACK_LANES; i++) {
        struct end *out = &world->outbound[i];
        out->to_send = 4 * MIB;
        out->free_at = moments[i % SN_ARRAY_COUNT(moments)];
        dial_ok(world, out, world->workers[i % WORKERS]);
        world_until(world, out->worker, is_over, out);
        assert_int_equal(out->failed, 0);
    }
    for (uint32_t i = 0; i < CALLBACK_LANES; i++) {
        struct end *in = world_inbound(world, i);
        world_until(world, in->worker, is_over, in);
    }
    world_free(world);
}

static void test_descriptors_and_memory_stay_constant(void **state)
{
    (void)state;
    struct world *world = started();
    uint32_t descriptors = world_descriptors(world);
    size_t memory = 0;
    for (uint32_t i = 0; i < KILLED_LANES; i++) {
        struct end *out = &world->outbound[i];
        dial_ok(world, out, world->workers[1]);
        end_wait_open(out);
        struct end *in = world_inbound(world, i);
        end_wait_open(in);
        struct end *killed = i % 2 == 0 ? out : in;
        struct end *other = i % 2 == 0 ? in : out;
        world_call(world, killed->worker, end_free, killed);
        end_wait_failed(other);
        if (i == 10) memory = sn_alloc_in_use(); /* heaps of timers have grown by then */
    }
    assert_int_equal(world_descriptors(world), descriptors);
    assert_true(sn_alloc_in_use() <= memory);
    world_free(world);
}

/* --- Nobody there ----------------------------------------------------------------------------- */

static void test_dial_to_a_closed_port(void **state)
{
    (void)state;
    struct world *world = started();
    struct sn_sock sock;
    struct sn_netaddr any = {.family = SN_NETADDR_IP4, .ip = {127, 0, 0, 1}};
    struct sn_dial dial = {.expect_agent = "paris/hub"};
    assert_int_equal(sn_env_listen(world->env, &any, &sock, &dial.addr), SN_OK);
    sn_env_close(world->env, sock); /* nobody has that port now */
    struct end *out = &world->outbound[0];
    enum sn_err err = world_dial(world, &world->client, out, world->workers[1], &dial);
    if (err == SN_OK) {
        end_wait_failed(out);
        err = out->failure.err;
        assert_int_equal(out->failure.was_open, 0);
        assert_string_equal(out->failure.agent, "paris/hub");
        assert_true(sn_netaddr_is_equal(&out->failure.remote, &dial.addr));
    }
    assert_int_equal(err, SN_EREFUSED);
    world_free(world);
}

/* Every allocation fails once: each attempt ends, in one way or the other, and nothing is lost. */
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->model.to_send = 1000;
    world->model.close_when_sent = 1;
    world_start(world);
    uint32_t used = 0;
    for (; used < 8; used++) { /* so that the workers' own tables are large enough */
        dial_ok(world, &world->outbound[used], world->workers[1]);
    }
    for (uint32_t i = 0; i < used; i++) end_wait_failed(&world->outbound[i]);
    size_t memory = sn_alloc_in_use();
    uint32_t opened = 0;
    for (uint64_t nth = 1; nth <= 40; nth++, used++) {
        struct end *out = &world->outbound[used];
        struct sn_dial dial = {.timeout_ms = 3000};
        sn_alloc_fail_nth(nth);
        enum sn_err err = world_dial(world, &world->client, out, world->workers[1], &dial);
        if (err == SN_OK) end_wait_failed(out);
        sn_alloc_fail_nth(0);
        assert_true(err == SN_OK || err == SN_ENOMEM);
        opened += out->opened;
    }
    assert_true(opened > 0 && opened < 40);
    world_until(world, world->workers[0], has_memory_of, &memory);
    world_free(world);
}

int carrier_suite_run(const struct carrier_provider *provider)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_and_names_both),
        cmocka_unit_test(test_pins_stand_in_for_certificates),
        cmocka_unit_test(test_bad_dialers_are_refused),
        cmocka_unit_test(test_bad_listeners_are_refused),
        cmocka_unit_test(test_expectations_of_a_dialer),
        cmocka_unit_test(test_both_directions_at_once),
        cmocka_unit_test(test_bytes_are_counted),
        cmocka_unit_test(test_slow_reader_holds_the_writer_back),
        cmocka_unit_test(test_moves_between_workers_under_traffic),
        cmocka_unit_test(test_idle_lanes_hold_no_buffers),
        cmocka_unit_test(test_close_delivers_what_was_written),
        cmocka_unit_test(test_close_at_both_ends),
        cmocka_unit_test(test_close_before_open),
        cmocka_unit_test(test_close_is_bounded),
        cmocka_unit_test(test_free_is_immediate),
        cmocka_unit_test(test_lanes_freed_in_callbacks),
        cmocka_unit_test(test_descriptors_and_memory_stay_constant),
        cmocka_unit_test(test_dial_to_a_closed_port),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    tested = provider;
    if (sn_crypto_init() != SN_OK) return 1;
    int failed = cmocka_run_group_tests_name(provider->name, tests, NULL, NULL);
    if (provider->is_tls_over_tcp) failed += carrier_strangers_run(provider);
    return failed;
}
