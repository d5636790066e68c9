/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parcels of one class on their way in.
 *
 * Guarantees: a parcel is processed when it is authentic, for this boot and class, and the next in sequence,
 * else it changes nothing; its whole body is valid before its first message is placed; a message is placed at
 * most once. Checks go from cheap to dear: form, address, sequence, digest, signature, seal, content. Sequence
 * and address are believed only to refuse; to record or to answer anything the signature is checked first.
 *
 * A parcel that came before is acknowledged again (after its signature was checked), because that it comes again
 * means that the acknowledgement was lost. Parcels that carry acknowledgements only have a sequence of their
 * own: late and repeated ones are dropped, gaps are fine since they are cumulative.
 *
 * Exceptions are kept until the sender's base passes them, so at most what one flight holds; a sender that has
 * more in flight than allowed breaks the protocol.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "delivery/delivery_int.h"

/* With more of them the acknowledgement travels alone, so that the largest message always fits. */
#define RIDING_EXCEPTIONS_MAX 512u
_Static_assert(SN_MESSAGE_BYTES_MAX + 512u + 18u * RIDING_EXCEPTIONS_MAX < SN_PARCEL_BODY_BYTES_MAX,
               "the largest message and an acknowledgement that rides fit in one parcel");
_Static_assert(4u * SNI_FLIGHT_LETTERS_MAX + 14u * SNI_FLIGHT_PARCELS_MAX + 64u <
                   SN_PARCEL_BODY_BYTES_MAX,
               "the largest acknowledgement fits in one parcel");

/* This much is acknowledged at once: waiting would stop a sender that fills its window. */
#define UNACKED_BYTES_MAX (SN_DELIVERY_WINDOW_BYTES / 8)
#define EXCEPTIONS_FIRST  16u

void sni_inbox_init(struct sni_inbox *in, const uint8_t seed[16])
{
    in->base = 1;
    sni_names_init(&in->names, seed);
}

static void forget_exceptions(struct sni_inbox *in)
{
    sn_free(in->exceptions, in->exception_capacity * sizeof in->exceptions[0]);
    in->exceptions = NULL;
    in->exception_count = in->exception_capacity = 0;
}

void sni_inbox_fini(struct sni_inbox *in)
{
    forget_exceptions(in);
    sni_names_fini(&in->names);
}

void sni_inbox_peer_restarted(struct sni_inbox *in)
{
    forget_exceptions(in);
    sni_names_cut(&in->names, 0);
    in->received = in->ack_received = 0;
    in->base = 1;
    in->is_ack_due = 0;
    in->unacked_bytes = 0;
}

struct sni_ack sni_inbox_ack(const struct sni_inbox *in)
{
    return (struct sni_ack){.acked = in->received,
                            .exceptions = in->exceptions,
                            .exception_count = in->exception_count};
}

int sni_inbox_ack_rides(const struct sni_inbox *in)
{
    return in->exception_count <= RIDING_EXCEPTIONS_MAX;
}

void sni_inbox_acked(struct sni_inbox *in)
{
    in->is_ack_due = 0;
    in->unacked_bytes = 0;
}

static void ack_later(struct sni_inbox *in, uint64_t at_ns)
{
    if (in->is_ack_due && in->ack_due_ns <= at_ns) return;
    in->is_ack_due = 1;
    in->ack_due_ns = at_ns;
}

/* --- Checks --------------------------------------------------------------------------------------- */

static int is_ours(const struct sn_delivery *delivery, const struct sn_parcel_header *header,
                   enum sn_class class_id)
{
    if (!delivery->has_peer || header->class_id != class_id) return 0;
    if (!sn_key_id_is_equal(&header->source, &delivery->peer.id)) return 0;
    if (!sn_key_id_is_equal(&header->destination, &delivery->config.self.id)) return 0;
    return header->source_epoch == delivery->peer.epoch &&
           header->destination_epoch == delivery->config.self.epoch;
}

/* A data parcel that was processed before: its signature decides whether to answer. */
static enum sn_err take_replay(struct sn_delivery *delivery, struct sni_inbox *in,
                               const uint8_t *bytes, const struct sn_parcel_header *header,
                               uint64_t now_ns)
{
    if (sn_parcel_verify(bytes, &header->source) != SN_OK) {
        delivery->stats.refused_auth++;
        return SN_EAUTH;
    }
    delivery->stats.refused_replay++;
    ack_later(in, now_ns + delivery->config.ack_delay_ns);
    return SN_EREPLAY;
}

static enum sn_err check_sequence(struct sn_delivery *delivery, struct sni_inbox *in,
                                  const uint8_t *bytes, const struct sn_parcel_header *header,
                                  uint64_t now_ns)
{
    if (header->is_ack_only) {
        if (header->sequence > in->ack_received) return SN_OK;
        delivery->stats.refused_replay++;
        return SN_EREPLAY;
    }
    if (header->sequence <= in->received) return take_replay(delivery, in, bytes, header, now_ns);
    if (header->sequence == in->received + 1) return SN_OK;
    delivery->stats.refused_gap++;
    return SN_EAGAIN;
}

static enum sn_err check_header(struct sn_delivery *delivery, enum sn_class class_id,
                                const uint8_t *bytes, uint32_t size,
                                struct sn_parcel_header *header, uint64_t now_ns)
{
    if (sn_parcel_read(bytes, size, header) != SN_OK) {
        delivery->stats.refused_form++;
        return SN_EINVAL;
    }
    if (!is_ours(delivery, header, class_id)) {
        delivery->stats.refused_address++;
        return SN_EMISMATCH;
    }
    return check_sequence(delivery, &delivery->in[class_id], bytes, header, now_ns);
}

/* --- Content -------------------------------------------------------------------------------------- */

/* How many exceptions stay when the sender's base is `base`. */
static uint32_t count_from(const struct sni_inbox *in, uint64_t base)
{
    uint32_t first = 0;
    while (first < in->exception_count && in->exceptions[first].sequence < base) first++;
    return in->exception_count - first;
}

static void take_base(struct sni_inbox *in, uint64_t base)
{
    if (base <= in->base) return;
    uint32_t kept = count_from(in, base);
    if (kept > 0 && kept < in->exception_count)
        memmove(in->exceptions, in->exceptions + (in->exception_count - kept),
                kept * sizeof in->exceptions[0]);
    in->exception_count = kept;
    in->base = base;
}

static enum sn_err reserve_exceptions(struct sni_inbox *in, uint32_t more)
{
    uint32_t needed = in->exception_count + more;
    if (needed <= in->exception_capacity) return SN_OK;
    uint32_t capacity = in->exception_capacity == 0 ? EXCEPTIONS_FIRST : in->exception_capacity;
    while (capacity < needed) capacity *= 2;
    void *grown = sn_realloc(in->exceptions, in->exception_capacity * sizeof in->exceptions[0],
                             capacity * sizeof in->exceptions[0]);
    if (grown == NULL) return SN_ENOMEM;
    in->exceptions = grown;
    in->exception_capacity = capacity;
    return SN_OK;
}

/* Everything that could still be wrong with an authentic body. */
static enum sn_err check_body(const struct sn_delivery *delivery, enum sn_class class_id,
                              const struct sn_parcel_header *header, const struct sni_body *body)
{
    const struct sni_inbox *in = &delivery->in[class_id];
    if (body->base > in->received + 1) return SN_EPROTO;
    if (header->is_ack_only && (body->message_count > 0 || !body->has_ack)) return SN_EPROTO;
    if (!header->is_ack_only && body->message_count == 0) return SN_EPROTO;
    if (!header->is_ack_only) {
        uint64_t base = body->base > in->base ? body->base : in->base;
        if (header->sequence - base >= SNI_FLIGHT_PARCELS_MAX) return SN_EPROTO;
        if (count_from(in, base) + body->message_count > SNI_FLIGHT_LETTERS_MAX) return SN_EPROTO;
    }
    return sni_outbox_check_ack(&delivery->out[class_id], body);
}

static uint64_t deadline_ns(uint64_t remaining_ms, uint64_t now_ns)
{
    if (remaining_ms == 0) return 0;
    uint64_t left_ns = remaining_ms * 1000000u; /* at most 2^60: no overflow */
    return left_ns < UINT64_MAX - now_ns ? now_ns + left_ns : UINT64_MAX;
}

static void place_messages(struct sn_delivery *delivery, enum sn_class class_id, uint64_t sequence,
                           struct sni_body *body, uint64_t now_ns)
{
    struct sni_inbox *in = &delivery->in[class_id];
    struct sni_message message;
    for (uint32_t i = 0; i < body->message_count; i++) {
        sni_body_next_message(body, &in->names, &message);
        struct sn_incoming incoming = {
            .class_id = class_id,
            .kind = (enum sn_letter_kind)message.kind,
            .to_actor = message.to,
            .from_actor = message.from,
            .type = message.type,
            .correlation = message.correlation,
            .deadline_ns = deadline_ns(message.remaining_ms, now_ns),
            .payload = message.payload,
            .payload_size = message.payload_size,
        };
        enum sn_reason reason = delivery->config.ops->deliver(delivery->config.arg, &incoming);
        if (reason == SN_REASON_NONE) {
            delivery->stats.messages_received++;
            continue;
        }
        SN_ASSERT(reason < SN_REASON_COUNT);
        SN_ASSERT(in->exception_count < in->exception_capacity);
        delivery->stats.messages_refused++;
        in->exceptions[in->exception_count++] = (struct sni_exception){
            .sequence = sequence, .index = (uint16_t)i, .reason = (uint8_t)reason};
    }
}

/* The parcel is authentic and the next one. */
static enum sn_err take_body(struct sn_delivery *delivery, enum sn_class class_id,
                             const struct sn_parcel_header *header, const uint8_t *bytes,
                             uint32_t size, uint64_t now_ns)
{
    struct sni_inbox *in = &delivery->in[class_id];
    struct sni_body body;
    uint32_t names_before = in->names.count;
    enum sn_err err = sni_body_parse(bytes, size, &in->names, &body);
    if (err == SN_OK) err = check_body(delivery, class_id, header, &body);
    if (err == SN_OK) err = reserve_exceptions(in, body.message_count);
    if (err != SN_OK) {
        sni_names_cut(&in->names, names_before);
        if (err == SN_EPROTO) delivery->stats.refused_body++;
        return err;
    }
    delivery->stats.parcels_received++;
    take_base(in, body.base);
    /* Answers first: the outcome of a question comes before the reply to it. */
    sni_outbox_take_ack(delivery, &delivery->out[class_id], &body, now_ns);
    if (header->is_ack_only) {
        in->ack_received = header->sequence;
    } else {
        place_messages(delivery, class_id, header->sequence, &body, now_ns);
        in->received = header->sequence;
        in->unacked_bytes += size;
        int is_urgent = in->unacked_bytes >= UNACKED_BYTES_MAX;
        ack_later(in, is_urgent ? now_ns : now_ns + delivery->config.ack_delay_ns);
    }
    return SN_OK;
}

enum sn_err sni_inbox_take(struct sn_delivery *delivery, enum sn_class class_id, uint8_t *bytes,
                           uint32_t size, uint64_t now_ns)
{
    struct sn_parcel_header header;
    enum sn_err err = check_header(delivery, class_id, bytes, size, &header, now_ns);
    if (err != SN_OK) return err;
    uint32_t body_size;
    err = sn_parcel_open(bytes, &header, delivery->seal, &body_size);
    if (err != SN_OK) {
        delivery->stats.refused_auth++;
        return SN_EAUTH;
    }
    return take_body(delivery, class_id, &header, bytes + SN_PARCEL_BODY_AT, body_size, now_ns);
}
