/* SPDX-License-Identifier: Apache-2.0 */
/* A text that grows: for what this module writes (agent files, references, starters). */
#ifndef SN_CONFIG_OUT_H
#define SN_CONFIG_OUT_H

#include <stddef.h>

#include "sennit/err.h"

/* Lack of memory is remembered and reported once, by sni_out_take. */
struct sni_out {
    char *data; /* owned */
    size_t size;
    size_t capacity;
    int no_memory;
};

void sni_out_add(struct sni_out *out, const char *text);
void sni_out_add_bytes(struct sni_out *out, const char *bytes, size_t size);
/* At most 1023 bytes a call. */
void sni_out_format(struct sni_out *out, const char *format, ...) SN_PRINTF(2, 3);
void sni_out_indent(struct sni_out *out, unsigned spaces);
/* A YAML double-quoted scalar that reads back as exactly `text`. */
void sni_out_quoted(struct sni_out *out, const char *text);
/* A valid name: in quotes only where YAML would take it for a number or a truth value. */
void sni_out_name(struct sni_out *out, const char *name);

/* Hands the text over (freed with sn_strfree) and empties `out`. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sni_out_take(struct sni_out *out, char **out_text);
void sni_out_fini(struct sni_out *out);

#endif
