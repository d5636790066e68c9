/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: the fleet of a soak allows what the scenario needs and nothing else. */
#include "agents/soak/fleet.h"

#include <inttypes.h>

static const char *const agents[2] = {SN_SOAK_HUB, SN_SOAK_EDGE};

static void add_sites(struct sn_text *text, const struct sn_rig *rig)
{
    sn_text_add(text,
                "mesh: soak\nauthority: ../authority.key\nsites:\n"
                "  north:\n    hub:\n      listen: [\"tls://127.0.0.1:%u\"]\n",
                rig->hub_port);
    if (rig->soak->scenario.is_dialed_both) {
        sn_text_add(text, "      links: [" SN_SOAK_EDGE "]\n");
    }
    sn_text_add(text, "  south:\n    edge:\n");
    if (rig->soak->scenario.kind == SN_SOAK_FLAP) {
        sn_text_add(text, "      links: [{to: " SN_SOAK_HUB ", address: [\"127.0.0.1:%u\"]}]\n",
                    rig->relay_port);
    } else {
        sn_text_add(text, "      links: [" SN_SOAK_HUB "]\n");
    }
    if (rig->soak->scenario.is_dialed_both) {
        sn_text_add(text, "      listen: [\"tls://127.0.0.1:%u\"]\n", rig->edge_port);
    }
}

static void add_delivery(struct sn_text *text, const struct sn_rig *rig, uint32_t number)
{
    const struct sn_scenario *scenario = &rig->soak->scenario;
    sn_text_add(text, "access:\n");
    for (unsigned i = 0; i < 2; i++) {
        sn_text_add(text, "  - {to: \"%s:soak\", types: [\"soak.data\"], from: [\"%s\"]}\n",
                    agents[i], agents[1 - i]);
    }
    sn_text_add(text, "plugins:\n");
    for (unsigned i = 0; i < 2; i++) {
        sn_text_add(text,
                    "  - name: soak\n    at: [\"%s\"]\n"
                    "    config: {peer: \"%s\", messages: %u, size_min: %u, size_max: %u, "
                    "seed: %" PRIu64 ", run: %u, class: %s, per_second: %u}\n",
                    agents[i], agents[1 - i], scenario->messages, scenario->size_min,
                    scenario->size_max, rig->soak->seed, number,
                    scenario->is_control ? "control" : "application", scenario->flap.per_second);
    }
}

static void add_tunnel(struct sn_text *text, const struct sn_rig *rig)
{
    sn_text_add(text,
                "targets:\n  soak: {at: " SN_SOAK_HUB ", address: \"127.0.0.1:%u\", "
                "allow: [\"" SN_SOAK_EDGE "\"]}\n"
                "forwards:\n  soak: {at: " SN_SOAK_EDGE ", listen: \"127.0.0.1:%u\", "
                "target: soak}\n",
                rig->target_port, rig->forward_port);
}

void sn_soak_fleet(struct sn_text *text, const struct sn_rig *rig, uint32_t number)
{
    add_sites(text, rig);
    enum sn_soak_kind kind = rig->soak->scenario.kind;
    if (kind != SN_SOAK_DELIVERY) add_tunnel(text, rig);
    if (kind != SN_SOAK_TUNNEL) add_delivery(text, rig, number);
}
