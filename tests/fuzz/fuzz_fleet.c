/* SPDX-License-Identifier: Apache-2.0 */
/* Fleet files: a good one renders an agent file for each agent, and that one is good too. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "config/agent_file.h"
#include "config/render.h"

#define KEY        "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define AGENTS_MAX 4u /* rendering all agents of a large fleet would only be slow */

static void require(int truth)
{
    if (!truth) abort();
}

static void render(const struct sn_fleet *fleet, uint32_t agent)
{
    const char *authority = KEY;
    const struct sn_render wish = {
        .fleet = fleet, .agent = agent, .authorities = &authority, .authority_count = 1};
    struct sn_findings findings;
    sn_findings_init(&findings);
    char *text = NULL;
    require(sn_fleet_render(&wish, &text) == SN_OK);
    struct sn_agent_file *file = NULL;
    require(sn_agent_file_parse(text, strlen(text), "agent.yaml", &findings, &file) == SN_OK);
    require(strcmp(file->agent, fleet->agents[agent].name) == 0);
    require(strcmp(file->mesh, fleet->mesh) == 0);
    require(file->link_count == fleet->agents[agent].link_count);
    sn_agent_file_free(file);
    sn_strfree(text);
    sn_findings_fini(&findings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sn_findings findings;
    sn_findings_init(&findings);
    struct sn_fleet *fleet = NULL;
    enum sn_err err = sn_fleet_parse(data, size, "fleet.yaml", &findings, &fleet);
    require((err == SN_OK) == (fleet != NULL) && (err == SN_OK) == (findings.total == 0));
    require(err == SN_OK || err == SN_EINVAL);
    for (uint32_t i = 0; i < findings.count; i++) {
        require(findings.items[i]->line > 0 && findings.items[i]->column > 0);
        require(findings.items[i]->path[0] != '\0' && findings.items[i]->message[0] != '\0');
    }
    for (uint32_t i = 0; fleet != NULL && i < fleet->agent_count && i < AGENTS_MAX; i++) {
        render(fleet, i);
    }
    sn_fleet_free(fleet);
    sn_findings_fini(&findings);
    require(sn_alloc_in_use() == 0);
    return 0;
}
