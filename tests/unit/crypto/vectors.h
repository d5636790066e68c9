/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tests/vectors: files of lines `name hexadecimal`, comments start with '#'. */
#ifndef SN_TESTS_UNIT_CRYPTO_VECTORS_H
#define SN_TESTS_UNIT_CRYPTO_VECTORS_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of one line; a missing one ends the program. Returns their number. */
size_t vector_read(const char *file, const char *name, uint8_t *out, size_t capacity);

/* The whole file as text, NUL-terminated. Returns its size. */
size_t vector_text(const char *file, char *out, size_t capacity);

#endif
