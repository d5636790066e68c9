/* SPDX-License-Identifier: Apache-2.0 */
#include "sennit/err.h"

#include "base/assert.h"

static const struct {
    const char *name;
    const char *text;
} table[SN_ERR_COUNT] = {
    [SN_OK] = {"ok", "done"},
    [SN_EINVAL] = {"invalid", "malformed input"},
    [SN_ENOMEM] = {"no-memory", "the memory budget is used up"},
    [SN_EFULL] = {"full", "a bounded queue or table is full"},
    [SN_EAGAIN] = {"again", "it would block"},
    [SN_ENOENT] = {"not-found", "no such thing"},
    [SN_EEXIST] = {"exists", "it exists already"},
    [SN_EDENIED] = {"denied", "not allowed"},
    [SN_ETIMEDOUT] = {"timed-out", "the deadline passed"},
    [SN_ECLOSED] = {"closed", "the connection was closed"},
    [SN_EPROTO] = {"protocol", "the other side broke the protocol"},
    [SN_ETOOBIG] = {"too-big", "longer than the limit"},
    [SN_EIO] = {"io", "the system refused an I/O operation"},
    [SN_EEXPIRED] = {"expired", "the certificate has expired"},
    [SN_ENOTYET] = {"not-yet-valid", "the certificate is not yet valid"},
    [SN_EAUTH] = {"bad-signature", "a signature or seal does not verify"},
    [SN_EREPLAY] = {"replay", "a sequence number or epoch was seen before"},
    [SN_EUNREACHABLE] = {"unreachable", "no way to the address"},
    [SN_ESTATE] = {"bad-state", "not possible in the present state"},
    [SN_EVERSION] = {"version", "the version is not supported"},
    [SN_ECANCELLED] = {"cancelled", "it was cancelled"},
    [SN_EINUSE] = {"in-use", "somebody else holds it"},
    [SN_ENOSPC] = {"no-space", "the disk is full"},
    [SN_EPERM] = {"bad-permissions", "file mode or owner is not acceptable"},
    [SN_ERESET] = {"reset", "the connection was reset"},
    [SN_EDUPLICATE] = {"duplicate", "another live session holds this identity"},
    [SN_EUNTRUSTED] = {"untrusted", "no authority or pin vouches for the key"},
    [SN_EMISMATCH] = {"mismatch", "it belongs to another mesh, agent or key"},
    [SN_EREFUSED] = {"connection-refused", "connection refused"},
    [SN_ENOFILES] = {"no-descriptors", "all descriptors are in use (ulimit -n)"},
    [SN_EREADONLY] = {"read-only", "the file system is read-only"},
    [SN_ELOOP] = {"link-loop", "a symbolic link leads back to itself"},
};

const char *sn_err_name(enum sn_err err)
{
    if ((unsigned)err >= SN_ARRAY_COUNT(table)) return "unknown-error";
    SN_ASSERT(table[err].name != 0);
    return table[err].name;
}

const char *sn_err_text(enum sn_err err)
{
    if ((unsigned)err >= SN_ARRAY_COUNT(table)) return "unknown error";
    SN_ASSERT(table[err].text != 0);
    return table[err].text;
}
