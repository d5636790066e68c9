/* SPDX-License-Identifier: Apache-2.0 */
/* Loops: no wake is lost, no timer is early, nothing spins, stale events are suppressed. */
#include "env_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

/* Set before a loop starts only. */
static int kernel_lacks_pwait2;

int __real_epoll_pwait2(int fd, struct epoll_event *events, int capacity,
                        const struct timespec *timeout, const sigset_t *mask);
int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int capacity,
                        const struct timespec *timeout, const sigset_t *mask);
int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int capacity,
                        const struct timespec *timeout, const sigset_t *mask)
{
    if (!kernel_lacks_pwait2) return __real_epoll_pwait2(fd, events, capacity, timeout, mask);
    errno = ENOSYS;
    return -1;
}

static void wait_until(_Atomic int *value, int wanted)
{
    for (int i = 0; i < 10000 && atomic_load(value) < wanted; i++) usleep(500);
    assert_true(atomic_load(value) >= wanted);
}

/* --- Wakes ------------------------------------------------------------------------------------ */

#define WAKERS 4
#define ROUNDS 2000

struct wakes {
    struct sn_env *env;
    struct sn_loop *loop;
    _Atomic int posted[WAKERS]; /* partner: wake_step, which copies it to seen */
    _Atomic int seen[WAKERS];   /* partner: wake_loop_of_one, which waits for its own post */
    _Atomic int lost;           /* partner: the test, after joining */
    _Atomic int steps;          /* partner: the tests, which watch it */
};

static uint64_t wake_step(void *arg, uint64_t now_ns)
{
    struct wakes *wakes = arg;
    (void)now_ns;
    atomic_fetch_add(&wakes->steps, 1);
    for (int i = 0; i < WAKERS; i++) {
        /* Relaxed: it is the wake that must carry the post to us. */
        int posted = atomic_load_explicit(&wakes->posted[i], memory_order_relaxed);
        atomic_store(&wakes->seen[i], posted);
    }
    return UINT64_MAX;
}

struct waker {
    struct wakes *wakes;
    int index;
};

static void *wake_and_check(void *arg)
{
    struct waker *waker = arg;
    struct wakes *wakes = waker->wakes;
    for (int round = 1; round <= ROUNDS; round++) {
        atomic_store_explicit(&wakes->posted[waker->index], round, memory_order_relaxed);
        sn_env_loop_wake(wakes->env, wakes->loop);
        if (round % 3 == 0) continue; /* some wakes in bursts */
        uint64_t begin = sn_env_now_ns(wakes->env);
        while (atomic_load(&wakes->seen[waker->index]) < round) {
            if (sn_env_now_ns(wakes->env) - begin > 5000000000u) {
                atomic_fetch_add(&wakes->lost, 1);
                return NULL;
            }
            sched_yield();
        }
    }
    return NULL;
}

static void no_wake_is_lost(void **state)
{
    struct fixture *fixture = *state;
    struct wakes wakes = {.env = fixture->env};
    struct waker wakers[WAKERS];
    pthread_t threads[WAKERS];
    assert_ok(sn_env_loop_new(fixture->env, "a-rather-long-name", wake_step, &wakes, &wakes.loop));
    assert_ok(sn_env_loop_start(fixture->env, wakes.loop));
    for (int i = 0; i < WAKERS; i++) {
        wakers[i] = (struct waker){&wakes, i};
        assert_int_equal(pthread_create(&threads[i], NULL, wake_and_check, &wakers[i]), 0);
    }
    for (int i = 0; i < WAKERS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wakes.lost), 0);
    /* Asleep now: not one more step without a reason. */
    usleep(20000);
    int before = atomic_load(&wakes.steps);
    usleep(50000);
    assert_int_equal(atomic_load(&wakes.steps), before);
    sn_env_loop_free(fixture->env, wakes.loop);
}

/* The wake that comes during a step, where going to sleep could overwrite it: here always. */
static uint64_t self_wake_step(void *arg, uint64_t now_ns)
{
    struct wakes *wakes = arg;
    (void)now_ns;
    if (atomic_fetch_add(&wakes->steps, 1) < 100) sn_env_loop_wake(wakes->env, wakes->loop);
    return UINT64_MAX;
}

static void wake_during_a_step_is_kept(void **state)
{
    struct fixture *fixture = *state;
    struct wakes wakes = {.env = fixture->env};
    assert_ok(sn_env_loop_new(fixture->env, "self", self_wake_step, &wakes, &wakes.loop));
    assert_ok(sn_env_loop_start(fixture->env, wakes.loop));
    wait_until(&wakes.steps, 101);
    sn_env_loop_free(fixture->env, wakes.loop);
    assert_int_equal(atomic_load(&wakes.steps), 101);
}

static void stop_is_never_missed(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 300; i++) {
        struct wakes wakes = {.env = fixture->env};
        assert_ok(sn_env_loop_new(fixture->env, "stop", wake_step, &wakes, &wakes.loop));
        sn_env_loop_wake(fixture->env, wakes.loop); /* before the start: fine */
        assert_ok(sn_env_loop_start(fixture->env, wakes.loop));
        if (i % 2) wait_until(&wakes.steps, 1);
        sn_env_loop_stop(fixture->env, wakes.loop);
        sn_env_loop_stop(fixture->env, wakes.loop); /* twice: fine */
        sn_env_loop_free(fixture->env, wakes.loop);
    }
    sn_env_loop_free(fixture->env, NULL);
}

static void construction_survives_failed_allocations(void **state)
{
    struct fixture *fixture = *state;
    struct wakes wakes = {.env = fixture->env};
    size_t in_use = sn_alloc_in_use();
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_env_loop_new(fixture->env, "x", wake_step, &wakes, &wakes.loop), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_int_equal(sn_alloc_in_use(), in_use);
    assert_ok(sn_env_loop_new(fixture->env, "x", wake_step, &wakes, &wakes.loop));
    sn_env_loop_free(fixture->env, wakes.loop); /* never started */
}

/* --- Time ------------------------------------------------------------------------------------- */

#define TIMERS 40

struct timing {
    struct sn_env *env;
    uint64_t deadline_ns;
    _Atomic int fired; /* partner: the test */
    _Atomic int early; /* partner: the test */
    _Atomic int steps; /* partner: the test */
};

static uint64_t timing_step(void *arg, uint64_t now_ns)
{
    struct timing *timing = arg;
    atomic_fetch_add(&timing->steps, 1);
    if (timing->deadline_ns != 0) {
        if (now_ns < timing->deadline_ns) {
            atomic_fetch_add(&timing->early, 1);
            return timing->deadline_ns;
        }
        if (atomic_fetch_add(&timing->fired, 1) + 1 == TIMERS) return UINT64_MAX;
    }
    /* Odd lengths from 1 ns to 2 ms. */
    timing->deadline_ns = now_ns + 1 + (uint64_t)atomic_load(&timing->fired) * 50021;
    return timing->deadline_ns;
}

static void check_timing(struct sn_env *env)
{
    struct timing timing = {.env = env};
    struct sn_loop *loop;
    assert_ok(sn_env_loop_new(env, "timing", timing_step, &timing, &loop));
    assert_ok(sn_env_loop_start(env, loop));
    wait_until(&timing.fired, TIMERS);
    sn_env_loop_free(env, loop);
    assert_int_equal(atomic_load(&timing.early), 0);
    assert_int_equal(atomic_load(&timing.steps), TIMERS + 1); /* one each: no spinning */
}

static void timers_are_never_early(void **state)
{
    struct fixture *fixture = *state;
    check_timing(fixture->env);
    kernel_lacks_pwait2 = 1;
    check_timing(fixture->env);
    kernel_lacks_pwait2 = 0;
}

static uint64_t busy_step(void *arg, uint64_t now_ns)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    return now_ns; /* at once */
}

static void asking_for_now_polls(void **state)
{
    struct fixture *fixture = *state;
    _Atomic int steps = 0;
    struct sn_loop *loop;
    assert_ok(sn_env_loop_new(fixture->env, "busy", busy_step, &steps, &loop));
    assert_ok(sn_env_loop_start(fixture->env, loop));
    wait_until(&steps, 1000);
    sn_env_loop_free(fixture->env, loop);
}

/* --- Watches ---------------------------------------------------------------------------------- */

#define WATCHES 20

struct party {
    struct sn_watch watch; /* first, so that a callback finds its party */
    struct crowd *crowd;
    struct sn_sock sock;
    struct sn_sock peer;
    int is_watched;
};

/* Each step watches everybody and makes everybody ready; each report unwatches the next party, so that
 * half of each batch is stale by the time its turn comes. */
struct crowd {
    struct sn_env *env;
    struct sn_loop *loop;
    struct party parties[WATCHES];
    _Atomic int reports; /* partner: the test, which waits for it to rise */
    _Atomic int stale;   /* partner: the test */
};

static void party_ready(struct sn_watch *watch, unsigned ready)
{
    (void)ready;
    struct party *party = (struct party *)(void *)watch;
    struct crowd *crowd = party->crowd;
    size_t index = (size_t)(party - crowd->parties);
    struct party *next = &crowd->parties[(index + 1) % WATCHES];
    char bytes[64];
    size_t size;
    if (!party->is_watched) atomic_fetch_add(&crowd->stale, 1);
    while (sn_env_read(crowd->env, party->sock, bytes, sizeof bytes, &size) == SN_OK) continue;
    sn_env_unwatch(crowd->env, crowd->loop, &next->watch); /* harmless when it is not watched */
    next->is_watched = 0;
    atomic_fetch_add(&crowd->reports, 1);
}

static uint64_t crowd_step(void *arg, uint64_t now_ns)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < WATCHES; i++) {
        struct party *party = &crowd->parties[i];
        size_t size;
        enum sn_err err = SN_OK;
        if (!party->is_watched) {
            err = sn_env_watch(crowd->env, crowd->loop, &party->watch, party->sock);
        }
        party->is_watched = err == SN_OK;
        /* EAGAIN when it is full of unread bytes: it is ready then as well. */
        err = sn_env_write(crowd->env, party->peer, "x", 1, &size);
        if (!party->is_watched || (err != SN_OK && err != SN_EAGAIN)) {
            atomic_fetch_add(&crowd->stale, 1);
        }
    }
    return now_ns;
}

static uint64_t idle_step(void *arg, uint64_t now_ns)
{
    (void)arg;
    (void)now_ns;
    return UINT64_MAX;
}

static void open_pair(struct sn_sock *out_a, struct sn_sock *out_b)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    out_a->id = fds[0];
    out_b->id = fds[1];
}

static void unwatched_is_not_reported(void **state)
{
    struct fixture *fixture = *state;
    static struct crowd crowd;
    memset(&crowd, 0, sizeof crowd);
    crowd.env = fixture->env;
    assert_ok(sn_env_loop_new(fixture->env, "crowd", crowd_step, &crowd, &crowd.loop));
    for (int i = 0; i < WATCHES; i++) {
        struct party *party = &crowd.parties[i];
        party->crowd = &crowd;
        party->watch.ready = party_ready;
        open_pair(&party->sock, &party->peer);
        party->watch.sock = SN_SOCK_NONE;
    }
    assert_ok(sn_env_loop_start(fixture->env, crowd.loop));
    wait_until(&crowd.reports, 2000);
    sn_env_loop_stop(fixture->env, crowd.loop);
    assert_int_equal(atomic_load(&crowd.stale), 0);
    for (int i = 0; i < WATCHES; i++) {
        sn_env_unwatch(fixture->env, crowd.loop, &crowd.parties[i].watch);
        sn_env_close(fixture->env, crowd.parties[i].sock);
        sn_env_close(fixture->env, crowd.parties[i].peer);
    }
    sn_env_loop_free(fixture->env, crowd.loop);
}

struct listener {
    struct sn_watch watch;
    _Atomic int reads;   /* partner: the test, which waits for them to rise */
    _Atomic int hangups; /* partner: the test */
};

static void listener_ready(struct sn_watch *watch, unsigned ready)
{
    struct listener *listener = (struct listener *)(void *)watch;
    if (ready & SN_READY_READ) atomic_fetch_add(&listener->reads, 1);
    if (ready & SN_READY_HANGUP) atomic_fetch_add(&listener->hangups, 1);
}

static void half_close_is_no_hangup(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct listener listener = {.watch = {.ready = listener_ready}};
    struct sn_sock sock, peer;
    struct sn_loop *loop;
    size_t size;
    open_pair(&sock, &peer);
    assert_ok(sn_env_loop_new(env, "hangup", idle_step, NULL, &loop));
    assert_ok(sn_env_watch(env, loop, &listener.watch, sock));
    assert_ok(sn_env_loop_start(env, loop));
    assert_ok(sn_env_write(env, peer, "x", 1, &size));
    wait_until(&listener.reads, 1);
    int before = atomic_load(&listener.reads);
    sn_env_shutdown_write(env, peer);
    wait_until(&listener.reads, before + 1);
    assert_int_equal(atomic_load(&listener.hangups), 0);
    sn_env_close(env, peer);
    wait_until(&listener.hangups, 1);
    sn_env_loop_stop(env, loop);
    sn_env_unwatch(env, loop, &listener.watch);
    sn_env_close(env, sock);
    sn_env_loop_free(env, loop);
}

/* --- Requests of the operator ----------------------------------------------------------------- */

struct requests {
    _Atomic int terminations; /* partner: the test, which waits for it to rise */
    _Atomic int reloads;      /* likewise */
};

static void take_request(void *arg, enum sn_env_request request)
{
    struct requests *requests = arg;
    if (request == SN_REQUEST_TERMINATE) atomic_fetch_add(&requests->terminations, 1);
    if (request == SN_REQUEST_RELOAD) atomic_fetch_add(&requests->reloads, 1);
}

static void signals_arrive_as_requests(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct requests requests = {0, 0};
    struct sn_loop *loop, *second;
    assert_ok(sn_env_loop_new(env, "requests", idle_step, NULL, &loop));
    assert_ok(sn_env_loop_new(env, "second", idle_step, NULL, &second));
    assert_ok(sn_env_on_request(env, loop, take_request, &requests));
    assert_int_equal(sn_env_on_request(env, second, take_request, &requests), SN_ESTATE);
    assert_ok(sn_env_loop_start(env, loop));
    kill(getpid(), SIGHUP);
    wait_until(&requests.reloads, 1);
    kill(getpid(), SIGTERM);
    wait_until(&requests.terminations, 1);
    kill(getpid(), SIGINT);
    wait_until(&requests.terminations, 2);
    assert_int_equal(atomic_load(&requests.reloads), 1);
    sn_env_loop_free(env, loop);
    /* The place is free again. */
    assert_ok(sn_env_on_request(env, second, take_request, &requests));
    sn_env_loop_free(env, second);
}

/* Without a handler Ctrl-C must still end a command that waits. */
static void waiting_command_can_be_interrupted(void **state)
{
    struct fixture *fixture = *state;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct sn_sock sock, peer;
        open_pair(&sock, &peer);
        kill(getpid(), SIGINT); /* pending until the wait lets it through */
        enum sn_err err = sn_env_wait(fixture->env, sock, SN_READY_READ, 5000);
        _exit(err == SN_OK ? 1 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_wake_is_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wake_during_a_step_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stop_is_never_missed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(construction_survives_failed_allocations, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(timers_are_never_early, set_up, tear_down),
        cmocka_unit_test_setup_teardown(asking_for_now_polls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unwatched_is_not_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_close_is_no_hangup, set_up, tear_down),
        cmocka_unit_test_setup_teardown(signals_arrive_as_requests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waiting_command_can_be_interrupted, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
