/* SPDX-License-Identifier: Apache-2.0 */
/* TCP and UNIX sockets: addresses, outcomes of connects, ends and resets, limits, modes, names. */
#include "env_test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct pair {
    struct sn_sock listener;
    struct sn_sock dialed;
    struct sn_sock accepted;
    struct sn_netaddr bound;
};

static struct sn_sock accept_soon(struct sn_env *env, struct sn_sock listener,
                                  struct sn_netaddr *out_peer)
{
    struct sn_sock sock;
    assert_ok(sn_env_wait(env, listener, SN_READY_READ, 5000));
    assert_ok(sn_env_accept(env, listener, &sock, out_peer));
    return sock;
}

static struct pair open_pair(struct sn_env *env)
{
    struct pair pair;
    struct sn_netaddr addr = loopback(0), peer;
    assert_ok(sn_env_listen(env, &addr, &pair.listener, &pair.bound));
    assert_true(pair.bound.port != 0);
    assert_ok(sn_env_connect(env, &pair.bound, &pair.dialed));
    pair.accepted = accept_soon(env, pair.listener, &peer);
    assert_true(sn_netaddr_is_loopback(&peer));
    assert_ok(sn_env_wait(env, pair.dialed, SN_READY_WRITE, 5000));
    assert_ok(sn_env_connect_result(env, pair.dialed));
    return pair;
}

static void close_pair(struct sn_env *env, struct pair *pair)
{
    sn_env_close(env, pair->listener);
    if (sn_sock_is_open(pair->dialed)) sn_env_close(env, pair->dialed);
    if (sn_sock_is_open(pair->accepted)) sn_env_close(env, pair->accepted);
}

static int option(struct sn_sock sock, int level, int name)
{
    int value = 0;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(sock.id, level, name, &value, &size), 0);
    return value;
}

static void assert_reads(struct sn_env *env, struct sn_sock sock, const char *expected)
{
    char bytes[64];
    size_t size = 0;
    assert_ok(sn_env_wait(env, sock, SN_READY_READ, 5000));
    assert_ok(sn_env_read(env, sock, bytes, sizeof bytes, &size));
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(bytes, expected, size);
}

static void options_of_all_sockets(void **state)
{
    struct fixture *fixture = *state;
    struct pair pair = open_pair(fixture->env);
    struct sn_sock all[] = {pair.listener, pair.dialed, pair.accepted};
    for (int i = 0; i < 3; i++) {
        assert_true(option(all[i], IPPROTO_TCP, TCP_NODELAY));
        assert_true(fcntl(all[i].id, F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(all[i].id, F_GETFL) & O_NONBLOCK);
        /* Whoever vanished is noticed after a minute. */
        assert_true(option(all[i], SOL_SOCKET, SO_KEEPALIVE));
        assert_int_equal(option(all[i], IPPROTO_TCP, TCP_KEEPIDLE), 30);
        assert_int_equal(option(all[i], IPPROTO_TCP, TCP_KEEPINTVL), 10);
        assert_int_equal(option(all[i], IPPROTO_TCP, TCP_KEEPCNT), 3);
    }
    assert_true(option(pair.listener, SOL_SOCKET, SO_REUSEADDR));
    close_pair(fixture->env, &pair);
}

static void bytes_ends_and_eagain(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct pair pair = open_pair(env);
    char a[] = "ab", b[] = "cde", byte;
    struct sn_iovec iov[] = {{a, 2}, {b, 0}, {b, 3}};
    size_t size = 77;
    assert_int_equal(sn_env_read(env, pair.accepted, &byte, 1, &size), SN_EAGAIN);
    assert_int_equal(size, 77);
    assert_int_equal(sn_env_wait(env, pair.accepted, SN_READY_READ, 5), SN_ETIMEDOUT);
    assert_ok(sn_env_write(env, pair.dialed, "hello", 5, &size));
    assert_int_equal(size, 5);
    assert_reads(env, pair.accepted, "hello");
    assert_ok(sn_env_writev(env, pair.dialed, iov, 3, &size));
    assert_int_equal(size, 5);
    assert_reads(env, pair.accepted, "abcde");
    /* Half-close: the other direction goes on. */
    sn_env_shutdown_write(env, pair.dialed);
    assert_ok(sn_env_wait(env, pair.accepted, SN_READY_READ, 5000));
    assert_int_equal(sn_env_read(env, pair.accepted, &byte, 1, &size), SN_ECLOSED);
    assert_ok(sn_env_write(env, pair.accepted, "back", 4, &size));
    assert_reads(env, pair.dialed, "back");
    close_pair(env, &pair);
}

static void write_stops_at_a_full_peer(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct pair pair = open_pair(env);
    static char bytes[65536];
    size_t size, total = 0;
    enum sn_err err;
    while ((err = sn_env_write(env, pair.dialed, bytes, sizeof bytes, &size)) == SN_OK)
        total += size;
    assert_int_equal(err, SN_EAGAIN);
    assert_true(total > 0);
    close_pair(env, &pair);
}

static void reset_is_not_an_end(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct pair pair = open_pair(env);
    char byte;
    size_t size;
    sn_env_close_reset(env, pair.dialed);
    pair.dialed = SN_SOCK_NONE;
    assert_ok(sn_env_wait(env, pair.accepted, SN_READY_READ, 5000));
    assert_int_equal(sn_env_read(env, pair.accepted, &byte, 1, &size), SN_ERESET);
    assert_int_equal(sn_env_write(env, pair.accepted, "x", 1, &size), SN_ERESET); /* no SIGPIPE */
    close_pair(env, &pair);
}

/* A plain close of it is a reset, as the one of a killed process is; what was taken back ends as always. */
static void abortive_sockets(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct pair pair = open_pair(env);
    char byte;
    size_t size;
    sn_env_set_abortive(env, pair.accepted, 1);
    sn_env_close(env, pair.accepted);
    pair.accepted = SN_SOCK_NONE;
    assert_ok(sn_env_wait(env, pair.dialed, SN_READY_READ, 5000));
    assert_int_equal(sn_env_read(env, pair.dialed, &byte, 1, &size), SN_ERESET);
    close_pair(env, &pair);

    pair = open_pair(env);
    sn_env_set_abortive(env, pair.accepted, 1);
    assert_ok(sn_env_write(env, pair.accepted, "last", 4, &size));
    sn_env_set_abortive(env, pair.accepted, 0);
    sn_env_close(env, pair.accepted);
    pair.accepted = SN_SOCK_NONE;
    assert_reads(env, pair.dialed, "last");
    assert_ok(sn_env_wait(env, pair.dialed, SN_READY_READ, 5000));
    assert_int_equal(sn_env_read(env, pair.dialed, &byte, 1, &size), SN_ECLOSED);
    close_pair(env, &pair);
}

static void address_errors(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct sn_netaddr addr = loopback(0), bound, ignored, none = {0};
    struct sn_sock sock, other = SN_SOCK_NONE;
    assert_ok(sn_env_listen(env, &addr, &sock, &bound));
    assert_int_equal(sn_env_listen(env, &bound, &other, &ignored), SN_EINUSE);
    assert_int_equal(sn_env_listen(env, &none, &other, &ignored), SN_EINVAL);
    assert_int_equal(sn_env_connect(env, &none, &other), SN_EINVAL);
    struct sn_netaddr foreign = {.family = SN_NETADDR_IP4, .port = 9, .ip = {192, 0, 2, 1}};
    assert_int_equal(sn_env_listen(env, &foreign, &other, &ignored), SN_EUNREACHABLE);
    assert_false(sn_sock_is_open(other));
    assert_int_equal(sn_env_accept(env, sock, &other, NULL), SN_EAGAIN);
    sn_env_close(env, sock);
    /* Nobody listens there any more. */
    enum sn_err err = sn_env_connect(env, &bound, &sock);
    if (err == SN_OK) {
        assert_ok(sn_env_wait(env, sock, SN_READY_WRITE, 5000));
        assert_int_equal(sn_env_connect_result(env, sock), SN_EREFUSED);
        assert_int_equal(sn_env_connect_result(env, sock), SN_EUNREACHABLE); /* and stays down */
        sn_env_close(env, sock);
    } else {
        assert_int_equal(err, SN_EREFUSED);
    }
}

static void ip6_stands_beside_ip4(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct sn_netaddr ip6 = {.family = SN_NETADDR_IP6}, bound6, bound4;
    struct sn_netaddr ip4 = {.family = SN_NETADDR_IP4};
    struct sn_sock sock6, sock4;
    enum sn_err err = sn_env_listen(env, &ip6, &sock6, &bound6);
    if (err == SN_EUNREACHABLE) skip(); /* no IPv6 here */
    assert_ok(err);
    assert_int_equal(bound6.family, SN_NETADDR_IP6);
    ip4.port = bound6.port;
    assert_ok(sn_env_listen(env, &ip4, &sock4, &bound4));
    sn_env_close(env, sock4);
    sn_env_close(env, sock6);
}

static uint64_t no_step(void *arg, uint64_t now_ns)
{
    (void)arg;
    return now_ns;
}

static void descriptors_used_up(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct sn_netaddr addr = loopback(0), bound, ignored;
    struct sn_sock listener, dialed, sock = SN_SOCK_NONE;
    struct sn_loop *loop = NULL;
    char path[PATH_BYTES];
    struct rlimit old, small;
    assert_ok(sn_env_listen(env, &addr, &listener, &bound));
    assert_ok(sn_env_connect(env, &bound, &dialed));
    assert_ok(sn_env_wait(env, listener, SN_READY_READ, 5000));
    getrlimit(RLIMIT_NOFILE, &old);
    small = (struct rlimit){(rlim_t)3, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &small);
    enum sn_err accepted = sn_env_accept(env, listener, &sock, NULL);
    enum sn_err listened = sn_env_listen(env, &addr, &sock, &ignored);
    enum sn_err connected = sn_env_connect(env, &bound, &sock);
    enum sn_err local = sn_env_listen_unix(env, path_in(fixture, path, "s"), 0600, &sock);
    enum sn_err looped = sn_env_loop_new(env, "x", no_step, NULL, &loop);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(accepted, SN_ENOFILES);
    assert_int_equal(listened, SN_ENOFILES);
    assert_int_equal(connected, SN_ENOFILES);
    assert_int_equal(local, SN_ENOFILES);
    assert_int_equal(looped, SN_ENOFILES);
    assert_null(loop);
    assert_ok(sn_env_accept(env, listener, &sock, NULL)); /* nothing was lost */
    sn_env_close(env, sock);
    sn_env_close(env, dialed);
    sn_env_close(env, listener);
}

/* The last descriptors of the table are told from the others: a quarter of a small one, 128 of a large one. */
static void last_descriptors_are_reserve(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct sn_netaddr addr = loopback(0), bound;
    struct sn_sock socks[64];
    struct rlimit old, small;
    unsigned count = 0, ordinary = 0;
    getrlimit(RLIMIT_NOFILE, &old);
    small = (struct rlimit){40, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &small);
    assert_int_equal(sn_env_descriptors_max(env), 40);
    while (sn_env_listen(env, &addr, &socks[count], &bound) == SN_OK) {
        int is_reserve = sn_env_is_reserve(env, socks[count++]);
        ordinary += !is_reserve;
        if (ordinary < count) assert_true(is_reserve); /* the numbers only grow here */
    }
    int last = socks[count - 1].id;
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(last, 39);
    assert_int_equal(count - ordinary, 10);
    if (old.rlim_cur > 1024) assert_false(sn_env_is_reserve(env, socks[count - 1]));
    while (count > 0) sn_env_close(env, socks[--count]);
}

/* --- UNIX sockets ----------------------------------------------------------------------------- */

static unsigned mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISSOCK(info.st_mode));
    return info.st_mode & 07777;
}

static void check_unix(struct sn_env *env, const char *path)
{
    struct sn_sock listener, dialed, accepted, other = SN_SOCK_NONE;
    struct sn_netaddr peer = loopback(1);
    uint32_t uid = 12345;
    size_t size;
    assert_int_equal(sn_env_connect_unix(env, path, &other), SN_ENOENT);
    assert_ok(sn_env_listen_unix(env, path, 0600, &listener));
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(sn_env_listen_unix(env, path, 0600, &other), SN_EINUSE);
    assert_ok(sn_env_connect_unix(env, path, &dialed));
    accepted = accept_soon(env, listener, &peer);
    assert_int_equal(peer.family, SN_NETADDR_NONE);
    assert_ok(sn_env_peer_uid(env, accepted, &uid));
    assert_int_equal(uid, sn_env_own_uid(env));
    assert_ok(sn_env_write(env, dialed, "hello", 5, &size));
    assert_reads(env, accepted, "hello");
    sn_env_close(env, dialed);
    sn_env_close(env, accepted);
    sn_env_close(env, listener);
    assert_int_equal(sn_env_connect_unix(env, path, &other), SN_EREFUSED);
    assert_ok(sn_env_file_remove(env, path));
    assert_false(sn_sock_is_open(other));
}

static void unix_short_and_long(void **state)
{
    struct fixture *fixture = *state;
    char path[PATH_BYTES], folder[PATH_BYTES];
    check_unix(fixture->env, path_in(fixture, path, "socket"));
    char part[101];
    memset(part, 'd', 100);
    part[100] = '\0';
    assert_ok(sn_env_folder_make(fixture->env, path_in(fixture, folder, part), 0700));
    int used = snprintf(path, sizeof path, "%s/%s/socket", fixture->folder, part);
    assert_in_range(used, 109, sizeof path - 1); /* longer than sun_path */
    struct sn_process_info before, after;
    sn_env_process_info(fixture->env, &before);
    check_unix(fixture->env, path);
    sn_env_process_info(fixture->env, &after);
    assert_int_equal(after.descriptors, before.descriptors);
}

static void unix_path_lengths_at_the_edge(void **state)
{
    struct fixture *fixture = *state;
    for (size_t size = 105; size <= 111; size++) {
        char path[PATH_BYTES];
        int used = snprintf(path, sizeof path, "%s/", fixture->folder);
        memset(path + used, 'n', size - (size_t)used);
        /* Folder and name: with the name cut into two parts both ways of binding come up. */
        path[size] = '\0';
        path[used + 20] = '\0';
        assert_ok(sn_env_folder_make(fixture->env, path, 0700));
        path[used + 20] = '/';
        assert_int_equal(strlen(path), size);
        check_unix(fixture->env, path);
    }
}

static void unix_errors(void **state)
{
    struct fixture *fixture = *state;
    struct sn_env *env = fixture->env;
    struct sn_sock sock = SN_SOCK_NONE;
    char path[PATH_BYTES], name[121];
    memset(name, 'n', 120);
    name[120] = '\0';
    path_in(fixture, path, name);
    assert_int_equal(sn_env_listen_unix(env, path, 0600, &sock), SN_ETOOBIG);
    assert_int_equal(sn_env_connect_unix(env, path, &sock), SN_ETOOBIG);
    assert_int_equal(sn_env_listen_unix(env, "", 0600, &sock), SN_EINVAL);
    path_in(fixture, path, "no/such");
    assert_int_equal(sn_env_listen_unix(env, path, 0600, &sock), SN_ENOENT);
    memset(name + 100, '/', 1); /* a long path in a folder that is not there */
    path_in(fixture, path, name);
    assert_int_equal(sn_env_listen_unix(env, path, 0600, &sock), SN_ENOENT);
    /* No user id can be had of a TCP peer. */
    uint32_t uid;
    struct pair pair = open_pair(env);
    assert_int_equal(sn_env_peer_uid(env, pair.accepted, &uid), SN_EINVAL);
    close_pair(env, &pair);
}

static void unix_modes_are_exact(void **state)
{
    struct fixture *fixture = *state;
    static const unsigned modes[] = {0600, 0660, 0666, 0777, 0400};
    static const mode_t masks[] = {0, 022, 077};
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < 3; j++) {
            struct sn_sock sock;
            char path[PATH_BYTES];
            path_in(fixture, path, "socket");
            mode_t old = umask(masks[j]);
            enum sn_err err = sn_env_listen_unix(fixture->env, path, modes[i], &sock);
            umask(old);
            assert_ok(err);
            assert_int_equal(mode_of(path), modes[i]);
            sn_env_close(fixture->env, sock);
            assert_ok(sn_env_file_remove(fixture->env, path));
        }
    }
}

/* What guarantee 2 of unix_posix.c rests on: bind() starts from the unbound socket's mode. */
static void kernel_binds_with_the_mode_of_the_socket(void **state)
{
    struct fixture *fixture = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[PATH_BYTES];
    path_in(fixture, path, "socket");
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(fchmod(fd, 0600), 0);
    mode_t old = umask(0);
    int rc = bind(fd, (const struct sockaddr *)&address, sizeof address);
    umask(old);
    assert_int_equal(rc, 0);
    assert_int_equal(mode_of(path), 0600);
    close(fd);
}

static void names(void **state)
{
    struct fixture *fixture = *state;
    struct sn_netaddr addrs[8];
    uint32_t count = 0;
    assert_ok(sn_env_resolve(fixture->env, "localhost", 4711, addrs, 8, &count));
    assert_true(count >= 1);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(sn_netaddr_is_loopback(&addrs[i]));
        assert_int_equal(addrs[i].port, 4711);
    }
    assert_ok(sn_env_resolve(fixture->env, "::1", 1, addrs, 1, &count));
    assert_int_equal(count, 1);
    assert_int_equal(addrs[0].family, SN_NETADDR_IP6);
    assert_int_equal(sn_env_resolve(fixture->env, "a..b", 1, addrs, 8, &count), SN_ENOENT);
    assert_int_equal(count, 1);
}

static enum sn_err use_long_path(struct sn_env *env, const char *path)
{
    struct sn_sock sock;
    enum sn_err err = sn_env_listen_unix(env, path, 0600, &sock);
    if (err != SN_OK) return err;
    sn_env_close(env, sock);
    return SN_OK;
}

static void failed_allocations_leave_nothing(void **state)
{
    struct fixture *fixture = *state;
    char path[PATH_BYTES], name[] =
                               "................................................................"
                               "................................/socket";
    memset(name, 'd', 96);
    path_in(fixture, path, name);
    *strrchr(path, '/') = '\0';
    assert_ok(sn_env_folder_make(fixture->env, path, 0700));
    path_in(fixture, path, name);
    size_t in_use = sn_alloc_in_use();
    uint64_t nth = 0;
    enum sn_err err;
    do {
        sn_alloc_fail_nth(++nth);
        err = use_long_path(fixture->env, path);
        assert_int_equal(sn_alloc_in_use(), in_use);
    } while (err == SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_ok(err);
    assert_true(nth > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(options_of_all_sockets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_ends_and_eagain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(write_stops_at_a_full_peer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reset_is_not_an_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(abortive_sockets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(last_descriptors_are_reserve, set_up, tear_down),
        cmocka_unit_test_setup_teardown(address_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ip6_stands_beside_ip4, set_up, tear_down),
        cmocka_unit_test_setup_teardown(descriptors_used_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unix_short_and_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unix_path_lengths_at_the_edge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unix_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unix_modes_are_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernel_binds_with_the_mode_of_the_socket, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_allocations_leave_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
