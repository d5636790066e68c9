/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: every set of facts has exactly one finding; a finding that is not "up" says what to do about it; ids of
 * causes are those that `sennit why --help` lists.
 *
 * The order of judgement: who is meant at all; what stands between two agents that have no session, the refusals first,
 * as a connection was made then; what is wrong although they have one.
 */
#include "agents/why.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"

#define SHORT_KEY_BYTES 24u /* "ed25519:" and 16 digits tell keys apart for people */

static int is(const char *text, const char *wanted)
{
    return strcmp(text, wanted) == 0;
}

const char *sn_why_age(uint64_t ms, char out[SN_WHY_AGE_MAX])
{
    struct sn_text text;
    unsigned long long s = ms / 1000;
    sn_text_init(&text, out, SN_WHY_AGE_MAX);
    if (ms < 1000) {
        sn_text_add(&text, "%llums", (unsigned long long)ms);
    } else if (s < 60) {
        sn_text_add(&text, "%llus", s);
    } else if (s < 3600) {
        sn_text_add(&text, "%llum%02llus", s / 60, s % 60);
    } else if (s < 86400) {
        sn_text_add(&text, "%lluh%02llum", s / 3600, s / 60 % 60);
    } else {
        sn_text_add(&text, "%llud%02lluh", s / 86400, s / 3600 % 24);
    }
    return out;
}

/* --- A finding in the making ------------------------------------------------------------------------ */

struct judge {
    const struct sn_why_facts *facts;
    struct sn_why_finding *finding;
    struct sn_text text;
};

static void find(struct judge *judge, enum sn_why_verdict verdict, const char *cause,
                 const char *more)
{
    struct sn_text id;
    judge->finding->verdict = verdict;
    sn_text_init(&id, judge->finding->cause, sizeof judge->finding->cause);
    sn_text_add(&id, "%s%s", cause, more);
    SN_ASSERT(!id.truncated); /* both are of the tables here */
}

static void find_ill(struct judge *judge, const char *cause)
{
    find(judge, SN_WHY_ILL, cause, "");
}

static void add_age(struct judge *judge, const char *before, uint64_t ms, const char *after)
{
    char age[SN_WHY_AGE_MAX];
    sn_text_add(&judge->text, "%s%s%s", before, sn_why_age(ms, age), after);
}

/* --- Refusals ------------------------------------------------------------------------------------------- */

struct refusal {
    const char *error; /* name of an error */
    const char *cause;
    const char *what; /* is wrong with the one that is refused: "its ..." */
    const char *todo; /* with the one that is refused; %s would be its name */
};

static const struct refusal refusals[] = {
    {"mesh", "mesh", "it belongs to another mesh",
     "see that `mesh` is the same in both agent files and certificates"},
    {"key", "key", "it has another key than the one that is pinned for it",
     "if it was given a new key, put that into the fleet file and render; if not, somebody else "
     "answers there"},
    {"name", "name", "another agent answers there",
     "correct the address of the link, or the files of the one that answers"},
    {"mismatch", "mismatch", "it is of another mesh, name or key than expected",
     "compare `mesh`, `agent` and the pinned key of both agent files"},
    {"untrusted", "untrusted", "no authority or pin vouches for its key",
     "render its certificate with the authority of this mesh, or pin its key"},
    {"expired", "expired", "its certificate has expired",
     "render the fleet again, copy its agent.cert and run `sennit reload` there; or set the clock "
     "that is wrong"},
    {"not-yet-valid", "not-yet-valid", "its certificate is not valid yet",
     "set the clock that is wrong, or render the certificate again"},
    {"bad-signature", "bad-signature", "its certificate, or its proof of the key, is wrong",
     "give it the node.key and agent.cert that belong together"},
    {"duplicate", "duplicate", "another agent of that name is connected",
     "stop one of the two that run with the same files"},
    {"replay", "replay", "it comes as an older boot than the last one",
     "its `data` folder was restored or copied: start it again until its epoch is higher"},
    {"version", "version", "it speaks another version of the protocol",
     "install the same version of sennit on both"},
    {"full", "full", "there is no room for another agent", "restart the one that is full"},
};

static const struct refusal *refusal_for(const char *error)
{
    for (unsigned i = 0; i < SN_ARRAY_COUNT(refusals); i++) {
        if (is(refusals[i].error, error)) return &refusals[i];
    }
    return NULL;
}

/* A reason without the name of its error in front, which may be less exact than what is known here. */
static const char *detail_of(const char *reason)
{
    size_t size = strcspn(reason, ": ");
    return strncmp(reason + size, ": ", 2) == 0 ? reason + size + 2 : reason;
}

/* What exactly does not match: a row has the name and the key that were presented. */
static const char *kind_of_mismatch(const struct sn_why_facts *facts, const char *presented_id,
                                    const char *presented_agent)
{
    const char *expected = facts->expected_id;
    if (presented_agent[0] != '\0' && !is(presented_agent, facts->agent)) return "name";
    if (expected[0] != '\0' && presented_id[0] != '\0' && !is(presented_id, expected)) return "key";
    return "mesh";
}

/* Somebody was refused here. The reason has figures: both times, or the name of the other mesh. */
static void judge_refused(struct judge *judge, const char *error, const char *id, const char *agent,
                          const char *reason, const char *remote)
{
    const struct sn_why_facts *facts = judge->facts;
    if (is(error, "mismatch")) error = kind_of_mismatch(facts, id, agent);
    const struct refusal *refusal = refusal_for(error);
    find(judge, SN_WHY_ILL, refusal == NULL ? "refused" : "refused-",
         refusal == NULL ? "" : refusal->cause);
    sn_text_add(&judge->text, "this agent refuses %s%s%s: %s", facts->agent,
                remote[0] == '\0' ? "" : " at ", remote,
                refusal == NULL ? "it did not prove who it is" : refusal->what);
    if (reason[0] != '\0') sn_text_add(&judge->text, " (%s)", detail_of(reason));
    if (id[0] != '\0') sn_text_add(&judge->text, "; it has key %.*s...", SHORT_KEY_BYTES, id);
    sn_text_add(&judge->text, "; %s",
                refusal == NULL ? "see PEER-REFUSED in the log" : refusal->todo);
}

static void add_own_certificate(struct judge *judge)
{
    int64_t valid_s = judge->facts->own_valid_s;
    if (valid_s < 0) {
        add_age(judge, "; this agent's certificate ran out ", (uint64_t)-valid_s * 1000,
                " ago: render the fleet again, copy agent.cert here and run `sennit reload`");
    } else if (valid_s < INT64_MAX / 1000) {
        add_age(judge, "; by the clock here this agent's certificate is valid for another ",
                (uint64_t)valid_s * 1000, ": set the clock that is wrong");
    }
}

static void judge_refused_by_peer(struct judge *judge)
{
    const struct sn_why_facts *facts = judge->facts;
    const struct sn_why_peer *peer = &facts->peer;
    const struct refusal *refusal = refusal_for(peer->error);
    const char *at = peer->is_linked ? peer->dialed : "";
    find(judge, SN_WHY_ILL, refusal == NULL ? "refused-by-peer" : "refused-by-peer-",
         refusal == NULL ? "" : refusal->cause);
    sn_text_add(&judge->text, "%s%s%s refuses this agent: %s (%s)", facts->agent,
                at[0] == '\0' ? "" : " at ", at,
                refusal == NULL ? "it does not say why" : refusal->what, detail_of(peer->reason));
    if (is(peer->error, "expired")) {
        add_own_certificate(judge);
        return;
    }
    sn_text_add(&judge->text, "; `sennit why %s` there says more", facts->self);
    if (refusal != NULL) sn_text_add(&judge->text, "; %s", refusal->todo);
}

/* --- No session --------------------------------------------------------------------------------------------- */

static const struct {
    const char *error;
    const char *cause;
    const char *what;
    const char *todo;
} dial_faults[] = {
    {"not-found", "unresolved", "its name cannot be resolved",
     "correct the `address` of the link, or the name service"},
    {"connection-refused", "connection-refused", "connection refused, nothing listens there",
     "see that the agent runs there, and that the `address` of the link is right"},
    {"timed-out", "timed-out", "no answer in time",
     "see that the machine is up, and that no firewall drops the port"},
    {"unreachable", "unreachable", "there is no way to the address",
     "see the network and the routes of this machine"},
    {"protocol", "not-sennit", "what answers there is no agent",
     "correct the `address` of the link, or take away what stands between"},
    {"closed", "hung-up", "the connection ends before anybody says who they are",
     "see the log there: it may be full, or something stands between"},
    {"reset", "hung-up", "the connection is reset before anybody says who they are",
     "see the log there: it may be full, or something stands between"},
    {"no-descriptors", "no-descriptors", "this agent has no descriptors left",
     "raise the limit: ulimit -n, or LimitNOFILE= of the service"},
};

/* How and when there was a session last. */
static void add_end(struct judge *judge)
{
    const struct sn_why_peer *peer = &judge->facts->peer;
    if (peer->ended_ms == SN_WHY_NEVER) return;
    add_age(judge, "; it was up until ", peer->ended_ms, " ago");
    if (peer->ended_detail[0] != '\0') sn_text_add(&judge->text, " (%s)", peer->ended_detail);
}

static void add_attempts(struct judge *judge)
{
    const struct sn_why_peer *peer = &judge->facts->peer;
    sn_text_add(&judge->text, " (attempt %llu", (unsigned long long)peer->attempts);
    if (peer->next_attempt_ms != SN_WHY_NEVER) {
        add_age(judge, ", the next one in ", peer->next_attempt_ms, "");
    }
    sn_text_add(&judge->text, ")");
}

static void judge_dial(struct judge *judge)
{
    const struct sn_why_peer *peer = &judge->facts->peer;
    unsigned at = 0;
    while (at < SN_ARRAY_COUNT(dial_faults) && !is(dial_faults[at].error, peer->error)) at++;
    int is_listed = at < SN_ARRAY_COUNT(dial_faults);
    find_ill(judge, is_listed ? dial_faults[at].cause : "dial-failed");
    sn_text_add(&judge->text, "this agent cannot connect to %s at %s: %s", peer->agent,
                peer->dialed, is_listed ? dial_faults[at].what : peer->reason);
    add_attempts(judge);
    add_end(judge);
    sn_text_add(&judge->text, "; %s",
                is_listed ? dial_faults[at].todo : "see DIAL-FAILED in the log");
}

static void judge_ended(struct judge *judge)
{
    const struct sn_why_facts *facts = judge->facts;
    const struct sn_why_peer *peer = &facts->peer;
    int has_left = is(peer->ended_error, "goodbye");
    int has_expired = is(peer->ended_error, "expired");
    find_ill(judge, has_left ? "left" : has_expired ? "certificate-ended" : "lost");
    sn_text_add(&judge->text, "%s %s", facts->agent,
                has_left ? "stopped in good order" : "was connected");
    add_age(judge, has_left ? " " : " until ", peer->ended_ms, " ago");
    if (peer->ended_detail[0] != '\0') sn_text_add(&judge->text, " (%s)", peer->ended_detail);
    if (peer->is_linked) {
        sn_text_add(&judge->text, "; this agent dials it at %s",
                    peer->dialed[0] == '\0' ? "its address" : peer->dialed);
        add_attempts(judge);
    } else {
        sn_text_add(&judge->text, "; it has to dial this agent, which has no link to it");
    }
    sn_text_add(&judge->text, "; %s",
                has_left ? "start it again"
                : has_expired
                    ? "render the fleet again, copy agent.cert there and run `sennit reload`"
                    : "see that it runs, and the network between");
}

/* Known from afar, or not even that: no session so far, and this agent does not dial. */
static void judge_unlinked(struct judge *judge)
{
    const struct sn_why_facts *facts = judge->facts;
    find_ill(judge, facts->can_listen ? "never-seen" : "not-linked");
    if (facts->can_listen) {
        sn_text_add(
            &judge->text,
            "this agent has no link to %s and waits to be dialed by it, which has not "
            "happened since the start; see that %s runs, has %s among its `links`, and what "
            "`sennit why %s` says there",
            facts->agent, facts->agent, facts->self, facts->self);
    } else {
        sn_text_add(&judge->text,
                    "nobody dials: this agent has no link to %s, and no `listen` for %s to dial; "
                    "give one of them `links` in the fleet file, render and `sennit reload`",
                    facts->agent, facts->agent);
    }
}

static void judge_beginning(struct judge *judge)
{
    const struct sn_why_peer *peer = &judge->facts->peer;
    find_ill(judge, "dialing");
    sn_text_add(&judge->text, "this agent dials %s%s%s for the first time and waits for an answer",
                peer->agent, peer->dialed[0] == '\0' ? "" : " at ", peer->dialed);
    add_attempts(judge);
    sn_text_add(&judge->text, "; ask again in a moment");
}

/* An inbound attempt was refused here, later than the last session ended. */
static int is_refused_here(const struct sn_why_facts *facts)
{
    return facts->refused.is_known && facts->refused.since_ms <= facts->peer.ended_ms;
}

static void judge_without_session(struct judge *judge)
{
    const struct sn_why_peer *peer = &judge->facts->peer;
    const struct sn_why_peer *refused = &judge->facts->refused;
    if (is(peer->refused_by, "this agent")) {
        judge_refused(judge, peer->error, peer->presented_id, peer->presented_agent, peer->reason,
                      peer->dialed);
    } else if (is(peer->refused_by, "the peer")) {
        judge_refused_by_peer(judge);
    } else if (is_refused_here(judge->facts)) {
        judge_refused(judge, refused->error, refused->id, refused->agent, refused->reason,
                      refused->remote);
    } else if (peer->is_linked && peer->error[0] != '\0') {
        judge_dial(judge);
    } else if (peer->ended_ms != SN_WHY_NEVER) {
        judge_ended(judge);
    } else if (peer->is_linked) {
        judge_beginning(judge);
    } else {
        judge_unlinked(judge);
    }
}

/* --- A session ------------------------------------------------------------------------------------------------ */

static void add_waiting(struct judge *judge)
{
    const struct sn_why_peer *peer = &judge->facts->peer;
    if (peer->queued == 0) return;
    sn_text_add(&judge->text, "; %llu messages of %llu KiB wait", (unsigned long long)peer->queued,
                (unsigned long long)peer->queued_bytes / 1024);
    if (peer->queued_ms != SN_WHY_NEVER) add_age(judge, ", the first for ", peer->queued_ms, "");
}

/* A message of any size might still find room, but one of the largest would not. */
static int is_queue_full(const struct sn_why_peer *peer)
{
    return peer->queued >= SN_DELIVERY_QUEUE_MESSAGES ||
           peer->queued_bytes + SN_MESSAGE_BYTES_MAX > SN_DELIVERY_QUEUE_BYTES;
}

static void judge_unanswered(struct judge *judge)
{
    const struct sn_why_facts *facts = judge->facts;
    const struct sn_why_peer *peer = &facts->peer;
    int is_full = is_queue_full(peer);
    find_ill(judge, is_full ? "queue-full" : "no-answer");
    sn_text_add(&judge->text, "%s is connected, but %s", facts->agent,
                is_full ? "takes nothing: the queue for it is full, and what is sent now is refused"
                        : "did not answer a ping");
    if (!is_full) sn_text_add(&judge->text, " (%s)", facts->ping.reason);
    add_waiting(judge);
    if (peer->answered_ms != SN_WHY_NEVER) {
        add_age(judge, "; its last heartbeat came ", peer->answered_ms, " ago");
    }
    sn_text_add(&judge->text, "; see whether %s hangs, or the network between", facts->agent);
}

static void judge_clock(struct judge *judge)
{
    int64_t offset_ms = judge->facts->peer.clock_offset_ms;
    uint64_t size_ms = offset_ms < 0 ? 0 - (uint64_t)offset_ms : (uint64_t)offset_ms;
    find_ill(judge, "clock-offset");
    sn_text_add(&judge->text, "%s is up, but its clock is ", judge->facts->agent);
    add_age(judge, "", size_ms, offset_ms < 0 ? " behind" : " ahead");
    sn_text_add(&judge->text, " of this one; set the one that is wrong before certificates are "
                              "refused");
}

static const struct {
    const char *reason; /* of the ledger */
    const char *what;
    const char *todo;
} message_faults[] = {
    {"denied", "no access rule there allows it", "add one to `access` in the fleet file"},
    {"no-actor", "there is no such actor", "see `sennit actors` and `sennit plugins` there"},
    {"mailbox-full", "the actor has more to do than it takes", "see `sennit actors` there"},
    {"actor-failed", "the actor failed with it", "see the log there"},
};

static unsigned find_message_fault(const struct sn_why_facts *facts)
{
    unsigned at = 0;
    const char *reason = facts->peer.undelivered_reason;
    while (at < SN_ARRAY_COUNT(message_faults) && !is(message_faults[at].reason, reason)) at++;
    return at;
}

static void judge_message(struct judge *judge, unsigned at)
{
    const struct sn_why_peer *peer = &judge->facts->peer;
    find_ill(judge, message_faults[at].reason);
    sn_text_add(&judge->text, "%s is up, but did not take the last %s to :%s", judge->facts->agent,
                peer->undelivered_type, peer->undelivered_actor);
    if (peer->undelivered_ms != SN_WHY_NEVER) add_age(judge, ", ", peer->undelivered_ms, " ago");
    sn_text_add(&judge->text, ": %s; %s", message_faults[at].what, message_faults[at].todo);
}

static void judge_forward(struct judge *judge)
{
    const struct sn_why_facts *facts = judge->facts;
    const struct sn_why_forward *forward = &facts->forward;
    int is_denied = is(forward->error, sn_err_text(SN_EDENIED));
    find_ill(judge, is_denied ? "target-denied" : "target-failed");
    sn_text_add(&judge->text,
                "%s is up, but the last client of forward %s did not reach its target %s: %s",
                facts->agent, forward->name, forward->target, forward->error);
    if (is_denied) {
        sn_text_add(&judge->text, "; put %s into `allow` of the target", facts->self);
    } else {
        sn_text_add(&judge->text, "; see that the service runs, and `sennit forwards` there");
    }
}

static void judge_well(struct judge *judge)
{
    const struct sn_why_facts *facts = judge->facts;
    const struct sn_why_peer *peer = &facts->peer;
    unsigned long long us = (unsigned long long)facts->ping.us;
    find(judge, SN_WHY_WELL, "up", "");
    sn_text_add(&judge->text, "%s is up and well: it answered a ping in %llu.%03llu ms",
                facts->agent, us / 1000, us % 1000);
    add_age(judge, ", the session is ", peer->since_ms, " old");
    sn_text_add(&judge->text, ", its clock is off by %lld ms", (long long)peer->clock_offset_ms);
    if (facts->refused.is_known && facts->refused.since_ms <= peer->since_ms) {
        add_age(judge, "; another of that name was refused ", facts->refused.since_ms, " ago");
        sn_text_add(&judge->text, " (%s)", facts->refused.reason);
    }
    if (facts->actor[0] != '\0') {
        sn_text_add(&judge->text, "; no message to :%s was refused lately", facts->actor);
    } else if (peer->undelivered_reason[0] != '\0') {
        sn_text_add(&judge->text, "; the last message to :%s was not taken (%s)",
                    peer->undelivered_actor, peer->undelivered_reason);
    }
}

static void judge_session(struct judge *judge)
{
    const struct sn_why_facts *facts = judge->facts;
    int64_t offset_ms = facts->peer.clock_offset_ms;
    unsigned fault = find_message_fault(facts);
    int has_fault = fault < SN_ARRAY_COUNT(message_faults) && facts->actor[0] != '\0' &&
                    is(facts->peer.undelivered_actor, facts->actor);
    if (!facts->ping.was_sent || facts->ping.err != SN_OK) {
        judge_unanswered(judge);
    } else if (has_fault) {
        judge_message(judge, fault);
    } else if (facts->actor[0] == '\0' && facts->forward.error[0] != '\0') {
        judge_forward(judge);
    } else if (offset_ms > SN_WHY_CLOCK_OFF_MS || offset_ms < -SN_WHY_CLOCK_OFF_MS) {
        judge_clock(judge);
    } else {
        judge_well(judge);
    }
}

/* --- Who is meant ----------------------------------------------------------------------------------------------- */

static void judge_nobody(struct judge *judge)
{
    const struct sn_why_facts *facts = judge->facts;
    find(judge, SN_WHY_NOBODY, "no-such-agent", "");
    sn_text_add(&judge->text, "this agent knows no agent %s; `sennit peers` shows those it knows",
                facts->agent);
    if (facts->can_listen) {
        sn_text_add(&judge->text, ", and one that has to dial this agent is known once it has");
    }
    if (facts->similar[0] != '\0') sn_text_add(&judge->text, "; did you mean %s?", facts->similar);
}

static void judge_self(struct judge *judge)
{
    find(judge, SN_WHY_NOBODY, "self", "");
    sn_text_add(&judge->text, "%s is this agent itself; see `sennit status`", judge->facts->agent);
}

void sn_why_judge(const struct sn_why_facts *facts, struct sn_why_finding *out_finding)
{
    struct judge judge = {.facts = facts, .finding = out_finding};
    const char *state = facts->peer.state;
    memset(out_finding, 0, sizeof *out_finding);
    sn_text_init(&judge.text, out_finding->text, sizeof out_finding->text);
    if (is(facts->agent, facts->self)) {
        state = "self";
        judge_self(&judge);
    } else if (facts->peer.is_known && is(state, "up")) {
        judge_session(&judge);
    } else if (facts->peer.is_known) {
        judge_without_session(&judge);
    } else if (facts->refused.is_known) {
        state = "refused";
        judge_without_session(&judge);
    } else {
        state = "unknown";
        if (facts->is_named) {
            judge_unlinked(&judge);
        } else {
            judge_nobody(&judge);
        }
    }
    struct sn_text text;
    sn_text_init(&text, out_finding->state, sizeof out_finding->state);
    sn_text_add(&text, "%s", state);
    SN_ASSERT(out_finding->cause[0] != '\0');
}
