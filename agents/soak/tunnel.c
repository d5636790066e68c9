/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scenario `tunnel`: the runner is the client in front of the edge's forward and the service behind the hub's
 * target. Bytes go up until their end, then others come back down the same connection.
 * Guarantee: the SHA-256 is that of what was read from the socket, computed apart from the comparison of the bytes.
 */
#include <string.h>

#include "agents/soak/soak.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "crypto/key.h"

#define EXTRA_BYTES 4096u /* room to notice bytes that nobody sent */
#define WAIT_MS     50u   /* how late an interrupt may be noticed */
#define CHUNK_BYTES 65536u

struct transfer {
    struct sn_rig *rig;
    struct sn_soak_tunnel *tunnel;
    struct sn_sock client;  /* on the forward */
    struct sn_sock service; /* accepted from the target */
    uint64_t deadline_ns;
    size_t size;
    size_t offset; /* of what was written in this direction; size + 1: to the end */
};

static enum sn_err listen_target(struct sn_soak *soak, struct sn_soak_tunnel *tunnel)
{
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .port = tunnel->port, .ip = {127, 0, 0, 1}};
    struct sn_netaddr bound;
    return sn_env_listen(soak->env, &addr, &tunnel->listener, &bound);
}

enum sn_err sn_soak_tunnel_open(struct sn_soak *soak, struct sn_soak_tunnel *out_tunnel)
{
    struct sn_soak_tunnel tunnel = {.listener = SN_SOCK_NONE};
    enum sn_err err = SN_OK;
    if (soak->scenario.kind == SN_SOAK_TUNNEL) {
        tunnel.sent = sn_alloc_raw(soak->scenario.bytes);
        tunnel.got = sn_alloc_raw(soak->scenario.bytes + EXTRA_BYTES);
        if (tunnel.sent == NULL || tunnel.got == NULL) err = SN_ENOMEM;
    }
    if (err == SN_OK) err = sn_soak_choose_port(soak->env, SN_SOAK_PORTS_TARGET, &tunnel.port);
    if (err == SN_OK && soak->scenario.target_late_ms == 0) err = listen_target(soak, &tunnel);
    if (err != SN_OK) {
        sn_soak_tunnel_close(soak, &tunnel);
        return err;
    }
    *out_tunnel = tunnel;
    return SN_OK;
}

void sn_soak_tunnel_close(struct sn_soak *soak, struct sn_soak_tunnel *tunnel)
{
    if (sn_sock_is_open(tunnel->listener)) sn_env_close(soak->env, tunnel->listener);
    sn_free(tunnel->sent, soak->scenario.bytes);
    sn_free(tunnel->got, soak->scenario.bytes + EXTRA_BYTES);
    *tunnel = (struct sn_soak_tunnel){.listener = SN_SOCK_NONE};
}

/* Waits a little. Errors: ETIMEDOUT when there is no time left at all. */
static enum sn_err wait_for(struct transfer *transfer, struct sn_sock sock, unsigned interest)
{
    struct sn_soak *soak = transfer->rig->soak;
    if (sn_soak_is_over(soak, transfer->deadline_ns)) return SN_ETIMEDOUT;
    enum sn_err err = sn_env_wait(soak->env, sock, interest, WAIT_MS);
    return err == SN_ETIMEDOUT ? SN_OK : err;
}

static enum sn_err connect_client(struct transfer *transfer)
{
    struct sn_env *env = transfer->rig->soak->env;
    struct sn_netaddr addr = {
        .family = SN_NETADDR_IP4, .port = transfer->rig->forward_port, .ip = {127, 0, 0, 1}};
    enum sn_err err = sn_env_connect(env, &addr, &transfer->client);
    if (err != SN_OK) return err;
    while ((err = sn_env_connect_result(env, transfer->client)) == SN_EAGAIN) {
        err = wait_for(transfer, transfer->client, SN_READY_WRITE);
        if (err != SN_OK) return err;
    }
    return err;
}

/* Writes what the socket takes. At the end: closes that direction. */
static enum sn_err push(struct transfer *transfer, struct sn_sock sock)
{
    struct sn_env *env = transfer->rig->soak->env;
    enum sn_err err = SN_OK;
    if (transfer->offset > transfer->size) return SN_OK; /* closed */
    while (transfer->offset < transfer->size && err == SN_OK) {
        size_t sent = 0;
        size_t chunk = transfer->size - transfer->offset;
        if (chunk > CHUNK_BYTES) chunk = CHUNK_BYTES;
        err = sn_env_write(env, sock, transfer->tunnel->sent + transfer->offset, chunk, &sent);
        if (err == SN_OK) transfer->offset += sent;
    }
    if (err != SN_OK) return err == SN_EAGAIN ? SN_OK : err;
    sn_env_shutdown_write(env, sock);
    transfer->offset = transfer->size + 1;
    return SN_OK;
}

/* The client sends while nobody listens at the target, for as long as the scenario says. */
static enum sn_err send_before_target(struct transfer *transfer)
{
    struct sn_soak *soak = transfer->rig->soak;
    uint64_t until_ns = sn_soak_deadline(soak, soak->scenario.target_late_ms);
    while (!sn_soak_is_over(soak, until_ns)) {
        enum sn_err err = push(transfer, transfer->client);
        if (err != SN_OK) return err;
        sn_soak_pause(soak, SN_SOAK_POLL_MS);
    }
    return listen_target(soak, transfer->tunnel);
}

static enum sn_err accept_service(struct transfer *transfer)
{
    struct sn_env *env = transfer->rig->soak->env;
    struct sn_sock listener = transfer->tunnel->listener;
    enum sn_err err;
    while ((err = sn_env_accept(env, listener, &transfer->service, NULL)) == SN_EAGAIN) {
        err = wait_for(transfer, listener, SN_READY_READ);
        if (err != SN_OK) return err;
    }
    return err;
}

/* Sends everything from one end and reads to the end of the stream at the other. Errors: as of sockets; ETOOBIG when
 * more comes than was sent. */
static enum sn_err run_one_way(struct transfer *transfer, struct sn_sock from, struct sn_sock to,
                               size_t *out_got)
{
    struct sn_env *env = transfer->rig->soak->env;
    for (;;) {
        size_t got = 0;
        enum sn_err err = push(transfer, from);
        if (err != SN_OK) return err;
        size_t room = transfer->size + EXTRA_BYTES - *out_got;
        if (room == 0) return SN_ETOOBIG;
        err = sn_env_read(env, to, transfer->tunnel->got + *out_got, room, &got);
        if (err == SN_ECLOSED) return SN_OK;
        if (err == SN_OK) *out_got += got;
        if (err == SN_EAGAIN) err = wait_for(transfer, to, SN_READY_READ);
        if (err != SN_OK) return err;
    }
}

/* Compares what came with what was sent. */
static void count(const struct transfer *transfer, size_t got, struct sn_soak_run *run)
{
    const struct sn_soak_tunnel *tunnel = transfer->tunnel;
    uint8_t sent_digest[SN_DIGEST_BYTES];
    uint8_t got_digest[SN_DIGEST_BYTES];
    size_t common = got < transfer->size ? got : transfer->size;
    uint64_t altered = 0;
    for (size_t i = 0; i < common; i++) altered += tunnel->sent[i] != tunnel->got[i];
    run->counts.sent += transfer->size;
    run->counts.delivered += common - altered;
    run->counts.altered += altered;
    run->counts.lost += transfer->size - common;
    run->counts.doubled += got - common;
    sn_sha256(tunnel->sent, transfer->size, sent_digest);
    sn_sha256(tunnel->got, got, got_digest);
    run->is_digest_equal &= memcmp(sent_digest, got_digest, sizeof got_digest) == 0;
}

static int transfer_one_way(struct transfer *transfer, const char *way, struct sn_sock from,
                            struct sn_sock to, struct sn_soak_run *run)
{
    struct sn_soak_verdict *verdict = &transfer->rig->soak->verdict;
    size_t got = 0;
    enum sn_err err = run_one_way(transfer, from, to, &got);
    count(transfer, got, run);
    if (err == SN_OK && run->is_digest_equal) return 1;
    sn_verdict_fail(verdict, "%s: %zu of %zu bytes came, SHA-256 %s: %s", way, got, transfer->size,
                    run->is_digest_equal ? "equal" : "different",
                    err == SN_OK ? "to the end" : sn_err_text(err));
    return 0;
}

static void begin(struct transfer *transfer, uint64_t seed)
{
    sn_soak_fill(seed, transfer->tunnel->sent, transfer->size);
    transfer->offset = 0;
}

static int transfer_both_ways(struct transfer *transfer, struct sn_soak_run *run)
{
    struct sn_soak *soak = transfer->rig->soak;
    uint64_t seed = soak->seed ^ ((uint64_t)(soak->verdict.run_count + 1) << 32);
    begin(transfer, seed);
    enum sn_err err = connect_client(transfer);
    if (err == SN_OK && soak->scenario.target_late_ms != 0) err = send_before_target(transfer);
    if (err == SN_OK) err = accept_service(transfer);
    if (err != SN_OK) {
        sn_verdict_fail(&soak->verdict, "no connection through the forward: %s", sn_err_text(err));
        return 0;
    }
    run->is_digest_equal = 1;
    if (!transfer_one_way(transfer, "up", transfer->client, transfer->service, run)) return 0;
    begin(transfer, ~seed);
    return transfer_one_way(transfer, "down", transfer->service, transfer->client, run);
}

int sn_soak_tunnel_run(struct sn_rig *rig, struct sn_soak_tunnel *tunnel, struct sn_soak_run *run)
{
    struct sn_soak *soak = rig->soak;
    struct transfer transfer = {.rig = rig,
                                .tunnel = tunnel,
                                .client = SN_SOCK_NONE,
                                .service = SN_SOCK_NONE,
                                .deadline_ns = sn_soak_deadline(soak, soak->scenario.timeout_ms),
                                .size = soak->scenario.bytes};
    int is_fine = transfer_both_ways(&transfer, run);
    if (!is_fine) run->is_digest_equal = 0;
    if (sn_sock_is_open(transfer.client)) sn_env_close(soak->env, transfer.client);
    if (sn_sock_is_open(transfer.service)) sn_env_close(soak->env, transfer.service);
    if (soak->scenario.target_late_ms != 0 && sn_sock_is_open(tunnel->listener)) {
        sn_env_close(soak->env, tunnel->listener);
        tunnel->listener = SN_SOCK_NONE;
    }
    int has_lasted = sn_rig_check_sessions(rig, run);
    return is_fine && sn_rig_await_no_streams(rig) && sn_rig_check_ledgers(rig, 0, run) &&
           has_lasted;
}
