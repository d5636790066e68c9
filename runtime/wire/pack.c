/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: nothing is written past the capacity, and after the first thing that did not fit
 * nothing is written at all, so that `data[0, size)` is always the start of what was asked for.
 */
#include "wire/pack.h"

#include <msgpack/pack.h>
#include <string.h>

#include "base/assert.h"

/* Called by msgpack-c with one header or body at a time. */
static int append(void *context, const char *bytes, size_t size)
{
    struct sn_pack *pack = context;
    SN_ASSERT(pack->size <= pack->capacity);
    if (pack->overflow || size > pack->capacity - pack->size) {
        pack->overflow = 1;
        return -1;
    }
    if (size > 0) memcpy(pack->data + pack->size, bytes, size);
    pack->size += size;
    return 0;
}

static msgpack_packer packer_of(struct sn_pack *pack)
{
    return (msgpack_packer){.data = pack, .callback = append};
}

/* msgpack cannot express more, and msgpack-c would cut the length to 32 bits. */
static int is_expressible(struct sn_pack *pack, size_t size)
{
    if (size <= UINT32_MAX) return 1;
    pack->overflow = 1;
    return 0;
}

void sn_pack_init(struct sn_pack *pack, uint8_t *data, size_t capacity)
{
    SN_ASSERT(data != NULL || capacity == 0);
    *pack = (struct sn_pack){.data = data, .capacity = capacity};
}

/* msgpack-c's results are ignored below: append has noted the overflow, the only failure. */

void sn_pack_map(struct sn_pack *pack, uint32_t count)
{
    msgpack_packer packer = packer_of(pack);
    (void)msgpack_pack_map(&packer, count);
}

void sn_pack_array(struct sn_pack *pack, uint32_t count)
{
    msgpack_packer packer = packer_of(pack);
    (void)msgpack_pack_array(&packer, count);
}

void sn_pack_uint(struct sn_pack *pack, uint64_t value)
{
    msgpack_packer packer = packer_of(pack);
    (void)msgpack_pack_uint64(&packer, value);
}

void sn_pack_int(struct sn_pack *pack, int64_t value)
{
    msgpack_packer packer = packer_of(pack);
    (void)msgpack_pack_int64(&packer, value);
}

void sn_pack_bool(struct sn_pack *pack, int value)
{
    msgpack_packer packer = packer_of(pack);
    (void)(value ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer));
}

void sn_pack_nil(struct sn_pack *pack)
{
    msgpack_packer packer = packer_of(pack);
    (void)msgpack_pack_nil(&packer);
}

void sn_pack_double(struct sn_pack *pack, double value)
{
    msgpack_packer packer = packer_of(pack);
    (void)msgpack_pack_double(&packer, value);
}

void sn_pack_text(struct sn_pack *pack, const char *text, size_t size)
{
    if (!is_expressible(pack, size)) return;
    msgpack_packer packer = packer_of(pack);
    (void)msgpack_pack_str_with_body(&packer, text, size);
}

void sn_pack_bin(struct sn_pack *pack, const void *bytes, size_t size)
{
    if (!is_expressible(pack, size)) return;
    msgpack_packer packer = packer_of(pack);
    (void)msgpack_pack_bin_with_body(&packer, bytes, size);
}

void sn_pack_raw(struct sn_pack *pack, const void *bytes, size_t size)
{
    (void)append(pack, bytes, size); /* the overflow is noted in the pack */
}

void sn_pack_key_uint(struct sn_pack *pack, uint32_t key, uint64_t value)
{
    sn_pack_uint(pack, key);
    sn_pack_uint(pack, value);
}

void sn_pack_key_text(struct sn_pack *pack, uint32_t key, const char *text)
{
    sn_pack_uint(pack, key);
    sn_pack_text(pack, text, strlen(text));
}

void sn_pack_key_bin(struct sn_pack *pack, uint32_t key, const void *bytes, size_t size)
{
    sn_pack_uint(pack, key);
    sn_pack_bin(pack, bytes, size);
}

enum sn_err sn_pack_finish(const struct sn_pack *pack, size_t *out_size)
{
    SN_ASSERT(pack->size <= pack->capacity);
    if (pack->overflow) return SN_ETOOBIG;
    *out_size = pack->size;
    return SN_OK;
}
