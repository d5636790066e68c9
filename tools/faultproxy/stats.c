/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/stats.h"

#include <inttypes.h>
#include <stddef.h>

#include "tools/faultproxy/text.h"

static const struct {
    const char *name;
    size_t offset;
    const char *help;
} entries[] = {
    {"connections_now", offsetof(struct fp_stats, connections_now), "open connections, or clients"},
    {"connections_total", offsetof(struct fp_stats, connections_total), "accepted so far"},
    {"refused", offsetof(struct fp_stats, refused), "reset at once by `refuse`"},
    {"unreachable", offsetof(struct fp_stats, unreachable), "the server was not there"},
    {"resets", offsetof(struct fp_stats, resets), "connections reset by `reset` and `cut`"},
    {"read_up", offsetof(struct fp_stats, read[FP_UP]), "bytes taken in, from clients"},
    {"read_down", offsetof(struct fp_stats, read[FP_DOWN]), "... from the server"},
    {"bytes_up", offsetof(struct fp_stats, bytes[FP_UP]), "bytes passed on to the server"},
    {"bytes_down", offsetof(struct fp_stats, bytes[FP_DOWN]), "... to clients"},
    {"writes_up", offsetof(struct fp_stats, writes[FP_UP]), "writes, or datagrams sent"},
    {"writes_down", offsetof(struct fp_stats, writes[FP_DOWN]), "... to clients"},
    {"drops_up", offsetof(struct fp_stats, drops[FP_UP]), "bytes discarded, or datagrams lost"},
    {"drops_down", offsetof(struct fp_stats, drops[FP_DOWN]), "... to clients"},
    {"dups_up", offsetof(struct fp_stats, dups[FP_UP]), "datagrams sent twice"},
    {"dups_down", offsetof(struct fp_stats, dups[FP_DOWN]), "... to clients"},
};

#define ENTRIES (sizeof entries / sizeof entries[0])

void fp_stats_print(const struct fp_stats *stats, struct fp_text *out)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        const uint64_t *value =
            (const uint64_t *)(const void *)((const char *)stats + entries[i].offset);
        fp_text_add(out, "%s%s=%" PRIu64, i == 0 ? "" : " ", entries[i].name, *value);
    }
}

void fp_stats_print_help(struct fp_text *out)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        fp_text_add(out, "  %-18s %s\n", entries[i].name, entries[i].help);
    }
}
