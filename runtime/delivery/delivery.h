/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery between this boot of this agent and one peer: letters in, parcels out; parcels in, letters out.
 * Batches, seals, signs, orders, acknowledges, resends, deduplicates, and accounts (promise G1). No I/O: functions
 * of (state, input, now). It outlives sessions: what was not acknowledged is sent again on the next one.
 *
 * Ledger invariant, at any moment and per class: accepted = delivered + queued + undelivered + unknown, where
 * queued is counted by walking what is kept.
 *
 * Outcomes: *delivered* when the peer acknowledged that the letter was placed in a mailbox; *undelivered* when it
 * certainly was not (refused there, or it never left); *unknown* when it was sent, and the peer restarted, the
 * deadline passed, or we shut down before an acknowledgement.
 * Bounds, per class: the queue as configured; in flight the window and one parcel more, 4,096 parcels and
 * 32,768 letters (until their parcel is acknowledged, expired or not); what a peer makes us keep is 4,096 names
 * and 32,768 refusals, whatever it sends.
 *
 * Thread-safe: no; belongs to the peer's worker. Blocking: no. Source: DESIGN section 7.
 */
#ifndef SN_DELIVERY_DELIVERY_H
#define SN_DELIVERY_DELIVERY_H

#include "actor/letter.h"
#include "crypto/seal.h"
#include "link/link.h"

struct sn_delivery;

/* A message that arrived, authenticated and in order. Everything is borrowed until return. */
struct sn_incoming {
    enum sn_class class_id;
    enum sn_letter_kind kind;
    const char *to_actor;
    const char *from_actor;
    const char *type;
    uint64_t correlation;
    uint64_t deadline_ns; /* on our clock; 0 = none */
    const uint8_t *payload;
    uint32_t payload_size;
};

struct sn_delivery_ops {
    /* Places the message in a mailbox. SN_REASON_NONE = placed; anything else is told to the sender. */
    enum sn_reason (*deliver)(void *arg, const struct sn_incoming *incoming);
    /* The outcome of a letter that sn_delivery_enqueue accepted; exactly once for each. The letter is handed
     * over (the callee frees it). */
    void (*outcome)(void *arg, struct sn_letter *letter, enum sn_outcome outcome,
                    enum sn_reason reason);
};

struct sn_delivery_config {
    const struct sn_delivery_ops *ops;
    void *arg;
    const struct sn_key *key;           /* our node key: signs */
    const struct sn_boot_key *boot_key; /* our ephemeral key of this boot */
    struct sn_seal_end self;
    struct sn_key_id peer_id; /* all zero: that of the first sn_delivery_peer_up */
    /* Fresh randomness for nonces, from the environment. */
    void (*random)(void *arg, void *out, size_t size);
    uint32_t queue_bytes_max; /* letters waiting, per class */
    uint32_t queue_letters_max;
    uint32_t window_bytes; /* parcels sent and not acknowledged, per class */
    uint64_t ack_delay_ns; /* 1 ms */
    uint64_t resend_ns;    /* without progress on a session that is up */
};

SN_MUST_CHECK enum sn_err sn_delivery_new(const struct sn_delivery_config *config,
                                          struct sn_delivery **out_delivery);
/* Settles what is left: queued = undelivered{shutdown}, in flight = unknown{shutdown}. Then frees. */
void sn_delivery_free(struct sn_delivery *delivery);

/* Takes the letter on SN_OK: from then on it is accounted. May be called from `outcome` and `deliver`, as the
 * only call here. A deadline counts from the next sn_delivery_tick on: tick after enqueuing, or at once when
 * the deadline is earlier than the time that the last tick returned.
 * Errors: EFULL, EINVAL (a payload over its limit, or a name that is none), ENOMEM, ECLOSED (while it is freed). */
SN_MUST_CHECK enum sn_err sn_delivery_enqueue(struct sn_delivery *delivery,
                                              struct sn_letter *letter);

/* A session with boot `peer` is up. The first one, or a higher epoch than before: in-flight letters of the
 * former boot become unknown{peer-restarted}, sequences start anew. The same epoch: everything unacknowledged is
 * sent again. Errors: EREPLAY (a lower epoch), EMISMATCH (same epoch, other key), EAUTH, ENOMEM. */
SN_MUST_CHECK enum sn_err sn_delivery_peer_up(struct sn_delivery *delivery,
                                              const struct sn_seal_end *peer, uint64_t now_ns);
void sn_delivery_peer_down(struct sn_delivery *delivery);

/* The next parcel for the link, sealed and signed, at most SN_PARCEL_BYTES_MAX bytes, which `out` must hold.
 * The parcel counts as sent. Errors: ENOENT (nothing to send now), ENOMEM and EIO (nothing changed). */
SN_MUST_CHECK enum sn_err sn_delivery_output(struct sn_delivery *delivery, enum sn_class class_id,
                                             uint64_t now_ns, uint8_t *out, uint32_t *out_size);
/* Nonzero when sn_delivery_output would yield a parcel at `now_ns`. */
int sn_delivery_has_output(const struct sn_delivery *delivery, enum sn_class class_id,
                           uint64_t now_ns);

/* A parcel from the link; modified in place. Errors say why it was refused (it is counted, and changed nothing):
 * EINVAL form, EMISMATCH addressed to somebody else or another boot or class, EAUTH signature or seal,
 * EREPLAY seen before (it is acknowledged again), EPROTO authentic but malformed inside (it will come again:
 * end the session), EAGAIN a gap, ENOMEM (not counted). */
SN_MUST_CHECK enum sn_err sn_delivery_input(struct sn_delivery *delivery, enum sn_class class_id,
                                            uint8_t *bytes, uint32_t size, uint64_t now_ns);

/* Expires letters; returns the time at which it must be called again and sn_delivery_has_output be asked
 * (UINT64_MAX = not). Never a time that has passed; it holds until the next call of another function. */
uint64_t sn_delivery_tick(struct sn_delivery *delivery, uint64_t now_ns);

struct sn_ledger {
    uint64_t accepted;
    uint64_t delivered;
    uint64_t queued; /* includes what is in flight; counted by walking */
    uint64_t undelivered[SN_REASON_COUNT];
    uint64_t unknown[SN_REASON_COUNT];
};
/* Adds the figures of both classes to *ledger. */
void sn_delivery_ledger(const struct sn_delivery *delivery, struct sn_ledger *ledger);
/* The letter that has waited for longest, in the queue or in flight, or NULL. Borrowed until the next call. */
const struct sn_letter *sn_delivery_oldest(const struct sn_delivery *delivery);

struct sn_delivery_stats {
    uint64_t
        parcels_sent; /* every sn_delivery_output; those sent again and acks_sent are among them */
    uint64_t parcels_resent;
    uint64_t acks_sent;        /* parcels that carried nothing else */
    uint64_t parcels_received; /* taken: every sn_delivery_input that was SN_OK */
    uint64_t refused_form, refused_address, refused_auth, refused_replay, refused_gap;
    uint64_t refused_body;      /* authentic but malformed inside */
    uint64_t messages_received; /* placed in a mailbox here */
    uint64_t messages_refused;  /* denied, no such actor, mailbox full */
};
void sn_delivery_stats(const struct sn_delivery *delivery, struct sn_delivery_stats *out_stats);
/* Nothing queued, in flight or waiting to be acknowledged. */
int sn_delivery_is_idle(const struct sn_delivery *delivery);

#endif
