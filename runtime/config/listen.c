/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: what bind() would refuse as in use is found here, without resolving names. */
#include "config/listen.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/netaddr.h"

static int is_wildcard(const struct sn_endpoint *endpoint)
{
    if (!endpoint->is_literal) return 0;
    for (size_t i = 0; i < sizeof endpoint->addr.ip; i++) {
        if (endpoint->addr.ip[i] != 0) return 0;
    }
    return 1;
}

/* All interfaces of a family take in each of them; those of IPv6 also listen for IPv4. */
static int takes_in(const struct sn_endpoint *all, const struct sn_endpoint *one)
{
    if (!is_wildcard(all)) return 0;
    if (all->addr.family == SN_NETADDR_IP6 || !one->is_literal) return 1;
    return one->addr.family == SN_NETADDR_IP4;
}

/* ::ffff:127.0.0.1 is 127.0.0.1 to the kernel. */
static void unmap(struct sn_netaddr *addr)
{
    static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (addr->family != SN_NETADDR_IP6 || memcmp(addr->ip, prefix, sizeof prefix) != 0) return;
    memmove(addr->ip, addr->ip + sizeof prefix, 4);
    memset(addr->ip + 4, 0, sizeof addr->ip - 4);
    addr->family = SN_NETADDR_IP4;
}

/* Returns 0 for port 0. The one name that needs no resolving is taken for the address that it has everywhere. */
static int read_endpoint(const char *text, struct sn_endpoint *endpoint)
{
    char literal[32];
    enum sn_err err = sn_endpoint_parse(text, strlen(text), 0, endpoint);
    if (err == SN_OK && !endpoint->is_literal && strcasecmp(endpoint->host, "localhost") == 0) {
        int size = snprintf(literal, sizeof literal, "127.0.0.1:%u", (unsigned)endpoint->port);
        err = sn_endpoint_parse(literal, (size_t)size, 0, endpoint);
    }
    if (err == SN_OK && endpoint->is_literal) unmap(&endpoint->addr);
    return err == SN_OK;
}

int sni_listen_overlaps(const char *a, const char *b)
{
    const char *a_port = strrchr(a, ':');
    const char *b_port = strrchr(b, ':');
    if (a_port == NULL || b_port == NULL || strcmp(a_port, b_port) != 0) return 0;
    struct sn_endpoint left;
    struct sn_endpoint right;
    if (!read_endpoint(a, &left) || !read_endpoint(b, &right)) return 0;
    if (takes_in(&left, &right) || takes_in(&right, &left)) return 1;
    if (left.is_literal != right.is_literal) return 0;
    if (left.is_literal) return sn_netaddr_is_same_host(&left.addr, &right.addr);
    return strcasecmp(left.host, right.host) == 0;
}
