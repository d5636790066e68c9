/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a parcel, past signature and seal: any bytes are refused, or can be walked again without an error.
 * What a body makes the receiver keep stays within its limits.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "delivery/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t seed[16] = {1};
    struct sni_names names;
    const struct sni_name *name;
    struct sni_body body;
    sni_names_init(&names, seed);
    if (sni_names_add(&names, "echo", 4, &name) != SN_OK) abort();
    if (sni_body_parse(data, size, &names, &body) == SN_OK) {
        if (body.message_count > SNI_PARCEL_LETTERS_MAX) abort();
        for (uint32_t i = 0; i < body.message_count; i++) {
            struct sni_message message;
            sni_body_next_message(&body, &names, &message);
            if (strlen(message.to) > SN_TYPE_BYTES_MAX) abort();
            if (strlen(message.from) > SN_TYPE_BYTES_MAX) abort();
            if (strlen(message.type) > SN_TYPE_BYTES_MAX) abort();
            if (message.payload_size > size) abort();
        }
        struct sni_exception_walk walk;
        uint32_t count = 0;
        sni_exception_walk_init(&walk, &body);
        while (sni_exception_walk_next(&walk)) count++;
        if (count != body.exception_count) abort();
    }
    if (names.count > SN_DELIVERY_HANDLES_MAX) abort();
    sni_names_cut(&names, 1);
    if (names.count != 1) abort();
    sni_names_fini(&names);
    return 0;
}
