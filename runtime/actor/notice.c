/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantee: a notice posted ends in exactly one of its event, ahead of which `told` is called, and `dropped`. */
#include <string.h>

#include "actor/actor_int.h"
#include "base/alloc.h"
#include "base/assert.h"

enum sn_err sn_notice_new(struct sn_actor_ref to, uint32_t incarnation, const char *agent,
                          const char *text, const void *payload, uint32_t payload_size,
                          struct sn_notice **out_notice)
{
    if (agent == NULL) agent = "";
    if (text == NULL) text = "";
    size_t agent_size = strlen(agent) + 1;
    size_t text_size = strlen(text) + 1;
    if (payload_size > SN_MESSAGE_BYTES_MAX || agent_size + text_size > 4096) return SN_ETOOBIG;
    size_t total = sizeof(struct sn_notice) + agent_size + text_size + payload_size;
    struct sn_notice *notice = sn_alloc(total);
    if (notice == NULL) return SN_ENOMEM;
    notice->to = to;
    notice->incarnation = incarnation;
    notice->alloc_size = (uint32_t)total;
    char *at = (char *)(notice + 1);
    memcpy(at, agent, agent_size);
    memcpy(at + agent_size, text, text_size);
    uint8_t *bytes = (uint8_t *)at + agent_size + text_size;
    if (payload_size > 0) memcpy(bytes, payload, payload_size);
    notice->event = (struct sn_event){.size = sizeof(struct sn_event),
                                      .agent = at,
                                      .actor = "",
                                      .type = "",
                                      .text = at + agent_size,
                                      .payload = bytes,
                                      .payload_size = payload_size};
    *out_notice = notice;
    return SN_OK;
}

void sn_notice_free(struct sn_notice *notice)
{
    if (notice == NULL) return;
    sn_buf_unref(&notice->event.buf);
    sn_free(notice, notice->alloc_size);
}

void sni_notice_drop(struct sn_actor *actor, struct sn_notice *notice)
{
    if (notice->holds_slot) atomic_fetch_sub(&actor->sends_outstanding, 1);
    if (notice->dropped != NULL) notice->dropped(notice, notice->arg);
    sn_notice_free(notice);
}

static void arrive(struct sn_task *task, struct sn_worker *worker)
{
    struct sn_notice *notice = SN_CONTAINER_OF(task, struct sn_notice, task);
    struct sn_actor *actor = sni_actor_of(sn_worker_owner(worker), notice->to);
    int is_lost = notice->incarnation == SN_INCARNATION_ANY
                      ? atomic_load(&actor->is_failed)
                      : actor->is_down || actor->incarnation != notice->incarnation;
    if (is_lost) {
        sni_notice_drop(actor, notice);
        return;
    }
    sn_list_push(&actor->notices, &notice->node);
    sni_actor_schedule(actor);
}

void sn_notice_post(struct sn_system *system, struct sn_notice *notice)
{
    struct sn_actor *actor = sni_actor_of(system, notice->to);
    SN_ASSERT(actor != NULL);
    SN_ASSERT(notice->event.kind != 0);
    notice->task.run = arrive;
    sn_worker_post(actor->worker, &notice->task);
}
