/* SPDX-License-Identifier: Apache-2.0 */
/* Agent files: a good one says for each link where it leads and who vouches for the peer. */
#include <stdlib.h>

#include "base/alloc.h"
#include "config/agent_file.h"

static void require(int truth)
{
    if (!truth) abort();
}

static void inspect(const struct sn_agent_file *agent)
{
    require(agent->mesh != NULL && agent->agent != NULL && agent->key != NULL);
    require(agent->authority != NULL || agent->pin_count > 0);
    require((agent->authority != NULL) == (agent->certificate != NULL));
    for (uint32_t i = 0; i < agent->link_count; i++) {
        require(agent->links[i].key != NULL || agent->authority != NULL);
        require(sn_config_count(agent->links[i].address) > 0);
    }
    require(agent->settings.heartbeat_deadline_ms >= 2 * agent->settings.heartbeat_interval_ms);
    require(agent->settings.reconnect_max_ms >= agent->settings.reconnect_min_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_agent_file *agent = NULL;
    enum sn_err err = sn_agent_file_parse(data, size, "agent.yaml", &findings, &agent);
    require((err == SN_OK) == (agent != NULL) && (err == SN_OK) == (findings.total == 0));
    require(err == SN_OK || err == SN_EINVAL);
    for (uint32_t i = 0; i < findings.count; i++) {
        require(findings.items[i]->line > 0 && findings.items[i]->column > 0);
    }
    if (agent != NULL) inspect(agent);
    sn_agent_file_free(agent);
    sn_findings_fini(&findings);
    require(sn_alloc_in_use() == 0);
    return 0;
}
