/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a soak found: counts of each start and of all together, and a line for everything that was not as it must be.
 * Thread-safe: no. Blocking: no; no I/O.
 */
#ifndef SN_AGENTS_SOAK_VERDICT_H
#define SN_AGENTS_SOAK_VERDICT_H

#include "agents/soak/scenario.h"

#define SN_SOAK_FAILURES_MAX      100u
#define SN_SOAK_FAILURE_BYTES_MAX 240u

/* Counts of messages; of bytes in a tunnel scenario. */
struct sn_soak_counts {
    uint64_t sent;
    uint64_t delivered;
    uint64_t lost;
    uint64_t doubled;
    uint64_t reordered;
    uint64_t altered;
};

/* How a link died. */
enum sn_soak_death {
    SN_SOAK_KILLED,         /* all connections ended, and nobody listened for a moment */
    SN_SOAK_STOPPED,        /* it took everything and passed on nothing, then all that it had */
    SN_SOAK_STOPPED_KILLED, /* the same, but then it was killed with what it had */
    SN_SOAK_CUT_EDGE,       /* only the edge saw the connections end */
    SN_SOAK_CUT_HUB,
    SN_SOAK_DEATHS
};

/* Of one agent. */
struct sn_soak_usage {
    uint64_t resident_peak_first; /* bytes, in the first half */
    uint64_t resident_peak_second;
    uint64_t resident_rest_first; /* after each half, when it had rested; 0: it was not let */
    uint64_t resident_rest_second;
    uint64_t descriptors_before; /* at rest, after the first transfer */
    uint64_t descriptors_after;  /* at rest again, at the end */
    uint64_t log_bytes;
    uint64_t log_bytes_per_hour;
};

/* What a flap scenario finds besides. */
struct sn_soak_figures {
    uint32_t deaths[SN_SOAK_DEATHS];
    uint64_t transfers; /* complete and equal */
    uint64_t transfers_failed;
    uint64_t transferred_bytes;
    uint64_t undelivered, unknown; /* messages, whatever the reason */
    uint64_t message_gap_ms;       /* the longest without progress, while the link was good */
    uint64_t stream_gap_ms;
    struct sn_soak_usage usage[2]; /* hub, edge */
};

struct sn_soak_run {
    uint8_t pass;
    uint8_t is_edge_first;
    uint8_t is_balanced;     /* each ledger in itself */
    uint8_t is_agreed;       /* the ledgers with each other */
    uint8_t is_nng_equal;    /* parcels counted by us and by nng */
    uint8_t is_digest_equal; /* tunnel, flap */
    uint64_t sessions[2];    /* that came up so far at the hub and the edge, at the end */
    uint64_t ready_ms;       /* until both agents were ready */
    uint64_t duration_ms;
    uint64_t parcels_sent, nng_sent, parcels_received, nng_received; /* of both agents */
    uint64_t parcels_resent;
    struct sn_soak_counts counts;
    struct sn_soak_figures figures; /* flap */
};

struct sn_soak_verdict {
    const struct sn_scenario *scenario;
    uint64_t seed;
    uint64_t duration_ms;
    struct sn_soak_run *runs; /* room for all starts of the scenario */
    uint32_t run_count;
    char (*failures)[SN_SOAK_FAILURE_BYTES_MAX];
    uint32_t failure_count; /* also those beyond the maximum */
    uint8_t is_interrupted;
};

SN_MUST_CHECK enum sn_err sn_verdict_init(struct sn_soak_verdict *verdict,
                                          const struct sn_scenario *scenario, uint64_t seed);
void sn_verdict_fini(struct sn_soak_verdict *verdict);

/* Adds a failure; the run it belongs to is the one after run_count. */
void sn_verdict_fail(struct sn_soak_verdict *verdict, const char *format, ...) SN_PRINTF(2, 3);
/* The operator ended the soak: noted once. What comes after follows from that, and is no failure of its own. */
void sn_verdict_interrupt(struct sn_soak_verdict *verdict);
/* All starts were made and none failed. */
int sn_verdict_is_pass(const struct sn_soak_verdict *verdict);

/* verdict.json with its newline; freed with sn_free(text, *out_capacity). Errors: ENOMEM, ETOOBIG. */
SN_MUST_CHECK enum sn_err sn_verdict_json(const struct sn_soak_verdict *verdict, char **out_text,
                                          size_t *out_size, size_t *out_capacity);

#endif
