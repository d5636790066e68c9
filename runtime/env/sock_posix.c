/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP sockets and names. Guarantees: no call here blocks but resolve and wait; no descriptor is
 * inherited by a child; no write raises SIGPIPE; buffer sizes stay with the kernel's autotuning.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "env/env_posix_int.h"

#define SOCKET_FLAGS    (SOCK_NONBLOCK | SOCK_CLOEXEC)
#define PORT_TEXT_BYTES 6

/* Whoever vanished without a word is gone after a minute, however quiet the connection was. */
#define KEEPALIVE_IDLE_S     30
#define KEEPALIVE_INTERVAL_S 10
#define KEEPALIVE_PROBES     3

enum sn_err sni_addr_to_system(const struct sn_netaddr *addr, struct sockaddr_storage *out_system,
                               socklen_t *out_size)
{
    memset(out_system, 0, sizeof *out_system);
    if (addr->family == SN_NETADDR_IP4) {
        struct sockaddr_in ip4 = {.sin_family = AF_INET, .sin_port = htons(addr->port)};
        memcpy(&ip4.sin_addr, addr->ip, sizeof ip4.sin_addr);
        memcpy(out_system, &ip4, sizeof ip4);
        *out_size = sizeof ip4;
        return SN_OK;
    }
    if (addr->family == SN_NETADDR_IP6) {
        struct sockaddr_in6 ip6 = {.sin6_family = AF_INET6, .sin6_port = htons(addr->port)};
        memcpy(&ip6.sin6_addr, addr->ip, sizeof ip6.sin6_addr);
        memcpy(out_system, &ip6, sizeof ip6);
        *out_size = sizeof ip6;
        return SN_OK;
    }
    return SN_EINVAL;
}

enum sn_err sni_addr_from_system(const struct sockaddr *system, struct sn_netaddr *out_addr)
{
    struct sn_netaddr addr = {0};
    if (system->sa_family == AF_INET) {
        struct sockaddr_in ip4;
        memcpy(&ip4, system, sizeof ip4);
        addr.family = SN_NETADDR_IP4;
        addr.port = ntohs(ip4.sin_port);
        memcpy(addr.ip, &ip4.sin_addr, sizeof ip4.sin_addr);
    } else if (system->sa_family == AF_INET6) {
        struct sockaddr_in6 ip6;
        memcpy(&ip6, system, sizeof ip6);
        addr.family = SN_NETADDR_IP6;
        addr.port = ntohs(ip6.sin6_port);
        memcpy(addr.ip, &ip6.sin6_addr, sizeof ip6.sin6_addr);
    } else {
        return SN_EINVAL;
    }
    *out_addr = addr;
    return SN_OK;
}

static int set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

/* A TCP socket with the options that all of ours have. */
static enum sn_err open_tcp(int family, int *out_fd)
{
    int fd = socket(family, SOCK_STREAM | SOCKET_FLAGS, 0);
    if (fd < 0) return sni_err_from_errno(errno);
    /* Accepted sockets inherit all of it from their listener. */
    int rc = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (rc == 0) rc = set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    if (rc == 0) rc = set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    if (rc == 0) rc = set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
    if (rc == 0) rc = set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    if (rc != 0) {
        enum sn_err err = sni_err_from_errno(errno);
        (void)close(fd); /* never used */
        return err;
    }
    *out_fd = fd;
    return SN_OK;
}

/* An IPv6 listener takes IPv6 only: "[::]:80" and "0.0.0.0:80" may stand side by side, and a peer's
 * address has one spelling. */
static int bind_and_listen(int fd, const struct sockaddr_storage *system, socklen_t size)
{
    int rc = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (rc == 0 && system->ss_family == AF_INET6) rc = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (rc == 0) rc = bind(fd, (const struct sockaddr *)system, size);
    if (rc == 0) rc = listen(fd, SNI_BACKLOG);
    return rc;
}

enum sn_err sni_posix_listen(struct sn_env *env, const struct sn_netaddr *addr,
                             struct sn_sock *out_sock, struct sn_netaddr *out_bound)
{
    (void)env; /* the kernel's network */
    struct sockaddr_storage system;
    socklen_t size;
    enum sn_err err = sni_addr_to_system(addr, &system, &size);
    if (err != SN_OK) return err;
    int fd;
    err = open_tcp(system.ss_family, &fd);
    if (err != SN_OK) return err;
    int rc = bind_and_listen(fd, &system, size);
    if (rc == 0) rc = getsockname(fd, (struct sockaddr *)&system, &size);
    if (rc != 0) {
        err = sni_err_from_errno(errno);
        goto out;
    }
    err = sni_addr_from_system((const struct sockaddr *)&system, out_bound);
    if (err != SN_OK) goto out;
    *out_sock = (struct sn_sock){fd};
    return SN_OK;
out:
    (void)close(fd); /* never used */
    return err;
}

/* Errors of the connection that was taken from the queue, not of the listener (accept(2) lists
 * them): it is gone, the next one may be fine. */
static int is_about_one_connection(int code)
{
    switch (code) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH: return 1;
    default: return 0;
    }
}

enum sn_err sni_posix_accept(struct sn_env *env, struct sn_sock listener, struct sn_sock *out_sock,
                             struct sn_netaddr *out_peer)
{
    (void)env; /* the kernel's network */
    struct sockaddr_storage system;
    /* Bounded by the queue's length: each failure has taken one entry from it. */
    for (int i = 0; i <= SNI_BACKLOG; i++) {
        socklen_t size = sizeof system;
        memset(&system, 0, sizeof system);
        int fd = accept4(listener.id, (struct sockaddr *)&system, &size, SOCKET_FLAGS);
        if (fd >= 0) {
            /* UNIX peers have no address. */
            if (out_peer != NULL &&
                sni_addr_from_system((const struct sockaddr *)&system, out_peer) != SN_OK) {
                *out_peer = (struct sn_netaddr){0};
            }
            *out_sock = (struct sn_sock){fd};
            return SN_OK;
        }
        if (is_about_one_connection(errno)) continue;
        switch (sni_err_from_errno(errno)) {
        case SN_EAGAIN: return SN_EAGAIN;
        case SN_ENOFILES:
        case SN_ENOMEM: return SN_ENOFILES; /* the remedy is the same: back off */
        case SN_EINVAL: return SN_ECLOSED;  /* no longer listening */
        default: return SN_EIO;
        }
    }
    return SN_EIO;
}

enum sn_err sni_posix_connect(struct sn_env *env, const struct sn_netaddr *addr,
                              struct sn_sock *out_sock)
{
    (void)env; /* the kernel's network */
    struct sockaddr_storage system;
    socklen_t size;
    enum sn_err err = sni_addr_to_system(addr, &system, &size);
    if (err != SN_OK) return err;
    int fd;
    err = open_tcp(system.ss_family, &fd);
    if (err != SN_OK) return err;
    int rc = connect(fd, (const struct sockaddr *)&system, size);
    /* Interrupted, it goes on by itself. */
    if (rc != 0 && errno != EINPROGRESS && errno != EINTR) {
        /* EAGAIN is the kernel's word for "no local port left". */
        err = errno == EAGAIN ? SN_EUNREACHABLE : sni_err_from_errno(errno);
        (void)close(fd); /* never used */
        return err;
    }
    *out_sock = (struct sn_sock){fd};
    return SN_OK;
}

/* Dialling a free port of this machine can, one time in some ten thousand, pick that very port as
 * its own and meet itself (a simultaneous open). It would talk to a mirror and hold the port. */
static int is_own_mirror(int fd, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    struct sn_netaddr a, b;
    if (getsockname(fd, (struct sockaddr *)&own, &size) != 0) return 0;
    if (sni_addr_from_system((const struct sockaddr *)&own, &a) != SN_OK) return 0;
    if (sni_addr_from_system((const struct sockaddr *)peer, &b) != SN_OK) return 0;
    return sn_netaddr_is_equal(&a, &b);
}

enum sn_err sni_posix_connect_result(struct sn_env *env, struct sn_sock sock)
{
    (void)env; /* the kernel's network */
    int code = 0;
    socklen_t size = sizeof code;
    int rc = getsockopt(sock.id, SOL_SOCKET, SO_ERROR, &code, &size);
    if (rc != 0) return SN_EUNREACHABLE;
    if (code != 0) {
        enum sn_err err = sni_err_from_errno(code);
        int is_told = err == SN_ETIMEDOUT || err == SN_ERESET || err == SN_EREFUSED;
        return is_told ? err : SN_EUNREACHABLE;
    }
    struct sockaddr_storage peer;
    size = sizeof peer;
    rc = getpeername(sock.id, (struct sockaddr *)&peer, &size);
    if (rc == 0) return is_own_mirror(sock.id, &peer) ? SN_EUNREACHABLE : SN_OK;
    /* Either still under way, or it failed and an earlier call has taken the error. */
    struct pollfd item = {.fd = sock.id, .events = POLLOUT};
    rc = poll(&item, 1, 0);
    return rc > 0 && (item.revents & (POLLERR | POLLHUP)) ? SN_EUNREACHABLE : SN_EAGAIN;
}

/* However a connection broke (reset, keep-alive, route gone), it is broken. */
static enum sn_err stream_err(int code)
{
    switch (sni_err_from_errno(code)) {
    case SN_EAGAIN: return SN_EAGAIN;
    case SN_ERESET:
    case SN_ETIMEDOUT:
    case SN_EREFUSED:
    case SN_EUNREACHABLE: return SN_ERESET;
    default: return SN_EIO;
    }
}

enum sn_err sni_posix_read(struct sn_env *env, struct sn_sock sock, void *out, size_t capacity,
                           size_t *out_size)
{
    (void)env; /* the kernel's network */
    ssize_t got;
    do {
        got = recv(sock.id, out, capacity, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return stream_err(errno);
    if (got == 0) return SN_ECLOSED;
    *out_size = (size_t)got;
    return SN_OK;
}

static enum sn_err send_message(int fd, const struct msghdr *message, size_t *out_size)
{
    ssize_t put;
    do {
        put = sendmsg(fd, message, MSG_NOSIGNAL);
    } while (put < 0 && errno == EINTR);
    if (put < 0) return stream_err(errno);
    SN_ASSERT(put > 0);
    *out_size = (size_t)put;
    return SN_OK;
}

enum sn_err sni_posix_write(struct sn_env *env, struct sn_sock sock, const void *bytes, size_t size,
                            size_t *out_size)
{
    (void)env; /* the kernel's network */
    ssize_t put;
    do {
        put = send(sock.id, bytes, size, MSG_NOSIGNAL);
    } while (put < 0 && errno == EINTR);
    if (put < 0) return stream_err(errno);
    SN_ASSERT(put > 0);
    *out_size = (size_t)put;
    return SN_OK;
}

enum sn_err sni_posix_writev(struct sn_env *env, struct sn_sock sock, const struct sn_iovec *iov,
                             uint32_t count, size_t *out_size)
{
    (void)env;                      /* the kernel's network */
    struct iovec parts[SN_IOV_MAX]; /* 1 KiB */
    for (uint32_t i = 0; i < count; i++) parts[i] = (struct iovec){iov[i].data, iov[i].size};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    return send_message(sock.id, &message, out_size);
}

void sni_posix_shutdown_write(struct sn_env *env, struct sn_sock sock)
{
    (void)env;                        /* the kernel's network */
    (void)shutdown(sock.id, SHUT_WR); /* fails only when the connection is gone already */
}

void sni_posix_close(struct sn_env *env, struct sn_sock sock)
{
    (void)env;                            /* the kernel's network */
    int rc = close(sock.id);              /* whatever it returns, the descriptor is free */
    SN_ASSERT(rc == 0 || errno != EBADF); /* closed twice: it may be another's by now */
}

void sni_posix_set_abortive(struct sn_env *env, struct sn_sock sock, int is_abortive)
{
    (void)env; /* the kernel's network */
    struct linger linger = {.l_onoff = is_abortive != 0, .l_linger = 0};
    /* A socket that cannot be reset is just closed. */
    (void)setsockopt(sock.id, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

void sni_posix_close_reset(struct sn_env *env, struct sn_sock sock)
{
    sni_posix_set_abortive(env, sock, 1);
    sni_posix_close(env, sock);
}

enum sn_err sni_posix_resolve(struct sn_env *env, const char *host, uint16_t port,
                              struct sn_netaddr *out_addrs, uint32_t capacity, uint32_t *out_count)
{
    (void)env; /* the system's resolver */
    char service[PORT_TEXT_BYTES];
    (void)snprintf(service, sizeof service, "%u", port); /* 5 digits at most */
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    hints.ai_flags = AI_NUMERICSERV;
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc == EAI_MEMORY) return SN_ENOMEM;
    if (rc == EAI_NONAME || rc == EAI_NODATA || rc == EAI_ADDRFAMILY) return SN_ENOENT;
    if (rc != 0) return SN_EIO;
    uint32_t count = 0;
    for (struct addrinfo *it = list; it != NULL && count < capacity; it = it->ai_next) {
        /* Families that we do not know are left out. */
        if (sni_addr_from_system(it->ai_addr, &out_addrs[count]) == SN_OK) count++;
    }
    freeaddrinfo(list);
    if (count == 0) return SN_ENOENT;
    *out_count = count;
    return SN_OK;
}

enum sn_err sni_posix_wait(struct sn_env *env, struct sn_sock sock, unsigned interest,
                           uint64_t timeout_ms)
{
    short events = interest == SN_READY_READ ? POLLIN : POLLOUT;
    return sni_posix_poll(sni_posix_of(env), sock.id, events, sni_deadline_ns(timeout_ms));
}
