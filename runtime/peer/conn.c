/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local TCP listeners and connections of actors, on the actor's own worker.
 *
 * Guarantees: each accepted dial ends in exactly one CONN_DIALED unless the actor fails; what an actor opened is closed
 * when it fails; names are resolved on pool threads and each dial has its own timer, so that a slow one holds up
 * nobody; a full descriptor table turns clients away at once, it never stops accepting. The last descriptors are not
 * for these connections but for the operator and the mesh (sn_env_is_reserve).
 */
#include <string.h>

#include "base/text.h"
#include "peer/flow_int.h"
#include "peer/query.h"

#define CONN_MAGIC        SN_MAGIC('C', 'O', 'N', 'N')
#define ACCEPTS_PER_ROUND 16u
#define ACCEPT_RETRY_NS   (100 * SN_MS)
#define TIMEOUT_MS_MAX    (24u * 3600u * 1000u)

/* What a connection needs until it is there. */
struct dialing {
    struct sni_conn *conn;
    struct sn_io io;
    struct sn_timer timer; /* of the present address, or of resolving */
    struct sn_notice *notice;
    uint64_t deadline_ns;
    struct sn_netaddr addrs[SNI_QUERY_ADDRS_MAX];
    uint32_t addr_count;
    uint32_t next;
    enum sn_err last_err;
};

struct sni_conn {
    uint32_t magic;
    struct sn_list node; /* in hub->conns */
    struct sn_map_entry by_id;
    uint64_t id;
    struct sni_hub *hub;
    struct sn_actor_ref owner;
    struct sn_sock sock;
    struct dialing *dialing; /* NULL: it is connected */
};

struct local_listener {
    struct sn_list node; /* in hub->listeners */
    uint64_t id;
    struct sni_hub *hub;
    struct sn_actor_ref owner;
    uint32_t incarnation;
    uint64_t token;
    struct sn_io io;
    struct sn_timer retry_timer;
    struct sn_sock sock;
};

static struct sn_env *env_of(const struct sni_hub *hub)
{
    return hub->net->config.env;
}

static struct sni_hub *hub_of(struct sn_ctx *ctx)
{
    return sni_net_hub(sn_net_of(sn_ctx_system(ctx)), sn_ctx_worker(ctx));
}

/* --- Connections ---------------------------------------------------------------------------------------- */

static enum sn_err new_conn(struct sni_hub *hub, struct sn_actor_ref owner,
                            struct sni_conn **out_conn)
{
    if (hub->conn_ids.count >= SN_STREAMS_MAX) return SN_EFULL;
    struct sni_conn *conn = sn_alloc(sizeof *conn);
    if (conn == NULL) return SN_ENOMEM;
    conn->magic = CONN_MAGIC;
    conn->id = sni_id(hub->index, ++hub->conn_counter);
    conn->hub = hub;
    conn->owner = owner;
    conn->sock = SN_SOCK_NONE;
    enum sn_err err = sn_map_insert(&hub->conn_ids, &conn->by_id, &conn->id, sizeof conn->id);
    if (err != SN_OK) {
        sn_free(conn, sizeof *conn);
        return err;
    }
    sn_list_push(&hub->conns, &conn->node);
    *out_conn = conn;
    return SN_OK;
}

static void free_dialing(struct sni_conn *conn)
{
    struct dialing *dialing = conn->dialing;
    conn->dialing = NULL;
    if (dialing == NULL) return;
    sn_io_close(&dialing->io);
    sn_timer_stop(conn->hub->worker, &dialing->timer);
    sn_notice_free(dialing->notice);
    sn_free(dialing, sizeof *dialing);
}

static void free_conn(struct sni_conn *conn, int is_reset)
{
    struct sni_hub *hub = conn->hub;
    SN_ASSERT(conn->magic == CONN_MAGIC);
    free_dialing(conn);
    if (sn_sock_is_open(conn->sock)) {
        if (is_reset) {
            sn_env_close_reset(env_of(hub), conn->sock);
        } else {
            sn_env_close(env_of(hub), conn->sock);
        }
    }
    sn_map_remove(&hub->conn_ids, &conn->by_id);
    sn_list_remove(&conn->node);
    conn->magic = 0;
    sn_free(conn, sizeof *conn);
}

static struct sni_conn *find_conn(const struct sni_hub *hub, uint64_t id)
{
    struct sn_map_entry *entry = sn_map_find(&hub->conn_ids, &id, sizeof id);
    return entry == NULL ? NULL : SN_CONTAINER_OF(entry, struct sni_conn, by_id);
}

/* A connected one of that actor, or NULL. */
static struct sni_conn *find_own(const struct sni_hub *hub, uint64_t id, struct sn_actor_ref owner)
{
    struct sni_conn *conn = find_conn(hub, id);
    if (conn == NULL || conn->owner.id != owner.id || conn->dialing != NULL) return NULL;
    return conn;
}

enum sn_err sni_conn_take(struct sni_hub *hub, struct sn_conn_ref ref, struct sn_actor_ref owner,
                          struct sn_sock *out_sock)
{
    struct sni_conn *conn = find_own(hub, ref.id, owner);
    if (conn == NULL) return SN_ENOENT;
    *out_sock = conn->sock;
    conn->sock = SN_SOCK_NONE;
    free_conn(conn, 0);
    return SN_OK;
}

void sn_net_ctx_conn_close(struct sn_ctx *ctx, struct sn_conn_ref conn, uint32_t is_reset)
{
    struct sni_conn *found = find_own(hub_of(ctx), conn.id, sn_ctx_self(ctx));
    if (found != NULL) free_conn(found, is_reset != 0);
}

/* --- Listening -------------------------------------------------------------------------------------------- */

static void close_listener(struct local_listener *listener)
{
    sn_io_close(&listener->io);
    sn_timer_stop(listener->hub->worker, &listener->retry_timer);
    if (sn_sock_is_open(listener->sock)) sn_env_close(env_of(listener->hub), listener->sock);
    sn_list_remove(&listener->node);
    sn_free(listener, sizeof *listener);
}

static enum sn_err announce(struct local_listener *listener, struct sn_sock sock,
                            const struct sn_netaddr *remote)
{
    struct sni_hub *hub = listener->hub;
    struct sni_conn *conn = NULL;
    struct sn_notice *notice = NULL;
    char text[SN_NETADDR_TEXT_MAX] = "";
    if (remote->family != SN_NETADDR_NONE) sn_netaddr_format(remote, text);
    enum sn_err err =
        sn_notice_new(listener->owner, listener->incarnation, NULL, text, NULL, 0, &notice);
    if (err != SN_OK) return err;
    err = new_conn(hub, listener->owner, &conn);
    if (err != SN_OK) {
        sn_notice_free(notice);
        return err;
    }
    conn->sock = sock;
    notice->event.kind = SN_EVENT_CONN_ACCEPTED;
    notice->event.token = listener->token;
    notice->event.listener.id = listener->id;
    notice->event.conn.id = conn->id;
    /* No `dropped`: when the actor fails first, sni_conns_actor_failed finds the connection by its owner. */
    sn_notice_post(hub->net->system, notice);
    sni_net_metric(hub, SNI_NET_CONNS_ACCEPTED);
    return SN_OK;
}

/* A client that gets no place is told at once: nobody knows when there will be one. */
static void turn_away(struct local_listener *listener, struct sn_sock sock)
{
    struct sni_hub *hub = listener->hub;
    sn_env_close_reset(env_of(hub), sock);
    sn_logger_write(
        sni_hub_logger(hub), SN_WARN, "DESCRIPTORS-SHORT", "net",
        "hint=\"a client was turned away; raise the limit: ulimit -n, or LimitNOFILE= of "
        "the service\"");
}

static void on_connection(struct sn_io *io, unsigned ready)
{
    struct local_listener *listener = SN_CONTAINER_OF(io, struct local_listener, io);
    struct sni_hub *hub = listener->hub;
    (void)ready; /* whatever it says, the queue is looked at */
    for (unsigned i = 0; i < ACCEPTS_PER_ROUND; i++) {
        struct sn_sock sock;
        struct sn_netaddr remote = {0};
        enum sn_err err = sn_env_accept(env_of(hub), listener->sock, &sock, &remote);
        if (err == SN_EAGAIN) return;
        if (err != SN_OK) { /* no event will tell when it is worth another try */
            sn_logger_write(sni_hub_logger(hub), SN_WARN, "ACCEPT-FAILED", "net", "err=%s",
                            sn_err_name(err));
            sn_timer_start(hub->worker, &listener->retry_timer,
                           sn_worker_now(hub->worker) + ACCEPT_RETRY_NS);
            return;
        }
        if (sn_env_is_reserve(env_of(hub), sock)) {
            turn_away(listener, sock);
            continue;
        }
        err = announce(listener, sock, &remote);
        if (err != SN_OK) sn_env_close_reset(env_of(hub), sock);
    }
    sn_io_kick(io);
}

static void on_retry(struct sn_timer *timer, struct sn_worker *worker)
{
    (void)worker; /* the listener's */
    sn_io_kick(&SN_CONTAINER_OF(timer, struct local_listener, retry_timer)->io);
}

/* "localhost" needs no name service: it is 127.0.0.1. */
static enum sn_err parse_address(const char *address, int allow_port_zero,
                                 struct sn_endpoint *out_endpoint)
{
    struct sn_endpoint endpoint;
    enum sn_err err = sn_endpoint_parse(address, strlen(address), allow_port_zero, &endpoint);
    if (err != SN_OK) return err;
    if (!endpoint.is_literal && strcmp(endpoint.host, "localhost") == 0) {
        endpoint.is_literal = 1;
        endpoint.addr = (struct sn_netaddr){
            .family = SN_NETADDR_IP4, .port = endpoint.port, .ip = {127, 0, 0, 1}};
    }
    *out_endpoint = endpoint;
    return SN_OK;
}

static enum sn_err open_listener(struct local_listener *listener, const struct sn_netaddr *addr,
                                 char *out_bound, uint32_t bound_capacity)
{
    char text[SN_NETADDR_TEXT_MAX];
    struct sn_netaddr bound;
    enum sn_err err = sn_env_listen(env_of(listener->hub), addr, &listener->sock, &bound);
    if (err != SN_OK) return err;
    err = sn_io_open(&listener->io, listener->hub->worker, listener->sock);
    if (err != SN_OK || out_bound == NULL || bound_capacity == 0) return err;
    sn_netaddr_format(&bound, text);
    return sn_text_copy(out_bound, bound_capacity, text, strlen(text));
}

enum sn_err sn_net_ctx_listen(struct sn_ctx *ctx, const char *address, uint64_t token,
                              struct sn_listener_ref *out_listener, char *out_bound,
                              uint32_t bound_capacity)
{
    struct sni_hub *hub = hub_of(ctx);
    struct sn_endpoint endpoint;
    enum sn_err err = parse_address(address, 1, &endpoint);
    if (err != SN_OK) return err;
    if (!endpoint.is_literal) return SN_EINVAL;
    if (atomic_load(&hub->net->is_draining) != 0) return SN_ECANCELLED;
    struct local_listener *listener = sn_alloc(sizeof *listener);
    if (listener == NULL) return SN_ENOMEM;
    listener->id = sni_id(hub->index, ++hub->conn_counter);
    listener->hub = hub;
    listener->owner = sn_ctx_self(ctx);
    listener->incarnation = sn_ctx_incarnation(ctx);
    listener->token = token;
    listener->sock = SN_SOCK_NONE;
    sn_io_init(&listener->io, SN_IO_URGENT, on_connection);
    sn_timer_init(&listener->retry_timer, on_retry);
    err = open_listener(listener, &endpoint.addr, out_bound, bound_capacity);
    if (err != SN_OK) {
        close_listener(listener);
        return err;
    }
    sn_list_push(&hub->listeners, &listener->node);
    sn_io_kick(&listener->io);
    *out_listener = (struct sn_listener_ref){listener->id};
    return SN_OK;
}

void sn_net_ctx_listener_close(struct sn_ctx *ctx, struct sn_listener_ref listener)
{
    struct sni_hub *hub = hub_of(ctx);
    SN_LIST_EACH_SAFE (node, &hub->listeners) {
        struct local_listener *each = SN_CONTAINER_OF(node, struct local_listener, node);
        if (each->id == listener.id && each->owner.id == sn_ctx_self(ctx).id) close_listener(each);
    }
}

void sni_listeners_close(struct sni_hub *hub)
{
    SN_LIST_EACH_SAFE (node, &hub->listeners) {
        close_listener(SN_CONTAINER_OF(node, struct local_listener, node));
    }
}

/* --- Dialing ------------------------------------------------------------------------------------------------ */

/* Tells the actor; a failed connection is gone afterwards. */
static void finish_dial(struct sni_conn *conn, enum sn_err err)
{
    struct sni_hub *hub = conn->hub;
    struct sn_notice *notice = conn->dialing->notice;
    conn->dialing->notice = NULL;
    free_dialing(conn);
    notice->event.err = (uint32_t)err;
    if (err == SN_OK) {
        notice->event.conn.id = conn->id;
        sni_net_metric(hub, SNI_NET_CONNS_DIALED);
    } else {
        free_conn(conn, 0);
    }
    sn_notice_post(hub->net->system, notice);
}

static void drop_attempt(struct sni_conn *conn, enum sn_err err)
{
    conn->dialing->last_err = err;
    sn_io_close(&conn->dialing->io);
    if (sn_sock_is_open(conn->sock)) sn_env_close(env_of(conn->hub), conn->sock);
    conn->sock = SN_SOCK_NONE;
}

/* Connects to the next address that does not fail at once. Each may use its share of what is left of the time, so
 * that one that does not answer leaves some for the others. */
static void try_next(struct sni_conn *conn)
{
    struct dialing *dialing = conn->dialing;
    struct sn_worker *worker = conn->hub->worker;
    uint64_t now = sn_worker_refresh_now(worker);
    while (dialing->next < dialing->addr_count && now < dialing->deadline_ns) {
        uint64_t share_ns = (dialing->deadline_ns - now) / (dialing->addr_count - dialing->next);
        const struct sn_netaddr *addr = &dialing->addrs[dialing->next++];
        enum sn_err err = sn_env_connect(env_of(conn->hub), addr, &conn->sock);
        if (err == SN_OK && sn_env_is_reserve(env_of(conn->hub), conn->sock)) err = SN_ENOFILES;
        if (err == SN_OK) err = sn_io_open(&dialing->io, worker, conn->sock);
        if (err == SN_OK) {
            sn_timer_start(worker, &dialing->timer, now + share_ns);
            return;
        }
        drop_attempt(conn, err);
    }
    finish_dial(conn, now < dialing->deadline_ns ? dialing->last_err : SN_ETIMEDOUT);
}

static void on_connect(struct sn_io *io, unsigned ready)
{
    struct sni_conn *conn = SN_CONTAINER_OF(io, struct dialing, io)->conn;
    (void)ready; /* the result tells */
    enum sn_err err = sn_env_connect_result(env_of(conn->hub), conn->sock);
    if (err == SN_EAGAIN) return;
    if (err == SN_OK) {
        finish_dial(conn, SN_OK);
        return;
    }
    drop_attempt(conn, err);
    try_next(conn);
}

static void on_dial_timer(struct sn_timer *timer, struct sn_worker *worker)
{
    struct sni_conn *conn = SN_CONTAINER_OF(timer, struct dialing, timer)->conn;
    (void)worker; /* the connection's */
    drop_attempt(conn, SN_ETIMEDOUT);
    try_next(conn);
}

static void on_answer(void *arg, uint64_t id, const struct sni_answer *answer)
{
    struct sni_conn *conn = find_conn(arg, id);
    if (conn == NULL) return; /* it timed out, or its actor failed */
    SN_ASSERT(conn->dialing != NULL);
    if (answer->err == SN_OK) {
        memcpy(conn->dialing->addrs, answer->addrs, sizeof answer->addrs);
        conn->dialing->addr_count = answer->count;
    } else {
        conn->dialing->last_err = answer->err;
    }
    try_next(conn);
}

static enum sn_err start_resolving(struct sni_conn *conn, const struct sn_endpoint *endpoint)
{
    struct sni_hub *hub = conn->hub;
    enum sn_err err = sni_query_start(hub, endpoint, on_answer, hub, conn->id);
    if (err != SN_OK) return err;
    sn_timer_start(hub->worker, &conn->dialing->timer, conn->dialing->deadline_ns);
    return SN_OK;
}

static enum sn_err new_dialing(struct sn_ctx *ctx, struct sni_conn *conn, uint64_t timeout_ms,
                               uint64_t token)
{
    struct dialing *dialing = sn_alloc(sizeof *dialing);
    if (dialing == NULL) return SN_ENOMEM;
    conn->dialing = dialing;
    dialing->conn = conn;
    sn_io_init(&dialing->io, SN_IO_URGENT, on_connect);
    sn_timer_init(&dialing->timer, on_dial_timer);
    dialing->last_err = SN_EUNREACHABLE;
    if (timeout_ms > TIMEOUT_MS_MAX) timeout_ms = TIMEOUT_MS_MAX;
    dialing->deadline_ns = sn_worker_refresh_now(conn->hub->worker) + timeout_ms * SN_MS;
    enum sn_err err =
        sn_notice_new(conn->owner, sn_ctx_incarnation(ctx), NULL, NULL, NULL, 0, &dialing->notice);
    if (err != SN_OK) return err;
    dialing->notice->event.kind = SN_EVENT_CONN_DIALED;
    dialing->notice->event.token = token;
    return SN_OK;
}

enum sn_err sn_net_ctx_dial(struct sn_ctx *ctx, const char *address, uint64_t timeout_ms,
                            uint64_t token)
{
    struct sni_hub *hub = hub_of(ctx);
    struct sn_endpoint endpoint;
    struct sni_conn *conn = NULL;
    enum sn_err err = parse_address(address, 0, &endpoint);
    if (err != SN_OK) return err;
    err = new_conn(hub, sn_ctx_self(ctx), &conn);
    if (err != SN_OK) return err;
    err = new_dialing(ctx, conn, timeout_ms, token);
    if (err == SN_OK && !endpoint.is_literal) err = start_resolving(conn, &endpoint);
    if (err != SN_OK) {
        free_conn(conn, 0);
        return err;
    }
    if (endpoint.is_literal) {
        conn->dialing->addrs[0] = endpoint.addr;
        conn->dialing->addr_count = 1;
        try_next(conn);
    }
    return SN_OK;
}

/* --- End ------------------------------------------------------------------------------------------------------ */

void sni_conns_actor_failed(struct sni_hub *hub, struct sn_actor_ref actor)
{
    SN_LIST_EACH_SAFE (node, &hub->conns) {
        struct sni_conn *conn = SN_CONTAINER_OF(node, struct sni_conn, node);
        if (conn->owner.id == actor.id) free_conn(conn, 1);
    }
    SN_LIST_EACH_SAFE (node, &hub->listeners) {
        struct local_listener *listener = SN_CONTAINER_OF(node, struct local_listener, node);
        if (listener->owner.id == actor.id) close_listener(listener);
    }
}

void sni_conns_free(struct sni_hub *hub)
{
    struct sn_list *node;
    sni_listeners_close(hub);
    sni_queries_abandon(hub);
    while ((node = sn_list_first(&hub->conns)) != NULL) {
        free_conn(SN_CONTAINER_OF(node, struct sni_conn, node), 1);
    }
    sn_map_fini(&hub->conn_ids);
}
