/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/carrier_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "env/env_posix.h"
#include "unit/rng.h"

#define DAY_S 86400

static const struct sn_lane_ops end_ops;

void world_problem(struct world *world, const char *what, uint64_t a, uint64_t b)
{
    pthread_mutex_lock(&world->lock);
    if (world->problem[0] == '\0') { /* the first one tells */
        (void)snprintf(world->problem, sizeof world->problem, "%s (%llu, %llu)", what,
                       (unsigned long long)a, (unsigned long long)b);
    }
    pthread_mutex_unlock(&world->lock);
}

static void check_problem(struct world *world)
{
    pthread_mutex_lock(&world->lock);
    char problem[sizeof world->problem];
    memcpy(problem, world->problem, sizeof problem);
    pthread_mutex_unlock(&world->lock);
    if (problem[0] != '\0') fail_msg("%s", problem);
}

void world_sleep_ms(uint32_t ms)
{
    struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

/* --- Between the test's thread and the workers ------------------------------------------------------------------ */

struct call {
    struct sn_task task;
    void (*fn)(void *arg);
    int (*predicate)(void *arg);
    void *arg;
    int result;
    pthread_mutex_t lock;
    pthread_cond_t done_changed;
    int is_done;
};

static void run_call(struct sn_task *task, struct sn_worker *worker)
{
    struct call *call = SN_CONTAINER_OF(task, struct call, task);
    (void)worker;
    if (call->fn != NULL) call->fn(call->arg);
    if (call->predicate != NULL) call->result = call->predicate(call->arg);
    pthread_mutex_lock(&call->lock);
    call->is_done = 1;
    pthread_cond_signal(&call->done_changed);
    pthread_mutex_unlock(&call->lock);
}

static int do_call(struct sn_worker *worker, void (*fn)(void *arg), int (*predicate)(void *arg),
                   void *arg)
{
    struct call call = {.task.run = run_call, .fn = fn, .predicate = predicate, .arg = arg};
    pthread_mutex_init(&call.lock, NULL);
    pthread_cond_init(&call.done_changed, NULL);
    sn_worker_post(worker, &call.task);
    pthread_mutex_lock(&call.lock);
    while (!call.is_done) pthread_cond_wait(&call.done_changed, &call.lock);
    pthread_mutex_unlock(&call.lock);
    pthread_cond_destroy(&call.done_changed);
    pthread_mutex_destroy(&call.lock);
    return call.result;
}

void world_call(struct world *world, struct sn_worker *worker, void (*fn)(void *arg), void *arg)
{
    (void)do_call(worker, fn, NULL, arg);
    check_problem(world);
}

void world_until(struct world *world, struct sn_worker *worker, int (*fn)(void *arg), void *arg)
{
    uint64_t begin = sn_env_now_ns(world->env);
    while (!do_call(worker, NULL, fn, arg)) {
        check_problem(world);
        if (sn_env_now_ns(world->env) - begin > WAIT_MS * SN_MS) fail_msg("it took too long");
        world_sleep_ms(1);
    }
    check_problem(world);
}

uint32_t world_descriptors(struct world *world)
{
    struct sn_process_info info;
    sn_env_process_info(world->env, &info);
    return info.descriptors;
}

/* --- Members ------------------------------------------------------------------------------------------------------ */

static struct sn_key *key_of(uint8_t fill)
{
    uint8_t seed[32];
    struct sn_key *key = NULL;
    memset(seed, fill, sizeof seed);
    assert_int_equal(sn_key_from_seed(seed, &key), SN_OK);
    return key;
}

void member_init(struct world *world, struct member *member, const char *agent, uint8_t seed,
                 enum flaw flaw)
{
    uint8_t bytes[SN_CERT_BYTES_MAX];
    size_t size = 0;
    int64_t now_s = sn_env_wall_ms(world->env) / 1000;
    memset(member, 0, sizeof *member);
    member->key = key_of(seed);
    member->id = sn_key_id(member->key);
    (void)snprintf(member->agent, sizeof member->agent, "%s", agent);
    struct sn_cert cert = {.node = member->id, .serial = 1};
    cert.not_before_s = flaw == NOT_YET ? now_s + DAY_S : now_s - DAY_S;
    cert.not_after_s = flaw == EXPIRED ? now_s - DAY_S / 2 : now_s + 2 * DAY_S;
    (void)snprintf(cert.mesh, sizeof cert.mesh, "%s", flaw == OTHER_MESH ? "other" : "demo");
    (void)snprintf(cert.agent, sizeof cert.agent, "%s", agent);
    const struct sn_key *signer = flaw == STRANGE_AUTHORITY ? world->stranger : world->authority;
    assert_int_equal(sn_cert_sign(&cert, signer, bytes, sizeof bytes, &size), SN_OK);
    if (flaw == ALTERED) bytes[size - 1] ^= 1;
    if (flaw == NO_CERTIFICATE) size = 0;
    assert_int_equal(
        sn_tls_identity_new(member->key, size == 0 ? NULL : bytes, size, &member->identity), SN_OK);
    member->trust = (struct sn_trust){
        .mesh = "demo", .authorities = &world->authority_id, .authority_count = 1};
}

void member_fini(struct member *member)
{
    sn_carrier_free(member->carrier);
    sn_tls_identity_free(member->identity);
    sn_key_free(member->key);
    memset(member, 0, sizeof *member);
}

/* --- Ends ------------------------------------------------------------------------------------- */

void world_fill(uint8_t *out, size_t size, uint64_t offset, uint64_t seed)
{
    for (size_t i = 0; i < size;) {
        uint64_t at = offset + i;
        uint64_t state = seed + at / 8 * 0x9e3779b97f4a7c15u;
        uint64_t word = rng_next(&state);
        for (unsigned byte = (unsigned)(at % 8); byte < 8 && i < size; byte++, i++) {
            out[i] = (uint8_t)(word >> (8 * byte));
        }
    }
}

static uint8_t *scratch_of(struct end *end)
{
    return end->world->scratch[sn_worker_index(end->worker)];
}

void end_free(void *arg)
{
    struct end *end = arg;
    if (end->lane != NULL) sn_lane_free(end->lane);
    end->lane = NULL;
}

/* Writes pieces of random size, flushing at random, until all is sent or the lane is full. */
void end_send(void *arg)
{
    struct end *end = arg;
    uint8_t *scratch = scratch_of(end);
    while (end->lane != NULL && end->sent < end->to_send) {
        size_t size = 1 + rng_below(&end->rng, rng_below(&end->rng, 4) == 0 ? 200000 : 3000);
        size_t put = 0;
        if (size > end->to_send - end->sent) size = (size_t)(end->to_send - end->sent);
        world_fill(scratch, size, end->sent, end->seed_out);
        size_t room = sn_lane_write_room(end->lane);
        enum sn_err err = sn_lane_write(end->lane, scratch, size, &put);
        if (err == SN_EAGAIN) end->refusals++;
        if (err == SN_EAGAIN && room > 0) world_problem(end->world, "room was promised", room, 0);
        if (err == SN_ENOMEM) sn_lane_close(end->lane); /* nobody would call back */
        if (err != SN_OK) break;
        end->sent += put;
        if (put < size && put < room) { /* promised more, so the connection broke meanwhile */
            err = sn_lane_write(end->lane, scratch, 1, &put);
            if (err != SN_ECLOSED) world_problem(end->world, "less than promised", put, room);
            break;
        }
        if (rng_below(&end->rng, 8) == 0) sn_lane_flush(end->lane);
    }
    if (end->lane == NULL) return;
    sn_lane_flush(end->lane);
    if (end->sent == end->to_send && end->close_when_sent) {
        end->close_when_sent = 0;
        sn_lane_close(end->lane);
    }
}

static void on_opened(void *user, struct sn_lane *lane)
{
    struct end *end = user;
    if (end->opened++ > 0) world_problem(end->world, "opened twice", 0, 0);
    if (!lane->is_open) world_problem(end->world, "not open", 0, 0);
    end->peer = lane->peer;
    if (end->free_at == AT_OPENED) {
        end_free(end);
        return;
    }
    end_send(end);
}

static void arrive(struct sn_task *task, struct sn_worker *worker)
{
    struct end *end = SN_CONTAINER_OF(task, struct end, task);
    end->worker = worker;
    if (sn_lane_attach(end->lane, worker) != SN_OK) world_problem(end->world, "attach", 0, 0);
    end_send(end);
}

/* Goes to the other worker from within a callback. */
static int move_away(struct end *end)
{
    if (end->moves == 0 || rng_below(&end->rng, 4) != 0) return 0;
    end->moves--;
    uint32_t other = 1 - sn_worker_index(end->worker);
    sn_lane_detach(end->lane);
    end->task.run = arrive;
    sn_worker_post(end->world->workers[other], &end->task);
    return 1;
}

static void on_readable(void *user, struct sn_lane *lane)
{
    struct end *end = user;
    struct world *world = end->world;
    static _Thread_local uint8_t expected[256 * 1024];
    uint8_t *scratch = scratch_of(end);
    end->readable++;
    if (end->failed) world_problem(world, "readable after failed", 0, 0);
    if (!end->opened) world_problem(world, "readable before opened", 0, 0);
    if (end->free_at == AT_READABLE) {
        end_free(end);
        return;
    }
    for (unsigned i = 0; end->received < end->read_max; i++) {
        size_t got = 0;
        size_t size = 1 + rng_below(&end->rng, 256 * 1024);
        if (size > end->read_max - end->received) size = (size_t)(end->read_max - end->received);
        if (i == 4) {
            sn_lane_resume_read(lane);
            break;
        }
        enum sn_err err = sn_lane_read(lane, scratch, size, &got);
        if (err == SN_EAGAIN) break;
        if (err != SN_OK || got == 0 || got > size) {
            world_problem(world, "read", (uint64_t)err, got);
            break;
        }
        world_fill(expected, got, end->received, end->seed_in);
        if (memcmp(expected, scratch, got) != 0) {
            world_problem(world, "bytes differ", end->received, got);
        }
        end->received += got;
        atomic_store(&end->received_shown, end->received);
    }
    (void)move_away(end); /* the last that is done here */
}

static void on_writable(void *user, struct sn_lane *lane)
{
    struct end *end = user;
    (void)lane;
    if (end->failed) world_problem(end->world, "writable after failed", 0, 0);
    if (end->free_at == AT_WRITABLE) {
        end_free(end);
        return;
    }
    if (move_away(end)) return;
    end_send(end);
}

static void on_failed(void *user, struct sn_lane *lane, const struct sn_lane_failure *failure)
{
    struct end *end = user;
    size_t size = 0;
    uint8_t byte = 0;
    if (end->failed++ > 0) world_problem(end->world, "failed twice", 0, 0);
    if (failure->err == SN_OK) world_problem(end->world, "failed without a reason", 0, 0);
    if (failure->was_open != (end->opened > 0)) world_problem(end->world, "was_open", 0, 0);
    end->failure = *failure;
    if (sn_lane_read(lane, &byte, 1, &size) != SN_EAGAIN) {
        world_problem(end->world, "read after the end", 0, 0);
    }
    if (sn_lane_write(lane, &byte, 1, &size) != SN_ECLOSED) {
        world_problem(end->world, "write after the end", 0, 0);
    }
    sn_lane_flush(lane);
    sn_lane_resume_read(lane);
    sn_lane_close(lane);
    if (!end->keep_failed) end_free(end);
}

static const struct sn_lane_ops end_ops = {on_opened, on_readable, on_writable, on_failed};

static void end_init(struct world *world, struct end *end, struct sn_worker *worker, int is_inbound)
{
    if (end->read_max == 0) end->read_max = UINT64_MAX;
    end->world = world;
    end->worker = worker;
    end->seed_out = is_inbound ? INBOUND_SEED : OUTBOUND_SEED;
    end->seed_in = is_inbound ? OUTBOUND_SEED : INBOUND_SEED;
    end->rng = end->seed_out + (uint64_t)(end - (is_inbound ? world->inbound : world->outbound));
}

void end_resume(void *arg)
{
    struct end *end = arg;
    if (end->lane != NULL) sn_lane_resume_read(end->lane);
}

int end_is_open(void *arg)
{
    return ((struct end *)arg)->opened > 0;
}

int end_has_failed(void *arg)
{
    return ((struct end *)arg)->failed > 0;
}

void end_wait_open(struct end *end)
{
    world_until(end->world, end->worker, end_is_open, end);
}

void end_wait_failed(struct end *end)
{
    world_until(end->world, end->worker, end_has_failed, end);
}

struct inbound_query {
    struct world *world;
    uint32_t index;
};

static int inbound_is_there(void *arg)
{
    struct inbound_query *query = arg;
    return query->world->inbound_count > query->index;
}

struct end *world_inbound(struct world *world, uint32_t index)
{
    struct inbound_query query = {world, index};
    world_until(world, world->workers[0], inbound_is_there, &query);
    return &world->inbound[index];
}

struct dial_call {
    struct member *member;
    struct end *end;
    struct sn_dial dial;
    enum sn_err err;
};

static void do_dial(void *arg)
{
    struct dial_call *call = arg;
    call->err = sn_carrier_dial(call->member->carrier, call->end->worker, &call->dial, &end_ops,
                                call->end, &call->end->lane);
    size_t put = 0;
    if (call->err != SN_OK) return;
    if (sn_lane_write(call->end->lane, "x", 1, &put) != SN_EAGAIN) {
        world_problem(call->end->world, "write before opened", put, 0);
    }
}

enum sn_err world_dial(struct world *world, struct member *member, struct end *end,
                       struct sn_worker *worker, const struct sn_dial *dial)
{
    struct dial_call call = {.member = member, .end = end};
    if (dial != NULL) call.dial = *dial;
    if (call.dial.addr.family == SN_NETADDR_NONE) call.dial.addr = world->bound;
    if (call.dial.timeout_ms == 0) call.dial.timeout_ms = 10000;
    end_init(world, end, worker, 0);
    world_call(world, worker, do_dial, &call);
    return call.err;
}

/* --- The world -------------------------------------------------------------------------------- */

static void on_accepted(void *arg, struct sn_lane *lane)
{
    struct world *world = arg;
    if (world->inbound_count == ENDS_MAX) {
        world_problem(world, "too many inbound lanes", ENDS_MAX, 0);
        sn_lane_free(lane);
        return;
    }
    struct end *end = &world->inbound[world->inbound_count++];
    memcpy(end, &world->model, sizeof *end);
    end_init(world, end, world->workers[0], 1);
    end->lane = lane;
    sn_lane_set_user(lane, &end_ops, end);
}

static void on_shed(void *arg, enum sn_err why, const struct sn_netaddr *remote)
{
    struct world *world = arg;
    (void)remote;
    if (why == SN_EFULL) world->shed_full++;
    if (why == SN_ENOFILES) world->shed_space++;
}

struct world *world_new(const struct carrier_provider *provider)
{
    size_t memory = sn_alloc_in_use();
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->provider = provider;
    world->memory_before = memory;
    pthread_mutex_init(&world->lock, NULL);
    world->handshakes_max = 64;
    world->handshakes_per_address_max = 64;
    world->handshake_timeout_ms = 5000;
    assert_int_equal(sn_env_posix_new(&world->env), SN_OK);
    world->descriptors_before = world_descriptors(world);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(sn_worker_new(world->env, i, "test", world, &world->workers[i]), SN_OK);
    }
    world->authority = key_of(1);
    world->stranger = key_of(2);
    world->authority_id = sn_key_id(world->authority);
    member_init(world, &world->server, "paris/hub", 3, SOUND);
    member_init(world, &world->client, "rome/edge", 4, SOUND);
    return world;
}

static void make_carrier(struct world *world, struct member *member)
{
    struct sn_carrier_config config = {.env = world->env,
                                       .identity = member->identity,
                                       .trust = &member->trust,
                                       .handshakes_max = world->handshakes_max,
                                       .handshakes_per_address_max =
                                           world->handshakes_per_address_max,
                                       .handshake_timeout_ms = world->handshake_timeout_ms,
                                       .accepted = on_accepted,
                                       .shed = on_shed,
                                       .arg = world};
    assert_int_equal(world->provider->carrier_new(&config, &member->carrier), SN_OK);
}

void world_start(struct world *world)
{
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .ip = {127, 0, 0, 1}};
    make_carrier(world, &world->server);
    make_carrier(world, &world->client);
    assert_int_equal(sn_carrier_listen(world->server.carrier, world->workers[0], &addr,
                                       &world->listener, &world->bound),
                     SN_OK);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(sn_worker_start(world->workers[i]), SN_OK);
    }
}

void world_free(struct world *world)
{
    for (uint32_t i = 0; i < WORKERS; i++) sn_worker_stop(world->workers[i]);
    check_problem(world);
    sn_listener_close(world->listener);
    for (uint32_t i = 0; i < ENDS_MAX; i++) {
        end_free(&world->inbound[i]);
        end_free(&world->outbound[i]);
    }
    member_fini(&world->client);
    member_fini(&world->server);
    sn_key_free(world->authority);
    sn_key_free(world->stranger);
    for (uint32_t i = 0; i < WORKERS; i++) sn_worker_free(world->workers[i]);
    assert_int_equal(world_descriptors(world), world->descriptors_before);
    sn_env_posix_free(world->env);
    assert_int_equal(sn_alloc_in_use(), world->memory_before);
    pthread_mutex_destroy(&world->lock);
    free(world);
}
