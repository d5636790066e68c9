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
#include "config/tree.h"
#include "unit/config/support.h"

static struct sn_config_tree *parse_good(const char *text)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_config_tree *tree = NULL;
    enum sn_err err = sn_config_parse(text, strlen(text), "f", &findings, &tree);
    char *found = findings_text(&findings);
    assert_string_equal(found, "");
    assert_int_equal(err, SN_OK);
    free(found);
    sn_findings_fini(&findings);
    return tree;
}

static void expect_bad(const char *text, size_t size, const char *expected)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_config_tree *tree = NULL;
    enum sn_err err = sn_config_parse(text, size, "f", &findings, &tree);
    char *found = findings_text(&findings);
    assert_string_equal(found, expected);
    assert_int_equal(err, SN_EINVAL);
    assert_null(tree);
    free(found);
    sn_findings_fini(&findings);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void expect_pos(struct sn_config_pos pos, uint32_t line, uint32_t column)
{
    assert_int_equal(pos.line, line);
    assert_int_equal(pos.column, column);
}

static void a_tree_is_read_by_key_and_by_index(void **state)
{
    (void)state;
    struct sn_config_tree *tree =
        parse_good("name: \"a b\"\nport: 80\non: true\nlist: [x, 'y']\nmap:\n  z: -1\n  a: {}\n");
    const struct sn_config_node *root = sn_config_root(tree);
    assert_int_equal(sn_config_shape(root), SN_CONFIG_MAPPING);
    assert_int_equal(sn_config_count(root), 5);
    assert_string_equal(sn_config_key_at(root, 0), "name");
    assert_string_equal(sn_config_key_at(root, 4), "map");
    assert_null(sn_config_key_at(root, 5));
    assert_null(sn_config_at(root, 5));
    assert_null(sn_config_get(root, "nam"));
    assert_string_equal(sn_config_text(sn_config_get(root, "name"), "-"), "a b");
    assert_int_equal(sn_config_int(sn_config_get(root, "port"), 1), 80);
    assert_int_equal(sn_config_bool(sn_config_get(root, "on"), 0), 1);
    const struct sn_config_node *list = sn_config_get(root, "list");
    assert_int_equal(sn_config_shape(list), SN_CONFIG_SEQUENCE);
    assert_int_equal(sn_config_count(list), 2);
    assert_string_equal(sn_config_text(sn_config_at(list, 1), "-"), "y");
    assert_null(sn_config_key_at(list, 0));
    assert_null(sn_config_get(list, "x"));
    assert_true(sn_config_is_plain(sn_config_at(list, 0)));
    assert_false(sn_config_is_plain(sn_config_at(list, 1)));
    const struct sn_config_node *map = sn_config_get(root, "map");
    assert_int_equal(sn_config_int(sn_config_get(map, "z"), 1), -1);
    assert_int_equal(sn_config_count(sn_config_get(map, "a")), 0);
    assert_string_equal(sn_config_key(map), "map");
    assert_string_equal(sn_config_file(map), "f");
    sn_config_tree_free(tree);
}

static void absent_values_yield_what_the_caller_says(void **state)
{
    (void)state;
    struct sn_config_tree *tree = parse_good("q: \"1\"\nm: {}\nw: word\nb: \"true\"\n");
    const struct sn_config_node *root = sn_config_root(tree);
    assert_null(sn_config_get(NULL, "x"));
    assert_int_equal(sn_config_count(NULL), 0);
    assert_null(sn_config_at(NULL, 0));
    assert_null(sn_config_key_at(NULL, 0));
    assert_string_equal(sn_config_text(NULL, "d"), "d");
    assert_int_equal(sn_config_int(NULL, 5), 5);
    assert_int_equal(sn_config_bool(NULL, 1), 1);
    assert_string_equal(sn_config_text(sn_config_get(root, "m"), "d"), "d");
    assert_int_equal(sn_config_int(sn_config_get(root, "q"), 5), 5); /* quoted is text */
    assert_int_equal(sn_config_int(sn_config_get(root, "w"), 5), 5);
    assert_int_equal(sn_config_bool(sn_config_get(root, "b"), 0), 0);
    assert_int_equal(sn_config_bool(sn_config_get(root, "m"), 1), 1);
    sn_config_tree_free(tree);
}

static void a_scalar_is_a_list_of_one(void **state)
{
    (void)state;
    struct sn_config_tree *tree = parse_good("a: x\n");
    const struct sn_config_node *node = sn_config_get(sn_config_root(tree), "a");
    assert_int_equal(sn_config_count(node), 1);
    assert_ptr_equal(sn_config_at(node, 0), node);
    assert_null(sn_config_at(node, 1));
    assert_null(sn_config_key_at(node, 0));
    sn_config_tree_free(tree);
}

static void positions_and_paths_are_exact(void **state)
{
    (void)state;
    struct sn_config_tree *tree =
        parse_good("# c, []\na:\n  - b: 1\n    \"c d\": [x,  y]\n\xc3\xa9: \xc3\xa9 # e\nn: z\n");
    const struct sn_config_node *root = sn_config_root(tree);
    const struct sn_config_node *entry = sn_config_at(sn_config_get(root, "a"), 0);
    const struct sn_config_node *second = sn_config_at(sn_config_get(entry, "c d"), 1);
    char path[SN_FINDING_PATH_MAX];
    expect_pos(sn_config_where(root), 2, 1);
    expect_pos(sn_config_where_key(root), 2, 1);
    expect_pos(sn_config_where_key(sn_config_get(root, "a")), 2, 1);
    expect_pos(sn_config_where(sn_config_get(root, "a")), 3, 3);
    expect_pos(sn_config_where(sn_config_get(entry, "b")), 3, 8);
    expect_pos(sn_config_where_key(sn_config_get(entry, "c d")), 4, 5);
    expect_pos(sn_config_where(second), 4, 17);
    expect_pos(sn_config_where(sn_config_get(root, "\xc3\xa9")), 5, 4); /* characters, not bytes */
    sn_config_path(second, path, sizeof path);
    assert_string_equal(path, "a[0].c d[1]");
    sn_config_path(root, path, sizeof path);
    assert_string_equal(path, ".");
    sn_config_path(second, path, 5);
    assert_string_equal(path, "a[0]");
    sn_config_tree_free(tree);
}

static void line_ends_and_marks_of_other_systems_are_read(void **state)
{
    (void)state;
    struct sn_config_tree *tree = parse_good("\xef\xbb\xbf"
                                             "a: 1\r\nb: |\r\n  x\r\n  y\r\n");
    const struct sn_config_node *root = sn_config_root(tree);
    assert_int_equal(sn_config_int(sn_config_get(root, "a"), 0), 1);
    assert_string_equal(sn_config_text(sn_config_get(root, "b"), ""), "x\ny\n");
    expect_pos(sn_config_where_key(sn_config_get(root, "b")), 2, 1);
    sn_config_tree_free(tree);
}

static void what_yaml_could_hide_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *findings;
    } cases[] = {
        {"", "f:1:1: .: the file is empty\n"},
        {"# only a comment\n", "f:1:1: .: the file is empty\n"},
        {"a: &x 1\nb: *x\n", "f:1:4: a: anchors and aliases are not supported\n"
                             "f:2:4: b: anchors and aliases are not supported\n"},
        {"&k a: 1\n", "f:1:1: .: anchors and aliases are not supported\n"},
        {"a: &m {}\n", "f:1:4: a: anchors and aliases are not supported\n"},
        {"a: &l []\n", "f:1:4: a: anchors and aliases are not supported\n"},
        {"*k : 1\n", "f:1:1: .: a key must be plain text, not a list, mapping or alias\n"},
        {"a: !!int 1\n", "f:1:4: a: tags are not supported\n"},
        {"a: ! x\n", "f:1:4: a: tags are not supported\n"},
        {"a: !t {}\n", "f:1:4: a: tags are not supported\n"},
        {"!t a: 1\n", "f:1:1: .: tags are not supported\n"},
        {"%YAML 1.1\n---\na: 1\n", "f:1:1: .: %YAML and %TAG directives are not supported\n"},
        {"%TAG ! !x\n---\na: 1\n", "f:1:1: .: %YAML and %TAG directives are not supported\n"},
        {"a: 1\n---\nb: 2\n",
         "f:2:1: .: a second document; a configuration is one YAML document\n"},
        {"a: {<<: {b: 1}}\n", "f:1:5: a: merge keys are not supported; repeat the keys\n"},
        {"a: 1\nb: 2\na: 3\na: 4\n",
         "f:3:1: a: key `a` stands here twice; the first is at 1:1; remove one of them\n"
         "f:4:1: a: key `a` stands here twice; the first is at 1:1; remove one of them\n"},
        {"x: {\"a\": 1, a: 2}\n",
         "f:1:13: x.a: key `a` stands here twice; the first is at 1:5; remove one of them\n"},
        {"{a: 1}: 2\n", "f:1:1: .: a key must be plain text, not a list, mapping or alias\n"},
        {"? [a]\n: 2\n", "f:1:3: .: a key must be plain text, not a list, mapping or alias\n"},
        {"{? : 2}\n", "f:1:4: .: a key is missing before the colon\n"},
        {"a: [1, ]\n", "f:1:8: a: a comma with nothing behind it; is an entry missing?\n"},
        {"a: [1, # x, y\n]\n", "f:2:1: a: a comma with nothing behind it; is an entry missing?\n"},
        {"a: [[\"\xc3\xa9,\"], [{b: 1, }] # ,\n ]\n",
         "f:1:21: a[1][0]: a comma with nothing behind it; is an entry missing?\n"},
        {"a: x\n  y\n", "f:1:4: a: text without quotes runs on over several lines; check the "
                        "indentation\n"},
        {"a: 'x\n  y'\n", "f:1:4: a: quoted text runs on over several lines; is the closing quote "
                          "missing?\n"},
        {"a: \"\\0\"\n", "f:1:4: a: the text contains a NUL byte\n"},
        {"\"a\\0\": 1\n", "f:1:1: .: a key contains a NUL byte\n"},
        {"a:\n\t b: 1\n", "f:2:1: .: a tab in the indentation; use spaces\n"},
        {"a:\n  \tb: 1\n", "f:2:3: .: a tab in the indentation; use spaces\n"},
        {"a: \x01\n", "f:1:4: .: a control character\n"},
        {"a: x\x7f\n", "f:1:5: .: a control character\n"},
        {"a: \xc2\x85\n", "f:1:4: .: a control character\n"},
        {"a: \xe2\x80\xa8 b\n", "f:1:4: .: a control character\n"},
        {"a: \xef\xbb\xbf\n", "f:1:4: .: a control character\n"},
        {"a: \xff\n", "f:1:4: .: a byte that is not UTF-8\n"},
        {"a: \xc3\xa9\xc3\n", "f:1:5: .: a byte that is not UTF-8\n"},
        {"\xed\xa0\x80", "f:1:1: .: a byte that is not UTF-8\n"},
        {"\xfe\xff\n", "f:1:1: .: a byte that is not UTF-8\n"},
        {"a: \xf0\x9f\x98", "f:1:4: .: a byte that is not UTF-8\n"},
        {"a: [1\n", "f:2:1: a: YAML syntax: did not find expected ',' or ']'\n"},
        {"a: b: c\n", "f:1:5: .: YAML syntax: mapping values are not allowed in this context; "
                      "check the indentation\n"},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        expect_bad(cases[i].text, strlen(cases[i].text), cases[i].findings);
    }
    expect_bad("a: 1\nb\0: 1\n", 11, "f:2:2: .: a NUL byte; a configuration is UTF-8 text\n");
    expect_bad(NULL, 0, "f:1:1: .: the file is empty\n");
}

/* Repeats `unit` until `size` bytes are there. */
static char *repeat(const char *head, const char *unit, size_t size)
{
    char *text = malloc(size);
    assert_non_null(text);
    size_t used = strlen(head);
    memcpy(text, head, used);
    for (size_t i = 0; used < size; i++) text[used++] = unit[i % strlen(unit)];
    return text;
}

static void hostile_files_are_refused_in_bounded_time_and_memory(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        const char *unit;
        size_t size;
        const char *findings; /* NULL: whatever, but refused */
    } cases[] = {
        {"", "a", (size_t)10 << 20,
         "f:1:1: .: the file has 10485760 bytes; at most 4194304 are "
         "allowed\n"},
        {"", "[", (size_t)256 << 10,
         "f:1:17: [0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: "
         "nested too deeply (16 levels at most)\n"},
        {"", "{a: ", (size_t)256 << 10,
         "f:1:65: a.a.a.a.a.a.a.a.a.a.a.a.a.a.a: nested too "
         "deeply (16 levels at most)\n"},
        {"", "- ", (size_t)256 << 10,
         "f:1:33: [0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: "
         "nested too deeply (16 levels at most)\n"},
        {"a: [", "x,", SN_CONFIG_BYTES_MAX,
         "f:1:524289: a: the file has too many entries (262144 at most)\n"},
        {"", "- a\n", SN_CONFIG_BYTES_MAX,
         "f:262144:3: .: the file has too many entries (262144 at most)\n"},
        {"a: ", "\xff", (size_t)256 << 10, "f:1:4: .: a byte that is not UTF-8\n"},
        {"", "? ", (size_t)64 << 10, NULL},
        {"", "\"", (size_t)64 << 10, NULL},
        {"a: \"", "\\x41", (size_t)64 << 10, NULL},
        {"a: ", "&a ", (size_t)64 << 10, NULL},
        {"a: [", "*a,", (size_t)64 << 10, NULL},
        {"", "!!!", (size_t)64 << 10, NULL},
        {"", "%a\n", (size_t)64 << 10, NULL},
        {"", "---\n", (size_t)64 << 10, NULL},
        {"", "a: b: ", (size_t)64 << 10, NULL},
        {"", "a\n", (size_t)64 << 10, NULL},
        {"", "#", (size_t)64 << 10, NULL},
        {"a: |\n", " \n", (size_t)64 << 10, NULL},
        {"", "]", (size_t)64 << 10, NULL},
        {"", "x: 1\n", (size_t)64 << 10, NULL},
        {"[", "a: b,", (size_t)64 << 10, NULL},
        {"- ", "\n  - ", (size_t)64 << 10, NULL},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        char *text = repeat(cases[i].head, cases[i].unit, cases[i].size);
        struct sn_findings findings;
        sn_findings_init(&findings);
        struct sn_config_tree *tree = NULL;
        enum sn_err err = sn_config_parse(text, cases[i].size, "f", &findings, &tree);
        if (err == SN_OK) { /* some are odd but good YAML */
            assert_null(cases[i].findings);
            sn_config_tree_free(tree);
        } else {
            assert_int_equal(err, SN_EINVAL);
            assert_in_range(findings.count, 1, SN_CONFIG_FINDINGS_MAX);
        }
        char *found = findings_text(&findings);
        if (cases[i].findings != NULL) assert_string_equal(found, cases[i].findings);
        free(found);
        free(text);
        sn_findings_fini(&findings);
        assert_int_equal(sn_alloc_in_use(), 0);
    }
}

/* The classic: nine references a level would make a billion of nothing. */
static void an_alias_bomb_does_not_go_off(void **state)
{
    (void)state;
    char text[2048] = "a0: &a0 [lol]\n";
    size_t size = strlen(text);
    for (unsigned i = 1; i < 10; i++) {
        size += (size_t)snprintf(text + size, sizeof text - size, "a%u: &a%u [", i, i);
        for (unsigned j = 0; j < 9; j++) {
            size += (size_t)snprintf(text + size, sizeof text - size, "%s*a%u", j == 0 ? "" : ",",
                                     i - 1);
        }
        size += (size_t)snprintf(text + size, sizeof text - size, "]\n");
    }
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_config_tree *tree = NULL;
    assert_int_equal(sn_config_parse(text, size, "f", &findings, &tree), SN_EINVAL);
    assert_int_equal(findings.total, 10 + 81);
    assert_string_equal(findings.items[90]->path, "a9[8]");
    sn_findings_fini(&findings);
    assert_int_equal(sn_alloc_in_use(), 0);
}

/* What the largest files cost, as good as they are: an agent that reads one is no danger to its machine. */
static void the_largest_files_have_bounded_costs(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        const char *unit;
        size_t size;
    } cases[] = {
        {"", "- a\n", (size_t)4 * (SN_CONFIG_NODES_MAX - 1)},                /* entries */
        {"", "- []\n", (size_t)5 * (SN_CONFIG_NODES_MAX - 1)},               /* containers */
        {"a: |\n", " xxxxxxxxxxxxxxx\n", SN_CONFIG_BYTES_MAX / 17 * 17 + 5}, /* text */
        {"a: 1\n", "#xxxxxxxxxxxxxxx\n", SN_CONFIG_BYTES_MAX / 17 * 17 + 5},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        assert_true(cases[i].size <= SN_CONFIG_BYTES_MAX);
        char *text = repeat(cases[i].head, cases[i].unit, cases[i].size);
        struct sn_findings findings;
        sn_findings_init(&findings);
        struct sn_config_tree *tree = NULL;
        assert_int_equal(sn_config_parse(text, cases[i].size, "f", &findings, &tree), SN_OK);
        assert_in_range(sn_alloc_in_use(), 1, (size_t)48 << 20);
        sn_config_tree_free(tree);
        sn_findings_fini(&findings);
        free(text);
        assert_int_equal(sn_alloc_in_use(), 0);
    }
}

/* Findings are bounded, however much is wrong. */
static void the_worst_files_have_bounded_findings(void **state)
{
    (void)state;
    static const char *const units[] = {"- &a x\n", "- *a\n", "- !t x\n", "- \"\\0\"\n",
                                        "- [x,]\n"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(units); i++) {
        size_t size = strlen(units[i]) * 100000;
        char *text = repeat("", units[i], size);
        struct sn_findings findings;
        sn_findings_init(&findings);
        struct sn_config_tree *tree = NULL;
        assert_int_equal(sn_config_parse(text, size, "f", &findings, &tree), SN_EINVAL);
        assert_int_equal(findings.count, SN_CONFIG_FINDINGS_MAX);
        assert_in_range(sn_alloc_in_use(), 1, (size_t)1 << 20);
        sn_findings_fini(&findings);
        free(text);
        assert_int_equal(sn_alloc_in_use(), 0);
    }
}

/* 20,000 keys, each there twice, must not take quadratic time. */
static void many_keys_are_found_fast(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    size_t capacity = (size_t)COUNT * 2 * 12 + 1;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t size = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        size += (size_t)snprintf(text + size, capacity - size, "k%u: 1\n", i * 7919 % COUNT);
    }
    text[size] = '\0';
    struct sn_config_tree *tree = parse_good(text);
    char key[16];
    for (unsigned i = 0; i < COUNT; i++) {
        (void)snprintf(key, sizeof key, "k%u", i); /* fits */
        assert_non_null(sn_config_get(sn_config_root(tree), key));
    }
    sn_config_tree_free(tree);
    memcpy(text + size, text, size);
    struct sn_findings findings;
    sn_findings_init(&findings);
    assert_int_equal(sn_config_parse(text, 2 * size, "f", &findings, &tree), SN_EINVAL);
    assert_int_equal(findings.total, COUNT);
    assert_int_equal(findings.count, SN_CONFIG_FINDINGS_MAX);
    sn_findings_fini(&findings);
    free(text);
}

static void long_keys_are_refused(void **state)
{
    (void)state;
    char text[256];
    memset(text, 'k', sizeof text);
    memcpy(text + 127, ": 1\n", 5);
    sn_config_tree_free(parse_good(text));
    memset(text, 'k', sizeof text);
    memcpy(text + 128, ": 1\n", 5);
    expect_bad(text, strlen(text), "f:1:1: .: a key is longer than 127 bytes\n");
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    char *text = repeat("a: {b: [", "x,", 8001);
    memcpy(text + 7999, "]}", 2);
    enum sn_err err = SN_ENOMEM;
    uint64_t nth = 1;
    for (; err == SN_ENOMEM; nth++) {
        struct sn_findings findings;
        struct sn_config_tree *tree = NULL;
        sn_findings_init(&findings);
        sn_alloc_fail_nth(nth);
        err = sn_config_parse(text, 8001, "f", &findings, &tree);
        sn_alloc_fail_nth(0);
        assert_int_equal(err == SN_OK, tree != NULL);
        sn_config_tree_free(tree);
        sn_findings_fini(&findings);
        assert_int_equal(sn_alloc_in_use(), 0);
    }
    assert_int_equal(err, SN_OK);
    assert_true(nth > 20); /* the arena grows by chunks */
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_is_read_by_key_and_by_index),
        cmocka_unit_test(absent_values_yield_what_the_caller_says),
        cmocka_unit_test(a_scalar_is_a_list_of_one),
        cmocka_unit_test(positions_and_paths_are_exact),
        cmocka_unit_test(line_ends_and_marks_of_other_systems_are_read),
        cmocka_unit_test(what_yaml_could_hide_is_refused),
        cmocka_unit_test(hostile_files_are_refused_in_bounded_time_and_memory),
        cmocka_unit_test(an_alias_bomb_does_not_go_off),
        cmocka_unit_test(the_largest_files_have_bounded_costs),
        cmocka_unit_test(the_worst_files_have_bounded_findings),
        cmocka_unit_test(many_keys_are_found_fast),
        cmocka_unit_test(long_keys_are_refused),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
