/* SPDX-License-Identifier: Apache-2.0 */
/* Scenario files: what is read, and what is refused with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agents/soak/scenario.h"
#include "base/alloc.h"

static enum sn_err parse(const char *yaml, struct sn_scenario *scenario, char *out, size_t capacity)
{
    struct sn_findings findings;
    size_t used = 0;
    sn_findings_init(&findings);
    enum sn_err err = sn_scenario_parse(yaml, strlen(yaml), "s.yaml", &findings, scenario);
    sn_findings_sort(&findings);
    out[0] = '\0';
    for (uint32_t i = 0; i < findings.count; i++) {
        sn_finding_format(findings.items[i], out + used, capacity - used - 1);
        used += strlen(out + used);
        out[used++] = '\n';
        out[used] = '\0';
    }
    sn_findings_fini(&findings);
    return err;
}

static struct sn_scenario good(const char *yaml)
{
    struct sn_scenario scenario;
    char text[2000];
    assert_int_equal(parse(yaml, &scenario, text, sizeof text), SN_OK);
    assert_string_equal(text, "");
    return scenario;
}

static void defaults_are_those_of_the_contract(void **state)
{
    (void)state;
    struct sn_scenario delivery = good("scenario: delivery\n");
    assert_int_equal(delivery.kind, SN_SOAK_DELIVERY);
    assert_int_equal(delivery.starts, 1);
    assert_int_equal(delivery.messages, 800);
    assert_int_equal(delivery.size_min, 64);
    assert_int_equal(delivery.size_max, 65536);
    assert_int_equal(delivery.busy, 0);
    assert_int_equal(delivery.timeout_ms, 90000);
    assert_false(delivery.is_control);
    assert_false(delivery.is_dialed_both);
    struct sn_scenario tunnel = good("scenario: tunnel\n");
    assert_int_equal(tunnel.kind, SN_SOAK_TUNNEL);
    assert_int_equal(tunnel.starts, 1);
    assert_int_equal(tunnel.bytes, 32 << 20);
    assert_int_equal(tunnel.target_late_ms, 0);
    assert_false(delivery.is_steady);
    assert_false(tunnel.is_steady);
    struct sn_scenario flap = good("scenario: flap\nper_second: 50\n");
    assert_int_equal(flap.kind, SN_SOAK_FLAP);
    assert_int_equal(flap.starts, 1);
    assert_int_equal(flap.messages, 30000); /* all that become due */
    assert_int_equal(flap.bytes, 16 << 20);
    assert_int_equal(flap.flap.duration_ms, 600000);
    assert_int_equal(flap.flap.up_min_ms, 3000);
    assert_int_equal(flap.flap.up_max_ms, 20000);
    assert_int_equal(flap.flap.stop_min_ms, 1000);
    assert_int_equal(flap.flap.stop_max_ms, 5000);
    assert_int_equal(flap.flap.link_kib, 4096);
    assert_int_equal(flap.flap.gap_max_ms, 0);
    assert_int_equal(flap.flap.growth_max_kib, 0);
    assert_int_equal(flap.flap.log_max_kib, 0);
    assert_int_equal(good("scenario: flap\n").messages, 60000);
}

static void every_key_is_read(void **state)
{
    (void)state;
    struct sn_scenario scenario =
        good("scenario: delivery\nstarts: 3\nmessages: 5\nsize_min: 16\nsize_max: 17\n"
             "class: control\ndial: both\nbusy: 2\ntimeout_ms: 1000\n");
    assert_int_equal(scenario.starts, 3);
    assert_int_equal(scenario.messages, 5);
    assert_int_equal(scenario.size_min, 16);
    assert_int_equal(scenario.size_max, 17);
    assert_true(scenario.is_control);
    assert_true(scenario.is_dialed_both);
    assert_int_equal(scenario.busy, 2);
    assert_int_equal(scenario.timeout_ms, 1000);
    assert_true(good("scenario: delivery\nsteady: true\n").is_steady);
    assert_true(good("scenario: tunnel\nsteady: true\ndial: edge\n").is_steady);
    scenario = good("scenario: tunnel\nruns: 4\nbytes: 9\ndial: both\nbusy: 200\n"
                    "target_late_ms: 20\n");
    assert_int_equal(scenario.starts, 4);
    assert_int_equal(scenario.bytes, 9);
    assert_int_equal(scenario.busy, 200);
    assert_int_equal(scenario.target_late_ms, 20);
    assert_true(scenario.is_dialed_both);
}

static void every_key_of_a_flap_is_read(void **state)
{
    (void)state;
    struct sn_scenario scenario =
        good("scenario: flap\nduration_ms: 48001\nup_min_ms: 101\nup_max_ms: 102\nstop_min_ms: 3\n"
             "stop_max_ms: 9000\nper_second: 5\nsize_min: 16\nsize_max: 17\nclass: control\n"
             "bytes: 18\nlink_kib: 19\ngap_max_ms: 20\ngrowth_max_kib: 21\nlog_max_kib: 22\n"
             "busy: 23\ntimeout_ms: 2400\n");
    const struct sn_soak_flap wanted = {48001, 101, 102, 3, 9000, 5, 19, 20, 21, 22};
    assert_memory_equal(&scenario.flap, &wanted, sizeof wanted);
    assert_int_equal(scenario.messages, 241); /* the last one is due at 48000 ms */
    assert_int_equal(scenario.size_min, 16);
    assert_int_equal(scenario.size_max, 17);
    assert_true(scenario.is_control);
    assert_int_equal(scenario.bytes, 18);
    assert_int_equal(scenario.busy, 23);
    assert_int_equal(scenario.timeout_ms, 2400);
}

static void bad_files_are_refused_with_a_place(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        const char *part;
    } cases[] = {
        {"starts: 1\n", "required key `scenario` is missing"},
        {"scenario: tunel\n", "s.yaml:1:11: scenario: "},
        {"scenario: tunel\n", "did you mean `tunnel`?"},
        {"scenario: delivery\nstart: 1\n", "s.yaml:2:1: start: "},
        {"scenario: delivery\nstart: 1\n", "did you mean `starts`?"},
        {"scenario: delivery\nbytes: 1\n", "s.yaml:2:1: bytes: "},
        {"scenario: tunnel\nmessages: 1\n", "s.yaml:2:1: messages: "},
        {"scenario: delivery\nstarts: 0\n", "s.yaml:2:9: starts: "},
        {"scenario: delivery\nmessages: many\n", "s.yaml:2:11: messages: "},
        {"scenario: delivery\nmessages: 60001\n", "s.yaml:2:11: messages: "},
        {"scenario: delivery\nsize_max: 196609\n", "s.yaml:2:11: size_max: "},
        {"scenario: delivery\nsize_min: 15\n", "s.yaml:2:11: size_min: "},
        {"scenario: delivery\nsize_max: 63\n",
         "s.yaml:2:11: size_max: the smallest message has 64 bytes and the largest 63"},
        {"scenario: delivery\nsize_min: 65537\n", "s.yaml:2:11: size_min: the smallest"},
        {"scenario: tunnel\nbusy: 201\n", "s.yaml:2:7: busy: "},
        {"scenario: delivery\nsteady: 1\n", "s.yaml:2:9: steady: "},
        {"scenario: tunnel\nsteady: true\ndial: both\n", "s.yaml:2:9: steady: where both dial"},
        {"scenario: flap\nsteady: true\n", "s.yaml:2:1: steady: "},
        {"scenario: flap\ndial: both\n", "s.yaml:2:1: dial: "},
        {"scenario: flap\nmessages: 1\n", "s.yaml:2:1: messages: "},
        {"scenario: delivery\nper_second: 1\n", "s.yaml:2:1: per_second: "},
        {"scenario: flap\nper_second: 0\n", "s.yaml:2:13: per_second: "},
        {"scenario: flap\nper_second: 101\n",
         "s.yaml:2:13: per_second: these are 60600 messages, and a soak actor counts 60000"},
        {"scenario: flap\nduration_ms: 600001\n", "s.yaml:2:14: duration_ms: these are 60001"},
        {"scenario: flap\nup_min_ms: 20001\n",
         "s.yaml:2:12: up_min_ms: `up_min_ms` is 20001 and `up_max_ms` 20000"},
        {"scenario: flap\nup_max_ms: 2999\n", "s.yaml:2:12: up_max_ms: "},
        {"scenario: flap\nup_min_ms: 99\n", "s.yaml:2:12: up_min_ms: "},
        {"scenario: flap\nstop_min_ms: 5001\n", "s.yaml:2:14: stop_min_ms: "},
        {"scenario: flap\nstop_max_ms: 9001\n", "s.yaml:2:14: stop_max_ms: "},
        {"scenario: flap\nsize_max: 63\n", "s.yaml:2:11: size_max: "},
        {"scenario: flap\nduration_ms: 47999\ngrowth_max_kib: 1\n",
         "s.yaml:3:17: growth_max_kib: needs a `duration_ms` of at least 48000"},
        {"scenario: flop\n", "did you mean `flap`?"},
        {"scenario: tunnel\nbytes: 268435457\n", "s.yaml:2:8: bytes: "},
        {"scenario: tunnel\ntarget_late_ms: 10001\n", "s.yaml:2:17: target_late_ms: "},
        {"scenario: delivery\ntarget_late_ms: 1\n", "s.yaml:2:1: target_late_ms: "},
        {"scenario: tunnel\ntimeout_ms: 999\n", "s.yaml:2:13: timeout_ms: "},
        {"scenario: tunnel\nscenario: tunnel\n", "s.yaml:2:1: "},
        {"- scenario\n", "s.yaml:1:1: "},
        {"", "s.yaml:"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sn_scenario scenario = {.starts = 77};
        char text[2000];
        assert_int_equal(parse(cases[i].yaml, &scenario, text, sizeof text), SN_EINVAL);
        if (strstr(text, cases[i].part) == NULL) assert_string_equal(text, cases[i].part);
        assert_int_equal(scenario.starts, 77); /* untouched */
    }
}

static const struct {
    const char *name;
    struct sn_scenario wanted;
} shipped[] = {
    {"starve", {SN_SOAK_TUNNEL, 10, 0, 0, 0, 0, 0, 4 << 20, 0, 100, 90000, 1, {0}}},
    {"starve-delivery", {SN_SOAK_DELIVERY, 4, 800, 64, 65536, 0, 0, 0, 0, 100, 90000, 1, {0}}},
    {"quick-starve", {SN_SOAK_TUNNEL, 1, 0, 0, 0, 0, 0, 1 << 20, 0, 100, 180000, 1, {0}}},
    {"quick-starve-delivery",
     {SN_SOAK_DELIVERY, 1, 200, 64, 65536, 0, 0, 0, 0, 100, 180000, 1, {0}}},
    {"flap",
     {SN_SOAK_FLAP,
      1,
      60000,
      64,
      32768,
      0,
      0,
      16 << 20,
      0,
      0,
      90000,
      0,
      {600000, 3000, 20000, 1000, 5000, 100, 8192, 15000, 1024, 1024}}},
    {"quick-flap",
     {SN_SOAK_FLAP,
      1,
      2000,
      64,
      32768,
      0,
      0,
      8 << 20,
      0,
      0,
      90000,
      0,
      {20000, 1000, 3000, 300, 1500, 100, 8192, 0, 0, 0}}},
    {"delivery", {SN_SOAK_DELIVERY, 40, 800, 64, 65536, 0, 1, 0, 0, 0, 90000}},
    {"tunnel", {SN_SOAK_TUNNEL, 5, 0, 0, 0, 0, 0, 32 << 20, 0, 8, 90000}},
    {"late-tunnel", {SN_SOAK_TUNNEL, 5, 0, 0, 0, 0, 0, 32 << 20, 3000, 0, 90000}},
    {"quick-delivery", {SN_SOAK_DELIVERY, 3, 800, 64, 65536, 0, 0, 0, 0, 0, 90000}},
    {"quick-tunnel", {SN_SOAK_TUNNEL, 2, 0, 0, 0, 0, 0, 4 << 20, 0, 2, 90000}},
    {"quick-late-tunnel", {SN_SOAK_TUNNEL, 1, 0, 0, 0, 0, 0, 4 << 20, 3000, 0, 90000}},
};

static void shipped_scenarios_are_what_they_promise(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof shipped / sizeof shipped[0]; i++) {
        char path[512];
        char yaml[4096];
        (void)snprintf(path, sizeof path, SCENARIOS "/%s.yaml", shipped[i].name);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        size_t size = fread(yaml, 1, sizeof yaml - 1, file);
        (void)fclose(file);
        yaml[size] = '\0';
        struct sn_scenario got = good(yaml);
        const struct sn_scenario *wanted = &shipped[i].wanted;
        assert_int_equal(got.kind, wanted->kind);
        assert_int_equal(got.starts, wanted->starts);
        assert_int_equal(got.messages, wanted->messages);
        assert_int_equal(got.size_min, wanted->size_min);
        assert_int_equal(got.size_max, wanted->size_max);
        assert_int_equal(got.is_dialed_both, wanted->is_dialed_both);
        assert_int_equal(got.bytes, wanted->bytes);
        assert_int_equal(got.target_late_ms, wanted->target_late_ms);
        assert_int_equal(got.busy, wanted->busy);
        assert_int_equal(got.timeout_ms, wanted->timeout_ms);
        assert_int_equal(got.is_steady, wanted->is_steady);
        assert_memory_equal(&got.flap, &wanted->flap, sizeof got.flap);
    }
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    for (uint64_t nth = 1;; nth++) {
        struct sn_scenario scenario;
        char text[2000];
        sn_alloc_fail_nth(nth);
        enum sn_err err = parse("scenario: delivery\nstarts: 3\n", &scenario, text, sizeof text);
        sn_alloc_fail_nth(0);
        assert_int_equal(sn_alloc_in_use(), before);
        if (err == SN_OK) return;
        assert_int_equal(err, SN_ENOMEM);
        assert_in_range(nth, 1, 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(every_key_of_a_flap_is_read),
        cmocka_unit_test(bad_files_are_refused_with_a_place),
        cmocka_unit_test(shipped_scenarios_are_what_they_promise),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
