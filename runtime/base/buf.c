/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a slab lives exactly as long as one view on it does; a view never reaches outside its
 * slab.
 */
#include "sennit/buf.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sennit/limits.h"

#define SLAB_MAGIC SN_MAGIC('S', 'L', 'A', 'B')

struct sn_slab {
    uint32_t magic;
    _Atomic uint32_t refs; /* partner: itself; release on drop, acquire before free */
    uint32_t size;         /* bytes[] */
    uint8_t bytes[];
};

enum sn_err sn_buf_new(uint32_t capacity, uint32_t headroom, struct sn_buf *out_buf)
{
    if (capacity > SN_SLAB_BYTES_MAX || headroom > SN_HEADROOM_MAX) return SN_ETOOBIG;
    struct sn_slab *slab = sn_alloc_raw(sizeof *slab + capacity + headroom);
    if (slab == NULL) return SN_ENOMEM;
    slab->magic = SLAB_MAGIC;
    atomic_init(&slab->refs, 1);
    slab->size = capacity + headroom;
    *out_buf = (struct sn_buf){.slab = slab, .data = slab->bytes + headroom};
    return SN_OK;
}

enum sn_err sn_buf_copy(const void *bytes, uint32_t size, struct sn_buf *out_buf)
{
    enum sn_err err = sn_buf_new(size, 0, out_buf);
    if (err != SN_OK) return err;
    if (size > 0) memcpy(out_buf->data, bytes, size);
    out_buf->size = size;
    return SN_OK;
}

struct sn_buf sn_buf_ref(const struct sn_buf *buf)
{
    return sn_buf_slice(buf, 0, buf->size);
}

struct sn_buf sn_buf_slice(const struct sn_buf *buf, uint32_t offset, uint32_t size)
{
    SN_ASSERT(offset <= buf->size);
    SN_ASSERT(size <= buf->size - offset);
    if (buf->slab == NULL) return (struct sn_buf){0};
    SN_ASSERT(buf->slab->magic == SLAB_MAGIC);
    atomic_fetch_add_explicit(&buf->slab->refs, 1, memory_order_relaxed);
    return (struct sn_buf){.slab = buf->slab, .data = buf->data + offset, .size = size};
}

void sn_buf_unref(struct sn_buf *buf)
{
    struct sn_slab *slab = buf->slab;
    *buf = (struct sn_buf){0};
    if (slab == NULL) return;
    SN_ASSERT(slab->magic == SLAB_MAGIC);
    if (atomic_fetch_sub_explicit(&slab->refs, 1, memory_order_acq_rel) != 1) return;
    slab->magic = 0;
    sn_free(slab, sizeof *slab + slab->size);
}

uint32_t sn_buf_tailroom(const struct sn_buf *buf)
{
    if (buf->slab == NULL) return 0;
    return (uint32_t)(buf->slab->bytes + buf->slab->size - (buf->data + buf->size));
}

uint32_t sn_buf_headroom(const struct sn_buf *buf)
{
    if (buf->slab == NULL) return 0;
    return (uint32_t)(buf->data - buf->slab->bytes);
}

int sn_buf_is_sole(const struct sn_buf *buf)
{
    return buf->slab != NULL && atomic_load_explicit(&buf->slab->refs, memory_order_acquire) == 1;
}
