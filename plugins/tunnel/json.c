/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: nothing is written beyond the buffer, and what was written stays well-formed text. */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add(struct json *json, const char *bytes, size_t size)
{
    if (json->is_full || size > json->capacity - json->size) {
        json->is_full = 1;
        return;
    }
    memcpy(json->data + json->size, bytes, size);
    json->size += (uint32_t)size;
}

void sni_tunnel_json_raw(struct json *json, const char *text)
{
    add(json, text, strlen(text));
}

void sni_tunnel_json_string(struct json *json, const char *text)
{
    add(json, "\"", 1);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        char escaped[8];
        if (c >= 0x20 && c != '"' && c != '\\') {
            add(json, text, 1);
            continue;
        }
        int size = c < 0x20 ? snprintf(escaped, sizeof escaped, "\\u%04x", c)
                            : snprintf(escaped, sizeof escaped, "\\%c", c);
        add(json, escaped, (size_t)size);
    }
    add(json, "\"", 1);
}

void sni_tunnel_json_key(struct json *json, const char *name)
{
    int is_first = json->size > 0 && json->data[json->size - 1] == '{';
    if (!is_first) add(json, ",", 1);
    sni_tunnel_json_string(json, name);
    add(json, ":", 1);
}

void sni_tunnel_json_text(struct json *json, const char *name, const char *value)
{
    sni_tunnel_json_key(json, name);
    sni_tunnel_json_string(json, value);
}

void sni_tunnel_json_number(struct json *json, const char *name, uint64_t value)
{
    char digits[24];
    sni_tunnel_json_key(json, name);
    int size = snprintf(digits, sizeof digits, "%" PRIu64, value);
    add(json, digits, (size_t)size);
}
