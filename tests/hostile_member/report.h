/* SPDX-License-Identifier: Apache-2.0 */
/* One line of JSON for each thing that was done. */
#ifndef SN_TESTS_HOSTILE_MEMBER_REPORT_H
#define SN_TESTS_HOSTILE_MEMBER_REPORT_H

#include <stdint.h>

#include "base/text.h"

struct hm_report {
    struct sn_text text;
    int has_fields;
    char bytes[8192];
};

void hm_report_begin(struct hm_report *report, const char *verb);
void hm_report_text(struct hm_report *report, const char *key, const char *value);
void hm_report_uint(struct hm_report *report, const char *key, uint64_t value);
void hm_report_bool(struct hm_report *report, const char *key, int value);
/* Fields until hm_report_close belong to the object `key`. */
void hm_report_open(struct hm_report *report, const char *key);
void hm_report_close(struct hm_report *report);
/* Prints the line. */
void hm_report_end(struct hm_report *report);

#endif
