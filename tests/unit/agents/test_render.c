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

#include "agents/identity.h"
#include "base/alloc.h"
#include "commands.h"

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
                                 "a/out/paris/hub/agent.yaml a/out/amsterdam/edge/agent.yaml "
                                 "a/out/rome/desk/agent.yaml"),
                     SN_EXIT_OK);
}

/* The identity of an agent loads from what was rendered, without a warning. */
static void rendered_files_make_an_identity(void **state)
{
    struct sn_findings findings;
    struct sn_agent_file *file = NULL;
    struct sn_identity identity;
    char text[512];
    (void)state;
    make_fleet("i");
    assert_int_equal(render("i/fleet.yaml --out i/out"), SN_EXIT_OK);
    sn_findings_init(&findings);
    char *yaml = read_text("i/out/paris/hub/agent.yaml");
    assert_int_equal(sn_agent_file_parse(yaml, strlen(yaml), "agent.yaml", &findings, &file),
                     SN_OK);
    free(yaml);
    assert_int_equal(
        sn_identity_load(commands_env(), file, "i/out/paris/hub", &identity, text, sizeof text),
        SN_OK);
    assert_string_equal(text, "");
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
        cmocka_unit_test(keys_are_kept),
        cmocka_unit_test(validity_is_chosen),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(rendering_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, commands_begin, commands_end);
}
