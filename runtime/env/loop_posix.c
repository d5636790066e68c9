/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event loops over epoll, edge-triggered. Guarantees:
 *  1. After a wake, a step begins that sees everything written before the wake.
 *  2. A loop waits in the kernel unless its step asked to run at once; no deadline is hit early.
 *  3. After unwatch, that watch is not called again, not even for events fetched before.
 *
 * The wake protocol. `wake_state` is AWAKE while the loop works, ASLEEP while it is (about to be)
 * in epoll_wait, NOTIFIED once somebody has woken it. A waker exchanges NOTIFIED into it and makes
 * a system call only when it found ASLEEP: all other wakes are one atomic operation. The loop sets
 * AWAKE *before* it steps, so a wake that comes during the step leaves NOTIFIED behind; going to
 * sleep is a compare-exchange from AWAKE to ASLEEP, which then fails, and the loop polls and steps
 * again. A waker that comes after the compare-exchange finds ASLEEP and writes the eventfd, which
 * ends epoll_wait even when it has not begun yet. A waker that was delayed between its exchange
 * and its write causes one step more.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "env/env_posix_int.h"

#define EVENTS_MAX 256 /* a batch; what is left over is fetched after the next step */

enum wake_state { AWAKE = 0, ASLEEP = 1, NOTIFIED = 2 };

struct posix_loop {
    struct sn_loop base;
    sn_step_fn step;
    void *arg;
    int epoll_fd;
    int wake_fd;
    int signal_fd; /* -1 without a request handler */
    void (*request)(void *arg, enum sn_env_request request);
    void *request_arg;
    /* Partner of each access is another access to it: the exchange to AWAKE in run_loop acquires
     * what the exchange to NOTIFIED in sni_posix_loop_wake released. */
    _Atomic int wake_state;
    _Atomic int
        is_stopping; /* set by loop_stop before its wake; partner: run_loop, after its exchange */
    pthread_t thread;
    int is_started;   /* the owner's */
    int is_joined;    /* the owner's */
    int lacks_pwait2; /* the loop thread's; kernel older than 5.11 */
    int event_next;   /* the batch being reported, for unwatch; loop thread only */
    int event_count;
    char name[SNI_THREAD_NAME_BYTES];
    struct epoll_event events[EVENTS_MAX];
};

static struct posix_loop *loop_of(struct sn_loop *loop)
{
    return SN_CONTAINER_OF(loop, struct posix_loop, base);
}

static enum sn_err add_to_epoll(struct posix_loop *loop, int fd, uint32_t events, void *tag)
{
    struct epoll_event event = {.events = events | EPOLLET, .data.ptr = tag};
    int rc = epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    return rc == 0 ? SN_OK : sni_err_from_errno(errno);
}

static void close_if_open(int fd)
{
    if (fd >= 0) (void)close(fd); /* nothing was written that could be lost */
}

static void free_loop(struct posix_loop *loop)
{
    close_if_open(loop->signal_fd);
    close_if_open(loop->wake_fd);
    close_if_open(loop->epoll_fd);
    loop->base.magic = 0;
    sn_free(loop, sizeof *loop);
}

enum sn_err sni_posix_loop_new(struct sn_env *env, const char *name, sn_step_fn step, void *arg,
                               struct sn_loop **out_loop)
{
    struct posix_loop *loop = sn_alloc(sizeof *loop);
    if (loop == NULL) return SN_ENOMEM;
    loop->base = (struct sn_loop){.magic = SN_LOOP_MAGIC, .env = env};
    loop->step = step;
    loop->arg = arg;
    loop->epoll_fd = loop->wake_fd = loop->signal_fd = -1;
    strncpy(loop->name, name, sizeof loop->name - 1); /* long names are cut; the rest is zero */
    enum sn_err err = SN_OK;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        err = sni_err_from_errno(errno);
        goto out;
    }
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_fd < 0) {
        err = sni_err_from_errno(errno);
        goto out;
    }
    err = add_to_epoll(loop, loop->wake_fd, EPOLLIN, &loop->wake_fd);
    if (err != SN_OK) goto out;
    atomic_fetch_add_explicit(&sni_posix_of(env)->loop_count, 1, memory_order_relaxed);
    *out_loop = &loop->base;
    return SN_OK;
out:
    free_loop(loop);
    return err;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

/* Errors and hang-ups are reported as readiness too, so that whoever waits for either direction
 * moves on. A half-close (RDHUP) is the end of one direction only: the read tells it. */
static unsigned ready_of(uint32_t events)
{
    unsigned ready = 0;
    if (events & (EPOLLIN | EPOLLRDHUP)) ready |= SN_READY_READ;
    if (events & EPOLLOUT) ready |= SN_READY_WRITE;
    if (events & (EPOLLERR | EPOLLHUP)) ready |= SN_READY_READ | SN_READY_WRITE | SN_READY_HANGUP;
    return ready;
}

/* Milliseconds rounded up: a wait may end late, never early. */
static int ceil_ms(uint64_t ns)
{
    uint64_t ms = ns / SNI_NS_PER_MS + (ns % SNI_NS_PER_MS != 0);
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static int fetch_events(struct posix_loop *loop, uint64_t wait_ns)
{
    if (!loop->lacks_pwait2) {
        struct timespec timeout = {(time_t)(wait_ns / SNI_NS_PER_S),
                                   (long)(wait_ns % SNI_NS_PER_S)};
        int count = epoll_pwait2(loop->epoll_fd, loop->events, EVENTS_MAX,
                                 wait_ns == UINT64_MAX ? NULL : &timeout, NULL);
        if (count >= 0 || errno != ENOSYS) return count;
        loop->lacks_pwait2 = 1;
    }
    int timeout_ms = wait_ns == UINT64_MAX ? -1 : ceil_ms(wait_ns);
    return epoll_wait(loop->epoll_fd, loop->events, EVENTS_MAX, timeout_ms);
}

static void wait_for_events(struct posix_loop *loop, uint64_t next_ns)
{
    uint64_t wait_ns = UINT64_MAX;
    if (next_ns != UINT64_MAX) {
        uint64_t now = sni_now_ns(); /* again: the step took its time */
        wait_ns = next_ns > now ? next_ns - now : 0;
    }
    if (wait_ns > 0) {
        int expected = AWAKE;
        if (!atomic_compare_exchange_strong(&loop->wake_state, &expected, ASLEEP)) wait_ns = 0;
    }
    int count = fetch_events(loop, wait_ns);
    if (count < 0) {
        SN_ASSERT(errno == EINTR); /* anything else is a descriptor closed under us */
        count = 0;
    }
    loop->event_next = 0;
    loop->event_count = count;
}

static void report_requests(struct posix_loop *loop)
{
    struct signalfd_siginfo info;
    /* Edge-triggered: until there is nothing left. */
    while (read(loop->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int is_reload = info.ssi_signo == SIGHUP;
        loop->request(loop->request_arg, is_reload ? SN_REQUEST_RELOAD : SN_REQUEST_TERMINATE);
    }
}

static void report_events(struct posix_loop *loop)
{
    while (loop->event_next < loop->event_count) {
        const struct epoll_event *event = &loop->events[loop->event_next++];
        void *tag = event->data.ptr;
        if (tag == NULL) continue; /* unwatched since it was fetched */
        /* The counter of an eventfd is never read: each write is an edge of its own, and 2^64
         * writes are out of reach. */
        if (tag == &loop->wake_fd) continue;
        if (tag == &loop->signal_fd) {
            report_requests(loop);
            continue;
        }
        struct sn_watch *watch = tag;
        watch->ready(watch, ready_of(event->events));
    }
}

static void *run_loop(void *arg)
{
    struct posix_loop *loop = arg;
    sni_thread_begin(loop->name);
    for (;;) {
        (void)atomic_exchange(&loop->wake_state, AWAKE); /* what it was does not matter: we step */
        /* Looked at after the exchange: looked at before it, the exchange could swallow the wake
         * of a stop that was not seen. */
        if (atomic_load(&loop->is_stopping)) break;
        uint64_t next_ns = loop->step(loop->arg, sni_now_ns());
        wait_for_events(loop, next_ns);
        report_events(loop);
    }
    return NULL;
}

/* --- Control ---------------------------------------------------------------------------------- */

enum sn_err sni_posix_loop_start(struct sn_env *env, struct sn_loop *base)
{
    (void)env; /* the loop knows it */
    struct posix_loop *loop = loop_of(base);
    SN_ASSERT(!loop->is_started);
    int rc = pthread_create(&loop->thread, NULL, run_loop, loop);
    if (rc != 0) return SN_ENOMEM;
    loop->is_started = 1;
    return SN_OK;
}

void sni_posix_loop_wake(struct sn_env *env, struct sn_loop *base)
{
    (void)env; /* the loop knows it */
    struct posix_loop *loop = loop_of(base);
    int before = atomic_exchange(&loop->wake_state, NOTIFIED);
    if (before != ASLEEP) return;
    static const uint64_t one = 1;
    ssize_t put;
    do {
        put = write(loop->wake_fd, &one, sizeof one);
    } while (put < 0 && errno == EINTR);
    SN_ASSERT(put == (ssize_t)sizeof one);
}

void sni_posix_loop_stop(struct sn_env *env, struct sn_loop *base)
{
    struct posix_loop *loop = loop_of(base);
    if (!loop->is_started || loop->is_joined) return;
    SN_ASSERT(!pthread_equal(pthread_self(), loop->thread));
    atomic_store(&loop->is_stopping, 1);
    sni_posix_loop_wake(env, base);
    int rc = pthread_join(loop->thread, NULL);
    SN_ASSERT(rc == 0);
    loop->is_joined = 1;
}

void sni_posix_loop_free(struct sn_env *env, struct sn_loop *base)
{
    struct posix_loop *loop = loop_of(base);
    struct sni_posix *posix = sni_posix_of(env);
    SN_ASSERT(!loop->is_started || loop->is_joined);
    if (loop->signal_fd >= 0) atomic_store(&posix->has_request_handler, 0);
    free_loop(loop);
    uint32_t before = atomic_fetch_sub(&posix->loop_count, 1);
    SN_ASSERT(before > 0);
}

enum sn_err sni_posix_watch(struct sn_env *env, struct sn_loop *base, struct sn_watch *watch,
                            struct sn_sock sock)
{
    (void)env; /* the loop knows it */
    enum sn_err err = add_to_epoll(loop_of(base), sock.id, EPOLLIN | EPOLLOUT | EPOLLRDHUP, watch);
    if (err == SN_OK) watch->sock = sock;
    return err;
}

void sni_posix_unwatch(struct sn_env *env, struct sn_loop *base, struct sn_watch *watch)
{
    (void)env; /* the loop knows it */
    struct posix_loop *loop = loop_of(base);
    int rc = epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->sock.id, NULL);
    SN_ASSERT(rc == 0); /* not watched here, or closed first: the number may be another's by now */
    watch->sock = SN_SOCK_NONE;
    for (int i = loop->event_next; i < loop->event_count; i++) {
        if (loop->events[i].data.ptr == watch) loop->events[i].data.ptr = NULL;
    }
}

enum sn_err sni_posix_on_request(struct sn_env *env, struct sn_loop *base,
                                 void (*fn)(void *arg, enum sn_env_request request), void *arg)
{
    struct posix_loop *loop = loop_of(base);
    struct sni_posix *posix = sni_posix_of(env);
    int expected = 0;
    if (!atomic_compare_exchange_strong(&posix->has_request_handler, &expected, 1)) {
        return SN_ESTATE;
    }
    enum sn_err err = SN_OK;
    sigset_t requests;
    sni_request_signals(&requests);
    loop->signal_fd = signalfd(-1, &requests, SFD_CLOEXEC | SFD_NONBLOCK);
    if (loop->signal_fd < 0) {
        err = sni_err_from_errno(errno);
        goto out;
    }
    loop->request = fn;
    loop->request_arg = arg;
    err = add_to_epoll(loop, loop->signal_fd, EPOLLIN, &loop->signal_fd);
    if (err != SN_OK) goto out;
    return SN_OK;
out:
    close_if_open(loop->signal_fd);
    loop->signal_fd = -1;
    atomic_store(&posix->has_request_handler, 0);
    return err;
}
