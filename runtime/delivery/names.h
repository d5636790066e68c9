/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and their handles, one table a direction, class and pair of boots. The sender numbers names from 0 in
 * the order of their first use and says so where it uses one first; the receiver follows. Both tables agree
 * because the parcels of a class are processed in order, each exactly once.
 *
 * Bounded: SN_DELIVERY_HANDLES_MAX names of at most SN_TYPE_BYTES_MAX bytes. When the sender's table is full,
 * further names travel in full.
 * Thread-safe: no. Blocking: no.
 */
#ifndef SN_DELIVERY_NAMES_H
#define SN_DELIVERY_NAMES_H

#include <stdint.h>

#include "base/map.h"
#include "sennit/err.h"

struct sni_name {
    struct sn_map_entry entry;
    uint32_t handle;
    uint32_t size;
    char text[]; /* NUL-terminated */
};

#define SNI_NAMES_RECENT 3u

struct sni_names {
    struct sn_map map;
    struct sni_name **at; /* by handle */
    uint32_t count;
    uint32_t capacity;
    /* What the last message used, by field: most messages use it again, which saves the hashing. */
    const struct sni_name *recent[SNI_NAMES_RECENT];
};

void sni_names_init(struct sni_names *names, const uint8_t seed[16]);
void sni_names_fini(struct sni_names *names);
/* Forgets the handles from `count` on. */
void sni_names_cut(struct sni_names *names, uint32_t count);
/* NULL when it has no handle. */
const struct sni_name *sni_names_find(const struct sni_names *names, const char *text,
                                      uint32_t size);
/* Gives the name the next handle. Errors: EFULL, EEXIST, ENOMEM. */
SN_MUST_CHECK enum sn_err sni_names_add(struct sni_names *names, const char *text, uint32_t size,
                                        const struct sni_name **out_name);

#endif
