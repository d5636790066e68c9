/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: the starter passes every check of a fleet. It is config/two-sites.yaml under another
 * name, and a test keeps the two equal.
 */
#include "config/starter.h"

#include <string.h>

#include "base/text.h"
#include "config/out.h"

static const char head[] = "# A mesh of two agents at two sites, both on this machine. Check it "
                           "with `sennit check`, and make the\n"
                           "# files of its agents with `sennit render`.\n";

static const char body[] =
    "authority: authority.key # the public half is enough where the fleet is only checked\n"
    "\n"
    "sites:\n"
    "  paris:\n"
    "    hub:\n"
    "      listen: [\"tls://127.0.0.1:7400\"] # where the hub accepts links\n"
    "      address: [\"127.0.0.1:7400\"] # what others dial, when it differs\n"
    "  amsterdam:\n"
    "    edge:\n"
    "      links: [paris/hub] # agents that this one dials\n"
    "\n"
    "# Services that may be reached through the mesh, and by whom.\n"
    "targets:\n"
    "  web:\n"
    "    at: paris/hub\n"
    "    address: \"127.0.0.1:8000\"\n"
    "    allow: [\"amsterdam/*\"]\n"
    "    connect_wait_ms: 10000\n"
    "\n"
    "# Local ports that lead to them.\n"
    "forwards:\n"
    "  web:\n"
    "    at: amsterdam/edge\n"
    "    listen: \"127.0.0.1:8080\"\n"
    "    target: web\n"
    "\n"
    "# Who may write to which actor of your plugins. Everything else is denied; ping is open to "
    "every member.\n"
    "# access:\n"
    "#   - to: \"paris/hub:echo\"\n"
    "#     types: [\"echo.*\"]\n"
    "#     from: [\"amsterdam/*\"]\n";

enum sn_err sn_fleet_starter(const char *mesh, char **out_text)
{
    if (!sn_label_is_valid(mesh, strlen(mesh))) return SN_EINVAL;
    struct sni_out out = {0};
    sni_out_add(&out, head);
    /* A name such as `no` or `1e3` would be taken for something else without quotes. */
    sni_out_add(&out, "mesh: ");
    sni_out_name(&out, mesh);
    sni_out_add(&out, "\n");
    sni_out_add(&out, body);
    return sni_out_take(&out, out_text);
}
