/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two folders of an agent: `data:`, for what survives a restart, and `run:`, for its sockets. One agent has each of
 * them at a time, whatever names it is reached by. Thread-safe: no. Blocking: yes (files); called at boot and at the
 * end.
 */
#ifndef SN_AGENTS_FOLDERS_H
#define SN_AGENTS_FOLDERS_H

#include "env/env.h"

#define SN_FOLDER_TEXT_MAX 512

struct sn_folders {
    const char *data; /* borrowed until they are left */
    const char *run;
    char *run_lock; /* file in `run` */
    struct sn_file_lock locks[2];
    int has_data;
    int has_run;
};

/* What is wrong, and how to mend it. */
struct sn_folders_fault {
    const char *field; /* of the agent file: "data" or "run" */
    char text[SN_FOLDER_TEXT_MAX];
};

/* What taking them would refuse, without making or locking anything; a folder that is not there is fine. Returns an
 * exit status; out_fault is written unless that is SN_EXIT_OK. */
SN_MUST_CHECK int sn_folders_check(struct sn_env *env, const char *data, const char *run,
                                   struct sn_folders_fault *out_fault);

/* Makes both where they are missing, locks both, and removes the sockets that a former life left. Returns an exit
 * status; out_fault is written unless that is SN_EXIT_OK. Left with sn_folders_leave, also after a failure. */
SN_MUST_CHECK int sn_folders_take(struct sn_env *env, const char *data, const char *run,
                                  struct sn_folders *out_folders,
                                  struct sn_folders_fault *out_fault);

/* Gives them back; what was not taken is skipped. */
void sn_folders_leave(struct sn_env *env, struct sn_folders *folders);

#endif
