/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letters of one class on their way out: the queue, and the flight of parcels without an acknowledgement.
 *
 * Guarantees: a letter is told its outcome exactly once, at the moment it leaves queue or flight; parcels leave
 * in order of their sequence and are sent again byte for byte; a failure while one is built changes nothing.
 *
 * A letter whose deadline passes is taken out of its batch: out of the queue it is undelivered, out of the
 * flight unknown, and the parcel itself still is sent again until it is acknowledged, since the letters behind
 * it depend on the sequence. So it still counts as in flight, with all its letters: the peer may refuse each and
 * must keep that. A batch is scanned for expired letters at most once in EXPIRY_GRAIN_NS.
 *
 * `outcome` may enqueue: that only appends to the last batch of a queue, and every loop here allows for it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "delivery/delivery_int.h"

#define EXPIRY_GRAIN_NS 1000000u
#define BACKOFF_MAX                                                                                \
    4u /* without progress the flight is sent again after 1, 2, 4, 8, 16, 16... times resend_ns */

static struct sni_batch *batch_of(struct sn_list *node)
{
    return SN_CONTAINER_OF(node, struct sni_batch, node);
}

static struct sni_flying *flying_of(struct sn_list *node)
{
    return SN_CONTAINER_OF(batch_of(node), struct sni_flying, batch);
}

static struct sn_letter *letter_of(struct sn_list *node)
{
    return SN_CONTAINER_OF(node, struct sn_letter, node);
}

static struct sni_flying *flight_first(const struct sni_outbox *out)
{
    struct sn_list *node = sn_list_first(&out->flight);
    return node == NULL ? NULL : flying_of(node);
}

void sni_outbox_init(struct sni_outbox *out, const uint8_t seed[16])
{
    sn_list_init(&out->queue);
    sn_list_init(&out->flight);
    out->next_sequence = out->next_ack_sequence = 1;
    sni_names_init(&out->names, seed);
}

const struct sn_letter *sni_outbox_oldest(const struct sni_outbox *out)
{
    const struct sn_list *places[2] = {&out->flight, &out->queue};
    for (int i = 0; i < 2; i++) {
        SN_LIST_EACH (node, places[i]) {
            struct sn_list *first = sn_list_first(&batch_of(node)->letters);
            if (first != NULL) return letter_of(first);
        }
    }
    return NULL;
}

uint64_t sni_outbox_walk(const struct sni_outbox *out)
{
    const struct sn_list *places[2] = {&out->queue, &out->flight};
    uint64_t count = 0;
    for (int i = 0; i < 2; i++) {
        SN_LIST_EACH (node, places[i]) {
            SN_LIST_EACH (it, &batch_of(node)->letters) count++;
        }
    }
    return count;
}

/* The letter has left its batch and the counters of queue or flight. */
static void settle(struct sn_delivery *delivery, struct sni_outbox *out, struct sn_letter *letter,
                   enum sn_outcome outcome, enum sn_reason reason)
{
    SN_ASSERT(!letter->is_settled);
    letter->is_settled = 1;
    out->settled++;
    switch (outcome) {
    case SN_DELIVERED: out->delivered++; break;
    case SN_UNDELIVERED: out->undelivered[reason]++; break;
    case SN_UNKNOWN: out->unknown[reason]++; break;
    }
    delivery->config.ops->outcome(delivery->config.arg, letter, outcome, reason);
}

static void leave(struct sni_outbox *out, const struct sni_batch *batch, struct sn_letter *letter)
{
    sn_list_remove(&letter->node);
    if (batch->is_sent) {
        SN_DEBUG_ASSERT(out->flight_letters > 0);
        out->flight_letters--;
    } else {
        SN_DEBUG_ASSERT(out->queue_letters > 0);
        out->queue_letters--;
        out->queue_bytes -= sn_letter_cost(letter);
    }
}

/* --- The queue ------------------------------------------------------------------------------------ */

static enum sn_err batch_init(struct sn_delivery *delivery, struct sni_batch *batch,
                              uint8_t class_id, uint8_t is_sent, uint64_t key)
{
    *batch = (struct sni_batch){.class_id = class_id, .is_sent = is_sent};
    sn_list_init(&batch->letters);
    return sn_heap_insert(&delivery->expiry, &batch->expiry, key);
}

static void queue_batch_free(struct sn_delivery *delivery, struct sni_batch *batch)
{
    SN_ASSERT(sn_list_is_empty(&batch->letters));
    sn_heap_remove(&delivery->expiry, &batch->expiry);
    sn_list_remove(&batch->node);
    sn_free(batch, sizeof *batch);
}

static int is_tail(const struct sni_outbox *out, const struct sni_batch *batch)
{
    return out->queue.prev == &batch->node;
}

/* The batch that the next letter joins; NULL when there is no memory for another one. */
static struct sni_batch *queue_tail(struct sn_delivery *delivery, struct sni_outbox *out,
                                    uint8_t class_id)
{
    if (!sn_list_is_empty(&out->queue)) {
        struct sni_batch *tail = batch_of(out->queue.prev);
        if (sn_list_is_empty(&tail->letters)) out->tail_letters = 0;
        if (out->tail_letters < SNI_BATCH_LETTERS) return tail;
    }
    struct sni_batch *batch = sn_alloc(sizeof *batch);
    if (batch == NULL) return NULL;
    if (batch_init(delivery, batch, class_id, 0, UINT64_MAX) != SN_OK) {
        sn_free(batch, sizeof *batch);
        return NULL;
    }
    sn_list_push(&out->queue, &batch->node);
    out->tail_letters = 0;
    return batch;
}

enum sn_err sni_outbox_enqueue(struct sn_delivery *delivery, struct sni_outbox *out,
                               struct sn_letter *letter)
{
    uint32_t cost = sn_letter_cost(letter);
    if (out->queue_letters >= delivery->config.queue_letters_max) return SN_EFULL;
    if (out->queue_bytes + cost > delivery->config.queue_bytes_max) return SN_EFULL;
    struct sni_batch *batch = queue_tail(delivery, out, letter->class_id);
    if (batch == NULL) return SN_ENOMEM;
    letter->sequence = 0;
    letter->index = 0;
    letter->is_settled = 0;
    sn_list_push(&batch->letters, &letter->node);
    if (letter->deadline_ns != 0 && letter->deadline_ns < batch->expiry.key)
        sn_heap_update(&delivery->expiry, &batch->expiry, letter->deadline_ns);
    out->tail_letters++;
    out->queue_letters++;
    out->queue_bytes += cost;
    out->accepted++;
    return SN_OK;
}

static int is_expired(const struct sn_letter *letter, uint64_t now_ns)
{
    return letter->deadline_ns != 0 && letter->deadline_ns <= now_ns;
}

/* --- The flight ----------------------------------------------------------------------------------- */

static void flying_free(struct sn_delivery *delivery, struct sni_outbox *out,
                        struct sni_flying *flying)
{
    SN_ASSERT(sn_list_is_empty(&flying->batch.letters));
    if (out->resend == flying) {
        struct sn_list *next = flying->batch.node.next;
        out->resend = next == &out->flight ? NULL : flying_of(next);
    }
    sn_heap_remove(&delivery->expiry, &flying->batch.expiry);
    sn_list_remove(&flying->batch.node);
    SN_ASSERT(out->flight_parcels > 0);
    out->flight_parcels--;
    SN_ASSERT(out->flight_sent >= flying->letter_count);
    out->flight_sent -= flying->letter_count;
    out->flight_bytes -= flying->size;
    sn_free(flying, sizeof *flying + flying->size);
}

static void flight_settle_all(struct sn_delivery *delivery, struct sni_outbox *out,
                              enum sn_reason reason)
{
    for (struct sni_flying *flying; (flying = flight_first(out)) != NULL;) {
        for (struct sn_list *node; (node = sn_list_first(&flying->batch.letters)) != NULL;) {
            leave(out, &flying->batch, letter_of(node));
            settle(delivery, out, letter_of(node), SN_UNKNOWN, reason);
        }
        flying_free(delivery, out, flying);
    }
    SN_ASSERT(out->flight_bytes == 0);
    SN_ASSERT(out->flight_letters == 0);
    SN_ASSERT(out->flight_sent == 0);
}

void sni_outbox_peer_restarted(struct sn_delivery *delivery, struct sni_outbox *out)
{
    flight_settle_all(delivery, out, SN_REASON_PEER_RESTARTED);
    sni_names_cut(&out->names, 0);
    out->next_sequence = out->next_ack_sequence = 1;
    out->backoff = 0;
}

void sni_outbox_fini(struct sn_delivery *delivery, struct sni_outbox *out)
{
    flight_settle_all(delivery, out, SN_REASON_SHUTDOWN);
    for (struct sn_list *node; (node = sn_list_first(&out->queue)) != NULL;) {
        struct sni_batch *batch = batch_of(node);
        for (struct sn_list *it; (it = sn_list_first(&batch->letters)) != NULL;) {
            leave(out, batch, letter_of(it));
            settle(delivery, out, letter_of(it), SN_UNDELIVERED, SN_REASON_SHUTDOWN);
        }
        queue_batch_free(delivery, batch);
    }
    SN_ASSERT(out->queue_letters == 0);
    SN_ASSERT(out->queue_bytes == 0);
    sni_names_fini(&out->names);
}

uint64_t sni_outbox_base(const struct sni_outbox *out)
{
    const struct sni_flying *first = flight_first(out);
    return first == NULL ? out->next_sequence : first->sequence;
}

/* --- Sending -------------------------------------------------------------------------------------- */

void sni_outbox_resend_all(struct sni_outbox *out, uint64_t now_ns)
{
    out->resend = flight_first(out);
    out->progress_ns = now_ns;
}

uint64_t sni_outbox_resend_at(const struct sn_delivery *delivery, const struct sni_outbox *out)
{
    if (!delivery->is_up || out->flight_parcels == 0 || out->resend != NULL) return UINT64_MAX;
    return out->progress_ns + (delivery->config.resend_ns << out->backoff);
}

int sni_outbox_has_resend(const struct sn_delivery *delivery, const struct sni_outbox *out,
                          uint64_t now_ns)
{
    return out->resend != NULL || sni_outbox_resend_at(delivery, out) <= now_ns;
}

void sni_outbox_resend(struct sn_delivery *delivery, struct sni_outbox *out, uint64_t now_ns,
                       uint8_t *bytes, uint32_t *out_size)
{
    if (out->resend == NULL) {
        sni_outbox_resend_all(out, now_ns);
        if (out->backoff < BACKOFF_MAX) out->backoff++;
    }
    struct sni_flying *flying = out->resend;
    SN_ASSERT(flying != NULL);
    memcpy(bytes, flying->bytes, flying->size);
    *out_size = flying->size;
    struct sn_list *next = flying->batch.node.next;
    out->resend = next == &out->flight ? NULL : flying_of(next);
    delivery->stats.parcels_resent++;
}

/* A parcel may leave while less than a window is in flight, so that at most the window and one more parcel
 * are kept. */
static int window_is_open(const struct sn_delivery *delivery, const struct sni_outbox *out)
{
    return out->flight_bytes < delivery->config.window_bytes &&
           out->flight_parcels < SNI_FLIGHT_PARCELS_MAX &&
           out->flight_sent < SNI_FLIGHT_LETTERS_MAX;
}

int sni_outbox_has_letters(const struct sn_delivery *delivery, const struct sni_outbox *out,
                           uint64_t now_ns)
{
    if (out->queue_letters == 0 || !window_is_open(delivery, out)) return 0;
    SN_LIST_EACH (node, &out->queue) {
        SN_LIST_EACH (it, &batch_of(node)->letters) {
            if (!is_expired(letter_of(it), now_ns)) return 1;
        }
    }
    return 0;
}

/* Writes letters from the front of the queue until the parcel is full; they stay where they are. Expired ones
 * are settled, so that afterwards the letters written are the first ones of the queue. */
static void write_letters(struct sn_delivery *delivery, struct sni_outbox *out,
                          struct sni_writer *writer, uint64_t *out_earliest_ns)
{
    uint32_t room = SNI_FLIGHT_LETTERS_MAX - out->flight_sent;
    *out_earliest_ns = UINT64_MAX;
    SN_LIST_EACH (node, &out->queue) {
        struct sni_batch *batch = batch_of(node);
        SN_LIST_EACH_SAFE (it, &batch->letters) {
            struct sn_letter *letter = letter_of(it);
            if (is_expired(letter, writer->now_ns)) {
                leave(out, batch, letter);
                settle(delivery, out, letter, SN_UNDELIVERED, SN_REASON_DEADLINE);
                continue;
            }
            if (writer->message_count == room || !sni_writer_has_room(writer, letter)) return;
            sni_writer_add(writer, letter);
            if (letter->deadline_ns != 0 && letter->deadline_ns < *out_earliest_ns)
                *out_earliest_ns = letter->deadline_ns;
        }
    }
}

/* Moves the first letters of the queue into the parcel. */
static void take_letters(struct sn_delivery *delivery, struct sni_outbox *out,
                         struct sni_flying *flying)
{
    uint32_t index = 0;
    while (index < flying->letter_count) {
        struct sni_batch *batch = batch_of(out->queue.next);
        struct sn_list *node = sn_list_first(&batch->letters);
        if (node == NULL) {
            SN_ASSERT(!is_tail(out, batch));
            queue_batch_free(delivery, batch);
            continue;
        }
        struct sn_letter *letter = letter_of(node);
        leave(out, batch, letter);
        letter->sequence = flying->sequence;
        letter->index = index++;
        sn_list_push(&flying->batch.letters, &letter->node);
    }
    out->flight_letters += index;
}

static struct sni_flying *flying_new(struct sn_delivery *delivery, enum sn_class class_id,
                                     uint32_t size, uint64_t earliest_ns)
{
    struct sni_flying *flying = sn_alloc_raw(sizeof *flying + size);
    if (flying == NULL) return NULL;
    flying->size = size;
    flying->sequence = delivery->out[class_id].next_sequence;
    enum sn_err err = batch_init(delivery, &flying->batch, (uint8_t)class_id, 1, earliest_ns);
    if (err == SN_OK) return flying;
    sn_free(flying, sizeof *flying + size);
    return NULL;
}

static void commit(struct sn_delivery *delivery, struct sni_outbox *out, struct sni_flying *flying,
                   uint64_t now_ns)
{
    if (out->flight_parcels == 0) {
        out->progress_ns = now_ns;
        out->backoff = 0;
    }
    sn_list_push(&out->flight, &flying->batch.node);
    out->flight_parcels++;
    out->flight_sent += flying->letter_count;
    out->flight_bytes += flying->size;
    out->next_sequence++;
    take_letters(delivery, out, flying);
}

enum sn_err sni_outbox_send(struct sn_delivery *delivery, enum sn_class class_id,
                            const struct sni_ack *ack, uint64_t now_ns, uint8_t *bytes,
                            uint32_t *out_size)
{
    struct sni_outbox *out = &delivery->out[class_id];
    struct sni_writer writer;
    uint64_t earliest_ns;
    uint32_t names_before = out->names.count;
    sni_writer_begin(&writer, bytes + SN_PARCEL_BODY_AT, SN_PARCEL_BODY_BYTES_MAX, ack,
                     sni_outbox_base(out), &out->names, now_ns);
    write_letters(delivery, out, &writer, &earliest_ns);
    if (writer.message_count == 0) return SN_ENOENT;
    size_t body_size = sni_writer_end(&writer);

    uint32_t size = (uint32_t)body_size + SN_PARCEL_HEADER_BYTES + SN_SEAL_OVERHEAD;
    struct sni_flying *flying = flying_new(delivery, class_id, size, earliest_ns);
    enum sn_err err = flying == NULL ? SN_ENOMEM : SN_OK;
    if (err == SN_OK)
        err = sni_delivery_make(delivery, class_id, 0, flying->sequence, bytes, body_size, &size);
    if (err != SN_OK) {
        sni_names_cut(&out->names, names_before);
        if (flying == NULL) return err;
        sn_heap_remove(&delivery->expiry, &flying->batch.expiry);
        sn_free(flying, sizeof *flying + flying->size);
        return err;
    }
    SN_ASSERT(size == flying->size);
    memcpy(flying->bytes, bytes, size);
    flying->letter_count = writer.message_count;
    commit(delivery, out, flying, now_ns);
    *out_size = size;
    return SN_OK;
}

/* --- Answers -------------------------------------------------------------------------------------- */

enum sn_err sni_outbox_check_ack(const struct sni_outbox *out, const struct sni_body *body)
{
    if (!body->has_ack) return SN_OK;
    if (body->acked >= out->next_sequence) return SN_EPROTO;
    struct sni_exception_walk walk;
    sni_exception_walk_init(&walk, body);
    struct sn_list *node = out->flight.next;
    while (sni_exception_walk_next(&walk)) {
        while (node != &out->flight && flying_of(node)->sequence < walk.at.sequence)
            node = node->next;
        if (node == &out->flight) return SN_OK;
        /* Those of parcels that were settled before tell nothing new. */
        const struct sni_flying *flying = flying_of(node);
        if (flying->sequence == walk.at.sequence && walk.at.index >= flying->letter_count)
            return SN_EPROTO;
    }
    return SN_OK;
}

/* Settles the letters of one parcel; `walk` stands at the first exception not yet used, if `*has` is set. */
static void settle_flying(struct sn_delivery *delivery, struct sni_outbox *out,
                          struct sni_flying *flying, struct sni_exception_walk *walk, int *has)
{
    while (*has && walk->at.sequence < flying->sequence) *has = sni_exception_walk_next(walk);
    for (struct sn_list *node; (node = sn_list_first(&flying->batch.letters)) != NULL;) {
        struct sn_letter *letter = letter_of(node);
        while (*has && walk->at.sequence == flying->sequence && walk->at.index < letter->index)
            *has = sni_exception_walk_next(walk);
        int is_refused =
            *has && walk->at.sequence == flying->sequence && walk->at.index == letter->index;
        leave(out, &flying->batch, letter);
        if (is_refused) {
            settle(delivery, out, letter, SN_UNDELIVERED, (enum sn_reason)walk->at.reason);
        } else {
            settle(delivery, out, letter, SN_DELIVERED, SN_REASON_NONE);
        }
    }
}

void sni_outbox_take_ack(struct sn_delivery *delivery, struct sni_outbox *out,
                         const struct sni_body *body, uint64_t now_ns)
{
    if (!body->has_ack) return;
    struct sni_exception_walk walk;
    sni_exception_walk_init(&walk, body);
    int has = sni_exception_walk_next(&walk);
    for (struct sni_flying *flying; (flying = flight_first(out)) != NULL;) {
        if (flying->sequence > body->acked) break;
        settle_flying(delivery, out, flying, &walk, &has);
        flying_free(delivery, out, flying);
        out->progress_ns = now_ns;
        out->backoff = 0;
    }
}

/* --- Deadlines ------------------------------------------------------------------------------------ */

static void expire_batch(struct sn_delivery *delivery, struct sni_batch *batch, uint64_t now_ns)
{
    struct sni_outbox *out = &delivery->out[batch->class_id];
    enum sn_outcome outcome = batch->is_sent ? SN_UNKNOWN : SN_UNDELIVERED;
    uint64_t earliest_ns = UINT64_MAX;
    /* From here on the key tells what `outcome` may have added. */
    sn_heap_update(&delivery->expiry, &batch->expiry, UINT64_MAX);
    SN_LIST_EACH_SAFE (it, &batch->letters) {
        struct sn_letter *letter = letter_of(it);
        if (is_expired(letter, now_ns)) {
            leave(out, batch, letter);
            settle(delivery, out, letter, outcome, SN_REASON_DEADLINE);
        } else if (letter->deadline_ns != 0 && letter->deadline_ns < earliest_ns) {
            earliest_ns = letter->deadline_ns;
        }
    }
    if (batch->expiry.key < earliest_ns) earliest_ns = batch->expiry.key;
    if (earliest_ns < now_ns + EXPIRY_GRAIN_NS) earliest_ns = now_ns + EXPIRY_GRAIN_NS;
    sn_heap_update(&delivery->expiry, &batch->expiry, earliest_ns);
    if (!batch->is_sent && sn_list_is_empty(&batch->letters) && !is_tail(out, batch))
        queue_batch_free(delivery, batch);
}

void sni_outbox_expire(struct sn_delivery *delivery, uint64_t now_ns)
{
    for (;;) {
        struct sn_heap_node *node = sn_heap_first(&delivery->expiry);
        if (node == NULL || node->key > now_ns) break;
        expire_batch(delivery, SN_CONTAINER_OF(node, struct sni_batch, expiry), now_ns);
    }
}
