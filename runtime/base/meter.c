/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: a meter lives as long as anybody holds it, and what was added is never lost. */
#include "base/meter.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/assert.h"

#define METER_MAGIC SN_MAGIC('M', 'E', 'T', 'R')

struct sn_meter {
    uint32_t magic;
    _Atomic uint32_t refs; /* partner: itself; release on drop, acquire before free */
    /* Partner: sn_meter_read. They order nothing: each is right by itself, whenever it is read. */
    _Atomic uint64_t sent;
    _Atomic uint64_t received;
};

enum sn_err sn_meter_new(struct sn_meter **out_meter)
{
    struct sn_meter *meter = sn_alloc(sizeof *meter);
    if (meter == NULL) return SN_ENOMEM;
    meter->magic = METER_MAGIC;
    atomic_init(&meter->refs, 1);
    *out_meter = meter;
    return SN_OK;
}

struct sn_meter *sn_meter_ref(struct sn_meter *meter)
{
    if (meter == NULL) return NULL;
    SN_ASSERT(meter->magic == METER_MAGIC);
    atomic_fetch_add_explicit(&meter->refs, 1, memory_order_relaxed);
    return meter;
}

void sn_meter_free(struct sn_meter *meter)
{
    if (meter == NULL) return;
    SN_ASSERT(meter->magic == METER_MAGIC);
    if (atomic_fetch_sub_explicit(&meter->refs, 1, memory_order_acq_rel) != 1) return;
    meter->magic = 0;
    sn_free(meter, sizeof *meter);
}

void sn_meter_add(struct sn_meter *meter, uint64_t sent, uint64_t received)
{
    if (meter == NULL) return;
    SN_ASSERT(meter->magic == METER_MAGIC);
    if (sent > 0) atomic_fetch_add_explicit(&meter->sent, sent, memory_order_relaxed);
    if (received > 0) atomic_fetch_add_explicit(&meter->received, received, memory_order_relaxed);
}

void sn_meter_read(const struct sn_meter *meter, uint64_t *out_sent, uint64_t *out_received)
{
    SN_ASSERT(meter->magic == METER_MAGIC);
    *out_sent = atomic_load_explicit(&meter->sent, memory_order_relaxed);
    *out_received = atomic_load_explicit(&meter->received, memory_order_relaxed);
}
