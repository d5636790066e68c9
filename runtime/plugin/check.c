/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a descriptor that passes can be used without further checks: no pointer that the host
 * follows is NULL, no table is endless, and the schema checker's own assertions hold for its
 * schema.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "config/schema.h"
#include "plugin/loader.h"
#include "sennit/limits.h"

#define STATE_BYTES_MAX    (16u * 1024u * 1024u)
#define ENUM_CHOICES_MAX   16u                        /* what the schema checker can tell apart */
#define SCHEMA_DEPTH_MAX   (SN_CONFIG_DEPTH_MAX - 2u) /* a plugin's part stands two levels down */
#define SCHEMA_ENTRIES_MAX 4096u                      /* of the whole tree of tables */

/* What is wrong, for people; the first reason wins. */
struct verdict {
    struct sn_text text;
    enum sn_err err;
};

static void SN_PRINTF(2, 3) refuse(struct verdict *verdict, const char *format, ...)
{
    char reason[256];
    if (verdict->err != SN_OK) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof reason, format, args); /* a cut reason is fine */
    va_end(args);
    verdict->err = SN_EINVAL;
    sn_text_add(&verdict->text, "%s", reason);
}

static int is_text(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* --- Header ----------------------------------------------------------------------------------- */

static void check_header(struct verdict *verdict, const struct sn_plugin *plugin)
{
    if (plugin->magic != SN_PLUGIN_MAGIC) {
        refuse(verdict, "`" SN_PLUGIN_SYMBOL "` is not a plugin descriptor");
        return;
    }
    int is_same_major = plugin->abi_major == SN_PLUGIN_ABI_MAJOR;
    if (!is_same_major || plugin->abi_minor > SN_PLUGIN_ABI_MINOR) {
        refuse(verdict, "it was built for plugin ABI %u.%u, this agent has %u.%u; rebuild it",
               plugin->abi_major, plugin->abi_minor, SN_PLUGIN_ABI_MAJOR, SN_PLUGIN_ABI_MINOR);
        verdict->err = SN_EVERSION;
        return;
    }
    if (plugin->size < sizeof *plugin) {
        refuse(verdict, "its descriptor has %u bytes, at least %zu are needed", plugin->size,
               sizeof *plugin);
    }
}

static void check_names(struct verdict *verdict, const struct sn_plugin *plugin, const char *name)
{
    if (plugin->name == NULL || strcmp(plugin->name, name) != 0) {
        /* Bounded: the name may be anything. */
        refuse(verdict, "it calls itself `%.63s`", plugin->name == NULL ? "" : plugin->name);
        return;
    }
    if (!is_text(plugin->version)) refuse(verdict, "it has no version");
    if (!is_text(plugin->help)) refuse(verdict, "it does not say what it does");
    if (plugin->reserved != 0) refuse(verdict, "a reserved member of its descriptor is not zero");
}

/* --- Actors ----------------------------------------------------------------------------------- */

static void check_actor(struct verdict *verdict, const struct sn_actor_kind *kind, uint32_t index)
{
    if (kind == NULL || kind->size < sizeof *kind) {
        refuse(verdict, "actor %u is not described, or too shortly", index);
        return;
    }
    if (kind->name == NULL || !sn_label_is_valid(kind->name, strlen(kind->name))) {
        refuse(verdict, "actor %u has no valid name", index);
        return;
    }
    const char *name = kind->name;
    if (kind->handle == NULL) refuse(verdict, "actor `%s` has no handler", name);
    if (kind->state_bytes > STATE_BYTES_MAX || kind->mailbox_messages > SN_MAILBOX_MAX) {
        refuse(verdict, "actor `%s` asks for too much memory", name);
    }
    if (kind->service == NULL) return;
    size_t size = strlen(kind->service);
    if (size > SN_SERVICE_BYTES_MAX || !sn_label_is_valid(kind->service, size)) {
        refuse(verdict, "the service of actor `%s` has no valid name", name);
    }
}

static void check_actors(struct verdict *verdict, const struct sn_plugin *plugin)
{
    if (plugin->actors == NULL || plugin->actor_count == 0 ||
        plugin->actor_count > SN_PLUGIN_ACTORS_MAX) {
        refuse(verdict, "it has no actors, or more than %u", SN_PLUGIN_ACTORS_MAX);
        return;
    }
    for (uint32_t i = 0; i < plugin->actor_count && verdict->err == SN_OK; i++) {
        const struct sn_actor_kind *kind = plugin->actors[i];
        check_actor(verdict, kind, i);
        for (uint32_t j = 0; j < i && verdict->err == SN_OK; j++) {
            if (strcmp(plugin->actors[j]->name, kind->name) == 0) {
                refuse(verdict, "two of its actors are called `%s`", kind->name);
            }
        }
    }
}

/* --- Metrics and messages --------------------------------------------------------------------- */

/* tunnel.sent_bytes; the plugin's hyphens are underscores there. */
static int is_metric_name(const char *name, const char *plugin)
{
    size_t prefix = strlen(plugin);
    if (strlen(name) > SN_LABEL_BYTES_MAX || strlen(name) <= prefix + 1) return 0;
    for (size_t i = 0; i < prefix; i++) {
        if (name[i] != (plugin[i] == '-' ? '_' : plugin[i])) return 0;
    }
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789._";
    return name[prefix] == '.' && name[strspn(name, allowed)] == '\0';
}

static void check_metrics(struct verdict *verdict, const struct sn_plugin *plugin)
{
    const struct sn_metric_desc *metric = plugin->metrics;
    for (uint32_t i = 0; metric != NULL && metric[i].name != NULL; i++) {
        if (i == SN_PLUGIN_TABLE_MAX) {
            refuse(verdict, "its table of metrics has no end");
            return;
        }
        int is_kind = metric[i].kind == SN_METRIC_COUNTER || metric[i].kind == SN_METRIC_GAUGE;
        if (is_kind && is_text(metric[i].help) && is_metric_name(metric[i].name, plugin->name)) {
            continue;
        }
        refuse(verdict, "metric %u is not described well", i);
        return;
    }
}

static void check_messages(struct verdict *verdict, const struct sn_plugin *plugin)
{
    const struct sn_message_type *message = plugin->messages;
    for (uint32_t i = 0; message != NULL && message[i].type != NULL; i++) {
        if (i == SN_PLUGIN_TABLE_MAX) {
            refuse(verdict, "its table of messages has no end");
            return;
        }
        const char *type = message[i].type;
        if (is_text(message[i].help) && sn_type_is_valid(type, strlen(type))) continue;
        refuse(verdict, "message type %u is not described well", i);
        return;
    }
}

/* --- Schema ----------------------------------------------------------------------------------- */

/* A table, or one item, on the way through the tables of a schema. */
struct frame {
    const struct sn_config_field *field;
    uint32_t index;
    uint8_t is_item; /* a single entry rather than a table */
};

static int is_scalar(const struct sn_config_field *field)
{
    return field->kind >= SN_CONFIG_TEXT && field->kind <= SN_CONFIG_LISTEN_URL;
}

static int has_choices(const struct sn_config_field *field)
{
    if (!is_text(field->choices)) return 0;
    uint32_t count = 0;
    const char *at = field->choices;
    while (*at != '\0') {
        size_t size = strcspn(at, "|");
        if (size == 0 || size > SN_LABEL_BYTES_MAX || ++count > ENUM_CHOICES_MAX) return 0;
        at += size + (at[size] == '|');
    }
    return 1;
}

static int is_field_sound(const struct sn_config_field *field)
{
    const struct sn_config_field *inner = NULL;
    if (field->min > field->max) return 0;
    if (field->kind == SN_CONFIG_ENUM && !has_choices(field)) return 0;
    if (field->kind == SN_CONFIG_MAP) inner = field->fields;
    if (field->kind == SN_CONFIG_DICT || field->kind == SN_CONFIG_LIST) inner = field->item;
    int is_container = field->kind >= SN_CONFIG_MAP && field->kind <= SN_CONFIG_LIST;
    if (!is_container) return is_scalar(field) || field->kind == SN_CONFIG_ANY;
    if (inner == NULL) return 0;
    /* A value that may stand without its brackets is checked as the first thing inside. */
    if ((field->flags & SN_CONFIG_ONE_OR_LIST) != 0 && field->kind != SN_CONFIG_LIST) return 0;
    if ((field->flags & SN_CONFIG_SHORT) == 0) return 1;
    return field->kind == SN_CONFIG_MAP && inner->key != NULL && is_scalar(inner);
}

static const struct sn_config_field *inner_of(const struct sn_config_field *field)
{
    if (field->kind == SN_CONFIG_MAP) return field->fields;
    return field->kind == SN_CONFIG_DICT || field->kind == SN_CONFIG_LIST ? field->item : NULL;
}

/* The next field of the frame, or NULL at its end. */
static const struct sn_config_field *next_field(struct frame *frame)
{
    const struct sn_config_field *field = &frame->field[frame->index];
    int is_end = frame->is_item ? frame->index > 0 : field->key == NULL;
    if (is_end) return NULL;
    frame->index++;
    return field;
}

/* Every path through the tables is visited, so the count bounds what looks at shared tables too. */
static void check_schema(struct verdict *verdict, const struct sn_config_field *fields)
{
    struct frame stack[SCHEMA_DEPTH_MAX];
    if (fields == NULL) return;
    stack[0] = (struct frame){.field = fields};
    uint32_t depth = 1;
    uint32_t seen = 0;
    while (depth > 0) {
        struct frame *frame = &stack[depth - 1];
        const struct sn_config_field *field = next_field(frame);
        if (field == NULL) {
            depth--;
            continue;
        }
        const char *key = frame->is_item ? "(entry)" : field->key;
        if (++seen > SCHEMA_ENTRIES_MAX || frame->index > SN_PLUGIN_TABLE_MAX) {
            refuse(verdict, "its configuration schema has no end");
            return;
        }
        if (!is_field_sound(field) || (!frame->is_item && !is_text(field->help))) {
            refuse(verdict, "key `%.63s` of its configuration schema is not described well", key);
            return;
        }
        const struct sn_config_field *inner = inner_of(field);
        if (inner == NULL) continue;
        if (depth == SCHEMA_DEPTH_MAX) {
            refuse(verdict, "its configuration schema is too deep");
            return;
        }
        stack[depth++] = (struct frame){.field = inner, .is_item = field->kind != SN_CONFIG_MAP};
    }
}

enum sn_err sn_plugin_verify(const struct sn_plugin *plugin, const char *name,
                             char out_error[SN_PLUGIN_ERROR_MAX])
{
    SN_ASSERT(plugin != NULL);
    SN_ASSERT(name != NULL);
    struct verdict verdict = {.err = SN_OK};
    char text[SN_PLUGIN_ERROR_MAX];
    sn_text_init(&verdict.text, text, sizeof text);
    check_header(&verdict, plugin);
    if (verdict.err == SN_OK) check_names(&verdict, plugin, name);
    if (verdict.err == SN_OK) check_actors(&verdict, plugin);
    if (verdict.err == SN_OK) check_metrics(&verdict, plugin);
    if (verdict.err == SN_OK) check_messages(&verdict, plugin);
    if (verdict.err == SN_OK) check_schema(&verdict, plugin->config);
    if (verdict.err != SN_OK) memcpy(out_error, text, sizeof text);
    return verdict.err;
}

/* --- Configuration ---------------------------------------------------------------------------- */

static void report(void *arg, const struct sn_config_node *node, const char *message)
{
    struct sn_findings *findings = arg;
    if (node == NULL || !is_text(message)) return; /* it would say nothing */
    sn_findings_add_node(findings, node, "%s", message);
}

static int has_required_key(const struct sn_config_field *fields)
{
    for (; fields->key != NULL; fields++) {
        if (fields->flags & SN_CONFIG_REQUIRED) return 1;
    }
    return 0;
}

enum sn_err sn_plugin_check_config(const struct sn_plugin *plugin,
                                   const struct sn_config_node *config,
                                   const struct sn_config_node *entry, struct sn_findings *findings)
{
    SN_ASSERT(entry != NULL);
    uint32_t before = findings->total;
    if (config == NULL) {
        if (plugin->config != NULL && has_required_key(plugin->config)) {
            sn_findings_add_node(findings, entry, "plugin `%s` needs a `config`", plugin->name);
        }
        return sn_findings_result(findings, before);
    }
    if (plugin->config == NULL) {
        sn_findings_add_key(findings, config, "plugin `%s` takes no configuration", plugin->name);
        return sn_findings_result(findings, before);
    }
    enum sn_err err = sn_schema_check(config, plugin->config, findings);
    if (err != SN_OK || plugin->check == NULL) return err;
    err = plugin->check(config, report, findings);
    if (err == SN_ENOMEM) return err;
    enum sn_err result = sn_findings_result(findings, before);
    return result == SN_OK && err != SN_OK ? SN_ESTATE : result;
}
