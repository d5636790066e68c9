/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin ABI: sizes and offsets of all structures, and values of all constants, against a
 * golden file. A difference means: either undo it, or raise the ABI version, extend the change log
 * in sennit/plugin.h, and write the new file with `test_abi_plugin plugin.golden write`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sennit/buf.h"
#include "sennit/io.h"
#include "sennit/plugin.h"
#include "sennit/stream.h"

#if !defined(__LP64__)
#define IS_OTHER_MODEL 1 /* the file is for 64-bit pointers */
#else
#define IS_OTHER_MODEL 0
#endif

#define SIZE(type)                                                                                 \
    {                                                                                              \
#type, (long)sizeof(struct type)                                                           \
    }
#define FIELD(type, member)                                                                        \
    {                                                                                              \
        "  " #type "." #member, (long)offsetof(struct type, member)                                \
    }
#define VALUE(name)                                                                                \
    {                                                                                              \
#name, (long)(name)                                                                        \
    }
#define LAYOUT_BYTES_MAX ((size_t)32768)

static const struct {
    const char *name;
    long value;
} layout[] = {
    VALUE(SN_PLUGIN_MAGIC),
    VALUE(SN_PLUGIN_ABI_MAJOR),
    VALUE(SN_PLUGIN_ABI_MINOR),
    SIZE(sn_plugin),
    FIELD(sn_plugin, magic),
    FIELD(sn_plugin, abi_major),
    FIELD(sn_plugin, abi_minor),
    FIELD(sn_plugin, size),
    FIELD(sn_plugin, name),
    FIELD(sn_plugin, version),
    FIELD(sn_plugin, help),
    FIELD(sn_plugin, actors),
    FIELD(sn_plugin, actor_count),
    FIELD(sn_plugin, reserved),
    FIELD(sn_plugin, config),
    FIELD(sn_plugin, metrics),
    FIELD(sn_plugin, messages),
    FIELD(sn_plugin, check),
    SIZE(sn_message_type),
    FIELD(sn_message_type, type),
    FIELD(sn_message_type, help),
    SIZE(sn_metric_desc),
    FIELD(sn_metric_desc, name),
    FIELD(sn_metric_desc, kind),
    FIELD(sn_metric_desc, help),
    SIZE(sn_config_field),
    FIELD(sn_config_field, key),
    FIELD(sn_config_field, kind),
    FIELD(sn_config_field, flags),
    FIELD(sn_config_field, min),
    FIELD(sn_config_field, max),
    FIELD(sn_config_field, choices),
    FIELD(sn_config_field, def),
    FIELD(sn_config_field, help),
    FIELD(sn_config_field, fields),
    FIELD(sn_config_field, item),
    SIZE(sn_config_pos),
    FIELD(sn_config_pos, line),
    FIELD(sn_config_pos, column),
    SIZE(sn_buf),
    FIELD(sn_buf, slab),
    FIELD(sn_buf, data),
    FIELD(sn_buf, size),
    FIELD(sn_buf, reserved),
    SIZE(sn_ctx),
    FIELD(sn_ctx, host),
    SIZE(sn_actor_ref),
    SIZE(sn_stream_ref),
    SIZE(sn_conn_ref),
    SIZE(sn_listener_ref),
    SIZE(sn_event),
    FIELD(sn_event, size),
    FIELD(sn_event, kind),
    FIELD(sn_event, token),
    FIELD(sn_event, agent),
    FIELD(sn_event, actor),
    FIELD(sn_event, type),
    FIELD(sn_event, payload),
    FIELD(sn_event, payload_size),
    FIELD(sn_event, err),
    FIELD(sn_event, outcome),
    FIELD(sn_event, reason),
    FIELD(sn_event, correlation),
    FIELD(sn_event, stream),
    FIELD(sn_event, conn),
    FIELD(sn_event, listener),
    FIELD(sn_event, text),
    FIELD(sn_event, pointer),
    FIELD(sn_event, sent_bytes),
    FIELD(sn_event, received_bytes),
    FIELD(sn_event, config),
    FIELD(sn_event, buf),
    FIELD(sn_event, offset),
    FIELD(sn_event, is_end),
    FIELD(sn_event, reserved),
    SIZE(sn_actor_kind),
    FIELD(sn_actor_kind, size),
    FIELD(sn_actor_kind, state_bytes),
    FIELD(sn_actor_kind, name),
    FIELD(sn_actor_kind, mailbox_messages),
    FIELD(sn_actor_kind, outstanding_sends),
    FIELD(sn_actor_kind, handle),
    FIELD(sn_actor_kind, fini),
    FIELD(sn_actor_kind, service),
    SIZE(sn_send_options),
    FIELD(sn_send_options, size),
    FIELD(sn_send_options, is_control),
    FIELD(sn_send_options, deadline_ms),
    FIELD(sn_send_options, token),
    FIELD(sn_send_options, is_silent),
    FIELD(sn_send_options, reserved),
    SIZE(sn_host),
    FIELD(sn_host, size),
    FIELD(sn_host, abi_major),
    FIELD(sn_host, abi_minor),
    FIELD(sn_host, reserved),
    FIELD(sn_host, now_ms),
    FIELD(sn_host, random),
    FIELD(sn_host, log),
    FIELD(sn_host, metric_add),
    FIELD(sn_host, agent_name),
    FIELD(sn_host, send),
    FIELD(sn_host, ask),
    FIELD(sn_host, reply),
    FIELD(sn_host, timer),
    FIELD(sn_host, timer_cancel),
    FIELD(sn_host, offload),
    FIELD(sn_host, listen),
    FIELD(sn_host, listener_close),
    FIELD(sn_host, dial),
    FIELD(sn_host, conn_close),
    FIELD(sn_host, stream_open),
    FIELD(sn_host, stream_accept),
    FIELD(sn_host, stream_splice),
    FIELD(sn_host, stream_reset),
    FIELD(sn_host, agent_matches),
    FIELD(sn_host, stream_deliver),
    FIELD(sn_host, stream_consume),
    FIELD(sn_host, stream_write),
    FIELD(sn_host, stream_end),
    FIELD(sn_host, stream_tune),
    SIZE(sn_stream_options),
    FIELD(sn_stream_options, size),
    FIELD(sn_stream_options, reserved),
    FIELD(sn_stream_options, idle_ms),
    FIELD(sn_stream_options, meter),
    VALUE(SN_EVENT_START),
    VALUE(SN_EVENT_STOP),
    VALUE(SN_EVENT_MESSAGE),
    VALUE(SN_EVENT_OUTCOME),
    VALUE(SN_EVENT_REPLY),
    VALUE(SN_EVENT_TIMER),
    VALUE(SN_EVENT_JOB),
    VALUE(SN_EVENT_STREAM_ASKED),
    VALUE(SN_EVENT_STREAM_UP),
    VALUE(SN_EVENT_STREAM_DOWN),
    VALUE(SN_EVENT_CONN_ACCEPTED),
    VALUE(SN_EVENT_CONN_DIALED),
    VALUE(SN_EVENT_STREAM_READABLE),
    VALUE(SN_EVENT_STREAM_WRITABLE),
    VALUE(SN_EVENT_CONFIG),
    VALUE(SN_EVENT_KIND_COUNT),
    VALUE(SN_DELIVERED),
    VALUE(SN_UNDELIVERED),
    VALUE(SN_UNKNOWN),
    VALUE(SN_REASON_NONE),
    VALUE(SN_REASON_DENIED),
    VALUE(SN_REASON_NO_ACTOR),
    VALUE(SN_REASON_MAILBOX_FULL),
    VALUE(SN_REASON_DEADLINE),
    VALUE(SN_REASON_PEER_RESTARTED),
    VALUE(SN_REASON_SHUTDOWN),
    VALUE(SN_REASON_NO_MEMORY),
    VALUE(SN_REASON_ACTOR_FAILED),
    VALUE(SN_REASON_NO_ASK),
    VALUE(SN_REASON_NO_AGENT),
    VALUE(SN_REASON_COUNT),
    VALUE(SN_OK),
    VALUE(SN_EINVAL),
    VALUE(SN_ENOMEM),
    VALUE(SN_EFULL),
    VALUE(SN_EAGAIN),
    VALUE(SN_ENOENT),
    VALUE(SN_EEXIST),
    VALUE(SN_EDENIED),
    VALUE(SN_ETIMEDOUT),
    VALUE(SN_ECLOSED),
    VALUE(SN_EPROTO),
    VALUE(SN_ETOOBIG),
    VALUE(SN_EIO),
    VALUE(SN_EEXPIRED),
    VALUE(SN_ENOTYET),
    VALUE(SN_EAUTH),
    VALUE(SN_EREPLAY),
    VALUE(SN_EUNREACHABLE),
    VALUE(SN_ESTATE),
    VALUE(SN_EVERSION),
    VALUE(SN_ECANCELLED),
    VALUE(SN_EINUSE),
    VALUE(SN_ENOSPC),
    VALUE(SN_EPERM),
    VALUE(SN_ERESET),
    VALUE(SN_EDUPLICATE),
    VALUE(SN_EUNTRUSTED),
    VALUE(SN_EMISMATCH),
    VALUE(SN_EREFUSED),
    VALUE(SN_ENOFILES),
    VALUE(SN_EREADONLY),
    VALUE(SN_ELOOP),
    VALUE(SN_ERR_COUNT),
    VALUE(SN_CONFIG_TEXT),
    VALUE(SN_CONFIG_INT),
    VALUE(SN_CONFIG_BOOL),
    VALUE(SN_CONFIG_ENUM),
    VALUE(SN_CONFIG_LABEL),
    VALUE(SN_CONFIG_AGENT),
    VALUE(SN_CONFIG_PATTERN),
    VALUE(SN_CONFIG_TYPES),
    VALUE(SN_CONFIG_ADDRESS),
    VALUE(SN_CONFIG_LISTEN),
    VALUE(SN_CONFIG_PATH),
    VALUE(SN_CONFIG_ACTOR),
    VALUE(SN_CONFIG_KEY),
    VALUE(SN_CONFIG_LISTEN_URL),
    VALUE(SN_CONFIG_MAP),
    VALUE(SN_CONFIG_DICT),
    VALUE(SN_CONFIG_LIST),
    VALUE(SN_CONFIG_ANY),
    VALUE(SN_CONFIG_REQUIRED),
    VALUE(SN_CONFIG_ONE_OR_LIST),
    VALUE(SN_CONFIG_SHORT),
    VALUE(SN_CONFIG_AGENT_KEYS),
    VALUE(SN_METRIC_COUNTER),
    VALUE(SN_METRIC_GAUGE),
    VALUE(SN_DEBUG),
    VALUE(SN_INFO),
    VALUE(SN_WARN),
    VALUE(SN_ERROR),
};

static const char *golden_path;

static char *layout_text(void)
{
    char *text = calloc(1, LAYOUT_BYTES_MAX);
    size_t size = 0;
    assert_non_null(text);
    for (size_t i = 0; i < sizeof layout / sizeof layout[0]; i++) {
        int written = snprintf(text + size, LAYOUT_BYTES_MAX - size, "%s %ld\n", layout[i].name,
                               layout[i].value);
        assert_true(written > 0 && (size_t)written < LAYOUT_BYTES_MAX - size);
        size += (size_t)written;
    }
    return text;
}

static void layout_is_the_golden_one(void **state)
{
    (void)state;
    if (IS_OTHER_MODEL) skip();
    char *text = layout_text();
    char *golden = calloc(1, LAYOUT_BYTES_MAX);
    FILE *file = fopen(golden_path, "rb");
    assert_non_null(golden);
    assert_non_null(file);
    size_t size = fread(golden, 1, LAYOUT_BYTES_MAX - 1, file);
    assert_true(size < LAYOUT_BYTES_MAX - 1);
    (void)fclose(file); /* was only read */
    assert_string_equal(text, golden);
    free(golden);
    free(text);
}

/* The structures that carry their size end with their last member: nothing was added behind unseen.
 */
static void last_members_are_listed(void **state)
{
    (void)state;
    if (IS_OTHER_MODEL) skip();
    assert_int_equal(sizeof(struct sn_plugin), offsetof(struct sn_plugin, check) + sizeof(void *));
    assert_int_equal(sizeof(struct sn_event),
                     offsetof(struct sn_event, reserved) + sizeof(uint32_t));
    assert_int_equal(sizeof(struct sn_actor_kind),
                     offsetof(struct sn_actor_kind, service) + sizeof(void *));
    assert_int_equal(sizeof(struct sn_host),
                     offsetof(struct sn_host, stream_tune) + sizeof(void *));
    assert_int_equal(sizeof(struct sn_stream_options),
                     offsetof(struct sn_stream_options, meter) + sizeof(void *));
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: test_abi_plugin GOLDEN [write]\n"); /* nothing better to do */
        return 2;
    }
    golden_path = argv[1];
    if (argc > 2 && strcmp(argv[2], "write") == 0) {
        char *text = layout_text();
        FILE *file = fopen(golden_path, "wb");
        int is_bad = file == NULL || fputs(text, file) < 0;
        if (file != NULL && fclose(file) != 0) is_bad = 1;
        free(text);
        return is_bad;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_is_the_golden_one),
        cmocka_unit_test(last_members_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
