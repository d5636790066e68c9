/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "world.h"

static enum sn_err handle_nothing(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    (void)ctx, (void)state, (void)event; /* content with everything */
    return SN_OK;
}

static struct sn_actor_kind plain(const char *name)
{
    return (struct sn_actor_kind){
        .size = sizeof(struct sn_actor_kind), .name = name, .handle = handle_nothing};
}

static enum sn_err spawn(const struct sn_actor_kind *kind)
{
    struct sn_actor_ref ref = {99};
    enum sn_err err = sn_system_spawn(world_get()->system, kind, NULL, 0, &ref);
    if (err != SN_OK) assert_int_equal(ref.id, 99);
    return err;
}

static void test_bad_kinds(void **state)
{
    (void)state;
    world_new();
    char longest[65];
    memset(longest, 'x', sizeof longest - 1);
    longest[64] = '\0';
    const char *const names[] = {NULL, "", "Upper", "a.b", "a b", "-a", longest};
    for (size_t i = 0; i < SN_ARRAY_COUNT(names); i++) {
        struct sn_actor_kind kind = plain(names[i]);
        assert_int_equal(spawn(&kind), SN_EINVAL);
    }
    struct sn_actor_kind kind = plain("a");
    kind.size = sizeof kind - 1;
    assert_int_equal(spawn(&kind), SN_EINVAL);
    kind = plain("a");
    kind.handle = NULL;
    assert_int_equal(spawn(&kind), SN_EINVAL);
    kind = plain("a");
    kind.mailbox_messages = SN_MAILBOX_MAX + 1;
    assert_int_equal(spawn(&kind), SN_EINVAL);
    static const char *const services[] = {"", "Tunnel", "a/b", "abcdefghijklmnopqrstuvwxyz012345"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(services); i++) {
        kind = plain("a");
        kind.service = services[i];
        assert_int_equal(spawn(&kind), SN_EINVAL);
    }
    static struct sn_actor_kind good;
    good = plain("a"); /* the name is still free */
    good.service = "abcdefghijklmnopqrstuvwxyz01234";
    good.mailbox_messages = SN_MAILBOX_MAX;
    assert_int_equal(spawn(&good), SN_OK);
}

static void test_names_and_services_are_unique(void **state)
{
    (void)state;
    struct sn_system *system = world_new()->system;
    static struct sn_actor_kind a, b, c, d;
    a = plain("a");
    a.service = "tunnel";
    b = plain("b");
    b.service = "tunnel";
    c = plain("a");
    d = plain("b");
    assert_int_equal(spawn(&a), SN_OK);
    assert_int_equal(spawn(&c), SN_EEXIST);
    assert_int_equal(spawn(&b), SN_EEXIST);
    assert_int_equal(spawn(&d), SN_OK); /* the failed one left its name free */
    assert_int_equal(sn_system_find(system, "a").id, 1);
    assert_int_equal(sn_system_find(system, "b").id, 2);
    assert_int_equal(sn_system_find(system, "c").id, 0);
    assert_int_equal(sn_system_find_service(system, "tunnel").id, 1);
    assert_int_equal(sn_system_find_service(system, "a").id, 0);
    assert_string_equal(sn_system_actor_name(system, (struct sn_actor_ref){2}), "b");
    assert_string_equal(sn_system_actor_name(system, (struct sn_actor_ref){0}), "");
    assert_string_equal(sn_system_actor_name(system, (struct sn_actor_ref){3}), "");
    assert_int_equal(sn_worker_index(sn_system_actor_worker(system, (struct sn_actor_ref){1})), 0);
    assert_int_equal(sn_worker_index(sn_system_actor_worker(system, (struct sn_actor_ref){2})), 1);
    assert_int_equal(sn_system_worker_count(system), 2);
    assert_string_equal(sn_system_agent_name(system), WORLD_AGENT);
    struct sn_actor_info info;
    assert_int_equal(sn_system_actor_info(system, 2, &info), SN_ENOENT);
}

static void test_bound_on_actors(void **state)
{
    (void)state;
    world_new();
    static char names[SN_ACTORS_MAX + 1][8];
    static struct sn_actor_kind kinds[SN_ACTORS_MAX + 1];
    for (uint32_t i = 0; i <= SN_ACTORS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "a%u", i);
        kinds[i] = plain(names[i]);
        assert_int_equal(spawn(&kinds[i]), i < SN_ACTORS_MAX ? SN_OK : SN_EFULL);
    }
}

static enum sn_err send_to_b_at_start(struct sn_ctx *ctx, struct probe *probe,
                                      const struct sn_event *event)
{
    (void)probe; /* the first one */
    if (event->kind != SN_EVENT_START) return SN_OK;
    return sn_send(ctx, ":b", "hello", "x", 1, NULL);
}

static void test_start_comes_first(void **state)
{
    (void)state;
    struct world *world = world_new();
    struct probe *a = world_spawn("a", 0, 0);
    struct probe *b = world_spawn("b", 0, 0);
    a->on_event = send_to_b_at_start;
    /* Before the workers run, and the agent drains at once. */
    assert_int_equal(world_bring(b->ref, "early", ""), SN_REASON_NONE);
    assert_int_equal(sn_system_start(world->system), SN_OK);
    sn_system_drain(world->system);
    world_run();
    assert_int_equal(a->records[0].kind, SN_EVENT_START);
    assert_int_equal(a->records[1].kind, SN_EVENT_STOP);
    assert_int_equal(b->records[0].kind, SN_EVENT_START);
    assert_int_equal(b->records[1].kind, SN_EVENT_STOP);
    assert_int_equal(world_count(b, SN_EVENT_START), 1);
    assert_int_equal(world_count(b, SN_EVENT_STOP), 1);
    assert_int_equal(world_count(b, SN_EVENT_MESSAGE), 2);
    assert_int_equal(world->ready_count, 1);
}

static enum sn_err fail_at_start(struct sn_ctx *ctx, struct probe *probe,
                                 const struct sn_event *event)
{
    (void)ctx, (void)probe; /* whatever they are */
    return event->kind == SN_EVENT_START ? SN_EIO : SN_OK;
}

static void test_ready_fires_once(void **state)
{
    (void)state;
    struct world *world = world_new();
    struct probe *a = world_spawn("a", 0, 0);
    world_spawn("b", 0, 0);
    struct probe *c = world_spawn("c", 0, 0);
    c->on_event = fail_at_start;
    assert_int_equal(world->ready_count, 0);
    assert_int_equal(sn_system_start(world->system), SN_OK);
    assert_int_equal(world->ready_count, 0);
    world_run();
    assert_int_equal(world->ready_count, 1);
    world_run_ms(10000); /* c is restarted, and fails, again and again */
    assert_true(world_count(c, SN_EVENT_START) > 1);
    assert_int_equal(world->ready_count, 1);
    assert_int_equal(world_count(a, SN_EVENT_START), 1);
}

static void test_ready_without_actors(void **state)
{
    (void)state;
    struct world *world = world_new();
    world_start();
    assert_int_equal(world->ready_count, 1);
}

static enum sn_err fail_first_then_work(struct sn_ctx *ctx, struct probe *probe,
                                        const struct sn_event *event)
{
    (void)ctx; /* nothing is sent */
    if (event->kind == SN_EVENT_MESSAGE) return SN_EIO;
    if (event->kind == SN_EVENT_STOP && world_count(probe, SN_EVENT_STOP) == 1) return SN_EIO;
    return SN_OK;
}

static void test_drain_reaches_actors_that_are_down(void **state)
{
    (void)state;
    struct world *world = world_new();
    struct probe *a = world_spawn("a", 0, 0);
    a->on_event = fail_first_then_work;
    world_start();
    assert_int_equal(world_bring(a->ref, "break", ""), SN_REASON_NONE);
    world_run();
    assert_int_equal(world->failed_count, 1);
    sn_system_drain(world->system);
    world_run();
    assert_int_equal(world_count(a, SN_EVENT_STOP), 0);
    world_run_ms(100);
    assert_int_equal(world_count(a, SN_EVENT_START), 1);
    assert_int_equal(world_count(a, SN_EVENT_STOP), 1);
    assert_int_equal(world->failed_count, 2); /* it failed in STOP: the next one is told too */
    world_run_ms(200);
    assert_int_equal(world_count(a, SN_EVENT_STOP), 2);
    world_run_ms(10000);
    assert_int_equal(world_count(a, SN_EVENT_STOP), 2);
}

static uint32_t dropped_count;

static void on_dropped(struct sn_notice *notice, void *arg)
{
    assert_ptr_equal(arg, &dropped_count);
    assert_string_equal(notice->event.text, "text");
    assert_string_equal(notice->event.agent, "a/b");
    assert_int_equal(notice->event.payload_size, 3);
    dropped_count++;
}

static void post_notice(struct probe *probe, uint32_t incarnation)
{
    struct sn_notice *notice;
    assert_int_equal(sn_notice_new(probe->ref, incarnation, "a/b", "text", "abc", 3, &notice),
                     SN_OK);
    notice->event.kind = SN_EVENT_STREAM_ASKED;
    notice->dropped = on_dropped;
    notice->arg = &dropped_count;
    sn_notice_post(world_get()->system, notice);
}

/* Letters, notices and outcomes that are under way when the workers end. */
static void test_stop_and_free_leak_nothing(void **state)
{
    (void)state;
    struct world *world = world_new();
    struct probe *a = world_spawn("a", 0, 0);
    struct probe *b = world_spawn("b", 0, 0);
    world_start();
    dropped_count = 0;
    assert_int_equal(world_bring(a->ref, "late", "x"), SN_REASON_NONE);
    assert_int_equal(world_bring(b->ref, "late", "x"), SN_REASON_NONE);
    post_notice(a, 0);
    sn_system_stop(world->system);
    assert_int_equal(dropped_count, 1); /* at stop: `arg` may be gone when the system is freed */
    world_free();
    assert_int_equal(world_count(a, SN_EVENT_MESSAGE), 0);
    assert_int_equal(a->fini_count, 1);
    assert_int_equal(b->fini_count, 1);
}

static void test_never_started_system_is_freed(void **state)
{
    (void)state;
    world_new();
    struct probe *a = world_spawn("a", 0, 0);
    assert_int_equal(world_bring(a->ref, "early", "x"), SN_REASON_NONE);
    world_free();
    assert_int_equal(a->fini_count, 0); /* its state was never used */
}

static void test_start_may_fail(void **state)
{
    (void)state;
    struct world *world = world_new();
    world_spawn("a", 0, 0);
    fake_env_fail_loops(world->env, SN_ENOMEM);
    assert_int_equal(sn_system_start(world->system), SN_ENOMEM);
}

static enum sn_err build(struct sn_env *env)
{
    static const struct sn_actor_kind kinds[] = {
        {.size = sizeof kinds[0], .name = "a", .handle = handle_nothing, .service = "s"},
        {.size = sizeof kinds[0], .name = "b", .handle = handle_nothing, .state_bytes = 100}};
    struct sn_metrics *metrics;
    struct sn_system *system = NULL;
    struct sn_actor_ref ref;
    enum sn_err err = sn_metrics_new(3, &metrics);
    if (err != SN_OK) return err;
    struct sn_system_config config = {.env = env,
                                      .host = &world_host,
                                      .metrics = metrics,
                                      .agent_name = WORLD_AGENT,
                                      .worker_count = 2};
    err = sn_system_new(&config, &system);
    if (err != SN_OK) {
        assert_null(system);
        assert_int_equal(sn_metrics_count(metrics), 0); /* so that it can be tried again */
    }
    for (size_t i = 0; i < SN_ARRAY_COUNT(kinds) && err == SN_OK; i++) {
        err = sn_system_spawn(system, &kinds[i], NULL, 0, &ref);
        if (err != SN_OK) assert_int_equal(sn_system_find(system, kinds[i].name).id, 0);
    }
    sn_system_free(system);
    sn_metrics_free(metrics);
    return err;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct sn_env *env = fake_env_new();
    unsigned nth = 0;
    enum sn_err err = SN_ENOMEM;
    while (err != SN_OK) {
        sn_alloc_fail_nth(++nth);
        err = build(env);
        sn_alloc_fail_nth(0);
        assert_true(err == SN_OK || err == SN_ENOMEM);
        assert_int_equal(sn_alloc_in_use(), 0);
    }
    assert_true(nth > 15);
    fake_env_fail_loops(env, SN_ENOSPC);
    assert_int_equal(build(env), SN_ENOSPC);
    fake_env_free(env);
    sn_system_free(NULL);
}

static void test_worker_count_defaults_to_processors(void **state)
{
    (void)state;
    struct sn_env *env = fake_env_new();
    struct sn_metrics *metrics;
    struct sn_system *system;
    assert_int_equal(sn_metrics_new(3, &metrics), SN_OK);
    struct sn_system_config config = {
        .env = env, .host = &world_host, .metrics = metrics, .agent_name = WORLD_AGENT};
    assert_int_equal(sn_system_new(&config, &system), SN_OK);
    assert_int_equal(sn_system_worker_count(system), sn_env_cpu_count(env));
    assert_ptr_equal(sn_system_env(system), env);
    assert_ptr_equal(sn_system_metrics(system), metrics);
    assert_non_null(sn_system_logger(sn_system_worker(system, 1)));
    sn_system_free(system);
    sn_metrics_free(metrics);
    fake_env_free(env);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, NULL, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bad_kinds),
        TEST(test_names_and_services_are_unique),
        TEST(test_bound_on_actors),
        TEST(test_start_comes_first),
        TEST(test_ready_fires_once),
        TEST(test_ready_without_actors),
        TEST(test_drain_reaches_actors_that_are_down),
        TEST(test_stop_and_free_leak_nothing),
        TEST(test_never_started_system_is_freed),
        TEST(test_start_may_fail),
        TEST(test_allocation_failures),
        TEST(test_worker_count_defaults_to_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
