/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slip at a time in every example and in every agent file rendered from it: each key loses,
 * doubles and changes each of its letters, each value vanishes and changes its type, each line
 * moves.
 *
 * Judgement: the slip is refused with a position, or the model says the very same as before (its
 * dump is equal byte by byte), or the key is a name that the operator invents and nothing else in
 * the file mentions, so that no program can know that another one was meant. The last kind is
 * listed below.
 */
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
#include "config/schema.h"
#include "config/tree.h"
#include "unit/config/support.h"

#define NODES_MAX 512

/* Paths of names that nothing refers to: of forwards, of an agent nobody links to, and, in an agent
 * file, of targets, which only other agents' files mention. */
static const char *const free_names[] = {
    "forwards.web",
    "sites.amsterdam.desk",
    "plugins[0].config.forwards.web",
    "plugins[0].config.targets.web",
};

/* Stand-ins for the schemas that plugins bring along: the host checks their parts before they
 * start. */
static const struct sn_config_field pattern_item = {.kind = SN_CONFIG_PATTERN,
                                                    .flags = SN_CONFIG_ROLES};
static const struct sn_config_field target_fields[] = {
    {.key = "address", .kind = SN_CONFIG_ADDRESS, .flags = SN_CONFIG_REQUIRED, .help = ""},
    {.key = "allow",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_REQUIRED,
     .min = 1,
     .max = 256,
     .item = &pattern_item,
     .help = ""},
    {.key = "connect_wait_ms", .kind = SN_CONFIG_INT, .max = 600000, .help = ""},
    {.key = "max_connections", .kind = SN_CONFIG_INT, .min = 1, .max = 65536, .help = ""},
    {.key = "max_per_agent", .kind = SN_CONFIG_INT, .min = 1, .max = 65536, .help = ""},
    {.key = "idle_ms", .kind = SN_CONFIG_INT, .max = 604800000, .help = ""},
    {0},
};
static const struct sn_config_field forward_fields[] = {
    {.key = "listen", .kind = SN_CONFIG_LISTEN, .flags = SN_CONFIG_REQUIRED, .help = ""},
    {.key = "to", .kind = SN_CONFIG_AGENT, .flags = SN_CONFIG_REQUIRED, .help = ""},
    {.key = "target", .kind = SN_CONFIG_LABEL, .flags = SN_CONFIG_REQUIRED, .help = ""},
    {.key = "open_wait_ms", .kind = SN_CONFIG_INT, .min = 1, .max = 900000, .help = ""},
    {.key = "max_connections", .kind = SN_CONFIG_INT, .min = 1, .max = 65536, .help = ""},
    {.key = "idle_ms", .kind = SN_CONFIG_INT, .max = 604800000, .help = ""},
    {0},
};
static const struct sn_config_field target_item = {.kind = SN_CONFIG_MAP, .fields = target_fields};
static const struct sn_config_field forward_item = {.kind = SN_CONFIG_MAP,
                                                    .fields = forward_fields};
static const struct sn_config_field tunnel_fields[] = {
    {.key = "targets", .kind = SN_CONFIG_DICT, .item = &target_item, .help = ""},
    {.key = "forwards", .kind = SN_CONFIG_DICT, .item = &forward_item, .help = ""},
    {0},
};
static const struct sn_config_field echo_fields[] = {
    {.key = "max_bytes",
     .kind = SN_CONFIG_INT,
     .flags = SN_CONFIG_REQUIRED,
     .min = 1,
     .max = 2048,
     .help = ""},
    {0},
};

static enum sn_err check_plugin(const char *name, const struct sn_config_node *config,
                                struct sn_findings *findings)
{
    if (config != NULL && strcmp(name, "tunnel") == 0) {
        return sn_schema_check(config, tunnel_fields, findings);
    }
    if (config != NULL && strcmp(name, "echo") == 0) {
        return sn_schema_check(config, echo_fields, findings);
    }
    return SN_ENOENT; /* a plugin that nobody has, or one without its part */
}

struct sweep {
    const char *text; /* the good one */
    int is_fleet;
    char *dump; /* of the good one */
    uint32_t lines;
    unsigned total;
    unsigned refused;
    unsigned same;
    unsigned free_named;
    unsigned suggested;
};

/* The dump of a text that would start, or NULL and findings. */
static char *judge(const struct sweep *sweep, const char *text, struct sn_findings *findings)
{
    char *dump = NULL;
    struct sn_fleet *fleet = NULL;
    struct sn_agent_file *agent = NULL;
    enum sn_err err = sweep->is_fleet
                          ? sn_fleet_parse(text, strlen(text), "f", findings, &fleet)
                          : sn_agent_file_parse(text, strlen(text), "f", findings, &agent);
    for (uint32_t i = 0; fleet != NULL && err == SN_OK && i < fleet->plugin_count; i++) {
        err = check_plugin(fleet->plugins[i].name, fleet->plugins[i].config, findings);
    }
    for (uint32_t i = 0; agent != NULL && err == SN_OK && i < agent->plugin_count; i++) {
        err = check_plugin(agent->plugins[i].name, agent->plugins[i].config, findings);
    }
    if (err == SN_OK) dump = fleet != NULL ? fleet_dump(fleet) : agent_dump(agent);
    sn_fleet_free(fleet);
    sn_agent_file_free(agent);
    return dump;
}

static int is_free_name(const char *path)
{
    for (size_t i = 0; path != NULL && i < SN_ARRAY_COUNT(free_names); i++) {
        if (strcmp(free_names[i], path) == 0) return 1;
    }
    return 0;
}

/* A slip in a key of the schema must bring up the right key. */
static void expect_suggestion(struct sweep *sweep, const struct sn_findings *findings,
                              const char *key)
{
    char wanted[256];
    char *found = findings_text(findings);
    if (strstr(found, "unknown key") != NULL) {
        int size = snprintf(wanted, sizeof wanted, "did you mean `%s`?", key);
        assert_true(size > 0 && (size_t)size < sizeof wanted);
        if (strstr(found, wanted) == NULL) print_error("key %s: %s", key, found);
        assert_non_null(strstr(found, wanted));
        sweep->suggested++;
    }
    free(found);
}

/* Tries the good text with [start, end) replaced. `path` and `key` are of a key that was changed.
 */
static void try_slip(struct sweep *sweep, size_t start, size_t end, const char *fresh,
                     const char *path, const char *key)
{
    size_t capacity = strlen(sweep->text) + strlen(fresh) + 1;
    char *text = malloc(capacity);
    assert_non_null(text);
    int size =
        snprintf(text, capacity, "%.*s%s%s", (int)start, sweep->text, fresh, sweep->text + end);
    assert_true(size >= 0 && (size_t)size < capacity);
    struct sn_findings findings;
    sn_findings_init(&findings);
    char *dump = judge(sweep, text, &findings);
    sweep->total++;
    if (dump == NULL) {
        sweep->refused++;
        for (uint32_t i = 0; i < findings.count; i++) {
            assert_in_range(findings.items[i]->line, 1, sweep->lines + 1);
            assert_in_range(findings.items[i]->column, 1, 200);
        }
        if (key != NULL) expect_suggestion(sweep, &findings, key);
    } else if (strcmp(dump, sweep->dump) == 0) {
        sweep->same++;
    } else if (is_free_name(path)) {
        sweep->free_named++;
    } else {
        print_error("accepted at %.40s -> %s\n", sweep->text + start, fresh);
        fail();
    }
    sn_findings_fini(&findings);
    free(dump);
    free(text);
}

static size_t offset_of(const char *text, struct sn_config_pos pos)
{
    const char *at = text;
    for (uint32_t line = 1; line < pos.line; line++) at = strchr(at, '\n') + 1;
    return (size_t)(at - text) + pos.column - 1; /* the texts are ASCII */
}

/* End of the quoted text or bracket that starts at `at`. */
static size_t span_of_flow(const char *at)
{
    int depth = 0;
    int is_quoted = 0;
    for (size_t i = 0; at[i] != '\0'; i++) {
        if (at[i] == '"') is_quoted = !is_quoted;
        if (!is_quoted && strchr("[{", at[i]) != NULL) depth++;
        if (!is_quoted && strchr("]}", at[i]) != NULL) depth--;
        if (!is_quoted && depth == 0) return i + 1;
    }
    fail();
    return 0;
}

static size_t end_of(const char *text, const struct sn_config_node *node)
{
    while (1) {
        size_t start = offset_of(text, sn_config_where(node));
        if (strchr("\"[{", text[start]) != NULL) return start + span_of_flow(text + start);
        if (sn_config_shape(node) == SN_CONFIG_SCALAR) {
            return start + strlen(sn_config_text(node, ""));
        }
        node = sn_config_at(node, sn_config_count(node) - 1);
    }
}

static void change_letters(struct sweep *sweep, const struct sn_config_node *node)
{
    char path[SN_FINDING_PATH_MAX];
    char fresh[SN_CONFIG_KEY_BYTES_MAX + 2];
    const char *key = sn_config_key(node);
    size_t size = strlen(key);
    size_t start = offset_of(sweep->text, sn_config_where_key(node));
    assert_memory_equal(sweep->text + start, key, size);
    sn_config_path(node, path, sizeof path);
    for (size_t i = 0; i < size; i++) {
        memcpy(fresh, key, size + 1);
        fresh[i] = (char)(key[i] == 'z' || key[i] == '_' ? 'a' : key[i] + 1);
        try_slip(sweep, start, start + size, fresh, path, key);
        memcpy(fresh, key, size + 1);
        memmove(fresh + i, key + i + 1, size - i); /* lost */
        try_slip(sweep, start, start + size, fresh, path, size > 1 ? key : NULL);
        memcpy(fresh, key, i + 1);
        memcpy(fresh + i + 1, key + i, size - i + 1); /* doubled */
        try_slip(sweep, start, start + size, fresh, path, key);
    }
}

/* Values of another type, or that another reader might take for the right one. */
static void change_type(struct sweep *sweep, const struct sn_config_node *node, size_t start,
                        size_t end)
{
    static const char *const for_text[] = {"7", "0777", "1e3", "true", "yes", "no", "~", "[7]"};
    static const char *const for_number[] = {"ten",  "\"7\"", "010", "1e3", "0x1f", "1_000",
                                             "true", "yes",   "~",   "7.0", "+7",   "[x]"};
    static const char *const for_map[] = {"[]", "\"!\"", "7", "true", "~", "[{}]"};
    static const char *const for_list[] = {"{}", "\"!\"", "7", "true", "~", "{a: b}", "[[]]"};
    const char *const *values = for_text;
    size_t count = SN_ARRAY_COUNT(for_text);
    if (sn_config_shape(node) == SN_CONFIG_MAPPING) {
        values = for_map;
        count = SN_ARRAY_COUNT(for_map);
    } else if (sn_config_shape(node) == SN_CONFIG_SEQUENCE) {
        values = for_list;
        count = SN_ARRAY_COUNT(for_list);
    } else if (sn_config_int(node, -1) >= 0) {
        values = for_number;
        count = SN_ARRAY_COUNT(for_number);
    }
    for (size_t i = 0; i < count; i++) try_slip(sweep, start, end, values[i], NULL, NULL);
    if (sn_config_shape(node) != SN_CONFIG_SCALAR) return;
    char fresh[512];
    static const char *const wraps[] = {"[\"%s\"]", "[[\"%s\"]]", "{x: \"%s\"}",
                                        "\"%s\"",   "!t \"%s\"",  "&a \"%s\""};
    for (size_t i = 0; i < SN_ARRAY_COUNT(wraps); i++) {
        char *wrapped = edit(wraps[i], "%s", sn_config_text(node, ""));
        assert_true(strlen(wrapped) < sizeof fresh);
        memcpy(fresh, wrapped, strlen(wrapped) + 1);
        free(wrapped);
        try_slip(sweep, start, end, fresh, NULL, NULL);
    }
}

/* All nodes under the root, in file order. */
static size_t collect(const struct sn_config_node *root, const struct sn_config_node **nodes)
{
    size_t count = 0;
    nodes[count++] = root;
    for (size_t i = 0; i < count; i++) {
        if (sn_config_shape(nodes[i]) == SN_CONFIG_SCALAR) continue;
        for (uint32_t j = 0; j < sn_config_count(nodes[i]); j++) {
            assert_true(count < NODES_MAX);
            nodes[count++] = sn_config_at(nodes[i], j);
        }
    }
    return count;
}

static void move_lines(struct sweep *sweep)
{
    for (const char *line = sweep->text; *line != '\0'; line = strchr(line, '\n') + 1) {
        size_t start = (size_t)(line - sweep->text);
        try_slip(sweep, start, start, " ", NULL, NULL);
        try_slip(sweep, start, start, "  ", NULL, NULL);
        try_slip(sweep, start, start, "\t", NULL, NULL);
        if (line[0] == ' ') try_slip(sweep, start, start + 1, "", NULL, NULL);
    }
}

static void run_sweep(const char *text, int is_fleet)
{
    struct sweep sweep = {.text = text, .is_fleet = is_fleet};
    for (const char *at = text; *at != '\0'; at++) sweep.lines += *at == '\n';
    struct sn_findings findings;
    sn_findings_init(&findings);
    sweep.dump = judge(&sweep, text, &findings);
    assert_non_null(sweep.dump);
    struct sn_config_tree *tree = NULL;
    assert_int_equal(sn_config_parse(text, strlen(text), "f", &findings, &tree), SN_OK);
    const struct sn_config_node **nodes = calloc(NODES_MAX, sizeof *nodes);
    assert_non_null(nodes);
    size_t count = collect(sn_config_root(tree), nodes);
    size_t keys = 0;
    for (size_t i = 0; i < count; i++) {
        if (sn_config_key(nodes[i]) != NULL) {
            change_letters(&sweep, nodes[i]);
            keys++;
        }
        size_t start = offset_of(text, sn_config_where(nodes[i]));
        size_t end = end_of(text, nodes[i]);
        try_slip(&sweep, start, end, "", NULL, NULL);
        change_type(&sweep, nodes[i], start, end);
    }
    move_lines(&sweep);
    print_message("%zu values, %zu keys: %u slips, %u refused (%u with the right key), %u without "
                  "effect, %u free names\n",
                  count, keys, sweep.total, sweep.refused, sweep.suggested, sweep.same,
                  sweep.free_named);
    assert_int_equal(sweep.total, sweep.refused + sweep.same + sweep.free_named);
    assert_true(sweep.total > 15 * keys + 5 * count);
    assert_true(sweep.refused > sweep.total / 2 && sweep.same > 0);
    assert_true(sweep.suggested > 10 * (is_fleet ? 5 : 8));
    free(nodes);
    free(sweep.dump);
    sn_config_tree_free(tree);
    sn_findings_fini(&findings);
}

static void sweep_example(const char *name)
{
    char *text = read_example(name);
    uncomment(text); /* what the examples keep for the reader's own plugins */
    assert_non_null(strstr(text, "\naccess:\n"));
    run_sweep(text, 1);
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_fleet *fleet = NULL;
    assert_int_equal(sn_fleet_parse(text, strlen(text), name, &findings, &fleet), SN_OK);
    const char *authority = KEY_A;
    const char *keys[] = {KEY_A, KEY_B, NULL};
    for (uint32_t i = 0; i < fleet->agent_count; i++) {
        assert_true(fleet->agent_count <= SN_ARRAY_COUNT(keys));
        const struct sn_render render = {.fleet = fleet,
                                         .agent = i,
                                         .authorities = &authority,
                                         .authority_count = 1,
                                         .keys = keys};
        char *agent = NULL;
        assert_int_equal(sn_fleet_render(&render, &agent), SN_OK);
        run_sweep(agent, 0);
        sn_strfree(agent);
    }
    sn_fleet_free(fleet);
    sn_findings_fini(&findings);
    free(text);
    assert_int_equal(sn_alloc_in_use(), 0);
}

static void two_sites(void **state)
{
    (void)state;
    sweep_example("two-sites.yaml");
}

static void annotated(void **state)
{
    (void)state;
    sweep_example("annotated.yaml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sites),
        cmocka_unit_test(annotated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
