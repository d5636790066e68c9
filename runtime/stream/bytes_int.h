/* SPDX-License-Identifier: Apache-2.0 */
/* Big-endian integers. Thread-safe: yes (pure functions). */
#ifndef SN_STREAM_BYTES_INT_H
#define SN_STREAM_BYTES_INT_H

#include <stdint.h>

static inline void sni_put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(value >> (24 - 8 * i));
}

static inline void sni_put_u64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(value >> (56 - 8 * i));
}

static inline uint32_t sni_get_u32(const uint8_t *bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) value = value << 8 | bytes[i];
    return value;
}

static inline uint64_t sni_get_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | bytes[i];
    return value;
}

#endif
