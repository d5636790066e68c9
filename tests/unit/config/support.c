/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/config/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/scalar.h"
#include "config/tree.h"

const char fleet_text[] = "mesh: demo\n"
                          "authority: authority.key\n"
                          "sites:\n"
                          "  paris:\n"
                          "    hub:\n"
                          "      listen: [\"tls://127.0.0.1:7400\"]\n"
                          "    spare: {}\n"
                          "  amsterdam:\n"
                          "    edge:\n"
                          "      links: [paris/hub]\n"
                          "targets:\n"
                          "  web:\n"
                          "    at: paris/hub\n"
                          "    address: \"127.0.0.1:8000\"\n"
                          "    allow: [\"amsterdam/*\"]\n"
                          "    connect_wait_ms: 10000\n"
                          "forwards:\n"
                          "  web:\n"
                          "    at: amsterdam/edge\n"
                          "    listen: \"127.0.0.1:8080\"\n"
                          "    target: web\n"
                          "access:\n"
                          "  - to: \"paris/hub:echo\"\n"
                          "    types: [\"echo.*\"]\n"
                          "    from: [\"amsterdam/*\"]\n"
                          "plugins:\n"
                          "  - name: storage\n"
                          "    at: [\"paris/*\"]\n"
                          "    config: {path: store}\n"
                          "settings:\n"
                          "  drain_ms: 5000\n";

const char agent_text[] = "mesh: demo\n"
                          "agent: amsterdam/edge\n"
                          "authority: [\"" KEY_A "\"]\n"
                          "certificate: agent.cert\n"
                          "key: node.key\n"
                          "listen: [\"tls://127.0.0.1:7401\"]\n"
                          "links:\n"
                          "  - to: paris/hub\n"
                          "    key: \"" KEY_B "\"\n"
                          "    address: [\"127.0.0.1:7400\"]\n"
                          "access:\n"
                          "  - {to: echo, types: [\"echo.*\"], from: [\"paris/*\"]}\n"
                          "plugins:\n"
                          "  - name: tunnel\n"
                          "    config: {}\n"
                          "drain_ms: 5000\n";

char *edit(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    size_t size = strlen(text) + strlen(to) + 1;
    char *edited = malloc(size);
    assert_non_null(edited);
    int head = (int)(at - text);
    int written = snprintf(edited, size, "%.*s%s%s", head, text, to, at + strlen(from));
    assert_true(written >= 0 && (size_t)written < size);
    return edited;
}

#define DUMP_LINE_MAX ((size_t)8192)

struct dump {
    char *data;
    size_t size;
    size_t capacity;
};

static void make_room(struct dump *dump)
{
    if (dump->capacity - dump->size > DUMP_LINE_MAX) return;
    dump->capacity = dump->capacity == 0 ? 2 * DUMP_LINE_MAX : dump->capacity * 2;
    dump->data = realloc(dump->data, dump->capacity);
    assert_non_null(dump->data);
    dump->data[dump->size] = '\0';
}

static struct dump dump_new(void)
{
    struct dump dump = {0};
    make_room(&dump);
    return dump;
}

static void SN_PRINTF(2, 3) put(struct dump *dump, const char *format, ...)
{
    make_room(dump);
    va_list args;
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is a line above */
    int size = vsnprintf(dump->data + dump->size, DUMP_LINE_MAX, format, args);
    va_end(args);
    assert_true(size >= 0 && (size_t)size < DUMP_LINE_MAX);
    dump->size += (size_t)size;
}

char *findings_text(const struct sn_findings *findings)
{
    char line[2048];
    struct dump dump = dump_new();
    for (uint32_t i = 0; i < findings->count; i++) {
        sn_finding_format(findings->items[i], line, sizeof line);
        put(&dump, "%s\n", line);
    }
    return dump.data;
}

/* A list, whether it stood in brackets or as one value. */
static void put_list(struct dump *dump, const char *name, const struct sn_config_node *list)
{
    put(dump, " %s=(", name);
    for (uint32_t i = 0; i < sn_config_count(list); i++) {
        put(dump, "%s,", sn_config_text(sn_config_at(list, i), "?"));
    }
    put(dump, ")");
}

/* A plugin's part. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tree, 16 at most */
static void put_tree(struct dump *dump, const struct sn_config_node *node)
{
    if (node == NULL) {
        put(dump, " none");
        return;
    }
    if (sn_config_shape(node) == SN_CONFIG_SCALAR) {
        const char *text = sn_config_text(node, "?");
        /* Quotes make a difference only for what would not be text without them. */
        enum sni_scalar_class class = sni_scalar_classify(text, sn_config_is_plain(node));
        put(dump, " %d'%s'", (int)class, class == SNI_SCALAR_NULL ? "" : text);
        return;
    }
    put(dump, " {%d", sn_config_shape(node));
    for (uint32_t i = 0; i < sn_config_count(node); i++) {
        const char *key = sn_config_key_at(node, i);
        put(dump, " %s:", key == NULL ? "-" : key);
        put_tree(dump, sn_config_at(node, i));
    }
    put(dump, "}");
}

static void put_settings(struct dump *dump, const struct sn_settings *s)
{
    put(dump, " settings=%s,%s,%s,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u\n", s->log_level, s->log_format,
        s->plugins_allow, s->resume_ms, s->drain_ms, s->workers, s->memory_mib,
        s->heartbeat_interval_ms, s->heartbeat_deadline_ms, s->reconnect_min_ms,
        s->reconnect_max_ms, s->accept_handshakes, s->accept_per_address, s->accept_timeout_ms);
}

/* What only rendering reads. */
static void put_limits(struct dump *dump, const struct sn_config_node *node)
{
    static const char *const keys[] = {"max_connections", "max_per_agent", "idle_ms"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        put(dump, " %lld", (long long)sn_config_int(sn_config_get(node, keys[i]), -1));
    }
}

static void put_fleet_agent(struct dump *dump, const struct sn_fleet_agent *agent)
{
    put(dump, "agent %s key=%s", agent->name, agent->key == NULL ? "" : agent->key);
    put_list(dump, "listen", agent->listen);
    put_list(dump, "address", agent->address);
    put_list(dump, "roles", agent->roles);
    for (uint32_t i = 0; i < agent->link_count; i++) {
        put(dump, " link=%u", agent->links[i].to);
        put_list(dump, "address", agent->links[i].address);
    }
    put_settings(dump, &agent->settings);
}

char *fleet_dump(const struct sn_fleet *fleet)
{
    struct dump dump = dump_new();
    put(&dump, "mesh=%s authority=%s", fleet->mesh, fleet->authority);
    put_settings(&dump, &fleet->settings);
    for (uint32_t i = 0; i < fleet->agent_count; i++) put_fleet_agent(&dump, &fleet->agents[i]);
    for (uint32_t i = 0; i < fleet->target_count; i++) {
        const struct sn_fleet_target *target = &fleet->targets[i];
        put(&dump, "target %s at=%u %s wait=%u", target->name, target->at, target->address,
            target->connect_wait_ms);
        put_list(&dump, "allow", target->allow);
        put_limits(&dump, target->node);
        put(&dump, "\n");
    }
    for (uint32_t i = 0; i < fleet->forward_count; i++) {
        const struct sn_fleet_forward *forward = &fleet->forwards[i];
        put(&dump, "forward %s at=%u %s target=%u wait=%u", forward->name, forward->at,
            forward->listen, forward->target, forward->open_wait_ms);
        put_limits(&dump, forward->node);
        put(&dump, "\n");
    }
    for (uint32_t i = 0; i < fleet->access_count; i++) {
        put(&dump, "access %u:%s", fleet->access[i].at, fleet->access[i].actor);
        put_list(&dump, "types", fleet->access[i].types);
        put_list(&dump, "from", fleet->access[i].from);
        put(&dump, "\n");
    }
    for (uint32_t i = 0; i < fleet->plugin_count; i++) {
        put(&dump, "plugin %s", fleet->plugins[i].name);
        put_list(&dump, "at", fleet->plugins[i].at);
        put(&dump, "path %s", fleet->plugins[i].path == NULL ? "" : fleet->plugins[i].path);
        put_list(&dump, "sha256", fleet->plugins[i].sha256);
        put_tree(&dump, fleet->plugins[i].config);
        put(&dump, "\n");
    }
    return dump.data;
}

char *agent_dump(const struct sn_agent_file *agent)
{
    struct dump dump = dump_new();
    put(&dump, "mesh=%s agent=%s certificate=%s key=%s data=%s run=%s", agent->mesh, agent->agent,
        agent->certificate == NULL ? "" : agent->certificate, agent->key, agent->data, agent->run);
    put_list(&dump, "authority", agent->authority);
    put_list(&dump, "listen", agent->listen);
    put_settings(&dump, &agent->settings);
    for (uint32_t i = 0; i < agent->link_count; i++) {
        const struct sn_agent_link *link = &agent->links[i];
        put(&dump, "link %s key=%s", link->to, link->key == NULL ? "" : link->key);
        put_list(&dump, "address", link->address);
        put(&dump, "\n");
    }
    for (uint32_t i = 0; i < agent->pin_count; i++) {
        put(&dump, "pin %s=%s\n", agent->pins[i].agent, agent->pins[i].key);
    }
    for (uint32_t i = 0; i < agent->access_count; i++) {
        put(&dump, "access %s", agent->access[i].actor);
        put_list(&dump, "types", agent->access[i].types);
        put_list(&dump, "from", agent->access[i].from);
        put(&dump, "\n");
    }
    for (uint32_t i = 0; i < agent->plugin_count; i++) {
        put(&dump, "plugin %s", agent->plugins[i].name);
        put(&dump, "path %s", agent->plugins[i].path == NULL ? "" : agent->plugins[i].path);
        put_list(&dump, "sha256", agent->plugins[i].sha256);
        put_tree(&dump, agent->plugins[i].config);
        put(&dump, "\n");
    }
    return dump.data;
}

char *read_source(const char *name)
{
    char path[1024];
    int written = snprintf(path, sizeof path, "%s/%s", SN_SOURCE_DIR, name);
    assert_true(written > 0 && (size_t)written < sizeof path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct dump text = dump_new();
    char part[1024];
    size_t size;
    while ((size = fread(part, 1, sizeof part, file)) > 0) put(&text, "%.*s", (int)size, part);
    assert_true(text.size > 0);
    (void)fclose(file); /* was only read */
    return text.data;
}

char *read_example(const char *name)
{
    char path[128];
    int written = snprintf(path, sizeof path, "config/%s", name);
    assert_true(written > 0 && (size_t)written < sizeof path);
    return read_source(path);
}

char *shell_filled(const char *text, size_t size)
{
    static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct dump filled = dump_new();
    const char *end = text + size;
    while (text < end) {
        if (strncmp(text, "$(", 2) == 0) {
            text = strstr(text, ")\""); /* the only commands that stand there hash a file */
            assert_non_null(text);
            text++;
            put(&filled, "%s", digest);
        } else if (*text == '$') {
            text += 1 + strspn(text + 1, "abcdefghijklmnopqrstuvwxyzPWD");
            put(&filled, "/opt/x");
        } else {
            put(&filled, "%c", *text++);
        }
    }
    if (filled.data[filled.size - 1] != '\n') put(&filled, "\n");
    return filled.data;
}

void uncomment(char *text)
{
    static const char *const begins[] = {"# access:", "# plugins:", "#   "};
    char *line = text;
    while (*line != '\0') {
        for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
            if (strncmp(line, begins[i], strlen(begins[i])) != 0) continue;
            memmove(line, line + 2, strlen(line + 2) + 1);
            break;
        }
        line = strchr(line, '\n') + 1; /* the examples end with a line */
    }
}
