/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes agent certificates that `sennit render` would not make, for the tests: any mesh, name, key and times.
 * usage: forge AUTHORITY.key MESH SITE/AGENT KEY NOT-BEFORE NOT-AFTER OUT   (times: seconds from now, may be negative)
 * KEY is ed25519:...; the authority's key may be any node key, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/identity.h"
#include "base/text.h"
#include "crypto/cert.h"
#include "env/env_posix.h"

static enum sn_err describe(struct sn_env *env, char **argv, struct sn_cert *cert)
{
    int64_t now_s = sn_env_wall_ms(env) / 1000;
    cert->serial = 1;
    cert->not_before_s = now_s + strtoll(argv[5], NULL, 10);
    cert->not_after_s = now_s + strtoll(argv[6], NULL, 10);
    enum sn_err err = sn_text_copy(cert->mesh, sizeof cert->mesh, argv[2], strlen(argv[2]));
    if (err == SN_OK) {
        err = sn_text_copy(cert->agent, sizeof cert->agent, argv[3], strlen(argv[3]));
    }
    if (err == SN_OK) err = sn_key_id_parse(argv[4], strlen(argv[4]), &cert->node);
    return err;
}

static enum sn_err forge(struct sn_env *env, char **argv, char *out_text, size_t capacity)
{
    static uint8_t bytes[SN_CERT_BYTES_MAX];
    static char pem[SN_KEY_FILE_BYTES_MAX];
    size_t size = 0;
    struct sn_cert cert = {0};
    struct sn_key *authority = NULL;
    enum sn_err err = sn_identity_read_key(env, argv[1], &authority, out_text, capacity);
    if (err == SN_OK) err = describe(env, argv, &cert);
    if (err == SN_OK) err = sn_cert_sign(&cert, authority, bytes, sizeof bytes, &size);
    if (err == SN_OK) err = sn_cert_to_pem(bytes, size, pem, sizeof pem, &size);
    if (err == SN_OK) err = sn_env_file_replace(env, argv[7], 0600, pem, size);
    sn_key_free(authority);
    return err;
}

int main(int argc, char **argv)
{
    char text[512] = "";
    struct sn_env *env = NULL;
    if (argc != 8) {
        (void)fputs("usage: forge AUTHORITY.key MESH SITE/AGENT KEY NOT-BEFORE NOT-AFTER OUT\n",
                    stderr); /* nothing to do about a failure */
        return 2;
    }
    enum sn_err err = sn_env_posix_new(&env);
    if (err == SN_OK) err = sn_crypto_init();
    if (err == SN_OK) err = forge(env, argv, text, sizeof text);
    if (err != SN_OK) {
        (void)fprintf(stderr, "forge: %s %s\n", sn_err_text(err), text); /* as above */
    }
    sn_env_posix_free(env);
    return err == SN_OK ? 0 : 1;
}
