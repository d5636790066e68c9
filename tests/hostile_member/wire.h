/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection with TLS in it, with the TLS in memory so that bytes can be counted, held back and put in between.
 * Blocking: no; whoever uses it polls.
 */
#ifndef SN_TESTS_HOSTILE_MEMBER_WIRE_H
#define SN_TESTS_HOSTILE_MEMBER_WIRE_H

#include "crypto/tls_identity.h"
#include "env/env.h"

enum hm_end { HM_END_NONE, HM_END_CLOSE, HM_END_RESET, HM_END_TLS };

struct hm_wire {
    int fd;
    SSL *ssl;
    BIO *from_net; /* owned by ssl, like the next */
    BIO *to_net;
    struct sn_tls_check check;
    uint64_t sent_bytes; /* TCP */
    uint64_t send_max;   /* after so many TCP bytes nothing is sent any more */
    uint8_t is_deaf;     /* does not read */
    enum hm_end end;     /* how the other side ended it */
};

void hm_wire_init(struct hm_wire *wire);
/* Connects, which may block. Errors: EREFUSED, EIO. */
SN_MUST_CHECK enum sn_err hm_wire_dial(struct hm_wire *wire, uint16_t port);
/* Takes the descriptor of an accepted connection. */
void hm_wire_adopt(struct hm_wire *wire, int fd);
/* Errors: ENOMEM, EIO. */
SN_MUST_CHECK enum sn_err hm_wire_begin(struct hm_wire *wire, struct sn_env *env,
                                        const struct sn_tls_identity *identity,
                                        const struct sn_trust *trust, int is_dialer);
/* Goes on with the TLS handshake. Errors: EAGAIN, EAUTH. */
SN_MUST_CHECK enum sn_err hm_wire_shake(struct hm_wire *wire);
/* Moves what there is between the socket and TLS. */
void hm_wire_move(struct hm_wire *wire);
/* The outward half of it. */
void hm_wire_flush(struct hm_wire *wire);
/* Encrypts all of it; hm_wire_move sends it. */
void hm_wire_write(struct hm_wire *wire, const void *bytes, size_t size);
/* Straight into the TCP connection, behind what is under way. */
void hm_wire_write_tcp(struct hm_wire *wire, const void *bytes, size_t size);
/* Decrypted bytes that there are; 0 = none. */
size_t hm_wire_read(struct hm_wire *wire, uint8_t *out, size_t capacity);
/* TCP bytes that wait to be sent. */
size_t hm_wire_waiting(const struct hm_wire *wire);
/* Ends the connection; with a TCP reset, or without. */
void hm_wire_close(struct hm_wire *wire, int with_reset);
const char *hm_end_name(enum hm_end end);

#endif
