/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <elf.h>
#include <link.h>

#include "plugin/elf.h"

#define SAMPLE_BYTES_MAX ((size_t)1 << 22)

static uint8_t *read_sample(size_t *out_size)
{
    uint8_t *bytes = malloc(SAMPLE_BYTES_MAX);
    FILE *file = fopen(SN_SAMPLES_DIR "/good.so", "rb");
    assert_non_null(bytes);
    assert_non_null(file);
    size_t size = fread(bytes, 1, SAMPLE_BYTES_MAX, file);
    assert_true(size > 1000 && size < SAMPLE_BYTES_MAX);
    (void)fclose(file); /* was only read */
    *out_size = size;
    return bytes;
}

/* Where the last mapped byte of the file is. */
static size_t mapped_end(const uint8_t *bytes)
{
    ElfW(Ehdr) header;
    size_t end = 0;
    memcpy(&header, bytes, sizeof header);
    for (size_t i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) part;
        memcpy(&part, bytes + header.e_phoff + i * sizeof part, sizeof part);
        size_t part_end = (size_t)(part.p_offset + part.p_filesz);
        if (part.p_type == PT_LOAD && part_end > end) end = part_end;
    }
    return end;
}

static void a_real_one_passes_only_whole(void **state)
{
    (void)state;
    size_t size = 0;
    uint8_t *bytes = read_sample(&size);
    size_t end = mapped_end(bytes);
    assert_int_equal(sni_elf_check(bytes, size), SN_OK);
    assert_int_equal(sni_elf_check(bytes, end), SN_OK); /* the rest is for debuggers */
    for (size_t cut = 0; cut < end; cut += cut < 2048 ? 1 : 97) {
        uint8_t *copy = malloc(cut + 1); /* so that reading beyond it is seen */
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        assert_int_equal(sni_elf_check(copy, cut),
                         cut < sizeof(ElfW(Ehdr)) ? SN_EINVAL : SN_ETOOBIG);
        free(copy);
    }
    assert_int_equal(sni_elf_check(bytes, end - 1), SN_ETOOBIG);
    free(bytes);
}

static void other_kinds_are_refused(void **state)
{
    static const struct {
        size_t offset;
        uint8_t value;
    } faults[] = {{0, 0x7e},
                  {3, 'f'},
                  {EI_CLASS, 3},
                  {EI_CLASS, sizeof(void *) == 8 ? ELFCLASS32 : ELFCLASS64},
                  {EI_DATA, 0},
                  {offsetof(ElfW(Ehdr), e_type), ET_EXEC},
                  {offsetof(ElfW(Ehdr), e_type), ET_REL},
                  {offsetof(ElfW(Ehdr), e_phentsize), 1}};
    (void)state;
    size_t size = 0;
    uint8_t *bytes = read_sample(&size);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        uint8_t good = bytes[faults[i].offset];
        bytes[faults[i].offset] = faults[i].value;
        assert_int_equal(sni_elf_check(bytes, size), SN_EINVAL);
        bytes[faults[i].offset] = good;
    }
    assert_int_equal(sni_elf_check(bytes, size), SN_OK);
    free(bytes);
}

/* Offsets that wrap around when something is added to them. */
static void huge_offsets_are_refused(void **state)
{
    (void)state;
    size_t size = 0;
    uint8_t *bytes = read_sample(&size);
    ElfW(Ehdr) good;
    memcpy(&good, bytes, sizeof good);
    ElfW(Ehdr) header = good;
    header.e_phoff = ~(ElfW(Off))0 - 8;
    memcpy(bytes, &header, sizeof header);
    assert_int_equal(sni_elf_check(bytes, size), SN_ETOOBIG);
    memcpy(bytes, &good, sizeof good);
    ElfW(Phdr) part;
    memcpy(&part, bytes + good.e_phoff, sizeof part);
    part.p_type = PT_LOAD;
    part.p_offset = 1;
    part.p_filesz = ~(ElfW(Xword))0;
    memcpy(bytes + good.e_phoff, &part, sizeof part);
    assert_int_equal(sni_elf_check(bytes, size), SN_ETOOBIG);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_real_one_passes_only_whole),
        cmocka_unit_test(other_kinds_are_refused),
        cmocka_unit_test(huge_offsets_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
