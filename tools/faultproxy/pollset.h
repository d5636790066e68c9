/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors of one round of the loop. It is made anew in each round: a descriptor from which nothing is wanted is
 * not in it and cannot wake the proxy, however broken its connection is. That is what a black hole needs.
 */
#ifndef SN_TOOLS_FAULTPROXY_POLLSET_H
#define SN_TOOLS_FAULTPROXY_POLLSET_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#define FP_NOT_POLLED ((size_t)-1)

struct fp_pollset {
    struct pollfd *entries; /* owned */
    size_t count;
    size_t capacity;
};

void fp_pollset_fini(struct fp_pollset *set);
void fp_pollset_clear(struct fp_pollset *set);
/* Returns where its events will be. Errors and hang-ups are reported even when `events` is 0. */
size_t fp_pollset_add(struct fp_pollset *set, int fd, short events);
/* Not longer than until wake_us. */
void fp_pollset_wait(struct fp_pollset *set, int64_t now_us, int64_t wake_us);
/* The events since the wait; 0 for FP_NOT_POLLED. */
short fp_pollset_events(const struct fp_pollset *set, size_t at);

#endif
