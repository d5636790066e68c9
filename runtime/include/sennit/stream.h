/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of actors: ordered bytes between an actor here and an actor of another agent, joined to a
 * local connection on either side or handled by the actor itself.
 *
 * Life of a stream. The side that opens it: sn_stream_open, then SN_EVENT_STREAM_UP at most once.
 * The other side: SN_EVENT_STREAM_ASKED, then sn_stream_accept or sn_stream_reset. On both sides
 * exactly one SN_EVENT_STREAM_DOWN ends it, whatever happened, also after the actor's own
 * sn_stream_reset; its token is 0 when the stream was asked for and not accepted. After STREAM_DOWN
 * the reference means nothing; calls that cross it on the way do no harm.
 *
 * What becomes of the bytes each side decides for itself, once a stream and at any time: before
 * that they wait.
 *  - Spliced: they never pass through the actor. sn_stream_splice gives a connection to the stream,
 *    and the host moves bytes, half-closes and resets from one to the other until both directions
 *    have ended.
 *  - Delivered: after sn_stream_deliver what arrives comes as SN_EVENT_STREAM_READABLE, in order and
 *    without gaps. The last of these has is_end = 1 and may be empty. The peer may send a window
 *    (64 KiB to SN_STREAM_WINDOW_BYTES, as memory allows) ahead of what the actor gave back with
 *    sn_stream_consume: late consuming holds the peer back, and whoever wants to see more than
 *    64 KiB before it consumes may wait for ever. sn_stream_write and sn_stream_end make the other
 *    direction. STREAM_DOWN says SN_OK when the end was told and the peer has
 *    acknowledged all that was written and the end. However a stream ends, READABLE events that are
 *    on the way come before its STREAM_DOWN.
 *
 * What a stream moves can be watched while it moves (meters), and one that moves nothing ended by
 * itself: sn_stream_tune.
 *
 * Threads: from inside a handler call only, but for meters. Blocking: no. Not to be included together with the
 * runtime's own stream/mux.h, whose functions have the same names one layer below.
 */
#ifndef SN_STREAM_H
#define SN_STREAM_H

#include "sennit/actor.h"
#include "sennit/meter.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a stream to the actor that declared `service` on `agent` (site/agent, not this one). The
 * agent need not be connected now: the host waits at most timeout_ms for its session and its
 * answer. `meta` (at most SN_STREAM_META_BYTES_MAX) is copied and handed to that actor. `token`
 * comes back in STREAM_UP and STREAM_DOWN. The error in STREAM_DOWN: what the other side gave to
 * sn_stream_reset; ETIMEDOUT; ENOENT (no such service there); ECANCELLED (that agent drains); or
 * why the session was lost for good. Errors: EINVAL (service), ETOOBIG (service, meta), ENOENT (no
 * such agent is known), ENOMEM, ECANCELLED (this agent is about to end). */
static inline SN_MUST_CHECK enum sn_err sn_stream_open(struct sn_ctx *ctx, const char *agent,
                                                       const char *service, const void *meta,
                                                       uint32_t meta_size, uint64_t timeout_ms,
                                                       uint64_t token,
                                                       struct sn_stream_ref *out_stream)
{
    return ctx->host->stream_open(ctx, agent, service, meta, meta_size, timeout_ms, token,
                                  out_stream);
}

/* Accepts a stream that STREAM_ASKED announced; `token` comes back in STREAM_DOWN. That it went
 * down meanwhile is no error. Errors: EINVAL (not a stream), ENOMEM. */
static inline SN_MUST_CHECK enum sn_err sn_stream_accept(struct sn_ctx *ctx,
                                                         struct sn_stream_ref stream,
                                                         uint64_t token)
{
    return ctx->host->stream_accept(ctx, stream, token);
}

/* Joins a connection of this actor to a stream that it opened (no need to wait for STREAM_UP) or
 * accepted; a second one is reset. The connection is taken on SN_OK: `conn` means nothing any more,
 * and the host closes it with the stream, at once if that is gone. A failure of one resets the
 * other. STREAM_DOWN tells how many bytes were moved. On failure the caller still has both. Errors:
 * EINVAL (not a stream), ENOENT (the connection is gone, or another actor's), ESTATE (the stream is
 * delivered), ENOMEM. */
static inline SN_MUST_CHECK enum sn_err sn_stream_splice(struct sn_ctx *ctx,
                                                         struct sn_stream_ref stream,
                                                         struct sn_conn_ref conn)
{
    return ctx->host->stream_splice(ctx, stream, conn);
}

/* From now on the actor handles the bytes of a stream that it opened (no need to wait for STREAM_UP)
 * or was asked for (they come after sn_stream_accept). That it went down meanwhile is no error; a
 * stream that is spliced ends with ESTATE. Errors: EINVAL (not a stream), ESTATE (it is delivered
 * already), ENOMEM. */
static inline SN_MUST_CHECK enum sn_err sn_stream_deliver(struct sn_ctx *ctx,
                                                          struct sn_stream_ref stream)
{
    return ctx->host->stream_deliver(ctx, stream);
}

/* Gives the peer credit for `bytes` more, of those that READABLE events have told. Whoever never
 * does so gets a window and no more. Errors, which change nothing: EINVAL (more than was told and
 * not consumed), ENOENT (it is gone, or not delivered). */
static inline SN_MUST_CHECK enum sn_err sn_stream_consume(struct sn_ctx *ctx,
                                                          struct sn_stream_ref stream,
                                                          uint64_t bytes)
{
    return ctx->host->stream_consume(ctx, stream, bytes);
}

/* Sends a piece of at most SN_SLAB_BYTES_MAX, behind those sent before; no need to wait for
 * STREAM_UP. *piece is taken and nulled on SN_OK; its bytes must not change any more. That the peer
 * has them all only STREAM_DOWN with SN_OK tells. Errors: EAGAIN (SN_STREAM_QUEUED_BYTES wait here
 * for the stream, where a piece counts as at least 1 KiB: all writes say so until exactly one
 * SN_EVENT_STREAM_WRITABLE comes, or STREAM_DOWN, when half of them or less are left), ESTATE (after
 * sn_stream_end), EINVAL (piece), ENOENT (it is gone, or not delivered), ENOMEM. */
static inline SN_MUST_CHECK enum sn_err sn_stream_write(struct sn_ctx *ctx,
                                                        struct sn_stream_ref stream,
                                                        struct sn_buf *piece)
{
    return ctx->host->stream_write(ctx, stream, piece);
}

/* No more bytes from this side, behind those that were written (half-close). Errors: ENOENT (it is
 * gone, or not delivered). To do it twice is no error. */
static inline SN_MUST_CHECK enum sn_err sn_stream_end(struct sn_ctx *ctx,
                                                      struct sn_stream_ref stream)
{
    return ctx->host->stream_end(ctx, stream);
}

/* Sets all options (struct sn_stream_options in sennit/actor.h) of a stream that the actor opened or was asked for;
 * may be repeated. That the stream went down meanwhile is no error. Errors: EINVAL (not a stream), ENOMEM. */
static inline SN_MUST_CHECK enum sn_err sn_stream_tune(struct sn_ctx *ctx,
                                                       struct sn_stream_ref stream,
                                                       const struct sn_stream_options *options)
{
    return ctx->host->stream_tune(ctx, stream, options);
}

/* Ends the stream at once, in both directions; the other side sees `err` (not SN_OK), and a spliced
 * connection is reset. Harmless when the stream is gone. */
static inline void sn_stream_reset(struct sn_ctx *ctx, struct sn_stream_ref stream, enum sn_err err)
{
    ctx->host->stream_reset(ctx, stream, (uint32_t)err);
}

/* Nonzero when `agent` matches `pattern`: site/agent, a whole site, everybody, or role:NAME for
 * agents whose certificate carries that role. Name and roles are those that the agent proved; the
 * roles are known as of the last stream that it opened to an actor here, and none before. Anything
 * else matches nobody. */
static inline int sn_agent_matches(struct sn_ctx *ctx, const char *agent, const char *pattern)
{
    return ctx->host->agent_matches(ctx, agent, pattern);
}

#ifdef __cplusplus
}
#endif
#endif
