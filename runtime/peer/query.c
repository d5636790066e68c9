/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A query is held by its job and by the hub until both let go. The job, which may outlive the hub by minutes, touches
 * the hub's worker only if it moves the state out of RUNNING; the hub, when it ends, moves it to ABANDONED.
 */
#include "peer/query.h"

enum query_state { QUERY_RUNNING, QUERY_DONE, QUERY_ABANDONED };

struct query {
    struct sn_task task;
    struct sn_list node; /* in hub->queries */
    struct sn_env *env;
    struct sni_hub *hub;
    struct sn_endpoint endpoint;
    struct sni_answer answer;
    void (*done)(void *arg, uint64_t id, const struct sni_answer *answer);
    void *arg;
    uint64_t id;
    _Atomic uint32_t state; /* leaves RUNNING once. Partners: ask, abandon */
    _Atomic uint32_t refs;  /* partner: itself */
};

static void unref(struct query *query)
{
    if (atomic_fetch_sub(&query->refs, 1) == 1) sn_free(query, sizeof *query);
}

static void on_answer(struct sn_task *task, struct sn_worker *worker)
{
    struct query *query = SN_CONTAINER_OF(task, struct query, task);
    (void)worker; /* the hub's */
    sn_list_remove(&query->node);
    query->done(query->arg, query->id, &query->answer);
    unref(query);
}

/* On a pool thread. */
static void ask(void *arg)
{
    struct query *query = arg;
    struct sni_answer *answer = &query->answer;
    uint32_t running = QUERY_RUNNING;
    if (atomic_load(&query->state) == QUERY_ABANDONED) {
        unref(query);
        return;
    }
    answer->err = sn_env_resolve(query->env, query->endpoint.host, query->endpoint.port,
                                 answer->addrs, SNI_QUERY_ADDRS_MAX, &answer->count);
    if (answer->err == SN_OK && answer->count == 0) answer->err = SN_ENOENT;
    query->task.run = on_answer;
    if (atomic_compare_exchange_strong(&query->state, &running, QUERY_DONE)) {
        sn_worker_post(query->hub->worker, &query->task);
    }
    unref(query);
}

static void abandon(struct query *query)
{
    uint32_t running = QUERY_RUNNING;
    sn_list_remove(&query->node);
    if (!atomic_compare_exchange_strong(&query->state, &running, QUERY_ABANDONED)) {
        /* The job is done and posting: a few instructions, for which the worker must stay. */
        while (atomic_load(&query->refs) > 1) continue;
    }
    unref(query);
}

enum sn_err sni_query_start(struct sni_hub *hub, const struct sn_endpoint *endpoint,
                            void (*done)(void *arg, uint64_t id, const struct sni_answer *answer),
                            void *arg, uint64_t id)
{
    struct query *query = sn_alloc(sizeof *query);
    if (query == NULL) return SN_ENOMEM;
    query->env = hub->net->config.env;
    query->hub = hub;
    query->endpoint = *endpoint;
    query->done = done;
    query->arg = arg;
    query->id = id;
    atomic_store(&query->refs, 2);
    enum sn_err err = sn_env_offload(query->env, SN_OFFLOAD_SLOW, ask, query);
    if (err != SN_OK) {
        sn_free(query, sizeof *query);
        return err;
    }
    if (hub->queries.next == NULL) sn_list_init(&hub->queries);
    sn_list_push(&hub->queries, &query->node);
    return SN_OK;
}

void sni_queries_abandon(struct sni_hub *hub)
{
    struct sn_list *node;
    while (hub->queries.next != NULL && (node = sn_list_first(&hub->queries)) != NULL) {
        abandon(SN_CONTAINER_OF(node, struct query, node));
    }
}
