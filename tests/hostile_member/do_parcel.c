/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about parcels, and waiting. */
#include <string.h>

#include "hostile_member/commands.h"

#define WAIT_MS 5000u

enum sn_err hm_do_make(struct hm_command *command)
{
    struct hm_crate *crate = NULL;
    enum sn_err err = hm_crate_make(command->member, command->line, &crate);
    if (err != SN_OK) return err;
    hm_report_uint(command->report, "size", crate->size);
    hm_report_uint(command->report, "sequence", crate->sequence);
    return SN_OK;
}

static struct hm_crate *named(struct hm_command *command)
{
    return hm_crates_find(&command->member->talk.crates, hm_line_text(command->line, "name", "x"));
}

enum sn_err hm_do_alter(struct hm_command *command)
{
    const struct hm_line *line = command->line;
    struct hm_crate *from = named(command);
    if (from == NULL) return SN_ENOENT;
    uint64_t size = from->size - hm_line_uint(line, "cut", 0) + hm_line_uint(line, "grow", 0);
    if (size == 0 || size > 2 * SN_PARCEL_BYTES_MAX) return SN_ETOOBIG;
    uint64_t at = hm_line_uint(line, "at", 0);
    struct hm_crate *to = hm_crates_place(&command->member->talk.crates,
                                          hm_line_text(line, "as", "y"), (uint32_t)size);
    if (to == NULL) return SN_ENOMEM;
    to->class_id = from->class_id;
    to->sequence = from->sequence;
    memcpy(to->bytes, from->bytes, from->size < to->size ? from->size : to->size);
    if (at < to->size) to->bytes[at] ^= (uint8_t)hm_line_uint(line, "xor", 0);
    return SN_OK;
}

static int is_written(void *arg)
{
    const struct hm_lane *lane = arg;
    return hm_wire_waiting(&lane->wire) == 0 || lane->wire.end != HM_END_NONE;
}

enum sn_err hm_do_send(struct hm_command *command)
{
    const struct hm_line *line = command->line;
    struct hm_talk *talk = &command->member->talk;
    struct hm_crate *crate = named(command);
    uint8_t head[SN_SP_HEAD_BYTES];
    enum sn_err err = SN_OK;
    if (crate == NULL) return SN_ENOENT;
    unsigned class_id = (unsigned)hm_line_uint(line, "class", crate->class_id) % 2;
    uint64_t length = hm_line_uint(line, "length", crate->size + SN_SP_HOPS_BYTES);
    hm_crate_head(head, length, (uint32_t)hm_line_uint(line, "hops", 1));
    for (uint64_t i = hm_line_uint(line, "count", 1); i > 0 && err == SN_OK; i--) {
        err = hm_talk_write(talk, class_id, head, sizeof head);
        if (err == SN_OK) err = hm_talk_write(talk, class_id, crate->bytes, crate->size);
    }
    (void)hm_member_until(command->member, is_written, command->lane, 2000); /* the report tells */
    return err;
}

enum sn_err hm_do_look(struct hm_command *command)
{
    const struct hm_talk *talk = &command->member->talk;
    const struct hm_crate *crate = named(command);
    struct hm_report *report = command->report;
    if (crate != NULL) {
        hm_report_uint(report, "answers", crate->answers);
        hm_report_bool(report, "echoed", crate->is_echoed);
        hm_report_uint(report, "echo_size", crate->echo_size);
    }
    hm_report_uint(report, "parcels", talk->parcels);
    hm_report_uint(report, "acks", talk->acks);
    hm_report_uint(report, "acked", talk->classes[SN_CLASS_APPLICATION].acked);
    hm_report_uint(report, "repeats", talk->repeats);
    hm_report_uint(report, "repeats_altered", talk->repeats_altered);
    hm_report_uint(report, "questions", talk->questions);
    hm_report_uint(report, "messages_refused", talk->refused);
    hm_report_uint(report, "wrong", talk->wrong);
    hm_report_bool(report, "linked", hm_talk_is_linked(talk));
    return SN_OK;
}

/* --- Waiting ---------------------------------------------------------------------------------------------- */

struct wanted {
    struct hm_command *command;
    const char *what;
    uint64_t count;
};

static int is_there(void *arg)
{
    const struct wanted *wanted = arg;
    const struct hm_command *command = wanted->command;
    const struct hm_lane *lane = command->lane;
    const struct hm_talk *talk = &command->member->talk;
    const struct hm_crate *crate = named(wanted->command);
    int is_over = lane->wire.fd < 0 || lane->wire.end != HM_END_NONE;
    const char *what = wanted->what;
    if (strcmp(what, "end") == 0) return is_over;
    if (strcmp(what, "nothing") == 0) return 0;
    if (strcmp(what, "refused") == 0) return lane->is_refused || is_over;
    if (strcmp(what, "up") == 0) return lane->step == HM_UP || is_over;
    if (strcmp(what, "link") == 0) return hm_talk_is_linked(talk) || is_over;
    if (strcmp(what, "answer") == 0) return (crate != NULL && crate->answers > 0) || is_over;
    if (strcmp(what, "acked") == 0) {
        return (crate != NULL && talk->classes[crate->class_id].acked >= crate->sequence) ||
               is_over;
    }
    if (strcmp(what, "parcels") == 0) return talk->parcels >= wanted->count || is_over;
    if (strcmp(what, "repeats") == 0) return talk->repeats >= wanted->count || is_over;
    if (strcmp(what, "reset") == 0)
        return lane->heard.frames[SN_FRAME_RESET] >= wanted->count || is_over;
    if (strcmp(what, "pong") == 0)
        return lane->heard.frames[SN_FRAME_PONG] >= wanted->count || is_over;
    return 1;
}

enum sn_err hm_do_wait(struct hm_command *command)
{
    struct wanted wanted = {.command = command,
                            .what = hm_line_text(command->line, "for", "end"),
                            .count = hm_line_uint(command->line, "count", 1)};
    uint64_t ms = hm_line_uint(command->line, "ms", WAIT_MS);
    if (!hm_member_until(command->member, is_there, &wanted, ms)) return SN_ETIMEDOUT;
    (void)hm_do_look(command); /* cannot fail */
    return SN_OK;
}
