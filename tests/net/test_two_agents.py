# SPDX-License-Identifier: Apache-2.0
"""Two agents at two sites: they meet, answer, tell about themselves, and end and start again cleanly."""
import os
import signal

import harness
from harness import check, check_equal, wait_until

VIEWS = {
    "status": ("agent", "mesh", "id", "version", "pid", "epoch", "uptime_ms", "listen", "peers_up",
               "streams_open", "descriptors", "threads"),
    "actors": ("name", "state", "mailbox", "handled", "restarts"),
    "metrics": ("name", "kind", "value"),
    "peers": ("agent", "id", "state", "since_ms", "rtt_us", "reason"),
}


def check_balanced(agent):
    """The sums of the ledger, which always balance."""
    ledger = agent.view("ledger")
    for entry in ledger["peers"] + [ledger["total"]]:
        rest = entry["delivered"] + entry["queued"]
        rest += sum(entry["undelivered"].values()) + sum(entry["unknown"].values())
        check_equal(entry["accepted"], rest, "%s: accepted = the rest of %s" % (agent.name, entry))
    return ledger


def check_swept(agent):
    left = agent.run_files()
    check_equal(left, [], "%s left in run/" % agent.name)


def test_meet(lab):
    """Both are up, under the keys that were made for them, and reach each other."""
    hub, edge = lab.pair()
    keys = {hub.name: hub.key(), edge.name: edge.key()}
    check(keys[hub.name] != keys[edge.name], "two agents share a key")
    check('key: "%s"' % keys[hub.name] in open(edge.file).read(), "the link names another key")
    for agent, other in ((hub, edge), (edge, hub)):
        entry = agent.peer(other.name)
        check_equal(entry["id"], keys[other.name], "id in peers")
        wait_until(lambda: agent.peer(other.name)["rtt_us"] > 0, 5, "a round trip was measured")
        result = agent.check_ping(other.name, 5)
        check(0 < result["min_us"] <= result["p50_us"] <= result["p99_us"] <= result["max_us"], result)
        ledger = check_balanced(agent)
        check(ledger["total"]["delivered"] >= 5, "pings are not in the ledger", ledger)
        check_equal(agent.refused(), [], "nobody was refused")


def test_keygen_key(lab):
    """An agent whose key was made by `keygen` goes by that key."""
    port = harness.free_port()
    node = lab.path("node.key")
    public = lab.run("keygen", node).strip()
    check_equal(os.stat(node).st_mode & 0o777, 0o600, "mode of the key")
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"], key: \"%s\"}}\n"
              "  amsterdam: {edge: {links: [paris/hub]}}\n" % (port, public))
    hub, edge = lab.agent("paris/hub"), lab.agent("amsterdam/edge")
    check(not os.path.exists(hub.path("node.key")), "a key was made although the fleet names one")
    os.rename(node, hub.path("node.key"))
    hub.start()
    edge.start().wait_up(hub.name)
    check_equal((hub.key(), edge.peer(hub.name)["id"]), (public, public), "the key")


def test_ping_unknown(lab):
    hub, edge = lab.pair()
    for agent in (hub, edge):
        done, _ = agent.ping("tokyo/nobody")
        check_equal(done.returncode, 1, "ping of an agent that does not exist")
        said = done.stderr + done.stdout
        check("tokyo/nobody" in said or "no such agent" in said, "unclear:", said)
    # One that is known but away: no answer, in bounded time, and accounted for.
    hub.stop()
    done, result = edge.ping(hub.name, 1, "--timeout", "300")
    check_equal((done.returncode, result["received"]), (1, 0), "ping of an agent that is away")
    check_balanced(edge)


def test_views(lab):
    hub, edge = lab.pair()
    edge.check_ping(hub.name)
    for agent in (hub, edge):
        for verb, keys in VIEWS.items():
            document = agent.view(verb)
            entries = [document] if isinstance(document, dict) else document
            check(entries, verb, "is empty")
            for entry in entries:
                missing = [key for key in keys if key not in entry]
                check(not missing, verb, "lacks", missing, "in", entry)
        check_equal(agent.view("streams"), [], "streams")
        status = agent.view("status")
        check_equal((status["pid"], status["peers_up"]), (agent.pid, 1), "status")
        check_equal(status["descriptors"] > 5 and status["threads"] > 2, True, "process figures")
        ledger = check_balanced(agent)
        check("undelivered" in ledger["total"] and "unknown" in ledger["total"], ledger)
        for verb in list(VIEWS) + ["ledger", "streams"]:
            done = agent.command(verb)
            check(done.returncode == 0, verb, "for people:", done.stderr)


def test_forwards_view(lab):
    hub, edge = lab.pair("targets:\n"
                         "  web: {at: paris/hub, address: \"127.0.0.1:9\", allow: [\"amsterdam/*\"]}\n"
                         "forwards:\n"
                         "  web: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: web}\n")
    host, port = edge.bound("web")
    check(host == "127.0.0.1" and port > 0, host, port)
    check_equal(edge.forward("web")["to"], hub.name, "forward")
    check_equal(hub.target("web")["address"], "127.0.0.1:9", "target")


def test_not_running(lab):
    hub, edge = lab.pair()
    hub.stop()
    for words in (["status"], ["peers"], ["ledger"], ["ping", edge.name]):
        done = hub.command(*words, "--json")
        check_equal(done.returncode, 3, "exit status of %s without an agent" % words)
        check(done.stderr.strip(), words, "says nothing")
        check_equal(done.stdout, "", "standard output")


def test_stop_and_restart(lab):
    """SIGTERM ends with 0 and leaves nothing; what was killed comes back at once, too."""
    hub, edge = lab.pair()
    epoch = hub.view("status")["epoch"]
    for agent, other in ((hub, edge), (edge, hub)):
        took = agent.stop()
        check(took < 5, "SIGTERM took", took, "s")
        check_swept(agent)
        wait_until(lambda: not other.is_up(agent.name), 5, "%s sees %s go" % (other.name, agent.name))
        agent.start()
        hub.wait_up(edge.name)
        edge.check_ping(hub.name)
    for agent in (hub, edge):
        agent.kill()
        check("control.sock" in agent.run_files(), "kill -9 cannot tidy up")
        agent.start()
        hub.wait_up(edge.name)
        edge.wait_up(hub.name)
        edge.check_ping(hub.name)
        hub.check_ping(edge.name)
    check(hub.view("status")["epoch"] > epoch, "the epoch did not grow")
    for agent in (hub, edge):
        agent.stop()
        check_swept(agent)


def test_fast_restarts(lab):
    """The port is there again each time."""
    hub, _ = lab.pair()
    for _ in range(10):
        hub.signal(signal.SIGTERM)
        check_equal(hub.wait(), 0, "exit status")
        hub.start()


def test_port_zero(lab):
    lab.fleet("sites:\n"
              "  paris: {hub: {listen: [\"tls://127.0.0.1:0\"]}}\n"
              "  amsterdam: {edge: {links: [{to: paris/hub, address: \"127.0.0.1:1\"}]}}\n")
    hub, edge = lab.agent("paris/hub").start(), lab.agent("amsterdam/edge")
    bound = hub.view("status")["listen"]
    check_equal(len(bound), 1, "listen in status")
    port = harness.address_of(bound[0])[1]
    check(port != 0, "the port is not told:", bound)
    edge.edit(lambda text: text.replace("127.0.0.1:1\"", "127.0.0.1:%d\"" % port))
    edge.start().wait_up(hub.name)
    edge.check_ping(hub.name)


def test_long_path(lab):
    """A run folder whose name does not fit into the address of a UNIX socket."""
    folder = os.path.join("d" * 90, "e" * 90)
    lab.fleet("sites:\n"
              "  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
              "  amsterdam: {edge: {links: [paris/hub]}}\n" % harness.free_port(), folder=folder)
    hub, edge = lab.agent("paris/hub", folder), lab.agent("amsterdam/edge", folder)
    check(len(hub.path("run")) > 150, "not long enough")
    hub.start()
    edge.start().wait_up(hub.name)
    hub.wait_up(edge.name)
    edge.check_ping(hub.name)
    hub.check_ping(edge.name)
    for agent in (edge, hub):
        agent.kill()
        agent.start()
    edge.wait_up(hub.name)
    edge.check_ping(hub.name)
    for agent in (edge, hub):
        agent.stop()
        check_swept(agent)


def test_duplicate(lab):
    """A copied folder: the one that was there stays, the newcomer is told (T21)."""
    hub, edge = lab.pair()
    sessions = hub.peer(edge.name)["sessions"]
    clone_folder = lab.path("clone")
    os.makedirs(clone_folder)
    for name in ("agent.yaml", "agent.cert", "node.key"):
        with open(edge.path(name), "rb") as file:
            data = file.read()
        with open(os.path.join(clone_folder, name), "wb") as file:
            file.write(data)
    os.chmod(os.path.join(clone_folder, "node.key"), 0o600)
    clone = harness.Agent(lab, edge.name, clone_folder)
    lab.agents.append(clone)
    clone.start()
    entry = wait_until(lambda: hub.refused(agent=edge.name), 10, "the hub shows who was refused")[0]
    check("duplicate" in entry["reason"], entry)
    wait_until(lambda: "duplicate" in clone.peer(hub.name)["reason"], 10, "the clone learns why")
    check(not clone.is_up(hub.name), "the clone is up")
    check(hub.is_up(edge.name), "the first one was pushed out")
    check_equal(hub.peer(edge.name)["sessions"], sessions, "sessions of the first one")
    edge.check_ping(hub.name)


if __name__ == "__main__":
    harness.main([test_meet, test_keygen_key, test_ping_unknown, test_views, test_forwards_view,
                  test_not_running, test_stop_and_restart, test_fast_restarts,
                  test_port_zero, test_long_path, test_duplicate])
