/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slip at a time in every example of this tree, and in every agent file rendered from one: each key loses, doubles,
 * changes and swaps its letters and takes capitals, each value vanishes, changes its type and leaves its range, each
 * line moves.
 *
 * Judgement: the slip is refused with a position, or the model says the very same as before (its dump is equal byte by
 * byte), or no program can know that something else was meant: the key is a name that the operator invents (the schema
 * has a DICT there), and the model differs in that name alone, at one place; so nothing else in the file mentions it.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agents/soak/scenario.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "config/render.h"
#include "config/schema.h"
#include "config/starter.h"
#include "config/tree_int.h"
#include "unit/config/support.h"

#define NODES_MAX 512

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

/* NULL: a plugin that nobody has. */
static const struct sn_config_field *fields_of_plugin(const char *name)
{
    if (strcmp(name, "tunnel") == 0) return tunnel_fields;
    /* The template, and what CONTRIBUTING.md makes of it. */
    if (strcmp(name, "echo") == 0 || strcmp(name, "parrot") == 0) return echo_fields;
    return NULL;
}

static enum sn_err check_plugin(const char *name, const struct sn_config_node *config,
                                struct sn_findings *findings)
{
    const struct sn_config_field *fields = fields_of_plugin(name);
    if (config == NULL || fields == NULL) return SN_ENOENT;
    return sn_schema_check(config, fields, findings);
}

enum kind { FLEET, AGENT, SCENARIO };

struct sweep {
    const char *text; /* the good one */
    enum kind kind;
    const struct sn_config_field *fields;
    char *dump; /* of the good one */
    uint32_t lines;
    unsigned total;
    unsigned refused;
    unsigned same;
    unsigned free_named;
    unsigned suggested;
    unsigned ranges;
};

/* Nothing points into it, so its bytes say it all. */
static char *scenario_dump(const struct sn_scenario *scenario)
{
    const unsigned char *bytes = (const unsigned char *)scenario;
    char *dump = calloc(2, sizeof *scenario + 1);
    assert_non_null(dump);
    for (size_t i = 0; i < sizeof *scenario; i++) {
        (void)snprintf(dump + 2 * i, 3, "%02x", bytes[i]); /* fits */
    }
    return dump;
}

static char *judge_scenario(const char *text, struct sn_findings *findings)
{
    struct sn_scenario scenario;
    memset(&scenario, 0, sizeof scenario);
    enum sn_err err = sn_scenario_parse(text, strlen(text), "f", findings, &scenario);
    return err == SN_OK ? scenario_dump(&scenario) : NULL;
}

/* The dump of a text that would start, or NULL and findings. */
static char *judge(const struct sweep *sweep, const char *text, struct sn_findings *findings)
{
    char *dump = NULL;
    struct sn_fleet *fleet = NULL;
    struct sn_agent_file *agent = NULL;
    if (sweep->kind == SCENARIO) return judge_scenario(text, findings);
    enum sn_err err = sweep->kind == FLEET
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

/* --- What the schema says of a node ------------------------------------------------------------ */

/* Of `node`, a child of one that `of` describes; kind 0: a key that the schema does not have. */
static struct sn_config_field field_below(const struct sn_config_field *of,
                                          const struct sn_config_node *node)
{
    static const struct sn_config_field none = {0};
    const struct sn_config_field *fields = of->fields;
    if (of->kind == SN_CONFIG_LIST || of->kind == SN_CONFIG_DICT) return *of->item;
    if (of->kind == SN_CONFIG_ANY) { /* a plugin's part */
        const struct sn_config_node *entry = node->parent->parent;
        fields = fields_of_plugin(sn_config_text(sn_config_get(entry, "name"), ""));
    }
    while (fields != NULL && fields->key != NULL && strcmp(fields->key, node->key) != 0) fields++;
    return fields == NULL || fields->key == NULL ? none : *fields;
}

static struct sn_config_field field_of(const struct sweep *sweep, const struct sn_config_node *node)
{
    const struct sn_config_node *chain[SN_CONFIG_DEPTH_MAX + 1];
    struct sn_config_field field = {.kind = SN_CONFIG_MAP, .fields = sweep->fields};
    size_t depth = 0;
    for (; node->parent != NULL; node = node->parent) chain[depth++] = node;
    while (depth > 0) field = field_below(&field, chain[--depth]);
    return field;
}

/* The operator invents its key. */
static int is_invented(const struct sweep *sweep, const struct sn_config_node *node)
{
    return node->parent != NULL && field_of(sweep, node->parent).kind == SN_CONFIG_DICT;
}

/* Whether `to` is `from` with one `old` replaced by `fresh`. */
static int is_renamed_once(const char *from, const char *to, const char *old, const char *fresh)
{
    for (const char *at = strstr(from, old); at != NULL; at = strstr(at + 1, old)) {
        size_t head = (size_t)(at - from);
        if (strncmp(from, to, head) != 0) return 0;
        if (strncmp(to + head, fresh, strlen(fresh)) != 0) continue;
        if (strcmp(at + strlen(old), to + head + strlen(fresh)) == 0) return 1;
    }
    return 0;
}

/* --- Slips ---------------------------------------------------------------------------------------- */

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

static char *replace(const char *text, size_t start, size_t end, const char *fresh)
{
    size_t capacity = strlen(text) + strlen(fresh) + 1;
    char *changed = malloc(capacity);
    assert_non_null(changed);
    int size = snprintf(changed, capacity, "%.*s%s%s", (int)start, text, fresh, text + end);
    assert_true(size >= 0 && (size_t)size < capacity);
    return changed;
}

static void expect_places(const struct sweep *sweep, const struct sn_findings *findings)
{
    assert_in_range(findings->count, 1, SN_CONFIG_FINDINGS_MAX);
    for (uint32_t i = 0; i < findings->count; i++) {
        assert_string_equal(findings->items[i]->file, "f");
        assert_in_range(findings->items[i]->line, 1, sweep->lines + 1);
        assert_in_range(findings->items[i]->column, 1, 200);
        assert_true(findings->items[i]->message[0] != '\0');
    }
}

/* Tries the good text with [start, end) replaced. `node` is the one whose key was changed, or NULL; `key` is what must
 * be suggested, or NULL. */
static void try_slip(struct sweep *sweep, size_t start, size_t end, const char *fresh,
                     const struct sn_config_node *node, const char *key)
{
    char *text = replace(sweep->text, start, end, fresh);
    struct sn_findings findings;
    sn_findings_init(&findings);
    char *dump = judge(sweep, text, &findings);
    sweep->total++;
    if (dump == NULL) {
        sweep->refused++;
        expect_places(sweep, &findings);
        if (key != NULL) expect_suggestion(sweep, &findings, key);
    } else if (strcmp(dump, sweep->dump) == 0) {
        sweep->same++;
    } else if (node != NULL && is_invented(sweep, node) &&
               is_renamed_once(sweep->dump, dump, node->key, fresh)) {
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

static char upper(char c)
{
    return (char)(c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c);
}

static void change_letters(struct sweep *sweep, const struct sn_config_node *node)
{
    char fresh[SN_CONFIG_KEY_BYTES_MAX + 2];
    const char *key = node->key;
    size_t size = strlen(key);
    size_t start = offset_of(sweep->text, sn_config_where_key(node));
    size_t end = start + size;
    assert_memory_equal(sweep->text + start, key, size);
    for (size_t i = 0; i < size; i++) {
        memcpy(fresh, key, size + 1);
        fresh[i] = (char)(key[i] == 'z' || key[i] == '_' ? 'a' : key[i] + 1);
        try_slip(sweep, start, end, fresh, node, key);
        memcpy(fresh, key, size + 1);
        memmove(fresh + i, key + i + 1, size - i); /* lost */
        try_slip(sweep, start, end, fresh, node, size > 1 ? key : NULL);
        memcpy(fresh, key, i + 1);
        memcpy(fresh + i + 1, key + i, size - i + 1); /* doubled */
        try_slip(sweep, start, end, fresh, node, key);
        memcpy(fresh, key, size + 1);
        fresh[i] = upper(key[i]);
        try_slip(sweep, start, end, fresh, node, key);
        if (i + 1 == size || key[i] == key[i + 1]) continue;
        memcpy(fresh, key, size + 1);
        fresh[i] = key[i + 1]; /* swapped */
        fresh[i + 1] = key[i];
        try_slip(sweep, start, end, fresh, node, key);
    }
    for (size_t i = 0; i <= size; i++) fresh[i] = upper(key[i]);
    try_slip(sweep, start, end, fresh, node, key);
}

/* Whether a finding says that the value of the path is out of its range. */
static int is_out_of_range(const struct sweep *sweep, const char *text, const char *path)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    free(judge(sweep, text, &findings));
    int is_said = 0;
    for (uint32_t i = 0; i < findings.count; i++) {
        const struct sn_finding *finding = findings.items[i];
        if (strcmp(finding->path, path) != 0) continue;
        is_said = is_said || strstr(finding->message, "is out of range; allowed are") != NULL;
    }
    sn_findings_fini(&findings);
    return is_said;
}

/* Numbers at and beyond both ends of their range. */
static void leave_range(struct sweep *sweep, const struct sn_config_node *node, size_t start,
                        size_t end)
{
    const struct sn_config_field field = field_of(sweep, node);
    if (field.kind != SN_CONFIG_INT) return;
    assert_true(field.min < field.max);
    char path[SN_FINDING_PATH_MAX];
    sn_config_path(node, path, sizeof path);
    const int64_t values[] = {field.min - 1, field.min, field.max,
                              field.max + 1, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < SN_ARRAY_COUNT(values); i++) {
        char fresh[32];
        (void)snprintf(fresh, sizeof fresh, "%lld", (long long)values[i]); /* fits */
        char *text = replace(sweep->text, start, end, fresh);
        int is_outside = values[i] < field.min || values[i] > field.max;
        assert_int_equal(is_out_of_range(sweep, text, path), is_outside);
        free(text);
    }
    sweep->ranges++;
}

/* Values of another type, or that another reader might take for the right one. */
static void change_type(struct sweep *sweep, const struct sn_config_node *node, size_t start,
                        size_t end)
{
    static const char *const for_text[] = {"7",     "0777", "1e3",  "true", "yes",
                                           "no",    "~",    "[7]",  "-1",   ".inf",
                                           "1_000", "1:30", "NULL", "Off",  "0x1f"};
    static const char *const for_number[] = {
        "ten",  "\"7\"", "010",  "1e3",  "0x1f", "1_000",  "true",
        "yes",  "~",     "7.0",  "+7",   "[x]",  ".inf",   "-.Inf",
        ".nan", "1:30",  "0o17", "null", "7 ms", "{a: 7}", "99999999999999999999999"};
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
        if (strncmp(line, "  ", 2) == 0) try_slip(sweep, start, start + 2, "", NULL, NULL);
    }
}

/* NULL: not looked at; then no key is taken for an invented one, and no range is left. */
static const struct sn_config_field *fields_for(enum kind kind, const char *text)
{
    if (kind == FLEET) return sn_fleet_fields;
    if (kind == AGENT) return sn_agent_file_fields;
    if (strstr(text, "scenario: delivery\n") != NULL) return sn_soak_delivery_fields;
    if (strstr(text, "scenario: flap\n") != NULL) return sn_soak_flap_fields;
    return strstr(text, "scenario: tunnel\n") != NULL ? sn_soak_tunnel_fields : NULL;
}

static void run_sweep(const char *name, const char *text, enum kind kind)
{
    struct sweep sweep = {.text = text, .kind = kind, .fields = fields_for(kind, text)};
    for (const char *at = text; *at != '\0'; at++) sweep.lines += *at == '\n';
    struct sn_findings findings;
    sn_findings_init(&findings);
    sweep.dump = judge(&sweep, text, &findings);
    if (sweep.dump == NULL) print_error("%s: %s", name, findings.items[0]->message);
    assert_non_null(sweep.dump);
    struct sn_config_tree *tree = NULL;
    assert_int_equal(sn_config_parse(text, strlen(text), "f", &findings, &tree), SN_OK);
    const struct sn_config_node **nodes = calloc(NODES_MAX, sizeof *nodes);
    assert_non_null(nodes);
    size_t count = collect(sn_config_root(tree), nodes);
    size_t keys = 0;
    size_t in_use = sn_alloc_in_use();
    for (size_t i = 0; i < count; i++) {
        if (sn_config_key(nodes[i]) != NULL) {
            change_letters(&sweep, nodes[i]);
            keys++;
        }
        size_t start = offset_of(text, sn_config_where(nodes[i]));
        size_t end = end_of(text, nodes[i]);
        try_slip(&sweep, start, end, "", NULL, NULL);
        change_type(&sweep, nodes[i], start, end);
        leave_range(&sweep, nodes[i], start, end);
        assert_int_equal(sn_alloc_in_use(), in_use);
    }
    move_lines(&sweep);
    print_message("%s: %zu values, %zu keys: %u slips, %u refused (%u with the right key), %u "
                  "without effect, %u free names, %u ranges\n",
                  name, count, keys, sweep.total, sweep.refused, sweep.suggested, sweep.same,
                  sweep.free_named, sweep.ranges);
    assert_int_equal(sweep.total, sweep.refused + sweep.same + sweep.free_named);
    assert_true(sweep.total > 20 * keys + 5 * count);
    assert_true(sweep.refused > sweep.total / 2 && sweep.same > 0);
    assert_true(sweep.suggested > 8 * keys);
    free(nodes);
    free(sweep.dump);
    sn_config_tree_free(tree);
    sn_findings_fini(&findings);
}

static void render_and_sweep(const char *name, const struct sn_fleet *fleet, uint32_t index)
{
    const char *authority = KEY_A;
    const char *keys[] = {KEY_A, KEY_B, NULL};
    assert_true(fleet->agent_count <= SN_ARRAY_COUNT(keys));
    const struct sn_render render = {.fleet = fleet,
                                     .agent = index,
                                     .authorities = &authority,
                                     .authority_count = 1,
                                     .keys = keys};
    char *agent = NULL;
    assert_int_equal(sn_fleet_render(&render, &agent), SN_OK);
    run_sweep(name, agent, AGENT);
    sn_strfree(agent);
}

/* Takes the text. */
static void sweep_fleet(const char *name, char *text)
{
    uncomment(text); /* what the examples keep for the reader's own plugins */
    run_sweep(name, text, FLEET);
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_fleet *fleet = NULL;
    assert_int_equal(sn_fleet_parse(text, strlen(text), name, &findings, &fleet), SN_OK);
    for (uint32_t i = 0; i < fleet->agent_count; i++) render_and_sweep(name, fleet, i);
    sn_fleet_free(fleet);
    sn_findings_fini(&findings);
    free(text);
    assert_int_equal(sn_alloc_in_use(), 0);
}

/* The part of a file between two lines, with what a shell would put in filled in. */
static char *extract(const char *file, const char *begin, const char *end)
{
    char *whole = read_source(file);
    const char *start = strstr(whole, begin);
    assert_non_null(start);
    start += strlen(begin);
    const char *stop = strstr(start, end);
    assert_non_null(stop);
    char *text = shell_filled(start, (size_t)(stop - start));
    free(whole);
    return text;
}

static void the_examples(void **state)
{
    (void)state;
    static const char *const names[] = {"two-sites.yaml", "annotated.yaml"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(names); i++) {
        char *text = read_example(names[i]);
        assert_non_null(strstr(text, "\n# access:"));
        sweep_fleet(names[i], text);
    }
}

static void what_the_documents_show(void **state)
{
    (void)state;
    sweep_fleet("README.md", extract("README.md", "```yaml\n", "```\n"));
    sweep_fleet("CONTRIBUTING.md", extract("CONTRIBUTING.md", "init made\n", "\nEND\n"));
    sweep_fleet("plugins/_template/test.sh",
                extract("plugins/_template/test.sh", "fleet.yaml <<END\n", "\nEND\n"));
}

static void what_init_writes(void **state)
{
    (void)state;
    char *starter = NULL;
    assert_int_equal(sn_fleet_starter("demo", &starter), SN_OK);
    char *text = strdup(starter);
    assert_non_null(text);
    sn_strfree(starter);
    sweep_fleet("init", text);
}

static void the_scenarios(void **state)
{
    (void)state;
    unsigned count = 0;
    DIR *folder = opendir(SN_SOURCE_DIR "/soak/scenarios");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strstr(entry->d_name, ".yaml") == NULL) continue;
        char file[300];
        (void)snprintf(file, sizeof file, "soak/scenarios/%s", entry->d_name); /* fits */
        char *text = read_source(file);
        run_sweep(file, text, SCENARIO);
        free(text);
        assert_int_equal(sn_alloc_in_use(), 0);
        count++;
    }
    (void)closedir(folder); /* was only read */
    assert_true(count >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples),
        cmocka_unit_test(what_the_documents_show),
        cmocka_unit_test(what_init_writes),
        cmocka_unit_test(the_scenarios),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
