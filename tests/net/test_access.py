# SPDX-License-Identifier: Apache-2.0
"""Being a member gives no rights: every kind of rule opens what it names and nothing beside it, for messages and for
targets; whoever is refused is told at once, and each refusal is counted, but not each is logged."""
import re
import time

import control
import harness
from harness import check, check_equal, wait_until
from test_plugins import digest, trial

# Types of the actor `talk`, and who may send them: one kind of rule each.
MESSAGES = {
    "talk.json": (["amsterdam/edge"], {"amsterdam/edge"}),
    "talk.text": (["amsterdam/*"], {"amsterdam/edge", "amsterdam/desk"}),
    "talk.letter": (["role:viewer"], {"amsterdam/desk"}),
    "talk.empty": (["*"], {"amsterdam/edge", "amsterdam/desk", "oslo/guest", "oslo/boss"}),
    "talk.binary": (None, set()),
}
BOSS = "oslo/boss"  # may send talk.*, whatever it is
MEMBERS = ["amsterdam/edge", "amsterdam/desk", "oslo/guest", BOSS]

# The same for targets.
TARGETS = {
    "by-agent": (["oslo/guest"], {"oslo/guest"}),
    "by-site": (["amsterdam/*"], {"amsterdam/edge", "amsterdam/desk"}),
    "by-role": (["role:viewer"], {"amsterdam/desk"}),
    "by-all": (["*"], set(MEMBERS)),
    "by-two": (["role:nobody", "role:guest"], {BOSS}),  # who has the role, not who has the name
    "by-none": (["tokyo/*", "role:oslo", "role:edge", "paris/guest"], set()),
}

VERBS = ["status", "peers", "streams", "actors", "plugins", "ledger", "metrics", "forwards", "ask", "reload"]

LOG_BURST = 5  # of one kind of line; then one a second, and one a second of the very same


def quoted(words):
    return ", ".join("\"%s\"" % word for word in words)


def sites(port):
    return ("sites:\n"
            "  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
            "  amsterdam: {edge: {links: [paris/hub]}, desk: {links: [paris/hub], roles: [viewer]}}\n"
            "  oslo: {guest: {links: [paris/hub]}, boss: {links: [paris/hub], roles: [guest]}}\n" % port)


def start(lab, hub):
    agents = [hub] + [lab.agent(name) for name in MEMBERS]
    for agent in agents:
        agent.spawn()
    for agent in agents:
        agent.wait_ready()
    for agent in agents[1:]:
        agent.wait_up(hub.name, 30)
    return dict(zip(MEMBERS, agents[1:]))


def ask(agent, to, kind):
    """None for an answer, else why there is none. The question may wait for far longer than a test does."""
    begin = time.monotonic()
    try:
        control.call(agent.path("run", "control.sock"), "ask", to, kind, timeout=120)
        return None
    except control.ControlError as error:
        check(time.monotonic() - begin < 60, agent.name, "waited for", to, kind)
        return str(error)


def log_lines(agent, word):
    with agent.changed:
        return [line for line in agent.lines if word in line]


def suppressed(lines):
    return sum(int(found) for line in lines for found in re.findall(r"suppressed=(\d+)", line))


def test_messages(lab):
    """Each kind of rule, for each member; and the control actor's verbs, which no rule opens."""
    talk = trial(lab, "talk")
    rules = "".join("  - {to: \"paris/hub:talk\", types: [%s], from: [%s]}\n" % (kind, quoted(allowed))
                    for kind, (allowed, _) in MESSAGES.items() if allowed)
    rules += "  - {to: \"paris/hub:talk\", types: [\"talk.*\"], from: [%s]}\n" % BOSS
    lab.fleet(sites(harness.free_port()) +
              "plugins:\n  - {name: talk, at: paris/hub, path: \"%s\", sha256: \"%s\"}\n" % (talk, digest(lab, talk)) +
              "access:\n" + rules)
    hub = lab.agent("paris/hub")
    members = start(lab, hub)
    begin, denied = time.monotonic(), 0
    for name, agent in members.items():
        mine = 0
        for kind, (_, allowed) in MESSAGES.items():
            may = name in allowed or name == BOSS
            check_equal(ask(agent, "paris/hub:talk", kind), None if may else "denied", "%s sends %s" % (name, kind))
            mine += not may
        for verb in VERBS:
            check_equal(ask(agent, "paris/hub:control", verb), "denied", "%s asks the control actor for %s" % (name, verb))
        mine += len(VERBS)
        check_equal(ask(agent, "paris/hub:nobody", "talk.empty"), "denied", "%s asks nobody" % name)
        mine += 1
        check_equal(ask(agent, "paris/hub:ping", "whatever"), None, "%s pings" % name)
        entry = next(entry for entry in agent.view("ledger")["peers"] if entry["agent"] == hub.name)
        check_equal(entry["undelivered"].get("denied", 0), mine, "what the ledger of %s says" % name)
        denied += mine
        check_equal(hub.metric("net.messages_denied"), denied, "refused at the hub")
    # The hub is no more than a member to the others.
    check_equal(ask(hub, "amsterdam/edge:talk", "talk.empty"), "denied", "the hub at the edge")
    # To itself the control actor answers, too, and not with silence.
    check_equal(control.call(hub.path("run", "control.sock"), "ask", ":control", "status")["type"], "control.refused",
                "an agent asks its own control actor")
    # One who goes on and on.
    guest = members["oslo/guest"]
    cause = "from=oslo/guest to=talk type=talk.json"
    before, since = len(log_lines(hub, cause)), time.monotonic()
    for _ in range(200):
        check_equal(ask(guest, "paris/hub:talk", "talk.json"), "denied", "again")
    denied += 200
    check_equal(hub.metric("net.messages_denied"), denied, "refused at the hub")
    took = time.monotonic() - begin
    more = len(log_lines(hub, cause)) - before
    check(more <= 1 + time.monotonic() - since, more, "more lines about one cause in", time.monotonic() - since, "s")
    lines = log_lines(hub, "MESSAGE-DENIED")
    check(1 <= len(lines) <= 3 * (LOG_BURST + 1) + took, len(lines), "lines in", took, "s")
    check(suppressed(lines) <= denied - len(lines), "more lines were held back than there were")
    check(any("from=amsterdam/edge to=talk type=talk.letter" in line for line in lines), "which one? ", lines)


def test_targets(lab):
    """Each kind of rule of a target, for each member; whoever may not use it is reset at once."""
    server = lab.server(lambda conn: conn.sendall(b"k"))
    text = sites(harness.free_port()) + "targets:\n"
    for name in TARGETS:
        text += "  %s: {at: paris/hub, address: \"127.0.0.1:%d\", allow: \"*\"}\n" % (name, server.port)
    text += "forwards:\n"
    for member in MEMBERS:
        for name in TARGETS:
            text += "  %s-%s: {at: %s, listen: \"127.0.0.1:0\", target: %s}\n" % (
                member.split("/")[1], name, member, name)
    lab.fleet(text)
    hub = lab.agent("paris/hub")
    # A fleet that says so would not even be rendered: the far side knows better.
    for name, (allowed, _) in TARGETS.items():
        hub.edit(lambda old: re.sub(r"(%s:\n.*\n +allow:\n +)- \"\*\"" % name,
                                    lambda found: found.group(1) + "- \"*\" #\n", old, count=1))
        hub.edit(lambda old: old.replace("- \"*\" #\n", "- %s\n" % ("\n            - ".join(
            "\"%s\"" % word for word in allowed)), 1))
    members = start(lab, hub)
    denied, served = {name: 0 for name in TARGETS}, 0
    for member, agent in members.items():
        for name, (_, allowed) in TARGETS.items():
            where = agent.bound("%s-%s" % (member.split("/")[1], name))
            begin = time.monotonic()
            try:
                with harness.connect(where, 60) as sock:
                    got = sock.recv(1)
            except ConnectionResetError:  # perhaps before we knew that we were connected
                got = b""
            check(time.monotonic() - begin < 10, member, name, "took", time.monotonic() - begin)
            check_equal(got, b"k" if member in allowed else b"", "%s through %s" % (member, name))
            denied[name] += member not in allowed
            served += member in allowed
    check_equal({name: hub.target(name)["denied"] for name in TARGETS}, denied, "refused at each target")
    check_equal(hub.metric("tunnel.denied"), sum(denied.values()), "refused in all")
    check_equal(server.accepted, served, "connections that reached the service")
    check(1 <= len(log_lines(hub, "TUNNEL-DENIED")) <= sum(denied.values()), "log")


def test_list(lab):
    """What lies behind an agent's targets is told to nobody else, whatever the rules say; and that is said at once."""
    hub, edge = lab.pair("targets:\n  web: {at: paris/hub, address: \"127.0.0.1:1\", allow: [\"*\"]}\n"
                         "access:\n  - {to: \"paris/hub:tunnel\", types: [\"*\"], from: [\"*\"]}\n")
    path = edge.path("run", "control.sock")
    for count in (1, 2):
        answer = control.call(path, "ask", "paris/hub:tunnel", "tunnel.list", timeout=120)
        check_equal((answer["type"], answer["payload"]), ("tunnel.refused", b""), "the answer")
        check_equal(hub.metric("tunnel.denied"), count, "counted")
    hub.wait_line("TUNNEL-LIST-DENIED agent=paris/hub .*agent=amsterdam/edge", 10)
    check_equal([entry["name"] for entry in hub.view("forwards")["targets"]], ["web"], "the hub's own view")


def test_useless_rules(lab):
    """A rule that could not open anything is a mistake: found before it is relied on."""
    rule = "access:\n  - {to: \"paris/hub:control\", types: [\"*\"], from: [\"*\"]}\n"
    folder = lab.fleet(sites(1) + rule, render=False)
    done = lab.command("check", folder + "/fleet.yaml")
    check_equal(done.returncode, 2, "exit status of check")
    check(re.search(r"fleet\.yaml:\d+:\d+: access\[0\]\.to: `control` serves the operator", done.stderr), done.stderr)
    lab.fleet(sites(harness.free_port()))
    hub = lab.agent("paris/hub")
    hub.edit(lambda text: text + rule.replace("paris/hub:", ""))
    hub.spawn()
    check_equal(hub.wait(), 2, "exit status")
    hub.wait_line(r"agent\.yaml:\d+:\d+: access\[0\]\.to: `control` serves the operator", 5)


if __name__ == "__main__":
    harness.main([test_messages, test_targets, test_list, test_useless_rules])
