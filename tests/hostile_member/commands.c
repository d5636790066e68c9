/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: every line is answered by one report, which ends with what the other side did meanwhile. */
#include "hostile_member/commands.h"

#include <string.h>

static const struct {
    const char *verb;
    enum sn_err (*run)(struct hm_command *command);
} COMMANDS[] = {
    {"boot", hm_do_boot},   {"dial", hm_do_dial},     {"listen", hm_do_listen},
    {"close", hm_do_close}, {"accept", hm_do_accept}, {"raw", hm_do_raw},
    {"tcp", hm_do_tcp},     {"set", hm_do_set},       {"frame", hm_do_frame},
    {"open", hm_do_open},   {"link", hm_do_link},     {"sp", hm_do_sp},
    {"make", hm_do_make},   {"alter", hm_do_alter},   {"send", hm_do_send},
    {"look", hm_do_look},   {"wait", hm_do_wait},
};

static const char *step_name(enum hm_step step)
{
    static const char *const names[] = {"closed", "tcp", "tls", "hello", "auth", "ready", "up"};
    return names[step];
}

static void report_heard(struct hm_report *report, const struct hm_heard *heard)
{
    static const struct {
        const char *name;
        unsigned type;
    } kinds[] = {{"ping", SN_FRAME_PING},       {"pong", SN_FRAME_PONG},
                 {"goodbye", SN_FRAME_GOODBYE}, {"open", SN_FRAME_OPEN},
                 {"accept", SN_FRAME_ACCEPT},   {"data", SN_FRAME_DATA},
                 {"ack", SN_FRAME_ACK},         {"reset", SN_FRAME_RESET}};
    hm_report_open(report, "heard");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (heard->frames[kinds[i].type] > 0)
            hm_report_uint(report, kinds[i].name, heard->frames[kinds[i].type]);
    }
    if (heard->frames[SN_FRAME_RESET] > 0) {
        hm_report_uint(report, "reset_stream", heard->reset_stream);
        hm_report_text(report, "reset_reason", sn_err_name((enum sn_err)heard->reset_reason));
    }
    hm_report_close(report);
}

static void report_lane(struct hm_report *report, struct hm_lane *lane)
{
    hm_report_text(report, "step", step_name(lane->wire.fd < 0 ? HM_CLOSED : lane->step));
    hm_report_text(report, "end", hm_end_name(lane->wire.end));
    hm_report_uint(report, "sent", lane->wire.sent_bytes);
    if (lane->is_refused) {
        hm_report_open(report, "refused");
        hm_report_text(report, "reason", sn_err_name(lane->refusal.reason));
        hm_report_text(report, "text", lane->refusal.text);
        hm_report_uint(report, "need_epoch", lane->refusal.need_epoch);
        hm_report_close(report);
    }
    report_heard(report, &lane->heard);
    memset(&lane->heard, 0, sizeof lane->heard);
}

void hm_command_run(struct hm_member *member, const struct hm_line *line)
{
    static struct hm_report report;
    struct hm_lane *lane = &member->lanes[hm_line_uint(line, "slot", 0) % HM_LANES];
    struct hm_command command = {.member = member, .lane = lane, .line = line, .report = &report};
    enum sn_err err = SN_ENOENT;
    uint64_t begin = hm_now_ms(member);
    hm_report_begin(&report, line->verb);
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        if (strcmp(line->verb, COMMANDS[i].verb) == 0) err = COMMANDS[i].run(&command);
    }
    hm_report_text(&report, "err", sn_err_name(err));
    hm_report_uint(&report, "took_ms", hm_now_ms(member) - begin);
    report_lane(&report, lane);
    hm_report_end(&report);
}
