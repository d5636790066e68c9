/* SPDX-License-Identifier: Apache-2.0 */
/* Key files: what is accepted is written back as an equivalent file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth) abort();
}

static void check_private(const char *pem, size_t size)
{
    struct sn_key *key;
    if (sn_key_from_pem(pem, size, &key) != SN_OK) return;
    char text[SN_KEY_PEM_MAX];
    size_t text_size;
    struct sn_key *again;
    require(sn_key_to_pem(key, text, sizeof text, &text_size) == SN_OK);
    require(sn_key_from_pem(text, text_size, &again) == SN_OK);
    struct sn_key_id first = sn_key_id(key);
    struct sn_key_id second = sn_key_id(again);
    require(sn_key_id_is_equal(&first, &second));
    sn_key_free(key);
    sn_key_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    require(sn_crypto_init() == SN_OK);
    check_private((const char *)data, size);

    struct sn_key_id id;
    if (sn_key_id_parse((const char *)data, size, &id) != SN_OK) return 0;
    char text[SN_KEY_TEXT_BYTES + 1];
    struct sn_key_id again;
    sn_key_id_format(&id, text);
    require(sn_key_id_parse(text, strlen(text), &again) == SN_OK);
    require(sn_key_id_is_equal(&id, &again));
    return 0;
}
