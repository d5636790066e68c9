/* SPDX-License-Identifier: Apache-2.0 */
/* The look at a plugin's file before the system's loader gets it. */
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "plugin/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum sn_err err = sni_elf_check(data, size);
    SN_ASSERT(err == SN_OK || err == SN_EINVAL || err == SN_ETOOBIG);
    /* What is whole stays so with more behind it, so a part of it can only be missing more. */
    if (err != SN_OK && size > 0) SN_ASSERT(sni_elf_check(data, size - 1) != SN_OK);
    return 0;
}
