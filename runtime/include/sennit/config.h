/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schema tables: how a module or plugin declares the configuration it reads.
 *
 * One table checks the file (unknown keys, types, ranges, references), generates the reference page and
 * tells the reader the defaults. Validated values are read through the node accessors, which cannot
 * fail after validation: an absent optional key yields its default.
 * Thread-safe: a validated tree is read-only and may be read from any thread. Blocking: no.
 */
#ifndef SN_CONFIG_H
#define SN_CONFIG_H

#include <stdint.h>

#include "sennit/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of value. Numbers are part of the ABI. */
enum sn_config_kind {
    SN_CONFIG_TEXT = 1,        /* any string; min/max bound its length in bytes */
    SN_CONFIG_INT = 2,         /* decimal integer in [min, max] */
    SN_CONFIG_BOOL = 3,        /* true or false, nothing else */
    SN_CONFIG_ENUM = 4,        /* one of `choices` (separated by '|') */
    SN_CONFIG_LABEL = 5,       /* name: 1..63 of [a-z0-9-] */
    SN_CONFIG_AGENT = 6,       /* site/agent */
    SN_CONFIG_PATTERN = 7,     /* site/agent, a whole site, or everybody */
    SN_CONFIG_TYPES = 8,       /* message type pattern: echo.say, echo.*, or * */
    SN_CONFIG_ADDRESS = 9,     /* host:port, port not 0 */
    SN_CONFIG_LISTEN = 10,     /* host:port, port may be 0 */
    SN_CONFIG_PATH = 11,       /* file name, relative to the folder of the file that names it */
    SN_CONFIG_ACTOR = 12,      /* site/agent:actor */
    SN_CONFIG_KEY = 13,        /* public key: ed25519:<64 hexadecimal digits> */
    SN_CONFIG_LISTEN_URL = 14, /* tls://host:port */
    SN_CONFIG_MAP = 20,        /* mapping with the keys of `fields` */
    SN_CONFIG_DICT = 21,       /* mapping from labels to `item` */
    SN_CONFIG_LIST = 22,       /* sequence of `item` */
    SN_CONFIG_ANY = 23         /* a subtree that somebody else's schema checks */
};

#define SN_CONFIG_REQUIRED    1u
#define SN_CONFIG_ONE_OR_LIST 2u /* LIST: one scalar entry may stand without brackets */
#define SN_CONFIG_SHORT       4u /* MAP: a scalar alone is the value of the first key */
#define SN_CONFIG_AGENT_KEYS  8u /* DICT: the keys are site/agent instead of labels */

struct sn_config_field {
    const char *key; /* NULL ends a table, and names nothing in an `item` */
    uint32_t kind;   /* enum sn_config_kind */
    uint32_t flags;  /* SN_CONFIG_REQUIRED, ... */
    int64_t min;     /* INT: value; TEXT: bytes; DICT, LIST: entries */
    int64_t max;     /* 0 with min 0 = no bound */
    const char *choices;
    const char *def;                      /* default as it would be written, or NULL */
    const char *help;                     /* one sentence for the reference, with the unit */
    const struct sn_config_field *fields; /* MAP */
    const struct sn_config_field *item;   /* DICT, LIST: one entry */
};

/* A node of a validated tree. Borrowed: lives as long as the tree. */
struct sn_config_node;

struct sn_config_pos {
    uint32_t line; /* from 1 */
    uint32_t column;
};

/* Child of a MAP or DICT by key; NULL when absent. NULL node yields NULL. */
SN_API const struct sn_config_node *sn_config_get(const struct sn_config_node *node,
                                                  const char *key);
/* Entries of a MAP, DICT or LIST in file order. A scalar is a list of one: itself. */
SN_API uint32_t sn_config_count(const struct sn_config_node *node);
SN_API const struct sn_config_node *sn_config_at(const struct sn_config_node *node, uint32_t index);
/* The key under which the index-th entry of a MAP or DICT stands. */
SN_API const char *sn_config_key_at(const struct sn_config_node *node, uint32_t index);

/* Scalar value of the node itself. A NULL node yields `absent`. */
SN_API const char *sn_config_text(const struct sn_config_node *node, const char *absent);
SN_API int64_t sn_config_int(const struct sn_config_node *node, int64_t absent);
SN_API int sn_config_bool(const struct sn_config_node *node, int absent);

/* Scalar under `key`, or the default that the schema table declares for it. */
SN_API const char *sn_config_get_text(const struct sn_config_node *node,
                                      const struct sn_config_field *fields, const char *key);
SN_API int64_t sn_config_get_int(const struct sn_config_node *node,
                                 const struct sn_config_field *fields, const char *key);
SN_API int sn_config_get_bool(const struct sn_config_node *node,
                              const struct sn_config_field *fields, const char *key);

/* Where the value stands in the file; where its key stands, or the value itself in a LIST. */
SN_API struct sn_config_pos sn_config_where(const struct sn_config_node *node);
SN_API struct sn_config_pos sn_config_where_key(const struct sn_config_node *node);

#ifdef __cplusplus
}
#endif
#endif
