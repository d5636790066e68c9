/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: what an agent does not say counts as missing, never as zero that happens to be right. */
#include "agents/soak/reading.h"

#include <string.h>

#include "base/assert.h"
#include "sennit/limits.h"
#include "wire/cursor.h"
#include "wire/json.h"

#define KEY_BYTES_MAX 64u
#define REPORT_BYTES_MAX                                                                           \
    1024u /* msgpack of a report is shorter than its JSON, and that mostly keys */

/* Where a number goes; the table's index is its bit in what was found. */
struct place {
    const char *key;
    uint64_t *value;
};

static int is_key(const char *key, size_t size, const char *wanted)
{
    return size == strlen(wanted) && memcmp(key, wanted, size) == 0;
}

static uint64_t read_number(struct sn_cursor *cursor)
{
    return sn_cursor_uint(cursor, UINT64_MAX);
}

/* Nonzero when the value under the key was one of the places. */
static int read_place(struct sn_cursor *cursor, const struct place *places, unsigned count,
                      const char *key, size_t size, uint32_t *found)
{
    for (unsigned i = 0; i < count; i++) {
        if (!is_key(key, size, places[i].key)) continue;
        *places[i].value += read_number(cursor);
        *found |= 1u << i;
        return 1;
    }
    return 0;
}

static enum sn_err all_found(uint32_t found, unsigned count)
{
    return found == (1u << count) - 1 ? SN_OK : SN_EINVAL;
}

/* A map from reasons to counts; remembers the last reason in `out` when that is not NULL. */
static uint64_t read_reasons(struct sn_cursor *cursor, char *out, size_t capacity)
{
    uint64_t sum = 0;
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(cursor, KEY_BYTES_MAX, &size);
        if (out != NULL && size < capacity) {
            memcpy(out, key, size);
            out[size] = '\0';
        }
        sum += read_number(cursor);
    }
    return sum;
}

/* --- The soak actor's report ------------------------------------------------------------------------------- */

static void read_outcomes(struct sn_cursor *cursor, struct sn_soak_report *report)
{
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(cursor, KEY_BYTES_MAX, &size);
        if (is_key(key, size, "delivered")) {
            report->delivered = read_number(cursor);
        } else if (is_key(key, size, "undelivered")) {
            report->undelivered = read_reasons(cursor, report->reason, sizeof report->reason);
        } else if (is_key(key, size, "unknown")) {
            report->unknown = read_reasons(cursor, report->reason, sizeof report->reason);
        } else {
            sn_cursor_skip(cursor);
        }
    }
}

static enum sn_err read_report(struct sn_cursor *cursor, struct sn_soak_report *report)
{
    const struct place places[] = {{"sent", &report->sent},
                                   {"received", &report->received},
                                   {"doubled", &report->doubled},
                                   {"reordered", &report->reordered},
                                   {"altered", &report->altered}};
    uint32_t found = 0;
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(cursor, KEY_BYTES_MAX, &size);
        if (read_place(cursor, places, SN_ARRAY_COUNT(places), key, size, &found)) continue;
        if (is_key(key, size, "outcomes")) {
            read_outcomes(cursor, report);
        } else if (is_key(key, size, "done")) {
            report->is_done = (uint8_t)sn_cursor_bool(cursor);
        } else {
            sn_cursor_skip(cursor);
        }
    }
    enum sn_err err = sn_cursor_finish(cursor);
    return err == SN_OK ? all_found(found, SN_ARRAY_COUNT(places)) : err;
}

enum sn_err sn_soak_report_parse(const void *bytes, size_t size, struct sn_soak_report *out_report)
{
    uint8_t packed[REPORT_BYTES_MAX];
    struct sn_soak_report report = {0};
    struct sn_pack pack;
    struct sn_cursor cursor;
    size_t packed_size = 0;
    sn_pack_init(&pack, packed, sizeof packed);
    enum sn_err err = sn_json_to_msgpack(bytes, size, &pack);
    if (err == SN_OK) err = sn_pack_finish(&pack, &packed_size);
    if (err != SN_OK) return err;
    sn_cursor_init(&cursor, packed, packed_size);
    err = read_report(&cursor, &report);
    if (err == SN_OK) *out_report = report;
    return err;
}

/* --- The ledger -------------------------------------------------------------------------------------------------- */

static enum sn_err read_parcels(struct sn_cursor *cursor, struct sn_soak_ledger *ledger)
{
    const struct place places[] = {{"sent", &ledger->parcels_sent},
                                   {"nng_sent", &ledger->nng_sent},
                                   {"received", &ledger->parcels_received},
                                   {"nng_received", &ledger->nng_received},
                                   {"resent", &ledger->parcels_resent},
                                   {"messages_received", &ledger->messages_received},
                                   {"messages_refused", &ledger->messages_refused},
                                   {"refused_auth", &ledger->refused_bad},
                                   {"refused_replay", &ledger->refused_replay},
                                   {"refused_other", &ledger->refused_bad}};
    uint32_t found = 0;
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(cursor, KEY_BYTES_MAX, &size);
        if (read_place(cursor, places, SN_ARRAY_COUNT(places), key, size, &found)) continue;
        sn_cursor_skip(cursor);
    }
    return all_found(found, SN_ARRAY_COUNT(places));
}

/* One peer. `agent` has room for a name. */
static enum sn_err read_entry(struct sn_cursor *cursor, char agent[SN_AGENT_NAME_BYTES_MAX + 1],
                              struct sn_soak_ledger *ledger)
{
    const struct place places[] = {{"accepted", &ledger->accepted},
                                   {"delivered", &ledger->delivered},
                                   {"queued", &ledger->queued}};
    enum sn_err err = SN_EINVAL; /* until the parcels were read */
    uint32_t found = 0;
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(cursor, KEY_BYTES_MAX, &size);
        if (read_place(cursor, places, SN_ARRAY_COUNT(places), key, size, &found)) continue;
        if (is_key(key, size, "agent")) {
            sn_cursor_text_copy(cursor, agent, SN_AGENT_NAME_BYTES_MAX + 1);
        } else if (is_key(key, size, "undelivered")) {
            ledger->undelivered = read_reasons(cursor, NULL, 0);
        } else if (is_key(key, size, "unknown")) {
            ledger->unknown = read_reasons(cursor, NULL, 0);
        } else if (is_key(key, size, "parcels")) {
            err = read_parcels(cursor, ledger);
        } else {
            sn_cursor_skip(cursor);
        }
    }
    return err == SN_OK ? all_found(found, SN_ARRAY_COUNT(places)) : err;
}

static enum sn_err find_entry(struct sn_cursor *cursor, const char *peer,
                              struct sn_soak_ledger *out_ledger)
{
    uint32_t count = sn_cursor_array(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        char agent[SN_AGENT_NAME_BYTES_MAX + 1] = "";
        struct sn_soak_ledger ledger = {0};
        enum sn_err err = read_entry(cursor, agent, &ledger);
        if (cursor->err != SN_OK) return cursor->err;
        if (strcmp(agent, peer) != 0) continue;
        if (err == SN_OK) *out_ledger = ledger;
        return err;
    }
    return cursor->err != SN_OK ? cursor->err : SN_ENOENT;
}

/* Moves the cursor to the value under `key` of the map that is next. */
static enum sn_err seek(struct sn_cursor *cursor, const char *wanted)
{
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(cursor, KEY_BYTES_MAX, &size);
        if (is_key(key, size, wanted)) return cursor->err;
        sn_cursor_skip(cursor);
    }
    return cursor->err != SN_OK ? cursor->err : SN_ENOENT;
}

enum sn_err sn_soak_ledger_parse(const uint8_t *body, size_t size, const char *peer,
                                 struct sn_soak_ledger *out_ledger)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, body, size);
    enum sn_err err = seek(&cursor, "peers");
    return err == SN_OK ? find_entry(&cursor, peer, out_ledger) : err;
}

/* --- Peers ----------------------------------------------------------------------------------------------------- */

static int read_is_up(struct sn_cursor *cursor)
{
    size_t size = 0;
    const char *state = sn_cursor_text(cursor, KEY_BYTES_MAX, &size);
    return cursor->err == SN_OK && is_key(state, size, "up");
}

/* One that was refused has no sessions, and an entry all the same: EINVAL. */
static enum sn_err read_peer(struct sn_cursor *cursor, char agent[SN_AGENT_NAME_BYTES_MAX + 1],
                             struct sn_soak_peer *peer)
{
    const struct place places[] = {{"sessions", &peer->sessions}};
    uint32_t found = 0;
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(cursor, KEY_BYTES_MAX, &size);
        if (read_place(cursor, places, SN_ARRAY_COUNT(places), key, size, &found)) continue;
        if (is_key(key, size, "agent")) {
            sn_cursor_text_copy(cursor, agent, SN_AGENT_NAME_BYTES_MAX + 1);
        } else if (is_key(key, size, "state")) {
            peer->is_up = (uint8_t)read_is_up(cursor);
        } else {
            sn_cursor_skip(cursor);
        }
    }
    return all_found(found, SN_ARRAY_COUNT(places));
}

enum sn_err sn_soak_peer_parse(const uint8_t *body, size_t size, const char *peer,
                               struct sn_soak_peer *out_peer)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, body, size);
    uint32_t count = sn_cursor_array(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        char agent[SN_AGENT_NAME_BYTES_MAX + 1] = "";
        struct sn_soak_peer got = {0};
        enum sn_err err = read_peer(&cursor, agent, &got);
        if (cursor.err != SN_OK) break;
        if (err != SN_OK || strcmp(agent, peer) != 0) continue;
        *out_peer = got;
        return SN_OK;
    }
    return cursor.err != SN_OK ? cursor.err : SN_ENOENT;
}

enum sn_err sn_soak_number(const uint8_t *body, size_t size, const char *key, uint64_t *out_value)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, body, size);
    enum sn_err err = seek(&cursor, key);
    if (err != SN_OK) return err;
    uint64_t value = read_number(&cursor);
    if (cursor.err == SN_OK) *out_value = value;
    return cursor.err;
}

int sn_soak_ledger_is_balanced(const struct sn_soak_ledger *ledger)
{
    return ledger->accepted ==
           ledger->delivered + ledger->queued + ledger->undelivered + ledger->unknown;
}

int sn_soak_ledger_is_nng_equal(const struct sn_soak_ledger *ledger)
{
    return ledger->parcels_sent == ledger->nng_sent &&
           ledger->parcels_received == ledger->nng_received;
}

int sn_soak_ledger_is_agreed(const struct sn_soak_ledger *from, const struct sn_soak_ledger *to,
                             uint64_t messages)
{
    return from->accepted == messages && from->delivered == messages &&
           to->messages_received == messages && to->messages_refused == 0 && to->refused_bad == 0 &&
           to->refused_replay <= from->parcels_resent;
}
