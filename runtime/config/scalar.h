/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plain scalar means. Other YAML readers take `no`, `0777` or `1e3` for truth values and
 * numbers; where two readers could differ this one refuses, so scalars are classed by what any of
 * them might see.
 */
#ifndef SN_CONFIG_SCALAR_H
#define SN_CONFIG_SCALAR_H

#include <stdint.h>

#include "sennit/err.h"

enum sni_scalar_class {
    SNI_SCALAR_TEXT,
    SNI_SCALAR_NULL,      /* nothing, ~ or null */
    SNI_SCALAR_BOOL,      /* true or false */
    SNI_SCALAR_BOOL_LIKE, /* yes, no, on, off, True, ... */
    SNI_SCALAR_INT,       /* -?(0|[1-9][0-9]*) */
    SNI_SCALAR_NUMBER /* a number in another notation: 0777, 0x1f, 1e3, 1_000, 1.5, 1:30, .inf */
};

enum sni_scalar_class sni_scalar_classify(const char *text, int is_plain);

/* true for the spellings of truth (true, yes, on, in any case). */
int sni_scalar_is_truth(const char *text);

/* Decimal integer. Errors: EINVAL, ETOOBIG (does not fit). */
SN_MUST_CHECK enum sn_err sni_scalar_int(const char *text, int64_t *out_value);

#endif
