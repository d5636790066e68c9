/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: memory is bounded whatever is wrong with a file; no byte of it reaches a terminal
 * raw. */
#include "config/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "config/tree.h"
#include "sennit/limits.h"

#define CAPACITY_MIN      8u
#define QUOTED_BYTES_MAX  64u  /* longer values are cut in messages */
#define LOWERED_BYTES_MAX 192u /* more than any name has */

void sn_findings_init(struct sn_findings *findings)
{
    memset(findings, 0, sizeof *findings);
}

void sn_findings_fini(struct sn_findings *findings)
{
    if (findings == NULL) return;
    for (uint32_t i = 0; i < findings->count; i++) {
        sn_strfree(findings->items[i]->file);
        sn_free(findings->items[i], sizeof *findings->items[i]);
    }
    sn_free(findings->items, findings->capacity * sizeof(struct sn_finding *));
    sn_findings_init(findings);
}

static int make_room(struct sn_findings *findings)
{
    if (findings->count < findings->capacity) return 1;
    uint32_t capacity = findings->capacity == 0 ? CAPACITY_MIN : findings->capacity * 2;
    struct sn_finding **items =
        sn_realloc(findings->items, findings->capacity * sizeof *items, capacity * sizeof *items);
    if (items == NULL) return 0;
    findings->items = items;
    findings->capacity = capacity;
    return 1;
}

static void SN_PRINTF(5, 0)
    add(struct sn_findings *findings, const char *file, struct sn_config_pos pos, const char *path,
        const char *format, va_list args)
{
    findings->total++;
    if (sn_findings_is_full(findings)) return;
    struct sn_finding *finding = sn_alloc(sizeof *finding);
    if (finding == NULL) goto fail;
    finding->file = sn_strdup(file);
    if (finding->file == NULL) goto fail;
    if (!make_room(findings)) goto fail;
    finding->line = pos.line;
    finding->column = pos.column;
    /* Cutting a path or message that is too long is wanted. */
    (void)snprintf(finding->path, sizeof finding->path, "%s", path[0] == '\0' ? "." : path);
    (void)vsnprintf(finding->message, sizeof finding->message, format, args);
    findings->items[findings->count++] = finding;
    return;
fail:
    findings->no_memory = 1;
    if (finding == NULL) return;
    sn_strfree(finding->file);
    sn_free(finding, sizeof *finding);
}

void sn_findings_add(struct sn_findings *findings, const char *file, struct sn_config_pos pos,
                     const char *path, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(findings, file, pos, path, format, args);
    va_end(args);
}

void sn_findings_add_node(struct sn_findings *findings, const struct sn_config_node *node,
                          const char *format, ...)
{
    char path[SN_FINDING_PATH_MAX];
    sn_config_path(node, path, sizeof path);
    va_list args;
    va_start(args, format);
    add(findings, sn_config_file(node), sn_config_where(node), path, format, args);
    va_end(args);
}

void sn_findings_add_key(struct sn_findings *findings, const struct sn_config_node *node,
                         const char *format, ...)
{
    char path[SN_FINDING_PATH_MAX];
    sn_config_path(node, path, sizeof path);
    va_list args;
    va_start(args, format);
    add(findings, sn_config_file(node), sn_config_where_key(node), path, format, args);
    va_end(args);
}

void sn_findings_add_too_large(struct sn_findings *findings, const char *file)
{
    sn_findings_add(findings, file, (struct sn_config_pos){1, 1}, ".",
                    "the file has more than %u bytes; a configuration has at most as many",
                    SN_CONFIG_BYTES_MAX);
}

int sn_findings_is_full(const struct sn_findings *findings)
{
    return findings->count >= SN_CONFIG_FINDINGS_MAX || findings->no_memory;
}

enum sn_err sn_findings_result(const struct sn_findings *findings, uint32_t total_before)
{
    SN_ASSERT(findings->total >= total_before);
    if (findings->no_memory) return SN_ENOMEM;
    return findings->total == total_before ? SN_OK : SN_EINVAL;
}

static int stands_before(const struct sn_finding *a, const struct sn_finding *b)
{
    if (strcmp(a->file, b->file) != 0) return 0; /* files stay in the order they were checked */
    if (a->line != b->line) return a->line < b->line;
    return a->column < b->column;
}

void sn_findings_sort(struct sn_findings *findings)
{
    for (uint32_t i = 1; i < findings->count; i++) {
        struct sn_finding *moving = findings->items[i];
        uint32_t to = i;
        for (; to > 0 && stands_before(moving, findings->items[to - 1]); to--) {
            findings->items[to] = findings->items[to - 1];
        }
        findings->items[to] = moving;
    }
}

void sn_finding_format(const struct sn_finding *finding, char *out, size_t capacity)
{
    SN_ASSERT(capacity > 0);
    /* Cutting what is too long is wanted. */
    (void)snprintf(out, capacity, "%s:%u:%u: %s: %s", finding->file, finding->line, finding->column,
                   finding->path, finding->message);
}

const char *sn_quote(const char *text, char out[SN_QUOTE_MAX])
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;
    out[used++] = '`';
    const unsigned char *at = (const unsigned char *)text;
    for (; *at != '\0' && used < QUOTED_BYTES_MAX; at++) {
        if (*at >= 0x20 && *at != 0x7f) {
            out[used++] = (char)*at;
            continue;
        }
        out[used++] = '\\';
        out[used++] = 'x';
        out[used++] = digits[*at >> 4];
        out[used++] = digits[*at & 15];
    }
    /* Never cut a UTF-8 sequence in two: take its continuation bytes along. */
    for (; (*at & 0xc0) == 0x80 && used < SN_QUOTE_MAX - 8; at++) out[used++] = (char)*at;
    if (*at != '\0') {
        memcpy(out + used, "...", 3);
        used += 3;
    }
    out[used++] = '`';
    out[used] = '\0';
    SN_ASSERT(used < SN_QUOTE_MAX);
    return out;
}

void sn_suggest_init(struct sn_suggest *suggest, const char *wanted)
{
    *suggest = (struct sn_suggest){.wanted = wanted};
}

/* All names are in small letters: capitals are a slip that costs nothing. */
static void lower_copy(const char *text, char out[LOWERED_BYTES_MAX + 1])
{
    size_t size = 0;
    for (; text[size] != '\0' && size < LOWERED_BYTES_MAX; size++) {
        int is_capital = text[size] >= 'A' && text[size] <= 'Z';
        out[size] = (char)(is_capital ? text[size] + ('a' - 'A') : text[size]);
    }
    out[size] = '\0';
}

void sn_suggest_offer(struct sn_suggest *suggest, const char *candidate)
{
    char lowered[LOWERED_BYTES_MAX + 1];
    size_t size = strlen(suggest->wanted);
    if (size > LOWERED_BYTES_MAX) return; /* no name is so long */
    lower_copy(suggest->wanted, lowered);
    size_t size_candidate = strlen(candidate);
    if (size_candidate > size) size = size_candidate;
    /* One slip in three letters is a typo; more of them are another word. */
    unsigned limit = size < 6 ? 1 : size < 9 ? 2 : 3;
    unsigned distance = sn_text_distance(lowered, candidate, limit);
    if (distance > limit) return;
    /* Slips in the first letter are the rarest. */
    unsigned score = 2 * distance + (lowered[0] != candidate[0]);
    if (suggest->best != NULL && score >= suggest->best_score) return;
    suggest->best = candidate;
    suggest->best_score = score;
}

const char *sn_suggest_text(const struct sn_suggest *suggest, char out[SN_HINT_MAX])
{
    out[0] = '\0';
    if (suggest->best == NULL) return out;
    /* A name that is too long is cut, which is wanted. */
    (void)snprintf(out, SN_HINT_MAX, "; did you mean `%.127s`?", suggest->best);
    return out;
}
