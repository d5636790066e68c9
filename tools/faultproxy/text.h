/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows up to a limit, and memory that is there or ends the program: this is a test tool. */
#ifndef SN_TOOLS_FAULTPROXY_TEXT_H
#define SN_TOOLS_FAULTPROXY_TEXT_H

#include <stdarg.h>
#include <stddef.h>

#define FP_PRINTF(at, first) __attribute__((format(printf, at, first)))

/* Zeroed memory; owned by the caller, for free(). Without memory the program ends with status 1. */
void *fp_alloc(size_t size);

struct fp_text {
    char *data; /* owned; NULL while empty, else terminated */
    size_t size;
    size_t capacity;
};

/* What would make the text longer than 1 MiB is left out. */
void fp_text_add(struct fp_text *text, const char *format, ...) FP_PRINTF(2, 3);
/* Removes bytes from the front. */
void fp_text_drop(struct fp_text *text, size_t size);
void fp_text_fini(struct fp_text *text);

#endif
