# SPDX-License-Identifier: Apache-2.0
"""Strangers from many addresses who open, hold and reopen unfinished handshakes: the limits of `accept:` hold, members
get in beside them and stay, the figures tell it, and when they are gone nothing of them is left. HALF in the
environment is the number of handshakes that stop half-way."""
import collections
import os
import random
import re
import socket
import ssl
import struct
import sys
import threading
import time

import harness
import test_limits
from harness import check, check_equal, wait_until
from test_garbage import HELLO

HALF = int(os.environ.get("HALF", "0"))
HOSTS = range(2, 51)  # the attackers' addresses in 127.0.0.0/8
KEPT = 400  # connections that a flood holds, which is above all limits
MOST = 64 + 8  # unfinished handshakes, with those that are being evicted
JOIN_S = 10.0
GROWTH_KIB = 4096
LOG_BURST = 5  # lines of one cause before it is held back to one a second
IP_BIND_ADDRESS_NO_PORT = 24


# --- Strangers ------------------------------------------------------------------------------------------------


def dial(port, host, timeout=10.0):
    sock = socket.socket()
    sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    sock.bind(("127.0.0.%d" % host, 0))
    sock.settimeout(timeout)
    sock.connect(("127.0.0.1", port))
    return sock


def is_ended(sock):
    """Whether the other end has hung up."""
    sock.setblocking(False)
    try:
        while sock.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def wait_ended(sock, seconds, what):
    wait_until(lambda: is_ended(sock), seconds, what)


def nothing(sock):
    return sock


def half_hello(sock):
    sock.sendall(HELLO[:50])
    return sock


def hello(sock):
    sock.sendall(HELLO)
    return sock


def hello_and_reset(sock):
    sock.sendall(HELLO)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    return sock


def no_certificate(sock):
    """To the end of TLS as far as this side can tell; it is refused with the next flight."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["sennit/1"])
    return context.wrap_socket(sock)


KINDS = (nothing, half_hello, hello, hello_and_reset, no_certificate)


def strangers(port, count, kept, rng=random):
    """So many connections, each in a way and from an address by chance; the last `kept` stay open meanwhile."""
    socks = collections.deque()
    for _ in range(count):
        sock = None
        try:
            sock = dial(port, rng.choice(HOSTS), 2.0)
            sock = rng.choice(KINDS)(sock)
        except OSError:  # turned away, which is the other side's right
            pass
        if sock is not None:
            socks.append(sock)
        if len(socks) > kept:
            socks.popleft().close()
    for sock in socks:
        sock.close()


def flood(lab, port):
    """A process that does it without a pause, until it is killed."""
    return lab.spawn([sys.executable, "-B", os.path.abspath(__file__), "--flood", str(port)])


def stop(process):
    process.kill()
    process.wait()


# --- The attacked -------------------------------------------------------------------------------------------------


def mesh(lab, settings="", more=""):
    port = harness.free_port()
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
              "  amsterdam: {edge: {links: [paris/hub]}, good: {links: [paris/hub]}}\n"
              "settings: {reconnect: {min_ms: 50, max_ms: 500}%s}\n%s" % (port, settings, more))
    return port, lab.agent("paris/hub"), lab.agent("amsterdam/edge"), lab.agent("amsterdam/good")


def figures(hub):
    return {entry["name"]: entry["value"] for entry in hub.view("metrics") if entry["name"].startswith("net.")}


def wait_unfinished(hub, count, seconds=10):
    wait_until(lambda: hub.metric("net.handshakes") == count, seconds, "%d unfinished handshakes" % count)


def join(hub, good):
    """How long it takes until it is up and has been answered."""
    begin = time.monotonic()
    good.start()
    good.wait_up(hub.name, JOIN_S)
    took = time.monotonic() - begin
    good.check_ping(hub.name)
    return took


def leave(hub, good):
    good.stop()
    wait_until(lambda: not hub.is_up(good.name), 10, "the good peer is gone")


def check_log(hub, first, seconds):
    """No cause has more lines than its burst and one a second."""
    lines = collections.Counter(match.group(1) for match in
                                (re.search(r" (?:warn|info|error)  ?([A-Z-]+) ", line) for line in hub.lines[first:])
                                if match is not None and not match.group(1).startswith("PEER-UP"))
    check(lines, "there are no lines at all")
    for cause, count in lines.items():
        check(count <= LOG_BURST + seconds + 2, count, "lines of", cause, "in %.1f s" % seconds)
    return lines


# --- Limits -------------------------------------------------------------------------------------------------------


def check_limits(lab, handshakes, per_address, timeout_ms):
    port, hub, edge, good = mesh(lab, ", accept: {handshakes: %d, per_address: %d, timeout_ms: %d}"
                                 % (handshakes, per_address, timeout_ms))
    hub.start()
    other, crowd = dial(port, 3), []
    for index in range(per_address):
        wait_unfinished(hub, index + 1)
        crowd.append(dial(port, 2))
    wait_unfinished(hub, per_address + 1)
    # One more of that address is turned away until the oldest of them had its time, and then takes its place.
    late, turned_away = None, 0
    end = time.monotonic() + timeout_ms / 1000
    while not is_ended(crowd[0]):
        check(time.monotonic() < end, "the newest never got the place of the oldest")
        if late is not None and is_ended(late):
            turned_away += 1
            late = None
        if late is None:
            late = dial(port, 2)
        time.sleep(0.01)
    check(turned_away > 0, "the oldest had no time at all")
    wait_unfinished(hub, per_address + 1)
    check(not any(is_ended(sock) for sock in crowd[1:] + [late, other]), "another one had to go")
    check_equal(figures(hub)["net.shed"], turned_away + 1, "connections shed")
    # When all places are taken those of the crowd go, oldest first, and nobody else.
    crowd = crowd[1:] + [late]
    others = [other]
    while len(others) + len(crowd) < handshakes:
        others.append(dial(port, 3 + len(others)))
    wait_unfinished(hub, handshakes)
    for index in range(per_address - 1):
        others.append(dial(port, 3 + len(others)))
        wait_ended(crowd[index], 10, "the oldest of the crowd goes")
    wait_unfinished(hub, handshakes)
    check(not any(is_ended(sock) for sock in others + crowd[-1:]), "somebody else had to go")
    check_equal(figures(hub)["net.shed"], turned_away + per_address, "connections shed")
    took = join(hub, good)
    for sock in others + crowd:
        sock.close()
    wait_unfinished(hub, 0)
    harness.note("%d of %d: %d turned away; joined after %.2f s" % (per_address, handshakes, turned_away, took))


def test_limits_hold(lab):
    check_limits(lab, 64, 8, 6000)


def test_small_limits_hold(lab):
    check_limits(lab, 4, 2, 3000)


def test_time_is_limited(lab):
    """Silence, half of a first message, and silence after all of it end with the time of a handshake, not before."""
    port, hub, edge, good = mesh(lab, ", accept: {handshakes: 4, per_address: 2, timeout_ms: 500}")
    hub.start()
    begin = time.monotonic()
    socks = [kind(dial(port, 2 + index)) for index, kind in enumerate((nothing, half_hello, hello))]
    for sock in socks:
        wait_ended(sock, 10, "it ends")
        check(time.monotonic() - begin >= 0.5, "it ended after %.3f s" % (time.monotonic() - begin))
    now = figures(hub)
    check_equal((now["net.handshakes"], now["net.handshakes_failed"], now["net.shed"]), (0, 3, 0), "figures")
    hub.wait_line("HANDSHAKE-FAILED .*err=timed-out", 5)


def test_flood(lab):
    """Processes that do nothing else: a member joins, again and again, and those who are there are not disturbed."""
    count = 1 if lab.is_sanitized else 2
    port, hub, edge, good = mesh(lab)
    hub.start()
    edge.start().wait_up(hub.name)
    before = harness.descriptors(hub.pid)
    first, begin = len(hub.lines), time.monotonic()
    floods = [flood(lab, port) for _ in range(count)]
    wait_until(lambda: figures(hub)["net.shed"] > 200, 30, "the limits are reached")
    took = []
    for _ in range(count):
        took.append(join(hub, good))
        check(figures(hub)["net.handshakes"] <= MOST, "unfinished handshakes:", figures(hub))
        check(harness.descriptors(hub.pid) <= before + MOST + 20, "descriptors:", harness.descriptors(hub.pid))
        check_equal(good.peer(hub.name)["sessions"], 1, "sessions of the one that joined")
        leave(hub, good)
    pings = edge.check_ping(hub.name, 50)
    check_equal(hub.peer(edge.name)["sessions"], 1, "sessions of the first peer")
    check_equal(hub.command("status").returncode, 0, "exit status of `sennit status`")
    for process in floods:
        stop(process)
    wait_unfinished(hub, 0)
    check_log(hub, first, time.monotonic() - begin)
    now = figures(hub)
    harness.note("joined after %s s among %d (%d a second); ping p99 %.1f ms" %
                 (", ".join("%.2f" % each for each in took), now["net.handshakes_failed"],
                  now["net.handshakes_failed"] / (time.monotonic() - begin), pings["p99_us"] / 1000))


# --- Many ---------------------------------------------------------------------------------------------------------


def test_half_handshakes(lab):
    """Handshakes that stop half-way, in several ways: pings go on, a member joins, and nothing is left behind."""
    port, hub, edge, good = mesh(lab)
    hub.start()
    edge.start().wait_up(hub.name)
    join(hub, good)
    leave(hub, good)
    half = HALF or (500 if lab.is_sanitized else 1500)
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    strangers(port, half // 3, 100, rng)  # what the first ones leave is no growth
    wait_unfinished(hub, 0)
    before, rss = harness.settled_figures(hub.pid), harness.rss_kib(hub.pid)
    counts, first, begin = figures(hub), len(hub.lines), time.monotonic()
    pings, errors, is_over = [], [], threading.Event()

    def bother():
        try:
            strangers(port, half, 100, rng)
        finally:
            is_over.set()

    def ping():
        while not is_over.is_set():
            pings.append(edge.check_ping(hub.name, 50))

    def run():
        try:
            harness.run_threads([bother, ping], 600)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    wait_until(lambda: figures(hub)["net.handshakes_failed"] - counts["net.handshakes_failed"] > half // 4, 60,
               "a quarter of them has failed")
    joined = join(hub, good)  # by this thread: an agent goes with the thread that has started it
    check(not is_over.is_set(), "all of it was over before")
    thread.join(600)
    check(is_over.is_set() and not errors, "errors:", errors)
    took = time.monotonic() - begin
    leave(hub, good)
    wait_unfinished(hub, 0)
    wait_until(lambda: harness.descriptors(hub.pid) == before[0] and harness.threads(hub.pid) <= before[1], 20,
               "descriptors and threads as before, %s" % (before,))
    grown = harness.rss_kib(hub.pid) - rss
    check(lab.is_sanitized or grown <= GROWTH_KIB, "grown by", grown, "KiB")
    check_equal(hub.peer(edge.name)["sessions"], 1, "sessions of the first peer")
    now = figures(hub)
    failed, shed = [now[name] - counts[name] for name in ("net.handshakes_failed", "net.shed")]
    check(failed <= half <= failed + shed, half, "connections,", failed, "failed,", shed, "shed")
    lines = check_log(hub, first, time.monotonic() - begin)
    harness.note("%d in %.1f s, seed %d: joined after %.2f s; worst ping %.1f ms; RSS %d KiB, %+d; %d lines of log" %
                 (half, took, seed, joined, max(each["max_us"] for each in pings) / 1000, rss, grown,
                  sum(lines.values())))


# --- Descriptors --------------------------------------------------------------------------------------------------


def check_echo(sock):
    sock.settimeout(10)
    sock.sendall(b"still there")
    check_equal(sock.recv(64), b"still there", "the echo")


def test_few_descriptors(lab):
    """96 of them, for clients of a forward and a flood at the same time: both are turned away at once, who is there
    stays, the operator and a new member get in; afterwards all is as before."""
    server = lab.server(test_limits.echo)
    server.sock.listen(1000)
    port, hub, edge, good = mesh(
        lab, "", "targets:\n  echo: {at: amsterdam/edge, address: \"127.0.0.1:%d\", allow: [\"paris/*\"]}\n"
        "forwards:\n  echo: {at: paris/hub, listen: \"127.0.0.1:0\", target: echo}\n" % server.port)
    test_limits.spawn_limited(hub, (test_limits.resource.RLIMIT_NOFILE, 96, 96)).wait_line("^ready$")
    edge.start().wait_up(hub.name)
    hub.wait_up(edge.name)
    attack = flood(lab, port)
    wait_until(lambda: figures(hub)["net.shed"] > 100, 30, "the flood has begun")
    at = hub.bound("echo")
    served, refused = test_limits.fill(at, 70)
    check(len(served) >= 5 and len(refused) >= 5, len(served), "served,", len(refused), "refused")
    check(max(refused) < 3.0, "turned away after", max(refused), "s")
    shed = figures(hub)["net.shed"]
    wait_until(lambda: figures(hub)["net.shed"] > shed, 30, "the flood goes on")
    took = join(hub, good)
    for _ in range(5):
        check_equal(hub.command("status").returncode, 0, "exit status of `sennit status`")
    edge.check_ping(hub.name, 20)
    for sock in served:
        check_echo(sock)
    check_equal([hub.peer(agent.name)["sessions"] for agent in (edge, good)], [1, 1], "sessions")
    stop(attack)
    for sock in served:
        sock.close()
    leave(hub, good)
    wait_unfinished(hub, 0)
    join(hub, good)
    wait_until(lambda: len(test_limits.fill(at, 1)[0]) == 1, 15, "a client is served again")
    hub.wait_line("ACCEPT-LIMIT .*reason=no-descriptors .*ulimit -n", 1)
    hub.wait_line("DESCRIPTORS-SHORT .*ulimit -n", 1)
    harness.note("%d clients served, %d refused; joined after %.2f s" % (len(served), len(refused), took))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--flood"]:
        while True:
            strangers(int(sys.argv[2]), 10 * KEPT, KEPT)
    harness.main([test_limits_hold, test_small_limits_hold, test_time_is_limited, test_flood, test_half_handshakes,
                  test_few_descriptors])
