/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What flow.c, splice.c, delivered.c and conn.c need around them: a real environment with two workers, two actors on
 * different workers ("near" on 0, "far" on 1), and one net that is its own peer: streams opened to NEAR_PEER arrive
 * as streams from FAR_PEER, over two muxes joined in memory on worker 0. The test runs on its own thread: it makes
 * the actors do something with rig_call and waits for what they hear.
 */
#ifndef SN_TESTS_UNIT_PEER_FLOW_RIG_H
#define SN_TESTS_UNIT_PEER_FLOW_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "env/env_posix.h"
#include "peer/flow_int.h"
#include "unit/stream/joint.h"

#define assert_ok(call) assert_int_equal((call), SN_OK)

#define NEAR_PEER "site/far"  /* whom to open a stream to */
#define FAR_PEER  "site/near" /* whom it comes from */
#define SERVICE   "test"      /* of actor "far" */

#define RIG_EVENTS_MAX  4096u
#define RIG_PAYLOAD_MAX 64u

struct rig_event {
    struct sn_event event; /* pointers are not valid */
    char agent[64];
    char text[64];
    uint8_t payload[RIG_PAYLOAD_MAX];
};

/* Events of one actor that the test has not looked at. Written by its worker, read by the test. */
struct rig_log {
    struct rig_event events[RIG_EVENTS_MAX];
    _Atomic uint32_t written;
    uint8_t is_taken[RIG_EVENTS_MAX];
};

struct rig {
    struct sn_env *env;
    struct sn_metrics *metrics;
    struct sn_system *system;
    struct sn_net net;
    struct sn_peer peers[2]; /* 0 = NEAR_PEER, of mux 0; 1 = FAR_PEER, of mux 1 */
    struct sni_peer_entry entries[2][2];
    struct sni_session session[2];
    struct sni_assoc assoc[2];
    struct joint joint;
    struct sn_io pump;
    struct sn_timer pump_timer;
    struct sn_actor_ref actors[2];
    struct rig_log logs[2];
    size_t alloc_before;
    _Atomic uint8_t is_paused;    /* nothing moves between the muxes */
    _Atomic uint32_t tunnel_port; /* not 0: the actors make tunnels to it by themselves */
    uint32_t fail_asked_nth;      /* allocation that fails when the peer opens a stream */
    /* What the actors do besides writing down what they hear; nonzero: this event is not written down. */
    int (*on_event)(struct rig *rig, struct sn_ctx *ctx, unsigned actor,
                    const struct sn_event *event);
};

enum { NEAR, FAR };

/* cmocka fixtures. */
int rig_set_up(void **state);
int rig_tear_down(void **state);
/* Brings the bulk lane up, or takes it away (streams are reset). */
void rig_lane_up(struct rig *rig);
void rig_lane_down(struct rig *rig);
/* The lane is lost and comes back at once: streams are resumed. */
void rig_lane_cut(struct rig *rig);
/* The lane is up, but nothing moves on it. */
void rig_pause(struct rig *rig, int is_paused);

/* Runs `fn` on worker 0 or 1, or inside a handler of an actor, and waits for it. */
void rig_on_worker(struct rig *rig, uint32_t worker, void (*fn)(struct rig *rig, void *arg),
                   void *arg);
enum sn_err rig_call(struct rig *rig, unsigned actor, enum sn_err (*fn)(struct sn_ctx *, void *),
                     void *arg);
/* Makes the actor fail; it is down for the next 100 ms. */
void rig_break(struct rig *rig, unsigned actor);
/* As above; waits until it was started again. */
void rig_fail(struct rig *rig, unsigned actor);

/* The first event of that kind that was not taken yet; fails the test when none comes. */
struct rig_event rig_wait(struct rig *rig, unsigned actor, enum sn_event_kind kind);
/* Events of that kind that are there and not taken. */
uint32_t rig_count(struct rig *rig, unsigned actor, enum sn_event_kind kind);
/* Waits until no flow and no connection is left. */
void rig_quiet(struct rig *rig);
uint32_t rig_flows(struct rig *rig);

/* Calls of actors, made through rig_call. */
uint16_t rig_listen(struct rig *rig, unsigned actor);
uint64_t rig_open(struct rig *rig, uint64_t timeout_ms, uint64_t token);
void rig_accept(struct rig *rig, uint64_t stream, uint64_t token);
enum sn_err rig_splice(struct rig *rig, unsigned actor, uint64_t stream, uint64_t conn);
void rig_reset(struct rig *rig, unsigned actor, uint64_t stream, enum sn_err err);
enum sn_err rig_tune(struct rig *rig, unsigned actor, uint64_t stream, uint64_t idle_ms,
                     struct sn_meter *meter);
enum sn_err rig_dial(struct rig *rig, unsigned actor, const char *address, uint64_t timeout_ms,
                     uint64_t token);
void rig_close(struct rig *rig, unsigned actor, uint64_t conn, int is_reset);

/* Sockets of the test itself. */
struct sn_sock rig_client(struct rig *rig, uint16_t port);
struct sn_sock rig_server(struct rig *rig, uint16_t *out_port);
struct sn_sock rig_accept_sock(struct rig *rig, struct sn_sock listener);
/* What comes next from the socket: SN_OK (a byte; it is read), ECLOSED, ERESET; ETIMEDOUT after 5 s. */
enum sn_err rig_next(struct rig *rig, struct sn_sock sock);
void rig_write(struct rig *rig, struct sn_sock sock, const void *bytes, size_t size);
/* Reads exactly that. */
void rig_expect(struct rig *rig, struct sn_sock sock, const void *bytes, size_t size);
void rig_nap(void);

/* A client and a server joined by two spliced streams. */
struct rig_tunnel {
    struct sn_sock client, server;
};
struct rig_tunnel rig_tunnel(struct rig *rig);

#endif
