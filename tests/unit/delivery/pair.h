/* SPDX-License-Identifier: Apache-2.0 */
/* Two deliveries that face each other, and what each of them told its owner. */
#ifndef SN_TESTS_UNIT_DELIVERY_PAIR_H
#define SN_TESTS_UNIT_DELIVERY_PAIR_H

#include <stdint.h>

#include "delivery/delivery.h"

#define MS          1000000ull
#define NUMBERS_MAX 200000u

/* What is known of one letter, by its number (the token, and the first 4 bytes of its payload). */
struct record {
    uint8_t is_accepted;
    uint8_t outcomes; /* how often one was told */
    uint8_t outcome;
    uint8_t reason;
    uint8_t placed;  /* how often it was put in a mailbox */
    uint8_t refused; /* the reason given by the receiver */
};

struct node {
    struct sn_delivery *delivery;
    struct node *other;
    struct sn_key *key;
    struct sn_boot_key *boot_key;
    struct sn_seal_end end;
    struct sn_delivery_config config;
    uint64_t rng;
    struct record *records; /* of the letters that this node sends */
    uint32_t next_number;
    uint32_t last_placed[SN_CLASS_COUNT]; /* number of the last letter that came here, + 1 */
    uint64_t outcomes;                    /* since the start */
    uint64_t placed;
    /* The answer of its mailboxes. NULL = always placed. */
    enum sn_reason (*answer)(struct node *node, const struct sn_incoming *incoming);
    /* Called in `outcome` when set. */
    void (*on_outcome)(struct node *node, const struct sn_letter *letter);
    uint32_t last_size; /* of the incoming message */
    uint64_t last_deadline_ns;
    uint64_t last_correlation;
    enum sn_letter_kind last_kind;
    char last_to[64], last_from[64], last_type[64];
    struct sn_ledger former; /* of its deliveries before */
};

struct pair {
    struct node a, b;
};

/* Errors: those of sn_delivery_new; with NULL as tune the configuration is a usual one. */
void pair_init(struct pair *pair, uint64_t seed, void (*tune)(struct sn_delivery_config *config));
void pair_fini(struct pair *pair);
/* A new boot: the old delivery is freed, its letters are settled. */
void node_restart(struct node *node);
/* Both sides see a session. */
void pair_up(struct pair *pair, uint64_t now_ns);
void pair_down(struct pair *pair);

/* A letter of `size` payload bytes (at least 4) to "echo" with the next number. */
struct sn_letter *node_letter(struct node *node, enum sn_class class_id, uint32_t size,
                              uint64_t deadline_ns);
/* Enqueues such a letter; frees it when refused. */
enum sn_err node_send(struct node *node, enum sn_class class_id, uint32_t size,
                      uint64_t deadline_ns);
/* Every parcel that `from` has now goes to its peer. Returns how many. */
uint32_t node_pump(struct node *from, uint64_t now_ns);
/* Back and forth until nothing moves, with acknowledgements. Returns the time afterwards. */
uint64_t pair_settle(struct pair *pair, uint64_t now_ns);

/* The ledger of all its boots holds, and agrees with the records. */
void node_check(const struct node *node);
/* Every accepted letter was told exactly one outcome, and it was true. */
void node_check_final(const struct node *node);

#endif
