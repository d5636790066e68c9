# SPDX-License-Identifier: Apache-2.0
"""`sennit why` names what was broken: each cause is made in a real mesh, and the answer is read, in words and as JSON."""
import json
import re
import select
import shutil
import signal
import socket
import struct
import threading
import time

import harness
import hostile
import test_strangers as strangers
from harness import check, check_equal, wait_until

SETTINGS = ("settings:\n  heartbeat: {interval_ms: 200, deadline_ms: %d}\n"
            "  reconnect: {min_ms: 50, max_ms: 300}\n  accept: {timeout_ms: %d}\n  drain_ms: 500\n")
PING_MS = "500"
REFUSE, DUPLICATE = 4, 25  # of frames, of errors


def why(agent, name, *more):
    """Exit status and document."""
    done = agent.command("why", name, "--json", "--timeout", PING_MS, *more)
    check(done.returncode in (0, 1, 2) and done.stderr == "", "why", name, "status", done.returncode, done.stderr)
    answer = json.loads(done.stdout)
    check_equal(sorted(answer), ["agent", "cause", "facts", "state", "text"], "keys")
    check_equal(answer["agent"], name, "who is meant")
    return done.returncode, answer


def expect(agent, name, cause, *words, state=None, facts=(), status=1):
    """Waits until that is the cause; then all the words must be in the line and those facts there. Returns the facts."""
    last = [None]

    def ask():
        last[0] = why(agent, name)
        return last[0][1]["cause"] == cause

    try:
        wait_until(ask, 30, "the cause is " + cause)
    except harness.Failure:
        raise harness.Failure("not %s, but %s" % (cause, last[0])) from None
    got, answer = last[0]
    harness.note("%-28s %s" % (cause, answer["text"]))
    check_equal(got, status, "exit status of %s" % cause)
    for word in words:
        check(word in answer["text"], "no", repr(word), "in", answer["text"])
    if state is not None:
        check_equal(answer["state"], state, "state")
    for key in facts:
        check(key in answer["facts"], "no fact", key, "in", answer["facts"])
    return answer["facts"]


def check_line(agent, name, cause, status=1):
    """For people: the line, then one fact a line."""
    done = agent.command("why", name, "--timeout", PING_MS)
    check_equal(done.returncode, status, "exit status")
    lines = done.stdout.rstrip("\n").split("\n")
    check(name.split(":")[0] in lines[0] and len(lines[0]) > 40, "the line:", lines[0])
    check(re.match("cause: +%s$" % cause, lines[1]), "the second line:", lines[1])
    check(all(re.match(r"[a-z_.]+: +\S", line) for line in lines[1:]), "the facts:", lines[1:])


def test_well_and_unknown(lab):
    """Up and well from both ends; nobody of that name, with a near one; itself; named but never seen; an agent that does
    not run; usage."""
    port = harness.free_port()
    lab.fleet("sites:\n"
              "  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
              "  amsterdam: {edge: {links: [paris/hub]}, desk: {links: [paris/hub]}}\n%s"
              "targets:\n  it: {at: amsterdam/desk, address: \"127.0.0.1:9\", allow: [\"*\"]}\n"
              "forwards:\n  far: {at: paris/hub, listen: \"127.0.0.1:0\", target: it}\n" %
              (port, SETTINGS % (2000, 5000)))
    hub, edge, desk = [lab.agent(name) for name in ("paris/hub", "amsterdam/edge", "amsterdam/desk")]
    hub.start()
    edge.start().wait_up(hub.name)
    hub.wait_up(edge.name)
    for agent, other in ((hub, edge), (edge, hub)):
        facts = expect(agent, other.name, "up", "up and well", "ping in", "session is", "clock is off by", state="up",
                       facts=("ping_us", "since_ms", "clock_offset_ms", "answered_ms", "id"), status=0)
        check(0 < facts["ping_us"] < 10000000 and abs(facts["clock_offset_ms"]) < 10000, facts)
    check_line(edge, hub.name, "up", 0)
    facts = expect(edge, "paris/hup", "no-such-agent", "knows no agent paris/hup", "did you mean paris/hub?",
                   state="unknown", status=2)
    check_equal(facts["similar"], hub.name, "similar")
    expect(edge, "oslo/other", "no-such-agent", "sennit peers", state="unknown", status=2)
    expect(edge, edge.name, "self", "this agent itself", state="self", status=2)
    # The hub has a forward to the desk, so it knows the name; the desk has to dial, and never has.
    expect(hub, desk.name, "never-seen", "has not happened", "sennit why paris/hub", state="unknown")
    # The edge names the desk in a rule, and nobody could dial the edge.
    edge.edit(lambda text: text + "pins:\n  \"amsterdam/desk\": \"%s\"\n" % hub.key())
    expect(edge, desk.name, "not-linked", "nobody dials", "`links`", state="unknown")
    check_line(edge, desk.name, "not-linked")
    check_equal(desk.command("why", hub.name).returncode, 3, "exit status without an agent")
    for words in ((), ("hub",), ("paris/hub:",), ("paris/hub", "more"), ("paris/hub", "--timeout", "0")):
        check_equal(edge.command("why", *words).returncode, 2, "exit status of %s" % (words,))
    said = lab.run("why", "--help")
    for cause in ("no-such-agent", "not-linked", "never-seen", "connection-refused", "refused-by-peer-X", "clock-offset",
                  "queue-full", "target-failed", "Exit status"):
        check(cause in said, "no", cause, "in the help")


# --- Nobody answers -----------------------------------------------------------------------------------------


def swallow(conn):
    while conn.recv(4096):
        pass


def talk_http(conn):
    conn.recv(4096)
    conn.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    conn.recv(4096)


def test_cannot_connect(lab):
    """Addresses where nobody listens, nobody answers, somebody else does, or hangs up; and one that has no meaning."""
    ports = {"closed": harness.free_port(), "silent": lab.server(swallow).port, "web": lab.server(talk_http).port,
             "door": lab.server(lambda conn: None).port}
    names = sorted(ports) + ["nowhere"]
    address = dict((name, "127.0.0.1:%d" % port) for name, port in ports.items())
    address["nowhere"] = "nowhere.invalid:7400"
    lab.fleet("sites:\n  oslo:\n%s  amsterdam: {edge: {links: [%s]}}\n%s" %
              ("".join("    %s: {listen: [\"tls://127.0.0.1:%d\"]}\n" % (name, ports.get(name, 7400)) for name in names),
               ", ".join("oslo/" + name for name in names), SETTINGS % (2000, 400)))
    edge = lab.agent("amsterdam/edge")
    edge.edit(lambda text: text.replace("127.0.0.1:7400", address["nowhere"]))
    edge.start()
    dialed = ("attempts", "dialed", "linked", "error")
    for name, cause, words in (("closed", "connection-refused", ("connection refused", "nothing listens")),
                               ("silent", "timed-out", ("no answer in time", "firewall")),
                               ("web", "not-sennit", ("no agent",)),
                               ("nowhere", "unresolved", ("cannot be resolved", "`address`"))):
        facts = expect(edge, "oslo/" + name, cause, address[name], "attempt", *words, state="connecting", facts=dialed)
        check_equal(facts["dialed"], address[name], "where it was dialed")
        check(facts["attempts"] >= 1 and facts["linked"] == "yes" and facts["sessions"] == 0, facts)
    expect(edge, "oslo/door", "hung-up", "before anybody says who they are", state="connecting", facts=dialed)
    # Attempts are counted, and the next one is announced.
    first = why(edge, "oslo/closed")[1]["facts"]["attempts"]
    wait_until(lambda: why(edge, "oslo/closed")[1]["facts"]["attempts"] > first, 20, "another attempt")
    wait_until(lambda: 0 <= why(edge, "oslo/closed")[1]["facts"].get("next_attempt_ms", -1) <= 300, 20, "the next attempt")
    check_line(edge, "oslo/closed", "connection-refused")
    # What failed while there was a link is no cause once there is none.
    edge.edit(lambda text: re.sub(r'(?m)^  - to: "oslo/closed"\n(    .*\n)+', "", text))
    reload(edge)
    expect(edge, "oslo/closed", "not-linked", "nobody dials", state="down")


# --- Refusals -------------------------------------------------------------------------------------------------


# What makes the stranger; why the hub, which is dialed, and the edge, which dials, refuse it; what it is told.
REFUSED = [
    (strangers.of_another_mesh, "mesh", "mesh other", "refused-by-peer"),
    (strangers.forged(-2 * strangers.HOUR, -strangers.HOUR), "expired", "the clock here says", "refused-by-peer-expired"),
    (strangers.forged(strangers.HOUR, 2 * strangers.HOUR), "not-yet-valid", "the clock here says", "refused-by-peer"),
    (strangers.altered, "bad-signature", "wrong", "refused-by-peer-bad-signature"),
    (strangers.of_another_authority, "untrusted", "no authority", "refused-by-peer-untrusted"),
]


def test_refused(lab):
    """Each wrong certificate: whoever is dialed by it, whoever dials it, and itself say the same; with its key."""
    world = strangers.World(lab).start()
    hub, edge, evil = world.hub, world.edge, world.evil
    world.make_evil_trusting()
    file, cert = open(evil.file).read(), open(evil.path("agent.cert")).read()
    for make, kind, words, told in REFUSED[:2] if lab.is_sanitized else REFUSED:
        make(world)
        evil.start()
        facts = expect(hub, evil.name, "refused-" + kind, words, world.evil_key[:20], state="refused")
        check_equal(facts["refused_id"], world.evil_key, "whose key it is")
        facts = expect(edge, evil.name, "refused-" + kind, words, world.evil_key[:20], str(world.evil_port),
                       state="connecting")
        check_equal((facts["presented_id"], facts["refused_by"]), (world.evil_key, "this agent"), "facts")
        expect(evil, hub.name, told, str(world.hub_port), "sennit why oslo/evil" if "expired" not in told else "ran out",
               state="connecting", facts=("error", "attempts"))
        evil.kill()
        with open(evil.path("agent.cert"), "w") as out:
            out.write(cert)
        with open(evil.file, "w") as out:
            out.write(file)
    evil.start()
    for agent in (hub, edge):
        expect(agent, evil.name, "up", state="up", status=0)


def test_other_key_name_and_twin(lab):
    """A pinned key that differs, another agent at the address, and a second machine with the same files."""
    world = strangers.World(lab)
    other = lab.run("keygen", lab.path("other.key")).strip()
    hub, edge, evil = world.hub, world.edge, world.evil
    edge.edit(lambda text: text.replace(world.evil_key, other))
    world.start()
    evil.start()
    facts = expect(edge, evil.name, "refused-key", "another key than the one that is pinned", world.evil_key[:20],
                   facts=("presented_id", "expected_id"))
    check_equal((facts["presented_id"], facts["expected_id"]), (world.evil_key, other), "keys")
    # The same machine's files twice. The twin is the one that is turned away.
    twin = harness.Agent(lab, evil.name, lab.path("twin"))
    lab.agents.append(twin)
    shutil.copytree(evil.folder, twin.folder, ignore=shutil.ignore_patterns("run", "data"))
    twin.edit(lambda text: re.sub(r"(?m)^listen:\n(  .*\n)+", "", text))
    hub.wait_up(evil.name)
    twin.start()
    expect(twin, hub.name, "refused-by-peer-duplicate", "another agent of that name", "stop one")
    facts = expect(hub, evil.name, "up", "another of that name was refused", status=0)
    check("duplicate" in facts["refused_reason"], facts)
    twin.stop()
    evil.stop()
    edge.stop()
    # Another agent answers where evil ought to.
    edge.edit(lambda text: text.replace("127.0.0.1:%d" % world.evil_port, "127.0.0.1:%d" % world.hub_port))
    edge.edit(lambda text: re.sub(r'(to: "oslo/evil"\s+)key: "\S+"\s+', r"\1", text))
    edge.start()
    facts = expect(edge, evil.name, "refused-name", "another agent answers", "paris/hub")
    check_equal((facts["presented_agent"], facts["presented_id"]), (hub.name, world.keys[hub.name]), "who answers")


# --- It was up --------------------------------------------------------------------------------------------------


def test_went_down(lab):
    """The dialing end stops in order, or is killed: its peer says since when and how. The dialed end goes: the other says
    that nobody listens any more, and until when somebody did."""
    hub, edge = lab.pair(settings=SETTINGS % (2000, 2000))
    edge.stop()
    facts = expect(hub, edge.name, "left", "stopped in good order", "has to dial this agent", state="down",
                   facts=("ended_ms", "answered_ms", "ended_error"))
    check(facts["ended_ms"] <= 60000 and facts["answered_ms"] >= facts["ended_ms"], facts)
    edge.start()
    hub.wait_up(edge.name)
    edge.kill()
    expect(hub, edge.name, "lost", "was connected until", "see that it runs", state="down", facts=("ended_ms",))
    edge.start().wait_up(hub.name)
    hub.kill()
    facts = expect(edge, hub.name, "connection-refused", "it was up until", state="connecting",
                   facts=("ended_ms", "attempts", "dialed"))
    check_equal(facts["sessions"], 1, "sessions")


# --- It is up, and yet --------------------------------------------------------------------------------------------


def flood(agent, to, limit):
    """Large questions whose askers go away, until one is refused because the queue is full. Returns how many wait."""
    def text(data):
        return b"\xd9" + bytes([len(data)]) + data

    payload = bytes(190 << 10)
    request = (b"\x85" + text(b"verb") + text(b"ask") + text(b"to") + text(to.encode()) + text(b"type") +
               text(b"ping.echo") + text(b"timeout_ms") + b"\xce" + struct.pack(">I", 600000) + text(b"payload") + b"\xc6" +
               struct.pack(">I", len(payload)) + payload)
    queued = 0
    while queued < limit:
        # As many at a time as may wait for another agent; their askers hang up when they are taken.
        socks = [ask(agent, request) for _ in range(4)]
        is_full = False
        end = time.monotonic() + 60
        while not is_full and agent.peer(to.split(":")[0])["queued"] < queued + 4:
            check(time.monotonic() < end, "questions are neither taken nor refused")
            is_full = any(map(has_answer, socks))
        for sock in socks:
            sock.close()
        if is_full:
            return queued
        queued += 4
    return queued


def ask(agent, request):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(agent.path("run", "control.sock"))
    sock.sendall(struct.pack(">I", len(request)) + request)
    return sock


def has_answer(sock):
    return bool(select.select([sock], [], [], 0)[0])


def test_hangs(lab):
    """A peer that is stopped: it does not answer; then the queue for it is full; then it goes on."""
    hub, edge = lab.pair(settings=SETTINGS % (120000, 5000))
    edge.signal(signal.SIGSTOP)
    expect(hub, edge.name, "no-answer", "did not answer a ping", "last heartbeat", "hangs", state="up",
           facts=("ping_failed", "answered_ms"))
    # An instrumented agent takes its time for 64 MiB: there some of them wait, and it is not full.
    count = flood(hub, edge.name + ":ping", 40 if lab.is_sanitized else 1000)
    cause, words = ("no-answer", "did not answer") if lab.is_sanitized else ("queue-full", "the queue for it is full")
    facts = expect(hub, edge.name, cause, words, "messages of", "the first for", state="up")
    check(facts["queued"] >= count and facts["queued_bytes"] >= count * (190 << 10) and "queued_ms" in facts, facts)
    check(lab.is_sanitized or facts["queued_bytes"] > 60 << 20, facts)
    check_line(hub, edge.name, cause)
    edge.signal(signal.SIGCONT)
    expect(hub, edge.name, "up", state="up", status=0)


def reload(agent):
    done = agent.command("reload")
    check_equal(done.returncode, 0, "exit status of the reload: " + done.stderr)


def try_forward(agent, name):
    """A client whose connection is ended, or reset, without a byte."""
    address = agent.bound(name)
    try:
        with harness.connect(address, 30) as sock:
            check_equal(sock.recv(1), b"", "what came")
    except ConnectionResetError:
        pass


def test_messages_and_targets(lab):
    """Messages that are denied or find no actor, a target that does not run, and one that does not allow this agent."""
    server = lab.server(swallow)
    dead = harness.free_port()
    hub, edge = lab.pair("targets:\n"
                         "  dead: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"], connect_wait_ms: 100}\n"
                         "  mine: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"amsterdam/*\"]}\n"
                         "forwards:\n"
                         "  dead: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: dead}\n"
                         "  mine: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: mine}\n" % (dead, server.port),
                         SETTINGS % (2000, 5000))
    target = hub.name + ":tunnel"
    expect(edge, target, "up", "no message to :tunnel was refused", status=0)
    edge.command("call", target, "tunnel.list")
    facts = expect(edge, target, "denied", "no access rule", "tunnel.list", ":tunnel", "`access`", state="up")
    check_equal((facts["undelivered_actor"], facts["undelivered_type"]), ("tunnel", "tunnel.list"), "the message")
    expect(edge, hub.name, "up", "not taken (denied)", status=0)
    expect(edge, hub.name + ":other", "up", status=0)
    # A rule lets it in: the next one is taken, and what was refused before is no cause any more.
    rules = "access:\n  - {to: tunnel, types: [\"*\"], from: [\"amsterdam/*\"]}\n" \
            "  - {to: none, types: [\"*\"], from: [\"amsterdam/*\"]}\n"
    hub.edit(lambda text: text + rules)
    reload(hub)
    edge.command("call", target, "tunnel.list")
    expect(edge, target, "up", status=0)
    edge.command("call", hub.name + ":none", "x.y")
    expect(edge, hub.name + ":none", "no-actor", "no such actor", state="up")
    # The target's service does not run.
    try_forward(edge, "dead")
    facts = expect(edge, hub.name, "target-failed", "forward dead", "no way to the address", state="up")
    check_equal((facts["forward"], facts["target"]), ("dead", "dead"), "forward")
    edge.edit(lambda text: re.sub(r"(?m)^        dead:\n(          .*\n)+", "", text))
    reload(edge)
    expect(edge, hub.name, "up", status=0)
    # The target does not allow it.
    hub.edit(lambda text: text.replace("            - \"amsterdam/*\"", "            - \"oslo/*\""))
    reload(hub)
    try_forward(edge, "mine")
    expect(edge, hub.name, "target-denied", "forward mine", "not allowed", "`allow`", state="up")


def test_strange_member(lab):
    """A member that dials and then refuses, and one whose clock is two hours ahead: it is up, and both times are told."""
    port = harness.free_port()
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n  oslo: {late: {links: [paris/hub]}}\n" % port)
    hub = lab.agent("paris/hub").start()
    member = hostile.Member(lab, "oslo/late", port)
    member.do("boot")
    member.dial("until=auth")
    member.do("frame type=%d hex=8300%02x010002a5%s" % (REFUSE, DUPLICATE, b"twins".hex()))
    facts = expect(hub, "oslo/late", "refused-by-peer-duplicate", "another agent of that name", "twins", state="down")
    check_equal(facts["refused_by"], "the peer", "who refuses")
    member.do("close")
    check_equal(member.dial("wall=%d" % (time.time() * 1000 + 7200000))["step"], "up", "the handshake")
    member.do("link")
    is_over = threading.Event()

    def serve():
        while not is_over.is_set():
            member.do("wait for=nothing ms=50", None)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    facts = expect(hub, "oslo/late", "clock-offset", "its clock is", "ahead", state="up",
                   facts=("clock_here", "clock_there"))
    check(7000000 < facts["clock_offset_ms"] < 7400000, facts)
    check(facts["clock_here"] < facts["clock_there"], facts)
    is_over.set()
    thread.join(20)
    member.close()


if __name__ == "__main__":
    harness.main([test_well_and_unknown, test_cannot_connect, test_refused, test_other_key_name_and_twin, test_went_down,
                  test_hangs, test_messages_and_targets, test_strange_member])
