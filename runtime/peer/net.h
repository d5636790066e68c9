/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The net: this agent's peers, sessions, streams and local connections; everything between actors and carriers.
 *
 * Each peer belongs to one worker: its lanes, mux, link and delivery are touched there only. A peer, once known,
 * stays until the net is freed, so that pointers to it may be kept by every worker.
 * Threads: as said at each call; "home" is worker 0, where listeners live. Blocking: no.
 */
#ifndef SN_PEER_NET_H
#define SN_PEER_NET_H

#include "actor/system.h"
#include "crypto/tls_identity.h"
#include "delivery/delivery.h"
#include "link/link.h"
#include "mesh/access.h"
#include "peer/channel.h"

struct sn_net;

#define SN_LINK_ADDRESSES_MAX 8u

/* A peer that this agent dials. */
struct sn_net_link {
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];
    uint8_t has_key; /* pinned */
    struct sn_key_id key;
    uint32_t address_count;
    struct sn_endpoint addresses[SN_LINK_ADDRESSES_MAX];
};

struct sn_net_config {
    struct sn_env *env;
    void *owner;         /* handed back by sn_net_owner */
    struct sn_self self; /* pointers in it are borrowed for the net's life, like all below */
    const struct sn_trust *trust;
    const struct sn_tls_identity *identity;
    const struct sn_access *access; /* until sn_net_reload gives others */
    const struct sn_link_provider *link_provider;
    const char *run_folder;
    const struct sn_net_link *links;
    uint32_t link_count;
    uint32_t handshakes_max;
    uint32_t handshakes_per_address_max;
    uint32_t reconnect_min_ms;
    uint32_t reconnect_max_ms;
    uint32_t
        resume_ms; /* a stream whose connection was lost waits so long for the next; 0 = it ends */
    uint64_t memory_bytes; /* of stream windows */
};

/* Registers the metrics of this module. Before the system starts. */
SN_MUST_CHECK enum sn_err sn_net_new(const struct sn_net_config *config, struct sn_metrics *metrics,
                                     struct sn_net **out_net);
/* Joins the net to its actor system (which was made with sn_net_remote and friends). Before it starts. */
SN_MUST_CHECK enum sn_err sn_net_attach(struct sn_net *net, struct sn_system *system);
/* Binds a listener. Before the system starts. out_bound tells the port. Errors: EINUSE, EPERM, EUNREACHABLE. */
SN_MUST_CHECK enum sn_err sn_net_listen(struct sn_net *net, const struct sn_netaddr *addr,
                                        struct sn_netaddr *out_bound);
/* Starts dialing. Any thread, once. */
void sn_net_start(struct sn_net *net);
/* Replaces access rules, links and the TLS identity (of the same key) of a net that runs. */
struct sn_net_changes {
    const struct sn_access *access;  /* borrowed from now on */
    const struct sn_net_link *links; /* copied */
    uint32_t link_count;
    const struct sn_tls_identity *identity; /* borrowed likewise; NULL: it stays */
};
/* On home. done comes there when all workers use the new ones: the former may be freed then, not before. Errors change
 * nothing: ESTATE (one is under way, or the net drains), EFULL (peers), ENOMEM. */
SN_MUST_CHECK enum sn_err sn_net_reload(struct sn_net *net, const struct sn_net_changes *changes,
                                        void (*done)(void *arg), void *arg);
/* Stops accepting and dialing, waits until nothing is queued, in flight or open, then says goodbye to all peers and
 * calls done on home. Any thread, once. `force` (sn_net_finish) goes on at once. */
void sn_net_drain(struct sn_net *net, void (*done)(void *arg), void *arg);
void sn_net_finish(struct sn_net *net);
/* After the system was stopped, before it is freed. */
void sn_net_free(struct sn_net *net);

/* Hooks of struct sn_system_config; arg is the net. */
enum sn_err sn_net_remote(void *arg, struct sn_letter *letter);
void sn_net_actor_failed(void *arg, struct sn_actor_ref actor);

/* --- Host functions (streams and connections of actors): see sennit/stream.h, sennit/io.h ---------- */

/* The net that is the `arg` of the system's configuration. */
struct sn_net *sn_net_of(struct sn_system *system);
void *sn_net_owner(struct sn_net *net);
struct sn_system *sn_net_system(struct sn_net *net);
enum sn_err sn_net_ctx_listen(struct sn_ctx *ctx, const char *address, uint64_t token,
                              struct sn_listener_ref *out_listener, char *out_bound,
                              uint32_t bound_capacity);
void sn_net_ctx_listener_close(struct sn_ctx *ctx, struct sn_listener_ref listener);
enum sn_err sn_net_ctx_dial(struct sn_ctx *ctx, const char *address, uint64_t timeout_ms,
                            uint64_t token);
void sn_net_ctx_conn_close(struct sn_ctx *ctx, struct sn_conn_ref conn, uint32_t is_reset);
enum sn_err sn_net_ctx_stream_open(struct sn_ctx *ctx, const char *agent, const char *service,
                                   const void *meta, uint32_t meta_size, uint64_t timeout_ms,
                                   uint64_t token, struct sn_stream_ref *out_stream);
enum sn_err sn_net_ctx_stream_accept(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                     uint64_t token);
enum sn_err sn_net_ctx_stream_splice(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                     struct sn_conn_ref conn);
enum sn_err sn_net_ctx_stream_deliver(struct sn_ctx *ctx, struct sn_stream_ref stream);
enum sn_err sn_net_ctx_stream_consume(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                      uint64_t bytes);
enum sn_err sn_net_ctx_stream_write(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                    struct sn_buf *piece);
enum sn_err sn_net_ctx_stream_end(struct sn_ctx *ctx, struct sn_stream_ref stream);
enum sn_err sn_net_ctx_stream_tune(struct sn_ctx *ctx, struct sn_stream_ref stream,
                                   const struct sn_stream_options *options);
void sn_net_ctx_stream_reset(struct sn_ctx *ctx, struct sn_stream_ref stream, uint32_t err);
int sn_net_ctx_agent_matches(struct sn_ctx *ctx, const char *agent, const char *pattern);

/* --- For the control socket -------------------------------------------------------------------------- */

enum sn_peer_state { SN_PEER_DOWN, SN_PEER_CONNECTING, SN_PEER_UP };

/* How the last attempt to connect went wrong. */
struct sn_peer_fault {
    enum sn_err err;     /* SN_OK: none did since it was up; ENOENT: its name cannot be resolved */
    uint8_t is_refusal;  /* this agent refused what answered */
    uint8_t was_refused; /* the peer refused this agent; `err` is why, as far as it says */
    uint8_t has_key;     /* `key` is what the other side presented */
    struct sn_key_id key;
    char agent[SN_AGENT_NAME_BYTES_MAX + 1]; /* whom it claims to be; may be empty */
};

/* How the last session ended. */
struct sn_peer_end {
    enum sn_err err;
    uint8_t is_goodbye; /* one of both said that it leaves */
    uint64_t at_ns;     /* 0: none has ended yet */
    char detail[128];
};

/* The last message that the peer did not take. */
struct sn_peer_undelivered {
    enum sn_reason reason; /* SN_REASON_NONE: none, or one like it was delivered since */
    uint64_t at_ns;
    char actor[SN_LABEL_BYTES_MAX + 1];
    char type[SN_TYPE_BYTES_MAX + 1];
};

struct sn_peer_info {
    const char *agent; /* lives as long as the net */
    uint64_t now_ns;   /* of its worker */
    uint8_t is_linked; /* this agent dials it */
    /* Borrowed until return, as the next three. The address of the last attempt, "" = none. */
    const char *dialed;
    const struct sn_peer_fault *fault;
    const struct sn_peer_end *end;
    const struct sn_peer_undelivered *undelivered;
    uint64_t attempts;   /* since it was up */
    uint64_t next_at_ns; /* of the next attempt; 0 = none is planned */
    uint64_t heard_ns;   /* when it answered last; 0 = never */
    uint64_t oldest_ns;  /* since when the first of the messages for it has waited; 0 = none does */
    uint64_t queued_bytes;
    uint8_t has_id;
    struct sn_key_id id;
    enum sn_peer_state state;
    uint64_t since_ms; /* how long it has been in this state */
    uint64_t rtt_us;
    int64_t clock_offset_ms; /* theirs minus ours, as of the last handshake */
    uint64_t sessions;       /* that came up so far */
    char remote[SN_NETADDR_TEXT_MAX];
    char reason[160]; /* of the last failure, "" when up or never tried */
    struct sn_ledger ledger;
    struct sn_delivery_stats delivery;
    struct sn_link_stats link;   /* of all sessions together */
    struct sn_mux_stats streams; /* of the present boot of the peer */
};

struct sn_flow_info {
    uint64_t id;
    const char *agent;
    const char *service;
    const char *owner; /* actor */
    uint8_t is_local;
    uint8_t is_accepted;
    uint8_t is_orphan; /* waits for a new connection */
    uint64_t sent_bytes, received_bytes, age_ms;
    uint32_t retained_bytes;
};

/* Visits, on each worker in turn, every peer and every open stream of that worker; then calls done on the worker that
 * `from` is. Visitors run on different workers one after the other, never at once. Errors: ENOMEM. */
struct sn_tour_ops {
    void (*peer)(void *arg, const struct sn_peer_info *info);
    void (*flow)(void *arg, const struct sn_flow_info *info);
    void (*done)(void *arg);
    int with_nng; /* ask nng for its own counters too, which costs time: see sn_link_stats */
};
SN_MUST_CHECK enum sn_err sn_net_tour(struct sn_net *net, struct sn_worker *from,
                                      const struct sn_tour_ops *ops, void *arg);

/* Agents that were refused lately, newest first. */
struct sn_refused_info {
    char agent[SN_AGENT_NAME_BYTES_MAX + 1]; /* claimed, may be empty */
    uint8_t has_key;
    struct sn_key_id key;
    enum sn_err err;
    char remote[SN_NETADDR_TEXT_MAX];
    char reason[160];
    uint64_t at_ns;
    uint64_t count; /* of refusals with the same key and error */
};
/* Runs `visit` for each on home, then done there. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sn_net_refused(struct sn_net *net,
                                         void (*visit)(void *arg,
                                                       const struct sn_refused_info *info),
                                         void (*done)(void *arg), void *arg);

#endif
