/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that do not play by the rules: plain sockets, and TLS that was set up by hand. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "conformance/carrier_suite_int.h"
#include "unit/rng.h"

static const struct carrier_provider *tested;

static struct world *started(void)
{
    struct world *world = world_new(tested);
    world_start(world);
    return world;
}

/* --- Sockets ------------------------------------------------------------------------------------------------- */

/* A blocking connection to the listener from 127.0.0.`host`; nothing waits for longer than 5 s. */
static int raw_connect(struct world *world, uint8_t host)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u | host)};
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons(world->bound.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 5};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    return fd;
}

static int raw_listen(struct sn_netaddr *out_addr, int backlog)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &size), 0);
    *out_addr = (struct sn_netaddr){
        .family = SN_NETADDR_IP4, .ip = {127, 0, 0, 1}, .port = ntohs(addr.sin_port)};
    return fd;
}

static void raw_send(int fd, const void *bytes, size_t size)
{
    /* The other side may have hung up already: what it does then is what is tested. */
    (void)!send(fd, bytes, size, MSG_NOSIGNAL);
}

/* 1 when the other side ended the connection. */
static int raw_is_ended(int fd)
{
    char scratch[512];
    ssize_t got;
    do {
        got = recv(fd, scratch, sizeof scratch, 0);
    } while (got > 0);
    return got == 0 || errno == ECONNRESET;
}

static void raw_reset(int fd)
{
    struct linger linger = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    close(fd);
}

/* A good peer gets in, soon. */
static void check_good_peer(struct world *world, struct end *out)
{
    uint64_t begin = sn_env_now_ns(world->env);
    assert_int_equal(world_dial(world, &world->client, out, world->workers[1], NULL), SN_OK);
    end_wait_open(out);
    assert_true(sn_env_now_ns(world->env) - begin < 1000 * SN_MS);
}

/* --- Silence ---------------------------------------------------------------------------------------------------- */

static void test_silent_listener(void **state)
{
    (void)state;
    struct world *world = started();
    struct sn_dial dial = {.timeout_ms = 150, .expect_agent = "paris/hub"};
    int fd = raw_listen(&dial.addr, 16);
    struct end *out = &world->outbound[0];
    uint64_t begin = sn_env_now_ns(world->env);
    assert_int_equal(world_dial(world, &world->client, out, world->workers[1], &dial), SN_OK);
    end_wait_failed(out);
    assert_int_equal(out->failure.err, SN_ETIMEDOUT);
    assert_int_equal(out->failure.is_refusal, 0);
    assert_non_null(strstr(out->failure.detail, "handshake"));
    assert_true(sn_env_now_ns(world->env) - begin >= 150 * SN_MS);
    close(fd);
    world_free(world);
}

/* The queue of a listener is full, so that connecting itself gets no answer. */
static void test_connecting_takes_too_long(void **state)
{
    (void)state;
    struct world *world = started();
    struct sn_dial dial = {.timeout_ms = 150};
    int fd = raw_listen(&dial.addr, 0);
    struct sn_netaddr real = world->bound;
    world->bound = dial.addr;
    int first = raw_connect(world, 1);
    world->bound = real;
    struct end *out = &world->outbound[0];
    assert_int_equal(world_dial(world, &world->client, out, world->workers[1], &dial), SN_OK);
    end_wait_failed(out);
    assert_int_equal(out->failure.err, SN_ETIMEDOUT);
    assert_non_null(strstr(out->failure.detail, "connecting"));
    close(first);
    close(fd);
    world_free(world);
}

static void test_silent_dialer(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->handshake_timeout_ms = 150;
    world_start(world);
    int fd = raw_connect(world, 1);
    struct end *in = world_inbound(world, 0);
    end_wait_failed(in);
    assert_int_equal(in->failure.err, SN_ETIMEDOUT);
    assert_int_equal(in->failure.was_open, 0);
    assert_true(raw_is_ended(fd));
    close(fd);
    world_free(world);
}

static int count_unfinished(void *arg)
{
    struct world *world = arg;
    int count = 0;
    for (uint32_t i = 0; i < world->inbound_count; i++) {
        count += !world->inbound[i].opened && !world->inbound[i].failed;
    }
    return count;
}

static int is_full(void *arg)
{
    return count_unfinished(arg) == 64;
}

static void test_the_oldest_silent_one_makes_room(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->handshakes_per_address_max = 8;
    world_start(world);
    int fds[64];
    for (int i = 0; i < 64; i++) fds[i] = raw_connect(world, (uint8_t)(2 + i / 8));
    world_until(world, world->workers[0], is_full, world);
    check_good_peer(world, &world->outbound[0]);
    struct end *oldest = world_inbound(world, 0);
    end_wait_failed(oldest);
    assert_int_equal(oldest->failure.err, SN_EFULL);
    assert_int_equal(oldest->failure.is_refusal, 0);
    assert_true(raw_is_ended(fds[0]));
    /* Another silent one takes the place of the good one, that is open now; the second oldest stays. */
    int more = raw_connect(world, 200);
    (void)world_inbound(world, 65);
    world_until(world, world->workers[0], is_full, world);
    assert_int_equal(world->inbound[1].failed, 0);
    assert_int_equal(world->shed_full, 0);
    close(more);
    for (int i = 0; i < 64; i++) close(fds[i]);
    world_free(world);
}

/* Whoever comes from where few came from is safe from any number of those who come from where many did. */
static void test_crowds_evict_their_own(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->handshakes_max = 16;
    world->handshakes_per_address_max = 8;
    world_start(world);
    int fds[48];
    fds[0] = raw_connect(world, 100);
    for (uint32_t i = 1; i < SN_ARRAY_COUNT(fds); i++) {
        fds[i] = raw_connect(world, (uint8_t)(2 + i % 14));
        (void)world_inbound(world, i);
    }
    int unfinished = 0;
    for (uint32_t i = 0; i < SN_ARRAY_COUNT(fds) - 16; i++) {
        if (i > 0) end_wait_failed(&world->inbound[i]);
        unfinished += !world->inbound[i].failed;
    }
    assert_int_equal(unfinished, 1);
    assert_int_equal(world->inbound[0].failed, 0);
    assert_int_equal(world->shed_full, 0);
    for (uint32_t i = 0; i < SN_ARRAY_COUNT(fds); i++) close(fds[i]);
    world_free(world);
}

static int was_shed(void *arg)
{
    return ((struct world *)arg)->shed_full > 0;
}

static void test_one_address_has_a_limit(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->handshakes_per_address_max = 8;
    world->handshake_timeout_ms = 1000;
    world_start(world);
    int fds[9];
    for (int i = 0; i < 8; i++) fds[i] = raw_connect(world, 1);
    (void)world_inbound(world, 7);
    fds[8] = raw_connect(world, 1);
    world_until(world, world->workers[0], was_shed, world);
    assert_int_equal(world->inbound_count, 8);
    assert_true(raw_is_ended(fds[8]));
    /* Other addresses are not touched by it. */
    close(fds[8]);
    fds[8] = raw_connect(world, 2);
    (void)world_inbound(world, 8);
    /* Silence for a fifth of the time is enough: a good one of the same address gets in. */
    world_sleep_ms(250);
    check_good_peer(world, &world->outbound[0]);
    end_wait_failed(world_inbound(world, 0));
    assert_int_equal(world->inbound[0].failure.err, SN_EFULL);
    for (int i = 0; i < 9; i++) close(fds[i]);
    world_free(world);
}

/* --- Garbage ---------------------------------------------------------------------------------- */

static void test_garbage_is_refused_at_once(void **state)
{
    (void)state;
    struct world *world = started();
    uint8_t noise[2000];
    uint64_t rng = 7;
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)rng_next(&rng);
    static const uint8_t lying[] = {22,  3, 1, 255,
                                    255, 1, 2, 3}; /* a record that cannot be so long */
    static const char http[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const struct {
        const void *bytes;
        size_t size;
    } items[] = {{noise, sizeof noise}, {http, sizeof http - 1}, {lying, sizeof lying}};
    for (uint32_t i = 0; i < SN_ARRAY_COUNT(items); i++) {
        int fd = raw_connect(world, 1);
        raw_send(fd, items[i].bytes, items[i].size);
        struct end *in = world_inbound(world, i);
        end_wait_failed(in);
        assert_int_equal(in->failure.err, SN_EPROTO);
        assert_int_equal(in->failure.is_refusal, 0);
        assert_int_equal(in->failure.remote.ip[3], 1);
        assert_true(raw_is_ended(fd));
        close(fd);
    }
    check_good_peer(world, &world->outbound[0]);
    world_free(world);
}

static void test_hang_up_in_the_handshake(void **state)
{
    (void)state;
    struct world *world = started();
    /* The beginning of a record, then nothing or the end. */
    static const uint8_t begin[] = {22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3};
    for (uint32_t i = 0; i <= sizeof begin; i++) {
        int fd = raw_connect(world, 1);
        if (i > 0) raw_send(fd, begin, i);
        if (i % 2 == 0) close(fd);
        struct end *in = world_inbound(world, i);
        if (i % 2 == 1) raw_reset(fd);
        end_wait_failed(in);
        /* A reset may be seen as such. */
        if (i % 2 == 0) assert_int_equal(in->failure.err, SN_ECLOSED);
        assert_true(in->failure.err == SN_ECLOSED || in->failure.err == SN_ERESET);
    }
    check_good_peer(world, &world->outbound[0]);
    world_free(world);
}

static void test_good_peers_join_among_bad_ones(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->handshakes_per_address_max = 8;
    world_start(world);
    int fds[200];
    uint64_t rng = 11;
    uint32_t good = 0;
    for (unsigned i = 0; i < SN_ARRAY_COUNT(fds); i++) {
        uint8_t noise[64];
        fds[i] = raw_connect(world, (uint8_t)(2 + i % 100));
        for (size_t j = 0; j < sizeof noise; j++) noise[j] = (uint8_t)rng_next(&rng);
        if (i % 4 == 1) raw_send(fds[i], noise, 1);
        if (i % 4 == 2) raw_send(fds[i], noise, sizeof noise);
        if (i % 4 == 3) raw_send(fds[i], "GET / HTTP/1.0\r\n\r\n", 18);
        if (i % 20 == 19) check_good_peer(world, &world->outbound[good++]);
    }
    for (unsigned i = 0; i < SN_ARRAY_COUNT(fds); i++) close(fds[i]);
    world_free(world);
}

/* --- Descriptors ------------------------------------------------------------------------------ */

static int lacked_space(void *arg)
{
    return ((struct world *)arg)->shed_space > 0;
}

/* Connects from 127.0.0.1, with nothing left for the other end. */
static int connect_with_the_last_descriptor(struct world *world, struct rlimit *out_before)
{
    assert_int_equal(getrlimit(RLIMIT_NOFILE, out_before), 0);
    int lowest = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct rlimit tight = {(rlim_t)lowest + 1, out_before->rlim_max};
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons(world->bound.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    assert_int_equal(connect(lowest, (struct sockaddr *)&addr, sizeof addr), 0);
    return lowest;
}

static void test_descriptors_run_out(void **state)
{
    (void)state;
    struct world *world = started();
    struct rlimit before;
    int fd = connect_with_the_last_descriptor(world, &before);
    world_until(world, world->workers[0], lacked_space, world);
    world_sleep_ms(450);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    (void)world_inbound(world, 0);       /* it waited in the queue */
    assert_true(world->shed_space <= 7); /* every 100 ms, not in a loop */
    check_good_peer(world, &world->outbound[0]);
    close(fd);
    world_free(world);
}

/* Somebody who has not proved anything yet gives his descriptor to the next one: the oldest of where most came from. */
static void test_unfinished_ones_give_descriptors_back(void **state)
{
    (void)state;
    struct world *world = started();
    struct rlimit before;
    static const uint8_t origins[] = {3, 2, 2};
    int fds[4];
    for (uint32_t i = 0; i < 3; i++) {
        fds[i] = raw_connect(world, origins[i]);
        (void)world_inbound(world, i);
    }
    fds[3] = connect_with_the_last_descriptor(world, &before);
    (void)world_inbound(world, 3);
    end_wait_failed(world_inbound(world, 1));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(world->inbound[1].failure.err, SN_ENOFILES);
    assert_int_equal(world->inbound[3].failed, 0);
    assert_int_equal(world->shed_space, 0);
    check_good_peer(world, &world->outbound[0]);
    for (uint32_t i = 0; i < 4; i++) close(fds[i]);
    world_free(world);
}

/* --- TLS by hand ------------------------------------------------------------------------------ */

static X509 *foreign_x509(EVP_PKEY *key)
{
    X509 *x509 = X509_new();
    assert_int_equal(X509_set_version(x509, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x509), 7), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x509), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x509), 3600));
    assert_int_equal(X509_set_pubkey(x509, key), 1);
    assert_int_not_equal(X509_sign(x509, key, NULL), 0);
    return x509;
}

static int select_first(SSL *ssl, const unsigned char **out, unsigned char *out_size,
                        const unsigned char *in, unsigned in_size, void *arg)
{
    (void)ssl;
    (void)arg;
    if (in_size == 0) return SSL_TLSEXT_ERR_NOACK;
    *out = in + 1;
    *out_size = in[0];
    return SSL_TLSEXT_ERR_OK;
}

/* A context that verifies nobody. key may be NULL: it presents nothing. */
static SSL_CTX *careless_ctx(const SSL_METHOD *method, EVP_PKEY *key, int has_alpn)
{
    SSL_CTX *ctx = SSL_CTX_new(method);
    assert_non_null(ctx);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_alpn_select_cb(ctx, has_alpn ? select_first : NULL, NULL);
    static const uint8_t protocol[] = "\x08sennit/1";
    if (has_alpn) assert_int_equal(SSL_CTX_set_alpn_protos(ctx, protocol, 9), 0);
    if (key == NULL) return ctx;
    X509 *x509 = foreign_x509(key);
    assert_int_equal(SSL_CTX_use_certificate(ctx, x509), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(x509);
    return ctx;
}

static void test_careless_dialers_are_refused(void **state)
{
    (void)state;
    struct world *world = started();
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    struct sn_key_id id;
    size_t size = sizeof id.bytes;
    assert_int_equal(EVP_PKEY_get_raw_public_key(key, id.bytes, &size), 1);
    const struct {
        EVP_PKEY *key;
        int has_alpn;
        enum sn_err err;
        int has_key;
    } items[] = {{NULL, 1, SN_EUNTRUSTED, 0}, {key, 1, SN_EUNTRUSTED, 1}, {key, 0, SN_EPROTO, 0}};
    for (uint32_t i = 0; i < SN_ARRAY_COUNT(items); i++) {
        SSL_CTX *ctx = careless_ctx(TLS_client_method(), items[i].key, items[i].has_alpn);
        SSL *ssl = SSL_new(ctx);
        int fd = raw_connect(world, 1);
        assert_int_equal(SSL_set_fd(ssl, fd), 1);
        /* It thinks that it is connected, and reads the alert only then. */
        assert_int_equal(SSL_connect(ssl), 1);
        char byte;
        assert_true(SSL_read(ssl, &byte, 1) <= 0);
        struct end *in = world_inbound(world, i);
        end_wait_failed(in);
        assert_int_equal(in->opened, 0);
        assert_int_equal(in->failure.err, items[i].err);
        assert_int_equal(in->failure.is_refusal, 1);
        assert_int_equal(in->failure.has_key, items[i].has_key);
        if (items[i].has_key) assert_true(sn_key_id_is_equal(&in->failure.key, &id));
        assert_true(strlen(in->failure.detail) > 0);
        SSL_free(ssl);
        SSL_CTX_free(ctx);
        close(fd);
    }
    EVP_PKEY_free(key);
    world_free(world);
}

static void test_careless_listeners_are_refused(void **state)
{
    (void)state;
    struct world *world = started();
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    for (int has_alpn = 0; has_alpn < 2; has_alpn++) {
        struct sn_dial dial = {.timeout_ms = 5000};
        int listener = raw_listen(&dial.addr, 4);
        struct end *out = &world->outbound[has_alpn];
        assert_int_equal(world_dial(world, &world->client, out, world->workers[1], &dial), SN_OK);
        SSL_CTX *ctx = careless_ctx(TLS_server_method(), key, has_alpn);
        SSL *ssl = SSL_new(ctx);
        int fd = accept(listener, NULL, NULL);
        assert_int_equal(SSL_set_fd(ssl, fd), 1);
        assert_int_not_equal(SSL_accept(ssl), 1); /* our alert ends it */
        end_wait_failed(out);
        assert_int_equal(out->opened, 0);
        assert_int_equal(out->failure.err, has_alpn ? SN_EUNTRUSTED : SN_EPROTO);
        assert_int_equal(out->failure.is_refusal, 1);
        assert_int_equal(out->failure.has_key, has_alpn);
        SSL_free(ssl);
        SSL_CTX_free(ctx);
        close(fd);
        close(listener);
    }
    EVP_PKEY_free(key);
    world_free(world);
}

/* --- A member that misbehaves after the handshake --------------------------------------------- */

static int64_t wall_s(void *arg)
{
    return sn_env_wall_ms(arg) / 1000;
}

struct hand_member {
    struct sn_tls_check check;
    SSL *ssl;
    int fd;
};

/* The client's identity, driven by hand over a blocking socket. */
static void hand_connect(struct world *world, struct hand_member *hand)
{
    memset(hand, 0, sizeof *hand);
    hand->check.trust = &world->client.trust;
    hand->check.wall_s = wall_s;
    hand->check.arg = world->env;
    hand->fd = raw_connect(world, 1);
    hand->ssl = SSL_new(sn_tls_identity_client_ctx(world->client.identity));
    assert_int_equal(SSL_set_fd(hand->ssl, hand->fd), 1);
    assert_int_equal(sn_tls_attach_check(hand->ssl, &hand->check), SN_OK);
    assert_int_equal(SSL_connect(hand->ssl), 1);
}

static void hand_send(struct hand_member *hand, size_t size)
{
    uint8_t bytes[4096];
    world_fill(bytes, size, 0, OUTBOUND_SEED);
    assert_int_equal(SSL_write(hand->ssl, bytes, (int)size), (int)size);
}

static void test_ways_to_end_a_lane(void **state)
{
    (void)state;
    struct world *world = started();
    struct hand_member hand;
    static const uint8_t junk[64] = {23, 3, 3, 0, 59};
    static const enum sn_err expected[] = {SN_ECLOSED, SN_ERESET, SN_EPROTO, SN_ECLOSED};
    static const char *const words[] = {"the connection ended", "reset", "not proper TLS",
                                        "closed by the peer"};
    for (uint32_t i = 0; i < SN_ARRAY_COUNT(expected); i++) {
        hand_connect(world, &hand);
        hand_send(&hand, 3000);
        struct end *in = world_inbound(world, i);
        end_wait_open(in);
        while (i == 1 && atomic_load(&in->received_shown) < 3000) world_sleep_ms(1);
        if (i == 2) raw_send(hand.fd, junk, sizeof junk);
        if (i == 3) (void)SSL_shutdown(hand.ssl);
        SSL_free(hand.ssl);
        if (i == 1) raw_reset(hand.fd);
        if (i != 1) (void)shutdown(hand.fd, SHUT_WR);
        end_wait_failed(in);
        assert_int_equal(in->received, 3000);
        assert_int_equal(in->failure.err, expected[i]);
        assert_non_null(strstr(in->failure.detail, words[i]));
        assert_int_equal(in->failure.was_open, 1);
        assert_string_equal(in->failure.agent, "rome/edge");
        if (i != 1) close(hand.fd);
    }
    world_free(world);
}

/* Last words arrive although the connection is already reset for our writes. */
static void test_last_words_are_read(void **state)
{
    (void)state;
    struct world *world = world_new(tested);
    world->model.to_send = 16u << 20;
    world_start(world);
    struct hand_member hand;
    for (uint32_t i = 0; i < 30; i++) {
        hand_connect(world, &hand);
        struct end *in = world_inbound(world, i);
        end_wait_open(in);
        hand_send(&hand, 3000);
        SSL_free(hand.ssl);
        close(hand.fd); /* with bytes unread: a reset */
        end_wait_failed(in);
        assert_int_equal(in->received, 3000);
    }
    world_free(world);
}

/* Every key update wants an answer. The one who asks does not read them. */
static void test_key_updates_do_not_grow_memory(void **state)
{
    (void)state;
    struct world *world = started();
    struct hand_member hand;
    hand_connect(world, &hand);
    struct end *in = world_inbound(world, 0);
    end_wait_open(in);
    size_t before = sn_alloc_in_use();
    for (unsigned i = 0; i < 20000; i++) {
        assert_int_equal(SSL_key_update(hand.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(hand.ssl), 1);
    }
    hand_send(&hand, 3000);
    while (atomic_load(&in->received_shown) < 3000) world_sleep_ms(1);
    assert_true(sn_alloc_in_use() - before < 768u * 1024);
    /* Both directions still agree on their keys. */
    in->to_send = 100000;
    world_call(world, in->worker, end_send, in);
    uint8_t bytes[100000];
    uint8_t wanted[100000];
    world_fill(wanted, sizeof wanted, 0, INBOUND_SEED);
    for (size_t got = 0; got < sizeof bytes;) {
        int rc = SSL_read(hand.ssl, bytes + got, (int)(sizeof bytes - got));
        assert_true(rc > 0);
        got += (size_t)rc;
    }
    assert_memory_equal(bytes, wanted, sizeof bytes);
    SSL_free(hand.ssl);
    close(hand.fd);
    world_free(world);
}

static int has_memory_of(void *arg)
{
    return sn_alloc_in_use() <= *(size_t *)arg;
}

/* A lane that gave its buffers back takes them again to answer. */
static void test_key_update_of_an_idle_lane(void **state)
{
    (void)state;
    struct world *world = started();
    struct hand_member hand;
    uint8_t bytes[1000];
    uint8_t wanted[1000];
    hand_connect(world, &hand);
    struct end *in = world_inbound(world, 0);
    end_wait_open(in);
    size_t allowed = sn_alloc_in_use() - 16u * 1024; /* the handshake's buffers are larger */
    world_until(world, in->worker, has_memory_of, &allowed);
    assert_int_equal(SSL_key_update(hand.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(hand.ssl), 1);
    hand_send(&hand, 3000);
    while (atomic_load(&in->received_shown) < 3000) world_sleep_ms(1);
    in->to_send = sizeof bytes;
    world_call(world, in->worker, end_send, in);
    assert_int_equal(SSL_read(hand.ssl, bytes, sizeof bytes), sizeof bytes);
    world_fill(wanted, sizeof wanted, 0, INBOUND_SEED);
    assert_memory_equal(bytes, wanted, sizeof bytes);
    SSL_free(hand.ssl);
    close(hand.fd);
    world_free(world);
}

int carrier_strangers_run(const struct carrier_provider *provider)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_listener),
        cmocka_unit_test(test_connecting_takes_too_long),
        cmocka_unit_test(test_silent_dialer),
        cmocka_unit_test(test_the_oldest_silent_one_makes_room),
        cmocka_unit_test(test_crowds_evict_their_own),
        cmocka_unit_test(test_one_address_has_a_limit),
        cmocka_unit_test(test_garbage_is_refused_at_once),
        cmocka_unit_test(test_hang_up_in_the_handshake),
        cmocka_unit_test(test_good_peers_join_among_bad_ones),
        cmocka_unit_test(test_descriptors_run_out),
        cmocka_unit_test(test_unfinished_ones_give_descriptors_back),
        cmocka_unit_test(test_careless_dialers_are_refused),
        cmocka_unit_test(test_careless_listeners_are_refused),
        cmocka_unit_test(test_ways_to_end_a_lane),
        cmocka_unit_test(test_last_words_are_read),
        cmocka_unit_test(test_key_updates_do_not_grow_memory),
        cmocka_unit_test(test_key_update_of_an_idle_lane),
    };
    tested = provider;
    return cmocka_run_group_tests_name("strangers", tests, NULL, NULL);
}
