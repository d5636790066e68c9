/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a link dies: a plan that follows from a seed, and the relay that it is carried out on.
 * Thread-safe: no. Blocking: no, but for the end of a relay that was killed.
 */
#ifndef SN_AGENTS_SOAK_CHAOS_H
#define SN_AGENTS_SOAK_CHAOS_H

#include "agents/soak/soak.h"

/* --- The plan: no I/O -------------------------------------------------------------------------------------- */

/* Orders for deaths; a cut takes the sides in turn. */
enum sn_order { SN_ORDER_KILL, SN_ORDER_STOP, SN_ORDER_STOP_KILL, SN_ORDER_CUT };

struct sn_death {
    enum sn_order order;
    uint32_t after_ms; /* for so long the link is good first */
    uint32_t stop_ms;  /* and so long it is a black hole */
    uint32_t down_ms;  /* and so long nobody listens */
};

#define SN_DEATH_DECK 5u /* two of them cuts */

struct sn_plan {
    const struct sn_soak_flap *flap;
    uint64_t seed;
    uint64_t drawn;
    uint8_t deck[SN_DEATH_DECK]; /* enum sn_order */
    uint32_t left;
};

void sn_plan_init(struct sn_plan *plan, const struct sn_soak_flap *flap, uint64_t seed);
/* In any five in a row, counted from the first, each order comes, and cuts twice. */
void sn_plan_next(struct sn_plan *plan, struct sn_death *out_death);

/* --- The relay ------------------------------------------------------------------------------------------------ */

enum sn_chaos_state {
    SN_CHAOS_UP,      /* the link is good until the next death */
    SN_CHAOS_STOPPED, /* it is a black hole */
    SN_CHAOS_DOWN,    /* nobody listens */
    SN_CHAOS_STARTING /* the relay was started and does not listen yet */
};

struct sn_chaos {
    struct sn_rig *rig;
    struct sn_process relay;
    char *log;
    uint64_t log_bytes; /* before the relay was started: it writes a line when it listens */
    struct sn_plan plan;
    struct sn_death death; /* the next one, or the one under way */
    enum sn_chaos_state state;
    uint8_t is_calm;  /* no death is begun any more */
    uint8_t side;     /* that the next cut takes */
    uint64_t at_ns;   /* the next thing to do */
    uint64_t good_ns; /* since when the link is good */
    uint32_t deaths[SN_SOAK_DEATHS];
};

/* Starts the relay and waits until it listens. Calm at first. Closed in any case. */
SN_MUST_CHECK int sn_chaos_open(struct sn_rig *rig, struct sn_chaos *out_chaos);
void sn_chaos_close(struct sn_chaos *chaos);
void sn_chaos_begin(struct sn_chaos *chaos);
/* Lets what has begun come to its end: after further steps the link is good for good. */
void sn_chaos_calm(struct sn_chaos *chaos);
/* Does what is due. */
SN_MUST_CHECK int sn_chaos_step(struct sn_chaos *chaos, uint64_t now_ns);
/* Since when the link is good; 0 = it is not. */
uint64_t sn_chaos_good_since(const struct sn_chaos *chaos);

#endif
