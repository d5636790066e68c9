/* SPDX-License-Identifier: Apache-2.0 */
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
#include "config/schema.h"
#include "unit/config/support.h"

static const struct sn_config_field number_item = {.kind = SN_CONFIG_INT, .min = 1, .max = 9};
static const struct sn_config_field pair_fields[] = {
    {.key = "name", .kind = SN_CONFIG_LABEL, .flags = SN_CONFIG_REQUIRED, .help = "Who."},
    {.key = "size", .kind = SN_CONFIG_INT, .def = "3", .help = "How much."},
    {0},
};
static const struct sn_config_field pair_item = {
    .kind = SN_CONFIG_MAP, .flags = SN_CONFIG_SHORT, .fields = pair_fields};
static const struct sn_config_field dict_item = {.kind = SN_CONFIG_BOOL};

/* One field of each kind. */
static const struct sn_config_field fields[] = {
    {.key = "text", .kind = SN_CONFIG_TEXT, .min = 2, .max = 4, .def = "abc", .help = "A text."},
    {.key = "int", .kind = SN_CONFIG_INT, .min = -5, .max = 5, .def = "-2", .help = "A number."},
    {.key = "big", .kind = SN_CONFIG_INT, .help = "Any number."},
    {.key = "bool", .kind = SN_CONFIG_BOOL, .def = "true", .help = "A truth."},
    {.key = "enum", .kind = SN_CONFIG_ENUM, .choices = "red|green|blue", .help = "A colour."},
    {.key = "label", .kind = SN_CONFIG_LABEL, .help = "A name."},
    {.key = "agent", .kind = SN_CONFIG_AGENT, .help = "An agent."},
    {.key = "pattern", .kind = SN_CONFIG_PATTERN, .help = "A pattern."},
    {.key = "types", .kind = SN_CONFIG_TYPES, .help = "Types."},
    {.key = "address", .kind = SN_CONFIG_ADDRESS, .help = "An address."},
    {.key = "listen", .kind = SN_CONFIG_LISTEN, .help = "A listener."},
    {.key = "path", .kind = SN_CONFIG_PATH, .help = "A file."},
    {.key = "actor", .kind = SN_CONFIG_ACTOR, .help = "An actor."},
    {.key = "key", .kind = SN_CONFIG_KEY, .help = "A key."},
    {.key = "url", .kind = SN_CONFIG_LISTEN_URL, .help = "A URL."},
    {.key = "map", .kind = SN_CONFIG_MAP, .fields = pair_fields, .help = "A mapping."},
    {.key = "dict", .kind = SN_CONFIG_DICT, .max = 2, .item = &dict_item, .help = "Names."},
    {.key = "agents",
     .kind = SN_CONFIG_DICT,
     .flags = SN_CONFIG_AGENT_KEYS,
     .item = &dict_item,
     .help = "Agents."},
    {.key = "list",
     .kind = SN_CONFIG_LIST,
     .min = 1,
     .max = 2,
     .item = &number_item,
     .help = "List."},
    {.key = "some",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_ONE_OR_LIST,
     .item = &pair_item,
     .help = "Pairs."},
    {.key = "any", .kind = SN_CONFIG_ANY, .help = "Anything."},
    {0},
};

static enum sn_err check(const char *text, char **out_found)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_config_tree *tree = NULL;
    enum sn_err err = sn_config_parse(text, strlen(text), "f", &findings, &tree);
    if (err == SN_OK) err = sn_schema_check(sn_config_root(tree), fields, &findings);
    *out_found = findings_text(&findings);
    sn_config_tree_free(tree);
    sn_findings_fini(&findings);
    assert_int_equal(sn_alloc_in_use(), 0);
    return err;
}

static void good_values_of_each_kind_pass(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "text: ab",
        "text: 'abcd'",
        "text: \"12\"",
        "text: \"no\"",
        "int: -5",
        "int: 5",
        "int: 0",
        "big: 9223372036854775807",
        "bool: true",
        "bool: false",
        "enum: green",
        "enum: \"blue\"",
        "label: a-1",
        "agent: a/b",
        "pattern: a/b",
        "pattern: a/*",
        "pattern: \"*\"",
        "types: echo.say",
        "types: echo.*",
        "types: \"*\"",
        "address: h.example:1",
        "address: \"[::1]:80\"",
        "listen: 127.0.0.1:0",
        "path: a/b c",
        "path: \"7\"",
        "actor: a/b:c",
        ("key: " KEY_A),
        "url: tls://0.0.0.0:0",
        "map: {name: x}",
        "dict: {}",
        "dict: {a: true, b: false}",
        "agents: {a/b: true}",
        "list: [1, 9]",
        "some: x",
        "some: [x, {name: y, size: 2}]",
        "some: []",
        "any: x",
        "any: {a: [1, {b: ~}]}",
        "any: []",
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(texts); i++) {
        char *found = NULL;
        enum sn_err err = check(texts[i], &found);
        assert_string_equal(found, "");
        assert_int_equal(err, SN_OK);
        free(found);
    }
}

static const struct {
    const char *text;
    const char *part; /* of the finding */
} bad_values[] = {
    {"text: a", "f:1:7: text: the text has 1 bytes; allowed are 2 to 4"},
    {"text: abcde", "f:1:7: text: the text has 5 bytes; allowed are 2 to 4"},
    {"text: 12", "text: expected a text, found the number `12`; put it in quotes"},
    {"text: no", "text: expected a text, found the truth value `no`; put it in quotes"},
    {"text: ~", "text: expected a text, found `~`, which means nothing"},
    {"text:", "f:1:1: text: expected a text, found nothing"},
    {"text: [ab]", "text: expected a text, found a list"},
    {"text: {a: b}", "text: expected a text, found a mapping"},
    {"int: 6", "f:1:6: int: `6` is out of range; allowed are -5 to 5"},
    {"int: -6", "int: `-6` is out of range; allowed are -5 to 5"},
    {"int: \"1\"",
     "expected a whole number, found the text `1` in quotes; write it without quotes"},
    {"int: '1x'", "expected a whole number, found the text `1x` in quotes\n"},
    {"int: 0777", "found the number `0777`; write decimal digits only, without leading zeros"},
    {"int: 0x1f", "found the number `0x1f`; write decimal digits only"},
    {"int: 1e3", "found the number `1e3`; write decimal digits only"},
    {"int: 1_000", "found the number `1_000`; write decimal digits only"},
    {"int: 1:30", "found the number `1:30`; write decimal digits only"},
    {"int: +1", "found the number `+1`; write decimal digits only"},
    {"int: 1.0", "found the number `1.0`; write decimal digits only"},
    {"int: yes", "expected a whole number, found the truth value `yes`"},
    {"int: ~", "expected a whole number, found `~`, which means nothing"},
    {"big: 9223372036854775808", "`9223372036854775808` is too large"},
    {"bool: yes", "f:1:7: bool: expected true or false, found the truth value `yes`; write true"},
    {"bool: off", "found the truth value `off`; write false"},
    {"bool: True", "found the truth value `True`; write true"},
    {"bool: \"true\"", "found the text `true` in quotes; write it without quotes"},
    {"bool: 'yes'", "found the text `yes` in quotes; write true"},
    {"bool: 1", "expected true or false, found the number `1`"},
    {"enum: gren", "`gren` is not one of red|green|blue; did you mean `green`?"},
    {"enum: violet", "`violet` is not one of red|green|blue\n"},
    {"enum: yes", "found the truth value `yes`"},
    {"label: A", "expected a name of 1 to 63 letters a-z, digits and hyphens, found `A`"},
    {"label: -a", "expected a name"},
    {"label: 1e3", "expected a name of 1 to 63 letters a-z, digits and hyphens, found the number"},
    {"agent: a", "expected an agent as site/agent, found `a`"},
    {"agent: a/*", "expected an agent as site/agent, found `a/*`"},
    {"pattern: a*", "expected an agent as site/agent, a site as site/*, or *, found `a*`"},
    {"types: a.*.b", "expected a message type such as echo.say, echo.*, or *, found `a.*.b`"},
    {"address: h", "expected an address as host:port, found `h`"},
    {"address: h:0", "found `h:0`; port 0 cannot be dialled"},
    {"address: tls://h:1", "found `tls://h:1`; write it without the scheme"},
    {"address: h:65536", "expected an address as host:port, found `h:65536`"},
    {"listen: 80", "expected an address to listen on as host:port, found the number `80`"},
    {"path: \"\"", "expected a file name, found ``"},
    {"path: \"a\\nb\"", "expected a file name, found `a\\x0ab`"},
    {"actor: a/b", "expected an actor as site/agent:actor, found `a/b`"},
    {"actor: \":b\"", "expected an actor as site/agent:actor, found `:b`"},
    {"key: ed25519:00", "expected a public key as ed25519:<64 hexadecimal digits>, found"},
    {"key: x" KEY_A, "expected a public key"},
    {"key: \"" KEY_A "0\"", "expected a public key"},
    {"url: h:1", "found `h:1`; write tls:// in front"},
    {"url: http://h:1",
     "expected an address to listen on as tls://host:port, found `http://h:1`\n"},
    {"map: {}", "f:1:1: map.name: required key `name` is missing: Who."},
    {"map: x", "expected a mapping, found the text `x`"},
    {"map: {name: x, sise: 1}", "f:1:16: map.sise: unknown key `sise`; did you mean `size`?"},
    {"dict: {A: true}", "f:1:8: dict.A: expected a name"},
    {"dict: {a: true, b: true, c: true}", "3 entries; allowed are 0 to 2"},
    {"dict: {a: 1}", "f:1:11: dict.a: expected true or false, found the number `1`"},
    {"agents: {a: true}", "agents.a: expected an agent as site/agent, found the key `a`"},
    {"list: []", "f:1:7: list: 0 entries; allowed are 1 to 2"},
    {"list: 1", "expected a list, found the number `1`"},
    {"list: [1, 10]", "f:1:11: list[1]: `10` is out of range; allowed are 1 to 9"},
    {"some: {name: x}", "f:1:7: some: expected a list, found a mapping"},
    {"some: X", "f:1:7: some: expected a name"},
    {"some: [{size: 1}]", "f:1:8: some[0].name: required key `name` is missing: Who."},
    {"some: [x, X]", "f:1:11: some[1]: expected a name"},
    {"any:", "f:1:1: any: expected a value, found nothing"},
    {"any: ~", "any: expected a value, found `~`, which means nothing"},
    {"txt: ab", "f:1:1: txt: unknown key `txt`; did you mean `text`?"},
    {"\"a\\x1b\": ab", "f:1:1: a\\x1b: unknown key `a\\x1b`; the keys here are: text, int, big,"},
    {"[text]", "f:1:1: .: expected a mapping, found a list"},
    {"text", "f:1:1: .: expected a mapping, found the text `text`"},
};

static void bad_values_of_each_kind_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < SN_ARRAY_COUNT(bad_values); i++) {
        char *found = NULL;
        enum sn_err err = check(bad_values[i].text, &found);
        if (strstr(found, bad_values[i].part) == NULL)
            print_error("%s: %s", bad_values[i].text, found);
        assert_non_null(strstr(found, bad_values[i].part));
        assert_int_equal(err, SN_EINVAL);
        assert_ptr_equal(strchr(found, '\n'), found + strlen(found) - 1); /* one finding */
        free(found);
    }
}

/* What YAML readers disagree about is nobody's value, whatever kind is wanted. */
static void ambiguous_scalars_are_refused_for_each_kind(void **state)
{
    (void)state;
    static const char *const keys[] = {"text",  "int",    "bool",    "enum", "label", "agent",
                                       "types", "listen", "address", "path", "actor", "pattern",
                                       "key",   "url",    "map",     "dict", "list",  "some"};
    static const char *const scalars[] = {
        "yes", "no",   "ON",    "Off",  "True", "FALSE", "~",     "null",  "NULL",
        "",    "0777", "0o17",  "0x1f", "0b11", "1e3",   "1E+3",  "1_000", "1.5",
        ".5",  ".inf", "-.INF", ".NaN", "1:30", "+1",    "-0777", "00",    "9223372036854775808"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(keys); i++) {
        for (size_t j = 0; j < SN_ARRAY_COUNT(scalars); j++) {
            char text[64], *found = NULL, place[64];
            (void)snprintf(text, sizeof text, "%s: %s", keys[i], scalars[j]); /* fits */
            size_t column = scalars[j][0] == '\0' ? 1 : strlen(keys[i]) + 3;
            (void)snprintf(place, sizeof place, "f:1:%zu: %s: ", column, keys[i]); /* fits */
            assert_int_equal(check(text, &found), SN_EINVAL);
            if (strncmp(found, place, strlen(place)) != 0) print_error("%s: %s", text, found);
            assert_memory_equal(found, place, strlen(place));
            assert_ptr_equal(strchr(found, '\n'), found + strlen(found) - 1); /* one finding */
            free(found);
        }
    }
}

/* Both names are one letter away; the one that is missing is meant. */
static void a_key_that_is_missing_is_suggested_first(void **state)
{
    (void)state;
    char *found = NULL;
    assert_int_equal(check("map: {name: x, nam: y}", &found), SN_EINVAL);
    assert_string_equal(found, "f:1:16: map.nam: unknown key `nam`; did you mean `name`?\n");
    free(found);
    assert_int_equal(check("map: {nam: y, size: 2}", &found), SN_EINVAL);
    assert_non_null(strstr(found, "map.nam: unknown key `nam`; did you mean `name`?"));
    free(found);
}

static void defaults_come_from_the_table(void **state)
{
    (void)state;
    static const char text[] = "big: 4\nbool: false\nmap: {name: n}\n";
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_config_tree *tree = NULL;
    assert_int_equal(sn_config_parse(text, strlen(text), "f", &findings, &tree), SN_OK);
    const struct sn_config_node *root = sn_config_root(tree);
    assert_int_equal(sn_schema_check(root, fields, &findings), SN_OK);
    assert_string_equal(sn_config_get_text(root, fields, "text"), "abc");
    assert_null(sn_config_get_text(root, fields, "label"));
    assert_int_equal(sn_config_get_int(root, fields, "int"), -2);
    assert_int_equal(sn_config_get_int(root, fields, "big"), 4);
    assert_int_equal(sn_config_get_bool(root, fields, "bool"), 0);
    assert_int_equal(sn_config_get_bool(NULL, fields, "bool"), 1);
    assert_int_equal(sn_config_get_int(NULL, fields, "big"), 0);
    const struct sn_config_node *map = sn_config_get(root, "map");
    assert_string_equal(sn_config_get_text(map, pair_fields, "name"), "n");
    assert_int_equal(sn_config_get_int(map, pair_fields, "size"), 3);
    sn_config_tree_free(tree);
    sn_findings_fini(&findings);
}

/* A plugin's part is checked alone, and its findings still name the whole path. */
static void a_part_of_a_tree_keeps_its_path(void **state)
{
    (void)state;
    static const char text[] = "plugins:\n  - config: {name: x, siz: 1}\n";
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_config_tree *tree = NULL;
    assert_int_equal(sn_config_parse(text, strlen(text), "f", &findings, &tree), SN_OK);
    const struct sn_config_node *config =
        sn_config_get(sn_config_at(sn_config_get(sn_config_root(tree), "plugins"), 0), "config");
    assert_int_equal(sn_schema_check(config, pair_fields, &findings), SN_EINVAL);
    char *found = findings_text(&findings);
    assert_string_equal(found,
                        "f:2:23: plugins[0].config.siz: unknown key `siz`; did you mean `size`?\n");
    free(found);
    sn_config_tree_free(tree);
    sn_findings_fini(&findings);
}

static void the_reference_lists_every_key(void **state)
{
    (void)state;
    char *text = NULL;
    assert_int_equal(sn_schema_reference("Things", fields, &text), SN_OK);
    static const char *const rows[] = {
        "## Things\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n",
        "\n| `text` | text | `abc` | A text. |\n",
        "\n| `int` | number -5 to 5 | `-2` | A number. |\n",
        "\n| `enum` | word: red, green, blue | | A colour. |\n",
        "\n| `map.name` | name | required | Who. |\n",
        "\n| `some[].size` | number | `3` | How much. |\n",
        "\n| `list` | list of number | | List. |\n",
        "\n| `some` | list of mapping, or one alone | | Pairs. |\n",
        "\n| `any` | any | | Anything. |\n",
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(rows); i++) assert_non_null(strstr(text, rows[i]));
    size_t lines = 0;
    for (const char *at = text; *at != '\0'; at++) lines += *at == '\n';
    assert_int_equal(lines, 4 + 21 + 2 + 2); /* heading, fields, those of `map` and of `some` */
    sn_strfree(text);
    enum sn_err err = SN_ENOMEM;
    for (uint64_t nth = 1; err == SN_ENOMEM; nth++) {
        text = NULL;
        sn_alloc_fail_nth(nth);
        err = sn_schema_reference("Things", fields, &text);
        sn_alloc_fail_nth(0);
        sn_strfree(text);
        assert_int_equal(sn_alloc_in_use(), 0);
    }
    assert_int_equal(err, SN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_values_of_each_kind_pass),
        cmocka_unit_test(bad_values_of_each_kind_are_named),
        cmocka_unit_test(ambiguous_scalars_are_refused_for_each_kind),
        cmocka_unit_test(a_key_that_is_missing_is_suggested_first),
        cmocka_unit_test(defaults_come_from_the_table),
        cmocka_unit_test(a_part_of_a_tree_keeps_its_path),
        cmocka_unit_test(the_reference_lists_every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
