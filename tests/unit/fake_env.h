/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An environment for tests: virtual time, one thread, repeatable randomness.
 *
 * Loops do not run by themselves: fake_env_step and its relatives step those that are started and were woken, or
 * whose time has come, in turn. Time moves only by fake_env_advance and fake_env_run_for. A handler that takes long is
 * one that advances the clock; it may step the other loops meanwhile. Offloaded jobs wait for fake_env_run_jobs.
 * Sockets exist as numbers that can be watched; there is no I/O, and there are no files: those operations are NULL.
 */
#ifndef SN_TESTS_UNIT_FAKE_ENV_H
#define SN_TESTS_UNIT_FAKE_ENV_H

#include "env/env.h"

#define FAKE_MS      1000000ull
#define FAKE_WALL_MS 1700000000123ll /* the wall clock at the start: 2023-11-14T22:13:20.123Z */

/* Ends the program when there is no memory, and when a limit of this environment is hit. */
struct sn_env *fake_env_new(void);
/* All loops are freed by then. */
void fake_env_free(struct sn_env *env);

/* Moves both clocks; runs nothing. */
void fake_env_advance(struct sn_env *env, uint64_t ns);
void fake_env_set_wall_ms(struct sn_env *env, int64_t wall_ms);

/* Steps one loop that has something to do now; 0 when none has. */
int fake_env_step(struct sn_env *env);
/* Steps until nothing is left to do at this time. */
void fake_env_run(struct sn_env *env);
/* The same for a stretch of time, from one deadline to the next. */
void fake_env_run_for(struct sn_env *env, uint64_t ns);
/* Steps of the loop that was made as the index-th. */
uint64_t fake_env_steps(struct sn_env *env, uint32_t index);

/* Runs the offloaded jobs that wait; returns their number. */
uint32_t fake_env_run_jobs(struct sn_env *env);
/* What offload, loop_new, loop_start and watch return from now on; SN_OK = they work. */
void fake_env_fail_offload(struct sn_env *env, enum sn_err err);
void fake_env_fail_loops(struct sn_env *env, enum sn_err err);
void fake_env_fail_watch(struct sn_env *env, enum sn_err err);

/* Reports readiness of a watched socket, as between two steps, and wakes its loop. */
void fake_env_report(struct sn_env *env, struct sn_sock sock, unsigned ready);

/* What was printed to standard error so far, terminated; and forgets it. */
const char *fake_env_output(struct sn_env *env);
void fake_env_clear_output(struct sn_env *env);

#endif
