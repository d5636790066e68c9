# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: the agent ends in the time that it was given, whatever its peers and clients do (T26)."""
import os
import signal
import subprocess
import threading
import time

import harness
from harness import check, check_equal, wait_until

DRAIN_S = 0.5
GRACE_S = 2.0
ROUNDS = int(os.environ.get("ROUNDS", "20"))
TIMES = max(1, ROUNDS // 20)  # of the cases that are short here
BLOCK = bytes(range(256)) * 1024


class Load:
    """Messages and bytes in both directions, for as long as they go through."""

    def __init__(self, lab, edge, peer, forward):
        self.ping = lab.spawn([lab.sennit, "ping", peer, "-c", edge.file, "--count", "100000", "--interval", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.moved = 0
        self.sock = harness.connect(forward)
        for run in (self._send, self._receive):
            threading.Thread(target=run, daemon=True).start()

    def _send(self):
        try:
            while True:
                self.sock.sendall(BLOCK)
        except OSError:
            pass

    def _receive(self):
        try:
            while True:
                data = self.sock.recv(262144)
                if not data:
                    return
                self.moved += len(data)
        except OSError:
            pass

    def wait_moving(self):
        begin = self.moved
        wait_until(lambda: self.moved > begin + len(BLOCK), 15, "bytes move")

    def stop(self):
        self.sock.close()
        self.ping.kill()
        self.ping.wait()


def echo(conn):
    while True:
        data = conn.recv(262144)
        if not data:
            return
        conn.sendall(data)


def world(lab, drain_s=DRAIN_S):
    server = lab.server(echo)
    port, forward = harness.free_port(), harness.free_port()
    lab.fleet("sites:\n"
              "  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
              "  amsterdam: {edge: {links: [paris/hub]}}\n"
              "targets:\n"
              "  echo: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
              "forwards:\n"
              "  echo: {at: amsterdam/edge, listen: \"127.0.0.1:%d\", target: echo}\n"
              "settings: {drain_ms: %d, reconnect: {min_ms: 20, max_ms: 100}}\n"
              % (port, server.port, forward, int(drain_s * 1000)))
    hub, edge = lab.agent("paris/hub").start(), lab.agent("amsterdam/edge").start()
    edge.wait_up(hub.name)
    hub.wait_up(edge.name)
    return hub, edge, ("127.0.0.1", forward)


def grace(lab):
    """The leak check of such builds takes its time after the drain."""
    return GRACE_S + (3.0 if lab.is_sanitized else 0.0)


def test_idle(lab):
    """With nothing to wait for it does not wait."""
    hub, edge, _ = world(lab, 5.0)
    for index in range(2 * TIMES):
        agent = (edge, hub)[index % 2]
        took = agent.stop()
        check(took < grace(lab), agent.name, "took", took, "s")
        agent.wait_line("DRAINING", 1)
        check_equal(agent.run_files(), [], "files in run/")
        agent.start()
        edge.wait_up(hub.name)


def test_under_load(lab):
    """Both ends in turn, in the middle of messages and bytes."""
    hub, edge, forward = world(lab)
    times = []
    for index in range(ROUNDS):
        load = Load(lab, edge, hub.name, forward)
        load.wait_moving()
        agent, other = (hub, edge) if index % 2 == 0 else (edge, hub)
        times.append(agent.stop())
        check(times[-1] < DRAIN_S + grace(lab), agent.name, "took", times[-1], "s in round", index)
        check_equal(agent.run_files(), [], "files in run/")
        load.stop()
        check(other.is_running(), other.name, "ended, too")
        agent.start()
        edge.wait_up(hub.name)
        hub.wait_up(edge.name)
    harness.note("%d times under load: longest %.2f s, drain_ms %d" % (ROUNDS, max(times), DRAIN_S * 1000))


def test_stopped_peer(lab):
    """A peer that does not answer, and does not take what is sent to it."""
    hub, edge, forward = world(lab)
    times = []
    for index in range(4 * TIMES):
        load = Load(lab, edge, hub.name, forward)
        load.wait_moving()
        agent, stopped = (hub, edge) if index % 2 == 0 else (edge, hub)
        stopped.signal(signal.SIGSTOP)
        times.append(agent.stop())
        stopped.signal(signal.SIGCONT)
        check(times[-1] < DRAIN_S + grace(lab), agent.name, "took", times[-1], "s")
        load.stop()
        agent.start()
        edge.wait_up(hub.name)
        hub.wait_up(edge.name)
    harness.note("with a stopped peer: longest %.2f s, drain_ms %d" % (max(times), DRAIN_S * 1000))


def test_twice(lab):
    """The second SIGTERM does not wait for what the first one waits for."""
    hub, edge, forward = world(lab, 20.0)
    for agent, other in ((hub, edge), (edge, hub)) * TIMES + ((hub, None),):
        load = Load(lab, edge, hub.name, forward)
        load.wait_moving()
        if other is None:
            edge.signal(signal.SIGSTOP)
        begin = time.monotonic()
        agent.signal(signal.SIGTERM)
        agent.wait_line("DRAINING", 5)
        check(agent.is_running(), "it did not wait for what was open, so nothing was tested")
        agent.signal(signal.SIGTERM)
        check_equal(agent.wait(), 0, "exit status")
        took = time.monotonic() - begin
        check(took < grace(lab), agent.name, "took", took, "s")
        load.stop()
        if other is None:
            edge.signal(signal.SIGCONT)
            return
        agent.start()
        edge.wait_up(hub.name)
        hub.wait_up(edge.name)


def test_signals_until_the_end(lab):
    """Requests that come while the agent is ending, up to its last moment, do no harm."""
    port = harness.free_port()
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n" % port)
    hub = lab.agent("paris/hub")
    for index in range(ROUNDS):
        hub.start()
        over = threading.Event()

        def storm(number):
            while not over.is_set():
                try:
                    hub.signal(number)
                except ProcessLookupError:
                    return
                over.wait(0.0005)

        hub.signal(signal.SIGTERM)
        thread = threading.Thread(target=storm, daemon=True,
                                  args=(signal.SIGHUP if index % 2 == 0 else signal.SIGTERM,))
        thread.start()
        status = hub.wait(30)
        over.set()
        thread.join(10)
        check_equal(status, 0, "exit status in round %d" % index)
        check_equal(hub.run_files(), [], "files in run/")


def test_finishes_what_is_open(lab):
    """A transfer that ends within drain_ms is not cut, although the agent was told to end meanwhile."""
    def answer(conn):
        received = 0
        while received < 8 << 20:
            received += len(conn.recv(262144))
        conn.sendall(b"complete")

    server = lab.server(answer)
    hub, edge = lab.pair("targets:\n"
                         "  sink: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
                         "forwards:\n"
                         "  sink: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: sink}\n" % server.port)
    with harness.connect(edge.bound("sink"), 30) as sock:
        sock.sendall(bytes(4 << 20))
        hub.signal(signal.SIGTERM)
        hub.wait_line("DRAINING", 5)
        sock.sendall(bytes(4 << 20))
        check_equal(sock.recv(100), b"complete", "the answer while the hub drains")
    check_equal(hub.wait(10), 0, "exit status")
    check(not hub.has_line("DRAIN-CUT"), "it was cut")


def test_while_reconnecting(lab):
    """The other side is away: dialing, or waiting for the next dial."""
    hub, edge, _ = world(lab)
    for _ in range(2 * TIMES):
        hub.kill()
        wait_until(lambda: not edge.is_up(hub.name), 10, "the edge has seen it")
        took = edge.stop()
        check(took < DRAIN_S + grace(lab), "it took", took, "s")
        edge.start()
        hub.start()
        edge.wait_up(hub.name)


if __name__ == "__main__":
    harness.main([test_idle, test_under_load, test_stopped_peer, test_twice, test_signals_until_the_end,
                  test_finishes_what_is_open, test_while_reconnecting])
