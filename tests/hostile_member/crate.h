/* SPDX-License-Identifier: Apache-2.0 */
/* Parcels that were made and kept by name, to be sent as often as wanted, and what became of the questions in them. */
#ifndef SN_TESTS_HOSTILE_MEMBER_CRATE_H
#define SN_TESTS_HOSTILE_MEMBER_CRATE_H

#include "crypto/key.h"
#include "delivery/parcel.h"
#include "link/pump.h"

struct hm_member;
struct hm_line;

#define HM_CRATES_MAX     128u
#define HM_CRATE_NAME_MAX 32u

struct hm_crate {
    char name[HM_CRATE_NAME_MAX];
    uint8_t class_id;
    uint8_t *bytes; /* the parcel */
    uint32_t size;
    uint64_t sequence;
    uint64_t correlation; /* of the first question in it */
    uint32_t payload_size;
    uint8_t digest[SN_DIGEST_BYTES]; /* of the question's payload */
    uint32_t answers;                /* that came */
    uint8_t is_echoed;               /* the last one held the same bytes */
    uint32_t echo_size;
};

struct hm_crates {
    struct hm_crate at[HM_CRATES_MAX];
    uint32_t count;
    uint64_t last_correlation;
};

void hm_crates_fini(struct hm_crates *crates);
struct hm_crate *hm_crates_find(struct hm_crates *crates, const char *name);
/* The crate of that name, empty. NULL: no room. */
struct hm_crate *hm_crates_place(struct hm_crates *crates, const char *name, uint32_t size);
/* Makes a parcel as the line says, sealed and signed by production code. Errors: ESTATE (no other side), ENOMEM... */
SN_MUST_CHECK enum sn_err hm_crate_make(struct hm_member *member, const struct hm_line *line,
                                        struct hm_crate **out_crate);
/* What stands before a parcel on the link: `length` and `hops` as they are to be read there. */
void hm_crate_head(uint8_t out[SN_SP_HEAD_BYTES], uint64_t length, uint32_t hops);
/* An answer came. */
void hm_crates_answer(struct hm_crates *crates, uint64_t correlation, const uint8_t *payload,
                      uint32_t size);

#endif
