/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees: the read buffer holds whole messages, so a payload is never copied; the write buffer is written when the
 * next message would not fit, or on demand.
 */
#include "nats.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES (256u * 1024u)
#define BATCH_BYTES  (64u * 1024u) /* larger batches were not faster */
#define HEAD_MAX     512u          /* the longest line before a payload */
#define WAIT_S       60            /* a message that does not come is lost */

struct nats {
    int fd;
    size_t in_begin; /* what is read and not parsed */
    size_t in_end;
    size_t out_size;
    uint8_t in[BUFFER_BYTES];
    uint8_t out[BUFFER_BYTES];
};

void nats_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("nats: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* --- Bytes ------------------------------------------------------------------------------------ */

void nats_flush(struct nats *nats)
{
    size_t done = 0;
    while (done < nats->out_size) {
        ssize_t size = send(nats->fd, nats->out + done, nats->out_size - done, MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) nats_fail("send: %s", strerror(errno));
        done += (size_t)size;
    }
    nats->out_size = 0;
}

static void put(struct nats *nats, const void *bytes, size_t size)
{
    memcpy(nats->out + nats->out_size, bytes, size);
    nats->out_size += size;
}

/* Makes room for `size` bytes and a line. */
static void reserve(struct nats *nats, size_t size)
{
    if (size > BUFFER_BYTES - HEAD_MAX) nats_fail("%zu bytes are too many", size);
    if (nats->out_size > 0 && nats->out_size + size + HEAD_MAX > BATCH_BYTES) nats_flush(nats);
}

/* Reads until at least `size` bytes are there; what was not parsed moves to the front first. */
static void fill(struct nats *nats, size_t size)
{
    if (size > BUFFER_BYTES) nats_fail("a message of %zu bytes", size);
    if (nats->in_begin + size > BUFFER_BYTES || nats->in_begin == nats->in_end) {
        memmove(nats->in, nats->in + nats->in_begin, nats->in_end - nats->in_begin);
        nats->in_end -= nats->in_begin;
        nats->in_begin = 0;
    }
    while (nats->in_end - nats->in_begin < size) {
        ssize_t got = recv(nats->fd, nats->in + nats->in_end, BUFFER_BYTES - nats->in_end, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) nats_fail("recv: %s", strerror(errno));
        if (got == 0) nats_fail("the server closed the connection");
        nats->in_end += (size_t)got;
    }
}

/* The next line, without its end; takes it. Valid until the next read. */
static const char *read_line(struct nats *nats, size_t *out_size)
{
    size_t seen = 0;
    for (;;) {
        size_t there = nats->in_end - nats->in_begin;
        const uint8_t *begin = nats->in + nats->in_begin;
        const uint8_t *end = there > seen ? memchr(begin + seen, '\n', there - seen) : NULL;
        if (end != NULL) {
            size_t size = (size_t)(end - begin);
            nats->in_begin += size + 1;
            *out_size = size > 0 && begin[size - 1] == '\r' ? size - 1 : size;
            return (const char *)begin;
        }
        seen = there;
        fill(nats, there + 1);
    }
}

/* --- Protocol --------------------------------------------------------------------------------- */

static int starts(const char *line, size_t size, const char *word)
{
    size_t word_size = strlen(word);
    return size >= word_size && memcmp(line, word, word_size) == 0;
}

/* Splits at blanks; returns the number of words. */
static unsigned split(const char *line, size_t size, const char *words[5], size_t sizes[5])
{
    unsigned count = 0;
    size_t at = 0;
    while (at < size && count < 5) {
        if (line[at] == ' ') {
            at++;
            continue;
        }
        words[count] = line + at;
        while (at < size && line[at] != ' ') at++;
        sizes[count] = (size_t)(line + at - words[count]);
        count++;
    }
    return count;
}

static size_t number_of(const char *word, size_t size)
{
    size_t number = 0;
    for (size_t i = 0; i < size; i++) {
        if (word[i] < '0' || word[i] > '9' || number > BUFFER_BYTES) nats_fail("a bad size");
        number = number * 10 + (size_t)(word[i] - '0');
    }
    return number;
}

/* MSG subject sid [reply] size */
static void parse_message(struct nats *nats, const char *line, size_t line_size,
                          struct nats_message *out)
{
    const char *words[5];
    size_t sizes[5];
    unsigned count = split(line, line_size, words, sizes);
    if (count != 4 && count != 5) nats_fail("not understood: %.*s", (int)line_size, line);
    size_t size = number_of(words[count - 1], sizes[count - 1]);
    const uint8_t *before = nats->in + nats->in_begin;
    size_t head = (size_t)(before - (const uint8_t *)line);
    /* Line and payload stay together, so that both can be pointed into. */
    nats->in_begin -= head;
    fill(nats, head + size + 2);
    const char *moved = (const char *)nats->in + nats->in_begin;
    nats->in_begin += head + size + 2;
    out->subject = moved + (words[1] - line);
    out->subject_size = sizes[1];
    out->reply = count == 5 ? moved + (words[3] - line) : NULL;
    out->reply_size = count == 5 ? sizes[3] : 0;
    out->payload = (const uint8_t *)moved + head;
    out->size = size;
}

/* Handles what is no message; returns nonzero when it was PONG. */
static int take_other(struct nats *nats, const char *line, size_t size)
{
    if (starts(line, size, "PONG")) return 1;
    if (starts(line, size, "PING")) {
        reserve(nats, 6);
        put(nats, "PONG\r\n", 6);
        nats_flush(nats);
        return 0;
    }
    if (starts(line, size, "INFO") || starts(line, size, "+OK")) return 0;
    nats_fail("the server says: %.*s", (int)size, line);
}

void nats_read(struct nats *nats, struct nats_message *out_message)
{
    for (;;) {
        size_t size = 0;
        const char *line = read_line(nats, &size);
        if (starts(line, size, "MSG ")) {
            parse_message(nats, line, size, out_message);
            return;
        }
        (void)take_other(nats, line, size); /* a late PONG matters to nobody */
    }
}

void nats_sync(struct nats *nats)
{
    size_t size = 0;
    const char *line;
    reserve(nats, 6);
    put(nats, "PING\r\n", 6);
    nats_flush(nats);
    do {
        line = read_line(nats, &size);
        if (starts(line, size, "MSG ")) nats_fail("a message before it was asked for");
    } while (!take_other(nats, line, size));
}

void nats_subscribe(struct nats *nats, const char *subject, unsigned sid)
{
    char line[HEAD_MAX];
    int size = snprintf(line, sizeof line, "SUB %s %u\r\n", subject, sid);
    if (size < 0 || (size_t)size >= sizeof line) nats_fail("a long subject");
    reserve(nats, (size_t)size);
    put(nats, line, (size_t)size);
}

void nats_publish(struct nats *nats, const char *subject, size_t subject_size, const char *reply,
                  const void *payload, size_t size)
{
    char digits[24];
    size_t at = sizeof digits;
    size_t rest = size;
    size_t reply_size = reply == NULL ? 0 : strlen(reply);
    if (subject_size + reply_size + 64 > HEAD_MAX) nats_fail("a long subject");
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    reserve(nats, size + 2);
    put(nats, "PUB ", 4);
    put(nats, subject, subject_size);
    put(nats, " ", 1);
    if (reply != NULL) {
        put(nats, reply, reply_size);
        put(nats, " ", 1);
    }
    put(nats, digits + at, sizeof digits - at);
    put(nats, "\r\n", 2);
    put(nats, payload, size);
    put(nats, "\r\n", 2);
}

struct nats *nats_open(uint16_t port)
{
    static const char hello[] =
        "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"c\",\"version\":\"1\","
        "\"protocol\":1,\"echo\":false}\r\n";
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval wait = {.tv_sec = WAIT_S};
    int yes = 1;
    size_t size = 0;
    struct nats *nats = calloc(1, sizeof *nats);
    if (nats == NULL) nats_fail("no memory");
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    nats->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (nats->fd < 0 || connect(nats->fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        nats_fail("connect: %s", strerror(errno));
    }
    if (setsockopt(nats->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0 ||
        setsockopt(nats->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) != 0) {
        nats_fail("socket: %s", strerror(errno));
    }
    const char *line = read_line(nats, &size);
    if (!starts(line, size, "INFO ")) nats_fail("this is no NATS server");
    put(nats, hello, sizeof hello - 1);
    nats_sync(nats);
    return nats;
}

void nats_close(struct nats *nats)
{
    (void)close(nats->fd); /* nothing is left to be written */
    free(nats);
}
