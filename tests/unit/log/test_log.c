/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "log/log.h"
#include "unit/fake_env.h"

#define SECOND (1000 * FAKE_MS)

struct fixture {
    struct sn_env *env;
    struct sn_logger *text;
    struct sn_logger *json;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture.env = fake_env_new();
    assert_int_equal(sn_logger_new(fixture.env, SN_INFO, 0, "paris/hub", &fixture.text), SN_OK);
    assert_int_equal(sn_logger_new(fixture.env, SN_INFO, 1, "paris/hub", &fixture.json), SN_OK);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    sn_logger_free(fixture->text);
    sn_logger_free(fixture->json);
    fake_env_free(fixture->env);
    return sn_alloc_in_use() == 0 ? 0 : -1;
}

static unsigned count_lines(const char *text)
{
    unsigned count = 0;
    for (; *text != '\0'; text++) count += *text == '\n';
    return count;
}

static void test_text_line(void **state)
{
    struct fixture *fixture = *state;
    sn_logger_write(fixture->text, SN_WARN, "LINK-DOWN", "net", "peer=%s tries=%d", "x/y", 3);
    assert_string_equal(fake_env_output(fixture->env),
                        "2023-11-14T22:13:20.123Z warn  LINK-DOWN agent=paris/hub from=net "
                        "peer=x/y tries=3\n");
    fake_env_clear_output(fixture->env);
    struct sn_logger *bare;
    assert_int_equal(sn_logger_new(fixture->env, SN_DEBUG, 0, "", &bare), SN_OK);
    sn_logger_write(bare, SN_ERROR, "BARE", "", "%s", "");
    assert_string_equal(fake_env_output(fixture->env), "2023-11-14T22:13:20.123Z error BARE\n");
    sn_logger_free(bare);
}

static void test_json_line(void **state)
{
    struct fixture *fixture = *state;
    sn_logger_write(fixture->json, SN_INFO, "SAID", "echo", "what=\"a\\b\" who=%s", "é");
    assert_string_equal(
        fake_env_output(fixture->env),
        "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"info\",\"id\":\"SAID\",\"agent\":"
        "\"paris/hub\",\"from\":\"echo\",\"text\":\"what=\\\"a\\\\b\\\" who=é\"}\n");
}

static void test_dates(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        int64_t wall_ms;
        const char *text;
    } dates[] = {{0, "1970-01-01T00:00:00.000Z"},
                 {-1, "1969-12-31T23:59:59.999Z"},
                 {951782400000, "2000-02-29T00:00:00.000Z"},
                 {4107542400000, "2100-03-01T00:00:00.000Z"},
                 {1735689599999, "2024-12-31T23:59:59.999Z"},
                 {-62135596800000, "0001-01-01T00:00:00.000Z"}};
    for (size_t i = 0; i < SN_ARRAY_COUNT(dates); i++) {
        fake_env_clear_output(fixture->env);
        fake_env_set_wall_ms(fixture->env, dates[i].wall_ms);
        fake_env_advance(fixture->env, SECOND); /* for the rate limit */
        fake_env_set_wall_ms(fixture->env, dates[i].wall_ms);
        sn_logger_write(fixture->text, SN_INFO, "DATE", "", "%s", "");
        assert_memory_equal(fake_env_output(fixture->env), dates[i].text, 24);
    }
}

static void test_level(void **state)
{
    struct fixture *fixture = *state;
    sn_logger_write(fixture->text, SN_DEBUG, "QUIET", "", "%s", "");
    assert_string_equal(fake_env_output(fixture->env), "");
    assert_false(sn_logger_wants(fixture->text, SN_DEBUG));
    sn_logger_set_level(fixture->text, SN_DEBUG);
    assert_true(sn_logger_wants(fixture->text, SN_DEBUG));
    sn_logger_write(fixture->text, SN_DEBUG, "QUIET", "", "%s", "");
    assert_int_equal(count_lines(fake_env_output(fixture->env)), 1);

    enum sn_log_level level = SN_INFO;
    assert_int_equal(sn_log_level_parse("error", &level), SN_OK);
    assert_int_equal(level, SN_ERROR);
    assert_int_equal(sn_log_level_parse("debug", &level), SN_OK);
    assert_int_equal(level, SN_DEBUG);
    assert_int_equal(sn_log_level_parse("Info", &level), SN_EINVAL);
    assert_int_equal(sn_log_level_parse("", &level), SN_EINVAL);
    assert_int_equal(level, SN_DEBUG);
}

static void expect_message(struct fixture *fixture, const char *message, const char *expected)
{
    fake_env_clear_output(fixture->env);
    fake_env_advance(fixture->env, SECOND);
    sn_logger_write(fixture->text, SN_INFO, "MASK", "x", "%s", message);
    const char *at = strstr(fake_env_output(fixture->env), "from=x ");
    assert_non_null(at);
    char line[256];
    (void)snprintf(line, sizeof line, "%s\n", expected);
    assert_string_equal(at + 7, line);
}

static void test_what_a_terminal_obeys_is_masked(void **state)
{
    struct fixture *fixture = *state;
    expect_message(fixture,
                   "a\x1b[31mb\nc\rd\te\x7f"
                   "f\x01",
                   "a?[31mb?c?d?e?f?");
    expect_message(fixture, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
                   "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    expect_message(fixture,
                   "csi \xc2\x9b"
                   "31m, nbsp \xc2\xa0",
                   "csi ??31m, nbsp \xc2\xa0");
    expect_message(fixture,
                   "bare \x9b"
                   "31m \xff end",
                   "bare ?31m ? end");
    expect_message(fixture, "cut \xe2\x82", "cut ??");
    expect_message(fixture, "caf\xc3\xa9 cut \xf0\x9f\x98", "caf\xc3\xa9 cut ???");
    expect_message(fixture, "\x80\x80\x80\x80", "????");
}

/* One line of well-formed JSON: balanced quotes, and it ends in }\n. */
static void expect_whole_json(const char *line)
{
    size_t size = strlen(line);
    assert_true(size > 3);
    assert_string_equal(line + size - 2, "}\n");
    int is_quoted = 0;
    for (size_t i = 0; i + 1 < size; i++) {
        assert_true((unsigned char)line[i] >= 0x20);
        if (line[i] == '\\') {
            i++;
        } else if (line[i] == '"') {
            is_quoted = !is_quoted;
        }
    }
    assert_false(is_quoted);
    assert_true(sn_utf8_is_valid(line, size));
}

static void test_overlong_lines_end_properly(void **state)
{
    struct fixture *fixture = *state;
    static const char *const fills[] = {"x",    "\"", "\\", "\xc3\xa9", "\xf0\x9f\x98\x80",
                                        "\x80", "\n"};
    static char message[8192], who[1024];
    memset(who, 'w', sizeof who - 1);
    for (size_t i = 0; i < SN_ARRAY_COUNT(fills); i++) {
        size_t step = strlen(fills[i]);
        size_t size = 0;
        while (size + step < sizeof message) {
            memcpy(message + size, fills[i], step);
            size += step;
        }
        message[size] = '\0';
        fake_env_advance(fixture->env, 10 * SECOND);
        fake_env_clear_output(fixture->env);
        sn_logger_write(fixture->text, SN_INFO, "LONG", who, "%s", message);
        const char *text = fake_env_output(fixture->env);
        assert_int_equal(count_lines(text), 1);
        assert_int_equal(text[strlen(text) - 1], '\n');
        assert_true(sn_utf8_is_valid(text, strlen(text)));
        fake_env_clear_output(fixture->env);
        sn_logger_write(fixture->json, SN_INFO, "LONG", who, "%s", message);
        assert_int_equal(count_lines(fake_env_output(fixture->env)), 1);
        expect_whole_json(fake_env_output(fixture->env));
    }
}

static unsigned write_many(struct fixture *fixture, const char *id, unsigned count)
{
    fake_env_clear_output(fixture->env);
    for (unsigned i = 0; i < count; i++) {
        sn_logger_write(fixture->text, SN_INFO, id, "", "n=%u", i);
    }
    return count_lines(fake_env_output(fixture->env));
}

static void test_rate_limit(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(write_many(fixture, "BURST", 100), SN_LOG_BURST);
    assert_null(strstr(fake_env_output(fixture->env), "suppressed"));
    assert_int_equal(write_many(fixture, "OTHER", 1), 1); /* another id is not affected */

    fake_env_advance(fixture->env, SECOND - 1);
    assert_int_equal(write_many(fixture, "BURST", 1), 0);
    fake_env_advance(fixture->env, 1);
    assert_int_equal(write_many(fixture, "BURST", 3), 1);
    assert_non_null(strstr(fake_env_output(fixture->env), "n=0 suppressed=96\n"));
    fake_env_advance(fixture->env, SECOND);
    assert_int_equal(write_many(fixture, "BURST", 1), 1);
    assert_non_null(strstr(fake_env_output(fixture->env), "suppressed=2\n"));
    fake_env_advance(fixture->env, 1000 * SECOND);
    assert_int_equal(write_many(fixture, "BURST", 100), SN_LOG_BURST);
    assert_null(strstr(fake_env_output(fixture->env), "suppressed"));
}

static unsigned warn_many(struct fixture *fixture, enum sn_log_level level, unsigned causes,
                          unsigned count)
{
    fake_env_clear_output(fixture->env);
    for (unsigned i = 0; i < count; i++) {
        sn_logger_write(fixture->text, level, "WARNED", "", "cause=%u", i % causes);
    }
    return count_lines(fake_env_output(fixture->env));
}

/* A warning that says the very same is written once a second, and leaves the others of its id their places. */
static void test_repeated_warnings(void **state)
{
    struct fixture *fixture = *state;
    fake_env_advance(fixture->env, SECOND);
    assert_int_equal(warn_many(fixture, SN_WARN, 1, 100), 1);
    fake_env_advance(fixture->env, SECOND - 1);
    assert_int_equal(warn_many(fixture, SN_WARN, 1, 1), 0);
    assert_int_equal(warn_many(fixture, SN_WARN, 3, 90), 2);
    assert_non_null(strstr(fake_env_output(fixture->env), "cause=1 suppressed=101\n"));
    fake_env_advance(fixture->env, 1);
    assert_int_equal(warn_many(fixture, SN_WARN, 3, 90), 1);
    assert_non_null(strstr(fake_env_output(fixture->env), "cause=0 suppressed=87\n"));
    fake_env_advance(fixture->env, 10 * SECOND);
    assert_int_equal(warn_many(fixture, SN_WARN, SN_LOG_BURST, 1000), SN_LOG_BURST);
    fake_env_advance(fixture->env, 10 * SECOND);
    assert_int_equal(warn_many(fixture, SN_INFO, 1, 100), SN_LOG_BURST); /* news are news */
}

/* However the lines fall in time: never more than a burst and one a second. */
static void test_rate_over_time(void **state)
{
    struct fixture *fixture = *state;
    unsigned total = 0;
    for (unsigned i = 0; i < 600; i++) { /* a minute in steps of 100 ms */
        total += write_many(fixture, "STEADY", 3);
        fake_env_advance(fixture->env, 100 * FAKE_MS);
    }
    assert_in_range(total, 60, 60 + SN_LOG_BURST);
}

static void test_suppressed_in_json(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < SN_LOG_BURST + 7; i++) {
        sn_logger_write(fixture->json, SN_INFO, "J", "", "%s", "");
    }
    fake_env_advance(fixture->env, SECOND);
    fake_env_clear_output(fixture->env);
    sn_logger_write(fixture->json, SN_INFO, "J", "", "%s", "");
    assert_non_null(strstr(fake_env_output(fixture->env), "\"text\":\"\",\"suppressed\":7}\n"));
}

static void test_ids_beyond_the_bound_share_a_slot(void **state)
{
    struct fixture *fixture = *state;
    static char ids[SN_LOG_IDS_MAX + 40][8];
    for (unsigned i = 0; i < SN_ARRAY_COUNT(ids); i++) {
        (void)snprintf(ids[i], sizeof ids[i], "ID-%u", i);
    }
    for (unsigned i = 0; i < SN_LOG_IDS_MAX; i++) {
        assert_int_equal(write_many(fixture, ids[i], 1), 1);
    }
    unsigned written = 0;
    for (unsigned i = SN_LOG_IDS_MAX; i < SN_ARRAY_COUNT(ids); i++) {
        written += write_many(fixture, ids[i], 1);
    }
    assert_int_equal(written, SN_LOG_BURST);
    assert_int_equal(write_many(fixture, ids[0], 10), SN_LOG_BURST - 1); /* its own slot still */
    assert_int_equal(write_many(fixture, ids[SN_LOG_IDS_MAX], 1), 0);
}

static void test_no_memory(void **state)
{
    struct fixture *fixture = *state;
    struct sn_logger *logger = NULL;
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_logger_new(fixture->env, SN_INFO, 0, "", &logger), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_null(logger);
    sn_logger_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_level, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_terminal_obeys_is_masked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_overlong_lines_end_properly, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rate_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rate_over_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_repeated_warnings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_suppressed_in_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ids_beyond_the_bound_share_a_slot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
