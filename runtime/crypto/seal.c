/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a direction's key depends on both ends as each of them sees them, so that two boots
 * agree only if they agree about everything; bytes that did not verify never stay in the caller's
 * memory.
 *   key = BLAKE2b-256(key: X25519 shared secret, label | sender | receiver)
 *   end = agent id (32) | epoch (8, big endian) | boot public key (32)
 */
#include "crypto/seal.h"

#include <assert.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define BOOT_MAGIC     SN_MAGIC('B', 'O', 'O', 'T')
#define SEAL_MAGIC     SN_MAGIC('S', 'E', 'A', 'L')
#define KEY_BYTES      32u
#define END_BYTES      (SN_KEY_BYTES + 8u + KEY_BYTES)
#define LABEL          "sennit seal 1\n"
#define LABEL_BYTES    (sizeof LABEL - 1)
#define HNONCE_BYTES   16u /* of the nonce, for the subkey; the other 8 are the cipher's */
#define IV_BYTES       12u
#define IV_ZEROS_BYTES (IV_BYTES - (SN_SEAL_NONCE_BYTES - HNONCE_BYTES))

static_assert(HNONCE_BYTES == crypto_core_hchacha20_INPUTBYTES, "HChaCha20 input");
static_assert(KEY_BYTES == crypto_core_hchacha20_KEYBYTES, "HChaCha20 key");
static_assert(KEY_BYTES == crypto_scalarmult_BYTES, "X25519 size");

struct sn_boot_key {
    uint32_t magic;
    uint8_t public_key[KEY_BYTES];
    uint8_t *secret; /* owned, guarded */
};

struct sn_seal {
    uint32_t magic;
    uint8_t tx_key[KEY_BYTES];
    uint8_t rx_key[KEY_BYTES];
    EVP_CIPHER_CTX *tx; /* owned */
    EVP_CIPHER_CTX *rx; /* owned */
};

enum sn_err sn_boot_key_new(struct sn_boot_key **out_key)
{
    uint8_t seed[KEY_BYTES];
    randombytes_buf(seed, sizeof seed);
    enum sn_err err = sn_boot_key_from_seed(seed, out_key);
    sn_secret_wipe(seed, sizeof seed);
    return err;
}

enum sn_err sn_boot_key_from_seed(const uint8_t seed[32], struct sn_boot_key **out_key)
{
    SN_ASSERT(seed != NULL && out_key != NULL);
    struct sn_boot_key *key = sn_alloc(sizeof *key);
    if (key == NULL) return SN_ENOMEM;
    key->magic = BOOT_MAGIC;
    key->secret = sodium_malloc(KEY_BYTES);
    if (key->secret == NULL) {
        sn_boot_key_free(key);
        return SN_ENOMEM;
    }
    memcpy(key->secret, seed, KEY_BYTES);
    int rc = crypto_scalarmult_base(key->public_key, key->secret);
    SN_ASSERT(rc == 0); /* the base point is not of small order */
    /* Defence in depth: a kernel that refuses leaves the pages writable, and as secret as
     * before. */
    (void)sodium_mprotect_readonly(key->secret);
    *out_key = key;
    return SN_OK;
}

void sn_boot_key_free(struct sn_boot_key *key)
{
    if (key == NULL) return;
    SN_ASSERT(key->magic == BOOT_MAGIC);
    sodium_free(key->secret); /* wipes */
    sn_secret_wipe(key, sizeof *key);
    sn_free(key, sizeof *key);
}

void sn_boot_key_public(const struct sn_boot_key *key, uint8_t out[32])
{
    SN_ASSERT(key != NULL && key->magic == BOOT_MAGIC);
    memcpy(out, key->public_key, KEY_BYTES);
}

static uint8_t *put_end(uint8_t *at, const struct sn_seal_end *end)
{
    memcpy(at, end->id.bytes, SN_KEY_BYTES);
    at += SN_KEY_BYTES;
    for (int shift = 56; shift >= 0; shift -= 8) *at++ = (uint8_t)(end->epoch >> shift);
    memcpy(at, end->boot_public, KEY_BYTES);
    return at + KEY_BYTES;
}

static void derive(uint8_t key[KEY_BYTES], const uint8_t shared[KEY_BYTES],
                   const struct sn_seal_end *sender, const struct sn_seal_end *receiver)
{
    uint8_t context[LABEL_BYTES + 2 * END_BYTES];
    memcpy(context, LABEL, LABEL_BYTES);
    uint8_t *at = put_end(put_end(context + LABEL_BYTES, sender), receiver);
    SN_ASSERT(at == context + sizeof context);
    int rc = crypto_generichash(key, KEY_BYTES, context, sizeof context, shared, KEY_BYTES);
    SN_ASSERT(rc == 0); /* sizes are constant and in range */
}

static int end_is_equal(const struct sn_seal_end *a, const struct sn_seal_end *b)
{
    return sn_key_id_is_equal(&a->id, &b->id) && a->epoch == b->epoch &&
           memcmp(a->boot_public, b->boot_public, KEY_BYTES) == 0;
}

/* The contexts get their cipher once; a message then only sets key and nonce. */
static enum sn_err make_contexts(struct sn_seal *seal)
{
    seal->tx = EVP_CIPHER_CTX_new();
    seal->rx = EVP_CIPHER_CTX_new();
    if (seal->tx == NULL || seal->rx == NULL) return SN_ENOMEM;
    if (EVP_EncryptInit_ex(seal->tx, EVP_chacha20_poly1305(), NULL, NULL, NULL) != 1 ||
        EVP_DecryptInit_ex(seal->rx, EVP_chacha20_poly1305(), NULL, NULL, NULL) != 1) {
        return SN_EIO;
    }
    return SN_OK;
}

enum sn_err sn_seal_new(const struct sn_boot_key *own, const struct sn_seal_end *self,
                        const struct sn_seal_end *peer, struct sn_seal **out_seal)
{
    SN_ASSERT(own != NULL && own->magic == BOOT_MAGIC);
    SN_ASSERT(self != NULL && peer != NULL && out_seal != NULL);
    SN_ASSERT(memcmp(self->boot_public, own->public_key, KEY_BYTES) == 0);
    /* One key for both directions would let a body be reflected. */
    if (end_is_equal(self, peer)) return SN_EAUTH;
    uint8_t shared[KEY_BYTES];
    struct sn_seal *seal = NULL;
    enum sn_err err = SN_EAUTH;
    /* Refuses points of small order, whose shared secret is all zeros. */
    if (crypto_scalarmult(shared, own->secret, peer->boot_public) != 0) goto out;
    err = SN_ENOMEM;
    seal = sn_alloc(sizeof *seal);
    if (seal == NULL) goto out;
    seal->magic = SEAL_MAGIC;
    derive(seal->tx_key, shared, self, peer);
    derive(seal->rx_key, shared, peer, self);
    err = make_contexts(seal);
    if (err != SN_OK) goto out;
    *out_seal = seal;
    seal = NULL;
out:
    if (err != SN_OK) ERR_clear_error();
    sn_secret_wipe(shared, sizeof shared);
    sn_seal_free(seal);
    return err;
}

void sn_seal_free(struct sn_seal *seal)
{
    if (seal == NULL) return;
    SN_ASSERT(seal->magic == SEAL_MAGIC);
    EVP_CIPHER_CTX_free(seal->tx); /* clears the key schedule */
    EVP_CIPHER_CTX_free(seal->rx);
    sn_secret_wipe(seal, sizeof *seal);
    sn_free(seal, sizeof *seal);
}

/* XChaCha20's first half: sets the context to the subkey and the rest of the nonce. */
static int set_nonce(EVP_CIPHER_CTX *ctx, const uint8_t key[KEY_BYTES],
                     const uint8_t nonce[SN_SEAL_NONCE_BYTES], int encrypt)
{
    uint8_t subkey[KEY_BYTES];
    uint8_t iv[IV_BYTES] = {0};
    memcpy(iv + IV_ZEROS_BYTES, nonce + HNONCE_BYTES, SN_SEAL_NONCE_BYTES - HNONCE_BYTES);
    int done = crypto_core_hchacha20(subkey, nonce, key, NULL) == 0;
    done = done && EVP_CipherInit_ex(ctx, NULL, NULL, subkey, iv, encrypt) == 1;
    sn_secret_wipe(subkey, sizeof subkey);
    return done;
}

/* Feeds additional data, then the body; OpenSSL takes neither NULL nor sizes above INT_MAX. */
static int run(EVP_CIPHER_CTX *ctx, const void *ad, size_t ad_size, const uint8_t *in, size_t size,
               uint8_t *out)
{
    int done;
    if (ad_size > 0 && EVP_CipherUpdate(ctx, NULL, &done, ad, (int)ad_size) != 1) return 0;
    if (size == 0) return 1;
    return EVP_CipherUpdate(ctx, out, &done, in, (int)size) == 1 && done == (int)size;
}

enum sn_err sn_seal_seal(struct sn_seal *seal, const uint8_t nonce[SN_SEAL_NONCE_BYTES],
                         const void *ad, size_t ad_size, const uint8_t *plain, size_t size,
                         uint8_t *out)
{
    SN_ASSERT(seal != NULL && seal->magic == SEAL_MAGIC);
    SN_ASSERT((plain != NULL || size == 0) && (ad != NULL || ad_size == 0));
    SN_ASSERT(nonce != NULL && out != NULL);
    if (size > INT_MAX || ad_size > INT_MAX) return SN_ETOOBIG;
    uint8_t *body = out + SN_SEAL_NONCE_BYTES;
    uint8_t rest[16]; /* a stream cipher keeps nothing back, but final wants a place */
    int rest_size = 0;
    if (!set_nonce(seal->tx, seal->tx_key, nonce, 1) ||
        !run(seal->tx, ad, ad_size, plain, size, body) ||
        EVP_EncryptFinal_ex(seal->tx, rest, &rest_size) != 1 ||
        EVP_CIPHER_CTX_ctrl(seal->tx, EVP_CTRL_AEAD_GET_TAG, SN_SEAL_TAG_BYTES, body + size) != 1) {
        ERR_clear_error();
        return SN_EIO;
    }
    SN_ASSERT(rest_size == 0);
    memcpy(out, nonce, SN_SEAL_NONCE_BYTES);
    return SN_OK;
}

enum sn_err sn_seal_open(struct sn_seal *seal, const void *ad, size_t ad_size,
                         const uint8_t *sealed, size_t size, uint8_t *out)
{
    SN_ASSERT(seal != NULL && seal->magic == SEAL_MAGIC);
    SN_ASSERT((sealed != NULL || size == 0) && (ad != NULL || ad_size == 0));
    if (size < SN_SEAL_OVERHEAD) return SN_EINVAL;
    size_t plain_size = size - SN_SEAL_OVERHEAD;
    SN_ASSERT(out != NULL || plain_size == 0);
    if (plain_size > INT_MAX || ad_size > INT_MAX) return SN_ETOOBIG;
    const uint8_t *body = sealed + SN_SEAL_NONCE_BYTES;
    uint8_t tag[SN_SEAL_TAG_BYTES];
    memcpy(tag, body + plain_size, sizeof tag);
    uint8_t rest[16];
    int rest_size = 0;
    if (!set_nonce(seal->rx, seal->rx_key, sealed, 0) ||
        EVP_CIPHER_CTX_ctrl(seal->rx, EVP_CTRL_AEAD_SET_TAG, SN_SEAL_TAG_BYTES, tag) != 1 ||
        !run(seal->rx, ad, ad_size, body, plain_size, out) ||
        EVP_DecryptFinal_ex(seal->rx, rest, &rest_size) != 1) {
        /* OpenSSL wrote the text before it saw the tag. */
        if (plain_size > 0) sn_secret_wipe(out, plain_size);
        ERR_clear_error();
        return SN_EAUTH;
    }
    SN_ASSERT(rest_size == 0);
    return SN_OK;
}
