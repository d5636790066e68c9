/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sn_buf: a view on a reference-counted slab of bytes.
 *
 * A view is passed by value inside one thread or handed over to another; the slab behind it is freed
 * when its last view is released. Views of one slab may live on different threads, but the bytes of a
 * shared slab are read-only. `data[-headroom .. 0)` may be written by the only holder of the slab.
 * Thread-safe: ref and unref yes; one view itself is not. Blocking: no.
 */
#ifndef SN_BUF_H
#define SN_BUF_H

#include <stdint.h>

#include "sennit/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sn_slab;

struct sn_buf {
    struct sn_slab *slab; /* NULL for the empty view */
    uint8_t *data;
    uint32_t size;     /* bytes, from data */
    uint32_t reserved; /* zero */
};

/* Allocates a slab with room for `headroom + capacity` bytes (at most SN_SLAB_BYTES_MAX +
 * SN_HEADROOM_MAX) and returns a view of size 0 placed after the headroom. Content is not zeroed.
 * Errors: ETOOBIG, ENOMEM. */
SN_API SN_MUST_CHECK enum sn_err sn_buf_new(uint32_t capacity, uint32_t headroom,
                                            struct sn_buf *out_buf);

/* As sn_buf_new, then copies `size` bytes in. */
SN_API SN_MUST_CHECK enum sn_err sn_buf_copy(const void *bytes, uint32_t size,
                                             struct sn_buf *out_buf);

/* A second view of the same bytes. The caller owns the result. */
SN_API struct sn_buf sn_buf_ref(const struct sn_buf *buf);

/* A second view on [offset, offset + size) of `buf`, which must lie inside it. */
SN_API struct sn_buf sn_buf_slice(const struct sn_buf *buf, uint32_t offset, uint32_t size);

/* Releases the view and empties it; harmless on an empty one. */
SN_API void sn_buf_unref(struct sn_buf *buf);

/* Bytes that may still be appended behind the view. */
SN_API uint32_t sn_buf_tailroom(const struct sn_buf *buf);

/* Bytes before the view. */
SN_API uint32_t sn_buf_headroom(const struct sn_buf *buf);

/* Nonzero when this view is the slab's only one, so its head and tail room may be written. */
SN_API int sn_buf_is_sole(const struct sn_buf *buf);

#ifdef __cplusplus
}
#endif
#endif
