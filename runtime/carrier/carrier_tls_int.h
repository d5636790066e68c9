/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the TLS carrier share. carrier_tls.c speaks to OpenSSL, which sees memory only;
 * tls_lane.c moves that memory through a socket and keeps a lane's life; tls_listener.c accepts.
 *
 * States of a lane:
 *   CONNECTING -> SHAKING -> OPEN -> CLOSING      each of them -> FAILING -> DEAD
 * FAILING: the cause is noted and `failed` is to be called from the lane's handler. DEAD: it was called.
 */
#ifndef SN_CARRIER_CARRIER_TLS_INT_H
#define SN_CARRIER_CARRIER_TLS_INT_H

#include "base/list.h"
#include "carrier/carrier_tls.h"
#include "carrier/tls_store.h"

#define SNI_RECORD_BYTES 16384u /* plain bytes in a full TLS record */
/* What a record adds: header 5, content type 1, tag 16; and room for a few small ones of OpenSSL itself. */
#define SNI_RECORD_SLACK 256u

enum sni_tls_state {
    SNI_TLS_CONNECTING,
    SNI_TLS_SHAKING,
    SNI_TLS_OPEN,
    SNI_TLS_CLOSING,
    SNI_TLS_FAILING,
    SNI_TLS_DEAD
};

struct sni_tls_carrier {
    struct sn_carrier base;
    uint32_t magic;
    struct bio_method_st *bio_method; /* owned; read-only after construction */
    struct sn_worker *worker;         /* the one that accepts; NULL before the first listener */
    struct sn_list unfinished;        /* inbound lanes before they are open, oldest first */
    uint32_t unfinished_count;
    uint32_t evicted_in_run; /* of the listener that accepts */
    uint32_t listener_count;
};

struct sni_tls_lane {
    struct sn_lane base;
    uint32_t magic;
    enum sni_tls_state state;
    SSL *ssl; /* owned */
    struct sn_sock sock;
    struct sn_io io;
    struct sn_timer
        deadline; /* of connecting and handshake, of closing, of reading after a write error */
    struct sn_timer idle;  /* gives buffers back */
    struct sn_list node;   /* in unfinished */
    uint32_t origin_count; /* while in unfinished: of its origin, itself included */
    uint64_t deadline_ns;  /* to be set again by attach; 0 = none */
    struct sni_ring out;
    struct sni_span in;
    enum sn_err write_err;  /* writing is over, reading may still tell why */
    uint8_t may_read;       /* no EAGAIN since the last readiness */
    uint8_t may_write;      /* likewise */
    uint8_t is_armed;       /* `readable` is wanted */
    uint8_t wants_writable; /* a write was refused */
    uint8_t is_shut;        /* our direction of the connection is closed */
    uint8_t is_over;        /* the peer's direction is, and we are closing */
    uint8_t was_used;       /* since the idle timer was started */
    /* Set while a callback runs: freeing or detaching the lane tells so to the caller of the callback, which
     * then does not touch it any more. */
    int *out_gone;
    struct sn_lane_failure failure; /* err is SN_OK before FAILING */
    struct sn_tls_check check;
    struct sn_key_id expect_key;
    char expect_agent[SN_AGENT_NAME_BYTES_MAX + 1];
};

static inline struct sni_tls_carrier *sni_tls_carrier_of(struct sn_carrier *carrier)
{
    return SN_CONTAINER_OF(carrier, struct sni_tls_carrier, base);
}

static inline struct sni_tls_lane *sni_tls_lane_of(struct sn_lane *lane)
{
    return SN_CONTAINER_OF(lane, struct sni_tls_lane, base);
}

/* --- carrier_tls.c: cryptography ---------------------------------------------------------------------- */

/* Makes the lane's SSL; base.is_dialer, carrier and expectations are set. Errors: ENOMEM, EIO. */
SN_MUST_CHECK enum sn_err sni_tls_begin(struct sni_tls_lane *lane);
void sni_tls_end(struct sni_tls_lane *lane);
/* All of these take ciphertext from lane->in and put some into lane->out. EAGAIN: more input is needed. Any
 * other error has noted the lane's failure, except ECLOSED of sni_tls_decrypt (the peer's close_notify) and
 * EFULL (no room in lane->out). */
SN_MUST_CHECK enum sn_err sni_tls_handshake(struct sni_tls_lane *lane);
SN_MUST_CHECK enum sn_err sni_tls_decrypt(struct sni_tls_lane *lane, uint8_t *out, size_t capacity,
                                          size_t *out_size);
/* At most one record; there is room for it in lane->out. */
SN_MUST_CHECK enum sn_err sni_tls_encrypt(struct sni_tls_lane *lane, const uint8_t *bytes,
                                          size_t size);
void sni_tls_say_goodbye(struct sni_tls_lane *lane);
/* Plain bytes that OpenSSL has decrypted and not given out. */
int sni_tls_has_pending(const struct sni_tls_lane *lane);
void sni_tls_trim(struct sni_tls_lane *lane); /* gives OpenSSL's buffers back */

/* --- tls_lane.c ------------------------------------------------------------------------------------------ */

/* A lane over `sock`, which it owns on success. Errors: ENOMEM, ENOSPC (watches), EIO. */
SN_MUST_CHECK enum sn_err sni_tls_lane_new(struct sni_tls_carrier *carrier,
                                           struct sn_worker *worker, struct sn_sock sock,
                                           const struct sn_netaddr *remote,
                                           const struct sn_dial *dial,
                                           struct sni_tls_lane **out_lane);
/* Notes the first cause of the end; `failed` is called from the lane's handler. */
void sni_tls_note(struct sni_tls_lane *lane, enum sn_err err, const char *detail);
void sni_tls_start_deadline(struct sni_tls_lane *lane, uint32_t after_ms);

enum sn_err sni_tls_dial(struct sn_carrier *carrier, struct sn_worker *worker,
                         const struct sn_dial *dial, const struct sn_lane_ops *ops, void *user,
                         struct sn_lane **out_lane);
enum sn_err sni_tls_lane_read(struct sn_lane *base, void *out, size_t capacity, size_t *out_size);
enum sn_err sni_tls_lane_write(struct sn_lane *base, const void *bytes, size_t size,
                               size_t *out_size);
void sni_tls_lane_flush(struct sn_lane *base);
size_t sni_tls_lane_write_room(const struct sn_lane *base);
void sni_tls_lane_resume_read(struct sn_lane *base);
void sni_tls_lane_close(struct sn_lane *base);
void sni_tls_lane_free(struct sn_lane *base);
void sni_tls_lane_set_priority(struct sn_lane *base, enum sn_io_priority priority);
void sni_tls_lane_detach(struct sn_lane *base);
enum sn_err sni_tls_lane_attach(struct sn_lane *base, struct sn_worker *worker);

/* --- tls_listener.c ---------------------------------------------------------------------------------------- */

enum sn_err sni_tls_listen(struct sn_carrier *carrier, struct sn_worker *worker,
                           const struct sn_netaddr *addr, struct sn_listener **out_listener,
                           struct sn_netaddr *out_bound);
void sni_tls_listener_close(struct sn_listener *listener);
/* The lane is open or over: it does not count as unfinished any more. */
void sni_tls_listener_forget(struct sni_tls_lane *lane);

#endif
