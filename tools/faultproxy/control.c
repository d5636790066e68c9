/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/faultproxy/address.h"
#include "tools/faultproxy/clock.h"
#include "tools/faultproxy/proxy.h"

#define BACKLOG 32

/* A socket that nobody listens at is a leftover. */
static void remove_stale(const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0) return;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
        errno == ECONNREFUSED) {
        (void)unlink(address->sun_path); /* bind() tells */
    }
    (void)close(fd); /* nothing was written */
}

const char *fp_control_open(struct fp_control *control, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    for (unsigned i = 0; i < FP_CONTROLLERS_MAX; i++) {
        control->controllers[i].fd = -1;
    }
    control->path = NULL;
    control->listener = -1;
    if (path == NULL) return NULL;
    if (strlen(path) >= sizeof address.sun_path) return "the path is too long; 107 bytes at most";
    memcpy(address.sun_path, path, strlen(path) + 1);
    remove_stale(&address);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0) return strerror(errno);
    mode_t before = umask(0177);
    int status = bind(fd, (const struct sockaddr *)&address, sizeof address);
    (void)umask(before); /* cannot fail */
    if (status != 0 || !fp_set_nonblocking(fd) || listen(fd, BACKLOG) != 0) {
        const char *error = strerror(errno);
        (void)close(fd); /* the first error counts */
        return error;
    }
    control->path = path;
    control->listener = fd;
    return NULL;
}

static void flush(struct fp_controller *controller)
{
    while (controller->answers.size > 0) {
        ssize_t size =
            send(controller->fd, controller->answers.data, controller->answers.size, MSG_NOSIGNAL);
        if (size <= 0) return; /* when it is gone, the next poll tells */
        fp_text_drop(&controller->answers, (size_t)size);
    }
}

static void drop(struct fp_controller *controller)
{
    (void)close(controller->fd); /* what it was to know was sent, or it is gone */
    fp_text_fini(&controller->answers);
    *controller = (struct fp_controller){.fd = -1};
}

void fp_control_close(struct fp_control *control)
{
    for (unsigned i = 0; i < FP_CONTROLLERS_MAX; i++) {
        if (control->controllers[i].fd < 0) continue;
        flush(&control->controllers[i]);
        drop(&control->controllers[i]);
    }
    if (control->listener < 0) return;
    (void)close(control->listener); /* nothing to lose */
    (void)unlink(control->path);    /* somebody else may have */
    control->listener = -1;
}

void fp_control_prepare(struct fp_control *control, const struct fp_proxy *proxy,
                        struct fp_pollset *set, int64_t *wake_us, int64_t now_us)
{
    bool has_room = false;
    for (unsigned i = 0; i < FP_CONTROLLERS_MAX; i++) {
        struct fp_controller *controller = &control->controllers[i];
        short events = 0;
        controller->polled_at = FP_NOT_POLLED;
        if (controller->fd < 0) {
            has_room = true;
            continue;
        }
        if (controller->answers.size > 0) events |= POLLOUT;
        if (!controller->has_ended && controller->line_size < FP_LINE_BYTES_MAX) events |= POLLIN;
        controller->polled_at = fp_pollset_add(set, controller->fd, events);
        if (controller->is_waiting &&
            fp_proxy_has_come(proxy, &controller->command, controller->since_us, now_us, wake_us)) {
            fp_wake_at(wake_us, now_us);
        }
    }
    control->listener_at = control->listener >= 0 && has_room
                               ? fp_pollset_add(set, control->listener, POLLIN)
                               : FP_NOT_POLLED;
}

static void drop_bytes(struct fp_controller *controller, size_t size)
{
    controller->line_size -= size;
    memmove(controller->line, controller->line + size, controller->line_size);
}

static void read_bytes(struct fp_controller *controller)
{
    ssize_t size = recv(controller->fd, controller->line + controller->line_size,
                        FP_LINE_BYTES_MAX - controller->line_size, 0);
    if (size > 0) {
        controller->line_size += (size_t)size;
    } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
        controller->has_ended = true;
        /* The last line may lack its newline. */
        size_t last = controller->line_size;
        if (last > 0 && controller->line[last - 1] != '\n') {
            controller->line[controller->line_size++] = '\n';
        }
    }
    if (controller->is_skipping) {
        char *end = memchr(controller->line, '\n', controller->line_size);
        controller->is_skipping = end == NULL;
        drop_bytes(controller,
                   end == NULL ? controller->line_size : (size_t)(end - controller->line) + 1);
    }
}

static void do_line(struct fp_controller *controller, struct fp_proxy *proxy, const char *line,
                    int64_t now_us)
{
    struct fp_text error = {0};
    if (fp_command_is_blank(line)) return;
    if (!fp_command_parse(line, proxy->is_udp, &controller->command, &error)) {
        fp_text_add(&controller->answers, "error: %s\n", error.data);
    } else if (fp_command_waits(&controller->command)) {
        controller->is_waiting = true;
        controller->since_us = now_us;
    } else {
        (void)fp_proxy_do(proxy, &controller->command, &controller->answers,
                          now_us); /* the answer tells */
    }
    fp_text_fini(&error);
}

/* Goes on until something is to be waited for: an event, more bytes, or room for the answers. */
static void work(struct fp_controller *controller, struct fp_proxy *proxy, int64_t now_us)
{
    int64_t wake_us = FP_NEVER;
    while (controller->answers.size == 0) {
        if (controller->is_waiting) {
            if (!fp_proxy_has_come(proxy, &controller->command, controller->since_us, now_us,
                                   &wake_us)) {
                return;
            }
            controller->is_waiting = false;
            fp_text_add(&controller->answers, "ok\n");
        } else {
            char *end = memchr(controller->line, '\n', controller->line_size);
            if (end == NULL) break;
            size_t size = (size_t)(end - controller->line) + 1;
            *end = '\0';
            do_line(controller, proxy, controller->line, now_us);
            drop_bytes(controller, size);
        }
        flush(controller);
    }
    if (controller->line_size == FP_LINE_BYTES_MAX && controller->answers.size == 0) {
        fp_text_add(&controller->answers,
                    "error: a line has more than %u bytes; send shorter ones\n",
                    FP_LINE_BYTES_MAX - 1);
        controller->line_size = 0;
        controller->is_skipping = true;
        flush(controller);
    }
}

static void accept_one(struct fp_control *control)
{
    int fd = accept(control->listener, NULL, NULL);
    if (fd < 0) return;
    for (unsigned i = 0; i < FP_CONTROLLERS_MAX; i++) {
        if (control->controllers[i].fd >= 0) continue;
        if (!fp_set_nonblocking(fd)) break;
        control->controllers[i].fd = fd;
        control->controllers[i].polled_at = FP_NOT_POLLED;
        return;
    }
    (void)close(fd); /* nothing was written */
}

void fp_control_run(struct fp_control *control, struct fp_proxy *proxy,
                    const struct fp_pollset *set, int64_t now_us)
{
    for (unsigned i = 0; i < FP_CONTROLLERS_MAX; i++) {
        struct fp_controller *controller = &control->controllers[i];
        if (controller->fd < 0) continue;
        short events = fp_pollset_events(set, controller->polled_at);
        if (events & POLLIN) read_bytes(controller);
        if (events & POLLOUT) flush(controller);
        work(controller, proxy, now_us);
        bool is_done =
            controller->has_ended && !controller->is_waiting && controller->answers.size == 0;
        bool is_gone = (events & (POLLHUP | POLLERR)) && !(events & POLLIN);
        if (is_done || is_gone) drop(controller);
    }
    if (fp_pollset_events(set, control->listener_at) != 0) accept_one(control);
}
