/* SPDX-License-Identifier: Apache-2.0 */
/* What the tunnel plugin declares: schema, metrics, messages, and the check of what a schema cannot
 * say. */
#include "sennit/plugin.h"

#include <stdio.h>
#include <string.h>

#include "tunnel.h"

#define ROLE_PREFIX "role:"

/* Checked below: a pattern may also name a role. */
static const struct sn_config_field allow_item = {
    .kind = SN_CONFIG_TEXT, .min = 1, .max = SN_AGENT_NAME_BYTES_MAX};

const struct sn_config_field sni_tunnel_target_fields[] = {
    {.key = "address",
     .kind = SN_CONFIG_ADDRESS,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The service, as this agent reaches it."},
    {.key = "allow",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_REQUIRED | SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = TUNNEL_PATTERNS_MAX,
     .item = &allow_item,
     .help = "Agents that may use the target: `site/agent`, `site/*`, `*`, or `role:NAME`."},
    {.key = "connect_wait_ms",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = 600000,
     .def = "10000",
     .help = "How long to retry while the service does not answer, in milliseconds."},
    {.key = "max_connections",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = TUNNEL_FLOWS_MAX,
     .def = "1024",
     .help = "Tunnels to the service at a time; of a service that does not answer a quarter of "
             "that waits, others are refused at once."},
    {.key = "max_per_agent",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = TUNNEL_FLOWS_MAX,
     .def = "256",
     .help = "How many of them may be one agent's."},
    {.key = "idle_ms",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = TUNNEL_IDLE_MS_MAX,
     .def = "0",
     .help = "A tunnel in which no byte moved for so many milliseconds is reset; 0 = never."},
    {0},
};

static const struct sn_config_field target_item = {.kind = SN_CONFIG_MAP,
                                                   .fields = sni_tunnel_target_fields};

const struct sn_config_field sni_tunnel_forward_fields[] = {
    {.key = "listen",
     .kind = SN_CONFIG_LISTEN,
     .flags = SN_CONFIG_REQUIRED,
     .help = "Where connections are accepted. Port 0 lets the system choose."},
    {.key = "to",
     .kind = SN_CONFIG_AGENT,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The agent that has the target."},
    {.key = "target",
     .kind = SN_CONFIG_LABEL,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The target, by the name it has there."},
    {.key = "open_wait_ms",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = 900000,
     .def = "15000",
     .help = "How long a client may wait for its tunnel, in milliseconds; longer than the target's "
             "`connect_wait_ms`."},
    {.key = "max_connections",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = TUNNEL_FLOWS_MAX,
     .def = "1024",
     .help = "Clients at a time; others are reset at once."},
    {.key = "idle_ms",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = TUNNEL_IDLE_MS_MAX,
     .def = "0",
     .help = "A tunnel in which no byte moved for so many milliseconds is reset; 0 = never."},
    {0},
};

static const struct sn_config_field forward_item = {.kind = SN_CONFIG_MAP,
                                                    .fields = sni_tunnel_forward_fields};

const struct sn_config_field sni_tunnel_fields[] = {
    {.key = "targets",
     .kind = SN_CONFIG_DICT,
     .min = 0,
     .max = TUNNEL_ENTRIES_MAX,
     .item = &target_item,
     .help = "Services that other agents may reach through this one, by name."},
    {.key = "forwards",
     .kind = SN_CONFIG_DICT,
     .min = 0,
     .max = TUNNEL_ENTRIES_MAX,
     .item = &forward_item,
     .help = "Local ports that lead to targets of other agents, by name."},
    {0},
};

static const struct sn_metric_desc metrics[] = {
    [METRIC_OPENED] = {"tunnel.opened", SN_METRIC_COUNTER,
                       "tunnels that came up, as client or target"},
    [METRIC_DENIED] =
        {"tunnel.denied", SN_METRIC_COUNTER,
         "tunnels refused here: not allowed, or no such target; and lists that others asked for"},
    [METRIC_FAILED] = {"tunnel.failed", SN_METRIC_COUNTER,
                       "tunnels that could not be opened, or broke"},
    [METRIC_REFUSED] = {"tunnel.refused", SN_METRIC_COUNTER,
                        "clients that got no place: a limit of a forward or target was reached"},
    [METRIC_DIAL_RETRIES] = {"tunnel.dial_retries", SN_METRIC_COUNTER,
                             "dials repeated because a target did not answer"},
    [METRIC_LISTEN_FAILURES] = {"tunnel.listen_failures", SN_METRIC_COUNTER,
                                "times that a forward could not be bound"},
    [METRIC_SENT_BYTES] = {"tunnel.sent_bytes", SN_METRIC_COUNTER,
                           "bytes toward the peer, counted when a tunnel ends"},
    [METRIC_RECEIVED_BYTES] = {"tunnel.received_bytes", SN_METRIC_COUNTER,
                               "bytes from the peer, counted when a tunnel ends"},
    [METRIC_OPEN_NOW] = {"tunnel.open_now", SN_METRIC_GAUGE, "tunnels that are up"},
    {0},
};

static const struct sn_message_type messages[] = {
    {TUNNEL_LIST, "Asks for all forwards and targets, as JSON; answered to this agent only, others "
                  "get tunnel.refused and none."},
    {0},
};

/* --- What the schema cannot say ------------------------------------------------------------------
 */

static int is_label(const char *text, size_t size)
{
    if (size == 0 || size > SN_LABEL_BYTES_MAX) return 0;
    if (text[0] == '-' || text[size - 1] == '-') return 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return 0;
    }
    return 1;
}

static int is_pattern(const char *text)
{
    size_t prefix = strlen(ROLE_PREFIX);
    if (strncmp(text, ROLE_PREFIX, prefix) == 0) {
        return is_label(text + prefix, strlen(text + prefix));
    }
    if (strcmp(text, "*") == 0) return 1;
    const char *slash = strchr(text, '/');
    if (slash == NULL || !is_label(text, (size_t)(slash - text))) return 0;
    return strcmp(slash, "/*") == 0 || is_label(slash + 1, strlen(slash + 1));
}

static void check_allow(const struct sn_config_node *allow, sn_plugin_finding_fn report, void *arg)
{
    for (uint32_t i = 0; i < sn_config_count(allow); i++) {
        const struct sn_config_node *node = sn_config_at(allow, i);
        if (is_pattern(sn_config_text(node, ""))) continue;
        report(arg, node,
               "expected an agent as site/agent, a site as site/*, a role as role:NAME, or *");
    }
}

static int has_port_zero(const char *address)
{
    const char *colon = strrchr(address, ':');
    return colon != NULL && strspn(colon + 1, "0") == strlen(colon + 1);
}

/* The same text twice is a mistake of whoever copied a forward; the system finds the other clashes.
 */
static void check_listen(const struct sn_config_node *forwards, uint32_t index,
                         sn_plugin_finding_fn report, void *arg)
{
    const struct sn_config_node *node = sn_config_get(sn_config_at(forwards, index), "listen");
    const char *address = sn_config_text(node, "");
    if (has_port_zero(address)) return;
    for (uint32_t i = 0; i < index; i++) {
        const struct sn_config_node *other = sn_config_get(sn_config_at(forwards, i), "listen");
        if (strcmp(sn_config_text(other, ""), address) != 0) continue;
        char message[160];
        (void)snprintf(message, sizeof message, "forward `%s` listens on the same address",
                       sn_config_key_at(forwards, i)); /* fits: names are short */
        report(arg, node, message);
        return;
    }
}

static enum sn_err check(const struct sn_config_node *config, sn_plugin_finding_fn report,
                         void *arg)
{
    const struct sn_config_node *targets = sn_config_get(config, "targets");
    for (uint32_t i = 0; i < sn_config_count(targets); i++) {
        check_allow(sn_config_get(sn_config_at(targets, i), "allow"), report, arg);
    }
    const struct sn_config_node *forwards = sn_config_get(config, "forwards");
    for (uint32_t i = 0; i < sn_config_count(forwards); i++) {
        check_listen(forwards, i, report, arg);
    }
    return SN_OK;
}

static const struct sn_actor_kind *const actors[] = {&sni_tunnel_kind};

SN_PLUGIN_EXPORT const struct sn_plugin sn_plugin = {
    SN_PLUGIN_HEADER,
    .name = "tunnel",
    .version = "0.1.0",
    .help = "Joins local ports of one agent to services that another agent reaches.",
    .actors = actors,
    .actor_count = 1,
    .config = sni_tunnel_fields,
    .metrics = metrics,
    .messages = messages,
    .check = check,
};
