/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plugin is: a shared object NAME.so that exports one symbol, the const descriptor
 * `sn_plugin`.
 *
 * A plugin links nothing of Sennit. What it calls is either in the host table behind `ctx`, or one
 * of the functions marked SN_API in these headers, which the agent exports. It starts no threads,
 * keeps no globals that change, and owns nothing but the states of its actors.
 *
 * The host checks the descriptor before it calls anything: magic, ABI, size, then every table that
 * it points to. A plugin stays loaded until the process ends, so its tables outlive whatever refers
 * to them.
 *
 * ABI. A host of major M and minor N runs plugins of the same major whose minor is at most N.
 * Structures that carry their size grow at their end only, with a new minor: a reader takes what
 * lies beyond the size as zero. Everything else, such as the entries of tables, changes with the
 * major. Before release 1.0 the major is 0, and any release may break it. tests/abi/plugin.golden
 * holds the layout.
 *
 * Change log of the ABI:
 *   0.0  first version
 *   0.1  delivered streams: sn_stream_deliver, _consume, _write, _end; the events STREAM_READABLE
 *        and STREAM_WRITABLE; buf, offset and is_end of struct sn_event; the event CONFIG;
 *        sn_stream_tune with struct sn_stream_options; sn_meter_new, _free, _read
 */
#ifndef SN_PLUGIN_H
#define SN_PLUGIN_H

#include <stdint.h>

#include "sennit/actor.h"
#include "sennit/config.h"
#include "sennit/err.h"
#include "sennit/metrics.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SN_PLUGIN_MAGIC     0x534e504cu /* "SNPL" */
#define SN_PLUGIN_ABI_MAJOR 0u
#define SN_PLUGIN_ABI_MINOR 1u
#define SN_PLUGIN_SYMBOL    "sn_plugin"

/* Bounds that keep a damaged table from leading the host astray. */
#define SN_PLUGIN_ACTORS_MAX 64u
#define SN_PLUGIN_TABLE_MAX  256u /* entries of any other table */

/* A type of message that an actor of the plugin understands: for people, who see it in `sennit plugins`. A payload of
 * JSON text is a good choice where nothing speaks against it: `sennit call` sends and shows it as it is. */
struct sn_message_type {
    const char *type; /* "tunnel.list"; NULL ends a table */
    const char *help; /* one sentence: payload, answer, who may send it */
};

/* Reports what is wrong with a node of the configuration: one short phrase, shown behind its file,
 * position and path. The text is copied. */
typedef void (*sn_plugin_finding_fn)(void *arg, const struct sn_config_node *node,
                                     const char *message);

struct sn_plugin {
    uint32_t magic; /* SN_PLUGIN_MAGIC; the first four never move */
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t size;       /* sizeof(struct sn_plugin) */
    const char *name;    /* a label; the file is called NAME.so */
    const char *version; /* of the plugin, for people; not empty */
    const char *help;    /* one sentence: what it does */
    /* actor_count kinds. The configuration goes to each, and lives until SN_EVENT_CONFIG
     * has brought the next one; for plugins of ABI 0.0, which do not know it, as long as the actors. */
    const struct sn_actor_kind *const *actors;
    uint32_t actor_count; /* at least 1 */
    uint32_t reserved;    /* zero */
    /* Keys of the plugin's `config:`; NULL = it takes none. The host checks the file against it. */
    const struct sn_config_field *config;
    const struct sn_metric_desc
        *metrics; /* names start with the plugin's name and a dot; may be NULL */
    const struct sn_message_type *messages; /* may be NULL */
    /* What the schema cannot say, such as that two entries contradict each other. Called with a
     * configuration that passed the schema, outside of any actor; must not keep the node. SN_OK,
     * also after reports; anything else means that the check itself failed: the plugin does not run. May be NULL. */
    enum sn_err (*check)(const struct sn_config_node *config, sn_plugin_finding_fn report,
                         void *arg);
};

/* Stands before the definition: SN_PLUGIN_EXPORT const struct sn_plugin sn_plugin = {...}; */
#define SN_PLUGIN_EXPORT SN_API

extern SN_PLUGIN_EXPORT const struct sn_plugin sn_plugin;

/* First members of the descriptor. */
#define SN_PLUGIN_HEADER                                                                           \
    .magic = SN_PLUGIN_MAGIC, .abi_major = SN_PLUGIN_ABI_MAJOR, .abi_minor = SN_PLUGIN_ABI_MINOR,  \
    .size = (uint32_t)sizeof(struct sn_plugin)

#ifdef __cplusplus
}
#endif
#endif
