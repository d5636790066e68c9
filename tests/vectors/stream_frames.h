/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream frames as they stand on the wire, header and payload in hexadecimal: one exchange, in
 * order. The opener has odd ids and a window of 1 MiB, the acceptor one of 256 KiB.
 */
#ifndef SN_TESTS_VECTORS_STREAM_FRAMES_H
#define SN_TESTS_VECTORS_STREAM_FRAMES_H

/* type flags qos zero | size | stream | offset | payload */
#define VECTOR_OPEN                                                                                \
    "10000100"                                                                                     \
    "00000013"                                                                                     \
    "0000000000000001"                                                                             \
    "0000000000000000"                                                                             \
    "8300a4"                                                                                       \
    "6563686f"                                                                                     \
    "01c403"                                                                                       \
    "616263"                                                                                       \
    "02ce"                                                                                         \
    "00100000"
#define VECTOR_ACCEPT                                                                              \
    "11000100"                                                                                     \
    "00000000"                                                                                     \
    "0000000000000001"                                                                             \
    "0000000000040000"
#define VECTOR_DATA                                                                                \
    "12000100"                                                                                     \
    "00000005"                                                                                     \
    "0000000000000001"                                                                             \
    "0000000000000000"                                                                             \
    "68656c6c6f"
#define VECTOR_END                                                                                 \
    "14000100"                                                                                     \
    "00000008"                                                                                     \
    "0000000000000001"                                                                             \
    "0000000000000005"                                                                             \
    "9555e8555c62dcfd"
#define VECTOR_ACK                                                                                 \
    "13020100"                                                                                     \
    "00000008"                                                                                     \
    "0000000000000001"                                                                             \
    "0000000000000005"                                                                             \
    "0000000000040000"
#define VECTOR_RESET                                                                               \
    "15000100"                                                                                     \
    "00000004"                                                                                     \
    "0000000000000001"                                                                             \
    "0000000000000000"                                                                             \
    "00000014"

#endif
