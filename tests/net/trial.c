/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that misbehave in a running agent, one for each TRIAL_ macro, and `talk`, which answers in every way. */
#include <string.h>

#include "sennit/plugin.h"

#if defined(TRIAL_TALK)
#define NAME  "talk"
#define ACTOR "talk"
#elif defined(TRIAL_STUMBLE) /* its START fails */
#define NAME  "stumble"
#define ACTOR "stumble"
#elif defined(TRIAL_CLASH) /* has an actor that every agent has */
#define NAME  "clash"
#define ACTOR "ping"
#elif defined(TRIAL_DOUBT) /* its own check fails */
#define NAME  "doubt"
#define ACTOR "doubt"
#elif defined(TRIAL_COPY) /* has the metrics of talk */
#define NAME  "talk-copy"
#define ACTOR "talk-copy"
#endif

static enum sn_err answer(struct sn_ctx *ctx, const struct sn_event *event)
{
    static const struct {
        const char *type;
        const char *payload;
        uint32_t size;
    } answers[] = {{"talk.json", " [1, {\"a\": null}]\n", 18},
                   {"talk.msgpack", "\x81\xa1\x61\x01", 4},
                   {"talk.text", "hello", 5},
                   {"talk.letter", "h", 1},
                   {"talk.binary", "\xff\xfe\x00\x01", 4},
                   {"talk.empty", "", 0},
                   {"talk.control",
                    "\"\x7f\xc2\x9b"
                    "31m\"",
                    8}};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        if (strcmp(answers[i].type, event->type) != 0) continue;
        return sn_reply(ctx, event, "talk.answer", answers[i].payload, answers[i].size);
    }
    return SN_OK; /* no answer at all */
}

static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    (void)state; /* it keeps none */
#if defined(TRIAL_STUMBLE)
    if (event->kind == SN_EVENT_START) return SN_EIO;
#endif
    if (event->kind != SN_EVENT_MESSAGE) return SN_OK;
    if (strcmp(event->type, "talk.count") == 0) {
        sn_metric_add(ctx, 0, 1);
        sn_metric_add(ctx, 1, 1); /* there is none */
        sn_metric_add(ctx, 4000000000u, 1);
        return sn_reply(ctx, event, "talk.answer", "true", 4);
    }
    return answer(ctx, event);
}

static const struct sn_actor_kind kind = {
    .size = (uint32_t)sizeof(struct sn_actor_kind), .name = ACTOR, .handle = handle};
static const struct sn_actor_kind *const actors[] = {&kind};

#if defined(TRIAL_DOUBT)
static const struct sn_config_field fields[] = {
    {.key = "key", .kind = SN_CONFIG_INT, .min = 0, .max = 9, .help = "Any."}, {0}};

static enum sn_err check(const struct sn_config_node *config, sn_plugin_finding_fn report,
                         void *arg)
{
    (void)config, (void)report, (void)arg; /* it fails anyway */
    return SN_EIO;
}
#endif

static const struct sn_metric_desc metrics[] = {
#if defined(TRIAL_COPY)
    {"talk_copy.x", SN_METRIC_COUNTER, "one"},
    {"talk_copy.x", SN_METRIC_COUNTER, "and again"},
#else
    {NAME ".asked", SN_METRIC_COUNTER, "questions"},
#endif
    {NULL, 0, NULL}};

SN_PLUGIN_EXPORT const struct sn_plugin sn_plugin = {
    SN_PLUGIN_HEADER, .name = NAME,     .version = "0.1",   .help = "For tests.",
    .actors = actors, .actor_count = 1, .metrics = metrics,
#if defined(TRIAL_DOUBT)
    .config = fields, .check = check,
#endif
};
