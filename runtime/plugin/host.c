/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: every entry of the table is filled in, so neither actors nor the inline functions of
 * the public headers need to ask.
 */
#include "plugin/host.h"

#include "actor/system.h"
#include "peer/net.h"
#include "sennit/plugin.h"

const struct sn_host sn_host_table = {
    .size = (uint32_t)sizeof(struct sn_host),
    .abi_major = SN_PLUGIN_ABI_MAJOR,
    .abi_minor = SN_PLUGIN_ABI_MINOR,
    .now_ms = sn_ctx_now_ms,
    .random = sn_ctx_random,
    .log = sn_ctx_log,
    .metric_add = sn_ctx_metric_add,
    .agent_name = sn_ctx_agent_name,
    .send = sn_ctx_send,
    .ask = sn_ctx_ask,
    .reply = sn_ctx_reply,
    .timer = sn_ctx_timer,
    .timer_cancel = sn_ctx_timer_cancel,
    .offload = sn_ctx_offload,
    .listen = sn_net_ctx_listen,
    .listener_close = sn_net_ctx_listener_close,
    .dial = sn_net_ctx_dial,
    .conn_close = sn_net_ctx_conn_close,
    .stream_open = sn_net_ctx_stream_open,
    .stream_accept = sn_net_ctx_stream_accept,
    .stream_splice = sn_net_ctx_stream_splice,
    .stream_reset = sn_net_ctx_stream_reset,
    .agent_matches = sn_net_ctx_agent_matches,
    .stream_deliver = sn_net_ctx_stream_deliver,
    .stream_consume = sn_net_ctx_stream_consume,
    .stream_write = sn_net_ctx_stream_write,
    .stream_end = sn_net_ctx_stream_end,
    .stream_tune = sn_net_ctx_stream_tune,
};
