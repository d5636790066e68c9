/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing msgpack into the caller's array, by msgpack-c. A pack never grows and never allocates:
 * when the array is full it remembers so, and sn_pack_finish reports ETOOBIG.
 * Thread-safe: one pack per thread. Blocking: no.
 */
#ifndef SN_WIRE_PACK_H
#define SN_WIRE_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "sennit/err.h"

struct sn_pack {
    uint8_t *data;
    size_t size;
    size_t capacity;
    int overflow;
};

void sn_pack_init(struct sn_pack *pack, uint8_t *data, size_t capacity);
void sn_pack_map(struct sn_pack *pack, uint32_t count);
void sn_pack_array(struct sn_pack *pack, uint32_t count);
void sn_pack_uint(struct sn_pack *pack, uint64_t value);
void sn_pack_int(struct sn_pack *pack, int64_t value);
void sn_pack_bool(struct sn_pack *pack, int value);
void sn_pack_nil(struct sn_pack *pack);
void sn_pack_text(struct sn_pack *pack, const char *text, size_t size);
void sn_pack_bin(struct sn_pack *pack, const void *bytes, size_t size);
void sn_pack_double(struct sn_pack *pack, double value);
/* Bytes that are msgpack already. */
void sn_pack_raw(struct sn_pack *pack, const void *bytes, size_t size);

/* An integer map key and its value. */
void sn_pack_key_uint(struct sn_pack *pack, uint32_t key, uint64_t value);
void sn_pack_key_text(struct sn_pack *pack, uint32_t key, const char *text);
void sn_pack_key_bin(struct sn_pack *pack, uint32_t key, const void *bytes, size_t size);

/* Errors: ETOOBIG when anything did not fit. */
SN_MUST_CHECK enum sn_err sn_pack_finish(const struct sn_pack *pack, size_t *out_size);

#endif
