/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "commands.h"

#define WORDS_MAX 3

/* Parses the arguments with three options and writes down what was understood, or the message. */
static const char *parse(const char *args)
{
    static char text[2048];
    struct sn_option options[] = {
        {.name = "--out", .takes_value = 1}, {.name = "-c", .takes_value = 1}, {.name = "--json"}};
    const char *words[WORDS_MAX] = {NULL};
    struct sn_cli cli = make_cli("test", args);
    int count = sn_cli_parse(&cli, options, 3, words, WORDS_MAX);
    if (count < 0) return caught_err;
    assert_string_equal(caught_err, "");
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < 3; i++) {
        if (!options[i].is_given) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s=%s ", options[i].name,
                                 options[i].value == NULL ? "yes" : options[i].value);
    }
    for (int i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "[%s]", words[i]);
    }
    return text;
}

static void options_stand_anywhere(void **state)
{
    (void)state;
    assert_string_equal(parse(""), "");
    assert_string_equal(parse("a b c"), "[a][b][c]");
    assert_string_equal(parse("a --out dir b"), "--out=dir [a][b]");
    assert_string_equal(parse("--out=dir a --json -c f.yaml"),
                        "--out=dir -c=f.yaml --json=yes [a]");
    assert_string_equal(parse("--out=a=b"), "--out=a=b ");
    assert_string_equal(parse("-c -"), "-c=- ");
    assert_string_equal(parse("- a"), "[-][a]");
    assert_string_equal(parse("a -- --json -x"), "[a][--json][-x]");
    assert_string_equal(parse("--json -- --"), "--json=yes [--]");
}

static void mistakes_are_explained(void **state)
{
    static const struct {
        const char *args;
        const char *message;
    } cases[] = {
        {"--jsno", "sennit test: there is no option --jsno; did you mean `--json`?\n"},
        {"--ouy=3", "sennit test: there is no option --ouy; did you mean `--out`?\n"},
        {"--elephant", "sennit test: there is no option --elephant\n"},
        {"-x", "sennit test: there is no option -x\n"},
        {"--out", "sennit test: --out needs a value\n"},
        {"--out=", "sennit test: --out needs a value\n"},
        {"--out --json", "sennit test: --out needs a value\n"},
        {"--json=1", "sennit test: --json takes no value\n"},
        {"--json --json", "sennit test: --json is given twice\n"},
        {"-c a -c b", "sennit test: -c is given twice\n"},
        {"a b c d", "sennit test: one argument too many: d\nusage: sennit test HOW TO USE IT\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(parse(cases[i].args), cases[i].message);
        assert_string_equal(caught_out, "");
    }
}

static void numbers_are_checked(void **state)
{
    struct sn_cli cli = make_cli("test", "");
    struct sn_option option = {.name = "--count", .takes_value = 1};
    uint64_t value = 0;
    (void)state;
    assert_int_equal(sn_cli_number(&cli, &option, 1, 10, 5, &value), 1);
    assert_int_equal(value, 5);
    option.is_given = 1;
    static const char *const good[] = {"1", "10"};
    static const char *const bad[] = {"0", "11", "-1",  "1x",
                                      "x", "01", "1.5", "99999999999999999999"};
    for (unsigned i = 0; i < 2; i++) {
        option.value = good[i];
        assert_int_equal(sn_cli_number(&cli, &option, 1, 10, 5, &value), 1);
        assert_int_equal(value, i == 0 ? 1 : 10);
    }
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        option.value = bad[i];
        forget_caught();
        assert_int_equal(sn_cli_number(&cli, &option, 1, 10, 5, &value), 0);
        expect_part(caught_err, "--count takes a number from 1 to 10, not ");
        assert_int_equal(value, 10); /* untouched */
    }
}

static void long_output_is_whole_and_long_errors_are_cut(void **state)
{
    static char text[5000];
    struct sn_cli cli = make_cli("test", "");
    size_t in_use = sn_alloc_in_use();
    (void)state;
    memset(text, 'x', sizeof text - 1);
    sn_cli_print(&cli, "%s|", text);
    assert_int_equal(strlen(caught_out), sizeof text);
    assert_int_equal(caught_out[sizeof text - 1], '|');
    sn_cli_error(&cli, "%s", text);
    assert_true(strlen(caught_err) < 1024);
    expect_part(caught_err, "xxx...\n");
    forget_caught();
    cli.command = NULL;
    sn_cli_error(&cli, "no command");
    assert_string_equal(caught_err, "sennit: no command\n");
    assert_int_equal(sn_alloc_in_use(), in_use);
}

static void findings_are_sorted(void **state)
{
    struct sn_findings findings;
    struct sn_cli cli = make_cli("check", "");
    (void)state;
    sn_findings_init(&findings);
    sn_findings_add(&findings, "f.yaml", (struct sn_config_pos){3, 1}, "sites", "later");
    sn_findings_add(&findings, "f.yaml", (struct sn_config_pos){1, 7}, "mesh", "sooner");
    sn_cli_findings(&cli, &findings);
    assert_string_equal(caught_err, "f.yaml:1:7: mesh: sooner\nf.yaml:3:1: sites: later\n");
    for (unsigned i = 0; i < SN_CONFIG_FINDINGS_MAX; i++) {
        sn_findings_add(&findings, "f.yaml", (struct sn_config_pos){9, 1}, ".", "again");
    }
    forget_caught();
    sn_cli_findings(&cli, &findings);
    expect_part(caught_err, "... and 2 more\n");
    sn_findings_fini(&findings);
}

static void reading_tells_what_is_wrong(void **state)
{
    struct sn_cli cli = make_cli("check", "");
    char *data = NULL;
    size_t size = 0;
    (void)state;
    write_file("some.yaml", 0644, "a: b\n");
    assert_int_equal(sn_cli_read(&cli, "some.yaml", &data, &size), 1);
    assert_int_equal(size, 5);
    sn_free(data, size + 1);
    assert_int_equal(sn_cli_read(&cli, "none.yaml", &data, &size), 0);
    assert_string_equal(caught_err, "sennit check: none.yaml: there is no such file\n");
    forget_caught();
    assert_int_equal(sn_cli_read(&cli, ".", &data, &size), 0);
    assert_string_equal(caught_err, "sennit check: .: not a regular file\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_stand_anywhere),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(numbers_are_checked),
        cmocka_unit_test(long_output_is_whole_and_long_errors_are_cut),
        cmocka_unit_test(findings_are_sorted),
        cmocka_unit_test(reading_tells_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, commands_begin, commands_end);
}
