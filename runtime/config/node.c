/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: reading a validated tree never fails; look-ups by key take logarithmic time. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "config/scalar.h"
#include "config/tree_int.h"

const struct sn_config_node *sn_config_root(const struct sn_config_tree *tree)
{
    return tree->root;
}

enum sn_config_shape sn_config_shape(const struct sn_config_node *node)
{
    return (enum sn_config_shape)node->shape;
}

int sn_config_is_plain(const struct sn_config_node *node)
{
    return node->is_plain;
}

const char *sn_config_key(const struct sn_config_node *node)
{
    return node->key;
}

const char *sn_config_file(const struct sn_config_node *node)
{
    return node->tree->file;
}

/* Keys in a path are text from the file: shorten them and keep control characters away. */
static void add_key(struct sn_text *path, const char *key)
{
    char quoted[SN_QUOTE_MAX];
    size_t size = strlen(sn_quote(key, quoted));
    SN_ASSERT(size >= 2);
    sn_text_add_bytes(path, quoted + 1, size - 2);
}

void sn_config_path(const struct sn_config_node *node, char *out, size_t capacity)
{
    const struct sn_config_node *chain[SN_CONFIG_DEPTH_MAX + 2];
    size_t depth = 0;
    for (; node->parent != NULL; node = node->parent) {
        SN_ASSERT(depth < SN_ARRAY_COUNT(chain));
        chain[depth++] = node;
    }
    struct sn_text path;
    sn_text_init(&path, out, capacity);
    if (depth == 0) sn_text_add(&path, ".");
    for (size_t i = depth; i-- > 0;) {
        if (chain[i]->key == NULL) {
            sn_text_add(&path, "[%u]", chain[i]->index);
            continue;
        }
        if (i + 1 < depth) sn_text_add(&path, ".");
        add_key(&path, chain[i]->key);
    }
}

const struct sn_config_node *sn_config_get(const struct sn_config_node *node, const char *key)
{
    if (node == NULL || node->shape != SN_CONFIG_MAPPING) return NULL;
    uint32_t low = 0;
    uint32_t high = node->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(node->sorted[middle]->key, key);
        if (order == 0) return node->sorted[middle];
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

uint32_t sn_config_count(const struct sn_config_node *node)
{
    if (node == NULL) return 0;
    return node->shape == SN_CONFIG_SCALAR ? 1 : node->count;
}

const struct sn_config_node *sn_config_at(const struct sn_config_node *node, uint32_t index)
{
    if (index >= sn_config_count(node)) return NULL;
    return node->shape == SN_CONFIG_SCALAR ? node : node->children[index];
}

const char *sn_config_key_at(const struct sn_config_node *node, uint32_t index)
{
    const struct sn_config_node *child = sn_config_at(node, index);
    return child == NULL || child == node ? NULL : child->key;
}

const char *sn_config_text(const struct sn_config_node *node, const char *absent)
{
    return node == NULL || node->shape != SN_CONFIG_SCALAR ? absent : node->text;
}

int64_t sn_config_int(const struct sn_config_node *node, int64_t absent)
{
    const char *text = sn_config_text(node, NULL);
    int64_t value = 0;
    if (text == NULL || !node->is_plain || sni_scalar_int(text, &value) != SN_OK) return absent;
    return value;
}

int sn_config_bool(const struct sn_config_node *node, int absent)
{
    const char *text = sn_config_text(node, NULL);
    if (text == NULL) return absent;
    if (sni_scalar_classify(text, node->is_plain) != SNI_SCALAR_BOOL) return absent;
    return text[0] == 't';
}

/* Asking for a key that the table does not declare is a bug of the reader. */
static const struct sn_config_field *find_field(const struct sn_config_field *fields,
                                                const char *key)
{
    while (fields->key != NULL && strcmp(fields->key, key) != 0) fields++;
    SN_ASSERT(fields->key != NULL);
    return fields;
}

const char *sn_config_get_text(const struct sn_config_node *node,
                               const struct sn_config_field *fields, const char *key)
{
    return sn_config_text(sn_config_get(node, key), find_field(fields, key)->def);
}

int64_t sn_config_get_int(const struct sn_config_node *node, const struct sn_config_field *fields,
                          const char *key)
{
    const char *def = find_field(fields, key)->def;
    int64_t absent = 0;
    if (def != NULL) {
        enum sn_err err = sni_scalar_int(def, &absent);
        SN_ASSERT(err == SN_OK);
    }
    return sn_config_int(sn_config_get(node, key), absent);
}

int sn_config_get_bool(const struct sn_config_node *node, const struct sn_config_field *fields,
                       const char *key)
{
    const char *def = find_field(fields, key)->def;
    return sn_config_bool(sn_config_get(node, key), def != NULL && strcmp(def, "true") == 0);
}

struct sn_config_pos sn_config_where(const struct sn_config_node *node)
{
    return node->pos;
}

struct sn_config_pos sn_config_where_key(const struct sn_config_node *node)
{
    return node->key == NULL ? node->pos : node->key_pos;
}
