/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints msgpack bodies as JSON for scripts, or for people: maps as aligned lines, arrays of maps
 * as tables. Guarantees: nothing in a body can move the cursor of a terminal; only text for people
 * is made readable (durations, bytes), JSON has the numbers as they are.
 */
#include <stdio.h>
#include <string.h>

#include "agents/cli.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "wire/json.h"

#define COLUMNS_MAX  32u
#define COLUMN_BYTES 48u
#define CELL_BYTES   1024u
#define LINE_BYTES   8192u
#define PATH_BYTES   128u
#define JSON_EXPANSION                                                                             \
    8u /* a byte of msgpack is at most so many of JSON: 6 for \u00xx, and `false,` from 1 */

struct column {
    char name[COLUMN_BYTES]; /* as in the body */
    size_t width;
    int is_number; /* all of its values are */
};

struct printer {
    struct sn_cli *cli;
    struct column columns[COLUMNS_MAX];
    uint32_t column_count;
    size_t key_width; /* of a map's lines */
    int is_measuring;
    struct sn_text cell;
    struct sn_text line;
    char cell_data[CELL_BYTES];
    char line_data[LINE_BYTES];
};

/* --- Values ----------------------------------------------------------------------------------- */

enum unit { UNIT_NONE, UNIT_US, UNIT_MS, UNIT_S, UNIT_BYTES };

static const struct {
    const char *suffix;
    enum unit unit;
} units[] = {{"_us", UNIT_US}, {"_ms", UNIT_MS}, {"_s", UNIT_S}, {"_bytes", UNIT_BYTES}};

/* The unit that a key ends with, and the size of what stands before it. */
static enum unit unit_of(const char *key, size_t size, size_t *out_size)
{
    *out_size = size;
    for (unsigned i = 0; i < SN_ARRAY_COUNT(units); i++) {
        size_t suffix_size = strlen(units[i].suffix);
        if (size <= suffix_size) continue;
        if (memcmp(key + size - suffix_size, units[i].suffix, suffix_size) != 0) continue;
        *out_size = size - suffix_size;
        return units[i].unit;
    }
    return UNIT_NONE;
}

static void add_us(struct sn_text *text, uint64_t us)
{
    uint64_t s = us / 1000000;
    unsigned long long big = us >= 10000000 ? s : us;
    if (us < 1000) {
        sn_text_add(text, "%lluus", big);
    } else if (us < 1000000 && us % 1000 == 0) {
        sn_text_add(text, "%llums", big / 1000);
    } else if (us < 1000000) {
        sn_text_add(text, "%.*fms", us < 10000 ? 2 : us < 100000 ? 1 : 0, (double)us / 1000);
    } else if (us < 10000000) {
        sn_text_add(text, "%.1fs", (double)us / 1000000);
    } else if (s < 60) {
        sn_text_add(text, "%llus", big);
    } else if (s < 3600) {
        sn_text_add(text, "%llum%02llus", big / 60, big % 60);
    } else if (s < 86400) {
        sn_text_add(text, "%lluh%02llum", big / 3600, big / 60 % 60);
    } else {
        sn_text_add(text, "%llud%02lluh", big / 86400, big / 3600 % 24);
    }
}

static void add_bytes(struct sn_text *text, uint64_t bytes)
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    unsigned i = 0;
    if (bytes < 1024) {
        sn_text_add(text, "%lluB", (unsigned long long)bytes);
        return;
    }
    while (value >= 1023.95 && i + 1 < SN_ARRAY_COUNT(names)) {
        value /= 1024;
        i++;
    }
    sn_text_add(text, "%.1f%s", value, names[i]);
}

static void add_number(struct sn_text *text, enum unit unit, int is_negative, uint64_t size)
{
    static const uint64_t factors[] = {[UNIT_US] = 1, [UNIT_MS] = 1000, [UNIT_S] = 1000000};
    if (unit != UNIT_NONE && size >= INT64_MAX) { /* how "no limit" is written */
        sn_text_add(text, "unlimited");
        return;
    }
    if (is_negative) sn_text_add(text, "-");
    if (unit == UNIT_NONE) {
        sn_text_add(text, "%llu", (unsigned long long)size);
    } else if (unit == UNIT_BYTES) {
        add_bytes(text, size);
    } else {
        uint64_t factor = factors[unit];
        add_us(text, size > INT64_MAX / factor ? INT64_MAX : size * factor);
    }
}

/* Control characters, also those of the second kind (U+0080 to U+009F), become "?". */
static void add_clean(struct sn_text *text, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        int is_c1 = byte == 0xc2 && i + 1 < size && (uint8_t)bytes[i + 1] < 0xa0;
        if (is_c1) i++;
        if (is_c1 || byte < 0x20 || byte == 0x7f) {
            sn_text_add_bytes(text, "?", 1);
        } else {
            sn_text_add_bytes(text, bytes + i, 1);
        }
    }
}

/* One item that is no container. Returns 1 when it was a number. */
static int add_scalar(struct sn_cursor *cursor, enum unit unit, struct sn_text *text)
{
    size_t size = 0;
    switch (sn_cursor_kind(cursor)) {
    case SN_WIRE_UINT: add_number(text, unit, 0, sn_cursor_uint(cursor, UINT64_MAX)); return 1;
    case SN_WIRE_INT: add_number(text, unit, 1, 0 - (uint64_t)sn_cursor_int(cursor)); return 1;
    case SN_WIRE_DOUBLE: sn_text_add(text, "%g", sn_cursor_double(cursor)); return 1;
    case SN_WIRE_BOOL: sn_text_add(text, "%s", sn_cursor_bool(cursor) ? "yes" : "no"); return 0;
    case SN_WIRE_TEXT: {
        const char *bytes = sn_cursor_text(cursor, SIZE_MAX, &size);
        add_clean(text, size > 0 ? bytes : "-", size > 0 ? size : 1);
        return 0;
    }
    case SN_WIRE_BIN: {
        const uint8_t *bytes = sn_cursor_raw(cursor, &size);
        enum sn_err err = sn_json_from_msgpack(bytes, size, text);
        if (err != SN_OK) sn_text_add(text, "...");
        return 0;
    }
    default:
        sn_cursor_skip(cursor); /* nil, or an extension */
        sn_text_add(text, "-");
        return 0;
    }
}

/* "a, b" or "k=v k=v"; what is nested deeper is cut to a sign that there is more. */
static void add_container(struct sn_cursor *cursor, enum unit unit, struct sn_text *text)
{
    int is_map = sn_cursor_kind(cursor) == SN_WIRE_MAP;
    uint32_t count = is_map ? sn_cursor_map(cursor) : sn_cursor_array(cursor);
    if (count == 0) sn_text_add(text, "%s", is_map ? "-" : "none");
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        size_t size = 0;
        if (i > 0) sn_text_add(text, "%s", is_map ? " " : ", ");
        if (is_map) {
            const char *key = sn_cursor_text(cursor, SIZE_MAX, &size);
            unit = unit_of(key, size, &size);
            add_clean(text, key, size);
            sn_text_add_bytes(text, "=", 1);
        }
        enum sn_wire_kind kind = sn_cursor_kind(cursor);
        if (kind == SN_WIRE_MAP || kind == SN_WIRE_ARRAY) {
            sn_cursor_skip(cursor);
            sn_text_add(text, "...");
        } else {
            (void)add_scalar(cursor, unit, text); /* a list is no number */
        }
    }
}

/* Makes `cell` of the next item. Returns 1 for a number. */
static int make_cell(struct printer *printer, struct sn_cursor *cursor, enum unit unit)
{
    struct sn_text *cell = &printer->cell;
    sn_text_init(cell, printer->cell_data, sizeof printer->cell_data - 4);
    enum sn_wire_kind kind = sn_cursor_kind(cursor);
    int is_number = 0;
    if (kind == SN_WIRE_MAP || kind == SN_WIRE_ARRAY) {
        add_container(cursor, unit, cell);
    } else {
        is_number = add_scalar(cursor, unit, cell);
    }
    if (cell->truncated) {
        /* A character that was cut in two is not shown at all. */
        while (cell->size > 0 && (cell->data[cell->size - 1] & 0xc0) == 0x80) cell->size--;
        if (cell->size > 0 && (cell->data[cell->size - 1] & 0x80) != 0) cell->size--;
        memcpy(cell->data + cell->size, "...", 4);
        cell->size += 3;
    }
    return is_number;
}

/* --- Lines ------------------------------------------------------------------------------------ */

static size_t width_of(const char *bytes, size_t size)
{
    size_t width = 0;
    for (size_t i = 0; i < size; i++) width += (bytes[i] & 0xc0) != 0x80;
    return width;
}

static void add_padded(struct printer *printer, const char *bytes, size_t size, size_t width,
                       int is_right)
{
    size_t used = width_of(bytes, size);
    int padding = used < width ? (int)(width - used) : 0;
    if (is_right) sn_text_add(&printer->line, "%*s", padding, "");
    sn_text_add_bytes(&printer->line, bytes, size);
    if (!is_right) sn_text_add(&printer->line, "%*s", padding, "");
}

static void begin_line(struct printer *printer)
{
    sn_text_init(&printer->line, printer->line_data, sizeof printer->line_data - 1);
}

static void end_line(struct printer *printer)
{
    struct sn_text *line = &printer->line;
    while (line->size > 0 && line->data[line->size - 1] == ' ') line->size--;
    line->data[line->size] = '\n'; /* one byte was kept for it */
    sn_env_print(printer->cli->env, 0, line->data, line->size + 1);
}

static void print_plain(struct printer *printer, const char *text)
{
    begin_line(printer);
    sn_text_add(&printer->line, "%s", text);
    end_line(printer);
}

/* --- Tables ----------------------------------------------------------------------------------- */

static struct column *column_of(struct printer *printer, const char *key, size_t size)
{
    for (uint32_t i = 0; i < printer->column_count; i++) {
        struct column *column = &printer->columns[i];
        if (strlen(column->name) == size && memcmp(column->name, key, size) == 0) return column;
    }
    if (printer->column_count == COLUMNS_MAX || size >= COLUMN_BYTES) return NULL; /* not shown */
    struct column *column = &printer->columns[printer->column_count++];
    *column = (struct column){.is_number = 1};
    memcpy(column->name, key, size);
    (void)unit_of(key, size, &size);
    column->width = size; /* keys are ASCII */
    return column;
}

static enum sn_err measure_row(struct printer *printer, struct sn_cursor *cursor)
{
    uint32_t count = sn_cursor_map(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(cursor, SIZE_MAX, &size);
        struct column *column = column_of(printer, key, size);
        int is_number = make_cell(printer, cursor, unit_of(key, size, &size));
        if (column == NULL) continue;
        size_t width = width_of(printer->cell.data, printer->cell.size);
        if (width > column->width) column->width = width;
        column->is_number = column->is_number && is_number;
    }
    return cursor->err;
}

/* Makes the cell of one column from a row's entries; they are few, so they are searched. */
static void find_cell(struct printer *printer, struct sn_cursor cursor, uint32_t count,
                      const struct column *column)
{
    size_t wanted = strlen(column->name);
    size_t ignored = 0;
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(&cursor, SIZE_MAX, &size);
        if (size == wanted && memcmp(key, column->name, size) == 0) {
            (void)make_cell(printer, &cursor, unit_of(key, size, &ignored));
            return;
        }
        sn_cursor_skip(&cursor);
    }
    sn_text_init(&printer->cell, printer->cell_data, sizeof printer->cell_data);
    sn_text_add(&printer->cell, "-");
}

static void print_row(struct printer *printer, const uint8_t *row, size_t size)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, row, size);
    uint32_t count = sn_cursor_map(&cursor);
    begin_line(printer);
    for (uint32_t i = 0; i < printer->column_count; i++) {
        const struct column *column = &printer->columns[i];
        find_cell(printer, cursor, count, column);
        if (i > 0) sn_text_add(&printer->line, "  ");
        add_padded(printer, printer->cell.data, printer->cell.size, column->width,
                   column->is_number);
    }
    end_line(printer);
}

static void print_head(struct printer *printer)
{
    begin_line(printer);
    for (uint32_t i = 0; i < printer->column_count; i++) {
        const struct column *column = &printer->columns[i];
        size_t size = 0;
        (void)unit_of(column->name, strlen(column->name), &size);
        if (i > 0) sn_text_add(&printer->line, "  ");
        add_padded(printer, column->name, size, column->width, column->is_number);
    }
    end_line(printer);
}

/* An array of maps as a table, of anything else one a line. */
static enum sn_err print_array(struct printer *printer, struct sn_cursor *cursor)
{
    struct sn_cursor measure = *cursor;
    enum sn_err err = SN_OK;
    uint32_t count = sn_cursor_array(&measure);
    int is_table = sn_cursor_kind(&measure) == SN_WIRE_MAP;
    printer->column_count = 0;
    if (count == 0) print_plain(printer, "none");
    for (uint32_t i = 0; i < count && is_table && err == SN_OK; i++) {
        err = measure_row(printer, &measure);
    }
    if (err != SN_OK) return err;
    if (is_table) print_head(printer);
    count = sn_cursor_array(cursor);
    for (uint32_t i = 0; i < count && cursor->err == SN_OK; i++) {
        if (is_table) {
            size_t size = 0;
            const uint8_t *row = sn_cursor_raw(cursor, &size);
            if (cursor->err == SN_OK) print_row(printer, row, size);
        } else {
            (void)make_cell(printer, cursor, UNIT_NONE); /* everything is left-aligned here */
            print_plain(printer, printer->cell.data);
        }
    }
    return cursor->err;
}

/* --- Maps ------------------------------------------------------------------------------------- */

static int is_table(const struct sn_cursor *cursor)
{
    struct sn_cursor inside = *cursor;
    if (sn_cursor_kind(cursor) != SN_WIRE_ARRAY) return 0;
    return sn_cursor_array(&inside) > 0 && sn_cursor_kind(&inside) == SN_WIRE_MAP;
}

static void print_value(struct printer *printer, struct sn_cursor *cursor, struct sn_text *path,
                        enum unit unit)
{
    (void)make_cell(printer, cursor, unit); /* one column of values: all left-aligned */
    size_t width = width_of(path->data, path->size);
    if (printer->is_measuring) {
        if (width > printer->key_width) printer->key_width = width;
        return;
    }
    begin_line(printer);
    sn_text_add(&printer->line, "%s:%*s%s", path->data, (int)(printer->key_width - width) + 1, "",
                printer->cell.data);
    end_line(printer);
}

/* Forgets what was added to the path since it had `size` bytes. */
static void shorten(struct sn_text *path, size_t size)
{
    path->size = size;
    path->data[size] = '\0';
    path->truncated = 0;
}

/* The lines of a map and, as a.b, of the maps inside; tables are left to print_sections. */
static enum sn_err walk_map(struct printer *printer, struct sn_cursor cursor)
{
    char data[PATH_BYTES];
    struct sn_text path;
    struct {
        uint32_t left;
        size_t path_size;
    } levels[SN_MSGPACK_DEPTH_MAX + 1];
    uint32_t depth = 1;
    sn_text_init(&path, data, sizeof data);
    levels[0].left = sn_cursor_map(&cursor);
    levels[0].path_size = 0;
    while (depth > 0 && cursor.err == SN_OK) {
        size_t size = 0;
        shorten(&path, levels[depth - 1].path_size);
        if (levels[depth - 1].left-- == 0) {
            depth--;
            continue;
        }
        const char *key = sn_cursor_text(&cursor, SIZE_MAX, &size);
        struct sn_cursor inside = cursor;
        uint32_t count = sn_cursor_kind(&cursor) == SN_WIRE_MAP ? sn_cursor_map(&inside) : 0;
        enum unit unit = count > 0 ? UNIT_NONE : unit_of(key, size, &size);
        add_clean(&path, key, size);
        if (count > 0 && depth < SN_ARRAY_COUNT(levels)) {
            sn_text_add(&path, ".");
            cursor = inside;
            levels[depth].left = count;
            levels[depth++].path_size = path.size;
        } else if (depth == 1 && is_table(&cursor)) {
            sn_cursor_skip(&cursor);
        } else {
            print_value(printer, &cursor, &path, unit);
        }
    }
    return cursor.err;
}

/* The tables in a map, each under its key. */
static enum sn_err print_sections(struct printer *printer, struct sn_cursor cursor)
{
    uint32_t count = sn_cursor_map(&cursor);
    int is_first = printer->key_width == 0;
    for (uint32_t i = 0; i < count && cursor.err == SN_OK; i++) {
        size_t size = 0;
        const char *key = sn_cursor_text(&cursor, SIZE_MAX, &size);
        if (!is_table(&cursor)) {
            sn_cursor_skip(&cursor);
            continue;
        }
        if (!is_first) print_plain(printer, "");
        is_first = 0;
        begin_line(printer);
        add_clean(&printer->line, key, size);
        sn_text_add(&printer->line, ":");
        end_line(printer);
        enum sn_err err = print_array(printer, &cursor);
        if (err != SN_OK) return err;
    }
    return cursor.err;
}

static enum sn_err print_map(struct printer *printer, const struct sn_cursor *cursor)
{
    printer->is_measuring = 1;
    enum sn_err err = walk_map(printer, *cursor);
    printer->is_measuring = 0;
    if (err == SN_OK) err = walk_map(printer, *cursor);
    if (err == SN_OK) err = print_sections(printer, *cursor);
    return err;
}

/* --- Whole bodies ----------------------------------------------------------------------------- */

static enum sn_err print_json(struct sn_cli *cli, const uint8_t *body, size_t size)
{
    size_t capacity = size * JSON_EXPANSION + 64;
    struct sn_text text;
    char *data = sn_alloc_raw(capacity);
    if (data == NULL) return SN_ENOMEM;
    sn_text_init(&text, data, capacity - 1);
    enum sn_err err = sn_json_from_msgpack(body, size, &text);
    if (err == SN_OK) {
        data[text.size] = '\n'; /* one byte was kept for it */
        sn_env_print(cli->env, 0, data, text.size + 1);
    }
    sn_free(data, capacity);
    return err;
}

static enum sn_err print_text(struct sn_cli *cli, const uint8_t *body, size_t size)
{
    struct sn_cursor cursor;
    sn_cursor_init(&cursor, body, size);
    struct printer *printer = sn_alloc(sizeof *printer);
    if (printer == NULL) return SN_ENOMEM;
    printer->cli = cli;
    enum sn_err err = SN_OK;
    enum sn_wire_kind kind = sn_cursor_kind(&cursor);
    if (kind == SN_WIRE_ARRAY) {
        err = print_array(printer, &cursor);
    } else if (kind == SN_WIRE_MAP) {
        err = print_map(printer, &cursor);
    } else {
        (void)make_cell(printer, &cursor, UNIT_NONE); /* a line of its own */
        err = cursor.err;
        if (err == SN_OK) print_plain(printer, printer->cell.data);
    }
    sn_free(printer, sizeof *printer);
    return err;
}

int sn_cli_print_body(struct sn_cli *cli, const uint8_t *body, size_t size, int as_json)
{
    enum sn_err err = as_json ? print_json(cli, body, size) : print_text(cli, body, size);
    if (err == SN_OK) return SN_EXIT_OK;
    sn_cli_error(cli, "the agent's answer cannot be shown: %s", sn_err_text(err));
    return SN_EXIT_FAILED;
}
