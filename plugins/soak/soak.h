/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purpose: the `soak` actor sends numbered messages to its twin at a peer, and checks those of the twin.
 * In: `soak.data` from the peer; OUTCOME of its own; the question `soak.report` from this agent. Out: `soak.data`;
 * `soak.reported`, JSON:
 *   {"sent","outcomes":{"delivered","undelivered":{reason:n},"unknown":{reason:n}},
 *    "received","doubled","reordered","altered","done"}
 * States: sending --number `messages` accepted--> waiting --all outcomes in, all messages of the peer here--> done.
 * Invariants: 1. each number is offered to sn_send until it is accepted, in order; 2. sent = outcomes + those under
 * way;
 * 3. a message counts as received once, the first time that it comes intact; 4. no number is offered before it is due.
 */
#ifndef SN_PLUGINS_SOAK_SOAK_H
#define SN_PLUGINS_SOAK_SOAK_H

#include "payload.h"
#include "sennit/plugin.h"

#define SOAK_DATA     "soak.data"
#define SOAK_REPORT   "soak.report"
#define SOAK_REPORTED "soak.reported"

#define SOAK_REPORT_BYTES_MAX 2048u

struct soak_source {
    struct soak_plan plan;
    char to[SN_ADDR_BYTES_MAX + 1];
    uint32_t is_control;
    uint32_t per_second; /* 0: as fast as they are taken */
    uint64_t started_ms;
    uint32_t sent;
    uint32_t settled; /* outcomes that came back */
    uint32_t delivered;
    uint32_t undelivered[SN_REASON_COUNT];
    uint32_t unknown[SN_REASON_COUNT];
    uint8_t is_retry_set;
    uint8_t is_stopping;
    uint8_t scratch[SN_MESSAGE_BYTES_MAX]; /* the message being sent */
};

struct soak_sink {
    struct soak_plan plan;
    uint32_t next; /* one above the highest number seen */
    uint32_t received;
    uint32_t doubled;
    uint32_t reordered;
    uint32_t altered;
    uint8_t seen[(SOAK_MESSAGES_MAX + 7) / 8];
};

struct soak {
    char peer[SN_AGENT_NAME_BYTES_MAX + 1];
    struct soak_source source;
    struct soak_sink sink;
    char report[SOAK_REPORT_BYTES_MAX];
};

extern const struct sn_actor_kind sni_soak_kind;
extern const struct sn_config_field sni_soak_fields[];

/* Judges one message. */
void sni_soak_sink_take(struct soak_sink *sink, const uint8_t *bytes, uint32_t size);

/* Nothing of either direction is missing any more. */
int sni_soak_is_done(const struct soak *soak);
/* Writes the report; returns its size. */
uint32_t sni_soak_report(const struct soak *soak, char out[SOAK_REPORT_BYTES_MAX]);

#endif
