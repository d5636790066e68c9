/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SN_LINK_LINK_NNG_H
#define SN_LINK_LINK_NNG_H

#include "link/link.h"

extern const struct sn_link_provider sn_link_nng;

/* nng starts its threads with its first socket, and does not survive a system that has none to give. So it is started
 * once at boot, by a thread that may block, after a look whether there can be so many: at most 2 for each processor up
 * to 16 and 1 for each up to 8, and a handful. Errors: ENOMEM, ENOFILES, EIO. */
#define SN_LINK_NNG_THREADS_MAX     32u
#define SN_LINK_NNG_DESCRIPTORS_MAX 16u
SN_MUST_CHECK enum sn_err sn_link_nng_start(void);

#endif
