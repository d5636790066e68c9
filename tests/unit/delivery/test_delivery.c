/* SPDX-License-Identifier: Apache-2.0 */
/* What delivery promises its two owners: outcomes, order, windows, deadlines, restarts, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "delivery/parcel.h"
#include "unit/delivery/pair.h"

#define APP SN_CLASS_APPLICATION
#define NOW (1000 * MS)

static struct pair pair;
static uint8_t parcel[SN_PARCEL_BYTES_MAX]; /* too large for the stack */

static int setup(void **state)
{
    (void)state;
    pair_init(&pair, 1, NULL);
    pair_up(&pair, NOW);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pair_fini(&pair);
    assert_int_equal(sn_alloc_in_use(), 0);
    return 0;
}

static void send_many(struct node *node, uint32_t count, uint32_t size)
{
    for (uint32_t i = 0; i < count; i++) assert_int_equal(node_send(node, APP, size, 0), SN_OK);
}

static uint32_t output(struct node *node, uint64_t now_ns)
{
    uint32_t size;
    assert_int_equal(sn_delivery_output(node->delivery, APP, now_ns, parcel, &size), SN_OK);
    return size;
}

static enum sn_err input(struct node *node, uint32_t size, uint64_t now_ns)
{
    return sn_delivery_input(node->delivery, APP, parcel, size, now_ns);
}

static void expect(const struct node *node, uint32_t number, enum sn_outcome outcome,
                   enum sn_reason reason)
{
    assert_int_equal(node->records[number].outcomes, 1);
    assert_int_equal(node->records[number].outcome, outcome);
    assert_int_equal(node->records[number].reason, reason);
}

static void one_message_goes_and_is_acknowledged(void **state)
{
    (void)state;
    struct sn_letter *letter = node_letter(&pair.a, APP, 100, NOW + 30 * MS);
    letter->kind = SN_LETTER_ASK;
    letter->correlation = 42;
    pair.a.records[0].is_accepted = 1;
    assert_int_equal(sn_delivery_enqueue(pair.a.delivery, letter), SN_OK);
    assert_false(sn_delivery_is_idle(pair.a.delivery));
    assert_int_equal(node_pump(&pair.a, NOW), 1);
    assert_int_equal(pair.b.placed, 1);
    assert_int_equal(pair.b.last_size, 100);
    assert_int_equal(pair.b.last_kind, SN_LETTER_ASK);
    assert_int_equal(pair.b.last_correlation, 42);
    assert_int_equal(pair.b.last_deadline_ns, NOW + 30 * MS);
    assert_string_equal(pair.b.last_to, "echo");
    assert_string_equal(pair.b.last_from, "asker");
    assert_string_equal(pair.b.last_type, "echo.say");
    assert_int_equal(pair.a.outcomes, 0);
    /* The acknowledgement waits for something to ride on, but not for long. */
    assert_int_equal(sn_delivery_tick(pair.b.delivery, NOW), NOW + MS);
    assert_int_equal(node_pump(&pair.b, NOW + MS - 1), 0);
    assert_int_equal(node_pump(&pair.b, NOW + MS), 1);
    expect(&pair.a, 0, SN_DELIVERED, SN_REASON_NONE);
    assert_true(sn_delivery_is_idle(pair.a.delivery));
    assert_true(sn_delivery_is_idle(pair.b.delivery));
    assert_int_equal(sn_delivery_tick(pair.b.delivery, NOW + MS), UINT64_MAX);
}

static void many_share_a_parcel_and_acknowledgements_ride(void **state)
{
    (void)state;
    struct sn_delivery_stats stats;
    send_many(&pair.a, 1000, 128);
    send_many(&pair.b, 10, 128);
    assert_int_equal(node_pump(&pair.a, NOW), 1);
    assert_int_equal(node_pump(&pair.b, NOW), 1); /* messages and acknowledgement */
    assert_int_equal(pair.a.outcomes, 1000);
    sn_delivery_stats(pair.b.delivery, &stats);
    assert_int_equal(stats.acks_sent, 0);
    assert_int_equal(stats.messages_received, 1000);
    (void)pair_settle(&pair, NOW); /* the time does not matter */
}

static void the_largest_message_fits(void **state)
{
    (void)state;
    assert_int_equal(node_send(&pair.a, APP, SN_MESSAGE_BYTES_MAX, 0), SN_OK);
    assert_int_equal(node_send(&pair.a, APP, SN_MESSAGE_BYTES_MAX - 1, 0), SN_OK);
    assert_int_equal(node_pump(&pair.a, NOW), 2);
    assert_int_equal(pair.b.placed, 2);
}

static void what_the_peer_could_not_read_is_not_taken(void **state)
{
    (void)state;
    static const char long_name[] = "0123456789012345678901234567890123456789"
                                    "0123456789012345678901234";
    const char *const names[] = {"\xff", "", "a b", "a\n", long_name};
    for (unsigned i = 0; i < SN_ARRAY_COUNT(names); i++) {
        struct sn_letter_fields fields = {.from_agent = "",
                                          .from_actor = "me",
                                          .to_agent = "",
                                          .to_actor = "echo",
                                          .type = names[i]};
        struct sn_letter *letter;
        assert_int_equal(sn_letter_new(&fields, &letter), SN_OK);
        assert_int_equal(sn_delivery_enqueue(pair.a.delivery, letter), SN_EINVAL);
        sn_letter_free(letter);
    }
}

static void small_queue(struct sn_delivery_config *config)
{
    config->queue_letters_max = 3;
    config->queue_bytes_max = 10000;
}

static void a_full_queue_refuses(void **state)
{
    (void)state;
    struct pair full;
    pair_init(&full, 2, small_queue);
    for (int i = 0; i < 3; i++) assert_int_equal(node_send(&full.a, APP, 100, 0), SN_OK);
    assert_int_equal(node_send(&full.a, APP, 100, 0), SN_EFULL);
    assert_int_equal(node_send(&full.a, SN_CLASS_CONTROL, 100, 0), SN_OK);
    assert_int_equal(node_send(&full.a, SN_CLASS_CONTROL, 20000, 0), SN_EFULL);
    pair_up(&full, NOW);
    (void)node_pump(&full.a, NOW); /* two parcels */
    assert_int_equal(node_send(&full.a, APP, 100, 0), SN_OK);
    (void)pair_settle(&full, NOW); /* the time does not matter */
    pair_fini(&full);
}

static void small_window(struct sn_delivery_config *config)
{
    config->window_bytes = 3000;
}

static void the_window_closes_and_opens(void **state)
{
    (void)state;
    struct pair narrow;
    uint32_t size;
    pair_init(&narrow, 3, small_window);
    pair_up(&narrow, NOW);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(node_send(&narrow.a, APP, 800, 0), SN_OK);
        assert_int_equal(node_pump(&narrow.a, NOW), 1);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(node_send(&narrow.a, APP, 800, 0), SN_OK);
    assert_int_equal(node_pump(&narrow.a, NOW), 1); /* the one that closes it */
    assert_int_equal(node_send(&narrow.a, APP, 800, 0), SN_OK);
    assert_false(sn_delivery_has_output(narrow.a.delivery, APP, NOW));
    assert_int_equal(sn_delivery_output(narrow.a.delivery, APP, NOW, parcel, &size), SN_ENOENT);
    assert_int_equal(node_pump(&narrow.b, NOW + MS), 1);
    assert_int_equal(node_pump(&narrow.a, NOW + MS), 1);
    (void)pair_settle(&narrow, NOW + MS); /* the time does not matter */
    assert_int_equal(narrow.b.placed, 7);
    pair_fini(&narrow);
}

static void letters_in_flight_are_bounded(void **state)
{
    (void)state;
    send_many(&pair.a, 40000, 4);
    uint32_t parcels = node_pump(&pair.a, NOW);
    assert_int_equal(parcels, 8); /* of 4,096 letters */
    assert_int_equal(pair.b.placed, 32768);
    assert_int_equal(node_pump(&pair.b, NOW + MS), 1);
    assert_int_equal(node_pump(&pair.a, NOW + MS), 2);
    assert_int_equal(pair.b.placed, 40000);
}

static void without_progress_it_is_sent_again_more_and_more_slowly(void **state)
{
    (void)state;
    struct sn_delivery_stats stats;
    send_many(&pair.a, 1, 100);
    (void)output(&pair.a, NOW); /* lost */
    uint64_t now_ns = NOW;
    static const uint64_t factors[] = {1, 2, 4, 8, 16, 16};
    for (unsigned i = 0; i < SN_ARRAY_COUNT(factors); i++) {
        uint64_t next_ns = sn_delivery_tick(pair.a.delivery, now_ns);
        assert_int_equal(next_ns - now_ns, factors[i] * 200 * MS);
        assert_false(sn_delivery_has_output(pair.a.delivery, APP, next_ns - 1));
        now_ns = next_ns;
        (void)output(&pair.a, now_ns); /* lost again */
    }
    sn_delivery_stats(pair.a.delivery, &stats);
    assert_int_equal(stats.parcels_resent, 6);
    assert_int_equal(stats.parcels_sent, 7);
    (void)pair_settle(&pair, now_ns + 4000 * MS); /* the time does not matter */
    expect(&pair.a, 0, SN_DELIVERED, SN_REASON_NONE);
    /* Progress makes it quick again. */
    send_many(&pair.a, 1, 100);
    now_ns += 9000 * MS;
    (void)output(&pair.a, now_ns); /* lost */
    assert_int_equal(sn_delivery_tick(pair.a.delivery, now_ns), now_ns + 200 * MS);
}

static void a_new_session_gets_the_same_bytes(void **state)
{
    (void)state;
    static uint8_t first[3][2048];
    uint32_t sizes[3];
    for (int i = 0; i < 3; i++) {
        send_many(&pair.a, 2, 100);
        sizes[i] = output(&pair.a, NOW);
        memcpy(first[i], parcel, sizes[i]);
        if (i == 0) assert_int_equal(input(&pair.b, sizes[0], NOW), SN_OK);
    }
    pair_down(&pair);
    send_many(&pair.a, 1, 100); /* must not overtake */
    assert_false(sn_delivery_has_output(pair.a.delivery, APP, NOW + 999 * MS));
    assert_int_equal(sn_delivery_tick(pair.a.delivery, NOW), UINT64_MAX);
    pair_up(&pair, NOW);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(output(&pair.a, NOW), sizes[i]);
        assert_memory_equal(parcel, first[i], sizes[i]);
        assert_int_equal(input(&pair.b, sizes[i], NOW), i == 0 ? SN_EREPLAY : SN_OK);
    }
    (void)pair_settle(&pair, NOW); /* the time does not matter */
    assert_int_equal(pair.b.placed, 7);
    assert_int_equal(pair.a.outcomes, 7);
}

static void a_lost_acknowledgement_is_given_again(void **state)
{
    (void)state;
    send_many(&pair.a, 1, 100);
    uint32_t size = output(&pair.a, NOW);
    assert_int_equal(input(&pair.b, size, NOW), SN_OK);
    (void)output(&pair.b, NOW + MS); /* lost */
    assert_true(sn_delivery_is_idle(pair.b.delivery));
    size = output(&pair.a, NOW + 200 * MS);
    assert_int_equal(input(&pair.b, size, NOW + 200 * MS), SN_EREPLAY);
    assert_false(sn_delivery_is_idle(pair.b.delivery));
    assert_int_equal(node_pump(&pair.b, NOW + 201 * MS), 1);
    expect(&pair.a, 0, SN_DELIVERED, SN_REASON_NONE);
    assert_int_equal(pair.b.placed, 1);
}

static enum sn_reason odd_ones_are_refused(struct node *node, const struct sn_incoming *incoming)
{
    (void)node;
    return incoming->payload[0] % 2 ? SN_REASON_MAILBOX_FULL : SN_REASON_NONE;
}

static void refusals_survive_lost_acknowledgements(void **state)
{
    (void)state;
    pair.b.answer = odd_ones_are_refused;
    for (int i = 0; i < 3; i++) {
        send_many(&pair.a, 4, 100);
        uint32_t size = output(&pair.a, NOW);
        assert_int_equal(input(&pair.b, size, NOW), SN_OK);
        (void)output(&pair.b, NOW + MS); /* lost */
    }
    /* Refused ones of all three parcels come with whatever acknowledgement arrives, here a riding one. */
    send_many(&pair.b, 1, 100);
    send_many(&pair.a, 1, 100);
    assert_int_equal(node_pump(&pair.a, NOW + MS), 1);
    assert_int_equal(node_pump(&pair.b, NOW + MS), 1);
    for (uint32_t i = 0; i < 13; i++) {
        if (i % 2) expect(&pair.a, i, SN_UNDELIVERED, SN_REASON_MAILBOX_FULL);
        if (i % 2 == 0) expect(&pair.a, i, SN_DELIVERED, SN_REASON_NONE);
    }
    /* Once the sender's base has passed them they are not told again. */
    send_many(&pair.a, 1, 100);
    assert_int_equal(node_pump(&pair.a, NOW + 2 * MS), 1);
    uint32_t size = output(&pair.b, NOW + 3 * MS);
    assert_true(size < SN_PARCEL_HEADER_BYTES + SN_SEAL_OVERHEAD + 16);
    assert_int_equal(input(&pair.a, size, NOW + 3 * MS), SN_OK);
    expect(&pair.a, 13, SN_UNDELIVERED, SN_REASON_MAILBOX_FULL);
}

static void many_refusals_do_not_ride(void **state)
{
    (void)state;
    struct sn_delivery_stats stats;
    pair.b.answer = odd_ones_are_refused;
    send_many(&pair.a, 4096, 4);
    assert_int_equal(node_pump(&pair.a, NOW), 1);
    /* The largest message in the other direction leaves first, without the acknowledgement. */
    assert_int_equal(node_send(&pair.b, APP, SN_MESSAGE_BYTES_MAX, 0), SN_OK);
    assert_int_equal(node_pump(&pair.b, NOW), 1);
    assert_int_equal(pair.a.outcomes, 0);
    assert_int_equal(node_pump(&pair.b, NOW + MS), 1);
    assert_int_equal(pair.a.outcomes, 4096);
    sn_delivery_stats(pair.b.delivery, &stats);
    assert_int_equal(stats.acks_sent, 1);
    assert_int_equal(stats.messages_refused, 2048);
}

static void a_deadline_in_the_queue_is_undelivered(void **state)
{
    (void)state;
    pair_down(&pair);
    assert_int_equal(node_send(&pair.a, APP, 100, NOW + 5 * MS), SN_OK);
    assert_int_equal(node_send(&pair.a, APP, 100, NOW + 3 * MS), SN_OK);
    assert_int_equal(node_send(&pair.a, APP, 100, 0), SN_OK);
    assert_int_equal(sn_delivery_tick(pair.a.delivery, NOW), NOW + 3 * MS);
    assert_int_equal(sn_delivery_tick(pair.a.delivery, NOW + 3 * MS), NOW + 5 * MS);
    expect(&pair.a, 1, SN_UNDELIVERED, SN_REASON_DEADLINE);
    assert_int_equal(pair.a.outcomes, 1);
    assert_int_equal(sn_delivery_tick(pair.a.delivery, NOW + 5 * MS), UINT64_MAX);
    expect(&pair.a, 0, SN_UNDELIVERED, SN_REASON_DEADLINE);
    pair_up(&pair, NOW + 5 * MS);
    assert_int_equal(node_pump(&pair.a, NOW + 5 * MS), 1);
    assert_int_equal(pair.b.placed, 1);
}

static void an_expired_letter_is_never_sent(void **state)
{
    (void)state;
    uint32_t size;
    assert_int_equal(node_send(&pair.a, APP, 100, NOW + MS), SN_OK);
    assert_false(sn_delivery_has_output(pair.a.delivery, APP, NOW + MS)); /* no tick came */
    assert_int_equal(sn_delivery_output(pair.a.delivery, APP, NOW + MS, parcel, &size), SN_ENOENT);
    assert_int_equal(node_send(&pair.a, APP, 100, 0), SN_OK);
    assert_int_equal(node_pump(&pair.a, NOW + MS), 1);
    assert_int_equal(pair.b.placed, 1);
    expect(&pair.a, 0, SN_UNDELIVERED, SN_REASON_DEADLINE);
}

static void a_deadline_in_flight_is_unknown_once(void **state)
{
    (void)state;
    assert_int_equal(node_send(&pair.a, APP, 100, NOW + 50 * MS), SN_OK);
    assert_int_equal(node_send(&pair.a, APP, 100, 0), SN_OK);
    (void)output(&pair.a, NOW); /* lost */
    assert_int_equal(sn_delivery_tick(pair.a.delivery, NOW), NOW + 50 * MS);
    assert_int_equal(sn_delivery_tick(pair.a.delivery, NOW + 50 * MS), NOW + 200 * MS);
    expect(&pair.a, 0, SN_UNKNOWN, SN_REASON_DEADLINE);
    node_check(&pair.a);
    /* The parcel itself still goes, since the second letter depends on it. */
    (void)pair_settle(&pair, NOW + 200 * MS); /* the time does not matter */
    expect(&pair.a, 0, SN_UNKNOWN, SN_REASON_DEADLINE);
    expect(&pair.a, 1, SN_DELIVERED, SN_REASON_NONE);
    assert_int_equal(pair.b.placed, 2);
}

static enum sn_reason all_are_refused(struct node *node, const struct sn_incoming *incoming)
{
    (void)node;
    (void)incoming;
    return SN_REASON_MAILBOX_FULL;
}

/* Returns how many parcels went nowhere. */
static uint32_t lose_all(struct node *node, uint64_t now_ns)
{
    uint32_t count = 0;
    for (; sn_delivery_has_output(node->delivery, APP, now_ns); count++)
        (void)output(node, now_ns); /* its size does not matter */
    return count;
}

/* The peer counts what came, and so the bound is for letters as sent: with more of them, all refused, the peer
 * would end every session at the same parcel. */
static void expired_letters_still_count_in_flight(void **state)
{
    (void)state;
    struct sn_delivery_stats stats;
    for (uint32_t i = 0; i < 32668; i++)
        assert_int_equal(node_send(&pair.a, APP, 4, NOW + 100 * MS), SN_OK);
    assert_int_equal(lose_all(&pair.a, NOW), 8);
    (void)sn_delivery_tick(pair.a.delivery, NOW + 100 * MS); /* the next time does not matter */
    assert_int_equal(pair.a.outcomes, 32668);
    send_many(&pair.a, 300, 4);
    uint32_t more = lose_all(&pair.a, NOW + 100 * MS);
    pair_down(&pair);
    pair.b.answer = all_are_refused;
    pair_up(&pair, NOW + 150 * MS);
    assert_int_equal(node_pump(&pair.a, NOW + 150 * MS), 8 + more); /* all are taken */
    assert_int_equal(more, 1);
    sn_delivery_stats(pair.b.delivery, &stats);
    assert_int_equal(stats.messages_refused, 32768);
    assert_int_equal(node_pump(&pair.b, NOW + 151 * MS), 1);
    assert_int_equal(pair.a.outcomes, 32768);
    (void)pair_settle(&pair, NOW + 151 * MS); /* the time does not matter */
    for (uint32_t i = 0; i < 32668; i++) expect(&pair.a, i, SN_UNKNOWN, SN_REASON_DEADLINE);
    for (uint32_t i = 32668; i < 32968; i++)
        expect(&pair.a, i, SN_UNDELIVERED, SN_REASON_MAILBOX_FULL);
}

static void many_deadlines_are_told_in_time(void **state)
{
    (void)state;
    pair_down(&pair);
    for (uint32_t i = 0; i < 3000; i++) {
        uint64_t at_ns = NOW + (1 + (uint64_t)i * 7919 % 3000) * MS / 10; /* out of order */
        assert_int_equal(node_send(&pair.a, APP, 10, at_ns), SN_OK);
    }
    uint64_t now_ns = NOW, calls = 0;
    for (; now_ns != UINT64_MAX; calls++) {
        uint64_t next_ns = sn_delivery_tick(pair.a.delivery, now_ns);
        assert_true(next_ns > now_ns);
        /* Never later than a millisecond. */
        uint64_t due = now_ns < NOW + 2 * MS ? 0 : (now_ns - NOW - MS) * 10 / MS;
        assert_true(pair.a.outcomes >= (due < 3000 ? due : 3000));
        now_ns = next_ns;
    }
    assert_int_equal(pair.a.outcomes, 3000);
    assert_true(calls < 6000);
}

static void a_restart_of_the_peer_makes_the_flight_unknown(void **state)
{
    (void)state;
    send_many(&pair.a, 3, 100);
    (void)node_pump(&pair.a, NOW); /* arrives, is not acknowledged */
    pair_down(&pair);
    send_many(&pair.a, 2, 100);
    struct sn_seal_end former = pair.b.end;
    node_restart(&pair.b);
    pair_up(&pair, NOW);
    for (uint32_t i = 0; i < 3; i++) expect(&pair.a, i, SN_UNKNOWN, SN_REASON_PEER_RESTARTED);
    assert_int_equal(pair.a.outcomes, 3);
    (void)pair_settle(&pair, NOW); /* the time does not matter */
    expect(&pair.a, 3, SN_DELIVERED, SN_REASON_NONE);
    expect(&pair.a, 4, SN_DELIVERED, SN_REASON_NONE);
    assert_int_equal(pair.b.placed, 5);
    /* The former boot does not come back, nor does an impostor of the present one. */
    assert_int_equal(sn_delivery_peer_up(pair.a.delivery, &former, NOW), SN_EREPLAY);
    struct sn_seal_end other = pair.b.end;
    other.boot_public[0] ^= 1;
    assert_int_equal(sn_delivery_peer_up(pair.a.delivery, &other, NOW), SN_EMISMATCH);
    other = pair.b.end;
    other.id = pair.a.end.id;
    assert_int_equal(sn_delivery_peer_up(pair.a.delivery, &other, NOW), SN_EMISMATCH);
    other = pair.b.end;
    other.epoch++;
    memset(other.boot_public, 0, sizeof other.boot_public);
    assert_int_equal(sn_delivery_peer_up(pair.a.delivery, &other, NOW), SN_EAUTH);
    send_many(&pair.a, 1, 100);
    (void)pair_settle(&pair, NOW); /* all that changed nothing */
}

static void shutdown_settles_everything(void **state)
{
    (void)state;
    send_many(&pair.a, 2, 100);
    (void)node_pump(&pair.a, NOW); /* in flight */
    send_many(&pair.a, 2, 100);
    node_restart(&pair.a);
    for (uint32_t i = 0; i < 4; i++) {
        if (i < 2) expect(&pair.a, i, SN_UNKNOWN, SN_REASON_SHUTDOWN);
        if (i >= 2) expect(&pair.a, i, SN_UNDELIVERED, SN_REASON_SHUTDOWN);
    }
}

static void send_too_late(struct node *node, const struct sn_letter *letter)
{
    (void)letter;
    assert_int_equal(node_send(node, SN_CLASS_CONTROL, 100, 0), SN_ECLOSED);
    assert_int_equal(node_send(node, APP, 100, 0), SN_ECLOSED);
}

static void nothing_is_taken_during_shutdown(void **state)
{
    (void)state;
    send_many(&pair.a, 2, 100);
    (void)node_pump(&pair.a, NOW); /* in flight */
    send_many(&pair.a, 2, 100);
    pair.a.on_outcome = send_too_late;
    node_restart(&pair.a);
    pair.a.on_outcome = NULL;
    assert_int_equal(pair.a.outcomes, 4);
}

static void send_one_more(struct node *node, const struct sn_letter *letter)
{
    if (node->next_number < 700)
        assert_int_equal(node_send(node, APP, 100, letter->deadline_ns + MS), SN_OK);
    node_check(node); /* the ledger holds in the middle, too */
}

static void an_outcome_may_send(void **state)
{
    (void)state;
    pair.a.on_outcome = send_one_more;
    for (uint64_t i = 0; i < 300; i++)
        assert_int_equal(node_send(&pair.a, APP, 100, NOW + MS + i), SN_OK);
    for (uint64_t now_ns = NOW; pair.a.outcomes < 700; now_ns += MS / 2) {
        (void)sn_delivery_tick(pair.a.delivery, now_ns); /* now and again is enough */
        if (now_ns > NOW + 2 * MS) (void)node_pump(&pair.a, now_ns);
        if (now_ns > NOW + 2 * MS) (void)node_pump(&pair.b, now_ns);
        assert_true(now_ns < NOW + 9000 * MS);
    }
    pair.a.on_outcome = NULL;
}

static void send_after_expiry(struct node *node, const struct sn_letter *letter)
{
    node->on_outcome = NULL;
    assert_int_equal(node_send(node, APP, 100, letter->deadline_ns + 5 * MS), SN_OK);
}

static void a_deadline_from_inside_an_outcome_counts(void **state)
{
    (void)state;
    pair_down(&pair);
    pair.a.on_outcome = send_after_expiry;
    assert_int_equal(node_send(&pair.a, APP, 100, NOW + MS), SN_OK);
    assert_int_equal(sn_delivery_tick(pair.a.delivery, NOW + MS), NOW + 6 * MS);
}

static void a_failed_output_keeps_the_acknowledgement(void **state)
{
    (void)state;
    uint32_t size;
    send_many(&pair.b, 1, 100);
    (void)pair_settle(&pair, NOW); /* b's names have handles now */
    send_many(&pair.a, 1, 100);
    (void)node_pump(&pair.a, NOW); /* one */
    send_many(&pair.b, 1, 100);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_delivery_output(pair.b.delivery, APP, NOW, parcel, &size), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_int_equal(node_pump(&pair.b, NOW), 1);
    expect(&pair.a, 0, SN_DELIVERED, SN_REASON_NONE);
}

static void memory_may_fail_at_any_point(void **state)
{
    (void)state;
    uint64_t failures = 0;
    uint64_t now_ns = NOW;
    for (uint64_t nth = 1; nth < 40; nth++, now_ns += 10 * MS) {
        struct node *a = &pair.a;
        uint32_t size = 0;
        if (nth > 1) { /* fresh tables, so that all of it is allocated again */
            pair_down(&pair);
            node_restart(&pair.a);
            node_restart(&pair.b);
            pair_up(&pair, now_ns);
        }
        struct sn_letter *letter = node_letter(a, APP, 300, 0);
        a->records[letter->token].is_accepted = 1;
        sn_alloc_fail_nth(nth);
        enum sn_err err = sn_delivery_enqueue(a->delivery, letter);
        if (err != SN_OK) {
            assert_int_equal(err, SN_ENOMEM);
            a->records[letter->token].is_accepted = 0;
            sn_letter_free(letter);
            failures++;
        }
        while ((err = sn_delivery_output(a->delivery, APP, now_ns, parcel, &size)) == SN_ENOMEM)
            failures++;
        assert_true(err == SN_OK || err == SN_ENOENT);
        while (err == SN_OK) {
            static uint8_t copy[4096];
            memcpy(copy, parcel, size);
            err = sn_delivery_input(pair.b.delivery, APP, copy, size, now_ns);
            if (err != SN_ENOMEM) break;
            failures++;
            err = SN_OK; /* as when it comes again */
        }
        sn_alloc_fail_nth(0);
        assert_true(err == SN_OK || err == SN_ENOENT);
        (void)pair_settle(&pair, now_ns); /* the time does not matter */
    }
    assert_true(failures >= 6);
}

static void creation_may_fail(void **state)
{
    (void)state;
    struct sn_delivery *delivery;
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_delivery_new(&pair.a.config, &delivery), SN_ENOMEM);
    assert_int_equal(sn_delivery_new(&pair.a.config, &delivery), SN_OK);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_delivery_peer_up(delivery, &pair.b.end, NOW), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_int_equal(sn_delivery_peer_up(delivery, &pair.b.end, NOW), SN_OK);
    sn_delivery_free(delivery);
    sn_delivery_free(NULL);
}

static void send_at(struct node *node, enum sn_class class_id, uint64_t queued_ns)
{
    struct sn_letter *letter = node_letter(node, class_id, 100, 0);
    letter->queued_ns = queued_ns;
    node->records[node->next_number - 1].is_accepted = 1;
    assert_int_equal(sn_delivery_enqueue(node->delivery, letter), SN_OK);
}

static void expect_oldest(const struct node *node, uint64_t queued_ns)
{
    const struct sn_letter *letter = sn_delivery_oldest(node->delivery);
    assert_non_null(letter);
    assert_int_equal(letter->queued_ns, queued_ns);
}

static void the_oldest_letter_is_known(void **state)
{
    (void)state;
    assert_null(sn_delivery_oldest(pair.a.delivery));
    send_at(&pair.a, APP, 30);
    expect_oldest(&pair.a, 30);
    send_at(&pair.a, SN_CLASS_CONTROL, 20);
    expect_oldest(&pair.a, 20); /* of either class */
    (void)output(&pair.a, NOW);
    send_at(&pair.a, APP, 40);
    send_at(&pair.a, SN_CLASS_CONTROL, 50);
    expect_oldest(&pair.a, 20);
    uint32_t size = 0;
    assert_int_equal(sn_delivery_output(pair.a.delivery, SN_CLASS_CONTROL, NOW, parcel, &size),
                     SN_OK);
    assert_int_equal(sn_delivery_input(pair.b.delivery, SN_CLASS_CONTROL, parcel, size, NOW),
                     SN_OK);
    (void)node_pump(&pair.b, NOW + MS); /* both of that class are acknowledged */
    expect_oldest(&pair.a, 30);         /* in flight, before the one in the queue */
    (void)pair_settle(&pair, NOW + 5000 * MS);
    assert_null(sn_delivery_oldest(pair.a.delivery));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_message_goes_and_is_acknowledged),
        TEST(many_share_a_parcel_and_acknowledgements_ride),
        TEST(the_largest_message_fits),
        TEST(what_the_peer_could_not_read_is_not_taken),
        TEST(a_full_queue_refuses),
        TEST(the_window_closes_and_opens),
        TEST(letters_in_flight_are_bounded),
        TEST(without_progress_it_is_sent_again_more_and_more_slowly),
        TEST(a_new_session_gets_the_same_bytes),
        TEST(a_lost_acknowledgement_is_given_again),
        TEST(refusals_survive_lost_acknowledgements),
        TEST(many_refusals_do_not_ride),
        TEST(a_deadline_in_the_queue_is_undelivered),
        TEST(an_expired_letter_is_never_sent),
        TEST(a_deadline_in_flight_is_unknown_once),
        TEST(expired_letters_still_count_in_flight),
        TEST(many_deadlines_are_told_in_time),
        TEST(a_restart_of_the_peer_makes_the_flight_unknown),
        TEST(shutdown_settles_everything),
        TEST(nothing_is_taken_during_shutdown),
        TEST(an_outcome_may_send),
        TEST(a_deadline_from_inside_an_outcome_counts),
        TEST(a_failed_output_keeps_the_acknowledgement),
        TEST(memory_may_fail_at_any_point),
        TEST(creation_may_fail),
        TEST(the_oldest_letter_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
