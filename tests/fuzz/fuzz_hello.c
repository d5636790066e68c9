/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO and REFUSE payloads: whatever is accepted is well-formed, and encodes to something that reads the same. */
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "peer/hello.h"

static void check_hello(const uint8_t *data, size_t size)
{
    static uint8_t back[SN_HELLO_BYTES_MAX];
    struct sn_hello hello, again;
    size_t back_size;
    enum sn_err err = sn_hello_decode(data, size, &hello);
    SN_ASSERT(err == SN_OK || err == SN_EINVAL || err == SN_ETOOBIG || err == SN_EVERSION);
    if (err == SN_EVERSION) SN_ASSERT(hello.version != SN_PROTOCOL_VERSION);
    if (err != SN_OK) return;
    SN_ASSERT(hello.version == SN_PROTOCOL_VERSION);
    SN_ASSERT(sn_label_is_valid(hello.mesh, strlen(hello.mesh)));
    SN_ASSERT(sn_agent_name_is_valid(hello.agent, strlen(hello.agent)));
    SN_ASSERT(hello.epoch > 0);
    SN_ASSERT(sn_hello_encode(&hello, back, sizeof back, &back_size) == SN_OK);
    SN_ASSERT(sn_hello_decode(back, back_size, &again) == SN_OK);
    SN_ASSERT(memcmp(hello.nonce, again.nonce, sizeof hello.nonce) == 0);
    SN_ASSERT(hello.epoch == again.epoch && hello.session == again.session);
    SN_ASSERT(hello.wall_ms == again.wall_ms && hello.lane == again.lane);
}

static void check_refusal(const uint8_t *data, size_t size)
{
    static uint8_t back[SN_HELLO_BYTES_MAX];
    struct sn_refusal refusal, again;
    size_t back_size;
    if (sn_refusal_decode(data, size, &refusal) != SN_OK) return;
    SN_ASSERT(refusal.reason > SN_OK && refusal.reason < SN_ERR_COUNT);
    SN_ASSERT(memchr(refusal.text, '\0', sizeof refusal.text) != NULL);
    SN_ASSERT(sn_refusal_encode(&refusal, back, sizeof back, &back_size) == SN_OK);
    SN_ASSERT(sn_refusal_decode(back, back_size, &again) == SN_OK);
    SN_ASSERT(again.reason == refusal.reason && again.need_epoch == refusal.need_epoch);
    SN_ASSERT(strcmp(again.text, refusal.text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_hello(data, size);
    check_refusal(data, size);
    return 0;
}
