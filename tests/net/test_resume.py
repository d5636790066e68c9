# SPDX-License-Identifier: Apache-2.0
"""Streams outlive their connections: cuts of every kind under a transfer and under many small requests."""
import hashlib
import os
import socket
import threading
import time

import harness
from harness import check, check_equal, read_all, run_threads, sha256, wait_until

MIB = 1 << 20
GAP_MAX_S = 8.0  # after the network is good again, on a busy machine: still below resume_ms
CUTS = 10


def cut_reset(proxy):
    proxy.command("reset")


def cut_blackhole(proxy):
    """All sockets stay open and nothing comes through, for longer than the agents wait for an answer."""
    proxy.command("blackhole")
    return 1.5


def cut_half_open(proxy):
    """The ends believe that they are connected, and what they send is lost for ever."""
    proxy.command("swallow")
    return 1.5


def heal(proxy):
    proxy.command("pass")


CUT_KINDS = [cut_reset, cut_blackhole, cut_half_open]
SETTINGS = ("settings:\n  heartbeat: {interval_ms: 200, deadline_ms: 1000}\n"
            "  reconnect: {min_ms: 50, max_ms: 500}\n")


class Meter:
    """Counts bytes, and remembers when they came."""

    def __init__(self):
        self.changed = threading.Condition()
        self.bytes = 0

    def add(self, count):
        with self.changed:
            self.bytes += count
            self.changed.notify_all()

    def wait_above(self, count, seconds):
        with self.changed:
            return self.changed.wait_for(lambda: self.bytes > count, seconds)


def through_proxy(lab, targets):
    """A hub, and an edge whose way to it leads through the proxy. Returns them, the proxy and where forwards listen."""
    port = harness.free_port()
    proxy = lab.fault_proxy("127.0.0.1:%d" % port)
    text = ("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
            "  amsterdam: {edge: {links: [{to: paris/hub, address: \"%s\"}]}}\n%stargets:\n"
            % (port, "%s:%d" % proxy.address, SETTINGS))
    text += "".join("  %s: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n" % entry
                    for entry in targets.items())
    text += "forwards:\n"
    text += "".join("  %s: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: %s}\n" % (name, name)
                    for name in targets)
    lab.fleet(text)
    hub, edge = lab.agent("paris/hub").start(), lab.agent("amsterdam/edge").start()
    edge.wait_up(hub.name)
    return hub, edge, proxy, {name: edge.bound(name) for name in targets}


def cut_and_heal(proxy, kind, meter, gaps):
    """One cut while bytes move; notes how long none came after the network was good again."""
    hold_s = kind(proxy)
    if hold_s:
        time.sleep(hold_s)  # the length of the outage is the case
        heal(proxy)
    begin = time.monotonic()
    # What was under way may still arrive at once; bytes of the next connection are what counts.
    check(meter.wait_above(meter.bytes + MIB // 4, 20), kind.__name__, "and no byte came any more")
    gaps.append((kind.__name__, time.monotonic() - begin))


def test_transfer_with_cuts(lab):
    """256 MiB down one forward, its connection cut ten times: the digest is right and no gap is long."""
    size = (64 if lab.is_sanitized else 256) * MIB
    block = os.urandom(MIB)
    digest = sha256(block * (size // MIB))
    pace = threading.Semaphore(0)  # the server goes on as far as the test lets it, so that every cut meets bytes

    def serve(conn):
        for _ in range(size // MIB):
            pace.acquire()
            conn.sendall(block)

    server = lab.server(serve)
    hub, edge, proxy, at = through_proxy(lab, {"bulk": server.port})
    meter, gaps = Meter(), []

    def download():
        sha = hashlib.sha256()
        with harness.connect(at["bulk"], 120) as sock:
            while True:
                data = sock.recv(262144)
                if not data:
                    return sha.hexdigest()
                sha.update(data)
                meter.add(len(data))

    def cut():
        step = size // MIB // (CUTS + 1)
        for index in range(CUTS):
            for _ in range(step):
                pace.release()
            check(meter.wait_above((index * step + step // 2) * MIB, 60), "bytes before cut", index)
            cut_and_heal(proxy, CUT_KINDS[index % len(CUT_KINDS)], meter, gaps)
        for _ in range(size // MIB):
            pace.release()

    got, _ = run_threads([download, cut], 180)
    check_equal((meter.bytes, got), (size, digest), "what was downloaded")
    check(hub.metric("net.streams_resumed") > 0, "streams were resumed")
    for kind, gap in gaps:
        harness.note("%s: %.2f s without a byte" % (kind, gap))
    check(max(gap for _, gap in gaps) < GAP_MAX_S, "gaps", gaps)


def test_small_requests_with_cuts(lab):
    """50 clients with small requests in a row, the connection cut ten times: every answer is right."""
    meter = Meter()

    def echo(conn):
        while True:
            data = conn.recv(65536)
            if not data:
                return
            conn.sendall(data)

    server = lab.server(echo)
    hub, edge, proxy, at = through_proxy(lab, {"echo": server.port})
    is_over = threading.Event()
    gaps = []

    def client():
        rounds = 0
        with harness.connect(at["echo"], 60) as sock:
            while not is_over.is_set():
                data = os.urandom(2000)
                sock.sendall(data)
                got = b""
                while len(got) < len(data):
                    more = sock.recv(65536)
                    check(more, "the connection ended")
                    got += more
                check(got == data, "an answer is right")
                meter.add(len(got))
                rounds += 1
            sock.shutdown(socket.SHUT_WR)
            check_equal(sock.recv(1), b"", "the end")
        return rounds

    def cut():
        try:
            for index in range(CUTS):
                check(meter.wait_above(meter.bytes + MIB // 4, 30), "bytes before cut", index)
                cut_and_heal(proxy, CUT_KINDS[index % len(CUT_KINDS)], meter, gaps)
        finally:
            is_over.set()

    rounds = run_threads([client] * 50 + [cut], 180)
    harness.note("%d requests" % sum(rounds[:50]))
    for kind, gap in gaps:
        harness.note("%s: %.2f s without an answer" % (kind, gap))
    check(min(rounds[:50]) > 0, "every client was served")
    check(max(gap for _, gap in gaps) < GAP_MAX_S, "gaps", gaps)


def test_gives_up(lab):
    """With the link down for good a forward holds its clients for resume_ms, bounded, and then resets them."""
    server = lab.server(lambda conn: (conn.recv(1), conn.recv(1)))
    hub, edge, proxy, at = through_proxy(lab, {"sink": server.port})
    edge.edit(lambda text: text + "resume_ms: 1500\n")
    edge.stop()
    edge.start().wait_up(hub.name)
    at = edge.bound("sink")
    with harness.connect(at, 30) as sock:
        sock.sendall(b"x")
        wait_until(lambda: server.accepted == 1, 10, "the target is reached")
        proxy.command("unlisten")
        proxy.command("reset")
        begin = time.monotonic()
        held = 0
        sock.settimeout(0.3)
        while time.monotonic() - begin < 1.0:  # within the time it takes what fits the window, no more
            try:
                held += sock.send(b"y" * 65536)
            except socket.timeout:
                break
        check(held < 32 * MIB, "held", held)
        sock.settimeout(30)
        try:
            check_equal(sock.recv(1), b"", "what came instead of an end")
        except ConnectionResetError:
            pass
        took = time.monotonic() - begin
        check(1.0 < took < 6.0, "held for", took)
        harness.note("reset after %.2f s, %.1f MiB were held" % (took, held / MIB))
    wait_until(lambda: edge.view("streams") == [], 5, "nothing is left at the edge")
    wait_until(lambda: hub.view("streams") == [], 15, "nothing is left at the hub")


def test_restarted_peer(lab):
    """The peer's next boot resets what its former one held, at once and not after resume_ms."""
    server = lab.server(lambda conn: read_all(conn))
    hub, edge, proxy, at = through_proxy(lab, {"sink": server.port})
    edge.edit(lambda text: text + "resume_ms: 60000\n")
    edge.stop()
    edge.start().wait_up(hub.name)
    with harness.connect(edge.bound("sink"), 30) as sock:
        sock.sendall(b"x")
        wait_until(lambda: server.accepted == 1, 10, "the target is reached")
        hub.kill()
        hub.start()
        edge.wait_up(hub.name)
        begin = time.monotonic()
        sock.settimeout(30)
        try:
            check_equal(sock.recv(1), b"", "what came instead of an end")
        except ConnectionResetError:
            pass
        check(time.monotonic() - begin < 30, "reset at once, not after resume_ms")
    wait_until(lambda: edge.view("streams") == [], 5, "nothing is left at the edge")


if __name__ == "__main__":
    harness.main([test_transfer_with_cuts, test_small_requests_with_cuts, test_gives_up, test_restarted_peer])
