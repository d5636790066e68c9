/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local network connections of actors: listening and dialing over TCP.
 *
 * A connection belongs to the actor from its event (SN_EVENT_CONN_ACCEPTED, SN_EVENT_CONN_DIALED)
 * until sn_conn_close, or until a stream takes it (sn_stream_splice in sennit/stream.h). Nothing is
 * read from it before that: what the other side says first waits in the socket buffers. When the
 * actor fails, the host closes all that it holds.
 *
 * Threads: from inside a handler call only. Blocking: no.
 */
#ifndef SN_IO_H
#define SN_IO_H

#include "sennit/actor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Room for any bound address with its NUL: "[ipv6]:port". */
#define SN_BOUND_BYTES_MAX 64

/* Listens on host:port; the host is an IP address of this machine, or localhost; port 0 lets the
 * system choose. Each connection comes as SN_EVENT_CONN_ACCEPTED with `token`, also when
 * descriptors were short for a while. out_bound gets the address in use as text (SN_BOUND_BYTES_MAX
 * is always enough); NULL with 0 is fine. Errors: EINVAL (the address), EINUSE, EPERM (a privileged
 * port), EUNREACHABLE (not an address of this machine), ENOSPC (descriptors), ETOOBIG
 * (bound_capacity), ENOMEM, ECANCELLED (the agent drains). */
static inline SN_MUST_CHECK enum sn_err sn_listen(struct sn_ctx *ctx, const char *address,
                                                  uint64_t token,
                                                  struct sn_listener_ref *out_listener,
                                                  char *out_bound, uint32_t bound_capacity)
{
    return ctx->host->listen(ctx, address, token, out_listener, out_bound, bound_capacity);
}

/* Stops listening. Connections that were accepted before are still announced. Harmless when it is
 * gone. */
static inline void sn_listener_close(struct sn_ctx *ctx, struct sn_listener_ref listener)
{
    ctx->host->listener_close(ctx, listener);
}

/* Connects to host:port; names are resolved, and their addresses tried one after the other. On
 * SN_OK exactly one SN_EVENT_CONN_DIALED with `token` follows, after timeout_ms at the latest: with
 * a connection, or with EUNREACHABLE, ETIMEDOUT, ERESET, ENOENT (no such host) or another error. A
 * dial cannot be taken back: close a connection that comes too late. Errors: EINVAL (the address),
 * EFULL (too many connections, or names to resolve), ENOMEM. */
static inline SN_MUST_CHECK enum sn_err sn_dial(struct sn_ctx *ctx, const char *address,
                                                uint64_t timeout_ms, uint64_t token)
{
    return ctx->host->dial(ctx, address, timeout_ms, token);
}

/* Closes a connection; with is_reset the other side sees a reset rather than an end. Harmless when
 * it is gone. */
static inline void sn_conn_close(struct sn_ctx *ctx, struct sn_conn_ref conn, int is_reset)
{
    ctx->host->conn_close(ctx, conn, is_reset != 0);
}

#ifdef __cplusplus
}
#endif
#endif
