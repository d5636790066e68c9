/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: an add costs one relaxed load and store on a cache line nobody else writes. */
#include "metrics/metrics.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

struct shard {
    _Atomic int64_t values[SN_METRICS_MAX]; /* written by one worker; partner: sn_metrics_read */
    int64_t gap[8];                         /* a cache line, so that two shards never share one */
};

struct sn_metrics {
    uint32_t shard_count;
    uint32_t count;
    const struct sn_metric_desc *descs[SN_METRICS_MAX];
    struct shard shards[];
};

/* Wraps as the processor does: plugins choose the deltas, and overflow of signed numbers is undefined. */
static int64_t sum_of(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static size_t size_of(uint32_t shard_count)
{
    return sizeof(struct sn_metrics) + shard_count * sizeof(struct shard);
}

enum sn_err sn_metrics_new(uint32_t shard_count, struct sn_metrics **out_metrics)
{
    SN_ASSERT(shard_count > 0);
    struct sn_metrics *metrics = sn_alloc(size_of(shard_count));
    if (metrics == NULL) return SN_ENOMEM;
    metrics->shard_count = shard_count;
    *out_metrics = metrics;
    return SN_OK;
}

void sn_metrics_free(struct sn_metrics *metrics)
{
    if (metrics != NULL) sn_free(metrics, size_of(metrics->shard_count));
}

static int is_valid_name(const char *name)
{
    size_t size = strlen(name);
    if (size == 0 || size > 63) return 0;
    for (size_t i = 0; i < size; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_')) return 0;
    }
    return 1;
}

uint32_t sn_metrics_table_count(const struct sn_metric_desc *table)
{
    uint32_t count = 0;
    while (table[count].name != NULL) count++;
    return count;
}

uint32_t sn_metrics_table_rest(const struct sn_metrics *metrics, uint32_t index)
{
    return index < metrics->count ? sn_metrics_table_count(metrics->descs[index]) : 0;
}

enum sn_err sn_metrics_register(struct sn_metrics *metrics, const struct sn_metric_desc *table,
                                uint32_t *out_base)
{
    uint32_t added = sn_metrics_table_count(table);
    if (added > SN_METRICS_MAX - metrics->count) return SN_EFULL;
    for (uint32_t i = 0; i < added; i++) {
        if (!is_valid_name(table[i].name)) return SN_EINVAL;
        for (uint32_t j = 0; j < metrics->count; j++) {
            if (strcmp(metrics->descs[j]->name, table[i].name) == 0) return SN_EEXIST;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(table[j].name, table[i].name) == 0) return SN_EEXIST;
        }
    }
    for (uint32_t i = 0; i < added; i++) metrics->descs[metrics->count + i] = &table[i];
    *out_base = metrics->count;
    metrics->count += added;
    return SN_OK;
}

void sn_metrics_add(struct sn_metrics *metrics, uint32_t shard, uint32_t index, int64_t delta)
{
    SN_ASSERT(shard < metrics->shard_count);
    SN_ASSERT(index < metrics->count);
    _Atomic int64_t *value = &metrics->shards[shard].values[index];
    int64_t now = atomic_load_explicit(value, memory_order_relaxed);
    atomic_store_explicit(value, sum_of(now, delta), memory_order_relaxed);
}

int64_t sn_metrics_read(const struct sn_metrics *metrics, uint32_t index)
{
    SN_ASSERT(index < metrics->count);
    int64_t sum = 0;
    for (uint32_t i = 0; i < metrics->shard_count; i++) {
        sum = sum_of(sum,
                     atomic_load_explicit(&metrics->shards[i].values[index], memory_order_relaxed));
    }
    return sum;
}

uint32_t sn_metrics_count(const struct sn_metrics *metrics)
{
    return metrics->count;
}

const struct sn_metric_desc *sn_metrics_desc(const struct sn_metrics *metrics, uint32_t index)
{
    SN_ASSERT(index < metrics->count);
    return metrics->descs[index];
}
