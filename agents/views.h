/* SPDX-License-Identifier: Apache-2.0 */
/* Views of a running agent, as the control socket shows them: status peers streams actors plugins ledger metrics. */
#ifndef SN_AGENTS_VIEWS_H
#define SN_AGENTS_VIEWS_H

#include "agents/agent.h"
#include "agents/body.h"

/* Makes the view called `verb`; done(arg, token, body) comes on `worker`, now or later; body->err tells failure.
 * Errors: ENOENT (no such view), ENOMEM. On an error done is not called. */
SN_MUST_CHECK enum sn_err sn_view_make(
    struct sn_agent *agent, struct sn_worker *worker, const char *verb,
    void (*done)(void *arg, uint64_t token, const struct sn_body *body), void *arg, uint64_t token);

#endif
