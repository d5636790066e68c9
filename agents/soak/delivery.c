/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scenario `delivery`: each agent's soak actor sends its messages as soon as it starts, so before there is a link.
 * Guarantee: counts are those that both ends gave after the ledgers had settled, so that a late double is seen.
 */
#include "agents/soak/soak.h"

struct reports {
    struct sn_soak_report hub, edge;
};

static int ask_both(struct sn_rig *rig, struct reports *out_reports)
{
    return sn_rig_report(rig, &rig->hub, &out_reports->hub) &&
           sn_rig_report(rig, &rig->edge, &out_reports->edge);
}

/* Until all is sent, settled and received, or there is no time left: that is a failure of the counts, which are judged
 * in any case. */
static int await_done(struct sn_rig *rig, struct reports *out_reports)
{
    struct sn_soak *soak = rig->soak;
    uint64_t deadline_ns = sn_soak_deadline(soak, soak->scenario.timeout_ms);
    for (;;) {
        if (!ask_both(rig, out_reports)) return 0;
        if (out_reports->hub.is_done && out_reports->edge.is_done) return 1;
        if (sn_soak_is_over(soak, deadline_ns)) {
            sn_verdict_fail(&soak->verdict, "not done after %u ms", soak->scenario.timeout_ms);
            return 1;
        }
        sn_soak_pause(soak, SN_SOAK_POLL_MS);
    }
}

static void count(const struct sn_soak_report *from, const struct sn_soak_report *to,
                  struct sn_soak_counts *counts)
{
    uint64_t arrived = to->received + to->altered;
    counts->sent += from->sent;
    counts->delivered += from->delivered;
    counts->lost += from->sent > arrived ? from->sent - arrived : 0;
    counts->doubled += to->doubled;
    counts->reordered += to->reordered;
    counts->altered += to->altered;
}

static int check_direction(struct sn_rig *rig, const char *name, const struct sn_soak_report *from,
                           const struct sn_soak_report *to)
{
    uint64_t messages = rig->soak->scenario.messages;
    if (from->sent == messages && from->delivered == messages && from->undelivered == 0 &&
        from->unknown == 0 && to->received == messages && to->doubled == 0 && to->reordered == 0 &&
        to->altered == 0) {
        return 1;
    }
    sn_verdict_fail(&rig->soak->verdict,
                    "from %s: sent %llu, delivered %llu, undelivered %llu, unknown %llu (%s); "
                    "received %llu, doubled %llu, reordered %llu, altered %llu",
                    name, (unsigned long long)from->sent, (unsigned long long)from->delivered,
                    (unsigned long long)from->undelivered, (unsigned long long)from->unknown,
                    from->reason, (unsigned long long)to->received, (unsigned long long)to->doubled,
                    (unsigned long long)to->reordered, (unsigned long long)to->altered);
    return 0;
}

int sn_soak_delivery_run(struct sn_rig *rig, struct sn_soak_run *run)
{
    struct reports reports;
    if (!await_done(rig, &reports)) return 0;
    int is_fine = sn_rig_check_ledgers(rig, rig->soak->scenario.messages, run);
    is_fine &= sn_rig_check_sessions(rig, run);
    if (!ask_both(rig, &reports)) return 0;
    count(&reports.hub, &reports.edge, &run->counts);
    count(&reports.edge, &reports.hub, &run->counts);
    is_fine &= check_direction(rig, rig->hub.name, &reports.hub, &reports.edge);
    is_fine &= check_direction(rig, rig->edge.name, &reports.edge, &reports.hub);
    return is_fine;
}
