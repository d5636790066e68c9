/* SPDX-License-Identifier: Apache-2.0 */
/* A small plugin, and with one of the SAMPLE_ macros one that is wrong in a single way. */
#include "sennit/plugin.h"

/* Calls what a plugin may call, so that loading it needs all of that. */
static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    struct sn_buf buf;
    (void)state; /* it keeps none */
    enum sn_err err = sn_buf_copy(event->payload, event->payload_size, &buf);
    if (err != SN_OK) return err;
    sn_log(ctx, SN_INFO, "SAMPLE", "text=%s reason=%s", sn_config_text(event->config, ""),
           sn_reason_name(SN_REASON_NONE));
    sn_buf_unref(&buf);
    return SN_OK;
}

static const struct sn_actor_kind kind = {
    .size = (uint32_t)sizeof(struct sn_actor_kind), .name = "sample", .handle = handle};
static const struct sn_actor_kind *const actors[] = {&kind};

#if defined(SAMPLE_NOT_LINKED)
/* A function that no agent exports. */
void sn_sample_missing(void);
void (*sn_sample_pointer)(void) = sn_sample_missing;
#endif

#if defined(SAMPLE_NO_SYMBOL)
static const struct sn_actor_kind *const *const kept __attribute__((used)) = actors;
#else
SN_PLUGIN_EXPORT const struct sn_plugin sn_plugin = {
#if defined(SAMPLE_WRONG_MAGIC)
    .magic = SN_PLUGIN_MAGIC + 1,
#else
    .magic = SN_PLUGIN_MAGIC,
#endif
#if defined(SAMPLE_WRONG_MAJOR)
    .abi_major = SN_PLUGIN_ABI_MAJOR + 1,
#else
    .abi_major = SN_PLUGIN_ABI_MAJOR,
#endif
#if defined(SAMPLE_NEWER_MINOR)
    .abi_minor = SN_PLUGIN_ABI_MINOR + 1,
#else
    .abi_minor = SN_PLUGIN_ABI_MINOR,
#endif
#if defined(SAMPLE_SHORT_STRUCT)
    .size = 24,
#else
    .size = (uint32_t)sizeof(struct sn_plugin),
#endif
#if defined(SAMPLE_WRONG_NAME)
    .name = "other",
#elif defined(SAMPLE_GOOD_TWO)
    .name = "good-two",
#elif defined(SAMPLE_NOT_LINKED)
    .name = "not-linked",
#else
    .name = "good",
#endif
    .version = "1.2.3",
    .help = "Does nothing.",
    .actors = actors,
    .actor_count = 1,
};
#endif
