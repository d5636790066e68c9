/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: at most SN_LOG_BURST lines at once and one a second per id; no line without an end; no control
 * character of a peer's text reaches the terminal. */
#include "log/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

#define LOGGER_MAGIC SN_MAGIC('L', 'O', 'G', 'R')
#define SECOND_NS    1000000000ull
/* A message of quotes alone doubles in JSON; what stands around it is bounded by the limits of names. */
#define LINE_BYTES (3u * SN_LOG_LINE_BYTES_MAX)
#define ID_BYTES   64 /* printed of an id, and of who speaks */

/* As many lines of an id as can be written within a second, so that none of them is forgotten
 * before it may come again. */
#define RECENT_MAX (SN_LOG_BURST + 1)

struct recent {
    uint64_t digest;
    uint64_t at_ns; /* 0 = none */
};

struct limiter {
    const char *id;                   /* identity of the constant, compared by text */
    struct recent recent[RECENT_MAX]; /* warnings */
    uint32_t recent_next;
    uint64_t refill_ns;
    uint32_t tokens;
    uint32_t suppressed;
};

struct sn_logger {
    uint32_t magic;
    struct sn_env *env;
    const char *name;
    enum sn_log_level level;
    int is_json;
    uint32_t limiter_count;
    struct limiter
        limiters[SN_LOG_IDS_MAX + 1];    /* the last one is shared by ids beyond the bound */
    char message[SN_LOG_LINE_BYTES_MAX]; /* here rather than on the stack */
    char line[LINE_BYTES];
};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

enum sn_err sn_logger_new(struct sn_env *env, enum sn_log_level level, int is_json,
                          const char *name, struct sn_logger **out_logger)
{
    SN_ASSERT(env != NULL);
    struct sn_logger *logger = sn_alloc(sizeof *logger);
    if (logger == NULL) return SN_ENOMEM;
    logger->magic = LOGGER_MAGIC;
    logger->env = env;
    logger->level = level;
    logger->is_json = is_json;
    logger->name = name;
    *out_logger = logger;
    return SN_OK;
}

void sn_logger_free(struct sn_logger *logger)
{
    if (logger == NULL) return;
    SN_ASSERT(logger->magic == LOGGER_MAGIC);
    logger->magic = 0;
    sn_free(logger, sizeof *logger);
}

int sn_logger_wants(const struct sn_logger *logger, enum sn_log_level level)
{
    return level >= logger->level;
}

void sn_logger_set_level(struct sn_logger *logger, enum sn_log_level level)
{
    logger->level = level;
}

static struct limiter *limiter_of(struct sn_logger *logger, const char *id)
{
    for (uint32_t i = 0; i < logger->limiter_count; i++) {
        if (strcmp(logger->limiters[i].id, id) == 0) return &logger->limiters[i];
    }
    struct limiter *limiter = &logger->limiters[SN_LOG_IDS_MAX];
    if (logger->limiter_count < SN_LOG_IDS_MAX)
        limiter = &logger->limiters[logger->limiter_count++];
    if (limiter->id == NULL) *limiter = (struct limiter){.id = id, .tokens = SN_LOG_BURST};
    return limiter;
}

/* Takes a token; 0 when the line must be held back. */
static int may_write(struct limiter *limiter, uint64_t now_ns)
{
    uint64_t earned = (now_ns - limiter->refill_ns) / SECOND_NS;
    if (limiter->refill_ns == 0 || earned >= SN_LOG_BURST) {
        limiter->tokens = SN_LOG_BURST;
        limiter->refill_ns = now_ns;
    } else if (earned > 0) {
        limiter->tokens += (uint32_t)earned;
        if (limiter->tokens > SN_LOG_BURST) limiter->tokens = SN_LOG_BURST;
        limiter->refill_ns += earned * SECOND_NS;
    }
    if (limiter->tokens == 0) {
        limiter->suppressed++;
        return 0;
    }
    limiter->tokens--;
    return 1;
}

/* FNV-1a. That two lines have one digest costs a line in 2^64. */
static uint64_t digest_of(const char *id, const char *message)
{
    uint64_t digest = 0xcbf29ce484222325u;
    for (; *id != '\0'; id++) digest = (digest ^ (unsigned char)*id) * 0x100000001b3u;
    for (; *message != '\0'; message++) {
        digest = (digest ^ (unsigned char)*message) * 0x100000001b3u;
    }
    return digest;
}

/* Whether the very same line was written within the last second; notes it when not. */
static int is_repeated(struct limiter *limiter, uint64_t digest, uint64_t now_ns)
{
    for (uint32_t i = 0; i < RECENT_MAX; i++) {
        const struct recent *recent = &limiter->recent[i];
        if (recent->at_ns == 0 || recent->digest != digest) continue;
        if (now_ns - recent->at_ns < SECOND_NS) return 1;
    }
    limiter->recent[limiter->recent_next] = (struct recent){digest, now_ns};
    limiter->recent_next = (limiter->recent_next + 1) % RECENT_MAX;
    return 0;
}

/* Civil date of a Unix time (H. Hinnant's days-from-civil inverse), UTC, RFC 3339 with milliseconds. */
static void add_time(struct sn_text *text, int64_t wall_ms)
{
    int64_t days = wall_ms / 86400000;
    int64_t ms = wall_ms % 86400000;
    if (ms < 0) {
        ms += 86400000;
        days--;
    }
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    int64_t month = mp < 10 ? mp + 3 : mp - 9;
    int64_t year = yoe + era * 400 + (month <= 2);
    int64_t day = doy - (153 * mp + 2) / 5 + 1;
    sn_text_add(text,
                "%04" PRId64 "-%02" PRId64 "-%02" PRId64 "T%02" PRId64 ":%02" PRId64 ":%02" PRId64
                ".%03" PRId64 "Z",
                year, month, day, ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
}

static void format_line(struct sn_logger *logger, enum sn_log_level level, const char *id,
                        const char *who, uint32_t suppressed, struct sn_text *line)
{
    int64_t wall_ms = sn_env_wall_ms(logger->env);
    if (logger->is_json) {
        sn_text_add(line, "{\"time\":\"");
        add_time(line, wall_ms);
        sn_text_add(
            line,
            "\",\"level\":\"%s\",\"id\":\"%.*s\",\"agent\":\"%.*s\",\"from\":\"%.*s\",\"text\":",
            level_names[level], ID_BYTES, id, SN_AGENT_NAME_BYTES_MAX, logger->name, ID_BYTES, who);
        sn_text_add_json(line, logger->message, strlen(logger->message));
        if (suppressed > 0) sn_text_add(line, ",\"suppressed\":%u", suppressed);
        sn_text_add(line, "}");
        return;
    }
    add_time(line, wall_ms);
    sn_text_add(line, " %-5s %s", level_names[level], id);
    if (logger->name[0] != '\0') sn_text_add(line, " agent=%s", logger->name);
    if (who[0] != '\0') sn_text_add(line, " from=%s", who);
    if (logger->message[0] != '\0') sn_text_add(line, " %s", logger->message);
    if (suppressed > 0) sn_text_add(line, " suppressed=%u", suppressed);
}

/* Puts '?' for what a terminal may obey: control characters, also those of ISO 6429 above 0x7f, bare or as UTF-8. */
static void mask(char *text)
{
    size_t size = strlen(text);
    /* The cut may have fallen inside a character; only that one is lost then. */
    size_t tail = size;
    while (tail > 0 && size - tail < 3 && ((unsigned char)text[tail - 1] & 0xc0u) == 0x80) tail--;
    if (tail > 0 && (unsigned char)text[tail - 1] >= 0xc0) tail--;
    int is_whole = sn_utf8_is_valid(text + tail, size - tail);
    int is_text = sn_utf8_is_valid(text, is_whole ? size : tail);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        int is_c1 = c == 0xc2 && (unsigned char)text[i + 1] < 0xa0;
        int is_cut = !is_whole && i >= tail;
        if (c < 0x20 || c == 0x7f || (c >= 0x80 && (!is_text || is_cut))) {
            text[i] = '?';
        } else if (is_c1) {
            text[i] = text[i + 1] = '?';
        }
    }
}

void sn_logger_writev(struct sn_logger *logger, enum sn_log_level level, const char *id,
                      const char *who, const char *format, va_list args)
{
    SN_ASSERT(logger->magic == LOGGER_MAGIC);
    SN_ASSERT((unsigned)level < SN_ARRAY_COUNT(level_names));
    if (level < logger->level) return;
    struct limiter *limiter = limiter_of(logger, id);
    uint64_t now_ns = sn_env_now_ns(logger->env);
    if (!may_write(limiter, now_ns)) return;
    (void)vsnprintf(logger->message, sizeof logger->message, format, args); /* cut lines are fine */
    mask(logger->message);
    if (level == SN_WARN && is_repeated(limiter, digest_of(id, logger->message), now_ns)) {
        limiter->tokens++; /* taken for nothing */
        limiter->suppressed++;
        return;
    }
    uint32_t suppressed = limiter->suppressed;
    limiter->suppressed = 0;

    struct sn_text line;
    /* Room for the line's end is kept back, so that a cut line still ends. */
    sn_text_init(&line, logger->line, sizeof logger->line - 2);
    format_line(logger, level, id, who, suppressed, &line);
    logger->line[line.size] = '\n';
    sn_env_print(logger->env, 1, logger->line, line.size + 1);
}

void sn_logger_write(struct sn_logger *logger, enum sn_log_level level, const char *id,
                     const char *who, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sn_logger_writev(logger, level, id, who, format, args);
    va_end(args);
}

enum sn_err sn_log_level_parse(const char *text, enum sn_log_level *out_level)
{
    for (unsigned i = 0; i < SN_ARRAY_COUNT(level_names); i++) {
        if (strcmp(text, level_names[i]) != 0) continue;
        *out_level = (enum sn_log_level)i;
        return SN_OK;
    }
    return SN_EINVAL;
}
