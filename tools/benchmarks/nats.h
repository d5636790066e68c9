/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small client of NATS core for benchmarks: CONNECT, SUB, PUB and MSG, PING and PONG, over plain TCP. It writes in
 * batches and reads in large pieces, so that the server is what is measured. Not thread-safe; blocks.
 * Errors end the program with a message: a benchmark that went wrong has no result.
 */
#ifndef SN_TOOLS_BENCHMARKS_NATS_H
#define SN_TOOLS_BENCHMARKS_NATS_H

#include <stddef.h>
#include <stdint.h>

struct nats;

struct nats_message {
    const char *subject; /* these point into the read buffer: valid until the next nats_read */
    size_t subject_size;
    const char *reply; /* NULL = nobody waits for an answer */
    size_t reply_size;
    const uint8_t *payload;
    size_t size;
};

/* Connects to 127.0.0.1 and shakes hands. */
struct nats *nats_open(uint16_t port);
void nats_close(struct nats *nats);

/* Subscribes; nats_sync makes sure that the server knows. */
void nats_subscribe(struct nats *nats, const char *subject, unsigned sid);
/* Waits until the server has taken everything before. No message may be under way. */
void nats_sync(struct nats *nats);

/* Puts a message into the batch, which is written when it is full. `reply` may be NULL. */
void nats_publish(struct nats *nats, const char *subject, size_t subject_size, const char *reply,
                  const void *payload, size_t size);
void nats_flush(struct nats *nats);

/* The next message; answers PING meanwhile. Does not flush: what somebody waits for must have been flushed. */
void nats_read(struct nats *nats, struct nats_message *out_message);

/* Prints and exits with 1. */
_Noreturn void nats_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
