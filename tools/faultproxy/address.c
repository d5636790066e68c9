/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/address.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 512

const char *fp_address_parse(const char *text, struct fp_address *out_address)
{
    char host[256];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || colon[1] == '\0') return "write HOST:PORT";
    const char *begin = text;
    size_t size = (size_t)(colon - text);
    if (text[0] == '[' && colon[-1] == ']') {
        begin++;
        size -= 2;
    }
    if (size == 0 || size >= sizeof host) return "write HOST:PORT";
    memcpy(host, begin, size);
    host[size] = '\0';
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int status = getaddrinfo(host, colon + 1, &hints, &found);
    if (status != 0) return gai_strerror(status);
    memcpy(&out_address->any, found->ai_addr, found->ai_addrlen);
    out_address->size = found->ai_addrlen;
    freeaddrinfo(found);
    return NULL;
}

void fp_address_format(const struct fp_address *address, char *out, size_t capacity)
{
    char host[FP_ADDRESS_TEXT_MAX - 16];
    char port[8];
    if (getnameinfo((const struct sockaddr *)&address->any, address->size, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void)snprintf(out, capacity, "?"); /* fits */
        return;
    }
    (void)snprintf(out, capacity, address->any.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
                   port); /* a cut address is still readable */
}

bool fp_address_is_equal(const struct fp_address *a, const struct fp_address *b)
{
    return a->size == b->size && memcmp(&a->any, &b->any, a->size) == 0;
}

bool fp_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static void set_flag(int fd, int level, int name)
{
    int on = 1;
    (void)setsockopt(fd, level, name, &on, sizeof on); /* works without, only less exactly */
}

static int open_socket(const struct fp_address *address, bool is_udp)
{
    int fd = socket(address->any.ss_family, is_udp ? SOCK_DGRAM : SOCK_STREAM, 0);
    if (fd < 0) return -1;
    if (!fp_set_nonblocking(fd)) {
        int saved = errno;
        (void)close(fd); /* the first error counts */
        errno = saved;
        return -1;
    }
    /* What the proxy writes leaves at once: nothing but the faults decides about packets. */
    if (!is_udp) set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    return fd;
}

int fp_listen(const struct fp_address *address, bool is_udp, struct fp_address *out_bound)
{
    struct fp_address bound = {.size = sizeof bound.any};
    int fd = open_socket(address, is_udp);
    if (fd < 0) return -1;
    /* Not for UDP, where it would let two proxies share a port. */
    if (!is_udp) set_flag(fd, SOL_SOCKET, SO_REUSEADDR);
    if (bind(fd, (const struct sockaddr *)&address->any, address->size) != 0 ||
        (!is_udp && listen(fd, BACKLOG) != 0) ||
        getsockname(fd, (struct sockaddr *)&bound.any, &bound.size) != 0) {
        int saved = errno;
        (void)close(fd); /* the first error counts */
        errno = saved;
        return -1;
    }
    *out_bound = bound;
    return fd;
}

int fp_connect(const struct fp_address *address, bool is_udp, bool *out_is_done)
{
    int fd = open_socket(address, is_udp);
    if (fd < 0) return -1;
    int status = connect(fd, (const struct sockaddr *)&address->any, address->size);
    if (status != 0 && errno != EINPROGRESS) {
        int saved = errno;
        (void)close(fd); /* the first error counts */
        errno = saved;
        return -1;
    }
    *out_is_done = status == 0;
    return fd;
}

int fp_accept(int listener, struct fp_address *out_peer)
{
    struct fp_address peer = {.size = sizeof peer.any};
    int fd = accept(listener, (struct sockaddr *)&peer.any, &peer.size);
    if (fd < 0) return -1;
    if (!fp_set_nonblocking(fd)) {
        (void)close(fd); /* nothing was written */
        errno = EIO;
        return -1;
    }
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    *out_peer = peer;
    return fd;
}

void fp_close_reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now); /* else it is an orderly close */
    (void)close(fd);                                               /* nothing to lose */
}

int fp_socket_error(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}
