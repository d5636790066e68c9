/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: the reference lists every key of a table, so it cannot fall behind the checks. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/text.h"
#include "config/out.h"
#include "config/schema.h"
#include "sennit/limits.h"

#define DEPTH_MAX      8u
#define PATH_MAX_BYTES 256

struct level {
    const struct sn_config_field *next; /* field to print next; key NULL ends the level */
    size_t path_size;                   /* of the path in front of it */
};

static const char *type_name(const struct sn_config_field *field)
{
    switch (field->kind) {
    case SN_CONFIG_TEXT: return "text";
    case SN_CONFIG_INT: return "number";
    case SN_CONFIG_BOOL: return "true, false";
    case SN_CONFIG_ENUM: return "word";
    case SN_CONFIG_LABEL: return "name";
    case SN_CONFIG_AGENT: return "site/agent";
    case SN_CONFIG_PATTERN:
        return field->flags & SN_CONFIG_ROLES ? "site/agent, site/\\*, role:NAME, \\*"
                                              : "site/agent, site/\\*, \\*";
    case SN_CONFIG_TYPES: return "message types";
    case SN_CONFIG_ADDRESS:
    case SN_CONFIG_LISTEN: return "host:port";
    case SN_CONFIG_PATH: return "file name";
    case SN_CONFIG_ACTOR: return "site/agent:actor";
    case SN_CONFIG_KEY: return "public key";
    case SN_CONFIG_LISTEN_URL: return "tls://host:port";
    case SN_CONFIG_MAP:
    case SN_CONFIG_DICT: return "mapping";
    case SN_CONFIG_LIST: return "list";
    default: return "any";
    }
}

static void add_type(struct sni_out *out, const struct sn_config_field *field)
{
    sni_out_add(out, type_name(field));
    if (field->kind == SN_CONFIG_ENUM) {
        for (const char *at = field->choices; *at != '\0'; at++) {
            if (at == field->choices) sni_out_add(out, ": ");
            if (*at == '|') {
                sni_out_add(out, ", ");
            } else {
                sni_out_add_bytes(out, at, 1);
            }
        }
    }
    int has_bounds = field->min != 0 || field->max != 0;
    if (has_bounds && field->kind == SN_CONFIG_INT) {
        sni_out_format(out, " %" PRId64 " to %" PRId64, field->min, field->max);
    }
    if (field->kind == SN_CONFIG_LIST) sni_out_format(out, " of %s", type_name(field->item));
    if (field->flags & SN_CONFIG_ONE_OR_LIST) sni_out_add(out, ", or one alone");
}

static void add_row(struct sni_out *out, const char *path, const struct sn_config_field *field)
{
    sni_out_format(out, "| `%s` | ", path);
    add_type(out, field);
    if (field->flags & SN_CONFIG_REQUIRED) {
        sni_out_add(out, " | required | ");
    } else if (field->def != NULL) {
        sni_out_format(out, " | `%s` | ", field->def);
    } else {
        sni_out_add(out, " | | ");
    }
    sni_out_add(out, field->help == NULL ? "" : field->help);
    sni_out_add(out, " |\n");
}

/* Follows lists and name mappings to the mapping whose keys come next; NULL for a leaf. */
static const struct sn_config_field *descend(const struct sn_config_field *field,
                                             struct sn_text *path)
{
    while (field->kind == SN_CONFIG_DICT || field->kind == SN_CONFIG_LIST) {
        sn_text_add(path, field->kind == SN_CONFIG_LIST ? "[]" : ".NAME");
        field = field->item;
    }
    return field->kind == SN_CONFIG_MAP ? field->fields : NULL;
}

enum sn_err sn_schema_reference(const char *title, const struct sn_config_field *fields,
                                char **out_text)
{
    struct sni_out out = {0};
    struct level levels[DEPTH_MAX];
    char data[PATH_MAX_BYTES];
    struct sn_text path;
    sn_text_init(&path, data, sizeof data);
    sni_out_format(&out, "## %s\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n",
                   title);
    levels[0] = (struct level){.next = fields, .path_size = 0};
    uint32_t depth = 1;
    while (depth > 0) {
        struct level *level = &levels[depth - 1];
        const struct sn_config_field *field = level->next;
        if (field->key == NULL) {
            depth--;
            continue;
        }
        level->next++;
        path.size = level->path_size;
        sn_text_add(&path, path.size == 0 ? "%s" : ".%s", field->key);
        SN_ASSERT(!path.truncated);
        add_row(&out, path.data, field);
        const struct sn_config_field *inner = descend(field, &path);
        if (inner == NULL) continue;
        SN_ASSERT(depth < DEPTH_MAX);
        levels[depth++] = (struct level){.next = inner, .path_size = path.size};
    }
    return sni_out_take(&out, out_text);
}
