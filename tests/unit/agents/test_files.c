/* SPDX-License-Identifier: Apache-2.0 */
/* init, keygen, check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agents/identity.h"
#include "base/alloc.h"
#include "base/text.h"
#include "commands.h"
#include "crypto/key.h"

#define KEY "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"

static int init(const char *args)
{
    return run_command(sn_cmd_init, "init", args);
}

static int keygen(const char *args)
{
    return run_command(sn_cmd_keygen, "keygen", args);
}

static int check(const char *args)
{
    return run_command(sn_cmd_check, "check", args);
}

/* The public key of a private one's file, as text. */
static void read_id(const char *path, char out[SN_KEY_TEXT_BYTES + 1])
{
    struct sn_key *key = NULL;
    char text[512];
    assert_int_equal(sn_identity_read_key(commands_env(), path, &key, text, sizeof text), SN_OK);
    struct sn_key_id id = sn_key_id(key);
    sn_key_id_format(&id, out);
    sn_key_free(key);
}

static void init_makes_a_mesh_that_is_good(void **state)
{
    char id[SN_KEY_TEXT_BYTES + 1];
    (void)state;
    assert_int_equal(init("new --mesh trial"), SN_EXIT_OK);
    assert_int_equal(mode_of("new"), 0700);
    assert_int_equal(count_entries("new"), 3);
    assert_int_equal(mode_of("new/authority.key"), 0600);
    expect_part(caught_out, "sennit check new/trial.yaml");
    read_id("new/authority.key", id);
    char *pub = read_text("new/authority.pub");
    assert_memory_equal(pub, id, SN_KEY_TEXT_BYTES);
    assert_string_equal(pub + SN_KEY_TEXT_BYTES, "\n");
    free(pub);
    char *fleet = read_text("new/trial.yaml");
    expect_part(fleet, "mesh: trial\n");
    free(fleet);
    assert_int_equal(check("new/trial.yaml"), SN_EXIT_OK);
    assert_string_equal(caught_out, "new/trial.yaml: good (fleet of mesh trial, agents: 2)\n");
}

static void init_keeps_what_is_there(void **state)
{
    static const char *const names[] = {"authority.key", "authority.pub", "trial.yaml"};
    char path[64];
    (void)state;
    assert_int_equal(mkdir("kept", 0755), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct sn_text text;
        sn_text_init(&text, path, sizeof path);
        sn_text_add(&text, "kept/%s", names[i]);
        write_file(path, 0644, "mine");
        assert_int_equal(init("kept --mesh trial"), SN_EXIT_FAILED);
        expect_part(caught_err, names[i]);
        expect_part(caught_err, "exists already; nothing was written");
        assert_string_equal(caught_out, "");
        assert_int_equal(count_entries("kept"), 1);
        char *content = read_text(path);
        assert_string_equal(content, "mine");
        free(content);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(mode_of("kept"), 0755); /* a folder that exists stays as it is */
    assert_int_equal(init("kept --mesh trial"), SN_EXIT_OK);
}

static void init_checks_its_arguments(void **state)
{
    (void)state;
    assert_int_equal(init(""), SN_EXIT_USAGE);
    expect_part(caught_err, "usage: sennit init");
    assert_int_equal(init("there"), SN_EXIT_USAGE);
    assert_int_equal(init("--mesh demo"), SN_EXIT_USAGE);
    assert_int_equal(init("there --mesh Demo"), SN_EXIT_USAGE);
    expect_part(caught_err, "Demo");
    assert_int_equal(init("there --mesh ../x"), SN_EXIT_USAGE);
    assert_int_equal(init("there --mesh a b"), SN_EXIT_USAGE);
    assert_false(is_there("there"));
    write_file("in-the-way", 0644, "");
    assert_int_equal(init("in-the-way --mesh demo"), SN_EXIT_FAILED);
    assert_int_equal(init("in-the-way/deeper --mesh demo"), SN_EXIT_FAILED);
}

/* Whatever fails, either all three files are there or none. */
static void init_is_all_or_nothing(void **state)
{
    size_t in_use = sn_alloc_in_use();
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        sn_alloc_fail_nth(nth);
        int status = init("nothing --mesh trial");
        sn_alloc_fail_nth(0);
        assert_int_equal(sn_alloc_in_use(), in_use);
        if (status == SN_EXIT_OK) {
            assert_int_equal(count_entries("nothing"), 3);
            assert_true(nth > 3);
            return;
        }
        assert_int_equal(status, SN_EXIT_FAILED);
        assert_true(caught_err[0] != '\0');
        assert_true(nth < 2000); /* far more than there are */
        if (is_there("nothing")) assert_int_equal(count_entries("nothing"), 0);
    }
}

/* Killed half-way, init left the first one or two of its files: the next one completes it with the same key. */
static void init_completes_one_that_was_cut_short(void **state)
{
    char before[SN_KEY_TEXT_BYTES + 1], after[SN_KEY_TEXT_BYTES + 1];
    (void)state;
    for (unsigned had_pub = 0; had_pub < 2; had_pub++) {
        assert_int_equal(init("cut --mesh trial"), SN_EXIT_OK);
        read_id("cut/authority.key", before);
        assert_int_equal(unlink("cut/trial.yaml"), 0);
        if (!had_pub) assert_int_equal(unlink("cut/authority.pub"), 0);
        assert_int_equal(init("cut --mesh trial"), SN_EXIT_OK);
        expect_part(caught_out, "its key is kept");
        assert_int_equal(count_entries("cut"), 3);
        read_id("cut/authority.key", after);
        assert_string_equal(before, after);
        char *pub = read_text("cut/authority.pub");
        assert_memory_equal(pub, after, SN_KEY_TEXT_BYTES);
        free(pub);
        /* Complete, it is left alone; so is the authority of another mesh. */
        assert_int_equal(init("cut --mesh trial"), SN_EXIT_FAILED);
        assert_int_equal(init("cut --mesh other"), SN_EXIT_FAILED);
        expect_part(caught_err, "authority.key exists already; nothing was written");
        assert_int_equal(unlink("cut/trial.yaml"), 0);
        assert_int_equal(unlink("cut/authority.pub"), 0);
        assert_int_equal(unlink("cut/authority.key"), 0);
    }
    write_file("cut/authority.key", 0600, "");
    assert_int_equal(init("cut --mesh trial"), SN_EXIT_FAILED);
    expect_part(caught_err, "is empty; if it never held a key, remove it");
    assert_int_equal(count_entries("cut"), 1);
}

static void empty_names_are_refused(void **state)
{
    char empty[] = "";
    (void)state;
    struct sn_cli cli = make_cli("keygen", "x");
    cli.argv[0] = empty;
    forget_caught();
    assert_int_equal(sn_cmd_keygen(&cli), SN_EXIT_USAGE);
    expect_part(caught_err, "the name of the file is empty");
    cli = make_cli("init", "x --mesh demo");
    cli.argv[0] = empty;
    forget_caught();
    assert_int_equal(sn_cmd_init(&cli), SN_EXIT_USAGE);
    expect_part(caught_err, "the name of the folder is empty");
    assert_int_equal(keygen("there/"), SN_EXIT_FAILED);
}

static void keygen_prints_the_public_key(void **state)
{
    char id[SN_KEY_TEXT_BYTES + 1];
    mode_t before = umask(0);
    (void)state;
    assert_int_equal(keygen("node.key"), SN_EXIT_OK);
    (void)umask(before);
    assert_int_equal(mode_of("node.key"), 0600);
    read_id("node.key", id);
    assert_memory_equal(caught_out, id, SN_KEY_TEXT_BYTES);
    assert_string_equal(caught_out + SN_KEY_TEXT_BYTES, "\n");
    char *first = read_text("node.key");
    assert_int_equal(keygen("node.key"), SN_EXIT_FAILED);
    expect_part(caught_err, "node.key exists already and is left alone");
    assert_string_equal(caught_out, "");
    char *second = read_text("node.key");
    assert_string_equal(first, second);
    free(first);
    free(second);
    assert_int_equal(keygen("no-folder/node.key"), SN_EXIT_FAILED);
    expect_part(caught_err, "there is no such folder");
    assert_int_equal(keygen(""), SN_EXIT_USAGE);
    assert_int_equal(keygen("a b"), SN_EXIT_USAGE);
    assert_int_equal(keygen("--out a"), SN_EXIT_USAGE);
}

#define FLEET(authority) "mesh: m\nauthority: " authority "\nsites:\n  a: {b: {}}\n"
#define PINNED(more)     "mesh: m\nagent: a/b\npins: {c/d: \"" KEY "\"}\n" more
#define AGENT(more)      "mesh: m\nagent: a/b\nauthority: [\"" KEY "\"]\n" more

static void check_tells_kinds_apart(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"mesh: m\nsits: {}\n", "f.yaml:2:1: sits: unknown key `sits`; did you mean `sites`?"},
        {"mesh: m\nagnet: a/b\nkey: node.key\nrun: run\n", "did you mean `agent`?"},
        {"hello: 1\n", "f.yaml:1:1: .: neither a fleet, which has `sites`, nor an agent file"},
        {"- 1\n", "neither a fleet"},
        {"", "f.yaml:1:1: "},
        {"a: [\n", "f.yaml:"},
        {AGENT("colour: red\n"), "f.yaml:4:1: colour: "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file("f.yaml", 0644, cases[i].text);
        assert_int_equal(check("f.yaml"), SN_EXIT_USAGE);
        expect_part(caught_err, cases[i].message);
        assert_string_equal(caught_out, "");
    }
    assert_int_equal(keygen("kinds.key"), SN_EXIT_OK);
    write_file("f.yaml", 0644, PINNED("key: kinds.key\n"));
    assert_int_equal(check("f.yaml"), SN_EXIT_OK);
    assert_string_equal(caught_out, "f.yaml: good (agent a/b of mesh m)\n");
    write_file("f.yaml", 0644, PINNED("key: gone.key\nplugins: [{name: no-such}]\n"));
    assert_int_equal(check("f.yaml"), SN_EXIT_USAGE);
    expect_part(caught_err, "f.yaml:4:6: key: gone.key: there is no such file"); /* and also */
    expect_part(caught_err, "f.yaml:5:18: plugins[0].name: there is no plugin called no-such");
}

static void check_looks_at_the_authority(void **state)
{
    (void)state;
    assert_int_equal(mkdir("fleet", 0700), 0);
    assert_int_equal(keygen("fleet/authority.key"), SN_EXIT_OK);
    write_file("fleet/pub", 0644, KEY "\n");
    write_file("fleet/junk", 0600, "junk\n");
    write_file("fleet/f.yaml", 0644, FLEET("authority.key"));
    assert_int_equal(check("fleet/f.yaml"), SN_EXIT_OK); /* relative to the fleet's folder */
    write_file("fleet/f.yaml", 0644, FLEET("pub"));
    assert_int_equal(check("fleet/f.yaml"), SN_EXIT_OK);
    write_file("fleet/f.yaml", 0644, FLEET("gone"));
    assert_int_equal(check("fleet/f.yaml"), SN_EXIT_OK); /* it may be kept offline */
    expect_part(caught_err, "note: fleet/gone: there is no such file");
    write_file("fleet/f.yaml", 0644, FLEET("junk"));
    assert_int_equal(check("fleet/f.yaml"), SN_EXIT_USAGE);
    expect_part(caught_err, "fleet/f.yaml:2:12: authority: fleet/junk: neither a private nor a");
    assert_int_equal(chmod("fleet/authority.key", 0644), 0);
    write_file("fleet/f.yaml", 0644, FLEET("authority.key"));
    assert_int_equal(check("fleet/f.yaml"), SN_EXIT_USAGE);
    expect_part(caught_err, "mend it with: chmod 600 fleet/authority.key");
}

static void check_takes_many_files(void **state)
{
    (void)state;
    assert_int_equal(keygen("many.key"), SN_EXIT_OK);
    write_file("good.yaml", 0644, PINNED("key: many.key\n"));
    write_file("bad.yaml", 0644, AGENT("key: node.key\ncolour: red\n"));
    assert_int_equal(check("bad.yaml good.yaml gone.yaml"), SN_EXIT_USAGE);
    expect_part(caught_err, "bad.yaml:5:1: colour: ");
    expect_part(caught_err, "gone.yaml: there is no such file");
    expect_part(caught_out, "good.yaml: good");
    assert_int_equal(check("good.yaml good.yaml"), SN_EXIT_OK);
    assert_int_equal(check(""), SN_EXIT_USAGE);
    assert_int_equal(check("--"), SN_EXIT_USAGE);
    assert_int_equal(check("good.yaml --reference fleet"), SN_EXIT_USAGE);
    expect_part(caught_err, "usage: sennit check");
}

/* All keys of both files; what a plugin adds is its own. */
static void check_prints_the_reference(void **state)
{
    (void)state;
    assert_int_equal(check("--reference fleet"), SN_EXIT_OK);
    expect_part(caught_out, "## The fleet file\n");
    expect_part(caught_out, "| `sites.NAME.NAME.roles` | list of name, or one alone | |");
    expect_part(caught_out, "| `access[].from` | list of site/agent, site/\\*, role:NAME, \\*");
    expect_part(caught_out, "| `forwards.NAME.open_wait_ms` | number 1 to 900000 |");
    expect_part(caught_out, "| `settings.accept.per_address` |");
    assert_int_equal(check("--reference agent"), SN_EXIT_OK);
    static const char *const keys[] = {"pins", "data", "run", "certificate", "log.level"};
    for (unsigned i = 0; i < 5; i++) {
        char row[64];
        struct sn_text text;
        sn_text_init(&text, row, sizeof row);
        sn_text_add(&text, "| `%s` |", keys[i]);
        expect_part(caught_out, row);
    }
    assert_int_equal(check("--reference no-such"), SN_EXIT_USAGE);
    expect_part(caught_err, "no-such: there is no such plugin on this machine");
    assert_int_equal(check("--reference ../fleet"), SN_EXIT_USAGE);
    assert_string_equal(caught_out, "");
}

static void checking_survives_lack_of_memory(void **state)
{
    size_t in_use = sn_alloc_in_use();
    (void)state;
    assert_int_equal(init("memory --mesh trial"), SN_EXIT_OK);
    for (uint64_t nth = 1;; nth++) {
        sn_alloc_fail_nth(nth);
        int status = check("memory/trial.yaml");
        sn_alloc_fail_nth(0);
        assert_int_equal(sn_alloc_in_use(), in_use);
        if (status == SN_EXIT_OK) {
            assert_true(nth > 5);
            return;
        }
        assert_true(caught_err[0] != '\0');
        assert_true(nth < 2000); /* far more than there are */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_makes_a_mesh_that_is_good),
        cmocka_unit_test(init_keeps_what_is_there),
        cmocka_unit_test(init_checks_its_arguments),
        cmocka_unit_test(init_is_all_or_nothing),
        cmocka_unit_test(init_completes_one_that_was_cut_short),
        cmocka_unit_test(empty_names_are_refused),
        cmocka_unit_test(keygen_prints_the_public_key),
        cmocka_unit_test(check_tells_kinds_apart),
        cmocka_unit_test(check_looks_at_the_authority),
        cmocka_unit_test(check_takes_many_files),
        cmocka_unit_test(check_prints_the_reference),
        cmocka_unit_test(checking_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, commands_begin, commands_end);
}
