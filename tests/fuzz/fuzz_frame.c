/* SPDX-License-Identifier: Apache-2.0 */
/* Frame headers: whatever is accepted is within its limits and encodes to the same bytes. */
#include <string.h>

#include "base/assert.h"
#include "stream/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (; size >= SN_FRAME_HEADER_BYTES; data++, size--) {
        struct sn_frame frame;
        uint8_t back[SN_FRAME_HEADER_BYTES];
        if (sn_frame_decode(data, &frame) != SN_OK) continue;
        SN_ASSERT(frame.size <= SN_FRAME_DATA_BYTES_MAX);
        SN_ASSERT(frame.type == SN_FRAME_DATA || frame.size <= SN_FRAME_CONTROL_BYTES_MAX);
        SN_ASSERT(frame.qos <= SN_QOS_BACKGROUND);
        sn_frame_encode(&frame, back);
        SN_ASSERT(memcmp(back, data, sizeof back) == 0);
    }
    return 0;
}
