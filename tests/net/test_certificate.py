# SPDX-License-Identifier: Apache-2.0
"""Certificates that are renewed while the agent runs, that run out, and that a reload refuses."""
import os
import shutil
import socket
import threading

import harness
from harness import check, check_equal, wait_until

HOUR = 3600
SETTINGS = ("settings:\n  heartbeat: {interval_ms: 200, deadline_ms: 1000}\n"
            "  reconnect: {min_ms: 50, max_ms: 200}\n")


class World:
    """A hub, and an edge whose certificate the test makes."""

    def __init__(self, lab):
        self.lab = lab
        self.server = lab.server(echo)
        port = harness.free_port()
        lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
                  "  amsterdam: {edge: {links: [paris/hub]}}\n%s"
                  "targets:\n  echo: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
                  "forwards:\n  echo: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: echo}\n"
                  % (port, SETTINGS, self.server.port))
        self.hub, self.edge = lab.agent("paris/hub"), lab.agent("amsterdam/edge")
        self.key = self.edge.start().key()
        self.edge.stop()

    def certify(self, valid_s, agent="amsterdam/edge", not_before_s=0):
        """Another certificate for the edge's key, which ends in so many seconds."""
        self.lab.forge(self.lab.path("fleet", "authority.key"), "demo", agent, self.key, not_before_s, valid_s,
                       self.edge.path("agent.cert"))

    def start(self):
        self.hub.start()
        self.edge.start().wait_up(self.hub.name)
        return self.hub, self.edge

    def reload(self, status=0):
        done = self.edge.command("reload")
        check_equal(done.returncode, status, "exit status of the reload: " + done.stderr)
        return done.stderr

    def valid_s(self):
        return self.edge.view("status")["certificate_valid_s"]


def echo(conn):
    while True:
        data = conn.recv(65536)
        if not data:
            return
        conn.sendall(data)


def exchange(sock, data=b"x" * 100000):
    def send():
        sock.sendall(data)
    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    got = b""
    while len(got) < len(data):
        piece = sock.recv(65536)
        check(piece, "the connection ended")
        got += piece
    thread.join(20)
    check(got == data, "other bytes came back")


def test_renewed(lab):
    """A new certificate and a reload, while a stream is open: the session stays until the old one has run out, and then the
    stream goes on with the new one."""
    world = World(lab)
    world.certify(20 if lab.is_sanitized else 8)
    hub, edge = world.start()
    sessions = edge.peer(hub.name)["sessions"]
    with harness.connect(edge.bound("echo"), 60) as sock:
        exchange(sock)
        edge.wait_line("CERTIFICATE-EXPIRES .*left_s=", 60)
        world.certify(HOUR)
        world.reload()
        check(world.valid_s() > HOUR - 60, "the new certificate is not shown:", world.valid_s())
        exchange(sock)
        check_equal(edge.peer(hub.name)["sessions"], sessions, "sessions: the old one stays")
        wait_until(lambda: edge.peer(hub.name)["sessions"] > sessions, 60, "the old certificate runs out")
        edge.wait_up(hub.name)
        exchange(sock)
        sock.shutdown(socket.SHUT_WR)
        check_equal(sock.recv(1), b"", "an orderly end")
    check("CERTIFICATE-EXPIRED" not in "".join(edge.lines), "it says that the new one has expired")
    hub.wait_line("PEER-DOWN .*expired", 5)


def test_ran_out(lab):
    """Not renewed: both ends say why the link is gone; a reload with a new certificate brings it back without a restart."""
    world = World(lab)
    world.certify(8 if lab.is_sanitized else 4)
    hub, edge = world.start()
    edge.wait_line("CERTIFICATE-EXPIRES ", 30)
    edge.wait_line("CERTIFICATE-EXPIRED ", 30)
    wait_until(lambda: not edge.is_up(hub.name), 20, "the link is gone")
    wait_until(lambda: "expired" in (edge.peer(hub.name)["reason"] or ""), 20, "the edge knows why")
    hub.wait_line("expired", 20)
    check(world.valid_s() < 0, "it is shown as valid for", world.valid_s())
    world.certify(HOUR)
    world.reload()
    edge.wait_up(hub.name)
    edge.check_ping(hub.name)


def test_refused(lab):
    """What peers would not take, or what is not this agent's, changes nothing."""
    world = World(lab)
    world.certify(HOUR)
    hub, edge = world.start()
    good, valid_s = open(edge.path("agent.cert")).read(), world.valid_s()

    def refused(part):
        said = world.reload(2)
        check(part in said, "it says", said)
        check("nothing has changed" in said, said)
        check(abs(world.valid_s() - valid_s) < 60, "another certificate is shown", world.valid_s())

    world.certify(-10, not_before_s=-HOUR)
    refused("expired")
    world.certify(HOUR, agent="oslo/evil")
    refused("it names another agent, oslo/evil")
    with open(edge.path("agent.cert"), "w") as file:
        file.write("garbage\n")
    refused("not an agent certificate")
    os.remove(edge.path("agent.cert"))
    refused("there is no such file")
    shutil.copy(edge.path("node.key"), edge.path("former.key"))
    os.remove(edge.path("node.key"))
    shutil.copy(hub.path("node.key"), edge.path("node.key"))
    with open(edge.path("agent.cert"), "w") as file:
        file.write(good)
    refused("key")
    os.replace(edge.path("former.key"), edge.path("node.key"))
    world.reload()
    edge.check_ping(hub.name)


if __name__ == "__main__":
    harness.main([test_renewed, test_ran_out, test_refused])
