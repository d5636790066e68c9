/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"
#include "sennit/actor.h"

static const char *const names[SN_REASON_COUNT] = {
    [SN_REASON_NONE] = "none",
    [SN_REASON_DENIED] = "denied",
    [SN_REASON_NO_ACTOR] = "no-actor",
    [SN_REASON_MAILBOX_FULL] = "mailbox-full",
    [SN_REASON_DEADLINE] = "deadline",
    [SN_REASON_PEER_RESTARTED] = "peer-restarted",
    [SN_REASON_SHUTDOWN] = "shutdown",
    [SN_REASON_NO_MEMORY] = "no-memory",
    [SN_REASON_ACTOR_FAILED] = "actor-failed",
    [SN_REASON_NO_ASK] = "no-ask",
    [SN_REASON_NO_AGENT] = "no-agent",
};

const char *sn_reason_name(enum sn_reason reason)
{
    if ((unsigned)reason >= SN_ARRAY_COUNT(names)) return "unknown-reason";
    SN_ASSERT(names[reason] != NULL);
    return names[reason];
}
