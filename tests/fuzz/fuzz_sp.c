/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of SP framing: one direction of a connection, cut into pieces whose lengths the first byte chooses. The
 * result must not depend on the cuts, and what is accepted must be what nng accepts.
 */
#include <stdint.h>
#include <stdlib.h>

#include "link/pump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096) return 0;
    uint32_t step = 1u + data[0];
    const uint8_t *bytes = data + 1;
    uint32_t count = (uint32_t)size - 1;
    struct sn_sp_scan whole = {0};
    uint32_t boundary = 0;
    enum sn_err err = sn_sp_scan(&whole, bytes, count, &boundary);
    if (err == SN_OK && boundary > count) abort();
    struct sn_sp_scan parts = {0};
    enum sn_err parts_err = SN_OK;
    uint32_t last = 0;
    for (uint32_t at = 0; at < count && parts_err == SN_OK; at += step) {
        uint32_t part = count - at < step ? count - at : step;
        uint32_t in_part = 0;
        parts_err = sn_sp_scan(&parts, bytes + at, part, &in_part);
        if (parts_err == SN_OK && in_part > part) abort();
        if (parts_err == SN_OK && in_part > 0) last = at + in_part;
    }
    if (parts_err != err) abort();
    if (err != SN_OK) return 0;
    if (parts.messages != whole.messages || last != boundary) abort();
    if (parts.body_left != whole.body_left || parts.have != whole.have) abort();
    if (whole.has_hello && whole.message_bytes + SN_SP_HELLO_BYTES > count) abort();
    if (whole.body_left > SN_PARCEL_BYTES_MAX) abort();
    return 0;
}
