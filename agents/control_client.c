/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agents/control.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "sennit/limits.h"

#define ANSWER_MS 10000u /* beyond the time that an `ask` itself may take */

enum sn_err sn_control_connect(struct sn_env *env, const char *path,
                               struct sn_control_client *out_client)
{
    struct sn_control_client client = {.env = env};
    enum sn_err err = sn_env_connect_unix(env, path, &client.sock);
    if (err == SN_OK) *out_client = client;
    return err;
}

void sn_control_disconnect(struct sn_control_client *client)
{
    if (sn_sock_is_open(client->sock)) sn_env_close(client->env, client->sock);
    client->sock = SN_SOCK_NONE;
    sn_free(client->bytes, client->bytes_size);
    client->bytes = NULL;
}

static enum sn_err write_all(struct sn_control_client *client, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        size_t sent = 0;
        enum sn_err err = sn_env_write(client->env, client->sock, bytes, size, &sent);
        if (err == SN_EAGAIN) {
            err = sn_env_wait(client->env, client->sock, SN_READY_WRITE, ANSWER_MS);
        }
        if (err != SN_OK) return err;
        bytes += sent;
        size -= sent;
    }
    return SN_OK;
}

static enum sn_err read_all(struct sn_control_client *client, uint8_t *out, size_t size,
                            uint64_t timeout_ms)
{
    while (size > 0) {
        size_t got = 0;
        enum sn_err err = sn_env_read(client->env, client->sock, out, size, &got);
        if (err == SN_EAGAIN) {
            err = sn_env_wait(client->env, client->sock, SN_READY_READ, timeout_ms);
        }
        if (err != SN_OK) return err;
        out += got;
        size -= got;
    }
    return SN_OK;
}

static enum sn_err send_request(struct sn_control_client *client,
                                const struct sn_control_request *request)
{
    struct sn_body body;
    enum sn_err err = sn_control_request_pack(request, &body);
    if (err != SN_OK) return err;
    uint32_t size = (uint32_t)body.pack.size;
    uint8_t prefix[4] = {(uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8),
                         (uint8_t)size};
    err = write_all(client, prefix, sizeof prefix);
    if (err == SN_OK) err = write_all(client, body.pack.data, body.pack.size);
    sn_body_fini(&body);
    return err;
}

enum sn_err sn_control_call(struct sn_control_client *client,
                            const struct sn_control_request *request,
                            struct sn_control_reply *out_reply)
{
    uint8_t prefix[4];
    uint64_t timeout_ms = request->timeout_ms + ANSWER_MS;
    enum sn_err err = send_request(client, request);
    if (err == SN_OK || err == SN_ERESET || err == SN_ECLOSED) {
        /* Who refuses us need not hear us out: why may be there already. */
        enum sn_err read_err = read_all(client, prefix, sizeof prefix, timeout_ms);
        if (err == SN_OK || read_err == SN_OK) err = read_err;
    }
    if (err != SN_OK) return err;
    uint32_t size = ((uint32_t)prefix[0] << 24) | ((uint32_t)prefix[1] << 16) |
                    ((uint32_t)prefix[2] << 8) | prefix[3];
    if (size == 0 || size > SN_CONTROL_REPLY_BYTES_MAX) return SN_EPROTO;
    sn_free(client->bytes, client->bytes_size);
    client->bytes = sn_alloc_raw(size);
    if (client->bytes == NULL) return SN_ENOMEM;
    client->bytes_size = size;
    err = read_all(client, client->bytes, size, timeout_ms);
    if (err != SN_OK) return err;
    return sn_control_reply_parse(client->bytes, size, out_reply) == SN_OK ? SN_OK : SN_EPROTO;
}
