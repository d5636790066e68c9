/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of the NATS benchmarks, each a process of its own as an agent is. They do what the actors of the bench
 * plugin do: the same messages, checks, window and clock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nats.h"
#include "payload.h"
#include "samples.h"

#define DATA   "bench.data"
#define CREDIT "bench.credit"
#define DONE   "bench.done"
#define ASK    "bench.ask"
#define INBOX  "_INBOX.bench"

#define TEXT(s) (s), sizeof(s) - 1

struct counts {
    uint64_t messages;
    uint64_t bytes;
    uint64_t wrong;
};

static int usage(void)
{
    (void)fputs("usage: nats_bench sink|source PORT COUNT SIZE WINDOW\n"
                "       nats_bench echo PORT COUNT SIZE\n"
                "       nats_bench asker PORT COUNT SIZE INTERVAL_MS\n"
                "Prints `ready` where others wait for it, and the result as one line of JSON.\n",
                stderr);
    return 2;
}

/* --- Messages --------------------------------------------------------------------------------- */

static int run_sink(uint16_t port, uint64_t count, uint32_t size, uint64_t window)
{
    static uint8_t filled[BENCH_SIZE_MAX];
    struct counts counts = {0};
    uint64_t step = window / 4 > 0 ? window / 4 : 1;
    struct nats_message message;
    struct nats *nats = nats_open(port);
    bench_fill(filled, size);
    nats_subscribe(nats, DATA, 1);
    nats_sync(nats);
    (void)puts("ready");
    (void)fflush(stdout);
    for (uint64_t number = 0; number < count; number++) {
        nats_read(nats, &message);
        if (bench_is(message.payload, message.size, number, filled, size)) {
            counts.messages++;
        } else {
            counts.wrong++;
        }
        counts.bytes += message.size;
        if (number + 1 == count) {
            nats_publish(nats, TEXT(DONE), NULL, &counts, sizeof counts);
        } else if ((number + 1) % step == 0) {
            nats_publish(nats, TEXT(CREDIT), NULL, &counts, sizeof counts);
        } else {
            continue;
        }
        nats_flush(nats);
    }
    nats_sync(nats); /* the last word has left before the connection does */
    nats_close(nats);
    return 0;
}

/* Takes credit; returns nonzero when the sink is done. */
static int take_counts(struct nats *nats, struct counts *counts)
{
    struct nats_message message;
    nats_read(nats, &message);
    if (message.size != sizeof *counts) nats_fail("a report of %zu bytes", message.size);
    memcpy(counts, message.payload, sizeof *counts);
    return message.subject_size == sizeof DONE - 1 &&
           memcmp(message.subject, DONE, sizeof DONE - 1) == 0;
}

static int run_source(uint16_t port, uint64_t count, uint32_t size, uint64_t window)
{
    static uint8_t message[BENCH_SIZE_MAX];
    struct counts counts = {0};
    int is_done = 0;
    struct nats *nats = nats_open(port);
    bench_fill(message, size);
    nats_subscribe(nats, CREDIT, 1);
    nats_subscribe(nats, DONE, 2);
    nats_sync(nats);
    uint64_t begin_ns = bench_now_ns();
    for (uint64_t number = 0; number < count; number++) {
        while (number - (counts.messages + counts.wrong) >= window) {
            nats_flush(nats);
            is_done |= take_counts(nats, &counts);
        }
        bench_number(message, number);
        nats_publish(nats, TEXT(DATA), NULL, message, size);
    }
    nats_flush(nats);
    while (!is_done) is_done |= take_counts(nats, &counts);
    uint64_t took_ns = bench_now_ns() - begin_ns;
    (void)printf("{\"sent\":%llu,\"received\":%llu,\"bytes\":%llu,\"wrong\":%llu,\"us\":%llu}\n",
                 (unsigned long long)count, (unsigned long long)counts.messages,
                 (unsigned long long)counts.bytes, (unsigned long long)counts.wrong,
                 (unsigned long long)(took_ns / 1000));
    nats_close(nats);
    return 0;
}

/* --- Round trips ------------------------------------------------------------------------------ */

static int run_echo(uint16_t port, uint64_t count)
{
    struct nats_message message;
    char reply[128];
    struct nats *nats = nats_open(port);
    nats_subscribe(nats, ASK, 1);
    nats_sync(nats);
    (void)puts("ready");
    (void)fflush(stdout);
    for (uint64_t number = 0; number < count + BENCH_WARM_UP; number++) {
        nats_read(nats, &message);
        if (message.reply == NULL || message.reply_size >= sizeof reply) nats_fail("no question");
        memcpy(reply, message.reply, message.reply_size);
        nats_publish(nats, reply, message.reply_size, NULL, message.payload, message.size);
        nats_flush(nats);
    }
    nats_sync(nats);
    nats_close(nats);
    return 0;
}

static void pause_ms(uint64_t ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

static int run_asker(uint16_t port, uint64_t count, uint32_t size, uint64_t interval_ms)
{
    static uint8_t message[BENCH_SIZE_MAX];
    static uint64_t samples[BENCH_SAMPLES_MAX];
    struct nats_message answer;
    uint64_t wrong = 0;
    uint32_t sample_count = 0;
    struct nats *nats = nats_open(port);
    bench_fill(message, size);
    nats_subscribe(nats, INBOX, 1);
    nats_sync(nats);
    for (uint64_t number = 0; number < count + BENCH_WARM_UP; number++) {
        if (number > 0) pause_ms(interval_ms);
        bench_number(message, number);
        uint64_t begin_ns = bench_now_ns();
        nats_publish(nats, TEXT(ASK), INBOX, message, size);
        nats_flush(nats);
        nats_read(nats, &answer);
        uint64_t took_ns = bench_now_ns() - begin_ns;
        int is_good = bench_is(answer.payload, answer.size, number, message, size);
        if (number < BENCH_WARM_UP) continue;
        if (is_good) samples[sample_count++] = took_ns;
        if (!is_good) wrong++;
    }
    nats_close(nats);
    bench_sort(samples, sample_count);
    (void)printf("{\"samples\":%u,\"wrong\":%llu,\"min_ns\":%llu,\"p50_ns\":%llu,\"p99_ns\":%llu,"
                 "\"max_ns\":%llu}\n",
                 sample_count, (unsigned long long)wrong,
                 (unsigned long long)bench_percentile(samples, sample_count, 0),
                 (unsigned long long)bench_percentile(samples, sample_count, 50),
                 (unsigned long long)bench_percentile(samples, sample_count, 99),
                 (unsigned long long)bench_percentile(samples, sample_count, 100));
    return 0;
}

/* --- Program ---------------------------------------------------------------------------------- */

/* Zero = not a number from 1 to max. */
static uint64_t read_number(const char *text, uint64_t max)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || number > max) return 0;
    return number;
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 6) return usage();
    const char *role = argv[1];
    uint16_t port = (uint16_t)read_number(argv[2], UINT16_MAX);
    uint64_t count = read_number(argv[3], UINT64_MAX / BENCH_SIZE_MAX);
    uint32_t size = (uint32_t)read_number(argv[4], BENCH_SIZE_MAX);
    uint64_t last = argc == 6 ? read_number(argv[5], UINT32_MAX) : 0;
    if (port == 0 || count == 0 || size < BENCH_SIZE_MIN) return usage();
    if (strcmp(role, "echo") == 0 && argc == 5) return run_echo(port, count);
    if (argc != 6) return usage();
    if (strcmp(role, "sink") == 0 && last > 0) return run_sink(port, count, size, last);
    if (strcmp(role, "source") == 0 && last > 0) return run_source(port, count, size, last);
    if (strcmp(role, "asker") == 0 && count <= BENCH_SAMPLES_MAX) {
        return run_asker(port, count, size, last);
    }
    return usage();
}
