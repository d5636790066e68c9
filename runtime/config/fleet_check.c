/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a table cannot say about a fleet: whether its parts fit together. Guarantees: each finding
 * stands at the value that an operator would change.
 */
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/text.h"
#include "config/fleet_int.h"
#include "config/listen.h"
#include "config/schema.h"
#include "config/sha256.h"
#include "config/tree.h"

struct check {
    const struct sn_fleet *fleet;
    const struct sn_config_node *sites;
    struct sn_findings *findings;
};

static const char *agent_name(const struct check *c, uint32_t index)
{
    SN_ASSERT(index < c->fleet->agent_count);
    return c->fleet->agents[index].name;
}

static const char *listen_address(const struct sn_config_node *list, uint32_t index)
{
    return sn_config_text(sn_config_at(list, index), "tls://") + strlen("tls://");
}

static void check_agent_listens(const struct check *c, const struct sn_fleet_agent *agent)
{
    for (uint32_t i = 0; i < sn_config_count(agent->listen); i++) {
        for (uint32_t j = 0; j < i; j++) {
            const char *address = listen_address(agent->listen, i);
            const char *earlier = listen_address(agent->listen, j);
            if (!sni_listen_overlaps(address, earlier)) continue;
            sn_findings_add_node(
                c->findings, sn_config_at(agent->listen, i),
                "%s is listened on twice at %s (also by %s); remove one of them, or "
                "give it another port",
                address, agent->name, earlier);
            break;
        }
    }
    if (agent->address == NULL || agent->listen != NULL) return;
    sn_findings_add_key(
        c->findings, agent->address,
        "%s has an address for others to dial, but no `listen`; add that, or remove the address",
        agent->name);
}

static void check_agent_keys(const struct check *c, uint32_t index)
{
    const struct sn_fleet_agent *agent = &c->fleet->agents[index];
    for (uint32_t i = 0; agent->key != NULL && i < index; i++) {
        const struct sn_fleet_agent *other = &c->fleet->agents[i];
        /* Hexadecimal digits may differ in case. */
        if (other->key == NULL || strcasecmp(other->key, agent->key) != 0) continue;
        sn_findings_add_node(c->findings, sn_config_get(agent->node, "key"),
                             "%s has the same key as %s; each agent needs its own", agent->name,
                             other->name);
        return;
    }
}

static void check_link(const struct check *c, uint32_t from, uint32_t index)
{
    const struct sn_fleet_agent *agent = &c->fleet->agents[from];
    const struct sn_fleet_link *link = &agent->links[index];
    if (link->to == SN_FLEET_NONE) return; /* reported when it was resolved */
    const struct sn_fleet_agent *peer = &c->fleet->agents[link->to];
    if (link->to == from) {
        sn_findings_add_node(c->findings, link->to_node, "%s links to itself; remove this entry",
                             agent->name);
        return;
    }
    for (uint32_t i = 0; i < index; i++) {
        if (agent->links[i].to != link->to) continue;
        sn_findings_add_node(c->findings, link->to_node,
                             "%s links to %s twice; remove one of the entries", agent->name,
                             peer->name);
        return;
    }
    if (peer->listen == NULL) {
        sn_findings_add_node(c->findings, link->to_node,
                             "%s has no address to dial: it does not `listen`; add that to it",
                             peer->name);
        return;
    }
    if (link->address != NULL || sn_fleet_agent_address(peer, 0) != NULL) return;
    sn_findings_add_node(c->findings, link->to_node,
                         "%s has no address to dial: it listens on all interfaces or on port 0; "
                         "give it an `address`, or write {to, address} here",
                         peer->name);
}

static void check_agents(const struct check *c)
{
    for (uint32_t i = 0; i < c->fleet->agent_count; i++) {
        const struct sn_fleet_agent *agent = &c->fleet->agents[i];
        if (sn_findings_is_full(c->findings)) return;
        check_agent_listens(c, agent);
        check_agent_keys(c, i);
        for (uint32_t j = 0; j < agent->link_count; j++) check_link(c, i, j);
        sn_settings_check(&agent->settings, sn_config_get(agent->node, "settings"), c->findings);
    }
}

static void report_site(const struct check *c, const struct sn_config_node *node, const char *site)
{
    struct sn_suggest suggest;
    sn_suggest_init(&suggest, site);
    for (uint32_t i = 0; i < sn_config_count(c->sites); i++) {
        sn_suggest_offer(&suggest, sn_config_key_at(c->sites, i));
    }
    if (suggest.best == NULL) {
        sn_findings_add_node(
            c->findings, node,
            "`%s/*` matches no agent in this fleet; add that site to `sites`, or name another one",
            site);
        return;
    }
    sn_findings_add_node(c->findings, node,
                         "`%s/*` matches no agent in this fleet; did you mean `%s/*`?", site,
                         suggest.best);
}

static void report_role(const struct check *c, const struct sn_config_node *node, const char *role)
{
    struct sn_suggest suggest;
    sn_suggest_init(&suggest, role);
    for (uint32_t i = 0; i < c->fleet->agent_count; i++) {
        const struct sn_config_node *roles = c->fleet->agents[i].roles;
        for (uint32_t j = 0; j < sn_config_count(roles); j++) {
            sn_suggest_offer(&suggest, sn_config_text(sn_config_at(roles, j), ""));
        }
    }
    if (suggest.best == NULL) {
        sn_findings_add_node(c->findings, node,
                             "no agent in this fleet has the role `%s`; add it to the `roles` of "
                             "those that are meant",
                             role);
    } else {
        sn_findings_add_node(c->findings, node,
                             "no agent in this fleet has the role `%s`; did you mean `role:%s`?",
                             role, suggest.best);
    }
}

/* Returns 1 when somebody has the role. */
static int check_role(const struct check *c, const struct sn_config_node *node, const char *role)
{
    for (uint32_t i = 0; i < c->fleet->agent_count; i++) {
        const struct sn_config_node *roles = c->fleet->agents[i].roles;
        for (uint32_t j = 0; j < sn_config_count(roles); j++) {
            if (strcmp(sn_config_text(sn_config_at(roles, j), ""), role) == 0) return 1;
        }
    }
    report_role(c, node, role);
    return 0;
}

/* Every pattern must match somebody: one that matches nobody is a typo. Returns 1 when it does. */
static int check_pattern(const struct check *c, const struct sn_config_node *node)
{
    char site[SN_LABEL_BYTES_MAX + 1];
    const char *pattern = sn_config_text(node, "");
    if (strcmp(pattern, "*") == 0) return 1; /* a fleet has agents */
    const char *role = sn_config_role_of(pattern);
    if (role != NULL) return check_role(c, node, role);
    const char *slash = strchr(pattern, '/');
    SN_ASSERT(slash != NULL); /* the schema checked its form */
    if (strcmp(slash, "/*") != 0) {
        return sni_fleet_resolve_agent(c->fleet, node, pattern, c->findings) != SN_FLEET_NONE;
    }
    enum sn_err err = sn_text_copy(site, sizeof site, pattern, (size_t)(slash - pattern));
    SN_ASSERT(err == SN_OK);
    if (sn_config_get(c->sites, site) != NULL) return 1;
    report_site(c, node, site);
    return 0;
}

static int check_patterns(const struct check *c, const struct sn_config_node *patterns)
{
    int all = 1;
    for (uint32_t i = 0; i < sn_config_count(patterns); i++) {
        if (sn_findings_is_full(c->findings)) return 0;
        if (!check_pattern(c, sn_config_at(patterns, i))) all = 0;
    }
    return all;
}

static void check_target(const struct check *c, const struct sn_fleet_target *target)
{
    if (!check_patterns(c, target->allow) || target->at == SN_FLEET_NONE) return;
    for (uint32_t i = 0; i < c->fleet->agent_count; i++) {
        if (i == target->at) continue;
        if (sn_fleet_patterns_match(target->allow, &c->fleet->agents[i])) return;
    }
    sn_findings_add_node(
        c->findings, target->allow,
        "nobody may use this target: `allow` matches no agent but %s itself; add those that may",
        agent_name(c, target->at));
}

/* A link to an unknown name, reported already, may be the one that is meant. */
static int links_to(const struct sn_fleet_agent *agent, uint32_t to)
{
    for (uint32_t i = 0; i < agent->link_count; i++) {
        if (agent->links[i].to == to || agent->links[i].to == SN_FLEET_NONE) return 1;
    }
    return 0;
}

static int are_linked(const struct sn_fleet *fleet, uint32_t a, uint32_t b)
{
    return links_to(&fleet->agents[a], b) || links_to(&fleet->agents[b], a);
}

static void check_forward_target(const struct check *c, const struct sn_fleet_forward *forward)
{
    if (forward->at == SN_FLEET_NONE || forward->target == SN_FLEET_NONE) return;
    const struct sn_fleet_target *target = &c->fleet->targets[forward->target];
    if (target->at == SN_FLEET_NONE) return;
    const struct sn_config_node *node = sn_config_get(forward->node, "target");
    const char *from = agent_name(c, forward->at);
    const char *to = agent_name(c, target->at);
    if (forward->at == target->at) {
        sn_findings_add_node(c->findings, node,
                             "the target is at the forward's own agent, %s; use %s directly", to,
                             target->address);
        return;
    }
    if (!sn_fleet_patterns_match(target->allow, &c->fleet->agents[forward->at])) {
        sn_findings_add_node(c->findings, node,
                             "target `%s` does not allow %s; add it to targets.%s.allow",
                             target->name, from, target->name);
    }
    if (!are_linked(c->fleet, forward->at, target->at)) {
        sn_findings_add_node(c->findings, node,
                             "%s cannot reach %s: there is no link between them; add one to "
                             "`links` of either",
                             from, to);
    }
}

/* A client that gives up first makes the target's wait useless. */
static void check_forward_wait(const struct check *c, const struct sn_fleet_forward *forward)
{
    const struct sn_config_node *node = sn_config_get(forward->node, "open_wait_ms");
    if (node == NULL || forward->target == SN_FLEET_NONE) return;
    const struct sn_fleet_target *target = &c->fleet->targets[forward->target];
    if (forward->open_wait_ms > target->connect_wait_ms) return;
    sn_findings_add_node(
        c->findings, node,
        "%u is not longer than connect_wait_ms (%u) of target `%s`; make it longer",
        forward->open_wait_ms, target->connect_wait_ms, target->name);
}

static void check_forward_listen(const struct check *c, uint32_t index)
{
    const struct sn_fleet_forward *forward = &c->fleet->forwards[index];
    if (forward->at == SN_FLEET_NONE) return;
    const struct sn_config_node *node = sn_config_get(forward->node, "listen");
    const struct sn_fleet_agent *agent = &c->fleet->agents[forward->at];
    for (uint32_t i = 0; i < sn_config_count(agent->listen); i++) {
        if (!sni_listen_overlaps(forward->listen, listen_address(agent->listen, i))) continue;
        sn_findings_add_node(c->findings, node,
                             "%s is taken: agent %s itself listens on %s; choose another port",
                             forward->listen, agent->name, listen_address(agent->listen, i));
        return;
    }
    for (uint32_t i = 0; i < index; i++) {
        const struct sn_fleet_forward *other = &c->fleet->forwards[i];
        if (other->at != forward->at) continue;
        if (!sni_listen_overlaps(forward->listen, other->listen)) continue;
        sn_findings_add_node(c->findings, node,
                             "%s is taken: forward `%s` at %s listens on %s; choose another port",
                             forward->listen, other->name, agent->name, other->listen);
        return;
    }
}

/* One agent runs a plugin once. */
static void check_plugin_twice(const struct check *c, uint32_t index)
{
    const struct sn_fleet_plugin *plugin = &c->fleet->plugins[index];
    for (uint32_t i = 0; i < index; i++) {
        const struct sn_fleet_plugin *other = &c->fleet->plugins[i];
        if (strcmp(other->name, plugin->name) != 0) continue;
        for (uint32_t j = 0; j < c->fleet->agent_count; j++) {
            const char *name = agent_name(c, j);
            if (!sn_config_patterns_match(plugin->at, name)) continue;
            if (!sn_config_patterns_match(other->at, name)) continue;
            sn_findings_add_node(
                c->findings, sn_config_get(plugin->node, "at"),
                "plugin `%s` stands twice at %s (also plugins[%u]); remove one of them",
                plugin->name, name, i);
            return;
        }
    }
}

/* The agent itself would refuse it too, but later. */
static void check_plugin_allowed(const struct check *c, const struct sn_fleet_plugin *plugin)
{
    for (uint32_t i = 0; plugin->sha256 == NULL && i < c->fleet->agent_count; i++) {
        const struct sn_fleet_agent *agent = &c->fleet->agents[i];
        const char *allow = agent->settings.plugins_allow;
        int is_fine =
            strcmp(allow, "any") == 0 || (strcmp(allow, "own") == 0 && plugin->path == NULL);
        if (is_fine || !sn_config_patterns_match(plugin->at, agent->name)) continue;
        sn_findings_add_node(c->findings, plugin->node,
                             "plugin `%s` needs `sha256` at %s, whose `plugins_allow` is `%s`",
                             plugin->name, agent->name, allow);
        return;
    }
}

static void check_plugin(const struct check *c, uint32_t index)
{
    const struct sn_fleet_plugin *plugin = &c->fleet->plugins[index];
    int says_file = plugin->path != NULL || plugin->sha256 != NULL;
    if (strcmp(plugin->name, "tunnel") == 0 && (plugin->config != NULL || !says_file)) {
        sn_findings_add_node(
            c->findings, sn_config_get(plugin->node, "name"),
            "tunnels are declared under `targets` and `forwards`; remove this entry");
    }
    sni_sha256_check(plugin->sha256, c->findings);
    if (!check_patterns(c, plugin->at)) return;
    check_plugin_twice(c, index);
    check_plugin_allowed(c, plugin);
}

/* Where every plugin needs its digest, so does the one that nobody names. */
static void check_tunnel_allowed(const struct check *c, uint32_t index)
{
    const struct sn_fleet_agent *agent = &c->fleet->agents[index];
    if (strcmp(agent->settings.plugins_allow, "listed") != 0) return;
    if (!sn_fleet_has_tunnels(c->fleet, index)) return;
    if (sn_fleet_tunnel_entry(c->fleet, index) != SN_FLEET_NONE) return;
    sn_findings_add_node(c->findings, agent->node,
                         "%s has tunnels, and its `plugins_allow` is `listed`: say under `plugins` "
                         "which file that is: {name: tunnel, at: %s, sha256: ...}",
                         agent->name, agent->name);
}

void sni_fleet_check(const struct sn_fleet *fleet, struct sn_findings *findings)
{
    const struct sn_config_node *root = sn_config_root(fleet->tree);
    const struct check c = {
        .fleet = fleet, .sites = sn_config_get(root, "sites"), .findings = findings};
    sn_settings_check(&fleet->settings, sn_config_get(root, "settings"), findings);
    check_agents(&c);
    for (uint32_t i = 0; i < fleet->target_count && !sn_findings_is_full(findings); i++) {
        check_target(&c, &fleet->targets[i]);
    }
    for (uint32_t i = 0; i < fleet->forward_count && !sn_findings_is_full(findings); i++) {
        check_forward_target(&c, &fleet->forwards[i]);
        check_forward_listen(&c, i);
        check_forward_wait(&c, &fleet->forwards[i]);
    }
    for (uint32_t i = 0; i < fleet->access_count; i++) {
        sni_access_check_actor(sn_config_get(fleet->access[i].node, "to"), fleet->access[i].actor,
                               findings);
        (void)check_patterns(&c, fleet->access[i].from); /* its findings are all that is wanted */
    }
    for (uint32_t i = 0; i < fleet->plugin_count; i++) check_plugin(&c, i);
    for (uint32_t i = 0; i < fleet->agent_count && !sn_findings_is_full(findings); i++) {
        check_tunnel_allowed(&c, i);
    }
}

void sn_fleet_warn(const struct sn_fleet *fleet, struct sn_findings *warnings)
{
    for (uint32_t i = 0; i < fleet->agent_count && fleet->agent_count > 1; i++) {
        const struct sn_fleet_agent *agent = &fleet->agents[i];
        if (agent->listen != NULL || agent->link_count > 0) continue;
        sn_findings_add_key(warnings, agent->node,
                            "warning: %s neither listens nor links to anybody, so no other agent "
                            "can reach it; give it `links` or `listen`",
                            agent->name);
    }
}
