/* SPDX-License-Identifier: Apache-2.0 */
/* What the owner of workers, and the actor scheduler, see of a worker beyond worker.h. */
#ifndef SN_ACTOR_WORKER_INT_H
#define SN_ACTOR_WORKER_INT_H

#include "actor/worker.h"

struct sn_logger;

/* `owner` is handed back by sn_worker_owner. name is that of the thread, at most 15 bytes. */
SN_MUST_CHECK enum sn_err sn_worker_new(struct sn_env *env, uint32_t index, const char *name,
                                        void *owner, struct sn_worker **out_worker);
SN_MUST_CHECK enum sn_err sn_worker_start(struct sn_worker *worker);
/* Waits for the worker's thread; afterwards its objects may be freed by the caller. */
void sn_worker_stop(struct sn_worker *worker);
void sn_worker_free(struct sn_worker *worker);
/* Runs the tasks that the worker left when it was stopped; 0 when there were none. Its thread must be gone. */
int sni_worker_finish_tasks(struct sn_worker *worker);
void *sn_worker_owner(const struct sn_worker *worker);
struct sn_loop *sn_worker_loop(const struct sn_worker *worker);
struct sn_logger *sn_worker_logger(const struct sn_worker *worker);
void sn_worker_set_logger(struct sn_worker *worker, struct sn_logger *logger); /* borrowed */

/* Something that gets a turn in the actor part of a round. */
struct sn_runnable {
    struct sn_list node;
    void (*run)(struct sn_runnable *runnable, struct sn_worker *worker);
};
void sn_worker_schedule(struct sn_worker *worker, struct sn_runnable *runnable);
void sn_worker_unschedule(struct sn_runnable *runnable);

#endif
