/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: an agent file that is handed out says for every link and every caller how trust is
 * established; an agent never starts with a peer that nobody vouches for.
 */
#include "config/agent_file.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "config/array.h"
#include "config/listen.h"
#include "config/schema.h"
#include "config/settings_int.h"
#include "config/sha256.h"
#include "config/tree.h"
#include "sennit/limits.h"

static const struct sn_config_field key_item = {.kind = SN_CONFIG_KEY};
static const struct sn_config_field listen_item = {.kind = SN_CONFIG_LISTEN_URL};
static const struct sn_config_field address_item = {.kind = SN_CONFIG_ADDRESS};
static const struct sn_config_field origin_item = {.kind = SN_CONFIG_PATTERN,
                                                   .flags = SN_CONFIG_ROLES};
static const struct sn_config_field types_item = {.kind = SN_CONFIG_TYPES};

static const struct sn_config_field link_fields[] = {
    {.key = "to",
     .kind = SN_CONFIG_AGENT,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The agent to dial."},
    {.key = "key",
     .kind = SN_CONFIG_KEY,
     .help = "The public key expected of it; another one is refused."},
    {.key = "address",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_REQUIRED | SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = 16,
     .item = &address_item,
     .help = "Where to dial it."},
    {0},
};

static const struct sn_config_field link_item = {.kind = SN_CONFIG_MAP, .fields = link_fields};

static const struct sn_config_field access_fields[] = {
    {.key = "to",
     .kind = SN_CONFIG_LABEL,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The actor of this agent that may be written to."},
    {.key = "types",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_REQUIRED | SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = 256,
     .item = &types_item,
     .help = "Types of message, such as `echo.say` or `echo.*`."},
    {.key = "from",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_REQUIRED | SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = 256,
     .item = &origin_item,
     .help = "Agents that may send them; `role:NAME` means those whose certificate has the role."},
    {0},
};

static const struct sn_config_field access_item = {.kind = SN_CONFIG_MAP, .fields = access_fields};

static const struct sn_config_field plugin_fields[] = {
    {.key = "name", .kind = SN_CONFIG_LABEL, .flags = SN_CONFIG_REQUIRED, .help = "The plugin."},
    {.key = "path",
     .kind = SN_CONFIG_PATH,
     .help =
         "Its file, absolute or relative to the folder of this file; absent: NAME.so beside the "
         "program's own plugins."},
    {.key = "sha256",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = 16,
     .item = &sni_sha256_item,
     .help = "The file must have this digest, or one of these; `sennit plugins --hash FILE.so` "
             "prints it."},
    {.key = "config", .kind = SN_CONFIG_ANY, .help = "What the plugin's own reference describes."},
    {0},
};

static const struct sn_config_field plugin_item = {.kind = SN_CONFIG_MAP, .fields = plugin_fields};

const struct sn_config_field sn_agent_file_fields[] = {
    {.key = "mesh",
     .kind = SN_CONFIG_LABEL,
     .flags = SN_CONFIG_REQUIRED,
     .help = "Name of the mesh; agents of another mesh are refused."},
    {.key = "agent",
     .kind = SN_CONFIG_AGENT,
     .flags = SN_CONFIG_REQUIRED,
     .help = "Name of this agent."},
    {.key = "authority",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = 8,
     .item = &key_item,
     .help = "Public keys whose certificates are accepted."},
    {.key = "pins",
     .kind = SN_CONFIG_DICT,
     .flags = SN_CONFIG_AGENT_KEYS,
     .min = 1,
     .max = SN_PEERS_MAX,
     .item = &key_item,
     .help = "Public keys of agents that are trusted without an authority."},
    {.key = "certificate",
     .kind = SN_CONFIG_PATH,
     .help = "This agent's certificate; needed with `authority`."},
    {.key = "key",
     .kind = SN_CONFIG_PATH,
     .flags = SN_CONFIG_REQUIRED,
     .help = "This agent's private key; mode 0600."},
    {.key = "data",
     .kind = SN_CONFIG_PATH,
     .def = "data",
     .help = "Folder for what must survive a restart."},
    {.key = "run", .kind = SN_CONFIG_PATH, .def = "run", .help = "Folder for sockets."},
    {.key = "listen",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = 16,
     .item = &listen_item,
     .help = "Where the agent accepts links. Port 0 lets the system choose."},
    {.key = "links",
     .kind = SN_CONFIG_LIST,
     .min = 1,
     .max = SN_LINKS_MAX,
     .item = &link_item,
     .help = "Agents that this one dials."},
    {.key = "access",
     .kind = SN_CONFIG_LIST,
     .min = 0,
     .max = 4096,
     .item = &access_item,
     .help = "Who may write to which actor; everything else is denied."},
    {.key = "plugins",
     .kind = SN_CONFIG_LIST,
     .min = 0,
     .max = 256,
     .item = &plugin_item,
     .help = "Plugins that this agent runs."},
    SNI_SETTINGS_ROWS,
    {0},
};

static enum sn_err read_links(struct sn_agent_file *agent, const struct sn_config_node *root)
{
    const struct sn_config_node *links = sn_config_get(root, "links");
    const struct sn_config_node *pins = sn_config_get(root, "pins");
    uint32_t count = sn_config_count(links);
    enum sn_err err = sni_array_new(count, sizeof *agent->links, &agent->links);
    if (err != SN_OK) return err;
    agent->link_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct sn_agent_link *link = &agent->links[i];
        link->node = sn_config_at(links, i);
        link->to = sn_config_text(sn_config_get(link->node, "to"), "");
        link->address = sn_config_get(link->node, "address");
        const char *pin = sn_config_text(sn_config_get(pins, link->to), NULL);
        link->key = sn_config_text(sn_config_get(link->node, "key"), pin);
    }
    return SN_OK;
}

static enum sn_err read_pins(struct sn_agent_file *agent, const struct sn_config_node *pins)
{
    uint32_t count = sn_config_count(pins);
    enum sn_err err = sni_array_new(count, sizeof *agent->pins, &agent->pins);
    if (err != SN_OK) return err;
    agent->pin_count = count;
    for (uint32_t i = 0; i < count; i++) {
        agent->pins[i].agent = sn_config_key_at(pins, i);
        agent->pins[i].key = sn_config_text(sn_config_at(pins, i), "");
    }
    return SN_OK;
}

static enum sn_err read_access(struct sn_agent_file *agent, const struct sn_config_node *list)
{
    uint32_t count = sn_config_count(list);
    enum sn_err err = sni_array_new(count, sizeof *agent->access, &agent->access);
    if (err != SN_OK) return err;
    agent->access_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct sn_config_node *node = sn_config_at(list, i);
        agent->access[i].actor = sn_config_text(sn_config_get(node, "to"), "");
        agent->access[i].types = sn_config_get(node, "types");
        agent->access[i].from = sn_config_get(node, "from");
    }
    return SN_OK;
}

static enum sn_err read_plugins(struct sn_agent_file *agent, const struct sn_config_node *list)
{
    uint32_t count = sn_config_count(list);
    enum sn_err err = sni_array_new(count, sizeof *agent->plugins, &agent->plugins);
    if (err != SN_OK) return err;
    agent->plugin_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct sn_agent_plugin *plugin = &agent->plugins[i];
        plugin->node = sn_config_at(list, i);
        plugin->name = sn_config_text(sn_config_get(plugin->node, "name"), "");
        plugin->path = sn_config_text(sn_config_get(plugin->node, "path"), NULL);
        plugin->sha256 = sn_config_get(plugin->node, "sha256");
        plugin->config = sn_config_get(plugin->node, "config");
    }
    return SN_OK;
}

static enum sn_err read_agent(struct sn_agent_file *agent)
{
    const struct sn_config_node *root = sn_config_root(agent->tree);
    const struct sn_config_field *fields = sn_agent_file_fields;
    agent->mesh = sn_config_get_text(root, fields, "mesh");
    agent->agent = sn_config_get_text(root, fields, "agent");
    agent->authority = sn_config_get(root, "authority");
    agent->certificate = sn_config_get_text(root, fields, "certificate");
    agent->key = sn_config_get_text(root, fields, "key");
    agent->data = sn_config_get_text(root, fields, "data");
    agent->run = sn_config_get_text(root, fields, "run");
    agent->listen = sn_config_get(root, "listen");
    agent->settings = sn_settings_default();
    sn_settings_apply(&agent->settings, root);
    enum sn_err err = read_links(agent, root);
    if (err != SN_OK) return err;
    err = read_pins(agent, sn_config_get(root, "pins"));
    if (err != SN_OK) return err;
    err = read_access(agent, sn_config_get(root, "access"));
    if (err != SN_OK) return err;
    return read_plugins(agent, sn_config_get(root, "plugins"));
}

static void check_trust(const struct sn_agent_file *agent, struct sn_findings *findings)
{
    const struct sn_config_node *root = sn_config_root(agent->tree);
    int has_authority = agent->authority != NULL;
    if (!has_authority && agent->pin_count == 0) {
        sn_findings_add_node(findings, root,
                             "nobody is trusted: give `authority` and `certificate`, or `pins`");
    }
    if (has_authority && agent->certificate == NULL) {
        sn_findings_add_key(findings, agent->authority,
                            "`authority` needs this agent's `certificate` beside it");
    }
    if (!has_authority && agent->certificate != NULL) {
        sn_findings_add_key(findings, sn_config_get(root, "certificate"),
                            "`certificate` needs the `authority` that signed it beside it");
    }
}

/* Ed25519 keys as text differ at most in the case of their digits. */
static int is_same_key(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

static void check_link(const struct sn_agent_file *agent, uint32_t index,
                       struct sn_findings *findings)
{
    const struct sn_agent_link *link = &agent->links[index];
    const struct sn_config_node *to = sn_config_get(link->node, "to");
    if (strcmp(link->to, agent->agent) == 0) {
        sn_findings_add_node(findings, to, "the agent links to itself; remove this entry");
    }
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(agent->links[i].to, link->to) != 0) continue;
        sn_findings_add_node(findings, to, "a second link to %s; remove one of the entries",
                             link->to);
        break;
    }
    if (link->key == NULL && agent->authority == NULL) {
        sn_findings_add_node(findings, to,
                             "nobody vouches for %s: give the link a `key`, or the file an "
                             "`authority`",
                             link->to);
    }
    const struct sn_config_node *root = sn_config_root(agent->tree);
    const char *pin = sn_config_text(sn_config_get(sn_config_get(root, "pins"), link->to), NULL);
    if (pin == NULL) return;
    SN_ASSERT(link->key != NULL); /* read_links takes the pin where no key is given */
    if (!is_same_key(link->key, pin)) {
        sn_findings_add_node(findings, sn_config_get(link->node, "key"),
                             "the key differs from the one under `pins` for %s", link->to);
    }
}

static void check_listens(const struct sn_agent_file *agent, struct sn_findings *findings)
{
    for (uint32_t i = 0; i < sn_config_count(agent->listen); i++) {
        const struct sn_config_node *node = sn_config_at(agent->listen, i);
        const char *address = sn_config_text(node, "tls://") + strlen("tls://");
        for (uint32_t j = 0; j < i; j++) {
            const struct sn_config_node *earlier = sn_config_at(agent->listen, j);
            const char *other = sn_config_text(earlier, "tls://") + strlen("tls://");
            if (!sni_listen_overlaps(address, other)) continue;
            sn_findings_add_node(
                findings, node,
                "%s is listened on twice (also by %s); remove one of them, or give it another port",
                address, other);
            break;
        }
    }
}

static void check_access(const struct sn_agent_file *agent, struct sn_findings *findings)
{
    const struct sn_config_node *list = sn_config_get(sn_config_root(agent->tree), "access");
    for (uint32_t i = 0; i < agent->access_count; i++) {
        sni_access_check_actor(sn_config_get(sn_config_at(list, i), "to"), agent->access[i].actor,
                               findings);
    }
}

static void check_plugins(const struct sn_agent_file *agent, struct sn_findings *findings)
{
    for (uint32_t i = 0; i < agent->plugin_count; i++) {
        sni_sha256_check(agent->plugins[i].sha256, findings);
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(agent->plugins[i].name, agent->plugins[j].name) != 0) continue;
            sn_findings_add_node(
                findings, sn_config_get(agent->plugins[i].node, "name"),
                "plugin `%s` stands here twice (also plugins[%u]); remove one of them",
                agent->plugins[i].name, j);
            break;
        }
    }
}

/* One finding says more than dozens about unknown keys. */
static int is_fleet(const struct sn_config_node *root, struct sn_findings *findings)
{
    if (sn_config_get(root, "sites") == NULL || sn_config_get(root, "agent") != NULL) return 0;
    sn_findings_add_node(findings, root, "%s",
                         "this is a fleet file, not an agent's; render it first (sennit render "
                         "FLEET.yaml --out DIR), and name DIR/SITE/AGENT/agent.yaml");
    return 1;
}

enum sn_err sn_agent_file_parse(const void *bytes, size_t size, const char *file,
                                struct sn_findings *findings, struct sn_agent_file **out_agent)
{
    uint32_t before = findings->total;
    struct sn_agent_file *agent = sn_alloc(sizeof *agent);
    if (agent == NULL) return SN_ENOMEM;
    enum sn_err err = sn_config_parse(bytes, size, file, findings, &agent->tree);
    if (err != SN_OK) goto out;
    err = is_fleet(sn_config_root(agent->tree), findings)
              ? sn_findings_result(findings, before)
              : sn_schema_check(sn_config_root(agent->tree), sn_agent_file_fields, findings);
    if (err != SN_OK) goto out;
    err = read_agent(agent);
    if (err != SN_OK) goto out;
    check_trust(agent, findings);
    for (uint32_t i = 0; i < agent->link_count; i++) check_link(agent, i, findings);
    check_listens(agent, findings);
    check_access(agent, findings);
    check_plugins(agent, findings);
    sn_settings_check(&agent->settings, sn_config_root(agent->tree), findings);
    err = sn_findings_result(findings, before);
    if (err != SN_OK) goto out;
    *out_agent = agent;
    agent = NULL;
out:
    sn_findings_sort(findings);
    sn_agent_file_free(agent);
    return err;
}

void sn_agent_file_free(struct sn_agent_file *agent)
{
    if (agent == NULL) return;
    sn_free(agent->links, agent->link_count * sizeof *agent->links);
    sn_free(agent->pins, agent->pin_count * sizeof *agent->pins);
    sn_free(agent->access, agent->access_count * sizeof *agent->access);
    sn_free(agent->plugins, agent->plugin_count * sizeof *agent->plugins);
    sn_config_tree_free(agent->tree);
    sn_free(agent, sizeof *agent);
}
