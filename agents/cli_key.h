/* SPDX-License-Identifier: Apache-2.0 */
/* Key files, as several commands handle them. Blocking: yes (files). */
#ifndef SN_AGENTS_CLI_KEY_H
#define SN_AGENTS_CLI_KEY_H

#include <stddef.h>

#include "crypto/key.h"

struct sn_env;

/* Makes a key and writes it to a new file of mode 0600. Errors: EEXIST, ENOENT (no such folder),
 * ENOMEM, EIO, ... */
SN_MUST_CHECK enum sn_err sn_cli_key_create(struct sn_env *env, const char *path,
                                            struct sn_key_id *out_id);

/* The authority's public key from its private file, whose mode is checked, or its public one. On
 * failure `out_text` says what is wrong. Errors: ENOENT, EPERM, EINVAL, ENOMEM. */
SN_MUST_CHECK enum sn_err sn_cli_authority_id(struct sn_env *env, const char *path,
                                              struct sn_key_id *out_id, int *out_is_private,
                                              char *out_text, size_t capacity);

#endif
