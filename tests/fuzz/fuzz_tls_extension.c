/* SPDX-License-Identifier: Apache-2.0 */
/* The extension of the X.509 certificate: its content is exactly what the header announces. */
#include <stdint.h>
#include <stdlib.h>

#include "crypto/tls_identity_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *cert;
    size_t cert_size;
    if (sni_tls_extension_read(data, size, &cert, &cert_size) != SN_OK) return 0;
    size_t header = cert_size < 0x80 ? 2 : cert_size < 0x100 ? 3 : 4;
    if (header + cert_size != size || cert != data + header || data[0] != 0x04) abort();
    return 0;
}
