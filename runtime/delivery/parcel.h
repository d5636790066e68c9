/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parcel: the unit between two boots of two agents. A fixed header, then the sealed body. Big endian.
 *
 *   offset size
 *        0    3  magic "SNP": no other thing that a node key signs starts so
 *        3    1  version, 1
 *        4    1  class (enum sn_class)
 *        5    1  flags: bit 0 = carries acknowledgements only; other bits must be zero
 *        6   32  source: key of the agent that made it
 *       38   32  destination
 *       70    8  epoch of the source's boot
 *       78    8  epoch of the destination's boot
 *       86    8  sequence, from 1: of the parcels with messages, or of those without; each per class
 *       94    4  size of the sealed body
 *       98   32  SHA-256 of the sealed body
 *      130   64  Ed25519 signature by the source over bytes 0..129
 *      194    1  hop count: outside the signature, since each relay raises it
 *      195       sealed body: nonce (24) | ciphertext | tag (16), with bytes 0..97 as additional data
 *
 * Thread-safe: as the seal that is used. Blocking: no.
 */
#ifndef SN_DELIVERY_PARCEL_H
#define SN_DELIVERY_PARCEL_H

#include <stdint.h>

#include "crypto/seal.h"
#include "sennit/err.h"
#include "sennit/limits.h"

#define SN_PARCEL_HEADER_BYTES 195u
#define SN_PARCEL_HOPS_AT      194u
/* Where the plain body is written before sealing, and found after opening. */
#define SN_PARCEL_BODY_AT        (SN_PARCEL_HEADER_BYTES + SN_SEAL_NONCE_BYTES)
#define SN_PARCEL_BODY_BYTES_MAX (SN_PARCEL_BYTES_MAX - SN_PARCEL_HEADER_BYTES - SN_SEAL_OVERHEAD)

struct sn_parcel_header {
    uint8_t class_id;
    uint8_t is_ack_only;
    uint8_t hops;
    struct sn_key_id source;
    struct sn_key_id destination;
    uint64_t source_epoch;
    uint64_t destination_epoch;
    uint64_t sequence;
    uint32_t sealed_size;
};

/* Makes a parcel of the plain body that stands at bytes + SN_PARCEL_BODY_AT: seals it in place, writes the
 * header before it and signs. `bytes` must hold body_size + SN_PARCEL_HEADER_BYTES + SN_SEAL_OVERHEAD;
 * header->sealed_size is not read. Errors: those of sealing and signing. */
SN_MUST_CHECK enum sn_err sn_parcel_make(const struct sn_parcel_header *header,
                                         struct sn_seal *seal, const struct sn_key *key,
                                         const uint8_t nonce[SN_SEAL_NONCE_BYTES], uint8_t *bytes,
                                         uint32_t body_size, uint32_t *out_size);

/* Reads the header without trusting it. Errors: EINVAL (size, magic, flags, class), EVERSION. */
SN_MUST_CHECK enum sn_err sn_parcel_read(const uint8_t *bytes, uint32_t size,
                                         struct sn_parcel_header *out_header);

/* Checks the signature of a header that sn_parcel_read took. Says nothing about the body. Errors: EAUTH. */
SN_MUST_CHECK enum sn_err sn_parcel_verify(const uint8_t *bytes, const struct sn_key_id *source);

/* Checks digest and signature, then opens the body in place, at bytes + SN_PARCEL_BODY_AT. Errors: EAUTH. */
SN_MUST_CHECK enum sn_err sn_parcel_open(uint8_t *bytes, const struct sn_parcel_header *header,
                                         struct sn_seal *seal, uint32_t *out_body_size);

#endif
