/* SPDX-License-Identifier: Apache-2.0 */
/* A rendered file must mean what the fleet says, whatever valid values stand in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "config/render.h"
#include "config/starter.h"
#include "unit/config/support.h"

static struct sn_fleet *parse_fleet(const char *text)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_fleet *fleet = NULL;
    enum sn_err err = sn_fleet_parse(text, strlen(text), "f", &findings, &fleet);
    char *found = findings_text(&findings);
    assert_string_equal(found, "");
    assert_int_equal(err, SN_OK);
    free(found);
    sn_findings_fini(&findings);
    return fleet;
}

static struct sn_agent_file *parse_agent(const char *text)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_agent_file *agent = NULL;
    enum sn_err err = sn_agent_file_parse(text, strlen(text), "a", &findings, &agent);
    char *found = findings_text(&findings);
    if (found[0] != '\0') print_error("%s", text);
    assert_string_equal(found, "");
    assert_int_equal(err, SN_OK);
    free(found);
    sn_findings_fini(&findings);
    return agent;
}

static char *render_agent(const struct sn_fleet *fleet, const char *name, const char *const *keys)
{
    static const char *const authorities[] = {KEY_A, KEY_B};
    const struct sn_render render = {.fleet = fleet,
                                     .agent = sn_fleet_find_agent(fleet, name),
                                     .authorities = authorities,
                                     .authority_count = 2,
                                     .keys = keys};
    char *text = NULL;
    assert_int_equal(sn_fleet_render(&render, &text), SN_OK);
    return text;
}

static const char expected_hub[] =
    "# Agent paris/hub of mesh demo, rendered from the fleet file.\n"
    "# Changes made here are lost: change the fleet and run `sennit render` again.\n"
    "mesh: \"demo\"\n"
    "agent: \"paris/hub\"\n"
    "authority:\n"
    "  - \"" KEY_A "\"\n"
    "  - \"" KEY_B "\"\n"
    "certificate: \"agent.cert\"\n"
    "key: \"node.key\"\n"
    "data: \"data\"\n"
    "run: \"run\"\n"
    "listen:\n"
    "  - \"tls://127.0.0.1:7400\"\n"
    "access:\n"
    "  - to: \"echo\"\n"
    "    types:\n"
    "      - \"echo.*\"\n"
    "    from:\n"
    "      - \"amsterdam/*\"\n"
    "plugins:\n"
    "  - name: \"tunnel\"\n"
    "    config:\n"
    "      targets:\n"
    "        web:\n"
    "          address: \"127.0.0.1:8000\"\n"
    "          allow:\n"
    "            - \"amsterdam/*\"\n"
    "          connect_wait_ms: 10000\n"
    "  - name: \"storage\"\n"
    "    config:\n"
    "      path: \"store\"\n";

static void the_text_is_as_documented(void **state)
{
    (void)state;
    struct sn_fleet *fleet = parse_fleet(fleet_text);
    char *text = render_agent(fleet, "paris/hub", NULL);
    assert_string_equal(text, expected_hub);
    sn_strfree(text);
    sn_fleet_free(fleet);
}

static void an_edge_knows_its_links_and_forwards(void **state)
{
    (void)state;
    struct sn_fleet *fleet = parse_fleet(fleet_text);
    const char *const keys[] = {KEY_B, NULL, KEY_A};
    char *text = render_agent(fleet, "amsterdam/edge", keys);
    struct sn_agent_file *agent = parse_agent(text);
    assert_string_equal(agent->agent, "amsterdam/edge");
    assert_int_equal(agent->link_count, 1);
    assert_string_equal(agent->links[0].to, "paris/hub");
    assert_string_equal(agent->links[0].key, KEY_B);
    assert_int_equal(sn_config_count(agent->authority), 2);
    assert_int_equal(agent->access_count, 0);
    assert_int_equal(agent->plugin_count, 1);
    const struct sn_config_node *config = agent->plugins[0].config;
    assert_null(sn_config_get(config, "targets"));
    const struct sn_config_node *web = sn_config_get(sn_config_get(config, "forwards"), "web");
    assert_string_equal(sn_config_text(sn_config_get(web, "listen"), ""), "127.0.0.1:8080");
    assert_string_equal(sn_config_text(sn_config_get(web, "to"), ""), "paris/hub");
    assert_string_equal(sn_config_text(sn_config_get(web, "target"), ""), "web");
    assert_int_equal(sn_config_int(sn_config_get(web, "open_wait_ms"), 0), 15000);
    sn_agent_file_free(agent);
    sn_strfree(text);
    text = render_agent(fleet, "amsterdam/edge", NULL); /* no key known: the authority vouches */
    agent = parse_agent(text);
    assert_null(agent->links[0].key);
    sn_agent_file_free(agent);
    sn_strfree(text);
    text = render_agent(fleet, "paris/spare", NULL); /* an agent without links */
    agent = parse_agent(text);
    assert_int_equal(agent->link_count + agent->access_count, 0);
    assert_int_equal(agent->plugin_count, 1);
    sn_agent_file_free(agent);
    sn_strfree(text);
    sn_fleet_free(fleet);
}

/* Names that YAML takes for numbers or truth values, and a plugin's part with every kind of value.
 */
static const char odd_fleet[] =
    "mesh: \"1e3\"\n"
    "authority: \"a: b # c.key\"\n"
    "sites:\n"
    "  no:\n"
    "    \"0777\": {listen: \"tls://[::1]:7400\", key: " KEY_B ", roles: [\"on\", \"1\"]}\n"
    "  \"7\":\n"
    "    yes:\n"
    "      links: [{to: no/0777, address: [\"[::1]:1\", x.example:2]}]\n"
    "      settings: {log: {level: error, format: json}, workers: 9, accept: {timeout_ms: 700}}\n"
    "targets:\n"
    "  \"true\": {at: no/0777, address: \"[::1]:8000\", allow: \"*\", connect_wait_ms: 0}\n"
    "forwards:\n"
    "  null: {at: 7/yes, listen: \"[::]:0\", target: \"true\"}\n"
    "access:\n"
    "  - {to: \"no/0777:no\", types: \"*\", from: [7/yes, \"*\"]}\n"
    "plugins:\n"
    "  - name: \"3\"\n"
    "    at: \"*\"\n"
    "    config:\n"
    "      text: plain, [with] {odd} chars\n"
    "      quoted: \"a\\\"b\\\\c\\n\\t\\x1b\\x7f\\u0085\\u2028\\ufeff\\uffff \xe2\x82\xac "
    "\xf0\x9f\x98\x80\"\n"
    "      \"odd key: #\": ' lead and trail '\n"
    "      \"\\u2029\": \"# no comment\"\n"
    "      block: |\n"
    "        one\n"
    "        two\n"
    "      typed: [1, -2, 1.5, 1e3, 0777, 1:30, true, yes, ~, null, .inf, \"1\", \"true\", \"\"]\n"
    "      nothing:\n"
    "      empty: {a: {}, b: []}\n"
    "      deep: [[1, [2, {x: [{y: z}]}]], {k: [a]}]\n"
    "  - {name: bare, at: [\"no/*\"]}\n"
    "  - {name: scalar, at: no/0777, config: 12}\n"
    "  - {name: list, at: no/0777, config: [a, \"2\"]}\n";

static void expect_same_tree(const char *name, const struct sn_fleet *fleet,
                             const struct sn_agent_file *agent)
{
    char *whole = fleet_dump(fleet);
    char *part = agent_dump(agent);
    char head[64];
    (void)snprintf(head, sizeof head, "plugin %s", name); /* fits */
    char *from = strstr(whole, head);
    char *to = strstr(part, head);
    assert_non_null(from);
    assert_non_null(to);
    from = strchr(from, ')') + 1; /* behind the list of agents */
    to += strlen(head);
    *strstr(from, "\nplugin") = '\0'; /* another one follows each */
    *strstr(to, "\nplugin") = '\0';
    assert_string_equal(from, to);
    free(whole);
    free(part);
}

/* Limits that the fleet does not mention are left to the plugin's defaults. */
static void limits_go_where_they_belong(void **state)
{
    (void)state;
    char *more = edit(fleet_text, "    connect_wait_ms: 10000\n",
                      "    connect_wait_ms: 10000\n    max_connections: 7\n"
                      "    max_per_agent: 65536\n    idle_ms: 604800000\n");
    char *text = edit(more, "    target: web\n",
                      "    target: web\n    max_connections: 1\n    idle_ms: 0\n");
    struct sn_fleet *fleet = parse_fleet(text);
    char *hub = render_agent(fleet, "paris/hub", NULL);
    assert_non_null(strstr(hub, "          connect_wait_ms: 10000\n"
                                "          max_connections: 7\n"
                                "          max_per_agent: 65536\n"
                                "          idle_ms: 604800000\n"));
    char *edge = render_agent(fleet, "amsterdam/edge", NULL);
    assert_non_null(strstr(edge, "          open_wait_ms: 15000\n"
                                 "          max_connections: 1\n"
                                 "          idle_ms: 0\n"));
    sn_strfree(edge);
    sn_strfree(hub);
    sn_fleet_free(fleet);
    free(text);
    free(more);
}

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Which file a plugin is goes along, that of tunnels too, and only where there are some. */
static void files_of_plugins_go_along(void **state)
{
    (void)state;
    char *text = edit(fleet_text, "    config: {path: store}\n",
                      "    config: {path: store}\n"
                      "    path: \"lib/storage.so\"\n    sha256: \"" DIGEST "\"\n"
                      "  - {name: tunnel, at: \"*\", sha256: [\"" DIGEST "\"]}\n");
    char *listed = edit(text, "  drain_ms: 5000\n", "  plugins_allow: listed\n");
    struct sn_fleet *fleet = parse_fleet(listed);
    char *hub = render_agent(fleet, "paris/hub", NULL);
    assert_non_null(strstr(hub, "plugins:\n"
                                "  - name: \"tunnel\"\n"
                                "    sha256:\n"
                                "      - \"" DIGEST "\"\n"
                                "    config:\n"));
    assert_non_null(strstr(hub, "  - name: \"storage\"\n"
                                "    path: \"lib/storage.so\"\n"
                                "    sha256:\n"
                                "      - \"" DIGEST "\"\n"
                                "    config:\n"));
    assert_non_null(strstr(hub, "\nplugins_allow: listed\n"));
    struct sn_agent_file *agent = parse_agent(hub);
    assert_int_equal(agent->plugin_count, 2);
    assert_null(agent->plugins[0].path);
    assert_string_equal(agent->plugins[1].path, "lib/storage.so");
    assert_string_equal(sn_config_text(sn_config_at(agent->plugins[1].sha256, 0), ""), DIGEST);
    assert_string_equal(agent->settings.plugins_allow, "listed");
    sn_agent_file_free(agent);
    sn_strfree(hub);
    sn_fleet_free(fleet);
    free(listed);
    free(text);
}

static void any_valid_value_survives(void **state)
{
    (void)state;
    struct sn_fleet *fleet = parse_fleet(odd_fleet);
    char *text = render_agent(fleet, "no/0777", NULL);
    struct sn_agent_file *agent = parse_agent(text);
    assert_string_equal(agent->mesh, "1e3");
    assert_string_equal(agent->access[0].actor, "no");
    assert_int_equal(agent->plugin_count, 5);
    const struct sn_config_node *target =
        sn_config_get(sn_config_get(agent->plugins[0].config, "targets"), "true");
    assert_int_equal(sn_config_int(sn_config_get(target, "connect_wait_ms"), 1), 0);
    expect_same_tree("3", fleet, agent);
    assert_null(agent->plugins[2].config);
    assert_int_equal(sn_config_int(agent->plugins[3].config, 0), 12);
    assert_string_equal(sn_config_text(sn_config_at(agent->plugins[4].config, 1), ""), "2");
    sn_agent_file_free(agent);
    sn_strfree(text);
    text = render_agent(fleet, "7/yes", NULL);
    agent = parse_agent(text);
    assert_string_equal(agent->links[0].key, KEY_B); /* the fleet gives it */
    assert_string_equal(sn_config_text(sn_config_at(agent->links[0].address, 1), ""),
                        "x.example:2");
    assert_string_equal(agent->settings.log_level, "error");
    assert_string_equal(agent->settings.log_format, "json");
    assert_int_equal(agent->settings.workers, 9);
    assert_int_equal(agent->settings.accept_timeout_ms, 700);
    assert_int_equal(agent->settings.drain_ms, 5000);
    assert_non_null(strstr(text, "log:\n  level: error\n  format: json\nworkers: 9\n"
                                 "accept:\n  timeout_ms: 700\n"));
    sn_agent_file_free(agent);
    sn_strfree(text);
    sn_fleet_free(fleet);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void rendering_twice_gives_the_same(void **state)
{
    (void)state;
    struct sn_fleet *fleet = parse_fleet(odd_fleet);
    char *first = render_agent(fleet, "no/0777", NULL);
    char *second = render_agent(fleet, "no/0777", NULL);
    assert_string_equal(first, second);
    sn_strfree(first);
    sn_strfree(second);
    sn_fleet_free(fleet);
}

static void the_starter_is_the_example(void **state)
{
    (void)state;
    char *example = read_example("two-sites.yaml");
    char *starter = NULL;
    assert_int_equal(sn_fleet_starter("demo", &starter), SN_OK);
    assert_string_equal(starter, strchr(example, '\n') + 1); /* all but the licence line */
    sn_strfree(starter);
    free(example);
    static const char *const names[] = {"demo", "no", "1e3", "0777", "true", "a-b"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(names); i++) {
        assert_int_equal(sn_fleet_starter(names[i], &starter), SN_OK);
        struct sn_fleet *fleet = parse_fleet(starter);
        assert_string_equal(fleet->mesh, names[i]);
        sn_fleet_free(fleet);
        sn_strfree(starter);
    }
    static const char *const bad[] = {"", "Demo", "a b", "-a", "a: b"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(bad); i++) {
        assert_int_equal(sn_fleet_starter(bad[i], &starter), SN_EINVAL);
    }
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    struct sn_fleet *fleet = parse_fleet(odd_fleet);
    size_t in_use = sn_alloc_in_use();
    const char *authority = KEY_A;
    const struct sn_render render = {
        .fleet = fleet, .agent = 0, .authorities = &authority, .authority_count = 1};
    enum sn_err err = SN_ENOMEM;
    uint64_t nth = 1;
    for (; err == SN_ENOMEM; nth++) {
        char *text = NULL;
        sn_alloc_fail_nth(nth);
        err = sn_fleet_render(&render, &text);
        sn_alloc_fail_nth(0);
        assert_int_equal(err == SN_OK, text != NULL);
        sn_strfree(text);
        assert_int_equal(sn_alloc_in_use(), in_use);
    }
    assert_int_equal(err, SN_OK);
    assert_true(nth > 3);
    sn_fleet_free(fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_as_documented),
        cmocka_unit_test(an_edge_knows_its_links_and_forwards),
        cmocka_unit_test(limits_go_where_they_belong),
        cmocka_unit_test(files_of_plugins_go_along),
        cmocka_unit_test(any_valid_value_survives),
        cmocka_unit_test(rendering_twice_gives_the_same),
        cmocka_unit_test(the_starter_is_the_example),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
