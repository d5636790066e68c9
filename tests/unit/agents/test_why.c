/* SPDX-License-Identifier: Apache-2.0 */
/* The judgement of `why` over made-up facts, and the facts it takes from views. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agents/body.h"
#include "agents/why.h"
#include "base/alloc.h"
#include "commands.h"

#define KEY_A "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define KEY_B "ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
#define DAY_S 86400

/* Texts of the tests below; each fits. */
#define SET(out, text) ((void)snprintf(out, sizeof(out), "%s", text))

/* What makes the facts differ from those of a peer that is known, not linked, and down. */
struct change {
    const char *state; /* NULL: down; "": not known */
    int is_linked;
    const char *error;
    const char *refused_by;
    const char *presented_id;
    const char *presented_agent;
    const char *reason;
    uint64_t ended_ms; /* 0: never */
    const char *ended_error;
    int64_t own_valid_s;
    const char *refused_error; /* of a refusal here, 1 s ago */
    int ping;                  /* 1 answered, -1 not */
    int64_t clock_offset_ms;
    uint64_t queued_bytes;
    uint64_t queued;
    const char *actor;
    const char *undelivered; /* to :door */
    const char *forward_error;
    int is_named;
    int can_listen;
};

static void make_peer(struct sn_why_peer *peer, const struct change *change)
{
    const char *state = change->state == NULL ? "down" : change->state;
    if (state[0] == '\0') return;
    peer->is_known = 1;
    peer->is_linked = (uint8_t)change->is_linked;
    SET(peer->agent, "oslo/far");
    SET(peer->id, KEY_A);
    SET(peer->state, state);
    SET(peer->dialed, change->is_linked ? "far.example:7400" : "");
    peer->attempts = 3;
    if (change->is_linked) peer->next_attempt_ms = 250;
    peer->since_ms = 5000;
    peer->clock_offset_ms = change->clock_offset_ms;
    peer->queued_bytes = change->queued_bytes;
    peer->queued = change->queued;
    if (change->error != NULL) SET(peer->error, change->error);
    if (change->refused_by != NULL) SET(peer->refused_by, change->refused_by);
    if (change->presented_id != NULL) SET(peer->presented_id, change->presented_id);
    if (change->presented_agent != NULL) SET(peer->presented_agent, change->presented_agent);
    if (change->reason != NULL) SET(peer->reason, change->reason);
    if (change->ended_ms > 0) {
        peer->ended_ms = change->ended_ms;
        peer->sessions = 1;
        SET(peer->ended_error, change->ended_error == NULL ? "reset" : change->ended_error);
        SET(peer->ended_detail, "how it ended");
    }
    if (change->undelivered == NULL) return;
    SET(peer->undelivered_actor, "door");
    SET(peer->undelivered_type, "door.open");
    SET(peer->undelivered_reason, change->undelivered);
    peer->undelivered_ms = 3000;
}

static void make_facts(struct sn_why_facts *facts, const struct change *change)
{
    sn_why_facts_init(facts);
    SET(facts->self, "paris/hub");
    SET(facts->agent, "oslo/far");
    SET(facts->expected_id, KEY_A);
    make_peer(&facts->peer, change);
    facts->is_named = (uint8_t)change->is_named;
    facts->can_listen = (uint8_t)change->can_listen;
    if (change->own_valid_s != 0) facts->own_valid_s = change->own_valid_s;
    if (change->actor != NULL) SET(facts->actor, change->actor);
    if (change->refused_error != NULL) {
        facts->refused.is_known = 1;
        facts->refused.since_ms = 1000;
        SET(facts->refused.agent, "oslo/far");
        SET(facts->refused.id, KEY_B);
        SET(facts->refused.state, "refused");
        SET(facts->refused.error, change->refused_error);
    }
    if (change->ping != 0) {
        facts->ping.was_sent = 1;
        facts->ping.err = change->ping > 0 ? SN_OK : SN_ETIMEDOUT;
        facts->ping.us = 1234;
        SET(facts->ping.reason, change->ping > 0 ? "" : "the deadline passed");
    }
    if (change->forward_error == NULL) return;
    SET(facts->forward.name, "web");
    SET(facts->forward.target, "www");
    SET(facts->forward.error, change->forward_error);
}

#define US   .refused_by = "this agent", .is_linked = 1, .state = "connecting"
#define THEM .refused_by = "the peer", .is_linked = 1, .state = "connecting"
#define DIAL .is_linked = 1, .state = "connecting"
#define UP   .state = "up", .ping = 1

static const struct {
    const char *cause;
    const char *part;
    enum sn_why_verdict verdict;
    struct change change;
} cases[] = {
    {"up", "1.234 ms", SN_WHY_WELL, {UP}},
    {"up", "off by -59999 ms", SN_WHY_WELL, {UP, .clock_offset_ms = -59999}},
    {"up", "no message to :gate", SN_WHY_WELL, {UP, .undelivered = "denied", .actor = "gate"}},
    {"up", "to :door was not taken", SN_WHY_WELL, {UP, .undelivered = "denied"}},
    {"up", "another of that name", SN_WHY_WELL, {UP, .refused_error = "duplicate"}},
    {"clock-offset", "1m00s ahead", SN_WHY_ILL, {UP, .clock_offset_ms = 60001}},
    {"clock-offset", "behind", SN_WHY_ILL, {UP, .clock_offset_ms = INT64_MIN}},
    {"denied",
     "door.open to :door, 3s ago",
     SN_WHY_ILL,
     {UP, .undelivered = "denied", .actor = "door"}},
    {"no-actor", "no such actor", SN_WHY_ILL, {UP, .undelivered = "no-actor", .actor = "door"}},
    {"mailbox-full",
     "more to do",
     SN_WHY_ILL,
     {UP, .undelivered = "mailbox-full", .actor = "door"}},
    {"actor-failed", "failed", SN_WHY_ILL, {UP, .undelivered = "actor-failed", .actor = "door"}},
    {"target-failed",
     "connection refused",
     SN_WHY_ILL,
     {UP, .forward_error = "connection refused"}},
    {"target-denied", "`allow`", SN_WHY_ILL, {UP, .forward_error = "not allowed"}},
    {"up", "well", SN_WHY_WELL, {UP, .forward_error = "not allowed", .actor = "door"}},
    {"no-answer", "the deadline passed", SN_WHY_ILL, {.state = "up", .ping = -1}},
    {"no-answer",
     "7 messages",
     SN_WHY_ILL,
     {.state = "up", .ping = -1, .queued = 7, .queued_bytes = 9}},
    {"no-answer", "did not answer", SN_WHY_ILL, {.state = "up"}},
    {"queue-full",
     "is full",
     SN_WHY_ILL,
     {.state = "up", .ping = -1, .queued = SN_DELIVERY_QUEUE_MESSAGES}},
    {"queue-full",
     "is full",
     SN_WHY_ILL,
     {.state = "up",
      .ping = -1,
      .queued = 400,
      .queued_bytes = SN_DELIVERY_QUEUE_BYTES - SN_MESSAGE_BYTES_MAX + 1}},
    {"no-answer",
     "400 messages",
     SN_WHY_ILL,
     {.state = "up",
      .ping = -1,
      .queued = 400,
      .queued_bytes = SN_DELIVERY_QUEUE_BYTES - SN_MESSAGE_BYTES_MAX}},
    /* It dials, and cannot connect. */
    {"connection-refused", "far.example:7400", SN_WHY_ILL, {DIAL, .error = "connection-refused"}},
    {"connection-refused",
     "attempt 3, the next one in 250ms",
     SN_WHY_ILL,
     {DIAL, .error = "connection-refused"}},
    {"connection-refused",
     "it was up until 1m05s ago (how it ended)",
     SN_WHY_ILL,
     {DIAL, .error = "connection-refused", .ended_ms = 65000}},
    {"timed-out", "firewall", SN_WHY_ILL, {DIAL, .error = "timed-out"}},
    {"unresolved", "name service", SN_WHY_ILL, {DIAL, .error = "not-found"}},
    {"unreachable", "routes", SN_WHY_ILL, {DIAL, .error = "unreachable"}},
    {"not-sennit", "no agent", SN_WHY_ILL, {DIAL, .error = "protocol"}},
    {"hung-up", "ends before", SN_WHY_ILL, {DIAL, .error = "closed"}},
    {"hung-up", "is reset", SN_WHY_ILL, {DIAL, .error = "reset"}},
    {"no-descriptors", "ulimit", SN_WHY_ILL, {DIAL, .error = "no-descriptors"}},
    {"dial-failed", "odd: words", SN_WHY_ILL, {DIAL, .error = "odd", .reason = "odd: words"}},
    {"dialing", "first time", SN_WHY_ILL, {DIAL}},
    /* It was up. */
    {"left", "stopped in good order", SN_WHY_ILL, {.ended_ms = 9000, .ended_error = "goodbye"}},
    {"lost", "until 9s ago (how it ended); it has to dial", SN_WHY_ILL, {.ended_ms = 9000}},
    {"lost",
     "this agent dials it at far.example:7400",
     SN_WHY_ILL,
     {.is_linked = 1, .ended_ms = 9000}},
    {"certificate-ended", "agent.cert", SN_WHY_ILL, {.ended_ms = 9000, .ended_error = "expired"}},
    /* Refused here: as it was dialed, or as it came. */
    {"refused-untrusted", KEY_B, SN_WHY_ILL, {US, .error = "untrusted", .presented_id = KEY_B}},
    {"refused-key", "is pinned", SN_WHY_ILL, {US, .error = "mismatch", .presented_id = KEY_B}},
    {"refused-mesh", "another mesh", SN_WHY_ILL, {US, .error = "mismatch", .presented_id = KEY_A}},
    {"refused-name",
     "another agent answers",
     SN_WHY_ILL,
     {US, .error = "mismatch", .presented_id = KEY_B, .presented_agent = "oslo/near"}},
    {"refused-expired",
     "(until then)",
     SN_WHY_ILL,
     {US, .error = "expired", .reason = "expired: until then"}},
    {"refused-not-yet-valid", "clock", SN_WHY_ILL, {US, .error = "not-yet-valid"}},
    {"refused-bad-signature", "node.key", SN_WHY_ILL, {US, .error = "bad-signature"}},
    {"refused-version", "version", SN_WHY_ILL, {US, .error = "version"}},
    {"refused", "prove", SN_WHY_ILL, {US, .error = "odd"}},
    {"refused-replay", "data", SN_WHY_ILL, {.refused_error = "replay"}},
    {"refused-duplicate", "stop one", SN_WHY_ILL, {.state = "", .refused_error = "duplicate"}},
    {"refused-full", "no room", SN_WHY_ILL, {.state = "", .refused_error = "full"}},
    {"refused-key", "is pinned", SN_WHY_ILL, {.state = "", .refused_error = "mismatch"}},
    {"refused-replay", "data", SN_WHY_ILL, {.refused_error = "replay", .ended_ms = 2000}},
    {"lost", "was connected", SN_WHY_ILL, {.refused_error = "replay", .ended_ms = 500}},
    /* It refuses this agent. */
    {"refused-by-peer",
     "does not say why (alert)",
     SN_WHY_ILL,
     {THEM, .error = "denied", .reason = "x: alert"}},
    {"refused-by-peer-untrusted", "sennit why paris/hub", SN_WHY_ILL, {THEM, .error = "untrusted"}},
    {"refused-by-peer-expired",
     "ran out 1d00h ago",
     SN_WHY_ILL,
     {THEM, .error = "expired", .own_valid_s = -DAY_S}},
    {"refused-by-peer-expired",
     "set the clock that is wrong",
     SN_WHY_ILL,
     {THEM, .error = "expired", .own_valid_s = DAY_S}},
    {"refused-by-peer-duplicate",
     "stop one",
     SN_WHY_ILL,
     {.refused_by = "the peer", .error = "duplicate"}},
    {"refused-by-peer-mismatch", "compare", SN_WHY_ILL, {THEM, .error = "mismatch"}},
    /* Nobody there. */
    {"never-seen", "waits to be dialed", SN_WHY_ILL, {.can_listen = 1}},
    {"never-seen", "waits to be dialed", SN_WHY_ILL, {.state = "", .is_named = 1, .can_listen = 1}},
    {"not-linked", "nobody dials", SN_WHY_ILL, {.state = "", .is_named = 1}},
    {"no-such-agent", "knows no agent oslo/far", SN_WHY_NOBODY, {.state = ""}},
};

static struct sn_why_facts facts; /* too large for a stack */

static void each_cause_has_its_facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sn_why_finding finding;
        make_facts(&facts, &cases[i].change);
        sn_why_judge(&facts, &finding);
        if (strcmp(finding.cause, cases[i].cause) != 0 || finding.verdict != cases[i].verdict) {
            fail_msg("case %zu: not %s but %s: %s", i, cases[i].cause, finding.cause, finding.text);
        }
        /* Keys are shortened for people. */
        char part[64];
        (void)snprintf(part, sizeof part, "%.24s", cases[i].part);
        expect_part(finding.text, strcmp(cases[i].part, KEY_B) == 0 ? part : cases[i].part);
        assert_null(strchr(finding.text, '\n'));
        assert_true(strlen(finding.text) > 30);
        /* Whatever is wrong, there is something to do about it. */
        if (finding.verdict == SN_WHY_ILL) expect_part(finding.text, "; ");
        const char *known = cases[i].change.state;
        if (known != NULL && known[0] != '\0') assert_string_equal(finding.state, known);
    }
}

static void texts_of_any_length_fit(void **state)
{
    struct sn_why_finding finding;
    const struct change change = {US, .error = "mismatch", .presented_id = KEY_B};
    (void)state;
    make_facts(&facts, &change);
    memset(facts.agent, 'a', sizeof facts.agent - 1);
    memset(facts.peer.reason, 'r', sizeof facts.peer.reason - 1);
    memset(facts.peer.dialed, 'd', sizeof facts.peer.dialed - 1);
    sn_why_judge(&facts, &finding);
    assert_true(strlen(finding.text) < sizeof finding.text);
    make_facts(&facts, &(struct change){.state = ""});
    SET(facts.agent, facts.self);
    sn_why_judge(&facts, &finding);
    assert_string_equal(finding.cause, "self");
    assert_string_equal(finding.state, "self");
    assert_int_equal(finding.verdict, SN_WHY_NOBODY);
}

static void ages_are_readable(void **state)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } ages[] = {{0, "0ms"},          {999, "999ms"},
                {1000, "1s"},        {59999, "59s"},
                {60000, "1m00s"},    {3599999, "59m59s"},
                {3600000, "1h00m"},  {86399999, "23h59m"},
                {86400000, "1d00h"}, {UINT64_MAX - 1, "213503982334d14h"}};
    char text[SN_WHY_AGE_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof ages / sizeof ages[0]; i++) {
        assert_string_equal(sn_why_age(ages[i].ms, text), ages[i].text);
    }
}

/* --- Views ----------------------------------------------------------------------------------------------- */

static void add_refused(struct sn_body *body, const char *agent, uint64_t since_ms,
                        const char *error)
{
    sn_body_map(body, 4);
    sn_body_text(body, "agent", agent);
    sn_body_text(body, "state", "refused");
    sn_body_uint(body, "since_ms", since_ms);
    sn_body_text(body, "error", error);
}

static void make_rows(struct sn_body *body)
{
    sn_body_init(body);
    sn_body_array(body, 6);
    sn_body_map(body, 3); /* of an older agent */
    sn_body_text(body, "agent", "oslo/fat");
    sn_body_text(body, "state", "down");
    sn_body_uint(body, "since_ms", 7);
    add_refused(body, "oslo/far", 900, "expired");
    sn_body_map(body, 9);
    sn_body_text(body, "agent", "oslo/far");
    sn_body_text(body, "state", "connecting");
    sn_body_key(body, "linked");
    sn_body_need(body, 1);
    sn_pack_bool(&body->pack, 1);
    sn_body_int(body, "clock_offset_ms", -5);
    sn_body_key(body, "last_undelivered");
    sn_body_map(body, 5);
    sn_body_text(body, "actor", "door");
    sn_body_text(body, "type", "door.open");
    sn_body_text(body, "news", "of a newer agent");
    sn_body_text(body, "reason", "denied");
    sn_body_uint(body, "since_ms", 11);
    sn_body_uint(body, "attempts", 4);
    sn_body_key(body, "nested"); /* of a newer agent */
    sn_body_map(body, 1);
    sn_body_text(body, "agent", "oslo/x");
    sn_body_uint(body, "ended_ms", 12);
    sn_body_text(body, "error", "a name of an error that is far longer than any error's name is");
    add_refused(body, "oslo/far", 100, "untrusted");
    add_refused(body, "oslo/near", 1, "expired");
    add_refused(body, "oslo/far", 500, "version");
}

static void rows_become_facts(void **state)
{
    struct sn_body body;
    (void)state;
    make_rows(&body);
    assert_int_equal(body.err, SN_OK);
    sn_why_facts_init(&facts);
    SET(facts.agent, "oslo/far");
    assert_int_equal(sn_why_read_peers(&facts, body.pack.data, body.pack.size), SN_OK);
    assert_true(facts.peer.is_known && facts.peer.is_linked && facts.is_named);
    assert_string_equal(facts.peer.state, "connecting");
    assert_int_equal(facts.peer.clock_offset_ms, -5);
    assert_int_equal(facts.peer.attempts, 4);
    assert_int_equal(facts.peer.ended_ms, 12);
    assert_true(facts.peer.answered_ms == SN_WHY_NEVER);
    assert_true(facts.peer.next_attempt_ms == SN_WHY_NEVER);
    assert_string_equal(facts.peer.undelivered_actor, "door");
    assert_string_equal(facts.peer.undelivered_reason, "denied");
    assert_int_equal(facts.peer.undelivered_ms, 11);
    assert_int_equal(facts.peer.since_ms, 0); /* not that of the message */
    assert_string_equal(facts.peer.error, "");
    assert_string_equal(facts.refused.error, "untrusted"); /* the newest */
    assert_string_equal(facts.similar, "oslo/fat");
    /* Cut anywhere it is an error, and nothing else. */
    for (size_t size = 0; size < body.pack.size; size++) {
        sn_why_facts_init(&facts);
        assert_int_not_equal(sn_why_read_peers(&facts, body.pack.data, size), SN_OK);
    }
    sn_body_fini(&body);
}

static void add_forward(struct sn_body *body, const char *name, const char *to, const char *state,
                        const char *error, uint64_t failed, uint64_t waiting)
{
    sn_body_map(body, 7);
    sn_body_text(body, "name", name);
    sn_body_text(body, "to", to);
    sn_body_text(body, "target", "www");
    sn_body_text(body, "state", state);
    sn_body_text(body, "error", error);
    sn_body_uint(body, "failed", failed);
    sn_body_uint(body, "waiting", waiting);
}

static void forwards_become_facts(void **state)
{
    struct sn_body body;
    (void)state;
    sn_body_init(&body);
    sn_body_map(&body, 2);
    sn_body_key(&body, "targets");
    sn_body_array(&body, 0);
    sn_body_key(&body, "forwards");
    sn_body_array(&body, 7);
    add_forward(&body, "other", "oslo/near", "listening", "not allowed", 99, 0);
    add_forward(&body, "well", "oslo/far", "listening", "", 99, 0);
    add_forward(&body, "few", "oslo/far", "listening", "connection refused", 1, 0);
    add_forward(&body, "many", "oslo/far", "listening", "not allowed", 5, 0);
    add_forward(&body, "less", "oslo/far", "listening", "timed out", 4, 0);
    add_forward(&body, "port", "oslo/far", "failed", "somebody else holds it", 99, 0);
    add_forward(&body, "wait", "oslo/far", "listening", "waiting for oslo/far", 99, 1);
    assert_int_equal(body.err, SN_OK);
    sn_why_facts_init(&facts);
    SET(facts.agent, "oslo/far");
    assert_int_equal(sn_why_read_forwards(&facts, body.pack.data, body.pack.size), SN_OK);
    assert_string_equal(facts.forward.name, "many");
    assert_true(facts.is_named);
    for (size_t size = 0; size < body.pack.size; size++) {
        assert_int_not_equal(sn_why_read_forwards(&facts, body.pack.data, size), SN_OK);
    }
    sn_body_fini(&body);
}

static void the_status_becomes_facts(void **state)
{
    struct sn_body body;
    (void)state;
    for (uint32_t count = 0; count < 2; count++) {
        sn_body_init(&body);
        sn_body_map(&body, 3);
        sn_body_text(&body, "agent", "paris/hub");
        sn_body_key(&body, "listen");
        sn_body_array(&body, count);
        if (count > 0) sn_body_key(&body, "127.0.0.1:1");
        sn_body_int(&body, "certificate_valid_s", -7);
        sn_why_facts_init(&facts);
        assert_int_equal(sn_why_read_status(&facts, body.pack.data, body.pack.size), SN_OK);
        assert_string_equal(facts.self, "paris/hub");
        assert_int_equal(facts.can_listen, count);
        assert_int_equal(facts.own_valid_s, -7);
        for (size_t size = 0; size < body.pack.size; size++) {
            assert_int_not_equal(sn_why_read_status(&facts, body.pack.data, size), SN_OK);
        }
        sn_body_fini(&body);
    }
}

/* --- The command ------------------------------------------------------------------------------------------- */

static void what_is_mistyped_is_said(void **state)
{
    static const char *const bad[][2] = {{"", "usage:"},
                                         {"hub", "an agent is named site/agent"},
                                         {"paris/hub:", "an agent is named site/agent"},
                                         {"paris/hub:a:b", "an agent is named site/agent"},
                                         {":door", "an agent is named site/agent"},
                                         {"paris/hub more", "one argument too many"},
                                         {"paris/hub --timeout 0", "--timeout takes"},
                                         {"paris/hub -c none.yaml", "no such file"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t in_use = sn_alloc_in_use();
        assert_int_equal(run_command(sn_cmd_why, "why", bad[i][0]), SN_EXIT_USAGE);
        expect_part(caught_err, bad[i][1]);
        assert_string_equal(caught_out, "");
        assert_int_equal(sn_alloc_in_use(), in_use);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_has_its_facts), cmocka_unit_test(texts_of_any_length_fit),
        cmocka_unit_test(ages_are_readable),        cmocka_unit_test(rows_become_facts),
        cmocka_unit_test(forwards_become_facts),    cmocka_unit_test(the_status_becomes_facts),
        cmocka_unit_test(what_is_mistyped_is_said),
    };
    return cmocka_run_group_tests(tests, commands_begin, commands_end);
}
