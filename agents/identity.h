/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this agent is: node key, agent certificate, epoch and ephemeral key of this boot, read from files with their
 * permissions checked. Blocking: yes (files); called at boot and, on a pool, by a reload.
 */
#ifndef SN_AGENTS_IDENTITY_H
#define SN_AGENTS_IDENTITY_H

#include "config/agent_file.h"
#include "crypto/seal.h"
#include "crypto/tls_identity.h"
#include "env/env.h"

struct sn_identity {
    struct sn_key *key;
    struct sn_key_id id;
    uint8_t cert_bytes[SN_CERT_BYTES_MAX];
    size_t cert_size; /* 0: pins only */
    struct sn_cert cert;
    struct sn_key_id *authorities;
    uint32_t authority_count;
    struct sn_pin *pins;
    uint32_t pin_count;
    struct sn_tls_identity *tls;
    struct sn_boot_key *boot_key;
    uint64_t epoch;
};

#define SN_IDENTITY_TEXT_MAX 512

/* What is wrong with an identity, and how to mend it. */
struct sn_identity_fault {
    const char *field; /* of the agent file: "key", "certificate"; NULL: none of them */
    char text[SN_IDENTITY_TEXT_MAX]; /* empty: nothing is wrong */
};

/* What went wrong with reading or writing a file, for people: one wording for all commands. Static. */
const char *sn_file_err_text(enum sn_err err);

/* A private key from a file that nobody else may read. On failure `out_text` says what is wrong and how to mend it.
 * Errors: EPERM (mode or owner), ENOENT, EINVAL (not a key). */
SN_MUST_CHECK enum sn_err sn_identity_read_key(struct sn_env *env, const char *path,
                                               struct sn_key **out_key, char *out_text,
                                               size_t capacity);

/* Reads key and certificate and makes the TLS identity; `folder` is that of the agent file. out_fault is always
 * written. A certificate that does not verify (expired, another authority) is only told there (SN_OK): its peers
 * judge. */
SN_MUST_CHECK enum sn_err sn_identity_load(struct sn_env *env, const struct sn_agent_file *file,
                                           const char *folder, struct sn_identity *out_identity,
                                           struct sn_identity_fault *out_fault);
/* Takes certificate and TLS identity of `fresh`, which has the same key, and gives it the former ones. */
void sn_identity_renew(struct sn_identity *identity, struct sn_identity *fresh);
void sn_identity_free(struct sn_identity *identity);

/* The epoch of this boot: max(stored + 1, wall clock in ms), stored durably before it is returned. */
SN_MUST_CHECK enum sn_err sn_identity_next_epoch(struct sn_env *env, const char *data_folder,
                                                 uint64_t *out_epoch, char *out_text,
                                                 size_t capacity);

/* `name` relative to `folder`, or as it is when absolute. Freed with sn_strfree. NULL: no memory. */
char *sn_path_in(const char *folder, const char *name);
/* The folder of a file name: "." when it has none. Freed with sn_strfree. NULL: no memory. */
char *sn_path_folder(const char *path);

#endif
