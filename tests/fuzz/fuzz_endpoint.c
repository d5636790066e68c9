/* SPDX-License-Identifier: Apache-2.0 */
/* host:port texts: an accepted one is made of its parts, and an address survives its text form. */
#include <stdlib.h>
#include <string.h>

#include "base/netaddr.h"

static void require(int truth)
{
    if (!truth) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sn_endpoint endpoint, again;
    const char *text = (const char *)data;
    enum sn_err err = sn_endpoint_parse(text, size, 0, &endpoint);
    if (err != SN_OK) {
        require(err == SN_EINVAL);
        if (sn_endpoint_parse(text, size, 1, &endpoint) != SN_OK) return 0;
        require(endpoint.port == 0);
    }
    size_t host_size = strnlen(endpoint.host, sizeof endpoint.host);
    require(host_size > 0 && host_size < sizeof endpoint.host && host_size < size);
    require(memcmp(text + (text[0] == '['), endpoint.host, host_size) == 0);
    require(strspn(endpoint.host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_.:") == host_size);
    if (!endpoint.is_literal) {
        require(endpoint.addr.family == SN_NETADDR_NONE);
        return 0;
    }
    char canonical[SN_NETADDR_TEXT_MAX];
    require(endpoint.addr.port == endpoint.port);
    sn_netaddr_format(&endpoint.addr, canonical);
    require(sn_endpoint_parse(canonical, strlen(canonical), 1, &again) == SN_OK);
    require(again.is_literal && again.addr.family == endpoint.addr.family);
    require(sn_netaddr_is_equal(&again.addr, &endpoint.addr));
    require(sn_netaddr_is_loopback(&again.addr) == sn_netaddr_is_loopback(&endpoint.addr));
    return 0;
}
