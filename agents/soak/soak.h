/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The soak command's own state, and what its parts ask of each other. One thread; everything may block for as long as a
 * start may take, and every wait ends early when the operator interrupts.
 * Functions that return int return 1 when all was as it must be, else 0 after a failure was noted in the verdict.
 */
#ifndef SN_AGENTS_SOAK_SOAK_H
#define SN_AGENTS_SOAK_SOAK_H

#include "agents/cli.h"
#include "agents/soak/reading.h"
#include "agents/soak/scenario.h"
#include "agents/soak/track.h"
#include "agents/soak/verdict.h"
#include "env/process.h"

#define SN_SOAK_PATH_BYTES 4096u
#define SN_SOAK_POLL_MS    5u
/* No child outlives the command, even one that is killed; and it is the command that hears the terminal. */
#define SN_SOAK_CHILD (SN_PROCESS_WITH_PARENT | SN_PROCESS_OWN_GROUP)

struct sn_soak {
    struct sn_cli *cli;
    struct sn_env *env;
    const char *out; /* folder of everything */
    struct sn_scenario scenario;
    uint64_t seed;
    int is_kept; /* folders of passed starts stay */
    int is_cancelled;
    struct sn_loop *loop; /* hears SIGINT, SIGTERM and SIGHUP */
    char self[SN_SOAK_PATH_BYTES];
    struct sn_process busy[SN_SOAK_BUSY_MAX];
    struct sn_soak_verdict verdict;
};

/* Sleeps, but not when interrupted. */
void sn_soak_pause(struct sn_soak *soak, uint64_t ms);
/* Nonzero when the time is over or the operator interrupted. */
int sn_soak_is_over(struct sn_soak *soak, uint64_t deadline_ns);
uint64_t sn_soak_deadline(struct sn_soak *soak, uint64_t ms);
uint64_t sn_soak_elapsed_ms(struct sn_soak *soak, uint64_t since_ns);
/* Kills a child that may still be there, and waits for its end. */
void sn_soak_kill(struct sn_soak *soak, struct sn_process *process);

/* Pseudo-random bytes that follow from `seed`. */
void sn_soak_fill(uint64_t seed, uint8_t *out, size_t size);

/* --- Two agents (rig.c) ------------------------------------------------------------------------------------ */

/* Ranges of ports, one for each use, so that two choices never meet. */
enum sn_soak_ports {
    SN_SOAK_PORTS_HUB,
    SN_SOAK_PORTS_EDGE,
    SN_SOAK_PORTS_FORWARD,
    SN_SOAK_PORTS_TARGET,
    SN_SOAK_PORTS_RELAY
};

#define SN_SOAK_HUB  "north/hub"
#define SN_SOAK_EDGE "south/edge"

struct sn_soak_agent {
    const char *name;
    char *config; /* agent.yaml */
    char *run;    /* folder */
    char *log;
    char *control;
    struct sn_process process;
    struct sn_control_client client;
    int is_connected;
};

struct sn_rig {
    struct sn_soak *soak;
    char *folder;
    struct sn_soak_agent hub;
    struct sn_soak_agent edge;
    uint16_t hub_port;
    uint16_t edge_port;
    uint16_t forward_port; /* where the edge accepts connections to the target */
    uint16_t target_port;  /* 0: no tunnel */
    uint16_t relay_port;   /* where the edge dials the hub when its link is to die */
};

/* A port of 127.0.0.1 where nobody listens. Errors: EINUSE. */
SN_MUST_CHECK enum sn_err sn_soak_choose_port(struct sn_env *env, enum sn_soak_ports range,
                                              uint16_t *out_port);
/* Makes the folder of the number-th start (from 1) and renders the fleet there. The rig is closed in any case. */
SN_MUST_CHECK int sn_rig_open(struct sn_soak *soak, uint32_t number, uint16_t target_port,
                              struct sn_rig *out_rig);
/* Starts both agents and waits until they are ready. */
SN_MUST_CHECK int sn_rig_start(struct sn_rig *rig, int is_edge_first);
SN_MUST_CHECK int sn_rig_report(struct sn_rig *rig, struct sn_soak_agent *agent,
                                struct sn_soak_report *out_report);
SN_MUST_CHECK int sn_rig_ledger(struct sn_rig *rig, struct sn_soak_agent *agent,
                                struct sn_soak_ledger *out_ledger);
/* What the agent has now. */
SN_MUST_CHECK int sn_rig_sample(struct sn_rig *rig, struct sn_soak_agent *agent,
                                struct sn_soak_sample *out_sample);
/* Notes how many sessions there were; in a steady scenario there must have been one, which lasts. */
SN_MUST_CHECK int sn_rig_check_sessions(struct sn_rig *rig, struct sn_soak_run *run);
/* Waits until the agents have no stream open any more. */
SN_MUST_CHECK int sn_rig_await_no_streams(struct sn_rig *rig);
/* Terminates both agents: each has to end with status 0, in time, and leave nothing in its run folder. */
SN_MUST_CHECK int sn_rig_stop(struct sn_rig *rig);
/* Kills what is still there and frees. Removes the folder when told to. */
void sn_rig_close(struct sn_rig *rig, int is_removed);

/* Reads both ledgers until they fit each other, or for a bounded time, and judges them. */
SN_MUST_CHECK int sn_rig_check_ledgers(struct sn_rig *rig, uint64_t messages,
                                       struct sn_soak_run *run);

/* --- Scenarios ------------------------------------------------------------------------------------------------ */

SN_MUST_CHECK int sn_soak_delivery_run(struct sn_rig *rig, struct sn_soak_run *run);

struct sn_soak_tunnel {
    struct sn_sock listener; /* the target: the runner itself; none while a late one is not up */
    uint16_t port;
    uint8_t *sent; /* `bytes` of the scenario; NULL when a flap scenario has its own */
    uint8_t *got;
};

SN_MUST_CHECK enum sn_err sn_soak_tunnel_open(struct sn_soak *soak,
                                              struct sn_soak_tunnel *out_tunnel);
void sn_soak_tunnel_close(struct sn_soak *soak, struct sn_soak_tunnel *tunnel);
SN_MUST_CHECK int sn_soak_tunnel_run(struct sn_rig *rig, struct sn_soak_tunnel *tunnel,
                                     struct sn_soak_run *run);

/* The tunnel is the target's listener only. */
SN_MUST_CHECK int sn_soak_flap_run(struct sn_rig *rig, struct sn_soak_tunnel *tunnel,
                                   struct sn_soak_run *run);

#endif
