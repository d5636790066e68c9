/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: at[i]->handle == i, and the map holds exactly at[0 .. count). */
#include "delivery/names.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sennit/limits.h"

#define CAPACITY_FIRST 16u

void sni_names_init(struct sni_names *names, const uint8_t seed[16])
{
    *names = (struct sni_names){0};
    sn_map_init(&names->map, seed);
}

void sni_names_fini(struct sni_names *names)
{
    sni_names_cut(names, 0);
    sn_map_fini(&names->map);
    sn_free(names->at, names->capacity * sizeof(struct sni_name *));
    names->at = NULL;
    names->capacity = 0;
}

void sni_names_cut(struct sni_names *names, uint32_t count)
{
    if (count >= names->count) return;
    while (names->count > count) {
        struct sni_name *name = names->at[--names->count];
        sn_map_remove(&names->map, &name->entry);
        sn_free(name, sizeof *name + name->size + 1);
    }
    memset(names->recent, 0, sizeof names->recent);
}

const struct sni_name *sni_names_find(const struct sni_names *names, const char *text,
                                      uint32_t size)
{
    struct sn_map_entry *entry = sn_map_find(&names->map, text, size);
    return entry == NULL ? NULL : SN_CONTAINER_OF(entry, struct sni_name, entry);
}

static enum sn_err reserve_one(struct sni_names *names)
{
    if (names->count < names->capacity) return SN_OK;
    uint32_t capacity = names->capacity == 0 ? CAPACITY_FIRST : names->capacity * 2;
    void *at = sn_realloc(names->at, names->capacity * sizeof(struct sni_name *),
                          capacity * sizeof(struct sni_name *));
    if (at == NULL) return SN_ENOMEM;
    names->at = at;
    names->capacity = capacity;
    return SN_OK;
}

enum sn_err sni_names_add(struct sni_names *names, const char *text, uint32_t size,
                          const struct sni_name **out_name)
{
    SN_ASSERT(size <= SN_TYPE_BYTES_MAX);
    if (names->count == SN_DELIVERY_HANDLES_MAX) return SN_EFULL;
    enum sn_err err = reserve_one(names);
    if (err != SN_OK) return err;
    struct sni_name *name = sn_alloc_raw(sizeof *name + size + 1);
    if (name == NULL) return SN_ENOMEM;
    name->handle = names->count;
    name->size = size;
    memcpy(name->text, text, size);
    name->text[size] = '\0';
    err = sn_map_insert(&names->map, &name->entry, name->text, size);
    if (err != SN_OK) {
        sn_free(name, sizeof *name + size + 1);
        return err;
    }
    names->at[names->count++] = name;
    *out_name = name;
    return SN_OK;
}
