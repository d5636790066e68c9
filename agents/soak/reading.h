/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agents answer, as numbers: the soak actor's report and the ledger about one peer.
 * Thread-safe: yes. Blocking: no; no I/O.
 */
#ifndef SN_AGENTS_SOAK_READING_H
#define SN_AGENTS_SOAK_READING_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

struct sn_soak_report {
    uint64_t sent;
    uint64_t delivered;
    uint64_t undelivered; /* all reasons together, as below */
    uint64_t unknown;
    uint64_t received;
    uint64_t doubled;
    uint64_t reordered;
    uint64_t altered;
    uint8_t is_done;
    char reason[48]; /* one of the reasons, "" when all was delivered */
};

/* From the JSON of `soak.reported`. Errors: EINVAL, ETOOBIG. */
SN_MUST_CHECK enum sn_err sn_soak_report_parse(const void *bytes, size_t size,
                                               struct sn_soak_report *out_report);

struct sn_soak_ledger {
    uint64_t accepted;
    uint64_t delivered;
    uint64_t queued;
    uint64_t undelivered;
    uint64_t unknown;
    uint64_t parcels_sent;
    uint64_t nng_sent;
    uint64_t parcels_received;
    uint64_t nng_received;
    uint64_t parcels_resent;
    uint64_t messages_received;
    uint64_t messages_refused;
    uint64_t refused_replay; /* parcels that had come before */
    uint64_t refused_bad;    /* parcels for any other reason */
};

/* The entry of `peer` in the body of the verb `ledger`. Errors: EINVAL, ENOENT (no such peer). */
SN_MUST_CHECK enum sn_err sn_soak_ledger_parse(const uint8_t *body, size_t size, const char *peer,
                                               struct sn_soak_ledger *out_ledger);

struct sn_soak_peer {
    uint64_t sessions; /* that came up so far */
    uint8_t is_up;
};

/* The entry of `peer` in the body of the verb `peers`. Errors: EINVAL, ENOENT (no such peer). */
SN_MUST_CHECK enum sn_err sn_soak_peer_parse(const uint8_t *body, size_t size, const char *peer,
                                             struct sn_soak_peer *out_peer);

int sn_soak_ledger_is_balanced(const struct sn_soak_ledger *ledger);
int sn_soak_ledger_is_nng_equal(const struct sn_soak_ledger *ledger);
/* All `messages` of `from` were delivered, and `to` took each of them and refused nothing but parcels sent again: a new
 * session sends again what its predecessor left unacknowledged, and part of that had arrived. */
int sn_soak_ledger_is_agreed(const struct sn_soak_ledger *from, const struct sn_soak_ledger *to,
                             uint64_t messages);

/* The unsigned number under `key` of the map that the body is. Errors: EINVAL, ENOENT. */
SN_MUST_CHECK enum sn_err sn_soak_number(const uint8_t *body, size_t size, const char *key,
                                         uint64_t *out_value);

#endif
