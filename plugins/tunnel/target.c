/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: only agents that a target's allow: list names reach its address; a service that is
 * late is waited for as long as connect_wait_ms says, no client waits for the dial of another one, and
 * no agent, nor a service that does not answer, takes more places than the limits give it; what the
 * configuration takes away ends at once, and nothing else does.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tunnel.h"

#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 1000u
/* A packet that was lost is sent again sooner by a new dial than by the system. */
#define DIAL_MAX_MS  3000u
#define DIALS_A_TICK 256u /* bounds the time of one handler call */
/* The part of its places that a target which does not answer may keep for those who wait. */
#define WAITING_DIVISOR 4u

static struct target *target_at(struct tunnel *t, uint32_t index)
{
    return sni_tunnel_pool_at(&t->targets, index);
}

/* An agent has few targets, so looking through them costs less than what a stream costs anyway. */
static struct target *find_target(struct tunnel *t, const uint8_t *name, uint32_t size)
{
    for (uint32_t i = 0; i < t->targets.count; i++) {
        struct target *target = target_at(t, i);
        if (target->state != TARGET_LISTED) continue;
        if (strlen(target->name) == size && memcmp(target->name, name, size) == 0) return target;
    }
    return NULL;
}

static int is_allowed(struct sn_ctx *ctx, const struct target *target, const char *agent)
{
    for (uint32_t i = 0; i < sn_config_count(target->allow); i++) {
        const char *pattern = sn_config_text(sn_config_at(target->allow, i), "");
        if (sn_agent_matches(ctx, agent, pattern)) return 1;
    }
    return 0;
}

static void give_up(struct sn_ctx *ctx, struct tunnel *t, struct flow *flow, enum sn_err to_client,
                    enum sn_err cause)
{
    struct target *target = flow->target;
    sn_stream_reset(ctx, flow->stream, to_client);
    sni_tunnel_count_failed(ctx, &target->counts, cause);
    sn_log(ctx, SN_WARN, "TUNNEL-TARGET-FAILED", "target=%s address=%s err=%s text=\"%s\"",
           target->name, target->address, sn_err_name(cause), sn_err_text(cause));
    sni_tunnel_flow_free(t, flow);
}

static uint32_t waiting_max(const struct target *target)
{
    uint32_t most = target->max_connections / WAITING_DIVISOR;
    return most > 0 ? most : 1;
}

/* A client gets no place. `limit` is what it ran into. */
static void refuse(struct sn_ctx *ctx, struct target *target, struct sn_stream_ref stream,
                   const char *agent, enum refusal cause)
{
    static const char *const names[] = {[REFUSAL_CONNECTIONS] = "max_connections",
                                        [REFUSAL_PER_AGENT] = "max_per_agent",
                                        [REFUSAL_WAITING] = "waiting"};
    const uint32_t limits[] = {[REFUSAL_CONNECTIONS] = target->max_connections,
                               [REFUSAL_PER_AGENT] = target->max_per_agent,
                               [REFUSAL_WAITING] = waiting_max(target)};
    sn_stream_reset(ctx, stream, cause == REFUSAL_WAITING ? SN_EUNREACHABLE : SN_EFULL);
    if (!sni_tunnel_count_refused(ctx, &target->counts, cause)) return;
    sn_log(ctx, SN_WARN, "TARGET-FULL", "target=%s agent=%s limit=%s value=%u", target->name, agent,
           names[cause], limits[cause]);
}

static void retry_later(struct sn_ctx *ctx, struct tunnel *t, struct flow *flow, enum sn_err err)
{
    struct target *target = flow->target;
    uint64_t now = sn_now_ms(ctx);
    target->is_silent = 1;
    target->counts.last_err = (uint32_t)err;
    /* A burst of clients may dial all at once, but not wait all together. */
    if (!t->is_stopping && now < flow->deadline_ms && target->pending > waiting_max(target)) {
        refuse(ctx, target, flow->stream, flow->guest->agent, REFUSAL_WAITING);
        sni_tunnel_flow_free(t, flow);
        return;
    }
    if (t->is_stopping || now >= flow->deadline_ms) {
        give_up(ctx, t, flow, t->is_stopping ? SN_ECANCELLED : SN_EUNREACHABLE, err);
        return;
    }
    uint64_t left = flow->deadline_ms - now;
    uint32_t delay = flow->delay_ms * 2;
    if (delay < RETRY_MIN_MS) delay = RETRY_MIN_MS;
    if (delay > RETRY_MAX_MS) delay = RETRY_MAX_MS;
    flow->delay_ms = delay;
    /* The last dial is made when the time is over, however long the delay has become. */
    flow->retry_at_ms = now + (delay < left ? delay : left);
    sni_tunnel_flow_wait(t, flow);
}

/* Starts a dial, or lets the flow wait for the next one, or gives it up. */
static void dial(struct sn_ctx *ctx, struct tunnel *t, struct flow *flow)
{
    uint64_t now = sn_now_ms(ctx);
    uint64_t left = flow->deadline_ms > now ? flow->deadline_ms - now : 0;
    /* The first dial gets its time also where nothing may be waited for; the last one is short. */
    uint64_t timeout = flow->delay_ms > 0 && left < DIAL_MAX_MS ? left : DIAL_MAX_MS;
    if (timeout < RETRY_MIN_MS) timeout = RETRY_MIN_MS;
    flow->state = FLOW_DIALING;
    enum sn_err err = sn_dial(ctx, flow->target->address, timeout, sni_tunnel_flow_token(flow));
    if (err != SN_OK) retry_later(ctx, t, flow, err);
}

/* Bytes of a peer: only what can be a name is worth a place in the log. */
static int is_printable_name(const uint8_t *name, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        if (name[i] <= 0x20 || name[i] >= 0x7f || name[i] == '"') return 0;
    }
    return size > 0 && size <= SN_LABEL_BYTES_MAX;
}

static void refuse_unknown(struct sn_ctx *ctx, const struct sn_event *event)
{
    int is_printable = is_printable_name(event->payload, event->payload_size);
    sn_metric_add(ctx, METRIC_DENIED, 1);
    sn_log(ctx, SN_WARN, "TUNNEL-TARGET-UNKNOWN", "agent=%s target=%.*s", event->agent,
           is_printable ? (int)event->payload_size : 1,
           is_printable ? (const char *)event->payload : "?");
    sn_stream_reset(ctx, event->stream, SN_ENOENT);
}

/* --- Guests ---------------------------------------------------------------------------------------
 */

static struct guest *find_guest(const struct target *target, const char *agent)
{
    struct guest *guest = target->guests;
    while (guest != NULL && strcmp(guest->agent, agent) != 0) guest = guest->next;
    return guest;
}

static enum sn_err new_guest(struct tunnel *t, struct target *target, const char *agent,
                             struct guest **out_guest)
{
    struct guest *guest = t->free_guests;
    if (guest != NULL) {
        t->free_guests = guest->next;
    } else {
        void *entry = NULL;
        enum sn_err err = sni_tunnel_pool_add(&t->guests, &entry);
        if (err != SN_OK) return err;
        guest = entry;
    }
    *guest = (struct guest){.target = target, .next = target->guests};
    (void)snprintf(guest->agent, sizeof guest->agent, "%s", agent); /* the host bounds names */
    target->guests = guest;
    *out_guest = guest;
    return SN_OK;
}

static void free_target(struct tunnel *t, struct target *target)
{
    sni_tunnel_counts_fini(&target->counts);
    *target = (struct target){0};
    t->free_targets++;
}

void sni_tunnel_guest_left(struct tunnel *t, struct guest *guest)
{
    struct target *target = guest->target;
    guest->flows--;
    if (guest->flows > 0) return;
    struct guest **at = &target->guests;
    while (*at != guest) at = &(*at)->next;
    *at = guest->next;
    *guest = (struct guest){.next = t->free_guests};
    t->free_guests = guest;
    if (target->state == TARGET_REMOVED && target->guests == NULL) free_target(t, target);
}

/* --- Clients --------------------------------------------------------------------------------------
 */

/* Nonzero when there is no place for one more. */
static int is_full(const struct target *target, const char *agent, enum refusal *out_cause)
{
    const struct guest *guest = find_guest(target, agent);
    if (target->pending + target->counts.open >= target->max_connections) {
        *out_cause = REFUSAL_CONNECTIONS;
        return 1;
    }
    if (guest != NULL && guest->flows >= target->max_per_agent) {
        *out_cause = REFUSAL_PER_AGENT;
        return 1;
    }
    *out_cause = REFUSAL_WAITING;
    return target->is_silent && target->pending >= waiting_max(target);
}

static enum sn_err new_flow(struct tunnel *t, struct target *target, const struct sn_event *event,
                            struct flow **out_flow)
{
    struct flow *flow = NULL;
    struct guest *guest = find_guest(target, event->agent);
    enum sn_err err = sni_tunnel_flow_new(t, &flow);
    if (err != SN_OK) return err;
    if (guest == NULL) err = new_guest(t, target, event->agent, &guest);
    if (err != SN_OK) {
        sni_tunnel_flow_free(t, flow);
        return err;
    }
    guest->flows++;
    target->pending++;
    flow->state = FLOW_DIALING;
    flow->target = target;
    flow->guest = guest;
    sni_tunnel_flow_name(t, flow, event->stream);
    *out_flow = flow;
    return SN_OK;
}

void sni_tunnel_asked(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    struct target *target = find_target(t, event->payload, event->payload_size);
    if (target == NULL) {
        refuse_unknown(ctx, event);
        return;
    }
    if (!is_allowed(ctx, target, event->agent)) {
        sni_tunnel_count_denied(ctx, &target->counts);
        sn_log(ctx, SN_WARN, "TUNNEL-DENIED", "agent=%s target=%s", event->agent, target->name);
        sn_stream_reset(ctx, event->stream, SN_EDENIED);
        return;
    }
    enum refusal cause;
    if (!t->is_stopping && is_full(target, event->agent, &cause)) {
        refuse(ctx, target, event->stream, event->agent, cause);
        return;
    }
    struct flow *flow = NULL;
    enum sn_err err = t->is_stopping ? SN_ECANCELLED : new_flow(t, target, event, &flow);
    if (err != SN_OK) {
        sni_tunnel_count_failed(ctx, &target->counts, err);
        sn_log(ctx, SN_WARN, "TUNNEL-REFUSED", "agent=%s target=%s err=%s", event->agent,
               target->name, sn_err_name(err));
        sn_stream_reset(ctx, event->stream, err);
        return;
    }
    target->counts.refusing = 0;
    flow->deadline_ms = sn_now_ms(ctx) + target->connect_wait_ms;
    dial(ctx, t, flow);
}

/* On failure the connection is still the caller's. */
static enum sn_err join(struct sn_ctx *ctx, struct flow *flow, struct sn_conn_ref conn)
{
    enum sn_err err = sn_stream_accept(ctx, flow->stream, sni_tunnel_flow_token(flow));
    if (err == SN_OK) err = sni_tunnel_flow_tune(ctx, flow);
    if (err != SN_OK) return err;
    return sn_stream_splice(ctx, flow->stream, conn);
}

void sni_tunnel_dialed(struct sn_ctx *ctx, struct tunnel *t, const struct sn_event *event)
{
    struct flow *flow = sni_tunnel_flow_find(t, event->token);
    if (flow == NULL || flow->state != FLOW_DIALING) {
        /* The client went away meanwhile. */
        if (event->conn.id != 0) sn_conn_close(ctx, event->conn, 1);
        return;
    }
    if (event->err != SN_OK) {
        retry_later(ctx, t, flow, (enum sn_err)event->err);
        return;
    }
    flow->target->is_silent = 0;
    enum sn_err err = join(ctx, flow, event->conn);
    if (err == SN_OK) {
        sni_tunnel_flow_up(ctx, t, flow);
        return;
    }
    sn_conn_close(ctx, event->conn, 1);
    give_up(ctx, t, flow, err, err);
}

void sni_tunnel_dial_tick(struct sn_ctx *ctx, struct tunnel *t)
{
    uint64_t now = sn_now_ms(ctx);
    struct flow *flow = t->waiting;
    struct flow *last = flow == NULL ? NULL : flow->previous;
    uint32_t dials = 0;
    int is_last = flow == NULL;
    while (!is_last && dials < DIALS_A_TICK) {
        struct flow *next = flow->next;
        is_last = flow == last;
        if (flow->retry_at_ms <= now) {
            sni_tunnel_flow_wake(t, flow);
            sn_metric_add(ctx, METRIC_DIAL_RETRIES, 1);
            dials++;
            dial(ctx, t, flow); /* may put it behind `last` */
        }
        flow = next;
    }
}

void sni_tunnel_targets_stop(struct sn_ctx *ctx, struct tunnel *t)
{
    /* Dials under way may still succeed: those clients were asked for before. */
    while (t->waiting != NULL) {
        give_up(ctx, t, t->waiting, SN_ECANCELLED, SN_ECANCELLED);
    }
}

/* --- Configuration --------------------------------------------------------------------------------
 */

/* Of the `known` first entries, most likely the one at `index`. */
static struct target *find_known(struct tunnel *t, const char *name, uint32_t index, uint32_t known)
{
    for (uint32_t i = 0; i <= known; i++) {
        uint32_t at = i == 0 ? index : i - 1;
        if (at >= known) continue;
        struct target *target = target_at(t, at);
        if (target->state != TARGET_FREE && strcmp(target->name, name) == 0) return target;
    }
    return NULL;
}

static enum sn_err new_target(struct tunnel *t, struct target **out_target)
{
    void *entry = NULL;
    struct target *target = NULL;
    for (uint32_t i = 0; t->free_targets > 0 && i < t->targets.count; i++) {
        target = target_at(t, i);
        if (target->state == TARGET_FREE) break;
    }
    if (t->free_targets == 0) {
        enum sn_err err = sni_tunnel_pool_add(&t->targets, &entry);
        if (err != SN_OK) return err;
        target = entry;
        t->free_targets++;
    }
    enum sn_err err = sni_tunnel_counts_init(&target->counts);
    if (err != SN_OK) return err;
    t->free_targets--;
    *out_target = target;
    return SN_OK;
}

static enum sn_err set_target(struct tunnel *t, const struct sn_config_node *targets,
                              uint32_t index, uint32_t known)
{
    const struct sn_config_field *fields = sni_tunnel_target_fields;
    const struct sn_config_node *node = sn_config_at(targets, index);
    const char *name = sn_config_key_at(targets, index);
    const char *address = sn_config_get_text(node, fields, "address");
    struct target *target = find_known(t, name, index, known);
    if (target == NULL) {
        enum sn_err err = new_target(t, &target);
        if (err != SN_OK) return err;
        (void)snprintf(target->name, sizeof target->name, "%s", name); /* a label fits */
        target->address = "";
    }
    if (strcmp(target->address, address) != 0) target->is_silent = 0; /* it was another one */
    target->state = TARGET_LISTED;
    target->address = address;
    target->allow = sn_config_get(node, "allow");
    target->connect_wait_ms = (uint64_t)sn_config_get_int(node, fields, "connect_wait_ms");
    target->idle_ms = (uint64_t)sn_config_get_int(node, fields, "idle_ms");
    target->max_connections = (uint32_t)sn_config_get_int(node, fields, "max_connections");
    target->max_per_agent = (uint32_t)sn_config_get_int(node, fields, "max_per_agent");
    target->is_present = 1;
    return SN_OK;
}

/* Nothing of the former configuration is left in it. Without guests it is free at once. */
static void remove_absent(struct sn_ctx *ctx, struct tunnel *t)
{
    for (uint32_t i = 0; i < t->targets.count; i++) {
        struct target *target = target_at(t, i);
        int is_present = target->is_present;
        target->is_present = 0;
        if (is_present || target->state != TARGET_LISTED) continue;
        sn_log(ctx, SN_INFO, "TARGET-REMOVED", "target=%s open=%u", target->name,
               target->counts.open);
        target->state = TARGET_REMOVED;
        target->address = "";
        target->allow = NULL;
        if (target->guests == NULL) free_target(t, target);
    }
}

/* Marks the guests that may not stay; returns how many of their flows there are. */
static uint32_t bar_guests(struct sn_ctx *ctx, struct target *target)
{
    uint32_t flows = 0;
    for (struct guest *guest = target->guests; guest != NULL; guest = guest->next) {
        guest->barred = SN_OK;
        if (target->state == TARGET_REMOVED) {
            guest->barred = SN_ENOENT;
        } else if (!is_allowed(ctx, target, guest->agent)) {
            guest->barred = SN_EDENIED;
            sn_log(ctx, SN_INFO, "TARGET-CLOSED-TO", "target=%s agent=%s tunnels=%u", target->name,
                   guest->agent, guest->flows);
        }
        if (guest->barred != SN_OK) flows += guest->flows;
    }
    return flows;
}

static void end_barred(struct sn_ctx *ctx, struct tunnel *t, struct flow *flow)
{
    enum sn_err err = (enum sn_err)flow->guest->barred;
    if (err == SN_OK || flow->is_ending) return;
    sn_stream_reset(ctx, flow->stream, err);
    if (flow->state == FLOW_UP) {
        flow->is_ending = 1; /* STREAM_DOWN counts it, with its bytes */
        return;
    }
    sni_tunnel_count_failed(ctx, &flow->target->counts, err);
    sni_tunnel_flow_free(t, flow);
}

enum sn_err sni_tunnel_targets_set(struct sn_ctx *ctx, struct tunnel *t,
                                   const struct sn_config_node *config)
{
    const struct sn_config_node *targets = sn_config_get(config, "targets");
    uint32_t known = t->targets.count;
    uint32_t barred = 0;
    enum sn_err first = SN_OK;
    for (uint32_t i = 0; i < sn_config_count(targets); i++) {
        enum sn_err err = set_target(t, targets, i, known);
        if (err == SN_OK) continue;
        first = err;
        sn_log(ctx, SN_ERROR, "TARGET-NOT-ADDED", "target=%s err=%s", sn_config_key_at(targets, i),
               sn_err_name(err));
    }
    remove_absent(ctx, t);
    for (uint32_t i = 0; i < known; i++) barred += bar_guests(ctx, target_at(t, i));
    for (uint32_t i = 0; barred > 0 && i < t->flows.count; i++) {
        struct flow *flow = sni_tunnel_pool_at(&t->flows, i);
        if (flow->guest != NULL) end_barred(ctx, t, flow);
    }
    return first;
}
