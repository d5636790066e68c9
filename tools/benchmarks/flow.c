/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow: sends incompressible bytes through a forward and takes them at its other end. Sender and receiver are threads
 * of one process, so that one clock measures: all flows are connected end to end first (the receiver's first byte has
 * arrived at each sender), then time runs from the first sender's first byte until the last receiver saw its end.
 * Checked: each receiver has got exactly the bytes of its flow, by count and by a checksum that depends on their order.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "payload.h"

#define FLOWS_MAX    64u
#define CHUNK_BYTES  (256u * 1024u)
#define SOURCE_BYTES (16u * 1024u * 1024u) /* random bytes; each chunk begins elsewhere in them */
#define WAIT_S       120                   /* that nothing moves */

typedef uint64_t lanes __attribute__((vector_size(64)));

struct sums {
    lanes plain;
    lanes weighted;
};

struct flow {
    struct sums sent;
    struct sums received;
    pthread_t sender;
    pthread_t receiver;
    uint64_t received_bytes;
    uint64_t begin_ns;
    uint64_t end_ns;
    unsigned index;
    int out_fd;
    int in_fd;
};

struct run {
    uint16_t listen_port;
    uint16_t connect_port;
    unsigned flow_count;
    uint64_t flow_bytes;
    uint8_t *source; /* SOURCE_BYTES + CHUNK_BYTES */
    pthread_barrier_t start;
    struct flow flows[FLOWS_MAX];
};

struct job {
    struct run *run;
    struct flow *flow;
};

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("flow: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* --- Bytes ------------------------------------------------------------------------------------ */

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint8_t *make_source(uint64_t seed)
{
    size_t size = SOURCE_BYTES + CHUNK_BYTES;
    uint8_t *source = malloc(size);
    if (source == NULL) fail("no memory");
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = draw(&seed);
        memcpy(source + i, &word, sizeof word);
    }
    return source;
}

/* Where in the source the chunk lies that has this number in its flow; flows differ, and neighbours do. */
static const uint8_t *chunk_at(const struct run *run, unsigned flow, uint64_t number)
{
    uint64_t state = (uint64_t)flow << 48 ^ number;
    return run->source + draw(&state) % SOURCE_BYTES;
}

/* Fletcher's sums over lanes of 64 bits, which the processor adds side by side: as fast as memory, and altered, moved
 * or missing bytes show. `sums` goes on from chunk to chunk; a chunk that is no multiple of a lane set ends a flow. */
static void add_chunk(struct sums *sums, const uint8_t *bytes, size_t size)
{
    lanes plain = sums->plain;
    lanes weighted = sums->weighted;
    lanes words;
    size_t at = 0;
    for (; at + sizeof words <= size; at += sizeof words) {
        memcpy(&words, bytes + at, sizeof words);
        plain += words;
        weighted += plain;
    }
    if (at < size) {
        memset(&words, 0, sizeof words);
        memcpy(&words, bytes + at, size - at);
        plain += words;
        weighted += plain;
    }
    sums->plain = plain;
    sums->weighted = weighted;
}

static int is_same(const struct sums *left, const struct sums *right)
{
    for (unsigned i = 0; i < sizeof(lanes) / sizeof(uint64_t); i++) {
        if (left->plain[i] != right->plain[i] || left->weighted[i] != right->weighted[i]) return 0;
    }
    return 1;
}

static size_t chunk_size(const struct run *run, uint64_t done)
{
    uint64_t left = run->flow_bytes - done;
    return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
}

/* --- Sockets ---------------------------------------------------------------------------------- */

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* Nothing waits for ever. Buffers stay as the system sizes them. */
static void prepare(int fd)
{
    struct timeval wait = {.tv_sec = WAIT_S};
    int yes = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0) {
        fail("socket: %s", strerror(errno));
    }
}

static int listen_at(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, (int)FLOWS_MAX) != 0) {
        fail("listen at port %u: %s", port, strerror(errno));
    }
    return fd;
}

static void send_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t done = send(fd, bytes, size, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) fail("send: %s", strerror(errno));
        bytes += done;
        size -= (size_t)done;
    }
}

/* Fills the buffer, or less at the end of the flow; returns how much. */
static size_t read_full(int fd, uint8_t *buffer, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = recv(fd, buffer + done, size - done, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("recv: %s", strerror(errno));
        if (got == 0) break;
        done += (size_t)got;
    }
    return done;
}

/* --- Flows ------------------------------------------------------------------------------------ */

static void *run_sender(void *arg)
{
    struct run *run = ((struct job *)arg)->run;
    struct flow *flow = ((struct job *)arg)->flow;
    /* The sums are made before the clock runs: the processor belongs to what is measured. */
    for (uint64_t number = 0, done = 0; done < run->flow_bytes; number++) {
        size_t size = chunk_size(run, done);
        add_chunk(&flow->sent, chunk_at(run, flow->index, number), size);
        done += size;
    }
    (void)pthread_barrier_wait(&run->start);
    flow->begin_ns = bench_now_ns();
    for (uint64_t number = 0, done = 0; done < run->flow_bytes; number++) {
        size_t size = chunk_size(run, done);
        send_all(flow->out_fd, chunk_at(run, flow->index, number), size);
        done += size;
    }
    if (shutdown(flow->out_fd, SHUT_WR) != 0) fail("shutdown: %s", strerror(errno));
    return NULL;
}

static void *run_receiver(void *arg)
{
    struct run *run = ((struct job *)arg)->run;
    struct flow *flow = ((struct job *)arg)->flow;
    uint8_t *buffer = malloc(CHUNK_BYTES);
    size_t size;
    if (buffer == NULL) fail("no memory");
    (void)pthread_barrier_wait(&run->start);
    while ((size = read_full(flow->in_fd, buffer, CHUNK_BYTES)) > 0) {
        add_chunk(&flow->received, buffer, size);
        flow->received_bytes += size;
    }
    flow->end_ns = bench_now_ns();
    free(buffer);
    return NULL;
}

/* Connects one flow and waits until its other end is there: no two are ever being connected, so they pair up. A
 * forward that just started may refuse at first. */
static void connect_flow(const struct run *run, int listener, struct flow *flow)
{
    struct sockaddr_in to = loopback(run->connect_port);
    uint8_t greeting = 0;
    flow->out_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (flow->out_fd < 0) fail("socket: %s", strerror(errno));
    prepare(flow->out_fd);
    if (connect(flow->out_fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        fail("connect to port %u: %s", run->connect_port, strerror(errno));
    }
    flow->in_fd = accept(listener, NULL, NULL);
    if (flow->in_fd < 0) fail("accept: %s", strerror(errno));
    prepare(flow->in_fd);
    send_all(flow->in_fd, (const uint8_t *)"!", 1);
    if (read_full(flow->out_fd, &greeting, 1) != 1 || greeting != '!') fail("no greeting");
}

static void start(pthread_t *thread, void *(*run)(void *), struct job *job)
{
    int status = pthread_create(thread, NULL, run, job);
    if (status != 0) fail("thread: %s", strerror(status));
}

static uint64_t run_flows(struct run *run)
{
    static struct job jobs[FLOWS_MAX];
    uint64_t begin_ns = UINT64_MAX;
    uint64_t end_ns = 0;
    int listener = listen_at(run->listen_port);
    prepare(listener);
    for (unsigned i = 0; i < run->flow_count; i++) {
        run->flows[i].index = i;
        connect_flow(run, listener, &run->flows[i]);
    }
    (void)pthread_barrier_init(&run->start, NULL, 2 * run->flow_count + 1);
    for (unsigned i = 0; i < run->flow_count; i++) {
        jobs[i] = (struct job){run, &run->flows[i]};
        start(&run->flows[i].receiver, run_receiver, &jobs[i]);
        start(&run->flows[i].sender, run_sender, &jobs[i]);
    }
    (void)pthread_barrier_wait(&run->start);
    for (unsigned i = 0; i < run->flow_count; i++) {
        (void)pthread_join(run->flows[i].sender, NULL); /* they are ours, and not yet joined */
        (void)pthread_join(run->flows[i].receiver, NULL);
        if (run->flows[i].begin_ns < begin_ns) begin_ns = run->flows[i].begin_ns;
        if (run->flows[i].end_ns > end_ns) end_ns = run->flows[i].end_ns;
        (void)close(run->flows[i].out_fd); /* all was said and heard */
        (void)close(run->flows[i].in_fd);
    }
    (void)close(listener);
    return end_ns - begin_ns;
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
    static struct run run;
    uint64_t received = 0;
    unsigned wrong = 0;
    if (argc == 5) {
        run.listen_port = (uint16_t)read_number(argv[1], UINT16_MAX);
        run.connect_port = (uint16_t)read_number(argv[2], UINT16_MAX);
        run.flow_count = (unsigned)read_number(argv[3], FLOWS_MAX);
        run.flow_bytes = read_number(argv[4], UINT64_MAX / FLOWS_MAX);
    }
    if (run.listen_port == 0 || run.connect_port == 0 || run.flow_count == 0 ||
        run.flow_bytes == 0) {
        (void)fputs(
            "usage: flow LISTEN_PORT CONNECT_PORT FLOWS BYTES_PER_FLOW\n"
            "Listens where the forward leads to, connects to where it begins, and prints the "
            "result as one line of JSON.\n",
            stderr);
        return 2;
    }
    run.source = make_source(run.flow_bytes);
    uint64_t took_ns = run_flows(&run);
    uint64_t sent = run.flow_bytes * run.flow_count; /* each sender has ended well */
    for (unsigned i = 0; i < run.flow_count; i++) {
        const struct flow *flow = &run.flows[i];
        received += flow->received_bytes;
        wrong += flow->received_bytes != run.flow_bytes || !is_same(&flow->received, &flow->sent);
    }
    (void)printf("{\"flows\":%u,\"sent\":%llu,\"received\":%llu,\"wrong\":%u,\"us\":%llu}\n",
                 run.flow_count, (unsigned long long)sent, (unsigned long long)received, wrong,
                 (unsigned long long)(took_ns / 1000));
    free(run.source);
    return wrong == 0 ? 0 : 1;
}
