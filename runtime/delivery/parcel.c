/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: every byte of a parcel but the hop count is covered by the signature, directly or by the
 * digest; nothing is read past the size that was checked; one header has one encoding.
 */
#include "delivery/parcel.h"

#include <string.h>

#include "base/assert.h"
#include "link/link.h"

enum {
    VERSION_AT = 3,
    CLASS_AT = 4,
    FLAGS_AT = 5,
    SOURCE_AT = 6,
    DESTINATION_AT = SOURCE_AT + SN_KEY_BYTES,
    SOURCE_EPOCH_AT = DESTINATION_AT + SN_KEY_BYTES,
    DESTINATION_EPOCH_AT = SOURCE_EPOCH_AT + 8,
    SEQUENCE_AT = DESTINATION_EPOCH_AT + 8,
    SIZE_AT = SEQUENCE_AT + 8,
    DIGEST_AT = SIZE_AT + 4,
    SIGNATURE_AT = DIGEST_AT + SN_DIGEST_BYTES,
    HOPS_AT = SIGNATURE_AT + SN_SIGNATURE_BYTES
};
_Static_assert(HOPS_AT == SN_PARCEL_HOPS_AT, "as documented");
_Static_assert(HOPS_AT + 1 == SN_PARCEL_HEADER_BYTES, "as documented");

#define PARCEL_VERSION 1u
#define FLAG_ACK_ONLY  1u

static const uint8_t magic[3] = {'S', 'N', 'P'};

static void store(uint8_t *at, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++) at[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
}

static uint64_t load(const uint8_t *at, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) value = value << 8 | at[i];
    return value;
}

enum sn_err sn_parcel_make(const struct sn_parcel_header *header, struct sn_seal *seal,
                           const struct sn_key *key, const uint8_t nonce[SN_SEAL_NONCE_BYTES],
                           uint8_t *bytes, uint32_t body_size, uint32_t *out_size)
{
    SN_ASSERT(body_size <= SN_PARCEL_BODY_BYTES_MAX);
    SN_ASSERT(header->sequence > 0);
    uint32_t sealed_size = body_size + SN_SEAL_OVERHEAD;
    memcpy(bytes, magic, sizeof magic);
    bytes[VERSION_AT] = PARCEL_VERSION;
    bytes[CLASS_AT] = header->class_id;
    bytes[FLAGS_AT] = header->is_ack_only ? FLAG_ACK_ONLY : 0;
    memcpy(bytes + SOURCE_AT, header->source.bytes, SN_KEY_BYTES);
    memcpy(bytes + DESTINATION_AT, header->destination.bytes, SN_KEY_BYTES);
    store(bytes + SOURCE_EPOCH_AT, header->source_epoch, 8);
    store(bytes + DESTINATION_EPOCH_AT, header->destination_epoch, 8);
    store(bytes + SEQUENCE_AT, header->sequence, 8);
    store(bytes + SIZE_AT, sealed_size, 4);
    bytes[HOPS_AT] = header->hops;

    uint8_t *sealed = bytes + SN_PARCEL_HEADER_BYTES;
    enum sn_err err =
        sn_seal_seal(seal, nonce, bytes, DIGEST_AT, bytes + SN_PARCEL_BODY_AT, body_size, sealed);
    if (err != SN_OK) return err;
    sn_sha256(sealed, sealed_size, bytes + DIGEST_AT);
    err = sn_key_sign(key, bytes, SIGNATURE_AT, bytes + SIGNATURE_AT);
    if (err != SN_OK) return err;
    *out_size = SN_PARCEL_HEADER_BYTES + sealed_size;
    return SN_OK;
}

enum sn_err sn_parcel_read(const uint8_t *bytes, uint32_t size, struct sn_parcel_header *out_header)
{
    if (size < SN_PARCEL_HEADER_BYTES + SN_SEAL_OVERHEAD) return SN_EINVAL;
    if (size > SN_PARCEL_BYTES_MAX) return SN_EINVAL;
    if (memcmp(bytes, magic, sizeof magic) != 0) return SN_EINVAL;
    if (bytes[VERSION_AT] != PARCEL_VERSION) return SN_EVERSION;
    if (bytes[CLASS_AT] >= SN_CLASS_COUNT) return SN_EINVAL;
    if (bytes[FLAGS_AT] & ~FLAG_ACK_ONLY) return SN_EINVAL;
    struct sn_parcel_header header = {
        .class_id = bytes[CLASS_AT],
        .is_ack_only = bytes[FLAGS_AT] & FLAG_ACK_ONLY,
        .hops = bytes[HOPS_AT],
        .source_epoch = load(bytes + SOURCE_EPOCH_AT, 8),
        .destination_epoch = load(bytes + DESTINATION_EPOCH_AT, 8),
        .sequence = load(bytes + SEQUENCE_AT, 8),
        .sealed_size = (uint32_t)load(bytes + SIZE_AT, 4),
    };
    if (header.sealed_size != size - SN_PARCEL_HEADER_BYTES) return SN_EINVAL;
    if (header.sequence == 0) return SN_EINVAL;
    memcpy(header.source.bytes, bytes + SOURCE_AT, SN_KEY_BYTES);
    memcpy(header.destination.bytes, bytes + DESTINATION_AT, SN_KEY_BYTES);
    *out_header = header;
    return SN_OK;
}

enum sn_err sn_parcel_verify(const uint8_t *bytes, const struct sn_key_id *source)
{
    return sn_key_verify(source, bytes, SIGNATURE_AT, bytes + SIGNATURE_AT);
}

enum sn_err sn_parcel_open(uint8_t *bytes, const struct sn_parcel_header *header,
                           struct sn_seal *seal, uint32_t *out_body_size)
{
    SN_ASSERT(header->sealed_size >= SN_SEAL_OVERHEAD);
    uint8_t *sealed = bytes + SN_PARCEL_HEADER_BYTES;
    uint8_t digest[SN_DIGEST_BYTES];
    sn_sha256(sealed, header->sealed_size, digest);
    if (memcmp(digest, bytes + DIGEST_AT, sizeof digest) != 0) return SN_EAUTH;
    enum sn_err err = sn_parcel_verify(bytes, &header->source);
    if (err != SN_OK) return err;
    err = sn_seal_open(seal, bytes, DIGEST_AT, sealed, header->sealed_size,
                       bytes + SN_PARCEL_BODY_AT);
    if (err != SN_OK) return SN_EAUTH;
    *out_body_size = header->sealed_size - SN_SEAL_OVERHEAD;
    return SN_OK;
}
