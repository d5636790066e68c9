/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX ((size_t)1 << 20)

void *fp_alloc(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL) {
        (void)fputs("faultproxy: out of memory\n", stderr); /* it ends anyway */
        exit(1);
    }
    return memory;
}

static void reserve(struct fp_text *text, size_t capacity)
{
    size_t grown = text->capacity == 0 ? 256 : text->capacity;
    if (capacity <= text->capacity) return;
    while (grown < capacity) {
        grown *= 2;
    }
    char *data = fp_alloc(grown);
    if (text->size > 0) memcpy(data, text->data, text->size + 1);
    free(text->data);
    text->data = data;
    text->capacity = grown;
}

void fp_text_add(struct fp_text *text, const char *format, ...)
{
    va_list arguments;
    va_list again;
    va_start(arguments, format);
    va_copy(again, arguments);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is just above */
    int size = vsnprintf(NULL, 0, format, arguments);
    if (size > 0 && text->size + (size_t)size < TEXT_BYTES_MAX) {
        reserve(text, text->size + (size_t)size + 1);
        (void)vsnprintf(text->data + text->size, text->capacity - text->size, format,
                        again); /* measured above */
        text->size += (size_t)size;
    }
    va_end(again);
    va_end(arguments);
}

void fp_text_drop(struct fp_text *text, size_t size)
{
    if (size == 0) return;
    memmove(text->data, text->data + size, text->size - size + 1);
    text->size -= size;
}

void fp_text_fini(struct fp_text *text)
{
    free(text->data);
    *text = (struct fp_text){0};
}
