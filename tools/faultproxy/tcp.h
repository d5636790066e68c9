/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a TCP proxy. */
#ifndef SN_TOOLS_FAULTPROXY_TCP_H
#define SN_TOOLS_FAULTPROXY_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/faultproxy/conn.h"

#define FP_CONNECTIONS_MAX 512u /* open at a time; more wait in the backlog */

struct fp_tcp {
    struct fp_conn *first; /* owned; newest first */
    size_t listener_at;
    int64_t accept_at_us; /* no sooner: the system had no descriptors */
    bool is_refusing;
};

void fp_tcp_fini(struct fp_tcp *tcp);
/* The listener is -1 while there is none. */
void fp_tcp_prepare(struct fp_tcp *tcp, struct fp_pollset *set, int listener,
                    const struct fp_stats *stats, int64_t *wake_us, int64_t now_us);
void fp_tcp_run(struct fp_tcp *tcp, const struct fp_pollset *set, struct fp_stats *stats,
                int64_t now_us);
/* Takes in who waits at the listener. */
void fp_tcp_accept(struct fp_tcp *tcp, const struct fp_conn_plan *plan, int listener,
                   struct fp_stats *stats, int64_t now_us);
bool fp_tcp_has_clients(const struct fp_tcp *tcp, const struct fp_pollset *set);
/* A command for the existing connections; returns how many flips came too late. */
unsigned fp_tcp_apply(struct fp_tcp *tcp, const struct fp_command *command, struct fp_stats *stats,
                      int64_t now_us);
void fp_tcp_print(const struct fp_tcp *tcp, struct fp_text *out, int64_t now_us);

#endif
