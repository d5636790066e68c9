/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: a good receiver of parcels, except for the answers that are switched off. */
#include "hostile_member/talk.h"

#include <string.h>

#include "base/alloc.h"
#include "hostile_member/member.h"

#define INPUT_BYTES   (SN_PARCEL_BYTES_MAX + SN_SP_HEAD_BYTES + 64u)
#define STEP_BYTES    32768u
#define WRITE_MS      5000u
#define REPLY_PAYLOAD 1024u

static void on_opened(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                      uint32_t meta_size);
static void on_readable(void *user, struct sn_stream *stream);
static void on_closed(void *user, struct sn_stream *stream, enum sn_err reason);

static const struct sn_mux_ops MUX_OPS = {on_opened};
static const struct sn_stream_ops STREAM_OPS = {.readable = on_readable, .closed = on_closed};
static const uint8_t SP_HELLO[SN_SP_HELLO_BYTES] = {0, 'S', 'P', 0, 0, 0x11, 0, 0};

/* --- Life --------------------------------------------------------------------------------------------- */

void hm_talk_init(struct hm_talk *talk, struct hm_member *member)
{
    static const uint8_t seed[16];
    *talk = (struct hm_talk){.member = member};
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        struct hm_class *class = &talk->classes[i];
        sni_names_init(&class->names, seed);
        class->next_sequence = class->next_ack = 1;
    }
}

void hm_talk_forget(struct hm_talk *talk)
{
    hm_talk_down(talk);
    sn_mux_free(talk->mux);
    sn_seal_free(talk->seal);
    talk->mux = NULL;
    talk->seal = NULL;
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        struct hm_class *class = &talk->classes[i];
        sni_names_cut(&class->names, 0);
        class->next_sequence = class->next_ack = 1;
        class->acked = class->received = 0;
    }
}

void hm_talk_fini(struct hm_talk *talk)
{
    hm_talk_forget(talk);
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) sni_names_fini(&talk->classes[i].names);
    hm_crates_fini(&talk->crates);
}

static int is_same_end(const struct sn_seal_end *a, const struct sn_seal_end *b)
{
    return a->epoch == b->epoch && memcmp(a->boot_public, b->boot_public, 32) == 0;
}

static enum sn_err meet(struct hm_talk *talk, const struct sn_seal_end *self,
                        const struct sn_seal_end *peer)
{
    struct sn_mux_config config = {
        .ops = &MUX_OPS,
        .arg = talk,
        .window_bytes = SN_STREAM_WINDOW_BYTES,
        .streams_max = SN_STREAMS_MAX,
        .even_ids = (uint8_t)(memcmp(self->id.bytes, peer->id.bytes, SN_KEY_BYTES) < 0)};
    hm_talk_forget(talk);
    talk->self = *self;
    talk->peer = *peer;
    enum sn_err err = sn_mux_new(&config, &talk->mux);
    if (err != SN_OK) return err;
    return sn_seal_new(talk->member->boot_key, self, peer, &talk->seal);
}

enum sn_err hm_talk_up(struct hm_talk *talk, struct hm_lane *lane)
{
    const struct sn_hello *other = &lane->other;
    struct sn_seal_end self = {.id = talk->member->identity.id, .epoch = lane->lies.hello.epoch};
    struct sn_seal_end peer = {.id = other->id, .epoch = other->epoch};
    memcpy(self.boot_public, lane->lies.hello.boot_public, sizeof self.boot_public);
    memcpy(peer.boot_public, other->boot_public, sizeof peer.boot_public);
    if (talk->mux == NULL || !is_same_end(&self, &talk->self) || !is_same_end(&peer, &talk->peer)) {
        enum sn_err err = meet(talk, &self, &peer);
        if (err != SN_OK) return err;
    }
    talk->lane = lane;
    sn_mux_lane_up(talk->mux, 0);
    return SN_OK;
}

void hm_talk_down(struct hm_talk *talk)
{
    if (talk->lane == NULL) return;
    talk->lane->is_served = 0;
    talk->lane = NULL;
    sn_mux_lane_down(talk->mux, 0, 1, SN_ERESET); /* closes the link's streams */
}

/* --- The link's streams ---------------------------------------------------------------------------------- */

static void write_all(struct sn_stream *stream, const void *bytes, size_t size)
{
    struct sn_buf piece;
    if (sn_buf_new((uint32_t)size, SN_FRAME_HEADER_BYTES, &piece) != SN_OK) return;
    memcpy(piece.data, bytes, size);
    piece.size = (uint32_t)size;
    if (sn_stream_write(stream, &piece, 0) != SN_OK) sn_buf_unref(&piece);
}

static void take_stream(struct hm_talk *talk, struct sn_stream *stream, unsigned class_id)
{
    struct hm_class *class = &talk->classes[class_id];
    class->input = sn_alloc_raw(INPUT_BYTES);
    if (class->input == NULL) return;
    class->stream = stream;
    class->input_size = 0;
    class->has_hello = 0;
    sn_stream_set_user(stream, &STREAM_OPS, talk);
    write_all(stream, SP_HELLO, sizeof SP_HELLO);
}

static void on_opened(void *arg, struct sn_stream *stream, const char *service, const uint8_t *meta,
                      uint32_t meta_size)
{
    struct hm_talk *talk = arg;
    int fits = strcmp(service, "link") == 0 && meta_size == 1 && meta[0] < SN_CLASS_COUNT;
    if (!fits || talk->classes[meta[0]].stream != NULL) {
        sn_stream_reset(stream, SN_EDENIED);
        sn_stream_free(stream);
        return;
    }
    sn_stream_accept(stream);
    take_stream(talk, stream, meta[0]);
}

enum sn_err hm_talk_open(struct hm_talk *talk)
{
    if (talk->lane == NULL) return SN_ESTATE;
    if (memcmp(talk->self.id.bytes, talk->peer.id.bytes, SN_KEY_BYTES) > 0) return SN_OK;
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        struct sn_stream *stream = NULL;
        uint8_t meta = (uint8_t)i;
        if (talk->classes[i].stream != NULL) continue;
        enum sn_err err = sn_stream_open(talk->mux, 0, SN_QOS_CONTROL, SN_STREAM_SESSION, "link",
                                         &meta, 1, &stream);
        if (err != SN_OK) return err;
        take_stream(talk, stream, i);
    }
    return SN_OK;
}

int hm_talk_is_linked(const struct hm_talk *talk)
{
    for (unsigned i = 0; i < SN_CLASS_COUNT; i++) {
        if (talk->classes[i].stream == NULL || !talk->classes[i].has_hello) return 0;
    }
    return 1;
}

static unsigned class_of(const struct hm_talk *talk, const struct sn_stream *stream)
{
    unsigned i = 0;
    while (talk->classes[i].stream != stream) i++;
    return i;
}

static void on_closed(void *user, struct sn_stream *stream, enum sn_err reason)
{
    struct hm_talk *talk = user;
    (void)reason; /* the lane tells it */
    struct hm_class *class = &talk->classes[class_of(talk, stream)];
    class->stream = NULL;
    class->has_hello = 0;
    sn_free(class->input, INPUT_BYTES);
    class->input = NULL;
    sn_stream_free(stream);
}

/* --- Parcels that come ------------------------------------------------------------------------------------ */

static void send_parcel(struct hm_talk *talk, unsigned class_id, const struct sn_pack *body,
                        int is_ack_only)
{
    static uint8_t bytes[SN_SP_HEAD_BYTES + SN_PARCEL_BYTES_MAX];
    struct hm_class *class = &talk->classes[class_id];
    struct sn_parcel_header header = {.class_id = (uint8_t)class_id,
                                      .is_ack_only = (uint8_t)is_ack_only,
                                      .source = talk->self.id,
                                      .destination = talk->peer.id,
                                      .source_epoch = talk->self.epoch,
                                      .destination_epoch = talk->peer.epoch,
                                      .sequence =
                                          is_ack_only ? class->next_ack++ : class->next_sequence++};
    uint8_t nonce[SN_SEAL_NONCE_BYTES];
    uint32_t size = 0;
    size_t body_size = 0;
    uint8_t *parcel = bytes + SN_SP_HEAD_BYTES;
    if (sn_pack_finish(body, &body_size) != SN_OK || class->stream == NULL) return;
    sn_env_random(talk->member->env, nonce, sizeof nonce);
    memcpy(parcel + SN_PARCEL_BODY_AT, body->data, body_size);
    if (sn_parcel_make(&header, talk->seal, talk->member->identity.key, nonce, parcel,
                       (uint32_t)body_size, &size) != SN_OK) {
        return;
    }
    hm_crate_head(bytes, size + SN_SP_HOPS_BYTES, 1);
    write_all(class->stream, bytes, SN_SP_HEAD_BYTES + size);
}

static void acknowledge(struct hm_talk *talk, unsigned class_id)
{
    uint8_t bytes[64];
    struct sn_pack pack;
    if (talk->acks_off) return;
    sn_pack_init(&pack, bytes, sizeof bytes);
    sn_pack_map(&pack, 2);
    sn_pack_key_uint(&pack, 1, talk->classes[class_id].received);
    sn_pack_key_uint(&pack, 3, talk->classes[class_id].acked + 1);
    send_parcel(talk, class_id, &pack, 1);
}

static void answer(struct hm_talk *talk, unsigned class_id, const struct sni_message *question)
{
    uint8_t bytes[REPLY_PAYLOAD + 512];
    struct sn_pack pack;
    if (talk->answers_off || question->payload_size > REPLY_PAYLOAD) return;
    sn_pack_init(&pack, bytes, sizeof bytes);
    sn_pack_map(&pack, 2);
    sn_pack_key_uint(&pack, 3, talk->classes[class_id].acked + 1);
    sn_pack_uint(&pack, 4);
    sn_pack_array(&pack, 1);
    sn_pack_map(&pack, 6);
    sn_pack_key_uint(&pack, 1, SN_LETTER_REPLY);
    sn_pack_key_text(&pack, 2, question->from);
    sn_pack_key_text(&pack, 3, question->to);
    sn_pack_key_text(&pack, 4, "ping.pong");
    sn_pack_key_uint(&pack, 5, question->correlation);
    sn_pack_key_bin(&pack, 7, question->payload, question->payload_size);
    send_parcel(talk, class_id, &pack, 0);
}

static void take_messages(struct hm_talk *talk, unsigned class_id, struct sni_body *body)
{
    struct sni_message message;
    for (uint32_t i = 0; i < body->message_count; i++) {
        sni_body_next_message(body, &talk->classes[class_id].names, &message);
        if (message.kind == SN_LETTER_REPLY) {
            hm_crates_answer(&talk->crates, message.correlation, message.payload,
                             message.payload_size);
        } else if (message.kind == SN_LETTER_ASK) {
            talk->questions++;
            answer(talk, class_id, &message);
        }
    }
}

static void take_body(struct hm_talk *talk, unsigned class_id,
                      const struct sn_parcel_header *header, uint8_t *bytes)
{
    struct hm_class *class = &talk->classes[class_id];
    struct sni_body body;
    uint32_t size = 0;
    if (sn_parcel_open(bytes, header, talk->seal, &size) != SN_OK ||
        sni_body_parse(bytes + SN_PARCEL_BODY_AT, size, &class->names, &body) != SN_OK) {
        talk->wrong++;
        return;
    }
    if (body.has_ack && body.acked > class->acked) class->acked = body.acked;
    talk->refused += body.exception_count;
    if (header->is_ack_only) {
        talk->acks++;
        return;
    }
    talk->parcels++;
    class->received = header->sequence;
    take_messages(talk, class_id, &body);
    acknowledge(talk, class_id);
}

static void take_parcel(struct hm_talk *talk, unsigned class_id, uint8_t *bytes, uint32_t size)
{
    struct hm_class *class = &talk->classes[class_id];
    struct sn_parcel_header header;
    uint8_t digest[SN_DIGEST_BYTES];
    if (sn_parcel_read(bytes, size, &header) != SN_OK) {
        talk->wrong++;
        return;
    }
    sn_sha256(bytes, size, digest);
    uint8_t *known = class->digests[header.sequence % HM_DIGESTS];
    if (header.is_ack_only || header.sequence == class->received + 1) {
        if (!header.is_ack_only) memcpy(known, digest, sizeof digest);
        take_body(talk, class_id, &header, bytes);
    } else if (header.sequence <= class->received) {
        talk->repeats++;
        talk->repeats_altered += memcmp(known, digest, sizeof digest) != 0;
        acknowledge(talk, class_id);
    } else {
        talk->wrong++;
    }
}

/* Takes what is whole from the class's input. */
static void take_units(struct hm_talk *talk, unsigned class_id)
{
    struct hm_class *class = &talk->classes[class_id];
    size_t at = 0;
    for (;;) {
        size_t left = class->input_size - at;
        if (!class->has_hello) {
            if (left < SN_SP_HELLO_BYTES) break;
            class->has_hello = 1;
            at += SN_SP_HELLO_BYTES;
            continue;
        }
        if (left < SN_SP_HEAD_BYTES) break;
        const uint8_t *head = class->input + at;
        uint32_t size =
            ((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]) -
            SN_SP_HOPS_BYTES;
        if (left - SN_SP_HEAD_BYTES < size) break;
        take_parcel(talk, class_id, class->input + at + SN_SP_HEAD_BYTES, size);
        at += SN_SP_HEAD_BYTES + size;
    }
    memmove(class->input, class->input + at, class->input_size - at);
    class->input_size -= at;
}

static void on_readable(void *user, struct sn_stream *stream)
{
    struct hm_talk *talk = user;
    unsigned class_id = class_of(talk, stream);
    struct hm_class *class = &talk->classes[class_id];
    struct sn_buf piece;
    while (sn_stream_read(stream, &piece) == SN_OK) {
        for (uint32_t at = 0; at < piece.size;) {
            uint32_t step = piece.size - at;
            if (step > INPUT_BYTES - class->input_size)
                step = (uint32_t)(INPUT_BYTES - class->input_size);
            memcpy(class->input + class->input_size, piece.data + at, step);
            class->input_size += step;
            at += step;
            take_units(talk, class_id);
        }
        sn_stream_consume(stream, piece.size);
        sn_buf_unref(&piece);
    }
}

/* --- Frames -------------------------------------------------------------------------------------------------- */

void hm_talk_input(struct hm_talk *talk, const struct sn_frame *frame, const uint8_t *payload)
{
    enum sn_err err;
    if (frame->type == SN_FRAME_DATA) {
        struct sn_buf piece;
        err = sn_buf_new(frame->size, 0, &piece);
        if (err != SN_OK) return;
        memcpy(piece.data, payload, frame->size);
        piece.size = frame->size;
        err = sn_mux_input_data(talk->mux, 0, frame, 0, &piece);
    } else {
        err = sn_mux_input(talk->mux, 0, frame, payload);
    }
    (void)err; /* about a stream that only the script knows */
}

void hm_talk_run(struct hm_talk *talk)
{
    struct sn_frame frame;
    struct sn_buf payload;
    int has_headroom = 0;
    (void)sn_mux_tick(talk->mux, sn_env_now_ns(talk->member->env)); /* rounds are frequent */
    while (sn_mux_output(talk->mux, 0, SN_FRAME_DATA_BYTES_MAX, &frame, &payload, &has_headroom) ==
           SN_OK) {
        hm_lane_send(talk->lane, &frame, payload.data, payload.size);
        sn_buf_unref(&payload);
    }
}

enum sn_err hm_talk_write(struct hm_talk *talk, unsigned class_id, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t end = hm_now_ms(talk->member) + WRITE_MS;
    while (size > 0) {
        struct sn_stream *stream = talk->classes[class_id].stream;
        if (stream == NULL) return SN_ESTATE;
        size_t step = size < STEP_BYTES ? size : STEP_BYTES;
        if (sn_stream_writable_bytes(stream) < step) {
            if (hm_now_ms(talk->member) >= end) return SN_EAGAIN;
            (void)hm_member_serve(talk->member, -1, 1); /* no descriptor */
            continue;
        }
        write_all(stream, at, step);
        at += step;
        size -= step;
    }
    return SN_OK;
}
