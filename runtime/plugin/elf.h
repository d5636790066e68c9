/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a shared object is whole. The system's loader maps what the headers promise without
 * looking, and the process dies when the file is shorter, as one is that is still being copied.
 */
#ifndef SN_PLUGIN_ELF_H
#define SN_PLUGIN_ELF_H

#include <stddef.h>

#include "sennit/err.h"

/* Errors: EINVAL (not a shared object of this machine's kind), ETOOBIG (parts of it lie beyond the
 * end). */
SN_MUST_CHECK enum sn_err sni_elf_check(const void *bytes, size_t size);

#endif
