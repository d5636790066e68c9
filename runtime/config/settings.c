/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: one row in `values` is all that reading, defaulting and rendering a setting take. */
#include "config/settings.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "config/settings_int.h"

const struct sn_config_field sni_log_fields[] = {
    {.key = "level",
     .kind = SN_CONFIG_ENUM,
     .choices = "debug|info|warn|error",
     .def = "info",
     .help = "Lines below this severity are not written."},
    {.key = "format",
     .kind = SN_CONFIG_ENUM,
     .choices = "text|json",
     .def = "text",
     .help = "Form of a line."},
    {0},
};

const struct sn_config_field sni_heartbeat_fields[] = {
    {.key = "interval_ms",
     .kind = SN_CONFIG_INT,
     .min = 10,
     .max = 60000,
     .def = "1000",
     .help = "Time between two heartbeats, in milliseconds."},
    {.key = "deadline_ms",
     .kind = SN_CONFIG_INT,
     .min = 20,
     .max = 600000,
     .def = "5000",
     .help = "A peer that answers none for so long is down, in milliseconds."},
    {0},
};

const struct sn_config_field sni_reconnect_fields[] = {
    {.key = "min_ms",
     .kind = SN_CONFIG_INT,
     .min = 10,
     .max = 60000,
     .def = "100",
     .help = "Wait after the first failed attempt, in milliseconds; it doubles from there."},
    {.key = "max_ms",
     .kind = SN_CONFIG_INT,
     .min = 10,
     .max = 600000,
     .def = "10000",
     .help = "Longest wait between two attempts, in milliseconds."},
    {0},
};

const struct sn_config_field sni_accept_fields[] = {
    {.key = "handshakes",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = 4096,
     .def = "64",
     .help =
         "Unfinished handshakes at a time; the address that has most makes room for a new one."},
    {.key = "per_address",
     .kind = SN_CONFIG_INT,
     .min = 1,
     .max = 4096,
     .def = "8",
     .help = "Unfinished handshakes from one address."},
    {.key = "timeout_ms",
     .kind = SN_CONFIG_INT,
     .min = 100,
     .max = 60000,
     .def = "5000",
     .help = "A handshake must be finished in this time, in milliseconds."},
    {0},
};

const struct sn_config_field sn_settings_fields[] = {SNI_SETTINGS_ROWS, {0}};

static const struct value {
    const char *section; /* NULL for a key at the top */
    const struct sn_config_field *fields;
    const char *key;
    size_t offset;
    int is_text;
} values[] = {
    {"log", sni_log_fields, "level", offsetof(struct sn_settings, log_level), 1},
    {"log", sni_log_fields, "format", offsetof(struct sn_settings, log_format), 1},
    {NULL, sn_settings_fields, "plugins_allow", offsetof(struct sn_settings, plugins_allow), 1},
    {NULL, sn_settings_fields, "drain_ms", offsetof(struct sn_settings, drain_ms), 0},
    {NULL, sn_settings_fields, "workers", offsetof(struct sn_settings, workers), 0},
    {NULL, sn_settings_fields, "memory_mib", offsetof(struct sn_settings, memory_mib), 0},
    {NULL, sn_settings_fields, "resume_ms", offsetof(struct sn_settings, resume_ms), 0},
    {"heartbeat", sni_heartbeat_fields, "interval_ms",
     offsetof(struct sn_settings, heartbeat_interval_ms), 0},
    {"heartbeat", sni_heartbeat_fields, "deadline_ms",
     offsetof(struct sn_settings, heartbeat_deadline_ms), 0},
    {"reconnect", sni_reconnect_fields, "min_ms", offsetof(struct sn_settings, reconnect_min_ms),
     0},
    {"reconnect", sni_reconnect_fields, "max_ms", offsetof(struct sn_settings, reconnect_max_ms),
     0},
    {"accept", sni_accept_fields, "handshakes", offsetof(struct sn_settings, accept_handshakes), 0},
    {"accept", sni_accept_fields, "per_address", offsetof(struct sn_settings, accept_per_address),
     0},
    {"accept", sni_accept_fields, "timeout_ms", offsetof(struct sn_settings, accept_timeout_ms), 0},
};

static void *slot_of(struct sn_settings *settings, const struct value *value)
{
    return (char *)settings + value->offset;
}

/* Sets the value to what `section` says, or to the table's default when it says nothing. */
static void set(struct sn_settings *settings, const struct value *value,
                const struct sn_config_node *section)
{
    if (value->is_text) {
        const char **slot = slot_of(settings, value);
        *slot = sn_config_get_text(section, value->fields, value->key);
        return;
    }
    uint32_t *slot = slot_of(settings, value);
    int64_t number = sn_config_get_int(section, value->fields, value->key);
    SN_ASSERT(number >= 0 && number <= UINT32_MAX); /* bounded by the tables above */
    *slot = (uint32_t)number;
}

struct sn_settings sn_settings_default(void)
{
    struct sn_settings settings = {0};
    for (size_t i = 0; i < SN_ARRAY_COUNT(values); i++) set(&settings, &values[i], NULL);
    return settings;
}

void sn_settings_apply(struct sn_settings *settings, const struct sn_config_node *node)
{
    for (size_t i = 0; i < SN_ARRAY_COUNT(values); i++) {
        const struct value *value = &values[i];
        const struct sn_config_node *section =
            value->section == NULL ? node : sn_config_get(node, value->section);
        if (sn_config_get(section, value->key) != NULL) set(settings, value, section);
    }
}

/* The node of the setting, or the closest one above it that is there. */
static const struct sn_config_node *closest(const struct sn_config_node *node, const char *section,
                                            const char *key)
{
    const struct sn_config_node *part = sn_config_get(node, section);
    if (part == NULL) return node;
    const struct sn_config_node *value = sn_config_get(part, key);
    return value == NULL ? part : value;
}

void sn_settings_check(const struct sn_settings *settings, const struct sn_config_node *node,
                       struct sn_findings *findings)
{
    if (node == NULL) return;
    if (settings->heartbeat_deadline_ms < 2 * settings->heartbeat_interval_ms) {
        sn_findings_add_node(
            findings, closest(node, "heartbeat", "deadline_ms"),
            "deadline_ms (%u) must be at least twice interval_ms (%u), or one late "
            "answer takes the link down",
            settings->heartbeat_deadline_ms, settings->heartbeat_interval_ms);
    }
    if (settings->reconnect_max_ms < settings->reconnect_min_ms) {
        sn_findings_add_node(findings, closest(node, "reconnect", "max_ms"),
                             "max_ms (%u) is below min_ms (%u)", settings->reconnect_max_ms,
                             settings->reconnect_min_ms);
    }
    if (settings->accept_per_address > settings->accept_handshakes) {
        sn_findings_add_node(findings, closest(node, "accept", "per_address"),
                             "per_address (%u) is above handshakes (%u)",
                             settings->accept_per_address, settings->accept_handshakes);
    }
}

static int differs(const struct sn_settings *a, const struct sn_settings *b,
                   const struct value *value)
{
    const char *left = (const char *)a + value->offset;
    const char *right = (const char *)b + value->offset;
    if (!value->is_text) return memcmp(left, right, sizeof(uint32_t)) != 0;
    const char *left_text;
    const char *right_text;
    memcpy(&left_text, left, sizeof left_text);
    memcpy(&right_text, right, sizeof right_text);
    return strcmp(left_text, right_text) != 0;
}

void sni_settings_render(struct sni_out *out, const struct sn_settings *settings)
{
    struct sn_settings defaults = sn_settings_default();
    struct sn_settings copy = *settings;
    const char *open = NULL; /* section whose heading is written */
    for (size_t i = 0; i < SN_ARRAY_COUNT(values); i++) {
        const struct value *value = &values[i];
        if (!differs(settings, &defaults, value)) continue;
        int is_open = open != NULL && value->section != NULL && strcmp(open, value->section) == 0;
        if (value->section != NULL && !is_open) sni_out_format(out, "%s:\n", value->section);
        open = value->section;
        sni_out_format(out, "%s%s: ", value->section == NULL ? "" : "  ", value->key);
        if (value->is_text) {
            const char **slot = slot_of(&copy, value);
            sni_out_add(out, *slot); /* a word of an enumeration needs no quotes */
        } else {
            uint32_t *slot = slot_of(&copy, value);
            sni_out_format(out, "%u", *slot);
        }
        sni_out_add(out, "\n");
    }
}
