/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agents/agent.h"
#include "base/alloc.h"
#include "commands.h"
#include "mesh/access.h"

#define GIVEN "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define DAY_S 86400

static const char fleet_text[] =
    "mesh: trial\n"
    "authority: keys/authority.key\n"
    "sites:\n"
    "  paris:\n"
    "    hub: {listen: [\"tls://127.0.0.1:7400\"], roles: [storage, gate]}\n"
    "  amsterdam:\n"
    "    edge: {links: [paris/hub, rome/desk]}\n"
    "  rome:\n"
    "    desk: {listen: [\"tls://127.0.0.1:7401\"], key: \"" GIVEN "\"}\n";

static int render(const char *args)
{
    return run_command(sn_cmd_render, "render", args);
}

/* A fresh fleet in its own folder. */
static void make_fleet(const char *folder)
{
    char path[128];
    char args[256];
    (void)snprintf(path, sizeof path, "%s/keys", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(args, sizeof args, "%s/authority.key", path);
    assert_int_equal(run_command(sn_cmd_keygen, "keygen", args), SN_EXIT_OK);
    (void)snprintf(path, sizeof path, "%s/fleet.yaml", folder);
    write_file(path, 0644, fleet_text);
}

static struct sn_key_id key_in(const char *path)
{
    struct sn_key *key = NULL;
    char text[512];
    assert_int_equal(sn_identity_read_key(commands_env(), path, &key, text, sizeof text), SN_OK);
    struct sn_key_id id = sn_key_id(key);
    sn_key_free(key);
    return id;
}

static enum sn_err verify(const char *path, const struct sn_key_id *authority, int64_t wall_s,
                          struct sn_cert *out_cert)
{
    uint8_t bytes[SN_CERT_BYTES_MAX];
    size_t size = 0;
    struct sn_trust trust = {.mesh = "trial", .authorities = authority, .authority_count = 1};
    char *pem = read_text(path);
    assert_int_equal(sn_cert_from_pem(pem, strlen(pem), bytes, sizeof bytes, &size), SN_OK);
    free(pem);
    return sn_cert_verify(bytes, size, &trust, wall_s, out_cert);
}

/* Replaces the certificate in the folder by one like it that is over. */
static void expire(const char *folder, const struct sn_key_id *authority)
{
    char path[128];
    struct sn_cert cert;
    uint8_t bytes[SN_CERT_BYTES_MAX];
    size_t size = 0;
    char pem[SN_KEY_FILE_BYTES_MAX];
    char text[512];
    struct sn_key *key = NULL;
    int64_t now_s = sn_env_wall_ms(commands_env()) / 1000;
    (void)snprintf(path, sizeof path, "%s/agent.cert", folder);
    assert_int_equal(verify(path, authority, now_s, &cert), SN_OK);
    cert.not_before_s = now_s - 20;
    cert.not_after_s = now_s - 10;
    assert_int_equal(
        sn_identity_read_key(commands_env(), "s/keys/authority.key", &key, text, sizeof text),
        SN_OK);
    assert_int_equal(sn_cert_sign(&cert, key, bytes, sizeof bytes, &size), SN_OK);
    sn_key_free(key);
    assert_int_equal(sn_cert_to_pem(bytes, size, pem, sizeof pem - 1, &size), SN_OK);
    pem[size] = '\0';
    write_file(path, 0644, pem);
}

static void renders_what_agents_need(void **state)
{
    static const char *const agents[] = {"paris/hub", "amsterdam/edge", "rome/desk"};
    char path[128];
    struct sn_cert certs[3];
    int64_t now_s = sn_env_wall_ms(commands_env()) / 1000;
    (void)state;
    make_fleet("a");
    assert_int_equal(render("a/fleet.yaml --out a/out"), SN_EXIT_OK);
    assert_string_equal(caught_err, "");
    struct sn_key_id authority = key_in("a/keys/authority.key");
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "a/out/%s", agents[i]);
        assert_int_equal(mode_of(path), 0700);
        assert_int_equal(count_entries(path), i == 2 ? 2 : 3);
        expect_part(caught_out, path);
        (void)snprintf(path, sizeof path, "a/out/%s/agent.cert", agents[i]);
        assert_int_equal(verify(path, &authority, now_s, &certs[i]), SN_OK);
        assert_string_equal(certs[i].agent, agents[i]);
        assert_true(certs[i].not_before_s >= now_s - 310 && certs[i].not_before_s <= now_s - 290);
        assert_true(certs[i].not_after_s >= now_s + 365 * DAY_S);
        assert_true(certs[i].not_after_s <= now_s + 365 * DAY_S + 20);
    }
    assert_true(certs[0].serial != certs[1].serial);
    assert_int_equal(certs[0].role_count, 2);
    assert_string_equal(certs[0].roles[1], "gate");
    assert_int_equal(certs[1].role_count, 0);
    /* Keys: made where none is given. */
    struct sn_key_id hub = key_in("a/out/paris/hub/node.key");
    assert_int_equal(mode_of("a/out/paris/hub/node.key"), 0600);
    assert_true(sn_key_id_is_equal(&certs[0].node, &hub));
    char text[SN_KEY_TEXT_BYTES + 1];
    sn_key_id_format(&certs[2].node, text);
    assert_string_equal(text, GIVEN);
    assert_false(is_there("a/out/rome/desk/node.key"));
    /* Links pin them, also that of an agent which is rendered later. */
    char *edge = read_text("a/out/amsterdam/edge/agent.yaml");
    sn_key_id_format(&hub, text);
    expect_part(edge, text);
    expect_part(edge, GIVEN);
    free(edge);
    assert_int_equal(run_command(sn_cmd_check, "check",
                                 "a/out/paris/hub/agent.yaml a/out/amsterdam/edge/agent.yaml"),
                     SN_EXIT_OK);
    /* The key that was given is on its own machine. */
    assert_int_equal(run_command(sn_cmd_check, "check", "a/out/rome/desk/agent.yaml"),
                     SN_EXIT_USAGE);
    expect_part(caught_err,
                "a/out/rome/desk/agent.yaml:8:6: key: a/out/rome/desk/node.key: there is no such "
                "file; make it on this machine with `sennit keygen a/out/rome/desk/node.key`");
}

static int check_hub(const char *folder)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/out/paris/hub/agent.yaml", folder);
    return run_command(sn_cmd_check, "check", path);
}

/* `check` refuses what the agent would refuse at its start, and what its peers would refuse of it. */
static void check_looks_at_key_and_certificate(void **state)
{
    (void)state;
    make_fleet("c");
    assert_int_equal(render("c/fleet.yaml --out c/out"), SN_EXIT_OK);
    assert_int_equal(check_hub("c"), SN_EXIT_OK);
    assert_string_equal(caught_err, "");
    assert_int_equal(chmod("c/out/paris/hub/node.key", 0640), 0);
    assert_int_equal(check_hub("c"), SN_EXIT_USAGE);
    assert_string_equal(caught_err,
                        "c/out/paris/hub/agent.yaml:8:6: key: c/out/paris/hub/node.key may be read "
                        "by others; mend it with: chmod 600 c/out/paris/hub/node.key\n");
    assert_string_equal(caught_out, "");
    assert_int_equal(chmod("c/out/paris/hub/node.key", 0600), 0);
    char *key = read_text("c/out/paris/hub/node.key");
    char *cert = read_text("c/out/paris/hub/agent.cert");
    char *other_key = read_text("c/out/amsterdam/edge/node.key");
    char *other_cert = read_text("c/out/amsterdam/edge/agent.cert");
    write_file("c/out/paris/hub/node.key", 0600, other_key);
    assert_int_equal(check_hub("c"), SN_EXIT_USAGE);
    expect_part(caught_err, "agent.yaml:7:14: certificate: c/out/paris/hub/agent.cert: it was made "
                            "for another node key");
    write_file("c/out/paris/hub/agent.cert", 0644, other_cert);
    assert_int_equal(check_hub("c"), SN_EXIT_USAGE);
    expect_part(caught_err, "certificate: c/out/paris/hub/agent.cert: it names another agent, "
                            "amsterdam/edge");
    write_file("c/out/paris/hub/node.key", 0600, "junk");
    assert_int_equal(check_hub("c"), SN_EXIT_USAGE);
    expect_part(caught_err, "key: c/out/paris/hub/node.key: not an Ed25519 private key");
    write_file("c/out/paris/hub/node.key", 0600, key);
    write_file("c/out/paris/hub/agent.cert", 0644, "junk");
    assert_int_equal(check_hub("c"), SN_EXIT_USAGE);
    expect_part(caught_err, "certificate: c/out/paris/hub/agent.cert: not an agent certificate");
    assert_int_equal(unlink("c/out/paris/hub/agent.cert"), 0);
    assert_int_equal(check_hub("c"), SN_EXIT_USAGE);
    expect_part(caught_err, "certificate: c/out/paris/hub/agent.cert: there is no such file");
    write_file("c/out/paris/hub/agent.cert", 0644, cert);
    assert_int_equal(check_hub("c"), SN_EXIT_OK);
    free(key);
    free(cert);
    free(other_key);
    free(other_cert);
}

static void replace_in(const char *path, const char *from, const char *to)
{
    char *text = read_text(path);
    char *at = strstr(text, from);
    assert_non_null(at);
    char *fresh = calloc(1, strlen(text) + strlen(to) + 1);
    assert_non_null(fresh);
    (void)snprintf(fresh, strlen(text) + strlen(to) + 1, "%.*s%s%s", (int)(at - text), text, to,
                   at + strlen(from)); /* fits by construction */
    write_file(path, 0644, fresh);
    free(fresh);
    free(text);
}

/* What only its peers would refuse. */
static void check_looks_at_the_signature(void **state)
{
    static const char path[] = "s/out/paris/hub/agent.yaml";
    char text[SN_KEY_TEXT_BYTES + 1];
    (void)state;
    make_fleet("s");
    assert_int_equal(render("s/fleet.yaml --out s/out"), SN_EXIT_OK);
    char *good = read_text(path);
    replace_in(path, "mesh: \"trial\"", "mesh: \"other\"");
    assert_int_equal(check_hub("s"), SN_EXIT_USAGE);
    expect_part(caught_err, "certificate: s/out/paris/hub/agent.cert: it is for another mesh");
    write_file(path, 0644, good);
    struct sn_key_id authority = key_in("s/keys/authority.key");
    sn_key_id_format(&authority, text);
    replace_in(path, text, GIVEN);
    assert_int_equal(check_hub("s"), SN_EXIT_USAGE);
    expect_part(caught_err, "s/out/paris/hub/agent.yaml:7:14: certificate: "
                            "s/out/paris/hub/agent.cert: none of `authority` signed it; peers will "
                            "refuse this agent");
    write_file(path, 0644, good);
    expire("s/out/paris/hub", &authority);
    assert_int_equal(check_hub("s"), SN_EXIT_USAGE);
    expect_part(caught_err, "agent.cert: the certificate has expired; peers will refuse");
    free(good);
}

static void checking_an_agent_survives_lack_of_memory(void **state)
{
    size_t in_use = sn_alloc_in_use();
    (void)state;
    make_fleet("memory");
    assert_int_equal(render("memory/fleet.yaml --out memory/out"), SN_EXIT_OK);
    for (uint64_t nth = 1;; nth++) {
        sn_alloc_fail_nth(nth);
        int status = check_hub("memory");
        sn_alloc_fail_nth(0);
        assert_int_equal(sn_alloc_in_use(), in_use);
        if (status == SN_EXIT_OK) {
            assert_true(nth > 10);
            return;
        }
        expect_part(caught_err, sn_err_text(SN_ENOMEM)); /* nothing is said of the files */
        assert_true(nth < 2000);                         /* far more than there are */
    }
}

/* A role of the fleet becomes a rule that holds for agents whose certificate has it. */
static void roles_reach_the_access_rules(void **state)
{
    static const char roles[][SN_LABEL_BYTES_MAX + 1] = {"gate", "archive"};
    const struct sn_origin with = {.agent = "rome/desk", .roles = roles, .role_count = 2};
    const struct sn_origin without = {.agent = "rome/desk", .roles = roles, .role_count = 1};
    struct sn_findings findings;
    struct sn_agent_file *file = NULL;
    struct sn_access *access = NULL;
    (void)state;
    make_fleet("role");
    replace_in("role/fleet.yaml", "edge: {", "edge: {roles: [archive], ");
    replace_in("role/fleet.yaml", "desk: {", "desk: {roles: [], ");
    char *fleet = read_text("role/fleet.yaml");
    char more[2048];
    (void)snprintf(more, sizeof more, "%s%s", fleet,
                   "access:\n  - {to: \"paris/hub:store\", types: [\"put\"], from: "
                   "\"role:archive\"}\n");
    write_file("role/fleet.yaml", 0644, more);
    free(fleet);
    assert_int_equal(run_command(sn_cmd_check, "check", "role/fleet.yaml"), SN_EXIT_OK);
    assert_int_equal(render("role/fleet.yaml --out role/out"), SN_EXIT_OK);
    assert_int_equal(check_hub("role"), SN_EXIT_OK);
    char *yaml = read_text("role/out/paris/hub/agent.yaml");
    sn_findings_init(&findings);
    assert_int_equal(sn_agent_file_parse(yaml, strlen(yaml), "agent.yaml", &findings, &file),
                     SN_OK);
    free(yaml);
    assert_int_equal(sn_agent_access(file, &access), SN_OK);
    assert_int_equal(sn_access_check(access, &with, "store", "put"), SN_OK);
    assert_int_equal(sn_access_check(access, &with, "store", "get"), SN_EDENIED);
    assert_int_equal(sn_access_check(access, &without, "store", "put"), SN_EDENIED);
    sn_access_free(access);
    sn_agent_file_free(file);
    sn_findings_fini(&findings);
}

static void render_names_what_is_left(void **state)
{
    (void)state;
    make_fleet("left");
    assert_int_equal(render("left/fleet.yaml --out left/out"), SN_EXIT_OK);
    assert_string_equal(caught_err, "");
    assert_int_equal(run_command(sn_cmd_keygen, "keygen", "left/out/rome/desk/node.key"),
                     SN_EXIT_OK);
    assert_int_equal(mkdir("left/out/rome/notes", 0700), 0); /* not made by render */
    write_file("left/out/README", 0644, "mine");
    replace_in("left/fleet.yaml", "  amsterdam:\n    edge: {links: [paris/hub, rome/desk]}\n", "");
    assert_int_equal(render("left/fleet.yaml --out left/out"), SN_EXIT_OK);
    assert_string_equal(
        caught_err,
        "sennit render: warning: left/out/rome/desk/node.key is another key than the `key:` that "
        "the "
        "fleet gives this agent, which will not start with it; it was left alone\n"
        "sennit render: warning: left/out/amsterdam/edge is left from an agent that is not in the "
        "fleet any more; it was left alone, and its certificate stays good until it expires\n");
    assert_true(is_there("left/out/amsterdam/edge/agent.yaml"));
    assert_int_equal(render("left/out/paris/hub/agent.yaml --out left/out"), SN_EXIT_USAGE);
    assert_string_equal(
        caught_err, "left/out/paris/hub/agent.yaml:3:1: .: this is the file of one agent, not a "
                    "fleet file, which has `sites`; name the fleet file that it was rendered "
                    "from\n");
}

/* The name of a plugin that is not here may be a typo, or it may be on the agents' machines. */
static void unknown_plugins_are_warned_about(void **state)
{
    (void)state;
    make_fleet("p");
    char *fleet = read_text("p/fleet.yaml");
    char more[2048];
    (void)snprintf(more, sizeof more, "%s%s", fleet, "plugins:\n  - {name: no-such, at: \"*\"}\n");
    write_file("p/fleet.yaml", 0644, more);
    free(fleet);
    static const char warning[] =
        "p/fleet.yaml:11:12: plugins[0].name: warning: there is no plugin called no-such on this "
        "machine; install it, or name its file: `path: FILE.so`\n";
    assert_int_equal(run_command(sn_cmd_check, "check", "p/fleet.yaml"), SN_EXIT_OK);
    assert_string_equal(caught_err, warning);
    assert_int_equal(render("p/fleet.yaml --out p/out"), SN_EXIT_OK);
    assert_string_equal(caught_err, warning);
    assert_int_equal(check_hub("p"), SN_EXIT_USAGE); /* here it is needed */
    expect_part(caught_err, "plugins[0].name: there is no plugin called no-such on this machine");
}

/* The identity of an agent loads from what was rendered, without a warning. */
static void rendered_files_make_an_identity(void **state)
{
    struct sn_findings findings;
    struct sn_agent_file *file = NULL;
    struct sn_identity identity;
    struct sn_identity_fault fault;
    (void)state;
    make_fleet("i");
    assert_int_equal(render("i/fleet.yaml --out i/out"), SN_EXIT_OK);
    sn_findings_init(&findings);
    char *yaml = read_text("i/out/paris/hub/agent.yaml");
    assert_int_equal(sn_agent_file_parse(yaml, strlen(yaml), "agent.yaml", &findings, &file),
                     SN_OK);
    free(yaml);
    assert_int_equal(sn_identity_load(commands_env(), file, "i/out/paris/hub", &identity, &fault),
                     SN_OK);
    assert_string_equal(fault.text, "");
    assert_null(fault.field);
    sn_identity_free(&identity);
    sn_agent_file_free(file);
    sn_findings_fini(&findings);
}

static void keys_are_kept(void **state)
{
    (void)state;
    make_fleet("k");
    assert_int_equal(render("k/fleet.yaml --out k/out"), SN_EXIT_OK);
    expect_part(caught_out, "key made");
    struct sn_key_id before = key_in("k/out/paris/hub/node.key");
    char *cert_before = read_text("k/out/paris/hub/agent.cert");
    write_file("k/out/paris/hub/agent.yaml", 0600, "old");
    assert_int_equal(render("k/fleet.yaml --out k/out"), SN_EXIT_OK);
    expect_part(caught_out, "key kept");
    expect_part(caught_out, "key given");
    struct sn_key_id after = key_in("k/out/paris/hub/node.key");
    assert_true(sn_key_id_is_equal(&before, &after));
    char *cert_after = read_text("k/out/paris/hub/agent.cert");
    assert_string_not_equal(cert_before, cert_after);
    free(cert_before);
    free(cert_after);
    char *yaml = read_text("k/out/paris/hub/agent.yaml");
    expect_part(yaml, "agent: \"paris/hub\"");
    free(yaml);
    assert_int_equal(count_entries("k/out/paris/hub"), 3); /* no temporary file is left */
    /* A key that others can read is not used, and nothing is written. */
    assert_int_equal(chmod("k/out/paris/hub/node.key", 0640), 0);
    write_file("k/out/amsterdam/edge/agent.yaml", 0600, "old");
    assert_int_equal(render("k/fleet.yaml --out k/out"), SN_EXIT_USAGE);
    expect_part(caught_err, "chmod 600 k/out/paris/hub/node.key");
    yaml = read_text("k/out/amsterdam/edge/agent.yaml");
    assert_string_equal(yaml, "old");
    free(yaml);
}

static void validity_is_chosen(void **state)
{
    struct sn_cert cert;
    int64_t now_s = sn_env_wall_ms(commands_env()) / 1000;
    (void)state;
    make_fleet("v");
    struct sn_key_id authority = key_in("v/keys/authority.key");
    assert_int_equal(render("v/fleet.yaml --valid 1 --out=v/out"), SN_EXIT_OK);
    assert_int_equal(verify("v/out/paris/hub/agent.cert", &authority, now_s, &cert), SN_OK);
    assert_int_equal(verify("v/out/paris/hub/agent.cert", &authority, now_s + 2 * DAY_S, &cert),
                     SN_EEXPIRED);
    assert_int_equal(verify("v/out/paris/hub/agent.cert", &authority, now_s - 600, &cert),
                     SN_ENOTYET);
    assert_int_equal(render("v/fleet.yaml --valid 36500 --out v/out"), SN_EXIT_OK);
    static const char *const bad[] = {"0", "36501", "-1", "x"};
    for (unsigned i = 0; i < 4; i++) {
        char args[128];
        (void)snprintf(args, sizeof args, "v/fleet.yaml --out v/out --valid=%s", bad[i]);
        assert_int_equal(render(args), SN_EXIT_USAGE);
        expect_part(caught_err, "--valid takes a number from 1 to 36500");
    }
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    make_fleet("m");
    assert_int_equal(render("m/fleet.yaml"), SN_EXIT_USAGE);
    expect_part(caught_err, "usage: sennit render");
    assert_int_equal(render("--out m/out"), SN_EXIT_USAGE);
    assert_int_equal(render("m/gone.yaml --out m/out"), SN_EXIT_USAGE);
    expect_part(caught_err, "m/gone.yaml: there is no such file");
    write_file("m/bad.yaml", 0644, "mesh: trial\nauthority: x\nsites: {a: {b: {lisetn: []}}}\n");
    assert_int_equal(render("m/bad.yaml --out m/out"), SN_EXIT_USAGE);
    expect_part(caught_err, "m/bad.yaml:3:17: sites.a.b.lisetn: ");
    expect_part(caught_err, "did you mean `listen`?");
    write_file("m/pub", 0644, GIVEN "\n");
    write_file("m/pub.yaml", 0644, "mesh: trial\nauthority: pub\nsites: {a: {b: {}}}\n");
    assert_int_equal(render("m/pub.yaml --out m/out"), SN_EXIT_USAGE);
    expect_part(caught_err, "m/pub is the public half of the authority key and cannot sign");
    write_file("m/none.yaml", 0644, "mesh: trial\nauthority: none\nsites: {a: {b: {}}}\n");
    assert_int_equal(render("m/none.yaml --out m/out"), SN_EXIT_USAGE);
    expect_part(caught_err, "m/none: there is no such file");
    assert_int_equal(chmod("m/keys/authority.key", 0604), 0);
    assert_int_equal(render("m/fleet.yaml --out m/out"), SN_EXIT_USAGE);
    expect_part(caught_err, "chmod 600 m/keys/authority.key");
    assert_false(is_there("m/out")); /* none of them wrote anything */
    assert_int_equal(chmod("m/keys/authority.key", 0600), 0);
    write_file("m/file", 0644, "");
    assert_int_equal(render("m/fleet.yaml --out m/file"), SN_EXIT_FAILED);
    expect_part(caught_err, "a file stands where a folder should be");
    /* What cannot be replaced: the message tells how far it got. */
    assert_int_equal(mkdir("m/out", 0700), 0);
    assert_int_equal(mkdir("m/out/amsterdam", 0700), 0);
    assert_int_equal(mkdir("m/out/amsterdam/edge", 0700), 0);
    assert_int_equal(mkdir("m/out/amsterdam/edge/agent.yaml", 0700), 0);
    assert_int_equal(render("m/fleet.yaml --out m/out"), SN_EXIT_FAILED);
    expect_part(caught_err, "m/out/amsterdam/edge");
    expect_part(caught_err, "1 of 3 agents are new");
}

static void rendering_survives_lack_of_memory(void **state)
{
    size_t in_use = sn_alloc_in_use();
    (void)state;
    make_fleet("l");
    for (uint64_t nth = 1;; nth++) {
        sn_alloc_fail_nth(nth);
        int status = render("l/fleet.yaml --out l/out");
        sn_alloc_fail_nth(0);
        assert_int_equal(sn_alloc_in_use(), in_use);
        if (status == SN_EXIT_OK) {
            assert_true(nth > 20);
            return;
        }
        assert_true(caught_err[0] != '\0');
        assert_true(nth < 2000); /* far more than there are */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_what_agents_need),
        cmocka_unit_test(rendered_files_make_an_identity),
        cmocka_unit_test(check_looks_at_key_and_certificate),
        cmocka_unit_test(check_looks_at_the_signature),
        cmocka_unit_test(checking_an_agent_survives_lack_of_memory),
        cmocka_unit_test(roles_reach_the_access_rules),
        cmocka_unit_test(render_names_what_is_left),
        cmocka_unit_test(unknown_plugins_are_warned_about),
        cmocka_unit_test(keys_are_kept),
        cmocka_unit_test(validity_is_chosen),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(rendering_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, commands_begin, commands_end);
}
