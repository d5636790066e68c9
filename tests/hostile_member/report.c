/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: each report is one line, written at once. */
#include "hostile_member/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_key(struct hm_report *report, const char *key)
{
    sn_text_add(&report->text, "%s\"%s\":", report->has_fields ? "," : "", key);
    report->has_fields = 1;
}

void hm_report_begin(struct hm_report *report, const char *verb)
{
    sn_text_init(&report->text, report->bytes, sizeof report->bytes);
    sn_text_add(&report->text, "{");
    report->has_fields = 0;
    hm_report_text(report, "did", verb);
}

void hm_report_text(struct hm_report *report, const char *key, const char *value)
{
    add_key(report, key);
    sn_text_add_json(&report->text, value, strlen(value));
}

void hm_report_uint(struct hm_report *report, const char *key, uint64_t value)
{
    add_key(report, key);
    sn_text_add(&report->text, "%" PRIu64, value);
}

void hm_report_bool(struct hm_report *report, const char *key, int value)
{
    add_key(report, key);
    sn_text_add(&report->text, value ? "true" : "false");
}

void hm_report_open(struct hm_report *report, const char *key)
{
    add_key(report, key);
    sn_text_add(&report->text, "{");
    report->has_fields = 0;
}

void hm_report_close(struct hm_report *report)
{
    sn_text_add(&report->text, "}");
    report->has_fields = 1;
}

void hm_report_end(struct hm_report *report)
{
    sn_text_add(&report->text, "}");
    (void)puts(report->text.data); /* when nobody reads any more, stdin ends too */
    (void)fflush(stdout);          /* as above */
}
