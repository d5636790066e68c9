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
#include "mesh/access.h"

static const char edge_roles[][SN_LABEL_BYTES_MAX + 1] = {"storage", "operator"};
static const struct sn_origin edge = {"amsterdam/edge", edge_roles, 2};
static const struct sn_origin hub = {"paris/hub", NULL, 0};

static int set_up(void **state)
{
    struct sn_access *access;
    if (sn_access_new(&access) != SN_OK) return -1;
    *state = access;
    return 0;
}

static int tear_down(void **state)
{
    sn_access_free(*state);
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

static void allow(struct sn_access *access, const char *actor, const char *types, const char *from)
{
    assert_int_equal(sn_access_allow(access, actor, types, from), SN_OK);
}

static void test_without_rules_only_ping_answers(void **state)
{
    struct sn_access *access = *state;
    assert_int_equal(sn_access_check(access, &edge, "echo", "echo.say"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &edge, "admin", "x"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &edge, "", ""), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &edge, "pingx", "x"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &edge, "pin", "x"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &edge, "ping", "ping.ask"), SN_OK);
    assert_int_equal(sn_access_check(access, &hub, "ping", "anything"), SN_OK);
}

/* Every kind of rule opens what it names and nothing beside it. */
static void test_each_kind_of_rule(void **state)
{
    (void)state;
    static const struct {
        const char *actor, *types, *from; /* the rule */
        const char *to, *type;            /* the message */
        int edge_may, hub_may;
    } cases[] = {
        {"echo", "echo.say", "amsterdam/edge", "echo", "echo.say", 1, 0},
        {"echo", "echo.say", "amsterdam/edge", "echo", "echo.say.it", 0, 0},
        {"echo", "echo.say", "amsterdam/edge", "echo", "echo", 0, 0},
        {"echo", "echo.say", "amsterdam/edge", "echo2", "echo.say", 0, 0},
        {"echo", "echo.say", "amsterdam/edge2", "echo", "echo.say", 0, 0},
        {"echo", "echo.*", "amsterdam/*", "echo", "echo.a.b", 1, 0},
        {"echo", "echo.*", "amsterdam/*", "echo", "echo", 0, 0},
        {"echo", "echo.*", "amsterdam/*", "echo", "echoes.x", 0, 0},
        {"echo", "*", "amster/*", "echo", "x", 0, 0},
        {"echo", "*", "*", "echo", "whatever", 1, 1},
        {"echo", "*", "*", "other", "whatever", 0, 0},
        {"echo", "*", "paris/*", "echo", "x", 0, 1},
        {"echo", "*", "role:operator", "echo", "x", 1, 0},
        {"echo", "x", "role:operator", "echo", "y", 0, 0},
        {"echo", "*", "role:oper", "echo", "x", 0, 0},
        {"echo", "*", "role:operators", "echo", "x", 0, 0},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        struct sn_access *access;
        assert_int_equal(sn_access_new(&access), SN_OK);
        allow(access, cases[i].actor, cases[i].types, cases[i].from);
        enum sn_err of_edge = sn_access_check(access, &edge, cases[i].to, cases[i].type);
        enum sn_err of_hub = sn_access_check(access, &hub, cases[i].to, cases[i].type);
        if ((of_edge == SN_OK) != cases[i].edge_may || (of_hub == SN_OK) != cases[i].hub_may) {
            fail_msg("case %zu: %s %s", i, sn_err_name(of_edge), sn_err_name(of_hub));
        }
        sn_access_free(access);
    }
}

static void test_any_of_several_rules(void **state)
{
    struct sn_access *access = *state;
    allow(access, "echo", "a", "paris/hub");
    allow(access, "echo", "b", "amsterdam/edge");
    allow(access, "store", "*", "role:storage");
    assert_int_equal(sn_access_check(access, &hub, "echo", "a"), SN_OK);
    assert_int_equal(sn_access_check(access, &hub, "echo", "b"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &edge, "echo", "a"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &edge, "echo", "b"), SN_OK);
    assert_int_equal(sn_access_check(access, &edge, "store", "put.now"), SN_OK);
    assert_int_equal(sn_access_check(access, &hub, "store", "put.now"), SN_EDENIED);
}

/* What serves the operator of an agent alone is not opened by any rule; `ping` is not closed by any. */
static void test_reserved_actors(void **state)
{
    struct sn_access *access = *state;
    allow(access, "control", "*", "*");
    allow(access, "control", "*", "role:operator");
    allow(access, "control", "*", "amsterdam/edge");
    allow(access, "control-room", "*", "*");
    allow(access, "ping", "ping.echo", "paris/hub");
    assert_int_equal(sn_access_check(access, &edge, "control", "status"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &hub, "control", "reload"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &edge, "control-room", "status"), SN_OK);
    assert_int_equal(sn_access_check(access, &edge, "ping", "ping.echo"), SN_OK);
}

/* A name never counts as a role, nor a role as a name. */
static void test_roles_and_names_do_not_mix(void **state)
{
    (void)state;
    static const char roles[][SN_LABEL_BYTES_MAX + 1] = {"amsterdam"};
    const struct sn_origin origin = {"operator/operator", roles, 1};
    assert_false(sn_origin_matches(&origin, "role:operator"));
    assert_false(sn_origin_matches(&origin, "amsterdam/*"));
    assert_true(sn_origin_matches(&origin, "role:amsterdam"));
    assert_true(sn_origin_matches(&origin, "operator/*"));
    assert_true(sn_origin_matches(&origin, "*"));
    assert_false(sn_origin_matches(&hub, "role:operator"));
}

static void test_malformed_rules(void **state)
{
    struct sn_access *access = *state;
    char longest[80];
    memset(longest, 'x', sizeof longest - 1);
    longest[64] = '\0';
    const struct {
        const char *actor, *types, *from;
    } bad[] = {{"", "*", "*"},          {"Echo", "*", "*"},      {"a.b", "*", "*"},
               {longest, "*", "*"},     {"echo", "", "*"},       {"echo", "**", "*"},
               {"echo", "a*", "*"},     {"echo", "*.a", "*"},    {"echo", longest, "*"},
               {"echo", "*", ""},       {"echo", "*", "paris"},  {"echo", "*", "*/hub"},
               {"echo", "*", "role:"},  {"echo", "*", "role:*"}, {"echo", "*", "role:a/b"},
               {"echo", "*", "Role:x"}, {"*", "*", "*"}};
    for (size_t i = 0; i < SN_ARRAY_COUNT(bad); i++) {
        assert_int_equal(sn_access_allow(access, bad[i].actor, bad[i].types, bad[i].from),
                         SN_EINVAL);
    }
    assert_int_equal(sn_access_check(access, &edge, "echo", "x"), SN_EDENIED);
    longest[63] = '\0';
    allow(access, longest, longest, "*");
    char role[96];
    (void)snprintf(role, sizeof role, "role:%s", longest);
    allow(access, longest, longest, role);
    assert_int_equal(sn_access_check(access, &edge, longest, longest), SN_OK);
}

static void test_bound(void **state)
{
    struct sn_access *access = *state;
    for (unsigned i = 0; i < 4096; i++) allow(access, "echo", "a", "paris/hub");
    assert_int_equal(sn_access_allow(access, "echo", "b", "*"), SN_EFULL);
    assert_int_equal(sn_access_check(access, &edge, "echo", "b"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &hub, "echo", "a"), SN_OK);
}

static enum sn_err build(void)
{
    struct sn_access *access;
    enum sn_err err = sn_access_new(&access);
    if (err != SN_OK) return err;
    err = sn_access_allow(access, "echo", "*", "paris/*");
    if (err == SN_OK) err = sn_access_allow(access, "store", "*", "role:storage");
    /* A rule that was not made opens nothing. */
    if (err != SN_OK) {
        assert_int_equal(sn_access_check(access, &edge, "store", "x"), SN_EDENIED);
    }
    sn_access_free(access);
    return err;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    enum sn_err err = SN_ENOMEM;
    unsigned nth = 0;
    while (err != SN_OK) {
        sn_alloc_fail_nth(++nth);
        err = build();
        sn_alloc_fail_nth(0);
        assert_true(err == SN_OK || err == SN_ENOMEM);
        assert_int_equal(sn_alloc_in_use(), 0);
    }
    assert_int_equal(nth, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_rules_only_ping_answers, set_up, tear_down),
        cmocka_unit_test(test_each_kind_of_rule),
        cmocka_unit_test_setup_teardown(test_any_of_several_rules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reserved_actors, set_up, tear_down),
        cmocka_unit_test(test_roles_and_names_do_not_mix),
        cmocka_unit_test_setup_teardown(test_malformed_rules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bound, set_up, tear_down),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
