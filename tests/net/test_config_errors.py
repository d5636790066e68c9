# SPDX-License-Identifier: Apache-2.0
"""What is wrong in a file is found before anything starts, and said with its place and a way to mend it."""
import os
import re
import socket

import harness
from harness import check, check_equal

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
    ("unknown plugin", r"^listen:$", "plugins: [{name: tunel}]\nlisten:", r":\d+:\d+: .*tunel"),
    ("bad plugin key", r"^listen:$",
     "plugins: [{name: tunnel, config: {targest: {}}}]\nlisten:", r":\d+:\d+: .*targets"),
    ("link to itself", r"^listen:$", "links: [{to: paris/hub, address: \"127.0.0.1:1\"}]\nlisten:",
     r":\d+:\d+: .*itself"),
]


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
    with open(hub.file, "w") as file:
        file.write(good)
    hub.start()
    check(is_listening(port), "the good file does not start")


def test_key_mode(lab):
    """A key that others may read is not used, and the message says how to mend it."""
    hub, port = hub_alone(lab)
    files = sorted(os.listdir(hub.folder))
    for mode in (0o644, 0o640, 0o604):
        os.chmod(hub.path("node.key"), mode)
        hub.spawn()
        check_equal(hub.wait(), 2, "exit status with mode %o" % mode)
        hub.wait_line("chmod 600 .*node.key", 5)
        check_nothing_started(hub, port, files)
    os.chmod(hub.path("node.key"), 0o600)
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
        hub.wait_line(re.escape(name), 5)
        check(not is_listening(port), "it listens")
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


if __name__ == "__main__":
    harness.main([test_fleet_findings, test_good_files, test_agent_file_findings, test_key_mode,
                  test_authority_mode, test_missing_files, test_usage])
