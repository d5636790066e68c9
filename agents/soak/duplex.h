/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transfer through a forward, in both directions at once, in steps: the runner is the client and the service.
 * Thread-safe: no. Blocking: no.
 */
#ifndef SN_AGENTS_SOAK_DUPLEX_H
#define SN_AGENTS_SOAK_DUPLEX_H

#include "env/env.h"

struct sn_duplex_way {
    uint8_t *sent; /* owned, `size` bytes */
    uint8_t *got;  /* owned, room for a few more, which nobody sent */
    size_t offset; /* of what was written */
    size_t got_bytes;
    uint8_t is_finished; /* all was written, and the end after it */
    uint8_t is_ended;    /* and the end was read */
};

struct sn_duplex {
    struct sn_env *env;
    struct sn_sock listener; /* borrowed: the target's */
    struct sn_sock client;
    struct sn_sock service;
    uint8_t is_connected;
    size_t size; /* in each direction */
    struct sn_duplex_way up, down;
};

/* Errors: ENOMEM; then there is nothing to be freed. */
SN_MUST_CHECK enum sn_err sn_duplex_init(struct sn_env *env, struct sn_sock listener, size_t size,
                                         struct sn_duplex *out_duplex);
void sn_duplex_fini(struct sn_duplex *duplex);

/* Connects to the forward; contents follow from the seed. Errors: as sn_env_connect. */
SN_MUST_CHECK enum sn_err sn_duplex_begin(struct sn_duplex *duplex, uint16_t forward_port,
                                          uint64_t seed);
/* Moves what can be moved now. SN_OK: both directions were read to their ends. Errors: EAGAIN (under way), as of
 * sockets; ETOOBIG when more comes than was sent. */
SN_MUST_CHECK enum sn_err sn_duplex_step(struct sn_duplex *duplex);
/* Closes what is open; the contents stay. */
void sn_duplex_end(struct sn_duplex *duplex);
/* By SHA-256 of what was sent and of what came. */
int sn_duplex_is_equal(const struct sn_duplex *duplex);

#endif
