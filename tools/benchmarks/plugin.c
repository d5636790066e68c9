/* SPDX-License-Identifier: Apache-2.0 */
/* What the bench plugin declares. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "samples.h"

const struct sn_config_field sni_bench_fields[] = {
    {.key = "mode",
     .kind = SN_CONFIG_ENUM,
     .choices = "idle|messages|roundtrip",
     .def = "idle",
     .help = "What this agent does to its peer; idle = only what the peer asks for."},
    {.key = "peer",
     .kind = SN_CONFIG_AGENT,
     .flags = SN_CONFIG_REQUIRED,
     .help = "The agent at the other end."},
    {.key = "count",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = 1000000000,
     .def = "1000000",
     .help = "Messages to send, or round trips to measure (at most 20000)."},
    {.key = "size",
     .kind = SN_CONFIG_INT,
     .min = BENCH_SIZE_MIN,
     .max = BENCH_SIZE_MAX,
     .def = "128",
     .help = "Bytes of each message."},
    {.key = "window",
     .kind = SN_CONFIG_INT,
     .min = 4,
     .max = BENCH_WINDOW_MAX,
     .def = "32768",
     .help = "Messages that are sent and not yet handled, at most."},
    {.key = "outcomes",
     .kind = SN_CONFIG_ENUM,
     .choices = "ledger|events",
     .def = "ledger",
     .help = "Who is told how each message ended: the ledger only, or the sending actor too."},
    {.key = "interval_ms",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = 60000,
     .def = "1",
     .help = "Pause between an answer and the next question."},
    {0},
};

static const struct sn_message_type messages[] = {
    {BENCH_HELLO, "Asks the sink to begin with message 0; answered when it does."},
    {BENCH_DATA, "A numbered message, to be checked and counted."},
    {BENCH_CREDIT, "To the source: how many were handled."},
    {BENCH_DONE, "To the source: all were handled; the counts."},
    {BENCH_ASK, "Answered with the same bytes."},
    {0},
};

uint64_t sni_bench_get(const struct sn_config_node *config, const char *key)
{
    return (uint64_t)sn_config_get_int(config, sni_bench_fields, key);
}

int sni_bench_is_mode(const struct sn_config_node *config, const char *mode)
{
    return config != NULL &&
           strcmp(sn_config_get_text(config, sni_bench_fields, "mode"), mode) == 0;
}

void sni_bench_address(const struct sn_config_node *config, const char *actor,
                       char out[SN_ADDR_BYTES_MAX + 1])
{
    const char *peer = sn_config_get_text(config, sni_bench_fields, "peer");
    /* Fits: a checked name and a short label. */
    (void)snprintf(out, SN_ADDR_BYTES_MAX + 1, "%s:%s", peer == NULL ? "" : peer, actor);
}

static enum sn_err check(const struct sn_config_node *config, sn_plugin_finding_fn report,
                         void *arg)
{
    if (sni_bench_is_mode(config, "roundtrip") &&
        sni_bench_get(config, "count") > BENCH_SAMPLES_MAX) {
        report(arg, sn_config_get(config, "count"), "is more than 20000 round trips");
    }
    return SN_OK;
}

static const struct sn_actor_kind *const actors[] = {&sni_bench_source_kind, &sni_bench_sink_kind,
                                                     &sni_bench_asker_kind, &sni_bench_echo_kind};

SN_PLUGIN_EXPORT const struct sn_plugin sn_plugin = {
    SN_PLUGIN_HEADER,
    .name = "bench",
    .version = "0.1.0",
    .help = "Sends counted messages and measures round trips: what tools/bench runs.",
    .actors = actors,
    .actor_count = 4,
    .config = sni_bench_fields,
    .messages = messages,
    .check = check,
};
