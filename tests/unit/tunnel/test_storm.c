/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long random lives: clients, streams, dials and failures in any order. Afterwards nothing may be
 * left over, and what was counted must agree with what happened. A failure names its seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "unit/rng.h"
#include "unit/tunnel/fake.h"

#define STEPS 1500

static const char config[] =
    "targets:\n"
    "  web: {address: \"127.0.0.1:80\", allow: \"amsterdam/*\"}\n"
    "  db: {address: \"127.0.0.1:81\", allow: \"*\", connect_wait_ms: 500}\n"
    "forwards:\n"
    "  one: {listen: \"127.0.0.1:8080\", to: p/h, target: a}\n"
    "  two: {listen: \"127.0.0.1:8081\", to: p/h, target: b}\n";

static const enum sn_err errors[] = {SN_ENOMEM, SN_EFULL, SN_EUNREACHABLE, SN_ERESET, SN_ETIMEDOUT};

static enum sn_err some_error(uint64_t *rng)
{
    return errors[rng_below(rng, sizeof errors / sizeof errors[0])];
}

/* A stream that is not down, or 0. */
static uint64_t some_stream(const struct fake *f, uint64_t *rng)
{
    if (f->stream_count == 0) return 0;
    uint64_t id = 1 + rng_below(rng, (uint32_t)f->stream_count);
    return f->streams[id].is_down ? 0 : id;
}

static void client_arrives(struct fake *f, uint64_t *rng)
{
    if (f->listener_count == 0) return;
    uint64_t listener = 1 + rng_below(rng, (uint32_t)f->listener_count);
    if (rng_below(rng, 8) == 0) f->next[FAKE_OPEN] = some_error(rng);
    if (rng_below(rng, 8) == 0) f->next[FAKE_SPLICE] = SN_ENOMEM;
    fake_client(f, listener);
    f->next[FAKE_OPEN] = f->next[FAKE_SPLICE] = SN_OK;
}

static void stream_is_asked(struct fake *f, uint64_t *rng)
{
    static const char *const agents[] = {"amsterdam/edge", "berlin/edge"};
    static const char *const names[] = {"web", "db", "none", "web", "db"};
    if (rng_below(rng, 10) == 0) f->next[FAKE_DIAL] = SN_ENOSPC;
    fake_ask(f, agents[rng_below(rng, 2)], names[rng_below(rng, 5)]);
    f->next[FAKE_DIAL] = SN_OK;
}

static void dial_ends(struct fake *f, uint64_t *rng)
{
    if (f->dial_count == 0) return;
    uint64_t dial = 1 + rng_below(rng, (uint32_t)f->dial_count);
    if (f->dials[dial].is_answered) return;
    if (rng_below(rng, 2) == 0) {
        fake_dial_failed(f, dial, some_error(rng));
        return;
    }
    if (rng_below(rng, 10) == 0) f->next[FAKE_ACCEPT] = SN_ENOMEM;
    if (rng_below(rng, 10) == 0) f->next[FAKE_SPLICE] = SN_ENOMEM;
    fake_dialed(f, dial);
    f->next[FAKE_ACCEPT] = f->next[FAKE_SPLICE] = SN_OK;
}

static void stream_ends(struct fake *f, uint64_t *rng)
{
    uint64_t id = some_stream(f, rng);
    if (id == 0) return;
    fake_down(f, id, rng_below(rng, 2) == 0 ? SN_OK : some_error(rng), 3, 5);
}

static void step(struct fake *f, uint64_t *rng)
{
    uint64_t id;
    if (rng_below(rng, 20) == 0) f->next[FAKE_TIMER] = SN_ENOMEM;
    if (rng_below(rng, 20) == 0) sn_alloc_fail_nth(1);
    switch (rng_below(rng, 8)) {
    case 0: client_arrives(f, rng); break;
    case 1: stream_is_asked(f, rng); break;
    case 2:
    case 3: dial_ends(f, rng); break;
    case 4: stream_ends(f, rng); break;
    case 5:
        id = some_stream(f, rng);
        if (id != 0 && f->streams[id].is_local) fake_up(f, id);
        break;
    case 6: fake_wait(f, rng_below(rng, 200)); break;
    default:
        if (rng_below(rng, 50) == 0) fake_message(f, "", "tunnel.list", 1);
        break;
    }
    sn_alloc_fail_nth(0);
    assert_int_equal(f->result, SN_OK);
}

static uint64_t sum_open(struct fake *f)
{
    uint64_t open = 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct forward *forward = sni_tunnel_pool_at(&f->state->forwards, i);
        struct target *target = sni_tunnel_pool_at(&f->state->targets, i);
        open += forward->counts.open;
        open += target->counts.open;
    }
    return open;
}

static void end_everything(struct fake *f)
{
    fake_stop(f);
    for (uint64_t i = 1; i <= f->dial_count; i++) {
        if (!f->dials[i].is_answered) fake_dial_failed(f, i, SN_ETIMEDOUT);
    }
    fake_settle(f);
    for (uint64_t i = 1; i <= f->stream_count; i++) {
        if (!f->streams[i].is_down) fake_down(f, i, SN_ECLOSED, 3, 5);
    }
    fake_wait(f, 100000);
}

static void nothing_is_left_over(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t rng = seed;
        struct fake *f = fake_new(config);
        f->is_quiet = 1;
        if (seed % 4 == 0) f->busy_address = "127.0.0.1:8080";
        fake_start(f);
        for (int i = 0; i < STEPS; i++) {
            step(f, &rng);
            if (i % 100 == 0) {
                f->busy_address = NULL;
                assert_int_equal(sum_open(f), f->metrics[METRIC_OPEN_NOW]);
            }
        }
        int64_t bytes = f->metrics[METRIC_SENT_BYTES];
        end_everything(f);
        assert_true(f->metrics[METRIC_SENT_BYTES] >= bytes);
        assert_int_equal(sum_open(f), 0);
        if (f->state->flows.count >= f->stream_count) print_error("seed %d\n", (int)seed);
        assert_true(f->state->flows.count < f->stream_count); /* they are used again */
        fake_free(f);
        if (sn_alloc_in_use() != before) print_error("seed %d\n", (int)seed);
        assert_int_equal(sn_alloc_in_use(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_left_over)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
