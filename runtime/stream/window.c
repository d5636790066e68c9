/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a stream may hold: a window for what it receives (the credit that the peer has) and one for what it sends
 * (what is retained until it is acknowledged). Both begin at the base and are taken from the budget.
 *
 * Guarantees: windows grow, by doubling, only while they are what limits the stream: the receiving one when the peer
 * used it up and the reader keeps pace, the sending one when it is full and the peer's credit is larger. So a window
 * follows bandwidth times delay, and a stalled reader or an idle stream stays small. Growth leaves a quarter of the
 * budget to new streams; when no more than that is left, windows shrink as they are used.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "stream/mux_int.h"

#define PINNED_SLACK                                                                               \
    (2u * SN_SLAB_BYTES_MAX) /* for large windows; others may pin twice their size */

static uint64_t ceiling(const struct sn_mux *mux)
{
    uint64_t limit = sn_budget_limit(mux->config.budget);
    return limit - limit / 4;
}

static int is_scarce(const struct sn_stream *stream)
{
    const struct sn_mux *mux = stream->mux;
    return stream->is_budgeted && sn_budget_used(mux->config.budget) > ceiling(mux);
}

/* Slabs stand for more than the bytes that are kept of them; the budget knows of the window only. */
static uint64_t pinned_max_of(uint32_t window)
{
    return (uint64_t)window + (window < PINNED_SLACK ? window : PINNED_SLACK);
}

static void set_rx(struct sn_stream *stream, uint32_t window)
{
    stream->rx_window = window;
    stream->rx.pinned_max = pinned_max_of(window);
}

static void set_tx(struct sn_stream *stream, uint32_t window)
{
    stream->tx_window = window;
    stream->tx.pinned_max = pinned_max_of(window);
}

enum sn_err sni_window_init(struct sn_stream *stream, int is_exempt)
{
    const struct sn_mux_config *config = &stream->mux->config;
    uint32_t window = config->window_bytes;
    stream->is_budgeted = config->budget != NULL && !is_exempt;
    if (!is_exempt && config->window_base_bytes > 0) window = config->window_base_bytes;
    if (stream->is_budgeted) {
        enum sn_err err = sn_budget_take(config->budget, 2 * (uint64_t)window);
        if (err != SN_OK) return err;
    }
    sni_pieces_init(&stream->tx, 0);
    sni_pieces_init(&stream->rx, 0);
    set_rx(stream, window);
    set_tx(stream, window);
    return SN_OK;
}

void sni_window_fini(struct sn_stream *stream)
{
    if (stream->is_budgeted) {
        sn_budget_give(stream->mux->config.budget, (uint64_t)stream->rx_window + stream->tx_window);
    }
    stream->is_budgeted = 0;
}

/* Twice as much, if that is allowed and can be had. */
static int take_more(const struct sn_stream *stream, uint32_t window)
{
    const struct sn_mux_config *config = &stream->mux->config;
    if (window > config->window_bytes / 2) return 0;
    if (!stream->is_budgeted) return 1;
    return sn_budget_take_below(config->budget, window, ceiling(stream->mux)) == SN_OK;
}

/* Half as much, but never less than the base. */
static int may_halve(const struct sn_stream *stream, uint32_t window)
{
    uint32_t base = stream->mux->config.window_base_bytes;
    return base > 0 && window / 2 >= base;
}

int sni_window_consumed(struct sn_stream *stream)
{
    uint32_t window = stream->rx_window;
    uint64_t left = stream->granted - stream->consumed;
    if (is_scarce(stream) && may_halve(stream, window)) {
        if (left > window / 2) return 0;
        set_rx(stream, window / 2);
        sn_budget_give(stream->mux->config.budget, window / 2);
        return 1;
    }
    int keeps_pace = stream->received - stream->consumed <= window / 4;
    if (stream->rx_is_pressed && keeps_pace && take_more(stream, window)) {
        set_rx(stream, window * 2);
        stream->rx_is_pressed = 0;
    }
    return left <= stream->rx_window - stream->rx_window / 4;
}

void sni_window_received(struct sn_stream *stream)
{
    if (stream->granted - stream->received <= stream->rx_window / 4) stream->rx_is_pressed = 1;
}

void sni_window_written(struct sn_stream *stream)
{
    uint32_t window = stream->tx_window;
    /* More than the peer would take is not worth keeping. */
    if (stream->tx.bytes < window || stream->credit - stream->acked <= window) return;
    if (take_more(stream, window)) set_tx(stream, window * 2);
}

void sni_window_acked(struct sn_stream *stream)
{
    uint32_t window = stream->tx_window;
    if (!is_scarce(stream) || !may_halve(stream, window) || stream->tx.bytes > window / 2) return;
    set_tx(stream, window / 2);
    sn_budget_give(stream->mux->config.budget, window / 2);
}
