/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket's protocol: length-prefixed msgpack on a UNIX stream.
 *
 *   request  u32 size (big endian) | map {"verb": text, ...arguments}
 *   reply    u32 size (big endian) | map {"err": uint (enum sn_err), "text": text, "body": any}
 *
 * Verbs without arguments: status peers streams actors plugins ledger metrics reload. Verb `ask`: {"to": address,
 * "type": text, "payload": bin, "timeout_ms": uint}; its body is {"type": text, "payload": bin, "us": uint}, us being
 * the round trip. The socket is 0600 in a 0700 folder, and the peer's user id is checked: who is neither the agent's
 * user nor root gets a reply (err EDENIED) to no request, and the connection is closed.
 */
#ifndef SN_AGENTS_CONTROL_H
#define SN_AGENTS_CONTROL_H

#include "agents/body.h"
#include "env/env.h"
#include "sennit/limits.h"
#include "wire/cursor.h"

#define SN_CONTROL_ASK_TIMEOUT_MS     5000u
#define SN_CONTROL_ASK_TIMEOUT_MAX_MS 600000u

/* With EFULL: of the `ask`s that may wait at the same time all do. Nothing was sent. */
#define SN_CONTROL_TOO_MANY_ASKS "too many questions wait for an answer; try again"

/* A parsed request; texts are borrowed from the bytes. */
struct sn_control_request {
    char verb[32];
    char to[SN_ADDR_BYTES_MAX + 1];
    char type[SN_TYPE_BYTES_MAX + 1];
    const uint8_t *payload;
    size_t payload_size;
    uint64_t timeout_ms;
};

/* Errors: EINVAL, ETOOBIG. */
SN_MUST_CHECK enum sn_err sn_control_request_parse(const uint8_t *bytes, size_t size,
                                                   struct sn_control_request *out_request);
SN_MUST_CHECK enum sn_err sn_control_request_pack(const struct sn_control_request *request,
                                                  struct sn_body *out_body);

/* A parsed reply; `body` is msgpack, borrowed from the bytes. */
struct sn_control_reply {
    enum sn_err err;
    char text[256];
    const uint8_t *body;
    size_t body_size;
};
SN_MUST_CHECK enum sn_err sn_control_reply_parse(const uint8_t *bytes, size_t size,
                                                 struct sn_control_reply *out_reply);

/* A client's connection. Blocking; command line programs only. */
struct sn_control_client {
    struct sn_env *env;
    struct sn_sock sock;
    uint8_t *bytes; /* of the last reply */
    size_t bytes_size;
};

/* Errors: ENOENT or EREFUSED (no agent there), EPERM. */
SN_MUST_CHECK enum sn_err sn_control_connect(struct sn_env *env, const char *path,
                                             struct sn_control_client *out_client);
/* Sends a request and waits for its reply, whose body lives until the next call.
 * Errors: ECLOSED, ETIMEDOUT, EPROTO; an agent's own refusal is in out_reply->err. */
SN_MUST_CHECK enum sn_err sn_control_call(struct sn_control_client *client,
                                          const struct sn_control_request *request,
                                          struct sn_control_reply *out_reply);
void sn_control_disconnect(struct sn_control_client *client);

#endif
