/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: the largest report fits: two times SN_REASON_COUNT reasons of at most 32 bytes with their counts. */
#include <stdarg.h>
#include <stdio.h>

#include "soak.h"

struct writer {
    char *out;
    uint32_t size;
};

static void add(struct writer *writer, const char *format, ...) SN_PRINTF(2, 3);

static void add(struct writer *writer, const char *format, ...)
{
    va_list args;
    uint32_t room = SOAK_REPORT_BYTES_MAX - writer->size;
    va_start(args, format);
    int size = vsnprintf(writer->out + writer->size, room, format, args);
    va_end(args);
    if (size > 0) writer->size += (uint32_t)size < room ? (uint32_t)size : room - 1;
}

static void add_reasons(struct writer *writer, const char *key,
                        const uint32_t counts[SN_REASON_COUNT])
{
    const char *comma = "";
    add(writer, ",\"%s\":{", key);
    for (unsigned i = 0; i < SN_REASON_COUNT; i++) {
        if (counts[i] == 0) continue;
        add(writer, "%s\"%s\":%u", comma, sn_reason_name((enum sn_reason)i), counts[i]);
        comma = ",";
    }
    add(writer, "}");
}

uint32_t sni_soak_report(const struct soak *soak, char out[SOAK_REPORT_BYTES_MAX])
{
    const struct soak_source *source = &soak->source;
    const struct soak_sink *sink = &soak->sink;
    struct writer writer = {.out = out};
    add(&writer, "{\"sent\":%u,\"outcomes\":{\"delivered\":%u", source->sent, source->delivered);
    add_reasons(&writer, "undelivered", source->undelivered);
    add_reasons(&writer, "unknown", source->unknown);
    add(&writer, "},\"received\":%u,\"doubled\":%u,\"reordered\":%u,\"altered\":%u,\"done\":%s}",
        sink->received, sink->doubled, sink->reordered, sink->altered,
        sni_soak_is_done(soak) ? "true" : "false");
    return writer.size;
}
