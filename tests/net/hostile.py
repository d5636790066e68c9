# SPDX-License-Identifier: Apache-2.0
"""A member of the mesh that misbehaves (tests/hostile_member), and the world in which it does: a hub that must not care,
a good peer that pings the hub without pause, and figures of the hub from before, to compare with."""
import json
import os
import re
import subprocess
import threading
import time

import harness
from harness import check, check_equal, wait_until

REST_KIB = 16384  # what the hub's memory may have grown by in the end, sanitizers aside
LOG_BURST = 5  # lines of one cause at once, for each logger; then one a second
WORKERS = 2


class Member:
    """One process of it; `do` carries out a line (tests/hostile_member/commands.h) and returns the answer."""

    def __init__(self, lab, name, port):
        program = os.path.join(os.path.dirname(lab.forge_program), "..", "hostile_member", "hostile_member")
        if not os.path.exists(program):
            raise harness.Skip("there is no program " + program)
        self.name = name
        self.port = port
        self.genuine = 0  # messages that the hub must have placed
        self.serial = 0
        self.link = None  # what was said of the link's streams
        self.heard = {}  # frames that came, by kind
        site, agent = name.split("/")
        self.process = subprocess.Popen([program, lab.path("fleet", "out", site, agent, "agent.yaml")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lab.processes.append(self.process)

    def do(self, line, err="ok"):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        text = self.process.stdout.readline()
        check(text, "the hostile member ended at", line)
        answer = json.loads(text)
        for kind, count in answer["heard"].items():
            if isinstance(count, int):
                self.heard[kind] = self.heard.get(kind, 0) + count
        check(err is None or answer["err"] == err, line, "was answered by", text)
        return answer

    def dial(self, more="", err="ok"):
        return self.do("dial port=%d %s" % (self.port, more), err)

    def join(self, boot=True):
        """A session with its message link, as any agent has it."""
        if boot:
            self.do("boot")
        check_equal(self.dial()["step"], "up", "a good handshake of %s" % self.name)
        self.link = self.do("link")
        return self.link

    def is_up(self):
        answer = self.do("look")
        return answer["step"] == "up" and answer["end"] == "none" and answer["linked"]

    def send(self, name, more=""):
        return self.do("send name=%s %s" % (name, more))

    def make(self, more="", name=None):
        """A parcel with one question to the hub; returns its name and what was said of it."""
        if name is None:
            self.serial += 1
            name = "m%d" % (self.serial % 100)
        answer = self.do("make name=%s %s" % (name, more))
        return name, answer

    def expect(self, name, size=32):
        """The question was answered, once, by a handler that saw its very bytes."""
        answer = self.do("wait for=answer name=%s ms=20000" % name)
        check_equal((answer["answers"], answer["echo_size"], answer["echoed"]), (1, size, True),
                    "answer to a genuine message: %s" % answer)
        self.genuine += 1

    def expect_any(self, name):
        """It was answered; its bytes are not sent back when they are many."""
        answer = self.do("wait for=answer name=%s ms=20000" % name)
        check_equal(answer["answers"], 1, "answers to a genuine message")
        self.genuine += 1

    def ask(self, more=""):
        """A genuine message, on a session of its own where there is none."""
        if not self.is_up():
            self.join()
        name, _ = self.make(more)
        self.send(name)
        self.expect(name)

    def hear(self, kind, count):
        """So many frames of that kind have come since the last call."""
        heard = self.heard.pop(kind, 0)
        end = time.monotonic() + 20
        while heard < count:
            check(time.monotonic() < end, "only", heard, "of", count, "frames of kind", kind, "came")
            check(self.do("wait for=nothing ms=10", "timed-out")["end"] == "none", "the session has ended")
            heard += self.heard.pop(kind, 0)

    def ends(self, what):
        answer = self.do("wait for=end ms=10000", None)
        check(answer["err"] == "ok" and answer["end"] != "none", "the session stays after", what, answer)
        return answer

    def close(self):
        self.process.stdin.close()
        check_equal(self.process.wait(20), 0, "exit status of the hostile member")


class World:
    """paris/hub, amsterdam/good, and members of oslo that are not what they should be."""

    def __init__(self, lab, members, settings="", accept="{per_address: 64}", lazy=False):
        """lazy: there is oslo/lazy, too, which the hub dials at lazy_port."""
        self.lab = lab
        self.lazy_port = harness.free_port()
        self.port = harness.free_port()
        lab.fleet("sites:\n"
                  "  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]%s}}\n"
                  "  amsterdam: {good: {links: [paris/hub]}}\n"
                  "  oslo:\n%s%s"
                  "settings:\n"
                  "  workers: %d\n"
                  "  accept: %s\n"
                  "  drain_ms: 500\n"
                  "  reconnect: {min_ms: 20, max_ms: 100}\n%s" %
                  (self.port, ", links: [oslo/lazy]" if lazy else "",
                   "    lazy: {listen: [\"tls://127.0.0.1:%d\"]}\n" % self.lazy_port if lazy else "",
                   "".join("    %s: {links: [paris/hub]}\n" % name for name in members), WORKERS, accept,
                   settings))
        self.hub = lab.agent("paris/hub").start()
        self.good = lab.agent("amsterdam/good").start().wait_up(self.hub.name)
        self.begin = time.monotonic()
        self.first_line = len(self.hub.lines)
        self.members = []
        self.pings = Pings(self.good, self.hub.name)
        # All that a member leaves behind for good is made once before the baseline.
        member = self.member(members[0])
        member.ask()
        member.close()
        self.wait_alone()
        self.descriptors = harness.settled_figures(self.hub.pid)[0]
        self.threads = harness.threads(self.hub.pid)
        self.rss = harness.rss_kib(self.hub.pid)
        self.good_sessions = self.hub.peer(self.good.name)["sessions"]

    def member(self, name):
        made = Member(self.lab, "oslo/" + name, self.port)
        self.members.append(made)
        return made

    def run(self, attempt, member):
        begin = time.monotonic()
        attempt(self, member)
        member.ask()
        self.check_genuine()
        harness.note("%s: %.2f s" % (attempt.__name__, time.monotonic() - begin))

    def wait_alone(self):
        wait_until(lambda: self.hub.view("status")["peers_up"] == 1, 30, "the hub is alone with the good one")

    def ledger(self, member):
        peers = self.hub.view("ledger")["peers"]
        return next((peer for peer in peers if peer["agent"] == member.name), None)

    def refusals(self, member):
        parcels = self.ledger(member)["parcels"]
        return {key: parcels["refused_" + key] for key in ("auth", "replay", "other")}

    def check_log(self):
        """One line a second and cause, and a burst, of each worker."""
        seconds = time.monotonic() - self.begin
        counts = {}
        for line in self.hub.lines[self.first_line:]:
            match = re.match(r"\S+ +\S+ +([A-Z][A-Z-]+)", line)
            if match:
                counts[match.group(1)] = counts.get(match.group(1), 0) + 1
        for cause, count in counts.items():
            check(count <= WORKERS * (LOG_BURST + seconds + 1), count, "lines of", cause, "within", seconds, "s")

    def check_genuine(self):
        """Each genuine message was placed once, and nothing else was."""
        placed = {}
        for member in self.members:
            placed[member.name] = placed.get(member.name, 0) + member.genuine
        for member in self.members:
            entry = self.ledger(member)
            got = entry["parcels"]["messages_received"] if entry else 0
            check_equal(got, placed[member.name], "messages of %s that reached a handler" % member.name)

    def check_unharmed(self):
        """To be called at the end, with all members gone."""
        hub = self.hub
        check(hub.is_running(), "the hub has ended")
        for member in self.members:
            if member.process.poll() is None:
                member.close()
        self.wait_alone()
        sent, received = self.pings.finish()
        check(sent > 0, "the good peer did not ping")
        check_equal(received, sent, "pings of the good peer")
        check_equal(hub.peer(self.good.name)["sessions"], self.good_sessions, "sessions of the good peer")
        self.check_log()
        check_equal([entry for entry in hub.view("actors") if entry["restarts"] > 0], [], "restarted actors")

        wait_until(lambda: harness.descriptors(hub.pid) == self.descriptors, 30,
                   "descriptors return to %d" % self.descriptors)
        wait_until(lambda: harness.threads(hub.pid) == self.threads, 30, "threads return to %s" % self.threads)
        if not self.lab.is_sanitized:
            wait_until(lambda: harness.rss_kib(hub.pid) <= self.rss + REST_KIB, 30,
                       "memory returns to %d KiB and at most %d more" % (self.rss, REST_KIB))
        harness.note("%d pings of the good peer; resident %.1f MiB before, %.1f after" %
                     (sent, self.rss / 1024, harness.rss_kib(hub.pid) / 1024))


class Pings:
    """The good peer pings without pause."""

    def __init__(self, peer, to):
        self.sent = self.received = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(peer, to), daemon=True)
        self.thread.start()

    def _run(self, peer, to):
        while not self.stop.is_set():
            _, result = peer.ping(to, 50, "--timeout", "20000")
            self.sent += result["sent"] if result else 50
            self.received += result["received"] if result else 0

    def finish(self):
        self.stop.set()
        self.thread.join(60)
        return self.sent, self.received
