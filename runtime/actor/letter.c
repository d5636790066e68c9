/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: a letter is one allocation whose names end in NUL inside it. */
#include "actor/letter.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

static const char *append(uint8_t **at, const void *bytes, size_t size)
{
    uint8_t *start = *at;
    if (size > 0) memcpy(start, bytes, size);
    *at += size;
    return (const char *)start;
}

enum sn_err sn_letter_new(const struct sn_letter_fields *fields, struct sn_letter **out_letter)
{
    const char *names[] = {fields->from_agent, fields->from_actor, fields->to_agent,
                           fields->to_actor, fields->type};
    size_t total = sizeof(struct sn_letter);
    for (unsigned i = 0; i < SN_ARRAY_COUNT(names); i++) {
        SN_ASSERT(names[i] != NULL);
        if (strlen(names[i]) > SN_ADDR_BYTES_MAX) return SN_ETOOBIG;
        total += strlen(names[i]) + 1;
    }
    if (fields->payload_size > SN_MESSAGE_BYTES_MAX) return SN_ETOOBIG;
    int is_copied = fields->slab == NULL || fields->payload_size <= SN_MESSAGE_COPY_BYTES_MAX;
    if (is_copied) total += fields->payload_size;

    struct sn_letter *letter = sn_alloc_raw(total);
    if (letter == NULL) return SN_ENOMEM;
    memset(letter, 0, sizeof *letter);
    letter->alloc_size = (uint32_t)total;
    letter->payload_size = fields->payload_size;
    uint8_t *at = (uint8_t *)(letter + 1);
    letter->from_agent = append(&at, names[0], strlen(names[0]) + 1);
    letter->from_actor = append(&at, names[1], strlen(names[1]) + 1);
    letter->to_agent = append(&at, names[2], strlen(names[2]) + 1);
    letter->to_actor = append(&at, names[3], strlen(names[3]) + 1);
    letter->type = append(&at, names[4], strlen(names[4]) + 1);
    if (is_copied) {
        letter->payload = (const uint8_t *)append(&at, fields->payload, fields->payload_size);
    } else {
        letter->slab = sn_buf_ref(fields->slab);
        letter->payload = fields->payload;
    }
    SN_ASSERT(at == (uint8_t *)letter + total);
    *out_letter = letter;
    return SN_OK;
}

void sn_letter_free(struct sn_letter *letter)
{
    if (letter == NULL) return;
    SN_ASSERT(!sn_list_is_linked(&letter->node));
    sn_buf_unref(&letter->slab);
    sn_free(letter, letter->alloc_size);
}
