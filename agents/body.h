/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a control reply: msgpack in memory that grows up to SN_CONTROL_REPLY_BYTES_MAX. Maps have text keys, so
 * that a client can print any of them as JSON or as a table. Thread-safe: no.
 */
#ifndef SN_AGENTS_BODY_H
#define SN_AGENTS_BODY_H

#include "wire/pack.h"

struct sn_body {
    struct sn_pack pack;
    enum sn_err err; /* the first failure; sticks */
};

void sn_body_init(struct sn_body *body);
void sn_body_fini(struct sn_body *body);
/* Makes room for `bytes` more, which the caller is about to pack. Failure sticks in `err`. */
void sn_body_need(struct sn_body *body, size_t bytes);

void sn_body_map(struct sn_body *body, uint32_t count);
void sn_body_array(struct sn_body *body, uint32_t count);
void sn_body_key(struct sn_body *body, const char *key);
void sn_body_text(struct sn_body *body, const char *key, const char *text);
void sn_body_uint(struct sn_body *body, const char *key, uint64_t value);
void sn_body_int(struct sn_body *body, const char *key, int64_t value);
/* Appends what another body holds. */
void sn_body_append(struct sn_body *body, const struct sn_body *more);

#endif
