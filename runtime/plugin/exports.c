/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a program that loads plugins contains every SN_API function, also those that it does
 * not use itself (checked by tests/unit/plugin/test_exports.c, which reads the public headers).
 */
#include <stddef.h>

#include "plugin/plugin_int.h"
#include "sennit/actor.h"
#include "sennit/buf.h"
#include "sennit/config.h"
#include "sennit/err.h"
#include "sennit/meter.h"

/* The types differ; only the addresses matter, nobody calls them through this table. */
#define EXPORT(function) ((sni_export)(function))

const sni_export sni_exports[] = {
    EXPORT(sn_buf_copy),
    EXPORT(sn_buf_headroom),
    EXPORT(sn_buf_is_sole),
    EXPORT(sn_buf_new),
    EXPORT(sn_buf_ref),
    EXPORT(sn_buf_slice),
    EXPORT(sn_buf_tailroom),
    EXPORT(sn_buf_unref),
    EXPORT(sn_config_at),
    EXPORT(sn_config_bool),
    EXPORT(sn_config_count),
    EXPORT(sn_config_get),
    EXPORT(sn_config_get_bool),
    EXPORT(sn_config_get_int),
    EXPORT(sn_config_get_text),
    EXPORT(sn_config_int),
    EXPORT(sn_config_key_at),
    EXPORT(sn_config_text),
    EXPORT(sn_config_where),
    EXPORT(sn_config_where_key),
    EXPORT(sn_err_name),
    EXPORT(sn_err_text),
    EXPORT(sn_log),
    EXPORT(sn_meter_free),
    EXPORT(sn_meter_new),
    EXPORT(sn_meter_read),
    EXPORT(sn_reason_name),
    NULL,
};
