/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carriers make lanes: authenticated, encrypted, ordered byte pipes between two agents. TLS over TCP is one
 * (carrier_tls.c); QUIC, relayed and simulated ones come behind the same vtable, and all pass the same
 * conformance suite (tests/conformance/carrier_suite.h).
 *
 * When `opened` is called the other side has proved a key that the mesh trusts, for the agent named in its
 * certificate; no byte from it was seen by anybody before. On a dialer, whose certificate the other side may
 * still refuse, `opened` only means that: the session is up when HELLO was answered (peer/session.h).
 *
 * Threads: a lane belongs to one worker; callbacks come on that worker, never from inside a call of the
 * user, except `write_room`. Blocking: no.
 */
#ifndef SN_CARRIER_CARRIER_H
#define SN_CARRIER_CARRIER_H

#include <stdatomic.h>

#include "actor/worker.h"
#include "crypto/tls_identity.h"
#include "sennit/buf.h"

struct sn_carrier;
struct sn_lane;
struct sn_listener;

/* Who is at the other end, proven. Valid as long as the lane. */
struct sn_lane_peer {
    struct sn_key_id id;
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];
    struct sn_cert cert; /* zeroed fields where a pin vouched instead of an authority */
};

/* Why a lane ended before or after it was open, for logs and `sennit peers`. */
struct sn_lane_failure {
    enum sn_err err;
    uint8_t is_refusal; /* this side refused the other one's identity */
    uint8_t is_goodbye; /* the other side leaves and will not come back as the same boot */
    uint8_t was_open;
    uint8_t has_key; /* `key` is what the other side presented (unproven unless was_open) */
    /* The other side refused this one, for this reason as far as it says: EDENIED, it says none; SN_OK, it did not. */
    enum sn_err refused_err;
    struct sn_key_id key;
    char agent[SN_AGENT_NAME_BYTES_MAX + 1]; /* claimed or expected name, may be empty */
    struct sn_netaddr remote;
    char detail[128]; /* for people: both clocks for expiry, the alert the peer sent, ... */
};

struct sn_lane_ops {
    /* Authenticated. */
    void (*opened)(void *user, struct sn_lane *lane);
    /* Bytes arrived: sn_lane_read until EAGAIN, or keep some for later and sn_lane_resume_read. */
    void (*readable)(void *user, struct sn_lane *lane);
    /* Everything handed to sn_lane_write was given to the system and there is room again. */
    void (*writable)(void *user, struct sn_lane *lane);
    /* The last callback: the lane is dead; the user frees it with sn_lane_free. */
    void (*failed)(void *user, struct sn_lane *lane, const struct sn_lane_failure *failure);
};

struct sn_carrier_config {
    struct sn_env *env;
    const struct sn_tls_identity *identity; /* borrowed until another is set */
    const struct sn_trust *trust;           /* borrowed likewise */
    uint32_t handshakes_max;                /* unauthenticated inbound lanes at once */
    uint32_t handshakes_per_address_max;
    uint32_t handshake_timeout_ms;
    /* An inbound lane was accepted, its handshake is still to come: give it a user. On this worker. */
    void (*accepted)(void *arg, struct sn_lane *lane);
    /* An inbound handshake was not even started: a limit was hit (EFULL) or descriptors ran out (ENOFILES). */
    void (*shed)(void *arg, enum sn_err why, const struct sn_netaddr *remote);
    void *arg;
};

struct sn_dial {
    struct sn_netaddr addr; /* resolved */
    const struct sn_key_id
        *expect_key;          /* NULL = any key that is trusted for expect_agent; copied */
    const char *expect_agent; /* copied */
    uint32_t timeout_ms;      /* connecting and handshake together */
};

/* --- The vtable ----------------------------------------------------------------------------------- */

struct sn_carrier_ops {
    const char *name; /* "tls" */
    void (*free)(struct sn_carrier *carrier);
    enum sn_err (*listen)(struct sn_carrier *carrier, struct sn_worker *worker,
                          const struct sn_netaddr *addr, struct sn_listener **out_listener,
                          struct sn_netaddr *out_bound);
    void (*listener_close)(struct sn_listener *listener);
    enum sn_err (*dial)(struct sn_carrier *carrier, struct sn_worker *worker,
                        const struct sn_dial *dial, const struct sn_lane_ops *ops, void *user,
                        struct sn_lane **out_lane);
    enum sn_err (*lane_read)(struct sn_lane *lane, void *out, size_t capacity, size_t *out_size);
    enum sn_err (*lane_write)(struct sn_lane *lane, const void *bytes, size_t size,
                              size_t *out_size);
    void (*lane_flush)(struct sn_lane *lane);
    size_t (*lane_write_room)(const struct sn_lane *lane);
    void (*lane_resume_read)(struct sn_lane *lane);
    enum sn_err (*lane_exporter)(struct sn_lane *lane, uint8_t out[32]);
    void (*lane_close)(struct sn_lane *lane);
    void (*lane_free)(struct sn_lane *lane);
    void (*lane_set_priority)(struct sn_lane *lane, enum sn_io_priority priority);
    void (*lane_detach)(struct sn_lane *lane);
    enum sn_err (*lane_attach)(struct sn_lane *lane, struct sn_worker *worker);
};

/* First members of every implementation's objects. */
struct sn_carrier {
    const struct sn_carrier_ops *ops;
    struct sn_carrier_config config;
    /* That of new handshakes. Written by whoever sets it, read by the workers that begin one. */
    _Atomic(const struct sn_tls_identity *) identity;
};

struct sn_listener {
    struct sn_carrier *carrier;
};

struct sn_lane {
    const struct sn_carrier_ops *ops;
    struct sn_carrier *carrier;
    struct sn_worker *worker; /* NULL between detach and attach */
    const struct sn_lane_ops *user_ops;
    void *user;
    struct sn_lane_peer peer; /* valid once opened */
    struct sn_netaddr remote;
    uint8_t is_dialer;
    uint8_t is_open;
    uint64_t sent_bytes; /* plain bytes, for metrics */
    uint64_t received_bytes;
};

/* --- Use -------------------------------------------------------------------------------------------- */

/* Starts accepting on this worker. out_bound tells the port when 0 was asked. */
SN_MUST_CHECK enum sn_err sn_carrier_listen(struct sn_carrier *carrier, struct sn_worker *worker,
                                            const struct sn_netaddr *addr,
                                            struct sn_listener **out_listener,
                                            struct sn_netaddr *out_bound);
void sn_listener_close(struct sn_listener *listener);
/* Starts dialing; the outcome comes as `opened` or `failed`. An immediate error means no callback. */
SN_MUST_CHECK enum sn_err sn_carrier_dial(struct sn_carrier *carrier, struct sn_worker *worker,
                                          const struct sn_dial *dial, const struct sn_lane_ops *ops,
                                          void *user, struct sn_lane **out_lane);
/* For handshakes that begin from now on; `identity` is borrowed. The former one may be freed when every worker has run
 * a task since. Any thread. */
void sn_carrier_set_identity(struct sn_carrier *carrier, const struct sn_tls_identity *identity);
void sn_carrier_free(struct sn_carrier *carrier); /* all lanes and listeners are freed by then */

void sn_lane_set_user(struct sn_lane *lane, const struct sn_lane_ops *ops, void *user);

/* Up to `capacity` plain bytes. Errors: EAGAIN; after the end EAGAIN too, `failed` follows. */
SN_MUST_CHECK enum sn_err sn_lane_read(struct sn_lane *lane, void *out, size_t capacity,
                                       size_t *out_size);
/* Encrypts and keeps bytes until sn_lane_flush or until a batch is full (256 KiB), then writes. Takes all or
 * a prefix. Errors: EAGAIN (not open yet or the send buffer is full; `writable` follows), ECLOSED (`failed`
 * follows), ENOMEM (no buffer; nothing follows). */
SN_MUST_CHECK enum sn_err sn_lane_write(struct sn_lane *lane, const void *bytes, size_t size,
                                        size_t *out_size);
/* Gives what is kept to the system. Call it once after a burst of writes. */
void sn_lane_flush(struct sn_lane *lane);
/* Bytes that sn_lane_write would surely take now, unless the connection breaks. */
size_t sn_lane_write_room(const struct sn_lane *lane);
/* The user stopped reading before EAGAIN and wants `readable` again in the next round. */
void sn_lane_resume_read(struct sn_lane *lane);
/* Value that binds the handshake above to this very connection (TLS exporter). */
SN_MUST_CHECK enum sn_err sn_lane_exporter(struct sn_lane *lane, uint8_t out[32]);
/* Orderly end: what is kept is written (best effort, at most the handshake time-out), then the connection
 * closes; `failed` (ECLOSED) follows. */
void sn_lane_close(struct sn_lane *lane);
/* Ends at once and releases everything; no callback any more. Also allowed inside callbacks. */
void sn_lane_free(struct sn_lane *lane);
/* Lanes read and write as URGENT handlers of their worker; bulk lanes say so here. */
void sn_lane_set_priority(struct sn_lane *lane, enum sn_io_priority priority);
/* Moves a lane to another worker: detach on the old one, attach on the new one. In between nothing happens.
 * After attach `readable` comes if anything is left. Only lanes that are open, or were until `failed`. */
void sn_lane_detach(struct sn_lane *lane);
SN_MUST_CHECK enum sn_err sn_lane_attach(struct sn_lane *lane, struct sn_worker *worker);

#endif
