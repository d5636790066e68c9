/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the net: net.c (registry, arrivals), peer.c (one peer: letters), dial.c, session.c (one session),
 * flow.c, splice.c, delivered.c and conn.c (streams and connections of actors), tour.c (views), drain.c, reload.c.
 *
 * Everything in struct sn_peer below the line "own worker" is touched by that worker only.
 */
#ifndef SN_PEER_PEER_INT_H
#define SN_PEER_PEER_INT_H

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/map.h"
#include "log/log.h"
#include "peer/net.h"

#define SNI_PEER_MAGIC     SN_MAGIC('P', 'E', 'E', 'R')
#define SNI_BULK_LANE      1u
#define SNI_CANDIDATES_MAX 8u /* inbound handshakes of one member at once */
#define SNI_DIALS_MAX      4u /* attempts at once, while it is urgent */
#define SNI_LINK_SERVICE   "link"

struct sn_peer;

/* Metrics of this module, in the order of the table in net.c. */
enum sni_net_metric {
    SNI_NET_SESSIONS,
    SNI_NET_REFUSED,
    SNI_NET_SHED,
    SNI_NET_DIAL_FAILURES,
    SNI_NET_DENIED,
    SNI_NET_PARCELS_REFUSED,
    SNI_NET_STREAMS_OPENED,
    SNI_NET_STREAMS_FAILED,
    SNI_NET_STREAMS_RESUMED,
    SNI_NET_CONNS_ACCEPTED,
    SNI_NET_CONNS_DIALED,
    SNI_NET_HANDSHAKES,
    SNI_NET_HANDSHAKES_FAILED
};

/* A mux and who holds it: the peer (for the present boot) and each session that still closes its link. */
struct sni_assoc {
    struct sn_mux *mux;
    uint32_t refs;
    uint64_t epoch;
    uint8_t boot_public[32];
};

struct sni_session {
    struct sn_list node; /* in hub->sessions */
    struct sn_peer *peer;
    struct sni_assoc *assoc;
    uint64_t id;
    struct sn_channel *control;
    struct sn_channel *bulk;           /* NULL until it is up */
    struct sn_channel *bulk_candidate; /* being dialed, or accepted and not ready */
    struct sn_link *link;
    struct sn_stream *link_streams[SN_CLASS_COUNT]; /* until both are there */
    struct sn_task doom_task; /* closes the session outside of the callback that found the cause */
    uint8_t is_doomed;
    uint8_t is_closing;
    uint8_t is_final; /* the peer said goodbye: its streams will not come back */
    enum sn_err doom_err;
    uint64_t up_since_ns;
};

/* A peer's place in one worker's table of names. */
struct sni_peer_entry {
    struct sn_task task;
    struct sn_map_entry by_name;
    struct sn_peer *peer;
};

struct sn_peer {
    uint32_t magic;
    uint32_t index;
    char name[SN_AGENT_NAME_BYTES_MAX + 1];
    struct sn_net *net;
    struct sni_hub *hub;
    struct sn_worker *worker;

    /* Home only. */
    struct sn_map_entry by_name;
    struct sni_peer_entry *entries; /* one a worker */
    struct sn_list arrivals;        /* lanes that wait until every worker knows the peer */
    struct sn_task known_task;
    uint8_t is_known;
    _Atomic uint32_t unknown_to; /* workers that still have to learn; the last one tells home */

    /* Any worker: what senders reserve before a letter travels here, and what was accepted. Partner: outcomes. */
    _Atomic uint64_t queued_bytes[SN_CLASS_COUNT];
    _Atomic uint32_t queued_letters[SN_CLASS_COUNT];
    _Atomic uint64_t accepted;

    /* Own worker. */
    struct sn_list node;      /* in hub->peers */
    struct sn_net_link *link; /* NULL: we never dial it */
    uint8_t has_id;
    uint8_t is_closing; /* the net drains: no new session */
    struct sn_key_id id;
    struct sn_cert cert; /* of the last handshake: roles */
    uint64_t highest_epoch;
    int64_t clock_offset_ms;
    struct sn_delivery *delivery;
    uint64_t arrived;          /* accepted letters that came here */
    struct sn_ledger outcomes; /* told so far, whatever boot or key of the peer; queued stays 0 */
    struct sn_io flusher;
    struct sn_timer delivery_timer;
    uint8_t is_blocked[SN_CLASS_COUNT];                /* the link is full */
    struct sn_buf pending[SN_CLASS_COUNT];             /* a parcel the link did not take */
    struct sn_link_stats past_links;                   /* of sessions that are over */
    struct sn_channel *dials[SNI_DIALS_MAX];           /* attempts under way */
    struct sn_channel *candidates[SNI_CANDIDATES_MAX]; /* inbound, not chosen yet */
    struct sn_channel *chosen;     /* accepted, not up yet; may also be in `dials` or a candidate */
    struct sn_channel *challenger; /* waits whether the present session answers */
    struct sn_timer challenge_timer;
    struct sni_session *session;
    struct sni_assoc *assoc;
    struct sn_timer redial_timer;
    struct sn_timer orphan_timer; /* runs while streams wait for a new connection */
    uint8_t is_suspect;           /* the session is silent: rivals are dialed */
    uint8_t is_moving;            /* the session is to be replaced by one at another address */
    uint32_t attempts;            /* since the last good session */
    enum sn_err link_err;         /* why its last link could not be opened; told once */
    uint8_t is_resolving;
    uint8_t was_told; /* the last dial failure was logged already */
    enum sn_peer_state state;
    uint64_t since_ns;
    uint64_t sessions;
    char reason[160];
    char dialed[264];  /* address of the last attempt: a host and a port */
    uint64_t tries;    /* since it was up */
    uint64_t heard_ns; /* when it answered last */
    struct sn_peer_fault fault;
    struct sn_peer_end end;
    struct sn_peer_undelivered undelivered;
    struct sn_list flows;
};

/* What one worker holds. */
struct sni_hub {
    struct sn_net *net;
    struct sn_worker *worker;
    uint32_t index;
    const struct sn_access *access;
    struct sn_map names;     /* of all peers */
    struct sn_list peers;    /* of this worker */
    struct sn_list sessions; /* alive or closing */
    uint32_t session_count;
    uint8_t *parcel;     /* scratch of SN_PARCEL_BYTES_MAX */
    struct sn_map flows; /* by id */
    uint64_t flow_counter;
    uint32_t flow_count;
    struct sn_list conns; /* connections of actors of this worker */
    struct sn_map conn_ids;
    struct sn_list listeners;
    uint64_t conn_counter;
    struct sn_list queries; /* of the name service, see query.h */
    struct sn_buf scratch;  /* reads of spliced sockets land here first */
    struct sn_map origins;  /* roles of agents that opened streams to actors of this worker */
    struct sn_map taps;     /* of actors of this worker: see delivered.c */
    /* How often each actor of this worker has failed, which is its incarnation. Partner: flow.c on any worker. */
    _Atomic uint32_t incarnations[SN_ACTORS_MAX];
    struct sn_task sweep_task;   /* ends the flows of failed actors */
    _Atomic uint8_t is_sweeping; /* the task is posted. Partner: whoever sets it first posts */
    struct sn_task start_task;
    struct sn_task drain_task;
    struct sn_timer trim_timer; /* runs for a while after a session ended */
};

struct sn_net {
    uint32_t magic;
    struct sn_net_config config;
    struct sn_system *system;
    struct sn_metrics *metrics;
    uint32_t metric_base;
    struct sn_carrier *carrier;
    struct sn_listener *listeners[16];
    uint32_t listener_count;
    struct sni_hub *hubs;
    uint32_t hub_count;
    struct sn_budget *budget;
    struct sn_map peers; /* home, or before the start */
    uint32_t peer_count;
    struct sn_list arrivals;                        /* home: lanes whose handshake is under way */
    struct sn_refused_info refused[SN_REFUSED_MAX]; /* home; newest at refused_next - 1 */
    uint32_t refused_count;
    uint32_t refused_next;
    _Atomic uint8_t is_draining;
    struct sni_drain *drain;
    struct sni_reload *reload; /* while one is under way */
};

/* net.c */
struct sni_hub *sni_net_hub(struct sn_net *net, const struct sn_worker *worker);
/* session.c: memory of ended sessions goes back to the system a while after the last of them. */
void sni_hub_trim_init(struct sni_hub *hub);
void sni_net_metric(struct sni_hub *hub, enum sni_net_metric metric);
struct sn_logger *sni_hub_logger(struct sni_hub *hub);
struct sn_peer *sni_hub_find(struct sni_hub *hub, const char *agent);
/* Home, or before the start. A new peer is known to home only, until it is announced to all workers. */
struct sn_peer *sni_net_find_peer(struct sn_net *net, const char *name);
enum sn_err sni_net_add_peer(struct sn_net *net, const char *name, struct sn_peer **out_peer);
void sni_net_announce(struct sn_peer *peer);
/* Remembers and logs a refusal. Any worker. */
void sni_net_refuse(struct sni_hub *hub, const struct sn_lane_failure *failure);

/* peer.c: own worker. */
enum sn_err sni_peer_new(struct sn_net *net, const char *name, struct sn_peer **out_peer);
/* Before the start: copies the link. */
enum sn_err sni_peer_set_link(struct sn_peer *peer, const struct sn_net_link *link);
void sni_peer_free(struct sn_peer *peer);
void sni_peer_start(struct sn_peer *peer);
void sni_peer_arrive(struct sn_peer *peer, struct sn_lane *lane);
void sni_peer_enqueue(struct sn_peer *peer, struct sn_letter *letter);
void sni_peer_flush(struct sn_peer *peer); /* soon */
void sni_peer_set_state(struct sn_peer *peer, enum sn_peer_state state, const char *reason);
enum sn_err sni_peer_identify(struct sn_peer *peer, const struct sn_channel *channel);
/* No new session; ends the present one: politely, or at once. */
void sni_peer_close(struct sn_peer *peer, int is_polite);
extern const struct sn_channel_ops sni_candidate_ops;

/* orphan.c: own worker. Streams without a connection: their time begins; they found one; it is over. */
void sni_orphans_init(struct sn_peer *peer);
void sni_orphans_wait(struct sn_peer *peer);
void sni_orphans_resume(struct sn_peer *peer);
void sni_orphans_close(struct sn_peer *peer, enum sn_err reason);

/* dial.c: own worker. */
void sni_dial_timer(struct sn_timer *timer, struct sn_worker *worker);
/* Dials again after the delay that is due. */
void sni_peer_redial(struct sn_peer *peer);
/* Notes and logs why an attempt failed, and redials. */
void sni_dial_failed(struct sn_peer *peer, const struct sn_peer_fault *fault, const char *reason);
/* Where the channel stands among the attempts (NULL: a free place); NULL when it is none. */
struct sn_channel **sni_dial_slot(struct sn_peer *peer, const struct sn_channel *channel);
void sni_dials_drop(struct sn_peer *peer, const struct sn_channel *except);
/* A stream waits for the peer: do not sleep long. */
void sni_peer_urge(struct sn_peer *peer);
/* The session is silent; it has answered. */
void sni_peer_suspect(struct sn_peer *peer);
void sni_peer_trust(struct sn_peer *peer);
/* The link has changed: whatever was dialed for the former one is dropped. */
void sni_peer_stay(struct sn_peer *peer);
/* The session stands on an address that the link does not name any more: dial the new one; it takes over. */
void sni_peer_move(struct sn_peer *peer);

/* choice.c: which of several channels becomes the session. */
void sni_choice_proven(struct sn_peer *peer, struct sn_channel *channel);
void sni_choice_answered(struct sn_peer *peer);
void sni_choice_incumbent_gone(struct sn_peer *peer);
void sni_choice_forget(struct sn_peer *peer, struct sn_channel *channel);
void sni_choice_init(struct sn_peer *peer);

/* session.c */
enum sn_err sni_session_begin(struct sn_peer *peer, struct sn_channel *control);
/* Nonzero when the channel is the bulk channel that this session (may be NULL) accepted or dialed. */
int sni_session_awaits(const struct sni_session *session, const struct sn_channel *channel);
void sni_session_bulk_up(struct sni_session *session, struct sn_channel *bulk);
void sni_link_stats_add(struct sn_link_stats *sum, const struct sn_link_stats *more);
void sni_session_close(struct sni_session *session, enum sn_err err, const char *detail);
void sni_session_bulk_failed(struct sni_session *session, const struct sn_lane_failure *failure);
/* assoc.c */
struct sni_assoc *sni_assoc_ref(struct sni_assoc *assoc);
void sni_assoc_unref(struct sni_assoc *assoc);
extern const struct sn_channel_ops sni_session_ops;

/* flow.c */
void sni_flow_opened(struct sn_peer *peer, struct sn_stream *stream, const char *service,
                     const uint8_t *meta, uint32_t meta_size);
void sni_flows_session_up(struct sn_peer *peer);
/* Ends what waits for a session. */
void sni_flows_give_up(struct sn_peer *peer);
void sni_flows_actor_failed(struct sni_hub *hub, struct sn_actor_ref actor);
void sni_flows_visit(struct sni_hub *hub, void (*visit)(void *arg, const struct sn_flow_info *info),
                     void *arg);
void sni_flows_free(struct sni_hub *hub);

/* conn.c */
struct sni_conn;
/* Takes the socket out of a connection that belongs to the actor; the connection is gone. */
enum sn_err sni_conn_take(struct sni_hub *hub, struct sn_conn_ref ref, struct sn_actor_ref owner,
                          struct sn_sock *out_sock);
void sni_conns_actor_failed(struct sni_hub *hub, struct sn_actor_ref actor);
void sni_conns_free(struct sni_hub *hub);
void sni_listeners_close(struct sni_hub *hub);

/* drain.c: made with the net, so that draining cannot fail for lack of memory. */
enum sn_err sni_drain_new(struct sn_net *net);
void sni_drain_free(struct sn_net *net);

/* reload.c */
void sni_reload_free(struct sn_net *net);

#endif
