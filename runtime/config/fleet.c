/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a fleet that is handed out has every reference resolved and passed every check; its
 * arrays are as large as the bounded file says, never larger.
 */
#include "config/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/netaddr.h"
#include "base/text.h"
#include "config/array.h"
#include "config/fleet_int.h"
#include "config/schema.h"
#include "config/tree.h"

#define OPEN_WAIT_MS   15000u /* of a forward, as the tunnel plugin has it */
#define OPEN_MARGIN_MS 5000u

int sn_config_patterns_match(const struct sn_config_node *patterns, const char *name)
{
    for (uint32_t i = 0; i < sn_config_count(patterns); i++) {
        const char *pattern = sn_config_text(sn_config_at(patterns, i), "");
        if (sn_agent_pattern_matches(pattern, name)) return 1;
    }
    return 0;
}

static int has_role(const struct sn_fleet_agent *agent, const char *role)
{
    for (uint32_t i = 0; i < sn_config_count(agent->roles); i++) {
        if (strcmp(sn_config_text(sn_config_at(agent->roles, i), ""), role) == 0) return 1;
    }
    return 0;
}

int sn_fleet_patterns_match(const struct sn_config_node *patterns,
                            const struct sn_fleet_agent *agent)
{
    for (uint32_t i = 0; i < sn_config_count(patterns); i++) {
        const char *pattern = sn_config_text(sn_config_at(patterns, i), "");
        const char *role = sn_config_role_of(pattern);
        if (role != NULL && has_role(agent, role)) return 1;
    }
    return sn_config_patterns_match(patterns, agent->name);
}

/* An address of its own is where nobody listens on all interfaces or on a port still to be chosen.
 */
static const char *dialable(const char *url)
{
    struct sn_endpoint endpoint;
    const char *address = url + strlen("tls://");
    if (sn_endpoint_parse(address, strlen(address), 0, &endpoint) != SN_OK) return NULL;
    if (!endpoint.is_literal) return address;
    for (size_t i = 0; i < sizeof endpoint.addr.ip; i++) {
        if (endpoint.addr.ip[i] != 0) return address;
    }
    return NULL;
}

const char *sn_fleet_agent_address(const struct sn_fleet_agent *agent, uint32_t index)
{
    if (agent->address != NULL) return sn_config_text(sn_config_at(agent->address, index), NULL);
    for (uint32_t i = 0; i < sn_config_count(agent->listen); i++) {
        const char *address = dialable(sn_config_text(sn_config_at(agent->listen, i), "tls://"));
        if (address == NULL) continue;
        if (index == 0) return address;
        index--;
    }
    return NULL;
}

int sn_fleet_has_tunnels(const struct sn_fleet *fleet, uint32_t agent)
{
    for (uint32_t i = 0; i < fleet->target_count; i++) {
        if (fleet->targets[i].at == agent) return 1;
    }
    for (uint32_t i = 0; i < fleet->forward_count; i++) {
        if (fleet->forwards[i].at == agent) return 1;
    }
    return 0;
}

uint32_t sn_fleet_tunnel_entry(const struct sn_fleet *fleet, uint32_t agent)
{
    for (uint32_t i = 0; i < fleet->plugin_count; i++) {
        const struct sn_fleet_plugin *plugin = &fleet->plugins[i];
        if (strcmp(plugin->name, "tunnel") != 0) continue;
        if (sn_config_patterns_match(plugin->at, fleet->agents[agent].name)) return i;
    }
    return SN_FLEET_NONE;
}

uint32_t sn_fleet_find_agent(const struct sn_fleet *fleet, const char *name)
{
    uint32_t low = 0;
    uint32_t high = fleet->agent_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t index = fleet->agents_sorted[middle];
        int order = strcmp(fleet->agents[index].name, name);
        if (order == 0) return index;
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return SN_FLEET_NONE;
}

uint32_t sni_fleet_resolve_agent(const struct sn_fleet *fleet, const struct sn_config_node *node,
                                 const char *name, struct sn_findings *findings)
{
    uint32_t index = sn_fleet_find_agent(fleet, name);
    if (index != SN_FLEET_NONE || sn_findings_is_full(findings)) return index;
    struct sn_suggest suggest;
    sn_suggest_init(&suggest, name);
    for (uint32_t i = 0; i < fleet->agent_count; i++) {
        sn_suggest_offer(&suggest, fleet->agents[i].name);
    }
    char quoted[SN_QUOTE_MAX];
    char hint[SN_HINT_MAX];
    sn_findings_add_node(findings, node, "no agent %s in this fleet%s", sn_quote(name, quoted),
                         suggest.best == NULL ? "; add it to `sites`, or name another one"
                                              : sn_suggest_text(&suggest, hint));
    return SN_FLEET_NONE;
}

static void read_agent(const struct sn_fleet *fleet, const char *site,
                       const struct sn_config_node *node, struct sn_fleet_agent *agent)
{
    /* Both are labels of at most 63 bytes, so the name fits. */
    (void)snprintf(agent->name, sizeof agent->name, "%.63s/%.63s", site, sn_config_key(node));
    agent->node = node;
    agent->key = sn_config_text(sn_config_get(node, "key"), NULL);
    agent->listen = sn_config_get(node, "listen");
    agent->address = sn_config_get(node, "address");
    agent->roles = sn_config_get(node, "roles");
    agent->settings = fleet->settings;
    sn_settings_apply(&agent->settings, sn_config_get(node, "settings"));
}

static int compare_agents(const void *a, const void *b)
{
    const struct sn_fleet_agent *left = *(struct sn_fleet_agent *const *)a;
    const struct sn_fleet_agent *right = *(struct sn_fleet_agent *const *)b;
    return strcmp(left->name, right->name);
}

/* Names are unique: labels are unique within a site, and sites are. */
static enum sn_err sort_agents(struct sn_fleet *fleet)
{
    struct sn_fleet_agent **order = NULL;
    enum sn_err err = sni_array_new(fleet->agent_count, sizeof *order, &order);
    if (err != SN_OK) return err;
    err = sni_array_new(fleet->agent_count, sizeof *fleet->agents_sorted, &fleet->agents_sorted);
    if (err != SN_OK) goto out;
    for (uint32_t i = 0; i < fleet->agent_count; i++) order[i] = &fleet->agents[i];
    qsort(order, fleet->agent_count, sizeof *order, compare_agents);
    for (uint32_t i = 0; i < fleet->agent_count; i++) {
        fleet->agents_sorted[i] = (uint32_t)(order[i] - fleet->agents);
    }
out:
    sn_free(order, fleet->agent_count * sizeof *order);
    return err;
}

static enum sn_err read_agents(struct sn_fleet *fleet, const struct sn_config_node *sites,
                               struct sn_findings *findings)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sn_config_count(sites); i++) {
        count += sn_config_count(sn_config_at(sites, i));
    }
    if (count > SN_FLEET_AGENTS_MAX) {
        sn_findings_add_node(findings, sites, "%u agents; at most %u are allowed", count,
                             SN_FLEET_AGENTS_MAX);
        return SN_EINVAL;
    }
    enum sn_err err = sni_array_new(count, sizeof *fleet->agents, &fleet->agents);
    if (err != SN_OK) return err;
    fleet->agent_count = count;
    struct sn_fleet_agent *agent = fleet->agents;
    for (uint32_t i = 0; i < sn_config_count(sites); i++) {
        const struct sn_config_node *site = sn_config_at(sites, i);
        for (uint32_t j = 0; j < sn_config_count(site); j++) {
            read_agent(fleet, sn_config_key(site), sn_config_at(site, j), agent++);
        }
    }
    return sort_agents(fleet);
}

static enum sn_err read_links(struct sn_fleet *fleet, struct sn_findings *findings)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fleet->agent_count; i++) {
        count += sn_config_count(sn_config_get(fleet->agents[i].node, "links"));
    }
    enum sn_err err = sni_array_new(count, sizeof *fleet->links, &fleet->links);
    if (err != SN_OK) return err;
    fleet->link_count = count;
    struct sn_fleet_link *link = fleet->links;
    for (uint32_t i = 0; i < fleet->agent_count; i++) {
        struct sn_fleet_agent *agent = &fleet->agents[i];
        const struct sn_config_node *links = sn_config_get(agent->node, "links");
        agent->links = link;
        agent->link_count = sn_config_count(links);
        for (uint32_t j = 0; j < agent->link_count; j++, link++) {
            link->node = sn_config_at(links, j);
            link->to_node = sn_config_get(link->node, "to");
            if (link->to_node == NULL) link->to_node = link->node; /* a name alone */
            link->address = sn_config_get(link->node, "address");
            link->to = sni_fleet_resolve_agent(fleet, link->to_node,
                                               sn_config_text(link->to_node, ""), findings);
        }
    }
    return SN_OK;
}

static uint32_t read_at(const struct sn_fleet *fleet, const struct sn_config_node *node,
                        struct sn_findings *findings)
{
    const struct sn_config_node *at = sn_config_get(node, "at");
    return sni_fleet_resolve_agent(fleet, at, sn_config_text(at, ""), findings);
}

static enum sn_err read_targets(struct sn_fleet *fleet, const struct sn_config_node *list,
                                struct sn_findings *findings)
{
    uint32_t count = sn_config_count(list);
    enum sn_err err = sni_array_new(count, sizeof *fleet->targets, &fleet->targets);
    if (err != SN_OK) return err;
    fleet->target_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct sn_fleet_target *target = &fleet->targets[i];
        target->node = sn_config_at(list, i);
        target->name = sn_config_key(target->node);
        target->at = read_at(fleet, target->node, findings);
        target->address = sn_config_text(sn_config_get(target->node, "address"), "");
        target->allow = sn_config_get(target->node, "allow");
        target->connect_wait_ms =
            (uint32_t)sn_config_get_int(target->node, sni_fleet_target_fields, "connect_wait_ms");
    }
    return SN_OK;
}

static uint32_t resolve_target(const struct sn_fleet *fleet, const struct sn_config_node *targets,
                               const struct sn_config_node *node, struct sn_findings *findings)
{
    const char *name = sn_config_text(node, "");
    const struct sn_config_node *found = sn_config_get(targets, name);
    for (uint32_t i = 0; found != NULL && i < fleet->target_count; i++) {
        if (fleet->targets[i].node == found) return i;
    }
    struct sn_suggest suggest;
    sn_suggest_init(&suggest, name);
    for (uint32_t i = 0; i < fleet->target_count; i++) {
        sn_suggest_offer(&suggest, fleet->targets[i].name);
    }
    char quoted[SN_QUOTE_MAX];
    char hint[SN_HINT_MAX];
    sn_findings_add_node(findings, node, "no target %s in this fleet%s", sn_quote(name, quoted),
                         suggest.best == NULL ? "; add it to `targets`, or name another one"
                                              : sn_suggest_text(&suggest, hint));
    return SN_FLEET_NONE;
}

/* A client should outlast the search for its service. */
static uint32_t open_wait_ms(const struct sn_fleet *fleet, const struct sn_fleet_forward *forward)
{
    uint32_t wait_ms = OPEN_WAIT_MS;
    if (forward->target != SN_FLEET_NONE) {
        uint32_t connect_ms = fleet->targets[forward->target].connect_wait_ms;
        if (connect_ms + OPEN_MARGIN_MS > wait_ms) wait_ms = connect_ms + OPEN_MARGIN_MS;
    }
    const struct sn_config_node *given = sn_config_get(forward->node, "open_wait_ms");
    return (uint32_t)sn_config_int(given, wait_ms);
}

static enum sn_err read_forwards(struct sn_fleet *fleet, const struct sn_config_node *root,
                                 struct sn_findings *findings)
{
    const struct sn_config_node *list = sn_config_get(root, "forwards");
    const struct sn_config_node *targets = sn_config_get(root, "targets");
    uint32_t count = sn_config_count(list);
    enum sn_err err = sni_array_new(count, sizeof *fleet->forwards, &fleet->forwards);
    if (err != SN_OK) return err;
    fleet->forward_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct sn_fleet_forward *forward = &fleet->forwards[i];
        forward->node = sn_config_at(list, i);
        forward->name = sn_config_key(forward->node);
        forward->at = read_at(fleet, forward->node, findings);
        forward->listen = sn_config_text(sn_config_get(forward->node, "listen"), "");
        forward->target =
            resolve_target(fleet, targets, sn_config_get(forward->node, "target"), findings);
        forward->open_wait_ms = open_wait_ms(fleet, forward);
    }
    return SN_OK;
}

static void read_rule(const struct sn_fleet *fleet, struct sn_fleet_access *rule,
                      struct sn_findings *findings)
{
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];
    struct sn_addr_parts parts = {0};
    const struct sn_config_node *to = sn_config_get(rule->node, "to");
    const char *text = sn_config_text(to, "");
    enum sn_err err = sn_addr_split(text, strlen(text), &parts);
    SN_ASSERT(err == SN_OK); /* the schema checked its form */
    err = sn_text_copy(agent, sizeof agent, parts.agent, parts.agent_size);
    SN_ASSERT(err == SN_OK);
    rule->at = sni_fleet_resolve_agent(fleet, to, agent, findings);
    rule->actor = parts.actor; /* the last part, so it ends with the text's NUL */
    rule->types = sn_config_get(rule->node, "types");
    rule->from = sn_config_get(rule->node, "from");
}

static enum sn_err read_access(struct sn_fleet *fleet, const struct sn_config_node *list,
                               struct sn_findings *findings)
{
    uint32_t count = sn_config_count(list);
    enum sn_err err = sni_array_new(count, sizeof *fleet->access, &fleet->access);
    if (err != SN_OK) return err;
    fleet->access_count = count;
    for (uint32_t i = 0; i < count; i++) {
        fleet->access[i].node = sn_config_at(list, i);
        read_rule(fleet, &fleet->access[i], findings);
    }
    return SN_OK;
}

static enum sn_err read_plugins(struct sn_fleet *fleet, const struct sn_config_node *list)
{
    uint32_t count = sn_config_count(list);
    enum sn_err err = sni_array_new(count, sizeof *fleet->plugins, &fleet->plugins);
    if (err != SN_OK) return err;
    fleet->plugin_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct sn_fleet_plugin *plugin = &fleet->plugins[i];
        plugin->node = sn_config_at(list, i);
        plugin->name = sn_config_text(sn_config_get(plugin->node, "name"), "");
        plugin->at = sn_config_get(plugin->node, "at");
        plugin->path = sn_config_text(sn_config_get(plugin->node, "path"), NULL);
        plugin->sha256 = sn_config_get(plugin->node, "sha256");
        plugin->config = sn_config_get(plugin->node, "config");
    }
    return SN_OK;
}

static enum sn_err read_fleet(struct sn_fleet *fleet, struct sn_findings *findings)
{
    const struct sn_config_node *root = sn_config_root(fleet->tree);
    fleet->mesh = sn_config_text(sn_config_get(root, "mesh"), "");
    fleet->authority = sn_config_text(sn_config_get(root, "authority"), "");
    fleet->settings = sn_settings_default();
    sn_settings_apply(&fleet->settings, sn_config_get(root, "settings"));
    enum sn_err err = read_agents(fleet, sn_config_get(root, "sites"), findings);
    if (err != SN_OK) return err;
    err = read_links(fleet, findings);
    if (err != SN_OK) return err;
    err = read_targets(fleet, sn_config_get(root, "targets"), findings);
    if (err != SN_OK) return err;
    err = read_forwards(fleet, root, findings);
    if (err != SN_OK) return err;
    err = read_access(fleet, sn_config_get(root, "access"), findings);
    if (err != SN_OK) return err;
    return read_plugins(fleet, sn_config_get(root, "plugins"));
}

/* One finding says more than dozens about unknown keys. */
static int is_agent_file(const struct sn_config_node *root, struct sn_findings *findings)
{
    if (sn_config_get(root, "agent") == NULL || sn_config_get(root, "sites") != NULL) return 0;
    sn_findings_add_node(findings, root, "%s",
                         "this is the file of one agent, not a fleet file, which has `sites`; name "
                         "the fleet file that it was rendered from");
    return 1;
}

enum sn_err sn_fleet_parse(const void *bytes, size_t size, const char *file,
                           struct sn_findings *findings, struct sn_fleet **out_fleet)
{
    uint32_t before = findings->total;
    struct sn_fleet *fleet = sn_alloc(sizeof *fleet);
    if (fleet == NULL) return SN_ENOMEM;
    enum sn_err err = sn_config_parse(bytes, size, file, findings, &fleet->tree);
    if (err != SN_OK) goto out;
    err = is_agent_file(sn_config_root(fleet->tree), findings)
              ? sn_findings_result(findings, before)
              : sn_schema_check(sn_config_root(fleet->tree), sn_fleet_fields, findings);
    if (err != SN_OK) goto out;
    err = read_fleet(fleet, findings);
    if (err != SN_OK) goto out;
    sni_fleet_check(fleet, findings);
    err = sn_findings_result(findings, before);
    if (err != SN_OK) goto out;
    *out_fleet = fleet;
    fleet = NULL;
out:
    sn_findings_sort(findings);
    sn_fleet_free(fleet);
    return err;
}

void sn_fleet_free(struct sn_fleet *fleet)
{
    if (fleet == NULL) return;
    sn_free(fleet->agents, fleet->agent_count * sizeof *fleet->agents);
    sn_free(fleet->agents_sorted, fleet->agent_count * sizeof *fleet->agents_sorted);
    sn_free(fleet->links, fleet->link_count * sizeof *fleet->links);
    sn_free(fleet->targets, fleet->target_count * sizeof *fleet->targets);
    sn_free(fleet->forwards, fleet->forward_count * sizeof *fleet->forwards);
    sn_free(fleet->access, fleet->access_count * sizeof *fleet->access);
    sn_free(fleet->plugins, fleet->plugin_count * sizeof *fleet->plugins);
    sn_config_tree_free(fleet->tree);
    sn_free(fleet, sizeof *fleet);
}
