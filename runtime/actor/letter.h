/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A letter: one message in memory, from the accepting sn_send to its outcome. It is one allocation that holds
 * its names and, up to SN_MESSAGE_COPY_BYTES_MAX, its payload; larger payloads are a view on a slab.
 *
 * A letter has one owner at a time: the sender's call, then a peer's delivery queue or a local mailbox, then the
 * handler's worker, which frees it. Thread-safe: no; handed over between workers by tasks.
 */
#ifndef SN_ACTOR_LETTER_H
#define SN_ACTOR_LETTER_H

#include <stdint.h>

#include "actor/worker.h"
#include "sennit/actor.h"
#include "sennit/buf.h"

enum sn_letter_kind { SN_LETTER_SEND = 0, SN_LETTER_ASK = 1, SN_LETTER_REPLY = 2 };

struct sn_letter {
    struct sn_task task;          /* for crossing to another worker */
    struct sn_list node;          /* in its present owner's queue */
    struct sn_actor_ref from_ref; /* local sender: gets the outcome */
    struct sn_actor_ref to_ref;   /* local destination once known */
    void *carrier;                /* who brings it to another worker, on the way; owned by peer */
    uint64_t token;               /* the sender's own mark, given back with the outcome */
    uint64_t correlation;         /* ASK and REPLY */
    uint64_t deadline_ns;         /* monotonic here; 0 = none */
    uint64_t sequence;            /* of the parcel it travels in; owned by delivery */
    uint32_t index;               /* in that parcel; owned by delivery */
    uint32_t incarnation;         /* of the local sender; owned by actor */
    uint8_t kind;                 /* enum sn_letter_kind */
    uint8_t class_id;             /* enum sn_class */
    uint8_t wants_outcome;
    uint8_t is_settled; /* its outcome was told; owned by delivery */
    uint8_t outcome;    /* enum sn_outcome, on the way back to the sender */
    uint8_t reason;     /* enum sn_reason, likewise */
    uint32_t payload_size;
    uint32_t alloc_size;
    uint32_t cost;          /* what it was counted for when it was accepted; owned by peer */
    uint64_t queued_ns;     /* when it came to its peer's worker; owned by peer */
    const uint8_t *payload; /* into this allocation or `slab` */
    struct sn_buf slab;     /* empty for copied payloads */
    /* NUL-terminated, inside this allocation. */
    const char *from_agent; /* "" = this agent */
    const char *from_actor;
    const char *to_agent; /* "" = this agent */
    const char *to_actor;
    const char *type;
};

struct sn_letter_fields {
    const char *from_agent, *from_actor, *to_agent, *to_actor, *type; /* copied */
    const void *payload; /* copied when small; else `slab` must hold it */
    uint32_t payload_size;
    const struct sn_buf *slab; /* NULL: copy whatever the size (at most SN_MESSAGE_BYTES_MAX) */
};

/* Errors: ETOOBIG, ENOMEM. Other members are zero. */
SN_MUST_CHECK enum sn_err sn_letter_new(const struct sn_letter_fields *fields,
                                        struct sn_letter **out_letter);
void sn_letter_free(struct sn_letter *letter); /* NULL is fine */

/* What it counts for in byte-bounded queues: payload, names and bookkeeping. */
static inline uint32_t sn_letter_cost(const struct sn_letter *letter)
{
    return letter->alloc_size + letter->slab.size;
}

#endif
