# SPDX-License-Identifier: Apache-2.0
"""A changed agent file for an agent that runs (T38): what is untouched loses no byte, a bad file changes nothing."""
import hashlib
import os
import re
import signal
import socket
import threading

import harness
from harness import check, check_equal, wait_until

BLOCK = os.urandom(16384)


class Traffic:
    """A client that sends and gets back bytes without pause until it is told to stop."""

    def __init__(self, address):
        self.sock = harness.connect(address, 60)
        self.stop = threading.Event()
        self.sent, self.got = hashlib.sha256(), hashlib.sha256()
        self.bytes = 0
        self.error = None
        self.threads = [threading.Thread(target=self._guard, args=(work,), daemon=True)
                        for work in (self._send, self._receive)]
        for thread in self.threads:
            thread.start()

    def _guard(self, work):
        try:
            work()
        except Exception as error:
            self.error = error

    def _send(self):
        while not self.stop.is_set():
            self.sock.sendall(BLOCK)
            self.sent.update(BLOCK)
        self.sock.shutdown(socket.SHUT_WR)

    def _receive(self):
        while True:
            data = self.sock.recv(65536)
            if not data:
                return
            self.got.update(data)
            self.bytes += len(data)

    def wait_more(self, what):
        """Bytes go on moving from now on."""
        before = self.bytes
        wait_until(lambda: self.error or self.bytes > before + 32 * len(BLOCK), 20, what)
        check(self.error is None, what, self.error)

    def finish(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
        check(self.error is None, "untouched traffic", self.error)
        check_equal(self.got.hexdigest(), self.sent.hexdigest(), "what came back")
        self.sock.close()


def echo(conn):
    while True:
        data = conn.recv(65536)
        if not data:
            return
        conn.sendall(data)


def tag(letter):
    return lambda conn: (conn.sendall(letter), conn.recv(1))


def first_byte(address):
    """What a target says first; b"" when the client is refused."""
    try:
        with harness.connect(address, 20) as sock:
            return sock.recv(1)
    except ConnectionError:
        return b""


class World:
    """Two agents, a target that stays, and one whose configuration changes."""

    def __init__(self, lab):
        self.lab = lab
        self.port = harness.free_port()
        self.stay, self.a, self.b = lab.server(echo), lab.server(tag(b"a")), lab.server(tag(b"b"))
        self.hub_text, self.edge_text = None, None
        self.fleet({"stay": self.stay.port, "one": self.a.port})
        self.hub, self.edge = lab.agent("paris/hub").start(), lab.agent("amsterdam/edge").start()
        self.edge.wait_up(self.hub.name)
        self.traffic = Traffic(self.edge.bound("stay"))
        self.traffic.wait_more("bytes before")

    def fleet(self, targets, more="", links="[paris/hub]", allow="amsterdam/*"):
        text = ("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
                "  amsterdam: {edge: {links: %s}}\ntargets:\n" % (self.port, links))
        for name, port in targets.items():
            text += ("  %s: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"%s\"]}\n"
                     % (name, port, "amsterdam/*" if name == "stay" else allow))
        text += "forwards:\n"
        for name in targets:
            text += "  %s: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: %s}\n" % (name, name)
        self.lab.fleet(text + more)

    def reload(self, agent, status=0):
        done = agent.command("reload")
        check_equal(done.returncode, status, "exit status of reload: %s" % done.stderr)
        return done.stderr

    def both(self):
        self.reload(self.hub)
        self.reload(self.edge)
        self.traffic.wait_more("bytes after a reload")


def test_forwards_and_targets(lab):
    world = World(lab)
    hub, edge = world.hub, world.edge
    check_equal(first_byte(edge.bound("one")), b"a", "before")
    stay_at = edge.bound("stay")
    # Another address behind the target, and one forward more.
    world.fleet({"stay": world.stay.port, "one": world.b.port, "two": world.a.port})
    world.both()
    check_equal(first_byte(edge.bound("one")), b"b", "the target's new address")
    check_equal(first_byte(edge.bound("two")), b"a", "the new forward")
    check_equal(edge.bound("stay"), stay_at, "the untouched forward listens as before")
    # One is gone again.
    at_two = edge.bound("two")
    world.fleet({"stay": world.stay.port, "one": world.b.port})
    world.both()
    check_equal([entry["name"] for entry in edge.view("forwards")["forwards"]], ["stay", "one"], "forwards")
    check_equal(first_byte(at_two) if is_open(at_two) else b"", b"", "the removed forward")
    # Reloading the same again changes nothing.
    world.both()
    world.traffic.finish()


def is_open(address):
    try:
        harness.connect(address, 5).close()
        return True
    except ConnectionError:
        return False


def test_removed_target_is_cut(lab):
    """Who lost the right to a target is cut off at once; the others go on."""
    world = World(lab)
    with harness.connect(world.edge.bound("one"), 20) as sock:
        check_equal(sock.recv(1), b"a", "before")
        world.fleet({"stay": world.stay.port})
        world.reload(world.hub)
        try:
            check_equal(sock.recv(1), b"", "what came instead of an end")
        except ConnectionResetError:
            pass
    world.traffic.wait_more("bytes after a target was removed")
    world.traffic.finish()


def test_bad_files(lab):
    world = World(lab)
    edge = world.edge
    good = open(edge.file).read()
    before = edge.view("forwards")
    for name, change, pattern in [
            ("broken", lambda text: text + "  x: [\n", "agent.yaml:"),
            ("unknown key", lambda text: text + "forward: {}\n", "forward"),
            ("empty", lambda text: "", "agent.yaml"),
            ("needs a restart", lambda text: text + "drain_ms: 4000\n", "restart")]:
        with open(edge.file, "w") as file:
            file.write(change(good))
        told = world.reload(edge, 2)
        check(pattern in told, name, "is told:", told)
        edge.signal(signal.SIGHUP)
        edge.wait_line("RELOAD-REFUSED", 10)
        world.traffic.wait_more("bytes after " + name)
    with open(edge.file, "w") as file:
        file.write(good)
    after = edge.view("forwards")
    check_equal([entry["bound"] for entry in after["forwards"]], [entry["bound"] for entry in before["forwards"]],
                "where forwards listen")
    world.traffic.finish()


def test_sighup(lab):
    world = World(lab)
    world.fleet({"stay": world.stay.port, "one": world.b.port})
    for agent in (world.hub, world.edge):
        agent.signal(signal.SIGHUP)
        agent.wait_line("RELOADED", 10)
    check_equal(first_byte(world.edge.bound("one")), b"b", "after SIGHUP")
    world.traffic.wait_more("bytes after SIGHUP")
    world.traffic.finish()


def test_access(lab):
    """Rules for messages change at once, in both directions."""
    world = World(lab)
    hub, edge = world.hub, world.edge
    rule = "access:\n  - {to: \"paris/hub:tunnel\", types: [\"tunnel.*\"], from: [\"amsterdam/*\"]}\n"

    def denied():
        return hub.metric("net.messages_denied")

    def ask():
        edge.command("call", "paris/hub:tunnel", "tunnel.list", "--timeout", "500")

    ask()
    check_equal(denied(), 1, "denied before")
    world.fleet({"stay": world.stay.port, "one": world.a.port}, rule)
    world.reload(hub)
    ask()
    check_equal(denied(), 1, "allowed by the new rule")
    world.fleet({"stay": world.stay.port, "one": world.a.port})
    world.reload(hub)
    ask()
    check_equal(denied(), 2, "denied again")
    world.traffic.finish()


def test_links(lab):
    """Another way to a peer: the session and its streams move there; a link that is gone ends its session."""
    world = World(lab)
    hub, edge = world.hub, world.edge
    proxy = lab.fault_proxy("127.0.0.1:%d" % world.port)
    way = "[{to: paris/hub, address: \"%s:%d\"}]" % proxy.address
    targets = {"stay": world.stay.port, "one": world.a.port}
    world.fleet(targets, links=way)
    world.reload(edge)
    proxy.wait("connections 2")
    world.traffic.wait_more("bytes over the new way")
    wait_until(lambda: proxy.stats()["bytes_down"] > 1 << 20, 20, "the bytes pass the proxy")
    check(edge.metric("net.streams_resumed") > 0, "the stream was resumed")
    # To an address where nobody is, and back before anybody was there: the session stays where it is.
    world.fleet(targets, links="[{to: paris/hub, address: \"127.0.0.1:%d\"}]" % harness.free_port())
    world.reload(edge)
    edge.wait_line("DIAL-FAILED", 10)
    world.fleet(targets, links=way)
    world.reload(edge)
    failures = edge.metric("net.dial_failures")
    sessions = edge.peer("paris/hub")["sessions"]
    world.traffic.wait_more("bytes over the former way")
    edge.check_ping("paris/hub", 100)
    check_equal((edge.metric("net.dial_failures"), edge.peer("paris/hub")["sessions"], len(proxy.connections())),
                (failures, sessions, 2), "failed dials, sessions, connections: nobody dials any more")
    # Gone: the peers part, and nobody dials any more.
    edge.edit(lambda text: re.sub(r"(?m)^links:\n(?:[ -].*\n)+", "", text))
    world.reload(edge)
    wait_until(lambda: edge.peer("paris/hub") is None or edge.peer("paris/hub")["state"] == "down", 10,
               "the link is gone")
    wait_until(lambda: world.traffic.error is not None or not any(t.is_alive() for t in world.traffic.threads), 10,
               "its stream has ended")
    # And back.
    world.fleet(targets)
    world.reload(edge)
    edge.wait_up("paris/hub")
    edge.check_ping("paris/hub")
    check_equal(first_byte(edge.bound("one")), b"a", "a forward works again")
    # Gone while the peer is away: what waits for it is given up at once, not after resume_ms.
    with harness.connect(edge.bound("one"), 20) as sock:
        check_equal(sock.recv(1), b"a", "the tag")
        hub.signal(signal.SIGSTOP)
        wait_until(lambda: "orphaned" in [s["state"] for s in edge.view("streams")], 30, "the stream waits")
        edge.edit(lambda text: re.sub(r"(?m)^links:\n(?:[ -].*\n)+", "", text))
        world.reload(edge)
        wait_until(lambda: edge.view("streams") == [], 3, "nothing waits any more")
        hub.signal(signal.SIGCONT)


if __name__ == "__main__":
    harness.main([test_forwards_and_targets, test_removed_target_is_cut, test_bad_files, test_sighup, test_access,
                  test_links])
