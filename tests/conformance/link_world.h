/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two agents in one process for tests of links: two muxes joined by a lane in memory, a link at each end, all on
 * one worker. The test's own thread gives orders (world_do) and waits for conditions (world_wait); both run on
 * the worker. cmocka's assertions belong to the test's thread: the worker notes a problem in world->problem.
 */
#ifndef SN_TESTS_CONFORMANCE_LINK_WORLD_H
#define SN_TESTS_CONFORMANCE_LINK_WORLD_H

#include <semaphore.h>
#include <stdint.h>

#include "actor/worker_int.h"
#include "env/env_posix.h"
#include "link/link.h"

#define WORLD_WINDOW (4u * 1024u * 1024u)

struct world;

/* One agent's end. */
struct side {
    struct world *world;
    unsigned index;
    struct sn_mux *mux;
    struct sn_stream *streams[SN_CLASS_COUNT]; /* until a link takes them */
    struct sn_link *link;
    uint64_t to_send[SN_CLASS_COUNT]; /* parcels of the sequence that may be sent */
    uint64_t sent[SN_CLASS_COUNT];
    uint64_t received[SN_CLASS_COUNT];
    uint64_t refusals; /* EAGAIN */
    uint32_t down_count;
    enum sn_err down_reason;
    uint32_t closed_count;
    uint8_t is_closing;      /* sn_link_close was called: nothing but `closed` may come */
    uint8_t is_paused;       /* `parcel` may not come */
    uint8_t close_in_parcel; /* call sn_link_close inside the next `parcel` */
    uint8_t close_in_down;
    uint8_t pause_in_parcel;
    struct sn_link_stats last; /* taken inside `closed` */
};

struct world {
    const struct sn_link_provider *provider;
    struct sn_env *env;
    struct sn_worker *worker;
    char folder[256];
    struct side sides[2];
    struct sn_io lane; /* moves frames */
    struct sn_timer tick;
    struct sn_timer poll; /* looks at the condition */
    uint8_t is_lane_up;
    uint8_t window_small;
    uint32_t (*size_of)(uint64_t sequence); /* of the parcel with this number */
    /* DATA bytes of the application class from side 1 to side 0 after which the lane dies; UINT64_MAX = never. */
    uint64_t cut_after;
    uint64_t seen;
    char problem[160]; /* empty when all is well */
    int (*condition)(struct world *world);
    uint64_t condition_deadline;
    int condition_result;
    sem_t reached;
    struct sn_task order_task;
    void (*order)(struct world *world);
    sem_t done;
    uint8_t *scratch; /* SN_PARCEL_BYTES_MAX + 1 */
    uint32_t descriptors_wanted;
};

/* A worker and a run folder. The folder must exist. */
struct world *world_new(const struct sn_link_provider *provider, struct sn_env *env,
                        const char *folder);
void world_free(struct world *world);

/* Runs `order` on the worker and waits for its end. */
void world_do(struct world *world, void (*order)(struct world *world));
/* Nonzero when the condition became true within 30 s; it is looked at on the worker. */
int world_wait(struct world *world, int (*condition)(struct world *world));

/* The rest is called on the worker. */

/* New muxes with a lane and one stream per class, accepted; no links. Resets all counters. */
void world_connect(struct world *world);
/* Frees the muxes; the links are closed by then. */
void world_disconnect(struct world *world);
enum sn_err world_open_link(struct world *world, unsigned side);
void world_kill_lane(struct world *world);
void world_close_link(struct world *world, unsigned side);
/* Sends as many parcels of to_send as the link takes. */
void world_send(struct side *side);
void world_pause(struct side *side, int is_paused);
void world_fail(struct world *world, const char *what, uint64_t a, uint64_t b);

int world_both_closed(struct world *world);

/* The bytes of a parcel: its number, then a pattern that follows from it. */
void world_fill(uint8_t *out, uint32_t size, uint64_t sequence, unsigned class_id);
int world_matches(const uint8_t *bytes, uint32_t size, uint64_t sequence, unsigned class_id);

#endif
