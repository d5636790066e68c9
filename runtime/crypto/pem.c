/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: what encode wrote, decode reads; no byte outside the one block is ever ignored. */
#include "crypto/pem_int.h"

#include <sodium.h>
#include <string.h>

#include "base/assert.h"

#define BEGIN      "-----BEGIN "
#define END        "-----END "
#define DASHES     "-----"
#define LINE_BYTES 48u /* 64 characters, the width of RFC 7468 */
#define LINE_CHARS 64u

static const char white_space[] = " \t\r\n";

static int is_space(char c)
{
    return c != '\0' && strchr(white_space, c) != NULL;
}

static char *append(char *at, const char *text)
{
    size_t size = strlen(text);
    memcpy(at, text, size);
    return at + size;
}

enum sn_err sni_pem_encode(const char *label, const uint8_t *bytes, size_t size, char *out,
                           size_t capacity, size_t *out_size)
{
    SN_ASSERT(label != NULL && out != NULL);
    if (size > SIZE_MAX / 4) return SN_ETOOBIG;
    size_t lines = (size + LINE_BYTES - 1) / LINE_BYTES;
    size_t frame = strlen(BEGIN) + strlen(END) + 2 * (strlen(label) + strlen(DASHES) + 1);
    size_t total = frame + (size + 2) / 3 * 4 + lines;
    if (total + 1 > capacity) return SN_ETOOBIG;
    char *at = append(append(append(out, BEGIN), label), DASHES "\n");
    for (size_t done = 0; done < size; done += LINE_BYTES) {
        size_t part = size - done < LINE_BYTES ? size - done : LINE_BYTES;
        size_t chars = (part + 2) / 3 * 4;
        /* The terminator that libsodium writes becomes the newline. */
        sodium_bin2base64(at, chars + 1, bytes + done, part, sodium_base64_VARIANT_ORIGINAL);
        at += chars;
        *at++ = '\n';
    }
    at = append(append(append(at, END), label), DASHES "\n");
    *at = '\0';
    SN_ASSERT((size_t)(at - out) == total);
    *out_size = total;
    return SN_OK;
}

/* Bytes that the characters stand for, if they are base64. */
static size_t decoded_size(const char *text, size_t size)
{
    size_t chars = 0;
    for (size_t i = 0; i < size; i++) chars += !is_space(text[i]) && text[i] != '=';
    return chars / 4 * 3 + chars % 4 * 3 / 4;
}

static int has_at(const char *text, const char *prefix)
{
    return memcmp(text, prefix, strlen(prefix)) == 0;
}

enum sn_err sni_pem_decode(const char *label, const char *pem, size_t pem_size, uint8_t *out,
                           size_t capacity, size_t *out_size)
{
    SN_ASSERT(label != NULL && out != NULL);
    size_t label_size = strlen(label);
    size_t first = strlen(BEGIN) + label_size + strlen(DASHES);
    size_t last = strlen(END) + label_size + strlen(DASHES);
    while (pem_size > 0 && is_space(pem[pem_size - 1])) pem_size--;
    while (pem_size > 0 && is_space(*pem)) pem++, pem_size--;
    if (pem_size < first + last + 2) return SN_EINVAL;
    const char *end = pem + pem_size - last;
    if (!has_at(pem, BEGIN) || !has_at(end, END)) return SN_EINVAL;
    if (!has_at(pem + strlen(BEGIN), label) || !has_at(end + strlen(END), label)) return SN_EINVAL;
    if (!has_at(pem + first - strlen(DASHES), DASHES)) return SN_EINVAL;
    if (!has_at(pem + pem_size - strlen(DASHES), DASHES)) return SN_EINVAL;
    const char *body = pem + first;
    size_t body_size = (size_t)(end - body);
    if (!is_space(*body) || !is_space(end[-1])) return SN_EINVAL;
    /* libsodium looks a character up with strchr, which finds NUL in every list of ignored ones. */
    if (memchr(body, '\0', body_size) != NULL) return SN_EINVAL;
    if (decoded_size(body, body_size) > capacity) return SN_ETOOBIG;
    size_t size;
    if (sodium_base642bin(out, capacity, body, body_size, white_space, &size, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0) {
        sodium_memzero(out, capacity);
        return SN_EINVAL;
    }
    *out_size = size;
    return SN_OK;
}
