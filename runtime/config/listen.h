/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SN_CONFIG_LISTEN_H
#define SN_CONFIG_LISTEN_H

/* Nonzero when two listeners on one machine, both host:port and well formed, would claim the same
 * port of the same interface. Port 0 never does. */
int sni_listen_overlaps(const char *a, const char *b);

#endif
