/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin that tools/bench drives: four actors on each agent, of which a run uses one at each end. The result is a
 * log line of the agent whose `mode` is not idle: BENCH-DONE with the counts, once. When something is lost it never
 * comes.
 */
#ifndef SN_TOOLS_BENCHMARKS_BENCH_H
#define SN_TOOLS_BENCHMARKS_BENCH_H

#include "payload.h"
#include "sennit/plugin.h"

#define BENCH_HELLO  "bench.hello"
#define BENCH_DATA   "bench.data"
#define BENCH_CREDIT "bench.credit"
#define BENCH_DONE   "bench.done"
#define BENCH_ASK    "bench.ask"
#define BENCH_ANSWER "bench.answer"

/* Unhandled messages of a source, so that neither a mailbox nor a queue ever overflows. */
#define BENCH_WINDOW_MAX 60000u
#define BENCH_RETRY_MS   20u

/* What both ends of `messages` tell each other, little endian as the machine that both run on. */
struct bench_counts {
    uint64_t messages; /* hello: that will come; else: that came */
    uint64_t bytes;
    uint64_t wrong;  /* missing, doubled, out of order or altered */
    uint64_t window; /* hello */
};

extern const struct sn_config_field sni_bench_fields[];
extern const struct sn_actor_kind sni_bench_source_kind;
extern const struct sn_actor_kind sni_bench_sink_kind;
extern const struct sn_actor_kind sni_bench_asker_kind;
extern const struct sn_actor_kind sni_bench_echo_kind;

/* A number of the configuration; none is negative. */
uint64_t sni_bench_get(const struct sn_config_node *config, const char *key);
/* Nonzero when `mode` is this one. */
int sni_bench_is_mode(const struct sn_config_node *config, const char *mode);
/* Writes peer:actor. */
void sni_bench_address(const struct sn_config_node *config, const char *actor,
                       char out[SN_ADDR_BYTES_MAX + 1]);

#endif
