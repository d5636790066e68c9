/* SPDX-License-Identifier: Apache-2.0 */
/* HOST:PORT and socket addresses; the sockets made from them are non-blocking. */
#ifndef SN_TOOLS_FAULTPROXY_ADDRESS_H
#define SN_TOOLS_FAULTPROXY_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define FP_ADDRESS_TEXT_MAX 64

struct fp_address {
    struct sockaddr_storage any;
    socklen_t size;
};

/* HOST:PORT with a name, an IPv4 address or an IPv6 address in brackets; asks the name service, which may block.
 * Returns NULL, or what is wrong. */
const char *fp_address_parse(const char *text, struct fp_address *out_address);
void fp_address_format(const struct fp_address *address, char *out, size_t capacity);
bool fp_address_is_equal(const struct fp_address *a, const struct fp_address *b);

/* -1 with errno. *bound gets the port that the system chose. */
int fp_listen(const struct fp_address *address, bool is_udp, struct fp_address *out_bound);
/* Begins to connect; *out_is_done tells that there is nothing to wait for. -1 with errno. */
int fp_connect(const struct fp_address *address, bool is_udp, bool *out_is_done);
/* -1 with errno. */
int fp_accept(int listener, struct fp_address *out_peer);
bool fp_set_nonblocking(int fd);
/* Closes so that the peer sees a reset. */
void fp_close_reset(int fd);
/* The pending error of a socket, 0 when there is none. */
int fp_socket_error(int fd);

#endif
