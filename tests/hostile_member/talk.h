/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the member has with the other side above its lanes, for as long as both boots live: the streams of the message
 * link (production's mux), SP framing, and the parcels that come.
 */
#ifndef SN_TESTS_HOSTILE_MEMBER_TALK_H
#define SN_TESTS_HOSTILE_MEMBER_TALK_H

#include "crypto/seal.h"
#include "delivery/message.h"
#include "delivery/parcel.h"
#include "hostile_member/crate.h"
#include "link/link.h"
#include "link/pump.h"
#include "stream/mux.h"

struct hm_member;
struct hm_lane;

#define HM_DIGESTS 64u

/* One class. */
struct hm_class {
    struct sn_stream *stream; /* NULL: there is no link */
    uint8_t *input;           /* one SP message */
    size_t input_size;
    uint8_t has_hello;
    struct sni_names names;                       /* of parcels that come */
    uint64_t next_sequence;                       /* ours */
    uint64_t next_ack;                            /* ours, of parcels that only acknowledge */
    uint64_t acked;                               /* of ours, by the other side */
    uint64_t received;                            /* its last one that was processed */
    uint8_t digests[HM_DIGESTS][SN_DIGEST_BYTES]; /* of its parcels, by sequence */
};

struct hm_talk {
    struct hm_member *member;
    struct sn_mux *mux;
    struct hm_lane *lane; /* that serves it; NULL = none */
    struct sn_seal *seal;
    struct sn_seal_end self;
    struct sn_seal_end peer;
    struct hm_class classes[SN_CLASS_COUNT];
    struct hm_crates crates; /* outlive boots */
    uint8_t acks_off;        /* parcels that come are processed, and that is not told */
    uint8_t answers_off;     /* questions that come are not answered */
    /* Counted since the start. */
    uint64_t parcels, acks, repeats, repeats_altered, questions, refused, wrong;
};

void hm_talk_init(struct hm_talk *talk, struct hm_member *member);
void hm_talk_fini(struct hm_talk *talk);
/* The lane is up: its streams are ours. Another boot on either side begins anew. */
SN_MUST_CHECK enum sn_err hm_talk_up(struct hm_talk *talk, struct hm_lane *lane);
void hm_talk_down(struct hm_talk *talk);
void hm_talk_forget(struct hm_talk *talk);
/* A frame about a stream arrived. */
void hm_talk_input(struct hm_talk *talk, const struct sn_frame *frame, const uint8_t *payload);
/* Sends what the streams owe. */
void hm_talk_run(struct hm_talk *talk);
/* Opens the link's streams, where that is our part. */
SN_MUST_CHECK enum sn_err hm_talk_open(struct hm_talk *talk);
/* Both sockets of the other side have said hello. */
int hm_talk_is_linked(const struct hm_talk *talk);
/* Bytes into the link's stream. Errors: ESTATE (there is none), EAGAIN (its window stayed closed). */
SN_MUST_CHECK enum sn_err hm_talk_write(struct hm_talk *talk, unsigned class_id, const void *bytes,
                                        size_t size);

#endif
