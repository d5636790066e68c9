/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin declares, and what it says about configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/tree.h"
#include "plugin/loader.h"
#include "tunnel.h"

static void descriptor_is_sound(void **state)
{
    char error[SN_PLUGIN_ERROR_MAX] = "";
    (void)state;
    assert_int_equal(sn_plugin_verify(&sn_plugin, "tunnel", error), SN_OK);
    assert_string_equal(error, "");
    /* The table stands in the order of the numbers that the code uses. */
    assert_string_equal(sn_plugin.metrics[METRIC_OPEN_NOW].name, "tunnel.open_now");
    assert_int_equal(sn_plugin.metrics[METRIC_OPEN_NOW].kind, SN_METRIC_GAUGE);
    assert_null(sn_plugin.metrics[METRIC_OPEN_NOW + 1].name);
    for (int i = 0; i < METRIC_OPEN_NOW; i++) {
        assert_int_equal(sn_plugin.metrics[i].kind, SN_METRIC_COUNTER);
    }
}

/* All findings about a text, a line each. */
static void expect(const char *text, const char *wanted)
{
    char found[2048] = "";
    size_t size = 0;
    struct sn_findings findings;
    struct sn_config_tree *tree = NULL;
    sn_findings_init(&findings);
    enum sn_err err = sn_config_parse(text, strlen(text), "t.yaml", &findings, &tree);
    assert_int_equal(err, SN_OK);
    const struct sn_config_node *root = sn_config_root(tree);
    err = sn_plugin_check_config(&sn_plugin, root, root, &findings);
    assert_int_equal(err, wanted[0] == '\0' ? SN_OK : SN_EINVAL);
    for (uint32_t i = 0; i < findings.count; i++) {
        sn_finding_format(findings.items[i], found + size, sizeof found - size - 2);
        size = strlen(found);
        found[size++] = '\n';
        found[size] = '\0';
    }
    sn_config_tree_free(tree);
    sn_findings_fini(&findings);
    assert_string_equal(found, wanted);
}

static void good_configurations_pass(void **state)
{
    (void)state;
    expect("{}\n", "");
    expect("targets:\n"
           "  web: {address: \"127.0.0.1:80\", allow: [\"amsterdam/*\", \"*\", role:reader, a/b]}\n"
           "  db: {address: \"db.example:5432\", allow: a-1/b-2, connect_wait_ms: 0}\n"
           "forwards:\n"
           "  web: {listen: \"127.0.0.1:0\", to: paris/hub, target: web}\n"
           "  web2: {listen: \"127.0.0.1:0\", to: paris/hub, target: web, open_wait_ms: 900000}\n",
           "");
    /* As `sennit render` writes it. */
    expect("targets:\n"
           "  web:\n"
           "    address: \"127.0.0.1:8000\"\n"
           "    allow:\n"
           "      - \"amsterdam/*\"\n"
           "    connect_wait_ms: 10000\n"
           "forwards:\n"
           "  ssh:\n"
           "    listen: \"127.0.0.1:2222\"\n"
           "    to: \"paris/hub\"\n"
           "    target: \"ssh\"\n",
           "");
}

static void mistakes_are_found(void **state)
{
    (void)state;
    expect("target: {}\n", "t.yaml:1:1: target: unknown key `target`; did you mean `targets`?\n");
    expect("targets: {web: {address: \"127.0.0.1:80\"}}\n",
           "t.yaml:1:11: targets.web.allow: required key `allow` is missing: Agents that may use "
           "the target: `site/agent`, `site/*`, `*`, or `role:NAME`.\n");
    expect("targets: {web: {address: \"127.0.0.1\", allow: a/b}}\n",
           "t.yaml:1:26: targets.web.address: expected an address as host:port, found "
           "`127.0.0.1`\n");
    expect("targets: {web: {address: \"h:1\", allow: a/b, connect_wait_ms: 600001}}\n",
           "t.yaml:1:62: targets.web.connect_wait_ms: `600001` is out of range; allowed are 0 to "
           "600000\n");
    expect(
        "targets: {web: {address: \"h:1\", allow: a/b, max_connections: 0}}\n",
        "t.yaml:1:62: targets.web.max_connections: `0` is out of range; allowed are 1 to 65536\n");
    expect("targets: {web: {address: \"h:1\", allow: a/b, max_per_agent: 65537}}\n",
           "t.yaml:1:60: targets.web.max_per_agent: `65537` is out of range; allowed are 1 to "
           "65536\n");
    expect("forwards: {web: {listen: \"127.0.0.1:1\", to: p/h, target: w, idle_ms: -1}}\n",
           "t.yaml:1:70: forwards.web.idle_ms: `-1` is out of range; allowed are 0 to 604800000\n");
    expect("forwards: {web: {listen: \"127.0.0.1:1\", to: paris, target: web}}\n",
           "t.yaml:1:45: forwards.web.to: expected an agent as site/agent, found `paris`\n");
    expect("forwards: {web: {listen: \"127.0.0.1:1\", to: p/h, target: We}}\n",
           "t.yaml:1:58: forwards.web.target: expected a name of 1 to 63 letters a-z, digits and "
           "hyphens, found `We`\n");
}

#define EXPECTED "expected an agent as site/agent, a site as site/*, a role as role:NAME, or *"

static void patterns_are_checked(void **state)
{
    static const char *const bad[] = {
        "amsterdam", "amsterdam/",  "/edge", "a/b/c", "**",        "*/edge", "Ams/edge", "a/b*",
        "role:",     "role:Reader", "-a/b",  "a/b-",  "role:a b",  "a/*x",   "role:*",   "a//*",
        "a/ b",      "rôle:a",      "a/-",   "-/b",   "role:-bad", "*/*",    "a /b"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, /* fits */
                       "targets: {web: {address: \"h:1\", allow: [a/b, \"%s\"]}}\n", bad[i]);
        expect(text, "t.yaml:1:46: targets.web.allow[1]: " EXPECTED "\n");
    }
    expect("targets: {web: {address: \"h:1\", allow: nobody}}\n",
           "t.yaml:1:40: targets.web.allow: " EXPECTED "\n");
}

static void forwards_may_not_share_an_address(void **state)
{
    (void)state;
    expect("forwards:\n"
           "  one: {listen: \"127.0.0.1:8080\", to: p/h, target: a}\n"
           "  two: {listen: \"127.0.0.1:8081\", to: p/h, target: a}\n"
           "  three: {listen: \"127.0.0.1:8080\", to: p/h, target: b}\n"
           "  four: {listen: \"127.0.0.1:8080\", to: p/h, target: c}\n",
           "t.yaml:4:19: forwards.three.listen: forward `one` listens on the same address\n"
           "t.yaml:5:18: forwards.four.listen: forward `one` listens on the same address\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptor_is_sound),
        cmocka_unit_test(good_configurations_pass),
        cmocka_unit_test(mistakes_are_found),
        cmocka_unit_test(patterns_are_checked),
        cmocka_unit_test(forwards_may_not_share_an_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
