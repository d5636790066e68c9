/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: nothing is read past a line; what is not there has the value that the caller names. */
#include "hostile_member/script.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

int hm_line_parse(struct hm_line *line, char *text)
{
    char *rest = NULL;
    *line = (struct hm_line){0};
    for (char *word = strtok_r(text, " \t\r\n", &rest); word != NULL;
         word = strtok_r(NULL, " \t\r\n", &rest)) {
        if (line->verb == NULL) {
            line->verb = word;
        } else if (line->count < HM_WORDS_MAX) {
            line->words[line->count++] = word;
        }
    }
    return line->verb != NULL && line->verb[0] != '#';
}

const char *hm_line_text(const struct hm_line *line, const char *key, const char *fallback)
{
    size_t size = strlen(key);
    for (uint32_t i = 0; i < line->count; i++) {
        const char *word = line->words[i];
        if (strncmp(word, key, size) == 0 && word[size] == '=') return word + size + 1;
    }
    return fallback;
}

uint64_t hm_line_uint(const struct hm_line *line, const char *key, uint64_t fallback)
{
    const char *text = hm_line_text(line, key, NULL);
    return text == NULL ? fallback : strtoull(text, NULL, 0); /* a wrong number shows in the test */
}

int hm_line_has(const struct hm_line *line, const char *key)
{
    return hm_line_text(line, key, NULL) != NULL;
}

int hm_line_is_on(const struct hm_line *line, const char *key, int fallback)
{
    const char *text = hm_line_text(line, key, NULL);
    return text == NULL ? fallback : strcmp(text, "on") == 0;
}

size_t hm_line_hex(const struct hm_line *line, const char *key, uint8_t *out, size_t capacity)
{
    const char *text = hm_line_text(line, key, "");
    size_t size = strlen(text) / 2;
    if (size > capacity || sn_hex_decode(text, 2 * size, out, size) != SN_OK) return 0;
    return size;
}
