/* SPDX-License-Identifier: Apache-2.0 */
/* One table describes the commands: their text, their limits, where they make sense, their help. */
#include "tools/faultproxy/command.h"

#include <stdlib.h>
#include <string.h>

#include "tools/faultproxy/text.h"

#define WORDS_MAX    6u
#define BOTH         ((1u << FP_UP) | (1u << FP_DOWN))
#define MS_MAX       3600000u
#define BYTES_MAX    (UINT64_C(1) << 48)
#define RATE_MAX     UINT64_C(10000000000)
#define PERCENT_UNIT 10000u /* millionths in a percent */

enum trait {
    HAS_DIRECTION = 1,
    NEEDS_DIRECTION = 2,
    HAS_SCOPE = 4,
    FOR_TCP = 8,
    FOR_UDP = 16,
    IS_PERCENT = 32, /* its first value */
    IS_EVENT = 64,
    ONLY_EXISTING = 128, /* takes the word, for symmetry */
    FOR_BOTH = FOR_TCP | FOR_UDP,
    IS_FAULT = HAS_DIRECTION | HAS_SCOPE
};

struct spec {
    const char *name;
    const char *values; /* for people */
    enum fp_verb verb;
    unsigned values_min;
    unsigned values_max;
    unsigned traits;
    uint64_t least; /* of each value */
    uint64_t most;
    const char *help;
};

static const struct spec specs[] = {
    {"pass", "", FP_PASS, 0, 0, IS_FAULT | FOR_BOTH, 0, 0,
     "no faults any more: bytes that are held leave at once"},
    {"delay", "MS [JITTER]", FP_DELAY, 1, 2, IS_FAULT | FOR_BOTH, 0, MS_MAX,
     "holds bytes or datagrams that long, plus a random time up to JITTER;\n"
     "in order for TCP, jitter reorders datagrams. --buffer bounds what is on its way"},
    {"blackhole", "", FP_BLACKHOLE, 0, 0, IS_FAULT | FOR_BOTH, 0, 0,
     "TCP: stops reading and writing, both sockets stay open: a silent peer whose\n"
     "window fills. Ends of connections are not seen either, until `pass`.\n"
     "UDP: datagrams are lost"},
    {"swallow", "", FP_SWALLOW, 0, 0, IS_FAULT | FOR_BOTH, 0, 0,
     "keeps reading and discards, also what is held; both sockets stay open, and the\n"
     "end of a connection is passed on only after `pass`"},
    {"half-close", "", FP_HALF_CLOSE, 0, 0,
     HAS_DIRECTION | NEEDS_DIRECTION | ONLY_EXISTING | FOR_TCP, 0, 0,
     "ends this direction of the existing connections: what is held is written, then\n"
     "the receiver sees the end; what still comes is discarded. The other direction\n"
     "goes on"},
    {"reset", "", FP_RESET, 0, 0, ONLY_EXISTING | FOR_TCP, 0, 0,
     "resets both sides of the existing connections (for new ones: refuse)"},
    {"close", "", FP_CLOSE, 0, 0, ONLY_EXISTING | FOR_BOTH, 0, 0,
     "closes both sides of the existing connections in an orderly way: what is held is\n"
     "written, then the end. Whoever does not close within 1 s is cut off.\n"
     "UDP: forgets the clients; their next datagram has a new source port"},
    {"cut", "N", FP_CUT, 1, 1, IS_FAULT | FOR_TCP, 0, BYTES_MAX,
     "lets N more bytes arrive in this direction, then resets the connection"},
    {"drip", "BYTES MS", FP_DRIP, 2, 2, IS_FAULT | FOR_TCP, 1, BYTES_MAX,
     "writes at most that many bytes each that many milliseconds"},
    {"flip", "N", FP_FLIP, 1, 1, IS_FAULT | FOR_BOTH, 0, BYTES_MAX,
     "flips the lowest bit of the byte at offset N of the direction, counted from the\n"
     "start of the connection (0 = first). `passed=` counts where that byte was gone already.\n"
     "One offset at a time: the next `flip` replaces one that has not come yet"},
    {"split", "N", FP_SPLIT, 1, 1, IS_FAULT | FOR_TCP, 1, BYTES_MAX,
     "writes at most N bytes each; all sockets have TCP_NODELAY"},
    {"merge", "MS", FP_MERGE, 1, 1, IS_FAULT | FOR_TCP, 0, MS_MAX,
     "collects bytes for so long and writes them at once"},
    {"rate", "BYTES_PER_S", FP_RATE, 1, 1, IS_FAULT | FOR_BOTH, 1, RATE_MAX,
     "token bucket of a tenth of a second, empty at first"},
    {"refuse", "", FP_REFUSE, 0, 0, FOR_TCP, 0, 0,
     "accepts new connections and resets them at once, until `pass` (all or new)"},
    {"unlisten", "", FP_UNLISTEN, 0, 0, FOR_BOTH, 0, 0,
     "closes the listening socket: connections are refused, datagrams unreachable.\n"
     "Existing connections go on"},
    {"listen", "", FP_LISTEN, 0, 0, FOR_BOTH, 0, 0, "opens it again on the same port"},
    {"loss", "PERCENT", FP_LOSS, 1, 1, IS_PERCENT | IS_FAULT | FOR_UDP, 0, 100,
     "loses datagrams; fractions such as 0.5 are fine, here and below"},
    {"dup", "PERCENT", FP_DUP, 1, 1, IS_PERCENT | IS_FAULT | FOR_UDP, 0, 100,
     "sends datagrams twice"},
    {"reorder", "PERCENT MS", FP_REORDER, 2, 2, IS_PERCENT | IS_FAULT | FOR_UDP, 0, MS_MAX,
     "holds some datagrams for so long, so that later ones overtake them"},
    {"stats", "", FP_STATS, 0, 0, FOR_BOTH, 0, 0, "answers one line of counters, see below"},
    {"list", "", FP_LIST, 0, 0, FOR_BOTH, 0, 0, "answers one line for each connection, then `ok`"},
    {"wait", "EVENT N", FP_WAIT, 1, 1, IS_EVENT | FOR_BOTH, 0, BYTES_MAX,
     "answers when the event has come:\n"
     "  connections N   so many were accepted in total\n"
     "  open N          exactly so many are open\n"
     "  bytes DIR N     so many bytes were passed on in total (DIR both: the sum)\n"
     "  read DIR N      so many bytes were taken in, whatever became of them"},
    {"at", "EVENT N", FP_AT, 1, 1, IS_EVENT | FOR_BOTH, 0, BYTES_MAX,
     "another word for wait, for scripts"},
    {"after", "MS", FP_AFTER, 1, 1, FOR_BOTH, 0, MS_MAX, "waits so long"},
    {"quit", "", FP_QUIT, 0, 0, FOR_BOTH, 0, 0, "ends the proxy with status 0"},
};

#define SPECS (sizeof specs / sizeof specs[0])

struct words {
    const char *text[WORDS_MAX];
    size_t sizes[WORDS_MAX];
    unsigned count;
};

static bool is_separator(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool split_words(const char *line, struct words *out_words)
{
    out_words->count = 0;
    while (true) {
        while (is_separator(*line)) {
            line++;
        }
        if (*line == '\0') return true;
        if (out_words->count == WORDS_MAX) return false;
        const char *begin = line;
        while (*line != '\0' && !is_separator(*line)) {
            line++;
        }
        out_words->text[out_words->count] = begin;
        out_words->sizes[out_words->count] = (size_t)(line - begin);
        out_words->count++;
    }
}

static bool is_word(const struct words *words, unsigned at, const char *wanted)
{
    return at < words->count && words->sizes[at] == strlen(wanted) &&
           memcmp(words->text[at], wanted, words->sizes[at]) == 0;
}

static bool is_number(const struct words *words, unsigned at)
{
    return at < words->count && words->text[at][0] >= '0' && words->text[at][0] <= '9';
}

static bool read_count(const char *text, size_t size, uint64_t *out_value)
{
    uint64_t value = 0;
    if (size == 0 || size > 18) return false; /* 18 digits cannot overflow */
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *out_value = value;
    return true;
}

/* Millionths; up to four digits behind the point. */
static bool read_percent(const char *text, size_t size, uint64_t *out_value)
{
    const char *point = memchr(text, '.', size);
    size_t whole_size = point == NULL ? size : (size_t)(point - text);
    uint64_t whole = 0;
    uint64_t part = 0;
    if (whole_size > 3 || !read_count(text, whole_size, &whole)) return false;
    if (point != NULL) {
        size_t digits = size - whole_size - 1;
        if (digits > 4 || !read_count(point + 1, digits, &part)) return false;
        for (; digits < 4; digits++) {
            part *= 10;
        }
    }
    *out_value = whole * PERCENT_UNIT + part;
    return *out_value <= (uint64_t)100 * PERCENT_UNIT;
}

static void print_usage(struct fp_text *out, const struct spec *spec)
{
    fp_text_add(out, "%s%s%s", spec->name, spec->values[0] == '\0' ? "" : " ", spec->values);
    if (spec->traits & NEEDS_DIRECTION) {
        fp_text_add(out, " up|down|both");
    } else if (spec->traits & HAS_DIRECTION) {
        fp_text_add(out, " [up|down|both]");
    }
    if (spec->traits & HAS_SCOPE) fp_text_add(out, " [existing|new|all]");
    if (spec->traits & ONLY_EXISTING) fp_text_add(out, " [existing]");
}

static bool fail(const struct spec *spec, struct fp_text *error, const char *what, const char *word,
                 size_t size)
{
    fp_text_add(error, "%s", what);
    if (word != NULL) fp_text_add(error, ": %.*s", (int)size, word);
    fp_text_add(error, "; write `");
    print_usage(error, spec);
    fp_text_add(error, "`");
    return false;
}

static bool read_values(const struct spec *spec, const struct words *words, unsigned *at,
                        struct fp_command *command, struct fp_text *error)
{
    for (unsigned i = 0; i < spec->values_max; i++, (*at)++) {
        if (!is_number(words, *at)) {
            if (i >= spec->values_min) return true;
            const char *word = *at < words->count ? words->text[*at] : NULL;
            return fail(spec, error, word == NULL ? "a number is missing" : "not a number", word,
                        word == NULL ? 0 : words->sizes[*at]);
        }
        const char *text = words->text[*at];
        size_t size = words->sizes[*at];
        uint64_t *value = &command->values[i];
        if (i == 0 && (spec->traits & IS_PERCENT)) {
            if (read_percent(text, size, value)) continue;
            return fail(spec, error, "not a percentage from 0 to 100", text, size);
        }
        if (!read_count(text, size, value)) return fail(spec, error, "not a number", text, size);
        if (*value < spec->least) return fail(spec, error, "too small", text, size);
        if (*value > spec->most) return fail(spec, error, "too large", text, size);
    }
    return true;
}

static bool read_direction(const struct words *words, unsigned at, unsigned *out_directions)
{
    if (is_word(words, at, "up")) {
        *out_directions = 1u << FP_UP;
    } else if (is_word(words, at, "down")) {
        *out_directions = 1u << FP_DOWN;
    } else if (is_word(words, at, "both")) {
        *out_directions = BOTH;
    } else {
        return false;
    }
    return true;
}

static bool read_scope(const struct spec *spec, const struct words *words, unsigned at,
                       unsigned *out_scope)
{
    static const struct {
        const char *name;
        enum fp_scope scope;
        unsigned traits; /* with which it may be said */
    } scopes[] = {{"existing", FP_EXISTING, HAS_SCOPE | ONLY_EXISTING},
                  {"new", FP_NEW, HAS_SCOPE},
                  {"all", FP_ALL, HAS_SCOPE}};
    for (unsigned i = 0; i < sizeof scopes / sizeof scopes[0]; i++) {
        if (!is_word(words, at, scopes[i].name) || !(spec->traits & scopes[i].traits)) continue;
        *out_scope = scopes[i].scope;
        return true;
    }
    return false;
}

static bool read_event(const struct spec *spec, const struct words *words, unsigned *at,
                       struct fp_command *command, struct fp_text *error)
{
    static const char *const names[] = {"connections", "open", "bytes", "read"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!is_word(words, *at, names[i])) continue;
        command->event = (enum fp_event)i;
        (*at)++;
        bool has_direction = i == FP_EVENT_BYTES || i == FP_EVENT_READ;
        if (!has_direction) return true;
        if (!read_direction(words, *at, &command->directions)) {
            return fail(spec, error, "bytes and read want up, down or both", NULL, 0);
        }
        (*at)++;
        return true;
    }
    return fail(spec, error, "EVENT is connections, open, bytes DIR or read DIR", NULL, 0);
}

/* The direction and the scope, in any order. */
static bool read_rest(const struct spec *spec, const struct words *words, unsigned at,
                      struct fp_command *command, struct fp_text *error)
{
    bool had_direction = false;
    bool had_scope = false;
    for (; at < words->count; at++) {
        if ((spec->traits & HAS_DIRECTION) && !had_direction &&
            read_direction(words, at, &command->directions)) {
            had_direction = true;
        } else if (!had_scope && read_scope(spec, words, at, &command->scope)) {
            had_scope = true;
        } else {
            return fail(spec, error, "cannot be here", words->text[at], words->sizes[at]);
        }
    }
    if ((spec->traits & NEEDS_DIRECTION) && !had_direction) {
        return fail(spec, error, "the direction is missing", NULL, 0);
    }
    return true;
}

static const struct spec *find_spec(const struct words *words)
{
    for (unsigned i = 0; i < SPECS; i++) {
        if (is_word(words, 0, specs[i].name)) return &specs[i];
    }
    return NULL;
}

bool fp_command_parse(const char *line, bool is_udp, struct fp_command *out_command,
                      struct fp_text *error)
{
    struct words words;
    struct fp_command command = {.directions = BOTH, .scope = FP_ALL};
    unsigned at = 1;
    bool has_room = split_words(line, &words);
    const struct spec *spec = find_spec(&words);
    if (spec == NULL) {
        fp_text_add(error, "there is no command %.*s; write one of:",
                    words.count > 0 ? (int)words.sizes[0] : 0,
                    words.count > 0 ? words.text[0] : "");
        for (unsigned i = 0; i < SPECS; i++) {
            fp_text_add(error, " %s", specs[i].name);
        }
        return false;
    }
    if (!has_room) return fail(spec, error, "too many words", NULL, 0);
    if (!(spec->traits & (is_udp ? FOR_UDP : FOR_TCP))) {
        fp_text_add(error, "%s is for %s; start the proxy %s --udp to use it", spec->name,
                    is_udp ? "TCP" : "UDP", is_udp ? "without" : "with");
        return false;
    }
    command.verb = spec->verb;
    if ((spec->traits & IS_EVENT) && !read_event(spec, &words, &at, &command, error)) return false;
    if (!read_values(spec, &words, &at, &command, error)) return false;
    if (!read_rest(spec, &words, at, &command, error)) return false;
    if (command.verb == FP_DRIP && command.values[1] > MS_MAX) {
        return fail(spec, error, "MS is too large", NULL, 0);
    }
    if (spec->traits & ONLY_EXISTING) command.scope = FP_EXISTING;
    *out_command = command;
    return true;
}

bool fp_command_is_blank(const char *line)
{
    while (is_separator(*line)) {
        line++;
    }
    return *line == '\0' || *line == '#';
}

bool fp_command_waits(const struct fp_command *command)
{
    return command->verb == FP_WAIT || command->verb == FP_AT || command->verb == FP_AFTER;
}

void fp_command_print_help(struct fp_text *out)
{
    for (unsigned i = 0; i < SPECS; i++) {
        const struct spec *spec = &specs[i];
        fp_text_add(out, "  ");
        print_usage(out, spec);
        if ((spec->traits & FOR_BOTH) != FOR_BOTH) {
            fp_text_add(out, "   (%s)", spec->traits & FOR_TCP ? "TCP" : "UDP");
        }
        fp_text_add(out, "\n      ");
        for (const char *c = spec->help; *c != '\0'; c++) {
            fp_text_add(out, "%c%s", *c, *c == '\n' ? "      " : "");
        }
        fp_text_add(out, "\n");
    }
}
