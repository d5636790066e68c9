/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts for `why`, from the views of an agent. Guarantees: what a view lacks is "not known", never a zero that looks
 * like a figure; what it has beyond is passed over, so that an older or newer agent can be asked.
 */
#include <stddef.h>
#include <string.h>

#include "agents/why.h"
#include "base/assert.h"
#include "base/text.h"
#include "config/finding.h"
#include "wire/cursor.h"

enum kind { KIND_TEXT, KIND_UINT, KIND_INT, KIND_BOOL, KIND_UNDELIVERED };

/* Where the value of a key goes. */
struct place {
    const char *key;
    enum kind kind;
    size_t offset;
    size_t size;
};

#define PLACE(type, key, kind, member)                                                             \
    {                                                                                              \
        key, kind, offsetof(struct type, member), sizeof(((struct type *)NULL)->member)            \
    }

static const struct place peer_places[] = {
    PLACE(sn_why_peer, "agent", KIND_TEXT, agent),
    PLACE(sn_why_peer, "id", KIND_TEXT, id),
    PLACE(sn_why_peer, "state", KIND_TEXT, state),
    PLACE(sn_why_peer, "since_ms", KIND_UINT, since_ms),
    PLACE(sn_why_peer, "rtt_us", KIND_UINT, rtt_us),
    PLACE(sn_why_peer, "reason", KIND_TEXT, reason),
    PLACE(sn_why_peer, "remote", KIND_TEXT, remote),
    PLACE(sn_why_peer, "sessions", KIND_UINT, sessions),
    PLACE(sn_why_peer, "clock_offset_ms", KIND_INT, clock_offset_ms),
    PLACE(sn_why_peer, "linked", KIND_BOOL, is_linked),
    PLACE(sn_why_peer, "dialed", KIND_TEXT, dialed),
    PLACE(sn_why_peer, "attempts", KIND_UINT, attempts),
    PLACE(sn_why_peer, "next_attempt_ms", KIND_UINT, next_attempt_ms),
    PLACE(sn_why_peer, "error", KIND_TEXT, error),
    PLACE(sn_why_peer, "refused_by", KIND_TEXT, refused_by),
    PLACE(sn_why_peer, "presented_id", KIND_TEXT, presented_id),
    PLACE(sn_why_peer, "presented_agent", KIND_TEXT, presented_agent),
    PLACE(sn_why_peer, "answered_ms", KIND_UINT, answered_ms),
    PLACE(sn_why_peer, "ended_ms", KIND_UINT, ended_ms),
    PLACE(sn_why_peer, "ended_error", KIND_TEXT, ended_error),
    PLACE(sn_why_peer, "ended_detail", KIND_TEXT, ended_detail),
    PLACE(sn_why_peer, "queued", KIND_UINT, queued),
    PLACE(sn_why_peer, "queued_bytes", KIND_UINT, queued_bytes),
    PLACE(sn_why_peer, "queued_ms", KIND_UINT, queued_ms),
    PLACE(sn_why_peer, "count", KIND_UINT, count),
    {"last_undelivered", KIND_UNDELIVERED, 0, 0},
};

static const struct place undelivered_places[] = {
    PLACE(sn_why_peer, "actor", KIND_TEXT, undelivered_actor),
    PLACE(sn_why_peer, "type", KIND_TEXT, undelivered_type),
    PLACE(sn_why_peer, "reason", KIND_TEXT, undelivered_reason),
    PLACE(sn_why_peer, "since_ms", KIND_UINT, undelivered_ms),
};

struct forward_row {
    struct sn_why_forward forward;
    char to[SN_AGENT_NAME_BYTES_MAX + 1];
    char state[16];
    uint64_t waiting;
};

static const struct place forward_places[] = {
    PLACE(forward_row, "name", KIND_TEXT, forward.name),
    PLACE(forward_row, "target", KIND_TEXT, forward.target),
    PLACE(forward_row, "error", KIND_TEXT, forward.error),
    PLACE(forward_row, "failed", KIND_UINT, forward.failed),
    PLACE(forward_row, "to", KIND_TEXT, to),
    PLACE(forward_row, "state", KIND_TEXT, state),
    PLACE(forward_row, "waiting", KIND_UINT, waiting),
};

/* --- Maps --------------------------------------------------------------------------------------------- */

/* A text that is longer than it can be is as good as none. */
static void read_text(struct sn_cursor *cursor, char *out, size_t capacity)
{
    size_t size = 0;
    const char *text = sn_cursor_text(cursor, SIZE_MAX, &size);
    if (cursor->err != SN_OK) return;
    enum sn_err err = sn_text_copy(out, capacity, text, size);
    if (err != SN_OK) out[0] = '\0';
}

static void read_value(struct sn_cursor *cursor, const struct place *place, uint8_t *base)
{
    uint8_t *at = base + place->offset;
    switch (place->kind) {
    case KIND_TEXT: read_text(cursor, (char *)at, place->size); return;
    case KIND_BOOL: *at = sn_cursor_bool(cursor) != 0; return;
    case KIND_UINT: {
        uint64_t value = sn_cursor_uint(cursor, UINT64_MAX);
        memcpy(at, &value, sizeof value);
        return;
    }
    case KIND_INT: {
        int64_t value = sn_cursor_int(cursor);
        memcpy(at, &value, sizeof value);
        return;
    }
    case KIND_UNDELIVERED: break; /* read_map's */
    }
    sn_cursor_skip(cursor);
}

static const struct place *find_place(const struct place *places, unsigned count, const char *key,
                                      size_t size)
{
    for (unsigned i = 0; i < count; i++) {
        if (strlen(places[i].key) == size && memcmp(places[i].key, key, size) == 0) {
            return &places[i];
        }
    }
    return NULL;
}

/* Reads one map. The one map inside, of the last message, is taken as a part of it. */
static void read_map(struct sn_cursor *cursor, const struct place *places, unsigned place_count,
                     void *base)
{
    uint32_t left = sn_cursor_map(cursor);
    uint32_t outer_left = 0;
    while (cursor->err == SN_OK && (left > 0 || outer_left > 0)) {
        size_t size = 0;
        if (left == 0) { /* back from the map inside */
            left = outer_left;
            outer_left = 0;
            places = peer_places;
            place_count = SN_ARRAY_COUNT(peer_places);
            continue;
        }
        left--;
        const char *key = sn_cursor_text(cursor, SIZE_MAX, &size);
        const struct place *place = find_place(places, place_count, key, size);
        if (place == NULL) {
            sn_cursor_skip(cursor);
        } else if (place->kind == KIND_UNDELIVERED) {
            outer_left = left;
            left = sn_cursor_map(cursor);
            places = undelivered_places;
            place_count = SN_ARRAY_COUNT(undelivered_places);
        } else {
            read_value(cursor, place, base);
        }
    }
}

/* --- Names --------------------------------------------------------------------------------------------- */

static void init_peer(struct sn_why_peer *peer)
{
    *peer = (struct sn_why_peer){.next_attempt_ms = SN_WHY_NEVER,
                                 .answered_ms = SN_WHY_NEVER,
                                 .ended_ms = SN_WHY_NEVER,
                                 .queued_ms = SN_WHY_NEVER,
                                 .undelivered_ms = SN_WHY_NEVER};
}

void sn_why_facts_init(struct sn_why_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    facts->own_valid_s = INT64_MAX;
    init_peer(&facts->peer);
    init_peer(&facts->refused);
}

void sn_why_read_name(struct sn_why_facts *facts, const char *name)
{
    struct sn_suggest suggest;
    if (strcmp(name, facts->agent) == 0) {
        facts->is_named = 1;
        return;
    }
    sn_suggest_init(&suggest, facts->agent);
    if (facts->similar[0] != '\0') sn_suggest_offer(&suggest, facts->similar);
    sn_suggest_offer(&suggest, name);
    if (suggest.best != name) return;
    enum sn_err err = sn_text_copy(facts->similar, sizeof facts->similar, name, strlen(name));
    if (err != SN_OK) facts->similar[0] = '\0'; /* no agent has such a name */
}

/* --- Views ---------------------------------------------------------------------------------------------- */

enum sn_err sn_why_read_status(struct sn_why_facts *facts, const void *bytes, size_t size)
{
    static const struct place places[] = {
        PLACE(sn_why_facts, "agent", KIND_TEXT, self),
        PLACE(sn_why_facts, "certificate_valid_s", KIND_INT, own_valid_s),
    };
    struct sn_cursor cursor;
    struct sn_cursor again;
    sn_cursor_init(&cursor, bytes, size);
    again = cursor;
    read_map(&cursor, places, SN_ARRAY_COUNT(places), facts);
    uint32_t count = sn_cursor_map(&again);
    for (uint32_t i = 0; i < count && again.err == SN_OK; i++) {
        size_t key_size = 0;
        const char *key = sn_cursor_text(&again, SIZE_MAX, &key_size);
        int is_listen = key_size == 6 && memcmp(key, "listen", 6) == 0;
        struct sn_cursor value = again;
        if (is_listen) facts->can_listen = sn_cursor_array(&value) > 0;
        sn_cursor_skip(&again);
    }
    return sn_cursor_finish(&cursor);
}

enum sn_err sn_why_read_peers(struct sn_why_facts *facts, const void *bytes, size_t size)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, bytes, size);
    uint32_t count = sn_cursor_array(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        struct sn_why_peer *row = &facts->row;
        init_peer(row);
        read_map(&cursor, peer_places, SN_ARRAY_COUNT(peer_places), row);
        if (cursor.err != SN_OK) break;
        row->is_known = 1;
        int is_refused = strcmp(row->state, "refused") == 0;
        struct sn_why_peer *out = is_refused ? &facts->refused : &facts->peer;
        if (!is_refused) sn_why_read_name(facts, row->agent);
        if (strcmp(row->agent, facts->agent) != 0) continue;
        if (!out->is_known || row->since_ms < out->since_ms) *out = *row;
    }
    return sn_cursor_finish(&cursor);
}

/* Forwards to the agent that fail, the one with most failures first. A forward that waits says so in place of an
 * error, and one that does not listen has an error of its own: neither is about the target. */
static void take_forward(struct sn_why_facts *facts, const struct forward_row *row)
{
    sn_why_read_name(facts, row->to);
    if (strcmp(row->to, facts->agent) != 0 || row->waiting > 0) return;
    if (strcmp(row->state, "listening") != 0 || row->forward.error[0] == '\0') return;
    if (facts->forward.error[0] == '\0' || row->forward.failed > facts->forward.failed) {
        facts->forward = row->forward;
    }
}

enum sn_err sn_why_read_forwards(struct sn_why_facts *facts, const void *bytes, size_t size)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, bytes, size);
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t key_size = 0;
        const char *key = sn_cursor_text(&cursor, SIZE_MAX, &key_size);
        if (key_size != 8 || memcmp(key, "forwards", 8) != 0) {
            sn_cursor_skip(&cursor);
            continue;
        }
        uint32_t rows = sn_cursor_array(&cursor);
        for (uint32_t at = 0; at < rows && cursor.err == SN_OK; at++) {
            struct forward_row row = {.waiting = 0};
            read_map(&cursor, forward_places, SN_ARRAY_COUNT(forward_places), &row);
            if (cursor.err == SN_OK) take_forward(facts, &row);
        }
    }
    return sn_cursor_finish(&cursor);
}
