/* SPDX-License-Identifier: Apache-2.0 */
/* Network addresses as values. No I/O: names are resolved by the environment. */
#ifndef SN_BASE_NETADDR_H
#define SN_BASE_NETADDR_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

enum sn_netaddr_family { SN_NETADDR_NONE = 0, SN_NETADDR_IP4 = 4, SN_NETADDR_IP6 = 6 };

struct sn_netaddr {
    uint8_t family; /* enum sn_netaddr_family */
    uint16_t port;  /* host order */
    uint8_t ip[16]; /* network order; the first 4 for IP4 */
};

#define SN_NETADDR_TEXT_MAX 64 /* with the NUL: [ipv6]:port */

/* host:port as written in configuration: "127.0.0.1:80", "[::1]:80", "example.org:80". */
struct sn_endpoint {
    char host[254]; /* without brackets */
    uint16_t port;
    uint8_t is_literal; /* host is an IP address: `addr` is filled in */
    struct sn_netaddr addr;
};

/* Errors: EINVAL. Port 0 is accepted only if allow_port_zero. */
SN_MUST_CHECK enum sn_err sn_endpoint_parse(const char *text, size_t size, int allow_port_zero,
                                            struct sn_endpoint *out_endpoint);

/* "127.0.0.1:80" or "[::1]:80"; out has SN_NETADDR_TEXT_MAX bytes. */
void sn_netaddr_format(const struct sn_netaddr *addr, char *out);
int sn_netaddr_is_equal(const struct sn_netaddr *a, const struct sn_netaddr *b);
/* The same host, whatever the port. */
int sn_netaddr_is_same_host(const struct sn_netaddr *a, const struct sn_netaddr *b);
/* The same origin: of IPv6 the same /64, all of which one host may have as a rule. */
int sn_netaddr_is_same_origin(const struct sn_netaddr *a, const struct sn_netaddr *b);
int sn_netaddr_is_loopback(const struct sn_netaddr *addr);

#endif
