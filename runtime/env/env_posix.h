/* SPDX-License-Identifier: Apache-2.0 */
/* The real environment: Linux, epoll, threads. */
#ifndef SN_ENV_ENV_POSIX_H
#define SN_ENV_ENV_POSIX_H

#include "env/env.h"

/* Errors: ENOMEM, EIO. Blocks SIGTERM, SIGINT, SIGHUP and ignores SIGPIPE in the calling thread,
 * so call it before any thread exists. */
SN_MUST_CHECK enum sn_err sn_env_posix_new(struct sn_env **out_env);
/* Ends the pool threads; all loops must be freed by then. */
void sn_env_posix_free(struct sn_env *env);

#endif
