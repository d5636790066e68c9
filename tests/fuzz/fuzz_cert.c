/* SPDX-License-Identifier: Apache-2.0 */
/* Agent certificates, binary and PEM: whatever parses is well-formed, and only verifies as
 * signed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "crypto/cert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth) abort();
}

static void check_parsed(const uint8_t *bytes, size_t size, const struct sn_cert *cert)
{
    require(sn_label_is_valid(cert->mesh, strlen(cert->mesh)));
    require(sn_agent_name_is_valid(cert->agent, strlen(cert->agent)));
    require(cert->role_count <= SN_ROLES_MAX);
    for (uint32_t i = 0; i < cert->role_count; i++) {
        require(sn_label_is_valid(cert->roles[i], strlen(cert->roles[i])));
    }
    require(cert->not_before_s < cert->not_after_s);

    static struct sn_cert verified;
    struct sn_trust trust = {
        .mesh = cert->mesh, .authorities = &cert->authority, .authority_count = 1};
    enum sn_err err = sn_cert_verify(bytes, size, &trust, cert->not_before_s, &verified);
    require(err == SN_OK || err == SN_EAUTH);
    trust.authority_count = 0;
    require(sn_cert_verify(bytes, size, &trust, cert->not_before_s, &verified) == SN_EUNTRUSTED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sn_cert cert;
    static uint8_t decoded[SN_CERT_BYTES_MAX];
    static char pem[2 * SN_CERT_BYTES_MAX];
    if (sn_cert_parse(data, size, &cert) == SN_OK) check_parsed(data, size, &cert);

    size_t decoded_size;
    enum sn_err err =
        sn_cert_from_pem((const char *)data, size, decoded, sizeof decoded, &decoded_size);
    if (err != SN_OK) return 0;
    require(decoded_size <= sizeof decoded);
    if (sn_cert_parse(decoded, decoded_size, &cert) == SN_OK) {
        check_parsed(decoded, decoded_size, &cert);
    }
    static uint8_t again[SN_CERT_BYTES_MAX];
    size_t pem_size;
    size_t again_size;
    require(sn_cert_to_pem(decoded, decoded_size, pem, sizeof pem, &pem_size) == SN_OK);
    require(sn_cert_from_pem(pem, pem_size, again, sizeof again, &again_size) == SN_OK);
    require(again_size == decoded_size && memcmp(again, decoded, again_size) == 0);
    return 0;
}
