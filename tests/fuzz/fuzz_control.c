/* SPDX-License-Identifier: Apache-2.0 */
/* The control protocol: requests as an agent reads them, replies as a client does, and what a
 * client prints of them. */
#include <stdlib.h>
#include <string.h>

#include "agents/control.h"
#include "base/alloc.h"
#include "base/text.h"

static void require(int truth)
{
    if (!truth) abort();
}

static void read_request(const uint8_t *data, size_t size)
{
    struct sn_control_request request;
    struct sn_control_request again;
    struct sn_body body;
    if (sn_control_request_parse(data, size, &request) != SN_OK) return;
    require(request.verb[0] != '\0');
    require(request.timeout_ms <= SN_CONTROL_ASK_TIMEOUT_MAX_MS);
    require(request.payload_size <= SN_MESSAGE_BYTES_MAX);
    require(request.payload_size == 0 || request.payload >= data);
    require(request.payload_size == 0 || request.payload + request.payload_size <= data + size);
    require(sn_control_request_pack(&request, &body) == SN_OK);
    require(sn_control_request_parse(body.pack.data, body.pack.size, &again) == SN_OK);
    require(strcmp(request.verb, again.verb) == 0 && strcmp(request.to, again.to) == 0);
    if (request.to[0] != '\0') {
        require(strcmp(request.type, again.type) == 0);
        require(request.timeout_ms == again.timeout_ms);
        require(request.payload_size == again.payload_size);
    }
    sn_body_fini(&body);
}

static void read_reply(const uint8_t *data, size_t size)
{
    struct sn_control_reply reply;
    if (sn_control_reply_parse(data, size, &reply) != SN_OK) return;
    require((unsigned)reply.err < SN_ERR_COUNT);
    require(sn_utf8_is_valid(reply.text, strlen(reply.text)));
    require(reply.body_size <= size);
    require(reply.body_size == 0 || reply.body + reply.body_size <= data + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_request(data, size);
    read_reply(data, size);
    require(sn_alloc_in_use() == 0);
    return 0;
}
