/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All allocation of Sennit. Tests make the Nth call fail; the total in use is counted so that a
 * test can show that everything came back.
 * Thread-safe: yes. Blocking: no.
 */
#ifndef SN_BASE_ALLOC_H
#define SN_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

/* Zeroed memory, or NULL. size 0 is a bug. */
SN_MUST_CHECK void *sn_alloc(size_t size);

/* As sn_alloc without zeroing, for slabs that are filled at once. */
SN_MUST_CHECK void *sn_alloc_raw(size_t size);

/* `size` is the size given at allocation; NULL is ignored. */
void sn_free(void *ptr, size_t size);

/* New memory of new_size with the old content and zeros behind it; the old is freed. NULL leaves
 * the old one untouched. */
SN_MUST_CHECK void *sn_realloc(void *ptr, size_t old_size, size_t new_size);

/* A copy of text with a NUL; freed with sn_strfree. The bytes themselves must hold no NUL:
 * sn_strfree takes the size from the text. */
SN_MUST_CHECK char *sn_strdup(const char *text);
SN_MUST_CHECK char *sn_strndup(const char *text, size_t size);
void sn_strfree(char *text);

/* Bytes in use by all callers of this file. */
size_t sn_alloc_in_use(void);

/* Tests only: the `nth` allocation from now (1 = the next) fails, once; 0 turns it off. */
void sn_alloc_fail_nth(uint64_t nth);

/* A limit on bytes shared by several users, possibly on several threads. */
struct sn_budget;

SN_MUST_CHECK enum sn_err sn_budget_new(uint64_t limit_bytes, struct sn_budget **out_budget);
void sn_budget_free(struct sn_budget *budget);

/* Takes bytes from the budget, or ENOMEM and takes nothing. */
SN_MUST_CHECK enum sn_err sn_budget_take(struct sn_budget *budget, uint64_t bytes);
void sn_budget_give(struct sn_budget *budget, uint64_t bytes);
/* The same, if no more than `ceiling` is taken then. */
SN_MUST_CHECK enum sn_err sn_budget_take_below(struct sn_budget *budget, uint64_t bytes,
                                               uint64_t ceiling);
uint64_t sn_budget_used(const struct sn_budget *budget);
uint64_t sn_budget_limit(const struct sn_budget *budget);

#endif
