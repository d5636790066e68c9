/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: a key that another kind of scenario knows is refused here, so that nothing in the file is without effect. */
#include "agents/soak/scenario.h"

#include <string.h>

#include "config/schema.h"
#include "config/tree.h"
#include "sennit/limits.h"

#define MESSAGES_MAX 60000 /* what the soak plugin's mailbox holds */
#define MESSAGE_MIN  16    /* its number and run */

/* clang-format off */
#define KIND_ROW \
    {.key = "scenario", .kind = SN_CONFIG_ENUM, .flags = SN_CONFIG_REQUIRED, \
     .choices = "delivery|tunnel", .help = "What is soaked: messages, or a tunnel."}
#define TIMEOUT_ROW \
    {.key = "timeout_ms", .kind = SN_CONFIG_INT, .min = 1000, .max = 3600000, .def = "90000", \
     .help = "How long one start may take, in milliseconds; it fails when that is over."}
#define BUSY_ROW \
    {.key = "busy", .kind = SN_CONFIG_INT, .min = 0, .max = SN_SOAK_BUSY_MAX, .def = "0", \
     .help = "Processes that do nothing but keep a processor busy meanwhile."}
#define DIAL_ROW \
    {.key = "dial", .kind = SN_CONFIG_ENUM, .choices = "edge|both", .def = "edge", \
     .help = "Who dials: only the edge, or both agents each other."}

const struct sn_config_field sn_soak_delivery_fields[] = {
    KIND_ROW,
    {.key = "starts", .kind = SN_CONFIG_INT, .min = 1, .max = 10000, .def = "1",
     .help = "Cold starts of both agents; the edge starts first in every second one."},
    {.key = "messages", .kind = SN_CONFIG_INT, .min = 1, .max = MESSAGES_MAX, .def = "800",
     .help = "Messages in each direction and start."},
    {.key = "size_min", .kind = SN_CONFIG_INT, .min = MESSAGE_MIN, .max = SN_MESSAGE_BYTES_MAX,
     .def = "64", .help = "The smallest message, in bytes."},
    {.key = "size_max", .kind = SN_CONFIG_INT, .min = MESSAGE_MIN, .max = SN_MESSAGE_BYTES_MAX,
     .def = "65536", .help = "The largest message, in bytes."},
    {.key = "class", .kind = SN_CONFIG_ENUM, .choices = "application|control",
     .def = "application", .help = "The class that the messages travel in."},
    DIAL_ROW, BUSY_ROW, TIMEOUT_ROW,
    {0},
};

const struct sn_config_field sn_soak_tunnel_fields[] = {
    KIND_ROW,
    {.key = "runs", .kind = SN_CONFIG_INT, .min = 1, .max = 10000, .def = "1",
     .help = "Transfers, each through agents that were just started."},
    {.key = "bytes", .kind = SN_CONFIG_INT, .min = 1, .max = SN_SOAK_BYTES_MAX, .def = "33554432",
     .help = "Bytes of one transfer, first to the target and then back."},
    {.key = "target_late_ms", .kind = SN_CONFIG_INT, .min = 0, .max = 10000, .def = "0",
     .help = "The client sends this long before the target starts, in milliseconds."},
    DIAL_ROW, BUSY_ROW, TIMEOUT_ROW,
    {0},
};
/* clang-format on */

const char *sn_soak_kind_name(enum sn_soak_kind kind)
{
    return kind == SN_SOAK_TUNNEL ? "tunnel" : "delivery";
}

static void read_common(const struct sn_config_node *root, const struct sn_config_field *fields,
                        struct sn_scenario *scenario)
{
    scenario->timeout_ms = (uint32_t)sn_config_get_int(root, fields, "timeout_ms");
    scenario->busy = (uint32_t)sn_config_get_int(root, fields, "busy");
    scenario->is_dialed_both = strcmp(sn_config_get_text(root, fields, "dial"), "both") == 0;
}

static void read_delivery(const struct sn_config_node *root, struct sn_findings *findings,
                          struct sn_scenario *scenario)
{
    const struct sn_config_field *fields = sn_soak_delivery_fields;
    scenario->starts = (uint32_t)sn_config_get_int(root, fields, "starts");
    scenario->messages = (uint32_t)sn_config_get_int(root, fields, "messages");
    scenario->size_min = (uint32_t)sn_config_get_int(root, fields, "size_min");
    scenario->size_max = (uint32_t)sn_config_get_int(root, fields, "size_max");
    scenario->is_control = strcmp(sn_config_get_text(root, fields, "class"), "control") == 0;
    if (scenario->size_min <= scenario->size_max) return;
    const char *key = sn_config_get(root, "size_max") != NULL ? "size_max" : "size_min";
    sn_findings_add_node(findings, sn_config_get(root, key),
                         "the smallest message has %u bytes and the largest %u", scenario->size_min,
                         scenario->size_max);
}

static void read_tunnel(const struct sn_config_node *root, struct sn_scenario *scenario)
{
    const struct sn_config_field *fields = sn_soak_tunnel_fields;
    scenario->starts = (uint32_t)sn_config_get_int(root, fields, "runs");
    scenario->bytes = (uint32_t)sn_config_get_int(root, fields, "bytes");
    scenario->target_late_ms = (uint32_t)sn_config_get_int(root, fields, "target_late_ms");
}

static enum sn_err read_tree(const struct sn_config_node *root, struct sn_findings *findings,
                             struct sn_scenario *out_scenario)
{
    struct sn_scenario scenario = {.kind = SN_SOAK_DELIVERY};
    const struct sn_config_field *fields = sn_soak_delivery_fields;
    uint32_t before = findings->total;
    if (strcmp(sn_config_text(sn_config_get(root, "scenario"), ""), "tunnel") == 0) {
        scenario.kind = SN_SOAK_TUNNEL;
        fields = sn_soak_tunnel_fields;
    }
    enum sn_err err = sn_schema_check(root, fields, findings);
    if (err != SN_OK) return err;
    read_common(root, fields, &scenario);
    if (scenario.kind == SN_SOAK_TUNNEL) {
        read_tunnel(root, &scenario);
    } else {
        read_delivery(root, findings, &scenario);
    }
    err = sn_findings_result(findings, before);
    if (err == SN_OK) *out_scenario = scenario;
    return err;
}

enum sn_err sn_scenario_parse(const void *bytes, size_t size, const char *file,
                              struct sn_findings *findings, struct sn_scenario *out_scenario)
{
    struct sn_config_tree *tree = NULL;
    enum sn_err err = sn_config_parse(bytes, size, file, findings, &tree);
    if (err != SN_OK) return err;
    err = read_tree(sn_config_root(tree), findings, out_scenario);
    sn_config_tree_free(tree);
    return err;
}
