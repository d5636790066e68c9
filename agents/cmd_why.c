/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why. Gathers what a running agent knows of another one, asks that one for a sign of life, and prints the judgement
 * (why.c) with the facts it stands on. Guarantees: nothing is sent but one ping, to the actor that everybody may ask;
 * an agent that cannot be asked in full is an error, not a cause.
 */
#include <stdio.h>
#include <string.h>

#include "agents/cli.h"
#include "agents/why.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "config/agent_file.h"
#include "sennit/actor.h"
#include "wire/json.h"

#define PING_TIMEOUT_MS 2000u
#define PING_BYTES      16u

enum { OPT_CONFIG, OPT_JSON, OPT_TIMEOUT, OPT_COUNT };

struct why {
    struct sn_cli *cli;
    struct sn_control_client client;
    struct sn_why_facts *facts;
    uint64_t timeout_ms;
    struct sn_body entries; /* of the facts */
    uint32_t entry_count;
};

/* --- Gathering -------------------------------------------------------------------------------------------- */

static int is_plain_name(const char *pattern)
{
    return pattern != NULL && sn_agent_name_is_valid(pattern, strlen(pattern));
}

/* Whom the agent's file names, and which key it expects. */
static void note_file(struct sn_why_facts *facts, const struct sn_agent_file *file)
{
    const char *key = NULL;
    for (uint32_t i = 0; i < file->link_count; i++) {
        sn_why_read_name(facts, file->links[i].to);
        if (strcmp(file->links[i].to, facts->agent) == 0) key = file->links[i].key;
    }
    for (uint32_t i = 0; i < file->pin_count; i++) {
        sn_why_read_name(facts, file->pins[i].agent);
        if (strcmp(file->pins[i].agent, facts->agent) == 0 && key == NULL) key = file->pins[i].key;
    }
    for (uint32_t i = 0; i < file->access_count; i++) {
        const struct sn_config_node *from = file->access[i].from;
        for (uint32_t at = 0; at < sn_config_count(from); at++) {
            const char *pattern = sn_config_text(sn_config_at(from, at), NULL);
            if (is_plain_name(pattern)) sn_why_read_name(facts, pattern);
        }
    }
    if (key == NULL) return;
    enum sn_err err = sn_text_copy(facts->expected_id, sizeof facts->expected_id, key, strlen(key));
    if (err != SN_OK) facts->expected_id[0] = '\0'; /* the file was checked: keys fit */
}

/* Returns an exit status. */
static int read_file(struct why *why, const char *path)
{
    struct sn_findings findings;
    struct sn_agent_file *file = NULL;
    char *data = NULL;
    size_t size = 0;
    if (!sn_cli_read(why->cli, path, &data, &size)) return SN_EXIT_USAGE;
    sn_findings_init(&findings);
    enum sn_err err = sn_agent_file_parse(data, size, path, &findings, &file);
    if (err == SN_OK) {
        note_file(why->facts, file);
        sn_agent_file_free(file);
    } else {
        sn_cli_findings(why->cli, &findings);
    }
    sn_findings_fini(&findings);
    sn_free(data, size + 1);
    return err == SN_OK ? SN_EXIT_OK : SN_EXIT_USAGE;
}

static int read_view(struct why *why, const char *verb,
                     enum sn_err (*take)(struct sn_why_facts *facts, const void *bytes,
                                         size_t size))
{
    struct sn_control_request request = {0};
    struct sn_control_reply reply;
    (void)snprintf(request.verb, sizeof request.verb, "%s", verb); /* fits: one of ours */
    int status = sn_cli_call(why->cli, &why->client, &request, &reply);
    if (status != SN_EXIT_OK) return status;
    enum sn_err err = take(why->facts, reply.body, reply.body_size);
    if (err == SN_OK) return SN_EXIT_OK;
    sn_cli_error(why->cli, "what the agent says of its %s cannot be read: %s", verb,
                 sn_err_text(err));
    return SN_EXIT_FAILED;
}

static enum sn_err take_forwards(struct why *why, const uint8_t *json, size_t size)
{
    struct sn_pack pack;
    size_t capacity = 3 * size + 64; /* as for `forwards`, in cmd_view.c */
    uint8_t *bytes = sn_alloc_raw(capacity);
    if (bytes == NULL) return SN_ENOMEM;
    sn_pack_init(&pack, bytes, capacity);
    enum sn_err err = sn_json_to_msgpack((const char *)json, size, &pack);
    if (err == SN_OK) err = sn_why_read_forwards(why->facts, bytes, pack.size);
    sn_free(bytes, capacity);
    return err;
}

/* An agent without the tunnel plugin, or with one that is busy, has no forwards to tell of: the rest still counts. */
static int read_forwards(struct why *why)
{
    static const char to[] = ":tunnel";
    struct sn_control_request request;
    struct sn_control_reply reply;
    const uint8_t *payload = NULL;
    size_t size = 0;
    uint64_t us = 0;
    enum sn_err err = sn_cli_make_ask(&request, to, sizeof to - 1, "tunnel.list");
    SN_ASSERT(err == SN_OK); /* constants that fit */
    request.timeout_ms = why->timeout_ms;
    err = sn_control_call(&why->client, &request, &reply);
    if (err != SN_OK) return sn_cli_report(why->cli, err, &reply);
    if (reply.err != SN_OK) return SN_EXIT_OK;
    err = sn_cli_read_answer(&reply, &payload, &size, &us);
    if (err == SN_OK) err = take_forwards(why, payload, size);
    if (err == SN_OK) return SN_EXIT_OK;
    sn_cli_error(why->cli, "the tunnel plugin's answer cannot be read: %s", sn_err_text(err));
    return SN_EXIT_FAILED;
}

static int ping(struct why *why)
{
    struct sn_why_ping *out = &why->facts->ping;
    struct sn_control_request request;
    struct sn_control_reply reply;
    uint8_t payload[PING_BYTES];
    const uint8_t *answer = NULL;
    size_t size = 0;
    char address[SN_ADDR_BYTES_MAX + 1];
    struct sn_text to;
    sn_text_init(&to, address, sizeof address);
    sn_text_add(&to, "%s:ping", why->facts->agent);
    enum sn_err err = sn_cli_make_ask(&request, to.data, to.size, "ping.echo");
    SN_ASSERT(err == SN_OK && !to.truncated); /* the name was checked */
    sn_env_random(why->cli->env, payload, sizeof payload);
    request.payload = payload;
    request.payload_size = sizeof payload;
    request.timeout_ms = why->timeout_ms;
    err = sn_control_call(&why->client, &request, &reply);
    if (err != SN_OK) return sn_cli_report(why->cli, err, &reply);
    out->was_sent = 1;
    out->err = reply.err;
    if (reply.err == SN_OK) out->err = sn_cli_read_answer(&reply, &answer, &size, &out->us);
    if (out->err == SN_OK && (size != PING_BYTES || memcmp(answer, payload, PING_BYTES) != 0)) {
        out->err = SN_EINVAL; /* malformed: it is not what was sent */
    }
    const char *reason = reply.err != SN_OK && reply.text[0] != '\0' ? reply.text
                         : out->err != SN_OK                         ? sn_err_text(out->err)
                                                                     : "";
    (void)snprintf(out->reason, sizeof out->reason, "%.60s", reason); /* cut is fine */
    return SN_EXIT_OK;
}

/* Returns an exit status. The peers come last of the views, and again when a ping had no answer: it may have been the
 * ping that waited for a connection to be given up. */
static int gather(struct why *why, const char *path)
{
    struct sn_why_facts *facts = why->facts;
    int status = read_file(why, path);
    if (status == SN_EXIT_OK) status = read_view(why, "status", sn_why_read_status);
    if (status == SN_EXIT_OK) status = read_forwards(why);
    if (status == SN_EXIT_OK) status = read_view(why, "peers", sn_why_read_peers);
    if (status != SN_EXIT_OK || strcmp(facts->peer.state, "up") != 0) return status;
    status = ping(why);
    if (status != SN_EXIT_OK || facts->ping.err == SN_OK) return status;
    facts->peer.is_known = 0;
    facts->refused.is_known = 0;
    return read_view(why, "peers", sn_why_read_peers);
}

/* --- Facts ---------------------------------------------------------------------------------------------------- */

static void add_text(struct why *why, const char *key, const char *text)
{
    if (text[0] == '\0') return;
    why->entry_count++;
    sn_body_text(&why->entries, key, text);
}

static void add_uint(struct why *why, const char *key, uint64_t value)
{
    if (value == SN_WHY_NEVER) return;
    why->entry_count++;
    sn_body_uint(&why->entries, key, value);
}

static void add_int(struct why *why, const char *key, int64_t value)
{
    why->entry_count++;
    sn_body_int(&why->entries, key, value);
}

/* Its clock as of now, reckoned from the last handshake. */
static void add_clocks(struct why *why, const struct sn_why_peer *peer)
{
    char data[32];
    struct sn_text text;
    int64_t offset_ms = peer->clock_offset_ms;
    int64_t wall_ms = sn_env_wall_ms(why->cli->env);
    add_int(why, "clock_offset_ms", offset_ms);
    if (offset_ms <= SN_WHY_CLOCK_OFF_MS && offset_ms >= -SN_WHY_CLOCK_OFF_MS) return;
    sn_text_init(&text, data, sizeof data);
    sn_text_add_utc(&text, wall_ms / 1000);
    add_text(why, "clock_here", data);
    sn_text_init(&text, data, sizeof data);
    sn_text_add_utc(&text, wall_ms / 1000 + offset_ms / 1000); /* no overflow: of seconds */
    add_text(why, "clock_there", data);
}

static void add_connecting(struct why *why, const struct sn_why_peer *peer)
{
    add_text(why, "linked", peer->is_linked ? "yes" : "no");
    add_text(why, "dialed", peer->dialed);
    if (peer->is_linked) add_uint(why, "attempts", peer->attempts);
    add_uint(why, "next_attempt_ms", peer->next_attempt_ms);
    add_text(why, "error", peer->error);
    add_text(why, "refused_by", peer->refused_by);
    add_text(why, "presented_agent", peer->presented_agent);
    add_text(why, "presented_id", peer->presented_id);
}

static void add_peer(struct why *why, const struct sn_why_peer *peer)
{
    int is_up = strcmp(peer->state, "up") == 0;
    add_text(why, "id", peer->id);
    add_text(why, "remote", peer->remote);
    add_uint(why, "since_ms", peer->since_ms);
    add_text(why, "reason", peer->reason);
    if (!is_up) add_connecting(why, peer);
    add_uint(why, "sessions", peer->sessions);
    add_uint(why, "answered_ms", peer->answered_ms);
    add_uint(why, "ended_ms", peer->ended_ms);
    add_text(why, "ended_error", peer->ended_error);
    add_text(why, "ended_detail", peer->ended_detail);
    if (is_up) add_uint(why, "heartbeat_us", peer->rtt_us);
    if (peer->sessions > 0) add_clocks(why, peer);
    add_uint(why, "queued", peer->queued);
    if (peer->queued > 0) {
        add_uint(why, "queued_bytes", peer->queued_bytes);
        add_uint(why, "queued_ms", peer->queued_ms);
    }
    if (peer->undelivered_reason[0] == '\0') return;
    add_text(why, "undelivered_actor", peer->undelivered_actor);
    add_text(why, "undelivered_type", peer->undelivered_type);
    add_text(why, "undelivered_reason", peer->undelivered_reason);
    add_uint(why, "undelivered_ms", peer->undelivered_ms);
}

static void add_facts(struct why *why)
{
    const struct sn_why_facts *facts = why->facts;
    add_text(why, "this_agent", facts->self);
    add_text(why, "similar", facts->is_named ? "" : facts->similar);
    if (facts->own_valid_s != INT64_MAX)
        add_int(why, "own_certificate_valid_s", facts->own_valid_s);
    if (strcmp(facts->expected_id, facts->peer.id) != 0 || facts->peer.presented_id[0] != '\0') {
        add_text(why, "expected_id", facts->expected_id);
    }
    if (facts->peer.is_known) add_peer(why, &facts->peer);
    if (facts->ping.was_sent && facts->ping.err == SN_OK) add_uint(why, "ping_us", facts->ping.us);
    add_text(why, "ping_failed", facts->ping.reason);
    if (facts->refused.is_known) {
        add_text(why, "refused_id", facts->refused.id);
        add_text(why, "refused_remote", facts->refused.remote);
        add_text(why, "refused_reason", facts->refused.reason);
        add_uint(why, "refused_count", facts->refused.count);
        add_uint(why, "refused_ms", facts->refused.since_ms);
    }
    if (facts->forward.error[0] == '\0') return;
    add_text(why, "forward", facts->forward.name);
    add_text(why, "target", facts->forward.target);
    add_text(why, "forward_error", facts->forward.error);
    add_uint(why, "forward_failed", facts->forward.failed);
}

/* --- Printing ---------------------------------------------------------------------------------------------- */

static int print_body(struct why *why, const struct sn_body *body, int as_json)
{
    if (body->err == SN_OK) {
        return sn_cli_print_body(why->cli, body->pack.data, body->pack.size, as_json);
    }
    sn_cli_error(why->cli, "%s", sn_err_text(body->err));
    return SN_EXIT_FAILED;
}

static int print_json(struct why *why, const struct sn_why_finding *finding)
{
    struct sn_body body;
    char address[SN_ADDR_BYTES_MAX + 1];
    struct sn_text text;
    const struct sn_why_facts *facts = why->facts;
    sn_text_init(&text, address, sizeof address);
    sn_text_add(&text, "%s%s%s", facts->agent, facts->actor[0] == '\0' ? "" : ":", facts->actor);
    sn_body_init(&body);
    sn_body_map(&body, 5);
    sn_body_text(&body, "agent", address);
    sn_body_text(&body, "state", finding->state);
    sn_body_text(&body, "cause", finding->cause);
    sn_body_text(&body, "text", finding->text);
    sn_body_key(&body, "facts");
    sn_body_map(&body, why->entry_count);
    sn_body_append(&body, &why->entries);
    int status = print_body(why, &body, 1);
    sn_body_fini(&body);
    return status;
}

/* One line that nothing of a peer's can break, and the facts beneath. */
static int print_text(struct why *why, const struct sn_why_finding *finding)
{
    struct sn_body body;
    sn_body_init(&body);
    sn_body_key(&body, finding->text); /* a text by itself */
    int status = print_body(why, &body, 0);
    sn_body_fini(&body);
    if (status != SN_EXIT_OK) return status;
    sn_body_init(&body);
    sn_body_map(&body, why->entry_count + 1);
    sn_body_text(&body, "cause", finding->cause);
    sn_body_append(&body, &why->entries);
    status = print_body(why, &body, 0);
    sn_body_fini(&body);
    return status;
}

static int answer(struct why *why, int as_json)
{
    static const int statuses[] = {
        [SN_WHY_WELL] = SN_EXIT_OK, [SN_WHY_ILL] = SN_EXIT_FAILED, [SN_WHY_NOBODY] = SN_EXIT_USAGE};
    struct sn_why_finding finding;
    sn_why_judge(why->facts, &finding);
    sn_body_init(&why->entries);
    add_facts(why);
    int status = as_json ? print_json(why, &finding) : print_text(why, &finding);
    sn_body_fini(&why->entries);
    return status == SN_EXIT_OK ? statuses[finding.verdict] : status;
}

/* --- The command --------------------------------------------------------------------------------------------- */

/* SITE/AGENT or SITE/AGENT:ACTOR. */
static int take_name(struct why *why, const char *word)
{
    struct sn_why_facts *facts = why->facts;
    const char *colon = strchr(word, ':');
    size_t size = colon == NULL ? strlen(word) : (size_t)(colon - word);
    const char *actor = colon == NULL ? "" : colon + 1;
    int is_valid = sn_agent_name_is_valid(word, size) &&
                   (colon == NULL || sn_label_is_valid(actor, strlen(actor)));
    enum sn_err err = SN_EINVAL;
    if (is_valid) err = sn_text_copy(facts->agent, sizeof facts->agent, word, size);
    if (err == SN_OK) err = sn_text_copy(facts->actor, sizeof facts->actor, actor, strlen(actor));
    if (err == SN_OK) return SN_EXIT_OK;
    sn_cli_error(why->cli,
                 "an agent is named site/agent, or with an actor site/agent:actor, for example "
                 "paris/hub, not %.150s",
                 word);
    return SN_EXIT_USAGE;
}

static int run_why(struct why *why, const char *word, const char *agent_file, int as_json)
{
    const char *path = agent_file != NULL ? agent_file : "agent.yaml";
    sn_why_facts_init(why->facts);
    int status = take_name(why, word);
    if (status == SN_EXIT_OK) status = sn_cli_connect(why->cli, path, &why->client);
    if (status != SN_EXIT_OK) return status;
    status = gather(why, path);
    if (status == SN_EXIT_OK) status = answer(why, as_json);
    sn_control_disconnect(&why->client);
    return status;
}

int sn_cmd_why(struct sn_cli *cli)
{
    struct sn_option options[OPT_COUNT] = {
        [OPT_CONFIG] = {.name = "-c", .takes_value = 1},
        [OPT_JSON] = {.name = "--json"},
        [OPT_TIMEOUT] = {.name = "--timeout", .takes_value = 1},
    };
    struct why why = {.cli = cli};
    const char *word = NULL;
    int count = sn_cli_parse(cli, options, OPT_COUNT, &word, 1);
    if (count < 0) return SN_EXIT_USAGE;
    if (count != 1) return sn_cli_usage(cli);
    if (!sn_cli_number(cli, &options[OPT_TIMEOUT], 1, SN_CONTROL_ASK_TIMEOUT_MAX_MS,
                       PING_TIMEOUT_MS, &why.timeout_ms)) {
        return SN_EXIT_USAGE;
    }
    why.facts = sn_alloc(sizeof *why.facts);
    if (why.facts == NULL) {
        sn_cli_error(cli, "%s", sn_err_text(SN_ENOMEM));
        return SN_EXIT_FAILED;
    }
    int status = run_why(&why, word, options[OPT_CONFIG].value, options[OPT_JSON].is_given);
    sn_free(why.facts, sizeof *why.facts);
    return status;
}
