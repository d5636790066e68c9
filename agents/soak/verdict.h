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

struct sn_soak_run {
    uint8_t pass;
    uint8_t is_edge_first;
    uint8_t is_balanced;     /* each ledger in itself */
    uint8_t is_agreed;       /* the ledgers with each other */
    uint8_t is_nng_equal;    /* parcels counted by us and by nng */
    uint8_t is_digest_equal; /* tunnel */
    uint64_t ready_ms;       /* until both agents were ready */
    uint64_t duration_ms;
    uint64_t parcels_sent, nng_sent, parcels_received, nng_received; /* of both agents */
    uint64_t parcels_resent;
    struct sn_soak_counts counts;
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
