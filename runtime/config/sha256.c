/* SPDX-License-Identifier: Apache-2.0 */
#include "config/sha256.h"

#include <string.h>

#include "base/text.h"

#define DIGEST_BYTES 32

const struct sn_config_field sni_sha256_item = {
    .kind = SN_CONFIG_TEXT, .min = 2 * DIGEST_BYTES, .max = 2 * DIGEST_BYTES};

void sni_sha256_check(const struct sn_config_node *list, struct sn_findings *findings)
{
    for (uint32_t i = 0; i < sn_config_count(list); i++) {
        uint8_t digest[DIGEST_BYTES];
        char quoted[SN_QUOTE_MAX];
        const struct sn_config_node *node = sn_config_at(list, i);
        const char *text = sn_config_text(node, "");
        if (sn_hex_decode(text, strlen(text), digest, sizeof digest) == SN_OK) continue;
        sn_findings_add_node(findings, node, "expected 64 hexadecimal digits, found %s",
                             sn_quote(text, quoted));
    }
}
