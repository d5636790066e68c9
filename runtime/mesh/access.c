/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: without a rule that matches actor, type and origin the answer is no; no rule opens what serves the
 * operator of this agent alone. */
#include "mesh/access.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

#define RULES_MAX   4096u
#define ROLE_PREFIX "role:"

struct rule {
    struct rule *next;
    char actor[SN_LABEL_BYTES_MAX + 1];
    char types[SN_TYPE_BYTES_MAX + 1];
    char from[SN_AGENT_NAME_BYTES_MAX + 1];
};

struct sn_access {
    struct rule *rules;
    uint32_t count;
};

enum sn_err sn_access_new(struct sn_access **out_access)
{
    struct sn_access *access = sn_alloc(sizeof *access);
    if (access == NULL) return SN_ENOMEM;
    *out_access = access;
    return SN_OK;
}

void sn_access_free(struct sn_access *access)
{
    if (access == NULL) return;
    while (access->rules != NULL) {
        struct rule *rule = access->rules;
        access->rules = rule->next;
        sn_free(rule, sizeof *rule);
    }
    sn_free(access, sizeof *access);
}

static int is_role(const char *pattern)
{
    return strncmp(pattern, ROLE_PREFIX, sizeof ROLE_PREFIX - 1) == 0;
}

static int is_valid_from(const char *from)
{
    if (is_role(from)) {
        const char *role = from + sizeof ROLE_PREFIX - 1;
        return sn_label_is_valid(role, strlen(role));
    }
    return sn_agent_pattern_is_valid(from, strlen(from));
}

enum sn_err sn_access_allow(struct sn_access *access, const char *actor, const char *types,
                            const char *from)
{
    if (!sn_label_is_valid(actor, strlen(actor))) return SN_EINVAL;
    if (!sn_type_pattern_is_valid(types, strlen(types))) return SN_EINVAL;
    if (!is_valid_from(from)) return SN_EINVAL;
    if (access->count == RULES_MAX) return SN_EFULL;
    struct rule *rule = sn_alloc(sizeof *rule);
    if (rule == NULL) return SN_ENOMEM;
    enum sn_err err = sn_text_copy(rule->actor, sizeof rule->actor, actor, strlen(actor));
    if (err == SN_OK) err = sn_text_copy(rule->types, sizeof rule->types, types, strlen(types));
    if (err == SN_OK) err = sn_text_copy(rule->from, sizeof rule->from, from, strlen(from));
    if (err != SN_OK) {
        sn_free(rule, sizeof *rule);
        return SN_EINVAL;
    }
    rule->next = access->rules;
    access->rules = rule;
    access->count++;
    return SN_OK;
}

int sn_origin_matches(const struct sn_origin *origin, const char *pattern)
{
    if (!is_role(pattern)) return sn_agent_pattern_matches(pattern, origin->agent);
    for (uint32_t i = 0; i < origin->role_count; i++) {
        if (strcmp(origin->roles[i], pattern + sizeof ROLE_PREFIX - 1) == 0) return 1;
    }
    return 0;
}

enum sn_err sn_access_check(const struct sn_access *access, const struct sn_origin *origin,
                            const char *actor, const char *type)
{
    SN_ASSERT(origin->agent != NULL);
    if (strcmp(actor, "ping") == 0) return SN_OK;
    if (strcmp(actor, "control") == 0) return SN_EDENIED;
    for (const struct rule *rule = access->rules; rule != NULL; rule = rule->next) {
        if (strcmp(rule->actor, actor) != 0) continue;
        if (!sn_type_pattern_matches(rule->types, type)) continue;
        if (sn_origin_matches(origin, rule->from)) return SN_OK;
    }
    return SN_EDENIED;
}
