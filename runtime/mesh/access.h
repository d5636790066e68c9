/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authorization of messages: who may send which types to which actor of this agent. Deny by default; the `ping`
 * actor is open to every member, `control` to none, whatever a rule says (the configuration refuses such a rule).
 * Checked at the destination, for the name that the origin's certificate proves.
 * Thread-safe: a table is immutable after it was built. Blocking: no.
 */
#ifndef SN_MESH_ACCESS_H
#define SN_MESH_ACCESS_H

#include <stdint.h>

#include "sennit/err.h"
#include "sennit/limits.h"

struct sn_access;

SN_MUST_CHECK enum sn_err sn_access_new(struct sn_access **out_access);
void sn_access_free(struct sn_access *access);

/* Allows agents that match `from` (pattern) to send types that match `types` (pattern) to `actor`. `from` may also
 * be `role:NAME`: agents whose certificate carries the role. Errors: EINVAL, ENOMEM, EFULL (4,096 rules). */
SN_MUST_CHECK enum sn_err sn_access_allow(struct sn_access *access, const char *actor,
                                          const char *types, const char *from);

/* Who asks: the proven name and roles. */
struct sn_origin {
    const char *agent;
    const char (*roles)[SN_LABEL_BYTES_MAX + 1];
    uint32_t role_count;
};

/* SN_OK or EDENIED. */
SN_MUST_CHECK enum sn_err sn_access_check(const struct sn_access *access,
                                          const struct sn_origin *origin, const char *actor,
                                          const char *type);
/* One pattern, as in a target's `allow:` list. */
int sn_origin_matches(const struct sn_origin *origin, const char *pattern);

#endif
