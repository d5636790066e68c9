/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: no field is believed before its form was checked; sign makes only what parse accepts;
 * the signature covers every byte before it, the magic included, so that nothing else that an
 * authority signs can be taken for a certificate.
 */
#include "crypto/cert.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "crypto/pem_int.h"
#include "wire/cursor.h"
#include "wire/pack.h"

#define MAGIC_BYTES  4u
#define HEADER_BYTES (MAGIC_BYTES + 2u)
#define FRAME_BYTES  (HEADER_BYTES + SN_SIGNATURE_BYTES)
#define PEM_LABEL    "SENNIT AGENT CERTIFICATE"

/* The last byte is the version of the format. */
static const uint8_t cert_magic[MAGIC_BYTES] = {'S', 'N', 'C', '1'};

/* Keys of the body's map; only ever added. All of these are required. */
enum field {
    FIELD_MESH = 1,       /* text */
    FIELD_AGENT = 2,      /* text, site/agent */
    FIELD_ROLES = 3,      /* array of text, without repetition */
    FIELD_NODE = 4,       /* binary, 32 bytes */
    FIELD_AUTHORITY = 5,  /* binary, 32 bytes; tells a verifier which of its authorities to ask */
    FIELD_SERIAL = 6,     /* unsigned */
    FIELD_NOT_BEFORE = 7, /* unsigned seconds, first valid one */
    FIELD_NOT_AFTER = 8,  /* unsigned seconds, last valid one */
    FIELD_COUNT = 8
};
#define FIELDS_ALL (((1u << FIELD_COUNT) - 1u) << 1)

/* The longest certificate: every text and integer at its largest, with msgpack's headers. */
static_assert(FRAME_BYTES + 1 + FIELD_COUNT + (2 + SN_MESH_BYTES_MAX) +
                      (2 + SN_AGENT_NAME_BYTES_MAX) + 3 + SN_ROLES_MAX * (2 + SN_LABEL_BYTES_MAX) +
                      2 * (2 + SN_KEY_BYTES) + 3 * 9 <=
                  SN_CERT_BYTES_MAX,
              "every valid certificate fits");

static int has_role(const struct sn_cert *cert, uint32_t count, const char *role)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(cert->roles[i], role) == 0) return 1;
    }
    return 0;
}

/* `text` is an array that may lack its NUL. */
static int is_valid(const char *text, size_t capacity, int (*check)(const char *, size_t))
{
    size_t size = strnlen(text, capacity);
    return size < capacity && check(text, size);
}

static int content_is_valid(const struct sn_cert *cert)
{
    if (!is_valid(cert->mesh, sizeof cert->mesh, sn_label_is_valid)) return 0;
    if (!is_valid(cert->agent, sizeof cert->agent, sn_agent_name_is_valid)) return 0;
    if (cert->role_count > SN_ROLES_MAX) return 0;
    for (uint32_t i = 0; i < cert->role_count; i++) {
        if (!is_valid(cert->roles[i], sizeof cert->roles[i], sn_label_is_valid)) return 0;
        if (has_role(cert, i, cert->roles[i])) return 0;
    }
    return cert->not_before_s >= 0 && cert->not_before_s < cert->not_after_s;
}

static void pack_body(struct sn_pack *pack, const struct sn_cert *cert,
                      const struct sn_key_id *authority)
{
    sn_pack_map(pack, FIELD_COUNT);
    sn_pack_key_text(pack, FIELD_MESH, cert->mesh);
    sn_pack_key_text(pack, FIELD_AGENT, cert->agent);
    sn_pack_uint(pack, FIELD_ROLES);
    sn_pack_array(pack, cert->role_count);
    for (uint32_t i = 0; i < cert->role_count; i++) {
        sn_pack_text(pack, cert->roles[i], strlen(cert->roles[i]));
    }
    sn_pack_key_bin(pack, FIELD_NODE, cert->node.bytes, sizeof cert->node.bytes);
    sn_pack_key_bin(pack, FIELD_AUTHORITY, authority->bytes, sizeof authority->bytes);
    sn_pack_key_uint(pack, FIELD_SERIAL, cert->serial);
    sn_pack_key_uint(pack, FIELD_NOT_BEFORE, (uint64_t)cert->not_before_s);
    sn_pack_key_uint(pack, FIELD_NOT_AFTER, (uint64_t)cert->not_after_s);
}

enum sn_err sn_cert_sign(const struct sn_cert *cert, const struct sn_key *authority, uint8_t *out,
                         size_t capacity, size_t *out_size)
{
    SN_ASSERT(cert != NULL && authority != NULL);
    SN_ASSERT(out != NULL && out_size != NULL);
    if (!content_is_valid(cert)) return SN_EINVAL;
    if (capacity <= FRAME_BYTES) return SN_ETOOBIG;
    struct sn_key_id id = sn_key_id(authority);
    struct sn_pack pack;
    sn_pack_init(&pack, out + HEADER_BYTES, capacity - FRAME_BYTES);
    pack_body(&pack, cert, &id);
    size_t body_size;
    enum sn_err err = sn_pack_finish(&pack, &body_size);
    if (err != SN_OK) return err;
    SN_ASSERT(body_size + FRAME_BYTES <= SN_CERT_BYTES_MAX);
    memcpy(out, cert_magic, MAGIC_BYTES);
    out[MAGIC_BYTES] = (uint8_t)(body_size >> 8);
    out[MAGIC_BYTES + 1] = (uint8_t)body_size;
    size_t signed_size = HEADER_BYTES + body_size;
    err = sn_key_sign(authority, out, signed_size, out + signed_size);
    if (err != SN_OK) return err;
    *out_size = signed_size + SN_SIGNATURE_BYTES;
    return SN_OK;
}

static void read_name(struct sn_cursor *cursor, char *out, size_t capacity,
                      int (*check)(const char *, size_t))
{
    size_t size;
    const char *text = sn_cursor_text(cursor, capacity - 1, &size);
    if (cursor->err != SN_OK) return;
    if (!check(text, size)) {
        cursor->err = SN_EINVAL;
        return;
    }
    memcpy(out, text, size);
    out[size] = '\0';
}

static void read_roles(struct sn_cursor *cursor, struct sn_cert *cert)
{
    uint32_t count = sn_cursor_array(cursor);
    if (count > SN_ROLES_MAX) cursor->err = SN_EINVAL;
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        read_name(cursor, cert->roles[i], sizeof cert->roles[i], sn_label_is_valid);
        if (has_role(cert, i, cert->roles[i])) cursor->err = SN_EINVAL;
    }
    cert->role_count = count;
}

static void read_field(struct sn_cursor *cursor, uint64_t key, struct sn_cert *cert)
{
    switch (key) {
    case FIELD_MESH: read_name(cursor, cert->mesh, sizeof cert->mesh, sn_label_is_valid); return;
    case FIELD_AGENT:
        read_name(cursor, cert->agent, sizeof cert->agent, sn_agent_name_is_valid);
        return;
    case FIELD_ROLES: read_roles(cursor, cert); return;
    case FIELD_NODE: sn_cursor_bin_copy(cursor, cert->node.bytes, sizeof cert->node.bytes); return;
    case FIELD_AUTHORITY:
        sn_cursor_bin_copy(cursor, cert->authority.bytes, sizeof cert->authority.bytes);
        return;
    case FIELD_SERIAL: cert->serial = sn_cursor_uint(cursor, UINT64_MAX); return;
    case FIELD_NOT_BEFORE: cert->not_before_s = (int64_t)sn_cursor_uint(cursor, INT64_MAX); return;
    case FIELD_NOT_AFTER: cert->not_after_s = (int64_t)sn_cursor_uint(cursor, INT64_MAX); return;
    default: sn_cursor_skip(cursor); return;
    }
}

static enum sn_err read_body(const uint8_t *body, size_t size, struct sn_cert *cert)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, body, size);
    uint32_t count = sn_cursor_map(&cursor);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        uint64_t key = sn_cursor_uint(&cursor, UINT32_MAX);
        if (key >= 1 && key <= FIELD_COUNT) {
            uint32_t bit = 1u << key;
            if ((seen & bit) != 0) return SN_EINVAL;
            seen |= bit;
        }
        read_field(&cursor, key, cert);
    }
    if (sn_cursor_finish(&cursor) != SN_OK) return SN_EINVAL;
    if (seen != FIELDS_ALL) return SN_EINVAL;
    return cert->not_before_s < cert->not_after_s ? SN_OK : SN_EINVAL;
}

enum sn_err sn_cert_parse(const uint8_t *bytes, size_t size, struct sn_cert *out_cert)
{
    SN_ASSERT(bytes != NULL || size == 0);
    SN_ASSERT(out_cert != NULL);
    if (size <= FRAME_BYTES || size > SN_CERT_BYTES_MAX) return SN_EINVAL;
    if (memcmp(bytes, cert_magic, MAGIC_BYTES - 1) != 0) return SN_EINVAL;
    if (bytes[MAGIC_BYTES - 1] != cert_magic[MAGIC_BYTES - 1]) return SN_EVERSION;
    size_t body_size = ((size_t)bytes[MAGIC_BYTES] << 8) | bytes[MAGIC_BYTES + 1];
    if (body_size != size - FRAME_BYTES) return SN_EINVAL;
    struct sn_cert cert; /* 1.4 KiB on the stack, so that a refused one leaves the caller's alone */
    memset(&cert, 0, sizeof cert);
    enum sn_err err = read_body(bytes + HEADER_BYTES, body_size, &cert);
    if (err != SN_OK) return err;
    SN_ASSERT(content_is_valid(&cert));
    *out_cert = cert;
    return SN_OK;
}

static int is_authority(const struct sn_trust *trust, const struct sn_key_id *id)
{
    for (uint32_t i = 0; i < trust->authority_count; i++) {
        if (sn_key_id_is_equal(&trust->authorities[i], id)) return 1;
    }
    return 0;
}

enum sn_err sn_cert_verify(const uint8_t *bytes, size_t size, const struct sn_trust *trust,
                           int64_t wall_s, struct sn_cert *out_cert)
{
    SN_ASSERT(trust != NULL && trust->mesh != NULL);
    SN_ASSERT(trust->authorities != NULL || trust->authority_count == 0);
    enum sn_err err = sn_cert_parse(bytes, size, out_cert);
    if (err != SN_OK) return err;
    if (!is_authority(trust, &out_cert->authority)) return SN_EUNTRUSTED;
    size_t signed_size = size - SN_SIGNATURE_BYTES;
    err = sn_key_verify(&out_cert->authority, bytes, signed_size, bytes + signed_size);
    if (err != SN_OK) return err;
    if (strcmp(out_cert->mesh, trust->mesh) != 0) return SN_EMISMATCH;
    if (wall_s < out_cert->not_before_s) return SN_ENOTYET;
    if (wall_s > out_cert->not_after_s) return SN_EEXPIRED;
    return SN_OK;
}

enum sn_err sn_cert_to_pem(const uint8_t *bytes, size_t size, char *out, size_t capacity,
                           size_t *out_size)
{
    return sni_pem_encode(PEM_LABEL, bytes, size, out, capacity, out_size);
}

enum sn_err sn_cert_from_pem(const char *pem, size_t pem_size, uint8_t *out, size_t capacity,
                             size_t *out_size)
{
    return sni_pem_decode(PEM_LABEL, pem, pem_size, out, capacity, out_size);
}
