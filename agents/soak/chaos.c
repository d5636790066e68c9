/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee: what dies, when and for how long follows from the seed alone. Transitions of the link:
 *   up --kill--> down;  up --stop--> stopped --continue--> up;  stopped --kill--> down;  up --cut--> up;
 *   down --time--> starting --listens--> up
 */
#include "agents/soak/chaos.h"

#include "agents/identity.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

#define DOWN_MIN_MS   100u
#define DOWN_MAX_MS   1000u
#define START_MS      30000u /* until a relay listens */
#define NS_PER_MS     1000000u
#define NUMBER_BYTES  12u
#define SIGNAL_HANGUP 1
#define SIGNAL_KILL   9
#define SIGNAL_STOP   19
#define SIGNAL_GO_ON  18

/* --- The plan ------------------------------------------------------------------------------------------------- */

static uint64_t draw(struct sn_plan *plan)
{
    uint8_t bytes[8];
    uint64_t value = 0;
    sn_soak_fill(plan->seed ^ (plan->drawn++ * 0xd1342543de82ef95u), bytes, sizeof bytes);
    for (unsigned i = 0; i < 8; i++) value = value << 8 | bytes[i];
    return value;
}

static uint32_t between(struct sn_plan *plan, uint32_t min, uint32_t max)
{
    return min + (uint32_t)(draw(plan) % ((uint64_t)max - min + 1));
}

void sn_plan_init(struct sn_plan *plan, const struct sn_soak_flap *flap, uint64_t seed)
{
    *plan = (struct sn_plan){.flap = flap, .seed = seed};
}

/* Without putting back, so that a short soak has them all, too. */
static enum sn_order draw_order(struct sn_plan *plan)
{
    static const uint8_t full[SN_DEATH_DECK] = {SN_ORDER_KILL, SN_ORDER_STOP, SN_ORDER_STOP_KILL,
                                                SN_ORDER_CUT, SN_ORDER_CUT};
    if (plan->left == 0) {
        for (unsigned i = 0; i < SN_DEATH_DECK; i++) plan->deck[i] = full[i];
        plan->left = SN_DEATH_DECK;
    }
    uint32_t at = between(plan, 0, plan->left - 1);
    uint8_t order = plan->deck[at];
    plan->deck[at] = plan->deck[--plan->left];
    return (enum sn_order)order;
}

void sn_plan_next(struct sn_plan *plan, struct sn_death *out_death)
{
    const struct sn_soak_flap *flap = plan->flap;
    struct sn_death death = {.order = draw_order(plan)};
    death.after_ms = between(plan, flap->up_min_ms, flap->up_max_ms);
    death.stop_ms = between(plan, flap->stop_min_ms, flap->stop_max_ms);
    death.down_ms = between(plan, DOWN_MIN_MS, DOWN_MAX_MS);
    *out_death = death;
}

/* --- The relay ------------------------------------------------------------------------------------------------ */

static uint64_t size_of_log(const struct sn_chaos *chaos)
{
    struct sn_file_info info;
    enum sn_err err = sn_env_file_info(chaos->rig->soak->env, chaos->log, &info);
    return err == SN_OK ? info.size : 0; /* not there before the first start */
}

static void format(char out[NUMBER_BYTES], uint32_t value)
{
    struct sn_text text;
    sn_text_init(&text, out, NUMBER_BYTES);
    sn_text_add(&text, "%u", value);
}

static int start_relay(struct sn_chaos *chaos, uint64_t now_ns)
{
    struct sn_soak *soak = chaos->rig->soak;
    char port[NUMBER_BYTES], to[NUMBER_BYTES], side[NUMBER_BYTES], kib[NUMBER_BYTES];
    const char *const argv[] = {soak->self, "soak", "--relay", port, "--to", to,
                                "--side",   side,   "--kib",   kib,  NULL};
    format(port, chaos->rig->relay_port);
    format(to, chaos->rig->hub_port);
    format(side, chaos->side);
    format(kib, soak->scenario.flap.link_kib);
    chaos->log_bytes = size_of_log(chaos);
    chaos->state = SN_CHAOS_STARTING;
    chaos->at_ns = now_ns + (uint64_t)START_MS * NS_PER_MS;
    enum sn_err err = sn_process_start(soak->env, argv, chaos->log, SN_SOAK_CHILD, &chaos->relay);
    if (err == SN_OK) return 1;
    sn_verdict_fail(&soak->verdict, "relay: %s", sn_err_text(err));
    return 0;
}

static void plan_death(struct sn_chaos *chaos, uint64_t now_ns)
{
    sn_plan_next(&chaos->plan, &chaos->death);
    chaos->at_ns = now_ns + (uint64_t)chaos->death.after_ms * NS_PER_MS;
}

static void be_good(struct sn_chaos *chaos, uint64_t now_ns)
{
    chaos->state = SN_CHAOS_UP;
    chaos->good_ns = now_ns;
    plan_death(chaos, now_ns);
}

/* Its process ended by itself, or it never came to listen. */
static int check_start(struct sn_chaos *chaos, uint64_t now_ns)
{
    struct sn_soak *soak = chaos->rig->soak;
    int status = 0;
    if (size_of_log(chaos) > chaos->log_bytes) be_good(chaos, now_ns);
    if (sn_process_wait(soak->env, &chaos->relay, 0, &status) == SN_OK) {
        sn_verdict_fail(&soak->verdict, "relay ended with status %d; see %s", status, chaos->log);
        return 0;
    }
    if (chaos->state == SN_CHAOS_UP || now_ns < chaos->at_ns) return 1;
    sn_verdict_fail(&soak->verdict, "relay: not ready in time; see %s", chaos->log);
    return 0;
}

static void kill_relay(struct sn_chaos *chaos, uint64_t now_ns)
{
    sn_process_signal(&chaos->relay, SIGNAL_KILL); /* a stopped one must not go on before it */
    sn_soak_kill(chaos->rig->soak, &chaos->relay);
    chaos->state = SN_CHAOS_DOWN;
    chaos->at_ns = now_ns + (uint64_t)chaos->death.down_ms * NS_PER_MS;
}

static void stop_relay(struct sn_chaos *chaos, uint64_t now_ns)
{
    sn_process_signal(&chaos->relay, SIGNAL_STOP);
    chaos->state = SN_CHAOS_STOPPED;
    chaos->at_ns = now_ns + (uint64_t)chaos->death.stop_ms * NS_PER_MS;
}

static void cut(struct sn_chaos *chaos, uint64_t now_ns)
{
    sn_process_signal(&chaos->relay, SIGNAL_HANGUP);
    chaos->deaths[chaos->side == 0 ? SN_SOAK_CUT_EDGE : SN_SOAK_CUT_HUB]++;
    chaos->side = !chaos->side;
    be_good(chaos, now_ns); /* new connections go through at once */
}

static void die(struct sn_chaos *chaos, uint64_t now_ns)
{
    switch (chaos->death.order) {
    case SN_ORDER_KILL:
        chaos->deaths[SN_SOAK_KILLED]++;
        kill_relay(chaos, now_ns);
        break;
    case SN_ORDER_STOP:
        chaos->deaths[SN_SOAK_STOPPED]++;
        stop_relay(chaos, now_ns);
        break;
    case SN_ORDER_STOP_KILL:
        chaos->deaths[SN_SOAK_STOPPED_KILLED]++;
        stop_relay(chaos, now_ns);
        break;
    case SN_ORDER_CUT: cut(chaos, now_ns); break;
    }
}

static void end_stop(struct sn_chaos *chaos, uint64_t now_ns)
{
    if (chaos->death.order == SN_ORDER_STOP_KILL) {
        kill_relay(chaos, now_ns);
        return;
    }
    sn_process_signal(&chaos->relay, SIGNAL_GO_ON);
    be_good(chaos, now_ns);
}

int sn_chaos_step(struct sn_chaos *chaos, uint64_t now_ns)
{
    if (chaos->state == SN_CHAOS_STARTING) return check_start(chaos, now_ns);
    if (now_ns < chaos->at_ns) return 1;
    switch (chaos->state) {
    case SN_CHAOS_UP:
        if (!chaos->is_calm) die(chaos, now_ns);
        return 1;
    case SN_CHAOS_STOPPED: end_stop(chaos, now_ns); return 1;
    case SN_CHAOS_DOWN: return start_relay(chaos, now_ns);
    default: return 1;
    }
}

uint64_t sn_chaos_good_since(const struct sn_chaos *chaos)
{
    return chaos->state == SN_CHAOS_UP ? chaos->good_ns : 0;
}

int sn_chaos_open(struct sn_rig *rig, struct sn_chaos *out_chaos)
{
    struct sn_soak *soak = rig->soak;
    struct sn_chaos *chaos = out_chaos;
    *chaos = (struct sn_chaos){.rig = rig, .is_calm = 1};
    sn_plan_init(&chaos->plan, &soak->scenario.flap, soak->seed);
    chaos->log = sn_path_in(rig->folder, "relay.log");
    if (chaos->log == NULL) {
        sn_verdict_fail(&soak->verdict, "relay: %s", sn_err_text(SN_ENOMEM));
        return 0;
    }
    int is_fine = start_relay(chaos, sn_env_now_ns(soak->env));
    while (is_fine && chaos->state == SN_CHAOS_STARTING && !soak->is_cancelled) {
        sn_soak_pause(soak, SN_SOAK_POLL_MS);
        is_fine = sn_chaos_step(chaos, sn_env_now_ns(soak->env));
    }
    return is_fine;
}

void sn_chaos_close(struct sn_chaos *chaos)
{
    if (chaos->rig == NULL) return;
    sn_soak_kill(chaos->rig->soak, &chaos->relay);
    sn_strfree(chaos->log);
    *chaos = (struct sn_chaos){0};
}

void sn_chaos_begin(struct sn_chaos *chaos)
{
    chaos->is_calm = 0;
    plan_death(chaos, sn_env_now_ns(chaos->rig->soak->env));
}

void sn_chaos_calm(struct sn_chaos *chaos)
{
    chaos->is_calm = 1;
}
