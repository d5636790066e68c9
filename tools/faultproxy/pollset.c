/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/faultproxy/pollset.h"

#include <stdlib.h>
#include <string.h>

#include "tools/faultproxy/clock.h"
#include "tools/faultproxy/text.h"

#define WAIT_MS_MAX 60000

void fp_pollset_fini(struct fp_pollset *set)
{
    free(set->entries);
    *set = (struct fp_pollset){0};
}

void fp_pollset_clear(struct fp_pollset *set)
{
    set->count = 0;
}

size_t fp_pollset_add(struct fp_pollset *set, int fd, short events)
{
    if (set->count == set->capacity) {
        size_t capacity = set->capacity == 0 ? 64 : 2 * set->capacity;
        struct pollfd *entries = fp_alloc(capacity * sizeof *entries);
        if (set->count > 0) memcpy(entries, set->entries, set->count * sizeof *entries);
        free(set->entries);
        set->entries = entries;
        set->capacity = capacity;
    }
    set->entries[set->count] = (struct pollfd){.fd = fd, .events = events};
    return set->count++;
}

void fp_pollset_wait(struct fp_pollset *set, int64_t now_us, int64_t wake_us)
{
    int timeout_ms = WAIT_MS_MAX;
    if (wake_us <= now_us) {
        timeout_ms = 0;
    } else if (wake_us - now_us < (int64_t)WAIT_MS_MAX * FP_US_PER_MS) {
        /* Rounded up: nothing may leave before its time. */
        timeout_ms = (int)((wake_us - now_us + FP_US_PER_MS - 1) / FP_US_PER_MS);
    }
    if (poll(set->entries, (nfds_t)set->count, timeout_ms) <= 0) {
        for (size_t i = 0; i < set->count; i++) {
            set->entries[i].revents = 0;
        }
    }
}

short fp_pollset_events(const struct fp_pollset *set, size_t at)
{
    if (at == FP_NOT_POLLED) return 0;
    return set->entries[at].revents;
}
