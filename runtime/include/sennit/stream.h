/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of actors: ordered bytes between an actor here and an actor of another agent, joined to a
 * local connection.
 *
 * Life of a stream. The side that opens it: sn_stream_open, then SN_EVENT_STREAM_UP at most once.
 * The other side: SN_EVENT_STREAM_ASKED, then sn_stream_accept or sn_stream_reset. On both sides
 * exactly one SN_EVENT_STREAM_DOWN ends it, whatever happened, also after the actor's own
 * sn_stream_reset; its token is 0 when the stream was asked for and not accepted. After STREAM_DOWN
 * the reference means nothing; calls that cross it on the way do no harm.
 *
 * The bytes never pass through the actor: sn_stream_splice gives a connection to the stream, and
 * the host moves bytes, half-closes and resets from one to the other until both directions have
 * ended.
 *
 * Threads: from inside a handler call only. Blocking: no. Not to be included together with the
 * runtime's own stream/mux.h, whose functions have the same names one layer below.
 */
#ifndef SN_STREAM_H
#define SN_STREAM_H

#include "sennit/actor.h"

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
 * accepted; once a stream. The connection is taken on SN_OK: `conn` means nothing any more, and the
 * host closes it with the stream, at once if that is gone. A failure of one resets the other.
 * STREAM_DOWN tells how many bytes were moved. On failure the caller still has both. Errors: EINVAL
 * (not a stream), ENOENT (the connection is gone, or another actor's), ENOMEM. */
static inline SN_MUST_CHECK enum sn_err sn_stream_splice(struct sn_ctx *ctx,
                                                         struct sn_stream_ref stream,
                                                         struct sn_conn_ref conn)
{
    return ctx->host->stream_splice(ctx, stream, conn);
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
