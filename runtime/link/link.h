/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link carries parcels (whole byte messages up to SN_PARCEL_BYTES_MAX) between two agents for the length of
 * one session: one socket per class, each joined to a control-class stream of the session's mux. link_nng.c is
 * the real one (nng PAIR v1 sockets over ipc:// inside the run directory, spliced onto the stream); a
 * simulated one comes behind the same vtable, and all pass tests/conformance/link_suite.h.
 *
 * Guarantees: parcels of a class arrive whole and in order, or the link goes down; after sn_link_close and
 * `closed` nothing of it is left (threads, descriptors, files); counters equal nng's own at a clean close.
 * Threads: a link belongs to one worker; callbacks come there. Blocking: no.
 */
#ifndef SN_LINK_LINK_H
#define SN_LINK_LINK_H

#include "actor/worker.h"
#include "sennit/buf.h"
#include "stream/mux.h"

enum sn_class { SN_CLASS_CONTROL = 0, SN_CLASS_APPLICATION = 1, SN_CLASS_COUNT = 2 };

struct sn_link;

struct sn_link_ops_user {
    /* A parcel arrived; the bytes are borrowed until return. May be modified in place. */
    void (*parcel)(void *user, enum sn_class class_id, uint8_t *bytes, uint32_t size);
    /* sn_link_send said EAGAIN and has room again. */
    void (*writable)(void *user, enum sn_class class_id);
    /* The link broke (its stream ended, the peer's framing was wrong, nng failed). Once. The user closes. */
    void (*down)(void *user, enum sn_err reason);
    /* After sn_link_close: everything is released; the link is freed after return. */
    void (*closed)(void *user);
};

struct sn_link_stats {
    uint64_t sent, received;         /* parcels given to, taken from the sockets */
    uint64_t nng_sent, nng_received; /* nng's own socket counters: see sn_link_stats */
    uint64_t pump_out, pump_in;      /* whole SP messages the pump moved to, from the stream */
    uint8_t states[SN_CLASS_COUNT];  /* of the provider's own machine, for diagnosis */
};

struct sn_link_config {
    struct sn_env *env;
    struct sn_worker *worker;
    const char *run_folder; /* 0700; where the ipc sockets live for a moment */
    const struct sn_link_ops_user *ops;
    void *user;
    /* One stream per class, open on both ends; the link takes them (frees them at the end). */
    struct sn_stream *streams[SN_CLASS_COUNT];
};

struct sn_link_provider {
    const char *name; /* "nng" */
    enum sn_err (*open)(const struct sn_link_config *config, struct sn_link **out_link);
    enum sn_err (*send)(struct sn_link *link, enum sn_class class_id, const void *bytes,
                        uint32_t size);
    void (*pause)(struct sn_link *link, int is_paused);
    void (*close)(struct sn_link *link);
    void (*stats)(struct sn_link *link, int with_nng, struct sn_link_stats *out_stats);
};

struct sn_link {
    const struct sn_link_provider *provider;
};

/* Streams are taken on SN_OK only. Errors: ENOENT, EPERM (the run folder), ENOMEM, EIO, ENOSPC,
 * ENOFILES. */
SN_MUST_CHECK enum sn_err sn_link_open(const struct sn_link_provider *provider,
                                       const struct sn_link_config *config,
                                       struct sn_link **out_link);
/* Copies the bytes (at least one). Errors: EAGAIN (`writable` follows), ECLOSED (down or closing), ETOOBIG,
 * ENOMEM. */
SN_MUST_CHECK enum sn_err sn_link_send(struct sn_link *link, enum sn_class class_id,
                                       const void *bytes, uint32_t size);
/* While paused no `parcel` comes; what is under way is kept, bounded, and back-pressure reaches the peer. */
void sn_link_pause(struct sn_link *link, int is_paused);
/* Starts the closing order of DESIGN section 7; `closed` comes later on the worker. After this call no other
 * callback comes. The streams may be dead already. */
void sn_link_close(struct sn_link *link);
/* with_nng asks nng for its counters of a living link, for which it walks all its sockets: for diagnosis only. Without
 * it, and before the close, nng_sent and nng_received are zero. */
void sn_link_stats(struct sn_link *link, int with_nng, struct sn_link_stats *out_stats);

#endif
