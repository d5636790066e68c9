/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with a configuration: a bounded list of findings, each with file, position and
 * path.
 *
 * A parser adds findings and goes on as far as it makes sense, so that one run shows an operator
 * all mistakes of a kind. Adding cannot fail for the caller: beyond SN_CONFIG_FINDINGS_MAX findings
 * are only counted, and lack of memory is remembered in `no_memory`.
 * Thread-safe: no. Blocking: no.
 */
#ifndef SN_CONFIG_FINDING_H
#define SN_CONFIG_FINDING_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/config.h"
#include "sennit/err.h"

#define SN_FINDING_PATH_MAX    256
#define SN_FINDING_MESSAGE_MAX 512
#define SN_QUOTE_MAX           100 /* room for a quoted value inside a message */

struct sn_finding {
    char *file; /* owned */
    uint32_t line;
    uint32_t column;
    char path[SN_FINDING_PATH_MAX]; /* targets.web.allow[0]; "." for the file as a whole */
    char message[SN_FINDING_MESSAGE_MAX];
};

struct sn_findings {
    struct sn_finding **items; /* owned; sorted by sn_findings_sort only */
    uint32_t count;
    uint32_t capacity;
    uint32_t total; /* also those beyond the limit */
    int no_memory;
};

void sn_findings_init(struct sn_findings *findings);
void sn_findings_fini(struct sn_findings *findings);

/* `file` and `path` are copied. */
void sn_findings_add(struct sn_findings *findings, const char *file, struct sn_config_pos pos,
                     const char *path, const char *format, ...) SN_PRINTF(5, 6);

/* At a node: its file, its path, and where its value (or its key, for _key) stands. */
void sn_findings_add_node(struct sn_findings *findings, const struct sn_config_node *node,
                          const char *format, ...) SN_PRINTF(3, 4);
void sn_findings_add_key(struct sn_findings *findings, const struct sn_config_node *node,
                         const char *format, ...) SN_PRINTF(3, 4);

/* A file of more than SN_CONFIG_BYTES_MAX bytes, which nobody has read: at its start. */
void sn_findings_add_too_large(struct sn_findings *findings, const char *file);

/* Nonzero when further findings would only be counted; a parser may then stop. */
int sn_findings_is_full(const struct sn_findings *findings);

/* SN_OK when nothing was added since `total_before`, else EINVAL; ENOMEM when memory ran out. */
SN_MUST_CHECK enum sn_err sn_findings_result(const struct sn_findings *findings,
                                             uint32_t total_before);

/* In file order: by file as first seen, line, column; otherwise as added. */
void sn_findings_sort(struct sn_findings *findings);

/* `file:line:col: path: message` without a newline; truncated to the capacity. */
void sn_finding_format(const struct sn_finding *finding, char *out, size_t capacity);

/* `text` in back quotes for a message: shortened, control characters escaped. Returns `out`. */
const char *sn_quote(const char *text, char out[SN_QUOTE_MAX]);

/* "Did you mean": the closest of the offered names, if one is close enough to be a typo. */
struct sn_suggest {
    const char *wanted;  /* borrowed */
    const char *best;    /* borrowed; NULL when nothing is close */
    unsigned best_score; /* twice the distance, plus one when the first letters differ */
};

void sn_suggest_init(struct sn_suggest *suggest, const char *wanted);
void sn_suggest_offer(struct sn_suggest *suggest, const char *candidate);

#define SN_HINT_MAX 192
/* "; did you mean `x`?" or "". Returns `out`. */
const char *sn_suggest_text(const struct sn_suggest *suggest, char out[SN_HINT_MAX]);

#endif
