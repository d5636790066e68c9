/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a message of a soak holds: its number and the run's id, then bytes that anybody who knows seed, sender and
 * number can make again. Pure functions. Thread-safe: yes.
 */
#ifndef SN_PLUGINS_SOAK_PAYLOAD_H
#define SN_PLUGINS_SOAK_PAYLOAD_H

#include <stdint.h>

#define SOAK_HEAD_BYTES     16u    /* number and run, little endian: the smallest message */
#define SOAK_MESSAGES_MAX   60000u /* what one mailbox holds, so that no soak fills it */
#define SOAK_PER_SECOND_MAX 100000u

/* One direction of one run. */
struct soak_plan {
    uint64_t key; /* of seed, run and sender */
    uint64_t run;
    uint32_t messages;
    uint32_t size_min;
    uint32_t size_max;
};

uint64_t sni_soak_key(uint64_t seed, uint64_t run, const char *sender);
/* Of the number-th message: log-uniform in [size_min, size_max], linear inside an octave. */
uint32_t sni_soak_size(const struct soak_plan *plan, uint64_t number);
/* `out` has room for sni_soak_size bytes. */
void sni_soak_write(const struct soak_plan *plan, uint64_t number, uint8_t *out);
/* The number that the bytes claim, `messages` or above when they cannot be a message of this run. */
uint64_t sni_soak_number(const struct soak_plan *plan, const uint8_t *bytes, uint32_t size);
/* Nonzero when the bytes are exactly those of the number-th message. */
int sni_soak_matches(const struct soak_plan *plan, uint64_t number, const uint8_t *bytes,
                     uint32_t size);

#endif
