/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: a transfer is complete only when each direction was read to its end; how much came by
 * then is judged apart. */
#include "agents/soak/duplex.h"

#include <string.h>

#include "agents/soak/soak.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "crypto/key.h"

#define EXTRA_BYTES 4096u /* room to notice bytes that nobody sent */
#define CHUNK_BYTES 65536u
#define STEP_CHUNKS 64u /* of one direction, then the runner looks at other things */

static void free_way(struct sn_duplex_way *way, size_t size)
{
    sn_free(way->sent, size);
    sn_free(way->got, size + EXTRA_BYTES);
    *way = (struct sn_duplex_way){0};
}

static int make_way(struct sn_duplex_way *way, size_t size)
{
    way->sent = sn_alloc_raw(size);
    way->got = sn_alloc_raw(size + EXTRA_BYTES);
    return way->sent != NULL && way->got != NULL;
}

enum sn_err sn_duplex_init(struct sn_env *env, struct sn_sock listener, size_t size,
                           struct sn_duplex *out_duplex)
{
    struct sn_duplex duplex = {.env = env,
                               .listener = listener,
                               .client = SN_SOCK_NONE,
                               .service = SN_SOCK_NONE,
                               .size = size};
    SN_ASSERT(size > 0);
    if (!make_way(&duplex.up, size) || !make_way(&duplex.down, size)) {
        sn_duplex_fini(&duplex);
        return SN_ENOMEM;
    }
    *out_duplex = duplex;
    return SN_OK;
}

void sn_duplex_fini(struct sn_duplex *duplex)
{
    if (duplex->env == NULL) return;
    sn_duplex_end(duplex);
    free_way(&duplex->up, duplex->size);
    free_way(&duplex->down, duplex->size);
    *duplex = (struct sn_duplex){0};
}

static void begin_way(struct sn_duplex_way *way, uint64_t seed, size_t size)
{
    sn_soak_fill(seed, way->sent, size);
    way->offset = way->got_bytes = 0;
    way->is_finished = way->is_ended = 0;
}

enum sn_err sn_duplex_begin(struct sn_duplex *duplex, uint16_t forward_port, uint64_t seed)
{
    struct sn_netaddr addr = {.family = SN_NETADDR_IP4, .port = forward_port, .ip = {127, 0, 0, 1}};
    SN_ASSERT(!sn_sock_is_open(duplex->client) && !sn_sock_is_open(duplex->service));
    begin_way(&duplex->up, seed, duplex->size);
    begin_way(&duplex->down, ~seed, duplex->size);
    duplex->is_connected = 0;
    return sn_env_connect(duplex->env, &addr, &duplex->client);
}

/* Writes what the socket takes; behind the last byte the end. */
static enum sn_err push(struct sn_duplex *duplex, struct sn_duplex_way *way, struct sn_sock sock)
{
    for (unsigned i = 0; i < STEP_CHUNKS && way->offset < duplex->size; i++) {
        size_t put = 0;
        size_t left = duplex->size - way->offset;
        enum sn_err err = sn_env_write(duplex->env, sock, way->sent + way->offset,
                                       left < CHUNK_BYTES ? left : CHUNK_BYTES, &put);
        if (err != SN_OK) return err == SN_EAGAIN ? SN_OK : err;
        way->offset += put;
    }
    if (way->offset < duplex->size || way->is_finished) return SN_OK;
    sn_env_shutdown_write(duplex->env, sock);
    way->is_finished = 1;
    return SN_OK;
}

static enum sn_err pull(struct sn_duplex *duplex, struct sn_duplex_way *way, struct sn_sock sock)
{
    for (unsigned i = 0; i < STEP_CHUNKS && !way->is_ended; i++) {
        size_t got = 0;
        size_t room = duplex->size + EXTRA_BYTES - way->got_bytes;
        if (room == 0) return SN_ETOOBIG;
        enum sn_err err = sn_env_read(duplex->env, sock, way->got + way->got_bytes,
                                      room < CHUNK_BYTES ? room : CHUNK_BYTES, &got);
        if (err == SN_ECLOSED) way->is_ended = 1;
        if (err == SN_EAGAIN || err == SN_ECLOSED) return SN_OK;
        if (err != SN_OK) return err;
        way->got_bytes += got;
    }
    return SN_OK;
}

/* EAGAIN until the forward has accepted the client. */
static enum sn_err connect_client(struct sn_duplex *duplex)
{
    if (duplex->is_connected) return SN_OK;
    enum sn_err err = sn_env_connect_result(duplex->env, duplex->client);
    duplex->is_connected = err == SN_OK;
    return err;
}

enum sn_err sn_duplex_step(struct sn_duplex *duplex)
{
    enum sn_err err = connect_client(duplex);
    if (err != SN_OK) return err;
    if (!sn_sock_is_open(duplex->service)) {
        err = sn_env_accept(duplex->env, duplex->listener, &duplex->service, NULL);
        if (err != SN_OK && err != SN_EAGAIN) return err;
    }
    err = push(duplex, &duplex->up, duplex->client);
    if (err == SN_OK) err = pull(duplex, &duplex->down, duplex->client);
    if (err == SN_OK && sn_sock_is_open(duplex->service)) {
        err = push(duplex, &duplex->down, duplex->service);
        if (err == SN_OK) err = pull(duplex, &duplex->up, duplex->service);
    }
    if (err != SN_OK) return err;
    return duplex->up.is_ended && duplex->down.is_ended ? SN_OK : SN_EAGAIN;
}

void sn_duplex_end(struct sn_duplex *duplex)
{
    if (sn_sock_is_open(duplex->client)) sn_env_close(duplex->env, duplex->client);
    if (sn_sock_is_open(duplex->service)) sn_env_close(duplex->env, duplex->service);
    duplex->client = duplex->service = SN_SOCK_NONE;
}

static int is_way_equal(const struct sn_duplex_way *way, size_t size)
{
    uint8_t sent[SN_DIGEST_BYTES];
    uint8_t got[SN_DIGEST_BYTES];
    sn_sha256(way->sent, size, sent);
    sn_sha256(way->got, way->got_bytes, got);
    return memcmp(sent, got, sizeof got) == 0;
}

int sn_duplex_is_equal(const struct sn_duplex *duplex)
{
    return is_way_equal(&duplex->up, duplex->size) && is_way_equal(&duplex->down, duplex->size);
}
