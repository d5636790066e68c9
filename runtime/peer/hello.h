/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake above an authenticated lane: HELLO, AUTH, READY or REFUSE (payloads of the frames of
 * stream/frame.h). It binds identity, boot (epoch and ephemeral key) and purpose to this very connection:
 *
 *   both:  HELLO  msgpack map, see struct sn_hello
 *   both:  AUTH   Ed25519 over "sennit hello 1" (and its NUL) | role | SHA-256(own HELLO) | SHA-256(other HELLO) |
 *                 exporter
 *   both:  READY  empty, or REFUSE msgpack map, see struct sn_refusal
 *
 * role is one byte, 'd' for the dialer's signature and 'l' for the listener's, so that none can be reflected. Both
 * HELLOs carry fresh nonces. Thread-safe: yes (pure functions). Blocking: no.
 */
#ifndef SN_PEER_HELLO_H
#define SN_PEER_HELLO_H

#include "crypto/key.h"
#include "sennit/limits.h"

#define SN_PROTOCOL_VERSION 1u

struct sn_hello {
    uint32_t version;
    char mesh[SN_MESH_BYTES_MAX + 1];
    char agent[SN_AGENT_NAME_BYTES_MAX + 1];
    struct sn_key_id id;
    uint64_t epoch;
    uint8_t nonce[32];
    uint8_t boot_public[32];
    uint32_t lane;    /* 0 = control: starts a session; others join it */
    uint64_t session; /* chosen by the dialer; the listener sends 0 */
    int64_t wall_ms;  /* the sender's clock, to measure the offset; decides nothing */
};

struct sn_refusal {
    enum sn_err reason;
    uint64_t need_epoch; /* with EREPLAY: only a higher epoch is taken */
    char text[128];      /* for people */
};

SN_MUST_CHECK enum sn_err sn_hello_encode(const struct sn_hello *hello, uint8_t *out,
                                          size_t capacity, size_t *out_size);
/* Errors: EINVAL, ETOOBIG, EVERSION (out_hello holds what was read, names unchecked). */
SN_MUST_CHECK enum sn_err sn_hello_decode(const uint8_t *bytes, size_t size,
                                          struct sn_hello *out_hello);
/* Its sender's clock minus `wall_ms`, or the furthest value on that side when the clock is beyond all reason. */
int64_t sn_hello_clock_offset_ms(const struct sn_hello *hello, int64_t wall_ms);
SN_MUST_CHECK enum sn_err sn_refusal_encode(const struct sn_refusal *refusal, uint8_t *out,
                                            size_t capacity, size_t *out_size);
/* Errors: EINVAL, ETOOBIG. A reason that this version does not know reads as EDENIED. */
SN_MUST_CHECK enum sn_err sn_refusal_decode(const uint8_t *bytes, size_t size,
                                            struct sn_refusal *out_refusal);

/* Everything the AUTH signature covers. */
struct sn_auth_input {
    int is_dialer; /* the signer's role */
    uint8_t signer_hello[SN_DIGEST_BYTES];
    uint8_t other_hello[SN_DIGEST_BYTES];
    uint8_t exporter[32];
};
SN_MUST_CHECK enum sn_err sn_auth_sign(const struct sn_key *key, const struct sn_auth_input *input,
                                       uint8_t out_signature[SN_SIGNATURE_BYTES]);
/* Errors: EAUTH. */
SN_MUST_CHECK enum sn_err sn_auth_verify(const struct sn_key_id *id,
                                         const struct sn_auth_input *input,
                                         const uint8_t signature[SN_SIGNATURE_BYTES]);

#endif
