/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: one lane in the service of a session. It runs the handshake of hello.h, frames, heartbeats, and moves
 * stream frames between the lane and the session's mux.
 *
 * States:  opening --lane opened--> greeting --HELLO--> proving --AUTH ok--> proven --accepted, READY--> up
 *          any --failure, REFUSE, GOODBYE--> down (one `down` call, then the owner frees it)
 * Threads: belongs to one worker. Blocking: no.
 */
#ifndef SN_PEER_CHANNEL_H
#define SN_PEER_CHANNEL_H

#include "carrier/carrier.h"
#include "crypto/seal.h"
#include "peer/hello.h"
#include "stream/mux.h"

struct sn_channel;

#define SN_CHANNEL_SILENT_NS (1500 * SN_MS)

/* This agent's side of every handshake; borrowed for the life of all channels. */
struct sn_self {
    struct sn_env *env;
    const char *mesh;
    const char *agent;
    const struct sn_key *key;
    const struct sn_boot_key *boot_key;
    uint64_t epoch;
    uint32_t handshake_timeout_ms;
    uint32_t heartbeat_interval_ms;
    uint32_t heartbeat_deadline_ms;
};

struct sn_channel_ops {
    /* The other side proved itself (sn_channel_hello). Answer now or later with sn_channel_accept or
     * sn_channel_refuse. */
    void (*proven)(void *user, struct sn_channel *channel);
    /* Both sides said READY. */
    void (*up)(void *user, struct sn_channel *channel);
    /* A heartbeat was answered. */
    void (*answered)(void *user, struct sn_channel *channel, uint64_t rtt_ns);
    /* See sn_channel_is_silent; comes with each heartbeat. */
    void (*silent)(void *user, struct sn_channel *channel);
    /* The last call; free the channel in it or later. */
    void (*down)(void *user, struct sn_channel *channel, const struct sn_lane_failure *failure);
    /* A round of input was processed. */
    void (*input_done)(void *user, struct sn_channel *channel);
};

struct sn_channel_config {
    const struct sn_self *self;
    struct sn_worker *worker;
    const struct sn_channel_ops *ops;
    void *user;
    uint32_t lane_index; /* a dialer's; the listener learns it from HELLO */
    uint64_t session;    /* likewise */
};

/* Takes over an inbound lane that is open (attached to the worker). */
SN_MUST_CHECK enum sn_err sn_channel_adopt(const struct sn_channel_config *config,
                                           struct sn_lane *lane, struct sn_channel **out_channel);
SN_MUST_CHECK enum sn_err sn_channel_dial(const struct sn_channel_config *config,
                                          struct sn_carrier *carrier, const struct sn_dial *dial,
                                          struct sn_channel **out_channel);
/* Ends at once; no callback any more. Also allowed inside callbacks. */
void sn_channel_free(struct sn_channel *channel);

/* Sends READY. */
void sn_channel_accept(struct sn_channel *channel);
/* Sends REFUSE and closes; `down` follows with is_refusal set, unless the reason is ECANCELLED: nobody did wrong. */
void sn_channel_refuse(struct sn_channel *channel, const struct sn_refusal *refusal);
/* Sends GOODBYE and closes in order; `down` follows. */
void sn_channel_goodbye(struct sn_channel *channel);

/* Ends it now, for the cause that stands already, else `err`; `down` comes from inside. Not for
 * channels that are up. */
void sn_channel_abort(struct sn_channel *channel, enum sn_err err, const char *detail);

/* Joins the channel to the mux (its lane comes up there). The mux outlives the channel. */
void sn_channel_serve(struct sn_channel *channel, struct sn_mux *mux);
/* Asks the other side for a heartbeat now; `answered` or silence follows. */
void sn_channel_probe(struct sn_channel *channel);
/* The mux has frames for this lane. */
void sn_channel_kick(struct sn_channel *channel);

/* The other side's proven HELLO (valid from `proven`). */
const struct sn_hello *sn_channel_hello(const struct sn_channel *channel);
const struct sn_lane_peer *sn_channel_peer(const struct sn_channel *channel);
void sn_channel_set_user(struct sn_channel *channel, const struct sn_channel_ops *ops, void *user);
/* It has been refused, or says goodbye, and only its end is still to come. */
int sn_channel_is_closing(const struct sn_channel *channel);
/* When it was made. */
uint64_t sn_channel_since_ns(const struct sn_channel *channel);
uint32_t sn_channel_lane_index(const struct sn_channel *channel);
/* The session it starts (lane 0) or joins. */
uint64_t sn_channel_session(const struct sn_channel *channel);
int sn_channel_is_dialer(const struct sn_channel *channel);
int sn_channel_is_up(const struct sn_channel *channel);
const struct sn_netaddr *sn_channel_remote(const struct sn_channel *channel);
/* A heartbeat waits for its answer and nothing has arrived meanwhile, for SN_CHANNEL_SILENT_NS or longer. */
int sn_channel_is_silent(const struct sn_channel *channel);
/* 0 before the first answer. */
uint64_t sn_channel_rtt_ns(const struct sn_channel *channel);

#endif
