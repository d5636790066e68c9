/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: without lies it is a handshake that an agent accepts. */
#include "hostile_member/lane.h"

#include <openssl/ssl.h>
#include <string.h>

#include "base/alloc.h"
#include "hostile_member/member.h"

void hm_lane_init(struct hm_lane *lane, struct hm_member *member)
{
    *lane = (struct hm_lane){.member = member};
    hm_wire_init(&lane->wire);
}

enum sn_err hm_lane_begin(struct hm_lane *lane, int is_dialer, const struct hm_lies *lies)
{
    struct hm_member *member = lane->member;
    lane->lies = *lies;
    lane->is_dialer = (uint8_t)is_dialer;
    lane->step = HM_TCP;
    if (lane->input == NULL) lane->input = sn_alloc_raw(HM_INPUT_BYTES);
    if (lane->input == NULL) return SN_ENOMEM;
    if (lies->last == HM_TCP) return SN_OK;
    return hm_wire_begin(&lane->wire, member->env, member->identity.tls, &member->trust, is_dialer);
}

void hm_lane_close(struct hm_lane *lane, int with_reset)
{
    struct hm_member *member = lane->member;
    if (member->talk.lane == lane) hm_talk_down(&member->talk);
    hm_wire_close(&lane->wire, with_reset);
    sn_free(lane->input, HM_INPUT_BYTES);
    hm_lane_init(lane, member);
}

int hm_lane_is_over(const struct hm_lane *lane)
{
    const struct hm_wire *wire = &lane->wire;
    if (wire->fd < 0 || wire->end != HM_END_NONE || lane->is_refused) return 1;
    if (wire->sent_bytes >= wire->send_max) return 1;
    return lane->step >= lane->lies.last && hm_wire_waiting(wire) == 0;
}

/* --- Sending ---------------------------------------------------------------------------------------- */

void hm_lane_send(struct hm_lane *lane, const struct sn_frame *frame, const void *payload,
                  size_t payload_size)
{
    uint8_t header[SN_FRAME_HEADER_BYTES];
    struct sn_frame good = *frame;
    good.qos = 0; /* the encoder takes no wrong one */
    sn_frame_encode(&good, header);
    header[2] = frame->qos;
    hm_wire_write(&lane->wire, header, sizeof header);
    if (payload_size > 0) hm_wire_write(&lane->wire, payload, payload_size);
}

static void send_session(struct hm_lane *lane, enum sn_frame_type type, const void *payload,
                         size_t size)
{
    struct sn_frame frame = {.type = (uint8_t)type, .size = (uint32_t)size};
    hm_lane_send(lane, &frame, payload, size);
}

static void send_hello(struct hm_lane *lane)
{
    uint8_t bytes[1024];
    size_t size = 0;
    lane->step = HM_TLS;
    if (lane->lies.last < HM_HELLO) return;
    if (sn_hello_encode(&lane->lies.hello, bytes, sizeof bytes, &size) != SN_OK) return;
    sn_sha256(bytes, size, lane->own_digest);
    send_session(lane, SN_FRAME_HELLO, bytes, size);
    lane->step = HM_HELLO;
}

static void send_ready(struct hm_lane *lane)
{
    if (lane->sent_ready) return;
    send_session(lane, SN_FRAME_READY, NULL, 0);
    lane->sent_ready = 1;
}

static void send_auth(struct hm_lane *lane)
{
    uint8_t signature[SN_SIGNATURE_BYTES];
    struct sn_auth_input input = {.is_dialer = lane->is_dialer};
    if (lane->lies.last < HM_AUTH) return;
    memcpy(input.signer_hello, lane->own_digest, SN_DIGEST_BYTES);
    memcpy(input.other_hello, lane->other_digest, SN_DIGEST_BYTES);
    if (sn_tls_exporter(lane->wire.ssl, input.exporter) != SN_OK) return;
    if (lane->lies.has_wrong_auth) input.exporter[0] ^= 1;
    if (sn_auth_sign(lane->member->identity.key, &input, signature) != SN_OK) return;
    if (lane->lies.has_wrong_order) send_ready(lane);
    send_session(lane, SN_FRAME_AUTH, signature, sizeof signature);
    lane->step = HM_AUTH;
}

/* --- Frames ------------------------------------------------------------------------------------------- */

static void become_up(struct hm_lane *lane)
{
    if (!lane->sent_ready || !lane->got_ready || lane->step == HM_UP) return;
    lane->step = HM_UP;
    struct hm_talk *talk = &lane->member->talk;
    if (lane->lies.hello.lane != 0) return;
    hm_talk_down(talk); /* the later one takes over, as with agents */
    if (hm_talk_up(talk, lane) == SN_OK) lane->is_served = 1;
}

static void take_session_frame(struct hm_lane *lane, const struct sn_frame *frame,
                               const uint8_t *payload)
{
    switch (frame->type) {
    case SN_FRAME_HELLO:
        if (sn_hello_decode(payload, frame->size, &lane->other) != SN_OK) return;
        sn_sha256(payload, frame->size, lane->other_digest);
        send_auth(lane);
        return;
    case SN_FRAME_AUTH:
        if (lane->lies.last >= HM_READY && lane->step == HM_AUTH) {
            send_ready(lane);
            lane->step = HM_READY;
        }
        become_up(lane);
        return;
    case SN_FRAME_READY:
        lane->got_ready = 1;
        become_up(lane);
        return;
    case SN_FRAME_REFUSE:
        lane->is_refused = sn_refusal_decode(payload, frame->size, &lane->refusal) == SN_OK;
        return;
    case SN_FRAME_PING:
        if (!lane->is_rude) send_session(lane, SN_FRAME_PONG, payload, frame->size);
        return;
    default: return;
    }
}

static void take_frame(struct hm_lane *lane, const struct sn_frame *frame, const uint8_t *payload)
{
    if (frame->type <= SN_FRAME_RESET) lane->heard.frames[frame->type]++;
    if (frame->type == SN_FRAME_RESET && frame->size == 4) {
        lane->heard.reset_stream = frame->stream;
        lane->heard.reset_reason = (uint32_t)payload[2] << 8 | payload[3];
    }
    if (frame->type < SN_FRAME_OPEN) {
        take_session_frame(lane, frame, payload);
    } else if (lane->is_served) {
        hm_talk_input(&lane->member->talk, frame, payload);
    }
}

static void take_frames(struct hm_lane *lane)
{
    size_t at = 0;
    struct sn_frame frame;
    while (lane->input_size - at >= SN_FRAME_HEADER_BYTES) {
        const uint8_t *header = lane->input + at;
        if (sn_frame_decode(header, &frame) != SN_OK) {
            lane->wire.end = HM_END_TLS; /* an agent sends no such thing */
            return;
        }
        if (lane->input_size - at - SN_FRAME_HEADER_BYTES < frame.size) break;
        take_frame(lane, &frame, header + SN_FRAME_HEADER_BYTES);
        at += SN_FRAME_HEADER_BYTES + frame.size;
    }
    memmove(lane->input, lane->input + at, lane->input_size - at);
    lane->input_size -= at;
}

void hm_lane_run(struct hm_lane *lane)
{
    struct hm_wire *wire = &lane->wire;
    if (wire->fd < 0) return;
    hm_wire_move(wire);
    if (wire->ssl == NULL) return;
    if (lane->step == HM_TCP) {
        enum sn_err err = hm_wire_shake(wire);
        if (err == SN_OK) send_hello(lane);
        hm_wire_flush(wire);
        if (err != SN_OK) return;
    }
    for (size_t got = 1; got > 0;) {
        got = hm_wire_read(wire, lane->input + lane->input_size, HM_INPUT_BYTES - lane->input_size);
        lane->input_size += got;
        take_frames(lane);
    }
    if (lane->is_served && wire->end != HM_END_NONE) {
        hm_talk_down(&lane->member->talk);
        lane->is_served = 0;
    }
    if (lane->is_served) hm_talk_run(&lane->member->talk);
    hm_wire_flush(wire);
}
