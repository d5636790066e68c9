/* SPDX-License-Identifier: Apache-2.0 */
/* What agents answer, read back; what they do not say is an error and never a zero. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agents/soak/reading.h"
#include "wire/json.h"

#define REPORT                                                                                     \
    "{\"sent\":9,\"outcomes\":{\"delivered\":4,\"undelivered\":{\"denied\":2,\"deadline\":1},"     \
    "\"unknown\":{\"peer-restarted\":2}},\"received\":5,\"doubled\":6,\"reordered\":7,"            \
    "\"altered\":8,\"done\":true}"

#define PARCELS                                                                                    \
    "\"parcels\":{\"sent\":11,\"nng_sent\":12,\"received\":13,\"nng_received\":14,\"resent\":15,"  \
    "\"messages_received\":16,\"messages_refused\":1,\"refused_auth\":2,\"refused_replay\":4,"     \
    "\"refused_other\":8}"

#define ENTRY(name)                                                                                \
    "{\"agent\":\"" name "\",\"accepted\":10,\"delivered\":1,\"queued\":2,"                        \
    "\"undelivered\":{\"denied\":3},\"unknown\":{\"deadline\":3,\"shutdown\":1}," PARCELS "}"

static void a_report_is_read(void **state)
{
    (void)state;
    struct sn_soak_report report;
    assert_int_equal(sn_soak_report_parse(REPORT, strlen(REPORT), &report), SN_OK);
    assert_int_equal(report.sent, 9);
    assert_int_equal(report.delivered, 4);
    assert_int_equal(report.undelivered, 3);
    assert_int_equal(report.unknown, 2);
    assert_int_equal(report.received, 5);
    assert_int_equal(report.doubled, 6);
    assert_int_equal(report.reordered, 7);
    assert_int_equal(report.altered, 8);
    assert_true(report.is_done);
    assert_string_equal(report.reason, "peer-restarted");
}

static void a_report_that_lacks_something_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "7",
        "{\"sent\":1,\"received\":1,\"doubled\":0,\"reordered\":0}",
        "{\"sent\":-1,\"received\":1,\"doubled\":0,\"reordered\":0,\"altered\":0}",
        "{\"sent\":\"1\",\"received\":1,\"doubled\":0,\"reordered\":0,\"altered\":0}",
        "{\"sent\":1,\"received\":1,\"doubled\":0,\"reordered\":0,\"altered\":0} x",
        "{\"sent\":1,\"outcomes\":7,\"received\":1,\"doubled\":0,\"reordered\":0,\"altered\":0}",
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sn_soak_report report;
        assert_int_not_equal(sn_soak_report_parse(bad[i], strlen(bad[i]), &report), SN_OK);
    }
    for (size_t size = 0; size < strlen(REPORT); size++) {
        struct sn_soak_report report;
        assert_int_not_equal(sn_soak_report_parse(REPORT, size, &report), SN_OK);
    }
}

static size_t pack(const char *json, uint8_t *out, size_t capacity)
{
    struct sn_pack packed;
    size_t size = 0;
    sn_pack_init(&packed, out, capacity);
    assert_int_equal(sn_json_to_msgpack(json, strlen(json), &packed), SN_OK);
    assert_int_equal(sn_pack_finish(&packed, &size), SN_OK);
    return size;
}

static void the_ledger_of_a_peer_is_found(void **state)
{
    (void)state;
    uint8_t body[2048];
    struct sn_soak_ledger ledger;
    size_t size = pack("{\"total\":{},\"peers\":[" ENTRY("a/b") "," ENTRY("c/d") "],\"more\":1}",
                       body, sizeof body);
    assert_int_equal(sn_soak_ledger_parse(body, size, "c/d", &ledger), SN_OK);
    assert_int_equal(ledger.accepted, 10);
    assert_int_equal(ledger.delivered, 1);
    assert_int_equal(ledger.queued, 2);
    assert_int_equal(ledger.undelivered, 3);
    assert_int_equal(ledger.unknown, 4);
    assert_int_equal(ledger.parcels_sent, 11);
    assert_int_equal(ledger.nng_sent, 12);
    assert_int_equal(ledger.parcels_received, 13);
    assert_int_equal(ledger.nng_received, 14);
    assert_int_equal(ledger.parcels_resent, 15);
    assert_int_equal(ledger.messages_received, 16);
    assert_int_equal(ledger.messages_refused, 1);
    assert_int_equal(ledger.refused_replay, 4);
    assert_int_equal(ledger.refused_bad, 10);
    assert_int_equal(sn_soak_ledger_parse(body, size, "e/f", &ledger), SN_ENOENT);
    for (size_t cut = 0; cut + 10 < size; cut++) {
        assert_int_not_equal(sn_soak_ledger_parse(body, cut, "e/f", &ledger), SN_OK);
    }
}

static void a_ledger_that_lacks_something_is_refused(void **state)
{
    (void)state;
    static const char no_queue[] =
        "{\"peers\":[{\"agent\":\"a/b\",\"accepted\":1,\"delivered\":1," PARCELS "}]}";
    static const char few_parcels[] =
        "{\"peers\":[{\"agent\":\"a/b\",\"accepted\":1,\"delivered\":1,\"queued\":0,"
        "\"parcels\":{\"sent\":1}}]}";
    static const char no_parcels[] =
        "{\"peers\":[{\"agent\":\"a/b\",\"accepted\":1,\"delivered\":1,\"queued\":0}]}";
    const char *const bad[] = {"{}", "{\"peers\":7}", no_parcels, no_queue, few_parcels};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t body[1024];
        struct sn_soak_ledger ledger;
        size_t size = pack(bad[i], body, sizeof body);
        assert_int_not_equal(sn_soak_ledger_parse(body, size, "a/b", &ledger), SN_OK);
    }
}

#define PEER(name, state, sessions)                                                                \
    "{\"agent\":\"" name "\",\"id\":\"\",\"state\":\"" state "\",\"rtt_us\":5" sessions "}"

static void the_sessions_of_a_peer_are_found(void **state)
{
    (void)state;
    uint8_t body[1024];
    struct sn_soak_peer peer;
    size_t size =
        pack("[" PEER("c/d", "refused", ",\"count\":9") "," PEER(
                 "a/b", "up", ",\"sessions\":1") "," PEER("c/d", "down", ",\"sessions\":7") "]",
             body, sizeof body);
    assert_int_equal(sn_soak_peer_parse(body, size, "c/d", &peer), SN_OK);
    assert_int_equal(peer.sessions, 7);
    assert_false(peer.is_up);
    assert_int_equal(sn_soak_peer_parse(body, size, "a/b", &peer), SN_OK);
    assert_int_equal(peer.sessions, 1);
    assert_true(peer.is_up);
    assert_int_equal(sn_soak_peer_parse(body, size, "e/f", &peer), SN_ENOENT);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_not_equal(sn_soak_peer_parse(body, cut, "e/f", &peer), SN_OK);
    }
    /* What it does not say is no zero. */
    size = pack("[" PEER("a/b", "up", "") "]", body, sizeof body);
    assert_int_equal(sn_soak_peer_parse(body, size, "a/b", &peer), SN_ENOENT);
    size = pack("{\"a/b\":1}", body, sizeof body);
    assert_int_not_equal(sn_soak_peer_parse(body, size, "a/b", &peer), SN_OK);
}

static void balances_are_judged(void **state)
{
    (void)state;
    struct sn_soak_ledger ledger = {.accepted = 10,
                                    .delivered = 1,
                                    .queued = 2,
                                    .undelivered = 3,
                                    .unknown = 4,
                                    .parcels_sent = 5,
                                    .nng_sent = 5,
                                    .parcels_received = 6,
                                    .nng_received = 6};
    assert_true(sn_soak_ledger_is_balanced(&ledger));
    assert_true(sn_soak_ledger_is_nng_equal(&ledger));
    ledger.accepted++;
    ledger.nng_sent++;
    assert_false(sn_soak_ledger_is_balanced(&ledger));
    assert_false(sn_soak_ledger_is_nng_equal(&ledger));
    ledger.parcels_sent++;
    ledger.nng_received--;
    assert_false(sn_soak_ledger_is_nng_equal(&ledger));
}

static void agreement_allows_replays_of_what_was_resent_only(void **state)
{
    (void)state;
    const struct sn_soak_ledger from = {.accepted = 10, .delivered = 10, .parcels_resent = 3};
    const struct sn_soak_ledger to = {.messages_received = 10, .refused_replay = 3};
    assert_true(sn_soak_ledger_is_agreed(&from, &to, 10));
    assert_false(sn_soak_ledger_is_agreed(&from, &to, 9));
    assert_false(sn_soak_ledger_is_agreed(&from, &to, 11));
    for (unsigned i = 0; i < 6; i++) {
        struct sn_soak_ledger bad_from = from;
        struct sn_soak_ledger bad_to = to;
        uint64_t *const values[] = {&bad_from.accepted,       &bad_from.delivered,
                                    &bad_to.messages_refused, &bad_to.messages_received,
                                    &bad_to.refused_replay,   &bad_to.refused_bad};
        (*values[i])++;
        assert_false(sn_soak_ledger_is_agreed(&bad_from, &bad_to, 10));
    }
    /* What the receiver itself resent excuses nothing. */
    struct sn_soak_ledger quiet = from;
    struct sn_soak_ledger busy = to;
    quiet.parcels_resent = 0;
    busy.parcels_resent = 9;
    assert_false(sn_soak_ledger_is_agreed(&quiet, &busy, 10));
    busy.refused_replay = 0;
    assert_true(sn_soak_ledger_is_agreed(&quiet, &busy, 10));
}

static void a_number_is_found(void **state)
{
    (void)state;
    uint8_t body[256];
    uint64_t value = 77;
    size_t size = pack("{\"a\":[1,{\"b\":2}],\"b\":3,\"c\":\"x\"}", body, sizeof body);
    assert_int_equal(sn_soak_number(body, size, "c", &value), SN_EINVAL);
    assert_int_equal(sn_soak_number(body, size, "d", &value), SN_ENOENT);
    assert_int_equal(value, 77);
    assert_int_equal(sn_soak_number(body, size, "b", &value), SN_OK);
    assert_int_equal(value, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_read),
        cmocka_unit_test(a_report_that_lacks_something_is_refused),
        cmocka_unit_test(the_ledger_of_a_peer_is_found),
        cmocka_unit_test(a_ledger_that_lacks_something_is_refused),
        cmocka_unit_test(the_sessions_of_a_peer_are_found),
        cmocka_unit_test(balances_are_judged),
        cmocka_unit_test(agreement_allows_replays_of_what_was_resent_only),
        cmocka_unit_test(a_number_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
