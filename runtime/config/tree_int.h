/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of nodes and trees, shared by tree.c (which builds them) and node.c (which reads them). */
#ifndef SN_CONFIG_TREE_INT_H
#define SN_CONFIG_TREE_INT_H

#include "config/tree.h"

struct sn_config_node {
    const struct sn_config_tree *tree;
    struct sn_config_node *parent;
    struct sn_config_node *next;  /* sibling, in file order */
    struct sn_config_node *first; /* children while parsing */
    struct sn_config_node *last;
    struct sn_config_node **children; /* in file order; set when the container ends */
    struct sn_config_node **sorted;   /* mapping: by key, for look-ups */
    const char *key;
    const char *text; /* scalar */
    struct sn_config_pos key_pos;
    struct sn_config_pos pos;
    uint32_t count; /* children */
    uint32_t index; /* among its siblings */
    uint8_t shape;  /* enum sn_config_shape */
    uint8_t is_plain;
    uint8_t is_flow; /* in brackets or braces */
};

struct sni_chunk {
    struct sni_chunk *next;
    size_t size; /* of bytes[] */
    size_t used;
    unsigned char bytes[];
};

struct sn_config_tree {
    uint32_t magic;
    uint32_t node_count;
    char *file;
    struct sni_chunk *chunks; /* arena of nodes and texts, freed together */
    struct sn_config_node *root;
};

#endif
