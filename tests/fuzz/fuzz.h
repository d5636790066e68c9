/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one function of a fuzz target. libFuzzer fixes its name and declares it nowhere; sn_add_fuzz
 * includes this header in front of every source, so that targets need not repeat it.
 */
#ifndef SN_TESTS_FUZZ_FUZZ_H
#define SN_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Reads data, of any content; always returns 0. Whatever it finds wrong must end the process. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
