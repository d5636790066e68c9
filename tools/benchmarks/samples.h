/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles of round trips, by the same rule for every program that is measured: nearest rank. */
#ifndef SN_TOOLS_BENCHMARKS_SAMPLES_H
#define SN_TOOLS_BENCHMARKS_SAMPLES_H

#include <stdint.h>
#include <stdlib.h>

#define BENCH_SAMPLES_MAX 20000u
#define BENCH_WARM_UP                                                                              \
    200u /* round trips before the first sample: paths, caches and windows settle */

static inline int bench_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static inline void bench_sort(uint64_t *samples, uint32_t count)
{
    if (count > 0) qsort(samples, count, sizeof *samples, bench_compare);
}

/* Of sorted samples; 0 without any. */
static inline uint64_t bench_percentile(const uint64_t *samples, uint32_t count, uint32_t percent)
{
    uint64_t rank = ((uint64_t)count * percent + 99) / 100;
    if (count == 0) return 0;
    return samples[rank == 0 ? 0 : rank - 1];
}

#endif
