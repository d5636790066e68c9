/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: arguments are checked once, here, for all implementations; what is not open takes no bytes. */
#include "carrier/carrier.h"

#include "base/assert.h"

static void check_ops(const struct sn_carrier *carrier)
{
    SN_ASSERT(carrier != NULL);
    SN_ASSERT(carrier->ops != NULL);
}

static void check_lane(const struct sn_lane *lane)
{
    SN_ASSERT(lane != NULL);
    SN_ASSERT(lane->ops != NULL);
}

enum sn_err sn_carrier_listen(struct sn_carrier *carrier, struct sn_worker *worker,
                              const struct sn_netaddr *addr, struct sn_listener **out_listener,
                              struct sn_netaddr *out_bound)
{
    check_ops(carrier);
    SN_ASSERT(worker != NULL && addr != NULL);
    SN_ASSERT(out_listener != NULL && out_bound != NULL);
    return carrier->ops->listen(carrier, worker, addr, out_listener, out_bound);
}

void sn_listener_close(struct sn_listener *listener)
{
    if (listener == NULL) return;
    check_ops(listener->carrier);
    listener->carrier->ops->listener_close(listener);
}

enum sn_err sn_carrier_dial(struct sn_carrier *carrier, struct sn_worker *worker,
                            const struct sn_dial *dial, const struct sn_lane_ops *ops, void *user,
                            struct sn_lane **out_lane)
{
    check_ops(carrier);
    SN_ASSERT(worker != NULL && dial != NULL && ops != NULL);
    SN_ASSERT(out_lane != NULL);
    return carrier->ops->dial(carrier, worker, dial, ops, user, out_lane);
}

void sn_carrier_set_identity(struct sn_carrier *carrier, const struct sn_tls_identity *identity)
{
    check_ops(carrier);
    SN_ASSERT(identity != NULL);
    atomic_store(&carrier->identity, identity);
}

void sn_carrier_free(struct sn_carrier *carrier)
{
    if (carrier == NULL) return;
    check_ops(carrier);
    carrier->ops->free(carrier);
}

void sn_lane_set_user(struct sn_lane *lane, const struct sn_lane_ops *ops, void *user)
{
    check_lane(lane);
    SN_ASSERT(ops != NULL);
    lane->user_ops = ops;
    lane->user = user;
    /* What came while nobody listened. */
    if (lane->is_open && lane->worker != NULL) lane->ops->lane_resume_read(lane);
}

enum sn_err sn_lane_read(struct sn_lane *lane, void *out, size_t capacity, size_t *out_size)
{
    check_lane(lane);
    SN_ASSERT(lane->worker != NULL); /* not between detach and attach */
    SN_ASSERT(out != NULL && capacity > 0);
    SN_ASSERT(out_size != NULL);
    return lane->ops->lane_read(lane, out, capacity, out_size);
}

enum sn_err sn_lane_write(struct sn_lane *lane, const void *bytes, size_t size, size_t *out_size)
{
    check_lane(lane);
    SN_ASSERT(lane->worker != NULL);
    SN_ASSERT(bytes != NULL && size > 0);
    SN_ASSERT(out_size != NULL);
    return lane->ops->lane_write(lane, bytes, size, out_size);
}

void sn_lane_flush(struct sn_lane *lane)
{
    check_lane(lane);
    SN_ASSERT(lane->worker != NULL);
    lane->ops->lane_flush(lane);
}

size_t sn_lane_write_room(const struct sn_lane *lane)
{
    check_lane(lane);
    return lane->ops->lane_write_room(lane);
}

void sn_lane_resume_read(struct sn_lane *lane)
{
    check_lane(lane);
    SN_ASSERT(lane->worker != NULL);
    lane->ops->lane_resume_read(lane);
}

enum sn_err sn_lane_exporter(struct sn_lane *lane, uint8_t out[32])
{
    check_lane(lane);
    SN_ASSERT(out != NULL);
    return lane->ops->lane_exporter(lane, out);
}

void sn_lane_close(struct sn_lane *lane)
{
    check_lane(lane);
    SN_ASSERT(lane->worker != NULL);
    lane->ops->lane_close(lane);
}

void sn_lane_free(struct sn_lane *lane)
{
    if (lane == NULL) return;
    check_lane(lane);
    lane->ops->lane_free(lane);
}

void sn_lane_set_priority(struct sn_lane *lane, enum sn_io_priority priority)
{
    check_lane(lane);
    SN_ASSERT(priority == SN_IO_URGENT || priority == SN_IO_BULK);
    lane->ops->lane_set_priority(lane, priority);
}

void sn_lane_detach(struct sn_lane *lane)
{
    check_lane(lane);
    SN_ASSERT(lane->worker != NULL);
    SN_ASSERT(lane->is_open);
    lane->ops->lane_detach(lane);
}

enum sn_err sn_lane_attach(struct sn_lane *lane, struct sn_worker *worker)
{
    check_lane(lane);
    SN_ASSERT(lane->worker == NULL);
    SN_ASSERT(worker != NULL);
    return lane->ops->lane_attach(lane, worker);
}
