/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that are wrong in one way each, and the configuration of a good one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "config/tree.h"
#include "plugin/loader.h"

static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    (void)ctx, (void)state, (void)event; /* never called */
    return SN_OK;
}

#define KIND                                                                                       \
    {                                                                                              \
        .size = (uint32_t)sizeof(struct sn_actor_kind), .name = "sample", .handle = handle         \
    }

static const struct sn_config_field name_item = {.kind = SN_CONFIG_LABEL};
static const struct sn_config_field inner_fields[] = {
    {.key = "size", .kind = SN_CONFIG_INT, .min = 1, .max = 9, .def = "3", .help = "A size."},
    {.key = "mode", .kind = SN_CONFIG_ENUM, .choices = "fast|safe", .def = "safe", .help = "How."},
    {0},
};
static const struct sn_config_field inner_item = {.kind = SN_CONFIG_MAP, .fields = inner_fields};
static const struct sn_config_field fields[] = {
    {.key = "path", .kind = SN_CONFIG_PATH, .flags = SN_CONFIG_REQUIRED, .help = "A folder."},
    {.key = "names", .kind = SN_CONFIG_LIST, .item = &name_item, .help = "Names."},
    {.key = "parts", .kind = SN_CONFIG_DICT, .item = &inner_item, .help = "Parts."},
    {0},
};
static const struct sn_metric_desc metrics[] = {
    {"sample_one.things", SN_METRIC_COUNTER, "things"},
    {"sample_one.open_now", SN_METRIC_GAUGE, "things that are open"},
    {0},
};
static const struct sn_message_type messages[] = {{"sample.do", "Does it."}, {0}};

/* Parts whose name ends in "x" are against its rules; "nomem" and "odd" make the check itself fail.
 */
static enum sn_err check(const struct sn_config_node *config, sn_plugin_finding_fn report,
                         void *arg)
{
    const struct sn_config_node *parts = sn_config_get(config, "parts");
    for (uint32_t i = 0; i < sn_config_count(parts); i++) {
        const char *key = sn_config_key_at(parts, i);
        if (strcmp(key, "nomem") == 0) return SN_ENOMEM;
        if (strcmp(key, "odd") == 0) return SN_EIO;
        if (key[strlen(key) - 1] != 'x') continue;
        report(arg, sn_config_at(parts, i), "its name ends in x");
        report(arg, NULL, "nowhere");
        report(arg, sn_config_at(parts, i), NULL);
        report(arg, sn_config_at(parts, i), "");
    }
    return SN_OK;
}

/* A copy of a good descriptor and its tables, to be spoilt. */
struct sample {
    struct sn_actor_kind kinds[2];
    const struct sn_actor_kind *actors[2];
    struct sn_metric_desc metrics[SN_PLUGIN_TABLE_MAX + 2];
    struct sn_message_type messages[SN_PLUGIN_TABLE_MAX + 2];
    struct sn_config_field fields[SN_PLUGIN_TABLE_MAX + 2];
    struct sn_config_field item;
    struct sn_plugin plugin;
};

static void make(struct sample *s)
{
    *s = (struct sample){.kinds = {KIND, KIND}};
    s->kinds[1].name = "second";
    s->actors[0] = &s->kinds[0];
    s->actors[1] = &s->kinds[1];
    memcpy(s->metrics, metrics, sizeof metrics);
    memcpy(s->messages, messages, sizeof messages);
    memcpy(s->fields, fields, sizeof fields);
    s->item = name_item;
    s->fields[1].item = &s->item;
    s->plugin = (struct sn_plugin){
        SN_PLUGIN_HEADER,        .name = "sample-one", .version = "1",      .help = "Does nothing.",
        .actors = s->actors,     .actor_count = 2,     .config = s->fields, .metrics = s->metrics,
        .messages = s->messages, .check = check};
}

static void expect(struct sample *s, enum sn_err wanted, const char *text)
{
    char error[SN_PLUGIN_ERROR_MAX] = "";
    enum sn_err err = sn_plugin_verify(&s->plugin, "sample-one", error);
    if (err != wanted || strstr(error, text) == NULL) print_error("wanted: %s\n", text);
    if (err != wanted || strstr(error, text) == NULL) print_error("found:  %s\n", error);
    assert_int_equal(err, wanted);
    assert_non_null(strstr(error, text));
    make(s);
}

static struct sample sample;

static void good_descriptors_pass(void **state)
{
    struct sample *s = &sample;
    (void)state;
    make(s);
    expect(s, SN_OK, "");
    s->plugin.config = NULL;
    s->plugin.metrics = NULL;
    s->plugin.messages = NULL;
    s->plugin.check = NULL;
    expect(s, SN_OK, "");
    s->plugin.size += 8; /* a later revision of the same minor cannot be, but harms nobody */
    expect(s, SN_OK, "");
    s->kinds[1].service = "things";
    expect(s, SN_OK, "");
}

static void headers_are_checked_first(void **state)
{
    struct sample *s = &sample;
    (void)state;
    make(s);
    s->plugin.magic = 0;
    s->plugin.abi_major = 77;
    expect(s, SN_EINVAL, "not a plugin descriptor");
    s->plugin.abi_major = SN_PLUGIN_ABI_MAJOR + 1;
    s->plugin.name = NULL;
    expect(s, SN_EVERSION, "built for plugin ABI");
    s->plugin.abi_minor = SN_PLUGIN_ABI_MINOR + 1;
    expect(s, SN_EVERSION, "built for plugin ABI");
    s->plugin.size = (uint32_t)sizeof s->plugin - 1;
    s->plugin.name = NULL;
    expect(s, SN_EINVAL, "at least");
    s->plugin.size = 0;
    expect(s, SN_EINVAL, "has 0 bytes");
}

/* A plugin of an older minor knows less, and that is all. */
static void older_minors_are_welcome(void **state)
{
    struct sample *s = &sample;
    (void)state;
    for (uint32_t minor = 0; minor <= SN_PLUGIN_ABI_MINOR; minor++) {
        make(s);
        s->plugin.abi_minor = minor;
        expect(s, SN_OK, "");
    }
}

static void names_are_checked(void **state)
{
    struct sample *s = &sample;
    (void)state;
    make(s);
    s->plugin.name = NULL;
    expect(s, SN_EINVAL, "calls itself ``");
    s->plugin.name = "sample-two";
    expect(s, SN_EINVAL, "calls itself `sample-two`");
    s->plugin.version = NULL;
    expect(s, SN_EINVAL, "no version");
    s->plugin.version = "";
    expect(s, SN_EINVAL, "no version");
    s->plugin.help = NULL;
    expect(s, SN_EINVAL, "does not say what it does");
    s->plugin.reserved = 1;
    expect(s, SN_EINVAL, "reserved");
}

static void actors_are_checked(void **state)
{
    struct sample *s = &sample;
    (void)state;
    make(s);
    s->plugin.actors = NULL;
    expect(s, SN_EINVAL, "no actors");
    s->plugin.actor_count = 0;
    expect(s, SN_EINVAL, "no actors");
    s->plugin.actor_count = SN_PLUGIN_ACTORS_MAX + 1;
    expect(s, SN_EINVAL, "more than 64");
    s->actors[1] = NULL;
    expect(s, SN_EINVAL, "actor 1 is not described");
    s->kinds[1].size--;
    expect(s, SN_EINVAL, "actor 1 is not described");
    s->kinds[0].name = NULL;
    expect(s, SN_EINVAL, "actor 0 has no valid name");
    s->kinds[0].name = "Big";
    expect(s, SN_EINVAL, "actor 0 has no valid name");
    s->kinds[1].name = "sample";
    expect(s, SN_EINVAL, "two of its actors are called `sample`");
    s->kinds[1].handle = NULL;
    expect(s, SN_EINVAL, "actor `second` has no handler");
    s->kinds[1].state_bytes = UINT32_MAX;
    expect(s, SN_EINVAL, "too much memory");
    s->kinds[1].mailbox_messages = SN_MAILBOX_MAX + 1;
    expect(s, SN_EINVAL, "too much memory");
    s->kinds[1].service = "";
    expect(s, SN_EINVAL, "service of actor `second`");
    s->kinds[1].service = "a-service-with-a-name-beyond-the-limit";
    expect(s, SN_EINVAL, "service of actor `second`");
}

static void metrics_and_messages_are_checked(void **state)
{
    static const char *const bad_names[] = {"sample_one",      "sample_one.",  "sample-one.x",
                                            "other.things",    "sample_one.X", "sample_onex.y",
                                            "sample_one.thi g"};
    struct sample *s = &sample;
    (void)state;
    make(s);
    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
        s->metrics[1].name = bad_names[i];
        expect(s, SN_EINVAL, "metric 1 is not described well");
    }
    s->metrics[0].kind = 3;
    expect(s, SN_EINVAL, "metric 0 is not described well");
    s->metrics[0].help = NULL;
    expect(s, SN_EINVAL, "metric 0 is not described well");
    for (size_t i = 0; i <= SN_PLUGIN_TABLE_MAX; i++) s->metrics[i] = metrics[0];
    expect(s, SN_EINVAL, "metrics has no end");
    for (size_t i = 0; i < SN_PLUGIN_TABLE_MAX; i++) s->metrics[i] = metrics[0];
    expect(s, SN_OK, "");
    s->messages[0].type = "sample.";
    expect(s, SN_EINVAL, "message type 0 is not described well");
    s->messages[0].help = "";
    expect(s, SN_EINVAL, "message type 0 is not described well");
    for (size_t i = 0; i <= SN_PLUGIN_TABLE_MAX; i++) s->messages[i] = messages[0];
    expect(s, SN_EINVAL, "messages has no end");
}

static void schemas_are_checked(void **state)
{
    struct sample *s = &sample;
    (void)state;
    make(s);
    s->fields[0].kind = 0;
    expect(s, SN_EINVAL, "key `path` of its configuration schema");
    s->fields[0].kind = SN_CONFIG_LISTEN_URL + 1;
    expect(s, SN_EINVAL, "key `path`");
    s->fields[0].kind = SN_CONFIG_ANY + 1;
    expect(s, SN_EINVAL, "key `path`");
    s->fields[0].help = NULL;
    expect(s, SN_EINVAL, "key `path`");
    s->fields[0].min = 2;
    s->fields[0].max = 1;
    expect(s, SN_EINVAL, "key `path`");
    s->fields[1].item = NULL;
    expect(s, SN_EINVAL, "key `names`");
    s->fields[2].item = NULL;
    expect(s, SN_EINVAL, "key `parts`");
    s->fields[2].kind = SN_CONFIG_MAP;
    expect(s, SN_EINVAL, "key `parts`");
    s->fields[2].flags = SN_CONFIG_ONE_OR_LIST; /* of a DICT */
    expect(s, SN_EINVAL, "key `parts`");
    s->fields[1].flags = SN_CONFIG_SHORT; /* of a LIST */
    expect(s, SN_EINVAL, "key `names`");
    s->item.kind = SN_CONFIG_ENUM;
    expect(s, SN_EINVAL, "key `(entry)`");
    s->item.kind = SN_CONFIG_ENUM;
    s->item.choices = "a||b";
    expect(s, SN_EINVAL, "key `(entry)`");
    s->item.kind = SN_CONFIG_ENUM;
    s->item.choices = "1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16|17";
    expect(s, SN_EINVAL, "key `(entry)`");
    for (size_t i = 0; i <= SN_PLUGIN_TABLE_MAX; i++) s->fields[i] = fields[0];
    expect(s, SN_EINVAL, "schema has no end");
}

static void schemas_that_never_end_are_refused(void **state)
{
    struct sample *s = &sample;
    (void)state;
    make(s);
    s->item = (struct sn_config_field){.kind = SN_CONFIG_LIST, .item = &s->item};
    expect(s, SN_EINVAL, "schema is too deep");
    s->fields[2].kind = SN_CONFIG_MAP;
    s->fields[2].fields = s->fields;
    expect(s, SN_EINVAL, "schema");
}

/* --- Configuration ------------------------------------------------------------------------------
 */

/* `text` is the plugin's entry of an agent file. Returns the findings, a line each. */
static enum sn_err check_text(const struct sn_plugin *plugin, const char *text, char *out,
                              size_t capacity)
{
    struct sn_findings findings;
    struct sn_config_tree *tree = NULL;
    sn_findings_init(&findings);
    enum sn_err err = sn_config_parse(text, strlen(text), "agent.yaml", &findings, &tree);
    if (err == SN_OK) {
        const struct sn_config_node *root = sn_config_root(tree);
        err = sn_plugin_check_config(plugin, sn_config_get(root, "config"), root, &findings);
    }
    out[0] = '\0';
    for (uint32_t i = 0; i < findings.count; i++) {
        char line[1024];
        sn_finding_format(findings.items[i], line, sizeof line);
        assert_true(strlen(out) + strlen(line) + 2 < capacity);
        strncat(out, line, capacity - 1); /* tidy: allow strncat: the length was checked */
        strncat(out, "\n", capacity - 1); /* tidy: allow strncat: the length was checked */
    }
    sn_config_tree_free(tree);
    sn_findings_fini(&findings);
    return err;
}

static void expect_findings(const char *text, enum sn_err wanted, const char *findings)
{
    char found[4096];
    make(&sample);
    assert_int_equal(check_text(&sample.plugin, text, found, sizeof found), wanted);
    assert_string_equal(found, findings);
}

static void configurations_are_checked_with_positions(void **state)
{
    (void)state;
    expect_findings("name: x\nconfig:\n  path: store\n  parts: {a: {size: 2, mode: fast}}\n", SN_OK,
                    "");
    expect_findings("name: x\nconfig:\n  path: store\n  pats: {}\n", SN_EINVAL,
                    "agent.yaml:4:3: config.pats: unknown key `pats`; did you mean `parts`?\n");
    expect_findings("name: x\nconfig:\n  path: store\n  parts:\n    a: {size: 10}\n", SN_EINVAL,
                    "agent.yaml:5:15: config.parts.a.size: `10` is out of range; allowed are 1 to "
                    "9\n");
    expect_findings("name: x\nconfig: {}\n", SN_EINVAL,
                    "agent.yaml:2:1: config.path: required key `path` is missing: A folder.\n");
}

static void the_plugin_adds_its_own_findings(void **state)
{
    (void)state;
    expect_findings(
        "name: x\nconfig:\n  path: store\n  parts:\n    ax: {}\n    b: {}\n    cx: {}\n", SN_EINVAL,
        "agent.yaml:5:9: config.parts.ax: its name ends in x\n"
        "agent.yaml:7:9: config.parts.cx: its name ends in x\n");
    /* Not called with what does not fit the schema. */
    expect_findings("name: x\nconfig:\n  parts:\n    ax: {}\n", SN_EINVAL,
                    "agent.yaml:2:1: config.path: required key `path` is missing: A folder.\n");
    /* That its check itself fails is nobody's mistake in the file. */
    expect_findings("name: x\nconfig:\n  path: store\n  parts:\n    odd: {}\n", SN_ESTATE, "");
    expect_findings("name: x\nconfig:\n  path: store\n  parts:\n    ax: {}\n    odd: {}\n",
                    SN_EINVAL, "agent.yaml:5:9: config.parts.ax: its name ends in x\n");
    expect_findings("name: x\nconfig:\n  path: store\n  parts:\n    nomem: {}\n", SN_ENOMEM, "");
}

static void absent_configurations_are_checked_too(void **state)
{
    char found[1024];
    (void)state;
    expect_findings("name: x\n", SN_EINVAL,
                    "agent.yaml:1:1: .: plugin `sample-one` needs a `config`\n");
    make(&sample);
    sample.fields[0].flags = 0;
    assert_int_equal(check_text(&sample.plugin, "name: x\n", found, sizeof found), SN_OK);
    sample.plugin.config = NULL;
    assert_int_equal(check_text(&sample.plugin, "name: x\n", found, sizeof found), SN_OK);
    assert_int_equal(check_text(&sample.plugin, "name: x\nconfig: {}\n", found, sizeof found),
                     SN_EINVAL);
    assert_string_equal(found,
                        "agent.yaml:2:1: config: plugin `sample-one` takes no configuration\n");
    make(&sample);
    sample.plugin.check = NULL;
    assert_int_equal(
        check_text(&sample.plugin, "config: {path: a, parts: {ax: {}}}\n", found, sizeof found),
        SN_OK);
}

static void lack_of_memory_is_reported(void **state)
{
    static const char text[] = "config: {path: a, parts: {ax: {}}}\n";
    size_t before = sn_alloc_in_use();
    enum sn_err err = SN_ENOMEM;
    (void)state;
    make(&sample);
    for (uint64_t nth = 1; err == SN_ENOMEM; nth++) {
        char found[1024];
        assert_true(nth < 1000);
        sn_alloc_fail_nth(nth);
        err = check_text(&sample.plugin, text, found, sizeof found);
        sn_alloc_fail_nth(0);
        assert_true(err == SN_ENOMEM || err == SN_EINVAL);
        assert_int_equal(sn_alloc_in_use(), before);
    }
    assert_int_equal(err, SN_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_descriptors_pass),
        cmocka_unit_test(headers_are_checked_first),
        cmocka_unit_test(older_minors_are_welcome),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(actors_are_checked),
        cmocka_unit_test(metrics_and_messages_are_checked),
        cmocka_unit_test(schemas_are_checked),
        cmocka_unit_test(schemas_that_never_end_are_refused),
        cmocka_unit_test(configurations_are_checked_with_positions),
        cmocka_unit_test(the_plugin_adds_its_own_findings),
        cmocka_unit_test(absent_configurations_are_checked_too),
        cmocka_unit_test(lack_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
