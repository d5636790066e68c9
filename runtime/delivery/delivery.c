/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery between two boots, both classes. How it works:
 *
 * Sequences. Each class numbers its parcels from 1 for every pair of boots. The receiver processes them in order,
 * each once. The sender keeps the sealed bytes until they are acknowledged and sends the same bytes again on a
 * new session with the same boot, or after resend_ns without progress (then 2, 4, 8 and 16 times as long). What a
 * repeated parcel says about the other direction is stale and harmless: acknowledgements are cumulative.
 *
 * Acknowledgements. The highest sequence processed, and the exceptions: letters that were refused. Every
 * acknowledgement carries all exceptions that the sender may not know yet, so any one of them may be lost; the
 * sender's base, in every parcel, tells which ones it knows. They ride on messages, or go in a parcel of their
 * own after ack_delay_ns, which has a sequence of its own and is never acknowledged.
 *
 * Parcels are built when they are asked for: all letters that wait, up to a full parcel. A parcel may leave while
 * less than window_bytes are in flight.
 *
 * Restart of the peer. What flew to the former boot is unknown, what waits goes to the new one; names, sequences
 * and keys start anew. Our own restart is a new object.
 *
 * Guarantees: accepted = delivered + queued + undelivered + unknown, per class, before and after every call.
 */
#include "delivery/delivery.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "delivery/delivery_int.h"

#define DELIVERY_MAGIC SN_MAGIC('D', 'L', 'V', 'R')
#define SEED_BYTES     16u

static struct sn_delivery *checked(struct sn_delivery *delivery)
{
    SN_ASSERT(delivery != NULL);
    SN_ASSERT(delivery->magic == DELIVERY_MAGIC);
    return delivery;
}

void sni_delivery_check(const struct sn_delivery *delivery)
{
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        const struct sni_outbox *out = &delivery->out[i];
        SN_DEBUG_ASSERT(out->accepted == out->settled + out->queue_letters + out->flight_letters);
        SN_DEBUG_ASSERT(out->flight_letters <= out->flight_sent);
        SN_DEBUG_ASSERT(sn_list_is_empty(&out->flight) == (out->flight_parcels == 0));
        (void)out; /* unused without debug assertions */
    }
}

enum sn_err sn_delivery_new(const struct sn_delivery_config *config,
                            struct sn_delivery **out_delivery)
{
    SN_ASSERT(config->ops != NULL && config->key != NULL && config->boot_key != NULL);
    SN_ASSERT(config->random != NULL);
    SN_ASSERT(config->window_bytes > 0 && config->resend_ns > 0);
    struct sn_delivery *delivery = sn_alloc(sizeof *delivery);
    if (delivery == NULL) return SN_ENOMEM;
    delivery->magic = DELIVERY_MAGIC;
    delivery->config = *config;
    sn_heap_init(&delivery->expiry);
    uint8_t seed[SEED_BYTES];
    config->random(config->arg, seed, sizeof seed);
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        sni_outbox_init(&delivery->out[i], seed);
        sni_inbox_init(&delivery->in[i], seed);
    }
    *out_delivery = delivery;
    return SN_OK;
}

void sn_delivery_free(struct sn_delivery *delivery)
{
    if (delivery == NULL) return;
    checked(delivery)->is_closing = 1;
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        sni_outbox_fini(delivery, &delivery->out[i]);
        sni_inbox_fini(&delivery->in[i]);
    }
    sni_delivery_check(delivery);
    sn_heap_fini(&delivery->expiry);
    sn_seal_free(delivery->seal);
    delivery->magic = 0;
    sn_free(delivery, sizeof *delivery);
}

/* A letter that the peer's parser would refuse must not get into a parcel, which would come again for ever. */
static int is_sendable(const struct sn_letter *letter)
{
    const char *names[3] = {letter->to_actor, letter->from_actor, letter->type};
    for (int i = 0; i < 3; i++) {
        size_t size = strnlen(names[i], SN_TYPE_BYTES_MAX + 1);
        if (size > SN_TYPE_BYTES_MAX || !sn_type_is_valid(names[i], size)) return 0;
    }
    return letter->payload_size <= SN_MESSAGE_BYTES_MAX;
}

enum sn_err sn_delivery_enqueue(struct sn_delivery *delivery, struct sn_letter *letter)
{
    SN_ASSERT(checked(delivery)->config.ops != NULL);
    SN_ASSERT(letter->class_id < SN_CLASS_COUNT);
    SN_ASSERT(letter->kind <= SN_LETTER_REPLY);
    if (delivery->is_closing) return SN_ECLOSED;
    if (!is_sendable(letter)) return SN_EINVAL;
    enum sn_err err = sni_outbox_enqueue(delivery, &delivery->out[letter->class_id], letter);
    sni_delivery_check(delivery);
    return err;
}

/* --- Sessions ------------------------------------------------------------------------------------- */

/* The first boot of the peer, or a later one than before. */
static enum sn_err meet_boot(struct sn_delivery *delivery, const struct sn_seal_end *peer)
{
    struct sn_seal *seal;
    enum sn_err err = sn_seal_new(delivery->config.boot_key, &delivery->config.self, peer, &seal);
    if (err != SN_OK) return err;
    sn_seal_free(delivery->seal);
    delivery->seal = seal;
    delivery->peer = *peer;
    delivery->has_peer = 1;
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        sni_inbox_peer_restarted(&delivery->in[i]);
        sni_outbox_peer_restarted(delivery, &delivery->out[i]);
    }
    return SN_OK;
}

enum sn_err sn_delivery_peer_up(struct sn_delivery *delivery, const struct sn_seal_end *peer,
                                uint64_t now_ns)
{
    static const struct sn_key_id nobody;
    (void)checked(delivery); /* for its assertions */
    if (!delivery->has_peer && sn_key_id_is_equal(&delivery->config.peer_id, &nobody)) {
        delivery->config.peer_id = peer->id;
    }
    if (!sn_key_id_is_equal(&peer->id, &delivery->config.peer_id)) return SN_EMISMATCH;
    if (delivery->has_peer && peer->epoch < delivery->peer.epoch) return SN_EREPLAY;
    if (delivery->has_peer && peer->epoch == delivery->peer.epoch) {
        const uint8_t *known = delivery->peer.boot_public;
        if (memcmp(peer->boot_public, known, sizeof peer->boot_public) != 0) return SN_EMISMATCH;
    } else {
        enum sn_err err = meet_boot(delivery, peer);
        if (err != SN_OK) return err;
    }
    delivery->is_up = 1;
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        sni_outbox_resend_all(&delivery->out[i], now_ns);
        delivery->out[i].backoff = 0;
    }
    sni_delivery_check(delivery);
    return SN_OK;
}

void sn_delivery_peer_down(struct sn_delivery *delivery)
{
    checked(delivery)->is_up = 0;
    for (int i = 0; i < SN_CLASS_COUNT; i++) delivery->out[i].resend = NULL;
}

/* --- Parcels -------------------------------------------------------------------------------------- */

enum sn_err sni_delivery_make(struct sn_delivery *delivery, enum sn_class class_id, int is_ack_only,
                              uint64_t sequence, uint8_t *bytes, size_t body_size,
                              uint32_t *out_size)
{
    struct sn_parcel_header header = {
        .class_id = (uint8_t)class_id,
        .is_ack_only = (uint8_t)is_ack_only,
        .source = delivery->config.self.id,
        .destination = delivery->peer.id,
        .source_epoch = delivery->config.self.epoch,
        .destination_epoch = delivery->peer.epoch,
        .sequence = sequence,
    };
    uint8_t nonce[SN_SEAL_NONCE_BYTES];
    delivery->config.random(delivery->config.arg, nonce, sizeof nonce);
    return sn_parcel_make(&header, delivery->seal, delivery->config.key, nonce, bytes,
                          (uint32_t)body_size, out_size);
}

static int is_ack_due(const struct sni_inbox *in, uint64_t now_ns)
{
    return in->is_ack_due && in->ack_due_ns <= now_ns;
}

/* An acknowledgement in a parcel of its own. */
static enum sn_err send_ack(struct sn_delivery *delivery, enum sn_class class_id, uint8_t *bytes,
                            uint32_t *out_size)
{
    struct sni_outbox *out = &delivery->out[class_id];
    struct sni_ack ack = sni_inbox_ack(&delivery->in[class_id]);
    struct sni_writer writer;
    sni_writer_begin(&writer, bytes + SN_PARCEL_BODY_AT, SN_PARCEL_BODY_BYTES_MAX, &ack,
                     sni_outbox_base(out), NULL, 0);
    size_t body_size = sni_writer_end(&writer);
    enum sn_err err = sni_delivery_make(delivery, class_id, 1, out->next_ack_sequence, bytes,
                                        body_size, out_size);
    if (err != SN_OK) return err;
    out->next_ack_sequence++;
    sni_inbox_acked(&delivery->in[class_id]);
    delivery->stats.acks_sent++;
    return SN_OK;
}

static enum sn_err send_letters(struct sn_delivery *delivery, enum sn_class class_id,
                                uint64_t now_ns, uint8_t *bytes, uint32_t *out_size)
{
    struct sni_inbox *in = &delivery->in[class_id];
    struct sni_ack ack = sni_inbox_ack(in);
    int rides = in->is_ack_due && sni_inbox_ack_rides(in);
    enum sn_err err =
        sni_outbox_send(delivery, class_id, rides ? &ack : NULL, now_ns, bytes, out_size);
    if (err == SN_OK && rides) sni_inbox_acked(in);
    return err;
}

/* Again what was lost first, since nothing behind it can be processed; then an acknowledgement that is too large
 * to ride; then letters; then an acknowledgement that found nothing to ride on. */
static enum sn_err next_parcel(struct sn_delivery *delivery, enum sn_class class_id,
                               uint64_t now_ns, uint8_t *bytes, uint32_t *out_size)
{
    struct sni_outbox *out = &delivery->out[class_id];
    struct sni_inbox *in = &delivery->in[class_id];
    if (!delivery->is_up) return SN_ENOENT;
    if (sni_outbox_has_resend(delivery, out, now_ns)) {
        sni_outbox_resend(delivery, out, now_ns, bytes, out_size);
        return SN_OK;
    }
    if (is_ack_due(in, now_ns) && !sni_inbox_ack_rides(in))
        return send_ack(delivery, class_id, bytes, out_size);
    if (sni_outbox_has_letters(delivery, out, now_ns))
        return send_letters(delivery, class_id, now_ns, bytes, out_size);
    if (is_ack_due(in, now_ns)) return send_ack(delivery, class_id, bytes, out_size);
    return SN_ENOENT;
}

enum sn_err sn_delivery_output(struct sn_delivery *delivery, enum sn_class class_id,
                               uint64_t now_ns, uint8_t *out, uint32_t *out_size)
{
    SN_ASSERT(class_id < SN_CLASS_COUNT);
    enum sn_err err = next_parcel(checked(delivery), class_id, now_ns, out, out_size);
    if (err == SN_OK) delivery->stats.parcels_sent++;
    sni_delivery_check(delivery);
    return err;
}

int sn_delivery_has_output(const struct sn_delivery *delivery, enum sn_class class_id,
                           uint64_t now_ns)
{
    SN_ASSERT(delivery->magic == DELIVERY_MAGIC);
    SN_ASSERT(class_id < SN_CLASS_COUNT);
    const struct sni_outbox *out = &delivery->out[class_id];
    if (!delivery->is_up) return 0;
    return is_ack_due(&delivery->in[class_id], now_ns) ||
           sni_outbox_has_resend(delivery, out, now_ns) ||
           sni_outbox_has_letters(delivery, out, now_ns);
}

enum sn_err sn_delivery_input(struct sn_delivery *delivery, enum sn_class class_id, uint8_t *bytes,
                              uint32_t size, uint64_t now_ns)
{
    SN_ASSERT(class_id < SN_CLASS_COUNT);
    enum sn_err err = sni_inbox_take(checked(delivery), class_id, bytes, size, now_ns);
    sni_delivery_check(delivery);
    return err;
}

/* --- Time and figures ----------------------------------------------------------------------------- */

static void take_earlier(uint64_t *next_ns, uint64_t at_ns, uint64_t now_ns)
{
    if (at_ns > now_ns && at_ns < *next_ns) *next_ns = at_ns;
}

uint64_t sn_delivery_tick(struct sn_delivery *delivery, uint64_t now_ns)
{
    sni_outbox_expire(checked(delivery), now_ns);
    struct sn_heap_node *first = sn_heap_first(&delivery->expiry);
    uint64_t next_ns = first == NULL ? UINT64_MAX : first->key;
    for (int i = 0; i < SN_CLASS_COUNT && delivery->is_up; i++) {
        take_earlier(&next_ns, sni_outbox_resend_at(delivery, &delivery->out[i]), now_ns);
        if (delivery->in[i].is_ack_due) take_earlier(&next_ns, delivery->in[i].ack_due_ns, now_ns);
    }
    sni_delivery_check(delivery);
    return next_ns;
}

void sn_delivery_ledger(const struct sn_delivery *delivery, struct sn_ledger *ledger)
{
    SN_ASSERT(delivery->magic == DELIVERY_MAGIC);
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        const struct sni_outbox *out = &delivery->out[i];
        ledger->accepted += out->accepted;
        ledger->delivered += out->delivered;
        ledger->queued += sni_outbox_walk(out);
        for (int reason = 0; reason < SN_REASON_COUNT; reason++) {
            ledger->undelivered[reason] += out->undelivered[reason];
            ledger->unknown[reason] += out->unknown[reason];
        }
    }
}

const struct sn_letter *sn_delivery_oldest(const struct sn_delivery *delivery)
{
    const struct sn_letter *oldest = NULL;
    SN_ASSERT(delivery->magic == DELIVERY_MAGIC);
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        const struct sn_letter *letter = sni_outbox_oldest(&delivery->out[i]);
        if (letter == NULL) continue;
        if (oldest == NULL || letter->queued_ns < oldest->queued_ns) oldest = letter;
    }
    return oldest;
}

void sn_delivery_stats(const struct sn_delivery *delivery, struct sn_delivery_stats *out_stats)
{
    SN_ASSERT(delivery->magic == DELIVERY_MAGIC);
    *out_stats = delivery->stats;
}

int sn_delivery_is_idle(const struct sn_delivery *delivery)
{
    SN_ASSERT(delivery->magic == DELIVERY_MAGIC);
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        const struct sni_outbox *out = &delivery->out[i];
        if (out->queue_letters > 0 || out->flight_parcels > 0) return 0;
        if (delivery->in[i].is_ack_due) return 0;
    }
    return 1;
}
