/* SPDX-License-Identifier: Apache-2.0 */
/* The settings as table rows, to stand in a table of their own and in that of the agent file. */
#ifndef SN_CONFIG_SETTINGS_INT_H
#define SN_CONFIG_SETTINGS_INT_H

#include "config/out.h"
#include "config/settings.h"

extern const struct sn_config_field sni_log_fields[];
extern const struct sn_config_field sni_heartbeat_fields[];
extern const struct sn_config_field sni_reconnect_fields[];
extern const struct sn_config_field sni_accept_fields[];

/* clang-format off */
#define SNI_SETTINGS_ROWS \
    {.key = "log", .kind = SN_CONFIG_MAP, .fields = sni_log_fields, \
     .help = "What is logged, and how."}, \
    {.key = "drain_ms", .kind = SN_CONFIG_INT, .min = 0, .max = 600000, .def = "5000", \
     .help = "Time to finish work after SIGTERM, in milliseconds."}, \
    {.key = "workers", .kind = SN_CONFIG_INT, .min = 0, .max = 256, .def = "0", \
     .help = "Worker threads; 0 means one a core."}, \
    {.key = "memory_mib", .kind = SN_CONFIG_INT, .min = 16, .max = 1048576, .def = "512", \
     .help = "Budget for the windows of streams (128 KiB a stream at first, 8 MiB at most), in MiB."}, \
    {.key = "resume_ms", .kind = SN_CONFIG_INT, .min = 0, .max = 3600000, .def = "10000", \
     .help = "How long a stream waits for a new connection after its own was lost, in milliseconds; 0: it ends."}, \
    {.key = "plugins_allow", .kind = SN_CONFIG_ENUM, .choices = "own|listed|any", .def = "own", \
     .help = "Plugins that are loaded. own: those beside the program, and others whose entry has their `sha256`; " \
             "listed: none without `sha256`; any: all."}, \
    {.key = "heartbeat", .kind = SN_CONFIG_MAP, .fields = sni_heartbeat_fields, \
     .help = "How a dead peer is noticed."}, \
    {.key = "reconnect", .kind = SN_CONFIG_MAP, .fields = sni_reconnect_fields, \
     .help = "Back-off between attempts to reach a peer."}, \
    {.key = "accept", .kind = SN_CONFIG_MAP, .fields = sni_accept_fields, \
     .help = "Limits for connections that have not proved who they are."}
/* clang-format on */

/* Writes those that differ from the defaults as lines of an agent file. */
void sni_settings_render(struct sni_out *out, const struct sn_settings *settings);

#endif
