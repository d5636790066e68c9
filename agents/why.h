/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why this agent cannot talk to another one, or that it can: a judgement over what the views of a running agent say.
 * Pure functions: no I/O, no clock. Thread-safe: yes.
 */
#ifndef SN_AGENTS_WHY_H
#define SN_AGENTS_WHY_H

#include <stddef.h>
#include <stdint.h>

#include "crypto/key.h"
#include "sennit/limits.h"

#define SN_WHY_NEVER         UINT64_MAX /* of an age: it never was */
#define SN_WHY_WORDS_MAX     192u
#define SN_WHY_TEXT_MAX      640u
#define SN_WHY_CAUSE_MAX     48u
#define SN_WHY_CLOCK_OFF_MS  60000 /* more than that is worth an operator's time */
#define SN_WHY_ADDRESS_BYTES 264u

/* A row of the view `peers`. Texts are "" and ages SN_WHY_NEVER where the row says nothing. */
struct sn_why_peer {
    uint8_t is_known; /* there is a row */
    uint8_t is_linked;
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];
    char id[SN_KEY_TEXT_BYTES + 1];
    char state[16];
    uint64_t since_ms;
    uint64_t rtt_us;
    int64_t clock_offset_ms;
    uint64_t sessions;
    char reason[SN_WHY_WORDS_MAX];
    char remote[SN_WHY_ADDRESS_BYTES];
    char dialed[SN_WHY_ADDRESS_BYTES];
    uint64_t attempts;
    uint64_t next_attempt_ms;
    char error[32];
    char refused_by[16];
    char presented_id[SN_KEY_TEXT_BYTES + 1];
    char presented_agent[SN_AGENT_NAME_BYTES_MAX + 1];
    uint64_t answered_ms;
    uint64_t ended_ms;
    char ended_error[32];
    char ended_detail[SN_WHY_WORDS_MAX];
    uint64_t queued;
    uint64_t queued_bytes;
    uint64_t queued_ms;
    uint64_t count; /* of a row that tells of refusals */
    /* The last message that it did not take. */
    char undelivered_actor[SN_LABEL_BYTES_MAX + 1];
    char undelivered_type[SN_TYPE_BYTES_MAX + 1];
    char undelivered_reason[32];
    uint64_t undelivered_ms;
};

/* What came of one ping. */
struct sn_why_ping {
    uint8_t was_sent;
    enum sn_err err;
    char reason[64]; /* the ledger's, or an error's text */
    uint64_t us;
};

/* The forward to the agent whose last client got nothing, if there is one. */
struct sn_why_forward {
    char name[SN_LABEL_BYTES_MAX + 1];
    char target[SN_LABEL_BYTES_MAX + 1];
    char error[SN_WHY_WORDS_MAX]; /* the text of an error; "" = none fails */
    uint64_t failed;
};

struct sn_why_facts {
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];   /* who is asked about */
    char actor[SN_LABEL_BYTES_MAX + 1];        /* "" = none in particular */
    char self[SN_AGENT_NAME_BYTES_MAX + 1];    /* this agent */
    char similar[SN_AGENT_NAME_BYTES_MAX + 1]; /* the closest of the names that are known */
    char expected_id[SN_KEY_TEXT_BYTES + 1];   /* a pin, of the link or by itself */
    uint8_t is_named;    /* by this agent's file, as a link, pin, destination or in a rule */
    uint8_t can_listen;  /* this agent has an address that others can dial */
    int64_t own_valid_s; /* of this agent's certificate */
    struct sn_why_peer peer;
    struct sn_why_peer
        refused; /* the newest refusal of somebody by that name, which came to this agent */
    struct sn_why_ping ping;
    struct sn_why_peer row; /* scratch of sn_why_read_peers */
    struct sn_why_forward forward;
};

enum sn_why_verdict { SN_WHY_WELL, SN_WHY_ILL, SN_WHY_NOBODY };

struct sn_why_finding {
    enum sn_why_verdict verdict;
    char state[16];               /* up, connecting, down, refused, unknown, self */
    char cause[SN_WHY_CAUSE_MAX]; /* a stable id, such as refused-untrusted */
    char text[SN_WHY_TEXT_MAX];   /* one line: what it is, and what to do */
};

/* Facts of nothing. */
void sn_why_facts_init(struct sn_why_facts *facts);
/* Somebody whom this agent knows by name: the agent that is asked about, or one that may be meant. */
void sn_why_read_name(struct sn_why_facts *facts, const char *name);
/* The bodies of the views, and what the tunnel plugin lists (as msgpack). What they lack stays as it is.
 * Errors: those of a cursor. */
SN_MUST_CHECK enum sn_err sn_why_read_status(struct sn_why_facts *facts, const void *bytes,
                                             size_t size);
SN_MUST_CHECK enum sn_err sn_why_read_peers(struct sn_why_facts *facts, const void *bytes,
                                            size_t size);
SN_MUST_CHECK enum sn_err sn_why_read_forwards(struct sn_why_facts *facts, const void *bytes,
                                               size_t size);

void sn_why_judge(const struct sn_why_facts *facts, struct sn_why_finding *out_finding);

/* "850ms", "12s", "3m20s", "2h05m", "4d03h". Returns `out`. */
#define SN_WHY_AGE_MAX 24u
const char *sn_why_age(uint64_t ms, char out[SN_WHY_AGE_MAX]);

#endif
