# SPDX-License-Identifier: Apache-2.0
"""Other people's programs as servers and clients of a test: own instances on loopback with their files in the test's
folder, ended with it. Used by tests/interop and tools/bench."""
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time

import harness
from harness import check

SEARCH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"
START_S = 30.0


def find(program):
    """Its path; the folders of daemons count too, which users do not search."""
    return shutil.which(program, path=SEARCH)


def need(*programs, setup="--interop"):
    for program in programs:
        if find(program) is None:
            raise harness.Skip("%s is not installed (tools/setup %s)" % (program, setup))
    return [find(program) for program in programs]


def is_listening(port):
    """Whether somebody listens there on IPv4. Nothing is connected: a probe would be a client, and be counted."""
    with open("/proc/net/tcp") as file:
        for line in list(file)[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


@contextlib.contextmanager
def running(lab, name, words, port=None, stop=signal.SIGTERM, **more):
    """A program while the block runs, its output in NAME.log; ready when the port listens."""
    log = lab.path(name + ".log")
    with open(log, "wb") as file:
        process = lab.spawn(words, stdout=file, stderr=subprocess.STDOUT, **more)
    try:
        end = time.monotonic() + START_S
        while port is not None and not is_listening(port):
            if process.poll() is not None or time.monotonic() >= end:
                raise harness.Failure("%s does not listen: %s" % (name, tail(log)))
            time.sleep(harness.POLL_S)
        yield process
    except BaseException:
        print("--- log of %s\n%s" % (name, tail(log)), flush=True)
        raise
    finally:
        if process.poll() is None:
            process.send_signal(stop)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def tail(path):
    with open(path, "rb") as file:
        return file.read().decode(errors="replace")[-3000:].strip()


def run(words, seconds=60.0, **more):
    """A client to its end, which must be good. Returns what it printed."""
    try:
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **more}
        done = subprocess.run(words, stderr=subprocess.PIPE, timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        raise harness.Failure("not finished within %.0f s: %s" % (seconds, " ".join(words)))
    said = (done.stdout or b"").decode(errors="replace")
    check(done.returncode == 0, " ".join(words), "exit status", done.returncode,
          done.stderr.decode(errors="replace")[-2000:], said[-2000:])
    return said


def is_root():
    return os.geteuid() == 0


class Ssh:
    """An SSH server for this user alone, by a key made for it, and the options of its clients."""

    def __init__(self, lab):
        self.lab = lab
        self.port = harness.free_port()
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        os.makedirs(lab.path("ssh"), exist_ok=True)
        for name in ("host", "user"):
            run([find("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", lab.path("ssh", name)])
        # Through a forward the server has another port; the alias is what its key is known by.
        with open(lab.path("ssh", "host.pub")) as file:
            lab.write("ssh/known", "test-host " + file.read())
        # PAM, because a locked root (no password) may log in by key only with it; others could not use it.
        lab.write("ssh/sshd.conf",
                  "ListenAddress 127.0.0.1\nPort %d\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\n"
                  "UsePAM %s\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                  "PermitRootLogin prohibit-password\nUseDNS no\nMaxStartups 100\nPrintMotd no\nPrintLastLog no\n"
                  "Subsystem sftp internal-sftp\n" %
                  (self.port, lab.path("ssh", "host"), lab.path("ssh", "user.pub"), "yes" if is_root() else "no"))

    def options(self):
        return ["-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none",
                "-o", "StrictHostKeyChecking=yes", "-o", "HostKeyAlias=test-host",
                "-o", "GlobalKnownHostsFile=/dev/null", "-o", "UserKnownHostsFile=" + self.lab.path("ssh", "known"),
                "-o", "User=" + self.user,
                "-o", "ConnectTimeout=20", "-i", self.lab.path("ssh", "user")]

    def server(self):
        if is_root():
            # Where an unprivileged part of it is locked up: the package makes it at boot, but nobody booted.
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        return running(self.lab, "sshd", [find("sshd"), "-D", "-e", "-f", self.lab.path("ssh", "sshd.conf")], self.port)
