/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: chains stay short (load factor at most 1) and a failed growth leaves a usable map. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define BUCKETS_MIN 8u
#define BUCKETS_MAX (1u << 30) /* hashes have 32 bits, and the count must not wrap when doubled */

static uint64_t rotate_left(uint64_t word, unsigned bits)
{
    return (word << bits) | (word >> (64 - bits));
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate_left(v[1], 13) ^ v[0];
    v[0] = rotate_left(v[0], 32);
    v[2] += v[3];
    v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate_left(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate_left(v[1], 17) ^ v[2];
    v[2] = rotate_left(v[2], 32);
}

/* The order of bytes is part of SipHash's definition, whatever the machine's own is. */
static uint64_t load_little_endian(const uint8_t *at)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++) word |= (uint64_t)at[i] << (8 * i);
    return word;
}

uint64_t sn_siphash(const uint64_t seed[2], const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                     seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    size_t left = size;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word = load_little_endian(at);
        v[3] ^= word;
        sip_round(v);
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)size << 56;
    for (size_t i = 0; i < left; i++) last |= (uint64_t)at[i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void sn_map_init(struct sn_map *map, const uint8_t seed[16])
{
    memset(map, 0, sizeof *map);
    map->seed[0] = load_little_endian(seed);
    map->seed[1] = load_little_endian(seed + 8);
}

void sn_map_fini(struct sn_map *map)
{
    sn_free(map->buckets, map->bucket_count * sizeof(struct sn_map_entry *));
    map->buckets = NULL;
    map->bucket_count = map->count = 0;
}

static enum sn_err grow(struct sn_map *map)
{
    if (map->bucket_count >= BUCKETS_MAX) return SN_ENOMEM;
    uint32_t count = map->bucket_count == 0 ? BUCKETS_MIN : map->bucket_count * 2;
    struct sn_map_entry **fresh = sn_alloc(count * sizeof(struct sn_map_entry *));
    if (fresh == NULL) return SN_ENOMEM;
    for (uint32_t i = 0; i < map->bucket_count; i++) {
        struct sn_map_entry *entry = map->buckets[i];
        while (entry != NULL) {
            struct sn_map_entry *next = entry->next;
            struct sn_map_entry **slot = &fresh[entry->hash & (count - 1)];
            entry->next = *slot;
            *slot = entry;
            entry = next;
        }
    }
    sn_free(map->buckets, map->bucket_count * sizeof(struct sn_map_entry *));
    map->buckets = fresh;
    map->bucket_count = count;
    return SN_OK;
}

static struct sn_map_entry *find(const struct sn_map *map, const void *key, uint32_t key_size,
                                 uint32_t hash)
{
    if (map->bucket_count == 0) return NULL;
    struct sn_map_entry *entry = map->buckets[hash & (map->bucket_count - 1)];
    for (; entry != NULL; entry = entry->next) {
        if (entry->hash != hash || entry->key_size != key_size) continue;
        if (key_size == 0 || memcmp(entry->key, key, key_size) == 0) return entry;
    }
    return NULL;
}

enum sn_err sn_map_insert(struct sn_map *map, struct sn_map_entry *entry, const void *key,
                          uint32_t key_size)
{
    uint32_t hash = (uint32_t)sn_siphash(map->seed, key, key_size);
    if (find(map, key, key_size, hash) != NULL) return SN_EEXIST;
    if (map->count == map->bucket_count) {
        /* A full table of size > 0 still works, only slower. */
        enum sn_err err = grow(map);
        if (err != SN_OK && map->bucket_count == 0) return err;
    }
    *entry = (struct sn_map_entry){.key = key, .key_size = key_size, .hash = hash};
    struct sn_map_entry **slot = &map->buckets[hash & (map->bucket_count - 1)];
    entry->next = *slot;
    *slot = entry;
    map->count++;
    return SN_OK;
}

struct sn_map_entry *sn_map_find(const struct sn_map *map, const void *key, uint32_t key_size)
{
    return find(map, key, key_size, (uint32_t)sn_siphash(map->seed, key, key_size));
}

void sn_map_remove(struct sn_map *map, struct sn_map_entry *entry)
{
    SN_ASSERT(map->bucket_count > 0);
    struct sn_map_entry **slot = &map->buckets[entry->hash & (map->bucket_count - 1)];
    while (*slot != entry) {
        SN_ASSERT(*slot != NULL);
        slot = &(*slot)->next;
    }
    *slot = entry->next;
    SN_ASSERT(map->count > 0);
    map->count--;
}

struct sn_map_entry *sn_map_next(const struct sn_map *map, const struct sn_map_entry *entry)
{
    uint32_t index = 0;
    if (entry != NULL) {
        if (entry->next != NULL) return entry->next;
        index = (entry->hash & (map->bucket_count - 1)) + 1;
    }
    for (; index < map->bucket_count; index++) {
        if (map->buckets[index] != NULL) return map->buckets[index];
    }
    return NULL;
}
