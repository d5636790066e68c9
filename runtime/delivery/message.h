/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a parcel: msgpack with integer keys. Unknown keys are skipped, a key that stands twice is refused.
 *
 *   body     {1: acked, 2: exceptions, 3: base, 4: [message...]}
 *   message  {1: kind, 2: to, 3: from, 4: type, 5: correlation, 6: remaining ms, 7: payload}
 *
 * acked       All parcels up to this one were processed; absent when nothing is acknowledged here.
 * exceptions  [[sequence, [index, reason, index, reason...]]...], ascending: letters that were processed and
 *             refused. An acknowledgement carries every one that the sender may not know yet.
 * base        The sender's lowest sequence without an acknowledgement; exceptions below it are settled.
 * kind        enum sn_letter_kind; absent = send. correlation, remaining ms, payload: absent = 0, none, empty.
 *             Remaining time is as of the first sending: a parcel that is sent again does not know better.
 * to, from, type   A handle (integer), a first use [handle, text], or text that gets no handle (names.h). Text is
 *             labels joined by dots, as all names of actors and types are: handlers and logs see nothing else.
 *
 * Thread-safe: no. Blocking: no. Nothing here allocates but the table of names.
 */
#ifndef SN_DELIVERY_MESSAGE_H
#define SN_DELIVERY_MESSAGE_H

#include "actor/letter.h"
#include "delivery/names.h"
#include "wire/cursor.h"
#include "wire/pack.h"

/* What one sender may have in flight per class, and so what a receiver must be ready to keep. Enough for
 * 2.5 M messages/s at 10 ms. With these an acknowledgement always fits in one parcel: at most 14 bytes for
 * a parcel and 4 for a letter, 184 KiB. */
#define SNI_FLIGHT_LETTERS_MAX 32768u
#define SNI_FLIGHT_PARCELS_MAX 4096u
/* One parcel: more than fit when messages carry a payload worth the name. */
#define SNI_PARCEL_LETTERS_MAX 4096u
/* 2^40 ms, 34 years: sums with a clock cannot wrap. */
#define SNI_REMAINING_MS_MAX (UINT64_C(1) << 40)

/* A letter that was processed and not placed. */
struct sni_exception {
    uint64_t sequence;
    uint16_t index;
    uint8_t reason; /* enum sn_reason */
};

struct sni_ack {
    uint64_t acked;
    const struct sni_exception *exceptions; /* ascending */
    uint32_t exception_count;
};

/* --- Writing -------------------------------------------------------------------------------------- */

struct sni_writer {
    struct sn_pack pack;
    struct sni_names *names;
    uint64_t now_ns;
    size_t count_at; /* where the count of messages stands */
    uint32_t message_count;
};

/* `ack` may be NULL. `names` NULL: no messages will follow. */
void sni_writer_begin(struct sni_writer *writer, uint8_t *data, size_t capacity,
                      const struct sni_ack *ack, uint64_t base, struct sni_names *names,
                      uint64_t now_ns);
/* Room for the letter, whatever its names will take. */
int sni_writer_has_room(const struct sni_writer *writer, const struct sn_letter *letter);
/* May give handles to new names. There must be room. */
void sni_writer_add(struct sni_writer *writer, const struct sn_letter *letter);
size_t sni_writer_end(struct sni_writer *writer);

/* --- Reading -------------------------------------------------------------------------------------- */

struct sni_message {
    uint64_t correlation;
    uint64_t remaining_ms;  /* 0 = no deadline */
    const uint8_t *payload; /* into the body */
    uint32_t payload_size;
    uint8_t kind;
    const char *to; /* NUL-terminated: in the table of names or in `text` */
    const char *from;
    const char *type;
    char text[3][SN_TYPE_BYTES_MAX + 1]; /* of names that came in full */
};

struct sni_body {
    int has_ack;
    uint64_t acked;
    uint64_t base;
    uint32_t message_count;
    uint32_t exception_count;
    struct sn_cursor messages;   /* behind the head of the array */
    struct sn_cursor exceptions; /* the same */
    uint32_t group_count;
};

/* Validates the whole body and gives handles to the names that it introduces; after an error the caller cuts
 * them off again. Errors: EPROTO, ENOMEM. */
SN_MUST_CHECK enum sn_err sni_body_parse(const uint8_t *bytes, size_t size, struct sni_names *names,
                                         struct sni_body *out_body);
/* The next message of a body that was parsed; to be called message_count times. */
void sni_body_next_message(struct sni_body *body, struct sni_names *names,
                           struct sni_message *message);

/* Walks the exceptions of a parsed body; several walks may start from one body. */
struct sni_exception_walk {
    struct sn_cursor cursor;
    uint32_t groups;
    uint32_t pairs;
    struct sni_exception at;
};
void sni_exception_walk_init(struct sni_exception_walk *walk, const struct sni_body *body);
/* 0 at the end; else walk->at is filled in. */
int sni_exception_walk_next(struct sni_exception_walk *walk);

#endif
