# SPDX-License-Identifier: Apache-2.0
"""What is wrong is said, with its place and a way to mend it: in a file before anything starts, and in a running mesh by
the commands that ask about it. And every command lets itself be stopped."""
import json
import os
import random
import re
import signal
import socket
import subprocess
import time

import harness
from harness import check, check_equal, wait_until

SITES = ("sites:\n"
         "  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
         "  amsterdam: {edge: {links: [paris/hub]}}\n")

# What is wrong, the fleet behind its first two lines, and what the finding says.
FLEETS = [
    ("unknown key", SITES + "setings: {drain_ms: 100}\n", r":6:1: .*did you mean .*settings"),
    ("unknown nested key", SITES + "settings:\n  drain_mss: 100\n", r":7:3: .*did you mean .*drain_ms"),
    ("wrong type", SITES + "settings: {drain_ms: soon}\n", r":6:\d+: .*drain_ms"),
    ("out of range", SITES + "settings: {memory_mib: -1}\n", r":6:\d+: .*memory_mib"),
    ("missing agent", SITES.replace("[paris/hub]", "[paris/hubb]"), r":5:\d+: .*did you mean .*paris/hub"),
    ("missing target", SITES + "targets:\n"
     "  web: {at: paris/hub, address: \"127.0.0.1:80\", allow: [\"*\"]}\n"
     "forwards:\n  web: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: wev}\n",
     r":9:\d+: .*did you mean .*web"),
    ("key twice", SITES + "settings: {}\nsettings: {}\n", r":7:\d+: "),
    ("bad address", SITES.replace("127.0.0.1:", "127.0.0.1:1x"), r":4:\d+: "),
]

# The same for the agent's own file: what is replaced, by what, and what is said.
AGENT_FILES = [
    ("unknown key", r"^data: .*$", "dat: \"data\"", r":\d+:1: .*did you mean .*data"),
    ("wrong type", r"^listen:$", "drain_ms: soon\nlisten:", r":\d+:\d+: .*drain_ms"),
    ("missing key", r"^key: .*$", "", r":\d+:\d+: .*key"),
    ("bad digest", r"^listen:$", "plugins: [{name: tunnel, sha256: \"%s\"}]\nlisten:" % ("x" * 64),
     r":\d+:\d+: .*64 hexadecimal digits"),
    ("plugin without name", r"^listen:$", "plugins: [{path: x.so}]\nlisten:", r":\d+:\d+: .*name"),
    ("bad plugin key", r"^listen:$",
     "plugins: [{name: tunnel, config: {targest: {}}}]\nlisten:", r":\d+:\d+: .*targets"),
    ("link to itself", r"^listen:$", "links: [{to: paris/hub, address: \"127.0.0.1:1\"}]\nlisten:",
     r":\d+:\d+: .*itself"),
]


# How many keys of a file have a slip in the sample; 0: a few.
KEYS = int(os.environ.get("KEYS", "0"))


def is_listening(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def hub_alone(lab):
    port = harness.free_port()
    lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n" % port)
    return lab.agent("paris/hub"), port


def check_nothing_started(hub, port, files):
    check(not hub.has_line("^ready$"), "it said ready")
    check(not is_listening(port), "it listens")
    check_equal(sorted(os.listdir(hub.folder)), files, "files in the agent's folder")


def test_fleet_findings(lab):
    """`check` and `render` find the same, exit with 2, and write nothing."""
    for index, (what, body, finding) in enumerate(FLEETS):
        folder = lab.fleet(body.replace("%d", "7400"), folder="f%d" % index, render=False)
        file = os.path.join(folder, "fleet.yaml")
        out = os.path.join(folder, "out")
        for words in (["check", file], ["render", file, "--out", out]):
            done = lab.command(*words)
            said = done.stderr + done.stdout
            check_equal(done.returncode, 2, "%s: exit status of %s; it said: %s" % (what, words[0], said))
            check(re.search(re.escape(file) + finding, said), what, "said:", said)
        check(not os.path.exists(out), what, ": files were rendered")


def test_good_files(lab):
    """The counterpart: what is right is not complained about, and stays as it was."""
    hub, _ = hub_alone(lab)
    done = lab.command("check", lab.path("fleet", "fleet.yaml"), hub.file)
    check_equal((done.returncode, done.stderr), (0, ""), "check of good files")
    key = open(hub.path("node.key")).read()
    lab.run("render", lab.path("fleet", "fleet.yaml"), "--out", lab.path("fleet", "out"))
    check_equal(open(hub.path("node.key")).read(), key, "the key after rendering again")


def test_agent_file_findings(lab):
    hub, port = hub_alone(lab)
    good = open(hub.file).read()
    files = sorted(os.listdir(hub.folder))
    for what, pattern, replacement, finding in AGENT_FILES:
        bad, count = re.subn(pattern, replacement, good, count=1, flags=re.M)
        check_equal(count, 1, "%s: places to edit" % what)
        with open(hub.file, "w") as file:
            file.write(bad)
        hub.spawn()
        check_equal(hub.wait(), 2, "%s: exit status" % what)
        hub.wait_line(re.escape(hub.file) + finding, 5)
        check_nothing_started(hub, port, files)
        done = lab.command("check", hub.file)
        check_equal(done.returncode, 2, "%s: exit status of check" % what)
        check(re.search(re.escape(hub.file) + finding, done.stderr), what, "said:", done.stderr)
    with open(hub.file, "w") as file:
        file.write(good)
    hub.start()
    check(is_listening(port), "the good file does not start")


def measured(lab, words):
    """Exit status, what it said, and the most memory that it had, in MiB."""
    with open(lab.path("said"), "w+") as said:
        process = lab.spawn([lab.sennit, *words], stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return process.returncode, said.read(), usage.ru_maxrss / 1024


def slips(text, count, rng):
    """One slip each: a key that is mistyped, a line that moved, a value that is gone or is something else. What the unit
    test of all of them (test_mutations.c) finds without effect is not among them."""
    lines = text.split("\n")
    keyed = [i for i, line in enumerate(lines) if re.match(r"[a-z_ -]*[a-z_]{4,}:", line)]
    for i in rng.sample(keyed, count):
        head, key, rest = re.match(r"([ -]*)([a-z_]+)(:.*)", lines[i]).groups()
        at = rng.randrange(1, len(key) - 1)
        for fresh in (head + key[:at] + key[at + 1:] + rest, head + key.upper() + rest, "\t" + lines[i],
                      head + key + ": {x: [y]}" if "[" not in rest else head + key + ": ~",
                      head + key + ":" + (" |" if rest != ":" else " 0777"), head + key + rest[1:]):
            yield "\n".join(lines[:i] + [fresh] + lines[i + 1:])


def test_sample_of_slips(lab):
    """The program refuses what its parser refuses: with a place, and before anything starts."""
    text = SITES % (7400) + ("targets:\n  web: {at: paris/hub, address: \"127.0.0.1:80\", allow: [\"*\"]}\n"
                             "forwards:\n  web:\n    at: amsterdam/edge\n    listen: \"127.0.0.1:0\"\n    target: web\n"
                             "settings:\n  drain_ms: 1000\n  heartbeat:\n    interval_ms: 1000\n")
    fleet = os.path.join(lab.fleet(text), "fleet.yaml")
    edge = lab.agent("amsterdam/edge")
    seed = random.randrange(1 << 32)
    count = KEYS or (1 if lab.is_sanitized else 3)
    harness.note("seed", seed)
    for file, words in ((fleet, ("check",)), (edge.file, ("check",)), (edge.file, ("agent", "-c"))):
        good = open(file).read()
        files = sorted(os.listdir(os.path.dirname(file)))
        texts = list(slips(good, count, random.Random(seed)))
        check_equal(len(texts), 6 * count, "slips")
        for bad in texts[::2] if words[0] == "agent" else texts:
            with open(file, "w") as out:
                out.write(bad)
            done = lab.command(*words, file)
            check_equal(done.returncode, 2, "exit status of %s; it said %s about:\n%s" % (words, done.stderr, bad))
            check(re.search("^" + re.escape(file) + r":[1-9]\d*:[1-9]\d*: ", done.stderr, re.M), done.stderr)
            check("ready" not in done.stderr, "it started")
        check_equal(sorted(os.listdir(os.path.dirname(file))), files, "files")
        with open(file, "w") as out:
            out.write(good)
        check_equal(lab.command("check", file).returncode, 0, "exit status for the good file")


def hostile_files(good):
    bomb = "a0: &a0 [lol]\n" + "".join("a%d: &a%d [%s]\n" % (i, i, ",".join(["*a%d" % (i - 1)] * 9)) for i in range(1, 10))
    return [("alias bomb", bomb.encode(), "anchors and aliases"), ("alias", good + b"x: *good\n", "anchors and aliases"),
            ("tag", good + b"x: !!python/object 1\n", "tags are not supported"),
            ("10 MiB", good + b"#" * (10 << 20), "has more than 4194304 bytes"),
            ("4 MiB of entries", b"a: [" + b"x," * ((2 << 20) - 8), "too many entries"),
            ("4 MiB of nothing", b"#" * (4 << 20), "is empty"),
            ("4 MiB of findings", b"- *x\n" * 800000, None),
            ("depth", b"[" * 100000, "nested too deeply"), ("depth of maps", b"{a: " * 100000, "nested too deeply"),
            ("NUL", good + b"x: \0\n", "a NUL byte"), ("no UTF-8", good + b"x: \xff\n", "not UTF-8"),
            ("UTF-16", good.decode().encode("utf-16"), "not UTF-8"), ("overlong", good + b"x: \xc0\xaf\n", "not UTF-8"),
            ("tab", good + b"x:\n\ty: 1\n", "a tab"), ("key twice", good + b"mesh: demo\n", "stands here twice"),
            ("two documents", good + b"---\n" + good, "a second document"), ("empty", b"", "is empty"),
            ("directive", b"%YAML 1.1\n---\n" + good, "directives"), ("text", b"hello\n", None)]


def test_hostile_files(lab):
    """Whatever a file is, the answer is short, has a place, comes soon, and costs little memory."""
    hub, _ = hub_alone(lab)
    good = open(hub.file, "rb").read()
    for index, (what, data, finding) in enumerate(hostile_files(good)):
        if lab.is_sanitized and what.startswith("4 MiB"):
            continue  # instrumented, it is the unit test that reads such files
        with open(hub.file, "wb") as file:
            file.write(data)
        for words in (("check",), ("agent", "-c")) if index % (9 if lab.is_sanitized else 3) == 0 else (("check",),):
            status, said, mib = measured(lab, [*words, hub.file])
            check_equal(status, 2, "%s: exit status of %s; it said %s" % (what, words[0], said[:2000]))
            lines = said.splitlines()
            check(re.match(re.escape(hub.file) + r":[1-9]\d*:[1-9]\d*: ", lines[0]), what, words[0], lines[0])
            check(finding is None or finding in said, what, "said", said[:2000])
            check(len(lines) <= 101 and len(said) < 100000, what, "has", len(lines), "lines")
            check(lab.is_sanitized or mib < 128, what, "took", mib, "MiB")
    # Not files at all.
    os.unlink(hub.file)
    os.mkfifo(hub.file)
    for path in (hub.file, hub.folder, "/dev/zero", lab.path("none")):
        for words in (("check",), ("agent", "-c")):
            status, said, mib = measured(lab, [*words, path])
            check_equal(status, 2, "%s: exit status of %s: %s" % (path, words[0], said))
            check(path in said and (lab.is_sanitized or mib < 128), path, "said", said, mib)
    # What only looks odd is read.
    os.unlink(hub.file)
    for data in (b"\xef\xbb\xbf" + good, good.replace(b"\n", b"\r\n"), b"---\n" + good + b"...\n", good.rstrip(b"\n")):
        with open(hub.file, "wb") as file:
            file.write(data)
        check_equal(lab.command("check", hub.file).returncode, 0, "exit status for %r" % data[:20])


def test_lonely_agents(lab):
    """An agent that nobody can reach is warned of, with its place; it may be meant for later."""
    folder = lab.fleet("sites:\n  paris: {hub: {listen: [\"tls://127.0.0.1:1\"]}, spare: {}}\n", render=False)
    file = os.path.join(folder, "fleet.yaml")
    for words in (["check", file], ["render", file, "--out", lab.path("out")]):
        done = lab.command(*words)
        check_equal(done.returncode, 0, "exit status of %s" % words[0])
        check(re.search(re.escape(file) + r":4:\d+: sites\.paris\.spare: warning: .*give it `links` or `listen`",
                        done.stderr), done.stderr)


def test_key_mode(lab):
    """A key that others may read is not used, and the message says how to mend it."""
    hub, port = hub_alone(lab)
    files = sorted(os.listdir(hub.folder))
    for mode in (0o644, 0o640, 0o604):
        os.chmod(hub.path("node.key"), mode)
        hub.spawn()
        check_equal(hub.wait(), 2, "exit status with mode %o" % mode)
        hub.wait_line("^sennit agent: .*chmod 600 .*node.key", 5)
        check_nothing_started(hub, port, files)
        done = lab.command("check", hub.file)
        check_equal(done.returncode, 2, "exit status of check with mode %o" % mode)
        check(re.search(r":\d+:\d+: key: .*chmod 600 .*node.key", done.stderr), done.stderr)
    os.chmod(hub.path("node.key"), 0o600)
    if os.geteuid() == 0:
        os.chown(hub.path("node.key"), 65534, 65534)
        hub.spawn()
        check_equal(hub.wait(), 2, "exit status with somebody else's key")
        hub.wait_line("^sennit agent: .*node.key belongs to another user", 5)
        check_nothing_started(hub, port, files)
        os.chown(hub.path("node.key"), 0, 0)
    hub.start()


def test_authority_mode(lab):
    """The same for the authority's key, which is worth more."""
    hub_alone(lab)
    os.chmod(lab.path("fleet", "authority.key"), 0o644)
    out = lab.path("again")
    done = lab.command("render", lab.path("fleet", "fleet.yaml"), "--out", out)
    check_equal(done.returncode, 2, "exit status")
    check("chmod 600" in done.stderr, done.stderr)
    check(not os.path.exists(os.path.join(out, "paris")), "files were rendered")


def test_missing_files(lab):
    hub, port = hub_alone(lab)
    for name in ("node.key", "agent.cert"):
        os.rename(hub.path(name), hub.path("away"))
        hub.spawn()
        check_equal(hub.wait(), 2, "exit status without %s" % name)
        hub.wait_line("^sennit agent: .*%s: there is no such file; make it" % re.escape(name), 5)
        check(not is_listening(port), "it listens")
        check_equal(lab.command("check", hub.file).returncode, 2, "exit status of check without %s" % name)
        os.rename(hub.path("away"), hub.path(name))
    done = lab.command("agent", "-c", lab.path("nothing.yaml"))
    check_equal(done.returncode, 2, "exit status without a file")
    check("nothing.yaml" in done.stderr, done.stderr)


def test_usage(lab):
    for words in ([], ["agnet"], ["agent"], ["render"], ["ping"], ["status", "--jsn"], ["init", lab.path("x")]):
        done = lab.command(*words, cwd=lab.folder)
        check_equal(done.returncode, 2, "exit status of `sennit %s`" % " ".join(words))
        check(done.stderr or done.stdout, words, "says nothing")
    check("agent" in lab.command("agnet").stderr, "no suggestion")
    lab.fleet("sites:\n  paris: {hub: {}}\n", render=False)
    done = lab.command("init", lab.path("fleet"), "--mesh", "demo")
    check(done.returncode in (1, 2), "init overwrote a folder")


def test_lost_pings(lab):
    """Why a ping had no answer is told in words, and counted under the ledger's reasons."""
    hub, edge = lab.pair()
    hub.stop()
    wait_until(lambda: not edge.is_up(hub.name), 10, "the edge sees the hub down")
    done, result = edge.ping(hub.name, 2, "--timeout", "200")
    check_equal(done.returncode, 1, "exit status")
    check_equal((result["sent"], result["received"], result["lost"]), (2, 0, {"deadline": 2}), "counts")
    check_equal([result[key] for key in ("min_us", "p50_us", "p99_us", "max_us")], [None] * 4, "times of none")
    # What the agent knows about that peer, too: the hub's port is closed.
    check(re.search("paris/hub is (down|connecting): .*(refused|unreachable)", done.stderr), done.stderr)
    text = edge.command("ping", hub.name, "--count", "1", "--timeout", "200").stdout
    check("ping 1: no answer: deadline\n" in text, text)
    check("sent 1, received 0, deadline 1, min -, p50 -, p99 -, max -\n" in text, text)
    done, result = edge.ping("tokyo/nobody")
    check_equal((done.returncode, result["lost"]), (1, {"no-agent": 1}), "an agent that nobody knows")


def test_waiting_clients(lab):
    """While the peer is away, `forwards` shows who waits, and for whom."""
    hub, edge = lab.pair("targets:\n  web: {at: paris/hub, address: \"127.0.0.1:%d\", allow: [\"*\"]}\n"
                         "forwards:\n  web: {at: amsterdam/edge, listen: \"127.0.0.1:0\", target: web}\n"
                         % harness.free_port())
    where = edge.bound("web")
    check_equal(edge.forward("web")["waiting"], 0, "waiting clients")
    hub.kill()
    with harness.connect(where):
        entry = wait_until(lambda: edge.forward("web") if edge.forward("web")["waiting"] else None, 5,
                           "a client waits")
        check_equal((entry["waiting"], entry["state"], entry["error"]), (1, "listening", "waiting for paris/hub"))


def processes_of(program, folder):
    """Processes of the program whose command line names the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[0] == program and any(folder in word for word in words):
            found.append(words)
    return found


def sleeps(pid):
    """It waits, and goes on waiting for longer than an answer of an agent takes."""
    for _ in range(10):
        with open("/proc/%d/stat" % pid) as file:
            if file.read().rsplit(")", 1)[1].split()[0] != "S":
                return False
        time.sleep(0.03)
    return True


def check_stops(lab, number, words, is_busy, statuses):
    process = lab.spawn([lab.sennit, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: is_busy(process), 20, "`sennit %s` is at work" % words[0])
    begin = time.monotonic()
    process.send_signal(number)
    try:
        status = process.wait(10)
    except subprocess.TimeoutExpired:
        raise harness.Failure("`sennit %s` goes on after signal %d" % (" ".join(words), number))
    took = time.monotonic() - begin
    check(status in statuses, words[0], "exit status", status)
    check(took < (10 if lab.is_sanitized else 4), words[0], "took", took, "s to end")


def test_interrupts(lab):
    """Ctrl-C and SIGTERM end every command at once, whatever it does: waiting for an answer, for the next ping, for
    nothing at all, or for somebody who reads what it prints."""
    hub, edge = lab.pair()
    for number in (signal.SIGINT, signal.SIGTERM):
        for interval in ("0", "60000"):
            before = hub.handled()["ping"]
            check_stops(lab, number, ["ping", hub.name, "--count", "100000", "--interval", interval, "-c", edge.file],
                        lambda process: hub.handled()["ping"] > before, [-number])
    os.kill(hub.pid, signal.SIGSTOP)
    check_stops(lab, signal.SIGINT, ["ping", hub.name, "--timeout", "600000", "-c", edge.file],
                lambda process: os.path.exists("/proc/%d/exe" % process.pid) and not time.sleep(0.3),
                [-signal.SIGINT])
    # An agent that does not answer at all.
    os.kill(edge.pid, signal.SIGSTOP)
    check_stops(lab, signal.SIGTERM, ["status", "-c", edge.file],
                lambda process: not time.sleep(0.3), [-signal.SIGTERM])
    os.kill(edge.pid, signal.SIGCONT)
    os.kill(hub.pid, signal.SIGCONT)
    # A large fleet: it ends between two agents, and leaves no file half written.
    large = lab.fleet("sites:\n  a:\n" + "".join("    n%d: {}\n" % i for i in range(2000)), folder="large", render=False)
    out = os.path.join(large, "out")
    check_stops(lab, signal.SIGINT, ["render", os.path.join(large, "fleet.yaml"), "--out", out],
                lambda process: os.path.isdir(os.path.join(out, "a", "n1")), [-signal.SIGINT])
    check_equal([name for _, _, names in os.walk(out) for name in names if name != "node.key"], [],
                "files besides keys that are kept")
    # A reader that does not read: the pipe is full, and the command waits in the middle of its output.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    process = lab.spawn([lab.sennit, "metrics", "-c", edge.file], stdout=writer)
    os.close(writer)
    wait_until(lambda: sleeps(process.pid), 10, "it waits for the reader")
    process.send_signal(signal.SIGTERM)
    check_equal(process.wait(10), -signal.SIGTERM, "exit status of a command that waits for its reader")
    os.close(reader)


def test_soak_interrupt(lab):
    """Ctrl-C ends a soak test with its agents, and the verdict says why it failed."""
    scenario = lab.write("s.yaml", "scenario: delivery\nstarts: 50\nmessages: 2000\n")
    for number in (signal.SIGINT, signal.SIGTERM):
        out = lab.path("soak-%d" % number)
        check_stops(lab, number, ["soak", scenario, "--out", out],
                    lambda process: len(processes_of(lab.sennit, out)) >= 3, [1])
        check_equal(processes_of(lab.sennit, out), [], "processes that are left")
        with open(os.path.join(out, "verdict.json")) as file:
            failures = json.load(file)["failures"]
        check(any("interrupted" in line for line in failures), "the verdict does not say so:", failures)


def test_lost_output(lab):
    """A result that could not be written is no success."""
    if not os.path.exists("/dev/full"):
        raise harness.Skip("no /dev/full")
    hub, _ = hub_alone(lab)
    hub.start()
    for words in (["peers"], ["status", "--json"], ["ledger"], ["metrics"], ["forwards", "--json"],
                  ["ping", hub.name, "--count", "1"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([lab.sennit, *words, "-c", hub.file], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=30)
        check_equal(done.returncode, 1, "exit status of %s" % words)
        check("sennit %s: the output cannot be written: " % words[0] in done.stderr, words, "says", done.stderr)


if __name__ == "__main__":
    harness.main([test_fleet_findings, test_good_files, test_agent_file_findings,
                  test_sample_of_slips, test_hostile_files, test_lonely_agents, test_key_mode,
                  test_authority_mode, test_missing_files, test_usage, test_lost_pings, test_waiting_clients,
                  test_interrupts, test_soak_interrupt, test_lost_output])
