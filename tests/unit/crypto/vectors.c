/* SPDX-License-Identifier: Apache-2.0 */
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define FILE_BYTES_MAX 16384u

size_t vector_text(const char *file, char *out, size_t capacity)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", SN_VECTORS_DIR, file);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        perror(path);
        exit(1);
    }
    size_t size = fread(out, 1, capacity - 1, stream);
    fclose(stream);
    out[size] = '\0';
    return size;
}

size_t vector_read(const char *file, const char *name, uint8_t *out, size_t capacity)
{
    static char text[FILE_BYTES_MAX];
    (void)vector_text(file, text, sizeof text);
    size_t name_size = strlen(name);
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        if (strncmp(line, name, name_size) == 0 && line[name_size] == ' ' && end != NULL) {
            const char *digits = line + name_size + 1;
            size_t count = (size_t)(end - digits);
            if (count / 2 > capacity || sn_hex_decode(digits, count, out, count / 2) != SN_OK)
                break;
            return count / 2;
        }
        line = end == NULL ? NULL : end + 1;
    }
    fprintf(stderr, "%s: no usable line %s\n", file, name);
    exit(1);
}
