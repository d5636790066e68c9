/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this module. */
#ifndef SN_PLUGIN_PLUGIN_INT_H
#define SN_PLUGIN_PLUGIN_INT_H

#include <stdint.h>

typedef void (*sni_export)(void);

/* The functions that plugins may call without the host table. NULL ends it. Whoever loads plugins
 * refers to it, so that the linker keeps them all in the program. */
extern const sni_export sni_exports[];

#endif
