/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/udp.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/faultproxy/text.h"

#define DATAGRAM_BYTES_MAX 65536u
#define RECEIVES_MAX       64
#define SENDS_MAX          64

static void free_client(struct fp_client *client)
{
    (void)close(client->fd); /* nothing to lose */
    fp_queue_fini(&client->queues[FP_UP]);
    fp_queue_fini(&client->queues[FP_DOWN]);
    free(client);
}

static void forget_all(struct fp_udp *udp)
{
    while (udp->first != NULL) {
        struct fp_client *client = udp->first;
        udp->first = client->next;
        free_client(client);
    }
}

void fp_udp_fini(struct fp_udp *udp)
{
    forget_all(udp);
    free(udp->datagram);
    udp->datagram = NULL;
}

void fp_udp_prepare(struct fp_udp *udp, struct fp_pollset *set, int listener, int64_t *wake_us)
{
    udp->listener_at = listener < 0 ? FP_NOT_POLLED : fp_pollset_add(set, listener, POLLIN);
    for (struct fp_client *client = udp->first; client != NULL; client = client->next) {
        fp_wake_at(wake_us, client->wake_us);
        client->polled_at = fp_pollset_add(set, client->fd, POLLIN);
    }
}

static void forget_oldest(struct fp_udp *udp, struct fp_stats *stats)
{
    struct fp_client **oldest = &udp->first;
    for (struct fp_client **link = &udp->first; *link != NULL; link = &(*link)->next) {
        if ((*link)->heard_us <= (*oldest)->heard_us) oldest = link;
    }
    struct fp_client *client = *oldest;
    assert(client != NULL); /* only called when there are many */
    *oldest = client->next;
    free_client(client);
    stats->connections_now--;
}

/* NULL: the server is out of reach. */
static struct fp_client *client_of(struct fp_udp *udp, const struct fp_conn_plan *plan,
                                   const struct fp_address *address, struct fp_stats *stats,
                                   int64_t now_us)
{
    bool is_done = false;
    for (struct fp_client *client = udp->first; client != NULL; client = client->next) {
        if (fp_address_is_equal(&client->address, address)) return client;
    }
    if (stats->connections_now == FP_CLIENTS_MAX) forget_oldest(udp, stats);
    int fd = fp_connect(&plan->server, true, &is_done);
    if (fd < 0) {
        stats->unreachable++;
        return NULL;
    }
    struct fp_client *client = fp_alloc(sizeof *client);
    client->number = ++stats->connections_total;
    client->address = *address;
    client->fd = fd;
    client->polled_at = FP_NOT_POLLED;
    client->opened_us = now_us;
    for (unsigned i = 0; i < FP_DIRECTIONS; i++) {
        fp_queue_init(&client->queues[i], (enum fp_direction)i, &plan->fresh[i], plan->buffer_bytes,
                      plan->seed, client->number, now_us);
    }
    client->next = udp->first;
    udp->first = client;
    stats->connections_now++;
    return client;
}

static void receive_up(struct fp_udp *udp, const struct fp_conn_plan *plan, int listener,
                       struct fp_stats *stats, int64_t now_us)
{
    for (int i = 0; i < RECEIVES_MAX; i++) {
        struct fp_address from = {.size = sizeof from.any};
        ssize_t size = recvfrom(listener, udp->datagram, DATAGRAM_BYTES_MAX, 0,
                                (struct sockaddr *)&from.any, &from.size);
        if (size < 0) return;
        struct fp_client *client = client_of(udp, plan, &from, stats, now_us);
        if (client == NULL) continue;
        client->heard_us = client->wake_us = now_us;
        fp_queue_add(&client->queues[FP_UP], udp->datagram, (size_t)size, stats, now_us);
    }
}

static void receive_down(struct fp_udp *udp, struct fp_client *client, struct fp_stats *stats,
                         int64_t now_us)
{
    for (int i = 0; i < RECEIVES_MAX; i++) {
        /* An error tells that the server was not there, which a datagram's sender does not learn. */
        ssize_t size = recv(client->fd, udp->datagram, DATAGRAM_BYTES_MAX, 0);
        if (size < 0) {
            if (errno == ECONNREFUSED) stats->unreachable++;
            return;
        }
        client->heard_us = client->wake_us = now_us;
        fp_queue_add(&client->queues[FP_DOWN], udp->datagram, (size_t)size, stats, now_us);
    }
}

static void send_due(struct fp_client *client, enum fp_direction direction, int listener,
                     struct fp_stats *stats, int64_t now_us)
{
    struct fp_queue *queue = &client->queues[direction];
    for (int i = 0; i < SENDS_MAX; i++) {
        const struct fp_datagram *datagram = fp_queue_due(queue, now_us, &client->wake_us);
        if (datagram == NULL) return;
        ssize_t size = -1;
        if (direction == FP_UP) {
            size = send(client->fd, datagram->data, datagram->size, MSG_NOSIGNAL);
        } else if (listener >= 0) {
            size = sendto(listener, datagram->data, datagram->size, MSG_NOSIGNAL,
                          (const struct sockaddr *)&client->address.any, client->address.size);
        } else {
            errno = ENOTCONN;
        }
        if (size < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
            fp_wake_at(&client->wake_us, now_us + FP_US_PER_MS);
            return;
        }
        /* The error may tell about an earlier datagram; this one deserves its own chance. */
        if (size < 0 && errno == ECONNREFUSED) {
            stats->unreachable++;
            continue;
        }
        fp_queue_pop(queue, size >= 0, stats);
    }
    client->wake_us = now_us; /* there is more; the others first */
}

void fp_udp_run(struct fp_udp *udp, const struct fp_conn_plan *plan, const struct fp_pollset *set,
                int listener, struct fp_stats *stats, int64_t now_us)
{
    if (udp->datagram == NULL) udp->datagram = fp_alloc(DATAGRAM_BYTES_MAX);
    for (struct fp_client *client = udp->first; client != NULL; client = client->next) {
        if (fp_pollset_events(set, client->polled_at) != 0) {
            receive_down(udp, client, stats, now_us);
        }
    }
    if (listener >= 0 && fp_pollset_events(set, udp->listener_at) != 0) {
        receive_up(udp, plan, listener, stats, now_us);
    }
    for (struct fp_client *client = udp->first; client != NULL; client = client->next) {
        if (client->wake_us > now_us) continue;
        client->wake_us = FP_NEVER;
        send_due(client, FP_UP, listener, stats, now_us);
        send_due(client, FP_DOWN, listener, stats, now_us);
    }
}

unsigned fp_udp_apply(struct fp_udp *udp, const struct fp_command *command, struct fp_stats *stats,
                      int64_t now_us)
{
    unsigned late = 0;
    if (command->verb == FP_CLOSE) {
        forget_all(udp);
        stats->connections_now = 0;
        return 0;
    }
    for (struct fp_client *client = udp->first; client != NULL; client = client->next) {
        client->wake_us = now_us;
        for (unsigned i = 0; i < FP_DIRECTIONS; i++) {
            if ((command->directions & (1u << i)) &&
                fp_queue_apply(&client->queues[i], command, stats, now_us)) {
                late++;
            }
        }
    }
    return late;
}

void fp_udp_print(const struct fp_udp *udp, struct fp_text *out, int64_t now_us)
{
    static const char *const names[] = {"up", "down"};
    for (const struct fp_client *client = udp->first; client != NULL; client = client->next) {
        char address[FP_ADDRESS_TEXT_MAX];
        fp_address_format(&client->address, address, sizeof address);
        fp_text_add(out, "connection %" PRIu64 " client=%s age_ms=%" PRId64, client->number,
                    address, (now_us - client->opened_us) / FP_US_PER_MS);
        for (unsigned i = 0; i < FP_DIRECTIONS; i++) {
            const struct fp_queue *queue = &client->queues[i];
            fp_text_add(out, " %s=%" PRIu64 " held_%s=%zu faults_%s=", names[i],
                        queue->passed_bytes, names[i], queue->held_bytes, names[i]);
            fp_fault_print(&queue->fault, out);
        }
        fp_text_add(out, "\n");
    }
}
