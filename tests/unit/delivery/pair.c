/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/delivery/pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "unit/rng.h"

static void fill_random(void *arg, void *out, size_t size)
{
    struct node *node = arg;
    uint8_t *bytes = out;
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)rng_next(&node->rng);
}

static uint32_t number_of(const uint8_t *payload)
{
    uint32_t number;
    memcpy(&number, payload, sizeof number);
    return number;
}

static enum sn_reason deliver(void *arg, const struct sn_incoming *incoming)
{
    struct node *node = arg;
    uint32_t number = number_of(incoming->payload);
    struct record *record = &node->other->records[number];
    enum sn_reason reason = node->answer == NULL ? SN_REASON_NONE : node->answer(node, incoming);
    assert_true(incoming->payload_size >= 4);
    for (uint32_t i = 4; i < incoming->payload_size; i++)
        assert_int_equal(incoming->payload[i], (uint8_t)(number + i));
    /* In order, and so never twice. */
    assert_true(number + 1 > node->last_placed[incoming->class_id]);
    node->last_placed[incoming->class_id] = number + 1;
    assert_int_equal(record->placed, 0);
    assert_int_equal(record->refused, 0);
    if (reason == SN_REASON_NONE) {
        record->placed++;
        node->placed++;
    }
    record->refused = (uint8_t)reason;
    node->last_size = incoming->payload_size;
    node->last_deadline_ns = incoming->deadline_ns;
    node->last_correlation = incoming->correlation;
    node->last_kind = incoming->kind;
    snprintf(node->last_to, sizeof node->last_to, "%s", incoming->to_actor);
    snprintf(node->last_from, sizeof node->last_from, "%s", incoming->from_actor);
    snprintf(node->last_type, sizeof node->last_type, "%s", incoming->type);
    return reason;
}

static void outcome(void *arg, struct sn_letter *letter, enum sn_outcome how, enum sn_reason why)
{
    struct node *node = arg;
    struct record *record = &node->records[letter->token];
    assert_int_equal(record->is_accepted, 1);
    record->outcomes++;
    record->outcome = (uint8_t)how;
    record->reason = (uint8_t)why;
    node->outcomes++;
    if (how == SN_DELIVERED) assert_int_equal(why, SN_REASON_NONE);
    if (how != SN_DELIVERED) assert_int_not_equal(why, SN_REASON_NONE);
    if (node->on_outcome != NULL) node->on_outcome(node, letter);
    sn_letter_free(letter);
}

static const struct sn_delivery_ops ops = {.deliver = deliver, .outcome = outcome};

static void start(struct node *node)
{
    uint8_t seed[32];
    fill_random(node, seed, sizeof seed);
    assert_int_equal(sn_boot_key_from_seed(seed, &node->boot_key), SN_OK);
    node->end.epoch++;
    sn_boot_key_public(node->boot_key, node->end.boot_public);
    node->config.boot_key = node->boot_key;
    node->config.self = node->end;
    assert_int_equal(sn_delivery_new(&node->config, &node->delivery), SN_OK);
}

static void stop(struct node *node)
{
    uint64_t queued;
    struct sn_ledger ledger = {0};
    sn_delivery_ledger(node->delivery, &ledger);
    queued = ledger.queued;
    uint64_t before = node->outcomes;
    sn_delivery_ledger(node->delivery, &node->former);
    node->former.queued -= queued;
    /* What is settled now is counted by the outcomes told, as unknown or undelivered{shutdown}. */
    sn_delivery_free(node->delivery);
    assert_int_equal(node->outcomes - before, queued);
    node->former.undelivered[SN_REASON_SHUTDOWN] += queued;
    sn_boot_key_free(node->boot_key);
    node->delivery = NULL;
}

static void node_init(struct node *node, struct node *other, uint64_t seed,
                      void (*tune)(struct sn_delivery_config *config))
{
    uint8_t key_seed[32];
    node->other = other;
    node->rng = seed;
    node->records = calloc(NUMBERS_MAX, sizeof *node->records);
    assert_non_null(node->records);
    fill_random(node, key_seed, sizeof key_seed);
    assert_int_equal(sn_key_from_seed(key_seed, &node->key), SN_OK);
    node->end.id = sn_key_id(node->key);
    node->end.epoch = 1000;
    node->config = (struct sn_delivery_config){
        .ops = &ops,
        .arg = node,
        .key = node->key,
        .random = fill_random,
        .queue_bytes_max = SN_DELIVERY_QUEUE_BYTES,
        .queue_letters_max = SN_DELIVERY_QUEUE_MESSAGES,
        .window_bytes = SN_DELIVERY_WINDOW_BYTES,
        .ack_delay_ns = MS,
        .resend_ns = 200 * MS,
    };
    if (tune != NULL) tune(&node->config);
}

void pair_init(struct pair *pair, uint64_t seed, void (*tune)(struct sn_delivery_config *config))
{
    memset(pair, 0, sizeof *pair);
    assert_int_equal(sn_crypto_init(), SN_OK);
    node_init(&pair->a, &pair->b, seed, tune);
    node_init(&pair->b, &pair->a, seed + 0x5eed, tune);
    pair->a.config.peer_id = pair->b.end.id;
    pair->b.config.peer_id = pair->a.end.id;
    start(&pair->a);
    start(&pair->b);
}

static void node_fini(struct node *node)
{
    stop(node);
    node_check_final(node);
    sn_key_free(node->key);
    free(node->records);
}

void pair_fini(struct pair *pair)
{
    node_fini(&pair->a);
    node_fini(&pair->b);
}

void node_restart(struct node *node)
{
    stop(node);
    start(node);
}

void pair_up(struct pair *pair, uint64_t now_ns)
{
    assert_int_equal(sn_delivery_peer_up(pair->a.delivery, &pair->b.end, now_ns), SN_OK);
    assert_int_equal(sn_delivery_peer_up(pair->b.delivery, &pair->a.end, now_ns), SN_OK);
}

void pair_down(struct pair *pair)
{
    sn_delivery_peer_down(pair->a.delivery);
    sn_delivery_peer_down(pair->b.delivery);
}

struct sn_letter *node_letter(struct node *node, enum sn_class class_id, uint32_t size,
                              uint64_t deadline_ns)
{
    static uint8_t payload[SN_MESSAGE_BYTES_MAX]; /* too large for the stack */
    uint32_t number = node->next_number++;
    assert_true(number < NUMBERS_MAX && size >= 4);
    memcpy(payload, &number, sizeof number);
    for (uint32_t i = 4; i < size; i++) payload[i] = (uint8_t)(number + i);
    struct sn_letter_fields fields = {.from_agent = "",
                                      .from_actor = "asker",
                                      .to_agent = "paris/hub",
                                      .to_actor = "echo",
                                      .type = "echo.say",
                                      .payload = payload,
                                      .payload_size = size};
    struct sn_letter *letter;
    assert_int_equal(sn_letter_new(&fields, &letter), SN_OK);
    letter->token = number;
    letter->class_id = (uint8_t)class_id;
    letter->deadline_ns = deadline_ns;
    return letter;
}

enum sn_err node_send(struct node *node, enum sn_class class_id, uint32_t size,
                      uint64_t deadline_ns)
{
    struct sn_letter *letter = node_letter(node, class_id, size, deadline_ns);
    node->records[letter->token].is_accepted = 1;
    enum sn_err err = sn_delivery_enqueue(node->delivery, letter);
    if (err == SN_OK) return SN_OK;
    node->records[letter->token].is_accepted = 0;
    sn_letter_free(letter);
    return err;
}

uint32_t node_pump(struct node *from, uint64_t now_ns)
{
    static uint8_t bytes[SN_PARCEL_BYTES_MAX]; /* too large for the stack */
    uint32_t size, count = 0;
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        enum sn_class class_id = (enum sn_class)i;
        while (sn_delivery_has_output(from->delivery, class_id, now_ns)) {
            assert_int_equal(sn_delivery_output(from->delivery, class_id, now_ns, bytes, &size),
                             SN_OK);
            assert_int_equal(
                sn_delivery_input(from->other->delivery, class_id, bytes, size, now_ns), SN_OK);
            count++;
        }
        assert_int_equal(sn_delivery_output(from->delivery, class_id, now_ns, bytes, &size),
                         SN_ENOENT);
    }
    return count;
}

uint64_t pair_settle(struct pair *pair, uint64_t now_ns)
{
    for (int round = 0; round < 1000; round++, now_ns += MS) {
        (void)node_pump(&pair->a, now_ns); /* how many does not matter */
        (void)node_pump(&pair->b, now_ns);
        node_check(&pair->a);
        node_check(&pair->b);
        if (sn_delivery_is_idle(pair->a.delivery) && sn_delivery_is_idle(pair->b.delivery))
            return now_ns;
    }
    fail_msg("it does not come to rest");
    return now_ns;
}

void node_check(const struct node *node)
{
    struct sn_ledger ledger = node->former;
    if (node->delivery != NULL) sn_delivery_ledger(node->delivery, &ledger);
    uint64_t told = ledger.delivered;
    for (int i = 0; i < SN_REASON_COUNT; i++) told += ledger.undelivered[i] + ledger.unknown[i];
    assert_int_equal(ledger.accepted, told + ledger.queued);
    assert_int_equal(told, node->outcomes);
}

void node_check_final(const struct node *node)
{
    uint64_t accepted = 0;
    node_check(node);
    for (uint32_t i = 0; i < node->next_number; i++) {
        const struct record *record = &node->records[i];
        accepted += record->is_accepted;
        assert_int_equal(record->outcomes, record->is_accepted);
        assert_true(record->placed <= 1);
        if (record->outcome == SN_DELIVERED) assert_int_equal(record->placed, 1);
        if (record->outcome == SN_UNDELIVERED) assert_int_equal(record->placed, 0);
        if (record->outcome == SN_UNDELIVERED && record->refused)
            assert_int_equal(record->reason, record->refused);
        if (!record->is_accepted) assert_int_equal(record->placed + record->refused, 0);
    }
    assert_int_equal(accepted, node->outcomes);
}
