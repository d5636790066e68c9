/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: time and memory are bounded by the size, depth and node limits for any bytes; every
 * refusal has a position; nothing of YAML that could hide a meaning (aliases, tags, merge keys,
 * duplicate keys, text that runs on over lines) is accepted. libyaml is used as an event parser
 * only, so that no graph is ever built by it; its own buffers come from malloc and are bounded by
 * the same limits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "config/scalar.h"
#include "config/tree_int.h"

#define TREE_MAGIC  SN_MAGIC('Y', 'A', 'M', 'L')
#define CHUNK_BYTES 16384u

struct builder {
    struct sn_config_tree *tree;
    struct sn_findings *findings;
    yaml_parser_t *parser;
    struct sn_config_node *current; /* container that is open */
    const char *key;                /* key that waits for its value, or NULL */
    struct sn_config_pos key_pos;
    uint32_t depth;
    uint32_t documents;
    const unsigned char *bytes;
    size_t size;
    size_t cursor;       /* byte offset of character `cursor_index`; only moves forward */
    size_t cursor_index; /* libyaml counts characters */
    size_t last_end;     /* index where the last event ended */
    enum sn_err err;     /* ENOMEM */
};

/* Arena memory for `size` bytes, aligned for pointers, zeroed; NULL when there is none. */
static void *arena_alloc(struct sn_config_tree *tree, size_t size)
{
    size = (size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    struct sni_chunk *chunk = tree->chunks;
    if (chunk == NULL || chunk->size - chunk->used < size) {
        size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        chunk = sn_alloc(sizeof *chunk + room);
        if (chunk == NULL) return NULL;
        chunk->size = room;
        chunk->next = tree->chunks;
        tree->chunks = chunk;
    }
    void *memory = chunk->bytes + chunk->used;
    chunk->used += size;
    return memory;
}

static struct sn_config_pos pos_of(yaml_mark_t mark)
{
    return (struct sn_config_pos){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

/* A finding in the open container, for what has no node. */
static void report(struct builder *b, yaml_mark_t mark, const char *message)
{
    char path[SN_FINDING_PATH_MAX] = ".";
    if (b->current != NULL) sn_config_path(b->current, path, sizeof path);
    sn_findings_add(b->findings, b->tree->file, pos_of(mark), path, "%s", message);
}

static const char *keep_text(struct builder *b, const unsigned char *bytes, size_t size)
{
    char *text = arena_alloc(b->tree, size + 1);
    if (text == NULL) {
        b->err = SN_ENOMEM;
        return NULL;
    }
    if (size > 0) memcpy(text, bytes, size);
    return text;
}

/* Takes a scalar as the key of the next value. Returns 0 when parsing cannot go on. */
static int take_key(struct builder *b, const yaml_event_t *event)
{
    if (event->type != YAML_SCALAR_EVENT) {
        report(b, event->start_mark, "a key must be plain text, not a list, mapping or alias");
        return 0;
    }
    size_t size = event->data.scalar.length;
    const char *text = (const char *)event->data.scalar.value;
    const char *problem = NULL;
    int is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (size == 0) problem = "a key is missing before the colon";
    if (size > SN_CONFIG_KEY_BYTES_MAX) problem = "a key is longer than 127 bytes";
    if (memchr(text, '\0', size) != NULL) problem = "a key contains a NUL byte";
    if (event->start_mark.line != event->end_mark.line) problem = "a key runs over several lines";
    if (is_plain && strcmp(text, "<<") == 0)
        problem = "merge keys are not supported; repeat the keys";
    if (event->data.scalar.tag != NULL) problem = "tags are not supported";
    if (event->data.scalar.anchor != NULL) problem = "anchors and aliases are not supported";
    if (problem != NULL) {
        report(b, event->start_mark, problem);
        return 0;
    }
    b->key = keep_text(b, event->data.scalar.value, size);
    b->key_pos = pos_of(event->start_mark);
    return b->key != NULL;
}

static struct sn_config_node *add_node(struct builder *b, const yaml_event_t *event,
                                       enum sn_config_shape shape)
{
    if (b->tree->node_count >= SN_CONFIG_NODES_MAX) {
        report(b, event->start_mark, "the file has too many entries (262144 at most)");
        return NULL;
    }
    struct sn_config_node *node = arena_alloc(b->tree, sizeof *node);
    if (node == NULL) {
        b->err = SN_ENOMEM;
        return NULL;
    }
    struct sn_config_node *parent = b->current;
    node->tree = b->tree;
    node->shape = (uint8_t)shape;
    node->pos = pos_of(event->start_mark);
    node->key = b->key;
    node->key_pos = b->key_pos;
    node->parent = parent;
    b->key = NULL;
    b->tree->node_count++;
    if (parent == NULL) {
        SN_ASSERT(b->tree->root == NULL);
        b->tree->root = node;
        return node;
    }
    node->index = parent->count++;
    if (parent->last != NULL) parent->last->next = node;
    if (parent->first == NULL) parent->first = node;
    parent->last = node;
    return node;
}

static void refuse_properties(struct builder *b, const struct sn_config_node *node,
                              const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor != NULL) {
        sn_findings_add_node(b->findings, node, "anchors and aliases are not supported");
    }
    if (tag != NULL) sn_findings_add_node(b->findings, node, "tags are not supported");
}

/* Text that runs on is mostly a slip of indentation, or a quote that is missing. */
static void refuse_long(struct builder *b, const struct sn_config_node *node,
                        const yaml_event_t *event)
{
    yaml_scalar_style_t style = event->data.scalar.style;
    if (event->start_mark.line == event->end_mark.line) return;
    if (style == YAML_PLAIN_SCALAR_STYLE) {
        sn_findings_add_node(b->findings, node,
                             "text without quotes runs on over several lines; check the "
                             "indentation");
    } else if (style != YAML_LITERAL_SCALAR_STYLE && style != YAML_FOLDED_SCALAR_STYLE) {
        sn_findings_add_node(
            b->findings, node,
            "quoted text runs on over several lines; is the closing quote missing?");
    }
}

static int add_scalar(struct builder *b, const yaml_event_t *event)
{
    struct sn_config_node *node = add_node(b, event, SN_CONFIG_SCALAR);
    if (node == NULL) return 0;
    size_t size = event->data.scalar.length;
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = keep_text(b, event->data.scalar.value, size);
    if (node->text == NULL) return 0;
    /* A value that is not there stands nowhere: point at its key. */
    if (node->is_plain && size == 0 && node->key != NULL) node->pos = node->key_pos;
    if (strlen(node->text) != size) {
        sn_findings_add_node(b->findings, node, "the text contains a NUL byte");
    }
    refuse_long(b, node, event);
    refuse_properties(b, node, event->data.scalar.anchor, event->data.scalar.tag);
    return 1;
}

static int refuse_alias(struct builder *b, const yaml_event_t *event)
{
    struct sn_config_node *node = add_node(b, event, SN_CONFIG_SCALAR);
    if (node == NULL) return 0;
    node->text = "";
    sn_findings_add_node(b->findings, node, "anchors and aliases are not supported");
    return 1;
}

static int open_container(struct builder *b, const yaml_event_t *event)
{
    if (b->depth >= SN_CONFIG_DEPTH_MAX) {
        report(b, event->start_mark, "nested too deeply (16 levels at most)");
        return 0;
    }
    int is_map = event->type == YAML_MAPPING_START_EVENT;
    struct sn_config_node *node =
        add_node(b, event, is_map ? SN_CONFIG_MAPPING : SN_CONFIG_SEQUENCE);
    if (node == NULL) return 0;
    if (is_map) {
        node->is_flow = event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
        refuse_properties(b, node, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    } else {
        node->is_flow = event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
        refuse_properties(b, node, event->data.sequence_start.anchor,
                          event->data.sequence_start.tag);
    }
    b->current = node;
    b->depth++;
    return 1;
}

static int compare_keys(const void *a, const void *b)
{
    const struct sn_config_node *left = *(struct sn_config_node *const *)a;
    const struct sn_config_node *right = *(struct sn_config_node *const *)b;
    int order = strcmp(left->key, right->key);
    if (order != 0) return order;
    return left->index < right->index ? -1 : left->index > right->index;
}

static int sort_keys(struct builder *b, struct sn_config_node *node)
{
    size_t bytes = node->count * sizeof(struct sn_config_node *);
    node->sorted = arena_alloc(b->tree, bytes);
    if (node->sorted == NULL) return 0;
    memcpy(node->sorted, node->children, bytes);
    qsort(node->sorted, node->count, sizeof(struct sn_config_node *), compare_keys);
    struct sn_config_node *first = node->sorted[0];
    for (uint32_t i = 1; i < node->count; i++) {
        struct sn_config_node *next = node->sorted[i];
        if (strcmp(next->key, first->key) != 0) {
            first = next;
            continue;
        }
        char quoted[SN_QUOTE_MAX];
        sn_findings_add_key(b->findings, next,
                            "key %s stands here twice; the first is at %u:%u; remove one of them",
                            sn_quote(next->key, quoted), first->key_pos.line,
                            first->key_pos.column);
    }
    return 1;
}

/* Byte at character `index`, which is not before an earlier one asked for; 0 at the end. */
static unsigned char byte_at(struct builder *b, size_t index)
{
    SN_ASSERT(index >= b->cursor_index);
    for (; b->cursor_index < index && b->cursor < b->size; b->cursor_index++) {
        b->cursor++;
        while (b->cursor < b->size && (b->bytes[b->cursor] & 0xc0) == 0x80) b->cursor++;
    }
    return b->cursor < b->size ? b->bytes[b->cursor] : 0;
}

/* YAML lets a list in brackets end in a comma; here that is a value that somebody forgot. */
static void refuse_last_comma(struct builder *b, const yaml_event_t *event)
{
    int is_comment = 0;
    for (size_t index = b->last_end; index < event->start_mark.index; index++) {
        unsigned char byte = byte_at(b, index);
        if (byte == '#') is_comment = 1;
        if (byte == '\n' || byte == '\r') is_comment = 0;
        if (byte != ',' || is_comment) continue;
        report(b, event->start_mark, "a comma with nothing behind it; is an entry missing?");
        return;
    }
}

static int close_container(struct builder *b, const yaml_event_t *event)
{
    struct sn_config_node *node = b->current;
    SN_ASSERT(node != NULL && b->depth > 0);
    if (node->is_flow) refuse_last_comma(b, event);
    b->current = node->parent;
    b->depth--;
    if (node->count == 0) return 1;
    node->children = arena_alloc(b->tree, node->count * sizeof(struct sn_config_node *));
    if (node->children == NULL) goto fail;
    struct sn_config_node *child = node->first;
    for (uint32_t i = 0; i < node->count; i++, child = child->next) node->children[i] = child;
    SN_ASSERT(child == NULL);
    if (node->shape == SN_CONFIG_MAPPING && !sort_keys(b, node)) goto fail;
    return 1;
fail:
    b->err = SN_ENOMEM;
    return 0;
}

static int start_document(struct builder *b, const yaml_event_t *event)
{
    if (b->documents++ > 0) {
        report(b, event->start_mark, "a second document; a configuration is one YAML document");
        return 0;
    }
    if (event->data.document_start.version_directive != NULL ||
        event->data.document_start.tag_directives.start !=
            event->data.document_start.tag_directives.end) {
        report(b, event->start_mark, "%YAML and %TAG directives are not supported");
    }
    return 1;
}

/* Returns 0 when parsing is over, or cannot go on. */
static int handle_event(struct builder *b, const yaml_event_t *event)
{
    int is_value = event->type == YAML_SCALAR_EVENT || event->type == YAML_ALIAS_EVENT ||
                   event->type == YAML_SEQUENCE_START_EVENT ||
                   event->type == YAML_MAPPING_START_EVENT;
    if (is_value && b->current != NULL && b->current->shape == SN_CONFIG_MAPPING &&
        b->key == NULL) {
        return take_key(b, event);
    }
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT: return start_document(b, event);
    case YAML_ALIAS_EVENT: return refuse_alias(b, event);
    case YAML_SCALAR_EVENT: return add_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: return open_container(b, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return close_container(b, event);
    case YAML_STREAM_END_EVENT: return 0;
    default: return 1;
    }
}

/* libyaml's own words, with a hint where they are known to puzzle people. */
static void report_syntax(struct builder *b)
{
    const yaml_parser_t *parser = b->parser;
    const char *problem = parser->problem == NULL ? "unreadable" : parser->problem;
    const char *hint = "";
    if (strstr(problem, "did not find expected key") != NULL ||
        strstr(problem, "mapping values are not allowed") != NULL ||
        strstr(problem, "did not find expected '-'") != NULL ||
        strstr(problem, "did not find expected <document start>") != NULL ||
        strstr(problem, "block sequence entries are not allowed") != NULL) {
        hint = "; check the indentation";
    } else if (strstr(problem, "could not find expected ':'") != NULL) {
        hint = "; is a colon missing, or the space after it?";
    } else if (strstr(problem, "cannot start any token") != NULL) {
        hint = "; put the value in quotes";
    }
    char message[SN_HINT_MAX];
    /* Both parts are short constants. */
    (void)snprintf(message, sizeof message, "YAML syntax: %s%s", problem, hint);
    report(b, parser->problem_mark, message);
}

static void parse_events(struct builder *b)
{
    int go_on = 1;
    while (go_on && !sn_findings_is_full(b->findings)) {
        yaml_event_t event;
        if (!yaml_parser_parse(b->parser, &event)) {
            if (b->parser->error == YAML_MEMORY_ERROR) {
                b->err = SN_ENOMEM;
            } else {
                report_syntax(b);
            }
            return;
        }
        go_on = handle_event(b, &event);
        b->last_end = event.end_mark.index;
        yaml_event_delete(&event);
    }
}

/* Bytes of the character at `at`, 0 if it is not UTF-8. */
static size_t character_size(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80) return 1;
    size_t size = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (size > left) return 0;
    return sn_utf8_is_valid((const char *)at, size) ? size : 0;
}

/* Controls, line breaks that editors do not show as such, and non-characters. */
static int is_unwanted(const unsigned char *at, size_t size)
{
    if (size == 1) {
        int is_space = at[0] == '\t' || at[0] == '\n' || at[0] == '\r';
        return (at[0] < 0x20 && !is_space) || at[0] == 0x7f;
    }
    if (size == 2) return at[0] == 0xc2 && at[1] < 0xa0;
    if (size == 4) return 0;
    if (at[0] == 0xe2 && at[1] == 0x80) return at[2] == 0xa8 || at[2] == 0xa9;
    if (at[0] == 0xef && at[1] == 0xbb && at[2] == 0xbf) return 1; /* byte order mark */
    return at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe;
}

/* Finds the first byte that a configuration cannot contain; libyaml would name no position for it.
 */
static const char *check_bytes(const unsigned char *bytes, size_t size, struct sn_config_pos *pos)
{
    int is_indent = 1;
    *pos = (struct sn_config_pos){1, 1};
    for (size_t i = 0; i < size;) {
        size_t step = character_size(bytes + i, size - i);
        if (step == 0) return "a byte that is not UTF-8";
        if (bytes[i] == 0) return "a NUL byte; a configuration is UTF-8 text";
        if (is_unwanted(bytes + i, step)) return "a control character";
        if (bytes[i] == '\t' && is_indent) return "a tab in the indentation; use spaces";
        int is_crlf = bytes[i] == '\r' && i + 1 < size && bytes[i + 1] == '\n';
        if ((bytes[i] == '\n' || bytes[i] == '\r') && !is_crlf) {
            pos->line++;
            pos->column = 1;
            is_indent = 1;
        } else {
            pos->column++;
            if (bytes[i] != ' ') is_indent = 0;
        }
        i += step;
    }
    return NULL;
}

static enum sn_err build(struct sn_config_tree *tree, const void *bytes, size_t size,
                         struct sn_findings *findings)
{
    struct sn_config_pos pos = {1, 1};
    if (size > SN_CONFIG_BYTES_MAX) {
        sn_findings_add(findings, tree->file, pos, ".",
                        "the file has %zu bytes; at most %u are allowed", size,
                        SN_CONFIG_BYTES_MAX);
        return SN_OK;
    }
    /* libyaml would count a byte order mark as a column of the first line. */
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        bytes = (const unsigned char *)bytes + 3;
        size -= 3;
    }
    const char *problem = check_bytes(bytes, size, &pos);
    if (problem != NULL) {
        sn_findings_add(findings, tree->file, pos, ".", "%s", problem);
        return SN_OK;
    }
    yaml_parser_t parser;
    struct builder b = {
        .tree = tree, .findings = findings, .parser = &parser, .bytes = bytes, .size = size};
    if (!yaml_parser_initialize(&parser)) return SN_ENOMEM;
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, bytes, size);
    uint32_t before = findings->total;
    parse_events(&b);
    if (b.err == SN_OK && findings->total == before && tree->root == NULL) {
        sn_findings_add(findings, tree->file, (struct sn_config_pos){1, 1}, ".",
                        "the file is empty");
    }
    yaml_parser_delete(&parser);
    return b.err;
}

enum sn_err sn_config_parse(const void *bytes, size_t size, const char *file,
                            struct sn_findings *findings, struct sn_config_tree **out_tree)
{
    SN_ASSERT(file != NULL);
    SN_ASSERT(bytes != NULL || size == 0);
    uint32_t before = findings->total;
    struct sn_config_tree *tree = sn_alloc(sizeof *tree);
    if (tree == NULL) return SN_ENOMEM;
    tree->magic = TREE_MAGIC;
    enum sn_err err = SN_ENOMEM;
    tree->file = sn_strdup(file);
    if (tree->file == NULL) goto out;
    err = build(tree, bytes == NULL ? "" : bytes, size, findings);
    if (err != SN_OK) goto out;
    err = sn_findings_result(findings, before);
    if (err != SN_OK) goto out;
    *out_tree = tree;
    tree = NULL;
out:
    sn_config_tree_free(tree);
    return err;
}

void sn_config_tree_free(struct sn_config_tree *tree)
{
    if (tree == NULL) return;
    SN_ASSERT(tree->magic == TREE_MAGIC);
    tree->magic = 0;
    while (tree->chunks != NULL) {
        struct sni_chunk *chunk = tree->chunks;
        tree->chunks = chunk->next;
        sn_free(chunk, sizeof *chunk + chunk->size);
    }
    sn_strfree(tree->file);
    sn_free(tree, sizeof *tree);
}
