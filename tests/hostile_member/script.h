/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the script: a verb, then key=value words in any order. */
#ifndef SN_TESTS_HOSTILE_MEMBER_SCRIPT_H
#define SN_TESTS_HOSTILE_MEMBER_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#define HM_WORDS_MAX 24u

struct hm_line {
    const char *verb;
    char *words[HM_WORDS_MAX];
    uint32_t count;
};

/* Cuts the text up in place. 0: an empty line, or a comment. */
int hm_line_parse(struct hm_line *line, char *text);
/* The value of `key`, or `fallback`. */
const char *hm_line_text(const struct hm_line *line, const char *key, const char *fallback);
uint64_t hm_line_uint(const struct hm_line *line, const char *key, uint64_t fallback);
int hm_line_has(const struct hm_line *line, const char *key);
/* "on" or "off". */
int hm_line_is_on(const struct hm_line *line, const char *key, int fallback);
/* Hexadecimal digits; returns how many bytes there were. */
size_t hm_line_hex(const struct hm_line *line, const char *key, uint8_t *out, size_t capacity);

#endif
