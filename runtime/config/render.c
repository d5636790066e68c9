/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: whatever a valid fleet contains, the rendered file means the same: every text is
 * quoted, every number and truth value stands as it was written.
 */
#include "config/render.h"

#include <string.h>

#include "base/assert.h"
#include "config/out.h"
#include "config/scalar.h"
#include "config/settings_int.h"
#include "config/tree.h"

static void add_line(struct sni_out *out, unsigned indent, const char *key, const char *value)
{
    sni_out_indent(out, indent);
    sni_out_format(out, "%s: ", key);
    sni_out_quoted(out, value);
    sni_out_add(out, "\n");
}

static void add_item(struct sni_out *out, unsigned indent, const char *value)
{
    sni_out_indent(out, indent);
    sni_out_add(out, "- ");
    sni_out_quoted(out, value);
    sni_out_add(out, "\n");
}

static void add_list(struct sni_out *out, unsigned indent, const char *key,
                     const struct sn_config_node *list)
{
    if (sn_config_count(list) == 0) return;
    sni_out_indent(out, indent);
    sni_out_format(out, "%s:\n", key);
    for (uint32_t i = 0; i < sn_config_count(list); i++) {
        add_item(out, indent + 2, sn_config_text(sn_config_at(list, i), ""));
    }
}

static const char *known_key(const struct sn_render *render, uint32_t agent)
{
    const char *key = render->fleet->agents[agent].key;
    if (key != NULL || render->keys == NULL) return key;
    return render->keys[agent];
}

static void add_links(struct sni_out *out, const struct sn_render *render)
{
    const struct sn_fleet_agent *agent = &render->fleet->agents[render->agent];
    if (agent->link_count > 0) sni_out_add(out, "links:\n");
    for (uint32_t i = 0; i < agent->link_count; i++) {
        const struct sn_fleet_link *link = &agent->links[i];
        const struct sn_fleet_agent *peer = &render->fleet->agents[link->to];
        const char *key = known_key(render, link->to);
        add_line(out, 2, "- to", peer->name);
        if (key != NULL) add_line(out, 4, "key", key);
        if (link->address != NULL) {
            add_list(out, 4, "address", link->address);
            continue;
        }
        sni_out_add(out, "    address:\n");
        const char *address = sn_fleet_agent_address(peer, 0);
        SN_ASSERT(address != NULL); /* the fleet's checks found one */
        for (uint32_t j = 1; address != NULL; j++) {
            add_item(out, 6, address);
            address = sn_fleet_agent_address(peer, j);
        }
    }
}

static void add_access(struct sni_out *out, const struct sn_render *render)
{
    int is_open = 0;
    for (uint32_t i = 0; i < render->fleet->access_count; i++) {
        const struct sn_fleet_access *rule = &render->fleet->access[i];
        if (rule->at != render->agent) continue;
        if (!is_open) sni_out_add(out, "access:\n");
        is_open = 1;
        add_line(out, 2, "- to", rule->actor);
        add_list(out, 4, "types", rule->types);
        add_list(out, 4, "from", rule->from);
    }
}

/* Numbers that the plugin has defaults for: as they stand in the fleet, if they do. */
static void add_given(struct sni_out *out, const struct sn_config_node *node)
{
    static const char *const keys[] = {"max_connections", "max_per_agent", "idle_ms"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct sn_config_node *value = sn_config_get(node, keys[i]);
        if (value == NULL) continue;
        sni_out_format(out, "          %s: %s\n", keys[i], sn_config_text(value, ""));
    }
}

static void add_targets(struct sni_out *out, const struct sn_render *render)
{
    int is_open = 0;
    for (uint32_t i = 0; i < render->fleet->target_count; i++) {
        const struct sn_fleet_target *target = &render->fleet->targets[i];
        if (target->at != render->agent) continue;
        if (!is_open) sni_out_add(out, "      targets:\n");
        is_open = 1;
        sni_out_format(out, "        %s:\n", target->name);
        add_line(out, 10, "address", target->address);
        add_list(out, 10, "allow", target->allow);
        sni_out_format(out, "          connect_wait_ms: %u\n", target->connect_wait_ms);
        add_given(out, target->node);
    }
}

static void add_forwards(struct sni_out *out, const struct sn_render *render)
{
    const struct sn_fleet *fleet = render->fleet;
    int is_open = 0;
    for (uint32_t i = 0; i < fleet->forward_count; i++) {
        const struct sn_fleet_forward *forward = &fleet->forwards[i];
        if (forward->at != render->agent) continue;
        const struct sn_fleet_target *target = &fleet->targets[forward->target];
        if (!is_open) sni_out_add(out, "      forwards:\n");
        is_open = 1;
        sni_out_format(out, "        %s:\n", forward->name);
        add_line(out, 10, "listen", forward->listen);
        add_line(out, 10, "to", fleet->agents[target->at].name);
        add_line(out, 10, "target", target->name);
        sni_out_format(out, "          open_wait_ms: %u\n", forward->open_wait_ms);
        add_given(out, forward->node);
    }
}

static void add_scalar(struct sni_out *out, const struct sn_config_node *node)
{
    const char *text = sn_config_text(node, "");
    switch (sni_scalar_classify(text, sn_config_is_plain(node))) {
    case SNI_SCALAR_TEXT: sni_out_quoted(out, text); break;
    case SNI_SCALAR_NULL: sni_out_add(out, "null"); break;
    default: sni_out_add(out, text); break;
    }
}

static void add_key(struct sni_out *out, const char *key)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    if (strspn(key, safe) == strlen(key)) {
        sni_out_add(out, key);
    } else {
        sni_out_quoted(out, key);
    }
}

/* What stands behind "key:" or "-"; returns 1 when the entries of the node have to follow. */
static int add_head(struct sni_out *out, const struct sn_config_node *node)
{
    if (sn_config_shape(node) == SN_CONFIG_SCALAR) {
        sni_out_add(out, " ");
        add_scalar(out, node);
        sni_out_add(out, "\n");
        return 0;
    }
    if (sn_config_count(node) == 0) {
        sni_out_add(out, sn_config_shape(node) == SN_CONFIG_MAPPING ? " {}\n" : " []\n");
        return 0;
    }
    sni_out_add(out, "\n");
    return 1;
}

/* A plugin's part as it stands in the fleet, whatever it is. */
static void add_tree(struct sni_out *out, unsigned indent, const struct sn_config_node *root)
{
    struct {
        const struct sn_config_node *node;
        uint32_t index;
    } stack[SN_CONFIG_DEPTH_MAX];
    if (!add_head(out, root)) return;
    uint32_t depth = 1;
    stack[0].node = root;
    stack[0].index = 0;
    while (depth > 0) {
        const struct sn_config_node *child =
            sn_config_at(stack[depth - 1].node, stack[depth - 1].index++);
        if (child == NULL) {
            depth--;
            continue;
        }
        sni_out_indent(out, indent + 2 * (depth - 1));
        if (sn_config_key(child) == NULL) {
            sni_out_add(out, "-");
        } else {
            add_key(out, sn_config_key(child));
            sni_out_add(out, ":");
        }
        if (!add_head(out, child)) continue;
        SN_ASSERT(depth < SN_CONFIG_DEPTH_MAX); /* the tree is no deeper */
        stack[depth].node = child;
        stack[depth++].index = 0;
    }
}

/* Which file it is. */
static void add_plugin_file(struct sni_out *out, const struct sn_fleet_plugin *plugin)
{
    if (plugin->path != NULL) add_line(out, 4, "path", plugin->path);
    add_list(out, 4, "sha256", plugin->sha256);
}

static void add_plugins(struct sni_out *out, const struct sn_render *render)
{
    const struct sn_fleet *fleet = render->fleet;
    uint32_t tunnel = sn_fleet_tunnel_entry(fleet, render->agent);
    int is_open = 0;
    if (sn_fleet_has_tunnels(fleet, render->agent)) {
        sni_out_add(out, "plugins:\n  - name: \"tunnel\"\n");
        if (tunnel != SN_FLEET_NONE) add_plugin_file(out, &fleet->plugins[tunnel]);
        sni_out_add(out, "    config:\n");
        add_targets(out, render);
        add_forwards(out, render);
        is_open = 1;
    }
    for (uint32_t i = 0; i < fleet->plugin_count; i++) {
        const struct sn_fleet_plugin *plugin = &fleet->plugins[i];
        if (i == tunnel) continue; /* it stands above, where there are tunnels */
        if (!sn_config_patterns_match(plugin->at, fleet->agents[render->agent].name)) continue;
        if (!is_open) sni_out_add(out, "plugins:\n");
        is_open = 1;
        add_line(out, 2, "- name", plugin->name);
        add_plugin_file(out, plugin);
        if (plugin->config == NULL) continue;
        sni_out_add(out, "    config:");
        add_tree(out, 6, plugin->config);
    }
}

enum sn_err sn_fleet_render(const struct sn_render *render, char **out_text)
{
    SN_ASSERT(render->agent < render->fleet->agent_count);
    SN_ASSERT(render->authority_count > 0);
    const struct sn_fleet_agent *agent = &render->fleet->agents[render->agent];
    struct sni_out out = {0};
    sni_out_format(
        &out,
        "# Agent %s of mesh %s, rendered from the fleet file.\n"
        "# Changes made here are lost: change the fleet and run `sennit render` again.\n",
        agent->name, render->fleet->mesh);
    add_line(&out, 0, "mesh", render->fleet->mesh);
    add_line(&out, 0, "agent", agent->name);
    sni_out_add(&out, "authority:\n");
    for (uint32_t i = 0; i < render->authority_count; i++) {
        add_item(&out, 2, render->authorities[i]);
    }
    add_line(&out, 0, "certificate", "agent.cert");
    add_line(&out, 0, "key", "node.key");
    add_line(&out, 0, "data", "data");
    add_line(&out, 0, "run", "run");
    add_list(&out, 0, "listen", agent->listen);
    add_links(&out, render);
    add_access(&out, render);
    add_plugins(&out, render);
    sni_settings_render(&out, &agent->settings);
    return sni_out_take(&out, out_text);
}
