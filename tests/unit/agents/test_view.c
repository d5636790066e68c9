/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about a running agent, against a thread that plays one with prepared answers. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "agents/body.h"
#include "base/alloc.h"
#include "base/text.h"
#include "commands.h"

#define KEY         "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define SOCKET      "agent/run/control.sock"
#define CONFIG      "-c agent/agent.yaml"
#define REPLIES_MAX 8u

/* What one call to the agent is answered with. */
struct answer {
    enum sn_err err;
    const char *text;
    const char *payload; /* of an `ask`; NULL: as asked */
    int is_view;
    int is_rows; /* of peers */
    int hangs_up;
};

struct player {
    pthread_t thread;
    int listener;
    struct answer answers[REPLIES_MAX];
    unsigned count;
    struct sn_control_request seen; /* the last one */
};

static int read_whole(int fd, uint8_t *out, size_t size)
{
    while (size > 0) {
        ssize_t got = read(fd, out, size);
        if (got <= 0) return 0;
        out += got;
        size -= (size_t)got;
    }
    return 1;
}

static void send_body(int fd, const struct sn_body *body)
{
    size_t size = body->pack.size;
    uint8_t prefix[4] = {(uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8),
                         (uint8_t)size};
    assert_int_equal(write(fd, prefix, 4), 4);
    assert_int_equal(write(fd, body->pack.data, size), size);
}

static void add_rows(struct sn_body *body)
{
    sn_body_array(body, 2);
    sn_body_map(body, 5);
    sn_body_text(body, "agent", "c/d");
    sn_body_text(body, "error", "timed-out");
    sn_body_uint(body, "rtt_us", 250);
    sn_body_key(body, "last_undelivered");
    sn_body_map(body, 1);
    sn_body_text(body, "agent", "nobody");
    sn_body_text(body, "dialed", "127.0.0.1:1");
    sn_body_map(body, 3);
    sn_body_text(body, "error", "expired");
    sn_body_text(body, "agent", "c/e");
    sn_body_uint(body, "count", 7);
}

static void reply(int fd, const struct answer *answer, const struct sn_control_request *request)
{
    struct sn_body body;
    sn_body_init(&body);
    sn_body_map(&body, 3);
    sn_body_uint(&body, "err", answer->err);
    sn_body_text(&body, "text", answer->text == NULL ? "" : answer->text);
    sn_body_key(&body, "body");
    if (answer->is_rows) {
        add_rows(&body);
    } else if (answer->is_view) {
        sn_body_map(&body, 2);
        sn_body_text(&body, "verb", request->verb);
        sn_body_uint(&body, "uptime_ms", 1500);
    } else {
        const void *payload = answer->payload != NULL ? (const void *)answer->payload
                                                      : (const void *)request->payload;
        size_t size = answer->payload != NULL ? strlen(answer->payload) : request->payload_size;
        sn_body_map(&body, 3);
        sn_body_text(&body, "type", "some.answer");
        sn_body_uint(&body, "us", 250);
        sn_body_key(&body, "payload");
        sn_body_need(&body, size + 16);
        sn_pack_bin(&body.pack, payload, size);
    }
    send_body(fd, &body);
    sn_body_fini(&body);
}

static void *play(void *arg)
{
    struct player *player = arg;
    int fd = accept(player->listener, NULL, NULL);
    for (unsigned i = 0; i < player->count; i++) {
        uint8_t prefix[4];
        uint8_t bytes[1024];
        if (!read_whole(fd, prefix, 4)) break;
        size_t size = (size_t)prefix[2] << 8 | prefix[3];
        if (size > sizeof bytes || !read_whole(fd, bytes, size)) break;
        if (sn_control_request_parse(bytes, size, &player->seen) != SN_OK) break;
        if (player->answers[i].hangs_up) break;
        reply(fd, &player->answers[i], &player->seen);
    }
    close(fd);
    return NULL;
}

static void begin_play(struct player *player, const struct answer *answers, unsigned count)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = SOCKET};
    memset(player, 0, sizeof *player);
    memcpy(player->answers, answers, count * sizeof *answers);
    player->count = count;
    player->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(player->listener >= 0);
    (void)unlink(SOCKET);
    assert_int_equal(bind(player->listener, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(player->listener, 1), 0);
    assert_int_equal(pthread_create(&player->thread, NULL, play, player), 0);
}

static void end_play(struct player *player)
{
    assert_int_equal(pthread_join(player->thread, NULL), 0);
    close(player->listener);
}

/* Runs a command against the answers. Returns its exit status. */
static int run_against(int (*command)(struct sn_cli *cli), const char *name, const char *args,
                       const struct answer *answers, unsigned count, struct player *player)
{
    size_t in_use = sn_alloc_in_use();
    begin_play(player, answers, count);
    int status = run_command(command, name, args);
    end_play(player);
    assert_int_equal(sn_alloc_in_use(), in_use);
    return status;
}

static int begin(void **state)
{
    if (commands_begin(state) != 0 || mkdir("agent", 0700) != 0 || mkdir("agent/run", 0700) != 0) {
        return -1;
    }
    write_file("agent/agent.yaml", 0644,
               "mesh: m\nagent: a/b\nauthority: [\"" KEY "\"]\nkey: node.key\n"
               "certificate: agent.cert\n");
    return 0;
}

static void views_ask_for_their_name(void **state)
{
    static const char *const verbs[] = {"status", "peers",  "streams",
                                        "actors", "ledger", "metrics"};
    const struct answer answer = {.is_view = 1};
    struct player player;
    char json[128];
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(run_against(sn_cmd_view, verbs[i], CONFIG " --json", &answer, 1, &player),
                         SN_EXIT_OK);
        assert_string_equal(player.seen.verb, verbs[i]);
        struct sn_text text;
        sn_text_init(&text, json, sizeof json);
        sn_text_add(&text, "{\"verb\":\"%s\",\"uptime_ms\":1500}\n", verbs[i]);
        assert_string_equal(caught_out, json);
    }
    assert_int_equal(run_against(sn_cmd_view, "peers", CONFIG, &answer, 1, &player), SN_EXIT_OK);
    assert_string_equal(caught_out, "verb:   peers\nuptime: 1.5s\n");
}

static void the_table_of_peers_leaves_details_to_json(void **state)
{
    const struct answer answer = {.is_rows = 1};
    struct player player;
    (void)state;
    assert_int_equal(run_against(sn_cmd_view, "peers", CONFIG, &answer, 1, &player), SN_EXIT_OK);
    assert_string_equal(caught_out,
                        "agent    rtt  count\nc/d    250us      -\nc/e        -      7\n");
    assert_int_equal(run_against(sn_cmd_view, "peers", CONFIG " --json", &answer, 1, &player),
                     SN_EXIT_OK);
    assert_string_equal(caught_out, "[{\"agent\":\"c/d\",\"error\":\"timed-out\",\"rtt_us\":250,"
                                    "\"last_undelivered\":{\"agent\":\"nobody\"},\"dialed\":"
                                    "\"127.0.0.1:1\"},{\"error\":\"expired\",\"agent\":\"c/e\","
                                    "\"count\":7}]\n");
}

static void why_needs_views_that_it_can_read(void **state)
{
    const struct answer strange[] = {{.is_view = 1}, {.err = SN_ENOENT}, {.is_view = 1}};
    const struct answer cut[] = {{.is_view = 1}, {.hangs_up = 1}};
    const struct answer good[] = {{.is_view = 1}, {.err = SN_ENOENT}, {.is_rows = 1}};
    struct player player;
    (void)state;
    assert_int_equal(run_against(sn_cmd_why, "why", CONFIG " c/d", strange, 3, &player),
                     SN_EXIT_FAILED);
    expect_part(caught_err, "cannot be read");
    assert_int_equal(run_against(sn_cmd_why, "why", CONFIG " c/d", cut, 2, &player),
                     SN_EXIT_UNREACHABLE);
    assert_int_equal(run_against(sn_cmd_why, "why", CONFIG " c/f --json", good, 3, &player),
                     SN_EXIT_USAGE);
    assert_string_equal(player.seen.verb, "peers");
    expect_part(caught_out,
                "{\"agent\":\"c/f\",\"state\":\"unknown\",\"cause\":\"no-such-agent\",");
    assert_int_equal(run_against(sn_cmd_why, "why", CONFIG " c/d", good, 3, &player),
                     SN_EXIT_FAILED);
    expect_part(caught_out, "\ncause:");
}

static void agents_that_cannot_be_reached(void **state)
{
    const struct answer refusal = {.err = SN_EFULL, .text = "too much"};
    const struct answer cut = {.hangs_up = 1};
    struct player player;
    (void)state;
    (void)unlink(SOCKET);
    assert_int_equal(run_command(sn_cmd_view, "status", CONFIG), SN_EXIT_UNREACHABLE);
    assert_string_equal(caught_err,
                        "sennit status: no agent answers at agent/run/control.sock; start it with: "
                        "sennit agent -c agent/agent.yaml\n");
    assert_int_equal(run_command(sn_cmd_ping, "ping", CONFIG " a/b"), SN_EXIT_UNREACHABLE);
    assert_int_equal(run_command(sn_cmd_forwards, "forwards", CONFIG), SN_EXIT_UNREACHABLE);
    assert_int_equal(run_command(sn_cmd_view, "status", "-c agent/none.yaml"), SN_EXIT_USAGE);
    assert_int_equal(run_command(sn_cmd_view, "status", ""), SN_EXIT_USAGE);
    expect_part(caught_err, "agent.yaml: there is no such file");
    write_file("agent/bad.yaml", 0644, "mesh: m\nagent: a/b\ncolour: red\n");
    assert_int_equal(run_command(sn_cmd_view, "status", "-c agent/bad.yaml"), SN_EXIT_USAGE);
    expect_part(caught_err, "agent/bad.yaml:3:1: colour: ");
    write_file("agent/fleet.yaml", 0644, "mesh: m\nauthority: a.key\nsites:\n  a: {b: {}}\n");
    assert_int_equal(run_command(sn_cmd_view, "status", "-c agent/fleet.yaml"), SN_EXIT_USAGE);
    assert_string_equal(caught_err,
                        "agent/fleet.yaml:1:1: .: this is a fleet file, not an agent's; render it "
                        "first (sennit render FLEET.yaml --out DIR), and name "
                        "DIR/SITE/AGENT/agent.yaml\n");
    assert_int_equal(run_command(sn_cmd_view, "status", CONFIG " word"), SN_EXIT_USAGE);
    assert_int_equal(run_against(sn_cmd_view, "status", CONFIG, &refusal, 1, &player),
                     SN_EXIT_FAILED);
    assert_string_equal(caught_err, "sennit status: too much\n");
    assert_int_equal(run_against(sn_cmd_view, "status", CONFIG, &cut, 1, &player),
                     SN_EXIT_UNREACHABLE);
    expect_part(caught_err, "the agent hung up");
}

static void forwards_ask_the_tunnel_plugin(void **state)
{
    static const char json[] = "{\"forwards\":[{\"name\":\"web\",\"open\":1}],\"targets\":[]}";
    const struct answer answer = {.payload = json};
    const struct answer missing = {.err = SN_ENOENT, .text = "no such agent or actor"};
    const struct answer broken = {.payload = "no JSON"};
    struct player player;
    (void)state;
    assert_int_equal(
        run_against(sn_cmd_forwards, "forwards", CONFIG " --json", &answer, 1, &player),
        SN_EXIT_OK);
    assert_string_equal(player.seen.verb, "ask");
    assert_string_equal(player.seen.to, ":tunnel");
    assert_string_equal(player.seen.type, "tunnel.list");
    assert_memory_equal(caught_out, json, sizeof json - 1);
    assert_string_equal(caught_out + sizeof json - 1, "\n");
    assert_int_equal(run_against(sn_cmd_forwards, "forwards", CONFIG, &answer, 1, &player),
                     SN_EXIT_OK);
    assert_string_equal(caught_out, "targets: none\n\nforwards:\nname  open\nweb      1\n");
    assert_int_equal(
        run_against(sn_cmd_forwards, "forwards", CONFIG " --json", &missing, 1, &player),
        SN_EXIT_OK);
    assert_string_equal(caught_out, "{\"forwards\":[],\"targets\":[]}\n");
    assert_string_equal(caught_err, "");
    assert_int_equal(run_against(sn_cmd_forwards, "forwards", CONFIG, &missing, 1, &player),
                     SN_EXIT_OK);
    assert_string_equal(caught_out, "forwards: none\ntargets:  none\n");
    assert_int_equal(run_against(sn_cmd_forwards, "forwards", CONFIG, &broken, 1, &player),
                     SN_EXIT_FAILED);
}

static void pings_are_counted(void **state)
{
    const struct answer good[] = {{0}, {0}, {0}};
    const struct answer mixed[] = {
        {0}, {.err = SN_ETIMEDOUT, .text = "timed out"}, {.payload = "0123456789abcdef"}};
    const struct answer lost[] = {{.err = SN_EFULL, .text = "mailbox-full"},
                                  {.err = SN_EDENIED, .text = "denied"},
                                  {.err = SN_EFULL, .text = "mailbox-full"},
                                  {.err = SN_EUNREACHABLE, .text = "a \"strange\" text"}};
    struct player player;
    (void)state;
    assert_int_equal(run_against(sn_cmd_ping, "ping",
                                 CONFIG " c/d --count 3 --interval 0 --timeout 70 --json", good, 3,
                                 &player),
                     SN_EXIT_OK);
    assert_string_equal(player.seen.to, "c/d:ping");
    assert_string_equal(player.seen.type, "ping.echo");
    assert_int_equal(player.seen.payload_size, 16);
    assert_int_equal(player.seen.timeout_ms, 70);
    assert_string_equal(caught_out, "{\"agent\":\"c/d\",\"sent\":3,\"received\":3,\"min_us\":250,"
                                    "\"p50_us\":250,\"p99_us\":250,\"max_us\":250,"
                                    "\"lost\":{}}\n");
    assert_int_equal(
        run_against(sn_cmd_ping, "ping", CONFIG " c/d --count=3 --interval=0", mixed, 3, &player),
        SN_EXIT_FAILED);
    assert_string_equal(
        caught_out,
        "c/d: ping 1: 250 us\n"
        "c/d: ping 2: no answer: deadline\n"
        "c/d: ping 3: no answer: altered\n"
        "c/d: sent 3, received 1, deadline 1, altered 1, min 250 us, p50 250 us, p99 250 us, "
        "max 250 us\n");
    assert_int_equal(
        run_against(sn_cmd_ping, "ping", CONFIG " c/d --count=1 --json", mixed + 1, 1, &player),
        SN_EXIT_FAILED);
    assert_string_equal(caught_out, "{\"agent\":\"c/d\",\"sent\":1,\"received\":0,\"min_us\":null,"
                                    "\"p50_us\":null,\"p99_us\":null,\"max_us\":null,"
                                    "\"lost\":{\"deadline\":1}}\n");
    assert_int_equal(
        run_against(sn_cmd_ping, "ping", CONFIG " c/d --count=4 --interval=0", lost, 4, &player),
        SN_EXIT_FAILED);
    expect_part(caught_out, "c/d: ping 1: no answer: mailbox-full\n");
    expect_part(caught_out, "c/d: sent 4, received 0, mailbox-full 2, denied 1, unreachable 1, "
                            "min -, p50 -, p99 -, max -\n");
}

static void pings_that_cannot_be_sent(void **state)
{
    const struct answer missing = {.err = SN_ENOENT, .text = "no such agent or actor"};
    const struct answer cut[] = {{0}, {.hangs_up = 1}};
    struct player player;
    (void)state;
    assert_int_equal(run_against(sn_cmd_ping, "ping", CONFIG " c/x", &missing, 1, &player),
                     SN_EXIT_FAILED);
    expect_part(caught_err, "this agent knows no agent c/x");
    assert_string_equal(caught_out, "c/x: ping 1: no answer: no-agent\n"
                                    "c/x: sent 1, received 0, no-agent 1, min -, p50 -, p99 -, "
                                    "max -\n");
    assert_int_equal(run_against(sn_cmd_ping, "ping", CONFIG " c/d --interval 0", cut, 2, &player),
                     SN_EXIT_UNREACHABLE);
    expect_part(caught_out, "sent 1, received 1");
    static const char *const bad[] = {"hub", "c/d/e", "C/d", "c/d:ping", "c/*"};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(run_command(sn_cmd_ping, "ping", bad[i]), SN_EXIT_USAGE);
        expect_part(caught_err, "an agent is named site/agent");
    }
    assert_int_equal(run_command(sn_cmd_ping, "ping", ""), SN_EXIT_USAGE);
    assert_int_equal(run_command(sn_cmd_ping, "ping", "c/d --count 0"), SN_EXIT_USAGE);
    assert_int_equal(run_command(sn_cmd_ping, "ping", "c/d --timeout 600001"), SN_EXIT_USAGE);
}

/* Runs `call` against one answer. */
static int call(const char *args, struct answer answer, struct player *player)
{
    char words[256];
    struct sn_text text;
    sn_text_init(&text, words, sizeof words);
    sn_text_add(&text, CONFIG " %s", args);
    return run_against(sn_cmd_call, "call", words, &answer, 1, player);
}

static void calls_print_one_value(void **state)
{
    static const struct {
        const char *payload;
        const char *printed;
    } cases[] = {
        {"{\"a\": [1, true]}", "{\"a\": [1, true]}"},
        {" 12 \n", " 12"},
        {"", "null"},
        {"two words", "{\"text\":\"two words\"}"},
        {"\x81\xa1k\xa1v", "{\"k\":\"v\"}"},
        {"\x93\x01\x02\xc0", "[1,2,null]"},
        {"\x93\x01", "{\"base64\":\"kwE=\"}"}, /* an array that is cut short */
        {"\xc1\xff", "{\"base64\":\"wf8=\"}"},
        {"\xff", "-1"}, /* msgpack */
        {"\x01\x02", "{\"text\":\"\\u0001\\u0002\"}"},
        {"\"\xc2\x85\"", "\"\\u0085\""},
        {"[[[[[[[[[1]]]]]]]]]",
         "{\"text\":\"[[[[[[[[[1]]]]]]]]]\"}"}, /* too deep to be looked through */
    };
    struct player player;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[128];
        struct sn_text text;
        assert_int_equal(call("c/d:e x.y", (struct answer){.payload = cases[i].payload}, &player),
                         SN_EXIT_OK);
        sn_text_init(&text, line, sizeof line);
        sn_text_add(&text, "%s\n", cases[i].printed);
        assert_string_equal(caught_out, line);
    }
    assert_int_equal(call("c/d:e x.y {\"k\":1} --timeout 70 --json", (struct answer){0}, &player),
                     SN_EXIT_OK);
    assert_string_equal(player.seen.to, "c/d:e");
    assert_string_equal(player.seen.type, "x.y");
    assert_int_equal(player.seen.timeout_ms, 70);
    assert_string_equal(caught_out, "{\"from\":\"c/d:e\",\"type\":\"some.answer\",\"us\":250,"
                                    "\"payload\":{\"k\":1}}\n");
}

static void calls_without_an_answer_say_why(void **state)
{
    static const struct {
        struct answer answer;
        const char *said;
    } cases[] = {
        {{.err = SN_ENOENT, .text = "no such agent or actor"}, "this agent knows no agent c/d"},
        {{.err = SN_EUNREACHABLE, .text = "no-agent"}, "this agent knows no agent c/d"},
        {{.err = SN_ENOENT, .text = "no-actor"}, "no such actor: c/d has none called e"},
        {{.err = SN_ETIMEDOUT, .text = "the time is over"}, "timed out: no answer within 5000 ms"},
        {{.err = SN_EDENIED, .text = "denied"},
         "denied: no access rule there lets this agent send"},
        {{.err = SN_ERESET, .text = "peer-restarted"}, "nobody knows whether"},
        {{.err = SN_EFULL, .text = "mailbox-full"}, "more to do than it takes"},
        {{.err = SN_EFULL, .text = "too many questions"}, "no answer: too many questions"},
    };
    struct player player;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(call("c/d:e x.y", cases[i].answer, &player), SN_EXIT_FAILED);
        expect_part(caught_err, cases[i].said);
        assert_string_equal(caught_out, "");
    }
    assert_int_equal(call("c/d:e x.y", (struct answer){.hangs_up = 1}, &player),
                     SN_EXIT_UNREACHABLE);
    assert_int_equal(call("c/d:e x.y", (struct answer){.is_view = 1}, &player), SN_EXIT_FAILED);
    expect_part(caught_err, "the answer cannot be shown");
    static const char *const bad[][2] = {{"", "usage:"},
                                         {":e", "usage:"},
                                         {":e x.y 1 2", "one argument too many"},
                                         {"e x.y", "SITE/AGENT:ACTOR"},
                                         {"c/d x.y", "SITE/AGENT:ACTOR"},
                                         {":e X", "labels with dots"},
                                         {":e x.y {", "no JSON"},
                                         {":e x.y [[[[[[[[[]]]]]]]]]", "more than 8 levels"},
                                         {":e x.y 1e999", "a number that is too large"},
                                         {":e x.y -5 -6", "one argument too many"},
                                         {":e x.y @none", "no such file"},
                                         {":e x.y --timeout 600001", "--timeout takes"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(run_command(sn_cmd_call, "call", bad[i][0]), SN_EXIT_USAGE);
        expect_part(caught_err, bad[i][1]);
    }
}

static void plugins_are_listed_or_hashed(void **state)
{
    const struct answer answer = {.payload = ""};
    struct player player;
    (void)state;
    write_file("abc", 0644, "abc");
    assert_int_equal(run_command(sn_cmd_plugins, "plugins", "--hash abc"), SN_EXIT_OK);
    assert_string_equal(caught_out,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
    assert_int_equal(run_command(sn_cmd_plugins, "plugins", "--hash none"), SN_EXIT_USAGE);
    assert_int_equal(run_command(sn_cmd_plugins, "plugins", "--hash agent"), SN_EXIT_USAGE);
    assert_int_equal(run_command(sn_cmd_plugins, "plugins", "--hash abc --json"), SN_EXIT_USAGE);
    assert_int_equal(run_against(sn_cmd_plugins, "plugins", CONFIG " --json", &answer, 1, &player),
                     SN_EXIT_OK);
    assert_string_equal(player.seen.verb, "plugins");
    assert_int_equal(run_against(sn_cmd_plugins, "plugins", CONFIG, &answer, 1, &player),
                     SN_EXIT_OK); /* not a list, but shown */
}

static void the_version_is_told(void **state)
{
    (void)state;
    assert_int_equal(run_command(sn_cmd_version, "version", ""), SN_EXIT_OK);
    expect_part(caught_out, "sennit ");
    assert_int_equal(run_command(sn_cmd_version, "version", "x"), SN_EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_ask_for_their_name),
        cmocka_unit_test(the_table_of_peers_leaves_details_to_json),
        cmocka_unit_test(why_needs_views_that_it_can_read),
        cmocka_unit_test(agents_that_cannot_be_reached),
        cmocka_unit_test(forwards_ask_the_tunnel_plugin),
        cmocka_unit_test(pings_are_counted),
        cmocka_unit_test(pings_that_cannot_be_sent),
        cmocka_unit_test(calls_print_one_value),
        cmocka_unit_test(calls_without_an_answer_say_why),
        cmocka_unit_test(plugins_are_listed_or_hashed),
        cmocka_unit_test(the_version_is_told),
    };
    return cmocka_run_group_tests(tests, begin, commands_end);
}
