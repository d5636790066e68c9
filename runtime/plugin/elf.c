/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: reads inside the given bytes only. */
#include "plugin/elf.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

static int is_inside(uint64_t offset, uint64_t length, size_t size)
{
    return offset <= size && length <= size - offset;
}

static int is_our_kind(const ElfW(Ehdr) * header)
{
    const uint16_t probe = 1;
    uint8_t lowest = 0;
    memcpy(&lowest, &probe, 1);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return 0;
    if (header->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)) return 0;
    if (header->e_ident[EI_DATA] != (lowest == 1 ? ELFDATA2LSB : ELFDATA2MSB)) return 0;
    return header->e_type == ET_DYN && header->e_phentsize == sizeof(ElfW(Phdr));
}

enum sn_err sni_elf_check(const void *bytes, size_t size)
{
    ElfW(Ehdr) header;
    const uint8_t *at = bytes;
    if (size < sizeof header) return SN_EINVAL;
    memcpy(&header, at, sizeof header);
    if (!is_our_kind(&header)) return SN_EINVAL;
    uint64_t table_bytes = (uint64_t)header.e_phnum * sizeof(ElfW(Phdr));
    if (!is_inside(header.e_phoff, table_bytes, size)) return SN_ETOOBIG;
    for (uint32_t i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) part;
        memcpy(&part, at + header.e_phoff + i * sizeof part, sizeof part);
        if (part.p_type != PT_LOAD) continue;
        if (!is_inside(part.p_offset, part.p_filesz, size)) return SN_ETOOBIG;
    }
    return SN_OK;
}
