# SPDX-License-Identifier: Apache-2.0
"""Real agents on loopback: a folder a test, a fleet rendered by the program itself, processes that never outlive
the test. Waiting is for events (a line, a state) with a deadline, never for a time to pass."""
import ctypes
import errno
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import control
import faultproxy

SKIPPED = 77
TAIL_LINES = 40
POLL_S = 0.02


class Failure(AssertionError):
    pass


class Skip(Exception):
    pass


def check(condition, *what):
    if not condition:
        raise Failure(" ".join(str(part) for part in what) or "check failed")


def check_equal(got, expected, what=""):
    check(got == expected, what, "got", repr(got), "expected", repr(expected))


def wait_until(ask, seconds, what):
    """Asks until the answer is true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        last = time.monotonic() >= end
        answer = ask()
        if answer:
            return answer
        if last:
            raise Failure("not within %.1f s: %s" % (seconds, what))
        time.sleep(POLL_S)


def note(*words):
    print("   ", *words, flush=True)


# --- Ports, sockets ---------------------------------------------------------------------------------------


_reserved = []  # sockets that hold ports for this process; see free_port


def free_port():
    """A free port outside of the range that the system uses for outgoing connections. It is reserved among the
    tests that run at the same time, by a name in the abstract namespace, until this process ends."""
    for _ in range(1000):
        port = random.randrange(10000, 32000)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind("\0sennit-test-port-%d" % port)
            with socket.socket() as sock:
                sock.bind(("127.0.0.1", port))
        except OSError as error:
            claim.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            continue
        _reserved.append(claim)
        return port
    raise Failure("no free port")


def address_of(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def connect(address, timeout=10.0):
    if isinstance(address, str):
        address = address_of(address)
    sock = socket.create_connection(address, timeout=timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_all(sock, limit=None):
    """Reads to the end, or `limit` bytes; returns size and SHA-256."""
    digest = hashlib.sha256()
    size = 0
    while limit is None or size < limit:
        data = sock.recv(262144 if limit is None else min(262144, limit - size))
        if not data:
            break
        digest.update(data)
        size += len(data)
    return size, digest.hexdigest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Server:
    """A TCP server on loopback; `handle(conn)` runs in a thread for each connection."""

    def __init__(self, handle, port=0):
        self.handle = handle
        self.errors = []
        self.accepted = 0
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind(("127.0.0.1", port))
        self.sock.listen(128)
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        try:
            with conn:
                self.handle(conn)
        except Exception as error:  # whatever it is, the test looks at it
            self.errors.append(error)

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)  # a thread that waits in accept() would hold the port
        except OSError:
            pass
        self.sock.close()


def run_threads(functions, seconds):
    """Runs the functions side by side; returns their results, or raises the first of their errors."""
    results = [None] * len(functions)
    errors = []

    def run(index):
        try:
            results[index] = functions[index]()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(functions))]
    end = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if errors:
        raise errors[0]
    if any(thread.is_alive() for thread in threads):
        raise Failure("a client was not finished within %.1f s" % seconds)
    return results


# --- Processes --------------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


POOLS = ("sn-cpu", "sn-disk", "sn-slow", "sn-close")


def threads(pid):
    """How many, but for those of pools: they come with work, and go when they have been idle for a while."""
    count = 0
    for tid in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/comm" % (pid, tid), encoding="ascii") as file:
                count += file.read().strip() not in POOLS
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
    return count


def rss_kib(pid):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"^VmRSS:\s+(\d+)", file.read(), re.M).group(1))


def settled_figures(pid, seconds=10.0, still=0.5):
    """Descriptors and threads once they have not changed for a while: what was closed may still be leaving."""
    end = time.monotonic() + seconds
    last, since = None, 0.0
    while time.monotonic() < end:
        now = descriptors(pid), threads(pid)
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since >= still:
            return now
        time.sleep(POLL_S)
    raise Failure("descriptors and threads never came to rest; last %s" % (last,))


class Agent:
    """An agent's folder, and its process while it runs."""

    def __init__(self, lab, name, folder):
        self.lab = lab
        self.name = name
        self.folder = folder
        self.file = os.path.join(folder, "agent.yaml")
        self.process = None
        self.lines = []
        self.changed = threading.Condition()
        self.is_ended = True

    # Files

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def edit(self, change):
        with open(self.file) as file:
            text = file.read()
        edited = change(text)
        check(edited != text, "the edit of", self.file, "changed nothing")
        with open(self.file, "w") as file:
            file.write(edited)

    def run_files(self):
        return sorted(os.listdir(self.path("run"))) if os.path.isdir(self.path("run")) else []

    # Process

    @property
    def pid(self):
        return self.process.pid

    def _read(self, pipe, lines):
        for line in pipe:
            with self.changed:
                lines.append(line.decode(errors="replace").rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            if lines is self.lines:  # else its successor runs already
                self.is_ended = True
            self.changed.notify_all()

    def spawn(self):
        """Starts the process without waiting for it."""
        check(self.process is None or self.process.poll() is not None, self.name, "runs already")
        self.lines = []
        self.is_ended = False
        self.process = subprocess.Popen([self.lab.sennit, "agent", "-c", self.file],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, preexec_fn=_die_with_parent)
        threading.Thread(target=self._read, args=(self.process.stderr, self.lines), daemon=True).start()
        return self

    def wait_ready(self, seconds=20.0):
        self.wait_line("^ready$", seconds)
        return self

    def start(self):
        return self.spawn().wait_ready()

    def wait_line(self, pattern, seconds=10.0, first=0):
        """Waits for a line of the log that matches; `first` skips what was there before."""
        compiled = re.compile(pattern)
        end = time.monotonic() + seconds
        at = first
        with self.changed:
            while True:
                while at < len(self.lines):
                    if compiled.search(self.lines[at]):
                        return self.lines[at]
                    at += 1
                if self.is_ended:
                    raise Failure("%s ended without the line %s" % (self.name, pattern))
                left = end - time.monotonic()
                if left <= 0:
                    raise Failure("%s: no line %s within %.1f s" % (self.name, pattern, seconds))
                self.changed.wait(left)

    def has_line(self, pattern):
        with self.changed:
            return any(re.search(pattern, line) for line in self.lines)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=20.0):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure("%s did not end within %.1f s" % (self.name, seconds))

    def stop(self, seconds=20.0):
        """SIGTERM; checks that it ends with 0. Returns how long that took."""
        begin = time.monotonic()
        self.signal(signal.SIGTERM)
        status = self.wait(seconds)
        took = time.monotonic() - begin
        check_equal(status, 0, "%s: exit status after SIGTERM" % self.name)
        return took

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    # Commands

    def command(self, *words, timeout=30.0):
        return self.lab.command(*words, "-c", self.file, timeout=timeout)

    def view(self, *words, timeout=30.0):
        """The one JSON document that a command prints. Asked without the command where that is possible; what it
        says when something is wrong, the command says."""
        if len(words) == 1 and words[0] in ("status", "peers", "streams", "actors", "ledger", "metrics", "forwards"):
            try:
                return control.view(self.path("run", "control.sock"), words[0], timeout)
            except control.ControlError:
                pass
        done = self.command(*words, "--json", timeout=timeout)
        check(done.returncode == 0, words, "exit status", done.returncode, done.stderr)
        return json.loads(done.stdout)

    def peer(self, name):
        """What `peers` says of an agent, refused entries aside."""
        for entry in self.view("peers"):
            if entry["agent"] == name and entry["state"] != "refused":
                return entry
        return None

    def refused(self, **wanted):
        return [entry for entry in self.view("peers") if entry["state"] == "refused" and
                all(entry[key] == value for key, value in wanted.items())]

    def is_up(self, name):
        entry = self.peer(name)
        return entry is not None and entry["state"] == "up"

    def wait_up(self, name, seconds=10.0):
        wait_until(lambda: self.is_up(name), seconds, "%s sees %s up" % (self.name, name))
        return self

    def metric(self, name):
        return next(entry["value"] for entry in self.view("metrics") if entry["name"] == name)

    def handled(self):
        return {entry["name"]: entry["handled"] for entry in self.view("actors")}

    def forward(self, name):
        return next(entry for entry in self.view("forwards")["forwards"] if entry["name"] == name)

    def target(self, name):
        return next(entry for entry in self.view("forwards")["targets"] if entry["name"] == name)

    def bound(self, name):
        """Where a forward listens."""
        def ask():
            entry = self.forward(name)
            return entry["bound"] if entry["state"] == "listening" else None
        return address_of(wait_until(ask, 10, "forward %s listens" % name))

    def ping(self, to, count=1, *more):
        done = self.command("ping", to, "--count", str(count), "--interval", "5", "--json", *more)
        return done, (json.loads(done.stdout) if done.stdout.strip() else None)

    def check_ping(self, to, count=3):
        done, result = self.ping(to, count)
        check(done.returncode == 0, self.name, "pings", to, "exit", done.returncode, done.stderr)
        check_equal((result["sent"], result["received"]), (count, count), "ping %s" % to)
        return result

    def key(self):
        """Its public key as the certificate's owner knows it."""
        return self.view("status")["id"]


# --- A test's world -----------------------------------------------------------------------------------------


class Lab:
    def __init__(self, sennit, forge, fault):
        self.sennit = sennit
        self.forge_program = forge
        self.fault_program = fault
        with open(sennit, "rb") as file:
            program = file.read()
            self.is_sanitized = b"__asan_init" in program or b"__tsan_init" in program
        # Not TMPDIR: paths of UNIX sockets must not depend on where somebody runs the tests.
        self.folder = tempfile.mkdtemp(prefix="sn-", dir="/tmp")
        self.agents = []
        self.processes = []
        self.closers = []

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def command(self, *words, timeout=30.0, cwd=None):
        # Agents are checked for leaks when they end. The many short commands that poll them are not: it doubles their
        # time, and tests/unit/agents does it once for each.
        environ = dict(os.environ)
        if self.is_sanitized:
            environ["ASAN_OPTIONS"] = environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        try:
            return subprocess.run([self.sennit, *words], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=timeout, cwd=cwd, env=environ)
        except subprocess.TimeoutExpired:
            raise Failure("`sennit %s` did not end within %.0f s" % (" ".join(words), timeout))

    def run(self, *words, **more):
        done = self.command(*words, **more)
        check(done.returncode == 0, "sennit", *words, "exit status", done.returncode, done.stderr)
        return done.stdout

    def spawn(self, words, **more):
        """Any process; it is killed at the end."""
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent, **more)
        self.processes.append(process)
        return process

    def server(self, handle, port=0):
        server = Server(handle, port)
        self.closers.append(server.close)
        return server

    def fleet(self, body, mesh="demo", folder="fleet", render=True):
        """Makes an authority, and renders the fleet with `body` behind its first two lines. Returns its folder."""
        path = self.path(folder)
        if not os.path.exists(path):
            self.run("init", path, "--mesh", mesh)
        file = self.write(os.path.join(folder, "fleet.yaml"),
                          "mesh: %s\nauthority: authority.key\n%s" % (mesh, body))
        if render:
            self.run("render", file, "--out", os.path.join(path, "out"))
        return path

    def agent(self, name, folder="fleet"):
        site, agent = name.split("/")
        made = Agent(self, name, self.path(folder, "out", site, agent))
        check(os.path.exists(made.file), made.file, "was not rendered")
        self.agents.append(made)
        return made

    def forge(self, authority, mesh, agent, key, not_before, not_after, out):
        """A certificate that `render` would not make; times are seconds from now."""
        if self.forge_program is None:
            raise Skip("started without --forge")
        done = subprocess.run([self.forge_program, authority, mesh, agent, key, str(not_before), str(not_after), out],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        check_equal((done.returncode, done.stderr), (0, ""), "forge")

    def pair(self, more="", settings=""):
        """A hub at paris and an edge at amsterdam that dials it; both ready and up."""
        port = free_port()
        self.fleet("sites:\n"
                   "  paris: {hub: {listen: [\"tls://127.0.0.1:%d\"]}}\n"
                   "  amsterdam: {edge: {links: [paris/hub]}}\n%s%s" % (port, settings, more))
        hub, edge = self.agent("paris/hub").start(), self.agent("amsterdam/edge").start()
        hub.wait_up(edge.name)
        edge.wait_up(hub.name)
        return hub, edge

    def fault_proxy(self, to, **more):
        """A proxy to TCP address `to` that injects faults; see tools/faultproxy --help."""
        if self.fault_program is None:
            raise Skip("started without --faultproxy")
        proxy = faultproxy.FaultProxy(self.fault_program, to, **more).start()
        self.closers.append(proxy.kill)
        return proxy

    def busy(self, count):
        """Processes that use all the time they get."""
        return [self.spawn([sys.executable, "-c", "while True: pass"]) for _ in range(count)]

    def print_tails(self):
        for agent in self.agents:
            if not agent.lines:
                continue
            state = "running" if agent.is_running() else "ended: %s" % agent.process.returncode
            print("--- log of %s (%s)" % (agent.name, state))
            for line in agent.lines[-TAIL_LINES:]:
                print("   ", line)
        sys.stdout.flush()

    def close(self):
        for agent in self.agents:
            if agent.is_running():
                agent.process.send_signal(signal.SIGCONT)
            agent.kill()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for closer in self.closers:
            closer()
        shutil.rmtree(self.folder, ignore_errors=True)


def _run_one(function, sennit, programs):
    lab = Lab(sennit, programs.get("--forge"), programs.get("--faultproxy"))
    begin = time.monotonic()
    status = "ok"
    try:
        function(lab)
    except Skip as skip:
        status = "skipped: %s" % skip
    except BaseException as error:
        status = "FAILED"
        traceback.print_exc(file=sys.stdout)
        lab.print_tails()
        if not isinstance(error, Exception):
            raise
    finally:
        lab.close()
    print("%-45s %6.2f s  %s" % (function.__name__, time.monotonic() - begin, status), flush=True)
    return status


def main(tests):
    """usage: test_NAME.py SENNIT [--forge PROGRAM] [--faultproxy PROGRAM] [TEST...]"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    sennit = os.path.abspath(sys.argv[1])
    if not os.access(sennit, os.X_OK):
        print("there is no program", sennit)
        sys.exit(1)
    wanted = sys.argv[2:]
    programs = {}
    while wanted[:1] in (["--forge"], ["--faultproxy"]) and len(wanted) > 1:
        programs[wanted[0]], wanted = os.path.abspath(wanted[1]), wanted[2:]
    # A test that is stopped from outside still ends its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results = [_run_one(test, sennit, programs) for test in tests if not wanted or test.__name__ in wanted]
    if any(result == "FAILED" for result in results):
        sys.exit(1)
    if results and all(result.startswith("skipped") for result in results):
        sys.exit(SKIPPED)
