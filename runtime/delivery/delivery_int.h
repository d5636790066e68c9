/* SPDX-License-Identifier: Apache-2.0 */
/* What delivery.c, outbox.c and inbox.c share: one outbox and one inbox a class. */
#ifndef SN_DELIVERY_DELIVERY_INT_H
#define SN_DELIVERY_DELIVERY_INT_H

#include "base/heap.h"
#include "base/list.h"
#include "delivery/delivery.h"
#include "delivery/message.h"
#include "delivery/parcel.h"

/* Letters that expire together: a piece of the queue, or what travels in one parcel. The key in the heap is at
 * most the earliest deadline in it, so that expiry costs a heap step a batch, not a letter. */
struct sni_batch {
    struct sn_list node;    /* in the queue or in the flight */
    struct sn_list letters; /* not settled yet, in order */
    struct sn_heap_node expiry;
    uint8_t class_id;
    uint8_t is_sent;
};

/* A parcel that was sent and not acknowledged, with its bytes as they were sent. */
struct sni_flying {
    struct sni_batch batch;
    uint64_t sequence;
    uint32_t letter_count; /* as sent; some may be settled since */
    uint32_t size;
    uint8_t bytes[];
};

struct sni_outbox {
    /* The queue: batches of at most SNI_BATCH_LETTERS; the last one stays when it is empty. */
    struct sn_list queue;
    uint32_t queue_letters;
    uint64_t queue_bytes;
    uint32_t tail_letters; /* ever put in the last batch */

    /* The flight, by sequence. */
    struct sn_list flight;
    uint32_t flight_parcels;
    uint32_t flight_letters; /* not settled */
    uint32_t flight_sent;    /* letters as sent: what the peer counts, so the bound is on these */
    uint64_t flight_bytes;
    uint64_t next_sequence;
    uint64_t next_ack_sequence;
    struct sni_flying *resend; /* the next one to go again; NULL = none */
    uint64_t progress_ns;      /* last acknowledgement, or start of the flight or of a resending */
    uint32_t backoff;          /* resends without progress */

    struct sni_names names;

    uint64_t accepted, delivered;
    uint64_t undelivered[SN_REASON_COUNT];
    uint64_t unknown[SN_REASON_COUNT];
    uint64_t settled; /* sum of the three above: a cheap check of the ledger */
};

struct sni_inbox {
    uint64_t received;     /* all sequences up to it were processed */
    uint64_t ack_received; /* highest sequence of parcels that carried acknowledgements only */
    uint64_t base;         /* the sender knows our answers to all below */
    struct sni_exception *exceptions;
    uint32_t exception_count;
    uint32_t exception_capacity;
    int is_ack_due; /* something came that was not acknowledged */
    uint64_t ack_due_ns;
    uint64_t unacked_bytes;
    struct sni_names names;
};

struct sn_delivery {
    uint32_t magic;
    struct sn_delivery_config config;
    struct sn_heap expiry; /* of struct sni_batch */
    int has_peer;
    int is_up;
    int is_closing; /* being freed: what `outcome` would enqueue now could not be settled any more */
    struct sn_seal_end peer; /* the highest boot seen */
    struct sn_seal *seal;
    struct sni_outbox out[SN_CLASS_COUNT];
    struct sni_inbox in[SN_CLASS_COUNT];
    struct sn_delivery_stats stats;
};

#define SNI_BATCH_LETTERS 256u

/* Seals and signs the body that stands in `bytes`. */
SN_MUST_CHECK enum sn_err sni_delivery_make(struct sn_delivery *delivery, enum sn_class class_id,
                                            int is_ack_only, uint64_t sequence, uint8_t *bytes,
                                            size_t body_size, uint32_t *out_size);
/* The cheap form of the ledger invariant, by counters. */
void sni_delivery_check(const struct sn_delivery *delivery);

/* --- outbox.c ------------------------------------------------------------------------------------- */

void sni_outbox_init(struct sni_outbox *out, const uint8_t seed[16]);
/* Settles all that is left as shutdown and frees. */
void sni_outbox_fini(struct sn_delivery *delivery, struct sni_outbox *out);
SN_MUST_CHECK enum sn_err sni_outbox_enqueue(struct sn_delivery *delivery, struct sni_outbox *out,
                                             struct sn_letter *letter);
/* What flew to the former boot is unknown{peer-restarted}; sequences and names start anew. */
void sni_outbox_peer_restarted(struct sn_delivery *delivery, struct sni_outbox *out);
void sni_outbox_resend_all(struct sni_outbox *out, uint64_t now_ns);
/* When the flight is sent again unless something happens; UINT64_MAX = not. */
uint64_t sni_outbox_resend_at(const struct sn_delivery *delivery, const struct sni_outbox *out);
int sni_outbox_has_resend(const struct sn_delivery *delivery, const struct sni_outbox *out,
                          uint64_t now_ns);
int sni_outbox_has_letters(const struct sn_delivery *delivery, const struct sni_outbox *out,
                           uint64_t now_ns);
/* The next parcel again. There must be one (sni_outbox_has_resend). */
void sni_outbox_resend(struct sn_delivery *delivery, struct sni_outbox *out, uint64_t now_ns,
                       uint8_t *bytes, uint32_t *out_size);
/* A parcel of waiting letters. ack may be NULL. Errors: ENOENT (all had expired), ENOMEM and those of the
 * cryptography: nothing changed. */
SN_MUST_CHECK enum sn_err sni_outbox_send(struct sn_delivery *delivery, enum sn_class class_id,
                                          const struct sni_ack *ack, uint64_t now_ns,
                                          uint8_t *bytes, uint32_t *out_size);
/* Lowest sequence without an acknowledgement. */
uint64_t sni_outbox_base(const struct sni_outbox *out);
/* Errors: EPROTO when the peer acknowledges what was not sent. */
SN_MUST_CHECK enum sn_err sni_outbox_check_ack(const struct sni_outbox *out,
                                               const struct sni_body *body);
/* Settles what the body acknowledges; it was checked. */
void sni_outbox_take_ack(struct sn_delivery *delivery, struct sni_outbox *out,
                         const struct sni_body *body, uint64_t now_ns);
void sni_outbox_expire(struct sn_delivery *delivery, uint64_t now_ns);
/* Letters that are kept, by walking. */
uint64_t sni_outbox_walk(const struct sni_outbox *out);
/* The first of the flight, or of the queue; NULL when there is none. */
const struct sn_letter *sni_outbox_oldest(const struct sni_outbox *out);

/* --- inbox.c -------------------------------------------------------------------------------------- */

void sni_inbox_init(struct sni_inbox *in, const uint8_t seed[16]);
void sni_inbox_fini(struct sni_inbox *in);
void sni_inbox_peer_restarted(struct sni_inbox *in);
SN_MUST_CHECK enum sn_err sni_inbox_take(struct sn_delivery *delivery, enum sn_class class_id,
                                         uint8_t *bytes, uint32_t size, uint64_t now_ns);
/* The acknowledgement as of now; borrows from the inbox. */
struct sni_ack sni_inbox_ack(const struct sni_inbox *in);
/* Small enough to ride on messages. */
int sni_inbox_ack_rides(const struct sni_inbox *in);
/* It left. */
void sni_inbox_acked(struct sni_inbox *in);

#endif
