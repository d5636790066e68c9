/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/link_suite.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "conformance/link_world.h"

/* The thread sanitizer makes each byte moved 50 times as dear. */
#ifdef __SANITIZE_THREAD__
#define SESSIONS 40u
#define CUTS     5u
#elif defined(__SANITIZE_ADDRESS__)
#define SESSIONS                                                                                   \
    100u /* a leak shows in ten as well; the number is for races, which the plain build looks for */
#define CUTS 20u
#else
#define SESSIONS 200u
#define CUTS     20u
#endif

/* One for each test; cmocka hands it over as *state. */
struct suite {
    struct sn_env *env;
    char folder[64];
    struct world *world;
};

static const struct sn_link_provider *provider_of_suite; /* set once, before cmocka runs */

static int set_up(void **state)
{
    struct suite *suite = calloc(1, sizeof *suite);
    if (suite == NULL) return -1;
    (void)snprintf(suite->folder, sizeof suite->folder, "/tmp/sn-link-XXXXXX");
    if (mkdtemp(suite->folder) == NULL) return -1;
    if (sn_env_posix_new(&suite->env) != SN_OK) return -1;
    suite->world = world_new(provider_of_suite, suite->env, suite->folder);
    *state = suite;
    return 0;
}

static int tear_down(void **state)
{
    struct suite *suite = *state;
    /* After a failed test links may be left, and their threads: let them be, the run has failed. */
    if (!world_both_closed(suite->world)) return 0;
    world_free(suite->world);
    sn_env_posix_free(suite->env);
    /* Fails, and with it the run, when a link left a file behind. */
    int rc = rmdir(suite->folder);
    free(suite);
    return rc;
}

static struct world *world_of(void **state)
{
    struct suite *suite = *state;
    return suite->world;
}

static void check(struct world *world, int waited)
{
    assert_string_equal(world->problem, "");
    assert_true(waited);
}

/* --- Orders -------------------------------------------------------------------------------------------------- */

static void open_one(struct world *world, unsigned side)
{
    enum sn_err err = world_open_link(world, side);
    if (err != SN_OK) world_fail(world, "open", (uint64_t)err, side);
}

static void order_open(struct world *world)
{
    world_connect(world);
    for (unsigned i = 0; i < 2 && world->problem[0] == 0; i++) open_one(world, i);
}

static void order_send(struct world *world)
{
    for (unsigned i = 0; i < 2; i++) {
        if (world->sides[i].link != NULL) world_send(&world->sides[i]);
    }
}

static void order_close(struct world *world)
{
    for (unsigned i = 0; i < 2; i++) world_close_link(world, i);
}

static int is_all_delivered(struct world *world)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct side *from = &world->sides[i];
        const struct side *to = &world->sides[1 - i];
        for (unsigned c = 0; c < SN_CLASS_COUNT; c++) {
            if (from->sent[c] < from->to_send[c] || to->received[c] < from->to_send[c]) return 0;
        }
    }
    return 1;
}

static void set_load(struct world *world, uint64_t count, uint32_t (*size_of)(uint64_t))
{
    world->size_of = size_of;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned c = 0; c < SN_CLASS_COUNT; c++) world->sides[i].to_send[c] = count;
    }
}

static void close_all(struct world *world)
{
    world_do(world, order_close);
    int waited = world_wait(world, world_both_closed);
    world_do(world, world_disconnect);
    check(world, waited);
}

static void check_counters(const struct side *side)
{
    assert_int_equal(side->last.pump_out, side->last.sent);
    assert_int_equal(side->last.pump_in, side->last.received);
    assert_int_equal(side->last.nng_sent, side->last.sent);
    assert_int_equal(side->last.nng_received, side->last.received);
}

/* --- Order and sizes ----------------------------------------------------------------------------------------- */

static const uint32_t SIZES[] = {1,
                                 2,
                                 7,
                                 8,
                                 9,
                                 100,
                                 4095,
                                 4096,
                                 8191,
                                 8192,
                                 8193,
                                 16384,
                                 32755,
                                 32768,
                                 65535,
                                 65536,
                                 65537,
                                 131072,
                                 SN_PARCEL_BYTES_MAX - 14,
                                 SN_PARCEL_BYTES_MAX - 1,
                                 SN_PARCEL_BYTES_MAX};

static uint32_t every_size(uint64_t sequence)
{
    return SIZES[sequence % (sizeof SIZES / sizeof SIZES[0])];
}

static uint32_t mostly_small(uint64_t sequence)
{
    if (sequence % 97 == 0) return 65536;
    return (uint32_t)(1 + sequence * 37 % 1500);
}

static uint32_t largest(uint64_t sequence)
{
    (void)sequence; /* all alike */
    return SN_PARCEL_BYTES_MAX;
}

static void run_load(struct world *world, uint64_t count, uint32_t (*size_of)(uint64_t))
{
    world_do(world, order_open);
    set_load(world, count, size_of);
    world_do(world, order_send);
    int waited = world_wait(world, is_all_delivered);
    close_all(world);
    check(world, waited);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(world->sides[i].down_count, 0);
        assert_int_equal(world->sides[i].last.sent, 2 * count);
        assert_int_equal(world->sides[i].last.received, 2 * count);
        check_counters(&world->sides[i]);
    }
}

static void test_sizes(void **state)
{
    struct world *world = world_of(state);
    run_load(world, 3 * sizeof SIZES / sizeof SIZES[0], every_size);
}

/* The receive window holds a quarter of a parcel. */
static void test_small_window(void **state)
{
    struct world *world = world_of(state);
    world->window_small = 1;
    run_load(world, 2 * sizeof SIZES / sizeof SIZES[0], every_size);
}

static void test_ten_thousand_both_ways(void **state)
{
    run_load(world_of(state), 5000, mostly_small);
}

static void test_idle_link_closes(void **state)
{
    run_load(world_of(state), 0, largest);
}

/* --- Refusals -------------------------------------------------------------------------------------------------- */

static void order_send_too_long(struct world *world)
{
    struct side *side = &world->sides[0];
    enum sn_err err =
        sn_link_send(side->link, SN_CLASS_CONTROL, world->scratch, SN_PARCEL_BYTES_MAX + 1);
    if (err != SN_ETOOBIG) world_fail(world, "too long a parcel", (uint64_t)err, 0);
    world_close_link(world, 0);
    err = sn_link_send(side->link, SN_CLASS_CONTROL, world->scratch, 1);
    if (err != SN_ECLOSED) world_fail(world, "send after close", (uint64_t)err, 0);
}

static void test_refusals(void **state)
{
    struct world *world = world_of(state);
    world_do(world, order_open);
    world_do(world, order_send_too_long);
    close_all(world);
}

static void order_open_fails(struct world *world)
{
    world_connect(world);
    /* The worker's heap of timers may grow now: it treats a failure then as fatal. */
    sn_timer_start(world->worker, &world->tick, UINT64_MAX);
    sn_timer_stop(world->worker, &world->tick);
    size_t before = sn_alloc_in_use();
    size_t length = strlen(world->folder);
    snprintf(world->folder + length, sizeof world->folder - length, "/missing");
    enum sn_err err = world_open_link(world, 0);
    if (err != SN_ENOENT) world_fail(world, "missing folder", (uint64_t)err, 0);
    world->folder[length] = '\0';
    if (sn_alloc_in_use() != before) world_fail(world, "leak", sn_alloc_in_use(), before);
    for (unsigned c = 0; c < SN_CLASS_COUNT; c++) {
        if (world->sides[0].streams[c] == NULL) world_fail(world, "stream was taken", c, 0);
    }
    for (uint64_t nth = 1;; nth++) {
        sn_alloc_fail_nth(nth);
        err = world_open_link(world, 0);
        sn_alloc_fail_nth(0);
        if (err == SN_OK) break;
        if (err != SN_ENOMEM) world_fail(world, "allocation failure", (uint64_t)err, nth);
        if (sn_alloc_in_use() != before) world_fail(world, "leak", sn_alloc_in_use(), nth);
    }
}

static void test_open_failures(void **state)
{
    struct world *world = world_of(state);
    world_do(world, order_open_fails);
    close_all(world);
}

/* A folder whose name does not fit a UNIX address, with characters that mean something in a URL. */
static void test_long_folder(void **state)
{
    struct world *world = world_of(state);
    char saved[sizeof world->folder];
    char part[100];
    memcpy(saved, world->folder, sizeof saved);
    memset(part, 'x', sizeof part);
    memcpy(part, "/a%41 b?c#d&", 12);
    part[99] = 0;
    char inner[sizeof saved];
    char outer[sizeof saved];
    assert_true((size_t)snprintf(outer, sizeof outer, "%.64s%s", saved, part) < sizeof outer);
    assert_true((size_t)snprintf(inner, sizeof inner, "%.160s%.60s", outer, part) < sizeof inner);
    assert_int_equal(mkdir(outer, 0700), 0);
    assert_int_equal(mkdir(inner, 0700), 0);
    memcpy(world->folder, inner, sizeof inner);
    run_load(world, 10, mostly_small);
    assert_int_equal(rmdir(inner), 0);
    /* And one that fits, with the same characters. */
    char plain[sizeof saved];
    assert_true((size_t)snprintf(plain, sizeof plain, "%.40s/a%%41 b?c#d", saved) < sizeof plain);
    assert_int_equal(mkdir(plain, 0700), 0);
    memcpy(world->folder, plain, sizeof plain);
    run_load(world, 10, mostly_small);
    assert_int_equal(rmdir(plain), 0);
    assert_int_equal(rmdir(outer), 0);
    memcpy(world->folder, saved, sizeof saved);
}

/* --- Back-pressure ------------------------------------------------------------------------------------------------ */

/* Of one class. A parcel on its way is in one of: the sender's socket and window, the receiver's window and
 * socket. */
#define PAUSED_BYTES_MAX (2u * WORLD_WINDOW + 6u * 1024u * 1024u)

static void order_pause(struct world *world)
{
    world_pause(&world->sides[1], 1);
}

static void order_resume(struct world *world)
{
    world_pause(&world->sides[1], 0);
}

/* The sender was refused and nothing has moved for a while. Its own counter of calls is the clock. */
static int is_stuck(struct world *world)
{
    struct side *from = &world->sides[0];
    if (from->refusals == 0) return 0;
    static uint64_t last, calls; /* one world waits at a time */
    uint64_t sent = from->sent[0] + from->sent[1];
    if (sent != last) calls = 0;
    last = sent;
    return ++calls % 200 == 0;
}

static void test_back_pressure(void **state)
{
    struct world *world = world_of(state);
    world_do(world, order_open);
    world_do(world, order_pause);
    world->size_of = largest;
    for (unsigned c = 0; c < SN_CLASS_COUNT; c++) world->sides[0].to_send[c] = 120;
    world_do(world, order_send);
    int waited = world_wait(world, is_stuck);
    check(world, waited);
    for (unsigned c = 0; c < SN_CLASS_COUNT; c++) {
        assert_int_equal(world->sides[1].received[c], 0);
        assert_true(world->sides[0].sent[c] > 8);
        assert_true(world->sides[0].sent[c] * SN_PARCEL_BYTES_MAX < PAUSED_BYTES_MAX);
    }
    assert_true(sn_alloc_in_use() < SN_CLASS_COUNT * PAUSED_BYTES_MAX);
    world->sides[1].pause_in_parcel = 1; /* and stops again at once */
    world_do(world, order_resume);
    waited = world_wait(world, is_stuck);
    check(world, waited);
    assert_int_equal(world->sides[1].received[0] + world->sides[1].received[1], 1);
    world_do(world, order_resume);
    waited = world_wait(world, is_all_delivered);
    check(world, waited);
    close_all(world);
    check_counters(&world->sides[0]);
    check_counters(&world->sides[1]);
}

/* Closing while the receiver is paused and everything is full. */
static void test_close_when_full(void **state)
{
    struct world *world = world_of(state);
    world_do(world, order_open);
    world_do(world, order_pause);
    set_load(world, 120, largest);
    world_do(world, order_send);
    int waited = world_wait(world, is_stuck);
    check(world, waited);
    close_all(world);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(world->sides[i].last.pump_out, world->sides[i].last.sent);
        assert_int_equal(world->sides[i].last.pump_in, world->sides[i].last.nng_received);
        assert_int_equal(world->sides[i].last.received, world->sides[i].last.nng_received);
    }
}

/* --- Broken peers ----------------------------------------------------------------------------- */

static int is_first_down(struct world *world)
{
    return world->sides[0].down_count > 0;
}

static int is_both_down(struct world *world)
{
    return world->sides[0].down_count > 0 && world->sides[1].down_count > 0;
}

static void order_open_first(struct world *world)
{
    world_connect(world);
    open_one(world, 0);
}

static void write_raw(struct world *world, unsigned class_id, const void *bytes, uint32_t size)
{
    struct sn_buf piece;
    enum sn_err err = sn_buf_copy(bytes, size, &piece);
    if (err == SN_OK) err = sn_stream_write(world->sides[1].streams[class_id], &piece, 0);
    if (err != SN_OK) world_fail(world, "raw write", (uint64_t)err, size);
}

static void order_garbage(struct world *world)
{
    static const char GARBAGE[] = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    write_raw(world, SN_CLASS_APPLICATION, GARBAGE, sizeof GARBAGE);
}

static void test_garbage(void **state)
{
    struct world *world = world_of(state);
    world_do(world, order_open_first);
    world_do(world, order_garbage);
    int waited = world_wait(world, is_first_down);
    check(world, waited);
    assert_int_equal(world->sides[0].down_reason, SN_EPROTO);
    close_all(world);
    assert_int_equal(world->sides[0].last.pump_in, 0);
    assert_int_equal(world->sides[0].last.nng_received, 0);
}

static void order_reset_both(struct world *world)
{
    for (unsigned c = 0; c < SN_CLASS_COUNT; c++) {
        sn_stream_reset(world->sides[1].streams[c], SN_EDENIED);
    }
}

/* Before the other link said anything. */
static void test_reset_before_hello(void **state)
{
    struct world *world = world_of(state);
    world_do(world, order_open_first);
    set_load(world, 5, mostly_small);
    world->sides[1].to_send[0] = world->sides[1].to_send[1] = 0;
    world_do(world, order_send);
    world_do(world, order_reset_both);
    int waited = world_wait(world, is_first_down);
    check(world, waited);
    close_all(world);
    assert_int_equal(world->sides[0].last.sent, 10);
    assert_int_equal(world->sides[0].last.pump_in, 0);
}

static void order_end_both(struct world *world)
{
    for (unsigned c = 0; c < SN_CLASS_COUNT; c++) sn_stream_end(world->sides[1].streams[c]);
}

static void test_end_before_hello(void **state)
{
    struct world *world = world_of(state);
    world_do(world, order_open_first);
    world_do(world, order_end_both);
    int waited = world_wait(world, is_first_down);
    check(world, waited);
    assert_int_equal(world->sides[0].down_reason, SN_ECLOSED);
    close_all(world);
}

/* One end closes: the other one learns it. */
static void order_close_first(struct world *world)
{
    world_close_link(world, 0);
}

static int is_second_down(struct world *world)
{
    return world->sides[1].down_count > 0;
}

static void test_close_tells_the_peer(void **state)
{
    struct world *world = world_of(state);
    world_do(world, order_open);
    set_load(world, 20, mostly_small);
    world_do(world, order_send);
    int waited = world_wait(world, is_all_delivered);
    check(world, waited);
    world_do(world, order_close_first);
    waited = world_wait(world, is_second_down);
    check(world, waited);
    assert_int_equal(world->sides[1].down_reason, SN_ECLOSED);
    close_all(world);
    check_counters(&world->sides[0]);
    check_counters(&world->sides[1]);
}

static uint32_t of_100(uint64_t sequence)
{
    (void)sequence; /* all alike */
    return 100;
}

/* The lane dies after `at` bytes of the stream. What arrived whole may be delivered; nothing else. */
static void cut_at(struct world *world, uint64_t at, uint32_t (*size_of)(uint64_t))
{
    world->cut_after = at; /* before the first byte flows */
    world_do(world, order_open);
    set_load(world, 60, size_of);
    world_do(world, order_send);
    int waited = world_wait(world, is_both_down);
    check(world, waited);
    close_all(world);
    for (unsigned i = 0; i < 2; i++) {
        const struct side *side = &world->sides[i];
        assert_int_equal(side->down_reason, SN_ERESET);
        assert_int_equal(side->last.received, side->last.nng_received);
        assert_int_equal(side->last.pump_in, side->last.nng_received);
        assert_int_equal(side->last.nng_sent, side->last.sent);
    }
}

static void test_cut_at_every_byte(void **state)
{
    struct world *world = world_of(state);
    for (uint64_t at = 0; at <= 40; at++) cut_at(world, at, of_100);
}

static void test_cut_anywhere(void **state)
{
    struct world *world = world_of(state);
    uint64_t random = 12345;
    for (unsigned i = 0; i < CUTS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        cut_at(world, (random >> 33) % (60u * 113u + 8u), of_100);
        cut_at(world, (random >> 33) % (4u * 1024u * 1024u), largest);
    }
}

/* --- Closing at any moment -------------------------------------------------------------------- */

/* Close is called before anything could be dialed. */
static void order_open_and_close(struct world *world)
{
    order_open(world);
    for (unsigned i = 0; i < 2; i++) {
        if (world->sides[i].link == NULL) continue;
        world_send(&world->sides[i]);
        world_close_link(world, i);
    }
}

static uint32_t of_20k(uint64_t sequence)
{
    (void)sequence; /* all alike */
    return 20000;
}

static void test_close_while_dialing(void **state)
{
    struct world *world = world_of(state);
    for (unsigned i = 0; i < 10; i++) {
        world_do(world, order_open_and_close);
        close_all(world);
    }
}

static void test_close_inside_callbacks(void **state)
{
    struct world *world = world_of(state);
    world_do(world, order_open);
    set_load(world, 100, of_20k);
    world->sides[0].close_in_parcel = 1;
    world->sides[1].close_in_down = 1;
    world_do(world, order_send);
    int waited = world_wait(world, world_both_closed);
    world_do(world, world_disconnect);
    check(world, waited);
}

static int is_loaded(struct world *world)
{
    for (unsigned i = 0; i < 2; i++) {
        if (world->sides[i].received[0] < 2 || world->sides[i].received[1] < 2) return 0;
    }
    return 1;
}

static void order_open_both_loaded(struct world *world)
{
    order_open(world);
    set_load(world, 1000000, of_20k);
    order_send(world);
}

static void order_kill_one_stream(struct world *world)
{
    world_kill_lane(world);
    world_close_link(world, 0);
}

/* A loaded session and one of the ways to end it. */
static void kill_session(struct world *world, unsigned way)
{
    world_do(world, order_open_both_loaded);
    int waited = 1;
    if (way % 5 != 0) waited = world_wait(world, is_loaded);
    check(world, waited);
    switch (way % 5) {
    case 0: /* at once, loaded or not */
    case 1: world_do(world, world_kill_lane); break;
    case 2: world_do(world, order_close_first); break;
    case 3: world_do(world, order_kill_one_stream); break;
    default: break; /* both are closed at the same moment */
    }
    close_all(world);
}

static void order_refresh(struct world *world)
{
    (void)sn_worker_refresh_now(world->worker);
}

/* The provider's own threads may still be closing what it has let go of. */
static int has_wanted_descriptors(struct world *world)
{
    struct sn_process_info info;
    sn_env_process_info(world->env, &info);
    return info.descriptors <= world->descriptors_wanted;
}

#define SLOW_THREADS 8 /* as env_posix.c has it; fewer than the SESSIONS that a leak would show */

static void test_killed_sessions_leave_nothing(void **state)
{
    struct world *world = world_of(state);
    struct sn_process_info before;
    struct sn_process_info after;
    for (unsigned i = 0; i < 10; i++) kill_session(world, i); /* nng starts its threads once */
    world_do(world, order_refresh);
    size_t in_use = sn_alloc_in_use();
    sn_env_process_info(world->env, &before);
    for (unsigned i = 0; i < SESSIONS; i++) kill_session(world, i);
    world->descriptors_wanted = before.descriptors;
    int waited = world_wait(world, has_wanted_descriptors);
    check(world, waited);
    sn_env_process_info(world->env, &after);
    /* The pool of slow jobs, where links close, has up to SLOW_THREADS that come and go. */
    assert_in_range(after.threads, 1, before.threads + SLOW_THREADS);
    assert_int_equal(sn_alloc_in_use(), in_use);
}

#define LINK_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int sn_link_suite_run(const struct sn_link_provider *provider)
{
    provider_of_suite = provider;
    const struct CMUnitTest tests[] = {
        LINK_TEST(test_idle_link_closes),
        LINK_TEST(test_sizes),
        LINK_TEST(test_small_window),
        LINK_TEST(test_ten_thousand_both_ways),
        LINK_TEST(test_refusals),
        LINK_TEST(test_open_failures),
        LINK_TEST(test_long_folder),
        LINK_TEST(test_back_pressure),
        LINK_TEST(test_close_when_full),
        LINK_TEST(test_garbage),
        LINK_TEST(test_reset_before_hello),
        LINK_TEST(test_end_before_hello),
        LINK_TEST(test_close_tells_the_peer),
        LINK_TEST(test_cut_at_every_byte),
        LINK_TEST(test_cut_anywhere),
        LINK_TEST(test_close_while_dialing),
        LINK_TEST(test_close_inside_callbacks),
        LINK_TEST(test_killed_sessions_leave_nothing),
    };
    return cmocka_run_group_tests_name(provider->name, tests, NULL, NULL);
}
