/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger for people: its maps inside of rows become tables of their own, so that a line of it fits a terminal.
 * Guarantee: no figure is left out; every table names the agent first.
 */
#include <string.h>

#include "agents/body.h"
#include "agents/cli.h"
#include "base/assert.h"
#include "sennit/limits.h"

/* Tables of numbers that stand in a map of each row: the heads, and the keys in the map. */
struct part {
    const char *title;
    const char *map; /* NULL: in the row itself */
    struct {
        const char *head;
        const char *key;
    } columns[6];
};

static const struct part parts[] = {
    {"parcels",
     "parcels",
     {{"sent", "sent"},
      {"nng_sent", "nng_sent"},
      {"received", "received"},
      {"nng_received", "nng_received"},
      {"resent", "resent"}}},
    {"incoming",
     "parcels",
     {{"messages", "messages_received"},
      {"refused", "messages_refused"},
      {"parcels_bad_auth", "refused_auth"},
      {"replayed", "refused_replay"},
      {"other", "refused_other"}}},
};

/* --- Reading ---------------------------------------------------------------------------------- */

/* The value under `key` of the map at `cursor`; returns 0 when it is not there. */
static int find(struct sn_cursor cursor, const char *key, struct sn_cursor *out_value)
{
    if (cursor.err != SN_OK || sn_cursor_kind(&cursor) != SN_WIRE_MAP) return 0;
    uint32_t count = sn_cursor_map(&cursor);
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t size = 0;
        const char *found = sn_cursor_text(&cursor, SIZE_MAX, &size);
        if (cursor.err == SN_OK && size == strlen(key) && memcmp(found, key, size) == 0) {
            *out_value = cursor;
            return 1;
        }
        sn_cursor_skip(&cursor);
    }
    return 0;
}

static uint64_t number_at(const struct sn_cursor *map, const char *key)
{
    struct sn_cursor value;
    if (!find(*map, key, &value)) return 0;
    uint64_t number = sn_cursor_uint(&value, UINT64_MAX);
    return value.err == SN_OK ? number : 0;
}

static uint64_t sum_at(const struct sn_cursor *map, const char *key)
{
    struct sn_cursor reasons;
    uint64_t sum = 0;
    if (!find(*map, key, &reasons) || sn_cursor_kind(&reasons) != SN_WIRE_MAP) return 0;
    uint32_t count = sn_cursor_map(&reasons);
    for (uint32_t i = 0; i < count && reasons.err == SN_OK; i++) {
        sn_cursor_skip(&reasons);
        sum += sn_cursor_uint(&reasons, UINT64_MAX);
    }
    return sum;
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void add_name(struct sn_body *body, const struct sn_cursor *row)
{
    struct sn_cursor value;
    size_t size = 0;
    const char *name = "-";
    if (find(*row, "agent", &value)) {
        const char *text = sn_cursor_text(&value, SN_AGENT_NAME_BYTES_MAX, &size);
        if (value.err == SN_OK) name = text;
        if (value.err != SN_OK) size = 0;
    }
    sn_body_key(body, "agent");
    sn_body_need(body, size + 16);
    if (body->err == SN_OK) sn_pack_text(&body->pack, name, size);
}

static void add_balance(struct sn_body *body, const struct sn_cursor *row)
{
    sn_body_uint(body, "accepted", number_at(row, "accepted"));
    sn_body_uint(body, "delivered", number_at(row, "delivered"));
    sn_body_uint(body, "queued", number_at(row, "queued"));
    sn_body_uint(body, "undelivered", sum_at(row, "undelivered"));
    sn_body_uint(body, "unknown", sum_at(row, "unknown"));
}

static void add_part(struct sn_body *body, const struct sn_cursor *row, const struct part *part)
{
    struct sn_cursor map;
    int is_there = find(*row, part->map, &map);
    uint32_t count = 0;
    while (count < SN_ARRAY_COUNT(part->columns) && part->columns[count].head != NULL) count++;
    sn_body_map(body, count + 1);
    add_name(body, row);
    for (uint32_t i = 0; i < count; i++) {
        sn_body_uint(body, part->columns[i].head,
                     is_there ? number_at(&map, part->columns[i].key) : 0);
    }
}

/* A row for each reason under `outcome`; returns their number. Without a body they are only counted. */
static uint32_t add_reasons(struct sn_body *body, const struct sn_cursor *row, const char *outcome)
{
    struct sn_cursor reasons;
    if (!find(*row, outcome, &reasons) || sn_cursor_kind(&reasons) != SN_WIRE_MAP) return 0;
    uint32_t count = sn_cursor_map(&reasons);
    for (uint32_t i = 0; i < count && body != NULL && reasons.err == SN_OK; i++) {
        size_t size = 0;
        const char *reason = sn_cursor_text(&reasons, SN_LABEL_BYTES_MAX, &size);
        uint64_t number = sn_cursor_uint(&reasons, UINT64_MAX);
        if (reasons.err != SN_OK) return count; /* a row is missing: the printer refuses the body */
        sn_body_map(body, 4);
        add_name(body, row);
        sn_body_text(body, "outcome", outcome);
        sn_body_key(body, "reason");
        sn_body_need(body, size + 16);
        if (body->err == SN_OK) sn_pack_text(&body->pack, reason, size);
        sn_body_uint(body, "count", number);
    }
    return count;
}

/* Calls for each row of the peers. */
static uint32_t each_row(struct sn_cursor peers, struct sn_body *body, const struct part *part,
                         uint32_t (*add)(struct sn_body *body, const struct sn_cursor *row,
                                         const struct part *part))
{
    uint32_t total = 0;
    uint32_t count = sn_cursor_array(&peers);
    for (uint32_t i = 0; i < count && peers.err == SN_OK; i++) {
        size_t size = 0;
        struct sn_cursor row;
        const uint8_t *bytes = sn_cursor_raw(&peers, &size);
        if (peers.err != SN_OK) break;
        sn_cursor_init(&row, bytes, size);
        total += add(body, &row, part);
    }
    return total;
}

static uint32_t row_of_balance(struct sn_body *body, const struct sn_cursor *row,
                               const struct part *part)
{
    (void)part; /* none */
    sn_body_map(body, 6);
    add_name(body, row);
    add_balance(body, row);
    return 1;
}

static uint32_t row_of_part(struct sn_body *body, const struct sn_cursor *row,
                            const struct part *part)
{
    add_part(body, row, part);
    return 1;
}

static uint32_t rows_of_reasons(struct sn_body *body, const struct sn_cursor *row,
                                const struct part *part)
{
    (void)part; /* none */
    return add_reasons(body, row, "undelivered") + add_reasons(body, row, "unknown");
}

static void build(struct sn_body *body, const struct sn_cursor *peers,
                  const struct sn_cursor *total)
{
    struct sn_cursor measure = *peers;
    uint32_t count = sn_cursor_array(&measure);
    uint32_t reasons = each_row(*peers, NULL, NULL, rows_of_reasons);
    sn_body_map(body, 7 + (reasons > 0 ? 1u : 0u) + (uint32_t)SN_ARRAY_COUNT(parts));
    add_balance(body, total);
    sn_body_uint(body, "local_accepted", number_at(total, "local_accepted"));
    sn_body_key(body, "peers");
    sn_body_array(body, count);
    (void)each_row(*peers, body, NULL, row_of_balance); /* one each */
    if (reasons > 0) {
        sn_body_key(body, "reasons");
        sn_body_array(body, reasons);
        (void)each_row(*peers, body, NULL, rows_of_reasons); /* counted above */
    }
    for (unsigned i = 0; i < SN_ARRAY_COUNT(parts); i++) {
        sn_body_key(body, parts[i].title);
        sn_body_array(body, count);
        (void)each_row(*peers, body, &parts[i], row_of_part); /* one each */
    }
}

int sn_cli_print_ledger(struct sn_cli *cli, const uint8_t *body, size_t size)
{
    struct sn_cursor root, peers, total;
    struct sn_body text;
    sn_cursor_init(&root, body, size);
    /* Another version's ledger is shown as it comes. */
    if (!find(root, "peers", &peers) || sn_cursor_kind(&peers) != SN_WIRE_ARRAY ||
        !find(root, "total", &total)) {
        return sn_cli_print_body(cli, body, size, 0);
    }
    sn_body_init(&text);
    build(&text, &peers, &total);
    int status = SN_EXIT_FAILED;
    if (text.err == SN_OK) {
        status = sn_cli_print_body(cli, text.pack.data, text.pack.size, 0);
    } else {
        sn_cli_error(cli, "%s", sn_err_text(text.err));
    }
    sn_body_fini(&text);
    return status;
}
