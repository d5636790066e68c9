/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients of a UDP proxy: each address that sends has a socket of its own toward the server. When there are too
 * many, whoever was silent longest is forgotten.
 */
#ifndef SN_TOOLS_FAULTPROXY_UDP_H
#define SN_TOOLS_FAULTPROXY_UDP_H

#include <stdint.h>

#include "tools/faultproxy/conn.h"
#include "tools/faultproxy/queue.h"

#define FP_CLIENTS_MAX 512u

struct fp_client {
    struct fp_client *next;
    uint64_t number;
    struct fp_address address;
    int fd;
    size_t polled_at;
    struct fp_queue queues[FP_DIRECTIONS];
    int64_t opened_us;
    int64_t heard_us; /* the last datagram from either side */
    int64_t wake_us;
};

struct fp_udp {
    struct fp_client *first; /* owned; newest first */
    uint8_t *datagram;       /* owned; the one being received */
    size_t listener_at;
};

void fp_udp_fini(struct fp_udp *udp);
void fp_udp_prepare(struct fp_udp *udp, struct fp_pollset *set, int listener, int64_t *wake_us);
/* The listener is -1 while there is none: nothing reaches the clients then. */
void fp_udp_run(struct fp_udp *udp, const struct fp_conn_plan *plan, const struct fp_pollset *set,
                int listener, struct fp_stats *stats, int64_t now_us);
unsigned fp_udp_apply(struct fp_udp *udp, const struct fp_command *command, struct fp_stats *stats,
                      int64_t now_us);
void fp_udp_print(const struct fp_udp *udp, struct fp_text *out, int64_t now_us);

#endif
