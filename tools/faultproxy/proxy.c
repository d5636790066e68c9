/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/proxy.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "tools/faultproxy/text.h"

bool fp_proxy_listen(struct fp_proxy *proxy)
{
    proxy->listener = fp_listen(&proxy->bound, proxy->is_udp, &proxy->bound);
    return proxy->listener >= 0;
}

static void unlisten(struct fp_proxy *proxy)
{
    if (proxy->listener < 0) return;
    (void)close(proxy->listener); /* nothing to lose */
    proxy->listener = -1;
}

void fp_proxy_fini(struct fp_proxy *proxy)
{
    unlisten(proxy);
    fp_tcp_fini(&proxy->tcp);
    fp_udp_fini(&proxy->udp);
}

void fp_proxy_prepare(struct fp_proxy *proxy, struct fp_pollset *set, int64_t *wake_us,
                      int64_t now_us)
{
    if (proxy->is_udp) {
        fp_udp_prepare(&proxy->udp, set, proxy->listener, wake_us);
    } else {
        fp_tcp_prepare(&proxy->tcp, set, proxy->listener, &proxy->stats, wake_us, now_us);
    }
}

static void accept_all(struct fp_proxy *proxy, int64_t now_us)
{
    if (proxy->is_udp || proxy->listener < 0) return;
    fp_tcp_accept(&proxy->tcp, &proxy->plan, proxy->listener, &proxy->stats, now_us);
}

void fp_proxy_run(struct fp_proxy *proxy, const struct fp_pollset *set, int64_t now_us)
{
    if (proxy->is_udp) {
        fp_udp_run(&proxy->udp, &proxy->plan, set, proxy->listener, &proxy->stats, now_us);
    } else {
        fp_tcp_run(&proxy->tcp, set, &proxy->stats, now_us);
        if (fp_tcp_has_clients(&proxy->tcp, set)) accept_all(proxy, now_us);
    }
}

/* --- commands ------------------------------------------------------------------------------------- */

static void do_fault(struct fp_proxy *proxy, const struct fp_command *command,
                     struct fp_text *answer, int64_t now_us)
{
    unsigned late = 0;
    uint64_t existing = 0;
    /* Who connected before the command is an existing connection, even when the loop has not come to it yet. */
    accept_all(proxy, now_us);
    if (command->scope & FP_EXISTING) {
        existing = proxy->stats.connections_now;
        late = proxy->is_udp ? fp_udp_apply(&proxy->udp, command, &proxy->stats, now_us)
                             : fp_tcp_apply(&proxy->tcp, command, &proxy->stats, now_us);
    }
    if (command->scope & FP_NEW) {
        for (unsigned i = 0; i < FP_DIRECTIONS; i++) {
            if (command->directions & (1u << i)) fp_fault_apply(&proxy->plan.fresh[i], command);
        }
        if (command->verb == FP_PASS) proxy->tcp.is_refusing = false;
    }
    fp_text_add(answer, "ok connections=%" PRIu64, existing);
    if (command->verb == FP_FLIP) fp_text_add(answer, " passed=%u", late);
    fp_text_add(answer, "\n");
}

static bool do_listen(struct fp_proxy *proxy, struct fp_text *answer)
{
    if (proxy->listener >= 0 || fp_proxy_listen(proxy)) {
        fp_text_add(answer, "ok\n");
        return true;
    }
    fp_text_add(answer, "error: cannot listen: %s; free the port and try again\n", strerror(errno));
    return false;
}

static void print_list(const struct fp_proxy *proxy, struct fp_text *answer, int64_t now_us)
{
    if (proxy->is_udp) {
        fp_udp_print(&proxy->udp, answer, now_us);
    } else {
        fp_tcp_print(&proxy->tcp, answer, now_us);
    }
}

bool fp_proxy_do(struct fp_proxy *proxy, const struct fp_command *command, struct fp_text *answer,
                 int64_t now_us)
{
    switch (command->verb) {
    case FP_LISTEN: return do_listen(proxy, answer);
    case FP_STATS:
        fp_text_add(answer, "ok ");
        fp_stats_print(&proxy->stats, answer);
        fp_text_add(answer, "\n");
        return true;
    case FP_UNLISTEN:
        accept_all(proxy, now_us);
        unlisten(proxy);
        break;
    case FP_REFUSE:
        accept_all(proxy, now_us);
        proxy->tcp.is_refusing = true;
        break;
    case FP_LIST: print_list(proxy, answer, now_us); break;
    case FP_QUIT: proxy->is_quitting = true; break;
    default: do_fault(proxy, command, answer, now_us); return true;
    }
    fp_text_add(answer, "ok\n");
    return true;
}

static uint64_t sum_of(const uint64_t counts[FP_DIRECTIONS], unsigned directions)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < FP_DIRECTIONS; i++) {
        if (directions & (1u << i)) sum += counts[i];
    }
    return sum;
}

bool fp_proxy_has_come(const struct fp_proxy *proxy, const struct fp_command *command,
                       int64_t since_us, int64_t now_us, int64_t *wake_us)
{
    const struct fp_stats *stats = &proxy->stats;
    uint64_t wanted = command->values[0];
    if (command->verb == FP_AFTER) {
        int64_t due_us = since_us + (int64_t)wanted * FP_US_PER_MS;
        if (now_us < due_us) fp_wake_at(wake_us, due_us);
        return now_us >= due_us;
    }
    switch (command->event) {
    case FP_EVENT_CONNECTIONS: return stats->connections_total >= wanted;
    case FP_EVENT_OPEN: return stats->connections_now == wanted;
    case FP_EVENT_BYTES: return sum_of(stats->bytes, command->directions) >= wanted;
    case FP_EVENT_READ: return sum_of(stats->read, command->directions) >= wanted;
    }
    return false;
}
