/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: while anything is waited for, all lanes are served. */
#include "hostile_member/member.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "env/env_posix.h"

#define ROUND_MS 2u /* acknowledgements that the mux holds back go out in the next round */

uint64_t hm_now_ms(const struct hm_member *member)
{
    return sn_env_now_ns(member->env) / 1000000u;
}

/* --- Life --------------------------------------------------------------------------------------- */

static enum sn_err read_file(struct hm_member *member, const char *path)
{
    struct sn_findings findings;
    char *text = NULL;
    size_t size = 0;
    enum sn_err err = sn_env_file_read(member->env, path, SN_CONFIG_BYTES_MAX, &text, &size);
    if (err != SN_OK) return err;
    sn_findings_init(&findings);
    err = sn_agent_file_parse(text, size, path, &findings, &member->file);
    sn_findings_fini(&findings);
    sn_free(text, size + 1);
    return err;
}

static enum sn_err read_identity(struct hm_member *member, const char *path)
{
    struct sn_identity_fault fault;
    char *folder = sn_path_folder(path);
    if (folder == NULL) return SN_ENOMEM;
    enum sn_err err =
        sn_identity_load(member->env, member->file, folder, &member->identity, &fault);
    sn_strfree(folder);
    if (fault.text[0] != '\0') (void)fprintf(stderr, "hostile_member: %s\n", fault.text);
    if (err != SN_OK) return err;
    member->trust = (struct sn_trust){.mesh = member->file->mesh,
                                      .authorities = member->identity.authorities,
                                      .authority_count = member->identity.authority_count,
                                      .pins = member->identity.pins,
                                      .pin_count = member->identity.pin_count};
    return SN_OK;
}

enum sn_err hm_member_init(struct hm_member *member, const char *agent_file)
{
    memset(member, 0, sizeof *member);
    member->listen_fd = -1;
    for (unsigned i = 0; i < HM_LANES; i++) hm_lane_init(&member->lanes[i], member);
    hm_talk_init(&member->talk, member);
    enum sn_err err = sn_env_posix_new(&member->env);
    if (err == SN_OK) err = sn_crypto_init();
    if (err == SN_OK) err = read_file(member, agent_file);
    if (err == SN_OK) err = read_identity(member, agent_file);
    if (err == SN_OK) err = hm_member_boot(member, (uint64_t)sn_env_wall_ms(member->env));
    return err;
}

void hm_member_fini(struct hm_member *member)
{
    hm_talk_fini(&member->talk);
    for (unsigned i = 0; i < HM_LANES; i++) hm_lane_close(&member->lanes[i], 0);
    if (member->listen_fd >= 0) (void)close(member->listen_fd); /* a socket */
    sn_boot_key_free(member->boot_key);
    sn_identity_free(&member->identity);
    sn_agent_file_free(member->file);
    sn_env_posix_free(member->env);
}

enum sn_err hm_member_boot(struct hm_member *member, uint64_t epoch)
{
    struct sn_boot_key *key = NULL;
    enum sn_err err = sn_boot_key_new(&key);
    if (err != SN_OK) return err;
    sn_boot_key_free(member->boot_key);
    member->boot_key = key;
    member->epoch = epoch;
    return SN_OK;
}

/* --- Serving -------------------------------------------------------------------------------------- */

int hm_member_serve(struct hm_member *member, int fd, uint64_t ms)
{
    struct pollfd polls[HM_LANES + 1] = {{.fd = fd, .events = POLLIN}};
    int is_busy = member->talk.lane != NULL;
    for (unsigned i = 0; i < HM_LANES; i++) {
        struct hm_lane *lane = &member->lanes[i];
        hm_lane_run(lane);
        int is_live = lane->wire.fd >= 0 && lane->wire.end == HM_END_NONE;
        polls[i + 1].fd = is_live ? lane->wire.fd : -1;
        if (!lane->wire.is_deaf) polls[i + 1].events = POLLIN;
        if (hm_wire_waiting(&lane->wire) > 0) polls[i + 1].events |= POLLOUT;
    }
    int timeout = is_busy && ms > ROUND_MS ? (int)ROUND_MS : (int)ms;
    (void)poll(polls, HM_LANES + 1, timeout); /* at worst the next round finds nothing */
    for (unsigned i = 0; i < HM_LANES; i++) hm_lane_run(&member->lanes[i]);
    return fd >= 0 && polls[0].revents != 0;
}

int hm_member_until(struct hm_member *member, int (*is_done)(void *arg), void *arg, uint64_t ms)
{
    uint64_t end = hm_now_ms(member) + ms;
    for (;;) {
        uint64_t now = hm_now_ms(member);
        if (is_done(arg)) return 1;
        if (now >= end) return 0;
        (void)hm_member_serve(member, -1, end - now < 10 ? end - now : 10); /* no descriptor */
    }
}
