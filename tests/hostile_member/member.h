/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The member: who it is (files as `sennit render` made them), its boot, its lanes, and what it has with the other side.
 * One thread.
 */
#ifndef SN_TESTS_HOSTILE_MEMBER_MEMBER_H
#define SN_TESTS_HOSTILE_MEMBER_MEMBER_H

#include "agents/identity.h"
#include "hostile_member/lane.h"
#include "hostile_member/talk.h"

#define HM_LANES 8u

struct hm_member {
    struct sn_env *env;
    struct sn_agent_file *file;
    struct sn_identity identity;
    struct sn_trust trust;
    struct sn_boot_key *boot_key;
    uint64_t epoch;
    struct hm_lane lanes[HM_LANES];
    struct hm_talk talk;
    int listen_fd; /* -1 = none */
};

/* Errors are told on stderr. */
SN_MUST_CHECK enum sn_err hm_member_init(struct hm_member *member, const char *agent_file);
void hm_member_fini(struct hm_member *member);
/* Another boot: a new ephemeral key, and this epoch. */
SN_MUST_CHECK enum sn_err hm_member_boot(struct hm_member *member, uint64_t epoch);
uint64_t hm_now_ms(const struct hm_member *member);

/* Serves all lanes until something happens, at most `ms`; nonzero when `fd` (-1 = none) can be read. */
int hm_member_serve(struct hm_member *member, int fd, uint64_t ms);
/* Serves until `is_done` says so; 0 when it did not within `ms`. */
int hm_member_until(struct hm_member *member, int (*is_done)(void *arg), void *arg, uint64_t ms);

#endif
