/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process and its children: for programs that drive real agents (soak), and for what `main`
 * must know of the system. Not part of the seam: a simulation has no processes.
 * Thread-safe: no. Blocking: as said.
 */
#ifndef SN_ENV_PROCESS_H
#define SN_ENV_PROCESS_H

#include "env/env.h"

struct sn_process {
    int32_t pid; /* 0 = none */
};

/* Options of sn_process_start. */
#define SN_PROCESS_WITH_PARENT                                                                     \
    1u /* it is killed when the thread that started it ends, however that ends */
#define SN_PROCESS_OWN_GROUP 2u /* the terminal's Ctrl-C and hang-up reach the parent only */

/* Starts argv[0] (no shell). Standard output and error go to `log_path` (appended). Errors: ENOENT,
 * EPERM, ... of the program or the log. The environment variables are inherited. */
SN_MUST_CHECK enum sn_err sn_process_start(struct sn_env *env, const char *const argv[],
                                           const char *log_path, unsigned options,
                                           struct sn_process *out_process);
/* signal: 15 = terminate, 9 = kill, 19 = stop, 18 = continue. */
void sn_process_signal(const struct sn_process *process, int signal);
/* Waits at most timeout_ms (UINT64_MAX = for ever). Errors: ETIMEDOUT, ESTATE (none). out_status:
 * exit status, or 128 + signal. The process is gone (pid 0) on SN_OK. */
SN_MUST_CHECK enum sn_err sn_process_wait(struct sn_env *env, struct sn_process *process,
                                          uint64_t timeout_ms, int *out_status);
/* Removes an empty folder. Errors: ENOENT, EPERM, EIO (not empty). */
SN_MUST_CHECK enum sn_err sn_process_remove_folder(struct sn_env *env, const char *path);
/* Whether the system would give this process so much at once, besides what it has: `threads` that
 * live at the same time, and `descriptors`. Everything is given back before it returns. *out_room is written in any
 * case. Errors: ENOMEM (threads), ENOFILES. */
struct sn_process_room {
    uint32_t threads_wanted;
    uint32_t threads; /* that there can be, if fewer */
};
SN_MUST_CHECK enum sn_err sn_process_probe(struct sn_env *env, uint32_t threads,
                                           uint32_t descriptors, struct sn_process_room *out_room);
/* Threads that the pools of the environment may come to have. */
uint32_t sn_process_pool_threads(struct sn_env *env);
/* Leaves at once, with nothing given back: for a thread that finds the others hanging. */
void sn_process_exit(struct sn_env *env, int status) __attribute__((noreturn));
/* Who listens on a TCP port of this machine: process id and name, cut to fit. Errors: ENOENT (nobody, or it cannot be
 * told: another user's). Any thread. */
SN_MUST_CHECK enum sn_err sn_process_port_owner(const struct sn_env *env, uint16_t port,
                                                uint32_t *out_pid, char *out_name, size_t capacity);
/* Path of this program. */
SN_MUST_CHECK enum sn_err sn_process_self(struct sn_env *env, char *out, size_t capacity);
/* The first failure of writing to standard output (sn_env_print is best effort), or SN_OK. Any
 * thread. */
enum sn_err sn_process_output_err(struct sn_env *env);
/* SIGTERM, SIGINT and SIGHUP end the process at once again, also while it computes or waits for a
 * reader of its output, as before the environment was made. For programs without a request handler;
 * calling thread, before any other exists. */
void sn_process_end_on_signals(struct sn_env *env);
/* Blocks the calling thread; an operator's Ctrl-C ends the process meanwhile, also when ms is 0.
 * Command line programs only. */
void sn_process_sleep_ms(struct sn_env *env, uint64_t ms);

#endif
