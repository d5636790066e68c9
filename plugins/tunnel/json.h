/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON into a buffer that does not grow. A caller that must not be cut remembers `size`,
 * writes, and goes back to it when `is_full` was set.
 */
#ifndef SN_PLUGINS_TUNNEL_JSON_H
#define SN_PLUGINS_TUNNEL_JSON_H

#include <stdint.h>

struct json {
    char *data;
    uint32_t size;
    uint32_t capacity;
    int is_full;
};

void sni_tunnel_json_raw(struct json *json, const char *text);
/* Quoted and escaped; bytes above 0x7f pass as they are (configuration is UTF-8). */
void sni_tunnel_json_string(struct json *json, const char *text);
/* "key": with a comma in front unless it is the first of its object. */
void sni_tunnel_json_key(struct json *json, const char *key);
/* "key":"value" and "key":value, likewise. */
void sni_tunnel_json_text(struct json *json, const char *key, const char *value);
void sni_tunnel_json_number(struct json *json, const char *key, uint64_t value);

#endif
