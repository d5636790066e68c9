/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An example to copy: the plugin `echo`, whose actor answers echo.say with what it was sent.
 *
 * To make it yours, in a copy of this folder: mv echo.c NAME.c && sed -i 's/echo/NAME/g' NAME.c Makefile \
 * CMakeLists.txt test.sh. CONTRIBUTING.md of Sennit walks through it, up to an answered `sennit call`.
 *
 * Purpose: shows where everything goes that most plugins need.
 * In: echo.say. Out: echo.said, echo.refused, to whoever asked.
 * States: none; it answers at once.
 * Invariant: every question gets exactly one answer, and counts as said or as refused.
 *
 * Rules for every plugin: no threads, no globals that change, no call that blocks. What an actor knows stands in its
 * state; what it needs from the agent it asks of `ctx`, which is valid during the handler call only. The other events
 * of a handler are in sennit/actor.h, each with the members it brings along.
 */
#include <string.h>

#include <sennit/plugin.h>

#define MIN_BYTES_DEFAULT "0"
#define MAX_BYTES_DEFAULT "65536"

/* --- Configuration: what stands under `config:` of the plugin's entry ----------------------------------- */

/* The table checks types, ranges and names, and is what `sennit check --reference echo` prints. */
static const struct sn_config_field config_fields[] = {
    {.key = "min_bytes",
     .kind = SN_CONFIG_INT,
     .min = 0,
     .max = SN_MESSAGE_BYTES_MAX,
     .def = MIN_BYTES_DEFAULT,
     .help = "Shorter payloads are refused, in bytes."},
    {.key = "max_bytes",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = SN_MESSAGE_BYTES_MAX,
     .def = MAX_BYTES_DEFAULT,
     .help = "Longer payloads are refused, in bytes."},
    {0},
};

/* What the table cannot say. Each report stands at its place in the file, and refuses it. */
static enum sn_err check_config(const struct sn_config_node *config, sn_plugin_finding_fn report,
                                void *arg)
{
    int64_t min_bytes = sn_config_get_int(config, config_fields, "min_bytes");
    int64_t max_bytes = sn_config_get_int(config, config_fields, "max_bytes");
    if (min_bytes > max_bytes) {
        /* One of both is there: the defaults fit each other. */
        const struct sn_config_node *node = sn_config_get(config, "min_bytes");
        report(arg, node != NULL ? node : sn_config_get(config, "max_bytes"),
               "`min_bytes` is above `max_bytes`");
    }
    return SN_OK;
}

/* --- Metrics: shown by `sennit metrics` ------------------------------------------------------------------ */

enum { METRIC_SAID, METRIC_REFUSED };

static const struct sn_metric_desc metrics[] = {
    [METRIC_SAID] = {"echo.said", SN_METRIC_COUNTER, "messages that were sent back"},
    [METRIC_REFUSED] = {"echo.refused", SN_METRIC_COUNTER,
                        "messages of a size that is not allowed"},
    {NULL, 0, NULL},
};

/* --- Messages: shown by `sennit plugins`, for whoever wants to send some --------------------------------- */

/* Say what a payload is. JSON text is a good choice: `sennit call` sends and shows it as it is. */
static const struct sn_message_type messages[] = {
    {"echo.say", "any payload, such as JSON; answered with echo.said and the same payload, or with "
                 "echo.refused and none"},
    {NULL, NULL},
};

/* --- The actor ------------------------------------------------------------------------------------------- */

/* Zeroed before START, also when the actor is started again after a failure. */
struct echo {
    uint32_t min_bytes;
    uint32_t max_bytes;
};

/* Copies what is needed: a reload brings another configuration, and the former one goes. */
static void take_config(struct echo *echo, const struct sn_config_node *config)
{
    echo->min_bytes = (uint32_t)sn_config_get_int(config, config_fields, "min_bytes");
    echo->max_bytes = (uint32_t)sn_config_get_int(config, config_fields, "max_bytes");
}

/* An error that is returned from the handler fails the actor: it is started again with fresh state, and given up when
 * that happens too often. So what others send is never a reason to return one. */
static enum sn_err say(struct sn_ctx *ctx, const struct echo *echo, const struct sn_event *event)
{
    int is_fine = event->payload_size >= echo->min_bytes && event->payload_size <= echo->max_bytes;
    enum sn_err err = SN_OK;
    sn_metric_add(ctx, is_fine ? METRIC_SAID : METRIC_REFUSED, 1);
    if (event->correlation == 0) return SN_OK; /* nobody waits for an answer */
    if (is_fine) {
        err = sn_reply(ctx, event, "echo.said", event->payload, event->payload_size);
    } else {
        err = sn_reply(ctx, event, "echo.refused", NULL, 0);
    }
    if (err != SN_OK) {
        sn_log(ctx, SN_WARN, "ECHO-UNANSWERED", "to=%s err=%s", event->agent, sn_err_name(err));
    }
    return SN_OK;
}

/*
 * Everything an actor hears comes here. Where the rest would go:
 *   timers    sn_timer(ctx, TOKEN, ms) in START; `case SN_EVENT_TIMER:` when it is due, and set it again there
 *   streams   `.service` in the kind below; `case SN_EVENT_STREAM_ASKED:` accepts and splices or delivers one;
 *             sn_stream_open towards another agent, then STREAM_UP (sennit/stream.h)
 *   work that blocks  sn_offload(ctx, ...); `case SN_EVENT_JOB:` when it is done
 *   the end   `case SN_EVENT_STOP:` finish what is open, if it takes a while
 */
static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct echo *echo = state;
    switch (event->kind) {
    case SN_EVENT_START:
    case SN_EVENT_CONFIG: take_config(echo, event->config); return SN_OK;
    case SN_EVENT_MESSAGE:
        if (strcmp(event->type, "echo.say") == 0) return say(ctx, echo, event);
        return SN_OK; /* types of others, or of later versions, are none of its business */
    default: return SN_OK;
    }
}

static const struct sn_actor_kind echo_actor = {
    .size = (uint32_t)sizeof(struct sn_actor_kind),
    .state_bytes = (uint32_t)sizeof(struct echo),
    .name = "echo",
    .handle = handle,
};

static const struct sn_actor_kind *const actors[] = {&echo_actor};

/* --- The descriptor: the one symbol that the agent looks for --------------------------------------------- */

SN_PLUGIN_EXPORT const struct sn_plugin sn_plugin = {
    SN_PLUGIN_HEADER,        .name = "echo", /* the file is called echo.so */
    .version = "1.0",        .help = "Answers what it is sent with the same.",
    .actors = actors,        .actor_count = 1,
    .config = config_fields, .metrics = metrics,
    .messages = messages,    .check = check_config,
};
