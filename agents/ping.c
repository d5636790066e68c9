/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purpose: the `ping` actor answers every question with what it was asked, for every member of the mesh.
 * In: any message with a correlation. Out: `ping.pong` with the same payload. State: none.
 * Invariant: a payload above PING_BYTES_MAX is not sent back, so that nobody is used as an amplifier.
 */
#include "agents/agent.h"

#define PING_BYTES_MAX 1024u

static enum sn_err handle(struct sn_ctx *ctx, void *state, const struct sn_event *event)
{
    (void)state; /* none */
    if (event->kind != SN_EVENT_MESSAGE || event->correlation == 0) return SN_OK;
    uint32_t size = event->payload_size <= PING_BYTES_MAX ? event->payload_size : 0;
    enum sn_err err = sn_reply(ctx, event, "ping.pong", event->payload, size);
    if (err != SN_OK) sn_log(ctx, SN_DEBUG, "PING-UNANSWERED", "err=%s", sn_err_name(err));
    return SN_OK;
}

const struct sn_actor_kind sn_ping_actor = {
    .size = sizeof(struct sn_actor_kind), .name = "ping", .handle = handle};
