/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of views in stream order, for what a stream retains and for what its reader has not
 * read. Views are kept as they are; small ones, and those that would pin more memory than they are
 * worth, are copied together instead. Thread-safe: no.
 */
#ifndef SN_STREAM_PIECES_INT_H
#define SN_STREAM_PIECES_INT_H

#include <stdint.h>

#include "sennit/buf.h"
#include "sennit/err.h"

struct sni_piece {
    struct sn_buf buf;
    uint32_t
        pinned; /* slab bytes charged to this piece; 0 when the piece before has the same slab */
    uint8_t headroom; /* the frame header may stand before the bytes */
    uint8_t is_copy;  /* our own slab, that may be appended to while nobody else sees it */
};

struct sni_pieces {
    struct sni_piece *ring;
    uint32_t capacity; /* power of two, 0 before the first piece */
    uint32_t head;
    uint32_t count;
    uint64_t bytes;
    uint64_t pinned;     /* slab bytes held by the pieces */
    uint64_t pinned_max; /* beyond it pieces are copied */
};

void sni_pieces_init(struct sni_pieces *pieces, uint64_t pinned_max);
void sni_pieces_fini(struct sni_pieces *pieces);

/* Appends the (not empty) view; on SN_OK *buf is nulled. *out_rest receives what the caller shall
 * release when it has no more use of the bytes: empty when the queue kept the view. Errors:
 * ENOMEM. */
SN_MUST_CHECK enum sn_err sni_pieces_push(struct sni_pieces *pieces, struct sn_buf *buf,
                                          uint8_t headroom, struct sn_buf *out_rest);
/* The index-th piece from the head; must exist. */
struct sni_piece *sni_pieces_at(const struct sni_pieces *pieces, uint32_t index);
/* Removes the first `bytes`; there must be as many. */
void sni_pieces_skip(struct sni_pieces *pieces, uint32_t bytes);
/* Removes the head, whose view becomes the caller's. */
struct sn_buf sni_pieces_pop(struct sni_pieces *pieces);

#endif
