/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy: a listener, connections (TCP) or clients (UDP), and what commands do to them. One thread; the loop in
 * main.c calls prepare, polls, and calls run.
 */
#ifndef SN_TOOLS_FAULTPROXY_PROXY_H
#define SN_TOOLS_FAULTPROXY_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/faultproxy/conn.h"
#include "tools/faultproxy/tcp.h"
#include "tools/faultproxy/udp.h"

struct fp_proxy {
    bool is_udp;
    bool is_quitting;
    int listener;            /* -1 while there is none */
    struct fp_address bound; /* with the port, once there was one */
    struct fp_conn_plan plan;
    struct fp_stats stats;
    struct fp_tcp tcp;
    struct fp_udp udp;
};

/* Listens at proxy->bound. False with errno. */
bool fp_proxy_listen(struct fp_proxy *proxy);
void fp_proxy_fini(struct fp_proxy *proxy);
void fp_proxy_prepare(struct fp_proxy *proxy, struct fp_pollset *set, int64_t *wake_us,
                      int64_t now_us);
void fp_proxy_run(struct fp_proxy *proxy, const struct fp_pollset *set, int64_t now_us);

/* Does a command that does not wait, and appends the answer with its newline. False when that is an error. */
bool fp_proxy_do(struct fp_proxy *proxy, const struct fp_command *command, struct fp_text *answer,
                 int64_t now_us);
/* Whether what a command waits for has come; since_us is when the wait began. */
bool fp_proxy_has_come(const struct fp_proxy *proxy, const struct fp_command *command,
                       int64_t since_us, int64_t now_us, int64_t *wake_us);

#endif
