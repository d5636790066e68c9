/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the carrier tests share: two workers with threads, members with certificates, and ends: the user's side of a
 * lane, which sends and checks a known sequence of bytes. State belongs to the worker named beside it; the test's
 * thread reaches it through world_call and world_until only, which is why the thread sanitizer agrees.
 */
#ifndef SN_TESTS_CONFORMANCE_CARRIER_WORLD_H
#define SN_TESTS_CONFORMANCE_CARRIER_WORLD_H

#include <pthread.h>
#include <stdatomic.h>

#include "actor/worker_int.h"
#include "carrier/carrier.h"
#include "conformance/carrier_suite.h"

#define WORKERS  2u
#define ENDS_MAX 1024u
#define WAIT_MS  20000u

struct world;

/* --- Members ------------------------------------------------------------------------------------------------- */

enum flaw { SOUND, OTHER_MESH, EXPIRED, NOT_YET, ALTERED, STRANGE_AUTHORITY, NO_CERTIFICATE };

struct member {
    struct sn_key *key;
    struct sn_key_id id;
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];
    struct sn_tls_identity *identity;
    struct sn_trust trust;
    struct sn_pin pin; /* used when has_pin */
    struct sn_carrier *carrier;
};

/* --- Ends ---------------------------------------------------------------------------------------------------- */

enum moment { NEVER, AT_OPENED, AT_READABLE, AT_WRITABLE };

struct end {
    struct world *world;
    struct sn_worker *worker; /* where it is now; the test's thread changes it while nothing runs */
    struct sn_lane *lane;     /* NULL once freed */
    struct sn_task task;
    struct sn_worker *target; /* of a move */
    uint32_t moves;           /* how often it still changes its worker */
    /* What it does. */
    enum moment free_at;
    uint64_t to_send;
    uint64_t read_max; /* stops reading there, until resumed with a higher one */
    uint8_t close_when_sent;
    uint8_t keep_failed; /* does not free the lane in `failed` */
    /* What happened. */
    uint32_t opened;
    uint32_t failed;
    uint32_t refusals; /* EAGAIN of a write */
    uint32_t readable;
    uint64_t sent;
    uint64_t received;
    _Atomic uint64_t received_shown; /* the same, for the test's thread while the end moves */
    uint64_t seed_out;
    uint64_t seed_in;
    uint64_t rng;
    struct sn_lane_peer peer;
    struct sn_lane_failure failure;
};

struct world {
    const struct carrier_provider *provider;
    struct sn_env *env;
    struct sn_worker *workers[WORKERS];
    struct sn_key *authority;
    struct sn_key *stranger; /* another authority */
    struct sn_key_id authority_id;
    struct member server;
    struct member client;
    struct sn_listener *listener; /* worker 0 */
    struct sn_netaddr bound;
    /* Worker 0: */
    struct end inbound[ENDS_MAX];
    uint32_t inbound_count;
    uint32_t shed_full;
    uint32_t shed_space;
    struct end model; /* what an inbound end does */
    uint32_t handshakes_max;
    uint32_t handshakes_per_address_max;
    uint32_t handshake_timeout_ms;
    struct end outbound[ENDS_MAX];
    pthread_mutex_t lock; /* of problem */
    char problem[160];
    uint8_t scratch[WORKERS][256 * 1024]; /* by worker */
    size_t memory_before;
    uint32_t descriptors_before;
};

struct world *world_new(const struct carrier_provider *provider);
/* Members may be altered before world_start: it makes carriers and listens. */
void world_start(struct world *world);
/* Frees everything and checks that memory and descriptors came back. */
void world_free(struct world *world);
void world_problem(struct world *world, const char *what, uint64_t a, uint64_t b);

void member_init(struct world *world, struct member *member, const char *agent, uint8_t seed,
                 enum flaw flaw);
void member_fini(struct member *member);

/* Runs fn(arg) on the worker and waits for it. */
void world_call(struct world *world, struct sn_worker *worker, void (*fn)(void *arg), void *arg);
/* Waits until fn(arg), asked on the worker now and then, is true; fails the test after WAIT_MS. */
void world_until(struct world *world, struct sn_worker *worker, int (*fn)(void *arg), void *arg);
void world_sleep_ms(uint32_t ms);

/* Dials as `dial` says (address and timeout are filled in when missing) on the end's worker. The result of
 * sn_carrier_dial is returned. */
enum sn_err world_dial(struct world *world, struct member *member, struct end *end,
                       struct sn_worker *worker, const struct sn_dial *dial);
/* What an end with this seed sends at this offset; INBOUND_SEED for ends of accepted lanes. */
#define INBOUND_SEED  1001u
#define OUTBOUND_SEED 2002u
void world_fill(uint8_t *out, size_t size, uint64_t offset, uint64_t seed);
void end_send(void *end);   /* on its worker */
void end_free(void *end);   /* likewise */
void end_resume(void *end); /* likewise */
int end_is_open(void *end);
int end_has_failed(void *end);
void end_wait_open(struct end *end);
void end_wait_failed(struct end *end);
/* The end at the other side of a lane dialled last: inbound ends come in order. */
struct end *world_inbound(struct world *world, uint32_t index);
uint32_t world_descriptors(struct world *world);

#endif
