/* SPDX-License-Identifier: Apache-2.0 */
/* The soak actor against a host made up here: each kind of damage is counted, and no refusal loses a number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/tree.h"
#include "plugin/loader.h"
#include "soak.h"

#define MESSAGES 20u

struct sent {
    uint8_t *bytes;
    uint32_t size;
    uint64_t token;
};

/* One actor and its host. */
struct side {
    struct sn_ctx ctx; /* first: host functions get its address */
    struct sn_host host;
    struct sn_config_tree *tree;
    const char *name;
    struct soak *state;
    struct sent sent[2000];
    unsigned sent_count;
    unsigned room;       /* messages that are taken before EFULL */
    enum sn_err refusal; /* of the next send, once */
    int is_control;
    int is_timer_set;
    uint64_t timer_ms;
    uint64_t timer_token;
    unsigned strangers; /* logged */
    uint64_t now_ms;
    char reply[SOAK_REPORT_BYTES_MAX + 1];
    enum sn_err result;
};

static struct side *of(struct sn_ctx *ctx)
{
    return (struct side *)(void *)ctx;
}

static const char *host_name(struct sn_ctx *ctx)
{
    return of(ctx)->name;
}

static void host_log(struct sn_ctx *ctx, uint32_t level, const char *id, const char *text)
{
    (void)level;
    (void)text;
    of(ctx)->strangers += strcmp(id, "SOAK-STRANGER") == 0;
}

static enum sn_err host_send(struct sn_ctx *ctx, const char *to, const char *type,
                             const void *payload, uint32_t size,
                             const struct sn_send_options *options)
{
    struct side *side = of(ctx);
    enum sn_err err = side->refusal;
    side->refusal = SN_OK;
    if (err == SN_OK && side->sent_count >= side->room) err = SN_EFULL;
    if (err != SN_OK) return err;
    assert_string_equal(type, SOAK_DATA);
    assert_string_equal(strchr(to, ':'), ":soak");
    side->is_control = (int)options->is_control;
    struct sent *sent = &side->sent[side->sent_count++];
    *sent = (struct sent){.bytes = malloc(size), .size = size, .token = options->token};
    memcpy(sent->bytes, payload, size);
    return SN_OK;
}

static enum sn_err host_reply(struct sn_ctx *ctx, const struct sn_event *to, const char *type,
                              const void *payload, uint32_t size)
{
    struct side *side = of(ctx);
    assert_true(to->correlation != 0);
    assert_string_equal(type, SOAK_REPORTED);
    assert_true(size < sizeof side->reply);
    memcpy(side->reply, payload, size);
    side->reply[size] = '\0';
    return SN_OK;
}

static enum sn_err host_timer(struct sn_ctx *ctx, uint64_t token, uint64_t after_ms)
{
    struct side *side = of(ctx);
    assert_false(side->is_timer_set);
    side->is_timer_set = 1;
    side->timer_ms = after_ms;
    side->timer_token = token;
    return SN_OK;
}

static uint64_t host_now_ms(struct sn_ctx *ctx)
{
    return of(ctx)->now_ms;
}

static void handle(struct side *side, struct sn_event *event)
{
    event->size = sizeof *event;
    if (event->agent == NULL) event->agent = "";
    if (event->type == NULL) event->type = "";
    side->result = sni_soak_kind.handle(&side->ctx, side->state, event);
}

static struct side *side_new(const char *name, const char *yaml)
{
    struct sn_findings findings;
    struct side *side = calloc(1, sizeof *side);
    sn_findings_init(&findings);
    side->host = (struct sn_host){.size = sizeof side->host,
                                  .agent_name = host_name,
                                  .log = host_log,
                                  .send = host_send,
                                  .reply = host_reply,
                                  .timer = host_timer,
                                  .now_ms = host_now_ms};
    side->ctx.host = &side->host;
    side->name = name;
    side->room = UINT32_MAX;
    side->state = calloc(1, sni_soak_kind.state_bytes);
    assert_int_equal(sn_config_parse(yaml, strlen(yaml), "soak.yaml", &findings, &side->tree),
                     SN_OK);
    const struct sn_config_node *root = sn_config_root(side->tree);
    assert_int_equal(sn_plugin_check_config(&sn_plugin, root, root, &findings), SN_OK);
    sn_findings_fini(&findings);
    return side;
}

static void side_start(struct side *side)
{
    struct sn_event event = {.kind = SN_EVENT_START, .config = sn_config_root(side->tree)};
    handle(side, &event);
}

static void side_free(struct side *side)
{
    for (unsigned i = 0; i < side->sent_count; i++) free(side->sent[i].bytes);
    sn_config_tree_free(side->tree);
    free(side->state);
    free(side);
}

static void fire(struct side *side)
{
    struct sn_event event = {.kind = SN_EVENT_TIMER, .token = side->timer_token};
    assert_true(side->is_timer_set);
    side->is_timer_set = 0;
    handle(side, &event);
}

static void outcome(struct side *side, enum sn_outcome kind, enum sn_reason reason)
{
    struct sn_event event = {.kind = SN_EVENT_OUTCOME, .outcome = kind, .reason = reason};
    handle(side, &event);
    assert_int_equal(side->result, SN_OK);
}

static void deliver_bytes(struct side *to, const char *from, const uint8_t *bytes, uint32_t size)
{
    struct sn_event event = {.kind = SN_EVENT_MESSAGE,
                             .agent = from,
                             .actor = "soak",
                             .type = SOAK_DATA,
                             .payload = bytes,
                             .payload_size = size};
    handle(to, &event);
    assert_int_equal(to->result, SN_OK);
}

static void deliver(const struct side *from, struct side *to, unsigned index)
{
    deliver_bytes(to, from->name, from->sent[index].bytes, from->sent[index].size);
}

static const char *report(struct side *side)
{
    struct sn_event event = {.kind = SN_EVENT_MESSAGE, .type = SOAK_REPORT, .correlation = 1};
    side->reply[0] = '\0';
    handle(side, &event);
    return side->reply;
}

/* --- Two actors ------------------------------------------------------------------------------------------------ */

struct pair {
    struct side *hub, *edge;
};

static int set_up(void **state)
{
    struct pair *pair = calloc(1, sizeof *pair);
    pair->hub = side_new("north/hub", "{peer: south/edge, messages: 20, size_max: 2000, run: 3}");
    pair->edge = side_new("south/edge", "{peer: north/hub, messages: 20, size_max: 2000, run: 3}");
    side_start(pair->hub);
    side_start(pair->edge);
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    side_free(pair->hub);
    side_free(pair->edge);
    free(pair);
    return 0;
}

static void settle_all(struct side *side)
{
    for (unsigned i = 0; i < MESSAGES; i++) outcome(side, SN_DELIVERED, SN_REASON_NONE);
}

static void all_is_sent_at_once_and_arrives(void **state)
{
    struct pair *pair = *state;
    assert_int_equal(pair->hub->sent_count, MESSAGES);
    assert_int_equal(pair->edge->sent_count, MESSAGES);
    for (unsigned i = 0; i < MESSAGES; i++) {
        assert_int_equal(pair->hub->sent[i].token, i);
        deliver(pair->hub, pair->edge, i);
        deliver(pair->edge, pair->hub, i);
    }
    settle_all(pair->edge);
    assert_string_equal(report(pair->edge),
                        "{\"sent\":20,\"outcomes\":{\"delivered\":20,\"undelivered\":{},"
                        "\"unknown\":{}},\"received\":20,\"doubled\":0,\"reordered\":0,"
                        "\"altered\":0,\"done\":true}");
    assert_non_null(strstr(report(pair->hub), "\"delivered\":0,"));
    assert_non_null(strstr(pair->hub->reply, "\"done\":false}")); /* no outcome came */
    settle_all(pair->hub);
    assert_non_null(strstr(report(pair->hub), "\"done\":true}"));
}

/* Counts as the report shows them. */
static void expect_counts(struct side *side, unsigned received, unsigned doubled,
                          unsigned reordered, unsigned altered, const char *done)
{
    char wanted[160];
    (void)snprintf(wanted, sizeof wanted,
                   "\"received\":%u,\"doubled\":%u,\"reordered\":%u,\"altered\":%u,\"done\":%s}",
                   received, doubled, reordered, altered, done);
    if (strstr(report(side), wanted) == NULL) assert_string_equal(side->reply, wanted);
}

static void a_missing_message_is_seen(void **state)
{
    struct pair *pair = *state;
    settle_all(pair->edge);
    for (unsigned i = 0; i < MESSAGES; i++) {
        if (i != 7) deliver(pair->hub, pair->edge, i);
    }
    expect_counts(pair->edge, MESSAGES - 1, 0, 0, 0, "false");
}

static void a_doubled_message_is_counted(void **state)
{
    struct pair *pair = *state;
    settle_all(pair->edge);
    for (unsigned i = 0; i < MESSAGES; i++) {
        deliver(pair->hub, pair->edge, i);
        if (i == 7 || i == 19) deliver(pair->hub, pair->edge, i);
    }
    deliver(pair->hub, pair->edge, 0); /* long after */
    expect_counts(pair->edge, MESSAGES, 3, 0, 0, "true");
}

static void a_reordered_message_is_counted(void **state)
{
    struct pair *pair = *state;
    settle_all(pair->edge);
    for (unsigned i = 0; i < MESSAGES; i++) {
        if (i != 7) deliver(pair->hub, pair->edge, i == 3 ? 4 : i == 4 ? 3 : i);
    }
    expect_counts(pair->edge, MESSAGES - 1, 0, 1, 0, "false");
    deliver(pair->hub, pair->edge, 7);
    expect_counts(pair->edge, MESSAGES, 0, 2, 0, "true");
}

static void an_altered_message_is_counted_and_does_not_count_as_received(void **state)
{
    struct pair *pair = *state;
    settle_all(pair->edge);
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct sent *sent = &pair->hub->sent[i];
        if (i == 5) sent->bytes[sent->size - 1] ^= 0x80; /* content */
        if (i == 6) sent->bytes[0] ^= 1;                 /* claims to be the one after it */
        if (i == 8) sent->bytes[8] ^= 1;                 /* another run */
        if (i == 9) sent->size--;                        /* cut */
        if (i == 10) sent->size = 3;                     /* not even a head */
        if (i == 11) sent->bytes[7] = 0xff;              /* a number beyond all */
        deliver(pair->hub, pair->edge, i);
    }
    expect_counts(pair->edge, MESSAGES - 6, 0, 0, 6, "false");
}

static void a_message_of_somebody_else_counts_as_altered(void **state)
{
    struct pair *pair = *state;
    struct sn_event event = {.kind = SN_EVENT_MESSAGE, .agent = "north/hub", .type = "soak.other"};
    deliver_bytes(pair->edge, "west/stranger", pair->hub->sent[0].bytes, pair->hub->sent[0].size);
    handle(pair->edge, &event);
    deliver(pair->edge, pair->edge, 0); /* its own */
    assert_int_equal(pair->edge->strangers, 3);
    expect_counts(pair->edge, 0, 0, 0, 3, "false");
}

static void only_its_own_agent_gets_a_report(void **state)
{
    struct pair *pair = *state;
    struct sn_event event = {
        .kind = SN_EVENT_MESSAGE, .agent = "north/hub", .type = SOAK_REPORT, .correlation = 9};
    handle(pair->edge, &event);
    assert_string_equal(pair->edge->reply, "");
    struct sn_event silent = {.kind = SN_EVENT_MESSAGE, .type = SOAK_REPORT};
    handle(pair->edge, &silent); /* asks for nothing */
    assert_string_equal(pair->edge->reply, "");
    assert_int_equal(pair->edge->result, SN_OK);
}

static void outcomes_are_counted_by_reason(void **state)
{
    struct pair *pair = *state;
    outcome(pair->hub, SN_DELIVERED, SN_REASON_NONE);
    outcome(pair->hub, SN_UNDELIVERED, SN_REASON_MAILBOX_FULL);
    outcome(pair->hub, SN_UNDELIVERED, SN_REASON_MAILBOX_FULL);
    outcome(pair->hub, SN_UNDELIVERED, SN_REASON_DENIED);
    outcome(pair->hub, SN_UNKNOWN, SN_REASON_DEADLINE);
    outcome(pair->hub, SN_UNKNOWN, (enum sn_reason)78); /* of a newer host */
    assert_non_null(
        strstr(report(pair->hub),
               "{\"sent\":20,\"outcomes\":{\"delivered\":1,\"undelivered\":{\"denied\":1,"
               "\"mailbox-full\":2},\"unknown\":{\"none\":1,\"deadline\":1}}"));
}

/* --- One actor ------------------------------------------------------------------------------------------------- */

static void expect_all_sent(const struct side *side, unsigned count)
{
    assert_int_equal(side->result, SN_OK);
    assert_int_equal(side->sent_count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(side->sent[i].token, i);
        assert_int_equal(side->sent[i].bytes[0] | side->sent[i].bytes[1] << 8, i);
    }
}

static void a_full_queue_goes_on_with_outcomes_and_with_time(void **state)
{
    (void)state;
    struct side *side = side_new("a/b", "{peer: c/d, messages: 30, size_max: 100}");
    side->room = 10;
    side_start(side);
    expect_all_sent(side, 10);
    assert_true(side->is_timer_set);
    side->room = 12;
    outcome(side, SN_DELIVERED, SN_REASON_NONE);
    expect_all_sent(side, 12);
    side->room = 13;
    fire(side);
    expect_all_sent(side, 13);
    assert_true(side->is_timer_set);
    side->room = 100;
    fire(side);
    expect_all_sent(side, 30);
    assert_false(side->is_timer_set);
    side_free(side);
}

static void an_unknown_peer_is_tried_again(void **state)
{
    (void)state;
    struct side *side = side_new("a/b", "{peer: c/d, messages: 3, class: control}");
    side->refusal = SN_ENOENT;
    side_start(side);
    expect_all_sent(side, 0);
    fire(side);
    expect_all_sent(side, 3);
    assert_true(side->is_control);
    side_free(side);
}

static void any_other_refusal_fails_the_actor(void **state)
{
    (void)state;
    struct side *side = side_new("a/b", "{peer: c/d, messages: 3}");
    side->refusal = SN_ENOMEM;
    side_start(side);
    assert_int_equal(side->result, SN_ENOMEM);
    side_free(side);
}

/* A large load is sent in turns, and a stop ends it. */
static void a_turn_is_bounded(void **state)
{
    (void)state;
    struct side *side =
        side_new("a/b", "{peer: c/d, messages: 20, size_min: 196608, size_max: 196608}");
    side_start(side);
    expect_all_sent(side, 6);
    assert_int_equal(side->timer_ms, 0);
    fire(side);
    expect_all_sent(side, 12);
    struct sn_event stop = {.kind = SN_EVENT_STOP};
    handle(side, &stop);
    fire(side);
    expect_all_sent(side, 12);
    side_free(side);
}

/* Number n is due n / per_second after the start; what a full queue held up is made good at once. */
static void a_pace_is_kept_and_made_good(void **state)
{
    (void)state;
    struct side *side = side_new("a/b", "{peer: c/d, messages: 20, size_max: 99, per_second: 4}");
    side->now_ms = 1000;
    side_start(side);
    expect_all_sent(side, 1);
    assert_int_equal(side->timer_ms, 250);
    outcome(side, SN_DELIVERED, SN_REASON_NONE); /* nothing is due */
    expect_all_sent(side, 1);
    side->now_ms = 1249;
    fire(side);
    expect_all_sent(side, 1);
    assert_int_equal(side->timer_ms, 1);
    side->now_ms = 1250;
    fire(side);
    expect_all_sent(side, 2);
    side->room = 3;
    side->now_ms = 2500;
    fire(side);
    expect_all_sent(side, 3);
    side->room = 100;
    fire(side);
    expect_all_sent(side, 7);
    assert_int_equal(side->timer_ms, 250);
    side->now_ms = 1000000;
    fire(side);
    expect_all_sent(side, 20);
    assert_false(side->is_timer_set);
    side_free(side);
}

/* Events of kinds that it never asked for do no harm. */
static void other_events_are_ignored(void **state)
{
    struct pair *pair = *state;
    for (uint32_t kind = SN_EVENT_REPLY; kind <= SN_EVENT_KIND_COUNT; kind++) {
        struct sn_event event = {.kind = kind};
        if (kind == SN_EVENT_TIMER) continue;
        handle(pair->hub, &event);
        assert_int_equal(pair->hub->result, SN_OK);
    }
}

/* --- Declarations ------------------------------------------------------------------------------------------------ */

static void the_descriptor_is_good(void **state)
{
    (void)state;
    char error[SN_PLUGIN_ERROR_MAX] = "";
    assert_int_equal(sn_plugin_verify(&sn_plugin, "soak", error), SN_OK);
    assert_string_equal(error, "");
}

static void expect_finding(const char *yaml, const char *wanted)
{
    struct sn_findings findings;
    struct sn_config_tree *tree = NULL;
    char line[1024];
    sn_findings_init(&findings);
    assert_int_equal(sn_config_parse(yaml, strlen(yaml), "s.yaml", &findings, &tree), SN_OK);
    const struct sn_config_node *root = sn_config_root(tree);
    assert_int_equal(sn_plugin_check_config(&sn_plugin, root, root, &findings), SN_EINVAL);
    assert_int_equal(findings.total, 1);
    sn_finding_format(findings.items[0], line, sizeof line);
    assert_non_null(strstr(line, wanted));
    sn_findings_fini(&findings);
    sn_config_tree_free(tree);
}

static void bad_configurations_are_refused(void **state)
{
    (void)state;
    expect_finding("peer: a/b\nsize_min: 100\nsize_max: 99\n", "s.yaml:3:11: size_max: is less");
    expect_finding("peer: a/b\nsize_min: 65537\n", "is less than `size_min`");
    expect_finding("peer: a/b\nmessages: 60001\n", "s.yaml:2:11: messages");
    expect_finding("peer: a/b\nsize_min: 15\n", "s.yaml:2:11: size_min");
    expect_finding("peer: a/b\nper_second: 100001\n", "s.yaml:2:13: per_second");
    expect_finding("messages: 1\n", "required key `peer` is missing");
    expect_finding("peer: a/b\nmesages: 1\n", "did you mean `messages`?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_is_sent_at_once_and_arrives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_message_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_doubled_message_is_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reordered_message_is_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            an_altered_message_is_counted_and_does_not_count_as_received, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_of_somebody_else_counts_as_altered, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_its_own_agent_gets_a_report, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outcomes_are_counted_by_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_events_are_ignored, set_up, tear_down),
        cmocka_unit_test(a_full_queue_goes_on_with_outcomes_and_with_time),
        cmocka_unit_test(an_unknown_peer_is_tried_again),
        cmocka_unit_test(any_other_refusal_fails_the_actor),
        cmocka_unit_test(a_turn_is_bounded),
        cmocka_unit_test(a_pace_is_kept_and_made_good),
        cmocka_unit_test(the_descriptor_is_good),
        cmocka_unit_test(bad_configurations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
