/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: a quoted text reads back as the same bytes, whatever they are (UTF-8 without NUL). */
#include "config/out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "config/scalar.h"

#define CAPACITY_MIN 1024u

void sni_out_add_bytes(struct sni_out *out, const char *bytes, size_t size)
{
    if (out->no_memory || size == 0) return;
    if (out->capacity - out->size < size) {
        size_t capacity = out->capacity == 0 ? CAPACITY_MIN : out->capacity * 2;
        while (capacity - out->size < size) capacity *= 2;
        char *data = sn_realloc(out->data, out->capacity, capacity);
        if (data == NULL) {
            out->no_memory = 1;
            return;
        }
        out->data = data;
        out->capacity = capacity;
    }
    memcpy(out->data + out->size, bytes, size);
    out->size += size;
}

void sni_out_add(struct sni_out *out, const char *text)
{
    sni_out_add_bytes(out, text, strlen(text));
}

void sni_out_format(struct sni_out *out, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    SN_ASSERT(size >= 0 && (size_t)size < sizeof line);
    sni_out_add_bytes(out, line, (size_t)size);
}

void sni_out_indent(struct sni_out *out, unsigned spaces)
{
    for (unsigned i = 0; i < spaces; i++) sni_out_add_bytes(out, " ", 1);
}

/* Characters of two and three bytes that YAML does not take raw, as a \u escape; 0 for all others.
 */
static unsigned escape_of(const unsigned char *at)
{
    if (at[0] == 0xc2 && at[1] < 0xa0) return at[1];
    if (at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9)) {
        return 0x2000u | (at[2] & 0x3fu);
    }
    if (at[0] == 0xef && at[1] == 0xbb && at[2] == 0xbf) return 0xfeff;
    if (at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe) return 0xffc0u | (at[2] & 0x3fu);
    return 0;
}

void sni_out_quoted(struct sni_out *out, const char *text)
{
    sni_out_add(out, "\"");
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        unsigned escape = escape_of(at);
        if (*at == '"' || *at == '\\') {
            sni_out_format(out, "\\%c", *at);
            at++;
        } else if (*at < 0x20 || *at == 0x7f) {
            sni_out_format(out, "\\x%02x", *at);
            at++;
        } else if (escape != 0) {
            sni_out_format(out, "\\u%04x", escape);
            at += *at == 0xc2 ? 2 : 3;
        } else {
            sni_out_add_bytes(out, (const char *)at, 1);
            at++;
        }
    }
    sni_out_add(out, "\"");
}

void sni_out_name(struct sni_out *out, const char *name)
{
    if (sni_scalar_classify(name, 1) == SNI_SCALAR_TEXT) {
        sni_out_add(out, name);
    } else {
        sni_out_quoted(out, name);
    }
}

enum sn_err sni_out_take(struct sni_out *out, char **out_text)
{
    sni_out_add_bytes(out, "", 1);
    enum sn_err err = out->no_memory ? SN_ENOMEM : SN_OK;
    if (err == SN_OK) {
        char *text = sn_strdup(out->data);
        if (text == NULL) err = SN_ENOMEM;
        if (text != NULL) *out_text = text;
    }
    sni_out_fini(out);
    return err;
}

void sni_out_fini(struct sni_out *out)
{
    sn_free(out->data, out->capacity);
    memset(out, 0, sizeof *out);
}
