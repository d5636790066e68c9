/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash map from byte strings to pointers, intrusive: the entry lives in the caller's object, whose
 * key bytes must not change while it is in the map. Hashes are keyed (SipHash-2-4) so that a peer
 * who chooses names cannot choose collisions. Not thread-safe.
 */
#ifndef SN_BASE_MAP_H
#define SN_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

struct sn_map_entry {
    struct sn_map_entry *next;
    const void *key; /* borrowed from the owner of the entry */
    uint32_t key_size;
    uint32_t hash;
};

struct sn_map {
    struct sn_map_entry **buckets;
    uint32_t bucket_count; /* a power of two; 0 before the first insert */
    uint32_t count;
    uint64_t seed[2];
};

/* `seed` is 16 random bytes from the environment. */
void sn_map_init(struct sn_map *map, const uint8_t seed[16]);

/* Frees the buckets; entries belong to their owners. */
void sn_map_fini(struct sn_map *map);

/* Errors: EEXIST (key present), ENOMEM. The key is borrowed until the entry is removed. */
SN_MUST_CHECK enum sn_err sn_map_insert(struct sn_map *map, struct sn_map_entry *entry,
                                        const void *key, uint32_t key_size);
struct sn_map_entry *sn_map_find(const struct sn_map *map, const void *key, uint32_t key_size);
void sn_map_remove(struct sn_map *map, struct sn_map_entry *entry);

/* Iteration: any entry after `entry`, or the first for NULL; NULL at the end. The map must not
 * change meanwhile, not even by removing the entry just visited. */
struct sn_map_entry *sn_map_next(const struct sn_map *map, const struct sn_map_entry *entry);

/* SipHash-2-4 (Aumasson, Bernstein 2012) of size bytes. */
uint64_t sn_siphash(const uint64_t seed[2], const void *bytes, size_t size);

#endif
