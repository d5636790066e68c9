/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An actor system under virtual time with actors that write down what they get. A test runs code inside an actor by
 * world_act; what leaves for other agents is kept until the test settles it.
 */
#ifndef SN_TESTS_UNIT_ACTOR_WORLD_H
#define SN_TESTS_UNIT_ACTOR_WORLD_H

#include "actor/system.h"
#include "unit/fake_env.h"

#define WORLD_AGENT "paris/hub"
#define PROBES_MAX  8u
#define RECORDS_MAX 3000u

struct record {
    uint32_t kind, err, outcome, reason;
    uint64_t token, correlation;
    void *pointer;
    const struct sn_config_node *config;
    uint64_t at_ns;
    uint64_t nth; /* events that this state had handled before */
    char agent[32], actor[32], type[32], payload[32];
    uint32_t payload_size;
};

struct probe {
    struct sn_actor_kind kind;
    struct sn_actor_ref ref;
    /* Called with each event after it was recorded; NULL = SN_OK. */
    enum sn_err (*on_event)(struct sn_ctx *ctx, struct probe *probe, const struct sn_event *event);
    struct record records[RECORDS_MAX];
    uint32_t record_count;
    uint32_t fini_count;
    uint64_t fini_nth; /* events that the state at its end had handled */
};

struct world {
    struct sn_env *env;
    struct sn_metrics *metrics;
    struct sn_system *system;
    struct probe probes[PROBES_MAX];
    uint32_t probe_count;
    uint32_t ready_count, failed_count, escalated_count;
    struct sn_actor_ref escalated;
    enum sn_err escalated_err;
    enum sn_err remote_err; /* what the way to other agents says */
    struct sn_list away;    /* letters taken for other agents */
    uint32_t away_count;
};

/* The only world; actors find it without an argument of their own. */
struct world *world_get(void);
extern const struct sn_host world_host;

/* A system of two workers without actors. Group of calls: world_new, world_spawn..., world_start, world_free. */
struct world *world_new(void);
/* An actor of that name; the bounds are 0 for the defaults. */
struct probe *world_spawn(const char *name, uint32_t mailbox, uint32_t sends);
/* Starts, runs until it rests, and forgets what was recorded. */
void world_start(void);
/* Stops and frees; fails when memory was left. */
void world_free(void);
int world_tear_down(void **state);

/* Runs fn inside a handler of the actor, then everything until it rests. */
void world_act(struct probe *probe, void (*fn)(struct sn_ctx *ctx, void *arg), void *arg);
void world_run(void);
void world_run_ms(uint64_t ms);
/* The latest letter that left; it stays in `away`. */
struct sn_letter *world_last_away(void);
/* Tells how the oldest letter away ended, from the other worker than the sender's. */
void world_settle(enum sn_outcome outcome, enum sn_reason reason);
/* Brings a reply from another agent. */
enum sn_reason world_reply(const char *from_agent, uint64_t correlation, const char *payload);
/* Brings a message, on a worker. */
enum sn_reason world_bring(struct sn_actor_ref to, const char *type, const char *payload);

uint32_t world_count(const struct probe *probe, enum sn_event_kind kind);
/* The index-th record of that kind; fails when there are fewer. */
const struct record *world_record(const struct probe *probe, enum sn_event_kind kind,
                                  uint32_t index);
void world_forget(struct probe *probe);
struct sn_actor_info world_info(const struct probe *probe);
int64_t world_metric(const char *name);

#endif
