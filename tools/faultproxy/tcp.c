/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/tcp.h"

#include <errno.h>
#include <stddef.h>

#define ACCEPTS_MAX  64
#define ACCEPT_PAUSE (100 * FP_US_PER_MS)

/* Frees what is over, so that the counters are right at once. */
static void sweep(struct fp_tcp *tcp, struct fp_stats *stats)
{
    struct fp_conn **link = &tcp->first;
    while (*link != NULL) {
        struct fp_conn *conn = *link;
        if (!conn->is_over) {
            link = &conn->next;
            continue;
        }
        *link = conn->next;
        fp_conn_free(conn);
        stats->connections_now--;
    }
}

void fp_tcp_fini(struct fp_tcp *tcp)
{
    while (tcp->first != NULL) {
        struct fp_conn *conn = tcp->first;
        tcp->first = conn->next;
        fp_conn_free(conn);
    }
}

void fp_tcp_prepare(struct fp_tcp *tcp, struct fp_pollset *set, int listener,
                    const struct fp_stats *stats, int64_t *wake_us, int64_t now_us)
{
    tcp->listener_at = FP_NOT_POLLED;
    if (listener >= 0 && tcp->accept_at_us > now_us) {
        fp_wake_at(wake_us, tcp->accept_at_us);
    } else if (listener >= 0 && stats->connections_now < FP_CONNECTIONS_MAX) {
        tcp->listener_at = fp_pollset_add(set, listener, POLLIN);
    }
    for (struct fp_conn *conn = tcp->first; conn != NULL; conn = conn->next) {
        fp_conn_prepare(conn, set, wake_us);
    }
}

void fp_tcp_run(struct fp_tcp *tcp, const struct fp_pollset *set, struct fp_stats *stats,
                int64_t now_us)
{
    for (struct fp_conn *conn = tcp->first; conn != NULL; conn = conn->next) {
        fp_conn_run(conn, set, stats, now_us);
    }
    sweep(tcp, stats);
}

bool fp_tcp_has_clients(const struct fp_tcp *tcp, const struct fp_pollset *set)
{
    return fp_pollset_events(set, tcp->listener_at) != 0;
}

static void open_conn(struct fp_tcp *tcp, const struct fp_conn_plan *plan, int fd,
                      const struct fp_address *client, struct fp_stats *stats, int64_t now_us)
{
    if (tcp->is_refusing) {
        stats->refused++;
        fp_close_reset(fd);
        return;
    }
    uint64_t number = ++stats->connections_total;
    struct fp_conn *conn = fp_conn_new(plan, number, fd, client, now_us);
    if (conn == NULL) {
        stats->unreachable++;
        return;
    }
    conn->next = tcp->first;
    tcp->first = conn;
    stats->connections_now++;
}

void fp_tcp_accept(struct fp_tcp *tcp, const struct fp_conn_plan *plan, int listener,
                   struct fp_stats *stats, int64_t now_us)
{
    for (int i = 0; i < ACCEPTS_MAX && stats->connections_now < FP_CONNECTIONS_MAX; i++) {
        struct fp_address client;
        int fd = fp_accept(listener, &client);
        if (fd >= 0) {
            open_conn(tcp, plan, fd, &client, stats, now_us);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            tcp->accept_at_us = now_us + ACCEPT_PAUSE;
            return;
        }
    }
}

unsigned fp_tcp_apply(struct fp_tcp *tcp, const struct fp_command *command, struct fp_stats *stats,
                      int64_t now_us)
{
    unsigned late = 0;
    for (struct fp_conn *conn = tcp->first; conn != NULL; conn = conn->next) {
        late += fp_conn_apply(conn, command, stats, now_us);
    }
    sweep(tcp, stats);
    return late;
}

void fp_tcp_print(const struct fp_tcp *tcp, struct fp_text *out, int64_t now_us)
{
    for (const struct fp_conn *conn = tcp->first; conn != NULL; conn = conn->next) {
        fp_conn_print(conn, out, now_us);
    }
}
