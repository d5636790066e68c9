/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host for one actor: it notes every call as a line of text, answers as it was told to, and knows
 * what became of each stream, connection and listener, so that it can tell what was left over.
 *
 * Streams end as the real host ends them: after the actor's own reset, too, there is a STREAM_DOWN.
 */
#ifndef SN_TESTS_UNIT_TUNNEL_FAKE_H
#define SN_TESTS_UNIT_TUNNEL_FAKE_H

#include <stddef.h>
#include <stdint.h>

#include "config/tree.h"
#include "sennit/plugin.h"
#include "tunnel.h"

#define FAKE_TRACE_BYTES 16384
#define FAKE_THINGS_MAX  4096
#define FAKE_METRICS     16

enum fake_call {
    FAKE_LISTEN,
    FAKE_DIAL,
    FAKE_OPEN,
    FAKE_ACCEPT,
    FAKE_SPLICE,
    FAKE_TUNE,
    FAKE_TIMER,
    FAKE_REPLY,
    FAKE_CALL_COUNT
};

struct fake_stream {
    uint64_t token; /* 0 until it is accepted */
    uint8_t is_local;
    uint8_t is_accepted;
    uint8_t is_reset; /* by the actor; its STREAM_DOWN was not sent yet */
    uint8_t is_down;
    uint64_t conn; /* spliced */
    uint64_t idle_ms;
    struct sn_meter *meter;  /* held until it is down */
    uint64_t sent, received; /* counted already */
};

struct fake_conn {
    uint8_t is_taken;
    uint8_t is_closed;
};

struct fake_dial {
    uint64_t token;
    uint64_t timeout_ms;
    uint8_t is_answered;
};

struct fake {
    struct sn_ctx ctx; /* first: host functions get its address */
    struct sn_host host;
    struct sn_config_tree *tree;
    struct tunnel *state;
    uint64_t now_ms;
    char trace[FAKE_TRACE_BYTES];
    size_t trace_size;
    int is_quiet;                        /* no trace */
    int logs_too;                        /* log lines are part of the trace */
    enum sn_err next[FAKE_CALL_COUNT];   /* what the next call says, once */
    enum sn_err always[FAKE_CALL_COUNT]; /* what every call says, SN_OK = fine */
    const char *busy_address;            /* cannot be bound */
    /* Things are numbered from 1. */
    struct fake_stream streams[FAKE_THINGS_MAX];
    struct fake_conn conns[FAKE_THINGS_MAX];
    struct fake_dial dials[FAKE_THINGS_MAX];
    uint64_t listener_tokens[FAKE_THINGS_MAX];
    uint8_t is_listener_open[FAKE_THINGS_MAX];
    char listener_addresses[FAKE_THINGS_MAX][32];
    uint64_t stream_count, conn_count, dial_count, listener_count;
    struct {
        uint64_t token;
        uint64_t at_ms;
        int is_set;
    } timers[8];
    int64_t metrics[FAKE_METRICS];
    char *reply; /* text of the last answer */
    char reply_type[64];
    enum sn_err result; /* of the last handler call */
};

/* `yaml` is the plugin's configuration, NULL for none. The actor is not started. */
struct fake *fake_new(const char *yaml);
/* Fails the test when a connection, a listener or a stream is left; the actor was stopped and all
 * ended. */
void fake_free(struct fake *f);
/* Without that check. */
void fake_drop(struct fake *f);

void fake_start(struct fake *f); /* and wants SN_OK */
void fake_stop(struct fake *f);
/* Gives it another configuration, NULL for none; the former one is gone afterwards. */
void fake_configure(struct fake *f, const char *yaml);
void fake_handle(struct fake *f, struct sn_event *event);

/* Compares what was noted since the last call. */
void fake_expect(struct fake *f, const char *trace);

/* Events; they return the number of the thing. */
uint64_t fake_client(struct fake *f, uint64_t listener);
uint64_t fake_ask(struct fake *f, const char *agent, const char *target);
uint64_t fake_ask_bytes(struct fake *f, const char *agent, const void *meta, uint32_t size);
uint64_t fake_dialed(struct fake *f, uint64_t dial); /* the connection */
void fake_dial_failed(struct fake *f, uint64_t dial, enum sn_err err);
void fake_up(struct fake *f, uint64_t stream);
/* Bytes move in a stream that is up. */
void fake_move(struct fake *f, uint64_t stream, uint64_t sent, uint64_t received);
/* sent and received: all of its life. */
void fake_down(struct fake *f, uint64_t stream, enum sn_err err, uint64_t sent, uint64_t received);
/* Sends the STREAM_DOWN of streams that the actor has reset. */
void fake_settle(struct fake *f);
/* Lets time pass; timers fire when they are due. */
void fake_wait(struct fake *f, uint64_t ms);
/* The forward or target of that name, also a removed one that has flows; fails the test when there is none. */
struct forward *fake_forward(struct fake *f, const char *name);
struct target *fake_target(struct fake *f, const char *name);
uint64_t fake_sent(const struct counts *counts);
uint64_t fake_received(const struct counts *counts);
void fake_message(struct fake *f, const char *agent, const char *type, uint64_t correlation);

#endif
