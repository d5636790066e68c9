/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: a tree that passes has every required key, no unknown one, and only values of the
 * declared kind and range; a value that another YAML reader would take for something else is
 * refused.
 */
#include "config/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/netaddr.h"
#include "base/text.h"
#include "config/scalar.h"
#include "sennit/limits.h"

#define KEYS_TEXT_MAX  300
#define PATH_BYTES_MAX 4095 /* PATH_MAX of Linux without the NUL */
#define KEY_PREFIX     "ed25519:"
#define KEY_DIGITS     64u
#define ROLE_PREFIX    "role:"
#define ROLES_NAME     "an agent as site/agent, a site as site/*, a role as role:NAME, or *"

struct frame {
    const struct sn_config_node *node;
    const struct sn_config_field *fields; /* of a MAP, else NULL */
    const struct sn_config_field *item;   /* of a DICT or LIST, else NULL */
    uint32_t index;
};

struct checker {
    struct sn_findings *findings;
    struct frame stack[SN_CONFIG_DEPTH_MAX + 1];
    uint32_t depth;
};

static const char *const kind_names[] = {
    [SN_CONFIG_TEXT] = "a text",
    [SN_CONFIG_INT] = "a whole number",
    [SN_CONFIG_BOOL] = "true or false",
    [SN_CONFIG_ENUM] = "one of a few words",
    [SN_CONFIG_LABEL] = "a name of 1 to 63 letters a-z, digits and hyphens",
    [SN_CONFIG_AGENT] = "an agent as site/agent",
    [SN_CONFIG_PATTERN] = "an agent as site/agent, a site as site/*, or *",
    [SN_CONFIG_TYPES] = "a message type such as echo.say, echo.*, or *",
    [SN_CONFIG_ADDRESS] = "an address as host:port",
    [SN_CONFIG_LISTEN] = "an address to listen on as host:port",
    [SN_CONFIG_PATH] = "a file name",
    [SN_CONFIG_ACTOR] = "an actor as site/agent:actor",
    [SN_CONFIG_KEY] = "a public key as ed25519:<64 hexadecimal digits>",
    [SN_CONFIG_LISTEN_URL] = "an address to listen on as tls://host:port",
    [SN_CONFIG_MAP] = "a mapping",
    [SN_CONFIG_DICT] = "a mapping of names",
    [SN_CONFIG_LIST] = "a list",
    [SN_CONFIG_ANY] = "a value",
};

static const char *kind_name(uint32_t kind)
{
    SN_ASSERT(kind < SN_ARRAY_COUNT(kind_names));
    SN_ASSERT(kind_names[kind] != NULL);
    return kind_names[kind];
}

/* What stands there, in words. */
static void describe(const struct sn_config_node *node, char *out, size_t capacity)
{
    char quoted[SN_QUOTE_MAX];
    struct sn_text text;
    sn_text_init(&text, out, capacity);
    if (sn_config_shape(node) == SN_CONFIG_MAPPING) {
        sn_text_add(&text, "a mapping");
        return;
    }
    if (sn_config_shape(node) == SN_CONFIG_SEQUENCE) {
        sn_text_add(&text, "a list");
        return;
    }
    const char *value = sn_config_text(node, "");
    int is_plain = sn_config_is_plain(node);
    (void)sn_quote(value, quoted); /* returns its own argument */
    switch (sni_scalar_classify(value, is_plain)) {
    case SNI_SCALAR_TEXT:
        sn_text_add(&text, is_plain ? "the text %s" : "the text %s in quotes", quoted);
        break;
    case SNI_SCALAR_NULL:
        sn_text_add(&text, value[0] == '\0' ? "nothing" : "%s, which means nothing", quoted);
        break;
    case SNI_SCALAR_BOOL:
    case SNI_SCALAR_BOOL_LIKE: sn_text_add(&text, "the truth value %s", quoted); break;
    case SNI_SCALAR_INT:
    case SNI_SCALAR_NUMBER: sn_text_add(&text, "the number %s", quoted); break;
    }
}

static void wrong_kind(struct checker *c, const struct sn_config_node *node, uint32_t kind,
                       const char *hint)
{
    char found[SN_HINT_MAX];
    describe(node, found, sizeof found);
    sn_findings_add_node(c->findings, node, "expected %s, found %s%s", kind_name(kind), found,
                         hint);
}

static void check_int(struct checker *c, const struct sn_config_node *node,
                      const struct sn_config_field *field)
{
    const char *text = sn_config_text(node, "");
    int64_t value = 0;
    enum sn_err err = sni_scalar_int(text, &value);
    if (!sn_config_is_plain(node)) {
        wrong_kind(c, node, SN_CONFIG_INT, err == SN_EINVAL ? "" : "; write it without quotes");
        return;
    }
    if (err == SN_EINVAL) {
        int is_number = sni_scalar_classify(text, 1) == SNI_SCALAR_NUMBER;
        wrong_kind(c, node, SN_CONFIG_INT,
                   is_number ? "; write decimal digits only, without leading zeros" : "");
        return;
    }
    int has_bounds = field->min != 0 || field->max != 0;
    int is_inside = err == SN_OK && (!has_bounds || (value >= field->min && value <= field->max));
    if (is_inside) return;
    char quoted[SN_QUOTE_MAX];
    if (!has_bounds) {
        sn_findings_add_node(c->findings, node, "%s is too large", sn_quote(text, quoted));
        return;
    }
    sn_findings_add_node(c->findings, node,
                         "%s is out of range; allowed are %" PRId64 " to %" PRId64,
                         sn_quote(text, quoted), field->min, field->max);
}

static void check_bool(struct checker *c, const struct sn_config_node *node)
{
    const char *text = sn_config_text(node, "");
    enum sni_scalar_class class = sni_scalar_classify(text, 1);
    if (class == SNI_SCALAR_BOOL && sn_config_is_plain(node)) return;
    const char *hint = "";
    if (class == SNI_SCALAR_BOOL) hint = "; write it without quotes";
    if (class == SNI_SCALAR_BOOL_LIKE) {
        hint = sni_scalar_is_truth(text) ? "; write true" : "; write false";
    }
    wrong_kind(c, node, SN_CONFIG_BOOL, hint);
}

static void check_enum(struct checker *c, const struct sn_config_node *node,
                       const struct sn_config_field *field)
{
    const char *text = sn_config_text(node, "");
    char words[16][SN_LABEL_BYTES_MAX + 1];
    uint32_t count = 0;
    const char *at = field->choices;
    while (*at != '\0') {
        size_t size = strcspn(at, "|");
        SN_ASSERT(count < SN_ARRAY_COUNT(words) && size < sizeof words[0]);
        memcpy(words[count], at, size);
        words[count][size] = '\0';
        if (strcmp(words[count], text) == 0) return;
        count++;
        at += size + (at[size] == '|');
    }
    struct sn_suggest suggest;
    sn_suggest_init(&suggest, text);
    for (uint32_t i = 0; i < count; i++) sn_suggest_offer(&suggest, words[i]);
    char quoted[SN_QUOTE_MAX];
    char hint[SN_HINT_MAX];
    sn_findings_add_node(c->findings, node, "%s is not one of %s%s", sn_quote(text, quoted),
                         field->choices, sn_suggest_text(&suggest, hint));
}

static void check_length(struct checker *c, const struct sn_config_node *node,
                         const struct sn_config_field *field)
{
    if (field->min == 0 && field->max == 0) return;
    int64_t size = (int64_t)strlen(sn_config_text(node, ""));
    if (size >= field->min && size <= field->max) return;
    sn_findings_add_node(c->findings, node,
                         "the text has %" PRId64 " bytes; allowed are %" PRId64 " to %" PRId64,
                         size, field->min, field->max);
}

int sn_config_key_text_is_valid(const char *text)
{
    uint8_t key[KEY_DIGITS / 2];
    size_t prefix = strlen(KEY_PREFIX);
    if (strncmp(text, KEY_PREFIX, prefix) != 0) return 0;
    return sn_hex_decode(text + prefix, strlen(text + prefix), key, sizeof key) == SN_OK;
}

const char *sn_config_role_of(const char *pattern)
{
    size_t prefix = strlen(ROLE_PREFIX);
    return strncmp(pattern, ROLE_PREFIX, prefix) == 0 ? pattern + prefix : NULL;
}

void sni_access_check_actor(const struct sn_config_node *node, const char *actor,
                            struct sn_findings *findings)
{
    if (strcmp(actor, "control") != 0) return;
    sn_findings_add_node(findings, node,
                         "`control` serves the operator of its own agent, and no rule opens it to "
                         "others; remove this entry");
}

static int is_role(const char *text)
{
    const char *role = sn_config_role_of(text);
    return role != NULL && sn_label_is_valid(role, strlen(role));
}

static int is_path(const char *text)
{
    size_t size = strlen(text);
    if (size == 0 || size > PATH_BYTES_MAX) return 0;
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) return 0;
    }
    return 1;
}

static int is_actor(const char *text)
{
    struct sn_addr_parts parts;
    return sn_addr_split(text, strlen(text), &parts) == SN_OK && parts.agent_size > 0 &&
           strlen(text) <= SN_ADDR_BYTES_MAX;
}

static int is_endpoint(const char *text, int allow_port_zero)
{
    struct sn_endpoint endpoint;
    return sn_endpoint_parse(text, strlen(text), allow_port_zero, &endpoint) == SN_OK;
}

/* A word about the mistake that is most often behind an address that does not parse. */
static const char *address_hint(const char *text, uint32_t kind)
{
    int has_scheme = strstr(text, "://") != NULL;
    if (kind == SN_CONFIG_ADDRESS && is_endpoint(text, 1)) return "; port 0 cannot be dialled";
    if (kind == SN_CONFIG_LISTEN_URL) return has_scheme ? "" : "; write tls:// in front";
    return has_scheme ? "; write it without the scheme" : "";
}

static int is_of_form(const char *text, uint32_t kind)
{
    size_t size = strlen(text);
    switch (kind) {
    case SN_CONFIG_LABEL: return sn_label_is_valid(text, size);
    case SN_CONFIG_AGENT: return sn_agent_name_is_valid(text, size);
    case SN_CONFIG_PATTERN: return sn_agent_pattern_is_valid(text, size);
    case SN_CONFIG_TYPES: return sn_type_pattern_is_valid(text, size);
    case SN_CONFIG_ADDRESS: return is_endpoint(text, 0);
    case SN_CONFIG_LISTEN: return is_endpoint(text, 1);
    case SN_CONFIG_PATH: return is_path(text);
    case SN_CONFIG_ACTOR: return is_actor(text);
    case SN_CONFIG_KEY: return sn_config_key_text_is_valid(text);
    case SN_CONFIG_LISTEN_URL: return strncmp(text, "tls://", 6) == 0 && is_endpoint(text + 6, 1);
    default: return 1;
    }
}

static void check_text(struct checker *c, const struct sn_config_node *node,
                       const struct sn_config_field *field)
{
    const char *text = sn_config_text(node, "");
    enum sni_scalar_class class = sni_scalar_classify(text, sn_config_is_plain(node));
    if (class != SNI_SCALAR_TEXT) {
        wrong_kind(c, node, field->kind,
                   class == SNI_SCALAR_NULL ? "" : "; put it in quotes if it is meant as text");
        return;
    }
    if (field->kind == SN_CONFIG_ENUM) {
        check_enum(c, node, field);
        return;
    }
    if (field->kind == SN_CONFIG_TEXT) check_length(c, node, field);
    int has_roles = (field->flags & SN_CONFIG_ROLES) != 0;
    if (is_of_form(text, field->kind) || (has_roles && is_role(text))) return;
    int is_address = field->kind == SN_CONFIG_ADDRESS || field->kind == SN_CONFIG_LISTEN ||
                     field->kind == SN_CONFIG_LISTEN_URL;
    char quoted[SN_QUOTE_MAX];
    sn_findings_add_node(c->findings, node, "expected %s, found %s%s",
                         has_roles ? ROLES_NAME : kind_name(field->kind), sn_quote(text, quoted),
                         is_address ? address_hint(text, field->kind) : "");
}

static void list_keys(const struct sn_config_field *fields, char *out, size_t capacity)
{
    struct sn_text text;
    sn_text_init(&text, out, capacity);
    for (; fields->key != NULL; fields++) {
        sn_text_add(&text, "%s%s", text.size == 0 ? "" : ", ", fields->key);
    }
}

/* Keys that are not there yet are the likelier meaning of a typo. */
static void unknown_key(struct checker *c, const struct sn_config_node *child,
                        const struct sn_config_node *map, const struct sn_config_field *fields)
{
    char hint[SN_HINT_MAX];
    char quoted[SN_QUOTE_MAX];
    const char *key = sn_config_key(child);
    struct sn_suggest suggest;
    sn_suggest_init(&suggest, key);
    for (const struct sn_config_field *f = fields; f->key != NULL; f++) {
        if (sn_config_get(map, f->key) == NULL) sn_suggest_offer(&suggest, f->key);
    }
    for (const struct sn_config_field *f = fields; suggest.best == NULL && f->key != NULL; f++) {
        sn_suggest_offer(&suggest, f->key);
    }
    (void)sn_quote(key, quoted); /* returns its own argument */
    if (suggest.best != NULL) {
        sn_findings_add_key(c->findings, child, "unknown key %s%s", quoted,
                            sn_suggest_text(&suggest, hint));
        return;
    }
    char keys[KEYS_TEXT_MAX];
    list_keys(fields, keys, sizeof keys);
    sn_findings_add_key(c->findings, child, "unknown key %s; the keys here are: %s", quoted, keys);
}

static void check_required(struct checker *c, const struct sn_config_node *map,
                           const struct sn_config_field *fields)
{
    char base[SN_FINDING_PATH_MAX - 70];
    char path[SN_FINDING_PATH_MAX];
    for (const struct sn_config_field *f = fields; f->key != NULL; f++) {
        if (!(f->flags & SN_CONFIG_REQUIRED) || sn_config_get(map, f->key) != NULL) continue;
        sn_config_path(map, base, sizeof base);
        int is_root = strcmp(base, ".") == 0;
        /* Cutting a path that is too long is wanted. */
        (void)snprintf(path, sizeof path, "%s%s%.63s", is_root ? "" : base, is_root ? "" : ".",
                       f->key);
        sn_findings_add(c->findings, sn_config_file(map), sn_config_where_key(map), path,
                        "required key `%s` is missing: %s", f->key, f->help);
    }
}

static void check_entries(struct checker *c, const struct sn_config_node *node,
                          const struct sn_config_field *field)
{
    int64_t count = sn_config_count(node);
    if ((field->min == 0 && field->max == 0) || (count >= field->min && count <= field->max)) {
        return;
    }
    sn_findings_add_node(c->findings, node,
                         "%" PRId64 " entries; allowed are %" PRId64 " to %" PRId64, count,
                         field->min, field->max);
}

static void check_dict_key(struct checker *c, const struct sn_config_node *child, int is_agent)
{
    const char *key = sn_config_key(child);
    uint32_t kind = is_agent ? SN_CONFIG_AGENT : SN_CONFIG_LABEL;
    if (is_of_form(key, kind)) return;
    char quoted[SN_QUOTE_MAX];
    sn_findings_add_key(c->findings, child, "expected %s, found the key %s", kind_name(kind),
                        sn_quote(key, quoted));
}

static void push(struct checker *c, const struct sn_config_node *node,
                 const struct sn_config_field *fields, const struct sn_config_field *item)
{
    SN_ASSERT(c->depth < SN_ARRAY_COUNT(c->stack)); /* the tree is no deeper */
    c->stack[c->depth++] = (struct frame){.node = node, .fields = fields, .item = item};
}

static void check_container(struct checker *c, const struct sn_config_node *node,
                            const struct sn_config_field *field)
{
    enum sn_config_shape wanted =
        field->kind == SN_CONFIG_LIST ? SN_CONFIG_SEQUENCE : SN_CONFIG_MAPPING;
    if (sn_config_shape(node) != wanted) {
        wrong_kind(c, node, field->kind, "");
        return;
    }
    if (field->kind == SN_CONFIG_MAP) {
        check_required(c, node, field->fields);
        push(c, node, field->fields, NULL);
        return;
    }
    check_entries(c, node, field);
    if (field->kind == SN_CONFIG_DICT) {
        for (uint32_t i = 0; i < sn_config_count(node); i++) {
            check_dict_key(c, sn_config_at(node, i), (field->flags & SN_CONFIG_AGENT_KEYS) != 0);
        }
    }
    push(c, node, NULL, field->item);
}

static int is_nothing(const struct sn_config_node *node)
{
    const char *text = sn_config_text(node, NULL);
    if (text == NULL) return 0;
    return sni_scalar_classify(text, sn_config_is_plain(node)) == SNI_SCALAR_NULL;
}

static void check_value(struct checker *c, const struct sn_config_node *node,
                        const struct sn_config_field *field)
{
    if (is_nothing(node)) {
        wrong_kind(c, node, field->kind, "");
        return;
    }
    if (field->kind == SN_CONFIG_ANY) return;
    if (sn_config_shape(node) == SN_CONFIG_SCALAR) {
        if (field->flags & SN_CONFIG_ONE_OR_LIST) field = field->item;
        if (field->flags & SN_CONFIG_SHORT) field = field->fields;
    }
    if (field->kind >= SN_CONFIG_MAP) {
        check_container(c, node, field);
        return;
    }
    if (sn_config_shape(node) != SN_CONFIG_SCALAR) {
        wrong_kind(c, node, field->kind, "");
        return;
    }
    switch (field->kind) {
    case SN_CONFIG_INT: check_int(c, node, field); break;
    case SN_CONFIG_BOOL: check_bool(c, node); break;
    default: check_text(c, node, field); break;
    }
}

enum sn_err sn_schema_check(const struct sn_config_node *node, const struct sn_config_field *fields,
                            struct sn_findings *findings)
{
    SN_ASSERT(node != NULL);
    SN_ASSERT(fields != NULL);
    uint32_t before = findings->total;
    struct checker c = {.findings = findings};
    const struct sn_config_field root = {.kind = SN_CONFIG_MAP, .fields = fields};
    check_value(&c, node, &root);
    while (c.depth > 0 && !sn_findings_is_full(findings)) {
        struct frame *frame = &c.stack[c.depth - 1];
        const struct sn_config_node *child = sn_config_at(frame->node, frame->index++);
        if (child == NULL) {
            c.depth--;
            continue;
        }
        const struct sn_config_field *field = frame->item;
        if (frame->fields != NULL) {
            const char *key = sn_config_key(child);
            field = frame->fields;
            while (field->key != NULL && strcmp(field->key, key) != 0) field++;
        }
        if (field->key == NULL && frame->fields != NULL) {
            unknown_key(&c, child, frame->node, frame->fields);
            continue;
        }
        check_value(&c, child, field);
    }
    return sn_findings_result(findings, before);
}
