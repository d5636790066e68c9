/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: no function writes past the room it was given, and every text it builds is
 * terminated. Checks of names and patterns accept exactly what the header says, so that a name that
 * passed may stand in a file name, a DNS label or a log line without quoting.
 */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define DISTANCE_BYTES_MAX 63

void sn_text_init(struct sn_text *text, char *data, size_t capacity)
{
    SN_ASSERT(data != NULL);
    SN_ASSERT(capacity > 0);
    data[0] = '\0';
    *text = (struct sn_text){.data = data, .capacity = capacity};
}

void sn_text_add(struct sn_text *text, const char *format, ...)
{
    SN_ASSERT(text->size < text->capacity);
    /* What follows a gap would read as if nothing were missing. */
    if (text->truncated) return;
    size_t room = text->capacity - text->size;
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(text->data + text->size, room, format, args);
    va_end(args);
    if (wanted < 0) {
        text->data[text->size] = '\0';
        text->truncated = 1;
        return;
    }
    text->truncated = (size_t)wanted >= room;
    text->size += text->truncated ? room - 1 : (size_t)wanted;
}

void sn_text_add_bytes(struct sn_text *text, const char *bytes, size_t size)
{
    SN_ASSERT(text->size < text->capacity);
    if (text->truncated || size == 0) return;
    size_t room = text->capacity - text->size - 1;
    text->truncated = size > room;
    size_t taken = text->truncated ? room : size;
    memcpy(text->data + text->size, bytes, taken);
    text->size += taken;
    text->data[text->size] = '\0';
}

static int is_in(uint8_t byte, uint8_t low, uint8_t high)
{
    return byte >= low && byte <= high;
}

/* Bytes of the well-formed character at the start (RFC 3629, section 4), 0 when there is none. */
static size_t utf8_size(const uint8_t *at, size_t left)
{
    SN_ASSERT(left > 0);
    uint8_t lead = at[0];
    if (lead < 0x80) return 1;
    if (left < 2) return 0;
    if (is_in(lead, 0xc2, 0xdf)) return is_in(at[1], 0x80, 0xbf) ? 2 : 0;
    if (is_in(lead, 0xe0, 0xef)) {
        uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;  /* no overlong forms */
        uint8_t high = lead == 0xed ? 0x9f : 0xbf; /* no surrogates */
        return left >= 3 && is_in(at[1], low, high) && is_in(at[2], 0x80, 0xbf) ? 3 : 0;
    }
    if (!is_in(lead, 0xf0, 0xf4)) return 0;
    uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xf4 ? 0x8f : 0xbf; /* at most U+10FFFF */
    if (left < 4 || !is_in(at[1], low, high)) return 0;
    return is_in(at[2], 0x80, 0xbf) && is_in(at[3], 0x80, 0xbf) ? 4 : 0;
}

int sn_utf8_is_valid(const char *bytes, size_t size)
{
    const uint8_t *at = (const uint8_t *)bytes;
    for (size_t i = 0; i < size;) {
        size_t step = utf8_size(at + i, size - i);
        if (step == 0 || at[i] == 0) return 0;
        i += step;
    }
    return 1;
}

static void add_json_escape(struct sn_text *text, uint8_t byte)
{
    switch (byte) {
    case '"': sn_text_add(text, "\\\""); break;
    case '\\': sn_text_add(text, "\\\\"); break;
    case '\n': sn_text_add(text, "\\n"); break;
    case '\r': sn_text_add(text, "\\r"); break;
    case '\t': sn_text_add(text, "\\t"); break;
    default: sn_text_add(text, "\\u%04x", (unsigned)byte); break;
    }
}

/* DEL is legal in JSON, but a terminal that shows the log would obey it. */
static int needs_json_escape(uint8_t byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f;
}

void sn_text_add_json(struct sn_text *text, const char *bytes, size_t size)
{
    const uint8_t *at = (const uint8_t *)bytes;
    size_t plain = 0; /* start of the run that needs no change */
    sn_text_add_bytes(text, "\"", 1);
    for (size_t i = 0; i < size;) {
        size_t step = utf8_size(at + i, size - i);
        if (step > 1 || (step == 1 && !needs_json_escape(at[i]))) {
            i += step;
            continue;
        }
        if (i > plain) sn_text_add_bytes(text, bytes + plain, i - plain);
        if (step == 0) {
            sn_text_add_bytes(text, "\xef\xbf\xbd", 3);
        } else {
            add_json_escape(text, at[i]);
        }
        plain = ++i;
    }
    if (size > plain) sn_text_add_bytes(text, bytes + plain, size - plain);
    sn_text_add_bytes(text, "\"", 1);
}

/* H. Hinnant's civil-from-days. */
void sn_text_add_utc(struct sn_text *text, int64_t unix_s)
{
    if (unix_s < 0 || unix_s > 253402300799) {
        sn_text_add(text, "%s", unix_s < 0 ? "before 1970" : "never");
        return;
    }
    uint32_t second = (uint32_t)(unix_s % 86400);
    uint32_t days = (uint32_t)(unix_s / 86400) + 719468;
    uint32_t era = days / 146097;
    uint32_t day_of_era = days % 146097;
    uint32_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t shifted = (5 * day_of_year + 2) / 153; /* March is 0 */
    uint32_t day = day_of_year - (153 * shifted + 2) / 5 + 1;
    uint32_t month = shifted < 10 ? shifted + 3 : shifted - 9;
    uint32_t year = year_of_era + era * 400 + (month <= 2);
    sn_text_add(text, "%u-%02u-%02u %02u:%02u:%02u UTC", year, month, day, second / 3600,
                second / 60 % 60, second % 60);
}

enum sn_err sn_text_copy(char *out, size_t capacity, const char *bytes, size_t size)
{
    if (size >= capacity) return SN_ETOOBIG;
    if (size > 0) memcpy(out, bytes, size);
    out[size] = '\0';
    return SN_OK;
}

void sn_hex_encode(const uint8_t *bytes, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * size] = '\0';
}

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

enum sn_err sn_hex_decode(const char *text, size_t text_size, uint8_t *out, size_t size)
{
    if (text_size / 2 != size || text_size % 2 != 0) return SN_EINVAL;
    /* Two passes, because `out` is written only on success. */
    for (size_t i = 0; i < text_size; i++) {
        if (hex_value(text[i]) < 0) return SN_EINVAL;
    }
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)(hex_value(text[2 * i]) * 16 + hex_value(text[2 * i + 1]));
    }
    return SN_OK;
}

enum sn_err sn_text_to_u64(const char *text, size_t size, uint64_t max, uint64_t *out_value)
{
    if (size == 0 || (size > 1 && text[0] == '0')) return SN_EINVAL;
    uint64_t value = 0;
    int is_over = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return SN_EINVAL;
        uint64_t digit = (uint64_t)(text[i] - '0');
        is_over = is_over || value > (UINT64_MAX - digit) / 10;
        if (!is_over) value = value * 10 + digit;
    }
    if (is_over || value > max) return SN_ETOOBIG;
    *out_value = value;
    return SN_OK;
}

int sn_label_is_valid(const char *text, size_t size)
{
    if (size == 0 || size > SN_LABEL_BYTES_MAX) return 0;
    if (text[0] == '-' || text[size - 1] == '-') return 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return 0;
    }
    return 1;
}

int sn_agent_name_is_valid(const char *text, size_t size)
{
    if (size == 0 || size > SN_AGENT_NAME_BYTES_MAX) return 0;
    const char *slash = memchr(text, '/', size);
    if (slash == NULL) return 0;
    size_t site_size = (size_t)(slash - text);
    return sn_label_is_valid(text, site_size) && sn_label_is_valid(slash + 1, size - site_size - 1);
}

int sn_type_is_valid(const char *text, size_t size)
{
    if (size == 0 || size > SN_TYPE_BYTES_MAX) return 0;
    for (;;) {
        const char *dot = memchr(text, '.', size);
        if (dot == NULL) return sn_label_is_valid(text, size);
        size_t label_size = (size_t)(dot - text);
        if (!sn_label_is_valid(text, label_size)) return 0;
        text = dot + 1;
        size -= label_size + 1;
    }
}

/* Size of the part before "<separator>*", 0 when the pattern does not end so. */
static size_t wildcard_prefix_size(const char *text, size_t size, char separator)
{
    if (size < 3 || text[size - 1] != '*' || text[size - 2] != separator) return 0;
    return size - 2;
}

int sn_agent_pattern_is_valid(const char *text, size_t size)
{
    if (size == 1 && text[0] == '*') return 1;
    size_t prefix_size = wildcard_prefix_size(text, size, '/');
    if (prefix_size > 0) return sn_label_is_valid(text, prefix_size);
    return sn_agent_name_is_valid(text, size);
}

/* 1 when `name` is the pattern's prefix, the separator and something more. */
static int wildcard_matches(const char *pattern, const char *name, char separator)
{
    size_t prefix_size = wildcard_prefix_size(pattern, strlen(pattern), separator);
    if (prefix_size == 0) return 0;
    if (strncmp(pattern, name, prefix_size + 1) != 0) return 0; /* the separator is compared too */
    return name[prefix_size + 1] != '\0';
}

int sn_agent_pattern_matches(const char *pattern, const char *name)
{
    if (strcmp(pattern, "*") == 0 || strcmp(pattern, name) == 0) return 1;
    return wildcard_matches(pattern, name, '/');
}

int sn_type_pattern_is_valid(const char *text, size_t size)
{
    if (size > SN_TYPE_BYTES_MAX) return 0; /* no type is long enough to match */
    if (size == 1 && text[0] == '*') return 1;
    size_t prefix_size = wildcard_prefix_size(text, size, '.');
    if (prefix_size > 0) return sn_type_is_valid(text, prefix_size);
    return sn_type_is_valid(text, size);
}

int sn_type_pattern_matches(const char *pattern, const char *type)
{
    if (strcmp(pattern, "*") == 0 || strcmp(pattern, type) == 0) return 1;
    return wildcard_matches(pattern, type, '.');
}

enum sn_err sn_addr_split(const char *text, size_t size, struct sn_addr_parts *out_parts)
{
    if (size == 0 || size > SN_ADDR_BYTES_MAX) return SN_EINVAL;
    const char *colon = memchr(text, ':', size);
    if (colon == NULL) return SN_EINVAL;
    struct sn_addr_parts parts = {.agent = text, .agent_size = (size_t)(colon - text)};
    parts.actor = colon + 1;
    parts.actor_size = size - parts.agent_size - 1;
    if (parts.agent_size > 0 && !sn_agent_name_is_valid(parts.agent, parts.agent_size)) {
        return SN_EINVAL;
    }
    if (!sn_label_is_valid(parts.actor, parts.actor_size)) return SN_EINVAL;
    *out_parts = parts;
    return SN_OK;
}

static uint8_t least(unsigned a, unsigned b)
{
    return (uint8_t)(a < b ? a : b);
}

unsigned sn_text_distance(const char *a, const char *b, unsigned limit)
{
    /* Rows of the edit matrix: of the letter before the last, of the last, and of this one. */
    uint8_t rows[3][DISTANCE_BYTES_MAX + 1];
    uint8_t *before = rows[0], *last = rows[1], *row = rows[2];
    size_t a_size = strnlen(a, DISTANCE_BYTES_MAX + 1);
    size_t b_size = strnlen(b, DISTANCE_BYTES_MAX + 1);
    if (limit > DISTANCE_BYTES_MAX) limit = DISTANCE_BYTES_MAX;
    if (a_size > DISTANCE_BYTES_MAX || b_size > DISTANCE_BYTES_MAX) return limit + 1;
    memset(before, 0, sizeof rows[0]);
    for (size_t j = 0; j <= b_size; j++) last[j] = (uint8_t)j;
    for (size_t i = 1; i <= a_size; i++) {
        row[0] = (uint8_t)i;
        for (size_t j = 1; j <= b_size; j++) {
            unsigned differs = a[i - 1] != b[j - 1];
            row[j] = least(last[j] + 1u, row[j - 1] + 1u);
            row[j] = least(row[j], last[j - 1] + differs);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], before[j - 2] + 1u);
            }
        }
        uint8_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b_size] > limit ? limit + 1 : last[b_size];
}
