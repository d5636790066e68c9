/* SPDX-License-Identifier: Apache-2.0 */
#include "link/pump.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

/* Recorded from libnng 1.5.2: the hello of a PAIR v1 socket, then the parcels "a" and "hello". */
static const uint8_t RECORDED[] = {
    0, 'S', 'P', 0, 0, 0x11, 0, 0,                                        /* hello */
    1, 0,   0,   0, 0, 0,    0, 0, 5, 0, 0, 0, 1, 'a',                    /* one byte */
    1, 0,   0,   0, 0, 0,    0, 0, 9, 0, 0, 0, 1, 'h', 'e', 'l', 'l', 'o' /* five */
};

static void test_whole(void **state)
{
    (void)state;
    struct sn_sp_scan scan = {0};
    uint32_t boundary = 99;
    assert_true(sn_sp_is_boundary(&scan));
    assert_int_equal(sn_sp_scan(&scan, RECORDED, sizeof RECORDED, &boundary), SN_OK);
    assert_int_equal(boundary, sizeof RECORDED);
    assert_int_equal(scan.messages, 2);
    assert_int_equal(scan.message_bytes, sizeof RECORDED - SN_SP_HELLO_BYTES);
    assert_true(sn_sp_is_boundary(&scan));
}

/* However the bytes are cut in three, the result is the same and each boundary is found. */
static void test_any_cut(void **state)
{
    (void)state;
    static const uint32_t ENDS[] = {8, 22, 40};
    for (uint32_t i = 0; i <= sizeof RECORDED; i++) {
        for (uint32_t j = i; j <= sizeof RECORDED; j++) {
            struct sn_sp_scan scan = {0};
            const uint32_t cuts[] = {0, i, j, sizeof RECORDED};
            for (unsigned k = 0; k < 3; k++) {
                uint32_t from = cuts[k];
                uint32_t to = cuts[k + 1];
                uint32_t boundary = 99;
                assert_int_equal(sn_sp_scan(&scan, RECORDED + from, to - from, &boundary), SN_OK);
                uint32_t expected = 0;
                for (unsigned e = 0; e < 3; e++) {
                    if (ENDS[e] > from && ENDS[e] <= to) expected = ENDS[e] - from;
                }
                assert_int_equal(boundary, expected);
                int is_end = to == 0 || to == 8 || to == 22 || to == 40;
                assert_int_equal(sn_sp_is_boundary(&scan), is_end);
            }
            assert_int_equal(scan.messages, 2);
        }
    }
}

/* Any other value of a byte that is not body is refused, and at that byte or at the end of its field. */
static void test_any_wrong_byte(void **state)
{
    (void)state;
    static const uint8_t IS_BODY[sizeof RECORDED] = {
        [21] = 1, [35] = 1, [36] = 1, [37] = 1, [38] = 1, [39] = 1};
    for (uint32_t at = 0; at < sizeof RECORDED; at++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            uint8_t bytes[sizeof RECORDED];
            memcpy(bytes, RECORDED, sizeof RECORDED);
            bytes[at] ^= (uint8_t)flip;
            struct sn_sp_scan scan = {0};
            uint32_t boundary = 99;
            enum sn_err err = sn_sp_scan(&scan, bytes, sizeof RECORDED, &boundary);
            int is_length = (at >= 14 && at <= 16) || (at >= 28 && at <= 30);
            if (IS_BODY[at]) assert_int_equal(err, SN_OK);
            if (!IS_BODY[at] && !is_length) assert_int_equal(err, SN_EPROTO);
            if (err != SN_OK) assert_int_equal(boundary, 99);
        }
    }
}

static enum sn_err scan_head(uint64_t length, uint32_t hops, struct sn_sp_scan *scan)
{
    uint8_t bytes[SN_SP_HELLO_BYTES + SN_SP_HEAD_BYTES] = {0, 'S', 'P', 0, 0, 0x11, 0, 0, 1};
    for (unsigned i = 0; i < 8; i++) bytes[9 + i] = (uint8_t)(length >> (56 - 8 * i));
    for (unsigned i = 0; i < 4; i++) bytes[17 + i] = (uint8_t)(hops >> (24 - 8 * i));
    uint32_t boundary = 0;
    memset(scan, 0, sizeof *scan);
    return sn_sp_scan(scan, bytes, sizeof bytes, &boundary);
}

static void test_lengths_and_hops(void **state)
{
    (void)state;
    struct sn_sp_scan scan;
    assert_int_equal(scan_head(0, 1, &scan), SN_EPROTO);
    assert_int_equal(scan_head(3, 1, &scan), SN_EPROTO);
    assert_int_equal(scan_head(4, 1, &scan), SN_EPROTO); /* an empty parcel */
    assert_int_equal(scan_head(5, 1, &scan), SN_OK);
    assert_int_equal(scan_head(SN_PARCEL_BYTES_MAX + 4u, 1, &scan), SN_OK);
    assert_int_equal(scan.body_left, SN_PARCEL_BYTES_MAX);
    assert_false(sn_sp_is_boundary(&scan));
    assert_int_equal(scan_head(SN_PARCEL_BYTES_MAX + 5u, 1, &scan), SN_EPROTO);
    assert_int_equal(scan_head(UINT64_MAX, 1, &scan), SN_EPROTO);
    assert_int_equal(scan_head((1ull << 32) + 5, 1, &scan), SN_EPROTO);
    assert_int_equal(scan_head(5, 0, &scan), SN_EPROTO);
    assert_int_equal(scan_head(5, 2, &scan), SN_EPROTO);
    assert_int_equal(scan_head(5, 0x101, &scan), SN_EPROTO);
}

/* --- The queue ------------------------------------------------------------------------------------------- */

static struct sn_buf piece_of(uint32_t size, uint8_t *next)
{
    struct sn_buf piece;
    assert_int_equal(sn_buf_new(size, 0, &piece), SN_OK);
    piece.size = size;
    for (uint32_t i = 0; i < size; i++) piece.data[i] = (*next)++;
    return piece;
}

static uint8_t check_front(const struct sn_pump_queue *queue, uint32_t size, uint8_t next)
{
    for (uint32_t index = 0; size > 0; index++) {
        const struct sn_buf *view = sn_pump_at(queue, index);
        for (uint32_t i = 0; i < view->size && size > 0; i++, size--) {
            assert_int_equal(view->data[i], next);
            next++;
        }
    }
    return next;
}

static void test_queue_keeps_order(void **state)
{
    (void)state;
    size_t before = sn_alloc_in_use();
    struct sn_pump_queue *queue = calloc(1, sizeof *queue);
    uint8_t in = 0;
    uint8_t out = 0;
    uint32_t random = 1;
    for (unsigned round = 0; round < 400; round++) {
        random = random * 1103515245u + 12345u;
        uint32_t size = 1 + (random >> 8) % (round % 3 == 0 ? 40000 : 300);
        struct sn_buf piece = piece_of(size, &in);
        assert_int_equal(sn_pump_push(queue, &piece, size), SN_OK);
        assert_null(piece.slab);
        assert_int_equal(queue->whole, queue->bytes);
        uint32_t take = (random >> 4) % (queue->bytes + 1);
        if (queue->bytes < 200000) take /= 2;
        out = check_front(queue, take, out);
        sn_pump_advance(queue, take);
    }
    sn_pump_clear(queue);
    assert_int_equal(queue->count, 0);
    free(queue);
    assert_int_equal(sn_alloc_in_use(), before);
}

/* The worst mixes of pieces fill it to its limit in bytes without running out of places, and the slabs it pins
 * stay near the bytes it holds. */
static void test_queue_is_bounded(void **state)
{
    (void)state;
    static const uint32_t MIXES[][2] = {{1, 1},
                                        {1, SN_PUMP_COPY_BYTES_MAX + 1},
                                        {SN_PUMP_COPY_BYTES_MAX, SN_PUMP_COPY_BYTES_MAX + 1},
                                        {SN_PUMP_COPY_BYTES_MAX + 1, SN_PUMP_COPY_BYTES_MAX + 1},
                                        {SN_PUMP_COPY_BYTES_MAX, SN_PUMP_COPY_BYTES_MAX},
                                        {SN_SLAB_BYTES_MAX, SN_SLAB_BYTES_MAX}};
    for (unsigned m = 0; m < sizeof MIXES / sizeof MIXES[0]; m++) {
        size_t before = sn_alloc_in_use();
        struct sn_pump_queue *queue = calloc(1, sizeof *queue);
        uint8_t next = 0;
        for (unsigned i = 0;; i++) {
            uint32_t size = MIXES[m][i % 2];
            if (size > SN_PUMP_BYTES_MAX - queue->bytes) break;
            struct sn_buf piece = piece_of(size, &next);
            assert_int_equal(sn_pump_push(queue, &piece, 0), SN_OK);
        }
        assert_true(queue->bytes > SN_PUMP_BYTES_MAX / 2);
        assert_true(queue->count <= SN_PUMP_VIEWS_MAX);
        (void)check_front(queue, queue->bytes, 0);
        sn_pump_clear(queue);
        assert_int_equal(sn_alloc_in_use(), before);
        free(queue);
    }
}

static void test_queue_drops_the_rest(void **state)
{
    (void)state;
    struct sn_pump_queue *queue = calloc(1, sizeof *queue);
    uint8_t next = 0;
    struct sn_buf piece = piece_of(20000, &next);
    assert_int_equal(sn_pump_push(queue, &piece, 12000), SN_OK);
    piece = piece_of(500, &next);
    assert_int_equal(sn_pump_push(queue, &piece, 0), SN_OK);
    assert_int_equal(queue->whole, 12000);
    sn_pump_advance(queue, 1000);
    sn_pump_drop_rest(queue);
    assert_int_equal(queue->bytes, 11000);
    assert_int_equal(queue->whole, 11000);
    assert_int_equal(queue->count, 1);
    (void)check_front(queue, 11000, (uint8_t)1000);
    sn_pump_advance(queue, 11000);
    assert_int_equal(queue->count, 0);
    sn_pump_drop_rest(queue); /* harmless when empty */
    free(queue);
}

static void test_allocation_failure(void **state)
{
    (void)state;
    struct sn_pump_queue *queue = calloc(1, sizeof *queue);
    uint8_t next = 0;
    struct sn_buf piece = piece_of(10, &next);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_pump_push(queue, &piece, 0), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_int_equal(piece.size, 10); /* still the caller's */
    assert_int_equal(queue->bytes, 0);
    assert_int_equal(sn_pump_push(queue, &piece, 0), SN_OK);
    sn_pump_clear(queue);
    free(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_any_wrong_byte),
        cmocka_unit_test(test_lengths_and_hops),
        cmocka_unit_test(test_queue_keeps_order),
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_queue_drops_the_rest),
        cmocka_unit_test(test_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
