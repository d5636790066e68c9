# SPDX-License-Identifier: Apache-2.0
"""tools/faultproxy for tests: a proxy between two agents, or a test and an agent, that injects faults on command."""
import ctypes
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class FaultProxyError(AssertionError):
    pass


class Reply(dict):
    """The key=value pairs of an answer, numbers as int; `lines` has what came before it (`list`)."""

    def __init__(self, text):
        *self.lines, self.text = text.rstrip("\n").split("\n")
        super().__init__()
        for pair in self.text.split(" ")[1:]:
            key, _, value = pair.partition("=")
            self[key] = int(value) if value.isdigit() else value


class FaultProxy:
    """`to` is (host, port) or "host:port". It listens from start() on: `address`, `port`. Use it with `with`, or call
    stop(), which checks that it ends well, or kill()."""

    def __init__(self, program, to, udp=False, listen="127.0.0.1:0", script=None, seed=None, buffer_kib=None):
        # Not TMPDIR: paths of UNIX sockets must not depend on where somebody runs the tests.
        self.folder = tempfile.mkdtemp(prefix="fp-", dir="/tmp")
        self.control = os.path.join(self.folder, "control")
        self.words = [program, "--listen", listen, "--to", to if isinstance(to, str) else "%s:%d" % to,
                      "--control", self.control]
        if udp:
            self.words.append("--udp")
        if script is not None:
            path = os.path.join(self.folder, "script")
            with open(path, "w") as file:
                file.write(script)
            self.words += ["--script", path]
        if seed is not None:
            self.words += ["--seed", str(seed)]
        if buffer_kib is not None:
            self.words += ["--buffer", str(buffer_kib)]
        self.process = None
        self.address = None

    def __enter__(self):
        return self.start() if self.process is None else self

    def __exit__(self, kind, value, trace):
        if kind is None and self.process.poll() is None:
            self.stop()
        else:
            self.kill()

    @property
    def port(self):
        return self.address[1]

    def start(self, seconds=20.0):
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=_die_with_parent)
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.kill()
            raise FaultProxyError("faultproxy does not listen")
        line = self.process.stdout.readline()
        if not line.startswith("listening "):
            self.kill()
            raise FaultProxyError("faultproxy did not start; exit status %s" % self.process.returncode)
        host, port = line.split()[1].rsplit(":", 1)
        self.address = host.strip("[]"), int(port)
        return self

    def ask(self, text, seconds=20.0):
        """Sends one command on a connection of its own; returns the whole answer, also when it is an error."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(seconds)
            sock.connect(self.control)
            sock.sendall(text.encode() + b"\n")
            sock.shutdown(socket.SHUT_WR)
            parts = []
            try:
                while True:
                    part = sock.recv(65536)
                    if not part:
                        break
                    parts.append(part)
            except socket.timeout:
                raise FaultProxyError("faultproxy: no answer to `%s` within %.1f s" % (text, seconds)) from None
        return b"".join(parts).decode()

    def command(self, text, seconds=20.0):
        """A command that must be answered by ok; returns the Reply."""
        reply = Reply(self.ask(text, seconds))
        if reply.text.split(" ")[0] != "ok":
            raise FaultProxyError("faultproxy: `%s`: %s" % (text, reply.text))
        return reply

    def wait(self, event, seconds=20.0):
        """For an event: "connections 2", "open 0", "bytes up 1000", "read both 5"."""
        self.command("wait " + event, seconds)

    def stats(self):
        return self.command("stats")

    def connections(self):
        """One dict for each open connection, oldest first."""
        lines = self.command("list").lines
        return [Reply("ok " + line.split(" ", 2)[2]) for line in reversed(lines)]

    def stop(self, seconds=20.0):
        """SIGTERM; checks that it ends with 0."""
        self.process.send_signal(signal.SIGTERM)
        self.wait_end(0, seconds)

    def wait_end(self, status, seconds=20.0):
        """Waits for the end that comes by itself; returns what it printed meanwhile."""
        try:
            out, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise FaultProxyError("faultproxy did not end within %.1f s" % seconds) from None
        finally:
            self.kill()
        if self.process.returncode != status:
            raise FaultProxyError("faultproxy: exit status %s instead of %d" % (self.process.returncode, status))
        return out

    def kill(self):
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
