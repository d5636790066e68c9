/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: what a line does not say is as in a good parcel. */
#include "hostile_member/crate.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hostile_member/member.h"
#include "hostile_member/script.h"
#include "wire/pack.h"

/* --- Keeping -------------------------------------------------------------------------------------------- */

void hm_crates_fini(struct hm_crates *crates)
{
    for (uint32_t i = 0; i < crates->count; i++) sn_free(crates->at[i].bytes, crates->at[i].size);
    crates->count = 0;
}

struct hm_crate *hm_crates_find(struct hm_crates *crates, const char *name)
{
    for (uint32_t i = 0; i < crates->count; i++) {
        if (strcmp(crates->at[i].name, name) == 0) return &crates->at[i];
    }
    return NULL;
}

struct hm_crate *hm_crates_place(struct hm_crates *crates, const char *name, uint32_t size)
{
    struct hm_crate *crate = hm_crates_find(crates, name);
    uint8_t *bytes = sn_alloc(size);
    if (bytes == NULL) return NULL;
    if (crate == NULL) {
        if (crates->count == HM_CRATES_MAX) {
            sn_free(bytes, size);
            return NULL;
        }
        crate = &crates->at[crates->count++];
    } else {
        sn_free(crate->bytes, crate->size);
    }
    *crate = (struct hm_crate){.bytes = bytes, .size = size};
    (void)snprintf(crate->name, sizeof crate->name, "%s", name); /* scripts use short ones */
    return crate;
}

void hm_crates_answer(struct hm_crates *crates, uint64_t correlation, const uint8_t *payload,
                      uint32_t size)
{
    uint8_t digest[SN_DIGEST_BYTES];
    for (uint32_t i = 0; i < crates->count; i++) {
        struct hm_crate *crate = &crates->at[i];
        if (crate->correlation != correlation) continue;
        sn_sha256(payload, size, digest);
        crate->answers++;
        crate->echo_size = size;
        crate->is_echoed =
            size == crate->payload_size && memcmp(digest, crate->digest, sizeof digest) == 0;
    }
}

/* --- Making --------------------------------------------------------------------------------------------- */

static void store(uint8_t *at, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++) at[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
}

void hm_crate_head(uint8_t out[SN_SP_HEAD_BYTES], uint64_t length, uint32_t hops)
{
    out[0] = 1;
    store(out + 1, length, 8);
    store(out + 9, hops, 4);
}

/* Names go in full, so that parcels do not depend on one another. */
static void pack_messages(struct hm_member *member, const struct hm_line *line,
                          struct sn_pack *pack, struct hm_crate *crate)
{
    static uint8_t payload[SN_PARCEL_BYTES_MAX];
    struct hm_crates *crates = &member->talk.crates;
    uint32_t count = (uint32_t)hm_line_uint(line, "messages", 1);
    uint32_t size = (uint32_t)hm_line_uint(line, "size", 32);
    uint64_t kind = hm_line_uint(line, "kind", SN_LETTER_ASK);
    if (size > sizeof payload) size = sizeof payload;
    sn_env_random(member->env, payload, size);
    crate->payload_size = size;
    sn_sha256(payload, size, crate->digest);
    sn_pack_uint(pack, 4);
    sn_pack_array(pack, count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t correlation = hm_line_uint(line, "correlation", ++crates->last_correlation);
        if (i == 0) crate->correlation = correlation;
        sn_pack_map(pack, 6);
        sn_pack_key_uint(pack, 1, kind);
        sn_pack_key_text(pack, 2, hm_line_text(line, "to", "ping"));
        sn_pack_key_text(pack, 3, hm_line_text(line, "from", "ping"));
        sn_pack_key_text(pack, 4, hm_line_text(line, "type", "ping.ping"));
        sn_pack_key_uint(pack, 5, correlation);
        sn_pack_key_bin(pack, 7, payload, size);
    }
}

static enum sn_err pack_body(struct hm_member *member, const struct hm_line *line, uint8_t *out,
                             size_t capacity, struct hm_crate *crate, size_t *out_size)
{
    struct sn_pack pack;
    int is_ack_only = hm_line_is_on(line, "ack_only", 0);
    int has_ack = is_ack_only || hm_line_has(line, "acked");
    const struct hm_class *class = &member->talk.classes[crate->class_id];
    if (hm_line_has(line, "body")) {
        *out_size = hm_line_hex(line, "body", out, capacity);
        return *out_size > 0 ? SN_OK : SN_EINVAL;
    }
    sn_pack_init(&pack, out, capacity);
    sn_pack_map(&pack, 1u + (uint32_t)has_ack + !is_ack_only);
    if (has_ack) sn_pack_key_uint(&pack, 1, hm_line_uint(line, "acked", class->received));
    sn_pack_key_uint(&pack, 3, hm_line_uint(line, "base", class->acked + 1));
    if (!is_ack_only) pack_messages(member, line, &pack, crate);
    return sn_pack_finish(&pack, out_size);
}

static void describe(struct hm_member *member, const struct hm_line *line,
                     struct sn_parcel_header *header)
{
    struct hm_talk *talk = &member->talk;
    unsigned class_id = (unsigned)hm_line_uint(line, "class", SN_CLASS_APPLICATION) % 2;
    struct hm_class *class = &talk->classes[class_id];
    int is_ack_only = hm_line_is_on(line, "ack_only", 0);
    *header = (struct sn_parcel_header){
        .class_id = (uint8_t)class_id,
        .is_ack_only = (uint8_t)is_ack_only,
        .hops = (uint8_t)hm_line_uint(line, "hops", 0),
        .source = talk->self.id,
        .destination = talk->peer.id,
        .source_epoch = hm_line_uint(line, "src_epoch", talk->self.epoch),
        .destination_epoch = hm_line_uint(line, "dest_epoch", talk->peer.epoch)};
    uint64_t *next = is_ack_only ? &class->next_ack : &class->next_sequence;
    header->sequence = hm_line_uint(line, "seq", *next);
    if (!hm_line_has(line, "seq")) ++*next;
    if (hm_line_has(line, "dest"))
        (void)hm_line_hex(line, "dest", header->destination.bytes, SN_KEY_BYTES); /* or it stays */
    if (hm_line_has(line, "src"))
        (void)hm_line_hex(line, "src", header->source.bytes, SN_KEY_BYTES); /* likewise */
}

enum sn_err hm_crate_make(struct hm_member *member, const struct hm_line *line,
                          struct hm_crate **out_crate)
{
    static uint8_t bytes[SN_PARCEL_BYTES_MAX];
    struct hm_talk *talk = &member->talk;
    struct sn_parcel_header header;
    struct hm_crate made = {0};
    uint8_t nonce[SN_SEAL_NONCE_BYTES];
    size_t body_size = 0;
    uint32_t size = 0;
    if (talk->seal == NULL) return SN_ESTATE;
    describe(member, line, &header);
    made.class_id = header.class_id;
    made.sequence = header.sequence;
    enum sn_err err = pack_body(member, line, bytes + SN_PARCEL_BODY_AT, SN_PARCEL_BODY_BYTES_MAX,
                                &made, &body_size);
    if (err != SN_OK) return err;
    sn_env_random(member->env, nonce, sizeof nonce);
    err = sn_parcel_make(&header, talk->seal, member->identity.key, nonce, bytes,
                         (uint32_t)body_size, &size);
    if (err != SN_OK) return err;
    struct hm_crate *crate = hm_crates_place(&talk->crates, hm_line_text(line, "name", "x"), size);
    if (crate == NULL) return SN_ENOMEM;
    memcpy(made.name, crate->name, sizeof made.name);
    made.bytes = crate->bytes;
    made.size = size;
    memcpy(made.bytes, bytes, size);
    *crate = made;
    *out_crate = crate;
    return SN_OK;
}
