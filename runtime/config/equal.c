/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: takes time in proportion to the nodes (and the logarithm of the keys beside each), and no memory. */
#include "config/equal.h"

#include <string.h>

#include "base/assert.h"
#include "config/tree.h"

struct pair {
    const struct sn_config_node *a;
    const struct sn_config_node *b;
    uint32_t next; /* child to compare */
};

static int is_same_scalar(const struct sn_config_node *a, const struct sn_config_node *b)
{
    return sn_config_is_plain(a) == sn_config_is_plain(b) &&
           strcmp(sn_config_text(a, ""), sn_config_text(b, "")) == 0;
}

/* Without looking into them. */
static int is_alike(const struct sn_config_node *a, const struct sn_config_node *b)
{
    if (a == NULL || b == NULL) return a == b;
    if (sn_config_shape(a) != sn_config_shape(b)) return 0;
    if (sn_config_shape(a) == SN_CONFIG_SCALAR) return is_same_scalar(a, b);
    return sn_config_count(a) == sn_config_count(b);
}

static int has_children(const struct sn_config_node *node)
{
    return node != NULL && sn_config_shape(node) != SN_CONFIG_SCALAR;
}

int sn_config_is_equal(const struct sn_config_node *a, const struct sn_config_node *b)
{
    struct pair stack[SN_CONFIG_DEPTH_MAX + 2];
    uint32_t depth = 0;
    if (!is_alike(a, b)) return 0;
    if (has_children(a)) stack[depth++] = (struct pair){a, b, 0};
    while (depth > 0) {
        struct pair *top = &stack[depth - 1];
        if (top->next == sn_config_count(top->a)) {
            depth--;
            continue;
        }
        const struct sn_config_node *left = sn_config_at(top->a, top->next);
        const char *key = sn_config_key_at(top->a, top->next);
        const struct sn_config_node *right =
            key == NULL ? sn_config_at(top->b, top->next) : sn_config_get(top->b, key);
        top->next++;
        if (!is_alike(left, right)) return 0;
        if (!has_children(left)) continue;
        SN_ASSERT(depth < SN_ARRAY_COUNT(stack)); /* the parser bounds the depth */
        stack[depth++] = (struct pair){left, right, 0};
    }
    return 1;
}

static int is_skipped(const char *key, const char *const *skipped)
{
    for (; *skipped != NULL; skipped++) {
        if (strcmp(*skipped, key) == 0) return 1;
    }
    return 0;
}

const struct sn_config_node *sn_config_difference(const struct sn_config_node *from,
                                                  const struct sn_config_node *to,
                                                  const char *const *skipped)
{
    for (uint32_t i = 0; i < sn_config_count(to); i++) {
        const char *key = sn_config_key_at(to, i);
        const struct sn_config_node *node = sn_config_at(to, i);
        if (key == NULL || is_skipped(key, skipped)) continue;
        if (!sn_config_is_equal(sn_config_get(from, key), node)) return node;
    }
    for (uint32_t i = 0; i < sn_config_count(from); i++) {
        const char *key = sn_config_key_at(from, i);
        if (key == NULL || is_skipped(key, skipped)) continue;
        if (sn_config_get(to, key) == NULL) return to;
    }
    return NULL;
}
