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
#include "config/equal.h"
#include "config/tree.h"

static struct sn_config_tree *parse(const char *text)
{
    struct sn_findings findings;
    struct sn_config_tree *tree = NULL;
    sn_findings_init(&findings);
    assert_int_equal(sn_config_parse(text, strlen(text), "a", &findings, &tree), SN_OK);
    sn_findings_fini(&findings);
    return tree;
}

static void test_equal(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int is_equal;
    } rows[] = {
        {"a: 1\n", "a: 1\n", 1},
        {"a: 1\nb: [x, y]\n", "# other layout\nb:\n  - x\n  - y\na: 1\n", 1},
        {"a: {b: {c: [1, {d: 2}]}}\n", "a: {b: {c: [1, {d: 2}]}}\n", 1},
        {"a: {b: {c: [1, {d: 2}]}}\n", "a: {b: {c: [1, {d: 3}]}}\n", 0},
        {"a: {b: {c: [1, {d: 2}]}}\n", "a: {b: {c: [1, {e: 2}]}}\n", 0},
        {"a: 1\n", "a: \"1\"\n", 0}, /* a number and a text */
        {"a: [x, y]\n", "a: [y, x]\n", 0},
        {"a: [x]\n", "a: x\n", 0},
        {"a: 1\n", "a: 1\nb: 2\n", 0},
        {"a: {}\n", "a: []\n", 0},
        {"a: {}\n", "a: {}\n", 1},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(rows); i++) {
        struct sn_config_tree *a = parse(rows[i].a), *b = parse(rows[i].b);
        int is_equal = sn_config_is_equal(sn_config_root(a), sn_config_root(b));
        if (!is_equal != !rows[i].is_equal) fail_msg("row %zu: %d", i, is_equal);
        assert_int_equal(sn_config_is_equal(sn_config_root(b), sn_config_root(a)), is_equal);
        sn_config_tree_free(a);
        sn_config_tree_free(b);
    }
    assert_true(sn_config_is_equal(NULL, NULL));
}

static void test_difference(void **state)
{
    (void)state;
    static const char *const skipped[] = {"links", NULL};
    static const struct {
        const char *from, *to, *key; /* "" = the whole, NULL = none */
    } rows[] = {
        {"a: 1\nlinks: [x]\n", "links: [y]\na: 1\n", NULL},
        {"a: 1\n", "a: 1\nlinks: [y]\n", NULL},
        {"a: 1\nlinks: [y]\n", "a: 1\n", NULL},
        {"a: 1\nb: 2\n", "a: 1\nb: 3\n", "b"},
        {"a: 1\n", "a: 1\nb: 3\n", "b"},
        {"a: 1\nb: 2\n", "a: 1\n", ""},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(rows); i++) {
        struct sn_config_tree *from = parse(rows[i].from), *to = parse(rows[i].to);
        const struct sn_config_node *node =
            sn_config_difference(sn_config_root(from), sn_config_root(to), skipped);
        if (rows[i].key == NULL) {
            assert_null(node);
        } else if (rows[i].key[0] == '\0') {
            assert_ptr_equal(node, sn_config_root(to));
        } else {
            assert_ptr_equal(node, sn_config_get(sn_config_root(to), rows[i].key));
        }
        sn_config_tree_free(from);
        sn_config_tree_free(to);
    }
}

/* As deep as a file can be. */
static void test_deep(void **state)
{
    (void)state;
    char text[512] = "";
    size_t size = 0;
    for (unsigned i = 0; i < SN_CONFIG_DEPTH_MAX - 1; i++) {
        size += (size_t)snprintf(text + size, sizeof text - size, "%*sk:\n", (int)i, "");
    }
    (void)snprintf(text + size, sizeof text - size, "%*sk: 1\n", (int)SN_CONFIG_DEPTH_MAX - 1, "");
    struct sn_config_tree *a = parse(text), *b = parse(text);
    assert_true(sn_config_is_equal(sn_config_root(a), sn_config_root(b)));
    text[strlen(text) - 2] = '2';
    struct sn_config_tree *c = parse(text);
    assert_false(sn_config_is_equal(sn_config_root(a), sn_config_root(c)));
    sn_config_tree_free(a);
    sn_config_tree_free(b);
    sn_config_tree_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_difference),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
