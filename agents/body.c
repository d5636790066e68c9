/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/body.h"

#include <string.h>

#include "base/alloc.h"
#include "sennit/limits.h"

#define GROW_BYTES 4096u

void sn_body_init(struct sn_body *body)
{
    *body = (struct sn_body){0};
}

void sn_body_fini(struct sn_body *body)
{
    sn_free(body->pack.data, body->pack.capacity);
    sn_body_init(body);
}

void sn_body_need(struct sn_body *body, size_t bytes)
{
    struct sn_pack *pack = &body->pack;
    if (body->err != SN_OK || pack->capacity - pack->size >= bytes) return;
    size_t capacity = pack->capacity == 0 ? GROW_BYTES : pack->capacity * 2;
    while (capacity - pack->size < bytes) capacity *= 2;
    if (capacity > SN_CONTROL_REPLY_BYTES_MAX) {
        body->err = SN_ETOOBIG;
        return;
    }
    uint8_t *data = sn_realloc(pack->data, pack->capacity, capacity);
    if (data == NULL) {
        body->err = SN_ENOMEM;
        return;
    }
    pack->data = data;
    pack->capacity = capacity;
}

void sn_body_map(struct sn_body *body, uint32_t count)
{
    sn_body_need(body, 16);
    if (body->err == SN_OK) sn_pack_map(&body->pack, count);
}

void sn_body_array(struct sn_body *body, uint32_t count)
{
    sn_body_need(body, 16);
    if (body->err == SN_OK) sn_pack_array(&body->pack, count);
}

void sn_body_key(struct sn_body *body, const char *key)
{
    sn_body_need(body, strlen(key) + 16);
    if (body->err == SN_OK) sn_pack_text(&body->pack, key, strlen(key));
}

void sn_body_text(struct sn_body *body, const char *key, const char *text)
{
    sn_body_key(body, key);
    sn_body_key(body, text); /* a value is packed like a key */
}

void sn_body_uint(struct sn_body *body, const char *key, uint64_t value)
{
    sn_body_key(body, key);
    sn_body_need(body, 16);
    if (body->err == SN_OK) sn_pack_uint(&body->pack, value);
}

void sn_body_int(struct sn_body *body, const char *key, int64_t value)
{
    sn_body_key(body, key);
    sn_body_need(body, 16);
    if (body->err == SN_OK) sn_pack_int(&body->pack, value);
}

void sn_body_append(struct sn_body *body, const struct sn_body *more)
{
    if (body->err == SN_OK) body->err = more->err;
    sn_body_need(body, more->pack.size);
    if (body->err == SN_OK) sn_pack_raw(&body->pack, more->pack.data, more->pack.size);
}
