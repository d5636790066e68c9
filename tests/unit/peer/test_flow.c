/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of actors: every way in which one comes to be and ends, told exactly once. */
#include "flow_rig.h"

/* --- Opening ----------------------------------------------------------------------------------------------- */

static void test_life(void **state)
{
    struct rig *rig = *state;
    uint64_t stream = rig_open(rig, 5000, 77);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    assert_string_equal(asked.agent, FAR_PEER);
    assert_int_equal(asked.event.payload_size, 4);
    assert_memory_equal(asked.payload, "meta", 4);
    assert_int_not_equal(asked.event.stream.id, stream);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_UP), 0);
    rig_accept(rig, asked.event.stream.id, 88);
    struct rig_event up = rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    assert_int_equal(up.event.stream.id, stream);
    assert_int_equal(up.event.token, 77);
    assert_int_equal(rig_flows(rig), 2);
    rig_reset(rig, NEAR, stream, SN_EDENIED);
    struct rig_event down = rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.stream.id, stream);
    assert_int_equal(down.event.token, 77);
    assert_int_equal(down.event.err, SN_EDENIED);
    down = rig_wait(rig, FAR, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.stream.id, asked.event.stream.id);
    assert_int_equal(down.event.token, 88);
    assert_int_equal(down.event.err, SN_EDENIED);
    rig_quiet(rig);
    rig_reset(rig, NEAR, stream, SN_EDENIED); /* gone: nothing happens */
    rig_quiet(rig);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_DOWN), 0);
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_DOWN), 0);
}

static void test_refused_by_actor(void **state)
{
    struct rig *rig = *state;
    uint64_t stream = rig_open(rig, 5000, 1);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_reset(rig, FAR, asked.event.stream.id, SN_EUNREACHABLE);
    struct rig_event down = rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.stream.id, stream);
    assert_int_equal(down.event.err, SN_EUNREACHABLE);
    down = rig_wait(rig, FAR, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.err, SN_EUNREACHABLE);
    rig_quiet(rig);
}

static enum sn_err expect_open(struct sn_ctx *ctx, const char *agent, const char *service,
                               uint32_t meta_size)
{
    static const uint8_t meta[SN_STREAM_META_BYTES_MAX + 1];
    struct sn_stream_ref stream = {0};
    return sn_net_ctx_stream_open(ctx, agent, service, meta, meta_size, 1000, 5, &stream);
}

static enum sn_err bad_opens(struct sn_ctx *ctx, void *arg)
{
    int *bad = arg;
    char service[SN_SERVICE_BYTES_MAX + 2];
    memset(service, 'x', sizeof service - 1);
    service[sizeof service - 1] = '\0';
    *bad += expect_open(ctx, "site/nobody", SERVICE, 0) != SN_ENOENT;
    *bad += expect_open(ctx, "site/self", SERVICE, 0) != SN_ENOENT;
    *bad += expect_open(ctx, NEAR_PEER, "", 0) != SN_EINVAL;
    *bad += expect_open(ctx, NEAR_PEER, SNI_LINK_SERVICE, 0) != SN_EINVAL;
    *bad += expect_open(ctx, NEAR_PEER, service, 0) != SN_ETOOBIG;
    *bad += expect_open(ctx, NEAR_PEER, SERVICE, SN_STREAM_META_BYTES_MAX + 1) != SN_ETOOBIG;
    return SN_OK;
}

static void test_bad_opens(void **state)
{
    struct rig *rig = *state;
    int bad = 0;
    assert_ok(rig_call(rig, NEAR, bad_opens, &bad));
    assert_int_equal(bad, 0);
    assert_int_equal(rig_flows(rig), 0);
}

static enum sn_err open_other(struct sn_ctx *ctx, void *arg)
{
    struct sn_stream_ref stream = {0};
    (void)arg;
    return sn_net_ctx_stream_open(ctx, NEAR_PEER, "nothing", NULL, 0, 5000, 9, &stream);
}

static void test_no_service(void **state)
{
    struct rig *rig = *state;
    assert_ok(rig_call(rig, NEAR, open_other, NULL));
    struct rig_event down = rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.err, SN_ENOENT);
    assert_int_equal(down.event.token, 9);
    rig_quiet(rig);
}

/* The opener on another worker than the peer's. */
static void test_open_across_workers(void **state)
{
    struct rig *rig = *state;
    assert_ok(rig_call(rig, FAR, open_other, NULL));
    struct rig_event down = rig_wait(rig, FAR, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.err, SN_ENOENT);
    rig_quiet(rig);
}

static enum sn_err open_and_reset(struct sn_ctx *ctx, void *arg)
{
    struct sn_stream_ref stream = {0};
    (void)arg;
    enum sn_err err = sn_net_ctx_stream_open(ctx, NEAR_PEER, SERVICE, NULL, 0, 5000, 9, &stream);
    if (err == SN_OK) sn_net_ctx_stream_reset(ctx, stream, SN_OK);
    return err;
}

/* A reset in the same handler call finds the stream, wherever it lives. */
static void test_reset_at_once(void **state)
{
    struct rig *rig = *state;
    for (unsigned actor = NEAR; actor <= FAR; actor++) {
        assert_ok(rig_call(rig, actor, open_and_reset, NULL));
        struct rig_event down = rig_wait(rig, actor, SN_EVENT_STREAM_DOWN);
        assert_int_equal(down.event.err, SN_ERESET);
    }
    rig_quiet(rig);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_DOWN), 0);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_UP), 0);
}

static void test_timeouts(void **state)
{
    struct rig *rig = *state;
    (void)rig_open(rig, 30, 1); /* nobody accepts */
    (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN).event.err, SN_ETIMEDOUT);
    assert_int_equal(rig_wait(rig, FAR, SN_EVENT_STREAM_DOWN).event.err, SN_ETIMEDOUT);
    rig_quiet(rig);
    rig_lane_down(rig);
    (void)rig_open(rig, 30, 2); /* no session */
    struct rig_event down = rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN);
    assert_int_equal(down.event.err, SN_ETIMEDOUT);
    assert_int_equal(down.event.token, 2);
    rig_quiet(rig);
    rig_lane_up(rig);
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_ASKED), 0);
}

static void test_accepted_stays(void **state)
{
    struct rig *rig = *state;
    (void)rig_open(rig, 40, 1);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_accept(rig, asked.event.stream.id, 2);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    for (unsigned i = 0; i < 300; i++) rig_nap(); /* past the time-out of opening */
    assert_int_equal(rig_flows(rig), 2);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_DOWN), 0);
}

static void test_session_comes_late(void **state)
{
    struct rig *rig = *state;
    rig_lane_down(rig);
    uint64_t stream = rig_open(rig, 5000, 1);
    assert_int_equal(rig_flows(rig), 1);
    rig_lane_up(rig);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    assert_memory_equal(asked.payload, "meta", 4);
    rig_accept(rig, asked.event.stream.id, 2);
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_UP).event.stream.id, stream);
}

static void test_session_goes(void **state)
{
    struct rig *rig = *state;
    (void)rig_open(rig, 5000, 1);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_accept(rig, asked.event.stream.id, 2);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    (void)rig_open(rig, 5000, 3);
    asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_lane_down(rig);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN).event.err, SN_ERESET);
        assert_int_equal(rig_wait(rig, FAR, SN_EVENT_STREAM_DOWN).event.err, SN_ERESET);
    }
    rig_quiet(rig);
    rig_accept(rig, asked.event.stream.id, 4); /* too late, harmless */
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_DOWN), 0);
}

/* --- Failing actors ------------------------------------------------------------------------------------------ */

static void test_opener_fails(void **state)
{
    struct rig *rig = *state;
    (void)rig_open(rig, 5000, 1);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_accept(rig, asked.event.stream.id, 2);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    (void)rig_open(rig, 5000, 3);
    rig_fail(rig, NEAR);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rig_wait(rig, FAR, SN_EVENT_STREAM_DOWN).event.err, SN_ECANCELLED);
    }
    rig_quiet(rig);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_DOWN), 0);
    (void)rig_open(rig, 5000, 4); /* the next life */
    asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_accept(rig, asked.event.stream.id, 5);
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_UP).event.token, 4);
}

static void test_acceptor_fails(void **state)
{
    struct rig *rig = *state;
    (void)rig_open(rig, 5000, 1);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_accept(rig, asked.event.stream.id, 2);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    rig_fail(rig, FAR);
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN).event.err, SN_ECANCELLED);
    rig_quiet(rig);
    rig_accept(rig, asked.event.stream.id, 2); /* of its former life */
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_DOWN), 0);
    (void)rig_open(rig, 5000, 3); /* its next life serves again */
    asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_accept(rig, asked.event.stream.id, 4);
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_UP).event.token, 3);
}

/* The stream comes while the acceptor waits for its restart. */
static void test_acceptor_is_down(void **state)
{
    struct rig *rig = *state;
    rig_break(rig, FAR);
    (void)rig_open(rig, 5000, 1);
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN).event.err, SN_ENOENT);
    (void)rig_wait(rig, FAR, SN_EVENT_START);
    rig_quiet(rig);
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_ASKED), 0);
    assert_int_equal(rig_count(rig, FAR, SN_EVENT_STREAM_DOWN), 0);
}

/* --- Rights and limits ------------------------------------------------------------------------------------------- */

static enum sn_err bad_refs(struct sn_ctx *ctx, void *arg)
{
    uint64_t other = *(uint64_t *)arg;
    struct sn_conn_ref conn = {1};
    int bad = 0;
    bad += sn_net_ctx_stream_accept(ctx, (struct sn_stream_ref){0}, 1) != SN_EINVAL;
    bad += sn_net_ctx_stream_accept(ctx, (struct sn_stream_ref){~UINT64_C(0)}, 1) != SN_EINVAL;
    bad += sn_net_ctx_stream_splice(ctx, (struct sn_stream_ref){0}, conn) != SN_EINVAL;
    bad += sn_net_ctx_stream_splice(ctx, (struct sn_stream_ref){other}, conn) != SN_ENOENT;
    bad += sn_net_ctx_stream_accept(ctx, (struct sn_stream_ref){other}, 1) != SN_OK;
    sn_net_ctx_stream_reset(ctx, (struct sn_stream_ref){other}, SN_EIO);
    sn_net_ctx_stream_reset(ctx, (struct sn_stream_ref){~UINT64_C(0)}, SN_EIO);
    sn_net_ctx_conn_close(ctx, conn, 0);
    return bad == 0 ? SN_OK : SN_EINVAL;
}

/* Streams belong to the actor that opened or was asked. */
static void test_foreign_refs(void **state)
{
    struct rig *rig = *state;
    uint64_t stream = rig_open(rig, 5000, 1);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    assert_ok(rig_call(rig, FAR, bad_refs, &stream));
    assert_ok(rig_call(rig, NEAR, bad_refs, &asked.event.stream.id));
    assert_int_equal(rig_flows(rig), 2);
    assert_int_equal(rig_count(rig, NEAR, SN_EVENT_STREAM_UP), 0);
    rig_accept(rig, asked.event.stream.id, 2);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
}

static void test_draining(void **state)
{
    struct rig *rig = *state;
    atomic_store(&rig->net.is_draining, 1);
    (void)rig_open(rig, 5000, 1); /* what came before may still go out; nothing comes in */
    assert_int_equal(rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN).event.err, SN_ECANCELLED);
    atomic_store(&rig->net.is_draining, 2);
    assert_int_equal(rig_call(rig, NEAR, open_other, NULL), SN_ECANCELLED);
    rig_quiet(rig);
}

struct match {
    const char *agent;
    const char *pattern;
    int result;
};

static enum sn_err do_match(struct sn_ctx *ctx, void *arg)
{
    struct match *match = arg;
    match->result = sn_net_ctx_agent_matches(ctx, match->agent, match->pattern);
    return SN_OK;
}

static int matches(struct rig *rig, unsigned actor, const char *agent, const char *pattern)
{
    struct match match = {agent, pattern, -1};
    assert_ok(rig_call(rig, actor, do_match, &match));
    return match.result;
}

static void set_role(struct rig *rig, void *arg)
{
    struct sn_cert *cert = &rig->peers[1].cert;
    cert->role_count = arg == NULL ? 0 : 1;
    if (arg != NULL) memcpy(cert->roles[0], arg, strlen(arg) + 1);
}

static void test_matches(void **state)
{
    struct rig *rig = *state;
    char backup[] = "backup";
    char other[] = "other";
    assert_true(matches(rig, FAR, FAR_PEER, FAR_PEER));
    assert_true(matches(rig, FAR, FAR_PEER, "site/*"));
    assert_true(matches(rig, FAR, FAR_PEER, "*"));
    assert_false(matches(rig, FAR, FAR_PEER, "elsewhere/*"));
    assert_true(matches(rig, FAR, "", "site/self"));
    assert_false(matches(rig, FAR, FAR_PEER, "role:backup"));
    char *roles[] = {backup, other, NULL};
    for (unsigned i = 0; i < SN_ARRAY_COUNT(roles); i++) {
        rig_on_worker(rig, 0, set_role, roles[i]);
        uint64_t stream = rig_open(rig, 5000, 1);
        (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
        assert_int_equal(matches(rig, FAR, FAR_PEER, "role:backup"), i == 0);
        assert_int_equal(matches(rig, FAR, FAR_PEER, "role:other"), i == 1);
        assert_false(matches(rig, FAR, NEAR_PEER, "role:backup"));
        assert_false(matches(rig, NEAR, FAR_PEER, "role:backup")); /* nothing came to that worker */
        rig_reset(rig, NEAR, stream, SN_ERESET);
    }
    rig_on_worker(rig, 0, set_role, backup);
    (void)rig_open(rig, 5000, 1); /* what is left is freed with the net */
    (void)rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
}

/* --- Views -------------------------------------------------------------------------------------------------------- */

struct view {
    uint32_t count;
    struct sn_flow_info infos[4];
};

static void on_visit(void *arg, const struct sn_flow_info *info)
{
    struct view *view = arg;
    if (view->count < 4) view->infos[view->count] = *info;
    view->count++;
}

static void visit(struct rig *rig, void *arg)
{
    sni_flows_visit(&rig->net.hubs[0], on_visit, arg);
}

static void test_visit(void **state)
{
    struct rig *rig = *state;
    struct view view = {0};
    rig_lane_down(rig);
    uint64_t stream = rig_open(rig, 5000, 1);
    rig_on_worker(rig, 0, visit, &view);
    assert_int_equal(view.count, 1);
    assert_int_equal(view.infos[0].id, stream);
    assert_string_equal(view.infos[0].agent, NEAR_PEER);
    assert_string_equal(view.infos[0].service, SERVICE);
    assert_string_equal(view.infos[0].owner, "near");
    assert_int_equal(view.infos[0].is_local, 1);
    assert_int_equal(view.infos[0].is_accepted, 0);
    rig_lane_up(rig);
    struct rig_event asked = rig_wait(rig, FAR, SN_EVENT_STREAM_ASKED);
    rig_accept(rig, asked.event.stream.id, 1);
    (void)rig_wait(rig, NEAR, SN_EVENT_STREAM_UP);
    view = (struct view){0};
    rig_on_worker(rig, 0, visit, &view);
    assert_int_equal(view.count, 2);
    assert_int_equal(view.infos[0].is_local + view.infos[1].is_local, 1);
    assert_int_equal(view.infos[0].is_accepted + view.infos[1].is_accepted, 2);
}

/* --- Failing allocations ---------------------------------------------------------------------- */

struct attempt {
    uint32_t nth;
    uint64_t stream;
};

static enum sn_err try_open(struct sn_ctx *ctx, void *arg)
{
    struct attempt *attempt = arg;
    struct sn_stream_ref stream = {0};
    sn_alloc_fail_nth(attempt->nth);
    enum sn_err err = sn_net_ctx_stream_open(ctx, NEAR_PEER, SERVICE, "meta", 4, 5000, 3, &stream);
    sn_alloc_fail_nth(0);
    attempt->stream = stream.id;
    return err;
}

/* An open that fails leaves nothing; one that was taken and could not go on ends in STREAM_DOWN. */
static void test_open_without_memory(void **state)
{
    struct rig *rig = *state;
    uint32_t refused = 0;
    uint32_t ended = 0;
    for (uint32_t nth = 1;; nth++) {
        struct attempt attempt = {.nth = nth};
        assert_in_range(nth, 1, 100);
        enum sn_err err = rig_call(rig, NEAR, try_open, &attempt);
        if (err != SN_OK) {
            assert_int_equal(err, SN_ENOMEM);
            assert_int_equal(attempt.stream, 0);
            assert_int_equal(rig_flows(rig), 0);
            refused++;
            continue;
        }
        assert_int_not_equal(attempt.stream, 0);
        struct rig_event event = {0};
        while (rig_count(rig, NEAR, SN_EVENT_STREAM_DOWN) == 0 &&
               rig_count(rig, FAR, SN_EVENT_STREAM_ASKED) == 0) {
            rig_nap();
        }
        if (rig_count(rig, FAR, SN_EVENT_STREAM_ASKED) > 0) break;
        event = rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN);
        assert_int_equal(event.event.err, SN_ENOMEM);
        assert_int_equal(event.event.stream.id, attempt.stream);
        rig_quiet(rig);
        ended++;
    }
    assert_in_range(refused, 3, 20);
    assert_in_range(ended, 1, 20);
}

/* Without memory the peer is refused, and hears why. */
static void test_asked_without_memory(void **state)
{
    struct rig *rig = *state;
    uint32_t refused = 0;
    for (uint32_t nth = 1;; nth++) {
        assert_in_range(nth, 1, 100);
        rig->fail_asked_nth = nth;
        uint64_t stream = rig_open(rig, 5000, 1);
        while (rig_count(rig, NEAR, SN_EVENT_STREAM_DOWN) == 0 &&
               rig_count(rig, FAR, SN_EVENT_STREAM_ASKED) == 0) {
            rig_nap();
        }
        if (rig_count(rig, FAR, SN_EVENT_STREAM_ASKED) > 0) break;
        struct rig_event down = rig_wait(rig, NEAR, SN_EVENT_STREAM_DOWN);
        assert_int_equal(down.event.stream.id, stream);
        assert_int_equal(down.event.err, SN_ENOMEM);
        rig_quiet(rig);
        refused++;
    }
    rig->fail_asked_nth = 0;
    assert_in_range(refused, 4, 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_life),
        TEST(test_refused_by_actor),
        TEST(test_bad_opens),
        TEST(test_no_service),
        TEST(test_open_across_workers),
        TEST(test_reset_at_once),
        TEST(test_timeouts),
        TEST(test_accepted_stays),
        TEST(test_session_comes_late),
        TEST(test_session_goes),
        TEST(test_opener_fails),
        TEST(test_acceptor_fails),
        TEST(test_acceptor_is_down),
        TEST(test_foreign_refs),
        TEST(test_draining),
        TEST(test_matches),
        TEST(test_visit),
        TEST(test_open_without_memory),
        TEST(test_asked_without_memory),
    };
    return cmocka_run_group_tests_name("peer/flow", tests, NULL, NULL);
}
