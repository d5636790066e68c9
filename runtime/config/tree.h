/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML bytes to a tree of nodes with positions.
 *
 * The accepted YAML is a strict subset: one document of mappings, lists and scalars in UTF-8,
 * without aliases, anchors, tags, merge keys, directives or text that runs on over lines (block
 * text with | is fine); keys are unique text of at most SN_CONFIG_KEY_BYTES_MAX bytes. Size, depth
 * and nodes are bounded by sennit/limits.h.
 * A parsed tree is not yet validated: see schema.h. Accessors stand in sennit/config.h.
 * Thread-safe: a tree is read-only after parsing. Blocking: no; no I/O.
 */
#ifndef SN_CONFIG_TREE_H
#define SN_CONFIG_TREE_H

#include <stddef.h>

#include "config/finding.h"
#include "sennit/config.h"
#include "sennit/limits.h"

#define SN_CONFIG_KEY_BYTES_MAX SN_AGENT_NAME_BYTES_MAX

struct sn_config_tree;

enum sn_config_shape { SN_CONFIG_SCALAR = 1, SN_CONFIG_MAPPING = 2, SN_CONFIG_SEQUENCE = 3 };

/* Parses; `file` (copied) is the name used in findings. Errors: EINVAL (findings were added),
 * ENOMEM. */
SN_MUST_CHECK enum sn_err sn_config_parse(const void *bytes, size_t size, const char *file,
                                          struct sn_findings *findings,
                                          struct sn_config_tree **out_tree);
void sn_config_tree_free(struct sn_config_tree *tree);

const struct sn_config_node *sn_config_root(const struct sn_config_tree *tree);

enum sn_config_shape sn_config_shape(const struct sn_config_node *node);
/* Scalar written without quotes: only such a one can be a number, a truth value or nothing. */
int sn_config_is_plain(const struct sn_config_node *node);
/* The key in front of the node; NULL in a list and for the root. */
const char *sn_config_key(const struct sn_config_node *node);
const char *sn_config_file(const struct sn_config_node *node);
/* Path from the root, such as targets.web.allow[0]; "." for the root. Cut when too long. */
void sn_config_path(const struct sn_config_node *node, char *out, size_t capacity);

#endif
