/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: at most one line a day for one certificate, besides the one at its end. */
#include "agents/expiry.h"

#include "agents/agent.h"
#include "log/log.h"

#define DAY_S      86400
#define NEAR_MAX_S (30 * (int64_t)DAY_S)
#define LOOK_S     3600

struct sn_expiry_view sn_expiry_look(const struct sn_cert *cert, int64_t now_s)
{
    int64_t near_s = (cert->not_after_s - cert->not_before_s) / 4;
    if (near_s > NEAR_MAX_S) near_s = NEAR_MAX_S;
    int64_t left_s = cert->not_after_s - now_s;
    struct sn_expiry_view view = {
        .is_near = left_s <= near_s, .is_over = left_s < 0, .next_s = LOOK_S};
    int64_t until_s = view.is_over ? LOOK_S : view.is_near ? left_s + 1 : left_s - near_s;
    if (until_s < view.next_s) view.next_s = until_s;
    if (view.next_s < 1) view.next_s = 1;
    return view;
}

static void tell(struct sn_expiry *expiry, const struct sn_expiry_view *view, int64_t left_s)
{
    struct sn_logger *logger = sn_system_logger(expiry->agent->home);
    if (view->is_over) {
        sn_logger_write(logger, SN_ERROR, "CERTIFICATE-EXPIRED", "agent",
                        "hint=\"peers refuse this agent; render a new certificate and reload\"");
    } else {
        sn_logger_write(logger, SN_WARN, "CERTIFICATE-EXPIRES", "agent",
                        "left_s=%lld hint=\"render a new certificate and reload\"",
                        (long long)left_s);
    }
}

void sn_expiry_check(struct sn_expiry *expiry)
{
    struct sn_agent *agent = expiry->agent;
    const struct sn_identity *identity = &agent->identity;
    if (identity->cert_size == 0) return; /* pins only */
    int64_t now_s = sn_env_wall_ms(agent->env) / 1000;
    int64_t left_s = identity->cert.not_after_s - now_s;
    struct sn_expiry_view view = sn_expiry_look(&identity->cert, now_s);
    int is_new = expiry->told_s == 0 || now_s >= expiry->told_s + DAY_S || now_s < expiry->told_s ||
                 view.is_over != expiry->was_over;
    if (!view.is_near) {
        expiry->told_s = 0;
    } else if (is_new) {
        tell(expiry, &view, left_s);
        expiry->told_s = now_s;
    }
    expiry->was_over = view.is_over;
    sn_timer_start(agent->home, &expiry->timer,
                   sn_worker_refresh_now(agent->home) + (uint64_t)view.next_s * 1000 * SN_MS);
}

static void on_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    (void)worker; /* home */
    sn_expiry_check(SN_CONTAINER_OF(timer, struct sn_expiry, timer));
}

void sn_expiry_init(struct sn_expiry *expiry, struct sn_agent *agent)
{
    *expiry = (struct sn_expiry){.agent = agent};
    sn_timer_init(&expiry->timer, on_timer);
}

void sn_expiry_stop(struct sn_expiry *expiry)
{
    if (expiry->agent != NULL) sn_timer_stop(expiry->agent->home, &expiry->timer);
}
