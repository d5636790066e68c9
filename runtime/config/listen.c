/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: what bind() would refuse as in use is found here, without resolving names. */
#include "config/listen.h"

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

int sni_listen_overlaps(const char *a, const char *b)
{
    const char *a_port = strrchr(a, ':');
    const char *b_port = strrchr(b, ':');
    if (a_port == NULL || b_port == NULL || strcmp(a_port, b_port) != 0) return 0;
    struct sn_endpoint left;
    struct sn_endpoint right;
    if (sn_endpoint_parse(a, strlen(a), 0, &left) != SN_OK) return 0; /* port 0 */
    if (sn_endpoint_parse(b, strlen(b), 0, &right) != SN_OK) return 0;
    if (takes_in(&left, &right) || takes_in(&right, &left)) return 1;
    if (left.is_literal != right.is_literal) return 0;
    if (left.is_literal) return sn_netaddr_is_same_host(&left.addr, &right.addr);
    return strcasecmp(left.host, right.host) == 0;
}
