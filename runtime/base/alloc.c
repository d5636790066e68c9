/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: every byte handed out is counted until it is freed with the same size; a failed
 * allocation changes nothing. The counters are relaxed atomics: they order nothing, they only add
 * up.
 */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static _Atomic size_t in_use;           /* partner: itself, a sum */
static _Atomic uint64_t fail_countdown; /* partner: sn_alloc_fail_nth; 0 = off */

static int must_fail(void)
{
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    while (left != 0) {
        if (atomic_compare_exchange_weak(&fail_countdown, &left, left - 1)) return left == 1;
    }
    return 0;
}

static void *allocate(size_t size, int zero)
{
    SN_ASSERT(size > 0);
    if (must_fail()) return NULL;
    void *ptr = zero ? calloc(1, size) : malloc(size);
    if (ptr == NULL) return NULL;
    atomic_fetch_add_explicit(&in_use, size, memory_order_relaxed);
    return ptr;
}

void *sn_alloc(size_t size)
{
    return allocate(size, 1);
}

void *sn_alloc_raw(size_t size)
{
    return allocate(size, 0);
}

void sn_free(void *ptr, size_t size)
{
    if (ptr == NULL) return;
    SN_ASSERT(size > 0);
    size_t before = atomic_fetch_sub_explicit(&in_use, size, memory_order_relaxed);
    SN_ASSERT(before >= size);
    free(ptr);
}

void *sn_realloc(void *ptr, size_t old_size, size_t new_size)
{
    void *fresh = sn_alloc(new_size);
    if (fresh == NULL) return NULL;
    if (ptr != NULL) memcpy(fresh, ptr, old_size < new_size ? old_size : new_size);
    sn_free(ptr, old_size);
    return fresh;
}

char *sn_strndup(const char *text, size_t size)
{
    SN_ASSERT(text != NULL);
    char *copy = sn_alloc(size + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, text, size);
    SN_ASSERT(strlen(copy) == size); /* sn_strfree derives the size from the text */
    return copy;
}

char *sn_strdup(const char *text)
{
    return sn_strndup(text, strlen(text));
}

void sn_strfree(char *text)
{
    if (text != NULL) sn_free(text, strlen(text) + 1);
}

size_t sn_alloc_in_use(void)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed);
}

void sn_alloc_fail_nth(uint64_t nth)
{
    atomic_store(&fail_countdown, nth);
}

struct sn_budget {
    _Atomic uint64_t used; /* partner: itself, a sum */
    uint64_t limit;
};

enum sn_err sn_budget_new(uint64_t limit_bytes, struct sn_budget **out_budget)
{
    struct sn_budget *budget = sn_alloc(sizeof *budget);
    if (budget == NULL) return SN_ENOMEM;
    budget->limit = limit_bytes;
    *out_budget = budget;
    return SN_OK;
}

void sn_budget_free(struct sn_budget *budget)
{
    sn_free(budget, sizeof *budget);
}

enum sn_err sn_budget_take(struct sn_budget *budget, uint64_t bytes)
{
    return sn_budget_take_below(budget, bytes, UINT64_MAX);
}

enum sn_err sn_budget_take_below(struct sn_budget *budget, uint64_t bytes, uint64_t ceiling)
{
    SN_ASSERT(budget != NULL);
    uint64_t most = ceiling < budget->limit ? ceiling : budget->limit;
    uint64_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);
    do {
        if (bytes > most || used > most - bytes) return SN_ENOMEM;
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
    return SN_OK;
}

void sn_budget_give(struct sn_budget *budget, uint64_t bytes)
{
    SN_ASSERT(budget != NULL);
    uint64_t before = atomic_fetch_sub(&budget->used, bytes);
    SN_ASSERT(before >= bytes);
}

uint64_t sn_budget_used(const struct sn_budget *budget)
{
    return atomic_load_explicit(&budget->used, memory_order_relaxed);
}

uint64_t sn_budget_limit(const struct sn_budget *budget)
{
    return budget->limit;
}
