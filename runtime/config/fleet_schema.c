/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet file as tables: they check it and generate its reference. */
#include "config/fleet_int.h"
#include "config/schema.h"
#include "config/sha256.h"

/* Entries of lists; their keys name nothing. */
static const struct sn_config_field listen_item = {.kind = SN_CONFIG_LISTEN_URL};
static const struct sn_config_field address_item = {.kind = SN_CONFIG_ADDRESS};
static const struct sn_config_field label_item = {.kind = SN_CONFIG_LABEL};
static const struct sn_config_field pattern_item = {.kind = SN_CONFIG_PATTERN};
static const struct sn_config_field origin_item = {.kind = SN_CONFIG_PATTERN,
                                                   .flags = SN_CONFIG_ROLES};
static const struct sn_config_field types_item = {.kind = SN_CONFIG_TYPES};

static const struct sn_config_field link_fields[] = {
    {.key = "to",
     .kind = SN_CONFIG_AGENT,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The agent to dial."},
    {.key = "address",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = 16,
     .item = &address_item,
     .help = "Where to dial it, when that differs from what the agent says."},
    {0},
};

static const struct sn_config_field link_item = {
    .kind = SN_CONFIG_MAP, .flags = SN_CONFIG_SHORT, .fields = link_fields};

static const struct sn_config_field agent_fields[] = {
    {.key = "listen",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = 16,
     .item = &listen_item,
     .help = "Where the agent accepts links. Port 0 lets the system choose."},
    {.key = "address",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = 16,
     .item = &address_item,
     .help = "What others dial, when it differs from `listen`."},
    {.key = "links",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = SN_LINKS_MAX,
     .item = &link_item,
     .help = "Agents that this one dials: a name, or `{to, address}`."},
    {.key = "key",
     .kind = SN_CONFIG_KEY,
     .help = "Public key of the agent; without it rendering makes a key, for demos."},
    {.key = "roles",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_ONE_OR_LIST,
     .min = 0,
     .max = SN_ROLES_MAX,
     .item = &label_item,
     .help = "Roles that the agent's certificate grants."},
    {.key = "settings",
     .kind = SN_CONFIG_MAP,
     .fields = sn_settings_fields,
     .help = "Settings of this agent; they override the fleet's."},
    {0},
};

static const struct sn_config_field agent_item = {.kind = SN_CONFIG_MAP, .fields = agent_fields};
static const struct sn_config_field site_item = {
    .kind = SN_CONFIG_DICT, .min = 1, .max = SN_FLEET_AGENTS_MAX, .item = &agent_item};

const struct sn_config_field sni_fleet_target_fields[] = {
    {.key = "at",
     .kind = SN_CONFIG_AGENT,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The agent that connects to the address."},
    {.key = "address",
     .kind = SN_CONFIG_ADDRESS,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The service, as that agent reaches it."},
    {.key = "allow",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_REQUIRED | SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = SN_FLEET_PATTERNS_MAX,
     .item = &origin_item,
     .help = "Agents that may use the target; `role:NAME` means those with the role."},
    {.key = "connect_wait_ms",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = 600000,
     .def = "10000",
     .help = "How long to retry while the service does not answer, in milliseconds."},
    {.key = "max_connections",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = SN_FLEET_CONNECTIONS_MAX,
     .def = "1024",
     .help = "Tunnels to the service at a time; of a service that does not answer a quarter of "
             "that waits, others are refused at once."},
    {.key = "max_per_agent",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = SN_FLEET_CONNECTIONS_MAX,
     .def = "256",
     .help = "How many of them may be one agent's."},
    {.key = "idle_ms",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = SN_FLEET_IDLE_MS_MAX,
     .def = "0",
     .help = "A tunnel in which no byte moved for so many milliseconds is reset; 0 = never."},
    {0},
};

static const struct sn_config_field target_item = {.kind = SN_CONFIG_MAP,
                                                   .fields = sni_fleet_target_fields};

static const struct sn_config_field forward_fields[] = {
    {.key = "at",
     .kind = SN_CONFIG_AGENT,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The agent that accepts connections."},
    {.key = "listen",
     .kind = SN_CONFIG_LISTEN,
     .flags = SN_CONFIG_REQUIRED,
     .help = "Where it accepts them. Port 0 lets the system choose."},
    {.key = "target",
     .kind = SN_CONFIG_LABEL,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The target that they reach."},
    {.key = "open_wait_ms",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = 900000,
     .help =
         "How long a client waits for a peer that is down or a service that is late, in "
         "milliseconds; absent: 15000, or the target's `connect_wait_ms` and 5000 more if that is "
         "longer."},
    {.key = "max_connections",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = SN_FLEET_CONNECTIONS_MAX,
     .def = "1024",
     .help = "Clients at a time; others are reset at once."},
    {.key = "idle_ms",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = SN_FLEET_IDLE_MS_MAX,
     .def = "0",
     .help = "A tunnel in which no byte moved for so many milliseconds is reset; 0 = never."},
    {0},
};

static const struct sn_config_field forward_item = {.kind = SN_CONFIG_MAP,
                                                    .fields = forward_fields};

static const struct sn_config_field access_fields[] = {
    {.key = "to",
     .kind = SN_CONFIG_ACTOR,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The actor that may be written to."},
    {.key = "types",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_REQUIRED | SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = SN_FLEET_PATTERNS_MAX,
     .item = &types_item,
     .help = "Types of message, such as `echo.say` or `echo.*`."},
    {.key = "from",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_REQUIRED | SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = SN_FLEET_PATTERNS_MAX,
     .item = &origin_item,
     .help = "Agents that may send them; `role:NAME` means those with the role."},
    {0},
};

static const struct sn_config_field access_item = {.kind = SN_CONFIG_MAP, .fields = access_fields};

static const struct sn_config_field plugin_fields[] = {
    {.key = "name", .kind = SN_CONFIG_LABEL, .flags = SN_CONFIG_REQUIRED, .help = "The plugin."},
    {.key = "at",
     .kind = SN_CONFIG_LIST,
     .flags = SN_CONFIG_REQUIRED | SN_CONFIG_ONE_OR_LIST,
     .min = 1,
     .max = SN_FLEET_PATTERNS_MAX,
     .item = &pattern_item,
     .help = "Agents that run it."},
    {.key = "path",
     .kind = SN_CONFIG_PATH,
     .help = "Its file, absolute or relative to the folder of the agent file; absent: NAME.so "
             "beside the "
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

const struct sn_config_field sn_fleet_fields[] = {
    {.key = "mesh",
     .kind = SN_CONFIG_LABEL,
     .flags = SN_CONFIG_REQUIRED,
     .help = "Name of the mesh; agents of another mesh are refused."},
    {.key = "authority",
     .kind = SN_CONFIG_PATH,
     .flags = SN_CONFIG_REQUIRED,
     .help = "Key file of the authority; its public half is enough where only checking is done."},
    {.key = "sites",
     .kind = SN_CONFIG_DICT,
     .flags = SN_CONFIG_REQUIRED,
     .min = 1,
     .max = SN_FLEET_AGENTS_MAX,
     .item = &site_item,
     .help = "Sites, and the agents at each."},
    {.key = "targets",
     .kind = SN_CONFIG_DICT,
     .min = 0,
     .max = SN_FLEET_TUNNELS_MAX,
     .item = &target_item,
     .help = "Services that forwards may reach, by name."},
    {.key = "forwards",
     .kind = SN_CONFIG_DICT,
     .min = 0,
     .max = SN_FLEET_TUNNELS_MAX,
     .item = &forward_item,
     .help = "Local ports that lead to targets, by name."},
    {.key = "access",
     .kind = SN_CONFIG_LIST,
     .min = 0,
     .max = SN_FLEET_TUNNELS_MAX,
     .item = &access_item,
     .help = "Who may write to which actor; everything else is denied."},
    {.key = "plugins",
     .kind = SN_CONFIG_LIST,
     .min = 0,
     .max = 256,
     .item = &plugin_item,
     .help = "Plugins, and the agents that run them."},
    {.key = "settings",
     .kind = SN_CONFIG_MAP,
     .fields = sn_settings_fields,
     .help = "Settings of all agents."},
    {0},
};
