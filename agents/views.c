/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: a view never blocks a worker for longer than it takes to write down what that worker holds. */
#include "agents/views.h"

#include <string.h>

#include "agents/version.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

struct view {
    struct sn_task task;
    struct sn_agent *agent;
    struct sn_worker *worker;
    void (*done)(void *arg, uint64_t token, const struct sn_body *body);
    void *arg;
    uint64_t token;
    const struct view_kind *kind;
    struct sn_body body;    /* what is sent */
    struct sn_body entries; /* of an array whose length is not known yet */
    uint32_t entry_count;
    struct sn_ledger total;
    uint32_t peers_up, peers_known, streams_open;
};

struct view_kind {
    const char *verb;
    void (*begin)(struct view *view);
    void (*finish)(struct view *view);
    struct sn_tour_ops tour; /* `done` NULL: no tour */
};

static void add_text(struct view *view, const char *key, const char *text)
{
    sn_body_text(&view->entries, key, text);
}

static void add_uint(struct view *view, const char *key, uint64_t value)
{
    sn_body_uint(&view->entries, key, value);
}

static void add_entry(struct view *view, uint32_t keys)
{
    view->entry_count++;
    sn_body_map(&view->entries, keys);
}

static void finish_array(struct view *view)
{
    sn_body_array(&view->body, view->entry_count);
    sn_body_append(&view->body, &view->entries);
}

/* --- peers -------------------------------------------------------------------------------- */

static void add_key(struct view *view, const char *name, int has_key, const struct sn_key_id *key)
{
    char text[SN_KEY_TEXT_BYTES + 1] = "";
    if (has_key) sn_key_id_format(key, text);
    add_text(view, name, text);
}

static const char *err_name(enum sn_err err)
{
    return err == SN_OK ? "" : sn_err_name(err);
}

/* Absent when there is no such moment. `now_ns` may be a little earlier than a moment that another worker noted. */
static void add_age(struct view *view, const char *name, uint64_t now_ns, uint64_t at_ns)
{
    if (at_ns == 0) return;
    add_uint(view, name, at_ns < now_ns ? (now_ns - at_ns) / SN_MS : 0);
}

static void add_undelivered(struct view *view, const struct sn_peer_info *info)
{
    const struct sn_peer_undelivered *last = info->undelivered;
    if (last->reason == SN_REASON_NONE) return;
    sn_body_key(&view->entries, "last_undelivered");
    sn_body_map(&view->entries, 4);
    add_text(view, "actor", last->actor);
    add_text(view, "type", last->type);
    add_text(view, "reason", sn_reason_name(last->reason));
    add_age(view, "since_ms", info->now_ns, last->at_ns);
}

/* What `sennit why` judges by; the table for people leaves it out. Those that add_peer_details writes. */
static uint32_t count_peer_details(const struct sn_peer_info *info)
{
    uint32_t count = 9;
    if (info->next_at_ns != 0) count++;
    if (info->heard_ns != 0) count++;
    if (info->oldest_ns != 0) count++;
    if (info->end->at_ns != 0) count += 3;
    if (info->undelivered->reason != SN_REASON_NONE) count++;
    return count;
}

static void add_peer_details(struct view *view, const struct sn_peer_info *info)
{
    struct sn_body *body = &view->entries;
    const struct sn_peer_fault *fault = info->fault;
    sn_body_key(body, "linked");
    sn_body_need(body, 1);
    if (body->err == SN_OK) sn_pack_bool(&body->pack, info->is_linked);
    add_text(view, "dialed", info->dialed);
    add_uint(view, "attempts", info->attempts);
    if (info->next_at_ns != 0) {
        uint64_t left_ns = info->next_at_ns > info->now_ns ? info->next_at_ns - info->now_ns : 0;
        add_uint(view, "next_attempt_ms", left_ns / SN_MS);
    }
    add_text(view, "error", err_name(fault->err));
    add_text(view, "refused_by",
             fault->is_refusal    ? "this agent"
             : fault->was_refused ? "the peer"
                                  : "");
    add_key(view, "presented_id", fault->has_key, &fault->key);
    add_text(view, "presented_agent", fault->agent);
    add_age(view, "answered_ms", info->now_ns, info->heard_ns);
    if (info->end->at_ns != 0) {
        add_age(view, "ended_ms", info->now_ns, info->end->at_ns);
        add_text(view, "ended_error", info->end->is_goodbye ? "goodbye" : err_name(info->end->err));
        add_text(view, "ended_detail", info->end->detail);
    }
    add_uint(view, "queued", info->ledger.queued);
    add_uint(view, "queued_bytes", info->queued_bytes);
    add_age(view, "queued_ms", info->now_ns, info->oldest_ns);
    add_undelivered(view, info);
}

static void visit_peer(void *arg, const struct sn_peer_info *info)
{
    static const char *const states[] = {
        [SN_PEER_DOWN] = "down", [SN_PEER_CONNECTING] = "connecting", [SN_PEER_UP] = "up"};
    struct view *view = arg;
    add_entry(view, 9 + count_peer_details(info));
    add_text(view, "agent", info->agent);
    add_key(view, "id", info->has_id, &info->id);
    add_text(view, "state", states[info->state]);
    add_uint(view, "since_ms", info->since_ms);
    add_uint(view, "rtt_us", info->rtt_us);
    add_text(view, "reason", info->reason);
    add_text(view, "remote", info->remote);
    add_uint(view, "sessions", info->sessions);
    sn_body_int(&view->entries, "clock_offset_ms", info->clock_offset_ms);
    add_peer_details(view, info);
}

static void visit_refused(void *arg, const struct sn_refused_info *info)
{
    struct view *view = arg;
    /* Runs on another worker: the clock of the environment is anybody's. */
    uint64_t since_ms = (sn_env_now_ns(view->agent->env) - info->at_ns) / SN_MS;
    add_entry(view, 9);
    add_text(view, "agent", info->agent);
    add_key(view, "id", info->has_key, &info->key);
    add_text(view, "state", "refused");
    add_uint(view, "since_ms", since_ms);
    add_uint(view, "rtt_us", 0);
    add_text(view, "reason", info->reason);
    add_text(view, "remote", info->remote);
    add_uint(view, "count", info->count);
    add_text(view, "error", err_name(info->err));
}

/* --- streams -------------------------------------------------------------------------------- */

static void visit_flow(void *arg, const struct sn_flow_info *info)
{
    struct view *view = arg;
    add_entry(view, 9);
    add_uint(view, "id", info->id);
    add_text(view, "agent", info->agent);
    add_text(view, "service", info->service);
    add_text(view, "actor", info->owner);
    add_text(view, "direction", info->is_local ? "out" : "in");
    add_text(view, "state", info->is_orphan ? "orphaned" : info->is_accepted ? "open" : "opening");
    add_uint(view, "sent_bytes", info->sent_bytes);
    add_uint(view, "received_bytes", info->received_bytes);
    add_uint(view, "age_ms", info->age_ms);
}

/* --- ledger -------------------------------------------------------------------------------- */

static void add_reasons(struct sn_body *body, const char *key,
                        const uint64_t counts[SN_REASON_COUNT])
{
    uint32_t used = 0;
    for (unsigned i = 0; i < SN_REASON_COUNT; i++) used += counts[i] != 0;
    sn_body_key(body, key);
    sn_body_map(body, used);
    for (unsigned i = 0; i < SN_REASON_COUNT; i++) {
        if (counts[i] != 0) sn_body_uint(body, sn_reason_name((enum sn_reason)i), counts[i]);
    }
}

static void add_ledger(struct sn_body *body, const struct sn_ledger *ledger)
{
    sn_body_uint(body, "accepted", ledger->accepted);
    sn_body_uint(body, "delivered", ledger->delivered);
    sn_body_uint(body, "queued", ledger->queued);
    add_reasons(body, "undelivered", ledger->undelivered);
    add_reasons(body, "unknown", ledger->unknown);
}

static void visit_ledger(void *arg, const struct sn_peer_info *info)
{
    struct view *view = arg;
    struct sn_body *body = &view->entries;
    add_entry(view, 7);
    add_text(view, "agent", info->agent);
    add_ledger(body, &info->ledger);
    sn_body_key(body, "parcels");
    sn_body_map(body, 10);
    sn_body_uint(body, "sent", info->link.sent);
    sn_body_uint(body, "nng_sent", info->link.nng_sent);
    sn_body_uint(body, "received", info->link.received);
    sn_body_uint(body, "nng_received", info->link.nng_received);
    sn_body_uint(body, "resent", info->delivery.parcels_resent);
    sn_body_uint(body, "messages_received", info->delivery.messages_received);
    sn_body_uint(body, "messages_refused", info->delivery.messages_refused);
    sn_body_uint(body, "refused_auth", info->delivery.refused_auth);
    sn_body_uint(body, "refused_replay", info->delivery.refused_replay);
    sn_body_uint(body, "refused_other",
                 info->delivery.refused_form + info->delivery.refused_address +
                     info->delivery.refused_gap + info->delivery.refused_body);
    view->total.accepted += info->ledger.accepted;
    view->total.delivered += info->ledger.delivered;
    view->total.queued += info->ledger.queued;
    for (unsigned i = 0; i < SN_REASON_COUNT; i++) {
        view->total.undelivered[i] += info->ledger.undelivered[i];
        view->total.unknown[i] += info->ledger.unknown[i];
    }
}

static void finish_ledger(struct view *view)
{
    sn_body_map(&view->body, 3);
    sn_body_key(&view->body, "peers");
    finish_array(view);
    sn_body_key(&view->body, "total");
    sn_body_map(&view->body, 5);
    add_ledger(&view->body, &view->total);
    sn_body_uint(&view->body, "local_accepted", sn_system_local_accepted(view->agent->system));
}

/* --- actors, metrics -------------------------------------------------------------------------------------------- */

static void begin_actors(struct view *view)
{
    struct sn_actor_info info;
    for (uint32_t i = 0; sn_system_actor_info(view->agent->system, i, &info) == SN_OK; i++) {
        add_entry(view, 9);
        add_text(view, "name", info.name);
        add_text(view, "state", info.is_failed ? "failed" : "running");
        add_uint(view, "worker", info.worker);
        add_uint(view, "mailbox", info.mailbox_used);
        add_uint(view, "mailbox_max", info.mailbox_max);
        add_uint(view, "sends_outstanding", info.sends_outstanding);
        add_uint(view, "asks_outstanding", info.asks_outstanding);
        add_uint(view, "handled", info.handled);
        add_uint(view, "restarts", info.restarts);
    }
}

static void begin_metrics(struct view *view)
{
    const struct sn_metrics *metrics = view->agent->metrics;
    for (uint32_t i = 0; i < sn_metrics_count(metrics); i++) {
        const struct sn_metric_desc *desc = sn_metrics_desc(metrics, i);
        add_entry(view, 4);
        add_text(view, "name", desc->name);
        add_text(view, "kind", desc->kind == SN_METRIC_GAUGE ? "gauge" : "counter");
        sn_body_int(&view->entries, "value", sn_metrics_read(metrics, i));
        add_text(view, "help", desc->help);
    }
}

/* --- plugins -------------------------------------------------------------------------------- */

static int is_actor_failed(const struct sn_system *system, const char *name)
{
    struct sn_actor_info info;
    for (uint32_t i = 0; sn_system_actor_info(system, i, &info) == SN_OK; i++) {
        if (strcmp(info.name, name) == 0) return info.is_failed;
    }
    return 0;
}

/* Why it does not run: what kept it from starting, or the actor that failed too often. "" = it runs. */
static void cause_of(struct view *view, const struct sn_plugin_slot *slot, struct sn_text *text)
{
    const struct sn_plugin *plugin = slot->plugin;
    if (slot->fault.cause[0] != '\0') {
        sn_text_add(text, "%s", slot->fault.cause);
        return;
    }
    for (uint32_t i = 0; i < plugin->actor_count; i++) {
        const char *name = plugin->actors[i]->name;
        if (!is_actor_failed(view->agent->system, name)) continue;
        sn_text_add(text, "its actor %s failed too often: %s", name,
                    sn_err_text((enum sn_err)atomic_load(&slot->actor_err)));
        return;
    }
}

static void add_plugin_actors(struct view *view, const struct sn_plugin *plugin)
{
    uint32_t count = plugin == NULL ? 0 : plugin->actor_count;
    sn_body_key(&view->entries, "actors");
    sn_body_array(&view->entries, count);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = plugin->actors[i]->name;
        sn_body_map(&view->entries, 2);
        add_text(view, "name", name);
        add_text(view, "state", is_actor_failed(view->agent->system, name) ? "failed" : "running");
    }
}

static void add_plugin_messages(struct view *view, const struct sn_plugin *plugin)
{
    const struct sn_message_type *messages = plugin == NULL ? NULL : plugin->messages;
    uint32_t count = 0;
    while (messages != NULL && messages[count].type != NULL) count++;
    sn_body_key(&view->entries, "messages");
    sn_body_array(&view->entries, count);
    for (uint32_t i = 0; i < count; i++) {
        sn_body_map(&view->entries, 2);
        add_text(view, "type", messages[i].type);
        add_text(view, "help", messages[i].help);
    }
}

static void add_plugin(struct view *view, const struct sn_plugin_slot *slot)
{
    const struct sn_plugin *plugin = slot->plugin;
    int is_started = slot->fault.cause[0] == '\0';
    char data[SN_PLUGIN_ERROR_MAX];
    char abi_data[32];
    struct sn_text cause, abi;
    sn_text_init(&cause, data, sizeof data);
    sn_text_init(&abi, abi_data, sizeof abi_data);
    cause_of(view, slot, &cause);
    if (plugin != NULL) sn_text_add(&abi, "%u.%u", plugin->abi_major, plugin->abi_minor);
    add_entry(view, 10);
    add_text(view, "name", slot->name);
    add_text(view, "version", plugin == NULL ? "" : plugin->version);
    add_text(view, "abi", abi.data);
    add_text(view, "file", slot->path == NULL ? "" : slot->path);
    add_text(view, "sha256", slot->sha256);
    add_text(view, "state", cause.size == 0 ? "running" : "failed");
    add_text(view, "cause", cause.data);
    add_text(view, "hint", slot->fault.hint);
    add_plugin_actors(view, is_started ? plugin : NULL);
    add_plugin_messages(view, plugin);
}

static void begin_plugins(struct view *view)
{
    const struct sn_plugin_set *set = &view->agent->plugins;
    for (uint32_t i = 0; i < set->count; i++) add_plugin(view, &set->slots[i]);
}

/* --- status -------------------------------------------------------------------------------- */

static void count_peer(void *arg, const struct sn_peer_info *info)
{
    struct view *view = arg;
    view->peers_known++;
    view->peers_up += info->state == SN_PEER_UP;
}

static void count_flow(void *arg, const struct sn_flow_info *info)
{
    struct view *view = arg;
    (void)info; /* counted only */
    view->streams_open++;
}

/* Actors that failed too often and stay down. */
static uint32_t count_failed_actors(const struct sn_agent *agent)
{
    struct sn_actor_info info;
    uint32_t count = 0;
    for (uint32_t i = 0; sn_system_actor_info(agent->system, i, &info) == SN_OK; i++) {
        count += info.is_failed;
    }
    return count;
}

static void finish_status(struct view *view)
{
    const struct sn_agent *agent = view->agent;
    struct sn_process_info process;
    char id[SN_KEY_TEXT_BYTES + 1];
    struct sn_body *body = &view->body;
    sn_env_process_info(agent->env, &process);
    sn_key_id_format(&agent->identity.id, id);
    sn_body_map(body, 17);
    sn_body_text(body, "agent", agent->file->agent);
    sn_body_text(body, "mesh", agent->file->mesh);
    sn_body_text(body, "id", id);
    sn_body_text(body, "version", SN_VERSION);
    sn_body_uint(body, "pid", process.pid);
    sn_body_uint(body, "epoch", agent->identity.epoch);
    sn_body_uint(body, "uptime_ms", (sn_env_now_ns(agent->env) - agent->started_ns) / SN_MS);
    sn_body_key(body, "listen");
    sn_body_array(body, agent->bound_count);
    for (uint32_t i = 0; i < agent->bound_count; i++) sn_body_key(body, agent->bound[i]);
    sn_body_uint(body, "workers", sn_system_worker_count(agent->system));
    sn_body_uint(body, "peers_up", view->peers_up);
    sn_body_uint(body, "peers_known", view->peers_known);
    sn_body_uint(body, "streams_open", view->streams_open);
    sn_body_uint(body, "actors_failed", count_failed_actors(agent));
    sn_body_uint(body, "descriptors", process.descriptors);
    sn_body_uint(body, "threads", process.threads);
    sn_body_uint(body, "resident_bytes", process.resident_bytes);
    sn_body_int(body, "certificate_valid_s",
                agent->identity.cert_size == 0
                    ? INT64_MAX
                    : agent->identity.cert.not_after_s - sn_env_wall_ms(agent->env) / 1000);
}

/* --- Making -------------------------------------------------------------------------------- */

static void free_view(struct view *view)
{
    sn_body_fini(&view->body);
    sn_body_fini(&view->entries);
    sn_free(view, sizeof *view);
}

static void deliver(struct view *view)
{
    view->kind->finish(view);
    if (view->body.err == SN_OK) view->body.err = view->entries.err;
    view->done(view->arg, view->token, &view->body);
    free_view(view);
}

static void tour_done(void *arg)
{
    deliver(arg);
}

static void deliver_task(struct sn_task *task, struct sn_worker *worker)
{
    (void)worker; /* the one that asked */
    deliver(SN_CONTAINER_OF(task, struct view, task));
}

/* On home: back to the worker that asked. */
static void refused_done(void *arg)
{
    struct view *view = arg;
    view->task.run = deliver_task;
    sn_worker_post(view->worker, &view->task);
}

static void peers_done(void *arg)
{
    struct view *view = arg;
    enum sn_err err = sn_net_refused(view->agent->net, visit_refused, refused_done, view);
    if (err == SN_OK) return;
    view->body.err = err;
    deliver(view);
}

static const struct view_kind kinds[] = {
    {"status", NULL, finish_status, {count_peer, count_flow, tour_done}},
    {"peers", NULL, finish_array, {visit_peer, NULL, peers_done}},
    {"streams", NULL, finish_array, {NULL, visit_flow, tour_done}},
    {"ledger", NULL, finish_ledger, {visit_ledger, NULL, tour_done, 1}},
    {"actors", begin_actors, finish_array, {NULL, NULL, NULL}},
    {"plugins", begin_plugins, finish_array, {NULL, NULL, NULL}},
    {"metrics", begin_metrics, finish_array, {NULL, NULL, NULL}},
};

enum sn_err sn_view_make(struct sn_agent *agent, struct sn_worker *worker, const char *verb,
                         void (*done)(void *arg, uint64_t token, const struct sn_body *body),
                         void *arg, uint64_t token)
{
    const struct view_kind *kind = NULL;
    for (unsigned i = 0; i < SN_ARRAY_COUNT(kinds); i++) {
        if (strcmp(kinds[i].verb, verb) == 0) kind = &kinds[i];
    }
    if (kind == NULL) return SN_ENOENT;
    struct view *view = sn_alloc(sizeof *view);
    if (view == NULL) return SN_ENOMEM;
    *view = (struct view){
        .agent = agent, .worker = worker, .done = done, .arg = arg, .token = token, .kind = kind};
    sn_body_init(&view->body);
    sn_body_init(&view->entries);
    if (kind->begin != NULL) kind->begin(view);
    if (kind->tour.done == NULL) {
        deliver(view);
        return SN_OK;
    }
    enum sn_err err = sn_net_tour(agent->net, worker, &kind->tour, view);
    if (err != SN_OK) free_view(view);
    return err;
}
