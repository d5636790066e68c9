/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a TCP connection: bytes between being read and being written, and how the direction ends. The end
 * travels behind the bytes: it is passed on when all of them are written and its own delay is over. Does no I/O.
 *
 *   FP_OPEN --the source ended, or half-close--> FP_EOF ----> is_end_sent
 *          \-the source was reset--------------> FP_ABORT --> the whole connection is reset
 */
#ifndef SN_TOOLS_FAULTPROXY_WAY_H
#define SN_TOOLS_FAULTPROXY_WAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/faultproxy/buffer.h"
#include "tools/faultproxy/command.h"
#include "tools/faultproxy/fault.h"
#include "tools/faultproxy/pace.h"
#include "tools/faultproxy/stats.h"

enum fp_end { FP_OPEN, FP_EOF, FP_ABORT };

struct fp_way {
    enum fp_direction direction;
    struct fp_fault fault;
    struct fp_pace pace;
    struct fp_random random;
    struct fp_buffer buffer;
    uint64_t read_bytes; /* the position behind the last byte that was read */
    uint64_t passed_bytes;
    enum fp_end end;
    int64_t end_due_us;
    int64_t cut_until_us; /* 0 = not cut yet */
    bool is_end_sent;     /* nothing is written any more */
    bool is_source_done;  /* nothing can be read any more */
    bool is_discarding;   /* what is read has nowhere to go */
};

void fp_way_init(struct fp_way *way, enum fp_direction direction, const struct fp_fault *fault,
                 size_t buffer_bytes, uint64_t seed, uint64_t number, int64_t now_us);
void fp_way_fini(struct fp_way *way);

bool fp_way_wants_bytes(const struct fp_way *way);
/* Bytes were read into the free parts of the buffer. */
void fp_way_add(struct fp_way *way, size_t size, struct fp_stats *stats, int64_t now_us);
/* The source has nothing more to say. An abort comes after an end, too. */
void fp_way_end(struct fp_way *way, enum fp_end end, int64_t now_us);

/* How much may be written now, in one piece; when 0, *wake_us is made earlier if waiting helps. */
size_t fp_way_allow(struct fp_way *way, int64_t now_us, int64_t *wake_us);
void fp_way_passed(struct fp_way *way, size_t size, struct fp_stats *stats, int64_t now_us);
/* Whether `cut` has let everything pass that it lets pass. */
bool fp_way_is_cut(const struct fp_way *way);
/* The end that is to be passed on now, or FP_OPEN. */
enum fp_end fp_way_due_end(const struct fp_way *way, int64_t now_us, int64_t *wake_us);

/* A fault for this way; true when it was a flip that came too late. */
bool fp_way_apply(struct fp_way *way, const struct fp_command *command, struct fp_stats *stats,
                  int64_t now_us);
/* Ends the way from the middle: what is held is written, then the end; what still comes is discarded. What a black hole
 * holds is lost. */
void fp_way_half_close(struct fp_way *way, struct fp_stats *stats);
/* The receiver is gone: what is held is lost and nothing is written any more. */
void fp_way_lose_receiver(struct fp_way *way, struct fp_stats *stats);

#endif
