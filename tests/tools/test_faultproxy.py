#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every fault of tools/faultproxy, seen from real sockets on both sides. Nothing here needs a fast machine: delays are
checked from below only, and what is awaited is an event.
usage: test_faultproxy.py PROGRAM [TEST...]"""
import concurrent.futures
import contextlib
import os
import random
import select
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))
from faultproxy import FaultProxy, FaultProxyError  # noqa: E402

SECONDS = 20.0  # nothing takes so long
BUFFER = 256 * 1024
PROGRAM = None


def equal(got, expected, what=""):
    if got != expected:
        raise AssertionError("%s: got %r, expected %r" % (what, got, expected))


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Rig(contextlib.ExitStack):
    """A TCP server, a proxy before it, and pairs of connected sockets."""

    def __init__(self, **options):
        super().__init__()
        self.server = self.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.server.settimeout(SECONDS)
        self.proxy = self.enter_context(FaultProxy(PROGRAM, self.server.getsockname(), **options))
        self.command = self.proxy.command
        self.wait = self.proxy.wait
        self.stats = self.proxy.stats

    def connect(self):
        client = self.enter_context(socket.create_connection(self.proxy.address, timeout=SECONDS))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def accept(self):
        conn = self.enter_context(self.server.accept()[0])
        conn.settimeout(SECONDS)
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return conn

    def pair(self):
        client = self.connect()
        return client, self.accept()


def receive(sock, size):
    """Exactly that many bytes; fewer when the end comes first."""
    data = bytearray()
    while len(data) < size:
        part = sock.recv(min(65536, size - len(data)))
        if not part:
            break
        data += part
    return bytes(data)


def receive_all(sock):
    return receive(sock, 1 << 30)


def expect_reset(sock):
    """Returns what came before the reset."""
    data = bytearray()
    try:
        while True:
            part = sock.recv(65536)
            check(part, "an orderly end instead of a reset")
            data += part
    except ConnectionResetError:
        return bytes(data)


def expect_refusal(rig):
    """A new connection is reset at once: when it reads, or already while it connects."""
    with contextlib.suppress(ConnectionResetError):
        expect_reset(rig.connect())


def expect_silence(*socks):
    """Nothing has come, neither bytes nor an end."""
    equal(select.select(socks, [], [], 0)[0], [], "nothing to be read")


def fill(sock):
    """Sends until the other end takes no more for a while; returns what was sent."""
    sent = bytearray()
    part = random.randbytes(1 << 20)
    while select.select([], [sock], [], 0.1)[1]:
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                begin = len(sent) % 99991  # no two stretches are alike
                sent += part[begin:begin + sock.send(part[begin:])]
        sock.settimeout(SECONDS)
    return bytes(sent)


def fill_buffer(rig, sock, direction, limit=BUFFER):
    """Fills until the proxy holds all that it may; checks that it holds no more. Returns what was sent."""
    sent = b""
    end = time.monotonic() + SECONDS
    while True:
        sent += fill(sock)
        held = rig.proxy.connections()[0]["held_" + direction]
        check(held <= limit, "held more than it may")
        if held == limit:
            return sent
        check(time.monotonic() < end, "the buffer was never full")


def beside(function):
    """Runs the function in a thread; calling the answer waits for its result."""
    results = []

    def run():
        try:
            results.append((function(), None))
        except Exception as error:  # handed to whoever asks
            results.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join():
        thread.join(SECONDS)
        check(results, "a thread did not end")
        if results[0][1] is not None:
            raise results[0][1]
        return results[0][0]

    return join


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def since(begin):
    return time.monotonic() - begin


# --- TCP ------------------------------------------------------------------------------------------


def test_pass():
    with Rig() as rig:
        client, server = rig.pair()
        up, down = random.randbytes(3000000), random.randbytes(2000000)

        def send(sock, data):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)

        threads = [beside(lambda: send(client, up)), beside(lambda: send(server, down)),
                   beside(lambda: receive_all(client)), beside(lambda: receive_all(server))]
        _, _, got_down, got_up = [join() for join in threads]
        check(got_up == up and got_down == down, "the bytes are the same")
        rig.wait("open 0")
        stats = rig.stats()
        equal((stats["bytes_up"], stats["bytes_down"]), (3000000, 2000000), "bytes")
        equal((stats["read_up"], stats["read_down"]), (3000000, 2000000), "read")
        equal((stats["connections_now"], stats["connections_total"]), (0, 1), "connections")
        equal((stats["resets"], stats["drops_up"], stats["drops_down"]), (0, 0, 0), "nothing was lost")


def test_ends_are_passed_on():
    with Rig() as rig:
        client, server = rig.pair()
        client.shutdown(socket.SHUT_WR)
        equal(server.recv(10), b"", "the end")
        server.sendall(b"still")
        equal(receive(client, 5), b"still", "the other direction")
        server.close()
        equal(client.recv(10), b"", "the other end")
        rig.wait("open 0")
        client, server = rig.pair()
        server.sendall(b"last words")
        rig.wait("bytes down 15")
        reset(server)
        equal(expect_reset(client), b"last words", "before the reset")
        rig.wait("open 0")


def test_no_server():
    with Rig() as rig:
        rig.server.close()
        expect_refusal(rig)
        rig.wait("open 0")
        equal(rig.stats()["unreachable"], 1, "unreachable")


def test_back_pressure():
    with Rig() as rig:
        client, server = rig.pair()
        up, down = fill_buffer(rig, client, "up"), fill_buffer(rig, server, "down")
        stats = rig.stats()
        check(stats["read_up"] < len(up) and stats["read_down"] < len(down), "the rest waits with the sender")
        got = beside(lambda: receive(client, len(down)))
        check(receive(server, len(up)) == up and got() == down, "the bytes are the same")
    with Rig(buffer_kib=16) as rig:
        client, server = rig.pair()
        fill_buffer(rig, client, "up", 16384)


def test_delay():
    with Rig() as rig:
        client, server = rig.pair()
        equal(rig.command("delay 60 up")["connections"], 1, "for one connection")
        begin = time.monotonic()
        client.sendall(b"late")
        equal(receive(server, 4), b"late", "bytes")
        check(since(begin) >= 0.06, "bytes came too early")
        begin = time.monotonic()
        client.shutdown(socket.SHUT_WR)
        equal(server.recv(1), b"", "the end")
        check(since(begin) >= 0.06, "the end came too early")
        server.sendall(b"soon")
        equal(receive(client, 4), b"soon", "the other direction")


def test_delay_keeps_order():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("delay 5 20")
        sent = [random.randbytes(random.randrange(1, 1000)) for _ in range(300)]
        join = beside(lambda: [client.sendall(part) for part in sent])
        equal(receive(server, sum(map(len, sent))), b"".join(sent), "order")
        join()


def test_pass_releases():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("delay 3600000")
        client.sendall(b"held")
        client.shutdown(socket.SHUT_WR)
        rig.wait("read up 4")
        expect_silence(server)
        entry = rig.proxy.connections()[0]
        equal((entry["held_up"], entry["faults_up"]), (4, "delay:3600000"), "held")
        rig.command("pass")
        equal(receive_all(server), b"held", "released")


def test_blackhole():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("blackhole")
        up, down = fill(client), fill(server)
        check(up and down, "the kernel takes bytes first")
        stats = rig.stats()
        equal((stats["read_up"], stats["read_down"]), (0, 0), "nothing is read")
        client.shutdown(socket.SHUT_WR)
        expect_silence(client, server)
        equal(rig.stats()["connections_now"], 1, "the connection is open")
        rig.command("pass")
        got = beside(lambda: receive(client, len(down)))
        check(receive_all(server) == up and got() == down, "the bytes are the same after it")


def test_blackhole_holds_what_was_read():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("merge 3600000 up")
        client.sendall(b"early")
        rig.wait("read up 5")
        rig.command("blackhole up")
        rig.command("merge 0 up")  # nothing else holds them any more
        client.sendall(b"later")
        server.sendall(b"down")
        equal(receive(client, 4), b"down", "the other direction")
        expect_silence(server)
        equal(rig.stats()["bytes_up"], 0, "nothing is written")
        rig.command("pass up")
        equal(receive(server, 10), b"earlylater", "after it")


def test_blackhole_hides_a_reset():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("blackhole up")
        reset(client)
        server.sendall(b"into the void")  # its answer is a reset, which is not passed on
        rig.wait("read down 13")
        expect_silence(server)
        equal(rig.stats()["connections_now"], 1, "the connection is open")
        rig.command("pass")
        expect_reset(server)
        rig.wait("open 0")


def test_swallow():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("swallow up")
        client.sendall(bytes(1000000))
        rig.wait("read up 1000000")
        stats = rig.stats()
        equal((stats["bytes_up"], stats["drops_up"]), (0, 1000000), "discarded")
        server.sendall(b"down")
        equal(receive(client, 4), b"down", "the other direction")
        expect_silence(server)
        rig.command("pass")
        client.sendall(b"again")
        equal(receive(server, 5), b"again", "after it")
        rig.command("swallow")
        client.close()
        server.sendall(b"x")
        rig.wait("read down 5")
        expect_silence(server)
        rig.command("pass")
        equal(server.recv(1), b"", "the end, after it")


def test_half_close():
    with Rig() as rig:
        client, server = rig.pair()
        client.sendall(b"before")
        rig.wait("read up 6")
        rig.command("half-close up")
        equal(receive_all(server), b"before", "then the end")
        server.sendall(b"goes on")
        equal(receive(client, 7), b"goes on", "the other direction")
        client.sendall(b"lost")
        rig.wait("read up 10")
        equal(rig.stats()["drops_up"], 4, "discarded")
        rig.command("half-close down")
        equal(client.recv(1), b"", "the other end")
        client.close()
        server.close()
        rig.wait("open 0")


def test_reset():
    with Rig() as rig:
        pairs = [rig.pair(), rig.pair()]
        equal(rig.command("reset")["connections"], 2, "connections")
        for sock in pairs[0] + pairs[1]:
            equal(expect_reset(sock), b"", "nothing before the reset")
        stats = rig.stats()
        equal((stats["resets"], stats["connections_now"]), (2, 0), "stats")
        client, server = rig.pair()
        client.sendall(b"new")
        equal(receive(server, 3), b"new", "new connections are served")


def test_close():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("delay 30 up")
        client.sendall(b"held")
        rig.wait("read up 4")
        answer = rig.proxy.ask("close\nlist")
        check("end_up=eof" in answer and "end_down=eof" in answer, answer)
        equal(receive_all(server), b"held", "then the end")
        equal(receive_all(client), b"", "the end")
        client.close()
        server.close()
        rig.wait("open 0")
        equal(rig.stats()["resets"], 0, "no reset")
        client, server = rig.pair()
        rig.command("close")
        equal((receive_all(server), receive_all(client)), (b"", b""), "the end")
        rig.wait("open 0")  # though nobody closes


def test_cut():
    with Rig() as rig:
        client, server = rig.pair()
        client.sendall(b"x" * 100)
        rig.wait("bytes up 100")
        rig.command("cut 1000 up")
        data = random.randbytes(5000)
        client.sendall(data)
        equal(expect_reset(server), b"x" * 100 + data[:1000], "exactly")
        expect_reset(client)
        rig.wait("open 0")
        equal((rig.stats()["resets"], rig.stats()["bytes_up"]), (1, 1100), "stats")
        rig.command("pass")
        rig.command("cut 3 down new")
        client, server = rig.pair()
        server.sendall(b"abcdef")
        equal(expect_reset(client), b"abc", "a new connection, the other direction")


def test_drip():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("drip 10 20")
        begin = time.monotonic()
        client.sendall(b"y" * 50)
        equal(receive(server, 50), b"y" * 50, "bytes")
        check(since(begin) >= 0.08, "four pauses")
        check(rig.stats()["writes_up"] >= 5, "five portions")


def test_flip():
    with Rig() as rig:
        zeros = bytes(200000)
        client, server = rig.pair()
        client.sendall(zeros[:1000])
        rig.wait("bytes up 1000")
        reply = rig.command("flip 100000 up")
        equal((reply["connections"], reply["passed"]), (1, 0), "still to come")
        client.sendall(zeros[1000:])
        got = receive(server, len(zeros))
        equal([(at, byte) for at, byte in enumerate(got) if byte], [(100000, 1)], "one bit of one byte")
        server.sendall(zeros[:100])
        equal(receive(client, 100), zeros[:100], "the other direction")
        equal(rig.command("flip 5 up existing")["passed"], 1, "too late")
        other, other_server = rig.pair()
        other.sendall(zeros)
        got = receive(other_server, len(zeros))
        equal([at for at, byte in enumerate(got) if byte], [100000], "a new connection counts from its start")


def test_flip_of_a_held_byte():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("delay 3600000")
        client.sendall(b"abc")
        rig.wait("read up 3")
        equal(rig.command("flip 1")["passed"], 0, "in time")
        client.sendall(b"def")
        rig.wait("read up 6")
        rig.command("pass")
        equal(receive(server, 6), b"accdef", "flipped once")


def test_split():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("split 7 up")
        data = random.randbytes(7000)
        client.sendall(data)
        equal(receive(server, 7000), data, "bytes")
        rig.wait("bytes up 7000")
        check(rig.stats()["writes_up"] >= 1000, "a thousand writes")


def test_merge():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("merge 3600000 up")
        for i in range(10):
            client.sendall(b"%d" % i)
            rig.wait("read up %d" % (i + 1))
        expect_silence(server)
        rig.command("merge 40 up")
        equal(receive(server, 10), b"0123456789", "bytes")
        equal(rig.stats()["writes_up"], 1, "one write")
        begin = time.monotonic()
        client.sendall(b"later")
        equal(receive(server, 5), b"later", "bytes")
        check(since(begin) >= 0.04, "collected for a while")


def test_rate():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("rate 100000")
        begin = time.monotonic()
        client.sendall(bytes(30000))
        equal(len(receive(server, 30000)), 30000, "bytes")
        check(since(begin) >= 0.2, "30000 bytes less what the bucket may have held")


def test_refuse():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("refuse")
        expect_refusal(rig)
        client.sendall(b"goes on")
        equal(receive(server, 7), b"goes on", "an existing connection")
        equal(rig.stats()["refused"], 1, "refused")
        rig.command("pass")
        rig.pair()


def test_unlisten():
    with Rig() as rig:
        client, server = rig.pair()
        rig.command("unlisten")
        rig.command("unlisten")
        try:
            rig.connect()
            raise AssertionError("connected")
        except ConnectionRefusedError:
            pass
        client.sendall(b"goes on")
        equal(receive(server, 7), b"goes on", "an existing connection")
        rig.command("listen")
        rig.command("listen")
        client, server = rig.pair()
        client.sendall(b"new")
        equal(receive(server, 3), b"new", "on the same port")
        rig.command("unlisten")
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(rig.proxy.address)
            taken.listen(1)
            check(rig.proxy.ask("listen").startswith("error: cannot listen"), "the port is taken")


def test_scopes():
    with Rig() as rig:
        old, old_server = rig.pair()
        equal(rig.command("blackhole new")["connections"], 0, "no existing one")
        new, new_server = rig.pair()
        old.sendall(b"old")
        new.sendall(b"new")
        equal(receive(old_server, 3), b"old", "an existing one")
        expect_silence(new_server)
        equal(rig.command("pass existing")["connections"], 2, "both")
        equal(receive(new_server, 3), b"new", "after it")
        newer, newer_server = rig.pair()
        newer.sendall(b"newer")
        rig.command("pass new")
        newest, newest_server = rig.pair()
        newest.sendall(b"newest")
        equal(receive(newest_server, 6), b"newest", "the newest one")
        expect_silence(newer_server)


def test_faults_add_up():
    with Rig() as rig:
        client, server = rig.pair()
        for fault in "delay 40", "split 100", "flip 50", "cut 1000 up":
            rig.command(fault)
        begin = time.monotonic()
        client.sendall(bytes(2000))
        got = expect_reset(server)
        check(since(begin) >= 0.04, "delayed")
        equal((len(got), [at for at, byte in enumerate(got) if byte]), (1000, [50]), "cut and flipped")
        check(rig.stats()["writes_up"] >= 10, "split")


def test_many_connections():
    with Rig() as rig:
        pairs = [rig.pair() for _ in range(100)]
        for number, (client, _) in enumerate(pairs):
            client.sendall(b"%03d" % number)
        for number, (_, server) in enumerate(pairs):
            equal(receive(server, 3), b"%03d" % number, "its own bytes")
        equal(len(rig.proxy.connections()), 100, "listed")


# --- UDP ------------------------------------------------------------------------------------------


class UdpRig(contextlib.ExitStack):
    def __init__(self, **options):
        super().__init__()
        self.server = self.socket()
        self.server.bind(("127.0.0.1", 0))
        self.proxy = self.enter_context(FaultProxy(PROGRAM, self.server.getsockname(), udp=True, **options))
        self.command = self.proxy.command
        self.client = self.connect()

    def socket(self):
        sock = self.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        sock.settimeout(SECONDS)
        return sock

    def connect(self):
        sock = self.socket()
        sock.connect(self.proxy.address)
        return sock

    def storm(self, count=100):
        """Sends numbered datagrams; returns the numbers in the order of their arrival."""
        before = self.proxy.stats()
        for number in range(count):
            self.client.send(struct.pack(">I", number))
        self.proxy.wait("read up %d" % (before["read_up"] + 4 * count))
        stats = self.proxy.stats()
        expected = count + sum(stats[key] - before[key] for key in ("dups_up",)) - \
            (stats["drops_up"] - before["drops_up"])
        return [struct.unpack(">I", self.server.recv(100))[0] for _ in range(expected)]


def test_udp_pass():
    with UdpRig() as rig:
        clients = [rig.client, rig.connect()]
        for number, client in enumerate(clients):
            client.send(b"from %d" % number)
            data, address = rig.server.recvfrom(100)
            equal(data, b"from %d" % number, "up")
            rig.server.sendto(b"to %d" % number, address)
            rig.server.sendto(b"", address)
        for number, client in enumerate(clients):
            equal((client.recv(100), client.recv(100)), (b"to %d" % number, b""), "down, to its own client")
        client.send(bytes(60000))
        equal(len(rig.server.recv(65536)), 60000, "a large datagram")
        stats = rig.proxy.stats()
        equal((stats["connections_now"], stats["writes_up"], stats["writes_down"]), (2, 3, 4), "stats")
        equal(rig.storm(), list(range(100)), "in order")
        equal(len(rig.proxy.connections()), 2, "listed")


def test_udp_loss():
    runs = []
    for seed in 7, 7, 8:
        with UdpRig(seed=seed) as rig:
            rig.command("loss 30 up")
            runs.append(rig.storm())
            rig.command("loss 100")
            equal(rig.storm(), [], "all lost")
            rig.command("loss 0")
            equal(rig.storm(), list(range(100)), "none lost")
    check(40 <= len(runs[0]) <= 95, "about 70 of 100 arrive, not %d" % len(runs[0]))
    equal(runs[0], runs[1], "the same seed")
    check(runs[0] != runs[2], "another seed")


def test_udp_dup():
    with UdpRig() as rig:
        rig.command("dup 100")
        equal(rig.storm(50), [number for number in range(50) for _ in range(2)], "each twice")
        rig.command("dup 25.5")
        equal(sorted(set(rig.storm())), list(range(100)), "all are there")
        check(50 < rig.proxy.stats()["dups_up"] < 150, "some twice")


def test_udp_reorder():
    with UdpRig() as rig:
        rig.command("reorder 30 200 up")
        got = rig.storm()
        equal(sorted(got), list(range(100)), "all are there")
        check(got != sorted(got), "in another order")


def test_udp_delay():
    with UdpRig() as rig:
        rig.command("delay 50 up")
        begin = time.monotonic()
        equal(rig.storm(10), list(range(10)), "in order")
        check(since(begin) >= 0.05, "too early")
        rig.command("delay 3600000")
        rig.client.send(b"held")
        rig.proxy.wait("read up 44")
        expect_silence(rig.server)
        rig.command("pass")
        equal(rig.server.recv(10), b"held", "released")


def test_udp_rate():
    with UdpRig() as rig:
        rig.client.send(b"hello")
        rig.server.recv(10)
        rig.command("rate 100000")
        begin = time.monotonic()
        for _ in range(4):
            rig.client.send(bytes(10000))
        for _ in range(4):
            equal(len(rig.server.recv(20000)), 10000, "a datagram")
        # The bucket may have held 10000, and the last datagram goes into debt.
        check(since(begin) >= 0.19, "too fast")


def test_udp_limits():
    with UdpRig(buffer_kib=64) as rig:
        rig.command("delay 3600000")
        for _ in range(10):
            rig.client.send(bytes(10000))
        rig.proxy.wait("read up 100000")
        equal(rig.proxy.stats()["drops_up"], 4, "six fit")


def test_udp_holes():
    with UdpRig() as rig:
        for fault in "blackhole", "swallow":
            rig.command(fault)
            equal(rig.storm(), [], fault)
            rig.command("pass")
            equal(rig.storm(10), list(range(10)), "after it")


def test_udp_flip():
    with UdpRig() as rig:
        rig.command("flip 5 up")
        rig.client.send(b"aaaa")
        rig.client.send(b"aaaa")
        equal((rig.server.recv(10), rig.server.recv(10)), (b"aaaa", b"a`aa"), "one bit")
        equal(rig.command("flip 3 up")["passed"], 1, "too late")


def test_udp_close_and_unlisten():
    with UdpRig() as rig:
        addresses = set()
        for _ in range(2):
            rig.client.send(b"who")
            addresses.add(rig.server.recvfrom(10)[1])
            rig.command("close")
        equal(rig.proxy.stats()["connections_now"], 0, "forgotten")
        equal(len(addresses), 2, "a new port")
        rig.command("unlisten")
        rig.client.send(b"lost")
        try:
            rig.client.recv(10)
            raise AssertionError("received")
        except ConnectionRefusedError:
            pass
        rig.command("listen")
        rig.client.send(b"again")
        equal(rig.server.recv(10), b"again", "on the same port")


# --- the program ----------------------------------------------------------------------------------


def run(*words):
    return subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
                          check=False)


def test_usage():
    done = run("--help")
    equal((done.returncode, done.stderr), (0, ""), "help")
    for word in ("blackhole", "reorder PERCENT MS", "half-close up|down|both", "--seed", "connections_total"):
        check(word in done.stdout, "help tells about " + word)
    to = ("--to", "127.0.0.1:1")
    for words in ((), to, ("--listen", "127.0.0.1:0"), ("--listen", "nonsense", *to), ("--listen",), ("--what", "x"),
                  ("--listen", "127.0.0.1:0", *to, "--seed", "x"), ("--listen", "127.0.0.1:0", *to, "--buffer", "0")):
        done = run(*words)
        equal((done.returncode, done.stdout), (2, ""), words)
        check("--help" in done.stderr, done.stderr)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("--listen", "127.0.0.1:%d" % taken.getsockname()[1], *to)
        equal(done.returncode, 1, "the port is taken")


def test_control():
    with Rig() as rig:
        equal(stat.S_IMODE(os.stat(rig.proxy.control).st_mode), 0o600, "mode of the socket")
        for line, expected in (("nonsense", "there is no command nonsense; write one of: pass"),
                               ("delay", "a number is missing; write `delay MS [JITTER]"),
                               ("delay x", "not a number: x"), ("delay 5 5 5", "cannot be here: 5"),
                               ("delay 99999999999", "too large"), ("split 0", "too small"),
                               ("delay 5 sideways", "cannot be here: sideways"), ("loss 5", "start the proxy with --udp"),
                               ("half-close", "the direction is missing"), ("reset new", "cannot be here: new"),
                               ("wait bytes 5", "up, down or both"), ("wait supper 5", "EVENT is"),
                               ("pass up down", "cannot be here: down"), ("a b c d e f g h", "there is no command a"),
                               ("pass b c d e f g h", "too many words"), ("x" * 300, "more than 255 bytes")):
            answer = rig.proxy.ask(line)
            check(answer.startswith("error: ") and expected in answer and answer.count("\n") == 1,
                  "%s: %r" % (line, answer))
        with UdpRig() as udp:
            for line in "cut 5", "refuse", "split 5", "reset":
                check("without --udp" in udp.proxy.ask(line), line)
            for line in "loss 101", "loss 1.23456", "loss .", "loss 1000":
                check("percentage" in udp.proxy.ask(line) or "not a number" in udp.proxy.ask(line), line)
        try:
            rig.command("nonsense")
            raise AssertionError("no error")
        except FaultProxyError:
            pass


def test_control_order():
    with Rig() as rig, socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(SECONDS)
        sock.connect(rig.proxy.control)
        sock.sendall(b"\n# a comment\ndelay 5 existing up\r\n  nonsense\nwait connections 1\nlist\nstats")
        lines = sock.makefile()
        equal(lines.readline(), "ok connections=0\n", "the first answer")
        check(lines.readline().startswith("error:"), "the second answer")
        rig.command("stats")  # who waits holds up nobody else
        expect_silence(sock)
        rig.pair()
        equal(lines.readline(), "ok\n", "what was awaited")
        check(lines.readline().startswith("connection 1 client=127.0.0.1:"), "the list")
        equal(lines.readline(), "ok\n", "its end")
        sock.shutdown(socket.SHUT_WR)
        check(lines.readline().startswith("ok connections_now="), "a last line without a newline")
        equal(lines.readline(), "", "the end")


def test_wait():
    with Rig() as rig:
        events = "connections 2", "bytes up 10", "bytes both 15", "read down 5", "open 2"
        socks = [rig.enter_context(socket.socket(socket.AF_UNIX)) for _ in events]
        for sock, event in zip(socks, events):
            sock.settimeout(SECONDS)
            sock.connect(rig.proxy.control)
            sock.sendall(b"wait %s\n" % event.encode())
        gone = socket.socket(socket.AF_UNIX)
        gone.connect(rig.proxy.control)
        gone.sendall(b"wait connections 99\n")
        gone.close()
        rig.stats()
        rig.stats()
        expect_silence(*socks)
        rig.pair()
        client, server = rig.pair()
        client.sendall(b"0123456789")
        server.sendall(b"01234")
        for sock in socks:
            equal(receive(sock, 3), b"ok\n", "an event")
        begin = time.monotonic()
        rig.command("after 30")
        check(since(begin) >= 0.03, "too early")
        opened = beside(lambda: rig.wait("open 0"))
        rig.command("reset")
        opened()


def test_control_socket_is_replaced():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = os.path.join(folder, "control")
        words = ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--control", path]
        script = os.path.join(folder, "quit")
        with open(script, "w") as file:
            file.write("quit\n")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path)
            sock.listen(1)
            equal(run(*words, "--script", script).returncode, 1, "somebody listens")
        equal(run(*words, "--script", script).returncode, 0, "a leftover")
        check(not os.path.exists(path), "it is removed at the end")
        with open(path, "w") as file:
            file.write("precious")
        equal(run(*words, "--script", script).returncode, 1, "no socket")
        check(os.path.exists(path), "it is still there")


def test_script():
    with Rig(script="# waits for bytes, then resets\n\nat connections 1\nat bytes up 5\nafter 20\nstats\nreset\n"
                    "wait connections 2\nwait open 0\nquit\n") as rig:
        client, server = rig.pair()
        begin = time.monotonic()
        client.sendall(b"12345")
        equal(expect_reset(server), b"12345", "before the reset")
        check(since(begin) >= 0.02, "too early")
        client, server = rig.pair()
        client.close()
        server.close()
        out = rig.proxy.wait_end(0)
        check(out.startswith("ok connections_now=1 connections_total=1"), out)


def test_script_errors():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = os.path.join(folder, "bad")
        with open(path, "w") as file:
            file.write("pass\ndelay\n# fine\nloss 5\nquit\n")
        done = run("--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--script", path)
        equal((done.returncode, done.stdout), (2, ""), "nothing is served")
        lines = done.stderr.splitlines()
        equal(len(lines), 2, "two errors")
        check(lines[0].startswith(path + ":2: a number is missing; write `delay"), lines[0])
        check(lines[1].startswith(path + ":4: loss is for UDP"), lines[1])
        with open(path, "w") as file:
            file.write("pass\n#" + "x" * 300 + "\n")
        done = run("--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--script", path)
        check(done.returncode == 2 and ":2: the line is too long" in done.stderr, done.stderr)
        done = run("--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--script", path + ".none")
        equal(done.returncode, 2, "no such file")


def test_quit_and_sigterm():
    with Rig() as rig:
        client, _ = rig.pair()
        equal(rig.proxy.ask("quit"), "ok\n", "answer")
        rig.proxy.wait_end(0)
        expect_reset(client)
    with Rig() as rig:
        rig.pair()
        rig.proxy.stop()


def test_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return  # not here
    with Rig(listen="[::1]:0") as rig:
        client, server = rig.pair()
        client.sendall(b"six")
        equal(receive(server, 3), b"six", "bytes")


def run_one(program, name):
    """Returns whether it passed, and what there is to say."""
    global PROGRAM
    PROGRAM = program
    begin = time.monotonic()
    try:
        globals()[name]()
        return True, "%-40s %6.2f s  ok" % (name, since(begin))
    except Exception:
        return False, "%s%-40s %6.2f s  FAILED" % (traceback.format_exc(), name, since(begin))


def main():
    wanted = sys.argv[2:] or [name for name in globals() if name.startswith("test_")]
    program = os.path.abspath(sys.argv[1])
    is_good = True
    # They mostly wait, and each has its own proxy.
    with concurrent.futures.ProcessPoolExecutor(3) as pool:
        for passed, text in pool.map(run_one, [program] * len(wanted), wanted):
            is_good = is_good and passed
            print(text, flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
