/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: never more than send_max bytes leave; what TLS makes leaves in order. */
#include "hostile_member/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int64_t wall_s(void *arg)
{
    return sn_env_wall_ms(arg) / 1000;
}

void hm_wire_init(struct hm_wire *wire)
{
    *wire = (struct hm_wire){.fd = -1, .send_max = UINT64_MAX};
}

void hm_wire_adopt(struct hm_wire *wire, int fd)
{
    int on = 1;
    wire->fd = fd;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* without it, it is slower */
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);                           /* cannot fail */
}

enum sn_err hm_wire_dial(struct hm_wire *wire, uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return SN_EIO;
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) != 0) {
        enum sn_err err = errno == ECONNREFUSED ? SN_EREFUSED : SN_EIO;
        (void)close(fd); /* nothing was written */
        return err;
    }
    hm_wire_adopt(wire, fd);
    return SN_OK;
}

enum sn_err hm_wire_begin(struct hm_wire *wire, struct sn_env *env,
                          const struct sn_tls_identity *identity, const struct sn_trust *trust,
                          int is_dialer)
{
    wire->check = (struct sn_tls_check){.trust = trust, .wall_s = wall_s, .arg = env};
    wire->ssl = SSL_new(is_dialer ? sn_tls_identity_client_ctx(identity)
                                  : sn_tls_identity_server_ctx(identity));
    wire->from_net = BIO_new(BIO_s_mem());
    wire->to_net = BIO_new(BIO_s_mem());
    if (wire->ssl == NULL || wire->from_net == NULL || wire->to_net == NULL) {
        BIO_free(wire->from_net);
        BIO_free(wire->to_net);
        return SN_ENOMEM;
    }
    SSL_set_bio(wire->ssl, wire->from_net, wire->to_net); /* takes them */
    if (is_dialer) {
        SSL_set_connect_state(wire->ssl);
    } else {
        SSL_set_accept_state(wire->ssl);
    }
    return sn_tls_attach_check(wire->ssl, &wire->check);
}

enum sn_err hm_wire_shake(struct hm_wire *wire)
{
    int rv = SSL_do_handshake(wire->ssl);
    if (rv == 1) return SN_OK;
    int why = SSL_get_error(wire->ssl, rv);
    ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ) return SN_EAGAIN;
    wire->end = HM_END_TLS;
    return SN_EAUTH;
}

void hm_wire_flush(struct hm_wire *wire)
{
    if (wire->fd < 0) return;
    char *bytes = NULL;
    long there = wire->to_net == NULL ? 0 : BIO_get_mem_data(wire->to_net, &bytes);
    size_t left = there > 0 ? (size_t)there : 0;
    uint64_t room = wire->send_max - wire->sent_bytes;
    if (left > room) left = (size_t)room;
    while (left > 0) {
        ssize_t sent = send(wire->fd, bytes, left, MSG_NOSIGNAL);
        if (sent <= 0) return; /* full, or broken, which reading tells */
        wire->sent_bytes += (uint64_t)sent;
        left -= (size_t)sent;
        static uint8_t sink[65536];
        for (size_t gone = (size_t)sent; gone > 0;) {
            size_t step = gone < sizeof sink ? gone : sizeof sink;
            (void)BIO_read(wire->to_net, sink, (int)step); /* it is there */
            gone -= step;
        }
        (void)BIO_get_mem_data(wire->to_net, &bytes); /* it may have moved */
    }
}

static void receive(struct hm_wire *wire)
{
    static uint8_t bytes[65536];
    for (int i = 0; i < 16 && wire->end == HM_END_NONE; i++) {
        ssize_t got = recv(wire->fd, bytes, sizeof bytes, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (got <= 0) {
            wire->end = got == 0 ? HM_END_CLOSE : HM_END_RESET;
            return;
        }
        if (wire->from_net != NULL) {
            (void)BIO_write(wire->from_net, bytes, (int)got); /* memory: takes all */
        }
    }
}

void hm_wire_move(struct hm_wire *wire)
{
    if (wire->fd < 0) return;
    hm_wire_flush(wire);
    if (!wire->is_deaf) receive(wire);
}

void hm_wire_write(struct hm_wire *wire, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    if (wire->fd < 0 || !SSL_is_init_finished(wire->ssl)) return;
    while (size > 0) {
        int step = size < 16384 ? (int)size : 16384;
        if (SSL_write(wire->ssl, at, step) != step) {
            ERR_clear_error();
            return; /* the other side has ended it, which reading tells */
        }
        at += step;
        size -= (size_t)step;
    }
}

void hm_wire_write_tcp(struct hm_wire *wire, const void *bytes, size_t size)
{
    if (wire->to_net != NULL) (void)BIO_write(wire->to_net, bytes, (int)size); /* takes all */
}

size_t hm_wire_read(struct hm_wire *wire, uint8_t *out, size_t capacity)
{
    if (wire->ssl == NULL || capacity == 0) return 0;
    int got = SSL_read(wire->ssl, out, capacity < INT32_MAX ? (int)capacity : INT32_MAX);
    if (got > 0) return (size_t)got;
    int why = SSL_get_error(wire->ssl, got);
    ERR_clear_error();
    if (why == SSL_ERROR_ZERO_RETURN && wire->end == HM_END_NONE) wire->end = HM_END_CLOSE;
    if (why == SSL_ERROR_SSL) wire->end = HM_END_TLS;
    return 0;
}

size_t hm_wire_waiting(const struct hm_wire *wire)
{
    if (wire->to_net == NULL || wire->sent_bytes >= wire->send_max) return 0;
    return BIO_ctrl_pending(wire->to_net);
}

void hm_wire_close(struct hm_wire *wire, int with_reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    if (wire->fd >= 0) {
        if (with_reset) {
            (void)setsockopt(wire->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger); /* valid */
        }
        (void)close(wire->fd); /* what was not sent is lost: so it is meant */
    }
    SSL_free(wire->ssl);
    wire->fd = -1;
    wire->ssl = NULL;
    wire->from_net = wire->to_net = NULL;
}

const char *hm_end_name(enum hm_end end)
{
    static const char *const names[] = {"none", "close", "reset", "tls"};
    return names[end];
}
