/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "config/tree.h"
#include "unit/config/support.h"

static const struct edit_case cases[] = {
    {"agent: amsterdam/edge", "agent: edge",
     "a:2:8: agent: expected an agent as site/agent, found `edge`\n"},
    {"agent: amsterdam/edge", "agnt: amsterdam/edge",
     "a:1:1: agent: required key `agent` is missing: Name of this agent.\n"
     "a:2:1: agnt: unknown key `agnt`; did you mean `agent`?\n"},
    {"authority: [\"" KEY_A "\"]\n", "",
     "a:1:1: .: nobody is trusted: give `authority` and `certificate`, or `pins`\n"
     "a:3:1: certificate: `certificate` needs the `authority` that signed it beside it\n"},
    {"certificate: agent.cert\n", "",
     "a:3:1: authority: `authority` needs this agent's `certificate` beside it\n"},
    {"authority: [\"" KEY_A "\"]\n"
     "certificate: agent.cert\n",
     "", "a:1:1: .: nobody is trusted: give `authority` and `certificate`, or `pins`\n"},
    {"authority: [\"" KEY_A "\"]\n"
     "certificate: agent.cert\n",
     "pins: {oslo/x: \"" KEY_A "\"}\n", ""},
    {"authority: [\"" KEY_A "\"]\n"
     "certificate: agent.cert\n",
     "pins: {paris/hub: \"" KEY_A "\"}\n",
     "a:8:10: links[0].key: the key differs from the one under `pins` for paris/hub\n"},
    {"authority: [\"" KEY_A "\"]\n"
     "certificate: agent.cert\n",
     "pins: {hub: \"" KEY_A "\"}\n",
     "a:3:8: pins.hub: expected an agent as site/agent, found the key `hub`\n"},
    {"authority: [\"" KEY_A "\"]\n"
     "certificate: agent.cert\n"
     "key: node.key\n"
     "listen: [\"tls://127.0.0.1:7401\"]\n"
     "links:\n"
     "  - to: paris/hub\n"
     "    key: \"" KEY_B "\"\n",
     "pins: {oslo/x: \"" KEY_A "\"}\n"
     "key: node.key\n"
     "links:\n"
     "  - to: paris/hub\n",
     "a:6:9: links[0].to: nobody vouches for paris/hub: give the link a `key`, or the file an "
     "`authority`\n"},
    {"key: node.key\n", "",
     "a:1:1: key: required key `key` is missing: This agent's private key; mode 0600.\n"},
    {"key: node.key\n", "key: \"\"\n", "a:5:6: key: expected a file name, found ``\n"},
    {"[\"" KEY_A "\"]", "[]", "a:3:12: authority: 0 entries; allowed are 1 to 8\n"},
    {"[\"" KEY_A "\"]",
     "[\"ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511\"]",
     "a:3:13: authority[0]: expected a public key as ed25519:<64 hexadecimal digits>, found "
     "`ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a6...`\n"},
    {"    address: [\"127.0.0.1:7400\"]\n", "",
     "a:8:5: links[0].address: required key `address` is missing: Where to dial it.\n"},
    {"to: paris/hub", "to: amsterdam/edge",
     "a:8:9: links[0].to: the agent links to itself; remove this entry\n"},
    {"{to: echo,", "{to: control,",
     "a:12:10: access[0].to: `control` serves the operator of its own agent, and no rule opens it "
     "to others; remove this entry\n"},
    {"access:\n",
     "  - {to: paris/hub, address: \"127.0.0.1:1\"}\n"
     "access:\n",
     "a:11:10: links[1].to: a second link to paris/hub; remove one of the entries\n"},
    {"[\"tls://127.0.0.1:7401\"]", "[\"tls://[::]:7401\", \"tls://127.0.0.1:7401\"]",
     "a:6:29: listen[1]: 127.0.0.1:7401 is listened on twice (also by [::]:7401); remove one of "
     "them, or give it another port\n"},
    {"drain_ms: 5000\n", "  - name: tunnel\n",
     "a:16:11: plugins[1].name: plugin `tunnel` stands here twice (also plugins[0]); remove one of "
     "them\n"},
    {"drain_ms: 5000",
     "drain_ms: 5000\n"
     "heartbeat: {interval_ms: 1000, deadline_ms: 1500}",
     "a:17:45: heartbeat.deadline_ms: deadline_ms (1500) must be at least twice interval_ms "
     "(1000), or one late answer takes the link down\n"},
    {"drain_ms: 5000", "reconnect: {min_ms: 500, max_ms: 400}",
     "a:16:34: reconnect.max_ms: max_ms (400) is below min_ms (500)\n"},
    {"drain_ms: 5000", "drainms: 5000",
     "a:16:1: drainms: unknown key `drainms`; did you mean `drain_ms`?\n"},
    {"drain_ms: 5000", "memory_mib: 8",
     "a:16:13: memory_mib: `8` is out of range; allowed are 16 to 1048576\n"},
    {"drain_ms: 5000", "workers: 0x4",
     "a:16:10: workers: expected a whole number, found the number `0x4`; write decimal digits "
     "only, without leading zeros\n"},
    {"{to: echo, types", "{to: \"amsterdam/edge:echo\", types",
     "a:12:10: access[0].to: expected a name of 1 to 63 letters a-z, digits and hyphens, found "
     "`amsterdam/edge:echo`\n"},
    {"{to: echo, types", "{too: echo, types",
     "a:12:5: access[0].to: required key `to` is missing: The actor of this agent that may be "
     "written to.\n"
     "a:12:6: access[0].too: unknown key `too`; did you mean `to`?\n"},
};

/* Every kind of mistake: exactly these findings, at exactly these places. */
static void each_mistake_has_its_findings(void **state)
{
    (void)state;
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        char *text = edit(agent_text, cases[i].from, cases[i].to);
        struct sn_findings findings;
        sn_findings_init(&findings);
        struct sn_agent_file *agent = NULL;
        enum sn_err err = sn_agent_file_parse(text, strlen(text), "a", &findings, &agent);
        char *found = findings_text(&findings);
        assert_string_equal(found, cases[i].findings);
        assert_int_equal(err, cases[i].findings[0] == '\0' ? SN_OK : SN_EINVAL);
        assert_true((agent != NULL) == (err == SN_OK));
        free(found);
        free(text);
        sn_agent_file_free(agent);
        sn_findings_fini(&findings);
    }
    assert_int_equal(sn_alloc_in_use(), 0);
}

static struct sn_agent_file *parse_good(const char *text)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_agent_file *agent = NULL;
    enum sn_err err = sn_agent_file_parse(text, strlen(text), "a", &findings, &agent);
    char *found = findings_text(&findings);
    assert_string_equal(found, "");
    assert_int_equal(err, SN_OK);
    free(found);
    sn_findings_fini(&findings);
    return agent;
}

static void a_good_file_becomes_a_model(void **state)
{
    (void)state;
    struct sn_agent_file *agent = parse_good(agent_text);
    assert_string_equal(agent->mesh, "demo");
    assert_string_equal(agent->agent, "amsterdam/edge");
    assert_int_equal(sn_config_count(agent->authority), 1);
    assert_string_equal(sn_config_text(sn_config_at(agent->authority, 0), ""), KEY_A);
    assert_string_equal(agent->certificate, "agent.cert");
    assert_string_equal(agent->key, "node.key");
    assert_string_equal(agent->data, "data");
    assert_string_equal(agent->run, "run");
    assert_string_equal(sn_config_text(sn_config_at(agent->listen, 0), ""), "tls://127.0.0.1:7401");
    assert_int_equal(agent->link_count, 1);
    assert_string_equal(agent->links[0].to, "paris/hub");
    assert_string_equal(agent->links[0].key, KEY_B);
    assert_string_equal(sn_config_text(sn_config_at(agent->links[0].address, 0), ""),
                        "127.0.0.1:7400");
    assert_int_equal(agent->pin_count, 0);
    assert_int_equal(agent->access_count, 1);
    assert_string_equal(agent->access[0].actor, "echo");
    assert_true(sn_config_patterns_match(agent->access[0].from, "paris/hub"));
    assert_int_equal(agent->plugin_count, 1);
    assert_string_equal(agent->plugins[0].name, "tunnel");
    assert_int_equal(sn_config_count(agent->plugins[0].config), 0);
    sn_agent_file_free(agent);
}

static void defaults_are_as_documented(void **state)
{
    (void)state;
    struct sn_agent_file *agent = parse_good("mesh: demo\nagent: a/b\nkey: k\npins: {a/c: " KEY_A
                                             "}\nlinks: [{to: a/c, address: h:1}]\n");
    const struct sn_settings *s = &agent->settings;
    assert_string_equal(s->log_level, "info");
    assert_string_equal(s->log_format, "text");
    assert_int_equal(s->drain_ms, 5000);
    assert_int_equal(s->workers, 0);
    assert_int_equal(s->memory_mib, 512);
    assert_int_equal(s->heartbeat_interval_ms, 1000);
    assert_int_equal(s->heartbeat_deadline_ms, 5000);
    assert_int_equal(s->reconnect_min_ms, 100);
    assert_int_equal(s->reconnect_max_ms, 10000);
    assert_int_equal(s->accept_handshakes, 64);
    assert_int_equal(s->accept_per_address, 8);
    assert_int_equal(s->accept_timeout_ms, 5000);
    assert_null(agent->certificate);
    assert_string_equal(agent->links[0].key, KEY_A); /* from the pin */
    assert_int_equal(agent->pin_count, 1);
    assert_string_equal(agent->pins[0].agent, "a/c");
    assert_string_equal(agent->pins[0].key, KEY_A);
    sn_agent_file_free(agent);
}

static void settings_are_read(void **state)
{
    (void)state;
    char *text = edit(agent_text, "drain_ms: 5000\n",
                      "drain_ms: 1\nresume_ms: 9\nplugins_allow: any\nworkers: 2\nmemory_mib: "
                      "33\nlog: {level: error, format: json}\n"
                      "heartbeat: {interval_ms: 40, deadline_ms: 80}\n"
                      "reconnect: {min_ms: 50, max_ms: 60}\n"
                      "accept: {handshakes: 7, per_address: 6, timeout_ms: 800}\n"
                      "data: /var/lib/sennit\nrun: /run/sennit\n");
    struct sn_agent_file *agent = parse_good(text);
    char *dump = agent_dump(agent);
    assert_non_null(strstr(dump, " settings=error,json,any,9,1,2,33,40,80,50,60,7,6,800\n"));
    assert_string_equal(agent->data, "/var/lib/sennit");
    assert_string_equal(agent->run, "/run/sennit");
    free(dump);
    free(text);
    sn_agent_file_free(agent);
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    enum sn_err err = SN_ENOMEM;
    uint64_t nth = 1;
    for (; err == SN_ENOMEM; nth++) {
        struct sn_findings findings;
        struct sn_agent_file *agent = NULL;
        sn_findings_init(&findings);
        sn_alloc_fail_nth(nth);
        err = sn_agent_file_parse(agent_text, strlen(agent_text), "a", &findings, &agent);
        sn_alloc_fail_nth(0);
        sn_agent_file_free(agent);
        sn_findings_fini(&findings);
        assert_int_equal(sn_alloc_in_use(), 0);
    }
    assert_int_equal(err, SN_OK);
    assert_true(nth > 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_has_its_findings),
        cmocka_unit_test(a_good_file_becomes_a_model),
        cmocka_unit_test(defaults_are_as_documented),
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
