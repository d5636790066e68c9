/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of metrics: tables (sennit/metrics.h) are registered before workers start; each worker then adds
 * to its own shard without contention; readers sum the shards.
 * Thread-safe: add on one's own shard, read from anywhere. Register before threads exist. Blocking: no.
 */
#ifndef SN_METRICS_METRICS_H
#define SN_METRICS_METRICS_H

#include "sennit/err.h"
#include "sennit/metrics.h"

#define SN_METRICS_MAX 1024u

struct sn_metrics;

SN_MUST_CHECK enum sn_err sn_metrics_new(uint32_t shard_count, struct sn_metrics **out_metrics);
void sn_metrics_free(struct sn_metrics *metrics);

/* Adds a table (borrowed for the registry's life); its first metric gets index *out_base.
 * Errors: EFULL, EEXIST (a name is taken), EINVAL (a bad name). */
SN_MUST_CHECK enum sn_err sn_metrics_register(struct sn_metrics *metrics,
                                              const struct sn_metric_desc *table,
                                              uint32_t *out_base);
/* Only the owner of `shard` calls it. */
void sn_metrics_add(struct sn_metrics *metrics, uint32_t shard, uint32_t index, int64_t delta);
/* Sum of all shards; a gauge may be negative for a moment. */
int64_t sn_metrics_read(const struct sn_metrics *metrics, uint32_t index);
uint32_t sn_metrics_count(const struct sn_metrics *metrics);
const struct sn_metric_desc *sn_metrics_desc(const struct sn_metrics *metrics, uint32_t index);
/* Number of metrics in a table. */
uint32_t sn_metrics_table_count(const struct sn_metric_desc *table);
/* As index of a first metric: there is no table. */
#define SN_METRICS_NONE UINT32_MAX
/* Number of metrics from `index` to the end of its table. */
uint32_t sn_metrics_table_rest(const struct sn_metrics *metrics, uint32_t index);

#endif
