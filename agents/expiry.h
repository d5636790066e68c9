/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warns before the agent's certificate expires: once its last quarter, at most 30 days, has begun, and each day from
 * then on; as an error when it has expired.
 *
 * The wall clock may be set at any time, so it is looked at every hour. Threads: home. Blocking: no.
 */
#ifndef SN_AGENTS_EXPIRY_H
#define SN_AGENTS_EXPIRY_H

#include "actor/worker.h"
#include "crypto/cert.h"

struct sn_agent;

struct sn_expiry {
    struct sn_agent *agent;
    struct sn_timer timer;
    int64_t told_s; /* wall clock of the last warning; 0 = none */
    int was_over;
};

/* What stands to be said about a certificate at a time, and when to look again. Pure. */
struct sn_expiry_view {
    int is_near; /* it ought to be renewed */
    int is_over;
    int64_t next_s; /* seconds until this changes, or a while; at least 1 */
};
struct sn_expiry_view sn_expiry_look(const struct sn_cert *cert, int64_t now_s);

void sn_expiry_init(struct sn_expiry *expiry, struct sn_agent *agent);
/* Looks now, and from then on by itself. Also when the certificate is another one. */
void sn_expiry_check(struct sn_expiry *expiry);
/* After the system was stopped. */
void sn_expiry_stop(struct sn_expiry *expiry);

#endif
