# SPDX-License-Identifier: Apache-2.0
"""What comes and goes many times leaves nothing behind: connections, requests, reconnects, restarts, and memory of
messages for a peer that takes none. CONNECTIONS, RECONNECTS, RESTARTS and FILL in the environment make longer ones."""
import os
import time

import harness
from harness import check, check_equal, wait_until

CONNECTIONS = int(os.environ.get("CONNECTIONS", "1000"))
RECONNECTS = int(os.environ.get("RECONNECTS", "30"))
RESTARTS = int(os.environ.get("RESTARTS", "15"))
FILL = int(os.environ.get("FILL", "5000"))
SETTINGS = "settings:\n  reconnect: {min_ms: 20, max_ms: 200}\n"
GROWTH_KIB = 4096
QUEUE_KIB = 81920  # SN_DELIVERY_QUEUE_BYTES, and 16 MiB for the window, the link and its buffers


def echo_once(conn):
    conn.sendall(conn.recv(64))


def figures(agent):
    status = agent.view("status")
    return {"descriptors": harness.descriptors(agent.pid), "threads": harness.threads(agent.pid),
            "streams": status["streams_open"]}


def check_back(lab, agent, before, rss_before, what):
    """The figures of before, or fewer threads; and no more memory than what holes may take."""
    def is_back():
        now = figures(agent)
        return (now["descriptors"] <= before["descriptors"] and now["threads"] <= before["threads"] and
                now["streams"] == before["streams"])
    try:
        wait_until(is_back, 30, "%s is as before %s" % (agent.name, what))
    except harness.Failure:
        raise harness.Failure("%s after %s: %s, before: %s" % (agent.name, what, figures(agent), before))
    if not lab.is_sanitized:
        wait_until(lambda: harness.rss_kib(agent.pid) <= rss_before + GROWTH_KIB, 30,
                   "%s has not grown by %d KiB through %s" % (agent.name, GROWTH_KIB, what))


def use(at, count):
    for _ in range(count):
        with harness.connect(at, 30) as sock:
            sock.sendall(b"once")
            check_equal(sock.recv(64), b"once", "the echo")


def test_connections_and_requests(lab):
    """Thousands of short connections through a forward, and of requests: nothing is left of them at either end."""
    server = lab.server(echo_once)
    hub, edge = lab.pair("targets:\n  it: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
                         "forwards:\n  it: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: it}\n" % server.port)
    at = edge.bound("it")
    use(at, 200)
    edge.ping(hub.name, 200)
    for agent in (hub, edge):
        harness.settled_figures(agent.pid)
    before = {agent.name: (figures(agent), harness.rss_kib(agent.pid)) for agent in (hub, edge)}
    harness.run_threads([lambda: use(at, CONNECTIONS // 4)] * 4, 300)
    done, result = edge.ping(hub.name, CONNECTIONS, "--timeout", "20000")
    check_equal((done.returncode, result["received"]), (0, CONNECTIONS), "pings")
    for agent in (hub, edge):
        check_back(lab, agent, *before[agent.name], "%d connections" % CONNECTIONS)
    harness.note("%d connections and %d requests" % (CONNECTIONS, CONNECTIONS))


def test_reconnects(lab):
    """The connection between two agents is reset again and again."""
    port = harness.free_port()
    proxy = lab.fault_proxy("127.0.0.1:%d" % port)
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
              "  amsterdam: {edge: {links: [{to: paris/hub, address: \"%s:%d\"}]}}\n%s"
              % (port, *proxy.address, SETTINGS))
    hub, edge = lab.agent("paris/hub").start(), lab.agent("amsterdam/edge").start()

    def once():
        edge.wait_up(hub.name)
        sessions = edge.peer(hub.name)["sessions"]
        proxy.command("reset")
        wait_until(lambda: edge.peer(hub.name)["sessions"] > sessions, 20, "another session")

    for _ in range(5):
        once()
    edge.wait_up(hub.name)
    for agent in (hub, edge):
        harness.settled_figures(agent.pid)
    before = {agent.name: (figures(agent), harness.rss_kib(agent.pid)) for agent in (hub, edge)}
    for _ in range(RECONNECTS):
        once()
    edge.wait_up(hub.name)
    edge.check_ping(hub.name)
    for agent in (hub, edge):
        check_back(lab, agent, *before[agent.name], "%d reconnects" % RECONNECTS)


def test_fast_restarts(lab):
    """The same two agents are stopped and started again without a pause: the port is always there, the other side
    takes the new boot at once, and its usage stays what it was."""
    hub, edge = lab.pair("", SETTINGS)
    for agent in (hub, edge):
        agent.check_ping((edge if agent is hub else hub).name)
    edge.kill()
    edge.start().wait_up(hub.name)
    harness.settled_figures(hub.pid)
    before, rss = figures(hub), harness.rss_kib(hub.pid)
    for index in range(RESTARTS):
        if index % 2 == 0:
            edge.kill()
        else:
            edge.stop()
        edge.start().wait_up(hub.name)
        edge.check_ping(hub.name, 1)
    hub.wait_up(edge.name)
    check_back(lab, hub, before, rss, "%d restarts of its peer" % RESTARTS)
    for index in range(RESTARTS):
        if index % 2 == 0:
            hub.kill()
        else:
            hub.stop()
        hub.start()
    edge.wait_up(hub.name)
    edge.check_ping(hub.name)


def test_port_in_use(lab):
    """Somebody else has the port: the agent says so, ends, and starts when the port is free."""
    server = lab.server(echo_once)
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n" % server.port)
    hub = lab.agent("paris/hub").spawn()
    check_equal(hub.wait(20), 1, "exit status")
    hub.wait_line("listen tls://127.0.0.1:%d: the port is taken by python3?[^ ]* \\(pid %d\\)"
                  % (server.port, os.getpid()), 5)
    check_equal(hub.run_files(), [], "files in run/")
    server.close()
    hub.start()


def test_black_holed_peer(lab):
    """One of two peers takes nothing any more while thousands of messages for it go on: memory stays, the other peer is
    served, and when the network is good again every message arrives, once and in order."""
    port = harness.free_port()
    proxy = lab.fault_proxy("127.0.0.1:%d" % port)
    plugin = "{peer: %s, messages: %d, size_min: 16384, size_max: 65536, seed: 1, run: 1}"
    lab.fleet("sites:\n  paris:\n    hub: {listen: [\"tls://127.0.0.1:%d\"]}\n    other: {listen: [\"tls://127.0.0.1:%d\"]}\n"
              "  amsterdam: {edge: {links: [paris/other, {to: paris/hub, address: \"%s:%d\"}]}}\n%s"
              "access:\n  - {to: \"paris/hub:soak\", types: [\"soak.data\"], from: [\"amsterdam/edge\"]}\n"
              "  - {to: \"amsterdam/edge:soak\", types: [\"soak.data\"], from: [\"paris/hub\"]}\n"
              "plugins:\n  - {name: soak, at: [\"amsterdam/edge\"], config: %s}\n"
              "  - {name: soak, at: [\"paris/hub\"], config: %s}\n"
              % (port, harness.free_port(), *proxy.address, SETTINGS, plugin % ("paris/hub", FILL),
                 plugin % ("amsterdam/edge", 1)))
    hub, other = lab.agent("paris/hub").start(), lab.agent("paris/other").start()
    edge = lab.agent("amsterdam/edge").start()
    edge.wait_up(other.name)
    before = harness.rss_kib(other.pid)  # the same program, and nothing to do
    wait_until(lambda: edge.view("ledger")["total"]["delivered"] > FILL // 50, 30, "messages move")
    proxy.command("blackhole")
    edge.check_ping(other.name, 20)
    queued = wait_until(lambda: queue_at_rest(edge), 30, "the queue is full")
    edge.check_ping(other.name, 20)
    grown = harness.rss_kib(edge.pid) - before
    if not lab.is_sanitized:
        check(grown < QUEUE_KIB, "the edge has", grown, "KiB more than an idle agent")
    wait_until(lambda: not edge.is_up(hub.name), 60, "it is judged down")
    proxy.command("pass")
    edge.wait_up(hub.name, 20)
    total = wait_until(lambda: all_ended(edge, FILL), 120, "all messages came to an end")
    check_equal((total["undelivered"], total["unknown"]), ({}, {}), "what was not delivered")
    edge.check_ping(hub.name)
    harness.note("%d messages, %d queued at rest; + %d KiB" % (FILL, queued, grown))


def queue_at_rest(agent):
    """How many messages wait, when that does not change any more; nothing else tells that the sender was held."""
    ledger = agent.view("ledger")["total"]
    time.sleep(0.3)
    again = agent.view("ledger")["total"]
    return ledger["queued"] if ledger["queued"] > 20 and ledger["accepted"] == again["accepted"] else None


def all_ended(agent, count):
    total = agent.view("ledger")["total"]
    ended = total["delivered"] + sum(total["undelivered"].values()) + sum(total["unknown"].values())
    check_equal(total["accepted"], ended + total["queued"], "the ledger")
    return total if total["queued"] == 0 and ended >= count else None


if __name__ == "__main__":
    harness.main([test_connections_and_requests, test_reconnects, test_fast_restarts, test_port_in_use,
                  test_black_holed_peer])
