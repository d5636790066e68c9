/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: what sn_frame_decode lets through has a known type and a payload within its limit. */
#include "stream/frame.h"

#include <assert.h>

#include "base/assert.h"
#include "stream/bytes_int.h"

static_assert(SN_FRAME_DATA_BYTES_MAX <= UINT32_MAX, "sizes travel as u32");

void sn_frame_encode(const struct sn_frame *frame, uint8_t out[SN_FRAME_HEADER_BYTES])
{
    SN_ASSERT(frame->qos <= SN_QOS_BACKGROUND);
    out[0] = frame->type;
    out[1] = frame->flags;
    out[2] = frame->qos;
    out[3] = 0;
    sni_put_u32(out + 4, frame->size);
    sni_put_u64(out + 8, frame->stream);
    sni_put_u64(out + 16, frame->offset);
}

/* Flags that may be set, or -1 when there is no such type. */
static int flags_of(uint8_t type)
{
    switch (type) {
    case SN_FRAME_HELLO:
    case SN_FRAME_AUTH:
    case SN_FRAME_READY:
    case SN_FRAME_REFUSE:
    case SN_FRAME_PING:
    case SN_FRAME_PONG:
    case SN_FRAME_GOODBYE:
    case SN_FRAME_ACCEPT:
    case SN_FRAME_END:
    case SN_FRAME_RESET: return 0;
    case SN_FRAME_DATA: return SN_FRAME_AWAITED;
    case SN_FRAME_OPEN: return SN_FRAME_SESSION | SN_FRAME_RESUME;
    case SN_FRAME_ACK: return SN_FRAME_ENDED | SN_FRAME_RESUME;
    default: return -1;
    }
}

enum sn_err sn_frame_decode(const uint8_t bytes[SN_FRAME_HEADER_BYTES], struct sn_frame *out_frame)
{
    struct sn_frame frame = {.type = bytes[0],
                             .flags = bytes[1],
                             .qos = bytes[2],
                             .size = sni_get_u32(bytes + 4),
                             .stream = sni_get_u64(bytes + 8),
                             .offset = sni_get_u64(bytes + 16)};
    int flags = flags_of(frame.type);
    if (flags < 0 || (frame.flags & ~flags) != 0) return SN_EPROTO;
    if (frame.qos > SN_QOS_BACKGROUND || bytes[3] != 0) return SN_EPROTO;
    int is_session = frame.type < SN_FRAME_OPEN;
    if (is_session && (frame.stream != 0 || frame.offset != 0)) return SN_EPROTO;
    if (!is_session && frame.stream == 0) return SN_EPROTO;
    uint32_t size_max =
        frame.type == SN_FRAME_DATA ? SN_FRAME_DATA_BYTES_MAX : SN_FRAME_CONTROL_BYTES_MAX;
    if (frame.size > size_max) return SN_ETOOBIG;
    *out_frame = frame;
    return SN_OK;
}
