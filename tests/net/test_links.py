# SPDX-License-Identifier: Apache-2.0
"""Links that cross, die, lie and flap: one session for each pair, what is said of it is true, and what was accepted
meanwhile is accounted. ROUNDS, MESH, RESETS, FLAP_S and SATURATE_MIB in the environment make longer ones of the short
cases here."""
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time

import harness
from harness import check, check_equal, wait_until

ROUNDS = int(os.environ.get("ROUNDS", "4"))
MESH = int(os.environ.get("MESH", "5"))
RESETS = int(os.environ.get("RESETS", "8"))
FLAP_S = float(os.environ.get("FLAP_S", "6"))
SATURATE_MIB = int(os.environ.get("SATURATE_MIB", "1536"))
DEADLINE_S = 1.0
SETTINGS = ("settings:\n  heartbeat: {interval_ms: 200, deadline_ms: %d}\n"
            "  reconnect: {min_ms: 50, max_ms: 500}\n" % (DEADLINE_S * 1000))
LOG_LINES_PER_CHANGE = 6  # of a session that comes or goes


def echo(conn):
    while True:
        data = conn.recv(65536)
        if not data:
            return
        conn.sendall(data)


def behind_proxy(lab, more="", forward_to=None):
    """A hub, and an edge whose way to it leads through a proxy."""
    port = harness.free_port()
    proxy = lab.fault_proxy("127.0.0.1:%d" % port)
    text = ("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
            "  amsterdam: {edge: {links: [{to: paris/hub, address: \"%s:%d\"}]}}\n%s%s"
            % (port, *proxy.address, SETTINGS, more))
    if forward_to is not None:
        text += ("targets:\n  it: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
                 "forwards:\n  it: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: it}\n" % forward_to)
    lab.fleet(text)
    hub, edge = lab.agent("paris/hub").start(), lab.agent("amsterdam/edge").start()
    edge.wait_up(hub.name)
    hub.wait_up(edge.name)
    return hub, edge, proxy


def check_ledger(*agents):
    """Everything accepted came to an end that is accounted, at once or soon."""
    for agent in agents:
        def settled():
            total = agent.view("ledger")["total"]
            ended = total["delivered"] + sum(total["undelivered"].values()) + sum(total["unknown"].values())
            check_equal(total["accepted"], ended + total["queued"], "ledger of %s" % agent.name)
            return total["queued"] == 0
        wait_until(settled, 30, "%s has nothing queued" % agent.name)


# --- Who dials whom -------------------------------------------------------------------------------------------


def test_crossing_dials(lab):
    """Two agents that dial each other at the same instant, over ways that are long enough for both to be on their way:
    one session each time, and quiet afterwards."""
    ports = [harness.free_port(), harness.free_port()]
    ways = [lab.fault_proxy("127.0.0.1:%d" % port) for port in ports]
    for way in ways:
        way.command("delay 60")
    lab.fleet("sites:\n  a:\n"
              "    one: {listen: [\"tls://127.0.0.1:%d\"], links: [{to: a/two, address: \"%s:%d\"}]}\n"
              "    two: {listen: [\"tls://127.0.0.1:%d\"], links: [{to: a/one, address: \"%s:%d\"}]}\n"
              % (ports[0], *ways[1].address, ports[1], *ways[0].address))
    one, two = lab.agent("a/one"), lab.agent("a/two")
    for index in range(ROUNDS):
        for agent in (one, two) if index % 2 == 0 else (two, one):
            agent.spawn()
        for agent, other in ((one, two), (two, one)):
            agent.wait_ready().wait_up(other.name)
        for agent, other in ((one, two), (two, one)):
            agent.check_ping(other.name, 3)
            entries = [entry for entry in agent.view("peers") if entry["state"] == "up"]
            check_equal([entry["agent"] for entry in entries], [other.name], "peers of %s in round %d" % (agent.name, index))
            check(entries[0]["sessions"] <= 2, "sessions in round", index, entries)  # the other one may have been faster
            check_equal(agent.refused(), [], "refused")
            check(len(agent.lines) <= 2 * LOG_LINES_PER_CHANGE, agent.lines)
        for agent in (one, two):
            agent.stop()


def test_full_mesh(lab):
    """Agents that all list each other: one session a pair, few lines of log."""
    names = ["a%02d" % index for index in range(MESH)]
    text = "sites:\n  all:\n"
    for name in names:
        links = ", ".join("all/" + other for other in names if other != name)
        text += "    %s: {listen: [\"tls://127.0.0.1:%d\"], links: [%s]}\n" % (name, harness.free_port(), links)
    lab.fleet(text + "settings: {accept: {per_address: 64}}\n")  # here all come from one
    agents = [lab.agent("all/" + name) for name in names]
    for agent in agents:
        agent.spawn()
    for agent in agents:
        agent.wait_ready()
    for agent in agents:
        wait_until(lambda: agent.view("status")["peers_up"] == MESH - 1, 30, "%s sees all others" % agent.name)
    for agent in agents:
        for entry in agent.view("peers"):
            check(entry["state"] == "up" and entry["sessions"] <= 2, agent.name, entry)
        check(len(agent.lines) <= LOG_LINES_PER_CHANGE * MESH, len(agent.lines), "lines of", agent.name)
    agents[0].check_ping(agents[-1].name)


# --- Links that die ---------------------------------------------------------------------------------------------


def test_half_open(lab):
    """Both sockets stay open and nothing comes through, in the middle of a stream with full buffers."""
    stalled = threading.Event()

    def sink(conn):
        stalled.wait(60)
        while conn.recv(262144):
            pass

    server = lab.server(sink)
    hub, edge, proxy = behind_proxy(lab, forward_to=server.port)
    with harness.connect(edge.bound("it"), 30) as sock:
        sock.settimeout(0.3)
        try:
            while True:
                sock.send(bytes(65536))
        except socket.timeout:
            pass  # every buffer on the way is full
        begin = time.monotonic()
        proxy.command("blackhole")
        for agent, other in ((edge, hub), (hub, edge)):
            wait_until(lambda: not agent.is_up(other.name), 5 * (DEADLINE_S + 1), "%s judges it down" % agent.name)
        harness.note("judged down after %.2f s" % (time.monotonic() - begin))
        waiting = lab.spawn([lab.sennit, "ping", hub.name, "-c", edge.file, "--count", "5", "--interval", "1",
                             "--timeout", "30000", "--json"], stdout=subprocess.PIPE, text=True)
        wait_until(lambda: edge.view("ledger")["total"]["queued"] > 0, 10, "a message waits")
        proxy.command("pass")
        stalled.set()
        edge.wait_up(hub.name)
        out, _ = waiting.communicate(timeout=60)
        check_equal(json.loads(out)["received"], 5, "pings that were sent while it was down")
    check_ledger(hub, edge)


def test_resets_under_traffic(lab):
    """Reset again and again while messages and bytes move: afterwards both ends say the same, and every way works."""
    server = lab.server(echo)
    hub, edge, proxy = behind_proxy(lab, forward_to=server.port)
    at = edge.bound("it")
    pings = lab.spawn([lab.sennit, "ping", hub.name, "-c", edge.file, "--count", "100000", "--interval", "1"],
                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with harness.connect(at, 60) as sock:
        for index in range(RESETS):
            block = os.urandom(1 << 20)
            receiver = threading.Thread(target=lambda: got.append(harness.read_all(sock, len(block))), daemon=True)
            got = []
            receiver.start()
            sock.sendall(block[:1 << 19])
            sessions = edge.peer(hub.name)["sessions"]
            proxy.command("reset")
            sock.sendall(block[1 << 19:])
            receiver.join(60)
            check(got and got[0][1] == harness.sha256(block), "the echo after reset", index)
            wait_until(lambda: edge.peer(hub.name)["sessions"] > sessions, 10, "another session")
        for agent, other in ((hub, edge), (edge, hub)):
            agent.wait_up(other.name)
            check_equal(agent.view("status")["streams_open"], 1, "streams of %s" % agent.name)
    pings.kill()
    pings.wait()
    for agent, other in ((hub, edge), (edge, hub)):
        wait_until(lambda: agent.view("status")["streams_open"] == 0, 20, "%s has no stream left" % agent.name)
        agent.check_ping(other.name)
    for _ in range(3):
        with harness.connect(at) as sock:
            sock.sendall(b"again")
            check_equal(sock.recv(5), b"again", "the echo of a new connection")
    check_ledger(hub, edge)


def test_flapping(lab):
    """Up and down at random: at the end the status is true within a deadline, and a reload does not wait for it."""
    hub, edge, proxy = behind_proxy(lab)
    rng = random.Random(7)
    end = time.monotonic() + FLAP_S
    changes = 0
    while time.monotonic() < end:
        proxy.command(rng.choice(("reset", "blackhole", "swallow", "refuse", "close")))
        time.sleep(rng.uniform(0.2, 1.5))  # how long each state lasts is the case
        begin = time.monotonic()
        done = edge.command("reload")
        check_equal(done.returncode, 0, "exit status of reload", )
        check(time.monotonic() - begin < 10, "the reload took", time.monotonic() - begin)
        proxy.command("pass")
        time.sleep(rng.uniform(0.0, 0.7))
        changes += 1
    for agent, other in ((edge, hub), (hub, edge)):
        agent.wait_up(other.name)
        agent.check_ping(other.name)
        check_equal(len([entry for entry in agent.view("peers") if entry["state"] == "up"]), 1, "sessions up")
        check(len(agent.lines) <= 10 + 2 * LOG_LINES_PER_CHANGE * changes, len(agent.lines), "lines for", changes)
    check_ledger(hub, edge)
    harness.note("%d times down, %d sessions" % (changes, edge.peer(hub.name)["sessions"]))


def test_removed_while_waiting(lab):
    """A link that leaves the file while its agent waits to dial again is not dialed any more."""
    hub, edge, proxy = behind_proxy(lab)
    proxy.command("refuse")
    proxy.command("reset")
    wait_until(lambda: not edge.is_up(hub.name), 10, "it is down")
    edge.edit(lambda text: without_links(text))
    done = edge.command("reload")
    check_equal(done.returncode, 0, "exit status of reload " + done.stderr)
    proxy.command("pass")
    before = proxy.connections()
    failures = edge.metric("net.dial_failures")
    time.sleep(1.5)  # three times the longest delay between dials
    check_equal((proxy.connections(), edge.metric("net.dial_failures")), (before, failures), "dials after that")
    check(not edge.is_up(hub.name), "it is up again")
    hub.stop()


def without_links(text):
    """The rendered file without its key `links`."""
    lines, dropped = [], False
    for line in text.splitlines(True):
        if line.startswith("links:"):
            dropped = True
        elif dropped and (line.startswith((" ", "-"))):
            continue
        else:
            dropped = False
            lines.append(line)
    return "".join(lines)


# --- Neighbours that are slow ---------------------------------------------------------------------------------


def three_edges(lab, server):
    text = ("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n  lot:\n" % harness.free_port())
    names = ["one", "two", "three"]
    text += "".join("    %s: {links: [paris/hub]}\n" % name for name in names)
    text += SETTINGS + "  resume_ms: 2000\ntargets:\n"
    text += "".join("  %s: {at: lot/%s, address: \"127.0.0.1:%d\", allow: [\"paris/*\"]}\n" % (name, name, server.port)
                    for name in names)
    text += "forwards:\n"
    text += "".join("  %s: {at: paris/hub, listen: \"127.0.0.1:0\", target: %s}\n" % (name, name) for name in names)
    lab.fleet(text)
    hub = lab.agent("paris/hub").start()
    edges = [lab.agent("lot/" + name).start() for name in names]
    for edge in edges:
        edge.wait_up(hub.name)
    return hub, edges


def push(at, size, results, index):
    """Sends `size` bytes to a service that discards them; notes how long it took until the end was answered."""
    begin = time.monotonic()
    with harness.connect(at, 120) as sock:
        block = bytes(1 << 20)
        for _ in range(size >> 20):
            sock.sendall(block)
        sock.shutdown(socket.SHUT_WR)
        if sock.recv(4) == b"done":
            results[index] = time.monotonic() - begin


def sink(conn):
    while conn.recv(262144):
        pass
    conn.sendall(b"done")


def test_stopped_receiver(lab):
    """One of three receivers is stopped: the other two get all of theirs, and the hub's memory stays small."""
    size = (16 if lab.is_sanitized else 64) << 20
    hub, edges = three_edges(lab, lab.server(sink))
    ports = [hub.bound(name) for name in ("one", "two", "three")]
    results = {}
    harness.run_threads([lambda index=index: push(ports[index], size, results, index) for index in (1, 2)], 120)
    alone = max(results.values())
    before = harness.rss_kib(hub.pid)
    edges[0].signal(signal.SIGSTOP)
    stuck = threading.Thread(target=push, args=(ports[0], size, {}, 0), daemon=True)
    stuck.start()
    results.clear()
    harness.run_threads([lambda index=index: push(ports[index], size, results, index) for index in (1, 2)], 120)
    check_equal(sorted(results), [1, 2], "receivers that got everything")
    grown = harness.rss_kib(hub.pid) - before
    if not lab.is_sanitized:
        check(grown < 32 << 10, "the hub has grown by", grown, "KiB")
    wait_until(lambda: not hub.is_up(edges[0].name), 5 * (DEADLINE_S + 1), "the stopped one is judged down")
    check(all(hub.is_up(edge.name) for edge in edges[1:]), "the others are up")
    edges[0].signal(signal.SIGCONT)
    hub.wait_up(edges[0].name, 20)
    stuck.join(60)
    harness.note("two receivers: %.2f s with a third one at work for none, %.2f s beside a stopped one; hub + %d KiB"
                 % (alone, max(results.values()), grown))


def test_saturated_link(lab):
    """Pings while a transfer fills the link: all are answered, nobody is judged down."""
    size = (32 if lab.is_sanitized else SATURATE_MIB) << 20
    server = lab.server(sink)
    hub, edge = lab.pair("targets:\n  it: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
                         "forwards:\n  it: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: it}\n" % server.port,
                         SETTINGS)
    results, pings = {}, []

    def ping():
        while not results:
            pings.append(edge.ping(hub.name, 50, "--timeout", "20000")[1])

    at = edge.bound("it")
    harness.run_threads([lambda: push(at, size, results, 0), ping], 240)
    check(0 in results, "the transfer ended")
    check_equal(sum(result["received"] for result in pings), sum(result["sent"] for result in pings), "pings answered")
    check_equal([agent.peer(other.name)["sessions"] for agent, other in ((hub, edge), (edge, hub))], [1, 1], "sessions")
    harness.note("%d pings; worst p99 %.1f ms" % (sum(result["sent"] for result in pings),
                                                  max(result["p99_us"] for result in pings) / 1000))


if __name__ == "__main__":
    harness.main([test_crossing_dials, test_full_mesh, test_half_open, test_resets_under_traffic, test_flapping,
                  test_removed_while_waiting, test_stopped_receiver, test_saturated_link])
