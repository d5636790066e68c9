/* SPDX-License-Identifier: Apache-2.0 */
/* What the soak plugin declares: schema, messages, and the check of what a schema cannot say. */
#include "soak.h"

const struct sn_config_field sni_soak_fields[] = {
    {.key = "peer",
     .kind = SN_CONFIG_AGENT,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The agent whose soak actor gets the messages, and sends as many back."},
    {.key = "messages",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = SOAK_MESSAGES_MAX,
     .def = "800",
     .help = "How many messages each side sends."},
    {.key = "size_min",
     .kind = SN_CONFIG_INT,
     .min = SOAK_HEAD_BYTES,
     .max = SN_MESSAGE_BYTES_MAX,
     .def = "64",
     .help = "The smallest message, in bytes."},
    {.key = "size_max",
     .kind = SN_CONFIG_INT,
     .min = SOAK_HEAD_BYTES,
     .max = SN_MESSAGE_BYTES_MAX,
     .def = "65536",
     .help = "The largest message, in bytes."},
    {.key = "seed",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = INT64_MAX,
     .def = "1",
     .help = "What sizes and contents follow from; the same at both agents."},
    {.key = "run",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = INT64_MAX,
     .def = "0",
     .help = "Marks the messages of this run, so that those of another are noticed."},
    {.key = "class",
     .kind = SN_CONFIG_ENUM,
     .choices = "application|control",
     .def = "application",
     .help = "The class that the messages travel in."},
    {.key = "per_second",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = SOAK_PER_SECOND_MAX,
     .def = "0",
     .help = "How many messages become due in a second; 0: all at once."},
    {0},
};

static const struct sn_message_type messages[] = {
    {SOAK_DATA, "A numbered message with a known content, from the peer's soak actor."},
    {SOAK_REPORT, "Asks for the counts so far, as JSON; answered to this agent only."},
    {0},
};

static enum sn_err check(const struct sn_config_node *config, sn_plugin_finding_fn report,
                         void *arg)
{
    int64_t min = sn_config_get_int(config, sni_soak_fields, "size_min");
    int64_t max = sn_config_get_int(config, sni_soak_fields, "size_max");
    const struct sn_config_node *node = sn_config_get(config, "size_max");
    if (min > max) report(arg, node == NULL ? config : node, "is less than `size_min`");
    return SN_OK;
}

static const struct sn_actor_kind *const actors[] = {&sni_soak_kind};

SN_PLUGIN_EXPORT const struct sn_plugin sn_plugin = {
    SN_PLUGIN_HEADER,
    .name = "soak",
    .version = "0.1.0",
    .help = "Sends numbered messages between two agents and checks each: what `sennit soak` runs.",
    .actors = actors,
    .actor_count = 1,
    .config = sni_soak_fields,
    .messages = messages,
    .check = check,
};
