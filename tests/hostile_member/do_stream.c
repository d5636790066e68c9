/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about frames and streams. */
#include <string.h>

#include "base/alloc.h"
#include "hostile_member/commands.h"
#include "stream/bytes_int.h"
#include "wire/pack.h"

#define PAYLOAD_MAX (SN_FRAME_DATA_BYTES_MAX + 4096u)
#define WAITING_MAX (256u * 1024u) /* more is sent before more is made */
#define FLOOD_MS    20000u
#define LINK_MS     8000u

static int has_room(void *arg)
{
    const struct hm_lane *lane = arg;
    return hm_wire_waiting(&lane->wire) < WAITING_MAX || lane->wire.end != HM_END_NONE;
}

static int is_written(void *arg)
{
    const struct hm_lane *lane = arg;
    return hm_wire_waiting(&lane->wire) == 0 || lane->wire.end != HM_END_NONE;
}

/* Sends the frame as often as the line says, `step` added to the stream each time. */
static enum sn_err send_frames(struct hm_command *command, struct sn_frame *frame,
                               const uint8_t *payload, size_t size)
{
    struct hm_lane *lane = command->lane;
    uint64_t count = hm_line_uint(command->line, "count", 1);
    uint64_t step = hm_line_uint(command->line, "step", 0);
    uint64_t done = 0;
    while (done < count && lane->wire.end == HM_END_NONE) {
        hm_lane_send(lane, frame, payload, size);
        frame->stream += step;
        done++;
        if (!has_room(lane) && !hm_member_until(command->member, has_room, lane, FLOOD_MS)) {
            return SN_ETIMEDOUT;
        }
    }
    hm_report_uint(command->report, "frames", done);
    (void)hm_member_until(command->member, is_written, lane, 2000); /* the report tells */
    return SN_OK;
}

static size_t make_payload(const struct hm_command *command, uint8_t *out)
{
    const struct hm_line *line = command->line;
    size_t size = hm_line_hex(line, "hex", out, PAYLOAD_MAX);
    if (hm_line_has(line, "u64")) {
        sni_put_u64(out, hm_line_uint(line, "u64", 0));
        size = 8;
    } else if (hm_line_has(line, "u32")) {
        sni_put_u32(out, (uint32_t)hm_line_uint(line, "u32", 0));
        size = 4;
    }
    size_t fill = hm_line_uint(line, "fill", 0);
    if (fill > PAYLOAD_MAX - size) fill = PAYLOAD_MAX - size;
    memset(out + size, 'x', fill);
    return size + fill;
}

/* The stream's id: as it is, or that of our ordinal-th stream. */
static uint64_t stream_id(const struct hm_command *command)
{
    const struct hm_talk *talk = &command->member->talk;
    uint64_t ordinal = hm_line_uint(command->line, "ordinal", 0);
    int is_even = memcmp(talk->self.id.bytes, talk->peer.id.bytes, SN_KEY_BYTES) < 0;
    if (ordinal == 0) return hm_line_uint(command->line, "stream", 0);
    return is_even ? 2 * ordinal : 2 * ordinal - 1;
}

enum sn_err hm_do_frame(struct hm_command *command)
{
    const struct hm_line *line = command->line;
    static uint8_t payload[PAYLOAD_MAX];
    size_t size = make_payload(command, payload);
    struct sn_frame frame = {.type = (uint8_t)hm_line_uint(line, "type", 0),
                             .flags = (uint8_t)hm_line_uint(line, "flags", 0),
                             .qos = (uint8_t)hm_line_uint(line, "qos", 0),
                             .size = (uint32_t)hm_line_uint(line, "size", size),
                             .stream = stream_id(command),
                             .offset = hm_line_uint(line, "offset", 0)};
    hm_report_uint(command->report, "stream", frame.stream);
    return send_frames(command, &frame, payload, size);
}

enum sn_err hm_do_open(struct hm_command *command)
{
    const struct hm_line *line = command->line;
    uint8_t payload[1200];
    uint8_t meta[SN_STREAM_META_BYTES_MAX + 64];
    size_t size = 0;
    struct sn_pack pack;
    size_t meta_size = hm_line_hex(line, "meta", meta, sizeof meta);
    sn_pack_init(&pack, payload, sizeof payload);
    sn_pack_map(&pack, 3);
    sn_pack_key_text(&pack, 0, hm_line_text(line, "service", "nothing"));
    sn_pack_key_bin(&pack, 1, meta, meta_size);
    sn_pack_key_uint(&pack, 2, hm_line_uint(line, "credit", SN_STREAM_INITIAL_CREDIT));
    enum sn_err err = sn_pack_finish(&pack, &size);
    if (err != SN_OK) return err;
    struct sn_frame frame = {.type = SN_FRAME_OPEN,
                             .flags = (uint8_t)hm_line_uint(line, "flags", 0),
                             .qos = (uint8_t)hm_line_uint(line, "qos", 0),
                             .size = (uint32_t)size,
                             .stream = stream_id(command)};
    hm_report_uint(command->report, "stream", frame.stream);
    return send_frames(command, &frame, payload, size);
}

static int is_linked(void *arg)
{
    const struct hm_lane *lane = arg;
    return hm_talk_is_linked(&lane->member->talk) || lane->wire.end != HM_END_NONE;
}

enum sn_err hm_do_link(struct hm_command *command)
{
    struct hm_talk *talk = &command->member->talk;
    enum sn_err err = hm_talk_open(talk);
    if (err != SN_OK) return err;
    uint64_t ms = hm_line_uint(command->line, "ms", LINK_MS);
    if (!hm_member_until(command->member, is_linked, command->lane, ms)) return SN_ETIMEDOUT;
    if (!hm_talk_is_linked(talk)) return SN_ECLOSED;
    struct sn_stream_info info;
    sn_stream_info(talk->classes[SN_CLASS_APPLICATION].stream, &info);
    hm_report_uint(command->report, "stream", info.id);
    hm_report_uint(command->report, "written", info.sent);
    hm_report_uint(command->report, "is_ours", info.is_local);
    return SN_OK;
}

enum sn_err hm_do_sp(struct hm_command *command)
{
    static uint8_t payload[PAYLOAD_MAX];
    size_t size = make_payload(command, payload);
    unsigned class_id = (unsigned)hm_line_uint(command->line, "class", SN_CLASS_APPLICATION) % 2;
    enum sn_err err = hm_talk_write(&command->member->talk, class_id, payload, size);
    (void)hm_member_until(command->member, is_written, command->lane, 2000); /* the report tells */
    return err;
}
