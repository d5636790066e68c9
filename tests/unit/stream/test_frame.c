/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "stream/frame.h"

static void test_golden_header(void **state)
{
    (void)state;
    static const uint8_t golden[SN_FRAME_HEADER_BYTES] = {
        18,   0,    2,    0,                            /* DATA, bulk */
        0x00, 0x03, 0xff, 0xfe,                         /* size */
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* stream */
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18  /* offset */
    };
    struct sn_frame frame = {.type = SN_FRAME_DATA,
                             .qos = SN_QOS_BULK,
                             .size = 0x3fffe,
                             .stream = UINT64_C(0x0102030405060708),
                             .offset = UINT64_C(0x1112131415161718)};
    uint8_t bytes[SN_FRAME_HEADER_BYTES];
    sn_frame_encode(&frame, bytes);
    assert_memory_equal(bytes, golden, sizeof golden);
    struct sn_frame back;
    assert_int_equal(sn_frame_decode(golden, &back), SN_OK);
    assert_int_equal(back.type, frame.type);
    assert_int_equal(back.flags, 0);
    assert_int_equal(back.qos, frame.qos);
    assert_int_equal(back.size, frame.size);
    assert_true(back.stream == frame.stream && back.offset == frame.offset);
}

static enum sn_err decode(struct sn_frame frame, uint8_t zero)
{
    uint8_t bytes[SN_FRAME_HEADER_BYTES];
    struct sn_frame out = {.type = 99};
    sn_frame_encode(&frame, bytes);
    bytes[3] = zero;
    enum sn_err err = sn_frame_decode(bytes, &out);
    if (err != SN_OK) assert_int_equal(out.type, 99); /* nothing written */
    return err;
}

static void test_types(void **state)
{
    (void)state;
    for (unsigned type = 0; type < 256; type++) {
        int is_session = type >= 1 && type <= 7;
        int is_stream = type >= 16 && type <= 21;
        struct sn_frame frame = {.type = (uint8_t)type, .stream = is_stream ? 5 : 0};
        assert_int_equal(decode(frame, 0), is_session || is_stream ? SN_OK : SN_EPROTO);
        frame.stream =
            is_stream ? 0 : 5; /* session frames have no stream, the others must have one */
        assert_int_equal(decode(frame, 0), SN_EPROTO);
    }
    struct sn_frame ping = {.type = SN_FRAME_PING, .offset = 1};
    assert_int_equal(decode(ping, 0), SN_EPROTO);
}

static void test_flags_qos_zero(void **state)
{
    (void)state;
    static const struct {
        uint8_t type, allowed;
    } rows[] = {{SN_FRAME_OPEN, SN_FRAME_SESSION | SN_FRAME_RESUME},
                {SN_FRAME_ACCEPT, 0},
                {SN_FRAME_ACK, SN_FRAME_ENDED | SN_FRAME_RESUME},
                {SN_FRAME_DATA, SN_FRAME_AWAITED},
                {SN_FRAME_END, 0},
                {SN_FRAME_RESET, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct sn_frame frame = {
                .type = rows[i].type, .flags = (uint8_t)(1u << bit), .stream = 1};
            int is_ok = (rows[i].allowed >> bit & 1) != 0;
            assert_int_equal(decode(frame, 0), is_ok ? SN_OK : SN_EPROTO);
        }
    }
    struct sn_frame frame = {.type = SN_FRAME_DATA, .stream = 1};
    assert_int_equal(decode(frame, 1), SN_EPROTO);
    uint8_t bytes[SN_FRAME_HEADER_BYTES];
    sn_frame_encode(&frame, bytes);
    bytes[2] = 4;
    assert_int_equal(sn_frame_decode(bytes, &frame), SN_EPROTO);
}

static void test_sizes(void **state)
{
    (void)state;
    struct sn_frame frame = {.type = SN_FRAME_DATA, .stream = 1, .size = SN_FRAME_DATA_BYTES_MAX};
    assert_int_equal(decode(frame, 0), SN_OK);
    frame.size++;
    assert_int_equal(decode(frame, 0), SN_ETOOBIG);
    frame.size = UINT32_MAX;
    assert_int_equal(decode(frame, 0), SN_ETOOBIG);
    frame.type = SN_FRAME_OPEN;
    frame.size = SN_FRAME_CONTROL_BYTES_MAX;
    assert_int_equal(decode(frame, 0), SN_OK);
    frame.size++;
    assert_int_equal(decode(frame, 0), SN_ETOOBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_header),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_flags_qos_zero),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
