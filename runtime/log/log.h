/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured log lines on standard error, as text or JSON, rate-limited per cause.
 *
 * A line has a time, a level, a stable id in capitals ("LINK-HANDSHAKE-FAILED") and key=value text. Each id may
 * write a burst of SN_LOG_BURST lines and then one line a second, and a warning that says the very same once a second;
 * what is held back is counted and told by the next line of that id (suppressed=n). So the volume is bounded whatever
 * a peer does, as long as ids are constants. Threads: one logger per thread (per worker); lines of several loggers do
 * not mix, because each is one write.
 */
#ifndef SN_LOG_LOG_H
#define SN_LOG_LOG_H

#include <stdarg.h>

#include "env/env.h"
#include "sennit/log.h"

#define SN_LOG_BURST          5u
#define SN_LOG_IDS_MAX        128u /* ids followed by one logger; further ones share one slot */
#define SN_LOG_LINE_BYTES_MAX 1024u

struct sn_logger;

/* `name` (borrowed) is the agent's name, "" for none. */
SN_MUST_CHECK enum sn_err sn_logger_new(struct sn_env *env, enum sn_log_level level, int is_json,
                                        const char *name, struct sn_logger **out_logger);
void sn_logger_free(struct sn_logger *logger);

int sn_logger_wants(const struct sn_logger *logger, enum sn_log_level level);

/* `who` is the actor or module speaking. Values with spaces are written as key="...". id is a
 * constant: it is kept by address. Control characters and bytes that are not UTF-8 become '?'. */
void sn_logger_write(struct sn_logger *logger, enum sn_log_level level, const char *id,
                     const char *who, const char *format, ...) SN_PRINTF(5, 6);
void sn_logger_writev(struct sn_logger *logger, enum sn_log_level level, const char *id,
                      const char *who, const char *format, va_list args) SN_PRINTF(5, 0);
void sn_logger_set_level(struct sn_logger *logger, enum sn_log_level level);

/* Errors: EINVAL. */
SN_MUST_CHECK enum sn_err sn_log_level_parse(const char *text, enum sn_log_level *out_level);

#endif
