/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: an address has one reading. IPv4 is four plain decimals (no 127.1, no octal, no hex)
 * and a host name that a resolver could take for a number is refused, so that what an access rule
 * compared is what the system connects to. IPv4-mapped IPv6 addresses count as their IPv4 host.
 */
#include "base/netaddr.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"

#define IP4_BYTES     4u
#define IP6_BYTES     16u
#define IP6_NET_BYTES 8u
#define IP6_GROUPS    8u
#define LABEL_MAX     63u
#define NO_POSITION   SIZE_MAX

static enum sn_err parse_ip4(const char *text, size_t size, uint8_t out_ip[IP4_BYTES])
{
    uint8_t ip[IP4_BYTES];
    for (size_t i = 0; i < IP4_BYTES; i++) {
        const char *dot = size > 0 ? memchr(text, '.', size) : NULL;
        if ((dot != NULL) != (i + 1 < IP4_BYTES)) return SN_EINVAL;
        size_t digits = dot != NULL ? (size_t)(dot - text) : size;
        uint64_t value;
        if (sn_text_to_u64(text, digits, UINT8_MAX, &value) != SN_OK) return SN_EINVAL;
        ip[i] = (uint8_t)value;
        text += digits;
        size -= digits;
        if (dot != NULL) {
            text++;
            size--;
        }
    }
    memcpy(out_ip, ip, sizeof ip);
    return SN_OK;
}

static int is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* One group of 1 to 4 hexadecimal digits. */
static enum sn_err parse_group(const char *text, size_t size, uint8_t out_pair[2])
{
    unsigned value = 0;
    if (size == 0 || size > 4) return SN_EINVAL;
    for (size_t i = 0; i < size; i++) {
        if (!is_hex(text[i])) return SN_EINVAL;
        unsigned digit =
            text[i] <= '9' ? (unsigned)(text[i] - '0') : ((unsigned)text[i] | 0x20u) - 'a' + 10u;
        value = value * 16 + digit;
    }
    out_pair[0] = (uint8_t)(value >> 8);
    out_pair[1] = (uint8_t)value;
    return SN_OK;
}

/* Groups joined by single colons, filling `ip` from `used`; the last one may be a dotted IPv4. An
 * empty text is no group. */
static enum sn_err parse_groups(const char *text, size_t size, uint8_t ip[IP6_BYTES],
                                size_t *inout_used)
{
    size_t used = *inout_used;
    while (size > 0) {
        const char *colon = memchr(text, ':', size);
        size_t digits = colon != NULL ? (size_t)(colon - text) : size;
        if (colon == NULL && memchr(text, '.', size) != NULL) {
            if (used + IP4_BYTES > IP6_BYTES) return SN_EINVAL;
            if (parse_ip4(text, size, ip + used) != SN_OK) return SN_EINVAL;
            used += IP4_BYTES;
            break;
        }
        if (used + 2 > IP6_BYTES) return SN_EINVAL;
        if (parse_group(text, digits, ip + used) != SN_OK) return SN_EINVAL;
        used += 2;
        text += digits;
        size -= digits;
        if (colon == NULL) break;
        if (size == 1) return SN_EINVAL; /* a colon with nothing behind it */
        text++;
        size--;
    }
    *inout_used = used;
    return SN_OK;
}

/* Offset of the first "::", NO_POSITION without one. */
static size_t find_gap(const char *text, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        if (text[i] == ':' && text[i + 1] == ':') return i;
    }
    return NO_POSITION;
}

static enum sn_err parse_ip6(const char *text, size_t size, uint8_t out_ip[IP6_BYTES])
{
    uint8_t head[IP6_BYTES] = {0};
    uint8_t tail[IP6_BYTES] = {0};
    size_t head_used = 0, tail_used = 0;
    size_t gap = find_gap(text, size);
    size_t head_size = gap == NO_POSITION ? size : gap;
    /* A dotted IPv4 may stand at the very end only. */
    if (gap != NO_POSITION && memchr(text, '.', head_size) != NULL) return SN_EINVAL;
    enum sn_err err = parse_groups(text, head_size, head, &head_used);
    if (err != SN_OK) return err;
    if (gap == NO_POSITION) {
        if (head_used != IP6_BYTES) return SN_EINVAL;
    } else {
        err = parse_groups(text + gap + 2, size - gap - 2, tail, &tail_used);
        if (err != SN_OK) return err;
        if (head_used + tail_used + 2 > IP6_BYTES) return SN_EINVAL; /* "::" is a group or more */
        memcpy(head + IP6_BYTES - tail_used, tail, tail_used);
    }
    memcpy(out_ip, head, IP6_BYTES);
    return SN_OK;
}

static int is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* Resolvers still read "127.1" or "0x7f000001" as addresses: such a last label makes it no name. */
static int is_number_label(const char *text, size_t size)
{
    int is_decimal = 1, is_hexadecimal = size >= 2 && text[0] == '0' && (text[1] | 0x20) == 'x';
    for (size_t i = 0; i < size; i++) {
        is_decimal = is_decimal && text[i] >= '0' && text[i] <= '9';
        is_hexadecimal = is_hexadecimal && (i < 2 || is_hex(text[i]));
    }
    return is_decimal || is_hexadecimal;
}

/* A DNS name; '_' is let through because container networks use it; one final dot is allowed. */
static int is_host_name(const char *text, size_t size)
{
    if (size > 0 && text[size - 1] == '.') size--;
    if (size == 0) return 0;
    for (;;) {
        const char *dot = memchr(text, '.', size);
        size_t label_size = dot != NULL ? (size_t)(dot - text) : size;
        if (label_size == 0 || label_size > LABEL_MAX) return 0;
        if (text[0] == '-' || text[label_size - 1] == '-') return 0;
        for (size_t i = 0; i < label_size; i++) {
            if (!is_name_char(text[i])) return 0;
        }
        if (dot == NULL) return !is_number_label(text, label_size);
        text = dot + 1;
        size -= label_size + 1;
    }
}

static size_t last_colon(const char *text, size_t size)
{
    for (size_t i = size; i > 0; i--) {
        if (text[i - 1] == ':') return i - 1;
    }
    return NO_POSITION;
}

static enum sn_err parse_host(const char *text, size_t size, struct sn_endpoint *endpoint)
{
    int is_bracketed = size >= 2 && text[0] == '[' && text[size - 1] == ']';
    if (is_bracketed) {
        text++;
        size -= 2;
    }
    if (sn_text_copy(endpoint->host, sizeof endpoint->host, text, size) != SN_OK) return SN_EINVAL;
    endpoint->is_literal = 1;
    endpoint->addr.port = endpoint->port;
    if (is_bracketed) {
        endpoint->addr.family = SN_NETADDR_IP6;
        return parse_ip6(text, size, endpoint->addr.ip);
    }
    endpoint->addr.family = SN_NETADDR_IP4;
    if (parse_ip4(text, size, endpoint->addr.ip) == SN_OK) return SN_OK;
    endpoint->is_literal = 0;
    endpoint->addr = (struct sn_netaddr){0};
    return is_host_name(text, size) ? SN_OK : SN_EINVAL;
}

enum sn_err sn_endpoint_parse(const char *text, size_t size, int allow_port_zero,
                              struct sn_endpoint *out_endpoint)
{
    struct sn_endpoint endpoint = {0};
    uint64_t port;
    size_t colon = last_colon(text, size);
    if (colon == NO_POSITION) return SN_EINVAL;
    enum sn_err err = sn_text_to_u64(text + colon + 1, size - colon - 1, UINT16_MAX, &port);
    if (err != SN_OK) return SN_EINVAL;
    if (port == 0 && !allow_port_zero) return SN_EINVAL;
    endpoint.port = (uint16_t)port;
    err = parse_host(text, colon, &endpoint);
    if (err != SN_OK) return err;
    *out_endpoint = endpoint;
    return SN_OK;
}

static int is_mapped(const uint8_t ip[IP6_BYTES])
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(ip, prefix, sizeof prefix) == 0;
}

static void add_ip4(struct sn_text *text, const uint8_t *ip)
{
    sn_text_add(text, "%u.%u.%u.%u", ip[0], ip[1], ip[2], ip[3]);
}

static unsigned group_of(const uint8_t *ip, size_t index)
{
    return ((unsigned)ip[2 * index] << 8) | ip[2 * index + 1];
}

/* The first longest run of zero groups that is worth a "::" (RFC 5952, section 4.2); 0 groups when
 * there is none. */
static size_t find_zero_run(const uint8_t *ip, size_t *out_start)
{
    size_t best = 0, run = 0;
    for (size_t i = 0; i < IP6_GROUPS; i++) {
        run = group_of(ip, i) == 0 ? run + 1 : 0;
        if (run > best) {
            best = run;
            *out_start = i + 1 - run;
        }
    }
    return best >= 2 ? best : 0;
}

static void add_ip6(struct sn_text *text, const uint8_t *ip)
{
    if (is_mapped(ip)) {
        sn_text_add(text, "::ffff:");
        add_ip4(text, ip + IP6_BYTES - IP4_BYTES);
        return;
    }
    size_t start = 0;
    size_t run = find_zero_run(ip, &start);
    for (size_t i = 0; i < IP6_GROUPS; i++) {
        if (run > 0 && i == start) {
            sn_text_add(text, "::");
            i += run - 1;
            continue;
        }
        int follows_group = i > 0 && !(run > 0 && i == start + run);
        sn_text_add(text, "%s%x", follows_group ? ":" : "", group_of(ip, i));
    }
}

void sn_netaddr_format(const struct sn_netaddr *addr, char *out)
{
    struct sn_text text;
    sn_text_init(&text, out, SN_NETADDR_TEXT_MAX);
    switch (addr->family) {
    case SN_NETADDR_IP4:
        add_ip4(&text, addr->ip);
        sn_text_add(&text, ":%u", addr->port);
        break;
    case SN_NETADDR_IP6:
        sn_text_add(&text, "[");
        add_ip6(&text, addr->ip);
        sn_text_add(&text, "]:%u", addr->port);
        break;
    default: sn_text_add(&text, "-"); break;
    }
    SN_ASSERT(!text.truncated);
}

/* The bytes that name the host and how many they are; 0 for no address. */
static size_t host_bytes(const struct sn_netaddr *addr, const uint8_t **out_ip)
{
    *out_ip = addr->ip;
    if (addr->family == SN_NETADDR_IP4) return IP4_BYTES;
    if (addr->family != SN_NETADDR_IP6) return 0;
    if (!is_mapped(addr->ip)) return IP6_BYTES;
    *out_ip = addr->ip + IP6_BYTES - IP4_BYTES;
    return IP4_BYTES;
}

int sn_netaddr_is_same_host(const struct sn_netaddr *a, const struct sn_netaddr *b)
{
    const uint8_t *a_ip, *b_ip;
    size_t a_size = host_bytes(a, &a_ip);
    size_t b_size = host_bytes(b, &b_ip);
    return a_size == b_size && memcmp(a_ip, b_ip, a_size) == 0;
}

int sn_netaddr_is_same_origin(const struct sn_netaddr *a, const struct sn_netaddr *b)
{
    const uint8_t *a_ip, *b_ip;
    size_t a_size = host_bytes(a, &a_ip);
    size_t b_size = host_bytes(b, &b_ip);
    size_t size = a_size == IP6_BYTES ? IP6_NET_BYTES : a_size;
    return a_size == b_size && memcmp(a_ip, b_ip, size) == 0;
}

int sn_netaddr_is_equal(const struct sn_netaddr *a, const struct sn_netaddr *b)
{
    return a->port == b->port && sn_netaddr_is_same_host(a, b);
}

int sn_netaddr_is_loopback(const struct sn_netaddr *addr)
{
    static const uint8_t loopback[IP6_BYTES] = {[15] = 1};
    const uint8_t *ip;
    size_t size = host_bytes(addr, &ip);
    if (size == IP4_BYTES) return ip[0] == 127;
    return size == IP6_BYTES && memcmp(ip, loopback, size) == 0;
}
