/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lane of the member: the handshake as agents do it, with lies where asked; frames; answers to heartbeats.
 * What production code encodes (HELLO, AUTH, frames) is encoded by it here.
 */
#ifndef SN_TESTS_HOSTILE_MEMBER_LANE_H
#define SN_TESTS_HOSTILE_MEMBER_LANE_H

#include "hostile_member/wire.h"
#include "peer/hello.h"
#include "stream/frame.h"

struct hm_member;

enum hm_step { HM_CLOSED, HM_TCP, HM_TLS, HM_HELLO, HM_AUTH, HM_READY, HM_UP };

/* How a handshake differs from a good one. */
struct hm_lies {
    struct sn_hello hello;   /* complete; what is wrong in it is meant to be */
    enum hm_step last;       /* goes no further than this; HM_UP = all the way */
    uint8_t has_wrong_auth;  /* the signature is of something else */
    uint8_t has_wrong_order; /* READY before AUTH */
};

/* What came from the other side since the last look. */
struct hm_heard {
    uint32_t frames[SN_FRAME_RESET + 1]; /* by type */
    uint64_t reset_stream;               /* of the last RESET */
    uint32_t reset_reason;
};

struct hm_lane {
    struct hm_member *member;
    struct hm_wire wire;
    struct hm_lies lies;
    enum hm_step step;
    uint8_t is_dialer;
    uint8_t sent_ready, got_ready;
    uint8_t is_rude;    /* does not answer heartbeats */
    uint8_t is_served;  /* the streams of `talk` are on this lane */
    uint8_t is_refused; /* `refusal` came */
    struct sn_refusal refusal;
    struct sn_hello other; /* its HELLO */
    uint8_t own_digest[SN_DIGEST_BYTES];
    uint8_t other_digest[SN_DIGEST_BYTES];
    struct hm_heard heard;
    uint8_t *input; /* HM_INPUT_BYTES */
    size_t input_size;
};

#define HM_INPUT_BYTES (2u * (SN_FRAME_DATA_BYTES_MAX + SN_FRAME_HEADER_BYTES))

void hm_lane_init(struct hm_lane *lane, struct hm_member *member);
/* On a wire that is connected. Errors: ENOMEM, EIO. */
SN_MUST_CHECK enum sn_err hm_lane_begin(struct hm_lane *lane, int is_dialer,
                                        const struct hm_lies *lies);
/* Does all that can be done now. */
void hm_lane_run(struct hm_lane *lane);
/* A frame, which may be wrong; `size` is what its header says. */
void hm_lane_send(struct hm_lane *lane, const struct sn_frame *frame, const void *payload,
                  size_t payload_size);
void hm_lane_close(struct hm_lane *lane, int with_reset);
/* The other side has ended it, or it goes no further. */
int hm_lane_is_over(const struct hm_lane *lane);

#endif
