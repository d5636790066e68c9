/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection through the proxy: two sockets and two ways between them. It moves on only in fp_conn_run(), which
 * does bounded work and never blocks.
 *
 * A side that broke is closed at once; the other side learns it through the way from the broken one, with the faults of
 * that way: behind a black hole a reset is not heard either.
 */
#ifndef SN_TOOLS_FAULTPROXY_CONN_H
#define SN_TOOLS_FAULTPROXY_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/faultproxy/address.h"
#include "tools/faultproxy/pollset.h"
#include "tools/faultproxy/way.h"

/* The side that a way comes from has the index of the way. */
enum { FP_CLIENT = FP_UP, FP_SERVER = FP_DOWN, FP_SIDES = 2 };

struct fp_side {
    int fd; /* -1 = gone */
    size_t polled_at;
    bool is_connecting;
    bool is_blocked; /* takes no more bytes for now */
    bool is_hung;    /* says so in each round, and there is nothing to do about it yet */
};

struct fp_conn {
    struct fp_conn *next;
    uint64_t number;
    struct fp_address client;
    struct fp_side sides[FP_SIDES];
    struct fp_way ways[FP_DIRECTIONS];
    int64_t opened_us;
    int64_t wake_us;
    int64_t close_at_us; /* FP_NEVER, or when an orderly close stops waiting */
    bool is_over;        /* both sockets are closed; only to be freed */
};

/* How the connections of a proxy are made; a new one starts with the faults `fresh`. */
struct fp_conn_plan {
    struct fp_address server;
    struct fp_fault fresh[FP_DIRECTIONS];
    size_t buffer_bytes;
    uint64_t seed;
};

/* Takes client_fd; connects to the server. NULL when the server is out of reach at once; the client is reset then. */
struct fp_conn *fp_conn_new(const struct fp_conn_plan *plan, uint64_t number, int client_fd,
                            const struct fp_address *client, int64_t now_us);
void fp_conn_free(struct fp_conn *conn);

void fp_conn_prepare(struct fp_conn *conn, struct fp_pollset *set, int64_t *wake_us);
void fp_conn_run(struct fp_conn *conn, const struct fp_pollset *set, struct fp_stats *stats,
                 int64_t now_us);

/* Returns how many flips came too late. */
unsigned fp_conn_apply(struct fp_conn *conn, const struct fp_command *command,
                       struct fp_stats *stats, int64_t now_us);
void fp_conn_print(const struct fp_conn *conn, struct fp_text *out, int64_t now_us);

#endif
