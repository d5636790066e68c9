# SPDX-License-Identifier: Apache-2.0
"""Strangers who never finish a handshake do not keep a member out (T28)."""
import random
import socket
import ssl
import struct
import time

import harness
from harness import check, check_equal, wait_until

ROUND = 60  # connections of each kind


def silent(sock, rng):
    pass


def one_byte(sock, rng):
    sock.sendall(b"\x16")


def random_bytes(sock, rng):
    sock.sendall(rng.randbytes(rng.randrange(1, 4000)))


def http(sock, rng):
    sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


def make_hello():
    """The first flight of a real TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["sennit/1"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


HELLO = make_hello()


def close_in_handshake(sock, rng):
    sock.sendall(HELLO[:rng.randrange(1, len(HELLO) + 1)])
    if rng.random() < 0.5:  # a reset instead of an orderly end
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


KINDS = (silent, one_byte, random_bytes, http, close_in_handshake)


def pelt(address, rng, out):
    """Connects once in each way, as fast as it goes; what is not closed stays open, in `out`."""
    for kind in KINDS:
        sock = socket.socket()
        sock.settimeout(5)
        try:
            sock.connect(address)
            kind(sock, rng)
        except OSError:
            pass  # shed, which is the other side's right
        out.append(sock)


def test_join_among_garbage(lab):
    port = harness.free_port()
    lab.fleet("sites:\n"
              "  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
              "  amsterdam: {edge: {links: [paris/hub]}, good: {links: [paris/hub]}}\n" % port)
    hub, edge, good = [lab.agent(name) for name in ("paris/hub", "amsterdam/edge", "amsterdam/good")]
    hub.start()
    edge.start().wait_up(hub.name)
    hub.wait_up(edge.name)
    # One that comes and goes first: what it leaves behind for good is part of the baseline.
    good.start()
    hub.wait_up(good.name)
    good.stop()
    wait_until(lambda: not hub.is_up(good.name), 5, "it is gone")
    before = harness.settled_figures(hub.pid)
    seed = random.randrange(1 << 32)
    harness.note("seed", seed)
    rng = random.Random(seed)
    socks = []
    begin = None
    for index in range(ROUND):
        pelt(("127.0.0.1", port), rng, socks)
        if index == ROUND // 4:
            good.spawn()
            good.wait_ready()
            begin = time.monotonic()
    check_equal(len(socks), ROUND * len(KINDS), "connections")
    wait_until(lambda: good.is_up(hub.name), 3 - (time.monotonic() - begin), "a good peer joins within 3 s")
    harness.note("joined after %.2f s" % (time.monotonic() - begin))
    check(harness.descriptors(hub.pid) < before[0] + 64 + 20, "unfinished handshakes are not bounded")
    check(hub.is_up(edge.name), "the first peer was lost")
    edge.check_ping(hub.name)
    good.check_ping(hub.name)
    check_equal(hub.peer(edge.name)["sessions"], 1, "sessions of the first peer")
    for sock in socks:
        sock.close()
    good.stop()
    wait_until(lambda: not hub.is_up(good.name), 5, "the good peer is gone")
    check_equal(harness.settled_figures(hub.pid), before, "descriptors and threads afterwards")
    check(hub.metric("net.shed") > 0, "nothing was shed, so nothing was tested")
    # Log lines are limited, however many there were to complain about.
    check(len(hub.lines) < 200, "lines of log:", len(hub.lines))


def test_silence_ends(lab):
    """A connection that says nothing is closed when its time is over; no time is spent on it meanwhile."""
    port = harness.free_port()
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
              "settings: {accept: {timeout_ms: 500}}\n" % port)
    hub = lab.agent("paris/hub").start()
    with harness.connect(("127.0.0.1", port)) as quiet, harness.connect(("127.0.0.1", port)) as half:
        half.sendall(HELLO[:50])
        begin = time.monotonic()
        for sock in (quiet, half):
            sock.settimeout(5)
            try:
                check_equal(sock.recv(1), b"", "what a silent connection hears")
            except ConnectionResetError:
                pass
        took = time.monotonic() - begin
        check(took < 3, "it took", took, "s")


if __name__ == "__main__":
    harness.main([test_join_among_garbage, test_silence_ends])
