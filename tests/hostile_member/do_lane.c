/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about connections and handshakes. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "hostile_member/commands.h"

#define SHAKE_MS        8000u
#define BYTES_MAX       (512u * 1024u)
#define DEFAULT_SESSION 4711u

enum sn_err hm_do_boot(struct hm_command *command)
{
    const char *text = hm_line_text(command->line, "epoch", "+1");
    uint64_t epoch = hm_line_uint(command->line, "epoch", 1);
    if (text[0] == '+') epoch += command->member->epoch;
    if (strcmp(hm_line_text(command->line, "key", ""), "keep") == 0) {
        command->member->epoch = epoch;
        return SN_OK;
    }
    return hm_member_boot(command->member, epoch);
}

/* --- Handshakes ------------------------------------------------------------------------------------------ */

static enum hm_step step_of(const char *name)
{
    static const char *const names[] = {"tcp", "tls", "hello", "auth", "ready"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) return (enum hm_step)(HM_TCP + i);
    }
    return HM_UP;
}

static enum sn_err make_lies(struct hm_command *command, int is_dialer, struct hm_lies *lies)
{
    const struct hm_line *line = command->line;
    struct hm_member *member = command->member;
    struct sn_hello *hello = &lies->hello;
    const char *mesh = hm_line_text(line, "mesh", member->file->mesh);
    const char *agent = hm_line_text(line, "agent", member->file->agent);
    *lies = (struct hm_lies){.last = step_of(hm_line_text(line, "until", "up"))};
    lies->has_wrong_auth = (uint8_t)hm_line_has(line, "auth");
    lies->has_wrong_order = (uint8_t)hm_line_has(line, "order");
    hello->version = (uint32_t)hm_line_uint(line, "version", SN_PROTOCOL_VERSION);
    hello->id = member->identity.id;
    if (hm_line_has(line, "id")) hello->id.bytes[0] ^= 1;
    hello->epoch = hm_line_uint(line, "epoch", member->epoch);
    hello->lane = (uint32_t)hm_line_uint(line, "lane", 0);
    hello->session = hm_line_uint(line, "session", is_dialer ? DEFAULT_SESSION : 0);
    hello->wall_ms = hm_line_has(line, "wall") ? (int64_t)hm_line_uint(line, "wall", 0)
                                               : sn_env_wall_ms(member->env);
    sn_env_random(member->env, hello->nonce, sizeof hello->nonce);
    sn_boot_key_public(member->boot_key, hello->boot_public);
    enum sn_err err = sn_text_copy(hello->mesh, sizeof hello->mesh, mesh, strlen(mesh));
    if (err != SN_OK) return err;
    return sn_text_copy(hello->agent, sizeof hello->agent, agent, strlen(agent));
}

static int is_over(void *arg)
{
    return hm_lane_is_over(arg);
}

static enum sn_err shake(struct hm_command *command, int is_dialer)
{
    struct hm_lane *lane = command->lane;
    struct hm_lies lies;
    enum sn_err err = make_lies(command, is_dialer, &lies);
    if (err == SN_OK) err = hm_lane_begin(lane, is_dialer, &lies);
    if (err != SN_OK) return err;
    uint64_t ms = hm_line_uint(command->line, "ms", SHAKE_MS);
    if (!hm_member_until(command->member, is_over, lane, ms)) return SN_ETIMEDOUT;
    hm_report_uint(command->report, "other_epoch", lane->other.epoch);
    return SN_OK;
}

enum sn_err hm_do_dial(struct hm_command *command)
{
    struct hm_lane *lane = command->lane;
    hm_lane_close(lane, 0);
    enum sn_err err = hm_wire_dial(&lane->wire, (uint16_t)hm_line_uint(command->line, "port", 0));
    if (err != SN_OK) return err;
    lane->wire.send_max = hm_line_uint(command->line, "stop", UINT64_MAX);
    return shake(command, 1);
}

enum sn_err hm_do_listen(struct hm_command *command)
{
    struct hm_member *member = command->member;
    uint16_t port = (uint16_t)hm_line_uint(command->line, "port", 0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (member->listen_fd >= 0) (void)close(member->listen_fd); /* a socket */
    member->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (member->listen_fd < 0) return SN_EIO;
    (void)setsockopt(member->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on,
                     sizeof on); /* else bind fails */
    if (bind(member->listen_fd, (struct sockaddr *)&addr, sizeof addr) != 0) return SN_EINUSE;
    return listen(member->listen_fd, 16) == 0 ? SN_OK : SN_EIO;
}

enum sn_err hm_do_accept(struct hm_command *command)
{
    struct hm_member *member = command->member;
    struct hm_lane *lane = command->lane;
    uint64_t end = hm_now_ms(member) + hm_line_uint(command->line, "ms", SHAKE_MS);
    hm_lane_close(lane, 0);
    if (member->listen_fd < 0) return SN_ESTATE;
    while (!hm_member_serve(member, member->listen_fd, 50)) {
        if (hm_now_ms(member) >= end) return SN_ETIMEDOUT;
    }
    int fd = accept(member->listen_fd, NULL, NULL);
    if (fd < 0) return SN_EIO;
    hm_wire_adopt(&lane->wire, fd);
    lane->wire.send_max = hm_line_uint(command->line, "stop", UINT64_MAX);
    return shake(command, 0);
}

static int is_written(void *arg)
{
    const struct hm_lane *lane = arg;
    return hm_wire_waiting(&lane->wire) == 0 || lane->wire.end != HM_END_NONE;
}

enum sn_err hm_do_close(struct hm_command *command)
{
    const char *how = hm_line_text(command->line, "how", "fin");
    struct sn_frame goodbye = {.type = SN_FRAME_GOODBYE};
    if (strcmp(how, "goodbye") == 0) {
        hm_lane_send(command->lane, &goodbye, NULL, 0);
        (void)hm_member_until(command->member, is_written, command->lane, 1000); /* or not */
    }
    hm_lane_close(command->lane, strcmp(how, "reset") == 0);
    return SN_OK;
}

/* --- Bytes -------------------------------------------------------------------------------------------------- */

/* hex=..., then fill= bytes of no meaning. The caller frees BYTES_MAX. */
static uint8_t *make_bytes(const struct hm_command *command, size_t *out_size)
{
    uint8_t *bytes = sn_alloc_raw(BYTES_MAX);
    if (bytes == NULL) return NULL;
    size_t size = hm_line_hex(command->line, "hex", bytes, BYTES_MAX);
    size_t fill = hm_line_uint(command->line, "fill", 0);
    if (fill > BYTES_MAX - size) fill = BYTES_MAX - size;
    sn_env_random(command->member->env, bytes + size, fill);
    *out_size = size + fill;
    return bytes;
}

static enum sn_err write_bytes(struct hm_command *command,
                               void (*write)(struct hm_wire *wire, const void *bytes, size_t size))
{
    size_t size = 0;
    uint8_t *bytes = make_bytes(command, &size);
    if (bytes == NULL) return SN_ENOMEM;
    write(&command->lane->wire, bytes, size);
    sn_free(bytes, BYTES_MAX);
    (void)hm_member_until(command->member, is_written, command->lane, 2000); /* the report tells */
    return SN_OK;
}

enum sn_err hm_do_raw(struct hm_command *command)
{
    return write_bytes(command, hm_wire_write);
}

enum sn_err hm_do_tcp(struct hm_command *command)
{
    return write_bytes(command, hm_wire_write_tcp);
}

/* --- Manners ---------------------------------------------------------------------------------------------- */

enum sn_err hm_do_set(struct hm_command *command)
{
    const struct hm_line *line = command->line;
    struct hm_talk *talk = &command->member->talk;
    command->lane->is_rude = (uint8_t)!hm_line_is_on(line, "pong", !command->lane->is_rude);
    command->lane->wire.is_deaf = (uint8_t)hm_line_is_on(line, "deaf", command->lane->wire.is_deaf);
    talk->acks_off = (uint8_t)!hm_line_is_on(line, "acks", !talk->acks_off);
    talk->answers_off = (uint8_t)!hm_line_is_on(line, "answers", !talk->answers_off);
    return SN_OK;
}
