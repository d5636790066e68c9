/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded text: formatting, hexadecimal, names and patterns. Nothing here allocates.
 * Thread-safe: yes (pure functions).
 */
#ifndef SN_BASE_TEXT_H
#define SN_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"
#include "sennit/limits.h"

/* A text being built in the caller's array; always terminated; `truncated` tells that some was
 * lost. */
struct sn_text {
    char *data;
    size_t size;     /* bytes used, without the NUL */
    size_t capacity; /* of data, at least 1 */
    int truncated;
};

void sn_text_init(struct sn_text *text, char *data, size_t capacity);
void sn_text_add(struct sn_text *text, const char *format, ...) SN_PRINTF(2, 3);
void sn_text_add_bytes(struct sn_text *text, const char *bytes, size_t size);

/* JSON string with quotes; bytes that are not UTF-8 become U+FFFD. */
void sn_text_add_json(struct sn_text *text, const char *bytes, size_t size);

/* "2025-01-31 12:00:00 UTC"; "before 1970" or "never" (past the year 9999) for what lies outside. */
void sn_text_add_utc(struct sn_text *text, int64_t unix_s);

/* Copies with a NUL; ETOOBIG when it does not fit (nothing is written then). */
SN_MUST_CHECK enum sn_err sn_text_copy(char *out, size_t capacity, const char *bytes, size_t size);

/* Lower-case hexadecimal; out has room for 2 * size + 1. */
void sn_hex_encode(const uint8_t *bytes, size_t size, char *out);
/* Exactly `size` bytes from 2 * size digits. Errors: EINVAL. */
SN_MUST_CHECK enum sn_err sn_hex_decode(const char *text, size_t text_size, uint8_t *out,
                                        size_t size);

/* Unsigned decimal without sign, spaces or leading zeros. Errors: EINVAL, ETOOBIG (above max). */
SN_MUST_CHECK enum sn_err sn_text_to_u64(const char *text, size_t size, uint64_t max,
                                         uint64_t *out_value);

/* A site, agent, actor, target or mesh label: 1..63 of [a-z0-9-], no '-' at either end. */
int sn_label_is_valid(const char *text, size_t size);
/* site/agent */
int sn_agent_name_is_valid(const char *text, size_t size);
/* Message type: labels joined by dots, for example echo.say. */
int sn_type_is_valid(const char *text, size_t size);

/* Pattern for agent names: an exact name, a site followed by "/" and "*", or "*" alone. Only
 * patterns that are valid may be given to the matching functions: configuration checks them when it
 * is read. */
int sn_agent_pattern_is_valid(const char *text, size_t size);
int sn_agent_pattern_matches(const char *pattern, const char *name);
/* Pattern for types: exact, "prefix.*" (echo.* matches echo.say and echo.a.b, not echo), or "*". */
int sn_type_pattern_is_valid(const char *text, size_t size);
int sn_type_pattern_matches(const char *pattern, const char *type);

/* site/agent:actor split in place into borrowed parts. Errors: EINVAL. */
struct sn_addr_parts {
    const char *agent;
    size_t agent_size; /* 0 for ":actor", an address on this agent */
    const char *actor;
    size_t actor_size;
};
SN_MUST_CHECK enum sn_err sn_addr_split(const char *text, size_t size,
                                        struct sn_addr_parts *out_parts);

/* Levenshtein distance (with transpositions), capped: returns limit + 1 when above it. For "did you
 * mean". Texts longer than 63 bytes are never close. */
unsigned sn_text_distance(const char *a, const char *b, unsigned limit);

/* 1 when the bytes are well-formed UTF-8 (RFC 3629) without NUL. */
int sn_utf8_is_valid(const char *bytes, size_t size);

#endif
