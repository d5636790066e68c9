/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/conn.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/faultproxy/text.h"

#define READ_BYTES_MAX 65536u
#define WRITES_MAX     64
#define CLOSE_PATIENCE (1 * FP_US_PER_S)
#define CUT_PATIENCE   (1 * FP_US_PER_S)
#define CUT_LOOK_AGAIN FP_US_PER_MS

struct fp_conn *fp_conn_new(const struct fp_conn_plan *plan, uint64_t number, int client_fd,
                            const struct fp_address *client, int64_t now_us)
{
    bool is_connected = false;
    int server_fd = fp_connect(&plan->server, false, &is_connected);
    if (server_fd < 0) {
        fp_close_reset(client_fd);
        return NULL;
    }
    struct fp_conn *conn = fp_alloc(sizeof *conn);
    conn->number = number;
    conn->client = *client;
    conn->opened_us = now_us;
    conn->wake_us = now_us;
    conn->close_at_us = FP_NEVER;
    conn->sides[FP_CLIENT] = (struct fp_side){.fd = client_fd, .polled_at = FP_NOT_POLLED};
    conn->sides[FP_SERVER] = (struct fp_side){
        .fd = server_fd, .polled_at = FP_NOT_POLLED, .is_connecting = !is_connected};
    for (unsigned i = 0; i < FP_DIRECTIONS; i++) {
        fp_way_init(&conn->ways[i], (enum fp_direction)i, &plan->fresh[i], plan->buffer_bytes,
                    plan->seed, number, now_us);
    }
    return conn;
}

static void close_side(struct fp_side *side, bool is_reset)
{
    if (side->fd < 0) return;
    if (is_reset) {
        fp_close_reset(side->fd);
    } else {
        (void)close(side->fd); /* its bytes were written */
    }
    side->fd = -1;
}

static void close_all(struct fp_conn *conn, bool is_reset)
{
    close_side(&conn->sides[FP_CLIENT], is_reset);
    close_side(&conn->sides[FP_SERVER], is_reset);
    conn->is_over = true;
}

void fp_conn_free(struct fp_conn *conn)
{
    close_all(conn, true);
    fp_way_fini(&conn->ways[FP_UP]);
    fp_way_fini(&conn->ways[FP_DOWN]);
    free(conn);
}

/* --- the round ------------------------------------------------------------------------------------ */

void fp_conn_prepare(struct fp_conn *conn, struct fp_pollset *set, int64_t *wake_us)
{
    fp_wake_at(wake_us, conn->wake_us);
    for (unsigned i = 0; i < FP_SIDES; i++) {
        struct fp_side *side = &conn->sides[i];
        const struct fp_way *from = &conn->ways[i];
        short events = 0;
        side->polled_at = FP_NOT_POLLED;
        if (side->fd < 0) continue;
        if (side->is_connecting || side->is_blocked) events |= POLLOUT;
        if (!side->is_connecting && fp_way_wants_bytes(from)) events |= POLLIN;
        /* Only watched for a break: not when a black hole would hide it, nor when it was seen. */
        if (events == 0 && (from->is_source_done || from->fault.hold == FP_HOLE || side->is_hung)) {
            continue;
        }
        side->polled_at = fp_pollset_add(set, side->fd, events);
    }
}

static void side_broke(struct fp_conn *conn, unsigned at, struct fp_stats *stats, int64_t now_us)
{
    struct fp_side *side = &conn->sides[at];
    if (side->is_connecting) stats->unreachable++;
    close_side(side, true);
    side->is_connecting = side->is_blocked = false;
    fp_way_lose_receiver(&conn->ways[1 - at], stats);
    fp_way_end(&conn->ways[at], FP_ABORT, now_us);
    conn->wake_us = now_us; /* the round may have passed this way already */
}

static void read_side(struct fp_conn *conn, unsigned at, struct fp_stats *stats, int64_t now_us)
{
    struct fp_way *way = &conn->ways[at];
    struct iovec parts[2];
    int count = fp_buffer_free_parts(&way->buffer, READ_BYTES_MAX, parts);
    ssize_t size = readv(conn->sides[at].fd, parts, count);
    if (size > 0) {
        fp_way_add(way, (size_t)size, stats, now_us);
    } else if (size == 0) {
        fp_way_end(way, FP_EOF, now_us);
    } else if (errno != EAGAIN && errno != EINTR) {
        side_broke(conn, at, stats, now_us);
    }
}

static void look_at_side(struct fp_conn *conn, unsigned at, short events, struct fp_stats *stats,
                         int64_t now_us)
{
    struct fp_side *side = &conn->sides[at];
    if (events == 0 || side->fd < 0) return;
    if (events & POLLOUT) side->is_blocked = false;
    if (side->is_connecting || (events & POLLERR)) {
        if (fp_socket_error(side->fd) != 0) {
            side_broke(conn, at, stats, now_us);
            return;
        }
        if (events & POLLOUT) side->is_connecting = false;
    }
    if (side->is_connecting) return;
    if (fp_way_wants_bytes(&conn->ways[at])) {
        if (events & (POLLIN | POLLHUP | POLLERR)) read_side(conn, at, stats, now_us);
    } else if (events & (POLLHUP | POLLERR)) {
        side->is_hung = true;
    }
}

static bool cut_if_due(struct fp_conn *conn, struct fp_way *way, struct fp_stats *stats,
                       int64_t now_us)
{
    int unsent = 0;
    int fd = conn->sides[1 - way->direction].fd;
    if (!fp_way_is_cut(way)) return false;
    if (way->cut_until_us == 0) way->cut_until_us = now_us + CUT_PATIENCE;
    /* A reset overtakes what the kernel holds, but the last byte is to arrive. */
    if (fd >= 0 && ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent > 0 && now_us < way->cut_until_us) {
        fp_wake_at(&conn->wake_us, now_us + CUT_LOOK_AGAIN);
        return false;
    }
    stats->resets++;
    close_all(conn, true);
    return true;
}

static void write_way(struct fp_conn *conn, struct fp_way *way, struct fp_stats *stats,
                      int64_t now_us)
{
    unsigned to = 1 - way->direction;
    struct fp_side *side = &conn->sides[to];
    for (int i = 0; i < WRITES_MAX; i++) {
        if (side->fd < 0 || side->is_connecting || side->is_blocked) return;
        struct iovec parts[2];
        size_t allowed = fp_way_allow(way, now_us, &conn->wake_us);
        if (allowed == 0) return;
        struct msghdr message = {.msg_iov = parts};
        message.msg_iovlen = (size_t)fp_buffer_parts(&way->buffer, allowed, parts);
        ssize_t size = sendmsg(side->fd, &message, MSG_NOSIGNAL);
        if (size > 0) {
            fp_way_passed(way, (size_t)size, stats, now_us);
        } else if (errno == EAGAIN) {
            side->is_blocked = true;
        } else if (errno != EINTR) {
            side_broke(conn, to, stats, now_us);
        }
    }
    conn->wake_us = now_us; /* there is more; the others first */
}

static void pass_end(struct fp_conn *conn, struct fp_way *way, int64_t now_us)
{
    struct fp_side *to = &conn->sides[1 - way->direction];
    enum fp_end end = fp_way_due_end(way, now_us, &conn->wake_us);
    if (end == FP_ABORT) {
        close_all(conn, true);
    } else if (end == FP_EOF && !to->is_connecting) {
        if (to->fd >= 0)
            (void)shutdown(to->fd, SHUT_WR); /* fails when the peer is gone: seen later */
        way->is_end_sent = true;
    }
}

static bool is_finished(const struct fp_conn *conn, int64_t now_us)
{
    const struct fp_way *up = &conn->ways[FP_UP];
    const struct fp_way *down = &conn->ways[FP_DOWN];
    if (conn->sides[FP_CLIENT].fd < 0 && conn->sides[FP_SERVER].fd < 0) return true;
    if (now_us >= conn->close_at_us) return true;
    bool has_abort = up->end == FP_ABORT || down->end == FP_ABORT; /* still to be passed on */
    return !has_abort && up->is_end_sent && down->is_end_sent && up->is_source_done &&
           down->is_source_done;
}

void fp_conn_run(struct fp_conn *conn, const struct fp_pollset *set, struct fp_stats *stats,
                 int64_t now_us)
{
    short events[FP_SIDES];
    for (unsigned i = 0; i < FP_SIDES; i++) {
        events[i] = fp_pollset_events(set, conn->sides[i].polled_at);
    }
    if (events[FP_CLIENT] == 0 && events[FP_SERVER] == 0 && conn->wake_us > now_us) return;
    conn->wake_us = conn->close_at_us;
    for (unsigned i = 0; i < FP_SIDES; i++) {
        look_at_side(conn, i, events[i], stats, now_us);
    }
    for (unsigned i = 0; i < FP_DIRECTIONS && !conn->is_over; i++) {
        write_way(conn, &conn->ways[i], stats, now_us);
        if (!cut_if_due(conn, &conn->ways[i], stats, now_us)) {
            pass_end(conn, &conn->ways[i], now_us);
        }
    }
    if (!conn->is_over && is_finished(conn, now_us)) close_all(conn, false);
}

/* --- commands ------------------------------------------------------------------------------------- */

unsigned fp_conn_apply(struct fp_conn *conn, const struct fp_command *command,
                       struct fp_stats *stats, int64_t now_us)
{
    unsigned late = 0;
    conn->wake_us = now_us;
    if (command->verb == FP_RESET) {
        stats->resets++;
        close_all(conn, true);
        return 0;
    }
    if (command->verb == FP_CLOSE) conn->close_at_us = now_us + CLOSE_PATIENCE;
    for (unsigned i = 0; i < FP_DIRECTIONS; i++) {
        if (!(command->directions & (1u << i))) continue;
        if (command->verb == FP_CLOSE || command->verb == FP_HALF_CLOSE) {
            fp_way_half_close(&conn->ways[i], stats);
        } else if (fp_way_apply(&conn->ways[i], command, stats, now_us)) {
            late++;
        }
    }
    return late;
}

void fp_conn_print(const struct fp_conn *conn, struct fp_text *out, int64_t now_us)
{
    static const char *const names[] = {"up", "down"};
    static const char *const ends[] = {"open", "eof", "reset"};
    char client[FP_ADDRESS_TEXT_MAX];
    fp_address_format(&conn->client, client, sizeof client);
    fp_text_add(out, "connection %" PRIu64 " client=%s age_ms=%" PRId64, conn->number, client,
                (now_us - conn->opened_us) / FP_US_PER_MS);
    for (unsigned i = 0; i < FP_DIRECTIONS; i++) {
        const struct fp_way *way = &conn->ways[i];
        fp_text_add(out, " %s=%" PRIu64 " held_%s=%zu end_%s=%s faults_%s=", names[i],
                    way->passed_bytes, names[i], way->buffer.size, names[i], ends[way->end],
                    names[i]);
        fp_fault_print(&way->fault, out);
    }
    fp_text_add(out, "\n");
}
