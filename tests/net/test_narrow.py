# SPDX-License-Identifier: Apache-2.0
"""Paths that become narrow: one that swallows large packets without a word, and one whose ends have no time for it.
What does not get through is judged and said; afterwards all goes on, and nothing is lost."""
import ctypes
import json
import os
import shutil
import socket
import subprocess
import threading
import time

import control
import harness
from harness import check, check_equal, wait_until

MIB = 1 << 20
DEADLINE_S = 2.0
SETTINGS = ("settings:\n  heartbeat: {interval_ms: 300, deadline_ms: %d}\n"
            "  reconnect: {min_ms: 50, max_ms: 500}\n  accept: {timeout_ms: 1000}\n" % (DEADLINE_S * 1000))
NARROW = 600  # bytes of the packets that still pass: no handshake does
PROBED = 1200  # likewise; the sizes that Linux tries by itself begin at 1024
LOAD_S = 2
AFTER_S = 20
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


# --- A network of three namespaces --------------------------------------------------------------------------


class Path:
    """Two hosts and a router between them, whose packets may become small. The names belong to this process."""

    def __init__(self):
        names = ["sn%d%s" % (os.getpid(), part) for part in ("a", "m", "b")]
        self.left, self.middle, self.right = names
        self.made = []
        try:
            self._make()
        except (OSError, subprocess.SubprocessError) as error:
            self.close()
            said = getattr(error, "stderr", None) or str(error)
            raise harness.Skip("no network of namespaces can be made here: " + said.strip())

    @staticmethod
    def run(*words):
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=True)

    def ip(self, name, *words):
        self.run("ip", "-n", name, *words)

    def inside(self, name, *words):
        self.run("ip", "netns", "exec", name, *words)

    def _make(self):
        if os.geteuid() != 0:
            raise OSError("only root can")
        for program in ("ip", "nft"):
            if shutil.which(program) is None:
                raise OSError("there is no program " + program)
        for name in (self.left, self.middle, self.right):
            self.run("ip", "netns", "add", name)
            self.made.append(name)
            self.ip(name, "link", "set", "lo", "up")
        for index, name in enumerate((self.left, self.right)):
            device, net = "d%d" % index, "10.9.%d." % index
            self.ip(self.middle, "link", "add", device, "type", "veth", "peer", "name", "net", "netns", name)
            self.ip(self.middle, "addr", "add", net + "1/24", "dev", device)
            self.ip(name, "addr", "add", net + "2/24", "dev", "net")
            self.ip(self.middle, "link", "set", device, "up")
            self.ip(name, "link", "set", "net", "up")
            self.ip(name, "route", "add", "default", "via", net + "1")
        self.inside(self.middle, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        # The router does not tell what it drops.
        self.inside(self.middle, "nft", "add table ip t; add chain ip t o { type filter hook output priority 0; }; "
                    "add rule ip t o icmp type destination-unreachable drop")

    def set_mtu(self, mtu):
        for index in range(2):
            self.ip(self.middle, "link", "set", "d%d" % index, "mtu", str(mtu))

    def probe_mtu(self):
        """The hosts look for the size that passes, which is no default of Linux, and begin early."""
        for name in (self.left, self.right):
            self.inside(name, "sysctl", "-q", "-w", "net.ipv4.tcp_mtu_probing=1", "net.ipv4.tcp_retries1=1")

    def close(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def enter(name):
    """Only the calling thread goes there."""
    with open("/run/netns/" + name, encoding="ascii") as file:
        if _libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def at(name, make):
    """What `make` returns in a thread of that namespace: sockets stay where they were made."""
    def run():
        enter(name)
        return make()
    return harness.run_threads([run], 30)[0]


def start(agent, name):
    def prepare():
        enter(name)
        harness._die_with_parent()
    agent.lines = []
    agent.is_ended = False
    agent.process = subprocess.Popen([agent.lab.sennit, "agent", "-c", agent.file], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=prepare)
    threading.Thread(target=agent._read, args=(agent.process.stderr, agent.lines), daemon=True).start()
    return agent.wait_ready()


# --- Large packets are swallowed --------------------------------------------------------------------------


def echo(conn):
    while True:
        data = conn.recv(65536)
        if not data:
            return
        conn.sendall(data)


class Narrow:
    """A hub and an edge at the ends of such a path, and a tunnel to an echo, with one connection open."""

    def __init__(self, lab, settings):
        self.path = Path()
        lab.closers.append(self.path.close)
        server = at(self.path.left, lambda: lab.server(echo))
        lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://10.9.0.2:%d\"]}}\n"
                  "  amsterdam: {edge: {links: [paris/hub]}}\n"
                  "targets:\n  it: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
                  "forwards:\n  it: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: it}\n%s"
                  % (harness.free_port(), server.port, settings))
        self.hub, self.edge = lab.agent("paris/hub"), lab.agent("amsterdam/edge")
        start(self.hub, self.path.left)
        start(self.edge, self.path.right).wait_up(self.hub.name)
        self.hub.wait_up(self.edge.name)
        bound = self.edge.bound("it")
        self.sock = at(self.path.right, lambda: harness.connect(bound, 120))
        self.echoed = []
        self.begin_echo(MIB)
        self.wait_echo(30)

    def begin_echo(self, size):
        """Sends so much in one thread and hears it in another."""
        self.echoed.clear()
        data = os.urandom(size)
        threading.Thread(target=lambda: self.sock.sendall(data), daemon=True).start()

        def hear():
            self.echoed.append(harness.read_all(self.sock, size)[1] == harness.sha256(data))
        threading.Thread(target=hear, daemon=True).start()

    def wait_echo(self, seconds):
        wait_until(lambda: self.echoed, seconds, "the echo is complete")
        check_equal(self.echoed, [True], "the echo is what was sent")


def check_nothing_lost(*agents):
    """Each message that was accepted has arrived."""
    for agent in agents:
        def settled():
            total = agent.view("ledger")["total"]
            check_equal((total["undelivered"], total["unknown"]), ({}, {}), "what did not arrive of " + agent.name)
            return total["queued"] == 0 and total["accepted"] == total["delivered"]
        wait_until(settled, 30, "%s has nothing queued" % agent.name)


def test_large_packets_vanish(lab):
    """Small messages pass; the connection that carries large ones is judged down in time, and why it does not come back
    is said. Then the path is good again: the stream goes on, and the messages that waited arrive."""
    world = Narrow(lab, SETTINGS + "  resume_ms: 60000\n")
    hub, edge = world.hub, world.edge
    world.path.set_mtu(NARROW)
    edge.check_ping(hub.name, 20)
    world.begin_echo(4 * MIB)
    begin = time.monotonic()
    for agent, other in ((edge, hub), (hub, edge)):
        wait_until(lambda: not agent.is_up(other.name), 5 * (DEADLINE_S + 1), "%s judges it down" % agent.name)
    took = time.monotonic() - begin
    check(any(agent.has_line("PEER-DOWN .*no answer to heartbeats") for agent in (hub, edge)), hub.lines, edge.lines)
    waiting = lab.spawn([lab.sennit, "ping", hub.name, "-c", edge.file, "--count", "5", "--interval", "1",
                         "--timeout", "60000"], stdout=subprocess.DEVNULL)
    wait_until(lambda: edge.view("ledger")["total"]["queued"] > 0, 10, "a message waits")
    edge.wait_line("DIAL-FAILED .*the handshake did not end in time.*large packets", 20)
    check(not edge.is_up(hub.name) and not world.echoed, "it did not stay down")
    for agent in (hub, edge):
        check_equal(agent.command("status").returncode, 0, "exit status of `sennit status`")
    world.path.set_mtu(1500)
    begin = time.monotonic()
    edge.wait_up(hub.name, 20)
    world.wait_echo(30)
    check_equal(waiting.wait(60), 0, "exit status of the pings that waited")
    check_nothing_lost(hub, edge)
    harness.note("down after %.2f s; all went on %.2f s after it was good again" % (took, time.monotonic() - begin))


def test_size_is_looked_for(lab):
    """Where the system looks for the size of packets that passes (net.ipv4.tcp_mtu_probing), streams go on while the
    path is narrow."""
    world = Narrow(lab, "settings: {resume_ms: 60000}\n")
    world.path.probe_mtu()
    world.path.set_mtu(PROBED)
    begin = time.monotonic()
    world.begin_echo(4 * MIB)
    world.wait_echo(60)
    world.edge.check_ping(world.hub.name)
    check_nothing_lost(world.hub, world.edge)
    harness.note("%.2f s, %d sessions" % (time.monotonic() - begin, world.edge.peer(world.hub.name)["sessions"]))


# --- No time ------------------------------------------------------------------------------------------------


def sink(conn):
    size = 0
    while True:
        data = conn.recv(262144)
        if not data:
            break
        size += len(data)
    conn.sendall(b"%d" % size)


def push(address, size):
    """How long it took until so many bytes were counted at the other end."""
    begin = time.monotonic()
    block = bytes(MIB)
    with harness.connect(address, 120) as sock:
        for _ in range(size // MIB):
            sock.sendall(block)
        sock.shutdown(socket.SHUT_WR)
        check_equal(int(sock.recv(64)), size, "bytes that arrived")
    return time.monotonic() - begin


def soak_report(agent):
    return json.loads(control.call(agent.path("run", "control.sock"), "ask", ":soak", "soak.report")["payload"])


def test_congestion_ends(lab):
    """Several transfers and a publisher at each end while every processor is taken: when that is over, all is as fast
    as before within seconds, and nothing was lost."""
    scale = 4 if lab.is_sanitized else 1
    size, rate = 32 * MIB // scale, 400 // scale
    count = LOAD_S * 5 // 2 * rate
    server = lab.server(sink)
    soak = "{peer: %s, messages: %d, size_min: 16384, size_max: 65536, seed: 1, run: 1, per_second: %d}"
    hub, edge = lab.pair(
        "targets:\n  it: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
        "forwards:\n  it: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: it}\n"
        "access:\n  - {to: \"paris/hub:soak\", types: [\"soak.data\"], from: [\"amsterdam/edge\"]}\n"
        "  - {to: \"amsterdam/edge:soak\", types: [\"soak.data\"], from: [\"paris/hub\"]}\n"
        "plugins:\n  - {name: soak, at: [\"amsterdam/edge\"], config: %s}\n"
        "  - {name: soak, at: [\"paris/hub\"], config: %s}\n"
        % (server.port, soak % ("paris/hub", count, rate), soak % ("amsterdam/edge", count, rate)))
    address = edge.bound("it")
    push(address, size)
    took_before, p99_before = push(address, size), edge.check_ping(hub.name, 100)["p99_us"]
    hogs = lab.busy(6)
    end = time.monotonic() + LOAD_S

    def flow():
        transfers = 0
        while time.monotonic() < end:
            push(address, size // 8)
            transfers += 1
        return transfers

    def ping():
        while time.monotonic() < end:
            edge.check_ping(hub.name, 20)

    flows = harness.run_threads([flow] * 4 + [ping], 120)
    at_end = soak_report(edge)
    for hog in hogs:
        hog.kill()
        hog.wait()
    begin = time.monotonic()
    wait_until(lambda: push(address, size) <= 3 * took_before + 0.5, AFTER_S, "transfers are as fast as before")
    wait_until(lambda: edge.check_ping(hub.name, 50)["p99_us"] <= 5 * p99_before + 50000, AFTER_S, "pings, too")
    took = time.monotonic() - begin
    for agent in (hub, edge):
        wait_until(lambda: soak_report(agent)["done"], 60, "the publisher has come to its end")
        check_equal(soak_report(agent),
                    {"sent": count, "outcomes": {"delivered": count, "undelivered": {}, "unknown": {}},
                     "received": count, "doubled": 0, "reordered": 0, "altered": 0, "done": True},
                    "messages of " + agent.name)
    check_nothing_lost(hub, edge)
    check_equal([agent.peer(other.name)["sessions"] for agent, other in ((hub, edge), (edge, hub))], [1, 1], "sessions")
    harness.note("%d transfers under load, %d of %d messages delivered at its end; as before after %.2f s "
                 "(%.2f s, p99 %.1f ms)" % (sum(flows[:4]), at_end["outcomes"]["delivered"], count, took, took_before,
                                            p99_before / 1000))


if __name__ == "__main__":
    harness.main([test_large_packets_vanish, test_size_is_looked_for, test_congestion_ends])
