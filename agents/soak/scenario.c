/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: a key that another kind of scenario knows is refused here, so that nothing in the file
 * is without effect. */
#include "agents/soak/scenario.h"

#include <string.h>

#include "config/schema.h"
#include "config/tree.h"
#include "sennit/limits.h"

#define MESSAGES_MAX 60000 /* what the soak plugin's mailbox holds */
#define MESSAGE_MIN  16    /* its number and run */
#define DURATION_MAX 86400000
#define STOP_MAX     9000 /* streams wait 10 s for a new connection */

/* clang-format off */
#define KIND_ROW \
    {.key = "scenario", .kind = SN_CONFIG_ENUM, .flags = SN_CONFIG_REQUIRED, \
     .choices = "delivery|tunnel|flap", \
     .help = "What is soaked: messages, a tunnel, or both over a link that dies again and again."}
#define TIMEOUT_ROW \
    {.key = "timeout_ms", .kind = SN_CONFIG_INT, .min = 1000, .max = 3600000, .def = "90000", \
     .help = "How long one start may take, in milliseconds; it fails when that is over."}
#define BUSY_ROW \
    {.key = "busy", .kind = SN_CONFIG_INT, .min = 0, .max = SN_SOAK_BUSY_MAX, .def = "0", \
     .help = "Processes that do nothing but keep a processor busy meanwhile."}
#define DIAL_ROW \
    {.key = "dial", .kind = SN_CONFIG_ENUM, .choices = "edge|both", .def = "edge", \
     .help = "Who dials: only the edge, or both agents each other."}
#define SIZE_ROWS \
    {.key = "size_min", .kind = SN_CONFIG_INT, .min = MESSAGE_MIN, .max = SN_MESSAGE_BYTES_MAX, \
     .def = "64", .help = "The smallest message, in bytes."}, \
    {.key = "size_max", .kind = SN_CONFIG_INT, .min = MESSAGE_MIN, .max = SN_MESSAGE_BYTES_MAX, \
     .def = "65536", .help = "The largest message, in bytes."}
#define CLASS_ROW \
    {.key = "class", .kind = SN_CONFIG_ENUM, .choices = "application|control", \
     .def = "application", .help = "The class that the messages travel in."}
#define STEADY_ROW \
    {.key = "steady", .kind = SN_CONFIG_BOOL, .def = "false", \
     .help = "Whether the start fails when the agents' first session did not last to its end."}

const struct sn_config_field sn_soak_delivery_fields[] = {
    KIND_ROW,
    {.key = "starts", .kind = SN_CONFIG_INT, .min = 1, .max = 10000, .def = "1",
     .help = "Cold starts of both agents; the edge starts first in every second one."},
    {.key = "messages", .kind = SN_CONFIG_INT, .min = 1, .max = MESSAGES_MAX, .def = "800",
     .help = "Messages in each direction and start."},
    SIZE_ROWS, CLASS_ROW, DIAL_ROW, STEADY_ROW, BUSY_ROW, TIMEOUT_ROW,
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
    DIAL_ROW, STEADY_ROW, BUSY_ROW, TIMEOUT_ROW,
    {0},
};

const struct sn_config_field sn_soak_flap_fields[] = {
    KIND_ROW,
    {.key = "duration_ms", .kind = SN_CONFIG_INT, .min = 1000, .max = DURATION_MAX, .def = "600000",
     .help = "How long the link goes on dying, in milliseconds."},
    {.key = "up_min_ms", .kind = SN_CONFIG_INT, .min = 100, .max = 600000, .def = "3000",
     .help = "The shortest time for which the link is good, in milliseconds."},
    {.key = "up_max_ms", .kind = SN_CONFIG_INT, .min = 100, .max = 600000, .def = "20000",
     .help = "The longest time for which the link is good, in milliseconds."},
    {.key = "stop_min_ms", .kind = SN_CONFIG_INT, .min = 1, .max = STOP_MAX, .def = "1000",
     .help = "The shortest time for which the link takes everything and passes on nothing, in "
             "milliseconds."},
    {.key = "stop_max_ms", .kind = SN_CONFIG_INT, .min = 1, .max = STOP_MAX, .def = "5000",
     .help = "The longest time for which the link takes everything and passes on nothing, in "
             "milliseconds."},
    {.key = "per_second", .kind = SN_CONFIG_INT, .min = 1, .max = MESSAGES_MAX, .def = "100",
     .help = "Messages in each direction and second; together no more than a soak actor counts."},
    SIZE_ROWS, CLASS_ROW,
    {.key = "bytes", .kind = SN_CONFIG_INT, .min = 1, .max = SN_SOAK_BYTES_MAX, .def = "16777216",
     .help = "Bytes of one transfer through the forward, in each direction."},
    {.key = "link_kib", .kind = SN_CONFIG_INT, .min = 0, .max = 16777216, .def = "4096",
     .help = "KiB a second that a connection of the link carries in a direction; 0: no limit."},
    {.key = "gap_max_ms", .kind = SN_CONFIG_INT, .min = 0, .max = 600000, .def = "0",
     .help = "How long messages and streams may take to go on, while the link is good, in "
             "milliseconds; 0: reported only."},
    {.key = "growth_max_kib", .kind = SN_CONFIG_INT, .min = 0, .max = 1048576, .def = "0",
     .help = "KiB by which an agent's memory may grow from the first half to the second, each "
             "followed by a rest of 12 s; 0: no rests, and peaks are reported only."},
    {.key = "log_max_kib", .kind = SN_CONFIG_INT, .min = 0, .max = 1048576, .def = "0",
     .help = "KiB that an agent may log in an hour; 0: reported only."},
    BUSY_ROW, TIMEOUT_ROW,
    {0},
};
/* clang-format on */

const char *sn_soak_kind_name(enum sn_soak_kind kind)
{
    static const char *const names[] = {
        [SN_SOAK_DELIVERY] = "delivery", [SN_SOAK_TUNNEL] = "tunnel", [SN_SOAK_FLAP] = "flap"};
    return names[kind];
}

static const struct sn_config_field *fields_of(enum sn_soak_kind kind)
{
    static const struct sn_config_field *const fields[] = {[SN_SOAK_DELIVERY] =
                                                               sn_soak_delivery_fields,
                                                           [SN_SOAK_TUNNEL] = sn_soak_tunnel_fields,
                                                           [SN_SOAK_FLAP] = sn_soak_flap_fields};
    return fields[kind];
}

/* Delivery when it is none: then the schema says what is wrong. */
static enum sn_soak_kind kind_of(const struct sn_config_node *root)
{
    const char *name = sn_config_text(sn_config_get(root, "scenario"), "");
    if (strcmp(name, "tunnel") == 0) return SN_SOAK_TUNNEL;
    return strcmp(name, "flap") == 0 ? SN_SOAK_FLAP : SN_SOAK_DELIVERY;
}

static uint32_t get(const struct sn_config_node *root, const struct sn_config_field *fields,
                    const char *key)
{
    return (uint32_t)sn_config_get_int(root, fields, key); /* never negative */
}

/* `min` is below `max`, or the one of both that was given is wrong. */
static void check_range(const struct sn_config_node *root, struct sn_findings *findings,
                        const char *min_key, uint32_t min, const char *max_key, uint32_t max)
{
    if (min <= max) return;
    const char *key = sn_config_get(root, max_key) != NULL ? max_key : min_key;
    sn_findings_add_node(findings, sn_config_get(root, key), "`%s` is %u and `%s` %u", min_key, min,
                         max_key, max);
}

static void read_common(const struct sn_config_node *root, const struct sn_config_field *fields,
                        struct sn_scenario *scenario)
{
    scenario->timeout_ms = get(root, fields, "timeout_ms");
    scenario->busy = get(root, fields, "busy");
}

static void read_sizes(const struct sn_config_node *root, const struct sn_config_field *fields,
                       struct sn_findings *findings, struct sn_scenario *scenario)
{
    scenario->size_min = get(root, fields, "size_min");
    scenario->size_max = get(root, fields, "size_max");
    scenario->is_control = strcmp(sn_config_get_text(root, fields, "class"), "control") == 0;
    if (scenario->size_min <= scenario->size_max) return;
    const char *key = sn_config_get(root, "size_max") != NULL ? "size_max" : "size_min";
    sn_findings_add_node(findings, sn_config_get(root, key),
                         "the smallest message has %u bytes and the largest %u", scenario->size_min,
                         scenario->size_max);
}

static void read_session(const struct sn_config_node *root, const struct sn_config_field *fields,
                         struct sn_findings *findings, struct sn_scenario *scenario)
{
    scenario->is_dialed_both = strcmp(sn_config_get_text(root, fields, "dial"), "both") == 0;
    scenario->is_steady = (uint8_t)sn_config_get_bool(root, fields, "steady");
    if (!scenario->is_dialed_both || !scenario->is_steady) return;
    sn_findings_add_node(findings, sn_config_get(root, "steady"),
                         "where both dial, a connection may be replaced by the other one's");
}

static void read_delivery(const struct sn_config_node *root, struct sn_findings *findings,
                          struct sn_scenario *scenario)
{
    const struct sn_config_field *fields = sn_soak_delivery_fields;
    scenario->starts = get(root, fields, "starts");
    scenario->messages = get(root, fields, "messages");
    read_sizes(root, fields, findings, scenario);
    read_session(root, fields, findings, scenario);
}

static void read_tunnel(const struct sn_config_node *root, struct sn_findings *findings,
                        struct sn_scenario *scenario)
{
    const struct sn_config_field *fields = sn_soak_tunnel_fields;
    scenario->starts = get(root, fields, "runs");
    scenario->bytes = get(root, fields, "bytes");
    scenario->target_late_ms = get(root, fields, "target_late_ms");
    read_session(root, fields, findings, scenario);
}

/* As many messages as become due while the link dies. */
static void read_messages(const struct sn_config_node *root, struct sn_findings *findings,
                          struct sn_scenario *scenario)
{
    const struct sn_soak_flap *flap = &scenario->flap;
    uint64_t messages = ((uint64_t)flap->duration_ms * flap->per_second + 999) / 1000;
    scenario->messages = (uint32_t)(messages < MESSAGES_MAX ? messages : MESSAGES_MAX);
    if (messages <= MESSAGES_MAX) return;
    const char *key = sn_config_get(root, "per_second") != NULL ? "per_second" : "duration_ms";
    sn_findings_add_node(findings, sn_config_get(root, key),
                         "these are %llu messages, and a soak actor counts %d",
                         (unsigned long long)messages, MESSAGES_MAX);
}

/* Each half is longer than the rest at its end. */
static void check_growth(const struct sn_config_node *root, struct sn_findings *findings,
                         const struct sn_soak_flap *flap)
{
    if (flap->growth_max_kib == 0 || flap->duration_ms >= 4 * SN_SOAK_REST_MS) return;
    sn_findings_add_node(findings, sn_config_get(root, "growth_max_kib"),
                         "needs a `duration_ms` of at least %u, for its two rests",
                         4 * SN_SOAK_REST_MS);
}

static void read_flap(const struct sn_config_node *root, struct sn_findings *findings,
                      struct sn_scenario *scenario)
{
    const struct sn_config_field *fields = sn_soak_flap_fields;
    struct sn_soak_flap *flap = &scenario->flap;
    scenario->starts = 1;
    scenario->bytes = get(root, fields, "bytes");
    flap->duration_ms = get(root, fields, "duration_ms");
    flap->up_min_ms = get(root, fields, "up_min_ms");
    flap->up_max_ms = get(root, fields, "up_max_ms");
    flap->stop_min_ms = get(root, fields, "stop_min_ms");
    flap->stop_max_ms = get(root, fields, "stop_max_ms");
    flap->per_second = get(root, fields, "per_second");
    flap->link_kib = get(root, fields, "link_kib");
    flap->gap_max_ms = get(root, fields, "gap_max_ms");
    flap->growth_max_kib = get(root, fields, "growth_max_kib");
    flap->log_max_kib = get(root, fields, "log_max_kib");
    check_range(root, findings, "up_min_ms", flap->up_min_ms, "up_max_ms", flap->up_max_ms);
    check_range(root, findings, "stop_min_ms", flap->stop_min_ms, "stop_max_ms", flap->stop_max_ms);
    check_growth(root, findings, flap);
    read_sizes(root, fields, findings, scenario);
    read_messages(root, findings, scenario);
}

static enum sn_err read_tree(const struct sn_config_node *root, struct sn_findings *findings,
                             struct sn_scenario *out_scenario)
{
    struct sn_scenario scenario = {.kind = kind_of(root)};
    const struct sn_config_field *fields = fields_of(scenario.kind);
    uint32_t before = findings->total;
    enum sn_err err = sn_schema_check(root, fields, findings);
    if (err != SN_OK) return err;
    read_common(root, fields, &scenario);
    switch (scenario.kind) {
    case SN_SOAK_DELIVERY: read_delivery(root, findings, &scenario); break;
    case SN_SOAK_TUNNEL: read_tunnel(root, findings, &scenario); break;
    case SN_SOAK_FLAP: read_flap(root, findings, &scenario); break;
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
