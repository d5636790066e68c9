/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: a text that any common YAML reader takes for something else is never classed as text.
 */
#include "config/scalar.h"

#include <string.h>

#include "base/assert.h"

static char lower(char c)
{
    if (c < 'A' || c > 'Z') return c;
    return (char)(c + ('a' - 'A'));
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_word(const char *text, const char *word)
{
    for (; *word != '\0'; text++, word++) {
        if (lower(*text) != *word) return 0;
    }
    return *text == '\0';
}

static int is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (is_word(text, *words)) return 1;
    }
    return 0;
}

static const char *const truths[] = {"true", "yes", "on", NULL};
static const char *const untruths[] = {"false", "no", "off", NULL};
static const char *const nothings[] = {"", "~", "null", NULL};
static const char *const specials[] = {".inf", "+.inf", "-.inf", ".nan", NULL};

int sni_scalar_is_truth(const char *text)
{
    return is_one_of(text, truths);
}

static int is_decimal(const char *text)
{
    if (*text == '-') text++;
    if (!is_digit(*text)) return 0;
    if (*text == '0') return text[1] == '\0';
    while (is_digit(*text)) text++;
    return *text == '\0';
}

/* 0x1f, 0o17, 0b11 */
static int is_radix(const char *text)
{
    if (text[0] != '0') return 0;
    char base = lower(text[1]);
    if (base != 'x' && base != 'o' && base != 'b') return 0;
    const char *at = text + 2;
    for (; *at != '\0'; at++) {
        int is_hex = base == 'x' && lower(*at) >= 'a' && lower(*at) <= 'f';
        if (!is_digit(*at) && *at != '_' && !is_hex) return 0;
    }
    return at > text + 2;
}

/* Digits with _ , one point and an exponent. */
static int is_float(const char *text)
{
    int digits = 0;
    int points = 0;
    for (; is_digit(*text) || *text == '_' || *text == '.'; text++) {
        if (is_digit(*text)) digits++;
        if (*text == '.') points++;
    }
    if (digits == 0 || points > 1) return 0;
    if (lower(*text) == 'e') {
        text++;
        if (*text == '+' || *text == '-') text++;
        if (!is_digit(*text)) return 0;
        while (is_digit(*text)) text++;
    }
    return *text == '\0';
}

/* 1:30:00 or 1:30.5, base 60 in YAML 1.1; each part after the first is below 60. */
static int is_sexagesimal(const char *text)
{
    int parts = 0;
    if (!is_digit(*text)) return 0;
    while (is_digit(*text) || *text == '_') text++;
    for (; *text == ':'; parts++) {
        text++;
        if (*text >= '0' && *text <= '5' && is_digit(text[1])) text++;
        if (!is_digit(*text)) return 0;
        text++;
    }
    if (*text == '.') text++;
    while (is_digit(*text) || *text == '_') text++;
    return parts > 0 && *text == '\0';
}

enum sni_scalar_class sni_scalar_classify(const char *text, int is_plain)
{
    SN_ASSERT(text != NULL);
    if (!is_plain) return SNI_SCALAR_TEXT;
    if (is_one_of(text, nothings)) return SNI_SCALAR_NULL;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) return SNI_SCALAR_BOOL;
    if (is_one_of(text, truths) || is_one_of(text, untruths)) return SNI_SCALAR_BOOL_LIKE;
    if (is_decimal(text)) return SNI_SCALAR_INT;
    if (is_one_of(text, specials)) return SNI_SCALAR_NUMBER;
    if (*text == '+' || *text == '-') text++;
    if (is_radix(text) || is_float(text) || is_sexagesimal(text)) return SNI_SCALAR_NUMBER;
    return SNI_SCALAR_TEXT;
}

enum sn_err sni_scalar_int(const char *text, int64_t *out_value)
{
    if (!is_decimal(text)) return SN_EINVAL;
    int is_negative = *text == '-';
    if (is_negative) text++;
    int64_t value = 0; /* kept negative, whose range is the larger */
    for (; *text != '\0'; text++) {
        int digit = *text - '0';
        if (value < (INT64_MIN + digit) / 10) return SN_ETOOBIG;
        value = value * 10 - digit;
    }
    if (!is_negative && value == INT64_MIN) return SN_ETOOBIG;
    *out_value = is_negative ? value : -value;
    return SN_OK;
}
