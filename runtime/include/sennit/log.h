/* SPDX-License-Identifier: Apache-2.0 */
/* Severity levels of structured log lines (see sn_log in sennit/actor.h). */
#ifndef SN_LOG_H
#define SN_LOG_H

enum sn_log_level { SN_DEBUG = 0, SN_INFO = 1, SN_WARN = 2, SN_ERROR = 3 };

#endif
