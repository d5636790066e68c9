/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "config/tree.h"
#include "unit/config/support.h"

#define DIGEST    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"
#define NO_DIGEST "g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* What stands between the edge's links and the target's `allow`. */
#define WEB                                                                                        \
    "targets:\n"                                                                                   \
    "  web:\n"                                                                                     \
    "    at: paris/hub\n"                                                                          \
    "    address: \"127.0.0.1:8000\"\n"

static const struct edit_case cases[] = {
    {"mesh: demo", "meshh: demo",
     "f:1:1: mesh: required key `mesh` is missing: Name of the mesh; agents of another mesh are "
     "refused.\n"
     "f:1:1: meshh: unknown key `meshh`; did you mean `mesh`?\n"},
    {"mesh: demo",
     "mesh: demo\n"
     "mesh: demo",
     "f:2:1: mesh: key `mesh` stands here twice; the first is at 1:1; remove one of them\n"},
    {"mesh: demo", "mesh: Demo",
     "f:1:7: mesh: expected a name of 1 to 63 letters a-z, digits and hyphens, found `Demo`\n"},
    {"mesh: demo", "mesh: no",
     "f:1:7: mesh: expected a name of 1 to 63 letters a-z, digits and hyphens, found the truth "
     "value `no`; put it in quotes if it is meant as text\n"},
    {"mesh: demo", "mesh: 0777",
     "f:1:7: mesh: expected a name of 1 to 63 letters a-z, digits and hyphens, found the number "
     "`0777`; put it in quotes if it is meant as text\n"},
    {"mesh: demo", "mesh: ~",
     "f:1:7: mesh: expected a name of 1 to 63 letters a-z, digits and hyphens, found `~`, which "
     "means nothing\n"},
    {"mesh: demo", "mesh:",
     "f:1:1: mesh: expected a name of 1 to 63 letters a-z, digits and hyphens, found nothing\n"},
    {"mesh: demo", "mesh: \"no\"", ""},
    {"mesh: demo", "mesh: [demo]",
     "f:1:7: mesh: expected a name of 1 to 63 letters a-z, digits and hyphens, found a list\n"},
    {"mesh: demo", "zebra: demo",
     "f:1:1: mesh: required key `mesh` is missing: Name of the mesh; agents of another mesh are "
     "refused.\n"
     "f:1:1: zebra: unknown key `zebra`; the keys here are: mesh, authority, sites, targets, "
     "forwards, access, plugins, settings\n"},
    {"authority: authority.key\n", "",
     "f:1:1: authority: required key `authority` is missing: Key file of the authority; its public "
     "half is enough where only checking is done.\n"},
    {"listen: [\"tls://127", "lisen: [\"tls://127",
     "f:6:7: sites.paris.hub.lisen: unknown key `lisen`; did you mean `listen`?\n"},
    {"[\"tls://127.0.0.1:7400\"]", "[\"127.0.0.1:7400\"]",
     "f:6:16: sites.paris.hub.listen[0]: expected an address to listen on as tls://host:port, "
     "found `127.0.0.1:7400`; write tls:// in front\n"},
    {"[\"tls://127.0.0.1:7400\"]", "[]",
     "f:6:15: sites.paris.hub.listen: 0 entries; allowed are 1 to 16\n"},
    {"[\"tls://127.0.0.1:7400\"]", "\"tls://127.0.0.1:7400\"", ""},
    {"[\"tls://127.0.0.1:7400\"]", "{a: b}",
     "f:6:15: sites.paris.hub.listen: expected a list, found a mapping\n"},
    {"[\"tls://127.0.0.1:7400\"]", "[\"tcp://127.0.0.1:7400\"]",
     "f:6:16: sites.paris.hub.listen[0]: expected an address to listen on as tls://host:port, "
     "found `tcp://127.0.0.1:7400`\n"},
    {"  amsterdam:\n", "  Amsterdam:\n",
     "f:8:3: sites.Amsterdam: expected a name of 1 to 63 letters a-z, digits and hyphens, found "
     "the key `Amsterdam`\n"},
    {"    spare: {}",
     "    spare:", "f:7:5: sites.paris.spare: expected a mapping, found nothing\n"},
    {"    edge:\n", "    \"edge/x\":\n",
     "f:9:5: sites.amsterdam.edge/x: expected a name of 1 to 63 letters a-z, digits and hyphens, "
     "found the key `edge/x`\n"},
    {"at: paris/hub", "at: hub",
     "f:13:9: targets.web.at: expected an agent as site/agent, found `hub`\n"},
    {"\"127.0.0.1:8000\"", "\"127.0.0.1:0\"",
     "f:14:14: targets.web.address: expected an address as host:port, found `127.0.0.1:0`; port 0 "
     "cannot be dialled\n"},
    {"\"127.0.0.1:8000\"", "\"http://127.0.0.1:8000\"",
     "f:14:14: targets.web.address: expected an address as host:port, found "
     "`http://127.0.0.1:8000`; write it without the scheme\n"},
    {"\"127.0.0.1:8000\"", "8000",
     "f:14:14: targets.web.address: expected an address as host:port, found the number `8000`; put "
     "it in quotes if it is meant as text\n"},
    {"connect_wait_ms: 10000", "connect_wait_ms: \"10000\"",
     "f:16:22: targets.web.connect_wait_ms: expected a whole number, found the text `10000` in "
     "quotes; write it without quotes\n"},
    {"connect_wait_ms: 10000", "connect_wait_ms: 010000",
     "f:16:22: targets.web.connect_wait_ms: expected a whole number, found the number `010000`; "
     "write decimal digits only, without leading zeros\n"},
    {"connect_wait_ms: 10000", "connect_wait_ms: 1e3",
     "f:16:22: targets.web.connect_wait_ms: expected a whole number, found the number `1e3`; write "
     "decimal digits only, without leading zeros\n"},
    {"connect_wait_ms: 10000", "connect_wait_ms: -1",
     "f:16:22: targets.web.connect_wait_ms: `-1` is out of range; allowed are 0 to 600000\n"},
    {"connect_wait_ms: 10000", "connect_wait_ms: 99999999999999999999",
     "f:16:22: targets.web.connect_wait_ms: `99999999999999999999` is out of range; allowed are 0 "
     "to 600000\n"},
    {"connect_wait_ms: 10000", "connect_wait_ms: ten",
     "f:16:22: targets.web.connect_wait_ms: expected a whole number, found the text `ten`\n"},
    {"connect_wait_ms: 10000", "connect_wait_ms: yes",
     "f:16:22: targets.web.connect_wait_ms: expected a whole number, found the truth value "
     "`yes`\n"},
    {"connect_wait_ms: 10000", "conect_wait_ms: 10000",
     "f:16:5: targets.web.conect_wait_ms: unknown key `conect_wait_ms`; did you mean "
     "`connect_wait_ms`?\n"},
    {"    allow: [\"amsterdam/*\"]\n", "",
     "f:12:3: targets.web.allow: required key `allow` is missing: Agents that may use the "
     "target; `role:NAME` means those with the role.\n"},
    {"    allow: [\"amsterdam/*\"]\n", "    allow: []\n",
     "f:15:12: targets.web.allow: 0 entries; allowed are 1 to 256\n"},
    {"    allow: [\"amsterdam/*\"]\n", "    allow: [\"amsterdam*\"]\n",
     "f:15:13: targets.web.allow[0]: expected an agent as site/agent, a site as site/*, a role "
     "as role:NAME, or *, found `amsterdam*`\n"},
    {"    allow: [\"amsterdam/*\"]\n", "    allow: [\"role:A\"]\n",
     "f:15:13: targets.web.allow[0]: expected an agent as site/agent, a site as site/*, a role "
     "as role:NAME, or *, found `role:A`\n"},
    {"    at: [\"paris/*\"]\n", "    at: [\"role:a\"]\n",
     "f:28:10: plugins[0].at[0]: expected an agent as site/agent, a site as site/*, or *, found "
     "`role:a`\n"},
    {"types: [\"echo.*\"]", "types: [\"echo.*.x\"]",
     "f:24:13: access[0].types[0]: expected a message type such as echo.say, echo.*, or *, found "
     "`echo.*.x`\n"},
    {"\"paris/hub:echo\"", "\"paris/hub\"",
     "f:23:9: access[0].to: expected an actor as site/agent:actor, found `paris/hub`\n"},
    {"config: {path: store}",
     "config:", "f:29:5: plugins[0].config: expected a value, found nothing\n"},
    {"settings:\n"
     "  drain_ms: 5000",
     "settings:\n"
     "  log: {level: warning}",
     "f:31:16: settings.log.level: `warning` is not one of debug|info|warn|error\n"},
    {"settings:\n"
     "  drain_ms: 5000",
     "settings:\n"
     "  log: {level: ifno}",
     "f:31:16: settings.log.level: `ifno` is not one of debug|info|warn|error; did you mean "
     "`info`?\n"},
    {"links: [paris/hub]", "links: [paris/hubb]",
     "f:10:15: sites.amsterdam.edge.links[0]: no agent `paris/hubb` in this fleet; did you mean "
     "`paris/hub`?\n"},
    {"links: [paris/hub]", "links: [oslo/x]",
     "f:10:15: sites.amsterdam.edge.links[0]: no agent `oslo/x` in this fleet; add it to `sites`, "
     "or name another one\n"},
    {"links: [paris/hub]", "links: [amsterdam/edge, paris/hub]",
     "f:10:15: sites.amsterdam.edge.links[0]: amsterdam/edge links to itself; remove this entry\n"},
    {"links: [paris/hub]", "links: [paris/spare, paris/hub]",
     "f:10:15: sites.amsterdam.edge.links[0]: paris/spare has no address to dial: it does not "
     "`listen`; add that to it\n"},
    {"links: [paris/hub]", "links: [paris/hub, {to: paris/hub, address: \"10.0.0.1:7400\"}]",
     "f:10:31: sites.amsterdam.edge.links[1].to: amsterdam/edge links to paris/hub twice; remove "
     "one of the entries\n"},
    {"links: [paris/hub]", "links: [{to: paris/hub, address: []}]",
     "f:10:40: sites.amsterdam.edge.links[0].address: 0 entries; allowed are 1 to 16\n"},
    {"links: [paris/hub]", "links: {to: paris/hub}",
     "f:10:14: sites.amsterdam.edge.links: expected a list, found a mapping\n"},
    {"[\"tls://127.0.0.1:7400\"]", "[\"tls://0.0.0.0:7400\"]",
     "f:10:15: sites.amsterdam.edge.links[0]: paris/hub has no address to dial: it listens on all "
     "interfaces or on port 0; give it an `address`, or write {to, address} here\n"},
    {"[\"tls://127.0.0.1:7400\"]", "[\"tls://127.0.0.1:0\"]",
     "f:10:15: sites.amsterdam.edge.links[0]: paris/hub has no address to dial: it listens on all "
     "interfaces or on port 0; give it an `address`, or write {to, address} here\n"},
    {"[\"tls://127.0.0.1:7400\"]", "[\"tls://127.0.0.1:7400\", \"tls://0.0.0.0:7400\"]",
     "f:6:40: sites.paris.hub.listen[1]: 0.0.0.0:7400 is listened on twice at paris/hub (also by "
     "127.0.0.1:7400); remove one of them, or give it another port\n"},
    {"spare: {}", "spare: {address: \"10.0.0.9:7400\"}",
     "f:7:13: sites.paris.spare.address: paris/spare has an address for others to dial, but no "
     "`listen`; add that, or remove the address\n"},
    {"    spare: {}",
     "      key: \"" KEY_A "\"\n"
     "    spare: {key: \"" KEY_A "\"}",
     "f:8:18: sites.paris.spare.key: paris/spare has the same key as paris/hub; each agent needs "
     "its own\n"},
    {"    spare: {}", "    spare: {key: \"ed25519:12\"}",
     "f:7:18: sites.paris.spare.key: expected a public key as ed25519:<64 hexadecimal digits>, "
     "found `ed25519:12`\n"},
    {"    at: paris/hub\n", "    at: paris/hbu\n",
     "f:13:9: targets.web.at: no agent `paris/hbu` in this fleet; did you mean `paris/hub`?\n"},
    {"    allow: [\"amsterdam/*\"]\n", "    allow: [\"amsterdan/*\"]\n",
     "f:15:13: targets.web.allow[0]: `amsterdan/*` matches no agent in this fleet; did you mean "
     "`amsterdam/*`?\n"
     "f:21:13: forwards.web.target: target `web` does not allow amsterdam/edge; add it to "
     "targets.web.allow\n"},
    {"    allow: [\"amsterdam/*\"]\n", "    allow: [\"oslo/*\"]\n",
     "f:15:13: targets.web.allow[0]: `oslo/*` matches no agent in this fleet; add that site to "
     "`sites`, or name another one\n"
     "f:21:13: forwards.web.target: target `web` does not allow amsterdam/edge; add it to "
     "targets.web.allow\n"},
    {"    allow: [\"amsterdam/*\"]\n", "    allow: [\"amsterdam/edge\", \"amsterdam/egde\"]\n",
     "f:15:31: targets.web.allow[1]: no agent `amsterdam/egde` in this fleet; did you mean "
     "`amsterdam/edge`?\n"},
    {"    allow: [\"amsterdam/*\"]\n", "    allow: paris/hub\n",
     "f:15:12: targets.web.allow: nobody may use this target: `allow` matches no agent but "
     "paris/hub itself; add those that may\n"
     "f:21:13: forwards.web.target: target `web` does not allow amsterdam/edge; add it to "
     "targets.web.allow\n"},
    {"    allow: [\"amsterdam/*\"]\n", "    allow: [\"paris/*\"]\n",
     "f:21:13: forwards.web.target: target `web` does not allow amsterdam/edge; add it to "
     "targets.web.allow\n"},
    {"at: amsterdam/edge", "at: amsterdam/edgy",
     "f:19:9: forwards.web.at: no agent `amsterdam/edgy` in this fleet; did you mean "
     "`amsterdam/edge`?\n"},
    {"target: web", "target: wbe",
     "f:21:13: forwards.web.target: no target `wbe` in this fleet; did you mean `web`?\n"},
    {"target: web", "target: mail",
     "f:21:13: forwards.web.target: no target `mail` in this fleet; add it to `targets`, or name "
     "another one\n"},
    {"at: amsterdam/edge", "at: paris/hub",
     "f:21:13: forwards.web.target: the target is at the forward's own agent, paris/hub; use "
     "127.0.0.1:8000 directly\n"},
    {"at: amsterdam/edge", "at: paris/spare",
     "f:21:13: forwards.web.target: target `web` does not allow paris/spare; add it to "
     "targets.web.allow\n"
     "f:21:13: forwards.web.target: paris/spare cannot reach paris/hub: there is no link between "
     "them; add one to `links` of either\n"},
    {"      links: [paris/hub]\n", "      links: []\n",
     "f:10:14: sites.amsterdam.edge.links: 0 entries; allowed are 1 to 256\n"},
    {"      links: [paris/hub]\n", "      roles: [viewer]\n",
     "f:21:13: forwards.web.target: amsterdam/edge cannot reach paris/hub: there is no link "
     "between them; add one to `links` of either\n"},
    {"links: [paris/hub]",
     "links: [paris/hub]\n"
     "      roles: []",
     ""},
    {"links: [paris/hub]\n" WEB "    allow: [\"amsterdam/*\"]\n",
     "links: [paris/hub]\n      roles: [viewer]\n" WEB "    allow: [\"role:viewer\"]\n", ""},
    {"links: [paris/hub]\n" WEB "    allow: [\"amsterdam/*\"]\n",
     "links: [paris/hub]\n      roles: [viewer]\n" WEB "    allow: [\"role:viewre\"]\n",
     "f:16:13: targets.web.allow[0]: no agent in this fleet has the role `viewre`; did you mean "
     "`role:viewer`?\n"
     "f:22:13: forwards.web.target: target `web` does not allow amsterdam/edge; add it to "
     "targets.web.allow\n"},
    {"    from: [\"amsterdam/*\"]", "    from: [\"role:viewer\"]",
     "f:25:12: access[0].from[0]: no agent in this fleet has the role `viewer`; add it to the "
     "`roles` of those that are meant\n"},
    {"    target: web\n", "    target: web\n    open_wait_ms: 10001\n", ""},
    {"    target: web\n", "    target: web\n    max_connections: 1\n    idle_ms: 604800000\n", ""},
    {"    target: web\n", "    target: web\n    max_connections: 0\n",
     "f:22:22: forwards.web.max_connections: `0` is out of range; allowed are 1 to 65536\n"},
    {"connect_wait_ms: 10000", "max_per_agent: 65537",
     "f:16:20: targets.web.max_per_agent: `65537` is out of range; allowed are 1 to 65536\n"},
    {"connect_wait_ms: 10000", "idle_ms: 604800001",
     "f:16:14: targets.web.idle_ms: `604800001` is out of range; allowed are 0 to 604800000\n"},
    {"    target: web\n", "    target: web\n    max_per_agent: 1\n",
     "f:22:5: forwards.web.max_per_agent: unknown key `max_per_agent`; the keys here are: at, "
     "listen, target, open_wait_ms, max_connections, idle_ms\n"},
    {"    target: web\n", "    target: web\n    open_wait_ms: 10000\n",
     "f:22:19: forwards.web.open_wait_ms: 10000 is not longer than connect_wait_ms (10000) of "
     "target `web`; make it longer\n"},
    {"mesh: demo\n"
     "authority: authority.key\n"
     "sites:\n",
     "mesh: demo\nagent: paris/hub\nkey: node.key\nplaces:\n",
     "f:1:1: .: this is the file of one agent, not a fleet file, which has `sites`; name the fleet "
     "file that it was rendered from\n"},
    {"    target: web\n",
     "    target: web\n"
     "  mail:\n"
     "    at: amsterdam/edge\n"
     "    listen: \"0.0.0.0:8080\"\n"
     "    target: web\n",
     "f:24:13: forwards.mail.listen: 0.0.0.0:8080 is taken: forward `web` at amsterdam/edge "
     "listens on 127.0.0.1:8080; choose another port\n"},
    {"      links: [paris/hub]\n",
     "      links: [paris/hub]\n"
     "      listen: \"tls://127.0.0.1:8080\"\n",
     "f:21:13: forwards.web.listen: 127.0.0.1:8080 is taken: agent amsterdam/edge itself listens "
     "on 127.0.0.1:8080; choose another port\n"},
    {"    spare: {}", "    spare: {}\n    hub: {}",
     "f:8:5: sites.paris.hub: key `hub` stands here twice; the first is at 5:5; remove one of "
     "them\n"},
    {"targets:\n", "targets:\n  web: {}\n",
     "f:13:3: targets.web: key `web` stands here twice; the first is at 12:3; remove one of "
     "them\n"},
    {"forwards:\n", "forwards:\n  web: {}\n",
     "f:19:3: forwards.web: key `web` stands here twice; the first is at 18:3; remove one of "
     "them\n"},
    {"[\"tls://127.0.0.1:7400\"]", "[\"tls://127.0.0.1:7400\", \"tls://localhost:7400\"]",
     "f:6:40: sites.paris.hub.listen[1]: localhost:7400 is listened on twice at paris/hub (also by "
     "127.0.0.1:7400); remove one of them, or give it another port\n"},
    {"[\"tls://127.0.0.1:7400\"]", "[\"tls://127.0.0.1:7400\", \"tls://[::]:7400\"]",
     "f:6:40: sites.paris.hub.listen[1]: [::]:7400 is listened on twice at paris/hub (also by "
     "127.0.0.1:7400); remove one of them, or give it another port\n"},
    {"[\"tls://127.0.0.1:7400\"]", "[\"tls://127.0.0.1:7400\", \"tls://[::1]:7400\"]", ""},
    {"      links: [paris/hub]\n",
     "      links: [paris/hub]\n"
     "      listen: \"tls://[::]:8080\"\n",
     "f:21:13: forwards.web.listen: 127.0.0.1:8080 is taken: agent amsterdam/edge itself listens "
     "on [::]:8080; choose another port\n"},
    {"    target: web\n",
     "    target: web\n"
     "  mail: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: web}\n"
     "  news: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: web}\n"
     "  wiki: {at: amsterdam/edge, listen: \"[::1]:8080\", target: web}\n",
     ""},
    {"    from: [\"amsterdam/*\"]", "    from: [amsterdam/egde, \"role:viewer\"]",
     "f:25:12: access[0].from[0]: no agent `amsterdam/egde` in this fleet; did you mean "
     "`amsterdam/edge`?\n"
     "f:25:28: access[0].from[1]: no agent in this fleet has the role `viewer`; add it to the "
     "`roles` of those that are meant\n"},
    {"    from: [\"amsterdam/*\"]", "    from: [\"oslo/*\"]",
     "f:25:12: access[0].from[0]: `oslo/*` matches no agent in this fleet; add that site to "
     "`sites`, or name another one\n"},
    {"\"paris/hub:echo\"", "\"paris/hub:control\"",
     "f:23:9: access[0].to: `control` serves the operator of its own agent, and no rule opens it "
     "to "
     "others; remove this entry\n"},
    {"      listen: [\"tls", "      LISTEN: [\"tls",
     "f:6:7: sites.paris.hub.LISTEN: unknown key `LISTEN`; did you mean `listen`?\n"},
    {"links: [paris/hub]", "links: [Paris/Hub]",
     "f:10:15: sites.amsterdam.edge.links[0]: expected an agent as site/agent, found "
     "`Paris/Hub`\n"},
    {"\"paris/hub:echo\"", "\"paris/hut:echo\"",
     "f:23:9: access[0].to: no agent `paris/hut` in this fleet; did you mean `paris/hub`?\n"},
    {"    from: [\"amsterdam/*\"]", "    from: [\"amsterdm/*\"]",
     "f:25:12: access[0].from[0]: `amsterdm/*` matches no agent in this fleet; did you mean "
     "`amsterdam/*`?\n"},
    {"at: [\"paris/*\"]", "at: [\"pari/*\"]",
     "f:28:10: plugins[0].at[0]: `pari/*` matches no agent in this fleet; did you mean "
     "`paris/*`?\n"},
    {"name: storage", "name: tunnel",
     "f:27:11: plugins[0].name: tunnels are declared under `targets` and `forwards`; remove this "
     "entry\n"},
    {"name: storage\n    at: [\"paris/*\"]\n    config: {path: store}\n",
     "name: tunnel\n    at: [\"paris/*\"]\n",
     "f:27:11: plugins[0].name: tunnels are declared under `targets` and `forwards`; remove this "
     "entry\n"},
    {"    config: {path: store}\n", "    sha256: abc\n",
     "f:29:13: plugins[0].sha256: the text has 3 bytes; allowed are 64 to 64\n"},
    {"    config: {path: store}\n", "    sha256: [\"" DIGEST "\", \"" NO_DIGEST "\"]\n",
     "f:29:82: plugins[0].sha256[1]: expected 64 hexadecimal digits, found "
     "`g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde...`\n"},
    {"    config: {path: store}\n", "    path: /opt/storage.so\n",
     "f:27:5: plugins[0]: plugin `storage` needs `sha256` at paris/hub, whose `plugins_allow` is "
     "`own`\n"},
    {"  drain_ms: 5000\n", "  plugins_allow: lsited\n",
     "f:31:18: settings.plugins_allow: `lsited` is not one of own|listed|any; did you mean "
     "`listed`?\n"},
    {"  drain_ms: 5000\n", "  plugins_allow: listed\n",
     "f:6:7: sites.paris.hub: paris/hub has tunnels, and its `plugins_allow` is `listed`: say "
     "under `plugins` which file that is: {name: tunnel, at: paris/hub, sha256: ...}\n"
     "f:10:7: sites.amsterdam.edge: amsterdam/edge has tunnels, and its `plugins_allow` is "
     "`listed`: say under `plugins` which file that is: {name: tunnel, at: amsterdam/edge, sha256: "
     "...}\n"
     "f:27:5: plugins[0]: plugin `storage` needs `sha256` at paris/hub, whose `plugins_allow` is "
     "`listed`\n"},
    {"    config: {path: store}\n",
     "    config: {path: store}\n"
     "  - {name: storage, at: paris/hub}\n",
     "f:30:25: plugins[1].at: plugin `storage` stands twice at paris/hub (also plugins[0]); remove "
     "one of them\n"},
    {"  drain_ms: 5000", "  heartbeat: {interval_ms: 5000}",
     "f:31:14: settings.heartbeat: deadline_ms (5000) must be at least twice interval_ms (5000), "
     "or one late answer takes the link down\n"},
    {"  drain_ms: 5000", "  reconnect: {min_ms: 20000}",
     "f:31:14: settings.reconnect: max_ms (10000) is below min_ms (20000)\n"},
    {"  drain_ms: 5000", "  accept: {per_address: 65}",
     "f:31:25: settings.accept.per_address: per_address (65) is above handshakes (64)\n"},
    {"spare: {}", "spare: {settings: {reconnect: {max_ms: 50}}}",
     "f:7:44: sites.paris.spare.settings.reconnect.max_ms: max_ms (50) is below min_ms (100)\n"},
    {"mesh: demo", "mesh: &a demo", "f:1:7: mesh: anchors and aliases are not supported\n"},
    {"mesh: demo", "mesh: *a", "f:1:7: mesh: anchors and aliases are not supported\n"},
    {"mesh: demo", "mesh: !!str demo", "f:1:7: mesh: tags are not supported\n"},
    {"mesh: demo",
     "%YAML 1.2\n"
     "---\n"
     "mesh: demo",
     "f:1:1: .: %YAML and %TAG directives are not supported\n"},
    {"  drain_ms: 5000",
     "  drain_ms: 5000\n"
     "---\n"
     "mesh: b",
     "f:32:1: .: a second document; a configuration is one YAML document\n"},
    {"spare: {}", "spare: {<<: {}}",
     "f:7:13: sites.paris.spare: merge keys are not supported; repeat the keys\n"},
    {"spare: {}", "spare: {[a]: b}",
     "f:7:13: sites.paris.spare: a key must be plain text, not a list, mapping or alias\n"},
    {"spare: {}", "spare: {? : b}",
     "f:7:15: sites.paris.spare: a key is missing before the colon\n"},
    {"mesh: demo",
     "mesh: demo\n"
     "  more",
     "f:1:7: mesh: text without quotes runs on over several lines; check the indentation\n"},
    {"    at: paris/hub", "\t at: paris/hub", "f:13:1: .: a tab in the indentation; use spaces\n"},
    {"mesh: demo", "mesh: \"de\\0mo\"", "f:1:7: mesh: the text contains a NUL byte\n"},
    {"mesh: demo", " mesh: demo",
     "f:2:1: .: YAML syntax: did not find expected <document start>; check the indentation\n"},
    {"at: paris/hub", "at paris/hub",
     "f:13:5: targets.web: text without quotes runs on over several lines; check the indentation\n"
     "f:14:12: targets: YAML syntax: mapping values are not allowed in this context; check the "
     "indentation\n"},
    {"mesh: demo", "mesh: \"demo",
     "f:1:7: mesh: quoted text runs on over several lines; is the closing quote missing?\n"
     "f:6:17: .: YAML syntax: did not find expected key; check the indentation\n"},
    {"mesh: demo", "mesh: @demo",
     "f:1:7: .: YAML syntax: found character that cannot start any token; put the value in "
     "quotes\n"},
};

/* Every kind of mistake: exactly these findings, at exactly these places. */
static void each_mistake_has_its_findings(void **state)
{
    (void)state;
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        char *text = edit(fleet_text, cases[i].from, cases[i].to);
        struct sn_findings findings;
        sn_findings_init(&findings);
        struct sn_fleet *fleet = NULL;
        enum sn_err err = sn_fleet_parse(text, strlen(text), "f", &findings, &fleet);
        char *found = findings_text(&findings);
        assert_string_equal(found, cases[i].findings);
        assert_int_equal(err, cases[i].findings[0] == '\0' ? SN_OK : SN_EINVAL);
        assert_true((fleet != NULL) == (err == SN_OK));
        free(found);
        free(text);
        sn_fleet_free(fleet);
        sn_findings_fini(&findings);
    }
    assert_int_equal(sn_alloc_in_use(), 0);
}

static struct sn_fleet *parse_good(const char *text)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_fleet *fleet = NULL;
    enum sn_err err = sn_fleet_parse(text, strlen(text), "f", &findings, &fleet);
    char *found = findings_text(&findings);
    assert_string_equal(found, "");
    assert_int_equal(err, SN_OK);
    free(found);
    sn_findings_fini(&findings);
    return fleet;
}

static void a_good_fleet_becomes_a_model(void **state)
{
    (void)state;
    struct sn_fleet *fleet = parse_good(fleet_text);
    assert_string_equal(fleet->mesh, "demo");
    assert_string_equal(fleet->authority, "authority.key");
    assert_int_equal(fleet->agent_count, 3);
    assert_string_equal(fleet->agents[0].name, "paris/hub");
    assert_string_equal(fleet->agents[1].name, "paris/spare");
    assert_string_equal(fleet->agents[2].name, "amsterdam/edge");
    assert_null(fleet->agents[0].key);
    assert_int_equal(sn_fleet_find_agent(fleet, "amsterdam/edge"), 2);
    assert_int_equal(sn_fleet_find_agent(fleet, "paris/hub"), 0);
    assert_int_equal(sn_fleet_find_agent(fleet, "paris/hu"), SN_FLEET_NONE);
    assert_int_equal(fleet->agents[2].link_count, 1);
    assert_int_equal(fleet->agents[2].links[0].to, 0);
    assert_null(fleet->agents[2].links[0].address);
    assert_int_equal(fleet->target_count, 1);
    assert_string_equal(fleet->targets[0].name, "web");
    assert_int_equal(fleet->targets[0].at, 0);
    assert_string_equal(fleet->targets[0].address, "127.0.0.1:8000");
    assert_int_equal(fleet->targets[0].connect_wait_ms, 10000);
    assert_true(sn_config_patterns_match(fleet->targets[0].allow, "amsterdam/edge"));
    assert_false(sn_config_patterns_match(fleet->targets[0].allow, "paris/hub"));
    assert_int_equal(fleet->forward_count, 1);
    assert_int_equal(fleet->forwards[0].at, 2);
    assert_int_equal(fleet->forwards[0].target, 0);
    assert_string_equal(fleet->forwards[0].listen, "127.0.0.1:8080");
    assert_int_equal(fleet->forwards[0].open_wait_ms, 15000);
    assert_int_equal(fleet->access_count, 1);
    assert_int_equal(fleet->access[0].at, 0);
    assert_string_equal(fleet->access[0].actor, "echo");
    assert_string_equal(sn_config_text(sn_config_at(fleet->access[0].types, 0), ""), "echo.*");
    assert_int_equal(fleet->plugin_count, 1);
    assert_string_equal(fleet->plugins[0].name, "storage");
    assert_string_equal(sn_config_text(sn_config_get(fleet->plugins[0].config, "path"), ""),
                        "store");
    sn_fleet_free(fleet);
}

static void the_address_to_dial_is_given_or_derived(void **state)
{
    (void)state;
    static const struct {
        const char *listen; /* replaces the hub's */
        const char *first;
        const char *second;
    } table[] = {
        {"[\"tls://127.0.0.1:7400\"]", "127.0.0.1:7400", NULL},
        {"tls://127.0.0.1:7400", "127.0.0.1:7400", NULL},
        {"[\"tls://0.0.0.0:7400\", \"tls://[::1]:7401\", \"tls://hub.example:7402\"]", "[::1]:7401",
         "hub.example:7402"},
        {"[\"tls://0.0.0.0:7400\"]\n      address: hub.example:443", "hub.example:443", NULL},
        {"[\"tls://127.0.0.1:0\"]\n      address: [\"a:1\", \"b:2\"]", "a:1", "b:2"},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(table); i++) {
        char *text = edit(fleet_text, "[\"tls://127.0.0.1:7400\"]", table[i].listen);
        struct sn_fleet *fleet = parse_good(text);
        assert_string_equal(sn_fleet_agent_address(&fleet->agents[0], 0), table[i].first);
        const char *second = sn_fleet_agent_address(&fleet->agents[0], 1);
        assert_int_equal(second == NULL, table[i].second == NULL);
        if (second != NULL) assert_string_equal(second, table[i].second);
        assert_null(sn_fleet_agent_address(&fleet->agents[0], 2));
        sn_fleet_free(fleet);
        free(text);
    }
}

static void settings_of_an_agent_override_those_of_the_fleet(void **state)
{
    (void)state;
    char *text =
        edit(fleet_text, "spare: {}", "spare: {settings: {drain_ms: 7, log: {level: debug}}}");
    char *more = edit(text, "  drain_ms: 5000",
                      "  drain_ms: 100\n  log: {level: warn, format: json}\n  workers: 3");
    struct sn_fleet *fleet = parse_good(more);
    assert_int_equal(fleet->settings.drain_ms, 100);
    assert_int_equal(fleet->agents[0].settings.drain_ms, 100);
    assert_int_equal(fleet->agents[1].settings.drain_ms, 7);
    assert_string_equal(fleet->agents[0].settings.log_level, "warn");
    assert_string_equal(fleet->agents[1].settings.log_level, "debug");
    assert_string_equal(fleet->agents[1].settings.log_format, "json");
    assert_int_equal(fleet->agents[1].settings.workers, 3);
    assert_int_equal(fleet->agents[1].settings.memory_mib, 512);
    sn_fleet_free(fleet);
    free(more);
    free(text);
}

/* A client outlasts the search for its service, unless the fleet says how long it waits. */
static void clients_wait_longer_than_targets(void **state)
{
    (void)state;
    char *text = edit(fleet_text, "connect_wait_ms: 10000", "connect_wait_ms: 600000");
    struct sn_fleet *fleet = parse_good(text);
    assert_int_equal(fleet->forwards[0].open_wait_ms, 605000);
    sn_fleet_free(fleet);
    char *more = edit(text, "    target: web\n", "    target: web\n    open_wait_ms: 900000\n");
    fleet = parse_good(more);
    assert_int_equal(fleet->forwards[0].open_wait_ms, 900000);
    sn_fleet_free(fleet);
    free(more);
    free(text);
}

static void roles_are_matched_as_names_are(void **state)
{
    (void)state;
    char *text = edit(fleet_text, "spare: {}", "spare: {roles: [one, two]}");
    char *more = edit(text, "from: [\"amsterdam/*\"]", "from: [\"role:two\", amsterdam/edge]");
    struct sn_fleet *fleet = parse_good(more);
    const struct sn_config_node *from = fleet->access[0].from;
    assert_false(sn_fleet_patterns_match(from, &fleet->agents[0]));
    assert_true(sn_fleet_patterns_match(from, &fleet->agents[1]));
    assert_true(sn_fleet_patterns_match(from, &fleet->agents[2]));
    sn_fleet_free(fleet);
    free(more);
    free(text);
}

/* A link counts in both directions. */
static void a_link_from_the_target_is_enough(void **state)
{
    (void)state;
    char *text = edit(fleet_text, "      links: [paris/hub]\n",
                      "      listen: [\"tls://127.0.0.1:7500\"]\n");
    char *more = edit(text, "    spare: {}\n", "      links: [amsterdam/edge]\n    spare: {}\n");
    struct sn_fleet *fleet = parse_good(more);
    assert_int_equal(fleet->agents[0].links[0].to, 2);
    sn_fleet_free(fleet);
    free(more);
    free(text);
}

/* Who can neither call nor be called is warned of; a fleet of one has nobody else. */
static void agents_on_their_own_are_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *from;
        const char *to;
        const char *warnings;
    } table[] = {
        {"spare: {}", "spare: {}",
         "f:7:5: sites.paris.spare: warning: paris/spare neither listens nor links to anybody, so "
         "no other agent can reach it; give it `links` or `listen`\n"},
        {"spare: {}", "spare: {links: [paris/hub]}", ""},
        {"spare: {}", "spare: {listen: \"tls://127.0.0.1:7401\"}", ""},
        {fleet_text, "mesh: m\nauthority: a.key\nsites:\n  home: {one: {}}\n", ""},
    };
    for (size_t i = 0; i < SN_ARRAY_COUNT(table); i++) {
        char *text = edit(fleet_text, table[i].from, table[i].to);
        struct sn_fleet *fleet = parse_good(text);
        struct sn_findings warnings;
        sn_findings_init(&warnings);
        sn_fleet_warn(fleet, &warnings);
        char *found = findings_text(&warnings);
        assert_string_equal(found, table[i].warnings);
        free(found);
        sn_findings_fini(&warnings);
        sn_fleet_free(fleet);
        free(text);
    }
}

/* A role is looked for before names that resemble it are, which would take minutes here. */
static void many_roles_are_found_fast(void **state)
{
    enum { TARGETS = 512 };
    (void)state;
    size_t capacity = (size_t)4 << 20;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t size = (size_t)snprintf(text, capacity, "mesh: m\nauthority: a.key\nsites:\n  s:\n");
    for (unsigned i = 0; i < SN_FLEET_AGENTS_MAX; i++) {
        size +=
            (size_t)snprintf(text + size, capacity - size, "    a%u: {roles: reader-%u}\n", i, i);
    }
    size += (size_t)snprintf(text + size, capacity - size, "targets:\n");
    for (unsigned i = 0; i < TARGETS; i++) {
        size += (size_t)snprintf(text + size, capacity - size,
                                 "  t%u: {at: s/a0, address: \"h:1\", allow: role:reader-%u}\n", i,
                                 SN_FLEET_AGENTS_MAX - 1);
    }
    assert_true(size < capacity - 1);
    struct sn_fleet *fleet = parse_good(text);
    assert_int_equal(fleet->target_count, TARGETS);
    sn_fleet_free(fleet);
    free(text);
}

static void too_many_agents_are_refused(void **state)
{
    (void)state;
    size_t capacity = (size_t)SN_FLEET_AGENTS_MAX * 16 + 200;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t size = (size_t)snprintf(text, capacity, "mesh: m\nauthority: a.key\nsites:\n");
    for (unsigned site = 0; site < 2; site++) {
        size += (size_t)snprintf(text + size, capacity - size, "  s%u:\n", site);
        for (unsigned i = 0; i <= SN_FLEET_AGENTS_MAX / 2; i++) {
            size += (size_t)snprintf(text + size, capacity - size, "    a%u: {}\n", i);
        }
    }
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_fleet *fleet = NULL;
    assert_int_equal(sn_fleet_parse(text, size, "f", &findings, &fleet), SN_EINVAL);
    char *found = findings_text(&findings);
    assert_string_equal(found, "f:4:3: sites: 4098 agents; at most 4096 are allowed\n");
    free(found);
    free(text);
    sn_findings_fini(&findings);
}

static void examples_are_good(void **state)
{
    (void)state;
    static const char *const names[] = {"two-sites.yaml", "annotated.yaml"};
    for (size_t i = 0; i < SN_ARRAY_COUNT(names); i++) {
        char *text = read_example(names[i]);
        struct sn_fleet *fleet = parse_good(text);
        assert_true(fleet->agent_count >= 2);
        assert_int_equal(fleet->access_count + fleet->plugin_count,
                         0); /* of the reader's plugins */
        sn_fleet_free(fleet);
        uncomment(text);
        fleet = parse_good(text);
        assert_int_equal(fleet->access_count, 1);
        assert_int_equal(fleet->plugin_count, i);
        sn_fleet_free(fleet);
        free(text);
    }
}

/* The annotated example states the defaults: they must be those of the tables. */
static void the_annotated_example_tells_the_defaults(void **state)
{
    (void)state;
    char *text = read_example("annotated.yaml");
    struct sn_fleet *fleet = parse_good(text);
    struct sn_settings defaults = sn_settings_default();
    fleet->settings.log_level = fleet->settings.log_format = NULL; /* compared as text */
    assert_string_equal(defaults.plugins_allow, "own");
    fleet->settings.plugins_allow = defaults.plugins_allow = NULL;
    assert_string_equal(defaults.log_level, "info");
    assert_string_equal(defaults.log_format, "text");
    defaults.log_level = defaults.log_format = NULL;
    assert_memory_equal(&fleet->settings, &defaults, sizeof defaults);
    assert_int_equal(fleet->targets[0].connect_wait_ms, 10000);
    sn_fleet_free(fleet);
    free(text);
}

/* Good and bad texts alike: lack of memory is an error of its own, and everything comes back. */
static void survives_failing_allocations(void **state)
{
    (void)state;
    char *good = read_example("two-sites.yaml");
    char *bad = edit(good, "paris/hub] #", "paris/hubb] #");
    const char *const texts[] = {good, bad};
    for (size_t i = 0; i < SN_ARRAY_COUNT(texts); i++) {
        enum sn_err expected = i == 0 ? SN_OK : SN_EINVAL;
        enum sn_err err = SN_ENOMEM;
        uint64_t nth = 1;
        for (; err == SN_ENOMEM; nth++) {
            struct sn_findings findings;
            struct sn_fleet *fleet = NULL;
            sn_findings_init(&findings);
            sn_alloc_fail_nth(nth);
            err = sn_fleet_parse(texts[i], strlen(texts[i]), "f", &findings, &fleet);
            sn_alloc_fail_nth(0);
            sn_fleet_free(fleet);
            sn_findings_fini(&findings);
            assert_int_equal(sn_alloc_in_use(), 0);
        }
        assert_int_equal(err, expected);
        assert_true(nth > 8);
    }
    free(bad);
    free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_has_its_findings),
        cmocka_unit_test(a_good_fleet_becomes_a_model),
        cmocka_unit_test(the_address_to_dial_is_given_or_derived),
        cmocka_unit_test(settings_of_an_agent_override_those_of_the_fleet),
        cmocka_unit_test(clients_wait_longer_than_targets),
        cmocka_unit_test(roles_are_matched_as_names_are),
        cmocka_unit_test(a_link_from_the_target_is_enough),
        cmocka_unit_test(agents_on_their_own_are_warned_of),
        cmocka_unit_test(many_roles_are_found_fast),
        cmocka_unit_test(too_many_agents_are_refused),
        cmocka_unit_test(examples_are_good),
        cmocka_unit_test(the_annotated_example_tells_the_defaults),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
