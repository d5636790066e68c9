/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two deliveries over a pipe that loses, repeats, reorders and cuts, under virtual time, with restarts, full
 * mailboxes and deadlines. The oracle is pair.c: what is placed comes in order and once; every outcome is told
 * once and true; the ledger balances after every step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "unit/delivery/pair.h"
#include "unit/rng.h"

#define SEEDS       24u
#define STEPS       1500u
#define TRANSIT_MAX 64u

struct transit {
    struct node *to;
    enum sn_class class_id;
    uint64_t at_ns;
    uint32_t size;
    uint8_t *bytes;
};

struct storm {
    struct pair pair;
    uint64_t rng;
    uint64_t now_ns;
    int is_up;
    int is_calm; /* no more faults */
    struct transit transit[TRANSIT_MAX];
    uint32_t transit_count;
};

static int chance(struct storm *storm, uint32_t percent)
{
    return rng_below(&storm->rng, 100) < percent;
}

static void tune(struct sn_delivery_config *config)
{
    config->window_bytes = 20000;
    config->queue_letters_max = 300;
    config->resend_ns = 20 * MS;
}

static enum sn_reason some_are_refused(struct node *node, const struct sn_incoming *incoming)
{
    (void)incoming;
    uint32_t dice = rng_below(&node->rng, 12);
    return dice == 0 ? SN_REASON_MAILBOX_FULL : dice == 1 ? SN_REASON_DENIED : SN_REASON_NONE;
}

static void put(struct storm *storm, struct node *to, enum sn_class class_id, const uint8_t *bytes,
                uint32_t size)
{
    if (storm->transit_count == TRANSIT_MAX) return; /* one more way to be lost */
    struct transit *item = &storm->transit[storm->transit_count++];
    uint64_t delay_ns = MS / 2;
    if (!storm->is_calm && chance(storm, 20)) delay_ns += rng_below(&storm->rng, 8000000);
    *item = (struct transit){to, class_id, storm->now_ns + delay_ns, size, malloc(size)};
    assert_non_null(item->bytes);
    memcpy(item->bytes, bytes, size);
}

static void output(struct storm *storm, struct node *from)
{
    static uint8_t bytes[SN_PARCEL_BYTES_MAX]; /* too large for the stack */
    uint32_t size;
    for (int i = 0; i < SN_CLASS_COUNT; i++) {
        enum sn_class class_id = (enum sn_class)i;
        int has = sn_delivery_has_output(from->delivery, class_id, storm->now_ns);
        enum sn_err err = sn_delivery_output(from->delivery, class_id, storm->now_ns, bytes, &size);
        assert_int_equal(err, has ? SN_OK : SN_ENOENT);
        if (!has || (!storm->is_calm && chance(storm, 15))) continue;
        put(storm, from->other, class_id, bytes, size);
        if (!storm->is_calm && chance(storm, 15)) put(storm, from->other, class_id, bytes, size);
    }
}

static void arrive(struct storm *storm)
{
    for (uint32_t i = 0; i < storm->transit_count;) {
        struct transit item = storm->transit[i];
        if (item.at_ns > storm->now_ns) {
            i++;
            continue;
        }
        /* Ones that are put later may overtake: the last takes the place. */
        storm->transit[i] = storm->transit[--storm->transit_count];
        if (!storm->is_calm && chance(storm, 5))
            item.bytes[rng_below(&storm->rng, item.size)] ^= 0x10;
        enum sn_err err = sn_delivery_input(item.to->delivery, item.class_id, item.bytes, item.size,
                                            storm->now_ns);
        assert_int_not_equal(err, SN_EPROTO);
        assert_int_not_equal(err, SN_ENOMEM);
        free(item.bytes);
    }
}

static void cut(struct storm *storm)
{
    pair_down(&storm->pair);
    storm->is_up = 0;
    /* Some parcels of the old session still arrive. */
    while (storm->transit_count > 0 && chance(storm, 80))
        free(storm->transit[--storm->transit_count].bytes);
}

static void send_some(struct storm *storm, struct node *node)
{
    uint32_t count = 1 + rng_below(&storm->rng, chance(storm, 10) ? 120 : 4);
    for (uint32_t i = 0; i < count; i++) {
        enum sn_class class_id = chance(storm, 30) ? SN_CLASS_CONTROL : SN_CLASS_APPLICATION;
        uint32_t size = 4 + rng_below(&storm->rng, chance(storm, 2) ? 30000 : 200);
        uint64_t deadline_ns = 0;
        if (chance(storm, 60)) deadline_ns = storm->now_ns + rng_below(&storm->rng, 60000000);
        enum sn_err err = node_send(node, class_id, size, deadline_ns);
        assert_true(err == SN_OK || err == SN_EFULL);
    }
}

static void step(struct storm *storm)
{
    struct node *node = chance(storm, 50) ? &storm->pair.a : &storm->pair.b;
    uint32_t dice = rng_below(&storm->rng, 1000);
    if (dice < 250) send_some(storm, node);
    if (dice >= 250 && dice < 262 && storm->is_up) cut(storm);
    if (dice == 263) {
        cut(storm);
        node_restart(node);
    }
    if (!storm->is_up && dice >= 700) {
        pair_up(&storm->pair, storm->now_ns);
        storm->is_up = 1;
    }
    output(storm, node);
    arrive(storm);
    if (chance(storm, 50)) {
        uint64_t next_ns = sn_delivery_tick(node->delivery, storm->now_ns);
        assert_true(next_ns > storm->now_ns);
    }
    storm->now_ns += rng_below(&storm->rng, 400000);
    node_check(&storm->pair.a);
    node_check(&storm->pair.b);
}

/* Without faults, everything ends within bounded time. */
static void calm_down(struct storm *storm)
{
    storm->is_calm = 1;
    if (!storm->is_up) pair_up(&storm->pair, storm->now_ns);
    uint64_t end_ns = storm->now_ns + 2000 * MS;
    for (; storm->now_ns < end_ns; storm->now_ns += MS / 4) {
        (void)sn_delivery_tick(storm->pair.a.delivery, storm->now_ns); /* time goes on anyway */
        (void)sn_delivery_tick(storm->pair.b.delivery, storm->now_ns);
        output(storm, &storm->pair.a);
        output(storm, &storm->pair.b);
        arrive(storm);
        if (sn_delivery_is_idle(storm->pair.a.delivery) &&
            sn_delivery_is_idle(storm->pair.b.delivery) && storm->transit_count == 0)
            return;
    }
    fail_msg("still not at rest");
}

static uint64_t run(uint64_t seed, struct sn_delivery_stats *total)
{
    struct storm *storm = calloc(1, sizeof *storm);
    assert_non_null(storm);
    storm->rng = seed;
    storm->now_ns = 1000 * MS;
    pair_init(&storm->pair, seed, tune);
    storm->pair.a.answer = storm->pair.b.answer = some_are_refused;
    for (uint32_t i = 0; i < STEPS; i++) step(storm);
    calm_down(storm);
    struct sn_delivery_stats stats;
    sn_delivery_stats(storm->pair.a.delivery, &stats);
    total->refused_auth += stats.refused_auth;
    total->refused_gap += stats.refused_gap;
    total->refused_replay += stats.refused_replay;
    total->refused_address += stats.refused_address;
    total->refused_form += stats.refused_form;
    total->parcels_resent += stats.parcels_resent;
    total->acks_sent += stats.acks_sent;
    total->messages_refused += stats.messages_refused;
    uint64_t placed = storm->pair.a.placed + storm->pair.b.placed;
    const struct sn_ledger *former = &storm->pair.a.former;
    total->parcels_sent += former->accepted; /* restarts did happen */
    pair_fini(&storm->pair);
    free(storm);
    return placed;
}

static void nothing_is_lost_doubled_or_out_of_order(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_delivery_stats total = {0};
    uint64_t placed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) placed += run(seed, &total);
    assert_int_equal(sn_alloc_in_use(), before);
    /* The storm did blow: each kind of fault was met. */
    assert_true(placed > SEEDS * 500);
    assert_true(total.refused_auth > 0 && total.refused_gap > 0 && total.refused_replay > 0);
    assert_true(total.refused_address > 0 && total.refused_form > 0);
    assert_true(total.parcels_resent > 0 && total.acks_sent > 0 && total.messages_refused > 0);
    assert_true(total.parcels_sent > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_doubled_or_out_of_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
